"""Tables that a cell shows: numbered by chapter and referred to like figures.

``show_table(..., caption="...", name="tab-heads")`` writes both into its HTML, so that a notebook
shows the caption too. Here the HTML becomes a node that Sphinx counts among the tables:
``{numref}`tab-heads` `` in the text is a link that reads "Table 4.2".
"""

import html
import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

TABLE = re.compile(
    r'(?P<before><table class="dataframe") id="(?P<name>tab-[a-z0-9-]+)"(?P<after>[^>]*>)\s*'
    r"<caption[^>]*>(?P<caption>.*?)</caption>\s*",
    re.DOTALL,
)
MARKED = re.compile(r"<code>(?P<code>.*?)</code>|\$(?P<formula>[^$]+)\$")


class numbered_table(nodes.General, nodes.Element):
    """A ``<figure>`` that holds a table; its first child is the caption."""


class table_caption(nodes.caption):
    """What the table shows; it stands above it."""


def open_table(writer, node) -> None:
    attributes = {"CLASS": "table-figure"}
    writer.body.append('<div class="output text_html">')
    writer.body.append(writer.starttag(node, "figure", "", **attributes))


def close_table(writer, node) -> None:
    writer.body.append("</figure></div>\n")


def open_caption(writer, node) -> None:
    writer.body.append("<figcaption><p>")
    writer.add_fignumber(node.parent)
    writer.body.append('<span class="caption-text">')


def close_caption(writer, node) -> None:
    writer.body.append("</span>")
    writer.add_permalink_ref(node.parent, "Link to this table")
    writer.body.append("</p></figcaption>\n")


def read(caption: str) -> list[nodes.Node]:
    """The caption's text, `code` and formulas, out of the HTML that a notebook shows."""
    parts: list[nodes.Node] = []
    end = 0
    for found in MARKED.finditer(caption):
        parts.append(nodes.Text(html.unescape(caption[end : found.start()])))
        if found["code"] is not None:
            code = html.unescape(found["code"])
            parts.append(nodes.literal(code, code))
        else:
            formula = html.unescape(found["formula"])
            parts.append(nodes.math(formula, formula))
        end = found.end()
    return [*parts, nodes.Text(html.unescape(caption[end:]))]


class NumberTables(SphinxTransform):
    """Runs before Sphinx collects what can be referred to."""

    default_priority = 700

    def apply(self, **kwargs) -> None:
        for raw in list(self.document.findall(nodes.raw)):
            found = TABLE.search(raw.astext()) if raw["format"] == "html" else None
            if not found:
                continue
            box = numbered_table(names=[found["name"]])
            box.source, box.line = raw.source or self.document["source"], raw.line
            caption = table_caption("", "", *read(found["caption"]))
            caption.source, caption.line = box.source, box.line
            plain = TABLE.sub(r"\g<before>\g<after>\n", raw.astext(), count=1)
            box += [caption, nodes.raw(plain, plain, format="html")]
            raw.parent.replace(raw, box)
            self.document.note_explicit_target(box, box)


def setup(app) -> dict:
    app.add_enumerable_node(numbered_table, "table", html=(open_table, close_table))
    app.add_node(table_caption, html=(open_caption, close_caption))
    app.add_transform(NumberTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
