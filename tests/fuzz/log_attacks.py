"""Malformed logs: each must be read, with rows skipped and counted, or raise an `IdbanditsError` that names its source.

A case is a number: it determines columns, values, kind of file, damage, format and options. Bombs are small files that
expand to gigabytes; they are read in a process that is killed if its memory exceeds a bound.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import idbandits as idb
from idbandits.errors import IdbanditsError
from idbandits.logs.read.open_log import open_log
from log_files import compressed

from . import ROOT

Rng = np.random.Generator
NAMES = ["A1", "A2", "C1", "C2", "s", "p", "w", "t", "hour"]
LABELS = ["a", "b", "c"]
VALUES: dict[str, list[Any]] = {
    "labels": ["a", "b", "c", "(nothing)", "z", "A", " a ", None],
    "clicks": [0, 1, None, 2, -1],
    "spellings": ["true", "false", "YES", "no", "0", "1", "", "NA", "1.0", "²", "maybe"],
    "numbers": [0.0, 1.0, float("nan"), float("inf"), -float("inf"), 1e308, 0.5, -0.0],
    "large": [2**63, -(2**63), 10**30, 0, 1, 2**64 - 1],
    "texts": ["\ud800", "a\0", "\0", "é", "e\u0301", "\U0010ffff", "a\nb", 'a"b', "a,b", "'", "x" * 5000, "\u202e", ""],
    "dates": [datetime.date(2026, 1, 2), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None],
    "times": [datetime.datetime(2026, 1, 2, 3), datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23)],
    "durations": [datetime.timedelta(1), datetime.timedelta(-(10**8)), datetime.time(1, 2)],
    "time texts": ["2026-01-01", "2026-01-01T00:00:00Z", "never", "99999-01-01", "1e400", "1700000000"],
    "decimals": [decimal.Decimal("1.0"), decimal.Decimal("0"), None],
    "bytes": [b"a", b"\xff", b"", None],
    "lists": [["a"], [], None, ["a", None]],
    "structures": [{"x": 1}, {"x": None}, None],
    "mixed": ["a", 1, None, 2.5, b"a", [1], True],
    "nothing": [None],
}
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "cp037"]
ENDINGS = [
    ".csv",
    ".tsv",
    ".jsonl",
    ".json",
    ".parquet",
    ".txt",
    ".csv.gz",
    ".jsonl.gz",
    ".csv.zst",
    ".jsonl.zst",
    ".txt.gz",
]
FRAMES = ["arrays", "pandas", "Polars", "lazy", "table", "reader", "batch", "relation", "dictionary"]
SLOW = 20.0  # seconds of a case
LIMIT = 3_000  # megabytes of a bomb, beyond those of an empty log
PATIENCE = 120.0  # seconds of a bomb


def _pick(rng: Rng, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def random_columns(rng: Rng) -> dict[str, list[Any]]:
    """Return columns of a log, most of them as they should be."""
    rows, columns = int(_pick(rng, [0, 1, 2, 5, 30])), dict[str, list[Any]]()
    valid = {
        "A": "labels",
        "C": "clicks",
        "s": "clicks",
        "p": "clicks",
        "w": "clicks",
        "t": "time texts",
        "h": "labels",
    }
    for name in NAMES:
        if rng.random() < 0.03:
            continue
        kind = valid[name[0]] if rng.random() < 0.6 else str(_pick(rng, list(VALUES)))
        own = [_pick(rng, VALUES[kind]) for _ in range(rows)]
        columns[
            name if rng.random() < 0.98 else str(_pick(rng, ["", "a1", "A1", "é", "\0", "x" * 300, '"', "A1.b"]))
        ] = own
    return columns


def as_text(value: Any) -> str:
    """Return a value as the text of a CSV file."""
    return "" if value is None else str(value)


def file_bytes(rng: Rng, columns: Mapping[str, list[Any]], ending: str) -> bytes:
    """Return columns as the content of a file, before compression."""
    rows = [dict(zip(columns, own, strict=True)) for own in zip(*columns.values(), strict=True)]
    kind = ending.split(".")[1]
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink, table = io.BytesIO(), _table(columns)
        with contextlib.suppress(pa.ArrowException):
            pq.write_table(table, sink, compression=_pick(rng, ["zstd", "snappy", "none"]), row_group_size=7)
        return sink.getvalue()
    encoding = _pick(rng, ENCODINGS) if rng.random() < 0.3 else "utf-8"
    if kind in ("jsonl", "json"):
        lines = [json.dumps(row, default=str, ensure_ascii=bool(rng.random() < 0.5)) for row in rows]
        text = "\n".join(lines) + "\n" if kind == "jsonl" else "[" + ",".join(lines) + "]"
        return text.encode(encoding, _pick(rng, ["replace", "surrogatepass" if encoding[:3] == "utf" else "replace"]))
    mark = "\t" if kind == "tsv" else _pick(rng, [",", ",", ";", "|"])
    quoted = rng.random() < 0.5
    lines = [
        mark.join(_cell(own, mark, quoted) for own in line) for line in [list(columns), *(row.values() for row in rows)]
    ]
    text = _pick(rng, ["\n", "\n", "\r\n", "\r"]).join(lines) + _pick(rng, ["\n", ""])
    return text.encode(encoding, _pick(rng, ["replace", "surrogatepass" if encoding[:3] == "utf" else "replace"]))


def _cell(value: Any, mark: str, quoted: bool) -> str:
    text = as_text(value)
    return '"' + text.replace('"', '""') + '"' if quoted and (mark in text or '"' in text or "\n" in text) else text


def _table(columns: Mapping[str, list[Any]]) -> Any:
    """Return columns as an Arrow table; values that Arrow does not take become texts."""
    import pyarrow as pa

    arrays = list[Any]()
    for own in columns.values():
        try:
            arrays.append(pa.array(own))
        except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
            texts = [None if value is None else str(value).encode("utf-8", "surrogatepass") for value in own]
            arrays.append(pa.Array.from_buffers(pa.string(), len(texts), pa.array(texts, pa.binary()).buffers()))
    return pa.Table.from_arrays(arrays, list(columns))  # texts may be invalid


def damaged(rng: Rng, data: bytes) -> bytes:
    """Return data that are cut off, or in which bytes are changed, repeated or inserted."""
    if not data or rng.random() < 0.5:
        return data
    at, kind = int(rng.integers(len(data))), rng.random()
    if kind < 0.4:
        return data[:at]
    if kind < 0.6:
        own = bytearray(data)
        for _ in range(int(rng.integers(1, 5))):
            own[int(rng.integers(len(own)))] = int(rng.integers(256))
        return bytes(own)
    if kind < 0.8:
        return (
            data[:at]
            + _pick(rng, [b"\0", b'"', b"\xff\xfe", b"\n" * 9, b"{" * 2000, b"[" * 2000, b"x" * 70_000])
            + data[at:]
        )
    return data + data[at:]


def random_log(rng: Rng, folder: Path) -> Any:
    """Return a log of any kind."""
    columns = random_columns(rng)
    if rng.random() < 0.6:
        ending = str(_pick(rng, ENDINGS))
        path = compressed(folder / f"log{ending}", damaged(rng, file_bytes(rng, columns, ending)))
        path.write_bytes(damaged(rng, path.read_bytes()) if rng.random() < 0.3 else path.read_bytes())
        if rng.random() < 0.1:
            other = file_bytes(rng, random_columns(rng), ending)
            return [path, compressed(folder / f"other{ending}", other)]
        return path
    try:
        return _frame(columns, str(_pick(rng, FRAMES)))
    except Exception:  # other libraries do not take all values
        return columns


def _frame(columns: dict[str, list[Any]], kind: str) -> Any:
    if kind == "arrays":
        return columns
    if kind == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    if kind in ("Polars", "lazy"):
        import polars as pl

        frame = pl.DataFrame({name.replace("\0", ""): own for name, own in columns.items()}, strict=False)
        return frame.lazy() if kind == "lazy" else frame
    table = _table(columns)
    if kind == "relation":
        import duckdb

        return duckdb.connect().from_arrow(table)
    if kind == "reader":
        return table.to_reader(3)
    if kind == "batch":
        return table.combine_chunks().to_batches()[0] if len(table) else table
    if kind == "dictionary":
        import pyarrow as pa

        for k, name in enumerate(table.column_names):
            with contextlib.suppress(pa.ArrowException):
                table = table.set_column(k, name, table.column(k).dictionary_encode())
    return table


def random_settings(rng: Rng) -> dict[str, Any]:
    """Return options with which a log is opened."""
    own: dict[str, Any] = {"progress": False}
    for name, column in (("weight", "w"), ("at", "t"), ("session", "s"), ("extra", "hour")):
        if rng.random() < 0.3:
            own[name] = column if rng.random() < 0.8 else str(_pick(rng, NAMES))
    kind = rng.random()
    if kind < 0.4:
        own["format"] = idb.Long(
            session="s" if rng.random() < 0.7 else ["s", "hour"], position="p",
            item="A1" if rng.random() < 0.7 else ["A1", "A2"], observed={"C": "C1"},
        )  # fmt: skip
    elif kind < 0.5:
        own["format"] = idb.formats.PyClick(pairs=bool(rng.random() < 0.5))
    elif kind < 0.6:
        own["format"] = idb.formats.UBI()
    if rng.random() < 0.2:
        own["items"] = "from log"
    if rng.random() < 0.2:
        own["invalid"] = "error"
    return own


def diagram(rng: Rng) -> Any:
    """Return a diagram of two positions, or a function of items."""
    kind = rng.random()
    if kind < 0.2:
        return lambda items: idb.models.cascade(items, 2, empty=True)
    if kind < 0.4:
        d = idb.Diagram("hours")
        hour, item = d.context("hour", LABELS), d.decision("A1", LABELS)
        d.reward(d.observed("C1", [hour, item], idb.Learned("clicks")))
        return d
    return idb.models.cascade(LABELS, 2, empty=bool(kind < 0.7))


def attack(seed: int, case: int, folder: Path) -> str | None:
    """Read one malformed log; return what is wrong, or None."""
    rng = np.random.default_rng([seed, case])
    log, settings, d = random_log(rng, folder), random_settings(rng), diagram(rng)
    start = time.perf_counter()
    try:
        opened = open_log(d, log, **settings)
        opened.preview(3)
        rounds = sum(len(batch) for batch in opened.batches()) if not _is_reader(log) else len(opened.all())
        wrong = _checked(opened, rounds)
    except IdbanditsError as error:
        message = str(error)
        wrong = None if message and "\n" not in message and len(message) < 2_000 else f"a message of {message[:300]!r}"
    except Exception as error:
        wrong = f"a raw exception: {type(error).__name__}: {error}\n{traceback.format_exc()[-3000:]}"
    if wrong is None and time.perf_counter() - start > SLOW:
        wrong = f"{time.perf_counter() - start:.0f} s"
    return None if wrong is None else f"case {case}, {settings}: {wrong}"


def _is_reader(log: Any) -> bool:
    return type(log).__name__ == "RecordBatchReader"


def _checked(opened: Any, rounds: int) -> str | None:
    """Return what is wrong with a reading that ended without an error."""
    report = opened.report
    if report.read != rounds:
        return f"{rounds} rounds were read, and {report.read} reported"
    again = opened.all()
    if len(again) != rounds or str(opened.report) != str(report):
        return f"a second reading differs:\n{report}\n{opened.report}"
    nodes = [*opened.model.decisions, *opened.model.contexts]
    states = np.array([node.states for node in nodes])
    if len(again) and not ((again.choices >= -1) & (again.choices < states)).all():
        return "choices are out of range"
    str(report), report.frame, json.dumps(report.as_dict(), default=str)
    return None


# -- bombs -----------------------------------------------------------------------------------------------------------


def _repeated(head: bytes, unit: bytes, megabytes: int) -> Iterator[bytes]:
    """Yield blocks of repeated units."""
    block = unit * max(1, (1 << 20) // len(unit))
    yield head
    for _ in range(max(1, (megabytes << 20) // len(block))):
        yield block


PARQUET = {
    "long": ("x" * 2**20, 2**20),
    "medium": ("x" * 4_000, 4_000),
    "short": ("a", 16),
    "list": (["x"] * 10**5, 2**20),
}
HEAD = b"A1,A2,C1,C2,s,p\n"
BOMBS: dict[str, tuple[bytes, bytes]] = {
    "rows.csv": (HEAD, b"a,b,1,0,1,1\n"), "line.csv": (HEAD, b"x"), "zero.csv": (HEAD, b"\0"), "blank.csv": (HEAD, b"\n"),
    "quote.csv": (HEAD + b'"', b"x\n"), "header.csv": (b"", b"x"), "columns.csv": (b"", b"x,"), "wrong.csv": (HEAD, b"a,b\n"),
    "latin.csv": (HEAD, b"\xe9,b,1,0,1,1\n"), "cells.csv": (HEAD, b"a" * 50_000 + b",b,1,0,1,1\n"),
    "line.jsonl": (b'{"A1":"', b"x"), "nested.jsonl": (b"", b"["), "blank.jsonl": (b"", b"\n"), "broken.jsonl": (b"", b"{x\n"),
    "objects.jsonl": (b"", b'{"A1":"' + b"x" * 10**6 + b'","A2":"b","C1":1}\n'),
    "array.json": (b"[", b'{"A1":"a","A2":"b","C1":1,"C2":0},'),
    "session.txt": (b"q\t", b"d,"), "sessions.txt": (b"", b"q\t" + b"a," * 2_000 + b"b:a;"), "pages.txt": (b"", b"1\t1\tQ\t1\t1\ta\tb\n"),
}  # fmt: skip


def write_bomb(name: str, megabytes: int, folder: Path) -> Path:
    """Write a small file that expands to so many megabytes; `name` ends in .gz, .zst or .parquet."""
    import pyarrow as pa

    path = folder / name
    stem, _, kind = name.rpartition(".")
    if kind == "parquet":
        _write_parquet(path, *PARQUET[stem], megabytes)
        return path
    with pa.CompressedOutputStream(str(path), {"gz": "gzip", "zst": "zstd"}[kind]) as stream:
        for block in _repeated(*BOMBS[stem], megabytes):
            stream.write(block)
    return path


def _write_parquet(path: Path, value: Any, size: int, megabytes: int) -> None:
    """Write rows that all have one value of so many bytes as their item."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = max(1, (megabytes << 20) // size)
    part = min(rows, 1 << 20 if isinstance(value, str) else 100)
    places = pa.array(np.zeros(part, np.int32))
    items = pa.array([value])
    column = pa.DictionaryArray.from_arrays(places, items) if isinstance(value, str) else items.take(places)
    other = pa.DictionaryArray.from_arrays(places, pa.array(["1"]))
    table = pa.table({"A1": column, **dict.fromkeys(["A2", "C1", "s", "p"], other)})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(max(1, rows // part)):
            writer.write_table(table)


def read_bomb(path: str, mode: str) -> None:
    """Read a bomb in this process; print how it ended."""
    settings: dict[str, Any] = {"progress": False}
    if Path(path).name.startswith(("session", "pages")):
        settings["format"] = idb.formats.PyClick(pairs=False)
    elif mode == "long":
        settings["format"] = idb.Long(session="s", position="p", item="A1", observed={"C": "C1"})
    if mode == "items":
        settings["items"] = "from log"
    try:
        opened = open_log(idb.models.cascade(["a", "b"], 2), path, **settings)
        for _ in opened.batches():
            pass
        print("read", str(opened.report).replace("\n", "; "))
    except IdbanditsError as error:
        print("error", error)


def resident(process: int) -> float:
    """Return the largest memory that a process has used, in megabytes."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


def bomb(name: str, mode: str, megabytes: int, folder: Path, limit: float = LIMIT) -> tuple[str | None, str]:
    """Read a bomb in a separate process; return what is wrong, or None, and a description."""
    path = folder / name
    if not path.exists():
        write_bomb(name, megabytes, folder)
    code = f"from tests.fuzz.log_attacks import read_bomb; read_bomb({str(path)!r}, {mode!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])}
    start, most = time.monotonic(), 0.0
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            most = max(most, resident(process.pid))
            if most > limit or time.monotonic() - start > PATIENCE:
                process.kill()
                process.wait()
                break
            time.sleep(0.02)
        output.seek(0)
        text = output.read().decode("utf-8", "replace").strip()
    seconds = time.monotonic() - start
    described = f"{name} ({path.stat().st_size / 1e3:,.0f} kB) {mode}: {seconds:.1f} s, {most:,.0f} MB, {text[-300:]}"
    if most > limit:
        return f"memory exceeds {limit:,.0f} MB: {described}", described
    if process.returncode != 0 or not text.startswith(("read", "error")):
        return f"status {process.returncode}: {described}", described
    if text.startswith("error") and name not in text:
        return f"the message does not name the file: {described}", described
    return None, described


def main(seed: int, cases: int, first: int, bombs: int, show: Callable[[str], Any] = print) -> int:
    """Read random logs, and bombs of so many megabytes; return 1 if anything is wrong."""
    findings = list[str]()
    if bombs:
        folder = Path(tempfile.mkdtemp(prefix="bombs-"))
        try:
            names = [f"{name}.{kind}" for name in BOMBS for kind in ("gz", "zst")]
            names += [f"{name}.parquet" for name in PARQUET]
            for name in names:
                for mode in ["wide"] if name.startswith(("session", "pages")) else ["wide", "long", "items"]:
                    wrong, described = bomb(name, mode, bombs, folder)
                    show(described if wrong is None else f"FAILED {wrong}")
                    findings += [] if wrong is None else [wrong]
        finally:
            shutil.rmtree(folder)
    for case in range(first, first + cases):
        with tempfile.TemporaryDirectory(prefix="logs-") as own:
            wrong = attack(seed, case, Path(own))
        if wrong is not None:
            findings.append(wrong)
            show(wrong)
    show(f"{cases:,} malformed logs, {len(findings)} failures")
    return bool(findings)
