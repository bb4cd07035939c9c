"""Tiny Shakespeare on a CPU, in the time that nanoGPT takes for its CPU recipe.

    python benchmarks/shakespeare.py --text tinyshakespeare.txt --nanogpt NANOGPT_FOLDER

nanoGPT (a clone of github.com/karpathy/nanoGPT) trains by the recipe of its README for a CPU: 4
blocks, 128 wide, context 64, 12 rows, 2,000 steps. `decoder-only train` then trains by its preset
`shakespeare-cpu`, once for each seed, and once more on bytes instead of words' parts. Both are
timed as commands, from start to end, one after the other.

The measure is nats per character over the whole validation set, the last tenth of the text. Each
model is asked for every character once, in consecutive windows of its own context. The text is
ASCII, so that bytes are characters, and a token's surprise is shared by its characters. nanoGPT
keeps the weights that did best on samples of the validation set; ours are the last.

    python benchmarks/shakespeare.py --text tinyshakespeare.txt --choose

shows how the preset's learning rate was chosen: by training on nine tenths of the training text,
and measuring on its last tenth. The validation set is not read.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tyro
from provenance import collect, write_results

from decoder_only.data import split_text

RESULTS = Path(__file__).parent / "results" / "shakespeare.json"
RECIPE = [
    "--device=cpu",
    "--compile=False",
    "--eval_iters=20",
    "--log_interval=1",
    "--block_size=64",
    "--batch_size=12",
    "--n_layer=4",
    "--n_head=4",
    "--n_embd=128",
    "--max_iters=2000",
    "--lr_decay_iters=2000",
    "--dropout=0.0",
]

# In a process of its own, because the peer's `model` is a module on its path.
ASK_PEER = """
import pickle, sys, numpy, torch
from model import GPT, GPTConfig
saved = torch.load("out-shakespeare-char/ckpt.pt", map_location="cpu")
model = GPT(GPTConfig(**saved["model_args"]))
model.load_state_dict(saved["model"])
model.eval()
ids = numpy.fromfile("data/shakespeare_char/val.bin", dtype=numpy.uint16).astype(numpy.int64)
ids, width, total = torch.from_numpy(ids), model.config.block_size, 0.0
with torch.no_grad():
    for start in range(0, len(ids) - 1, width):
        x, y = ids[start : start + width][None], ids[start + 1 : start + width + 1][None]
        logits, loss = model(x[:, : y.shape[1]], y)
        total += loss.item() * y.shape[1]
print(total / (len(ids) - 1))
"""

Row = dict[str, Any]


def main(
    text: Path,
    nanogpt: Path | None = None,
    seeds: int = 3,
    with_bytes: bool = True,
    choose: bool = False,
    out: Path = RESULTS,
) -> None:
    """Train, compare, and write the results.

    Args:
        text: Tiny Shakespeare.
        nanogpt: the folder of a clone of nanoGPT; without it only ours is measured.
        seeds: how many seeds of ours, from 0 on.
        with_bytes: train on bytes too.
        choose: compare learning rates on the training text, and do nothing else.
        out: the JSON file to write.
    """
    text = text.resolve()  # the runs have folders of their own
    if choose:
        compare_rates(text)
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if nanogpt:
            rows.append(peer(nanogpt, text, Path(folder) / "nanogpt"))
            show(rows[-1])
        for seed in range(seeds):
            rows.append(ours(text, Path(folder) / f"run-{seed}", seed))
            show(rows[-1])
        if with_bytes:
            options = ("--vocab-size=257", "--steps=1900", "--evaluate-every=1900")
            rows.append(ours(text, Path(folder) / "bytes", 0, options))
            show(rows[-1])
    losses = [row["nats per character"] for row in rows if row["name"] == "preset"]
    seconds = [row["seconds"] for row in rows if row["name"] == "preset"]
    summary = {
        "mean nats per character": round(statistics.mean(losses), 4),
        "spread": round(max(losses) - min(losses), 4),
        "mean seconds": round(statistics.mean(seconds), 1),
    }
    if nanogpt:
        summary["time as a share of nanoGPT's"] = round(
            summary["mean seconds"] / rows[0]["seconds"], 3
        )
    print(json.dumps(summary, indent=1))
    provenance = collect(packages=["torch", "numpy", "tiktoken"], files=[text])
    write_results(out, {"provenance": provenance, "summary": summary, "rows": rows})


def compare_rates(text: Path) -> None:
    """The preset at several learning rates, on the training text alone."""
    training, _ = split_text(text.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "training.txt"
        part.write_text(training, encoding="utf-8")
        for rate in (2e-3, 4e-3, 8e-3, 1.6e-2):
            options = ("--learning-rate", str(rate))
            row = ours(part, Path(folder) / f"rate-{rate}", 0, options)
            print(f"learning rate {rate:g}:", row["nats per character"], flush=True)


def peer(source: Path, text: Path, folder: Path) -> Row:
    """nanoGPT's recipe, in a copy of its folder."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(".git", "out*"))
    shutil.copy(text, folder / "data" / "shakespeare_char" / "input.txt")
    run([sys.executable, "data/shakespeare_char/prepare.py"], folder)
    command = [sys.executable, "train.py", "config/train_shakespeare_char.py", *RECIPE]
    seconds, cpu, _ = run(command, folder)
    _, _, said = run([sys.executable, "-c", ASK_PEER], folder)
    return {
        "name": "nanoGPT",
        "nats per character": round(float(said.split()[-1]), 4),
        "seconds": seconds,
        "processor seconds": cpu,
        "characters trained on": 2000 * 12 * 64,
    }


def ours(text: Path, folder: Path, seed: int, options: tuple[str, ...] = ()) -> Row:
    """The preset, as a reader would call it."""
    command = [sys.executable, "-m", "decoder_only", "train", "--text", str(text)]
    command += ["--recipe", "shakespeare-cpu", "--seed", str(seed), "--device", "cpu"]
    command += ["--out", str(folder), "--quiet", *options]
    seconds, cpu, _ = run(command, folder.parent)
    log = (folder / "log.jsonl").read_text().splitlines()
    last = [json.loads(line) for line in log if "validation_loss" in line][-1]
    config = json.loads((folder / "config.json").read_text())
    bits = last["bits_per_byte"]
    n_steps = sum('"loss"' in line for line in log)
    tokens = n_steps * config["training"]["batch_size"]
    tokens *= config["model"]["context_length"]
    bytes_per_token = last["validation_loss"] / (bits * 0.6931471805599453)
    return {
        "name": "preset" if not options else "preset, bytes",
        "seed": seed,
        "nats per character": round(bits * 0.6931471805599453, 4),
        "seconds": seconds,
        "processor seconds": cpu,
        "characters trained on": round(tokens * bytes_per_token),
    }


def run(command: list[str], folder: Path) -> tuple[float, float, str]:
    """Wall-clock and processor seconds of a command, and what it printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=dict(os.environ)
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(seconds, 1), round(cpu, 1), done.stdout


def show(row: Row) -> None:
    print(
        f"{row['name']:14} {row['nats per character']:.4f} nats per character, "
        f"{row['seconds']:.0f} s ({row['processor seconds']:.0f} s of processor time), "
        f"{row['characters trained on'] / 1e6:.2f} M characters",
        flush=True,
    )


if __name__ == "__main__":
    tyro.cli(main)
