"""The directives ``claim`` and ``claims``: what a source says, tried, with the verdict.

A laboratory states a claim where it is tried, and so does a chapter that has no laboratory yet::

    :::{claim} One shared projection makes the attention weights symmetric
    :row: 14
    :source: A
    :verdict: false
    :condition: optional; on what the verdict depends, in a few words

    The experiment, and what it showed.
    :::

The page "Claims on trial" holds a single ``{claims}`` and lists every claim of every chapter, with
its verdict and a link back. The list is collected while Sphinx reads, so nothing is written twice.
"""

from collections import Counter

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)

# The verdict as it is written, and its CSS class.
VERDICTS = {
    "true": "true",
    "conditionally true": "condition",
    "false": "false",
    "misprint": "misprint",
    "undecided": "undecided",
}
# The five documents: letter, what the reader sees. Each has an entry in the bibliography, and a
# paragraph with the label ``source-n`` (and so on) on the page of notation.
SOURCES = {
    "N": "Goon’s notes",
    "G": "Arya’s guide",
    "A": "“A look into the architecture”",
    "P": "the post on ericjwang.com",
    "T": "“Understanding Transformers Part 2”",
}


def verdict(argument: str) -> str:
    chosen = " ".join(argument.lower().split())
    if chosen not in VERDICTS:
        raise ValueError(
            f"{argument!r} is not a verdict; use one of: " + "; ".join(VERDICTS)
        )
    return chosen


def sources(argument: str) -> list[str]:
    letters = argument.replace(",", " ").split()
    unknown = [letter for letter in letters if letter not in SOURCES]
    if unknown or not letters:
        raise ValueError(
            f"{argument!r} names no source; use letters of {' '.join(SOURCES)}"
        )
    return letters


class claims_list(nodes.General, nodes.Element):
    """Stands for the list until every chapter has been read."""


class Claim(SphinxDirective):
    """A claim of a source document, its trial and the verdict."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {  # noqa: RUF012  (docutils' own form)
        "row": directives.positive_int,
        "source": sources,
        "verdict": verdict,
        "condition": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        wanted = ("row", "source", "verdict")
        missing = [name for name in wanted if name not in self.options]
        if missing:
            raise self.error(f"claim without {', '.join(missing)}: {self.arguments[0]}")
        self.assert_has_content()

        row, letters, result = (self.options[name] for name in wanted)
        known = self.env.claims.setdefault(self.env.docname, [])
        # A row may be on trial more than once, in one chapter or in several: each has its own name.
        earlier = [
            found for name, found in self.env.claims.items() if name <= self.env.docname
        ]
        repeated = sum(claim["row"] == row for found in earlier for claim in found)
        name = f"claim-{row}" + (f"-{repeated + 1}" if repeated else "")
        title, messages = self.state.inline_text(self.arguments[0], self.lineno)
        condition, more = self.state.inline_text(
            self.options.get("condition", ""), self.lineno
        )
        messages += more

        box = nodes.admonition(
            classes=["claim", f"claim-{VERDICTS[result]}"], ids=[name]
        )
        box["names"].append(name)
        self.state.document.note_explicit_target(box)
        heading = nodes.title(
            "", "", nodes.inline("", "", *title, classes=["claim-text"])
        )
        heading += chip(result)
        box += heading
        box += nodes.paragraph("", "", *self.said_by(letters), classes=["claim-source"])
        if condition:
            box += note(condition)
        self.state.nested_parse(self.content, self.content_offset, box)

        known.append(
            {
                "row": row,
                "source": letters,
                "verdict": result,
                "id": name,
                "title": title,
                "condition": condition,
            }
        )
        return [box, *messages]

    def said_by(self, letters: list[str]) -> list[nodes.Node]:
        """ "Claimed in Goon’s notes and Arya’s guide", each a link to what that is."""
        said: list[nodes.Node] = [nodes.Text("Claimed in ")]
        for position, letter in enumerate(letters):
            if position:
                said.append(
                    nodes.Text(" and " if position == len(letters) - 1 else ", ")
                )
            link, _ = self.state.inline_text(
                f"{{ref}}`{SOURCES[letter]} <source-{letter.lower()}>`", self.lineno
            )
            said.extend(link)
        return [*said, nodes.Text(".")]


class Claims(SphinxDirective):
    """Every claim of the book."""

    def run(self) -> list[nodes.Node]:
        self.env.claims_pages.add(self.env.docname)
        return [claims_list("")]


def chip(result: str) -> nodes.inline:
    return nodes.inline(
        "", result.capitalize(), classes=["verdict", f"verdict-{VERDICTS[result]}"]
    )


def note(condition: list[nodes.Node]) -> nodes.paragraph:
    """On what the verdict depends: a sentence, beside the word for what it is."""
    text = [node.deepcopy() for node in condition]
    if isinstance(text[0], nodes.Text):
        said = text[0].astext()
        text[0] = nodes.Text(said[:1].upper() + said[1:])
    if isinstance(text[-1], nodes.Text) and not text[-1].astext().endswith(
        (".", "!", "?")
    ):
        text[-1] = nodes.Text(f"{text[-1].astext()}.")
    label = nodes.inline("", "Condition:", classes=["label"])
    return nodes.paragraph(
        "", "", label, nodes.Text(" "), *text, classes=["claim-note"]
    )


def summary(claims: list[dict]) -> nodes.paragraph:
    """ "12 claims: 7 true, 5 false"."""
    counts = Counter(claim["verdict"] for claim in claims)
    parts = [f"{counts[result]} {result}" for result in VERDICTS if counts[result]]
    number = f"{len(claims)} claim" + ("s" if len(claims) != 1 else "")
    return nodes.paragraph(
        "", f"{number} so far: {'; '.join(parts)}.", classes=["claims-summary"]
    )


def fill(app, doctree: nodes.document, docname: str) -> None:
    """Puts the list where ``{claims}`` stands: chapter by chapter, each claim with its verdict."""
    for place in list(doctree.findall(claims_list)):
        # Chapter by chapter, wherever the claims of a chapter are tried.
        chapters = {
            name: app.env.claims[name]
            for name in sorted(app.env.claims, key=lambda name: name.rpartition("/")[2])
            if app.env.claims[name]
        }
        if not chapters:
            place.replace_self(nodes.paragraph("", "No chapter has tried a claim yet."))
            continue
        built: list[nodes.Node] = [
            summary([c for found in chapters.values() for c in found])
        ]
        for name, found in chapters.items():
            uri = app.builder.get_relative_uri(docname, name)
            title = app.env.titles[name].astext().removeprefix("Laboratory: ")
            title = title[:1].upper() + title[1:]
            section = nodes.section(ids=[f"claims-{uri.rpartition('/')[2][:2]}"])
            heading = nodes.title()
            heading += nodes.reference("", title, internal=True, refuri=uri)
            section += heading
            entries = nodes.bullet_list(classes=["claims-list"])
            for claim in found:
                text = [node.deepcopy() for node in claim["title"]]
                target = f"{uri}#{claim['id']}"
                line = nodes.paragraph()
                line += nodes.reference("", "", *text, internal=True, refuri=target)
                said = ", ".join(SOURCES[letter] for letter in claim["source"])
                line += nodes.inline("", said, classes=["claims-source"])
                line += chip(claim["verdict"])
                entries += nodes.list_item("", line)
                if claim["condition"]:
                    entries[-1] += note(claim["condition"])
            section += entries
            built.append(section)
        at = place.parent.index(place)
        place.parent[at : at + 1] = built


def prepare(app) -> None:
    for name, empty in (("claims", {}), ("claims_pages", set())):
        if not hasattr(app.env, name):
            setattr(app.env, name, empty)


def purge(app, env, docname: str) -> None:
    env.claims.pop(docname, None)
    env.claims_pages.discard(docname)


def merge(app, env, docnames: set[str], other) -> None:
    env.claims.update(
        {name: other.claims[name] for name in docnames if name in other.claims}
    )
    env.claims_pages |= other.claims_pages


def again(app, env, added: set, changed: set, removed: set) -> set[str]:
    """The list depends on every chapter, and is made anew with any of them."""
    return env.claims_pages & env.found_docs if added | changed | removed else set()


def setup(app) -> dict:
    app.add_node(claims_list)
    app.add_directive("claim", Claim)
    app.add_directive("claims", Claims)
    app.connect("builder-inited", prepare)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-get-outdated", again)
    app.connect("doctree-resolved", fill)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
