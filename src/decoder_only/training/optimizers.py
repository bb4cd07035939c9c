"""How gradients change weights: weight decay, AdamW, Muon, and schedules of the learning rate.

AdamW keeps two running means for every weight, of its gradient g and of the gradient's square:

    m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g²
    w = w - lr (m̂ / (sqrt(v̂) + eps) + decay w)

where the hats undo the bias of both means, which begin at zero. Muon looks at a matrix as a whole.
It keeps only the first mean, and moves along the nearest matrix that stretches all directions
equally,

    M = momentum M + (1 - momentum) G    W = W - lr (0.2 sqrt(max(rows, columns)) U V^T + decay W)

with M = U S V^T. The learning rate lr is a peak times a factor that depends on the step. Chapter 9.
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

TABLES = (TokenEmbedding, LearnedPositions, LMHead, nn.Embedding)
"""Modules whose matrix is a table with a row for each token or position."""


def parameter_groups(
    model: nn.Module, *, weight_decay: float
) -> list[dict[str, object]]:
    """A model's parameters in two groups: the matrices, which decay, and the others.

    Matrices decay towards zero. Norms and biases do not, because a scale has no reason to be near
    0 rather than near 1. Tables with a row for each token or position do not decay either, because
    a rare token's row would fade between its few gradients. A head, tied or not, is such a table.

    Args:
        model: every parameter that requires a gradient is in one of the groups.
        weight_decay: of the first group; the second has 0.

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
    """A model's optimizers: AdamW for all weights, or Muon for matrices and AdamW for the rest.

    Call it after the model has been moved to its device. AdamW runs as one fused kernel. Both
    optimizers take steps of the same size at the same learning rate, so one rate may serve both.
    Chapter 9's small models learned best with tables four to eight times as fast as matrices.

    Args:
        model: whose weights are changed.
        optimizer: "adamw" or "muon".
        learning_rate: the peak, which `set_learning_rate` multiplies by a factor.
        table_learning_rate: the peak for tables, norms and biases, which AdamW updates in any
            case; None for the same.
        weight_decay: of the matrices.
        beta1, beta2: decay rates of AdamW's two means.
        momentum: decay rate of Muon's mean.
        width_ratio: under muP, the model's width divided by the width that the rate was tuned at.
            A matrix's step changes its output by a sum over D inputs. So AdamW's rate for matrices
            falls as 1 / D. Muon's falls as 1 / sqrt(D), because its steps stretch no direction
            more than another. The decay of a step stays the same.
        compile, process: see `Muon`.

    Raises:
        ValueError: another optimizer, or a model without a parameter that requires a gradient.

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

    A gradient's few strong directions hide its weak ones, which may matter as much to rare
    tokens. Setting all singular values to one moves both. Matrices of one shape are stacked and
    handled together, which is several times faster than one by one.

    The factor 0.2 sqrt(max(rows, columns)) makes steps as large as AdamW's, so that learning rate
    and decay carry over.

    Args:
        params: matrices, or groups of them.
        learning_rate: lr.
        momentum: decay rate of the mean; the step looks ahead along it (Nesterov).
        weight_decay: pull towards zero, per unit of learning rate.
        n_iterations: of `orthogonalize`.
        compile: run `orthogonalize` through torch.compile.
        process: this process. Each process orthogonalizes some of the matrices. An all-gather
            gives the results to all, or an all-to-all where matrices are sharded. Gradients must
            be averaged, or sharded, before.

    Attributes:
        found_inf: None, or a tensor that is 1 where the gradients are not finite. The step then
            changes nothing, and no GPU is waited for. AdamW has the same attribute.

    Raises:
        ValueError: a parameter is not a matrix.

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
        settings = {"momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, {"lr": learning_rate, **settings})
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
        """Update every matrix that has a gradient, matrices of one shape together."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(matrix.shape, []).append(matrix)
            for matrices in by_shape.values():
                self._update(matrices, group)

    def _update(self, matrices: list[Tensor], group: dict[str, object]) -> None:
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum"] = torch.zeros_like(matrix)
        means = [local_tensor(self.state[matrix]["momentum"]) for matrix in matrices]
        gradients = [local_tensor(matrix.grad) for matrix in matrices]
        rate, weight = group["lr"], 1 - group["momentum"]
        if self.found_inf is not None:
            finite = 1 - self.found_inf
            rate, weight = rate * finite, weight * finite
            for gradient in gradients:
                gradient.masked_fill_(self.found_inf.bool(), 0.0)
        changes = torch._foreach_sub(gradients, means)
        torch._foreach_mul_(changes, weight)
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
        """Orthogonalize all matrices, each process some of them, and exchange the results.

        Where matrices are sharded, a process gathers only those that it orthogonalizes.
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
            own = torch.stack(filled[self.process.rank * n_each :][:n_each])
            own = self._orthogonalize(own, **settings)
            return list(all_gather(own, self.process)[: len(ahead)])
        rows, n_rows = len(matrices[0]), len(ahead[0])
        shards = torch.stack(filled)
        shards = F.pad(shards, (0, 0, 0, math.ceil(rows / n_ranks) - n_rows))
        shards = all_to_all(shards, self.process)
        own = shards.unflatten(0, (n_ranks, -1)).transpose(0, 1).flatten(1, 2)
        own = self._orthogonalize(own[:, :rows], **settings)
        own = F.pad(own, (0, 0, 0, -rows % n_ranks))
        shards = own.unflatten(1, (n_ranks, -1)).transpose(0, 1).flatten(0, 1)
        return list(all_to_all(shards, self.process)[: len(ahead), :n_rows])


def orthogonalize(
    matrices: Float[Tensor, "*b f d"],
    *,
    n_iterations: int = 5,
    number_format: torch.dtype | None = None,
) -> Float[Tensor, "*b f d"]:
    """Replace each matrix U S V^T by about U V^T: its singular values become 0.7 to 1.2.

    An odd polynomial of a matrix changes nothing but its singular values. Repeating

        X <- 3.4445 X - 4.7750 (X X^T) X + 2.0315 (X X^T)^2 X

    raises small singular values quickly. Large ones end up spread around one, which does no harm.

    Args:
        matrices: any number of one shape.
        n_iterations: 5 are enough for singular values above about 0.003 of the Frobenius norm.
        number_format: of the products; bfloat16 is precise enough. None for the matrices' own.

    Source: Jordan et al. (2024), after Bernstein & Newhouse (2024).
    """
    x = matrices.to(number_format or matrices.dtype).reshape(-1, *matrices.shape[-2:])
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT  # the shorter side makes the smaller products
    # The Frobenius norm bounds the largest singular value.
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    long = x.shape[-1] >= 2 * x.shape[-2]
    # Not in 16 bits, which lose small singular values when they are squared; nor for more
    # iterations, in each of which the rounding error of zeros grows twelvefold.
    if long and 1 <= n_iterations <= 5 and x.dtype.itemsize >= 4:
        x = _product_of_factors(x @ x.mT, n_iterations) @ x
    else:
        for _ in range(n_iterations):
            x = torch.baddbmm(x, _higher_terms(x @ x.mT), x, beta=3.4445)
    return (x if wide else x.mT).reshape(matrices.shape).to(matrices.dtype)


def _higher_terms(square: Tensor) -> Tensor:
    """-4.7750 A + 2.0315 A^2 for A = X X^T."""
    return torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315)


def _product_of_factors(square: Tensor, n_iterations: int) -> Tensor:
    """The matrix F by which all iterations together multiply X, from A = X X^T alone.

    An iteration multiplies X by the symmetric matrix 3.4445 - 4.7750 A + 2.0315 A^2, and so turns A
    into (factor A factor). Where X has many more columns than rows, A is much smaller than X.
    """
    size, settings = square.shape[-1], {"dtype": square.dtype, "device": square.device}
    first = 3.4445 * torch.eye(size, **settings)
    factor = product = first + _higher_terms(square)
    for _ in range(n_iterations - 1):
        square = factor @ square @ factor
        factor = first + _higher_terms(square)
        product = factor @ product
    return product


# A schedule gives the factor by which a step's learning rate is smaller than the peak. It is a pure
# function of the step, counted from 0, so that a run that resumes needs no state of a scheduler.


def cosine(step: int, *, warmup_steps: int, total_steps: int) -> float:
    """A straight line up, then half a cosine down to 0.

        step < W:   (step + 1) / W
        step >= W:  (1 + cos(pi (step - W) / (T - W))) / 2

    Args:
        step: counted from 0.
        warmup_steps: W, steps in which the rate rises; 0 for none.
        total_steps: T; from step T on the factor is 0.

    Source: Loshchilov & Hutter (2017) for the cosine; warm-up as in Brown et al. (2020).
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if step >= total_steps:
        return 0.0
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return (1 + math.cos(math.pi * progress)) / 2


def warmup_stable_decay(
    step: int, *, warmup_steps: int, total_steps: int, decay_fraction: float = 0.4
) -> float:
    """A straight line up, the peak for most of the time, a straight line down to 0 at the end.

    The stable part does not depend on the length of the run. So one run can be ended by a decay at
    several lengths.

    Args:
        step, warmup_steps, total_steps: see `cosine`.
        decay_fraction: fraction of the steps after warm-up in which the rate falls.

    Source: Hu et al. (2024); Hägele et al. (2024).
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    decay_steps = decay_fraction * (total_steps - warmup_steps)
    return min(1.0, max(0.0, (total_steps - step) / max(decay_steps, 1e-9)))


def inverse_square_root(step: int, *, warmup_steps: int, total_steps: int = 0) -> float:
    """A straight line up, then a fall like 1 / sqrt(step), which never reaches 0.

    The original transformer's rate, D^-0.5 min(n^-0.5, n W^-1.5) for step n counted from 1, has
    its peak (D W)^-0.5 at n = W. This is the rate divided by its peak.

    Args:
        step, warmup_steps: see `cosine`; W is at least 1 here.
        total_steps: has no influence.

    Source: Vaswani et al. (2017), equation 3.
    """
    n, w = step + 1, max(warmup_steps, 1)
    return min(math.sqrt(w / n), n / w)


SCHEDULES = {
    "cosine": cosine,
    "warmup_stable_decay": warmup_stable_decay,
    "inverse_square_root": inverse_square_root,
}


def set_learning_rate(
    optimizers: Iterable[torch.optim.Optimizer], factor: float
) -> None:
    """Set the learning rate of every group to its peak times a factor.

    The peak is the rate before the first call, kept as `initial_lr` as torch's schedulers do.
    """
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = factor * group.setdefault("initial_lr", group["lr"])
