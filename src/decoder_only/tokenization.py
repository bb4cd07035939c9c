r"""Byte-level byte-pair encoding: text becomes integers in [0, V), and comes back exactly.

The idea. Start from the 256 bytes, which spell any text in any language. Count every pair of
neighbouring tokens, make the most frequent pair a new token, and repeat until the vocabulary has
V entries. With c(w) the number of times that the word w occurs, each step merges

    (x, y) = argmax  sum over words w of  c(w) * #{i : w[i] = x and w[i+1] = y},

and of several pairs with the highest count, the one with the smallest ids, that is, the one made
of the oldest tokens. Encoding repeats the merges, in the order in which they were learned, inside
each word of the text to be encoded. Frequent words end up whole, rare words in pieces, and no
text is ever "unknown".

Read the module in the order in which text flows through it: `pretokenize` cuts text into words,
`spell` writes a word in tokens, `count_pairs` and `learn_merges` find the merges, `apply_merges`
applies them, and `BytePairTokenizer` keeps the result and hands it to tiktoken, which applies the
same merges to a whole corpus at the speed of compiled code.

A word as a string of tokens. Inside this module a token is one character, chr(id), and a word is
a string of such characters: "low" is "low", and after the merge of "l" and "o" into token 256 it is
"Āw", since chr(256) is "Ā". Merging a pair everywhere in a word is then `str.replace`, which
goes from left to right without overlap, as it must ("aaa" has one merge of "aa" in it, not two).

Sources: Gage (1994), "A New Algorithm for Data Compression"; Sennrich, Haddow and Birch (2016),
"Neural Machine Translation of Rare Words with Subword Units"; Radford et al. (2019), "Language
Models are Unsupervised Multitask Learners" (bytes, and the pattern that cuts text into words);
seed documents T (pairs of characters) and N (bytes). Chapter 1 of the book builds it.
"""

import hashlib
import json
import operator
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Literal, SupportsIndex

import regex
import tiktoken

__all__ = [
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

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
GPT2_BYTE_ORDER = bytes(
    _PRINTABLE + [byte for byte in range(256) if byte not in _PRINTABLE]
)
"""GPT-2 numbers the bytes that print first: entry i is the byte whose id is i."""

_BYTE_ORDER = bytes(range(256))
_FILE_FORMAT = "decoder-only byte-pair tokenizer"
_FILE_VERSION = 1
_CACHED_WORDS = 2**16


# --------------------------------------------------------------------------------------------------
# From text to words
# --------------------------------------------------------------------------------------------------


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


def spell(word: str, byte_order: bytes = _BYTE_ORDER) -> str:
    """Write a word in byte tokens: one character chr(id) for each byte of its UTF-8 form.

    Args:
        word: any string. Bytes that are no UTF-8 travel through it as Python's escaped surrogates.
        byte_order: entry i is the byte whose id is i.
    """
    return _spell_bytes(word.encode("utf-8", "surrogateescape"), byte_order)


def _spell_bytes(word: bytes, byte_order: bytes) -> str:
    ids_of_bytes = bytes.maketrans(byte_order, _BYTE_ORDER)
    return word.translate(ids_of_bytes).decode(
        "latin-1"
    )  # byte i is character i in Latin-1


# --------------------------------------------------------------------------------------------------
# From words to merges
# --------------------------------------------------------------------------------------------------


def _pairs(word: str) -> Iterator[str]:
    """The neighbours in a word, each pair as a string of two tokens."""
    return map(operator.add, word, word[1:])


def count_pairs(word_counts: Mapping[str, int]) -> Counter[str]:
    """Count each pair of neighbouring tokens over all words, a word as often as it occurs.

    Overlapping pairs count too: "aaa" holds the pair "aa" twice.

    Args:
        word_counts: for each word, spelled in tokens, the number of its occurrences.
    """
    pair_counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        for pair in _pairs(word):
            pair_counts[pair] += count
    return pair_counts


def learn_merges(
    word_counts: Mapping[str, int], n_merges: int
) -> list[tuple[int, int]]:
    """Find the merges: again and again, the most frequent pair becomes the next token.

    The definition recounts all pairs after every merge. Here a merge costs only as much as the
    words that it changes, because (1) `words_with` knows which words those are, (2) only the pairs
    beside a new token change their counts, and (3) the heap gives the most frequent pair
    without a search. The result is the same, ties included.

    Args:
        word_counts: for each word, spelled in byte tokens, the number of its occurrences.
        n_merges: how many merges to find; merge number i creates the token 256 + i.

    Returns:
        Pairs of ids in the order of merging; fewer than `n_merges` if every word has become one
        token. Of equally frequent pairs the one with the smallest ids comes first.
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
                # Before the merge, the neighbour stood beside the left or the right part.
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
    """Take the most frequent pair from the heap, or None when no pair is left.

    A count only falls once its pair is on the heap, and nobody tells the heap. So an entry promises
    at most too much: one that is out of date goes back with its count of today.
    """
    while heap:
        promised, pair = heappop(heap)
        count = pair_counts[pair]
        if count == -promised:
            return pair
        if count > 0:
            heappush(heap, (-count, pair))
    return None


def _pairs_with(token: str, word: str) -> Iterator[str]:
    """The pairs of neighbours in a word that contain the token, each occurrence once."""
    at = word.find(token)
    while at >= 0:
        if at > 0:
            yield word[at - 1 : at + 1]
        if not word.startswith(token, at + 1) and at + 1 < len(word):
            yield word[at : at + 2]
        at = word.find(token, at + 1)


def apply_merges(word: str, merged: Mapping[str, str]) -> Iterator[str]:
    """Apply merges to one word: every spelling from single bytes to the final tokens.

    Each step takes, of all pairs in the word that have a merge, the one that was learned first,
    and merges it wherever it stands.

    Args:
        word: a word, spelled in byte tokens.
        merged: for each pair of tokens that merges, the token that it becomes.
    """
    yield word
    while candidates := [pair for pair in _pairs(word) if pair in merged]:
        pair = min(
            candidates, key=merged.__getitem__
        )  # ids grow in the order of learning
        word = word.replace(pair, merged[pair])
        yield word


# --------------------------------------------------------------------------------------------------
# The tokenizer
# --------------------------------------------------------------------------------------------------


class BytePairTokenizer:
    """A vocabulary of bytes, merges and special tokens; text to ids, and back without loss.

    Ids: 0 to 255 are the bytes, then come the merges in the order in which they were learned, and
    the special tokens have the highest ids, as in GPT-2. A tokenizer never changes once it is made;
    `train` and `load` make one, and so does a list of merges.

    Args:
        merges: pairs of ids; merge number i creates the token 256 + i from two earlier ones.
        special_tokens: markers that stand for themselves and take part in no merge.
        pattern: the regular expression of which every match is one word; see `pretokenize`.
        byte_order: entry i is the byte whose id is i; GPT-2 has an order of its own.

    Raises:
        TypeError: special tokens that are not strings.
        ValueError: merges that no training could have found, empty or repeated special tokens, a
            pattern that does not compile, a byte order that is no permutation of the 256 bytes.
    """

    def __init__(
        self,
        merges: Iterable[tuple[int, int]],
        *,
        special_tokens: Sequence[str] = ("<|endoftext|>",),
        pattern: str = GPT2_PATTERN,
        byte_order: bytes = _BYTE_ORDER,
    ) -> None:
        _check_special_tokens(special_tokens)
        _check_pattern(pattern)
        _check_byte_order(byte_order)
        self._pattern = pattern
        self._byte_order = bytes(byte_order)
        self._vocabulary = [bytes([byte]) for byte in self._byte_order]
        self._merges: list[tuple[int, int]] = []
        self._merged: dict[str, str] = {}
        self._special_tokens: dict[str, int] = {}
        self._ids_of_words: dict[str, list[int]] = {}
        for left, right in merges:
            self._add_merge(left, right)
        self._add_special_tokens(special_tokens)

    def _add_merge(self, left: int, right: int) -> None:
        new = len(self._vocabulary)
        if not (0 <= left < new and 0 <= right < new):
            raise ValueError(
                f"merge {new - 256} joins the ids {left} and {right}; it may use ids 0 to {new - 1}"
            )
        joined = self._vocabulary[left] + self._vocabulary[right]
        if self._add_token(joined) != (left, right):
            raise ValueError(
                f"merge {new - 256} joins the ids {left} and {right} into {joined!r}, but earlier "
                "merges join these bytes in another way, so that it would never happen"
            )

    def _add_token(self, token: bytes) -> tuple[int, int]:
        """Append the merge that makes a token: of the pair that earlier merges leave of its bytes.

        That there is exactly one such pair is what makes our merges and tiktoken, which
        compares bytes and not pairs, agree about every text.
        """
        *_, pair = apply_merges(_spell_bytes(token, self._byte_order), self._merged)
        if len(pair) != 2:
            raise ValueError(
                f"earlier merges leave {len(pair)} tokens of {token!r}, not two"
            )
        self._merged[pair] = chr(len(self._vocabulary))
        self._merges.append((ord(pair[0]), ord(pair[1])))
        self._vocabulary.append(token)
        return self._merges[-1]

    def _add_special_tokens(self, special_tokens: Sequence[str]) -> None:
        for token in special_tokens:
            self._special_tokens[token] = len(self._vocabulary)
            self._vocabulary.append(token.encode("utf-8"))

    # ------------------------------------------------------------------ making one

    @classmethod
    def train(
        cls,
        text: str | Iterable[str],
        vocab_size: int,
        special_tokens: Sequence[str] = ("<|endoftext|>",),
        *,
        pattern: str = GPT2_PATTERN,
        byte_order: bytes = _BYTE_ORDER,
    ) -> "BytePairTokenizer":
        """Learn a vocabulary of exactly `vocab_size` tokens from text.

        Deterministic: the same words with the same counts give the same merges, in whatever order
        they come. Among pairs with equal counts the one with the smallest ids is merged first.

        Args:
            text: one string, or an iterable of documents. Documents are read one at a time, and
                only their distinct words are kept; no word reaches across two documents. A special
                token that stands in the text is text like any other.
            vocab_size: all tokens together: 256 bytes, the merges, the special tokens. With no
                room for merges (257 and one special token) each byte is its own token.
            special_tokens, pattern, byte_order: as in the class.

        Raises:
            TypeError: text that is neither a string nor strings.
            ValueError: no text, a lone surrogate in the text, a vocabulary that is too small for
                the bytes and the special tokens or too large for the text to fill.
        """
        _check_special_tokens(special_tokens)
        _check_pattern(pattern)
        _check_byte_order(byte_order)
        _check_vocab_size(vocab_size, len(special_tokens))
        counts = count_pretokens(_documents(text), pattern)
        if not counts:
            raise ValueError(
                "there is no text to train on: the text, or each document, is empty"
            )
        words = {spell(word, byte_order): count for word, count in counts.items()}
        n_merges = vocab_size - 256 - len(special_tokens)
        merges = learn_merges(words, n_merges)
        if len(merges) < n_merges:
            full = vocab_size - n_merges + len(merges)
            raise ValueError(
                f"vocab_size is {vocab_size}, but this text fills only {full} tokens (256 bytes, "
                f"{len(merges)} merges, {len(special_tokens)} special): by then each of its words "
                f"is one token. Train on more text, or ask for {full} tokens or fewer"
            )
        return cls(
            merges,
            special_tokens=special_tokens,
            pattern=pattern,
            byte_order=byte_order,
        )

    # ------------------------------------------------------------------ what it is

    @property
    def vocab_size(self) -> int:
        """The number of tokens V: bytes, merges and special tokens. Ids are 0 to V - 1."""
        return len(self._vocabulary)

    @property
    def merges(self) -> list[tuple[int, int]]:
        """The merged pairs of ids in order; merge number i created the token 256 + i."""
        return list(self._merges)

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens and their ids, which are the highest."""
        return dict(self._special_tokens)

    @property
    def pattern(self) -> str:
        """The regular expression of which every match is one word."""
        return self._pattern

    @property
    def byte_order(self) -> bytes:
        """Entry i is the byte whose id is i."""
        return self._byte_order

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides the ids; files of ids carry it, to be read with the same."""
        canonical = json.dumps(
            self._definition(), sort_keys=True, separators=(",", ":")
        )
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def _definition(self) -> dict[str, object]:
        return {
            "pattern": self._pattern,
            "byte_order": list(self._byte_order),
            "special_tokens": list(self._special_tokens),
            "merges": [list(pair) for pair in self._merges],
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BytePairTokenizer):
            return NotImplemented
        return self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        special = ", ".join(self._special_tokens) or "no special tokens"
        parts = f"256 bytes, {len(self._merges)} merges, {special}"
        return f"BytePairTokenizer({self.vocab_size} tokens: {parts})"

    # ------------------------------------------------------------------ text to ids

    def encode(
        self, text: str, allowed_special: Collection[str] | Literal["all"] = frozenset()
    ) -> list[int]:
        """Turn text into ids: the definition, in readable Python. See `encode_batch` for bulk.

        Args:
            text: any string that has a UTF-8 form.
            allowed_special: the special tokens to recognise in the text, or "all". The others are
                text like any other, so that no text can forge the end of a document.

        Raises:
            TypeError: text that is not a string.
            ValueError: a lone surrogate in the text, or an allowed token that is not special here.
        """
        _check_text(text)
        allowed = self._allowed(allowed_special)
        either = "|".join(map(regex.escape, sorted(allowed)))
        ids = []
        for part in regex.split(f"({either})", text) if allowed else [text]:
            ids += (
                [self._special_tokens[part]]
                if part in allowed
                else self._encode_ordinary(part)
            )
        return ids

    def encode_bytes(self, data: bytes) -> list[int]:
        """Turn any bytes into ids, whether they are text or not; `decode_bytes` restores them.

        Bytes that are UTF-8 get the ids that `encode` gives their text.
        """
        return self._encode_ordinary(data.decode("utf-8", "surrogateescape"))

    def encode_batch(
        self,
        texts: Iterable[str],
        allowed_special: Collection[str] | Literal["all"] = frozenset(),
        *,
        num_threads: int = 8,
    ) -> list[list[int]]:
        """Turn many texts into ids at tiktoken's speed; the ids are those of `encode`.

        Args:
            texts: the documents, each encoded alone.
            allowed_special: as in `encode`.
            num_threads: how many documents tiktoken encodes at the same time.

        Raises:
            As `encode`, with the number of the document.
        """
        if isinstance(texts, str):
            raise TypeError(
                "texts must be an iterable of str; for one text, write [text]"
            )
        return self._tiktoken.encode_batch(
            list(_documents(texts)),
            num_threads=num_threads,
            allowed_special=self._allowed(allowed_special),
            disallowed_special=(),  # to tiktoken, none may raise: those not allowed are text
        )

    def merge_steps(self, word: str) -> Iterator[list[int]]:
        """Watch one word being merged: its ids as bytes, after the first merge, and so on.

        Raises:
            ValueError: more than one word (the space before a word belongs to it: " berries").
        """
        _check_text(word)
        words = list(pretokenize(word, self._pattern))
        if len(words) != 1:
            raise ValueError(
                f"merge_steps takes one word, but {word!r} is cut into {words}"
            )
        for spelling in apply_merges(spell(word, self._byte_order), self._merged):
            yield [ord(token) for token in spelling]

    def _encode_ordinary(self, text: str) -> list[int]:
        ids = []
        for word in pretokenize(text, self._pattern):
            ids += self._encode_word(word)
        return ids

    def _encode_word(self, word: str) -> list[int]:
        ids = self._ids_of_words.get(word)
        if ids is None:
            *_, merged = apply_merges(spell(word, self._byte_order), self._merged)
            ids = [ord(token) for token in merged]
            if len(self._ids_of_words) < _CACHED_WORDS:
                self._ids_of_words[word] = ids
        return ids

    def _allowed(self, allowed_special: Collection[str] | Literal["all"]) -> set[str]:
        if allowed_special == "all":
            return set(self._special_tokens)
        if isinstance(allowed_special, str):
            raise TypeError(
                f"allowed_special must be 'all' or a set, got {allowed_special!r}"
            )
        unknown = set(allowed_special) - set(self._special_tokens)
        if unknown:
            raise ValueError(
                f"allowed_special names {sorted(unknown)}, but the special tokens here are "
                f"{list(self._special_tokens)}"
            )
        return set(allowed_special)

    # ------------------------------------------------------------------ ids to text

    def decode(
        self,
        ids: Iterable[SupportsIndex],
        errors: Literal["replace", "strict", "ignore"] = "replace",
    ) -> str:
        """Turn ids into text.

        Ids need not end where a character ends (a model may stop in the middle of one). The bytes
        that spell no character then appear as U+FFFD, the replacement character; `errors="strict"`
        raises UnicodeDecodeError instead, and `decode_bytes` returns the bytes as they are.

        Args:
            ids: whole numbers from 0 to V - 1, in a list, a NumPy array or a tensor of one axis.
            errors: what to do about bytes that are no UTF-8, as in `bytes.decode`.

        Raises:
            TypeError: ids that are not integers.
            ValueError: ids outside the vocabulary.
        """
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_bytes(self, ids: Iterable[SupportsIndex]) -> bytes:
        """Turn ids into exactly the bytes that they stand for. Arguments and errors: `decode`."""
        return b"".join([self._vocabulary[id] for id in self._checked(ids)])

    def token_bytes(self, id: int) -> bytes:
        """The bytes that one token stands for."""
        return self.decode_bytes([id])

    def token_str(self, id: int, *, space: str = " ") -> str:
        r"""One token in printable form: "\n" for a line break, "\xe2" for a byte of no character.

        Args:
            id: the token.
            space: what to show for a space, for example "·".
        """
        text = self.token_bytes(id).decode("utf-8", "backslashreplace")
        shown = [
            c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
        ]
        return "".join(shown).replace(" ", space)

    def _checked(self, ids: Iterable[SupportsIndex]) -> list[int]:
        values = ids.tolist() if hasattr(ids, "tolist") else ids
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise TypeError(f"ids must be a sequence of integers, not {ids!r}")
        values = [value.item() if hasattr(value, "item") else value for value in values]
        for position, value in enumerate(values):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(
                    f"ids[{position}] is {value!r}, a {type(value).__name__}; ids must be integers "
                    "in one sequence (decode a batch row by row)"
                )
            if not 0 <= value < len(self._vocabulary):
                raise ValueError(
                    f"ids[{position}] is {value}, which is not in this vocabulary; its ids are 0 "
                    f"to {len(self._vocabulary) - 1}"
                )
        return values

    # ------------------------------------------------------------------ to disk, and to tiktoken

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tokenizer to one JSON file, which holds all that decides the ids.

        The file appears whole or not at all: it is written beside its place and then renamed.

        Raises:
            FileNotFoundError: the folder does not exist.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise FileNotFoundError(
                f"cannot save {path}: there is no folder {path.parent}"
            )
        header = {
            "format": _FILE_FORMAT,
            "version": _FILE_VERSION,
            "sha256": self.fingerprint,
        }
        _write_atomically(path, json.dumps(header | self._definition()).encode("ascii"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "BytePairTokenizer":
        """Read a tokenizer that `save` wrote.

        Raises:
            FileNotFoundError: no such file.
            ValueError: a file that is damaged, cut short, of another kind or of a later version.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"there is no tokenizer file {path}")
        content = _read_definition(path)
        try:
            tokenizer = cls(
                [(left, right) for left, right in content["merges"]],
                special_tokens=content["special_tokens"],
                pattern=content["pattern"],
                byte_order=bytes(content["byte_order"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is a damaged tokenizer file: {error}") from error
        if tokenizer.fingerprint != content.get("sha256"):
            raise ValueError(
                f"{path} is a damaged tokenizer file: its content does not match its checksum"
            )
        return tokenizer

    def to_tiktoken(self) -> tiktoken.Encoding:
        """The same tokenizer as a `tiktoken.Encoding`: equal ids for every text, in compiled code.

        tiktoken silently replaces lone surrogates by U+FFFD where this class raises.
        """
        return self._tiktoken

    @cached_property
    def _tiktoken(self) -> tiktoken.Encoding:
        n_ordinary = self.vocab_size - len(self._special_tokens)
        return tiktoken.Encoding(
            f"decoder-only-{self.fingerprint[:12]}",
            pat_str=self._pattern,
            mergeable_ranks={self._vocabulary[id]: id for id in range(n_ordinary)},
            special_tokens=self._special_tokens,
            explicit_n_vocab=self.vocab_size,
        )


def gpt2_tokenizer() -> BytePairTokenizer:
    """GPT-2's own vocabulary of 50,257 tokens (Radford et al., 2019), as tiktoken distributes it.

    tiktoken reads it from its cache, the folder that TIKTOKEN_CACHE_DIR names, or fetches it once.
    It knows the tokens and not the pairs; but a token's pair is what the earlier merges leave of
    its bytes, since otherwise it could not have been learned.

    Raises:
        FileNotFoundError: the vocabulary is not in the cache and could not be fetched.
    """
    try:
        encoding = tiktoken.get_encoding("gpt2")
    except (OSError, ValueError) as error:
        raise FileNotFoundError(
            "GPT-2's vocabulary is not in tiktoken's cache and could not be fetched "
            f"({type(error).__name__}). Connect to the network once, or let TIKTOKEN_CACHE_DIR "
            "name a folder that has it, or train a vocabulary with BytePairTokenizer.train."
        ) from error
    tokenizer = BytePairTokenizer((), special_tokens=(), byte_order=GPT2_BYTE_ORDER)
    for id in range(256, encoding.n_vocab - 1):
        tokenizer._add_token(encoding.decode_single_token_bytes(id))
    tokenizer._add_special_tokens(sorted(encoding.special_tokens_set))
    return tokenizer


# --------------------------------------------------------------------------------------------------
# Checks of what comes in
# --------------------------------------------------------------------------------------------------


def _documents(text: str | Iterable[str]) -> Iterator[str]:
    """The documents of a text, each checked when its turn comes."""
    if isinstance(text, str):
        _check_text(text)
        yield text
    elif isinstance(text, bytes) or not isinstance(text, Iterable):
        raise TypeError(
            f"the text must be a str or an iterable of str, got {_kind(text)}"
        )
    else:
        for number, document in enumerate(text):
            _check_text(document, f"document {number}")
            yield document


def _check_text(text: str, name: str = "the text") -> None:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, got {_kind(text)}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} has a lone surrogate, U+{ord(text[error.start]):04X}, at character "
            f"{error.start}; it is half a character and has no UTF-8 form. Open the file with "
            "errors='replace', or give its bytes to encode_bytes"
        ) from None


def _check_special_tokens(special_tokens: Sequence[str]) -> None:
    if isinstance(special_tokens, str) or not isinstance(special_tokens, Sequence):
        raise TypeError(
            "special_tokens must be a list or a tuple of strings, whose order decides their ids, "
            f"got {_kind(special_tokens)}"
        )
    for token in special_tokens:
        if not isinstance(token, str):
            raise TypeError(f"a special token must be a str, got {_kind(token)}")
        if not token:
            raise ValueError("a special token must not be the empty string")
        _check_text(token, f"the special token {token!r}")
    for token, count in Counter(special_tokens).items():
        if count > 1:
            raise ValueError(f"the special token {token!r} is given {count} times")
        for other in special_tokens:
            if other != token and other.startswith(token):
                raise ValueError(
                    f"the special token {token!r} is the beginning of {other!r}, so a text with "
                    "the second could be read in two ways"
                )


def _check_pattern(pattern: str) -> None:
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise ValueError(
            f"the pattern {pattern!r} is no regular expression: {error}"
        ) from error


def _check_byte_order(byte_order: bytes) -> None:
    if sorted(byte_order) != list(range(256)):
        raise ValueError("byte_order must hold each of the 256 bytes exactly once")


def _check_vocab_size(vocab_size: int, n_special: int) -> None:
    if not isinstance(vocab_size, int) or isinstance(vocab_size, bool):
        raise TypeError(f"vocab_size must be an int, got {_kind(vocab_size)}")
    smallest, largest = 256 + n_special, sys.maxunicode + 1
    if vocab_size < smallest:
        raise ValueError(
            f"vocab_size is {vocab_size}, but the 256 bytes and {n_special} special tokens alone "
            f"need {smallest}"
        )
    if vocab_size > largest:
        raise ValueError(
            f"vocab_size is {vocab_size}; the largest possible is {largest}"
        )


def _kind(value: object) -> str:
    return f"{value!r:.60}, a {type(value).__name__}"


# --------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------


def _write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by new content such that a crash leaves either the old or the new, whole."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    if os.name == "posix":  # the rename itself is on disk once the folder is
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read_definition(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(
            f"{path} is not a tokenizer file, or a damaged or truncated one: {error}"
        ) from error
    if not isinstance(content, dict) or content.get("format") != _FILE_FORMAT:
        raise ValueError(
            f"{path} is not a tokenizer file: it does not say {_FILE_FORMAT!r}"
        )
    if content.get("version") != _FILE_VERSION:
        raise ValueError(
            f"{path} has version {content.get('version')!r} of the tokenizer file; this program "
            f"reads version {_FILE_VERSION}"
        )
    return content


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
    found = _members_by_tiktoken(category).encode_ordinary(characters)
    return set(regex.findall(rf"\p{{{category}}}", characters)), set(
        bytes(found).decode("utf-8")
    )


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
