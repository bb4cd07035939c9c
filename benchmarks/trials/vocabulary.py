"""What does the size of a vocabulary do to a model: the four effects, and held-out bits per byte?

    python benchmarks/trials/vocabulary.py rates seeds shorter

Models learn Tiny Shakespeare. The first nine tenths are for merges and models, and a twentieth is
held out.

Arms        Vocabularies of 257 to 8,192 tokens. `lines` cuts the text at the ends of lines and not
            at words, so that merges may join words.
Fixed       Every model has the same blocks, takes as many steps, and sees as many bytes in a row
            and as many rows in a step. So all read the same amount of text with the same reach; in
            tokens, both depend on the arm. `shorter` has a quarter of the steps.
Rates       Halved and doubled until the best is between two others, with seed 0.
Seeds       Five fresh ones; two of them came later, since of three seeds intervals are wide.
Measured    Bits per byte of held-out text: losses of different tokenizers can be compared in no
            other unit. The seconds are those of the training alone.
Against     Merging does no more than pack the same surprise into fewer tokens if all arms agree in
            bits per byte, within their seeds.

Chapter 1 reads the table, and its laboratory.
"""

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trial import Trial, seeded

from decoder_only.data import Corpus, text_corpus, tiny_shakespeare
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import bits_per_byte
from decoder_only.model.presets import MODERN
from decoder_only.tokenization import GPT2_PATTERN, BytePairTokenizer
from decoder_only.training import TrainConfig, evaluate, train

PATTERNS = {"words": GPT2_PATTERN, "lines": r"[^\n]++\n?|\n"}
TRAINING, VALIDATION = slice(0, 1_003_854), slice(1_059_624, None)
ROW_BYTES, BATCH_SIZE = 256, 4


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    cut: str = "words"
    vocab_size: int
    d_model: int = 64
    steps: int = 384
    learning_rate: float = 2.0**-6
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured. The loss is in nats per token, on text that was held out."""

    parameters: int
    context_length: int
    bytes_per_token: float
    tokens_per_word: float
    loss: float
    bits_per_byte: float
    processor_seconds: float


ARMS = [
    *(Run(vocab_size=size) for size in (257, 512, 1024, 2048, 4096, 8192)),
    *(Run(cut="lines", vocab_size=size) for size in (1024, 4096)),
]
TRIAL = Trial(
    "vocabulary",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3, 4, 5),
    score="bits_per_byte",
    packages=("torch", "numpy", "tiktoken", "regex"),
)


def shorter() -> Iterator[list[Run]]:
    """Every arm with a quarter of the steps, from one seed."""
    best = [TRIAL.best(arm) for arm in ARMS]
    yield [replace(arm, steps=arm.steps // 4, seed=1) for arm in best]


@functools.cache
def material(cut: str, vocab_size: int) -> tuple[Corpus, Corpus, float]:
    """Ids to learn from and to be measured on, and how many tokens a word takes there."""
    text = tiny_shakespeare()
    learned, held_out = text[TRAINING], text[VALIDATION]
    tokenizer = BytePairTokenizer.train(learned, vocab_size, pattern=PATTERNS[cut])
    corpora = text_corpus(learned, tokenizer), text_corpus(held_out, tokenizer)
    return *corpora, corpora[1].n_targets / len(held_out.split())


def learn(
    corpus: Corpus,
    *,
    vocab_size: int,
    d_model: int = 64,
    seed: int,
    **training: float | None,
) -> GPT:
    """A model that has learned a text.

    Args:
        training: steps and rates.
    """
    config = GPTConfig(
        vocab_size=vocab_size,
        context_length=round(ROW_BYTES / corpus.bytes_per_token),
        d_model=d_model,
        n_layers=2,
        n_heads=2,
        **MODERN,
    )
    settings = TrainConfig(
        batch_size=BATCH_SIZE,
        optimizer="muon",
        schedule="warmup_stable_decay",
        decay_fraction=0.6,
        warmup_steps=16,
        seed=seed,
        **training,
    )
    model = GPT(config, generator=seeded(seed))
    train(model, corpus, None, settings)
    return model


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, validation, tokens_per_word = material(run.cut, run.vocab_size)
    began = time.process_time()
    model = learn(
        corpus,
        vocab_size=run.vocab_size,
        d_model=run.d_model,
        steps=run.steps,
        learning_rate=run.learning_rate,
        seed=run.seed,
    )
    final = evaluate(model, validation, batch_size=BATCH_SIZE)
    return Found(
        parameters=model.count_parameters(),
        context_length=model.config.context_length,
        bytes_per_token=round(corpus.bytes_per_token, 4),
        tokens_per_word=round(tokens_per_word, 4),
        loss=final.loss,
        bits_per_byte=bits_per_byte(final.loss, validation.bytes_per_token),
        processor_seconds=round(time.process_time() - began, 1),
    )


if __name__ == "__main__":
    TRIAL.main(measure, rates=TRIAL.search, seeds=TRIAL.repeat, shorter=shorter)
