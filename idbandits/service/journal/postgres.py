"""Journal in PostgreSQL, for several processes and hosts.

Numbers of steps are drawn before their transaction commits, so that a smaller one may appear later. A block is the
number of a transaction, and readers stop below the oldest one that is still open. A database that was restored in
another server, whose transactions have smaller numbers, begins a new epoch.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, final

from idbandits.errors import IdbanditsError
from idbandits.service.journal.store import Row
from idbandits.service.problems import unavailable

EPOCH = 2**48  # transactions of an epoch
CURRENT = "SELECT pg_current_xact_id()::text::bigint"
OLDEST = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
NEXT = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


def psycopg_module() -> Any:
    """Import psycopg, or raise an error that names the extra."""
    try:
        import psycopg
    except ImportError:
        raise IdbanditsError("a journal in PostgreSQL needs psycopg: pip install 'idbandits[serve]'") from None
    return psycopg


@final
class PostgresStore:
    """PostgreSQL database; every thread has a connection of its own."""

    types = {  # noqa: RUF012
        "text": "TEXT", "integer": "BIGINT", "real": "DOUBLE PRECISION", "bytes": "BYTEA",
        "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    }  # fmt: skip
    locking, skipping = " FOR UPDATE", " FOR UPDATE SKIP LOCKED"

    def __init__(self, url: str) -> None:
        self.url = re.sub(r"//[^/@]*@", "//", url)  # without the password, for messages
        self._address, self._psycopg = url, psycopg_module()
        self._local, self._connections, self._lock = threading.local(), list[Any](), threading.Lock()
        self._base: int | None = None  # of the present epoch

    def _connection(self) -> Any:
        own = getattr(self._local, "connection", None)
        if own is None or own.closed or own.broken:
            own = self._psycopg.connect(self._address, autocommit=True, connect_timeout=10, prepare_threshold=1)
            own.execute("SET synchronous_commit = on")
            own.execute("SET statement_timeout = '60s'")
            self._local.connection = own
            with self._lock:
                self._connections = [one for one in self._connections if not one.closed] + [own]
        return own

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[PostgresTransaction]:
        """Begin a transaction of this thread."""
        errors = self._psycopg.errors
        try:
            connection = self._connection()
            with connection.transaction():
                yield PostgresTransaction(self, connection)
        except (errors.DataError, errors.IntegrityError, errors.ProgrammingError):
            raise
        except (self._psycopg.Error, OSError) as error:
            if (connection := getattr(self._local, "connection", None)) is not None:
                with suppress(Exception):
                    connection.close()
                self._local.connection = None
            raise unavailable(error) from error

    def base(self, own: PostgresTransaction) -> int:
        """Return the number before the first block of the present epoch."""
        if self._base is None:
            highest = own.all("SELECT coalesce(max(block), 0) FROM steps")[0][0]
            upcoming = own.all(NEXT)[0][0]
            self._base = highest // EPOCH * EPOCH
            if self._base + upcoming <= highest:  # the database was restored in another server
                self._base += EPOCH
        return self._base

    def lag(self) -> float:
        """Return how many transactions began after the oldest one that is still open."""
        with self.transaction(write=False) as own:
            (oldest,), (upcoming,) = own.all(OLDEST)[0], own.all(NEXT)[0]
        return float(upcoming - oldest)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for own in self._connections:
                with suppress(Exception):
                    own.close()
            self._connections.clear()
        self._local = threading.local()


@final
class PostgresTransaction:
    """Open transaction."""

    def __init__(self, store: PostgresStore, connection: Any) -> None:
        self._store, self._connection = store, connection

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement; return its rows."""
        cursor = self._connection.execute(sql.replace("?", "%s"), values or None)
        return cursor.fetchall() if cursor.description is not None else []

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[list[Row]]:
        """Run a statement for each row of parameters, sent together; return the rows that each run gives."""
        own, results = list(rows), list[list[Row]]()
        if not own:
            return results
        with self._connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), own, returning=True)
            while True:
                results.append(cursor.fetchall() if cursor.description is not None else [])
                if not cursor.nextset():
                    return results

    def block(self) -> int:
        """Return the number of this transaction."""
        return int(self._store.base(self) + self.all(CURRENT)[0][0])

    def end(self) -> int:
        """Return the number of the oldest transaction that is still open, or of the next one."""
        return int(self._store.base(self) + self.all(OLDEST)[0][0])
