"""Packs: machine code of all kernels in one file, compiled in advance for a level of processors.

Wheels contain packs, and a clone builds one (`kernel.build_pack`). A pack is used if versions, sources, platform and
features of the processor match; otherwise kernels are compiled. A pack is trusted like the sources beside it, because
loading it executes it: the checksum reveals damage, not forgery.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sysconfig
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import llvmlite
import numba

from idbandits.files import read_whole
from idbandits.kernel import numba_private as private

PACKAGE = Path(__file__).parents[1]
FOLDER, SUFFIX = PACKAGE / "machine_code", ".pack"
NATIVE = "IDBANDITS_NATIVE"  # environment variable: compile for this processor, without packs
MAGIC = b"idbandits machine code 1\n"
DIGEST, LENGTH = 32, 4  # bytes of the checksum of all that follows, and of the length of the head
MOST_BYTES = 10**8

_X86_V2 = ["64bit", "cmov", "crc32", "cx16", "cx8", "fxsr", "mmx", "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1"]
_X86_V2 += ["sse4.2", "ssse3"]
_X86_V3 = [*_X86_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"]
_X86 = {"x86-64-v3": _X86_V3, "x86-64-v2": _X86_V2}
_ARM = {"generic": ["fp-armv8", "neon"]}
LEVELS = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}  # the best first; names and features of LLVM


class UnusableError(Exception):
    """A pack cannot be used; the message is the reason."""


@final
class Pack(NamedTuple):
    """Machine code by kernel, compressed."""

    level: str
    places: Mapping[str, tuple[int, int]]
    codes: bytes

    def code(self, kernel: str) -> bytes:
        """Return the machine code of a kernel."""
        start, end = self.places[kernel]
        return zlib.decompress(self.codes[start:end])


def levels() -> dict[str, list[str]]:
    """Return the features of each level of this architecture, the best first."""
    return LEVELS.get(platform.machine().lower(), {})


def platform_now() -> dict[str, str]:
    """Return what machine code depends on besides sources and processor."""
    return {
        "Python": sysconfig.get_config_var("EXT_SUFFIX"),
        "system": f"{platform.system()} {platform.machine()}",
        "Numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
    }


def digest_of(sources: list[str]) -> str:
    """Return a digest of files of the package."""
    contents = [hashlib.sha256((PACKAGE / source).read_bytes()).digest() for source in sources]
    return hashlib.sha256("\n".join(sources).encode() + b"".join(contents)).hexdigest()


def read_pack(file: Path) -> Pack:
    """Return a pack that this process can use, or raise an UnusableError."""
    if not file.exists():
        raise UnusableError("there is none")
    try:
        content = read_whole(file, MOST_BYTES)
        begin = len(MAGIC) + DIGEST
        if not content.startswith(MAGIC) or hashlib.sha256(content[begin:]).digest() != content[len(MAGIC) : begin]:
            raise UnusableError("the file is damaged")
        size = int.from_bytes(content[begin : begin + LENGTH])
        codes = begin + LENGTH + size
        head: dict[str, Any] = json.loads(content[begin + LENGTH : codes])
        for name, value in platform_now().items():
            if head["platform"][name] != value:
                raise UnusableError(f"it is for {name} {head['platform'][name]}, this is {value}")
        if missing := set(head["features"]) - private.processor_features():
            raise UnusableError(f"the processor lacks {', '.join(sorted(missing))}")
        if digest_of(head["sources"]) != head["digest"]:
            raise UnusableError("it was compiled from other sources")
        return Pack(file.stem, {name: (start, end) for name, (start, end) in head["kernels"].items()}, content[codes:])
    except UnusableError:
        raise
    except Exception as error:
        raise UnusableError(f"it cannot be read: {type(error).__name__}") from error


def packed(head: Mapping[str, Any], codes: Mapping[str, bytes]) -> bytes:
    """Return the content of a pack."""
    places, content = dict[str, tuple[int, int]](), b""
    for name, code in codes.items():
        short = zlib.compress(code, 9)
        places[name] = len(content), len(content) + len(short)
        content += short
    text = json.dumps({**head, "kernels": places}).encode()
    body = len(text).to_bytes(LENGTH) + text + content
    return MAGIC + hashlib.sha256(body).digest() + body


@functools.cache
def packs() -> dict[str, Pack | UnusableError]:
    """Return the pack of each level of this architecture, or why it cannot be used."""
    found: dict[str, Pack | UnusableError] = {}
    for level in levels() if private.AVAILABLE else ():
        try:
            found[level] = read_pack(FOLDER / f"{level}{SUFFIX}")
            break
        except UnusableError as error:
            found[level] = error
    return found


def usable() -> Pack | None:
    """Return the best pack that this process can use; None if there is none, or if native code is wanted."""
    if os.environ.get(NATIVE, "") not in ("", "0"):
        return None
    return next((found for found in packs().values() if isinstance(found, Pack)), None)


def described() -> str:
    """Describe the pack that is used, or why there is none."""
    if (best := usable()) is not None:
        return f"machine code of the package: {best.level}"
    reasons = "; ".join(f"{level}: {error}" for level, error in packs().items() if isinstance(error, UnusableError))
    return f"no machine code of the package is used ({reasons or 'native code is wanted'})"
