"""Columns of features: numbers, which are standardised, and texts, which become indicators of categories."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from idbandits.diagram.values import check_labels, list_of
from idbandits.errors import DiagramError, TableError, brief, check_number
from idbandits.kernel.array_types import Bools, Floats

Value: TypeAlias = float | str | None  # of one column in one line: None where it is missing
MOST_DEVIATIONS = 1e4  # from the center: more than any of 50 million lines can have; those of other diagrams are cut
LEAST_SCALE = 1e-305  # half of it is a normal number
_LARGEST = float(np.finfo(np.float64).max)


@final
class Encoding(NamedTuple):
    """Encoding of a column, or a declared part of it: the values decide what is None or False.

    A column of numbers has `center` and `scale`, a column of texts has `categories`, the first of which is the base
    level. `missing` adds an indicator of missing values.
    """

    categories: tuple[Any, ...] | None = None
    center: float | None = None
    scale: float | None = None
    missing: bool = False

    @staticmethod
    def declared(
        what: str, categories: Any = None, center: Any = None, scale: Any = None, missing: Any = None
    ) -> Encoding:
        """Validate an encoding that a user or a file declares for the column `what`."""
        if categories is not None:
            if center is not None or scale is not None:
                raise TableError(f"{what} must have categories, or center and scale, got both")
            categories = check_labels(what, list_of(f"{what}: categories must be a list", categories, TableError))
            if not categories:
                raise TableError(f"{what}: categories must not be empty")
        center = (
            None if center is None else check_number(f"{what}: center", center, -math.inf, error=TableError, above=True)
        )
        scale = None if scale is None else check_number(f"{what}: scale", scale, LEAST_SCALE, error=TableError)
        return Encoding(categories, center, scale, bool(missing))

    @staticmethod
    def of_data(what: str, data: Mapping[str, Any]) -> Encoding:
        """Read what `to_data` returns."""
        return Encoding.declared(what, *(data.get(key) for key in ("categories", "centre", "scale", "missing")))

    def to_data(self) -> dict[str, Any]:
        """Return plain data without what is not declared."""
        data: dict[str, Any] = {} if self.categories is None else {"categories": list(self.categories)}
        data |= {} if self.center is None else {"centre": self.center}
        data |= {} if self.scale is None else {"scale": self.scale}
        return data | ({"missing": True} if self.missing else {})

    def followed_by(self, what: str, declared: Encoding) -> Encoding:
        """Return this encoding with what a later declaration of the same column adds; raise where both disagree.

        Coefficients were learned for this encoding: another base level, center or scale would change their meaning.
        """
        if self.categories is not None and declared.categories is not None:
            _check_same(what, "base level", self.categories[0], declared.categories[0])
        if self.scale is None:  # all values were the same: the column was 0 in every row
            center, scale = self.center if declared.center is None else declared.center, declared.scale
        else:
            center, scale = self.center, self.scale
            _check_same(what, "center", center, declared.center)
            _check_same(what, "scale", scale, declared.scale)
        categories = self.categories
        if declared.categories is not None:
            categories = tuple(dict.fromkeys((*(categories or ()), *declared.categories)))
        return Encoding(categories, center, scale, self.missing or declared.missing)


NO_ENCODING = Encoding()


def _check_same(what: str, name: str, learned: Any, declared: Any) -> None:
    if declared is not None and declared != learned:
        learned_with = f"{brief(learned)}, the one its coefficients were learned with"
        raise DiagramError(f"{what}: its {name} must be {learned_with}, got {brief(declared)}")


@final
class Column:
    """Column of numbers, NaN where missing, or of texts, None where missing; `exists` marks lines that are there.

    In the design, numbers are (number - center) / scale, and 0 where missing. Unless declared, center and scale are
    the mean and the standard deviation of the lines that exist; numbers that are all equal have no scale, and are 0.
    Texts have one indicator for each category but the first. Declared categories come first; unless any are declared,
    the first one is the most frequent. Missing values have an indicator if there are any.
    """

    def __init__(
        self, name: str, values: Floats | Sequence[str | None], exists: Bools, declared: Encoding = NO_ENCODING
    ) -> None:
        self.name, self.values, self.exists, self.declared = name, values, exists, declared
        self.is_text = not isinstance(values, np.ndarray)
        if isinstance(values, np.ndarray):
            missing = np.isnan(values)
            seen = values[exists & ~missing]
            center, scale = _center_and_scale(seen, declared)
            marks = declared.missing or bool((len(seen) or center is not None) and (missing & exists).any())
            self.encoding = Encoding(None, center, scale, marks)
        else:
            texts = [value for value, there in zip(values, exists.tolist(), strict=True) if there]
            counts = Counter(text for text in texts if text is not None)
            categories = declared.categories or ()
            if not categories and counts:
                categories = (min(counts, key=lambda text: (-counts[text], text)),)
            categories = (*categories, *sorted(counts.keys() - {*categories}))
            self.encoding = Encoding(categories, missing=declared.missing or (bool(categories) and None in texts))

    @property
    def names(self) -> list[str]:
        """Names of its columns of the design."""
        names = [self.name]
        if self.encoding.categories is not None:
            names = [f"{self.name}={text}" for text in self.encoding.categories[1:]]
        return names + [f"{self.name} missing"] * self.encoding.missing

    def carried(self, what: str, learned: Column) -> Column:
        """Return the column with the encoding of a column of the same name that coefficients were learned for."""
        values = self.values
        if learned.is_text and isinstance(values, np.ndarray) and np.isnan(values).all():
            values = [None] * len(values)
        if learned.is_text == isinstance(values, np.ndarray):  # texts where numbers were: another column
            return self
        encoding = learned.encoding.followed_by(f"{what}: column {brief(self.name)}", self.declared)
        return Column(self.name, values, self.exists, encoding)

    def raw(self, line: int) -> Value:
        """Return the number or text in a line."""
        value = self.values[line]
        return value if isinstance(value, str) or value is None else None if value != value else float(value)

    def encoded(self, values: Floats | Sequence[str | None], exists: Bools) -> Floats:
        """Return its columns of the design for these values; texts that are no category count as missing."""
        columns = np.zeros((len(values), len(self.names)))
        categories, center, scale, marks_missing = self.encoding
        if isinstance(values, np.ndarray):
            missing = np.isnan(values)
            if center is not None and scale is not None:
                with np.errstate(over="ignore"):  # halves: the difference of two large numbers is finite
                    scaled = (values / 2 - center / 2) / (scale / 2)
                columns[:, 0] = np.where(missing | ~exists, 0.0, np.clip(scaled, -MOST_DEVIATIONS, MOST_DEVIATIONS))
        else:
            places: dict[str | None, int] = {text: k for k, text in enumerate(categories or ())}
            place = np.array([places.get(text, -1) for text in values], np.int64)
            lines, missing = np.flatnonzero(exists & (place > 0)), place < 0
            columns[lines, place[lines] - 1] = 1.0
        if marks_missing:
            columns[:, -1] = missing & exists
        return columns

    def of(self, values: Sequence[Any]) -> Floats | Sequence[str | None]:
        """Return plain values as values of this column: what is no text, or no finite number, is missing."""
        if self.is_text:
            return [value if isinstance(value, str) else None for value in values]
        finite = [isinstance(value, (int, float)) and abs(value) <= _LARGEST for value in values]
        return np.array([v if known else np.nan for v, known in zip(values, finite, strict=True)], np.float64)


def _center_and_scale(seen: Floats, declared: Encoding) -> tuple[float | None, float | None]:
    """Return the center and scale of numbers, declared or computed; None where there are no numbers, or equal ones."""
    center, scale = declared.center, declared.scale
    if not len(seen):
        return center, scale
    low, high = float(seen.min()), float(seen.max())
    half = high / 2 - low / 2
    if half == 0:
        center = low if center is None else center
        return center, _root_mean_square(seen, center) if scale is None else scale
    shifted = (seen / 2 - low / 2) / half  # from 0 to 1
    if center is None:
        center = 2 * (low / 2 + half * float(shifted.mean()))
        own = half * (2 * float(shifted.std()))
    else:
        own = _root_mean_square(seen, center) or 0.0
    if scale is None and own >= LEAST_SCALE:
        scale = own
    return center, scale


def _root_mean_square(seen: Floats, center: float) -> float | None:
    """Return the root mean square distance of numbers from a declared center; None if all are there."""
    halves = np.abs(seen / 2 - center / 2)
    largest = float(halves.max())
    scale = largest * float(np.sqrt(np.mean((halves / largest) ** 2))) if largest > 0 else 0.0
    return 2 * min(scale, _LARGEST / 2) if 2 * scale >= LEAST_SCALE else None
