"""Sampling: the filters, the loop, and texts from prompts."""

import math
import re
from functools import partial
from unittest import mock

import numpy as np
import pool
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder import unchecked
from torch._dynamo.exc import TorchDynamoException

from decoder_only import GPT, GPTConfig
from decoder_only.generation import (
    apply_temperature,
    beam_search,
    generate,
    keep_top_k,
    keep_top_p,
    stream,
    write,
)
from decoder_only.generation.writing import _Spelling
from decoder_only.tokenization import BytePairTokenizer
from decoder_only_book.stored import load_story_model

V = 12


def tiny(**settings) -> GPT:
    shape = {
        "vocab_size": V,
        "context_length": 8,
        "d_model": 16,
        "n_layers": 1,
        "n_heads": 2,
    }
    model = GPT(GPTConfig(**{**shape, "tied": False, **settings}), generator=seeded(1))
    with (
        torch.no_grad()
    ):  # far from uniform, and each token depends on all that it sees
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(20)
    return model


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@st.composite
def rows_of_logits(draw):
    values = st.floats(-8, 8, width=32)
    # Few distinct values, so that ties are common.
    values = st.one_of(values, st.sampled_from([-1.0, 0.0, 2.0]))
    size = draw(st.integers(1, 10))
    return torch.tensor(
        draw(st.lists(st.lists(values, min_size=size, max_size=size), min_size=1))
    )


# ---------------------------------------------------------------------------------------- filters


@pytest.mark.parametrize("temperature", [1e-30, 1e-40, 5e-324])
def test_a_temperature_of_next_to_nothing_takes_the_likeliest(temperature):
    logits = torch.tensor(
        [[3.0, 70.0, -math.inf, 69.99], [0.0, -1e-6, -9e4, -math.inf]]
    )
    found = apply_temperature(logits, temperature).softmax(dim=-1)
    assert found.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


@given(rows_of_logits(), st.floats(0.1, 10))
def test_temperature_raises_probabilities_to_a_power(logits, temperature):
    expected = logits.double().softmax(dim=-1) ** (1 / temperature)
    expected /= expected.sum(dim=-1, keepdim=True)
    found = apply_temperature(logits.double(), temperature).softmax(dim=-1)
    torch.testing.assert_close(found, expected)


@given(rows_of_logits(), st.integers(1, 12))
def test_top_k_keeps_exactly_the_k_largest(logits, k):
    kept = keep_top_k(logits, k)
    stays = kept > -math.inf
    k = min(k, logits.shape[-1])
    assert (stays.sum(dim=-1) == k).all()
    assert torch.equal(kept[stays], logits[stays])
    lowest_kept = kept.masked_fill(~stays, math.inf).amin(dim=-1)
    highest_dropped = logits.masked_fill(stays, -math.inf).amax(dim=-1)
    assert (highest_dropped <= lowest_kept).all()


@given(rows_of_logits(), st.floats(0.01, 0.999))
def test_top_p_keeps_the_smallest_set_of_the_likeliest_that_holds_p(logits, p):
    logits = logits.double()
    kept = keep_top_p(logits, p)
    probability = logits.softmax(dim=-1)
    for row, stays in zip(probability, kept > -math.inf, strict=True):
        mass, least = row[stays].sum(), row[stays].min()
        assert mass >= p - 1e-9
        assert mass - least < p + 1e-9, "one token fewer would have done"
    # By logits: probabilities that are equal may differ in their last place.
    lowest_kept = kept.masked_fill(kept == -math.inf, math.inf).amin(dim=-1)
    highest_dropped = logits.masked_fill(kept > -math.inf, -math.inf).amax(dim=-1)
    assert (highest_dropped <= lowest_kept).all()


def test_filters_leave_what_others_dropped_dropped():
    logits = torch.tensor([[3.0, 2.0, 1.0, -math.inf]])
    assert keep_top_p(keep_top_k(logits, 2), 0.99).tolist() == [
        [3.0, 2.0, -math.inf, -math.inf]
    ]
    assert keep_top_k(logits, 4).tolist() == logits.tolist()
    assert keep_top_p(logits, 1.0).tolist() == logits.tolist()


def test_filters_by_hand():
    logits = torch.tensor([[0.1, 0.5, 0.15, 0.25]]).log()
    survivors = [
        (keep_top_p(logits, p) > -math.inf)[0].tolist() for p in (0.4, 0.6, 0.8)
    ]
    assert survivors == [
        [False, True, False, False],
        [False, True, False, True],
        [False, True, True, True],
    ]


# ------------------------------------------------------------------------------------------- loop


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_temperature_zero_is_a_loop_of_argmax_in_a_sliding_window(positions):
    model = tiny(positions=positions).eval()
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    expected = ids
    for _ in range(12):  # well past the context of 8
        window = expected[:, -8:]
        expected = torch.cat(
            [expected, model(window)[:, -1].argmax(dim=-1)[:, None]], dim=1
        )
    assert len(expected[0, 8:].unique()) > 3, (
        "a model that repeats itself would prove little"
    )
    assert torch.equal(generate(model, ids, max_new_tokens=12, temperature=0), expected)
    one_by_one = [
        generate(model, row[None], max_new_tokens=12, temperature=0) for row in ids
    ]
    assert torch.equal(torch.cat(one_by_one), expected)


def test_draws_follow_the_model():
    model = tiny().eval()
    prompt = torch.tensor([[1, 2, 3]])
    rows = generate(
        model, prompt.repeat(20_000, 1), max_new_tokens=1, generator=seeded(0)
    )
    found = rows[:, -1].bincount(minlength=V) / len(rows)
    expected = model(prompt)[0, -1].softmax(dim=-1)
    # Five standard errors of a share: a fair sampler fails once in a million.
    assert (
        (found - expected).abs() <= 5 * (expected * (1 - expected) / 20_000).sqrt()
    ).all()


def test_a_seed_gives_the_same_tokens_and_touches_nothing_else():
    model, ids = tiny(), torch.tensor([[1, 2]])
    state = torch.get_rng_state()
    first = generate(model, ids, max_new_tokens=30, generator=seeded(1))
    assert torch.equal(
        first, generate(model, ids, max_new_tokens=30, generator=seeded(1))
    )
    assert not torch.equal(
        first, generate(model, ids, max_new_tokens=30, generator=seeded(2))
    )
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_asked_in_evaluation_mode_and_left_as_it_was(training):
    model = tiny(dropout=0.9).train(training)
    ids = torch.tensor([[1, 2]])
    drawing = {"max_new_tokens": 20, "temperature": 0}
    first = generate(model, ids, **drawing)
    assert torch.equal(first, generate(model, ids, **drawing)), "dropout was on"
    assert all(module.training is training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_mode_is_restored_after_an_error():
    model = tiny(positions="learned").train()
    with pytest.raises(ValueError, match=f"an id={V} must"):
        generate(model, torch.tensor([[V]]), max_new_tokens=1)
    assert model.training


def test_filters_reach_the_draw():
    model = tiny()
    ids = torch.tensor([[1, 2]] * 8)
    likeliest = generate(model, ids, max_new_tokens=10, temperature=0)
    for filters in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}):
        found = generate(model, ids, max_new_tokens=10, generator=seeded(0), **filters)
        assert torch.equal(found, likeliest), filters


def test_rows_stop_at_the_stop_token_and_are_filled_with_it():
    model, stop = tiny(), 3
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    ids = torch.tensor([[stop, 1], [1, 2], [2, 4], [1, 1]])
    drawing = {"temperature": 3.0, "generator": seeded(0), "stop_id": stop}
    rows = generate(model, ids, max_new_tokens=400, **drawing)
    assert rows.shape == (4, 402)
    assert torch.equal(rows[:, :2], ids)
    lengths = []
    for row in rows[:, 2:].tolist():
        lengths.append(row.index(stop) + 1)
        assert set(row[lengths[-1] :]) <= {stop}
    assert len(calls) == max(lengths) < 400
    assert len(set(lengths)) > 1


def test_ids_beyond_the_tokenizer_never_come_out():
    model = tiny()
    ids = torch.tensor([[1]] * 64)
    free = generate(model, ids, max_new_tokens=20, temperature=3.0, generator=seeded(0))
    assert free.max() >= 5
    for temperature in (0, 3.0):
        rows = generate(
            model,
            ids,
            max_new_tokens=20,
            temperature=temperature,
            generator=seeded(0),
            n_allowed=5,
        )
        assert rows.max() < 5


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("n_allowed", [None, 7])
def test_a_restriction_leaves_each_row_that_goes_on_a_token(temperature, n_allowed):
    def only(*tokens):
        return torch.tensor([[i in of_row for i in range(V)] for of_row in tokens])

    how = {"max_new_tokens": 2, "temperature": temperature, "stop_id": 5}
    how |= {"n_allowed": n_allowed}
    rows = torch.tensor([[1], [2]])
    none = only({3}, set()) if n_allowed is None else only({3}, {7, 8})
    with pytest.raises(ValueError, match="restrict must leave each row a token"):
        generate(tiny(), rows, restrict=lambda ids: none, **how)

    def finished_ones_are_free(ids):
        return only({3}, {5}) if ids.shape[1] == 1 else only({4}, set())

    found = generate(tiny(), rows, restrict=finished_ones_are_free, **how)
    assert found.tolist() == [[1, 3, 4], [2, 5, 5]]


def test_tokens_can_be_restricted():
    def only_what_is_one_more(ids):
        if ids.shape[1] > 5:
            return None
        return torch.nn.functional.one_hot(ids[:, -1] + 1, V).bool()

    rows = generate(
        tiny(),
        torch.tensor([[1], [2]]),
        max_new_tokens=30,
        temperature=5.0,
        generator=seeded(0),
        restrict=only_what_is_one_more,
    )
    assert rows[:, :6].tolist() == [[1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6, 7]]
    assert not torch.equal(rows[0, 6:] + 1, rows[1, 6:])


def test_nothing_new_is_asked_for():
    ids = torch.tensor([[1, 2]])
    assert torch.equal(generate(tiny(), ids, max_new_tokens=0), ids)


WRONG = {
    "max_new_tokens": [-1, 1.0, 1.5, True, "3", None],
    "temperature": [-0.5, math.nan, math.inf, -math.inf, "1", True, None],
    "top_k": [0, -1, 2.0, "2", True],
    "top_p": [0.0, 1.5, math.nan, "0.5", True],
}
every_wrong = pytest.mark.parametrize(
    ("name", "value"), [(name, x) for name, values in WRONG.items() for x in values]
)


@every_wrong
def test_settings_that_cannot_work_are_refused(name, value):
    asked = {"max_new_tokens": 1, name: value}
    message = rf"^{name}={re.escape(repr(value))} must be "
    with unchecked(), pytest.raises(ValueError, match=message):
        generate(tiny(), torch.tensor([[1]]), **asked)


@pytest.fixture(scope="module")
def never_asked() -> GPT:
    return tiny(vocab_size=300)


@every_wrong
@pytest.mark.parametrize("prompt", ["", "th", "the cat sat"])
@pytest.mark.parametrize("function", [write, stream])
def test_texts_refuse_them_whatever_the_prompt(
    never_asked, tokenizer, function, prompt, name, value
):
    """Before anything is written, and though a long prompt would leave room for -1 tokens."""
    asked = {"max_new_tokens": 1, name: value}
    message = rf"^{name}={re.escape(repr(value))} must be "
    with unchecked(), pytest.raises(ValueError, match=message):
        function(never_asked, tokenizer, prompt, **asked)


@pytest.mark.parametrize("count", [0, -1, 1.0, True, "2"])
def test_a_count_of_texts_that_cannot_work_is_refused(tokenizer, count):
    message = rf"^count={count!r} must be a whole number, at least 1"
    with unchecked(), pytest.raises(ValueError, match=message):
        write(tiny(vocab_size=300), tokenizer, count=count)


@pytest.mark.parametrize("n_allowed", [0, -1, V + 1, 2.5, "3"])
def test_an_allowance_that_cannot_work_is_refused(n_allowed):
    message = (
        f"n_allowed={n_allowed!r} must be a whole number, at least 1 and at most {V}"
    )
    with unchecked(), pytest.raises(ValueError, match=message):
        generate(tiny(), torch.tensor([[1]]), max_new_tokens=1, n_allowed=n_allowed)


@pytest.mark.parametrize("shape", [(1, 0), (3,), (), (1, 2, 3), (0, 2)], ids=str)
def test_ids_that_are_no_rows_of_tokens_are_refused(shape):
    ids = torch.zeros(shape, dtype=torch.int64)
    with unchecked(), pytest.raises(ValueError, match=r"^ids.shape=.* ids\[None\]"):
        generate(tiny(), ids, max_new_tokens=1)


@pytest.mark.parametrize(
    "prompts", [[], [torch.tensor([1]), torch.tensor([], dtype=torch.int64)]], ids=str
)
def test_prompts_without_a_token_are_refused(prompts):
    with pytest.raises(ValueError, match=r"^ids=.* each with a token at least"):
        generate(tiny(), prompts, max_new_tokens=1)


# ------------------------------------------------------------------------------------------ batches


@pytest.mark.parametrize("positions", ["rotary", "learned", "sinusoidal", "none"])
@pytest.mark.parametrize("windows", [(None,), (None, 3), (4, 3)], ids=str)
def test_prompts_of_several_lengths_continue_as_each_does_alone(positions, windows):
    """Also past the context of 8, where the window slides, or the rings go on."""
    model = tiny(positions=positions, windows=windows, n_layers=2).double()
    prompts = [torch.arange(n) % V for n in (1, 4, 7, 10)]
    together = generate(model, prompts, max_new_tokens=12, temperature=0)
    for prompt, found in zip(prompts, together, strict=True):
        with unchecked():
            alone = generate(model, prompt[None], max_new_tokens=12, temperature=0)[0]
        assert torch.equal(found, alone), len(prompt)
        assert torch.equal(found[: len(prompt)], prompt)
    assert len({row[-1].item() for row in together}) > 1


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_a_model_of_windows_forgets_nothing_past_its_context(positions):
    """Its rings give what the whole text would, though it is longer than the context."""
    model = tiny(positions=positions, windows=(4, 3), n_layers=2).double()
    expected = torch.tensor([[1, 2, 3], [4, 5, 6]])
    ids = expected
    for _ in range(30):
        chosen = model(expected)[:, -1].argmax(dim=-1)
        expected = torch.cat([expected, chosen[:, None]], dim=1)
    asked = []
    model.register_forward_pre_hook(lambda _, inputs: asked.append(inputs[0].shape[1]))
    found = generate(model, ids, max_new_tokens=30, temperature=0)
    assert torch.equal(found, expected)
    assert asked == [3] + [1] * 29


@torch.no_grad()
def test_sixteen_bits_are_enough_to_generate():
    """Weights, activations and cache in bfloat16; filters and draws in float32."""
    model = tiny(positions="rotary").bfloat16().eval()
    ids = expected = torch.tensor([[1, 2, 3]])
    for _ in range(5):
        chosen = model(expected)[:, -1].argmax(dim=-1)
        expected = torch.cat([expected, chosen[:, None]], dim=1)
    found = generate(model, ids, max_new_tokens=5, temperature=0)
    assert torch.equal(found, expected)
    drawing = {"top_k": 3, "top_p": 0.9, "temperature": 0.8, "generator": seeded(0)}
    assert generate(model, ids, max_new_tokens=20, **drawing).shape == (1, 23)


# ------------------------------------------------------------------------------------------- text


@pytest.fixture(scope="module")
def tokenizer():
    return BytePairTokenizer.train(
        "the cat sat on the mat. the dog sat on the log. " * 20, 272
    )


# ------------------------------------------------------------------------------------ beam search


def log_prob(model, ids, n_given):
    logits = model(ids[None, :-1])[0].log_softmax(dim=-1)
    chosen = logits.gather(-1, ids[1:, None])[:, 0]
    return chosen[n_given - 1 :].sum().item()


def test_a_wide_beam_finds_the_likeliest_of_all_continuations():
    model, start = tiny(vocab_size=5), torch.tensor([2, 0])
    ends = torch.cartesian_prod(*[torch.arange(5)] * 3)
    rows = torch.cat([start.expand(len(ends), -1), ends], dim=1)
    scores = torch.tensor([log_prob(model, row, 2) for row in rows])
    found = beam_search(model, start, max_new_tokens=3, n_beams=125)
    assert len(found) == 125
    order = scores.argsort(descending=True)
    assert torch.equal(found[0][0], rows[order[0]])
    torch.testing.assert_close(
        torch.tensor([score for _, score in found]), scores[order].float()
    )


def test_a_beam_of_one_is_argmax():
    model, ids = tiny(), torch.tensor([[3, 1, 4]])
    ((found, score),) = beam_search(model, ids[0], max_new_tokens=5, n_beams=1)
    greedy = generate(model, ids, max_new_tokens=5, temperature=0)[0]
    assert torch.equal(found, greedy)
    assert score == pytest.approx(log_prob(model, greedy, 3), rel=1e-5)


def test_a_beam_keeps_to_the_ids_that_are_allowed():
    """As if the vocabulary ended there."""
    model, start = tiny(vocab_size=6), torch.tensor([2, 0])
    small = tiny(vocab_size=4)
    tables, state = ("embedding.weight", "head.weight"), model.state_dict()
    state |= {name: state[name][:4] for name in tables}
    small.load_state_dict(state)
    found = beam_search(model, start, max_new_tokens=3, n_beams=64, n_allowed=4)
    expected = beam_search(small, start, max_new_tokens=3, n_beams=64)
    for (row, score), (other, same) in zip(found, expected, strict=True):
        assert torch.equal(row, other)
        assert score == pytest.approx(same, abs=1e-5)
    with pytest.raises(ValueError, match=r"n_allowed=7 must be .* at most 6"):
        beam_search(model, start, max_new_tokens=3, n_allowed=7)


@pytest.mark.parametrize(
    "prompts",
    [[[1, 2, 3]], [], [torch.ones(0, dtype=torch.long)], [torch.ones(1, 1)]],
    ids=str,
)
def test_prompts_that_are_no_rows_of_ids_are_refused(prompts):
    with unchecked():
        with pytest.raises(ValueError, match="a list of tensors of one axis"):
            generate(tiny(), prompts, max_new_tokens=1)
        with pytest.raises(ValueError, match=r"ids\.shape=.* must be"):
            beam_search(tiny(), prompts, max_new_tokens=1)


def test_numbers_of_numpy_are_numbers():
    ids = torch.tensor([[1, 2]])
    numpys = {
        "max_new_tokens": np.int64(3),
        "temperature": np.float32(0.5),
        "top_k": np.int32(2),
    }
    plain = {"max_new_tokens": 3, "temperature": 0.5, "top_k": 2}
    with unchecked():
        found, expected = (
            generate(
                tiny(), ids, generator=torch.Generator().manual_seed(0), **settings
            )
            for settings in (numpys, plain)
        )
    assert torch.equal(found, expected)


def test_a_wider_beam_is_at_least_as_likely_where_it_is_wide_enough():
    """Not always, for a beginning may be dropped too early; from argmax to all it is."""
    model = tiny(vocab_size=5)
    start = torch.tensor([1])
    best = [
        beam_search(model, start, max_new_tokens=3, n_beams=n)[0][1] for n in (1, 125)
    ]
    assert best[1] >= best[0] - 1e-5, "the same text, but for rounding"


def test_complete_texts_stop_and_keep_their_place():
    model, start = tiny(vocab_size=5), torch.tensor([2])
    found = beam_search(model, start, max_new_tokens=4, n_beams=20, stop_id=3)
    assert len(found) == 20
    for ids, score in found:
        new = ids[1:].tolist()
        assert 3 not in new[:-1]
        assert len(new) == 4 or new[-1] == 3
        assert score == pytest.approx(log_prob(model, ids, 1), rel=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_beams": 0}, "n_beams=0 must be a whole number, at least 1"),
        ({"n_beams": 1.5}, "n_beams=1.5 must be"),
        ({"max_new_tokens": -1}, "max_new_tokens=-1 must be"),
        ({"ids": torch.tensor([[1]])}, r"ids.shape=\(1, 1\) must be"),
        ({"ids": torch.tensor([], dtype=torch.int64)}, r"ids.shape=\(0,\) must be"),
    ],
    ids=str,
)
def test_a_search_that_cannot_work_is_refused(wrong, message):
    asked = {"ids": torch.tensor([1]), "max_new_tokens": 1, **wrong}
    with unchecked(), pytest.raises(ValueError, match=message):
        beam_search(tiny(), **asked)


@torch.no_grad()
def test_scores_of_a_bfloat16_model_are_added_up_exactly():
    """Against the sum in float64 of what the model said at each step."""
    model = tiny(context_length=64, positions="rotary").bfloat16()
    start, n, said = torch.tensor([1, 2]), 40, {}

    def keep(_, inputs, logits):
        said.update(zip(map(tuple, inputs[0].tolist()), logits[:, -1], strict=True))

    with model.register_forward_hook(keep):
        found = beam_search(model, start, max_new_tokens=n, n_beams=3)
    for ids, score in found:
        steps = [
            said[tuple(ids[:end].tolist())].double().log_softmax(-1)[ids[end]]
            for end in range(2, 2 + n)
        ]
        assert score == pytest.approx(sum(steps).item(), abs=1e-4)


class Parrot(GPT):
    """Goes on with a fixed text wherever it is, and knows nothing else."""

    def __init__(self, ids, vocab_size):
        super().__init__(
            GPTConfig(
                vocab_size=vocab_size,
                context_length=64,
                d_model=8,
                n_layers=1,
                n_heads=1,
            )
        )
        self.ids, self.given = ids, []

    def forward(self, ids, cache=None, *, last_only=False):
        if cache[0].position.is_empty:
            self.given.append(ids[0].tolist())
            cache[0].position.is_empty, self.n_seen = False, 0
        self.n_seen += ids.shape[1]
        logits = torch.zeros(len(ids), 1, self.config.vocab_size)
        logits[:, -1, self.ids[self.n_seen]] = 50.0
        return logits


def test_a_text_goes_from_any_beginning_to_the_end_of_text(tokenizer):
    text = "the cat sat on the log. the dog."
    end = tokenizer.special_tokens["<|endoftext|>"]
    parrot = Parrot(
        [end, *tokenizer.encode(text), end, 65, 66], tokenizer.vocab_size + 7
    )
    for length in range(len(text)):
        written = write(parrot, tokenizer, text[:length], count=2, generator=seeded(0))
        assert written == [text] * 2, f"prompt {text[:length]!r}"


def test_a_prompt_alone_does_not_begin_a_document(tokenizer):
    text = "the cat sat"
    parrot = Parrot([*tokenizer.encode(text), 65, 66, 67], tokenizer.vocab_size)
    drawing = {"max_new_tokens": 2, "generator": seeded(0), "from_start": False}
    assert write(parrot, tokenizer, "the cat sat", **drawing) == ["the cat satAB"]
    assert parrot.given[0] == tokenizer.encode("the cat")
    # There is nothing in front of a single word to ask the model with.
    assert write(parrot, tokenizer, "the", **drawing) == ["the cat sat"]
    assert parrot.given[1] == tokenizer.encode("the")
    write(parrot, tokenizer, "", **drawing)
    assert parrot.given[2] == [tokenizer.special_tokens["<|endoftext|>"]]


def test_a_marker_in_the_prompt_is_the_token(tokenizer):
    parrot = Parrot([0] * 64, tokenizer.vocab_size)
    write(parrot, tokenizer, "the<|endoftext|>", max_new_tokens=1, from_start=False)
    end = tokenizer.special_tokens["<|endoftext|>"]
    assert parrot.given[0] == [*tokenizer.encode("the"), end]


@settings(max_examples=25)
@given(st.text(max_size=12), st.sampled_from([0.0, 1.0]), st.integers(0, 3))
def test_whatever_the_prompt_the_text_begins_with_it(tokenizer, prompt, temperature, n):
    """In one piece or streamed, and the pieces are the text."""
    model = GPT(
        GPTConfig(vocab_size=300, context_length=64, d_model=8, n_layers=1, n_heads=1),
        generator=seeded(0),
    )
    drawing = {"max_new_tokens": n, "temperature": temperature}
    for from_start in (True, False):
        drawing["from_start"] = from_start
        with unchecked():  # what is annotated is checked in the tests around this one
            [text] = write(model, tokenizer, prompt, **drawing, generator=seeded(0))
            pieces = [*stream(model, tokenizer, prompt, **drawing, generator=seeded(0))]
        assert text.startswith(prompt)
        assert "".join(pieces) == text


@pytest.fixture(scope="module")
def storyteller():
    return load_story_model()


@pytest.mark.parametrize(
    ("prompt", "n"),
    [("Once there was a girl called Barnaby", 1), ("One extraordinarily", 2)],
)
def test_words_that_merge_are_spelled_whole_and_the_budget_begins_behind_them(
    storyteller, prompt, n
):
    """A model may spell them in more tokens than the tokenizer would; texts differ in how many."""
    model, tokenizer = storyteller.model, storyteller.tokenizer
    drawing = {"max_new_tokens": n, "temperature": 1.5, "generator": seeded(0)}
    with unchecked():  # a large model; what is annotated is checked of small ones
        for text in write(model, tokenizer, prompt, count=96, **drawing):
            assert text.startswith(prompt)
            behind = tokenizer.encode(text[len(prompt) :])
            # The token that ends the word may run over its end.
            assert len(behind) <= 4 * (n + 1)


def test_each_text_has_its_own_budget(tokenizer):
    """The one that spells "the" in three tokens gets as many behind it as that which needs one."""
    model = tiny(vocab_size=300, context_length=64)
    texts = write(
        model,
        tokenizer,
        "the",
        count=64,
        max_new_tokens=5,
        temperature=8.0,
        generator=seeded(0),
    )
    ids = [tokenizer.encode(text) for text in texts]
    assert {text[:3] for text in texts} == {"the"}
    assert len({len(row) for row in ids}) > 1


def test_what_comes_behind_the_prompt_is_not_searched_for_its_spelling(tokenizer):
    spelling = _Spelling("the", tokenizer, 300, True)
    row, looks = tokenizer.encode("the cat sat on the log. " * 9), []

    class Counted:
        def decode_bytes(self, ids):
            looks.append(len(ids))
            return tokenizer.decode_bytes(ids)

    spelling.tokenizer = Counted()
    n = spelling.n_tokens(row)
    assert tokenizer.decode(row[:n]).startswith("the")
    assert looks == list(range(n + 1))


def test_a_character_of_several_tokens_comes_in_one_piece(tokenizer):
    text = "the cat sat on the log. 😀é the"
    end = tokenizer.special_tokens["<|endoftext|>"]
    parrot = Parrot([end, *tokenizer.encode(text), end], tokenizer.vocab_size)
    pieces = list(stream(parrot, tokenizer, "the cat", generator=seeded(0)))
    assert "".join(pieces) == text
    assert pieces[0] == "the"
    assert "😀" in pieces
    assert len(pieces) > 5


def test_streaming_leaves_the_model_as_it_was(tokenizer):
    model = tiny(vocab_size=300).train()
    pieces = stream(model, tokenizer, max_new_tokens=50, generator=seeded(0))
    next(pieces)
    pieces.close() if hasattr(pieces, "close") else None
    del pieces
    assert model.training


# -------------------------------------------------------------------------------------- compilation


@pool.short_traces()
def generated_by_one_graph() -> None:
    """In another process: run-time checks of annotations cannot be compiled."""
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter = CompileCounter()
    model = tiny(context_length=400, positions="rotary").double()
    with mock.patch.object(torch, "compile", partial(torch.compile, backend=counter)):
        # Neither the text nor its length matters; a count that was fixed in a graph would show at
        # the second token.
        for prompt in ([[1, 2, 3]], [[4, 5, 6, 7, 8]]):
            found = [
                generate(
                    model,
                    torch.tensor(prompt),
                    max_new_tokens=20,
                    compile=is_compiled,
                    generator=seeded(1),
                )
                for is_compiled in (False, True)
            ]
            assert torch.equal(*found)
            assert counter.frame_count == 1


def test_what_cannot_be_compiled_is_written_all_the_same(monkeypatch):
    def broken(function, **settings):
        def fail(*given, **named):
            raise TorchDynamoException("no triton")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    settings = {"max_new_tokens": 5, "temperature": 0}
    model, ids = tiny(positions="rotary"), torch.tensor([[1, 2, 3]])
    with pytest.warns(UserWarning, match="without torch.compile, .* no triton$"):
        found = generate(model, ids, compile=True, **settings)
    assert torch.equal(found, generate(model, ids, **settings))


def test_all_tokens_are_generated_by_one_compiled_graph():
    pool.call("test_generation:generated_by_one_graph")


@pytest.mark.parametrize("function", [write, stream])
def test_a_tokenizer_without_the_end_of_text_is_refused(function):
    """Published ones have other names for it."""
    tokenizer = BytePairTokenizer([], special_tokens=["<|end|>"])
    said = r"special_tokens=\['<\|end\|>'\] must hold <\|endoftext\|>"
    with pytest.raises(ValueError, match=said):
        function(tiny(vocab_size=257), tokenizer)
