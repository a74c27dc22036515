"""Pictures of influence diagrams: plain data in; SVG, PNG, PDF or Mermaid text out."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from idbandits.diagram.layout import (
    NAME,
    NORMS,
    Box,
    Edge,
    Place,
    Route,
    Text,
    arrange,
    label,
    printable,
    split_number,
    stacked,
    wrapped,
)
from idbandits.errors import IdbanditsError
from idbandits.files import write_whole

if TYPE_CHECKING:  # else imported where it is used, because importing it takes long
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Box", "Picture"]


class _Look(NamedTuple):
    fill: str
    line: str
    width: float = 1.2
    dashed: bool = False
    rounding: float = 0.0


_LOOKS = {
    "decision": _Look("#F6B0A2", "#8C2316"),
    "context": _Look("#F5DDA6", "#7A5A10", rounding=8.0),
    "latent": _Look("#E6E6E6", "#4A4A4A"),
    "observed": _Look("#8CC0EA", "#174468"),
    "reward": _Look("#BCE3C8", "#1C6140"),
}
_INK = "#1A1A1A"
# Okabe and Ito's colours, which colour-blind readers tell apart; the palest left out, the purple darkened.
_ACCENTS = ("#0072B2", "#D55E00", "#009E73", "#A0428A", "#E69F00", "#000000")
_SAMPLE = 22.0  # the width of a sample in the legend
_MERMAID = {"decision": "[ ]", "context": "( )", "latent": "([ ])", "observed": "([ ])", "reward": "{ }"}


@dataclass(frozen=True, slots=True)
class Picture:
    """An influence diagram as plain data; `different` has the decisions that may not share a choice."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    different: tuple[tuple[str, ...], ...]

    def svg(self) -> str:
        """The picture as SVG text, the same for the same picture."""
        return _render(self, "svg").decode()

    def png(self, dpi: int = 150) -> bytes:
        """The picture as a PNG file's bytes."""
        return _render(self, "png", dpi)

    def mermaid(self) -> str:
        """The picture as a Mermaid flowchart, which leaves the layout to Mermaid."""
        return "".join(f"{line}\n" for line in _mermaid(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture in the format of the suffix: .svg, .png, .pdf or .mmd; never half a file."""
        suffix = Path(path).suffix.lower()
        if suffix not in (allowed := (".svg", ".png", ".pdf", ".mmd")):
            raise IdbanditsError(f"path {str(path)!r}: suffix {suffix!r} is none of {', '.join(allowed)}")
        write_whole(Path(path), self.mermaid().encode() if suffix == ".mmd" else _render(self, suffix[1:]))

    def _repr_svg_(self) -> str:
        return self.svg()


def _accents(boxes: Iterable[Box]) -> dict[str, str]:
    """A colour for each learned table: black if it is the only one."""
    tables = list(dict.fromkeys(box.table for box in boxes if box.table))
    return {t: _ACCENTS[i % len(_ACCENTS)] if len(tables) > 1 else _INK for i, t in enumerate(tables)}


def _look(box: Box, accents: Mapping[str, str]) -> _Look:
    """How a box is drawn: its table is learned, or known, or it has none."""
    look = _LOOKS[box.kind]
    if box.table:
        return look._replace(line=accents[box.table], width=2.0)
    return look._replace(line="#4A4A4A", width=0.9, dashed=True) if box.kind in ("latent", "observed") else look


def _legend(picture: Picture) -> Iterator[tuple[str, float, _Look]]:
    """Text, shape and look for the kinds, tables and constraints that occur; constraints have no shape."""
    accents = _accents(picture.boxes)
    for kind in [kind for kind in _LOOKS if any(box.kind == kind for box in picture.boxes)]:
        yield kind, NORMS[kind], _LOOKS[kind]
    for look in [look for box in picture.boxes if (look := _look(box, accents)).dashed][:1]:
        yield "known table", 2, look._replace(fill="white")
    for table, colour in accents.items():
        users = [box for box in picture.boxes if box.table == table]
        verb = "shared" if len({box.rows for box in users}) == 1 < len(users) else "used"
        text = f"learned table {printable(table)}, {verb} by {_together([box.name for box in users])}"
        yield text, 2, _Look("white", colour, 2.0)
    for group in [group for group in picture.different if len(group) > 1]:
        yield f"{_together(group)} all different", 0, _Look("", "")


def _together(names: Sequence[str]) -> str:
    """Names in few words: A₁, A₂, A₃ or A₁ … A₅."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(split_number(name)[0], []).append(name)
    words = []
    for group in groups.values():
        numbers = [split_number(name)[1] for name in group]
        labels = [text if len(text) <= 24 else text[:23] + "…" for text in map(label, group)]
        runs = len(group) > 3 and all(b == a + 1 for a, b in pairwise(numbers))
        words += [f"{labels[0]} … {labels[-1]}"] if runs else labels
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")


def _figure(picture: Picture) -> "Figure":
    """The picture drawn: title, diagram and legend from top to bottom."""
    from matplotlib.figure import Figure

    plan, entries, accents = arrange(picture.boxes, picture.edges), list(_legend(picture)), _accents(picture.boxes)
    titles = [Text(line, NAME) for line in wrapped(picture.title, 44)]
    widths = [_SAMPLE + Text(text).width() for text, _, _ in entries]
    left, top, right, bottom = plan.corners()
    middle, half = (left + right) / 2, max(right - left, 210.0, *widths, *(text.width() for text in titles)) / 2
    spots = [(middle - half + x, bottom + 22 + y) for x, y in _flow(widths, 2 * half)]
    title = 14.6 * len(titles)
    low, high = top - title - 20, max([bottom, *(y for _, y in spots)]) + 17
    figure = Figure(figsize=((2 * half + 20) / 72, (high - low) / 72))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(middle - half - 10, middle + half + 10), ylim=(high, low))
    axes.set_axis_off()
    _write(axes, middle, top - 12 - title / 2, stacked(titles))
    for route in plan.routes.values():
        _draw_edge(axes, route)
    for box in picture.boxes:
        place = plan.places[box.name]
        _draw_shape(axes, place, _look(box, accents))
        _write(axes, place.x, place.y, box.lines())
    for (text, norm, look), (x, y) in zip(entries, spots, strict=True):
        if norm:
            _draw_shape(axes, Place(x + 9, y, 8, 6 if norm == 1 else 5, norm), look)
        else:
            _write(axes, x + 9, y, [(Text("≠", NAME), 0)])
        _write(axes, x + _SAMPLE, y, [(Text(text), 0)], "left")
    return figure


def _flow(widths: Sequence[float], room: float) -> Iterator[tuple[float, float]]:
    """Where the entries of a legend begin, in as many lines as they need."""
    x = y = 0.0
    for width in widths:
        if x and x + width > room:
            x, y = 0.0, y + 15
        yield x, y
        x += width + 12


def _draw_edge(axes: "Axes", route: Route) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    curve = Curve(route, [Curve.MOVETO] + [Curve.CURVE4] * (len(route) - 1))
    arrow = FancyArrowPatch(path=curve, arrowstyle="-|>,head_length=6,head_width=2.5", shrinkA=0, shrinkB=0)
    arrow.set(mutation_scale=1, linewidth=0.9, color="#333333", zorder=1)
    axes.add_artist(arrow)


def _draw_shape(axes: "Axes", place: Place, look: _Look) -> None:
    from matplotlib.patches import Ellipse, FancyBboxPatch, Polygon

    x, y, a, b = place.x, place.y, place.half_width, place.half_height
    corners = f"round,pad=0,rounding_size={min(look.rounding, b)}"
    patch = {
        1: Polygon([(x - a, y), (x, y - b), (x + a, y), (x, y + b)]),
        2: Ellipse((x, y), 2 * a, 2 * b),
        inf: FancyBboxPatch((x - a, y - b), 2 * a, 2 * b, corners),
    }[place.norm]
    patch.set(facecolor=look.fill, edgecolor=look.line, linewidth=look.width, zorder=2)
    patch.set_linestyle((0, (3.5, 2.2)) if look.dashed else "solid")
    axes.add_artist(patch)


def _write(axes: "Axes", x: float, y: float, lines: Iterable[tuple[Text, float]], align: str = "center") -> None:
    """Write lines as they stand: names may hold marks that matplotlib would take for mathematics."""
    for text, shift in lines:
        line = axes.text(x, y + shift, text.words, ha=align, va="center_baseline", parse_math=False)
        line.set(size=text.size, style=text.slant, color=_INK, zorder=3)


def _render(picture: Picture, form: str, dpi: int = 150) -> bytes:
    """A file's bytes, drawn in matplotlib's default style whatever style the user has set."""
    from matplotlib import style

    # Text stays text: searchable, and in the reader's font where ours lacks a glyph.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "idbandits", "pdf.fonttype": 42}
    stamps = {"svg": {"Date": None, "Title": printable(picture.title)}, "pdf": {"CreationDate": None}}
    out = BytesIO()
    with style.context(["default", settings]):
        _figure(picture).savefig(out, format=form, dpi=dpi, metadata=stamps.get(form))
    return out.getvalue()


def _mermaid(picture: Picture) -> Iterator[str]:
    ids, accents = {box.name: f"n{number}" for number, box in enumerate(picture.boxes)}, _accents(picture.boxes)
    yield from ("flowchart TD", f"    %% {printable(picture.title)}")
    for box in picture.boxes:
        first, last = _MERMAID[box.kind].split()
        table = f"<i>{_escaped(box.caption)}</i>" if box.table else ""
        text = "<br/>".join(filter(None, (_escaped(box.name), _escaped(box.states), table))) or " "
        yield f'    {ids[box.name]}{first}"{text}"{last}:::{box.kind}'
    for parent, child in picture.edges:
        yield f"    {ids[parent]} --> {ids[child]}"
    for number, group in enumerate(group for group in picture.different if len(group) > 1):
        yield f'    different{number}>"{_escaped(", ".join(group))} all different"]'
    for kind in dict.fromkeys(box.kind for box in picture.boxes):
        yield f"    classDef {kind} fill:{_LOOKS[kind].fill},stroke:{_LOOKS[kind].line},color:{_INK}"
    for box in picture.boxes:
        look = _look(box, accents)
        dashes = ",stroke-dasharray:4 3" * look.dashed
        yield f"    style {ids[box.name]} stroke:{look.line},stroke-width:{look.width}px{dashes}"


def _escaped(text: str) -> str:
    """Text for a quoted Mermaid label: marks that Mermaid or HTML would read become entity codes."""
    return re.sub(r"[^\w .,()\[\]\u0080-\U0010ffff-]", lambda mark: f"#{ord(mark[0])};", printable(text))
