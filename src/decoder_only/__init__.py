"""Decoder-only transformers, from raw text to scaling laws."""

from importlib import import_module
from typing import Any

_HOMES = {
    "GPT": "decoder_only.model.gpt",
    "GPTConfig": "decoder_only.model.config",
    "BytePairTokenizer": "decoder_only.tokenization",
    "generate": "decoder_only.generation",
    "load": "decoder_only.hub",
    "train": "decoder_only.training",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    """Load what is asked for, and torch with it, when it is first asked for: text needs neither."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version("decoder-only")
        except metadata.PackageNotFoundError:  # run from its source, not installed
            return "unknown"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
