"""Shelf: directory in which one process of a host stores its replicas, so that other processes need not learn.

An entry is a pickle of a replica at a position of the journal. It only saves work: without an entry, a process follows
the journal and gets an equal replica. Only the processes of the service may write to the directory.
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
MEMORY = Path("/dev/shm")  # file system in memory, if the host has it


class Entry(NamedTuple):
    """Replica as it was at a position of the journal."""

    position: int
    version: int
    agent: Thompson
    statistics: bytes  # JSON, decoded on demand
    rejected: int
    caught_up: float  # time (`time.monotonic`) at which the process that put the entry had learned all steps


@final
class Shelf:
    """Directory of entries by experiment."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._seen = dict[str, tuple[int, int]]()  # by experiment: inode and time of the file that was read last

    def put(self, name: str, entry: Entry) -> None:
        """Replace the entry of an experiment; if writing fails, other processes learn themselves."""
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
        """Return the entry of an experiment; None if there is no entry since the latest call."""
        path = self._folder / name
        try:
            status = path.stat()
            file = status.st_ino, status.st_mtime_ns
            if file == self._seen.get(name):
                return None
            self._seen[name] = file
            entry: Entry = pickle.loads(path.read_bytes())
            return entry
        except FileNotFoundError:
            return None
        except Exception:
            LOG.exception("what was learned of %s cannot be taken: it is learned here", name)
            return None


def new_shelf_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a directory for a shelf that only this user can read; in memory if possible."""
    folder = MEMORY if os.access(MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="idbandits-", dir=folder, ignore_cleanup_errors=True)
