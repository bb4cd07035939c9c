"""What does a search for the likeliest story find?

    python benchmarks/trials/likeliest.py

The stored story model, asked by beam search for a whole story of at most 207 tokens.

Arms        Beams of 1 (greedy decoding), 2, 4, 8 and 16.
Measured    Of the likeliest story that was found: tokens, with the one that ends it if it ended;
            its surprise under the model and, if it is possible, under the language; the share of
            different runs of four words; and the story. How many of the stories that were found
            are possible, and how many different first sentences they have.
Against     The likeliest story would be typical if its surprise under the language were within the
            range of true stories.

Chapter 16 reads the table.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from trial import Trial

from decoder_only.generation import beam_search
from decoder_only.stories import StoryLanguage
from decoder_only_book.stored import load_story_model


@dataclass(frozen=True, kw_only=True)
class Run:
    """What sets a run apart."""

    n_beams: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is measured; a story that is not possible has no surprise under the language."""

    tokens: int
    ended: int
    model_nats: float
    truth_nats: float | None
    possible: int
    beginnings: int
    different_runs: float
    text: str


TRIAL = Trial("likeliest", Run, Found, score="model_nats")


def beams() -> Iterator[list[Run]]:
    """All widths."""
    yield [Run(n_beams=n) for n in (1, 2, 4, 8, 16)]


def measure(run: Run) -> Found:
    """Make one run."""
    language, saved = StoryLanguage(), load_story_model()
    end = saved.tokenizer.special_tokens["<|endoftext|>"]
    found = beam_search(
        saved.model,
        torch.tensor([end]),
        max_new_tokens=207,
        n_beams=run.n_beams,
        stop_id=end,
        n_allowed=saved.tokenizer.vocab_size,
    )
    rows = [ids[1:].tolist() for ids, _ in found]
    texts = [saved.tokenizer.decode([i for i in row if i != end]) for row in rows]
    ended = [row[-1] == end for row in rows]
    scores = [language.log_prob(text) for text in texts]
    possible = [s > -math.inf and e for s, e in zip(scores, ended, strict=True)]
    words = texts[0].split()
    runs = [*zip(*(words[i:] for i in range(4)), strict=False)]
    return Found(
        tokens=len(rows[0]),
        ended=int(ended[0]),
        model_nats=-found[0][1],
        truth_nats=-scores[0] if possible[0] else None,
        possible=sum(possible),
        beginnings=len({text.partition(".")[0] for text in texts}),
        different_runs=len({*runs}) / len(runs),
        text=texts[0],
    )


if __name__ == "__main__":
    TRIAL.main(measure, beams=beams)
