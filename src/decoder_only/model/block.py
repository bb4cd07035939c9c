"""The block: attention, then MLP, each reading from the residual stream and adding to it.

    pre-norm:   x = x + f(norm(x))
    post-norm:  x = norm(x + f(x))

Pre-norm leaves the stream itself untouched, so gradients reach every layer along it; the original
transformer normalized the stream at each step. Chapter 8.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from decoder_only.model.cache import KeyValueCache
from decoder_only.model.mlp import MLP, SwiGLU
from decoder_only.model.multihead import MultiHeadAttention
from decoder_only.model.normalization import LayerNorm, RMSNorm


class Block(nn.Module):
    """One layer of the transformer, as pure wiring: the parts are arguments.

    Args:
        attention: moves information between positions.
        mlp: works on each position alone.
        attention_norm, mlp_norm: one normalization for each.
        pre_norm: normalize what a part reads; False normalizes the stream after adding.
        dropout: probability of dropping a component of what a part adds, in training.

    Source: Vaswani et al. (2017) for post-norm; Radford et al. (2019) and Xiong et al. (2020)
    for pre-norm.
    """

    def __init__(
        self,
        *,
        attention: MultiHeadAttention,
        mlp: MLP | SwiGLU,
        attention_norm: LayerNorm | RMSNorm,
        mlp_norm: LayerNorm | RMSNorm,
        pre_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, attention_norm
        self.mlp, self.mlp_norm = mlp, mlp_norm
        self.pre_norm = pre_norm
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "b s d"],
        *,
        rotation: Float[Tensor, "2 ... s _"] | None = None,
        mask: Bool[Tensor, "*b s t"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "b s d"]:
        """Add what attention gathers and what the MLP makes of it to the residual stream.

        Args:
            x: the residual stream.
            rotation, mask, cache: see `MultiHeadAttention.forward`.
        """
        inputs = {"rotation": rotation, "mask": mask, "cache": cache}
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.attention_norm(x), **inputs))
            return x + self.dropout(self.mlp(self.mlp_norm(x)))
        x = self.attention_norm(x + self.dropout(self.attention(x, **inputs)))
        return self.mlp_norm(x + self.dropout(self.mlp(x)))
