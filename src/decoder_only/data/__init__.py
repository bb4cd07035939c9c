"""Text as tokens: corpora, batches, and where texts come from. Chapter 9."""

from decoder_only.data.corpus import (
    Corpus,
    document_corpus,
    evaluation_batches,
    split_text,
    story_corpora,
    text_corpus,
    training_batch,
)
from decoder_only.data.sources import read_text, tiny_shakespeare

__all__ = [
    "Corpus",
    "document_corpus",
    "evaluation_batches",
    "read_text",
    "split_text",
    "story_corpora",
    "text_corpus",
    "tiny_shakespeare",
    "training_batch",
]
