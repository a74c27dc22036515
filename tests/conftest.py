"""Fixtures that tests of several rooms share."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def without_notices() -> Callable[[str], str]:
    """Return what a command wrote to stderr, less the compiler's notices, which depend on what was compiled before."""

    def filtered(err: str) -> str:
        return "".join(line for line in err.splitlines(keepends=True) if not line.startswith("idbandits: compil"))

    return filtered
