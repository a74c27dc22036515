"""Where the boxes and edges of a picture lie: plain data, before anything is drawn.

Lengths are points (1/72 inch), y grows downwards.  matplotlib and igraph are imported where they are used, because
importing them takes long.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import accumulate, pairwise
from math import inf
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Point = tuple[float, float]
Edge = tuple[str, str]
Route = tuple[Point, ...]  # cubic Bézier curves joined end to end: 3 n + 1 control points

NORMS = {"decision": inf, "context": inf, "latent": 2, "observed": 2, "reward": 1}  # a shape is the ball of a norm
NAME, SMALL, LEADING = 12.0, 8.5, 1.22  # font sizes, and the height of a line in font sizes
_GAP, _ROW_GAP = 12.0, 30.0  # between neighbours in a row, and between rows, at least
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class _Stop(NamedTuple):
    """Where an edge passes a row; a node is a stop of which it is both parent and child."""

    parent: str
    child: str
    row: int


_Xs = dict[_Stop, float]


class Text(NamedTuple):
    """One line of text."""

    words: str
    size: float = SMALL
    slant: Literal["normal", "italic"] = "normal"

    def width(self) -> float:
        """How wide it is; a viewer may show full-width characters in a font of its own: they count as W."""
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path

        shown = "".join("W" if unicodedata.east_asian_width(c) in "WF" else c for c in self.words)
        font = FontProperties(family="DejaVu Sans", size=self.size, style=self.slant)
        return float(text_to_path.get_text_width_height_descent(shown, font, False)[0])


@dataclass(frozen=True, slots=True)
class Box:
    """One node of a picture; `table` names its learned table, empty where none is learned, `rows` those it picks."""

    name: str
    kind: str
    table: str = ""
    states: str = ""
    rows: str = ""

    @property
    def caption(self) -> str:
        """Its learned table and the rows of it."""
        return self.table + self.rows

    def lines(self) -> list[tuple[Text, float]]:
        """Its text line by line, as `stacked`."""
        small = [Text(t) for t in wrapped(self.states)] + [Text(t, slant="italic") for t in wrapped(self.caption)]
        return stacked([Text(line, NAME) for line in wrapped(label(self.name))] + small)

    def size(self) -> Point:
        """Half its width and half its height: it just holds its text."""
        lines, norm = self.lines(), NORMS[self.kind]
        height = {1: 1.8, 2: 1.25, inf: 1.1}[norm] * LEADING * sum(text.size for text, _ in lines) / 2 + 4
        width = 21.0
        for text, y in lines:
            share = (abs(y) + 0.4 * text.size) / height
            room = 1.0 if norm == inf else (1 - share**norm) ** (1 / norm)
            width = max(width, (text.width() / 2 + 4) / room)
        return width, height


@dataclass(frozen=True, slots=True)
class Place:
    """Where a box lies: its centre, half its width and height, and the norm whose ball is its shape."""

    x: float
    y: float
    half_width: float
    half_height: float
    norm: float

    def distance(self, points: ArrayLike) -> NDArray[np.float64]:
        """How far points are from the centre: below 1 inside the shape, 1 on its border."""
        offsets = (np.asarray(points) - (self.x, self.y)) / (self.half_width, self.half_height)
        return np.asarray(np.linalg.norm(offsets, self.norm, axis=-1))

    def border(self, towards: Point) -> Point:
        """The point of the border in the direction of another point."""
        share = 1 / float(self.distance(towards))
        return self.x + share * (towards[0] - self.x), self.y + share * (towards[1] - self.y)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where all boxes and edges lie."""

    places: dict[str, Place]
    routes: dict[Edge, Route]

    def corners(self) -> tuple[float, float, float, float]:
        """The least x and y, and the greatest, of all boxes and edges."""
        ends = [(p.x + s * p.half_width, p.y + s * p.half_height) for p in self.places.values() for s in (-1, 1)]
        x, y = zip(*(ends or [(0.0, 0.0)]), *(point for route in self.routes.values() for point in route), strict=True)
        return min(x), min(y), max(x), max(y)

    def is_clear(self, edge: Edge) -> bool:
        """Whether an edge keeps off all boxes besides its own."""
        points, others = along(self.routes[edge]), [self.places[name] for name in self.places if name not in edge]
        return all((place.distance(points) > 1.1).all() for place in others)


def arrange(boxes: Sequence[Box], edges: Sequence[Edge]) -> Layout:
    """Where everything lies: edges are lines where these are clear, else curves that move sideways between rows."""
    if not boxes:
        return Layout({}, {})
    sizes = {box.name: box.size() for box in boxes}
    rows, xs = _grid(boxes, edges, {name: width for name, (width, _) in sizes.items()})
    paths = {edge: _path(edge, rows) for edge in edges}
    tall = [max(sizes[name][1] for name in rows if rows[name] == row) for row in range(1 + max(rows.values()))]
    ys = _row_ys(tall, paths.values(), xs)
    at = {name: (xs[_Stop(name, name, row)], ys[row]) for name, row in rows.items()}
    plan = Layout({box.name: Place(*at[box.name], *sizes[box.name], NORMS[box.kind]) for box in boxes}, {})
    for (a, b), path in paths.items():
        sides = (-1, 1) if rows[a] < rows[b] else (1, -1)
        bends = [(xs[stop], ys[stop.row] + side * (tall[stop.row] + 4)) for stop in path for side in sides]
        plan.routes[a, b] = _route(plan.places[a], bends[2:-2], plan.places[b])
        if rows[a] != rows[b] and not plan.is_clear((a, b)):
            plan.routes[a, b] = _route(plan.places[a], bends[1:-1], plan.places[b])
    return plan


def _row_ys(tall: Sequence[float], paths: Iterable[Sequence[_Stop]], xs: _Xs) -> list[float]:
    """The y of each row, given half the heights of rows; the farther an edge moves sideways, the wider the gap."""
    gaps = [_ROW_GAP for _ in tall[1:]]
    for a, b in (step for path in paths for step in pairwise(path) if step[0].row != step[1].row):
        gap = min(a.row, b.row)
        gaps[gap] = max(gaps[gap], abs(xs[a] - xs[b]) / 6)
    return list(accumulate((a + gap + b for (a, b), gap in zip(pairwise(tall), gaps, strict=True)), initial=0.0))


def along(route: Route, steps: int = 40) -> NDArray[np.float64]:
    """Points along a route, both ends included."""
    t = np.linspace(0, 1, steps + 1)[:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
    return np.concatenate([weights @ np.array(route[start : start + 4]) for start in range(0, len(route) - 1, 3)])


def _route(start: Place, bends: Sequence[Point], end: Place) -> Route:
    """A line between two borders, or a curve that is upright at its bends."""
    first, last = (bends[0], bends[-1]) if bends else ((end.x, end.y), (start.x, start.y))
    stops = [start.border(first), *bends, end.border(last)]
    route = stops[:1]
    for number, ((x, y), (to_x, to_y)) in enumerate(pairwise(stops)):
        dx, dy = (to_x - x) / 3, (to_y - y) / 3
        leave = (x, y + 1.5 * dy) if number > 0 else (x + dx, y + dy)
        arrive = (to_x, to_y - 1.5 * dy) if number < len(bends) else (to_x - dx, to_y - dy)
        route += [leave, arrive, (to_x, to_y)]
    return tuple(route)


def _grid(boxes: Sequence[Box], edges: Sequence[Edge], half_widths: Mapping[str, float]) -> tuple[dict[str, int], _Xs]:
    """The row of each node, and the x of each stop.

    A diagram unrolled over positions (A1, A2, …, W1, W2, …) has a row for the family of all A, one for all W, and so
    on, and repeats the layout of one position.  Edges to later positions may run sideways or upwards: it is only as
    deep as one position.  Any other diagram is one position, each node a family of its own.
    """
    family = _families([box.name for box in boxes], edges)
    pairs = list(dict.fromkeys((family[a], family[b]) for a, b in sorted(edges, key=_is_later)))
    below = _acyclic(family.values(), pairs)
    levels = _family_rows(below, pairs, {family[box.name] for box in boxes if box.kind == "reward"})
    folded = _sugiyama(levels, [(parent, child) for parent in below for child in below[parent]])
    for bend in [bend for a, b in pairs if b not in below[a] for bend in _path((a, b), levels)[1:-1]]:
        folded[bend] = 1 + max(x for stop, x in folded.items() if stop.row == bend.row)  # later positions are right
    repeated = [stop for stop in folded if _repeats(stop.parent) or _repeats(stop.child)]
    spans = [[folded[stop] for stop in repeated if stop.row == row] or [0.0] for row in levels.values()]
    stride = 1 + max(max(span) - min(span) for span in spans)
    rows, position, xs = {name: levels[group] for name, group in family.items()}, _positions(family, edges), {}
    for stop in _stops(rows, edges):
        a, b = family[stop.parent], family[stop.child]
        xs[stop] = folded[_Stop(a, b, stop.row)] + stride * position[stop.parent if _repeats(a) else stop.child]
    return rows, _apart(xs, half_widths)


def _families(names: Iterable[str], edges: Iterable[Edge]) -> dict[str, str]:
    """The family of each node: the stem of its numbered name and a star, or its name and a dot."""
    split = {name: split_number(name) for name in names}
    inside = [(split[a], split[b]) for a, b in edges if split[a][0] == split[b][0]]
    # Side by side, an edge that skips a number would run through the nodes between.
    loose = {stem for (stem, first), (_, second) in inside if second != first + 1}
    numbered = {name: part for name, part in split.items() if part[1] >= 0 and part[0] not in loose}
    stems = [stem for stem, _ in numbered.values()]
    positions = {number for stem, number in numbered.values() if stems.count(stem) > 1}
    starred = {name for name, (_, number) in numbered.items() if number in positions}
    return {name: f"{stem}*" if name in starred else f"{name}." for name, (stem, _) in split.items()}


def _repeats(family: str) -> bool:
    return family.endswith("*")


def _is_later(edge: Edge) -> bool:
    return 0 <= split_number(edge[0])[1] < split_number(edge[1])[1]


def _acyclic(groups: Iterable[str], pairs: Iterable[Edge]) -> dict[str, list[str]]:
    """The children of each family, without the pairs that would close a cycle."""
    below: dict[str, list[str]] = {group: [] for group in groups}
    for parent, child in pairs:
        reached = [child]
        for group in reached:
            reached += [other for other in below[group] if other not in reached]
        if parent not in reached:
            below[parent].append(child)
    return below


def _family_rows(below: Mapping[str, Sequence[str]], pairs: Sequence[Edge], rewards: set[str]) -> dict[str, int]:
    """The row of each family: under its parents, or if it has none right above its first child; rewards last.

    Families of several nodes take rows of their own: a narrower picture, where edges may run along a row.
    """
    above = {group: [parent for parent in below if group in below[parent]] for group in below}
    depth: dict[str, int] = {}
    for group in TopologicalSorter(above).static_order():
        depth[group] = 1 + max((depth[parent] for parent in above[group]), default=-1)
    depth |= {a: min(depth[b] for b in below[a]) - 1 for a in below if below[a] and not above[a]}
    near = {group: [depth[b] for pair in pairs for a, b in (pair, pair[::-1]) if a == group != b] for group in below}
    order = sorted(below, key=lambda group: fmean(near[group] or [0]))

    def level(group: str) -> tuple[int, float, int]:
        if group in rewards and not below[group]:
            return len(below), 0, 0
        if not _repeats(group):
            return depth[group], 0, 0
        if above[group] or not below[group]:
            return depth[group], 1 + order.index(group), 0
        first = min(map(level, below[group]))
        return first[0], first[1] - 0.5, order.index(group)

    levels = sorted({level(group) for group in below})
    return {group: levels.index(level(group)) for group in below}


def _path(edge: Edge, rows: Mapping[str, int]) -> list[_Stop]:
    """The stops of an edge from parent to child: both nodes, and a bend in each row between."""
    (a, b), first, last = edge, rows[edge[0]], rows[edge[1]]
    step = 1 if first < last else -1
    return [_Stop(a, a, first), *(_Stop(a, b, row) for row in range(first + step, last, step)), _Stop(b, b, last)]


def _stops(rows: Mapping[str, int], edges: Iterable[Edge]) -> list[_Stop]:
    """All nodes, then all bends."""
    nodes = [_Stop(name, name, row) for name, row in rows.items()]
    return nodes + [stop for edge in edges for stop in _path(edge, rows)[1:-1]]


def _sugiyama(rows: Mapping[str, int], edges: Sequence[Edge]) -> _Xs:
    """The x of each stop in igraph's layered layout."""
    import igraph

    # Bends are vertices here, since igraph's own report of them differs by version.
    index = {stop: number for number, stop in enumerate(_stops(rows, edges))}
    steps = [(index[a], index[b]) for edge in edges for a, b in pairwise(_path(edge, rows))]
    steps += [step for step in steps if max(step) >= len(rows)]  # twice as heavy: long edges become straight
    graph = igraph.Graph(n=len(index), edges=steps, directed=True)
    found = graph.layout_sugiyama(layers=[stop.row for stop in index], maxiter=1000)
    return {stop: float(found[number][0]) for stop, number in index.items()}


def _positions(family: Mapping[str, str], edges: Sequence[Edge]) -> dict[str, float]:
    """The position of each node, counted from zero; a node of no position lies amid its neighbours."""
    numbers = {name: split_number(name)[1] for name in family if _repeats(family[name])}
    ranks = sorted(set(numbers.values()))
    near = {name: [ranks.index(numbers[name])] if name in numbers else [] for name in family}
    for a, b in [*edges, *(edge[::-1] for edge in edges)]:
        near[a] += [ranks.index(numbers[b])] if b in numbers and a not in numbers else []
    return {name: fmean(near[name] or range(len(ranks)) or [0]) for name in family}


def _apart(xs: Mapping[_Stop, float], half_widths: Mapping[str, float]) -> _Xs:
    """The same x in points, stretched until no neighbours in a row overlap."""
    units: _Xs = {}
    for row in {stop.row for stop in xs}:
        stops = sorted((stop for stop in xs if stop.row == row), key=xs.__getitem__)
        moved = list(accumulate((xs[stop] for stop in stops), lambda left, x: max(x, left + 1)))
        shift = fmean(xs[stop] for stop in stops) - fmean(moved)
        units |= {stop: x + shift for stop, x in zip(stops, moved, strict=True)}
    half = {stop: half_widths[stop.parent] if stop.parent == stop.child else 3.0 for stop in units}
    pairs = [(a, b) for a, b in pairwise(units) if a.row == b.row]  # rows are together, from left to right
    scale = max([(half[a] + _GAP + half[b]) / (units[b] - units[a]) for a, b in pairs], default=1.0)
    return {stop: x * scale for stop, x in units.items()}


def stacked(texts: Sequence[Text]) -> list[tuple[Text, float]]:
    """Each line with the y of its middle, counted from the middle of them all."""
    ends = list(accumulate((LEADING * text.size for text in texts), initial=0.0))
    return [(text, (a + b - ends[-1]) / 2) for text, (a, b) in zip(texts, pairwise(ends), strict=True)]


def wrapped(text: str, width: int = 18) -> list[str]:
    """Printable text as lines, broken after spaces and punctuation where it has any."""
    lines = [""]
    for piece in re.findall(rf"[^ _./-]{{1,{width}}}[ _./-]?|[ _./-]", printable(text)):
        if len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines if line.strip()]


def label(name: str) -> str:
    """A name as drawn: a number after letters becomes a subscript."""
    found = re.fullmatch(r"([^\W\d_]+)([0-9]+)", name)
    return found[1] + found[2].translate(_SUBSCRIPTS) if found else printable(name)


def printable(text: str) -> str:
    """Text without the characters that an SVG or Mermaid file may not hold."""
    return "".join(c if c.isprintable() else " " for c in text)


def split_number(name: str) -> tuple[str, int]:
    """The stem of a name and its final number, -1 without one."""
    found = re.fullmatch(r"(.*[^0-9])([0-9]{1,9})", name, re.DOTALL)
    return (found[1], int(found[2])) if found else (name, -1)
