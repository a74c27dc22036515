"""Arrow batches in temporary tables of DuckDB, which may exceed memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from idbandits.errors import brief
from idbandits.logs.read import embedded_engine as engine
from idbandits.logs.read.read_report import LogError

ROWS = 200_000  # that are stored at once
_NUMBERS = itertools.count()  # of temporary tables


def stored(connection: Any, batches: Iterable[Any], names: Sequence[str], source: str = "log") -> str:
    """Copy batches with columns `names` into a temporary table; return its name."""
    check_cases(names, source)
    table, part, row = f"log_rows_{next(_NUMBERS)}", "log_part", 0
    for rows in _gathered(batches):
        connection.register(part, rows)
        begin = f"CREATE TABLE {table} AS" if not row else f"INSERT INTO {table}"
        engine.run(connection, f"{begin} SELECT * FROM {part}", [source], row)
        connection.unregister(part)
        row += rows.num_rows
    if not row:
        nulls = ", ".join(f"NULL::VARCHAR AS {engine.quoted(own)}" for own in names) or "1"
        engine.run(connection, f"CREATE TABLE {table} AS SELECT {nulls} WHERE false", [source])
    return table


def check_cases(names: Sequence[str], source: str) -> None:
    """Raise for columns whose names differ only in upper and lower case, which are equal in SQL."""
    folded = dict[str, str]()
    for name in names:
        if (other := folded.setdefault(name.lower(), name)) != name:
            needed = "columns must have names that differ in more than upper and lower case"
            raise LogError(f"{source}: {needed}, got {brief(other)} and {brief(name)}")


def _gathered(batches: Iterable[Any]) -> Iterator[Any]:
    """Join small batches to tables of at least `ROWS` rows, if there are as many."""
    import pyarrow

    waiting = list[Any]()
    for batch in batches:
        if batch.num_rows:
            batch, _ = with_valid_texts(batch)
            waiting.append(batch if not waiting or batch.schema == waiting[0].schema else batch.cast(waiting[0].schema))
        if sum(own.num_rows for own in waiting) >= ROWS:
            yield pyarrow.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pyarrow.Table.from_batches(waiting)


def with_valid_texts(batch: Any) -> tuple[Any, int]:
    """Return a batch without dictionaries whose texts are valid UTF-8, and the number of texts that were changed.

    Columns of nulls become texts. DuckDB does not validate texts of Arrow batches.
    """
    import pyarrow
    import pyarrow.types as types

    columns, changed = list[Any](), 0
    for column in batch.columns:
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if types.is_null(column.type):
            column = column.cast(pyarrow.string())
        column, number = with_valid_text(column)
        changed += number
        columns.append(column)
    return pyarrow.RecordBatch.from_arrays(columns, batch.schema.names), changed


def with_valid_text(column: Any) -> tuple[Any, int]:
    """Return an array whose texts are valid UTF-8, and the number of texts that were changed."""
    import pyarrow
    import pyarrow.types as types

    if not (types.is_string(column.type) or types.is_large_string(column.type) or types.is_string_view(column.type)):
        return column, 0
    try:
        column.validate(full=True)
        return column, 0
    except pyarrow.ArrowInvalid:
        pass
    texts, changed = list[str | None](), 0
    for value in column.cast(pyarrow.large_binary()).to_pylist():
        text = None if value is None else value.decode("utf-8", "replace")
        changed += text is not None and text.encode() != value
        texts.append(text)
    return pyarrow.array(texts, pyarrow.large_string()).cast(column.type), changed
