"""Rules that hold across the package: floors, names, annotations, and what importing does.

Read from the source (AST), so that a rule is broken where it is written, not where it is run.
"""

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
import types
from functools import cache
from itertools import chain

import jaxtyping
import layout
import pytest
import warm
from layout import ROOT, SOURCE, imported, trees
from rules import of_every

import decoder_only

MODULES = layout.modules()
# What the chapters teach: each public name of these is used or shown in one of them.
TAUGHT = tuple(
    f"decoder_only.{layer}"
    for layer in ("tokenization", "model", "generation", "analysis", "variants")
)
every_module = of_every(MODULES)


def public(module: str) -> list[str]:
    """What `__all__` names; where there is none, what begins without an underscore."""
    found = importlib.import_module(module)
    own = [n for n, x in vars(found).items() if is_defined_in(found, x)]
    return list(getattr(found, "__all__", [n for n in own if not n.startswith("_")]))


def is_defined_in(module: types.ModuleType, thing: object) -> bool:
    return getattr(thing, "__module__", None) == module.__name__


# ---------------------------------------------------------------------------------------- layers


def test_every_module_is_in_a_layer():
    for module in MODULES:
        assert layout.layer(module) in layout.LAYERS


@every_module
def test_a_layer_imports_only_from_those_before_it(module):
    order = layout.LAYERS.index
    own = order(layout.layer(module))
    above = [m for m in layout.needs(module) if order(layout.layer(m)) > own]
    assert not above, f"imports {', '.join(sorted(above))}"


@every_module
def test_no_module_imports_one_that_imports_it(module):
    layout.depth(module)


@every_module
def test_nothing_is_imported_by_a_string(module):
    for tree in trees(module):
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = {getattr(f, "id", getattr(f, "attr", None)) for f in calls}
        # The command and the names at the top are looked up when they are asked for.
        if module not in ("decoder_only", "decoder_only.cli"):
            assert not names & {"import_module", "__import__"}


@every_module
def test_a_module_is_read_in_one_sitting(module):
    if module not in layout.AS_ONE:
        assert layout.size(module) <= 400


def test_the_package_is_small():
    """All files count but the modules that one chapter each of 11 to 15 builds."""
    of_chapters = ("variants", "analysis.interpretation", "analysis.knowledge")
    of_chapters = tuple(f"decoder_only.{name}" for name in of_chapters)
    files = layout.PACKAGE.rglob("*.py")
    files = [f for f in files if not layout.name_of(f).startswith(of_chapters)]
    assert sum(layout.lines_of_code(f.read_text("utf-8")) for f in files) <= 8000


@every_module
def test_names_are_imported_from_the_module_that_defines_them(module):
    top = {f"decoder_only.{name}" for name in decoder_only.__all__}
    assert not imported(module) & (top - {"decoder_only.__version__"})


@pytest.mark.parametrize("module", ["", ".tokenization", ".stories"])
def test_text_needs_no_torch(module):
    said = f"import sys, decoder_only{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    heavy = {"torch", "matplotlib", "scipy", "numpy", "tyro", "safetensors"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["nonsense"]])
def test_what_needs_no_model_loads_none(words):
    code = f"""
import sys
from decoder_only.cli import main
status = main({words!r})
heavy = {{"torch", "matplotlib", "scipy", "numpy", "tyro"}} & set(sys.modules)
print("loaded:", *heavy)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "loaded:", done.stderr


def test_the_package_has_the_model_and_a_version():
    import decoder_only
    from decoder_only.model.gpt import GPT

    assert decoder_only.GPT is GPT
    assert re.match(r"\d+\.\d+", decoder_only.__version__)
    assert set(decoder_only.__all__) == {
        *("GPT", "GPTConfig", "BytePairTokenizer", "__version__"),
        *("generate", "load", "train"),
    }
    with pytest.raises(AttributeError, match="no attribute 'GTP'"):
        decoder_only.GTP  # noqa: B018


def test_run_time_dependencies_are_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = {
        re.match(r"[\w-]+", requirement)[0]
        for requirement in chain(project["dependencies"], *extras)
    }
    for module in MODULES:
        tops = {name.partition(".")[0] for name in imported(module)}
        foreign = tops - set(sys.stdlib_module_names)
        foreign -= {"decoder_only", "decoder_only_book", "__future__"}
        # Matplotlib brings PIL, what runs a notebook brings IPython, and Colab brings google.
        brought = {"mpl_toolkits", "PIL", "IPython", "matplotlib_inline", "google"}
        assert foreign <= declared | brought, f"{module}: {foreign - declared}"


def test_readme_lists_the_layers():
    text = layout.README.read_text(encoding="utf-8")
    assert text == layout.rewritten_readme(text), "run python tools/layout.py"


# ---------------------------------------------------------------------------------------- names


@every_module
def test_public_names_are_declared_and_documented(module):
    found = importlib.import_module(module)
    assert inspect.getdoc(found), f"{module} has no docstring"
    for name in public(module):
        thing = getattr(found, name)
        if not (inspect.isclass(thing) or inspect.isroutine(thing)):
            continue
        said = inspect.getdoc(thing) or ""
        # A dataclass without a docstring gets its signature as one.
        assert said, f"{module}.{name} has no docstring"
        assert not said.startswith(f"{name}("), (
            f"{module}.{name} has no docstring of its own"
        )


@every_module
def test_a_docstring_of_several_lines_ends_on_a_line_of_its_own(module):
    for path in layout.sources(module):
        text = path.read_text(encoding="utf-8")
        said = ast.get_docstring(ast.parse(text), clean=False) or ""
        assert "\n" not in said or said.endswith("\n"), path.name


@every_module
def test_no_list_of_names_repeats_what_their_underscores_say(module):
    found = importlib.import_module(module)
    own = {n for n, x in vars(found).items() if is_defined_in(found, x)}
    plain = {name for name in own if not name.startswith("_")}
    if module.startswith("decoder_only.") and not layout.is_folder(module):
        listed = getattr(found, "__all__", None)
        assert listed is None or plain - {*listed}


def names_in(tree: ast.Module) -> set[str]:
    """The names that code uses; an import alone is no use."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return used | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


def names_in_chapters() -> set[str]:
    """The names that code cells use, and those in the texts that they give to `show_source`."""
    used = set()
    for path in sorted((ROOT / "book").glob("**/*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = [c["source"] for c in cells if c["cell_type"] == "code"]
        lines = [line for source in code for line in "".join(source).split("\n")]
        # A line of IPython's own is no Python.
        tree = ast.parse("\n".join(x for x in lines if not x.startswith(("%", "!"))))
        texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
        used |= names_in(tree)
        used |= {w for x in texts if isinstance(x, str) for w in re.findall(r"\w+", x)}
    return used


def test_every_public_name_is_used_in_some_chapter_or_in_the_package():
    used = names_in_chapters()
    for module in MODULES:
        used |= set().union(*map(names_in, trees(module)))
    taught = [module for module in MODULES if module.startswith(TAUGHT)]
    unused = [f"{m}.{name}" for m in taught for name in set(public(m)) - used]
    assert not unused, (
        f"neither a chapter nor a module uses {', '.join(sorted(unused))}"
    )


# ---------------------------------------------------------------------------------------- alphabet


@cache
def alphabet() -> frozenset[str]:
    """The letters of the first table of the page of notation."""
    page = (ROOT / "book" / "notation.md").read_text(encoding="utf-8")
    letters = re.findall(r"^\| *`(\w+)` *\|", page, re.MULTILINE)
    assert {"b", "s", "d"} <= set(letters), "book/notation.md has lost its table"
    return frozenset(letters)


def shape_strings(tree: ast.Module) -> list[str]:
    """Shapes in annotations, as in ``Float[Tensor, "b s d"]``."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            if not hasattr(jaxtyping, getattr(node.value, "id", "")):
                continue
            last = node.slice.elts[-1]
            if isinstance(last, ast.Constant) and isinstance(last.value, str):
                found.append(last.value)
    return found


def einops_strings(tree: ast.Module) -> list[str]:
    """Patterns in calls, as in ``rearrange(x, "b s (h k) -> b h s k")``, letter by letter."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {"rearrange", "reduce", "repeat", "einsum", "pack", "unpack"}
    patterns = [
        argument.value
        for call in calls
        if getattr(call.func, "id", getattr(call.func, "attr", None)) in names
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    # torch.einsum writes letters without spaces: "bhsk,bhtk->bhst".
    return [
        text if " " in text else " ".join(text) for text in patterns if "->" in text
    ]


@every_module
def test_annotations_and_einops_use_the_alphabet(module):
    for tree in trees(module):
        for shape in shape_strings(tree) + einops_strings(tree):
            for letter in re.findall(r"[A-Za-z]\w*", shape):
                assert letter in alphabet(), f"{module}: {letter!r} in {shape!r}"


def test_annotations_are_checked_in_each_module_with_arrays_and_no_other():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    options = settings["tool"]["pytest"]["ini_options"]["addopts"]
    (said,) = [option for option in options if "jaxtyping" in option]
    names = [name.strip() for name in said.partition("=")[2].split(",")]
    with_arrays = {
        layout.name_of(path)
        for path in SOURCE.glob("decoder_only*/**/*.py")
        if re.search(r"(?m)^(from|import) jaxtyping\b", path.read_text("utf-8"))
    }
    assert names[-1] == "beartype.beartype"
    assert with_arrays - set(names[:-1]) == set(), "list them in pyproject.toml"
    assert set(names[:-1]) - with_arrays == set(), "they have no arrays"


# ---------------------------------------------------------------------------------------- purity

IMPORT_EVERYTHING = """
import importlib, io, os, socket, sys, threading, contextlib, warnings
warnings.simplefilter("error")
assert "decoder_only" not in sys.modules
import torch, numpy, tiktoken, regex, einops, jaxtyping, safetensors.torch, tyro, tqdm
import matplotlib.pyplot

package, modules = sys.argv[1], sys.argv[2:]
looked = []

class Watched(dict):
    def _see(self, key):
        frame = sys._getframe(2)
        while frame and frame.f_code.co_filename in (os.__file__, "<frozen os>"):
            frame = frame.f_back
        if frame and frame.f_code.co_filename.startswith(package):
            looked.append(f"{frame.f_code.co_filename}: {key}")
    def __getitem__(self, key):
        self._see(key)
        return super().__getitem__(key)
    def get(self, key, default=None):
        self._see(key)
        return super().get(key, default)
    def __contains__(self, key):
        self._see(key)
        return super().__contains__(key)

def no_network(*_, **__):
    raise AssertionError("importing opened a connection")

os.environ = Watched(os.environ)
socket.socket.connect = no_network
socket.getaddrinfo = no_network
said, before = io.StringIO(), (torch.random.get_rng_state(), torch.get_default_dtype())
settings = dict(matplotlib.rcParams)
with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
    for module in modules:
        importlib.import_module(module)
assert not said.getvalue(), f"importing printed {said.getvalue()!r}"
assert not looked, f"importing read the environment: {looked}"
assert torch.equal(before[0], torch.random.get_rng_state()), "importing drew random numbers"
assert before[1] == torch.get_default_dtype()
assert settings == dict(matplotlib.rcParams), "importing changed matplotlib's settings"
"""


def test_importing_is_pure():
    done = subprocess.run(
        [
            *warm.python("kernels"),
            "-c",
            IMPORT_EVERYTHING,
            f"{SOURCE}{os.sep}decoder_only",
            *MODULES,
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout


def test_every_file_of_data_is_installed_with_the_package():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = settings["tool"]["setuptools"]["package-data"]
    for path in SOURCE.glob("decoder_only*/**/*.*"):
        if path.suffix in (".py", ".pyc"):
            continue
        # A folder of data without an `__init__.py` belongs to the package above it.
        home = path.parent
        while not (home / "__init__.py").exists():
            home = home.parent
        package = ".".join(home.relative_to(SOURCE).parts)
        patterns = declared.get(package, [])
        assert any(path.match(f"{home}/{pattern}") for pattern in patterns), path.name
