"""Files that are never seen half written, and reading that ends."""

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
except ImportError:  # not on Windows: leftovers of killed processes stay there
    fcntl = None  # type: ignore[assignment]

from idbandits.errors import FormatError, IdbanditsError, brief

MOST_LINKS = 40  # from one symbolic link to the next, as in Linux
SCRATCH = re.compile(r"\.idbandits-[0-9a-f]{32}\.tmp")  # names of files that are being written


def path_of(path: object) -> Path:
    """A path that a user gave; what cannot be one is refused."""
    if isinstance(path, (str, os.PathLike)):
        with suppress(TypeError, ValueError):  # a path of bytes; letters that names of files cannot have
            if b"\0" not in os.fsencode(text := Path(path)):
                return text
    raise IdbanditsError(f"the path of a file is a text or a Path, not {brief(path)}")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all: a scratch file takes its place once it is safely on the disk.

    Symbolic links are followed, and a file that is replaced keeps its mode, owner and group, or is not replaced; one
    that may not be written is not, either. Pipes and devices are never replaced: the content is written to them.
    """
    try:
        target = _target(path)
        if target is None:
            with open(path, "ab", opener=_open_existing) as file:
                file.write(content)
        else:
            _replace(target, content)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # of the same class: errno chooses it


def _target(path: Path) -> Path | None:
    """The regular file, old or new, that a path leads to; None if it leads to something else."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
    except FileNotFoundError:
        pass  # it will be new, perhaps at the end of links
    for _ in range(MOST_LINKS):
        folder = Path(os.path.realpath(path.parent))
        path = folder / path.name
        if not path.is_symlink():
            return path
        if folder.is_relative_to("/proc"):  # a file that is open, such as /dev/stdout: others hold it, too
            return None
        path = folder / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _replace(target: Path, content: bytes) -> None:
    _delete_leftovers(target.parent)
    old = _status_if_writable(target)
    while not _replaced(target, content, old):
        pass  # another process deleted the scratch file before it was locked


def _replaced(target: Path, content: bytes, old: os.stat_result | None) -> bool:
    """Try to replace a file, if another process does not take the scratch file for a leftover."""
    scratch = target.parent / f".idbandits-{uuid.uuid4().hex}.tmp"
    mode = 0o666 if old is None else 0o600  # the umask is honoured; nobody reads it before it has the old mode
    try:
        with open(scratch, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            _lock(file.fileno(), wait=True)
            if not scratch.exists():
                return False
            file.write(content)
            file.flush()
            if old is not None:
                _make_alike(scratch, old)
            os.fsync(file.fileno())
            if fcntl is not None:  # while it is locked; elsewhere, open files cannot be renamed
                os.replace(scratch, target)
        if fcntl is None:
            os.replace(scratch, target)
        return True
    finally:
        scratch.unlink(missing_ok=True)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Lock a file as long as it is open in this process, however that ends; False if that is not possible."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # locked by another process, or a file system without locks
        return False
    return True


def _delete_leftovers(folder: Path) -> None:
    """Delete scratch files that processes left behind which were killed: those that nobody has locked."""
    with suppress(OSError):  # of a folder that cannot be listed: writing will say what is wrong with it
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
    """The status of an old file, None if there is none; raises as `open` does if it may not be written."""
    try:
        with open(target, "ab", opener=_open_existing) as file:
            return os.fstat(file.fileno())
    except FileNotFoundError:
        return None


def _make_alike(scratch: Path, old: os.stat_result) -> None:
    """Give a file the owner, group and mode of another."""
    new = os.stat(scratch)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.chown(scratch, old.st_uid, old.st_gid)
    os.chmod(scratch, stat.S_IMODE(old.st_mode))  # last: a new owner would clear some of its bits


def read_whole(path: Path, most: int) -> bytes:
    """The content of a file; more than `most` bytes are refused, so that reading ends whatever is at the path."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > most:  # without reading it; pipes and devices have no size
            raise _too_large(most)
        return read_stream(file, most)


def read_stream(file: BinaryIO, most: int) -> bytes:
    """All that can be read from a stream, if that is not too much."""
    content = file.read(most + 1)
    if len(content) > most:
        raise _too_large(most)
    return content


def _too_large(most: int) -> FormatError:
    return FormatError(f"larger than the {most:,} bytes that are read at most")
