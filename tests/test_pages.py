"""Tables of Markdown pages are found, and refilled with measured numbers."""

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


def test_a_missing_table_is_an_error() -> None:
    with pytest.raises(SystemExit, match="no table has the columns a, c"):
        refilled(PAGE, ["a", "c"], lambda old: old)
