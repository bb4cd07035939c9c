"""Token embedding and positions."""

import math

import pytest
import torch
import torch.nn.functional as F
from ladder import PRECISIONS, compare, normal, results

from decoder_only.model.embeddings import (
    LearnedPositions,
    SinusoidalPositions,
    TokenEmbedding,
    rotary,
    rotations,
    sinusoids,
)

B, S, H, K, V, D = 2, 5, 3, 8, 11, 6
every_precision = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)


def ids_of(*shape: int) -> torch.Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(0))


# ------------------------------------------------------------------------------------------- tokens


@every_precision
def test_embedding_equals_one_hot_product(dtype):
    embedding = TokenEmbedding(vocab_size=V, d_model=D).to(dtype)
    ids = ids_of(B, S)
    assert ids.unique().numel() < ids.numel()  # a repeated id must add up its gradients
    table = embedding.weight.detach().clone().requires_grad_()
    product = F.one_hot(ids, V).to(dtype) @ table
    compare(
        "embedding = one-hot product",
        results(embedding(ids), embedding.weight),
        results(product, table),
    )


def test_embedding_starts_small():
    weight = TokenEmbedding(vocab_size=300, d_model=200).weight
    assert weight.std().item() == pytest.approx(0.02, rel=0.02)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_embedding_takes_both_common_integers(dtype):
    embedding = TokenEmbedding(vocab_size=V, d_model=D)
    ids = ids_of(B, S)
    assert torch.equal(embedding(ids.to(dtype)), embedding.weight[ids])


@pytest.mark.parametrize(("rows", "length"), [(0, S), (B, 0)])
def test_embedding_of_nothing_is_nothing(rows, length):
    assert TokenEmbedding(vocab_size=V, d_model=D)(ids_of(rows, length)).shape == (
        rows,
        length,
        D,
    )


# ------------------------------------------------------------------------------------------ learned


def test_learned_positions_add_one_row_to_each_position():
    positions = LearnedPositions(context_length=S + 2, d_model=D).double()
    x = normal(B, S, D, seed=1)
    out = positions(x)
    for s in range(S):
        assert torch.equal(out[:, s], x[:, s] + positions.weight[s])
    out.sum().backward()
    assert torch.equal(
        positions.weight.grad, torch.tensor([B] * S + [0, 0])[:, None].expand(-1, D)
    )


# ---------------------------------------------------------------------------------------- sinusoids


def test_sinusoids_first_rows_by_hand():
    # D = 4 and base 100: the second wave is ten times slower than the first.
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [math.sin(1.0), math.cos(1.0), math.sin(0.1), math.cos(0.1)],
        [math.sin(2.0), math.cos(2.0), math.sin(0.2), math.cos(0.2)],
    ]
    torch.testing.assert_close(
        sinusoids(torch.arange(3), d_model=4, base=100.0), torch.tensor(expected)
    )


def test_sinusoids_follow_the_formula():
    table = sinusoids(torch.arange(50), d_model=D, dtype=torch.float64)
    for s in range(50):
        for i in range(D // 2):
            angle = s / 10_000 ** (2 * i / D)
            assert table[s, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-13)
            assert table[s, 2 * i + 1].item() == pytest.approx(
                math.cos(angle), abs=1e-13
            )


@pytest.mark.parametrize("k", [0, 1, 7, -3])
def test_shifted_sinusoids_equal_rotated_ones(k):
    """PE(s + k) is one linear map of PE(s), the same for every s: a rotation in each plane."""
    table = sinusoids(torch.arange(40), d_model=D, dtype=torch.float64)
    # The column (sin a, cos a) becomes that of a + w by [[cos w, sin w], [-sin w, cos w]].
    turn = torch.zeros(D, D, dtype=torch.float64)
    for i in range(0, D, 2):
        w = k / 10_000 ** (i / D)
        turn[i, i], turn[i, i + 1] = math.cos(w), math.sin(w)
        turn[i + 1, i], turn[i + 1, i + 1] = -math.sin(w), math.cos(w)
    start = torch.arange(max(0, -k), 40 - max(0, k))
    compare("PE(s + k) = rotation of PE(s)", table[start] @ turn.T, table[start + k])


def test_sinusoidal_positions_add_the_table_at_any_length():
    positions = SinusoidalPositions(d_model=D, base=50.0)
    assert not list(positions.parameters())
    for length in (1, S, 5000):
        x = normal(1, length, D, seed=2, dtype=torch.float32, grad=False)
        waves = sinusoids(torch.arange(length), d_model=D, base=50.0)
        assert torch.equal(positions(x), math.sqrt(D) * x + waves)
    assert positions(x.bfloat16()).dtype == torch.bfloat16
    assert positions(x.double()).dtype == torch.float64


def test_a_fresh_token_is_heard_beside_its_position():
    """Without the factor, tokens would be 35 times fainter than positions at any width."""
    d_model = 512
    ids, positions = torch.arange(50)[None], SinusoidalPositions(d_model=d_model)
    tokens = TokenEmbedding(vocab_size=50, d_model=d_model)(ids)
    waves = sinusoids(torch.arange(50), d_model=d_model)
    heard = (positions(tokens) - waves).square().mean().sqrt()
    assert heard / waves.square().mean().sqrt() > 0.5


@every_precision
def test_positions_may_be_any_and_differ_by_row(dtype):
    """A vector is placed the same wherever it stands in the tensor, and whatever the others do."""
    x = normal(B, 9, D, seed=2, grad=False, dtype=dtype)
    later = torch.tensor([[3, 4, 5], [0, 7, 2]])
    rows = torch.arange(B)[:, None]
    for positions in (
        SinusoidalPositions(d_model=D),
        LearnedPositions(context_length=9, d_model=D).to(dtype),
    ):
        some = positions(x[rows, later], later)
        assert torch.equal(some, positions(x)[rows, later])
    heads = normal(B, H, 9, 4, seed=3, grad=False, dtype=dtype)
    rotation = rotations(later, head_dim=4, dtype=dtype)
    some = rotary(heads.transpose(1, 2)[rows, later].transpose(1, 2), rotation)
    assert torch.equal(some, rotary(heads).transpose(1, 2)[rows, later].transpose(1, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: sinusoids(torch.arange(3), d_model=5),
        lambda: rotations(torch.arange(3), head_dim=5),
        lambda: rotary(torch.zeros(B, H, S, 5)),
    ],
)
def test_odd_dimensions_cannot_be_paired(make):
    message = "width=5 must be even: waves come in pairs"
    with pytest.raises(ValueError, match=message):
        make()


# ------------------------------------------------------------------------------------------- rotary


def test_rotary_by_hand():
    # One plane, one radian per position: the first axis turns towards the second.
    x = torch.tensor([[1.0, 0.0]]).expand(1, 1, 3, 2)
    expected = [[math.cos(s), math.sin(s)] for s in range(3)]
    torch.testing.assert_close(rotary(x)[0, 0], torch.tensor(expected))


@every_precision
def test_rotary_equals_complex_multiplication(dtype):
    x = normal(B, H, S, K, seed=3, dtype=dtype)
    copy = x.detach().clone().requires_grad_()
    first, second = copy.chunk(2, dim=-1)
    s = torch.arange(S, dtype=dtype)
    frequency = torch.tensor(
        [100.0 ** (-2 * i / K) for i in range(K // 2)], dtype=dtype
    )
    angle = torch.outer(s, frequency)
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(angle), angle)
    expected = torch.cat([turned.real, turned.imag], dim=-1)
    compare(
        "rotary = complex multiplication",
        results(rotary(x, base=100.0), x),
        results(expected, copy),
    )


def test_rotary_preserves_norms():
    x = normal(B, H, 30, K, seed=4)
    torch.testing.assert_close(rotary(x).norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotary(x)[:, :, 0], x[:, :, 0])  # position 0 does not turn


def test_rotary_dot_products_depend_on_distance_alone():
    n = 2000
    query = rotary(normal(1, 1, 1, K, seed=5).expand(1, 1, n, K))[0, 0]
    key = rotary(normal(1, 1, 1, K, seed=6).expand(1, 1, n, K))[0, 0]
    scores = query @ key.T
    for distance in (0, 1, 17, -5, 999):
        same_distance = scores.diagonal(-distance)
        assert same_distance.std() < 1e-12
    assert scores[:, 0].std() > 0.1  # and on the distance they do depend


def test_rotary_angles_survive_bfloat16():
    """Beyond 256 bfloat16 cannot tell neighbouring positions apart; the angles must not care."""
    x = normal(1, 1, 1, K, seed=7, grad=False).bfloat16().expand(1, 1, 3000, K)
    turned = rotary(x)
    assert turned.dtype == torch.bfloat16
    # Rounding cosine, sine, two products and their sum costs a few units of 2^-8.
    error = (turned.double() - rotary(x.double())).abs().max() / x.double().abs().max()
    assert error < 4 * 2**-8
    assert not torch.equal(turned[0, 0, 1024], turned[0, 0, 1025])
