"""Stories: the probability of a text is exact, and everything that this rests on."""

import importlib
import json
import math
import re
import sys
import zlib
from itertools import islice, pairwise
from random import Random

import numpy as np
import pytest

import decoder_only
from decoder_only.stories.lexicon import WORDS


def without_type_checks(*names):
    """The modules as a user gets them: checking each call's types makes them 30 times slower."""
    mine = [name for name in sys.modules if name.startswith("decoder_only.stories")]
    checked = {name: sys.modules.pop(name) for name in mine}
    finders = sys.meta_path[:]
    sys.meta_path[:] = [
        f for f in finders if not type(f).__module__.startswith("jaxtyping")
    ]
    try:
        return [
            importlib.import_module(f"{decoder_only.__name__}.{name}") for name in names
        ]
    finally:
        sys.meta_path[:] = finders
        for name in [
            name for name in sys.modules if name.startswith("decoder_only.stories")
        ]:
            del sys.modules[name]
        sys.modules.update(checked)


stories, grammar, world = without_type_checks(
    "stories", "stories.grammar", "stories.world"
)
StoryLanguage, split_of = stories.StoryLanguage, stories.split_of
SIZES, ALL_TALES = StoryLanguage.SIZES, world.ALL_TALES
Grammar, Lexicon, Draw = grammar.Grammar, grammar.Lexicon, grammar.Draw
Reader, Writer, leads, tell = (
    grammar.Reader,
    grammar.Writer,
    grammar.leads,
    grammar.tell,
)


@pytest.fixture(scope="module")
def language():
    return StoryLanguage()


@pytest.fixture(scope="module")
def drawn(language):
    rng = Random(11)
    return [language.sample(rng) for _ in range(400)]


# ------------------------------------------------------------------- written as it is read


@pytest.mark.parametrize(
    ("seed", "n_characters", "exponent"),
    [(0, 1024, 1.0), (1, 64, 0.0), (2, 64, 2.0), (-3, 3000, 0.7), (4, 24, 2.0)],
)
def test_reading_finds_the_probability_that_writing_recorded(
    seed, n_characters, exponent
):
    language = StoryLanguage(seed=seed, n_characters=n_characters, exponent=exponent)
    rng = Random(seed)
    for _ in range(400):
        story = language.sample(rng)
        assert language.log_prob(story.text) == story.log_prob, story.text


class Auditor(Writer):
    """Writes as ever, and looks closely at each choice that it meets, the first times."""

    def __init__(self, random, times):
        super().__init__(random)
        self.times = times

    def choose(self, choice, memory):
        self.times[id(choice)] = self.times.get(id(choice), 0) + 1
        if self.times[id(choice)] > 4:
            return super().choose(choice, memory)
        alternatives = list(choice.alternatives(memory))
        assert abs(math.fsum(share for *_, share in alternatives) - 1) < 1e-12
        if not isinstance(choice, Draw):  # lexicons are looked at once, below
            begun = sorted(
                text for _, body, _ in alternatives for text, _ in leads(body, memory)
            )
            for first, second in pairwise(begun):
                assert not second.startswith(first), f"{first!r} begins {second!r}"
        return super().choose(choice, memory)


@pytest.mark.parametrize(("seed", "exponent", "count"), [(0, 1.0, 60), (1, 0.0, 1000)])
def test_at_each_choice_no_alternative_begins_another_and_all_add_up_to_one(
    seed, exponent, count
):
    language = StoryLanguage(
        seed=seed, n_characters=1024 if seed == 0 else 64, exponent=exponent
    )
    rng, times = Random(7), {}
    for _ in range(count):
        tell(language.grammar.rules["story"], Auditor(rng.random, times), {})


@pytest.mark.parametrize("n_characters", [24, 64, 1024, 6000])
def test_no_word_of_a_lexicon_begins_another(n_characters):
    lexicons = StoryLanguage(n_characters=n_characters).grammar.lexicons
    forms = {"text", "Text", "a", "A", "some", "at", "scene", "sound"}
    for name, lexicon in lexicons.items():
        for form in forms & set(lexicon.entries[0]):
            words = sorted(entry[form] for entry in lexicon.entries)
            for first, second in pairwise(words):
                assert not second.startswith(first), (name, form, first, second)


@pytest.mark.parametrize("size", SIZES)
def test_every_rule_is_told_in_some_story(size, monkeypatch):
    language = StoryLanguage.named(size)
    told, tell_rule = {"story"}, grammar.Rule.tell

    def noting(rule, teller, memory):
        told.add(rule.name)
        tell_rule(rule, teller, memory)

    monkeypatch.setattr(grammar.Rule, "tell", noting)
    rng = Random(3)
    for _ in range(2000):
        language.sample(rng)
        if told == set(language.grammar.rules):
            break
    assert told == set(language.grammar.rules)


# ------------------------------------------------------------------------------------ its sizes


def rows_of_the_table():
    """What the docstring of the language says of each size."""
    lines = StoryLanguage.__doc__.splitlines()
    rows = [
        line.split() for line in lines if line.split()[:1] and line.split()[0] in SIZES
    ]
    return {name: [float(number) for number in numbers] for name, *numbers in rows}


def entropy(language, n_stories, seed):
    """Bits per byte with their standard error, and bits and bytes of a story, from new stories."""
    rng = Random(f"entropy {seed}")
    drawn = [language.sample(rng) for _ in range(n_stories)]
    bits = np.array([-story.log_prob / math.log(2) for story in drawn])
    sizes = np.array([len(story.text.encode()) for story in drawn])
    rate = bits.sum() / sizes.sum()
    # A ratio of two means: its error is that of the residuals, over the mean size.
    residual = ((bits - rate * sizes) ** 2).sum()
    error = math.sqrt(residual / (n_stories - 1) / n_stories) / sizes.mean()
    return rate, error, bits.mean(), sizes.mean()


@pytest.mark.parametrize("size", SIZES)
def test_the_docstring_tells_what_a_size_holds(size):
    language, row = StoryLanguage.named(size), rows_of_the_table()[size]
    people, tales, facts, fact_bits, templates, per_byte, bits, n_bytes = row
    assert (people, tales) == (language.n_characters, len(language.tales))
    assert (facts, templates) == (language.n_facts, language.grammar.n_templates)
    assert fact_bits == round(language.fact_bits)
    mean, error, bits_per_story, bytes_per_story = entropy(language, 2000, seed=1)
    assert abs(mean - per_byte) < 4 * error
    assert error < 0.001
    assert bits_per_story == pytest.approx(bits, rel=0.015)
    assert bytes_per_story == pytest.approx(n_bytes, rel=0.015)


@pytest.mark.parametrize("size", ["hamlet", "village"])
def test_a_named_size_is_read_as_it_is_written(size):
    language = StoryLanguage.named(size, seed=3)
    rng, times = Random(1), {}
    for _ in range(300):
        story = language.sample(rng)
        assert language.log_prob(story.text) == story.log_prob
    assert math.fsum(language.surprisal(story.text)) == pytest.approx(-story.log_prob)
    assert not language.explain(story.text[:-1]).in_language
    for _ in range(60):
        tell(language.grammar.rules["story"], Auditor(rng.random, times), {})


def test_some_of_the_tales_are_the_whole_language_given_that_one_of_them_is_told():
    whole = StoryLanguage(n_characters=64)
    part = StoryLanguage(n_characters=64, tales=["lost", "gift", "garden"])
    more, seen = math.log(14 / 3), {True: 0, False: 0}
    for text in islice(whole.stories(seed=1), 400):
        inside = part.log_prob(text) > -math.inf
        seen[inside] += 1
        if inside:
            gain = part.log_prob(text) - whole.log_prob(text)
            assert gain == pytest.approx(more, abs=1e-9)
        else:
            assert 0 < part.explain(text).at < len(text)
    assert seen[True] == pytest.approx(400 * 3 / 14, abs=4 * math.sqrt(400 * 33 / 196))
    assert all(whole.log_prob(x) > -math.inf for x in islice(part.stories(), 100))


@pytest.mark.parametrize("tale", ALL_TALES)
def test_no_story_uses_up_a_lexicon(tale):
    """Else a writer would look for ever: counted over the most crowded way through the tale."""
    language = StoryLanguage(n_characters=24, tales=[tale])
    name_of = {id(source): name for name, source in language.grammar.lexicons.items()}
    # A person sets aside the friend, and what both of them like best.
    by_people = {"people": 2, "foods": 2, "things": 2, "places": 2}

    def most(nodes, name):
        total = 0
        for node in nodes:
            if isinstance(node, grammar.Choice):
                total += max(most(body, name) for body in node.bodies)
            elif isinstance(node, grammar.Rule):
                total += most(node.expand({}), name)
            elif isinstance(node, Draw) and type(node.source) is Lexicon:
                drawn = name_of[id(node.source)]
                total += by_people.get(name, 0) if drawn == "people" else drawn == name
        return total

    for person in language.grammar.lexicons["people"].entries:
        for name in by_people:
            uses = [i for source, i in person["uses"] if name_of[id(source)] == name]
            assert len(uses) <= by_people[name]
    story = language.grammar.rules["story"]
    for name, source in language.grammar.lexicons.items():
        assert most(story, name) < len(source.entries), name


def test_a_language_can_be_made_again_from_its_arguments():
    """A few people are made sooner than the 1,024 of the full size, which is spelled out below."""
    for language in (
        StoryLanguage(seed=5, n_characters=64),
        StoryLanguage.hamlet(seed=2),
        StoryLanguage(n_characters=30, exponent=0, tales=("noise", "lost", "lost")),
    ):
        again = StoryLanguage(**json.loads(json.dumps(language.arguments)))
        for other in (again, eval(repr(language), {"StoryLanguage": StoryLanguage})):
            assert repr(other) == repr(language)
            assert next(other.stories()) == next(language.stories())
    assert language.tales == ("lost", "noise")
    assert repr(StoryLanguage.named("full")) == (
        "StoryLanguage(seed=0, n_characters=1024, exponent=1.0)"
    )
    assert StoryLanguage(tales=ALL_TALES).arguments == StoryLanguage().arguments


def test_bits_of_facts_where_all_alternatives_are_alike():
    """Then each fact takes the logarithm of the number of things that it might have been."""
    lists = (
        WORDS["dwellings"],
        WORDS["street_names"],
        WORDS["streets"],
        WORDS["fears"],
    )
    lists += (WORDS["hobbies"], WORDS["habits"], WORDS["pet_names"], WORDS["animals"])
    each = sum(math.log2(len(words)) for words in lists)
    # A friend who is somebody else; a food, a thing and a place of 40; and the pet's sex.
    each += math.log2(39) + 3 * math.log2(40) + 1
    language = StoryLanguage(n_characters=40, exponent=0)
    assert language.fact_bits == pytest.approx(40 * each)


# -------------------------------------------------------------- a language small enough to list

SMALL = """
story:
- {hero=people} [and {other=people} ran|3:ran]<where>. <end>
- [It|The sky] was [blue|red], {hero=people} said. <end>

where:
- [ quickly| quietly|] to {place=places}[, |, even ][then|now]

end:
- "Well," [said|asked] {hero}[ again|].
- 2:{hero} was {mood}.
"""


def small_language():
    glad, sad = {"text": "glad"}, {"text": "sad"}
    people = [("Ann", glad), ("Bo", sad), ("Cy", glad)]
    lexicons = {
        "people": Lexicon(
            [{"text": name, "mood": mood} for name, mood in people], [5, 3, 2]
        ),
        "places": Lexicon([{"text": "Rome"}, {"text": "Oslo"}], [1, 3]),
    }
    return Grammar(SMALL, lexicons=lexicons, shorthand={"mood": ("hero", "mood")})


class Chooser(Writer):
    """Takes the choices that it is told to take, and then always the first."""

    def __init__(self, path):
        super().__init__(None)
        self.path, self.widths = list(path), []

    def choose(self, choice, memory):
        weights, used = choice.odds(memory)
        open_to = [i for i in range(len(weights.weights)) if i not in used]
        step = len(self.widths)
        self.widths.append(len(open_to))
        index = open_to[self.path[step] if step < len(self.path) else 0]
        self.log_prob += weights.log_prob(index, used)
        return index


def test_all_the_texts_of_a_small_language_have_probabilities_that_add_up_to_one():
    nodes = small_language().rules["story"]
    texts, ahead = {}, [()]
    while ahead:
        chooser = Chooser(ahead.pop())
        tell(nodes, chooser, {})
        text = "".join(chooser.parts)
        assert text not in texts, "two derivations of one text"
        texts[text] = chooser.log_prob
        for step in range(len(chooser.path), len(chooser.widths)):
            taken = [*chooser.path, *[0] * (step - len(chooser.path))]
            ahead += [(*taken, other) for other in range(1, chooser.widths[step])]
    assert len(texts) > 100
    assert math.fsum(map(math.exp, texts.values())) == pytest.approx(1, abs=1e-12)
    for text, log_prob in texts.items():
        reader = Reader(text)
        tell(nodes, reader, {})
        assert (reader.at, reader.log_prob) == (len(text), log_prob)
    # The story is over where it is over: no text begins another one.
    ordered = sorted(texts)
    assert not any(b.startswith(a) for a, b in pairwise(ordered))


def test_writing_follows_the_probabilities():
    nodes = small_language().rules["story"]
    rng, counts, n = Random(0), {}, 40000
    for _ in range(n):
        writer = Writer(rng.random)
        tell(nodes, writer, {})
        key = "".join(writer.parts), writer.log_prob
        counts[key] = counts.get(key, 0) + 1
    for (text, log_prob), count in counts.items():
        expected = n * math.exp(log_prob)
        assert abs(count - expected) < 6 * math.sqrt(expected) + 3, text


# ------------------------------------------------------------------------ texts that went wrong


def retold(language, text):
    """What a writer writes that makes the choices found by reading ``text``."""
    taken = []

    class Recorder(Reader):
        def choose(self, *args):
            taken.append(super().choose(*args))
            return taken[-1]

    class Repeater(Writer):
        def choose(self, choice, memory):
            index = taken.pop(0)
            weights, used = choice.odds(memory)
            self.log_prob += weights.log_prob(index, used)
            return index

    tell(language.grammar.rules["story"], Recorder(text), {})
    writer = Repeater(None)
    tell(language.grammar.rules["story"], writer, {})
    return "".join(writer.parts), writer.log_prob


def test_each_corruption_of_a_character_is_rejected_or_is_another_story(
    language, drawn
):
    rng, accepted, rejected = Random(5), 0, 0
    letters = "abcdefghijklmnopqrstuvwxyzABCXYZ .,!?\"'-\n"
    for story in drawn[:6]:
        text = story.text
        for at in range(rng.randrange(3), len(text), 3):
            letter = letters[int(rng.random() * len(letters))]
            for wrong in (
                text[:at] + letter + text[at + 1 :],
                text[:at] + text[at + 1 :],
                text[:at] + letter + text[at:],
            ):
                if wrong == text:
                    continue
                log_prob = language.log_prob(wrong)
                if log_prob > -math.inf:
                    accepted += 1
                    # A different story: told by its own choices, it comes out as it is.
                    assert retold(language, wrong) == (wrong, log_prob)
                else:
                    rejected += 1
                    if (
                        rejected % 50 == 0
                    ):  # listing what could have followed takes its time
                        assert at <= language.explain(wrong).at <= len(wrong)
    assert rejected > 100 * accepted


def test_an_explanation_points_at_the_character_and_says_what_could_follow(
    language, drawn
):
    rng = Random(9)
    for story in drawn[:60]:
        at = int(rng.random() * len(story.text))
        verdict = language.explain(story.text[:at] + "~" + story.text[at + 1 :])
        assert (verdict.in_language, verdict.at) == (False, at)
        assert (verdict.read, verdict.found[0]) == (story.text[:at], "~")
        assert math.fsum(p for _, p in verdict.expected) == pytest.approx(1)
        assert any(story.text.startswith(rest, at) for rest, _ in verdict.expected)
        for rest, _ in verdict.expected[:3]:
            # Each of them could indeed have followed.
            assert language.explain(verdict.read + rest).at == at + len(rest)


def test_explanations_can_be_read(language, drawn):
    text = drawn[0].text
    assert str(language.explain(text)).startswith("A story of the language: -")
    middle = str(language.explain(text[:50]))
    assert "After 50 of 50 characters" in middle
    assert "(the end)" in middle
    after = language.explain(text + " And more.")
    assert after.at == len(text)
    assert after.expected == ()
    assert "the story was over" in str(after)
    for other in ("", "Call me Ishmael.", text + text, text[1:], "\x00"):
        assert language.log_prob(other) == -math.inf
        assert not language.explain(other).in_language


def test_surprisal_is_spread_over_the_characters(language, drawn):
    for story in drawn[:15]:
        nats = language.surprisal(story.text)
        assert len(nats) == len(story.text)
        assert math.fsum(nats) == pytest.approx(-story.log_prob, abs=1e-9)
        assert min(nats) > -1e-9
        assert language.surprisal(story.text, first=80) == nats[:80]
    with pytest.raises(ValueError, match="not a story of this language"):
        language.surprisal(story.text[:-1])
    with pytest.raises(ValueError, match="first=-1 must be a whole number, at least 0"):
        language.surprisal(story.text, first=-1)


def test_surprisal_is_that_of_the_next_character(language, drawn):
    """At the very first character it can be checked against the counts of many stories."""
    rng = Random(2)
    first = [language.sample(rng).text[0] for _ in range(6000)]
    for letter in "OTI":
        share = first.count(letter) / len(first)
        text = next(story.text for story in drawn if story.text[0] == letter)
        assert math.exp(-language.surprisal(text)[0]) == pytest.approx(share, rel=0.15)


# ----------------------------------------------------------------------------------- agreement


def test_facts_hold_in_all_stories(language):
    facts = {name: language.facts(name) for name in language.characters}
    seen = 0
    for text in islice(language.stories(seed=4), 1500):
        opening = text.split(".")[0]
        for name in (word for word in (opening.split(" ")[0],) if word in facts):
            if " had a" in opening:
                assert facts[name]["treasure"] in opening
                seen += 1
            if " lived in" in opening:
                assert facts[name]["home"] in opening
                seen += 1
            if "better than" in opening:
                assert facts[name]["favourite food"] in opening
                seen += 1
    assert seen > 60


def test_what_is_lost_is_found_where_it_was_left(language):
    found = 0
    for text in islice(language.stories(seed=5), 3000):
        if "So they went. And there, " in text:
            nook = text.split("So they went. And there, ")[1].split(",")[0]
            before, after = text.split("So they went. And there, ")
            thing = after.split(" the ")[1].split(".")[0].split(",")[0]
            assert nook in before
            found += 1
            assert thing  # what lies there has been spoken of
    assert found > 3


def test_stories_are_plain_text_of_the_promised_length(language):
    stories = list(islice(language.stories(seed=6), 1500))
    lengths = [len(text.split()) for text in stories]
    assert 90 < sum(lengths) / len(lengths) < 140
    assert min(lengths) > 40
    assert max(lengths) < 260
    for text in stories:
        assert text.isascii()
        assert text[0].isupper() or text[0] == '"'
        assert text[-1] in '.?!"'
        for wrong in ("  ", " .", " ,", "..", ",,", "[", "{", "<", "|", "\n"):
            assert wrong not in text.replace(" ...", ""), (wrong, text)
        assert text.count('"') % 2 == 0
        assert not re.search("[.!?] [a-z]", text), text
        words = text.replace('"', " ").split()
        for article, word in pairwise(words):
            if article in ("a", "A"):
                assert word[0].lower() not in "aeio", (article, word, text)
            if article in ("an", "An"):
                assert word[0].lower() in "aeiou" or word.startswith("hour"), (
                    article,
                    word,
                    text,
                )


# ------------------------------------------------------------------- the same stories everywhere


def test_the_first_stories_are_what_they_always_were(language):
    text = "\n".join(islice(language.stories(seed=0), 200))
    text += "\n".join(
        islice(StoryLanguage(seed=1, n_characters=100).stories(seed=2), 50)
    )
    assert zlib.crc32(text.encode()) == 239671104


def test_splits_never_share_a_story(language):
    train = set(islice(language.stories(split="train", seed=0), 3000))
    validation = set(islice(language.stories(split="validation", seed=0), 200))
    assert not train & validation
    assert {split_of(text) for text in train} == {"train"}
    assert {split_of(text) for text in validation} == {"validation"}
    again = list(islice(language.stories(seed=0), 5))
    assert again == list(islice(language.stories(seed=0), 5))
    assert again != list(islice(language.stories(seed=1), 5))


# ------------------------------------------------------------------------------------ the floor


def test_the_floor_is_the_score_of_the_stories(language, drawn):
    floor = language.floor(story.text for story in drawn)
    assert floor.nats == pytest.approx(-sum(story.log_prob for story in drawn))
    assert floor.bytes == sum(len(story.text) for story in drawn)
    assert floor.stories == len(drawn)
    assert floor.bits_per_byte == pytest.approx(floor.nats / math.log(2) / floor.bytes)
    assert floor.nats_per_token(1000) == floor.nats / 1000
    with pytest.raises(ValueError, match="story 1 is not of this language"):
        language.floor([drawn[0].text, "It was a dark and stormy night."])
    with pytest.raises(ValueError, match="at least one story"):
        language.floor([])
    with pytest.raises(ValueError, match="n_tokens=0 must"):
        floor.nats_per_token(0)


def test_the_floor_is_that_of_other_stories(language, drawn):
    mean, error, _, _ = entropy(language, 1500, seed=0)
    floor = language.floor(story.text for story in drawn)
    assert 0 < error < 0.01
    error *= math.sqrt(1 + 1500 / len(drawn))
    assert abs(floor.bits_per_byte - mean) < 5 * error


# ------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("seed", 1.5, "a whole number"),
        ("seed", True, "a whole number"),
        ("n_characters", "many", "a whole number, at least 24 and at most 16384"),
        ("n_characters", 24.0, "a whole number, at least 24 and at most 16384"),
        ("n_characters", 23, "a whole number, at least 24 and at most 16384"),
        ("n_characters", 10**6, "a whole number, at least 24 and at most 16384"),
        ("exponent", -1, "a finite number, at least 0 and at most 2"),
        ("exponent", math.nan, "a finite number, at least 0 and at most 2"),
        ("exponent", "1", "a finite number, at least 0 and at most 2"),
        ("tales", "lost", "some of lost, .*, garden"),
        ("tales", 3, "some of lost, .*, garden"),
        ("tales", (), "some of lost, .*, garden"),
        ("tales", ["lost", "cat"], "some of lost, .*, garden"),
    ],
)
def test_sizes_that_no_world_can_have(name, value, wanted):
    said = re.escape(f"{name}={value!r} must be ") + wanted
    with pytest.raises(ValueError, match=said):
        StoryLanguage(**{name: value})


def test_other_bad_input(language):
    with pytest.raises(
        ValueError, match=r"split=.test. .* one of \(.train., .validation.\)"
    ):
        language.stories(split="test")
    with pytest.raises(ValueError, match=r"seed=None must be a whole number"):
        language.stories(seed=None)
    with pytest.raises(KeyError, match="nobody in this world is called 'Bob'"):
        language.facts("Bob")
    with pytest.raises(
        ValueError, match=r"'city' .* one of \(.hamlet., .village., .full.\)"
    ):
        StoryLanguage.named("city")
    with pytest.raises(ValueError, match="brackets do not match"):
        Grammar("story:\n- [a|b", lexicons={})
    with pytest.raises(ValueError, match="a rule that is nowhere: 'end'"):
        Grammar("story:\n- Once. <end>", lexicons={})
