"""The depth, divided: pipelines of stages and their schedules.

Chapter 13.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from jaxtyping import Int
from torch import Tensor, nn

from decoder_only.model.gpt import GPT
from decoder_only.variants.parallelism.group import Group
from decoder_only.variants.parallelism.tensor import check_plain


class Task(NamedTuple):
    """One stage's work on one micro-batch, which has a number, in one of the stage's chunks."""

    kind: Literal["forward", "backward"]
    micro_batch: int
    chunk: int = 0


def gpipe(n_stages: int, n_micro_batches: int) -> list[list[Task]]:
    """For each stage its tasks in order: all forward, then all backward.

    Source: Huang et al. (2019).
    """
    tasks = [Task("forward", m) for m in range(n_micro_batches)]
    tasks += [Task("backward", m) for m in range(n_micro_batches)]
    return [list(tasks) for _ in range(n_stages)]


def one_forward_one_backward(n_stages: int, n_micro_batches: int) -> list[list[Task]]:
    """For each stage its tasks in order: backward as soon as it can be, one after each forward.

    Stage p keeps the activations of at most P - p micro-batches. As long as `gpipe`, in time.

    Source: Narayanan et al. (2019); as here, with all weights moved at the end, (2020).
    """
    schedules = []
    for stage in range(n_stages):
        ahead = min(n_stages - 1 - stage, n_micro_batches)
        tasks = [Task("forward", m) for m in range(ahead)]
        for m in range(n_micro_batches):
            if ahead + m < n_micro_batches:
                tasks.append(Task("forward", ahead + m))
            tasks.append(Task("backward", m))
        schedules.append(tasks)
    return schedules


def interleaved(n_stages: int, n_micro_batches: int, n_chunks: int) -> list[list[Task]]:
    """One forward, one backward, where each stage has several short chunks of the depth.

    Chunk c of stage p is the (c P + p)-th piece of the model, so that a micro-batch goes round all
    stages several times, and the first one waits for less before it begins. The bubble is
    (P - 1) / (v M + P - 1) for v chunks, and v times as much is sent.

    Raises:
        ValueError: for micro-batches that are no multiple of the stages.

    Source: Narayanan et al. (2021).
    """
    if n_micro_batches < 1 or n_micro_batches % n_stages:
        raise ValueError(f"{n_micro_batches=} must be a multiple of {n_stages=}")
    n, schedules = n_micro_batches * n_chunks, []

    def task(kind: Literal["forward", "backward"], k: int) -> Task:
        turn, place = divmod(k, n_stages)  # P micro-batches in a chunk, then the next
        batch, chunk = divmod(turn, n_chunks)
        chunk = chunk if kind == "forward" else n_chunks - 1 - chunk
        return Task(kind, batch * n_stages + place, chunk)

    for stage in range(n_stages):
        ahead = min(n, 2 * (n_stages - 1 - stage) + (n_chunks - 1) * n_stages)
        tasks = [task("forward", k) for k in range(ahead)]
        for k in range(n):
            if ahead + k < n:
                tasks.append(task("forward", ahead + k))
            tasks.append(task("backward", k))
        schedules.append(tasks)
    return schedules


def simulate(
    schedules: Sequence[Sequence[Task]], *, forward: float = 1.0, backward: float = 2.0
) -> list[dict[Task, tuple[float, float]]]:
    """When each stage begins and ends each task, if messages took no time.

    Args:
        schedules: for each stage its tasks in order.
        forward, backward: how long each takes, the same in all chunks of all stages.

    Raises:
        ValueError: if the stages would wait for each other for ever.
    """
    times: list[dict[Task, tuple[float, float]]] = [{} for _ in schedules]
    left, free = [list(tasks) for tasks in schedules], [0.0] * len(schedules)
    lengths = {"forward": forward, "backward": backward}
    everything = {task for tasks in schedules for task in tasks}
    # When what a task reads has come to its stage; at the ends of the pipeline it is there.
    ends = {"forward": 0, "backward": len(schedules) - 1}
    chunks = {"forward": 0, "backward": max((t.chunk for t in everything), default=0)}
    came = {(ends[t.kind], t): 0.0 for t in everything if t.chunk == chunks[t.kind]}
    while any(left):
        ready = [s for s, tasks in enumerate(left) if tasks and (s, tasks[0]) in came]
        if not ready:
            raise ValueError("schedules must be an order in which some stage can go on")
        for stage in ready:
            task = left[stage].pop(0)
            begin = max(came[stage, task], free[stage])
            free[stage] = begin + lengths[task.kind]
            came[_next(stage, task, len(schedules))] = free[stage]
            times[stage][task] = begin, free[stage]
    return times


def _next(stage: int, task: Task, n_stages: int) -> tuple[int, Task]:
    """Where a micro-batch goes on: on the next stage, or from the last on in another chunk."""
    step = 1 if task.kind == "forward" else -1
    round_, stage = divmod(stage + step, n_stages)
    return stage, task._replace(chunk=task.chunk + round_)


class Stage(nn.Module):
    """Some of a model's blocks, with the embedding before the first, the head after the last.

    Args:
        model: its parts are used, not copied. Its head must have a matrix of its own, since a
            tied one would have to be stored, and its gradient summed, at both ends.
        number: which stage, from 0.
        n_stages: P, a divisor of the number of blocks.

    Raises:
        ValueError: for a tied head, or a number that does not divide.

    Source: Huang et al. (2019).
    """

    def __init__(self, model: GPT, number: int, n_stages: int) -> None:
        check_plain(model)
        if model.config.tied:
            raise ValueError(
                "tied=True must be False: the first and the last stage differ"
            )
        n_layers = model.config.n_layers
        if n_layers % n_stages:
            raise ValueError(f"{n_layers=} must be a multiple of the {n_stages} stages")
        super().__init__()
        each = n_layers // n_stages
        parts = [*model.blocks[number * each : (number + 1) * each]]
        if number == 0:
            positions = [] if model.positions is None else [model.positions]
            parts = [model.embedding, *positions, model.dropout, *parts]
        if number == n_stages - 1:
            parts += [model.final_norm, model.head]
        self.d_model, self.parts = model.config.d_model, nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        """From ids, or the output of the stage before, to the input of the next, or logits."""
        return self.parts(x)


def run_stage(
    stage: Stage,
    tasks: Sequence[Task],
    group: Group,
    micro_batches: Sequence[Int[Tensor, "b s"]],
    loss_function: Callable[[Tensor, int], Tensor],
) -> float:
    """Work through a stage's tasks; its parameters end with the gradients of the mean loss.

    Messages of two stages may cross, which gloo sorts out by their tags; NCCL would need them
    paired. A stage keeps no more messages than P, or with `gpipe` than micro-batches.

    Args:
        stage: this device's.
        tasks: its schedule.
        group: the stages' devices, in order.
        micro_batches: ids, which all devices know; their shapes tell what to expect.
        loss_function: of the last stage's logits and the micro-batch's number.

    Returns:
        The mean loss, on the last device; 0 on the others.

    Raises:
        ValueError: for an interleaved schedule.
    """
    first, last = group.rank == 0, group.rank == group.size - 1
    saved: dict[int, tuple[Tensor, Tensor]] = {}  # input and output, by micro-batch
    unsent: dict[int, Callable[[], None]] = {}  # by tag
    loss, n = 0.0, len(micro_batches)
    if any(task.chunk for task in tasks):
        raise ValueError("tasks must be of one chunk: a stage here is one piece")
    for kind, m, _ in tasks:
        if kind == "forward":
            x = micro_batches[m]
            if not first:
                like = next(stage.parameters()).new_empty(*x.shape, stage.d_model)
                x = group.receive(like, group.rank - 1, tag=m).requires_grad_()
            y = stage(x)
            if last:
                y = loss_function(y, m) / n
                loss += y.item()
            else:
                unsent[m] = group.send(y.detach(), group.rank + 1, tag=m, name=kind)
            saved[m] = x, y
            continue
        x, y = saved.pop(m)
        y.backward(None if last else group.receive(y, group.rank + 1, tag=n + m))
        # The message that this answers has come; one gradient at a time is under way.
        for tag in [tag for tag in unsent if tag == m or tag >= n]:
            unsent.pop(tag)()
        if not first:
            unsent[n + m] = group.send(x.grad, group.rank - 1, tag=n + m, name=kind)
    for wait in unsent.values():
        wait()
    return loss
