"""Devices that talk: the collectives of a group, and every byte that a device sends.

In a collective all devices of a group take part:

    all-reduce        each ends with the sum of all tensors
    reduce-scatter    each ends with its own part of that sum
    all-gather        each ends with the parts of all

The first is the second and the third in a row. On a ring, where each device sends to the next, both
take P - 1 messages of a P-th of the tensor, so that a device sends (P - 1) / P of it, and for an
all-reduce twice that. Chapter 13.
"""

import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_OPERATIONS = {"sum": torch.add, "max": torch.maximum}


class Group:
    """Some devices, as one of them sees them.

    It is built on a process group of torch.distributed: gloo between CPUs, NCCL between GPUs.

    Args:
        store: where the devices leave their addresses.
        rank: this device's number in the group, from 0.
        size: P, how many there are.
        native: leave collectives to the process group. Otherwise they are rings of messages, made
            here.
        device: "cuda" talks through NCCL, all else through gloo.
        timeout: seconds after which a message that does not come is an error.

    Attributes:
        sent: bytes that this device has sent, by the name of the collective. A message is counted
            as it is sent; of a native collective the messages of its ring are counted.
        n_calls: how many collectives of each name it took part in.
    """

    def __init__(
        self,
        store: "dist.Store",  # quoted, for a PyTorch that was built without
        rank: int,
        size: int,
        *,
        native: bool = False,
        device: str = "cpu",
        timeout: float = 60.0,
    ) -> None:
        self.rank, self.size, self.native, self.device = rank, size, native, device
        self.sent: Counter[str] = Counter()
        self.n_calls: Counter[str] = Counter()
        self._store, self._timeout, self._parts = store, timeout, []
        limit = timedelta(seconds=timeout)
        if device == "cuda":
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = limit
            self._backend = dist.ProcessGroupNCCL(store, rank, size, options)
        else:
            self._backend = dist.ProcessGroupGloo(store, rank, size, limit)

    # ------------------------------------------------------------------------------- messages

    def send(
        self, x: Tensor, to: int, *, tag: int = 0, name: str = "send"
    ) -> Callable[[], None]:
        """Begin to send a tensor to another device; call what is returned to wait for the end."""
        x = x.contiguous()
        self.sent[name] += x.nbytes
        work = self._backend.send([x], to % self.size, tag)

        def wait() -> None:
            work.wait()

        wait.message = x  # kept alive until it is sent
        return wait

    def receive(self, like: Tensor, source: int, *, tag: int = 0) -> Tensor:
        """The tensor that another device sends, of the shape and the dtype of `like`."""
        x = torch.empty_like(like, memory_format=torch.contiguous_format)
        self._backend.recv([x], source % self.size, tag).wait()
        return x

    def shift(self, x: Tensor, *, name: str = "send") -> Tensor:
        """Send a tensor to the next device of the ring; return the last one's."""
        x = x.contiguous()
        incoming = torch.empty_like(x)
        before, after = (self.rank - 1) % self.size, self.rank + 1

        def listen() -> dist.Work:
            return self._backend.recv([incoming], before, 0)

        # NCCL works messages off in the order of the calls: every other one listens.
        if self.rank % 2:
            coming, going = listen(), self.send(x, after, name=name)
        else:
            going, coming = self.send(x, after, name=name), listen()
        coming.wait()
        going()
        return incoming

    # ----------------------------------------------------------------------------- collectives

    def reduce_scatter(self, x: Tensor, dim: int = 0) -> Tensor:
        """This device's part, along a dimension, of the sum of all tensors."""
        if x.shape[dim] % self.size:
            raise ValueError(
                f"size {dim}={x.shape[dim]} must be a multiple of {self.size}"
            )
        chunks = [chunk.contiguous() for chunk in x.chunk(self.size, dim)]
        name = "reduce-scatter"
        self.n_calls[name] += 1
        if not self.native:
            return self._reduce_around(chunks, torch.add, name)
        self.sent[name] += (self.size - 1) * chunks[0].nbytes
        part = torch.empty_like(chunks[0])
        self._backend.reduce_scatter([part], [chunks]).wait()
        return part

    def all_gather(self, x: Tensor, dim: int = 0) -> Tensor:
        """The tensors of all devices, of one shape, joined along a dimension."""
        x, name = x.contiguous(), "all-gather"
        self.n_calls[name] += 1
        if not self.native:
            return torch.cat(self._gather_around(x, name), dim)
        self.sent[name] += (self.size - 1) * x.nbytes
        parts = [torch.empty_like(x) for _ in range(self.size)]
        self._backend.allgather([parts], [x]).wait()
        return torch.cat(parts, dim)

    def all_reduce(self, x: Tensor, operation: str = "sum") -> Tensor:
        """The sum, or the "max", of all tensors."""
        return self.start_all_reduce(x, operation)()

    def start_all_reduce(
        self, x: Tensor, operation: str = "sum"
    ) -> Callable[[], Tensor]:
        """Begin an all-reduce; call what is returned to wait for it and have its result.

        Only a native one goes on while the device computes.
        """
        name, n = "all-reduce", -(-x.numel() // self.size)
        self.n_calls[name] += 1
        if self.native:
            self.sent[name] += 2 * (self.size - 1) * n * x.element_size()
            reduced, options = x.detach().clone(), dist.AllreduceOptions()
            options.reduceOp = getattr(dist.ReduceOp, operation.upper())
            work = self._backend.allreduce([reduced], options)

            def wait() -> Tensor:
                work.wait()
                return reduced

            return wait
        flat = x.new_zeros(n * self.size)  # as many numbers for each
        flat[: x.numel()] = x.flatten()
        mine = self._reduce_around([*flat.split(n)], _OPERATIONS[operation], name)
        whole = torch.cat(self._gather_around(mine, name))[: x.numel()].view(x.shape)
        return lambda: whole

    def _reduce_around(self, chunks: list[Tensor], add: Callable, name: str) -> Tensor:
        # A sum of one chunk travels once around, and each device adds what it has of it.
        part = chunks[self.rank - 1]
        for step in range(2, self.size + 1):
            part = add(self.shift(part, name=name), chunks[self.rank - step])
        return part

    def _gather_around(self, x: Tensor, name: str) -> list[Tensor]:
        parts = [x] * self.size
        for step in range(1, self.size):
            parts[self.rank - step] = x = self.shift(x, name=name)
        return parts

    # ---------------------------------------------------------------------------------- groups

    def split(self, n: int) -> tuple["Group", "Group"]:
        """Lay the devices out in rows of n: the groups of this device's row and of its column.

        All devices must ask together.

        Raises:
            ValueError: if n does not divide their number.
        """
        if n < 1 or self.size % n:
            raise ValueError(f"{n=} must be a divisor of the {self.size} devices")
        row, column = divmod(self.rank, n)
        number = len(self._parts)  # a group may be split again
        rows = self._part(f"{number}/row {row}", column, n)
        columns = self._part(f"{number}/column {column}", row, self.size // n)
        return rows, columns

    def _part(self, name: str, rank: int, size: int) -> "Group":
        settings = {"native": self.native, "device": self.device}
        store = dist.PrefixStore(name, self._store)
        part = Group(store, rank, size, timeout=self._timeout, **settings)
        self._parts.append(part)
        return part

    def close(self) -> None:
        """Leave the group: devices that wait for a message from this one get an error."""
        for part in (*self._parts, self):
            backend, part._backend = part._backend, None  # its sockets close with it
            if backend is not None and hasattr(backend, "abort"):
                backend.abort()


def launch(
    function: Callable[..., Any],
    n_devices: int,
    *arguments: Any,
    processes: bool = False,
    native: bool = False,
    device: str = "cpu",
    timeout: float = 60.0,
) -> list[Any]:
    """Run a function on several devices at once; what it returned on each, in order of rank.

    Devices are threads of this process, each with an endpoint of its own, and messages go through
    sockets as they would between machines. So a function of a notebook's cell can be run, and
    nothing outlives the timeout when it fails. With `processes`, each device is a fresh process,
    for which torch.distributed's own default group is set up too, for what PyTorch brings.

    Args:
        function: called with the `Group` and the arguments. For processes it must be one that
            can be imported, since a fresh process does not know a notebook's cells.
        n_devices: P.
        native, device, timeout: see `Group`. "cuda" gives every process the GPU of its rank.

    Raises:
        ValueError: for a number below 1, or a function that processes cannot import.
        Exception: what the function raised, on the device where it happened first; of a process, a
            RuntimeError with its traceback.
    """
    if n_devices < 1:
        raise ValueError(f"{n_devices=} must be 1 or more")
    if device != "cpu" and not (device == "cuda" and processes):
        raise ValueError(f"{device=} must be 'cpu', or 'cuda' with processes")
    settings = {"native": native, "device": device, "timeout": timeout}
    if not processes:
        return _in_threads(function, n_devices, arguments, settings)
    if _module(function) == "__main__":
        raise ValueError(f"{function=} must be a function of a module, to be imported")
    return _in_processes(function, n_devices, arguments, settings)


def _module(function: Callable) -> str:
    return getattr(getattr(function, "func", function), "__module__", "__main__")


def _in_threads(
    function: Callable, n_devices: int, arguments: tuple, settings: dict[str, Any]
) -> list[Any]:
    store, results = dist.HashStore(), [None] * n_devices
    groups: list[Group] = []
    failures: list[BaseException] = []
    connected = threading.Barrier(n_devices)  # no one may leave before all have come

    def run(rank: int) -> None:
        try:
            group = Group(store, rank, n_devices, **settings)
            groups.append(group)
            connected.wait()
            results[rank] = function(group, *arguments)
        except BaseException as error:
            error.add_note(f"on device {rank} of {n_devices}")
            failures.append(error)
            connected.abort()
            for each in [*groups]:
                each.close()

    threads = [
        threading.Thread(target=run, args=(rank,), daemon=True)
        for rank in range(n_devices)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive() and not failures:
                thread.join(0.2)
    except BaseException:  # the reader interrupts the cell
        connected.abort()
        for group in [*groups]:
            group.close()
        raise
    if failures:
        # Closing wakes a device that waits for the one that failed; where gloo misses it, the
        # device gives up at its timeout, and nobody waits for that.
        for thread in threads:
            thread.join(1.0)
        raise failures[0]
    return results


def _in_processes(
    function: Callable, n_devices: int, arguments: tuple, settings: dict[str, Any]
) -> list[Any]:
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        # In a file: tensors that are arguments of `spawn` would be shared among the processes.
        torch.save((function, arguments), Path(folder, "task.pt"))
        context = folder, n_devices, settings
        started = mp.spawn(_process, context, nprocs=n_devices, join=False)
        try:
            while not started.join():
                pass
        except mp.ProcessRaisedException:
            raise RuntimeError(Path(folder, "failed").read_text()) from None
        finally:
            for process in started.processes:
                process.kill()
        return [_load(folder, str(rank)) for rank in range(n_devices)]


def _process(rank: int, folder: str, n_devices: int, settings: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    backend = "gloo"
    if settings["device"] == "cuda":
        torch.cuda.set_device(rank)
        backend = "nccl"
    function, arguments = _load(folder, "task")
    address = Path(folder, "torch").as_uri()
    dist.init_process_group(backend, address, rank=rank, world_size=n_devices)
    try:
        store = dist.FileStore(str(Path(folder, "ours")), n_devices)
        result = function(Group(store, rank, n_devices, **settings), *arguments)
        torch.save(result, Path(folder, f"{rank}.pt"))
    except BaseException:
        # Before its sockets close, at which the others fail too: the first to write is the cause.
        with suppress(FileExistsError), open(Path(folder, "failed"), "x") as file:
            file.write(f"on device {rank} of {n_devices}\n{traceback.format_exc()}")
        raise
    finally:
        dist.destroy_process_group()


def _load(folder: str, name: str) -> Any:
    return torch.load(Path(folder, f"{name}.pt"), weights_only=False)
