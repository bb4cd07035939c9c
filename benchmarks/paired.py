"""Two versions of the package in turn: the time of a training step, and of decoding a token.

    git worktree add ../before REVISION
    python benchmarks/paired.py ../before             # that version, and the one here
    python benchmarks/paired.py ../before --rounds 60

Each version runs in a process of its own, and both do the same work in turn. A busy moment of the
machine then falls on both sides of a pair. The clock is the processor's, of one thread. Printed are
the median of the ratios here / before, and the interval of that median over 2,000 bootstrap samples
of the pairs. Only names that both versions have are used.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

WORKER = """
import sys, time, torch
torch.set_num_threads(1)
from decoder_only import GPT, GPTConfig
from decoder_only.data import text_corpus
from decoder_only.generation import generate
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, train

# The shape of `decoder-only train`, on a text of random words.
shape = {"d_model": 128, "n_layers": 3, "n_heads": 4, "d_mlp": 128, "tied": False}
parts = {"positions": "rotary", "norm": "rms", "activation": "squared_relu", "bias": False}
config = GPTConfig(vocab_size=2900, context_length=192, **shape, **parts, qk_norm=True)
model = GPT(config, generator=torch.Generator().manual_seed(0))
words = torch.randint(97, 123, (60_000,), generator=torch.Generator().manual_seed(1))
corpus = text_corpus("".join(map(chr, words.tolist())), BytePairTokenizer([]))
settings = {"batch_size": 8, "optimizer": "muon", "loss_slices": 4, "learning_rate": 1e-4}
steps = TrainConfig(steps=10, **settings)
prompt = torch.arange(1, 17)[None]
work = {
    "training": lambda: train(model, corpus, None, steps),
    "decoding": lambda: generate(model, prompt, max_new_tokens=100, temperature=0),
}
print("ready", flush=True)
for line in sys.stdin:
    start = time.process_time()
    work[line.strip()]()
    print(time.process_time() - start, flush=True)
"""


class Version:
    """The package of a folder, in a process that works when it is told to."""

    def __init__(self, folder: Path) -> None:
        path = {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env=os.environ | path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def seconds(self, work: str) -> float:
        self.process.stdin.write(f"{work}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def compare(here: Version, before: Version, work: str, rounds: int) -> np.ndarray:
    """The seconds of both versions, (rounds, 2); which goes first changes each round."""
    for version in (here, before):  # not counted: what runs for the first time
        version.seconds(work)
    pairs = []
    for number in range(rounds):
        if number % 2:
            pairs.append((here.seconds(work), before.seconds(work)))
        else:
            pairs.append((before.seconds(work), here.seconds(work))[::-1])
    return np.array(pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path, help="folder of the other version")
    parser.add_argument("--rounds", type=int, default=30, help="pairs of each kind")
    options = parser.parse_args()
    here = Version(Path(__file__).resolve().parent.parent)
    before = Version(options.before.resolve())
    draws = np.random.default_rng(0)
    for work, unit, n in (("training", "a step", 10), ("decoding", "a token", 100)):
        pairs = compare(here, before, work, options.rounds)
        ratios = pairs[:, 0] / pairs[:, 1]
        samples = draws.choice(ratios, (2000, len(ratios)))
        low, high = np.quantile(np.median(samples, axis=1), [0.05, 0.95])
        times = ", ".join(f"{1e3 * t / n:.3f}" for t in np.median(pairs, axis=0))
        print(
            f"{work}: {np.median(ratios):.4f} (90%: {low:.4f} to {high:.4f})", end="; "
        )
        print(f"{times} ms {unit}, here and before", flush=True)


if __name__ == "__main__":
    main()
