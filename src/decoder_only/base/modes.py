"""Training or evaluation mode, which may differ between the parts of a module."""

import contextlib
from collections.abc import Iterator

from torch import nn


@contextlib.contextmanager
def restored_modes(module: nn.Module) -> Iterator[None]:
    """Restore the mode of every part of a module on leaving the context."""
    before = {part: part.training for part in module.modules()}
    try:
        yield
    finally:
        for part, was_training in before.items():
            part.training = was_training
