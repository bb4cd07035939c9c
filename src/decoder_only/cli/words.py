"""How the commands print: numbers, tables, texts and commands to paste."""

import math
import shlex
import textwrap


def plain(message: object) -> str:
    """A name or a message in one line, which no file can use to steer the terminal."""
    text = str(message)
    text = text if len(text) < 1000 else f"{text[:900]} … {text[-80:]}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def command(*words: object) -> str:
    """A command to paste, whatever its words are made of."""
    return "  " + plain(shlex.join(["decoder-only", *map(str, words)]))


def visible(text: str) -> str:
    """A text in which whatever could steer a terminal shows as its escape."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode()
        for c in text
    )


def show(text: str, verdict: object = "") -> None:
    """Print a text, and below it the verdict on it."""
    for each in visible(text).splitlines():
        print(textwrap.fill(each, 88, initial_indent="  ", subsequent_indent="  "))
    if verdict:
        print(textwrap.indent(visible(str(verdict)), "    "))
    print()


def line(name: str, value: str, *notes: str) -> None:
    """A row of a table, and below it what it rests on."""
    print(f"{name:10} {plain(value)}")
    for note in notes:
        print(textwrap.indent(textwrap.fill(plain(note), 75), " " * 13))


def shape(config: object) -> str:
    """The shape of a model in words."""
    return f"{config.n_layers} blocks, {config.d_model:,} wide, {config.n_heads} heads"


def short(number: float | int, unit: str = "") -> str:
    """Three digits and a prefix: 1.42 B, or 43.2 GB."""
    prefixes = {1e12: "T", 1e9: "G" if unit else "B", 1e6: "M", 1e3: "k"}
    for size, prefix in prefixes.items():
        if number >= 0.9995 * size:
            digits = max(0, 2 - math.floor(math.log10(1.0005 * number / size)))
            return f"{number / size:,.{digits}f} {prefix}{unit}"
    return f"{number:.0f} {unit}".strip()


def power(number: float | int) -> str:
    """Three digits and a power of ten: 2.74e20."""
    return f"{number:.2e}".replace("e+", "e")


def duration(seconds: float | int) -> str:
    """A time in the unit in which it is read at a glance."""
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= (2 if name == "days" else 1) * size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:.1f} seconds"
