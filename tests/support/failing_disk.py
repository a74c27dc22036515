"""File system of SQLite that knows what was synced, so that all the rest can be lost as in a power failure."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
Pending = tuple[int, bytes | None]  # a write, or the size to which a file was cut


class Disk:
    """Durable content of each file, and the operations after its latest sync, in their order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.durable, self.pending = dict[str, bytearray](), dict[str, list[Pending]]()
        self.deleted = set[str]()
        self.operations, self.fails_at, self.is_full = 0, -1, False

    def step(self) -> None:
        """Count an operation; from one of them on, there is no power."""
        self.operations += 1
        if 0 <= self.fails_at <= self.operations:
            raise apsw.IOError("power failure")

    def change(self, name: str, operation: Pending) -> None:
        """Note a write, or that a file was cut."""
        self.step()
        if self.is_full and operation[1] is not None:
            raise apsw.FullError("disk is full")
        self.pending.setdefault(name, []).append(operation)

    def sync(self, name: str) -> None:
        """Make a file durable."""
        self.step()
        content = self.durable.setdefault(name, bytearray())
        for operation in self.pending.pop(name, []):
            apply(content, operation)
        self.deleted.discard(name)

    def power_failure(self, folder: Path) -> None:
        """Write files as they are found afterwards: what was synced, and any part of the rest, in any order."""
        for name in {*self.durable, *self.pending}:
            if name in self.deleted and self.random.random() < 0.5:
                continue
            content, pending = bytearray(self.durable.get(name, b"")), list(self.pending.get(name, []))
            how = self.random.choice(("nothing", "prefix", "any"))
            if how == "nothing":
                pending = []
            elif how == "prefix":
                pending = pending[: self.random.randint(0, len(pending))]
            else:
                pending = [own for whole in pending for own in sectors(whole) if self.random.random() < 0.6]
                self.random.shuffle(pending)
            for operation in pending:
                apply(content, operation)
            (folder / Path(name).name).write_bytes(content)


def sectors(operation: Pending) -> list[Pending]:
    """Return the parts of a write that are written at once: it may be torn between them."""
    offset, data = operation
    if data is None:
        return [operation]
    return [(offset + start, data[start : start + SECTOR]) for start in range(0, len(data), SECTOR)]


def apply(content: bytearray, operation: Pending) -> None:
    """Change the content of a file."""
    offset, data = operation
    if data is None:
        del content[offset:]
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


class FailingVfs(apsw.VFS):
    """File system whose operations are noted."""

    def __init__(self, name: str, disk: Disk) -> None:
        self.disk = disk
        super().__init__(name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> FailingFile:  # noqa: N802
        return FailingFile(self.disk, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:  # noqa: N802
        self.disk.step()
        super().xDelete(name, sync)
        self.disk.deleted.add(name)
        if sync:
            self.disk.durable.pop(name, None)
        self.disk.pending.pop(name, None)


class FailingFile(apsw.VFSFile):
    """Open file whose operations are noted."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self.disk = disk
        self.name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self.disk.change(self.name, (offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self.disk.change(self.name, (size, None))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self.disk.sync(self.name)
