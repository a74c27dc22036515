"""Every script of the gallery runs without warnings and makes one figure that can be read at the width of a page."""

from __future__ import annotations

import ast
import io
import re
import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")

from matplotlib import pyplot

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("plot_*.py"))
every_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
WIDTH = 600  # pixels of the page
TALLEST = 60  # lines of a script, about


def test_gallery_is_large_enough() -> None:
    assert len(SCRIPTS) >= 14
    assert (GALLERY / "README.rst").exists()


@every_script
def test_script_is_short_and_introduced(script: Path) -> None:
    text = script.read_text()
    title, line, *paragraph = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert len(paragraph) >= 2
    assert len(text.splitlines()) <= 1.1 * TALLEST
    assert len(re.findall(r"^# %%$", text, flags=re.MULTILINE)) >= 2


@every_script
def test_script_makes_one_figure_with_labelled_axes(script: Path) -> None:
    pyplot.close("all")
    try:
        runpy.run_path(str(script))  # warnings are errors
        (number,) = pyplot.get_fignums()
        figure = pyplot.figure(number)
        figure.savefig(io.BytesIO(), dpi=100)
        assert WIDTH <= 100 * figure.get_figwidth() <= 1.15 * WIDTH
        assert [problem for ax in figure.axes for problem in problems_of(ax)] == []
    finally:
        pyplot.close("all")


def problems_of(ax) -> list[str]:
    """Return what is missing in axes: labels of axes that have tick labels, and anything drawn."""
    problems = [] if ax.has_data() or ax.images or ax.collections else ["nothing is drawn"]
    for name, axis in {"x": ax.xaxis, "y": ax.yaxis}.items() if ax.axison else ():
        has_ticks = any(tick.get_visible() and tick.get_text() for tick in axis.get_ticklabels())
        if has_ticks and not axis.get_label_text():
            problems.append(f"no label of the {name} axis")
    return problems
