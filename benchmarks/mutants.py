"""What a chapter's own checks, or the package's tests, would notice: functions broken line by line.

    python benchmarks/mutants.py 03
    python benchmarks/mutants.py 03 --only attention.attend --limit 20
    python benchmarks/mutants.py tests --limit 200 --seed 0

Every function that the chapter shows is changed in one place: a sign, a comparison, a constant, a
flag, a call or a statement left out. The chapter is then run in a process of its own until a cell
raises, or prints what its stored output does not say; cells whose output may differ from machine
to machine (`nbval-ignore-output`) count only by what they raise. What is noticed by neither
survives. A survivor is a check that the chapter lacks, or a change that changes nothing: the file
`results/mutants.json` keeps each, with the reason where somebody has given one under "why".

Before any mutant the chapter runs unchanged; a checker that refuses that is worth nothing.

With `tests` in the place of a chapter, mutants are drawn at random from the whole package, and each
is given to the test files of its own module until a test fails. The test that noticed it is kept
in `results/mutants_of_tests.json` and is asked first the next time, so that a suite that was made
quicker can be compared with what it was, over the very same mutants.

Linux and macOS only: each run is a fork of a process that has imported the libraries.
"""

import ast
import copy
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import nbformat
import tyro
from provenance import collect, write_results

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "decoder_only"
RESULTS = Path(__file__).parent / "results" / "mutants.json"
RESULTS_OF_TESTS = RESULTS.with_name("mutants_of_tests.json")

SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """One change: in which function of which file, at which of its places, from what to what."""

    file: str
    function: str
    line: int
    place: int
    before: str
    after: str


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may be replaced by."""
    new = copy.copy(node)
    match node:
        case ast.BinOp(op=op) if type(op) in SWAPPED:
            new.op = SWAPPED[type(op)]()
            yield new
        case ast.BinOp(left=left, op=ast.Pow()):
            yield left
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            new.ops = [SWAPPED[type(op)]()]
            yield new
        case ast.BoolOp(op=op):
            new.op = SWAPPED[type(op)]()
            yield new
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            new.value = not value
            yield new
        case ast.Constant(value=int() as value):
            new.value = value + 1
            yield new
        case ast.Constant(value=float() as value):
            new.value = value * 1.1 or 0.1
            yield new
        case ast.Call(args=[argument], keywords=[]):
            yield argument
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield ast.Pass()


def places(function: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Where a function's body may be changed: (parent, field, index), in order, checks left out."""
    for statement in function.body:
        yield from _places(
            statement, (function, "body", function.body.index(statement))
        )


def _places(
    node: ast.AST, where: tuple[ast.AST, str, int | None]
) -> Iterator[tuple[ast.AST, str, int | None]]:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if is_text or isinstance(node, ast.Raise | ast.JoinedStr | ast.FunctionDef):
        return
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "require":
        return
    yield where
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "ctx"}:
            continue
        if isinstance(value, list):
            for index, child in enumerate(value):
                if isinstance(child, ast.AST):
                    yield from _places(child, (node, name, index))
        elif isinstance(value, ast.AST):
            yield from _places(value, (node, name, None))


def held(parent: ast.AST, name: str, index: int | None) -> ast.AST:
    value = getattr(parent, name)
    return value if index is None else value[index]


def functions(tree: ast.Module, qualname: str) -> Iterator[ast.FunctionDef]:
    """The function of that name, or the methods of the class."""
    found: ast.AST | None = tree
    for part in qualname.split("."):
        found = next(
            (
                child
                for child in found.body
                if isinstance(child, ast.FunctionDef | ast.ClassDef)
                and child.name == part
            ),
            None,
        )
        if found is None:
            return
    if isinstance(found, ast.FunctionDef):
        yield found
    else:
        yield from (each for each in found.body if isinstance(each, ast.FunctionDef))


def rewritten(source: str, node: ast.AST, new: ast.AST) -> str:
    """The module's text with one node replaced; all else stays to the letter."""
    lines = source.encode().splitlines(keepends=True)
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    text = ast.unparse(new)
    if isinstance(new, ast.expr):
        text = f"({text})"
    whole = source.encode()
    return (whole[:begin] + text.encode() + whole[end:]).decode()


def mutants(
    file: str, qualname: str, *, as_tree: bool
) -> Iterator[tuple[Mutant, ast.Module | str]]:
    """Every change of a function, and the module with it: as a tree, or as text."""
    source = (ROOT / file).read_text(encoding="utf-8")
    n_functions = len(list(functions(ast.parse(source), qualname)))
    for which in range(n_functions):
        tree = ast.parse(source)
        one = list(functions(tree, qualname))[which]
        for place, (parent, name, index) in enumerate(list(places(one))):
            node = held(parent, name, index)
            for new in changes(node):
                ast.copy_location(new, node)
                if index is None:
                    setattr(parent, name, new)
                else:
                    getattr(parent, name)[index] = new
                about = ast.unparse(node), ast.unparse(new)
                yield (
                    Mutant(file, f"{qualname}/{one.name}", node.lineno, place, *about),
                    ast.fix_missing_locations(copy.deepcopy(tree))
                    if as_tree
                    else rewritten(source, node, new),
                )
                if index is None:
                    setattr(parent, name, node)
                else:
                    getattr(parent, name)[index] = node


class Broken(MetaPathFinder):
    """Imports one module of the package from a syntax tree instead of its file."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name, self.tree = name, tree

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        spec, tree = PathFinder.find_spec(name, path), self.tree

        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> Any:  # whatever is cached
                return compile(tree, self.path, "exec", dont_inherit=True)

        spec.loader = Loader(name, spec.origin)
        return spec


def module_name(file: str) -> str:
    parts = Path(file).relative_to("src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def said(outputs: list[Any]) -> str:
    """The text that a cell printed or showed, of a stored notebook or of a run."""
    texts = []
    for output in outputs:
        if output.get("output_type") == "stream":
            texts.append(output["text"])
        else:
            data = output.get("data", {})
            texts.append(data.get("text/markdown") or data.get("text/plain", ""))
    return "\n".join(text.strip() for text in texts)


def run_chapter(notebook: Path, broken: Broken | None, channel: Any) -> None:
    """In a process of its own: run the cells, and send the first that notices anything, or None."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    os.chdir(notebook.parent)
    if broken is not None:
        sys.meta_path.insert(0, broken)
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    import decoder_only_book.notebook as showing

    shown: list[tuple[str, str]] = []
    listing = showing._listing

    def noting(thing: Any, docstring: bool) -> tuple[str, str, str]:
        name, file, code = listing(thing, docstring)
        shown.append((file, name))
        return name, file, code

    showing._listing = noting

    class Shell(InteractiveShell):
        def enable_gui(self, gui: Any = None) -> None:
            """Figures are drawn into the cell: no window needs a loop of events."""

    shell = Shell.instance()
    shell.run_line_magic("matplotlib", "inline")
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        with capture_output() as captured:
            # Values are captured too, not printed.
            shell.display_trap.hook = sys.displayhook
            result = shell.run_cell(cell.source, store_history=True)
        if not result.success:
            error = result.error_before_exec or result.error_in_exec
            channel.send((cell.id, type(error).__name__, shown))
            return
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            continue
        now = [{"output_type": "stream", "text": captured.stdout}] * bool(
            captured.stdout
        )
        now += [{"data": output.data} for output in captured.outputs]
        if "".join(said(now).split()) != "".join(said(cell.outputs).split()):
            channel.send((cell.id, "output", shown))
            return
    channel.send((None, None, shown))


def attempt(
    notebook: Path, broken: Broken | None, limit: float
) -> tuple[str | None, str | None, list[tuple[str, str]]]:
    """Run the chapter once: the cell that noticed, what it noticed, and what was shown."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=run_chapter, args=(notebook, broken, there))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(limit) else (None, "time", [])
    except EOFError:
        return None, "crash", []
    finally:
        process.kill()
        process.join()


def attempt_all(
    pages: list[Path], broken: Broken | None, limit: float
) -> tuple[str | None, str | None, list[tuple[str, str]]]:
    """The same for a lesson and its laboratory, one after the other, until one notices."""
    shown: list[tuple[str, str]] = []
    for page in pages:
        cell, what, seen = attempt(page, broken, limit)
        shown += seen
        if what is not None:
            break
    return cell, what, shown


# ------------------------------------------------------------------------ the package's own tests

# Test files of modules whose name they do not bear. The words of the stories break no rule.
TESTS_OF = {
    "base.files": "checkpoint resume",
    "base.modes": "training generation",
    "base.provenance": "monitor",
    "base.tensors": "checkpoint resume",
    "data.corpus": "data",
    "data.prepared": "tokens hostile",
    "data.sources": "data tokens",
    "generation.sampling": "generation",
    "generation.writing": "generation",
    "hub.folder": "pretrained translation",
    "hub.settings": "pretrained translation",
    "hub.weights": "pretrained translation",
    "model.block": "block model",
    "model.config": "model",
    "model.counting": "scaling parallelism",
    "model.gpt": "model",
    "recipes": "recipes cli",
    "stories.grammar": "stories exact",
    "stories.language": "stories",
    "stories.world": "stories",
    "tokenization.exchange": "pretrained tokenization",
    "training.checkpoint": "checkpoint training resume",
    "training.config": "training",
    "training.evaluation": "training",
    "training.log": "monitor checkpoint resume",
    "training.loop": "training resume",
    "training.optimizers": "optimization",
    "training.processes": "distributed parallelism",
    "training.state": "training resume",
    "training.step": "training resume",
    "variants.parallelism.data": "parallelism",
    "variants.parallelism.group": "collectives",
    "variants.parallelism.pipeline": "parallelism",
    "variants.parallelism.ring": "parallelism",
    "variants.parallelism.tensor": "parallelism",
}
# No unchanged test file takes so long; what a mutant makes endless has been noticed.
PROCESSOR_SECONDS = 240
NOT_BROKEN = {"stories.lexicon"}


def tests_of(file: str) -> list[str]:
    """The test files that are asked about a module, its own first."""
    stem = module_name(file).removeprefix("decoder_only").removeprefix(".")
    package, _, last = stem.rpartition(".")
    names = TESTS_OF.get(stem, "").split() or [last, package.rpartition(".")[2]]
    found = [ROOT / "tests" / f"test_{name}.py" for name in names]
    return [str(path.relative_to(ROOT)) for path in found if path.exists()]


def of_the_package() -> list[tuple[Mutant, str]]:
    """Every change of every function of the package that some test file is about."""
    every = []
    for path in sorted(PACKAGE.rglob("*.py")):
        file = str(path.relative_to(ROOT))
        if module_name(file).removeprefix("decoder_only.") in NOT_BROKEN:
            continue
        if not tests_of(file):
            continue
        names = [
            node.name
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        every += [each for name in names for each in mutants(file, name, as_tree=False)]
    return every


class FirstFailure:
    """A plugin of pytest: the test that failed first."""

    name: str | None = None

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.name is None:
            self.name = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and self.name is None:
            self.name = report.nodeid


def run_tests(file: str, text: str, tests: list[str], channel: Any) -> None:
    """In a process of its own: run tests over a copy of the package with one module broken."""
    import resource
    import shutil
    import tempfile

    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))

    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copied, symlinks=True)
        (Path(folder) / file).write_text(text, encoding="utf-8")
        sys.path.insert(0, str(copied))
        os.environ["PYTHONPATH"] = str(copied)
        os.chdir(ROOT)
        first = FirstFailure()
        plain = "-x -q -p no:cacheprovider -p no:xdist"
        pytest.main([*plain.split(), *tests], plugins=[first])
        channel.send(first.name)


def noticed_by(file: str, text: str, tests: list[str]) -> str | None:
    """The first test that fails on a broken module; or "time", or "crash"; None where all pass."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=run_tests, args=(file, text, tests, there))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(4 * PROCESSOR_SECONDS) else "time"
    except EOFError:
        process.join()
        return "time" if process.exitcode == -signal.SIGKILL else "crash"
    finally:
        process.kill()
        process.join()


def break_the_package(limit: int, seed: int, out: Path, only: str, jobs: int) -> None:
    """Give mutants of the whole package to its tests."""
    import random
    from concurrent.futures import ThreadPoolExecutor

    # What every test needs is imported once, before the forks.
    import pytest  # noqa: F401
    import scipy.optimize  # noqa: F401
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(1)
    every = of_the_package()
    n_every = len(every)
    if limit and limit < n_every:
        every = random.Random(seed).sample(every, limit)
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    before = {
        (each["function"], each["place"], each["after"]): each["noticed_by"]
        for each in known.get("mutants", [])
    }

    def ask(one: tuple[Mutant, str]) -> dict[str, object]:
        mutant, text = one
        key = f"{module_name(mutant.file)}.{mutant.function}", mutant.place
        last = before.get((*key, mutant.after))
        asked = tests_of(mutant.file)
        found = None
        if last and "::" in last:
            found = noticed_by(mutant.file, text, [last])
            # A test that is gone, or was renamed, is a failure to find it.
            found = found if found and found.partition("[")[0] in last else None
        found = found or noticed_by(mutant.file, text, asked)
        change = f"{key[0]}, line {mutant.line}: {mutant.before} -> {mutant.after}"
        print(f"{found or 'SURVIVES'}: {change}", flush=True)
        return {
            "function": key[0],
            "place": mutant.place,
            "before": mutant.before,
            "after": mutant.after,
            "noticed_by": found,
        }

    chosen = [one for one in every if only in f"{one[0].file} {one[0].function}"]
    with ThreadPoolExecutor(jobs) as pool:
        told = list(pool.map(ask, chosen))
    n_noticed = sum(each["noticed_by"] is not None for each in told)
    result = {
        "provenance": collect(packages=["torch"]),
        "drawn": {"from": n_every, "seed": seed},
        "noticed": n_noticed,
        "mutants": told,
    }
    write_results(out, result)
    print(f"{len(told)} made, {n_noticed} noticed")


def main(
    chapter: tyro.conf.Positional[str],
    only: str = "",
    limit: int = 0,
    seed: int = 0,
    jobs: int = 1,
    out: Path | None = None,
) -> None:
    """Break what a chapter shows, place by place, and write what its checks did not notice.

    Args:
        chapter: its number, or `tests` for the whole package and its tests.
        only: a part of the function's name.
        limit: at most so many mutants, evenly spread over all, or drawn by the seed; 0 for all.
        seed: of the draw from the whole package.
        jobs: mutants at a time, of the whole package.
        out: the JSON file in which the chapter's part is replaced.
    """
    if chapter == "tests":
        break_the_package(limit, seed, out or RESULTS_OF_TESTS, only, jobs)
        return
    out = out or RESULTS
    # What every run needs is imported once; the package itself is imported by each.
    import matplotlib
    import torch

    matplotlib.use("Agg")
    torch.set_num_threads(1)
    pages = [
        page
        for folder in (ROOT / "book", ROOT / "book" / "lab")
        for page in folder.glob(f"{chapter}_*.ipynb")
    ]
    if not pages:
        sys.exit(f"there is no chapter {chapter!r}; give its number, as 03")
    began = time.perf_counter()
    cell, what, shown = attempt_all(pages, None, limit=1200)
    clean = time.perf_counter() - began
    if what is not None:
        sys.exit(f"the unchanged chapter does not pass: {what} in {cell}")
    print(f"{pages[0].stem}: {len(shown)} shown, {clean:.0f} s unchanged", flush=True)
    every = [
        (mutant, tree)
        for file, name in dict.fromkeys(shown)
        if only in f"{module_name(file)}.{name}"
        for mutant, tree in mutants(file, name, as_tree=True)
    ]
    if limit and limit < len(every):
        every = [every[i * len(every) // limit] for i in range(limit)]
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    why = {
        (each["function"], each["before"], each["after"]): each.get("why", "")
        for each in known.get("chapters", {}).get(chapter, {}).get("survivors", [])
    }
    survivors, caught = [], {}
    for mutant, tree in every:
        broken = Broken(module_name(mutant.file), tree)
        cell, what, _ = attempt_all(pages, broken, limit=3 * clean + 20)
        change = f"{mutant.function}, line {mutant.line}: {mutant.before}"
        print(f"{what or 'SURVIVES':16} {change}  ->  {mutant.after}", flush=True)
        if what:
            caught[what] = caught.get(what, 0) + 1
        else:
            key = mutant.function, mutant.before, mutant.after
            survivors.append(
                {"function": mutant.function, "file": mutant.file}
                | {"before": mutant.before, "after": mutant.after}
                | {"why": why.get(key, "")}
            )
    result = {
        "provenance": collect(packages=["torch"]),
        "made": len(every),
        "caught": dict(sorted(caught.items())),
        "survivors": survivors,
    }
    chapters = known.get("chapters", {}) | {chapter: result}
    write_results(out, {"chapters": dict(sorted(chapters.items()))})
    print(f"{len(every)} made, {len(every) - len(survivors)} noticed")


if __name__ == "__main__":
    tyro.cli(main)
