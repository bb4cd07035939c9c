"""A button in the head of each lesson that has a workbook, which downloads it."""

import shutil
from pathlib import Path

ADDRESS = "_static/workbooks"


def workbooks(app) -> Path:
    return Path(app.srcdir, "src", "decoder_only_book", "workbooks")


def add(app, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Puts the button after that of the rocket; a lesson's workbook has the lesson's name."""
    folder, _, name = pagename.partition("/")
    if folder != "book" or not (workbooks(app) / f"{name}.ipynb").is_file():
        return
    button = {
        "type": "link",
        "url": context["pathto"](f"{ADDRESS}/workbook_{name[:2]}.ipynb", 1),
        "text": "Workbook",
        "icon": "fas fa-pencil",
        "tooltip": "Download the exercises of this chapter, which check themselves",
        "label": "workbook",
    }
    buttons = context["header_buttons"]
    labels = [other.get("label") for other in buttons]
    rocket = labels.index("launch-buttons") + 1 if "launch-buttons" in labels else 0
    buttons.insert(rocket, button)


def copy(app, exception) -> None:
    """Puts the workbooks into the built site, under the names that the command gives them."""
    if exception is not None or app.builder.format != "html":
        return
    target = Path(app.outdir, ADDRESS)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in workbooks(app).glob("*.ipynb"):
        shutil.copyfile(path, target / f"workbook_{path.name[:2]}.ipynb")


def setup(app) -> dict:
    # After the theme's own buttons.
    app.connect("html-page-context", add, priority=600)
    app.connect("build-finished", copy)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
