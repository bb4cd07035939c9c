"""Facts and what is made of them: worlds, the terms of the bounds, bits known, fewer bits."""

import math
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from decoder_only import GPT, GPTConfig
from decoder_only.analysis.knowledge import (
    ORDERS,
    Biographies,
    FactWorld,
    coarsened,
    good_turing,
    is_it_valid,
    made_up,
    missing_mass,
    quantized,
    reliability,
    total_variation,
)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model_of(vocab_size: int, *, seed: int = 1, noise: float = 0.3) -> GPT:
    shape = {"vocab_size": vocab_size, "context_length": 8, "d_model": 16}
    model = GPT(GPTConfig(**shape, n_layers=2, n_heads=2), generator=seeded(seed))
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randn(parameter.shape, generator=seeded(seed + 1))
            parameter.add_(noise * drawn)
    return model.eval()


SMALL = FactWorld(3, 2, 4, seed=5)


# --------------------------------------------------------------------------------------- worlds


def test_a_world_tells_its_people_by_zipfs_law_and_its_attributes_alike():
    world = FactWorld(8, 3, 5, exponent=1.0)
    assert world.chances.sum().item() == pytest.approx(1)
    ratio = world.chances[:1] / world.chances
    assert_close(ratio, torch.arange(1.0, 9).double()[:, None].expand(8, 3))
    facts = world.draw(60_000, seeded(0))
    shares = world.counts(facts).double() / 60_000
    assert_close(shares, world.chances, atol=0.006, rtol=0)
    assert world.fact_bits == pytest.approx(24 * math.log2(5))
    assert (FactWorld(8, 3, 5).answers == world.answers).all()
    assert (FactWorld(8, 3, 5, seed=1).answers != world.answers).any()
    assert FactWorld(64, 4, 4).answers.unique().tolist() == [0, 1, 2, 3]


def test_sentences_say_what_is_true_in_the_order_of_their_template():
    every = torch.arange(6)
    rows = {order: SMALL.sentences(every, order).tolist() for order in ORDERS}
    for i, (person, attribute) in enumerate(product(range(3), range(2))):
        value = 8 + SMALL.answers[person, attribute].item()
        assert rows["forwards"][i] == [0, 3 + person, 6 + attribute, value]
        assert rows["turned"][i] == [1, 6 + attribute, 3 + person, value]
        assert rows["backwards"][i] == [2, value, 6 + attribute, 3 + person]
    assert (SMALL.unknown, SMALL.vocab_size) == (12, 13)
    with pytest.raises(ValueError, match=r"order='inverted'.*forwards, t"):
        SMALL.sentences(every, "inverted")


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_what_a_model_says_is_the_product_of_its_steps(temperature):
    model = model_of(SMALL.vocab_size)
    g = SMALL.says(model, temperature)
    assert g.shape == (3, 2, 5)
    for person, attribute, value in product(range(3), range(2), range(5)):
        ids = [0, 3 + person, 6 + attribute, 8 + value]
        log_g = 0.0
        for n in (1, 2, 3):
            with torch.no_grad():
                logits = model(torch.tensor([ids[:n]]))[0, -1] / temperature
            log_g += logits.log_softmax(-1)[ids[n]].item()
        assert g[person, attribute, value].log().item() == pytest.approx(
            log_g, abs=1e-4
        )
    p, true, flat = SMALL.outcomes(g)
    assert len(p) == 31
    assert flat.sum().item() == pytest.approx(1)
    assert true.sum() == 6
    assert p[true].sum().item() == pytest.approx(1)
    right = torch.arange(6) * 5 + SMALL.answers.flatten()
    assert true.nonzero().flatten().tolist() == right.tolist()
    with pytest.raises(ValueError, match=r"g.shape=\(3, 2, 4\)"):
        SMALL.outcomes(g[..., :4])


def test_a_question_is_answered_by_the_last_word():
    model, facts = model_of(SMALL.vocab_size), torch.tensor([4, 1])
    for order in ORDERS:
        prompts = SMALL.sentences(facts, order)[:, :3]
        with torch.no_grad():
            wanted = model(prompts)[:, -1].log_softmax(-1)
        assert_close(SMALL.ask(model, order, facts=facts).float(), wanted)
    assert SMALL.ask(model).shape == (6, 13)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n_people": 0}, "n_people=0 and n_attributes=4"),
        ({"n_values": 1}, "n_values=1"),
        ({"exponent": -1.0}, "exponent=-1.0"),
    ],
)
def test_a_world_that_cannot_be_is_refused(given, said):
    with pytest.raises(ValueError, match=f"{said} must be"):
        FactWorld(**given)


def test_biographies_have_names_of_their_own_and_values_by_chance():
    people = Biographies(90, 3, 16, seed=2)
    names, values = people.ids[:, :2], people.ids[:, 2:]
    assert len(names.unique(dim=0)) == 90
    assert people.n_names == 10
    assert names[:, 0].max() < 10
    assert 10 <= names[:, 1].min() <= names[:, 1].max() < 20
    assert values.unique().tolist() == list(range(20, 36))
    assert people.vocab_size == 36
    assert people.fact_bits == 90 * 3 * 4


def test_bits_known_are_those_that_the_model_saves():
    people = Biographies(30, 3, 16)
    model = model_of(people.vocab_size)
    saved = 0.0
    for row in people.ids.tolist():
        for at in (2, 3, 4):
            with torch.no_grad():
                q = model(torch.tensor([row[:at]]))[0, -1].softmax(-1)[row[at]]
            saved += 4 + math.log2(q)
    assert people.bits_known(model) == pytest.approx(saved, rel=1e-4)


# ------------------------------------------------------------------------ what was never told


@pytest.mark.parametrize("n", [1, 2, 5])
def test_good_and_turing_are_right_on_the_average(n):
    """Over all samples of n: the estimate is the mean missing mass of one sentence less."""
    chances = torch.tensor([0.5, 0.25, 0.125, 0.125]).double()
    means = {"estimate": 0.0, "missing": 0.0}
    for sample in product(range(4), repeat=n):
        weight = math.prod(chances[i].item() for i in sample)
        counts = torch.bincount(torch.tensor(sample), minlength=4)
        means["estimate"] += weight * good_turing(counts)
        before = torch.bincount(torch.tensor(sample[:-1]).long(), minlength=4)
        means["missing"] += weight * missing_mass(chances, before)
    assert means["estimate"] == pytest.approx(means["missing"])
    with pytest.raises(ValueError, match="the number of sentences=0"):
        good_turing(torch.zeros(4).long())


# -------------------------------------------------------------------------------- calibration


def distributions(size: int, seed: int) -> torch.Tensor:
    logits = 3 * torch.randn(2, size, generator=seeded(seed)).double()
    return logits.softmax(-1)


@settings(max_examples=40)
@given(st.integers(0, 999), st.sampled_from([1.05, 1.25, 2.0, 16.0]))
def test_coarsening_keeps_the_mass_of_bins_and_is_flat_in_them(seed, ratio):
    p, g = distributions(40, seed)
    coarse = coarsened(p, g, ratio=ratio)
    said, true, sizes = reliability(g, p, ratio=ratio)
    assert sizes.sum() == 40
    assert said.sum().item() == pytest.approx(1)
    assert true.sum().item() == pytest.approx(1)
    order = g.argsort()
    edges = [0, *sizes.cumsum(0).tolist()]
    for b, (start, end) in enumerate(pairwise(edges)):
        own = order[start:end]
        assert g[own].max() <= ratio * g[own].min() * (1 + 1e-9)
        assert_close(coarse[own], (p[own].sum() / len(own)).expand(len(own)))
        assert said[b].item() == pytest.approx(g[own].sum().item())
        assert true[b].item() == pytest.approx(p[own].sum().item())
    assert total_variation(p, p) == 0
    assert_close(coarsened(g, g, ratio=1 + 1e-9), g)


def test_total_variation_is_the_most_that_any_event_can_differ_by():
    p, g = distributions(9, 3)
    events = torch.tensor(list(product([0.0, 1.0], repeat=9))).double()
    assert total_variation(p, g) == pytest.approx((events @ (p - g)).max().item())
    with pytest.raises(ValueError, match=r"ratio=1.0 must be above 1"):
        reliability(g, p, ratio=1.0)


# ------------------------------------------------------------------------------- what is made up


def told(rate: float = 1.0) -> torch.Tensor:
    """What somebody says who is right about three facts of SMALL and guesses at the rest."""
    g = torch.zeros(3, 2, 5).double()
    for i, (person, attribute) in enumerate(product(range(3), range(2))):
        if i < 3:
            g[person, attribute, SMALL.answers[person, attribute]] = 1.0
        else:
            g[person, attribute, :4] = rate / 4
    return g * SMALL.chances[..., None]


def test_who_is_calibrated_makes_up_the_missing_mass_but_for_luck():
    counts = torch.tensor([[3, 2], [1, 0], [0, 0]])
    said = made_up(SMALL, told(), counts, ratio=1 + 1e-6)
    missing = SMALL.chances.flatten()[3:].sum().item()
    assert said.missing == pytest.approx(missing)
    assert said.unseen == pytest.approx(missing)
    assert said.miscalibration == pytest.approx(0, abs=1e-9)
    assert said.lucky == pytest.approx(missing / 4)
    assert said.false == pytest.approx(3 / 4 * missing)
    assert said.bound == pytest.approx(said.false)
    assert said.single == 1 / 6


def test_who_says_only_what_was_told_is_miscalibrated_by_the_missing_mass():
    counts = torch.tensor([[3, 2], [1, 0], [0, 0]])
    g = told(0.0)
    said = made_up(SMALL, g / g.sum(), counts, ratio=1 + 1e-6)
    assert said.false == pytest.approx(0, abs=1e-12)
    assert said.miscalibration == pytest.approx(said.missing)
    assert said.bound == pytest.approx(0, abs=1e-9)


@settings(max_examples=60)
@given(st.integers(0, 9999), st.sampled_from([1.1, 2.0, 10.0]), st.booleans())
def test_nobody_falls_below_the_bounds(seed, ratio, knows):
    world = FactWorld(5, 3, 6, seed=seed)
    generator = seeded(seed)
    g = (4 * torch.randn(5, 3, 7, generator=generator)).double().exp()
    if knows:
        g.scatter_(2, world.answers[..., None], 1e3)
    g = g / g.sum() * torch.rand((), generator=generator)
    counts = world.counts(world.draw(12, generator))
    said = made_up(world, g, counts, ratio=ratio)
    assert said.false >= said.bound - 1e-9
    p, valid, flat = world.outcomes(g)
    judged = is_it_valid(flat, p, valid)
    assert judged.error >= judged.bound - 1e-9
    assert said.false + said.unknown == pytest.approx(judged.error)
    assert said.nonsense <= said.false + 1e-12


def test_a_judge_by_hand():
    """Two valid statements and four invalid ones; whoever is above a quarter is called valid."""
    valid = torch.tensor([True, True, False, False, False, False])
    p = torch.tensor([0.5, 0.5, 0, 0, 0, 0]).double()
    g = torch.tensor([0.4, 0.1, 0.3, 0.2, 0.0, 0.0]).double()
    judged = is_it_valid(g, p, valid)
    assert judged.error == pytest.approx(0.5)
    assert judged.misclassified == pytest.approx((0.5 + 1 / 4) / 2)
    assert judged.sparsity == 0.5
    assert judged.offset == pytest.approx(0.2)
    assert judged.bound == pytest.approx(0.75 - 0.5 - 0.2)
    with pytest.raises(ValueError, match="what is true is valid"):
        is_it_valid(p, g, valid)
    with pytest.raises(ValueError, match="the number of invalid statements=0"):
        is_it_valid(g, p, valid | True)


# --------------------------------------------------------------------------- fewer bits a weight


@pytest.mark.parametrize("n_bits", [8, 4, 3])
def test_quantized_weights_are_those_of_torch(n_bits):
    model = model_of(20)
    rounded, most = quantized(model, n_bits), 2 ** (n_bits - 1) - 1
    own = dict(model.named_parameters())
    for name, weight in rounded.named_parameters():
        if weight.ndim < 2:
            assert_close(weight, own[name])
            continue
        wanted = torch.fake_quantize_per_channel_affine(
            own[name].detach(),
            own[name].detach().abs().amax(1) / most,
            torch.zeros(len(weight), dtype=torch.int32),
            0,
            -most,
            most,
        )
        assert_close(weight.detach(), wanted)
        assert all(len(row.unique()) <= 2 * most + 1 for row in weight)
    assert (own["embedding.weight"] != rounded.embedding.weight).any()
    with pytest.raises(ValueError, match="n_bits=1 must be from 2"):
        quantized(model, 1)


def test_rows_of_zeros_stay_zero_in_half_precision():
    model = model_of(20)
    torch.nn.init.zeros_(model.blocks[0].mlp.down.weight)
    half = quantized(model.half(), 8)
    exact = quantized(model.float(), 8)
    assert not half.blocks[0].mlp.down.weight.any()
    for ours, true in zip(half.parameters(), exact.parameters(), strict=True):
        assert ours.dtype == torch.float16
        assert_close(ours.float(), true, atol=1e-6, rtol=1e-3)


def test_sixteen_bits_lose_next_to_nothing():
    model, ids = model_of(20), torch.arange(6)[None]
    with torch.no_grad():
        assert_close(quantized(model, 16)(ids), model(ids), atol=2e-3, rtol=2e-3)
