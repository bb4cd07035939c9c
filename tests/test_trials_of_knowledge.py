"""The trial of chapter 15: every arm at its own rate, and what it knows within what there is."""

import json
from itertools import islice

import numpy as np
import pytest
from ladder import unchecked
from trials import check_rates

from decoder_only import GPTConfig
from decoder_only.analysis.knowledge import Biographies
from decoder_only.model.counting import count_parameters
from decoder_only.stories import StoryLanguage
from decoder_only.stories.exact import facts_told
from decoder_only_book import facts, stored
from decoder_only_book.stored import load_model, load_runs


def arms():
    runs = load_runs("capacity")
    names = ["d_model", "n_people", "exposures", "optimizer"]
    return [runs[runs[names] == arm] for arm in np.unique(runs[names])]


def test_capacity_is_told_once_and_how_it_was_made():
    runs = load_runs("capacity")
    point = [*runs.dtype.names[: runs.dtype.names.index("seed") + 1]]
    assert len(np.unique(runs[point])) == len(runs)
    path = stored.FOLDER / "trials" / "capacity.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert "benchmarks/trials/capacity.py" in about["provenance"]["command"]
    assert about["runs"] == len(runs)


@pytest.mark.parametrize("arm", arms(), ids=lambda arm: str(arm[0])[:32])
def test_an_arm_with_seeds_is_at_a_rate_between_two_that_are_worse(arm):
    first = arm[arm["seed"] == 0]
    best = first[first["known"].argmax()]["learning_rate"]
    if len(arm) > len(first):
        assert {best / 2, best, 2 * best} <= {*first["learning_rate"]}
    assert {*arm[arm["seed"] > 0]["learning_rate"]} <= {best}


def test_sizes_are_those_of_the_models_and_bits_those_of_the_world():
    for run in load_runs("capacity"):
        people = Biographies(int(run["n_people"]))
        assert people.fact_bits == run["offered"]
        config = GPTConfig(
            vocab_size=people.vocab_size,
            context_length=6,
            d_model=int(run["d_model"]),
            n_layers=2,
            n_heads=2,
            positions="rotary",
            norm="rms",
            activation="squared_relu",
            qk_norm=True,
            bias=False,
        )
        assert sum(count_parameters(config).values()) == run["parameters"]
        assert run["known"] < run["offered"]
        nats = (run["offered"] - run["known"]) * np.log(2)
        n_facts = people.ids[:, 2:].numel()
        assert run["loss"] == pytest.approx(nats / n_facts, abs=1e-3)


def test_eight_bits_lose_next_to_nothing_fewer_lose_more_and_the_full_most():
    runs = load_runs("capacity")
    known = np.stack([runs[f"known{n}"] for n in ("", "_8", "_6", "_4")])
    assert (np.diff(known, axis=0) < 0.001 * known[0]).all()
    lost, longer = 1 - known[1] / known[0], runs["exposures"] == 1000
    assert lost[~longer].max() < 0.01
    for optimizer in ("adamw", "muon"):
        own = runs["optimizer"] == optimizer
        assert lost[own & ~longer].max() < lost[own & longer].min()


def test_the_smallest_arm_made_again_is_near_the_older_table():
    runs, again = load_runs("capacity"), load_runs("capacity_again")
    arm = ["d_model", "n_people", "exposures", "optimizer", "learning_rate"]
    full = np.sort(again[again["exposures"] == 100], order="seed")
    older = np.sort(runs[runs[arm] == full[arm][0]], order="seed")
    assert [*older["seed"]] == [*full["seed"]] == [0, 1, 2]
    per = [np.mean(each["known"] / each["parameters"]) for each in (older, full)]
    assert 0.01 < per[0] - per[1] < 0.1


# ----------------------------------------------------------------------- facts told, and not told


def test_what_is_made_up_was_read_until_it_was_worse_at_three_rates():
    runs = load_runs("made_up")
    for n in (512, 2048, 8192):
        own = runs[(runs["n"] == n) & (runs["learning_rate"] < 0.016)]
        first = own[own["seed"] == 0]
        assert len(np.unique(first["learning_rate"])) == 3
        best = first["learning_rate"][first["least"].argmin()]
        assert {*own[own["learning_rate"] == best]["seed"]} == {0, 1, 2}
        for point in np.unique(own[["learning_rate", "seed"]]):
            states = own[own[["learning_rate", "seed"]] == point]
            least = states[states["excess"].argmin()]
            assert least["excess"] == states["least"][0]
            assert states["step"].max() >= 2 * least["step"]


def test_no_state_is_below_a_bound():
    runs = load_runs("made_up")
    for bound in ("bound", "narrow", "wide", "judge"):
        assert (runs["false"] > runs[bound] - 1e-4).all()
    assert ((runs["about_told"] > 0) & (runs["nonsense"] > 0)).all()
    assert (runs["about_told"] + runs["nonsense"] < runs["false"]).all()


def test_groups_are_alike_before_the_first_sight_and_four_sights_beat_one():
    runs = load_runs("first_sight")
    at_first, later = runs[runs["step"] == 0], runs[runs["step"] == 52]
    for key in ("bits", "correct"):
        before = np.array([at_first[at_first["seen"] == x][key] for x in facts.SIGHTS])
        assert before.shape == (4, 16)
        assert np.ptp(before.mean(1)) < 2 * before.std()
    after = {x: later[later["seen"] == x]["correct"].mean() for x in facts.SIGHTS}
    assert after["4 apart"] > after["4 running"] > 3 * after["once"]
    assert after["4 running"] > 3 * after["never"]


def test_what_becomes_of_the_questions_adds_up_and_no_store_says_what_it_does_not_hold():
    runs = load_runs("looked_up")
    assert np.allclose(runs["right"] + runs["wrong"] + runs["refused"], 1, atol=1e-4)
    told = runs[runs["way"] == "store, told only"]
    assert {*told["seed"]} == {*range(5)}
    assert np.allclose(told["refused"], told["missing"], atol=1e-4)


# ------------------------------------------------------------------------------- stories seen again


def test_stories_seen_again_are_at_their_own_rates_and_above_the_floor():
    runs = load_runs("seen_again")
    assert (runs["loss"] > runs["floor"]).all()
    assert len({*runs["floor"]}) == len({*runs["parameters"]}) == 1
    tuned = runs[(runs["sights"] <= 1024)]
    for fresh in check_rates(tuned, ["sights", "epochs", "weight_decay"]):
        assert [*fresh["seed"]] == [1, 2]


def test_who_reads_the_same_more_often_knows_it_better_and_others_worse():
    runs = load_runs("seen_again")
    own = runs[(runs["sights"] == 1024) & (runs["weight_decay"] == 0.1)]
    for seed in (1, 2):
        some = np.sort(own[own["seed"] == seed], order="epochs")
        assert (np.diff(some["unique_tokens"]) < 0).all()
        assert (np.diff(some["loss"][2:]) > 0).all()
        assert (some["loss"] > some["own_loss"])[3:].all()


@pytest.mark.parametrize("model", ["hamlet", "full"])
def test_the_facts_are_those_of_the_stories_and_of_the_model_that_is_stored(model):
    runs = load_runs("facts_of_stories")
    own = runs[runs["model"] == model]
    saved, language = load_model(model), StoryLanguage.named(model)
    assert {*own["step"]} == {saved.step}
    for name in ("wrong", "certain"):
        assert ((own[name] > -1e-6) & (own[name] <= 1)).all()
    assert (own["told"] <= own["of_person"]).all()
    people = {*language.characters}
    which = {"friend", "pet", "pet.kind", "food", "toy", "haunt"}
    which |= {"home", "street", "fear", "hobby", "habit"}
    stories = islice(language.stories(split="validation", seed=2), 30)
    with unchecked():  # tens of stories are told and read
        told = [
            (i, x) for i, text in enumerate(stories) for x in facts_told(language, text)
        ]
    told = [
        (i, x.whose, x.which) for i, x in told if x.whose in people and x.which in which
    ]
    some = own[own["story"] < 30]
    assert some[["story", "whose", "which"]].tolist() == told
    # A row shows the story that it begins with, and often one more.
    training = saved.config["training"]
    rows = training["batch_size"] * training["steps"] / saved.config["data"]["n_train"]
    assert rows < own["read"].sum() / own["told"].sum() < 2 * rows
