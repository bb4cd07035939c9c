"""How long a page takes: one line under its title, and the numbers for the opening page.

Reading is counted from the page as Sphinx reads it: its words, and its lines of open code.
Solutions, folded cells and outputs are left out, but the sources that a cell shows are counted.
Running was measured: a notebook's row in ``tests/seconds.json``, which ``--store-seconds`` writes.
"""

import json
import math
from pathlib import Path

import folds
from docutils import nodes

WORDS_A_MINUTE = 200
SECONDS_A_LINE = 3
RULE = (
    f"Reading: {WORDS_A_MINUTE} words a minute, and {SECONDS_A_LINE} seconds for each line of "
    "code shown; solutions and other folded parts are not counted. "
    "Running: measured on two processor cores, and rounded up to whole minutes."
)
"""The rule, as the opening page tells it."""

OPENING = "book/index"
NOT_READ_THROUGH = {OPENING, "book/bibliography"}


def count(node: nodes.Node) -> tuple[int, int]:
    """The words and the lines of code of what a reader sees of the node."""
    if isinstance(node, nodes.Text):
        return len(node.split()), 0
    if isinstance(node, nodes.literal_block):
        return 0, sum(bool(line.strip()) for line in node.astext().splitlines())
    if isinstance(node, nodes.raw | nodes.comment | nodes.math | nodes.math_block):
        return 0, 0
    if isinstance(node, nodes.Admonition) and "dropdown" in node.get("classes", ()):
        return 0, 0
    parts = [count(child) for child in shown(node)]
    return sum(words for words, _ in parts), sum(lines for _, lines in parts)


def shown(node: nodes.Element) -> list[nodes.Node]:
    """The node's children, without what is folded or put out by a cell."""
    kind = node.get("nb_element")
    if kind == "cell_code":
        hidden = node.get("hide_mode", "")
        code = not hidden and not folds.is_set_up(node)
        if folds.only_calls(node, "show_source"):
            code = False
        names = ["cell_code_source"] * code
        names += ["cell_code_output"] * (hidden not in ("all", "output"))
        return [part for name in names if (part := folds.part(node, name))]
    if kind == "cell_code_output":
        # Of outputs only Markdown is read: the sources that a cell shows.
        return [
            child
            for bundle in node
            if bundle.get("nb_element") == "mime_bundle"
            for child in bundle
            if child.get("mime_type") == "text/markdown"
        ]
    return list(node.children)


def minutes_of(doctree: nodes.document) -> float:
    words, lines = count(doctree)
    return words / WORDS_A_MINUTE + lines * SECONDS_A_LINE / 60


def keep(app, doctree: nodes.document) -> None:
    app.env.metadata[app.env.docname]["minutes"] = minutes_of(doctree)


def to_read(env, docname: str) -> int:
    """The minutes of a chapter, as a reader says them."""
    return rounded(env.metadata[docname]["minutes"])


def rounded(minutes: float) -> int:
    """Whole minutes; above twenty, the nearest five."""
    return 5 * round(minutes / 5) if minutes > 20 else max(1, round(minutes))


def to_run(env, docname: str) -> int | None:
    """Whole minutes, rounded up; nothing for a page that is no notebook or was not measured."""
    file = Path(env.srcdir, "tests", "seconds.json")
    seconds = json.loads(file.read_text(encoding="utf-8")).get(f"{docname}.ipynb")
    return None if seconds is None else math.ceil(seconds / 60)


def said(read: int, run: int | None) -> str:
    """As a reader says it: "35 minutes to read, 2 to run"."""
    line = f"{read} minute{'s' * (read != 1)} to read"
    return line if run is None else f"{line}, {run} to run"


def show(app, doctree: nodes.document, docname: str) -> None:
    """Puts the line under the title."""
    title = doctree.next_node(nodes.title)
    if app.builder.format != "html" or docname in NOT_READ_THROUGH or title is None:
        return
    # A page that is no notebook may be a list that was filled in only now.
    notebook = str(app.env.doc2path(docname)).endswith(".ipynb")
    read = to_read(app.env, docname) if notebook else rounded(minutes_of(doctree))
    address = f"{app.builder.get_relative_uri(docname, OPENING)}#minutes"
    link = nodes.reference("", "", internal=True, refuri=address)
    link += nodes.Text(said(read, to_run(app.env, docname)))
    line = nodes.paragraph("", "", link, classes=["minutes"])
    title.parent.insert(title.parent.index(title) + 1, line)


def again(app, env, added: set, changed: set, removed: set) -> set:
    """The opening page lists the minutes of the others, and is read anew with any of them."""
    return {OPENING} & env.found_docs if added | changed | removed else set()


def setup(app) -> dict:
    app.connect("doctree-read", keep)
    app.connect("env-get-outdated", again)
    app.connect("doctree-resolved", show, priority=960)  # the search has what it reads
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
