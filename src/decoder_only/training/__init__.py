"""Training: from initial weights and a corpus to a model.

`config` says how, `step` does one, `state` holds all that a run is, `loop` repeats; `optimizers`
move the weights, and `checkpoint`, `log` and `monitor` keep and show what happened. Chapter 9."""

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
