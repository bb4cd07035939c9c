"""How weights follow gradients: which are decayed, by which rule they move, and how far.

AdamW keeps two running means for every weight, of its gradient g and of the gradient's square:

    m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g²
    w = w - lr (m̂ / (sqrt(v̂) + eps) + decay w)

where the hats undo the bias towards the zeros that both means begin with. Muon looks at a matrix
as a whole: it keeps the first mean only, and moves along the nearest matrix that stretches all
directions equally,

    M = momentum M + (1 - momentum) G    W = W - lr (0.2 sqrt(max(rows, columns)) U V^T + decay W)

with M = U S V^T. The learning rate lr is a peak times a share that depends on the step. Chapter 9.
"""

import math
from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from decoder_only.base import hardware
from decoder_only.model.embeddings import LearnedPositions, TokenEmbedding
from decoder_only.model.lm_head import LMHead
from decoder_only.training.processes import (
    ALONE,
    Process,
    all_gather,
    all_to_all,
    is_sharded,
    local_tensor,
)

__all__ = [
    "SCHEDULES",
    "Muon",
    "build_optimizers",
    "cosine",
    "inverse_square_root",
    "orthogonalize",
    "parameter_groups",
    "set_learning_rate",
    "warmup_stable_decay",
]


TABLES = (TokenEmbedding, LearnedPositions, LMHead, nn.Embedding)
"""Modules whose matrix is a table, with a row per token or position."""


def parameter_groups(
    model: nn.Module, *, weight_decay: float
) -> list[dict[str, object]]:
    """A model's parameters in two groups: the matrices, which decay, and the others.

    Matrices decay towards zero. Norms and biases do not, because there is no
    reason why a scale should be near 0 rather than near 1; tables with a row per token or
    position do not either, because a rare token's row would fade between its few gradients. A
    head, tied or not, is such a table.

    Args:
        model: its parameters that require a gradient are divided, each in one group.
        weight_decay: of the first group; 0 in the second.

    Source: Loshchilov & Hutter (2019) for the decay; Brown et al. (2020) for its value, 0.1.
    """
    tables = {
        parameter
        for module in model.modules()
        if isinstance(module, TABLES)
        for parameter in module.parameters(recurse=False)
    }
    matrices, others = [], []
    for parameter in model.parameters():
        if parameter.requires_grad:
            is_matrix = parameter.ndim == 2 and parameter not in tables
            (matrices if is_matrix else others).append(parameter)
    return [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]


def build_optimizers(
    model: nn.Module,
    *,
    optimizer: str = "adamw",
    learning_rate: float,
    table_learning_rate: float | None = None,
    weight_decay: float = 0.1,
    beta1: float = 0.9,
    beta2: float = 0.95,
    momentum: float = 0.95,
    width_ratio: float = 1.0,
    compile: bool = False,
    process: Process = ALONE,
) -> list[torch.optim.Optimizer]:
    """What moves a model's weights: AdamW for all, or Muon for matrices and AdamW for the rest.

    Call it after the model has been moved to its device. AdamW runs as one fused kernel. Both
    optimizers step as far for the same learning rate, so one may do; chapter 9's small models
    learned best with tables four to eight times as fast as matrices.

    Args:
        optimizer: "adamw" or "muon".
        learning_rate: the peak, which `set_learning_rate` takes shares of.
        table_learning_rate: the peak for tables, norms and biases, which AdamW moves in any case;
            None for the same.
        weight_decay: of the matrices.
        beta1, beta2: memory of AdamW's two means.
        momentum: memory of Muon's mean.
        width_ratio: under muP, how many times as wide the model is as the one that the rate was
            found for. What a matrix's step adds to its output is a sum over D inputs, so with
            AdamW its rate falls as 1 / D; with Muon, whose steps stretch no direction more than
            another, as 1 / sqrt(D). What decays per step stays the same.
        compile, process: see `Muon`.

    Raises:
        ValueError: for another optimizer, or a model of which nothing may move.

    Source: Loshchilov & Hutter (2019) for AdamW, betas from Brown et al. (2020); for the division
    of labour Jordan et al. (2024); for the width Yang et al. (2022), table 8.
    """
    if optimizer not in ("adamw", "muon"):
        raise ValueError(
            f"optimizer={optimizer!r} is unknown; choose 'adamw' or 'muon'"
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("no parameter of the model requires a gradient")
    slower = math.sqrt(width_ratio) if optimizer == "muon" else width_ratio
    matrices, others = parameter_groups(model, weight_decay=weight_decay * slower)
    matrices["initial_lr"] = matrices["lr"] = learning_rate / slower
    others["initial_lr"] = others["lr"] = table_learning_rate or learning_rate
    by_muon = [matrices] if optimizer == "muon" and matrices["params"] else []
    by_adamw = [others] if by_muon else [matrices, others]
    by_adamw = [group for group in by_adamw if group["params"]]
    optimizers: list[torch.optim.Optimizer] = []
    if by_adamw:
        optimizers.append(
            torch.optim.AdamW(
                by_adamw, lr=learning_rate, betas=(beta1, beta2), fused=True
            )
        )
    if by_muon:
        settings = {"momentum": momentum, "compile": compile, "process": process}
        optimizers.append(Muon(by_muon, learning_rate=learning_rate, **settings))
    return optimizers


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalized: every direction of a matrix moves equally far.

    A gradient's few strong directions drown its weak ones, which may matter as much to rare
    tokens. Setting all singular values to one lets both move. Matrices of one shape are stacked
    and handled together, which is several times faster than one by one.

    The factor 0.2 sqrt(max(rows, columns)) gives steps of the size that AdamW's have, so that
    learning rate and decay carry over.

    Args:
        params: matrices, or groups of them.
        learning_rate: lr.
        momentum: memory of the mean; the step looks ahead along it (Nesterov).
        weight_decay: pull towards zero, per unit of learning rate.
        n_iterations: of `orthogonalize`.
        compile: run `orthogonalize` through torch.compile.
        process: of several processes each orthogonalizes its share of the matrices, and an
            all-gather gives the results to all, or an all-to-all where matrices are sharded.
            Gradients must be averaged, or sharded, before.

    Attributes:
        found_inf: None, or a tensor that holds 1 where the gradients are not finite: the step
            then changes nothing, without waiting for a GPU to say so. AdamW has the same.

    Raises:
        ValueError: for a parameter that is not a matrix.

    Source: Jordan et al. (2024); the size of the step and the decay, Liu et al. (2025).
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, object]],
        *,
        learning_rate: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        n_iterations: int = 5,
        compile: bool = False,
        process: Process = ALONE,
    ) -> None:
        memory = {"momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, {"lr": learning_rate, **memory})
        self.n_iterations = n_iterations
        self.found_inf: Tensor | None = None
        self.process = process
        self._orthogonalize = (
            hardware.compiled(orthogonalize) if compile else orthogonalize
        )
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(
                        f"Muon moves matrices, not a parameter of shape "
                        f"{tuple(parameter.shape)}; give that one to AdamW"
                    )

    @torch.no_grad()
    def step(self) -> None:
        """Move every matrix once, along its gradient's mean."""
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            for shape in dict.fromkeys(p.shape for p in moving):
                self._move([p for p in moving if p.shape == shape], group)

    def _move(self, matrices: list[Tensor], group: dict[str, object]) -> None:
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum"] = torch.zeros_like(matrix)
        means = [local_tensor(self.state[matrix]["momentum"]) for matrix in matrices]
        gradients = [local_tensor(matrix.grad) for matrix in matrices]
        rate, forget = group["lr"], 1 - group["momentum"]
        if self.found_inf is not None:
            finite = 1 - self.found_inf
            rate, forget = rate * finite, forget * finite
            for gradient in gradients:
                gradient.masked_fill_(self.found_inf.bool(), 0.0)
        changes = torch._foreach_sub(gradients, means)
        torch._foreach_mul_(changes, forget)
        torch._foreach_add_(means, changes)
        ahead = torch._foreach_lerp(gradients, means, group["momentum"])
        step = self._directions(ahead, matrices)
        torch._foreach_mul_(step, rate * 0.2 * math.sqrt(max(matrices[0].shape)))
        shards = [local_tensor(matrix) for matrix in matrices]
        torch._foreach_add_(
            step, torch._foreach_mul(shards, rate * group["weight_decay"])
        )
        torch._foreach_sub_(shards, step)

    def _directions(
        self, ahead: Sequence[Tensor], matrices: list[Tensor]
    ) -> list[Tensor]:
        """Orthogonalize all, or this process's share of them, and exchange them with the others.

        Where matrices are sharded, each process gathers those of its share alone.
        """
        settings = {"n_iterations": self.n_iterations}
        if hardware.has_native_bfloat16(ahead[0].device):
            settings["number_format"] = torch.bfloat16
        n_ranks = self.process.n_ranks
        if n_ranks == 1:
            return list(self._orthogonalize(torch.stack(ahead), **settings))
        n_each = math.ceil(len(ahead) / n_ranks)
        n_missing = n_ranks * n_each - len(ahead)
        filled = [*ahead] + [torch.zeros_like(ahead[0])] * n_missing
        if not is_sharded(matrices[0]):
            mine = torch.stack(filled[self.process.rank * n_each :][:n_each])
            mine = self._orthogonalize(mine, **settings)
            return list(all_gather(mine, self.process)[: len(ahead)])
        rows, n_rows = len(matrices[0]), len(ahead[0])
        shards = torch.stack(filled)
        shards = F.pad(shards, (0, 0, 0, math.ceil(rows / n_ranks) - n_rows))
        shards = all_to_all(shards, self.process)
        mine = (
            shards.unflatten(0, (n_ranks, -1)).transpose(0, 1).flatten(1, 2)[:, :rows]
        )
        mine = self._orthogonalize(mine, **settings)
        mine = F.pad(mine, (0, 0, 0, -rows % n_ranks))
        shards = mine.unflatten(1, (n_ranks, -1)).transpose(0, 1).flatten(0, 1)
        return list(all_to_all(shards, self.process)[: len(ahead), :n_rows])


def orthogonalize(
    matrices: Float[Tensor, "*b f d"],
    *,
    n_iterations: int = 5,
    number_format: torch.dtype | None = None,
) -> Float[Tensor, "*b f d"]:
    """For each matrix U S V^T about U V^T: its singular values become 0.7 to 1.2.

    An odd polynomial of a matrix acts on the singular values alone. Repeating

        X <- 3.4445 X - 4.7750 (X X^T) X + 2.0315 (X X^T)^2 X

    lifts small ones quickly, at the price of leaving large ones spread around one,
    which does no harm.

    Args:
        matrices: any number of one shape.
        n_iterations: 5 reach singular values from about 0.003 of the Frobenius norm
            upwards.
        number_format: of the products; bfloat16 is precise enough. None for the
            matrices' own.

    Source: Jordan et al. (2024), after Bernstein & Newhouse (2024).
    """

    def higher_terms(square: Tensor) -> Tensor:
        return torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315)

    x = matrices.to(number_format or matrices.dtype).reshape(-1, *matrices.shape[-2:])
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT  # the shorter side makes the smaller products
    # The Frobenius norm bounds the largest singular value.
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    long = x.shape[-1] >= 2 * x.shape[-2]
    if long and 1 <= n_iterations <= 5 and x.dtype.itemsize >= 4:
        # The rounds' factors need X X^T alone, and X is multiplied once. Not in 16
        # bits, where it would lose small singular values, which are squared there; nor
        # for more rounds, because what rounding leaves of zeros grows twelvefold in
        # each.
        square = x @ x.mT
        first = 3.4445 * torch.eye(square.shape[-1], dtype=x.dtype, device=x.device)
        factor = factors = first + higher_terms(square)
        for _ in range(n_iterations - 1):
            square = factor @ square @ factor
            factor = first + higher_terms(square)
            factors = factor @ factors
        x = factors @ x
    else:
        for _ in range(n_iterations):
            x = torch.baddbmm(x, higher_terms(x @ x.mT), x, beta=3.4445)
    return (x if wide else x.mT).reshape(matrices.shape).to(matrices.dtype)


# A schedule gives the share of the peak at which a step is taken. It is a pure function of the
# step, counted from 0, so that a run that resumes needs no scheduler's state.


def cosine(step: int, *, warmup_steps: int, total_steps: int) -> float:
    """A straight line up, then half a cosine down to 0.

        step < W:   (step + 1) / W
        step >= W:  (1 + cos(pi (step - W) / (T - W))) / 2

    Args:
        step: counted from 0.
        warmup_steps: W, steps in which the rate rises; 0 for none.
        total_steps: T; from there on the share is 0.

    Source: Loshchilov & Hutter (2017) for the cosine; warm-up as in Brown et al. (2020).
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if step >= total_steps:
        return 0.0
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return (1 + math.cos(math.pi * progress)) / 2


def warmup_stable_decay(
    step: int, *, warmup_steps: int, total_steps: int, decay_share: float = 0.4
) -> float:
    """A straight line up, the peak for most of the time, a straight line down to 0 at the end.

    The stable part does not depend on how long the run will be, so one run can be ended, by its
    decay, at several lengths.

    Args:
        step, warmup_steps, total_steps: see `cosine`.
        decay_share: share of the steps, after warm-up, in which the rate falls.

    Source: Hu et al. (2024); Hägele et al. (2024).
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    decay_steps = decay_share * (total_steps - warmup_steps)
    return min(1.0, max(0.0, (total_steps - step) / max(decay_steps, 1e-9)))


def inverse_square_root(step: int, *, warmup_steps: int, total_steps: int = 0) -> float:
    """A straight line up, then a fall like 1 / sqrt(step), which never reaches 0.

    The original transformer's rate, D^-0.5 min(n^-0.5, n W^-1.5) for step n counted from 1, has
    its peak (D W)^-0.5 at n = W; this is its share.

    Args:
        step, warmup_steps: see `cosine`; W is at least 1 here.
        total_steps: without influence.

    Source: Vaswani et al. (2017), equation 3; seed document T.
    """
    n, w = step + 1, max(warmup_steps, 1)
    return min(math.sqrt(w / n), n / w)


SCHEDULES = {
    "cosine": cosine,
    "warmup_stable_decay": warmup_stable_decay,
    "inverse_square_root": inverse_square_root,
}


def set_learning_rate(
    optimizers: Iterable[torch.optim.Optimizer], share: float
) -> None:
    """Let all groups take their next step at this share of their peak.

    The peak is what torch's own schedulers call `initial_lr`: the rate before the first call.
    """
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = share * group.setdefault("initial_lr", group["lr"])
