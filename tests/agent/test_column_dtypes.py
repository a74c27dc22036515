"""Columns of pandas, Polars and pyarrow of all dtypes, with and without missing values, are read like plain lists."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import idbandits as idb
from error_checks import assert_rejected_by
from idbandits.errors import ActionError, ContextError, IdbanditsError
from internals import knowledge

ROUNDS = 8
MISSING = {"none": (), "first": (0,), "some": (1, 2, 6), "last": (7,), "all": tuple(range(ROUNDS))}


@dataclass(frozen=True)
class Dtype:
    """A dtype that libraries share: three values of it, and its name in each library that has it."""

    values: tuple[Any, Any, Any]
    arrow: Any
    pandas: tuple[str, ...] = ()  # beside the extension type of pyarrow
    polars: Any = None
    with_missing: str | None = None  # the NumPy type in pandas where values are missing
    is_category: bool = False

    def column(self, missing: tuple[int, ...]) -> list[Any]:
        """Values of eight rounds."""
        return [None if t in missing else self.values[(t * t + t // 3) % 3] for t in range(ROUNDS)]

    def in_pandas(self, values: list[Any]) -> Iterator[Any]:
        """Yield the columns that pandas may hold these values in."""
        for name in self.pandas:
            if None in values and name[0].islower() and name not in ("boolean", "string", "category", "str", "object"):
                name = self.with_missing or name
            if name == "category":  # of these values, in this order
                yield pd.Series(pd.Categorical(values, categories=[*self.values[::-1]]))
            else:
                yield pd.Series(values, dtype=object).astype(name)
        if not (pa.types.is_int64(self.arrow) and self.values[0] > 2**53):  # which pandas would round
            yield pd.Series(self.in_arrow(values).to_pandas())
        if not pa.types.is_dictionary(self.arrow):
            yield pd.Series(pd.array(values, dtype=pd.ArrowDtype(self.arrow)))

    def in_arrow(self, values: list[Any]) -> Any:
        """Return an array of pyarrow."""
        if pa.types.is_dictionary(self.arrow):
            return pa.array(values, self.arrow.value_type).dictionary_encode().cast(self.arrow)
        return pa.array(values, self.arrow)


def whole(name: str, least: int = -1) -> Dtype:
    nullable = name.replace("i", "I", 1).replace("uI", "UI")
    polars = getattr(pl, nullable)
    return Dtype((3, least, 7), getattr(pa, name)(), (name, nullable, "object"), polars, "float64")


NUMBERS = {
    **{name: whole(name) for name in ("int8", "int16", "int32", "int64")},
    **{name: whole(name, 0) for name in ("uint8", "uint16", "uint32", "uint64")},
    "float16": Dtype((0.5, -2.0, 8.0), pa.float16(), ("float16", "object")),
    "float32": Dtype((0.5, -2.0, 8.0), pa.float32(), ("float32", "Float32", "object"), pl.Float32),
    "float64": Dtype((0.5, -2.0, 8.0), pa.float64(), ("float64", "Float64", "object"), pl.Float64),
    "large integers": Dtype((2**60, 2**60 + 1, 2**60 + 2), pa.int64(), ("Int64", "object"), pl.Int64),
    "decimal": Dtype((Decimal(3), Decimal(1), Decimal("0.5")), pa.decimal128(10, 2), ("object",), pl.Decimal(10, 2)),
    "bool": Dtype((True, False, True), pa.bool_(), ("boolean", "object"), pl.Boolean, "object"),
}  # fmt: skip
TEXTS = {
    "string": Dtype(("b", "ä", "a"), pa.string(), ("string", "str", "object"), pl.String),
    "large string": Dtype(("b", "", "a"), pa.large_string(), ("string[pyarrow]",), pl.String),
    "string view": Dtype(("b", "ä", "a"), pa.string_view(), ("string[python]",), pl.String),
    "category": Dtype(("b", "ä", "a"), pa.dictionary(pa.int32(), pa.string()), ("category",), pl.Categorical, None, True),
    "enum": Dtype(("b", "ä", "a"), pa.dictionary(pa.int8(), pa.string()), ("category",), pl.Enum(["ä", "a", "b"]), None, True),
    "category of integers": Dtype((3, -1, 7), pa.dictionary(pa.int16(), pa.int64()), ("category",), None, None, True),
    "category of bools": Dtype((True, False, True), pa.dictionary(pa.int16(), pa.bool_()), (), None, None, True),
}  # fmt: skip
LABELS = {**NUMBERS, **TEXTS}

NOON = datetime.datetime(2026, 3, 28, 23, 30)  # in Paris, clocks change two hours later
PARIS, UTC = ZoneInfo("Europe/Paris"), datetime.UTC


def times(unit: str, zone: Any = None, steps: Mapping[str, Any] | None = None) -> Dtype:
    first = NOON.replace(tzinfo=zone)
    step = datetime.timedelta(hours=5) + datetime.timedelta(**({} if unit == "s" else {"milliseconds": 7}))
    name = None if zone is None else "UTC" if zone is UTC else zone.key
    dtype = f"datetime64[{unit}]" if name is None else f"datetime64[{unit}, {name}]"
    polars = None if unit == "s" else pl.Datetime(unit, name)  # type: ignore[arg-type]
    return Dtype((first, first + step, first + 2 * step), pa.timestamp(unit, name), (dtype, "object"), polars)


TIMES = {
    **{f"{unit}, {zone}": times(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, UTC, PARIS)},
    "date": Dtype(tuple(datetime.date(2026, 3, k) for k in (1, 2, 9)), pa.date32(), ("object",), pl.Date),  # type: ignore[arg-type]
    "texts": Dtype(("2026-03-01T10:00", "2026-03-02", "2026-03-01T12:00:00.5"), pa.string(), ("string",), pl.String),
    "categories": Dtype(
        ("2026-03-01T10:00", "2026-03-02", "2026-03-01T12:00:00.5"), pa.dictionary(pa.int8(), pa.string()),
        ("category",), pl.Categorical, None, True,
    ),
    **{name: d for name, d in NUMBERS.items() if name not in ("bool", "decimal", "large integers")},
}  # fmt: skip

dtypes_of_labels = pytest.mark.parametrize("dtype", LABELS)
missing_values = pytest.mark.parametrize("missing", MISSING)


def frames(dtype: Dtype, name: str, values: list[Any], others: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return frames of all libraries with a column of the dtype, and others as libraries make them of lists."""
    own: dict[str, Any] = {}
    for series in dtype.in_pandas(values):
        frame = pd.DataFrame({**others, name: series})
        own[f"pandas {series.dtype}"] = frame
        if isinstance(series.dtype, pd.CategoricalDtype):
            own["pandas to pyarrow"] = pa.Table.from_pandas(frame)
    column = dtype.in_arrow(values)
    table = pa.table({**others, name: column})
    own |= {"table": table, "batch": table.to_batches()[0]}
    chunks = [dtype.in_arrow(values[:3]), dtype.in_arrow(values[3:3]), dtype.in_arrow(values[3:])]
    own["chunks"] = pa.table({**others, name: pa.chunked_array(chunks)})  # dictionaries differ between them
    own["arrays"] = {**others, name: column}
    if dtype.polars is not None:
        frame = pl.DataFrame({**others, name: pl.Series(values, dtype=dtype.polars)})
        own |= {"polars": frame, "lazy": frame.lazy(), "polars to pyarrow": frame.to_arrow()}
        own["polars series"] = {**others, name: frame[name]}
    hidden = [dtype.values[1] if value is None else value for value in values]
    own["masked"] = {**others, name: np.ma.array(np.array(hidden, object), mask=[value is None for value in values])}
    return own


def distinct(dtype: Dtype) -> list[Any]:
    """Labels that the values of a dtype equal."""
    return [*dict.fromkeys(float(v) if isinstance(v, Decimal) else v for v in dtype.values)]


def assert_alike(
    agent: idb.Thompson,
    expected: dict[str, list[Any]],
    others: dict[str, Any],
    rejection: tuple[Any, ...] | None = None,
) -> None:
    """Every frame teaches an agent what lists teach it, or is assert_raises, as these are."""
    for form, log in {"lists": expected, **others}.items():
        learner = agent.copy()
        if rejection is not None:
            error, words = rejection
            assert_rejected_by(learner, error, words, lambda log=log, learner=learner: learner.update_many(log))  # type: ignore[misc]
            continue
        reference = agent.copy()
        reference.update_many(expected)
        learner.update_many(log)
        assert knowledge(learner) == knowledge(reference), form


# -- nodes -----------------------------------------------------------------------------------------------------------


@dtypes_of_labels
@missing_values
@pytest.mark.parametrize("repeated", [1, 20])  # long columns are factorized
def test_observed_nodes(dtype: str, missing: str, repeated: int) -> None:
    own = LABELS[dtype]
    d = idb.Diagram("seen")
    labels = distinct(own)
    seen = d.observed("seen", [d.decision("choice", 2)], states=labels)
    d.reward(seen, list(range(len(labels))))
    choices, values = [t % 2 for t in range(ROUNDS)] * repeated, own.column(MISSING[missing]) * repeated
    log = {"choice": choices, "seen": values}
    agent = idb.Thompson(d, "exact", seed=0)
    assert_alike(agent, log, frames(own, "seen", values, {"choice": choices}))
    agent.update_many(log)
    counts = [
        [sum(c == row and v == x for c, v in zip(choices, values, strict=True)) for x in labels] for row in (0, 1)
    ]
    np.testing.assert_array_equal(agent.posterior()["seen"].alpha, 1.0 + np.array(counts))


@dtypes_of_labels
@missing_values
@pytest.mark.parametrize("kind", ["decision", "context"])
def test_decisions_and_contexts(dtype: str, missing: str, kind: str) -> None:
    own = LABELS[dtype]
    d = idb.Diagram("chosen")
    node = d.decision("node", distinct(own)) if kind == "decision" else d.context("node", distinct(own))
    parents = [node] if kind == "decision" else [d.decision("choice", 1), node]
    d.reward(d.observed("seen", parents))
    values, seen = own.column(MISSING[missing]), {"seen": [t % 2 for t in range(ROUNDS)]}
    others = seen if kind == "decision" else seen | {"choice": [0] * ROUNDS}
    error = ActionError if kind == "decision" else ContextError
    words = (f"{kind}s: 'node'".replace("decision", "action"), f"round {(*MISSING[missing], 0)[0]} cannot be")
    logs = frames(own, "node", values, others)
    assert_alike(
        idb.Thompson(d, "exact", seed=0),
        {**others, "node": values},
        logs,
        (error, words) if missing != "none" else None,
    )


# -- features --------------------------------------------------------------------------------------------------------


@dtypes_of_labels
@missing_values
def test_features_of_contexts(dtype: str, missing: str) -> None:
    own = LABELS[dtype]
    d = idb.Diagram("request")
    kind = distinct(own)[::-1] if dtype in TEXTS else (1.0, 4.0)
    user = d.context("user", features={"own": kind, "age": None})
    d.reward(d.observed("seen", [d.decision("choice", 2), user], idb.Learned("table", residuals=1.0)))
    values, ages = own.column(MISSING[missing]), [float(t) for t in range(ROUNDS)]
    others = {"choice": [t % 2 for t in range(ROUNDS)], "seen": [t % 3 % 2 for t in range(ROUNDS)], "age": ages}
    agent = idb.Thompson(d, "moments", seed=0)
    assert_alike(agent, {**others, "own": values}, frames(own, "own", values, others))
    one_by_one, at_once = agent.copy(), agent.copy()
    for t in range(ROUNDS):
        request = {"own": values[t], "age": ages[t]}
        one_by_one.update({"choice": others["choice"][t]}, {"seen": others["seen"][t]}, {"user": request})
        single = {name: column[t : t + 1] for name, column in {**others, "own": values}.items()}
        at_once.update_many(single)
    assert knowledge(one_by_one) == knowledge(at_once)


def design_of(features: Any, items: list[Any]) -> tuple[Any, Any]:
    """Return names and numbers of the design of a table with one row per item."""
    d = idb.Diagram("items")
    d.reward(d.observed("seen", [d.decision("item", items)], idb.Learned("table", features=features)))
    own = d.learned["table"].features
    assert own is not None
    return own.names, own.design.tolist()


def selected(frame: Any, *columns: str) -> Any:
    """Return a frame with its columns in this order, or one array if it is a dict."""
    if isinstance(frame, dict):
        return frame[columns[-1]]
    return frame[[*columns]] if isinstance(frame, pd.DataFrame) else frame.select([*columns])


@dtypes_of_labels
@missing_values
def test_features_of_items(dtype: str, missing: str) -> None:
    own, items = LABELS[dtype], [f"item {t}" for t in range(ROUNDS)]
    values = own.column(MISSING[missing])
    plain = [None if value is None else str(value) for value in values] if own.is_category else values
    by_label = design_of(pd.DataFrame({"item": items, "own": pd.Series(plain, dtype=object)}), items)
    by_place = design_of(np.array(plain, dtype=object), items)
    for form, frame in frames(own, "own", values, {"item": items}).items():
        if not (own.is_category and form == "masked"):  # NumPy has no categories
            expected = by_place if isinstance(frame, dict) else by_label
            assert design_of(selected(frame, "item", "own"), items) == expected, form


@pytest.mark.parametrize("dtype", [name for name in LABELS if "bool" not in name])
@pytest.mark.parametrize("missing", [0, 2])
def test_labels_of_items(dtype: str, missing: int) -> None:
    own = LABELS[dtype]
    items, values = distinct(own), [*own.values, *[None] * missing]
    prices = [float(t) for t in range(len(values))]
    expected = design_of(np.array(prices[:3])[:, np.newaxis], items)[1]
    for form, frame in frames(own, "item", values, {"price": prices}).items():
        if not isinstance(frame, dict):
            assert design_of(selected(frame, "item", "price"), items) == (("(constant)", "price"), expected), form


# -- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TIMES)
@missing_values
def test_times(dtype: str, missing: str) -> None:
    own = TIMES[dtype]
    values, log = own.column(MISSING[missing]), {"A1": [0] * ROUNDS, "X1": [t % 2 for t in range(ROUNDS)]}
    agent = idb.Thompson(idb.models.semi_bandit(2, 1), "exact", seed=0, forget=idb.Forget("1d"))
    columns = {form: frame["at"] for form, frame in frames(own, "at", values, {}).items() if form != "lazy"}
    if missing != "none":
        for column in [values, *columns.values()]:
            words = (f"at in round {MISSING[missing][0]} must be", "datetime", "got")
            assert_rejected_by(agent, IdbanditsError, words, lambda column=column: agent.update_many(log, at=column))  # type: ignore[misc]
        return
    expected = agent.copy()
    expected.update_many(log, at=values)
    for form, column in columns.items():
        other = agent.copy()
        other.update_many(log, at=column)
        assert knowledge(other) == knowledge(expected), form
    if dtype not in ("date", "texts", "categories") and isinstance(values[0], datetime.datetime):
        seconds = agent.copy()
        zoned = [value if value.tzinfo is not None else value.replace(tzinfo=UTC) for value in values]
        seconds.update_many(log, at=[value.timestamp() for value in zoned])
        np.testing.assert_array_equal(seconds.posterior()["mean"].alpha, expected.posterior()["mean"].alpha)


@pytest.mark.parametrize("dtype", [name for name in NUMBERS if "int" in name and name != "large integers"])
@missing_values
def test_numbers_of_rounds(dtype: str, missing: str) -> None:
    own = NUMBERS[dtype]
    values = [None if t in MISSING[missing] else max(0, t - t % 3) for t in range(ROUNDS)]
    log = {"A1": [0] * ROUNDS, "X1": [t % 2 for t in range(ROUNDS)]}
    agent = idb.Thompson(idb.models.semi_bandit(2, 1), "exact", seed=0, forget=idb.Forget(3))
    columns = {
        f: frame["at"] for f, frame in frames(own, "at", values, {}).items() if f not in ("lazy", "pandas float64")
    }
    expected = agent.copy()
    if missing == "none":
        expected.update_many(log, at=values)
    for form, column in columns.items():
        other = agent.copy()
        if missing == "none":
            other.update_many(log, at=column)
            assert knowledge(other) == knowledge(expected), form
        else:
            words = (f"at in round {MISSING[missing][0]}", "must be an integer")
            assert_rejected_by(
                other, IdbanditsError, words, lambda column=column, other=other: other.update_many(log, at=column)
            )  # type: ignore[misc]
