"""Processes that run what tests send them, so that PyTorch is imported once and not for each test.

A process is started when it is first needed and ends with the tests. In it annotations are not
checked as the program runs, which cannot be compiled and is not what several processes are about.
What must be killed, or must find the world as it was at the start, takes a process of its own.

    call("test_distributed:trained", "a folder", n=2)

runs the function in two of them, which find in the environment what torchrun would have said.
"""

import atexit
import contextlib
import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

# As `conftest.py` has it, for a process that starts here.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
import warm

started: list["Worker"] = []


class Worker:
    """A process, as the tests see it: an order goes in as a line, its answer comes back as one."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*warm.python(), __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def obey(self, order: dict[str, Any]) -> Any:
        with contextlib.suppress(BrokenPipeError):  # how it ended is said below
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the process ended with {self.process.wait()}"
        answer = json.loads(line)
        assert "failed" not in answer, answer["failed"]
        return answer["result"]


def call(
    function: str, *arguments: Any, n: int = 1, timeout: float | None = None
) -> list[Any]:
    """Run a function in n processes at once; what it returned in each.

    Args:
        function: "module:name", of a module beside this one or of an installed one. Of several
            processes each has torchrun's variables; what joins them to a group is its own affair.
        arguments: that JSON can hold, as what is returned must be.
        timeout: seconds after which all are ended. By default 420 for several, which may wait for
            each other without an end, and 900 for one, because a compilation takes minutes on a
            busy machine.

    Raises:
        AssertionError: with the traceback of each that failed. All processes are then new ones.
    """
    while len(started) < n:
        started.append(Worker())
    timeout = (900 if n == 1 else 420) if timeout is None else timeout
    with (
        contextlib.nullcontext([{}]) if n == 1 else world(n) as environments,
        ThreadPoolExecutor(n) as threads,
    ):
        orders = [
            {"function": function, "arguments": arguments, "environment": each}
            for each in environments
        ]
        answers = [
            threads.submit(worker.obey, order)
            for worker, order in zip(started, orders, strict=False)
        ]
        _, waiting = wait(answers, timeout, FIRST_EXCEPTION)
        wait(waiting, 10)  # one that failed has left its group, at which others fail
        if not all(each.done() and each.exception() is None for each in answers):
            end()  # whoever still waits, too
            raise AssertionError("\n".join(str(each.exception()) for each in answers))
    return [each.result() for each in answers]


@contextlib.contextmanager
def short_traces() -> Iterator[None]:
    """Within, a compiler takes `rearrange` of the attention's heads for one operation.

    Else it steps through all that einops does to read a pattern, in nine tenths of its steps.
    That this works too, without a break of the graph, test_model.py shows where it counts graphs
    and where it compiles C++: both start outside of this context.
    """
    import einops
    import torch

    from decoder_only.model import multihead

    def rearrange(*given: Any, **named: Any) -> Any:
        return einops.rearrange(*given, **named)

    whole, multihead.rearrange = multihead.rearrange, rearrange
    torch._dynamo.allow_in_graph(rearrange)
    try:
        yield
    finally:
        multihead.rearrange = whole


@contextlib.contextmanager
def world(n: int) -> Iterator[list[dict[str, str]]]:
    """The variables that torchrun sets in each of n processes, valid within the context.

    As under torchrun the parent holds the store through which the processes find each other. It
    has chosen a free port and listens there already. A port that is only looked up may be taken by
    another run of tests in between: a process then waits for a world that it does not belong to.
    """
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    common = {
        "WORLD_SIZE": str(n),
        "MASTER_ADDR": store.host,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    yield [common | {"RANK": str(i), "LOCAL_RANK": str(i)} for i in range(n)]
    del store


@atexit.register
def end() -> None:
    """Of all processes; the next that is needed is a new one."""
    while started:
        process = started.pop().process
        process.kill()
        process.wait()


def main() -> None:
    # Answers have the standard output to themselves: what a function prints goes with the errors.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)
    before = dict(os.environ)
    for line in sys.stdin:
        order = json.loads(line)
        os.environ.update(order["environment"])
        try:
            module, name = order["function"].split(":")
            function = getattr(importlib.import_module(module), name)
            answer = {"result": function(*order["arguments"])}
        except BaseException:
            answer = {"failed": traceback.format_exc()}
        os.environ.clear()
        os.environ.update(before)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
