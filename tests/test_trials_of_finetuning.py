"""The trials of chapter 12: fair arms, fresh seeds, labels that are right, a row made again."""

import json

import numpy as np
import pytest
import torch
from trials import measured, nightly

from decoder_only_book import stored
from decoder_only_book.stored import load_runs

SCORES = {
    "classifiers": "error",
    "adapters": "gap",
    "instructions": "loss",
    "policies": "kl",
}
LAST = {"policies": 60}
every_trial = pytest.mark.parametrize("name", SCORES)


def last(name: str) -> np.ndarray:
    """The rows of the last step of each run."""
    runs = load_runs(name)
    return runs[runs["step"] == LAST[name]] if name in LAST else runs


@every_trial
def test_it_is_told_how_the_table_was_made(name):
    path = stored.FOLDER / "trials" / f"{name}.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert about["runs"] == len(load_runs(name))
    assert f"benchmarks/trials/{name}.py" in about["provenance"]["command"]


@every_trial
def test_every_arm_has_its_best_rate_inside_and_three_fresh_seeds(name):
    runs = last(name)
    for arm in np.unique(runs[runs["seed"] == 0]["arm"]):
        for task in np.unique(runs["task"]) if name == "classifiers" else [None]:
            own = runs[runs["arm"] == arm]
            own = own if task is None else own[own["task"] == task]
            if arm == "words":  # which has no rate
                continue
            tried = own[own["seed"] == 0]
            rates = np.sort(tried["learning_rate"])
            best = tried["learning_rate"][tried[SCORES[name]].argmin()]
            assert len(rates) >= 3
            assert rates[0] < best < rates[-1], (arm, task)
            fresh = own[own["seed"] > 0]
            assert set(fresh["learning_rate"]) == {best}
            assert set(fresh["seed"]) == {1, 2, 3}


def test_nobody_is_below_a_floor():
    assert (load_runs("adapters")["gap"] > 0).all()
    for name in SCORES:
        column = load_runs(name)["old_gap"]
        assert (column[~np.isnan(column)] > 0).all()
    assert (load_runs("policies")["kl"] > 0).all()


def test_labels_are_those_of_the_stories(trial):
    trial = trial("classifiers")
    for task in trial.TASKS:
        texts, labels = trial.examples(task, "validation", 30, 0)
        assert len(texts) == len(labels) == 30
        assert set(labels.tolist()) == {0, 1, 2}
        assert max(map(len, texts)) <= (21 if task == "tale" else 176)
    # The texts of both tasks are of stories of which the language knows the rest.
    for story in trial.stories("validation", 5):
        states = trial.hidden_state(trial.LANGUAGE, story)
        tale = list(trial.TALES)[trial.tale_of(story)]
        found = {trial.holder(state) for state in states}
        assert (
            found
            == {
                "lost": {None, 0, 2},
                "gift": {None, 0, 1},
                "garden": {None},
            }[tale]
        )


def test_the_parser_judges_obedience(trial):
    trial = trial("instructions")
    for story in trial.stories("validation", 8):
        tale = next(
            name for name, each in trial.TALES.items() if each.log_prob(story) > -1e9
        )
        hero = trial.hidden_state(trial.LANGUAGE, story)[-1]["hero"]
        text = trial.TOKENIZER.decode(trial.TOKENIZER.encode(story)[:96])
        assert trial.judged(hero, tale, text) == (True, True, True, True)
        other = next(name for name in trial.TALES if name != tale)
        assert trial.judged(hero, other, text) == (True, False, True, True)
        assert trial.judged(hero, tale, text + " Xyz") == (True, True, True, False)
        assert trial.judged("Nobody", tale, text)[0] is False


@pytest.mark.parametrize("arm", ["exact", "DPO, all pairs"])
def test_the_optimum_of_an_exact_arm_is_where_its_gradient_vanishes(trial, arm):
    trial = trial("policies")
    tree, prompts, rewards = trial.questions()
    assert len(prompts) == len(tree.answers) == 18
    assert rewards.sum(1).tolist() == [1.0] * 18
    generator = torch.Generator().manual_seed(0)
    log_p = torch.randn(18, 18, generator=generator).double().log_softmax(1)
    goal = trial.optimal_policy(log_p, rewards.double(), beta=trial.BETA)
    for start, bound in ((goal, 1e-12), (log_p, None)):
        scores = start.clone().requires_grad_()
        loss = trial.loss_of(
            arm, scores.log_softmax(1), log_p, rewards.double(), generator
        )
        slope = torch.autograd.grad(loss, scores)[0].abs().max().item()
        assert slope > 1e-3 if bound is None else slope < bound


def test_the_drawn_losses_of_preferences_have_the_exact_one_as_their_mean(
    trial, monkeypatch
):
    trial = trial("policies")
    monkeypatch.setattr(trial, "PAIRS", 20_000)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 18, 18, generator=generator).double()
    log_q, log_p = (3 * scores).log_softmax(-1)
    found = {
        arm: trial.loss_of(arm, log_q, log_p, torch.eye(18).double(), generator).item()
        for arm in ("DPO, all pairs", "DPO, expected", "DPO")
    }
    assert found["DPO"] == pytest.approx(found["DPO, all pairs"], rel=0.01)
    assert found["DPO, expected"] == pytest.approx(found["DPO, all pairs"], rel=0.005)


@pytest.mark.parametrize("arm", ["probe", "bag", "lora"])
def test_classifiers_learn_from_examples(trial, monkeypatch, arm):
    classifiers = trial("classifiers")
    monkeypatch.setattr(classifiers, "N_TESTED", 6)
    run = {"task": "tale", "arm": arm, "examples": 16, "learning_rate": 1.0}
    run = classifiers.Run(**run, steps=2 * (arm == "lora"))
    found = measured(classifiers, run, "error")
    runs = load_runs("classifiers")
    assert {found["trained"]} == {*runs["trained"][runs["arm"] == arm]}


@nightly
def test_a_run_gives_its_row_again(trial):
    trial = trial("classifiers")
    runs = load_runs("classifiers")
    same = (runs["task"] == "tale") & (runs["arm"] == "probe")
    run = runs[same & (runs["examples"] == 32) & (runs["seed"] == 1)][0]
    rate = float(run["learning_rate"])
    again = {"task": "tale", "arm": "probe", "examples": 32, "learning_rate": rate}
    again = trial.measure(trial.Run(**again, steps=0, seed=1))
    assert again.error == pytest.approx(run["error"], abs=0.01)
