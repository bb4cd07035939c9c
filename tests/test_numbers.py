"""Every decimal number in a chapter's prose is found on its page, and every verdict's condition."""

import json
import re
from pathlib import Path

import notebooks
import pytest
from bs4 import BeautifulSoup
from rules import of_every

CHAPTERS = notebooks.every()

# What a page says and need not show, by chapter, each with the reason.
EXCEPTIONS: dict[str, dict[str, str]] = {}

MATH = re.compile(r"\$\$.*?\$\$|\$[^$]+\$", re.DOTALL)
FENCED = re.compile(r"^(`{3,}).*?^\1`*\s*$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"\{[\w:]+\}`[^`]*`|`[^`]*`|\]\([^)]*\)")
DECIMAL = re.compile(
    r"(?<![\w.,-])(\d+\.\d+)(?![\w.]*\d)[\s\u00a0]*(thousand|million|billion|%)?"
)
NUMBER = re.compile(r"\d[\d,_]*(?:\.\d+)?(?:[eE][+-]?\d+)?")
SCALES = {"": 1, "%": 0.01, "thousand": 1e3, "million": 1e6, "billion": 1e9}
CLAIM = re.compile(r"^:{3,}\{claim\}(.*?)^:{3,}[ ]*$", re.MULTILINE | re.DOTALL)

every_chapter = of_every(CHAPTERS)


def cells(path: Path) -> list[dict]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in found]


def said(path: Path) -> list[tuple[str, str]]:
    """The decimals of the prose and of the captions, each with the unit of size behind it."""
    texts = []
    for cell in cells(path):
        if cell["cell_type"] == "markdown":
            texts.append(FENCED.sub(" ", cell["source"]))
        shown = cell["metadata"].get("mystnb", {}).get("figure", {})
        texts.append(shown.get("caption", ""))
    prose = INLINE.sub(" ", MATH.sub(" ", "\n\n".join(texts)))
    return DECIMAL.findall(prose)


def shown(path: Path) -> set[float]:
    """The numbers of the page's outputs, code and formulas: of outputs, those that are compared.

    What is not compared is another number on another machine, and the prose would be wrong there.
    """
    texts = []
    for cell in cells(path):
        if cell["cell_type"] == "markdown":
            texts += MATH.findall(cell["source"]) + INLINE.findall(cell["source"])
            texts += [fence[0] for fence in FENCED.finditer(cell["source"])]
            continue
        texts.append(cell["source"])
        is_compared = "nbval-ignore-output" not in cell["metadata"].get("tags", [])
        for output in cell["outputs"] if is_compared else ():
            data = output.get("data", {})
            texts.append("".join(output.get("text", "")))
            texts.append("".join(data.get("text/plain", "")))
            html = "".join(data.get("text/html", ""))
            texts.append(BeautifulSoup(html, "html.parser").get_text(" "))
    found = NUMBER.findall("\n".join(texts))
    return {float(number.replace(",", "").replace("_", "")) for number in found}


def stands(decimal: str, unit: str, numbers: set[float]) -> bool:
    """Whether some number is the decimal, once rounded to as many places."""
    half = 0.5 * 10.0 ** -len(decimal.partition(".")[2])
    return any(
        abs(number / scale - float(decimal)) <= half * (1 + 1e-9)
        for number in numbers
        for scale in {1, SCALES[unit]}
    )


@every_chapter
def test_every_decimal_of_the_prose_stands_in_an_output_the_code_or_a_formula(path):
    numbers = shown(path)
    excepted = EXCEPTIONS.get(path.stem[:2], {})
    lost = {d for d, unit in said(path) if not stands(d, unit, numbers)}
    assert lost <= set(excepted), f"print it, or derive it in sight: {sorted(lost)}"
    assert set(excepted) <= lost, "an exception that is not needed any more"


@every_chapter
def test_a_verdict_with_a_condition_says_which(path):
    text = "\n\n".join(c["source"] for c in cells(path) if c["cell_type"] == "markdown")
    for claim in CLAIM.findall(text):
        verdict = re.search(r"^:verdict:[ ]*(.*)$", claim, re.MULTILINE)[1]
        condition = re.search(r"^:condition:[ ]*(\S.*)$", claim, re.MULTILINE)
        if verdict.strip() == "conditionally true":
            assert condition, f"on what does it depend?\n{claim.splitlines()[0]}"


@pytest.mark.parametrize(
    ("prose", "output", "is_found"),
    [
        ("It took 0.57 nats.", "0.568", True),
        ("It took 0.57 nats.", "0.58", False),
        ("It took 0.57 nats.", "0.6", False),
        ("Some 38.6 million.", "38,597,376", True),
        ("Some 38.6 billion.", "38,597,376", False),
        ("A rate of $0.3$, or `0.4`.", "", True),
    ],
)
def test_a_number_is_found_by_its_value_where_it_is_compared(
    tmp_path, prose, output, is_found
):
    path = tmp_path / "11_page.ipynb"
    code = {"cell_type": "code", "metadata": {}, "source": ["print()"]}
    code["outputs"] = [{"output_type": "stream", "text": [output]}]
    text = {"cell_type": "markdown", "metadata": {}, "source": [prose]}
    for tags in ([], ["nbval-ignore-output"]):
        code["metadata"] = {"tags": tags}
        path.write_text(json.dumps({"cells": [text, code]}))
        numbers = shown(path)
        found = all(stands(d, unit, numbers) for d, unit in said(path))
        assert found == (is_found and not (tags and output))
