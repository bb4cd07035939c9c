"""Pre-tokens: the words into which text is cut before any merge. No merge crosses their borders.

Chapter 1.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

import regex
import tiktoken

GPT2_PATTERN = "|".join(
    [
        r"'(?:[sdmt]|ll|ve|re)",  # the ends of English contractions: it's, she'll
        r" ?\p{L}++",  # letters, with the space before them
        r" ?\p{N}++",  # digits, with the space before them
        r" ?[^\s\p{L}\p{N}]++",  # punctuation and anything else that is visible
        r"\s++$",  # white space at the end of the text
        r"\s+(?!\S)",  # white space without its last character, which may belong to a word
        r"\s",
    ]
)
"""How GPT-2 cuts text into words, in the form that cannot backtrack (`++` gives nothing back).

It is the pattern that tiktoken ships; the ids are those of GPT-2's original pattern."""

_compiled = cache(regex.compile)  # the cache of `regex` is as slow as a match


def pretokenize(text: str, pattern: str = GPT2_PATTERN) -> Iterator[str]:
    """Cut text into words (pre-tokens). Joined, the words are the text.

    Without this cut the most frequent pairs would join punctuation and spaces to every word, and
    the vocabulary would fill with "dog.", "dog," and "dog!".

    Args:
        text: any string.
        pattern: a regular expression; every match is one word.

    Raises:
        ValueError: the pattern does not match a part of the text, which could not be restored.
    """
    end = 0
    for match in _compiled(pattern).finditer(_as_tiktoken_reads(text)):
        if match.start() != end:
            break
        end = match.end()
        yield text[match.start() : end]
    if end != len(text):
        raise ValueError(
            f"the pattern {pattern!r} does not match {text[end : end + 20]!r} at character {end} "
            "of the text; it must cover every character (append '|.|\\n' for the rest)"
        )


def count_pretokens(
    documents: Iterable[str], pattern: str = GPT2_PATTERN
) -> Counter[str]:
    """Count the distinct words of a stream of documents.

    Text repeats itself, so the counts are much smaller than the corpus. A megabyte of Shakespeare
    has 298 thousand words, but only 15 thousand different ones.
    """
    counts: Counter[str] = Counter()
    for document in documents:
        counts.update(pretokenize(document, pattern))
    return counts


# --------------------------------------------------------------------------------------------------
# Two regex engines, two versions of Unicode
# --------------------------------------------------------------------------------------------------


def _as_tiktoken_reads(text: str) -> str:
    """The text, with characters replaced that `regex` and tiktoken classify differently.

    Which characters are letters or numbers depends on the version of Unicode that a regex engine
    was built with, and the two engines often have different versions. tiktoken encodes the corpora,
    so its opinion counts. Where `regex` disagrees about a character, the search for words sees
    another character in its place, about which both agree.
    """
    if text.isascii():
        return text
    characters = "".join(set(text))
    letters, tiktoken_letters = _members("L", characters)
    numbers, tiktoken_numbers = _members("N", characters)
    neither = (letters | numbers) - tiktoken_letters - tiktoken_numbers
    replaced = dict.fromkeys(neither, "\ufdd0")
    replaced |= dict.fromkeys(tiktoken_letters - letters, "一")
    replaced |= dict.fromkeys(tiktoken_numbers - numbers, "²")
    return text.translate(str.maketrans(replaced)) if replaced else text


def _members(category: str, characters: str) -> tuple[set[str], set[str]]:
    """The characters that belong to a Unicode category: by `regex`, and by tiktoken."""
    content = bytes(_members_by_tiktoken(category).encode_ordinary(characters))
    by_regex = regex.findall(rf"\p{{{category}}}", characters)
    return set(by_regex), set(content.decode())


@cache
def _members_by_tiktoken(category: str) -> tiktoken.Encoding:
    """An encoding that keeps the characters of one category, as bytes, and drops the others."""
    bytes_alone = {bytes([byte]): byte for byte in range(256)}
    return tiktoken.Encoding(
        category,
        pat_str=rf"\p{{{category}}}",
        mergeable_ranks=bytes_alone,
        special_tokens={},
    )
