"""The world of the stories: who there is, and what is true of them in every story.

A world is drawn once from its seed. Each person has a home, a friend, a pet, a favourite food, a
treasure, a place to go, a fear and some habits. They are drawn with heavy-tailed (Zipf-like)
weights: the r-th most common person is r ** -exponent as likely as the first, and things, foods,
places and the like have a lighter tail, of half that exponent. But once drawn, the facts are as
fixed for the thousandth person as they are for the first, and to know them takes memory. Of the
tales, some or all are told. Chapter 9.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

from decoder_only.stories.grammar import Grammar, Lexicon, Weights, rules_of
from decoder_only.stories.lexicon import TALES, WORDS

__all__ = ["ALL_TALES", "FEWEST_CHARACTERS", "MOST_CHARACTERS", "build_grammar"]

# One story can use up 23 people, things, foods or places, and then there must be one more.
FEWEST_CHARACTERS = 24
MOST_CHARACTERS = 16384
ALL_TALES = tuple(re.findall(r"<(\w+)>", rules_of(TALES)["tale"]))

KINDS = {"people": "name", "places": "place"}  # all else that is drawn is an object

Record = dict[str, Any]

PRONOUNS = {
    forms[0]: dict(zip(("she", "her", "him", "herself", "child"), forms, strict=True))
    for forms in (
        ("she", "her", "her", "herself", "girl"),
        ("he", "his", "him", "himself", "boy"),
    )
}
# Templates may say {friend} for {hero.friend}: the hero is on every page.
OF_THE_HERO = re.findall(
    r"\w+",
    "she her him herself She Her child friend pet food toy haunt home street fear hobby habit",
)


def build_grammar(
    *, seed: int, n_characters: int, exponent: float, tales: Sequence[str]
) -> Grammar:
    """The world of that seed, and the tales told in it."""
    rng = Random(f"world {seed}")
    lighter = exponent / 2
    written = {
        "people": people(rng, n_characters),
        "things": shuffled(rng, things())[:n_characters],
        "foods": shuffled(rng, foods())[:n_characters],
        "places": shuffled(rng, places())[:n_characters],
        "animals": shuffled(rng, animals()),
        "plants": shuffled(rng, plants()),
        "folk": shuffled(rng, folk()),
        "crafts": shuffled(rng, crafts()),
        "odds": shuffled(rng, [forms(odd) for odd in WORDS["odds"]]),
        "numbers": shuffled(rng, numbers()),
        "weathers": shuffled(rng, weathers()),
        "days": days(),
    }
    lexicons = {}
    for name, entries in written.items():
        steepness = exponent if name == "people" else lighter
        weights, kind = zipf_weights(len(entries), steepness), KINDS.get(name, "object")
        lexicons[name] = Lexicon(entries, weights.weights, kind)
    for person in lexicons["people"].entries:
        settle(rng, person, lexicons, lighter)
    for person in lexicons["people"].entries:
        set_aside(person)
    grammar = Grammar(
        TALES + "tale:\n" + "".join(f"- <{tale}>\n" for tale in tales),
        lexicons=lexicons,
        shorthand={name: ("hero", name) for name in OF_THE_HERO},
    )
    compile_records(grammar)
    return grammar


@cache
def zipf_weights(size: int, exponent: float) -> Weights:
    """Weights of the ranks 1 to `size`, made once for all people who choose from a list."""
    return Weights(max(1, round(1e12 / rank**exponent)) for rank in range(1, size + 1))


def shuffled(rng: Random, items: list[Any]) -> list[Any]:
    # random.shuffle may change between versions of Python; random.random does not.
    places = sorted((rng.random(), i) for i in range(len(items)))
    return [items[i] for _, i in places]


# ------------------------------------------------------------------------------------- records


def forms(text: str, close: str | None = None) -> Record:
    """The forms of a word; and if a last line may recall it, the rule by which it does."""
    a = ("an " if text[0] in "aeiou" else "a ") + text
    record = {"text": text, "Text": capital(text), "a": a, "A": capital(a)}
    return record | ({"close": f"<close.{close}>"} if close else {})


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def pronouns(she: str) -> Record:
    small = PRONOUNS[she]
    return small | {"She": capital(she), "Her": capital(small["her"])}


def people(rng: Random, count: int) -> list[Record]:
    """Common names first, then as many names put together from syllables as are wanted."""
    common = [(name, "she") for name in WORDS["girls"]]
    common += [(name, "he") for name in WORDS["boys"]]
    built = [
        (start + middle + end, she)
        for start in WORDS["name_starts"]
        for middle in WORDS["name_middles"]
        for she, ends in WORDS["name_ends"].items()
        for end in ends
    ]
    names: dict[str, str] = {}
    beginnings: set[str] = set()
    for name, she in shuffled(rng, common) + shuffled(rng, built):
        if len(names) == count:
            break
        starts = {name[:length] for length in range(1, len(name) + 1)}
        # No name begins another one, or "Ann" could not be told from "Anna".
        if name not in beginnings and not any(start in names for start in starts):
            names[name] = she
            beginnings |= starts
    return [forms(name, "friend") | pronouns(she) for name, she in names.items()]


def things() -> list[Record]:
    return [
        forms(f"{adjective} {noun}", "toy") | {"used": used}
        for adjective in WORDS["adjectives"]
        for noun, used in WORDS["things"].items()
    ]


def foods() -> list[Record]:
    one, many = {"is": "is", "was": "was"}, {"is": "are", "was": "were"}
    return [
        forms(f"{flavour} {dish}", "food")
        | {"some": some.format(flavour), "it": it}
        | (one if it == "it" else many)
        for flavour in WORDS["flavours"]
        for dish, (some, it) in WORDS["dishes"].items()
    ]


def places() -> list[Record]:
    records = []
    for kind, (at, nooks) in WORDS["places"].items():
        spots = [forms(nook) for nook in nooks.split(", ")]
        corners = Lexicon(spots, [1] * len(spots), "place")
        names = [f"the {kind.lower()}"]
        names += [f"{name} {kind}" for name in WORDS["place_names"]]
        for name in names:
            place = {"at": f"{at} {name}", "nooks": corners}
            records.append(forms(name, "haunt") | place)
    return records


def animals() -> list[Record]:
    return [
        forms(kind) | {"sound": sound, "cried": cried}
        for kind, (sound, cried, *_) in WORDS["animals"].items()
    ]


def plants() -> list[Record]:
    return [forms(plant) | {"grown": grown} for plant, grown in WORDS["plants"].items()]


def numbers() -> list[Record]:
    return [forms(f"{ten}-{one}") for ten in WORDS["tens"] for one in WORDS["units"]]


def crafts() -> list[Record]:
    return [
        forms(craft) | {"well": well, "badly": badly}
        for craft, (well, badly) in WORDS["crafts"].items()
    ]


def folk() -> list[Record]:
    return [
        forms(who) | {"motto": motto} | pronouns(she)
        for who, (she, motto) in WORDS["folk"].items()
    ]


def weathers() -> list[Record]:
    keys = ("was", "scene", "meanwhile", "end")
    return [
        forms(adjective, "weather") | dict(zip(keys, lines, strict=True))
        for adjective, lines in WORDS["weathers"].items()
    ]


def days() -> list[Record]:
    week = [forms(day, "day") for day in WORDS["days"]]
    for day, after in zip(week, week[1:] + week[:1], strict=True):
        day["next"] = after
    return week


# --------------------------------------------------------------------------------------- facts


def settle(
    rng: Random, person: Record, lexicons: dict[str, Lexicon], exponent: float
) -> None:
    """Draws all facts of a person, and adds up their information in nats."""
    person["nats"] = math.log(2)  # for the pet's sex

    def choose(weights: Weights, besides: Sequence[int] = ()) -> int:
        index = weights.draw(rng.random())
        while index in besides:
            index = weights.draw(rng.random())
        person["nats"] -= weights.log_prob(index, besides)
        return index

    def pick(options: list[Any]) -> Any:
        return options[choose(zipf_weights(len(options), exponent))]

    def draw(name: str, besides: Sequence[int] = ()) -> Record:
        source = lexicons[name]
        return source.entries[choose(source.weights, besides)]

    _, itself = person["uses"][0]
    person["friend"] = draw("people", besides=(itself,))
    person["food"] = draw("foods")
    person["toy"] = draw("things")
    person["haunt"] = draw("places")
    person["home"] = forms(pick(WORDS["dwellings"]), "home")
    person["street"] = f"{pick(WORDS['street_names'])} {pick(WORDS['streets'])}"
    person["fear"] = forms(pick(WORDS["fears"]), "fear")
    person["hobby"] = forms(pick(WORDS["hobbies"]), "hobby")
    person["habit"] = forms(pick(WORDS["habits"]).format(**person), "habit")
    person["pet"] = pet(pick, pronouns("she" if rng.random() < 0.5 else "he"))


def pet(pick: Callable[[list[str]], str], own: Record) -> Record:
    kind = pick(list(WORDS["animals"]))
    sound, cried, glad, naughty, went = WORDS["animals"][kind]
    named = {"text": pick(WORDS["pet_names"]), "kind": kind, "a": forms(kind)["a"]}
    does = {"sound": sound, "cried": cried, "naughty": naughty, "went": went}
    return {**named, **does, **own, "glad": glad.format(**own), "close": "<close.pet>"}


def set_aside(person: Record) -> None:
    """A story about a person does not draw what belongs to the person's life, nor the friend's."""
    own = [person, *(person[fact] for fact in ("friend", "food", "toy", "haunt"))]
    own += [person["friend"][fact] for fact in ("food", "toy", "haunt")]
    uses = [record["uses"][0] for record in own]
    person["uses"] = tuple(dict.fromkeys(uses))


def compile_records(grammar: Grammar) -> None:
    """Compiles the templates that hang on words, such as how a closing line recalls them."""
    compiled: dict[str, Any] = {}
    seen: set[int] = set()
    ahead = [entry for source in grammar.lexicons.values() for entry in source.entries]
    while ahead:
        record = ahead.pop()
        if id(record) in seen:
            continue
        seen.add(id(record))
        for key, value in record.items():
            if type(value) is dict:
                ahead.append(value)
            elif type(value) is str and value[0] == "<":
                if value not in compiled:
                    compiled[value] = grammar.compile(value)
                record[key] = compiled[value]
