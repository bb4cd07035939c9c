"""Parameter groups, AdamW and the learning rate's course."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from decoder_only import GPT, GPTConfig
from decoder_only.model.counting import widened
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training.optimizers import (
    SCHEDULES,
    Muon,
    build_optimizers,
    cosine,
    inverse_square_root,
    orthogonalize,
    parameter_groups,
    set_learning_rate,
    warmup_stable_decay,
)
from decoder_only.variants.finetuning import add_lora


def tiny(**settings) -> GPT:
    shape = {
        "vocab_size": 11,
        "context_length": 8,
        "d_model": 8,
        "n_layers": 2,
        "n_heads": 2,
    }
    return GPT(
        GPTConfig(**{**shape, **settings}), generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_each_parameter_is_in_one_group_and_only_matrices_of_linear_maps_decay(
    tied, positions
):
    model = tiny(tied=tied, positions=positions, qk_norm=True)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed, others = parameter_groups(model, weight_decay=0.1)
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    everything = [
        id(parameter) for group in (decayed, others) for parameter in group["params"]
    ]
    assert sorted(everything) == sorted(names)
    parts = ("query", "key", "value", "output", "up", "down")
    expected = {
        name
        for name in names.values()
        if name.endswith(tuple(f"{p}.weight" for p in parts))
    }
    assert {names[id(parameter)] for parameter in decayed["params"]} == expected
    assert len(expected) == 2 * len(parts)


def test_frozen_parameters_are_left_out():
    model = tiny()
    model.embedding.weight.requires_grad_(False)
    groups = parameter_groups(model, weight_decay=0.1)
    assert all(
        p is not model.embedding.weight for group in groups for p in group["params"]
    )


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_each_parameter_is_moved_by_one_optimizer(optimizer):
    model = tiny(qk_norm=True)
    optimizers = build_optimizers(model, optimizer=optimizer, learning_rate=0.1)
    assert [type(each).__name__ for each in optimizers] == (
        ["AdamW"] if optimizer == "adamw" else ["AdamW", "Muon"]
    )
    moved = [
        id(parameter)
        for each in optimizers
        for group in each.param_groups
        for parameter in group["params"]
    ]
    assert sorted(moved) == sorted(id(parameter) for parameter in model.parameters())
    if optimizer == "muon":
        matrices = optimizers[1].param_groups[0]["params"]
        assert len(matrices) == 2 * 6
        assert not any(p is model.embedding.weight for p in matrices)


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match="optimizer='sgd' is unknown; choose 'adamw'"):
        build_optimizers(tiny(), optimizer="sgd", learning_rate=0.1)


def test_an_adamw_step_is_the_formula_of_the_docstring():
    model = torch.nn.Linear(2, 1, bias=False)
    before = model.weight.detach().clone()
    (adamw,) = build_optimizers(model, learning_rate=0.1, weight_decay=0.5)
    gradient = torch.tensor([[1.0, -2.0]])
    model.weight.grad = gradient.clone()
    adamw.step()
    # After one step the corrected means are the gradient and its square.
    expected = before - 0.1 * (gradient / (gradient.abs() + 1e-8) + 0.5 * before)
    torch.testing.assert_close(model.weight.detach(), expected)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_without_a_gradient_only_the_matrices_fade(optimizer):
    model = tiny()
    before = {
        name: parameter.detach().clone() for name, parameter in model.named_parameters()
    }
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for each in build_optimizers(
        model, optimizer=optimizer, learning_rate=0.1, weight_decay=0.5
    ):
        each.step()
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and name.startswith("blocks")
        torch.testing.assert_close(
            parameter, before[name] * (0.95 if is_matrix else 1.0)
        )


def test_the_share_reaches_every_group():
    optimizers = build_optimizers(tiny(), optimizer="muon", learning_rate=0.4)
    for share in (0.25, 0.5):  # of the peak, not of what was set before
        set_learning_rate(optimizers, share)
        rates = [group["lr"] for each in optimizers for group in each.param_groups]
        assert rates == [0.4 * share] * 2


# ----------------------------------------------------------------------------------------- width


@pytest.mark.parametrize("ratio", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("optimizer", "power"), [("adamw", 1.0), ("muon", 0.5)])
def test_the_rate_of_the_matrices_alone_falls_with_the_width(optimizer, power, ratio):
    model = tiny(qk_norm=True)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = [
        group
        for each in build_optimizers(
            model,
            optimizer=optimizer,
            learning_rate=0.4,
            weight_decay=0.1,
            width_ratio=ratio,
        )
        for group in each.param_groups
    ]
    assert len(groups) == 2
    for group in groups:
        of_blocks = {
            names[id(p)].startswith("blocks") and p.ndim == 2 for p in group["params"]
        }
        assert len(of_blocks) == 1
        slower = ratio**power if of_blocks == {True} else 1.0
        assert group["lr"] == group["initial_lr"] == pytest.approx(0.4 / slower)
        # What decays per step does not depend on the width.
        decay = 0.1 if of_blocks == {True} else 0.0
        assert group["lr"] * group["weight_decay"] == pytest.approx(0.4 * decay)


def change_of_logits(config: GPTConfig, optimizer: str, *, seed: int) -> float:
    """Root mean square, by three steps at one rate on one batch."""
    model = GPT(config, generator=torch.Generator().manual_seed(seed))
    ids = torch.randint(32, (4, 17), generator=torch.Generator().manual_seed(99))
    optimizers = build_optimizers(
        model,
        optimizer=optimizer,
        learning_rate=0.003,
        weight_decay=0.0,
        width_ratio=config.width_ratio,
    )
    before = model(ids[:, :-1]).detach()
    for _ in range(3):
        for each in optimizers:
            each.zero_grad()
        next_token_loss(model(ids[:, :-1]), ids[:, 1:]).backward()
        for each in optimizers:
            each.step()
    return (model(ids[:, :-1]) - before).square().mean().sqrt().item()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_under_muP_one_rate_moves_every_width_as_far(optimizer, tied):
    """The coordinate check: with standard weights the change grows, about as sqrt(D) or faster."""
    base = GPTConfig(
        vocab_size=32, context_length=16, d_model=32, n_layers=2, n_heads=4, tied=tied
    )
    widths = (32, 64, 128, 256)
    standard, scaled = (
        [change_of_logits(config, optimizer, seed=0) for config in configs]
        for configs in (
            [dataclasses.replace(base, d_model=width) for width in widths],
            [widened(base, width) for width in widths],
        )
    )
    # Found: 4.8 to 6.1 times from the narrowest to the widest, and 0.67 to 0.85 times.
    assert standard == sorted(standard)
    assert standard[-1] / standard[0] > 3
    assert max(scaled) / min(scaled) < 1.6


# ------------------------------------------------------------------------------------------ Muon


def random_matrices(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def polynomial(x: torch.Tensor) -> torch.Tensor:
    return 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5


def by_singular_values(x: torch.Tensor, n_iterations: int) -> torch.Tensor:
    u, s, vt = torch.linalg.svd(x, full_matrices=False)
    s = s / s.square().sum(-1, keepdim=True).sqrt()
    for _ in range(n_iterations):
        s = polynomial(s)
    return u * s[:, None] @ vt


@pytest.mark.parametrize("shape", [(3, 4, 9), (2, 9, 4), (1, 5, 5), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("n_iterations", [0, 1, 5])
def test_orthogonalizing_equals_the_polynomial_of_the_singular_values(
    shape, n_iterations
):
    x = random_matrices(*shape)
    found = orthogonalize(x, n_iterations=n_iterations)
    wanted = by_singular_values(x, n_iterations)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_iterations", [1, 5, 10])
@pytest.mark.parametrize("rank", [1, 8])
def test_long_matrices_of_low_rank_in_32_bits(rank, n_iterations):
    """What rounding leaves of zeros is lifted like all that is small, and no more."""
    x = random_matrices(2, 32, rank) @ random_matrices(2, rank, 128, seed=1)
    found = orthogonalize(x.float(), n_iterations=n_iterations)
    wanted = by_singular_values(x, n_iterations).float()
    lifted = max(1e-7 * 3.4445**n_iterations, 1e-6)
    torch.testing.assert_close(found, wanted, rtol=0, atol=lifted)


def test_singular_values_end_near_one():
    s = torch.linalg.svdvals(orthogonalize(random_matrices(8, 64, 256)))
    assert s.min() > 0.65
    assert s.max() < 1.25
    zero = torch.zeros(1, 3, 4)
    assert torch.equal(orthogonalize(zero), zero)


def test_a_muon_step_is_the_formula_of_the_docstring():
    """Two steps of one matrix, the second with a mean that remembers the first."""
    weight = torch.nn.Parameter(random_matrices(4, 6))
    before, gradients = weight.detach().clone(), random_matrices(2, 4, 6, seed=1)
    muon = Muon([weight], learning_rate=0.1, momentum=0.9, weight_decay=0.5)
    mean = torch.zeros(4, 6, dtype=torch.float64)
    for gradient in gradients:
        weight.grad = gradient.clone()
        muon.step()
        mean = 0.9 * mean + 0.1 * gradient
        ahead = 0.9 * mean + 0.1 * gradient
        direction = orthogonalize(ahead[None])[0]
        before = before - 0.1 * (0.2 * 6**0.5 * direction + 0.5 * before)
    torch.testing.assert_close(weight.detach(), before)


def test_matrices_together_equal_matrices_alone():
    """Stacking is a matter of speed: order and company change nothing."""
    shapes = [(4, 6), (6, 4), (4, 6), (5, 5), (4, 6)]
    values = [random_matrices(*shape, seed=i) for i, shape in enumerate(shapes)]
    gradients = [random_matrices(*shape, seed=9 + i) for i, shape in enumerate(shapes)]
    together = [torch.nn.Parameter(value.clone()) for value in values]
    alone = [torch.nn.Parameter(value.clone()) for value in values]
    optimizers = [Muon(together, learning_rate=0.1)]
    optimizers += [Muon([parameter], learning_rate=0.1) for parameter in alone]
    for _ in range(3):
        for parameters in (together, alone):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    for a, b, start in zip(together, alone, values, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
        assert not torch.equal(a, start)


def test_equals_pytorchs_muon(monkeypatch):
    """Theirs multiplies in bfloat16 always: held to float32, only the rule is compared."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    monkeypatch.setattr(torch, "bfloat16", torch.float32)
    shapes = [(16, 16), (16, 48), (48, 16)]
    ours, theirs = (
        [
            torch.nn.Parameter(random_matrices(*shape, seed=i).float())
            for i, shape in enumerate(shapes)
        ]
        for _ in range(2)
    )
    settings = {"momentum": 0.95, "weight_decay": 0.1}
    mine = Muon(ours, learning_rate=0.5, **settings)
    other = torch.optim.Muon(theirs, lr=0.5, adjust_lr_fn="match_rms_adamw", **settings)
    for step in range(3):
        for parameters in (ours, theirs):
            for i, p in enumerate(parameters):
                p.grad = random_matrices(*p.shape, seed=10 * step + i).float()
        mine.step()
        other.step()
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).norm() / b.norm() < 1e-4


def test_steps_are_as_long_as_adamws():
    """So one learning rate serves both: root mean square 0.2 per step where rows are random."""
    for shape in [(128, 128), (128, 512), (512, 128)]:
        weight = torch.nn.Parameter(torch.zeros(shape))
        weight.grad = random_matrices(*shape).float()
        Muon([weight], learning_rate=1.0).step()
        length = weight.detach().square().mean().sqrt().item()
        assert length == pytest.approx(0.2, rel=0.15)


def test_a_model_that_is_frozen_whole_is_refused():
    with pytest.raises(ValueError, match="no parameter of the model requires a grad"):
        build_optimizers(tiny().requires_grad_(False), learning_rate=0.1)


def test_any_optimizer_has_a_peak():
    weight = nn.Parameter(torch.zeros(2))
    sgd = torch.optim.SGD([{"params": [weight], "lr": 0.5}], lr=0.1)
    for share in (0.5, 0.25):
        set_learning_rate([sgd], share)
        assert sgd.param_groups[0]["lr"] == 0.5 * share


def test_a_matrix_is_a_matrix_wherever_it_lives():
    """As low-rank additions, whose factors are no weights of linear maps."""
    model = tiny()
    moving = add_lora(model, rank=2)
    (muon,) = build_optimizers(model, optimizer="muon", learning_rate=0.1)
    assert isinstance(muon, Muon)
    assert {*muon.param_groups[0]["params"]} == {*moving}
    table = nn.Embedding(4, 3)
    assert parameter_groups(table, weight_decay=0.1)[1]["params"] == [table.weight]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_step_flagged_as_not_finite_changes_nothing(optimizer):
    model = tiny()
    optimizers = build_optimizers(model, optimizer=optimizer, learning_rate=0.1)

    def step(gradient: float, flag: float) -> None:
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        for each in optimizers:
            each.found_inf = torch.tensor(flag)
            each.step()

    def state() -> list[torch.Tensor]:
        kept = [s for each in optimizers for s in each.state.values()]
        return [*model.parameters(), *(x for s in kept for x in s.values())]

    step(1.0, 0.0)
    before = [x.detach().clone() for x in state()]
    step(math.nan, 1.0)
    for now, then in zip(state(), before, strict=True):
        assert torch.equal(now, then)
    step(1.0, 0.0)
    assert not torch.equal(model.embedding.weight, before[0])


def test_a_vector_is_refused():
    with pytest.raises(ValueError, match=r"not a parameter of shape \(3,\); give that"):
        Muon([torch.nn.Parameter(torch.zeros(3))], learning_rate=0.1)


# -------------------------------------------------------------------------------------- schedules


@given(st.sampled_from(sorted(SCHEDULES)), st.integers(0, 50), st.integers(60, 500))
def test_every_schedule_rises_in_a_line_then_never_rises(name, warmup, total):
    shares = [
        SCHEDULES[name](step, warmup_steps=warmup, total_steps=total)
        for step in range(total + 3)
    ]
    assert all(0 < share <= 1 for share in shares[:total])
    assert shares[:warmup] == pytest.approx([(n + 1) / warmup for n in range(warmup)])
    assert shares[warmup:] == sorted(shares[warmup:], reverse=True)
    assert max(shares) == pytest.approx(1)
    if name != "inverse_square_root":
        assert shares[total:] == [0.0] * 3


def test_cosine_at_points_that_can_be_checked_by_hand():
    course = {"warmup_steps": 10, "total_steps": 110}
    assert cosine(0, **course) == pytest.approx(0.1)
    assert cosine(9, **course) == pytest.approx(1.0)
    assert cosine(35, **course) == pytest.approx((1 + 0.5**0.5) / 2)
    assert cosine(60, **course) == pytest.approx(0.5)


def test_stable_decay_at_points_that_can_be_checked_by_hand():
    course = {"warmup_steps": 10, "total_steps": 110, "decay_fraction": 0.4}
    assert [warmup_stable_decay(step, **course) for step in (10, 70)] == [1.0, 1.0]
    assert warmup_stable_decay(80, **course) == pytest.approx(0.75)
    assert warmup_stable_decay(109, **course) == pytest.approx(1 / 40)


@pytest.mark.parametrize("step", [0, 7, 3999, 4000, 100_000])
def test_inverse_square_root_is_the_original_rate(step):
    d, w, n = 512, 4000, step + 1
    original = d**-0.5 * min(n**-0.5, n * w**-1.5)
    peak = (d * w) ** -0.5
    assert peak * inverse_square_root(step, warmup_steps=w) == pytest.approx(original)
