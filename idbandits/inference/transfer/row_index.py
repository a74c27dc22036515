"""Entries of a state: those of the learned tables of a diagram, those of retired rows, and known values.

An agent that moved to another diagram still has rounds of the old one, about rows that the new one lacks. These rows
are *retired*: no action reads them, but they are learned as before. In a state, the entries of the diagram's tables
come first, in the order of its model, then those of retired rows; all larger numbers stand for known values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, count
from typing import NamedTuple, TypeAlias, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.features.design import Line
from idbandits.diagram.labels import row_labels
from idbandits.diagram.tables import Label, LearnedTable
from idbandits.kernel.array_types import Bools, Floats, Ints

RowName: TypeAlias = tuple[str, int, tuple[Label, ...]]  # a learned table, its number of states, the labels of a row


@final
class RetiredRow(NamedTuple):
    """A row of an earlier diagram that the diagram lacks."""

    table: str
    labels: tuple[Label, ...]
    prior: Floats
    line: Line | None = None  # its features, if it had any

    @property
    def name(self) -> RowName:
        """Name of the row."""
        return self.table, len(self.prior), self.labels


class Row(NamedTuple):
    """A row of a learned table: its first entry, and its prior pseudo-counts."""

    first: int
    prior: Floats


@final
class Entries:
    """All entries of a state. `constants` are known values that only earlier rounds depend on.

    `absent` are logistic tables of earlier diagrams that the model lacks: all their rows are retired.
    """

    def __init__(
        self, model: Model, retired: Sequence[RetiredRow] = (), constants: Sequence[float] = (),
        absent: Sequence[LearnedTable] = (),
    ) -> None:  # fmt: skip
        self.model, self.retired, self.constants = model, tuple(retired), tuple(constants)
        self.absent, tables = tuple(absent), list(model.learned.values())
        self.live = model.parameters.learned_size
        self.prior: Floats = np.concatenate(
            [np.empty(0), *(t.prior.ravel() for t in tables), *(row.prior for row in retired)]
        )
        self.known: Floats = np.concatenate([model.parameters.known, np.array(constants, np.float64)])
        self.learned = len(self.prior)
        self.table_firsts: list[int] = [0, *accumulate(t.size for t in tables)][:-1]  # the first entries of tables
        kinds = [*((t.name, t.states) for t in tables), *((row.table, len(row.prior)) for row in retired)]
        lengths = [*(t.size // t.states for t in tables), *(1 for _ in retired)]  # rows of each of these
        widths = np.repeat(np.array([states for _, states in kinds], np.int64), lengths)
        self.firsts: Ints = np.concatenate([[0], np.cumsum(widths)])  # of the rows; last, the end
        self.size: Ints = np.repeat(widths, widths)  # of an entry: the number of entries of its row
        self.row: Ints = np.repeat(self.firsts[:-1], widths)  # of an entry: the first entry of its row
        numbers: dict[tuple[str, int], int] = {}
        table = np.repeat(np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64), lengths)
        self.table: Ints = np.repeat(table, widths)  # of an entry: the number of its table
        is_fixed = np.zeros(len(widths), np.bool_)
        for t, first in zip(tables, accumulate(lengths, initial=0), strict=False):
            is_fixed[[first + row for row in t.fixed]] = True
        # of a table: the first entries of its rows that are not fixed
        self.rows_by_table = [self.firsts[:-1][(table == t) & ~is_fixed] for t in range(len(numbers))]

    def retired_of(self, table: str, states: int, axes: int | None = None) -> Iterator[tuple[int, Line]]:
        """Yield the first entries of the retired rows of a table, and their features (missing ones if none).

        With `axes`, only rows with this number of labels.
        """
        firsts = self.firsts[len(self.firsts) - 1 - len(self.retired) :].tolist()
        for first, row in zip(firsts, self.retired, strict=False):
            if row.table == table and len(row.prior) == states and axes in (None, len(row.labels)):
                yield first, row.line or []

    def _line(self, name: RowName, first: int) -> Line | None:
        """Return the features of a row."""
        if first >= self.live:
            number = int(np.searchsorted(self.firsts, first)) - len(self.firsts) + 1  # from the end
            return self.retired[number].line
        features = self.model.learned[name[0]].features
        number = (first - self.table_firsts[list(self.model.learned).index(name[0])]) // name[1]
        return None if features is None else features.line(number)

    @cached_property
    def logistic(self) -> dict[str, LearnedTable]:
        """Logistic tables by name: those of the model, then absent ones."""
        own = [table for table in self.model.learned.values() if table.logistic is not None]
        return {table.name: table for table in (*own, *self.absent)}

    @cached_property
    def rows(self) -> dict[RowName, Row]:
        """All rows by name."""
        names = [*names_of(self.model), *(row.name for row in self.retired)]
        firsts = self.firsts[:-1].tolist()
        return {name: Row(at, self.prior[at : at + name[1]]) for name, at in zip(names, firsts, strict=True)}

    def with_retired(self, order: Ints) -> Ints:
        """Extend an order of the entries of the diagram, in which rows change places, to all entries.

        Retired rows change places like rows of their table whose labels differ in the same way.
        """
        full = np.concatenate([order, np.arange(self.live, self.learned)])
        if not self.retired:
            return full
        names = dict(zip(self.firsts.tolist(), self.rows, strict=False))
        swaps: dict[tuple[str, int, int, Label], Label] = {}  # a table, its states, an axis and a label: another one
        for first in self.firsts[self.firsts < self.live].tolist():
            table, states, labels = names[first]
            others = names[int(self.row[order[first]])][2]
            swaps |= {
                (table, states, axis, a): b for axis, (a, b) in enumerate(zip(labels, others, strict=True)) if a != b
            }
        for name, row in self.rows.items():
            table, states, labels = name
            image = tuple(swaps.get((table, states, axis, label), label) for axis, label in enumerate(labels))
            other = self.rows.get((table, states, image))
            if row.first >= self.live and other is not None and other.first >= self.live:
                full[row.first : row.first + states] = range(other.first, other.first + states)
        return full

    @cached_property
    def values(self) -> list[tuple[float, int]]:
        """Known values, each with the number of equal values before it."""
        counters: defaultdict[float, count[int]] = defaultdict(count)
        return [(value, next(counters[value])) for value in self.known.tolist()]

    def including(self, others: Entries, wanted: Bools) -> Entries:
        """Return these entries with other ones that are wanted and lacking: as retired rows and constants."""
        retired = [
            RetiredRow(name[0], name[2], row.prior, others._line(name, row.first))
            for name, row in others.rows.items()
            if name not in self.rows and wanted[row.first : row.first + name[1]].any()
        ]
        used = zip(others.values, wanted[others.learned :].tolist(), strict=True)
        known, constants = Counter(value for value, _ in self.values), list[float]()
        for (value, number), is_used in used:
            lacking = number + 1 - known[value] if is_used else 0  # all equal values before it are needed, too
            constants += [value] * lacking
            known[value] += max(0, lacking)
        if not retired and not constants:
            return self
        return Entries(self.model, [*self.retired, *retired], [*self.constants, *constants], self.absent)

    def places_of_entries(self, others: Entries) -> Ints:
        """Return the places of other entries among these, by names, labels and known values; -1 if there is none."""
        if others is self:
            return np.arange(self.learned + len(self.known))
        places = np.full(others.learned + len(others.known), -1, np.int64)
        rows, lacking = self.rows, Row(-1, others.prior[:0])
        firsts = np.array([rows.get(name, lacking).first for name in others.rows], np.int64)
        own = firsts[np.searchsorted(others.firsts, others.row)] if len(firsts) else firsts
        places[: others.learned] = np.where(own < 0, -1, own + np.arange(others.learned) - others.row)
        by_value = {value: self.learned + i for i, value in enumerate(self.values)}
        places[others.learned :] = [by_value.get(value, -1) for value in others.values]
        return places


def absent_tables(model: Model, earlier: Sequence[Diagram]) -> list[LearnedTable]:
    """Return the logistic tables of earlier diagrams, the latest first, that a model lacks."""
    absent: dict[str, LearnedTable] = {}
    for d in earlier:
        for name, table in d.learned.items():
            if table.logistic is not None and name not in model.learned:
                absent.setdefault(name, table)
    return list(absent.values())


def names_of(model: Model) -> Iterator[RowName]:
    """Yield the names of the rows of all learned tables, in the order of the parameters."""
    for table in model.learned.values():
        labels = row_labels(model, table.name).labels
        for index in np.ndindex(table.shape):
            yield table.name, table.states, tuple(axis[i] for axis, i in zip(labels, index, strict=True))
