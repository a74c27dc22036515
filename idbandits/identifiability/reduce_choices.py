"""Reduction of a diagram to few choices, in which the same can be learned, because items are alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from idbandits.circuit.build import rows_of_use
from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import Known, Learned, Use
from idbandits.kernel.array_types import Floats, Ints

MANY_DIRECTIONS = 60  # directions in which means can move: with more, choices are left out
MOST_DIRECTIONS = 500  # with more, even with few choices, nothing is examined
MOST_CHOICES = 1000  # choices of a decision, or values of a context, that are kept at most
SPARE = 4  # choices that a decision keeps at least, besides one for every decision that it must differ from
MOST_PATTERN = 2_000_000  # entries of a known table that are compared to find choices that are alike

Kept: TypeAlias = Mapping[str, Ints]  # by decision or context: the places of the values that are kept


@final
class Reduced:
    """Model of a diagram with fewer choices and contexts, or the full model if these are few.

    Of every decision and context a few values are kept, of every pattern of known zeros and ones. `model` is None if
    the means can move in too many directions nevertheless.
    """

    def __init__(self, full: Model) -> None:
        d, self.full = full.diagram, full
        sizes = {node.name: node.states for node in (*full.decisions, *full.contexts)}
        largest = max(sizes.values(), default=0)
        least = max([SPARE + int(n) for n in full.feasibility.conflicts.sum(axis=1)], default=0)
        most = min(largest, MOST_CHOICES)
        while True:
            kept = _few(full, most) if most < largest else {name: np.arange(size) for name, size in sizes.items()}
            read = {t: [_kept_rows(d, node, kept).ravel() for node, _ in full.readers(t)] for t in d.learned}
            rows = {table: np.unique(np.concatenate(parts)) for table, parts in read.items()}
            self.directions = sum(len(own) * (d.learned[table].states - 1) for table, own in rows.items())
            if self.directions <= MANY_DIRECTIONS or most <= least:
                break
            most = max(least, min(most // 2, math.ceil(most * MANY_DIRECTIONS / self.directions)))
        self.is_full = all(len(kept[name]) == size for name, size in sizes.items())
        self._rows = {t: np.arange(math.prod(d.learned[t].shape)) for t in d.learned} if self.is_full else rows
        self.model: Model | None = None
        if self.directions <= MOST_DIRECTIONS:
            self.model = full if self.is_full else compile(_restricted(d, kept, rows))

    def row(self, table: str, number: int) -> tuple[int, ...]:
        """Return the index in the full diagram of a row of a table."""
        shape = self.full.learned[table].shape or (1,)
        return tuple(int(i) for i in np.unravel_index(self._rows[table][number], shape))


def _few(model: Model, most: int) -> dict[str, Ints]:
    """Return up to `most` values of each decision and context and one of each pattern, the same labels everywhere."""
    d, decisions, feasibility = model.diagram, model.decisions, model.feasibility
    kept = {
        node.name: np.union1d(np.arange(min(most, node.states)), _first_of_patterns(d, node)[: 2 * SPARE])
        for node in (*decisions, *model.contexts)
    }
    for k, node in enumerate(decisions):
        kept[node.name] = np.union1d(kept[node.name], feasibility.repeatable[k])
    for k, node in enumerate(decisions):  # labels that rivals keep are kept too, if both have them
        for rival in (decisions[other] for other in np.flatnonzero(feasibility.conflicts[k]).tolist()):
            if not isinstance(rival.values, range) or not isinstance(node.values, range):
                same = [node.index(rival.values[int(i)]) for i in kept[rival.name][:most]]
                kept[node.name] = np.union1d(kept[node.name], [i for i in same if i is not None])
    return {name: values.astype(np.int64) for name, values in kept.items()}


def _first_of_patterns(d: Diagram, node: Node) -> list[int]:
    """Return one value for every pattern of zeros, ones and learned entries in the tables that read a node."""
    first: dict[int, None] = {}
    fixed = (n for n in d.nodes.values() if isinstance(n.cpd, Use) and d.learned[n.cpd.name].fixed)
    for parents, table in [
        *((n.parents, n.cpd.table) for n in d.nodes.values() if isinstance(n.cpd, Known)),
        *((n.parents, _fixed_entries(d, n)) for n in fixed),
        *((term.parents, term.table) for term in d.rewards),
    ]:
        if node.name in parents and table.size <= MOST_PATTERN:
            values = np.moveaxis(table, parents.index(node.name), 0).reshape(node.states, -1)
            pattern = np.select([values == 0, values == 1, np.isnan(values)], [0, 1, 2], 3).astype(np.uint8)
            first |= dict.fromkeys(np.unique(pattern, axis=0, return_index=True)[1].tolist())
    return list(first)


def _fixed_entries(d: Diagram, node: Node) -> Floats:
    """Return the table that a node reads, NaN where it is learned."""
    assert isinstance(node.cpd, Use)
    table = d.learned[node.cpd.name]
    return table.with_fixed(np.full(table.size, np.nan)).reshape(-1, table.states)[rows_of_use(d, node)]


def _kept_rows(d: Diagram, node: Node, kept: Kept) -> Ints:
    """Return the rows that a node reads for the kept values, as `rows_of_use` does for all."""
    assert isinstance(node.cpd, Use)
    places = [kept.get(p, np.arange(d.nodes[p].states)) for p in node.parents]
    shape = tuple(len(own) for own in places)
    if isinstance(node.cpd.rows, int):
        return np.full(shape, node.cpd.rows)
    if node.cpd.rows is not None:
        return node.cpd.rows[np.ix_(*places)]
    if not places:
        return np.zeros((), dtype=np.int64)
    sizes = [d.nodes[p].states for p in node.parents]
    return np.ravel_multi_index(np.ix_(*places), sizes).astype(np.int64)


def _restricted(d: Diagram, kept: Kept, rows: Mapping[str, Ints]) -> Diagram:
    """Return the diagram with the kept values; its learned tables have the rows that are still read, in one list."""
    small = Diagram(d.name)
    tables = {}
    for name, learned in d.learned.items():
        prior = learned.prior.reshape(-1, learned.states)[rows[name]]
        fixed = {i: learned.fixed[row] for i, row in enumerate(rows[name].tolist()) if row in learned.fixed}
        tables[name] = Learned(name, prior, len(prior), fixed)
    for node in d.nodes.values():
        if node.cpd is None:
            values = [node.values[int(i)] for i in kept[node.name]]
            (small.decision if node.kind == "decision" else small.context)(node.name, values)
            continue
        cpd: Any
        if isinstance(node.cpd, Known):
            table = take_values(node.cpd.table, node.parents, kept)
            cpd = table[..., 1] if node.states == 2 else table
        else:
            read = np.searchsorted(rows[node.cpd.name], _kept_rows(d, node, kept))
            parents = [small.nodes[p] for p in node.parents]
            cpd = tables[node.cpd.name].select(
                lambda *values, read=read, parents=parents: int(
                    read[tuple(p.index(v) for p, v in zip(parents, values, strict=True))]
                )
            )
        add = small.latent if node.kind == "latent" else small.observed
        add(node.name, node.parents, cpd, states=node.values if not isinstance(node.values, range) else node.states)
    for term in d.rewards:
        small.reward(term.parents, take_values(term.table, term.parents, kept))
    for group, excepted in d.constraints:
        small.all_different(*group, except_=excepted)
    return small


def take_values(table: Any, parents: Sequence[str], places: Kept) -> Any:
    """Return a table over parents with some values of each: those at these places, in this order."""
    for axis, name in enumerate(parents):
        if name in places:
            table = table.take(places[name], axis=axis)
    return table
