"""The settings of a model: every variant is a value here, and not a branch scattered elsewhere.

`GPT` alone reads a `GPTConfig`; the parts take plain numbers. Chapter 8.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from decoder_only.base import checks
from decoder_only.model.mlp import ACTIVATIONS
from decoder_only.model.multihead import check_heads


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Everything that shapes a model. The defaults are GPT-2's.

    Args:
        vocab_size: V, vocabulary entries.
        context_length: longest sequence that the model is trained on.
        d_model: D, width of the residual stream.
        n_layers: L, blocks.
        n_heads: H, heads of queries in each block.
        n_kv_heads: G, heads of keys and values; H by default.
        head_dim: K; d_model / n_heads by default.
        d_mlp: F; 4 D by default, and 8 D / 3 for "swiglu", rounded up to a multiple of 8. These
            three stay None where they are not given: `kv_heads`, `head_width` and `mlp_width` are
            the sizes that result.
        positions: "learned", "sinusoidal", "rotary" or "none".
        position_base: base of the sinusoidal and rotary frequencies.
        norm: "layer" or "rms".
        norm_eps: what every norm adds below its root.
        norm_position: "pre" or "post".
        activation: "relu", "gelu", "gelu_tanh", "squared_relu" or "swiglu".
        windows: attention window of each block in turn, None for all positions; repeated down
            the depth, so `(None, 256)` alternates dense and banded blocks as GPT-3 does.
        qk_norm: normalize queries and keys.
        attention_scale: factor on the products of queries and keys; 1 / sqrt(K) by default.
        bias: offsets in linear maps and layer norms.
        tied: the head reads the token embedding's matrix instead of one of its own.
        soft_cap: bound on the size of the logits, approached smoothly; None for no bound.
        dropout: probability, at the four places: embeddings, attention weights, and what
            attention and MLP add to the stream.
        initialization: "gpt2" scales what each block adds by 1 / sqrt(2 L); "zero" starts it at
            nothing, so that every block begins as the identity.
        base_width: the maximal update parametrization (muP): a model of another width starts and
            learns as one of this D would, so that a learning rate found there is right here. None
            for the standard parametrization, as which a model of this very width behaves.

    Raises:
        ValueError: for a value that cannot work, with the field, the value and what would. Parts
            of a model trust what has passed here.
    """

    vocab_size: int
    context_length: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int | None = None
    head_dim: int | None = None
    d_mlp: int | None = None
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    position_base: float = 10_000.0
    norm: Literal["layer", "rms"] = "layer"
    norm_eps: float = 1e-5
    norm_position: Literal["pre", "post"] = "pre"
    activation: Literal[*ACTIVATIONS, "swiglu"] = "gelu_tanh"
    windows: Sequence[int | None] = (None,)
    qk_norm: bool = False
    attention_scale: float | None = None
    bias: bool = True
    tied: bool = True
    soft_cap: float | None = None
    dropout: float = 0.0
    initialization: Literal["gpt2", "zero"] = "gpt2"
    base_width: int | None = None

    def __post_init__(self) -> None:
        checks.to_plain_values(self)
        checks.choices(self)
        size = {"at_least": 1, "at_most": 2**31 - 1}
        for name in ("vocab_size", "context_length", "d_model", "n_heads"):
            checks.whole(name, getattr(self, name), **size)
        for name in ("n_kv_heads", "head_dim", "d_mlp", "base_width"):
            checks.whole(name, getattr(self, name), **size, optional=True)
        checks.whole("n_layers", self.n_layers, at_least=1, at_most=2**16 - 1)
        checks.number("position_base", self.position_base, above=1)
        checks.number("norm_eps", self.norm_eps, above=0)
        checks.number("dropout", self.dropout, at_least=0, below=1)
        checks.number("attention_scale", self.attention_scale, above=0, optional=True)
        checks.number("soft_cap", self.soft_cap, above=0, optional=True)
        if not isinstance(self.windows, tuple) or not self.windows:
            raise ValueError(f"windows={self.windows!r:.99} must be a tuple, not empty")
        for number, window in enumerate(self.windows):
            checks.whole(f"windows[{number}]", window, **size, optional=True)
        check_heads(self.d_model, self.n_heads, self.kv_heads, self.head_dim)
        reason = f"{self.positions} positions rotate dimensions in pairs"
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(f"head_dim={self.head_width} must be even, since {reason}")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"d_model={self.d_model} must be even, since {reason}")

    @property
    def kv_heads(self) -> int:
        """G, heads of keys and values in each block."""
        return self.n_kv_heads or self.n_heads

    @property
    def head_width(self) -> int:
        """K, dimensions of a head."""
        return self.head_dim or self.d_model // self.n_heads

    @property
    def mlp_width(self) -> int:
        """F, hidden dimensions of the MLP."""
        gated = self.activation == "swiglu"
        usual = 8 * math.ceil(self.d_model / 3) if gated else 4 * self.d_model
        return self.d_mlp or usual

    @property
    def width_ratio(self) -> float:
        """D over the base width; 1 in the standard parametrization."""
        return 1.0 if self.base_width is None else self.d_model / self.base_width

    def to_dict(self) -> dict[str, object]:
        """The fields as plain data, for JSON; `GPTConfig(**data)` restores them."""
        return asdict(self)
