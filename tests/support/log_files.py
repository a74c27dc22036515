"""Small logs as rows of plain Python, written to every kind of source, and a reading of them without libraries."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import idbandits as idb
from idbandits.logs.read.open_log import OpenLog

Row = dict[str, Any]
Labels = tuple[Any, ...]
ITEMS = ["ale", "bun", "cod", "dip", "egg"]
POSITIONS = 3
COLUMNS = [*(f"A{k}" for k in (1, 2, 3)), *(f"C{k}" for k in (1, 2, 3)), "impressions"]


def diagram() -> idb.Diagram:
    """Return the diagram of the small logs."""
    return idb.models.position_based(ITEMS, POSITIONS)


def sample_rows(seed: int, number: int = 60) -> list[Row]:
    """Return rounds of which some have unknown items, repeated items, missing items or missing clicks."""
    rng, rows = random.Random(seed), list[Row]()
    for _ in range(number):
        shown: list[str | None] = list(rng.sample(ITEMS, POSITIONS))
        if rng.random() < 0.1:
            shown[rng.randrange(POSITIONS)] = "fig"
        if rng.random() < 0.1:
            shown[2] = shown[0]
        if rng.random() < 0.2:
            shown[rng.randrange(POSITIONS)] = None
        clicks = [rng.choice([0, 1, None, 0]) for _ in shown]
        cells = {f"A{k}": own for k, own in enumerate(shown, 1)} | {f"C{k}": own for k, own in enumerate(clicks, 1)}
        rows.append(cells | {"impressions": rng.randrange(1, 5)})
    return rows


def plain_reading(rows: Sequence[Row]) -> tuple[list[Labels], dict[str, int]]:
    """Return the valid rounds (shown items, clicks), and the numbers of the others by reason."""
    read, skipped = list[Labels](), dict[str, int]()
    for row in rows:
        shown, clicks = ([row[f"{kind}{k}"] for k in range(1, POSITIONS + 1)] for kind in "AC")
        unknown = [k for k, own in enumerate(shown, 1) if own is not None and own not in ITEMS]
        repeated = [
            (i, k) for i in (1, 2) for k in range(i + 1, 4) if shown[i - 1] == shown[k - 1] and shown[k - 1] is not None
        ]
        if unknown:
            reason = f"'A{unknown[0]}' has a value that is not in the diagram"
        elif repeated:
            reason = "'A{}' and 'A{}' are equal, which all_different forbids".format(*repeated[0])
        else:
            read.append((*shown, *clicks))
            continue
        skipped[reason] = skipped.get(reason, 0) + 1
    return read, skipped


def labelled(opened: OpenLog) -> list[Labels]:
    """Read a log; return its rounds as labels of decisions, contexts and observed nodes, None where one is missing."""
    rounds, model = opened.all(), opened.model
    nodes = [*model.decisions, *model.contexts, *model.observed]
    numbers = [[*own, *seen] for own, seen in zip(rounds.choices.tolist(), rounds.seen.tolist(), strict=True)]
    return [tuple(None if k < 0 else node.values[k] for node, k in zip(nodes, row, strict=True)) for row in numbers]


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return rows as columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def arrow(rows: Sequence[Row]) -> Any:
    """Return rows as an Arrow table."""
    import pyarrow as pa

    return pa.table(columns(rows))


def delimited(rows: Sequence[Row], delimiter: str = ",") -> str:
    """Return rows as text, nulls as empty values."""
    import csv
    import io

    names, text = list(columns(rows)), io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([row.get(name) for name in names] for row in rows)
    return text.getvalue()


def json_lines(rows: Sequence[Row]) -> str:
    """Return rows as JSON objects, one per line."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def compressed(path: Path, data: bytes) -> Path:
    """Write bytes to a file, compressed as its name says."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(data))
    elif path.suffix == ".zst":
        import pyarrow as pa

        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(data)
    else:
        path.write_bytes(data)
    return path


def _parquet(rows: Sequence[Row], path: Path) -> Path:
    import pyarrow.parquet as pq

    pq.write_table(arrow(rows), path)
    return path


def _parts(rows: Sequence[Row], folder: Path) -> Path:
    """Write files of a folder, whose names are in the order of the rows, next to files that are no log."""
    inner = folder / "parts" / "day=1"
    inner.mkdir(parents=True)
    for k in range(0, len(rows), 25):
        _parquet(rows[k : k + 25], inner / f"part-{k:03}.parquet")
    (folder / "parts" / "README").write_text("no log")
    (folder / "parts" / "_metadata.parquet").write_text("no log")
    return folder / "parts"


def _csv_parts(rows: Sequence[Row], folder: Path) -> str:
    for k in range(0, len(rows), 25):
        (folder / f"part-{k:03}.csv").write_text(delimited(rows[k : k + 25]))
    return str(folder / "part-*.csv")


def _sqlite(rows: Sequence[Row], folder: Path) -> str:
    with sqlite3.connect(folder / "log.db") as connection:
        names = list(columns(rows))
        connection.execute(f"CREATE TABLE shown ({', '.join(names)})")
        connection.executemany(
            f"INSERT INTO shown VALUES ({', '.join('?' * len(names))})",
            [[row.get(name) for name in names] for row in rows],
        )
    connection.close()
    return f"sqlite:///{folder / 'log.db'}"


def _duckdb(rows: Sequence[Row], folder: Path) -> str:
    import duckdb

    with duckdb.connect(str(folder / "log.duckdb")) as connection:
        connection.register("given", arrow(rows))
        connection.execute("CREATE TABLE shown AS SELECT * FROM given")
    return f"duckdb:///{folder / 'log.duckdb'}"


def _relation(rows: Sequence[Row], folder: Path) -> Any:
    import duckdb

    return duckdb.connect().from_arrow(arrow(rows))


def _polars(rows: Sequence[Row], folder: Path) -> Any:
    import polars as pl

    return pl.DataFrame(columns(rows))


def _pandas(rows: Sequence[Row], folder: Path) -> Any:
    import pandas as pd

    return pd.DataFrame(columns(rows))  # clicks are floats, because some are missing


def _dataset(rows: Sequence[Row], folder: Path) -> Any:
    import pyarrow.dataset as ds

    return ds.dataset(_parquet(rows, folder / "dataset.parquet"))


QUERIES = ("sqlite://", "duckdb://", "postgresql://")
SOURCES: dict[str, Callable[[Sequence[Row], Path], Any]] = {
    "Parquet": lambda rows, folder: _parquet(rows, folder / "log.parquet"),
    "CSV": lambda rows, folder: compressed(folder / "log.csv", delimited(rows).encode()),
    "CSV with semicolons": lambda rows, folder: compressed(folder / "log.csv", delimited(rows, ";").encode()),
    "CSV of Windows": lambda rows, folder: compressed(folder / "log.csv", b"\xef\xbb\xbf" + delimited(rows).replace("\n", "\r\n").encode()),
    "TSV": lambda rows, folder: compressed(folder / "log.tsv", delimited(rows, "\t").encode()),
    "CSV, gz": lambda rows, folder: compressed(folder / "log.csv.gz", delimited(rows).encode()),
    "CSV, zst": lambda rows, folder: compressed(folder / "log.CSV.zst", delimited(rows).encode()),
    "JSON lines": lambda rows, folder: compressed(folder / "log.jsonl", json_lines(rows).encode()),
    "JSON lines, gz": lambda rows, folder: compressed(folder / "log.ndjson.gz", json_lines(rows).encode()),
    "JSON lines, zst": lambda rows, folder: compressed(folder / "log.jsonl.zst", json_lines(rows).encode()),
    "JSON": lambda rows, folder: compressed(folder / "log.json", json.dumps(rows).encode()),
    "folder": _parts,
    "pattern": _csv_parts,
    "list of files": lambda rows, folder: [
        compressed(folder / f"{k}.csv", delimited(rows[k : k + 30]).encode()) for k in range(0, len(rows), 30)
    ],
    "arrays": lambda rows, folder: columns(rows),
    "pandas": _pandas,
    "Polars": _polars,
    "lazy frame": lambda rows, folder: _polars(rows, folder).lazy(),
    "Arrow table": lambda rows, folder: arrow(rows),
    "Arrow reader": lambda rows, folder: arrow(rows).to_reader(7),
    "Arrow batch": lambda rows, folder: arrow(rows).combine_chunks().to_batches()[0],
    "dataset": _dataset,
    "relation": _relation,
    "SQLite": _sqlite,
    "DuckDB": _duckdb,
}  # fmt: skip


def settings_of(log: Any) -> dict[str, Any]:
    """Return the settings with which a log of `SOURCES` is opened."""
    return {"query": "SELECT * FROM shown; -- all"} if isinstance(log, str) and log.startswith(QUERIES) else {}
