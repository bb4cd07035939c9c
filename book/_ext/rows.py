"""The directive ``rows``: what the documents say, row by row, where it runs, and how it ended.

The rows stand in ``book/rows.yml``. A row that a chapter puts on trial (``{claim}`` with the same
number) leads to the trial and shows its verdict; any other leads to the section that executes it.
"""

from pathlib import Path

import yaml
from claims import SOURCES, chip
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)


class rows_list(nodes.General, nodes.Element):
    """Stands for the list until every chapter has been read."""


class Rows(SphinxDirective):
    """All rows, under the headings of ``rows.yml``."""

    def run(self) -> list[nodes.Node]:
        file = Path(self.env.srcdir, "book", "rows.yml")
        self.env.note_dependency(str(file))
        self.env.claims_pages.add(self.env.docname)
        found = []
        for heading, rows in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            section = nodes.section(ids=[f"rows-{nodes.make_id(heading)}"])
            section += nodes.title("", heading)
            place = rows_list("")
            place["rows"] = rows
            section += place
            found.append(section)
        return found


def entry(app, docname: str, row: dict) -> nodes.list_item:
    tried = [
        (name, claim)
        for name, claims in app.env.claims.items()
        for claim in claims
        if claim["row"] == row["row"]
    ]
    line = nodes.paragraph()
    line += nodes.inline("", str(row["row"]), classes=["row-number"])
    target = None
    if "in" in row:
        file, _, section = row["in"].partition("#")
        chapter = f"book/{file}"
        anchor = section
        if tried:
            chapter, anchor = tried[0][0], tried[0][1]["id"]
        uri = app.builder.get_relative_uri(docname, chapter)
        target = f"{uri}#{anchor}"
        line += nodes.reference("", row["says"], internal=True, refuri=target)
    else:
        line += nodes.inline("", row["says"], classes=["row-open"])
    said = ", ".join(SOURCES[letter] for letter in row["from"].split())
    line += nodes.inline("", said, classes=["claims-source"])
    verdicts = list(dict.fromkeys(claim["verdict"] for _, claim in tried))
    ends = nodes.inline(classes=["row-end"])
    if verdicts:
        ends += [chip(verdict) for verdict in verdicts]
    elif target:
        ends += nodes.inline("", "Built", classes=["verdict", "verdict-built"])
    else:
        ends += nodes.inline("", "Open", classes=["verdict", "verdict-open"])
    line += ends
    item = nodes.list_item("", line)
    if "open" in row:
        item += nodes.paragraph("", f"To come: {row['open']}.", classes=["claim-note"])
    return item


def fill(app, doctree: nodes.document, docname: str) -> None:
    for place in list(doctree.findall(rows_list)):
        entries = nodes.bullet_list(classes=["claims-list", "rows-list"])
        entries += [entry(app, docname, row) for row in place["rows"]]
        place.parent.replace(place, entries)


def setup(app) -> dict:
    app.add_node(rows_list)
    app.add_directive("rows", Rows)
    app.connect("doctree-resolved", fill)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
