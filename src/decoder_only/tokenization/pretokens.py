"""Pre-tokens: the words into which text is cut, and across whose borders nothing is ever merged.

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
        r" ?[^\s\p{L}\p{N}]++",  # punctuation and whatever else is visible
        r"\s++$",  # white space at the end of the text
        r"\s+(?!\S)",  # white space, less its last character, which may belong to a word
        r"\s",
    ]
)
"""How GPT-2 cuts text into words, in the form that cannot backtrack (`++` gives nothing back).

It is the pattern that tiktoken ships; the ids are those of GPT-2's original pattern."""


def pretokenize(text: str, pattern: str = GPT2_PATTERN) -> Iterator[str]:
    """Cut text into the words (pre-tokens) across whose borders nothing is ever merged.

    Without this cut the most frequent pairs would glue punctuation and spaces to every word, and
    the vocabulary would fill with "dog.", "dog," and "dog!". Joined, the words are the text.

    Args:
        text: any string.
        pattern: a regular expression of which every match is one word.

    Raises:
        ValueError: the pattern leaves out a part of the text, which could then not be restored.
    """
    end = 0
    for match in regex.finditer(pattern, _as_tiktoken_reads(text)):
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

    Text repeats itself, so this is where a corpus becomes small: a megabyte of Shakespeare has
    298 thousand words, but only 15 thousand different ones, and training sees only those.
    """
    counts: Counter[str] = Counter()
    for document in documents:
        counts.update(pretokenize(document, pattern))
    return counts


# --------------------------------------------------------------------------------------------------
# Two regex engines, two versions of Unicode
# --------------------------------------------------------------------------------------------------


def _as_tiktoken_reads(text: str) -> str:
    """The text with stand-ins for the characters that `regex` and tiktoken class differently.

    Which characters are letters or numbers is up to the version of Unicode with which a regex
    engine was built, and these two engines are seldom built with the same. So tiktoken, which
    encodes the corpora, is asked about the characters of this text, and where `regex` disagrees it
    gets, for the search alone, a character about which it does not.
    """
    if text.isascii():
        return text
    characters = "".join(set(text))
    letters, their_letters = _members("L", characters)
    numbers, their_numbers = _members("N", characters)
    stand_ins = (
        dict.fromkeys((letters | numbers) - their_letters - their_numbers, "\ufdd0")
        | dict.fromkeys(their_letters - letters, "一")
        | dict.fromkeys(their_numbers - numbers, "²")
    )
    return text.translate(str.maketrans(stand_ins)) if stand_ins else text


def _members(category: str, characters: str) -> tuple[set[str], set[str]]:
    """Which of the characters belong to a Unicode category: by `regex`, and by tiktoken."""
    theirs = bytes(_members_by_tiktoken(category).encode_ordinary(characters)).decode()
    return set(regex.findall(rf"\p{{{category}}}", characters)), set(theirs)


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
