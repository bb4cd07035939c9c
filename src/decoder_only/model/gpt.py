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

from decoder_only.model.attention import attention_mask
from decoder_only.model.block import Block
from decoder_only.model.cache import CachePosition, KeyValueCache
from decoder_only.model.config import GPTConfig
from decoder_only.model.counting import count_parameters
from decoder_only.model.embeddings import (
    LearnedPositions,
    SinusoidalPositions,
    TokenEmbedding,
)
from decoder_only.model.lm_head import LMHead
from decoder_only.model.mlp import MLP, SwiGLU
from decoder_only.model.multihead import MultiHeadAttention
from decoder_only.model.normalization import LayerNorm, RMSNorm


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

    Source: Radford et al. (2019); Brown et al. (2020); variants as noted at each part.
    """

    recompute: bool = False

    def __init__(
        self, config: GPTConfig, *, generator: torch.Generator | None = None
    ) -> None:
        # Refused before anything is made, so that no settings file can exhaust the machine.
        n_layers, device = config.n_layers, torch.get_default_device()
        n_weights = sum(count_parameters(config).values())
        if n_layers > 4096:
            raise ValueError(f"{n_layers=} must be at most 4096")
        if n_weights > 2**35 and device.type != "meta":
            raise ValueError(f"{n_weights=} must be at most 2^35 outside meta")
        super().__init__()
        self.config = config
        # Each part would draw weights of its own, which `initialize` replaced.
        with torch.device("meta"):
            self._build(config)
        for part in self.modules():
            for name, x in list(part.named_parameters(recurse=False)):
                # PyTorch would import for two seconds before an `empty_like` of meta.
                setattr(part, name, nn.Parameter(x.new_empty(x.shape, device=device)))
        if device.type != "meta":
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
        *,
        last_only: bool = False,
        **block_inputs: Tensor,
    ) -> Float[Tensor, "b _ v"]:
        """Logits of the next token at every position.

        Args:
            ids: tokens.
            cache: from `new_cache`; ids then go on where it ends, and it grows by them. For
                generation: no gradient reaches what it holds.
            last_only: ask the head for the last position only, which is all that generation reads;
                the result is then of shape (b, 1, v).
            block_inputs: what blocks of another kind read besides, such as the source of an
                `encoders.DecoderBlock`.

        Raises:
            ValueError: for ids of another shape than (b, s), of another dtype than int32 or int64,
                outside the vocabulary (where the host can tell: on the CPU), or more than
                learned positions can place.
        """
        x = self.hidden(ids, cache, **block_inputs)
        x = x[:, -1:] if last_only else x
        if self.config.tied:
            return self.head(x, self.embedding.weight)
        return self.head(x)

    def hidden(
        self,
        ids: Int[Tensor, "b s"],
        cache: Sequence[KeyValueCache] | None = None,
        **block_inputs: Tensor,
    ) -> Float[Tensor, "b s d"]:
        """What the head reads: the residual stream after the last norm. See `forward`."""
        self._check(ids, cache)
        caches = [None] * len(self.blocks) if cache is None else cache
        positions = None if cache is None else cache[0].position.begin(ids.shape[1])
        x = self.embedding(ids)
        if self.positions is not None:
            x = self.positions(x, positions)
        x = self.dropout(x)
        # The same for all blocks, so made once: the rotation, and a mask for each window.
        rotation, masks = self.blocks[0].attention.rotation(x, positions), {}
        for block, block_cache in zip(self.blocks, caches, strict=True):
            window = block.attention.window
            if window not in masks:
                masks[window] = self._mask(window, ids, block_cache)
            inputs = {"rotation": rotation, "mask": masks[window], "cache": block_cache}
            if self.recompute and self.training and cache is None:
                x = checkpoint(block, x, use_reentrant=False, **inputs, **block_inputs)
            else:
                x = block(x, **inputs, **block_inputs)
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
        is_learned = config.positions == "learned"
        most = config.context_length if is_learned else math.inf
        if max_length is None and (is_learned or None in config.windows):
            max_length = config.context_length
        if max_length is not None and not 1 <= max_length <= most:
            raise ValueError(f"{max_length=} must be at most {most}, and 1 or more")
        at = CachePosition(max_length=max_length, padding=padding, device=weight.device)
        heads = {"n_kv_heads": config.kv_heads, "head_dim": config.head_width}
        rows = {"batch_size": batch_size, "dtype": dtype or weight.dtype}
        windows = (block.attention.window for block in self.blocks)
        return [KeyValueCache(**heads, **rows, position=at, window=w) for w in windows]

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
            loss = "lm_head.next_token_loss(model(inputs), targets)"
            raise TypeError(f"a model takes ids and gives logits; the loss is {loss}")
        if ids.ndim != 2:
            shape = "(batch, sequence); a single sequence is ids[None]"
            raise ValueError(f"ids.shape={tuple(ids.shape)} must be {shape}")
        if ids.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"ids.dtype={ids.dtype} must be int32 or int64 of torch")
        n_rows, length = ids.shape
        if cache is not None:
            batch_size = cache[0].batch_size
            if n_rows != batch_size:
                raise ValueError(f"rows of ids={n_rows} must be the {batch_size=}")
        elif self.config.positions == "learned" and length > self.config.context_length:
            limit = f"{self.config.context_length} for learned positions"
            raise ValueError(f"ids.shape[1]={length} must be at most {limit}")
        if ids.is_cpu and not torch.compiler.is_compiling() and ids.numel():
            last = self.config.vocab_size - 1
            for id in (int(ids.min()), int(ids.max())):
                if not 0 <= id <= last:
                    reason = "was the text encoded with another tokenizer?"
                    raise ValueError(f"an id={id} must be in 0..{last}; {reason}")

    def _mask(
        self, window: int | None, ids: Tensor, cache: KeyValueCache | None
    ) -> Tensor | None:
        length = ids.shape[1]
        if cache is not None:
            return cache.mask()
        if window is None or window >= length:
            return None  # as wide as all there is
        return attention_mask(length, length, window=window, device=ids.device)


def _draw(x: Tensor, std: float, generator: torch.Generator | None) -> Tensor:
    """Normal numbers, on the generator's device and from there to the tensor's own."""
    if generator is None or generator.device == x.device:
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
    return None  # rotary positions act on queries and keys, inside each block


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
