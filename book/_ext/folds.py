"""What stands open and what is folded, decided here and not by a script in the page.

- Solutions become ``<details>``: they fold without JavaScript, a search in the page opens them, and
  each has a name of its own.
- A chapter's cell of imports is folded under "Set-up", so that the question comes first.
- The call of ``show_source`` says nothing that its output does not say: only the output is shown,
  and its label leads to the file. A listing that says what matters in it is one box, folds and
  all; of any other that is long, the beginning is shown.
- The code that draws a figure is offered below it: the picture comes first.
- Printed prose may wrap; printed columns may not.
"""

import ast
import re
from functools import cache

from docutils import nodes

LONG = 25
"""Lines of a listing that are shown at once. The style sheet has the same number."""


class fold(nodes.General, nodes.Element):
    """A ``<details>``; its first child, a :class:`fold_title`, is the ``<summary>``."""


class fold_title(nodes.General, nodes.TextElement):
    """What a fold is called."""


def open_fold(writer, node) -> None:
    writer.body.append(writer.starttag(node, "details", "\n"))


def close_fold(writer, node) -> None:
    writer.body.append("</details>\n")


def open_title(writer, node) -> None:
    writer.body.append(writer.starttag(node, "summary", ""))


def close_title(writer, node) -> None:
    writer.body.append("</summary>\n")


def folded(name: str, *content: nodes.Node, classes: list[str]) -> fold:
    box = fold(classes=classes)
    box += fold_title("", name, classes=["admonition-title"])
    box += content
    return box


def fold_solutions(doctree: nodes.document) -> None:
    for box in list(doctree.findall(nodes.Admonition)):
        if "dropdown" not in box.get("classes", ()):
            continue
        title = box.next_node(nodes.title)
        if title is None or title.parent is not box:
            continue
        box.remove(title)
        classes = [name for name in box["classes"] if name != "dropdown"]
        # An id with a slash cannot be named in a style sheet or a test.
        replaced = folded(
            title.astext(), *box.children, classes=["admonition", *classes]
        )
        replaced["ids"] = [name.replace("/", "-") for name in box["ids"]]
        box.parent.replace(box, replaced)


def cells(doctree: nodes.document) -> list[nodes.container]:
    return [
        node
        for node in doctree.findall(nodes.container)
        if node.get("nb_element") == "cell_code"
    ]


def part(cell: nodes.container, name: str) -> nodes.container | None:
    """The cell's ``cell_code_source`` or ``cell_code_output``."""
    return next((child for child in cell if child.get("nb_element") == name), None)


def statements(cell: nodes.container) -> list[ast.stmt]:
    source = part(cell, "cell_code_source")
    return parsed(source.astext()) if source else []


@cache
def parsed(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError:  # a cell with a magic
        return []


def is_set_up(cell: nodes.container) -> bool:
    """Imports, and settings by a bare call such as ``plots.use_style()``; and no output."""
    body = statements(cell)
    imports = [line for line in body if isinstance(line, ast.Import | ast.ImportFrom)]
    return (
        len(imports) >= 3
        and 3 * len(imports) >= 2 * len(body)
        and part(cell, "cell_code_output") is None
    )


def only_calls(cell: nodes.container, name: str) -> bool:
    """Whether the cell does nothing but call one function, once or several times."""
    body = statements(cell)
    return bool(body) and all(
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Call)
        and isinstance(line.value.func, ast.Name)
        and line.value.func.id == name
        for line in body
    )


def fold_set_up(doctree: nodes.document) -> None:
    for cell in cells(doctree)[:3]:
        if is_set_up(cell) and not cell.get("hide_mode"):
            source = part(cell, "cell_code_source")
            box = folded("Set-up: imports", source.deepcopy(), classes=["hide"])
            cell.replace(source, box)


def show_sources(doctree: nodes.document, address: str | None) -> None:
    for cell in cells(doctree):
        if (
            not only_calls(cell, "show_source")
            or part(cell, "cell_code_output") is None
        ):
            continue
        cell.remove(part(cell, "cell_code_source"))
        cell["classes"].append("shown-source")
        for file in list(cell.findall(nodes.literal)) if address else ():
            if file.astext().startswith("src/"):
                link = nodes.reference("", "", refuri=f"{address}/{file.astext()}")
                link += file.deepcopy()
                file.parent.replace(file, link)


class rest(nodes.General, nodes.Element):
    """The button below a long listing: ``n_lines`` of which the first are shown."""


def write_rest(writer, node) -> None:
    """It stands open or closed, and the style sheet shows or cuts the code before it.

    So the code is one piece: it can be copied and searched whole, and needs no script.
    """
    writer.body.append(
        '<details class="rest"><summary>'
        f'<span class="all">Show all {node["n_lines"]} lines</span>'
        f'<span class="first">Show the first {LONG} lines</span></summary></details>\n'
    )
    raise nodes.SkipNode


def is_listing(node: nodes.Node) -> bool:
    return isinstance(node, nodes.literal_block) and node.get("language") == "python"


def is_html(node: nodes.Node, opening: str) -> bool:
    return isinstance(node, nodes.raw) and node.astext().lstrip().startswith(opening)


def fold_listings(doctree: nodes.document) -> None:
    """Of what ``show_source`` put out: one box for each object, and none too long to pass over."""
    for cell in cells(doctree):
        if "shown-source" not in cell["classes"]:
            continue
        output = part(cell, "cell_code_output")
        groups: list[list[nodes.Node]] = []
        for node in output.children:
            if isinstance(node, nodes.paragraph) or not groups:  # the object's name
                groups.append([])
            groups[-1].append(node)
        output.clear()
        for label, *code in groups:
            output += label
            folded_by_name = any(is_html(node, "<details") for node in code)
            if folded_by_name:
                output += nodes.container("", *code, classes=["listing"])
                continue
            for node in code:
                output += node
                n_lines = node.astext().rstrip("\n").count("\n") + 1
                if is_listing(node) and n_lines > LONG:
                    output += rest(n_lines=n_lines)


def show_results_first(doctree: nodes.document) -> None:
    """The code that a cell hides comes after what it draws, or says."""
    for cell in cells(doctree):
        output = part(cell, "cell_code_output")
        if output is not None and cell.get("hide_mode") == "input":
            cell.remove(output)
            cell.insert(0, output)


def wrap_prose(doctree: nodes.document) -> None:
    for block in doctree.findall(nodes.literal_block):
        if "stream" not in block.get("classes", ()):
            continue
        columns = sum(
            bool(re.search(r"\S {2,}\S", line)) for line in block.astext().splitlines()
        )
        if columns < 2:
            block["classes"].append("prose")


def transform(app, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "html":
        return
    theme = app.config.html_theme_options
    url, branch = (
        theme.get("repository_url", ""),
        theme.get("repository_branch") or "main",
    )
    known = url and "/OWNER/" not in url
    fold_solutions(doctree)
    fold_set_up(doctree)
    show_sources(doctree, f"{url}/blob/{branch}" if known else None)
    fold_listings(doctree)
    show_results_first(doctree)
    wrap_prose(doctree)


def setup(app) -> dict:
    app.add_node(fold, html=(open_fold, close_fold))
    app.add_node(fold_title, html=(open_title, close_title))
    app.add_node(rest, html=(write_rest, None))
    app.connect("doctree-resolved", transform, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
