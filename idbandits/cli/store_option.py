"""Option --store of commands, and the journal that it names."""

from __future__ import annotations

import importlib.util
import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from idbandits.errors import IdbanditsError

if TYPE_CHECKING:  # imported where it is used, because it needs an extra
    from idbandits.service.journal.journal import Journal

VARIABLE = "IDBANDITS_STORE"
NEEDED = ("msgspec", "apsw", "psycopg", "starlette", "uvicorn", "httptools", "httpx", "prometheus_client")


def require_service() -> None:
    """Raise unless the packages of the extra `serve` are installed."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise IdbanditsError(f"this command needs {', '.join(missing)}: pip install 'idbandits[serve]'")


def store_of(arguments: Namespace) -> str:
    """Return the URL of the store: of the option, or of the environment, which hides passwords from `ps`."""
    url: str | None = arguments.store or os.environ.get(VARIABLE)
    if url is None:
        raise IdbanditsError(f"--store must be given, or the environment variable {VARIABLE}: sqlite:///shop.db")
    return url


@contextmanager
def open_journal(arguments: Namespace, *, create: bool = False) -> Iterator[Journal]:
    """Open the journal of a command; with `create`, a file that does not exist is created."""
    from idbandits.service.journal.journal import Journal
    from idbandits.service.live.live import open_store

    store = open_store(store_of(arguments), create=create)
    try:
        yield Journal(store)
    finally:
        store.close()
