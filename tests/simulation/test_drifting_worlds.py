"""Worlds whose means are a function of the round: outcomes, regret in each phase, the fused loop."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import in_context, random_means
from error_checks import assert_raises
from idbandits import Forget, models, simulate
from idbandits.errors import IdbanditsError, MeansError
from inferences import INFERENCES, agent_of
from list_models import hard_means, impatient
from played_rounds import go_on, totals_by_hand, totals_of
from simulation_cases import Wrapped

D = models.position_based(4, 2)
PHASES: list[Any] = [random_means(np.random.default_rng(seed), D) for seed in range(3)]
LENGTH = 40


def in_phases(t: int) -> Any:
    """Return the means of three phases, the same object in all rounds of a phase."""
    return PHASES[t // LENGTH]


def in_copies(t: int) -> Any:
    """Return a copy of the means of `in_phases`."""
    return {name: table.copy() for name, table in in_phases(t).items()}


def everywhere(t: int) -> Any:
    """Return different means in every round."""
    swing = 0.5 + 0.4 * np.sin(t / 20 + np.arange(4))
    return {"attraction": swing, "examination": [0.9, 0.3 + 0.4 * (t % 2)]}


def there_and_back(t: int) -> Any:
    """Return two kinds of means in turn."""
    return PHASES[t // 7 % 2]


COURSES = [in_phases, in_copies, everywhere, there_and_back]


@pytest.mark.parametrize("means", COURSES)
def test_the_fused_loop_does_what_act_and_update_do(means: Any) -> None:
    world = idb.World(D, means)
    learners: dict[str, Any] = {name: agent_of(name, D, seed=3) for name in ("gibbs", "moments", "exact", "own")}
    learners["forgets"] = idb.Thompson(D, forget=Forget(10))
    learners["uniform"] = idb.baselines.Uniform(D)
    result = simulate(world, learners, 3 * LENGTH, runs=2, seed=5, progress=False, checkpoints="every")
    for name, learner in learners.items():
        wanted = totals_by_hand(world, learner, name, 5, 1, 3 * LENGTH)
        np.testing.assert_allclose(totals_of(result, name, 1), wanted, rtol=1e-12, atol=1e-12, err_msg=name)
    assert world.round == 0


@pytest.mark.parametrize("name", [n for n in INFERENCES if n not in ("particles", "own")])
def test_forgetting_inside_the_loop_is_that_of_update(name: str) -> None:
    world, case = idb.World(D, in_phases), INFERENCES[name]
    agent = idb.Thompson(D.revealed() if case.revealed else D, case.make(), forget=Forget(7))
    result = simulate(world, {"it": agent}, 3 * LENGTH, runs=1, progress=False, checkpoints="every")
    wanted = totals_by_hand(world, agent, "it", 0, 0, 3 * LENGTH)
    np.testing.assert_allclose(totals_of(result, "it", 0), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("means", COURSES)
def test_regret_refers_to_the_best_action_of_the_phase(means: Any) -> None:
    world = idb.World(D, means, seed=1)
    action = {"A1": 0, "A2": 1}
    for t in range(3 * LENGTH):
        assert world.round == t
        now = {name: np.asarray(table) for name, table in means(t).items()}
        best, expected = reference.best_value(D, {}, now), reference.expected_reward(D, action, now)
        assert world.best().value == pytest.approx(best)
        assert world.expected(action) == pytest.approx(expected)
        assert world.regret(action) == pytest.approx(best - expected, abs=1e-12)
        assert world.step(action).regret == pytest.approx(best - expected, abs=1e-12)


def test_outcomes_are_those_of_the_phase() -> None:
    d = models.semi_bandit(2, 1)
    world = idb.World(d, lambda t: {"mean": [float(t % 3 == 0), 0.5]}, seed=0)
    rewards = [world.step({"A1": 0}).reward for _ in range(12)]
    assert rewards == [1, 0, 0] * 4


def test_contexts_are_used_in_the_round_in_which_they_were_drawn() -> None:
    d = in_context()
    course = [random_means(np.random.default_rng(seed), d) for seed in range(5)]
    world, constant = idb.World(d, lambda t: course[t // 20]), idb.World(d, course[0])
    agent = idb.Thompson(d, "variational")
    assert go_on(world.copy(3), agent.copy(1), 20) == go_on(constant.copy(3), agent.copy(1), 20)
    result = simulate(world, {"it": agent}, 100, runs=1, progress=False, checkpoints="every")
    wanted = totals_by_hand(world, agent, "it", 0, 0, 100)
    np.testing.assert_allclose(totals_of(result, "it", 0), wanted, rtol=1e-12, atol=1e-12)


def test_a_constant_function_is_a_constant_world() -> None:
    agent = idb.Thompson(D)
    frames = [
        simulate(idb.World(D, means), {"it": agent}, 200, runs=2, progress=False).frame.drop(columns="seconds")
        for means in (PHASES[0], lambda t: PHASES[0])
    ]
    assert frames[0].equals(frames[1])


def test_copies_with_a_seed_start_at_round_0_and_others_continue() -> None:
    world = idb.World(D, in_phases, seed=2)
    go_on(world, Wrapped(idb.Thompson(D, seed=0)), LENGTH + 3)
    assert repr(world) == f"World('position-based', round {LENGTH + 3})"
    assert (world.copy().round, copy.deepcopy(world).round, world.copy(5).round) == (LENGTH + 3, LENGTH + 3, 0)
    np.testing.assert_array_equal(world.copy(5).means["attraction"], PHASES[0]["attraction"])
    np.testing.assert_array_equal(world.means["attraction"], PHASES[1]["attraction"])
    world.round = 2 * LENGTH
    assert world.best().value == pytest.approx(reference.best_value(D, {}, PHASES[2]))
    assert_raises(IdbanditsError, ("round", "-1"), lambda: setattr(world, "round", -1))


def test_the_function_is_not_called_beyond_the_last_round() -> None:
    world = idb.World(D, in_phases, seed=2)
    agent = idb.Thompson(D, seed=0)
    go_on(world, Wrapped(agent), 3 * LENGTH)
    words = ("means", f"round {3 * LENGTH}", "IndexError")
    assert_raises(MeansError, words, lambda: world.step({"A1": 0, "A2": 1}))
    assert world.round == 3 * LENGTH
    copied = world.copy(1)
    assert_raises(MeansError, words, lambda: simulate(copied, {"it": agent}, 3 * LENGTH + 1, runs=1, progress=False))


@pytest.mark.parametrize("wrong", [None, {"attraction": [0.5] * 4}, {"attraction": [0.5] * 4, "examination": [2, 0]}])
def test_errors_of_invalid_means_name_the_round(wrong: Any) -> None:
    assert_raises(MeansError, ("means of round 0",), lambda: idb.World(D, lambda t: wrong))
    world = idb.World(D, lambda t: wrong if t == 7 else PHASES[0])
    agent = idb.Thompson(D)
    assert_raises(MeansError, ("means of round 7",), lambda: simulate(world, {"it": agent}, 20, runs=1, progress=False))
    assert_raises(MeansError, ("means of round 7",), lambda: go_on(world.copy(1), agent, 20))


def test_the_gap_is_the_largest_of_all_phases() -> None:
    d = impatient(20, 10)
    course = [hard_means(d, seed) for seed in range(3)]
    world = idb.World(d, lambda t: course[t // 5], effort=0)
    result = simulate(world, {"it": idb.Thompson(d, "moments")}, 15, runs=1, progress=False)
    gaps = [idb.World(d, means, effort=0).best() for means in course]
    assert result.settings["reference_gap"] == pytest.approx(max(found.bound - found.value for found in gaps))
    assert result.settings["reference_gap"] > 0
