"""Token ids become vectors, and vectors learn where they stand.

An embedding is a table with one row per vocabulary entry; looking up a row is the product of a
one-hot vector with the table, without the product:

    x[b, s, :] = E[ids[b, s], :] = sum_v onehot(ids)[b, s, v] E[v, :]

Attention treats its input as a set, so order has to be put in. Three ways are built here: add a
learned row per position, add sinusoids, or rotate queries and keys by an angle that grows with
the position. Chapter 2 derives them.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

__all__ = [
    "LearnedPositions",
    "SinusoidalPositions",
    "TokenEmbedding",
    "rotary",
    "sinusoids",
]


class TokenEmbedding(nn.Module):
    """A table of one learned vector per vocabulary entry.

    Args:
        vocab_size: V, the number of rows.
        d_model: D, the length of each row.

    Source: Bengio et al. (2003); seed documents G and T.
    """

    def __init__(self, *, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, ids: Int[Tensor, "b s"]) -> Float[Tensor, "b s d"]:
        """Look up the row of every id.

        Raises:
            TypeError: if the ids are not integers.
            IndexError: if an id lies outside the vocabulary. On a GPU the check would make the
                host wait for the device, so there the device's own assertion raises instead.
        """
        if ids.dtype not in (torch.int32, torch.int64):
            raise TypeError(
                f"ids must be int32 or int64, got {ids.dtype}; use ids.long()"
            )
        if (
            ids.device.type == "cpu"
            and not torch.compiler.is_compiling()
            and ids.numel()
        ):
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= self.vocab_size:
                outside = low if low < 0 else high
                raise IndexError(
                    f"id {outside} is outside the vocabulary of {self.vocab_size} entries; "
                    f"ids must lie in 0..{self.vocab_size - 1} (was the text encoded with "
                    "another tokenizer?)"
                )
        return F.embedding(ids, self.weight)


class LearnedPositions(nn.Module):
    """A table of one learned vector per position, added to the token's vector.

    Args:
        context_length: the number of rows, hence the longest sequence that it can place.
        d_model: D, the length of each row.

    Source: Gehring et al. (2017); used by GPT, GPT-2 and GPT-3.
    """

    def __init__(self, *, context_length: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(context_length, d_model))
        nn.init.normal_(self.weight, std=0.02)

    def forward(
        self, x: Float[Tensor, "b s d"], *, first: int = 0
    ) -> Float[Tensor, "b s d"]:
        """Add row `first + s` to position s of every sequence.

        Raises:
            ValueError: if the sequence is longer than the table; there is no row to add.
        """
        end, context_length = first + x.shape[1], self.weight.shape[0]
        if end > context_length:
            raise ValueError(
                f"a sequence of {end} positions does not fit a table of {context_length} "
                "learned positions; shorten it, or use positions='sinusoidal', 'rotary' or 'none'"
            )
        return x + self.weight[first:end]


def sinusoids(
    length: int,
    *,
    d_model: int,
    base: float = 10_000.0,
    first: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Float[Tensor, "s d"]:
    """Sines and cosines of the position at geometrically spaced frequencies.

    Column 2i holds sin(s / base^(2i/D)) and column 2i + 1 the cosine of the same angle.

    Args:
        length: S, the number of positions.
        d_model: D, even.
        base: the slowest wave's period is about 2 pi base positions.
        first: the position of the first row.
        dtype: of the result; the angles themselves never have less than float32.

    Source: Vaswani et al. (2017), section 3.5.
    """
    angle = _angles(first, length, d_model, base, dtype, device)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).to(dtype)


class SinusoidalPositions(nn.Module):
    """Fixed sinusoids, added to the token's vector; any length works.

    The token's vector is multiplied by sqrt(D) first. It starts out small, and beside sinusoids,
    whose components are of order one, the token itself would hardly be heard.

    Args:
        d_model: D, even.
        base: see `sinusoids`.

    Source: Vaswani et al. (2017), sections 3.4 and 3.5.
    """

    def __init__(self, *, d_model: int, base: float = 10_000.0) -> None:
        super().__init__()
        _check_even(d_model, "d_model")
        self.d_model, self.base = d_model, base

    def forward(
        self, x: Float[Tensor, "b s d"], *, first: int = 0
    ) -> Float[Tensor, "b s d"]:
        """Add the sinusoids of position `first + s` to position s of every sequence."""
        waves = sinusoids(
            x.shape[1],
            d_model=self.d_model,
            base=self.base,
            first=first,
            dtype=x.dtype,
            device=x.device,
        )
        return math.sqrt(self.d_model) * x + waves


def rotary(
    x: Float[Tensor, "b h s k"], *, base: float = 10_000.0, first: int = 0
) -> Float[Tensor, "b h s k"]:
    """Rotate each query or key by angles proportional to its position.

    Dimension i of the first half and dimension i of the second half form a plane; position s
    turns it by s / base^(2i/K). A dot product of a rotated query and a rotated key then depends
    on their distance alone. Angles are computed in float32 at least, whatever the dtype of x: in
    bfloat16 positions beyond 256 would already collide.

    Args:
        x: queries or keys, K even.
        base, first: see `sinusoids`.

    Source: Su et al. (2021), in the half-split layout of GPT-NeoX and Llama.
    """
    _check_even(x.shape[-1], "head_dim")
    angle = _angles(first, x.shape[-2], x.shape[-1], base, x.dtype, x.device)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def _angles(
    first: int,
    length: int,
    dimension: int,
    base: float,
    dtype: torch.dtype,
    device: torch.device | None,
) -> Tensor:
    """Angle of position first + s in plane i, shape (s, dimension / 2), at least float32."""
    _check_even(dimension, "the dimension")
    dtype = torch.promote_types(dtype, torch.float32)
    position = torch.arange(first, first + length, dtype=dtype, device=device)
    plane = torch.arange(0, dimension, 2, dtype=dtype, device=device)
    return position[:, None] * base ** (-plane / dimension)


def _check_even(dimension: int, name: str) -> None:
    if dimension % 2:
        raise ValueError(
            f"{name} is {dimension}, but sines and cosines come in pairs: it must be even"
        )
