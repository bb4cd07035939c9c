"""LayerNorm and RMSNorm."""

import math

import pytest
import torch
import torch.nn.functional as functional
from ladder import PRECISIONS, compare, normal, randomize, results
from torch import nn

from decoder_only.model.normalization import (
    LayerNorm,
    RMSNorm,
    fold,
    layer_norm,
    rms_norm,
)

B, S, D, F = 2, 5, 7, 11
every_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
both_norms = pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])


def twins(
    ours: nn.Module, theirs: nn.Module, dtype: torch.dtype
) -> tuple[nn.Module, nn.Module]:
    """Both with the same arbitrary weights; their names are the same."""
    randomize(ours.to(dtype))
    theirs.to(dtype).load_state_dict(ours.state_dict())
    return ours, theirs


def climb(rung: str, ours: nn.Module, theirs: nn.Module, formula) -> None:
    """Kernel, PyTorch's module and the formula agree, outputs and gradients."""
    dtype = ours.weight.dtype
    x = 3 * normal(B, S, D, seed=1, dtype=dtype) + 2
    reference = results(theirs(x), x, *theirs.parameters())
    compare(rung, results(ours(x), x, *ours.parameters()), reference)
    written_out = formula(x, *ours.parameters(), eps=ours.eps)
    compare(rung + ", formula", results(written_out, x, *ours.parameters()), reference)


@every_precision
@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_equals_pytorch_and_the_formula(bias, eps, dtype):
    norms = (
        LayerNorm(d_model=D, eps=eps, bias=bias),
        nn.LayerNorm(D, eps=eps, bias=bias),
    )
    climb("LayerNorm = torch.nn.LayerNorm", *twins(*norms, dtype), layer_norm)


@every_precision
@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_rms_norm_equals_pytorch_and_the_formula(eps, dtype):
    norms = RMSNorm(d_model=D, eps=eps), nn.RMSNorm(D, eps=eps)
    climb("RMSNorm = torch.nn.RMSNorm", *twins(*norms, dtype), rms_norm)


def test_by_hand():
    # Mean 3, variance 4, and eps inside the root: (x - 3) / sqrt(4 + 5) = (x - 3) / 3.
    x = torch.tensor([[1.0, 5.0]])
    weight, bias = torch.tensor([3.0, 6.0]), torch.tensor([0.5, 0.25])
    expected = torch.tensor([[-2 + 0.5, 4 + 0.25]])
    torch.testing.assert_close(layer_norm(x, weight, bias, eps=5.0), expected)
    # Mean square 13, and 13 + 3 = 4 squared.
    expected = torch.tensor([[3 / 4, 6 * 5 / 4]])
    torch.testing.assert_close(rms_norm(x, weight, eps=3.0), expected)


@both_norms
def test_starts_as_plain_normalization(norm):
    x = 5 * normal(B, S, D, seed=2, grad=False) - 4
    out = norm(d_model=D, eps=0.0).double()(x)
    if norm is LayerNorm:
        assert out.mean(-1).abs().max() < 1e-14
    torch.testing.assert_close(out.square().mean(-1), torch.ones(B, S).double())


def test_what_each_norm_does_not_see():
    x = normal(B, S, D, seed=3, grad=False)
    layer = randomize(LayerNorm(d_model=D, eps=0.0).double())
    rms = randomize(RMSNorm(d_model=D, eps=0.0).double())
    torch.testing.assert_close(layer(7 * x + 2), layer(x))  # neither shift nor scale
    torch.testing.assert_close(rms(7 * x), rms(x))  # only scale
    assert (rms(x + 2) - rms(x)).abs().max() > 0.1


@both_norms
def test_no_gradient_along_the_input(norm):
    """Growing the vector does not change the output, so the gradient is orthogonal to it."""
    x = normal(B, S, D, seed=4)
    (gradient,) = results(randomize(norm(d_model=D, eps=0.0).double())(x), x)[1:]
    assert (gradient * x).sum(-1).abs().max() < 1e-13
    if norm is LayerNorm:
        assert gradient.sum(-1).abs().max() < 1e-13


@both_norms
def test_positions_do_not_mix(norm):
    x = normal(B, S, D, seed=5)
    out = randomize(norm(d_model=D).double())(x)
    (gradient,) = torch.autograd.grad((out * normal(B, S, D, seed=6))[1, 2].sum(), x)
    reached = gradient.abs().amax(-1) > 0
    assert reached[1, 2]
    assert reached.sum() == 1


@both_norms
def test_a_constant_vector_does_not_divide_by_zero(norm):
    x = torch.zeros(B, S, D, requires_grad=True)
    out, gradient = results(norm(d_model=D)(x), x)
    assert (out == 0).all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("bias", [True, False])
def test_norm_then_linear_equals_one_folded_linear(bias):
    """W (n * weight + bias) + b = (W weight) n + (W bias + b), where n is the bare norm."""
    norm = randomize(LayerNorm(d_model=D, bias=bias).double())
    linear = randomize(nn.Linear(D, F).double())
    bare, folded = LayerNorm(d_model=D, bias=False).double(), nn.Linear(D, F).double()
    shift = linear.weight @ norm.bias if bias else 0
    folded.load_state_dict(
        {"weight": linear.weight * norm.weight, "bias": linear.bias + shift}
    )
    x = normal(B, S, D, seed=7)
    compare(
        "norm and linear = folded linear",
        results(folded(bare(x)), x),
        results(linear(norm(x)), x),
    )


@both_norms
def test_bfloat16_stays_close(norm):
    x = 100 + normal(B, S, D, seed=8, grad=False)
    module = randomize(norm(d_model=D).double())
    exact = module(x.bfloat16().double())  # the rounding of the input is not the norm's
    rough = module.bfloat16()(x.bfloat16())
    assert rough.dtype == torch.bfloat16
    assert (rough.double() - exact).abs().max() < 3 * 2**-8 * exact.abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("norm", "formula"), [(LayerNorm, layer_norm), (RMSNorm, rms_norm)]
)
def test_the_formula_holds_in_half_precision_too(norm, formula, dtype):
    """Squares of 400 are more than float16 can hold."""
    module = randomize(norm(d_model=64)).to(dtype)
    x = 400 * normal(3, 64, seed=9, grad=False).to(dtype)
    out = formula(x, *module.parameters())
    # Each of the two rounds its results once: they may be two units in the last place apart.
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(out, module(x), rtol=2 * eps, atol=2 * eps)
    assert out.float().std() > 0.5


def test_eps_is_where_it_belongs():
    """For tiny inputs eps inside the root and eps added to the deviation differ by far."""
    x = torch.tensor([[1e-4, -1e-4]]).double()
    inside = 1e-4 / math.sqrt(1e-8 + 1e-5)
    torch.testing.assert_close(LayerNorm(d_model=2).double()(x)[0, 0].item(), inside)
    torch.testing.assert_close(RMSNorm(d_model=2).double()(x)[0, 0].item(), inside)


@pytest.mark.parametrize("norm_bias", [True, False])
@pytest.mark.parametrize("linear_bias", [True, False])
@every_precision
def test_folded_norm_equals_norm_then_linear(norm_bias, linear_bias, dtype):
    norm = randomize(LayerNorm(d_model=D, bias=norm_bias).to(dtype))
    linear = randomize(nn.Linear(D, 5, bias=linear_bias).to(dtype), seed=2)
    folded = fold(norm, linear)
    assert (folded.bias is not None) == (norm_bias or linear_bias)
    x = normal(B, S, D, seed=3, dtype=dtype)
    plain = functional.layer_norm(x, (D,), eps=norm.eps)
    compare(
        "folded LayerNorm = LayerNorm, then linear",
        results(folded(plain), x),
        results(linear(norm(x)), x),
    )


@every_precision
def test_folded_rms_norm_equals_norm_then_linear(dtype):
    norm = randomize(RMSNorm(d_model=D).to(dtype))
    linear = randomize(nn.Linear(D, 5).to(dtype), seed=2)
    x = normal(B, S, D, seed=3, dtype=dtype)
    plain = functional.rms_norm(x, (D,), eps=norm.eps)
    compare(
        "folded RMSNorm = RMSNorm, then linear",
        results(fold(norm, linear)(plain), x),
        results(linear(norm(x)), x),
    )


def test_folding_leaves_both_as_they_were():
    norm, linear = randomize(LayerNorm(d_model=D)), nn.Linear(D, 5)
    before = [p.clone() for p in (*norm.parameters(), *linear.parameters())]
    fold(norm, linear)
    for p, old in zip((*norm.parameters(), *linear.parameters()), before, strict=True):
        assert torch.equal(p, old)


def test_widths_that_do_not_follow_each_other_are_named():
    message = "in_features=3 must be the 7 components of the norm"
    with pytest.raises(ValueError, match=message):
        fold(RMSNorm(d_model=7), nn.Linear(3, 7))
