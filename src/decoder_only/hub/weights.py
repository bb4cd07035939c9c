"""Published weights under our names, and ours under theirs: GPT-2's family and Llama's.

The numbers of a model are the same wherever they are stored; names and layouts differ. Each line
of a table below gives one kind of tensor: their name, how its axes turn into ours, our name.

    h.*.attn.c_attn.weight   d (n hk) -> n hk d   blocks.*.attention.{query,key,value}.weight

GPT-2 keeps the three projections in one matrix, and multiplies from the other side. These tables
are the one place where foreign names appear. A folder in the layout of `transformers` holds
config.json, model.safetensors (or the index of several) and tokenizer.json. Chapter 8.

    model, tokenizer = load("gpt2-small")      # or a folder, a run's too
    export(model, tokenizer, "folder")         # which `transformers` opens, and `load`
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from einops import EinopsError, parse_shape, rearrange
from torch import Tensor

from decoder_only.model.config import GPTConfig

__all__ = ["from_gpt2", "from_llama", "to_gpt2", "to_llama"]


# Theirs, the axes (theirs -> ours where they differ), ours. "*" is the number of the block; axes
# carry the book's letters, with hk and gk for merged heads; a tensor of theirs that holds several
# of ours, in braces, has them one after the other along n.
GPT2 = """
wte.weight               v d                    embedding.weight
wpe.weight               s d                    positions.weight
h.*.ln_1.weight          d                      blocks.*.attention_norm.weight
h.*.ln_1.bias            d                      blocks.*.attention_norm.bias
h.*.attn.c_attn.weight   d (n hk) -> n hk d     blocks.*.attention.{query,key,value}.weight
h.*.attn.c_attn.bias     (n hk) -> n hk         blocks.*.attention.{query,key,value}.bias
h.*.attn.c_proj.weight   hk d -> d hk           blocks.*.attention.output.weight
h.*.attn.c_proj.bias     d                      blocks.*.attention.output.bias
h.*.ln_2.weight          d                      blocks.*.mlp_norm.weight
h.*.ln_2.bias            d                      blocks.*.mlp_norm.bias
h.*.mlp.c_fc.weight      d f -> f d             blocks.*.mlp.up.weight
h.*.mlp.c_fc.bias        f                      blocks.*.mlp.up.bias
h.*.mlp.c_proj.weight    f d -> d f             blocks.*.mlp.down.weight
h.*.mlp.c_proj.bias      d                      blocks.*.mlp.down.bias
ln_f.weight              d                      final_norm.weight
ln_f.bias                d                      final_norm.bias
lm_head.weight           v d                    head.weight
"""

LLAMA = """
model.embed_tokens.weight                          v d     embedding.weight
model.layers.*.input_layernorm.weight              d       blocks.*.attention_norm.weight
model.layers.*.self_attn.q_proj.weight             hk d    blocks.*.attention.query.weight
model.layers.*.self_attn.k_proj.weight             gk d    blocks.*.attention.key.weight
model.layers.*.self_attn.v_proj.weight             gk d    blocks.*.attention.value.weight
model.layers.*.self_attn.o_proj.weight             d hk    blocks.*.attention.output.weight
model.layers.*.post_attention_layernorm.weight     d       blocks.*.mlp_norm.weight
model.layers.*.mlp.gate_proj.weight                f d     blocks.*.mlp.gate.weight
model.layers.*.mlp.up_proj.weight                  f d     blocks.*.mlp.up.weight
model.layers.*.mlp.down_proj.weight                d f     blocks.*.mlp.down.weight
model.norm.weight                                  d       final_norm.weight
lm_head.weight                                     v d     head.weight
"""

QWEN3 = LLAMA.replace(  # Llama's, with queries and keys normalized
    "model.norm.weight",
    """model.layers.*.self_attn.q_norm.weight   k   blocks.*.attention.query_norm.weight
model.layers.*.self_attn.k_norm.weight   k   blocks.*.attention.key_norm.weight
model.norm.weight""",
)

# Older checkpoints also store constants: the causal mask, and the frequencies of the rotation.
CONSTANTS = re.compile(r"\.attn\.(masked_)?bias$|\.rotary_emb\.inv_freq$")


def from_gpt2(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a GPT-2 checkpoint, for `GPT.load_state_dict`.

    Args:
        state_dict: Hugging Face's names, with or without the leading "transformer."; a checkpoint
            without a head of its own ties it to the token embedding.

    Returns:
        Tensors under our names, in our layout, of the dtype given; they may share memory with
        those given. A head tied to the embedding is left out.

    Raises:
        ValueError: if tensors are missing, left over, or of sizes that do not fit together.

    Source: Radford et al. (2019), as published.
    """
    return to_ours(state_dict, GPT2)


def to_gpt2(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `from_gpt2`: names and layouts of Hugging Face's GPT2LMHeadModel.

    A tied head comes as a copy of the embedding, so that `safetensors` can store both.

    Raises:
        ValueError: if the weights are not those of a GPT-2: learned positions, layer norms and
            offsets everywhere, as many heads of keys as of queries, no gate.
    """
    theirs = to_theirs(state_dict, GPT2)
    return {
        n if n.startswith("lm_head.") else f"transformer.{n}": x
        for n, x in theirs.items()
    }


def from_llama(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a Llama checkpoint, for `GPT.load_state_dict`.

    Both rotate in the half-split layout, so queries and keys are copied as they are. (Meta's own
    files pair neighbouring dimensions instead; Hugging Face's have been reordered.)

    Args:
        state_dict: the names of Hugging Face's LlamaForCausalLM; a checkpoint without a head of
            its own ties it to the token embedding.

    Returns:
        As `from_gpt2`.

    Raises:
        ValueError: if tensors are missing, left over, or of sizes that do not fit together.

    Source: Touvron et al. (2023), as published through Hugging Face.
    """
    return to_ours(state_dict, LLAMA)


def to_llama(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `from_llama`: names of Hugging Face's LlamaForCausalLM.

    Raises:
        ValueError: if the weights are not those of a Llama: RMS norms, a gated MLP, no offsets,
            no learned positions, queries and keys not normalized.
    """
    return to_theirs(state_dict, LLAMA)


class _Row(NamedTuple):
    """A line of a table, for one block."""

    theirs: str
    their_axes: str
    our_axes: str
    ours: list[str]  # several when theirs holds them stacked


def _rows(table: str, given: Iterable[str], n_blocks: int | None) -> list[_Row]:
    """The table, its lines for blocks repeated: by default as the given names mention them."""
    given = [f".{name}" for name in given]
    if n_blocks is None:
        numbers = re.findall(r"\.(\d{1,9})\.", " ".join(given))
        n_blocks = max(map(int, numbers), default=0) + 1
    n_blocks = min(n_blocks, len(given) + 1)  # whatever a hostile file claims
    rows = []
    for line in table.strip().splitlines():
        theirs, axes, ours = re.split(r"\s{2,}", line)
        their_axes, _, our_axes = axes.partition(" -> ")
        before, parts, after = re.fullmatch(r"([^{]*)(?:{(.*)})?(.*)", ours).groups("")
        for layer in map(str, range(n_blocks) if "*" in theirs else [0]):
            names = [before + part + after for part in parts.split(",")]
            names = [name.replace("*", layer) for name in names]
            theirs_here = theirs.replace("*", layer)
            rows.append(_Row(theirs_here, their_axes, our_axes or axes, names))
    return rows


def to_ours(
    state_dict: Mapping[str, Tensor], table: str, config: GPTConfig | None = None
) -> dict[str, Tensor]:
    """Their tensors under our names. With `config`, it decides how many blocks and what sizes."""
    state = {name.removeprefix("transformer."): x for name, x in state_dict.items()}
    state = {name: x for name, x in state.items() if not CONSTANTS.search(name)}
    rows = _rows(table, state, None if config is None else config.n_layers)
    # A tied head is the embedding, which is in the state once or twice.
    embedding, head = (state.get(rows[i].theirs) for i in (0, -1))
    same = head is None or (
        embedding is not None and (head.is_meta or _equal(head, embedding))
    )
    is_tied = same if config is None else config.tied
    if is_tied and not same:
        raise ValueError(
            "config.json ties the head, but lm_head.weight is not the embedding"
        )
    if is_tied:
        state.pop(rows.pop().theirs, None)
    _compare_names(state, expected=[row.theirs for row in rows])
    converted: dict[str, Tensor] = {}
    seen = sizes(config) if config is not None else {}
    for row in rows:
        tensor, n = state[row.theirs], len(row.ours)
        stacked = {"n": n} if n > 1 else {}
        try:
            x = rearrange(tensor, f"{row.their_axes} -> {row.our_axes}", **stacked)
        except EinopsError:
            stack = f", n = {n}" if n > 1 else ""
            raise _misfit(row.theirs, tensor, row.their_axes + stack) from None
        for name, part in zip(row.ours, x if n > 1 else [x], strict=True):
            check_sizes(row.theirs, part, row.our_axes.removeprefix("n "), seen)
            converted[name] = part.contiguous()
    return converted


def _equal(left: Tensor, right: Tensor) -> bool:
    """Bit for bit, so that NaN equals itself."""
    same_kind = (left.dtype, left.shape) == (right.dtype, right.shape)
    parts = (x.contiguous().view(-1).view(torch.uint8) for x in (left, right))
    return same_kind and torch.equal(*parts)


def to_theirs(state_dict: Mapping[str, Tensor], table: str) -> dict[str, Tensor]:
    state = dict(state_dict)
    rows = _rows(table, state, None)
    if "embedding.weight" in state and "head.weight" not in state:  # it is tied
        state["head.weight"] = state["embedding.weight"].clone()
    _compare_names(state, expected=[name for row in rows for name in row.ours])
    converted: dict[str, Tensor] = {}
    seen: dict[str, tuple[int, str]] = {}
    for row in rows:
        tensors = [state[name] for name in row.ours]
        for name, x in zip(row.ours, tensors, strict=True):
            check_sizes(name, x, row.our_axes.removeprefix("n "), seen)
        stacked = tensors if len(tensors) > 1 else tensors[0]
        layout = f"{row.our_axes} -> {row.their_axes}"
        converted[row.theirs] = rearrange(stacked, layout).contiguous()
    return converted


def _compare_names(state: Mapping[str, Tensor], *, expected: list[str]) -> None:
    missing = [name for name in expected if name not in state]
    unexpected = sorted(set(state) - set(expected))
    if missing or unexpected:
        raise ValueError(
            "these weights do not fit the table of names: "
            f"missing {_first(missing)}; unexpected {_first(unexpected)}"
        )


def _first(names: list[str], n: int = 4) -> str:
    more = f" and {len(names) - n} more" if len(names) > n else ""
    return (", ".join(names[:n]) or "nothing") + more


def sizes(config: GPTConfig) -> dict[str, tuple[int, str]]:
    """The size of each letter, and who says so."""
    heads, head_dim = config.n_heads, config.head_width
    sizes = {"v": config.vocab_size, "d": config.d_model, "f": config.mlp_width}
    sizes |= {"s": config.context_length, "hk": heads * head_dim, "k": head_dim}
    sizes["gk"] = config.kv_heads * head_dim
    return {letter: (size, "config.json") for letter, size in sizes.items()}


def check_sizes(
    name: str, tensor: Tensor, axes: str, seen: dict[str, tuple[int, str]]
) -> None:
    """Each letter has one size throughout; `seen` remembers it, and where it was met first."""
    if tensor.ndim != len(axes.split()):
        raise _misfit(name, tensor, axes)
    for letter, size in parse_shape(tensor, axes).items():
        known, origin = seen.setdefault(letter, (size, name))
        if size != known:
            raise ValueError(
                f"{name} has {letter} = {size}, but {origin} has {letter} = {known}"
            )


def _misfit(name: str, tensor: Tensor, axes: str) -> ValueError:
    shape = tuple(tensor.shape)
    return ValueError(f"{name} has shape {shape}, which does not fit [{axes}]")
