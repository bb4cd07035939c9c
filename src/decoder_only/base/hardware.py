"""Which machine runs the model, and in which number format it multiplies.

A GPU multiplies bfloat16 matrices many times faster than float32 ones, and keeps float32's
range of exponents, so that training needs no other change. A GPU without bfloat16 units (a T4)
can imitate it, slowly; the honest question is therefore whether the format is *native*. If not,
float16 is, with a loss scale against its narrow range. The CPU computes in float32.

Chapter 9.
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
        name: "cuda", "cuda:1", "mps" or "cpu"; None chooses by itself.

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
    """Whether the device multiplies bfloat16 matrices in hardware, and not by imitation.

    Only CUDA devices are asked. The CPU and MPS answer False, because this package runs them in
    float32.
    """
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)


def multiplying_format(device: torch.device) -> torch.dtype:
    """The number format of matrix products: the fastest that the device multiplies natively.

    bfloat16 where it is native; float16 on older CUDA devices (a T4), whose smaller range needs a
    loss scale in training; float32 elsewhere.
    """
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if has_native_bfloat16(device) else torch.float16


def autocast(device: torch.device) -> contextlib.AbstractContextManager:
    """A context in which matrix products run in the device's `multiplying_format`.

    In float32 the context does nothing. Sums, norms and the loss stay in float32 either way.
    """
    number_format = multiplying_format(device)
    if number_format == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=number_format)


def send(x: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on its way to the device, in one copy that nothing waits for.

    A GPU copies while it computes only out of pinned memory, and only what is contiguous.
    """
    if device.type == "cuda":
        x = x.contiguous().pin_memory()
    return x.to(device, non_blocking=True)


def keep_freed_memory() -> bool:
    """Let this process keep the memory that it frees, for the next who asks; False without glibc.

    glibc hands large blocks back to the kernel at once. A training step asks for the same blocks
    as the one before, and the kernel clears each of their pages again: several percent of the
    time of a small model on a CPU. The process then holds its highest need until it ends.

    Source: mallopt(3).
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    trim_threshold, mmap_threshold = -1, -3
    mallopt = ctypes.CDLL(None).mallopt
    # No block as a mapping of its own below 32 MiB, the most that glibc takes; and no trimming.
    return bool(mallopt(mmap_threshold, 32 << 20) and mallopt(trim_threshold, -1))


def seed_generators(*numbers: int) -> None:
    """Seed torch's global generators, which dropout draws from, by whole numbers that all count.

    Those of all GPUs are seeded. The CPU's generator reads 32 bits of its seed only, so the numbers
    are hashed down, not joined.
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
    """What a device can do at most, by its maker's data sheet.

    Attributes:
        name: as the driver tells it, or a part of that.
        flops: operations per second in dense 16-bit matrix products.
        bandwidth: bytes per second between memory and arithmetic.
        memory: bytes.
        link: bytes per second that it sends to another of its machine: by NVLink where the sheet
            has it, else by PCIe. Without bound if it is not said.
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
    """The device of a driver's or a reader's name, if its data sheet is known."""
    words = set(name.lower().replace("-", " ").split())
    fitting = [known for known in DEVICES if words >= set(known.lower().split())]
    # The longest name that fits: "A100 80GB" before "A100".
    return DEVICES[max(fitting, key=len)] if fitting else None


def peak_flops(device: torch.device) -> float | None:
    """Floating-point operations per second that the device could do at most, if it is known."""
    if device.type != "cuda":
        return None
    known = known_device(torch.cuda.get_device_name(device))
    return known and known.flops


def compiled(function: Callable) -> Callable:
    """The function through `torch.compile`; as it was from the first call on that cannot be.

    A warning then says why. A mistake of the function itself is raised by its second run; whatever
    else fails, for want of memory for instance, is raised at once. Each shape of its arguments is
    compiled for itself, because those of training do not change; beyond
    `torch._dynamo.config.recompile_limit` of them, which torch logs, further ones are not. What
    fails in `backward`, whose code is compiled only there, is raised: leave out compiling then.
    """
    fast = torch.compile(function, dynamic=False)

    def call(*arguments: object, **settings: object) -> object:
        nonlocal fast
        if fast is None:
            return function(*arguments, **settings)
        try:
            return fast(*arguments, **settings)
        except Exception as error:
            # Imported here, where torch.compile has done so, because it takes seconds.
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
    """The device in words for a person or a log, such as ``CPU (x86_64, 2 threads, float32)``."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        number_format = str(multiplying_format(device)).removeprefix("torch.")
        return f"{properties.name} ({properties.total_memory / 2**30:.0f} GiB, {number_format})"
    if device.type == "mps":
        return f"Apple GPU ({platform.machine()}, float32)"
    n_threads = torch.get_num_threads()
    threads = f"{n_threads} thread{'s' * (n_threads > 1)}"
    return f"CPU ({platform.machine()}, {threads}, float32)"
