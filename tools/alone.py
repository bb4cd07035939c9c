"""Runs notebooks as on Colab: each alone in an empty folder, with the package installed.

    python tools/alone.py                  # all: lessons, laboratories, workbooks
    python tools/alone.py 01 03            # those of two chapters
    python tools/alone.py book/01_tokenization.ipynb
    python tools/alone.py 01 --python PATH # in an environment of your own, which needs ipykernel

The package is installed from a copy of this clone, so no file of the clone is beside it. The
libraries are those of this interpreter, unless another one is named. Prints a table of what came of
each notebook; no notebook is changed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

import notebooks as book

ROOT = Path(__file__).resolve().parent.parent
CELL_TIMEOUT = 600


def environment(folder: Path) -> Path:
    """A new environment with the package in it, and this interpreter's libraries; its Python."""
    venv.create(folder / "env", with_pip=False, symlinks=os.name != "nt")
    names = "Scripts/python.exe" if os.name == "nt" else "bin/python"
    python = folder / "env" / names
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([python, "-c", asked], capture_output=True, text=True)
    site = Path(found.stdout.strip())
    # A folder named in a .pth file is searched, but an editable install in it is not followed.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    copy = folder / "clone"
    shutil.copytree(
        ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-text"):
        shutil.copy(ROOT / name, copy)
    options = ["-q", "--no-deps", "--no-build-isolation", "--target", site]
    command = [sys.executable, "-m", "pip", "install", *options, copy]
    subprocess.run(command, check=True)
    shutil.rmtree(copy)
    return python


def run_alone(
    path: Path, python: Path, env: dict[str, str] | None = None
) -> tuple[float, str]:
    """Run a copy of one notebook in an empty folder; the seconds, and what came of it.

    Args:
        path: the notebook, which stays as it is.
        python: the interpreter of its kernel.
        env: what to add to the environment's variables.
    """
    import nbformat
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import (
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    command = [
        str(python),
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
        "--log-level=ERROR",
    ]

    class Manager(AsyncKernelManager):
        kernel_spec = KernelSpec(argv=command, language="python")

    notebook = nbformat.read(path, as_version=4)
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | (env or {})
    variables["DECODER_ONLY_REHEARSE"] = "1"  # an hour on a GPU would be too long
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT,
            kernel_manager_class=Manager,
            resources={"metadata": {"path": folder}},
        )
        try:
            client.execute(env=variables)
            came = "ran to its end"
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            place = 1 + max(
                (i for i, c in enumerate(notebook.cells) if c.get("execution_count")),
                default=-1,
            )
            came = f"stopped in cell {place}: {told(error)}"
    return time.perf_counter() - started, came


def told(error: Exception) -> str:
    """The last line of what a kernel said, without colours, short enough for a table."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:120] if lines else type(error).__name__


def chosen(names: list[str]) -> list[Path]:
    """The notebooks that the names mean: numbers of chapters, or paths; all when there are none."""
    everything = [*book.every(), *book.workbooks()]
    if not names:
        return everything
    paths = []
    for name in names:
        if re.fullmatch(r"\d{1,2}", name):
            start = f"{int(name):02d}_"
            found = [path for path in everything if path.name.startswith(start)]
        else:
            found = [Path(name)] * Path(name).is_file()
        if not found:
            sys.exit(f"decoder-only: no notebook {name!r}")
        paths += found
    return paths


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", help="numbers of chapters or paths; all by default"
    )
    parser.add_argument(
        "--python", type=Path, help="run in this interpreter's environment"
    )
    arguments = parser.parse_args(words)
    paths, n_failed = chosen(arguments.names), 0
    with tempfile.TemporaryDirectory() as folder:
        python = arguments.python or environment(Path(folder))
        print("| Notebook | Seconds | What came of it |\n|---|--:|---|", flush=True)
        for path in paths:
            seconds, came = run_alone(path, python)
            n_failed += came != "ran to its end"
            kind = path.resolve().parent.name
            print(f"| {kind}/{path.stem} | {seconds:.0f} | {came} |", flush=True)
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
