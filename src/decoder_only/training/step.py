"""One training step: gradients of the mean loss over a batch, clipped, and an update.

Chapter 9.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from decoder_only.base import hardware
from decoder_only.model.lm_head import (
    IGNORED,
    LMHead,
    next_token_loss,
    sliced_next_token_loss,
)
from decoder_only.training import processes
from decoder_only.training.optimizers import Muon
from decoder_only.training.processes import ALONE, Process

__all__ = ["LossScale", "NextTokenLoss", "StepResult", "train_step"]


@dataclass(frozen=True)
class StepResult:
    """The result of a step, in tensors on the device.

    Attributes:
        loss: before the step, in nats per token; the mean over all processes.
        gradient_norm: before clipping.
        skipped: whether the loss or the gradient was not finite in any process. Then no process
            has changed its weights.
    """

    loss: Float[Tensor, ""]
    gradient_norm: Float[Tensor, ""]
    skipped: Bool[Tensor, ""]


class NextTokenLoss(nn.Module):
    """A model and its loss in one module, as DDP, FSDP and torch.compile need it.

    Called with inputs and targets, it gives the total cross-entropy of the targets, in nats.

    Args:
        model: a `GPT`, or another module whose output is logits.
        n_slices: number of parts of a batch whose logits are computed one after another; see
            `lm_head.sliced_next_token_loss`.

    Raises:
        ValueError: more than one slice, for a head that is not an `LMHead`.
    """

    def __init__(self, model: nn.Module, n_slices: int = 1) -> None:
        super().__init__()
        if n_slices != 1 and type(model.head) is not LMHead:
            raise ValueError(
                f"n_slices={n_slices} needs a head of type LMHead, not "
                f"{type(model.head).__name__}; only n_slices=1 takes any head"
            )
        self.model, self.n_slices = model, n_slices

    def forward(
        self, inputs: Int[Tensor, "b s"], targets: Int[Tensor, "b s"]
    ) -> Float[Tensor, ""]:
        if self.n_slices == 1:
            return next_token_loss(self.model(inputs), targets, reduction="sum")
        head = self.model.head
        return sliced_next_token_loss(
            self.model.hidden(inputs),
            self.model.head_weight,
            targets,
            scale=head.scale,
            soft_cap=head.soft_cap,
            reduction="sum",
            n_slices=self.n_slices,
        )


def train_step(
    loss: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    inputs: Int[Tensor, "b s"],
    targets: Int[Tensor, "b s"],
    *,
    accumulation: int = 1,
    max_gradient_norm: float | None = None,
    scale: "LossScale | None" = None,
    process: Process = ALONE,
) -> StepResult:
    """Update the weights once, by the gradient of the mean loss over a batch.

    A step whose loss or gradient is not finite changes nothing. The host does not wait for the
    device to learn whether that was so, unless an optimizer is not fused.

    Args:
        loss: `NextTokenLoss(model)`, or another module that gives the total loss of
            inputs and targets; it may be compiled, and wrapped by `processes.wrap`.
        optimizers: see `build_optimizers`, or others whose step needs no closure.
        inputs, targets: this process's rows of the batch.
        accumulation: cut the batch into this many micro-batches, whose gradients are summed.
        max_gradient_norm: scale a gradient with a larger norm down to it (Pascanu et al., 2013).
        scale: the loss scale, where gradients are computed in float16.
        process: this process.
    """
    loss.train()
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    # Gradients are averaged over processes: each divides by the mean count.
    n_targets = processes.all_reduce_sum((targets != IGNORED).sum(), process)
    n_targets = n_targets / process.n_ranks
    mean_loss = torch.zeros((), device=inputs.device)
    factor = 1.0 if scale is None else scale.value
    parts = zip(inputs.chunk(accumulation), targets.chunk(accumulation), strict=True)
    parts = list(parts)  # fewer than `accumulation`, if the batch has fewer rows
    for number, part in enumerate(parts, 1):
        with processes.gradient_sync(loss, enabled=number == len(parts)):
            with hardware.autocast(inputs.device):
                # Each part's sum over the batch's count: they add up to its mean.
                part_loss = loss(*part) / n_targets
            (part_loss * factor).backward()
        mean_loss += part_loss.detach()
    norm = clip_gradients(loss, max_gradient_norm, factor)
    finite = norm.isfinite() & mean_loss.isfinite()
    if process.n_ranks > 1:  # all processes take the step, or none does
        sums = torch.stack([mean_loss, (~finite).float()])
        mean_loss, n_bad = processes.all_reduce_sum(sums, process)
        mean_loss, finite = mean_loss / process.n_ranks, n_bad == 0
    step_if_finite(finite, optimizers)
    if scale is not None:
        scale.update(finite)
    return StepResult(mean_loss, norm, ~finite)


def step_if_finite(
    finite: Bool[Tensor, ""], optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    for optimizer in optimizers:
        reads_flag = isinstance(optimizer, Muon) or optimizer.defaults.get("fused")
        if reads_flag and finite.device.type != "mps":  # whose kernels lack the flag
            # If this is 1, the fused kernels change nothing.
            optimizer.found_inf = (~finite).float()
            optimizer.step()
        elif finite:  # waits for the device
            optimizer.step()


def clip_gradients(
    model: nn.Module, limit: float | None, scale: float | Tensor
) -> Tensor:
    """Undo the scale, and scale the gradient down to a norm of `limit`; return its norm before."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    norm = processes.full_tensor(norm) / scale
    shrink = torch.ones_like(norm) / scale
    if limit is not None:
        shrink = shrink * (limit / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, shrink)
    return norm


class LossScale:
    """A factor on the loss that keeps small gradients within float16's range.

    A gradient that overflows halves the factor, and its step is skipped. After `patience` steps
    without an overflow the factor doubles. The host never waits for the device.

    Args:
        device: where the gradients are.
        patience: steps without an overflow before the factor grows.

    Source: Micikevicius et al. (2018).
    """

    def __init__(self, device: torch.device, *, patience: int = 2000) -> None:
        self.patience = patience
        self.value = torch.tensor(2.0**16, device=device)
        self.n_good = torch.zeros((), device=device)

    def update(self, finite: Bool[Tensor, ""]) -> None:
        """Adapt the factor after a step, whose gradient was finite or not."""
        self.n_good = torch.where(finite, self.n_good + 1, 0.0)
        grown = self.n_good >= self.patience
        self.n_good = torch.where(grown, 0.0, self.n_good)
        factor = torch.where(finite, torch.where(grown, 2.0, 1.0), 0.5)
        self.value = self.value * factor
