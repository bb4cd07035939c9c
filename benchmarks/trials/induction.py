"""How does a model come to copy, how suddenly, and by which algorithm?

    python benchmarks/trials/induction.py positions depth optimizers longer

Models learn `RepeatedChains`: a Markov chain that is the same in all sequences, repeated with a
period that nobody tells. The losses of six strategies on it are exact: uniform, unigram, bigram,
seen (the bigram among the tokens so far), copying (what followed the last token before) and the
truth.

Two algorithms can copy. By the key: a head tells each position which token is before it, and the
next block looks for the position whose predecessor is the last token. By the query: a head finds
where the last token was before, and the next block looks one position after it (pointer
arithmetic).

Arms        "learned" and "rotary" positions, with two blocks and Muon. "one block", which cannot
            look up what another position found, and "adamw", both with learned positions. `longer`
            goes on with the fresh seeds of three of them, at their rates: "learned, longer" and
            "rotary, longer" to step 1,200, and "one block, longer" to step 2,400. The rate stays
            after its warm-up, so that their first 600 steps are those of the shorter runs.
Fixed       Width 32, two heads, 600 steps of 32 sequences.
Rates       Halved and doubled until the best is between two others, with seed 0: by the last
            `late`.
Seeds       Five fresh ones in `positions`, three in `depth` and in `optimizers`.
Measured    Every twentieth step: the loss where all is repeated (`late`) and where nothing is
            (`new`), in nats per token; and the largest share of its weight that a head gives to one
            position:
              previous   in the first block, the token before
              same       in the first block, where the last token was a period before
              induction  in the last block, what followed there
            Of every 600th step: `late` where the heads of the last block make their queries, keys
            or values (`cut_query`, ...) from a stream in which the heads of the first block have
            their average output, and where all three are made from it (`cut_all`).
            What do the keys read? The output of a head of the first block is a sum of weights times
            values. In the same states of fresh seeds with two blocks: `late` where the keys read
            only the term of the token before, and the others' means over the batch (`key_before`);
            only that of the position itself (`key_itself`); of the token two before
            (`key_two_before`); or all but that of the token before (`key_others`).
Against     "Copying takes two steps" fails if one block comes as far as two. "Copying comes
            abruptly" fails if the fall to it takes as many steps as the fall to the bigram. "One
            algorithm for all" fails if one arm suffers from cut queries, and another from cut keys.
            The keys need the token before if `key_before` is nearer to the loss than to `cut_key`
            and the others are nearer to `cut_key`, in every run. (Set when that of "learned", seed
            1, had been seen.) What rotary keys need after 600 steps is a state in passing if twice
            as many steps bring `key_before` to the loss, as it is with learned positions: within a
            tenth of the way to `cut_key`, in every run.

Chapter 14 reads the table.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor
from trial import Trial, seeded

from decoder_only.analysis.interpretation import (
    RepeatedChains,
    attention_maps,
    rewired,
    streams,
    without_head,
)
from decoder_only.model.config import GPTConfig
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import next_token_loss
from decoder_only.model.presets import MODERN
from decoder_only.training import NextTokenLoss, train_step
from decoder_only.training.optimizers import build_optimizers, set_learning_rate

WIDTH, HEADS, STEPS, EVERY, BATCH, WARMUP = 32, 2, 600, 20, 32, 20
SOURCE = RepeatedChains()
LONGER = {"rotary, longer": 1200, "learned, longer": 1200, "one block, longer": 2400}
PARTS = ("query", "key", "value")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    arm: str
    learning_rate: float = 1.6e-2
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured of a state: see above. What is cut is measured at every 600th step."""

    step: int
    late: float
    new: float
    previous: float
    same: float
    induction: float
    cut_query: float | None = None
    cut_key: float | None = None
    cut_value: float | None = None
    cut_all: float | None = None
    key_before: float | None = None
    key_itself: float | None = None
    key_two_before: float | None = None
    key_others: float | None = None


TRIAL = Trial("induction", Run, Found, score="late", scored={"step": STEPS}, digits=4)


def positions() -> Iterator[list[Run]]:
    """Learned and rotary positions, with five fresh seeds."""
    yield from tuned([Run(arm="learned"), Run(arm="rotary")], n_seeds=5)


def depth() -> Iterator[list[Run]]:
    """One block, with three fresh seeds."""
    yield from tuned([Run(arm="one block")], n_seeds=3)


def optimizers() -> Iterator[list[Run]]:
    """AdamW, with three fresh seeds."""
    yield from tuned([Run(arm="adamw")], n_seeds=3)


def longer() -> Iterator[list[Run]]:
    """Runs of other experiments, made again with more steps."""
    for arm in LONGER:
        rate = TRIAL.best(Run(arm=shorter(arm))).learning_rate
        n_seeds = 3 if arm.startswith("one") else 5
        yield [Run(arm=arm, learning_rate=rate, seed=1 + i) for i in range(n_seeds)]


def shorter(arm: str) -> str:
    """The arm of which a longer one is the same run, with more steps."""
    return arm.removesuffix(", longer")


def tuned(arms: list[Run], n_seeds: int) -> Iterator[list[Run]]:
    """Arms at rates around their best, and there from fresh seeds."""
    yield from TRIAL.search(arms)
    best = [TRIAL.best(arm) for arm in arms]
    yield [replace(arm, seed=seed) for arm in best for seed in range(1, 1 + n_seeds)]


def configuration(arm: str) -> GPTConfig:
    """The model of an arm."""
    arm = shorter(arm)
    positions = "rotary" if arm == "rotary" else "learned"
    return GPTConfig(
        vocab_size=len(SOURCE.chain),
        context_length=SOURCE.length,
        d_model=WIDTH,
        n_layers=1 if arm == "one block" else 2,
        n_heads=HEADS,
        **MODERN | {"positions": positions, "qk_norm": False},
    )


class Meter:
    """What is measured of a model, on sequences that it does not learn from."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(10_000)
        self.ids, self.periods = SOURCE.sample(128, generator)
        places = torch.arange(1, SOURCE.length)
        self.is_new = places < self.periods[:, None]

    @torch.no_grad()
    def losses(self, model: GPT) -> tuple[float, float]:
        """Where all is repeated, and where nothing is."""
        logits, targets = model(self.ids[:, :-1]), self.ids[:, 1:]
        nats = next_token_loss(logits, targets, reduction="none")
        return nats[:, SOURCE.late].mean().item(), nats[self.is_new].mean().item()

    def scores(self, model: GPT) -> dict[str, float]:
        """The largest mean weight that a head gives to each kind of place."""
        maps = attention_maps(model, self.ids[:32])[..., SOURCE.late, :]
        s = torch.arange(SOURCE.length)[SOURCE.late]
        earlier = s - self.periods[:32, None]
        places = {"previous": (0, s - 1), "same": (0, earlier)}
        places["induction"] = (-1, earlier + 1)
        found = {}
        for name, (layer, at) in places.items():
            weights = maps[:, layer]  # (b, h, s, t)
            at = at.expand(len(weights), -1)[:, None, :, None]
            chosen = weights.gather(-1, at.expand(-1, weights.shape[1], -1, -1))
            found[name] = chosen.mean((0, 2, 3)).max().item()
        return found

    def cut(self, model: GPT) -> dict[str, float]:
        """The late loss where the last block does not read the heads of the first."""
        if len(model.blocks) == 1:
            return {}
        with without_head(model, *((0, h) for h in range(HEADS))):
            blind = streams(model, self.ids[:, :-1])[1]
        found = {
            f"cut_{name}": self.reading(
                model, PARTS if name == "all" else [name], blind
            )
            for name in (*PARTS, "all")
        }
        distance = torch.arange(SOURCE.length - 1)
        distance = distance[:, None] - distance  # (s, t)
        for name, kept in {
            "before": distance == 1,
            "itself": distance == 0,
            "two_before": distance == 2,
            "others": distance != 1,
        }.items():
            found[f"key_{name}"] = self.reading(
                model, ["key"], self.cut_stream(model, kept)
            )
        return found

    def reading(
        self, model: GPT, parts: Iterable[str], stream: Float[Tensor, "b s d"]
    ) -> float:
        """The late loss where the last block makes queries, keys or values from a stream."""
        with ExitStack() as cuts:
            for part, h in product(parts, range(HEADS)):
                cuts.enter_context(rewired(model, (1, h), part, lambda x: stream))
            return self.losses(model)[0]

    @torch.no_grad()
    def cut_stream(
        self, model: GPT, kept: Bool[Tensor, "s t"]
    ) -> Float[Tensor, "b s d"]:
        """The stream after the first block, with some terms of its heads' sums as they are, and the
        mean over the batch of all others."""
        ids, block = self.ids[:, :-1], model.blocks[0]
        x = streams(model, ids)[0]
        value = block.attention.project(block.attention_norm(x))[2]
        terms = attention_maps(model, ids)[:, 0, ..., None] * value[:, :, None]
        terms = torch.where(kept[..., None], terms, terms.mean(0))  # (b, h, s, t, k)
        x = x + block.attention.output(rearrange(terms.sum(3), "b h s k -> b s (h k)"))
        return x + block.mlp(block.mlp_norm(x))


def measure(run: Run) -> Iterator[Found]:
    """Make one run, and measure its states."""
    meter, generator = Meter(), seeded(run.seed)
    steps = LONGER.get(run.arm, STEPS)
    model = GPT(configuration(run.arm), generator=generator)
    optimizers = build_optimizers(
        model,
        optimizer="adamw" if run.arm == "adamw" else "muon",
        learning_rate=run.learning_rate,
    )
    for step in range(steps + 1):
        if step % EVERY == 0:
            late, new = meter.losses(model.eval())
            cut = meter.cut(model) if step and step % STEPS == 0 else {}
            yield Found(step=step, late=late, new=new, **meter.scores(model), **cut)
        if step == steps:
            return
        if step % 100 == 0:
            drawn, _ = SOURCE.sample(100 * BATCH, generator)
        ids = drawn[step % 100 * BATCH :][:BATCH]
        set_learning_rate(optimizers, min(1, (step + 1) / WARMUP))
        train_step(
            NextTokenLoss(model),
            optimizers,
            ids[:, :-1],
            ids[:, 1:],
            max_gradient_norm=1.0,
        )


if __name__ == "__main__":
    TRIAL.main(
        measure, positions=positions, depth=depth, optimizers=optimizers, longer=longer
    )
