"""The settings of a model: every variant is a value here, and not a branch scattered elsewhere.

`GPT` alone reads a `GPTConfig`; the parts take plain numbers. Chapter 8.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from decoder_only.engine.checks import require
from decoder_only.mlp import ACTIVATIONS

__all__ = ["GPTConfig"]


class Derived(int):
    """A size that was not given, but follows from the others."""


def _size(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and 0 < x < 2**31


def _above(x: object, bound: int) -> bool:
    number = isinstance(x, int | float) and not isinstance(x, bool)
    return number and bound < x < math.inf


def _one_of(*choices: str | bool) -> Callable[[object], bool]:
    # By type, too: 1 == True, and 1 is not what was asked for.
    return lambda x: any(type(x) is type(each) and x == each for each in choices)


SIZE = "a positive integer below 2^31"
POSITIVE = "a finite number above 0"
CHOICES = {
    "positions": ("learned", "sinusoidal", "rotary", "none"),
    "norm": ("layer", "rms"),
    "norm_position": ("pre", "post"),
    "activation": (*ACTIVATIONS, "swiglu"),
    "initialization": ("gpt2", "zero"),
    **dict.fromkeys(("qk_norm", "bias", "tied"), (True, False)),
}
SIZES = ("vocab_size", "context_length", "d_model", "n_layers", "n_heads")
RULES = {
    **dict.fromkeys(SIZES, (_size, SIZE)),
    **dict.fromkeys(
        ("n_kv_heads", "head_dim", "d_mlp", "base_width"),
        (lambda x: x is None or _size(x), f"{SIZE}, or None"),
    ),
    **{name: (_one_of(*given), f"one of {given}") for name, given in CHOICES.items()},
    **dict.fromkeys(
        ("soft_cap", "attention_scale"),
        (lambda x: x is None or _above(x, 0), f"{POSITIVE}, or None"),
    ),
    # What is drawn or counted for each block shall end.
    "n_layers": (lambda x: _size(x) and x < 2**16, "a positive integer below 2^16"),
    "dropout": (lambda x: _above(x, -1) and 0 <= x < 1, "at least 0 and below 1"),
    "position_base": (lambda x: _above(x, 1), "a finite number above 1"),
    "norm_eps": (lambda x: _above(x, 0), POSITIVE),
    "windows": (
        lambda ws: type(ws) is tuple and ws and all(w is None or _size(w) for w in ws),
        f"a tuple, each entry {SIZE}, or None",
    ),
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
        d_mlp: F; 4 D by default, and 8 D / 3 for "swiglu", rounded up to a multiple of 8. These
            three are whole numbers once the object exists; those that were not given follow the
            other sizes, in `dataclasses.replace` too.
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
        for name, (holds, wanted) in RULES.items():
            require(name, getattr(self, name), holds, wanted)
        gated = self.activation == "swiglu"
        d_mlp = 8 * math.ceil(self.d_model / 3) if gated else 4 * self.d_model
        head_dim = self.d_model // self.n_heads
        usual = {"n_kv_heads": self.n_heads, "head_dim": head_dim, "d_mlp": d_mlp}
        for name, size in usual.items():
            given = getattr(self, name)
            if given is None or isinstance(given, Derived):
                object.__setattr__(self, name, Derived(size))
        if isinstance(self.head_dim, Derived):
            wanted = f"a multiple of n_heads={self.n_heads}, or head_dim must be given"
            require("d_model", self.d_model, lambda d: d % self.n_heads == 0, wanted)
        shares = f"a divisor of n_heads={self.n_heads}"
        require("n_kv_heads", self.n_kv_heads, lambda g: self.n_heads % g == 0, shares)
        turned = {"rotary": "head_dim", "sinusoidal": "d_model"}.get(self.positions)
        if turned:
            wanted = f"even, since {self.positions} positions turn dimensions in pairs"
            require(turned, getattr(self, turned), lambda n: n % 2 == 0, wanted)

    @property
    def width_ratio(self) -> float:
        """D over the base width; 1 in the standard parametrization."""
        return 1.0 if self.base_width is None else self.d_model / self.base_width

    @property
    def n_weights(self) -> int:
        """Entries of all tables and matrices, without the vectors."""
        heads = 2 * (self.n_heads + self.n_kv_heads) * self.head_dim
        hidden = (3 if self.activation == "swiglu" else 2) * self.d_mlp
        rows = self.n_layers * (heads + hidden) + self.vocab_size * (2 - self.tied)
        learned = self.positions == "learned"
        return self.d_model * (rows + learned * self.context_length)

    def to_dict(self) -> dict[str, object]:
        """The fields as plain data, for JSON; `GPTConfig(**data)` restores them."""
        fields = asdict(self).items()
        return {name: None if isinstance(x, Derived) else x for name, x in fields}
