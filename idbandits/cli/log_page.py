"""Self-contained HTML page of a command on a log: verdict, tables, plots as data URIs, and the report of reading."""

from __future__ import annotations

import base64
import math
import warnings
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # imported where they are used, because that takes long
    import pandas as pd
    from matplotlib.axes import Axes

LOOKS: Any = {"svg.fonttype": "none", "svg.hashsalt": "idbandits", "font.size": 10.0}
LARGE, SMALL = 1e12, 1e-3  # numbers beyond have exponents
DIGITS = ((100.0, ",.0f"), (10.0, ".2f"), (SMALL, ".4f"))  # of a column whose largest number is at least as large
TEMPLATE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{{ page.title }}</title>
<style>
:root { color-scheme: light; --ink: #1c2330; --soft: #5a6473; --line: #d9dee6; --wash: #f5f7fa; --blue: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; color: var(--ink); background: #fff;
  font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .75rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.5rem 0 .6rem; padding-top: 1rem;
  border-top: 1px solid var(--line); overflow-wrap: anywhere; }
p, li { max-width: 46rem; overflow-wrap: anywhere; }
p { margin: .5rem 0 1rem; white-space: pre-line; }
.verdict { border-left: 4px solid var(--blue); background: var(--wash); padding: .8rem 1rem; font-weight: 600;
  max-width: none; }
.warning { border-left: 4px solid #d55e00; background: #fdf4ee; padding: .5rem 1rem; max-width: none; margin: .5rem 0; }
figure { margin: 1rem 0; overflow-x: auto; }
figure img { display: block; width: 100%; max-width: 44rem; min-width: 30rem; height: auto; }
figcaption { color: var(--soft); font-size: .875rem; margin-top: .4rem; max-width: 44rem; }
.wide { overflow-x: auto; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; font-size: .875rem; }
th, td { text-align: left; padding: .35rem 1.1rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); }
td.n, th.n { text-align: right; }
td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.t { min-width: 12rem; max-width: 28rem; overflow-wrap: anywhere; }
td.t:last-child { min-width: 18rem; }
td.t:first-child { min-width: 8rem; }
.facts { color: var(--soft); font-size: .875rem; max-width: none; }
code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9em; overflow-wrap: anywhere; }
code span { display: inline-block; max-width: 100%; }
@media (max-width: 40rem) { body { padding: 1.25rem .9rem 3rem; } }
</style>
</head>
<body>
<main>
<h1>{{ page.title }}</h1>
<p class="facts">Made by idbandits {{ page.version }}:
<code>{% for word in page.command.split(' ') %}<span>{{ word }}</span> {% endfor %}</code></p>
{% if page.verdict %}<p class="verdict">{{ page.verdict }}</p>{% endif %}
{% for text in page.warnings %}<p class="warning"><strong>Warning:</strong> {{ text }}</p>
{% endfor %}
{% for section in page.sections %}
<section>
<h2>{{ section.title }}</h2>
{% if section.text %}<p>{{ section.text }}</p>{% endif %}
{% if section.plot is not none %}
<figure>
<img alt="{{ section.title }}: plot" src="data:image/svg+xml;base64,{{ picture(section.plot) }}">
{% if section.caption %}<figcaption>{{ section.caption }}</figcaption>{% endif %}</figure>
{% endif %}
{% if section.frame is not none and section.frame | length %}
{% set table = cells(section.frame) %}
<div class="wide" tabindex="0" role="region" aria-label="{{ section.title }}"><table>
<thead><tr>{% for name, kind in table.heads %}<th class="{{ kind }}">{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}
<tr>{% for text in row %}<td class="{{ table.heads[loop.index0][1] }}">{{ text }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endif %}
</section>
{% endfor %}
</main>
</body>
</html>
"""


class Section(NamedTuple):
    """Part of a page: a text, a plot and a table, each of which may be missing."""

    title: str
    text: str = ""
    frame: pd.DataFrame | None = None
    plot: Axes | None = None
    caption: str = ""


class Page(NamedTuple):
    """Content of a page."""

    title: str
    verdict: str
    sections: Sequence[Section]
    warnings: Sequence[str]
    command: str
    version: str


class Cells(NamedTuple):
    """Table as it is shown; `heads` has the names of columns, and n for numbers or t for texts."""

    heads: list[tuple[str, str]]
    rows: list[list[str]]


def cells_of(frame: pd.DataFrame) -> Cells:
    """Return the texts of a table; a column `x_se` is shown as the standard error of `x`, and empty columns are not.

    >>> import pandas as pd
    >>> cells_of(pd.DataFrame({"node": ["C1", "C2"], "rounds": [1200.0, 7.0], "log_p": [-0.25, None], "log_p_se": 0.5}))
    Cells(heads=[('node', 't'), ('rounds', 'n'), ('log p', 'n')], rows=[['C1', '1,200', '-0.2500 ± 0.5000'],
          ['C2', '7', '–']])
    """
    heads, columns = list[tuple[str, str]](), list[list[str]]()
    for name in frame.columns[frame.notna().any()]:
        if str(name).endswith("_se") and str(name)[:-3] in frame.columns:
            continue
        numeric = frame[name].dtype.kind in "iuf"
        texts = _numbers(frame[name].tolist()) if numeric else ["–" if v is None else str(v) for v in frame[name]]
        if numeric and f"{name}_se" in frame.columns:
            errors = _numbers(frame[f"{name}_se"].tolist())
            pairs = zip(texts, errors, strict=True)
            texts = [text if "–" in (text, error) else f"{text} ± {error}" for text, error in pairs]
        heads.append((str(name).replace("_", " "), "n" if numeric else "t"))
        columns.append(texts)
    return Cells(heads, [list(row) for row in zip(*columns, strict=True)])


def _numbers(values: Sequence[float]) -> list[str]:
    """Return the numbers of a column as texts with equal numbers of digits."""
    finite = [abs(value) for value in values if math.isfinite(value)]
    if all(value == int(value) for value in finite):
        style = ",.0f"
    else:
        most = max(finite)
        style = next((own for least, own in DIGITS if least <= most < LARGE), ".3g")
    return [format(value, style) if math.isfinite(value) else "–" if value != value else "∞" for value in values]


def picture_of(axes: Axes) -> str:
    """Return the figure of axes as SVG in base64."""
    from matplotlib import rc_context

    content, figure = BytesIO(), axes.get_figure(root=True)
    assert figure is not None
    with rc_context(LOOKS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # browsers have other fonts
        warnings.filterwarnings("ignore", "constrained_layout not applied")  # long labels; the picture is cropped later
        figure.savefig(content, format="svg", metadata={"Date": None}, bbox_inches="tight", pad_inches=0.05)
    return base64.b64encode(content.getvalue()).decode()


def reading_section(report: Any) -> Section | None:
    """Return the section on what was read and skipped; None without a report."""
    if report is None:
        return None
    skipped = sum(report.skipped.values())
    lines = [f"{report.source}: {report.read:,} rounds read, {skipped:,} skipped."]
    lines += [f"Note: {text}" + (f" ({number:,})." if number > 1 else ".") for text, number in report.notes.items()]
    return Section("Log", "\n".join(lines), report.frame)


def rendered_page(page: Page) -> bytes:
    """Return a page as HTML without references to other files."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(TEMPLATE)
    return template.render(page=page, cells=cells_of, picture=picture_of).encode("utf-8", "backslashreplace")
