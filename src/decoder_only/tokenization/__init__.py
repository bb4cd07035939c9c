"""Byte-level byte-pair encoding: text becomes integers in [0, V), and comes back exactly.

The idea. Start from the 256 bytes, which spell any text in any language. Count every pair of
neighbouring tokens, make the most frequent pair a new token, and repeat until the vocabulary has
V entries. Frequent words become one token, rare words several, and no text is ever "unknown".

Read the files in this order. `pretokens` cuts text into words. `merges` spells a word in tokens,
and finds and applies the merges. `tokenizer` keeps the vocabulary, and encodes a whole corpus by
tiktoken, which applies the same merges in compiled code.

Sources: Gage (1994), "A New Algorithm for Data Compression"; Sennrich, Haddow and Birch (2016),
"Neural Machine Translation of Rare Words with Subword Units"; Radford et al. (2019), "Language
Models are Unsupervised Multitask Learners" (bytes, and the pattern that cuts text into words).
Chapter 1 of the book builds it.
"""

from decoder_only.tokenization.merges import (
    GPT2_BYTE_ORDER,
    apply_merges,
    count_pairs,
    learn_merges,
    spell,
)
from decoder_only.tokenization.pretokens import (
    GPT2_PATTERN,
    count_pretokens,
    pretokenize,
)
from decoder_only.tokenization.tokenizer import (
    END_OF_TEXT,
    BytePairTokenizer,
    gpt2_tokenizer,
)

__all__ = [
    "END_OF_TEXT",
    "GPT2_BYTE_ORDER",
    "GPT2_PATTERN",
    "BytePairTokenizer",
    "apply_merges",
    "count_pairs",
    "count_pretokens",
    "gpt2_tokenizer",
    "learn_merges",
    "pretokenize",
    "spell",
]
