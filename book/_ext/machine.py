"""The story machine: a directive for its page, and the data that it loads.

``story-machine`` wraps what stands there without scripts, and ends in a few lines that fetch the
style sheet and the scripts of book/_static/live for this page alone. The data of the stored models
and their languages is written when the book is built (decoder_only_book.live).
"""

import hashlib
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

PACKAGES = Path(__file__).parents[2] / "src"
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
    """Writes the data, unless it is there already, made from the same files."""
    if exception is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, "_static", "live", "data")
    mark, sources = Path(app.doctreedir, "live-data"), digest()
    if folder.exists() and mark.exists() and mark.read_text() == sources:
        return
    from decoder_only_book import live

    live.write(folder)
    mark.write_text(sources)


def digest() -> str:
    """One number for all files of both packages: stored models, grammar, and what writes them."""
    found = hashlib.sha256()
    for path in sorted(PACKAGES.glob("decoder_only*/**/*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found.update(f"{path} {path.stat().st_size}".encode() + path.read_bytes())
    return found.hexdigest()


def setup(app) -> dict:
    app.add_directive("story-machine", StoryMachine)
    app.connect("build-finished", write_data)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
