"""The command `plan`."""

import difflib
import math
import re
import shlex
import textwrap
from typing import Annotated, Literal

from decoder_only import recipes
from decoder_only.analysis import planning
from decoder_only.analysis.laws import PUBLISHED
from decoder_only.base.hardware import DEVICES, Device, known_device
from decoder_only.cli.options import option, written
from decoder_only.cli.words import duration, power, shape, short
from decoder_only.model import counting
from decoder_only.model.config import GPTConfig
from decoder_only.training.config import TrainConfig


def plan(
    *,
    gpu: str = "H100",
    count: Annotated[int | None, option("N", "8")] = None,
    parallel: Annotated[str | None, option("dp=N,tp=N", "dp alone")] = None,
    network: Annotated[float, option("GB/S")] = 50.0,
    hours: Annotated[float | None, option("HOURS", "24 if nothing is given")] = None,
    flops: Annotated[str | None, option("C", "none")] = None,
    params: Annotated[str | None, option("N", "what the law finds best")] = None,
    tokens: Annotated[str | None, option("M", "what the law finds best")] = None,
    law: Literal["besiroglu2024", "hoffmann2022", "kaplan2020"] = "besiroglu2024",
    utilization: float = 0.4,
    context_length: int = 2048,
) -> None:
    """Say what to train with what there is, and what it costs; nothing is trained.

    Give a budget (hours or operations), a size, tokens, or any two of the three. With none of
    them: a day. Numbers may be written 1e9, 300M, 7B or 1.4T.

    Args:
        gpu: Which device; its data sheet must be known.
        count: How many of them; eight to a machine.
        parallel: The layout: dp groups divide the batch and the state, and the tp devices of a
            group its matrices and positions. Either may be left out where the count gives it.
        network: GB that each device sends to other machines in a second.
        hours: How long they may work.
        flops: Operations that may be spent, instead of hours.
        params: Parameters of the model.
        tokens: Tokens to train on.
        law: Which splits the budget.
        utilization: Fraction of the device's peak that is reached while it computes.
        context_length: Tokens that the model sees at once.
    """
    device = _device(gpu)
    budget = {"hours": hours, "flops": _amount("flops", flops)}
    wished = {"parameters": _amount("params", params)}
    wished |= {"tokens": _amount("tokens", tokens)}
    n_budgets, n_wished = (
        sum(x is not None for x in each.values()) for each in (budget, wished)
    )
    if n_budgets + n_wished == 0:
        print("No budget was given, so this is what a day can do.\n")
        budget["hours"] = 24.0
    split = f"the split that {law} finds best"
    if n_wished == 2:
        split = "both as given"
    elif n_wished and n_budgets:
        split = "what the budget allows"
    given = {**budget, **wished, **_layout(parallel, count)}
    given |= {"utilization": utilization, "context_length": context_length}
    given["network"] = 1e9 * network
    _show(planning.plan_training(PUBLISHED[law], device, **given), split, law)


def _device(name: str) -> Device:
    device = known_device(name)
    if device is None:
        close = difflib.get_close_matches(name.upper(), DEVICES, n=1)
        advice = f"did you mean {close[0]!r}? Choose" if close else "choose"
        raise ValueError(
            f"--gpu {name} is unknown; {advice} one of {', '.join(DEVICES)}"
        )
    return device


def _layout(word: str | None, count: int | None) -> dict[str, int]:
    """How many devices, and how many of them divide the matrices: dp=8,tp=4 is 32 and 4."""
    match = re.fullmatch(r"dp=(\d+)(?:,tp=(\d+))?|tp=(\d+)", word or "tp=1")
    if match is None:
        raise ValueError(f"--parallel {word} is no layout; write dp=8,tp=4")
    groups, each = match[1], int(match[2] or match[3] or 1)
    if groups is None:
        return {"n_devices": 8 if count is None else count, "tensor_parallel": each}
    product = int(groups) * each
    if count not in (None, product):
        raise ValueError(
            f"--count {count} is not --parallel {word}, which are {product} devices; leave one out"
        )
    return {"n_devices": product, "tensor_parallel": each}


def _amount(option: str, word: str | None) -> float | None:
    """A number as people write it: 1e9, 300M, 7B, 1.4T."""
    if word is None:
        return None
    factor = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(word[-1:].upper())
    try:
        number = float(word[:-1]) * factor if factor else float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"--{option} {word} is no number; write 1e9, 300M, 7B or 1.4T")
    return number


def _show(plan: planning.Plan, split: str, law: str) -> None:
    print(textwrap.dedent(_table(plan, split, law)).strip())
    if plan.tensor_parallel > 1:
        print(
            "\nNo command trains it: `decoder-only train` divides batch and state, not"
        )
        print("the matrices, which chapter 13 does by hand and by PyTorch's own means.")
        return
    print("\nTrain it on tokens that `decoder-only prepare --tokenizer gpt2` made:\n")
    words = textwrap.wrap(shlex.join(_command(plan)), 80, break_on_hyphens=False)
    print("  " + " \\\n    ".join(words))


def _table(plan: planning.Plan, split: str, law: str) -> str:
    config, device, n_devices = plan.config, plan.device, plan.n_devices
    n, d, length = plan.n_parameters, plan.tokens, config.context_length
    part = {name: short(size, "B") for name, size in plan.memory.items()}
    total, room = short(sum(plan.memory.values()), "B"), short(device.memory, "B")
    hours = f"{n_devices * plan.seconds / 3600:,.1f} device-hours"
    exact = 3 * sum(counting.count_flops(config, length).values()) / length * d
    ways = ({"compiled": True}, {"recompute": True}, {"loss_slices": 8})
    less = [short(plan.memory_if(**way), "B") for way in ways]
    stored = short(4 * n, "B"), short(12 * n, "B")
    spread, group = ": spread by FSDP" if n_devices > 1 else "", ""
    if plan.tensor_parallel > 1:
        group = f" for {plan.tensor_parallel}"
        spread = f": spread over all; the rest over {plan.tensor_parallel}"
    text = "WebText2" if law == "kaplan2020" else "MassiveText"
    return f"""
    Model      {short(n)} parameters: {shape(config)}
                 round numbers near the size; a vocabulary of {config.vocab_size:,}
    Tokens     {short(d)}, {d / n:,.3g} for each parameter
                 {split}; sequences of {length:,}; no text twice
    Work       {power(plan.flops)} operations: 6 N + 12 L D S for each token
                 as utilizations are counted; {power(exact)} if attention computes no
                 more than each position may see
    Time       {duration(plan.seconds)} on {n_devices} x {device.name}, {hours}
                 assuming {plan.utilization:.0%} of the data sheet's {short(device.flops)}
                 operations/s, the dense 16-bit peak{_network(plan)}
    Memory     {total} of {room} on each device, sequences at a time: {plan.batch_size}{group}
                 weights {part["weights"]}, gradients {part["gradients"]}, AdamW
                 {part["optimizer"]}{spread}
                 activations {part["activations"]}, gradients of the logits {part["loss"]}
                 uncompiled; compiled {less[0]}, with --recompute {less[1]},
                 with --loss-slices 8 {less[2]}
    Disk       weights {stored[0]}, a saved state {stored[1]}
                 in float32; a state has AdamW's two means too, and the last two are kept
    Loss       {plan.loss:.2f} nats per token
                 of {text} in its tokens: {law} was fitted to that, not yours
    """


def _network(plan: planning.Plan) -> str:
    """The row on what devices send to each other, where there are several."""
    if plan.n_devices == 1:
        return ""
    groups, each = plan.data_parallel, plan.tensor_parallel
    rows = [f"\n    Network    dp={groups}, tp={each}: devices compute "]
    rows[0] += f"{plan.computing:.0%} of the time"
    for name, n, when in (
        ("matrices", each, "on top of it"),
        ("state", groups, "meanwhile"),
    ):
        if n > 1:
            part = plan.paces[name] / plan.paces["computing"]
            speed = short(plan.speeds[name], "B")
            rows.append(f"\n{'':17}{name} over {n} at {speed}/s: ")
            rows.append(f"{part:.0%} of the computing, {when}")
    return "".join([*rows, f"\n{'':17}latency is not counted"])


def _command(plan: planning.Plan) -> list[str]:
    """The words that train the plan: what of it the recipe does not say already."""
    n, config = plan.n_devices, plan.config.to_dict()
    base = recipes.chosen(text="tokens")
    usual = GPTConfig(**base.model, vocab_size=config["vocab_size"]).to_dict()
    usual |= TrainConfig(**base.training).to_dict()
    settings = {k: x for k, x in {**config, **plan.training}.items() if x != usual[k]}
    start = ["decoder-only", "train"]
    if n > 1:
        nodes, each = (n // 8, 8) if n % 8 == 0 else (1, n)
        start = ["torchrun", "--nnodes", nodes, "--nproc-per-node", each, "-m"]
        start += ["decoder_only", "train", "--strategy", "fsdp"]
    start += ["--text", "tokens", "--vocab-size", config["vocab_size"]]
    return [*map(str, start), *written(settings)]
