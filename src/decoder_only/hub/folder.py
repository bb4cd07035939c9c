"""Folders and names of published models: reading one, and writing one that `transformers` opens."""

import json
import os
import re
import reprlib
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from decoder_only.base import files
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
        device: where the model will be; the CPU by default.

    Returns:
        The model in evaluation mode and the dtype stored, without dropout. The tokenizer, or None
        if the folder has no tokenizer.json.

    Raises:
        FileNotFoundError: there is no such folder or name, a file or the network is missing.
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
    settings = files.read_json(folder / "config.json")
    try:
        model_type = settings.get("model_type")
        if not isinstance(model_type, str) or model_type not in FAMILIES:
            known = ", ".join(FAMILIES)
            shown = reprlib.repr(model_type)
            raise ValueError(f"model_type={shown} must be one of {known}")
        config = config_from(FAMILIES[model_type], settings)
        if folder != Path(name):
            preset = PRESETS[ALIASES.get(name, name)]
            if meaning_of(config) != meaning_of(preset):
                raise ValueError(f"config.json={config!r:.200} must be that of {name}")
    except ValueError as error:
        raise ValueError(f"{folder} cannot be read: {error!s:.500}") from None
    return FAMILIES[model_type], config


def _read_weights(folder: Path, table: str, config: GPTConfig) -> dict[str, Tensor]:
    holder_of, types, outlines = {}, set(), {}
    with ExitStack() as stack:
        for file in _weight_files(folder):
            files.open_file(folder / file).close()  # refuses what is no file
            holder = stack.enter_context(safe_open(folder / file, framework="pt"))
            for name in holder.keys():  # noqa: SIM118
                if not CONSTANTS.search(name):
                    holder_of[name], outline = holder, holder.get_slice(name)
                    types.add(outline.get_dtype())
                    outlines[name] = torch.empty(outline.get_shape(), device="meta")
        if len(types) > 1 or not types <= FLOATS:
            known = ", ".join(sorted(FLOATS))
            raise ValueError(f"types={types} must be one of {known}, the same for all")
        to_ours(
            outlines, table, config
        )  # refuses names and sizes before a weight is read
        weights = {name: holder.get_tensor(name) for name, holder in holder_of.items()}
    ours = to_ours(weights, table, config)
    if config.activation == "squared_relu":
        for name in [name for name in ours if name.endswith(".gate.weight")]:
            if not _equal(ours.pop(name), ours[name.replace(".gate.", ".up.")]):
                raise ValueError("hidden_act='relu' must be without a gate of its own")
    return ours


def _weight_files(folder: Path) -> set[str]:
    """The names of the files that hold the weights: one, or those that an index names."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").exists() or not index.exists():
        return {"model.safetensors"}
    table = files.read_json(index).get("weight_map")
    names = [*table.values()] if isinstance(table, dict) else [None]
    beside = re.compile(r"[\w.-]+\.safetensors").fullmatch
    if not all(isinstance(name, str) and beside(name) for name in names):
        shown = reprlib.repr(table)
        raise ValueError(f"weight_map={shown} must be a table of files in the folder")
    return set(names)


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
        overwrite: whether the folder may hold files already; those of the same names are replaced.

    Raises:
        FileExistsError: the folder is not empty; or it holds a run or what `prepare` made, which
            nothing overwrites.
        ValueError: no family of `transformers` computes this model; the setting is named.
    """
    config, folder = model.config, Path(folder)
    if type(model) is not GPT:
        kind = type(model).__name__
        raise ValueError(
            f"model={kind} must be GPT itself, whose positions see those before them"
        )
    settings = described(config)
    _check_folder(folder, overwrite)
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
    texts = _texts(config, settings, tokenizer)
    is_new = not folder.exists()
    try:
        with files.explained(folder):
            _write(folder, weights, texts)
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _check_folder(folder: Path, overwrite: bool) -> None:
    """Refuse to write over what cannot be made again, and over anything unless it is allowed."""
    others = (files.LOCK, "log.jsonl", "state-*", "weights.safetensors", "index.json")
    if any(any(folder.glob(name)) for name in others):
        raise FileExistsError(
            f"{folder} holds a run, or prepared tokens, which this would destroy; name another"
        )
    if not overwrite and folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; name another, or overwrite it")


def _texts(
    config: GPTConfig, settings: dict[str, object], tokenizer: BytePairTokenizer | None
) -> dict[str, object]:
    """What the JSON files hold; config.json comes last."""
    if tokenizer is None:
        return {"config.json": settings}
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"tokenizer.vocab_size={tokenizer.vocab_size} must be at most the model's "
            f"{config.vocab_size}"
        )
    end, end_id = next(iter(tokenizer.special_tokens.items()), (None, None))
    about = {"tokenizer_class": "PreTrainedTokenizerFast"}
    about["model_max_length"] = config.context_length
    return {
        "tokenizer_config.json": about | {"bos_token": end, "eos_token": end},
        "tokenizer.json": to_tokenizers(tokenizer),
        "config.json": settings | {"bos_token_id": end_id, "eos_token_id": end_id},
    }


def _write(
    folder: Path, weights: Mapping[str, Tensor], texts: Mapping[str, object]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    write_tensors(folder / "model.safetensors", weights, notes={"format": "pt"})
    for name, content in texts.items():  # config.json last: now all is there
        text = json.dumps(content, indent=1, ensure_ascii=False)
        files.write_atomically(folder / name, text.encode())


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

    def path_of(name: str, *, local: bool) -> str:
        return hub.hf_hub_download(repository, name, local_files_only=local)

    try:
        paths = [path_of(name, local=True) for name in names]
    except Exception:  # not all of them are in the cache
        # Asked once, because without a network a download is tried for half a minute.
        hub.get_hf_file_metadata(hub.hf_hub_url(repository, names[0]), timeout=10)
        paths = [path_of(name, local=False) for name in names]
    return Path(paths[0]).parent
