"""The language of the stories: sampling, exact scores, and what they say about a text.

For a model q and the language p, the expected loss on stories drawn from p is

    E[-log q(story)] = E[-log p(story)] + KL(p || q)  >=  E[-log p(story)],

so -log p of the very stories that a model is evaluated on is the floor of its loss, and the gap to
the floor is what is left to learn. Chapter 9.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from random import Random
from typing import Any, ClassVar, Literal, get_args

from decoder_only.base import checks
from decoder_only.stories.grammar import Departure, Memory, Reader, Writer, leads, tell
from decoder_only.stories.world import (
    ALL_TALES,
    FEWEST_CHARACTERS,
    MOST_CHARACTERS,
    build_grammar,
)

Split = Literal["train", "validation"]
MOST_EXPONENT = 2  # with a steeper law a crowded story would look long for somebody new
VALIDATION_SHARE = 1 / 16


def split_of(text: str) -> Split:
    """The split to which a story belongs, whatever seed wrote it: a matter of its CRC-32."""
    held_out = zlib.crc32(text.encode()) < VALIDATION_SHARE * 2**32
    return "validation" if held_out else "train"


@dataclass(frozen=True)
class Story:
    """A story, and the natural logarithm of its probability under the language that wrote it."""

    text: str
    log_prob: float


@dataclass(frozen=True)
class Floor:
    """The exact score of some stories: no model can expect to do better on them."""

    nats: float
    bytes: int
    stories: int

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.bytes

    def nats_per_token(self, n_tokens: int) -> float:
        """The floor of a mean loss over `n_tokens`, the tokens that the stories come to."""
        checks.number("n_tokens", n_tokens, at_least=1)
        return self.nats / n_tokens


@dataclass(frozen=True)
class Explanation:
    """Whether a text is a story of the language, and if not, where it leaves it.

    Attributes:
        text: what was read.
        in_language: whether it is a story, from beginning to end.
        log_prob: of the whole story, in nats; minus infinity for any other text.
        at: how many of its characters some story begins with.
        expected: what could have followed, most probable first, each with its probability given
            the text before.
    """

    text: str
    in_language: bool
    log_prob: float
    at: int
    expected: tuple[tuple[str, float], ...]

    @property
    def read(self) -> str:
        return self.text[: self.at]

    @property
    def found(self) -> str:
        return self.text[self.at :]

    def __str__(self) -> str:
        if self.in_language:
            bits = Floor(-self.log_prob, len(self.text.encode()), 1).bits_per_byte
            return f"A story of the language: {self.log_prob:.3f} nats, {bits:.3f} bits per byte."
        lines = [
            f"After {self.at} of {len(self.text)} characters, the text leaves the language.",
            f"  it read      {_tail(self.read)}",
            f"  then found   {_head(self.found) if self.found else '(the end)'}",
        ]
        if not self.expected:
            return "\n".join([*lines, "  where the story was over."])
        for number, (text, probability) in enumerate(self.expected[:5]):
            label = "not" if number == 0 else ""
            lines.append(f"  {label:12} {_head(text)}   p = {probability:.3f}")
        if len(self.expected) > 5:
            lines.append(f"  {'':12} or {len(self.expected) - 5} more")
        return "\n".join(lines)


def _head(text: str, width: int = 40) -> str:
    whole = json.dumps(text[:width])
    return whole if len(text) <= width else f"{whole[:-1]}..."


def _tail(text: str, width: int = 40) -> str:
    whole = json.dumps(text[-width:])
    return whole if len(text) <= width else f'"...{whole[1:]}'


class StoryLanguage:
    """A language of short stories, in which the probability of a text is known exactly.

    Args:
        seed: picks the world: who there is, and what is true of them.
        n_characters: how many people there are, and how long the lists of things, foods and
            places may be; from 24 to 16,384.
        exponent: Zipf's: the r-th most common person is r ** -exponent as likely as the first, so
            0 makes all alike, and a larger exponent leaves less to learn; from 0 to 2.
        tales: those of the fourteen tales that are told; all of them by default. Each choice is a
            language of its own, with its own exact floor.

    Raises:
        ValueError: for sizes that no world can have.

    `StoryLanguage.named` knows three sizes, which `SIZES` lists:

                                     facts            bits per        of a story
        name     people  tales  number    bits  templates  byte    bits  bytes
        hamlet       24      3     216    1331        303  0.1478    97    657
        village     128      7    1152    8196        382  0.1604    99    619
        full       1024     14    9216   72578        522  0.1705   109    637
    """

    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "hamlet": {
            "n_characters": 24,
            "exponent": 0.5,
            "tales": ("lost", "gift", "garden"),
        },
        "village": {
            "n_characters": 128,
            "exponent": 0.75,
            "tales": ("lost", "gift", "storm", "runaway", "dare", "noise", "garden"),
        },
        "full": {},
    }

    def __init__(
        self,
        *,
        seed: int = 0,
        n_characters: int = 1024,
        exponent: float = 1.0,
        tales: Sequence[str] | None = None,
    ) -> None:
        tales = ALL_TALES if tales is None else tales
        checks.whole("seed", seed)
        sizes = {"at_least": FEWEST_CHARACTERS, "at_most": MOST_CHARACTERS}
        checks.whole("n_characters", n_characters, **sizes)
        checks.number("exponent", exponent, at_least=0, at_most=MOST_EXPONENT)
        is_list = isinstance(tales, Collection) and len(tales) > 0
        if not is_list or not {*tales} <= {*ALL_TALES}:
            raise ValueError(f"{tales=} must be some of {', '.join(ALL_TALES)}")
        self.seed = int(seed)
        self.n_characters = int(n_characters)
        self.exponent = float(exponent)
        self.tales = tuple(tale for tale in ALL_TALES if tale in tales)
        self.grammar = build_grammar(
            seed=seed, n_characters=n_characters, exponent=exponent, tales=self.tales
        )
        self._story = self.grammar.rules["story"]

    @classmethod
    def named(cls, name: str, *, seed: int = 0) -> StoryLanguage:
        """The language of that name in `SIZES`.

        Raises:
            ValueError: there is no such name.
        """
        checks.choice("language", name, cls.SIZES)
        return cls(seed=seed, **cls.SIZES[name])

    @classmethod
    def hamlet(cls, *, seed: int = 0) -> StoryLanguage:
        """Few people, and three tales: a language that a model can learn in minutes."""
        return cls.named("hamlet", seed=seed)

    @property
    def arguments(self) -> dict[str, Any]:
        """`StoryLanguage(**arguments)` is this language, also after a way through JSON."""
        some = {} if self.tales == ALL_TALES else {"tales": self.tales}
        names = ("seed", "n_characters", "exponent")
        return {name: getattr(self, name) for name in names} | some

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"StoryLanguage({given})"

    # ------------------------------------------------------------------------------- writing

    def sample(self, rng: Random) -> Story:
        """One story, with the log-probability that its writing recorded."""
        writer = Writer(rng.random)
        tell(self._story, writer, {})
        return Story("".join(writer.parts), writer.log_prob)

    def stories(self, *, split: Split = "train", seed: int = 0) -> Iterator[str]:
        """Stories without end, the same for the same seed on every machine.

        The splits have no story in common, because a story's split depends on its text alone. Each
        split is the language thinned by a hash that has nothing to do with what the stories say,
        so the score of a validation set under the language remains its floor. A model could go
        below it only by computing CRC-32, and then by no more than log(16) nats per story.
        """
        checks.choice("split", split, get_args(Split))
        checks.whole("seed", seed)
        return self._stories(split, seed)

    def _stories(self, split: Split, seed: int) -> Iterator[str]:
        rng = Random(f"stories {seed}")
        while True:
            text = self.sample(rng).text
            if split_of(text) == split:
                yield text

    # ------------------------------------------------------------------------------- reading

    def log_prob(self, text: str) -> float:
        """The log-probability of a whole story in nats; minus infinity for any other text."""
        reader = Reader(text)
        try:
            tell(self._story, reader, {})
        except Departure:
            return -math.inf
        return reader.log_prob if reader.at == len(text) else -math.inf

    def explain(self, text: str) -> Explanation:
        """Whether a text is a story, or else where it stops being one and what could follow."""
        reader = Reader(text)
        try:
            tell(self._story, reader, {})
        except Departure as departure:
            at, expected = _furthest(text, reader.at, departure.expected)
            return Explanation(text, False, -math.inf, at, expected)
        whole = reader.at == len(text)
        log_prob = reader.log_prob if whole else -math.inf
        return Explanation(text, whole, log_prob, reader.at, ())

    def surprisal(self, text: str, *, first: int | None = None) -> list[float]:
        """-log P(character | the text before it) in nats, for each character of a story.

        They add up to `-log_prob(text)`: this is the loss that a perfect model of characters
        would have, one by one. Added up over the characters of a token, it is a token's.

        Args:
            first: of how many characters at the beginning; the fewer, the quicker. None for all.

        Raises:
            ValueError: the text is not a story, or `first` is not a whole number from 0.
        """
        checks.whole("first", first, at_least=0, optional=True)
        meter = _Meter(text, len(text) if first is None else first)
        try:
            tell(self._story, meter, {})
        except Departure:
            meter.at = -1
        if meter.at != len(text):
            raise ValueError(f"not a story of this language.\n{self.explain(text)}")
        return meter.nats[:first]

    # ------------------------------------------------------------------------------ the floor

    def floor(self, stories: Iterable[str]) -> Floor:
        """The exact score of these stories.

        Raises:
            ValueError: a text is not a story of this language, or there are none.
        """
        nats, size, count = 0.0, 0, 0
        for count, text in enumerate(stories, start=1):
            log_prob = self.log_prob(text)
            if log_prob == -math.inf:
                raise ValueError(
                    f"story {count - 1} is not of this language.\n{self.explain(text)}"
                )
            nats -= log_prob
            size += len(text.encode())
        if not count:
            raise ValueError("the floor needs at least one story, got none")
        return Floor(nats, size, count)

    # ------------------------------------------------------------------------------ the world

    @property
    def characters(self) -> list[str]:
        """Everybody's name, the most common first."""
        return [person["text"] for person in self.grammar.lexicons["people"].entries]

    @property
    def n_facts(self) -> int:
        """How many facts there are about everybody together."""
        return self.n_characters * len(self.facts(self.characters[0]))

    @property
    def fact_bits(self) -> float:
        """The information in all facts, in bits, for a reader who knows the lists and weights."""
        people = self.grammar.lexicons["people"].entries
        return math.fsum(person["nats"] for person in people) / math.log(2)

    def facts(self, name: str) -> dict[str, str]:
        """What is true of a character in every story.

        Raises:
            KeyError: nobody has that name.
        """
        people = self.grammar.lexicons["people"].entries
        person = next((each for each in people if each["text"] == name), None)
        if person is None:
            raise KeyError(f"nobody in this world is called {name!r}")
        pet = person["pet"]
        return {
            "friend": person["friend"]["text"],
            "pet": f"{pet['text']} the {pet['kind']}",
            "favourite food": person["food"]["text"],
            "treasure": person["toy"]["text"],
            "favourite place": person["haunt"]["text"],
            "home": f"{person['home']['text']} on {person['street']}",
            "afraid of": person["fear"]["text"],
            "likes": person["hobby"]["text"],
            "in trouble": person["habit"]["text"],
        }


def agreement(text: str, at: int, lead: str) -> int:
    """How many characters at the start of `lead` agree with the text at the cursor."""
    pairs = zip(text[at : at + len(lead)], lead, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _furthest(
    text: str, start: int, expected: Iterable[tuple[str, float]]
) -> tuple[int, tuple[tuple[str, float], ...]]:
    """How far the text agrees with one of the continuations, and the rest of those that agree."""
    agreements = [(agreement(text, start, lead), lead, p) for lead, p in expected]
    longest = max(length for length, _, _ in agreements)
    agreeing = [(lead[longest:], p) for n, lead, p in agreements if n == longest]
    total = math.fsum(p for _, p in agreeing)
    ranked = sorted(agreeing, key=lambda pair: -pair[1])
    return start + longest, tuple((lead, p / total) for lead, p in ranked)


class _Meter(Reader):
    """Spreads the surprise of each choice over the characters that settle it.

    Read so far, the text leaves the alternative that will be taken with some posterior
    probability. It starts as the alternative's prior and ends as one; each character is charged
    for the rise, in logarithms, that it brings.
    """

    def __init__(self, text: str, n_asked: int) -> None:
        super().__init__(text)
        self.nats, self.n_asked = [0.0] * len(text), n_asked

    def choose(self, choice: Any, memory: Memory) -> int:
        index = super().choose(choice, memory)
        if self.at >= self.n_asked:
            return index
        mine: list[tuple[str, float]] = []
        rivals: list[tuple[str, float]] = []
        letter = self.text[self.at : self.at + 1]
        for _, body, p in choice.alternatives(memory):
            # However it goes on, its first letter rules it out.
            if body and type(body[0]) is str and body[0][:1] not in ("", letter):
                rivals.append((body[0], p))
                continue
            some = leads(body, memory, self.text, self.at)
            begun = [(lead, p * p_lead) for lead, p_lead in some]
            taken = any(self.text.startswith(lead, self.at) for lead, _ in begun)
            (mine if taken else rivals).extend(begun)
        at, offset, posterior = self.at, 0, _posterior(mine, rivals)
        while rivals:
            letter = self.text[at + offset]
            mine = [pair for pair in mine if pair[0][offset : offset + 1] == letter]
            rivals = [pair for pair in rivals if pair[0][offset : offset + 1] == letter]
            before, posterior = posterior, _posterior(mine, rivals)
            self.nats[at + offset] += math.log(posterior / before)
            offset += 1
        return index


def _posterior(mine: list[tuple[str, float]], rivals: list[tuple[str, float]]) -> float:
    own = math.fsum(mass for _, mass in mine)
    return own / (own + math.fsum(mass for _, mass in rivals))
