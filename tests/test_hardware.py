"""The choice of a device, and the number format that goes with it."""

import contextlib
import platform
import subprocess
from typing import ClassVar

import pytest
import torch
import warm
from torch._dynamo.exc import TorchDynamoException

from decoder_only.base import hardware
from decoder_only.base.hardware import (
    DEVICES,
    autocast,
    choose_device,
    compiled,
    describe,
    forked_generators,
    has_native_bfloat16,
    keep_freed_memory,
    known_device,
    multiplying_format,
    peak_flops,
    seed_generators,
    send,
)

CPU = torch.device("cpu")


@pytest.fixture
def present(monkeypatch):
    """Pretend that devices are here or not."""

    def pretend(*, cuda=False, mps=False, n_gpus=1):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus if cuda else 0)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


@pytest.mark.parametrize(
    ("cuda", "mps", "best"),
    [
        (True, True, "cuda"),
        (True, False, "cuda"),
        (False, True, "mps"),
        (False, False, "cpu"),
    ],
)
def test_the_best_device_that_is_present(present, cuda, mps, best):
    present(cuda=cuda, mps=mps)
    assert choose_device() == torch.device(best)
    assert choose_device("cpu") == CPU


def test_a_device_is_chosen_by_name_and_number(present):
    present(cuda=True, n_gpus=2)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(
        ValueError, match=r"'cuda:2' is not present; .* has: cuda:0, cuda:1, cpu"
    ):
        choose_device("cuda:2")


def test_an_absent_or_unknown_device_is_refused_with_what_is_here(present):
    present()
    with pytest.raises(
        ValueError, match="'cuda' is not present; this machine has: cpu"
    ):
        choose_device("cuda")
    with pytest.raises(ValueError, match="'gpu' is not present; this machine has: cpu"):
        choose_device("gpu")


def test_float32_on_the_cpu():
    assert not has_native_bfloat16(CPU)
    with autocast(CPU):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == torch.float32
    assert describe(CPU).startswith("CPU (")


@pytest.mark.parametrize("native", [True, False])
def test_bfloat16_only_where_it_is_native(monkeypatch, native):
    asked = []

    def is_supported(including_emulation=True):
        asked.append(including_emulation)
        return native

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    assert has_native_bfloat16(torch.device("cuda")) is native
    assert asked == [False], "a GPU that imitates bfloat16 would have answered True"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_real_gpu_multiplies_in_its_native_format():
    device = choose_device("cuda")
    with autocast(device):
        product = torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)
    expected = torch.bfloat16 if has_native_bfloat16(device) else torch.float16
    assert product.dtype == expected
    assert "GiB" in describe(device)


@pytest.mark.parametrize("native", [True, False])
def test_a_gpu_without_bfloat16_multiplies_in_float16(monkeypatch, native):
    monkeypatch.setattr(hardware, "has_native_bfloat16", lambda device: native)
    expected = torch.bfloat16 if native else torch.float16
    assert multiplying_format(torch.device("cuda")) == expected
    assert multiplying_format(CPU) == torch.float32


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("Tesla T4", 65),
        ("A GPU of the future", None),
    ],
)
def test_the_peak_of_known_gpus(monkeypatch, name, teraflops):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    peak = peak_flops(torch.device("cuda"))
    assert peak == (None if teraflops is None else pytest.approx(teraflops * 1e12))
    assert peak_flops(CPU) is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("h100", "H100"),
        ("80gb a100", "A100 80GB"),
    ],
)
def test_a_device_is_known_by_the_words_of_its_name(name, known):
    assert known_device(name) is DEVICES[known]


@pytest.mark.parametrize("name", ["", "L40", "NVIDIA", "80GB", "NVIDIA GH200 480GB"])
def test_other_devices_are_unknown(name):
    assert known_device(name) is None


def test_data_sheets_are_plausible():
    for name, device in DEVICES.items():
        assert known_device(name) is device
        assert device.name == name
        assert 50e12 < device.flops < 1e15
        assert 16e9 <= device.memory <= 141e9
        # Operations for each byte: a ridge far above what decoding has.
        assert 50 < device.flops / device.bandwidth < 500


def test_what_cannot_be_compiled_runs_as_it_is_and_says_why(monkeypatch):
    def broken(function, **settings):
        def fail(*arguments):
            raise TorchDynamoException("no C++ compiler was found\nmore about it")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    double = compiled(lambda x: 2 * x)
    with pytest.warns(UserWarning, match="it failed: no C\\+\\+ compiler was found$"):
        assert double(3) == 6
    assert double(4) == 8  # without another warning


def test_what_can_no_longer_be_compiled_runs_as_it_is_too(monkeypatch):
    """As the first evaluation of a training, whose graph is another."""

    def brittle(function, **settings):
        def call(x):
            if x > 3:
                raise TorchDynamoException("out of resource: shared memory")
            return function(x) + 1

        return call

    monkeypatch.setattr(torch, "compile", brittle)
    inverse = compiled(lambda x: 1 / x)
    assert inverse(1) == 2
    with pytest.raises(ZeroDivisionError):  # the function's own, after which
        inverse(0)
    assert inverse(1) == 2  # it stays compiled
    with pytest.warns(UserWarning, match="it failed: out of resource: shared memory$"):
        assert inverse(4) == 0.25
    assert inverse(1) == 1


def test_a_mistake_of_the_function_is_not_blamed_on_the_compiler():
    def wrong(x):
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        compiled(wrong)(3)


def test_what_fails_for_want_of_memory_is_not_tried_again(monkeypatch):
    """Uncompiled it would need more, and the second error would hide the first."""

    def full(function, **settings):
        def call(x):
            raise torch.OutOfMemoryError("the GPU is full")

        return call

    monkeypatch.setattr(torch, "compile", full)
    with pytest.raises(torch.OutOfMemoryError, match="the GPU is full"):
        compiled(lambda x: 2 * x)(3)


def test_what_can_be_compiled_is(monkeypatch):
    monkeypatch.setattr(
        torch, "compile", lambda function, **settings: lambda x: function(x) + 1
    )
    assert compiled(lambda x: 2 * x)(3) == 7


# ----------------------------------------------------------------------------------------- memory

ASK_AND_FREE = """
import resource, sys
from decoder_only.base.hardware import keep_freed_memory

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if "keep" in sys.argv:
    assert keep_freed_memory()
counts = []
for _ in range(11):
    blocks = [b"x" * (8 << 20) for _ in range(3)]
    del blocks
    counts.append(pages())
print(counts[-1] - counts[0])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked")
def test_memory_that_is_kept_is_not_asked_for_again():
    """Three blocks, freed and asked for ten times: the kernel gives their pages once, or always."""
    given_back, kept = (
        int(subprocess.check_output([*warm.python(), "-c", ASK_AND_FREE, *how]))
        for how in ([], ["keep"])
    )
    assert kept < given_back / 10


def test_other_libraries_of_c_are_left_alone(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(hardware.ctypes, "CDLL", None)
    assert keep_freed_memory() is False


# --------------------------------------------------------------------------------- random numbers


def test_all_numbers_of_a_seed_count():
    """On the CPU, too, whose generator reads 32 bits of 64."""

    def first(*numbers):
        with forked_generators(CPU):
            seed_generators(*numbers)
            return torch.rand(4).tolist()

    seeds = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
    assert len({tuple(first(*seed)) for seed in seeds}) == 27
    assert first(2**31 - 1, 5, 7) == first(2**31 - 1, 5, 7)


def test_generators_are_left_as_they_were():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with forked_generators(CPU):
        seed_generators(1, 2, 3)
        assert not torch.equal(torch.get_rng_state(), before)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_sent_to_a_gpu_is_contiguous_and_pinned():
    class Rows(torch.Tensor):
        """Of the CPU, and remembers what is asked of it."""

        asked: ClassVar = []

        def pin_memory(self):
            self.asked.append(("pinned", self.is_contiguous()))
            return self

        def to(self, device, *, non_blocking):
            self.asked.append(("sent", device.type, non_blocking))
            return self

    rows = torch.arange(12).view(3, 4).as_subclass(Rows)
    send(rows[:, :-1], torch.device("cuda"))
    assert Rows.asked == [("pinned", True), ("sent", "cuda", True)]


@pytest.mark.parametrize(("n", "said"), [(1, "1 thread,"), (2, "2 threads,")])
def test_threads_are_counted_in_words(n, said, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: n)
    assert said in hardware.describe(torch.device("cpu"))
