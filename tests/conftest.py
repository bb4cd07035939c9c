"""What all tests share. Set before torch or a kernel starts, so that both obey."""

import importlib
import json
import math
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

# One thread, in the tests and in the notebooks' kernels, unless somebody asks for more: two of them
# run at a time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A test that wants something of the network says so itself; nothing tries behind our back.
os.environ["HF_HUB_OFFLINE"] = "1"
# The kernels draw into the notebook, whatever the shell prefers.
os.environ.pop("MPLBACKEND", None)

# The same examples each time; `HYPOTHESIS_PROFILE=explore` looks for new ones.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture
def trial(monkeypatch):
    """Imports a trial by its name. No other test finds what it brought along.

    A trial trains as its command does: the annotations' checks would take most of the time, and
    the tests of the modules have them.
    """
    from ladder import unchecked

    folder = ROOT / "benchmarks"
    monkeypatch.syspath_prepend(str(folder / "trials"))
    monkeypatch.setattr(sys, "path", list(sys.path))  # a trial adds the folder above
    with unchecked():
        yield importlib.import_module
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            sys.modules.pop(name)


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The folder of the built pages."""
    import build

    output = tmp_path_factory.mktemp("book")
    complaints = build.build(output)
    assert complaints is None, f"Sphinx complains:\n{complaints}"
    return output / "_build" / "html"


# ---------------------------------------------------------------------------- what runs, and when

TABLE = Path(__file__).with_name("seconds.json")
"""How long each file took when it was last measured, by `--store-seconds`."""
QUICK = 20.0
"""Seconds of a core for `make quick`: it runs the quickest files of tests that fit, and no more."""
UNITS = dict.fromkeys(
    ["tests/test_html.py", "tests/test_pages.py", "tests/test_pdf.py"], "the pages"
)
"""Files that one worker takes together: these share the fixture `site`."""

_measured: Counter[str] = Counter()


def pytest_addoption(parser):
    group = parser.getgroup("the book")
    group.addoption(
        "--quick",
        action="store_true",
        help="no slow files of tests, but those of modules changed since the last commit",
    )
    group.addoption(
        "--store-seconds",
        action="store_true",
        help="store how long each file takes: the order in which the next runs start them",
    )


@cache
def seconds() -> dict[str, float]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


@cache
def slow() -> frozenset[str]:
    """The files of tests for which `make quick` has no time."""
    tests = {name: taken for name, taken in seconds().items() if "test_" in name}
    names = sorted(tests, key=tests.get)
    sums = accumulate(tests[name] for name in names)
    return frozenset(n for n, so_far in zip(names, sums, strict=True) if so_far > QUICK)


@cache
def changed() -> frozenset[str]:
    """The names of files changed since the last commit, and of their folders; none outside git."""
    command = ["git", "status", "--porcelain", "--no-renames", "--untracked-files=all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return frozenset(
        part
        for line in done.stdout.splitlines()
        for part in Path(line[3:].strip('"')).with_suffix("").parts
    )


def pytest_ignore_collect(collection_path, config):
    """With `--quick`, a slow file of tests runs only while it or its module is worked on."""
    stem = collection_path.stem.removeprefix("test_")
    name = collection_path.relative_to(ROOT).as_posix()
    worked_on = {stem, f"test_{stem}"} & changed()
    if config.option.quick and name in slow() and not worked_on:
        return True
    return None  # others decide


def unit(nodeid: str) -> str:
    """What one worker runs as a whole: a file, so that cells and fixtures stay together."""
    name = nodeid.partition("::")[0]
    return UNITS.get(name, name)


def pytest_collection_modifyitems(config, items):
    """In a worker, the longest first: the short ones fill what is left, and all end together."""
    if not hasattr(config, "workerinput"):
        return
    total: Counter[str] = Counter()
    for name, taken in seconds().items():
        total[unit(name)] += taken
    items.sort(key=lambda item: -total.get(unit(item.nodeid), math.inf))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    class ByUnit(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    if config.option.dist != "loadfile":
        return None
    config.option.loadscopereorder = False  # keeps the order above
    return ByUnit(config, log)


def pytest_runtest_logreport(report):
    _measured[report.nodeid.partition("::")[0]] += report.duration


def pytest_sessionfinish(session):
    config = session.config
    if config.option.store_seconds and not hasattr(config, "workerinput"):
        rows = {name: round(taken, 1) for name, taken in sorted(_measured.items())}
        TABLE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def pytest_terminal_summary(terminalreporter):
    """The share of cells that were compared, beside the outcome."""
    import notebooks
    import report

    rows = report.shares(notebooks.every())
    if rows and getattr(terminalreporter.config.option, "nbval", False):
        total = sum(cells for _, cells, _ in rows), sum(strict for _, _, strict in rows)
        terminalreporter.write_line(report.line("The book:", *total))
