"""Recipes: what a run is made from, refused before a folder is made, and known again later."""

import json
import threading
from itertools import islice

import pytest

from decoder_only import recipes
from decoder_only.recipes import RECIPES, begin, build, chosen, gather, stored
from decoder_only.stories import StoryLanguage
from decoder_only.training import TrainConfig, checkpoint

STORY = "\n".join(islice(StoryLanguage.hamlet().stories(), 9))
TINY = {"context_length": 16, "d_model": 16, "n_layers": 1, "n_heads": 2}


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(n_bytes: int, name: str = "text.txt"):
        (tmp_path / name).write_text(STORY[:n_bytes])
        return tmp_path / name

    return write


# ----------------------------------------------------------------------------------- small texts


@pytest.mark.parametrize("n_bytes", [145, 300, 1000, 3000])
def test_the_vocabulary_shrinks_to_a_small_text_and_says_so(text, n_bytes):
    recipe = chosen(text=text(n_bytes))
    material = gather(recipe)
    n_tokens, wanted = material.tokenizer.vocab_size, recipe.data["vocab_size"]
    assert 257 <= n_tokens < 1024 <= wanted
    assert (
        material.remark
        == f"a small text: the vocabulary shrank from {wanted:,} tokens to {n_tokens}"
    )
    assert build(recipe, material).config.vocab_size == n_tokens
    assert material.train.n_targets >= recipe.model["context_length"]


def test_a_text_that_is_too_short_is_refused_once_and_both_remedies_work(text):
    with pytest.raises(
        ValueError, match=r"of 20 bytes .* give a text of 144 bytes"
    ) as no:
        build(chosen(text=text(20)), gather(chosen(text="text.txt")))
    assert "--context-length 18 at most" in str(no.value)
    for recipe in (
        chosen(text=text(144, "longer.txt")),
        chosen(text=text(20), model={"context_length": 18}),
    ):
        build(recipe, gather(recipe))


def test_a_vocabulary_that_was_asked_for_does_not_shrink(text):
    with pytest.raises(ValueError, match="vocab_size is 900, but this text fills only"):
        gather(chosen(text=text(1000), model={"vocab_size": 900}))
    material = gather(chosen(text=text(5000), model={"vocab_size": 300}))
    assert (material.tokenizer.vocab_size, material.remark) == (300, None)


def test_a_model_may_have_more_rows_than_its_tokens_and_not_fewer(text):
    material = gather(chosen(text=text(1000), model={"vocab_size": 300}))
    wide = chosen(text="text.txt", model={**TINY, "vocab_size": 320})
    assert build(wide, material).config.vocab_size == 320
    narrow = chosen(text="text.txt", model={**TINY, "vocab_size": 299})
    with pytest.raises(
        ValueError, match="vocab_size=299 must be a whole number, at least 300"
    ):
        build(narrow, material)


@pytest.mark.parametrize(("steps", "wanted"), [(100, 10), (1000, 50)])
def test_the_usual_warm_up_can_be_asked_for(steps, wanted):
    recipe = chosen("stories-gpu", training={"steps": steps, "warmup_steps": None})
    assert TrainConfig(**recipe.training).warmup == wanted


def test_a_shorter_run_warms_up_for_less_long():
    assert chosen().training["warmup_steps"] == 50
    assert chosen(training={"steps": 100}).training["warmup_steps"] == 10
    given = {"steps": 100, "warmup_steps": 30}
    assert chosen(training=given).training["warmup_steps"] == 30


# -------------------------------------------------------------------------------------- languages


@pytest.mark.parametrize("name", StoryLanguage.SIZES)
def test_a_run_finds_its_language_by_name(name):
    found = recipes.language_of(chosen(language=name).data)
    assert repr(found) == repr(StoryLanguage.named(name))


def test_the_language_is_the_full_one_where_none_is_named():
    found = recipes.language_of({"kind": "stories"})
    assert repr(found) == repr(StoryLanguage())
    assert recipes.language_of({"kind": "text"}) is None
    with pytest.raises(ValueError, match="language='elvish' must be"):
        gather(chosen(language="elvish"))


# ----------------------------------------------------------------------------------- a run's folder


def begun(text, n_bytes: int = 3000):
    recipe = chosen(text=text(n_bytes), model={**TINY, "vocab_size": 300})
    material = gather(recipe)
    with begin(recipe, material, build(recipe, material).config) as run:
        return recipe, material, run.folder


def test_runs_that_begin_at_once_get_folders_of_their_own(text):
    recipe, material, first = begun(text)
    config = build(recipe, material).config
    found, barrier = [first], threading.Barrier(8)

    def another() -> None:
        barrier.wait()
        with begin(recipe, material, config) as run:
            found.append(run.folder)

    threads = [threading.Thread(target=another) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 9
    assert sorted(path.name for path in found) == [f"text-{n}" for n in range(1, 10)]


def test_a_stored_recipe_is_the_one_that_was_begun(text):
    recipe, material, run = begun(text)
    again = stored(run)
    assert {**again.model, **recipe.model} == again.model
    assert again.training["steps"] == recipe.training["steps"]
    same = gather(again, tokenizer=material.tokenizer)
    assert same.fingerprints == material.fingerprints
    assert again.data["fingerprints"] == same.fingerprints


def test_a_text_may_move(text):
    _, material, run = begun(text)
    moved = text(3000, "moved.txt")
    text(0)
    same = gather(stored(run, text=moved), tokenizer=material.tokenizer)
    assert same.fingerprints == material.fingerprints


def test_a_run_without_details_cannot_be_gone_on_with(text):
    _, material, _ = begun(text)
    bare = checkpoint.create_run(
        "bare",
        model_config=recipes.GPTConfig(vocab_size=300, **TINY),
        tokenizer=material.tokenizer,
    )
    with pytest.raises(ValueError, match="does not tell data and training"):
        stored(bare)


def test_a_changed_config_is_refused_before_its_text_is_opened(text):
    _, _, run = begun(text)
    checkpoint.save_state(run, {}, step=1, notes={"training": "{}"})
    config = json.loads((run / "config.json").read_text())
    config["data"]["file"] = "/dev/zero"
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ValueError, match=r"config\.json is damaged or has been changed"
    ):
        stored(run)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "huge"}, f"no recipe 'huge'; choose one of {', '.join(RECIPES)}"),
        ({"name": "shakespeare-cpu"}, "add --text FILE"),
        ({"name": "stories-cpu", "text": "a"}, "leave out --text"),
        ({"text": "a", "language": "full"}, "are for stories, without --text"),
        ({"text": "a", "n_stories": 0}, "are for stories, without --text"),
        ({"n_stories": 0}, "stories=0 must be a whole number, at least 1"),
        ({"n_stories": -5}, "stories=-5 must be a whole number, at least 1"),
    ],
    ids=str,
)
def test_recipes_that_cannot_be_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        chosen(**given)
