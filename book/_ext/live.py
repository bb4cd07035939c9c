"""Widgets: figures that a reader plays with, each with a question to answer by playing.

    ```{live} attention
    Drag the query. What makes one token take nearly all the weight?
    ```

puts a place into the page, with the question and with a sentence for those who read without
scripts. What moves is in ``book/_static/live/widgets/NAME.js``; every widget stands on ``kit.js``.
Only the pages with a widget load them, after the page itself (``finish.py`` asks ``scripts``).
"""

import re
from hashlib import sha256
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

FOLDER = Path(__file__).resolve().parent.parent / "_static" / "live" / "widgets"
MOST = 80_000
"""Bytes of script that the widgets of one page may have."""
STATIC = (
    "With scripts, this figure can be played with. "
    "Without them, the figures and numbers of this section say the same."
)
PLACE = re.compile(r'<figure class="live" data-widget="([\w-]+)"')


def place(name: str, question: str) -> str:
    """The HTML of a widget's place."""
    label = f"live-{name}-question"
    return (
        f'<figure class="live" data-widget="{name}" role="group" aria-labelledby="{label}">'
        f'<p class="live-question" id="{label}">{escape(question)}</p>'
        f'<p class="live-static">{STATIC}</p>'
        '<p class="live-said" role="status" aria-live="polite"></p>'
        "</figure>"
    )


def scripts(html: str) -> list[str]:
    """The scripts that the widgets of a page need, as seen from ``_static``, the kit first."""
    names = list(dict.fromkeys(PLACE.findall(html)))
    files = [f"{name}.js" for name in (["kit", *names] if names else [])]
    return [f"live/widgets/{name}?v={version(name)}" for name in files]


def version(name: str) -> str:
    """Changes with the file, and with the style sheet that the kit loads: no browser keeps it."""
    content = (FOLDER / name).read_bytes()
    if name == "kit.js":
        content += FOLDER.with_name("widgets.css").read_bytes()
    return sha256(content).hexdigest()[:8]


class Live(SphinxDirective):
    """The place of a widget. The argument names it, and the body is the question."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        question = " ".join(" ".join(self.content).split())
        if not (FOLDER / f"{name}.js").is_file() or name == "kit":
            raise self.error(f"no widget {name!r} in {FOLDER.name}")
        if not question.endswith("?"):
            raise self.error(
                f"{name}: the body is a question, to be answered by playing"
            )
        for file in (f"{name}.js", "kit.js"):
            self.env.note_dependency(str(FOLDER / file))
        return [nodes.raw("", place(name, question), format="html")]


def setup(app) -> dict:
    app.add_directive("live", Live)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
