"""Notebooks that run alone: one that can, one that needs a file beside it, and the first cell."""

import alone
import first_cell
import nbformat
import pytest

THERE = """\
import os
from decoder_only_book.workbooks import stored
assert stored() and not os.listdir()"""


def notebook(path, *cells):
    made = [nbformat.v4.new_code_cell(source) for source in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)
    return path


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return alone.environment(tmp_path_factory.mktemp("alone"))


def test_a_notebook_that_needs_only_the_package_runs_to_its_end(tmp_path, python):
    here = str(alone.ROOT)
    outside = f"import decoder_only as d\nassert not d.__file__.startswith({here!r})"
    path = notebook(tmp_path / "good.ipynb", first_cell.source(), THERE, outside)
    before = path.read_bytes()
    assert alone.run_alone(path, python)[1] == "ran to its end"
    assert path.read_bytes() == before


def test_a_notebook_that_needs_a_file_beside_it_is_told(tmp_path, python, capsys):
    (tmp_path / "beside.txt").write_text("here")
    path = notebook(tmp_path / "bad.ipynb", "1", "open('beside.txt')")
    assert alone.main([str(path), "--python", str(python)]) == 1
    row = capsys.readouterr().out.splitlines()[-1]
    assert "stopped in cell 2: FileNotFoundError" in row


def test_a_notebook_that_is_not_there():
    with pytest.raises(SystemExit, match="no notebook '77'"):
        alone.chosen(["77"])
    names = [path.parent.name for path in alone.chosen(["03"])]
    assert names == ["book", "lab", "workbooks"]
