"""Journal in an SQLite file (WAL, synchronous=FULL); writers of all processes wait for a lock of the file.

SQLite's own wait for a writer sleeps for growing times, which ruins the 99th percentile of latency; the operating
system wakes the next one at once.
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

SOUND = (3, 51, 3)  # before, WAL could be corrupted when two connections wrote or checkpointed concurrently
CACHED = 200  # prepared statements
LARGEST = 8  # power of 2: most rows of a statement
COPIED, LOGGED, MOST_LOGGED = 2_000, 16_000, 100_000  # pages of the log: see `SqliteStore.maintain`
MOST_WAIT = 60_000  # milliseconds for writers of other programs, which do not know the lock


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
    """SQLite file; every thread has a connection of its own."""

    types = {  # noqa: RUF012
        "text": "TEXT", "integer": "INTEGER", "real": "REAL", "bytes": "BLOB",
        "serial": "INTEGER PRIMARY KEY",
    }  # fmt: skip
    locking = ""  # there is one writer

    def __init__(self, url: str, *, vfs: str | None = None, synchronous: str = "FULL") -> None:
        path = url.removeprefix("sqlite://").removeprefix("/")
        if not path or path == ":memory:":
            raise IdbanditsError(f"store must be the URL of a file, such as sqlite:///shop.db, got {url!r}")
        self.url, self._apsw, self._path = url, apsw_module(), os.path.abspath(path)
        self._vfs, self._synchronous = vfs, synchronous
        self._local, self._connections, self._lock = Local(), dict[threading.Thread, Any](), threading.Lock()
        try:
            self._lock_file = os.open(self._path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unavailable(error) from error
        self._thread_lock = threading.Lock()  # the lock of a file is one of processes
        self._logged = self._copied = 0  # pages of the log, and those of them that are in the database
        try:
            with self.transaction():  # a file becomes one with WAL under the lock
                pass
        except BaseException:
            self.close()
            raise

    def _connection(self) -> Any:
        own = self._local.connection
        if own is None:
            own = self._apsw.Connection(self._path, vfs=self._vfs, statementcachesize=CACHED)
            try:
                own.set_busy_timeout(MOST_WAIT)
                own.execute("PRAGMA synchronous=EXTRA").fetchall()  # else the journal of the next statement could come
                own.execute("PRAGMA journal_mode=WAL").fetchall()  # back after a power failure and undo everything
                own.execute(f"PRAGMA synchronous={self._synchronous}").fetchall()
                own.set_wal_hook(self._committed)  # instead of SQLite's own, which copies 1,000 pages within commits
            except BaseException:
                own.close(True)
                raise
            self._local.connection = own
            with self._lock:
                for ended in [thread for thread in self._connections if not thread.is_alive()]:
                    self._connections.pop(ended).close(True)
                self._connections[threading.current_thread()] = own
        return own

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[SqliteTransaction]:
        """Begin a transaction of this thread; writers wait for each other. One that reads may be within another."""
        if (outer := self._local.transaction) is not None:
            assert not write, "a transaction that writes must not be within another one"
            yield outer
        elif not write:
            with self._began("BEGIN") as own:
                yield own
        else:
            with self._thread_lock, self._file_lock(), self._began("BEGIN IMMEDIATE") as own:
                yield own

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
        """Note how many pages the log has after a commit; copy them now only if nobody else does."""
        self._logged = pages
        if pages > MOST_LOGGED:
            self._copy(connection)
        return int(self._apsw.SQLITE_OK)

    def maintain(self) -> None:
        """Copy pages of the log into the database, beside those who write.

        The log begins again when all of it was copied. A large one is copied to its end while nobody writes.
        """
        if self._logged < self._copied:  # it has begun again
            self._copied = 0
        if self._logged - self._copied < COPIED:
            return
        connection = self._connection()
        self._copy(connection)
        if self._logged > LOGGED:
            with self._thread_lock, self._file_lock():
                self._copy(connection)

    def _copy(self, connection: Any) -> None:
        with suppress(self._apsw.Error):  # what is in the log is durable; it is tried again
            _, self._copied = connection.wal_checkpoint(mode=self._apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _rolled_back(self, connection: Any) -> bool:
        """Return whether no transaction is left."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except self._apsw.Error:
            return False
        return True

    def _discard(self, connection: Any) -> None:
        """Close the connection of this thread, so that the next transaction opens the file again."""
        self._local.connection = None
        if connection is not None:
            with self._lock:
                self._connections.pop(threading.current_thread(), None)
            with suppress(self._apsw.Error):
                connection.close(True)

    def lag(self) -> float:
        """Return 0: transactions of one writer are complete in their order."""
        return 0.0

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for own in self._connections.values():
                with suppress(self._apsw.Error):  # of a checkpoint: what is in the WAL is durable
                    own.close(True)
            self._connections.clear()
        self._local = Local()
        if self._lock_file >= 0:
            os.close(self._lock_file)
            self._lock_file = -1


class Local(threading.local):
    """Of a thread: its connection, and the transaction that it has begun."""

    connection: Any = None
    transaction: SqliteTransaction | None = None


@cache
def _prepared(sql: str, columns: Columns, number: int) -> str:
    """Return a statement in which `given` is a table of parameters."""
    row = f"({', '.join('?' * len(columns))})"
    return f"WITH given ({', '.join(columns)}) AS (VALUES {', '.join([row] * number)}) {sql.format(given='given')}"


@final
class SqliteTransaction:
    """Open transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement; return its rows."""
        return list(self._connection.execute(sql, values))

    def many(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> list[Row]:
        """Run a statement for all rows of `given`; return the rows that it gives."""
        return [own for part in self._parts(sql, columns, rows) for own in self._connection.execute(*part)]

    def change(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement as `many` does; return how many rows it inserted or changed."""
        number = 0
        for part in self._parts(sql, columns, rows):
            self._connection.execute(*part).fetchall()
            number += self._connection.changes()
        return number

    def _parts(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
        """Yield statements with their parameters for as many rows as powers of 2, so that few are prepared.

        One statement for many rows takes the interpreter's lock once; other threads could keep it at every row.
        """
        left, done = list(rows), 0
        while done < len(left):
            number = 1 << min((len(left) - done).bit_length() - 1, LARGEST)
            yield _prepared(sql, columns, number), [value for row in left[done : done + number] for value in row]
            done += number

    def wait_for_turn(self) -> None:
        """Do nothing: there is one writer."""

    def block(self) -> int:
        """Return the number after the latest block."""
        return int(self.all(HIGHEST)[0][0]) + 1

    def end(self) -> int:
        """Return a number above all blocks: those that are seen are complete."""
        return 2**62
