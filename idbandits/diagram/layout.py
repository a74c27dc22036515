"""Where the boxes and edges of a picture lie: plain data, before anything is drawn.

Lengths are points (1/72 inch), y grows downwards.  matplotlib and igraph are imported where they are used, because
importing them takes long.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idbandits.diagram.grid import Edge, Stop, Xs, grid, path
from idbandits.diagram.text import LEADING, NAME, Text, label, stacked, wrapped

Point = tuple[float, float]
Route = tuple[Point, ...]  # cubic Bézier curves joined end to end: 3 n + 1 control points

# The shape of a kind is the unit ball of a norm: a diamond (1), an ellipse (2) or a rectangle (inf).
NORMS = {"decision": inf, "context": inf, "latent": 2, "observed": 2, "reward": 1}
_HEIGHTS = {1: 1.8, 2: 1.25, inf: 1.1}  # the height of a shape relative to that of its text
_ROW_GAP = 30.0  # between rows, at least


@dataclass(frozen=True, slots=True)
class Box:
    """One node of a picture; `table` names its learned table and `rows` the rows it picks, both empty without."""

    name: str
    kind: str
    table: str = ""
    states: str = ""
    rows: str = ""

    @property
    def caption(self) -> str:
        """Its learned table and the rows it picks."""
        return self.table + self.rows

    def lines(self) -> list[tuple[Text, float]]:
        """Its text line by line, each with its y, counted from the centre."""
        small = [Text(t) for t in wrapped(self.states)] + [Text(t, slant="italic") for t in wrapped(self.caption)]
        return stacked([Text(line, NAME) for line in wrapped(label(self.name))] + small)

    def size(self) -> Point:
        """Half its width and half its height: it just holds its text."""
        lines, norm = self.lines(), NORMS[self.kind]
        height = _HEIGHTS[norm] * LEADING * sum(text.size for text, _ in lines) / 2 + 4
        width = 21.0
        for text, y in lines:
            share = (abs(y) + 0.4 * text.size) / height
            room = 1.0 if norm == inf else (1 - share**norm) ** (1 / norm)
            width = max(width, (text.width() / 2 + 4) / room)
        return width, height


@dataclass(frozen=True, slots=True)
class Place:
    """Where a box lies: its centre, half its width and height, and the norm whose unit ball is its shape."""

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
        """The least x and y, and the greatest x and y, of all boxes and edges."""
        ends = [(p.x + s * p.half_width, p.y + s * p.half_height) for p in self.places.values() for s in (-1, 1)]
        x, y = zip(*(ends or [(0.0, 0.0)]), *(point for route in self.routes.values() for point in route), strict=True)
        return min(x), min(y), max(x), max(y)

    def is_clear(self, edge: Edge) -> bool:
        """Whether an edge keeps clear of all boxes but its own two."""
        points, others = along(self.routes[edge]), [self.places[name] for name in self.places if name not in edge]
        return all((place.distance(points) > 1.1).all() for place in others)


def arrange(boxes: Sequence[Box], edges: Sequence[Edge]) -> Layout:
    """Where everything lies: straight edges where these keep clear of boxes, else curves that bend between rows."""
    if not boxes:
        return Layout({}, {})
    sizes = {box.name: box.size() for box in boxes}
    half_widths = {name: half_width for name, (half_width, _) in sizes.items()}
    rows, xs = grid(half_widths, edges, [box.name for box in boxes if box.kind == "reward"])
    paths = {edge: path(edge, rows) for edge in edges}
    half_heights = [max(sizes[name][1] for name in rows if rows[name] == row) for row in range(1 + max(rows.values()))]
    ys = _row_ys(half_heights, paths.values(), xs)
    centres = {name: (xs[Stop(name, name, row)], ys[row]) for name, row in rows.items()}
    layout = Layout({box.name: Place(*centres[box.name], *sizes[box.name], NORMS[box.kind]) for box in boxes}, {})
    for (a, b), stops in paths.items():
        sides = (-1, 1) if rows[a] < rows[b] else (1, -1)
        bends = [(xs[stop], ys[stop.row] + side * (half_heights[stop.row] + 4)) for stop in stops for side in sides]
        layout.routes[a, b] = _route(layout.places[a], bends[2:-2], layout.places[b])
        if rows[a] != rows[b] and not layout.is_clear((a, b)):
            layout.routes[a, b] = _route(layout.places[a], bends[1:-1], layout.places[b])
    return layout


def _row_ys(half_heights: Sequence[float], paths: Iterable[Sequence[Stop]], xs: Xs) -> list[float]:
    """The y of each row: the farther an edge moves sideways between two rows, the wider the gap."""
    gaps = [_ROW_GAP for _ in half_heights[1:]]
    for a, b in (step for stops in paths for step in pairwise(stops) if step[0].row != step[1].row):
        gap = min(a.row, b.row)
        gaps[gap] = max(gaps[gap], abs(xs[a] - xs[b]) / 6)
    steps = (above + gap + below for (above, below), gap in zip(pairwise(half_heights), gaps, strict=True))
    return list(accumulate(steps, initial=0.0))


def along(route: Route, steps: int = 40) -> NDArray[np.float64]:
    """Points along a route, both ends included."""
    t = np.linspace(0, 1, steps + 1)[:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
    return np.concatenate([weights @ np.array(route[start : start + 4]) for start in range(0, len(route) - 1, 3)])


def _route(start: Place, bends: Sequence[Point], end: Place) -> Route:
    """A straight line between two borders, or a curve that is vertical at its bends."""
    first, last = (bends[0], bends[-1]) if bends else ((end.x, end.y), (start.x, start.y))
    stops = [start.border(first), *bends, end.border(last)]
    route = stops[:1]
    for number, ((x, y), (to_x, to_y)) in enumerate(pairwise(stops)):
        dx, dy = (to_x - x) / 3, (to_y - y) / 3
        leave = (x, y + 1.5 * dy) if number > 0 else (x + dx, y + dy)
        arrive = (to_x, to_y - 1.5 * dy) if number < len(bends) else (to_x - dx, to_y - dy)
        route += [leave, arrive, (to_x, to_y)]
    return tuple(route)
