"""DuckDB as the embedded engine: connections with bounded memory, scans of files, and streams of Arrow batches."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from idbandits.logs.read.read_report import LogError

MEMORY = "1GB"  # of DuckDB; what does not fit is written to a temporary folder
LONGEST_OBJECT = 16_000_000  # bytes of a JSON object


def duckdb_module() -> Any:
    """Import DuckDB, or raise an error that names the extra."""
    try:
        import duckdb
    except ImportError:
        raise LogError("reading this log needs DuckDB: pip install 'idbandits[logs]'") from None
    return duckdb


def connect() -> Any:
    """Open an in-memory database that spills to disk and loads no extensions from the network."""
    folder = os.path.join(tempfile.gettempdir(), f"idbandits-duckdb-{os.getpid()}")
    settings = {
        "memory_limit": MEMORY, "temp_directory": folder, "autoinstall_known_extensions": "false",
        "preserve_insertion_order": "true", "python_enable_replacements": "false",
    }  # fmt: skip
    connection = duckdb_module().connect(":memory:", config=settings)
    connection.execute("SET TimeZone = 'UTC'")
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0]:
        connection.execute("SET enable_progress_bar = false")  # an error in Jupyter without ipywidgets, where it is off
    return connection


def quoted(name: str) -> str:
    """Return an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def scan(files: Sequence[str], kind: str) -> str:
    """Return the SQL table of files of one kind: "parquet", or "jsonl" or "json" with one column `json`.

    In JSON lines, what is not JSON is null; files of one array of objects must be valid.
    """
    listed = "[" + ", ".join(literal(file) for file in files) + "]"
    if kind == "parquet":
        return f"read_parquet({listed}, union_by_name = true)"
    form = "format = 'newline_delimited', ignore_errors = true" if kind == "jsonl" else "format = 'auto'"
    return f"read_json_objects({listed}, {form}, maximum_object_size = {LONGEST_OBJECT})"


def names_of(connection: Any, table: str, files: Sequence[str] = ()) -> list[str]:
    """Return the columns of an SQL table."""
    return list(types_of(connection, table, files))


def types_of(connection: Any, table: str, files: Sequence[str] = ()) -> dict[str, str]:
    """Return the SQL types of the columns of an SQL table."""
    described = run(connection, f"DESCRIBE SELECT * FROM {table}", files).fetchall()
    return {name: kind for name, kind, *_ in described}


def count_of(connection: Any, table: str, files: Sequence[str] = ()) -> int:
    """Return the number of rows of an SQL table."""
    return int(run(connection, f"SELECT count(*) FROM {table}", files).fetchone()[0])


def rows_of(connection: Any, query: str, files: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a small result."""
    return list(run(connection, query, files).fetchall())


def stream(connection: Any, query: str, rows: int, files: Sequence[str] = ()) -> Iterator[Any]:
    """Iterate over the Arrow batches of a query without holding its result."""
    import pyarrow

    done = 0
    try:
        relation = connection.sql(query)
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # before DuckDB 1.5
        for batch in read(rows):
            done += batch.num_rows
            yield batch
    except (duckdb_module().Error, pyarrow.ArrowException, UnicodeError, OSError) as error:
        raise failure(files, error, done) from error


def failure(files: Sequence[str], error: BaseException, row: int | None = None) -> LogError:
    """Return the error of files that cannot be read."""
    shown = files[0] if len(files) == 1 else f"one of {len(files)} files ({files[0]}, …)" if files else "the log"
    where = "" if not row else f" after row {row - 1}"
    return LogError(f"{shown} cannot be read{where}: {message_of(error)}")


def message_of(error: BaseException) -> str:
    """Return the first lines of the message of an error."""
    return shortened_message(str(error).strip().splitlines() or [type(error).__name__])


def shortened_message(lines: Sequence[str]) -> str:
    """Return the first lines of a message of another library."""
    text = " ".join(" ".join(lines[:3]).split())
    return text if len(text) <= 300 else text[:300] + "…"


def run(connection: Any, query: str, files: Sequence[str], row: int | None = None) -> Any:
    """Run a query on some files; `row` is the number of rows that were read before."""
    try:
        return connection.execute(query)
    except (duckdb_module().Error, UnicodeError, OSError) as error:
        raise failure(files, error, row) from error
