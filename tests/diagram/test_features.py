"""Features of rows: read from frames and arrays, encoded as pandas would, and saved to the bit."""

from __future__ import annotations

import datetime
import json
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import idbandits as idb
from crafted_files import WRONG_JSON, changed, places_in
from idbandits.diagram.diff import differences
from idbandits.diagram.features.design import (
    CONSTANT,
    INTERCEPT_SD,
    LOG_STRENGTH_SD,
    MOST_COLUMNS,
    SLOPES_SD,
    TableFeatures,
)
from idbandits.diagram.tables import prior_means
from idbandits.errors import DiagramError, FormatError, IdbanditsError, PriorError, TableError

DISHES = ["pho", "rice", "curry", "soup"]
FRAME = pd.DataFrame(
    {
        "price": [3.0, 5.0, np.nan, 4.0, 1e9],
        "kind": ["thai", "thai", "soup", None, "other"],
        "new": [True, False, True, False, True],
    },
    index=["curry", "rice", "pho", "soup", "closed"],
)


def diagram(features: Any, dishes: Any = DISHES, **settings: Any) -> idb.Diagram:
    d = idb.Diagram("menu")
    d.reward(d.observed("ordered", [d.decision("dish", dishes)], idb.Learned("taste", features=features, **settings)))
    return d


def features_of(features: Any, dishes: Any = DISHES, **settings: Any) -> TableFeatures:
    own = diagram(features, dishes, **settings).learned["taste"].features
    assert own is not None
    return own


def grid(features: Any, **settings: Any) -> idb.Diagram:
    """A table with two parents, of two and three values."""
    d = idb.Diagram("grid")
    parents = [d.decision("item", ["a", "b"]), d.context("who", [10, 20, 30])]
    d.observed("X", parents, idb.Learned("mood", features=features, **settings))
    return d


def of_grid(features: Any, **settings: Any) -> TableFeatures:
    own = grid(features, **settings).learned["mood"].features
    assert own is not None
    return own


def assert_consistent(own: TableFeatures) -> None:
    """Lines of plain data say all that the design has."""
    assert own.design.shape[1] == len(own.names)
    assert own.design.flags["C_CONTIGUOUS"]
    assert not own.design.flags["WRITEABLE"]
    assert own.names[0] == CONSTANT
    assert (own.design[:, 0] == 1).all()
    assert np.isfinite(own.design).all()
    for row, line in enumerate(own.design):
        np.testing.assert_array_equal(own.encoded([json.loads(json.dumps(own.line(row)))])[0], line, strict=True)


def standardised(values: Any) -> np.ndarray:
    column = pd.Series(values, dtype=float)
    return ((column - column.mean()) / column.std(ddof=0)).fillna(0.0).to_numpy()


# -- columns ---------------------------------------------------------------------------------------------------------


def test_a_frame_becomes_a_design_as_pandas_would_make_it() -> None:
    own, used = features_of(FRAME), FRAME.loc[DISHES]
    assert own.names == (CONSTANT, "price", "price missing", "kind=soup", "kind missing", "new")
    dummies = pd.get_dummies(used["kind"], dtype=float)
    expected = np.column_stack(
        [
            np.ones(4), standardised(used["price"]), used["price"].isna(), dummies["soup"], used["kind"].isna(),
            standardised(used["new"]),
        ]
    )  # fmt: skip
    np.testing.assert_allclose(own.design, expected, rtol=1e-14, atol=1e-15)
    assert own.line(0) == [{"price": None, "kind": "soup", "new": 1.0}]
    assert_consistent(own)


def test_frames_of_all_kinds_are_read_alike() -> None:
    named = FRAME.rename_axis("dish").reset_index()
    frames = [
        named, named.set_index("dish"), pl.from_pandas(named), pl.from_pandas(named).lazy(),
        pl.from_pandas(named).with_columns(pl.col("kind").cast(pl.Categorical)),
        named.astype({"kind": "category", "price": "Float64", "new": "boolean", "dish": "string"}),
        named.assign(price=[Decimal(3), 5, None, np.float32(4), 10**9]),
        {"dish": named}, [named], idb.Learned("other", features=named).features,
    ]  # fmt: skip
    expected = features_of(FRAME)
    for frame in frames:
        own = features_of(frame)
        assert own.names == expected.names
        np.testing.assert_array_equal(own.design, expected.design)
        assert own.to_data()["rows" if "rows" in own.to_data() else "parents"]
    series = features_of(FRAME["price"])
    np.testing.assert_array_equal(series.design, expected.design[:, :3])


def test_arrays_have_one_line_per_row() -> None:
    table = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0], [7.0, 0.0]])
    masked = np.ma.array(np.nan_to_num(table, nan=5.0), mask=np.isnan(table))
    lists: list[list[Any]] = [[1, 2], [3, None], [5, 6], [7, 0]]
    own = features_of(table)
    assert own.names == (CONSTANT, "x0", "x1", "x1 missing")
    np.testing.assert_allclose(own.design[:, 1:3], np.column_stack([standardised(c) for c in table.T]), rtol=1e-14)
    for same in (masked, lists, table.astype(object), tuple(map(tuple, lists)), [table], {"dish": lists}):
        np.testing.assert_array_equal(features_of(same).design, own.design)
    np.testing.assert_array_equal(features_of(table[:, 1]).design, own.design[:, [0, 2, 3]])
    np.testing.assert_array_equal(features_of([2, None, 6, 0]).design, own.design[:, [0, 2, 3]])
    assert features_of([["a", 1], ["b", 2], ["a", 3], [None, 3]]).names == (CONSTANT, "x0=b", "x0 missing", "x1")
    table[:] = 0  # the table has a copy
    assert own.design[0, 1] != 0


def test_whole_numbers_as_labels_are_not_rounded() -> None:
    labels = [2**60, 2**60 + 1]
    own = features_of(pd.DataFrame({"id": labels[::-1], "size": [1, 2]}), labels)
    assert own.design[:, 1].tolist() == [1.0, -1.0]
    assert features_of(pl.DataFrame({"id": labels[::-1], "size": [1, 2]}), labels).design[0, 1] == 1.0


@pytest.mark.parametrize(
    "values", [[7, 7, 7, 7], [1e300, -1e300, 0, 1e300], [1e308, 1.7e308, -1.7e308, 1], [1e15, 1e15 + 1, 1e15, 1e15],
               [5e-324, 0, 0, 0], [1e-300, 2e-300, 3e-300, 4e-300], [0.1] * 4, [None] * 4, [None, 2, 2, 2]],
)  # fmt: skip
def test_extreme_columns_are_scaled_or_zero(values: list[Any]) -> None:
    own = features_of([[value] for value in values])
    assert_consistent(own)
    column, seen = own.design[:, 1], [value for value in values if value is not None]
    if len(set(seen)) < 2 or max(seen) < 1e-320:
        assert (column == 0).all()
    else:
        assert column.mean() == pytest.approx(0, abs=1e-12)
        assert column.std() == pytest.approx(1, abs=1e-12)
    assert ("x0 missing" in own.names) == (0 < len(seen) < 4)


def test_the_most_frequent_category_has_no_indicator() -> None:
    assert features_of([["b"], ["b"], ["a"], ["c"]]).names == (CONSTANT, "x0=a", "x0=c")
    assert features_of([["b"], ["a"], ["c"], ["d"]]).names == (CONSTANT, "x0=b", "x0=c", "x0=d")  # the first of equals
    assert features_of([["a"]] * 4).names == (CONSTANT,)
    numbers = pd.DataFrame({"size": pd.Categorical([1, 2, 2, 3])}, index=DISHES)
    assert features_of(numbers).names == (CONSTANT, "size=1", "size=3")


def test_a_line_of_another_diagram_is_encoded_as_far_as_it_goes() -> None:
    own = features_of(FRAME)
    scale = FRAME.loc[DISHES, "price"]
    line = own.encoded([[{"price": 6, "kind": "vegan", "age": 3}]])[0]
    assert line[1] == pytest.approx((6 - scale.mean()) / scale.std(ddof=0))
    assert line[2:].tolist() == [0.0, 0.0, 1.0, 0.0]  # a new category is missing; columns that are lacking are zero
    assert own.encoded([[{"kind": "thai"}]])[0].tolist() == [1.0, 0, 0, 0, 0, 0]
    assert abs(own.encoded([[{"price": 1e308}]])).max() <= 1e4
    odd: list[Any] = [
        None, 3, "x", [], {}, [None], [[1]], [{"price": "much", "kind": 3, "new": None}], [{"price": 10**400}],
        [{"price": [1]}], [{"price": True}, {"price": 1}], {"price": 1}, [{"price": math.inf, "kind": {"a": 1}}],
    ]  # fmt: skip
    for wrong in odd:
        line = own.encoded([wrong])[0]
        assert line.shape == (6,)
        assert np.isfinite(line).all()
        assert line[0] == 1


# -- several parents, rows, fixed rows --------------------------------------------------------------------------------


def test_features_of_several_parents_are_combined() -> None:
    items = pd.DataFrame({"price": [1.0, 3.0], "kind": ["x", "y"]}, index=["a", "b"])
    ages = [1.0, 2.0, 6.0]
    both = of_grid({"who": ages, "item": items}, products=True)
    price, kind, age = standardised([1, 3]), np.array([0.0, 1.0]), standardised(ages)
    names = ("item.price", "item.kind=y", "who.x0", "item.price × who.x0", "item.kind=y × who.x0")
    assert both.names == (CONSTANT, *names)
    expected = [
        [1, p, k, w, p * w, k * w] for p, k in zip(price, kind, strict=True) for w in age
    ]  # the last parent varies fastest
    np.testing.assert_allclose(both.design, expected, rtol=1e-14, atol=1e-15)
    assert both.line(4) == [{"price": 3.0, "kind": "y"}, {"x0": 2.0}]
    assert_consistent(both)
    plain = of_grid([items, np.array(ages)])
    np.testing.assert_array_equal(plain.design, both.design[:, :4])
    one = of_grid([items, None])
    assert one.names == (CONSTANT, "price", "kind=y")
    np.testing.assert_array_equal(one.design, both.design[:, :3])
    last = of_grid([None, np.array(ages)])
    assert last.line(4) == [{}, {"x0": 2.0}]
    assert both.encoded([last.line(4)])[0].tolist() == pytest.approx([1, 0, 0, age[1], 0, 0])
    for own in (plain, one, last):
        assert_consistent(own)


def test_products_of_three_parents() -> None:
    d = idb.Diagram("cube")
    parents = [d.decision(name, 2) for name in "ABC"]
    d.observed(
        "X", parents, idb.Learned("t", features={name: [0, k + 1] for k, name in enumerate("ABC")}, products=True)
    )
    own = d.learned["t"].features
    assert own is not None
    assert own.names[4:] == ("A.x0 × B.x0", "A.x0 × C.x0", "B.x0 × C.x0", "A.x0 × B.x0 × C.x0")
    np.testing.assert_array_equal(own.design[:, 7], own.design[:, 1:4].prod(axis=1))
    assert_consistent(own)


def test_one_line_per_row_of_several_parents() -> None:
    values = np.arange(12.0).reshape(2, 3, 2) ** 2
    own = of_grid(values)
    np.testing.assert_array_equal(of_grid(values.reshape(6, 2)).design, own.design)
    np.testing.assert_array_equal(of_grid(values.tolist()).design, own.design)
    np.testing.assert_allclose(own.design[:, 1], standardised(values[..., 0].ravel()))
    assert own.line(4) == [{"x0": 64.0, "x1": 81.0}]
    assert_consistent(own)


def test_tables_with_rows_of_their_own() -> None:
    d = idb.Diagram("rows")
    frame = pd.DataFrame({"depth": [30, 10, 20, 0]}, index=[2, 0, 1, 7])
    table = idb.Learned("examination", rows=3, features=frame)
    for row in table:
        d.latent(f"E{row.row}", cpd=row)
    other = idb.Learned("again", rows=3, features=[10, 20, 30])
    d.latent("F", [d.decision("A", 3)], other)
    for name in ("examination", "again"):
        own = d.learned[name].features
        assert own is not None
        np.testing.assert_allclose(own.design[:, 1], standardised([10, 20, 30]))
        assert_consistent(own)


def test_no_parents_and_pooled() -> None:
    d = idb.Diagram("one")
    d.observed("X", cpd=idb.Learned("t", features=[[3.0, 4.0]]))
    d.observed("Y", [d.decision("A", 3)], idb.Learned("u", pooled=True), states=3)
    one, pooled = d.learned["t"].features, d.learned["u"].features
    assert one is not None
    assert pooled is not None
    assert one.design.tolist() == [[1.0, 0.0, 0.0]]
    assert (pooled.names, pooled.design.tolist(), pooled.line(1)) == ((CONSTANT,), [[1.0]] * 3, [])
    assert_consistent(one)
    assert_consistent(pooled)
    assert idb.Diagram("none").learned == {}
    assert diagram(None).learned["taste"].features is None


def test_rows_that_are_fixed_may_lack_features() -> None:
    dishes, fixed = [*DISHES, "(nothing)"], {"(nothing)": 0.0}
    own = features_of(FRAME, dishes, fixed=fixed)
    np.testing.assert_array_equal(own.design[:4], features_of(FRAME).design)
    assert own.design[4].tolist() == [1.0, 0, 0, 0, 0, 0]
    assert own.line(4) == [{}]
    array = features_of([[1], [2], [3], [4]], dishes, fixed=fixed)
    np.testing.assert_allclose(array.design[:, 1], [*standardised([1, 2, 3, 4]), 0])
    whole = features_of([[1], [2], [3], [4], [9]], dishes, fixed=fixed)
    np.testing.assert_allclose(whole.design[:, 1], standardised([1, 2, 3, 4, 9]))
    several = of_grid({"item": pd.DataFrame({"p": [1.0]}, index=["a"])}, fixed={("b", w): 0.0 for w in (10, 20, 30)})
    for features in (own, array, whole, several):
        assert_consistent(features)
    with pytest.raises(TableError, match="no line for 'b'"):
        of_grid({"item": pd.DataFrame({"p": [1.0]}, index=["a"])}, fixed={("b", 10): 0.0})


def test_nodes_that_share_a_table_have_the_same_labels() -> None:
    table = idb.Learned("t", features={"A": pd.DataFrame({"p": [1, 2]}, index=["x", "y"])})
    d = idb.Diagram("shared")
    d.observed("X", [d.decision("A", ["x", "y"])], table)
    d.observed("Y", [d.decision("B", ["x", "y"])], table)
    for labels in (["y", "x"], ["x", "z"], 2):
        other = d.decision(f"C{labels}", labels)
        with pytest.raises(DiagramError, match="its features belong to other rows for nodes that read it before"):
            d.observed("Z", [other], table)
    assert "Z" not in d.nodes


# -- mistakes --------------------------------------------------------------------------------------------------------


def frame(column: Any, labels: Any = DISHES) -> pd.DataFrame:
    return pd.DataFrame({"price": column}, index=labels)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (frame([1, 2, 3, np.inf]), "learned table 'taste': features: column 'price' must be finite, got inf for 'soup'"),
        ([1, 2, 3, 10**400], "learned table 'taste': features: column 'x0' must be finite, got inf for 'soup'"),
        (frame([1, 2, 3], DISHES[:3]), "features: there is no line for 'soup'; labels were searched in the index and in the column 'price'"),
        (frame([1, 2], ["pho", "x"]), "there is no line for 'rice' and 2 more"),
        (frame([1, 2, 3, 4, 5], [*DISHES, "rice"]), "there are two lines for 'rice'"),
        (frame(pd.date_range("2024-01-01", periods=4)), r"features: column 'price': features must be numbers, texts or bools, got values of type datetime64\[us\]"),
        (frame([datetime.date(2024, 1, 1)] * 4), r"features: column 'price': features must be numbers, texts or bools, got datetime.date\(2024, 1, 1\) for 'pho'"),
        (frame(pd.date_range("2024-01-01", periods=4, tz="UTC")), r"features: column 'price': features must be numbers, texts or bools, got values of type datetime64\[us\]"),
        (frame(pd.to_timedelta([1, 2, 3, 4])), r"features: column 'price': features must be numbers, texts or bools, got values of type timedelta64\[ns\]"),
        (frame([1j, 2, 3, 4]), "features: column 'price': features must be numbers, texts or bools, got values of type complex128"),
        (frame([[1], [2], 3, 4]), r"learned table 'taste': features: column 'price': features must be numbers, texts or bools, got \[1\] for 'pho'"),
        ([b"a", "b", "c", "d"], "learned table 'taste': features: column 'x0': features must be numbers, texts or bools, got b'a' for 'pho'"),
        (frame(["cheap", 2, 3, 4]), "features: column 'price' must have texts or numbers, got both: 'cheap' and 2.0, for 'rice'"),
        (pd.DataFrame([[1, 2]] * 4, index=DISHES, columns=["p", "p"]), "learned table 'taste': features must have different columns, got two columns named 'p'"),
        (pd.DataFrame([[1, 2]] * 4, index=DISHES, columns=[1, "1"]), "learned table 'taste': features must have different columns, got two columns named '1'"),
        (pd.DataFrame(index=DISHES), "learned table 'taste': features must have columns; pooled=True is the constant alone"),
        (pd.DataFrame({"dish": DISHES}), "learned table 'taste': features: there must be columns beside the labels; pooled=True is the constant alone"),
        (pl.DataFrame(), "learned table 'taste': features must have columns; pooled=True is the constant alone"),
        ([[1], [2]], "learned table 'taste': features: 4 lines are needed, one per row; got 2"),
        (np.zeros((2, 2, 3)), r"learned table 'taste': features: 4 lines are needed, one per row; got the shape \(2, 2\)"),
        (np.zeros((4, 0)), "learned table 'taste': features: there must be columns beside the labels; pooled=True is the constant alone"),
        ([[1], [2, 3], [4], [5]], r"features must be a data frame, or an array with one line per row, got \[\[1\], \[2, 3\], \[4\], \[5\]\] \(ValueError\('setting an array elem"),
        (3, "learned table 'taste': features must be a data frame, or an array with one line per row, got 3"),
        ("price", "learned table 'taste': features must be a data frame, or an array with one line per row, got 'price'"),
        (object(), "learned table 'taste': features must be a data frame, or an array with one line per row, got "),
        ({"drink": FRAME}, r"learned table 'taste': features must be those of its parents \('dish'\), got 'drink'"),
        ({}, "learned table 'taste': features must not be empty; pooled=True is the constant alone"),
        ({"dish": {"price": [1, 2, 3, 4]}}, r"features of 'dish' must be a data frame, or an array with one line per row, got \{'price': \[1, 2, 3, 4\]\}"),
        ([FRAME, FRAME], r"learned table 'taste': features must be those of its parents \('dish'\), got features of 2"),
    ],
)  # fmt: skip
def test_mistakes_are_named(features: Any, message: str) -> None:
    with pytest.raises(DiagramError, match=message):
        diagram(features)


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({"a": [1, None, 2, 3], "a missing": [1, 2, 3, 4]}, "'a missing'"),
        ({"a missing": ["x", "x", "y", "y"], "a": ["x", "x", None, "y"], "a missing=y": [1, 2, 3, 4]}, "'a missing=y'"),
        ({"a": ["x", "x", "y", "x"], "a=y": [1, 2, 3, 4]}, "'a=y'"),
        ({"(constant)": [1, 2, 3, 4]}, r"'\(constant\)'"),
    ],
)  # fmt: skip
def test_columns_of_a_design_have_different_names(columns: dict[str, list[Any]], name: str) -> None:
    with pytest.raises(
        DiagramError, match=f"'taste': its features must become columns with different names, got {name}"
    ):
        diagram(pd.DataFrame(columns, index=DISHES))


def test_categories_that_are_integers_stay_integers_where_some_are_missing() -> None:
    sizes = pd.DataFrame({"dish": DISHES, "size": pd.Categorical([1, 2, None, 3])})
    for frame in (sizes, sizes.set_index("dish"), pa.Table.from_pandas(sizes), pa.RecordBatch.from_pandas(sizes)):
        own = features_of(frame)
        assert own.names == (CONSTANT, "size=2", "size=3", "size missing")
        assert own.design[:, 1:].tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]
    texts = sizes.assign(size=pd.Categorical(["s", "m", None, "s"]), price=[1, None, 2, 3])
    own = features_of(pa.Table.from_pandas(texts))
    assert own.names == (CONSTANT, "size=m", "size missing", "price", "price missing")
    np.testing.assert_array_equal(own.design, features_of(texts).design)


def test_labels_that_are_in_the_index_and_in_a_column() -> None:
    ids = pd.DataFrame({"id": [2, 0, 1], "size": [1.0, 2.0, 3.0]})
    with pytest.raises(TableError, match="the index and the column 'id' both have the labels of 'dish', in different"):
        features_of(ids, 3)
    assert features_of(ids.set_index("id"), 3).names == (CONSTANT, "size")
    assert features_of(ids.rename_axis("dish"), 3).names == (CONSTANT, "id", "size")
    assert features_of(ids.assign(id=[5, 6, 7]), 3).names == (CONSTANT, "id", "size")
    assert features_of(ids.assign(id=[5, 6, 7]), [7, 6, 5]).design[:, 1].tolist() == standardised([3, 2, 1]).tolist()


def test_settings_that_do_not_go_together() -> None:
    with pytest.raises(
        DiagramError,
        match="learned table 'taste': features must be None if pooled, which is a regression with a constant alone",
    ):
        idb.Learned("taste", features=FRAME, pooled=True)
    with pytest.raises(DiagramError, match="products must be True or False, got 'yes'"):
        idb.Learned("taste", features=FRAME, products="yes")  # type: ignore[arg-type]
    with pytest.raises(DiagramError, match="learned table 'taste': products need features of several parents, got 1"):
        diagram(FRAME, products=True)
    with pytest.raises(DiagramError, match="products need features of several parents"):
        diagram(None, products=True, pooled=True)
    with pytest.raises(TableError, match="it has 2 parents, and a data frame has the features of one parent"):
        grid(FRAME)
    with pytest.raises(TableError, match="features must have one line per row, because it has rows="):
        idb.Diagram("rows").observed("X", cpd=idb.Learned("t", rows=2, features={"A": [1, 2]})[0])
    with pytest.raises(PriorError, match=r"all rows must have the same prior, .* of shape \(4, 2\)"):
        diagram(FRAME, prior=[[1, 1], [1, 2], [1, 1], [1, 1]])
    with pytest.raises(PriorError, match="all rows must have the same prior"):
        diagram(None, prior=[[1], [2], [1], [1]], pooled=True)
    assert diagram(FRAME, prior=[[1, 3]] * 4).learned["taste"].features is not None


def test_sizes_are_bounded() -> None:
    names = [f"dish {k}" for k in range(400)]
    with pytest.raises(
        TableError,
        match="learned table 'taste': its features must have at most 200 columns, got 400; column 'name' has 400 categories",
    ):
        features_of(pd.DataFrame({"name": names, "size": range(400)}, index=names), names)
    with pytest.raises(TableError, match=r"learned table 'taste': its features must have at most 200 columns, got 201"):
        features_of(np.zeros((4, MOST_COLUMNS + 1)))
    assert len(features_of(np.eye(4, MOST_COLUMNS)).names) == MOST_COLUMNS + 1
    d = idb.Diagram("large")
    parents = [d.decision("A", 5000), d.decision("B", 5000)]
    with pytest.raises(TableError, match="at most 50,000,000 numbers, got 25,000,000 rows in 3 columns"):
        d.observed("X", parents, idb.Learned("t", features=[np.zeros((5000, 2)), None]))
    d.observed("X", parents, idb.Learned("t", pooled=True))
    assert "design" not in vars(d.learned["t"].features)  # it is computed when it is needed
    assert "t" in d.learned


# -- saved ------------------------------------------------------------------------------------------------------------


def saved() -> list[idb.Diagram]:
    dishes = [*DISHES, "(nothing)"]
    return [
        diagram(FRAME), diagram(FRAME, dishes, fixed={"(nothing)": 0.0}), diagram(None, pooled=True),
        diagram([[1], [2], [3], [4]], dishes, fixed={"(nothing)": 0.0}), diagram({"dish": FRAME}),
        grid({"item": pd.DataFrame({"p": [0.1, 1 / 3], "k": ["ü", ""]}, index=["a", "b"])}),
        grid([np.array([[1.0], [np.pi]]), pd.DataFrame({"who": [30, 20, 10], "age": [1, None, 3]})], products=True),
        grid(np.arange(12.0).reshape(2, 3, 2)),
    ]  # fmt: skip


def test_files_copies_and_pickles_have_the_same_design(tmp_path: Any) -> None:
    for d in saved():
        assert all(table.features is not None and len(table.features.design) for table in d.learned.values())
        d.save(tmp_path / "d.json")
        others = [
            idb.Diagram.load(tmp_path / "d.json"), idb.Diagram.from_dict(d.to_dict()), d.copy(), d.revealed(),
            pickle.loads(pickle.dumps(d)),
        ]  # fmt: skip
        for other in others:
            assert repr(other.to_dict()["learned"]) == repr(d.to_dict()["learned"])
            for name, table in d.learned.items():
                own, again = table.features, other.learned[name].features
                assert own is not None
                assert again is not None
                assert again.names == own.names
                np.testing.assert_array_equal(again.design, own.design, strict=True)
                assert_consistent(again)
        assert differences(d, others[0]) == []


def test_extra_lines_are_not_saved() -> None:
    assert "closed" not in json.dumps(diagram(FRAME).to_dict())


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({}, "learned[0].features"),
        ({"rows": None}, "learned[0].features"),
        ({"rows": {"columns": []}}, "learned[0].features"),
        ({"rows": {"columns": [{"name": "p"}]}}, "learned[0].features"),
        ({"rows": {"columns": [{"name": "p", "values": [1, 2, 3, [4]]}]}}, "learned[0].features"),
        ({"rows": {"columns": [{"name": "p", "values": [1, 2]}]}}, "4 lines are needed"),
        ({"rows": {"columns": [{"name": "p", "values": [1, 2, 3, "x"]}]}}, "must have texts or numbers, got both"),
        ({"rows": {"columns": [{"name": "p", "values": [1] * 4}, {"name": "q", "values": [1]}]}}, "equal lengths, got [1, 4]"),
        ({"rows": {"columns": [{"name": "p", "values": [1] * 4}] * 2}}, "two columns named 'p'"),
        ({"rows": {"columns": [{"name": "p", "values": [1] * 4}], "labels": [*DISHES[:3], "x"]}}, "no line for 'soup'"),
        ({"rows": {"columns": [{"name": "p", "values": [1] * 4}], "labels": [*DISHES[:3], "pho"]}}, "no line for 'soup'"),
        ({"parents": []}, "got features of 0"),
        ({"parents": [None]}, "features must not be empty"),
        ({"parents": [{"columns": [{"name": "p", "values": [1] * 4}]}], "rows": {}}, "learned[0].features"),
    ],
)  # fmt: skip
def test_broken_files_are_rejected(features: Any, message: str) -> None:
    data = diagram(FRAME).to_dict()
    data["learned"][0]["features"] = features
    with pytest.raises(FormatError) as error:
        idb.Diagram.from_dict(data)
    assert message in str(error.value)
    assert "learned[0]" in str(error.value) or "nodes[1]" in str(error.value)


def test_wrong_values_anywhere_are_rejected_or_harmless() -> None:
    refusals = 0
    for d in (diagram(FRAME, [*DISHES, "(nothing)"], fixed={"(nothing)": 0.0}), saved()[6]):
        data = d.to_dict()
        for path in places_in(data["learned"]):
            for value in WRONG_JSON.values():
                try:
                    changed_diagram = idb.Diagram.from_dict(changed(data, ("learned", *path), value))
                except IdbanditsError:
                    refusals += 1
                else:
                    for table in changed_diagram.learned.values():
                        assert table.features is None or np.isfinite(table.features.design).all()
    assert refusals > 300


def test_long_columns_are_checked_beyond_what_the_schema_sees() -> None:
    items = [f"i{k}" for k in range(300)]
    data = diagram(np.arange(300.0), items).to_dict()
    for wrong in ([1], {}, [[]], 10**400):
        data["learned"][0]["features"]["rows"]["columns"][0]["values"][200] = wrong
        with pytest.raises(FormatError):
            idb.Diagram.from_dict(data)


def test_differences_know_features() -> None:
    d = diagram(FRAME)
    for other in (diagram(None), diagram(FRAME[["price"]]), diagram(FRAME.assign(price=[3, 5, None, 6, 0]))):
        (change,) = differences(d, other)
        assert change.startswith("learned table 'taste': features is ")
        assert (change.split(": features is ")[1].startswith("None, was {'rows'")) == (
            other.learned["taste"].features is None
        )
    assert differences(d, diagram(FRAME[::-1])) == []


def test_pictures_and_checks_tell_of_features() -> None:
    assert "taste (3 features)" in diagram(FRAME).draw().mermaid()
    assert "taste (pooled)" in diagram(None, pooled=True).draw().mermaid()
    assert "taste: 3 features in 5 columns" in repr(diagram(FRAME).check())


# -- models ------------------------------------------------------------------------------------------------------------


def test_models_take_features_by_table() -> None:
    d = idb.models.position_based(DISHES, 2, empty=True, features={"attraction": FRAME}, pooled=["examination"])
    own, pooled = (d.learned[name].features for name in ("attraction", "examination"))
    assert own is not None
    assert pooled is not None
    np.testing.assert_array_equal(own.design[:4], features_of(FRAME).design)
    assert pooled.names == (CONSTANT,)
    saturated = idb.models.saturated(DISHES, 2, empty=True, features={"attraction": [FRAME, None]})
    assert saturated.learned["attraction"].features is not None
    names = "cascade cascade_inverted semi_bandit dependent_click dynamic_bayesian click_chain user_browsing"
    for name in names.split():
        table = "mean" if name == "semi_bandit" else "attraction"
        made = getattr(idb.models, name)(DISHES, 2, features={table: FRAME}).learned[table].features
        np.testing.assert_array_equal(made.design, features_of(FRAME).design)
    assert idb.models.rank1(2, 3, features={"row": [1, 2]}, pooled=["column"]).learned["column"].features is not None


def test_models_refuse_features_of_other_tables() -> None:
    with pytest.raises(
        DiagramError, match=r"model 'cascade': features must name learned tables \(attraction\), got 'appeal'"
    ):
        idb.models.cascade(DISHES, 2, features={"appeal": FRAME})
    with pytest.raises(DiagramError, match=r"pooled must name learned tables .*, got 'appeal'"):
        idb.models.cascade(DISHES, 2, pooled=["appeal"])
    for wrong in ("attraction", 3):
        with pytest.raises(DiagramError, match="pooled must be a list of names of tables, got"):
            idb.models.cascade(DISHES, 2, pooled=wrong)  # type: ignore[arg-type]


# -- the prior of a regression ------------------------------------------------------------------------------------------


def test_the_hyperprior_is_centred_at_the_declared_prior() -> None:
    table = diagram(FRAME, prior=[6, 2]).learned["taste"]
    assert table.features is not None
    hyper = table.features.hyperprior(table.prior, table.states, 10)
    assert hyper.intercepts == pytest.approx([math.log(2 / 6)])
    assert hyper.log_strength == pytest.approx(math.log(80))
    assert (hyper.intercept_sd, hyper.log_strength_sd) == (INTERCEPT_SD, LOG_STRENGTH_SD)
    assert hyper.slope_sd == pytest.approx(SLOPES_SD / 3)


def test_means_are_drawn_from_the_regression() -> None:
    n, rng = 2000, np.random.default_rng(5)
    x = rng.normal(size=n)
    d = idb.Diagram("draws")
    item = d.decision("item", n)
    d.observed("X", [item], idb.Learned("two", features=x, prior=[1e9, 1e9], fixed={3: 0.25}))
    d.observed("Y", [item], idb.Learned("three", features=x, prior=[3e9, 2e9, 1e9]), states=3)
    z, slopes, levels = standardised(x), [], []
    keep = np.arange(n) != 3
    for seed in range(150):
        means = prior_means(d.learned, np.random.default_rng(seed))
        assert means["two"].shape == (n,)
        assert means["two"][3] == 0.25
        assert means["three"].shape == (n, 3)
        np.testing.assert_allclose(means["three"].sum(axis=1), 1.0)
        two = np.clip(means["two"][keep], 1e-12, 1 - 1e-12)  # the strength is huge, so these are the regression itself
        three = np.clip(means["three"], 1e-12, None)
        logits = [(np.log(two / (1 - two)), z[keep]), *((np.log(three[:, k] / three[:, 0]), z) for k in (1, 2))]
        for logit, line in logits:
            middle = abs(logit) < 5  # where a million pseudo-counts leave little noise
            if middle.sum() > 100:
                slope, level = np.polyfit(line[middle], logit[middle], 1)
                slopes.append(slope)
                levels.append(level)
    assert np.std(slopes) == pytest.approx(SLOPES_SD, rel=0.15)
    assert np.mean(slopes) == pytest.approx(0, abs=0.2)
    assert 2.0 < np.std(levels) < 3.5  # levels far out were left out


def test_strengths_are_drawn_and_cut() -> None:
    own = features_of(None, 500, pooled=True)
    for total, least, most in ((1e-6, 0.1, 0.1), (20.0, 1.0, 400.0), (1e12, 1e6, 1e6)):
        prior = np.full((500, 2), total / 2)
        strengths = [own.drawn_prior(prior, 2, np.random.default_rng(seed)).sum(axis=1) for seed in range(200)]
        middle = np.median(np.stack(strengths)[:, 0])
        assert least <= middle * (1 + 1e-6)
        assert middle <= most * (1 + 1e-6)
        assert all(np.ptp(rows) <= 1e-6 * rows.max() for rows in strengths)
    rngs = map(np.random.default_rng, range(400))
    totals = [own.drawn_prior(np.full((500, 2), 10.0), 2, rng)[0].sum() for rng in rngs]
    assert np.std(np.log(totals)) == pytest.approx(LOG_STRENGTH_SD, rel=0.15)


def test_tables_without_features_are_drawn_as_before() -> None:
    d = idb.models.semi_bandit(3, 1)
    expected = np.random.default_rng(0).beta(np.ones(3), np.ones(3))
    np.testing.assert_array_equal(prior_means(d.learned, np.random.default_rng(0))["mean"], expected)


def test_no_design_is_too_wild_to_draw_from() -> None:
    wild = features_of(np.random.default_rng(0).normal(size=(4, 200)) ** 5)
    for states in (2, 3, 50):
        for seed in range(20):
            counts = wild.drawn_prior(
                np.full((4, states), 1e15 if seed % 2 else 1e-9), states, np.random.default_rng(seed)
            )
            assert ((counts > 0) & np.isfinite(counts)).all()


# -- frames of all sorts -------------------------------------------------------------------------------------------------

NUMBER = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**6), 10**6))
TEXT = st.one_of(st.none(), st.sampled_from(["a", "b", "c", ""]), st.text(max_size=3))
BOOL = st.one_of(st.none(), st.booleans())


@st.composite
def columns(draw: st.DrawFn) -> dict[str, list[Any]]:
    size = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from([NUMBER, TEXT, BOOL]), min_size=1, max_size=4))
    return {f"c{k}": draw(st.lists(kind, min_size=size, max_size=size)) for k, kind in enumerate(kinds)}


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(columns(), st.randoms(use_true_random=False))
def test_any_frame(values: dict[str, list[Any]], random: Any) -> None:
    size = len(values["c0"])
    labels = [f"label {k}" for k in range(size)]
    whole = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in values.items()})
    whole.index = pd.Index(labels)
    d = diagram(whole, labels)
    own = d.learned["taste"].features
    assert own is not None
    assert_consistent(own)
    order = list(range(size))
    random.shuffle(order)
    floats = {
        name: [float(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in column]
        for name, column in values.items()
    }
    polars = pl.DataFrame({"label": labels, **floats}, strict=False)[order]
    again = idb.Diagram.from_dict(json.loads(json.dumps(d.to_dict()))).learned["taste"].features
    for other in (features_of(whole.iloc[order], labels), features_of(polars, labels), again):
        assert other is not None
        assert other.names == own.names
        np.testing.assert_array_equal(other.design, own.design, strict=True)
    place = 1
    for name, column in values.items():
        seen = [value for value in column if value is not None]
        missing = np.array([value is None for value in column])
        if any(isinstance(value, str) for value in seen):
            most = max(seen.count(text) for text in set(seen))
            usual = min(text for text in set(seen) if seen.count(text) == most)
            for text in sorted({*seen} - {usual}):
                assert own.names[place] == f"{name}={text}"
                assert own.design[:, place].tolist() == [float(value == text) for value in column]
                place += 1
        else:
            assert own.names[place] == name
            with np.errstate(over="ignore", invalid="ignore"):
                expected = standardised(column)
            spread = max(map(abs, seen), default=0)
            if 1e-100 < spread < 1e100 and len(set(seen)) > 1 and np.ptp(np.array(seen, float)) > 1e-6 * spread:
                np.testing.assert_allclose(own.design[:, place], expected, rtol=1e-6, atol=1e-6)
            place += 1
        if missing.any() and seen:
            assert own.names[place] == f"{name} missing"
            assert own.design[:, place].tolist() == missing.astype(float).tolist()
            place += 1
    assert place == len(own.names)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["price", "kind", "new", "x"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(JSON)
def test_any_plain_data_is_encoded(line: Any) -> None:
    for own in (features_of(FRAME), of_grid([np.array([[1.0], [2.0]]), np.array([1.0, 2.0, 4.0])], products=True)):
        encoded = own.encoded([line])[0]
        assert encoded.shape == (len(own.names),)
        assert np.isfinite(encoded).all()
