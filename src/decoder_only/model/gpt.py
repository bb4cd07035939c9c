"""The whole model: ids in, logits out.

    x = embedding(ids) + positions                     (b, s) -> (b, s, d)
    x = block(x)                   L times             (b, s, d)
    logits = head(final_norm(x))                       (b, s, d) -> (b, s, v)

GPT-2, GPT-3 and a Llama-style model are settings of one class. Chapter 8.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from decoder_only.base.checks import require
from decoder_only.model.attention import attention_mask
from decoder_only.model.block import Block
from decoder_only.model.cache import CachePosition, KeyValueCache
from decoder_only.model.config import GPTConfig
from decoder_only.model.embeddings import (
    LearnedPositions,
    SinusoidalPositions,
    TokenEmbedding,
    rotations,
)
from decoder_only.model.lm_head import LMHead
from decoder_only.model.mlp import MLP, SwiGLU
from decoder_only.model.multihead import MultiHeadAttention
from decoder_only.model.normalization import LayerNorm, RMSNorm

__all__ = ["GPT"]


class GPT(nn.Module):
    """A decoder-only transformer.

    Args:
        config: its shape.
        generator: source of the initial weights; torch's global one of the device that the model
            is made on, by default. One of the CPU gives the same weights on every device.

    Attributes:
        recompute: whether training forgets what happened inside the blocks and computes it again
            in the backward pass (activation checkpointing: Chen et al., 2016): the same gradients,
            a third more work, and memory for one block's activations and every block's input.
        more: names of what a block is handed besides, after the cache.

    Source: Radford et al. (2019); Brown et al. (2020); variants as noted at each part.
    """

    recompute: bool = False
    more: tuple[str, ...] = ()

    def __init__(
        self, config: GPTConfig, *, generator: torch.Generator | None = None
    ) -> None:
        # Refused before anything is made, so that no settings file can exhaust the machine.
        require("n_layers", config.n_layers, lambda n: n <= 4096, "at most 4096")
        device = torch.get_default_device()
        is_meta = device.type == "meta"
        wanted = "at most 2^35 outside the meta device"
        require("n_weights", config.n_weights, lambda n: is_meta or n <= 2**35, wanted)
        super().__init__()
        self.config = config
        # Each part would draw weights of its own, which `initialize` replaced.
        with torch.device("meta"):
            self._build(config)
        for part in self.modules():
            for name, x in list(part.named_parameters(recurse=False)):
                setattr(part, name, nn.Parameter(torch.empty_like(x, device=device)))
        self.initialize(generator)

    def _build(self, config: GPTConfig) -> None:
        sizes = {"vocab_size": config.vocab_size, "d_model": config.d_model}
        self.embedding = TokenEmbedding(**sizes)
        self.positions = _positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            _block(config, layer) for layer in range(config.n_layers)
        )
        # Post-norm blocks end on a norm already.
        pre_norm = config.norm_position == "pre"
        self.final_norm = _norm(config) if pre_norm else nn.Identity()
        scale = 1 / config.width_ratio
        settings = {"tied": config.tied, "soft_cap": config.soft_cap}
        self.head = LMHead(**sizes, **settings, scale=scale)

    def forward(
        self,
        ids: Int[Tensor, "b s"],
        cache: Sequence[KeyValueCache] | None = None,
        *more: Tensor,
        last_only: bool = False,
    ) -> Float[Tensor, "b _ v"]:
        """Logits of the next token at every position.

        Args:
            ids: tokens.
            cache: from `new_cache`; ids then go on where it ends, and it grows by them. For
                generation: no gradient reaches what it holds.
            more: what blocks of another kind are handed besides (`encoders.DecoderBlock`).
            last_only: ask the head for the last position only, which is all that generation reads;
                the result is then of shape (b, 1, v).

        Raises:
            ValueError: for ids of another shape than (b, s), of another dtype than int32 or int64,
                outside the vocabulary (where the host can tell: on the CPU), or more than
                learned positions can place.
        """
        x = self.hidden(ids, cache, *more)
        table = [self.embedding.weight] if self.config.tied else []
        return self.head(x[:, -1:] if last_only else x, *table)

    def hidden(
        self,
        ids: Int[Tensor, "b s"],
        cache: Sequence[KeyValueCache] | None = None,
        *more: Tensor,
    ) -> Float[Tensor, "b s d"]:
        """What the head reads: the residual stream after the last norm. See `forward`."""
        self._check(ids, cache)
        require("len(more)", len(more), len(self.more).__eq__, f"{len(self.more)}")
        length, empty = ids.shape[1], [None] * len(self.blocks)
        positions = None if cache is None else cache[0].position.begin(length)
        x = self.embedding(ids)
        if self.positions is not None:
            x = self.positions(x, positions)
        x = self.dropout(x)
        # What is the same in all blocks is made once: the angles, and a mask for each window.
        turns, masks = self._turns(x, positions), {}
        for block, store in zip(self.blocks, cache or empty, strict=True):
            window = block.attention.window
            if window not in masks:
                masks[window] = self._mask(window, ids, store)
            handed = turns, masks[window], store, *more
            if self.recompute and self.training and store is None:
                x = checkpoint(block, x, *handed, use_reentrant=False)
            else:
                x = block(x, *handed)
        if cache is not None:
            cache[0].position.advance()
        return self.final_norm(x)

    @property
    def head_weight(self) -> Float[Tensor, "v d"]:
        """The matrix that the head reads, the token embedding's if they are tied."""
        return self.embedding.weight if self.config.tied else self.head.weight

    def new_cache(
        self,
        batch_size: int = 1,
        *,
        max_length: int | None = None,
        dtype: torch.dtype | None = None,
        padding: Int[Tensor, "b"] | None = None,
    ) -> list[KeyValueCache]:
        """An empty cache for each block, where the model is.

        Args:
            batch_size: B, sequences that will grow side by side.
            max_length: positions to make room for. By default the context length, or without a
                limit where all blocks have windows, and positions no table.
            dtype: of what is kept; the model's by default.
            padding: see `CachePosition`.

        Raises:
            ValueError: for no positions, or more than learned ones can place.
        """
        config, weight = self.config, self.embedding.weight
        most = {"learned": config.context_length}.get(config.positions, math.inf)
        wanted = f"at most {most}, and 1 or more"
        require("max_length", max_length, lambda n: n is None or 1 <= n <= most, wanted)
        if max_length is None and (most < math.inf or None in config.windows):
            max_length = config.context_length
        sizes = {"n_kv_heads": config.kv_heads, "head_dim": config.head_width}
        sizes |= {"batch_size": batch_size, "dtype": dtype or weight.dtype}
        at = CachePosition(max_length=max_length, padding=padding, device=weight.device)
        windows = (block.attention.window for block in self.blocks)
        return [KeyValueCache(**sizes, position=at, window=w) for w in windows]

    @torch.no_grad()
    def initialize(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights, in the order in which the parameters are named.

        Matrices and tables are normal with standard deviation 0.02, biases zero, norms one. The
        last matrix of every part that adds to the residual stream is scaled by 1 / sqrt(2 L), so
        that the sum of 2 L additions keeps its scale; "zero" starts those, and a head of its own,
        at zero. With a base width, the blocks' matrices shrink as 1 / sqrt(D) beyond it.

        Source: Radford et al. (2019), section 2.3; for the width Yang et al. (2022), table 8.
        """
        std = 0.02
        hidden_std = std / math.sqrt(self.config.width_ratio)
        residual_std = hidden_std / math.sqrt(2 * self.config.n_layers)
        if self.config.initialization == "zero":
            residual_std = 0.0
        for name, parameter in self.named_parameters():
            if parameter.ndim == 1:
                parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
            elif name.endswith(("output.weight", "down.weight")):
                _draw(parameter, 1.0, generator).mul_(residual_std)
            elif name == "head.weight" and self.config.initialization == "zero":
                parameter.zero_()
            else:
                hidden = name.startswith("blocks.")
                _draw(parameter, hidden_std if hidden else std, generator)

    def count_parameters(self) -> int:
        """Parameters that training adjusts, a shared one counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def _check(self, ids: Tensor, cache: Sequence[KeyValueCache] | None) -> None:
        if isinstance(cache, Tensor):
            raise TypeError(
                "a model takes ids and gives logits; the loss is a function of both: "
                "lm_head.next_token_loss(model(inputs), targets)"
            )
        whole, limit = (torch.int32, torch.int64), self.config.vocab_size
        wanted = "(batch, sequence); a single sequence is ids[None]"
        require("ids.shape", tuple(ids.shape), lambda shape: len(shape) == 2, wanted)
        require("ids.dtype", ids.dtype, whole.__contains__, f"one of {whole}")
        if cache is not None:
            rows, wanted = cache[0].batch_size, "the cache's batch_size"
            require("rows of ids", len(ids), lambda n: n == rows, f"{wanted}={rows}")
        elif self.config.positions == "learned":
            room = self.config.context_length
            wanted = f"at most {room} for learned positions"
            require("ids.shape[1]", ids.shape[1], lambda n: n <= room, wanted)
        if ids.is_cpu and not torch.compiler.is_compiling() and ids.numel():
            wanted = f"in 0..{limit - 1}; was the text encoded with another tokenizer?"
            for id in (int(ids.min()), int(ids.max())):
                require("an id", id, lambda id: 0 <= id < limit, wanted)

    def _turns(self, x: Tensor, positions: Tensor | None) -> Tensor | None:
        attention = self.blocks[0].attention
        if attention.rotary_base is None:
            return None
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        settings = {"head_dim": attention.head_dim, "base": attention.rotary_base}
        return rotations(positions, **settings, dtype=x.dtype)

    def _mask(
        self, window: int | None, ids: Tensor, store: KeyValueCache | None
    ) -> Tensor | None:
        length = ids.shape[1]
        if store is not None:
            return store.mask()
        if window is None or window >= length:
            return None  # as wide as all there is
        return attention_mask(length, length, window=window, device=ids.device)


def _draw(x: Tensor, std: float, generator: torch.Generator | None) -> Tensor:
    """Normal numbers, on the generator's device and from there to the tensor's own."""
    if generator is None or generator.device == x.device or x.is_meta:
        return x.normal_(std=std, generator=generator)
    drawn = torch.empty_like(x, device=generator.device)
    return x.copy_(drawn.normal_(std=std, generator=generator))


def _norm(config: GPTConfig) -> LayerNorm | RMSNorm:
    if config.norm == "rms":
        return RMSNorm(d_model=config.d_model, eps=config.norm_eps)
    return LayerNorm(d_model=config.d_model, eps=config.norm_eps, bias=config.bias)


def _positions(config: GPTConfig) -> LearnedPositions | SinusoidalPositions | None:
    length, width = config.context_length, config.d_model
    if config.positions == "learned":
        return LearnedPositions(context_length=length, d_model=width)
    if config.positions == "sinusoidal":
        return SinusoidalPositions(d_model=width, base=config.position_base)
    return None  # rotary turns queries and keys inside each block


def _block(config: GPTConfig, layer: int) -> Block:
    sizes = {"d_model": config.d_model, "bias": config.bias}
    attention = MultiHeadAttention(
        **sizes,
        n_heads=config.n_heads,
        n_kv_heads=config.kv_heads,
        head_dim=config.head_width,
        window=config.windows[layer % len(config.windows)],
        rotary_base=config.position_base if config.positions == "rotary" else None,
        qk_norm=config.qk_norm,
        norm_eps=config.norm_eps,
        scale=config.attention_scale,
        dropout=config.dropout,
    )
    sizes["d_mlp"] = config.mlp_width
    gated = config.activation == "swiglu"
    return Block(
        attention=attention,
        mlp=SwiGLU(**sizes) if gated else MLP(**sizes, activation=config.activation),
        attention_norm=_norm(config),
        mlp_norm=_norm(config),
        pre_norm=config.norm_position == "pre",
        dropout=config.dropout,
    )
