"""Which machine runs the model, and in which number format it multiplies.

A GPU multiplies bfloat16 matrices many times faster than float32 ones, and keeps float32's
range of exponents, so that training needs no other change. A GPU without bfloat16 units (a T4)
can imitate it, slowly; the honest question is therefore whether the format is *native*. The CPU
computes in float32.

Chapter 9.
"""

import contextlib
import platform

import torch

__all__ = ["autocast", "choose_device", "describe", "has_native_bfloat16"]


def choose_device(name: str | None = None) -> torch.device:
    """The named device, or the best one that is present: CUDA, then MPS, then the CPU.

    Args:
        name: A name that PyTorch knows, for instance ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or
            ``"mps"``. None chooses by itself.

    Raises:
        ValueError: The name is unknown, or this machine lacks the device.
    """
    present = _present_devices()
    if name is None:
        return torch.device(present[0])
    choices = ", ".join(present)
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(
            f"device {name!r} is unknown; this machine has: {choices}"
        ) from None
    if device.type not in present:
        raise ValueError(f"device {name!r} is not present; this machine has: {choices}")
    n_devices = torch.cuda.device_count() if device.type == "cuda" else 1
    if device.index is not None and device.index >= n_devices:
        raise ValueError(
            f"device {name!r} is not present; devices of type {device.type!r} here: "
            f"{n_devices}, numbered from 0"
        )
    return device


def _present_devices() -> list[str]:
    present = ["cpu"]
    if torch.backends.mps.is_available():
        present.insert(0, "mps")
    if torch.cuda.is_available():
        present.insert(0, "cuda")
    return present


def has_native_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware, and not by imitation.

    Only CUDA devices are asked. The CPU and MPS answer False, because this package runs them in
    float32.
    """
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)


def autocast(device: torch.device) -> contextlib.AbstractContextManager:
    """A context in which matrix products run in bfloat16 where that is native.

    Elsewhere the context does nothing, and everything runs in float32. Sums, norms and the loss
    stay in float32 either way.
    """
    if has_native_bfloat16(device):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def describe(device: torch.device) -> str:
    """The device in words for a person or a log, such as ``CPU (x86_64, 2 threads, float32)``."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        number_format = "bfloat16" if has_native_bfloat16(device) else "float32"
        return f"{properties.name} ({properties.total_memory / 2**30:.0f} GiB, {number_format})"
    if device.type == "mps":
        return f"Apple GPU ({platform.machine()}, float32)"
    return f"CPU ({platform.machine()}, {torch.get_num_threads()} threads, float32)"
