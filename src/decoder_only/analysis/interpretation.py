"""Looking inside: what a model predicts, knows and uses, against a language that is known exactly.

The stories have an exact distribution p of the next token (`stories.exact`), so what a model q has
not learned is exact as well, and its parts are:

    KL(p || q) = -log q(what can follow) + sum over the choices met of KL(p || q) at that choice

`ExcessByKind` takes this apart by kind of choice. `streams` and `replaced` read and change the
residual stream, `lens` asks the head about it early, `fit_probe` asks whether something can be read
off it by a linear map, `without_head` takes a head away, and `additions` and `rewired` cut the path
from one part to another. `RepeatedChains` writes sequences on which the losses of six strategies
are exact. Chapter 14.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from decoder_only.model.attention import attention_weights
from decoder_only.model.gpt import GPT
from decoder_only.stories.exact import KINDS, Fork, Settled, probabilities

# ------------------------------------------------------------------ what is not learned, by kind


class ExcessByKind:
    """KL(p || q) of the next token, split exactly by the kinds of choice that it depends on.

    The next token depends on choices one inside the other: which template, then which name. By the
    chain rule the divergence is the sum of those at each choice, weighted by how often it is met:

        KL = -log q(A) + sum over choices c of sum over alternatives i
                         p_i (log p_i / p_c - log q_i / q_c)

    where p_i and q_i are the mass on the tokens of alternative i, p_c and q_c on those of all of
    them, and A are all tokens that can follow. What is spent outside of A, -log q(A), has an
    account of its own, under the kind of the outermost choice. Where no choice is open it is under
    the kind of the certain token: facts and agreement cost nothing else. Alternatives that can
    begin with the same token are one, and what is inside them counts to the choice between them.
    No part is negative, and all are zero for a perfect model.

    Args:
        trees: what can follow each prefix, see `stories.exact.NextToken`.
    """

    def __init__(self, trees: Sequence[Settled | Fork]) -> None:
        self.entropy = torch.zeros(len(trees), len(KINDS), dtype=torch.float64)
        """The entropy of p by kind, in nats: what every model must be surprised by."""
        # Sets of tokens: row, column, weight of log q(set); and the tokens of each set.
        self._sets: list[tuple[int, int, float]] = []
        self._members: list[tuple[int, int]] = []
        for row, tree in enumerate(trees):
            self._set(row, KINDS.index(tree.kind), -1.0, probabilities(tree))
            self._add(row, tree, 1.0)

    def _add(self, row: int, tree: Settled | Fork, mass: float) -> None:
        """One choice and those inside it; `mass` is the probability of coming to it."""
        if isinstance(tree, Settled):
            return
        kind, groups = KINDS.index(tree.kind), _alternatives(tree)
        self._set(row, len(KINDS) + kind, mass, probabilities(tree))
        for p, chances, inside in groups:
            if inside is None:  # alternatives that share tokens: no telling them apart
                for token, chance in chances.items():
                    self._leaf(row, kind, mass, p * chance, {token: chance})
            else:
                self._leaf(row, kind, mass, p, chances)
                self._add(row, inside, mass * p)

    def _leaf(
        self, row: int, kind: int, mass: float, p: float, chances: dict[int, float]
    ) -> None:
        """One alternative, of probability p among those of its choice."""
        self.entropy[row, kind] -= mass * p * math.log(p)
        self._set(row, len(KINDS) + kind, -mass * p, chances)

    def _set(self, row: int, column: int, weight: float, tokens: Iterable[int]) -> None:
        self._members += [(len(self._sets), token) for token in tokens]
        self._sets.append((row, column, weight))

    def __call__(self, log_q: Float[Tensor, "s v"]) -> Float[Tensor, "s 2 _"]:
        """The divergence at each prefix, in nats, in a column for each of `KINDS`.

        Args:
            log_q: a model's log-probabilities after each prefix, a row for each tree.

        Returns:
            For each prefix two rows: what is spent on what cannot follow, and on wrong odds of
            what can; on the CPU.
        """
        shape, n_trees = tuple(log_q.shape), len(self.entropy)
        if shape[0] != n_trees:
            raise ValueError(f"log_q.{shape=} must be ({n_trees}, V), a row for a tree")
        rows, columns, weights = torch.tensor(self._sets, dtype=torch.float64).T
        rows, columns = rows.long(), columns.long()
        sets, tokens = torch.tensor(self._members).T
        chances = log_q.cpu().double()[rows[sets], tokens].exp()
        mass = torch.zeros(len(rows), dtype=torch.float64).index_add(0, sets, chances)
        parts = weights * mass.clamp_min(1e-300).log()
        excess = torch.stack([torch.zeros_like(self.entropy), -self.entropy], dim=1)
        where = rows * 2 * len(KINDS) + columns
        return excess.flatten().index_add(0, where, parts).view_as(excess)


def _alternatives(
    fork: Fork,
) -> list[tuple[float, dict[int, float], Settled | Fork | None]]:
    """The alternatives of a choice as far as the next token tells them apart.

    Each with its probability, the distribution of its tokens, and the tree inside; None for several
    that share tokens, which are one.
    """
    groups: dict[int, tuple[float, dict[int, float], Settled | Fork | None]] = {}
    owner: dict[int, int] = {}  # the group that a token belongs to
    for number, (chance, inside) in enumerate(fork.branches):
        mass = {token: chance * p for token, p in probabilities(inside).items()}
        for other in {owner[token] for token in mass if token in owner}:
            other_chance, chances, _ = groups.pop(other)
            for token, p in chances.items():
                mass[token] = mass.get(token, 0.0) + other_chance * p
            chance, inside = chance + other_chance, None
        mass = {token: p / chance for token, p in mass.items()}
        groups[number] = chance, mass, inside
        owner |= dict.fromkeys(mass, number)
    return list(groups.values())


# ------------------------------------------------------------------ reading and changing a run


@torch.no_grad()
def streams(model: GPT, ids: Int[Tensor, "b s"]) -> Float[Tensor, "_ b s d"]:
    """The residual stream after the embedding and after each block: L + 1 of them."""
    outputs: list[Tensor] = []

    def record(part: nn.Module, inputs: tuple, output: Tensor) -> None:
        outputs.append(output)

    _run(model, ids, dict.fromkeys((model.dropout, *model.blocks), record))
    return torch.stack(outputs)


def _run(model: GPT, ids: Tensor, hooks: dict[nn.Module, Callable]) -> None:
    """One forward pass, with a forward hook on each of some parts."""
    with ExitStack() as stack:
        for part, hook in hooks.items():
            stack.enter_context(part.register_forward_hook(hook))
        model.hidden(ids)


@contextmanager
def replaced(
    model: GPT, layer: int, change: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """Within this context, `change` replaces the residual stream after a layer.

    Args:
        layer: 0 for the embedding, l for block number l of 1 to L, as `streams` counts.
        change: gets the stream (b, s, d) and returns what takes its place.
    """
    parts = model.dropout, *model.blocks
    if layer not in range(len(parts)):
        raise ValueError(f"{layer=} must be from 0 to {len(parts) - 1}")
    with parts[layer].register_forward_hook(lambda part, inputs, out: change(out)):
        yield


@torch.no_grad()
def lens(model: GPT, stream: Float[Tensor, "*_ d"]) -> Float[Tensor, "*_ v"]:
    """The logit lens: the logits that the head gives if the stream is taken for the last one."""
    table = [model.embedding.weight] if model.config.tied else []
    return model.head(model.final_norm(stream), *table)


@torch.no_grad()
def attention_maps(model: GPT, ids: Int[Tensor, "b s"]) -> Float[Tensor, "b l h s t"]:
    """The attention weights of every head."""
    maps = []
    for block, stream in zip(model.blocks, streams(model, ids), strict=False):
        attention = block.attention
        x = block.attention_norm(stream) if block.pre_norm else stream
        query, key, _ = attention.project(x)
        mask = model._mask(attention.window, ids, None)
        maps.append(attention_weights(query, key, mask=mask, scale=attention.scale))
    return torch.stack(maps, dim=1)


@contextmanager
def without_head(model: GPT, *heads: tuple[int, int]) -> Iterator[None]:
    """Within this context, the outputs of these heads are replaced by their means.

    The mean is over the batch, at each position (mean ablation): what a head does for this text
    in particular is gone, what it does for all of them is not.

    Args:
        heads: each (layer, head), from 0.

    Raises:
        ValueError: the model has no such head, or a batch of one, whose mean is itself.
    """

    def ablate(at: slice, part: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        outputs = inputs[0].clone()
        if len(outputs) < 2:
            raise ValueError(f"batch={len(outputs)} must be 2 or more to take a mean")
        outputs[..., at] = outputs[..., at].mean(0, keepdim=True)
        return (outputs,)

    with ExitStack() as hooks:
        for layer, h in heads:
            at = _components(model, layer, h)
            output = model.blocks[layer].attention.output
            hooks.enter_context(output.register_forward_pre_hook(partial(ablate, at)))
        yield


@torch.no_grad()
def additions(model: GPT, ids: Int[Tensor, "b s"]) -> Float[Tensor, "_ b s d"]:
    """What every part adds to the residual stream.

    These are the embedding, and of each block H heads and the MLP, 1 + L (H + 1) in all. The first
    1 + l (H + 1) add up to the stream before block l.

    Raises:
        ValueError: the model normalizes the stream itself, which then is no sum.
    """
    if model.config.norm_position != "pre":
        raise ValueError(f"norm_position={model.config.norm_position!r} must be 'pre'")
    added: list[Tensor] = []

    def record_heads(output: nn.Linear, inputs: tuple[Tensor], _: Tensor) -> None:
        h = model.config.n_heads
        weight = rearrange(output.weight, "d (h k) -> h d k", h=h)
        heads = rearrange(inputs[0], "b s (h k) -> h b s k", h=h)
        bias = 0 if output.bias is None else output.bias / h
        added.extend(torch.einsum("hbsk,hdk->hbsd", heads, weight) + bias)

    def record(part: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        added.append(output)

    hooks = {model.dropout: record}
    for block in model.blocks:
        hooks |= {block.attention.output: record_heads, block.mlp: record}
    _run(model, ids, hooks)
    return torch.stack(added)


@contextmanager
def rewired(
    model: GPT,
    head: tuple[int, int],
    part: Literal["query", "key", "value"],
    change: Callable[[Tensor], Tensor],
) -> Iterator[None]:
    """Within this context, one head makes its queries, keys or values from another stream.

    All else reads the stream as it is. Where `change` exchanges what one earlier part has added,
    see `additions`, this is path patching: it cuts the path from that part to this head, and no
    other.

    Args:
        head: (layer, head), from 0.
        part: which of its three inputs.
        change: gets the stream before the block (b, s, d) and returns the one to read instead.

    Raises:
        ValueError: the model has no such head, or its keys and values are other heads' as well.

    Source: Wang et al. (2023); Goldowsky-Dill et al. (2023).
    """
    at, block = _components(model, *head), model.blocks[head[0]]
    linear = getattr(block.attention, part)
    if part != "query" and model.config.kv_heads < model.config.n_heads:
        raise ValueError(f"{part=} must be 'query': heads share keys and values here")
    stream: list[Tensor] = []

    def read(block: nn.Module, inputs: tuple) -> None:
        stream[:] = inputs[:1]

    def rewire(linear: nn.Linear, inputs: tuple[Tensor], out: Tensor) -> Tensor:
        x = change(stream[0])
        x = block.attention_norm(x) if block.pre_norm else x
        out = out.clone()
        out[..., at] = nn.functional.linear(x, linear.weight, linear.bias)[..., at]
        return out

    with block.register_forward_pre_hook(read), linear.register_forward_hook(rewire):
        yield


def _components(model: GPT, layer: int, head: int) -> slice:
    """Where the components of a head are among those of all; ValueError if there is none."""
    n_layers, n_heads, k = (
        len(model.blocks),
        model.config.n_heads,
        model.config.head_width,
    )
    if layer not in range(n_layers):
        raise ValueError(f"{layer=} must be below {n_layers}, and 0 or more")
    if head not in range(n_heads):
        raise ValueError(f"{head=} must be below {n_heads}, and 0 or more")
    return slice(head * k, (head + 1) * k)


# ------------------------------------------------------------------------------------- probes


@dataclass(frozen=True)
class Probe:
    """A linear map from vectors to classes."""

    weight: Float[Tensor, "d _"]
    offset: Float[Tensor, "_"]

    def accuracy(self, x: Float[Tensor, "b d"], labels: Int[Tensor, "b"]) -> float:
        """How often the largest of the outputs is the label's."""
        predicted = (x @ self.weight + self.offset).argmax(-1)
        return (predicted == labels.to(x.device)).float().mean().item()


def fit_probe(
    x: Float[Tensor, "b d"], labels: Int[Tensor, "b"], *, penalty: float = 1e-2
) -> Probe:
    """Ridge regression of the labels' one-hot vectors, in closed form.

    Args:
        penalty: on the squared weights of standardized components, for each vector.

    Raises:
        ValueError: fewer than two vectors, which have no spread.
    """
    if len(x) < 2:
        raise ValueError(f"vectors={len(x)} must be 2 or more")
    mean, std = x.mean(0), x.std(0) + 1e-6
    scaled, targets = (x - mean) / std, nn.functional.one_hot(labels).to(x)
    centre, gram = targets.mean(0), scaled.T @ scaled
    gram.diagonal().add_(penalty * len(x))
    weight = torch.linalg.solve(gram, scaled.T @ (targets - centre)) / std[:, None]
    return Probe(weight, centre - mean @ weight)


# ------------------------------------------ sequences that reward one strategy after another


class RepeatedChains:
    """Sequences of a Markov chain that repeat themselves with a hidden period.

    The first R tokens come from a chain that is the same in all sequences; from then on each
    token is the one R places before, and R is uniform over `periods`. Six strategies, each a
    distribution that can be written down at every position, so that its loss is exact:

        uniform  every token alike           seen     the bigram among the tokens that have come
        unigram  the chain's frequencies     copying  what followed the last token before, here
        bigram   what the last token tells   truth    all that the sequence tells

    Copying is what an induction head can do. It is not the truth, since a token may have come twice
    within a period. From the longest period on all is repeated; up to there nobody knows whether it
    is, and both "seen" and "copying" go by the bigram.

    Args:
        vocab_size: V, kinds of token.
        periods: the possible R, ascending.
        length: S, tokens of a sequence.
        seed: of the chain.
    """

    STRATEGIES = ("uniform", "unigram", "bigram", "seen", "copying", "truth")

    def __init__(
        self,
        vocab_size: int = 32,
        *,
        periods: range = range(8, 25),
        length: int = 48,
        seed: int = 0,
    ) -> None:
        if not (periods and 2 <= periods[0] <= periods[-1] < length):
            raise ValueError(f"{periods=} must be within 2 and {length - 1}")
        generator = torch.Generator().manual_seed(seed)
        uniform = torch.rand(vocab_size, vocab_size, generator=generator).double()
        rank = torch.arange(1.0, vocab_size + 1).double()
        # Few successors are likely, and some tokens are common everywhere.
        chain = (1 / uniform - 1) / rank.sqrt()
        self.chain = chain / chain.sum(1, keepdim=True)
        self.frequencies = torch.linalg.matrix_power(self.chain, 64)[0]
        self.periods, self.length = periods, length
        self.late = slice(periods[-1], length - 1)
        """The positions after which all is repeated, whatever the period."""

    def sample(
        self, n: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "b s"], Int[Tensor, "b"]]:
        """Sequences and their periods."""
        draw = torch.randint(len(self.periods), (n,), generator=generator)
        periods = torch.tensor(list(self.periods))[draw]
        ids = torch.multinomial(self.frequencies, n, True, generator=generator)[:, None]
        for s in range(1, self.length):
            fresh = torch.multinomial(self.chain[ids[:, -1]], 1, generator=generator)
            old = ids.gather(1, (s - periods).clamp_min(0)[:, None])
            ids = torch.cat([ids, torch.where((s < periods)[:, None], fresh, old)], 1)
        return ids, periods

    def predictions(
        self, ids: Int[Tensor, "b s"], strategy: str
    ) -> Float[Tensor, "b s v"]:
        """The probability of each next token, after each prefix, by one of `STRATEGIES`.

        Args:
            ids: as `sample` gives them, on the CPU.
        """
        if strategy not in self.STRATEGIES:
            raise ValueError(f"{strategy=} must be one of {', '.join(self.STRATEGIES)}")
        by_chain = self.chain[ids]
        if strategy == "uniform":
            return torch.full_like(by_chain, 1 / by_chain.shape[-1])
        if strategy == "unigram":
            return self.frequencies.expand_as(by_chain)
        if strategy == "truth":
            return self._mixture_over_periods(ids)
        by_bigram = self._bigram(ids)
        if strategy == "bigram":
            return by_bigram
        is_kind = (ids[..., None] == torch.arange(by_chain.shape[-1])).double()
        if strategy == "seen":
            weights = by_bigram * (is_kind.cumsum(1) > 0)
        else:
            before = nn.functional.pad(ids, (1, -1), value=-1)  # what comes before t
            weights = (ids[:, :, None] == before[:, None]).tril().double() @ is_kind
        is_late = torch.arange(ids.shape[1])[:, None] >= self.periods[-1]
        return torch.where(is_late, weights / weights.sum(-1, keepdim=True), by_bigram)

    def _bigram(self, ids: Int[Tensor, "b s"]) -> Float[Tensor, "b s v"]:
        """P(next | last): the chain's, or that of going from a period's end to its start."""
        parts = []
        for period in self.periods:
            # Bayes: P(first | last of the period), with T^(R-1) from first to last.
            onward = torch.linalg.matrix_power(self.chain, period - 1)
            joint = (self.frequencies[:, None] * onward).T
            back = joint / joint.sum(1, keepdim=True)
            starts = torch.arange(1, ids.shape[1] + 1) % period == 0
            parts.append(torch.where(starts[:, None], back[ids], self.chain[ids]))
        return torch.stack(parts).mean(0)

    def _mixture_over_periods(self, ids: Int[Tensor, "b s"]) -> Float[Tensor, "b s v"]:
        """The truth: each period's prediction, weighted by how well it tells the past."""
        by_chain, size = self.chain[ids], self.chain.shape[0]
        likelihood = torch.ones(len(ids), len(self.periods), dtype=torch.float64)
        mixed, one_hot = [], torch.eye(size, dtype=torch.float64)
        for s in range(ids.shape[1]):
            parts = [
                one_hot[ids[:, s + 1 - r]] if s + 1 >= r else by_chain[:, s]
                for r in self.periods
            ]
            p = torch.stack(parts, 1)  # (b, periods, v)
            posterior = likelihood / likelihood.sum(1, keepdim=True)
            mixed.append((posterior[..., None] * p).sum(1))
            if s + 1 < ids.shape[1]:
                next_id = ids[:, s + 1, None, None].expand(-1, len(parts), 1)
                likelihood = posterior * p.gather(2, next_id)[..., 0]
        return torch.stack(mixed, 1)
