"""Shelf: directory in which one process of a host leaves what it has learned, so that others need not learn it.

An entry is a pickle of a replica at some position of the journal. It only saves work: a process that finds none follows
the journal itself, and gets the same. The directory belongs to the processes of one service, and nobody else may write
there.
"""

from __future__ import annotations

import logging
import os
import pickle
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, final

from idbandits.agent.thompson import Thompson

LOG = logging.getLogger(__name__)
MEMORY = Path("/dev/shm")  # a file system without a disk, where there is one


class Entry(NamedTuple):
    """Replica as it was at a position of the journal."""

    position: int
    version: int
    agent: Thompson
    statistics: bytes  # JSON, which is read when somebody asks
    rejected: int
    caught_up: float  # time (`time.monotonic`) at which the process that left it had learned everything


@final
class Shelf:
    """Directory of entries by experiment."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._seen = dict[str, tuple[int, int]]()  # of an experiment: the file that was read last

    def put(self, name: str, entry: Entry) -> None:
        """Leave the entry of an experiment in place of an earlier one; without room, others learn themselves."""
        path = self._folder / name
        part = path.with_name(f"{name}.{os.getpid()}~")
        try:
            part.write_bytes(pickle.dumps(entry, pickle.HIGHEST_PROTOCOL))
            part.replace(path)
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            LOG.warning("what was learned of %s cannot be left in %s: %s", name, self._folder, error)

    def take(self, name: str) -> Entry | None:
        """Return the entry of an experiment; None if there is none, or it was returned before."""
        path = self._folder / name
        try:
            status = path.stat()
            if (own := (status.st_ino, status.st_mtime_ns)) == self._seen.get(name):
                return None
            self._seen[name] = own
            entry: Entry = pickle.loads(path.read_bytes())
            return entry
        except FileNotFoundError:
            return None
        except Exception:
            LOG.exception("what was learned of %s cannot be taken: it is learned here", name)
            return None


def new_shelf_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a directory for a shelf, which only this user can read; in memory, if it can be."""
    folder = MEMORY if os.access(MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="idbandits-", dir=folder, ignore_cleanup_errors=True)
