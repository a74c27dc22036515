"""Columns of logs that are not of nodes: times, weights, clusters, and further ones that were asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from idbandits.errors import ODD, IdbanditsError
from idbandits.inference.forgetting import Forget
from idbandits.kernel.array_types import Bools, Floats, Ints
from idbandits.logs.read.stored_batches import with_valid_text

_CLOCK = Forget(half_life="1d")  # any half-life in time: times do not depend on it


def decoded(column: Any) -> Any:
    """Return an Arrow array without dictionary, whose texts are valid UTF-8."""
    import pyarrow.types as types

    return with_valid_text(column.dictionary_decode() if types.is_dictionary(column.type) else column)[0]


def numbers_of(column: Any) -> Floats:
    """Return an Arrow array of numbers, or of their texts, as floats; NaN for anything else."""
    import pyarrow
    import pyarrow.types as types

    column = decoded(column)
    if types.is_floating(column.type) or types.is_integer(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
    try:
        return np.asarray(column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False), np.float64)
    except ODD:
        return np.array([_number(value) for value in values_of(column)], np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except ODD:
        return np.nan


def times_of(column: Any) -> Floats:
    """Return times as seconds since 1970, numbers as they are; NaN for values that are not times."""
    import pyarrow.types as types

    column = decoded(column)
    if types.is_floating(column.type) or types.is_integer(column.type) or types.is_decimal(column.type):
        return numbers_of(column)
    if types.is_string(column.type) or types.is_large_string(column.type):
        numbers = numbers_of(column)
        if np.isfinite(numbers).sum() + column.null_count == len(column):
            return numbers
        times = _texts_as_times(column)
        if times is not None:
            return times
    return _checked_times(column, 0, len(column))


def _texts_as_times(column: Any) -> Floats | None:
    """Return ISO texts that are all alike as seconds; None if Arrow cannot read them."""
    import pyarrow

    for kind in (pyarrow.timestamp("us"), pyarrow.timestamp("us", tz="UTC")):
        try:
            micros = column.cast(kind).cast(pyarrow.int64()).cast(pyarrow.float64())
            return np.asarray(micros.to_numpy(zero_copy_only=False), np.float64) / 1e6
        except ODD:
            pass
    return None


def _checked_times(column: Any, first: int, last: int) -> Floats:
    """Return seconds; where one of many is not valid, halves are read apart."""
    own = column.slice(first, last - first)
    try:
        return np.asarray(_CLOCK.when_all(own, 0, 0, last - first).time, np.float64)
    except (IdbanditsError, *ODD):
        if last - first == 1:
            return np.array([np.nan])
    middle = (first + last) // 2
    return np.concatenate([_checked_times(column, first, middle), _checked_times(column, middle, last)])


def clusters_of(column: Any) -> tuple[Ints, Bools]:
    """Return numbers of clusters, equal in all batches and processes, and a mask of those that are missing.

    Integers are their own numbers; other labels have numbers that are hashes of 64 bits.
    """
    import pyarrow
    import pyarrow.types as types

    column = decoded(column)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if types.is_integer(column.type) and not types.is_uint64(column.type):
        return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.int64), missing
    from pandas.util import hash_array  # slow to import

    try:
        encoded = column.cast(pyarrow.string()).dictionary_encode()
        distinct = encoded.dictionary.to_numpy(zero_copy_only=False).astype(object)
    except ODD:  # lists, structures, durations, and texts that are not valid UTF-8
        texts = [None if value is None else repr(value) for value in values_of(column)]
        encoded = pyarrow.array(texts, pyarrow.string()).dictionary_encode()
        distinct = encoded.dictionary.to_numpy(zero_copy_only=False).astype(object)
    hashes = np.append(hash_array(distinct, categorize=False).view(np.int64), 0)
    return hashes[encoded.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)], missing


def values_of(column: Any) -> list[Any]:
    """Return the values of an Arrow array; bytes in place of texts that are not valid UTF-8."""
    return [_value(column, i) for i in range(len(column))]


def _value(column: Any, i: int) -> Any:
    try:
        return column[i].as_py()
    except ODD:
        return b"\xff"


def plain_array(column: Any) -> Any:
    """Return a further column as a NumPy array; texts of numbers become numbers."""
    import pyarrow.types as types

    column = decoded(column)
    if types.is_string(column.type) or types.is_large_string(column.type) or types.is_decimal(column.type):
        try:
            return column.cast("float64").to_numpy(zero_copy_only=False)
        except ODD:
            pass
    return column.to_numpy(zero_copy_only=False)
