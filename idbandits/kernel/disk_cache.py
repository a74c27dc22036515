"""Machine code on disk, where Numba keeps it: what is out of date or damaged is deleted, and compiled again."""

import contextlib
import functools
import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from idbandits.files import write_whole

INDEX, CODE, CHECK = ".nbi", ".nbc", ".sha256"  # Numba's indices, the machine code that they name, and our checksums
SECONDS = ".seconds"  # how long a function took to compile last time: kept when its machine code is deleted


def indices_of(function: Callable[..., Any], folder: Path) -> list[Path]:
    """Numba's indices of a function in this folder, one per version of Python."""
    at = function.__code__
    return list(folder.glob(f"{Path(at.co_filename).stem}.{function.__qualname__}-{at.co_firstlineno}.*{INDEX}"))


def files_of(function: Callable[..., Any], folder: Path) -> list[Path]:
    """All files of a function in this folder but our checksums."""
    return [file for index in indices_of(function, folder) for file in (index, *folder.glob(f"{index.stem}.*{CODE}"))]


@functools.cache
def _last_change() -> float:
    """When a source of this package was changed last."""
    return max(source.stat().st_mtime for source in Path(__file__).parent.parent.rglob("*.py"))


@functools.cache
def delete_stale(folder: Path) -> None:
    """Delete machine code that is older than the sources: Numba looks only at the file of the outermost function."""
    for file in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            if file.suffix in (INDEX, CODE, CHECK) and file.stat().st_mtime < _last_change():
                file.unlink()


def _checksum(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).hexdigest().encode()


def add_checksums(files: list[Path]) -> None:
    """Note what the files are like now."""
    for file in files:
        with contextlib.suppress(OSError):
            write_whole(file.with_name(file.name + CHECK), _checksum(file))


def are_sound(files: list[Path]) -> bool:
    """Whether no file has changed since its checksum was noted: damaged machine code would crash the process."""
    try:
        return all(file.with_name(file.name + CHECK).read_bytes() == _checksum(file) for file in files)
    except OSError:
        return False


def _file_of_seconds(function: Callable[..., Any], folder: Path) -> Path:
    return folder / f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}{SECONDS}"


def note_seconds(function: Callable[..., Any], folder: Path, seconds: float) -> None:
    """Note how long a function took to compile."""
    with contextlib.suppress(OSError):
        write_whole(_file_of_seconds(function, folder), f"{seconds:.2f}".encode())


def noted_seconds(function: Callable[..., Any], folder: Path) -> float | None:
    """How long a function took to compile last time; None if that is not known."""
    try:
        seconds = float(_file_of_seconds(function, folder).read_text())
    except (OSError, ValueError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def delete(files: list[Path]) -> None:
    """Delete files, as far as that is possible."""
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()
