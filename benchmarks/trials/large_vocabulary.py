"""Is the bump at 4,096 made by one learning rate, and what do 50,257 entries buy?

    python benchmarks/trials/large_vocabulary.py tables large

In `vocabulary.py` one rate moved matrices and tables alike. Here the table of the tokens has a rate
of its own.

Arms        `tables`: vocabularies of 1,024, 4,096 and 8,192 tokens, learned from the text.
            `large`: 8,192 of them, and GPT-2's 50,257 entries, learned from the web, which cut this
            text into as many tokens, so that what differs is the size of the table.
Fixed       Models and bytes, as in `vocabulary.py`; 384 steps, of `large` a quarter; the rate of
            the matrices, 2^-7, which was the best for 1,024 and 8,192 entries there.
Rates       Of the table: 2^-7 (`tables`: one rate, so these runs are in `vocabulary.py`) to 2^-5,
            for 4,096 to 2^-4.
Seeds       One: an illustration. `tables` has the seed that chose the rates in `vocabulary.py`.
Measured    Bits per byte of held-out text, the loss in nats per token, how many parameters there
            are, and how many entries never occur in the text that was learned.
Against     The bump is the rate's if 4,096 is no worse than its neighbours at some rate. A larger
            vocabulary is no burden if 50,257 entries do as well as 8,192.

`large` needs GPT-2's vocabulary in tiktoken's cache. Chapter 1 reads the table.
"""

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import vocabulary
from trial import Trial, seeded

from decoder_only.data import Corpus, text_corpus, tiny_shakespeare
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import bits_per_byte
from decoder_only.model.presets import MODERN
from decoder_only.tokenization import BytePairTokenizer, gpt2_tokenizer
from decoder_only.training import TrainConfig, train


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    merges: str = "own"
    vocab_size: int
    steps: int = 384
    table_learning_rate: float = 2.0**-5
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured. The loss is in nats per token, on text that was held out."""

    parameters: int
    never_met: int
    tokens_per_word: float
    loss: float
    bits_per_byte: float
    processor_seconds: float


TRIAL = Trial(
    "large_vocabulary",
    Run,
    Found,
    score="bits_per_byte",
    packages=("torch", "numpy", "tiktoken", "regex"),
)


def tables() -> Iterator[list[Run]]:
    """Own vocabularies, with tables that move faster than the matrices."""
    rates = {1024: (-6, -5), 4096: (-6, -5, -4), 8192: (-6, -5)}
    yield [
        Run(vocab_size=size, table_learning_rate=2.0**power)
        for size, powers in rates.items()
        for power in powers
    ]


def large() -> Iterator[list[Run]]:
    """GPT-2's vocabulary beside our largest, with a quarter of the steps."""
    arms = (
        Run(merges="gpt2", vocab_size=50257, steps=96, seed=1),
        Run(vocab_size=8192, steps=96, seed=1),
    )
    yield [
        replace(arm, table_learning_rate=2.0**power)
        for power in (-6, -5, -7)
        for arm in arms
    ]


@functools.cache
def material(merges: str, vocab_size: int) -> tuple[Corpus, Corpus, float]:
    """Ids to learn from and to be measured on, and how many tokens a word takes there."""
    text = tiny_shakespeare()
    learned, held_out = text[vocabulary.TRAINING], text[vocabulary.VALIDATION]
    if merges == "gpt2":
        tokenizer = gpt2_tokenizer()
    else:
        tokenizer = BytePairTokenizer.train(learned, vocab_size)
    corpora = text_corpus(learned, tokenizer), text_corpus(held_out, tokenizer)
    return *corpora, corpora[1].n_targets / len(held_out.split())


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, validation, tokens_per_word = material(run.merges, run.vocab_size)
    config = GPTConfig(
        vocab_size=run.vocab_size,
        context_length=round(vocabulary.ROW_BYTES / corpus.bytes_per_token),
        d_model=64,
        n_layers=2,
        n_heads=2,
        **MODERN,
    )
    training = TrainConfig(
        steps=run.steps,
        batch_size=vocabulary.BATCH_SIZE,
        optimizer="muon",
        learning_rate=2.0**-7,
        table_learning_rate=run.table_learning_rate,
        schedule="warmup_stable_decay",
        decay_fraction=0.6,
        warmup_steps=16,
        seed=run.seed,
    )
    began = time.process_time()
    model = GPT(config, generator=seeded(run.seed))
    final = train(model, corpus, validation, training).final
    return Found(
        parameters=model.count_parameters(),
        never_met=run.vocab_size - len(np.unique(corpus.ids)),
        tokens_per_word=round(tokens_per_word, 4),
        loss=final.loss,
        bits_per_byte=bits_per_byte(final.loss, validation.bytes_per_token),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TRIAL.main(measure, tables=tables, large=large)
