"""What a perfect model knows: against enumeration, against sampling, and against `log_prob`."""

import math
from collections import Counter
from contextlib import suppress
from itertools import islice, pairwise
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_stories import SMALL, Chooser, without_type_checks

from decoder_only.tokenization import BytePairTokenizer
from decoder_only_book.stored import FOLDER

stories, exact, grammar = without_type_checks(
    "stories", "stories.exact", "stories.grammar"
)
StoryLanguage, KINDS = stories.StoryLanguage, exact.KINDS
NextToken, probabilities = exact.NextToken, exact.probabilities

HAMLET = StoryLanguage.hamlet()
TOKENIZER = BytePairTokenizer.load(FOLDER / "hamlet" / "tokenizer.json")
BYTES = BytePairTokenizer([])
seeds = st.integers(0, 2**32)


def a_story(seed: int) -> str:
    return HAMLET.sample(Random(seed)).text


# ------------------------------------------------------------ a language small enough to list


def small_language():
    """Names that begin alike, so that a token can end inside of what is still open."""
    moods = {"text": "glad"}, {"text": "gloomy"}
    people = [{"text": name, "mood": moods[name[-1] == "a"]} for name in NAMES]
    lexicons = {
        "people": grammar.Lexicon(people, [5, 3, 2, 1], "name"),
        "places": grammar.Lexicon([{"text": "Rome"}, {"text": "Rouen"}], [1, 3]),
    }
    source = (
        SMALL
        + """
end:
- [quite |very |]{mood}.
- 3:He [ran.|rang.|ra{mood}.]
- 2:A [ca[t|b]|c[a[r|n]|u[b|p]]] came.
"""
    )
    shorthand = {"mood": ("hero", "mood")}
    return SimpleNamespace(
        grammar=grammar.Grammar(source, lexicons=lexicons, shorthand=shorthand)
    )


NAMES = ("Anna", "Andra", "Ando", "Bo")


def all_texts(language) -> dict[str, float]:
    """Every text of a small language, with its probability."""
    texts, ahead = {}, [()]
    while ahead:
        chooser = Chooser(ahead.pop())
        grammar.tell(language.grammar.rules["story"], chooser, {})
        texts["".join(chooser.parts)] = math.exp(chooser.log_prob)
        for step in range(len(chooser.path), len(chooser.widths)):
            taken = [*chooser.path, *[0] * (step - len(chooser.path))]
            ahead += [(*taken, other) for other in range(1, chooser.widths[step])]
    return texts


@pytest.mark.parametrize("vocab_size", [257, 262, 280, 330])
def test_the_next_token_is_what_listing_all_texts_gives(vocab_size):
    language = small_language()
    texts = all_texts(language)
    assert len(texts) > 100
    assert math.fsum(texts.values()) == pytest.approx(1)
    tokenizer = BytePairTokenizer.train(texts, vocab_size)
    end = tokenizer.special_tokens["<|endoftext|>"]
    follows: dict[tuple[int, ...], Counter] = {}
    for text, probability in texts.items():
        ids = [*tokenizer.encode(text), end]
        for at, id in enumerate(ids):
            follows.setdefault(tuple(ids[:at]), Counter())[id] += probability
    following = NextToken(language, tokenizer)
    some = Random(vocab_size).sample(list(follows), 800)
    for before in [(), *some]:
        counts = follows[before]
        found = probabilities(following.after(before))
        assert found == pytest.approx(
            {id: count / counts.total() for id, count in counts.items()}
        )
    # Where a token may end inside of what is open, the tree has its fork there.
    assert isinstance(following.after([]), exact.Fork)


# ---------------------------------------------------------------------- the stories themselves


@settings(max_examples=12)
@given(seeds, st.sampled_from([TOKENIZER, BYTES]))
def test_along_a_story_the_products_are_its_probability(seed, tokenizer):
    text = a_story(seed)
    ids = [*tokenizer.encode(text), tokenizer.special_tokens["<|endoftext|>"]]
    nats = []
    for id, tree in zip(ids, NextToken(HAMLET, tokenizer).along(text), strict=True):
        chances = probabilities(tree)
        assert math.fsum(chances.values()) == pytest.approx(1, abs=1e-12)
        nats.append(-math.log(chances[id]))
        ahead = [tree]
        while ahead:
            node = ahead.pop()
            assert node.kind in KINDS
            if isinstance(node, exact.Fork):
                assert math.fsum(p for p, _ in node.branches) == pytest.approx(1)
                ahead += [branch for _, branch in node.branches]
    assert math.fsum(nats) == pytest.approx(-HAMLET.log_prob(text), abs=1e-9)


@settings(max_examples=12)
@given(seeds)
def test_a_fact_is_a_fact_from_the_space_in_front_of_it(seed):
    """The space may be the template's; the token that says both is filed under the word."""
    text = a_story(seed)
    cuts = exact.spans(TOKENIZER, TOKENIZER.encode(text))
    trees = [*NextToken(HAMLET, TOKENIZER).along(text)][:-1]
    kinds, n_spaces = exact.kinds(HAMLET, text), 0
    for (start, end), tree in zip(cuts, trees, strict=True):
        word = next((i for i in range(start, end) if text[i] != " "), start)
        if kinds[word] == "fact" and isinstance(tree, exact.Settled):
            assert tree.kind == "fact"
            n_spaces += kinds[start] != "fact"
    assert n_spaces or "fact" not in kinds


@settings(max_examples=12)
@given(seeds, st.data())
def test_any_prefix_alone_gives_what_the_walk_along_the_story_gives(seed, data):
    text = a_story(seed)
    ids, following = TOKENIZER.encode(text), NextToken(HAMLET, TOKENIZER)
    count = data.draw(st.integers(0, len(ids)))
    on_the_way = next(islice(following.along(text), count, None))
    assert following.after(ids[:count]) == on_the_way
    assert following.after([following.end_of_text, *ids[:count]]) == on_the_way


def test_other_sizes_and_tokenizers():
    full = StoryLanguage()
    tokenizer = BytePairTokenizer.load(FOLDER / "full" / "tokenizer.json")
    text = next(full.stories(seed=5))
    trees = NextToken(full, tokenizer).along(text)
    nats = [
        -math.log(probabilities(tree)[id])
        for id, tree in zip(tokenizer.encode(text), trees, strict=False)
    ]
    assert math.fsum(nats) == pytest.approx(-full.log_prob(text), abs=1e-9)


def test_the_first_tokens_come_as_often_as_they_should():
    n, rng = 8000, Random(1)
    following, counts = NextToken(HAMLET, TOKENIZER), Counter()
    for _ in range(n):
        counts[tuple(TOKENIZER.encode(HAMLET.sample(rng).text[:40])[:2])] += 1
    first = probabilities(following.after([]))
    for one, share in first.items():
        for two, again in probabilities(following.after([one])).items():
            expected = n * share * again
            error = math.sqrt(expected) + 1
            assert abs(counts.pop((one, two), 0) - expected) < 5 * error
    assert not counts


def test_what_cannot_be_said():
    following = NextToken(HAMLET, TOKENIZER)
    with pytest.raises(ValueError, match=r"no story .* begin as those of 'Call me'"):
        following.after(TOKENIZER.encode("Call me"))
    text = a_story(0)
    assert following.after(TOKENIZER.encode(text[:10])[:1])
    first, rest = text[:20].split(" ", 1)  # the same text, but no story is encoded so
    for spelled in (
        BYTES.encode(first),
        [*BYTES.encode(first), *TOKENIZER.encode(" " + rest)],
    ):
        with pytest.raises(ValueError, match="no story is encoded"):
            following.after(spelled)
    with pytest.raises(ValueError, match="a token's id=1791 must"):
        following.after([following.end_of_text, following.end_of_text])
    over_spaces = BytePairTokenizer([(ord("a"), ord(" "))], pattern=".+")
    with pytest.raises(ValueError, match="a token=b'a ' must be cut"):
        NextToken(HAMLET, over_spaces)
    with pytest.raises(ValueError, match=r"special_tokens=.*some with <\|endoftext"):
        NextToken(HAMLET, BytePairTokenizer([], special_tokens=()))


# -------------------------------------------------------------------- what a story is made of


@settings(max_examples=20)
@given(seeds)
def test_the_choices_of_a_story_hold_all_its_information(seed):
    text = a_story(seed)
    found = exact.choices(HAMLET, text)
    assert math.fsum(met.nats for met in found) == pytest.approx(-HAMLET.log_prob(text))
    surprisal = HAMLET.surprisal(text)
    settled_by = {at for met in found for at in range(met.start, met.end)}
    for at, nats in enumerate(surprisal):
        assert at in settled_by or nats == pytest.approx(0, abs=1e-9)
    for met in found:
        assert met.kind in KINDS[:5]
        assert math.fsum(p for _, p in met.options) == pytest.approx(1)
        assert met.start < met.end <= len(text)
        said, _ = met.options[met.taken]
        assert text.startswith(said, met.start)
        # The choice is open until its last character.
        before = text[met.start : met.end - 1]
        assert any(
            way.startswith(before) or before.startswith(way)
            for i, (way, _) in enumerate(met.options)
            if i != met.taken
        )


def marked(language, text: str) -> dict[str, list[str]]:
    """The stretches of each kind in a text."""
    kinds, found = exact.kinds(language, text), {}
    assert len(kinds) == len(text)
    starts = [0, *(i for i in range(1, len(text)) if kinds[i] != kinds[i - 1])]
    for start, end in pairwise([*starts, len(text)]):
        found.setdefault(kinds[start], []).append(text[start:end])
    return found


def test_kinds_are_those_that_one_would_say():
    story = next(s for s in HAMLET.stories() if " had one " in s and "seed" in s)
    found = marked(HAMLET, story)
    hero = next(name for name in HAMLET.characters if name in found["name"])
    crop = story.split(" seed.")[0].split(" had one ")[1]
    assert crop in found["object"]
    assert any(crop in said for said in found["agreement"])
    assert hero in found["agreement"]
    for fact in found.get("fact", []):
        assert fact not in found["agreement"] or story.count(fact) > 1
    place = next(p for p in found["place"])
    assert story.index(place) >= 0


@settings(max_examples=20)
@given(seeds)
def test_every_fact_of_a_hero_is_a_fact_only_once(seed):
    text = a_story(seed)
    found = marked(HAMLET, text)
    hero = exact.hidden_state(HAMLET, text)[-1]["hero"]
    facts = HAMLET.facts(hero)
    friend = [said for said in found.get("fact", []) if said == facts["friend"]]
    assert len(friend) <= 1
    assert not {hero} & {*found.get("fact", [])}


def test_whose_facts_a_story_tells():
    friends = 0
    for text in islice(HAMLET.stories(seed=4), 40):
        told = exact.facts_told(HAMLET, text)
        said = [kind == "fact" for kind in exact.kinds(HAMLET, text)]
        assert sum(fact.end - fact.start for fact in told) == sum(said)
        assert all(all(said[fact.start : fact.end]) for fact in told)
        hero = exact.hidden_state(HAMLET, text)[-1]["hero"]
        for fact in told:
            words = text[fact.start : fact.end]
            if fact.which == "food":  # that of the hero's friend is the friend's
                food = HAMLET.facts(fact.whose)["favourite food"]
                assert words.lower().endswith(food)  # "a pot of leek stew", too
                friends += fact.whose == HAMLET.facts(hero)["friend"]
            if fact.which == "friend":
                assert words == HAMLET.facts(fact.whose)["friend"]
            if fact.which in ("pet", "pet.kind"):
                name, kind = HAMLET.facts(fact.whose)["pet"].split(" the ")
                assert words.endswith(name if fact.which == "pet" else kind)
    assert friends > 2
    with pytest.raises(ValueError, match="not a story of this language"):
        exact.facts_told(HAMLET, text[:-1])


def test_the_hidden_state_tells_who_holds_what_and_where():
    seen = 0
    for text in islice(HAMLET.stories(seed=3), 400):
        states = exact.hidden_state(HAMLET, text)
        assert len(states) == len(text)
        assert set(states[0]) <= set(states[-1])
        last = states[-1]
        assert last["hero"] in text
        if "But at supper the" in text:
            at = text.index("But at supper the")
            assert states[at]["toy.holder"] == states[at]["nook"]
            assert states[at]["place"] in text[:at]
            assert last["toy.holder"] == last["hero"]
            seen += 1
        if "dish.holder" in last:
            assert last["dish.holder"] == HAMLET.facts(last["hero"])["friend"]
    assert seen > 2


@settings(max_examples=20)
@given(seeds, st.data())
def test_the_twin_of_the_twin_is_the_story(seed, data):
    text = a_story(seed)
    state = exact.hidden_state(HAMLET, text)[-1]
    people = [p for p in HAMLET.characters if p != state["hero"]]
    other = data.draw(st.sampled_from(people))
    with suppress(ValueError):  # the other may own a thing that the story draws
        twin = exact.twin(HAMLET, text, "hero", other)
    assume("twin" in locals())
    assert exact.hidden_state(HAMLET, twin)[-1]["hero"] == other
    assert HAMLET.log_prob(twin) > -math.inf
    assert exact.twin(HAMLET, twin, "hero", state["hero"]) == text
    assert [m.taken for m in exact.choices(HAMLET, twin) if m.kind == "filler"] == [
        m.taken for m in exact.choices(HAMLET, text) if m.kind == "filler"
    ]


def test_a_twin_exchanges_what_agrees_and_nothing_else():
    story = next(s for s in HAMLET.stories() if " had one radish seed" in s)
    twin = exact.twin(HAMLET, story, "crop", "turnip")
    assert "radish" in story
    assert "radish" not in twin
    grown = "a radish as red as a fire engine", "a turnip with a face"
    assert twin == story.replace(*grown).replace("radish", "turnip")
    with pytest.raises(ValueError, match="one that 'crop' can be"):
        exact.twin(HAMLET, story, "crop", "oak")
    with pytest.raises(ValueError, match=r"role='winner' .* which this story draws"):
        exact.twin(HAMLET, story, "winner", "radish")
    with pytest.raises(ValueError, match="not a story of this language"):
        exact.twin(HAMLET, story[:-1], "crop", "turnip")
