"""The device that runs the model, and the number format of its matrix products.

A GPU multiplies bfloat16 matrices many times faster than float32 matrices. bfloat16 has the range
of float32, so that training needs no other change. A GPU without bfloat16 units (a T4) can imitate
the format, but slowly. Where bfloat16 is not native, float16 is used, with a loss scale for its
narrow range. The CPU computes in float32. Chapter 9.
"""

import contextlib
import ctypes
import math
import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


def choose_device(name: str | None = None) -> torch.device:
    """The named device, or the best one that is present: CUDA, then MPS, then the CPU.

    Args:
        name: "cuda", "cuda:1", "mps" or "cpu"; None for the best.

    Raises:
        ValueError: this machine has no such device.
    """
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    present = [f"cuda:{number}" for number in range(n_gpus)]
    present += ["mps"] if torch.backends.mps.is_available() else []
    present += ["cpu"]
    kinds = [each.partition(":")[0] for each in present]
    name = kinds[0] if name is None else name
    if name not in [*present, *kinds]:
        raise ValueError(
            f"device {name!r} is not present; this machine has: {', '.join(present)}"
        )
    return torch.device(name)


def has_native_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware.

    False for the CPU and MPS, on which this package computes in float32.
    """
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)


def multiplying_format(device: torch.device) -> torch.dtype:
    """The number format of matrix products: the fastest that the device multiplies natively.

    bfloat16 where it is native; float16 on older CUDA devices (a T4), where training needs a loss
    scale; float32 elsewhere.
    """
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if has_native_bfloat16(device) else torch.float16


def autocast(device: torch.device) -> contextlib.AbstractContextManager:
    """A context in which matrix products run in the device's `multiplying_format`.

    Sums, norms and the loss stay in float32. On a device that computes in float32 the context does
    nothing.
    """
    number_format = multiplying_format(device)
    if number_format == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=number_format)


def send(x: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor from the CPU to the device, without waiting for the copy.

    A GPU copies while it computes only from pinned memory, and only contiguous tensors.
    """
    if device.type == "cuda":
        x = x.contiguous().pin_memory()
    return x.to(device, non_blocking=True)


def keep_freed_memory() -> bool:
    """Stop glibc from returning freed memory to the kernel; False where there is no glibc.

    glibc returns large blocks at once. Each training step allocates the same blocks again, and the
    kernel clears their pages each time: several percent of the time of a small model on a CPU. In
    exchange, the process keeps the most memory that it ever needed until it ends.

    Source: mallopt(3).
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    trim_threshold, mmap_threshold = -1, -3
    mallopt = ctypes.CDLL(None).mallopt
    # No block below 32 MiB, the largest value allowed, is mapped by itself; and no trimming.
    return bool(mallopt(mmap_threshold, 32 << 20) and mallopt(trim_threshold, -1))


def seed_generators(*numbers: int) -> None:
    """Seed torch's global generators, from which dropout draws, by several whole numbers.

    The generators of all GPUs are seeded, too. The CPU's generator uses only 32 bits of its seed,
    so the numbers are hashed.
    """
    state = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0]))


def forked_generators(device: torch.device) -> contextlib.AbstractContextManager:
    """A context that leaves torch's global generators, the CPU's and the device's, as they were."""
    if device.type == "cpu":
        return torch.random.fork_rng(devices=[])
    return torch.random.fork_rng(devices=[device], device_type=device.type)


@dataclass(frozen=True)
class Device:
    """A device's limits, from its maker's data sheet.

    Attributes:
        name: the driver's name for it, or a part of that name.
        flops: operations per second in dense 16-bit matrix products.
        bandwidth: bytes per second between memory and arithmetic.
        memory: bytes.
        link: bytes per second to another device of the machine, by NVLink where the data sheet has
            it, else by PCIe; infinite by default.
    """

    name: str
    flops: float
    bandwidth: float
    memory: float
    link: float = math.inf


_SHEETS = (
    Device("H200", 989.4e12, 4.8e12, 141e9, 450e9),
    Device("H100 PCIe", 756e12, 2.0e12, 80e9, 64e9),
    Device("H100", 989.4e12, 3.35e12, 80e9, 450e9),
    Device("A100", 312e12, 1.555e12, 40e9, 300e9),
    Device("A100 80GB", 312e12, 2.039e12, 80e9, 300e9),
    Device("L40S", 362e12, 864e9, 48e9, 32e9),
    Device("L4", 121e12, 300e9, 24e9, 32e9),
    Device("A10G", 70e12, 600e9, 24e9, 32e9),
    Device("V100", 125e12, 900e9, 16e9, 150e9),
    Device("T4", 65e12, 320e9, 16e9, 16e9),
    Device("RTX 4090", 165.2e12, 1008e9, 24e9, 32e9),
    Device("RTX 3090", 71e12, 936e9, 24e9, 32e9),
)
DEVICES: dict[str, Device] = {device.name: device for device in _SHEETS}


def known_device(name: str) -> Device | None:
    """The device with a driver's or a reader's name; None if its data sheet is not known."""
    words = set(name.lower().replace("-", " ").split())
    matching = [each for each in DEVICES if words >= set(each.lower().split())]
    # The longest name that matches: "A100 80GB" before "A100".
    return DEVICES[max(matching, key=len)] if matching else None


def peak_flops(device: torch.device) -> float | None:
    """The device's peak in floating-point operations per second; None if it is not known."""
    if device.type != "cuda":
        return None
    sheet = known_device(torch.cuda.get_device_name(device))
    return sheet and sheet.flops


def compiled(function: Callable) -> Callable:
    """The function through `torch.compile`, or the function itself once compiling has failed.

    A warning says why compiling failed, and the function runs uncompiled. Any other error, such as
    a lack of memory, is raised. So is an error in `backward`, which is compiled only there: turn
    compiling off then. Each shape of the arguments is compiled separately, because shapes do not
    change in training. After `torch._dynamo.config.recompile_limit` shapes torch compiles no more,
    and logs it.
    """
    fast = torch.compile(function, dynamic=False)

    def call(*arguments: object, **settings: object) -> object:
        nonlocal fast
        if fast is None:
            return function(*arguments, **settings)
        try:
            return fast(*arguments, **settings)
        except Exception as error:
            # Imported here, because the import takes seconds; torch.compile has done it already.
            from torch._dynamo.exc import TorchDynamoException

            if not isinstance(error, TorchDynamoException):
                raise
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            returned = function(*arguments, **settings)
            fast = None
            warnings.warn(
                f"running without torch.compile, which is slower, because it failed: {reason}",
                stacklevel=2,
            )
            return returned

    return call


def describe(device: torch.device) -> str:
    """The device in words, such as ``CPU (x86_64, 2 threads, float32)``."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        number_format = str(multiplying_format(device)).removeprefix("torch.")
        return f"{properties.name} ({properties.total_memory / 2**30:.0f} GiB, {number_format})"
    if device.type == "mps":
        return f"Apple GPU ({platform.machine()}, float32)"
    n_threads = torch.get_num_threads()
    threads = f"{n_threads} thread{'s' * (n_threads > 1)}"
    return f"CPU ({platform.machine()}, {threads}, float32)"
