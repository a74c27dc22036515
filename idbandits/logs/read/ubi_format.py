"""OpenSearch User Behavior Insights: queries and events as logs of shown items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from idbandits.diagram.diagram import Diagram
from idbandits.errors import brief
from idbandits.logs.read import embedded_engine as engine
from idbandits.logs.read.embedded_engine import literal, quoted
from idbandits.logs.read.encoder import SideColumns
from idbandits.logs.read.log_source import Chunk, Source
from idbandits.logs.read.long_format import Long
from idbandits.logs.read.read_report import LogError, ReadReport
from idbandits.logs.read.sources import source_of

HITS = ("query_response_hit_ids", "query_response_objects_ids")
FIELDS = ("user_query", "timestamp", "client_id", "session_id", "application")
OBJECT, ORDINAL = "event_attributes.object.object_id", "event_attributes.position.ordinal"
Actions = Mapping[str, str]


@final
@dataclass(frozen=True)
class UBI:
    """Format of the indices `ubi_queries` and `ubi_events` of OpenSearch, exported as JSON lines or as frames.

    The log is `{"queries": …, "events": …}`, or the events alone; a round is a `query_id`. Shown items are
    `query_response_hit_ids` of the queries, in their order; or, if these are not there, events of `impression` with
    `event_attributes.object.object_id` and `event_attributes.position.ordinal`. Nested fields may be flat columns with
    dots in their names. `timestamp`, `client_id`, `session_id` and `application` can be named as columns.

    Parameters
    ----------
    observed : mapping
        Action by prefix of nodes, such as `{"C": "click", "B": "purchase"}`: a node is 1 if an event of the query has
        this `action_name` and the object.
    impression : sequence of str
        Values of `action_name` of events that show an item.
    context : mapping, optional
        Field of the queries by context (of impressions, without queries), such as "user_query" or
        "query_attributes.device".
    pairs : bool
        Items are "user_query|object_id".

    Examples
    --------
    >>> import idbandits as idb
    >>> queries = {"query_id": ["a", "b"], "query_response_hit_ids": [["x", "y"], ["y", "x"]]}
    >>> events = {"query_id": ["a"], "action_name": ["click"], "event_attributes.object.object_id": ["y"]}
    >>> log = {"queries": queries, "events": events}
    >>> idb.count(idb.models.cascade(["x", "y"], 2), log, format=idb.formats.UBI()).uses["attraction"].tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """

    observed: Actions = field(default_factory=lambda: {"C": "click"})
    impression: Sequence[str] = ("impression", "impressions")
    context: Mapping[str, str] | None = None
    pairs: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.observed, Mapping) or not self.observed:
            raise LogError(f"UBI: observed must map prefixes of nodes to names of actions, got {brief(self.observed)}")

    def source(self, log: Any, options: Any) -> Source:
        """Return the source of shown items.

        Parameters
        ----------
        log : mapping, or path, data frame, table or URL
            Queries and events, or events alone.
        options : LogOptions
            Options of reading.
        """
        queries, events = None, log
        if isinstance(log, Mapping) and set(log) <= {"queries", "events"}:
            if "events" not in log:
                raise LogError("log must have the key 'events', got only 'queries'")
            queries, events = log.get("queries"), log["events"]
        read = None if queries is None else source_of(queries, options.query)
        return ShownItems(read, source_of(events, options.query), self)

    @property
    def _long(self) -> Long:
        item = ["user_query", "object_id"] if self.pairs else "object_id"
        observed = {prefix: f"action {action}" for prefix, action in self.observed.items()}
        return Long("query_id", "position", item, observed, self.context)

    def item_columns(self, d: Diagram | None) -> dict[str | None, list[tuple[str, ...]]]:
        """Return the columns with labels of items.

        Parameters
        ----------
        d : Diagram or None
            Diagram, if it is known.
        """
        return self._long.item_columns(d)

    def prepared(self, source: Source, d: Diagram, side: SideColumns) -> tuple[Source, SideColumns, dict[str, Any]]:
        """Return the source of rounds, its further columns, and the columns of nodes.

        Parameters
        ----------
        source : Source
            Source of shown items.
        d : Diagram
            Diagram of the rounds.
        side : SideColumns
            Columns of weights, times and sessions.
        """
        return self._long.prepared(source, d, side)


@final
class ShownItems:
    """Source with one row per shown item."""

    untyped = True

    def __init__(self, queries: Source | None, events: Source, form: UBI) -> None:
        self._queries, self._events, self._form = queries, events, form
        self.name = events.name if queries is None else f"{queries.name} and {events.name}"
        self._fields = list(dict.fromkeys([*FIELDS, *(form.context or {}).values()]))
        self._actions = list(dict.fromkeys(form.observed.values()))
        self.names = ["query_id", "position", "object_id", *self._fields, *(f"action {own}" for own in self._actions)]
        for source, needed in [(queries, ["query_id"]), (events, ["query_id", "action_name"])]:
            if source is not None and (missing := [name for name in needed if name not in source.names]):
                raise LogError(f"{source.name} must have the column {missing[0]!r}, got {brief(source.names)}")

    def count(self) -> int | None:
        """Return None: shown items must be counted."""
        return None

    def chunks(self, columns: Sequence[str], rows: int, report: ReadReport) -> Iterator[Chunk]:
        """Iterate over batches of shown items."""
        connection, row = engine.connect(), 0
        query = f"SELECT {', '.join(map(quoted, columns)) or '1'} FROM {self.table(connection, None, report)}"
        for batch in engine.stream(connection, query, rows, [self.name]):
            yield Chunk(batch, self.name, row)
            row += batch.num_rows

    def table(self, connection: Any, columns: Sequence[str] | None = None, report: ReadReport | None = None) -> str:
        """Return the SQL table of shown items, with a column of 0 and 1 for each action."""
        shown, acted = self._parts(connection, report)
        actions = "".join(f", max((a.act = {literal(own)})::TINYINT) AS k{i}" for i, own in enumerate(self._actions))
        flags = "".join(f", coalesce(e.k{i}, 0) AS {quoted('action ' + own)}" for i, own in enumerate(self._actions))
        grouped = f"SELECT q, item{actions} FROM ({acted}) AS a GROUP BY q, item"
        matches = "s.query_id = e.q AND s.object_id = e.item"
        numbered = f"SELECT *, row_number() OVER () AS n FROM ({shown})"
        joined = f"({numbered}) AS s LEFT JOIN ({grouped}) AS e ON {matches}"
        return f"(SELECT s.* EXCLUDE n{flags} FROM {joined} ORDER BY s.n)"

    def note(self, connection: Any, report: ReadReport) -> None:
        """Count events on objects that were not shown."""
        shown, acted = self._parts(connection)
        query = (
            f"SELECT count(*) FROM ({acted}) AS a WHERE NOT EXISTS "
            f"(SELECT 1 FROM ({shown}) AS s WHERE s.query_id = a.q AND s.object_id = a.item)"
        )
        number = int(engine.rows_of(connection, query, [self.name])[0][0])
        report.note("events on objects that were not shown, which were ignored", number)

    def _parts(self, connection: Any, report: ReadReport | None = None) -> tuple[str, str]:
        """Return the queries of shown items and of actions; what cannot be read is added to the report."""
        events = _Fields(connection, self._events, report)
        names = ", ".join(map(literal, self._actions))
        acted = (
            f"SELECT {events.text('query_id')} AS q, {events.text(OBJECT)} AS item, "
            f"{events.text('action_name')} AS act FROM {events.table} WHERE {events.text('action_name')} IN ({names})"
        )
        if self._queries is not None:
            queries = _Fields(connection, self._queries, report)
            if hits := next((name for name in HITS if name in self._queries.names), None):
                own, ids = self._own_fields(queries), queries.texts(hits)
                inner = f"SELECT {queries.text('query_id')} AS query_id, {ids} AS ids{own} FROM {queries.table}"
                listed = "".join(f", {quoted(name)}" for name in self._fields)
                unnested = "generate_subscripts(ids, 1) AS position, unnest(ids) AS object_id"
                return f"SELECT query_id, {unnested}{listed} FROM ({inner})", acted
        impressions = ", ".join(map(literal, self._form.impression))
        own = (
            f"{events.text('query_id')} AS query_id, {events.text(ORDINAL)} AS position, "
            f"{events.text(OBJECT)} AS object_id"
        )
        where = f"WHERE {events.text('action_name')} IN ({impressions})"
        if self._queries is None:
            return f"SELECT {own}{self._own_fields(events)} FROM {events.table} {where}", acted
        own += ", row_number() OVER () AS m"
        asked = f"SELECT {queries.text('query_id')} AS id{self._own_fields(queries)} FROM {queries.table}"
        listed = "".join(f", any_value({quoted(name)}) AS {quoted(name)}" for name in self._fields)
        once = f"SELECT id{listed} FROM ({asked}) GROUP BY id"
        joined = f"(SELECT {own} FROM {events.table} {where}) AS i LEFT JOIN ({once}) AS q ON i.query_id = q.id"
        fields = "".join(f", q.{quoted(name)}" for name in self._fields)
        return f"SELECT i.* EXCLUDE m{fields} FROM {joined} ORDER BY i.m", acted

    def _own_fields(self, own: _Fields) -> str:
        return "".join(f", {own.text(name)} AS {quoted(name)}" for name in self._fields)


@final
class _Fields:
    """Fields of a source, which may be nested, as SQL."""

    def __init__(self, connection: Any, source: Source, report: ReadReport | None) -> None:
        self.table = source.table(connection, None, report)
        described = engine.rows_of(connection, f"DESCRIBE SELECT * FROM {self.table}", [source.name])
        self._kinds = {name: kind for name, kind, *_ in described}

    def text(self, path: str) -> str:
        """Return the SQL of a field as text; null if there is none."""
        if path in self._kinds:
            return f"{quoted(path)}::VARCHAR"
        root, _, rest = path.partition(".")
        if not rest or root not in self._kinds:
            return "NULL::VARCHAR"
        steps = "".join(f'."{step}"' for step in rest.replace('"', "").split("."))
        return f"json_extract_string({self._json(root)}, {literal('$' + steps)})"

    def texts(self, name: str) -> str:
        """Return the SQL of a list of texts."""
        if self._kinds[name].endswith("[]"):
            return f"{quoted(name)}::VARCHAR[]"
        return f"from_json({self._json(name)}, '[\"VARCHAR\"]')"

    def _json(self, name: str) -> str:
        is_text = self._kinds[name] in ("VARCHAR", "JSON")
        return f"TRY_CAST({quoted(name)} AS JSON)" if is_text else f"to_json({quoted(name)})"
