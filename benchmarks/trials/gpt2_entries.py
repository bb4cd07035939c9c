"""What do GPT-2's 50,257 entries do to a small model, beside 8,192 of the text's own?

    python benchmarks/trials/gpt2_entries.py rates seeds near tables longer

Models learn Tiny Shakespeare as in `vocabulary.py`, with one table of tokens for both ends.

Arms        `own`: 8,192 entries, learned from the training text.
            `all`: GPT-2's 50,257 entries.
            `used`: GPT-2's entries again, but only those that occur in the training text or in the
            held-out text. It reads the same tokens as `all`, so all that sets these two apart is a
            wide table of which most is never met; what sets `used` and `own` apart is the cut. But
            `used` is told which entries the held-out text has. So `own, used` is told that, too: of
            our own 8,192 those that occur in either text. This arm came later.
Fixed       Every model has the same blocks and takes as many steps, of as many rows of 256 bytes,
            so all read as much text with the same reach. In tokens, GPT-2's arms read a few per
            cent more. 96 steps, a quarter of those in `vocabulary.py`, since `all` is expensive.
            Of `longer`, `own` and `used` were run first, and seen before this was settled; `all`
            was run last.
Rates       One for matrices and table, halved and doubled until the best is between two others,
            with seed 0. `longer` has 384 steps at the best rate of `own`, with the same seed. Seed
            0 hardly tells two rates of `used` apart, so `near` takes it through the fresh seeds at
            the other one. `tables` gives the table of `own` and of `all` two and four times the
            rate of the matrices, with seed 0.
Seeds       Three fresh ones.
Measured    Held-out loss, and bits per byte, since the cuts differ; how much of these falls on
            targets that the training text has not; how much is spent on entries that occur in
            neither text, which is what would be saved if they got no probability. Of the entries
            that are never a target in the training text: how many they are, beside how many entries
            are a target in the steps that are taken, where they are left (mean cosine between two
            of them, and between two that were met 20 times or more; mean length over that of the
            latter), and their probability on held-out text. And glitches: the 20th last token of
            every held-out row is replaced by an entry never met, or by one met 20 times or more,
            and the loss of the row's last 20 predictions is compared with that of the row as it
            was.
Against     We expect no gain from GPT-2's entries in bits per byte, and less than half of what
            they cost from the width of the table. If `all` is below `own` on all seeds, or if
            `all` is further from `used` than `used` is from `own`, we are wrong. Entries never met
            are harmless if they do no more harm in a row than entries met often.

The laboratory of chapter 1 reads the table, and its lesson. Needs GPT-2's vocabulary in tiktoken's
cache.
"""

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
import vocabulary
from jaxtyping import Float, Int
from torch import Tensor
from trial import Trial, seeded

from decoder_only.data import (
    Corpus,
    evaluation_batches,
    text_corpus,
    tiny_shakespeare,
    training_batch,
)
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import IGNORED, bits_per_byte, next_token_loss
from decoder_only.tokenization import gpt2_tokenizer

N_AFTER, OFTEN = 20, 20


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    entries: str
    steps: int = 96
    learning_rate: float = 2.0**-7
    table_times: float = 1.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured. The losses are in nats per token, on text that was held out."""

    vocab_size: int
    parameters: int
    in_table: int
    tokens_learned: int
    context_length: int
    loss: float
    bits_per_byte: float
    new_targets: float
    bits_of_new_targets: float
    bits_spent_on_unused: float | None
    never_met: int
    targets_read: int
    share_never_met: float
    cosine_before: float
    cosine_never_met: float
    cosine_met: float
    length_never_met: float
    harm_never_met: float
    harm_met: float
    processor_seconds: float


ARMS = [Run(entries=name) for name in ("own", "used", "all", "own, used")]
TRIAL = Trial(
    "gpt2_entries",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3),
    score="bits_per_byte",
    packages=("torch", "numpy", "tiktoken", "regex"),
)


def near() -> Iterator[list[Run]]:
    """The rate of `used` that seed 0 found nearly as good as the best, from fresh seeds."""
    yield [Run(entries="used", seed=seed) for seed in TRIAL.seeds]


def tables() -> Iterator[list[Run]]:
    """Tables that move faster than the matrices."""
    yield [
        Run(entries=name, table_times=x) for name in ("own", "all") for x in (2.0, 4.0)
    ]


def longer() -> Iterator[list[Run]]:
    """Four times the steps, one run each, at the best rate of `own`; `all` came later."""
    yield [Run(entries=arm.entries, steps=384) for arm in ARMS]


@functools.cache
def material(entries: str) -> tuple[Corpus, Corpus, int]:
    """Ids to learn from and to be measured on, and how many entries there are."""
    if entries == "own":
        return *vocabulary.material("words", 8192)[:2], 8192
    if entries == "all":
        text, tokenizer = tiny_shakespeare(), gpt2_tokenizer()
        parts = text[vocabulary.TRAINING], text[vocabulary.VALIDATION]
        corpora = [text_corpus(part, tokenizer) for part in parts]
        return *corpora, tokenizer.vocab_size
    corpora = material("own" if entries == "own, used" else "all")[:2]
    kept = np.unique(np.concatenate([corpus.ids for corpus in corpora]))
    anew = [
        replace(x, ids=np.searchsorted(kept, x.ids).astype(x.ids.dtype))
        for x in corpora
    ]
    return *anew, len(kept)


def times_met(corpus: Corpus, vocab_size: int) -> Int[np.ndarray, " v"]:
    """How often each entry is a target in a text."""
    return np.bincount(corpus.ids[1:], minlength=vocab_size)


def targets_read(corpus: Corpus, run: Run, context_length: int) -> int:
    """How many entries are a target in the steps of a run."""
    rows = {"batch_size": vocabulary.BATCH_SIZE, "context_length": context_length}
    read = (
        training_batch(corpus, seed=run.seed, step=step, **rows)[1].unique()
        for step in range(run.steps)
    )
    return len(torch.cat([*read]).unique())


def mean_cosine(table: Float[Tensor, "v d"]) -> float:
    """Between two different rows, on average."""
    unit, n = F.normalize(table, dim=1), len(table)
    return ((unit.sum(dim=0).square().sum().item() - n) / (n * n - n)) if n > 1 else 0.0


@torch.no_grad()
def predicted(
    model: GPT, corpus: Corpus, never_met: Int[Tensor, " n"]
) -> tuple[Float[Tensor, " s"], Int[Tensor, " s"], float]:
    """The loss of every target, the targets, and the mean probability of entries never met."""
    losses, asked, shares = [], [], []
    for inputs, targets in evaluation_batches(
        corpus, batch_size=4, context_length=model.config.context_length
    ):
        logits, real = model(inputs), targets != IGNORED
        losses.append(next_token_loss(logits, targets, reduction="none")[real])
        asked.append(targets[real])
        among = logits[real].index_select(-1, never_met).logsumexp(-1)
        shares.append((among - logits[real].logsumexp(-1)).exp())
    return torch.cat(losses), torch.cat(asked), torch.cat(shares).mean().item()


@torch.no_grad()
def spent_on(model: GPT, corpus: Corpus, unused: Int[Tensor, " n"]) -> float:
    """The nats per token that would be saved if some entries got no probability."""
    saved = []
    for inputs, targets in evaluation_batches(
        corpus, batch_size=4, context_length=model.config.context_length
    ):
        p = model(inputs)[targets != IGNORED].softmax(-1)
        saved.append(-torch.log1p(-p.index_select(-1, unused).sum(-1)))
    return torch.cat(saved).double().mean().item()


@torch.no_grad()
def surprise(
    model: GPT, corpus: Corpus, replacement: Int[np.ndarray, " b"] | None = None
) -> float:
    """The mean loss of the last predictions of all rows, where the token before may be another."""
    S, losses = model.config.context_length, []
    rows = torch.from_numpy(corpus.ids.astype("int64")).unfold(0, S + 1, S).clone()
    if replacement is not None:
        rows[:, S - N_AFTER] = torch.from_numpy(replacement)
    for some in rows.split(4):
        x = model.hidden(some[:, :-1])[:, -N_AFTER:]
        logits = model.head(x, model.embedding.weight)
        losses.append(next_token_loss(logits, some[:, -N_AFTER:], reduction="none"))
    return torch.cat(losses).mean().item()


def measure(run: Run) -> Found:
    """Make one run."""
    corpus, validation, vocab_size = material(run.entries)
    met = times_met(corpus, vocab_size)
    never, often = np.flatnonzero(met == 0), np.flatnonzero(met >= OFTEN)
    read = np.concatenate([corpus.ids, validation.ids])
    unused = np.flatnonzero(np.bincount(read, minlength=vocab_size) == 0)
    began = time.process_time()
    model = vocabulary.learn(
        corpus,
        vocab_size=vocab_size,
        steps=run.steps,
        learning_rate=run.learning_rate,
        table_learning_rate=run.table_times * run.learning_rate,
        seed=run.seed,
    )
    seconds = round(time.process_time() - began, 1)
    model.eval()
    table = model.embedding.weight.detach()
    untrained = GPT(model.config, generator=seeded(run.seed)).embedding.weight.detach()
    lengths = [table[ids].norm(dim=1).mean().item() for ids in (never, often)]
    losses, targets, share = predicted(model, validation, torch.from_numpy(never))
    new = torch.from_numpy(met)[targets] == 0
    plain, draws = surprise(model, validation), np.random.default_rng(run.seed)
    n_rows = validation.n_targets // model.config.context_length
    harm = [
        surprise(model, validation, draws.choice(ids, n_rows)) - plain
        for ids in (never, often)
    ]
    spent = spent_on(model, validation, torch.from_numpy(unused))
    nats_of_new = losses[new].double().sum().item() / len(losses)
    loss = losses.double().mean().item()
    return Found(
        vocab_size=vocab_size,
        parameters=model.count_parameters(),
        in_table=table.numel(),
        tokens_learned=run.steps * vocabulary.BATCH_SIZE * model.config.context_length,
        context_length=model.config.context_length,
        loss=loss,
        bits_per_byte=bits_per_byte(loss, validation.bytes_per_token),
        new_targets=new.double().mean().item(),
        bits_of_new_targets=bits_per_byte(nats_of_new, validation.bytes_per_token),
        bits_spent_on_unused=bits_per_byte(spent, validation.bytes_per_token),
        never_met=len(never),
        targets_read=targets_read(corpus, run, model.config.context_length),
        share_never_met=share,
        cosine_before=mean_cosine(untrained[never]),
        cosine_never_met=mean_cosine(table[never]),
        cosine_met=mean_cosine(table[often]),
        length_never_met=lengths[0] / lengths[1],
        harm_never_met=harm[0],
        harm_met=harm[1],
        processor_seconds=seconds,
    )


if __name__ == "__main__":
    TRIAL.main(
        measure,
        rates=TRIAL.search,
        seeds=TRIAL.repeat,
        near=near,
        tables=tables,
        longer=longer,
    )
