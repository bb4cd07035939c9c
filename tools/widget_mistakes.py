"""What the widget "a mistake to find" shows: five checks of nine models, written into its script.

    python tools/widget_mistakes.py

The mistakes and the checks are those of chapter 8's laboratory, whose cells this runs. Losses and
recited shares are read from the stored trial (`benchmarks/trials/mistakes.py`).
"""

import json
import math
import re
from pathlib import Path
from unittest.mock import patch

import numpy as np

from decoder_only.model import multihead
from decoder_only_book.stored import load_runs

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "book" / "_static" / "live" / "widgets" / "mistake.js"
LABORATORY = ROOT / "book" / "lab" / "08_model.ipynb"
LINES = re.compile(r"(?<=  const FOUND = \{\n).*?(?=^  \};$)", re.DOTALL | re.MULTILINE)
RATE = 3e-3
NAMES = (
    "no mistake",
    "no mask",
    "merged untransposed",
    "scores over K",
    "no positions",
    "no residuals",
    "norm over the batch",
    "targets not moved",
    "softmax twice",
)


def found() -> dict[str, dict[str, object]]:
    """The checks' outcomes for each mistake, as the script has them."""
    laboratory, runs = defined(), load_runs("mistakes")
    return {name: checked(name, laboratory, runs) for name in NAMES}


def defined() -> dict[str, object]:
    """The names that the laboratory's cells with the tag "mistakes" define."""
    names: dict[str, object] = {"__name__": "laboratory"}
    for cell in json.loads(LABORATORY.read_text(encoding="utf-8"))["cells"]:
        if "mistakes" in cell["metadata"].get("tags", ()):
            exec("".join(cell["source"]), names)
    return names


def checked(name: str, laboratory: dict, runs) -> dict[str, object]:
    """One model, or more exactly four: three that were trained, and one with random weights.

    Losses are those at the start and after 60, 200 and 400 steps. The map is that of a model of one
    block, with a row for each position, in hexadecimal: bit t is set where the stream at t moves
    that position's logits. `places` says whether one token repeated gets different logits,
    `apart` whether other texts of the batch leave the logits alone.
    """
    plan, made = laboratory["plans"][name], laboratory["made"]
    tried = runs[(runs["mistake"] == name) & (runs["learning_rate"] == RATE)]
    inputs, answers = plan.cut(laboratory["batch"])
    repeated = laboratory["ids"].clone()
    repeated[0] = repeated[0, 0]
    with patch.object(multihead, "attend", plan.attention):
        first = [plan.loss(made(plan, seed)(inputs), answers) for seed in range(3)]
        same = laboratory["randomize"](made(plan))(repeated)[0]
        shallow = laboratory["build"](n_layers=1)
        plan.alter(shallow)
        moved = laboratory["influence"](laboratory["randomize"](shallow), inputs) > 0
    losses = [
        [first[seed].item(), *(run[f"loss_{steps}"] for steps in (60, 200, 400))]
        for seed, run in enumerate(np.sort(tried, order="seed"))
    ]
    rows = [sum(1 << t for t in range(16) if row[t]) for row in moved[0]]
    return {
        "losses": [[rounded(loss) for loss in each] for each in losses],
        "recited": [round(float(x), 2) for x in tried["recited"]],
        "map": " ".join(f"{row:04x}" for row in rows),
        "apart": not bool(moved[1:].any()),
        "places": bool((same - same[0]).abs().max() > 1e-9),
    }


def rounded(loss: float) -> float:
    """Two digits: seeds differ by more."""
    return round(float(loss), 1 - math.floor(math.log10(loss)))


def lines(outcomes: dict[str, dict[str, object]]) -> str:
    """As JavaScript, one line each."""
    return "".join(
        f"    {json.dumps(name)}: {json.dumps(each)},\n"
        for name, each in outcomes.items()
    )


if __name__ == "__main__":
    text = SCRIPT.read_text(encoding="utf-8")
    outcomes = lines(found())
    SCRIPT.write_text(LINES.sub(lambda _: outcomes, text, count=1), encoding="utf-8")
