"""Journal in an SQLite file (WAL, synchronous=FULL); writers of all processes wait for a file lock.

SQLite's busy handler sleeps for increasing times, which ruins the 99th percentile of latency; with the file lock, the
operating system wakes the next writer at once.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, final

from idbandits.errors import IdbanditsError
from idbandits.service.journal.store import HIGHEST, Columns, Row
from idbandits.service.service_errors import unavailable

SOUND = (3, 51, 3)  # in earlier versions, concurrent writes or checkpoints of two connections could corrupt the WAL
CACHED = 200  # prepared statements
LARGEST = 8  # exponent: a statement has at most 2**LARGEST rows
COPIED, LOGGED, MOST_LOGGED = 2_000, 16_000, 100_000  # pages of the WAL: see `SqliteStore.maintain`
MOST_WAIT = 60_000  # milliseconds to wait for writers of other programs, which do not use the file lock


def apsw_module() -> Any:
    """Import APSW, or raise an error that names the extra."""
    try:
        import apsw
    except ImportError:
        raise IdbanditsError("a journal in SQLite needs APSW: pip install 'idbandits[serve]'") from None
    if tuple(map(int, apsw.sqlite_lib_version().split("."))) < SOUND:
        needed = ".".join(map(str, SOUND))
        raise IdbanditsError(f"apsw must contain SQLite >= {needed}, got {apsw.sqlite_lib_version()}")
    return apsw


@final
class SqliteStore:
    """SQLite file; each thread has its own connection."""

    types = {  # noqa: RUF012
        "text": "TEXT", "integer": "INTEGER", "real": "REAL", "bytes": "BLOB",
        "serial": "INTEGER PRIMARY KEY",
    }  # fmt: skip
    locking = ""  # there is one writer at a time

    def __init__(self, url: str, *, vfs: str | None = None, synchronous: str = "FULL", create: bool = True) -> None:
        path = url.removeprefix("sqlite://").removeprefix("/")
        if not path or path == ":memory:":
            raise IdbanditsError(f"store must be the URL of a file, such as sqlite:///shop.db, got {url!r}")
        if not create and not os.path.exists(path):
            raise IdbanditsError(f"store must be a file that exists, got {url!r}")
        self.url, self._apsw, self._path = url, apsw_module(), os.path.abspath(path)
        self._vfs, self._synchronous = vfs, synchronous
        self._local, self._connections, self._lock = Local(), dict[threading.Thread, Any](), threading.Lock()
        try:
            self._lock_file = os.open(self._path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unavailable(error) from error
        self._thread_lock = threading.Lock()  # the file lock does not separate threads of this process
        self._logged = self._copied = 0  # pages of the WAL, and pages of it that were copied to the database
        try:
            with self.transaction():  # the file is switched to WAL under the lock
                pass
        except BaseException:
            self.close()
            raise

    def _connection(self) -> Any:
        connection = self._local.connection
        if connection is None:
            connection = self._apsw.Connection(self._path, vfs=self._vfs, statementcachesize=CACHED)
            try:
                connection.set_busy_timeout(MOST_WAIT)
                # without EXTRA, the rollback journal of the switch to WAL could reappear after a power failure and undo
                # all later commits
                connection.execute("PRAGMA synchronous=EXTRA").fetchall()
                connection.execute("PRAGMA journal_mode=WAL").fetchall()
                connection.execute(f"PRAGMA synchronous={self._synchronous}").fetchall()
                connection.set_wal_hook(self._committed)  # replaces SQLite's hook, which copies 1,000 pages in a commit
            except BaseException:
                connection.close(True)
                raise
            self._local.connection = connection
            with self._lock:
                for ended_thread in [thread for thread in self._connections if not thread.is_alive()]:
                    self._connections.pop(ended_thread).close(True)
                self._connections[threading.current_thread()] = connection
        return connection

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[SqliteTransaction]:
        """Begin a transaction of this thread; writers wait for each other.

        A transaction that only reads may be nested in another transaction.
        """
        if (outer := self._local.transaction) is not None:
            assert not write, "a transaction that writes must not be within another one"
            yield outer
        elif not write:
            with self._began("BEGIN") as transaction:
                yield transaction
        else:
            with self._thread_lock, self._file_lock(), self._began("BEGIN IMMEDIATE") as transaction:
                yield transaction

    @contextmanager
    def _file_lock(self) -> Iterator[None]:
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        except (OSError, ValueError) as error:  # the store was closed
            raise unavailable(error) from error
        try:
            yield
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    @contextmanager
    def _began(self, statement: str) -> Iterator[SqliteTransaction]:
        connection = None
        try:
            connection = self._connection()
            connection.execute(statement)
            self._local.transaction = SqliteTransaction(connection)
            yield self._local.transaction
            connection.execute("COMMIT")
        except BaseException as error:
            if connection is not None and not self._rolled_back(connection):
                self._discard(connection)
            if isinstance(error, (self._apsw.ConstraintError, self._apsw.TooBigError, self._apsw.SQLError)):
                raise
            if isinstance(error, (self._apsw.Error, OSError)):
                self._discard(connection)
                raise unavailable(error) from error
            raise
        finally:
            self._local.transaction = None

    def _committed(self, connection: Any, _: str, pages: int) -> int:
        """Record the number of pages of the WAL after a commit; copy pages if `maintain` is far behind."""
        self._logged = pages
        if pages > MOST_LOGGED:
            self._copy(connection)
        return int(self._apsw.SQLITE_OK)

    def maintain(self) -> None:
        """Copy pages of the WAL to the database, concurrently with writers.

        SQLite restarts the WAL when all pages were copied. If the WAL is large, writers wait until it is copied.
        """
        if self._logged < self._copied:  # SQLite has restarted the WAL
            self._copied = 0
        if self._logged - self._copied < COPIED:
            return
        connection = self._connection()
        self._copy(connection)
        if self._logged > LOGGED:
            with self._thread_lock, self._file_lock():
                self._copy(connection)

    def _copy(self, connection: Any) -> None:
        with suppress(self._apsw.Error):  # pages of the WAL are durable; `maintain` tries again
            _, self._copied = connection.wal_checkpoint(mode=self._apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _rolled_back(self, connection: Any) -> bool:
        """Roll back; return whether the connection has no open transaction."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except self._apsw.Error:
            return False
        return True

    def _discard(self, connection: Any) -> None:
        """Close the connection of this thread; the next transaction opens the file again."""
        self._local.connection = None
        if connection is not None:
            with self._lock:
                self._connections.pop(threading.current_thread(), None)
            with suppress(self._apsw.Error):
                connection.close(True)

    def lag(self) -> float:
        """Return 0: with one writer at a time, transactions commit in the order of their blocks."""
        return 0.0

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for connection in self._connections.values():
                with suppress(self._apsw.Error):  # the checkpoint may fail: pages of the WAL are durable
                    connection.close(True)
            self._connections.clear()
        self._local = Local()
        if self._lock_file >= 0:
            os.close(self._lock_file)
            self._lock_file = -1


class Local(threading.local):
    """State of a thread: its connection and its open transaction."""

    connection: Any = None
    transaction: SqliteTransaction | None = None


@cache
def _prepared(sql: str, columns: Columns, number: int) -> str:
    """Return a statement in which `parameters` is a table of bound values."""
    row = f"({', '.join('?' * len(columns))})"
    table = f"parameters ({', '.join(columns)}) AS (VALUES {', '.join([row] * number)})"
    return f"WITH {table} {sql.format(parameters='parameters')}"


@final
class SqliteTransaction:
    """Open transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement; return its rows."""
        return list(self._connection.execute(sql, values))

    def many(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> list[Row]:
        """Run a statement on the table `{parameters}` of `rows`, in parts; return its rows."""
        return [row for part in self._parts(sql, columns, rows) for row in self._connection.execute(*part)]

    def change(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement like `many`; return the number of inserted or changed rows."""
        number = 0
        for part in self._parts(sql, columns, rows):
            self._connection.execute(*part).fetchall()
            number += self._connection.changes()
        return number

    def _parts(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
        """Yield statements with their parameters. Each has a power of 2 of rows, so that few statements are prepared.

        A statement for many rows releases the interpreter lock once; a statement per row would wait for other threads
        at each row.
        """
        all_rows, done = list(rows), 0
        while done < len(all_rows):
            number = 1 << min((len(all_rows) - done).bit_length() - 1, LARGEST)
            yield _prepared(sql, columns, number), [value for row in all_rows[done : done + number] for value in row]
            done += number

    def wait_for_turn(self) -> None:
        """Do nothing: the store has one writer at a time."""

    def block(self) -> int:
        """Return the number after the latest block."""
        return int(self.all(HIGHEST)[0][0]) + 1

    def end(self) -> int:
        """Return a number above all blocks: all visible blocks are complete."""
        return 2**62
