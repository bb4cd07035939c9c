"""Decoder-only transformers, from raw text to scaling laws."""

from decoder_only.config import GPTConfig
from decoder_only.model import GPT

__all__ = ["GPT", "GPTConfig"]
