"""Looking inside: the split of the excess, the streams and what changes them, probes, chains."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder import unchecked
from torch.testing import assert_close

from decoder_only import GPT, GPTConfig
from decoder_only.analysis.interpretation import (
    ExcessByKind,
    RepeatedChains,
    additions,
    attention_maps,
    fit_probe,
    lens,
    replaced,
    rewired,
    streams,
    without_head,
)
from decoder_only.model import multihead
from decoder_only.model.attention import attend_explicitly
from decoder_only.stories import StoryLanguage, exact
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.variants.encoders import Encoder
from decoder_only_book.stored import FOLDER

KINDS = exact.KINDS
V = 12


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tiny(kind: type[GPT] = GPT, **settings) -> GPT:
    shape = {"vocab_size": V, "context_length": 16, "d_model": 16, "n_heads": 2}
    config = GPTConfig(**shape, n_layers=3, **settings)
    model = kind(config, generator=seeded(1)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=seeded(2)))
    return model


# ------------------------------------------------------------------------------------- the split


@st.composite
def trees(draw, depth=3):
    """Choices one inside the other, whose tokens may be shared."""
    kind = draw(st.sampled_from(KINDS))
    if depth == 0 or draw(st.booleans()):
        return exact.Settled(kind, draw(st.integers(0, V - 1)))
    branches = draw(st.lists(trees(depth - 1), min_size=2, max_size=4))
    weights = draw(st.lists(st.integers(1, 9), min_size=4, max_size=4))
    weights = weights[: len(branches)]
    shares = [weight / sum(weights) for weight in weights]
    return exact.Fork(kind, tuple(zip(shares, branches, strict=True)))


@settings(max_examples=60)
@given(trees(), st.integers(0, 99))
def test_the_parts_are_not_negative_and_add_up_to_the_divergence(tree, seed):
    log_q = torch.randn(1, V, generator=seeded(seed)).log_softmax(-1)
    chances, split = exact.probabilities(tree), ExcessByKind([tree])
    parts = split(log_q)
    by_hand = sum(p * (math.log(p) - log_q[0, t].item()) for t, p in chances.items())
    assert parts.sum().item() == pytest.approx(by_hand, abs=1e-6)
    assert parts.min() > -1e-6
    entropy = -sum(p * math.log(p) for p in chances.values())
    assert split.entropy.sum().item() == pytest.approx(entropy)
    p = torch.full((1, V), 0.0).double()
    for token, chance in chances.items():
        p[0, token] = chance
    assert split(p.log()).abs().max() < 1e-9


def test_what_two_choices_cost_is_told_apart():
    """A template of two alternatives, and a name inside of one: by hand."""
    inside = exact.Fork(
        "name", ((0.5, exact.Settled("name", 1)), (0.5, exact.Settled("name", 2)))
    )
    tree = exact.Fork(
        "template", ((0.25, exact.Settled("template", 0)), (0.75, inside))
    )
    q = torch.tensor([[0.25, 0.15, 0.45, 0.15]])
    outside, within = ExcessByKind([tree])(q.log())[0]
    template, name = (KINDS.index(kind) for kind in ("template", "name"))
    can_follow = 0.85
    outer = 0.25 * math.log(0.25 / (0.25 / can_follow))
    outer += 0.75 * math.log(0.75 / (0.6 / can_follow))
    assert outside[template].item() == pytest.approx(-math.log(can_follow))
    assert outside.count_nonzero() == 1
    assert within[template].item() == pytest.approx(outer)
    assert within[name].item() == pytest.approx(
        0.75 * (0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75))
    )


def test_along_stories_it_is_the_divergence_from_the_exact_distribution():
    hamlet = StoryLanguage.hamlet()
    tokenizer = BytePairTokenizer.load(FOLDER / "hamlet" / "tokenizer.json")
    following, text = exact.NextToken(hamlet, tokenizer), next(hamlet.stories(seed=1))
    found = list(following.along(text))
    log_q = torch.randn(len(found), tokenizer.vocab_size, generator=seeded(0))
    log_q = log_q.log_softmax(-1)
    parts = ExcessByKind(found)(log_q)
    for row, tree in enumerate(found):
        chances = exact.probabilities(tree)
        tokens, p = list(chances), torch.tensor([*chances.values()])
        divergence = (p * (p.log() - log_q[row, tokens])).sum()
        assert parts[row].sum().item() == pytest.approx(divergence.item(), rel=1e-4)
    # What is certain can only be missed by what cannot follow.
    certain = [isinstance(tree, exact.Settled) for tree in found]
    assert parts[certain, 1].abs().max() < 1e-9 < parts[certain, 0].sum()
    with unchecked(), pytest.raises(ValueError, match="a row for a tree"):
        ExcessByKind(found)(log_q[1:])


# ------------------------------------------------------------------------- streams and changes


@pytest.mark.parametrize(
    "settings",
    [{}, {"positions": "rotary", "qk_norm": True}, {"norm_position": "post"}],
)
def test_the_last_stream_is_what_the_head_reads(settings):
    model = tiny(**settings)
    ids = torch.randint(V, (2, 9), generator=seeded(3))
    found = streams(model, ids)
    assert found.shape == (4, 2, 9, 16)
    with torch.no_grad():
        assert_close(lens(model, found[-1]), model(ids))
    assert model.dropout._forward_hooks == {}  # nothing is left behind


def test_a_stream_replaced_by_anothers_gives_the_others_logits():
    model = tiny(positions="rotary")
    one, two = torch.randint(V, (2, 1, 9), generator=seeded(3))
    other = streams(model, two)
    with torch.no_grad():
        wanted, own = model(two), model(one)
        for layer in range(4):
            with replaced(model, layer, lambda x, layer=layer: other[layer]):
                assert_close(model(one), wanted)
            with replaced(model, layer, lambda x: x):
                assert_close(model(one), own)
    with pytest.raises(ValueError, match="layer=4 must be from 0 to 3"):
        replaced(model, 4, lambda x: x).__enter__()


@pytest.mark.parametrize("kind", [GPT, Encoder])
@pytest.mark.parametrize(
    "settings",
    [
        {"positions": "rotary", "qk_norm": True, "attention_scale": 0.7},
        {"windows": (None, 4)},
        {"norm_position": "post"},
    ],
    ids=str,
)
def test_attention_maps_are_those_that_the_model_uses(monkeypatch, settings, kind):
    model = tiny(kind, **settings)
    ids = torch.randint(V, (2, 9), generator=seeded(3))
    seen = []

    def attend(query, key, value, **options):
        size = query.shape[2]
        shape = query.shape[0], query.shape[1], size, size
        seen.append(plain(query, key, torch.eye(size).expand(shape), **options))
        return plain(query, key, value, **options)

    plain = multihead.attend
    monkeypatch.setattr(multihead, "attend", attend)
    with unchecked(), torch.no_grad():  # the values are of another width than the keys
        model(ids)
    monkeypatch.undo()
    wanted = torch.stack(seen, 1)
    assert_close(attention_maps(model, ids), wanted)


def test_without_a_head_its_own_part_is_the_mean_over_the_batch():
    model = tiny()
    ids = torch.randint(V, (5, 9), generator=seeded(3))
    same = ids[:1].expand(5, -1)
    with torch.no_grad():
        whole = model(ids)
        with without_head(model, (1, 0)):
            assert (model(ids) - whole).abs().max() > 1e-3
            assert_close(model(same), whole[:1].expand(5, -1, -1))
        with without_head(model):
            assert_close(model(ids), whole)
        assert_close(model(ids), whole)
        wanted = "batch=1 must be 2 or more"
        with without_head(model, (1, 0)), pytest.raises(ValueError, match=wanted):
            model(ids[:1])
        # A head that hands over nothing is not missed.
        model.blocks[2].attention.output.weight[:, 8:] = 0
        whole = model(ids)
        with without_head(model, (2, 1)):
            assert_close(model(ids), whole)


@pytest.mark.parametrize(
    "settings", [{}, {"positions": "rotary", "qk_norm": True, "n_kv_heads": 1}]
)
def test_what_the_parts_add_is_the_stream(settings):
    model = tiny(**settings)
    ids = torch.randint(V, (2, 9), generator=seeded(3))
    parts = additions(model, ids)
    assert parts.shape == (1 + 3 * (2 + 1), 2, 9, 16)
    for layer, stream in enumerate(streams(model, ids)):
        assert_close(parts[: 1 + 3 * layer].sum(0), stream)
    with pytest.raises(ValueError, match="norm_position='post'"):
        additions(tiny(norm_position="post"), ids)


@pytest.mark.parametrize("norm_position", ["pre", "post"])
@pytest.mark.parametrize("part", ["query", "key", "value"])
def test_a_rewired_head_reads_another_stream_and_nobody_else_does(part, norm_position):
    model = tiny(positions="rotary", norm_position=norm_position)
    one, two = torch.randint(V, (2, 1, 9), generator=seeded(3))
    layer, h = 1, 1
    block = model.blocks[layer]
    with torch.no_grad():
        mine, other = (streams(model, ids)[layer] for ids in (one, two))
        own, their = (
            dict(
                zip(
                    ("query", "key", "value"),
                    block.attention.project(
                        block.attention_norm(x) if block.pre_norm else x
                    ),
                    strict=True,
                )
            )
            for x in (mine, other)
        )
        own[part] = own[part].clone()
        own[part][:, h] = their[part][:, h]
        heads = attend_explicitly(own["query"], own["key"], own["value"])
        wanted = block.attention.output(heads.transpose(1, 2).flatten(2))
        found = []
        handle = block.attention.register_forward_hook(
            lambda part, args, out: found.append(out)
        )
        with rewired(model, (layer, h), part, lambda x: other):
            changed = model(one)
        handle.remove()
        assert_close(found[0], wanted)
        assert (changed - model(one)).abs().max() > 1e-3
        with rewired(model, (layer, h), part, lambda x: x):
            unchanged = model(one)
        assert_close(unchanged, model(one))


def test_a_head_that_shares_its_keys_and_values_cannot_be_rewired_alone():
    model, ids = tiny(n_kv_heads=1), torch.randint(V, (2, 9), generator=seeded(3))
    found = []
    for part in ("key", "value"):
        context = rewired(model, (0, 0), part, lambda x: x)
        wanted = f"part={part!r} must be 'query'"
        with pytest.raises(ValueError, match=wanted), context:
            pass
    output = model.blocks[0].attention.output
    hook = output.register_forward_pre_hook(lambda part, args: found.append(args[0]))
    with rewired(model, (0, 1), "query", lambda x: x.flip(0)):
        model(ids)
    model(ids)
    hook.remove()
    changed = (found[0] - found[1]).abs().amax((0, 1)) > 0
    assert not changed[:8].any()
    assert changed[8:].all()


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ((3, 0), r"layer=3 must be below 3"),
        ((0, 2), r"head=2 must be below 2"),
        ((-1, 0), r"layer=-1"),
    ],
)
def test_a_head_that_is_not_there_is_refused_before_anything_is_hooked(head, message):
    model = tiny()
    for context in (
        without_head(model, (0, 0), head),
        rewired(model, head, "key", lambda x: x),
    ):
        with pytest.raises(ValueError, match=message), context:
            pass
    assert not model.blocks[0].attention.output._forward_pre_hooks


# ------------------------------------------------------------------------------- probes, chains


def test_a_probe_is_ridge_regression_and_finds_what_is_linear():
    x = torch.randn(600, 8, generator=seeded(0))
    labels = (x @ torch.randn(8, 4, generator=seeded(1))).argmax(-1)
    probe = fit_probe(x[:500], labels[:500])
    assert probe.accuracy(x[500:], labels[500:]) > 0.85
    shuffled = labels[:500][torch.randperm(500, generator=seeded(2))]
    assert fit_probe(x[:500], shuffled).accuracy(x[500:], labels[500:]) < 0.45
    assert fit_probe(x.double(), labels).weight.dtype == torch.float64
    with pytest.raises(ValueError, match="vectors=1 must be 2 or more"):
        fit_probe(x[:1], labels[:1])
    # Against a solver that knows nothing of normal equations.
    scaled = (x[:500] - x[:500].mean(0)) / (x[:500].std(0) + 1e-6)
    targets = torch.nn.functional.one_hot(labels[:500]).float()
    rows = torch.cat([scaled, math.sqrt(1e-2 * 500) * torch.eye(8)])
    wanted = torch.cat([targets - targets.mean(0), torch.zeros(8, 4)])
    solved = torch.linalg.lstsq(rows, wanted).solution
    assert_close(
        x @ probe.weight + probe.offset - targets.mean(0),
        ((x - x[:500].mean(0)) / (x[:500].std(0) + 1e-6)) @ solved,
        atol=1e-4,
        rtol=1e-4,
    )


def test_chains_repeat_and_their_predictions_are_exact():
    source = RepeatedChains(4, periods=range(2, 4), length=6, seed=1)
    ids, periods = source.sample(200, seeded(0))
    for row, period in zip(ids, periods, strict=True):
        assert_close(row[period:], row[:-period])
    # The truth by counting: the weight of all sequences that go on so, over those that begin so.
    weights: dict[tuple[int, ...], float] = {}
    for code in range(4**3):
        fresh = [code // 4**i % 4 for i in range(3)]
        for period in source.periods:
            if period == 2 and fresh[2]:
                continue
            whole = [fresh[i % period] for i in range(6)]
            p = source.frequencies[whole[0]].item() / 2
            for a, b in pairwise(whole[:period]):
                p *= source.chain[a, b].item()
            for n in range(7):
                key = tuple(whole[:n])
                weights[key] = weights.get(key, 0.0) + p
    found = source.predictions(ids, "truth")
    bigram = source.predictions(ids, "bigram")
    whole = {before: p for before, p in weights.items() if len(before) == 6}
    for row in range(20):
        for s in range(5):
            before = tuple(ids[row, : s + 1].tolist())
            alike = {key: p for key, p in whole.items() if key[s] == before[-1]}
            for v in range(4):
                p = weights.get((*before, v), 0.0) / weights[before]
                assert found[row, s, v].item() == pytest.approx(p, abs=1e-9)
                # Of the bigram: over all sequences with this token at this place.
                p = sum(p for key, p in alike.items() if key[s + 1] == v)
                p /= sum(alike.values())
                assert bigram[row, s, v].item() == pytest.approx(p, abs=1e-9)


def test_copying_says_what_followed_the_last_token_before():
    source = RepeatedChains(4, periods=range(3, 5), length=8, seed=1)
    assert source.late == slice(4, 7)
    ids = torch.tensor([[0, 1, 0, 2, 0, 1, 0, 2], [3, 1, 2, 3, 1, 2, 3, 1]])
    found = source.predictions(ids, "copying")
    assert_close(found[:, :4], source.predictions(ids, "bigram")[:, :4])
    half = torch.tensor([0.0, 0.5, 0.5, 0.0]).double()
    assert_close(found[0, 4], half)  # 0 was followed by 1 and by 2
    assert_close(found[0, 6, 1].item(), 2 / 3)
    assert found[1, 4:7].argmax(-1).tolist() == [2, 3, 1]
    seen = source.predictions(ids, "seen")
    bigram = source.predictions(ids, "bigram")
    assert_close(seen[:, :4], bigram[:, :4])
    wanted = bigram[1, 5] * torch.tensor([0, 1, 1, 1])  # 0 has not come
    assert_close(seen[1, 5], wanted / wanted.sum())


def test_the_simpler_strategies_do_worse_in_their_order():
    source = RepeatedChains()
    ids, _ = source.sample(400, seeded(0))
    losses = []
    for strategy in source.STRATEGIES:
        p = source.predictions(ids, strategy)
        assert_close(p.sum(-1), torch.ones_like(p[..., 0]))
        chosen = p[:, :-1].gather(2, ids[:, 1:, None])
        losses.append(-chosen.log().mean().item())
    assert losses == sorted(losses, reverse=True)
    assert all(a > b + 0.1 for a, b in pairwise(losses))
    with pytest.raises(ValueError, match=r"strategy='guess'.*uniform, uni"):
        source.predictions(ids, "guess")
    with pytest.raises(ValueError, match="periods="):
        RepeatedChains(periods=range(16, 70))
