"""Protocol of stores: connections to a database, with transactions of plain SQL.

Statements have `?` for parameters; values are texts, integers, floats, bytes and None. If the database does not answer
or cannot write, a `ServiceError` of the kind "unavailable" is raised, and the transaction has changed nothing.
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
}  # by column; all other columns are texts  # fmt: skip
HIGHEST = (  # block; needs one index lookup per experiment
    "SELECT coalesce(max(latest.block), 0) FROM "
    "(SELECT (SELECT max(s.block) FROM steps AS s WHERE s.experiment = e.name) AS block FROM experiments AS e) "
    "AS latest"
)


class Transaction(Protocol):
    """Open transaction of one thread."""

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement; return its rows."""

    def many(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> list[Row]:
        """Run a statement on `{parameters}`, a table of `rows` with the given columns; return its rows."""

    def change(self, sql: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement like `many`; return the number of inserted or changed rows."""

    def wait_for_turn(self) -> None:
        """Wait until no other transaction that appends steps is open, so that blocks are numbered in commit order."""

    def block(self) -> int:
        """Return the block of the steps that this transaction appends; call `wait_for_turn` first."""

    def end(self) -> int:
        """Return a block below which all blocks are complete: their steps are visible, and no steps will be added."""


class Store(Protocol):
    """Database of one journal."""

    url: str
    types: dict[str, str]  # SQL of the types in migrations
    locking: str  # clause that locks selected rows until the transaction ends

    def transaction(self, *, write: bool = True) -> AbstractContextManager[Transaction]:
        """Begin a transaction of this thread, which is durable when the context ends without an error.

        A transaction that only reads may be nested in another transaction, and sees what that transaction wrote.
        """

    def maintain(self) -> None:
        """Do periodic work on the database, concurrently with writers."""

    def lag(self) -> float:
        """Return the number of incomplete blocks that readers have to wait for."""

    def close(self) -> None:
        """Close all connections."""


class CollisionError(ServiceError):
    """Transaction that the database aborted because of a conflict with another transaction; it may be retried."""

    def __init__(self, error: Exception) -> None:
        super().__init__("unavailable", f"transactions collided: {error}")


def one(transaction: Transaction, sql: str, values: Sequence[Any] = ()) -> Row | None:
    """Return the first row of a statement's result, None if the result is empty."""
    rows = transaction.all(sql, values)
    return rows[0] if rows else None


def migrations() -> list[tuple[int, str]]:
    """Return the numbers and texts of all migrations, in ascending order."""
    folder = resources.files("idbandits.service.journal.migrations")
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [(int(name.split("_")[0]), (folder / name).read_text(encoding="utf-8")) for name in files]


def migrate(store: Store) -> None:
    """Migrate a database to the latest schema. Each migration is a transaction; other processes wait for it."""
    scripts = migrations()
    oldest, newest = scripts[0][0], scripts[-1][0]
    for number, script in scripts:
        with store.transaction() as transaction:
            transaction.wait_for_turn()
            transaction.all("CREATE TABLE IF NOT EXISTS schema_version (number INTEGER PRIMARY KEY)")
            done = one(transaction, "SELECT max(number) FROM schema_version")
            latest = 0 if done is None or done[0] is None else int(done[0])
            if latest > newest:
                raise ServiceError(
                    "other-library",
                    f"{store.url} must have a schema up to version {newest}, got {latest}: a newer idbandits wrote it",
                )
            if 0 < latest < oldest:
                raise ServiceError(
                    "other-library",
                    f"{store.url} must have a schema from version {oldest}, got {latest}, which was never released: "
                    "export its log by the idbandits that wrote it",
                )
            if number > latest:
                for statement in script.format(**store.types).split(";\n"):
                    if statement.strip():
                        transaction.all(statement)
                transaction.all("INSERT INTO schema_version (number) VALUES (?)", (number,))
