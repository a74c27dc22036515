"""Invalid values, and functions that make valid values invalid."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import io
import math
import pathlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

Rng = np.random.Generator


class HostileError(Exception):
    """Raised by methods of hostile objects; the library may let it propagate."""


def _raise(*_: Any, **__: Any) -> Any:
    raise HostileError


class NotEqual:
    """Object that cannot be compared."""

    __eq__ = __ne__ = __lt__ = _raise
    __hash__ = object.__hash__


class NotHashable:
    __hash__ = _raise  # type: ignore[assignment]


class NotShown:
    __repr__ = __str__ = __format__ = _raise  # type: ignore[assignment]


class NotCounted(list[Any]):
    __len__ = _raise  # type: ignore[assignment]


class NotIterable:
    __iter__ = _raise


class NotTrue:
    __bool__ = _raise


class NotAnArray:
    __array__ = __float__ = __int__ = __index__ = _raise


class NotAMapping(dict[Any, Any]):
    """Mapping that cannot be read."""

    __getitem__ = __contains__ = keys = items = get = _raise  # type: ignore[assignment]


class LiesAboutItsLength(dict[Any, Any]):
    def __len__(self) -> int:
        return super().__len__() + 1


class Changing(dict[Any, Any]):
    """Mapping that answers differently every time."""

    def __getitem__(self, key: Any) -> Any:
        self[key] = super().__getitem__(key)
        return self.pop(key)


class Text(str):
    """Subclass of str."""


class Whole(int):
    """Subclass of int."""


class Double(float):
    """Subclass of float."""


class Everything:
    """Object that has every attribute, each of which is itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Everything:
        return self


def _recursive() -> list[Any]:
    row: list[Any] = [0]
    row.append(row)
    return row


def _deep(depth: int) -> Any:
    row: Any = 0
    for _ in range(depth):
        row = [row]
    return row


def _endless() -> Iterator[int]:
    yield from [0, 1]
    _raise()


NUMBERS: dict[str, Callable[[], Any]] = {
    repr(v): lambda v=v: v
    for v in (
        None, True, False, 0, 1, -1, 2, 3, 7, 255, 256, 2**31, 2**31 - 1, -(2**31), 2**32, 2**53 + 1, 2**62, 2**63 - 1,
        2**63, -(2**63), 2**64, 2**70, -(2**70), 10**400, 0.0, -0.0, 0.5, 1.0, 1.5, -1.0, 2.0, 5e-324, 1e-310, 2.3e-308,
        1e-300, 1e-16, 1e15, 1e16, 1.7e308, -1.7e308, math.nan, math.inf, -math.inf, 1j, 0j, complex(math.nan, 0),
    )
}  # fmt: skip
NUMBERS |= {
    "Decimal": lambda: decimal.Decimal("0.5"), "Decimal NaN": lambda: decimal.Decimal("NaN"),
    "Decimal sNaN": lambda: decimal.Decimal("sNaN"), "Decimal 1": lambda: decimal.Decimal(1),
    "Decimal huge": lambda: decimal.Decimal("1e999999"), "Fraction": lambda: fractions.Fraction(1, 3),
    "Fraction 1": lambda: fractions.Fraction(1), "Fraction huge": lambda: fractions.Fraction(10**400, 1),
    "Whole": lambda: Whole(1), "Double": lambda: Double(0.5), "Double NaN": lambda: Double(math.nan),
    "pd.NA": lambda: pd.NA, "pd.NaT": lambda: pd.NaT, "Timestamp": lambda: pd.Timestamp(0),
    "datetime": lambda: datetime.datetime(2020, 1, 1), "timedelta": lambda: datetime.timedelta(1),
    "arrow scalar": lambda: pa.scalar(1),
}  # fmt: skip
DTYPES = [
    "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "F", "D", ">i4", ">i8", ">u2", ">f4",
    ">f8", "S3", "U3", ">U3", "O", "M8[s]", "m8[s]", "V4",
]  # fmt: skip
ARRAYS: dict[str, Callable[[], Any]] = {
    **{f"scalar {t}": lambda t=t: np.zeros(1, t)[0] for t in DTYPES},
    **{f"scalar 1 {t}": lambda t=t: np.ones(1, t)[0] for t in DTYPES[:15]},
    **{f"0-d {t}": lambda t=t: np.zeros((), t) for t in DTYPES},
    **{f"row {t}": lambda t=t: np.zeros(2, t) for t in DTYPES},
    **{f"empty {t}": lambda t=t: np.zeros(0, t) for t in ("i8", "f8", "O", "U3")},
    "3-d": lambda: np.zeros((2, 2, 2)), "65 axes": lambda: np.zeros((1,) * 32), "0 x 5": lambda: np.zeros((0, 5)),
    "structured": lambda: np.zeros(2, [("a", "i4"), ("b", "f8")]), "NaNs": lambda: np.full(3, np.nan),
    "masked": lambda: np.ma.array([0, 1, 1], mask=[0, 1, 0]), "masked constant": lambda: np.ma.masked,
    "all masked": lambda: np.ma.array([0.5, 0.5], mask=True), "matrix of objects": lambda: np.array([[None, []], [1, {}]], object),
    "array in itself": lambda: _array_in_itself(), "read-only": lambda: _read_only(), "reversed": lambda: np.arange(4)[::-1],
    "strided": lambda: np.zeros(8)[::2], "broadcast": lambda: np.broadcast_to(np.float64(0.5), (2**20, 2**20)),
    "record": lambda: np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "Series": lambda: pd.Series([0, 1]), "Series of NA": lambda: pd.Series([1, None], dtype="Int64"),
    "Series of strings": lambda: pd.Series(["a", None], dtype="string"), "categorical": lambda: pd.Categorical(["a", "b"]),
    "frame": lambda: pd.DataFrame({"A1": [0, 1], "C1": [1, 0]}), "empty frame": lambda: pd.DataFrame(),
    "frame, a column twice": lambda: pd.DataFrame([[0, 1]], columns=["A1", "A1"]),
    "frame with levels": lambda: pd.DataFrame([[0, 1]], columns=pd.MultiIndex.from_tuples([("A1", 0), ("A1", 1)])),
    "Index": lambda: pd.Index([0, 1]), "sparse": lambda: pd.arrays.SparseArray([0, 1]),
    "arrow array": lambda: pa.array([0, 1, None]), "arrow table": lambda: pa.table({"A1": [0, 1], "C1": [1, 0]}),
    "arrow chunks": lambda: pa.chunked_array([[0], [1]]), "arrow series": lambda: pd.Series([0, 1], dtype="int64[pyarrow]"),
    "intervals": lambda: pd.interval_range(0, 3), "dates": lambda: pd.date_range("2020", periods=2),
}  # fmt: skip
STRINGS: dict[str, Callable[[], Any]] = {
    "''": lambda: "", "' '": lambda: " ", "nul": lambda: "\0", "with nul": lambda: "A\0B", "surrogate": lambda: "\ud800",
    "long": lambda: "x" * 100_000, "newline": lambda: "A1\nB", "right to left": lambda: "\u202eA1", "emoji": lambda: "👩‍👩‍👧",
    "combining": lambda: "é", "Text": lambda: Text("A1"), "bytes": lambda: b"A1", "bytearray": lambda: bytearray(b"A1"),
    "'0'": lambda: "0", "'1'": lambda: "1", "'nan'": lambda: "nan", "'A1'": lambda: "A1", "'C1'": lambda: "C1",
    "'__class__'": lambda: "__class__", "'{0}'": lambda: "{0}", "'%s'": lambda: "%s", "np.str_": lambda: np.str_("A1"),
    "'ep'": lambda: "ep", "'exact'": lambda: "exact", "'every'": lambda: "every",
}  # fmt: skip
OBJECTS: dict[str, Callable[[], Any]] = {
    "object": object, "a class": lambda: dict, "type": lambda: type, "a function": lambda: len, "lambda": lambda: lambda *a: 0,
    "a raising function": lambda: _raise, "a module": lambda: math, "...": lambda: ..., "NotImplemented": lambda: NotImplemented,
    "[]": list, "()": tuple, "{}": dict, "set()": set, "frozenset": lambda: frozenset([0, 1]), "range": lambda: range(2),
    "huge range": lambda: range(10**18), "slice": lambda: slice(2), "recursive list": _recursive, "deep list": lambda: _deep(100),
    "very deep list": lambda: _deep(50_000), "generator": lambda: (i for i in (0, 1)), "raising generator": _endless,
    "dict of odd keys": lambda: {None: 0, 1: 1, (1, 2): 2, 1.5: 3, math.nan: 4, b"A1": 5},
    "dict of numbers": lambda: {0: 1, 1: 0}, "proxy": lambda: types.MappingProxyType({"A1": 0}),
    "default dict": lambda: collections.defaultdict(int), "counter": lambda: collections.Counter("aab"),
    "ragged": lambda: [[0.5], [0.5, 0.5]], "list of lists": lambda: [[0, 1], [1, 0]], "mixed list": lambda: [0, "a", None, 1.5],
    "list of None": lambda: [None, None], "list of NaN": lambda: [math.nan, 0.5], "set of mixed": lambda: {0, "a", None},
    "path": lambda: pathlib.Path("nowhere"), "bytes buffer": lambda: io.BytesIO(b"x"), "generator of NumPy": lambda: np.random.default_rng(0),
    "bit generator": lambda: np.random.MT19937(0), "seed sequence": lambda: np.random.SeedSequence(0), "memory view": lambda: memoryview(b"ab"),
    "exception": lambda: ValueError("x"), "exception class": lambda: KeyError, "NotEqual": NotEqual, "NotHashable": NotHashable,
    "NotShown": NotShown, "NotCounted": NotCounted, "NotIterable": NotIterable, "NotTrue": NotTrue, "NotAnArray": NotAnArray,
    "NotAMapping": lambda: NotAMapping(A1=0), "LiesAboutItsLength": lambda: LiesAboutItsLength(A1=0), "Changing": lambda: Changing(A1=0),
    "Everything": Everything, "weird list": lambda: [NotEqual(), NotShown()],
}  # fmt: skip


def _array_in_itself() -> Any:
    array = np.empty(1, object)
    array[0] = array
    return array


def _read_only() -> Any:
    array = np.array([0.5, 0.5])
    array.setflags(write=False)
    return array


EVERY = list({**NUMBERS, **ARRAYS, **STRINGS, **OBJECTS}.values())
PLAIN = list({**NUMBERS, **STRINGS}.values())


def garbage(rng: Rng) -> Any:
    """Return any hostile value; numbers and strings as often as all others."""
    return _one(rng, PLAIN if rng.random() < 0.5 else EVERY)()


def _one(rng: Rng, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def spoil(rng: Rng, value: Any) -> Any:
    """Return a value close to the given one, or a hostile value."""
    if rng.random() < 0.25:
        return garbage(rng)
    if isinstance(value, dict):
        return _spoil_dict(rng, value)
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0):
        return _spoil_row(rng, value)
    if isinstance(value, bool | int | float):
        return _spoil_number(rng, value)
    if isinstance(value, str):
        return _one(
            rng,
            [Text(value), value.encode(), value + "\0", value.upper(), value[:-1], np.str_(value), [value], value * 50],
        )
    return garbage(rng)


def _spoil_dict(rng: Rng, value: dict[Any, Any]) -> Any:
    spoiled = dict(value)
    keys = list(spoiled)
    kind = int(rng.integers(10))
    if kind == 0 and keys:
        del spoiled[_one(rng, keys)]
    elif kind == 1:
        try:
            spoiled[garbage(rng)] = garbage(rng)
        except (TypeError, HostileError):  # it has no hash
            spoiled["more"] = 0
    elif kind == 2 and keys:
        spoiled[f"{keys[0]}x"] = spoiled.pop(keys[0])
    elif kind == 3:
        wraps: list[Any] = [
            types.MappingProxyType,
            collections.OrderedDict,
            collections.UserDict,
            Changing,
            lambda d: [*d.items()],
        ]
        wraps += [LiesAboutItsLength, lambda d: collections.defaultdict(int, d), pd.Series, NotAMapping]
        return _one(rng, wraps)(spoiled)
    elif kind == 4 and keys:
        spoiled = {Text(k) if isinstance(k, str) else k: v for k, v in spoiled.items()}
    elif keys:
        key = _one(rng, keys)
        spoiled[key] = spoil(rng, spoiled[key])
    return spoiled


def _spoil_row(rng: Rng, value: Any) -> Any:
    row = list(value)
    kind = int(rng.integers(10))
    if kind == 0 and row:
        row.pop()
    elif kind == 1:
        row.append(garbage(rng))
    elif kind == 2:
        row = row * 2
    elif kind == 3:
        return [row]
    elif kind <= 6:
        wraps: list[Any] = [
            tuple,
            pd.Series,
            np.array,
            set,
            iter,
            dict.fromkeys,
            pd.Index,
            pd.Categorical,
            collections.deque,
        ]
        wraps += [
            lambda r: np.array(r, object),
            lambda r: np.ma.array(r, mask=[True, *[False] * (len(r) - 1)]),
            pa.array,
        ]
        wraps += [
            lambda r: np.asarray(r)[::-1],
            lambda r: np.asarray(r, _one(rng, DTYPES)),
            lambda r: memoryview(np.array(r)),
        ]
        wraps += [
            lambda r: pd.Series(r, dtype="Int64"),
            lambda r: pd.Series(r, dtype="string"),
            lambda r: (x for x in r),
        ]
        try:
            return _one(rng, wraps)(row)
        except Exception:  # not every row can be of every type
            return tuple(row)
    elif row:
        at = int(rng.integers(len(row)))
        row[at] = spoil(rng, row[at])
    return row


def _spoil_number(rng: Rng, value: Any) -> Any:
    ways: list[Callable[[Any], Any]] = [
        lambda v: v + 1, lambda v: v - 1, lambda v: -v, lambda v: v / 3, float, str, bool, np.float32, np.float64, np.int8, np.int64,
        np.uint64, np.float16, np.longdouble, np.bool_, fractions.Fraction, decimal.Decimal, Whole, Double, complex, np.array,
        lambda v: [v], lambda v: v * 1e-310, lambda v: v * 1e308, lambda v: v + 2**63, lambda v: np.array([v]), pa.scalar,
        lambda v: np.array(v, object), lambda v: v + 1e-12,
    ]  # fmt: skip
    try:
        with np.errstate(all="ignore"):
            return _one(rng, ways)(value)
    except (OverflowError, ValueError):
        return garbage(rng)


def shown(value: Any, most: int = 120) -> str:
    """Format a value for a log."""
    try:
        text = f"{value!r}"
    except BaseException:
        text = f"<{type(value).__name__}>"
    if isinstance(value, (np.ndarray, np.generic)):
        text += f" {value.dtype}"
    return text if len(text) <= most else text[: most - 1] + "…"
