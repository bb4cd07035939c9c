"""Makes the font of the formulas: the part of STIX Two Math that the book's formulas draw from.

    python tools/math_font.py STIXTwoMath-Regular.ttf

The full font (1.5 MB, version 2.13 b171, fonts/static_ttf) is found in the history of
https://github.com/stipub/stixfonts, under the SIL Open Font License. What is kept stands below: the
alphabets whole, so that a new formula rarely needs a new font, and the signs one by one. A test
names every character of a formula that is missing here; add it to ``SIGNS`` and run this again. Of
the kept brackets, roots and sums all sizes are kept, and the table MATH, by which browsers place
them.

One thing is changed. Beside a root or a bracket Chromium leaves the room that its widest size would
need, whichever is drawn: 0.4 em after every small root. So the large sizes are drawn narrower here,
at most ``WIDER`` wider than the small one.

Needs fonttools and brotli (requirements.txt).
"""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.pens.transformPen import TransformPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "book" / "_static" / "fonts" / "stix-two-math.woff2"

SIGNS = (
    "\u00a0¬¯°±´·×÷ˆˇ˘˙˜\u0302\u0303\u0304\u0305\u0307\u0308\u0332"
    "–—‖•…′″‴\u2061\u2062\u2063ℎℏℑℓℜ←↑→↓↔↦⇐⇒⇔∀∂∃∅∇∈∉∏∐∑−∓∕∖∗∘√∝∞∠∣∥∧∨∩∪∫∬∼≃≅≈≔≠≡≤≥≪≫≺≻"
    "⊂⊃⊆⊇⊕⊖⊗⊘⊙⊤⊥⊨⋀⋁⋂⋃⋅⋆⋮⋯⋱⌈⌉⌊⌋⏜⏝⏞⏟⎴⎵▽⟨⟩⟶⟵⟹⟸⟺⟼\ufe00\ufe01"
)
STRETCHED = "()[]{}⌈⌉⌊⌋⟨⟩√"
WIDER = 100  # thousandths of an em

SCRIPT = {0x212C, 0x2130, 0x2131, 0x210B, 0x2110, 0x2112, 0x2133, 0x211B}
DOUBLE_STRUCK = {0x2102, 0x210D, 0x2115, 0x2119, 0x211A, 0x211D, 0x2124}
ALPHABETS = {
    *range(0x20, 0x7F),  # upright letters, digits
    *range(0x391, 0x3CA),  # Greek
    *(0x3D1, 0x3D5, 0x3D6, 0x3F0, 0x3F1, 0x3F5),
    *range(0x1D400, 0x1D468),  # bold, italic
    *range(0x1D49C, 0x1D4B6),  # script capitals
    *range(0x1D538, 0x1D552),  # double-struck capitals
    *range(0x1D6E2, 0x1D71C),  # Greek, italic
    *SCRIPT,
    *DOUBLE_STRUCK,
}


def characters() -> set[int]:
    """The code points that are kept."""
    return ALPHABETS | {ord(sign) for sign in SIGNS}


def make(source: Path, target: Path = TARGET) -> None:
    """Writes the kept part of ``source`` as woff2."""
    options = subset.Options(
        flavor="woff2",
        hinting=False,
        desubroutinize=True,
        layout_features=["ss04"],  # the prime that stands as high as an exponent
        name_IDs=[0, 1, 2, 4, 5, 6, 13, 14],  # who made it, and under which licence
    )
    font = subset.load_font(str(source), options)
    kept = subset.Subsetter(options)
    kept.populate(unicodes=characters())
    kept.subset(font)
    narrow(font)
    subset.save_font(font, str(target), options)


def narrow(font: TTFont) -> None:
    """Draws the large sizes of what stretches upwards, ``WIDER`` than the small one at most."""
    variants = font["MATH"].table.MathVariants
    sizes = dict(
        zip(
            variants.VertGlyphCoverage.glyphs,
            variants.VertGlyphConstruction,
            strict=True,
        )
    )
    for sign in STRETCHED:
        small = font.getBestCmap()[ord(sign)]
        most = font["hmtx"][small][0] + WIDER
        large = {size.VariantGlyph for size in sizes[small].MathGlyphVariantRecord}
        if sizes[small].GlyphAssembly:
            large |= {part.glyph for part in sizes[small].GlyphAssembly.PartRecords}
        for name in large - {small}:
            width, left = font["hmtx"][name]
            if width > most:
                pen = TTGlyphPen(None)
                squeezed = TransformPen(pen, (most / width, 0, 0, 1, 0, 0))
                font.getGlyphSet()[name].draw(squeezed)
                font["glyf"][name] = pen.glyph()
                font["glyf"][name].recalcBounds(font["glyf"])
                font["hmtx"][name] = most, round(left * most / width)


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit(
            f"decoder-only: name the font's file, as in: python {sys.argv[0]} "
            "STIXTwoMath-Regular.ttf"
        )
    make(Path(sys.argv[1]))
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
