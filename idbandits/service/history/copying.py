"""Backups: consistent copies of a journal of any store as a journal in SQLite, and their restoration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from idbandits.errors import IdbanditsError
from idbandits.service.journal.postgres import PostgresStore
from idbandits.service.journal.sqlite import SqliteStore
from idbandits.service.journal.store import Row, Store, Transaction, migrate, migrations
from idbandits.service.live.live import open_store

TABLES = {  # referenced tables first; with the columns that order rows, which are read in parts
    "experiments": ("name",), "versions": ("experiment", "version"), "decisions": ("n",), "outcomes": ("n",),
    "steps": ("n",), "snapshots": ("experiment", "block"), "letters": ("n",), "audit": ("n",), "tokens": ("digest",),
}  # fmt: skip
MOST = 5000  # rows of a part


def back_up(url: str, file: Path) -> int:
    """Copy a journal to a new file while it is in use; return the number of rows."""
    if file.exists():
        raise IdbanditsError(f"backup must be a new file, got {str(file)!r}")
    source = open_store(url, create=False)
    unfinished = file.with_name(file.name + ".part")
    unfinished.unlink(missing_ok=True)
    try:
        target = SqliteStore(f"sqlite:///{unfinished.absolute()}")
        try:
            rows = copied(source, target)
            with target.transaction(write=False) as reading:
                if (state := reading.all("PRAGMA integrity_check")[0][0]) != "ok":
                    raise IdbanditsError(f"backup is damaged: {state}")
        finally:
            target.close()  # moves the write-ahead log into the file
        _sync(unfinished)
        unfinished.rename(file)
        _sync(file.absolute().parent)
        return rows
    finally:
        source.close()
        for name in ("", ".lock", "-wal", "-shm"):
            Path(f"{unfinished}{name}").unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def restore_from(file: Path, url: str) -> int:
    """Copy a backup into an empty store; return the number of rows."""
    if not file.is_file():
        raise IdbanditsError(f"backup must be a file, got {str(file)!r}")
    source = SqliteStore(f"sqlite:///{file.absolute()}")
    target = open_store(url)
    try:
        return copied(source, target)
    finally:
        target.close()
        source.close()
        Path(f"{file}.lock").unlink(missing_ok=True)


def copied(source: Store, target: Store) -> int:
    """Copy all rows in one transaction of each store; return their number."""
    migrate(target)
    with source.transaction(write=False) as reading:
        if isinstance(source, PostgresStore):  # all tables in one consistent state
            reading.all("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if not reading.all(_exists(source), ("schema_version",)):
            raise IdbanditsError(f"{source.url} must be a journal")
        latest = reading.all("SELECT max(number) FROM schema_version")[0][0]
        if latest != migrations()[-1][0]:
            raise IdbanditsError(f"{source.url} must have the schema {migrations()[-1][0]}, got {latest}")
        with target.transaction() as writing:
            for table in TABLES:
                if writing.all(f"SELECT 1 FROM {table} LIMIT 1"):
                    raise IdbanditsError(f"{target.url} must be empty, but its table {table} has rows")
            return sum(_copy(reading, writing, table, target) for table in TABLES)


def _exists(store: Store) -> str:
    if isinstance(store, PostgresStore):
        return "SELECT 1 FROM information_schema.tables WHERE table_name = ? AND table_schema = current_schema()"
    return "SELECT 1 FROM sqlite_master WHERE name = ?"


def _copy(reading: Transaction, writing: Transaction, table: str, target: Store) -> int:
    """Copy a table with the numbers of its rows; return how many rows it has."""
    columns = _columns(table)
    number, is_identity = 0, _has_serial(table) and isinstance(target, PostgresStore)
    names = ", ".join(columns)
    overriding = " OVERRIDING SYSTEM VALUE" if is_identity else ""
    insert = f"INSERT INTO {table} ({names}){overriding} SELECT {names} FROM {{parameters}}"
    for rows in _parts(reading, table, columns):
        writing.change(insert, columns, rows)
        number += len(rows)
    if is_identity:
        sequence = f"pg_get_serial_sequence('{table}', 'n')"
        writing.all(f"SELECT setval({sequence}, (SELECT coalesce(max(n), 0) + 1 FROM {table}), false)")
    return number


def _parts(reading: Transaction, table: str, columns: tuple[str, ...]) -> Iterator[list[Row]]:
    """Yield the rows of a table in parts."""
    keys = TABLES[table]
    places = [columns.index(key) for key in keys]
    order, listed = ", ".join(keys), ", ".join(columns)
    most, after = 1 if table == "snapshots" else MOST, list[Any]()
    while True:
        where = f" WHERE ({order}) > ({', '.join('?' * len(keys))})" if after else ""
        rows = reading.all(f"SELECT {listed} FROM {table}{where} ORDER BY {order} LIMIT {most}", after)
        if not rows:
            return
        yield rows
        after = [rows[-1][place] for place in places]


def _declaration(table: str) -> list[list[str]]:
    """Return the lines of the declaration of a table in the migrations, as words."""
    statements = [statement.strip() for _, text in migrations() for statement in text.split(";\n")]
    (declaration,) = (statement for statement in statements if statement.startswith(f"CREATE TABLE {table} "))
    return [line.split() for line in declaration.splitlines()[1:] if line.strip()]


def _columns(table: str) -> tuple[str, ...]:
    """Return the columns of a table."""
    return tuple(words[0] for words in _declaration(table) if words[0].isidentifier() and words[0].islower())


def _has_serial(table: str) -> bool:
    """Return whether the database numbers the rows of a table."""
    return any(words[1:] == ["{serial},"] for words in _declaration(table))
