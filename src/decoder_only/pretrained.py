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

import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from einops import EinopsError, parse_shape, rearrange
from safetensors import SafetensorError, safe_open
from torch import Tensor

from decoder_only.config import GPTConfig
from decoder_only.engine import checkpoint
from decoder_only.engine.checks import require
from decoder_only.engine.files import (
    LOCK,
    explained,
    open_file,
    read_json,
    write_atomically,
)
from decoder_only.engine.tensors import write_tensors
from decoder_only.model import GPT
from decoder_only.presets import ALIASES, PRESETS
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.tokenization.exchange import to_tokenizers

__all__ = [
    "export",
    "from_gpt2",
    "from_llama",
    "gpt2_config",
    "llama_config",
    "load",
    "to_gpt2",
    "to_llama",
]

PUBLISHED = {"gpt2-small": "openai-community/gpt2"} | {
    f"gpt2-{size}": f"openai-community/gpt2-{size}"
    for size in ("medium", "large", "xl")
}
"""Models that can be had by name, and where they are published."""

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

# Their setting, ours, and what it is where config.json leaves it out.
GPT2_SETTINGS = """
vocab_size                 vocab_size
n_positions                context_length
n_embd                     d_model
n_layer                    n_layers
n_head                     n_heads
n_inner                    d_mlp             null
layer_norm_epsilon         norm_eps          1e-05
tie_word_embeddings        tied              true
activation_function        activation        "gelu_new"
"""

LLAMA_SETTINGS = """
vocab_size                 vocab_size
max_position_embeddings    context_length
hidden_size                d_model
num_hidden_layers          n_layers
num_attention_heads        n_heads
num_key_value_heads        n_kv_heads        null
head_dim                   head_dim          null
intermediate_size          d_mlp
rms_norm_eps               norm_eps          1e-06
rope_theta                 position_base     10000.0
tie_word_embeddings        tied              false
hidden_act                 activation        "silu"
"""

# Older checkpoints also store constants: the causal mask, and the frequencies of the rotation.
CONSTANTS = re.compile(r"\.attn\.(masked_)?bias$|\.rotary_emb\.inv_freq$")
FLOATS = {"BF16", "F16", "F32", "F64"}
LAYOUT = (
    "a folder that works is a run's, or has config.json, model.safetensors and "
    "tokenizer.json"
)


class _Family(NamedTuple):
    """How `transformers` describes and names one kind of model that `GPT` computes."""

    architecture: str
    weights: str  # a table as above
    settings: str  # likewise
    activations: dict[str, str]  # theirs: ours
    ours: dict[str, Any]  # what all models of the family have
    computed: dict[str, Any]  # their settings of which GPT computes this one value


_LLAMA = _Family(
    architecture="LlamaForCausalLM",
    weights=LLAMA,
    settings=LLAMA_SETTINGS,
    # A squared ReLU is a gated MLP whose gate is what it lets through: relu(u) * u = relu(u)^2.
    activations={"silu": "swiglu", "relu": "squared_relu"},
    ours={"positions": "rotary", "norm": "rms", "bias": False},
    computed=dict.fromkeys(("attention_bias", "mlp_bias", "use_sliding_window"), False)
    | dict.fromkeys(("rope_type", "type"), "default"),
)
FAMILIES = {
    "gpt2": _Family(
        architecture="GPT2LMHeadModel",
        weights=GPT2,
        settings=GPT2_SETTINGS,
        activations={"gelu_new": "gelu_tanh"},
        ours={},
        computed={"scale_attn_weights": True, "add_cross_attention": False}
        | {"scale_attn_by_inverse_layer_idx": False},
    ),
    "llama": _LLAMA,
    "qwen3": _LLAMA._replace(
        architecture="Qwen3ForCausalLM",
        weights=QWEN3,
        settings=LLAMA_SETTINGS.replace("1e-06", ""),
        ours=_LLAMA.ours | {"qk_norm": True},
    ),
}


# ------------------------------------------------------------------------------- weights by name


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
    return _to_ours(state_dict, GPT2)


def to_gpt2(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `from_gpt2`: names and layouts of Hugging Face's GPT2LMHeadModel.

    A tied head comes as a copy of the embedding, so that `safetensors` can store both.

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
        found = re.findall(r"\.(\d{1,9})\.", " ".join(given))
        n_blocks = max(map(int, found), default=0) + 1
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


def _to_ours(
    state_dict: Mapping[str, Tensor], table: str, config: GPTConfig | None = None
) -> dict[str, Tensor]:
    """Their tensors under our names. With `config`, it decides how many blocks and what sizes."""
    state = {name.removeprefix("transformer."): x for name, x in state_dict.items()}
    state = {name: x for name, x in state.items() if not CONSTANTS.search(name)}
    rows = _rows(table, state, None if config is None else config.n_layers)
    # A tied head is the embedding, which stands in the state once or twice.
    embedding, head = (state.get(rows[i].theirs) for i in (0, -1))
    same = head is None or (
        embedding is not None and (head.is_meta or _equal(head, embedding))
    )
    if same if config is None else config.tied:
        require("a tied head", "lm_head.weight", lambda _: same, "the embedding")
        state.pop(rows.pop().theirs, None)
    _compare_names(state, expected=[row.theirs for row in rows])
    converted: dict[str, Tensor] = {}
    seen = _sizes(config) if config is not None else {}
    for row in rows:
        tensor, n = state[row.theirs], len(row.ours)
        stacked = {"n": n} if n > 1 else {}
        try:
            x = rearrange(tensor, f"{row.their_axes} -> {row.our_axes}", **stacked)
        except EinopsError:
            stack = f", n = {n}" if n > 1 else ""
            raise _misfit(row.theirs, tensor, row.their_axes + stack) from None
        for name, part in zip(row.ours, x if n > 1 else [x], strict=True):
            _check_sizes(row.theirs, part, row.our_axes.removeprefix("n "), seen)
            converted[name] = part.contiguous()
    return converted


def _equal(left: Tensor, right: Tensor) -> bool:
    """Bit for bit, so that what is no number equals itself."""
    same_kind = (left.dtype, left.shape) == (right.dtype, right.shape)
    parts = (x.contiguous().view(-1).view(torch.uint8) for x in (left, right))
    return same_kind and torch.equal(*parts)


def _to_theirs(state_dict: Mapping[str, Tensor], table: str) -> dict[str, Tensor]:
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
            _check_sizes(name, x, row.our_axes.removeprefix("n "), seen)
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


def _sizes(config: GPTConfig) -> dict[str, tuple[int, str]]:
    """The size of each letter, and who says so."""
    heads, head_dim = config.n_heads, config.head_width
    sizes = {"v": config.vocab_size, "d": config.d_model, "f": config.mlp_width}
    sizes |= {"s": config.context_length, "hk": heads * head_dim, "k": head_dim}
    sizes["gk"] = config.kv_heads * head_dim
    return {letter: (size, "config.json") for letter, size in sizes.items()}


def _check_sizes(
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


# ------------------------------------------------------------------------------------- settings


def gpt2_config(settings: Mapping[str, object]) -> GPTConfig:
    """Our settings for a published GPT-2, without dropout.

    Args:
        settings: its config.json; what that leaves out takes GPT-2's defaults.

    Raises:
        ValueError: if a size is missing, or if a setting asks for what `GPT` does not compute.
    """
    return _config(FAMILIES["gpt2"], settings)


def llama_config(settings: Mapping[str, object]) -> GPTConfig:
    """Our settings for a published Llama.

    Args:
        settings: its config.json; what that leaves out takes Llama's defaults.

    Raises:
        ValueError: if a size is missing, or if a setting asks for what `GPT` does not compute,
            such as rescaled rotations.
    """
    return _config(FAMILIES["llama"], settings)


def _config(family: _Family, settings: Mapping[str, Any]) -> GPTConfig:
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    require("rope_parameters", rope, lambda x: isinstance(x, Mapping), "a table")
    turns = {"rope_theta", "rope_type", "type"} & set(rope)
    settings = {**settings, **{name: rope[name] for name in turns}}
    for name, computed in family.computed.items():
        asked = settings.get(name, computed)
        wanted = f"{computed!r}, as GPT computes it"
        require(name, asked, lambda x, to=computed: x == to, wanted)
    ours = dict(family.ours)
    for line in family.settings.strip().splitlines():
        theirs, name, *usual = line.split()
        if theirs not in settings and not usual:
            known = ", ".join(map(str, settings)) or "nothing"
            raise ValueError(f"the settings lack {theirs!r}; they hold {known}")
        value = settings[theirs] if theirs in settings else json.loads(usual[0])
        if name == "activation":
            known = family.activations
            require(theirs, value, known.__contains__, f"one of {', '.join(known)}")
            value = known[value]
        ours[name] = value
    return GPTConfig(**ours)


def _described(config: GPTConfig) -> dict[str, Any]:
    """The config.json of the family that computes what these settings ask for."""
    model_type = "qwen3" if config.qk_norm else "llama"
    model_type = "gpt2" if config.positions == "learned" else model_type
    family = FAMILIES[model_type]
    rows = [line.split() for line in family.settings.strip().splitlines()]
    meant = _meaning(config)
    settings = {theirs: meant[ours] for theirs, ours, *_ in rows}
    names = {ours: theirs for theirs, ours in family.activations.items()}
    settings[rows[-1][0]] = names.get(config.activation, next(iter(names.values())))
    back = _meaning(_config(family, json.loads(json.dumps(settings))))
    for name, mine in meant.items():
        if mine != back[name]:
            raise ValueError(
                f"{name}={mine!r} has no place in a {model_type} model of transformers, which has "
                f"{name}={back[name]!r}; no other family there computes this model either"
            )
    architectures = [family.architecture]
    return {"model_type": model_type, "architectures": architectures, **settings}


def _meaning(config: GPTConfig) -> dict[str, Any]:
    """What a model computes: alike for any two configs that say it in different ways."""
    meant = config.to_dict() | {"n_kv_heads": config.kv_heads}
    meant |= {"head_dim": config.head_width, "d_mlp": config.mlp_width}
    meant["attention_scale"] = config.attention_scale or 1 / math.sqrt(
        config.head_width
    )
    meant["base_width"] = config.base_width or config.d_model
    whole = config.context_length if config.positions == "learned" else math.inf
    each = [None if w is None or w >= whole else w for w in config.windows]
    meant["windows"] = tuple(each[i % len(each)] for i in range(config.n_layers))
    if config.positions in ("learned", "none"):
        meant.pop("position_base")
    for name in ("dropout", "initialization"):  # which belong to training
        meant.pop(name)
    return meant


# --------------------------------------------------------------------------------------- folders


def load(
    folder_or_name: str | os.PathLike[str], *, device: torch.device | str | None = None
) -> tuple[GPT, BytePairTokenizer | None]:
    """A model and its tokenizer: of a run, from a folder, or a published model by its name.

    Names, sizes and types are compared with config.json by the file's table of contents, before a
    weight is read.

    Args:
        folder_or_name: a run's folder; or one in the layout of `transformers`, of the gpt2, llama
            or qwen3 family, such as `export` writes; or a name in `PUBLISHED`, which is looked up
            in Hugging Face's cache and then fetched, if huggingface_hub is installed.
        device: where the model shall be; the CPU by default.

    Returns:
        The model in evaluation mode and the dtype stored, without dropout. The tokenizer, or None
        if the folder has no tokenizer.json.

    Raises:
        FileNotFoundError: there is no such folder or name, a file is missing, or the network is.
        ValueError: a file is damaged, describes a model that `GPT` does not compute, or a tokenizer
            that is not byte-level BPE of GPT-2's kind.
    """
    folder = _folder_of(folder_or_name)
    path = folder / "tokenizer.json"
    tokenizer = BytePairTokenizer.load(path) if path.exists() else None
    return load_model(folder_or_name, device=device), tokenizer


def read_config(folder_or_name: str | os.PathLike[str]) -> GPTConfig:
    """The settings of what `load` would load; no weight is read for them, and no tokenizer."""
    return _read_settings(_folder_of(folder_or_name), str(folder_or_name))[1]


def load_model(
    folder_or_name: str | os.PathLike[str], *, device: torch.device | str | None = None
) -> GPT:
    """As `load`, for the model alone, whatever its tokenizer is."""
    folder = _folder_of(folder_or_name)
    if checkpoint.is_run(folder):
        return checkpoint.load(folder, device=device).model
    family, config = _read_settings(folder, str(folder_or_name))
    try:
        weights = _read_weights(folder, family.weights, config)
    except (ValueError, SafetensorError) as error:
        raise ValueError(f"{folder} cannot be read: {error!s:.500}") from None
    with torch.device("meta"):
        model = GPT(config)
    model.load_state_dict(weights, assign=True)
    return model.to(device).eval()


def _read_settings(folder: Path, name: str) -> tuple[_Family, GPTConfig]:
    settings = read_json(folder / "config.json")
    try:
        model_type = str(settings.get("model_type"))
        known = f"one of {', '.join(FAMILIES)}"
        require("model_type", model_type, FAMILIES.__contains__, known)
        config = _config(FAMILIES[model_type], settings)
        if folder != Path(name):
            preset = PRESETS[ALIASES.get(name, name)]
            same = _meaning(config) == _meaning(preset)
            require("config.json", config, lambda _: same, f"that of {name}")
    except ValueError as error:
        raise ValueError(f"{folder} cannot be read: {error!s:.500}") from None
    return FAMILIES[model_type], config


def _read_weights(folder: Path, table: str, config: GPTConfig) -> dict[str, Tensor]:
    files, index = ["model.safetensors"], folder / "model.safetensors.index.json"
    if not (folder / files[0]).exists() and index.exists():
        files = read_json(index).get("weight_map")
        beside = re.compile(r"[\w.-]+\.safetensors").fullmatch
        named = "a table of files in the folder"
        require("weight_map", files, lambda x: all(map(beside, dict.values(x))), named)
        files = {*files.values()}
    with ExitStack() as stack:
        found, types, outlines = {}, set(), {}
        for file in files:
            open_file(folder / file).close()  # refuses what is no file
            holder = stack.enter_context(safe_open(folder / file, framework="pt"))
            for name in holder.keys():  # noqa: SIM118
                if not CONSTANTS.search(name):
                    found[name], outline = holder, holder.get_slice(name)
                    types.add(outline.get_dtype())
                    outlines[name] = torch.empty(outline.get_shape(), device="meta")
        known = f"one of {', '.join(sorted(FLOATS))}, the same for all"
        require("types", types, lambda x: len(x) < 2 and x <= FLOATS, known)
        _to_ours(outlines, table, config)
        weights = {name: holder.get_tensor(name) for name, holder in found.items()}
    ours = _to_ours(weights, table, config)
    if config.activation == "squared_relu":
        for name in [name for name in ours if name.endswith(".gate.weight")]:
            same = _equal(ours.pop(name), ours[name.replace(".gate.", ".up.")])
            require("hidden_act", "relu", lambda _, same=same: same, "without a gate")
    return ours


def export(
    model: GPT,
    tokenizer: BytePairTokenizer | None,
    folder: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write a model and its tokenizer into a folder that `transformers` opens, and `load`.

    A model with learned positions becomes a GPT-2, one with rotary positions a Llama, or a Qwen3
    if it normalizes queries and keys. Logits and ids are the same there. Dropout and the way of
    initialization belong to training, and are not kept.

    Args:
        model: its weights are stored in the dtype that they have.
        tokenizer: of at most as many tokens as the model; None writes the model alone.
        folder: is made if it is not there.
        overwrite: whether it may hold files already, of which those named alike are replaced.

    Raises:
        FileExistsError: the folder is not empty; or it holds a run or what `prepare` made, which
            nothing overwrites.
        ValueError: no family of `transformers` computes this model; the setting is named.
    """
    config, folder = model.config, Path(folder)
    wanted = "GPT itself, whose positions see those before them"
    require("model", type(model), lambda kind: kind is GPT, wanted)
    settings = _described(config)
    others = (LOCK, "log.jsonl", "state-*", "weights.safetensors", "index.json")
    if any(any(folder.glob(name)) for name in others):
        raise FileExistsError(
            f"{folder} holds a run, or prepared tokens, which this would destroy; name another"
        )
    if not overwrite and folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; name another, or overwrite it")
    state = dict(model.state_dict())
    if config.activation == "squared_relu":
        ups = [name for name in state if name.endswith(".up.weight")]
        state |= {name.replace(".up.", ".gate."): state[name].clone() for name in ups}
    weights = _to_theirs(state, FAMILIES[settings["model_type"]].weights)
    if config.tied:
        weights.pop("lm_head.weight")
    settings["dtype"] = str(state["embedding.weight"].dtype).removeprefix("torch.")
    # transformers before version 5 reads rope_theta, and since then what is in this table.
    rope = {"rope_type": "default", "rope_theta": config.position_base}
    settings["rope_parameters"] = rope if config.positions == "rotary" else None
    about = {"tokenizer_class": "PreTrainedTokenizerFast"}
    about["model_max_length"] = config.context_length
    texts = {"config.json": settings}
    if tokenizer is not None:
        fits = f"at most the model's {config.vocab_size}"
        size = tokenizer.vocab_size
        require("tokenizer.vocab_size", size, config.vocab_size.__ge__, fits)
        end = next(iter(tokenizer.special_tokens.items()), (None, None))
        for name in ("bos_token", "eos_token"):
            about[name], settings[f"{name}_id"] = end
        texts = {"tokenizer.json": to_tokenizers(tokenizer)} | texts
        texts = {"tokenizer_config.json": about} | texts
    is_new = not folder.exists()
    try:
        with explained(folder):
            _write(folder, weights, texts)
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _write(
    folder: Path, weights: Mapping[str, Tensor], texts: Mapping[str, object]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    write_tensors(folder / "model.safetensors", weights, notes={"format": "pt"})
    for name, content in texts.items():  # config.json last: now all is there
        text = json.dumps(content, indent=1, ensure_ascii=False)
        write_atomically(folder / name, text.encode())


def _folder_of(folder_or_name: str | os.PathLike[str]) -> Path:
    folder, name = Path(folder_or_name), str(folder_or_name)
    repository = PUBLISHED.get(ALIASES.get(name, name))
    if folder.is_dir():
        return folder
    if repository is None:
        names = ", ".join(PUBLISHED)
        raise FileNotFoundError(
            f"there is no folder {folder}; by name there are {names}; {LAYOUT}"
        )
    try:
        return _fetched(repository)
    except Exception as error:  # a network has many ways to fail
        raise FileNotFoundError(
            f"{name} could not be fetched from {repository}, which needs "
            f"huggingface_hub and a network ({type(error).__name__}). Name a folder; {LAYOUT}"
        ) from None


def _fetched(repository: str) -> Path:
    """The folder of a published model in Hugging Face's cache, into which it is fetched."""
    import huggingface_hub as hub

    names = ("config.json", "model.safetensors", "tokenizer.json")
    with suppress(Exception):
        paths = [
            hub.hf_hub_download(repository, n, local_files_only=True) for n in names
        ]
        return Path(paths[0]).parent
    # Asked once: a download tries again and again for half a minute where there is no network.
    hub.get_hf_file_metadata(hub.hf_hub_url(repository, names[0]), timeout=10)
    paths = [hub.hf_hub_download(repository, n, local_files_only=False) for n in names]
    return Path(paths[0]).parent
