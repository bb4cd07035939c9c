"""Token ids become vectors, and vectors get a position.

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


def fresh_table(n_rows: int, d_model: int) -> nn.Parameter:
    """Normal numbers of standard deviation 0.02; on the meta device none, which would be slow."""
    table = torch.empty(n_rows, d_model)
    return nn.Parameter(table if table.is_meta else table.normal_(std=0.02))


class TokenEmbedding(nn.Module):
    """A table of one learned vector per vocabulary entry.

    Args:
        vocab_size: V, the number of rows.
        d_model: D, the length of each row.

    Source: Bengio et al. (2003); Arya (2024).
    """

    def __init__(self, *, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight = fresh_table(vocab_size, d_model)

    def forward(self, ids: Int[Tensor, "b s"]) -> Float[Tensor, "b s d"]:
        """Look up the row of every id."""
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
        self.weight = fresh_table(context_length, d_model)

    def forward(
        self, x: Float[Tensor, "b s d"], positions: Int[Tensor, "*b s"] | None = None
    ) -> Float[Tensor, "b s d"]:
        """Add to every vector the row of its position, 0 to S - 1 by default."""
        if positions is None:
            return x + self.weight[: x.shape[1]]
        return x + F.embedding(positions, self.weight)


def sinusoids(
    positions: Int[Tensor, "*b s"],
    *,
    d_model: int,
    base: float = 10_000.0,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "*b s d"]:
    """Sines and cosines of positions at geometrically spaced frequencies.

    Column 2i holds sin(s / base^(2i/D)) and column 2i + 1 the cosine of the same angle.

    Args:
        positions: s, for one sequence or for each row of a batch.
        d_model: D, even.
        base: the slowest wave's period is about 2 pi base positions.
        dtype: of the result; the angles themselves never have less than float32.

    Source: Vaswani et al. (2017), section 3.5.
    """
    angle = _angles(positions, d_model, base, dtype)
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
        self.d_model, self.base = d_model, base

    def forward(
        self, x: Float[Tensor, "b s d"], positions: Int[Tensor, "*b s"] | None = None
    ) -> Float[Tensor, "b s d"]:
        """Add to every vector the sinusoids of its position, 0 to S - 1 by default."""
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        waves = sinusoids(
            positions, d_model=self.d_model, base=self.base, dtype=x.dtype
        )
        return math.sqrt(self.d_model) * x + waves


def rotations(
    positions: Int[Tensor, "*b s"],
    *,
    head_dim: int,
    base: float = 10_000.0,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "2 ... s _"]:
    """Cosines and sines of the angles by which `rotary` rotates queries and keys.

    They are the same in all heads and all blocks, so a model asks for them once.

    Args:
        positions, base, dtype: see `sinusoids`. The result has float32 at least: in bfloat16
            positions beyond 256 would already collide.
        head_dim: K, even.
    """
    angle = _angles(positions, head_dim, base, dtype).unsqueeze(-3)  # for all heads
    return torch.stack([angle.cos(), angle.sin()])


def rotary(
    x: Float[Tensor, "b h s k"],
    rotation: Float[Tensor, "2 ... s _"] | None = None,
    *,
    base: float = 10_000.0,
) -> Float[Tensor, "b h s k"]:
    """Rotate each query or key by angles proportional to its position.

    Dimension i of the first half and dimension i of the second half form a plane; position s
    rotates it by s / base^(2i/K). A dot product of a rotated query and a rotated key then depends
    on their distance alone.

    Args:
        x: queries or keys, K even.
        rotation: what `rotations` gives for their positions; by default for 0 to S - 1 and `base`.

    Source: Su et al. (2021), whose planes are pairs of neighbours, as in Meta's Llama; the
    half-split layout here is that of GPT-NeoX, and of Llama as Hugging Face stores it.
    """
    if rotation is None:
        positions = torch.arange(x.shape[-2], device=x.device)
        rotation = rotations(positions, head_dim=x.shape[-1], base=base, dtype=x.dtype)
    (cos, sin), (first, second) = rotation, x.chunk(2, dim=-1)
    rotated = [first * cos - second * sin, second * cos + first * sin]
    return torch.cat(rotated, dim=-1).to(x.dtype)


def _angles(positions: Tensor, width: int, base: float, dtype: torch.dtype) -> Tensor:
    """Angle of each position in plane i, shape (..., width / 2), at least float32."""
    if width % 2:
        raise ValueError(f"{width=} must be even: waves come in pairs")
    dtype = torch.promote_types(dtype, torch.float32)
    plane = torch.arange(0, width, 2, dtype=dtype, device=positions.device)
    return positions[..., None].to(dtype) * base ** (-plane / width)
