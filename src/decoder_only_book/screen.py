"""A training on a page: its bar, its curve above the floor, and stories that are judged as it goes.

    with contextlib.redirect_stderr(Screen(folder, model, tokenizer, language, on_page())):
        train(model, ..., run=folder, progress=True)

The screen takes the place of the terminal in which the bar would be drawn. Whenever the bar moves,
the losses have just been read from the device, so drawing then adds no wait within a step. The
curve comes from the run's log. Used by `hour`.
"""

import io
import itertools
import math
import re
import statistics
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
from matplotlib.figure import Figure

from decoder_only import plots
from decoder_only.base.modes import restored_modes
from decoder_only.cli.words import visible
from decoder_only.generation import write
from decoder_only.model.gpt import GPT
from decoder_only.stories import Explanation, StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training.log import read_log

N_STORIES = 8  # at each evaluation
N_POINTS = 150  # of the training curve, so that it stays small
_BAR = re.compile(r"steps \|")


class Screen(io.TextIOBase):
    """A stream that draws whenever the bar of a training is written to it.

    Args:
        folder: of the run, in which the log is.
        model: that is trained; at each evaluation it writes a few stories.
        tokenizer, language: the model's, and the judge of its stories.
        show: called with the bar, a figure or None, and the stories in lines.
        every: seconds between two drawings; one comes after each evaluation in any case.
        longest: the most tokens of a story.
    """

    encoding = "utf-8"

    def __init__(
        self,
        folder: Path,
        model: GPT,
        tokenizer: BytePairTokenizer,
        language: StoryLanguage,
        show: Callable[[str, Figure | None, str], None],
        *,
        every: float = 15.0,
        longest: int = 250,
    ) -> None:
        self.folder, self.model, self.tokenizer = folder, model, tokenizer
        self.language, self.show = language, show
        self.every, self.longest = every, longest
        self.stories, self._bar, self._n_judged = "", "", 0
        self._terminal, self._drawn = sys.stderr, -math.inf
        self._thread = threading.current_thread()

    def write(self, text: str) -> int:
        """Draw, if this is the bar and it is time; what is no bar goes to the terminal."""
        is_end = text == "\n" and bool(self._bar)
        if _BAR.search(text):
            self._bar = text.strip()
        elif text.strip() and self._terminal is not None:
            return self._terminal.write(text)
        # The bar has a thread of its own that may refresh it; only the training's draws.
        if self._bar and threading.current_thread() is self._thread:
            self._draw(is_end)
        return len(text)

    def _draw(self, is_end: bool) -> None:
        if not is_end and time.monotonic() - self._drawn < self.every:
            return
        records = read_log(self.folder)
        evaluated = [each["step"] for each in records if "validation_loss" in each]
        if len(evaluated) > self._n_judged:
            self._n_judged = len(evaluated)
            self.stories = self._judged(records[-1]["step"])
        self.show(self._bar, curve(records), self.stories)
        self._drawn = time.monotonic()

    def _judged(self, step: int) -> str:
        """How many of a few stories are in the language, and one with its first wrong letter."""
        place = self.model.embedding.weight.device
        settings = {
            "count": N_STORIES,
            "max_new_tokens": self.longest,
            "temperature": 0.6,
        }
        generator = torch.Generator(place).manual_seed(0)
        with restored_modes(self.model):
            self.model.eval()
            texts = write(self.model, self.tokenizer, generator=generator, **settings)
        verdicts = [self.language.explain(text) for text in texts]
        n_right = sum(verdict.in_language for verdict in verdicts)
        longest = max(verdicts, key=lambda verdict: verdict.at)
        said = f"After step {step:,}: {n_right} of {N_STORIES} stories are in the language."
        return f"{said}\n\n{marked(longest)}"


def marked(verdict: Explanation, before: int = 400, after: int = 60) -> str:
    """The end of what the language reads of a story, and the letter at which it stops, in lines."""
    read = verdict.read
    text = read if len(read) <= before else f"… {read[-before:]}"
    if not verdict.in_language:
        text = f"{text} ✗ {verdict.found[:after]} …"
    return textwrap.fill(visible(text), 72, break_on_hyphens=False)


def curve(records: list[dict[str, object]]) -> Figure | None:
    """The losses of a log, above the floor; None before the first of them."""
    steps = [each for each in records if each.get("loss") is not None]
    evaluations = [each for each in records if each.get("validation_loss") is not None]
    if not steps:
        return None
    width = math.ceil(len(steps) / N_POINTS)
    groups = [steps[at : at + width] for at in range(0, len(steps), width)]
    ends = [group[-1]["step"] for group in groups]
    means = [sum(each["loss"] for each in group) / len(group) for group in groups]
    curves = {"training": (ends, means)}
    if evaluations:
        held_out = [(each["step"], each["validation_loss"]) for each in evaluations]
        curves["held-out stories"] = tuple(zip(*held_out, strict=True))
    floor = evaluations[-1]["floor"] if evaluations else None
    with plots.style():
        axes = Figure(figsize=(plots.WIDTH, 3.2)).subplots()
        plots.loss_curves(curves, floor=floor, faint=["training"], ax=axes)
    return axes.figure


def pace_of(folder: Path, tokens_per_step: int) -> float:
    """Tokens a second of a run: the median over the stretches between two reads of its loss.

    Evaluations and drawing fall into few stretches, so the median leaves them out.
    """
    last = {}  # the last step of each read, by its time
    for record in read_log(folder):
        if "loss" in record:
            last[record["seconds"]] = record["step"]
    reads = sorted(last.items())
    stretches = [
        (end - begin) * tokens_per_step / (later - earlier)
        for (earlier, begin), (later, end) in itertools.pairwise(reads)
    ]
    return statistics.median(stretches) if stretches else float("nan")


def on_page() -> Callable[[str, Figure | None, str], None]:
    """A function that draws into the output of its cell, each time in the place of the last."""
    from IPython.display import clear_output, display

    def show(bar: str, figure: Figure | None, stories: str) -> None:
        clear_output(wait=True)
        if figure is not None:
            display(figure)
        print(bar.replace(" left, ", " left\n"), stories, sep="\n\n")

    return show
