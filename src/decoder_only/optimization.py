"""How weights follow gradients: which are decayed, by which rule they move, and how far.

AdamW keeps two running means for every weight, of its gradient g and of the gradient's square:

    m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g²
    w = w - lr (m̂ / (sqrt(v̂) + eps) + decay w)

where the hats undo the bias towards the zeros that both means begin with. The learning rate lr
rises to its peak while the means are still uncertain, and then falls along a cosine. Chapter 9.
"""

import math

import torch
from torch import nn

__all__ = ["adamw", "learning_rate", "parameter_groups", "set_learning_rate"]


def parameter_groups(
    model: nn.Module, *, weight_decay: float
) -> list[dict[str, object]]:
    """A model's parameters in two groups: those that decay towards zero, and those that do not.

    The matrices of linear maps decay. Norms and biases do not, because there is no reason why a
    scale should be near 0 rather than near 1; tables with a row per token or position do not
    either, because a rare token's row would fade between its few gradients. A head, tied or not,
    is such a table.

    Args:
        model: its parameters that require a gradient are divided, each in one group.
        weight_decay: of the first group; 0 in the second.

    Source: Loshchilov & Hutter (2019) for the decay; Brown et al. (2020) for its value, 0.1.
    """
    matrices = {
        id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)
    }
    decayed, others = [], []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (decayed if id(parameter) in matrices else others).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]


def adamw(
    model: nn.Module,
    *,
    learning_rate: float,
    weight_decay: float = 0.1,
    beta1: float = 0.9,
    beta2: float = 0.95,
) -> torch.optim.AdamW:
    """AdamW over a model's parameter groups, as one fused kernel where the model is on a GPU.

    Call it after the model has been moved to its device.

    Source: Loshchilov & Hutter (2019); betas from Brown et al. (2020).
    """
    return torch.optim.AdamW(
        parameter_groups(model, weight_decay=weight_decay),
        lr=learning_rate,
        betas=(beta1, beta2),
        fused=all(parameter.is_cuda for parameter in model.parameters()),
    )


def learning_rate(
    step: int, *, warmup_steps: int, total_steps: int, peak: float, final: float = 0.0
) -> float:
    """The learning rate of one step: a straight line up, then half a cosine down.

        step < W:   peak (step + 1) / W
        step >= W:  final + (peak - final) (1 + cos(pi (step - W) / (T - W))) / 2

    A pure function of the step, so that a run that resumes needs no scheduler's state. From step
    T on it stays at `final`.

    Args:
        step: counted from 0.
        warmup_steps: W, the number of steps in which the rate rises; 0 for none.
        total_steps: T.
        peak, final: the highest and the last rate.

    Source: Loshchilov & Hutter (2017) for the cosine; warm-up as in Brown et al. (2020).
    """
    if step < warmup_steps:
        return peak * ((step + 1) / warmup_steps)
    if step >= total_steps:
        return final
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return final + (peak - final) * (1 + math.cos(math.pi * progress)) / 2


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Let all of an optimizer's groups take their next step at this rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate
