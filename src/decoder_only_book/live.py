"""What the story machine runs on, written as scripts: weights, tokenizers, languages, letters.

A page that is opened from a file may not fetch anything, so each piece of data is a script that
hands over one value: `live.put("hamlet/weights/0", "...")`. Weights are in 16 bits, in parts, so
that a bar can tell how many have come; each part is compressed (see `packed`). A language is the
compiled grammar of `decoder_only.stories` as plain data, which book/_static/live/language.js
interprets.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from decoder_only.stories import StoryLanguage
from decoder_only.stories.grammar import Choice, Draw, Known, Lexicon, Remember, Rule
from decoder_only.stories.world import capital
from decoder_only.tokenization.pretokens import _members_by_tiktoken
from decoder_only_book.stored import FOLDER

MODELS = ("hamlet", "full")
PART = 256 * 1024
"""Bytes of weights in one script."""
DERIVED = {"Text": capital, "a": lambda text: _article(text)}
DERIVED["A"] = lambda text: capital(_article(text))


def write(folder: Path) -> dict[str, int]:
    """Write all data into a folder, which is made; files that stay the same are left alone.

    Returns:
        The size of each file in bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for name, values in scripts().items():
        lines = [f"live.put({_json(key)}, {_json(value)});\n" for key, value in values]
        content, path = "".join(lines).encode(), folder / f"{name}.js"
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
        sizes[path.name] = len(content)
    return sizes


def scripts() -> dict[str, list[tuple[str, Any]]]:
    """The scripts by name; each hands over its values under their keys."""
    made: dict[str, list[tuple[str, Any]]] = {"letters": [("letters", letters())]}
    for name in MODELS:
        folder = FOLDER / name
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        weights = (folder / "weights.safetensors").read_bytes()
        parts = [weights[at : at + PART] for at in range(0, len(weights), PART)]
        about = {"model": config["model"], "data": config["data"], "parts": len(parts)}
        language = StoryLanguage.named(config["data"].get("language", "full"))
        made[f"{name}-0"] = [
            (f"{name}/about", about | {"bytes": len(weights), "part": PART}),
            (f"{name}/tokenizer", tokenizer),
        ]
        for number, part in enumerate(parts, start=1):
            made[f"{name}-{number}"] = [(f"{name}/weights/{number - 1}", packed(part))]
        made[f"{name}-language"] = [(f"{name}/language", language_data(language))]
    return made


def packed(part: bytes) -> list[str]:
    """The first bytes of all pairs, and the second ones: each compressed, in base64.

    The second byte of a bfloat16 is its sign and most of its exponent, which take some 3 bits of
    the 8. The first byte is nearly noise. Apart, the two take a quarter less than together.
    """
    return [base64.b64encode(_compressed(part[i::2])).decode("ascii") for i in (0, 1)]


def _compressed(plain: bytes) -> bytes:
    """The shorter of what zlib's strategies for numbers make of it."""
    found = []
    for strategy in (zlib.Z_HUFFMAN_ONLY, zlib.Z_FILTERED):
        packer = zlib.compressobj(9, zlib.DEFLATED, 15, 9, strategy)
        found.append(packer.compress(plain) + packer.flush())
    return min(found, key=len)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


# ------------------------------------------------------------------------------- the letters


def letters() -> dict[str, str]:
    """The characters that tiktoken takes for letters (L) and numbers (N), as ranges.

    Browsers know different versions of Unicode, and the tokens must not depend on that. Ranges are
    pairs in base 36: how many characters after the last range this one starts, and its length.
    """
    every = "".join(
        chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000
    )
    found = {}
    for category in ("L", "N"):
        kept = bytes(_members_by_tiktoken(category).encode_ordinary(every)).decode()
        ranges: list[list[int]] = []
        for code in map(ord, kept):
            if ranges and code == ranges[-1][1]:
                ranges[-1][1] += 1
            else:
                ranges.append([code, code + 1])
        gaps, last = [], 0
        for start, end in ranges:
            gaps += [_base36(start - last), _base36(end - start)]
            last = end
        found[category] = " ".join(gaps)
    return found


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = digits[number % 36]
    while number := number // 36:
        text = digits[number % 36] + text
    return text


# ------------------------------------------------------------------------------- the language


def language_data(language: StoryLanguage) -> dict[str, Any]:
    """A language as plain data: its rules, its lists of words, and what is known of each word.

    Nodes of the grammar are lists: ["c", weights, bodies] is a choice, ["d", name, source, form] a
    draw from a list, ["k", path] something known, ["r", name, path] a second name, ["u", rule] a
    rule; a string is said. A record is its kind (which keys it has) and its values; see `_Packer`.
    """
    packer = _Packer()
    grammar = language.grammar
    rules = {name: packer.nodes(nodes) for name, nodes in grammar.rules.items()}
    for source in grammar.lexicons.values():
        packer.lexicon(source)
    packer.work()
    return {
        "rules": rules,
        "shapes": packer.shapes,
        "records": packer.records,
        "lexicons": packer.lexicons,
        "templates": packer.templates,
        "arguments": language.arguments,
    }


class _Packer:
    """Numbers everything that records refer to, since they refer to each other.

    A value of a record is a text; 0 where the form follows from the text; or a pair of what it is
    and its number: [0, record], [1, template], [2, list of words].
    """

    def __init__(self) -> None:
        self.shapes: list[list[str]] = []
        self.records: list[list[Any]] = []
        self.lexicons: list[list[Any]] = []
        self.templates: list[list[Any]] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no number is used for two things
        self._ahead: list[tuple[int, dict[str, Any]]] = []

    def _number(self, thing: object, among: list[Any]) -> tuple[int, bool]:
        is_new = id(thing) not in self._numbers
        if is_new:
            self._numbers[id(thing)] = len(among)
            self._kept.append(thing)
            among.append([])
        return self._numbers[id(thing)], is_new

    def nodes(self, nodes: Any) -> list[Any]:
        return [self._node(node) for node in nodes]

    def _node(self, node: Any) -> Any:
        if isinstance(node, str):
            return node
        if isinstance(node, Choice):
            bodies = [self.nodes(body) for body in node.bodies]
            return ["c", node.weights.weights, bodies]
        if isinstance(node, Draw):
            is_list = isinstance(node.source, Lexicon)
            source = self.lexicon(node.source) if is_list else list(node.source)
            return ["d", node.name, source, node.form]
        if isinstance(node, Known):
            return ["k", list(node.path)]
        if isinstance(node, Remember):
            return ["r", node.name, list(node.path)]
        assert isinstance(node, Rule)
        return ["u", node.name]

    def lexicon(self, lexicon: Lexicon) -> int:
        number, is_new = self._number(lexicon, self.lexicons)
        if is_new:
            entries = [self._record(entry) for entry in lexicon.entries]
            weights = lexicon.weights.weights
            weights = weights[:1] if len({*weights}) == 1 else weights
            self.lexicons[number] = [entries, weights]
        return number

    def _record(self, record: dict[str, Any]) -> int:
        number, is_new = self._number(record, self.records)
        if is_new:
            self._ahead.append((number, record))
        return number

    def work(self) -> None:
        """Write down the records that are only numbered so far, and those that they refer to."""
        while self._ahead:
            number, record = self._ahead.pop()
            keys = [key for key in record if key != "nats"]
            if keys not in self.shapes:
                self.shapes.append(keys)
            values = [self._value(key, record[key], record) for key in keys]
            self.records[number] = [self.shapes.index(keys), *values]

    def _value(self, key: str, value: Any, record: dict[str, Any]) -> Any:
        if key == "uses":
            return [[self.lexicon(source), index] for source, index in value]
        if isinstance(value, str):
            follows = key in DERIVED and value == DERIVED[key](record["text"])
            return 0 if follows else value
        if isinstance(value, dict):
            return [0, self._record(value)]
        if isinstance(value, Lexicon):
            return [2, self.lexicon(value)]
        number, is_new = self._number(value, self.templates)
        if is_new:
            self.templates[number] = self.nodes(value)
        return [1, number]


def _article(text: str) -> str:
    return ("an " if text[0] in "aeiou" else "a ") + text
