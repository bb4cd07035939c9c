"""When and with what a run was made, so that it can be made again."""

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import numpy
import torch

import decoder_only


def provenance() -> dict[str, object]:
    """When and with what a run was made: time, versions, machine, state of the code."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "decoder_only": decoder_only.__version__,
        "git": _git_state(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
    }


def _git_state() -> dict[str, object] | None:
    """The commit of the package's source, where it is a git checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        # An installed package may be inside another repository.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return {
            "commit": git("rev-parse", "HEAD"),
            "changed": bool(git("status", "--porcelain")),
        }
    except (OSError, subprocess.SubprocessError):
        return None
