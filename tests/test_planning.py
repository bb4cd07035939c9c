"""A plan keeps what it was given, adds up, and fits the device that it is for."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from decoder_only import GPT
from decoder_only.analysis.laws import PUBLISHED, JointLaw
from decoder_only.analysis.planning import plan_training, shape_for
from decoder_only.base.hardware import DEVICES
from decoder_only.model.counting import (
    activation_bytes,
    count_parameters,
    flops_per_token,
    training_bytes,
)
from decoder_only.training import TrainConfig
from decoder_only.variants.parallelism import TensorParallel
from decoder_only.variants.parallelism.group import launch

# -------------------------------------------------------------------------------------------- shape


@settings(max_examples=8)
@given(st.floats(7, 12))
@example(7.0)
@example(12.0)
def test_a_shape_has_about_the_parameters_asked_for(power):
    wanted = 10**power
    config = shape_for(wanted)
    assert sum(count_parameters(config).values()) == pytest.approx(wanted, rel=0.05)
    assert config.head_width == 64
    # Below 1e8 the vocabulary takes most, and few shapes are left.
    low, high = (20, 200) if wanted < 1e8 else (30, 130)
    assert low < config.d_model / config.n_layers < high


@pytest.mark.parametrize("n_parameters", [7e9, 2e10, 1e14, 9e14])
def test_large_shapes_can_be_built(n_parameters):
    found = sum(count_parameters(shape_for(n_parameters)).values())
    assert found == pytest.approx(n_parameters, rel=0.05)


def test_a_shape_takes_the_vocabulary_and_the_context_it_is_given():
    config = shape_for(1e8, vocab_size=1000, context_length=77)
    assert (config.vocab_size, config.context_length) == (1000, 77)
    assert sum(count_parameters(config).values()) == pytest.approx(1e8, rel=0.05)
    # Modern parts, whose counts of operations and activations are all known.
    assert activation_bytes(config, 1, 77)
    assert not config.bias
    assert config.qk_norm


@pytest.mark.parametrize("n_parameters", [1, 1e6, 3e6])
def test_too_few_parameters_are_refused(n_parameters):
    message = r"no model with 50304 tokens has .* the smallest has 3,26\d,\d\d\d; ask for more"
    with pytest.raises(ValueError, match=message):
        shape_for(n_parameters)


# --------------------------------------------------------------------------------------------- plan

LAW = PUBLISHED["besiroglu2024"]
H100 = DEVICES["H100"]
WAYS = {
    "hours": {"hours": 24},
    "flops": {"flops": 1e20},
    "parameters": {"parameters": 3e8},
    "tokens": {"tokens": 1e10},
    "hours and parameters": {"hours": 24, "parameters": 3e8},
    "hours and tokens": {"hours": 24, "tokens": 3e10},
    "flops and parameters": {"flops": 1e20, "parameters": 3e8},
    "flops and tokens": {"flops": 1e20, "tokens": 1e11},
    "parameters and tokens": {"parameters": 3e8, "tokens": 1e10},
}


@pytest.mark.parametrize("budget", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("law", PUBLISHED.values(), ids=PUBLISHED)
def test_a_plan_adds_up_however_the_budget_is_given(law, budget):
    plan = plan_training(law, H100, n_devices=8, utilization=0.5, **budget)
    config = plan.config
    assert plan.flops == pytest.approx(plan.tokens * flops_per_token(config), rel=1e-6)
    at_best = plan.flops / (8 * 989.4e12 * 0.5)
    assert plan.seconds == pytest.approx(at_best / plan.computing)
    assert plan.n_parameters == sum(count_parameters(config).values())
    assert plan.loss == law.loss(plan.n_parameters, plan.tokens)
    # What is given is kept: exactly, but for parameters, whose shapes come in steps, and but
    # for a budget with fixed tokens, which only the shape can meet.
    if "parameters" in budget:
        assert plan.n_parameters == pytest.approx(budget["parameters"], rel=0.05)
    if "tokens" in budget:
        assert plan.tokens == budget["tokens"]
    near = 0.05 if "tokens" in budget else 1e-9
    if "flops" in budget:
        assert plan.flops == pytest.approx(budget["flops"], rel=near)
    if "hours" in budget:
        assert plan.seconds == pytest.approx(3600 * budget["hours"], rel=near)


@pytest.mark.parametrize("law", PUBLISHED.values(), ids=PUBLISHED)
def test_a_single_budget_is_split_as_the_law_says(law):
    n, d = law.best_split(1e20)
    plans = [
        plan_training(law, H100, **given)
        for given in ({"parameters": n}, {"tokens": d}, {"flops": 1e20})
    ]
    for plan in plans[:2]:
        assert plan.n_parameters == pytest.approx(n, rel=0.05)
        assert plan.tokens == pytest.approx(d, rel=1e-6)
    assert plans[2].n_parameters == pytest.approx(n, rel=0.05)
    # Attention is paid for with tokens.
    assert 0.6 * d < plans[2].tokens < d


def test_more_hours_buy_a_larger_model_and_a_lower_loss():
    plans = [
        plan_training(LAW, H100, n_devices=8, hours=2**power) for power in range(10)
    ]
    for little, much in itertools.pairwise(plans):
        assert much.loss < little.loss
        assert much.n_parameters > little.n_parameters
        assert much.tokens > little.tokens


def blocks_of_copies(config) -> float:
    """Bytes of one block's 16-bit copies, from what a forward pass saves."""
    saved = activation_bytes(config, 1, 64, number_format="bfloat16")["weights"]
    return (saved - 2 * config.vocab_size * config.d_model) / config.n_layers


@pytest.mark.parametrize("n_devices", [1, 8])
@pytest.mark.parametrize("n_parameters", [2e7, 3e8, 1e9])
def test_a_device_holds_its_batch_and_not_one_sequence_more(n_devices, n_parameters):
    plan = plan_training(LAW, H100, n_devices=n_devices, parameters=n_parameters)
    spread = ("weights", "gradients", "optimizer")
    # Weights that are gathered block by block exist for two blocks at a time.
    gone = plan.config.n_layers - 2 if n_devices > 1 else 0

    def on_each_device(batch_size: int) -> dict[str, float]:
        whole = training_bytes(plan.config, batch_size)
        whole["activations"] -= gone * blocks_of_copies(plan.config)
        return {n: x / n_devices if n in spread else x for n, x in whole.items()}

    assert plan.memory == on_each_device(plan.batch_size)
    total, free = sum(plan.memory.values()), 0.9 * H100.memory
    assert total <= free < sum(on_each_device(plan.batch_size + 1).values())


def test_dividing_matrices_makes_room_for_more_tokens_on_each_device():
    """As many would be the verdict of a batch that only doubles (chapter 13)."""
    rows = {n: on(64, n).batch_size for n in (1, 2, 4)}
    assert rows[2] > 2 * rows[1]
    assert rows[4] > 4 * rows[1]


# --------------------------------------------------------------------------------- several devices


def on(n_devices: int, tensor_parallel: int = 1, **changes):
    settings = {"parameters": 7e9, "tokens": 1e11, "utilization": 0.5} | changes
    shares = {"n_devices": n_devices, "tensor_parallel": tensor_parallel}
    return plan_training(LAW, H100, **shares, **settings)


def test_one_device_only_computes():
    plan = plan_training(LAW, H100, hours=24)
    assert plan.sent == {"matrices": 0, "state": 0}
    assert plan.computing == 1


@pytest.mark.parametrize("tensor_parallel", [2, 8])
def test_divided_matrices_cost_what_the_width_says(tensor_parallel):
    """(eq-parallelism-width): ten calls a block, two of them to gather again."""
    plan = on(8, tensor_parallel)
    config, p = plan.config, tensor_parallel
    block = 10 * (p - 1) / p * 2 * plan.batch_size * 2048 * config.d_model
    sent = plan.sent["matrices"] / config.n_layers
    assert sent == pytest.approx(block, rel=0.02), "and the ends of the model"
    assert plan.speeds["matrices"] == 450e9
    # Computing over sending, if attention's scores and the head's operations are left out.
    bound = 72 * config.d_model * 450e9 / (20 * (p - 1) * 0.5 * 989.4e12)
    inside = 6 * 12 * config.d_model**2 * config.n_layers
    part = inside / flops_per_token(config)
    ratio = plan.paces["computing"] / plan.paces["matrices"] * part
    assert ratio == pytest.approx(bound, rel=0.03)


@pytest.mark.parametrize(("n_devices", "link"), [(8, 450e9), (64, 400e9)])
def test_a_divided_state_hides_from_some_tokens_on(n_devices, link):
    """(eq-parallelism-shards), where T tokens a device take 6 N T operations."""
    plan = on(n_devices)
    assert plan.speeds["state"] == link
    tokens = plan.batch_size * 2048
    least = 4 / 3 * (n_devices - 1) / n_devices * 0.5 * 989.4e12 / link
    ratio = plan.paces["computing"] / plan.paces["state"]
    attention = flops_per_token(plan.config) / (6 * plan.n_parameters)
    assert ratio == pytest.approx(tokens / least * attention, rel=0.01)
    assert (plan.computing == 1) == (ratio >= 1)


def test_groups_share_state_batch_and_memory():
    plan = on(64, 8)
    assert plan.data_parallel == 8
    assert plan.config.n_heads % 8 == 0
    held = plan.n_parameters / 8
    assert plan.sent["state"] == 8 * 7 / 8 * held
    assert plan.speeds == {"matrices": 450e9, "state": 50e9}
    whole = training_bytes(plan.config, plan.batch_size)
    assert plan.memory["weights"] == whole["weights"] / 64
    let_go = (plan.config.n_layers - 2) * blocks_of_copies(plan.config)
    assert plan.memory["activations"] == (whole["activations"] - let_go) / 8
    assert plan.training["batch_size"] % (8 * plan.batch_size) == 0


def test_a_plan_sends_what_devices_send():
    """Counted on two devices that train the plan's own model, two sequences at a time."""
    plan = on(2, 2, parameters=5e5, context_length=16, vocab_size=256)
    plan = replace(plan, batch_size=2)
    ids = torch.zeros(2, 16, dtype=torch.long)

    def run(group):
        model = GPT(plan.config, generator=torch.Generator().manual_seed(0))
        model = TensorParallel(model, group, sequence=True)
        model(ids, ids).backward()
        return sum(group.sent.values())

    assert launch(run, 2) == [2 * plan.sent["matrices"]] * 2, "in 32 bits"


def test_groups_across_machines_wait_for_the_network():
    near, far, slow = on(16, 8), on(16, 16), on(16, 16, network=5e9)
    assert far.speeds["matrices"] == 8 * 50e9  # eight cards in each machine
    assert slow.computing < far.computing / 2 < near.computing / 2
    assert on(16, 16, network=450e9).speeds["matrices"] == H100.link


@pytest.mark.parametrize("tensor_parallel", [1, 2, 4, 8])
def test_a_state_leaves_a_machine_by_every_card_of_its_group(tensor_parallel):
    """Measured by others: 600 Gbit/s between machines of eight cards of 100 (NVIDIA/nccl, 495)."""
    speed = on(64, tensor_parallel).speeds["state"]
    assert speed == 8 // tensor_parallel * 50e9
    assert on(64, tensor_parallel, network=1e12).speeds["state"] == H100.link


@pytest.mark.parametrize("device", ["A100", "H100"])
@pytest.mark.parametrize("budget", [{}, {"parameters": 2e9}])
def test_devices_that_wait_are_paid_for_in_hours(device, budget):
    """Hours are met exactly, and sixteen devices do not buy sixteen times the tokens of one."""
    settings = {"hours": 100, "n_devices": 16, "network": 5e9 / 8, **budget}
    plan = plan_training(LAW, DEVICES[device], **settings)
    assert plan.computing < 0.9
    assert plan.seconds == pytest.approx(100 * 3600, rel=1e-9)
    bought = 100 * 3600 * 16 * DEVICES[device].flops * 0.4
    assert plan.flops == pytest.approx(bought * plan.computing, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_devices": 12}, "n_devices=12 must be at most 8, or a"),
        ({"n_devices": 6}, "n_devices=6 must be a multiple of the 4"),
        ({"n_devices": 8, "context_length": 1022}, "context_length=1022 must be"),
        ({"n_devices": 8, "vocab_size": 50257}, "vocab_size=50257 must be"),
        ({"n_devices": 8, "network": 0}, "network=0 must be"),
    ],
)
def test_a_layout_that_does_not_divide_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        plan_training(LAW, H100, hours=1, tensor_parallel=4, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give hours, flops, parameters or tokens; one is enough"),
        ({"hours": 1, "flops": 1e20}, "each fix the budget; give one of the three"),
        ({"hours": 1, "parameters": 1e8, "tokens": 1e9}, "each fix the budget"),
        ({"flops": 1e20, "parameters": 1e8, "tokens": 1e9}, "each fix the budget"),
        ({"hours": 0}, "hours=0 must be a finite number, above 0"),
        ({"flops": -1.0}, r"flops=-1\.0 must be a finite number, above 0"),
        ({"parameters": math.nan}, "parameters=nan must be a finite number, above 0"),
        ({"tokens": 0}, "tokens=0 must be a finite number, above 0"),
        ({"hours": 1, "n_devices": 0}, "n_devices=0 must be"),
        ({"hours": 1, "utilization": 0}, "utilization=0 must be"),
        (
            {"hours": 1, "utilization": 1.5},
            r"utilization=1\.5 must be a finite number, above 0 and at most 1",
        ),
        ({"hours": 1e-6}, "no model with 50304 tokens has .* parameters"),
        (
            {"parameters": 1e12},
            r"\d+ GB for a single sequence do not fit 1 x H100 with 80 GB each; take more or",
        ),
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_made_says_why(given, message):
    with pytest.raises(ValueError, match=message):
        plan_training(LAW, H100, **given)


def test_a_plan_may_follow_a_law_of_ones_own():
    law = JointLaw(
        1.0, 100.0, 0.3, 100.0, 0.3
    )  # symmetric: as many tokens as parameters
    plan = plan_training(law, H100, flops=1e19)
    assert plan.law is law
    assert plan.n_parameters == pytest.approx((1e19 / 6) ** 0.5, rel=0.05)


@pytest.mark.parametrize("n_devices", [1, 2, 8])
@pytest.mark.parametrize("gpu", ["T4", "H100"])
@settings(max_examples=10)
@given(st.floats(-1, 2.5))
def test_a_plan_tells_how_it_is_trained(gpu, n_devices, power):
    plan = plan_training(LAW, DEVICES[gpu], n_devices=n_devices, hours=10**power)
    config = TrainConfig(**plan.training)
    length = plan.config.context_length
    assert config.batch_size == plan.batch_size * n_devices * config.accumulation
    tokens = config.steps * config.batch_size * length
    assert tokens == pytest.approx(plan.tokens, rel=0.02)
    assert config.batch_size * length <= max(
        2**19, plan.batch_size * n_devices * length
    )
    assert 1e-4 <= config.learning_rate < 1.5e-3
    assert config.steps > 10 * config.warmup_steps


def test_other_ways_take_less_memory_than_the_plan():
    plan = plan_training(LAW, H100, n_devices=8, parameters=1e9)
    whole = sum(plan.memory.values())
    assert plan.memory_if() == whole
    for way in ({"compiled": True}, {"recompute": True}, {"loss_slices": 8}):
        assert plan.memory_if(**way) < whole
