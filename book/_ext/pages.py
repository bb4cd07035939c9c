"""Small repairs, so that the pages need no network, are valid, and read well.

- Thebe (running cells through Binder) is no part of this book. Jupyter Book loads it all the same,
  and its script, inserted twice, fails in every page.
- Exercises: the title loses its brackets, its stars become an element that the style sheet knows,
  and the contents lose the identifier that sphinx-exercise gives to all of them alike.
"""

import re

from docutils import nodes
from sphinx_exercise.nodes import is_exercise_node, is_extension_node


def leave_out_thebe(app) -> None:
    for event, listeners in app.events.listeners.items():
        app.events.listeners[event] = [
            listener
            for listener in listeners
            if not listener.handler.__module__.startswith("sphinx_thebe")
        ]
    app.registry.css_files[:] = [
        entry for entry in app.registry.css_files if "thebe" not in entry[0]
    ]


def tidy_exercises(app, doctree: nodes.document, docname: str) -> None:
    for box in doctree.findall(is_extension_node):
        for section in box.findall(nodes.section):
            if set(section["ids"]) & {"exercise-content", "solution-content"}:
                section["ids"] = []
        if is_exercise_node(box):
            tidy_title(box.children[0])


def tidy_title(title: nodes.title) -> None:
    """Turns " (★★ The shift)" into "The shift" and the stars as an element of their own."""
    parts = list(title.children)
    if len(parts) < 3 or parts[0].astext() != " (" or parts[-1].astext() != ")":
        return
    stars, words = re.fullmatch(r"(★*)\s*(.*)", parts[1].astext(), re.DOTALL).groups()
    title.children = []
    title += nodes.Text(words)
    title += parts[2:-1]
    if stars:
        title += nodes.inline("", stars, classes=["difficulty"])


def setup(app) -> dict:
    leave_out_thebe(app)
    app.connect("doctree-resolved", tidy_exercises)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
