"""The command `info`."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from decoder_only import hub
from decoder_only.base.files import reading
from decoder_only.cli.options import option
from decoder_only.cli.words import line, shape, short
from decoder_only.model import counting, presets
from decoder_only.model.config import GPTConfig
from decoder_only.recipes import RECIPES
from decoder_only.training import checkpoint, log


def info(name: Positional[Annotated[str, option("RUN|MODEL")]]) -> None:
    """Count a model: its parameters, operations and bytes, and how a run went.

    Args:
        name: Folder of a run, or one that `export` made; or a model, as gpt2-small; or a recipe of
            `train`, as stories-cpu.
    """
    with reading(Path(name)):
        _count(name)


def _count(name: str) -> None:
    config, details = _described(name)
    length, parts = config.context_length, counting.count_parameters(config)
    n = sum(parts.values())
    line("Model", name)
    line("Shape", f"{shape(config)}, {length:,} tokens of context")
    line("Parameters", f"{n:,}")
    for part, size in parts.items():
        if part == "embedding":
            part += f" of {config.vocab_size:,} tokens"
            part += ", which the head reads too" if config.tied else ""
        if size:
            print(f"{'':11}{size:>{len(f'{n:,}')},} {size / n:6.1%}  {part}")
    forward = sum(counting.count_flops(config, length).values()) / length
    off, cache = 2 * n / forward - 1, counting.cache_bytes(config, 1, length)
    unread = "" if config.tied else ", and counts an embedding that no product reads"
    six = f"6 N is {short(6 * n)}, {abs(off):.1%} {'more' if off > 0 else 'less'}"
    costs = f"{short(forward)} a token forward, {short(3 * forward)} in training"
    mean = f"mean over {length:,} tokens; {six}: it leaves attention out{unread}"
    line("Operations", costs, mean)
    line("Weights", f"{short(4 * n, 'B')} in float32, {short(2 * n, 'B')} in 16 bits")
    content = f"keys and values of {length:,} tokens, in 16 bits"
    line("Cache", f"{short(cache, 'B')} a sequence", content)
    training = details.get("training", {})
    line("Training", *_training_memory(config, training.get("optimizer", "adamw")))
    if {"data", "training"} <= set(details):
        _show_run(Path(name), details, length, n)


def _described(name: str) -> tuple[GPTConfig, Mapping[str, object]]:
    """The settings of a model, and what a recipe or a run tells of its training."""
    name = presets.ALIASES.get(name, name)
    if name in presets.PRESETS:
        return presets.PRESETS[name], {}
    if name in RECIPES:
        recipe = RECIPES[name]
        vocab_size = recipe.data["vocab_size"]
        config = GPTConfig(vocab_size=vocab_size, **recipe.model)
        return config, {"training": recipe.training}
    if not Path(name).exists():
        raise ValueError(
            f"{name} is neither a run's folder nor a model; choose one of "
            f"{', '.join([*presets.PRESETS, *RECIPES])}"
        )
    if any(Path(name).glob("model*.safetensors*")):
        return hub.read_config(name), {}
    saved = checkpoint.read_config(name)
    return GPTConfig(**saved["model"]), saved


def _training_memory(config: GPTConfig, optimizer: str) -> tuple[str, ...]:
    if config.norm_position != "pre":
        return ("not counted for post-norm",)
    plain, kinds = replace(config, dropout=0.0), ("float32", "bfloat16")
    how = {"optimizer": optimizer}
    held = [counting.training_bytes(plain, 1, number_format=k, **how) for k in kinds]
    whole, half = (short(sum(each.values()), "B") for each in held)
    fixed = sum(held[0][name] for name in ("weights", "gradients", "optimizer"))
    name = {"adamw": "AdamW", "muon": "Muon"}[optimizer]
    dropout = "; dropout's masks left out" if config.dropout else ""
    rest = f"gradients, {name}; not recomputed, not compiled{dropout}"
    return (
        f"{whole} for one sequence, {half} with products in 16 bits",
        f"{short(fixed, 'B')} for weights, {rest}",
    )


def _show_run(run: Path, details: Mapping[str, object], length: int, n: int) -> None:
    data, training = details["data"], details["training"]
    text = Path(data.get("file", data["kind"])).name
    records, rows = log.read_log(run), training["batch_size"]
    taken = max((r["step"] for r in records if "loss" in r), default=0)
    # A training that went on may have been given more steps than it was begun with.
    now = json.loads(checkpoint.latest_notes(run).get("training", "{}"))
    asked = now.get("steps", training["steps"])
    tokens, steps = taken * rows * length, f"{taken:,} of {asked:,} steps"
    seen = f"{short(tokens)} tokens of {text}, {tokens / n:,.3g} for each parameter"
    line("Run", seen, f"{steps} of {rows} x {length:,}")
    for last in [r for r in records if "validation_loss" in r][-1:]:
        # A log has no word for a number that is none.
        nats = (last["validation_loss"], last["bits_per_byte"])
        loss, bits = (math.nan if x is None else x for x in nats)
        floor = last["floor"]
        above = [f"{loss - floor:.3f} above the floor, {floor:.3f}"] if floor else []
        line(
            "Loss",
            f"{loss:.3f} nats per token held out, {bits:.3f} bits per byte",
            *above,
        )
