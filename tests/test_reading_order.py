"""The page that lists the modules in reading order, in step with the package."""

import re

import layout

TEXT = layout.PAGE.read_text(encoding="utf-8")
ORDER = re.findall(r"^\| `([\w.]+)` \|", TEXT, re.MULTILINE)


def test_the_page_is_in_step_with_the_package():
    assert layout.page() == TEXT, "run python tools/layout.py"


def test_what_a_module_imports_stands_above_it():
    for module in layout.modules():
        for other in layout.needs(module):
            order = [ORDER.index(layout.short(each)) for each in (other, module)]
            assert order == sorted(order), (
                f"{module} imports {other}, which comes later"
            )
