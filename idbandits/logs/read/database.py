"""Logs in databases: PostgreSQL, and files of SQLite and DuckDB, read with a query."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, final
from urllib.request import pathname2url

from idbandits.errors import brief
from idbandits.logs.read import embedded_engine as engine
from idbandits.logs.read.embedded_engine import quoted
from idbandits.logs.read.log_source import ArrowSource, Chunk
from idbandits.logs.read.read_report import LogError, ReadReport
from idbandits.logs.read.sql_query import subquery

ROWS = 50_000  # of a batch


@final
class Database:
    """Result of a query, which is run again whenever the log is read; databases are opened for reading only.

    URLs are `postgresql://…`, `sqlite:///folder/file.db` or `duckdb:///folder/file.db`; a fourth slash begins an
    absolute path.
    """

    untyped = False

    def __init__(self, url: str, query: str | None) -> None:
        if not isinstance(query, str) or not query.strip():
            raise LogError(f"query must be the SQL that selects the log from the database, got {brief(query)}")
        kind, _, path = url.partition("://")
        if kind in ("sqlite", "duckdb"):
            own = _file(url, path)
            self._rows = _of_sqlite(own, query) if kind == "sqlite" else _of_duckdb(own, query)
        else:
            from idbandits.logs.engines.postgres_source import column_names, database_batches, shown_url

            names = column_names(url, query)
            self._rows = ArrowSource(shown_url(url), names, lambda own: database_batches(url, query, own), None)
        self.name, self.names = self._rows.name, self._rows.names

    def count(self) -> int | None:
        """Return None: the rows of a query must be counted."""
        return None

    def chunks(self, columns: Sequence[str], rows: int, report: ReadReport) -> Iterator[Chunk]:
        """Iterate over batches of the result."""
        return self._rows.chunks(columns, rows, report)

    def table(self, connection: Any, columns: Sequence[str] | None = None, report: ReadReport | None = None) -> str:
        """Copy columns of the result into a temporary table, which may exceed memory."""
        return self._rows.table(connection, columns, report)


def _file(url: str, path: str) -> str:
    own = path[1:] if path.startswith("/") else ""
    if not own or not os.path.isfile(own):
        raise LogError(f"log must be the URL of an existing database, such as sqlite:///log.db, got {brief(url)}")
    return own


def _of_duckdb(file: str, query: str) -> ArrowSource:
    duckdb, settings = engine.duckdb_module(), {"memory_limit": engine.MEMORY}
    try:
        connection = duckdb.connect(file, read_only=True, config=settings)
    except duckdb.Error as error:
        raise engine.failure([file], error) from error

    def read(columns: Sequence[str]) -> Iterator[Any]:
        selected = ", ".join(map(quoted, columns)) or "1"
        return engine.stream(connection.cursor(), f"SELECT {selected} FROM {subquery(query)}", ROWS, [file])

    return ArrowSource(file, engine.names_of(connection, subquery(query), [file]), read, None)


def _sqlite(file: str) -> Any:
    return closing(
        sqlite3.connect(f"file:{pathname2url(os.path.abspath(file))}?mode=ro", uri=True, check_same_thread=False)
    )


def _of_sqlite(file: str, query: str) -> ArrowSource:
    try:
        with _sqlite(file) as connection:
            names = [own[0] for own in connection.execute(f"SELECT * FROM {subquery(query)} LIMIT 0").description]
    except sqlite3.Error as error:
        raise engine.failure([file], error) from error
    return ArrowSource(file, names, lambda own: _sqlite_batches(file, query, own), None)


def _sqlite_batches(file: str, query: str, columns: Sequence[str]) -> Iterator[Any]:
    """Iterate over Arrow batches; columns with values of several types are read as texts."""
    import pyarrow

    done = 0
    try:
        with _sqlite(file) as connection:
            connection.text_factory = lambda own: own.decode("utf-8", "replace")
            table = subquery(query)
            schema = pyarrow.schema([(name, _sqlite_type(connection, table, name)) for name in columns])
            selected = ", ".join(map(quoted, columns)) or "1"
            cursor = connection.execute(f"SELECT {selected} FROM {table}")
            while lines := cursor.fetchmany(ROWS):
                own = zip(zip(*lines, strict=True), schema, strict=bool(columns))
                arrays = [pyarrow.array([_as(value, kind.type) for value in v], kind.type) for v, kind in own]
                yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
                done += len(lines)
    except sqlite3.Error as error:
        raise engine.failure([file], error, done) from error


def _sqlite_type(connection: Any, table: str, name: str) -> Any:
    """Return the Arrow type of a column: SQLite has types of values, not of columns."""
    import pyarrow

    query = f"SELECT DISTINCT typeof({quoted(name)}) FROM {table}"
    kinds = {kind for (kind,) in connection.execute(query)} - {"null"}
    if kinds <= {"integer"}:
        return pyarrow.int64()
    return pyarrow.float64() if kinds <= {"integer", "real"} else pyarrow.string()


def _as(value: Any, kind: Any) -> Any:
    import pyarrow.types as types

    if value is None or not types.is_string(kind) or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
