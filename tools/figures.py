"""Draws the figure of the opening page and the README, from the log of the default training run.

    decoder-only train --steps 1600 --evaluate-every 200 --out runs/story-model
    python tools/figures.py runs/story-model/log.jsonl

The log is copied to benchmarks/results/, so that without an argument the figure is drawn anew from
there.
"""

import json
import sys
from pathlib import Path
from shutil import copyfile

import matplotlib

matplotlib.use("Agg")

from decoder_only.show import plots

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "benchmarks" / "results" / "stories-cpu.jsonl"
FIGURE = ROOT / "book" / "figures" / "floor.png"


def main() -> None:
    if len(sys.argv) > 1:
        copyfile(sys.argv[1], LOG)
    records = [json.loads(line) for line in LOG.read_text().splitlines()]
    curves, floor = {}, None
    for name, key in (("training", "loss"), ("validation", "validation_loss")):
        found = [record for record in records if key in record]
        curves[name] = [r["step"] for r in found], [r[key] for r in found]
        floor = found[-1].get("floor", floor)
    plots.use_style()
    axes = plots.loss_curves(curves, floor=floor, faint=["training"])
    FIGURE.parent.mkdir(exist_ok=True)
    axes.figure.savefig(FIGURE)


if __name__ == "__main__":
    main()
