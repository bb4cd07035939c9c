"""Trains the small model of the small language that is stored as "hamlet", state by state.

    python benchmarks/trajectory.py --out runs/hamlet       a quarter of an hour of one core

The weights are kept after 2, 4, 8, … steps and at the end, as chapters want them that ask when
something was learned. The rate is constant from the end of the warm-up to half of the training,
so that the states before are also those of a longer one, and then falls.
"""

import copy
import csv
import sys
import time
from itertools import islice
from pathlib import Path

import torch
import tyro
from safetensors.torch import save_file
from torch import Tensor

from decoder_only import recipes
from decoder_only.data import training_batch
from decoder_only.model.gpt import GPT
from decoder_only.model.lm_head import bits_per_byte
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import (
    NextTokenLoss,
    TrainConfig,
    checkpoint,
    evaluate,
    train_step,
)
from decoder_only.training.optimizers import build_optimizers, set_learning_rate

MODEL = {
    "vocab_size": 1792,
    "context_length": 192,
    "d_model": 64,
    "n_layers": 4,
    "n_heads": 4,
}
TRAINING = TrainConfig(
    steps=4096,
    batch_size=16,
    optimizer="muon",
    learning_rate=8e-3,
    schedule="warmup_stable_decay",
    decay_fraction=0.5,
    warmup_steps=50,
    compile=False,
)


def main(out: Path = Path("runs/hamlet"), seed: int = 0) -> None:
    """Train it.

    Args:
        out: folder to make; `tools/store_model.py` stores it.
        seed: of weights and data.
    """
    torch.set_num_threads(1)
    training = TRAINING.to_dict() | {"seed": seed}
    recipe = recipes.chosen(
        language="hamlet", n_stories=80_000, model=MODEL, training=training
    )
    config = TrainConfig(**recipe.training)
    some = islice(StoryLanguage.hamlet().stories(split="train", seed=seed), 4000)
    tokenizer = BytePairTokenizer.train(some, MODEL["vocab_size"])
    material = recipes.gather(recipe, tokenizer, progress=True)
    model = recipes.build(recipe, material)
    optimizers = build_optimizers(
        model, optimizer=config.optimizer, learning_rate=config.learning_rate
    )
    kept = {2**power for power in range(1, 20)} | {config.steps}
    rows = []
    with recipes.begin(recipe, material, model.config, out=out):
        for step in range(config.steps):
            inputs, targets = training_batch(
                material.train,
                batch_size=config.batch_size,
                context_length=model.config.context_length,
                seed=seed,
                step=step,
            )
            set_learning_rate(optimizers, config.rate_factor(step))
            train_step(
                NextTokenLoss(model),
                optimizers,
                inputs,
                targets,
                max_gradient_norm=config.max_gradient_norm,
            )
            if step + 1 in kept:
                # What is measured is what is stored.
                tensors = {
                    name: tensor.to(torch.bfloat16)
                    for name, tensor in model.state_dict().items()
                }
                if step + 1 < config.steps:
                    save_file(tensors, out / f"weights-{step + 1:05}.safetensors")
                rows.append(measured(tensors, model, material, step + 1))
                print(rows[-1], flush=True)
        checkpoint.save(out, tensors, step=config.steps)
    with (out / "evaluations.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


def measured(
    tensors: dict[str, Tensor], model: GPT, material: recipes.Material, step: int
) -> dict[str, float]:
    rounded = copy.deepcopy(model)
    rounded.load_state_dict(tensors)
    found = evaluate(rounded, material.validation)
    return {
        "step": step,
        "validation_loss": round(found.loss, 5),
        "floor": round(found.floor, 5),
        "gap_bits_per_byte": round(bits_per_byte(found.gap, found.bytes_per_token), 5),
        "processor_seconds": round(time.process_time(), 1),
    }


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
