"""Bytes that a compiled step of training holds on this CPU, beside what `counting` counts.

    python benchmarks/compiled_memory.py

Counted are what autograd keeps and what the loss adds at its fullest; measured is the most that a
step holds beside the weights and their gradients, by PyTorch's own record of allocations. What
generated code keeps besides is no contract: for AVX-512 and AMX it packs weights anew, so that the
ratio depends on the processor, and no test asserts it.
"""

import itertools
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch.profiler import ProfilerActivity, profile

from decoder_only import GPT, GPTConfig
from decoder_only.model.counting import training_bytes
from decoder_only.model.lm_head import next_token_loss

CONFIG = GPTConfig(
    vocab_size=4096, context_length=64, d_model=32, n_layers=2, n_heads=2
)
ROWS = 4


def held_at_most(number_format: str) -> int:
    """Bytes, of a whole step, forward and back, into gradients that exist already."""
    model, ids = GPT(CONFIG), torch.zeros(ROWS, CONFIG.context_length, dtype=torch.long)

    @torch.compile
    def loss_of(model: GPT, ids: torch.Tensor) -> torch.Tensor:
        return next_token_loss(model(ids), ids, reduction="sum")

    def step() -> None:
        is_short = number_format == "bfloat16"
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_short):
            loss = loss_of(model, ids)
        loss.backward()

    for _ in range(2):
        step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    events = seen.profiler.kineto_results.events()
    events = [event for event in events if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(itertools.accumulate(event.nbytes() for event in events))


def main() -> None:
    print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    for number_format in ("float32", "bfloat16"):
        settings = {"number_format": number_format, "compiled": True}
        counted = training_bytes(CONFIG, ROWS, **settings)
        counted = counted["activations"] + counted["loss"]
        found = held_at_most(number_format)
        print(
            f"{number_format}: {counted:,} counted, {found:,} held: {counted / found:.3f}"
        )


if __name__ == "__main__":
    main()
