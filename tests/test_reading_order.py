"""The page that lists the modules in reading order, in step with the package."""

import re

import layout
from rules import of_every

TEXT = layout.PAGE.read_text(encoding="utf-8")
ORDER = re.findall(r"^\| `([\w.]+)` \|", TEXT, re.MULTILINE)


def test_the_page_is_in_step_with_the_package():
    assert layout.rewritten_page(TEXT) == TEXT, "run python tools/layout.py"


def test_every_module_is_listed_once():
    assert sorted(ORDER) == layout.modules(), "give the module a row on the page"


@of_every(ORDER)
def test_what_a_module_imports_stands_above_it(module):
    for other in layout.needs(module):
        assert ORDER.index(other) < ORDER.index(module), f"{other} comes later"
