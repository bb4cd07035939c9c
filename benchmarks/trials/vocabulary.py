"""What a vocabulary's size does to a model: the four effects, and held-out bits per byte.

    python benchmarks/trials/vocabulary.py rates      three rates for every arm, and more
                                                      until the best lies between two others
    python benchmarks/trials/vocabulary.py seeds      three fresh seeds of each, at that rate
    python benchmarks/trials/vocabulary.py shorter    one of them with a quarter of the steps

Tiny Shakespeare, the first nine tenths to learn merges and models from, a twentieth to be measured
on. Between the arms only the tokenizer differs: every model has the same blocks, takes as many
steps, sees as many bytes in a row and as many rows in a step. So all read the same amount of text
with the same reach; in tokens, both depend on the arm. Losses of different tokenizers can be
compared in bits per byte alone. If merging did no more than pack the same surprise into fewer
tokens, all arms would agree in them, within their seeds. `lines` cuts text at the ends of lines, so
that merges may join words; a narrow model of V = 2,048 has fewer parameters than that of bytes.

Runs that stand in the table are not made again. Chapter 1 reads it and repeats one of its rows.
"""

import functools
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import torch
from trial import Table

from decoder_only.data import Corpus, text_corpus, tiny_shakespeare
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import bits_per_byte
from decoder_only.model.presets import MODERN
from decoder_only.tokenization import GPT2_PATTERN, BytePairTokenizer
from decoder_only.training import TrainConfig, train

PATTERNS = {"words": GPT2_PATTERN, "lines": r"[^\n]++\n?|\n"}
TRAINING, VALIDATION = slice(0, 1_003_854), slice(1_059_624, None)
ROW_BYTES, BATCH_SIZE = 256, 4
SEEDS = 1, 2, 3  # seed 0 is for choosing the rate


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    cut: str = "words"
    vocab_size: int
    d_model: int = 64
    steps: int = 384
    learning_rate: float = 2.0**-6
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it. The loss is in nats per token, on text that was held out."""

    parameters: int
    context_length: int
    bytes_per_token: float
    tokens_per_word: float
    loss: float
    bits_per_byte: float
    processor_seconds: float


TABLE = Table("vocabulary", Point, score="bits_per_byte")
ARMS = [
    *(Point(vocab_size=size) for size in (257, 512, 1024, 2048, 4096, 8192)),
    *(Point(cut="lines", vocab_size=size) for size in (1024, 4096)),
    Point(vocab_size=2048, d_model=36),
]


@functools.cache
def material(cut: str, vocab_size: int) -> tuple[Corpus, Corpus, float]:
    """Ids to learn from and to be measured on, and how many tokens a word takes there."""
    text = tiny_shakespeare()
    learned, held_out = text[TRAINING], text[VALIDATION]
    tokenizer = BytePairTokenizer.train(learned, vocab_size, pattern=PATTERNS[cut])
    corpora = text_corpus(learned, tokenizer), text_corpus(held_out, tokenizer)
    return *corpora, corpora[1].n_targets / len(held_out.split())


def rates() -> Iterator[Point]:
    yield from TABLE.rates(ARMS)


def seeds() -> Iterator[Point]:
    yield from TABLE.seeds(ARMS, SEEDS)


def shorter() -> Iterator[Point]:
    for point in TABLE.seeds(ARMS, SEEDS[:1]):
        yield replace(point, steps=point.steps // 4)


def measure(point: Point) -> Row:
    """Make one run."""
    corpus, validation, tokens_per_word = material(point.cut, point.vocab_size)
    config = GPTConfig(
        vocab_size=point.vocab_size,
        context_length=round(ROW_BYTES / corpus.bytes_per_token),
        d_model=point.d_model,
        n_layers=2,
        n_heads=2,
        **MODERN,
    )
    training = TrainConfig(
        steps=point.steps,
        batch_size=BATCH_SIZE,
        optimizer="muon",
        learning_rate=point.learning_rate,
        schedule="warmup_stable_decay",
        decay_fraction=0.6,
        warmup_steps=16,
        seed=point.seed,
    )
    began = time.process_time()
    model = GPT(config, generator=torch.Generator().manual_seed(point.seed))
    final = train(model, corpus, validation, training).final
    return Row(
        **asdict(point),
        parameters=model.count_parameters(),
        context_length=config.context_length,
        bytes_per_token=round(corpus.bytes_per_token, 4),
        tokens_per_word=round(tokens_per_word, 4),
        loss=round(final.loss, 5),
        bits_per_byte=round(bits_per_byte(final.loss, validation.bytes_per_token), 5),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TABLE.make(
        measure,
        {"rates": rates, "seeds": seeds, "shorter": shorter},
        packages=("torch", "numpy", "tiktoken", "regex"),
    )
