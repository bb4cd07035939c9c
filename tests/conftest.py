"""What all tests share. Set before torch or a kernel starts, so that both obey."""

import importlib
import os
import sys
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


def pytest_terminal_summary(terminalreporter):
    """The share of cells that were compared, beside the outcome."""
    import report

    rows = report.shares(sorted((ROOT / "book").glob("*.ipynb")))
    if rows and terminalreporter.config.option.nbval:
        total = sum(cells for _, cells, _ in rows), sum(strict for _, _, strict in rows)
        terminalreporter.write_line(report.line("The book:", *total))
