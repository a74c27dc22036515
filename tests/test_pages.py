"""Measured numbers find their way into the tables of the pages."""

from __future__ import annotations

import pytest

from benchmarks.pages import refilled, tables_in

PAGE = """# Page

| a | b |
|---|---|
| 1 | old |

Between | the tables.

| | c |
|:--|--:|
| x | 5 |
| y | 6 |
End.
"""


def test_tables_are_found() -> None:
    assert tables_in(PAGE) == [[["a", "b"], ["1", "old"]], [["", "c"], ["x", "5"], ["y", "6"]]]


def test_one_table_is_refilled_and_nothing_else_changes() -> None:
    changed = refilled(PAGE, ["a", "b"], lambda old: [[*old[0][:1], "new"], ["2", "more"]])
    assert changed == PAGE.replace("| 1 | old |", "| 1 | new |\n| 2 | more |")
    assert refilled(PAGE, ["", "c"], lambda old: old) == PAGE


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(SystemExit, match="no table has the columns a, c"):
        refilled(PAGE, ["a", "c"], lambda old: old)
