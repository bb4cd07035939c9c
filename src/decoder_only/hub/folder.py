"""Folders and names of published models: reading one, and writing one that `transformers` opens."""

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from decoder_only.base.checks import require
from decoder_only.base.files import (
    LOCK,
    explained,
    open_file,
    read_json,
    write_atomically,
)
from decoder_only.base.tensors import write_tensors
from decoder_only.hub.settings import (
    FAMILIES,
    Family,
    config_from,
    described,
    meaning_of,
)
from decoder_only.hub.weights import CONSTANTS, _equal, to_ours, to_theirs
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.presets import ALIASES, PRESETS
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.tokenization.exchange import to_tokenizers
from decoder_only.training import checkpoint

__all__ = ["export", "load"]


PUBLISHED = {"gpt2-small": "openai-community/gpt2"} | {
    f"gpt2-{size}": f"openai-community/gpt2-{size}"
    for size in ("medium", "large", "xl")
}
"""Models that can be had by name, and where they are published."""
FLOATS = {"BF16", "F16", "F32", "F64"}
LAYOUT = (
    "a folder that works is a run's, or has config.json, model.safetensors and "
    "tokenizer.json"
)


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


def _read_settings(folder: Path, name: str) -> tuple[Family, GPTConfig]:
    settings = read_json(folder / "config.json")
    try:
        model_type = str(settings.get("model_type"))
        known = f"one of {', '.join(FAMILIES)}"
        require("model_type", model_type, FAMILIES.__contains__, known)
        config = config_from(FAMILIES[model_type], settings)
        if folder != Path(name):
            preset = PRESETS[ALIASES.get(name, name)]
            same = meaning_of(config) == meaning_of(preset)
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
        to_ours(outlines, table, config)
        weights = {name: holder.get_tensor(name) for name, holder in found.items()}
    ours = to_ours(weights, table, config)
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
    settings = described(config)
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
    weights = to_theirs(state, FAMILIES[settings["model_type"]].weights)
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
