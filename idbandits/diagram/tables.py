"""Tables of a diagram: learned ones that nodes share, and known ones given as a number, an array or a function."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, final

import numpy as np

from idbandits.errors import DiagramError, PriorError, TableError, brief, is_integer
from idbandits.kernel.types import Bools, Floats, Ints

Label: TypeAlias = str | int | float | bool

TOLERANCE = 1e-8  # by how much the probabilities of a row may miss 1
MOST_ENTRIES = 50_000_000  # of one table


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
            raise DiagramError(f"a learned table is named by a non-empty string, not {self.name!r}")
        if self.rows is not None and (not is_integer(self.rows) or self.rows < 1):
            raise DiagramError(f"learned table {self.name!r}: rows is a positive whole number, not {self.rows!r}")
        prior = _numbers(self.prior)
        if prior is None:
            raise PriorError(f"learned table {self.name!r}: the prior is not made of numbers: {brief(self.prior)}")
        if not (np.isfinite(prior) & (prior > 0)).all():
            worst = prior[~(np.isfinite(prior) & (prior > 0))].flat[0]
            raise PriorError(
                f"learned table {self.name!r}: pseudo-counts of a prior are positive and finite; given {worst}"
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
            raise DiagramError(f"learned table {self.name!r} hands out rows only if declared with rows=…")
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
    """A known table: shape of the parents, states on the last axis."""

    table: Floats


@final
@dataclass(frozen=True, eq=False)
class Use:
    """How a node reads a learned table: always one row, row `rows[parent values]`, or (None) one row a combination."""

    name: str
    rows: Ints | int | None = None


@final
@dataclass(frozen=True, eq=False)
class LearnedTable:
    """A learned table in a diagram: the shape of its rows, the states of each, and the prior pseudo-counts."""

    name: str
    shape: tuple[int, ...]
    states: int
    prior: Floats

    @property
    def size(self) -> int:
        """Entries, states counted."""
        return math.prod(self.shape) * self.states

    @cached_property
    def means_shape(self) -> tuple[int, ...]:
        """Shape of its means: two-state tables hold P(1) only."""
        return self.shape if self.states == 2 else (*self.shape, self.states)


@dataclass(frozen=True)
class Axis:
    """A parent as its children's tables see it."""

    name: str
    values: Sequence[Label]


def learned_table(node: str, learned: Learned, shape: tuple[int, ...], states: int) -> LearnedTable:
    """The table that `node` declares by its first use of `learned`."""
    if math.prod(shape) * states > MOST_ENTRIES:
        raise TableError(f"node {node!r}: a learned table of shape {(*shape, states)} is larger than {MOST_ENTRIES:,}")
    full = (*shape, states)
    try:
        prior = np.broadcast_to(learned.prior, full)
    except ValueError:
        raise PriorError(
            f"learned table {learned.name!r}: the prior does not broadcast to shape {full} "
            f"(states on the last axis); given one of shape {learned.prior.shape}"
        ) from None
    return LearnedTable(learned.name, shape, states, prior)


def chosen_rows(node: str, selected: Selected, parents: Sequence[Axis]) -> Ints:
    """The row for every combination of the parents' values."""
    rows = selected.learned.rows
    assert rows is not None
    shape = tuple(len(p.values) for p in parents)
    _check_size(f"node {node!r}", shape)
    picked = np.empty(math.prod(shape), dtype=np.int64)
    for i, values in enumerate(itertools.product(*(p.values for p in parents))):
        row = _call(f"node {node!r}", selected.chooser, parents, values)
        if not is_integer(row) or not 0 <= row < rows:
            raise TableError(
                f"node {node!r}: select gives row {row!r} of learned table {selected.learned.name!r}"
                f"{_where(parents, values)}; its rows are 0 to {rows - 1}"
            )
        picked[i] = row
    picked.setflags(write=False)
    return picked.reshape(shape)


def _call(what: str, function: Callable[..., Any], parents: Sequence[Axis], values: Sequence[Label]) -> Any:
    try:
        return function(*values)
    except Exception as error:
        error.add_note(f"in the function given for {what}{_where(parents, values)}")
        raise


def known_table(node: str, cpd: Any, parents: Sequence[Axis], states: int) -> Known:
    """A number, an array or a function of the parents' values as a checked probability table."""
    shape = tuple(len(p.values) for p in parents)
    _check_size(f"node {node!r}", (*shape, states))
    full = shape if states == 2 else (*shape, states)
    if callable(cpd):
        given = _tabulate(f"node {node!r}", cpd, parents, full[len(shape) :])
    else:
        numbers = _numbers(cpd)
        if numbers is None:
            raise TableError(f"node {node!r}: its table is not made of numbers: {brief(cpd)}")
        given = numbers
        if states == 2 and given.ndim == 0:
            given = np.broadcast_to(given, full)
        if given.shape != full:
            hint = f"P({node} = 1), one entry a combination" if states == 2 else "the states on the last axis"
            raise TableError(
                f"node {node!r}: its table has shape {given.shape}; with {_names(parents)} it is {full} ({hint})"
            )
    table = np.stack([1.0 - given, given], axis=-1) if states == 2 else np.array(given)
    _check_probabilities(node, table, parents, states)
    table.setflags(write=False)
    return Known(table)


def reward_table(parents: Sequence[Axis], function: Callable[..., float] | None) -> Floats:
    """The reward for every combination of the values of the nodes it depends on."""
    where = "the reward of " + ", ".join(repr(p.name) for p in parents)
    if function is None:
        function = _plain_value(parents)
    elif not callable(function):
        raise DiagramError(f"{where}: a function of their values is needed, not {function!r}")
    _check_size(where, tuple(len(p.values) for p in parents))
    table = _tabulate(where, function, parents, ())
    if not np.isfinite(table).all():
        at = _unravel(table, parents, ~np.isfinite(table))
        raise DiagramError(f"{where} is {table[~np.isfinite(table)][0]}{at}; rewards are finite")
    table.setflags(write=False)
    return table


def _plain_value(parents: Sequence[Axis]) -> Callable[..., float]:
    if len(parents) != 1:
        raise DiagramError(f"a reward of several nodes ({_names(parents)}) needs a function of their values")
    if not all(isinstance(v, (int, float)) for v in parents[0].values):
        raise DiagramError(f"node {parents[0].name!r} has labels that are no numbers: its reward needs a function")
    return lambda value: float(value)


def _check_size(what: str, shape: tuple[int, ...]) -> None:
    if math.prod(shape) > MOST_ENTRIES:
        raise TableError(f"{what}: a table of shape {shape} has more than {MOST_ENTRIES:,} entries")


def _tabulate(what: str, function: Callable[..., Any], parents: Sequence[Axis], tail: tuple[int, ...]) -> Floats:
    shape = tuple(len(p.values) for p in parents)
    rows = np.empty((math.prod(shape), *tail))
    for i, values in enumerate(itertools.product(*(p.values for p in parents))):
        given = _call(what, function, parents, values)
        entry = _numbers(given)
        if entry is None or entry.shape != tail:
            wanted = f"{tail[0]} probabilities, one a state" if tail else "one number"
            raise TableError(f"{what}: its function gives {brief(given)}{_where(parents, values)}, not {wanted}")
        rows[i] = entry
    return rows.reshape(*shape, *tail)


def _numbers(value: Any) -> Floats | None:
    """A new array of numbers, None where the value is not made of any: NumPy would read them out of strings."""
    try:
        given = np.asarray(value)
        if given.dtype.kind == "O" and not any(x is None or isinstance(x, (str, bytes)) for x in given.flat):
            return given.astype(np.float64)  # fractions, decimals
        return given.astype(np.float64) if given.dtype.kind in "biuf" else None
    except (TypeError, ValueError):
        return None


def _check_probabilities(node: str, table: Floats, parents: Sequence[Axis], states: int) -> None:
    outside = np.asarray(~((table >= 0) & (table <= 1)).all(axis=-1))
    if outside.any():
        at = _unravel(table[..., 0], parents, outside)
        row = table[outside][0]
        shown = f"P({node} = 1) is {row[1]}" if states == 2 else f"the probabilities are {row.tolist()}"
        raise TableError(f"node {node!r}: {shown}{at}; probabilities lie in [0, 1]")
    wrong = np.abs(table.sum(axis=-1) - 1) > TOLERANCE
    if wrong.any():
        at = _unravel(table[..., 0], parents, wrong)
        row = table[wrong][0]
        raise TableError(f"node {node!r}: the probabilities {row.tolist()}{at} sum to {row.sum()}, not 1")


def _unravel(table: Floats, parents: Sequence[Axis], bad: Bools) -> str:
    index = np.unravel_index(int(np.flatnonzero(bad)[0]), table.shape) if table.ndim else ()
    return _where(parents, [p.values[int(i)] for p, i in zip(parents, index, strict=True)])


def _where(parents: Sequence[Axis], values: Sequence[Label]) -> str:
    """The place in a table, for messages; nothing where there are no parents."""
    if not parents:
        return ""
    return " where " + ", ".join(f"{p.name} = {v!r}" for p, v in zip(parents, values, strict=True))


def _names(parents: Sequence[Axis]) -> str:
    return "parents " + ", ".join(repr(p.name) for p in parents) if parents else "no parents"
