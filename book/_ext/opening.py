"""The directive ``opening``: a story by the stored model, with its first wrong letter marked.

It reads ``book/figures/opening.json``, which ``tools/figures.py`` writes.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

AFTER = 150
"""Characters shown behind the wrong one."""


class Opening(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        file = Path(self.env.srcdir, "book", "figures", "opening.json")
        self.env.note_dependency(str(file))
        story = json.loads(file.read_text(encoding="utf-8"))
        read, found = story["read"], story["found"]
        letter, after = found[0], found[1 : AFTER + 1]
        if len(found) > AFTER + 1:
            after = f"{after.rpartition(' ')[0]} …"
        text = nodes.paragraph("", read, classes=["story-text"])
        text += nodes.inline("", letter, classes=["wrong-letter"])
        text += nodes.inline("", after, classes=["story-after"])

        said = nodes.paragraph(classes=["story-caption"])
        said += nodes.Text(
            f"The small model that comes with this book wrote it. For {len(read)} characters "
            f"it is a story of the language; at the marked one no story can go on. There it wanted "
        )
        for position, (words, probability) in enumerate(story["expected"]):
            said += nodes.Text(", or " if position else "")
            said += nodes.emphasis("", words)
            said += nodes.Text(f" ({share(probability)})")
        said += nodes.Text(". Repeat it: ")
        said += nodes.literal("", story["command"])
        box = nodes.container("", text, said, classes=["story"])
        return [box]


def share(probability: float) -> str:
    """A probability as a reader says it."""
    return "nothing else fits" if probability > 0.999 else f"{100 * probability:.0f}%"


def setup(app) -> dict:
    app.add_directive("opening", Opening)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
