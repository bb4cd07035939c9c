"""The settings of a model: every variant is a value here, and not a branch scattered elsewhere.

`GPT` alone reads a `GPTConfig`; the parts take plain numbers. Chapter 8.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from decoder_only.mlp import ACTIVATIONS

__all__ = ["GPTConfig"]

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
    norm_eps: float = 1e-5
    norm_position: str = "pre"
    activation: str = "gelu_tanh"
    windows: Sequence[int | None] = (None,)
    qk_norm: bool = False
    attention_scale: float | None = None
    bias: bool = True
    tied: bool = True
    soft_cap: float | None = None
    dropout: float = 0.0
    initialization: str = "gpt2"
    base_width: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.windows, list):  # as read from JSON
            object.__setattr__(self, "windows", tuple(self.windows))
        for name in ("vocab_size", "context_length", "d_model", "n_layers", "n_heads"):
            _require(name, getattr(self, name), _positive_int, "a positive integer")
        for name in ("n_kv_heads", "head_dim", "d_mlp", "base_width"):
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
        _require("norm_eps", self.norm_eps, lambda e: e > 0, "above 0")
        for name in ("soft_cap", "attention_scale"):
            if getattr(self, name) is not None:
                _require(name, getattr(self, name), lambda x: x > 0, "above 0, or None")
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

    @property
    def width_ratio(self) -> float:
        """D over the base width; 1 in the standard parametrization."""
        return 1.0 if self.base_width is None else self.d_model / self.base_width

    def to_dict(self) -> dict[str, object]:
        """The fields as plain data, for JSON; `GPTConfig(**data)` restores them."""
        return asdict(self)


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
