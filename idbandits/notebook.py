"""HTML of objects for notebooks: tables and pictures without colours or files of their own."""

import base64
import html
import math
from collections.abc import Iterable
from itertools import islice
from numbers import Real
from typing import Any

MOST_ROWS, MOST_COLUMNS, MOST_LETTERS = 20, 20, 300  # that are shown; letters of a cell


def html_table(rows: Any, caption: str = "", *, most: int = MOST_ROWS) -> str:
    """Return rows as an HTML table, for `_repr_html_`.

    The table has no colours, so it is readable in light and dark notebooks. Texts are escaped, numbers have four
    significant digits, and long tables end with the number of rows that are not shown.

    Parameters
    ----------
    rows : pandas.DataFrame or iterable of mappings
        Rows of the table; of a frame, the columns without the index. Mappings map titles of columns to cells.
    caption : str
        Line above the table.
    most : int
        Number of rows that are shown.

    Examples
    --------
    >>> print(html_table([{"item": "tea & milk", "mean": 0.123456}, {"item": "rice", "mean": 2}], "Menu"))
    <table>
    <caption>Menu</caption>
    <thead><tr><th>item</th><th>mean</th></tr></thead>
    <tbody>
    <tr><td>tea &amp; milk</td><td>0.1235</td></tr>
    <tr><td>rice</td><td>2</td></tr>
    </tbody>
    </table>
    """
    lines, columns, number = _read(rows, most)
    hidden = len(columns) - MOST_COLUMNS
    columns = columns[:MOST_COLUMNS]
    parts = ["<table>", f"<caption>{escaped(caption)}</caption>"] if caption else ["<table>"]
    parts += [f"<thead><tr>{_cells('th', columns)}</tr></thead>", "<tbody>"]
    parts += [f"<tr>{_cells('td', (line.get(column, '') for column in columns))}</tr>" for line in lines]
    parts += ["</tbody>", "</table>"]
    notes = [
        f"{left:,} more {unit}{'s' * (left > 1)}" for left, unit in ((number, "row"), (hidden, "column")) if left > 0
    ]
    if notes:
        parts.append(f"<p>… and {', '.join(notes)}</p>")
    return "\n".join(parts)


def html_text(text: str) -> str:
    """Return text of several lines as HTML, verbatim.

    >>> html_text("a < b")
    '<pre>a &lt; b</pre>'
    """
    return f"<pre>{html.escape(text)}</pre>"


def html_picture(svg: str, alternative: str) -> str:
    """Return an SVG picture as HTML that needs no file; `alternative` describes it to readers who do not see it."""
    source = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{html.escape(alternative)}" src="data:image/svg+xml;base64,{source}" style="max-width: 100%">'


def escaped(value: object) -> str:
    """Return a value as the HTML of a cell: numbers are rounded, long texts shortened."""
    if isinstance(value, Real) and not isinstance(value, (bool, int)) and math.isfinite(number := float(value)):
        return f"{number:,.4g}" if abs(number) < 1e4 else f"{number:,.0f}" if abs(number) < 1e15 else f"{number:.4g}"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return html.escape(text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…")


def _read(rows: Any, most: int) -> tuple[list[dict[Any, Any]], list[Any], int]:
    """Return the rows to show, their columns, and the number of other rows."""
    if hasattr(rows, "columns"):
        shown, columns = rows.iloc[:most], list(rows.columns)
        lines = [dict(zip(columns, line, strict=True)) for line in shown.itertuples(index=False, name=None)]
        return lines, columns, len(rows) - len(lines)
    iterator = iter(rows)
    lines = list(islice(iterator, most))
    return lines, list(dict.fromkeys(column for line in lines for column in line)), sum(1 for _ in iterator)


def _cells(tag: str, values: Iterable[Any]) -> str:
    return "".join(f"<{tag}>{escaped(value)}</{tag}>" for value in values)
