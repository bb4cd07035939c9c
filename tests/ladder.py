"""What the tests of the model share: the ladder's record, a sample of variants, small helpers.

A rung of the ladder is one piece shown equal to a trusted implementation, outputs and gradients.
`python tests/ladder.py` climbs every rung and prints the largest deviation met on each.
"""

import itertools
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

from decoder_only import GPT, GPTConfig

# Largest deviation by rung and dtype, filled by `compare`.
deviations: dict[str, dict[torch.dtype, float]] = {}

# A deviation is |ours - theirs| / max(1, largest |theirs|). The largest found were 2e-6 and 9e-15;
# another processor adds up in another order, so the bounds leave it a factor of five to ten.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-13}
PRECISIONS = tuple(TOLERANCE)

# Sizes that share no value, so that no axis can be mistaken for another.
SIZES = {
    "vocab_size": 19,
    "context_length": 9,
    "d_model": 10,
    "n_layers": 3,
    "n_heads": 6,
}
B, S, V = 2, 7, SIZES["vocab_size"]


def compare(rung: str, ours: object, theirs: object) -> None:
    """Assert that tensors, or sequences or dictionaries of them, agree; record how closely."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        assert set(ours) == set(theirs)
        pairs = [(name, ours[name], theirs[name]) for name in theirs]
    elif isinstance(theirs, Tensor):
        pairs = [("the output", ours, theirs)]
    else:
        pairs = [
            (f"item {i}", *pair)
            for i, pair in enumerate(zip(ours, theirs, strict=True))
        ]
    for name, a, b in pairs:
        assert a.shape == b.shape, f"{rung}: {name} has shape {a.shape}, not {b.shape}"
        assert a.dtype == b.dtype, f"{rung}: {name} has dtype {a.dtype}, not {b.dtype}"
        deviation = ((a - b).abs().max() / b.abs().max().clamp(min=1)).item()
        bound = TOLERANCE[b.dtype]
        assert deviation <= bound, (
            f"{rung}: {name} deviates by {deviation:.1e} > {bound:.0e}"
        )
        record = deviations.setdefault(rung, {})
        record[b.dtype] = max(record.get(b.dtype, 0.0), deviation)


def results(output: Tensor, *leaves: Tensor) -> list[Tensor]:
    """The output, and the gradient of a fixed random functional of it at every leaf."""
    noise = torch.randn(
        output.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7)
    )
    return [
        output,
        *torch.autograd.grad((output * noise.to(output.dtype)).sum(), leaves),
    ]


def normal(
    *shape: int, seed: int, dtype: torch.dtype = torch.float64, grad: bool = True
) -> Tensor:
    """Independent standard normal numbers, the same for every dtype up to rounding."""
    x = torch.randn(
        shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    return x.to(dtype).requires_grad_(grad)


def randomize(module: nn.Module, *, std: float = 0.3, seed: int = 1) -> nn.Module:
    """Give every weight an arbitrary value, the scales of norms around one, the rest around zero.

    At the initial values biases vanish, norms do nothing, and zero-initialised parts let no
    gradient through: many a wrong formula would agree.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(
                parameter.shape, dtype=torch.float64, generator=generator
            )
            parameter.copy_(parameter.mean().round() + std * noise)
    return module


def build(
    dtype: torch.dtype = torch.float64, *, seed: int = 1, **settings: object
) -> GPT:
    """A small model with arbitrary weights, ready to compare."""
    model = GPT(
        GPTConfig(**{**SIZES, "head_dim": 4, **settings}),
        generator=torch.Generator().manual_seed(0),
    )
    return randomize(model.to(dtype), seed=seed).eval()


def random_ids(rows: int = B, length: int = S, *, seed: int = 3) -> Tensor:
    return torch.randint(
        V, (rows, length), generator=torch.Generator().manual_seed(seed)
    )


def gradients_at_embeddings(
    model: GPT, ids: Tensor
) -> Iterator[tuple[int, int, Tensor]]:
    """For each row and position of the output, the gradient of its logits at the embedded ids.

    The logits are weighted by random numbers, so that nothing cancels. Yields the row, the
    position, and a gradient of shape (b, s), the largest magnitude over the channels.
    """
    embedded = model.embedding(ids).detach().requires_grad_()
    handle = model.embedding.register_forward_hook(
        lambda module, inputs, output: embedded
    )
    logits = model(ids)
    handle.remove()
    weighted = (
        logits * normal(*logits.shape, seed=5, dtype=logits.dtype, grad=False)
    ).sum(-1)
    for row, position in itertools.product(range(ids.shape[0]), range(ids.shape[1])):
        (gradient,) = torch.autograd.grad(
            weighted[row, position], embedded, retain_graph=True
        )
        yield row, position, gradient.abs().amax(-1)


@contextmanager
def unchecked() -> Iterator[None]:
    """As in ordinary runs: without the annotations' run-time checks, which would speak first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def examples(n: int) -> int:
    """As many of a generated kind in an ordinary run, which are always the same; or a thousand."""
    return n if settings.default.derandomize else 1000


def pairwise(options: dict[str, tuple], *, seed: int = 0) -> list[dict[str, object]]:
    """A few settings in which every two values of different options meet at least once."""
    rng = random.Random(seed)

    def pairs(settings: dict[str, object]) -> set:
        return set(itertools.combinations(settings.items(), 2))

    unmet = set()
    for (m, ms), (n, ns) in itertools.combinations(options.items(), 2):
        unmet |= {((m, a), (n, b)) for a in ms for b in ns}
    chosen = []
    while unmet:
        candidates = [
            {name: rng.choice(values) for name, values in options.items()}
            for _ in range(99)
        ]
        best = max(candidates, key=lambda settings: len(pairs(settings) & unmet))
        if newly_met := pairs(best) & unmet:
            chosen.append(best)
            unmet -= newly_met
    return chosen


OPTIONS = {
    "positions": ("learned", "sinusoidal", "rotary", "none"),
    "norm": ("layer", "rms"),
    "norm_position": ("pre", "post"),
    "activation": ("relu", "gelu", "gelu_tanh", "squared_relu", "swiglu"),
    "windows": ((None,), (3,), (4, 2)),
    "n_kv_heads": (None, 3, 1),
    "qk_norm": (False, True),
    "attention_scale": (None, 0.3),
    "bias": (False, True),
    "tied": (False, True),
    "soft_cap": (None, 2.0),
    "norm_eps": (1e-5, 1e-2),
    "initialization": ("gpt2", "zero"),
}
VARIANTS = [
    pytest.param(
        settings,
        id="-".join(str(value).replace(" ", "") for value in settings.values()),
    )
    for settings in pairwise(OPTIONS)
]
# The first were chosen for the most pairs: together they have every value but one activation.
FEW = VARIANTS[:4]


if __name__ == "__main__":
    here = Path(__file__).parent
    climbers = [
        path
        for path in here.glob("test_*.py")
        if "from ladder import" in path.read_text()
    ]
    # The tests import this file once more, as the module `ladder`, and fill that one's record.
    outcome = pytest.main(
        ["-q", "-o", "addopts=", "-k", "equal", *map(str, sorted(climbers))]
    )
    for rung, found in sys.modules["ladder"].deviations.items():
        figures = [
            f"{str(dtype)[6:]} {found[dtype]:.1e}"
            for dtype in PRECISIONS
            if dtype in found
        ]
        print(f"{rung:<60}" + "   ".join(figures))
    sys.exit(outcome)
