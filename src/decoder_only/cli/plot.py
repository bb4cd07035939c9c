"""The command `plot`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from decoder_only.cli.options import option
from decoder_only.engine import checkpoint
from decoder_only.engine.files import reading
from decoder_only.show.plots import loss_curves


def plot(
    runs: Positional[Annotated[tuple[Path, ...], option("RUN")]],
    *,
    out: Annotated[Path, option("FILE", "runs.png")] = Path("runs.png"),
) -> None:
    """Draw the losses of runs in one figure.

    Args:
        runs: Folders of the runs.
        out: The picture; its ending chooses the format (png, svg, pdf).
    """
    if not runs:
        raise ValueError("give the folder of one run at least")
    curves, faint, floors = {}, [], set()
    for run in runs:
        with reading(run):
            checkpoint.read_config(run)  # refuses what is not a run
            records = checkpoint.read_log(run)
            # A step that was skipped has no loss.
            losses = [r for r in records if r.get("loss") is not None]
            evaluations = [r for r in records if "validation_loss" in r]
            if not losses:
                raise ValueError(
                    f"{run} has not taken a step yet; there is nothing to draw"
                )
            is_alone = sum(other.name == run.name for other in runs) == 1
            name = run.name if is_alone else str(run)
            faint.append(f"{name}, training")
            steps = [r["step"] for r in losses]
            curves[faint[-1]] = (steps, [r["loss"] for r in losses])
            if evaluations:
                curves[f"{name}, validation"] = (
                    [r["step"] for r in evaluations],
                    [r["validation_loss"] for r in evaluations],
                )
                floors.add(evaluations[-1]["floor"])
    # Runs on different data have different floors, and none that could be drawn for all.
    floor = floors.pop() if len(floors) == 1 else None
    if not out.suffix:
        out = out.with_name(f"{out.name}.png")
    loss_curves(curves, faint=faint, floor=floor).figure.savefig(out)
    print(f"The figure is in {out}")
