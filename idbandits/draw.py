"""Pictures of influence diagrams: plain data in; SVG, PNG, PDF or Mermaid text out.

Positions and routes are data (`Layout`) before anything is drawn.  Lengths are points (1/72 inch), y grows
downwards.  matplotlib and igraph are imported where they are used, because importing them takes long.
"""

import os
import re
import unicodedata
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

from idbandits.errors import IdbanditsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
Edge = tuple[str, str]
Stop = tuple[str, str, int]  # where an edge passes a row: parent, child, row; for a node: name, name, row
Route = tuple[Point, ...]  # cubic Bézier curves joined end to end: 3 n + 1 control points
Outline = tuple[str, float, bool]  # colour, width, whether dashed
Text = tuple[str, float, Literal["normal", "italic"]]  # one line: text, size, slant


class _Style(NamedTuple):
    fill: str
    line: str
    norm: float  # the shape is a ball of this norm: 1 diamond, 2 ellipse, inf rectangle
    rounding: float
    brackets: tuple[str, str]  # Mermaid's shape


_STYLES = {
    "decision": _Style("#F6B0A2", "#8C2316", inf, 0, ("[", "]")),
    "context": _Style("#F5DDA6", "#7A5A10", inf, 8, ("(", ")")),
    "latent": _Style("#E6E6E6", "#4A4A4A", 2, 0, ("([", "])")),
    "observed": _Style("#8CC0EA", "#174468", 2, 0, ("([", "])")),
    "reward": _Style("#BCE3C8", "#1C6140", 1, 0, ("{", "}")),
}
_INK, _KNOWN = "#1A1A1A", ("#4A4A4A", 0.9, True)
# Okabe and Ito's colours, which colour-blind readers tell apart; the palest left out, the purple darkened.
_ACCENTS = ("#0072B2", "#D55E00", "#009E73", "#A0428A", "#E69F00", "#000000")
_NAME, _SMALL, _LEADING = 12.0, 8.5, 1.22  # font sizes, and the height of a line in font sizes
_GAP, _ROW_GAP, _SAMPLE = 12.0, 30.0, 22.0  # between columns, between rows, width of the legend's samples
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True, slots=True)
class Box:
    """One node of a picture; `table` is the caption of its learned table, empty where none is learned."""

    name: str
    kind: str
    table: str = ""
    states: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """An influence diagram as plain data; `different` has the decisions that may not share a choice."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    different: tuple[tuple[str, ...], ...]

    def svg(self) -> str:
        """Return the picture as SVG text, the same for the same picture."""
        return _render(self, "svg").decode()

    def png(self, dpi: int = 150) -> bytes:
        """Return the picture as a PNG file's bytes."""
        return _render(self, "png", dpi)

    def mermaid(self) -> str:
        """Return the picture as a Mermaid flowchart, which leaves the layout to Mermaid."""
        return "".join(f"{line}\n" for line in _mermaid(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture in the format of the suffix: .svg, .png, .pdf or .mmd; never half a file."""
        target, suffix = Path(path), Path(path).suffix.lower()
        if suffix not in (allowed := (".svg", ".png", ".pdf", ".mmd")):
            raise IdbanditsError(f"path {str(path)!r}: suffix {suffix!r} is none of {', '.join(allowed)}")
        _replace(target, self.mermaid().encode() if suffix == ".mmd" else _render(self, suffix[1:]))

    def _repr_svg_(self) -> str:
        return self.svg()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a box lies: its centre, its half width and height, and the norm whose ball is its shape."""

    x: float
    y: float
    half_width: float
    half_height: float
    norm: float

    def distance(self, point: Point) -> float:
        """Return how far a point is from the centre: below 1 inside the shape, 1 on its border."""
        dx, dy = abs(point[0] - self.x) / self.half_width, abs(point[1] - self.y) / self.half_height
        return max(dx, dy) if self.norm == inf else (dx**self.norm + dy**self.norm) ** (1 / self.norm)

    def border(self, towards: Point) -> Point:
        """Return the point of the border in the direction of another point."""
        share = 1 / self.distance(towards)
        return self.x + share * (towards[0] - self.x), self.y + share * (towards[1] - self.y)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where all boxes and edges lie, and the corners of the whole."""

    places: dict[str, Place]
    routes: dict[Edge, Route]
    top_left: Point
    bottom_right: Point


def layout(picture: Picture) -> Layout:
    """Return where everything lies, with gaps between rows that let edges keep off other boxes."""
    sizes = {box.name: (*_size(box), _STYLES[box.kind].norm) for box in picture.boxes}
    rows, xs = _grid(picture, {name: size[0] for name, size in sizes.items()})
    tall = [max(sizes[name][1] for name in rows if rows[name] == row) for row in sorted(set(rows.values()))]
    gaps, steep, tries = [_ROW_GAP for _ in pairwise(tall)], set[Edge](), []
    for attempt in range(7):
        steps = (above + gap + below for (above, below), gap in zip(pairwise(tall), gaps, strict=True))
        ys = list(accumulate(steps, initial=0.0))
        places = {name: Place(xs[name, name, row], ys[row], *sizes[name]) for name, row in rows.items()}
        routes = {}
        for a, b in picture.edges:
            bends = [(xs[stop], ys[stop[2]]) for stop in _path((a, b), rows)[1:-1]]
            routes[a, b] = _route(places[a], bends, places[b], (a, b) in steep)
        touching = [edge for edge, route in routes.items() if _touches(edge, route, places)]
        tries.append((len(touching), places, routes))
        if not touching:
            break
        if attempt < 5:
            tight = {gap for a, b in touching for gap in range(*sorted((rows[a], rows[b])))}
            gaps = [gap * 1.25 if number in tight else gap for number, gap in enumerate(gaps)]
        else:
            steep = {(a, b) for a, b in touching if rows[a] != rows[b]}
    _, places, routes = min(tries, key=lambda found: found[0])
    corners = [(p.x + s * p.half_width, p.y + s * p.half_height) for p in places.values() for s in (-1, 1)]
    x, y = zip(*corners, *(point for route in routes.values() for point in along(route)), strict=True)
    return Layout(places, routes, (min(x), min(y)), (max(x), max(y)))


def along(route: Route, steps: int = 40) -> Iterator[Point]:
    """Yield points along a route, both ends included."""
    yield route[0]
    for start in range(0, len(route) - 1, 3):
        (ax, ay), (bx, by), (cx, cy), (dx, dy) = route[start : start + 4]
        for t in (step / steps for step in range(1, steps + 1)):
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            yield a * ax + b * bx + c * cx + d * dx, a * ay + b * by + c * cy + d * dy


def _route(start: Place, bends: Sequence[Point], end: Place, steep: bool) -> Route:
    """Return a line between two borders, or a curve vertical at its bends and, if steep, at its ends."""
    first, last = (bends[0], bends[-1]) if bends else ((end.x, end.y), (start.x, start.y))
    if steep:
        first, last = (start.x, first[1]), (end.x, last[1])
    stops = [start.border(first), *bends, end.border(last)]
    route = stops[:1]
    for number, ((x, y), (to_x, to_y)) in enumerate(pairwise(stops)):
        dx, dy = (to_x - x) / 3, (to_y - y) / 3
        leave = (x, y + 1.5 * dy) if steep or number > 0 else (x + dx, y + dy)
        arrive = (to_x, to_y - 1.5 * dy) if steep or number < len(bends) else (to_x - dx, to_y - dy)
        route += [leave, arrive, (to_x, to_y)]
    return tuple(route)


def _touches(edge: Edge, route: Route, places: Mapping[str, Place]) -> bool:
    """Return whether a route comes close to a box besides the edge's own."""
    x, y = zip(*route, strict=True)
    left, right, top, bottom = min(x), max(x), min(y), max(y)
    near = [
        place
        for name, place in places.items()
        if name not in edge
        and left - 1.1 * place.half_width < place.x < right + 1.1 * place.half_width
        and top - 1.1 * place.half_height < place.y < bottom + 1.1 * place.half_height
    ]
    return bool(near) and any(place.distance(point) < 1.1 for point in along(route) for place in near)


def _grid(picture: Picture, half_widths: Mapping[str, float]) -> tuple[dict[str, int], dict[Stop, float]]:
    """Return the row of each node, and the x of each stop.

    A diagram unrolled over positions (A1, A2, …, W1, W2, …) has a row for the family of all A, one for all W,
    and so on, and repeats the layout of one position.  Edges to later positions may run sideways or upwards:
    it is only as deep as one position.  Any other diagram is one position, each node a family of its own.
    """
    family = _families(picture)
    pairs = list(dict.fromkeys((family[a], family[b]) for a, b in sorted(picture.edges, key=_is_later)))
    below: dict[str, list[str]] = {group: [] for group in family.values()}
    for parent, child in pairs:
        if not _reaches(below, child, parent):
            below[parent].append(child)
    levels = _family_rows(below, pairs, [family[box.name] for box in picture.boxes if box.kind == "reward"])
    folded = _sugiyama(levels, [(parent, child) for parent in below for child in below[parent]])
    for bend in [bend for a, b in pairs if b not in below[a] for bend in _path((a, b), levels)[1:-1]]:
        # On the right, where later positions are.
        folded[bend] = 1 + max(x for stop, x in folded.items() if stop[2] == bend[2])
    repeated = {stop: x for stop, x in folded.items() if "*" in stop[0][-1] + stop[1][-1]}
    spans = [[x for stop, x in repeated.items() if stop[2] == row] for row in levels.values()]
    stride = 1 + max(max(span) - min(span) for span in [*filter(None, spans), [0.0]])
    rows, position = {name: levels[group] for name, group in family.items()}, _positions(picture, family)
    xs = {}
    for a, b, row in _stops(rows, picture.edges):
        shift = stride * position[a if family[a].endswith("*") else b]
        xs[a, b, row] = folded[family[a], family[b], row] + shift
    return rows, _apart(xs, half_widths)


def _families(picture: Picture) -> dict[str, str]:
    """Return the family of each node: the stem of numbered names and a star, or the name and a dot."""
    split = {box.name: _split(box.name) for box in picture.boxes}
    inside = [(split[a], split[b]) for a, b in picture.edges if split[a][0] == split[b][0]]
    # Side by side, an edge that skips a number would run through the nodes between.
    loose = {stem for (stem, first), (_, second) in inside if second != first + 1}
    stems = [stem for stem, number in split.values() if number >= 0 and stem not in loose]
    crowds = {name for name, (stem, number) in split.items() if number >= 0 and stems.count(stem) > 1}
    return {name: f"{stem}*" if name in crowds else f"{name}." for name, (stem, _) in split.items()}


def _split(name: str) -> tuple[str, int]:
    """Return the stem of a name and its final number, -1 without one."""
    found = re.fullmatch(r"(.*[^0-9])([0-9]{1,9})", name, re.DOTALL)
    return (found[1], int(found[2])) if found else (name, -1)


def _is_later(edge: Edge) -> bool:
    return 0 <= _split(edge[0])[1] < _split(edge[1])[1]


def _reaches(below: Mapping[str, Iterable[str]], start: str, goal: str) -> bool:
    found = [start]
    for group in found:
        found += [child for child in below[group] if child not in found]
    return goal in found


def _family_rows(
    below: Mapping[str, Sequence[str]], pairs: Sequence[Edge], last: Iterable[str]
) -> dict[str, int]:
    """Return the row of each family: under its parents, or if it has none right above its first child.

    Families of several nodes take rows of their own: a narrower picture, where edges may run along a row.
    """
    depth = dict.fromkeys(below, 0)
    for _ in below:
        for parent, children in below.items():
            depth.update({child: max(depth[child], depth[parent] + 1) for child in children})
    inner = {child for children in below.values() for child in children}
    depth.update({a: min(depth[b] for b in below[a]) - 1 for a in below if below[a] and a not in inner})
    both = [*pairs, *((child, parent) for parent, child in pairs)]
    order = sorted(below, key=lambda group: fmean([depth[b] for a, b in both if a == group] or [0]))
    levels = {group: (depth[group], order.index(group) + 1.0, 0) for group in below}
    levels.update({group: (depth[group], 0.0, 0) for group in below if not group.endswith("*")})
    for number, group in enumerate(below):
        if below[group] and group.endswith("*") and group not in inner:
            first = min(levels[child] for child in below[group])
            levels[group] = (first[0], first[1] - 0.5, number)
    levels.update({group: (len(below), 0.0, 0) for group in last if not below[group]})
    ranks = {level: row for row, level in enumerate(sorted(set(levels.values())))}
    return {group: ranks[level] for group, level in levels.items()}


def _path(edge: Edge, rows: Mapping[str, int]) -> list[Stop]:
    """Return the stops of an edge from parent to child: both nodes, and a bend in each row between."""
    (a, b), first, last = edge, rows[edge[0]], rows[edge[1]]
    step = 1 if first < last else -1
    return [(a, a, first), *((a, b, row) for row in range(first + step, last, step)), (b, b, last)]


def _stops(rows: Mapping[str, int], edges: Iterable[Edge]) -> list[Stop]:
    """Return all nodes, then all bends."""
    nodes = [(name, name, row) for name, row in rows.items()]
    return nodes + [stop for edge in edges for stop in _path(edge, rows)[1:-1]]


def _sugiyama(rows: Mapping[str, int], edges: Sequence[Edge]) -> dict[Stop, float]:
    """Return the x of each stop in igraph's layered layout."""
    import igraph

    # Bends are vertices here, since igraph's own report of them differs by version.
    index = {stop: number for number, stop in enumerate(_stops(rows, edges))}
    steps = [(index[a], index[b]) for edge in edges for a, b in pairwise(_path(edge, rows))]
    steps += [step for step in steps if max(step) >= len(rows)]  # twice as heavy: long edges become straight
    graph = igraph.Graph(n=len(index), edges=steps, directed=True)
    found = graph.layout_sugiyama(layers=[row for _, _, row in index], maxiter=1000)
    return {stop: float(found[number][0]) for stop, number in index.items()}


def _positions(picture: Picture, family: Mapping[str, str]) -> dict[str, float]:
    """Return the position of each node, counted from zero; a node of no position lies amid its neighbours."""
    numbers = {name: _split(name)[1] for name in family if family[name].endswith("*")}
    ranks = sorted(set(numbers.values()))
    own = {name: ranks.index(number) for name, number in numbers.items()}
    near: dict[str, list[int]] = {name: [own[name]] if name in own else [] for name in family}
    for a, b in [*picture.edges, *((b, a) for a, b in picture.edges)]:
        near[a] += [own[b]] if b in own and a not in own else []
    return {name: fmean(near[name] or range(len(ranks)) or [0]) for name in family}


def _apart(xs: Mapping[Stop, float], half_widths: Mapping[str, float]) -> dict[Stop, float]:
    """Return x in points, stretched until no neighbours in a row overlap."""
    units: dict[Stop, float] = {}
    for row in {stop[2] for stop in xs}:
        stops = sorted((stop for stop in xs if stop[2] == row), key=xs.__getitem__)
        moved = list(accumulate((xs[stop] for stop in stops), lambda left, x: max(x, left + 1)))
        shift = fmean(xs[stop] for stop in stops) - fmean(moved)
        units.update({stop: x + shift for stop, x in zip(stops, moved, strict=True)})
    half = {stop: half_widths[stop[0]] if stop[0] == stop[1] else 3.0 for stop in units}
    pairs = [(a, b) for a, b in pairwise(units) if a[2] == b[2]]  # rows are together, from left to right
    scale = max([(half[a] + _GAP + half[b]) / (units[b] - units[a]) for a, b in pairs], default=1.0)
    return {stop: x * scale for stop, x in units.items()}


def _texts(box: Box) -> list[Text]:
    """Return the text inside a box, line by line."""
    names: list[Text] = [(text, _NAME, "normal") for text in _wrapped(_label(box.name))]
    states: list[Text] = [(text, _SMALL, "normal") for text in _wrapped(_shown(box.states))]
    return [*names, *states, *((text, _SMALL, "italic") for text in _wrapped(_shown(box.table)))]


def _offsets(texts: Sequence[Text]) -> list[tuple[Text, float]]:
    """Return each line with the y of its middle, from the middle of them all."""
    ends = list(accumulate((_LEADING * text[1] for text in texts), initial=0.0))
    return [(text, (a + b - ends[-1]) / 2) for text, (a, b) in zip(texts, pairwise(ends), strict=True)]


def _size(box: Box) -> Point:
    """Return half width and height of a box that just holds its text."""
    texts, norm = _texts(box), _STYLES[box.kind].norm
    height = {1: 1.8, 2: 1.25, inf: 1.1}[norm] * _LEADING * sum(size for _, size, _ in texts) / 2 + 4
    width = 21.0
    for text, y in _offsets(texts):
        share = (abs(y) + 0.4 * text[1]) / height
        room = 1.0 if norm == inf else (1 - share**norm) ** (1 / norm)
        width = max(width, (_width(text) / 2 + 4) / room)
    return width, height


def _width(text: Text) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    # A viewer may show full-width characters in a font of its own: they are as wide as W.
    shown = "".join("W" if unicodedata.east_asian_width(c) in "WF" else c for c in text[0])
    font = FontProperties(family="DejaVu Sans", size=text[1], style=text[2])
    return float(text_to_path.get_text_width_height_descent(shown, font, False)[0])


def _shown(text: str) -> str:
    """Return text without the characters that an SVG or Mermaid file may not hold."""
    return "".join(c if c.isprintable() else " " for c in text)


def _label(name: str) -> str:
    """Return a name as drawn: a number after letters becomes a subscript."""
    found = re.fullmatch(r"([^\W\d_]+)([0-9]+)", name)
    return found[1] + found[2].translate(_SUBSCRIPTS) if found else _shown(name)


def _wrapped(text: str, width: int = 18) -> list[str]:
    """Return text as lines, broken after spaces and punctuation where it has any."""
    lines = [""]
    for piece in re.findall(rf"[^ _./-]{{1,{width}}}[ _./-]?|[ _./-]", text):
        if len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines if line.strip()]


def _together(names: Sequence[str]) -> str:
    """Return names in few words: A₁, A₂, A₃ or A₁ … A₅."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_split(name)[0], []).append(name)
    words = []
    for group in groups.values():
        numbers = [_split(name)[1] for name in group]
        labels = [label if len(label) <= 24 else label[:23] + "…" for label in map(_label, group)]
        runs = len(group) > 3 and all(b == a + 1 for a, b in pairwise(numbers))
        words += [f"{labels[0]} … {labels[-1]}"] if runs else labels
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")


def _accents(boxes: Iterable[Box]) -> dict[str, str]:
    """Return a colour for each learned table: black if it is the only one."""
    tables = list(dict.fromkeys(_table(box) for box in boxes if box.table))
    return {t: _ACCENTS[i % len(_ACCENTS)] if len(tables) > 1 else _INK for i, t in enumerate(tables)}


def _table(box: Box) -> str:
    """Return the name of a box's learned table: its caption without rows."""
    return re.sub(r"(?s)(.)\[[^\[]*\]$", r"\1", box.table)


def _outline(box: Box, accents: Mapping[str, str]) -> Outline:
    if box.table:
        return (accents[_table(box)], 2.0, False)
    return _KNOWN if box.kind in ("latent", "observed") else (_STYLES[box.kind].line, 1.2, False)


def _legend(picture: Picture) -> Iterator[tuple[str, _Style | None, Outline]]:
    """Yield text and sample for the kinds, tables and constraints that occur; constraints have no shape."""
    accents, bare = _accents(picture.boxes), _STYLES["latent"]._replace(fill="white")
    for kind in [kind for kind in _STYLES if any(box.kind == kind for box in picture.boxes)]:
        yield kind, _STYLES[kind], (_STYLES[kind].line, 1.0, False)
    if any(_outline(box, accents) is _KNOWN for box in picture.boxes):
        yield "known table", bare, _KNOWN
    for table, colour in accents.items():
        users = [box for box in picture.boxes if box.table and _table(box) == table]
        verb = "shared" if len({box.table for box in users}) == 1 < len(users) else "used"
        text = f"learned table {_shown(table)}, {verb} by {_together([box.name for box in users])}"
        yield text, bare, (colour, 2.0, False)
    for group in picture.different:
        yield f"{_together(group)} all different", None, _KNOWN


def _figure(picture: Picture) -> "Figure":
    """Return the picture drawn: title, diagram and legend from top to bottom."""
    from matplotlib.figure import Figure

    plan, entries, accents = layout(picture), list(_legend(picture)), _accents(picture.boxes)
    titles: list[Text] = [(text, _NAME, "normal") for text in _wrapped(_shown(picture.title), 44)]
    widths = [_SAMPLE + _width((text, _SMALL, "normal")) for text, _, _ in entries]
    (left, top), (right, bottom) = plan.top_left, plan.bottom_right
    middle, half = (left + right) / 2, max(right - left, 210.0, *widths, *map(_width, titles)) / 2
    spots = [(middle - half + x, bottom + 22 + y) for x, y in _flow(widths, 2 * half)]
    title = _NAME * _LEADING * len(titles)
    low, high = top - title - 20, spots[-1][1] + 17
    figure = Figure(figsize=((2 * half + 20) / 72, (high - low) / 72))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(middle - half - 10, middle + half + 10), ylim=(high, low))
    axes.set_axis_off()
    for text, y in _offsets(titles):
        _write(axes, middle, top - 12 - title / 2 + y, text)
    for route in plan.routes.values():
        _draw_edge(axes, route)
    for box in picture.boxes:
        place = plan.places[box.name]
        _draw_shape(axes, place, _STYLES[box.kind], _outline(box, accents))
        for text, y in _offsets(_texts(box)):
            _write(axes, place.x, place.y + y, text)
    for (caption, style, outline), (x, y) in zip(entries, spots, strict=True):
        if style:
            _draw_shape(axes, Place(x + 9, y, 8, 6 if style.norm == 1 else 5, style.norm), style, outline)
        else:
            _write(axes, x + 9, y, ("≠", _NAME, "normal"))
        _write(axes, x + _SAMPLE, y, (caption, _SMALL, "normal"), "left")
    return figure


def _flow(widths: Sequence[float], room: float) -> Iterator[Point]:
    """Yield where the entries of a legend begin, in as many lines as they need."""
    x = y = 0.0
    for width in widths:
        if x and x + width > room:
            x, y = 0.0, y + 15
        yield x, y
        x += width + _GAP


def _draw_edge(axes: "Axes", route: Route) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    curve = Curve(route, [Curve.MOVETO] + [Curve.CURVE4] * (len(route) - 1))
    arrow = FancyArrowPatch(path=curve, arrowstyle="-|>,head_length=6,head_width=2.5", shrinkA=0, shrinkB=0)
    arrow.set(mutation_scale=1, linewidth=0.9, color="#333333", zorder=1)
    axes.add_patch(arrow)


def _draw_shape(axes: "Axes", place: Place, style: _Style, outline: Outline) -> None:
    from matplotlib.patches import Ellipse, FancyBboxPatch, Polygon

    x, y, a, b = place.x, place.y, place.half_width, place.half_height
    corners = f"round,pad=0,rounding_size={min(style.rounding, b)}"
    patch = {
        1: Polygon([(x - a, y), (x, y - b), (x + a, y), (x, y + b)]),
        2: Ellipse((x, y), 2 * a, 2 * b),
        inf: FancyBboxPatch((x - a, y - b), 2 * a, 2 * b, corners),
    }[style.norm]
    patch.set(facecolor=style.fill, edgecolor=outline[0], linewidth=outline[1], zorder=2)
    patch.set_linestyle((0, (3.5, 2.2)) if outline[2] else "solid")
    axes.add_patch(patch)


def _write(axes: "Axes", x: float, y: float, text: Text, align: str = "center") -> None:
    """Write one line as it stands: names may hold marks that matplotlib would take for mathematics."""
    line = axes.text(x, y, text[0], ha=align, va="center_baseline", parse_math=False)
    line.set(size=text[1], style=text[2], color=_INK, zorder=3)


def _render(picture: Picture, form: str, dpi: int = 150) -> bytes:
    """Return a file's bytes, drawn in matplotlib's default style whatever style the user has set."""
    from matplotlib import style

    # Text stays text: searchable, and in the reader's font where ours lacks a glyph.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "idbandits", "pdf.fonttype": 42}
    stamps = {"svg": {"Date": None, "Title": _shown(picture.title)}, "pdf": {"CreationDate": None}}
    out = BytesIO()
    with style.context(["default", settings]):
        _figure(picture).savefig(out, format=form, dpi=dpi, metadata=stamps.get(form))
    return out.getvalue()


def _mermaid(picture: Picture) -> Iterator[str]:
    ids = {box.name: f"n{number}" for number, box in enumerate(picture.boxes)}
    accents = _accents(picture.boxes)
    yield from ("flowchart TD", f"    %% {_shown(picture.title)}")
    for box in picture.boxes:
        first, last = _STYLES[box.kind].brackets
        table = f"<i>{_escaped(box.table)}</i>" if box.table else ""
        label = "<br/>".join(filter(None, (_escaped(box.name), _escaped(box.states), table))) or " "
        yield f'    {ids[box.name]}{first}"{label}"{last}:::{box.kind}'
    for parent, child in picture.edges:
        yield f"    {ids[parent]} --> {ids[child]}"
    for number, group in enumerate(picture.different):
        yield f'    different{number}>"{_escaped(", ".join(group))} all different"]'
    for kind in dict.fromkeys(box.kind for box in picture.boxes):
        yield f"    classDef {kind} fill:{_STYLES[kind].fill},stroke:{_STYLES[kind].line},color:{_INK}"
    for box in picture.boxes:
        colour, width, dashed = _outline(box, accents)
        dashes = ",stroke-dasharray:4 3" * dashed
        yield f"    style {ids[box.name]} stroke:{colour},stroke-width:{width}px{dashes}"


def _escaped(text: str) -> str:
    """Return text for a quoted Mermaid label: marks that Mermaid or HTML would read become entity codes."""
    return re.sub(r"[^\w .,()\[\]\u0080-\U0010ffff-]", lambda mark: f"#{ord(mark[0])};", _shown(text))


def _replace(target: Path, content: bytes) -> None:
    """Write a file whole or not at all: a temporary file beside it takes its place."""
    draft = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
