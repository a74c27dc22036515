"""CSV files as streams of Arrow batches of texts; lines that do not fit the header are counted and left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, final

from idbandits.errors import ODD
from idbandits.logs.read.embedded_engine import failure
from idbandits.logs.read.log_source import Chunk, check_names
from idbandits.logs.read.read_report import MOST_EXAMPLES, LogError, Place, ReadReport
from idbandits.logs.read.stored_batches import stored, with_valid_texts

DELIMITERS = (",", ";", "\t", "|")
BLOCK = 4 << 20  # bytes that are read at once: no line can be longer
HEAD = 1 << 16  # bytes in which the header must end for its delimiter to be found
MOST_PIECES = 16  # of a batch that is divided at lines that were left out, so that rows have their numbers
MISMATCH = "a line has more or fewer values than the header"
INVALID_UTF8 = "texts that are not valid UTF-8, in which bytes were replaced"
MOST_SKIPPED = 1_000_000  # lines, if fewer than these were read: the file is another one


@final
class CsvFiles:
    """Files with a header each, read one after the other; columns that a file lacks are missing in its rows."""

    untyped = True

    def __init__(self, files: Sequence[str], name: str, tabs: bool) -> None:
        self.files, self.name = list(files), name
        self._delimiters = {file: _delimiter(file, tabs) for file in self.files}
        self._headers = {file: self._header(file) for file in self.files}
        self.names = list(dict.fromkeys(own for names in self._headers.values() for own in names))

    def _header(self, file: str) -> list[str]:
        lines = Lines(file, self._delimiters[file])
        names = lines.names
        lines.close()
        check_names(names, file)
        return names

    def count(self) -> int | None:
        """Return None: lines must be counted."""
        return None

    def chunks(self, columns: Sequence[str], rows: int, report: ReadReport) -> Iterator[Chunk]:
        """Iterate over batches of one file after the other."""
        for file in self.files:
            header = self._headers[file]
            lines = Lines(file, self._delimiters[file], [own for own in columns if own in header] or header[:1])
            for batch in lines.batches():
                batch = _completed(batch, columns)
                for first, last, row in lines.pieces(batch.num_rows):
                    for start in range(first, last, rows):
                        yield Chunk(batch.slice(start, min(rows, last - start)), file, row + start - first)
            report.skip(MISMATCH, lines.skipped, lines.examples)
            report.note(INVALID_UTF8, lines.replaced)

    def table(self, connection: Any, columns: Sequence[str] | None = None, report: ReadReport | None = None) -> str:
        """Copy columns into a temporary table, which may exceed memory."""
        names = self.names if columns is None else columns
        own = report if report is not None else ReadReport(self.name)
        return stored(connection, (chunk.batch for chunk in self.chunks(names, BLOCK, own)), names, self.name)


@final
class Lines:
    """Lines of one file, read once."""

    def __init__(self, file: str, delimiter: str, columns: Sequence[str] | None = None) -> None:
        import pyarrow
        import pyarrow.csv as csv

        self._file, self._row = file, 0
        self.skipped, self.examples, self.replaced = 0, list[Place](), 0
        self._gaps = deque[list[int]]()  # first row and number of rows that were left out below the latest batch
        kinds = {} if columns is None else dict.fromkeys(columns, pyarrow.string())
        try:
            self._reader: Any = csv.open_csv(
                pyarrow.input_stream(file, compression="detect"),  # one of Python would be read ahead in threads
                read_options=csv.ReadOptions(use_threads=False, block_size=BLOCK),
                parse_options=csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=self._skip
                ),
                convert_options=csv.ConvertOptions(
                    check_utf8=False, column_types=kinds, include_columns=columns, strings_can_be_null=True,
                    null_values=[""],
                ),
            )  # fmt: skip
        except (pyarrow.ArrowException, *ODD, OSError) as error:
            raise self._failure(error) from error
        try:
            self.names: list[str] = self._reader.schema.names
        except UnicodeDecodeError:
            raise LogError(f"{file} must have a header in UTF-8, got bytes that are not valid") from None

    def _skip(self, line: Any) -> str:
        """Count a line; called by the parser, one block ahead of the batches."""
        row = line.number - 2  # the header is line 1
        if self._gaps and sum(self._gaps[-1]) == row:
            self._gaps[-1][1] += 1
        else:
            self._gaps.append([row, 1])
        self.skipped += 1 + line.text.count("\n")  # lines after a quote that is not closed
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(Place(self._file, row, None, line.text))
        return "error" if self.skipped > MOST_SKIPPED and self.skipped > self._row else "skip"

    def batches(self) -> Iterator[Any]:
        """Iterate over batches."""
        import pyarrow

        try:
            for batch in self._reader:
                valid, replaced = with_valid_texts(batch)
                self.replaced += replaced
                yield valid
        except (pyarrow.ArrowException, *ODD, OSError) as error:
            raise self._failure(error) from error
        finally:
            self.close()

    def close(self) -> None:
        """Free the reader, whose handler refers to this object."""
        self._reader = None

    def _failure(self, error: BaseException) -> LogError:
        if "straddl" not in str(error):
            return failure([self._file], error, self._row)
        where = f" after row {self._row - 1}" if self._row else ""
        return LogError(f"{self._file}{where}: a line must have at most {BLOCK:,} bytes, got more")

    def pieces(self, length: int) -> Iterator[tuple[int, int, int]]:
        """Iterate over pieces of the latest batch: first and last place, and the row of the file of the first one."""
        done, pieces = 0, 0
        while done < length:
            while self._gaps and self._gaps[0][0] <= self._row:
                self._row += self._gaps.popleft()[1]
            following = self._gaps[0][0] - self._row if self._gaps else length
            number = min(length - done, following if pieces < MOST_PIECES else length)
            yield done, done + number, self._row
            done, pieces, self._row = done + number, pieces + 1, self._row + number


def _delimiter(file: str, tabs: bool) -> str:
    """Return the delimiter that a header has most often; raise for files that are not texts."""
    import pyarrow

    try:
        head: bytes = pyarrow.input_stream(file, compression="detect").read(HEAD)
    except (pyarrow.ArrowException, *ODD, OSError) as error:
        raise failure([file], error) from error
    if not head.strip():
        raise LogError(f"{file} must have a header with the names of columns, got an empty file")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
        raise LogError(f"{file} must be a text in UTF-8, got other bytes, as of UTF-16 or of a binary file")
    if len(head) == HEAD and b"\n" not in head and b"\r" not in head:
        raise LogError(f"{file} must have a header of at most {HEAD:,} bytes, got more")
    line = head.removeprefix(b"\xef\xbb\xbf").lstrip().splitlines()[0].decode("utf-8", "replace")
    outside = "".join(line.split('"')[::2])
    return "\t" if tabs else max(DELIMITERS, key=outside.count)


def _completed(batch: Any, columns: Sequence[str]) -> Any:
    """Return a batch with all columns in their order; nulls for those that the file lacks."""
    import pyarrow

    own = batch.schema.names
    nulls = pyarrow.nulls(batch.num_rows, pyarrow.string())
    arrays = [batch.column(own.index(name)) if name in own else nulls for name in columns]
    return pyarrow.RecordBatch.from_arrays(arrays, list(columns)) if columns else batch
