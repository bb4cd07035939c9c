"""The command `plan`."""

import math
from typing import Annotated, Literal

from decoder_only import planning
from decoder_only.cli.options import option
from decoder_only.cli.words import duration, line, power, shape, short
from decoder_only.engine.hardware import DEVICES, known_device
from decoder_only.laws import PUBLISHED


def plan(
    *,
    gpu: Annotated[str, option("NAME", "H100")] = "H100",
    count: Annotated[int, option("N", "8")] = 8,
    hours: Annotated[float | None, option("HOURS", "24 if nothing is given")] = None,
    flops: Annotated[str | None, option("C", "none")] = None,
    params: Annotated[str | None, option("N", "what the law finds best")] = None,
    tokens: Annotated[str | None, option("M", "what the law finds best")] = None,
    law: Annotated[
        Literal["besiroglu2024", "hoffmann2022", "kaplan2020"],
        option("NAME", "besiroglu2024"),
    ] = "besiroglu2024",
    utilization: Annotated[float, option("SHARE", "0.4")] = 0.4,
    context_length: Annotated[int, option("S", "2048")] = 2048,
) -> None:
    """Say what to train with what there is, and what it costs; nothing is trained.

    Give a budget (hours or operations), a size, tokens, or any two of the three. With none of
    them: a day. Numbers may be written 1e9, 300M, 7B or 1.4T.

    Args:
        gpu: Which device; its data sheet must be known.
        count: How many of them.
        hours: How long they may work.
        flops: Operations that may be spent, instead of hours.
        params: Parameters of the model.
        tokens: Tokens to train on.
        law: Which splits the budget: `besiroglu2024`, `hoffmann2022` or `kaplan2020`.
        utilization: Share of the device's peak that the training reaches.
        context_length: Tokens that the model sees at once.
    """
    device = known_device(gpu)
    if device is None:
        raise ValueError(f"--gpu {gpu} is unknown; choose one of {', '.join(DEVICES)}")
    budget = {"hours": hours, "flops": _amount("flops", flops)}
    wished = {
        "parameters": _amount("params", params),
        "tokens": _amount("tokens", tokens),
    }
    n_wished = sum(value is not None for value in wished.values())
    has_budget = any(value is not None for value in budget.values())
    is_day = not has_budget and not n_wished
    if is_day:
        budget["hours"] = 24.0
    planned = planning.plan_training(
        PUBLISHED[law],
        device,
        n_devices=count,
        utilization=utilization,
        context_length=context_length,
        **budget,
        **wished,
    )
    if is_day:
        print("No budget was given, so this is what a day can do.\n")
    split = f"the split that {law} finds best"
    if n_wished:
        split = "both as given" if n_wished == 2 else split
        split = "what the budget allows" if has_budget else split
    _show(planned, split, law)


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
    config, device, n_devices = plan.config, plan.device, plan.n_devices
    n, d = plan.n_parameters, plan.tokens
    part = {name: short(size, "B") for name, size in plan.memory.items()}
    total, room = sum(plan.memory.values()), device.memory
    spread = ": spread by FSDP" if n_devices > 1 else ""
    text = "WebText2" if law == "kaplan2020" else "MassiveText"
    line(
        "Model",
        f"{short(n)} parameters: {shape(config)}",
        f"round numbers near the size; a vocabulary of {config.vocab_size:,}",
    )
    line(
        "Tokens",
        f"{short(d)}, {d / n:,.3g} for each parameter",
        f"{split}; sequences of {config.context_length:,}; no text twice",
    )
    line(
        "Work",
        f"{power(plan.flops)} operations",
        f"6 N M are {power(6 * n * d)}, the rest is attention; matrix products only",
    )
    line(
        "Time",
        f"{duration(plan.seconds)} on {n_devices} x {device.name}, "
        f"{n_devices * plan.seconds / 3600:,.1f} device-hours",
        f"assuming {plan.utilization:.0%} of the data sheet's {short(device.flops)} "
        "operations/s, the dense 16-bit peak",
    )
    line(
        "Memory",
        f"{short(total, 'B')} of {short(room, 'B')} on each device, "
        f"sequences at a time: {plan.batch_size}",
        f"weights {part['weights']}, gradients {part['gradients']}, "
        f"AdamW {part['optimizer']}{spread}",
        f"activations {part['activations']}, logits' gradient {part['loss']}: not "
        "recomputed, not compiled",
    )
    line(
        "Disk",
        f"weights {short(plan.weight_bytes, 'B')}, "
        f"a saved state {short(plan.state_bytes, 'B')}",
        "in float32; a state has AdamW's two means too, and the last two are kept",
    )
    line(
        "Loss",
        f"{plan.loss:.2f} nats per token",
        f"of {text} in its tokens: {law} was fitted to that, not yours",
    )
