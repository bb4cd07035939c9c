"""Looking inside: what a model predicts, knows and uses, against a language that is known exactly.

The stories have an exact distribution p of the next token (`stories.exact`), so what a model q has
not learned is exact as well, and its parts are:

    KL(p || q) = -log q(what can follow) + sum over the choices met of KL(p || q) at that choice

`ExcessByKind` takes this apart by kind of choice. `streams` and `replaced` read and change the
residual stream, `lens` asks the head about it early, `fit_probe` asks whether something can be read
off it by a linear map, and `without_head` takes a head away. `RepeatedChains` writes sequences on
which the losses of four strategies are exact. Chapter 14.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from decoder_only.attention import attention_weights
from decoder_only.engine.checks import require
from decoder_only.model import GPT
from decoder_only.stories.exact import KINDS, Fork, Settled, probabilities

__all__ = [
    "ExcessByKind",
    "Probe",
    "RepeatedChains",
    "attention_maps",
    "fit_probe",
    "lens",
    "replaced",
    "streams",
    "without_head",
]

# ------------------------------------------------------------------ what is not learned, by kind


class ExcessByKind:
    """KL(p || q) of the next token, split exactly by the kinds of choice that it depends on.

    The next token depends on choices one inside the other: which template, then which name. By the
    chain rule the divergence is the sum of those at each choice, weighted by how often it is met:

        KL = -log q(A) + sum over choices c of sum over alternatives i
                         p_i (log p_i / p_c - log q_i / q_c)

    where p_i and q_i are the mass on the tokens of alternative i, p_c and q_c on those of all of
    them, and A are all tokens that can follow; -log q(A) counts to the outermost choice, or to what
    is said where nothing is open. Alternatives that can begin with the same token are one, and what
    is inside them counts to the choice between them. No part is negative, and all are zero for a
    perfect model.

    Args:
        trees: what can follow each prefix, see `stories.exact.NextToken`.
    """

    def __init__(self, trees: Sequence[Settled | Fork]) -> None:
        self.entropy = torch.zeros(len(trees), len(KINDS), dtype=torch.float64)
        """The same split of the entropy of p, in nats: what every model must be surprised by."""
        self._sets: list[tuple[int, int, float]] = []  # row, kind, weight of log q(set)
        self._members: list[tuple[int, int]] = []  # set, token
        for row, tree in enumerate(trees):
            self._set(row, KINDS.index(tree.kind), -1.0, probabilities(tree))
            self._add(row, tree, 1.0)

    def _add(self, row: int, tree: Settled | Fork, mass: float) -> None:
        """One choice and those inside it; `mass` is the probability of coming to it."""
        if isinstance(tree, Settled):
            return
        kind, groups = KINDS.index(tree.kind), _alternatives(tree)
        self._set(row, kind, mass, probabilities(tree))
        for share, chances, inside in groups:
            if inside is None:  # alternatives that share tokens: no telling them apart
                for token, chance in chances.items():
                    self._leaf(row, kind, mass, share * chance, {token: chance})
            else:
                self._leaf(row, kind, mass, share, chances)
                self._add(row, inside, mass * share)

    def _leaf(
        self, row: int, kind: int, mass: float, share: float, chances: dict[int, float]
    ) -> None:
        self.entropy[row, kind] -= mass * share * math.log(share)
        self._set(row, kind, -mass * share, chances)

    def _set(
        self, row: int, kind: int, weight: float, tokens: dict[int, float]
    ) -> None:
        self._members += [(len(self._sets), token) for token in tokens]
        self._sets.append((row, kind, weight))

    def __call__(self, log_q: Float[Tensor, "s v"]) -> Float[Tensor, "s _"]:
        """The divergence at each prefix, in nats, in a column for each of `KINDS`.

        Args:
            log_q: a model's log-probabilities behind each prefix, a row for each tree.
        """
        shape, wanted = (
            tuple(log_q.shape),
            f"({len(self.entropy)}, V), a row for a tree",
        )
        require("log_q.shape", shape, lambda s: s[0] == len(self.entropy), wanted)
        rows, kinds, weights = torch.tensor(self._sets, dtype=torch.float64).T
        rows, kinds = rows.long(), kinds.long()
        sets, tokens = torch.tensor(self._members).T
        chances = log_q.double()[rows[sets], tokens].exp()
        mass = torch.zeros(len(rows), dtype=torch.float64).index_add(0, sets, chances)
        parts = weights * mass.clamp_min(1e-300).log()
        excess = -self.entropy.flatten()
        excess = excess.index_add(0, rows * len(KINDS) + kinds, parts)
        return excess.view_as(self.entropy)


def _alternatives(
    fork: Fork,
) -> list[tuple[float, dict[int, float], Settled | Fork | None]]:
    """The alternatives of a choice as far as the next token tells them apart.

    Each with its probability, the distribution of its tokens, and the tree inside; None for several
    that share tokens, which are one.
    """
    groups: dict[int, tuple[float, dict[int, float], Settled | Fork | None]] = {}
    owner: dict[int, int] = {}  # the group that a token belongs to
    for number, (share, inside) in enumerate(fork.branches):
        mass = {token: share * p for token, p in probabilities(inside).items()}
        for other in {owner[token] for token in mass if token in owner}:
            before, chances, _ = groups.pop(other)
            for token, p in chances.items():
                mass[token] = mass.get(token, 0.0) + before * p
            share, inside = share + before, None
        groups[number] = share, {token: p / share for token, p in mass.items()}, inside
        owner |= dict.fromkeys(mass, number)
    return list(groups.values())


# ------------------------------------------------------------------ reading and changing a run


@torch.no_grad()
def streams(model: GPT, ids: Int[Tensor, "b s"]) -> Float[Tensor, "_ b s d"]:
    """The residual stream after the embedding and after each block: L + 1 of them."""
    found: list[Tensor] = []
    handles = [
        part.register_forward_hook(lambda part, args, out: found.append(out))
        for part in (model.dropout, *model.blocks)
    ]
    try:
        model.hidden(ids)
    finally:
        for handle in handles:
            handle.remove()
    return torch.stack(found)


@contextmanager
def replaced(
    model: GPT, layer: int, change: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """While it lasts, the residual stream after a layer is what `change` makes of it.

    Args:
        layer: 0 for the embedding, l for block number l of 1 to L, as `streams` counts.
        change: gets the stream (b, s, d) and returns what takes its place.
    """
    n_layers = len(model.blocks)
    require("layer", layer, range(n_layers + 1).__contains__, f"from 0 to {n_layers}")
    part = (model.dropout, *model.blocks)[layer]
    handle = part.register_forward_hook(lambda part, args, out: change(out))
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def lens(model: GPT, stream: Float[Tensor, "*_ d"]) -> Float[Tensor, "*_ v"]:
    """The logit lens: what the head would say if the stream were the last one."""
    table = [model.embedding.weight] if model.config.tied else []
    return model.head(model.final_norm(stream), *table)


@torch.no_grad()
def attention_maps(model: GPT, ids: Int[Tensor, "b s"]) -> Float[Tensor, "b l h s t"]:
    """The attention weights of every head."""
    maps = []
    for block, stream in zip(model.blocks, streams(model, ids), strict=False):
        query, key, _ = block.attention.project(block.attention_norm(stream))
        maps.append(attention_weights(query, key, scale=block.attention.scale))
    return torch.stack(maps, dim=1)


@contextmanager
def without_head(model: GPT, *heads: tuple[int, int]) -> Iterator[None]:
    """While it lasts, these heads, each (layer, head) from 0, hand over their mean instead.

    The mean is over the batch, at each position (mean ablation): what a head does for this text
    in particular is gone, what it does for all of them is not.
    """

    def cut(part: nn.Module, args: tuple[Tensor], own: list[int], k: int) -> tuple:
        gathered = args[0].clone()
        for h in own:
            at = slice(h * k, (h + 1) * k)
            gathered[..., at] = gathered[..., at].mean(0, keepdim=True)
        return (gathered,)

    handles = []
    for layer, block in enumerate(model.blocks):
        attention, own = block.attention, [h for x, h in heads if x == layer]
        handles.append(
            attention.output.register_forward_pre_hook(
                lambda part, args, own=own, k=attention.head_dim: cut(
                    part, args, own, k
                )
            )
        )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


# ------------------------------------------------------------------------------------- probes


@dataclass(frozen=True)
class Probe:
    """A linear map from vectors to classes."""

    weight: Float[Tensor, "d _"]
    offset: Float[Tensor, "_"]

    def accuracy(self, x: Float[Tensor, "b d"], labels: Int[Tensor, "b"]) -> float:
        """How often the largest of the outputs is the label's."""
        found = (x @ self.weight + self.offset).argmax(-1)
        return (found == labels).float().mean().item()


def fit_probe(
    x: Float[Tensor, "b d"], labels: Int[Tensor, "b"], *, penalty: float = 1e-2
) -> Probe:
    """Ridge regression of the labels' one-hot vectors, in closed form.

    Args:
        penalty: on the squared weights of standardized components, for each vector.
    """
    mean, std = x.mean(0), x.std(0) + 1e-6
    scaled, targets = (x - mean) / std, nn.functional.one_hot(labels).float()
    centre = targets.mean(0)
    gram = scaled.T @ scaled + penalty * len(x) * torch.eye(x.shape[1])
    weight = torch.linalg.solve(gram, scaled.T @ (targets - centre)) / std[:, None]
    return Probe(weight, centre - mean @ weight)


# ------------------------------------------ sequences that reward one strategy after another


class RepeatedChains:
    """Sequences of a Markov chain that repeat themselves with a period that nobody tells.

    The first R tokens come from a chain that is the same in all sequences; from then on each token
    is the one R places before, and R is uniform over `periods`. Four strategies:

        uniform  every token alike            bigram   what the last token tells, by the chain
        unigram  the chain's frequencies      copying  all that the sequence tells: the truth

    Each is a distribution that can be written down at every position, so its loss is exact.

    Args:
        vocab_size: V, kinds of token.
        periods: the possible R, ascending.
        length: S, tokens of a sequence.
        seed: of the chain.
    """

    STRATEGIES = ("uniform", "unigram", "bigram", "copying")

    def __init__(
        self,
        vocab_size: int = 48,
        *,
        periods: range = range(16, 29),
        length: int = 64,
        seed: int = 0,
    ) -> None:
        require(
            "periods", periods, lambda r: 2 <= r[0] <= r[-1] < length, "in the length"
        )
        generator = torch.Generator().manual_seed(seed)
        uniform = torch.rand(vocab_size, vocab_size, generator=generator).double()
        rank = torch.arange(1.0, vocab_size + 1).double()
        # Few successors are likely, and some tokens are common everywhere.
        chain = (1 / uniform - 1).pow(1.5) / rank.sqrt()
        self.chain = chain / chain.sum(1, keepdim=True)
        self.frequencies = torch.linalg.matrix_power(self.chain, 64)[0]
        self.periods, self.length = periods, length

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Sequences (n, S) and their periods (n,)."""
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
        """The probability of each next token, behind each prefix, by one of `STRATEGIES`."""
        known = self.STRATEGIES
        require("strategy", strategy, known.__contains__, f"one of {', '.join(known)}")
        size, by_chain = self.chain.shape[0], self.chain[ids]
        if strategy == "uniform":
            return torch.full_like(by_chain, 1 / size)
        if strategy == "unigram":
            return self.frequencies.expand_as(by_chain)
        if strategy == "bigram":
            return by_chain
        # The truth: a mixture over the periods, each weighted by how well it tells the past.
        likelihood = torch.ones(len(ids), len(self.periods), dtype=torch.float64)
        found, one_hot = [], torch.eye(size, dtype=torch.float64)
        for s in range(ids.shape[1]):
            parts = [
                one_hot[ids[:, s + 1 - r]] if s + 1 >= r else by_chain[:, s]
                for r in self.periods
            ]
            each = torch.stack(parts, 1)  # (b, periods, v)
            weight = likelihood / likelihood.sum(1, keepdim=True)
            found.append((weight[..., None] * each).sum(1))
            if s + 1 < ids.shape[1]:
                seen = each.gather(
                    2, ids[:, s + 1, None, None].expand(-1, each.shape[1], 1)
                )
                likelihood = weight * seen[..., 0]
        return torch.stack(found, 1)
