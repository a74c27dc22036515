"""Rows of learned tables are called by the labels of the nodes that pick them."""

import pytest

import idbandits as idb
from idbandits.diagram.labels import row_labels


def test_axes_are_the_parents_that_all_readers_share() -> None:
    d = idb.Diagram("shop")
    user, item = d.context("user", ["new", "old"]), d.decision("item", ["tea", "milk", "rice"])
    d.reward(d.observed("click", [user, item], idb.Learned("taste")))
    assert row_labels(d, "taste") == (("user", "item"), (("new", "old"), ("tea", "milk", "rice")))
    assert row_labels(idb.compile(d), "taste") == row_labels(d, "taste")


@pytest.mark.parametrize(("second", "labels"), [(["x", "y"], ("x", "y")), (["y", "x"], range(2))])
def test_readers_with_other_parents_share_labels_or_numbers(second: list[str], labels: object) -> None:
    d, table = idb.Diagram("two"), idb.Learned("taste")
    for k, values in enumerate([["x", "y"], second]):
        d.reward(d.observed(f"C{k}", [d.decision(f"A{k}", values)], table))
    assert row_labels(d, "taste") == (("row",), (labels,))


def test_several_axes_of_different_readers_are_numbered() -> None:
    d, table = idb.Diagram("two"), idb.Learned("taste")
    user = d.context("user", ["new", "old"])
    for k in range(2):
        d.reward(d.observed(f"C{k}", [user, d.decision(f"A{k}", 3)], table))
    assert row_labels(d, "taste") == (("row 1", "row 2"), (("new", "old"), range(3)))


def test_declared_rows_are_numbers_and_a_table_without_parents_has_no_axes() -> None:
    d, table = idb.Diagram("rows"), idb.Learned("examination", rows=3)
    d.latent("E", [d.decision("A", ["x", "y"])], table.select(lambda label: 2 if label == "x" else 0))
    d.observed("C", [], idb.Learned("base"))
    assert row_labels(d, "examination") == (("row",), (range(3),))
    assert row_labels(d, "base") == ((), ())
