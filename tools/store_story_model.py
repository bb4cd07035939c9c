"""Stores a trained run as the model that the package brings along.

    decoder-only train --steps 1600 --evaluate-every 200 --out runs/story-model
    python tools/store_story_model.py runs/story-model

The first command is the default training, a little longer. config.json, which is stored too,
repeats all settings and the seed. The weights are rounded to bfloat16.
"""

import sys
from pathlib import Path
from shutil import copyfile

import torch

from decoder_only.engine import checkpoint
from decoder_only.stored import load_story_model

STORE = (
    Path(__file__).resolve().parent.parent
    / "src"
    / "decoder_only"
    / "stored"
    / "story_model"
)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    run = checkpoint.load(sys.argv[1])
    for name in (checkpoint.CONFIG, checkpoint.TOKENIZER):
        copyfile(Path(sys.argv[1], name), STORE / name)
    checkpoint.save(STORE, run.model.to(torch.bfloat16), step=run.step)
    stored = load_story_model()
    size = sum(path.stat().st_size for path in STORE.glob("*.*"))
    print(
        f"{stored.model.count_parameters():,} parameters, step {stored.step}, {size:,} bytes"
    )


if __name__ == "__main__":
    main()
