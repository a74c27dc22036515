"""What can go wrong, and checks that many places share: messages name what was given and what is allowed."""

import itertools
import math
from numbers import Integral, Real
from typing import Any, TypeGuard

LINE, DEPTH = 60, 4  # letters of a value in a message, and lists and the like in each other that are looked into


class IdbanditsError(ValueError):
    """Any mistake that the library reports; nothing has changed when it is raised."""


class DiagramError(IdbanditsError):
    """A diagram that cannot be built: names, parents, states, rewards."""


class TableError(DiagramError):
    """A known table that is not a probability table, or has the wrong shape."""


class PriorError(DiagramError):
    """Pseudo-counts that are not a Dirichlet prior for their table."""


class InfeasibleError(DiagramError):
    """Constraints that no action satisfies."""


class ComplexityError(DiagramError):
    """A diagram whose circuit would not fit in memory."""


class FormatError(DiagramError):
    """A file or dictionary that does not describe a diagram, an agent or a result."""


class ActionError(IdbanditsError):
    """An action that is incomplete, out of range, or breaks a constraint."""


class ContextError(IdbanditsError):
    """A context that is incomplete or out of range."""


class ObservationError(IdbanditsError):
    """An observation of nodes that are not observed, or of states they do not have."""


class ImpossibleObservationError(ObservationError):
    """An observation that has probability zero."""


class MeansError(IdbanditsError):
    """Means that do not fit the learned tables of the diagram."""


class DiagramWarning(UserWarning):
    """Something serious that `Diagram.check` found, told once when an agent is made."""


# What values of odd types raise when they are compared, hashed or converted. Other exceptions are the caller's own, as
# those of handlers of signals are, and pass through.
ODD = (
    ArithmeticError, AttributeError, BufferError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, of any type but bool."""
    return isinstance(value, (int, Integral)) and not isinstance(value, bool) and not _is_duration(value)


def _is_duration(value: object) -> bool:
    """Whether a value is a timedelta64, which NumPy counts among its integers."""
    return type(value).__name__ == "timedelta64"


def check_whole(
    name: str, value: object, least: int, most: int | None = None, error: type[IdbanditsError] = IdbanditsError
) -> int:
    """The value as an int, if it is a whole number in this range."""
    if is_integer(value) and least <= value and (most is None or value <= most):
        return int(value)
    limit = "" if most is None else f" to {most}"
    raise error(f"{name} is a whole number from {least}{limit}, not {brief(value)}")


def check_number(name: str, value: object, least: float, most: float | None = None, *, above: bool = False) -> float:
    """The value as a float, if it is a finite number (or `most` is not) in this range, without `least` if `above`."""
    try:
        number = float(value) if isinstance(value, Real) and not _is_duration(value) else math.nan
    except (OverflowError, TypeError, ValueError):  # a whole number beyond all floats
        number = math.nan
    if (number > least if above else number >= least) and (number < math.inf if most is None else number <= most):
        return number
    start, end = ("above", "and at most") if above else ("from", "to")
    limit = "" if most is None else f" {end} {most}"
    raise IdbanditsError(f"{name} is a number {start} {least}{limit}, not {brief(value)}")


def check_flag(name: str, value: object, error: type[IdbanditsError] = IdbanditsError) -> bool:
    """The value as a bool, if it is one, or 0 or 1."""
    numpys = type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")  # which is slow to import
    if isinstance(value, bool) or numpys or (is_integer(value) and value in (0, 1)):
        return bool(value)
    raise error(f"{name} is True or False, not {brief(value)}")


def brief(value: object) -> str:
    """A value as messages show it, whatever it is: no longer than a line, and NumPy's scalars as users write them."""
    try:
        return shortened(_written(value, DEPTH))
    except Exception:  # nested too deeply, a number of too many digits, or a class that cannot show itself
        return f"a value of type {type(value).__name__}"


def shortened(text: str) -> str:
    """A text in one line that is not too long."""
    text = " ".join(text.split())
    return text if len(text) <= LINE else text[: LINE - 3] + "…"


def _written(value: Any, depth: int) -> str:
    """The `repr` of a value, or its beginning; NumPy's scalars, also in lists and the like, without their type."""
    kind = type(value)
    if kind in (list, tuple) and depth:
        items = ", ".join(_written(item, depth - 1) for item in value[:LINE])
        return f"[{items}]" if kind is list else f"({items}{',' if len(value) == 1 else ''})"
    if kind is dict and depth:
        pairs = itertools.islice(value.items(), LINE)
        return "{" + ", ".join(f"{_written(k, depth - 1)}: {_written(v, depth - 1)}" for k, v in pairs) + "}"
    if kind.__module__ == "numpy" and kind.__name__ != "ndarray" and hasattr(kind, "dtype"):
        if value.dtype.kind in "biufc":
            return str(value)
        if value.dtype.kind in "US":
            return repr(value.item())
    return repr(value)
