"""What a perfect model knows: every choice of a text, its hidden state, and the next token.

A story is a path through the choices of the grammar. At any place the path so far fixes
what is remembered (who is in the story, who holds what, where), and the choices still open fix
what can follow. So the distribution of the next token is a sum over paths:

    P(token | tokens before) = sum of P(path) over paths whose text is encoded as those tokens
                               and then this one  /  the same sum without "and then this one"

A `Place` follows a text through the grammar as far as the text settles it; `NextToken` grows from
there a tree of all that can follow, until the token is settled, too. Each piece of text is of a
kind:

    template    how the story goes on             filler     words on which nothing depends
    name        a person that is drawn            fact       what is true of a word in every story
    place       a place, or a corner of it        agreement  what this story has said already
    object      any other thing that is drawn

The first five are choices. Facts and agreement are certain for a model that knows the language,
and they are the hard part to learn. Chapter 14.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from decoder_only.stories.grammar import (
    Choice,
    Draw,
    Known,
    Memory,
    Remember,
    follow,
    leads,
    opening,
)
from decoder_only.stories.language import StoryLanguage, agreement
from decoder_only.tokenization.tokenizer import END_OF_TEXT, BytePairTokenizer

__all__ = [
    "KINDS",
    "Fork",
    "Met",
    "NextToken",
    "Settled",
    "Told",
    "choices",
    "facts_told",
    "hidden_state",
    "kinds",
    "probabilities",
    "spans",
    "twin",
]

KINDS = ("template", "filler", "name", "place", "object", "fact", "agreement")
NAMING = {"text", "Text", "a", "A", "at", "some", "grown"}
"""Forms that say which word it is."""
AGREEING = {"she", "her", "him", "herself", "She", "Her", "it", "is", "was"}
"""Forms that agree with a word and do not say which it is."""


# --------------------------------------------------------------------- following a text


@dataclass
class Place:
    """A place in a story, on one path through its choices.

    Attributes:
        ahead: what is still to be told, as linked pairs (node, kind), the next one first.
        memory: what is remembered, see `grammar.Memory`.
        told: what the story has said already; to say it again is agreement.
        at: how many characters of the text come before it.
        fact: the last that came up, as (whose, which).
    """

    ahead: tuple[Any, str, Any] | None = None
    memory: Memory = field(default_factory=dict)
    told: frozenset[Any] = frozenset()
    at: int = 0
    fact: tuple[str, str] | None = None

    def put(self, nodes: Sequence[Any], kind: str) -> None:
        """Puts nodes before what is ahead."""
        for node in reversed(nodes):
            self.ahead = node, kind, self.ahead

    def next(self) -> tuple[str | Choice | Draw | None, str]:
        """The next node that says or chooses something, and its kind; None after the end."""
        while self.ahead:
            node, kind, self.ahead = self.ahead
            if isinstance(node, str | Choice | Draw):
                return node, kind
            if isinstance(node, Remember):
                self.memory[node.name] = follow(node.path, self.memory)
            else:
                nodes = node.expand(self.memory)
                if isinstance(node, Known) and type(nodes[0]) is str:
                    kind = self._kind_of_known(node.path)
                self.put(nodes, kind)
        return None, "template"

    def _kind_of_known(self, path: Sequence[str]) -> str:
        record, key = follow(path[:-1], self.memory), path[-1]
        if type(record[key]) is dict:
            record, key = record[key], "text"
        if key == "a" and "kind" in record:  # "a cat" is not yet the cat's name
            key = "kind"
        what = id(record) if key in NAMING else (id(record), key)
        known = key in AGREEING or what in self.told
        self.told |= {what}
        if not known:
            self.fact = self._whose(path)
        return "agreement" if known else "fact"

    def _whose(self, path: Sequence[str]) -> tuple[str, str]:
        """A friend's food is a fact of the friend; what a pet says is one of who has the pet."""
        word, rest = self.memory[path[0]], [*path[1:]]
        while len(rest) > 1 and "friend" in word[rest[0]] and rest[1] not in NAMING:
            word = word[rest.pop(0)]
        if rest[-1] == "a" and rest[0] == "pet":  # "a cat" is not yet the cat's name
            rest[-1] = "kind"
        forms = {*rest[1:]} & NAMING
        return word["text"], ".".join(key for key in rest if key not in forms)

    def kind_of(self, choice: Choice | Draw) -> str:
        drawn = isinstance(choice, Draw)
        return choice.lexicon(self.memory).kind if drawn else choice.kind

    def take(self, choice: Choice | Draw, index: int) -> None:
        """Settles a choice that has just been met."""
        kind = self.kind_of(choice)
        self.put(choice.take(index, self.memory), kind)
        if isinstance(choice, Draw):
            self.told |= {id(self.memory[choice.name])}

    def copy(self) -> Place:
        return Place(self.ahead, dict(self.memory), self.told, self.at, self.fact)

    def advance(self, text: str) -> Iterator[tuple[str | Choice | Draw, str, int]]:
        """Goes through all that the text settles, from the first character on.

        Yields each node that says or chooses something before it is told, with the kind of a
        string, and the index of the alternative that is taken at a choice.
        """
        while self.ahead:
            node, kind = self.next()
            if type(node) is str and text.startswith(node, self.at):
                yield node, kind, 0
                self.at += len(node)
                continue
            if node is None:
                return
            index = None if type(node) is str else node.find(text, self.at, self.memory)
            if index is None:  # not settled yet
                self.put([node], kind)
                return
            yield node, kind, index
            self.take(node, index)


def _beginning(language: StoryLanguage) -> Place:
    place = Place()
    place.put(language.grammar.rules["story"], "template")
    return place


def _through(
    language: StoryLanguage, text: str
) -> Iterator[tuple[Place, Any, str, int]]:
    """The place before each node of a whole story, with what `Place.advance` yields."""
    place = _beginning(language)
    for met in place.advance(text):
        yield place, *met
    if place.ahead or place.at != len(text):
        raise ValueError(f"not a story of this language.\n{language.explain(text)}")


# -------------------------------------------------------------------- what a text is made of


@dataclass(frozen=True)
class Met:
    """A choice that a story met.

    Attributes:
        kind: one of the first five of `KINDS`.
        start, end: the characters that settle it are text[start:end].
        options: how each alternative begins, with its probability, in the order of the grammar.
        taken: which of the options the text goes on with.
    """

    kind: str
    start: int
    end: int
    options: tuple[tuple[str, float], ...]
    taken: int

    @property
    def nats(self) -> float:
        """The information in it; over a story they add up to -log P(story)."""
        return -math.log(self.options[self.taken][1])


def choices(language: StoryLanguage, text: str) -> list[Met]:
    """Every choice that a story met, in order, with its exact distribution.

    Raises:
        ValueError: the text is not a story.
    """
    met = []
    for place, node, _, index in _through(language, text):
        if type(node) is str:
            continue
        memory, options, taken, longest = place.memory, [], 0, 0
        for other, body, p in node.alternatives(memory):
            begin, _, _ = opening(body, memory)
            if other == index:
                taken = len(options)
            else:
                for lead, _ in leads(body, memory):
                    longest = max(longest, agreement(text, place.at, lead))
            options.append((begin, p))
        end = min(place.at + longest + 1, len(text))
        met.append(Met(place.kind_of(node), place.at, end, tuple(options), taken))
    return met


def kinds(language: StoryLanguage, text: str) -> list[str]:
    """The kind of each character of a story: of the node of the grammar that says it.

    Raises:
        ValueError: the text is not a story.
    """
    of_characters: list[str] = []
    for _, node, kind, _ in _through(language, text):
        if type(node) is str:
            of_characters += [kind] * len(node)
    return of_characters


@dataclass(frozen=True)
class Told:
    """A fact that a story tells in text[start:end], as "pet.sound" of Ivo."""

    whose: str
    which: str
    start: int
    end: int


def facts_told(language: StoryLanguage, text: str) -> list[Told]:
    """Every fact that a story tells, in order. To say it again is agreement.

    Raises:
        ValueError: the text is not a story.
    """
    return [
        Told(*place.fact, place.at, place.at + len(node))
        for place, node, kind, _ in _through(language, text)
        if type(node) is str and kind == "fact"
    ]


def hidden_state(language: StoryLanguage, text: str) -> list[dict[str, str]]:
    """What the grammar remembers when each character of a story is said.

    It maps roles to words: "hero" and "other" are people of the story, "place" and "nook" where
    things happen, "thing" what was found, and "thing.holder" who or what has it now.

    Raises:
        ValueError: the text is not a story.
    """
    states: list[dict[str, str]] = []
    for place, node, _, _ in _through(language, text):
        if type(node) is str:
            roles = place.memory.items()
            state = {role: word["text"] for role, word in roles if "text" in word}
            states += [state] * len(node)
    return states


def spans(tokenizer: BytePairTokenizer, ids: Sequence[int]) -> list[tuple[int, int]]:
    """The characters of each token: token i of a story is text[start:end]. Stories are ASCII."""
    ends = list(accumulate(len(tokenizer.token_bytes(id)) for id in ids))
    return list(pairwise([0, *ends]))


# -------------------------------------------------------------------------- what could follow


@dataclass(frozen=True, slots=True)
class Settled:
    """One token, whatever is chosen; `kind` is that of the word it begins or goes on with."""

    kind: str
    token: int


@dataclass(frozen=True, slots=True)
class Fork:
    """A choice that the next token depends on: its alternatives, which sum to one."""

    kind: str
    branches: tuple[tuple[float, Settled | Fork], ...]


def probabilities(tree: Settled | Fork) -> dict[int, float]:
    """The distribution of the next token: the sum over the ways to come to each."""
    if isinstance(tree, Settled):
        return {tree.token: 1.0}
    total: dict[int, float] = {}
    for p, branch in tree.branches:
        for token, p_token in probabilities(branch).items():
            total[token] = total.get(token, 0.0) + p * p_token
    return total


class NextToken:
    """The exact distribution of the next token of a story, under any tokenizer that cuts at spaces.

    Args:
        language: whose stories.
        tokenizer: none of its tokens may go on over a space that follows another character, as no
            token of GPT-2's does. So a word is encoded alike whatever follows it, and it is
            enough to look ahead to the end of a word.

    Raises:
        ValueError: the tokenizer has such a token, or no end of text.
    """

    def __init__(self, language: StoryLanguage, tokenizer: BytePairTokenizer) -> None:
        special = tokenizer.special_tokens
        if END_OF_TEXT not in special:
            raise ValueError(
                f"special_tokens={special} must be some with {END_OF_TEXT}"
            )
        ordinary = set(range(tokenizer.vocab_size)) - {*special.values()}
        self._bytes = {id: tokenizer.token_bytes(id) for id in ordinary}
        for token in self._bytes.values():
            if b" " in token.lstrip(b" "):
                raise ValueError(f"a {token=} must be cut before its space")
        self.language, self.tokenizer = language, tokenizer
        self._ids: dict[str, list[int]] = {}
        self.end_of_text = special[END_OF_TEXT]

    def along(self, text: str) -> Iterator[Settled | Fork]:
        """What could follow each prefix of a story's tokens, from the empty one to the whole."""
        ids, place, end = self.tokenizer.encode(text), _beginning(self.language), 0
        yield self._following(place, "", [])
        for count, id in enumerate(ids, start=1):
            end += len(self._bytes[id])
            yield self._following(place, text[:end], ids[:count])

    def after(self, ids: Sequence[int]) -> Settled | Fork:
        """What could follow these tokens of a story, with or without an end of text before them.

        Raises:
            ValueError: no story begins with them.
        """
        ids = list(ids[1:] if list(ids[:1]) == [self.end_of_text] else ids)
        for id in ids:
            if id not in self._bytes:
                known = f"one of the {len(self._bytes)} that stand for text"
                raise ValueError(f"a token's {id=} must be {known}")
        text = b"".join(self._bytes[id] for id in ids).decode("ascii", "replace")
        settled = self.tokenizer.encode(text[: _last_word(text)])
        if ids[: len(settled)] != settled:
            raise ValueError(f"no story is encoded as these tokens of {text!r}")
        return self._following(_beginning(self.language), text, ids)

    def _following(self, place: Place, text: str, ids: list[int]) -> Settled | Fork:
        """Moves the place through what the text settles, and grows from there what can follow."""
        for _ in place.advance(text):
            pass
        start = _last_word(text)  # all before it is encoded for good
        begun = min(start, place.at)
        last, size = len(ids), len(text)
        while size > start:
            last -= 1
            size -= len(self._bytes[ids[last]])
        goal = _Goal(text[begun:], start - begun, ids[last:])
        _, tree = self._grow(place.copy(), text[begun : place.at], None, goal)
        if tree is None:
            raise ValueError(
                f"no story is encoded as tokens that begin as those of {text!r}"
            )
        return tree

    def _grow(
        self, place: Place, text: str, kind: str | None, goal: _Goal
    ) -> tuple[float, Settled | Fork | None]:
        """What can follow `text`, and the probability that it agrees with the goal."""
        while True:
            behind = text[goal.word :]
            if cut := _CUT.search(behind, len(goal.text) - goal.word + 1):
                return self._settled(behind[: cut.start()], kind, goal)
            node, node_kind = place.next()
            if node is None:
                return self._settled(behind, kind or node_kind, goal, self.end_of_text)
            if type(node) is not str:
                return self._fork(node, place, text, kind, goal)
            text += node
            if not _agree(text, goal.text):
                return 0.0, None
            if kind is None and text[len(goal.text) :].strip():
                kind = node_kind  # of the word, not of the space before it

    def _said(
        self, ahead: Any, text: str, kind: str | None, goal: _Goal
    ) -> tuple[float, Settled | None] | None:
        """What follows if strings alone settle it, as most often they do; None otherwise."""
        while ahead and type(ahead[0]) is str:
            node, node_kind, ahead = ahead
            text += node
            if not _agree(text, goal.text):
                return 0.0, None
            if kind is None and text[len(goal.text) :].strip():
                kind = node_kind  # of the word, not of the space before it
            behind = text[goal.word :]
            if cut := _CUT.search(behind, len(goal.text) - goal.word + 1):
                return self._settled(behind[: cut.start()], kind, goal)
        return None

    def _settled(
        self, word: str, kind: str, goal: _Goal, *end: int
    ) -> tuple[float, Settled | None]:
        if word not in self._ids:
            self._ids[word] = self.tokenizer.encode(word)
        ids, n_before = [*self._ids[word], *end], len(goal.ids)
        if ids[:n_before] != goal.ids:
            return 0.0, None
        return 1.0, Settled(kind, ids[n_before])

    def _fork(
        self,
        node: Choice | Draw,
        place: Place,
        text: str,
        kind: str | None,
        goal: _Goal,
    ) -> tuple[float, Settled | Fork | None]:
        """All alternatives that agree with the goal; those settled by one token are one branch."""
        forks, settled, mass, own = [], {}, 0.0, place.kind_of(node)
        for index, body, p in node.alternatives(place.memory):
            ahead = place.ahead
            for part in reversed(body):
                ahead = part, own, ahead
            found = self._said(ahead, text, kind, goal)
            if found is None:  # it takes more than strings
                other = place.copy()
                other.take(node, index)
                found = self._grow(other, text, kind, goal)
            agreeing, tree = found
            mass += p * agreeing
            if isinstance(tree, Fork):
                forks.append((p * agreeing, tree))
            elif tree is not None:
                before, _ = settled.get(tree.token, (0.0, None))
                settled[tree.token] = before + p * agreeing, tree
        branches = [*settled.values(), *forks]
        if len(branches) < 2:
            return mass, branches[0][1] if branches else None
        return mass, Fork(own, tuple((p / mass, tree) for p, tree in branches))


@dataclass(frozen=True)
class _Goal:
    """What a path must agree with: a text, where its last word begins, and that word's tokens."""

    text: str
    word: int
    ids: list[int]


_CUT = re.compile("(?<=[^ ]) ")


def _last_word(text: str) -> int:
    """Where the last word of a text begins, with its space."""
    return max((cut.start() for cut in _CUT.finditer(text)), default=0)


def _agree(one: str, other: str) -> bool:
    """Whether one of two texts begins with the other."""
    return one.startswith(other) or other.startswith(one)


# ----------------------------------------------------------------------------------- twins


def twin(language: StoryLanguage, text: str, role: str, word: str) -> str:
    """The counterfactual twin of a story: told by the same choices, but with one word exchanged.

    All that agrees with the word follows: with another hero come another friend, another pet.

    Args:
        role: a name under which the story remembers a word that it draws, see `hidden_state`.
        word: what it draws instead.

    Raises:
        ValueError: the text is not a story, or draws nothing under that name; nothing of that list
            is called so; or the choices that follow cannot be taken with it.
    """
    steps = list(_through(language, text))
    taken = [index for _, node, _, index in steps if type(node) is not str]
    place, told, roles = _beginning(language), "", []
    while (met := place.next()[0]) is not None:
        if type(met) is str:
            told += met
            continue
        index = taken[len(roles)]
        roles.append(met.name if isinstance(met, Draw) else None)
        entries = met.lexicon(place.memory).entries if roles[-1] else met.bodies
        if roles[-1] == role and roles.count(role) == 1:
            words = [entry["text"] for entry in entries]
            if word not in words:
                raise ValueError(f"{word=} must be one that {role!r} can be")
            index = words.index(word)
        if index >= len(entries) or index in met.odds(place.memory)[1]:
            raise ValueError(f"with {word!r} as {role!r} the story has no such twin")
        place.take(met, index)
    if role not in roles:
        drawn = ", ".join(sorted({*roles} - {None}))
        raise ValueError(f"{role=} must be one of {drawn}, which this story draws")
    return told
