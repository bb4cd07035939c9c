"""Stores a trained run as a model that the package brings along.

    python tools/store_model.py RUN NAME

`decoder_only_book.stored.load_model(NAME)` then finds it. config.json, which is stored too,
repeats all settings and the seed; the log becomes a table of its evaluations; the weights are
rounded to bfloat16. How each stored model was trained:

    full     python benchmarks/story_model.py
    hamlet   python benchmarks/trajectory.py
"""

import csv
import sys
from pathlib import Path
from shutil import copyfile

import torch

from decoder_only.training import checkpoint, log
from decoder_only_book.stored import FOLDER, load_model

EVALUATIONS = "evaluations.csv"


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run, folder = Path(sys.argv[1]), FOLDER / sys.argv[2]
    saved = checkpoint.load(run)
    folder.mkdir(exist_ok=True)
    for name in (checkpoint.CONFIG, checkpoint.TOKENIZER):
        copyfile(run / name, folder / name)
    checkpoint.save(folder, saved.model.to(torch.bfloat16), step=saved.step)
    kept = sorted(run.glob("weights-*.safetensors"))
    if kept:  # by benchmarks/trajectory.py, which measured them, too
        for path in (*kept, run / EVALUATIONS):
            copyfile(path, folder / path.name)
    else:
        write_evaluations(run, folder / EVALUATIONS)
    stored = load_model(sys.argv[2])
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(
        f"{stored.model.count_parameters():,} parameters, step {stored.step}, {size:,} bytes"
    )


def write_evaluations(run: Path, path: Path) -> None:
    columns = ("step", "validation_loss", "floor", "bits_per_byte", "seconds")
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore")
        table.writeheader()
        table.writerows(
            record for record in log.read_log(run) if "validation_loss" in record
        )


if __name__ == "__main__":
    main()
