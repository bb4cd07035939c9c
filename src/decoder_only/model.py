"""The whole model: ids in, logits out.

    x = embedding(ids) + positions                     (b, s) -> (b, s, d)
    x = block(x)                   L times             (b, s, d)
    logits = head(final_norm(x))                       (b, s, d) -> (b, s, v)

GPT-2, GPT-3 and a Llama-style model are settings of one class. Chapter 8.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from decoder_only.block import Block
from decoder_only.embeddings import (
    LearnedPositions,
    SinusoidalPositions,
    TokenEmbedding,
)
from decoder_only.lm_head import LMHead
from decoder_only.mlp import ACTIVATIONS, MLP, SwiGLU
from decoder_only.multihead import MultiHeadAttention
from decoder_only.normalization import LayerNorm, RMSNorm

__all__ = ["GPT", "GPTConfig"]

CHOICES = {
    "positions": ("learned", "sinusoidal", "rotary", "none"),
    "norm": ("layer", "rms"),
    "norm_position": ("pre", "post"),
    "activation": (*ACTIVATIONS, "swiglu"),
    "initialization": ("gpt2", "zero"),
}


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
        d_mlp: F; 4 D by default, and 8 D / 3 for "swiglu", rounded up to a multiple of 8.
        positions: "learned", "sinusoidal", "rotary" or "none".
        position_base: base of the sinusoidal and rotary frequencies.
        norm: "layer" or "rms".
        norm_position: "pre" or "post".
        activation: "relu", "gelu", "gelu_tanh", "squared_relu" or "swiglu".
        windows: attention window of each block in turn, None for all positions; repeated down
            the depth, so `(None, 256)` alternates dense and banded blocks as GPT-3 does.
        qk_norm: normalize queries and keys.
        bias: offsets in linear maps and layer norms.
        tied: the head shares the token embedding's storage.
        dropout: probability, at the four places: embeddings, attention weights, and what
            attention and MLP add to the stream.
        initialization: "gpt2" scales what each block adds by 1 / sqrt(2 L); "zero" starts it at
            nothing, so that every block begins as the identity.

    Raises:
        ValueError: for a value that cannot work, with the field, the value and what would.
    """

    vocab_size: int
    context_length: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int | None = None
    head_dim: int | None = None
    d_mlp: int | None = None
    positions: str = "learned"
    position_base: float = 10_000.0
    norm: str = "layer"
    norm_position: str = "pre"
    activation: str = "gelu_tanh"
    windows: Sequence[int | None] = (None,)
    qk_norm: bool = False
    bias: bool = True
    tied: bool = True
    dropout: float = 0.0
    initialization: str = "gpt2"

    def __post_init__(self) -> None:
        if isinstance(self.windows, list):  # as read from JSON
            object.__setattr__(self, "windows", tuple(self.windows))
        for name in ("vocab_size", "context_length", "d_model", "n_layers", "n_heads"):
            _require(name, getattr(self, name), _positive_int, "a positive integer")
        for name in ("n_kv_heads", "head_dim", "d_mlp"):
            if getattr(self, name) is not None:
                _require(
                    name,
                    getattr(self, name),
                    _positive_int,
                    "a positive integer or None",
                )
        for name, choices in CHOICES.items():
            _require(
                name, getattr(self, name), choices.__contains__, f"one of {choices}"
            )
        for name in ("qk_norm", "bias", "tied"):
            _require(name, getattr(self, name), _flag, "True or False")
        _require(
            "dropout", self.dropout, lambda p: 0 <= p < 1, "at least 0 and below 1"
        )
        _require("position_base", self.position_base, lambda b: b > 1, "above 1")
        _require(
            "windows",
            self.windows,
            lambda ws: (
                _filled_tuple(ws) and all(w is None or _positive_int(w) for w in ws)
            ),
            "a tuple of positive integers or None, at least one",
        )
        if self.head_dim is None and self.d_model % self.n_heads:
            raise ValueError(
                f"d_model={self.d_model} does not divide into n_heads={self.n_heads} heads; "
                "change one of them, or give head_dim"
            )
        if self.n_kv_heads is not None and self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_kv_heads={self.n_kv_heads} must divide n_heads={self.n_heads}"
            )
        pairs = {"rotary": self.width_of_head, "sinusoidal": self.d_model}
        if pairs.get(self.positions, 0) % 2:
            raise ValueError(
                f"positions={self.positions!r} turns dimensions in pairs, but there are "
                f"{pairs[self.positions]} of them; make it even"
            )

    @property
    def width_of_head(self) -> int:
        """K, given or derived."""
        return self.head_dim or self.d_model // self.n_heads

    @property
    def width_of_mlp(self) -> int:
        """F, given or derived."""
        if self.d_mlp is not None:
            return self.d_mlp
        if self.activation == "swiglu":
            return 8 * math.ceil(self.d_model / 3)
        return 4 * self.d_model

    def to_dict(self) -> dict[str, object]:
        """The fields as plain data, for JSON; `GPTConfig(**data)` restores them."""
        return asdict(self)


class GPT(nn.Module):
    """A decoder-only transformer.

    Args:
        config: its shape.
        generator: source of the initial weights, a CPU generator; torch's global one by default.

    Source: Radford et al. (2019); Brown et al. (2020); variants as noted at each part.
    """

    def __init__(
        self, config: GPTConfig, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(
            vocab_size=config.vocab_size, d_model=config.d_model
        )
        self.positions = _positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            _block(config, layer) for layer in range(config.n_layers)
        )
        # Post-norm blocks end on a norm already.
        self.final_norm = (
            _norm(config) if config.norm_position == "pre" else nn.Identity()
        )
        self.head = LMHead(
            d_model=config.d_model,
            vocab_size=config.vocab_size,
            tied_to=self.embedding.weight if config.tied else None,
        )
        self.initialize(generator)

    def forward(self, ids: Int[Tensor, "b s"]) -> Float[Tensor, "b s v"]:
        """Logits of the next token at every position.

        Raises:
            ValueError, TypeError, IndexError: for ids of another shape than (b, s), of another
                dtype than int32 or int64, outside the vocabulary (on the CPU), or more than
                learned positions can place.
        """
        if ids.ndim != 2:
            raise ValueError(
                f"ids must have shape (batch, sequence), got {tuple(ids.shape)}; "
                "a single sequence is ids[None]"
            )
        x = self.dropout(self.positions(self.embedding(ids)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x))

    @torch.no_grad()
    def initialize(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights, in the order in which the parameters are named.

        Matrices and tables are normal with standard deviation 0.02, biases zero, norms one. The
        last matrix of every part that adds to the residual stream is scaled by 1 / sqrt(2 L), so
        that the sum of 2 L additions keeps its scale; "zero" starts those, and a head of its own,
        at zero.

        Source: Radford et al. (2019), section 2.3.
        """
        std = 0.02
        residual_std = std / math.sqrt(2 * self.config.n_layers)
        if self.config.initialization == "zero":
            residual_std = 0.0
        for name, parameter in self.named_parameters():
            if parameter.ndim == 1:
                parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
            elif name.endswith(("output.weight", "down.weight")):
                parameter.normal_(std=1.0, generator=generator).mul_(residual_std)
            elif name == "head.weight" and self.config.initialization == "zero":
                parameter.zero_()
            else:
                parameter.normal_(std=std, generator=generator)

    def count_parameters(self) -> int:
        """Parameters that training adjusts, a shared one counted once."""
        return sum(parameter.numel() for parameter in self.parameters())


def _positions(config: GPTConfig) -> nn.Module:
    if config.positions == "learned":
        return LearnedPositions(
            context_length=config.context_length, d_model=config.d_model
        )
    if config.positions == "sinusoidal":
        return SinusoidalPositions(d_model=config.d_model, base=config.position_base)
    return nn.Identity()  # rotary turns queries and keys inside each block


def _norm(config: GPTConfig) -> LayerNorm | RMSNorm:
    if config.norm == "rms":
        return RMSNorm(d_model=config.d_model)
    return LayerNorm(d_model=config.d_model, bias=config.bias)


def _block(config: GPTConfig, layer: int) -> Block:
    attention = MultiHeadAttention(
        d_model=config.d_model,
        n_heads=config.n_heads,
        n_kv_heads=config.n_kv_heads,
        head_dim=config.head_dim,
        window=config.windows[layer % len(config.windows)],
        rotary_base=config.position_base if config.positions == "rotary" else None,
        qk_norm=config.qk_norm,
        dropout=config.dropout,
        bias=config.bias,
    )
    widths = {
        "d_model": config.d_model,
        "d_mlp": config.width_of_mlp,
        "bias": config.bias,
    }
    gated = config.activation == "swiglu"
    return Block(
        attention=attention,
        mlp=SwiGLU(**widths) if gated else MLP(**widths, activation=config.activation),
        attention_norm=_norm(config),
        mlp_norm=_norm(config),
        pre_norm=config.norm_position == "pre",
        dropout=config.dropout,
    )


def _positive_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _filled_tuple(value: object) -> bool:
    return isinstance(value, tuple) and len(value) > 0


def _require(name: str, value: object, holds, wanted: str) -> None:
    try:
        fine = holds(value)
    except TypeError:  # a value of another kind, such as a string where a number is due
        fine = False
    if not fine:
        raise ValueError(f"{name}={value!r} cannot work: it must be {wanted}")
