"""Parameter groups, AdamW and the learning rate's course."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoder_only import GPT, GPTConfig
from decoder_only.optimization import (
    adamw,
    learning_rate,
    parameter_groups,
    set_learning_rate,
)


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


def test_a_step_is_the_formula_of_the_docstring():
    model = torch.nn.Linear(2, 1, bias=False)
    before = model.weight.detach().clone()
    optimizer = adamw(model, learning_rate=0.1, weight_decay=0.5, beta1=0.9, beta2=0.95)
    gradient = torch.tensor([[1.0, -2.0]])
    model.weight.grad = gradient.clone()
    optimizer.step()
    # After one step the corrected means are the gradient and its square.
    expected = before - 0.1 * (gradient / (gradient.abs() + 1e-8) + 0.5 * before)
    torch.testing.assert_close(model.weight.detach(), expected)


def test_without_a_gradient_only_the_matrices_fade():
    model = tiny()
    optimizer = adamw(model, learning_rate=0.1, weight_decay=0.5)
    before = {
        name: parameter.detach().clone() for name, parameter in model.named_parameters()
    }
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and name.startswith("blocks")
        torch.testing.assert_close(
            parameter, before[name] * (0.95 if is_matrix else 1.0)
        )


schedules = st.fixed_dictionaries(
    {
        "warmup_steps": st.integers(0, 50),
        "total_steps": st.integers(60, 500),
        "peak": st.floats(1e-5, 1.0),
        "final": st.floats(0, 1e-5),
    }
)


@given(schedules)
def test_the_rate_rises_in_a_line_falls_along_a_cosine_and_stays_within_bounds(
    schedule,
):
    warmup, total = schedule["warmup_steps"], schedule["total_steps"]
    peak, final = schedule["peak"], schedule["final"]
    rates = [learning_rate(step, **schedule) for step in range(total + 3)]
    assert all(0 < rate <= peak for rate in rates[:total])
    assert rates[:warmup] == sorted(rates[:warmup])
    assert rates[warmup:] == sorted(rates[warmup:], reverse=True)
    assert rates[warmup] == pytest.approx(peak)
    assert rates[total:] == [final] * 3
    # No jump: a step changes the rate by at most a line's slope or the cosine's steepest one.
    steepest = max(
        peak / max(warmup, 1), (peak - final) * math.pi / 2 / (total - warmup)
    )
    changes = [abs(after - before) for before, after in pairwise(rates)]
    assert max(changes) <= steepest * (1 + 1e-9)


def test_the_rate_at_points_that_can_be_checked_by_hand():
    schedule = {"warmup_steps": 10, "total_steps": 110, "peak": 1.0, "final": 0.2}
    assert learning_rate(0, **schedule) == pytest.approx(0.1)
    assert learning_rate(9, **schedule) == pytest.approx(1.0)
    assert learning_rate(60, **schedule) == pytest.approx(0.6)
    assert learning_rate(110, **schedule) == 0.2


def test_the_rate_reaches_every_group():
    optimizer = adamw(tiny(), learning_rate=1.0)
    set_learning_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]
