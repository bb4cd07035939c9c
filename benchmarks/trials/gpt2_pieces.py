"""Into what does GPT-2's tokenizer cut words, numbers, letters of other scripts, and whole texts?

    python benchmarks/trials/gpt2_pieces.py count

The vocabulary of 50,257 entries is not shipped with the book. Its cuts of the following are:

word        Some words of chapter 1, with their pieces; a dot is a space.
number      The numbers from 1000 to 9999, a row for each hundred. A letter says how a number is
            cut: a "4", b "3+1", c "2+2", d "1+3", e "1+2+1" digits.
spaced      The same numbers after a space, which is not counted as a digit.
sentence    The first sentence of Article 1 of the Universal Declaration of Human Rights (1948) in
            14 languages, typed by us and not compared with the published text.
letters     Every letter of a script, alone: how many are one token.
text        Whole texts, with their words and tokens: stories that were held out, held-out Tiny
            Shakespeare, the language reference that comes with Python, and its prose, by three
            filters: the strict one was tried first. "One line" has a single space for every run
            of white space. The docstrings of the standard library came last: a text that had no
            part in the choice of a filter.
decomposed  The sentences again, with every letter and its marks as characters of their own (NFD).

Nothing is random, and no seed counts. Needs GPT-2's vocabulary in tiktoken's cache. Chapter 1 reads
the table.
"""

import ast
import functools
import pydoc_data.topics
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import regex
import vocabulary
from trial import Trial

from decoder_only.data import tiny_shakespeare
from decoder_only.stories import StoryLanguage
from decoder_only.tokenization import BytePairTokenizer, gpt2_tokenizer

WORDS = ("Mississippi", " Mississippi", "blackberries", " blackberries")
SENTENCES = {
    "English": "All human beings are born free and equal in dignity and rights.",
    "French": "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "German": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "Spanish": "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "Finnish": "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan.",
    "Turkish": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.",
    "Russian": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "Greek": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "Chinese": "人人生而自由，在尊严和权利上一律平等。",
    "Japanese": "すべての人間は、生れながらにして自由であり、"
    "かつ、尊厳と権利とについて平等である。",
    "Korean": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "Hindi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "Arabic": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "Thai": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในศักดิ์ศรีและสิทธิ",
}
SCRIPTS = {
    "Latin a to z": (0x61, 0x7A),
    "Greek": (0x3B1, 0x3C9),
    "Cyrillic": (0x430, 0x44F),
    "Hebrew": (0x5D0, 0x5EA),
    "Arabic": (0x621, 0x64A),
    "Devanagari": (0x904, 0x939),
    "Thai": (0xE01, 0xE2E),
    "Hiragana": (0x3041, 0x3096),
    "Hangul syllables": (0xAC00, 0xD7A3),
    "Han (20,992 signs)": (0x4E00, 0x9FFF),
}
TEXTS = ("stories", "Tiny Shakespeare", "Python's reference")
FILTERS = {
    "prose": r"\p{Lu}[\p{L}\p{N} ,.;:'’\"?!()-]{100,}[.?!]",
    "strict prose": r"[\p{L} ,.;:'’()-]{100,}\.",
    "loose prose": r"\p{Lu}.{100,}[.?!]",
}
CUTS = {(4,): "a", (3, 1): "b", (2, 2): "c", (1, 3): "d", (1, 2, 1): "e"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is cut."""

    kind: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was counted. `whole` counts the words, letters or numbers that are one token."""

    words: int
    characters: int
    size_in_bytes: int
    tokens: int
    whole: int
    pieces: str


TRIAL = Trial("gpt2_pieces", Run, Found, score="tokens", packages=("tiktoken", "regex"))


def letters(first: int, last: int) -> list[str]:
    """The letters of a range of Unicode."""
    characters = map(chr, range(first, last + 1))
    return [x for x in characters if unicodedata.category(x).startswith("L")]


def prose(reference: str, kind: str = "prose") -> str:
    """The paragraphs of sentences that a filter keeps, on one line."""
    kept = []
    for paragraph in regex.split(r"\n\s*\n", reference):
        line = " ".join(paragraph.split())
        if regex.fullmatch(FILTERS[kind], line):
            kept.append(line)
    return " ".join(kept)


def docstrings() -> str:
    """Those of the modules at the top of Python's standard library."""
    found = []
    for path in sorted(Path(ast.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            documented = ast.Module | ast.ClassDef | ast.FunctionDef
            if isinstance(node, documented) and (told := ast.get_docstring(node)):
                found.append(told)
    return "\n\n".join(found)


@functools.cache
def texts() -> dict[str, str]:
    """The texts whose words are counted, by their names."""
    unseen = islice(StoryLanguage().stories(split="validation"), 500)
    reference = "\n\n".join(pydoc_data.topics.topics.values())
    found = {
        "stories": "\n\n".join(unseen),
        "Tiny Shakespeare": tiny_shakespeare()[vocabulary.VALIDATION],
        "Python's reference": reference,
    }
    found |= {f"{name}, one line": " ".join(x.split()) for name, x in found.items()}
    for name, whole in (("reference", reference), ("docstrings", docstrings())):
        found |= {f"Python's {name}, {kind}": prose(whole, kind) for kind in FILTERS}
    return found


def parts(run: Run) -> list[str]:
    """What a row counts, each cut by itself."""
    if run.kind == "word":
        return [run.what.replace("·", " ")]
    if run.kind == "number":
        return [f"{run.what}{n:02d}" for n in range(100)]
    if run.kind == "spaced number":
        return [f" {run.what}{n:02d}" for n in range(100)]
    if run.kind == "letters":
        return letters(*SCRIPTS[run.what])
    if run.kind == "decomposed":
        return [unicodedata.normalize("NFD", SENTENCES[run.what])]
    return [SENTENCES[run.what] if run.kind == "sentence" else texts()[run.what]]


def count(run: Run, tokenizer: BytePairTokenizer) -> Found:
    """Cut it, and count."""
    cut = parts(run)
    ids = tokenizer.encode_batch(cut)
    pieces = "-"
    if run.kind in ("number", "spaced number"):
        sizes = [
            tuple(len(tokenizer.token_bytes(i).strip()) for i in each) for each in ids
        ]
        pieces = "".join(map(CUTS.get, sizes))
    if run.kind == "word":
        pieces = "|".join(tokenizer.decode([i]).replace(" ", "·") for i in ids[0])
    return Found(
        words=sum(len(each.split()) for each in cut),
        characters=sum(map(len, cut)),
        size_in_bytes=sum(len(each.encode()) for each in cut),
        tokens=sum(map(len, ids)),
        whole=sum(len(each) == 1 for each in ids),
        pieces=pieces,
    )


def everything() -> Iterator[list[Run]]:
    """All rows of the table."""
    named = {
        "word": [word.replace(" ", "·") for word in WORDS],
        "number": [str(n) for n in range(10, 100)],
        "sentence": SENTENCES,
        "letters": SCRIPTS,
        "text": [
            *TEXTS,
            *(f"{x}, one line" for x in TEXTS),
            *(f"{TEXTS[-1]}, {kind}" for kind in FILTERS),
        ],
        "spaced number": [str(n) for n in range(10, 100)],
        "decomposed": SENTENCES,
    }
    runs = [Run(kind=kind, what=what) for kind in named for what in named[kind]]
    later = [Run(kind="text", what=f"Python's docstrings, {kind}") for kind in FILTERS]
    yield runs + later


@functools.cache
def _tokenizer() -> BytePairTokenizer:
    return gpt2_tokenizer()


def measure(run: Run) -> Found:
    """Make one row."""
    return count(run, _tokenizer())


if __name__ == "__main__":
    TRIAL.main(measure, count=everything)
