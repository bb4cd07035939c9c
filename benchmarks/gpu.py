"""On one GPU: speed beside nanoGPT, AdamW beside Muon, and what minutes of training buy.

    python benchmarks/gpu.py --nanogpt NANOGPT_FOLDER --text tinyshakespeare.txt
    python benchmarks/gpu.py --parts throughput shakespeare ...     a choice of parts
    python benchmarks/gpu.py --dry-run                              tiny, on a CPU, every path

Its parts:

- throughput: training steps of a GPT-2 of 124 M parameters in bfloat16, compiled, with the same
  rows of 1,024 tokens, by nanoGPT's model and optimizer and by ours; tokens per second, share of
  the device's peak (MFU), memory.
- counts: memory of training and time of writing, as `scaling` counts them and as measured, for
  both models without compiling.
- optimizers: the modern small model on the stories, AdamW and Muon, the same tokens; losses.
- shakespeare: the recipe `shakespeare-gpu`, three seeds; nats per character over the whole
  validation set.
- stories: the recipe `stories-gpu` for twenty minutes; loss against the exact floor.

Results are printed, and written to `benchmarks/results/gpu.json` part by part, so that a run that
is cut off leaves what it has.
"""

import contextlib
import dataclasses
import importlib.util
import io
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from provenance import collect, write_results

from decoder_only import GPT, GPTConfig, cli
from decoder_only.data import story_corpora
from decoder_only.engine import hardware
from decoder_only.engine.monitor import flops_per_token
from decoder_only.optimization import build_optimizers
from decoder_only.presets import PRESETS
from decoder_only.scaling import decoding_work, training_bytes
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, batch_loss, train, train_step

RESULTS = Path(__file__).parent / "results" / "gpu.json"
Part = Literal["throughput", "counts", "optimizers", "shakespeare", "stories"]
PARTS: tuple[Part, ...] = (
    "throughput",
    "counts",
    "optimizers",
    "shakespeare",
    "stories",
)
TINY = {"d_model": 32, "n_layers": 2, "n_heads": 2, "context_length": 64}

Row = dict[str, Any]


def main(
    nanogpt: Path | None = None,
    text: Path | None = None,
    parts: tuple[Part, ...] = PARTS,
    rows: int = 32,
    minutes: float = 20.0,
    dry_run: bool = False,
    out: Path = RESULTS,
) -> None:
    """Measure, print, write.

    Args:
        nanogpt: the folder of a clone of nanoGPT; without it only ours is measured.
        text: Tiny Shakespeare; without it that part is left out, and it says so.
        parts: which.
        rows: of 1,024 tokens in a step of the throughput.
        minutes: of training on the stories.
        dry_run: sizes for a CPU, and nothing is written.
        out: the JSON file to write.
    """
    device = torch.device("cpu") if dry_run else hardware.choose_device("cuda")
    print(hardware.describe(device))
    results: dict[str, list[Row]] = {}
    for part in parts:
        if part == "throughput":
            results[part] = throughput(device, nanogpt, rows, dry_run)
        elif part == "counts":
            results[part] = counts(device, dry_run)
        elif part == "optimizers":
            results[part] = optimizers(device, dry_run)
        elif part == "stories":
            results[part] = stories(device, minutes, dry_run)
        elif text is None:
            print("shakespeare: left out, for want of --text")
        else:
            results[part] = shakespeare(text, dry_run)
        if not dry_run:
            provenance = collect(packages=["torch"], files=[text] if text else [])
            provenance["device"] = hardware.describe(device)
            write_results(out, {"provenance": provenance, **results})


# ------------------------------------------------------------------------------------- throughput


def throughput(
    device: torch.device, nanogpt: Path | None, rows: int, dry_run: bool
) -> list[Row]:
    config = PRESETS["gpt2-small"]
    modern = PRESETS["modern-small"]
    if dry_run:
        config = dataclasses.replace(config, **TINY, vocab_size=300)
        modern = dataclasses.replace(modern, **TINY, vocab_size=320)
        rows = 2
    ways: dict[str, Callable[[], Callable[[], None]]] = {
        "decoder_only, GPT-2, AdamW": lambda: our_step(config, "adamw", device, rows),
        "decoder_only, modern, Muon": lambda: our_step(modern, "muon", device, rows),
    }
    if nanogpt is not None:
        ways["nanoGPT"] = lambda: their_step(nanogpt, config, device, rows)
    flops = flops_per_token(GPT(config).to("meta"))
    return [
        timed(name, make, device, rows * config.context_length, flops, dry_run)
        for name, make in ways.items()
    ]


def timed(
    name: str,
    make: Callable[[], Callable[[], None]],
    device: torch.device,
    tokens: int,
    flops: int,
    dry_run: bool,
) -> Row:
    """Median over rounds of the speed of a step, and the memory that it takes."""
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    step = make()
    n_warm, n_rounds, n_steps = (1, 2, 1) if dry_run else (10, 5, 20)
    for _ in range(n_warm):
        step()
    speeds = []
    for _ in range(n_rounds):
        if cuda:
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(n_steps):
            step()
        if cuda:
            torch.cuda.synchronize()
        speeds.append(n_steps * tokens / (time.perf_counter() - began))
    speeds.sort()
    peak = hardware.peak_flops(device)
    row = {
        "name": name,
        "tokens per second": round(speeds[len(speeds) // 2]),
        "slowest": round(speeds[0]),
        "fastest": round(speeds[-1]),
        # The same operations are counted for all: those of GPT-2 small.
        "mfu": round(speeds[len(speeds) // 2] * flops / peak, 4) if peak else None,
        "memory": torch.cuda.max_memory_allocated() if cuda else None,
    }
    print(row, flush=True)
    return row


def random_batch(
    vocab_size: int, rows: int, length: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocab_size, (rows, length + 1), generator=generator).to(device)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def our_step(
    config: GPTConfig, optimizer: str, device: torch.device, rows: int
) -> Callable[[], None]:
    model = GPT(config, generator=torch.Generator().manual_seed(0)).to(device)
    moving = build_optimizers(model, optimizer=optimizer, learning_rate=1e-4)
    inputs, targets = random_batch(
        config.vocab_size, rows, config.context_length, device
    )
    loss_function = hardware.compiled(batch_loss)

    def step() -> None:
        train_step(
            model,
            moving,
            inputs,
            targets,
            max_gradient_norm=1.0,
            loss_function=loss_function,
        )

    return step


def their_step(
    folder: Path, config: GPTConfig, device: torch.device, rows: int
) -> Callable[[], None]:
    """nanoGPT's model and optimizer, in the order of its `train.py`."""
    spec = importlib.util.spec_from_file_location("nanogpt_model", folder / "model.py")
    peer = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = peer  # its dataclass asks for it
    spec.loader.exec_module(peer)
    vocab_size = 64 * math.ceil(config.vocab_size / 64)  # as its train.py pads it
    model = peer.GPT(
        peer.GPTConfig(
            block_size=config.context_length,
            vocab_size=vocab_size,
            n_layer=config.n_layers,
            n_head=config.n_heads,
            n_embd=config.d_model,
            dropout=0.0,
            bias=False,
        )
    ).to(device)
    optimizer = model.configure_optimizers(0.1, 1e-4, (0.9, 0.95), device.type)
    fast = torch.compile(model)
    inputs, targets = random_batch(
        config.vocab_size, rows, config.context_length, device
    )

    def step() -> None:
        with hardware.autocast(device):
            _, loss = fast(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


# ----------------------------------------------------------------------------------------- counts


def counts(device: torch.device, dry_run: bool) -> list[Row]:
    """What is counted beside what is measured, for two models and two numbers of rows."""
    found = []
    for name in ("gpt2-small", "modern-small"):
        config = PRESETS[name]
        if dry_run:
            config = dataclasses.replace(config, **TINY, vocab_size=320)
        for rows in (1, 2) if dry_run else (4, 16):
            found.append({"name": name, "rows": rows})
            found[-1] |= count_memory(config, rows, device)
            found[-1] |= count_writing(config, rows, device)
            print(found[-1], flush=True)
    return found


def count_memory(config: GPTConfig, rows: int, device: torch.device) -> Row:
    """The peak of three training steps; on a CPU nobody keeps that count."""
    number_format = str(hardware.multiplying_format(device)).removeprefix("torch.")
    counted = training_bytes(config, rows, number_format=number_format)
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    model = GPT(config).to(device)
    moving = build_optimizers(model, learning_rate=1e-4)
    batch = random_batch(config.vocab_size, rows, config.context_length, device)
    for _ in range(3):
        train_step(model, moving, *batch)
    return {
        "bytes counted": sum(counted.values()),
        "bytes measured": torch.cuda.max_memory_allocated() if cuda else None,
    }


@torch.no_grad()
def count_writing(config: GPTConfig, rows: int, device: torch.device) -> Row:
    """Seconds of a token in each row, the last of the context; the least that there could be."""
    number_format = hardware.multiplying_format(device)
    model = GPT(config).to(device, number_format).eval()
    past = config.context_length - 32
    ids, _ = random_batch(config.vocab_size, rows, past, device)
    cache = model.new_cache(rows)
    model(ids, cache)
    times = []
    for _ in range(16):
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        model(ids[:, :1], cache).sum().item()
        times.append(time.perf_counter() - began)
    known = None
    if device.type == "cuda":
        known = hardware.known_device(torch.cuda.get_device_name(device))
    work = decoding_work(config, rows, past, bytes_per_number=number_format.itemsize)
    return {
        "seconds at least": work.seconds(known) if known else None,
        "seconds measured": round(min(times), 6),
    }


# ------------------------------------------------------------------------------------- optimizers


def optimizers(device: torch.device, dry_run: bool) -> list[Row]:
    """The losses of AdamW and Muon over the same tokens, each at the better of two rates."""
    language = StoryLanguage()
    n_train, vocab_size = (50, 300) if dry_run else (300_000, 4096)
    some = islice(language.stories(split="train", seed=0), min(n_train, 4000))
    tokenizer = BytePairTokenizer.train(some, vocab_size)
    train_data, validation = story_corpora(
        language, tokenizer, n_train=n_train, n_validation=5 if dry_run else 1000
    )
    sizes = TINY if dry_run else {"context_length": 512}
    config = dataclasses.replace(
        PRESETS["modern-small"], vocab_size=tokenizer.vocab_size, **sizes
    )
    rows = []
    for optimizer, rates in (("adamw", (6e-4, 1.8e-3)), ("muon", (1.5e-3, 4e-3))):
        for rate in rates:
            model = GPT(config, generator=torch.Generator().manual_seed(0)).to(device)
            settings = TrainConfig(
                steps=4 if dry_run else 1500,
                batch_size=2 if dry_run else 64,
                optimizer=optimizer,
                learning_rate=rate,
                warmup_steps=1 if dry_run else 50,
                evaluate_every=2 if dry_run else 250,
            )
            history = train(model, train_data, validation, settings)
            rows.append(
                {
                    "optimizer": optimizer,
                    "learning rate": rate,
                    "floor": round(history.final.floor, 4),
                    "validation": [
                        [step * history.tokens_per_step, round(each.loss, 4)]
                        for step, each in history.evaluations
                    ],
                    "seconds": round(history.seconds, 1),
                }
            )
            print(rows[-1], flush=True)
    return rows


# ---------------------------------------------------------------------------------------- recipes


def command(*words: str) -> tuple[list[dict], float]:
    """The log of `decoder-only train` with these options, and how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            status = cli.main(["train", "--out", f"{folder}/run", "--quiet", *words])
        seconds = time.perf_counter() - began
        if status:
            sys.exit(f"decoder-only train {' '.join(words)} ended with status {status}")
        lines = Path(folder, "run", "log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], seconds


def shrunk(dry_run: bool) -> list[str]:
    if not dry_run:
        return []
    small = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    return [*small, "--steps=4", "--batch-size=2", "--device=cpu", "--vocab-size=300"]


def shakespeare(text: Path, dry_run: bool) -> list[Row]:
    rows = []
    for seed in range(3):
        log, seconds = command(
            "--text",
            str(text),
            "--recipe=shakespeare-gpu",
            f"--seed={seed}",
            *shrunk(dry_run),
        )
        bits = [r["bits_per_byte"] for r in log if "validation_loss" in r]
        rows.append(
            {
                "seed": seed,
                "nats per character": round(bits[-1] * math.log(2), 4),
                "seconds": round(seconds, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def stories(device: torch.device, minutes: float, dry_run: bool) -> list[Row]:
    """The recipe, with as many steps as fit into the time; a short run tells how many."""
    options = ["--recipe=stories-gpu", *shrunk(dry_run)]
    if dry_run:
        options.append("--stories=50")
        n_steps = 4
    else:
        log, _ = command(*options, "--steps=200", "--evaluate-every=1000")
        trial = [r for r in log if "loss" in r]
        # The first steps compile.
        pace = (trial[-1]["seconds"] - trial[99]["seconds"]) / 100
        n_steps = int(60 * minutes / pace)
        options.append(f"--steps={n_steps}")
    log, seconds = command(*options)
    last = [r for r in log if "validation_loss" in r][-1]
    row = {
        "steps": n_steps,
        "validation": round(last["validation_loss"], 4),
        "floor": round(last["floor"], 4),
        "gap": round(last["validation_loss"] - last["floor"], 4),
        "bits per byte": round(last["bits_per_byte"], 4),
        "seconds": round(seconds),
    }
    print(row, flush=True)
    return [row]


if __name__ == "__main__":
    tyro.cli(main)
