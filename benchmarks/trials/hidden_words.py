"""A piece is hidden: what do a masked model and a decoder make of both sides, against the truth?

    python benchmarks/trials/hidden_words.py rates seeds

The English sentences of `stories.translation` are learned by models of width 32 with two pre-norm
blocks and learned positions: "masked", a masked model (15%, 80/10/10), and "causal", a GPT. Both
get 16 sentences a step. "masked, as many answers" gets 107, so that it is asked for as many pieces
as "causal" is; but it sees more sentences, too. Two controls have as many answers *and* as many
sentences as what they are set against: "masked, same sentences" gets 107 rows a step that are
16 sentences, each masked six or seven times; "causal, as few answers" is asked for 15% of the
pieces of its 16. That masking asks for two thirds of the pieces, some of them twice, among words of
which some are wrong. Three arms, made when the others had been seen, change this: "masked, same
sentences, plain" always puts the mask where a piece is asked for, as when the model is judged;
"masked, each piece once" does so too, and asks for every piece in just one of seven copies of the
16 sentences, as "causal" is asked for each once. So its masks are also spread over the rows as
evenly as can be, where the others leave many rows without any: "masked, as even" has as many in
each row as it has, at places drawn for each copy anew, so that some pieces are asked for twice. All
take 400 steps of AdamW with a cosine schedule. The masked models have a head with a layer more.

Pieces of held-out sentences are hidden. The language gives the exact posterior: each piece of the
vocabulary is put there, and the sentence scored. Measured is the mean of KL(p || q) in nats: `gap`,
where q is the masked model's answer at the mask, or the causal model's next-token distribution,
which sees the left side only; and `scored`, where q follows from the causal model's probabilities
of the whole sentences.

`rates` gives each arm five rates, and one more where the best was the largest, and asks for one
piece of each of 150 sentences, never the full stop; `seeds` repeats the best of each way to answer
with three fresh seeds, and asks 40 further sentences for every piece, so that no answer from the
left side is better in the mean than the language's own next piece. What would count against reading
both ways: a masked model's gap no smaller than that. What would count against a model made for it:
`scored` smaller than the masked models' gaps; and against that, where the sentences are the same, a
gap of "masked, each piece once" that is as small. The table goes into the package, for chapter 11.
Runs that stand in it are not made again.
"""

import functools
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from random import Random
from typing import Literal

import _path
import torch
import tyro
from provenance import collect, write_results
from tables import append, key, read
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.training import NextTokenLoss, train_step
from decoder_only.training.optimizers import build_optimizers, cosine, set_learning_rate
from decoder_only.variants.encoders import MaskedModel, mask_tokens
from decoder_only_book.translation import GERMAN

TABLE = _path.TABLES / "hidden_words.csv"
ARMS = {
    "masked": 16,
    "masked, as many answers": 107,
    "causal": 16,
    "masked, same sentences": 16,
    "causal, as few answers": 16,
    "masked, each piece once": 16,
    "masked, same sentences, plain": 16,
    "masked, as even": 16,
}
ROWS, ASKED, COPIES = 107, 0.15, 7
RATES = (2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2)
STEPS = 400
MASK = len(GERMAN.vocabulary)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run, by what sets it apart from the others."""

    arm: str
    learning_rate: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Row(Point):
    """A run and what came of it: KL to the exact posterior in nats.

    Those of seed 0, which choose the rates, were asked other questions than those of other seeds.
    """

    parameters: int
    gap: float
    scored: float | None
    processor_seconds: float


def rates() -> Iterator[Point]:
    for arm in ARMS:
        for rate in RATES:
            if rate < RATES[-1] or best_rate(arm, "gap") == RATES[-2]:
                yield Point(arm=arm, learning_rate=rate, seed=0)


def seeds() -> Iterator[Point]:
    for arm in ARMS:
        ways = ("gap", "scored") if arm.startswith("causal") else ("gap",)
        for rate in sorted({best_rate(arm, way) for way in ways}):
            for seed in (1, 2, 3):
                yield Point(arm=arm, learning_rate=rate, seed=seed)


def best_rate(arm: str, way: str) -> float:
    """The rate of seed 0 that is best for a way to answer, a column of the table."""
    runs = [row for row in read(TABLE) if row["arm"] == arm and row["seed"] == "0"]
    best = min(runs, key=lambda row: float(row[way]))
    return float(best["learning_rate"])


EXPERIMENTS = {each.__name__: each for each in (rates, seeds)}


def posterior(pieces: tuple[str, ...], place: int) -> Tensor:
    """p(piece | all others) for each of the vocabulary, and the mask; exactly."""
    made = ([*pieces[:place], word, *pieces[place + 1 :]] for word in GERMAN.vocabulary)
    scores = [GERMAN.source_log_prob(sentence) for sentence in made]
    return torch.tensor([*scores, -math.inf], dtype=torch.float64).softmax(0)


def places(*, choosing: bool) -> Iterator[tuple[tuple[str, ...], int]]:
    """Held-out sentences and places in them: to choose rates by, or every place of others."""
    rng, pairs = Random(1), GERMAN.pairs(split="validation", seed=0)
    for pair in islice(pairs, 150):
        if choosing:
            yield pair.source, rng.randrange(len(pair.source) - 1)
    if not choosing:
        for pair in islice(pairs, 40):
            yield from ((pair.source, place) for place in range(len(pair.source)))


@functools.cache
def questions(*, choosing: bool) -> list[tuple[Tensor, int, Tensor]]:
    """Ids of a held-out sentence, the place of a hidden piece among them, and its posterior."""
    return [
        (torch.tensor(GERMAN.encode(pieces)), place + 1, posterior(pieces, place))
        for pieces, place in places(choosing=choosing)
    ]


def padded(rows: list[Tensor]) -> Tensor:
    return pad_sequence(rows, batch_first=True)


def each_once(
    ids: Tensor, generator: torch.Generator, *, anew: bool = False
) -> tuple[Tensor, Tensor]:
    """Copies of sentences, with every piece behind the mask in just one of them.

    Drawn anew for each copy, as many pieces are behind the mask in each, but any.
    """
    is_piece = ids > 2  # not padding, not the start, not the end
    keys = torch.rand((COPIES if anew else 1, *ids.shape), generator=generator)
    keys = keys.masked_fill(~is_piece, 2.0)
    ranks = keys.argsort(-1).argsort(-1)  # among the pieces of a sentence
    copies = torch.arange(COPIES)[:, None, None]
    hidden = (is_piece & (ranks % COPIES == copies)).flatten(0, 1)
    ids = ids.repeat(COPIES, 1)
    return ids.masked_fill(hidden, MASK), ids.masked_fill(~hidden, -1)


def fitted(point: Point) -> GPT:
    """A model that has learned."""
    config = GPTConfig(
        vocab_size=MASK + 1,
        context_length=20,
        d_model=32,
        n_layers=2,
        n_heads=4,
        activation="gelu",
    )
    generator = torch.Generator().manual_seed(point.seed)
    is_causal = point.arm.startswith("causal")
    if is_causal:
        model = GPT(config, generator=generator)
    else:
        model = MaskedModel(config, pad_id=0, generator=generator)
    optimizers = build_optimizers(model, learning_rate=point.learning_rate)
    drawn = GERMAN.pairs(seed=point.seed)
    settings = {"mask_id": MASK, "vocab_size": MASK + 1, "keep": {0, 1, 2}}
    if point.arm.endswith("plain"):
        settings["shares"] = (1.0, 0.0)
    for step in range(STEPS):
        share = cosine(step, warmup_steps=STEPS // 10, total_steps=STEPS)
        set_learning_rate(optimizers, share)
        pairs = islice(drawn, ARMS[point.arm])
        ids = padded([torch.tensor(GERMAN.encode(pair.source)) for pair in pairs])
        if point.arm.startswith("masked, same sentences"):
            ids = ids.repeat(7, 1)[:ROWS]
        inputs, targets = ids[:, :-1], ids[:, 1:].masked_fill(ids[:, 1:] == 0, -1)
        if point.arm == "causal, as few answers":
            left_out = torch.rand(targets.shape, generator=generator) >= ASKED
            targets = targets.masked_fill(left_out, -1)
        if point.arm in ("masked, each piece once", "masked, as even"):
            anew = point.arm == "masked, as even"
            inputs, targets = each_once(ids, generator, anew=anew)
        elif not is_causal:
            inputs, targets = mask_tokens(ids, **settings, generator=generator)
        train_step(
            NextTokenLoss(model), optimizers, inputs, targets, max_gradient_norm=1.0
        )
    return model.eval()


@torch.no_grad()
def answers(model: GPT, asked: list[tuple[Tensor, int, Tensor]]) -> Tensor:
    """log q for every question: at the mask, or from the left side."""
    ids = padded([ids for ids, _, _ in asked])
    rows = torch.arange(len(ids))
    places = torch.tensor([place for _, place, _ in asked])
    if not isinstance(model, MaskedModel):
        return model(ids)[rows, places - 1].log_softmax(-1)
    ids[rows, places] = MASK
    return model(ids)[rows, places].log_softmax(-1)


@torch.no_grad()
def by_scoring(model: GPT, asked: list[tuple[Tensor, int, Tensor]]) -> Tensor:
    """log q from a causal model's probabilities of whole sentences."""
    found = []
    for ids, place, _ in asked:
        texts = ids.repeat(MASK + 1, 1)
        texts[:, place] = torch.arange(MASK + 1)
        loss = next_token_loss(model(texts[:, :-1]), texts[:, 1:], reduction="none")
        found.append(-loss.sum(1))
    return torch.stack(found).log_softmax(-1)


def divergence(log_q: Tensor, asked: list[tuple[Tensor, int, Tensor]]) -> float:
    """Mean KL(p || q) in nats."""
    truth = torch.stack([truth for _, _, truth in asked])
    terms = torch.special.xlogy(truth, truth) - truth * log_q
    return terms.sum(1).mean().item()


def measure(point: Point) -> Row:
    """Make one run."""
    began = time.process_time()
    model, asked = fitted(point), questions(choosing=point.seed == 0)
    scored = None
    if point.arm.startswith("causal"):
        scored = round(divergence(by_scoring(model, asked), asked), 4)
    return Row(
        **asdict(point),
        parameters=model.count_parameters(),
        gap=round(divergence(answers(model, asked), asked), 4),
        scored=scored,
        processor_seconds=round(time.process_time() - began, 1),
    )


def main(
    experiments: tyro.conf.Positional[tuple[Literal["rates", "seeds"], ...]],
) -> None:
    """Make the runs of some experiments that have not been made yet.

    Args:
        experiments: which, in this order: the later reads what the earlier found.
    """
    torch.set_num_threads(1)
    for name in experiments:
        done = {key(row, Point) for row in read(TABLE)}
        for point in EXPERIMENTS[name]():
            if key(asdict(point), Point) not in done:
                append(TABLE, row := measure(point))
                print(row, flush=True)
        about = {"runs": len(read(TABLE)), "provenance": collect(packages=["torch"])}
        write_results(TABLE.with_suffix(".json"), about)


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
