"""Decoder-only transformers, from raw text to scaling laws."""

from decoder_only.model import GPT, GPTConfig

__all__ = ["GPT", "GPTConfig"]
