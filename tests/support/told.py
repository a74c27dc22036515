"""What a command said beside its output."""

from __future__ import annotations


def told(err: str) -> str:
    """All but the notices of the compiler, which come or not by what was compiled before."""
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith("idbandits: compil"))
