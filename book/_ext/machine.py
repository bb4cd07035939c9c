"""The story machine: a directive for its page, and the data that it loads.

``story-machine`` wraps what stands there without scripts, and ends in a few lines that fetch the
style sheet and the scripts of book/_static/live for this page alone. The data of the stored models
and their languages is written when the book is built (decoder_only_book.live).
"""

from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

FILES = ("tokenizer", "language", "engine", "library", "machine")
# In order, one after the other; the interface appears once its style sheet is there.
START = """<script>
(() => {
  globalThis.live = { base: "%s" };
  const sheet = Object.assign(document.createElement("link"), {
    rel: "stylesheet", href: live.base + "machine.css",
  });
  sheet.onload = () => %s.forEach((name) => document.head.append(
    Object.assign(document.createElement("script"), {
      src: live.base + name + ".js", async: false,
    })));
  document.head.append(sheet);
})();
</script>"""


class StoryMachine(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        base = "../" * self.env.docname.count("/") + "_static/live/"
        box = nodes.container(classes=["machine"], ids=["story-machine"])
        self.state.nested_parse(self.content, self.content_offset, box)
        start = START % (base, list(FILES))
        return [box, nodes.raw("", start, format="html")]


def write_data(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        from decoder_only_book import live

        live.write(Path(app.outdir, "_static", "live", "data"))


def setup(app) -> dict:
    app.add_directive("story-machine", StoryMachine)
    app.connect("build-finished", write_data)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
