"""Whatever is done to a model, it is written and read back as it is, or refused by name.

So is every kind of model under every public function that takes a `GPT`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ladder import compare, random_ids, unchecked
from test_resume import HELD_OUT, SETTINGS, SHAPE, TEXT, TOKENIZER

from decoder_only import GPT, GPTConfig
from decoder_only.generation import beam_search, generate
from decoder_only.hub import export, from_gpt2, to_gpt2
from decoder_only.hub.folder import load_model
from decoder_only.training import (
    NextTokenLoss,
    TrainConfig,
    checkpoint,
    evaluate,
    train,
    train_step,
)
from decoder_only.training.optimizers import build_optimizers
from decoder_only.variants.encoders import Decoder, Encoder, MaskedModel
from decoder_only.variants.finetuning import add_lora, merge_lora

IDS = random_ids(length=8)


# ---------------------------------------------------------------- transforms and writers


def untouched(model: GPT) -> GPT:
    return model


def adapted(model: GPT) -> GPT:
    add_lora(model, rank=2)
    return model


def merged(model: GPT) -> GPT:
    add_lora(model, rank=2)
    merge_lora(model)
    return model


def frozen(model: GPT) -> GPT:
    model.embedding.requires_grad_(False)
    return model


def halved(model: GPT) -> GPT:
    return model.bfloat16()


def compiled(model: GPT) -> torch.nn.Module:
    return torch.compile(model)


def begun(model: GPT, folder: Path) -> Path:
    settings = {"model_config": model.config, "tokenizer": TOKENIZER}
    return checkpoint.create_run(folder, **settings)


def by_train(model: GPT, folder: Path) -> GPT:
    config = TrainConfig(**{**SETTINGS, "steps": 3, "save_every": None})
    train(model, TEXT, HELD_OUT, config, run=begun(model, folder))
    return checkpoint.load(folder).model


def by_save(model: GPT, folder: Path) -> GPT:
    checkpoint.save(begun(model, folder), model, step=1)
    return checkpoint.load(folder).model


def by_export(model: GPT, folder: Path) -> GPT:
    export(model, TOKENIZER, folder)
    return load_model(folder)


def by_names(model: GPT, _: Path) -> GPT:
    again = GPT(model.config)
    again.load_state_dict(from_gpt2(to_gpt2(model.state_dict())), strict=False)
    return again


@pytest.mark.parametrize(
    "write", [by_train, by_save, by_export, by_names], ids=lambda f: f.__name__
)
@pytest.mark.parametrize(
    "transform",
    [untouched, adapted, merged, frozen, halved, compiled],
    ids=lambda f: f.__name__,
)
def test_what_is_written_is_read_back_or_refused(transform, write, tmp_path):
    shape = {**SHAPE, "dropout": 0.0}
    generator = torch.Generator().manual_seed(0)
    with unchecked():
        model = transform(GPT(GPTConfig(**shape), generator=generator))
        if transform in (adapted, compiled):
            before = [x.clone() for x in model.parameters()]
            with pytest.raises(
                ValueError, match=r"merge_lora|_orig_mod|must be GPT|missing"
            ):
                write(model, tmp_path / "folder")
            assert all(map(torch.equal, before, model.parameters()))
            return
        again = write(model, tmp_path / "folder").float()
        compare("read back", again.eval()(IDS), model.float().eval()(IDS))


# ------------------------------------------------------------------- kinds of models


def step(model: GPT) -> object:
    return train_step(
        NextTokenLoss(model), build_optimizers(model, learning_rate=0.1), IDS, IDS
    )


def lora(model: GPT) -> None:
    adapted(model)(IDS)
    merge_lora(model)


USES: dict[str, Callable[[GPT], object]] = {
    "forward": lambda model: model(IDS, last_only=True),
    "hidden": lambda model: model.hidden(IDS),
    "head_weight": lambda model: model.head_weight.shape,
    "initialize": lambda model: model.initialize(),
    "count_parameters": lambda model: model.count_parameters(),
    "generate": lambda model: generate(model, IDS, max_new_tokens=2),
    "cache": lambda model: model(IDS, model.new_cache(len(IDS))),
    "beam_search": lambda model: beam_search(model, IDS[0], max_new_tokens=1),
    "loss": lambda model: NextTokenLoss(model)(IDS, IDS),
    "sliced loss": lambda model: NextTokenLoss(model, n_slices=2)(IDS, IDS),
    "evaluate": lambda model: evaluate(model, HELD_OUT),
    "train_step": step,
    "train": lambda model: train(model, TEXT, None, TrainConfig(steps=1)),
    "lora": lora,
    "source": lambda model: model(IDS, source=torch.zeros(2, 8, 16)),
}
REFUSED = {
    GPT: {"source"},
    Encoder: {"generate", "cache", "source"},
    MaskedModel: {"generate", "cache", "source", "sliced loss"},
    Decoder: {*USES} - {"head_weight", "initialize", "count_parameters"},
}


def test_every_kind_of_model_is_listed():
    package = {
        kind for kind in kinds(GPT) if kind.__module__.startswith("decoder_only")
    }
    assert package == set(REFUSED)


def kinds(kind: type) -> set[type]:
    return {kind}.union(*map(kinds, kind.__subclasses__()))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_each_kind_of_model_works_or_refuses_by_name(kind, tied, tmp_path):
    """No use of a model ends in an error that does not say what was wrong."""
    with unchecked():
        for name, use in USES.items():
            model = kind(GPTConfig(**{**SHAPE, "tied": tied}))
            if name in REFUSED[kind]:
                message = "cache|needs a head of type|source|is_seen"
                with pytest.raises((ValueError, TypeError), match=message):
                    use(model)
            else:
                use(model)
        if kind is not GPT:
            for write in (by_train, by_save, by_export):
                with pytest.raises(ValueError, match="must be GPT itself"):
                    write(model, tmp_path / write.__name__)
