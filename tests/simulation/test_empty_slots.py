"""Slots that may stay empty: the empty choice may repeat everywhere."""

from __future__ import annotations

import pytest

import idbandits as idb
from error_checks import assert_raises
from idbandits.errors import DiagramError, IdbanditsError

NOTHING = "(nothing)"


def shelf(items: int = 3, slots: int = 2, except_: tuple[str, ...] = (NOTHING,)) -> idb.Diagram:
    d, attraction = idb.Diagram("shelf"), idb.Learned("attraction")
    for k in range(slots):
        slot = d.decision(f"A{k}", [*(f"item {i}" for i in range(items)), NOTHING])
        shown = d.observed(f"C{k}", [slot], attraction)
        d.reward([slot, shown], lambda item, seen: 0.0 if item == NOTHING else seen - 0.5)
    d.all_different(except_=except_)
    return d


def test_worlds_and_learners() -> None:
    """In a world in which items do harm, all slots stay empty."""
    d = shelf()
    world = idb.World(d, {"attraction": [0.1, 0.2, 0.1, 0.0]}, seed=0)
    assert world.best().action == {"A0": NOTHING, "A1": NOTHING}
    assert world.regret({"A0": "item 1", "A1": NOTHING}) == pytest.approx(0.3)
    learners = {"agent": idb.Thompson(d, "exact"), "uniform": idb.baselines.Uniform(d), "ucb": idb.baselines.UCB1(d)}
    result = idb.simulate(world, learners, rounds=300, runs=2, seed=0, progress=False, workers=1)
    regret = result.summary().set_index("learner")["regret_mean"]
    assert regret["agent"] < regret["uniform"] / 4
    assert len({tuple(learners["uniform"].act().values()) for _ in range(300)}) == 3 * 2 + 2 * 3 + 1


def test_a_learner_must_not_repeat_what_the_world_forbids() -> None:
    world = idb.World(shelf(except_=()), {"attraction": [0.1, 0.2, 0.1, 0.0]}, seed=0)
    agent = idb.Thompson(shelf(), "exact")
    assert_raises(IdbanditsError, ("all different",), lambda: idb.simulate(world, {"a": agent}, 10, progress=False))


def test_structures_must_except_the_same() -> None:
    assert_raises(
        DiagramError, ("'A0' and 'A1'", NOTHING), lambda: idb.Thompson({"a": shelf(), "b": shelf(except_=())})
    )


def test_rankings_of_different_items_are_rejected() -> None:
    for baseline in (idb.baselines.GRAB, idb.baselines.TopRank):
        assert_raises(DiagramError, (repr(NOTHING), "repeat"), lambda baseline=baseline: baseline(shelf()))


def test_sums_of_base_arms_may_repeat() -> None:
    d = idb.Diagram("sum")
    attraction = idb.Learned("attraction")
    for k in (1, 2, 3):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", ["a", "b", NOTHING])], attraction))
    d.all_different(except_=[NOTHING])
    learner = idb.baselines.CombUCB1(d, seed=0)
    for _ in range(200):
        action = learner.act()
        assert len({v for v in action.values() if v != NOTHING}) == sum(v != NOTHING for v in action.values())
        learner.update(action, {f"X{k}": int(action[f"A{k}"] == NOTHING) for k in (1, 2, 3)})
    assert [*learner.act().values()] == [NOTHING] * 3


def test_checks_and_bounds() -> None:
    assert not shelf(items=200, slots=4).check().serious
    assert idb.theory.max_observations(shelf()) == idb.theory.max_observations(shelf(except_=()))
    assert "except for (nothing)" in shelf().draw().mermaid()
    assert idb.Diagram.from_dict(shelf().to_dict()).to_dict() == shelf().to_dict()
