"""Tables of a diagram: learned ones, which nodes may share, and known ones (a number, an array or a function)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias, final

import numpy as np

from idbandits.errors import DiagramError, PriorError, TableError, brief, is_integer
from idbandits.kernel.types import Bools, Floats, Ints

Label: TypeAlias = str | int | float | bool

TOLERANCE = 1e-8  # how far from 1 the probabilities of a row may sum
MOST_ENTRIES = 50_000_000  # in one table


@final
@dataclass(frozen=True, eq=False)
class Learned:
    """A table that is learned, shared by all nodes it is passed to.

    `prior` holds pseudo-counts: a number, or anything that broadcasts to the table's rows with the states on
    the last axis (so `[3, 1]` expects a two-state node to be 1 in a quarter of the rounds). With `rows`, nodes
    pick rows themselves: `table[k]`, or `table.select(f)` for the row `f(*parent_values)`.

    >>> examination = Learned("examination", rows=3)
    >>> examination[2].row
    2
    """

    name: str
    prior: Any = 1.0
    rows: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise DiagramError(f"the name of a learned table must be a non-empty string, not {self.name!r}")
        if self.rows is not None and (not is_integer(self.rows) or self.rows < 1):
            raise DiagramError(f"learned table {self.name!r}: rows must be a positive whole number, not {self.rows!r}")
        prior = _numbers(self.prior)
        if prior is None:
            raise PriorError(f"learned table {self.name!r}: the prior must consist of numbers, not {brief(self.prior)}")
        valid = np.isfinite(prior) & (prior > 0)
        if not valid.all():
            raise PriorError(
                f"learned table {self.name!r}: prior pseudo-counts must be positive and finite, not {prior[~valid][0]}"
            )
        prior.setflags(write=False)
        object.__setattr__(self, "prior", prior)  # its own copy

    def __getitem__(self, row: int) -> RowOf:
        rows = self._rows_to_pick_from()
        if not is_integer(row) or not 0 <= row < rows:
            raise DiagramError(f"learned table {self.name!r} has rows 0 to {rows - 1}, not {row!r}")
        return RowOf(self, int(row))

    def __iter__(self) -> Any:
        """All rows in turn."""
        return iter([self[k] for k in range(self._rows_to_pick_from())])

    def select(self, chooser: Callable[..., int]) -> Selected:
        """The table read at row `chooser(*parent_values)`."""
        self._rows_to_pick_from()
        if not callable(chooser):
            raise DiagramError(f"learned table {self.name!r}: select takes a function, not {chooser!r}")
        return Selected(self, chooser)

    def _rows_to_pick_from(self) -> int:
        if self.rows is None:
            raise DiagramError(f"learned table {self.name!r} must be declared with rows=… before rows can be picked")
        return int(self.rows)


@final
@dataclass(frozen=True, eq=False)
class RowOf:
    """One row of a learned table."""

    learned: Learned
    row: int


@final
@dataclass(frozen=True, eq=False)
class Selected:
    """A learned table whose row is a function of the parents' values."""

    learned: Learned
    chooser: Callable[..., int]


@final
@dataclass(frozen=True, eq=False)
class Known:
    """A known table: one axis per parent, states on the last axis."""

    table: Floats


@final
@dataclass(frozen=True, eq=False)
class Use:
    """How a node reads a learned table: always row `rows`, or row `rows[parent values]`.

    Where `rows` is None, the table has one row per combination of the parents' values.
    """

    name: str
    rows: Ints | int | None = None


@final
@dataclass(frozen=True, eq=False)
class LearnedTable:
    """A learned table in a diagram: the shape of its rows, the states of each, and the prior pseudo-counts."""

    declared: Learned
    shape: tuple[int, ...]
    states: int
    prior: Floats  # of shape (*shape, states)

    @property
    def name(self) -> str:
        """The name it was declared with."""
        return self.declared.name

    @property
    def size(self) -> int:
        """The number of its entries: rows times states."""
        return math.prod(self.shape) * self.states

    @cached_property
    def means_shape(self) -> tuple[int, ...]:
        """The shape of its means, which hold only P(1) for two states."""
        return self.shape if self.states == 2 else (*self.shape, self.states)


class Axis(Protocol):
    """What a table needs to know of a parent; a `Node` has it."""

    @property
    def name(self) -> str:
        """The name of the parent."""

    @property
    def values(self) -> Sequence[Label]:
        """The values it can take, in the order of the table's entries."""


def learned_table(node: str, learned: Learned, shape: tuple[int, ...], states: int) -> LearnedTable:
    """The table that `node` declares by its first use of `learned`."""
    full = (*shape, states)
    _check_size(f"node {node!r}", full)
    try:
        prior = np.broadcast_to(learned.prior, full)
    except ValueError:
        raise PriorError(
            f"learned table {learned.name!r}: a prior of shape {learned.prior.shape} does not broadcast to {full} "
            "(states on the last axis)"
        ) from None
    return LearnedTable(learned, shape, states, prior)


def selected_rows(node: str, selected: Selected, parents: Sequence[Axis]) -> Ints:
    """The row for every combination of the parents' values."""
    rows = selected.learned.rows
    assert rows is not None
    shape = _shape(parents)
    _check_size(f"node {node!r}", shape)
    picked = np.empty(math.prod(shape), dtype=np.int64)
    for i, values in enumerate(itertools.product(*(p.values for p in parents))):
        row = _call(f"node {node!r}", selected.chooser, parents, values)
        if not is_integer(row) or not 0 <= row < rows:
            raise TableError(
                f"node {node!r}: select picks row {row!r} of learned table {selected.learned.name!r}"
                f"{_where(parents, values)}; its rows are 0 to {rows - 1}"
            )
        picked[i] = row
    picked.setflags(write=False)
    return picked.reshape(shape)


def known_table(node: str, cpd: Any, parents: Sequence[Axis], states: int) -> Known:
    """A number, an array or a function of the parents' values as a checked probability table."""
    shape = _shape(parents)
    _check_size(f"node {node!r}", (*shape, states))
    row_shape = () if states == 2 else (states,)  # of two states, only P(1) is declared
    if callable(cpd):
        entries = _tabulate(f"node {node!r}", cpd, parents, row_shape)
    else:
        entries = _entries(node, cpd, parents, row_shape)
    table = np.stack([1.0 - entries, entries], axis=-1) if states == 2 else np.array(entries)
    _check_probabilities(node, table, parents)
    table.setflags(write=False)
    return Known(table)


def reward_table(parents: Sequence[Axis], function: Callable[..., float] | None) -> Floats:
    """The reward for every combination of the parents' values; without a function, the value of the only parent."""
    reward = "the reward of " + ", ".join(repr(p.name) for p in parents)
    if function is None:
        if len(parents) != 1:
            raise DiagramError(f"{reward} needs a function of their values")
        if not all(isinstance(v, (int, float)) for v in parents[0].values):
            raise DiagramError(f"{reward} needs a function: not all of its labels are numbers")
        function = float
    elif not callable(function):
        raise DiagramError(f"{reward} needs a function of the values, not {function!r}")
    _check_size(reward, _shape(parents))
    table = _tabulate(reward, function, parents, ())
    infinite = ~np.isfinite(table)
    if infinite.any():
        raise DiagramError(f"{reward} is {table[infinite][0]}{_first(infinite, parents)}; rewards must be finite")
    table.setflags(write=False)
    return table


def _shape(parents: Sequence[Axis]) -> tuple[int, ...]:
    return tuple(len(p.values) for p in parents)


def _check_size(owner: str, shape: tuple[int, ...]) -> None:
    if math.prod(shape) > MOST_ENTRIES:
        raise TableError(f"{owner}: a table of shape {shape} has more than {MOST_ENTRIES:,} entries")


def _entries(node: str, cpd: Any, parents: Sequence[Axis], row_shape: tuple[int, ...]) -> Floats:
    """A number or an array as the entries of a table."""
    entries, shape = _numbers(cpd), (*_shape(parents), *row_shape)
    if entries is None:
        raise TableError(f"node {node!r}: its table must consist of numbers, not {brief(cpd)}")
    if entries.ndim == 0 and not row_shape:
        return np.broadcast_to(entries, shape)
    if entries.shape != shape:
        meaning = "states on the last axis" if row_shape else f"P({node} = 1) per combination of values"
        names = "parents " + ", ".join(repr(p.name) for p in parents) if parents else "no parents"
        raise TableError(
            f"node {node!r}: its table has shape {entries.shape}; with {names} it must be {shape} ({meaning})"
        )
    return entries


def _tabulate(owner: str, function: Callable[..., Any], parents: Sequence[Axis], row_shape: tuple[int, ...]) -> Floats:
    """A function of the parents' values as the entries of a table."""
    shape = _shape(parents)
    rows = np.empty((math.prod(shape), *row_shape))
    for i, values in enumerate(itertools.product(*(p.values for p in parents))):
        result = _call(owner, function, parents, values)
        row = _numbers(result)
        if row is None or row.shape != row_shape:
            wanted = f"{row_shape[0]} probabilities, one per state" if row_shape else "one number"
            raise TableError(f"{owner}: its function returns {brief(result)}{_where(parents, values)}, not {wanted}")
        rows[i] = row
    return rows.reshape(*shape, *row_shape)


def _call(owner: str, function: Callable[..., Any], parents: Sequence[Axis], values: Sequence[Label]) -> Any:
    try:
        return function(*values)
    except Exception as error:
        error.add_note(f"in the function of {owner}{_where(parents, values)}")
        raise


def _numbers(value: Any) -> Floats | None:
    """A new array of floats; None if the value does not consist of numbers (NumPy would parse strings)."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O" and not any(x is None or isinstance(x, (str, bytes)) for x in array.flat):
            return array.astype(np.float64)  # fractions, decimals
        return array.astype(np.float64) if array.dtype.kind in "biuf" else None
    except (TypeError, ValueError):
        return None


def _check_probabilities(node: str, table: Floats, parents: Sequence[Axis]) -> None:
    outside = ~np.asarray(((table >= 0) & (table <= 1)).all(axis=-1))
    if outside.any():
        row = table[outside][0]
        shown = f"P({node} = 1) is {row[1]}" if len(row) == 2 else f"the probabilities are {row.tolist()}"
        raise TableError(f"node {node!r}: {shown}{_first(outside, parents)}; probabilities lie in [0, 1]")
    unequal = np.asarray(np.abs(table.sum(axis=-1) - 1) > TOLERANCE)
    if unequal.any():
        row = table[unequal][0]
        where = _first(unequal, parents)
        raise TableError(f"node {node!r}: the probabilities {row.tolist()}{where} sum to {row.sum()}, not 1")


def _first(marked: Bools, parents: Sequence[Axis]) -> str:
    """The first marked place of a table, for messages."""
    index = np.unravel_index(int(np.flatnonzero(marked)[0]), marked.shape) if parents else ()
    return _where(parents, [p.values[int(i)] for p, i in zip(parents, index, strict=True)])


def _where(parents: Sequence[Axis], values: Sequence[Label]) -> str:
    """A place in a table, for messages; empty if there are no parents."""
    if not parents:
        return ""
    return " where " + ", ".join(f"{p.name} = {v!r}" for p, v in zip(parents, values, strict=True))
