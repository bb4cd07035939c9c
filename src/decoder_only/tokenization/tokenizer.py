"""The tokenizer: a vocabulary of bytes, merges and special tokens, in memory and in files.

Chapter 1.
"""

import hashlib
import json
import os
import reprlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal, SupportsIndex

import regex
import tiktoken

from decoder_only.base import checks
from decoder_only.base.files import read_json, write_atomically
from decoder_only.tokenization.exchange import from_tokenizers
from decoder_only.tokenization.merges import (
    BYTE_ORDER,
    GPT2_BYTE_ORDER,
    apply_merges,
    learn_merges,
    spell,
)
from decoder_only.tokenization.pretokens import (
    GPT2_PATTERN,
    count_pretokens,
    pretokenize,
)

END_OF_TEXT = "<|endoftext|>"
"""The special token between two texts."""

_HEADER = {"format": "decoder-only byte-pair tokenizer", "version": 1}
_CACHED_WORDS = 2**16
_LONGEST_LEARNED = 2**10
"""Bytes of the longest token that training can find; longer words are cut into pieces."""
_MOST_WORK = 2**26
"""The largest sum of the squared lengths of all tokens, in bytes.

Checking a merge takes time that grows with the square of its token's length, and a file of two
thousand bytes can double a token forty times. GPT-2's vocabulary needs a thirtieth of this limit. A
single token may have 8,192 bytes.
"""


class BytePairTokenizer:
    """Turns text into ids, and ids back into the same text.

    Ids 0 to 255 are the bytes. The merges follow in the order in which they were learned, and the
    special tokens have the highest ids, as in GPT-2. A tokenizer never changes. `train` and `load`
    make one, or a list of merges.

    Args:
        merges: pairs of ids; merge number i creates the token 256 + i from two earlier ones.
        special_tokens: markers, each a token of its own that no merge uses.
        pattern: a regular expression, every match of which is one word; see `pretokenize`.
        byte_order: entry i is the byte whose id is i; GPT-2 has an order of its own.

    Raises:
        ValueError: merges that training cannot have found, empty or repeated special tokens, a
            pattern that does not compile, or a byte order that is not a permutation of the bytes.
    """

    def __init__(
        self,
        merges: Iterable[tuple[int, int]],
        *,
        special_tokens: Sequence[str] = (END_OF_TEXT,),
        pattern: str = GPT2_PATTERN,
        byte_order: bytes = BYTE_ORDER,
    ) -> None:
        _check_definition(special_tokens, pattern, byte_order)
        self.pattern = pattern
        self.byte_order = bytes(byte_order)
        self._vocabulary = [bytes([byte]) for byte in self.byte_order]
        self._merges: list[tuple[int, int]] = []
        self._merged: dict[str, str] = {}
        self._special_tokens: dict[str, int] = {}
        self._ids_of_words: dict[str, list[int]] = {}
        self._work = 0
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
                f"merge {new - 256} joins the ids {left} and {right} into {joined!r:.60}, but "
                "earlier merges join these bytes in another way, so that it would never happen"
            )

    def _add_token(self, token: bytes) -> tuple[int, int]:
        """Append the merge that makes a token, and return it: the pair that earlier merges leave.

        tiktoken compares bytes and not pairs. Both agree on every text because earlier merges leave
        exactly one pair of each token's bytes.
        """
        self._work += len(token) ** 2
        if self._work > _MOST_WORK:
            raise ValueError(
                f"merge {len(self._merges)} makes a token of {len(token):,} bytes; the squares of "
                f"the lengths of all tokens may sum to {_MOST_WORK:,}"
            )
        word = spell(token.decode("utf-8", "surrogateescape"), self.byte_order)
        *_, pair = apply_merges(word, self._merged)
        if len(pair) != 2:
            raise ValueError(
                f"earlier merges leave {len(pair)} tokens of {token!r:.60}, not two"
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
        special_tokens: Sequence[str] = (END_OF_TEXT,),
        *,
        pattern: str = GPT2_PATTERN,
        byte_order: bytes = BYTE_ORDER,
        at_most: bool = False,
    ) -> "BytePairTokenizer":
        """Learn a vocabulary of exactly `vocab_size` tokens from text.

        The same words with the same counts give the same merges, in any order of the words. Of
        pairs with equal counts the one with the smallest ids is merged first.

        Args:
            text: one string, or an iterable of documents. Documents are read one at a time, and
                only their distinct words are kept. No word reaches across two documents. A special
                token in the text is ordinary text.
            vocab_size: the number of all tokens: 256 bytes, the merges, and the special tokens.
                257, with one special token, leaves no room for merges.
            special_tokens, pattern, byte_order: as in the class.
            at_most: learn fewer tokens if the text cannot fill `vocab_size`.

        Raises:
            TypeError: the text is neither a string nor strings.
            ValueError: there is no text, it has a lone surrogate, or the vocabulary is too small
                for the bytes and the special tokens or too large for the text.
        """
        _check_definition(special_tokens, pattern, byte_order)
        # Room for the bytes and the special tokens, and no more tokens than Python has characters.
        sizes = {"at_least": 256 + len(special_tokens), "at_most": 0x110000}
        checks.whole("vocab_size", vocab_size, **sizes)
        counts = count_pretokens(_documents(text), pattern)
        if not counts:
            raise ValueError(
                "there is no text to train on: the text, or each document, is empty"
            )
        n_merges = vocab_size - 256 - len(special_tokens)
        merges = learn_merges(_spelled(counts, byte_order), n_merges)
        if len(merges) < n_merges and not at_most:
            full = vocab_size - n_merges + len(merges)
            raise ValueError(
                f"vocab_size is {vocab_size}, but this text fills only {full} tokens (256 bytes, "
                f"{len(merges)} merges, {len(special_tokens)} special): by then each of its words "
                f"is one token. Train on more text, ask for {full} tokens or fewer, or set at_most"
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
        """V, the number of bytes, merges and special tokens. Ids are 0 to V - 1."""
        return len(self._vocabulary)

    @property
    def merges(self) -> list[tuple[int, int]]:
        """The merges in order, as pairs of ids; merge number i created the token 256 + i."""
        return list(self._merges)

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens with their ids, which are the highest."""
        return dict(self._special_tokens)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides the ids. Files of ids name it."""
        canonical = json.dumps(
            self._definition(), sort_keys=True, separators=(",", ":")
        )
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def _definition(self) -> dict[str, object]:
        return {
            "pattern": self.pattern,
            "byte_order": list(self.byte_order),
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
        """Turn text into ids, by the definition. `encode_batch` does the same much faster.

        Args:
            text: any string that has a UTF-8 form.
            allowed_special: the special tokens to recognise in the text, or "all". Any other is
                ordinary text, so that no text can forge the end of a document.

        Raises:
            TypeError: the text is not a string.
            ValueError: the text has a lone surrogate, or an allowed token is not special here.
        """
        _check_text(text)
        allowed = self._allowed(allowed_special)
        either = "|".join(map(regex.escape, sorted(allowed)))
        ids = []
        for part in regex.split(f"({either})", text) if allowed else [text]:
            if part in allowed:
                ids.append(self._special_tokens[part])
            else:
                ids += self._encode_ordinary(part)
        return ids

    def encode_bytes(self, data: bytes) -> list[int]:
        """Turn any bytes into ids; `decode_bytes` restores them.

        If the bytes are UTF-8, the ids are those that `encode` gives the text.
        """
        return self._encode_ordinary(data.decode("utf-8", "surrogateescape"))

    def encode_batch(
        self,
        texts: Iterable[str],
        allowed_special: Collection[str] | Literal["all"] = frozenset(),
    ) -> list[list[int]]:
        """Turn many texts into the ids that `encode` gives, by tiktoken's compiled code.

        Args:
            texts: the documents, each encoded alone; one string is one document.
            allowed_special: as in `encode`.

        Raises:
            TypeError, ValueError: as `encode`, with the number of the document.
        """
        documents, allowed = list(_documents(texts)), self._allowed(allowed_special)
        encoded = self._tiktoken.encode_batch(
            documents,
            allowed_special=allowed,
            disallowed_special=(),  # special tokens that are not allowed are ordinary text
        )
        # tiktoken skips without an error what another pattern does not match.
        if self.pattern != GPT2_PATTERN:
            for number, (text, ids) in enumerate(zip(documents, encoded, strict=True)):
                if sum(len(self._vocabulary[id]) for id in ids) != len(text.encode()):
                    raise ValueError(
                        f"document {number}={text!r:.200} must be matched whole by the pattern "
                        f"{self.pattern!r:.60}"
                    )
        return encoded

    def merge_steps(self, word: str) -> Iterator[list[int]]:
        """The ids of one word before any merge, after the first merge, and so on.

        Raises:
            ValueError: more than one word (the space before a word belongs to it: " berries").
        """
        _check_text(word)
        words = list(pretokenize(word, self.pattern))
        if len(words) != 1:
            raise ValueError(
                f"merge_steps takes one word, but {word!r} is cut into {words}"
            )
        for spelling in apply_merges(spell(word, self.byte_order), self._merged):
            yield [ord(token) for token in spelling]

    def _encode_ordinary(self, text: str) -> list[int]:
        ids, known = [], self._ids_of_words
        for word in pretokenize(text, self.pattern):
            if word not in known:
                if len(known) == _CACHED_WORDS:
                    known.clear()
                *_, merged = apply_merges(spell(word, self.byte_order), self._merged)
                known[word] = [ord(token) for token in merged]
            ids += known[word]
        return ids

    def _allowed(self, allowed_special: Collection[str] | Literal["all"]) -> set[str]:
        known = self._special_tokens
        allowed = set(known if allowed_special == "all" else allowed_special)
        if not allowed <= known.keys():
            raise ValueError(
                f"allowed_special={allowed_special!r} must be 'all' or a set of these: {[*known]}"
            )
        return allowed

    # ------------------------------------------------------------------ ids to text

    def decode(self, ids: Iterable[SupportsIndex], errors: str = "replace") -> str:
        """Turn ids into text.

        The ids may end in the middle of a character, as a model's may. Bytes that spell no
        character become U+FFFD, the replacement character. `errors="strict"` raises
        UnicodeDecodeError instead, and `decode_bytes` returns the bytes.

        Args:
            ids: whole numbers from 0 to V - 1, in a list, a NumPy array or a tensor of one axis.
            errors: what to do with bytes that are not UTF-8, as in `bytes.decode`.

        Raises:
            TypeError: the ids are not a sequence.
            ValueError: a value is not an id of the vocabulary.
        """
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_bytes(self, ids: Iterable[SupportsIndex]) -> bytes:
        """Turn ids into bytes. Arguments and errors are those of `decode`."""
        return b"".join([self._vocabulary[id] for id in self._checked(ids)])

    def token_bytes(self, id: int) -> bytes:
        """The bytes of one token."""
        return self.decode_bytes([id])

    def _checked(self, ids: Iterable[SupportsIndex]) -> list[int]:
        values = ids.tolist() if hasattr(ids, "tolist") else ids
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise TypeError(f"ids must be a sequence of integers, not {ids!r:.60}")
        values = [value.item() if hasattr(value, "item") else value for value in values]
        largest = len(self._vocabulary) - 1
        for position, value in enumerate(values):
            if type(value) is not int or not 0 <= value <= largest:
                raise ValueError(
                    f"ids[{position}] is {_kind(value)}; ids must be integers from 0 to {largest} "
                    "in one sequence (decode a batch row by row)"
                )
        return values

    # ------------------------------------------------------------------ to disk, and to tiktoken

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tokenizer to a JSON file, as a whole or not at all.

        Raises:
            FileNotFoundError: the folder does not exist.
        """
        content = {**_HEADER, "sha256": self.fingerprint, **self._definition()}
        write_atomically(Path(path), json.dumps(content).encode("ascii"))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, pattern: str = GPT2_PATTERN
    ) -> "BytePairTokenizer":
        """Read a tokenizer that `save` wrote, or a published model's of GPT-2's kind.

        The file may come from a stranger. It is refused if reading it, or encoding with it, would
        take more than a moment.

        Args:
            path: the file, or the folder of a run or a model, which has it as tokenizer.json.
            pattern: the pattern that the file must hold. No other is used, because a search by
                some patterns never ends.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is damaged, of another kind or of a later version, or has another
                pattern.
        """
        path = Path(path)
        path = path / "tokenizer.json" if path.is_dir() else path
        content = read_json(path)
        if "model" in content:
            return cls._of_the_library(content, path)
        if {**content, **_HEADER} != content:
            raise ValueError(f"{path} is not a tokenizer file that says {_HEADER}")
        if content.get("pattern") != pattern:
            raise ValueError(
                f"{path} cuts text by the pattern {content.get('pattern')!r:.60}, and there are "
                "patterns on which a search never ends; if you trust this one, pass it: "
                "BytePairTokenizer.load(path, pattern=...)"
            )
        try:
            tokenizer = cls(
                [(left, right) for left, right in content["merges"]],
                special_tokens=content["special_tokens"],
                pattern=pattern,
                byte_order=bytes(list(content["byte_order"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is a damaged tokenizer file: {error}") from error
        if tokenizer.fingerprint != content.get("sha256"):
            raise ValueError(
                f"{path} is a damaged tokenizer file: its content does not match its checksum"
            )
        return tokenizer

    @classmethod
    def _of_the_library(cls, content: dict, path: Path) -> "BytePairTokenizer":
        try:
            return cls(**from_tokenizers(content))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} is not a byte-level BPE tokenizer of GPT-2's kind ({error!r:.500}); "
                "decoder_only.hub.load_model reads the model without it"
            ) from None

    def to_tiktoken(self) -> tiktoken.Encoding:
        """The same tokenizer as a `tiktoken.Encoding`, which gives every text the same ids.

        tiktoken replaces lone surrogates by U+FFFD without an error, where this class raises.
        """
        return self._tiktoken

    @cached_property
    def _tiktoken(self) -> tiktoken.Encoding:
        n_ordinary = self.vocab_size - len(self._special_tokens)
        return tiktoken.Encoding(
            f"decoder-only-{self.fingerprint[:12]}",
            pat_str=self.pattern,
            mergeable_ranks={self._vocabulary[id]: id for id in range(n_ordinary)},
            special_tokens=self._special_tokens,
            explicit_n_vocab=self.vocab_size,
        )


def gpt2_tokenizer() -> BytePairTokenizer:
    """GPT-2's own vocabulary of 50,257 tokens (Radford et al., 2019), as tiktoken distributes it.

    tiktoken reads it from its cache, the folder that TIKTOKEN_CACHE_DIR names, or downloads it
    once. tiktoken's file has the tokens and not the pairs. A token's pair is what the earlier
    merges leave of its bytes; otherwise training could not have found it.

    Raises:
        FileNotFoundError: the vocabulary is not in the cache and could not be downloaded.
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


def _spelled(word_counts: Counter[str], byte_order: bytes) -> Counter[str]:
    """The words in byte tokens, long ones in pieces: a line of dashes is a single word."""
    words: Counter[str] = Counter()
    for word, count in word_counts.items():
        spelled = spell(word, byte_order)
        for first in range(0, len(spelled), _LONGEST_LEARNED):
            words[spelled[first : first + _LONGEST_LEARNED]] += count
    return words


def _documents(text: str | Iterable[str]) -> Iterator[str]:
    """The documents of a text, each checked before it is yielded."""
    if isinstance(text, bytes) or not isinstance(text, Iterable):
        raise TypeError(f"text must be a str or an iterable of str, got {_kind(text)}")
    for number, document in enumerate([text] if isinstance(text, str) else text):
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


def _check_definition(
    special_tokens: Sequence[str], pattern: str, byte_order: bytes
) -> None:
    if not _tell_apart(special_tokens):
        raise ValueError(
            f"special_tokens={reprlib.repr(special_tokens)} must be a list of up to 1,000 "
            "strings, none empty or the beginning of another"
        )
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"the pattern {pattern!r:.60} cannot work: {error}") from error
    words = [match[0] for match in regex.finditer(pattern, "It's 2 lamps.\n")]
    if not all(words):
        raise ValueError(
            f"pattern={pattern!r:.200} must be one that never matches nothing"
        )
    if sorted(byte_order) != list(range(256)):
        raise ValueError("byte_order must hold each of the 256 bytes exactly once")


def _tell_apart(special_tokens: Sequence[str]) -> bool:
    """Whether a text with these special tokens in it can be read in one way only."""
    # A list or tuple, because the order decides the ids.
    if not isinstance(special_tokens, list | tuple) or len(special_tokens) > 1000:
        return False
    if not all(isinstance(token, str) and token for token in special_tokens):
        return False
    # Half a character has no UTF-8 form.
    if any(token.encode(errors="ignore").decode() != token for token in special_tokens):
        return False
    # In sorted order, a string that begins with a token follows the token directly.
    following = pairwise(sorted(special_tokens))
    return not any(second.startswith(first) for first, second in following)


def _kind(value: object) -> str:
    return f"{value!r:.60}, a {type(value).__name__}"
