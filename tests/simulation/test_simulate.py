"""Simulations: the fused loop against stepping by hand, other diagrams, seeds, workers, checkpoints, invalid arguments."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from error_checks import assert_raises
from idbandits import models, simulate
from idbandits.errors import IdbanditsError, ImpossibleObservationError
from inferences import INFERENCES, agent_of, every
from internals import begin, knowledge, random_numbers
from played_rounds import go_on, totals_by_hand, totals_of, world_of
from simulation_cases import WORLDS, Greedy, Seeded, Wrapped, assert_same_totals, coin_world, coins

# -- the fused loop ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", WORLDS)
def test_the_fused_loop_does_what_act_and_update_do(where: str) -> None:
    world = WORLDS[where]()
    learners = {name: agent_of(name, world.diagram, seed=3) for name in INFERENCES}
    if where == "cascade":  # where exact inference needs no revealed diagram
        learners["exact, not revealed"] = idb.Thompson(world.diagram, "exact", seed=3)
    rounds = 70 if where.startswith("random") else 150
    result = simulate(world, learners, rounds, runs=2, seed=5, progress=False, checkpoints="every")
    for name, learner in learners.items():
        wanted, totals = totals_by_hand(world, learner, name, 5, 1, rounds), totals_of(result, name, 1)
        np.testing.assert_array_equal(totals[:, 0], wanted[:, 0], err_msg=name)
        np.testing.assert_allclose(totals[:, 1], wanted[:, 1], rtol=1e-12, atol=1e-12, err_msg=name)


def assert_as_by_hand(world: idb.World, learner: Any, rounds: int, run: int = 0) -> None:
    """Assert that totals of a simulated run equal those of calls of act and update."""
    result = simulate(world, {"it": learner}, rounds, runs=run + 1, progress=False, checkpoints="every")
    wanted = totals_by_hand(world, learner, "it", 0, run, rounds)
    np.testing.assert_allclose(totals_of(result, "it", run), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "inference",
    [
        idb.Variational(sweeps=5, tolerance=1e-3, start="random"),
        idb.Variational(literal=True, start="prior"),
        idb.Incremental(3, literal=True),
        idb.Gibbs(3),
        idb.EP(2, damping=1.0),
        idb.Particles(7, width=0.05),
    ],
    ids=lambda inference: type(inference).__name__,
)
def test_settings_hold_inside_the_loop(inference: Any) -> None:
    world = WORLDS["position-based"]()
    assert_as_by_hand(world, idb.Thompson(world.diagram, inference), 300)


def test_many_rounds_that_need_room_for_groups() -> None:
    d = models.position_based(30, 3)
    assert_as_by_hand(world_of(d), idb.Thompson(d, "variational"), 400)


def test_an_agent_continues_from_its_belief() -> None:
    world = WORLDS["position-based"]()
    agent = idb.Thompson(world.diagram, "variational", seed=1)
    go_on(world.copy(seed=8), agent, 200)
    assert_as_by_hand(world, agent, 100, run=1)


# -- other diagrams ------------------------------------------------------------------------------------------------


@every
def test_rounds_that_a_wrong_model_rules_out_are_skipped_and_raise_a_warning(name: str) -> None:
    truth = models.cascade_inverted(5, 2)
    world = idb.World(truth, {"attraction": [0.1, 0.3, 0.5, 0.7, 0.9]})
    case = INFERENCES[name]
    agent = idb.Thompson(models.cascade(5, 2).revealed() if name == "own" else models.cascade(5, 2), case.make())
    with pytest.warns(UserWarning, match="'wrong'.*probability zero") as caught:
        result = simulate(world, {"wrong": agent}, 200, runs=2, seed=1, progress=False, checkpoints="every")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    skipped = 0
    for run in range(2):
        w, a = begin(world, agent, "wrong", 1, run)
        totals = np.zeros((200, 2))
        for t in range(200):
            action = a.act()
            outcome = w.step(action)
            try:
                a.update(action, outcome.seen_by(a.diagram))
            except ImpossibleObservationError:
                skipped += 1
                ruled_out = True
            else:
                ruled_out = False
            if name != "own":  # which also sees that nobody goes on after a click in the cascade model
                assert ruled_out == (outcome.observation == {"C1": 1, "C2": 1})
            totals[t] = outcome.reward, outcome.regret
        np.testing.assert_allclose(totals_of(result, "wrong", run), totals.cumsum(axis=0), rtol=1e-12)
        assert a.rounds < 200
    assert result.settings["ruled_out"] == {"wrong": skipped}
    assert skipped > 10


def test_no_warning_if_no_round_is_ruled_out() -> None:
    world = WORLDS["cascade"]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = simulate(world, {"right": idb.Thompson(world.diagram)}, 100, runs=2, progress=False)
    assert result.settings["ruled_out"] == {"right": 0}


def shuffled_shop() -> idb.Diagram:
    """Return another diagram of the shop: other orders, fewer drinks, more moods and segments, simpler tables."""
    d = idb.Diagram("shuffled")
    hour = d.context("hour", 3)
    second = d.decision("second", ["water", "juice"])
    segment = d.context("segment", ["gone", "loyal", "new"])
    first = d.decision("first", ["juice", "tea", "coffee"])
    mood = d.observed("mood", [second, segment], states=["good", "awful", "fair", "bad"])
    d.reward(mood, lambda m: {"awful": -2.0, "bad": -1.0, "fair": 0.5, "good": 2.0}[m])
    d.reward(d.observed("sip", [first, hour, segment]))
    d.all_different()
    return d


@every
def test_nodes_and_labels_are_matched_by_name(name: str) -> None:
    assert_as_by_hand(WORLDS["shop"](), agent_of(name, shuffled_shop()), 200)


@pytest.mark.parametrize(
    ("world", "learner", "words"),
    [
        (coins(), coins(decision="penny"), ("'it'", "'coins'", "decision", "coin")),
        (coins(), coins(choices=4), ("'coin'", "3", "0 to 2")),
        (coins(choices=["a", "b"]), coins(choices=["a", "c"]), ("'coin'", "'c'", "'a', 'b'")),
        (coins(), coins(observed="tails"), ("'tails'", "chance node")),
        (coins(), coins(observed="coin2"), ("'coin2'", "chance node")),
        (coins(states=3), coins(), ("'heads'", "2", "0 to 1")),
        (coins(states=[0, 1, "edge"]), coins(states=[1, 0]), ("'heads'", "'edge'")),
        (coins(), coins(context="user"), ("context", "'user'")),
        (coins(context="user"), coins(context="page"), ("context",)),
        (coins(context="user", values=["a", "b"]), coins(context="user", values=["a"]), ("'user'", "'b'")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("plain", [False, True])
def test_diagrams_that_do_not_fit_are_rejected(
    world: idb.Diagram, learner: idb.Diagram, words: tuple[str, ...], plain: bool
) -> None:
    agent: Any = idb.Thompson(learner, "moments")
    if plain:
        agent = Wrapped(agent)
    assert_raises(IdbanditsError, words, lambda: simulate(world_of(world), {"it": agent}, 10, runs=1, progress=False))


def test_an_action_that_the_world_forbids_is_rejected() -> None:
    world = world_of(models.cascade(3, 2))
    with pytest.raises(IdbanditsError, match=r"A1.*A2|all_different"):
        simulate(world, {"it": idb.Thompson(models.cascade(3, 2, distinct=False))}, 300, runs=1, progress=False)


# -- seeds and workers ---------------------------------------------------------------------------------------------


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    world = WORLDS["position-based"]()
    learners: dict[str, Any] = {name: agent_of(name, world.diagram) for name in INFERENCES}
    learners["python"] = Wrapped(idb.Thompson(world.diagram, "moments", seed=2))
    frames = [simulate(world, learners, 120, runs=3, seed=4, workers=w, progress=False).frame for w in (1, 2, 3, None)]
    for frame in frames[1:]:
        assert_same_totals(frames[0], frame)


@every
def test_results_depend_on_the_seed(name: str) -> None:
    world, learners = coin_world(), {"it": agent_of(name, coins(), seed=1)}
    one, again, other = (simulate(world, learners, 500, runs=2, seed=s, progress=False).frame for s in (3, 3, 4))
    assert_same_totals(one, again)
    assert not one["reward"].equals(other["reward"])
    first, second = (one[one["run"] == run]["reward"].to_numpy() for run in (0, 1))
    assert (first != second).any()


@every
def test_results_do_not_depend_on_seeds_of_the_arguments(name: str) -> None:
    frames = []
    for seed in (1, 99):
        world = idb.World(coins(), coin_world().means, seed=seed)
        frames.append(simulate(world, {"it": agent_of(name, coins(), seed)}, 500, runs=2, progress=False).frame)
    assert_same_totals(*frames)


def test_more_runs_and_learners_do_not_change_the_others() -> None:
    world = WORLDS["position-based"]()
    d = world.diagram
    alone = simulate(world, {"a": idb.Thompson(d, "ep")}, 100, runs=2, progress=False).frame
    mixed = {
        "b": idb.Thompson(d, "gibbs"),
        "a": idb.Thompson(d, "ep"),
        "c": Wrapped(idb.Thompson(d, "moments", seed=1)),
    }
    more = simulate(world, mixed, 100, runs=3, progress=False).frame
    assert_same_totals(alone, more[(more["learner"] == "a") & (more["run"] < 2)])


def test_random_numbers_of_a_learner_depend_on_its_name() -> None:
    world = WORLDS["position-based"]()
    learners = {name: idb.Thompson(world.diagram, "moments") for name in "abé"}
    frame = simulate(world, learners, 100, runs=1, progress=False).frame
    a, b, c = (frame[frame["learner"] == n]["reward"].to_numpy() for n in "abé")
    assert (a != b).any()
    assert (b != c).any()


@pytest.mark.parametrize("seed", [0, 7, 2**70])
def test_no_run_meets_numbers_that_a_user_draws_from_the_same_seed(seed: int) -> None:
    def first(*seeds: Any) -> set[float]:
        return {np.random.default_rng(one).random() for one in seeds}

    theirs = first(
        seed, *([seed, *more] for more in ((0,), (1,), (0, 0), (1, 0))),
        *np.random.SeedSequence(seed).spawn(3), *np.random.SeedSequence(seed).spawn(1)[0].spawn(2),
    )  # fmt: skip
    purposes = ("world", "learner world", "learner idTS", "truth", "means")
    ours = first(*(random_numbers(seed, run, purpose) for run in range(3) for purpose in purposes))
    assert len(ours) == 15
    assert not ours & theirs


@every
def test_agents_passed_are_not_mutated(name: str) -> None:
    world = WORLDS["position-based"]()
    agent, inner = agent_of(name, world.diagram), Wrapped(agent_of(name, world.diagram))
    before = [knowledge(one) for one in (agent, inner.agent)], world.copy()
    simulate(world, {"it": agent, "python": inner}, 100, runs=2, progress=False)
    assert [knowledge(one) for one in (agent, inner.agent)] == before[0]
    action = agent.act()
    assert [world.step(action) for _ in range(5)] == [before[1].step(action) for _ in range(5)]


# -- checkpoints, settings, progress -------------------------------------------------------------------------------


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize(
    ("rounds", "checkpoints", "marks"),
    [
        (1, 200, [1]),
        (1, "every", [1]),
        (5, 200, [1, 2, 3, 4, 5]),
        (5, "every", [1, 2, 3, 4, 5]),
        (10, 5, [2, 4, 6, 8, 10]),
        (10, 1, [10]),
        (7, 3, [2, 5, 7]),
        (1000, 4, [250, 500, 750, 1000]),
    ],
)
def test_checkpoints(rounds: int, checkpoints: Any, marks: list[int], python: bool) -> None:
    agent: Any = idb.Thompson(coins(), "exact", seed=0)
    agent = Wrapped(agent) if python else agent
    every = simulate(coin_world(), {"it": agent}, rounds, runs=2, progress=False, checkpoints="every").frame
    some = simulate(coin_world(), {"it": agent}, rounds, runs=2, progress=False, checkpoints=checkpoints).frame
    assert some["round"].tolist() == marks * 2
    assert some["run"].tolist() == [0] * len(marks) + [1] * len(marks)
    assert_same_totals(every[every["round"].isin(marks)], some)
    for _, run in some.groupby("run"):
        assert (run["seconds"].diff().dropna() >= 0).all()
        assert (run["seconds"] >= 0).all()


def test_the_frame_and_the_settings() -> None:
    learners = {"b": idb.Thompson(coins()), "a": Greedy("coin", 3, "heads")}
    result = simulate(coin_world(), learners, rounds=50, runs=2, seed=9, progress=False)
    assert list(result.frame.columns) == ["learner", "run", "round", "reward", "regret", "seconds"]
    assert result.frame["learner"].unique().tolist() == ["b", "a"]
    assert len(result.frame) == 2 * 2 * 50
    assert result.settings == {
        "world": "coins", "learners": ["b", "a"], "rounds": 50, "runs": 2, "seed": 9, "interrupted": False,
        "ruled_out": {"b": 0, "a": 0}, "reference_gap": 0.0,
    }  # fmt: skip
    assert result.summary()["learner"].tolist() == ["b", "a"]


def test_progress_is_shown_if_asked_for(
    capsys: pytest.CaptureFixture[str], without_notices: Callable[[str], str]
) -> None:
    simulate(coin_world(), {"it": idb.Thompson(coins())}, 100, runs=2, progress=False)
    out, err = capsys.readouterr()
    assert (out, without_notices(err)) == ("", "")
    simulate(coin_world(), {"it": idb.Thompson(coins()), "p": Greedy("coin", 3, "heads")}, 100, runs=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "400/400" in err


# -- mistakes ------------------------------------------------------------------------------------------------------


class NoUpdate:
    """Not a learner."""

    def act(self) -> dict[str, Any]:
        return {"coin": 0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"world": None}, ("world", "None")),
        ({"world": coins()}, ("world", "World")),
        ({"world": idb.World}, ("world", "World")),
        ({"learners": {}}, ("learners", "{}")),
        ({"learners": None}, ("learners", "None")),
        ({"learners": [Seeded()]}, ("learners",)),
        ({"learners": Seeded()}, ("learners",)),
        ({"learners": {1: Seeded()}}, ("learners", "1")),
        ({"learners": {"it": NoUpdate()}}, ("'it'", "update")),
        ({"learners": {"good": Seeded(), "bad": 3}}, ("'bad'", "act", "3")),
        ({"learners": {"it": Seeded}}, ("'it'", "Seeded")),
        ({"learners": {"it": idb.Thompson}}, ("'it'", "Thompson")),
        *(({name: value}, (name, repr(value))) for name in ("rounds", "runs") for value in (0, -1, 1.5, 10.0, "10", None, True)),
        ({"rounds": 10**30}, ("rounds", "to 1000000000000", repr(10**30))),
        *(({"seed": value}, ("seed", repr(value))) for value in (-1, 0.5, None, "0", True)),
        *(({"workers": value}, ("workers", repr(value))) for value in (0, -2, 1.0, "2", True)),
        *(({"checkpoints": value}, ("checkpoints", repr(value))) for value in (0, -1, 2.5, "all", None, True)),
    ],
)  # fmt: skip
def test_invalid_arguments_are_rejected(arguments: dict[str, Any], words: tuple[str, ...]) -> None:
    good = {"world": coin_world(), "learners": {"it": Seeded()}, "rounds": 10, "runs": 1, "progress": False}
    assert_raises(IdbanditsError, words, lambda: simulate(**(good | arguments)))


# -- memory --------------------------------------------------------------------------------------------------------


def test_long_runs_need_no_more_memory() -> None:
    code = """
        import resource
        import idbandits as idb
        d = idb.models.cascade(20, 2, learn_conditionals=True)
        means = {"attraction": [0.05 * k for k in range(20)], "click": [[0, 0], [0, 1]], "examination": [[0, 1], [0, 0]]}
        world = idb.World(d, means)
        agent = idb.Thompson(d, "variational")
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        idb.simulate(world, {"it": agent}, 1000, runs=2, workers=1, progress=False)
        before = peak()
        idb.simulate(world, {"it": agent}, 5_000, runs=1, workers=1, progress=False)
        d = idb.models.cascade(20, 2)
        world = idb.World(d, {"attraction": [0.05 * k for k in range(20)]})
        idb.simulate(world, {"it": idb.Thompson(d, "variational")}, 1_000_000, runs=1, workers=1, progress=False)
        print(peak() - before)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    kilobytes = int(done.stdout)
    assert kilobytes < 50_000
