"""Archives of arrays: the sizes of parts are checked before these are read.

So a file from a stranger takes no more memory than its size warrants.
"""

from __future__ import annotations

import contextlib
import errno
import io
import math
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, final

import numpy as np
import numpy.typing as npt

from idbandits.errors import ODD, FormatError, IdbanditsError, brief

HEAD, MOST_HEAD = "head", 2**28  # the part that is a text, and its bytes
SMALL_HEAD, SMALL = 2**24, 2**26  # bytes that a few compressed ones may stand for; what is larger is written as it is
MOST_RATIO = 100  # or this many for each compressed one, as other programs write them
DAMAGED = (*ODD, EOFError, SyntaxError, zipfile.BadZipFile, zlib.error, tokenize.TokenError, struct.error)


def packed(parts: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the content of an archive of arrays."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in parts.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, (1, 0), allow_pickle=False)
            is_small = array.nbytes <= (SMALL_HEAD if name == HEAD else SMALL) // 2
            how = zipfile.ZIP_DEFLATED if is_small else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue(), how)
    return buffer.getvalue()


@contextlib.contextmanager
def naming(owner: object) -> Iterator[None]:
    """Raise errors, whose types are many for damaged files, as `FormatError`, and name what is read."""
    try:
        yield
    except IdbanditsError as error:
        raise FormatError(f"{owner}: {error}") from None
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # which is that of places beyond the file
            raise
        kind = type(error).__name__
        raise FormatError(f"{owner}: this is not the whole file of an agent ({kind}: {error})") from None


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open the archive in a regular file (reading pipes and devices might not end), and name the file in errors."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise FormatError(f"{path}: this is not a regular file")
    with path.open("rb") as file, naming(path):
        yield Archive(file, status.st_size)


@final
class Archive:
    """The parts of an archive in a stream of a known size."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._archive, self._size = zipfile.ZipFile(file), size
        infos = self._archive.infolist()
        self._infos = {info.filename.removesuffix(".npy"): info for info in infos}
        if len(self._infos) < len(infos):
            raise FormatError("it has two parts with the same name")

    def check_names(self, names: Collection[str]) -> None:
        """Raise unless the parts have these names."""
        if set(self._infos) != set(names):
            raise FormatError(f"its parts must be {sorted(names)}, got {brief(sorted(self._infos))}")

    def check_room(self, name: str, numbers: int) -> None:
        """Raise unless a part has room for this many floats or integers."""
        if numbers > self._infos[name].file_size // 8:
            raise FormatError(f"what was learned does not fit the diagram in it: {name} are missing")

    def array(self, name: str, wanted: tuple[int | None, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Read an array of this shape, in which None is any number, and this type; `str` stands for texts."""
        content = self.content(name, SMALL)
        stream = io.BytesIO(content)
        if np.lib.format.read_magic(stream) != (1, 0):
            raise FormatError(f"{name} is an array of an unknown format")
        shape, by_columns, actual = np.lib.format.read_array_header_1_0(stream)
        first = stream.tell()
        if actual.hasobject or by_columns or len(content) != first + actual.itemsize * math.prod(shape):
            raise FormatError(f"{name} is not an array of the size that it should have")
        if actual != dtype and not (dtype is str and actual.kind == "U" and actual.isnative):
            raise FormatError(f"{name} must be an array of {np.dtype(dtype)}, got {actual}")
        if len(shape) != len(wanted) or any(n not in (None, size) for size, n in zip(shape, wanted, strict=True)):
            expected = str(wanted).replace("None", "any number")
            raise FormatError(f"what was learned does not fit: {name} must have the shape {expected}, got {shape}")
        return np.frombuffer(content[first:], dtype=actual).reshape(shape)

    def text(self) -> str:
        """Read the head."""
        return str(self.array(HEAD, (), str).item())

    def content(self, name: str, small: int = 0) -> bytes:
        """Read a part; if it may be compressed, a few bytes may stand for `small` ones."""
        info, limit = self._infos[name], self._size
        if info.compress_type == zipfile.ZIP_DEFLATED and small:
            small = min(small, SMALL_HEAD) if name == HEAD else small
            limit = max(small, MOST_RATIO * min(info.compress_size, self._size))
        elif info.compress_type != zipfile.ZIP_STORED:
            raise FormatError(f"{name} is compressed in an unknown way")
        if info.file_size > (min(limit, MOST_HEAD) if name == HEAD else limit):
            raise FormatError(f"{name} has {info.file_size} bytes, more than a file of this size may hold")
        with self._archive.open(info) as member:
            content = member.read(info.file_size + 1)
        if len(content) != info.file_size:
            raise FormatError(f"{name} does not have the {info.file_size} bytes that it should have")
        return content
