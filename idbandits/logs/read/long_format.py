"""Long format: logs with one row per shown item."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from idbandits.agent.encoding.log_columns import Log
from idbandits.circuit.model import compile
from idbandits.diagram.diagram import Diagram, Node
from idbandits.errors import brief, check_whole, shortened
from idbandits.logs.read.encoder import SideColumns
from idbandits.logs.read.log_source import Source
from idbandits.logs.read.long_pivot import FLAGS, SESSION, LongSource, Pivot, joined_columns
from idbandits.logs.read.read_report import LogError
from idbandits.logs.read.sources import source_of

Columns = str | Sequence[str]


@final
@dataclass(frozen=True)
class Long:
    """Format of logs with one row per shown item, which are grouped to one round per session.

    Positions that are missing are empty slots if the diagram has the choice "(nothing)", else missing decisions. Equal
    rows are read once; sessions with different values for one position are skipped and counted. Sessions are the
    clusters of standard errors unless `session=` of the reading function names another column. Times (`at`) are those
    of the first row. A list of columns stands for their texts joined by "|".

    Logs of many queries: a document is as attractive as it suits a query, so an item is the pair of both. With
    `item=["query", "doc"]` and `items="from log"`, tables have one row per pair that occurs, not per combination.

    Parameters
    ----------
    session : str or list of str
        Column that identifies the round.
    position : str
        Column of positions from the top: decisions of the diagram, in the order of declaration.
    item : str, list of str or mapping
        Column of items; or columns by prefix or name of decisions, such as `{"A": "doc", "B": "price"}`.
    observed : mapping
        Columns by name of observed nodes, or by the part of their names before the number of the position: `{"C":
        "click"}` reads C1, C2, …
    context : mapping, optional
        Columns by context, constant in each session; by default, columns are called as the contexts.
    first : int, optional
        Number of the top position; by default 0 if it occurs in the log, else 1. Learning functions warn if 0 is in
        less than half of the sessions.

    Examples
    --------
    >>> import idbandits as idb
    >>> log = {"sid": [7, 7, 8], "pos": [1, 2, 1], "query": ["q", "q", "r"], "doc": [1, 2, 1], "click": [0, 1, 0]}
    >>> form = idb.Long(session="sid", position="pos", item=["query", "doc"], observed={"C": "click"})
    >>> counts = idb.count(lambda pairs: idb.models.cascade(pairs, 2, empty=True), log, format=form, items="from log")
    >>> counts.rounds, counts.diagram.nodes["A1"].values
    (2, ('q|1', 'q|2', 'r|1', '(nothing)'))
    >>> counts.uses["attraction"].tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    """

    session: Columns
    position: str
    item: Columns | Mapping[str, Columns]
    observed: Mapping[str, Columns]
    context: Mapping[str, Any] | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        _column_list("session", self.session)
        if not isinstance(self.position, str):
            raise LogError(f"Long: position must be the name of a column, got {brief(self.position)}")
        for name, own in [("item", self.item), ("observed", self.observed)]:
            if isinstance(own, Mapping) and own:
                for key, columns in own.items():
                    _column_list(f"{name}[{key!r}]", columns)
            elif name == "item":
                _column_list(name, own)
            elif not isinstance(own, Mapping):
                raise LogError(f"Long: observed must map names of nodes to columns, got {brief(own)}")
        if self.context is not None and not isinstance(self.context, Mapping):
            raise LogError(f"Long: context must map contexts to columns, got {brief(self.context)}")
        if self.first is not None:
            check_whole("Long: first", self.first, 0, error=LogError)

    def source(self, log: Any, options: Any) -> Source:
        """Return the source of the rows.

        Parameters
        ----------
        log : path, data frame, table, URL or mapping
            Log, as in `idb.count`.
        options : LogOptions
            Options of reading.
        """
        source = source_of(log, options.query)
        self._check(source, self._own_columns())
        return source

    def _own_columns(self) -> list[str]:
        items = self.item.values() if isinstance(self.item, Mapping) else [self.item]
        own = [self.session, self.position, *items, *self.observed.values()]
        return [name for columns in own for name in _listed(columns)]

    def _check(self, source: Source, columns: Sequence[str]) -> None:
        shown = shortened(", ".join(map(str, source.names))) or "none"
        if unknown := [name for name in columns if name not in source.names]:
            raise LogError(f"{source.name} must have the column {unknown[0]!r}, got {shown}")

    def item_columns(self, d: Diagram | None) -> dict[str | None, list[tuple[str, ...]]]:
        """Return the columns with labels of decisions by name of the decision; key None: of all decisions.

        Parameters
        ----------
        d : Diagram or None
            Diagram, if it is known.
        """
        if d is None or not isinstance(self.item, Mapping):
            items = self.item.values() if isinstance(self.item, Mapping) else [self.item]
            return {None: [_listed(own) for own in items]}
        cells = placed_nodes("item", self.item, d.of_kind("decision"))
        return {name: [columns] for name, (columns, _) in cells.items()}

    def prepared(self, source: Source, d: Diagram, side: SideColumns) -> tuple[Source, SideColumns, dict[str, Any]]:
        """Return the source of sessions, its further columns, and the columns of nodes.

        Parameters
        ----------
        source : Source
            Source of the rows.
        d : Diagram
            Diagram of the rounds.
        side : SideColumns
            Columns of weights, times and sessions.
        """
        decisions = d.of_kind("decision")
        if isinstance(self.item, Mapping):
            placed = placed_nodes("item", self.item, decisions)
        else:
            placed = {node.name: (_listed(self.item), k) for k, node in enumerate(decisions, 1)}
        placed |= placed_nodes("observed", self.observed, d.of_kind("observed"))
        values = list(dict.fromkeys(columns for columns, position in placed.values() if position))
        cells, constants, nodes = dict[str, tuple[int, int]](), dict[str, str](), dict[str, Any]()
        for name, (columns, position) in placed.items():
            if position:
                nodes[name] = f"{'|'.join(columns)} at position {position}"
                cells[nodes[name]] = values.index(columns), position
            else:
                nodes[name] = columns[0]
                constants[columns[0]] = columns[0]
        contexts, features = self._contexts(source, d)
        nodes |= contexts
        for name in [*(own for own in contexts.values() if isinstance(own, str)), *features]:
            constants[name] = name
        named = [name for name in (side.weight, side.session, *side.extra) if name is not None]
        for name in named:
            if name not in cells:
                constants[name] = name
        firsts = {} if side.at is None else {side.at: side.at}
        constants = {name: own for name, own in constants.items() if name not in firsts}
        pivot = Pivot(_listed(self.session), self.position, values, cells, constants, firsts, self.first)
        self._check(source, pivot.needed)
        own = side._replace(session=side.session or SESSION, flags=FLAGS, notes=pivot.notes)
        return LongSource(source, pivot), own, nodes

    def _contexts(self, source: Source, d: Diagram) -> tuple[dict[str, Any], list[str]]:
        """Return the columns of contexts, and columns of their features."""
        contexts = {node.name: node for node in d.of_kind("context")}
        columns: dict[str, Any] = dict(self.context or {})
        if unknown := [name for name in columns if name not in contexts]:
            listed = ", ".join(contexts) or "none"
            raise LogError(f"Long: context must have contexts of the diagram ({listed}), got {brief(unknown[0])}")
        for node in contexts.values():
            if node.features is None and node.name in source.names:
                columns.setdefault(node.name, node.name)
        features = list[str]()
        if any(node.features is not None for node in contexts.values()):
            model = compile(d)
            features = list(Log(({}, None, None, columns), [model]).feature_names(model))
            features = [name for name in source.names if name in features]
        return columns, features


def _listed(columns: Columns) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _column_list(name: str, columns: Any) -> None:
    """Raise unless columns are a name, or a list of names."""
    names = [columns] if isinstance(columns, str) else columns if isinstance(columns, (list, tuple)) else []
    if not names or not all(isinstance(own, str) for own in names):
        raise LogError(f"Long: {name} must be the name of a column, or a list of names, got {brief(columns)}")


def placed_nodes(
    argument: str, columns: Mapping[str, Columns], nodes: Sequence[Node]
) -> dict[str, tuple[tuple[str, ...], int]]:
    """Return columns and positions by node; position 0: the node is not numbered, its column is constant."""
    placed = dict[str, tuple[tuple[str, ...], int]]()
    exact = {node.name for node in nodes if node.name in columns}
    for prefix, own in columns.items():
        if prefix in exact:
            placed[prefix] = _listed(own), 0
            continue
        pattern = re.compile(re.escape(prefix) + r"[ _-]?(\d+)")
        numbers = {node.name: int(match[1]) for node in nodes if (match := pattern.fullmatch(node.name))}
        numbers = {name: number for name, number in numbers.items() if name not in exact}
        if not numbers:
            listed = shortened(", ".join(node.name for node in nodes)) or "none"
            needed = f"names of nodes, or what they have before the number of a position ({listed})"
            raise LogError(f"Long: {argument} must map {needed} to columns, got {brief(prefix)}")
        top = min(1, *numbers.values()) if len(numbers) > 1 else min(1, next(iter(numbers.values())))
        placed |= {name: (_listed(own), number - top + 1) for name, number in numbers.items()}
    return placed


__all__ = ["Long", "joined_columns"]
