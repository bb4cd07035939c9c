"""Setting up, and the repository's own tools: what they do, and what they say when they cannot."""

import http.client
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import build
import execute
import first_cell
import nbformat
import pytest
import repository
import serve
import yaml

ROOT = Path(__file__).resolve().parent.parent
BASICS = ["sh", "dirname", "printf", "tail", "head", "grep", "rm", "touch", "cat"]
UNREACHABLE = "http://127.0.0.1:9/simple"


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A folder with what setting up reads, and one requirement that is nowhere to be had."""
    for name in ("tools/setup.sh", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "requirements.txt").write_text("decoder-only-needs-this==1.0\n")
    return tmp_path


def set_up(folder: Path, **environment: str) -> subprocess.CompletedProcess:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("PIP_")
    }
    settings = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": UNREACHABLE,
        **environment,
    }
    return subprocess.run(
        ["sh", "tools/setup.sh"],
        cwd=folder,
        env={**kept, **settings},
        capture_output=True,
        text=True,
    )


def path_without_python(folder: Path) -> Path:
    """A folder for PATH with the shell's basic tools and no Python."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in BASICS:
        if found := shutil.which(name):
            (bin_folder / name).symlink_to(found)
    return bin_folder


def only_line(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_no_python(checkout):
    said = only_line(set_up(checkout, PATH=str(path_without_python(checkout))))
    assert "no Python 3.11 or newer found" in said
    assert "PYTHON=" in said


def test_old_python(checkout):
    bin_folder = path_without_python(checkout)
    old = bin_folder / "python3"
    old.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.8.18" && exit 0\nexit 1\n'
    )
    old.chmod(0o755)
    said = only_line(set_up(checkout, PATH=str(bin_folder)))
    assert "python3 is Python 3.8.18" in said
    said = only_line(set_up(checkout, PYTHON=str(old)))
    assert "too old (Python 3.8.18)" in said
    said = only_line(set_up(checkout, PYTHON="python-that-is-not-there"))
    assert "python-that-is-not-there is not there" in said
    assert not (checkout / ".venv").exists()


def test_no_network_then_a_broken_environment(checkout):
    done = set_up(checkout, PYTHON=sys.executable)
    assert "could not reach the package index" in only_line(done)
    assert "run make again" in only_line(done)

    # From now on an environment is a copy of that one, which pip need not be unpacked for again.
    shutil.copytree(checkout / ".venv", checkout / "made", symlinks=True)
    python = checkout / "python"
    python.write_text(
        '#!/bin/sh\n[ "$1 $2" = "-m venv" ] && exec cp -Rp made "$3"\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)

    # The interpreter is gone, as after an upgrade of the system: built anew.
    for link in (checkout / ".venv" / "bin").glob("python*"):
        link.unlink()
    done = set_up(checkout, PYTHON=str(python), PIP_NO_INDEX="1")
    assert ".venv is broken" in done.stdout
    assert (checkout / ".venv" / "bin" / "python").exists()
    assert "pip could not install the requirements" in done.stderr

    # A stamp does not make up for missing packages.
    (checkout / ".venv" / ".complete").touch()
    done = set_up(checkout, PYTHON=str(python), PIP_NO_INDEX="1")
    assert "Bringing .venv up to date" in done.stdout
    assert done.returncode == 1


def test_nothing_is_checked_before_the_environment_is_there(checkout):
    """Though make may have many jobs at a time."""
    shutil.copy(ROOT / "Makefile", checkout)
    words = ["make", "-j4", "test", "PYTHON=python-that-is-not-there"]
    done = subprocess.run(words, cwd=checkout, capture_output=True, text=True)
    assert "python-that-is-not-there is not there" in done.stderr
    assert ".venv/bin/python" not in done.stderr


def test_make_help_names_every_target():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    said = subprocess.run(
        ["make", "-s"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    assert {"book", "serve", "test", "execute", "repository", "help"} <= set(targets)
    for target in targets:
        assert f"make {target} " in said


def test_requirements_pin_every_direct_dependency_exactly():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    for line in pins:
        assert re.fullmatch(r"[\w-]+==[\w.]+", line), line
    assert "torch==2.13.0" in pins
    names = {line.partition("==")[0].lower() for line in pins}
    pyproject = (ROOT / "pyproject.toml").read_text()
    block = re.search(
        r"^dependencies = \[(.*?)^\]", pyproject, re.MULTILINE | re.DOTALL
    )[1]
    assert {
        re.match(r"[\w-]+", line)[0] for line in re.findall(r'"([^"]+)"', block)
    } <= names


# ------------------------------------------------------------------------------- make repository


def test_repository_sets_the_address_everywhere(tmp_path):
    (tmp_path / "book").mkdir()
    old = "https://github.com/OWNER/decoder-only"
    (tmp_path / "_config.yml").write_text(f"repository:\n  url: {old}\n")
    (tmp_path / "README.md").write_text(
        f"{old}-2 stays; {old}/issues; https://OWNER.github.io/decoder-only/book;\n"
        "https://colab.research.google.com/github/OWNER/decoder-only/blob/main/book/01_x.ipynb\n"
    )
    cell = nbformat.v4.new_code_cell(first_cell.TEMPLATE.replace("<url>", old))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbformat.write(notebook, tmp_path / "book" / "01_x.ipynb")
    folder = tmp_path / "src" / "decoder_only_book" / "workbooks"
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / "01_x.ipynb")

    new = "https://github.com/you/a-book"
    changed = repository.set_address(new, tmp_path)
    workbook = "src/decoder_only_book/workbooks/01_x.ipynb"
    assert changed == ["_config.yml", "README.md", "book/01_x.ipynb", workbook]
    assert first_cell.repository_url(tmp_path) == new
    readme = (tmp_path / "README.md").read_text()
    assert f"{old}-2 stays; {new}/issues; https://you.github.io/a-book/book;" in readme
    assert "https://colab.research.google.com/github/you/a-book/blob/main" in readme
    written = nbformat.read(tmp_path / "book" / "01_x.ipynb", as_version=4)
    assert written.cells[0].source == first_cell.source(tmp_path)
    assert repository.set_address(new, tmp_path) == []


@pytest.mark.parametrize("url", ["", "github.com/you/book", "https://x.org/a b"])
def test_repository_refuses_what_is_no_address(url):
    done = subprocess.run(
        [sys.executable, "tools/repository.py", url],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "is no address" in done.stderr


@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/you/a-book",
        "https://github.com/you/a-book.git",
        "https://token@github.com/you/a-book",
        "git@github.com:you/a-book.git",
        "ssh://git@github.com/you/a-book",
    ],
)
def test_the_address_of_a_clone(tmp_path, remote):
    git(tmp_path, "init", "-q")
    assert repository.address_of_clone(tmp_path) is None
    git(tmp_path, "remote", "add", "origin", remote)
    assert repository.address_of_clone(tmp_path) == "https://github.com/you/a-book"
    git(tmp_path, "remote", "set-url", "origin", "https://example.org/you/a-book")
    assert repository.address_of_clone(tmp_path) is None


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *words], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_book_is_built_with_the_address_of_the_clone(tmp_path):
    clone, out = tmp_path / "clone", tmp_path / "out"
    clone.mkdir()
    git(clone, "init", "-q")
    written = f"repository:\n  # a comment\n  url: {first_cell.PLACEHOLDER}\n"
    (clone / "_config.yml").write_text(written)
    assert build.config(out, clone) == clone / "_config.yml", "no remote: as it is"
    git(clone, "remote", "add", "origin", "git@github.com:you/a-book.git")
    used = build.config(out, clone)
    assert first_cell.repository_url(used.parent) == "https://github.com/you/a-book"
    assert (clone / "_config.yml").read_text() == written
    # An address that was set is not touched.
    (clone / "_config.yml").write_text("repository:\n  url: https://example.org/x\n")
    assert build.config(out, clone) == clone / "_config.yml"


def run_first_cell(url: str, monkeypatch) -> list:
    called = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", lambda *words, **_: called.append(words))
    exec(first_cell.TEMPLATE.replace("<url>", url), {})
    return called


def test_the_first_cell_installs_from_the_address(monkeypatch):
    (words,), *others = run_first_cell("https://github.com/you/a-book", monkeypatch)
    assert words[-2:] == ["-q", "git+https://github.com/you/a-book"]
    assert not others


def test_a_notebook_shows_the_placeholder_in_one_line():
    cell = first_cell.TEMPLATE.replace("<url>", first_cell.PLACEHOLDER)
    cell = cell.replace('find_spec("decoder_only")', 'find_spec("not_there")')
    # In a process of its own: a shell of IPython changes the one that makes it.
    shell = "from IPython.core.interactiveshell import InteractiveShell as Shell\n"
    shell += f"Shell().run_cell({cell!r})"
    words = [sys.executable, "-c", shell]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.endswith("is a placeholder: write your copy's address in its place")


def test_a_fork_sets_its_own_address_on_its_first_push_and_only_then(tmp_path):
    workflow = yaml.safe_load((ROOT / ".github/workflows/address.yml").read_text())
    assert workflow["permissions"] == {"contents": "write"}
    (script,) = [
        step["run"] for step in workflow["jobs"]["address"]["steps"] if "run" in step
    ]
    origin, clone = tmp_path / "origin.git", tmp_path / "clone"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(origin))
    git(tmp_path, "init", "-q", "-b", "main", str(clone))
    for name in ("tools", "book"):
        (clone / name).mkdir()
    for name in (
        "_config.yml",
        "README.md",
        "pyproject.toml",
        "book/01_tokenization.ipynb",
    ):
        shutil.copy(ROOT / name, clone / name)
    for name in ("first_cell.py", "notebooks.py", "repository.py"):
        shutil.copy(ROOT / "tools" / name, clone / "tools" / name)
    git(clone, "add", "-A")
    who = ["-c", "user.name=you", "-c", "user.email=you@example.org"]
    git(clone, *who, "commit", "-qm", "A fork")
    git(clone, "remote", "add", "origin", str(origin))
    git(clone, "push", "-q", "-u", "origin", "main")
    environment = {
        **os.environ,
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "you/a-book",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for _ in range(2):  # the second push finds nothing to do
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=clone,
            env=environment,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        assert git(origin, "rev-list", "--count", "main").strip() == "2"
    changed = git(clone, "show", "--stat", "--format=", "HEAD")
    for name in ("_config.yml", "README.md", "pyproject.toml", "01_tokenization.ipynb"):
        assert name in changed
    assert "OWNER/decoder-only" not in git(
        clone, "grep", "-h", "github.com", "book", "*.md"
    )


@pytest.mark.parametrize("port", ["80000", "0", "-1", "eight"])
def test_a_port_that_cannot_be_is_refused_in_one_line(port):
    done = subprocess.run(
        [sys.executable, "tools/serve.py", f"--port={port}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"decoder-only: {port!r} is no port; choose one from 1024 to 65535: "
        "make serve PORT=8000"
    ]


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/page.html", "localhost", 200),
        ("/page.html", "127.0.0.1:8000", 200),
        ("/page.html", "elsewhere.example", 421),
        ("/%00.html", "localhost", 404),
        ("/link.html", "localhost", 404),
        ("/folder/", "localhost", 404),
    ],
)
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_the_server_gives_what_lies_in_its_folder(
    path, host, status, encoding, tmp_path, capfd
):
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "index.html").write_text("secret")
    (site / "page.html").write_text("a page")
    (site / "link.html").symlink_to(tmp_path / "secret" / "index.html")
    (site / "folder").symlink_to(tmp_path / "secret")
    running = serve.server(site)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    asked = http.client.HTTPConnection("127.0.0.1", running.server_port, timeout=9)
    asked.request("GET", path, headers={"Host": host, "Accept-Encoding": encoding})
    assert asked.getresponse().status == status
    asked.close()
    running.shutdown()
    assert capfd.readouterr().err == ""


# ------------------------------------------------------------------------------- make execute


def write_notebook(path: Path, *sources: str) -> Path:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources],
        metadata={
            "kernelspec": {
                "name": "foreign",
                "display_name": "Foreign",
                "language": "python",
            },
            "language_info": {"name": "python", "version": "3.0.0"},
            "widgets": {"state": {}},
        },
    )
    nbformat.write(notebook, path)
    return path


def test_execute_stores_what_the_source_determines(tmp_path, monkeypatch):
    # A kernel of the same name that somebody registered, and that must not be started.
    foreign = tmp_path / "jupyter" / "kernels" / "python3"
    foreign.mkdir(parents=True)
    spec = {"argv": ["false"], "display_name": "Foreign", "language": "python"}
    (foreign / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    path = write_notebook(
        tmp_path / "one.ipynb",
        "import os, sys, time\nprint('one', flush=True); time.sleep(0.3); print('two')",
        "print(sys.executable, os.getcwd())",
    )
    before = [cell.id for cell in nbformat.read(path, as_version=4).cells]
    _, problem = execute.execute(path)
    assert problem is None
    stored = nbformat.read(path, as_version=4)
    first, second = stored.cells
    assert [cell.execution_count for cell in stored.cells] == [1, 2]
    assert [cell.id for cell in stored.cells] == before
    assert [output.text for output in first.outputs] == ["one\ntwo\n"]
    assert second.outputs[0].text == f"{sys.executable} {tmp_path}\n"
    assert stored.metadata == {
        "kernelspec": execute.KERNELSPEC,
        "language_info": execute.LANGUAGE,
    }
    assert first.metadata == {}
    assert [file.name for file in tmp_path.glob(".one*")] == []


def test_execute_leaves_a_notebook_that_raises_as_it_was(tmp_path):
    path = write_notebook(
        tmp_path / "bad.ipynb", "print(1)", "raise ValueError('seven')"
    )
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "tools/execute.py", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "ValueError: seven" in done.stdout
    assert "1 of 1 notebooks failed" in done.stderr
    assert path.read_bytes() == before


def test_execute_names_the_chapters_when_asked_for_another():
    with pytest.raises(SystemExit, match="no notebook '77'"):
        execute.notebooks(["77"])
