"""Models by name: sizes as published, counted on models that hold no weights."""

import pytest
import torch

from decoder_only import GPT
from decoder_only.model.presets import PRESETS


def count(name: str) -> int:
    with torch.device("meta"):
        return GPT(PRESETS[name]).count_parameters()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # As the published checkpoints have them.
        ("gpt2-small", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("llama2-7b", 6_738_415_616),
    ],
)
def test_as_many_parameters_as_published(name, parameters):
    assert count(name) == parameters


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        # Brown et al. (2020), table 2.1, "n_params".
        ("gpt3-small", 125),
        ("gpt3-medium", 356),
        ("gpt3-large", 760),
        ("gpt3-2.7b", 2_700),
        ("gpt3-6.7b", 6_700),
        ("gpt3-175b", 175_000),
    ],
)
def test_about_as_many_as_gpt3s_table_says(name, millions):
    assert count(name) / 1e6 == pytest.approx(millions, rel=0.02)


@pytest.mark.parametrize(
    ("name", "printed"), [("gpt3-xl", 1_300), ("gpt3-13b", 13_000)]
)
def test_the_two_rows_whose_heads_do_not_divide(name, printed):
    """Heads of the printed number and width make XL larger than its own row says."""
    config = PRESETS[name]
    merged = config.n_heads * config.head_width
    assert merged != config.d_model
    excess = 4 * config.n_layers * config.d_model * (merged - config.d_model)
    assert (count(name) - excess) / 1e6 == pytest.approx(printed, rel=0.02)


def test_gpt3_alternates_dense_and_banded_blocks():
    with torch.device("meta"):
        blocks = GPT(PRESETS["gpt3-small"]).blocks
    assert [block.attention.window for block in blocks] == [None, 256] * 6


def test_the_modern_model_begins_undecided():
    """Its head is zero, so every token is equally likely whatever came before."""
    config = PRESETS["modern-small"]
    model = GPT(config, generator=torch.Generator().manual_seed(0))
    logits = model(torch.tensor([[5, 50_000, 5]]))
    assert torch.equal(logits, torch.zeros(1, 3, config.vocab_size))


def test_every_preset_can_be_built_without_memory():
    for name, config in PRESETS.items():
        with torch.device("meta"):
            model = GPT(config)
        assert all(p.is_meta for p in model.parameters()), name
