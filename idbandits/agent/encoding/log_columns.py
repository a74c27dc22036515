"""Columns of a log: each is read and factorized once, whatever diagrams its rounds may be of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Node
from idbandits.diagram.features.dataframes import column_names, is_lazy
from idbandits.diagram.features.read_column import RawColumn, read_column
from idbandits.errors import ODD, ActionError, ContextError, IdbanditsError, ObservationError, brief, shortened
from idbandits.kernel.array_types import Bools, Ints

RawLog: TypeAlias = tuple[Any, Any, Any, Any]  # actions, observations, contexts, names of columns
FEW = 100  # rounds whose distinct values are not looked for: that takes pandas, which is slow to import


@final
class Column:
    """A flat column of a log."""

    def __init__(self, raw: RawColumn) -> None:
        native = raw.values.dtype.isnative
        self.values: Any = raw.values if native else raw.values.astype(raw.values.dtype.newbyteorder("="))
        self.masked, self._raw = raw.masked, raw

    @property
    def missing(self) -> Bools:
        """Mask of the missing values: masked, or None, NaN, NaT and the like."""
        return self._raw.missing

    def tolist(self) -> list[Any]:
        """Return plain values, None where one is missing."""
        return self._raw.tolist()

    @cached_property
    def factorized(self) -> tuple[Ints, Any]:
        """Number of each value among the distinct ones, and these; -1 for what is masked, and for some missing ones."""
        codes, seen = np.full(len(self.values), -1), ~self.masked
        values = self.values[seen]
        if len(values) > FEW:
            import pandas  # slow to import, and only needed here

            try:
                codes[seen], distinct = pandas.factorize(values, use_na_sentinel=True)
                return codes, distinct
            except ODD:  # values that cannot be hashed: lists, dictionaries
                pass
        codes[seen] = np.arange(len(values))
        return codes, values


@final
class Table:
    """A data frame, or arrays by name."""

    def __init__(self, data: Any) -> None:
        self.data: Any = data
        self.names = column_names(data)  # None if the data has no columns
        self._columns: dict[Any, Column] = {}

    def collect(self, wanted: Sequence[Any]) -> None:
        """Replace a lazy frame by a frame of the wanted columns, or raise `ValueError`."""
        if is_lazy(self.data):
            try:
                self.data = self.data.select([name for name in self.names or [] if name in wanted]).collect()
            except Exception as error:  # of another library: files that are missing, columns that cannot be computed
                raise ValueError(f"the lazy frame cannot be collected ({brief(error)})") from error

    def read(self, name: Any) -> Column:
        """Read a flat column, or raise one of `errors.ODD`."""
        if name not in self._columns:
            raw = read_column(self.data[name])
            if raw.values.ndim != 1:
                raise ValueError(f"its shape is {raw.values.shape}")
            self._columns[name] = Column(raw)
        return self._columns[name]


class Part(NamedTuple):
    """One of the three parts of a log."""

    what: str
    kind: Literal["decision", "context", "observed"]
    error: type[IdbanditsError]
    table: Table

    def nodes(self, model: Model) -> list[Node]:
        """Return the nodes of a model whose columns are in this part."""
        return model.diagram.of_kind(self.kind)


@final
class Log:
    """A log whose rounds may be those of several models.

    If actions alone are given, all is in them. `columns` has the names that nodes have there, where these differ.
    """

    def __init__(self, raw: RawLog, models: Sequence[Model]) -> None:
        actions, observations, contexts, columns = raw
        if columns is not None and not isinstance(columns, Mapping):
            raise IdbanditsError(f"columns must be a mapping of nodes to names of columns, got {brief(columns)}")
        self.columns: Mapping[Any, Any] = columns or {}
        self.ignores_others = columns is not None
        self.is_whole = observations is None and contexts is None
        self.length: int | None = None  # rounds, as soon as a column was read
        self._tables: dict[int, Table] = {}
        self._nodes = {node.name for model in models for node in model.nodes.values()}
        data = [actions] * 3 if self.is_whole else [actions, contexts, observations]
        tables = [self.table_of({} if own is None else own) for own in data]
        self.parts = [
            Part("actions", "decision", ActionError, tables[0]),
            Part("contexts", "context", ContextError, tables[1]),
            Part("observations", "observed", ObservationError, tables[2]),
        ]
        wanted = [self.name_of(name) for name in self._nodes]
        wanted += [name for model in models for name in self.feature_names(model)]
        for what, _, error_type, table in self.parts:
            if table.names is None:
                raise error_type(f"{what} must be arrays by name of a node or a data frame, got {brief(table.data)}")
            try:
                table.collect(wanted)
            except ValueError as error:
                raise error_type(f"{what}: {error}") from error

    def table_of(self, data: Any) -> Table:
        """Return the only table that reads this data."""
        return self._tables.setdefault(id(data), Table(data))

    def name_of(self, node: str) -> Any:
        """Return the name of the column of a node."""
        return self.columns.get(node, node)

    def feature_names(self, model: Model) -> list[Any]:
        """Return the names that columns of features of contexts may have, and those of columns of mappings."""
        names: list[Any] = []
        for node in model.contexts:
            if node.features is not None:
                own, named = [feature.name for feature in node.features.features], self.columns.get(node.name)
                names += [node.name, *own, *dotted_names(node)]
                names += named.values() if isinstance(named, Mapping) else []
        return names

    def absent_columns(self, model: Model) -> list[Any]:
        """Return the names of columns of nodes that only other models have."""
        return [self.name_of(name) for name in self._nodes - set(model.nodes)]

    def check_names(self, model: Model) -> None:
        """Raise for columns that belong to no node and no feature; and for entries of `columns` of no node."""
        nodes = [node.name for part in self.parts for node in part.nodes(model)]
        for name in self.columns:
            if name not in nodes and (name in model.nodes or name not in self._nodes):
                raise IdbanditsError(
                    f"columns must be of nodes in a log, which are {', '.join(nodes)}; got {brief(name)}"
                )
        for part in self.parts if not self.ignores_others else ():
            alone = isinstance(part.table.data, Mapping) and not self.is_whole  # otherwise, it may hold the whole log
            contexts = model.contexts if not alone or part.kind == "context" else []
            known = [*(node.name for node in part.nodes(model))] if alone else [*model.nodes]
            known += [*self.absent_columns(model), *(self.feature_names(model) if contexts else [])]
            if unknown := [name for name in part.table.names or [] if name not in known]:
                listed = [node.name for node in part.nodes(model) if node.features is None]
                listed += [dotted for node in contexts for dotted in dotted_names(node)]
                these = f"which are {', '.join(listed) or 'none'}, got {brief(unknown[0])}"
                hint = "columns= names those to read, and ignores all others"
                raise part.error(f"{part.what} must be columns of nodes of diagram {model.name!r}, {these}; {hint}")

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
            data = part.table.data[name] if isinstance(part.table.data, Mapping) else part.table.data
            flat = f"{part.what}: {node.name!r} must be a flat array, one value per round"
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
