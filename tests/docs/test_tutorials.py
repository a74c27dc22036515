"""Every notebook of the tutorials runs from top to bottom, and is stored without outputs."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")

from matplotlib import pyplot

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))
LONGEST = 25  # cells
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells_of(path):
    return [(cell, "".join(cell["source"])) for cell in json.loads(path.read_text())["cells"]]


@every_notebook
def test_notebook_has_prose_and_no_outputs(path):
    cells = cells_of(path)
    assert len(cells) <= LONGEST
    assert cells[0][0]["cell_type"] == "markdown"
    assert cells[0][1].startswith("# ")
    assert len({cell["id"] for cell, _ in cells}) == len(cells)
    code = [cell for cell, _ in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert 3 * (len(cells) - len(code)) >= len(code)


@every_notebook
def test_notebook_runs_and_its_results_can_be_displayed(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    pyplot.close("all")
    for number, (cell, text) in enumerate(cells_of(path), start=1):
        if cell["cell_type"] == "code":
            display(text, f"{path.name}, cell {number}", names)
    assert pyplot.get_fignums()
    for number in pyplot.get_fignums():
        pyplot.figure(number).savefig(tmp_path / f"{number}.png")
    pyplot.close("all")


def display(text, place, names):
    """Run a cell and render the value of its last line as Jupyter would, if that is an expression."""
    body = ast.parse(text).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), place, "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), place, "eval"), names)
        assert repr(value)
        for kind in ("_repr_html_", "_repr_svg_"):
            render = getattr(value, kind, None)
            assert render is None or render() is None or isinstance(render(), str)
