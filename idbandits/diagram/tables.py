"""Tables of a diagram: learned ones, which nodes may share, and known ones (a number, an array or a function)."""

from __future__ import annotations

import itertools
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from idbandits.diagram.features.align import features_of, is_out_of_order
from idbandits.diagram.features.context_features import MOST_RESIDUALS, Logistic, drawn_means
from idbandits.diagram.features.design import TableFeatures
from idbandits.diagram.features.read_frame import PerParent, Source, read_source
from idbandits.diagram.values import check_letters, plain

from idbandits.errors import (  # isort: skip
    ODD, DiagramError, PriorError, TableError, brief, check_flag, check_whole, is_integer, shortened,
)  # fmt: skip
from idbandits.kernel.array_types import Bools, Floats, Ints, Rng

if TYPE_CHECKING:  # `declare` imports this module
    from idbandits.diagram.diagram import Node

Label: TypeAlias = str | int | float | bool
Possible: TypeAlias = Callable[[Sequence[str]], Bools]  # which values of nodes may occur together

TOLERANCE = 1e-8  # how far from 1 the probabilities of a row may sum
MOST_ENTRIES = 50_000_000  # in one table
LEAST_PRIOR, MOST_PRIOR = 1e-9, 1e15  # of pseudo-counts: one more round is not lost in rounding, nor all they were
MOST_REWARD = 1e300  # in a round, either way: sums over rounds are finite


@final
@dataclass(frozen=True, eq=False)
class Learned:
    """A table that is learned, shared by all nodes it is passed to.

    `prior` holds pseudo-counts: a number, or anything that broadcasts to the table's rows with the states on the last
    axis (so `[3, 1]` expects a two-state node to be 1 in a quarter of the rounds). They lie between 1e-9 and 1e15.
    With `rows`, nodes pick rows themselves: `table[k]`, or `table.select(f)` for the row `f(*parent_values)`.
    `fixed` has the rows that are known: by number with `rows`, else by the value of the parent (a tuple of values if
    there are several parents); each is P(1), or the probabilities of all states if there are more than two.

    >>> examination = Learned("examination", rows=3, fixed={0: 1.0})
    >>> examination[2].row
    2

    With `features` the prior of a row is a regression on them, which is learned as well: what is learned of one row
    speaks for those like it. They are a data frame (pandas or Polars) by the labels of the parent, which are its index
    or its first column, or an array with one line per row. Numbers are standardised, texts become indicators of
    categories, and what is missing has an indicator; `Features` declares such encodings instead, and an agent keeps
    them when it moves to another diagram. Rows that are fixed need no line. For several parents, pass
    `{"item": …, "user": …}`, or a list of frames and arrays with one entry per parent (None: nothing), or an array
    with one line per row; `products=True` adds the products of features of different parents. `pooled=True` is the
    regression with a constant alone: rows have a common prior, which is learned. All rows have the same `prior` then;
    it says where the regression starts.

    A table that depends on a context with features is logistic: its logits are linear in `features`, in those of the
    context, and in their products with `products=True`; `residuals` is the standard deviation of what each row has of
    its own (docs/requests.md).

    >>> import pandas as pd
    >>> dishes = pd.DataFrame({"price": [9.5, 12, 8], "kind": ["thai", "soup", "thai"]}, index=["curry", "pho", "rice"])
    >>> from idbandits import Diagram
    >>> d = Diagram("menu")
    >>> d.reward(d.observed("ordered", [d.decision("dish", ["rice", "pho"])], Learned("taste", features=dishes)))
    >>> features = d.learned["taste"].features
    >>> features.names
    ('(constant)', 'price', 'kind=thai')
    >>> features.design.tolist()
    [[1.0, -1.0, 1.0], [1.0, 1.0, 0.0]]
    """

    name: str
    prior: Any = 1.0
    rows: int | None = None
    fixed: Mapping[Any, Any] | None = None
    features: Any = None
    products: bool = False
    pooled: bool = False
    residuals: float | None = None

    def __post_init__(self) -> None:
        check_name("a learned table", self.name)
        if self.rows is not None and (not is_integer(self.rows) or self.rows < 1):
            raise DiagramError(
                f"learned table {self.name!r}: rows must be a positive whole number, not {brief(self.rows)}"
            )
        if (prior := _numbers(self.prior)) is None:
            raise PriorError(f"learned table {self.name!r}: the prior must consist of numbers, not {brief(self.prior)}")
        for wrong in prior[~((prior >= LEAST_PRIOR) & (prior <= MOST_PRIOR))]:
            needed = f"prior pseudo-counts must be positive and finite, from {LEAST_PRIOR:g} to {MOST_PRIOR:g}"
            raise PriorError(f"learned table {self.name!r}: {needed}, not {wrong}")
        prior.setflags(write=False)
        object.__setattr__(self, "prior", prior)  # its own copy
        object.__setattr__(self, "fixed", self._own_fixed())
        self._own_features()

    def _own_features(self) -> None:
        """Keep a copy of the features, if they are some."""
        table = f"learned table {self.name!r}"
        for flag in ("products", "pooled"):
            object.__setattr__(self, flag, check_flag(f"{table}: {flag}", getattr(self, flag), DiagramError))
        if self.residuals is not None:
            residuals = plain(self.residuals)
            if not isinstance(residuals, (int, float)) or not 0 <= residuals <= MOST_RESIDUALS:
                needed = f"residuals are a standard deviation of logits, a number from 0 to {MOST_RESIDUALS:g}"
                raise DiagramError(f"{table}: {needed}; not {brief(self.residuals)}")
            object.__setattr__(self, "residuals", float(residuals))
        if self.features is not None:
            if self.pooled:
                raise DiagramError(f"{table}: it is pooled, which is a constant alone; leave features or pooled out")
            object.__setattr__(self, "features", read_source(table, self.features))

    def _own_fixed(self) -> Mapping[Any, Floats]:
        """The fixed rows, each as an array of its own."""
        table, rows = f"learned table {self.name!r}", dict[Any, Floats]()
        try:
            fixed = {} if self.fixed is None else dict(self.fixed)
        except ODD:
            raise TableError(f"{table}: fixed maps rows to probabilities; it is {brief(self.fixed)}") from None
        for row, value in fixed.items():
            values = _numbers(value)
            if values is None or values.ndim > 1:
                needed = f"fixed row {brief(row)} is a probability or a list of them, not {brief(value)}"
                raise TableError(f"{table}: {needed}")
            rows[tuple(map(plain, row)) if isinstance(row, tuple) else plain(row)] = values
        return rows

    def __getitem__(self, row: int) -> RowOf:
        last = self._rows_to_pick_from() - 1
        return RowOf(self, check_whole(f"learned table {self.name!r}: a row", row, 0, last, DiagramError))

    def __iter__(self) -> Any:
        """All rows in turn."""
        return iter([self[k] for k in range(self._rows_to_pick_from())])

    def select(self, chooser: Callable[..., int]) -> RowOf:
        """The table read at row `chooser(*parent_values)`."""
        self._rows_to_pick_from()
        if not callable(chooser):
            raise DiagramError(f"learned table {self.name!r}: select takes a function, not {brief(chooser)}")
        return RowOf(self, chooser)

    def _rows_to_pick_from(self) -> int:
        if self.rows is None:
            raise DiagramError(f"learned table {self.name!r} must be declared with rows=… before rows can be picked")
        return int(self.rows)


@final
@dataclass(frozen=True, eq=False)
class RowOf:
    """One row of a learned table, or the row that is a function of the parents' values."""

    learned: Learned
    row: int | Callable[..., int]


@final
@dataclass(frozen=True, eq=False)
class Known:
    """A known table: one axis per parent, states on the last axis."""

    table: Floats


@final
@dataclass(frozen=True, eq=False)
class Use:
    """How a node reads a learned table: row `rows`, row `rows[parent values]`, or (None) one row per such values."""

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
    fixed: Mapping[int, Floats]  # of a row that is known, by its number: the probabilities of all states
    features: TableFeatures | None = None  # of its rows, if their prior is a regression, or if it is logistic
    logistic: Logistic | None = None  # how it depends on a context with features, if it does

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

    @cached_property
    def beforehand(self) -> Floats:
        """What is known of each entry before the first round: its pseudo-count, or -1 - p where p is fixed."""
        return self.with_fixed(self.prior.ravel().copy(), lambda p: -1.0 - p)

    @cached_property
    def features_of_entries(self) -> Ints:
        """Of each entry: a number that rows with equal features share."""
        if self.features is None:
            return np.zeros(self.size, np.int64)
        _, numbers = np.unique(self.features.design, axis=0, return_inverse=True)
        return np.repeat(numbers.ravel(), self.states)

    def carried(self, learned: Sequence[LearnedTable]) -> LearnedTable:
        """Return the table with the encodings of features of others, that were learned with; the latest comes first."""
        features, logistic = self.features, self.logistic
        if features is not None:
            features = features.carried([table.features for table in learned if table.features is not None])
        if logistic is not None:
            logistic = logistic.carried(features, learned[0].logistic)
        return replace(self, features=features, logistic=logistic)

    def with_fixed(self, entries: Floats, shown: Callable[[Floats], Floats] = np.asarray) -> Floats:
        """All entries, on the last axis, with those of fixed rows put in place."""
        for row, values in self.fixed.items():
            entries[..., row * self.states : (row + 1) * self.states] = shown(values)
        return entries


def check_name(owner: str, name: object) -> str:
    """The name, if it is one."""
    if not isinstance(name, str) or not name:
        raise DiagramError(f"the name of {owner} must be a non-empty string, not {brief(name)}")
    check_letters(f"the name of {owner}", name)
    return name


def prior_means(tables: Mapping[str, LearnedTable], rng: Rng) -> dict[str, Floats]:
    """The means of all tables, drawn from their priors: `prior_means(d.learned, rng)`."""
    means = {}
    for name, table in tables.items():
        prior = table.prior
        if table.features is not None and table.logistic is None:
            prior = table.features.drawn_prior(prior, table.states, rng).reshape(prior.shape)
        if table.logistic is not None:
            means[name] = drawn_means(table, rng)
        elif table.states == 2:
            means[name] = np.asarray(rng.beta(prior[..., 1], prior[..., 0]), np.float64)
        else:
            rows = [rng.dirichlet(row) for row in prior.reshape(-1, table.states)]
            means[name] = np.array(rows).reshape(prior.shape)
        for row, values in table.fixed.items():
            means[name].reshape(-1, *means[name].shape[len(table.shape) :])[row] = (
                values[1] if table.states == 2 else values
            )
    return means


def chance_table(
    node: str, cpd: Any, parents: Sequence[Node], states: int, tables: dict[str, LearnedTable], possible: Possible
) -> Known | Use:
    """The table of a new node: known, or how it reads a learned one, which is added to `tables` by its first use."""
    cpd = Learned(node) if cpd is None else cpd
    if not isinstance(cpd, (Learned, RowOf)):
        check_no_features(f"node {node!r}: its table is known, and", parents)
        return _known_table(node, cpd, parents, states, possible)
    learned, row = (cpd, None) if isinstance(cpd, Learned) else (cpd.learned, cpd.row)
    shape, reader = _shape(parents), f"node {node!r}: learned table {learned.name!r}"
    if row is None and learned.rows not in (None, math.prod(shape)):
        hint = f"combinations of values; pick rows by {learned.name}[k] or {learned.name}.select(f)"
        raise DiagramError(f"{reader} has {learned.rows} rows, but the parents have {math.prod(shape)} {hint}")
    use = Use(learned.name, _selected_rows(node, learned, row, parents) if callable(row) else row)
    rows = shape if learned.rows is None else (int(learned.rows),)
    if (table := tables.get(learned.name)) is None:
        _check_size(f"node {node!r}", (*rows, states))
        try:
            prior = np.broadcast_to(learned.prior, (*rows, states))
        except ValueError:
            reason = f"a prior of shape {learned.prior.shape} does not broadcast to {(*rows, states)}"
            raise PriorError(f"learned table {learned.name!r}: {reason} (states on the last axis)") from None
        fixed = _fixed_rows(node, learned, parents, states)
        features = _features(learned, parents, rows, fixed)
        logistic = _logistic(learned, parents, rows, states, features)
        tables[learned.name] = LearnedTable(learned, rows, states, prior, fixed, features, logistic)
    elif table.declared is not learned:
        other = f"the diagram has another learned table named {learned.name!r}"
        raise DiagramError(f"node {node!r}: {other}; to share one table, pass the same Learned object")
    elif (table.shape, table.states) != (rows, states):
        has = f"has {table.states} states and rows of shape {table.shape}"
        raise DiagramError(f"{reader} {has}, but the node has {states} states and parents of shape {rows}")
    elif table.fixed.keys() != (numbers := _fixed_numbers(node, learned, parents)).keys():
        other = next(row for number, row in numbers.items() if number not in table.fixed)
        raise DiagramError(f"{reader}: its fixed row {brief(other)} is another one for nodes that read it before")
    elif [p.name for p in parents if p.features] != ([] if table.logistic is None else [table.logistic.context]):
        context = "no context with features" if table.logistic is None else f"context {table.logistic.context!r}"
        raise DiagramError(f"{reader}: nodes that read it before depend on {context}; all must, and on no other one")
    elif table.features is not None and learned.rows is None and is_out_of_order(table.features, _plain(parents)):
        raise DiagramError(f"{reader}: its features belong to other rows for nodes that read it before; labels differ")
    return use


def _features(
    learned: Learned, parents: Sequence[Node], rows: tuple[int, ...], fixed: Mapping[int, Floats]
) -> TableFeatures | None:
    """The features of the rows of a learned table, None if it has none."""
    requests = [p for p in parents if p.features is not None]
    if learned.features is None and not learned.pooled and not requests:
        return None
    owner, given = f"learned table {learned.name!r}", np.atleast_1d(learned.prior)
    if (given != given[(0,) * (given.ndim - 1)]).any():
        reason = "a regression is the prior of its rows, centred at the same pseudo-counts for all of them"
        raise PriorError(f"{owner}: {reason}; the given ones, of shape {learned.prior.shape}, differ between rows")
    products, source = learned.products, learned.features
    if requests:
        if learned.features is None:
            return None
        rows = rows if learned.rows is not None else _shape(_plain(parents))
        source = _without_contexts(owner, learned.features, parents)
        several = isinstance(source, PerParent) and len([lines for lines in source.lines if lines is not None]) > 1
        parents, products = _plain(parents), products and several
    by_parent = parents if learned.rows is None else None
    return features_of(owner, source, by_parent, rows, fixed, products, MOST_ENTRIES)


def _without_contexts(owner: str, source: Source, parents: Sequence[Node]) -> Source:
    """Features without the entries of contexts that have their own, which are None."""
    if not isinstance(source, PerParent):
        return source
    names = source.names if source.names is not None else tuple(p.name for p in parents)
    if len(names) != len(source.lines):
        return source
    contexts = {p.name for p in parents if p.features is not None}
    entries = dict(zip(names, source.lines, strict=True))
    if given := next((name for name in contexts if entries.get(name) is not None), None):
        raise TableError(f"{owner}: context {given!r} has features of its own, in every request; give it no lines")
    kept = tuple(name for name in names if name not in contexts)
    return PerParent(tuple(entries[name] for name in kept), None if source.names is None else kept)


def _plain(parents: Sequence[Node]) -> list[Node]:
    """The parents without contexts that have features, each of which has one value in circuits."""
    return [p for p in parents if p.features is None]


def _logistic(
    learned: Learned, parents: Sequence[Node], rows: tuple[int, ...], states: int, features: TableFeatures | None
) -> Logistic | None:
    """How a table depends on a context with features; None if on none."""
    owner, requests = f"learned table {learned.name!r}", [p for p in parents if p.features is not None]
    if not requests:
        if learned.residuals is not None:
            raise DiagramError(f"{owner}: residuals are those of a table that depends on a context with features")
        return None
    if len(requests) > 1:
        names = " and ".join(repr(p.name) for p in requests)
        raise DiagramError(f"{owner}: a table depends on one context with features, not on {names}")
    if states != 2:
        raise DiagramError(f"{owner}: context {requests[0].name!r} has features, so it needs two states, not {states}")
    if learned.pooled:
        raise DiagramError(f"{owner}: context {requests[0].name!r} has features, so pooled says nothing: leave it out")
    number = math.prod(rows)
    if features is None and not learned.residuals and number > 1:
        what = f"its {number} rows differ in nothing: give features of their own, or residuals"
        raise DiagramError(f"{owner}: beside context {requests[0].name!r}, {what}")
    if features is None and learned.products:
        raise DiagramError(f"{owner}: products are those of the features of several parents; 1 has some")
    return Logistic(owner, requests[0], number, features, learned.products, learned.residuals or 0.0)


def check_no_features(what: str, parents: Sequence[Node]) -> None:
    """Raise if one of these nodes is a context with features, which only learned tables may depend on."""
    for node in parents:
        if node.features is not None:
            raise DiagramError(f"{what} depends on {node.name!r}; on a context with features, only learned tables may")


def _fixed_numbers(node: str, learned: Learned, parents: Sequence[Node]) -> dict[int, Any]:
    """The rows that a learned table fixes, by their number: as the parents of a node, or the table, number rows."""
    numbers: dict[int, Any] = {}
    parents = _plain(parents)
    for row in learned.fixed or ():
        if learned.rows is not None:
            number = int(row) if is_integer(row) and 0 <= row < learned.rows else None
            allowed = f"rows are 0 to {learned.rows - 1}"
        else:
            labels = row if len(parents) != 1 else (row,)
            known = isinstance(labels, tuple) and len(labels) == len(parents)
            places = [p.index(v) for p, v in zip(parents, labels, strict=True)] if known else [None]
            number = _number_of(places, _shape(parents))
            allowed = "; ".join(f"{p.name!r} is {p.allowed()}" for p in parents) or "the only row is ()"
        if number is None:
            raise TableError(f"node {node!r}: learned table {learned.name!r} fixes row {brief(row)}; {allowed}")
        if number in numbers:
            raise TableError(f"learned table {learned.name!r}: row {brief(row)} is fixed twice")
        numbers[number] = row
    return numbers


def _number_of(places: Sequence[int | None], shape: tuple[int, ...]) -> int | None:
    """The number of the row at these places on the axes of a table; None where one is missing."""
    number = 0
    for place, size in zip(places, shape, strict=False):
        if place is None:
            return None
        number = number * size + place
    return number


def _fixed_rows(node: str, learned: Learned, parents: Sequence[Node], states: int) -> Mapping[int, Floats]:
    """The probabilities of the rows that a learned table fixes, by number."""
    rows: dict[int, Floats] = {}
    for number, row in _fixed_numbers(node, learned, parents).items():
        value = (learned.fixed or {})[row]
        values = np.array([1.0 - value, value]) if states == 2 and value.ndim == 0 else value
        if values.shape != (states,) or not ((values >= 0) & (values <= 1)).all() or abs(values.sum() - 1) > TOLERANCE:
            needed = "a probability" if states == 2 else f"{states} probabilities that sum to 1"
            given = f"fixes row {brief(row)} at {brief(value.tolist())}; node {node!r} needs {needed}"
            raise TableError(f"learned table {learned.name!r} {given}")
        values.setflags(write=False)
        rows[number] = values
    return rows


def _selected_rows(node: str, learned: Learned, chooser: Callable[..., int], parents: Sequence[Node]) -> Ints:
    """The row for every combination of the parents' values."""
    _check_size(f"node {node!r}", _shape(parents))
    last = (learned.rows or 0) - 1
    rows = np.empty(math.prod(_shape(parents)), dtype=np.int64)
    for i, (values, row) in enumerate(_results(f"node {node!r}", chooser, parents)):
        if not is_integer(row) or not 0 <= row <= last:
            picked = f"select picks row {brief(row)} of learned table {learned.name!r}{_where(parents, values)}"
            raise TableError(f"node {node!r}: {picked}; its rows are 0 to {last}")
        rows[i] = row
    rows.setflags(write=False)
    return rows.reshape(_shape(parents))


def _known_table(node: str, cpd: Any, parents: Sequence[Node], states: int, possible: Possible) -> Known:
    """A number, an array or a function of the parents' values as a checked probability table.

    Rows of zeros, where the parents cannot have these values, become certainty of the first state.
    """
    row_shape = () if states == 2 else (states,)  # of two states, only P(1) is declared
    _check_size(f"node {node!r}", (*_shape(parents), states))
    if callable(cpd):
        entries = _tabulate(f"node {node!r}", cpd, parents, row_shape)
    else:
        entries = _entries(node, cpd, parents, row_shape)
    table = np.stack([1.0 - entries, entries], axis=-1) if states == 2 else entries
    if (outside := ~np.asarray(((table >= 0) & (table <= 1)).all(axis=-1))).any():
        row = table[outside][0]
        shown = f"P({node} = 1) is {row[1]}" if states == 2 else f"the probabilities are {row.tolist()}"
        raise TableError(f"node {node!r}: {shown}{_first(outside, parents)}; probabilities lie in [0, 1]")
    if (zero := np.asarray((table == 0).all(axis=-1))).any():
        table[zero & ~possible([p.name for p in parents]), 0] = 1.0
    if (unequal := np.asarray(np.abs(table.sum(axis=-1) - 1) > TOLERANCE)).any():
        row, where = table[unequal][0], _first(unequal, parents)
        raise TableError(f"node {node!r}: the probabilities {row.tolist()}{where} sum to {row.sum()}, not 1")
    table.setflags(write=False)
    return Known(table)


def reward_table(parents: Sequence[Node], values: Any) -> Floats:
    """The reward for every combination of the parents' values, given as a function or an array.

    Without either, it is the value of the only parent.
    """
    reward = "the reward of " + ", ".join(repr(p.name) for p in parents)
    _check_size(reward, _shape(parents))
    if values is None:
        if len(parents) != 1:
            raise DiagramError(f"{reward} needs a function of their values, or an array")
        if not all(isinstance(v, (int, float)) for v in parents[0].values):
            raise DiagramError(f"{reward} needs a function: not all of its labels are numbers")
        values = _same
    table = _tabulate(reward, values, parents, ()) if callable(values) else _reward_array(reward, parents, values)
    if (infinite := ~np.isfinite(table)).any():
        raise DiagramError(f"{reward} is {table[infinite][0]}{_first(infinite, parents)}; rewards must be finite")
    table.setflags(write=False)
    return table


def _reward_array(reward: str, parents: Sequence[Node], values: Any) -> Floats:
    table = _numbers(values)
    if table is None:
        raise DiagramError(f"{reward} needs a function of the values, or an array of numbers, not {brief(values)}")
    if table.shape != _shape(parents):
        axes = " x ".join(f"{p.states} of {p.name!r}" for p in parents)
        raise DiagramError(f"{reward} has an array of shape {table.shape}; it must be {_shape(parents)} ({axes})")
    return table


def _same(value: float) -> float:
    return value


def _shape(parents: Sequence[Node]) -> tuple[int, ...]:
    return tuple(p.states for p in parents)


def _check_size(owner: str, shape: tuple[int, ...]) -> None:
    if math.prod(shape) > MOST_ENTRIES:
        raise TableError(f"{owner}: a table of shape {shape} has more than {MOST_ENTRIES:,} entries")


def _entries(node: str, cpd: Any, parents: Sequence[Node], row_shape: tuple[int, ...]) -> Floats:
    """A number or an array as the entries of a table."""
    entries, shape = _numbers(cpd), (*_shape(parents), *row_shape)
    if entries is None:
        raise TableError(f"node {node!r}: its table must consist of numbers, not {brief(cpd)}")
    if entries.ndim == 0 and not row_shape:
        return np.broadcast_to(entries, shape)
    if entries.shape != shape:
        meaning = "states on the last axis" if row_shape else f"P({node} = 1) per combination of values"
        names = "parents " + ", ".join(repr(p.name) for p in parents) if parents else "no parents"
        wanted = f"with {names} it must be {shape} ({meaning})"
        raise TableError(f"node {node!r}: its table has shape {entries.shape}; {wanted}")
    return entries


def _tabulate(owner: str, function: Callable[..., Any], parents: Sequence[Node], row_shape: tuple[int, ...]) -> Floats:
    """A function of the parents' values as the entries of a table."""
    rows = np.empty((math.prod(_shape(parents)), *row_shape))
    for i, (values, result) in enumerate(_results(owner, function, parents)):
        row = _numbers(result)
        if row is None or row.shape != row_shape:
            wanted = f"{row_shape[0]} probabilities, one per state" if row_shape else "one number"
            raise TableError(f"{owner}: its function returns {brief(result)}{_where(parents, values)}, not {wanted}")
        rows[i] = row
    return rows.reshape((*_shape(parents), *row_shape))


def _results(owner: str, function: Callable[..., Any], parents: Sequence[Node]) -> Iterator[tuple[Any, Any]]:
    """Every combination of the parents' values, and what a function returns for it."""
    for values in itertools.product(*(p.values for p in parents)):
        try:
            result = function(*values)
        except Exception as error:
            raised = shortened(traceback.format_exception_only(error)[0])  # also of errors that cannot show themselves
            raise TableError(f"{owner}: its function raised {raised}{_where(parents, values)}") from error
        yield values, result


def _numbers(value: Any) -> Floats | None:
    """A new array of floats; None if the value does not consist of numbers (NumPy would parse strings).

    Where a whole number is more than a float can hold, that is infinity.
    """
    try:
        if np.ma.is_masked(value):
            return None
        array = np.asarray(value)
        mixed = array.dtype.kind == "O" and not any(x is None or isinstance(x, (str, bytes)) for x in array.flat)
        return array.astype(np.float64) if mixed or array.dtype.kind in "biuf" else None  # mixed: fractions, decimals
    except OverflowError:
        return np.array(np.inf)
    except (MemoryError, TypeError, ValueError):
        return None


def _first(marked: Bools, parents: Sequence[Node]) -> str:
    """The first marked place of a table, for messages."""
    index = np.unravel_index(int(np.flatnonzero(marked)[0]), marked.shape) if parents else ()
    return _where(parents, [p.values[int(i)] for p, i in zip(parents, index, strict=True)])


def _where(parents: Sequence[Node], values: Sequence[Label]) -> str:
    """A place in a table, for messages; empty if there are no parents."""
    place = ", ".join(f"{p.name} = {v!r}" for p, v in zip(parents, values, strict=True))
    return f" where {place}" if parents else ""
