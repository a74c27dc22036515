"""Protocol of sources of logs, and sources of data that libraries return as Arrow batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, final

from idbandits.errors import brief
from idbandits.kernel.array_types import Ints
from idbandits.logs.read.embedded_engine import failure
from idbandits.logs.read.read_report import LogError, ReadReport
from idbandits.logs.read.stored_batches import stored

MOST_ROWS = 1_000_000  # of a batch that is copied


class Chunk(NamedTuple):
    """Arrow batch of a source; `row` is the number of its first row there, or the numbers of all its rows."""

    batch: Any
    source: str
    row: int | Ints


class Source(Protocol):
    """Table that can be read in batches, from its start each time."""

    name: str
    names: list[str]
    untyped: bool  # values are texts

    def count(self) -> int | None:
        """Return the number of rows if that is cheap to find."""

    def chunks(self, columns: Sequence[str], rows: int, report: ReadReport) -> Iterator[Chunk]:
        """Iterate over batches of some columns; rows that cannot be read are added to the report."""

    def table(self, connection: Any, columns: Sequence[str] | None = None, report: ReadReport | None = None) -> str:
        """Return the SQL table of the source, or of some columns of it, in a connection of DuckDB.

        Rows that cannot be read are added to the report.
        """


@final
class ArrowSource:
    """Data that can be read repeatedly as a stream of Arrow batches."""

    untyped = False

    def __init__(self, name: str, names: Sequence[str], read: Callable[[Sequence[str]], Any], rows: int | None) -> None:
        self.name, self.names, self._read, self._rows = name, list(names), read, rows
        check_names(self.names, name)

    def count(self) -> int | None:
        """Return the number of rows, where the data knows it."""
        return self._rows

    def chunks(self, columns: Sequence[str], rows: int, report: ReadReport) -> Iterator[Chunk]:
        """Iterate over batches, of at most as many rows as asked for."""
        row = 0
        try:
            for batch in self._read(columns):
                for first in range(0, batch.num_rows, rows):
                    own = batch.slice(first, rows)
                    yield Chunk(own, self.name, row)
                    row += own.num_rows
        except LogError:
            raise
        except Exception as error:  # of any library
            raise failure([self.name], error, row) from error

    def table(self, connection: Any, columns: Sequence[str] | None = None, report: ReadReport | None = None) -> str:
        """Copy columns into a temporary table, which may exceed memory."""
        names = self.names if columns is None else columns
        own = report if report is not None else ReadReport(self.name)
        return stored(connection, (chunk.batch for chunk in self.chunks(names, MOST_ROWS, own)), names, self.name)


def check_names(names: Sequence[str], source: str) -> None:
    """Raise unless the columns of a source have different names."""
    if len(set(names)) < len(names):
        repeated = Counter(names).most_common(1)[0][0]
        raise LogError(f"{source}: columns must have different names, got {brief(repeated)} twice")
