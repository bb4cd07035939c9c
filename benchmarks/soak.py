"""Kill a training again and again, and see whether anything is lost.

    python benchmarks/soak.py --kills 200

A small run is begun in a process of its own, which saves after every step, so that most moments
lie within a save. SIGKILL ends it at a random moment, and the next process goes on, until it has
been killed so many times; the last one is left alone. What must then hold is asserted: the log,
every tensor of the last state and the weights equal those of a run that was never touched, bit by
bit. The result is printed and written to `benchmarks/results/soak.json`.
"""

import sys
import tempfile
import time
from pathlib import Path

import tyro
from provenance import ROOT, collect, write_results

sys.path.insert(0, str(ROOT / "tests"))
from test_resume import assert_same_end, begin, go, kill_again_and_again

RESULTS = Path(__file__).parent / "results" / "soak.json"


def main(
    kills: int = 200, steps: int = 2000, seed: int = 0, out: Path = RESULTS
) -> None:
    """Kill, compare, and write the result.

    Args:
        kills: how many processes to kill.
        steps: length of the run; long enough that it does not end before.
        seed: of the random moments.
        out: the JSON file to write.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        killed, whole = Path(folder) / "killed", begin(Path(folder) / "whole")
        go(whole, steps=steps, save_every=1)
        n_killed = kill_again_and_again(killed, n_kills=kills, n_steps=steps, seed=seed)
        assert_same_end(killed, whole)
    seconds = time.perf_counter() - began
    print(
        f"killed {n_killed} of {kills} times in a run of {steps} steps, {seconds:.0f} s; "
        "log, states and weights equal those of the run that was left alone"
    )
    results = {
        "kills": n_killed,
        "steps": steps,
        "seed": seed,
        "seconds": round(seconds),
        "states lost": 0,
        "continuation": "equal bit by bit",
    }
    provenance = collect(packages=["torch", "safetensors"])
    write_results(out, {"provenance": provenance, **results})


if __name__ == "__main__":
    tyro.cli(main)
