"""PostgreSQL: results of queries as Arrow batches through server-side cursors, optionally with equal rounds grouped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from idbandits.logs.read.embedded_engine import quoted, shortened_message
from idbandits.logs.read.read_report import LogError
from idbandits.logs.read.sql_query import subquery

ROWS = 100_000  # of a batch
MOST_WEIGHT = 1e300  # weights above, and NaN, are left to the encoder, which reports them
CURSOR = "idbandits_log"


def driver() -> Any:
    """Import psycopg, or raise an error that names the extra."""
    try:
        import psycopg
    except ImportError:
        raise LogError("reading PostgreSQL needs psycopg: pip install 'idbandits[logs]'") from None
    return psycopg


def shown_url(url: str) -> str:
    """Return a URL without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def column_names(url: str, query: str) -> list[str]:
    """Return the columns of a query."""
    with _connection(url) as connection:
        return [column.name for column in _described(connection, url, subquery(query))]


def database_batches(url: str, query: str, columns: Sequence[str], rows: int = ROWS) -> Iterator[Any]:
    """Iterate over Arrow batches of some columns of a query; the result is not held in memory."""
    import pyarrow as pa

    with _connection(url) as connection:
        table = subquery(query)
        found = {column.name: column.type_code for column in _described(connection, url, table)}
        if unknown := [name for name in columns if name not in found]:
            raise LogError(f"query must have the column {unknown[0]!r}, got {', '.join(found)}")
        fields = [(name, _arrow_type(found[name])) for name in columns]
        schema = pa.schema([(name, kind or pa.string()) for name, kind in fields])
        selected = ", ".join(quoted(name) if kind is not None else f"{quoted(name)}::text" for name, kind in fields)
        done = 0
        try:
            with connection.cursor(CURSOR, binary=True) as cursor:
                cursor.execute(f"SELECT {selected} FROM {table}")
                while lines := cursor.fetchmany(rows):
                    arrays = [
                        pa.array(own, kind.type) for own, kind in zip(zip(*lines, strict=True), schema, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                    done += len(lines)
        except (driver().Error, pa.ArrowException, ValueError) as error:
            raise _failure(url, error, done) from error


def grouped_query(query: str, columns: Sequence[str], weight: str | None, name: str) -> str:
    """Return a query for the distinct rounds of another one, and column `name` with their numbers or total weights.

    Rows whose weight is missing or not a number >= 0 are not grouped, so that each is reported.
    """
    keys, total = ", ".join(map(quoted, columns)), quoted(name)
    grouping = f" GROUP BY {keys}" if columns else " HAVING count(*) > 0"
    selected = f"{keys}, " if columns else ""
    if weight is None:
        return f"SELECT {selected}count(*)::float8 AS {total} FROM {subquery(query)}{grouping}"
    own = f"{quoted(weight)}::float8"
    valid = f"({own} >= 0 AND {own} <= {MOST_WEIGHT!r}::float8)"
    return (
        f"WITH rounds AS (SELECT * FROM {subquery(query)}) "
        f"SELECT {selected}sum({own}) AS {total} FROM rounds WHERE {valid}{grouping} "
        f"UNION ALL SELECT {selected}{own} FROM rounds WHERE {valid} IS NOT TRUE"
    )


def _connection(url: str) -> Any:
    psycopg = driver()
    try:
        connection = psycopg.connect(url)
        connection.read_only = True
    except psycopg.Error as error:
        raise _failure(url, error) from None
    return connection


def _described(connection: Any, url: str, table: str) -> Any:
    try:
        return connection.execute(f"SELECT * FROM {table} LIMIT 0").description
    except driver().Error as error:
        raise _failure(url, error) from error


def _arrow_type(code: int) -> Any:
    """Return the Arrow type of a column, None if it is read as text."""
    import pyarrow as pa

    return {
        16: pa.bool_(), 20: pa.int64(), 21: pa.int64(), 23: pa.int64(), 25: pa.string(), 700: pa.float64(),
        701: pa.float64(), 1043: pa.string(), 1082: pa.date32(), 1114: pa.timestamp("us"),
        1184: pa.timestamp("us", "UTC"),
    }.get(code)  # fmt: skip


def _failure(url: str, error: BaseException, row: int = 0) -> LogError:
    where = f" after row {row - 1}" if row else ""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return LogError(f"{shown_url(url)} cannot be read{where}: {shortened_message(lines)}")
