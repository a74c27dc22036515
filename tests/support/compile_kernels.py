"""Compile all kernels of the package, one process per core: `make test` does it before the tests start.

Otherwise each worker of pytest-xdist would compile all of them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import idbandits
from idbandits.kernel.compile import Kernel, compile_together


def all_kernels() -> Iterator[Kernel]:
    """Yield all kernels that are attributes of a module or of a class in it."""
    for found in pkgutil.walk_packages(idbandits.__path__, "idbandits."):
        if not found.name.endswith("__main__"):
            for value in vars(importlib.import_module(found.name)).values():
                members = vars(value).values() if isinstance(value, type) else [value]
                yield from (member for member in members if isinstance(member, Kernel))


if __name__ == "__main__":
    compile_together(all_kernels(), None)
