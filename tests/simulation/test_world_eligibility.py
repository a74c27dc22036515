"""Worlds in which not all choices are eligible in every round."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits import models
from idbandits.errors import ActionError, IdbanditsError, InfeasibleError
from internals import begin

MEANS = {"attraction": [0.1, 0.5, 0.3, 0.8, 0.2, 0.6], "examination": [0.9, 0.5]}


def some_items(t: int, rng: np.random.Generator) -> list[int]:
    """Return four of six items."""
    return rng.permutation(6)[:4].tolist()


def world(allowed: Any = some_items, **settings: Any) -> idb.World:
    return idb.World(models.position_based(6, 2), MEANS, seed=3, allowed=allowed, **settings)


def best_value(items: list[int]) -> float:
    attraction, examination = MEANS["attraction"], MEANS["examination"]
    return max(
        attraction[a] * examination[0] + attraction[b] * examination[1] for a, b in itertools.permutations(items, 2)
    )


def test_regret_refers_to_the_best_eligible_action() -> None:
    one = world()
    for t in range(30):
        items = one.allowed()
        assert one.allowed() == items  # once per round
        assert one.round == t
        assert one.best().value == pytest.approx(best_value(items))
        action = {"A1": items[0], "A2": items[1]}
        expected = one.expected(action)
        outcome = one.step(action)
        assert outcome.regret == pytest.approx(best_value(items) - expected)


def test_ineligible_actions_are_rejected_and_nothing_changes() -> None:
    one = world(allowed=lambda t, rng: [0, 1, 2])
    with pytest.raises(ActionError, match=r"action .*'A1': 5.* has a choice that is not allowed in this round"):
        one.step({"A1": 5, "A2": 1})
    assert one.round == 0
    one.step({"A1": 2, "A2": 1})


def test_constant_lists_of_eligible_choices() -> None:
    one = world(allowed={"A1": [0, 4], "A2": [4]})
    assert one.allowed() == {"A1": [0, 4], "A2": [4]}
    assert one.best().action == {"A1": 0, "A2": 4}
    result = idb.simulate(one, {"idTS": idb.Thompson(one.diagram)}, rounds=50, runs=2, progress=False)
    assert result.summary()["regret_mean"][0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("contextual", [False, True])
def test_simulations_play_the_same_rounds_as_a_loop_by_hand(contextual: bool) -> None:
    d = models.position_based(6, 2)
    if contextual:
        d = idb.Diagram("contextual")
        who = d.context("who", ["new", "old"])
        d.reward(d.observed("X", [d.decision("A", 6), who]))
        means: dict[str, Any] = {"X": np.random.default_rng(0).uniform(size=(6, 2))}
        one = idb.World(d, means, seed=1, allowed=some_items)
    else:
        one = world()
    agent = idb.Thompson(d, seed=0)
    result = idb.simulate(one, {"idTS": agent}, rounds=60, runs=2, seed=5, checkpoints="every", progress=False)
    for run in range(2):
        here, learner = begin(one, agent, "idTS", 5, run)
        regrets = []
        for _ in range(60):
            context = here.context() if contextual else None
            action = learner.act(context, allowed=here.allowed())
            outcome = here.step(action, context)
            learner.update(action, outcome.observation, context)
            regrets.append(outcome.regret)
        rows = result.frame[result.frame["run"] == run]
        np.testing.assert_allclose(rows["regret"], np.cumsum(regrets), atol=1e-9)


def test_learners_in_python_and_several_structures_get_the_eligible_choices() -> None:
    class Second:
        """Learner that shows the second and the first eligible item."""

        def act(self, allowed: list[int]) -> dict[str, int]:
            return {"A1": allowed[1], "A2": allowed[0]}

        def update(self, action: Any, observation: Any) -> None:
            pass

    structures = idb.Thompson([models.cascade(6, 2), models.position_based(6, 2)])
    learners = {"second": Second(), "several": structures}
    result = idb.simulate(world(), learners, rounds=40, runs=1, progress=False)
    assert (result.summary()["regret_mean"] > 0).all()
    with pytest.raises(IdbanditsError, match=r"learner 'ucb': UCB1 does not support `allowed`"):
        idb.simulate(world(), {"ucb": idb.baselines.UCB1(models.position_based(6, 2))}, rounds=5, progress=False)


def test_errors_name_the_round() -> None:
    with pytest.raises(InfeasibleError, match="round 0: "):
        world(allowed=lambda t, rng: [1]).step({"A1": 0, "A2": 1})
    with pytest.raises(ActionError, match="allowed of round 0: the function raised KeyError"):
        world(allowed=lambda t, rng: {}["x"]).allowed()
    with pytest.raises(ActionError):
        world(allowed=["pear"])
