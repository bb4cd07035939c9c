"""What the trials of fine-tuning share: the pretrained model, what it read, and what it forgets."""

import functools
from itertools import islice

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from decoder_only.data import Corpus, story_corpora
from decoder_only.model.gpt import GPT
from decoder_only.stories import StoryLanguage
from decoder_only.training import evaluate
from decoder_only_book.stored import load_model

LANGUAGE = StoryLanguage.hamlet()
TALES = {
    tale: StoryLanguage(**{**LANGUAGE.arguments, "tales": (tale,)})
    for tale in LANGUAGE.tales
}
"""The same world with a single tale: whose story a text is, these languages decide."""
TOKENIZER = load_model("hamlet", 2).tokenizer
END = TOKENIZER.special_tokens["<|endoftext|>"]


def pretrained(step: int | None = None) -> GPT:
    """The stored model, or a state of its training."""
    return load_model("hamlet", step).model


def fresh(seed: int) -> GPT:
    """A model of the same shape that has read nothing."""
    generator = torch.Generator().manual_seed(seed)
    return GPT(pretrained(2).config, generator=generator)


@functools.cache
def validation() -> Corpus:
    """Forty stories of the language that the model was trained on, which it never saw."""
    sizes = {"n_train": 1, "n_validation": 40}
    return story_corpora(LANGUAGE, TOKENIZER, **sizes)[1]


@torch.no_grad()
def old_gap(model: GPT) -> float:
    """How far a model is above the floor of the old language, in nats per token."""
    return round(evaluate(model, validation()).gap, 4)


def stories(split: str, n: int, *, seed: int = 0) -> list[str]:
    return list(islice(LANGUAGE.stories(split=split, seed=seed), n))


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Rows of one length, and how long each was."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return ids, torch.tensor([len(row) for row in rows])
