"""Fine-tuning: a pretrained model, put to use.

A model q has learned what texts are like. To change what it does, four questions are asked:

    what is read off it   a linear map of the last token's vector, instead of the head
    which weights move    all, or a low-rank addition:  W x + (alpha / r) up down x     (LoRA)
    what is imitated      answers alone:  -sum over an answer's tokens of log q(token | before)
    what is rewarded      the largest  E_q[r] - beta KL(q || p),  which is  q = p exp(r / beta) / Z

p is the model as it was. The last line has two roads to its solution: by drawing answers and
judging them (policy gradient), or by comparing pairs of answers (direct preference optimization).
Where all answers can be listed, the solution is known exactly, and so is the distance to it.
Chapter 12.
"""

import math
from collections.abc import Collection, Sequence
from copy import deepcopy
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import IGNORED

LINEAR = ("query", "key", "value", "output", "up", "down")
"""The names of the linear maps of a block; a gated MLP has "gate" as well."""


def _check_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name}={value} must be {least} or more")


# ------------------------------------------------------------------------ what is read off it


class Classifier(nn.Module):
    """A linear map of what a decoder makes of the last token of a text, to one logit a class.

    The last token is the only one that has seen all others. The map starts at zero, so that at
    first all classes are alike.

    Args:
        model: the decoder; it is used, not copied.
        n_classes: number of classes, 2 or more.

    Raises:
        ValueError: fewer than two classes.

    Source: Radford et al. (2018), section 3.2; there a special token ends each text.
    """

    def __init__(self, model: GPT, n_classes: int) -> None:
        _check_at_least("n_classes", n_classes, 2)
        super().__init__()
        self.model = model
        weight = model.embedding.weight
        settings = {"device": weight.device, "dtype": weight.dtype}
        self.classes = nn.Linear(model.config.d_model, n_classes, **settings)
        nn.init.zeros_(self.classes.weight)
        nn.init.zeros_(self.classes.bias)

    def forward(
        self, ids: Int[Tensor, "b s"], lengths: Int[Tensor, "b"]
    ) -> Float[Tensor, "b _"]:
        """Logits of the classes.

        Args:
            ids: texts, filled up at their ends with any token: no position sees what follows it.
            lengths: tokens of each text without what fills it up, 1 or more, which is looked at
                where nothing has to wait for that: on the CPU.
        """
        return self.classes(self.features(ids, lengths))

    def features(
        self, ids: Int[Tensor, "b s"], lengths: Int[Tensor, "b"]
    ) -> Float[Tensor, "b d"]:
        """What the map reads: the vector of each text's last token, after the last norm."""
        if lengths.is_cpu and not torch.compiler.is_compiling():
            for length in (int(lengths.min()), int(lengths.max())):
                if length not in range(1, ids.shape[1] + 1):
                    raise ValueError(
                        f"lengths={length} must be from 1 to {ids.shape[1]}"
                    )
        rows = torch.arange(len(ids), device=ids.device)
        return self.model.hidden(ids)[rows, lengths - 1]


# ------------------------------------------------------------------------- which weights move


class LoRA(nn.Module):
    """A linear map that is left as it is, and a product of two thin matrices added to it.

        y = W x + b + (alpha / r) up (down x)        down: (r, in),  up: (out, r)

    `up` starts at zero, so that at first nothing is changed. W and b get no gradient.

    Args:
        linear: the map that is left as it is.
        rank: r, from 1 to the shorter side of W; there the sum can be any matrix.
        alpha: how strongly the product counts, divided by the rank.
        generator: source of the initial `down`; torch's global one by default.

    Raises:
        ValueError: a rank that cannot work.

    Source: Hu et al. (2021), section 4.1.
    """

    def __init__(
        self,
        linear: nn.Linear,
        *,
        rank: int,
        alpha: float = 8.0,
        generator: torch.Generator | None = None,
    ) -> None:
        n_out, n_in = linear.weight.shape
        _check_rank(rank, linear)
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.scale = alpha / rank
        place = None if generator is None else generator.device
        down = torch.randn(rank, n_in, generator=generator, device=place)
        down = down / math.sqrt(n_in)
        self.down = nn.Parameter(down.to(linear.weight))
        self.up = nn.Parameter(linear.weight.new_zeros(n_out, rank))

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b f"]:
        """The map and what is added to it."""
        return self.linear(x) + self.scale * F.linear(F.linear(x, self.down), self.up)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A new map with the product added into its matrix, which costs nothing when it is used."""
        merged = deepcopy(self.linear).requires_grad_(True)
        merged.weight += self.scale * self.up @ self.down
        return merged


def _check_rank(rank: int, *linears: nn.Linear) -> None:
    largest = min(min(linear.weight.shape) for linear in linears)
    if rank not in range(1, largest + 1):
        raise ValueError(f"{rank=} must be from 1 to {largest}")


def add_lora(
    model: GPT,
    *,
    rank: int,
    alpha: float = 8.0,
    targets: Collection[str] = LINEAR,
    generator: torch.Generator | None = None,
) -> list[nn.Parameter]:
    """Freeze a model in place, and give linear maps of its blocks a low-rank addition.

    Args:
        model: changed in place; only the returned parameters require a gradient from then on.
        rank, alpha, generator: see `LoRA`.
        targets: which linear maps of a block, by their names.

    Returns:
        The parameters that training moves.

    Raises:
        ValueError: no map has such a name, or it has an addition already, or the rank is too
            large; the model is then as it was.
    """
    maps = [
        (parent, name, part)
        for parent in model.blocks.modules()
        for name, part in parent.named_children()
        if isinstance(part, nn.Linear) and not isinstance(parent, LoRA)
    ]
    free = {name for _, name, _ in maps}
    if not targets or not {*targets} <= free:
        names = f"{', '.join(sorted(free))}, which have no addition yet"
        raise ValueError(f"targets={tuple(targets)} must be some of {names}")
    chosen = [each for each in maps if each[1] in targets]
    _check_rank(rank, *(part for _, _, part in chosen))
    model.requires_grad_(False)
    for parent, name, part in chosen:
        added = LoRA(part, rank=rank, alpha=alpha, generator=generator)
        setattr(parent, name, added)
    return [p for p in model.parameters() if p.requires_grad]


def merge_lora(model: nn.Module) -> None:
    """Add every low-rank product into its matrix: the model has its old parts and names again.

    All of it requires a gradient from then on, also what was frozen before `add_lora`.
    """
    for parent in list(model.modules()):
        for name, part in list(parent.named_children()):
            if isinstance(part, LoRA):
                setattr(parent, name, part.merged())
    model.requires_grad_(True)


# ------------------------------------------------------------------------- what is imitated


def answer_rows(
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    *,
    pad_id: int = 0,
) -> tuple[Int[Tensor, "b s"], Int[Tensor, "b s"]]:
    """Inputs and targets that ask for the answers, each after its prompt, and for nothing else.

    Args:
        prompts: ids, one at least in each.
        answers: as many; each with its end-of-text token, if the model is to learn to stop.
        pad_id: fills up short rows.

    Returns:
        Both (b, s), the targets `IGNORED` wherever what follows is no token of an answer.

    Raises:
        ValueError: they are not equally many, there are none, or one is empty.
    """
    n = len(prompts)
    if not n == len(answers) > 0:
        raise ValueError(f"number of prompts={n} must be that of answers, 1 or more")
    _check_at_least("shortest", min(map(len, [*prompts, *answers])), 1)
    pairs = list(zip(prompts, answers, strict=True))
    size = max(len(prompt) + len(answer) for prompt, answer in pairs)
    rows = torch.full((len(pairs), size), pad_id, dtype=torch.long)
    asked = torch.zeros(len(pairs), size, dtype=torch.bool)
    for row, (prompt, answer) in enumerate(pairs):
        begin, end = len(prompt), len(prompt) + len(answer)
        rows[row, :end] = torch.tensor([*prompt, *answer])
        asked[row, begin:end] = True
    return rows[:, :-1], rows[:, 1:].masked_fill(~asked[:, 1:], IGNORED)


# -------------------------------------------------------------------------- what is rewarded


class AnswerTree:
    """A list of allowed answers, over which a model's distribution is exact.

    Each token of an answer is drawn among those with which some answer goes on; all others have
    probability zero, as with `generate(restrict=...)`. So the answers' probabilities sum to one.

    Args:
        answers: ids of each; none may be the beginning of another.

    Raises:
        ValueError: fewer than two answers, or one begins another.
    """

    def __init__(self, answers: Sequence[Sequence[int]]) -> None:
        self.answers = [tuple(answer) for answer in answers]
        ordered = sorted(self.answers)
        _check_at_least("number of answers", len(ordered), 2)
        for one, other in pairwise(ordered):
            if other[: len(one)] == one:
                raise ValueError(f"an answer={one} must be no beginning of {other}")
        after: dict[tuple[int, ...], set[int]] = {}
        for answer in self.answers:
            for size, token in enumerate(answer):
                after.setdefault(answer[:size], set()).add(token)
        tokens = sorted(set().union(*after.values()))
        place = {token: i for i, token in enumerate(tokens)}
        longest = max(map(len, self.answers))
        # An answer is read without its last token; those that begin alike are read once.
        self.beginnings = list(dict.fromkeys(answer[:-1] for answer in self.answers))
        self.read_at = [self.beginnings.index(answer[:-1]) for answer in self.answers]
        # What may follow, and what does, at each step of each answer, among the tokens in use.
        self.tokens = torch.tensor(tokens)
        shape = len(self.answers), longest
        self.allowed = torch.zeros(*shape, len(tokens), dtype=torch.bool)
        self.allowed[..., 0] = True  # after an answer: one token, of probability one
        self.taken = torch.zeros(shape, dtype=torch.long)
        for row, answer in enumerate(self.answers):
            for size, token in enumerate(answer):
                following = after[answer[:size]]
                self.allowed[row, size] = torch.tensor([t in following for t in tokens])
                self.taken[row, size] = place[token]

    def log_probs(
        self, model: GPT, prompts: Sequence[Sequence[int]]
    ) -> Float[Tensor, "b _"]:
        """The log-probability of every answer after every prompt; each row's exp sums to one.

        Args:
            model: a `GPT`; what is returned is where it is.
            prompts: ids, one at least in each.

        Raises:
            ValueError: there are no prompts, or one is empty.
        """
        longest, shortest = self.taken.shape[1], min(map(len, prompts), default=0)
        place = model.embedding.weight.device
        _check_at_least("shortest prompt", shortest, 1)
        pairs = [(p, beginning) for p in prompts for beginning in self.beginnings]
        size = max(map(len, prompts)) + longest - 1
        ids = torch.zeros(len(pairs), size, dtype=torch.long)
        for row, (prompt, beginning) in enumerate(pairs):
            text = torch.tensor([*prompt, *beginning])
            ids[row, : len(text)] = text
        first = torch.tensor([len(prompt) - 1 for prompt, _ in pairs])
        rows, at = torch.arange(len(pairs))[:, None], torch.arange(longest)
        x = model.hidden(ids.to(place))[rows, first[:, None] + at]
        # The head is asked for the tokens in use alone.
        logits = model.head(x, model.head_weight[self.tokens])
        logits = logits.unflatten(0, (len(prompts), -1))[:, self.read_at]
        allowed, taken = self.allowed.to(place), self.taken.to(place)
        logits = logits.masked_fill(~allowed, -math.inf).log_softmax(-1)
        taken = taken.expand(len(prompts), -1, -1)[..., None]
        return logits.gather(-1, taken)[..., 0].sum(-1)


def optimal_policy(
    reference: Float[Tensor, "b _"], rewards: Float[Tensor, "b _"], *, beta: float
) -> Float[Tensor, "b _"]:
    """The log of the q that maximizes E_q[r] - beta KL(q || p) over all distributions.

        q = p exp(r / beta) / Z

    Args:
        reference: log p of every answer that there is.
        rewards: r of each.
        beta: what a nat of distance from the reference costs, above 0.

    Source: Rafailov et al. (2023), equation 4, where the older sources are named.
    """
    if not beta > 0:
        raise ValueError(f"{beta=} must be above 0")
    return (reference + rewards / beta).log_softmax(-1)


def dpo_loss(
    chosen: Float[Tensor, "b"],
    rejected: Float[Tensor, "b"],
    reference_chosen: Float[Tensor, "b"],
    reference_rejected: Float[Tensor, "b"],
    *,
    beta: float,
) -> Float[Tensor, ""]:
    """Direct preference optimization: log-odds of a preference from two log-ratios.

        -log sigmoid(beta (log q(y+) / p(y+) - log q(y-) / p(y-)))

    Args:
        chosen, rejected: log q of the answer that was preferred, and of the other.
        reference_chosen, reference_rejected: log p of the same, without gradients.
        beta: see `optimal_policy`.

    Source: Rafailov et al. (2023), equation 7.
    """
    if not beta > 0:
        raise ValueError(f"{beta=} must be above 0")
    margin = (chosen - reference_chosen) - (rejected - reference_rejected)
    return -F.logsigmoid(beta * margin).mean()


def grpo_loss(
    log_probs: Float[Tensor, "b _"],
    reference: Float[Tensor, "b _"],
    rewards: Float[Tensor, "b _"],
    *,
    beta: float,
    penalty: str = "loss",
    divide: bool = True,
) -> Float[Tensor, ""]:
    """A policy gradient whose baseline is the mean reward of a group of answers to one prompt.

        advantage = (r - mean of the group) / std of the group
        loss = -mean(advantage log q)  +  beta mean(p / q - log(p / q) - 1)

    For answers that the present model has just drawn, where the ratio to the model that drew them
    is one and clips nothing. An answer counts as one action, by its whole log-probability.

    Args:
        log_probs: log q of the answers, a row for each prompt and two columns at least.
        reference: log p of them, without gradients.
        rewards: r of them.
        beta: see `optimal_policy`.
        penalty: "loss" adds the estimate of KL(q || p) above, which is never negative, to the
            loss, as GRPO does. "reward" takes beta log(q / p) off the reward instead: without
            `divide`, the mean gradient over groups of n is then 1 - 1 / n of that of
            E_q[r] - beta KL(q || p), since the baseline holds the answer's own reward.
        divide: by the standard deviation of the group's rewards, which weights groups unevenly.

    Raises:
        ValueError: a setting that cannot work, or groups of one.

    Source: Shao et al. (2024), section 4.1; without the division Liu et al. (2025).
    """
    if not beta >= 0:
        raise ValueError(f"{beta=} must be 0 or more")
    if penalty not in ("loss", "reward"):
        raise ValueError(f"{penalty=} must be 'loss' or 'reward'")
    _check_at_least("group", log_probs.shape[1], 2)
    gap = log_probs - reference
    if penalty == "reward":
        rewards = rewards - beta * gap.detach()
    advantages = rewards - rewards.mean(dim=1, keepdim=True)
    if divide:
        advantages = advantages / (rewards.std(dim=1, keepdim=True) + 1e-6)
    loss = -(advantages * log_probs).mean()
    if penalty == "loss" and beta:  # 0 times an overflow would be NaN
        loss = loss + beta * (torch.exp(-gap) + gap - 1).mean()
    return loss
