"""A diagram with fewer choices, in which what can be learned is the same: items are alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias, final

import numpy as np

from idbandits.circuit.build import rows_of_use
from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import Known, Learned, Use
from idbandits.kernel.array_types import Floats, Ints

MANY_DIRECTIONS = 60  # in which means can move: beyond that, choices are left out
MOST_DIRECTIONS = 500  # beyond that, with few choices, nothing is examined
MOST_CHOICES = 1000  # of a decision, or values of a context: more are never kept
SPARE = 4  # choices that a decision keeps at least, beside one for every decision that it must differ from
MOST_PATTERN = 2_000_000  # entries of a known table that are compared to find out which choices are alike

Kept: TypeAlias = Mapping[str, Ints]  # decisions and contexts: the places of the values that are kept
Row: TypeAlias = tuple[int, ...]


@final
class Reduced:
    """A model, or that of its diagram with fewer choices and contexts, and which learned rows of it are which.

    Of every decision and context a few values are kept, more of those whose known zeros and ones differ, and all where
    there are few. It stands for the whole where the values left out are like others. `model` is None where even
    then the means can move in too many directions.
    """

    def __init__(self, model: Model) -> None:
        d = model.diagram
        self.whole = model
        sizes = {node.name: node.states for node in (*model.decisions, *model.contexts)}
        most = min(max(sizes.values(), default=0), MOST_CHOICES)
        while True:
            if most < max(sizes.values(), default=0):
                kept = _few(model, most)
            else:
                kept = {name: np.arange(size) for name, size in sizes.items()}
            rows = {table: _rows_read(d, table, kept) for table in d.learned}
            self.directions = sum(len(read) * (d.learned[table].states - 1) for table, read in rows.items())
            least = max([SPARE + int(n) for n in model.feasibility.conflicts.sum(axis=1)], default=0)
            if self.directions <= MANY_DIRECTIONS or most <= least:
                break
            most = max(least, min(most // 2, math.ceil(most * MANY_DIRECTIONS / self.directions)))
        self.is_whole = all(len(kept[name]) == size for name, size in sizes.items())
        self._rows = {t: np.arange(math.prod(d.learned[t].shape)) for t in d.learned} if self.is_whole else rows
        self.model: Model | None = None
        if self.directions <= MOST_DIRECTIONS:
            self.model = model if self.is_whole else compile(_restricted(d, kept, rows))

    def row(self, table: str, number: int) -> Row:
        """Where row `number` of a table is in the whole diagram."""
        return tuple(
            int(i) for i in np.unravel_index(self._rows[table][number], self.whole.learned[table].shape or (1,))
        )


def _few(model: Model, most: int) -> dict[str, Ints]:
    """Up to so many values of each decision and context, the same labels everywhere, of all patterns."""
    d = model.diagram
    kept: dict[str, Ints] = {}
    conflicts, places = model.feasibility.conflicts, {n.name: k for k, n in enumerate(model.decisions)}
    for node in (*model.decisions, *model.contexts):
        number = min(most, node.states)
        chosen: dict[int, None] = dict.fromkeys(range(number))
        for place in _first_of_patterns(d, node)[: 2 * SPARE]:
            chosen.setdefault(place)
        kept[node.name] = np.array(sorted(chosen))
    for name, k in places.items():
        kept[name] = np.union1d(kept[name], model.feasibility.repeatable[k]).astype(np.int64)
    for name, k in places.items():  # labels that rivals keep are kept too, where both have them
        for other in np.flatnonzero(conflicts[k]).tolist():
            rival = model.decisions[other]
            if not isinstance(rival.values, range) or not isinstance(d.nodes[name].values, range):
                same = [d.nodes[name].index(rival.values[int(i)]) for i in kept[rival.name][:most]]
                kept[name] = np.union1d(kept[name], [i for i in same if i is not None]).astype(np.int64)
    return kept


def _first_of_patterns(d: Diagram, node: Node) -> list[int]:
    """One value for every pattern of zeros, ones and what is learned, in the tables that read it."""
    found: dict[int, None] = {}
    for parents, table in [
        *((n.parents, n.cpd.table) for n in d.nodes.values() if isinstance(n.cpd, Known)),
        *((n.parents, _fixed_entries(d, n)) for n in d.nodes.values() if _reads_fixed_rows(d, n)),
        *((term.parents, term.table) for term in d.rewards),
    ]:
        if node.name in parents and table.size <= MOST_PATTERN:
            values = np.moveaxis(table, parents.index(node.name), 0).reshape(node.states, -1)
            pattern = np.select([values == 0, values == 1, np.isnan(values)], [0, 1, 2], 3).astype(np.uint8)
            found |= dict.fromkeys(np.unique(pattern, axis=0, return_index=True)[1].tolist())
    return list(found)


def _reads_fixed_rows(d: Diagram, node: Node) -> bool:
    return isinstance(node.cpd, Use) and bool(d.learned[node.cpd.name].fixed)


def _fixed_entries(d: Diagram, node: Node) -> Floats:
    """The table that a node reads: NaN where it is learned."""
    assert isinstance(node.cpd, Use)
    table = d.learned[node.cpd.name]
    return table.with_fixed(np.full(table.size, np.nan)).reshape(-1, table.states)[rows_of_use(d, node)]


def _kept_rows(d: Diagram, node: Node, kept: Kept) -> Ints:
    """The same for the kept values only, without a table of all combinations."""
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


def _rows_read(d: Diagram, table: str, kept: Kept) -> Ints:
    readers = [n for n in d.nodes.values() if isinstance(n.cpd, Use) and n.cpd.name == table]
    return np.unique(np.concatenate([_kept_rows(d, n, kept).ravel() for n in readers]))


def _restricted(d: Diagram, kept: Kept, rows: Mapping[str, Ints]) -> Diagram:
    """The diagram with these values only: its learned tables have the rows that are still read, one after the other."""
    small = Diagram(d.name)
    tables = {
        name: Learned(name, _prior_rows(d, name, rows[name]), len(rows[name]), _fixed_rows(d, name, rows[name]))
        for name in d.learned
    }
    for node in d.nodes.values():
        if node.cpd is None:
            values = [node.values[int(i)] for i in kept[node.name]]
            (small.decision if node.kind == "decision" else small.context)(node.name, values)
            continue
        cpd: Any
        if isinstance(node.cpd, Known):
            table = _sliced(d, node.parents, node.cpd.table, kept)
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
        small.reward(term.parents, _sliced(d, term.parents, term.table, kept))
    for group, excepted in d.constraints:
        small.all_different(*group, except_=excepted)
    return small


def _prior_rows(d: Diagram, table: str, rows: Ints) -> Floats:
    learned = d.learned[table]
    return learned.prior[np.unravel_index(rows, learned.shape)] if learned.shape else learned.prior[np.newaxis]


def _fixed_rows(d: Diagram, table: str, rows: Ints) -> dict[int, Floats]:
    fixed = d.learned[table].fixed
    return {i: fixed[row] for i, row in enumerate(rows.tolist()) if row in fixed}


def _sliced(d: Diagram, parents: tuple[str, ...], table: Floats, kept: Kept) -> Floats:
    for axis, name in enumerate(parents):
        if name in kept:
            table = table.take(kept[name], axis=axis)
    return table
