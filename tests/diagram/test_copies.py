"""Diagrams are copied and changed on their own, and what was compiled from them stays as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from drawn_diagrams import MODELS, every_feature
from error_checks import assert_raises
from idbandits import Diagram, models
from idbandits.errors import DiagramError, InfeasibleError


@pytest.mark.parametrize("d", [*MODELS, Diagram.from_dict(every_feature())], ids=lambda d: d.name)
def test_revealed_changes_only_the_kind_of_latent_nodes(d: Diagram) -> None:
    before = d.to_dict()
    revealed = d.revealed().to_dict()
    for node in revealed["nodes"]:
        if d.nodes[node["name"]].kind == "latent":
            assert node["kind"] == "observed"
            node["kind"] = "latent"
    assert revealed == before == d.to_dict()


def test_a_copy_is_changed_on_its_own() -> None:
    d = models.cascade(3, 2)
    before, model = d.to_dict(), idb.compile(d)
    for other in (d.copy(), d.revealed()):
        other.observed("new", ["A1"])
        other.reward("new")
        other.all_different("A1")
        assert list(other.learned) == ["attraction", "new"]
    assert d.to_dict() == before
    assert idb.compile(d) is model


def test_a_diagram_is_compiled_once_until_it_changes() -> None:
    d = models.semi_bandit(3, 2)
    model = idb.compile(d)
    idb.best_action(d, {"mean": np.array([0.1, 0.2, 0.7])})
    assert idb.compile(d) is model
    with pytest.raises(DiagramError):
        d.decision("A1", 2)
    assert idb.compile(d) is model  # nothing has changed
    changes: list[Callable[[], Any]] = [
        lambda: d.decision("B", 2),
        lambda: d.context("S", 2),
        lambda: d.latent("Z", ["B", "S"], 0.5),
        lambda: d.observed("Y", ["Z"], 0.5),
        lambda: d.reward("Y", lambda y: 10 * y),
        lambda: d.all_different("A1", "B"),
    ]
    for change in changes:
        before = idb.compile(d)
        change()
        assert idb.compile(d) is not before
        assert idb.compile(d) is idb.compile(d)


def test_an_old_model_stays_as_it_was() -> None:
    d = models.cascade(3, 2)
    model, untouched = idb.compile(d), idb.compile(models.cascade(3, 2))
    d.context("S", 2)
    d.latent("more", ["S", "A1"])
    d.observed("seen", ["more"], [0.25, 0.75])
    d.reward("seen", lambda y: 100 * y)
    d.all_different("A1")
    assert repr(model) == repr(untouched)
    for part in ("likelihood", "literal", "revealed", "rewards"):  # also those that are built later
        assert repr(getattr(model, part).circuit) == repr(getattr(untouched, part).circuit)
    assert not model.contexts
    assert list(model.learned) == ["attraction"]
    assert model.feasibility.conflicts.tolist() == [[False, True], [True, False]]


def test_all_different_holds_for_later_decisions_too() -> None:
    d = Diagram()
    d.decision("A", 3)
    d.all_different()
    d.decision("B", 3)
    assert list(d.different) == [("A", "B")]
    assert Diagram.from_dict(d.to_dict()).different == d.different
    assert Diagram.from_dict(d.to_dict()).to_dict()["all_different"] == ["all"]


def test_actions_contexts_and_observations_use_labels() -> None:
    d = Diagram()
    colour, size = d.decision("colour", ["red", "blue"]), d.decision("size", np.array([38, 42]))
    who = d.context("who", ["new", "loyal"])
    taste = d.latent("taste", [colour, who], states=["cold", "warm"])
    bought = d.observed("bought", [taste, size], lambda t, s: (t == "warm") * s / 100, states=["no", "yes"])
    d.reward([bought, size], lambda b, s: s if b == "yes" else 0)
    means = {"taste": [[0.1, 0.9], [0.6, 0.2]]}
    solution = idb.best_action(d, means, {"who": "loyal"})
    assert solution.action == {"colour": "red", "size": 42}
    assert type(solution.action["size"]) is int
    assert solution.value == pytest.approx(0.9 * 0.42 * 42)
    assert idb.expected_reward(d, solution.action, means, {"who": "loyal"}) == pytest.approx(solution.value)
    action, observation, context = {"colour": "blue", "size": np.int64(38)}, {"bought": "yes"}, {"who": "new"}
    assert idb.log_likelihood(d, action, observation, means, context) == pytest.approx(math.log(0.6 * 0.38))
    np.testing.assert_allclose(idb.posterior_of_latents(d, action, observation, means, context)["taste"], [0, 1])
    other = Diagram.from_dict(json.loads(json.dumps(d.to_dict())))
    assert idb.best_action(other, means, {"who": "loyal"}) == solution


def test_the_contents_of_a_diagram_are_read_only() -> None:
    d = Diagram.from_dict(every_feature())
    with pytest.raises(TypeError):
        d.nodes["new"] = d.nodes["A"]
    with pytest.raises(TypeError):
        del d.learned["L"]
    with pytest.raises(AttributeError):
        d.nodes["A"].kind = "latent"
    for array in (d.nodes["O"].cpd.table, d.nodes["M"].cpd.rows, d.learned["L"].prior, d.rewards[0].table):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    data = d.to_dict()
    data["nodes"][5]["known"][0][0] = 1.0
    data["nodes"][0]["states"].append("w")
    assert d.to_dict() == every_feature()


# -- choices that may repeat -------------------------------------------------------------------------------------------


def slots(*labels: Any) -> Diagram:
    d = Diagram("slots")
    for k in (1, 2, 3):
        d.decision(f"A{k}", [*labels])
    return d


def test_exceptions_are_kept() -> None:
    d = slots("tea", "-")
    d.all_different(except_=["-"])
    d.decision("A4", ["tea", "water", "-"])  # which joins
    assert list(d.constraints) == [(("A1", "A2", "A3", "A4"), ("-",))]
    for other in (d.copy(), d.revealed(), Diagram.from_dict(d.to_dict())):
        assert other.constraints == d.constraints
    named = slots("tea", "-")
    named.all_different("A1", "A2", except_=iter(["-", "-"]))
    assert named.to_dict()["all_different"] == [{"decisions": ["A1", "A2"], "except": ["-"]}]
    assert Diagram.from_dict(named.to_dict()).constraints == named.constraints


def test_a_label_that_may_repeat_fills_any_number_of_slots() -> None:
    slots("-").all_different(except_=["-"])
    assert_raises(InfeasibleError, ("3 decisions", "got 1 among"), lambda: slots("-").all_different())
    d = slots("tea", "-")
    d.decision("B1", ["tea"])
    d.decision("B2", ["tea"])
    assert_raises(InfeasibleError, ("B1, B2",), lambda: d.all_different(except_=["-"]))


@pytest.mark.parametrize(
    ("except_", "words"),
    [("-", ("except_", "'-'")), (3, ("except_", "3")), (["x"], ("'x'", "A1, A2, A3")), ([["-"]], ("['-']",))],
)
def test_exceptions_that_are_rejected(except_: Any, words: tuple[str, ...]) -> None:
    assert_raises(DiagramError, words, lambda: slots("tea", "-").all_different(except_=except_))


def test_overlapping_groups_except_the_same() -> None:
    d = slots("tea", "-", "coffee", "milk")
    d.all_different("A1", "A2", except_=["-"])
    assert_raises(DiagramError, ("['-']", "A1, A2"), lambda: d.all_different("A2", "A3"))
    assert_raises(DiagramError, ("in common",), lambda: d.all_different())
    d.all_different("A2", "A3", except_=["-"])
    assert len(d.constraints) == 2
