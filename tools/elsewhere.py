"""Rehearses the book on other machines: what is green here only is found before a reader finds it.

    python tools/elsewhere.py                  # every notebook and every test that computes
    python tools/elsewhere.py 03 07            # two chapters
    python tools/elsewhere.py tests            # the tests alone; or one: tests/test_model.py
    python tools/elsewhere.py 03 --places avx2 threads-4

It runs them here, then in each other place, and lists every cell and test whose outcome changes,
with both outcomes. The places are

- random rounding, with three seeds: matrix products, reductions and softmaxes end one unit in the
  last place higher or lower (`tools/rounding/sitecustomize.py`);
- other processors, as far as this one can play them: without vector instructions, with AVX2, with
  AVX-512 where it has them, in PyTorch, oneDNN, MKL, OpenBLAS and NumPy;
- two threads and four, where all else runs with one.

Ends with status 1 if anything changes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import execute

ROOT = Path(__file__).resolve().parent.parent
ROUNDING = str(Path(__file__).parent / "rounding")

# NumPy's and OpenBLAS's own switches go with those of torch's three libraries.
AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
PLACES: dict[str, dict[str, str]] = {
    "here": {},
    **{
        f"rounding-{seed}": {"ROUNDING": str(seed), "PYTHONPATH": ROUNDING}
        for seed in (1, 2, 3)
    },
    "no-vectors": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": f"AVX2 FMA3 {AVX512}",
    },
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "MKL_CBWR": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": AVX512,
    },
    "avx512": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "MKL_CBWR": "AVX512",
        "OPENBLAS_CORETYPE": "SkylakeX",
    },
    # Threads that wait by spinning would hold the cores that the others need.
    "threads-2": {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"},
    "threads-4": {"OMP_NUM_THREADS": "4", "OMP_WAIT_POLICY": "passive"},
}
# Tests that read sources, pages or damaged files: they round nothing.
WITHOUT_NUMBERS = (
    "architecture",
    "book",
    "devices",
    "forward_pass",
    "hostile",
    "html",
    "numbers",
    "package",
    "pages",
    "reading_order",
    "setup",
)


def can_play(place: str) -> bool:
    """False for AVX-512 where the processor lacks it."""
    if place != "avx512":
        return True
    import torch

    return torch.backends.cpu.get_cpu_capability() == "AVX512"


def run(place: str, paths: list[str], jobs: int) -> dict[str, str]:
    """The outcome of every cell and test in a place: nothing where it passed, or what it said."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    wanted = PLACES[place]
    if "PYTHONPATH" in wanted and environment.get("PYTHONPATH"):
        path = f"{wanted['PYTHONPATH']}{os.pathsep}{environment['PYTHONPATH']}"
        wanted = wanted | {"PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = f"-q -n {jobs} --dist loadfile -p no:cacheprovider --tb short"
        notebooks = "--nbval --nbval-current-env --nbval-cell-timeout 1200"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options.split(), *notebooks.split()]
            + [f"--junitxml={report}", *paths]
            + [f"--ignore=tests/test_{name}.py" for name in WITHOUT_NUMBERS],
            cwd=ROOT,
            env=environment | wanted,
            capture_output=True,
            text=True,
        )
        if done.returncode not in (0, 1):
            sys.exit(
                f"{place}: pytest did not run:\n{done.stdout[-3000:]}{done.stderr}"
            )
        cases = ElementTree.parse(report).iter("testcase")
    outcomes = {}
    for case in cases:
        wrong = [*case.iter("failure"), *case.iter("error")]
        said = "\n".join(each.text or each.get("message") for each in wrong)
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = said
    return outcomes


def told(outcome: str | None) -> str:
    """An outcome in a few lines: of a cell the two outputs, of a test its last words."""
    if outcome is None:
        return "    did not run"
    if not outcome:
        return "    passed"
    _, found, traceback = outcome.partition("Traceback:")
    lines = [line for line in (traceback if found else outcome).splitlines() if line]
    return "\n".join(f"    {line[:160]}" for line in lines[-24:])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", help="chapters by number, 'tests', or paths")
    parser.add_argument(
        "--places", nargs="+", choices=list(PLACES)[1:], default=list(PLACES)[1:]
    )
    parser.add_argument("--jobs", type=int, default=2, help="at a time (2)")
    parser.add_argument("--out", type=Path, help="a JSON file for all outcomes")
    arguments = parser.parse_args()
    paths = []
    for name in arguments.what or ["tests", "book"]:
        there = (ROOT / name).exists()
        paths += [name] if there else map(str, execute.notebooks([name]))
    found: dict[str, dict[str, str]] = {}
    n_changed = 0
    for place in ["here", *arguments.places]:
        if not can_play(place):
            print(f"{place}: this processor cannot play it")
            continue
        began = time.perf_counter()
        found[place] = run(place, paths, arguments.jobs)
        here, there = found["here"], found[place]
        changed = [
            name
            for name in sorted(here | there)
            if bool(here.get(name)) != bool(there.get(name))
            or (name in here) != (name in there)
        ]
        if place == "here":
            changed = [name for name, outcome in here.items() if outcome]
        seconds = time.perf_counter() - began
        print(
            f"{place}: {len(there)} cells and tests in {seconds:.0f} s, "
            f"{len(changed)} {'fail' if place == 'here' else 'change'}",
            flush=True,
        )
        for name in changed:
            print(f"  {name}\n{told(there.get(name))}", flush=True)
            if place != "here" and here.get(name):
                print(f"    here:\n{told(here.get(name))}")
        n_changed += len(changed)
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    sys.exit(1 if n_changed else 0)


if __name__ == "__main__":
    main()
