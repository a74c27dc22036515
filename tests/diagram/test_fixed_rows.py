"""Rows of learned tables that are known."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits.errors import DiagramError, FormatError, ImpossibleObservationError, MeansError, TableError

ITEMS = ["news", "sports", "(nothing)"]


def two_slots(**fixed: Any) -> idb.Diagram:
    """A position-based model in which tables are fixed by name."""
    d = idb.Diagram("slots")
    attraction = idb.Learned("attraction", fixed=fixed.get("attraction"))
    examination = idb.Learned("examination", rows=2, fixed=fixed.get("examination"))
    for k in range(2):
        attracted = d.latent(f"W{k}", [d.decision(f"A{k}", ITEMS)], attraction)
        examined = d.latent(f"E{k}", cpd=examination[k])
        d.reward(d.observed(f"C{k}", [attracted, examined], lambda w, e: w * e))
    return d


FIXED = {"attraction": {"(nothing)": 0.0}, "examination": {0: 0.9}}


def test_rows_are_found_by_label_and_by_number() -> None:
    d = two_slots(**FIXED)
    assert {name: dict(t.fixed) for name, t in d.learned.items()}.keys() == {"attraction", "examination"}
    assert d.learned["attraction"].fixed[2].tolist() == [1.0, 0.0]
    assert d.learned["examination"].fixed[0] == pytest.approx([0.1, 0.9])


def test_rows_of_several_parents_and_states() -> None:
    d = idb.Diagram("grid")
    item, who = d.decision("item", ["a", "b"]), d.context("who", ["new", "old"])
    table = idb.Learned("mood", fixed={("b", "new"): [0.2, 0.3, 0.5]})
    d.reward(d.observed("X", [item, who], table, states=3))
    agent = idb.Thompson(d, seed=0)
    assert agent.posterior()["mood"].mean[1, 0].tolist() == [0.2, 0.3, 0.5]
    assert agent.sample()["mood"][1, 0].tolist() == [0.2, 0.3, 0.5]
    assert agent.draws(3)["mood"][:, 1, 0].tolist() == [[0.2, 0.3, 0.5]] * 3
    agent.update({"item": "b"}, {"X": 1}, {"who": "new"})
    assert agent.posterior()["mood"].mean[1, 0].tolist() == [0.2, 0.3, 0.5]


def test_what_is_fixed_is_not_learned_and_has_no_deviation() -> None:
    d = two_slots(**FIXED)
    agent = idb.Thompson(d, seed=0)
    for _ in range(20):
        agent.update({"A0": "news", "A1": "(nothing)"}, {"C0": 1, "C1": 0})
    belief = agent.posterior()
    assert belief["attraction"].mean[2] == belief["attraction"].sd[2] == 0.0
    assert belief["attraction"].quantile(0.95)[2] == 0.0
    assert belief["attraction"].alpha[2].tolist() == [np.inf, 0.0]
    assert belief["examination"].mean[0] == pytest.approx(0.9)
    assert belief["attraction"].alpha[0].tolist() == [1.0, 21.0]  # a click means that the item was attractive
    with pytest.raises(ImpossibleObservationError):
        agent.update({"A0": "news", "A1": "(nothing)"}, {"C0": 1, "C1": 1})


def test_with_an_anchor_nothing_is_known_only_up_to_a_factor() -> None:
    kinds = {finding.kind for finding in two_slots().check()}
    assert "factor" in kinds
    assert {finding.kind for finding in two_slots(**FIXED).check()} <= {"size", "search"}
    for fixed in ({0: 1.0}, {1: 0.4}):
        report = idb.models.position_based(200, 4, fixed={"examination": fixed}).check()
        assert {finding.kind for finding in report} <= {"size", "search"}


def test_exact_is_accepted_where_fixed_rows_leave_nothing_in_doubt() -> None:
    with pytest.raises(DiagramError):
        idb.Thompson(two_slots(examination={0: 1.0}), inference="exact")
    agent = idb.Thompson(two_slots(examination={0: 1.0, 1: 1.0}), inference="exact")
    agent.update({"A0": "news", "A1": "sports"}, {"C0": 0, "C1": 1})
    assert agent.posterior()["attraction"].alpha.tolist() == [[2.0, 1.0], [1.0, 2.0], [1.0, 1.0]]


def test_files_and_copies_know_what_is_fixed(tmp_path: Any) -> None:
    d = two_slots(**FIXED)
    again = idb.Diagram.from_dict(json.loads(json.dumps(d.to_dict())))
    assert again.to_dict() == d.to_dict()
    agent = idb.Thompson(d, seed=0)
    agent.update({"A0": "news", "A1": "sports"}, {"C0": 0, "C1": 0})
    agent.save(tmp_path / "agent")
    for other in (idb.Thompson.load(tmp_path / "agent"), pickle.loads(pickle.dumps(agent)), agent.copy()):
        assert other.posterior()["attraction"].mean[2] == 0.0
        assert [other.act() for _ in range(20)] == [copy.act() for copy in [agent.copy()] for _ in range(20)]


def test_worlds_and_questions_need_the_means_that_are_fixed() -> None:
    d = two_slots(**FIXED)
    means = {"attraction": [0.5, 0.3, 0.0], "examination": [0.9, 0.4]}
    assert idb.World(d, means).best().exact
    for wrong in ({"attraction": [0.5, 0.3, 0.2]}, {"examination": np.array([0.8, 0.4])}):
        given = {name: np.asarray(v, float) for name, v in {**means, **wrong}.items()}
        for question in (idb.World, idb.best_action):
            with pytest.raises(MeansError, match="as the diagram fixes it"):
                question(d, given)


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"attraction": {"weather": 0.5}}, r"node 'W0': a fixed row of 'attraction' must be 'A0': 'news', 'sports', '\(nothing\)'; got 'weather'"),
        ({"attraction": {"news": 1.5}}, "learned table 'attraction': fixed row 'news' must be a probability, got 1.5"),
        ({"attraction": {"news": "often"}}, "learned table 'attraction': fixed row 'news' must be a probability or a list of probabilities, got 'often'"),
        ({"attraction": {"news": [[0.5]]}}, r"learned table 'attraction': fixed row 'news' must be a probability or a list of probabilities, got \[\[0.5\]\]"),
        ({"attraction": {"news": float("nan")}}, "learned table 'attraction': fixed row 'news' must be a probability, got nan"),
        ({"attraction": 3}, "learned table 'attraction': fixed must map rows to probabilities, got 3"),
        ({"examination": {2: 0.5}}, "node 'E0': a fixed row of 'examination' must be one of 0 to 1; got 2"),
        ({"examination": {"first": 0.5}}, "node 'E0': a fixed row of 'examination' must be one of 0 to 1; got 'first'"),
    ],
)  # fmt: skip
def test_mistakes_are_named(fixed: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        two_slots(**fixed)


def test_nodes_must_agree_on_the_row() -> None:
    d, table = idb.Diagram("orders"), idb.Learned("attraction", fixed={"a": 0.0})
    d.observed("X", [d.decision("A", ["a", "b"])], table)
    with pytest.raises(
        DiagramError,
        match="node 'Y': learned table 'attraction': fixed row 'a' must be the same row for all nodes that read it",
    ):
        d.observed("Y", [d.decision("B", ["b", "a"])], table)


def test_files_that_fix_a_row_twice_are_rejected() -> None:
    data = two_slots(**FIXED).to_dict()
    data["learned"][0]["fixed"] *= 2
    with pytest.raises(FormatError, match="one row is fixed twice"):
        idb.Diagram.from_dict(data)
