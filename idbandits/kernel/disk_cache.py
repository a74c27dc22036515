"""Numba's cache of machine code on disk: outdated or damaged files are deleted, and compiled again."""

import contextlib
import functools
import hashlib
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from idbandits.files import write_whole

INDEX, CODE, CHECKSUM = ".nbi", ".nbc", ".sha256"  # Numba's indices, the machine code they name, our checksums
_COMPILED = re.compile(r"\bkernel\.compile import|^@kernel\b", re.MULTILINE)
_IMPORTS = re.compile(r"^(?:from|import) ([.\w]+)(?: import (\([^)]*\)|.*))?", re.MULTILINE)
SECONDS = ".seconds"  # the last compile time of a function: it outlives the machine code


def indices_of(function: Callable[..., Any], folder: Path) -> list[Path]:
    """Return Numba's indices of a function in a folder, one per version of Python."""
    code = function.__code__
    return list(folder.glob(f"{Path(code.co_filename).stem}.{function.__qualname__}-{code.co_firstlineno}.*{INDEX}"))


def files_of(function: Callable[..., Any], folder: Path) -> list[Path]:
    """Return Numba's files of a function in a folder."""
    return [file for index in indices_of(function, folder) for file in (index, *folder.glob(f"{index.stem}.*{CODE}"))]


@functools.cache
def _last_change() -> float:
    """Return the time when a source that machine code depends on was changed last."""
    return max(source.stat().st_mtime for source in sources_of_kernels(Path(__file__).parent.parent))


def sources_of_kernels(package: Path) -> set[Path]:
    """Return the files of a package that define compiled functions, and all files that these import."""
    sources = {module_of(file, package): file for file in package.rglob("*.py")}
    texts = {module: file.read_text(encoding="utf-8") for module, file in sources.items()}
    found = {module for module, text in texts.items() if _COMPILED.search(text)}
    left = list(found)
    while left:
        for module, names in _IMPORTS.findall(texts[left.pop()]):
            new = {module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))} & texts.keys() - found
            found |= new
            left += new
    return {sources[module] for module in found}


def module_of(file: Path, package: Path) -> str:
    """Return the name of the module in a file of a package."""
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def delete_stale(folder: Path) -> None:
    """Delete machine code that is older than the sources: Numba compares it with the file of the kernel only."""
    for file in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            if file.suffix in (INDEX, CODE, CHECKSUM) and file.stat().st_mtime < _last_change():
                file.unlink()


def _checksum_file(file: Path) -> Path:
    return file.with_name(file.name + CHECKSUM)


def _checksum(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).hexdigest().encode()


def add_checksums(files: Iterable[Path]) -> None:
    """Record the content of files."""
    for file in files:
        with contextlib.suppress(OSError):
            write_whole(_checksum_file(file), _checksum(file))


def are_intact(files: Iterable[Path]) -> bool:
    """Return whether no file differs from its checksum: damaged machine code would crash the process."""
    try:
        return all(_checksum_file(file).read_bytes() == _checksum(file) for file in files)
    except OSError:
        return False


def _seconds_file(function: Callable[..., Any], folder: Path) -> Path:
    return folder / f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}{SECONDS}"


def record_seconds(function: Callable[..., Any], folder: Path, seconds: float) -> None:
    """Record the compile time of a function."""
    with contextlib.suppress(OSError):
        write_whole(_seconds_file(function, folder), f"{seconds:.2f}".encode())


def recorded_seconds(function: Callable[..., Any], folder: Path) -> float | None:
    """Return the last compile time of a function; None if it is unknown."""
    try:
        seconds = float(_seconds_file(function, folder).read_text())
    except (OSError, ValueError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def delete(files: Iterable[Path]) -> None:
    """Delete files where possible."""
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()
