"""Tables of the errors and warnings of the library, from their classes."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import idbandits
from idbandits.errors import IdbanditsError
from idbandits.service.http.answers import HTTP_STATUS
from idbandits.service.service_errors import STATUS

CAUGHT = ("CollisionError", "RejectedError")  # inside of the service
PACKAGE = Path(idbandits.__file__).parent


def exceptions() -> list[type[Exception]]:
    """Return all exceptions and warnings that callers may get."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        names = [name for name in names if name.endswith(("Error", "Warning")) and name not in CAUGHT]
        if names:
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            module = importlib.import_module(".".join(parts))
            found += [getattr(module, name) for name in names]
    return found


def error_tables() -> str:
    """Return tables of errors, each followed by its subclasses, of warnings, and of kinds of `ServiceError`."""
    found = exceptions()
    errors = ["| error | base class | raised for |", "|---|---|---|", *_below(IdbanditsError, found)]
    warned = [f"| `{own.__name__}` | {_text(own)} |" for own in found if issubclass(own, Warning)]
    kinds: dict[int, list[str]] = {}
    for kind, status in sorted((STATUS | HTTP_STATUS).items()):
        kinds.setdefault(status, []).append(f"`{kind}`")
    statuses = [f"| {status} | {', '.join(names)} |" for status, names in sorted(kinds.items())]
    return "\n".join([
        "## Errors\n", *errors, "\n## Warnings\n", "| warning | issued for |", "|---|---|", *warned,
        "\n## Kinds of ServiceError\n", "| HTTP status | `kind` |", "|---|---|", *statuses,
    ]) + "\n"  # fmt: skip


def _below(own: type[Exception], found: list[type[Exception]]) -> list[str]:
    """Return the rows of an error and of its subclasses."""
    rows = [f"| `{own.__name__}` | `{own.__bases__[0].__name__}` | {_text(own)} |"]
    for other in found:
        if other.__bases__[0] is own:
            rows += _below(other, found)
    return rows


def _text(own: type[Exception]) -> str:
    return (inspect.getdoc(own) or "").partition("\n\n")[0].replace("\n", " ")
