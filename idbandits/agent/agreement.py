"""What several structures must share: decisions, contexts and observed nodes with their values, and constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram, Node
from idbandits.errors import ODD, DiagramError, brief
from idbandits.kernel.array_types import Ints

MOST = 100  # structures
SHARED: tuple[Literal["decision", "context", "observed"], ...] = ("decision", "context", "observed")


def named_structures(structures: Any) -> dict[str, Diagram]:
    """Diagrams by name, which agree on all that is decided and seen: given by name, or as a list of named ones."""
    by_name = _by_name(structures)
    if not 1 <= len(by_name) <= MOST:
        raise DiagramError(f"structures: from 1 to {MOST} diagrams are needed, not {len(by_name)}")
    for name, d in by_name.items():
        for node in d.of_kind("context"):
            if node.features is not None:
                reason = f"context {node.name!r} has features, and structures are not weighed by such rounds"
                raise DiagramError(f"structures: {name!r} cannot be among several: {reason}")
    (first, model), *others = by_name.items()
    for other, d in others:
        _check_alike(first, model, other, d)
    return by_name


def _by_name(structures: Any) -> dict[str, Diagram]:
    try:
        pairs = list(structures.items() if isinstance(structures, Mapping) else enumerate(structures))
    except ODD:
        raise DiagramError(f"structures: {brief(structures)} cannot be read") from None
    by_name: dict[str, Diagram] = {}
    for place, d in pairs:
        if not isinstance(d, Diagram):
            raise DiagramError(f"structures: {brief(place)} is a Diagram, not {brief(d)}")
        name = place if isinstance(structures, Mapping) else d.name
        if not isinstance(name, str):
            raise DiagramError(f"structures are named by strings, not {brief(name)}")
        if name in by_name:
            raise DiagramError(f"structures: two have the name {name!r}; pass a mapping of other names to diagrams")
        by_name[name] = d.copy()
    return by_name


def _check_alike(first: str, a: Diagram, second: str, b: Diagram) -> None:
    who = f"structures {first!r} and {second!r} differ"
    for kind in SHARED:
        left, right = ({n.name: n for n in d.of_kind(kind)} for d in (a, b))
        for name in [*left, *right]:
            if name not in left or name not in right:
                alone = first if name in left else second
                raise DiagramError(f"{who}: {name!r} is a node of kind {kind!r} in {alone!r} only")
            if left[name].states != right[name].states or None in places_in(left[name], right[name]):
                values = f"{left[name].allowed()} in {first!r}, {right[name].allowed()} in {second!r}"
                raise DiagramError(f"{who}: the values of {kind} {name!r} are {values}")
    left_pairs, right_pairs = (
        {pair: frozenset(own) for group, own in d.constraints for pair in combinations(sorted(group), 2)}
        for d in (a, b)
    )
    for pair in sorted({*left_pairs, *right_pairs}):
        names = " and ".join(map(repr, pair))
        if pair not in left_pairs or pair not in right_pairs:
            where = first if pair in left_pairs else second
            raise DiagramError(f"{who}: {names} must be different in {where!r} only")
        if odd := left_pairs[pair] ^ right_pairs[pair]:
            label = min(odd, key=str)
            where = first if label in left_pairs[pair] else second
            raise DiagramError(f"{who}: {names} may both be {label!r} in {where!r} only")


def places_in(source: Node, target: Node) -> Any:
    """For each value of a node, its place among those of another."""
    return [target.index(value) for value in source.values]


@final
class Order:
    """How a structure numbers the nodes and values of a round, where the first structure is the measure."""

    def __init__(self, first: Model, own: Model) -> None:
        sources = {n.name: (i, n) for i, n in enumerate(_nodes(first))}
        self.width = len(own.decisions) + len(own.contexts)
        self.columns = [sources[n.name][0] for n in _nodes(own)]
        self.tables = [
            np.array([*places_in(sources[n.name][1], n), -1], dtype=np.int64)  # -1, not seen, remains so
            for n in _nodes(own)
        ]
        plain = all(table.tolist() == [*range(len(table) - 1), -1] for table in self.tables)
        self.same = plain and self.columns == [*range(len(self.columns))]

    def of_round(self, vector: Ints, seen: Ints) -> tuple[Ints, Ints]:
        """A round in this structure's numbers."""
        if self.same:
            return vector, seen
        row = self.of_rounds(np.concatenate([vector, seen])[None])[0]
        return row[: self.width], row[self.width :]

    def of_rounds(self, rounds: Ints) -> Ints:
        """Rounds in this structure's numbers, one per row: an action, then what was seen."""
        if self.same:
            return rounds
        columns = [table[rounds[:, c]] for table, c in zip(self.tables, self.columns, strict=True)]
        return np.stack(columns, axis=1) if columns else rounds


def _nodes(model: Model) -> list[Node]:
    return [*model.decisions, *model.contexts, *model.observed]


def rewarded(models: Sequence[Model]) -> tuple[list[int], list[int], list[list[int]], list[int]]:
    """The observed nodes that rewards depend on, or all if they depend on none; and how rich each structure is.

    The nodes' numbers in the first structure, their numbers of states, for each structure where these states are among
    those of all its observed nodes, and how many numbers it learns.
    """
    read = {name for model in models for term in model.diagram.rewards for name in term.parents}
    observed = models[0].observed
    nodes = [n for n in observed if n.name in read] or list(observed)
    richness = [sum(t.size - t.size // t.states for t in model.learned.values()) for model in models]
    numbers, states = [observed.index(n) for n in nodes], [n.states for n in nodes]
    return numbers, states, [_columns(model, nodes) for model in models], richness


def _columns(model: Model, nodes: Sequence[Node]) -> list[int]:
    first, places = 0, {}
    for node in model.observed:
        places[node.name] = first, node
        first += node.states
    columns = []
    for node in nodes:
        start, own = places[node.name]
        columns += [start + place for place in places_in(node, own) if place is not None]
    return columns
