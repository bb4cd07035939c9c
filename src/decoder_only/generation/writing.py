"""Texts from a model: what a prompt says is text, and the model chooses how to spell its last word.

Chapter 16.
"""

import codecs
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from decoder_only.base import checks
from decoder_only.generation.sampling import chooser, columns
from decoder_only.tokenization import BytePairTokenizer, pretokenize
from decoder_only.tokenization.tokenizer import END_OF_TEXT


def write(
    model: nn.Module,
    tokenizer: BytePairTokenizer,
    prompt: str = "",
    *,
    count: int = 1,
    max_new_tokens: int = 200,
    temperature: int | float = 1.0,
    top_k: int | None = None,
    top_p: int | float | None = None,
    generator: torch.Generator | None = None,
    from_start: bool = True,
) -> list[str]:
    """Texts that begin with a prompt and go on to the end of text, or for `max_new_tokens`.

    A prompt may stop where no token does. "a ti" becomes other tokens than the beginning of
    "a time", so a model asked to go on after them sees what it never saw in training. The prompt's
    last word is therefore given to the model as text, not as tokens. The model chooses the tokens
    that spell it, as many as it likes, and the last of them may run over its end.

    Args:
        model: a `GPT`, trained on the tokenizer's ids.
        tokenizer: with the special token `<|endoftext|>`, which may be in the prompt, too.
        prompt: what the texts begin with.
        count: number of texts, written side by side, 1 or more.
        max_new_tokens: the most tokens after those that spell the prompt.
        temperature, top_k, top_p, generator: see `generate`.
        from_start: the prompt begins a document, so the end-of-text token comes before it. An
            empty prompt always gets it.

    Returns:
        The texts, prompt included.

    Raises:
        ValueError: a setting that cannot work.
    """
    checks.whole("count", count, at_least=1)
    checks.whole("max_new_tokens", max_new_tokens, at_least=0)
    choose = chooser(temperature, top_k, top_p, generator)
    if max_new_tokens == 0:
        return [prompt] * count
    spelling = _Spelling(prompt, tokenizer, model.config.vocab_size, from_start)
    columns = list(_written(model, spelling, count, max_new_tokens, choose))
    texts, end = [], spelling.end
    for row in torch.stack(columns, dim=1).tolist():
        row = row[: spelling.n_tokens(row) + max_new_tokens]
        row = row[: row.index(end)] if end in row else row
        texts.append(spelling.head + tokenizer.decode(row))
    return texts


def stream(
    model: nn.Module,
    tokenizer: BytePairTokenizer,
    prompt: str = "",
    *,
    max_new_tokens: int = 200,
    temperature: int | float = 1.0,
    top_k: int | None = None,
    top_p: int | float | None = None,
    generator: torch.Generator | None = None,
    from_start: bool = True,
) -> Iterator[str]:
    """One text in pieces, as it is written: joined, they are what `write` returns.

    The model is in evaluation mode until the last piece came. Arguments and errors: `write`.
    """
    checks.whole("max_new_tokens", max_new_tokens, at_least=0)
    choose = chooser(temperature, top_k, top_p, generator)
    if max_new_tokens == 0:
        return iter([prompt])
    spelling = _Spelling(prompt, tokenizer, model.config.vocab_size, from_start)
    columns = _written(model, spelling, 1, max_new_tokens, choose)
    return filter(None, _pieces(spelling, columns))


def _pieces(spelling: "_Spelling", columns: Iterator[Tensor]) -> Iterator[str]:
    # A character may be spelled by several tokens, and waits for the last of them.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield spelling.head
    for column in columns:
        if (token := int(column)) == spelling.end:
            break
        yield decoder.decode(spelling.tokenizer.token_bytes(token))
    yield decoder.decode(b"", final=True)


def _written(
    model: nn.Module, spelling: "_Spelling", count: int, n: int, choose: Callable
) -> Iterator[Int[Tensor, "b"]]:
    """Columns of tokens, until each row has n after those that spell its prompt's last word."""
    ids = torch.tensor([spelling.ids] * count, device=next(model.parameters()).device)
    settings = {"stop_id": spelling.end, "n_allowed": spelling.tokenizer.vocab_size}
    settings["restrict"] = spelling.allowed
    most = n + len(spelling.word)  # a byte at least for each token
    n_free = 0
    for column in columns(model, ids, most, choose, **settings):
        yield column
        n_free += spelling.is_done
        if n_free == n:
            return


class _Spelling:
    """The last word of a prompt, which the model spells itself and may go beyond.

    Attributes:
        head: the prompt before that word, which the tokenizer cuts alike whatever follows.
        ids: its tokens.
        word: the last word in UTF-8.
        is_done: whether all rows had spelled it when `allowed` was last asked.
    """

    def __init__(
        self,
        prompt: str,
        tokenizer: BytePairTokenizer,
        vocab_size: int,
        from_start: bool,
    ) -> None:
        def encode(text: str) -> list[int]:
            return tokenizer.encode(text, allowed_special={END_OF_TEXT})

        special = tokenizer.special_tokens
        if END_OF_TEXT not in special:
            raise ValueError(
                f"special_tokens={[*special]!r:.200} must hold {END_OF_TEXT}"
            )
        self.tokenizer, self.vocab_size = tokenizer, vocab_size
        self.end = special[END_OF_TEXT]
        words = list(pretokenize(prompt.rpartition(END_OF_TEXT)[2], tokenizer.pattern))
        word = words[-1] if words else ""
        self.head = prompt.removesuffix(word)
        self.ids = [self.end] * from_start + encode(self.head)
        if not self.ids:  # nothing to ask the model with: take the word as it is
            self.head, word, self.ids = prompt, "", encode(prompt) or [self.end]
        self.word, self.is_done = word.encode(), False
        ordinary = set(range(tokenizer.vocab_size)) - set(special.values())
        self.tokens = {i: tokenizer.token_bytes(i) for i in ordinary if self.word}
        self.known: dict[bytes, Tensor] = {}

    def allowed(self, ids: Int[Tensor, "b s"]) -> Bool[Tensor, "b v"] | None:
        """The tokens that may follow each row; None, which is all, once every row has the word."""
        if self.is_done:
            return None
        written = ids[:, len(self.ids) :].tolist()
        left = [self.word[len(self.tokenizer.decode_bytes(row)) :] for row in written]
        self.is_done = not any(left)
        return None if self.is_done else torch.stack([self._spelling(x) for x in left])

    def n_tokens(self, row: list[int]) -> int:
        """How many of a row's tokens spell the word."""
        spelled = self.tokenizer.decode_bytes
        least = len(self.word)
        return next(n for n in range(len(row) + 1) if len(spelled(row[:n])) >= least)

    def _spelling(self, rest: bytes) -> Bool[Tensor, "v"]:
        """The tokens that begin with the rest of the word, or are its beginning; all for none."""
        if rest not in self.known:
            allowed = torch.full((self.vocab_size,), not rest)
            for token, spelled in self.tokens.items():
                allowed[token] = spelled.startswith(rest) or rest.startswith(spelled)
            self.known[rest] = allowed
        return self.known[rest]
