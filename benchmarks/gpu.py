"""On a GPU, in 25 minutes: speed beside nanoGPT, memory beside its count, AdamW beside Muon.

    python benchmarks/gpu.py --nanogpt NANOGPT_FOLDER --text tinyshakespeare.txt
    python benchmarks/gpu.py --parts throughput memory ...     a choice of parts
    python benchmarks/gpu.py --dry-run                         tiny, on a CPU, every path

Its parts, each a few minutes:

- throughput: steps of GPT-2 small (124 M parameters) as `train` takes them, rows drawn from a
  corpus, pinned and sent; and nanoGPT's model, optimizer and batches, in the order of its
  `train.py`. The same rows of 1,024 tokens, bfloat16, compiled. Tokens per second, MFU (the same
  operations for all, those of GPT-2 small), memory.
- memory: the peak of a step against `counting.training_bytes`, for every way to save some: logits
  whole or in slices, activations kept or recomputed.
- decoding: tokens per second of `generate` in 16 bits, compiled, against the memory's bandwidth.
- optimizers: the modern small model on the stories, AdamW and Muon over the same tokens; losses.
- shakespeare: the recipe `shakespeare-gpu`; nats per character over the whole validation set.
- devices: on two GPUs or more, the divisions of chapter 13: their losses beside those of one
  device, tokens per second, bytes sent against their formula; see `several_gpus.py`.
- profile: which kernels a step spends its time in, as a text beside the results.

Results are printed, and written to `benchmarks/results/gpu.json` part by part, so that a run that
is cut off leaves what it has. A part that would begin after its time is left out, and it says so.
"""

import dataclasses
import importlib.util
import inspect
import math
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import several_gpus
import torch
import tyro
from provenance import collect, write_results

from decoder_only import GPT, GPTConfig, recipes
from decoder_only.base import hardware
from decoder_only.data import Corpus, story_corpora
from decoder_only.generation import generate
from decoder_only.model.counting import decoding_work, flops_per_token, training_bytes
from decoder_only.model.presets import PRESETS
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, loop, train
from decoder_only.training.processes import ALONE
from decoder_only.training.state import initial_state
from decoder_only.variants.parallelism.group import launch

RESULTS = Path(__file__).parent / "results" / "gpu.json"
Part = Literal[
    "throughput",
    "memory",
    "decoding",
    "optimizers",
    "shakespeare",
    "devices",
    "profile",
]
PARTS: tuple[Part, ...] = Part.__args__
TINY = {"d_model": 32, "n_layers": 2, "n_heads": 2, "context_length": 64}

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Bench:
    """What all parts are told: where, from what, and whether only to try the paths."""

    device: torch.device
    nanogpt: Path | None
    text: Path | None
    rows: int
    seeds: int
    dry_run: bool
    out: Path

    def model(self, name: str, **changes: Any) -> GPTConfig:
        """A preset, or a tiny model of its kind."""
        config = PRESETS[name]
        if self.dry_run:
            sizes = {**TINY, "head_dim": None, "n_kv_heads": None, "d_mlp": None}
            config = dataclasses.replace(config, **sizes, vocab_size=320)
        return dataclasses.replace(config, **changes)


def main(
    nanogpt: Path | None = None,
    text: Path | None = None,
    parts: tuple[Part, ...] = PARTS,
    rows: int = 32,
    seeds: int = 2,
    minutes: float = 25.0,
    dry_run: bool = False,
    out: Path = RESULTS,
) -> None:
    """Measure, print, write.

    Args:
        nanogpt: the folder of a clone of nanoGPT; without it only ours is measured.
        text: Tiny Shakespeare; without it that part is left out, and it says so.
        parts: which.
        rows: of 1,024 tokens in a step of the throughput.
        seeds: how many trainings on Shakespeare.
        minutes: after which no further part begins.
        dry_run: sizes for a CPU, and nothing is written.
        out: the JSON file to write.
    """
    device = torch.device("cpu") if dry_run else hardware.choose_device("cuda")
    bench = Bench(device, nanogpt, text, 2 if dry_run else rows, seeds, dry_run, out)
    print(hardware.describe(device))
    began, results = time.perf_counter(), {}
    for part in parts:
        if time.perf_counter() - began > 60 * minutes:
            print(f"{part}: left out, for want of time")
            continue
        results[part] = globals()[part](bench)
        if not dry_run:
            provenance = collect(packages=["torch"], files=[text] if text else [])
            provenance["device"] = hardware.describe(device)
            write_results(out, {"provenance": provenance, **results})
    print(f"{time.perf_counter() - began:.0f} s")


# ------------------------------------------------------------------------------- measuring steps


def timed(bench: Bench, name: str, step: Callable[[], object], tokens: int) -> Row:
    """Median over rounds of the speed of a step, and the memory that it takes."""
    begin_memory(bench)
    n_warm, n_rounds, n_steps = (1, 2, 1) if bench.dry_run else (10, 5, 20)
    for _ in range(n_warm):
        step()
    speeds = []
    for _ in range(n_rounds):
        wait(bench)
        began = time.perf_counter()
        for _ in range(n_steps):
            step()
        wait(bench)
        speeds.append(n_steps * tokens / (time.perf_counter() - began))
    speeds.sort()
    peak = hardware.peak_flops(bench.device)
    flops = flops_per_token(bench.model("gpt2-small"))
    return told(
        name=name,
        **{"tokens per second": round(speeds[len(speeds) // 2])},
        slowest=round(speeds[0]),
        fastest=round(speeds[-1]),
        mfu=round(speeds[len(speeds) // 2] * flops / peak, 4) if peak else None,
        memory=peak_memory(bench),
    )


def told(**row: Any) -> Row:
    print(row, flush=True)
    return row


def wait(bench: Bench) -> None:
    if bench.device.type == "cuda":
        torch.cuda.synchronize()


def begin_memory(bench: Bench) -> None:
    if bench.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_memory(bench: Bench) -> int | None:
    is_cuda = bench.device.type == "cuda"
    return torch.cuda.max_memory_allocated() if is_cuda else None


def random_corpus(vocab_size: int, n_tokens: int = 1_000_000) -> Corpus:
    ids = np.random.default_rng(0).integers(vocab_size, size=n_tokens)
    return Corpus(ids=ids.astype(np.uint16), n_bytes=n_tokens)


def our_step(bench: Bench, config: GPTConfig, **settings: Any) -> Callable[[], object]:
    """A step as `train` takes it, batch and all."""
    torch.compiler.reset()  # or the ninth model would run uncompiled
    model = GPT(config, generator=torch.Generator().manual_seed(0)).to(bench.device)
    settings = {"learning_rate": 1e-4, "batch_size": bench.rows, **settings}
    chosen = TrainConfig(**settings)
    state = initial_state(model, chosen, ALONE, "ddp")
    corpus = random_corpus(config.vocab_size)

    return lambda: loop._step(state, corpus)


def their_step(bench: Bench, config: GPTConfig) -> Callable[[], object]:
    """nanoGPT's model, optimizer and batches, in the order of its `train.py`."""
    path = bench.nanogpt / "model.py"
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    peer = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = peer  # its dataclass asks for it
    spec.loader.exec_module(peer)
    length, device = config.context_length, bench.device
    vocab_size = 64 * math.ceil(config.vocab_size / 64)  # as its train.py pads it
    model = peer.GPT(
        peer.GPTConfig(
            block_size=length,
            vocab_size=vocab_size,
            n_layer=config.n_layers,
            n_head=config.n_heads,
            n_embd=config.d_model,
            dropout=0.0,
            bias=False,
        )
    ).to(device)
    optimizer = model.configure_optimizers(0.1, 1e-4, (0.9, 0.95), device.type)
    fast = model if bench.dry_run else torch.compile(model)
    ids = random_corpus(config.vocab_size).ids

    def batch() -> list[torch.Tensor]:
        first = torch.randint(len(ids) - length, (bench.rows,)).tolist()
        rows = [
            torch.stack(
                [
                    torch.from_numpy(ids[i + k : i + k + length].astype(int))
                    for i in first
                ]
            )
            for k in (0, 1)
        ]
        if device.type == "cuda":
            return [x.pin_memory().to(device, non_blocking=True) for x in rows]
        return rows

    ahead = [batch()]

    def step() -> None:
        with hardware.autocast(device):
            _, loss = fast(*ahead[0])
        ahead[0] = batch()  # while the forward pass runs
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


# ------------------------------------------------------------------------------------- the parts


def throughput(bench: Bench) -> list[Row]:
    small, modern = bench.model("gpt2-small"), bench.model("modern-small")
    ways = {
        "decoder_only, GPT-2, AdamW": lambda: our_step(bench, small),
        "decoder_only, GPT-2, AdamW, 8 slices": lambda: our_step(
            bench, small, loss_slices=8
        ),
        "decoder_only, modern, Muon": lambda: our_step(bench, modern, optimizer="muon"),
    }
    if bench.nanogpt is not None:
        ways["nanoGPT"] = lambda: their_step(bench, small)
    tokens = bench.rows * small.context_length
    return [timed(bench, name, make(), tokens) for name, make in ways.items()]


def memory(bench: Bench) -> list[Row]:
    """The peak of three steps beside what is counted; on a CPU nobody keeps the former."""
    config, found = bench.model("gpt2-small"), []
    number_format = str(hardware.multiplying_format(bench.device)).split(".")[1]
    known = inspect.signature(training_bytes).parameters
    ways = [{}, {"loss_slices": 8}, {"recompute": True}]
    for changes in [*ways, {"loss_slices": 8, "recompute": True}]:
        for compile in (False,) if bench.dry_run else (False, True):
            begin_memory(bench)
            rows = 2 if bench.dry_run else 16
            settings = {**changes, "compile": compile, "batch_size": rows}
            step = our_step(bench, config, **settings)
            for _ in range(3):
                step()
            counted = training_bytes(
                config,
                rows,
                number_format=number_format,
                **{name: x for name, x in changes.items() if name in known},
            )
            row = {**settings, "bytes measured": peak_memory(bench)}
            found.append(told(**row, **{"bytes counted": sum(counted.values())}))
            del step
    return found


def decoding(bench: Bench) -> list[Row]:
    found, device = [], bench.device
    number_format = hardware.multiplying_format(device)
    known = None
    if device.type == "cuda":
        known = hardware.known_device(torch.cuda.get_device_name(device))
    for name in ("gpt2-small", "modern-small"):
        config = bench.model(name)
        model = GPT(config).to(device, number_format).eval()
        for rows, compile in (
            (1, False),
            (1, not bench.dry_run),
            (16, not bench.dry_run),
        ):
            n_new = 8 if bench.dry_run else 256
            ids = torch.zeros(rows, 16, dtype=torch.long, device=device)
            seconds = []
            for _ in range(3):  # the first compiles
                wait(bench)
                began = time.perf_counter()
                settings = {"max_new_tokens": n_new, "compile": compile}
                generate(model, ids, temperature=0, **settings)
                wait(bench)
                seconds.append(time.perf_counter() - began)
            bits = number_format.itemsize
            past = 16 + n_new // 2
            work = decoding_work(config, rows, past, bytes_per_number=bits)
            limit = rows / work.seconds(known) if known else None
            speed = rows * n_new / min(seconds)
            row = {"name": name, "rows": rows, "compiled": compile}
            row |= {"tokens per second": round(speed), "limit": limit and round(limit)}
            found.append(told(**row, share=limit and round(speed / limit, 3)))
    return found


def optimizers(bench: Bench) -> list[Row]:
    """The losses of AdamW and Muon over the same tokens, each at the better of two rates."""
    language = StoryLanguage()
    n_train, vocab_size = (50, 300) if bench.dry_run else (100_000, 4096)
    some = islice(language.stories(split="train", seed=0), min(n_train, 4000))
    tokenizer = BytePairTokenizer.train(some, vocab_size)
    n_held_out = 5 if bench.dry_run else 1000
    corpora = story_corpora(
        language, tokenizer, n_train=n_train, n_validation=n_held_out
    )
    length = 64 if bench.dry_run else 512
    sizes = {"vocab_size": tokenizer.vocab_size, "context_length": length}
    config, rows = bench.model("modern-small", **sizes), []
    for optimizer, rates in (("adamw", (6e-4, 1.8e-3)), ("muon", (1.5e-3, 4e-3))):
        for rate in rates:
            torch.compiler.reset()
            model = GPT(config, generator=torch.Generator().manual_seed(0))
            settings = TrainConfig(
                steps=4 if bench.dry_run else 600,
                batch_size=2 if bench.dry_run else 64,
                optimizer=optimizer,
                learning_rate=rate,
                warmup_steps=1 if bench.dry_run else 50,
                evaluate_every=2 if bench.dry_run else 200,
            )
            history = train(model.to(bench.device), *corpora, settings)
            row = {"optimizer": optimizer, "learning rate": rate}
            row |= {"floor": round(history.final.floor, 4)}
            row["validation"] = [
                [step * history.tokens_per_step, round(score.loss, 4)]
                for step, score in history.evaluations
            ]
            rows.append(told(**row, seconds=round(history.seconds, 1)))
    return rows


def shakespeare(bench: Bench) -> list[Row]:
    rows = []
    if bench.text is None:
        print("shakespeare: left out, for want of --text")
    for seed in range(bench.seeds if bench.text else 0):
        few = {"steps": 4, "batch_size": 2} if bench.dry_run else {}
        recipe = recipes.chosen(
            "shakespeare-gpu",
            text=bench.text,
            model=TINY if bench.dry_run else None,
            training={"seed": seed, **few},
        )
        material = recipes.gather(recipe)
        torch.compiler.reset()
        model = recipes.build(recipe, material).to(bench.device)
        settings = TrainConfig(**recipe.training)
        history = train(model, material.train, material.validation, settings)
        nats = history.final.bits_per_byte * math.log(2)
        row = {"seed": seed, "nats per character": round(nats, 4)}
        rows.append(told(**row, seconds=round(history.seconds, 1)))
    return rows


def devices(bench: Bench) -> list[Row]:
    """A process for each GPU; two on the CPU in a dry run."""
    n = 2 if bench.dry_run else torch.cuda.device_count()
    if n < 2:
        print(f"devices: left out, for want of two CUDA devices; there is {n}")
        return []
    where = {"device": "cpu" if bench.dry_run else "cuda", "timeout": 600.0}
    settings = {"processes": True, "native": True, **where}
    rows, *_ = launch(several_gpus.measure, n, bench.dry_run, **settings)
    return [told(devices=n, **row) for row in rows]


def profile(bench: Bench) -> list[Row]:
    """The dearest kernels of three steps, of the way that the throughput names first."""
    from torch.profiler import ProfilerActivity

    is_cuda, found = bench.device.type == "cuda", []
    activities = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * is_cuda]
    for name, optimizer in (("gpt2-small", "adamw"), ("modern-small", "muon")):
        step = our_step(bench, bench.model(name), optimizer=optimizer)
        for _ in range(1 if bench.dry_run else 5):
            step()
        wait(bench)
        with torch.profiler.profile(activities=activities) as trace:
            for _ in range(3):
                step()
            wait(bench)
        clock = "self_cuda_time_total" if is_cuda else "self_cpu_time_total"
        table = trace.key_averages().table(sort_by=clock, row_limit=25)
        print(table)
        path = bench.out.with_name(f"gpu-profile-{name}.txt")
        if not bench.dry_run:
            path.write_text(table + "\n")
        found.append(told(name=name, optimizer=optimizer, table=path.name))
    return found


if __name__ == "__main__":
    tyro.cli(main)
