"""Trains the model that is stored as "full": the whole language of the stories, on one core.

    python benchmarks/story_model.py --out runs/full           80 minutes of one core
    decoder-only train --resume runs/full --steps 10000        100 more
    python tools/store_model.py runs/full full

The second command takes the rate to its peak again, until step 6,000, and down to nothing; it also
goes on with a training that was stopped. The vocabulary is learned from more stories than
`decoder-only train` takes, so that rare names stay whole; all else is a recipe.
"""

import sys
from itertools import islice
from pathlib import Path

import torch
import tyro

from decoder_only import recipes
from decoder_only.model.lm_head import bits_per_byte
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import TrainConfig, train

MODEL = {
    "vocab_size": 4096,
    "context_length": 208,  # 99.6 of 100 stories fit
    "d_model": 160,
    "n_layers": 5,
    "n_heads": 5,
}
TRAINING = {
    "steps": 5200,
    "batch_size": 16,
    "optimizer": "muon",
    "learning_rate": 8e-3,
    "schedule": "warmup_stable_decay",
    "decay_fraction": 0.4,
    "warmup_steps": 200,
    "evaluate_every": 1000,
    "save_every": 200,
    "compile": True,
}


def main(out: Path = Path("runs/full"), steps: int = TRAINING["steps"]) -> None:
    """Train it.

    Args:
        out: folder of the run.
        steps: optimizer steps.
    """
    torch.set_num_threads(1)
    training = TRAINING | {"steps": steps}
    training["warmup_steps"] = min(training["warmup_steps"], steps // 10)
    recipe = recipes.chosen(
        language="full", n_stories=160_000, model=MODEL, training=training
    )
    some = islice(StoryLanguage().stories(split="train", seed=0), 20_000)
    tokenizer = BytePairTokenizer.train(some, MODEL["vocab_size"])
    material = recipes.gather(recipe, tokenizer, progress=True)
    model = recipes.build(recipe, material)
    with recipes.begin(recipe, material, model.config, out=out) as run:
        history = train(
            model,
            material.train,
            material.validation,
            TrainConfig(**recipe.training),
            run=run,
            progress=True,
        )
    final = history.final
    gap = bits_per_byte(final.gap, final.bytes_per_token)
    print(f"{gap:.4f} bits per byte above the floor, after {history.seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
