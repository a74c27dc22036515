"""Conformance suite of all baselines; other files compare each with a slow implementation of its paper."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import idbandits as idb
from baseline_cases import WORDS, costly, odd_choices
from error_checks import assert_rejected_by
from idbandits import baselines, models, simulate
from idbandits.baselines import (
    GRAB,
    UCB1,
    CascadeKLUCB,
    CascadeUCB1,
    CombUCB1,
    EpsilonGreedy,
    KLCombUCB1,
    Rank1Elim,
    Rank1ElimKL,
    TopRank,
    Uniform,
)
from idbandits.errors import ActionError, DiagramError, ObservationError
from internals import begin, knowledge
from played_rounds import go_on, places, totals_by_hand, totals_of, world_of
from reference import feasible

EASY = {  # worlds in which a baseline learns soon what is best
    "cascade": idb.World(models.cascade(5, 2), {"attraction": [0.05, 0.1, 0.15, 0.5, 0.6]}),
    "position-based": idb.World(
        models.position_based(4, 2), {"attraction": [0.1, 0.2, 0.6, 0.9], "examination": [0.9, 0.5]}
    ),
    "rank-1": idb.World(models.rank1(2, 3), {"row": [0.2, 0.9], "column": [0.1, 0.2, 0.9]}),
}


class Case(NamedTuple):
    """Baseline, a supported diagram, and an easy world in which its regret must grow slowly, if any."""

    make: Callable[..., Any]
    d: Callable[[], idb.Diagram]
    easy: str | None = None


CASES: dict[str, Case] = {  # a new baseline is one line, and one more for settings that change what it does
    "CascadeKLUCB": Case(CascadeKLUCB, lambda: models.cascade(6, 2), "cascade"),
    "CascadeKLUCB, last": Case(lambda d, seed: CascadeKLUCB(d, seed, reading="last"), lambda: models.cascade_inverted(WORDS, 3)),
    "CascadeUCB1": Case(CascadeUCB1, lambda: models.cascade(5, 2, distinct=False), "cascade"),
    "TopRank": Case(TopRank, lambda: models.position_based(6, 3), "position-based"),
    "TopRank, cascade": Case(lambda d, seed: TopRank(d, seed, delta=0.5), lambda: models.cascade(WORDS, 2, distinct=False)),
    "Rank1Elim": Case(Rank1Elim, lambda: models.rank1(3, WORDS), "rank-1"),
    "Rank1Elim, short": Case(lambda d, seed: Rank1Elim(d, seed, horizon=30), lambda: models.rank1(3, WORDS)),
    "Rank1ElimKL": Case(Rank1ElimKL, lambda: models.rank1(4, 2), "rank-1"),
    "Rank1ElimKL, short": Case(lambda d, seed: Rank1ElimKL(d, seed, horizon=10, level=1.0), lambda: models.rank1(4, 2)),
    "CombUCB1": Case(CombUCB1, lambda: models.semi_bandit(6, 2), "position-based"),
    "CombUCB1, odd choices": Case(lambda d, seed: CombUCB1(d, seed, factor=0.5), odd_choices),
    "KLCombUCB1": Case(KLCombUCB1, lambda: models.position_based(WORDS, 2), "position-based"),
    "KLCombUCB1, anytime": Case(
        lambda d, seed: KLCombUCB1(d, seed, horizon=None), lambda: models.position_based(5, 2, distinct=False), "position-based"
    ),
    "GRAB": Case(GRAB, lambda: models.position_based(5, 3), "position-based"),
    "GRAB, fixed": Case(lambda d, seed: GRAB(d, seed, horizon=20_000), lambda: models.position_based(WORDS, 2), "position-based"),
    "GRAB, gamma": Case(
        lambda d, seed: GRAB(d, seed, horizon=200, gamma=1), lambda: models.position_based(WORDS, 2, distinct=False)
    ),
    "UCB1": Case(UCB1, lambda: models.cascade(WORDS, 2), "rank-1"),
    "UCB1, costly": Case(UCB1, costly),
    "EpsilonGreedy": Case(EpsilonGreedy, odd_choices),
    "EpsilonGreedy, decay": Case(lambda d, seed: EpsilonGreedy(d, seed, epsilon=1, decay=100), lambda: models.rank1(3, 3), "rank-1"),
    "Uniform": Case(Uniform, lambda: models.user_browsing(5, 3)),
    "Uniform, odd choices": Case(Uniform, odd_choices),
}  # fmt: skip
every = pytest.mark.parametrize("name", CASES)
every_class = pytest.mark.parametrize("name", baselines.__all__)


def test_all_baselines_are_in_the_suite() -> None:
    assert {name.split(",")[0] for name in CASES} == set(baselines.__all__)


# -- acting and learning -------------------------------------------------------------------------------------------


@every
def test_the_fused_loop_does_what_act_and_update_do(name: str) -> None:
    world = world_of(CASES[name].d())
    learner = CASES[name].make(world.diagram, 3)
    result = simulate(world, {name: learner}, rounds=400, runs=2, seed=5, progress=False, checkpoints="every")
    wanted, totals = totals_by_hand(world, learner, name, 5, 1, 400), totals_of(result, name, 1)
    np.testing.assert_array_equal(totals[:, 0], wanted[:, 0])
    np.testing.assert_allclose(totals[:, 1], wanted[:, 1], rtol=1e-9, atol=1e-9)


@every
def test_seeds_copies_and_rounds(name: str) -> None:
    world = world_of(CASES[name].d())
    learner, same = (CASES[name].make(world.diagram, 8) for _ in range(2))
    assert learner.rounds == 0
    assert go_on(world.copy(1), learner, 60) == go_on(world.copy(1), same, 60)
    shallow, deep, pickled = learner.copy(), copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))
    before = knowledge(learner)
    assert repr(learner) == f"{type(learner).__name__}({world.diagram.name!r}; 60 rounds)"
    ahead = go_on(world.copy(2), learner, 40)
    assert learner.rounds == 100
    for twin in (shallow, deep, pickled):
        assert twin.rounds == 60
        assert knowledge(twin) == before
        assert go_on(world.copy(2), twin, 40) == ahead
        assert knowledge(twin) == knowledge(learner)
    seeded, again = learner.copy(seed=1), learner.copy(seed=1)
    assert [seeded.act() for _ in range(10)] == [again.act() for _ in range(10)]


@every
def test_actions_are_feasible_and_acting_alone_teaches_nothing(name: str) -> None:
    d = CASES[name].d()
    learner = CASES[name].make(d, 0)
    for _ in range(30):
        action = learner.act()
        assert list(action) == [n.name for n in d.of_kind("decision")]
        assert feasible(d, places(d, action))
    assert learner.rounds == 0
    go_on(world_of(d), learner, 30)
    assert learner.rounds == 30


def test_runs_of_a_simulation_have_different_random_numbers() -> None:
    world = EASY["rank-1"]
    one, other = (begin(world, Uniform(world.diagram, 0), "u", 0, run)[1] for run in (0, 1))
    assert [one.act() for _ in range(20)] != [other.act() for _ in range(20)]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.easy])
def test_regret_grows_slowly(name: str) -> None:
    make, _, where = CASES[name]
    world = EASY[str(where)]
    learners = {name: make(world.diagram, 0), "Uniform": Uniform(world.diagram)}
    result = simulate(world, learners, rounds=20_000, runs=4, progress=False, checkpoints=4).frame
    regret = result.groupby(["learner", "round"], observed=True)["regret"].mean()
    assert regret["Uniform", 20_000] > 3.8 * regret["Uniform", 5_000]
    assert regret[name, 20_000] < 1.9 * regret[name, 5_000] + 1.0
    assert regret[name, 20_000] < 0.25 * regret["Uniform", 20_000]


# -- diagrams ------------------------------------------------------------------------------------------------------


@every_class
def test_one_choice_is_enough(name: str) -> None:
    d = models.rank1(["only"], ["only"]) if name.startswith("Rank1") else models.position_based(["only"], 1)
    learner = getattr(baselines, name)(d, 0)
    history = go_on(world_of(d), learner, 20)
    assert {item for action, *_ in history for item in action.values()} == {"only"}


@pytest.mark.parametrize("name", [n for n in baselines.__all__ if not n.startswith("Rank1")])
@pytest.mark.parametrize("distinct", [True, False])
def test_they_play_where_items_may_or_may_not_repeat(name: str, distinct: bool) -> None:
    world = idb.World(
        models.position_based(5, 2, distinct=distinct),
        {"attraction": [0.1, 0.2, 0.3, 0.4, 0.9], "examination": [0.9, 0.5]},
    )
    result = simulate(world, {name: getattr(baselines, name)(world.diagram)}, 300, runs=3, progress=False)
    assert result.summary()["reward_mean"][0] > (0.4 if name == "Uniform" else 0.55)


# -- errors --------------------------------------------------------------------------------------------------------


@every
def test_invalid_rounds_are_rejected_and_change_nothing(name: str) -> None:
    world = world_of(CASES[name].d())
    learner = CASES[name].make(world.diagram, 1)
    ((action, observation, *_),) = go_on(world, learner, 1)
    node, decision = next(iter(observation)), next(iter(action))
    for wrong, words in (
        ({k: v for k, v in observation.items() if k != node}, (repr(node), "not seen")),
        ({**observation, node: None}, (repr(node), "not seen")),
        ({**observation, node: 17}, (repr(node), "17")),
        ({**observation, decision: 0}, (repr(decision), "decision")),
    ):
        assert_rejected_by(learner, ObservationError, words, lambda wrong=wrong: learner.update(action, wrong))
    wrong_action = {**action, decision: "nothing"}
    words = (repr(decision), "'nothing'")
    assert_rejected_by(learner, ActionError, words, lambda: learner.update(wrong_action, observation))
    assert learner.rounds == 1


@every_class
def test_contexts_and_invalid_diagrams_are_rejected(name: str) -> None:
    make = getattr(baselines, name)
    contextual = idb.Diagram("in context")
    contextual.reward(contextual.observed("C1", [contextual.decision("A1", 3), contextual.context("who", 2)]))
    with pytest.raises(DiagramError, match=f"{name}.* contexts.*'in context'.*'who'"):
        make(contextual)
    with pytest.raises(DiagramError, match=f"{name}.* Diagram, got 3"):
        make(3)
    empty = idb.Diagram("empty")
    empty.reward(empty.observed("X"))
    with pytest.raises(DiagramError, match=f"{name}.*'empty' has no decisions"):
        make(empty)
