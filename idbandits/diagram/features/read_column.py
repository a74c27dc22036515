"""Columns of data from any library, as an array of values and a mask of the missing ones.

Libraries are recognised by their attributes, because they are slow to import. pyarrow is imported where it is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.diagram.values import is_missing, plain
from idbandits.errors import ODD
from idbandits.kernel.array_types import Bools

NEVER_MISSING = frozenset({bool, int, str})  # types of objects
OFTEN_MISSING = frozenset({*NEVER_MISSING, float, type(None)})


@final
class RawColumn(NamedTuple):
    """Values of a column; those that are `masked` are arbitrary, and objects among the others may be missing, too.

    Integers stay integers where some are missing. Times with a time zone are `datetime64` values in UTC.
    """

    values: Any  # an array, flat if the data was
    masked: Bools  # missing values of the library: masked, null, or NA of an extension type
    is_categorical: bool = False
    has_zone: bool = False

    @property
    def missing(self) -> Bools:
        """Mask of missing values: masked, or None, NaN, NaT and the like."""
        kind = self.values.dtype.kind
        if kind in "fc":
            return np.asarray(self.masked | np.isnan(self.values))
        if kind in "mM":
            return np.asarray(self.masked | np.isnat(self.values))
        return np.asarray(self.masked | _missing_objects(self.values)) if kind == "O" else self.masked

    def tolist(self) -> list[Any]:
        """Return plain values of a flat column, None where missing. Dates stay NumPy's: some would become integers."""
        if self.values.ndim != 1:
            raise ValueError(f"one value per line is needed, got an array of shape {self.values.shape}")
        values = list(self.values) if self.values.dtype.kind in "mM" else self.values.tolist()
        missing = self.missing
        return [None if m else v for v, m in zip(values, missing.tolist(), strict=True)] if missing.any() else values


def read_column(data: Any) -> RawColumn:
    """Read a column of NumPy, pandas, Polars or pyarrow, a list, or anything that NumPy converts to an array.

    Unreadable data raises one of `errors.ODD`. The caller checks that `values` is flat.

    >>> import pyarrow
    >>> read_column(pyarrow.chunked_array([[7, None, 9]]).dictionary_encode())
    RawColumn(values=array([7, 7, 9]), masked=array([False,  True, False]), is_categorical=True, has_zone=False)
    """
    if isinstance(data, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(data)
        return RawColumn(np.ma.getdata(data), mask if data.dtype.names is None else np.zeros(data.shape, np.bool_))
    if isinstance(data, (list, tuple)):
        return _unmasked(np.asarray(data, dtype=object))
    if not isinstance(data, np.ndarray):
        if is_arrow(data):
            return _of_arrow(data)
        if hasattr(data, "to_arrow") and hasattr(data, "is_null"):
            return _of_polars(data)
        if hasattr(data, "dtype") and hasattr(data, "isna"):
            return _of_pandas(data)
    return _unmasked(np.asarray(data))


def is_arrow(data: Any) -> bool:
    """Return True for arrays of pyarrow, chunked or not."""
    return hasattr(data, "to_pylist") and hasattr(data, "null_count")


def objects(values: Sequence[Any]) -> Any:
    """Return an array of objects, also where these are lists."""
    return np.fromiter(values, dtype=object, count=len(values))


def _unmasked(values: Any) -> RawColumn:
    return RawColumn(values, np.zeros(values.shape, np.bool_))


def _missing_objects(values: Any) -> Bools:
    listed = values.ravel().tolist()
    kinds = {*map(type, listed)}
    if kinds <= NEVER_MISSING:
        missing = np.zeros(len(listed), np.bool_)
    elif kinds <= OFTEN_MISSING:
        missing = np.fromiter((v is None or v != v for v in listed), np.bool_, len(listed))
    else:
        missing = np.fromiter(map(is_missing, listed), np.bool_, len(listed))
    return missing.reshape(values.shape)


def _of_categories(codes: Any, categories: RawColumn) -> RawColumn:
    """Return values by their numbers among categories, -1 where missing; categories may be missing themselves."""
    if not len(categories.values):  # then all values are missing
        fillers = np.zeros(len(codes), categories.values.dtype)
        return RawColumn(fillers, np.ones(len(codes), np.bool_), True, categories.has_zone)
    places = np.where(codes < 0, 0, codes)
    return RawColumn(
        categories.values[places], np.asarray((codes < 0) | categories.missing[places]), True, categories.has_zone
    )


def _of_pandas(data: Any) -> RawColumn:
    """Read a series, an index or an extension array."""
    dtype = data.dtype
    if isinstance(dtype, np.dtype):
        return _unmasked(np.asarray(data))
    array = getattr(data, "array", data)
    if str(dtype) == "category":
        return _of_categories(np.asarray(array.codes), read_column(array.categories))
    if hasattr(dtype, "pyarrow_dtype"):
        return _of_arrow(array.__arrow_array__())
    if hasattr(dtype, "numpy_dtype"):  # nullable numbers and bools
        return RawColumn(array.to_numpy(dtype=dtype.numpy_dtype, na_value=0), np.asarray(array.isna()))
    if hasattr(dtype, "tz"):
        return _unmasked(array.to_numpy(dtype=f"datetime64[{dtype.unit}]"))._replace(has_zone=True)
    return _unmasked(np.asarray(data))


def _of_polars(data: Any) -> RawColumn:
    if str(data.dtype) != "Object":  # to pyarrow, objects are their addresses
        try:
            return _of_arrow(data.to_arrow())
        except ODD:  # integers of 128 bits
            pass
    return _unmasked(objects([plain(value) for value in data.to_list()]))


def _of_arrow(data: Any) -> RawColumn:
    """Read an array, chunked or not."""
    import pyarrow
    from pyarrow import types

    kind = data.type
    if types.is_dictionary(kind):
        if isinstance(data, pyarrow.ChunkedArray):  # each chunk has a dictionary; one of all may not fit the indices
            chunks = [_of_arrow(chunk) for chunk in data.chunks or [pyarrow.nulls(0, kind)]]
            values, masked = (np.concatenate([chunk[k] for chunk in chunks]) for k in (0, 1))
            return chunks[0]._replace(values=values, masked=masked)
        codes = _array_of(data.indices.fill_null(0)).astype(np.int64)
        codes[_array_of(data.indices.is_null())] = -1
        return _of_categories(codes, _of_arrow(data.dictionary))
    masked = _array_of(data.is_null())
    has_zone = types.is_timestamp(kind) and kind.tz is not None
    if types.is_boolean(kind):
        return RawColumn(_array_of(data.fill_null(False)), masked)
    if types.is_integer(kind) or types.is_floating(kind):
        return RawColumn(_array_of(data.fill_null(0)), masked)
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        return RawColumn(_array_of(data), masked, has_zone=has_zone)
    if types.is_string(kind) or types.is_large_string(kind):
        return RawColumn(_array_of(data), masked)
    return RawColumn(objects(data.to_pylist()), masked)


def _array_of(data: Any) -> Any:
    return data.to_numpy(zero_copy_only=False)
