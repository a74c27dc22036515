"""Queries of users as parts of other queries."""

from __future__ import annotations

import re

from idbandits.errors import brief
from idbandits.logs.read.read_report import LogError

_TOKENS = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | \b[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | \$(\w*)\$.*?\$\1\$ | ;""",
    re.VERBOSE | re.DOTALL,
)  # comments, texts and names, in which semicolons do not end a statement


def subquery(query: str, alias: str = "log") -> str:
    """Return a query as an SQL table; it may end with a semicolon and comments.

    >>> subquery("SELECT 1 AS ';' ; -- all")
    "(SELECT 1 AS ';' \\n) AS log"
    """
    end = next((token.start() for token in _TOKENS.finditer(query) if token[0] == ";"), len(query))
    rest = "".join(
        _TOKENS.sub(lambda token: "" if token[0][:2] in ("--", "/*", ";") else token[0], query[end:]).split()
    )
    if rest:
        raise LogError(f"query must be one SQL statement, got more after its semicolon: {brief(rest)}")
    return f"({query[:end]}\n) AS {alias}"
