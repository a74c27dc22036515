"""Files of JSON objects, one per line or in an array, as columns of texts; what is not an object is counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from idbandits.logs.read import embedded_engine as engine
from idbandits.logs.read.embedded_engine import literal, quoted
from idbandits.logs.read.log_source import Chunk
from idbandits.logs.read.read_report import MOST_EXAMPLES, LogError, Place, ReadReport
from idbandits.logs.read.stored_batches import check_cases

SAMPLE = 20_480  # objects of a file from which columns are found
MOST_COLUMNS = 10_000
INVALID = "a line is not a JSON object"
OBJECT = "coalesce(json_type(json) = 'OBJECT', false)"


@final
class JsonFiles:
    """Files of JSON objects that DuckDB reads one after the other; names are those of the objects."""

    untyped = True

    def __init__(self, files: Sequence[str], name: str, kind: str) -> None:
        self.files, self.name, self._kind = list(files), name, kind
        self._connection = engine.connect()
        self.names = list(dict.fromkeys(name for file in self.files for name in self._names(file)))

    def _names(self, file: str) -> list[str]:
        """Return the names in the first objects of a file, in order of appearance."""
        sample = f"SELECT json FROM {engine.scan([file], self._kind)} LIMIT {SAMPLE}"
        keys = f"SELECT json_keys(json) AS keys, row_number() OVER () AS n FROM ({sample}) WHERE {OBJECT}"
        listed = f"SELECT unnest(keys) AS key, generate_subscripts(keys, 1) AS k, n FROM ({keys})"
        query = f"SELECT key FROM ({listed}) GROUP BY key ORDER BY min((n, k)) LIMIT {MOST_COLUMNS + 1}"
        names = [name for (name,) in engine.rows_of(self._connection, query, [file])]
        if not names:
            raise LogError(f"{file} must have JSON objects with values by name of a column, got none")
        if len(names) > MOST_COLUMNS:
            raise LogError(f"{file} must have at most {MOST_COLUMNS:,} columns, got more")
        return names

    def count(self) -> int | None:
        """Return None: objects must be counted."""
        return None

    def chunks(self, columns: Sequence[str], rows: int, report: ReadReport) -> Iterator[Chunk]:
        """Iterate over batches of one file after the other; values are texts, nested ones as JSON."""
        import numpy as np

        for file in self.files:
            row = 0
            query = f"SELECT {OBJECT} AS valid, * EXCLUDE json FROM {self._values([file], columns)}"
            for batch in engine.stream(self._connection.cursor(), query, rows, [file]):
                valid, own = (
                    batch.column(0).to_numpy(zero_copy_only=False),
                    batch.select([*range(1, batch.num_columns)]),
                )
                own = own.rename_columns(list(columns)) if columns else batch
                if valid.all():
                    yield Chunk(own, file, row)
                else:
                    invalid = [Place(file, row + int(k)) for k in np.flatnonzero(~valid)[:MOST_EXAMPLES]]
                    report.skip(INVALID, int((~valid).sum()), invalid)
                    yield Chunk(own.filter(batch.column(0)), file, row + np.flatnonzero(valid))
                row += batch.num_rows

    def table(self, connection: Any, columns: Sequence[str] | None = None, report: ReadReport | None = None) -> str:
        """Return the SQL table of the objects of all files."""
        names = self.names if columns is None else list(columns)
        check_cases(names, self.name)
        own = report if report is not None else ReadReport(self.name)
        for file in self.files if report is not None else ():
            rows = f"SELECT row_number() OVER () - 1 AS n, json FROM {engine.scan([file], self._kind)}"
            query = f"SELECT count(*), min(n) FROM ({rows}) WHERE NOT {OBJECT}"
            ((number, first),) = engine.rows_of(connection, query, [file])
            own.skip(INVALID, number, [Place(file, first)])
        renamed = "".join(f", c{k} AS {quoted(name)}" for k, name in enumerate(names))
        return f"(SELECT 0{renamed} FROM {self._values(self.files, names)} WHERE {OBJECT})"

    def _values(self, files: Sequence[str], columns: Sequence[str]) -> str:
        """Return the SQL table of files with the columns `json` and c0, c1, …: texts of the named values."""
        scan = engine.scan(files, self._kind)
        if not columns:
            return scan
        pointers = ", ".join(literal("/" + name.replace("~", "~0").replace("/", "~1")) for name in columns)
        read = f"SELECT json, json_extract_string(json, [{pointers}]) AS texts FROM {scan}"
        return f"(SELECT json{''.join(f', texts[{k + 1}] AS c{k}' for k in range(len(columns)))} FROM ({read}))"
