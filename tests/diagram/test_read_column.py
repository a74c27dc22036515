"""Columns of odd kinds, as values and a mask of what is missing."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from idbandits.diagram.features.read_column import read_column

DICTIONARY = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 2]), pa.array(["a", "b", None]))
BYTES = pa.dictionary(pa.int8(), pa.int64())
OBJECT = object()
UUID = uuid.UUID(int=7)
COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "null as a value of a dictionary": (DICTIONARY, ["b", "a", None, None]),
    "a part of a dictionary": (DICTIONARY[1:3], ["a", None]),
    "a part of integers": (pa.array([1, None, 3, 4])[1:3], [None, 3]),
    "a part of bools": (pa.array([True, None, False, True])[1:], [None, False, True]),
    "chunks with other dictionaries": (
        pa.chunked_array([pa.array(["x", None]).dictionary_encode(), pa.array(["z", "x"]).dictionary_encode()]),
        ["x", None, "z", "x"],
    ),
    "chunks with dictionaries that do not fit into one": (
        pa.chunked_array([pa.array(range(k, k + 100)).dictionary_encode().cast(BYTES) for k in (0, 100)]),
        [*range(200)],
    ),
    "a chunk of nulls": (
        pa.chunked_array([pa.nulls(1, BYTES), pa.array([7]).dictionary_encode().cast(BYTES)]), [None, 7]
    ),
    "no chunks": (pa.chunked_array([], pa.dictionary(pa.int8(), pa.string())), []),
    "a dictionary of nulls": (pa.nulls(2, pa.dictionary(pa.int8(), pa.string())), [None, None]),
    "nulls": (pa.nulls(2), [None, None]),
    "runs": (pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([1, None])), [1, 1, None]),
    "structs": (pa.array([{"a": 1}, None]), [{"a": 1}, None]),
    "lists": (pa.array([[1, 2], None, [3, 4]]), [[1, 2], None, [3, 4]]),
    "an extension type": (pa.array([UUID.bytes, None], pa.uuid()), [UUID, None]),
    "decimals": (pa.array([Decimal("1.5"), None]), [Decimal("1.5"), None]),
    "NaN and null": (pa.array([float("nan"), None, 1.0]), [None, None, 1.0]),
    "objects of Polars": (pl.Series([OBJECT, None], dtype=pl.Object), [OBJECT, None]),
    "128 bits": (pl.Series([2**100, None], dtype=pl.Int128), [2**100, None]),
    "structs of Polars": (pl.Series([{"a": 1}, {"a": None}]), [{"a": 1}, {"a": None}]),
    "categories of pandas": (pd.Categorical([1, None, 2]), [1, None, 2]),
    "an index of categories": (pd.CategoricalIndex([2, 1, None]), [2, 1, None]),
    "categories that are not there": (pd.Categorical([None, None]), [None, None]),
    "nullable integers": (pd.array([2**60 + 1, None], dtype="Int64"), [2**60 + 1, None]),
    "nullable floats": (pd.array([0.5, None], dtype="Float32"), [0.5, None]),
    "sparse": (pd.Series([1.0, np.nan, 0.0], dtype="Sparse[float]"), [1.0, None, 0.0]),
    "periods": (pd.Series([pd.Period("2026-01"), pd.NaT]), [pd.Period("2026-01"), None]),
    "two levels": (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), [("a", 1), ("b", 2)]),
    "a masked array": (np.ma.array([1, 2, 3], mask=[0, 1, 0]), [1, None, 3]),
    "masked objects": (np.ma.array(["a", "b"], mask=[1, 0], dtype=object), [None, "b"]),
    "a masked field": (np.ma.array([(1, 2), (3, 4)], "i4,i4", mask=[(0, 0), (1, 0)])["f0"], [1, None]),
    "a list": ([None, np.nan, pd.NA, "a", np.ma.masked, np.float32("nan")], [None, None, None, "a", None, None]),
    "texts of NumPy": (np.array(["a", "b"]), ["a", "b"]),
    "a range": (range(3), [0, 1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_values_and_what_is_missing(name: str) -> None:
    data, expected = COLUMNS[name]
    column = read_column(data)
    assert column.tolist() == expected
    assert [*map(type, column.tolist())] == [*map(type, expected)]
    assert column.missing.tolist() == [value is None for value in expected]


def test_integers_stay_integers_where_some_are_missing() -> None:
    for data in (pa.array([7, None]), pd.array([7, None], "Int16"), pl.Series([7, None]), pd.Categorical([7, None])):
        assert read_column(data).values.dtype.kind == "i"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_with_a_zone_are_in_utc(unit: str) -> None:
    times = pd.Series(pd.to_datetime(["2026-07-01 12:00", None])).dt.tz_localize("Europe/Paris").dt.as_unit(unit)  # type: ignore[arg-type]
    arrow = pa.array(times)
    columns = [
        times,
        pd.DatetimeIndex(times),
        arrow,
        pa.chunked_array([arrow]),
        times.astype(pd.ArrowDtype(arrow.type)),
    ]
    columns += [] if unit == "s" else [pl.Series(arrow)]
    for column in map(read_column, columns):
        assert column.has_zone
        assert str(column.values[0].astype("M8[s]")) == "2026-07-01T10:00:00"
        assert column.missing.tolist() == [False, True]
    assert not read_column(times.dt.tz_localize(None)).has_zone
    assert [type(value) for value in read_column(times).tolist()] == [np.datetime64, type(None)]  # not an integer


@pytest.mark.parametrize("data", [pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), {1, 2}, object(), "ab", 3, None])
def test_what_is_no_column_is_not_flat(data: Any) -> None:
    assert read_column(data).values.ndim != 1
