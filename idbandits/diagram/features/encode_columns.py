"""Columns of features: numbers, which are standardised, and texts, which become indicators of categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from idbandits.errors import DiagramError, brief
from idbandits.kernel.array_types import Bools, Floats

Value: TypeAlias = float | str | None  # of one column in one line: None where it is missing
MOST_DEVIATIONS = 1e4  # from the mean: more than any of 50 million lines can have; those of other diagrams are cut
LEAST_SCALE = 1e-305  # half of it is a normal number


@final
class Encoding(NamedTuple):
    """Encoding of a column, or a declared part of it: None and False stand for what the values decide.

    A column of numbers has `center` and `scale`, a column of texts has `categories`, the first of which is the base
    level. `missing` adds an indicator of missing values.
    """

    categories: tuple[str, ...] | None = None
    center: float | None = None
    scale: float | None = None
    missing: bool = False

    def to_data(self) -> dict[str, Any]:
        """Plain data; what is not declared is left out."""
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
class Numbers:
    """A column of numbers, NaN where one is missing; `exists` marks the lines that are there at all.

    In the design it is (number - center) / scale, and 0 where a number is missing; a second column says where that is,
    if it happens. Unless declared, center and scale are the mean and the standard deviation of the lines that exist. A
    column whose numbers are all equal has no scale, and is 0.
    """

    def __init__(self, name: str, values: Floats, exists: Bools, declared: Encoding = NO_ENCODING) -> None:
        self.name, self.values, self.exists, self.declared = name, values, exists, declared
        missing = np.isnan(values)
        seen = values[exists & ~missing]
        center, scale = _center_and_scale(seen, declared)
        marks = declared.missing or bool((len(seen) or center is not None) and (missing & exists).any())
        self.encoding = Encoding(None, center, scale, marks)

    @property
    def names(self) -> list[str]:
        """What its columns of the design are called."""
        return [self.name, f"{self.name} missing"] if self.encoding.missing else [self.name]

    def declared_as(self, declared: Encoding) -> Numbers:
        """Return the column with a declared encoding."""
        return Numbers(self.name, self.values, self.exists, declared)

    def raw(self, line: int) -> Value:
        """The number in a line."""
        value = float(self.values[line])
        return None if value != value else value

    def encoded(self, values: Floats, exists: Bools) -> Floats:
        """Its columns of the design, for these numbers."""
        columns, missing = np.zeros((len(values), len(self.names))), np.isnan(values)
        _, center, scale, marks_missing = self.encoding
        if center is not None and scale is not None:
            with np.errstate(over="ignore"):  # halves: the difference of two large numbers is finite
                scaled = (values / 2 - center / 2) / (scale / 2)
            columns[:, 0] = np.where(missing | ~exists, 0.0, np.clip(scaled, -MOST_DEVIATIONS, MOST_DEVIATIONS))
        if marks_missing:
            columns[:, 1] = missing & exists
        return columns

    def of(self, values: Sequence[Any]) -> Floats:
        """Plain values as a column; what is no finite number is missing."""
        return np.array([_finite(value) for value in values], np.float64)


def _finite(value: Any) -> float:
    """A plain value as a number, NaN if it is no finite one."""
    try:
        number = float(value) if isinstance(value, (int, float)) else np.nan
    except OverflowError:  # a whole number beyond all floats
        return np.nan
    return number if abs(number) < np.inf else np.nan


def _center_and_scale(seen: Floats, declared: Encoding) -> tuple[float | None, float | None]:
    """Center and scale of numbers, as declared or as these are; None where they do not say."""
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
    """Root mean square distance of numbers from a declared center; None if all are there."""
    halves = np.abs(seen / 2 - center / 2)
    largest = float(halves.max())
    scale = largest * float(np.sqrt(np.mean((halves / largest) ** 2))) if largest > 0 else 0.0
    return 2 * min(scale, float(np.finfo(np.float64).max) / 2) if 2 * scale >= LEAST_SCALE else None


@final
class Texts:
    """A column of texts, None where one is missing; `exists` marks the lines that are there at all.

    In the design it has one indicator for each category but the first, and one for missing texts if any is. Declared
    categories come first; unless any are declared, the first one is the most frequent.
    """

    def __init__(
        self, name: str, values: Sequence[str | None], exists: Bools, declared: Encoding = NO_ENCODING
    ) -> None:
        self.name, self.values, self.exists, self.declared = name, tuple(values), exists, declared
        seen = [value for value, there in zip(values, exists.tolist(), strict=True) if there]
        counts = Counter(value for value in seen if value is not None)
        categories = declared.categories or ()
        if not categories and counts:
            categories = (min(counts, key=lambda text: (-counts[text], text)),)
        self.categories = (*categories, *sorted(counts.keys() - {*categories}))
        self.encoding = Encoding(self.categories, missing=declared.missing or (bool(self.categories) and None in seen))
        self._places = {text: k for k, text in enumerate(self.categories)}

    @property
    def names(self) -> list[str]:
        """What its columns of the design are called."""
        return [f"{self.name}={text}" for text in self.categories[1:]] + [
            f"{self.name} missing"
        ] * self.encoding.missing

    def declared_as(self, declared: Encoding) -> Texts:
        """Return the column with a declared encoding."""
        return Texts(self.name, self.values, self.exists, declared)

    def raw(self, line: int) -> Value:
        """The text in a line."""
        return self.values[line]

    def encoded(self, values: Sequence[str | None], exists: Bools) -> Floats:
        """Its columns of the design, for these texts: those that are new to it count as missing."""
        columns = np.zeros((len(values), len(self.names)))
        for line in np.flatnonzero(exists).tolist():
            text = values[line]
            place = None if text is None else self._places.get(text)
            if place is None and self.encoding.missing:
                columns[line, -1] = 1.0
            elif place:
                columns[line, place - 1] = 1.0
        return columns

    def of(self, values: Sequence[Any]) -> Sequence[str | None]:
        """Plain values as a column; what is no text is missing."""
        return [value if isinstance(value, str) else None for value in values]


Column: TypeAlias = Numbers | Texts


def carried(what: str, column: Column, learned: Column) -> Column:
    """Return a column with the encoding of another one, of the same name, that coefficients were learned for."""
    if isinstance(learned, Texts) and isinstance(column, Numbers) and np.isnan(column.values).all():
        column = Texts(column.name, [None] * len(column.values), column.exists, column.declared)
    if type(column) is not type(learned):  # texts where numbers were: another column
        return column
    return column.declared_as(learned.encoding.followed_by(f"{what}: column {brief(column.name)}", column.declared))
