"""The head and the loss."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from ladder import PRECISIONS, build, compare, normal, results, unchecked
from torch import nn

from decoder_only.model.lm_head import (
    LMHead,
    _logits,
    bits_per_byte,
    next_token_loss,
    perplexity,
    sliced_next_token_loss,
)

B, S, D, V = 2, 5, 7, 11
every_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)


def targets_of(*shape: int) -> torch.Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(0))


# --------------------------------------------------------------------------------------------- head


@every_precision
def test_head_equals_a_linear_map(dtype):
    head = LMHead(d_model=D, vocab_size=V).to(dtype)
    linear = nn.Linear(D, V, bias=False).to(dtype)
    linear.load_state_dict(head.state_dict())
    x = normal(B, S, D, seed=1, dtype=dtype)
    compare(
        "head = torch.nn.Linear",
        results(head(x), x, head.weight),
        results(linear(x), x, linear.weight),
    )


def test_a_tied_head_reads_the_table_that_it_is_given():
    head, table = LMHead(d_model=D, vocab_size=V, tied=True), torch.randn(V, D)
    assert head.weight is None
    assert not list(head.parameters())
    torch.testing.assert_close(head(torch.eye(D), table), table.T)


def test_soft_cap_bends_large_logits_and_leaves_small_ones():
    free, capped = (LMHead(d_model=1, vocab_size=1, soft_cap=c) for c in (None, 15.0))
    for head in (free, capped):
        nn.init.ones_(head.weight)
    x = torch.tensor([[-1e4], [-30.0], [-0.1], [0.0], [0.1], [30.0], [1e4]])
    # tanh(2) = 0.9640
    expected = torch.tensor([-15, -14.4604, -0.1, 0, 0.1, 14.4604, 15])[:, None]
    torch.testing.assert_close(capped(x), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(free(x), x)


@every_precision
@pytest.mark.parametrize("soft_cap", [None, 2.0])
def test_a_scale_multiplies_the_logits_before_they_are_bent(soft_cap, dtype):
    head = LMHead(d_model=D, vocab_size=V, scale=0.3, soft_cap=soft_cap).to(dtype)
    x = normal(B, S, D, seed=6, dtype=dtype)
    logits = 0.3 * (x @ head.weight.T)
    if soft_cap is not None:
        logits = soft_cap * (logits / soft_cap).tanh()
    compare(
        "scaled head = scale x W^T",
        results(head(x), x, head.weight),
        results(logits, x, head.weight),
    )


def test_a_head_of_its_own_starts_small():
    assert LMHead(d_model=200, vocab_size=300).weight.std().item() == pytest.approx(
        0.02, rel=0.02
    )


# --------------------------------------------------------------------------------------------- loss


def test_loss_by_hand():
    # Probabilities 1/2, 1/4, 1/4 and then 1/8, 7/8, 0 (nearly).
    logits = torch.tensor([[[0.5, 0.25, 0.25], [0.125, 0.875, 1e-30]]]).log()
    targets = torch.tensor([[0, 0]])
    per_token = next_token_loss(logits, targets, reduction="none")
    torch.testing.assert_close(per_token, torch.tensor([[math.log(2), math.log(8)]]))
    assert next_token_loss(logits, targets).item() == pytest.approx(2 * math.log(2))
    assert next_token_loss(logits, targets, reduction="sum").item() == pytest.approx(
        math.log(16)
    )


@every_precision
def test_loss_equals_the_formula(dtype):
    """Outputs, and the gradient softmax - onehot; float64 is not rounded on the way."""
    logits = normal(B, S, V, seed=2, dtype=dtype)
    targets = targets_of(B, S)
    loss = next_token_loss(logits, targets, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, logits)
    log_probs = logits - logits.logsumexp(-1, keepdim=True)
    expected = -sum(log_probs[b, s, targets[b, s]] for b in range(B) for s in range(S))
    onehot = F.one_hot(targets, V).to(dtype)
    compare(
        "loss = - log softmax",
        [loss, gradient],
        [expected, logits.softmax(-1) - onehot],
    )


def test_uniform_logits_cost_log_v():
    loss = next_token_loss(torch.full((B, S, V), 3.0), targets_of(B, S))
    assert loss.item() == pytest.approx(math.log(V))
    assert perplexity(loss.item()) == pytest.approx(V)


@given(
    st.lists(st.booleans(), min_size=B * S, max_size=B * S).filter(any),
    st.sampled_from([-1, -100, 3]),
)
def test_ignored_targets_do_not_count(counts, ignore_index):
    counts = torch.tensor(counts).view(B, S)
    logits = normal(B, S, V, seed=3)
    targets = targets_of(B, S)
    targets[targets == 3] = 4  # 3 may be the value that is ignored
    every = next_token_loss(logits, targets, reduction="none")
    masked = targets.masked_fill(~counts, ignore_index)
    options = {"ignore_index": ignore_index}
    none = next_token_loss(logits, masked, reduction="none", **options)
    torch.testing.assert_close(none, every * counts)
    torch.testing.assert_close(
        next_token_loss(logits, masked, **options), every[counts].mean()
    )
    total = next_token_loss(logits, masked, reduction="sum", **options)
    torch.testing.assert_close(total, every[counts].sum())
    (gradient,) = torch.autograd.grad(total, logits)
    assert torch.equal(gradient.abs().amax(-1) > 0, counts)


def test_bfloat16_logits_are_summed_in_float32():
    logits = 5 * normal(B, S, 3001, seed=4, dtype=torch.bfloat16)
    loss = next_token_loss(logits, targets_of(B, S))
    assert loss.dtype == torch.float32
    assert torch.equal(loss, next_token_loss(logits.float(), targets_of(B, S)))


def test_targets_may_be_int32():
    logits = normal(B, S, V, seed=5)
    assert torch.equal(
        next_token_loss(logits, targets_of(B, S)),
        next_token_loss(logits, targets_of(B, S).int()),
    )


@pytest.mark.parametrize("shape", [(B, S + 1), (S, B), (B * S,)], ids=str)
def test_shapes_that_do_not_agree_are_named(shape):
    message = r"logits of shape \(2, 5, 11\) need targets of shape \(2, 5\), got "
    with unchecked(), pytest.raises(ValueError, match=message):
        next_token_loss(torch.zeros(B, S, V), targets_of(*shape))


# --------------------------------------------------------------------------------------- in slices


@every_precision
@pytest.mark.parametrize("n_slices", [1, 3, B * S, 100])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("soft_cap", [None, 2.0])
def test_sliced_loss_equals_the_whole(soft_cap, reduction, n_slices, dtype):
    """Whatever the slices, one of which holds nothing that counts."""
    x, weight = (normal(*shape, seed=1, dtype=dtype) for shape in ((B, S, D), (V, D)))
    targets = targets_of(B, S)
    targets[0] = -1
    head = {"scale": 0.3, "soft_cap": soft_cap}
    sliced = sliced_next_token_loss(
        x, weight, targets, reduction=reduction, n_slices=n_slices, **head
    )
    whole = next_token_loss(_logits(x, weight, **head), targets, reduction=reduction)
    compare(
        "sliced loss = next-token loss",
        results(sliced, x, weight),
        results(whole, x, weight),
    )


@pytest.mark.skipif(
    not hasattr(F, "linear_cross_entropy"),
    reason="this PyTorch has no linear_cross_entropy",
)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_sliced_loss_is_torchs(reduction):
    hidden, weight = normal(2, 7, 6, seed=1), normal(19, 6, seed=2)
    targets = torch.arange(14).view(2, 7) % 5 - 1
    settings = {"reduction": reduction, "ignore_index": -1}
    leaves = hidden, weight
    ours = results(
        sliced_next_token_loss(*leaves, targets, n_slices=3, **settings), *leaves
    )
    rows = hidden.flatten(0, 1)
    theirs = F.linear_cross_entropy(rows, weight, targets.flatten(), **settings)
    compare("sliced loss = torch's", ours, results(theirs, *leaves))


@every_precision
@pytest.mark.parametrize("tied", [True, False])
def test_sliced_loss_of_a_model_equals_the_whole(tied, dtype):
    """Every gradient of a model, a tied table's from both ends."""
    model, ids = build(dtype, tied=tied, soft_cap=3.0, base_width=5), targets_of(B, S)
    head = {"scale": model.head.scale, "soft_cap": model.head.soft_cap}
    sliced = sliced_next_token_loss(
        model.hidden(ids[:, :-1]), model.head_weight, ids[:, 1:], n_slices=3, **head
    )
    whole = next_token_loss(model(ids[:, :-1]), ids[:, 1:])
    weights = list(model.parameters())
    compare(
        "sliced loss = next-token loss",
        results(sliced, *weights),
        results(whole, *weights),
    )


def test_sliced_loss_never_holds_the_logits_of_a_batch():
    n, v, n_slices = 64, 999, 16
    x, weight = (normal(*shape, seed=1) for shape in ((1, n, D), (v, D)))
    largest = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            largest.append(out.numel() if torch.is_tensor(out) else 0)
            return out

    with Watch():
        loss = sliced_next_token_loss(x, weight, targets_of(1, n), n_slices=n_slices)
        loss.backward()
    assert max(largest) == max(v * D, n * v // n_slices) < n * v // 8


@torch.no_grad()
def test_sliced_loss_without_gradients_computes_none(monkeypatch):
    x, weight = (normal(*shape, seed=1) for shape in ((B, S, D), (V, D)))
    monkeypatch.setattr(torch.Tensor, "__matmul__", None)
    whole = next_token_loss(_logits(x, weight), targets_of(B, S))
    sliced = sliced_next_token_loss(x, weight, targets_of(B, S))
    torch.testing.assert_close(sliced, whole)


def test_sliced_loss_under_autocast():
    """As close to the exact gradient as the plain loss is; sums and results in float32."""
    x, weight = (
        normal(*shape, seed=1, dtype=torch.float32) for shape in ((B, 99, D), (V, D))
    )
    targets = targets_of(B, 99)
    logits = _logits(x, weight)
    spread = torch.finfo(torch.bfloat16).eps * logits.std() / math.sqrt(targets.numel())
    exact = results(next_token_loss(logits, targets), x, weight)
    with torch.autocast("cpu", torch.bfloat16):
        plain = results(next_token_loss(_logits(x, weight), targets), x, weight)
        sliced = results(sliced_next_token_loss(x, weight, targets), x, weight)
    for ours, theirs, true in zip(sliced, plain, exact, strict=True):
        assert ours.dtype == torch.float32
        error = (theirs - true).norm() / true.norm()
        # The plain loss, one number, may be right by chance. Rounding moves the mean of so many
        # logits by `spread`, and rarely by three times as much.
        floor = 3 * spread / true if true.ndim == 0 else 1e-6
        assert (ours - true).norm() / true.norm() < 2 * error + floor


@pytest.mark.parametrize("automatic", [True, False])
def test_a_sliced_loss_sums_over_positions_without_overflow(automatic):
    """4,096 positions a slice with vectors near 20 add up to more than float16 can hold."""
    x = (20 + 0.1 * normal(1, 32768, 8, seed=1)).detach().float().requires_grad_()
    weight = (0.02 * normal(16, 8, seed=2)).detach().float().requires_grad_()
    targets = torch.zeros(1, 32768, dtype=torch.long)
    exact = results(1024 * next_token_loss(x @ weight.T, targets), x, weight)
    if not automatic:
        x, weight = (each.detach().half().requires_grad_() for each in (x, weight))
    with torch.autocast("cpu", torch.float16, enabled=automatic):
        loss = 1024 * sliced_next_token_loss(x, weight, targets)
    for ours, true in zip(results(loss, x, weight), exact, strict=True):
        assert (ours - true).norm() < 5e-3 * true.norm()


def test_what_a_sliced_loss_cannot_take_is_named():
    x, weight = torch.zeros(B, S, D), torch.zeros(V, D)
    for wrong in ({"reduction": "none"}, {"n_slices": 0}):
        ((name, value),) = wrong.items()
        with pytest.raises(ValueError, match=f"{name}={value!r} must"):
            sliced_next_token_loss(x, weight, targets_of(B, S), **wrong)
    message = r"hidden states of shape \(2, 5, 7\) need targets of shape \(2, 5\), got "
    with unchecked(), pytest.raises(ValueError, match=message):
        sliced_next_token_loss(x, weight, targets_of(S, B))


# --------------------------------------------------------------------------------------- chain rule


def test_log_probabilities_of_tokens_add_up_to_the_sequences():
    """One pass over the sequence gives what asking for one token after the other gives."""
    model = build()
    ids = targets_of(1, 7)
    loss = next_token_loss(model(ids[:, :-1]), ids[:, 1:], reduction="sum")
    log_prob = sum(
        model(ids[:, :n])[0, -1].log_softmax(-1)[ids[0, n]]
        for n in range(1, ids.shape[1])
    )
    torch.testing.assert_close(-loss, log_prob, rtol=1e-13, atol=0)


def test_probabilities_of_all_continuations_sum_to_one():
    model = build(vocab_size=3)
    ids = torch.tensor([(0, *rest) for rest in itertools.product(range(3), repeat=4)])
    losses = next_token_loss(model(ids[:, :-1]), ids[:, 1:], reduction="none")
    assert losses.sum(-1).neg().exp().sum().item() == pytest.approx(1, abs=1e-12)


# -------------------------------------------------------------------------------------------- units


@given(st.floats(0, 50))
def test_perplexity_is_an_effective_number_of_choices(nats):
    assert math.log(perplexity(nats)) == pytest.approx(nats, abs=1e-9)


def test_perplexity_of_a_run_that_diverged():
    assert perplexity(800.0) == math.inf
    assert math.isnan(perplexity(math.nan))


def test_bits_per_byte_by_hand():
    # A fair choice among 256 byte values costs 8 bits, and a token of 4 bytes shares its cost.
    assert bits_per_byte(math.log(256), 1.0) == pytest.approx(8)
    assert bits_per_byte(math.log(256), 4.0) == pytest.approx(2)
    # Two tokenizers of one text: total nats and total bytes are the same, and so is this.
    assert bits_per_byte(120 / 40, 200 / 40) == pytest.approx(
        bits_per_byte(120 / 25, 200 / 25)
    )
