"""What a link to another page shows on hover: preview.js loads it on first use.

Kept of each page are the places that can be linked to: the page itself, sections, figures, claims,
labelled paragraphs. Written are those that another page links to. A link within a page needs none:
there the script shows the place itself. Sources come with their links.
"""

import json
from pathlib import Path
from posixpath import normpath

import find
from docutils import nodes

SCRIPT = "previews.js"
LONGEST = 280


def words(node: nodes.Node | None) -> str:
    """The node's text on one line, formulas as a reader would type them, cut at a word."""
    if node is None:
        return ""
    section = find.Section("", "")
    find.collect(node, section, [])
    text = " ".join("".join(section.text).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(' ')[0]} …"


def first_paragraph(node: nodes.Element) -> nodes.Node | None:
    return next((child for child in node if isinstance(child, nodes.paragraph)), None)


def preview(node: nodes.Element, title: str) -> dict[str, str] | None:
    """What stands at the node, or nothing where a few words could not say it."""
    if isinstance(node, nodes.section):
        return {"title": title, "text": words(first_paragraph(node))}
    if isinstance(node, nodes.Admonition) and isinstance(node[0], nodes.title):
        body = [child for child in node[1:] if isinstance(child, nodes.paragraph)]
        plain = [child for child in body if "claim-source" not in child["classes"]]
        title, text = node[0].deepcopy(), words(plain[0] if plain else None)
        for pill in title.findall(nodes.inline):
            if "verdict" in pill["classes"]:
                text = f"{pill.astext()}: {text}"
                pill.children = []
        return {"title": words(title), "text": text}
    if isinstance(node, nodes.figure):
        image, caption = node.next_node(nodes.image), node.next_node(nodes.caption)
        found = {"title": "Figure", "text": words(caption)}
        return found | ({"image": image["uri"]} if image is not None else {})
    if isinstance(node, nodes.paragraph):
        return {"title": "", "text": words(node)}
    return None


def keep(app, doctree: nodes.document, docname: str) -> None:
    """Writes aside what can be linked to, and where the page's links lead."""
    if app.builder.format != "html":
        return
    page, numbers = f"{docname}.html", app.env.toc_secnumbers.get(docname, {})
    places: dict[str, dict] = {}
    for node in doctree.findall(nodes.Element):
        if not node.get("ids"):
            continue
        title = ""
        if isinstance(node, nodes.section):
            number = numbers.get(f"#{node['ids'][0]}") or ()
            heading = words(node.next_node(nodes.title))
            title = " ".join([".".join(map(str, number)), heading]).strip()
        if found := preview(node, title):
            places |= {f"{page}#{name}": found for name in node["ids"]}
    if (section := doctree.next_node(nodes.section)) is not None:
        places[page] = places.get(f"{page}#{section['ids'][0]}", {})
    links = {
        normpath(f"{docname}/../{link['refuri']}")
        for link in doctree.findall(nodes.reference)
        if link.get("internal") and "refuri" in link
    }
    others = sorted(link for link in links if link.partition("#")[0] != page)
    folder = Path(app.doctreedir, "previews")
    folder.mkdir(exist_ok=True)
    (folder / f"{docname.replace('/', '.')}.json").write_text(
        json.dumps({"places": places, "links": others})
    )


def write(app, exception) -> None:
    if exception is not None or app.builder.format != "html":
        return
    places: dict[str, dict] = {}
    links: set[str] = set()
    for docname in sorted(app.env.found_docs):
        file = Path(app.doctreedir, "previews", f"{docname.replace('/', '.')}.json")
        if file.is_file():
            kept = json.loads(file.read_text())
            places |= kept["places"]
            links |= set(kept["links"])
    chosen = {}
    for name in sorted(links & set(places)):
        shown = dict(places[name])
        # The builder knows the images of what it has written in this build alone.
        if image := app.env.images.get(shown.pop("image", "")):
            shown["image"] = f"{app.builder.imagedir}/{image[1]}"
        chosen[name] = shown
    text = f"window.BOOK_PREVIEWS = {json.dumps(chosen, ensure_ascii=False)};\n"
    Path(app.outdir, "_static", SCRIPT).write_text(text, encoding="utf-8")


def setup(app) -> dict:
    app.connect("doctree-resolved", keep, priority=950)  # before the line of minutes
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
