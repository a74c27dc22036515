"""Columns of logs as places among the values of a node: by label, then by text, then by spelling of bools."""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np

from idbandits.diagram.diagram import Node
from idbandits.diagram.values import is_missing
from idbandits.errors import ODD
from idbandits.kernel.array_types import Ints
from idbandits.logs.read.side_columns import values_of

MISSING, WRONG = -1, -2  # in place of a value
TRUE = frozenset({"true", "t", "yes", "y", "1", "1.0", "on"})
FALSE = frozenset({"false", "f", "no", "n", "0", "0.0", "off"})
MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>", "\\n"})
LONGEST_NUMBER = 40  # characters of a text that may be a number


@final
class LabelCodes:
    """Lookup of the values of one node; picklable, and shared by threads."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._is_range = isinstance(node.values, range)

    @cached_property
    def _texts(self) -> dict[str, int]:
        """Places by text, of labels that are numbers; equal texts of different labels are left out."""
        texts = dict[str, int]()
        for place, label in enumerate(self.node.values if not self._is_range else ()):
            if not isinstance(label, str):
                texts[str(label)] = place
        return texts

    @cached_property
    def _truths(self) -> tuple[int, int]:
        """Places of the labels that mean False and True, WRONG where there is none."""
        found = [WRONG, WRONG]
        if self.node.states == 2:
            for place, label in enumerate(self.node.values):
                for truth, words in enumerate((FALSE, TRUE)):
                    if str(label).strip().lower() in words:
                        found[truth] = place
        return found[0], found[1]

    def code(self, value: Any) -> int:
        """Return the place of a value; MISSING if there is none, WRONG if it is not one of the node."""
        place = self.node.index(value)
        if place is not None:
            return place
        try:
            if is_missing(value):
                return MISSING
            if isinstance(value, bytes):
                value = value.decode()
            if isinstance(value, float) and value.is_integer():  # integers of a column in which some are missing
                value = int(value)
            return self._code_of_text(value if isinstance(value, str) else str(value), isinstance(value, str))
        except ODD:  # bytes that are no text, and the like
            return WRONG

    def _code_of_text(self, text: str, is_text: bool) -> int:
        """Return the place of a value that equals no label, by its text."""
        stripped = text.strip()
        for own in (text, stripped):
            if own in self._texts:
                return self._texts[own]
            if (place := self.node.index(own)) is not None:  # a label that is a text, of a value that is a number
                return place
        folded = stripped.lower()
        if folded in TRUE or folded in FALSE:
            place = self._truths[folded in TRUE]
            if place != WRONG:
                return place
        if folded in MISSING_WORDS:
            return MISSING
        if is_text and len(stripped) <= LONGEST_NUMBER:
            try:
                place = self.node.index(int(stripped) if stripped.lstrip("+-").isdigit() else float(stripped))
            except ODD:
                place = None
            return WRONG if place is None else place
        return WRONG

    def codes(self, column: Any) -> Ints:
        """Return the places of the values of an Arrow array."""
        import pyarrow.types as types

        kind = column.type
        if types.is_dictionary(kind):
            table = np.append(self.codes(column.dictionary), MISSING)  # a null index is -1: the last entry
            return np.asarray(table[_places(column.indices)])
        if (types.is_integer(kind) or types.is_boolean(kind)) and self._is_range:
            if types.is_boolean(kind):
                import pyarrow

                column = column.cast(pyarrow.int8())
            return self._of_integers(column)
        if types.is_null(kind):
            return np.full(len(column), MISSING)
        return self._of_distinct(column)

    def _of_integers(self, column: Any) -> Ints:
        numbers = _filled(column, 0)
        places: Ints = numbers.astype(np.int64)
        invalid = (numbers < 0) | (
            numbers >= self.node.states
        )  # before the cast: of unsigned 64 bits, some are negative
        if invalid.any():
            places[invalid] = WRONG
        if column.null_count:
            places[_filled(column.is_null(), False)] = MISSING
        return places

    def _of_distinct(self, column: Any) -> Ints:
        """Look up each distinct value once."""
        try:
            encoded = column.dictionary_encode()
            distinct, indices = encoded.dictionary.to_pylist(), _places(encoded.indices)
        except ODD:  # lists, structures, and texts that are not valid UTF-8
            distinct, indices = values_of(column), np.arange(len(column))
        table = np.fromiter((self.code(value) for value in distinct), np.int64, len(distinct))
        return np.asarray(np.append(table, MISSING)[indices])


def _places(indices: Any) -> Any:
    """Return the indices of a dictionary, -1 for nulls."""
    return _filled(indices.cast("int64"), -1)


def _filled(column: Any, value: Any) -> Any:
    filled = column.fill_null(value) if column.null_count else column
    return filled.to_numpy(zero_copy_only=False)
