"""Whatever numbers the search is handed, it ends: with an error of ours where there is no best action."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from diagrams import random_learning_diagram
from error_checks import assert_rejected_by
from idbandits import models
from idbandits.errors import IdbanditsError, MeansError
from idbandits.inference import ROUNDS, State, name_of
from idbandits.inference.state.state import ACTS_ON_MEANS
from idbandits.solve.eligible import EVERY_CHOICE
from idbandits.solve.solver import BUDGET, Solver
from inferences import Counts, agent_of, every, taught
from internals import best_assignment, learned_size
from played_rounds import world_of

NAN, INF = float("nan"), float("inf")

# each is solved in another way: assignment, by patterns, sorting, branch and bound, all actions
DIAGRAMS: dict[str, Callable[[], idb.Diagram]] = {
    "semi-bandit": lambda: models.semi_bandit(8, 3),
    "cascade": lambda: models.cascade(6, 3),
    "long cascade": lambda: models.cascade(30, 12),
    "position-based": lambda: models.position_based(6, 3),
    "rank-1": lambda: models.rank1(3, 4),
    "browsing": lambda: models.user_browsing(6, 4),
    **{f"random {seed}": lambda seed=seed: random_learning_diagram(seed) for seed in range(8)},  # type: ignore[misc]
}


def context_of(d: idb.Diagram) -> dict[str, Any] | None:
    return {n.name: n.values[0] for n in d.of_kind("context")} or None


# -- beliefs -------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("number", [NAN, INF, -INF, -1.0, -0.5, -1e308], ids=str)
def test_a_belief_that_is_not_made_of_pseudo_counts_is_not_acted_on(name: str, number: float) -> None:
    agent = taught(name, models.position_based(4, 2), rounds=3)
    action = agent.act()
    agent.state.floats[1] = number
    words = (repr(name_of(agent.inference)), "'attraction'", str(number))
    assert_rejected_by(agent, IdbanditsError, words, agent.act)
    assert_rejected_by(agent, IdbanditsError, words, agent.sample)
    assert_rejected_by(agent, IdbanditsError, words, lambda: agent.propensity(action))
    world = world_of(models.position_based(4, 2))
    with pytest.raises(IdbanditsError, match="'attraction'"):
        idb.simulate(world, {"it": agent}, 100, runs=2, progress=False)


@every
@pytest.mark.parametrize("number", [NAN, INF, -INF, 0.0, -0.7, -1e308, 1e308, 1.7e308, 5e-324], ids=str)
def test_learning_ends_whatever_the_state_holds(name: str, number: float) -> None:
    agent = agent_of(name, models.position_based(4, 2))
    seen = {n.name: 0 for n in agent.diagram.of_kind("observed")}
    agent.update({"A1": 0, "A2": 1}, seen)
    agent.state.floats[:: 1 + (abs(number) < 1)] = number
    for do in (lambda: agent.update({"A1": 0, "A2": 1}, seen), agent.act, agent.sample, agent.posterior):
        with np.errstate(all="ignore"), contextlib.suppress(IdbanditsError):
            do()


class Forgetful(Counts):
    """An inference that divides nothing by nothing in its third round."""

    def learn(self, evidence: Any, state: Any, rng: Any, round_: Any) -> int:
        status = super().learn(evidence, state, rng, round_)
        if state.ints[ROUNDS] == 2:
            counts = state.floats[: evidence.learned]
            with np.errstate(invalid="ignore"):
                counts /= np.where(np.arange(len(counts)) == 2, 0.0, 1.0) * INF
        return status


def test_an_own_inference_that_loses_its_numbers_is_told_so() -> None:
    d = models.semi_bandit(5, 2)
    agent = idb.Thompson(d, Forgetful(), seed=0)
    for _ in range(3):
        agent.update(agent.act(), {"X1": 1, "X2": 0})
    assert_rejected_by(agent, IdbanditsError, ("'Forgetful'", "'mean'", "positive and finite"), agent.act)
    for play in (
        lambda: idb.simulate(world_of(d), {"it": idb.Thompson(d, Forgetful())}, 10, runs=1, progress=False),
        lambda: idb.theory.bayes_regret(d, rounds=10, runs=2, learner=idb.Thompson(d, Forgetful())),
    ):
        with pytest.raises(IdbanditsError, match=r"'Forgetful'.*'mean'"):
            play()


class Means(Counts):
    """An inference that acts on means."""

    means: Any = ()

    def start(self, model: Any, evidence: Any, rng: Any) -> State:
        state = super().start(model, evidence, rng)
        state.ints[ACTS_ON_MEANS] = 1
        state.floats[: evidence.learned] = self.means
        return state


@pytest.mark.parametrize("means", [[0.5, NAN, 0.5, 0.5], [0.5, INF, 0.5, 0.5], [-0.1, 1.1, 0.5, 0.5], [1, 1, 1, 1]])
def test_means_that_are_none_are_not_acted_on(means: list[float]) -> None:
    d = models.semi_bandit(2, 1)
    d.decision("idle", 5)  # made at random, but not if there is an error

    class Own(Means):
        pass

    Own.means = [0.2, 0.8, 0.4, 0.6]
    assert idb.Thompson(d, Own()).act()["A1"] == 0
    Own.means = means
    agent = idb.Thompson(d, Own())
    assert_rejected_by(agent, IdbanditsError, ("'Own'", "means"), agent.act)


# -- means ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DIAGRAMS)
def test_kernels_end_on_any_means(name: str) -> None:
    d = DIAGRAMS[name]()
    solver, size, rng = idb.compile(d).derived(Solver), learned_size(d), np.random.default_rng(0)
    action = solver.blank_action(context_of(d))
    for number in (NAN, INF, -INF, -1.0, 2.0, 1e308, -1e308, 1.0, 0.0):
        for share in (0.1, 1.0):
            means = np.where(rng.random(size) < share, number, rng.random(size))
            for given, expanded in ((means, True), (means[: size // 2], False)):
                *_, sound = solver.kernel.entry(*solver.program, given, expanded, action, EVERY_CHOICE, BUDGET)
                assert not sound or ((given >= 0) & (given <= 1)).all()


def test_means_that_sum_to_one_only_by_rounding_are_rejected_or_answered() -> None:
    d = idb.Diagram("row")
    d.reward(d.observed("X", [d.decision("A", 2)], states=3))
    for by in np.linspace(0.5e-8, 1.5e-8, 41):  # around the tolerance
        row = [0.25, 0.25, 0.5 + by]
        try:
            assert idb.best_action(d, {"X": np.array([row, row])}).value > 1
        except MeansError as error:
            assert "sum" in str(error)


@pytest.mark.parametrize("scores", [np.full((3, 5), x) for x in (NAN, INF, -INF)], ids=str)
def test_an_assignment_of_what_are_not_numbers_ends(scores: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        assert ((best_assignment(scores) >= 0) & (best_assignment(scores) < 5)).all()
        mixed = np.where(np.arange(15).reshape(3, 5) % 4, scores, 1.0)
        assert ((best_assignment(mixed) >= 0) & (best_assignment(mixed) < 5)).all()
