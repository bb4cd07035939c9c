"""How options show in the help, and options made from a class of settings."""

import dataclasses
import inspect
import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Annotated, Literal, TypedDict, get_args, get_origin, get_type_hints

import tyro


def option(
    metavar: str | None, default: str | None = None, **settings: object
) -> object:
    """How an option shows in the help: what to give, and what happens without it."""
    hint = "" if default is None else f"(default: {default})"
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=hint, **settings)


Flag = tyro.conf.FlagCreatePairsOff[bool]
Device = Annotated[str | None, option("NAME", "the best that is here")]

_METAVARS = {int: "N", float: "X", bool: ""}


def settings(config: type, *, aliases: Mapping[str, str] | None = None) -> object:
    """An option for each field of a dataclass; what is not given is not in the result.

    Args:
        config: its docstring explains its fields, and their help is that.
        aliases: a second name for some.

    Returns:
        A type of dictionaries, for the annotation of a parameter.
    """
    help_of, types, aliases = explained(config), get_type_hints(config), aliases or {}
    options = {}
    for field in dataclasses.fields(config):
        kind = types[field.name]
        plain = next((t for t in get_args(kind) if t is not NoneType), kind)
        if plain is bool:
            kind = bool
        more = {"aliases": (aliases[field.name],)} if field.name in aliases else {}
        choices = get_origin(kind) is Literal  # which show themselves
        metavar = None if choices else _METAVARS.get(plain, "N|None …")
        shown = option(metavar, help=help_of[field.name], **more)
        options[field.name] = Annotated[kind, shown]
    made = TypedDict(config.__name__, options, total=False)
    return tyro.conf.OmitArgPrefixes[made]


def explained(config: object) -> dict[str, str]:
    """The text of each name in the section `Args:` of a docstring."""
    block = inspect.getdoc(config).partition("Args:\n")[2].partition("\n\n")[0]
    texts = {}
    for entry in re.split(r"\n(?=    \S)", block):
        names, _, text = entry.partition(":")
        words = " ".join(text.split())
        texts |= dict.fromkeys(re.findall(r"\w+", names), words[:1].upper() + words[1:])
    return texts


def written(settings: Mapping[str, object]) -> list[str]:
    """The words of the command line that give such options."""
    words = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
            continue
        several = isinstance(value, Sequence) and not isinstance(value, str)
        words += [f"--{flag}", *map(str, value if several else [value])]
    return words
