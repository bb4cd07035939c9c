"""Makes one document of the printed pages: its links, its structure, its outline, its data.

Links between pages of the book become names of places within the document; others lead to the
published address or to the web, as they stand. The trees of tags, by which a screen reader knows
headings, lists, tables and figures, are grafted onto one root: each part counts its elements from
zero, so that all numbers and names are moved past those of the parts before it.
"""

import warnings
from pathlib import Path
from urllib.parse import unquote

import pikepdf
from pikepdf import Array, Dictionary, Name, NameTree, NumberTree, OutlineItem, String


def joined(front: pikepdf.Pdf, parts: list, said: dict) -> pikepdf.Pdf:
    """The whole book.

    Args:
        front: cover and contents, printed.
        parts: the pages (``pdf.Part``) in their order.
        said: title, author, licence, and the published address as ``base``.

    Raises:
        ValueError: a link leads to a page of the book, but to no place on it.
    """
    out = pikepdf.new()
    names = [part.name for part in parts]
    structure = Structure(out)
    places: dict[str, Array] = {}
    wanted: dict[str, str] = {}
    for name, pdf in [("front", front), *((part.name, part.pdf) for part in parts)]:
        wanted |= dict.fromkeys(lead_inside(pdf, name, names, said["base"]), name)
        first = len(out.pages)
        heights = pdf.Root.get("/Dests", Dictionary())
        structure.renumber(pdf, first)
        with (
            warnings.catch_warnings()
        ):  # that names are left behind: they are made anew
            warnings.simplefilter("ignore", pikepdf.PageCopyWarning)
            out.pages.extend(pdf.pages)
        structure.graft(pdf)
        places |= places_of(name, heights, pdf.pages, out.pages[first:])
    if missed := {there: here for there, here in wanted.items() if there not in places}:
        lines = [f"  {here}: {there}" for there, here in missed.items()]
        raise ValueError("links that lead to no printed place:\n" + "\n".join(lines))

    heads = [f"{part.name}#{head.id}" for part in parts for head in part.headings]
    tree = NameTree.new(out)
    for name in {*wanted, *names, *heads}:
        tree[name] = places[name]
    out.Root.Names = Dictionary(Dests=tree.obj)
    structure.finish()
    outline(out, parts)
    describe(out, len(front.pages), said)
    return out


def lead_inside(pdf: pikepdf.Pdf, name: str, names: list[str], base: str) -> set[str]:
    """Turns the links of one part to names of places; returns these names."""
    wanted = set()
    for page in pdf.pages:
        for link in page.get("/Annots", []):
            if "/Dest" in link:
                there = f"{name}#{str(link.Dest).removeprefix('/')}"
            elif (there := place(str(link.A.URI), names, base)) is None:
                continue
            if "/A" in link:
                del link["/A"]
            link.Dest = String(there)
            wanted.add(there)
    return wanted


def place(address: str, names: list[str], base: str) -> str | None:
    """The name of the place to which an address leads, if that is on a page of the book."""
    if not address.startswith(f"{base}/"):
        return None
    path, _, fragment = address.removeprefix(f"{base}/").partition("#")
    name = names[0] if path in ("", "index.html") else path.removesuffix(".html")
    if name not in names:
        return None
    return f"{name}#{unquote(fragment)}" if fragment else name


def places_of(name: str, named: Dictionary, old, new: list) -> dict[str, Array]:
    """Where the places that a part names are in the whole.

    Args:
        name: the part's.
        named: page and position of each id, as Chromium wrote them.
        old: the pages of the part.
        new: the same pages in the whole.
    """
    places = {name: Array([new[0].obj, Name.Fit])}
    number = {page.objgen: index for index, page in enumerate(old)}
    for key in named:  # names of PDF, each with a slash
        page, *position = named[key]
        there = Array([new[number[page.objgen]].obj, *position])
        places[f"{name}#{key.removeprefix('/')}"] = there
    return places


class Structure:
    """One tree of tags out of many."""

    def __init__(self, out: pikepdf.Pdf) -> None:
        self.out = out
        self.document = out.make_indirect(
            Dictionary(
                Type=Name.StructElem, S=Name.Document, K=Array(), Lang=String("en")
            )
        )
        self.parents = NumberTree.new(out)  # from a page or a link to its elements
        self.ids = NameTree.new(out)  # the heads that cells of tables name
        self.next = 0

    def renumber(self, pdf: pikepdf.Pdf, part: int) -> None:
        """Moves the numbers and ids of a part past those that are taken."""
        for thing in pdf.objects:
            if not isinstance(thing, Dictionary | pikepdf.Stream):
                continue
            for key in ("/StructParents", "/StructParent"):
                if key in thing:
                    thing[key] = int(thing[key]) + self.next
            if thing.get("/Type") == Name.StructElem:
                if "/ID" in thing:
                    thing.ID = String(f"{part}-{thing.ID}")
                for attribute in thing.get("/A", []):
                    if "/Headers" in attribute:
                        heads = [String(f"{part}-{head}") for head in attribute.Headers]
                        attribute.Headers = Array(heads)

    def graft(self, pdf: pikepdf.Pdf) -> None:
        """Copies the tree of a part whose pages are already in the whole."""
        root = self.out.copy_foreign(pdf.Root.StructTreeRoot)
        for number, elements in NumberTree(root.ParentTree).items():
            self.parents[number + self.next] = elements
        self.next += int(root.ParentTreeNextKey)
        if "/IDTree" in root:
            for element in NameTree(root.IDTree).values():
                self.ids[str(element.ID)] = element
        root.K.S, root.K.P = Name.Part, self.document
        self.document.K.append(root.K)

    def finish(self) -> None:
        root = self.out.make_indirect(Dictionary(Type=Name.StructTreeRoot))
        root.K, self.document.P = self.document, root
        root.ParentTree, root.ParentTreeNextKey = self.parents.obj, self.next
        root.IDTree = self.ids.obj
        self.out.Root.StructTreeRoot = root
        self.out.Root.MarkInfo = Dictionary(Marked=True)


def outline(out: pikepdf.Pdf, parts: list) -> None:
    """Parts of the book, chapters, sections; opened down to the chapters."""
    with out.open_outline() as tree:
        above = tree.root
        for part in parts:
            if part.caption:
                item = OutlineItem(part.caption, String(part.name))
                item.is_closed = False
                tree.root.append(item)
                above = item.children
            path = {0: above}
            for head in part.headings:
                there = part.name if head.level == 1 else f"{part.name}#{head.id}"
                item = OutlineItem(head.text, String(there))
                item.is_closed = True
                path[max(level for level in path if level < head.level)].append(item)
                path = {k: kept for k, kept in path.items() if k < head.level}
                path[head.level] = item.children


def describe(out: pikepdf.Pdf, n_front: int, said: dict) -> None:
    """Title, author, licence, language; the numbers by which a reader calls the pages."""
    root = out.Root
    root.Lang = String("en")
    root.PageMode = Name.UseOutlines
    root.ViewerPreferences = Dictionary(DisplayDocTitle=True)
    labels = NumberTree.new(out)
    labels[0] = Dictionary(S=Name.r)
    labels[n_front] = Dictionary(S=Name.D)
    root.PageLabels = labels.obj
    with out.open_metadata(set_pikepdf_as_editor=False) as data:
        data["dc:title"] = said["title"]
        data["dc:creator"] = [said["author"]]
        data["dc:description"] = said["subtitle"]
        data["dc:language"] = ["en"]
        data["dc:rights"] = said["licence"]
    out.docinfo["/Title"], out.docinfo["/Author"] = said["title"], said["author"]
    out.docinfo["/Subject"] = said["subtitle"]


def save(out: pikepdf.Pdf, path: Path) -> None:
    """Writes the file: small, and readable in a browser before all of it is there."""
    modes = pikepdf.ObjectStreamMode
    out.save(path, object_stream_mode=modes.generate, linearize=True)
