"""From a distribution over the next token to a text.

A model gives P(next | all before). Drawing from it, appending what was drawn, and asking again
writes a text whose probability is the product of the draws'. Three filters trade variety for
caution before each draw:

    temperature    P becomes P^(1/T), renormalized: below 1 sharper, 0 always the likeliest
    top-k          only the k likeliest tokens
    top-p          only the smallest set of likeliest tokens that holds a mass of p

Chapter 9.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from decoder_only.data import END_OF_TEXT
from decoder_only.model import GPT
from decoder_only.tokenization import BytePairTokenizer, pretokenize

__all__ = [
    "apply_temperature",
    "beam_search",
    "generate",
    "keep_top_k",
    "keep_top_p",
    "write",
]


def apply_temperature(
    logits: Float[Tensor, "b v"], temperature: int | float
) -> Float[Tensor, "b v"]:
    """Divide the logits, so that softmax gives probabilities to the power 1 / temperature.

    Args:
        temperature: above 0.

    Source: Ackley, Hinton & Sejnowski (1985).
    """
    _require(
        "temperature",
        temperature,
        temperature > 0,
        "above 0; generate() takes 0 as argmax",
    )
    return logits / temperature


def keep_top_k(logits: Float[Tensor, "b v"], k: int) -> Float[Tensor, "b v"]:
    """Keep the k largest logits of each row, exactly k even where some are equal.

    Args:
        k: at least 1; a row with fewer entries is kept whole.

    Returns:
        The logits, with minus infinity in place of those that go.

    Source: Fan et al. (2018).
    """
    _require("top_k", k, k >= 1, "a whole number from 1; None keeps all")
    kept = logits.topk(min(k, logits.shape[-1]), dim=-1)
    return torch.full_like(logits, -math.inf).scatter(-1, kept.indices, kept.values)


def keep_top_p(logits: Float[Tensor, "b v"], p: float) -> Float[Tensor, "b v"]:
    """Keep the smallest set of likeliest tokens of each row whose probabilities sum to p or more.

    Args:
        p: above 0, at most 1; 1 keeps all.

    Returns:
        The logits, with minus infinity in place of those that go.

    Source: Holtzman et al. (2020).
    """
    _require("top_p", p, 0 < p <= 1, "above 0 and at most 1")
    if p == 1:
        return logits
    ranked, order = logits.sort(dim=-1, descending=True, stable=True)
    probability = ranked.softmax(dim=-1)
    # A token stays while those before it have not yet reached p, so the likeliest always stays.
    dropped = probability.cumsum(dim=-1) - probability >= p
    return torch.empty_like(logits).scatter(
        -1, order, ranked.masked_fill(dropped, -math.inf)
    )


@torch.no_grad()
def generate(
    model: GPT,
    ids: Int[Tensor, "b s"],
    *,
    max_new_tokens: int,
    temperature: int | float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    stop_id: int | None = None,
    n_allowed: int | None = None,
    restrict: Callable[[Int[Tensor, "b s"]], Bool[Tensor, "b v"] | None] | None = None,
) -> Int[Tensor, "b _"]:
    """Continue each row by `max_new_tokens` tokens, one at a time.

    The model sees at most its last `context_length` tokens. Up to that length, keys and values are
    kept, and each step computes one position; beyond it the window slides, what leaves it is
    forgotten, and each step computes them all. The model is in evaluation mode meanwhile.

    Args:
        model: gives logits.
        ids: where to go on from, at least one token in each row.
        max_new_tokens: n.
        temperature, top_k, top_p: see `apply_temperature`, `keep_top_k`, `keep_top_p`, which are
            applied in this order. Temperature 0 takes the likeliest token instead of drawing.
        generator: source of the draws; torch's global one by default.
        stop_id: a row that produced this token is finished, and filled up with it. Once all rows
            are, the model is not asked again.
        n_allowed: only ids below it may come out, for a model whose vocabulary is larger than its
            tokenizer's.
        restrict: called with the rows so far, says which tokens may follow each, True for those;
            None leaves all.

    Returns:
        Shape (b, s + n): the rows and their continuations.

    Raises:
        ValueError: a setting that cannot work, or rows without a token.
    """
    _check_settings(model, ids, max_new_tokens, temperature, n_allowed)
    was_training = model.training
    model.eval()
    n_given = ids.shape[1]
    finished = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    context_length = model.config.context_length
    cache = model.new_cache(
        len(ids), max_length=min(context_length, n_given + max_new_tokens)
    )
    try:
        for _ in range(max_new_tokens):
            if ids.shape[1] <= context_length:
                logits = model(ids[:, len(cache[0]) :], cache)
            else:  # every position has moved, so none of the past can be kept
                logits = model(ids[:, -context_length:])
            logits = logits[:, -1].float()
            if n_allowed is not None:
                logits[:, n_allowed:] = -math.inf
            if restrict is not None and (allowed := restrict(ids)) is not None:
                logits = logits.masked_fill(~allowed.to(logits.device), -math.inf)
            chosen = _choose(logits, temperature, top_k, top_p, generator).to(ids)
            if stop_id is not None:
                chosen = chosen.masked_fill(finished, stop_id)
                finished = finished | (chosen == stop_id)
            ids = torch.cat([ids, chosen[:, None]], dim=1)
            if stop_id is not None and finished.all():
                break
    finally:
        model.train(was_training)
    n_missing = n_given + max_new_tokens - ids.shape[1]
    return torch.cat([ids, ids.new_full((len(ids), n_missing), stop_id or 0)], dim=1)


@torch.no_grad()
def beam_search(
    model: GPT,
    ids: Int[Tensor, "s"],
    *,
    max_new_tokens: int,
    n_beams: int = 4,
    stop_id: int | None = None,
) -> list[tuple[Int[Tensor, "_"], float]]:
    """Look for the likeliest continuation, keeping the few best beginnings at each length.

    Drawing gives a typical text, and argmax a greedy one, whose first step may close the way to
    likelier ones. A beam of one is argmax; one as wide as the vocabulary to the power of the
    length finds the likeliest text of all.

    Args:
        model: gives logits, of which it sees at most `context_length` tokens.
        ids: one sequence to go on from, at least one token.
        max_new_tokens: length of a continuation at most.
        n_beams: beginnings that are kept.
        stop_id: a beginning that produced this token is complete.

    Returns:
        The beams, the likeliest first: the whole sequence, and the log-probability in nats of
        what was added to it.

    Raises:
        ValueError: a setting that cannot work, or a sequence without a token.

    Source: Graves (2012); seed documents G and T.
    """
    _check_settings(model, ids[None], max_new_tokens, 0, None)
    _require("n_beams", n_beams, n_beams >= 1, "1 or more")
    was_training = model.training
    model.eval()
    beams, complete = [(ids, 0.0)], []
    try:
        for _ in range(max_new_tokens):
            rows = torch.stack([row for row, _ in beams])
            logits = model(rows[:, -model.config.context_length :])[:, -1]
            scores = torch.tensor([score for _, score in beams]).to(logits)
            scores = scores[:, None] + logits.float().log_softmax(dim=-1)
            # Each complete text takes the place of a beginning.
            n_open = min(n_beams - len(complete), scores.numel())
            best = scores.flatten().topk(n_open)
            beams = []
            for score, index in zip(best.values.tolist(), best.indices, strict=True):
                row, token = divmod(int(index), scores.shape[1])
                longer = torch.cat([rows[row], rows.new_tensor([token])])
                (complete if token == stop_id else beams).append((longer, score))
            if not beams:
                break
    finally:
        model.train(was_training)
    return sorted(complete + beams, key=lambda beam: -beam[1])


def write(
    model: GPT,
    tokenizer: BytePairTokenizer,
    prompt: str = "",
    *,
    count: int = 1,
    max_new_tokens: int = 200,
    temperature: int | float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    from_start: bool = True,
) -> list[str]:
    """Texts that begin with a prompt and go on to the end of text, or for `max_new_tokens`.

    A prompt may stop where no token does. "a ti" becomes other tokens than the beginning of
    "a time", so a model asked to go on after them sees what it never saw in training. The prompt's
    last word is therefore handed over as text: the model chooses the tokens that spell it, and
    may run over its end.

    Args:
        model: trained on the tokenizer's ids.
        tokenizer: with the special token `<|endoftext|>`, which may stand in the prompt too.
        prompt: what the texts begin with.
        count: number of texts, written side by side.
        max_new_tokens: tokens behind the prompt, at most.
        temperature, top_k, top_p, generator: see `generate`.
        from_start: the prompt begins a document, so the end-of-text token comes before it. An
            empty prompt always gets it.

    Returns:
        The texts, prompt included.
    """
    end = tokenizer.special_tokens[END_OF_TEXT]
    head, word = _without_last_word(prompt, tokenizer)
    ids = [end] * from_start + _encode(head, tokenizer)
    if not ids:  # nothing to ask the model with: take the word as it is
        head, word, ids = prompt, "", _encode(prompt, tokenizer) or [end]
    device = next(model.parameters()).device
    rows = generate(
        model,
        torch.tensor([ids] * count, device=device),
        max_new_tokens=max_new_tokens + len(_encode(word, tokenizer)),
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        generator=generator,
        stop_id=end,
        n_allowed=tokenizer.vocab_size,
        restrict=_Spelling(
            word, tokenizer, n_given=len(ids), vocab_size=model.config.vocab_size
        ),
    )
    texts = []
    for row in rows[:, len(ids) :].tolist():
        written = row[: row.index(end)] if end in row else row
        texts.append(head + tokenizer.decode(written))
    return texts


def _encode(text: str, tokenizer: BytePairTokenizer) -> list[int]:
    return tokenizer.encode(text, allowed_special={END_OF_TEXT})


def _without_last_word(prompt: str, tokenizer: BytePairTokenizer) -> tuple[str, str]:
    """The prompt in two: what the tokenizer cuts alike whatever follows, and the last word."""
    words = list(pretokenize(prompt.rpartition(END_OF_TEXT)[2], tokenizer.pattern))
    word = words[-1] if words else ""
    return prompt[: len(prompt) - len(word)], word


class _Spelling:
    """Allows those tokens that spell a word, or what is left of it, and perhaps go beyond."""

    def __init__(
        self, word: str, tokenizer: BytePairTokenizer, *, n_given: int, vocab_size: int
    ) -> None:
        self.word, self.tokenizer = word.encode(), tokenizer
        self.n_given, self.vocab_size = n_given, vocab_size
        special = set(tokenizer.special_tokens.values())
        ordinary = (
            token for token in range(tokenizer.vocab_size) if token not in special
        )
        self.tokens = {token: tokenizer.token_bytes(token) for token in ordinary}
        self.known: dict[bytes, Tensor] = {}

    def __call__(self, ids: Int[Tensor, "b s"]) -> Bool[Tensor, "b v"] | None:
        written = ids[:, self.n_given :].tolist()
        if len(written[0]) >= len(self.word):  # a byte at least for each token
            return None
        left = [self.word[len(self.tokenizer.decode_bytes(row)) :] for row in written]
        return torch.stack([self._allowed(rest) for rest in left])

    def _allowed(self, rest: bytes) -> Bool[Tensor, "v"]:
        if rest not in self.known:
            allowed = torch.full((self.vocab_size,), not rest)
            for token, spelled in self.tokens.items():
                allowed[token] = spelled.startswith(rest) or rest.startswith(spelled)
            self.known[rest] = allowed
        return self.known[rest]


def _choose(
    logits: Float[Tensor, "b v"],
    temperature: int | float,
    top_k: int | None,
    top_p: float | None,
    generator: torch.Generator | None,
) -> Int[Tensor, "b"]:
    """One token for each row."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = apply_temperature(logits, temperature)
    if top_k is not None:
        logits = keep_top_k(logits, top_k)
    if top_p is not None:
        logits = keep_top_p(logits, top_p)
    probability = logits.softmax(dim=-1)
    if generator is not None:
        probability = probability.to(generator.device)
    return torch.multinomial(probability, 1, generator=generator)[:, 0]


def _check_settings(
    model: GPT,
    ids: Tensor,
    max_new_tokens: int,
    temperature: int | float,
    n_allowed: int | None,
) -> None:
    vocab_size = model.config.vocab_size
    _require("max_new_tokens", max_new_tokens, max_new_tokens >= 0, "0 or more")
    _require("temperature", temperature, temperature >= 0, "0 (argmax) or more")
    if n_allowed is not None:
        _require(
            "n_allowed",
            n_allowed,
            1 <= n_allowed <= vocab_size,
            f"from 1 to {vocab_size}",
        )
    if ids.shape[1] == 0:
        raise ValueError(
            "ids has rows without a token; begin with the end-of-text token at least"
        )


def _require(name: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise ValueError(f"{name}={value!r} cannot work: it must be {wanted}")
