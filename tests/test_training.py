"""The training loop: it learns, it repeats itself exactly, and it says when it fails."""

import contextlib
import copy
import dataclasses
import functools
import itertools
import json
import math
import traceback
from unittest import mock

import pool
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder import unchecked
from torch.nn import functional
from torch.utils.checkpoint import checkpoint as model_checkpoint

from decoder_only import GPT, GPTConfig
from decoder_only.base import hardware
from decoder_only.data import document_corpus, text_corpus, training_batch
from decoder_only.generation import beam_search, generate
from decoder_only.model.lm_head import IGNORED, next_token_loss
from decoder_only.tokenization import BytePairTokenizer
from decoder_only.training import (
    LossScale,
    NextTokenLoss,
    TrainConfig,
    checkpoint,
    evaluate,
    log,
    loop,
    processes,
    train,
    train_step,
)
from decoder_only.training.config import check_settings
from decoder_only.training.monitor import Evaluation
from decoder_only.training.optimizers import build_optimizers
from decoder_only.training.processes import Process

COUNT = "a whole number, at least 1"
TOKENIZER = BytePairTokenizer([])
TEXT = text_corpus(
    "the cat sat on the mat, and the dog sat on the cat. " * 8, TOKENIZER
)
HELD_OUT = document_corpus(
    ["the dog sat on the mat.", "the cat."], TOKENIZER, nats=12.5
)


def tiny(**changes) -> GPT:
    shape = {
        "vocab_size": 257,
        "context_length": 16,
        "d_model": 16,
        "n_layers": 1,
        "n_heads": 2,
    }
    config = GPTConfig(**{**shape, "positions": "rotary", "norm": "rms", **changes})
    return GPT(config, generator=torch.Generator().manual_seed(0))


def brief(**changes) -> TrainConfig:
    shape = {"steps": 12, "batch_size": 4, "learning_rate": 1e-2, "warmup_steps": 2}
    return TrainConfig(**{**shape, **changes})


def a_batch(
    seed: int = 0, shape: tuple[int, int] = (4, 16)
) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(
        257, (shape[0], shape[1] + 1), generator=torch.Generator().manual_seed(seed)
    )
    return ids[:, :-1], ids[:, 1:]


# ---------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("steps", 0, COUNT),
        ("steps", 10.5, COUNT),
        ("steps", "10", COUNT),
        ("steps", True, COUNT),
        ("batch_size", 0, f"{COUNT} and at most 1048576"),
        ("batch_size", 4.0, f"{COUNT} and at most 1048576"),
        ("accumulation", 0, COUNT),
        ("loss_slices", 0, COUNT),
        ("log_every", 0, COUNT),
        ("log_every", None, COUNT),
        ("evaluate_every", 0, f"{COUNT}, or None"),
        ("save_every", 2.5, f"{COUNT}, or None"),
        ("warmup_steps", -1, "a whole number, at least 0, or None"),
        ("warmup_steps", 1.5, "a whole number, at least 0, or None"),
        ("warmup_steps", 1000, "below steps=1000, such as 100"),
        ("weight_decay", -0.1, "a finite number, at least 0"),
        ("weight_decay", math.inf, "a finite number, at least 0"),
        ("learning_rate", 0.0, "a finite number, above 0"),
        ("learning_rate", math.inf, "a finite number, above 0"),
        ("learning_rate", math.nan, "a finite number, above 0"),
        ("learning_rate", "0.1", "a finite number, above 0"),
        ("table_learning_rate", 0.0, "a finite number, above 0, or None"),
        ("max_gradient_norm", 0.0, "a finite number, above 0, or None"),
        ("max_gradient_norm", math.nan, "a finite number, above 0, or None"),
        ("momentum", 1.0, "a finite number, at least 0 and below 1"),
        ("beta1", 1.0, "a finite number, at least 0 and below 1"),
        ("beta2", -0.1, "a finite number, at least 0 and below 1"),
        ("decay_fraction", 0.0, "a finite number, above 0 and at most 1"),
        ("decay_fraction", 1.5, "a finite number, above 0 and at most 1"),
        ("recompute", 1, "one of (True, False)"),
        ("compile", "yes", "one of (True, False, None)"),
        ("optimizer", "sgd", "one of ('adamw', 'muon')"),
        ("optimizer", None, "one of ('adamw', 'muon')"),
        (
            "schedule",
            "flat",
            "one of ('cosine', 'warmup_stable_decay', 'inverse_square_root')",
        ),
        ("seed", -1, "a whole number, at least 0 and at most 2147483647"),
        ("seed", 2**31, "a whole number, at least 0 and at most 2147483647"),
        ("seed", 0.5, "a whole number, at least 0 and at most 2147483647"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(field, value, wanted):
    with unchecked(), pytest.raises(ValueError) as caught:  # noqa: PT011 (compared below)
        TrainConfig(**{field: value})
    assert str(caught.value) == f"{field}={value!r} must be {wanted}"


def test_every_field_is_checked():
    for field in dataclasses.fields(TrainConfig):
        with (
            unchecked(),
            pytest.raises(ValueError, match=f"{field.name}=.* must be"),
        ):
            TrainConfig(**{field.name: object()})


@pytest.mark.parametrize(("steps", "default"), [(1, 0), (20, 2), (499, 49), (1000, 50)])
def test_the_warm_up_fits_into_a_short_run(steps, default):
    assert TrainConfig(steps=steps).warmup == default
    with pytest.raises(ValueError, match=f"must be below steps={steps}, such as"):
        TrainConfig(steps=steps, warmup_steps=steps)


def test_the_decay_begins_where_it_is_told():
    settings = {"steps": 110, "warmup_steps": 10, "schedule": "warmup_stable_decay"}
    assert TrainConfig(**settings, decay_fraction=0.1).rate_factor(99) == 1.0
    assert TrainConfig(**settings, decay_fraction=0.1).rate_factor(
        105
    ) == pytest.approx(0.5)
    assert TrainConfig(**settings).rate_factor(90) == pytest.approx(0.5)


def test_parts_that_do_not_divide_the_batch_are_refused():
    with pytest.raises(ValueError, match="accumulation=3 must divide batch_size=32"):
        TrainConfig(accumulation=3)


def test_a_configuration_survives_json():
    config = brief(seed=3, max_gradient_norm=None)
    assert TrainConfig(**json.loads(json.dumps(config.to_dict()))) == config


# ---------------------------------------------------------------------------------------- one step


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_small_model_learns_one_batch_by_heart(optimizer):
    model = tiny(d_model=32)
    optimizers = build_optimizers(
        model, optimizer=optimizer, learning_rate=1e-2, weight_decay=0.0
    )
    batch = a_batch()
    losses = [
        train_step(NextTokenLoss(model), optimizers, *batch).loss.item()
        for _ in range(80)
    ]
    assert losses[0] == pytest.approx(math.log(257), rel=0.05)
    assert losses[-1] < 0.02


@pytest.mark.parametrize("accumulation", [1, 2, 4])
def test_parts_of_a_batch_give_the_gradient_of_the_whole(accumulation):
    inputs, targets = a_batch()
    targets = targets.clone()
    targets[0, 3:] = IGNORED  # the parts hold different numbers of targets
    whole = tiny()
    next_token_loss(whole(inputs), targets).backward()
    parts = tiny()
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.0, fused=True)
    loss = train_step(
        NextTokenLoss(parts), [optimizer], inputs, targets, accumulation=accumulation
    ).loss
    torch.testing.assert_close(loss, next_token_loss(whole(inputs), targets).detach())
    for ours, theirs in zip(parts.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("limit", [None, 0.1, 100.0])
def test_a_gradient_is_shortened_to_the_limit_and_no_other(limit):
    model, (inputs, targets) = tiny(), a_batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, fused=True)

    def length():
        return torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()

    train_step(NextTokenLoss(model), [optimizer], inputs, targets)
    free = length()
    train_step(
        NextTokenLoss(model), [optimizer], inputs, targets, max_gradient_norm=limit
    )
    assert length() == pytest.approx(min(free, limit or free), rel=1e-4)
    assert 0.1 < free < 100


def test_gradients_do_not_pile_up_from_step_to_step():
    model = tiny()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, fused=True)
    train_step(NextTokenLoss(model), [optimizer], *a_batch(0))
    train_step(NextTokenLoss(model), [optimizer], *a_batch(1))
    once = tiny()
    next_token_loss(once(a_batch(1)[0]), a_batch(1)[1]).backward()
    torch.testing.assert_close(model.embedding.weight.grad, once.embedding.weight.grad)


def test_a_step_trains_with_dropout_on():
    model = tiny(dropout=0.5).eval()
    train_step(
        NextTokenLoss(model),
        [torch.optim.SGD(model.parameters(), lr=0.0, fused=True)],
        *a_batch(),
    )
    assert model.training


def test_a_loss_has_the_parameters_of_its_model_in_their_order():
    model = tiny(tied=False)
    of_loss = list(NextTokenLoss(model).parameters())
    assert [*map(id, of_loss)] == [*map(id, model.parameters())]


def test_slices_of_a_head_that_is_not_one_matrix_are_refused():
    model = tiny()
    model.head = torch.nn.Sequential(model.head)
    with pytest.raises(ValueError, match="n_slices=2 needs a head of type LMHead, not"):
        NextTokenLoss(model, n_slices=2)


def test_at_most_five_calls_lead_from_training_to_the_loss(monkeypatch):
    """Of functions of this package, with nothing compiled, in one process."""
    cross_entropy, ours = functional.cross_entropy, []

    def spy(*arguments, **settings):
        stack = traceback.extract_stack()
        ours.append([f.name for f in stack if "/src/decoder_only/" in f.filename])
        return cross_entropy(*arguments, **settings)

    monkeypatch.setattr(functional, "cross_entropy", spy)
    train(tiny(), TEXT, None, brief(steps=1, warmup_steps=0))
    expected = ["train", "_step", "train_step", "forward", "next_token_loss"]
    assert ours == [expected]


# -------------------------------------------------------------------------------------- evaluation


@settings(max_examples=20)
@given(
    st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=8),
    st.integers(1, 5),
)
def test_evaluation_is_the_models_surprise_at_every_token(texts, batch_size):
    model = tiny(context_length=128)
    for text in texts:
        ids = torch.tensor([[256, *text.encode(), 256]])
        expected = next_token_loss(model(ids[:, :-1]), ids[:, 1:]).item()
        alone = evaluate(model, document_corpus([text], TOKENIZER))
        assert alone.loss == pytest.approx(expected, rel=1e-5)
    corpus = document_corpus(texts, TOKENIZER)
    by_rows = evaluate(model, corpus, batch_size=batch_size)
    assert by_rows.loss == pytest.approx(evaluate(model, corpus).loss, rel=1e-5)


def test_an_untrained_model_is_as_surprised_as_a_die():
    model = tiny(initialization="zero", tied=False)  # all logits are zero
    found = evaluate(model, HELD_OUT)
    assert found.loss == pytest.approx(math.log(257), rel=1e-6)
    assert found.floor == HELD_OUT.floor == 12.5 / 33
    assert found.gap == pytest.approx(math.log(257) - 12.5 / 33)
    # Each byte is asked for once, and so is the end of each of the two documents.
    assert found.bits_per_byte == pytest.approx(math.log2(257) * 33 / 31)


def test_an_unknown_floor_leaves_no_gap():
    assert Evaluation(loss=2.0, bytes_per_token=1.0).gap is None


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_switches_dropout_off_and_leaves_the_mode(training):
    model = tiny(dropout=0.9).train(training)
    assert evaluate(model, HELD_OUT) == evaluate(model, HELD_OUT)
    assert model.training is training
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("training", [True, False])
def test_an_evaluation_that_fails_leaves_the_mode(training):
    class Failing(torch.nn.Module):
        def forward(self, *_):
            raise IndexError("an id beyond the vocabulary")

    model = tiny().train(training)
    with pytest.raises(IndexError, match="beyond"):
        evaluate(model, HELD_OUT, loss=Failing())
    assert model.training is training


# ------------------------------------------------------------------------------------ the whole run


def test_training_lowers_the_loss_and_the_same_seed_repeats_it_exactly():
    config = brief(steps=60, evaluate_every=30)
    first, second = (train(tiny(dropout=0.1), TEXT, HELD_OUT, config) for _ in range(2))
    assert first.losses == second.losses
    assert first.evaluations == second.evaluations
    assert first.losses[0] == pytest.approx(math.log(257), rel=0.05)
    assert sum(first.losses[-5:]) / 5 < 2.5
    assert [step for step, _ in first.evaluations] == [30, 60]
    assert first.final.loss < math.log(257) - 2
    assert first.tokens == 60 * 4 * 16
    other = train(tiny(dropout=0.1), TEXT, HELD_OUT, brief(steps=60, seed=1))
    assert other.losses != first.losses


def test_looking_more_often_changes_nothing():
    often = train(tiny(), TEXT, HELD_OUT, brief(log_every=1, evaluate_every=1))
    seldom = train(tiny(), TEXT, None, brief(log_every=100))
    assert often.losses == seldom.losses
    assert [step for step, _ in often.evaluations] == list(range(1, 13))
    assert seldom.evaluations == []


def test_the_history_tells_the_rate_of_each_step():
    history = train(
        tiny(), TEXT, None, brief(steps=4, warmup_steps=2, learning_rate=0.5)
    )
    assert history.learning_rates == pytest.approx([0.25, 0.5, 0.5, 0.25])
    assert len(history.losses) == 4
    assert history.seconds > 0


def test_a_run_leaves_its_log_and_its_weights(tmp_path):
    model, config = tiny(), brief(evaluate_every=5, log_every=3)
    run = checkpoint.create_run(
        tmp_path / "run", model_config=model.config, tokenizer=TOKENIZER
    )
    history = train(model, TEXT, HELD_OUT, config, run=run)
    records = [
        json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()
    ]
    steps = [record for record in records if "loss" in record]
    assert [record["loss"] for record in steps] == history.losses
    assert [record["step"] for record in steps] == list(range(1, 13))
    evaluations = [record for record in records if "validation_loss" in record]
    assert [record["step"] for record in evaluations] == [5, 10, 12]
    assert evaluations[-1]["validation_loss"] == history.final.loss
    assert evaluations[-1]["floor"] == HELD_OUT.floor
    found = checkpoint.load(run)
    assert found.step == 12
    for ours, theirs in zip(model.parameters(), found.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def spoil(model: GPT, steps: set[int], number: float = math.nan) -> None:
    """Let the model's logits be no numbers in certain steps of training, counted from 1."""
    calls = []

    def hook(module, inputs, logits):
        if module.training:
            calls.append(1)
            if len(calls) in steps:
                return logits * number
        return logits

    model.register_forward_hook(hook)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_step_that_is_not_finite_is_skipped_and_counted(tmp_path, optimizer):
    model = tiny()
    run = checkpoint.create_run(
        tmp_path / "run", model_config=model.config, tokenizer=TOKENIZER
    )
    spoil(model, {3, 7})
    before = []
    model.register_forward_pre_hook(
        lambda *_: before.append(model.embedding.weight.detach().clone())
    )
    history = train(model, TEXT, None, brief(optimizer=optimizer), run=run)
    assert history.skipped == [3, 7]
    assert math.isnan(history.losses[2])
    assert all(weight.isfinite().all() for weight in model.parameters())
    assert history.losses[-1] < history.losses[0]
    # What a model reads before a step: the skipped one left it as it was, and no other did.
    same = [torch.equal(a, b) for a, b in itertools.pairwise(before)]
    assert [step for step, kept in enumerate(same, 1) if kept] == [3, 7]
    records = log.read_log(run)
    assert [r["step"] for r in records if r.get("skipped")] == [3, 7]
    assert records[2]["loss"] is None


@pytest.mark.parametrize("name", ["AdamW", "SGD", "NAdam", "RMSprop"])
def test_an_optimizer_that_is_not_fused_takes_and_skips_steps_too(name):
    model = tiny()
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-2)
    first = train_step(NextTokenLoss(model), [optimizer], *a_batch())
    assert not first.skipped
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    assert not torch.equal(before[0]["embedding.weight"], tiny().embedding.weight)
    spoil(model, {1}, math.inf)
    assert train_step(NextTokenLoss(model), [optimizer], *a_batch()).skipped
    after = (model.state_dict(), optimizer.state_dict())
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_an_infinite_gradient_of_a_finite_loss_is_skipped_too():
    model, (inputs, targets) = tiny(), a_batch()
    optimizers = build_optimizers(model, optimizer="muon", learning_rate=0.1)
    model.embedding.weight.register_hook(lambda gradient: gradient * math.inf)
    before = copy.deepcopy(model.state_dict())
    result = train_step(
        NextTokenLoss(model), optimizers, inputs, targets, max_gradient_norm=1.0
    )
    assert result.loss.isfinite()
    assert result.skipped
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])


def test_a_run_that_diverges_stops_and_names_the_last_good_state(tmp_path):
    model = tiny()
    run = checkpoint.create_run(
        tmp_path / "run", model_config=model.config, tokenizer=TOKENIZER
    )
    spoil(model, set(range(5, 99)))
    config = brief(steps=30, evaluate_every=3, log_every=2)
    for _ in range(2):  # and the same once more, when it goes on from that state
        with pytest.raises(
            FloatingPointError,
            match=r"not finite in 5 steps in a row, up to step 9; the last good state is .*"
            r"state-00000006.safetensors; a lower learning rate",
        ):
            train(model, TEXT, HELD_OUT, config, run=run)
    found = checkpoint.load(run)
    assert found.step == 6
    assert all(weight.isfinite().all() for weight in found.model.parameters())


def test_a_loss_scale_leaves_the_step_as_it_is():
    """Powers of two are exact: scaled and unscaled steps agree to the last bit."""
    with_scale, without = tiny(), tiny()
    inputs, targets = a_batch()
    scale = LossScale(torch.device("cpu"))
    for model, each in ((with_scale, scale), (without, None)):
        optimizers = build_optimizers(model, optimizer="muon", learning_rate=1e-2)
        for _ in range(3):
            train_step(
                NextTokenLoss(model),
                optimizers,
                inputs,
                targets,
                max_gradient_norm=0.5,
                scale=each,
            )
    for a, b in zip(with_scale.parameters(), without.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_a_loss_scale_halves_on_overflow_and_grows_after_patience():
    scale = LossScale(torch.device("cpu"), patience=3)
    sizes = []
    for finite in (True, False, True, True, True, True, False, True):
        scale.update(torch.tensor(finite))
        sizes.append(scale.value.log2().item())
    assert sizes == [16, 15, 15, 15, 16, 16, 15, 15]


def test_nothing_is_shown_unless_asked_for(capfd):
    train(tiny(), TEXT, HELD_OUT, brief(steps=3))
    assert capfd.readouterr() == ("", "")


def test_the_bar_goes_to_stderr_and_tells_loss_gap_and_speed(capfd):
    train(tiny(), TEXT, HELD_OUT, brief(steps=3), progress=True)
    out, shown = capfd.readouterr()
    assert out == ""
    last = shown.rpartition("\r")[2]
    for part in ("3/3 steps", "left", "loss ", "gap to the floor ", "tokens/s"):
        assert part in last
    train(tiny(), TEXT, None, brief(steps=3), progress=True)
    assert "floor" not in capfd.readouterr()[1]


# ---------------------------------------------------------------------------------- random numbers


def first_loss(*, seed: int = 0, rank: int = 0, monkeypatch) -> float:
    """Of one step on data that are held fixed."""
    fixed = a_batch()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "training_batch", lambda *_, **__: fixed)
        patch.setattr(processes, "wrap", lambda module, *_, **__: module)
        patch.setattr(processes, "all_reduce_sum", lambda x, process: 2 * x)
        process = Process(rank=rank, n_ranks=2)
        config = brief(steps=1, warmup_steps=0, seed=seed)
        return train(tiny(dropout=0.5), TEXT, None, config, process=process).losses[0]


def test_every_seed_and_every_rank_drops_others(monkeypatch):
    places = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]
    losses = {
        first_loss(seed=seed, rank=rank, monkeypatch=monkeypatch)
        for seed, rank in places
    }
    assert len(losses) == len(places)
    assert first_loss(monkeypatch=monkeypatch) == first_loss(monkeypatch=monkeypatch)


def test_whole_curves_of_seeds_differ_on_the_same_data(monkeypatch):
    fixed = a_batch()
    monkeypatch.setattr(loop, "training_batch", lambda *_, **__: fixed)
    curves = [
        train(tiny(dropout=0.5), TEXT, None, brief(seed=seed)).losses for seed in (0, 1)
    ]
    assert all(a != b for a, b in zip(*curves, strict=True))


def test_the_callers_generator_is_left_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    train(tiny(dropout=0.5), TEXT, HELD_OUT, brief())
    assert torch.equal(torch.get_rng_state(), before)


# ------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize("accumulation", [1, 2, 4])
def test_an_evaluation_holds_no_more_rows_than_a_step(accumulation):
    model, shapes = tiny(), []
    model.register_forward_pre_hook(
        lambda module, ids: shapes.append((module.training, len(ids[0])))
    )
    config = brief(steps=2, warmup_steps=1, accumulation=accumulation)
    train(model, TEXT, TEXT, config)
    assert {rows for _, rows in shapes} == {4 // accumulation}
    assert {is_training for is_training, _ in shapes} == {True, False}


@pool.short_traces()
def compiled_twice() -> None:
    """In another process: run-time checks of annotations cannot be compiled."""
    graphs = []

    def count(graph, inputs):
        graphs.append(sum(node.op == "call_function" for node in graph.graph.nodes))
        return graph

    whole = functools.partial(torch.compile, backend=count, fullgraph=True)
    with mock.patch.object(torch, "compile", whole):
        # With Muon one more for each of three shapes.
        for optimizer, expected in (("adamw", 2), ("muon", 5)):
            graphs.clear()
            torch._dynamo.reset()
            config = brief(evaluate_every=3, optimizer=optimizer, accumulation=2)
            plain = train(tiny(), TEXT, TEXT, config)
            config = dataclasses.replace(config, compile=True)
            compiled = train(tiny(), TEXT, TEXT, config)
            assert len(graphs) == expected, (optimizer, graphs)
            torch.testing.assert_close(
                compiled.losses, plain.losses, rtol=1e-4, atol=1e-4
            )


def test_model_and_loss_are_compiled_once_for_steps_and_once_for_evaluations():
    """Without any compiler: the graphs that torch.compile would hand to one are counted."""
    pool.call("test_training:compiled_twice")


def test_slices_of_the_loss_and_recomputed_blocks_change_nothing_but_memory():
    plain = train(tiny(dropout=0.2), TEXT, HELD_OUT, brief())
    model = tiny(dropout=0.2)
    with mock.patch(
        "decoder_only.model.gpt.checkpoint", wraps=model_checkpoint
    ) as again:
        frugal = train(model, TEXT, HELD_OUT, brief(loss_slices=3, recompute=True))
    assert again.call_count == 12  # steps of one block
    assert frugal.losses == pytest.approx(plain.losses, rel=1e-4)
    assert frugal.final.loss == pytest.approx(plain.final.loss, rel=1e-4)


def test_tables_may_have_a_rate_of_their_own():
    model = tiny()
    names = {id(p): name for name, p in model.named_parameters()}
    for optimizer in ("adamw", "muon"):
        groups = [
            group
            for each in build_optimizers(
                model,
                optimizer=optimizer,
                learning_rate=0.1,
                table_learning_rate=0.3,
            )
            for group in each.param_groups
        ]
        peaks = {names[id(p)]: g["initial_lr"] for g in groups for p in g["params"]}
        assert peaks["embedding.weight"] == peaks["final_norm.weight"] == 0.3
        assert peaks["blocks.0.mlp.up.weight"] == 0.1
    low = train(model, TEXT, None, brief(optimizer="muon"))
    high = train(tiny(), TEXT, None, brief(optimizer="muon", table_learning_rate=3e-2))
    assert low.losses[0] == high.losses[0]
    assert low.losses[-1] != high.losses[-1]


def test_gradients_are_computed_outside_of_autocast(monkeypatch):
    entered, seen = [], []

    @contextlib.contextmanager
    def autocast(device):
        entered.append(1)
        yield
        entered.pop()

    monkeypatch.setattr(hardware, "autocast", autocast)
    model = tiny()
    model.register_forward_pre_hook(lambda *_: seen.append(("forward", len(entered))))
    model.embedding.weight.register_hook(
        lambda _: seen.append(("backward", len(entered)))
    )
    optimizers = build_optimizers(model, learning_rate=0.1)
    train_step(NextTokenLoss(model), optimizers, *a_batch())
    assert seen == [("forward", 1), ("backward", 0)]


def test_what_cannot_be_done_here_is_refused_before_anything_is_touched():
    with pytest.raises(ValueError, match="batch_size=4 does not divide among 3"):
        check_settings(brief(), process=Process(n_ranks=3))
    with pytest.raises(ValueError, match="strategy='dp' must be one of"):
        check_settings(brief(), strategy="dp")


def test_gradient_norms_are_kept_and_logged(tmp_path):
    model = tiny()
    run = checkpoint.create_run(
        tmp_path / "run", model_config=model.config, tokenizer=TOKENIZER
    )
    history = train(model, TEXT, None, brief(), run=run)
    logged = [r["gradient_norm"] for r in log.read_log(run) if "loss" in r]
    assert logged == history.gradient_norms
    fresh, (inputs, targets) = (
        tiny(),
        training_batch(TEXT, batch_size=4, context_length=16, seed=0, step=0),
    )
    next_token_loss(fresh(inputs), targets).backward()
    norm = torch.stack([p.grad.norm() for p in fresh.parameters()]).norm().item()
    assert history.gradient_norms[0] == pytest.approx(norm, rel=1e-4)


def test_the_loop_fits_on_a_screen():
    import inspect

    lines = inspect.getsource(train).splitlines()
    body = lines[next(i for i, line in enumerate(lines) if line.strip() == '"""') + 1 :]
    assert len(body) <= 40
    assert all(len(line) <= 88 for line in body)


# ------------------------------------------------------------------------------------------ modes


def modes(model: torch.nn.Module) -> list[bool]:
    return [part.training for part in model.modules()]


def test_what_looks_at_a_model_leaves_each_part_in_its_mode():
    """As training does, and the choice to compute activations again."""
    model, ids = tiny(), torch.zeros(1, 3, dtype=torch.long)
    model.blocks[0].eval()
    before = modes(model)
    assert len({*before}) == 2
    evaluate(model, HELD_OUT)
    generate(model, ids, max_new_tokens=1)
    beam_search(model, ids[0], max_new_tokens=1)
    train(model, TEXT, HELD_OUT, TrainConfig(steps=1, recompute=True))
    assert modes(model) == before
    assert not model.recompute
    with pytest.raises(ValueError, match="an id=300 must"):
        generate(model, ids + 300, max_new_tokens=1)
    assert modes(model) == before
