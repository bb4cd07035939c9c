"""Training or evaluation: the mode of a module is the modes of its parts, which may differ."""

import contextlib
from collections.abc import Iterator

from torch import nn


@contextlib.contextmanager
def kept_modes(module: nn.Module) -> Iterator[None]:
    """Within, modes may change; at the end each part has the one in which it was."""
    before = {part: part.training for part in module.modules()}
    try:
        yield
    finally:
        for part, was_training in before.items():
            part.training = was_training
