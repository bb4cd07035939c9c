"""Decoding with a cache: ours against transformers' `generate`, and against the memory's bandwidth.

    python benchmarks/decoding.py               # random weights of GPT-2 small's shape
    python benchmarks/decoding.py --before DIR  # and the packages of DIR/src and here, each in a
                                                # process of its own, which holds nothing else

One token takes little arithmetic, but all weights must come from memory: nothing decodes faster
than they can be read. Each round times every contender once, so that a busy moment of the machine
falls on all, and the medians of the rounds are compared. The clock is the processor's, of the one
thread, which other programs disturb less than the wall's. The bandwidth is that of the same kind of
work, a large matrix times one vector, in the same rounds.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from provenance import collect, write_results

N_PROMPT, N_NEW, ROUNDS = 16, 64, 7
RESULTS = Path(__file__).parent / "results" / "decoding.json"

BEFORE = """
import sys, time, torch
torch.set_num_threads(1)
from decoder_only import GPT
from decoder_only.generation import generate
from decoder_only.model.presets import PRESETS

model = GPT(PRESETS["gpt2-small"], generator=torch.Generator().manual_seed(0)).eval()
ids = torch.arange(1, int(sys.argv[1]) + 1)[None]
print("ready", flush=True)
for line in sys.stdin:
    start = time.process_time()
    generate(model, ids, max_new_tokens=int(sys.argv[2]), temperature=0)
    print(time.process_time() - start, flush=True)
"""


def timed(function) -> float:
    """Seconds of processor time that a call takes: one thread's, so what a user waits."""
    start = time.process_time()
    function()
    return time.process_time() - start


class Elsewhere:
    """The package of another folder, which generates whenever it is told to."""

    def __init__(self, folder: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEFORE, str(N_PROMPT), str(N_NEW)],
            env=os.environ | {"PYTHONPATH": str(Path(folder) / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def seconds(self) -> float:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", help="a checkout of the package to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    import transformers

    from decoder_only import GPT
    from decoder_only.generation import generate
    from decoder_only.hub import to_gpt2
    from decoder_only.model.presets import PRESETS

    config = PRESETS["gpt2-small"]
    ours = GPT(config, generator=torch.Generator().manual_seed(0)).eval()
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    theirs.load_state_dict(to_gpt2(ours.state_dict()), strict=False)
    ids = torch.arange(1, N_PROMPT + 1)[None]  # transformers masks its padding, 0
    greedy = {"max_new_tokens": N_NEW, "do_sample": False, "use_cache": True}
    greedy |= {"eos_token_id": None, "pad_token_id": 0}
    x, matrix = torch.randn(4096, 1), torch.randn(32768, 4096)  # 537 MB

    ways = {
        "ours": lambda: timed(
            lambda: generate(ours, ids, max_new_tokens=N_NEW, temperature=0)
        ),
        "transformers": lambda: timed(lambda: theirs.generate(ids, **greedy)),
        "reading": lambda: timed(lambda: [matrix @ x for _ in range(4)]) / 4,
    }
    if options.before:
        ways["before"] = Elsewhere(options.before).seconds
        ways["now"] = Elsewhere(str(RESULTS.parents[2])).seconds
    seconds = {name: [] for name in ways}
    for number in range(options.rounds + 1):
        for name, way in ways.items():
            took = way()
            if number:  # the first round warms up
                seconds[name].append(took)
    same = torch.equal(
        generate(ours, ids, max_new_tokens=N_NEW, temperature=0),
        theirs.generate(ids, **greedy),
    )
    middle = {name: median(values) for name, values in seconds.items()}
    n_bytes = 4 * ours.count_parameters()
    bandwidth = 4 * matrix.numel() / middle["reading"]
    found = {
        "prompt": N_PROMPT,
        "new_tokens": N_NEW,
        "rounds": options.rounds,
        "seconds": {
            name: [round(each, 4) for each in values]
            for name, values in seconds.items()
        },
        "tokens_per_second": {
            name: round(N_NEW / value, 2)
            for name, value in middle.items()
            if name != "reading"
        },
        "same_tokens_as_transformers": same,
        "time_relative_to_transformers": round(
            median(
                a / b
                for a, b in zip(seconds["ours"], seconds["transformers"], strict=True)
            ),
            3,
        ),
        "bandwidth_gb_per_second": round(bandwidth / 1e9, 2),
        "share_of_bandwidth": round(n_bytes * N_NEW / middle["ours"] / bandwidth, 3),
    }
    if options.before:
        found["time_relative_to_before"] = round(
            median(
                a / b for a, b in zip(seconds["now"], seconds["before"], strict=True)
            ),
            3,
        )
    found["provenance"] = collect(packages=["torch", "transformers"])
    write_results(RESULTS, found)
    print(found)


if __name__ == "__main__":
    main()
