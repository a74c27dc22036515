"""Files of logs by the endings of their names, and Parquet files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from typing import Any, final

from idbandits.errors import brief
from idbandits.logs.read import embedded_engine as engine
from idbandits.logs.read.csv_files import CsvFiles
from idbandits.logs.read.json_files import JsonFiles
from idbandits.logs.read.log_source import Chunk, Source
from idbandits.logs.read.read_report import LogError, ReadReport
from idbandits.logs.read.stored_batches import check_cases

KINDS = {
    "parquet": "parquet", "pq": "parquet", "csv": "csv", "txt": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl",
    "ndjson": "jsonl", "json": "json",
}  # fmt: skip
COMPRESSED = ("gz", "zst")

LONGEST_TEXT = 4096  # bytes of a value of Parquet files: dictionaries make small files of long texts
MOST_BYTES = 1 << 29  # of the texts of a batch, if all of them are long
LONGEST_PATH = 4096  # characters; patterns of many brackets would take minutes


def source_of_files(files: Sequence[str]) -> Source:
    """Return the source that reads files, which must be of one kind."""
    kinds = {kind_of(file) for file in files}
    if len(kinds) > 1:
        raise LogError(f"log must be files of one kind, got {', '.join(sorted(kinds))}")
    kind = kinds.pop()
    name = files[0] if len(files) == 1 else f"{len(files)} files ({files[0]}, …)"
    if kind in ("csv", "tsv"):
        return CsvFiles(files, name, kind == "tsv")
    return Files(files, name) if kind == "parquet" else JsonFiles(files, name, kind)


@final
class Files:
    """Parquet files, which DuckDB reads one after the other."""

    untyped = False

    def __init__(self, files: Sequence[str], name: str) -> None:
        self.files, self.name = list(files), name
        self._connection = engine.connect()
        self._own = {file: engine.types_of(self._connection, engine.scan([file], "parquet"), [file]) for file in files}
        self.names = list(dict.fromkeys(name for own in self._own.values() for name in own))

    def count(self) -> int | None:
        """Return the number of rows, which the metadata of the files has."""
        return sum(engine.count_of(self._connection, engine.scan([file], "parquet"), [file]) for file in self.files)

    def chunks(self, columns: Sequence[str], rows: int, report: ReadReport) -> Iterator[Chunk]:
        """Iterate over batches of one file after the other."""
        for file in self.files:
            own, row = self._own[file], 0
            selected = ", ".join(f"{_value(name, own.get(name))} AS {engine.quoted(name)}" for name in columns)
            texts = sum(_is_long(own.get(name, "")) for name in columns)
            query = f"SELECT {selected or '1'} FROM {engine.scan([file], 'parquet')}"
            for batch in engine.stream(
                self._connection.cursor(), query, min(rows, MOST_BYTES // (LONGEST_TEXT * max(1, texts))), [file]
            ):
                yield Chunk(batch, file, row)
                row += batch.num_rows

    def table(self, connection: Any, columns: Sequence[str] | None = None, report: ReadReport | None = None) -> str:
        """Return the SQL table of all files."""
        scan = engine.scan(self.files, "parquet")
        kinds = engine.types_of(connection, scan, self.files)
        names = self.names if columns is None else list(columns)
        check_cases(names, self.name)
        selected = ", ".join(f"{_value(name, kinds.get(name))} AS {engine.quoted(name)}" for name in names) or "1"
        return f"(SELECT {selected} FROM {scan})"


def _is_long(kind: str) -> bool:
    """Return True for types of SQL whose values may be long."""
    return kind in ("VARCHAR", "BLOB", "JSON") or "(" in kind or kind.endswith("]")


def _value(name: str, kind: str | None) -> str:
    """Return the SQL of a column of Parquet files; long texts raise."""
    own = engine.quoted(name)
    if kind is None:
        return "NULL::VARCHAR"
    if not _is_long(kind):
        return own
    message = f"column {name!r} must have values of at most {LONGEST_TEXT:,} bytes, got more"
    return f"CASE WHEN strlen({own}::VARCHAR) > {LONGEST_TEXT} THEN error({engine.literal(message)}) ELSE {own} END"


def kind_of(file: str) -> str:
    """Return the kind of a file by its name."""
    parts = os.path.basename(file).lower().split(".")
    if parts[-1] in COMPRESSED:
        parts.pop()
    if parts[-1] not in KINDS or len(parts) < 2:
        allowed = ", ".join(f".{own}" for own in KINDS)
        raise LogError(f"log must be a file with the ending {allowed}, or one of these and .gz or .zst, got {file!r}")
    return KINDS[parts[-1]]


def files_of(log: Any) -> list[str]:
    """Return the files that a path, a pattern, a folder or a list of these stands for."""
    if isinstance(log, (list, tuple)):
        return list(dict.fromkeys(file for own in log for file in files_of(own)))
    path = os.fspath(log)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if "\0" in path or len(path) > LONGEST_PATH:
        raise LogError(f"log must be a path of a file, got {brief(path)}")
    if "://" in path:
        hint = "remote files can be read as a pyarrow dataset, databases as postgresql:// or sqlite:/// with query="
        raise LogError(f"log must be local files, got {brief(path)}; {hint}")
    if os.path.isdir(path):
        found = sorted(glob.glob(os.path.join(glob.escape(path), "**", "*"), recursive=True))
        found = [file for file in found if os.path.isfile(file) and _is_log(file)]
    else:
        found = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
    if not found:
        raise LogError(f"log must be existing files, got {brief(path)}")
    return found


def _is_log(file: str) -> bool:
    try:
        return bool(kind_of(file)) and not os.path.basename(file).startswith((".", "_"))
    except LogError:
        return False
