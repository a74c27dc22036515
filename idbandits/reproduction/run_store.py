"""Finished runs in an SQLite file, each under a key that stands for everything its result depends on."""

import functools
import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, final

import numba
import numpy as np

from idbandits.errors import FormatError, IdbanditsError
from idbandits.simulation.loop import Run

FORMAT = 1
ABOVE = ("cli/", "reproduction/", "__main__.py")  # sources that results do not depend on
PLAYED = ("reproduction/problems.py", "reproduction/literal.py")  # exceptions: played in the runs
TABLES = {
    "runs": "CREATE TABLE runs (key TEXT PRIMARY KEY, skipped INTEGER, totals BLOB, sum INTEGER)",
    "notes": "CREATE TABLE notes (key TEXT PRIMARY KEY, text TEXT)",
}


@functools.cache
def version() -> str:
    """Return a digest of everything that all results depend on: sources and numerical libraries."""
    import scipy

    digest = hashlib.sha256(f"{FORMAT} {np.__version__} {scipy.__version__} {numba.__version__}".encode())
    package = Path(__file__).parents[1]
    for source in sorted(package.rglob("*.py")):
        name = source.relative_to(package).as_posix()
        if name in PLAYED or not name.startswith(ABOVE):
            digest.update(name.encode() + source.read_bytes())
    return digest.hexdigest()


@final
class Store:
    """File of finished runs and notes; a context manager. It waits up to `timeout` seconds while others write."""

    def __init__(self, path: Path, timeout: float = 60.0) -> None:
        self._path = path
        with self._errors_name_the_file():
            self._database = sqlite3.connect(path, timeout=timeout)
        try:
            with self._errors_name_the_file():
                tables = dict(self._database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
            if not tables.items() <= TABLES.items():
                raise self._format_error("it has other tables")
            for create in TABLES.values() if len(tables) < len(TABLES) else ():
                self._execute(create.replace("TABLE", "TABLE IF NOT EXISTS"))
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def get(self, key: str) -> Run | None:
        """Return the finished run with this key, if there is one."""
        row = self._execute("SELECT skipped, totals, sum FROM runs WHERE key = ?", key)
        if row is None:
            return None
        skipped, totals, checksum = row
        if not isinstance(totals, bytes) or zlib.crc32(totals) != checksum:
            raise self._format_error("a run in it is damaged")
        return Run(np.frombuffer(totals).reshape(-1, 3), skipped)

    def put(self, key: str, run: Run) -> None:
        """Store a finished run."""
        totals = np.ascontiguousarray(run.totals, dtype=np.float64).tobytes()
        self._execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", key, run.skipped, totals, zlib.crc32(totals))

    def note(self, settings: Any, make: Callable[[], str]) -> str:
        """Return the text stored for these settings, which are plain data; make and store it if there is none."""
        key = hashlib.sha256(json.dumps([version(), settings], sort_keys=True).encode()).hexdigest()
        row = self._execute("SELECT text FROM notes WHERE key = ?", key)
        if row is not None:
            return str(row[0])
        text = make()
        self._execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", key, text)
        return text

    def _execute(self, statement: str, *values: Any) -> Any:
        """Execute a statement in a transaction, and return the first row."""
        with self._errors_name_the_file(), self._database:
            return self._database.execute(statement, values).fetchone()

    def _format_error(self, reason: object) -> FormatError:
        return FormatError(f"{self._path} is not a file of finished runs ({reason}); move it away to start again")

    @contextmanager
    def _errors_name_the_file(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # the file cannot be read or written
            raise IdbanditsError(f"{self._path}: {error}") from None
        except sqlite3.DatabaseError as error:  # the file is damaged, or not a database
            raise self._format_error(error) from None
