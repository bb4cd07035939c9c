"""From a distribution over the next token to a text.

A model gives P(next | all before). Drawing from it, appending what was drawn, and asking again
writes a text whose probability is the product of the draws'. Three filters trade variety for
caution before each draw:

    temperature    P becomes P^(1/T), renormalized: below 1 sharper, 0 always the likeliest
    top-k          only the k likeliest tokens
    top-p          only the smallest set of likeliest tokens that holds a mass of p

Weights may be in 16 bits (`model.bfloat16()`): the filters and the draw are in float32 all the
same, and decoding, which waits for weights to be read, reads half as much. Chapter 16.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from decoder_only.base import checks, hardware
from decoder_only.base.modes import restored_modes

__all__ = ["apply_temperature", "beam_search", "generate", "keep_top_k", "keep_top_p"]


def apply_temperature(
    logits: Float[Tensor, "b v"], temperature: int | float
) -> Float[Tensor, "b v"]:
    """Divide the logits, so that softmax gives probabilities to the power 1 / temperature.

    Args:
        temperature: above 0; at 1e-30 and below it is 1e-30, so that nothing overflows.

    Source: Ackley, Hinton & Sejnowski (1985).
    """
    checks.number("temperature", temperature, above=0)
    return logits / max(temperature, 1e-30)


def keep_top_k(logits: Float[Tensor, "b v"], k: int) -> Float[Tensor, "b v"]:
    """Keep the k largest logits of each row, exactly k even where some are equal.

    Args:
        k: at least 1; a row with fewer entries is kept whole.

    Returns:
        The logits, with minus infinity for the other tokens.

    Source: Fan et al. (2018).
    """
    checks.whole("top_k", k, at_least=1)
    top = logits.topk(min(k, logits.shape[-1]), dim=-1)
    return torch.full_like(logits, -math.inf).scatter(-1, top.indices, top.values)


def keep_top_p(logits: Float[Tensor, "b v"], p: int | float) -> Float[Tensor, "b v"]:
    """Keep the smallest set of likeliest tokens of each row whose probabilities sum to p or more.

    Args:
        p: above 0, at most 1; 1 keeps all.

    Returns:
        The logits, with minus infinity for the other tokens.

    Source: Holtzman et al. (2020).
    """
    checks.number("top_p", p, above=0, at_most=1)
    if p == 1:
        return logits
    ranked, order = logits.sort(dim=-1, descending=True, stable=True)
    probability = ranked.softmax(dim=-1)
    # A token stays while those before it have not yet reached p, so the likeliest always stays.
    dropped = probability.cumsum(dim=-1) - probability >= p
    ranked = ranked.masked_fill(dropped, -math.inf)
    return torch.empty_like(logits).scatter(-1, order, ranked)


def generate(
    model: nn.Module,
    ids: Int[Tensor, "b s"] | Sequence[Int[Tensor, "_"]],
    *,
    max_new_tokens: int,
    temperature: int | float = 1.0,
    top_k: int | None = None,
    top_p: int | float | None = None,
    generator: torch.Generator | None = None,
    stop_id: int | None = None,
    n_allowed: int | None = None,
    restrict: Callable[[Int[Tensor, "b s"]], Bool[Tensor, "b v"] | None] | None = None,
    compile: bool | None = None,
) -> Int[Tensor, "b _"] | list[Int[Tensor, "_"]]:
    """Continue each row by `max_new_tokens` tokens, one at a time.

    The model sees at most its last `context_length` tokens. Up to that length, keys and values are
    kept, and each step computes one position; beyond it the window slides, what leaves it is
    forgotten, and each step computes them all. Where all blocks have windows, and positions are
    rotary or none, nothing need be forgotten: caches are rings, and each step computes one
    position at any length. The model is in evaluation mode within the call.

    Args:
        model: a `GPT`.
        ids: where to go on from, at least one token in each row. A list may hold prompts of
            several lengths; each continues as it would alone.
        max_new_tokens: n.
        temperature, top_k, top_p: see `apply_temperature`, `keep_top_k`, `keep_top_p`, which are
            applied in this order. Temperature 0 takes the likeliest token instead of drawing.
        generator: source of the draws; torch's global one of the model's device by default. One
            of another device draws there, so each step waits for the probabilities to be copied.
        stop_id: a row that produced this token is finished, and filled up with it. Once all rows
            are, the model is not asked again; off the CPU that is looked at every 16 tokens.
        n_allowed: only ids below it may come out, for a model whose vocabulary is larger than its
            tokenizer's.
        restrict: called with the rows so far, says which tokens may follow each, True for those;
            None leaves all. One that goes on needs one at least. Shorter prompts of a list stand
            at the ends of their rows.
        compile: run the step from one token to the next through torch.compile, or as it is where
            that fails; one graph serves a batch size and a length, rounded up to 256. None where
            the model is on a GPU.

    Returns:
        Shape (b, s + n): the rows and their continuations. Of a list, a list of such rows.

    Raises:
        ValueError: a setting that cannot work, or rows without a token.
    """
    checks.whole("max_new_tokens", max_new_tokens, at_least=0)
    choose = chooser(temperature, top_k, top_p, generator)
    allowed = {"at_least": 1, "at_most": model.config.vocab_size}
    checks.whole("n_allowed", n_allowed, **allowed, optional=True)
    rows, padding = (ids, None) if isinstance(ids, Tensor) else _aligned(ids)
    shape = tuple(rows.shape)
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"ids.shape={shape} must be (batch, sequence) with a token at least; "
            "a single sequence is ids[None]"
        )
    settings = {"stop_id": stop_id, "n_allowed": n_allowed, "restrict": restrict}
    settings |= {"padding": padding, "compile": compile}
    new = list(columns(model, rows, max_new_tokens, choose, **settings))
    fill = rows.new_full((len(rows), max_new_tokens - len(new)), stop_id or 0)
    rows = torch.cat([rows, *(column[:, None] for column in new), fill], dim=1)
    if padding is None:
        return rows
    return [row[skipped:] for row, skipped in zip(rows, padding.tolist(), strict=True)]


@torch.no_grad()
def columns(
    model: nn.Module,
    ids: Int[Tensor, "b s"],
    max_new_tokens: int,
    choose: Callable[[Tensor], Tensor],
    *,
    stop_id: int | None = None,
    n_allowed: int | None = None,
    restrict: Callable[[Tensor], Tensor | None] | None = None,
    padding: Int[Tensor, "b"] | None = None,
    compile: bool | None = None,
) -> Iterator[Int[Tensor, "b"]]:
    """The next token of each row, one step after the other, until all rows have stopped.

    Args: as in `generate`, and

        choose: takes one token for each row of logits.
        padding: how many tokens at the beginning of each row are padding.
    """
    compile = ids.is_cuda if compile is None else compile
    step = hardware.compiled(model) if compile else model
    finished = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    room = _cache_length(model, ids.shape[1] + max_new_tokens, compile)
    cache = model.new_cache(len(ids), max_length=room, padding=padding)
    new = ids
    with restored_modes(model):
        model.eval()
        for number in range(max_new_tokens):
            if ids.shape[1] <= room:
                logits = (step if number else model)(new, cache, last_only=True)
            else:
                logits = _logits_of_window(model, ids, room, padding)
            logits = logits[:, -1].float()
            allowed = None if restrict is None else restrict(ids)
            logits = _restricted(logits, allowed, finished, n_allowed)
            chosen = choose(logits).to(ids)
            if stop_id is not None:
                chosen = chosen.masked_fill(finished, stop_id)
                finished = finished | (chosen == stop_id)
            new = chosen[:, None]
            ids = torch.cat([ids, new], dim=1)
            yield chosen
            # A look waits for the GPU, so there it is taken every 16 tokens.
            looks = stop_id is not None and (number % 16 == 15 or ids.is_cpu)
            if looks and finished.all():
                break


def _cache_length(model: nn.Module, n_tokens: int, compiled: bool) -> int:
    """Positions of the cache for so many tokens, as far as the model can keep them apart."""
    # One compiled graph serves every length up to the same multiple of 256.
    length = -(-n_tokens // 256) * 256 if compiled else n_tokens
    config = model.config
    is_endless = None not in config.windows and config.positions in ("rotary", "none")
    return length if is_endless else min(length, config.context_length)


def _logits_of_window(
    model: nn.Module,
    ids: Int[Tensor, "b s"],
    length: int,
    padding: Int[Tensor, "b"] | None,
) -> Float[Tensor, "b _ v"]:
    """Logits after the last `length` tokens, whose positions begin at 0 again.

    Every token has another position than one step before, so no cached key serves any more.
    """
    start, cache = ids.shape[1] - length, None
    if padding is not None:
        left = (padding - start).clamp(min=0)
        cache = model.new_cache(len(ids), max_length=length, padding=left)
    return model(ids[:, start:], cache, last_only=True)


def _restricted(
    logits: Float[Tensor, "b v"],
    allowed: Bool[Tensor, "b v"] | None,
    finished: Bool[Tensor, "b"],
    n_allowed: int | None,
) -> Float[Tensor, "b v"]:
    """The logits, with minus infinity for tokens that may not come; finished rows take any."""
    if n_allowed is not None:
        logits[:, n_allowed:] = -math.inf
    if allowed is None:
        return logits
    allowed = allowed.to(logits.device) | finished[:, None]
    if not allowed[:, :n_allowed].any(dim=-1).all():
        raise ValueError("restrict must leave each row a token that n_allowed allows")
    return logits.masked_fill(~allowed, -math.inf)


@torch.no_grad()
def beam_search(
    model: nn.Module,
    ids: Int[Tensor, "s"],
    *,
    max_new_tokens: int,
    n_beams: int = 4,
    stop_id: int | None = None,
    n_allowed: int | None = None,
) -> list[tuple[Int[Tensor, "_"], float]]:
    """Look for the likeliest continuation, keeping the few best beginnings at each length.

    Drawing gives a typical text, and argmax a greedy one, whose first step may close the way to
    likelier ones. A beam of one is argmax; one as wide as the vocabulary to the power of the
    length finds the likeliest text of all.

    Args:
        model: a `GPT`, of which at most the last `context_length` tokens are seen.
        ids: one sequence to go on from, at least one token.
        max_new_tokens: length of a continuation at most.
        n_beams: beginnings that are kept.
        stop_id: a beginning that produced this token is complete.
        n_allowed: see `generate`; log-probabilities are those among these ids.

    Returns:
        The beams, the likeliest first: the whole sequence, and the log-probability in nats of
        what was added to it, which is added up in float32 whatever the model's format.

    Raises:
        ValueError: a setting that cannot work, or a sequence without a token.

    Source: Graves (2012); Arya (2024).
    """
    checks.whole("max_new_tokens", max_new_tokens, at_least=0)
    checks.whole("n_beams", n_beams, at_least=1)
    shape = tuple(getattr(ids, "shape", ()))
    if len(shape) != 1 or 0 in shape:
        raise ValueError(f"ids.shape={shape} must be (sequence,) with a token at least")
    allowed = {"at_least": 1, "at_most": model.config.vocab_size}
    checks.whole("n_allowed", n_allowed, **allowed, optional=True)
    beams, complete = [(ids, 0.0)], []
    with restored_modes(model):
        model.eval()
        for _ in range(max_new_tokens):
            rows = torch.stack([row for row, _ in beams])
            seen = rows[:, -model.config.context_length :]
            logits = model(seen, last_only=True)[:, -1, :n_allowed]
            gains = logits.float().log_softmax(dim=-1)
            scores = gains + gains.new_tensor([[score] for _, score in beams])
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
    return sorted(complete + beams, key=lambda beam: -beam[1])


def chooser(
    temperature: int | float,
    top_k: int | None,
    top_p: int | float | None,
    generator: torch.Generator | None,
) -> Callable[[Tensor], Tensor]:
    """A function that takes one token for each row of logits.

    Raises:
        ValueError: a setting that cannot work, before anything is drawn.
    """
    checks.number("temperature", temperature, at_least=0)
    checks.whole("top_k", top_k, at_least=1, optional=True)
    checks.number("top_p", top_p, above=0, at_most=1, optional=True)

    def choose(logits: Tensor) -> Tensor:
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

    return choose


def _aligned(
    prompts: Sequence[Int[Tensor, "_"]],
) -> tuple[Int[Tensor, "b s"], Int[Tensor, "b"]]:
    """Prompts as rows that end together, and how much each was padded in front."""
    lengths = [len(x) if isinstance(x, Tensor) and x.ndim == 1 else 0 for x in prompts]
    if not lengths or 0 in lengths:
        raise ValueError(
            f"ids={prompts!r:.200} must be a list of tensors of one axis, "
            "each with a token at least"
        )
    missing = [max(lengths) - length for length in lengths]
    rows = [F.pad(x, (n, 0)) for x, n in zip(prompts, missing, strict=True)]
    return torch.stack(rows), torch.tensor(missing, device=rows[0].device)
