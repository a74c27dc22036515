"""Finished runs in an SQLite file, each under a key that stands for all that its result depends on."""

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
ABOVE = ("cli/", "reproduction/", "__main__.py")  # packages that results do not depend on: they make and show runs
PLAYED = ("reproduction/problems.py", "reproduction/literal.py")  # exceptions: played in the runs
TABLES = {
    "runs": "CREATE TABLE runs (key TEXT PRIMARY KEY, skipped INTEGER, totals BLOB, sum INTEGER)",
    "notes": "CREATE TABLE notes (key TEXT PRIMARY KEY, text TEXT)",
}


@functools.cache
def version() -> str:
    """A digest of what all results depend on: the sources behind them, and the libraries that these rest on."""
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
    """Finished runs, and notes, in a file; a context manager. It waits `timeout` seconds while others write."""

    def __init__(self, path: Path, timeout: float = 60.0) -> None:
        self._path = path
        with self._errors_name_the_file():
            self._database = sqlite3.connect(path, timeout=timeout)
        try:
            with self._errors_name_the_file(), self._database:
                tables = dict(self._database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
                if not tables:
                    self._database.execute("BEGIN IMMEDIATE")
                    for create in TABLES.values():
                        self._database.execute(create.replace("TABLE", "TABLE IF NOT EXISTS"))
                elif tables != TABLES:
                    raise self._not_ours("it has other tables")
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def get(self, key: str) -> Run | None:
        """The finished run with this key, if there is one."""
        with self._errors_name_the_file():
            row = self._database.execute("SELECT skipped, totals, sum FROM runs WHERE key = ?", [key]).fetchone()
        if row is None:
            return None
        skipped, totals, checksum = row
        if not isinstance(totals, bytes) or zlib.crc32(totals) != checksum:
            raise self._not_ours("a run in it is damaged")
        return Run(np.frombuffer(totals).reshape(-1, 3), skipped)

    def put(self, key: str, run: Run) -> None:
        """Keep a finished run."""
        totals = np.ascontiguousarray(run.totals, dtype=np.float64).tobytes()
        row = [key, run.skipped, totals, zlib.crc32(totals)]
        with self._errors_name_the_file(), self._database:
            self._database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", row)

    def note(self, settings: Any, make: Callable[[], str]) -> str:
        """The text that was once made for these settings, which are plain data; it is made now if there is none."""
        key = hashlib.sha256(json.dumps([version(), settings], sort_keys=True).encode()).hexdigest()
        with self._errors_name_the_file():
            row = self._database.execute("SELECT text FROM notes WHERE key = ?", [key]).fetchone()
        if row is not None:
            return str(row[0])
        text = make()
        with self._errors_name_the_file(), self._database:
            self._database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", [key, text])
        return text

    def _not_ours(self, reason: object) -> FormatError:
        return FormatError(f"{self._path} is not a file of finished runs ({reason}); move it away to start afresh")

    @contextmanager
    def _errors_name_the_file(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # the file cannot be read or written
            raise IdbanditsError(f"{self._path}: {error}") from None
        except sqlite3.DatabaseError as error:  # it is damaged, or not a database
            raise self._not_ours(error) from None
