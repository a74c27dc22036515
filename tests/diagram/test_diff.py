"""What differs between two diagrams is said in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import idbandits as idb
from idbandits import models
from idbandits.diagram.diff import differences
from idbandits.errors import FormatError


def shop(**changes: Any) -> idb.Diagram:
    """Two slots that share a table, a latent mood and a context; `changes` name what is declared in another way."""
    has: Callable[[str, Any], Any] = changes.get
    d = idb.Diagram(has("name", "shop"))
    taste, place = idb.Learned("taste", prior=has("prior", 1.0)), idb.Learned("place", rows=has("rows", 3))
    user = d.context(has("context", "user"), has("users", ["new", "old"]))
    mood = d.latent("mood", [user], has("mood", 0.25))
    for k in range(2):
        item = d.decision(f"A{k}", has("items", ["tea", "milk", "rice"]))
        seen = d.latent(f"E{k}", [], place[has("row", k)])
        d.observed(f"C{k}", [item, mood, seen] if not has("turned", False) else [item, seen, mood], taste)
        d.reward(f"C{k}", [0, has("worth", 1)])
    if has("extra", False):
        d.observed("extra", [mood], 0.5)
    if has("different", True):
        d.all_different()
    return d


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an item more": ({"items": ["tea", "milk", "rice", "salt"]}, ["decision 'A0': 'salt' was added", "decision 'A1': 'salt' was added", "learned table 'taste' has the shape (4, 2, 2, 2), not (3, 2, 2, 2)"]),
    "an item less": ({"items": ["tea", "milk"]}, ["decision 'A0': 'rice' is gone"]),
    "other items": ({"items": list("abcde")}, ["decision 'A0': 'a', 'b', 'c' and 2 more were added, 'tea', 'milk', 'rice' are gone"]),
    "another order": ({"items": ["milk", "tea", "rice"]}, ["decision 'A0': its values have another order or type"]),
    "numbers of another type": ({"users": [0.0, 1.0]}, ["context 'user': 0.0, 1.0 were added, 'new', 'old' are gone"]),
    "the prior": ({"prior": 2.0}, ["learned table 'taste' has another prior"]),
    "rows": ({"rows": 4}, ["learned table 'place' has the shape (4, 2), not (3, 2)"]),
    "a row": ({"row": 2}, ["latent 'E0' has another table, 'place'", "latent 'E1' has another table, 'place'"]),
    "a known table": ({"mood": 0.5}, ["latent 'mood' has another table"]),
    "known, not learned": ({"mood": None}, ["latent 'mood' has another table, 'mood'", "learned table 'mood' was added"]),
    "a node more": ({"extra": True}, ["observed 'extra' was added"]),
    "another context": ({"context": "guest"}, ["context 'user' is gone", "context 'guest' was added", "latent 'mood' depends on 'guest', not on 'user'"]),
    "the parents": ({"turned": True}, ["observed 'C0' depends on 'A0', 'E0', 'mood', not on 'A0', 'mood', 'E0'"]),
    "the reward": ({"worth": 2}, ["the reward of 'C0' is another"]),
    "the constraint": ({"different": False}, ["all_different holds for other decisions, or with other exceptions"]),
    "the name": ({"name": "stall"}, ["its name is 'stall', not 'shop'"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_differences_are_named(case: str) -> None:
    changes, first = CASES[case]
    assert differences(shop(), shop(**changes))[: len(first)] == first
    assert differences(shop(**changes), shop())


def test_equal_diagrams_do_not_differ() -> None:
    d = shop()
    assert differences(d, shop()) == differences(d, idb.Diagram.from_dict(d.to_dict())) == []


def test_load_says_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "agent.npz"
    idb.Thompson(models.cascade(["a", "b", "c"], 2), "exact").save(path)
    with pytest.raises(
        FormatError, match=r"another diagram.*decision 'A1': 'd' was added; decision 'A2'.*'attraction'"
    ):
        idb.Thompson.load(path, diagram=models.cascade(["a", "b", "c", "d"], 2))
    same = models.cascade(["a", "b", "c"], 2)
    assert idb.Thompson.load(path, diagram=same).rounds == 0
