"""Published weights under our names: GPT-2's checkpoints and Llama's, in both directions.

The numbers of a model are the same wherever they are stored; names and layouts differ. Each line
of a table below gives one kind of tensor: their name, how its axes turn into ours, our name.

    h.*.attn.c_attn.weight   d (n hk) -> n hk d   blocks.*.attention.{query,key,value}.weight

GPT-2 keeps the three projections in one matrix, and multiplies from the other side. These tables
are the one place where foreign names appear. Chapter 8.

    config = gpt2_config(json.loads(Path("config.json").read_text()))
    model = GPT(config)
    model.load_state_dict(from_gpt2(safetensors.torch.load_file("model.safetensors")))
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, NoReturn

import torch
from einops import EinopsError, parse_shape, rearrange
from torch import Tensor

from decoder_only.config import GPTConfig

__all__ = [
    "from_gpt2",
    "from_llama",
    "gpt2_config",
    "llama_config",
    "to_gpt2",
    "to_llama",
]

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

# Older checkpoints also store constants: the causal mask, and the frequencies of the rotation.
CONSTANTS = re.compile(r"\.attn\.(masked_)?bias$|\.rotary_emb\.inv_freq$")


def from_gpt2(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a GPT-2 checkpoint, for `GPT.load_state_dict`.

    Args:
        state_dict: Hugging Face's names, with or without the leading "transformer."; a checkpoint
            without a head of its own ties it to the token embedding.

    Returns:
        Tensors under our names, in our layout, of the dtype given; they may share memory with
        those given. There is no head's matrix among them where it is the embedding's.

    Raises:
        ValueError: if tensors are missing, left over, or of sizes that do not fit together.

    Source: Radford et al. (2019), as published.
    """
    return _to_ours(
        {n.removeprefix("transformer."): x for n, x in state_dict.items()}, GPT2
    )


def to_gpt2(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `from_gpt2`: names and layouts of Hugging Face's GPT2LMHeadModel.

    Raises:
        ValueError: if the weights are not those of a GPT-2: learned positions, layer norms and
            offsets everywhere, as many heads of keys as of queries, no gate.
    """
    theirs = _to_theirs(state_dict, GPT2)
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
    return _to_ours(state_dict, LLAMA)


def to_llama(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `from_llama`: names of Hugging Face's LlamaForCausalLM.

    Raises:
        ValueError: if the weights are not those of a Llama: RMS norms, a gated MLP, no offsets,
            no learned positions, queries and keys not normalized.
    """
    return _to_theirs(state_dict, LLAMA)


def gpt2_config(settings: Mapping[str, object]) -> GPTConfig:
    """Our settings for a published GPT-2, without dropout.

    Args:
        settings: its config.json; what that leaves out takes GPT-2's defaults.

    Raises:
        ValueError: if a size is missing, or if a setting asks for what `GPT` does not compute.
    """
    _refuse(
        settings,
        activation_function="gelu_new",
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
    )
    return GPTConfig(
        vocab_size=_size(settings, "vocab_size"),
        context_length=_size(settings, "n_positions"),
        d_model=_size(settings, "n_embd"),
        n_layers=_size(settings, "n_layer"),
        n_heads=_size(settings, "n_head"),
        d_mlp=settings.get("n_inner"),
        norm_eps=settings.get("layer_norm_epsilon", 1e-5),
        tied=settings.get("tie_word_embeddings", True),
    )


def llama_config(settings: Mapping[str, object]) -> GPTConfig:
    """Our settings for a published Llama.

    Args:
        settings: its config.json; what that leaves out takes Llama's defaults.

    Raises:
        ValueError: if a size is missing, or if a setting asks for what `GPT` does not compute,
            such as rescaled rotations.
    """
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    _refuse(settings, hidden_act="silu", attention_bias=False, mlp_bias=False)
    _refuse(rope, rope_type="default", type="default")
    return GPTConfig(
        vocab_size=_size(settings, "vocab_size"),
        context_length=_size(settings, "max_position_embeddings"),
        d_model=_size(settings, "hidden_size"),
        n_layers=_size(settings, "num_hidden_layers"),
        n_heads=_size(settings, "num_attention_heads"),
        n_kv_heads=settings.get("num_key_value_heads"),
        head_dim=settings.get("head_dim"),
        d_mlp=_size(settings, "intermediate_size"),
        positions="rotary",
        position_base=rope.get("rope_theta", settings.get("rope_theta", 10_000.0)),
        norm="rms",
        norm_eps=settings.get("rms_norm_eps", 1e-6),
        activation="swiglu",
        bias=False,
        tied=settings.get("tie_word_embeddings", False),
    )


class _Row(NamedTuple):
    """A line of a table, for one block."""

    theirs: str
    their_axes: str
    our_axes: str
    ours: list[str]  # several when theirs holds them stacked


def _rows(table: str, given: Iterable[str]) -> list[_Row]:
    """The table, its lines for blocks repeated for every block that the given names mention."""
    numbers = [
        int(number) for name in given for number in re.findall(r"\.(\d+)\.", f".{name}")
    ]
    rows = []
    for line in table.strip().splitlines():
        theirs, axes, ours = re.split(r"\s{2,}", line)
        their_axes, our_axes = axes.split(" -> ") if "->" in axes else (axes, axes)
        before, parts, after = re.fullmatch(r"([^{]*)(?:{(.*)})?(.*)", ours).groups("")
        for layer in range(max(numbers, default=0) + 1) if "*" in theirs else [0]:
            names = [
                f"{before}{part}{after}".replace("*", str(layer))
                for part in parts.split(",")
            ]
            rows.append(
                _Row(theirs.replace("*", str(layer)), their_axes, our_axes, names)
            )
    return rows


def _to_ours(state_dict: Mapping[str, Tensor], table: str) -> dict[str, Tensor]:
    rows = _rows(table, state_dict)
    state_dict = {
        name: x for name, x in state_dict.items() if not CONSTANTS.search(name)
    }
    # A tied head is the embedding, which stands in the state once or twice.
    embedding, head = (state_dict.get(rows[i].theirs) for i in (0, -1))
    if head is None or (embedding is not None and torch.equal(head, embedding)):
        state_dict.pop(rows.pop().theirs, None)
    _compare_names(state_dict, expected=[row.theirs for row in rows])
    converted: dict[str, Tensor] = {}
    seen: dict[str, tuple[int, str]] = {}
    for row in rows:
        tensor, n = state_dict[row.theirs], len(row.ours)
        try:
            stacked = rearrange(
                tensor,
                f"{row.their_axes} -> {row.our_axes}",
                **({"n": n} if n > 1 else {}),
            )
        except EinopsError:
            _refuse_shape(
                row.theirs, tensor, row.their_axes + (f", n = {n}" if n > 1 else "")
            )
        for name, x in zip(row.ours, stacked if n > 1 else [stacked], strict=True):
            _check_sizes(row.theirs, x, row.our_axes.removeprefix("n "), seen)
            converted[name] = x.contiguous()
    return converted


def _to_theirs(state_dict: Mapping[str, Tensor], table: str) -> dict[str, Tensor]:
    rows = _rows(table, state_dict)
    state_dict = dict(state_dict)
    if (
        "embedding.weight" in state_dict
    ):  # a tied head reads it, and has none of its own
        state_dict.setdefault("head.weight", state_dict["embedding.weight"])
    _compare_names(state_dict, expected=[name for row in rows for name in row.ours])
    converted: dict[str, Tensor] = {}
    seen: dict[str, tuple[int, str]] = {}
    for row in rows:
        tensors = [state_dict[name] for name in row.ours]
        for name, x in zip(row.ours, tensors, strict=True):
            _check_sizes(name, x, row.our_axes.removeprefix("n "), seen)
        stacked = tensors if len(tensors) > 1 else tensors[0]
        layout = f"{row.our_axes} -> {row.their_axes}"
        converted[row.theirs] = rearrange(stacked, layout).contiguous()
    return converted


def _compare_names(state_dict: Mapping[str, Tensor], *, expected: list[str]) -> None:
    missing = [name for name in expected if name not in state_dict]
    unexpected = sorted(set(state_dict) - set(expected))
    if missing or unexpected:
        raise ValueError(
            "these weights do not fit the table of names: "
            f"missing {_first(missing)}; unexpected {_first(unexpected)}"
        )


def _first(names: list[str], n: int = 4) -> str:
    more = f" and {len(names) - n} more" if len(names) > n else ""
    return (", ".join(names[:n]) or "nothing") + more


def _check_sizes(
    name: str, tensor: Tensor, axes: str, seen: dict[str, tuple[int, str]]
) -> None:
    """Each letter has one size throughout; `seen` remembers it, and where it was met first."""
    if tensor.ndim != len(axes.split()):
        _refuse_shape(name, tensor, axes)
    for letter, size in parse_shape(tensor, axes).items():
        known, origin = seen.setdefault(letter, (size, name))
        if size != known:
            raise ValueError(
                f"{name} has {letter} = {size}, but {origin} has {letter} = {known}"
            )


def _refuse_shape(name: str, tensor: Tensor, axes: str) -> NoReturn:
    raise ValueError(
        f"{name} has shape {tuple(tensor.shape)}, which does not fit [{axes}]"
    )


def _refuse(settings: Mapping[str, object], **computed: object) -> None:
    for name, value in computed.items():
        if settings.get(name, value) != value:
            raise ValueError(
                f"{name}={settings[name]!r} asks for another model: GPT computes {value!r}"
            )


def _size(settings: Mapping[str, object], name: str) -> object:
    if name not in settings:
        raise ValueError(
            f"the settings lack {name!r}; they hold {', '.join(map(str, settings)) or 'nothing'}"
        )
    return settings[name]
