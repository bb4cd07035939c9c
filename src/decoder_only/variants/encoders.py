"""The family that the decoder left: models that look both ways, and two that work as one.

    encoder          every position sees every other          one mask, and nothing else, is new
    decoder          sees its past, and all of a source       one more attention in each block
    masked model     an encoder that fills in words           P(word | both sides)

An encoder is a `GPT` with another mask. A decoder of the original transformer is a `GPT` whose
blocks read from a source between attention and MLP, by cross-attention: queries from the text that
is being written, keys and values from the encoder. Chapter 11.
"""

from collections.abc import Collection
from copy import deepcopy
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from decoder_only.base.modes import restored_modes
from decoder_only.model.attention import attention_mask
from decoder_only.model.block import Block
from decoder_only.model.cache import KeyValueCache
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import LMHead
from decoder_only.model.mlp import ACTIVATIONS
from decoder_only.model.multihead import MultiHeadAttention
from decoder_only.model.normalization import LayerNorm, RMSNorm


class Encoder(GPT):
    """A `GPT` that looks both ways: each position sees all that are not padding.

    Later tokens change the keys and values of earlier ones, so it has no cache and does not
    generate.

    Args:
        config, generator: see `GPT`.
        pad_id: the token that fills up short rows at their ends, and is seen by none; None where
            there is no padding.

    Raises:
        ValueError: the id is outside the vocabulary, or the forward pass is given a cache.

    Source: Vaswani et al. (2017), section 3.1.
    """

    def __init__(
        self,
        config: GPTConfig,
        *,
        pad_id: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if pad_id is not None:
            _check_id("pad_id", pad_id, config.vocab_size)
        super().__init__(config, generator=generator)
        self.pad_id = pad_id

    def _mask(
        self, window: int | None, ids: Tensor, cache: KeyValueCache | None
    ) -> Bool[Tensor, "*b s t"]:
        if cache is not None:
            reason = "in an encoder a new token changes the keys of those before it"
            raise ValueError(f"cache={cache} must be None: {reason}")
        settings = {"window": window, "device": ids.device}
        padding = None if self.pad_id is None else ids != self.pad_id
        length = ids.shape[1]
        return attention_mask(length, length, causal=False, padding=padding, **settings)


class DecoderBlock(Block):
    """A block that also reads from a source: attention, cross-attention, MLP.

        pre-norm:   x = x + cross(norm(x), source)
        post-norm:  x = norm(x + cross(x, source))      between attention and MLP

    Args:
        cross: attention whose queries come from the stream, keys and values from the source.
        cross_norm: its normalization.
        parts: see `Block`.

    Source: Vaswani et al. (2017), section 3.1.
    """

    def __init__(
        self,
        *,
        cross: MultiHeadAttention,
        cross_norm: LayerNorm | RMSNorm,
        **parts: nn.Module | bool | float,
    ) -> None:
        super().__init__(**parts)
        self.cross, self.cross_norm = cross, cross_norm

    def forward(
        self,
        x: Float[Tensor, "b s d"],
        *,
        source: Float[Tensor, "b t d"],
        is_seen: Bool[Tensor, "b t"],
        rotation: Float[Tensor, "2 ... s _"] | None = None,
        mask: Bool[Tensor, "*b s _"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "b s d"]:
        """Add what attention gathers, what cross-attention reads, and what the MLP makes of it.

        Args:
            x: the residual stream of the target, S positions.
            source: the encoder's output for T positions; T need not be S.
            is_seen: False where the source is padding.
            rotation, mask, cache: see `MultiHeadAttention.forward`.
        """
        sizes = x.shape[1], source.shape[1]
        seen = attention_mask(*sizes, causal=False, padding=is_seen, device=x.device)
        inputs = {"rotation": rotation, "mask": mask, "cache": cache}
        x = self._add(x, self.attention, self.attention_norm, **inputs)
        x = self._add(x, self.cross, self.cross_norm, mask=seen, source=source)
        return self._add(x, self.mlp, self.mlp_norm)

    def _add(
        self, x: Tensor, part: nn.Module, norm: nn.Module, **inputs: object
    ) -> Tensor:
        if self.pre_norm:
            return x + self.dropout(part(norm(x), **inputs))
        return norm(x + self.dropout(part(x, **inputs)))


class Decoder(GPT):
    """A `GPT` whose blocks read from a source: `decoder(ids, source=..., is_seen=...)`.

    Without cross-attention it is a `GPT`, to the name of every weight. Padding after a target
    needs no mask: later positions are not seen.

    Args:
        config, generator: see `GPT`. Cross-attention has the heads of the attention before it,
            and no rotation, since distances between two texts mean nothing.
    """

    def _build(self, config: GPTConfig) -> None:
        super()._build(config)
        self.blocks = nn.ModuleList(_reading(block) for block in self.blocks)


def _reading(block: Block) -> DecoderBlock:
    cross = deepcopy(block.attention)
    cross.rotary_base = None
    return DecoderBlock(
        cross=cross,
        cross_norm=deepcopy(block.attention_norm),
        attention=block.attention,
        attention_norm=block.attention_norm,
        mlp=block.mlp,
        mlp_norm=block.mlp_norm,
        pre_norm=block.pre_norm,
        dropout=block.dropout.p,
    )


class EncoderDecoder(nn.Module):
    """The original transformer: one half reads a text, the other writes another.

        source (b, t) -> encoder -> (b, t, d)
        target (b, s), and that -> decoder -> logits of the target's next token (b, s, v)

    Args:
        config: of both halves. `GPTConfig(positions="sinusoidal", norm_position="post",
            activation="relu", ...)` is the original's; tied, as there, the head reads the table
            of the target.
        pad_id: the token that fills up short rows of either text at their ends.
        n_encoder_layers: blocks of the encoder; as many as the decoder's by default.
        source_vocab_size: vocabulary of the source, which then has a table of its own; None for
            one vocabulary and one table for both.
        generator: source of the initial weights; see `GPT`.

    Raises:
        ValueError: for a value that cannot work, or windows, through which a source would be seen
            in part.

    Source: Vaswani et al. (2017).
    """

    def __init__(
        self,
        config: GPTConfig,
        *,
        pad_id: int = 0,
        n_encoder_layers: int | None = None,
        source_vocab_size: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if {*config.windows} != {None}:
            windows = config.windows
            raise ValueError(f"{windows=} must be (None,): a source is seen whole")
        _check_id("pad_id", pad_id, config.vocab_size)
        other = {"n_layers": n_encoder_layers, "vocab_size": source_vocab_size}
        other = {name: size for name, size in other.items() if size is not None}
        super().__init__()
        self.config, self.pad_id = config, pad_id
        settings = replace(config, tied=True, **other)  # its head is not used
        self.encoder = Encoder(settings, pad_id=pad_id, generator=generator)
        self.decoder = Decoder(config, generator=generator)
        if source_vocab_size is None:
            self.encoder.embedding = self.decoder.embedding

    def forward(
        self, source: Int[Tensor, "b t"], target: Int[Tensor, "b s"]
    ) -> Float[Tensor, "b s v"]:
        """Logits of the target's next token at each of its positions, for training at once.

        Args:
            source: the text to read.
            target: the text to write, from its start token on.

        Raises:
            ValueError: the rows do not belong together, or ids that `GPT.forward` refuses.
        """
        if len(target) != len(source):
            raise ValueError(f"target rows={len(target)} must be {len(source)}")
        memory, is_seen = self.read(source)
        return self.decoder(target, source=memory, is_seen=is_seen)

    def read(
        self, source: Int[Tensor, "b t"]
    ) -> tuple[Float[Tensor, "b t d"], Bool[Tensor, "b t"]]:
        """The decoder's inputs: the encoder's last vectors, and which are not padding."""
        return self.encoder.hidden(source), source != self.pad_id

    def given(self, source: Int[Tensor, "b t"]) -> nn.Module:
        """The decoder with a source read once, for `generation.generate` and `beam_search`.

        Args:
            source: a row for each row that will be written, or one for all.
        """
        with restored_modes(self.encoder), torch.no_grad():
            self.encoder.eval()
            return _Given(self.decoder, *self.read(source))


class _Given(nn.Module):
    """A decoder with its source, which has the interface of a `GPT`."""

    def __init__(self, decoder: Decoder, memory: Tensor, is_seen: Tensor) -> None:
        super().__init__()
        self.decoder, self.config = decoder, decoder.config
        self.new_cache, self.source = decoder.new_cache, (memory, is_seen)

    def forward(
        self,
        ids: Int[Tensor, "b s"],
        cache: list[KeyValueCache] | None = None,
        *,
        last_only: bool = False,
    ) -> Float[Tensor, "b _ v"]:
        memory, is_seen = (x.expand(len(ids), *x.shape[1:]) for x in self.source)
        source = {"source": memory, "is_seen": is_seen}
        return self.decoder(ids, cache, **source, last_only=last_only)


class MaskedModel(Encoder):
    """BERT: an encoder that says which word stood where one is hidden, from both sides.

    Beside the encoder it has a norm after the embeddings, and a head with a layer of its own.

    Args:
        config, pad_id, generator: see `Encoder`. BERT's are `GPTConfig(norm_position="post",
            activation="gelu", norm_eps=1e-12, ...)`, with learned positions.

    Source: Devlin et al. (2019). Segments, of which texts of one kind have one, are left out:
    their vector would be added to every position's.
    """

    def _build(self, config: GPTConfig) -> None:
        super()._build(config)
        norm = deepcopy(self.blocks[0].mlp_norm)
        self.positions = _Normalized(self.positions, norm)
        self.head = MaskedHead(config, deepcopy(norm), self.head)


class _Normalized(nn.Module):
    """Position embeddings, and a norm after them."""

    def __init__(self, positions: nn.Module | None, norm: LayerNorm | RMSNorm) -> None:
        super().__init__()
        self.inner, self.norm = positions, norm

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        return self.norm(x if self.inner is None else self.inner(x, positions))


class MaskedHead(nn.Module):
    """BERT's head: a layer, the activation and a norm, then one logit per entry, with an offset.

    Args:
        config: of the model.
        norm: after the layer.
        head: from there to the logits.

    Source: Devlin et al. (2019), by their published code.
    """

    def __init__(
        self, config: GPTConfig, norm: LayerNorm | RMSNorm, head: LMHead
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = ACTIVATIONS.get(config.activation, F.silu)
        self.norm, self.logits = norm, head
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    @property
    def weight(self) -> Float[Tensor, "v d"] | None:
        """The matrix of a head that is not tied."""
        return self.logits.weight

    def forward(
        self, x: Float[Tensor, "*b d"], table: Float[Tensor, "v d"] | None = None
    ) -> Float[Tensor, "*b v"]:
        """Unnormalized log-probabilities of the word at each position. See `LMHead.forward`."""
        x = self.norm(self.activation(self.dense(x)))
        return self.logits(x, table) + self.bias


def mask_tokens(
    ids: Int[Tensor, "b s"],
    *,
    mask_id: int,
    vocab_size: int,
    keep: Collection[int] = (),
    rate: float = 0.15,
    shares: tuple[float, float] = (0.8, 0.1),
    ignore_index: int = -1,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "b s"], Int[Tensor, "b s"]]:
    """Inputs with some tokens hidden, and targets: the hidden tokens.

    Of the tokens that are asked for, most are replaced by the mask, some by a token drawn at
    random, and the others stay. In use the model meets no mask, or one. So it must learn that an
    input may be wrong, and that a target may come after any input.

    Args:
        ids: the texts, on the CPU.
        mask_id: the token that hides another.
        vocab_size: V; random tokens are drawn from all of it but `keep` and the mask.
        keep: tokens that are never asked for, such as padding.
        rate: fraction of the tokens that is asked for; above 0, at most 1.
        shares: fractions of these that become the mask, and a random token; at most 1 together.
        ignore_index: the target where nothing is asked; as in `next_token_loss`.
        generator: source of the draws, on the CPU; torch's global one by default.

    Returns:
        Inputs and targets for `next_token_loss`, which is a cross-entropy wherever the targets
        come from.

    Raises:
        ValueError: a rate, shares or an id that cannot work.

    Source: Devlin et al. (2019), section 3.1.
    """
    _check_id("mask_id", mask_id, vocab_size)
    if not 0 < rate <= 1:
        raise ValueError(f"{rate=} must be above 0 and at most 1")
    if not (min(shares) >= 0 and sum(shares) <= 1 + 1e-9):
        raise ValueError(f"{shares=} must be 0 or more, and at most 1 together")
    never = {*keep, mask_id}
    ordinary = torch.tensor([v for v in range(vocab_size) if v not in never])
    if not len(ordinary):
        raise ValueError(f"{keep=} must be such that other tokens are left")
    settings = {"generator": generator}
    asked = torch.rand(ids.shape, **settings) < rate
    asked &= ~torch.isin(ids, torch.tensor([*never]))
    uniform = torch.rand(ids.shape, **settings)
    drawn = ordinary[torch.randint(len(ordinary), ids.shape, **settings)]
    masked = asked & (uniform < shares[0])
    replaced = asked & ~masked & (uniform < sum(shares))
    inputs = ids.masked_fill(masked, mask_id).where(~replaced, drawn.to(ids.dtype))
    return inputs, ids.masked_fill(~asked, ignore_index)


def _check_id(name: str, id: int, vocab_size: int) -> None:
    if id not in range(vocab_size):
        raise ValueError(f"{name}={id!r} must be in 0..{vocab_size - 1}")
