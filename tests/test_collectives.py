"""Collectives: what each device ends with, every byte that it sends, and no device left behind."""

import threading
import time

import pytest
import torch
import torch.distributed as dist
import warm

from decoder_only.variants.parallelism import (
    hierarchical_all_reduce,
    tree_all_reduce,
)
from decoder_only.variants.parallelism.group import Group, launch

pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(),
    reason="this PyTorch has no gloo to let devices talk through",
)

every_size = pytest.mark.parametrize("n", [1, 2, 3, 4])
every_way = pytest.mark.parametrize("native", [False, True], ids=["ring", "native"])


def numbers(rank: int, *shape: int) -> torch.Tensor:
    """Small whole numbers, whose sums are exact in any order."""
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(-50, 50, shape, generator=generator).float()


@every_size
@every_way
def test_everyone_ends_with_what_the_definition_says(n, native):
    shape = 2, 12, 3
    tensors = [numbers(rank, *shape) for rank in range(n)]
    total = torch.stack(tensors).sum(0)

    def run(group):
        x = numbers(group.rank, *shape)
        assert (group.rank, group.size) == (group.rank, n)
        return (
            group.all_reduce(x),
            group.all_reduce(x[:, 0], "max"),
            group.reduce_scatter(x, 1),
            group.all_gather(x, 1),
            x,
        )

    for rank, found in enumerate(launch(run, n, native=native)):
        total_found, largest, share, everything, untouched = found
        assert torch.equal(total_found, total)
        assert torch.equal(largest, torch.stack(tensors).amax(0)[:, 0])
        assert torch.equal(share, total.chunk(n, 1)[rank])
        assert torch.equal(everything, torch.cat(tensors, 1))
        assert torch.equal(untouched, tensors[rank])


@every_size
def test_a_ring_sends_what_is_counted_for_a_native_collective(n):
    def run(group):
        group.all_reduce(torch.ones(7))  # 7 is no multiple of the devices
        group.all_reduce(torch.ones(12, dtype=torch.float64))
        group.reduce_scatter(torch.ones(5, 12), 1)
        group.all_gather(torch.ones(5))
        return dict(group.sent), dict(group.n_calls)

    by_ring, native = (launch(run, n, native=native) for native in (False, True))
    share = -(-7 // n) * 4 + 12 // n * 8
    wanted = {
        "all-reduce": 2 * (n - 1) * share,
        "reduce-scatter": (n - 1) * 5 * 12 // n * 4,
        "all-gather": (n - 1) * 5 * 4,
    }
    calls = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1}
    assert native == [(wanted, calls)] * n
    sent = {name: size for name, size in wanted.items() if size}
    assert by_ring == [(sent, calls)] * n


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_a_tree_sums_and_no_device_sends_more_than_its_height(n):
    total = sum(numbers(rank, 3, 4) for rank in range(n))

    def run(group):
        return tree_all_reduce(numbers(group.rank, 3, 4), group), group.sent["tree"]

    found = launch(run, n)
    for x, _ in found:
        assert torch.equal(x, total)
    sent = [n_bytes // total.nbytes for _, n_bytes in found]
    height = (n - 1).bit_length()
    assert sum(sent) == 2 * (n - 1), "each device but one, up and down"
    assert max(sent) == height, "the first sends down once a level"


@pytest.mark.parametrize(("n", "m"), [(4, 2), (8, 4), (6, 3), (3, 1), (4, 4)])
def test_a_hierarchy_sends_across_machines_what_its_devices_have_summed(n, m):
    total = sum(numbers(rank, 5, 7) for rank in range(n))

    def run(group):
        machine, across = group.split(m)
        x = hierarchical_all_reduce(numbers(group.rank, 5, 7), machine, across)
        return x, sum(across.sent.values())

    share, machines = -(-35 // m), n // m
    outside = 2 * (machines - 1) * -(-share // machines) * 4
    for x, sent in launch(run, n):
        assert torch.equal(x, total)
        assert sent == outside


def test_messages_carry_their_tags_and_are_counted():
    def run(group):
        if group.rank == 0:
            waits = [
                group.send(torch.full((3,), float(tag)), 1, tag=tag) for tag in (5, 6)
            ]
            for wait in waits:
                wait()
            return dict(group.sent)
        like = torch.zeros(3)
        later, sooner = (group.receive(like, 0, tag=tag) for tag in (6, 5))
        return [later[0].item(), sooner[0].item()]

    assert launch(run, 2) == [{"send": 24}, [6.0, 5.0]]


def test_an_all_reduce_may_be_waited_for_later():
    def run(group):
        waits = [group.start_all_reduce(numbers(group.rank + i, 9)) for i in (0, 10)]
        return [wait() for wait in waits]

    for native in (False, True):
        for found in launch(run, 2, native=native):
            for i, total in zip((0, 10), found, strict=True):
                assert torch.equal(total, numbers(i, 9) + numbers(1 + i, 9))


def test_devices_form_rows_and_columns():
    def run(group):
        row, column = group.split(2)
        x = torch.tensor([float(group.rank)])
        return row.all_gather(x).tolist(), column.all_gather(x).tolist(), row.rank

    found = launch(run, 4)
    rows = [[0, 1], [0, 1], [2, 3], [2, 3]]
    columns = [[0, 2], [1, 3], [0, 2], [1, 3]]
    assert found == list(zip(rows, columns, [0, 1, 0, 1], strict=True))
    with pytest.raises(ValueError, match="n=3 must be a divisor of the 4"):
        launch(lambda group: group.split(3), 4)


def test_what_does_not_divide_is_refused():
    with pytest.raises(ValueError, match=r"size 1=7 must be .* multiple of 2"):
        launch(lambda group: group.reduce_scatter(torch.ones(2, 7), 1), 2)
    with pytest.raises(ValueError, match="n_devices=0 must"):
        launch(print, 0)
    with pytest.raises(ValueError, match="device='cuda' must be 'cpu', or"):
        launch(print, 2, device="cuda")


# ----------------------------------------------------------------------------------- failure


@every_way
def test_a_device_that_fails_ends_the_others(native):
    def run(group):
        if group.rank == 1:
            raise KeyError("the cause")
        return group.all_reduce(torch.ones(1000))

    before, began = threading.active_count(), time.monotonic()
    with pytest.raises(KeyError, match="the cause") as caught:
        launch(run, 3, native=native, timeout=5.0)
    assert caught.value.__notes__ == ["on device 1 of 3"]
    assert time.monotonic() - began < 10
    deadline = time.monotonic() + 10  # twice the timeout
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before
    assert launch(lambda group: group.rank, 2) == [0, 1]


def joined(group: Group, x: torch.Tensor) -> tuple[float, bool, torch.Tensor]:
    """In a module, so that a fresh process can import it."""
    assert dist.get_world_size() == group.size
    mine = torch.tensor([float(group.rank)])
    theirs = mine.clone()
    dist.all_reduce(theirs)
    total = group.all_reduce(mine)  # all have x before any changes it
    x += group.rank + 1
    group.all_reduce(x)
    return total.item(), torch.equal(theirs, total), x


def fail_on_one(group: Group) -> None:
    if group.rank == 1:
        raise KeyError("the cause")
    group.all_reduce(torch.ones(3))


def test_devices_may_be_processes_with_tensors_of_their_own():
    x = torch.zeros(3)
    with warm.spawning():
        found = launch(joined, 2, x, processes=True)
    assert [(total, same) for total, same, _ in found] == [(1.0, True)] * 2
    tensors = [each.tolist() for each in (x, *(own for *_, own in found))]
    assert tensors == [[0.0] * 3, [1.0] * 3, [2.0] * 3]


def test_a_process_starts_from_nothing():
    [(total, same, own)] = launch(joined, 1, torch.ones(1), processes=True)
    assert (total, same, own.tolist()) == (0.0, True, [2.0])


def test_a_process_that_fails_ends_the_others():
    import multiprocessing

    with (
        warm.spawning(),
        pytest.raises(
            RuntimeError, match=r"(?s)^on device 1 of 2.*KeyError: 'the cause'"
        ),
    ):
        launch(fail_on_one, 2, processes=True)
    assert not multiprocessing.active_children()


def test_a_cells_function_is_refused_for_processes():
    def cell(group):
        return group.rank

    cell.__module__ = "__main__"
    with pytest.raises(ValueError, match="a function of a module, to be imported"):
        launch(cell, 2, processes=True)
