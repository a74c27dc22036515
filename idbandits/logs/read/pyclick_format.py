"""Sessions of PyClick and of the Yandex relevance prediction challenge, in text files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from idbandits.diagram.diagram import Diagram
from idbandits.errors import ODD, brief
from idbandits.logs.read.embedded_engine import failure
from idbandits.logs.read.encoder import SideColumns
from idbandits.logs.read.file_sources import files_of
from idbandits.logs.read.log_source import Chunk, Source
from idbandits.logs.read.long_format import placed_nodes
from idbandits.logs.read.read_report import LogError, Place, ReadReport

BLOCK = 1 << 20  # bytes that are read at once
LONGEST_LINE = 4_000_000  # bytes of a session
MOST_LINES = 100_000  # of a session of Yandex
SESSION, QUERY = "session", "query"
INVALID = "a session is not of the form 'query TAB documents : clicks', nor a line of Yandex"


class Shown(NamedTuple):
    """Result page: label of its session, its query, documents from the top, and clicked documents."""

    session: str
    query: str
    documents: list[str]
    clicks: list[str]


@final
@dataclass(frozen=True)
class PyClick:
    r"""Format of PyClick's sample data and of the Yandex challenge; both are recognised line by line.

    PyClick separates sessions by ";" and newlines: `query TAB d1,d2,… : c1,c2,…`, with shown documents from the top
    and clicked ones. Lines of Yandex have tabs: `session time Q query region d1 d2 …` for a result page, and
    `session time C document` for a click, which belongs to the latest page of its session that shows the document.
    Clicks on documents that were not shown are counted and ignored. Decisions of the diagram are positions, in order.

    Parameters
    ----------
    click : str
        Part of the names of click nodes before the number of the position.
    pairs : bool
        Items are pairs "query|document", as click models need them; otherwise documents.
    context : mapping, optional
        "query" or "session", by context.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import idbandits as idb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "sessions.txt"
    ...     _ = file.write_text("q\td1,d2:d2;q\td2,d1:;")
    ...     counts = idb.count(
    ...         lambda pairs: idb.models.cascade(pairs, 2), file, format=idb.formats.PyClick(), items="from log"
    ...     )
    >>> counts.rounds, counts.diagram.nodes["A1"].values
    (2, ('q|d1', 'q|d2'))
    """

    click: str = "C"
    pairs: bool = True
    context: Mapping[str, str] | None = None

    def source(self, log: Any, options: Any) -> Source:
        """Return the source of the sessions.

        Parameters
        ----------
        log : path, or list of paths
            Text files.
        options : LogOptions
            Options of reading.
        """
        if options.query is not None:
            raise LogError(f"query must be None for files of PyClick, got {brief(options.query)}")
        for own in log if isinstance(log, (list, tuple)) else [log]:
            if not isinstance(own, (str, os.PathLike)):
                raise LogError(f"log must be paths of files of PyClick, got {brief(log)}")
        return SessionFiles(files_of(log), self.pairs, {}, {})

    def item_columns(self, d: Diagram | None) -> dict[str | None, list[tuple[str, ...]]]:
        """Return no columns: the source lists its items.

        Parameters
        ----------
        d : Diagram or None
            Diagram, if it is known.
        """
        return {None: []}

    def prepared(self, source: Source, d: Diagram, side: SideColumns) -> tuple[Source, SideColumns, dict[str, Any]]:
        """Return the source with one column per node, its further columns, and the columns of nodes.

        Parameters
        ----------
        source : Source
            Source of the sessions.
        d : Diagram
            Diagram of the rounds.
        side : SideColumns
            Columns of weights, times and sessions.
        """
        assert isinstance(source, SessionFiles)
        items = {f"document at position {k}": k for k in range(1, len(d.of_kind("decision")) + 1)}
        nodes: dict[str, Any] = dict(zip((node.name for node in d.of_kind("decision")), items, strict=True))
        clicks = dict[str, int]()
        for name, (_, position) in placed_nodes("click", {self.click: "click"}, d.of_kind("observed")).items():
            nodes[name] = f"click at position {position}" if position else "any click"
            clicks[nodes[name]] = position
        own = SessionFiles(source.files, self.pairs, items, clicks)
        return own, side._replace(session=side.session or SESSION), nodes | dict(self.context or {})


@final
class SessionFiles:
    """Source with one row per result page; memory is bounded by the longest session."""

    untyped = True

    def __init__(self, files: Sequence[str], pairs: bool, items: Mapping[str, int], clicks: Mapping[str, int]) -> None:
        self.files, self._pairs, self._items, self._clicks = list(files), pairs, items, clicks
        self.name = self.files[0] if len(self.files) == 1 else f"{len(self.files)} files ({self.files[0]}, …)"
        self.names = [SESSION, QUERY, *items, *clicks]

    def count(self) -> int | None:
        """Return None: sessions must be counted."""
        return None

    def item_labels(self, most: int) -> set[str]:
        """Return the labels of all items, or `most` of them."""
        found = set[str]()
        for file in self.files:
            for shown in read_sessions(file, ReadReport(file)):
                found.update(self._label(shown, document) for document in shown.documents)
                if len(found) >= most:
                    return found
        return found

    def _label(self, shown: Shown, document: str) -> str:
        return f"{shown.query}|{document}" if self._pairs else document

    def chunks(self, columns: Sequence[str], rows: int, report: ReadReport) -> Iterator[Chunk]:
        """Iterate over batches of result pages."""
        longest = max(self._items.values(), default=0)
        for file in self.files:
            waiting, row = list[list[Any]](), 0
            for shown in read_sessions(file, report):
                ignored = len(set(shown.clicks) - set(shown.documents))
                report.note("clicks on documents that were not shown, which were ignored", ignored)
                beyond = max(len(shown.documents) - longest, 0)
                report.note(f"documents at positions beyond the {longest} of the diagram, which were ignored", beyond)
                waiting.append([self._value(shown, name) for name in columns])
                if len(waiting) == rows:
                    yield Chunk(self._batch(waiting, columns), file, row)
                    row += len(waiting)
                    waiting = []
            if waiting:
                yield Chunk(self._batch(waiting, columns), file, row)

    def _batch(self, pages: Sequence[Sequence[Any]], columns: Sequence[str]) -> Any:
        import pyarrow

        kinds = [pyarrow.int8() if name in self._clicks else pyarrow.string() for name in columns]
        arrays = [pyarrow.array([page[k] for page in pages], kind) for k, kind in enumerate(kinds)]
        return pyarrow.RecordBatch.from_arrays(arrays, list(columns))

    def _value(self, shown: Shown, name: str) -> Any:
        if name in (SESSION, QUERY):
            return shown.session if name == SESSION else shown.query
        position = self._items.get(name, self._clicks.get(name, 0))
        if not position:
            return int(any(document in shown.clicks for document in shown.documents))
        if position > len(shown.documents):
            return None
        document = shown.documents[position - 1]
        if name in self._items:
            return self._label(shown, document)
        return int(document in shown.clicks and shown.documents.index(document) == position - 1)

    def table(self, connection: Any, columns: Sequence[str] | None = None, report: ReadReport | None = None) -> str:
        """Raise: sessions are not read by DuckDB."""
        raise LogError(f"{self.name}: sessions of PyClick are not read as an SQL table")


def read_sessions(file: str, report: ReadReport) -> Iterator[Shown]:
    """Iterate over the result pages of a file; what is not valid is added to the report."""
    pages, number, first = list[Shown](), 0, 0  # pages of the session of Yandex that is being read, and its first line
    for line, text in _pieces(file):
        number += 1
        fields = text.split("\t")
        kind = fields[2].strip() if len(fields) > 3 else ""
        if pages and (kind not in ("Q", "C") or fields[0].strip() != pages[0].session):
            yield from pages
            pages = []
        first = first if pages else number
        if number - first >= MOST_LINES:
            raise LogError(f"{file}, line {line}: a session must have at most {MOST_LINES:,} lines, got more")
        if kind == "Q" and len(fields) > 5:
            documents = [own.strip() for own in fields[5:] if own.strip()]
            pages.append(Shown(fields[0].strip(), f"{fields[3].strip()}_{fields[4].strip()}", documents, []))
            continue
        if kind == "C":
            document = fields[3].strip()
            page = next((own for own in reversed(pages) if document in own.documents), pages[-1] if pages else None)
            if page is None:
                report.note("clicks before the first result page of a session, which were ignored", 1)
            else:
                page.clicks.append(document)
            continue
        query, tab, rest = text.partition("\t")
        shown, colon, clicked = rest.partition(":")
        documents, clicks = _listed(shown), _listed(clicked)
        if not (tab and colon and query.strip() and documents):
            report.skip(INVALID, 1, [Place(f"{file}, line {line}", number - 1, None)])
            continue
        yield Shown(f"{file}:{number}", query.strip(), documents, clicks)
    yield from pages


def _listed(text: str) -> list[str]:
    return [own for part in text.split(",") if (own := part.strip())]


def _pieces(file: str) -> Iterator[tuple[int, str]]:
    """Iterate over pieces between semicolons and newlines that are not empty, with their lines from 1."""
    import pyarrow

    line, rest = 1, b""
    try:
        with pyarrow.input_stream(file, compression="detect") as stream:
            while block := stream.read(BLOCK):
                *complete, rest = (rest + block).split(b"\n")
                for own in complete:
                    yield from _split(line, own)
                    line += 1
                if len(rest) > LONGEST_LINE:  # one long line: all sessions in it but the last one are complete
                    own, _, rest = rest.rpartition(b";")
                    yield from _split(line, own)
                if len(rest) > LONGEST_LINE:
                    raise LogError(f"{file}, line {line}: a session must have at most {LONGEST_LINE:,} bytes, got more")
        yield from _split(line, rest)
    except LogError:
        raise
    except (pyarrow.ArrowException, *ODD, OSError) as error:
        raise failure([f"{file}, line {line}"], error) from error


def _split(line: int, text: bytes) -> Iterator[tuple[int, str]]:
    for own in text.split(b";"):
        if own.strip():
            yield line, own.decode("utf-8", "replace").strip(" \r\n")
