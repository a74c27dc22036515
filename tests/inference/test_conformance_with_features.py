"""One suite that every inference passes which learns from features: the built-in ones, and one in plain Python."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from feature_diagrams import ITEMS, catalogue, menu, seen_menu
from idbandits.errors import IdbanditsError
from idbandits.inference import BY_NAME, FEATURES, FORGET
from inferences import INFERENCES, Case, CountsOfFeatures
from internals import groups, kept, knowledge
from played_rounds import go_on, learn, learn_at_once, play, totals_by_hand, totals_of, world_of

REGRESSING = {name: case for name, case in INFERENCES.items() if FEATURES in case.make().capabilities}
REGRESSING["own"] = Case(CountsOfFeatures, revealed=True, sequential=True)
BUILT_IN = [name for name in REGRESSING if name != "own"]
every = pytest.mark.parametrize("name", REGRESSING)
built_in = pytest.mark.parametrize("name", BUILT_IN)


def agent_of(name: str, d: idb.Diagram, seed: int = 0, **settings: Any) -> idb.Thompson:
    case = REGRESSING[name]
    return idb.Thompson(d.revealed() if case.revealed else d, case.make(), seed, **settings)


def taught(name: str, d: idb.Diagram, rounds: int, **settings: Any) -> idb.Thompson:
    agent = agent_of(name, d, **settings)
    return learn(agent, play(agent.diagram, np.random.default_rng(1), rounds, world=d))


def rounds_of_rows(agent: idb.Thompson) -> dict[str, Any]:
    """Return the counts of each row beyond its prior."""
    return {name: table.rounds for name, table in agent.posterior().items()}


def test_all_inferences_that_regress_are_in_the_suite() -> None:
    wanted = {kind for kind in BY_NAME.values() if FEATURES in kind.capabilities}
    assert {type(REGRESSING[name].make()) for name in BUILT_IN} == wanted


@every
def test_the_fused_loop_does_what_act_and_update_do(name: str) -> None:
    d = menu()
    world, agent = world_of(d), agent_of(name, d)
    result = idb.simulate(world, {"it": agent}, rounds=60, runs=2, checkpoints="every", progress=False)
    for run in range(2):
        by_hand = totals_by_hand(world, agent, "it", 0, run, 60)
        np.testing.assert_allclose(totals_of(result, "it", run), by_hand, rtol=1e-12)


@every
def test_copies_pickles_and_files_go_on_as_if_nothing_happened(name: str, tmp_path: Path) -> None:
    d = menu()
    world, agent = world_of(d), taught(name, d, 40)
    agent.save(tmp_path / "agent")
    loaded = idb.Thompson.load(tmp_path / "agent", inference=CountsOfFeatures() if name == "own" else None)
    assert kept(loaded) == kept(agent)
    others = [loaded, agent.copy(), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))]
    ahead = go_on(world.copy(), agent, 30)
    for other in others:
        assert go_on(world.copy(), other, 30) == ahead
        assert kept(other) == kept(agent)
        for table, belief in agent.posterior().items():
            np.testing.assert_array_equal(other.posterior()[table].mean, belief.mean)


@every
def test_a_log_is_the_same_rounds(name: str) -> None:
    d, case = menu(), REGRESSING[name]
    agent = agent_of(name, d)
    played = play(agent.diagram, np.random.default_rng(3), 300, world=d)
    one_by_one, at_once = (how(agent.copy(), played) for how in (learn, learn_at_once))
    assert one_by_one.rounds == at_once.rounds == 300
    if not case.sequential:
        assert groups(at_once) == groups(one_by_one)
    first, second = one_by_one.posterior(), at_once.posterior()
    for table in d.learned:
        if name == "random":  # it begins elsewhere after each round, and ends elsewhere
            continue
        within = 0.1 if name in ("exact", "own") else 1.0  # what is latent is shared out by other priors on the way
        assert (abs(first[table].mean - second[table].mean) < within * first[table].sd + 0.02).all()
        regressions = first[table].regression, second[table].regression
        assert (abs(regressions[0].coefficients - regressions[1].coefficients) < regressions[0].sd).all()


def kinds(letters: str) -> idb.Diagram:
    """Items whose only feature is their kind."""
    d = idb.Diagram("kinds")
    items = [f"{kind}{k}" for k, kind in enumerate(letters)]
    frame = pd.DataFrame({"kind": list(letters)}, index=items)
    d.reward(d.observed("X", [d.decision("A", items)], idb.Learned("taste", features=frame)))
    return d


@every
def test_rows_that_are_alike_inform_one_another(name: str) -> None:
    agent = agent_of(name, kinds("aaaaaabbbbbb"))
    for k in [0, 1, 2, 3, 6, 7, 8, 9] * 15:
        agent.update({"A": f"a{k}" if k < 6 else f"b{k}"}, {"X": int(k < 6)})
    mean = agent.posterior()["taste"].mean
    assert (mean[4:6] > 0.8).all()
    assert (mean[10:] < 0.2).all()


@built_in
def test_moving_keeps_counts(name: str) -> None:
    before, after = ITEMS[:4], [*ITEMS[1:4], ITEMS[0], *ITEMS[4:]]
    agent = taught(name, seen_menu(before), 200)
    moved = agent.moved_to(seen_menu(after))
    back = moved.moved_to(seen_menu(before))
    assert moved.rounds == back.rounds == 200
    order = [before.index(item) for item in after[:4]]
    np.testing.assert_allclose(counts_of(moved)[:4], counts_of(agent)[order], atol=1e-11)
    np.testing.assert_allclose(counts_of(back), counts_of(agent), atol=1e-11)
    assert (counts_of(moved)[4:] == 0).all()


@built_in
def test_rows_that_are_new_start_from_their_features(name: str) -> None:
    agent = agent_of(name, kinds("aaaabbbb"))
    for k in [*range(8)] * 15:
        agent.update({"A": f"a{k}" if k < 4 else f"b{k}"}, {"X": int(k < 4)})
    mean = agent.moved_to(kinds("aaaabbbbab")).posterior()["taste"].mean
    assert mean[8] > 0.8
    assert mean[9] < 0.2


def counts_of(agent: idb.Thompson) -> np.ndarray:
    """The pseudo-counts of a table with its declared prior, less that: whole numbers but for rounding, as all was seen."""
    learner = agent.learner
    floats = learner.with_declared_priors(agent.state).floats[: learner.evidence.live]
    return (floats - 1.0).reshape(-1, 3)


@built_in
def test_rows_that_are_gone_still_inform_the_regression(name: str) -> None:
    frame, d, other = catalogue(), seen_menu(), seen_menu(ITEMS[:2])
    agent = taught(name, d, 300)
    moved, alone = agent.moved_to(other), agent_of(name, other)
    assert frame.shape[0] > 2
    assert moved.carried is not None
    assert moved.carried.tables["taste"].retired == 4
    known = moved.posterior()["taste"].regression
    blank = alone.posterior()["taste"].regression
    assert known is not None and blank is not None  # noqa: PT018
    assert (known.sd[0] < blank.sd[0]).all()
    played = play(d, np.random.default_rng(9), 20)
    late = learn(moved.copy(), [p._replace(action={"A": ITEMS[4]}) for p in played])
    assert late.rounds == 320


@pytest.mark.parametrize("name", [name for name in BUILT_IN if FORGET in REGRESSING[name].make().capabilities])
def test_what_was_learned_fades_and_regressions_with_it(name: str) -> None:
    d = seen_menu()
    agent = agent_of(name, d, forget=idb.Forget(half_life=10))
    played = play(agent.diagram, np.random.default_rng(1), 40, world=d)
    learn(agent, [p._replace(action={"A": ITEMS[0]}, observation={"X": 2}) for p in played])
    strong = agent.posterior()["taste"]
    learn(agent, [p._replace(action={"A": ITEMS[1]}, observation={"X": 0}) for p in played * 3])
    faded = agent.posterior()["taste"]
    assert faded.rounds[0] < 0.1 < 10 < strong.rounds[0]
    assert faded.mean[0, 2] < strong.mean[0, 2]
    total = sum(faded.rounds)
    assert total == pytest.approx(1 / (1 - 0.5 ** (1 / 10)), rel=0.15)  # as many rounds as are left in the long run


@pytest.mark.parametrize("name", [name for name in BUILT_IN if REGRESSING[name].revisable])
def test_rounds_that_are_taken_back_leave_nothing(name: str) -> None:
    d = seen_menu()
    agent = taught(name, d, 50)
    before = counts_of(agent)
    for value in (0, 2):
        agent.update({"A": ITEMS[2]}, {"X": value})
        agent.revise({"A": ITEMS[2]}, {"X": value}, {"X": 1})
        agent.revise({"A": ITEMS[2]}, {"X": 1}, None)
    np.testing.assert_allclose(counts_of(agent), before, atol=1e-11)
    assert agent.rounds == 50


@every
def test_questions_change_nothing_and_rejected_rounds_change_nothing(name: str) -> None:
    agent = taught(name, menu(), 20)
    before = knowledge(agent)
    context, action = {"segment": "new"}, {"A1": "tea", "A2": "milk"}
    agent.posterior(), agent.propensity(action, context, draws=5), agent.best_action(context), agent.draws(3)
    with pytest.raises(IdbanditsError):
        agent.update(action, {"X1": 7}, context)
    assert knowledge(agent) == before


def test_an_own_inference_equals_the_built_in_one() -> None:
    d = seen_menu()
    world, own, exact = world_of(d), agent_of("own", d), agent_of("exact", d)
    assert go_on(world.copy(7), own, 80) == go_on(world.copy(7), exact, 80)
    for table, belief in exact.posterior().items():
        np.testing.assert_allclose(own.posterior()[table].mean, belief.mean, rtol=1e-12)


def test_a_state_without_its_prior_is_rejected() -> None:
    class Odd(CountsOfFeatures):
        def start(self, model: Any, evidence: Any, rng: Any) -> Any:
            state = super().start(model, evidence, rng)
            return state._replace(floats=state.floats[: evidence.learned])

    with pytest.raises(IdbanditsError, match=r"inference 'Odd': floats of a state must be .* at least 36 float64"):
        idb.Thompson(seen_menu(), Odd())
