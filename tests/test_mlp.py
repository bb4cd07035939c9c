"""The MLP and its gated form."""

import math

import pytest
import torch
from ladder import PRECISIONS, compare, normal, randomize, results
from torch import nn

from decoder_only.model.mlp import ACTIVATIONS, MLP, SwiGLU, squared_relu

B, S, D, F = 2, 5, 7, 11
every_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
both_mlps = pytest.mark.parametrize("mlp", [MLP, SwiGLU])

FORMULAS = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: (
        x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
    ),
    "squared_relu": lambda x: max(x, 0.0) ** 2,
}
MODULES = {
    "relu": nn.ReLU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "squared_relu": lambda x: nn.ReLU()(x) ** 2,
}


def test_every_activation_has_a_formula():
    assert set(ACTIVATIONS) == set(FORMULAS) == set(MODULES)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_follow_their_formulas(name):
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    expected = torch.tensor(
        [FORMULAS[name](value) for value in x.tolist()], dtype=torch.float64
    )
    torch.testing.assert_close(ACTIVATIONS[name](x), expected, rtol=1e-13, atol=1e-14)


@every_precision
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_mlp_equals_pytorchs_modules(name, dtype):
    ours = randomize(MLP(d_model=D, d_mlp=F, activation=name).to(dtype))
    up, down = nn.Linear(D, F).to(dtype), nn.Linear(F, D).to(dtype)
    up.load_state_dict(ours.up.state_dict())
    down.load_state_dict(ours.down.state_dict())
    x = normal(B, S, D, seed=1, dtype=dtype)
    compare(
        "MLP = torch.nn's modules",
        results(ours(x), x, *ours.parameters()),
        results(down(MODULES[name](up(x))), x, *up.parameters(), *down.parameters()),
    )


def test_mlp_by_hand():
    mlp = MLP(d_model=2, d_mlp=3, activation="relu")
    with torch.no_grad():
        mlp.up.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]))
        mlp.up.bias.copy_(torch.tensor([0.0, 1.0, 0.0]))
        mlp.down.weight.copy_(torch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 1.0]]))
        mlp.down.bias.copy_(torch.tensor([0.0, 10.0]))
    # x = (2, -1): hidden relu(2, 0, -1) = (2, 0, 0); x = (-1, -3): relu(-1, -2, 4) = (0, 0, 4).
    out = mlp(torch.tensor([[2.0, -1.0], [-1.0, -3.0]]))
    assert out.tolist() == [[2.0, 10.0], [12.0, 14.0]]


def test_swiglu_by_hand():
    mlp = SwiGLU(d_model=1, d_mlp=2)
    with torch.no_grad():
        mlp.gate.weight.copy_(torch.tensor([[math.log(3)], [0.0]]))
        mlp.up.weight.copy_(torch.tensor([[4.0], [100.0]]))
        mlp.down.weight.copy_(torch.tensor([[1.0, 1.0]]))
    # At x = 1 the first gate is silu(ln 3) = ln 3 * 3/4; the second is shut, silu(0) = 0.
    assert mlp(torch.ones(1, 1)).item() == pytest.approx(3 * math.log(3), rel=1e-6)


@every_precision
def test_swiglu_equals_pytorchs_modules(dtype):
    ours = randomize(SwiGLU(d_model=D, d_mlp=F, bias=True).to(dtype))
    x = normal(B, S, D, seed=2, dtype=dtype)
    gate, up, down = (nn.Linear(*sizes).to(dtype) for sizes in [(D, F), (D, F), (F, D)])
    for theirs, name in [(gate, "gate"), (up, "up"), (down, "down")]:
        theirs.load_state_dict(ours.get_submodule(name).state_dict())
    parameters = [*gate.parameters(), *up.parameters(), *down.parameters()]
    compare(
        "SwiGLU = torch.nn's modules",
        results(ours(x), x, *ours.parameters()),
        results(down(nn.SiLU()(gate(x)) * up(x)), x, *parameters),
    )


def test_swiglu_at_two_thirds_has_as_many_parameters():
    d = 24
    count = [
        sum(p.numel() for p in mlp.parameters())
        for mlp in (
            MLP(d_model=d, d_mlp=4 * d, bias=False),
            SwiGLU(d_model=d, d_mlp=8 * d // 3),
        )
    ]
    assert count == [8 * d * d, 8 * d * d]


@both_mlps
@pytest.mark.parametrize("bias", [True, False])
def test_bias_is_everywhere_or_nowhere(mlp, bias):
    module = mlp(d_model=D, d_mlp=F, bias=bias)
    linears = [m for m in module.modules() if isinstance(m, nn.Linear)]
    assert {linear.bias is not None for linear in linears} == {bias}
    if not bias and mlp is SwiGLU:
        assert (module(torch.zeros(B, S, D)) == 0).all()


@both_mlps
def test_positions_do_not_mix(mlp):
    x = normal(B, S, D, seed=3)
    out = randomize(mlp(d_model=D, d_mlp=F).double())(x)
    (gradient,) = torch.autograd.grad((out * normal(B, S, D, seed=4))[1, 2].sum(), x)
    reached = gradient.abs().amax(-1) > 0
    assert reached[1, 2]
    assert reached.sum() == 1


def test_squared_relu():
    assert squared_relu(torch.tensor([-2.0, 0.0, 3.0])).tolist() == [0, 0, 9]
