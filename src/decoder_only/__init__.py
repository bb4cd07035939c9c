"""Decoder-only transformers, from raw text to scaling laws."""

from importlib import import_module, metadata
from typing import Any

__all__ = ["GPT", "GPTConfig", "__version__"]

_HOMES = {"GPT": "decoder_only.model", "GPTConfig": "decoder_only.config"}


def __getattr__(name: str) -> Any:
    """Load the model, and torch with it, when it is first asked for: text needs neither."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        try:
            return metadata.version("decoder-only")
        except metadata.PackageNotFoundError:  # run from its source, not installed
            return "unknown"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
