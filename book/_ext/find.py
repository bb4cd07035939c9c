"""The search: an index of sections, made of what a reader reads, and without a server.

Sphinx's own search knows pages, and quotes menus and raw formulas. This one knows sections. The
index is a script (a file may load a script, but may not fetch a text), and find.js reads it.
With the sections come the words of the trade (book/terms.yml), each with the section that teaches
it.
"""

import json
import re
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.util import logging

logger = logging.getLogger(__name__)

INDEX = "sections.js"
REFERENCE = {"index", "claims", "rows", "notation", "reading_order", "bibliography"}


SIGNS = {
    r"\le": "≤",
    r"\ge": "≥",
    r"\infty": "∞",
    r"\approx": "≈",
    r"\cdot": "·",
    r"\times": "×",
}


def plain(formula: str) -> str:
    r"""A formula as a reader would type it: ``\sum_k q_{sk}`` becomes ``sum_k q_sk``."""
    formula = re.sub(
        r"\\(?:mathrm|mathbf|text|operatorname|begin|end)\{[^}]*\}", " ", formula
    )
    formula = re.sub(r"\\[,;!: ]|\\\\|&", " ", formula)
    formula = re.sub(r"\\[a-z]+", lambda name: SIGNS.get(name[0], name[0]), formula)
    return " ".join(re.sub(r"[\\{}]", "", formula).split())


def page_is_reference(docname: str) -> bool:
    """Whether a reader would rather find the same words elsewhere: in a lesson."""
    return "/lab/" in docname or docname.rpartition("/")[2] in REFERENCE


class Section:
    def __init__(self, title: str, anchor: str) -> None:
        self.title, self.anchor = title, anchor
        self.text: list[str] = []
        self.code: set[str] = set()


def collect(node: nodes.Node, section: Section, found: list[Section]) -> None:
    """Adds the node's words to its section; a section within it becomes an entry of its own."""
    if isinstance(node, nodes.section) and node.next_node(nodes.title) is not None:
        if node["ids"] and isinstance(node[0], nodes.title):
            section = Section(node[0].astext(), node["ids"][0])
            found.append(section)
            children = node.children[1:]
        else:
            children = node.children
        for child in children:
            collect(child, section, found)
    elif isinstance(node, nodes.math):
        section.text.append(plain(node.astext()))
    elif isinstance(node, nodes.math_block | nodes.comment | nodes.image):
        section.text.append(" ")
    elif isinstance(node, nodes.literal_block):
        section.code |= set(re.findall(r"[a-zA-Z_]{3,}", node.astext()))
        section.text.append(" ")
    elif isinstance(node, nodes.raw):
        section.text.append(re.sub(r"<[^>]+>", " ", node.astext()))
    elif isinstance(node, nodes.Text):
        section.text.append(node.astext())
    else:
        for child in node.children:
            collect(child, section, found)
        if isinstance(node, nodes.Body | nodes.Part | nodes.title | nodes.inline):
            section.text.append(" ")


def keep(app, doctree: nodes.document, docname: str) -> None:
    """Writes the page's sections aside: in a later build only some pages are written anew."""
    if app.builder.format != "html":
        return
    found: list[Section] = []
    collect(doctree, Section("", ""), found)
    numbers = app.env.toc_secnumbers.get(docname, {})
    page = app.env.titles[docname].astext()
    chapter = numbers.get("") or ()
    entries = []
    for section in found:
        number = numbers.get(f"#{section.anchor}") or ()
        entries.append(
            {
                "page": ". ".join([".".join(map(str, chapter)), page])
                if chapter
                else page,
                "title": " ".join([".".join(map(str, number)), section.title]).strip(),
                "url": f"{docname}.html#{section.anchor}",
                "text": " ".join("".join(section.text).split()),
                "code": " ".join(sorted(section.code)),
                "reference": page_is_reference(docname),
            }
        )
    folder = Path(app.doctreedir, "sections")
    folder.mkdir(exist_ok=True)
    (folder / f"{docname.replace('/', '.')}.json").write_text(json.dumps(entries))


def write(app, exception) -> None:
    if exception is not None or app.builder.format != "html":
        return
    entries = []
    for docname in sorted(app.env.found_docs):
        file = Path(app.doctreedir, "sections", f"{docname.replace('/', '.')}.json")
        if file.is_file():
            entries += json.loads(file.read_text())
    known = {entry["url"] for entry in entries}
    script = {
        "BOOK_SECTIONS": entries,
        "BOOK_TERMS": terms(Path(app.srcdir, "book", "terms.yml"), known),
    }
    text = "".join(
        f"window.{name} = {json.dumps(value, ensure_ascii=False)};\n"
        for name, value in script.items()
    )
    Path(app.outdir, "_static", INDEX).write_text(text, encoding="utf-8")


def terms(file: Path, known: set[str]) -> dict[str, str]:
    """For each word of the trade the address of the section that teaches it."""
    found: dict[str, str] = {}
    for section, words in yaml.safe_load(file.read_text(encoding="utf-8")).items():
        page, _, anchor = section.partition("#")
        address = f"book/{page}.html#{anchor}"
        if address not in known:
            logger.warning("book/terms.yml: %s is no section of the book", section)
            continue
        for word in words:
            if word in found:
                logger.warning("book/terms.yml: %r stands under two sections", word)
            found[word] = address
    return found


def setup(app) -> dict:
    app.connect("doctree-resolved", keep, priority=950)
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
