"""Data from strangers: whatever is in it, `from_dict` makes a diagram of it or says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import idbandits as idb
from crafted_files import WRONG_JSON, changed, places_in
from diagrams import in_context
from error_checks import assert_raises
from idbandits.errors import ActionError, FormatError, IdbanditsError

WRONG: dict[str, Any] = WRONG_JSON | {
    "10**400": 10**400, "of many digits": -(10**5000), "an array": np.arange(3), "an object": object(), "bytes": b"1",
}  # fmt: skip


def test_wrong_values_anywhere_are_rejected_or_harmless() -> None:
    data = in_context().to_dict()
    refusals = 0
    for number, path in enumerate(places_in(data)):
        for value in list(WRONG.values())[number % 2 :: 2]:
            try:
                idb.Diagram.from_dict(changed(data, path, value))
            except IdbanditsError:
                refusals += 1
    assert refusals > 300


def node(name: str, states: Any, *parents: str, **more: Any) -> dict[str, Any]:
    kind = "observed" if more else "decision"
    return {"name": name, "kind": kind, "states": states} | ({"parents": list(parents)} | more if more else {})


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("A", 10**15), node("B", ["a", "b"])], ("nodes[0]", "'A'", "50,000,000", "1000000000000000")),
        ([node("A", 5000), node("B", 5000), node("X", 2, "A", "B", known=0.5)], ("nodes[2]", "'X'", "10,000,000")),
        (
            [node("A", 2000), node("B", 2000), *(node(f"X{k}", 2, "A", "B", known=0.5) for k in range(4))],
            ("nodes[4]", "'X2'", "10,000,000"),
        ),
    ],
    ids=["choices", "one number", "several numbers"],
)
def test_a_few_words_do_not_make_a_large_diagram(nodes: list[dict[str, Any]], words: tuple[str, ...]) -> None:
    data = idb.Diagram().to_dict() | {"nodes": nodes, "all_different": ["all"]}
    assert_raises(FormatError, words, lambda: idb.Diagram.from_dict(data))


def test_millions_of_choices_are_told_apart_at_once() -> None:
    d = idb.Diagram("many")
    for name in "ABC":
        d.decision(name, 10_000_000)
    d.all_different()
    d.reward(d.observed("X", [d.decision("coin", 2)]))
    agent = idb.Thompson(d, "moments", seed=1)
    action = agent.act()
    agent.update_many({name: [value] for name, value in action.items()}, {"X": [1]})
    words = ("'A' and 'B'", "round 0", "all_different")
    same = {name: [action["A"]] for name in "ABC"} | {"coin": [0]}
    assert_raises(ActionError, words, lambda: agent.update_many(same, {"X": [1]}))
    assert agent.rounds == 1
