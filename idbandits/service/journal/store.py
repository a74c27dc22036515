"""Protocol of stores: connections to a database, with transactions of plain SQL.

Statements have `?` for parameters; values are texts, integers, floats, bytes and None. Whatever fails because the
database does not answer or cannot write raises a `ServiceError` of the kind "unavailable", and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from importlib import resources
from typing import Any, Protocol

from idbandits.service.service_errors import ServiceError

Row = tuple[Any, ...]
Columns = tuple[str, ...]
TYPES = {
    **dict.fromkeys(("n", "version", "learns", "position", "seed", "complete", "revision", "block"), "integer"),
    "decision": "integer", "edition": "integer", "content": "bytes",
    **dict.fromkeys(("at", "shown", "due", "reward", "earlier", "received", "replayed", "created", "revoked"), "real"),
}  # of columns by their names; all others are texts  # fmt: skip
HIGHEST = (  # block; one look into the index for each experiment
    "SELECT coalesce(max(own.block), 0) FROM "
    "(SELECT (SELECT max(s.block) FROM steps AS s WHERE s.experiment = e.name) AS block FROM experiments AS e) AS own"
)


class Transaction(Protocol):
    """Open transaction of one thread."""

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement; return its rows."""

    def many(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> list[Row]:
        """Run a statement for all rows of parameters, a table `{given}` with columns; return the rows that it gives."""

    def change(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement as `many` does; return how many rows it inserted or changed."""

    def wait_for_turn(self) -> None:
        """Wait until no other transaction that appends steps is open: blocks are numbered as they are committed."""

    def block(self) -> int:
        """Return the block of the steps that this transaction appends; `wait_for_turn` comes first."""

    def end(self) -> int:
        """Return a block such that all smaller ones are complete: their steps are seen, and there will be no others."""


class Store(Protocol):
    """Database of one journal."""

    url: str
    types: dict[str, str]  # SQL of the types in migrations
    locking: str  # clause that locks selected rows until the transaction ends

    def transaction(self, *, write: bool = True) -> AbstractContextManager[Transaction]:
        """Begin a transaction of this thread, which is durable when the context ends without an error.

        One that only reads may be within another one, and sees what that wrote.
        """

    def maintain(self) -> None:
        """Do work that is due from time to time, beside those who write."""

    def lag(self) -> float:
        """Return how many blocks, begun and not complete, readers have to wait for."""

    def close(self) -> None:
        """Close all connections."""


class CollisionError(ServiceError):
    """Transaction that the database ended because others were in its way; it may be tried again."""

    def __init__(self, error: Exception) -> None:
        super().__init__("unavailable", f"transactions collided: {error}")


def one(transaction: Transaction, sql: str, values: Sequence[Any] = ()) -> Row | None:
    """Return the first row that a statement gives, if there is one."""
    rows = transaction.all(sql, values)
    return rows[0] if rows else None


def migrations() -> list[tuple[int, str]]:
    """Return the numbers and texts of all migrations, in their order."""
    folder = resources.files("idbandits.service.journal.migrations")
    files = sorted(own.name for own in folder.iterdir() if own.name.endswith(".sql"))
    return [(int(name.split("_")[0]), (folder / name).read_text(encoding="utf-8")) for name in files]


def migrate(store: Store) -> None:
    """Bring a database to the latest schema; each migration is a transaction, which other processes wait for."""
    every = migrations()
    for number, text in every:
        with store.transaction() as own:
            own.wait_for_turn()
            own.all("CREATE TABLE IF NOT EXISTS schema_version (number INTEGER PRIMARY KEY)")
            done = one(own, "SELECT max(number) FROM schema_version")
            latest = 0 if done is None or done[0] is None else int(done[0])
            if latest > every[-1][0]:
                raise ServiceError(
                    "other-library",
                    f"{store.url} must have a schema up to version {every[-1][0]}, got {latest}: a newer idbandits "
                    "wrote it",
                )
            if number > latest:
                for statement in text.format(**store.types).split(";\n"):
                    if statement.strip():
                        own.all(statement)
                own.all("INSERT INTO schema_version (number) VALUES (?)", (number,))
