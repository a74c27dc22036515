"""Pictures of influence diagrams, as SVG, PNG, PDF or Mermaid text."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from idbandits.diagram.drawing.boxes import LOOKS, NAME, Box, Look, Text, listed, printable, stacked, wrapped
from idbandits.diagram.drawing.graph_layout import Edge, Place, Route, arrange
from idbandits.diagram.features.design import described
from idbandits.diagram.tables import Use
from idbandits.errors import IdbanditsError, check_number
from idbandits.files import path_of, write_whole

if TYPE_CHECKING:  # matplotlib is imported where it is used, because importing it takes long
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from idbandits.diagram.diagram import Diagram, Node  # `diagram` imports this module

_SUFFIXES = (".svg", ".png", ".pdf", ".mmd")
_SAMPLE = 22.0  # the width of a sample in the legend
_MERMAID = {"decision": "[ ]", "context": "( )", "latent": "([ ])", "observed": "([ ])", "reward": "{ }"}
INK, _PLAIN = "#1A1A1A", "#4A4A4A"
# Okabe and Ito's colours, which colour-blind readers tell apart; the palest left out, the purple darkened.
_ACCENTS = ("#0072B2", "#D55E00", "#009E73", "#A0428A", "#E69F00", "#000000")


@dataclass(frozen=True, slots=True)
class Picture:
    """Influence diagram as plain data, returned by `Diagram.draw`.

    Attributes
    ----------
    title : str
        Name of the diagram.
    boxes : tuple
        One box per node, and one for all reward terms.
    edges : tuple of pairs of str
        Names of parent and child.
    different : tuple of tuples of str
        Groups of decisions that may not share a choice.
    repeatable : tuple of str
        Choices that may repeat nevertheless.

    Examples
    --------
    >>> from idbandits import models
    >>> picture = models.semi_bandit(["tea", "milk"], 1).draw()
    >>> picture.title, picture.edges, picture.png()[1:4]
    ('semi-bandit', (('A1', 'X1'), ('X1', 'reward')), b'PNG')
    """

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    different: tuple[tuple[str, ...], ...]
    repeatable: tuple[str, ...] = ()

    def svg(self) -> str:
        """Return the picture as SVG text, which is deterministic."""
        return _render(self, "svg").decode()

    def png(self, dpi: float = 150) -> bytes:
        """Return the picture as the bytes of a PNG file.

        Parameters
        ----------
        dpi : float
            Dots per inch, from 10 to 2400.

        Returns
        -------
        bytes
            Content of the file.
        """
        return _render(self, "png", check_number("dpi", dpi, 10, 2400))

    def mermaid(self) -> str:
        """Return the picture as a Mermaid flowchart, which leaves the layout to Mermaid."""
        ids = {box.name: f"n{number}" for number, box in enumerate(self.boxes)}
        lines = ["flowchart TD", f"    %% {printable(self.title)}"]
        for box in self.boxes:
            opening, closing = _MERMAID[box.kind].split()
            table = f"<i>{_escaped(box.table + box.rows)}</i>" if box.table else ""
            text = "<br/>".join(filter(None, (_escaped(box.name), _escaped(box.states), table))) or " "
            lines.append(f'    {ids[box.name]}{opening}"{text}"{closing}:::{box.kind}')
        lines += [f"    {ids[parent]} --> {ids[child]}" for parent, child in self.edges]
        for number, group in enumerate(group for group in self.different if len(group) > 1):
            lines.append(
                f'    different{number}>"{_escaped(", ".join(group))} {_escaped(_different(self.repeatable))}"]'
            )
        for kind in dict.fromkeys(box.kind for box in self.boxes):
            lines.append(f"    classDef {kind} fill:{LOOKS[kind].fill},stroke:{LOOKS[kind].line},color:{INK}")
        for name, look in looks_of(self.boxes).items():
            dashes = ",stroke-dasharray:4 3" * look.dashed
            lines.append(f"    style {ids[name]} stroke:{look.line},stroke-width:{look.width}px{dashes}")
        return "\n".join([*lines, ""])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture atomically.

        Parameters
        ----------
        path : str or path
            File, whose suffix is the format: .svg, .png, .pdf or .mmd (Mermaid).
        """
        file = path_of(path)
        suffix = file.suffix.lower()
        if suffix not in _SUFFIXES:
            raise IdbanditsError(f"path {str(path)!r}: suffix must be one of {', '.join(_SUFFIXES)}, got {suffix!r}")
        write_whole(file, self.mermaid().encode() if suffix == ".mmd" else _render(self, suffix[1:]))

    _repr_svg_ = svg


def picture_of(diagram: Diagram) -> Picture:
    """Return the picture of a diagram; all reward terms are one box."""
    nodes = diagram.nodes.values()
    boxes, edges = [_box(node, diagram) for node in nodes], [(p, node.name) for node in nodes for p in node.parents]
    if diagram.rewards:
        name = "reward"
        while name in diagram.nodes:
            name += "'"
        boxes.append(Box(name, "reward"))
        edges += dict.fromkeys((p, name) for term in diagram.rewards for p in term.parents)
    repeatable = dict.fromkeys(str(label) for _, excepted in diagram.constraints for label in excepted)
    return Picture(diagram.name, tuple(boxes), tuple(edges), tuple(diagram.different), tuple(repeatable))


def _box(node: Node, diagram: Diagram) -> Box:
    table, rows, states, known, fixed = "", "", "", False, 0
    if isinstance(use := node.cpd, Use):
        table, own = use.name, diagram.learned[use.name]
        if use.rows is not None and own.shape != (1,):
            rows = f"[{use.rows}]" if isinstance(use.rows, int) else "[…]"
        readable = range(math.prod(own.shape)) if use.rows is None else np.unique(use.rows).tolist()
        fixed, known = len(own.fixed), all(row in own.fixed for row in readable)
        notes = [described(own.features, columns=False)] if own.features is not None and not known else []
        if known and len(readable) == 1:
            chances = own.fixed[readable[0]].tolist()
            notes = ["fixed at " + ", ".join(f"{p:.3g}" for p in (chances[1:] if len(chances) == 2 else chances))]
        elif number := sum(row in own.fixed for row in readable):
            notes.append("all fixed" if known else f"{number} of {len(readable)} rows fixed")
        rows += f" ({'; '.join(notes)})" if notes else ""
    if node.features is not None:
        number = len(node.features.features)
        states = f"{number} feature{'s' if number > 1 else ''}"
    elif node.kind == "decision":
        states = f"{node.states} choice{'s' if node.states > 1 else ''}"
    elif node.states != 2:
        states = f"{node.states} {'values' if node.kind == 'context' else 'states'}"
    return Box(node.name, node.kind, table, states, rows, known, fixed)


def looks_of(boxes: Sequence[Box]) -> dict[str, Look]:
    """Return the look of each box: learned tables have colours, black if there is only one; known ones are dashed."""
    tables = list(dict.fromkeys(box.table for box in boxes if box.table))
    looks = {box.name: LOOKS[box.kind] for box in boxes}
    for box in boxes:
        if box.table:
            accent = _ACCENTS[tables.index(box.table) % len(_ACCENTS)] if len(tables) > 1 else INK
            width = 0.9 if box.known else 2.0
            looks[box.name] = LOOKS[box.kind]._replace(line=accent, width=width, dashed=box.known)
        elif box.kind in ("latent", "observed"):
            looks[box.name] = LOOKS[box.kind]._replace(line=_PLAIN, width=0.9, dashed=True)
    return looks


def _different(repeatable: Sequence[str]) -> str:
    return f"all different{', except for ' if repeatable else ''}{listed(repeatable) if repeatable else ''}"


def legend(
    boxes: Sequence[Box], different: Iterable[Sequence[str]], repeatable: Sequence[str] = ()
) -> Iterator[tuple[str, Look | None]]:
    """Iterate over texts and looks of kinds, known and learned tables and constraints, which have no look."""
    looks = looks_of(boxes)
    yield from [(kind, look) for kind, look in LOOKS.items() if any(box.kind == kind for box in boxes)]
    if dashed := [look._replace(fill="white", line=_PLAIN) for look in looks.values() if look.dashed]:
        yield "known table or row" if any(box.known for box in boxes) else "known table", dashed[0]
    for table in dict.fromkeys(box.table for box in boxes if box.table):
        users = [box for box in boxes if box.table == table]
        verb = "shared" if len({box.rows for box in users}) == 1 < len(users) else "used"
        known, fixed = all(box.known for box in users), users[0].fixed
        text = f"{'fixed' if known else 'learned'} table {printable(table)}, {verb} by "
        text += listed([box.name for box in users])
        text += f"; {fixed} row{'s' * (fixed > 1)} fixed" if fixed and not known else ""
        yield text, Look("white", looks[users[0].name].line, width=0.9 if known else 2.0, dashed=known)
    yield from [(f"{listed(group)} {_different(repeatable)}", None) for group in different if len(group) > 1]


def _render(picture: Picture, form: str, dpi: float = 150) -> bytes:
    """Return the bytes of a file, drawn in matplotlib's default style whatever style the user has set."""
    from matplotlib import style

    # Text stays text: searchable, and in the reader's font where ours lacks a glyph.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "idbandits", "pdf.fonttype": 42}
    metadata = {"svg": {"Date": None, "Title": printable(picture.title)}, "pdf": {"CreationDate": None}}
    out = BytesIO()
    with style.context(["default", settings]):
        _figure(picture).savefig(out, format=form, dpi=dpi, metadata=metadata.get(form))
    return out.getvalue()


def _figure(picture: Picture) -> Figure:
    """Draw title, diagram and legend from top to bottom."""
    from matplotlib.figure import Figure

    layout, entries = (
        arrange(picture.boxes, picture.edges),
        list(legend(picture.boxes, picture.different, picture.repeatable)),
    )
    title = [Text(line, NAME) for line in wrapped(picture.title, 44)]
    title_height = 14.6 * len(title)
    widths = [_SAMPLE + Text(text).width() for text, _ in entries]
    left, top, right, bottom = layout.corners()
    middle, half = (left + right) / 2, max(right - left, 210.0, *widths, *(text.width() for text in title)) / 2
    corners = [(middle - half + x, bottom + 22 + y) for x, y in _flow(widths, 2 * half)]
    low, high = top - title_height - 20, max([bottom, *(y for _, y in corners)]) + 17
    figure = Figure(figsize=((2 * half + 20) / 72, (high - low) / 72))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(middle - half - 10, middle + half + 10), ylim=(high, low))
    axes.set_axis_off()
    _write(axes, middle, top - 12 - title_height / 2, stacked(title))
    for route in layout.routes.values():
        _draw_edge(axes, route)
    looks = looks_of(picture.boxes)
    for box in picture.boxes:
        place = layout.places[box.name]
        _draw_shape(axes, place, looks[box.name])
        _write(axes, place.x, place.y, box.lines())
    for (text, look), (x, y) in zip(entries, corners, strict=True):
        if look:
            _draw_shape(axes, Place(x + 9, y, 8, 6 if look.norm == 1 else 5, look.norm), look)
        else:
            _write(axes, x + 9, y, [(Text("≠", NAME), 0)])
        _write(axes, x + _SAMPLE, y, [(Text(text), 0)], "left")
    return figure


def _flow(widths: Sequence[float], room: float) -> Iterator[tuple[float, float]]:
    """Iterate over the places of the entries of a legend, in as many lines as they need."""
    x = y = 0.0
    for width in widths:
        if x and x + width > room:
            x, y = 0.0, y + 15
        yield x, y
        x += width + 12


def _draw_edge(axes: Axes, route: Route) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    curve = Curve(route, [Curve.MOVETO] + [Curve.CURVE4] * (len(route) - 1))
    arrow = FancyArrowPatch(path=curve, arrowstyle="-|>,head_length=6,head_width=2.5", shrinkA=0, shrinkB=0)
    arrow.set(mutation_scale=1, linewidth=0.9, color="#333333", zorder=1)
    axes.add_artist(arrow)


def _draw_shape(axes: Axes, place: Place, look: Look) -> None:
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


def _write(axes: Axes, x: float, y: float, lines: Iterable[tuple[Text, float]], align: str = "center") -> None:
    """Write lines verbatim: names may contain characters that matplotlib would take for mathematics."""
    for text, shift in lines:
        line = axes.text(x, y + shift, text.words, ha=align, va="center_baseline", parse_math=False)
        line.set(size=text.size, style=text.slant, color=INK, zorder=3)


def _escaped(text: str) -> str:
    """Return text for a quoted Mermaid label: characters that Mermaid or HTML would interpret become entity codes."""
    return re.sub(r"[^\w .,()\[\]\u0080-\U0010ffff-]", lambda mark: f"#{ord(mark[0])};", printable(text))
