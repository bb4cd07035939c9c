"""What every benchmark shares: honest timings, and a record of where and from what they came."""

import hashlib
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["collect", "measure", "summary", "write_results"]

ROOT = Path(__file__).resolve().parent.parent


def measure(
    ways: Mapping[str, Callable[[], Any]], *, repeats: int = 1
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Time several ways of doing something, in turn, so that a busy moment of the machine hits all.

    Wall-clock time is what a user waits; processor time (of all threads together) is what the work
    costs, and changes less when other programs keep the machine busy.

    Args:
        ways: for each name, the function to time.
        repeats: how many rounds.

    Returns:
        For each name its timings in seconds (`wall` and `cpu`, each as `summary` gives it), and for
        each name what its function returned last.
    """
    seconds = {name: {"wall": [], "cpu": []} for name in ways}
    returned = {}
    for _ in range(repeats):
        for name, function in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            returned[name] = function()
            seconds[name]["wall"].append(time.perf_counter() - wall)
            seconds[name]["cpu"].append(time.process_time() - cpu)
    timings = {
        name: {clock: summary(values) for clock, values in clocks.items()}
        for name, clocks in seconds.items()
    }
    return timings, returned


def summary(seconds: list[float]) -> dict[str, Any]:
    """Median and spread of repeated measurements."""
    return {
        "median": round(statistics.median(seconds), 4),
        "min": round(min(seconds), 4),
        "max": round(max(seconds), 4),
        "repeats": len(seconds),
    }


def collect(
    *, packages: Iterable[str] = (), files: Iterable[Path] = ()
) -> dict[str, Any]:
    """Everything that one needs to judge a measurement, and to repeat it.

    Args:
        packages: distributions whose versions matter.
        files: the inputs; recorded by name, size and checksum, never by their folder.
    """
    return {
        "command": _command(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": _revision(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()]
        if hasattr(os, "getloadavg")
        else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in packages},
        "files": [_describe(Path(file)) for file in files],
    }


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Write results as JSON that reads well in a diff; refuse a path of this machine in it."""
    content = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    for private in (str(ROOT), str(Path.home()), os.getcwd()):
        if len(private) > 1 and private in content:
            raise ValueError(
                f"the results would name a path of this machine, {private}"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def _command() -> str:
    """The command line, each path shortened to its name."""
    script = Path(sys.argv[0]).resolve()
    shown = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script.name
    arguments = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    return shlex.join(["python", str(shown), *arguments])


def _revision() -> str | None:
    """The commit of the working tree, marked where tracked files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git(
            "status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks"
        )
        return git("rev-parse", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [
        line.partition(":")[2].strip()
        for line in lines
        if line.startswith("model name")
    ]
    return names[0] if names else platform.machine()


def _describe(file: Path) -> dict[str, Any]:
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return {"name": file.name, "bytes": len(content), "sha256": digest}
