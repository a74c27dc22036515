"""Columns of a log: each is read and factorized once, whatever diagrams its rounds may be of."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Node
from idbandits.diagram.features.dataframes import column_names, is_lazy
from idbandits.diagram.features.read_column import RawColumn, read_column
from idbandits.errors import ODD, ActionError, ContextError, IdbanditsError, ObservationError, brief, shortened
from idbandits.kernel.array_types import Bools, Ints

RawLog: TypeAlias = tuple[Any, Any, Any, Any]  # actions, observations, contexts, names of columns
FACTORIZED = "biufcmMUO"  # kinds of arrays whose distinct values pandas finds
FEW = 100  # rounds whose distinct values are not looked for: that takes pandas, which is slow to import


@final
class Column:
    """A flat column of a log."""

    def __init__(self, raw: RawColumn) -> None:
        values = raw.values
        kind, size = values.dtype.kind, values.dtype.itemsize
        if kind in "fc" and size not in (4, 8, 16):  # half and long doubles
            dtype: Any = np.float64 if kind == "f" else np.complex128
        else:
            dtype = values.dtype.newbyteorder("=") if kind in FACTORIZED else object
        self.values, self.masked = values.astype(dtype, copy=False), raw.masked
        self._raw = raw

    @property
    def missing(self) -> Bools:
        """Mask of the missing values: masked, or None, NaN, NaT and the like."""
        return self._raw.missing

    @cached_property
    def factorized(self) -> tuple[Ints, Any]:
        """Number of each value among the distinct ones, and these; -1 for what is masked, and perhaps other NAs."""
        if not self.masked.any():
            return _factorized(self.values)
        codes = np.full(len(self.values), -1)
        codes[~self.masked], distinct = _factorized(self.values[~self.masked])
        return codes, distinct


def _factorized(values: Any) -> tuple[Ints, Any]:
    if len(values) > FEW:
        import pandas  # slow to import, and only needed here

        try:
            codes, distinct = pandas.factorize(values, use_na_sentinel=True)
            return codes, distinct
        except ODD:  # values that cannot be hashed: lists, dictionaries
            pass
    return np.arange(len(values)), values


@final
class Table:
    """A data frame, or arrays by name."""

    def __init__(self, data: Any) -> None:
        self.data: Any = {} if data is None else data
        self.names = column_names(self.data)  # None if the data has no columns
        self._columns: dict[Hashable, Column] = {}
        self._nested: dict[str, Table] = {}

    def collect(self, wanted: set[Hashable]) -> None:
        """Replace a lazy frame by a frame of the wanted columns."""
        if is_lazy(self.data):
            self.data = self.data.select([name for name in self.names or [] if name in wanted]).collect()

    def read(self, name: Hashable) -> Column:
        """Read a flat column, or raise one of `errors.ODD`."""
        if name not in self._columns:
            raw = read_column(self.data[name])
            if raw.values.ndim != 1:
                raise ValueError(f"its shape is {raw.values.shape}")
            self._columns[name] = Column(raw)
        return self._columns[name]

    def nested(self, name: str) -> Table | None:
        """Return the table in place of a column: a frame, or columns by name, of the features of a context."""
        if name not in self._nested and isinstance(self.data, Mapping) and name in self.data:
            table = Table(self.data[name])
            if self.data[name] is not None and table.names is not None:
                self._nested[name] = table
        return self._nested.get(name)


class Part(NamedTuple):
    """One of the three parts of a log."""

    what: str
    kind: str  # of its nodes
    error: type[IdbanditsError]
    table: Table

    def nodes(self, model: Model) -> list[Node]:
        """Return the nodes of a model whose columns are in this part."""
        return {"decision": model.decisions, "context": model.contexts, "observed": model.observed}[self.kind]


@final
class Log:
    """A log that is read once; its rounds may be those of several models.

    If actions alone are given, all is in them. `columns` has the names that nodes have there, where these differ.
    """

    def __init__(self, raw: RawLog, models: Sequence[Model]) -> None:
        actions, observations, contexts, columns = raw
        if columns is not None and not isinstance(columns, Mapping):
            raise IdbanditsError(f"columns must be a mapping of nodes to names of columns, got {brief(columns)}")
        self.columns: Mapping[Any, Any] = columns or {}
        self.ignores_others = columns is not None
        self.is_whole = observations is None and contexts is None
        data = [actions] * 3 if self.is_whole else [actions, contexts, observations]
        tables = {id(own): Table(own) for own in data}
        self.parts = [
            Part("actions", "decision", ActionError, tables[id(data[0])]),
            Part("contexts", "context", ContextError, tables[id(data[1])]),
            Part("observations", "observed", ObservationError, tables[id(data[2])]),
        ]
        self.length: int | None = None  # rounds, as soon as a column was read
        self._nodes = {node.name for model in models for node in model.nodes.values()}
        for part in self.parts:
            if part.table.names is None:
                raise part.error(
                    f"{part.what} must be arrays by name of a node or a data frame, got {brief(part.table.data)}"
                )
            self._collect(part, models)

    def _collect(self, part: Part, models: Sequence[Model]) -> None:
        wanted = {self.name_of(name) for name in self._nodes}
        wanted |= {name for model in models for name in self.feature_names(model)}
        try:
            part.table.collect(wanted)
        except Exception as error:  # of another library: files that are missing, columns that cannot be computed
            raise part.error(f"{part.what}: the lazy frame cannot be collected ({brief(error)})") from error

    def name_of(self, node: str) -> Hashable:
        """Return the name of the column of a node."""
        column = self.columns.get(node, node)
        return column if isinstance(column, Hashable) else node

    def feature_names(self, model: Model) -> Iterator[Hashable]:
        """Yield the names that columns of features of contexts may have, and those of columns of mappings."""
        for node in model.contexts:
            if node.features is not None:
                yield node.name
                yield from dotted_names(node)
                yield from (feature.name for feature in node.features.features)
                named = self.columns.get(node.name)
                yield from (
                    c for c in (named.values() if isinstance(named, Mapping) else ()) if isinstance(c, Hashable)
                )

    # -- validation of names -----------------------------------------------------------------------------------------

    def check_columns(self, model: Model) -> None:
        """Raise unless `columns` maps nodes of a model, or of another one, to names of columns."""
        nodes = {node.name: node for part in self.parts for node in part.nodes(model)}
        for name, column in self.columns.items():
            if name in nodes and nodes[name].features is not None:
                _check_feature_columns(nodes[name], column)
            elif name in nodes:
                _check_name(f"columns: entry {name!r}", column)
            elif name in model.nodes or name not in self._nodes:
                listed = ", ".join(nodes)
                raise IdbanditsError(f"columns must be of nodes in a log, which are {listed}; got {brief(name)}")

    def absent_columns(self, model: Model) -> set[Hashable]:
        """Return the names of columns of nodes that only other models have."""
        return {self.name_of(name) for name in self._nodes - set(model.nodes)}

    def check_names(self, part: Part, model: Model, absent: set[Hashable]) -> None:
        """Raise for columns of no node and no feature, and for repeated ones, unless `columns` names those to read."""
        if self.ignores_others:
            return
        alone = isinstance(part.table.data, Mapping) and not self.is_whole  # otherwise, it may hold the whole log
        known = {node.name for node in (part.nodes(model) if alone else model.nodes.values())} | absent
        contexts = model.contexts if not alone or part.kind == "context" else []
        known |= {*self.feature_names(model)} if contexts else set()
        names = part.table.names or []
        for i, name in enumerate(names):
            if name not in known:
                listed = [node.name for node in part.nodes(model) if node.features is None]
                listed += [dotted for node in contexts for dotted in dotted_names(node)]
                these = f"which are {', '.join(listed) or 'none'}, got {brief(name)}"
                hint = "columns= names those to read, and ignores all others"
                raise part.error(f"{part.what} must be columns of nodes of diagram {model.name!r}, {these}; {hint}")
            if name in names[:i]:
                raise part.error(f"{part.what}: column {name!r} occurs twice")

    # -- columns -----------------------------------------------------------------------------------------------------

    def column(self, part: Part, node: Node) -> Column | None:
        """Return the column of a node; None if there is none, as observed nodes may be missing."""
        name, names = self.name_of(node.name), part.table.names or []
        if name not in names:
            if node.name in self.columns:
                raise part.error(f"{part.what}: there is no column {brief(name)}, which is that of {node.name!r}")
            if part.kind != "observed":
                raise part.error(f"{part.what}: {node.name!r} is missing")
            return None
        if names.count(name) > 1:
            raise part.error(f"{part.what}: column {brief(name)} occurs twice")
        try:
            column = part.table.read(name)
        except ODD as error:
            flat = f"{part.what}: {node.name!r} must be a flat array, one value per round"
            data = part.table.data[name] if isinstance(part.table.data, Mapping) else part.table.data
            raise part.error(f"{flat}, got {brief(data)}; {shortened(str(error))}") from None
        self.check_length(part, node, len(column.values))
        return column

    def check_length(self, part: Part, node: Node, length: int) -> None:
        """Raise unless a column has as many rounds as those that were read before."""
        self.length = length if self.length is None else self.length
        if length != self.length:
            raise part.error(f"{part.what}: {node.name!r} has {length} rounds, others have {self.length}")


def dotted_names(node: Node) -> list[str]:
    """Return the names of a context's features after that of the context; none if it has no features.

    As names of columns they are unambiguous where several contexts have features of one name.
    """
    return [] if node.features is None else [f"{node.name}.{feature.name}" for feature in node.features.features]


def _check_feature_columns(node: Node, columns: Any) -> None:
    """Raise unless `columns` maps features of a context to names of columns."""
    assert node.features is not None
    features = node.features.listed()
    if not isinstance(columns, Mapping):
        needed = f"columns: entry {node.name!r} must be a mapping of its features ({features}) to names of columns"
        raise IdbanditsError(f"{needed}, got {brief(columns)}")
    for feature, column in columns.items():
        if not any(feature == own.name for own in node.features.features):
            entry = f"columns: entry {brief(feature)} of {node.name!r}"
            raise IdbanditsError(f"{entry} must be one of its features, which are {features}")
        _check_name(f"columns: entry {feature!r} of {node.name!r}", column)


def _check_name(what: str, column: Any) -> None:
    if not isinstance(column, Hashable):
        raise IdbanditsError(f"{what} must be the name of a column, got {brief(column)}")
