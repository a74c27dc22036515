"""Opening logs: a source, a format and a diagram become batches of encoded rounds, with a report."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief, check_flag, check_whole
from idbandits.logs.read.encoder import Encoder, SideColumns
from idbandits.logs.read.log_source import Chunk, Source
from idbandits.logs.read.read_report import LogError, ReadReport
from idbandits.logs.read.sources import source_of
from idbandits.logs.rounds import Rounds, joined

ROWS = 100_000  # of a batch
WORKERS = 2  # threads that encode
FROM_LOG = "from log"


class LogOptions(NamedTuple):
    """Keyword arguments of all functions that read logs."""

    format: Any = None  # Long, UBI or PyClick; None: one column per node
    columns: Mapping[str, Any] | None = None  # names of the columns of nodes, where they differ
    query: str | None = None  # of a database
    items: str | None = None  # "from log": decisions choose among the labels that the log has
    weight: str | None = None
    at: str | None = None
    session: str | None = None
    extra: Sequence[str] = ()
    preview: int | None = None  # rounds that are read first
    progress: bool | None = None  # None: if standard error is a terminal
    invalid: str = "skip"  # or "error": rounds that are not of the diagram


@final
class OpenLog:
    """Log that can be read any number of times; `report` is that of the latest time."""

    def __init__(self, source: Source, encoder: Encoder, options: LogOptions) -> None:
        self._source, self.encoder, self._options = source, encoder, options
        self.diagram: Diagram = encoder.diagram
        self.report = ReadReport(source.name)

    @property
    def model(self) -> Model:
        """Compiled diagram."""
        return self.encoder.model

    def batches(self) -> Iterator[Rounds]:
        """Iterate over encoded batches in the order of the log."""
        report = self.report = ReadReport(self._source.name)
        self._start(report)
        with _bar(self._options.progress, self._source) as bar:
            for rounds, own in self._encoded(report):
                report.add(own)
                if self._options.invalid == "error":
                    report.check_none_skipped()
                bar.update(own.rows)
                if len(rounds):
                    yield rounds
        if self._options.invalid == "error":
            report.check_none_skipped()

    def all(self) -> Rounds:
        """Read the whole log into memory."""
        return joined([*self.batches()] or [self._empty()])

    def preview(self, rounds: int | None = None) -> Rounds:
        """Return the first rounds of the log, as many as asked for; the report is left as it was."""
        most = check_whole("rounds", rounds, 1) if rounds is not None else self._options.preview or 10_000
        report, read, number = ReadReport(self._source.name), list[Rounds](), 0
        self._start(report)
        for chunk in self._chunks(min(ROWS, most), report):
            read.append(self.encoder.encode_part(chunk.batch, number, chunk.source, chunk.row)[0])
            number += chunk.batch.num_rows
            if sum(map(len, read)) >= most:
                break
        return joined(read or [self._empty()]).part(slice(0, most))

    def total(self) -> int | None:
        """Return the number of rows of the log, if it is cheap to find."""
        return self._source.count()

    def _start(self, report: ReadReport) -> None:
        if begin := getattr(self._source, "begin", None):
            begin(report)

    def _chunks(self, rows: int, report: ReadReport) -> Iterator[Chunk]:
        return self._source.chunks(self.encoder.needed, rows, report)

    def _encoded(self, report: ReadReport) -> Iterator[tuple[Rounds, ReadReport]]:
        """Encode batches in threads, a few ahead of the reader."""
        waiting, number = deque[Future[tuple[Rounds, ReadReport]]](), 0
        with ThreadPoolExecutor(WORKERS, "idbandits-read") as pool:
            try:
                for batch, source, row in self._chunks(ROWS, report):
                    waiting.append(pool.submit(self.encoder.encode_part, batch, number, source, row))
                    number += batch.num_rows
                    if len(waiting) > 2 * WORKERS:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _empty(self) -> Rounds:
        """Return no rounds, in arrays of the right shapes."""
        import pyarrow

        schema = pyarrow.schema([(name, pyarrow.null()) for name in self.encoder.needed])
        batch = pyarrow.RecordBatch.from_pylist([], schema)
        model = self.model
        try:
            return self.encoder.encode(batch)
        except IdbanditsError:  # features that cannot be read from columns of nulls
            width = len(model.decisions) + len(model.contexts)
            none = np.empty(0, np.int64)
            return Rounds(np.empty((0, width), np.int64), np.empty((0, len(model.observed)), np.int64), none)


def open_log(
    d: Diagram | Callable[[Sequence[Any]], Diagram], log: Any, options: LogOptions | None = None, **settings: Any
) -> OpenLog:
    """Open a log of a diagram; `settings` are fields of `LogOptions`.

    >>> from idbandits import models
    >>> log = {"A1": ["tea", "milk", "wine"], "C1": [1, "no", True]}
    >>> opened = open_log(models.cascade(["tea", "milk"], 1), log)
    >>> opened.all().seen.tolist()
    [[1], [0]]
    >>> print(opened.report)
    arrays: 2 rounds read, 1 skipped
      1 skipped: 'A1' has a value that is not in the diagram (arrays, row 2, column 'A1': 'wine')
    """
    own = checked_options(options or LogOptions(), settings)
    source, columns = source_of(log, own.query) if own.format is None else own.format.source(log, own), own.columns
    if isinstance(d, Diagram) and own.items is None:
        diagram = d
    else:
        from idbandits.logs.read.vocabulary import filled_in

        diagram = filled_in(d, source, own)
    side = side_columns(own)
    if own.format is not None:
        source, side, columns = own.format.prepared(source, diagram, side)
    return OpenLog(source, Encoder(diagram, source.names, columns, side, source.name), own)


def side_columns(options: LogOptions) -> SideColumns:
    """Return the columns that are not of nodes."""
    return SideColumns(options.weight, options.at, options.session, tuple(options.extra))


def checked_options(options: LogOptions, settings: Mapping[str, Any]) -> LogOptions:
    """Return options with some replaced, or raise for those that are not valid."""
    if unknown := [name for name in settings if name not in LogOptions._fields]:
        raise LogError(f"options of logs must be among {', '.join(LogOptions._fields)}, got {unknown[0]!r}")
    own = options._replace(**settings)
    if own.invalid not in ("skip", "error"):
        raise LogError(f"invalid must be 'skip' or 'error', got {brief(own.invalid)}")
    if own.items not in (None, FROM_LOG):
        raise LogError(f"items must be {FROM_LOG!r} or None, got {brief(own.items)}")
    if own.format is not None and (isinstance(own.format, type) or not hasattr(own.format, "prepared")):
        raise LogError(f"format must be idb.Long(…), a reader of idb.formats, or None, got {brief(own.format)}")
    if own.columns is not None and not isinstance(own.columns, Mapping):
        raise LogError(f"columns must be a mapping of nodes to names of columns, got {brief(own.columns)}")
    if own.columns is not None and own.format is not None:
        raise LogError("columns must be None if a format is given, which names the columns")
    if own.preview is not None:
        check_whole("preview", own.preview, 1, error=LogError)
    if own.progress is not None:
        check_flag("progress", own.progress, error=LogError)
    for name in ("weight", "at", "session"):
        column = getattr(own, name)
        if column is not None and not isinstance(column, str):
            raise LogError(f"{name} must be the name of a column, got {brief(column)}")
    extra = (own.extra,) if isinstance(own.extra, str) else own.extra
    if not isinstance(extra, (list, tuple)) or not all(isinstance(name, str) for name in extra):
        raise LogError(f"extra must be names of columns, got {brief(own.extra)}")
    return own._replace(extra=tuple(extra))


def _bar(progress: bool | None, source: Source) -> Any:
    from tqdm import tqdm

    shown = sys.stderr.isatty() if progress is None else progress
    total = source.count() if shown else None
    return tqdm(total=total, unit=" rounds", unit_scale=True, desc="reading", disable=not shown, file=sys.stderr)
