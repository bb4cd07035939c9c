"""The figures: one style, colours and type that every reader can read."""

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from decoder_only_book import notebook, plots
from decoder_only_book.pictures.architecture import PARTS, architecture
from decoder_only_book.pictures.matrices import low_rank
from decoder_only_book.pictures.merging import merging
from decoder_only_book.pictures.placing import placing
from decoder_only_book.vector import svg

mpl.use("Agg")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import drawings  # noqa: E402


@pytest.fixture(autouse=True)
def _no_figure_and_no_setting_stays():
    with mpl.rc_context():
        yield
    plt.close("all")


def size(figure) -> int:
    """The size in bytes of the figure as a notebook stores it."""
    return len(svg(figure).encode())


# ------------------------------------------------------------------------------------------- style


def test_style_leaves_the_defaults_as_they_were():
    mpl.rcdefaults()
    before = dict(mpl.rcParams)
    with plots.style():
        assert mpl.rcParams["axes.spines.top"] is False
    architecture()
    plots.loss_curves({"a": ([1, 2], [3, 2])}, floor=1.0)
    plots.heatmap(np.eye(2))
    assert dict(mpl.rcParams) == before


def test_style_leaves_them_after_an_error():
    mpl.rcdefaults()
    before = dict(mpl.rcParams)
    with pytest.raises(RuntimeError), plots.style():
        raise RuntimeError
    assert dict(mpl.rcParams) == before


def test_use_style_sets_the_defaults():
    plots.use_style()
    figure, ax = plt.subplots()
    assert figure.get_facecolor() == (1, 1, 1, 1)
    assert figure.dpi > 100
    assert not ax.spines["top"].get_visible()


def test_import_sets_nothing():
    code = (
        "import matplotlib as m; a = dict(m.rcParams); import decoder_only_book.plots, "
        "decoder_only_book.notebook; b = dict(m.rcParams); a.pop('backend'); b.pop('backend'); "
        "assert a == b; import matplotlib.pyplot as p; assert not p.get_fignums()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ------------------------------------------------------------------------------------------ colour


def linear(colour):
    values = np.array(to_rgb(colour))
    return np.where(
        values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4
    )


def in_the_dark(colour):
    """The colour after the dark theme's filter: `invert(0.93) hue-rotate(180deg)`."""
    keep = 2 * np.array([[0.213, 0.715, 0.072]]) - np.eye(3)
    return tuple(np.clip(keep @ (0.93 - 0.86 * np.array(to_rgb(colour))), 0, 1))


# A page, as the style draws it and as the dark theme shows it.
PAGES = {"light": to_rgb, "dark": in_the_dark}


def contrast(one, other) -> float:
    """WCAG's contrast ratio."""
    light = sorted(float(linear(c) @ (0.2126, 0.7152, 0.0722)) for c in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


def lab(rgb):
    """CIE L*a*b* of a linear RGB colour, under D65."""
    to_xyz = [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / (0.9505, 1, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


# Machado, Oliveira and Fernandes (2009), severity 1.
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
SERIES = (
    plots.BLUE,
    plots.ORANGE,
    plots.GREEN,
    plots.VERMILLION,
    plots.PURPLE,
    plots.SKY,
)


def test_the_dark_page_is_what_the_filter_makes_of_white():
    css = (ROOT / "book" / "_static" / "book.css").read_text()
    dark = re.search(r"--pst-color-background: (#\w+); /\* what white becomes", css)[1]
    assert in_the_dark("white") == pytest.approx(to_rgb(dark), abs=0.002)
    assert "filter: invert(0.93) hue-rotate(180deg);" in css


def test_the_pages_turn_colours_as_the_filter_does():
    for colour in ("#ffffff", "#000000", *SERIES, *PARTS.values()):
        turned = drawings.in_the_dark(colour.removeprefix("#"))
        assert to_rgb(f"#{turned}") == pytest.approx(in_the_dark(colour), abs=0.002)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("vision", VISIONS)
def test_series_differ_to_every_colour_vision_on_every_page(vision, page):
    for one, other in combinations(SERIES, 2):
        seen = [
            lab(np.array(VISIONS[vision]) @ linear(PAGES[page](colour)))
            for colour in (one, other)
        ]
        # A just noticeable difference is about 2.3.
        assert np.linalg.norm(seen[0] - seen[1]) > 16, (one, other)


@pytest.mark.parametrize("colour", [plots.INK, plots.GREY])
def test_words_stand_out_in_light_and_dark(colour):
    assert contrast(colour, "white") >= 4.5
    assert contrast(in_the_dark(colour), in_the_dark("white")) >= 4.5


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("colour", [*SERIES, plots.MIST, *PARTS.values()])
def test_lines_stand_out_on_every_page(colour, page):
    assert contrast(PAGES[page](colour), PAGES[page]("white")) >= 3


@pytest.mark.parametrize("page", PAGES)
def test_colour_maps_of_lines_are_cut_where_they_no_longer_stand_out(page):
    cuts = []
    for path in (ROOT / "book").rglob("*.ipynb"):
        found = re.findall(
            r"viridis\(np\.linspace\(([\d.]+), ([\d.]+)", path.read_text()
        )
        cuts += [float(end) for ends in found for end in ends]
    assert len(cuts) >= 2
    for end in cuts:
        colour = PAGES[page](mpl.colormaps["viridis"](end)[:3])
        assert contrast(colour, PAGES[page]("white")) >= 3, end


def test_no_chapter_draws_in_a_colour_that_cannot_be_seen():
    for path in (ROOT / "book").rglob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            source = cell.source if cell.cell_type == "code" else ""
            for colour in re.findall(r"[\"'](#[0-9A-Fa-f]{6})[\"']", source):
                assert contrast(colour, "white") >= 3, f"{path.name}: {colour}"


def test_one_colour_means_one_thing():
    named = {
        "attention": plots.ATTENTION,
        "mlp": plots.MLP,
        "normalization": plots.NORM,
        "embeddings": plots.EMBEDDING,
        "lm_head": plots.HEAD,
        "model": plots.STREAM,
    }
    assert {part: PARTS[part] for part in named} == named
    assert len({*named.values(), plots.MODEL, plots.TRUTH}) == len(named) + 2


def test_lines_take_their_colours_in_this_order():
    with plots.style():
        assert mpl.rcParams["axes.prop_cycle"].by_key()["color"] == list(SERIES)


def test_weights_only_darken_and_signs_darken_both_ways():
    def lightness(colourmap):
        return [lab(linear(colourmap(x)[:3]))[0] for x in np.linspace(0, 1, 33)]

    assert plots.WEIGHTS(0.0) == plots.SIGNED(0.5) == (1, 1, 1, 1)
    assert (np.diff(lightness(plots.WEIGHTS)) < 0).all()
    signed = np.diff(lightness(plots.SIGNED))
    assert (signed[:16] > 0).all()
    assert (signed[16:] < 0).all()


def test_tokens_are_tinted_with_the_same_palette():
    tints = [
        "#{:02X}{:02X}{:02X}".format(*map(int, t.split(","))) for t in notebook._TINTS
    ]
    assert sorted(tints) == sorted(SERIES)


# ------------------------------------------------------------------------------------------ charts

STEPS = np.arange(1, 401)
NOISY = 1.2 + 4 * np.exp(-STEPS / 60) + 0.05 * np.sin(STEPS**2)


def test_figures_are_small_files():
    tokens = [
        "Once",
        " upon",
        " a",
        " time",
        " there",
        " was",
        " a",
        " fox",
        ".",
        " The",
        "\n",
    ]
    weights = torch.rand(11, 11).tril()
    charts = (
        plots.loss_curves(
            {"training": (STEPS, NOISY), "validation": (STEPS[::25], NOISY[::25])}
        ),
        plots.heatmap(
            weights, row_labels=tokens, col_labels=tokens, colour_label="weight"
        ),
        plots.heatmap(weights[:6, :6], decimals=2),
    )
    for ax in charts:
        assert size(ax.figure) < 30_000
    assert size(architecture()) < 30_000
    assert size(architecture("mlp")) < 15_000


def test_loss_curves_show_the_floor_and_the_gap():
    ax = plots.loss_curves(
        {"training": (STEPS, NOISY), "validation": ([0, 400], [5.0, 1.5])},
        floor=1.25,
        faint=["training"],
    )
    assert ax.get_xlabel() == "optimizer step"
    assert ax.get_ylabel() == "loss (nats per token)"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "training",
        "validation",
    ]
    assert "floor 1.250, gap 0.250" in [text.get_text() for text in ax.texts]
    assert ax.get_ylim()[0] < 1.25
    training, validation, floor = ax.get_lines()
    assert training.get_linewidth() < validation.get_linewidth()
    assert list(floor.get_ydata()) == [1.25, 1.25]


def test_the_floor_is_below_its_text_whatever_the_losses_do():
    ax = plots.loss_curves({"a": ([1, 2], [3.0, 2.0])}, floor=2.5)
    ax.figure.canvas.draw()
    assert ax.texts[0].get_text() == "floor 2.500, gap -0.500"
    assert ax.get_ylim()[0] <= 2.0
    assert len(plots.loss_curves({"a": ([1, 2], [3.0, 2.0])}).texts) == 0


def test_heatmaps_take_tensors_and_label_tokens():
    matrix = torch.eye(3, dtype=torch.bfloat16, requires_grad=True)
    tokens = ["Once", " upon", "\n$a$"]
    ax = plots.heatmap(
        matrix, row_labels=tokens, col_labels=tokens, x_label="$t$", decimals=1
    )
    assert np.array_equal(ax.images[0].get_array(), np.eye(3))
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "Once",
        "·upon",
        "↵$a$",
    ]
    assert not ax.get_xticklabels()[0].get_parse_math()
    assert ax.images[0].get_clim() == (0, 1)
    assert [text.get_text() for text in ax.texts[:2]] == ["1.0", "0.0"]
    ax.figure.canvas.draw()


def test_signed_heatmaps_are_symmetrical_about_zero():
    ax = plots.heatmap([[-3.0, 1.0], [float("nan"), 0.0]], signed=True, decimals=0)
    assert ax.images[0].get_clim() == (-3, 3)
    assert [text.get_text() for text in ax.texts] == ["−3", "1", "0"]
    assert ax.texts[0].get_color() == "white"
    assert ax.texts[2].get_color() == plots.INK
    assert plots.heatmap(np.zeros((2, 2))).images[0].get_clim() == (0, 1)


def test_charts_draw_on_axes_that_are_given():
    figure, (one, two) = plt.subplots(1, 2)
    assert plots.heatmap(np.eye(2), ax=one) is one
    assert plots.loss_curves({"a": ([1], [2])}, ax=two) is two
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.loss_curves({}), r"curves={} must"),
        (
            lambda: plots.loss_curves({"a": ([1], [1, 2])}),
            r"curve 'a'=\(\(1,\), \(2,\)\) must be",
        ),
        (lambda: plots.loss_curves({"a": ([], [])}), "at least 1"),
        (lambda: plots.loss_curves({"a": ([1], [1])}, faint=["b"]), r"'b'.* some of a"),
        (lambda: plots.heatmap([1.0, 2.0]), r"matrix.shape=\(2,\) must"),
        (lambda: plots.heatmap(np.zeros((0, 2))), r"matrix.shape=\(0, 2\)"),
        (lambda: plots.heatmap(np.eye(2), row_labels=["a"]), "row_labels=1 must"),
        (lambda: plots.heatmap(np.eye(2), col_labels="abc"), "col_labels=3 must"),
    ],
)
def test_bad_input_is_refused_before_anything_is_drawn(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
    assert plt.get_fignums() == []


# --------------------------------------------------------------------------- pictures of mechanisms


def test_a_merge_colours_what_it_made_and_nothing_else():
    rows = [["l", "o", "w"], ["lo", "w"], ["low"]]
    figure = merging({"low": rows, "ow": [["o", "w"]] * 3}, ["letters", "lo", "low"])
    boxes = figure.axes[0].patches
    lit = [box for box in boxes if to_rgb(box.get_edgecolor()) == to_rgb(plots.BLUE)]
    assert len(boxes) == 3 + 2 + 1 + 3 * 2
    assert len(lit) == 2
    said = [label.get_text() for label in figure.axes[0].texts]
    assert said == ["l", "o", "w", "lo", "w", "low"] + ["o", "w"] * 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [([["l", "o"]], "2, as of labels"), ([["l", "o"], ["la"]], "must spell lo")],
)
def test_a_merge_of_other_letters_is_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        merging({"lo": rows}, ["letters", "lo"])


def test_positions_enter_in_three_places():
    heights = []
    for panel in placing().axes:
        chips = [text for text in panel.texts if text.get_bbox_patch() is not None]
        lit = [
            text
            for text in chips
            if to_rgb(text.get_bbox_patch().get_edgecolor()) == to_rgb(plots.BLUE)
        ]
        heights.append({text.get_position()[1] for text in lit})
    assert heights == [{1}, {3}, {5}]


def test_a_low_rank_change_is_drawn_with_its_sizes():
    up, down = np.ones((4, 1)), np.ones((1, 5))
    said = [text.get_text() for text in low_rank(np.eye(4, 5), up, down).axes[0].texts]
    assert [word for word in said if word in "×+="] == ["×", "=", "+", "="]
    assert [word for word in said if " × " in word][:3] == ["4 × 1", "1 × 5", "4 × 5"]
    images = low_rank(np.eye(4, 5), up, down).axes[0].images
    assert np.array_equal(images[-1].get_array(), np.eye(4, 5) + 1)


@pytest.mark.parametrize("shapes", [((4, 5), (3, 1), (1, 5)), ((4, 5), (4, 2), (1, 5))])
def test_matrices_that_do_not_fit_are_refused(shapes):
    with pytest.raises(ValueError, match=r"must be \(f, d\), \(f, r\), \(r, d\)"):
        low_rank(*map(np.zeros, shapes))
    assert plt.get_fignums() == []
