"""Atomic writing of files, and reading with a limit of size."""

import errno
import os
import re
import stat
import uuid
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # on Windows, scratch files of killed processes stay
    fcntl = None  # type: ignore[assignment]

from idbandits.errors import FormatError, IdbanditsError, brief

MOST_LINKS = 40  # symbolic links that are followed, as in Linux
SCRATCH = re.compile(r"\.idbandits-[0-9a-f]{32}\.tmp")  # names of files that are being written


def path_of(path: object) -> Path:
    """Return a path that a user passed, or raise if no file can have it."""
    if isinstance(path, (str, os.PathLike)):
        with suppress(TypeError, ValueError):  # bytes, or characters that the file system cannot encode
            if b"\0" not in os.fsencode(text := Path(path)):
                return text
    raise IdbanditsError(f"the path of a file must be a string or a Path, got {brief(path)}")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: a scratch file replaces it once it is safely on disk.

    Symbolic links are followed. A replaced file keeps its mode, owner and group, and must be writable. Pipes and
    devices are never replaced: the content is written to them.
    """
    try:
        target = _target(path)
        if target is None:
            with open(path, "ab", opener=_open_existing) as file:
                file.write(content)
        else:
            _delete_leftovers(target.parent)
            old = _status_if_writable(target)
            while not _replace(target, content, old):
                pass  # another process deleted the scratch file before it was locked
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # errno chooses the same subclass


def _target(path: Path) -> Path | None:
    """Return the regular file, existing or new, that a path leads to; None for pipes, devices and the like."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
    for _ in range(MOST_LINKS):
        folder = Path(os.path.realpath(path.parent))
        path = folder / path.name
        if not path.is_symlink():
            return path
        if folder.is_relative_to("/proc"):  # an open file, such as /dev/stdout, which others hold, too
            return None
        path = folder / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _replace(target: Path, content: bytes, old: os.stat_result | None) -> bool:
    """Replace a file; return False if another process deletes the scratch file as a leftover."""
    scratch = target.parent / f".idbandits-{uuid.uuid4().hex}.tmp"
    mode = 0o666 if old is None else 0o600  # less the umask; private until it has the mode of the old file
    try:
        with open(scratch, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            _lock(file.fileno(), wait=True)
            if not scratch.exists():
                return False
            file.write(content)
            file.flush()
            if old is not None:
                new = os.stat(scratch)
                if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                    os.chown(scratch, old.st_uid, old.st_gid)
                os.chmod(scratch, stat.S_IMODE(old.st_mode))  # last, because chown clears some bits
            os.fsync(file.fileno())
            if fcntl is not None:  # while it is locked; Windows cannot rename open files
                os.replace(scratch, target)
        if fcntl is None:
            os.replace(scratch, target)
        return True
    finally:
        scratch.unlink(missing_ok=True)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Lock a file until this process closes it or ends; return False if that is not possible."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # locked by another process, or a file system without locks
        return False
    return True


def _delete_leftovers(folder: Path) -> None:
    """Delete scratch files of killed processes, which nobody has locked."""
    with suppress(OSError):  # a folder that cannot be listed: writing will raise
        for name in filter(SCRATCH.fullmatch, os.listdir(folder)):
            with suppress(OSError):  # of another user, or deleted meanwhile
                descriptor = os.open(folder / name, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
                try:
                    if _lock(descriptor, wait=False):
                        os.unlink(folder / name)
                finally:
                    os.close(descriptor)


def _open_existing(name: str, flags: int) -> int:
    return os.open(name, flags & ~(os.O_CREAT | os.O_TRUNC))


def _status_if_writable(target: Path) -> os.stat_result | None:
    """Return the status of a file, None if there is none; raise as `open` does if it is not writable."""
    with suppress(FileNotFoundError), open(target, "ab", opener=_open_existing) as file:
        return os.fstat(file.fileno())
    return None


def read_whole(path: Path, most: int) -> bytes:
    """Return the content of a file of at most `most` bytes, or raise: reading ends whatever the path leads to."""
    with open(path, "rb") as file:
        return read_stream(file, most, os.fstat(file.fileno()).st_size)  # 0 for pipes and devices


def read_stream(file: BinaryIO, most: int, size: int = 0) -> bytes:
    """Return the content of a stream of at most `most` bytes, or raise; `size` is its size if that is known."""
    content = file.read(most + 1) if size <= most else b""
    if max(size, len(content)) > most:
        raise FormatError(f"larger than the {most:,} bytes that are read at most")
    return content
