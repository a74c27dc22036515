"""Columns of features: numbers, which are standardised, and texts, which become indicators of categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np

from idbandits.kernel.types import Bools, Floats

Value: TypeAlias = float | str | None  # of one column in one line: None where it is missing
MOST_DEVIATIONS = 1e4  # from the mean: more than any of 50 million lines can have; those of other diagrams are cut


@final
class Numbers:
    """A column of numbers, NaN where one is missing; `exists` marks the lines that are there at all.

    In the design it has mean 0 and standard deviation 1 over the lines that exist, and is 0 where a number is missing;
    a second column says where that is, if it happens.
    """

    def __init__(self, name: str, values: Floats, exists: Bools) -> None:
        self.name, self.values = name, values
        missing = np.isnan(values)
        seen = values[exists & ~missing]
        low, high = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 0.0)
        self._low, self._range = low / 2, high / 2 - low / 2  # halves: the difference of two large numbers is finite
        self._mean, self._deviation = 0.0, 0.0
        if self._range > 0:
            shifted = (seen / 2 - self._low) / self._range
            self._mean, self._deviation = float(shifted.mean()), float(shifted.std())
        self._marks_missing = bool(len(seen) and (missing & exists).any())

    @property
    def names(self) -> list[str]:
        """What its columns of the design are called."""
        return [self.name, f"{self.name} missing"] if self._marks_missing else [self.name]

    def raw(self, line: int) -> Value:
        """The number in a line."""
        value = float(self.values[line])
        return None if value != value else value

    def encoded(self, values: Floats, exists: Bools) -> Floats:
        """Its columns of the design, for these numbers."""
        columns, missing = np.zeros((len(values), len(self.names))), np.isnan(values)
        if self._deviation > 0:
            with np.errstate(over="ignore"):
                scaled = ((values / 2 - self._low) / self._range - self._mean) / self._deviation
            columns[:, 0] = np.where(missing | ~exists, 0.0, np.clip(scaled, -MOST_DEVIATIONS, MOST_DEVIATIONS))
        if self._marks_missing:
            columns[:, 1] = missing & exists
        return columns

    def of(self, value: Any) -> Floats:
        """A plain value as a column of one line; what is no finite number is missing."""
        try:
            number = float(value) if isinstance(value, (int, float)) else np.nan
        except OverflowError:  # a whole number beyond all floats
            number = np.nan
        return np.array([number if abs(number) < np.inf else np.nan])


@final
class Texts:
    """A column of texts, None where one is missing; `exists` marks the lines that are there at all.

    In the design it has one indicator for each category but the most frequent one, and one for missing texts if any is.
    """

    def __init__(self, name: str, values: Sequence[str | None], exists: Bools) -> None:
        self.name, self.values = name, tuple(values)
        seen = [value for value, there in zip(values, exists.tolist(), strict=True) if there]
        counts = Counter(value for value in seen if value is not None)
        usual = min(counts, key=lambda text: (-counts[text], text), default=None)
        self._places = {text: k for k, text in enumerate(sorted(counts.keys() - {usual}))}
        self._usual, self._marks_missing = usual, bool(counts) and None in seen
        self.categories = tuple(sorted(counts))

    @property
    def names(self) -> list[str]:
        """What its columns of the design are called."""
        return [f"{self.name}={text}" for text in self._places] + [f"{self.name} missing"] * self._marks_missing

    def raw(self, line: int) -> Value:
        """The text in a line."""
        return self.values[line]

    def encoded(self, values: Sequence[str | None], exists: Bools) -> Floats:
        """Its columns of the design, for these texts: those that are new to it count as missing."""
        columns = np.zeros((len(values), len(self._places) + self._marks_missing))
        for line in np.flatnonzero(exists).tolist():
            text = values[line]
            place = None if text is None else self._places.get(text)
            if place is not None:
                columns[line, place] = 1.0
            elif self._marks_missing and (text is None or text != self._usual):
                columns[line, -1] = 1.0
        return columns

    def of(self, value: Any) -> Sequence[str | None]:
        """A plain value as a column of one line; what is no text is missing."""
        return [value if isinstance(value, str) else None]


Column: TypeAlias = Numbers | Texts
