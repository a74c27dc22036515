"""Values as users pass them: scalars of other libraries, and what stands for one that was not seen."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from idbandits.errors import ODD, DiagramError, brief

MOST_EQUAL_HASHES = 100  # floats and 64-bit integers have at most about 40 each
PANDAS_MISSING = ("NAType", "NaTType")  # by name: pandas is slow to import


def plain(value: Any) -> Any:
    """A scalar of NumPy or pyarrow as Python's own; what is masked, and dates, which would become numbers, as it is."""
    if _is_arrow(value):
        return value.as_py()
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value if value.dtype.kind in "mM" or np.ma.is_masked(value) else value.item()
    return value


def is_missing(value: Any) -> bool:
    """Whether this says that nothing was seen: None, NaN of any type, pandas' NA and NaT, and what is masked."""
    if value is None or value is np.ma.masked:
        return True
    if _is_arrow(value):
        return not value.is_valid or is_missing(value.as_py())
    kind = type(value)
    if kind.__module__.startswith("pandas.") and kind.__name__ in PANDAS_MISSING:
        return True
    if not isinstance(value, (Number, np.generic)) and not (isinstance(value, np.ndarray) and value.ndim == 0):
        return False
    try:
        return bool(np.ma.is_masked(value) or value != value)  # only NaN differs from itself
    except ODD:  # Decimal("sNaN")
        return False


def _is_arrow(value: Any) -> bool:
    return type(value).__module__ == "pyarrow.lib" and hasattr(value, "as_py")


def check_distinct(owner: str, names: Sequence[str]) -> None:
    """Raise unless the columns that features become have different names: coefficients are found by them."""
    name, number = max(Counter(names).items(), key=lambda item: item[1], default=("", 0))
    if number > 1:
        needed = "its features must become columns with different names"
        raise DiagramError(f"{owner}: {needed}, got {brief(name)} twice; rename a feature or a category")


def check_letters(what: str, text: str) -> None:
    """Refuse a text with half of a letter (a surrogate of Unicode): no file and no picture could show it."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DiagramError(f"{what}, {brief(text)}, has half of a letter, {text[error.start]!r}") from None


def check_hashes(what: str, labels: Sequence[Hashable]) -> None:
    """Reject labels of which too many have one hash, as multiples of 2**61 - 1 do: sets of them take quadratic time."""
    counts = Counter(map(hash, labels))
    most = max(counts.values(), default=0)
    if most > MOST_EQUAL_HASHES:
        example = next(label for label in labels if counts[hash(label)] == most)
        allowed = f"at most {MOST_EQUAL_HASHES} labels with equal hashes"
        raise DiagramError(f"{what} must have {allowed}, got {most:,} like {brief(example)}; use strings instead")


def first_repeated(values: Iterable[Any]) -> Any:
    """The first value that occurred before; None if all differ."""
    seen = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None
