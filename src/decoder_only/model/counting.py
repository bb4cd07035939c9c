"""Count it before it exists: a model's parameters, operations, bytes and seconds.

    parameters = D V + D S + 12 L D^2 + ...      exactly, by component, for every variant
    operations = 6 N a token of training, and what attention adds
    bytes      = weights, gradients, optimizer, activations; the cache when it writes
    seconds    = the longer of operations / peak and bytes / bandwidth

Nothing here builds a model. The test-suite does, and compares. Chapter 10.
"""

import math
from dataclasses import dataclass, replace

from decoder_only.base.hardware import Device
from decoder_only.model.config import GPTConfig


def count_parameters(config: GPTConfig) -> dict[str, int]:
    """Parameters by component; their sum is `GPT(config).count_parameters()`.

    Returns:
        "embedding", "positions", "attention" and "mlp" of all blocks, "norms", and
        "head", which is 0 where it reads the embedding.

    Source: post P, which leaves the norms out; Kaplan et al. (2020), table 1.
    """
    d, k, f = config.d_model, config.head_width, config.mlp_width
    h, g = config.n_heads, config.kv_heads
    bias = 1 if config.bias else 0
    attention = (h + 2 * g) * k * (d + bias) + d * (h * k + bias)
    n_up = 2 if config.activation == "swiglu" else 1  # a gate is as large as the way up
    mlp = n_up * f * (d + bias) + d * (f + bias)
    norm = d * (2 if config.norm == "layer" and config.bias else 1)
    n_norms = 2 * config.n_layers + (1 if config.norm_position == "pre" else 0)
    head_norms = 2 * k * config.n_layers if config.qk_norm else 0
    return {
        "embedding": d * config.vocab_size,
        "positions": d * config.context_length if config.positions == "learned" else 0,
        "attention": config.n_layers * attention,
        "mlp": config.n_layers * mlp,
        "norms": n_norms * norm + head_norms,
        "head": 0 if config.tied else d * config.vocab_size,
    }


def visible_pairs(
    length: int, *, past: int = 0, window: int | None = None, causal: bool = True
) -> int:
    """Pairs of a query and a key that it may see: entries of the mask that are true.

    Args:
        length: S, queries, which come after the past.
        past: keys before the first query.
        window: see `attention.attention_mask`.
        causal: False counts all S (past + S), whatever the window, which a kernel that
            does not skip computes.
    """
    if not causal:
        return length * (past + length)
    if window is None:
        window = past + length
    # Query i sees past + i + 1 keys, until the window is full.
    n_growing = min(max(window - past, 0), length)
    growing = n_growing * past + n_growing * (n_growing + 1) // 2
    return growing + (length - n_growing) * window


def count_flops(
    config: GPTConfig, length: int, *, past: int = 0, causal: bool = True
) -> dict[str, int]:
    """Operations of matrix products when one sequence goes forward through the model.

    A product of (m, k) and (k, n) is 2 m k n operations, one multiplication and one
    addition for each pair. Backward takes twice as many: a product for the gradient of
    either factor. Norms, activations and the softmax are left out, some per cent in
    small models.

    Args:
        length: S, positions that are computed.
        past: positions whose keys and values are in the cache.
        causal: count visible pairs only; False counts all, as kernels that compute the whole
            square do, and as PyTorch's counter does.

    Returns:
        "projections" and "attention" (scores, and the mixing of values), "mlp", "head".

    Source: Kaplan et al. (2020), table 1.
    """
    d, k, f = config.d_model, config.head_width, config.mlp_width
    h, g = config.n_heads, config.kv_heads
    n_pairs = 0
    for window in _windows(config):
        # A window's ring keeps only the window, the key of a lone query included.
        cached = past if causal or not window else min(past, window - (length == 1))
        n_pairs += visible_pairs(length, past=cached, window=window, causal=causal)
    n_matrices = 3 if config.activation == "swiglu" else 2
    return {
        "projections": 2 * length * config.n_layers * d * k * (2 * h + 2 * g),
        "attention": 2 * n_pairs * 2 * h * k,
        "mlp": 2 * length * config.n_layers * n_matrices * d * f,
        "head": 2 * length * d * config.vocab_size,
    }


def _windows(config: GPTConfig) -> list[int | None]:
    """The window of each block."""
    return [config.windows[i % len(config.windows)] for i in range(config.n_layers)]


# Bytes of a number in matrix products, by the format that they run in.
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def activation_bytes(
    config: GPTConfig,
    batch_size: int,
    length: int,
    *,
    number_format: str = "float32",
    recompute: bool = False,
) -> dict[str, int]:
    """What a forward pass saves for the backward pass, by component.

    Each product saves its factors, each norm and each nonlinearity its input. In a
    16-bit format the products' factors shrink, copies of the weights included; the
    residual stream and the log-probabilities stay in float32. Counted as PyTorch 2.13
    executes this package without compiling it. Other versions save other things of an
    RMS norm (2.6: up to 15% more or less).

    Args:
        batch_size, length: B and S.
        number_format: "float32", "bfloat16" or "float16", of the matrix products.
        recompute: save the input of each block only, and compute the rest of it again
            in backward. Then the activations of one block exist at a time, and those of
            the largest are counted.

    Returns:
        "attention", "mlp" and "norms" of all blocks, "head" (with the loss), and
        "weights", the copies in 16 bits. The inputs that recomputing saves are among
        "norms".

    Raises:
        ValueError: for another format, for post-norm, or with dropout, which are not
            counted.

    Source: Korthikanti et al. (2022), section 4, for the method.
    """
    if number_format not in _BYTES:
        raise ValueError(f"{number_format=} must be one of {', '.join(_BYTES)}")
    if config.dropout:
        raise ValueError(f"dropout={config.dropout} must be 0: masks are not counted")
    if config.norm_position != "pre":
        raise ValueError(f"norm_position={config.norm_position!r} must be 'pre'")
    b, n_positions = _BYTES[number_format], batch_size * length
    d, v = config.d_model, config.vocab_size
    n_saved = 1 if recompute else config.n_layers  # blocks that are saved whole
    block = _block_bytes(config, b)
    saved = {name: n_positions * n_saved * each for name, each in block.items()}
    if config.positions == "rotary":  # cosines and sines, the same in all blocks
        saved["attention"] += 2 * length * (config.head_width // 2) * 4
    saved["attention"] += _mask_bytes(config, length, b, recompute)
    if recompute:  # the inputs of the other blocks
        saved["norms"] += n_positions * (config.n_layers - 1) * d * 4
    # The head's input, the norm before it, log-probabilities and targets.
    head = _norm_bytes(config) + d * b + v * 4 + 8
    if config.soft_cap is not None:
        head += v * b
    saved["head"] = n_positions * head
    copied = _block_matrices(config) // config.n_layers * n_saved + v * d
    saved["weights"] = 0 if b == 4 else copied * b
    return saved


def _block_bytes(config: GPTConfig, b: int) -> dict[str, int]:
    """What one block saves for each position, where products read numbers of b bytes."""
    d, k, f = config.d_model, config.head_width, config.mlp_width
    h, g = config.n_heads, config.kv_heads
    # Queries and attention's output, keys and values; the log of each row's sum.
    attention = (2 * h + 2 * g) * k * b + h * 4
    if config.qk_norm:
        attention += (h + g) * (2 * k + 1) * 4
    # Rotated or normalized heads are separate in memory, and are copied to be joined.
    if h > 1 and (config.qk_norm or config.positions == "rotary"):
        attention += h * k * b
    # The outputs of `up` and the gate, and the input of `down`; ReLU saves only the last.
    mlp = f * b * {"swiglu": 4, "relu": 1}.get(config.activation, 2)
    # A norm's output is saved once, or once for each product that casts it to 16 bits.
    n_casts = (1, 1) if b == 4 else (3, 2 if config.activation == "swiglu" else 1)
    return {
        "attention": attention + n_casts[0] * d * b,
        "mlp": mlp + n_casts[1] * d * b,
        "norms": 2 * _norm_bytes(config),
    }


def _mask_bytes(config: GPTConfig, length: int, b: int, recompute: bool) -> int:
    """A window shorter than the text needs a mask, made of numbers that are added to scores."""
    windows = [w for w in _windows(config) if w is not None and w < length]
    masks = length * length * b * (min(len(windows), 1) if recompute else len(windows))
    # The masks of all blocks before they are made numbers, one for each width.
    return masks + (length * length * len(set(windows)) if recompute else 0)


def flops_per_token(config: GPTConfig) -> int:
    """Floating-point operations of training on one token: 6 N + 12 L H K S.

    Six for each of the N weights of matrix products, those of the blocks and the head: two in the
    forward pass, four in backward. And the products of queries, keys and values over the whole
    context, whether the mask uses them or not. It is the field's convention for MFU, so that
    figures compare; `count_flops` counts what is really computed.

    Source: Kaplan et al. (2020), appendix B; Chowdhery et al. (2022), appendix B.
    """
    matrices = _block_matrices(config) + config.d_model * config.vocab_size
    width = config.n_heads * config.head_width
    return 6 * matrices + 12 * config.n_layers * width * config.context_length


def _block_matrices(config: GPTConfig) -> int:
    """Parameters of the blocks' linear maps, without offsets."""
    counted = count_parameters(replace(config, bias=False))
    return counted["attention"] + counted["mlp"]


def _norm_bytes(config: GPTConfig) -> int:
    """Per position: its input and two statistics; RMSNorm keeps its output and one."""
    if config.norm == "layer":
        return 4 * (config.d_model + 2)
    return 4 * (2 * config.d_model + 1)


def training_bytes(
    config: GPTConfig,
    batch_size: int,
    length: int | None = None,
    *,
    number_format: str = "bfloat16",
    optimizer: str = "adamw",
    recompute: bool = False,
    loss_slices: int = 1,
    compiled: bool = False,
) -> dict[str, int]:
    """The most bytes that training holds in memory, which it does when backward begins.

    Uncompiled, three float32 arrays of B S V numbers exist at once: the
    log-probabilities, their gradient, and the logits'. A loss in slices never holds
    those of the whole batch, but three of a slice (three and a half in 16 bits), and
    the gradients of hidden states and head, which it makes at once. Compiled, the
    logits are held once, in the format of the products. Measured with PyTorch 2.13 on a
    CPU.

    Args:
        batch_size: B, sequences that are computed at a time, after accumulation.
        length: S; the context length by default.
        number_format, recompute: see `activation_bytes`.
        optimizer: "adamw" has two numbers for each parameter, "muon" one for a
            matrix's.
        loss_slices: parts of the loss; see `lm_head.sliced_next_token_loss`.
        compiled: what fusing saves elsewhere, a tenth or so, is not counted.

    Returns:
        "weights", "gradients", "optimizer", "activations", and "loss", what its
        backward pass adds to them.

    Raises:
        ValueError: for another optimizer, and as `activation_bytes` does.
    """
    if optimizer not in ("adamw", "muon"):
        raise ValueError(f"{optimizer=} must be 'adamw' or 'muon'")
    length = length or config.context_length
    n_parameters = sum(count_parameters(config).values())
    n_without_second = _block_matrices(config) if optimizer == "muon" else 0
    saved = activation_bytes(
        config, batch_size, length, number_format=number_format, recompute=recompute
    )
    stream = 4 * batch_size * length * config.d_model
    logits, b = 4 * batch_size * length * config.vocab_size, _BYTES[number_format]
    saved_logits, loss = logits, 2 * logits
    if loss_slices > 1:
        n_halves = 6 if b == 4 else 7  # three arrays of a slice, or three and a half
        gradients = 4 * config.vocab_size * config.d_model + stream
        saved_logits, loss = 0, n_halves * logits // (2 * loss_slices) + gradients
    elif compiled:  # the head's copy in 16 bits has a gradient of its own
        saved_logits = logits * b // 4
        loss = b * config.vocab_size * config.d_model if b < 4 else 0
    if recompute:  # no block is computed again while the loss is at its fullest
        block = saved["attention"] + saved["mlp"] + saved["norms"]
        loss = max(0, loss - (block - config.n_layers * stream))
    return {
        "weights": 4 * n_parameters,
        "gradients": 4 * n_parameters,
        "optimizer": 4 * (2 * n_parameters - n_without_second),
        "activations": sum(saved.values()) - logits + saved_logits,
        "loss": loss,
    }


def cache_bytes(
    config: GPTConfig, batch_size: int, length: int, *, bytes_per_number: int = 2
) -> int:
    """Keys and values of the positions in the cache: 2 L G K S numbers a sequence.

    A block with a window stores no more positions than that, see `cache.KeyValueCache`.
    """
    positions = sum(min(window or length, length) for window in _windows(config))
    numbers = 2 * config.kv_heads * config.head_width * positions * batch_size
    return numbers * bytes_per_number


@dataclass(frozen=True)
class Work:
    """Operations to do, and bytes to move between memory and arithmetic.

    Source: Williams et al. (2009), the roofline model.
    """

    flops: int | float
    n_bytes: int | float

    @property
    def intensity(self) -> float:
        """Operations for each byte moved."""
        return self.flops / self.n_bytes

    def seconds(self, device: Device) -> float:
        """The least time it takes, set by the slower of arithmetic and memory."""
        return max(self.flops / device.flops, self.n_bytes / device.bandwidth)


def decoding_work(
    config: GPTConfig, batch_size: int, past: int, *, bytes_per_number: int = 2
) -> Work:
    """Writing one token in each sequence: weights and cache are read."""
    flops = batch_size * sum(count_flops(config, 1, past=past).values())
    cache = cache_bytes(config, batch_size, past, bytes_per_number=bytes_per_number)
    return Work(flops, _weight_bytes(config, bytes_per_number) + cache)


def _weight_bytes(config: GPTConfig, bytes_per_number: int) -> int:
    counted = count_parameters(config)
    # Of both tables a few rows are read, but of the embedding all if the head reads it.
    unread = counted["positions"] + (0 if config.tied else counted["embedding"])
    return (sum(counted.values()) - unread) * bytes_per_number


def widened(config: GPTConfig, d_model: int) -> GPTConfig:
    """The same model with another width, in the maximal update parametrization (muP).

    The number of heads stays and all widths grow together. Products of queries and keys
    are sums over K that agree once the model has learned, and no longer random signs:
    their factor falls as 1 / K, not as 1 / sqrt(K), from what it is at the width that
    one began with. The best learning rate then depends little on the width, to a factor
    of two in chapter 10, if `build_optimizers` is told `config.width_ratio`.

    Raises:
        ValueError: if the heads' width would not be whole.

    Source: Yang et al. (2022), definition 4.1 and table 8; Goon (2023).
    """
    ratio = d_model / config.d_model
    head_dim = config.head_width * ratio
    if head_dim != int(head_dim) or head_dim < 1:
        raise ValueError(
            f"d_model={d_model} cannot work: heads of {config.head_width} at "
            f"{config.d_model} would be {head_dim:.3g} wide; keep it whole"
        )
    scale = config.attention_scale or 1 / math.sqrt(config.head_width)
    return replace(
        config,
        d_model=d_model,
        head_dim=None if config.head_dim is None else int(head_dim),
        d_mlp=None if config.d_mlp is None else round(config.mlp_width * ratio),
        base_width=config.base_width or config.d_model,
        attention_scale=scale / ratio,
    )


def state_bytes(n_parameters: int, n_devices: int, stage: int) -> dict[str, int]:
    """Bytes of "weights", "gradients" and "optimizer" that a device holds after backward.

    In float32, with AdamW's two means. Padding is left out: up to P - 1 numbers of each piece that
    is divided. In mixed precision, stages 1 and 2 would update a float32 copy of their shard
    instead, of 4 N / P bytes.

    Args:
        n_parameters: N.
        n_devices: P.
        stage: of ZeRO: 0 divides nothing, 1 the optimizer's state, 2 the gradients too, 3 the
            weights too.

    Raises:
        ValueError: for another stage.

    Source: Rajbhandari et al. (2020).
    """
    if stage not in range(4):
        raise ValueError(f"{stage=} must be 0, 1, 2 or 3")
    shard = -(-n_parameters // n_devices)
    return {
        "weights": 4 * (shard if stage >= 3 else n_parameters),
        "gradients": 4 * (shard if stage >= 2 else n_parameters),
        "optimizer": 8 * (shard if stage >= 1 else n_parameters),
    }


def ring_bytes(
    batch_size: int, n_heads: int, length: int, head_dim: int, n_devices: int
) -> dict[str, int]:
    """What a device sends in `ring_attention`, in float32: forward and backward.

    A piece of keys and values makes P - 1 steps forward, and P - 1 more backward. Their gradients
    make P steps, the last of which brings them back to where they belong.
    """
    piece = 2 * 4 * batch_size * n_heads * length // n_devices * head_dim
    forward = (n_devices - 1) * piece
    gradients = n_devices * piece if n_devices > 1 else 0
    return {"ring forward": forward, "ring backward": forward + gradients}


def tensor_parallel_bytes(
    config: GPTConfig,
    batch_size: int,
    length: int,
    n_devices: int,
    *,
    sequence: bool = False,
) -> dict[str, int]:
    """What a device sends in one forward and backward pass of `TensorParallel`, by collective.

    In float32. With n = 4 B S D bytes of the residual stream, a block without `sequence` takes
    four all-reduces of n, half of them backward. With it, four all-gathers and four
    reduce-scatters, which send as much, and two more all-gathers to gather again.

    Args:
        batch_size, length: B and S.
        n_devices: P.
        sequence: see `TensorParallel`.

    Source: Korthikanti et al. (2022), section 4.2.2.
    """
    n_layers, d, n_positions = config.n_layers, config.d_model, batch_size * length

    def around(*sizes: int) -> int:  # a reduce-scatter, or an all-gather, of each
        return sum((n_devices - 1) * 4 * -(-size // n_devices) for size in sizes)

    stream = around(n_positions * d)
    all_reduce = around(n_positions, 2 * n_positions)  # the loss
    # Replicated vectors, whose gradients are added up: of the norms, and of the biases.
    vectors = [config.head_width] * 2 * n_layers if config.qk_norm else []
    if not sequence:
        calls = 4 * n_layers + 2
        return {"all-reduce": 2 * (calls * stream + all_reduce + around(*vectors))}
    per_norm = 2 if config.norm == "layer" and config.bias else 1
    n_norms = 2 * n_layers + (config.norm_position == "pre")
    vectors += [d] * (per_norm * n_norms + 2 * config.bias * n_layers)
    if config.positions == "learned":
        vectors.append(d * config.context_length)
    return {
        "all-reduce": 2 * (all_reduce + around(*vectors)),
        "all-gather": (6 * n_layers + 2) * stream,
        "reduce-scatter": (4 * n_layers + 2) * stream,
    }
