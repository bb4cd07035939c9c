"""Runs notebooks from top to bottom in fresh kernels, and stores their outputs.

    python tools/execute.py             # all of them, two at a time
    python tools/execute.py 01 03       # chapters by number, with their laboratories
    python tools/execute.py book/01_tokenization.ipynb

A notebook in which a cell raises is left as it was. What is stored depends on the code alone: no
time stamps, no version of Python, one stream output where the kernel happened to send several.
"""

import argparse
import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import notebooks as book

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "pygments_lexer": "ipython3",
}
KEPT_CELL_METADATA = {"tags", "mystnb", "slideshow", "jupyter", "collapsed"}
CELL_TIMEOUT = 600


def notebooks(names: list[str]) -> list[Path]:
    """The notebooks that the names mean: numbers of chapters, or paths; all when there are none."""
    everything = book.every()
    if not names:
        return everything
    chosen = []
    for name in names:
        number = re.fullmatch(r"\d{1,2}", name)
        path = Path(name).resolve()
        found = (
            [path for path in everything if path.name.startswith(f"{int(name):02d}_")]
            if number
            else [path] * path.is_file()
        )
        if not found:
            there = ", ".join(path.name[:2] for path in book.lessons()) or "none yet"
            sys.exit(f"decoder-only: no notebook {name!r}; the chapters are: {there}.")
        chosen += found
    return chosen


def kernel_manager():
    """A manager for a kernel of this very interpreter, whatever kernels are registered here."""
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    class OwnKernelManager(AsyncKernelManager):
        @property
        def kernel_spec(self):
            command = [
                sys.executable,
                "-m",
                "ipykernel_launcher",
                "-f",
                "{connection_file}",
            ]
            return KernelSpec(argv=[*command, "--log-level=ERROR"], language="python")

    return OwnKernelManager


def normalise(notebook) -> None:
    """Leaves in the notebook only what its source determines."""
    notebook.metadata = {
        "kernelspec": dict(KERNELSPEC),
        "language_info": dict(LANGUAGE),
    }
    for cell in notebook.cells:
        cell.metadata = {
            k: v for k, v in cell.metadata.items() if k in KEPT_CELL_METADATA
        }
        if cell.cell_type != "code":
            continue
        outputs = []
        for output in cell.outputs:
            last = outputs[-1] if outputs else None
            if (
                output.output_type == "stream"
                and last
                and last.get("name") == output.name
            ):
                last.text += output.text
            else:
                outputs.append(output)
        cell.outputs = outputs


def store(notebook, path: Path) -> None:
    """Writes aside, then replaces: a reader never sees half a notebook."""
    import nbformat

    nbformat.validate(notebook)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def execute(path: Path) -> tuple[float, str | None]:
    """Runs one notebook and stores it. Returns the seconds, and what went wrong, if anything."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import (
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_manager_class=kernel_manager(),
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    started = time.perf_counter()
    try:
        client.execute(
            env={
                **os.environ,
                "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
                "DECODER_ONLY_REHEARSE": "1",  # what is stored is the same with a GPU
            }
        )
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return time.perf_counter() - started, re.sub(
            r"\x1b\[[0-9;]*m", "", str(error)
        ).strip()
    seconds = time.perf_counter() - started
    normalise(notebook)
    store(notebook, path)
    return seconds, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", help="chapter numbers or paths; all by default"
    )
    parser.add_argument("--jobs", type=int, default=2, help="notebooks at a time (2)")
    arguments = parser.parse_args()
    paths = notebooks(arguments.names)
    failed = 0
    with ProcessPoolExecutor(max_workers=max(1, arguments.jobs)) as pool:
        running = {pool.submit(execute, path): path for path in paths}
        for future in as_completed(running):
            path = running[future]
            seconds, problem = future.result()
            if problem:
                failed += 1
                print(
                    f"{book.name(path)}: failed after {seconds:.1f} s, left as it was\n{problem}\n"
                )
            else:
                print(f"{book.name(path)}: {seconds:.1f} s", flush=True)
    if failed:
        sys.exit(f"decoder-only: {failed} of {len(paths)} notebooks failed.")


if __name__ == "__main__":
    main()
