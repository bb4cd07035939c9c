"""A chapter has the number of its file: `13_parallelism` is chapter 13, whatever stands before it.

Sphinx counts the pages of the table of contents instead, and would give the same chapter another
number as soon as one in front of it is missing. Figures and tables follow the chapter's number.
Those in the laboratory of chapter 3 are numbered L3.1 and so on.
"""

import re
from pathlib import PurePath

from docutils import nodes
from sphinx.environment import BuildEnvironment
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles


def number_by_file(app) -> None:
    """Corrects what has been counted; called when every other extension has been set up."""
    count = TocTreeCollectorWithStyles.assign_section_numbers

    def assign(self, env: BuildEnvironment) -> list[str]:
        before = env.toc_secnumbers
        count(self, env)
        for name, numbers in env.toc_secnumbers.items():
            number = int((re.match(r"\d+(?=_)", PurePath(name).name) or "0")[0])
            if not number:
                continue
            for anchor, counted in numbers.items():
                if counted:
                    numbers[anchor] = (number, *counted[1:])
            references = env.tocs[name].findall(nodes.reference)
            for node in (*references, env.titles[name], env.longtitles[name]):
                if node.get("secnumber"):
                    node["secnumber"] = [number, *node["secnumber"][1:]]
        after = env.toc_secnumbers
        return [name for name in after if after[name] != before.get(name)]

    TocTreeCollectorWithStyles.assign_section_numbers = assign


def number_laboratories(app) -> None:
    """Gives figures, tables and formulas of a laboratory its chapter's number, of a GPU a G."""
    count = TocTreeCollectorWithStyles.assign_figure_numbers

    def assign(self, env: BuildEnvironment) -> list[str]:
        before = env.toc_fignumbers
        count(self, env)
        for name, kinds in env.toc_fignumbers.items():
            laboratory = re.search(r"/lab/(\d+)_", name)
            if laboratory is None and name != "book/gpu":
                continue
            prefix = f"L{int(laboratory[1])}" if laboratory else "G"
            for numbers in kinds.values():
                for place, anchor in enumerate(numbers, start=1):
                    numbers[anchor] = (prefix, place)
        # Compared as they are shown, or each of these pages would be written in every build.
        after = env.toc_fignumbers
        return [name for name in after if after[name] != before.get(name)]

    TocTreeCollectorWithStyles.assign_figure_numbers = assign


def setup(app) -> dict:
    app.connect("builder-inited", number_by_file)
    app.connect("builder-inited", number_laboratories)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
