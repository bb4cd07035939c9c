"""The command `plot`."""

from pathlib import Path
from typing import Annotated

from matplotlib import pyplot
from tyro.conf import Positional

from decoder_only import plots
from decoder_only.base.files import reading
from decoder_only.cli.options import option
from decoder_only.cli.words import plain
from decoder_only.training import log
from decoder_only.training.checkpoint import read_config


def plot(
    runs: Positional[Annotated[tuple[Path, ...], option("RUN")]],
    *,
    out: Annotated[Path, option("FILE", "runs.png")] = Path("runs.png"),
) -> None:
    """Draw the losses of runs in one figure, and the norms of their gradients.

    Args:
        runs: Folders of the runs.
        out: The picture; its ending chooses the format (png, svg, pdf).
    """
    if not runs:
        raise ValueError("give the folder of one run at least")
    curves, norms, floors = {}, {}, set()
    for run in runs:
        is_alone = sum(other.name == run.name for other in runs) == 1
        name = _label(run.name if is_alone else str(run))
        with reading(run):
            read_config(run)  # refuses what is not a run
            records = log.read_log(run)
            losses, norms[name], scores = (
                _column(records, key)
                for key in ("loss", "gradient_norm", "validation_loss")
            )
            if not losses[0]:
                raise ValueError(f"{run} has no step yet; there is nothing to draw")
            curves[f"{name}, training"] = losses
            if scores[0]:
                curves[f"{name}, validation"] = scores
            floors |= {r.get("floor") for r in records if "validation_loss" in r}
    # Runs on different data have different floors, and none that could be drawn for all.
    floor = floors.pop() if len(floors) == 1 else None
    faint = [name for name in curves if name.endswith("training")]
    with plots.style():
        size, heights = {"figsize": (6.4, 6.4)}, {"height_ratios": (3, 1)}
        figure, (above, below) = pyplot.subplots(2, 1, sharex=True, **heights, **size)
        for name, points in norms.items():
            below.plot(*points, linewidth=0.8, label=name)
        below.set(xlabel="optimizer step", ylabel="gradient norm", yscale="log")
    plots.loss_curves(curves, faint=faint, floor=floor, ax=above).set_xlabel("")
    out = out if out.suffix else out.with_name(f"{out.name}.png")
    figure.savefig(out)
    print(f"The figure is in {plain(out)}")


def _label(name: str) -> str:
    """A name for a Matplotlib legend, which leaves out names that begin with "_".

    Matplotlib also reads text between dollars as a formula.
    """
    name = f"./{name}" if name.startswith("_") else name
    return plain(name).replace("$", r"\$")


def _column(records: list[dict], name: str) -> tuple[list[int], list[float]]:
    """The steps at which something was measured, and what; a skipped step has no loss."""
    measured = [record for record in records if record.get(name) is not None]
    return [each["step"] for each in measured], [each[name] for each in measured]
