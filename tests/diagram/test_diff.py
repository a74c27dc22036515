"""Differences between two diagrams are described."""

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
    """Two slots that share a table, a latent mood and a context; `changes` are other declarations."""
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
    "item added": ({"items": ["tea", "milk", "rice", "salt"]}, ["decision 'A0': 'salt' added", "decision 'A1': 'salt' added"]),
    "item removed": ({"items": ["tea", "milk"]}, ["decision 'A0': 'rice' removed"]),
    "other items": ({"items": list("abcde")}, ["decision 'A0': 'a', 'b', 'c' and 2 more added, 'tea', 'milk', 'rice' removed"]),
    "another order": ({"items": ["milk", "tea", "rice"]}, ["decision 'A0': states is ['milk', 'tea', 'rice'], was ['tea', 'milk', 'rice']"]),
    "numbers of another type": ({"users": [0.0, 1.0]}, ["context 'user': 0.0, 1.0 added, 'new', 'old' removed"]),
    "the prior": ({"prior": 2.0}, ["learned table 'taste': prior is 2.0, was 1.0"]),
    "rows": ({"rows": 4}, ["learned table 'place': rows is 4, was 3"]),
    "a row": ({"row": 2}, ["latent 'E0': select is 2, was 0", "latent 'E1': select is 2, was 1"]),
    "a known table": ({"mood": 0.5}, ["latent 'mood': known is [0.5, 0.5], was [0.25, 0.25]"]),
    "known, not learned": ({"mood": None}, ["latent 'mood': known is None, was [0.25, 0.25]", "latent 'mood': learned is 'mood', was None", "learned table 'mood' added"]),
    "node added": ({"extra": True}, ["observed 'extra' added"]),
    "another context": ({"context": "guest"}, ["context 'user' removed", "context 'guest' added", "latent 'mood': parents is ['guest'], was ['user']"]),
    "the parents": ({"turned": True}, ["observed 'C0': parents is ['A0', 'E0', 'mood'], was ['A0', 'mood', 'E0']"]),
    "the reward": ({"worth": 2}, ["diagram: rewards is [{'nodes': ['C0'], 'table': [0.0, 2.0]}, {'nodes': ['C1']…, was [{'nodes': ['C0'], 'table': [0.0, 1.0]}, {'nodes': ['C1']…"]),
    "the constraint": ({"different": False}, ["diagram: all_different is [], was ['all']"]),
    "the name": ({"name": "stall"}, ["diagram: name is 'stall', was 'shop'"]),
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
        FormatError,
        match=r"the agent in it learned in another diagram, 'cascade'; in `diagram`, decision 'A1': 'd' added; decision 'A2': 'd' added",
    ):
        idb.Thompson.load(path, diagram=models.cascade(["a", "b", "c", "d"], 2))
    same = models.cascade(["a", "b", "c"], 2)
    assert idb.Thompson.load(path, diagram=same).rounds == 0
