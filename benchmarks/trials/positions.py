"""What is a positional encoding worth to a language model, within its trained length and beyond?

    python benchmarks/trials/positions.py rates seeds longer_rates longer shorter

Models learn stories as running text, in rows of S = 64 tokens.

Arms        One model with different positional encodings: none, learned, sinusoidal, rotary, ALiBi,
            and T5's learned biases. What is added to the tokens is controlled for size: learned
            rows and sinusoids both start at `scale` times the root mean square of a token's row.
            Learned tables have 4 S rows, of which training reaches the first S. A trained rotary
            model is also measured with its positions changed (`asked`), and after 30 more steps
            on rows of 4 S.
Fixed       300 steps of Muon. `longer` takes six arms through four times the steps.
Rates       Halved and doubled until the best is between two others, with seed 0, by `inside`.
            `longer_rates` searches anew from there, since longer training wants smaller steps.
Seeds       Three fresh ones.
Shorter     80 steps with seed 1, at the best rates: rows that a chapter can make again while it is
            read.
Measured    Losses in nats per token, all over the same tokens of held-out stories: the last 3 S of
            windows of 4 S. `inside` predicts each from the S / 2 to S tokens before it, so that no
            position is new. `twice` and `four` predict from the beginning of the window, for
            positions S to 2 S and 2 S to 4 S. `inside_twice` and `inside_four` are over the same
            tokens as these. So `four - inside_four` is what going beyond the trained length costs
            or, below zero, what the longer context is worth.
Against     "Learned positions do no better than sinusoids, and worse beyond" fails if their rows
            win inside by more than two standard errors, or if their cost beyond is lower.

Chapter 2 reads the table, and repeats one row.
"""

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from trial import Trial, seeded, take_steps

from decoder_only.data import Corpus, text_corpus, training_batch
from decoder_only.model.config import GPTConfig
from decoder_only.model.embeddings import rotations, sinusoids
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.model.multihead import MultiHeadAttention
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training.optimizers import build_optimizers, warmup_stable_decay

VOCAB_SIZE, S, BATCH_SIZE, N_HEADS = 512, 64, 8, 4
N_WINDOWS = 128
SLOPES = torch.tensor([4.0 ** -(head + 1) for head in range(N_HEADS)])
# How a trained rotary model is measured beyond its length: with positions closer together, or with
# a base that turns all planes but the first more slowly.
ASKED = {
    "as trained": (1, 10_000.0),
    "interpolated": (4, 10_000.0),
    "base 30000": (1, 30_000.0),
    "base 100000": (1, 100_000.0),
    "base 500000": (1, 500_000.0),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    positions: str
    scale: float | None = None
    steps: int = 300
    learning_rate: float = 2.0**-6
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured of a model, in nats per token; of a rotary one in several ways."""

    asked: str
    inside: float
    inside_twice: float
    inside_four: float
    twice: float
    four: float


ARMS = [
    Run(positions="none"),
    *(Run(positions="learned", scale=scale) for scale in (0.25, 1.0, 4.0)),
    *(Run(positions="sinusoidal", scale=scale) for scale in (0.25, 1.0, 4.0, 16.0)),
    Run(positions="rotary"),
    Run(positions="alibi"),
    Run(positions="biases"),
]
LONGER = [
    replace(arm, steps=4 * arm.steps)
    for arm in ARMS
    if arm.scale == {"learned": 1.0, "sinusoidal": 4.0}.get(arm.positions)
]
TRIAL = Trial(
    "positions",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3),
    score="inside",
    scored={"asked": "as trained"},
    packages=("torch", "numpy", "tiktoken", "regex"),
)


def longer_rates() -> Iterator[list[Run]]:
    """Six arms with four times the steps, at rates around those that were best."""
    best = [TRIAL.best(replace(arm, steps=Run.steps)) for arm in LONGER]
    yield from TRIAL.search([replace(arm, steps=4 * Run.steps) for arm in best])


def longer() -> Iterator[list[Run]]:
    """These six at their best rates, from three fresh seeds."""
    yield from TRIAL.repeat(LONGER)


def shorter() -> Iterator[list[Run]]:
    """80 steps at the best rates of 300; what rotary models are asked besides takes too long."""
    yield [
        replace(run, steps=80, seed=TRIAL.seeds[0])
        for run in map(TRIAL.best, ARMS)
        if run.positions != "rotary"
    ]


def place(model: GPT, run: Run) -> None:
    """Give a model its positional encoding, where the package has none of that kind."""
    if run.scale is not None:
        rows = model.positions.weight
        if run.positions == "sinusoidal":
            waves = sinusoids(torch.arange(len(rows)), d_model=rows.shape[1])
            rows.data = 0.02 * 2**0.5 * waves
            rows.requires_grad_(False)
        rows.data *= run.scale
    if run.positions == "alibi":
        add_to_scores(model, alibi)
    if run.positions == "biases":
        # T5's, without its pooling of distances: one for each, the last for all beyond.
        model.biases = nn.Embedding.from_pretrained(
            torch.zeros(N_HEADS, S), freeze=False
        )
        add_to_scores(model, functools.partial(learned_biases, model.biases.weight))


def ask(model: GPT, shrink: float, base: float) -> list[RemovableHandle]:
    """Have a rotary model read its positions closer together, or by another base."""

    def rotate_otherwise(attention: nn.Module, inputs: tuple, named: dict) -> tuple:
        places = torch.arange(inputs[0].shape[1]) / shrink
        rotation = rotations(places, head_dim=attention.head_dim, base=base)
        return inputs, {**named, "rotation": rotation}

    return [
        block.attention.register_forward_pre_hook(rotate_otherwise, with_kwargs=True)
        for block in model.blocks
    ]


def alibi(length: int) -> Tensor:
    """Minus the distance times the slope of each head; minus infinity for what comes later."""
    return seen(-SLOPES[:, None, None] * distances(length))


def learned_biases(biases: Tensor, length: int) -> Tensor:
    return seen(biases[:, distances(length).clamp(0, S - 1)])


def distances(length: int) -> Tensor:
    place = torch.arange(length)
    return place[:, None] - place


def seen(bias: Tensor) -> Tensor:
    return bias.masked_fill(distances(bias.shape[-1]) < 0, -torch.inf)


def add_to_scores(model: GPT, bias: Callable[[int], Tensor]) -> None:
    """Have every block's attention add a bias to its scores, a matrix for each head."""

    def forward(attention: MultiHeadAttention, x: Tensor, **_: object) -> Tensor:
        projected, mask = attention.project(x), bias(x.shape[1])
        heads = F.scaled_dot_product_attention(*projected, attn_mask=mask)
        return attention.output(rearrange(heads, "b h s k -> b s (h k)"))

    for block in model.blocks:
        block.attention.forward = functools.partial(forward, block.attention)


@functools.cache
def material() -> tuple[Corpus, Tensor]:
    """Stories to learn from, and windows of 4 S tokens, and the one that follows, of others."""
    language = StoryLanguage()
    some = list(islice(language.stories(split="train", seed=0), 4000))
    tokenizer = BytePairTokenizer.train(some, VOCAB_SIZE)
    held_out = islice(language.stories(split="validation", seed=0), 400)
    ids = text_corpus(list(held_out), tokenizer).ids.astype("int64")
    windows = torch.from_numpy(ids).unfold(0, 4 * S + 1, 4 * S)[:N_WINDOWS]
    return text_corpus(some, tokenizer), windows


def learn(run: Run) -> GPT:
    """Train a model from the beginning."""
    kind = "none" if run.positions in ("alibi", "biases") else run.positions
    config = GPTConfig(
        vocab_size=VOCAB_SIZE,
        context_length=4 * S,
        d_model=64,
        n_layers=2,
        n_heads=N_HEADS,
        # Sinusoids here are a table that does not learn.
        positions="learned" if run.scale is not None else kind,
        norm="rms",
        activation="squared_relu",
        qk_norm=True,
        bias=False,
        initialization="zero",
    )
    model = GPT(config, generator=seeded(run.seed))
    place(model, run)
    more(model, run.steps, S, BATCH_SIZE, run.learning_rate, run.seed)
    return model


def more(
    model: GPT, steps: int, length: int, batch_size: int, peak: float, seed: int
) -> None:
    """Train a model on rows of some length."""

    def batch_at(step: int) -> tuple[Tensor, Tensor]:
        size = {"batch_size": batch_size, "context_length": length}
        return training_batch(material()[0], seed=seed, step=step, **size)

    optimizers = build_optimizers(model, optimizer="muon", learning_rate=peak)
    share_at = partial(
        warmup_stable_decay,
        warmup_steps=steps // 20,
        total_steps=steps,
        decay_fraction=0.6,
    )
    take_steps(model, optimizers, batch_at, steps=steps, share_at=share_at)


@torch.no_grad()
def losses(model: GPT) -> dict[str, float]:
    """The losses of the table: see above."""
    windows = material()[1]
    model.eval()
    beyond = surprise(model, windows)[:, S:]
    # Windows of S that overlap by half, of which the second half counts.
    short = windows.unfold(1, S + 1, S // 2)[:, 1:]
    inside = surprise(model, short.flatten(0, 1))[:, S // 2 :]
    inside = inside.reshape(len(windows), 3 * S)
    found = {
        "inside": inside,
        "inside_twice": inside[:, :S],
        "inside_four": inside[:, S:],
        "twice": beyond[:, :S],
        "four": beyond[:, S:],
    }
    return {name: loss.mean().item() for name, loss in found.items()}


def surprise(model: GPT, rows: Tensor) -> Tensor:
    parts = [
        next_token_loss(model(part[:, :-1]), part[:, 1:], reduction="none")
        for part in rows.split(32)
    ]
    return torch.cat(parts)


def measure(run: Run) -> Iterator[Found]:
    """Make one run, and measure it in all ways that its arm has."""
    model = learn(run)
    yield Found(asked="as trained", **losses(model))
    if run.positions != "rotary":
        return
    for asked, way in ASKED.items():
        if asked != "as trained":
            hooks = ask(model, *way)
            yield Found(asked=asked, **losses(model))
            for hook in hooks:
                hook.remove()
    if run.seed in TRIAL.seeds:
        for asked in ("as trained", "interpolated"):
            longer = copy.deepcopy(model)
            ask(longer, *ASKED[asked])
            more(longer, 30, 4 * S, BATCH_SIZE // 4, run.learning_rate / 4, 100)
            yield Found(asked=f"{asked}, 30 steps more", **losses(longer))


if __name__ == "__main__":
    TRIAL.main(
        measure,
        rates=TRIAL.search,
        seeds=TRIAL.repeat,
        longer_rates=longer_rates,
        longer=longer,
        shorter=shorter,
    )
