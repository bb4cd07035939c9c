"""The MLP: at each position alone, look for patterns and write what follows from them.

    MLP(x)    = act(x W_up) W_down
    SwiGLU(x) = (silu(x W_gate) * (x W_up)) W_down

Two affine maps around a nonlinearity; nothing moves between positions. Chapter 6.
"""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def squared_relu(x: Tensor) -> Tensor:
    """max(x, 0) squared, elementwise. Source: So et al. (2021), Primer."""
    return F.relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's approximation
    "squared_relu": squared_relu,
}


class MLP(nn.Module):
    """Two affine maps around a nonlinearity, applied to each position alone.

    Args:
        d_model: D, width of input and output.
        d_mlp: F, width of the hidden layer.
        activation: a name in `ACTIVATIONS`.
        bias: whether the maps have an offset.

    Source: Vaswani et al. (2017), section 3.3; GELU: Hendrycks & Gimpel (2016).
    """

    def __init__(
        self, *, d_model: int, d_mlp: int, activation: str = "gelu", bias: bool = True
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.up = nn.Linear(d_model, d_mlp, bias=bias)
        self.down = nn.Linear(d_mlp, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Transform each position's vector."""
        return self.down(self.activation(self.up(x)))


class SwiGLU(nn.Module):
    """A gated MLP: one map proposes, another decides how much of it passes.

    Three matrices instead of two: for as many parameters as an MLP with F = 4D,
    take F = 8D/3.

    Args:
        d_model: D, width of input and output.
        d_mlp: F, width of the hidden layer.
        bias: whether the maps have an offset.

    Source: Shazeer (2020).
    """

    def __init__(self, *, d_model: int, d_mlp: int, bias: bool = False) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_mlp, bias=bias)
        self.up = nn.Linear(d_model, d_mlp, bias=bias)
        self.down = nn.Linear(d_mlp, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Transform each position's vector."""
        return self.down(F.silu(self.gate(x)) * self.up(x))
