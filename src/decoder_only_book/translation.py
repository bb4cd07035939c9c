"""A pair of languages: plain English sentences and their German, word by word and exactly known.

    pair = next(GERMAN.pairs(seed=0))
    print(GERMAN.text(pair.source), "->", GERMAN.text(pair.target))

A sentence says who does what to which things, perhaps where and when. German says it in another
order: the verb is second, a participle last, the time often first. Some words have two
translations, so even a perfect translator cannot know which one stands there:

    H(target | source) = E[-log P(target | source)] > 0

is the floor of every translator's loss. All translations of a sentence can be listed, so it is
exact, and so is which words of the source each word of the target translates.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product
from random import Random
from typing import NamedTuple

from decoder_only.stories.language import Split, split_of

__all__ = ["END", "GERMAN", "PADDING", "START", "LanguagePair", "Pair"]

PADDING, START, END = "<PAD>", "<SOS>", "<EOS>"

# A piece that ends in "+" is written together with the next one. A colon and a weight in quarters
# stand behind a translation that is one of several.
_SUBJECTS = """
Bobby = Bobby; Tommy = Tommy; Alice = Alice; Clara = Clara; Otto = Otto; Emil = Emil
Ruth = Ruth; Hugo = Hugo; Lena = Lena; Nina = Nina
the dog = der Hund; the cat = die Katze; the child = das Kind; the fox = der Fuchs
the owl = die Eule; the horse = das Pferd
"""
_PRESENT = """
likes = mag; eats = isst; buys = kauft; finds = findet; sells = verkauft; paints = malt
sees = sieht:3 erblickt:1; picks = pflückt:3 erntet:1
"""
_PERFECT = """
liked = gemocht; eaten = gegessen; bought = gekauft; found = gefunden; sold = verkauft
painted = gemalt; seen = gesehen:3 erblickt:1; picked = gepflückt:3 geerntet:1
"""
_BASES = ["like", "eat", "buy", "find", "sell", "paint", "see", "pick"]
_THINGS = """
black+ berries = Brom+ beeren; straw+ berries = Erd+ beeren; rasp+ berries = Him+ beeren
blue+ berries = Blau+ beeren:2 Heidel+ beeren:2; apples = Äpfel; pears = Birnen
plums = Pflaumen; potatoes = Kartoffeln:3 Erdäpfel:1; carrots = Möhren:2 Karotten:2
mush+ rooms = Pilze; nuts = Nüsse; hazel+ nuts = Hasel+ nüsse
"""
_QUALITIES = "sweet = süße; red = rote; fresh = frische; small = kleine; ripe = reife"
_PLACES = """
in the garden = im _ Garten; at the market = auf dem Markt; in the kitchen = in der Küche
at the lake = am _ See; in the village = im _ Dorf; at the fair = auf der Messe
"""
_TIMES = """
today = heute; every morning = jeden Morgen; this evening = heute Abend; now = jetzt:3 nun:1
"""


class Phrase(NamedTuple):
    """Some words, and their translations, each a list of pieces with its probability."""

    source: tuple[str, ...]
    targets: tuple[tuple[tuple[str, ...], float], ...]

    @property
    def spellings(self) -> list[tuple[str, ...]]:
        """The pieces of each translation."""
        return [pieces for pieces, _ in self.targets]

    @property
    def entropy(self) -> float:
        """Of the choice between the translations, in nats."""
        return -math.fsum(p * math.log(p) for _, p in self.targets)


def _phrases(table: str) -> tuple[Phrase, ...]:
    phrases = []
    for line in table.replace("\n", ";").split(";"):
        if line.strip():
            source, _, targets = line.partition("=")
            phrases.append(Phrase(tuple(source.split()), _targets(targets)))
    return tuple(phrases)


def _targets(written: str) -> tuple[tuple[tuple[str, ...], float], ...]:
    if ":" not in written:
        return ((tuple(written.split()), 1.0),)
    targets, pieces = [], []
    for word in written.split():
        piece, _, quarters = word.partition(":")
        pieces.append(piece)
        if quarters:
            targets.append((tuple(pieces), int(quarters) / 4))
            pieces = []
    return tuple(targets)


class Pair(NamedTuple):
    """A sentence and one of its translations.

    Attributes:
        source, target: their pieces.
        alignment: for each piece of the target, the places in the source that it translates.
        probability: of this translation, given the source.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[frozenset[int], ...]
    probability: float


class _Sentence(NamedTuple):
    """The phrases of a sentence, of which the last three may be missing."""

    form: str
    subject: Phrase
    verb: Phrase
    thing: Phrase
    quality: Phrase | None
    place: Phrase | None
    time: Phrase | None


class LanguagePair:
    """English sentences with German ones, from which both draw alike on every machine.

    Attributes:
        vocabulary: every piece of both languages; the first three are `<PAD>`, `<SOS>`, `<EOS>`.
        FRONTED: how often German puts the time first.
        PLACE_FIRST: how often it puts the place before the things.
    """

    FORMS = ("present", "present", "perfect", "negated")
    FRONTED, PLACE_FIRST = 0.75, 0.75

    def __init__(self) -> None:
        self.subjects, self.things = _phrases(_SUBJECTS), _phrases(_THINGS)
        present, perfect = _phrases(_PRESENT), _phrases(_PERFECT)
        negated = [
            Phrase((b,), p.targets) for b, p in zip(_BASES, present, strict=True)
        ]
        self.verbs = {"present": present, "perfect": perfect, "negated": negated}
        self.qualities = _phrases(_QUALITIES)
        self.places, self.times = _phrases(_PLACES), _phrases(_TIMES)
        others = self.subjects, self.things, self.qualities, self.places, self.times
        words = {".", "has", "does", "not", "hat", "keine"}
        for phrase in chain(*self.verbs.values(), *others):
            words.update(phrase.source, *phrase.spellings)
        # Sentences begin with a subject, German ones also with a time.
        words |= {_capital(phrase.source)[0] for phrase in self.subjects}
        for phrase in (*self.subjects, *self.times):
            words |= {_capital(pieces)[0] for pieces in phrase.spellings}
        words |= {_inflected(q.targets[0][0][0]) for q in self.qualities}
        self.vocabulary = (PADDING, START, END, *sorted(words - {"_"}))
        self._id = {word: i for i, word in enumerate(self.vocabulary)}
        self._pieces = {
            "".join(p.source).replace("+", ""): p.source
            for p in self.things
            if len(p.source) > 1
        }

    # ------------------------------------------------------------------------------- drawing

    def pairs(self, *, split: Split = "train", seed: int = 0) -> Iterator[Pair]:
        """Pairs without end, the same for the same seed. The splits have no source in common."""
        if split not in ("train", "validation"):
            raise ValueError(f'{split=} must be "train" or "validation"')
        if type(seed) is not int:
            raise ValueError(f"{seed=} must be a whole number")
        return self._pairs(split, seed)

    def _pairs(self, split: Split, seed: int) -> Iterator[Pair]:
        rng = Random(f"pairs {seed}")
        while True:
            sentence = self._drawn(rng)
            pairs = self._translated(sentence)
            (pair,) = rng.choices(pairs, [each.probability for each in pairs])
            if split_of(self.text(pair.source)) == split:
                yield pair

    def _drawn(self, rng: Random) -> _Sentence:
        form = rng.choice(self.FORMS)
        parts = [rng.choice(s) for s in (self.subjects, self.verbs[form], self.things)]
        rest = (self.qualities, self.places, self.times)
        parts += [rng.choice(slot) if rng.random() < 0.5 else None for slot in rest]
        return _Sentence(form, *parts)

    # ------------------------------------------------------------------------------- translating

    def translations(self, source: str | Sequence[str]) -> list[Pair]:
        """Every translation of a sentence, with its probability; the likeliest first.

        Args:
            source: the sentence as text or as pieces.

        Raises:
            ValueError: it is no sentence of the language.
        """
        pieces = self.pieces(source) if isinstance(source, str) else tuple(source)
        return self._translated(self._read(pieces))

    def source_log_prob(self, source: str | Sequence[str]) -> float:
        """log P(source) in nats; minus infinity if it is no sentence of the language."""
        pieces = self.pieces(source) if isinstance(source, str) else tuple(source)
        try:
            sentence = self._read(pieces)
        except ValueError:
            return -math.inf
        ways = len(self.FORMS) / self.FORMS.count(sentence.form)
        for slot in (self.subjects, self.verbs[sentence.form], self.things):
            ways *= len(slot)
        optional = self.qualities, self.places, self.times
        for phrase, slot in zip(sentence[-3:], optional, strict=True):
            ways *= 2 if phrase is None else 2 * len(slot)
        return -math.log(ways)

    def next_pieces(self, begun: Sequence[str]) -> dict[str, float]:
        """P(next piece) of a sentence that begins so, before it is translated; exactly.

        What follows the subject is drawn slot by slot and does not depend on it, so the
        probabilities of all beginnings can be added up.

        Raises:
            ValueError: no sentence begins so.
        """
        n = 2 if begun and begun[0] == "The" else 1
        after_subject = len(begun) >= n
        table = self._beginnings[after_subject]
        begun = tuple(begun[n:] if after_subject else begun)
        found = {w: p for w in self.vocabulary if (p := table[(*begun, w)])}
        if not found and table[begun]:
            return {END: 1.0}
        if not found:
            raise ValueError(f"{begun=} must be the beginning of a sentence")
        total = math.fsum(found.values())
        return {word: p / total for word, p in found.items()}

    @functools.cached_property
    def _beginnings(self) -> tuple[Counter, Counter]:
        """P that a subject begins with such pieces, and that what follows it does."""
        firsts = _beginnings([_shares(self.subjects, spell=_capital)])
        heads = {form: tuple(words) for form, words in _AUXILIARIES.items()}
        rest: Counter = Counter()
        for form in self.FORMS:
            slots = [[(heads[form], 1.0)], _shares(self.verbs[form])]
            slots += [_shares(self.qualities, 0.5), _shares(self.things)]
            slots += [_shares(self.places, 0.5), _shares(self.times, 0.5)]
            for begun, p in _beginnings([*slots, [((".",), 1.0)]]).items():
                rest[begun] += p / len(self.FORMS)
        return firsts, rest

    def log_prob(self, source: str | Sequence[str], target: str) -> float:
        """log P(target | source) in nats; minus infinity if it is no translation."""
        for pair in self.translations(source):  # the likeliest first
            if self.text(pair.target) == target:
                return math.log(pair.probability)
        return -math.inf

    def entropy(self, source: str | Sequence[str] | None = None) -> float:
        """H(target | source) in nats: of one sentence, or its mean over all of them."""
        if source is not None:
            chances = [pair.probability for pair in self.translations(source)]
            return -math.fsum(p * math.log(p) for p in chances)
        # Choices are independent given the sentence, and slots are filled independently.
        verbs = [_mean_entropy(self.verbs[form]) for form in self.FORMS]
        order = _binary(self.FRONTED) + _binary(self.PLACE_FIRST)
        rest = (_mean_entropy(self.times) + order) / 2
        return sum(verbs) / len(verbs) + _mean_entropy(self.things) + rest

    def _translated(self, sentence: _Sentence) -> list[Pair]:
        source, at = _english(sentence)
        names = ("subject", "verb", "thing", "place", "time")
        slots = [getattr(sentence, name) for name in names]
        chosen = [[((), 1.0)] if slot is None else slot.targets for slot in slots]
        fronting = [(True, self.FRONTED), (False, 1 - self.FRONTED)]
        placing = [(True, self.PLACE_FIRST), (False, 1 - self.PLACE_FIRST)]
        orders = fronting if sentence.time else [(False, 1.0)]
        places = placing if sentence.place else [(True, 1.0)]
        pairs = []
        for choice in product(*chosen, orders, places):
            *texts, fronted, place_first = (text for text, _ in choice)
            named = dict(zip(names, texts, strict=True))
            target = _german(sentence, named, at, fronted, place_first)
            pieces, alignment = zip(*target, strict=True)
            probability = math.prod(p for _, p in choice)
            pairs.append(Pair(source, _capital(pieces), alignment, probability))
        return sorted(pairs, key=lambda pair: -pair.probability)

    def _read(self, pieces: tuple[str, ...]) -> _Sentence:
        rest = list(pieces)
        if rest and rest[0] == "The":
            rest[0] = "the"
        subject = _take(rest, self.subjects)
        form = next(
            f for f, words in _AUXILIARIES.items() if rest[: len(words)] == words
        )
        del rest[: len(_AUXILIARIES[form])]
        verb, quality = _take(rest, self.verbs[form]), _take(rest, self.qualities)
        thing, place = _take(rest, self.things), _take(rest, self.places)
        time = _take(rest, self.times)
        sentence = _Sentence(form, subject, verb, thing, quality, place, time)
        if None in (subject, verb, thing) or _english(sentence)[0] != pieces:
            raise ValueError(
                f"source={self.text(pieces)!r} must be a sentence such as 'Bobby likes "
                "blackberries.'"
            )
        return sentence

    # ------------------------------------------------------------------------------- writing

    def text(self, pieces: Sequence[str]) -> str:
        """Pieces as they are written: "black+ berries ." gives "blackberries."."""
        return " ".join(pieces).replace("+ ", "").replace(" .", ".")

    def pieces(self, text: str) -> tuple[str, ...]:
        """An English text in pieces."""
        words = text.replace(".", " .").split()
        return tuple(p for word in words for p in self._pieces.get(word, (word,)))

    def encode(self, pieces: Sequence[str]) -> list[int]:
        """Ids of a sentence, between those of `<SOS>` and `<EOS>`.

        Raises:
            ValueError: a piece is of neither language.
        """
        for piece in pieces:
            if piece not in self._id:
                raise ValueError(f"{piece=} must be one of the vocabulary")
        return [self._id[piece] for piece in (START, *pieces, END)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, up to `<EOS>`; what does not belong to a text is left out."""
        pieces = [self.vocabulary[i] for i in ids]
        pieces = pieces[: pieces.index(END)] if END in pieces else pieces
        return self.text([p for p in pieces if p not in (PADDING, START)])


def _shares(
    phrases: Sequence[Phrase], there: float = 1.0, spell: Callable = tuple
) -> list[tuple[tuple[str, ...], float]]:
    """What a slot is filled with: nothing, or each phrase alike."""
    missing = [((), 1 - there)] if there < 1 else []
    return missing + [(spell(p.source), there / len(phrases)) for p in phrases]


def _beginnings(slots: Sequence[Sequence[tuple[tuple[str, ...], float]]]) -> Counter:
    """P that what is drawn from the slots, one after the other, begins with such pieces."""
    found, ended = Counter({(): 1.0}), {(): 1.0}
    for slot in slots:
        longer = Counter()
        for (begun, p), (pieces, share) in product(ended.items(), slot):
            longer[begun + pieces] += p * share
            for n in range(1, len(pieces) + 1):
                found[begun + pieces[:n]] += p * share
        ended = longer
    return found


def _take(rest: list[str], phrases: Sequence[Phrase]) -> Phrase | None:
    """The phrase with which the rest begins, which is taken from it."""
    for phrase in phrases:
        n = len(phrase.source)
        if tuple(rest[:n]) == phrase.source:
            del rest[:n]
            return phrase
    return None


# Behind the subject; a sentence in the present has none, and is tried last.
_AUXILIARIES = {"perfect": ["has"], "negated": ["does", "not"], "present": []}


def _english(sentence: _Sentence) -> tuple[tuple[str, ...], dict[str, int]]:
    """The sentence, and where each of its phrases begins."""
    pieces = [*sentence.subject.source, *_AUXILIARIES[sentence.form]]
    at = {"subject": 0, "auxiliary": len(pieces) - 1}
    for name in ("verb", "quality", "thing", "place", "time"):
        phrase = getattr(sentence, name)
        at[name] = len(pieces)
        pieces += phrase.source if phrase else ()
    at["stop"] = len(pieces)
    return _capital((*pieces, ".")), at


def _german(
    sentence: _Sentence,
    texts: dict[str, tuple[str, ...]],
    at: dict[str, int],
    fronted: bool,
    place_first: bool,
) -> list[tuple[str, frozenset[int]]]:
    """The translation in pieces, each with the places of the source that it stands for."""
    phrases = {
        name: _aligned(pieces, at[name], len(getattr(sentence, name).source))
        for name, pieces in texts.items()
        if pieces
    }
    things, place = phrases["thing"], phrases.get("place", [])
    verb, time = phrases["verb"], phrases.get("time", [])
    negated, perfect = sentence.form == "negated", sentence.form == "perfect"
    if sentence.quality:
        word = sentence.quality.targets[0][0][0]
        word = _inflected(word) if negated else word
        things = [(word, frozenset({at["quality"]})), *things]
    auxiliary = frozenset({at["auxiliary"]})
    if negated:
        things = [("keine", auxiliary), *things]
    second = [("hat", auxiliary)] if perfect else verb
    middle = [place, things] if place_first else [things, place]
    subject = phrases["subject"]
    opening = [time, second, subject] if fronted else [subject, second, time]
    last = [verb if perfect else [], [(".", frozenset({at["stop"]}))]]
    return [piece for part in (*opening, *middle, *last) for piece in part]


def _aligned(
    pieces: tuple[str, ...], begin: int, n: int
) -> list[tuple[str, frozenset[int]]]:
    """The translation of a phrase whose n pieces begin there, each with what it stands for."""
    if n > len(pieces):  # two pieces became one word
        return [(pieces[0], frozenset(range(begin, begin + n)))]
    at = enumerate(pieces, start=begin)
    return [(piece, frozenset({i})) for i, piece in at if piece != "_"]


def _inflected(adjective: str) -> str:
    """The form after "keine"."""
    return f"{adjective}n"


def _capital(pieces: Sequence[str]) -> tuple[str, ...]:
    return (pieces[0][0].upper() + pieces[0][1:], *pieces[1:])


def _mean_entropy(phrases: Sequence[Phrase]) -> float:
    return math.fsum(phrase.entropy for phrase in phrases) / len(phrases)


def _binary(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


GERMAN = LanguagePair()
"""The one pair that there is."""
