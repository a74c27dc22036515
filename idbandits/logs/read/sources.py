"""Sources of logs: files, frames, Arrow data, relations of DuckDB, databases and Ibis tables as streams of batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from idbandits.diagram.features.dataframes import is_lazy
from idbandits.errors import ODD, brief
from idbandits.logs.read import embedded_engine as engine
from idbandits.logs.read.file_sources import files_of, kind_of, source_of_files
from idbandits.logs.read.log_source import ArrowSource, Source, check_names
from idbandits.logs.read.read_report import LogError
from idbandits.logs.read.stored_batches import stored

__all__ = ["ArrowSource", "is_ibis", "is_spark", "kind_of", "source_of"]


def is_spark(log: Any) -> bool:
    """Return True for data frames of Spark, which its executors read."""
    return type(log).__module__.startswith("pyspark.sql") and hasattr(log, "mapInArrow")


def is_ibis(log: Any) -> bool:
    """Return True for tables of Ibis."""
    return type(log).__module__.startswith("ibis.") or (
        hasattr(log, "to_pyarrow_batches") and hasattr(log, "select") and hasattr(log, "columns")
    )


def source_of(log: Any, query: str | None = None) -> Source:
    """Return the source that reads a log of any kind."""
    if isinstance(log, str) and log.startswith(("postgresql://", "postgres://", "sqlite://", "duckdb://")):
        from idbandits.logs.read.database import Database

        return Database(log, query)
    if query is not None:
        raise LogError(f"query must be given with the URL of a database, got the log {brief(log)}")
    if isinstance(log, (str, os.PathLike)) or (isinstance(log, (list, tuple)) and log):
        if not all(isinstance(own, (str, os.PathLike)) for own in (log if isinstance(log, (list, tuple)) else [log])):
            raise LogError(f"log must be paths, a data frame, or arrays by node name, got {brief(log)}")
        return source_of_files(files_of(log))
    if is_spark(log):
        raise LogError("log: a Spark data frame is read by its executors; this function needs a log in one process")
    try:
        source = _source_of_data(log)
    except LogError:
        raise
    except Exception as error:  # of any library
        raise LogError(f"log cannot be read as a table: {engine.message_of(error)}") from error
    if source is None:
        kinds = "paths of files, a data frame, an Arrow table, reader or dataset, a relation of DuckDB, a database URL"
        raise LogError(f"log must be {kinds} or arrays by node name, got {brief(log)}")
    return source


def _source_of_data(log: Any) -> Source | None:
    import pyarrow

    module = type(log).__module__
    if is_lazy(log):
        names = list(log.collect_schema().names())
        return ArrowSource("lazy frame", names, lambda own: _lazy_batches(log, own), None)
    if isinstance(log, Mapping):
        return _of_table(_table_of_mapping(log), "arrays")
    if isinstance(log, pyarrow.RecordBatch):
        return _of_table(pyarrow.Table.from_batches([log]), "Arrow batch")
    if isinstance(log, pyarrow.Table):
        return _of_table(log, "Arrow table")
    if isinstance(log, pyarrow.RecordBatchReader):
        return _of_reader(log)
    if module.startswith(("duckdb", "_duckdb")) and hasattr(log, "to_arrow_reader"):
        return ArrowSource("relation", log.columns, lambda own: _selected(log, own), None)
    if module.startswith("pyarrow.") and hasattr(log, "scanner"):
        return ArrowSource("dataset", log.schema.names, lambda own: log.to_batches(columns=list(own)), None)
    if is_ibis(log):
        return ArrowSource("Ibis table", list(log.columns), lambda own: log.select(*own).to_pyarrow_batches(), None)
    if module.split(".")[0] == "pandas" and hasattr(log, "columns"):
        check_names([str(name) for name in log.columns], "data frame")
        return _of_table(_table_of_mapping({name: log[name] for name in log.columns}), "data frame")
    if hasattr(log, "to_arrow") and hasattr(log, "columns"):
        return _of_table(log.to_arrow(), "data frame")
    if hasattr(log, "__arrow_c_stream__"):
        return _of_reader(pyarrow.RecordBatchReader.from_stream(log))
    return None


def _of_table(table: Any, name: str) -> ArrowSource:
    return ArrowSource(name, table.schema.names, lambda own: table.select(list(own)).to_batches(), table.num_rows)


def _of_reader(reader: Any) -> ArrowSource:
    """Copy a reader, which can be read only once, into a temporary table, which may exceed memory."""
    connection = engine.connect()
    names = reader.schema.names
    check_names(names, "reader")
    table = stored(connection, _one_time(reader), names, "reader")

    def read(own: Sequence[str]) -> Iterator[Any]:
        selected = ", ".join(map(engine.quoted, own)) or "1"
        return engine.stream(connection.cursor(), f"SELECT {selected} FROM {table}", 200_000)

    return ArrowSource("reader", names, read, engine.count_of(connection, table))


def _one_time(reader: Any) -> Iterator[Any]:
    row = 0
    try:
        for batch in reader:
            yield batch
            row += batch.num_rows
    except Exception as error:  # of any library
        raise engine.failure(["reader"], error, row) from error


def _selected(relation: Any, columns: Sequence[str]) -> Any:
    return relation.project(", ".join(map(engine.quoted, columns)) or "1").to_arrow_reader(200_000)


def _lazy_batches(log: Any, columns: Sequence[str]) -> Iterator[Any]:
    """Stream a lazy frame of Polars."""
    frame = log.select(list(columns))
    for own in frame.collect_batches(chunk_size=200_000, maintain_order=True):
        yield from own.to_arrow().to_batches()


def _table_of_mapping(log: Mapping[Any, Any]) -> Any:
    """Return columns of any library as an Arrow table; values of mixed types become texts."""
    import pyarrow

    from idbandits.diagram.features.read_column import is_arrow

    columns = dict[str, Any]()
    for name, data in log.items():
        try:
            own = data.to_arrow() if hasattr(data, "to_arrow") else data
            if is_arrow(own):
                columns[str(name)] = own
            elif hasattr(data, "dtype") or hasattr(data, "isna"):
                columns[str(name)] = pyarrow.array(data, from_pandas=True)
            else:
                columns[str(name)] = pyarrow.array(list(data), from_pandas=True)
        except (pyarrow.ArrowException, *ODD):
            columns[str(name)] = _texts(str(name), data)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {length}" for name, length in list(lengths.items())[:3])
        raise LogError(f"log: columns must have equal lengths, got {listed}")
    return pyarrow.table(columns)


def _texts(name: str, data: Any) -> Any:
    """Return a column of mixed values as texts, which labels are compared with."""
    import pyarrow

    from idbandits.diagram.features.read_column import read_column

    try:
        raw = read_column(data)
        if raw.values.ndim != 1:
            raise LogError(f"log: column {name!r} must have one value per round, got {brief(data)}")
        values = [None if value is None else str(value).encode("utf-8", "replace").decode() for value in raw.tolist()]
        return pyarrow.array(values, pyarrow.string())
    except LogError:
        raise
    except ODD as error:
        raise LogError(f"log: column {name!r} cannot be read: {engine.message_of(error)}") from None
