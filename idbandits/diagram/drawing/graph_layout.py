"""Layout of a picture: places of boxes and edges, in points (1/72 inch); y grows downwards."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import accumulate, pairwise
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idbandits.diagram.drawing.boxes import LOOKS, Box, split_number

Edge = tuple[str, str]
Point = tuple[float, float]
Route = tuple[Point, ...]  # cubic Bézier curves joined end to end: 3 n + 1 control points
_GAP, _ROW_GAP = 12.0, 30.0  # between neighbours in a row, and between rows, at least
_CROWD = 8  # nodes without parents in a row: more are wrapped into several rows


class Stop(NamedTuple):
    """Place in a row: of a node, which is both parent and child, or of a bend of an edge between two nodes."""

    parent: str
    child: str
    row: int


Xs = dict[Stop, float]


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a box: its centre, half its width and height, and the norm whose unit ball is its shape."""

    x: float
    y: float
    half_width: float
    half_height: float
    norm: float

    def distance(self, points: ArrayLike) -> NDArray[np.float64]:
        """Return the distances of points from the centre: below 1 inside the shape, 1 on its border."""
        offsets = (np.asarray(points) - (self.x, self.y)) / (self.half_width, self.half_height)
        return np.asarray(np.linalg.norm(offsets, self.norm, axis=-1))

    def border(self, towards: Point) -> Point:
        """Return the point of the border in the direction of another point."""
        share = 1 / float(self.distance(towards))
        return self.x + share * (towards[0] - self.x), self.y + share * (towards[1] - self.y)


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of all boxes and edges."""

    places: dict[str, Place]
    routes: dict[Edge, Route]

    def corners(self) -> tuple[float, float, float, float]:
        """Return the least x and y, and the greatest x and y, of all boxes and edges."""
        ends = [(p.x + s * p.half_width, p.y + s * p.half_height) for p in self.places.values() for s in (-1, 1)]
        x, y = zip(*(ends or [(0.0, 0.0)]), *(point for route in self.routes.values() for point in route), strict=True)
        return min(x), min(y), max(x), max(y)

    def is_clear(self, edge: Edge) -> bool:
        """Return True if an edge keeps clear of all boxes but its own two."""
        points, others = along(self.routes[edge]), [self.places[name] for name in self.places if name not in edge]
        return all((place.distance(points) > 1.1).all() for place in others)


def arrange(boxes: Sequence[Box], edges: Sequence[Edge]) -> Layout:
    """Lay out boxes and edges, which are straight where they keep clear of boxes, else bend between rows."""
    if not boxes:
        return Layout({}, {})
    sizes = {box.name: box.size() for box in boxes}
    rewards = [box.name for box in boxes if box.kind == "reward"]
    rows, xs = grid({name: half_width for name, (half_width, _) in sizes.items()}, edges, rewards)
    paths = {edge: path(edge, rows) for edge in edges}
    half_heights = [max(sizes[name][1] for name in rows if rows[name] == row) for row in range(1 + max(rows.values()))]
    ys = _row_ys(half_heights, paths.values(), xs)
    centres = {name: (xs[Stop(name, name, row)], ys[row]) for name, row in rows.items()}
    norms = {box.name: LOOKS[box.kind].norm for box in boxes}
    layout = Layout({name: Place(*centres[name], *sizes[name], norm) for name, norm in norms.items()}, {})
    for (a, b), stops in paths.items():
        sides = (-1, 1) if rows[a] < rows[b] else (1, -1)
        bends = [(xs[stop], ys[stop.row] + side * (half_heights[stop.row] + 4)) for stop in stops for side in sides]
        layout.routes[a, b] = _route(layout.places[a], bends[2:-2], layout.places[b])
        if rows[a] != rows[b] and not layout.is_clear((a, b)):
            layout.routes[a, b] = _route(layout.places[a], bends[1:-1], layout.places[b])
    return layout


def _row_ys(half_heights: Sequence[float], paths: Iterable[Sequence[Stop]], xs: Xs) -> list[float]:
    """Return the y of each row: the farther an edge moves sideways between two rows, the wider the gap."""
    gaps = [_ROW_GAP] * (len(half_heights) - 1)
    for a, b in (step for stops in paths for step in pairwise(stops) if step[0].row != step[1].row):
        gap = min(a.row, b.row)
        gaps[gap] = max(gaps[gap], abs(xs[a] - xs[b]) / 6)
    steps = (above + gap + below for (above, below), gap in zip(pairwise(half_heights), gaps, strict=True))
    return list(accumulate(steps, initial=0.0))


def along(route: Route, steps: int = 40) -> NDArray[np.float64]:
    """Return points along a route, both ends included."""
    t = np.linspace(0, 1, steps + 1)[:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
    return np.concatenate([weights @ np.array(route[start : start + 4]) for start in range(0, len(route) - 1, 3)])


def _route(start: Place, bends: Sequence[Point], end: Place) -> Route:
    """Return a straight line between two borders, or a curve that is vertical at its bends."""
    first, last = (bends[0], bends[-1]) if bends else ((end.x, end.y), (start.x, start.y))
    stops = [start.border(first), *bends, end.border(last)]
    route = stops[:1]
    for number, ((x, y), (to_x, to_y)) in enumerate(pairwise(stops)):
        dx, dy = (to_x - x) / 3, (to_y - y) / 3
        leave = (x, y + 1.5 * dy) if number > 0 else (x + dx, y + dy)
        arrive = (to_x, to_y - 1.5 * dy) if number < len(bends) else (to_x - dx, to_y - dy)
        route += [leave, arrive, (to_x, to_y)]
    return tuple(route)


def grid(half_widths: Mapping[str, float], edges: Sequence[Edge], rewards: Iterable[str]) -> tuple[dict[str, int], Xs]:
    """Return the row of each node, and the x of each stop.

    A diagram unrolled over positions (A1, A2, …, W1, W2, …) has one row for the family of all A, one for all W, and so
    on, and repeats the layout of one position. In any other diagram, each node is its own family.
    """
    family = _families(half_widths, edges)
    numbers = {name: number for name, (_, number) in _split(family).items()}
    later_last = sorted(edges, key=lambda edge: 0 <= numbers[edge[0]] < numbers[edge[1]])  # those to later positions
    family_edges = list(dict.fromkeys((family[a], family[b]) for a, b in later_last))
    children = _acyclic(family.values(), family_edges)
    family_rows, packed = _family_rows(children, family_edges, {family[name] for name in rewards})
    family_xs = _sugiyama(family_rows, [(parent, child) for parent in children for child in children[parent]])
    for a, b in family_edges:
        if b not in children[a]:  # leads to a later position, on the right
            for bend in path((a, b), family_rows)[1:-1]:
                family_xs[bend] = 1 + max(x for stop, x in family_xs.items() if stop.row == bend.row)
    repeated = [stop for stop in family_xs if _repeats(stop.parent) or _repeats(stop.child)]
    spans = [[family_xs[stop] for stop in repeated if stop.row == row] or [0.0] for row in family_rows.values()]
    stride = 1 + max(max(span) - min(span) for span in spans)
    rows, position = {name: family_rows[family[name]] for name in family}, _positions(family, edges)
    xs = {}
    for stop in _stops(rows, edges):
        a, b = family[stop.parent], family[stop.child]
        xs[stop] = family_xs[Stop(a, b, stop.row)] + stride * position[stop.parent if _repeats(a) else stop.child]
    return rows, _spread(xs, half_widths, packed)


def path(edge: Edge, rows: Mapping[str, int]) -> list[Stop]:
    """Return the stops of an edge from parent to child: both nodes, and a bend in each row between them."""
    (a, b), first, last = edge, rows[edge[0]], rows[edge[1]]
    step = 1 if first < last else -1
    return [Stop(a, a, first), *(Stop(a, b, row) for row in range(first + step, last, step)), Stop(b, b, last)]


def _split(names: Collection[str]) -> dict[str, tuple[str, int]]:
    """Return the stem and number of each name: "B1 by 3" belongs to position 1, like the node B1, if it exists."""
    split: dict[str, tuple[str, int]] = {}
    for name in sorted(names, key=len):  # those that others begin with come first
        spaces = [place for place, letter in enumerate(name) if letter == " " and name[:place] in split]
        stem, number = split[name[: spaces[-1]]] if spaces else ("", -1)
        split[name] = (f"{stem}*{name[spaces[-1] :]}", number) if number >= 0 else split_number(name)
    return {name: split[name] for name in names}


def _families(names: Collection[str], edges: Sequence[Edge]) -> dict[str, str]:
    """Return the family of each node: the stem of its numbered name and a star, or its name and a dot."""
    split = _split(names)
    inner_edges = [(split[a], split[b]) for a, b in edges if split[a][0] == split[b][0]]
    # Nodes of such a stem cannot stand side by side: an edge that skips a number would run through those between.
    skipping = {stem for (stem, first), (_, second) in inner_edges if second != first + 1}
    numbered = {name: part for name, part in split.items() if part[1] >= 0 and part[0] not in skipping}
    stems = [stem for stem, _ in numbered.values()]
    positions = {number for stem, number in numbered.values() if stems.count(stem) > 1}
    starred = {name for name, (_, number) in numbered.items() if number in positions}
    alone = len({split[name][0] for name in starred}) == 1 and not {child for _, child in edges} & starred
    if alone and len(starred) > _CROWD:  # many nodes without parents, and nothing else that is repeated beside them
        starred = set()
    return {name: f"{stem}*" if name in starred else f"{name}." for name, (stem, _) in split.items()}


def _repeats(family: str) -> bool:
    """Return True for a family with a node in each of several positions."""
    return family.endswith("*")


def _acyclic(families: Iterable[str], edges: Iterable[Edge]) -> dict[str, list[str]]:
    """Return the children of each family, without the edges that would close a cycle."""
    children: dict[str, list[str]] = {family: [] for family in families}
    for parent, child in edges:
        reached = [child]
        for family in reached:  # grows on the way
            reached += [other for other in children[family] if other not in reached]
        if parent not in reached:
            children[parent].append(child)
    return children


def _family_rows(
    children: Mapping[str, Sequence[str]], edges: Sequence[Edge], rewards: set[str]
) -> tuple[dict[str, int], set[int]]:
    """Return the row of each family: below its parents, or above its first child if it has none; rewards last.

    Also return the rows of families without parents that are too many for one row.
    """
    parents = {family: [parent for parent in children if family in children[parent]] for family in children}
    depth: dict[str, int] = {}
    for family in TopologicalSorter(parents).static_order():
        depth[family] = 1 + max((depth[parent] for parent in parents[family]), default=-1)
    depth |= {a: min(depth[b] for b in children[a]) - 1 for a in children if children[a] and not parents[a]}
    wrapped = _wrapped([a for a in children if not (parents[a] or _repeats(a) or a in rewards)], depth, children)
    both_ways = [edge for a, b in edges for edge in ((a, b), (b, a))]
    near = {family: [depth[b] for a, b in both_ways if a == family != b] for family in children}
    order = sorted(children, key=lambda family: fmean(near[family] or [0]))

    def level(family: str) -> tuple[int, float, int]:
        if family in rewards and not children[family]:
            return len(children), 0, 0
        if not _repeats(family):
            return depth[family], -wrapped.get(family, 0), 0
        if parents[family] or not children[family]:  # families of several nodes have rows of their own
            return depth[family], 1 + order.index(family), 0
        first = min(map(level, children[family]))
        return first[0], first[1] - 0.5, order.index(family)

    levels = sorted({level(family) for family in children})
    rows = {family: levels.index(level(family)) for family in children}
    return rows, {rows[family] for family in wrapped}


def _wrapped(
    families: Sequence[str], depth: Mapping[str, int], children: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """Return by how many rows crowded families without parents move up; those without edges to the top."""
    moved: dict[str, int] = {}
    for level in {depth[family] for family in families}:
        row = sorted((a for a in families if depth[a] == level), key=lambda family: not children[family])
        if len(row) > _CROWD:
            length = max(_CROWD // 2, math.isqrt(2 * len(row)))  # so that the picture is not too wide nor too high
            moved |= {family: place // length for place, family in enumerate(row)}
    return moved


def _stops(rows: Mapping[str, int], edges: Iterable[Edge]) -> list[Stop]:
    """Return all nodes, then all bends."""
    nodes = [Stop(name, name, row) for name, row in rows.items()]
    return nodes + [stop for edge in edges for stop in path(edge, rows)[1:-1]]


def _sugiyama(rows: Mapping[str, int], edges: Sequence[Edge]) -> Xs:
    """Return the x of each stop in igraph's layered layout."""
    import igraph

    # Bends are vertices here, because igraph reports bends differently by version.
    vertices = {stop: number for number, stop in enumerate(_stops(rows, edges))}
    steps = [(vertices[a], vertices[b]) for edge in edges for a, b in pairwise(path(edge, rows))]
    steps += [step for step in steps if max(step) >= len(rows)]  # twice as heavy: long edges become straight
    graph = igraph.Graph(n=len(vertices), edges=steps, directed=True)
    coordinates = graph.layout_sugiyama(layers=[stop.row for stop in vertices], maxiter=1000)
    return {stop: float(coordinates[number][0]) for stop, number in vertices.items()}


def _positions(family: Mapping[str, str], edges: Sequence[Edge]) -> dict[str, float]:
    """Return the position of each node, counted from zero; a node without one lies amid its neighbours."""
    numbers = {name: number for name, (_, number) in _split(family).items() if _repeats(family[name])}
    ranks = sorted(set(numbers.values()))
    near = {name: [ranks.index(numbers[name])] if name in numbers else [] for name in family}
    for a, b in [*edges, *(edge[::-1] for edge in edges)]:
        near[a] += [ranks.index(numbers[b])] if b in numbers and a not in numbers else []
    return {name: fmean(near[name] or range(len(ranks)) or [0]) for name in family}


def _spread(xs: Mapping[Stop, float], half_widths: Mapping[str, float], packed: set[int]) -> Xs:
    """Return each x in points, so that no neighbours in a row overlap; packed rows are as narrow as possible."""
    units: Xs = {}
    for row in {stop.row for stop in xs}:
        stops = sorted((stop for stop in xs if stop.row == row), key=xs.__getitem__)
        moved = list(accumulate((xs[stop] for stop in stops), lambda left, x: max(x, left + 1)))
        shift = fmean(xs[stop] for stop in stops) - fmean(moved)
        units |= {stop: x + shift for stop, x in zip(stops, moved, strict=True)}
    half = {stop: half_widths[stop.parent] if stop.parent == stop.child else 3.0 for stop in units}
    neighbours = [(a, b) for a, b in pairwise(units) if a.row == b.row]  # units are row by row, from left to right
    distance = {(a, b): half[a] + _GAP + half[b] for a, b in neighbours}
    scale = max([distance[a, b] / (units[b] - units[a]) for a, b in neighbours if a.row not in packed], default=1.0)
    points = {stop: x * scale for stop, x in units.items()}
    middle = fmean([x for stop, x in points.items() if stop.row not in packed] or [0.0])
    for row in packed:
        stops = [stop for stop in units if stop.row == row]
        places = list(accumulate((distance[step] for step in pairwise(stops)), initial=0.0))
        points |= {stop: middle + place - places[-1] / 2 for stop, place in zip(stops, places, strict=True)}
    return points
