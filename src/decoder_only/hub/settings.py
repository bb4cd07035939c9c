"""The settings of a published model, from and to its config.json."""

import json
import math
import reprlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from decoder_only.hub.weights import GPT2, LLAMA, QWEN3
from decoder_only.model.config import GPTConfig

__all__ = ["gpt2_config", "llama_config"]


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


class Family(NamedTuple):
    """How `transformers` describes and names one kind of model that `GPT` computes."""

    architecture: str
    weights: str  # a table as above
    settings: str  # likewise
    activations: dict[str, str]  # theirs: ours
    ours: dict[str, Any]  # what all models of the family have
    computed: dict[str, Any]  # their settings of which GPT computes this one value


_LLAMA = Family(
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
    "gpt2": Family(
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


def gpt2_config(settings: Mapping[str, object]) -> GPTConfig:
    """Our settings for a published GPT-2, without dropout.

    Args:
        settings: its config.json; what that leaves out takes GPT-2's defaults.

    Raises:
        ValueError: if a size is missing, or if a setting asks for what `GPT` does not compute.
    """
    return config_from(FAMILIES["gpt2"], settings)


def llama_config(settings: Mapping[str, object]) -> GPTConfig:
    """Our settings for a published Llama.

    Args:
        settings: its config.json; what that leaves out takes Llama's defaults.

    Raises:
        ValueError: if a size is missing, or if a setting asks for what `GPT` does not compute,
            such as rescaled rotations.
    """
    return config_from(FAMILIES["llama"], settings)


def config_from(family: Family, settings: Mapping[str, Any]) -> GPTConfig:
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise ValueError(f"rope_parameters={reprlib.repr(rope)} must be a table")
    rotation = {"rope_theta", "rope_type", "type"} & set(rope)
    settings = {**settings, **{name: rope[name] for name in rotation}}
    for name, computed in family.computed.items():
        asked = settings.get(name, computed)
        if asked != computed:
            shown = reprlib.repr(asked)
            raise ValueError(f"{name}={shown} must be {computed!r}, as GPT computes it")
    ours = dict(family.ours)
    for line in family.settings.strip().splitlines():
        theirs, name, *usual = line.split()
        if theirs not in settings and not usual:
            known = ", ".join(map(str, settings)) or "nothing"
            raise ValueError(f"the settings lack {theirs!r}; they hold {known}")
        value = settings[theirs] if theirs in settings else json.loads(usual[0])
        if name == "activation":
            if not isinstance(value, str) or value not in family.activations:
                known = ", ".join(family.activations)
                raise ValueError(
                    f"{theirs}={reprlib.repr(value)} must be one of {known}"
                )
            value = family.activations[value]
        ours[name] = value
    return GPTConfig(**ours)


def described(config: GPTConfig) -> dict[str, Any]:
    """The config.json of the family of `transformers` that computes a model.

    Raises:
        ValueError: no family does; a setting that differs is named.
    """
    model_type = "qwen3" if config.qk_norm else "llama"
    model_type = "gpt2" if config.positions == "learned" else model_type
    family = FAMILIES[model_type]
    rows = [line.split() for line in family.settings.strip().splitlines()]
    meaning = meaning_of(config)
    values = meaning | {n: x for n, x in vars(config).items() if x is not None}
    activations = {ours: theirs for theirs, ours in family.activations.items()}
    # What the family lacks is left out here, and found when the two models are compared.
    usual = next(iter(activations.values()))
    written = values | {"activation": activations.get(config.activation, usual)}
    settings = {theirs: written[ours] for theirs, ours, *_ in rows}
    read_back = config_from(family, json.loads(json.dumps(settings)))
    their_meaning = meaning_of(read_back)
    for name, value in meaning.items():
        if value != their_meaning.get(name):
            raise ValueError(
                f"{name}={values[name]!r} has no place in a {model_type} model of transformers, "
                f"which has {name}={getattr(read_back, name)!r}; no other family there computes "
                "this model either"
            )
    architectures = [family.architecture]
    return {"model_type": model_type, "architectures": architectures, **settings}


def meaning_of(config: GPTConfig) -> dict[str, Any]:
    """The settings that decide what a model computes, equal for configs that compute the same."""
    head_dim = config.head_width
    meaning = config.to_dict() | {"n_kv_heads": config.kv_heads, "head_dim": head_dim}
    meaning["d_mlp"] = config.mlp_width
    meaning["attention_scale"] = config.attention_scale or 1 / math.sqrt(head_dim)
    meaning["base_width"] = config.base_width or config.d_model
    whole = config.context_length if config.positions == "learned" else math.inf
    each = [None if w is None or w >= whole else w for w in config.windows]
    meaning["windows"] = tuple(each[i % len(each)] for i in range(config.n_layers))
    if config.positions in ("learned", "none"):
        meaning.pop("position_base")
    for name in ("dropout", "initialization"):  # which belong to training
        meaning.pop(name)
    return meaning
