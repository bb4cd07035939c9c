r"""Merges of byte pairs: what training finds and encoding repeats.

With c(w) the number of times that the word w occurs, each step of training merges

    (x, y) = argmax  sum over words w of  c(w) * #{i : w[i] = x and w[i+1] = y},

Of several pairs with the highest count, the one with the smallest ids wins: it is made of the
oldest tokens. Encoding repeats the merges in the order in which they were learned, inside each word
of the text.

A word as a string of tokens. Here a token is one character, chr(id), and a word is a string of such
characters. "low" is "low", and after the merge of "l" and "o" into token 256 it is "Āw", since
chr(256) is "Ā". Merging a pair everywhere in a word is then `str.replace`, which goes from left to
right without overlap. That is what BPE asks for: "aaa" holds one merge of "aa", not two.

Chapter 1.
"""

import operator
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush

BYTE_ORDER = bytes(range(256))
"""This package's numbering of the bytes: byte i has id i."""

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
GPT2_BYTE_ORDER = bytes(
    _PRINTABLE + [byte for byte in range(256) if byte not in _PRINTABLE]
)
"""GPT-2's numbering, printable bytes first: entry i is the byte whose id is i."""


def spell(word: str, byte_order: bytes = BYTE_ORDER) -> str:
    """Write a word in byte tokens: one character chr(id) for each byte of its UTF-8 form.

    Args:
        word: any string. Bytes that are not UTF-8 are in it as Python's escaped surrogates.
        byte_order: entry i is the byte whose id is i.
    """
    content = word.encode("utf-8", "surrogateescape")
    ids = content.translate(bytes.maketrans(byte_order, BYTE_ORDER))
    return ids.decode("latin-1")  # byte i is character i in Latin-1


def _pairs(word: str) -> Iterator[str]:
    """The pairs of neighbours in a word, each as a string of two tokens."""
    return map(operator.add, word, word[1:])


def count_pairs(word_counts: Mapping[str, int]) -> Counter[str]:
    """Count each pair of neighbouring tokens in all words.

    Overlapping pairs count, too: "aaa" holds the pair "aa" twice.

    Args:
        word_counts: for each word, spelled in tokens, how often it occurs.
    """
    pair_counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        for pair in _pairs(word):
            pair_counts[pair] += count
    return pair_counts


def learn_merges(
    word_counts: Mapping[str, int], n_merges: int
) -> list[tuple[int, int]]:
    """Find the merges: the most frequent pair becomes the next token, again and again.

    The definition recounts all pairs after every merge. Here only the words that a merge changes
    are looked at: (1) `words_with` knows those words, (2) only pairs next to a new token change
    their counts, and (3) a heap gives the most frequent pair without a search. The result is the
    same, ties included.

    Args:
        word_counts: for each word, spelled in byte tokens, how often it occurs.
        n_merges: how many merges to find; merge number i creates the token 256 + i.

    Returns:
        Pairs of ids in the order of merging; fewer than `n_merges` if every word has
        become one token. Of equally frequent pairs the one with the smallest ids comes
        first.
    """
    words, occurrences = list(word_counts), list(word_counts.values())
    pair_counts = count_pairs(word_counts)
    words_with = defaultdict(set)
    for index, word in enumerate(words):
        for pair in _pairs(word):
            words_with[pair].add(index)
    heap = [(-count, pair) for pair, count in pair_counts.items()]
    heapify(heap)

    merges: list[tuple[int, int]] = []
    while len(merges) < n_merges and (pair := _pop_most_frequent(heap, pair_counts)):
        left, right = pair
        token = chr(256 + len(merges))
        merges.append((ord(left), ord(right)))
        created = set()
        for index in words_with.pop(pair):
            word = words[index] = words[index].replace(pair, token)
            for new_pair in _pairs_with(token, word):
                # Before the merge, the neighbour was next to the left or the right part.
                x, y = new_pair
                old_pair = (right if x == token else x) + (left if y == token else y)
                pair_counts[old_pair] -= occurrences[index]
                pair_counts[new_pair] += occurrences[index]
                words_with[new_pair].add(index)
                created.add(new_pair)
        del pair_counts[pair]
        for new_pair in created:
            heappush(heap, (-pair_counts[new_pair], new_pair))
    return merges


def _pop_most_frequent(
    heap: list[tuple[int, str]], pair_counts: Mapping[str, int]
) -> str | None:
    """Take the most frequent pair from the heap; None when no pair is left.

    While a pair is on the heap its count can only fall, and its entry is then out of date. Such an
    entry goes back onto the heap with the present count.
    """
    while heap:
        negative, pair = heappop(heap)
        count = pair_counts[pair]
        if count == -negative:
            return pair
        if count > 0:
            heappush(heap, (-count, pair))
    return None


def _pairs_with(token: str, word: str) -> Iterator[str]:
    """The pairs of neighbours in a word that contain a token, each occurrence once."""
    at = word.find(token)
    while at >= 0:
        if at > 0:
            yield word[at - 1 : at + 1]
        if not word.startswith(token, at + 1) and at + 1 < len(word):
            yield word[at : at + 2]
        at = word.find(token, at + 1)


def apply_merges(word: str, merged: Mapping[str, str]) -> Iterator[str]:
    """Apply merges to one word: yield every spelling from single bytes to the final tokens.

    Each step takes the pair in the word that was learned first, and merges it everywhere in the
    word.

    Args:
        word: a word, spelled in byte tokens.
        merged: for each pair of tokens that merges, the token that it becomes.
    """
    yield word
    while candidates := [pair for pair in _pairs(word) if pair in merged]:
        # Ids grow in the order of learning.
        pair = min(candidates, key=merged.__getitem__)
        word = word.replace(pair, merged[pair])
        yield word
