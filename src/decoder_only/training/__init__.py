"""Training: from initial weights and a corpus to a model.

`config` holds the settings, `optimizers` change the weights, `step` takes one step, `loop` repeats
it, and `state` is what a training has between two steps. `checkpoint` and `log` write it to the
disk, `monitor` shows it, and `processes` divides it over several GPUs. Chapter 9.
"""

from decoder_only.training.config import TrainConfig
from decoder_only.training.evaluation import evaluate
from decoder_only.training.loop import train
from decoder_only.training.state import TrainingState
from decoder_only.training.step import LossScale, NextTokenLoss, StepResult, train_step

__all__ = [
    "LossScale",
    "NextTokenLoss",
    "StepResult",
    "TrainConfig",
    "TrainingState",
    "evaluate",
    "train",
    "train_step",
]
