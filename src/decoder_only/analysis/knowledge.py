"""What a model knows, and what it makes up, where every fact and every probability is known.

Facts are drawn by chance and told by Zipf's law, so that some are never told. With p for the truth,
g for what a model says and U for the statements that it never saw, for any partition of all
statements into bins, with p spread evenly over each bin,

    g(false) = g(U) - g(unseen truths) >= p_bins(U) - |p_bins - g| - g(unseen truths)

a model either makes things up or is miscalibrated (Kalai and Vempala, 2024). `FactWorld` writes
such facts and reads a model's distribution off it without sampling, and `made_up` gives each term.
`Biographies` measures how many bits of random facts fit into a model, and `quantized` what
is left of them in fewer bits per weight. Chapter 15.
"""

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from decoder_only.model.gpt import GPT

# ------------------------------------------------------------------------------ worlds of facts

ORDERS = {"forwards": (0, 1, 2), "turned": (1, 0, 2), "backwards": (2, 1, 0)}
"""The templates: in which order they tell the person (0), the attribute (1) and the value (2)."""


def _check_sizes(n_people: int, n_attributes: int, n_values: int) -> None:
    if min(n_people, n_attributes) < 1:
        raise ValueError(f"{n_people=} and {n_attributes=} must be 1 or more")
    if n_values < 2:
        raise ValueError(f"{n_values=} must be 2 or more, or nothing is random")


class FactWorld:
    """People of whom some things are true, and sentences that say so.

    A fact is a pair of a person and an attribute, and its value, one of K that are equally likely.
    The r-th person is spoken of in proportion to r ** -exponent, and all attributes alike. A
    sentence is four tokens: a template, and what it tells in its order; "forwards" is

        <forwards> person attribute value

    Tokens are numbered in this order: templates, people, attributes, values, and last the word
    `unknown`, which can stand in the place of a value.

    Args:
        n_people, n_attributes, n_values: how many of each; K values make log2 K bits a fact.
        exponent: Zipf's; 0 makes all people alike.
        seed: of what is true.

    Attributes:
        answers: shape (people, attributes), the value that is true, from 0.
        chances: the same shape, in float64: how likely a sentence is to tell this fact; sums to 1.

    Source: the setting of Kalai and Vempala (2024), made finite.
    """

    def __init__(
        self,
        n_people: int = 512,
        n_attributes: int = 4,
        n_values: int = 64,
        *,
        exponent: float = 1.0,
        seed: int = 0,
    ) -> None:
        _check_sizes(n_people, n_attributes, n_values)
        if not exponent >= 0:
            raise ValueError(f"{exponent=} must be 0 or above")
        shape = n_people, n_attributes
        generator = torch.Generator().manual_seed(seed)
        self.answers = torch.randint(n_values, shape, generator=generator)
        weights = torch.arange(1, n_people + 1).double() ** -exponent
        self.chances = (weights / weights.sum() / n_attributes)[:, None].expand(shape)
        self.n_values = n_values
        self._starts = (len(ORDERS), len(ORDERS) + n_people, len(ORDERS) + sum(shape))

    @property
    def unknown(self) -> int:
        """The word for "I do not know"."""
        return self._starts[2] + self.n_values

    @property
    def vocab_size(self) -> int:
        return self.unknown + 1

    @property
    def fact_bits(self) -> float:
        """The entropy of all facts together."""
        return self.answers.numel() * math.log2(self.n_values)

    def draw(self, n: int, generator: torch.Generator) -> Int[Tensor, "_"]:
        """Which facts n sentences tell: their numbers, row by row of `answers`."""
        chances = self.chances.flatten()
        return torch.multinomial(chances, n, replacement=True, generator=generator)

    def counts(self, facts: Int[Tensor, "_"]) -> Int[Tensor, "_ _"]:
        """How often each fact occurs, in the shape of `answers`."""
        counts = torch.bincount(facts, minlength=self.answers.numel())
        return counts.view(self.answers.shape)

    def sentences(
        self, facts: Int[Tensor, "_"], order: str = "forwards"
    ) -> Int[Tensor, "_ s"]:
        """Sentences that tell these facts, in the order of a template."""
        if order not in ORDERS:
            raise ValueError(f"{order=} must be one of {', '.join(ORDERS)}")
        people, attributes, values = self._starts
        n_attributes = self.answers.shape[1]
        words = (
            people + facts // n_attributes,
            attributes + facts % n_attributes,
            values + self.answers.flatten()[facts],
        )
        template = torch.full_like(facts, [*ORDERS].index(order))
        return torch.stack([template, *(words[i] for i in ORDERS[order])], dim=1)

    @torch.no_grad()
    def ask(
        self,
        model: GPT,
        order: str = "forwards",
        *,
        facts: Int[Tensor, "_"] | None = None,
    ) -> Float[Tensor, "_ v"]:
        """Log-probabilities of the last word of these sentences; of all by default.

        Returns:
            Shape (sentences, V), in float64, on the CPU, wherever the model is.
        """
        facts = torch.arange(self.answers.numel()) if facts is None else facts
        prompts = self.sentences(facts, order)[:, :-1]
        logits = model(_beside(model, prompts), last_only=True)[:, 0]
        return logits.cpu().double().log_softmax(-1)

    @torch.no_grad()
    def says(self, model: GPT, temperature: float = 1.0) -> Float[Tensor, "_ _ _"]:
        """The probability of every sentence that the model can say after "forwards", exactly.

        Args:
            temperature: of the model's sampling, above 0.

        Returns:
            Shape (people, attributes, values + 1), in float64, on the CPU; the last column says
            that it does not know. What is missing to a sum of one is no sentence.
        """
        if not temperature > 0:
            raise ValueError(f"{temperature=} must be above 0")
        prompts = self.sentences(torch.arange(self.answers.numel()))[:, :-1]
        logits = model(_beside(model, prompts)).cpu()
        q = (logits.double() / temperature).softmax(-1)
        people, attributes, values = self._starts
        (n_people, n_attributes), every = self.answers.shape, torch.arange(len(prompts))
        person = q[every, 0, people + every // n_attributes]
        attribute = q[every, 1, attributes + every % n_attributes]
        g = (person * attribute)[:, None] * q[:, 2, values:]
        return g.view(n_people, n_attributes, self.n_values + 1)

    def outcomes(
        self, g: Float[Tensor, "_ _ _"]
    ) -> tuple[Float[Tensor, "_"], Bool[Tensor, "_"], Float[Tensor, "_"]]:
        """All sentences in one row, and last, as one outcome, whatever is no sentence.

        Args:
            g: as `says` gives it.

        Returns:
            The truth p, which of the outcomes are true, and g; p and g sum to one.
        """
        shape = (*self.answers.shape, self.n_values + 1)
        if g.shape != shape:
            raise ValueError(f"g.shape={tuple(g.shape)} must be {shape}, as of `says`")
        true = torch.zeros(shape, dtype=torch.bool)
        true.scatter_(2, self.answers[..., None], True)
        p = torch.zeros(shape, dtype=torch.float64)
        p[true] = self.chances.flatten()
        rest = (1 - g.sum()).clamp_min(0)[None]
        p, true = F.pad(p.flatten(), (0, 1)), F.pad(true.flatten(), (0, 1))
        return p, true, torch.cat([g.flatten(), rest])


class Biographies:
    """People with two names and some attributes, all of it random, for measuring capacity.

    A biography is the two names and the values of all attributes in a fixed order. No name tells
    anything about a value, nor one value about another, so that whatever a model knows of the
    values it has stored.

    Args:
        n_people, n_attributes, n_values: how many of each; K values make log2 K bits a fact.
        seed: of names and values.

    Attributes:
        ids: shape (people, 2 + attributes), a biography in each row.

    Source: Allen-Zhu and Li (2025), whose biographies are sentences.
    """

    def __init__(
        self, n_people: int, n_attributes: int = 4, n_values: int = 64, *, seed: int = 0
    ) -> None:
        _check_sizes(n_people, n_attributes, n_values)
        self.n_values, self.n_names = n_values, math.isqrt(n_people - 1) + 1
        generator = torch.Generator().manual_seed(seed)
        pairs = torch.randperm(self.n_names**2, generator=generator)[:n_people]
        first, last = pairs // self.n_names, self.n_names + pairs % self.n_names
        values = torch.randint(n_values, (n_people, n_attributes), generator=generator)
        values = values + 2 * self.n_names
        self.ids = torch.cat([first[:, None], last[:, None], values], dim=1)

    @property
    def vocab_size(self) -> int:
        return 2 * self.n_names + self.n_values

    @property
    def fact_bits(self) -> float:
        """The entropy of all values together."""
        return self.ids[:, 2:].numel() * math.log2(self.n_values)

    @torch.no_grad()
    def bits_known(self, model: GPT) -> float:
        """How many bits fewer it takes to tell all values to somebody who has the model.

            sum over facts of log2 K + log2 q(value)

        In expectation over worlds this is at most the information that the weights hold about the
        facts. A model that is sure of what is false knows less than nothing.
        """
        log_q = []
        for rows in _beside(model, self.ids).split(4096):
            of_all_tokens = model(rows[:, :-1]).log_softmax(-1)
            log_q.append(of_all_tokens.gather(2, rows[:, 1:, None])[:, 1:])
        nats = torch.cat(log_q).cpu().double().sum().item()
        return self.fact_bits + nats / math.log(2)


def _beside(model: GPT, ids: Tensor) -> Tensor:
    return ids.to(model.embedding.weight.device)


# ------------------------------------------------------------------------- what was never told


def missing_mass(chances: Float[Tensor, "*_"], counts: Int[Tensor, "*_"]) -> float:
    """The probability that the next sentence tells a fact that was never told before."""
    return chances[counts == 0].sum().item()


def good_turing(counts: Int[Tensor, "*_"]) -> float:
    """The estimate of the missing mass from counts alone: the fraction of facts told once.

    Source: Good (1953).
    """
    n_sentences = int(counts.sum())
    if n_sentences < 1:
        raise ValueError(f"the number of sentences={n_sentences} must be 1 or more")
    return int((counts == 1).sum()) / n_sentences


# -------------------------------------------------------------------------------- calibration


def _bins(g: Float[Tensor, "_"], ratio: float) -> Int[Tensor, "_"]:
    if not ratio > 1:
        raise ValueError(f"{ratio=} must be above 1")
    steps = (g.clamp_min(1e-300).log() / math.log(ratio)).floor().long()
    return steps.unique(return_inverse=True)[1]


def reliability(
    g: Float[Tensor, "_"], p: Float[Tensor, "_"], *, ratio: float = 2.0
) -> tuple[Float[Tensor, "_"], Float[Tensor, "_"], Int[Tensor, "_"]]:
    """The mass that a model gives, and the true mass, of things that it finds equally likely.

    Args:
        g: the model's probability of each thing, not negative.
        p: the true probability of each.
        ratio: from one edge of a bin of g to the next.

    Returns:
        For each bin, from the least likely on: the sum of g, the sum of p, and how many there are.
    """
    bins = _bins(g, ratio)
    empty = torch.zeros(int(bins.max()) + 1, dtype=torch.float64)
    sums = (empty.index_add(0, bins, each.double()) for each in (g, p))
    return *sums, torch.bincount(bins)


def coarsened(
    p: Float[Tensor, "_"], g: Float[Tensor, "_"], *, ratio: float = 1.25
) -> Float[Tensor, "_"]:
    """The truth, averaged over things that the model finds equally likely.

    The mass of p in each bin of `reliability` is spread evenly over the things in it.
    """
    _, mass, sizes = reliability(g, p, ratio=ratio)
    return (mass / sizes)[_bins(g, ratio)]


def total_variation(p: Float[Tensor, "_"], g: Float[Tensor, "_"]) -> float:
    """The most by which two distributions can differ about anything: half the sum of |p - g|."""
    return (p - g).abs().sum().item() / 2


# ------------------------------------------------------------------------------ what is made up


@dataclass(frozen=True)
class MadeUp:
    """What a model makes up, and the terms of the bound on it; all exact.

    Attributes:
        false: the probability that it says something that is not true, or no sentence at all.
        nonsense: of these, no sentence.
        unknown: the probability that it says that it does not know.
        missing: the missing mass, p(U) for the statements U that it never saw.
        single: what Good and Turing estimate for it.
        unseen: p(U) as `coarsened` has it: what a calibrated model would say of U.
        lucky: the probability that it says something true that it never saw.
        miscalibration: the distance between g and the coarsened truth.
        ratio: of the bins.
    """

    false: float
    nonsense: float
    unknown: float
    missing: float
    single: float
    unseen: float
    lucky: float
    miscalibration: float
    ratio: float

    @property
    def bound(self) -> float:
        """What `false` cannot fall below."""
        return self.unseen - self.miscalibration - self.lucky - self.unknown


def made_up(
    world: FactWorld,
    g: Float[Tensor, "_ _ _"],
    counts: Int[Tensor, "_ _"],
    *,
    ratio: float = 1.25,
) -> MadeUp:
    """Everything about what a model makes up, from its distribution and its training text.

    Args:
        g: from `FactWorld.says`.
        counts: how often the training text told each fact.
        ratio: of the bins in which miscalibration is measured.

    Source: Kalai and Vempala (2024), whose bound holds with high probability over worlds; with all
        terms known, this one holds always.
    """
    p, is_true, g_all = world.outcomes(g)
    seen = torch.zeros_like(is_true)
    seen[is_true] = counts.flatten() > 0
    coarse = coarsened(p, g_all, ratio=ratio)
    unknown = g[..., -1].sum().item()
    return MadeUp(
        false=g_all[~is_true].sum().item() - unknown,
        nonsense=g_all[-1].item(),
        unknown=unknown,
        missing=missing_mass(world.chances, counts),
        single=good_turing(counts),
        unseen=coarse[~seen].sum().item(),
        lucky=g_all[is_true & ~seen].sum().item(),
        miscalibration=total_variation(coarse, g_all),
        ratio=ratio,
    )


@dataclass(frozen=True)
class Validity:
    """A model as a judge of what is valid, and the bound on its errors that follows.

    Attributes:
        error: g(E), the probability that it says something invalid.
        misclassified: how often "valid, since g(x) > 1 / |E|" is wrong, where half of the x are
            drawn from p, and half evenly from what is invalid, E.
        sparsity: |V| / |E|, valid statements for each invalid one.
        offset: |g(A) - p(A)| for the statements A that it calls valid.
    """

    error: float
    misclassified: float
    sparsity: float
    offset: float

    @property
    def bound(self) -> float:
        """What `error` cannot fall below."""
        return 2 * self.misclassified - self.sparsity - self.offset


def is_it_valid(
    g: Float[Tensor, "_"], p: Float[Tensor, "_"], valid: Bool[Tensor, "_"]
) -> Validity:
    """Judge statements by a model's own probabilities, and bound its errors by the judge's.

    Args:
        g: the model's probability of every statement; sums to 1.
        p: the true probability of each, 0 for invalid ones.
        valid: which statements are valid.

    Source: Kalai, Nachum, Vempala and Zhang (2025), corollary 1.
    """
    n_invalid, p_invalid = int((~valid).sum()), p[~valid].sum().item()
    if n_invalid < 1:
        raise ValueError(f"the number of invalid statements={n_invalid} must not be 0")
    if p_invalid != 0:
        raise ValueError(f"{p_invalid=} must be 0: what is true is valid")
    called = g > 1 / n_invalid
    missed, passed = p[~called].sum(), (called & ~valid).sum() / n_invalid
    return Validity(
        error=g[~valid].sum().item(),
        misclassified=((missed + passed) / 2).item(),
        sparsity=int(valid.sum()) / n_invalid,
        offset=(g[called].sum() - p[called].sum()).abs().item(),
    )


# ---------------------------------------------------------------------------- fewer bits a weight


@torch.no_grad()
def quantized(model: GPT, n_bits: int) -> GPT:
    """A copy of the model whose tables and matrices have 2^n - 1 values in each row.

    Each row is divided by its largest entry's size over 2^(n-1) - 1, rounded to whole numbers, and
    multiplied back: rounding to nearest, symmetric, without calibration data. Vectors stay.

    Args:
        n_bits: n, from 2 to 16.
    """
    if n_bits not in range(2, 17):
        raise ValueError(f"{n_bits=} must be from 2 to 16")
    rounded, most = copy.deepcopy(model), 2 ** (n_bits - 1) - 1
    for parameter in rounded.parameters():
        if parameter.ndim == 2:
            exact = parameter.to(torch.promote_types(parameter.dtype, torch.float32))
            scale = exact.abs().amax(1, keepdim=True).clamp_min(1e-12) / most
            parameter.copy_((exact / scale).round() * scale)
    return rounded
