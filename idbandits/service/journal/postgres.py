"""Journal in PostgreSQL, for several processes and hosts.

Numbers of steps are drawn before their transaction commits, so that a smaller number may appear later. A block is
therefore the number of a transaction, and readers stop below the oldest open transaction. Transactions that append
steps run one after the other, so that later steps of a round have larger numbers. When a database is restored on
another server, whose transactions have smaller numbers, it begins a new epoch.
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

EPOCH = 2**48  # transactions per epoch
TURN = 0x1DBA7D175  # key of the advisory lock of transactions that append steps
BASE = "coalesce((SELECT max(base) FROM epochs), 0)"  # of the present epoch
OLDEST = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
NEXT = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
PATIENCE = {  # with a server that does not answer: seconds, `tcp_user_timeout` in milliseconds
    "connect_timeout": 10, "keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}  # fmt: skip
SETTINGS = (
    "synchronous_commit = on",
    "default_transaction_isolation = 'read committed'",
    "statement_timeout = '60s'",
    "idle_in_transaction_session_timeout = '60s'",
    "plan_cache_mode = force_generic_plan",  # plan prepared statements once: planning takes longer than running
    "enable_seqscan = off",  # all statements have an index; plans made for small tables would scan large tables
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
    """PostgreSQL database; each thread has its own connection."""

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
        connection = self._local.connection
        if connection is None or connection.closed or connection.broken:
            connection = self._psycopg.connect(self._address, autocommit=True, **PATIENCE)
            for setting in SETTINGS:
                connection.execute(f"SET {setting}")
            self._local.connection, self._local.has_epoch = connection, False
            with self._lock:
                for ended_thread in [thread for thread in self._connections if not thread.is_alive()]:
                    self._connections.pop(ended_thread).close()
                self._connections[threading.current_thread()] = connection
        return connection

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[PostgresTransaction]:
        """Begin a transaction of this thread. A transaction that only reads may be nested in another transaction."""
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
        """Do nothing: the server maintains itself."""

    def lag(self) -> float:
        """Return the number of transactions that began since the oldest open transaction."""
        with self.transaction(write=False) as transaction:
            (oldest,), (upcoming,) = transaction.all(OLDEST)[0], transaction.all(NEXT)[0]
        return float(upcoming - oldest)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for connection in self._connections.values():
                with suppress(Exception):
                    connection.close()
            self._connections.clear()
        self._local = Local()


class Local(threading.local):
    """State of a thread: its connection, its open transaction, and whether its connection has checked the epoch."""

    connection: Any = None
    transaction: PostgresTransaction | None = None
    has_epoch = False


@cache
def _parameter_table(columns: Columns) -> str:
    """Return the SQL of a table that is read from one JSON parameter: faster than arrays or many parameters."""
    names = ", ".join(f"{column} {PostgresStore.types[TYPES.get(column, 'text')]}" for column in columns)
    return f"json_to_recordset(%s::json) AS parameters ({names})"


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
        """Run a statement once on the table `{parameters}` of `rows`; return its rows."""
        cursor = self._run(sql, columns, rows)
        return [] if cursor is None else list(cursor.fetchall())

    def change(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement like `many`; return the number of inserted or changed rows."""
        cursor = self._run(sql, columns, rows)
        return 0 if cursor is None else int(cursor.rowcount)

    def _run(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> Any:
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        if not records:
            return None
        for name in columns:
            if TYPES.get(name) == "bytes":
                for record in records:
                    record[name] = f"\\x{record[name].hex()}"
        statement = sql.format(parameters=_parameter_table(columns))
        return self._connection.execute(statement, (encoded(records),), prepare=True)

    def wait_for_turn(self) -> None:
        """Take the advisory lock `TURN` until the transaction ends, before the transaction gets a number."""
        self.all("SELECT pg_advisory_xact_lock(?)", (TURN,))

    def block(self) -> int:
        """Return the number of this transaction in the present epoch."""
        base, number = self.all(f"SELECT {BASE}, pg_current_xact_id()::text::bigint")[0]
        if not self._local.has_epoch:
            highest = self.all(HIGHEST)[0][0]
            if base + number <= highest:  # the database was restored on another server
                base = (highest // EPOCH + 1) * EPOCH
                self.all("INSERT INTO epochs (base) VALUES (?)", (base,))
            self._local.has_epoch = True
        return int(base + number)

    def end(self) -> int:
        """Return the number of the oldest open transaction; if none is open, that of the next transaction."""
        return int(self.all(f"SELECT {BASE} + pg_snapshot_xmin(pg_current_snapshot())::text::bigint")[0][0])
