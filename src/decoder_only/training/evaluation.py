"""The loss on a whole corpus, every token predicted once.

Chapter 9.
"""

import torch
from torch import nn

from decoder_only.base import hardware
from decoder_only.base.modes import restored_modes
from decoder_only.data.corpus import Corpus, evaluation_batches
from decoder_only.model.gpt import GPT
from decoder_only.training import processes
from decoder_only.training.monitor import Evaluation
from decoder_only.training.processes import ALONE, Process
from decoder_only.training.step import NextTokenLoss

__all__ = ["evaluate"]


@torch.no_grad()
def evaluate(
    model: GPT,
    corpus: Corpus,
    *,
    batch_size: int = 32,
    process: Process = ALONE,
    loss: nn.Module | None = None,
) -> Evaluation:
    """A model's mean cross-entropy on a corpus, every token predicted once.

    Args:
        model: is in evaluation mode within the call.
        corpus: see `data.evaluation_batches` for what the model sees before each token.
        batch_size: rows at a time; changes only speed and memory.
        process: this process, which takes its part of the batches.
        loss: gives the total loss of inputs and targets; None for `NextTokenLoss(model)`.
    """
    device = device_of(model)
    loss = NextTokenLoss(model) if loss is None else loss
    batches = evaluation_batches(
        corpus,
        batch_size=batch_size,
        context_length=model.config.context_length,
        rank=process.rank,
        n_ranks=process.n_ranks,
    )
    losses = [torch.zeros((), device=device)]
    with restored_modes(model):
        model.eval()
        for batch in batches:
            inputs, targets = (hardware.send(ids, device) for ids in batch)
            with hardware.autocast(device):
                losses.append(loss(inputs, targets))
    # Added on the CPU, because not every device has double precision.
    total = torch.stack(losses).cpu().double().sum()
    if process.n_ranks > 1:
        total = processes.all_reduce_sum(total.to(device), process)
    return Evaluation(
        loss=total.item() / corpus.n_targets,
        bytes_per_token=corpus.bytes_per_token,
        floor=corpus.floor,
    )


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
