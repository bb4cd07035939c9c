"""From a distribution over the next token to a text.

`sampling` draws ids, `writing` writes text. Chapter 16.
"""

from decoder_only.generation.sampling import (
    apply_temperature,
    beam_search,
    generate,
    keep_top_k,
    keep_top_p,
)
from decoder_only.generation.writing import stream, write

__all__ = [
    "apply_temperature",
    "beam_search",
    "generate",
    "keep_top_k",
    "keep_top_p",
    "stream",
    "write",
]
