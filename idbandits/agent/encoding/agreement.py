"""Agreement of several structures: decisions, contexts and observed nodes with their values, and constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram, Node
from idbandits.errors import DiagramError, IdbanditsError, brief
from idbandits.kernel.array_types import Ints

MOST = 100  # structures
SHARED: tuple[Literal["decision", "context", "observed"], ...] = ("decision", "context", "observed")
GONE = -2  # in place of a value that a model does not have


def named_structures(structures: Any) -> dict[str, Diagram]:
    """Return copies of diagrams by name, from a mapping or a sequence; raise unless they agree on all that is seen."""
    if not isinstance(structures, (Mapping, list, tuple)):
        raise DiagramError(f"structures must be diagrams in a list or by name, got {brief(structures)}")
    by_name: dict[str, Diagram] = {}
    for key, d in structures.items() if isinstance(structures, Mapping) else enumerate(structures):
        if not isinstance(d, Diagram):
            raise DiagramError(f"structures: {brief(key)} must be a Diagram, got {brief(d)}")
        name = key if isinstance(structures, Mapping) else d.name
        if not isinstance(name, str):
            raise DiagramError(f"structures must be named by strings, got {brief(name)}")
        if name in by_name:
            raise DiagramError(f"structures: two have the name {name!r}; pass a mapping of other names to diagrams")
        for node in d.of_kind("context"):
            if node.features is not None:
                reason = f"context {node.name!r} has features, and structures are not weighed by such rounds"
                raise DiagramError(f"structures: {name!r} cannot be among several: {reason}")
        by_name[name] = d.copy()
    if not 1 <= len(by_name) <= MOST:
        raise DiagramError(f"structures must be 1 to {MOST} diagrams, got {len(by_name)}")
    (first, model), *others = by_name.items()
    for other, d in others:
        _check_alike(first, model, other, d)
    return by_name


def named_alike(d: Any, names: Sequence[str]) -> dict[str, Diagram]:
    """Return structures by name; raise unless they have these names, in this order."""
    diagrams = named_structures(d)
    if list(diagrams) != list(names):
        wanted = ", ".join(map(repr, names))
        raise IdbanditsError(f"d must have the structures {wanted}, in this order; got {', '.join(diagrams)}")
    return diagrams


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
    """Return for each value of a node its place among those of another node, None if it is not there."""
    return [target.index(value) for value in source.values]


def nodes_of_round(model: Model) -> list[Node]:
    """Return the nodes whose numbers make up a round: decisions, contexts, observed nodes."""
    return [*model.decisions, *model.contexts, *model.observed]


@final
class Translation:
    """Rounds of one model in the numbers of another, by names and labels.

    A round of which the other model lacks a choice, a value of a context or an observed state is left out; so is any
    round if a decision or context of the other model is new.
    """

    def __init__(self, old: Model, new: Model) -> None:
        sources = {node.name: (i, node) for i, node in enumerate(nodes_of_round(old))}
        self.width = len(new.decisions) + len(new.contexts)
        self._columns: list[tuple[int, Ints]] = []  # of a node of the new model: a column, and what its numbers become
        for node in nodes_of_round(new):
            if node.name in sources:
                column, source = sources[node.name]
                places = [GONE if place is None else place for place in places_in(source, node)]
                self._columns.append((column, np.array([*places, -1], np.int64)))  # -1, not seen, remains so
            else:
                self._columns.append((-1, np.array([-1 if node.kind == "observed" else GONE], np.int64)))
        identical = all(
            k == c and np.array_equal(t[:-1], np.arange(len(t) - 1)) for k, (c, t) in enumerate(self._columns)
        )
        self.same = identical and len(self._columns) == len(sources)  # rounds have the same numbers in both models

    def of_round(self, action: Ints, seen: Ints) -> tuple[Ints, Ints]:
        """Translate a round that the other model can have."""
        if self.same:
            return action, seen
        row = self.of_rounds(np.concatenate([action, seen])[None])[0]
        return row[: self.width], row[self.width :]

    def of_rounds(self, rounds: Ints) -> Ints:
        """Return the rounds that the other model can have, one per row."""
        if self.same:
            return rounds
        nothing = np.zeros(len(rounds), np.int64)
        columns = [table[rounds[:, column] if column >= 0 else nothing] for column, table in self._columns]
        rows = np.stack(columns, axis=1) if columns else np.empty((len(rounds), 0), np.int64)
        return np.asarray(rows[(rows != GONE).all(axis=1)])


def rewarded(models: Sequence[Model]) -> tuple[list[int], list[int], list[list[int]], list[int]]:
    """Return the observed nodes that rewards depend on, or all if rewards depend on none; and how rich structures are.

    These are the nodes' numbers in the first structure, their numbers of states, for each structure the places of these
    states among those of all its observed nodes, and for each structure how many numbers it learns.
    """
    read = {name for model in models for term in model.diagram.rewards for name in term.parents}
    observed = models[0].observed
    nodes = [n for n in observed if n.name in read] or list(observed)
    places = []
    for model in models:
        starts = np.cumsum([0, *(node.states for node in model.observed)]).tolist()
        first = {node.name: start for node, start in zip(model.observed, starts, strict=False)}
        places.append([first[n.name] + place for n in nodes for place in places_in(n, model.nodes[n.name])])
    richness = [sum(t.size - t.size // t.states for t in model.learned.values()) for model in models]
    return [observed.index(n) for n in nodes], [n.states for n in nodes], places, richness
