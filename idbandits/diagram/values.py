"""Arguments of public functions: lists, mappings, labels, scalars of other libraries, and missing values."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from idbandits.errors import DiagramError, IdbanditsError, brief

MOST_EQUAL_HASHES = 100  # floats and 64-bit integers have at most about 40 each
MOST_NUMBER = 1e308  # of a label: about the largest float
PANDAS_MISSING = ("NAType", "NaTType")  # by name: pandas is slow to import


def plain(value: Any) -> Any:
    """Return a scalar of NumPy or pyarrow as a Python object; masked values and dates stay as they are."""
    if _is_arrow(value):
        return value.as_py()
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value if value.dtype.kind in "mM" or np.ma.is_masked(value) else value.item()
    return value


def is_missing(value: Any) -> bool:
    """Return True for missing values: None, NaN of any type, pandas' NA and NaT, and masked ones."""
    if value is None or value is np.ma.masked:
        return True
    if _is_arrow(value):
        return not value.is_valid or is_missing(value.as_py())
    kind = type(value)
    if kind.__module__.startswith("pandas.") and kind.__name__ in PANDAS_MISSING:
        return True
    is_scalar = isinstance(value, (Number, np.generic)) or (isinstance(value, np.ndarray) and value.ndim == 0)
    try:
        return is_scalar and bool(np.ma.is_masked(value) or value != value)  # only NaN differs from itself
    except ArithmeticError:  # Decimal("sNaN")
        return False


def _is_arrow(value: Any) -> bool:
    return type(value).__module__ == "pyarrow.lib" and hasattr(value, "as_py")


def list_of(needed: str, values: Any, error: type[IdbanditsError] = DiagramError) -> list[Any]:
    """Return the elements of an iterable argument, or raise `needed`; a string is not a list."""
    try:
        if not isinstance(values, (str, bytes)):
            return list(values)
    except (MemoryError, NotImplementedError, OverflowError, TypeError):  # also of a range that is too long
        pass
    raise error(f"{needed}, got {brief(values)}")


def dict_of(needed: str, values: Any, error: type[IdbanditsError] = DiagramError) -> dict[Any, Any]:
    """Return a mapping argument as a dict, or raise `needed`; None is empty."""
    try:
        return {} if values is None else dict(values)
    except (TypeError, ValueError):
        raise error(f"{needed}, got {brief(values)}") from None


def check_labels(what: str, values: Iterable[Any]) -> tuple[str | int | float, ...]:
    """Return labels as plain strings and numbers; raise unless all are valid and different."""
    labels = tuple(plain(value) for value in values)
    for label in labels:
        if not isinstance(label, str) and not (isinstance(label, (int, float)) and abs(label) <= MOST_NUMBER):
            raise DiagramError(f"{what}: a label must be a string or a finite number, got {brief(label)}")
    check_hashes(f"{what}: labels", labels)
    if (repeated := first_repeated(labels)) is not None:
        raise DiagramError(f"{what}: labels must be different, got {brief(repeated)} twice")
    return labels


def check_name(what: str, name: object) -> str:
    """Return a name, or raise."""
    if not isinstance(name, str) or not name:
        raise DiagramError(f"{what} must be a non-empty string, got {brief(name)}")
    return name


def check_distinct(owner: str, names: Sequence[str]) -> None:
    """Raise unless the columns that features become have different names: coefficients are found by them."""
    if (repeated := first_repeated(names)) is not None:
        needed = "its features must become columns with different names"
        raise DiagramError(f"{owner}: {needed}, got {brief(repeated)} twice; rename a feature or a category")


def check_hashes(what: str, labels: Sequence[Hashable]) -> None:
    """Reject labels of which too many have one hash, as multiples of 2**61 - 1 do: sets of them take quadratic time."""
    counts = Counter(map(hash, labels))
    most = max(counts.values(), default=0)
    if most > MOST_EQUAL_HASHES:
        example = next(label for label in labels if counts[hash(label)] == most)
        allowed = f"at most {MOST_EQUAL_HASHES} labels with equal hashes"
        raise DiagramError(f"{what} must have {allowed}, got {most:,} like {brief(example)}; use strings instead")


def first_repeated(values: Iterable[Any]) -> Any:
    """Return the first value that occurred before; None if all differ."""
    seen = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None
