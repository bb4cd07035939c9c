"""How notebooks are checked: what is compared, and what their kernels start from."""

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from ipykernel import kernelspec

ROOT = Path(__file__).resolve().parent.parent

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

_servers: list[tuple[subprocess.Popen, Path]] = []


def pytest_report_header():
    return f"figures drawn: DECODER_ONLY_DRAWN={os.environ['DECODER_ONLY_DRAWN']}"


def pytest_collectstart(collector):
    """nbval compares no pictures. It knows PNG and JPEG as such, and has to be told of SVG."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("image/svg+xml",)


def pytest_configure(config):
    """Notebooks start in kernels that have imported PyTorch: see `tools/warm_kernel.py`.

    `DECODER_ONLY_COLD=1` starts each from nothing. So does a system on which a process with
    threads may not fork.
    """
    if sys.platform != "linux" or os.environ.get("DECODER_ONLY_COLD"):
        return
    cold = kernelspec.get_kernel_dict
    kernelspec.get_kernel_dict = lambda: cold() | {"argv": _argv_of_a_warm_kernel()}


def _argv_of_a_warm_kernel() -> list[str]:
    program = str(ROOT / "tools" / "warm_kernel.py")
    if not _servers:
        folder = Path(tempfile.mkdtemp(prefix="kernels-"))
        command = [sys.executable, program, "serve", str(folder / "door")]
        _servers.append((subprocess.Popen(command), folder))
    door = str(_servers[0][1] / "door")
    return [sys.executable, "-S", "-E", program, "start", door, "{connection_file}"]


def pytest_unconfigure(config):
    for server, folder in _servers:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)
