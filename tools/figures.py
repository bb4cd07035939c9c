"""Makes what the opening page and the README show, from a training run and from the stored model.

    decoder-only train --out runs/hamlet
    python tools/figures.py runs/hamlet/log.jsonl

Written are book/figures/floor.svg (the run's losses and the floor), book/figures/opening.json (a
story by the stored model, and the letter at which it leaves the language) and book/_static/card.png
(what other sites show of a link). The log is copied to benchmarks/results/, so that without an
argument all is made anew from there. Run it again whenever the stored model has changed.
"""

import json
import sys
from pathlib import Path
from shutil import copyfile

import matplotlib

matplotlib.use("Agg")

import torch
from matplotlib import pyplot as plt

from decoder_only.generation import write
from decoder_only.stories import StoryLanguage
from decoder_only_book import plots
from decoder_only_book.stored import load_story_model
from decoder_only_book.vector import svg

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "benchmarks" / "results" / "stories-cpu.jsonl"
FIGURE = ROOT / "book" / "figures" / "floor.svg"
STORY = ROOT / "book" / "figures" / "opening.json"
CARD = ROOT / "book" / "_static" / "card.png"

TEMPERATURE, SEEDS = 0.5, range(6)
COMMAND = (
    "decoder-only sample --run {run} --temperature {temperature} --seed {seed} --judge"
)


def losses() -> tuple[dict, float | None]:
    """The run's curves, and the entropy of the language in nats per token."""
    records = [json.loads(line) for line in LOG.read_text().splitlines()]
    curves, floor = {}, None
    for name, key in (("training", "loss"), ("validation", "validation_loss")):
        found = [record for record in records if key in record]
        curves[name] = [r["step"] for r in found], [r[key] for r in found]
        floor = found[-1].get("floor", floor)
    return curves, floor


def draw(path: Path, size: tuple[float, float], title: str | None = None) -> None:
    """The losses near the floor: the first steps, far above, would hide the gap that is left."""
    curves, floor = losses()
    plots.use_style()
    figure, axes = plt.subplots(figsize=size)
    plots.loss_curves(curves, floor=floor, faint=["training"], ax=axes)
    last = curves["validation"][1][-1]
    low = floor if floor is not None else last
    axes.set_ylim(low - 0.25 * (last - low) - 0.05, low + 5 * (last - low) + 0.05)
    if title:
        axes.set_title(title, loc="left", fontsize=16, fontweight="bold", pad=14)
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".svg":
        path.write_text(svg(figure) + "\n", encoding="utf-8")
    else:
        figure.savefig(path, dpi=150)
    plt.close(figure)


def tell() -> dict:
    """Of a few samples, the one that stays in the language longest before it leaves it."""
    run, language = load_story_model(), StoryLanguage()
    best = None
    for seed in SEEDS:
        (text,) = write(
            run.model,
            run.tokenizer,
            max_new_tokens=300,
            temperature=TEMPERATURE,
            generator=torch.Generator().manual_seed(seed),
        )
        verdict = language.explain(text)
        left = not verdict.in_language and verdict.found.strip()
        if left and (best is None or verdict.at > best[1].at):
            best = seed, verdict
    if best is None:
        raise SystemExit("decoder-only: no sample leaves the language; try more SEEDS")
    seed, verdict = best
    command = COMMAND.format(
        run="src/decoder_only_book/stored/full", temperature=TEMPERATURE, seed=seed
    )
    return {
        "command": command,
        "read": verdict.read,
        "found": verdict.found,
        "expected": [[words, round(p, 3)] for words, p in verdict.expected[:3]],
    }


def main() -> None:
    if len(sys.argv) > 1:
        copyfile(sys.argv[1], LOG)
    draw(FIGURE, (plots.WIDTH, 2.7))
    draw(CARD, (8, 4.2), "Decoder-Only Transformers")
    story = json.dumps(tell(), indent=1, ensure_ascii=False)
    STORY.write_text(story + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
