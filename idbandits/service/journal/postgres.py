"""Journal in PostgreSQL, for several processes and hosts.

Numbers of steps are drawn before their transaction commits, so that a smaller one may appear later. A block is the
number of a transaction, and readers stop below the oldest one that is still open. Those that append steps do so one
after the other, so that later steps of a round have larger numbers. A database that was restored in another server,
whose transactions have smaller numbers, begins a new epoch.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, final

from idbandits.errors import IdbanditsError
from idbandits.service.journal.store import HIGHEST, TYPES, CollisionError, Columns, Row
from idbandits.service.json_text import encoded
from idbandits.service.service_errors import unavailable

EPOCH = 2**48  # transactions of an epoch
TURN = 0x1DBA7D175  # of the lock of those that append steps
BASE = "coalesce((SELECT max(base) FROM epochs), 0)"  # number before the first transaction of the present epoch
OLDEST = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
NEXT = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
PATIENCE = {  # of connections to a server that has vanished, in seconds and milliseconds
    "connect_timeout": 10, "keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}  # fmt: skip
SETTINGS = (
    "synchronous_commit = on",
    "default_transaction_isolation = 'read committed'",
    "statement_timeout = '60s'",
    "idle_in_transaction_session_timeout = '60s'",
    "plan_cache_mode = force_generic_plan",  # planning takes longer than running: prepared statements are planned once
    "enable_seqscan = off",  # all statements have an index; plans made while tables are small would scan large ones
    "enable_hashjoin = off",
    "enable_mergejoin = off",
)


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
    locking = " FOR UPDATE OF o"

    def __init__(self, url: str) -> None:
        self.url = re.sub(r"//[^/@]*@", "//", url)  # without the password, for messages
        self._address, self._psycopg = url, psycopg_module()
        self._local, self._connections, self._lock = Local(), dict[threading.Thread, Any](), threading.Lock()

    def _connection(self) -> Any:
        own = self._local.connection
        if own is None or own.closed or own.broken:
            own = self._psycopg.connect(self._address, autocommit=True, **PATIENCE)
            for setting in SETTINGS:
                own.execute(f"SET {setting}")
            self._local.connection, self._local.has_epoch = own, False
            with self._lock:
                for ended in [thread for thread in self._connections if not thread.is_alive()]:
                    self._connections.pop(ended).close()
                self._connections[threading.current_thread()] = own
        return own

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[PostgresTransaction]:
        """Begin a transaction of this thread. One that reads may be within another."""
        if (outer := self._local.transaction) is not None:
            assert not write, "a transaction that writes must not be within another one"
            yield outer
            return
        errors = self._psycopg.errors
        try:
            connection = self._connection()
            with connection.transaction():
                self._local.transaction = PostgresTransaction(connection, self._local)
                yield self._local.transaction
        except (errors.DataError, errors.IntegrityError, errors.ProgrammingError):
            raise
        except (errors.DeadlockDetected, errors.SerializationFailure) as error:
            raise CollisionError(error) from error
        except (self._psycopg.Error, OSError) as error:
            if (connection := self._local.connection) is not None:
                with suppress(Exception):
                    connection.close()
                self._local.connection = None
            raise unavailable(error) from error
        finally:
            self._local.transaction = None

    def maintain(self) -> None:
        """Do nothing: the server does this."""

    def lag(self) -> float:
        """Return how many transactions began after the oldest one that is still open."""
        with self.transaction(write=False) as own:
            (oldest,), (upcoming,) = own.all(OLDEST)[0], own.all(NEXT)[0]
        return float(upcoming - oldest)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for own in self._connections.values():
                with suppress(Exception):
                    own.close()
            self._connections.clear()
        self._local = Local()


class Local(threading.local):
    """Of a thread: its connection, the transaction that it has begun, and whether the epoch was checked."""

    connection: Any = None
    transaction: PostgresTransaction | None = None
    has_epoch = False


@cache
def _given(columns: Columns) -> str:
    """Return a table of the objects of a JSON text: one parameter is quicker to send than arrays or many of them."""
    names = ", ".join(f"{column} {PostgresStore.types[TYPES.get(column, 'text')]}" for column in columns)
    return f"json_to_recordset(%s::json) AS given ({names})"


@final
class PostgresTransaction:
    """Open transaction."""

    def __init__(self, connection: Any, local: Local) -> None:
        self._connection, self._local = connection, local

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement; return its rows."""
        cursor = self._connection.execute(sql.replace("?", "%s"), values or None, prepare=False)
        return cursor.fetchall() if cursor.description is not None else []

    def many(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> list[Row]:
        """Run a statement once for all rows of `given`; return the rows that it gives."""
        cursor = self._run(sql, columns, rows)
        return [] if cursor is None else list(cursor.fetchall())

    def change(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement as `many` does; return how many rows it inserted or changed."""
        cursor = self._run(sql, columns, rows)
        return 0 if cursor is None else int(cursor.rowcount)

    def _run(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> Any:
        own = [dict(zip(columns, row, strict=True)) for row in rows]
        if not own:
            return None
        for name in columns:
            if TYPES.get(name) == "bytes":
                for row_ in own:
                    row_[name] = f"\\x{row_[name].hex()}"
        return self._connection.execute(sql.format(given=_given(columns)), (encoded(own),), prepare=True)

    def wait_for_turn(self) -> None:
        """Lock a number of this database until the transaction ends, before it gets its own number."""
        self.all("SELECT pg_advisory_xact_lock(?)", (TURN,))

    def block(self) -> int:
        """Return the number of this transaction in the present epoch."""
        base, number = self.all(f"SELECT {BASE}, pg_current_xact_id()::text::bigint")[0]
        if not self._local.has_epoch:
            highest = self.all(HIGHEST)[0][0]
            if base + number <= highest:  # the database was restored in another server
                base = (highest // EPOCH + 1) * EPOCH
                self.all("INSERT INTO epochs (base) VALUES (?)", (base,))
            self._local.has_epoch = True
        return int(base + number)

    def end(self) -> int:
        """Return the number of the oldest transaction that is still open, or of the next one."""
        return int(self.all(f"SELECT {BASE} + pg_snapshot_xmin(pg_current_snapshot())::text::bigint")[0][0])
