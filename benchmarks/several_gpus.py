"""What every process of the part "devices" of `gpu.py` does: the divisions of chapter 13, on GPUs.

Collectives are NCCL's, or gloo's in a dry run. Measured are the bytes per second that a device
sends in an all-reduce; and for every division of a GPT-2 medium the loss of three steps beside that
of one device in float32, then, with weights in 16 bits, tokens per second of all devices together,
the bytes that a device sends in a step, and its memory. A division whose losses are not those of
one device ends the program.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from decoder_only import GPT, GPTConfig
from decoder_only.model.counting import tensor_parallel_bytes
from decoder_only.model.lm_head import next_token_loss
from decoder_only.model.presets import PRESETS
from decoder_only.variants.parallelism import DataParallel, TensorParallel, fully_shard
from decoder_only.variants.parallelism.group import Group

WAYS = ("one device", "batch", "state", "matrices", "matrices and positions")

Row = dict[str, Any]


def measure(group: Group, dry_run: bool) -> list[Row]:
    """All rows; they are the same on all devices but for the clock."""
    # Heads and vocabulary must divide.
    config = replace(PRESETS["gpt2-medium"], vocab_size=50_304)
    rows, length = (2 * group.size, 16) if dry_run else (8 * group.size, 1024)
    if dry_run:
        sizes = {"d_model": 8 * group.size, "n_layers": 2, "n_heads": group.size}
        config = GPTConfig(vocab_size=16 * group.size, context_length=16, **sizes)
    found = [bandwidth(group, 1000 if dry_run else 256_000_000, dry_run)]
    ids = torch.randint(
        config.vocab_size,
        (rows, length + 1),
        generator=torch.Generator().manual_seed(0),
    )
    pair = ids[:, :-1].to(group.device), ids[:, 1:].to(group.device)
    few = tuple(x[: group.size] for x in pair)
    truth = losses(stepper(group, "one device", config, torch.float32), few)
    for way in WAYS:
        ours = losses(stepper(group, way, config, torch.float32), few)
        deviation = (ours - truth).abs().max().item()
        if deviation > 1e-3:
            raise ArithmeticError(f"{way}: the loss deviates by {deviation:.1e}")
        half = torch.float32 if dry_run else torch.bfloat16
        row = paced(group, stepper(group, way, config, half), pair, dry_run)
        if way.startswith("matrices"):
            sizes = rows, length, group.size
            calls = tensor_parallel_bytes(config, *sizes, sequence="positions" in way)
            row["bytes by the formula"] = sum(calls.values()) * half.itemsize // 4
        found.append({"divided": way, **row, "deviation": deviation})
    return found


def bandwidth(group: Group, n: int, dry_run: bool) -> Row:
    """Bytes per second that a device sends in an all-reduce of n float32 numbers."""
    x, before = torch.ones(n, device=group.device), sum(group.sent.values())
    group.all_reduce(x)
    sent = sum(group.sent.values()) - before
    seconds = clocked(group, lambda: group.all_reduce(x), 1 if dry_run else 20)
    return {"all-reduce of bytes": x.nbytes, "bytes per second": round(sent / seconds)}


def clocked(group: Group, step: Callable[[], object], n: int) -> float:
    """Seconds of one step."""
    is_cuda = group.device == "cuda"
    wait = torch.cuda.synchronize if is_cuda else (lambda: None)
    wait()
    began = time.perf_counter()
    for _ in range(n):
        step()
    wait()
    return (time.perf_counter() - began) / n


def stepper(
    group: Group, way: str, config: GPTConfig, dtype: torch.dtype
) -> Callable[..., Tensor]:
    """A step of training, divided in a way; it returns the loss of the whole batch."""
    generator = torch.Generator().manual_seed(0)
    model = GPT(config, generator=generator).to(group.device, dtype)
    finish, is_whole = (lambda: None), way == "one device"
    if way == "batch":
        finish = DataParallel(model, group).finish
    elif way == "state":
        model = fully_shard(model, group)
    elif way.startswith("matrices"):
        model = TensorParallel(model, group, sequence="positions" in way)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)

    def step(ids: Tensor, targets: Tensor) -> Tensor:
        if way.startswith("matrices"):
            loss = model(ids, targets)
        else:
            if not is_whole:
                ids, targets = (x.chunk(group.size)[group.rank] for x in (ids, targets))
            loss = next_token_loss(model(ids), targets)
        loss.backward()
        finish()
        optimizer.step()
        optimizer.zero_grad()
        if way in ("batch", "state"):
            return group.all_reduce(loss.detach()) / group.size
        return loss.detach()

    return step


def losses(step: Callable[..., Tensor], pair: tuple[Tensor, Tensor]) -> Tensor:
    return torch.stack([step(*pair) for _ in range(3)]).cpu()


def paced(
    group: Group,
    step: Callable[..., Tensor],
    pair: tuple[Tensor, Tensor],
    dry_run: bool,
) -> Row:
    """Speed, bytes and memory of a step."""
    is_cuda = group.device == "cuda"
    if is_cuda:
        torch.cuda.reset_peak_memory_stats()
    step(*pair)
    before = sum(group.sent.values())
    step(*pair)
    sent = sum(group.sent.values()) - before
    seconds = clocked(group, lambda: step(*pair), 1 if dry_run else 10)
    return {
        "tokens per second": round(pair[0].numel() / seconds),
        "bytes sent in a step": sent,
        "memory": torch.cuda.max_memory_allocated() if is_cuda else None,
    }
