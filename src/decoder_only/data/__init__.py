"""Text as tokens: corpora, batches, and where texts come from. Chapter 9."""

from decoder_only.data.corpus import (
    Corpus,
    document_corpus,
    evaluation_batches,
    next_character,
    split_text,
    story_corpora,
    text_corpus,
    training_batch,
)
from decoder_only.data.sources import (
    check_text_file,
    read_chunks,
    read_text,
    text_files,
    tiny_shakespeare,
)

__all__ = [
    "Corpus",
    "check_text_file",
    "document_corpus",
    "evaluation_batches",
    "next_character",
    "read_chunks",
    "read_text",
    "split_text",
    "story_corpora",
    "text_corpus",
    "text_files",
    "tiny_shakespeare",
    "training_batch",
]
