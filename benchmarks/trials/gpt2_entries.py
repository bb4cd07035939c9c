"""What do GPT-2's 50,257 entries do to a small model, beside 8,192 of the text's own?

    python benchmarks/trials/gpt2_entries.py rates seeds longer

Models learn Tiny Shakespeare as in `vocabulary.py`, with one table of tokens for both ends.

Arms        `own`: 8,192 entries, learned from the training text.
            `all`: GPT-2's 50,257 entries.
            `used`: GPT-2's entries again, but only those that occur in the training text or in the
            held-out text. It reads the same tokens as `all`, so all that sets these two apart is a
            wide table of which most is never met; what sets `used` and `own` apart is the cut.
Fixed       Every model has the same blocks and takes as many steps, of as many rows of 256 bytes,
            so all read as much text with the same reach. In tokens, GPT-2's arms read a few per
            cent more. 96 steps, a quarter of those in `vocabulary.py`, since `all` is expensive.
            Of `longer`, `own` and `used` were run first, and seen before this was settled; `all`
            was run last.
Rates       One for matrices and table, halved and doubled until the best is between two others,
            with seed 0. `longer` has 384 steps at the best rate of `own`, with the same seed.
Seeds       Three fresh ones.
Measured    Held-out loss, and bits per byte, since the cuts differ; how much of these falls on
            targets that the training text has not. Of the entries that are never a target in the
            training text: how many they are, where they are left (mean cosine between two of them,
            and between two that were met 20 times or more; mean length over that of the latter),
            and their probability on held-out text. And glitches: the 20th last token of every
            held-out row is replaced by an entry never met, or by one met 20 times or more, and the
            loss of the row's last 20 predictions is compared with that of the row as it was.
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
    never_met: int
    share_never_met: float
    cosine_before: float
    cosine_never_met: float
    cosine_met: float
    length_never_met: float
    harm_never_met: float
    harm_met: float
    processor_seconds: float


ARMS = [Run(entries=name) for name in ("own", "used", "all")]
TRIAL = Trial(
    "gpt2_entries",
    Run,
    Found,
    arms=ARMS,
    seeds=(1, 2, 3),
    score="bits_per_byte",
    packages=("torch", "numpy", "tiktoken", "regex"),
)


def longer() -> Iterator[list[Run]]:
    """Four times the steps, one run each, at the best rate of `own`; `all` was added last."""
    yield [Run(entries=name, steps=384) for name in ("own", "used", "all")]


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
    corpora = material("all")[:2]
    kept = np.unique(np.concatenate([corpus.ids for corpus in corpora]))
    anew = [
        replace(x, ids=np.searchsorted(kept, x.ids).astype(x.ids.dtype))
        for x in corpora
    ]
    return *anew, len(kept)


def times_met(corpus: Corpus, vocab_size: int) -> Int[np.ndarray, " v"]:
    """How often each entry is a target in a text."""
    return np.bincount(corpus.ids[1:], minlength=vocab_size)


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
    began = time.process_time()
    model = vocabulary.learn(
        corpus,
        vocab_size=vocab_size,
        steps=run.steps,
        learning_rate=run.learning_rate,
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
        never_met=len(never),
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
    TRIAL.main(measure, rates=TRIAL.search, seeds=TRIAL.repeat, longer=longer)
