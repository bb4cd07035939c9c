"""What is alive is what something holds."""

import gc

import torch

from decoder_only_book.memory import Allocations, held_bytes


def test_what_is_held_is_counted_and_what_is_freed_is_not():
    before = torch.ones(1000)
    with Allocations() as allocations:
        kept = before + 1
        view = kept.view(10, 100)[0]
        before.mul_(2)
        (before + 2).sum()
    gc.collect()
    assert allocations.alive == 4000
    del kept
    assert allocations.alive == 4000, "a view holds all of it"
    del view
    assert allocations.alive == 0


def test_what_backward_needs_is_counted():
    weight = torch.ones(100, requires_grad=True)
    with Allocations() as allocations:
        loss = (weight.exp() * 3.0).sum()
    assert allocations.alive == 400 + 4, "the exponential, and the sum"
    del loss
    assert allocations.alive == 0


def test_memory_that_was_let_go_of_does_not_count():
    with Allocations() as allocations:
        x = torch.ones(100)
    x.untyped_storage().resize_(0)
    assert allocations.alive == 0


def test_memory_that_tensors_share_counts_once():
    x = torch.ones(100)
    assert held_bytes([x, x[:10], torch.ones(5)]) == 400 + 20
