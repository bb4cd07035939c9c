"""A grammar of weighted choices: one program, which a writer and a reader both run.

A template says literal text, says words that it remembers, and now and then meets a choice. Two
tellers run the same template:

- the `Writer` settles each choice at random and writes down what is said;
- the `Reader` settles each choice by what the text at its cursor begins with.

Both add up the log-probability of the alternative taken, out of those that were possible there:

    log P(text) = sum over the choices met of log(weight of the one taken / weight of all)

No alternative of a choice begins another one (they are *prefix-free*), so a text can go on in at
most one way at each choice, and has at most one derivation. That is why the sum is the probability
of the text itself, and not of one way among many to arrive at it.

The notation of templates:

    [a|b|c]           one of a, b, c; "3:a" weighs three times as much as "b"
    [a|] rest         a, or nothing
    {friend.home}     something that is known, found by following the dots
    {thing=things}    draws a word that the story has not used yet, and remembers it as "thing"
    {thing=things.a}  the same, but says the word's form "a" ("a red kite")
    {winner:friend}   says nothing; also remembers the friend as "winner"
    <rule>            tells the rule of that name

Chapter 9 reads loss curves against the floor that this makes possible.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

__all__ = [
    "Choice",
    "Departure",
    "Draw",
    "Grammar",
    "Lexicon",
    "Reader",
    "Weights",
    "Writer",
    "leads",
    "tell",
]

Memory = dict[Any, Any]
"""Words by the name they are remembered under; and for each lexicon, the entries used up."""


def tell(nodes: Sequence[Any], teller: Writer | Reader, memory: Memory) -> None:
    """Run a compiled template: a string is said, any other node knows what to do."""
    for node in nodes:
        if type(node) is str:
            teller.say(node)
        else:
            node.tell(teller, memory)


# ---------------------------------------------------------------------------- the two tellers


class Writer:
    """Settles each choice at random; keeps the text and its log-probability in nats."""

    def __init__(self, random: Callable[[], float]) -> None:
        self.random = random
        self.parts: list[str] = []
        self.log_prob = 0.0

    def say(self, text: str) -> None:
        self.parts.append(text)

    def choose(self, choice: Choice | Draw, memory: Memory) -> int:
        weights, used = choice.odds(memory)
        index = weights.draw(self.random())
        while index in used:
            index = weights.draw(self.random())
        self.log_prob += weights.log_prob(index, used)
        return index


class Reader:
    """Settles each choice by what the text says; raises `Departure` where nothing fits."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.log_prob = 0.0

    def say(self, text: str) -> None:
        if not self.text.startswith(text, self.at):
            raise Departure([(text, 1.0)])
        self.at += len(text)

    def choose(self, choice: Choice | Draw, memory: Memory) -> int:
        index = choice.find(self.text, self.at, memory)
        if index is None:
            raise Departure(leads([choice], memory))
        weights, used = choice.odds(memory)
        self.log_prob += weights.log_prob(index, used)
        return index


class Departure(Exception):
    """The text left the language; `expected` is what could have followed, as (text, p)."""

    def __init__(self, expected: Iterable[tuple[str, float]]) -> None:
        super().__init__("the text leaves the language here")
        self.expected = expected


# ------------------------------------------------------------------------------ how things begin


def opening(
    nodes: Sequence[Any], memory: Memory
) -> tuple[str, Choice | Draw | None, Memory]:
    """The text of the nodes before their first choice, that choice, and the memory it meets."""
    text, ahead = "", list(reversed(nodes))
    while ahead:
        node = ahead.pop()
        if type(node) is str:
            text += node
        elif isinstance(node, Choice | Draw):
            return text, node, memory
        elif isinstance(node, Remember):
            memory = {**memory, node.name: follow(node.path, memory)}
        else:
            ahead.extend(reversed(node.expand(memory)))
    return text, None, memory


def begins(nodes: Sequence[Any], text: str, at: int, memory: Memory) -> bool:
    """Whether the text at the cursor begins as the nodes do, up to and through a first choice."""
    if nodes and type(nodes[0]) is str and not text.startswith(nodes[0], at):
        return False
    begin, choice, memory = opening(nodes, memory)
    if not text.startswith(begin, at):
        return False
    return choice is None or choice.find(text, at + len(begin), memory) is not None


def leads(
    nodes: Sequence[Any], memory: Memory, text: str | None = None, at: int = 0
) -> Iterator[tuple[str, float]]:
    """Every way in which the nodes can begin, through their first choice, with its probability.

    Of a beginning that rules a `text` out at the cursor, however it goes on, there is one way.
    """
    begin, choice, memory = opening(nodes, memory)
    if choice is None or not (text is None or text.startswith(begin, at)):
        yield begin, 1.0
        return
    for _, body, p in choice.alternatives(memory):
        if len(body) == 1 and type(body[0]) is str:  # a word of a list, say: most are
            yield begin + body[0], p
            continue
        for lead, probability in leads(body, memory, text, at + len(begin)):
            yield begin + lead, p * probability


# ------------------------------------------------------------------------------------- the nodes


class Weights:
    """Whole-number weights, so that probabilities are fractions whose sum is exactly one."""

    def __init__(self, weights: Iterable[int]) -> None:
        self.weights = list(weights)
        self.cumulative = list(accumulate(self.weights))
        self.total = self.cumulative[-1]
        self.logs = [math.log(weight / self.total) for weight in self.weights]

    def draw(self, uniform: float) -> int:
        """The index at which `uniform`, a number in [0, 1), falls."""
        return bisect_right(self.cumulative, uniform * self.total)

    def probability(self, index: int, used: Sequence[int] = ()) -> float:
        """The probability of an index among those that are not used up."""
        return self.weights[index] / (self.total - sum(self.weights[i] for i in used))

    def log_prob(self, index: int, used: Sequence[int] = ()) -> float:
        return math.log(self.probability(index, used)) if used else self.logs[index]


class Choice:
    """One of several alternatives, each a compiled template."""

    def __init__(self, bodies: Sequence[Sequence[Any]], weights: Iterable[int]) -> None:
        self.bodies = [tuple(body) for body in bodies]
        self.weights = Weights(weights)

    @cached_property
    def kind(self) -> str:
        """A "filler" chooses between words alone, a "template" remembers something."""
        remembers = any(_remembers(body, set()) for body in self.bodies)
        return "template" if remembers else "filler"

    def tell(self, teller: Writer | Reader, memory: Memory) -> None:
        tell(self.take(teller.choose(self, memory), memory), teller, memory)

    def take(self, index: int, memory: Memory) -> Sequence[Any]:
        """What an alternative goes on with; the memory learns what it draws."""
        return self.bodies[index]

    def odds(self, memory: Memory) -> tuple[Weights, Sequence[int]]:
        """The weights, and which alternatives are used up."""
        return self.weights, ()

    def find(self, text: str, at: int, memory: Memory) -> int | None:
        for index, body in enumerate(self.bodies):
            if begins(body, text, at, memory):
                return index
        return None

    def alternatives(
        self, memory: Memory
    ) -> Iterator[tuple[int, Sequence[Any], float]]:
        """Each that is open: its index, how it begins, and its probability."""
        for index, body in enumerate(self.bodies):
            yield index, body, self.weights.probability(index)


class Lexicon:
    """Words that can be drawn. Each entry is a dictionary of forms and of things known about it.

    What is drawn is of one kind: a "name", a "place" or an "object".
    """

    def __init__(
        self,
        entries: Iterable[dict[str, Any]],
        weights: Iterable[int],
        kind: str = "object",
    ) -> None:
        self.entries = list(entries)
        self.weights = Weights(weights)
        self.kind = kind
        self.forms: dict[str, tuple[dict[str, int], list[int]]] = {}
        for index, entry in enumerate(self.entries):
            entry["uses"] = ((self, index),)

    def find(self, form: str, text: str, at: int, used: Sequence[int]) -> int | None:
        """The entry whose form is at the cursor; lengths are tried, words looked up."""
        if form not in self.forms:
            index_of = {entry[form]: index for index, entry in enumerate(self.entries)}
            self.forms[form] = index_of, sorted({len(word) for word in index_of})
        index_of, lengths = self.forms[form]
        for length in lengths:
            index = index_of.get(text[at : at + length])
            if index is not None and index not in used:
                return index
        return None


class Draw:
    """A word from a lexicon that the story has not used yet; it is said and remembered."""

    def __init__(self, name: str, source: Lexicon | tuple[str, ...], form: str) -> None:
        self.name, self.source, self.form = name, source, form

    def lexicon(self, memory: Memory) -> Lexicon:
        source = self.source
        return source if type(source) is Lexicon else follow(source, memory)

    def odds(self, memory: Memory) -> tuple[Weights, Sequence[int]]:
        lexicon = self.lexicon(memory)
        return lexicon.weights, memory.get(lexicon, ())

    tell = Choice.tell

    def take(self, index: int, memory: Memory) -> Sequence[Any]:
        entry = self.lexicon(memory).entries[index]
        memory[self.name] = entry
        for source, number in entry["uses"]:
            used = memory.get(source, ())
            if number not in used:
                memory[source] = (*used, number)
        return (entry[self.form],)

    def find(self, text: str, at: int, memory: Memory) -> int | None:
        lexicon = self.lexicon(memory)
        return lexicon.find(self.form, text, at, memory.get(lexicon, ()))

    def alternatives(
        self, memory: Memory
    ) -> Iterator[tuple[int, Sequence[Any], float]]:
        weights, used = self.odds(memory)
        left = weights.total - sum(weights.weights[i] for i in used)
        for index, entry in enumerate(self.lexicon(memory).entries):
            if index not in used:
                yield index, (entry[self.form],), weights.weights[index] / left


class Known:
    """Something remembered: a word, or a template that hangs on a word."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path

    def tell(self, teller: Writer | Reader, memory: Memory) -> None:
        tell(self.expand(memory), teller, memory)

    def expand(self, memory: Memory) -> Sequence[Any]:
        value = follow(self.path, memory)
        if type(value) is dict:
            value = value["text"]
        return (value,) if type(value) is str else value


class Remember:
    """Gives something that is known a second name, without a word."""

    def __init__(self, name: str, path: tuple[str, ...]) -> None:
        self.name = name
        self.path = path

    def tell(self, teller: Writer | Reader, memory: Memory) -> None:
        memory[self.name] = follow(self.path, memory)


class Rule:
    """A reference to a rule of the grammar."""

    def __init__(self, rules: Mapping[str, Sequence[Any]], name: str) -> None:
        self.rules = rules
        self.name = name

    def tell(self, teller: Writer | Reader, memory: Memory) -> None:
        tell(self.rules[self.name], teller, memory)

    def expand(self, memory: Memory) -> Sequence[Any]:
        return self.rules[self.name]


def _remembers(nodes: Sequence[Any], met: set[str]) -> bool:
    """Whether the nodes, or a rule that they lead to, say or draw something remembered."""
    for node in nodes:
        if isinstance(node, Choice):
            bodies = node.bodies
        elif isinstance(node, Rule):
            bodies = [] if node.name in met else [node.expand({})]
            met = met | {node.name}
        elif type(node) is str:
            bodies = []
        else:
            return True
        if any(_remembers(body, met) for body in bodies):
            return True
    return False


def follow(path: Sequence[str], memory: Memory) -> Any:
    """What the dots lead to."""
    value = memory
    for key in path:
        value = value[key]
    return value


# ---------------------------------------------------------------------------------- the notation


class Grammar:
    """The rule called "story" and those that it leads to, compiled from their notation.

    `lexicons` are found by name in draws. `shorthand` maps the first word of a path onto a
    longer path, so that templates can say {friend} where they mean {hero.friend}.
    """

    TOKEN = re.compile(r"[\[\]|]|\{[^{}]*\}|<[^<>]*>|[^\[\]{}<>|\s]+|\s+")
    WEIGHT = re.compile(r"(\d+):")

    def __init__(
        self,
        source: str,
        *,
        lexicons: Mapping[str, Lexicon],
        shorthand: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.lexicons = lexicons
        self.shorthand = shorthand or {}
        self.templates = rules_of(source)
        self.rules: dict[str, Sequence[Any]] = {}
        self.compile("<story>")

    @property
    def n_templates(self) -> int:
        """How many alternatives the compiled rules have between them."""
        return sum(len(self._alternatives(self.templates[name])) for name in self.rules)

    def compile(self, template: str) -> Sequence[Any]:
        """The nodes of a template."""
        weighted = []
        for tokens in self._alternatives(template):
            weight = 1
            if tokens and (prefix := self.WEIGHT.match(tokens[0])):
                weight, tokens[0] = int(prefix[1]), tokens[0][prefix.end() :]
            weighted.append((weight, [token for token in tokens if token]))
        return self._nodes(weighted)

    def _alternatives(self, template: str) -> list[list[str]]:
        """Splits at the bars outside brackets; what is in brackets stays in one piece."""
        alternatives: list[list[str]] = [[]]
        depth = 0
        for token in self.TOKEN.findall(template):
            depth -= token == "]"
            if token == "|" and not depth:
                alternatives.append([])
            elif depth or token == "]":
                alternatives[-1][-1] += token
            else:
                alternatives[-1].append(token)
            depth += token == "["
        if depth:
            raise ValueError(f"brackets do not match in {template!r}")
        return alternatives

    def _nodes(self, weighted: list[tuple[int, list[str]]]) -> Sequence[Any]:
        """Alternatives that begin alike share their beginning, and part where they differ."""
        common = _common_beginning([tokens for _, tokens in weighted])
        nodes = [node for token in common for node in self._compiled(token)]
        parting: dict[str, list[tuple[int, list[str]]]] = {}
        for weight, tokens in weighted:
            rest = tokens[len(common) :]
            parting.setdefault(rest[0] if rest else "", []).append((weight, rest))
        if len(parting) > 1:
            bodies = [self._nodes(group) for group in parting.values()]
            weights = [sum(weight for weight, _ in group) for group in parting.values()]
            nodes.append(Choice(bodies, weights))
        return _with_options(_joined(nodes))

    def _compiled(self, token: str) -> Sequence[Any]:
        """The nodes of what is in brackets or braces, or of a word."""
        if token[0] == "[":
            return self.compile(token[1:-1])
        if token[0] == "<":
            return [self._rule(token[1:-1])]
        return [self._hole(token[1:-1]) if token[0] == "{" else token]

    def _rule(self, name: str) -> Rule:
        """A reference to a rule, which is compiled when it is met first."""
        if name not in self.templates:
            raise ValueError(f"templates tell a rule that is nowhere: {name!r}")
        if name not in self.rules:
            self.rules[name] = ()  # a rule may lead back to itself
            self.rules[name] = self.compile(self.templates[name])
        return Rule(self.rules, name)

    def _hole(self, hole: str) -> Draw | Remember | Known:
        if "=" in hole:
            name, source = hole.split("=")
            head, *rest = source.split(".")
            if head in self.lexicons:
                return Draw(name, self.lexicons[head], rest[0] if rest else "text")
            return Draw(name, self._path(source), "text")
        if ":" in hole:
            name, source = hole.split(":")
            return Remember(name, self._path(source))
        return Known(self._path(hole))

    def _path(self, dotted: str) -> tuple[str, ...]:
        head, *rest = dotted.split(".")
        return (*self.shorthand.get(head, (head,)), *rest)


def _common_beginning(sequences: list[list[str]]) -> list[str]:
    common = []
    for tokens in zip(*sequences, strict=False):
        if len(set(tokens)) > 1:
            break
        common.append(tokens[0])
    return common


def _joined(nodes: Iterable[Any]) -> list[Any]:
    """Neighbouring strings become one."""
    joined: list[Any] = []
    for node in nodes:
        if type(node) is str and joined and type(joined[-1]) is str:
            joined[-1] += node
        else:
            joined.append(node)
    return joined


def _with_options(nodes: list[Any]) -> tuple[Any, ...]:
    """Lets what follows an optional phrase become part of its alternatives.

    An empty alternative begins every other one. Carried on to the end of its template, it does not.
    """
    for at in range(len(nodes) - 2, -1, -1):
        node = nodes[at]
        if isinstance(node, Choice) and () in node.bodies:
            rest = tuple(nodes[at + 1 :])
            carried = [tuple(_joined((*body, *rest))) for body in node.bodies]
            nodes[at:] = [Choice(carried, node.weights.weights)]
    return tuple(nodes)


def rules_of(source: str) -> dict[str, str]:
    """Splits a text of rules into their templates.

    A rule is its name and a colon on a line, and then alternatives, each of which starts with
    "- " and may go on over several lines. A rule replaces an earlier one of its name.
    """
    rules: dict[str, list[str]] = {}
    for line in source.splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if not line.startswith(" ") and text.endswith(":"):
            rules[text[:-1]] = alternatives = []
        elif text.startswith("- "):
            alternatives.append(text[2:])
        else:
            alternatives[-1] += " " + text
    return {name: "|".join(alternatives) for name, alternatives in rules.items()}
