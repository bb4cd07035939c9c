"""The page that shows the forward pass in one sitting, made from the source.

    python tools/forward_pass.py     writes book/forward_pass.md anew

In the order in which it runs: what `GPT.forward` calls, and what those call, without docstrings and
comments. A test follows real forward passes, and demands that nothing that ran is missing here.
"""

import ast
import io
import re
import tokenize
from itertools import pairwise

from layout import ROOT, short, sources

PAGE = ROOT / "book" / "forward_pass.md"

PATH = {
    "decoder_only.model.gpt": (
        "GPT.forward",
        "GPT.hidden",
        "GPT._check",
        "GPT._mask",
        "GPT.new_cache",
        "_positions",
        "_norm",
        "_block",
    ),
    "decoder_only.model.embeddings": (
        "TokenEmbedding",
        "LearnedPositions",
        "SinusoidalPositions",
        "sinusoids",
        "rotations",
        "_angles",
        "rotary",
    ),
    "decoder_only.model.block": ("Block",),
    "decoder_only.model.normalization": ("LayerNorm", "RMSNorm"),
    "decoder_only.model.multihead": ("MultiHeadAttention",),
    "decoder_only.model.attention": ("attend", "attention_mask"),
    "decoder_only.model.mlp": ("squared_relu", "ACTIVATIONS", "MLP", "SwiGLU"),
    "decoder_only.model.lm_head": ("LMHead", "_logits"),
    "decoder_only.model.cache": (
        "CachePosition",
        "KeyValueCache.__init__",
        "KeyValueCache.mask",
        "positions_in_ring",
        "KeyValueCache.append",
        "KeyValueCache._keep",
    ),
    "decoder_only.model.config": ("GPTConfig",),
    "decoder_only.base.checks": (
        "number",
        "_HOLDS",
        "whole",
        "choice",
        "choices",
        "to_plain_values",
        "_plain",
    ),
}
"""What is on the way from ids to logits, by module, in the order of reading."""

HEAD = """# The forward pass in one sitting

Everything that runs between `GPT.forward` and its logits, in the order of reading, without
docstrings and comments: {total} lines, with the cache and the settings.
The modules themselves say why; {{doc}}`reading_order` lists them.
This page is made from the source, and a test compares them: it follows forward passes of many
variants, with and without a cache, and finds every function that ran here.
"""


def stripped(source: str, node: ast.stmt) -> list[str]:
    """The lines of a definition that are code."""
    gone = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.ClassDef | ast.FunctionDef):
            said = inner.body[0]
            if isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant):
                gone |= set(range(said.lineno, said.end_lineno + 1))
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    numbers = range(first, node.end_lineno + 1)
    kept = [lines[n - 1].rstrip() for n in numbers if n not in gone]
    return [line for line in kept if line]


def definition(module: str, name: str) -> list[str]:
    """The code of a class, function, method or constant of a module."""
    (path,) = sources(module)
    source = path.read_text(encoding="utf-8")
    nodes = ast.parse(source).body
    for part in name.split("."):
        (node,) = (
            each
            for each in nodes
            if part in {getattr(each, "name", None), *_assigned(each)}
        )
        nodes = getattr(node, "body", [])
    return stripped(source, node)


def _assigned(node: ast.stmt) -> list[str]:
    targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _apart(lines: list[str]) -> str:
    """As text, with an empty line before each method of a class but the first."""
    text = lines[0]
    for before, line in pairwise(lines):
        begins = re.match(r"    (@|def )", line) and not before.startswith("    @")
        text += "\n\n" + line if begins else "\n" + line
    return text


def page() -> str:
    """The whole page as it should be."""
    parts, total = [], 0
    for module, names in PATH.items():
        found = [definition(module, name) for name in names]
        n_lines = sum(map(len, found))
        total += n_lines
        code = "\n\n".join(_apart(lines) for lines in found)
        fence = f"```{{code-block}} python\n{code}\n```"
        parts.append(f"## `{short(module)}`: {n_lines} lines\n\n{fence}\n")
    return "\n".join([HEAD.format(total=total), *parts])


def n_lines() -> int:
    """Lines of code on the page."""
    return sum(len(definition(m, name)) for m, names in PATH.items() for name in names)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
