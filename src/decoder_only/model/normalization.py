"""Normalization: keep every position's vector at one scale, whatever the depth.

    LayerNorm(x) = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias
    RMSNorm(x)   =  x            / sqrt(mean(x^2) + eps) * weight

Mean and variance run over d alone, so positions and sequences do not mix. The variance is the
population's (divided by D), and eps is inside the root. Squares are computed in float32 at
least, since they overflow float16. Chapter 5.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def layer_norm(
    x: Float[Tensor, "*b d"],
    weight: Float[Tensor, "d"],
    bias: Float[Tensor, "d"] | None = None,
    *,
    eps: float = 1e-5,
) -> Float[Tensor, "*b d"]:
    """The formula, term by term. `LayerNorm` computes the same by a fused kernel."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    centred = wide - wide.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    normalized = centred * torch.rsqrt(variance + eps) * weight
    return (normalized if bias is None else normalized + bias).to(x.dtype)


def rms_norm(
    x: Float[Tensor, "*b d"], weight: Float[Tensor, "d"], *, eps: float = 1e-5
) -> Float[Tensor, "*b d"]:
    """The formula, term by term. `RMSNorm` computes the same by a fused kernel."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean_square = wide.square().mean(dim=-1, keepdim=True)
    return (wide * torch.rsqrt(mean_square + eps) * weight).to(x.dtype)


class LayerNorm(nn.Module):
    """Centre and scale each vector, then apply a learned scale and shift.

    Args:
        d_model: D, the dimension that is normalized over.
        eps: added to the variance, so that a constant vector does not divide by zero.
        bias: whether to learn the shift.

    Source: Ba, Kiros & Hinton (2016).
    """

    def __init__(self, *, d_model: int, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Normalize over the last dimension."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """Scale each vector to unit root mean square, then apply a learned scale.

    Args:
        d_model: D, the dimension that is normalized over.
        eps: added to the mean square.

    Source: Zhang & Sennrich (2019).
    """

    def __init__(self, *, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Normalize over the last dimension."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


@torch.no_grad()
def fold(norm: LayerNorm | RMSNorm, linear: nn.Linear) -> nn.Linear:
    """A linear layer that has absorbed the scale and shift of the norm before it.

    With z the vector that norm has centred and scaled, before its own weight and bias,

        W (weight * z + bias) + b = (W * weight) z + (W bias + b)

    so the two learned vectors add nothing that the next layer could not learn.

    Returns:
        A new layer, to be fed by the same norm with all scales one and all shifts zero. It has an
        offset if the norm or the given layer has one.

    Raises:
        ValueError: if the norm's width is not the layer's.

    Source: Goon (2023), Decoder-Only Transformers.
    """
    width = norm.weight.numel()
    if linear.in_features != width:
        needed = f"the {width} components of the norm before it"
        raise ValueError(f"in_features={linear.in_features} must be {needed}")
    shift = getattr(norm, "bias", None)
    bias = linear.bias
    if shift is not None:
        bias = linear.weight @ shift + (0 if bias is None else bias)
    folded = nn.Linear(*reversed(linear.weight.shape), bias=bias is not None)
    folded.to(linear.weight)
    folded.weight.copy_(linear.weight * norm.weight)
    if bias is not None:
        folded.bias.copy_(bias)
    return folded
