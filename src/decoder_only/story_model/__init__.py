"""A small model that has learned the stories, for chapters that look inside a trained one.

It is what `decoder-only train --steps 1600` makes of the built-in language in three minutes on two
CPU cores, with its weights rounded to bfloat16 to stay small. It is part of the package, so that
every chapter looks at the same one; `tools/store_story_model.py` says how it was made.
"""

from pathlib import Path

from decoder_only.checkpoint import SavedRun, load

__all__ = ["load_story_model"]


def load_story_model() -> SavedRun:
    """The model, its tokenizer, and the settings that it was trained with.

    Returns:
        A `SavedRun`: `.model` in float32 on the CPU, in evaluation mode, and `.tokenizer`.

    Raises:
        FileNotFoundError, ValueError: its files are missing or damaged; install the package anew.
    """
    return load(Path(__file__).parent)
