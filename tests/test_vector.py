"""Figures as SVG: the same file everywhere, text that is text, a narrow drawing for a phone."""

import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from decoder_only.plots import WIDTH
from decoder_only_book import plots
from decoder_only_book.vector import svg

mpl.use("Agg")

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _no_figure_and_no_setting_stays():
    with mpl.rc_context():
        plots.use_style()
        yield
    plt.close("all")


def words(element) -> list[str]:
    found = ("".join(text.itertext()) for text in element.iter(f"{SVG}text"))
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in found]


def both(figure):
    """The two drawings of a figure: the wide one, without the other, and the narrow one."""
    root = ElementTree.fromstring(svg(figure))
    narrow = root[-1]
    assert narrow.get("class").split()[0] == "narrow"
    assert narrow.get("display") == "none"
    root.remove(narrow)
    return root, narrow


def points(element) -> float:
    return float(element.get("width").removesuffix("pt"))


PICTURE = """
import matplotlib as mpl, torch
mpl.use("Agg")
import matplotlib.pyplot as plt
from decoder_only_book import plots
from decoder_only_book.pictures.mechanism import attention_steps
from decoder_only_book.vector import svg
plots.use_style()
z = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
attention_steps(z[2] @ z[:2], z @ z[:2], z)
print(svg(plt.gcf()))
figure, (left, right) = plt.subplots(1, 2)
x = torch.linspace(-3, 3, 60)
left.plot(x, torch.softmax(x, 0).cumsum(0), "o-", label="$p$")
left.legend()
plots.heatmap(torch.softmax(x.view(6, 10), 1), ax=right)
print(svg(figure))
print(torch.backends.cpu.get_cpu_capability())
"""


def test_a_figure_is_the_same_file_in_every_process_and_on_every_processor(capsys):
    """Here, and in a process with other operations and another order of sets."""
    exec(PICTURE, {})
    here, _, processor = capsys.readouterr().out.strip().rpartition("\n")
    environment = os.environ | {
        "ATEN_CPU_CAPABILITY": "avx2" if processor == "DEFAULT" else "default",
        "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", PICTURE],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    there, _, other = done.stdout.strip().rpartition("\n")
    assert there == here
    assert len(here) > 5_000
    assert other != processor or other == "DEFAULT"


def test_there_is_nothing_in_it_that_changes_or_that_nobody_reads():
    figure, axes = plt.subplots()
    axes.plot([1, 2], [2, 1], "o-")
    text = svg(figure)
    for word in (
        "metadata",
        "Date",
        "Matplotlib",
        "<!--",
        "<style",
        "DOCTYPE",
        "xlink",
    ):
        assert word not in text
    assert not re.search(r'(?:d|x|y|width)="[^"]*\.\d{3}', text)
    root = ElementTree.fromstring(text)
    names = [element.get("id") for element in root.iter() if element.get("id")]
    referred = set(re.findall(r'(?:url\(|href=")#(\w+)', text))
    assert len(names) == len(set(names))
    assert set(names) == referred


def test_words_and_formulas_can_be_found():
    figure, axes = plt.subplots()
    axes.set(
        xlabel=r"every $\frac{1}{2}$ of two words",
        ylabel=r"norm of $z'$",
        title="a title",
    )
    axes.set_xticks([0, 1], ["first", "second"])
    found = words(ElementTree.fromstring(svg(figure)))
    assert {"first", "second", "a title"} <= set(found)
    assert any(text.endswith("of two words") for text in found)
    assert any("z′" in text.replace(" ", "") for text in found)


def test_large_signs_need_no_font_of_their_own():
    figure, axes = plt.subplots()
    axes.set_xlabel(r"$\sqrt{\frac{a}{b}}$")
    text = svg(figure)
    assert "STIX" not in text
    assert "√" not in text
    axes.set_xlabel(r"$\frac{a}{b}$")
    assert len(re.findall('<path d="[^"]*"(?: /|)>', svg(figure))) < len(
        re.findall('<path d="[^"]*"(?: /|)>', text)
    )


def test_one_panel_is_drawn_once():
    figure, axes = plt.subplots()
    axes.plot([1, 2])
    assert "narrow" not in svg(figure)


def test_two_panels_stand_one_below_the_other_on_a_phone():
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 2.5), sharey=True)
    left.plot([1, 20], label="one")
    right.plot([3, 4])
    left.set(xlabel="left", ylabel="loss")
    right.set(xlabel="right")
    wide, narrow = both(figure)
    assert narrow.get("class") == "narrow column"
    assert points(narrow) <= 72 * WIDTH < points(wide) < 500
    assert words(wide).count("loss") == 1
    assert words(narrow).count("loss") == 2
    ticks = [sum(word.isdigit() for word in words(each)) for each in (wide, narrow)]
    assert ticks[1] > ticks[0], "the lower panel has a scale of its own"


def test_rows_that_only_the_first_heatmap_names_are_named_again():
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 2.5))
    names = ["early", "late"]
    plots.heatmap(np.eye(2), row_labels=names, ax=panels[0])
    plots.heatmap(np.eye(2), ax=panels[1])
    panels[1].set_yticks([])
    wide, narrow = both(figure)
    assert words(wide).count("early") == 1
    assert words(narrow).count("early") == 2


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (2, 2)])
def test_larger_grids_keep_their_places(rows, columns):
    figure, panels = plt.subplots(rows, columns, squeeze=False)
    panels[0, 1].set_xlabel("second")
    _, narrow = both(figure)
    assert narrow.get("class") == "narrow"


def test_drawings_are_drawn_once():
    figure, panels = plt.subplots(1, 3)
    for axes in panels:
        axes.set_axis_off()
    assert "narrow" not in svg(figure)


def test_the_figure_is_left_as_it_was():
    def state(figure):
        figure.canvas.draw()
        places = [tuple(axes.get_position().bounds) for axes in figure.axes]
        said = [(a.get_ylabel(), tuple(a.get_yticks())) for a in figure.axes]
        shown = [a.yaxis.get_tick_params().get("labelleft") for a in figure.axes]
        return tuple(figure.get_size_inches()), places, said, shown

    figure, (left, right) = plt.subplots(1, 2, sharey=True)
    left.plot(range(2_000), "o")
    left.set_ylabel("loss")
    right.twinx().plot([1, 2])
    before = state(figure)
    first = svg(figure)
    assert state(figure) == before
    assert not left.lines[0].get_rasterized()
    assert svg(figure) == first


def test_thousands_of_marks_are_pixels():
    figure, axes = plt.subplots()
    rng = np.random.default_rng(0)
    axes.plot(*rng.normal(size=(2, 5_000)), ".", markersize=2)
    text = svg(figure)
    assert text.count("<image") == 1
    assert len(text) < 60_000
    few, axes = plt.subplots()
    axes.plot(*rng.normal(size=(2, 100)), ".")
    assert "<image" not in svg(few)


def test_heatmaps_are_pictures_of_their_own_pixels_in_their_own_colours():
    from base64 import b64decode
    from io import BytesIO

    from PIL import Image

    values = np.arange(12).reshape(3, 4) / 11
    ax = plots.heatmap(values)
    link = re.search(r'href="data:image/png;base64,([^"]+)"', svg(ax.figure))[1]
    picture = np.asarray(Image.open(BytesIO(b64decode(link))).convert("RGB"))
    assert picture.shape == (3, 4, 3)
    wanted = plots.WEIGHTS(values, bytes=True)[..., :3]
    assert np.array_equal(picture, wanted) or np.array_equal(picture[::-1], wanted)


START = """
import os
import matplotlib.pyplot as plt
from decoder_only_book import plots
os.environ["DECODER_ONLY_DRAWN"] = "0/1"
plots.use_style()
"""
FOUR = """
for number in range(4):
    plt.plot([1, number])
    plt.show()
"""
BROKEN = """
plt.gca().xaxis.set_major_formatter(lambda value, place: 1 / 0)
plt.show()
"""


def test_a_notebook_shows_and_stores_svg_and_nothing_else():
    """Every figure is drawn, or one of so many; a broken one is found out in both ways."""
    import nbformat
    from execute import kernel_manager
    from nbclient import NotebookClient

    cells = [
        nbformat.v4.new_code_cell(source)
        for drawn in ("0/1", "1/4")
        for source in (START.replace("0/1", drawn), FOUR, BROKEN)
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, kernel_manager_class=kernel_manager())
    client.allow_errors = True
    client.execute()
    whole = []
    for _, four, broken in (cells[:3], cells[3:]):
        shown = [o.data for o in four.outputs if o.output_type == "display_data"]
        assert all(set(data) == {"image/svg+xml", "text/plain"} for data in shown)
        whole.append(["<path" in data["image/svg+xml"] for data in shown])
        assert "ZeroDivisionError" in str(broken.outputs)
    assert whole == [[True] * 4, [False, True, False, False]]
