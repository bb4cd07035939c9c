"""How notebooks are checked: what is compared, and what their kernels start from."""

import os
import sys
from datetime import date
from pathlib import Path

from ipykernel import kernelspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import warm

# The hour on a GPU is rehearsed here, on every machine: its stored outputs are of the rehearsal.
os.environ["DECODER_ONLY_REHEARSE"] = "1"
# No output compares drawings. One figure in eight is drawn, each day other ones; the rest are laid
# out only. The weekly workflow draws all. To repeat a run, set what the head of its report says.
DRAWN = (
    "0/1"
    if "DECODER_ONLY_NIGHTLY" in os.environ
    else f"{date.today().toordinal() % 8}/8"
)
os.environ.setdefault("DECODER_ONLY_DRAWN", DRAWN)


def pytest_report_header():
    return f"figures drawn: DECODER_ONLY_DRAWN={os.environ['DECODER_ONLY_DRAWN']}"


def pytest_collectstart(collector):
    """nbval compares no pictures. It knows PNG and JPEG as such, and has to be told of SVG."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("image/svg+xml",)


def pytest_configure(config):
    """Notebooks start in kernels that have imported PyTorch: see `tools/warm.py`.

    `DECODER_ONLY_COLD=1` starts each from nothing. So does a system on which a process with
    threads may not fork.
    """
    cold = kernelspec.get_kernel_dict
    kernelspec.get_kernel_dict = lambda: cold() | {"argv": _argv()}


def _argv() -> list[str]:
    return [
        *warm.python("kernels"),
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
    ]
