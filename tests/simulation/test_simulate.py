"""Simulations: the fused loop against stepping by hand, seeds, workers, other diagrams, learners in Python, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from told import told

import idbandits as idb
from diagrams import random_diagram, random_means
from idbandits import models
from idbandits.errors import DiagramError, IdbanditsError
from idbandits.inference import BY_NAME
from idbandits.inference.groups import CAPACITY, USED
from idbandits.simulation.simulate import begin, random_numbers, simulate

TOTALS = ["learner", "run", "round", "reward", "regret"]


# -- worlds --------------------------------------------------------------------------------------------------------


def contextual() -> idb.Diagram:
    """Two contexts, declared around the decisions, and labels everywhere."""
    d = idb.Diagram("contextual")
    segment = d.context("segment", ["new", "loyal"])
    first = d.decision("first", ["tea", "coffee", "juice"])
    hour = d.context("hour", 3)
    second = d.decision("second", ["juice", "tea", "water"])
    taste = d.latent("taste", [first, segment])
    d.reward(d.observed("sip", [taste, hour], lambda t, h: (0.2, 0.5, 1.0)[h] * t))
    d.reward(d.observed("gulp", [second, segment], idb.Learned("thirst")), lambda v: 0.7 * v)
    d.all_different()
    return d


def three_states() -> idb.Diagram:
    """Nodes of three states, labelled or not, latent and observed."""
    d = idb.Diagram("three states")
    a, b = d.decision("A", 4), d.decision("B", ["x", "y"])
    mood = d.latent("mood", [a], states=3)
    said = d.observed("said", [mood, b], states=["bad", "fair", "good"])
    d.observed("hint", [mood], [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]], states=3)
    d.reward(said, lambda s: {"bad": -1.0, "fair": 0.25, "good": 2.0}[s])
    return d


def random_world(seed: int) -> idb.World:
    rng = np.random.default_rng(seed)
    d = random_diagram(rng, most_chance=6)
    chances = {n.name: rng.dirichlet(np.ones(n.states)) for n in d.of_kind("context")}
    return idb.World(d, random_means(rng, d), contexts=chances)


def world_of(d: idb.Diagram, seed: int = 0) -> idb.World:
    return idb.World(d, random_means(np.random.default_rng(seed), d))


WORLDS: dict[str, Callable[[], idb.World]] = {
    "cascade": lambda: world_of(models.cascade(6, 2)),
    "cascade, learned": lambda: world_of(models.cascade(5, 2, learn_conditionals=True)),
    "position-based": lambda: world_of(models.position_based(5, 2)),
    "rank-1": lambda: world_of(models.rank1(3, 4)),
    "user browsing": lambda: world_of(models.user_browsing(5, 3)),
    "contextual": lambda: idb.World(
        contextual(),
        {"taste": [[0.9, 0.1], [0.2, 0.7], [0.4, 0.5]], "thirst": [[0.3, 0.3], [0.9, 0.2], [0.5, 0.6]]},
        contexts={"segment": {"loyal": 0.2, "new": 0.8}, "hour": [0.1, 0.6, 0.3]},
    ),
    "three states": lambda: world_of(three_states(), 1),
    **{f"random {seed}": lambda seed=seed: random_world(seed) for seed in range(14)},
}


def learner_of(d: idb.Diagram, inference: Any) -> idb.Thompson:
    """An agent with this inference; for exact, in the revealed diagram where the diagram itself is not exact."""
    try:
        return idb.Thompson(d, inference, seed=3)
    except DiagramError:
        assert inference == "exact"
        return idb.Thompson(d.revealed(), inference, seed=3)


def by_hand(world: idb.World, learner: Any, name: str, seed: int, run: int, rounds: int) -> np.ndarray:
    """Total reward and regret after every round, stepping act and update."""
    world, learner = begin(world, learner, name, seed, run)
    contextual = bool(world.diagram.of_kind("context"))
    totals = np.zeros((rounds, 2))
    reward = regret = 0.0
    for t in range(rounds):
        given = {"context": world.context()} if contextual else {}
        action = learner.act(**given)
        outcome = world.step(action, **given)
        learner.update(action, outcome.seen_by(learner.diagram), **given)
        reward, regret = reward + outcome.reward, regret + outcome.regret
        totals[t] = reward, regret
    return totals


def totals_of(result: idb.Result, name: str, run: int) -> np.ndarray:
    frame = result.frame
    return frame[(frame["learner"] == name) & (frame["run"] == run)][["reward", "regret"]].to_numpy()


def same_totals(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(
        one[TOTALS].reset_index(drop=True), other[TOTALS].reset_index(drop=True), check_exact=True
    )


# -- the fused loop ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", WORLDS)
def test_the_fused_loop_does_what_act_and_update_do(where: str) -> None:
    world = WORLDS[where]()
    learners = {name: learner_of(world.diagram, name) for name in BY_NAME}
    rounds = 70 if where.startswith("random") else 150
    result = simulate(world, learners, rounds, runs=2, seed=5, progress=False, checkpoints="every")
    for name, learner in learners.items():
        wanted = by_hand(world, learner, name, 5, 1, rounds)
        found = totals_of(result, name, 1)
        np.testing.assert_array_equal(found[:, 0], wanted[:, 0], err_msg=name)
        np.testing.assert_allclose(found[:, 1], wanted[:, 1], rtol=1e-12, atol=1e-12, err_msg=name)


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
    agent = idb.Thompson(world.diagram, inference)
    result = simulate(world, {"it": agent}, 300, runs=1, progress=False, checkpoints="every")
    wanted = by_hand(world, agent, "it", 0, 0, 300)
    np.testing.assert_allclose(totals_of(result, "it", 0), wanted, rtol=1e-12)


def test_many_rounds_that_need_room_for_groups() -> None:
    d = models.position_based(30, 3)
    world = world_of(d)
    agent = idb.Thompson(d, "variational")
    result = simulate(world, {"it": agent}, 400, runs=1, progress=False, checkpoints="every")
    np.testing.assert_allclose(totals_of(result, "it", 0), by_hand(world, agent, "it", 0, 0, 400), rtol=1e-12)


def test_an_agent_goes_on_from_what_it_knows() -> None:
    world = WORLDS["position-based"]()
    agent = idb.Thompson(world.diagram, "variational", seed=1)
    teacher = world.copy(seed=8)
    for _ in range(200):
        action = agent.act()
        agent.update(action, teacher.step(action).observation)
    result = simulate(world, {"it": agent}, 100, runs=2, progress=False, checkpoints="every")
    np.testing.assert_allclose(totals_of(result, "it", 1), by_hand(world, agent, "it", 0, 1, 100), rtol=1e-12)


# -- other diagrams ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["position-based", "user browsing", "contextual", "three states", "random 3"])
def test_a_learner_that_sees_all(where: str) -> None:
    world = WORLDS[where]()
    agent = idb.Thompson(world.diagram.revealed(), "exact")
    result = simulate(world, {"idTSfull": agent}, 100, runs=1, progress=False, checkpoints="every")
    wanted = by_hand(world, agent, "idTSfull", 0, 0, 100)
    np.testing.assert_allclose(totals_of(result, "idTSfull", 0), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("inference", BY_NAME)
def test_rounds_that_a_wrong_model_rules_out_are_skipped_counted_and_warned_of(inference: str) -> None:
    truth = models.cascade_inverted(5, 2)
    world = idb.World(truth, {"attraction": [0.1, 0.3, 0.5, 0.7, 0.9]})
    agent = idb.Thompson(models.cascade(5, 2), inference)
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
            if outcome.observation == {"C1": 1, "C2": 1}:  # in the cascade model, a click ends the search
                skipped += 1
                with pytest.raises(IdbanditsError):
                    a.update(action, outcome.observation)
            else:
                a.update(action, outcome.observation)
            totals[t] = outcome.reward, outcome.regret
        np.testing.assert_allclose(totals_of(result, "wrong", run), totals.cumsum(axis=0), rtol=1e-12)
        assert a.rounds < 200
    assert result.settings["ruled_out"] == {"wrong": skipped}
    assert skipped > 10


def test_nothing_is_warned_of_where_nothing_is_ruled_out() -> None:
    world = WORLDS["cascade"]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = simulate(world, {"right": idb.Thompson(world.diagram)}, 100, runs=2, progress=False)
    assert result.settings["ruled_out"] == {"right": 0}


def shuffled() -> idb.Diagram:
    """The contextual world as somebody else wrote it down: other orders, fewer drinks, simpler tables."""
    d = idb.Diagram("shuffled")
    hour = d.context("hour", 3)
    second = d.decision("second", ["water", "juice"])
    segment = d.context("segment", ["gone", "loyal", "new"])
    first = d.decision("first", ["juice", "tea", "coffee"])
    d.reward(d.observed("gulp", [second, segment]))
    d.reward(d.observed("sip", [first, hour, segment]))
    d.all_different()
    return d


@pytest.mark.parametrize("inference", BY_NAME)
def test_other_orders_and_labels_are_joined_by_name(inference: str) -> None:
    world = WORLDS["contextual"]()
    agent = idb.Thompson(shuffled(), inference)
    result = simulate(world, {"it": agent}, 200, runs=1, progress=False, checkpoints="every")
    wanted = by_hand(world, agent, "it", 0, 0, 200)
    np.testing.assert_allclose(totals_of(result, "it", 0), wanted, rtol=1e-12, atol=1e-12)


def test_observed_labels_in_another_order() -> None:
    world = WORLDS["three states"]()
    d = idb.Diagram("other labels")
    b, a = d.decision("B", ["y", "x"]), d.decision("A", 4)
    said = d.observed("said", [a, b], states=["good", "awful", "fair", "bad"])
    d.reward(said, lambda s: {"awful": -2.0, "bad": -1.0, "fair": 0.25, "good": 2.0}[s])
    agent = idb.Thompson(d)
    result = simulate(world, {"it": agent}, 200, runs=1, progress=False, checkpoints="every")
    wanted = by_hand(world, agent, "it", 0, 0, 200)
    np.testing.assert_allclose(totals_of(result, "it", 0), wanted, rtol=1e-12, atol=1e-12)


def coins(
    decision: str = "coin", choices: Any = 3, observed: str = "heads", states: Any = 2, **more: Any
) -> idb.Diagram:
    d = idb.Diagram("coins")
    parents = [d.decision(decision, choices)]
    if "context" in more:
        parents.append(d.context(more["context"], more.get("values", 2)))
    node = d.observed(observed, parents, states=states)
    d.reward(node, lambda v: float(v == 1))
    return d


@pytest.mark.parametrize(
    ("world", "learner", "words"),
    [
        (coins(), coins(decision="penny"), ("'it'", "'coins'", "decision", "coin")),
        (coins(), coins(choices=4), ("'coin'", "3", "0 to 2")),
        (coins(choices=["a", "b"]), coins(choices=["a", "c"]), ("'coin'", "'c'", "'a', 'b'")),
        (coins(), coins(observed="tails"), ("'tails'", "no chance node")),
        (coins(), coins(observed="coin2"), ("'coin2'", "no chance node")),
        (coins(states=3), coins(), ("'heads'", "2", "0 to 1")),
        (coins(states=[0, 1, "edge"]), coins(states=[1, 0]), ("'heads'", "'edge'")),
        (coins(), coins(context="user"), ("context", "'user'")),
        (coins(context="user"), coins(context="page"), ("context",)),
        (coins(context="user", values=["a", "b"]), coins(context="user", values=["a"]), ("'user'", "'b'")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("plain", [False, True])
def test_diagrams_that_do_not_fit_are_refused(
    world: idb.Diagram, learner: idb.Diagram, words: tuple[str, ...], plain: bool
) -> None:
    agent: Any = idb.Thompson(learner, "moments")
    if plain:
        agent = Wrapped(agent)
    with pytest.raises(IdbanditsError) as raised:
        simulate(world_of(world), {"it": agent}, 10, runs=1, progress=False)
    assert all(word in str(raised.value) for word in words), raised.value


def test_an_action_that_the_world_forbids_is_refused() -> None:
    world = world_of(models.cascade(3, 2))
    with pytest.raises(IdbanditsError, match=r"A1.*A2|all_different"):
        simulate(world, {"it": idb.Thompson(models.cascade(3, 2, distinct=False))}, 300, runs=1, progress=False)


# -- seeds and workers ---------------------------------------------------------------------------------------------


class Wrapped:
    """A Thompson agent that the simulation takes for a learner in Python."""

    def __init__(self, agent: idb.Thompson) -> None:
        self.agent = agent
        self.diagram = agent.diagram

    def __deepcopy__(self, memo: dict[int, Any]) -> Wrapped:
        return Wrapped(self.agent.copy())

    def act(self, **context: Any) -> dict[str, Any]:
        return self.agent.act(**context)

    def update(self, action: Mapping[str, Any], observation: Mapping[str, Any], **context: Any) -> None:
        self.agent.update(action, observation, **context)


class Greedy:
    """A learner without a diagram: the first choice that is not worse than the others so far."""

    def __init__(self, decision: str, choices: int, reward: str) -> None:
        self.decision, self.reward = decision, reward
        self.sums, self.times = [0.0] * choices, [0] * choices

    def act(self) -> dict[str, Any]:
        means = [s / n if n else 1.0 for s, n in zip(self.sums, self.times, strict=True)]
        return {self.decision: means.index(max(means))}

    def update(self, action: Mapping[str, Any], observation: Mapping[str, Any]) -> None:
        self.sums[action[self.decision]] += observation[self.reward]
        self.times[action[self.decision]] += 1


def coin_world() -> idb.World:
    return idb.World(coins(), {"heads": [0.2, 0.5, 0.8]})


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    world = WORLDS["position-based"]()
    learners: dict[str, Any] = {name: learner_of(world.diagram, name) for name in BY_NAME}
    learners["python"] = Wrapped(idb.Thompson(world.diagram, "moments", seed=2))
    frames = [simulate(world, learners, 120, runs=3, seed=4, workers=w, progress=False).frame for w in (1, 2, 3, None)]
    for frame in frames[1:]:
        same_totals(frames[0], frame)


@pytest.mark.parametrize("inference", BY_NAME)
def test_the_seed_decides(inference: str) -> None:
    world, learners = coin_world(), {"it": idb.Thompson(coins(), inference, seed=1)}
    one, again, other = (simulate(world, learners, 500, runs=2, seed=s, progress=False).frame for s in (3, 3, 4))
    same_totals(one, again)
    assert not one["reward"].equals(other["reward"])
    first, second = (one[one["run"] == run]["reward"].to_numpy() for run in (0, 1))
    assert (first != second).any()


@pytest.mark.parametrize("inference", BY_NAME)
def test_the_seeds_of_what_is_passed_do_not_decide(inference: str) -> None:
    frames = [
        simulate(
            idb.World(coins(), coin_world().means, seed=s), {"it": idb.Thompson(coins(), inference, seed=s)}, 500, runs=2, progress=False
        ).frame
        for s in (1, 99)
    ]  # fmt: skip
    same_totals(*frames)


def test_more_runs_and_more_learners_leave_the_others_as_they_are() -> None:
    world = WORLDS["position-based"]()
    d = world.diagram
    alone = simulate(world, {"a": idb.Thompson(d, "ep")}, 100, runs=2, progress=False).frame
    mixed = {
        "b": idb.Thompson(d, "gibbs"),
        "a": idb.Thompson(d, "ep"),
        "c": Wrapped(idb.Thompson(d, "moments", seed=1)),
    }
    more = simulate(world, mixed, 100, runs=3, progress=False).frame
    kept = more[(more["learner"] == "a") & (more["run"] < 2)].assign(learner="a")
    same_totals(alone.assign(learner="a"), kept)


def test_names_decide_the_random_numbers_of_a_learner() -> None:
    world = WORLDS["position-based"]()
    frame = simulate(
        world, {n: idb.Thompson(world.diagram, "exact" if n == "x" else "moments") for n in "abé"}, 100, runs=1, progress=False
    ).frame  # fmt: skip
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


# -- learners in Python --------------------------------------------------------------------------------------------


def test_a_learner_in_python() -> None:
    learner = Greedy("coin", 3, "heads")
    result = simulate(coin_world(), {"greedy": learner}, 200, runs=2, progress=False, checkpoints="every")
    assert learner.times == [0, 0, 0]
    world, fresh = begin(coin_world(), learner, "greedy", 0, 1)
    rewards, regrets = [], []
    for _ in range(200):
        action = fresh.act()
        outcome = world.step(action)
        fresh.update(action, outcome.observation)
        rewards.append(outcome.reward)
        regrets.append(outcome.regret)
    found = totals_of(result, "greedy", 1)
    np.testing.assert_array_equal(found[:, 0], np.cumsum(rewards))
    np.testing.assert_allclose(found[:, 1], np.cumsum(regrets), rtol=1e-12)


class Contextual:
    """Notes what it is called with."""

    calls: ClassVar[list[tuple[str, Any]]] = []  # of all copies

    def act(self, context: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append(("act", dict(context)))
        return {"second": "water", "first": "tea" if context["segment"] == "new" else "juice"}

    def update(self, action: Mapping[str, Any], observation: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        self.calls.append(("update", dict(context)))
        assert set(observation) == {"sip", "gulp"}
        assert action["first"] == ("tea" if context["segment"] == "new" else "juice")


def test_a_learner_in_python_with_contexts() -> None:
    Contextual.calls.clear()
    world = WORLDS["contextual"]()
    result = simulate(world, {"it": Contextual()}, 300, runs=1, progress=False)
    acts, updates = Contextual.calls[::2], Contextual.calls[1::2]
    assert [c for _, c in acts] == [c for _, c in updates]
    assert {kind for kind, _ in acts} == {"act"}
    assert len({tuple(c.items()) for _, c in acts}) == 6
    wanted = sum(
        world.regret({"second": "water", "first": "tea" if c["segment"] == "new" else "juice"}, c) for _, c in acts
    )
    assert result.frame["regret"].iloc[-1] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("where", ["position-based", "contextual", "random 0"])
def test_a_learner_with_a_diagram_in_python_meets_the_same_world(where: str) -> None:
    world = WORLDS[where]()
    agent = Wrapped(idb.Thompson(world.diagram.revealed(), "exact", seed=5))
    result = simulate(world, {"it": agent}, 100, runs=1, progress=False, checkpoints="every")
    wanted = by_hand(world, agent, "it", 0, 0, 100)
    np.testing.assert_allclose(totals_of(result, "it", 0), wanted, rtol=1e-12, atol=1e-12)


def test_all_learners_of_a_run_meet_the_same_luck() -> None:
    class Always(Greedy):
        def act(self) -> dict[str, Any]:
            return {"coin": 1}

    one, other = Always("coin", 3, "heads"), Always("coin", 3, "heads")
    frame = simulate(coin_world(), {"one": one, "other": other}, 300, runs=2, progress=False).frame
    rewards = [frame[frame["learner"] == n]["reward"].to_numpy() for n in ("one", "other")]
    np.testing.assert_array_equal(*rewards)


class Seeded:
    """A learner with random numbers of its own."""

    def __init__(self, seed: Any = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def act(self) -> dict[str, Any]:
        return {"coin": int(self.rng.integers(3))}

    def update(self, action: Mapping[str, Any], observation: Mapping[str, Any]) -> None:
        pass


def test_generators_of_learners_are_those_of_the_run() -> None:
    learner = Seeded(1)
    state = learner.rng.bit_generator.state
    frame = simulate(coin_world(), {"it": learner, "as": Seeded(1)}, 100, runs=2, progress=False).frame
    regrets = [g["regret"].to_numpy() for _, g in frame.groupby(["learner", "run"], observed=True)]
    for i in range(4):
        for j in range(i):
            assert (regrets[i] != regrets[j]).any()
    assert learner.rng.bit_generator.state == state


@pytest.mark.parametrize("inference", BY_NAME)
def test_agents_that_are_passed_stay_untouched(inference: str) -> None:
    world = WORLDS["position-based"]()
    agent = learner_of(world.diagram, inference)
    twin = agent.copy()
    inner = Wrapped(learner_of(world.diagram, inference))
    before = world.copy()
    simulate(world, {"it": agent, "python": inner}, 100, runs=2, progress=False)
    assert agent.rounds == inner.agent.rounds == 0
    assert [agent.act() for _ in range(5)] == [twin.act() for _ in range(5)]
    action = twin.act()
    assert [world.step(action) for _ in range(5)] == [before.step(action) for _ in range(5)]


def test_learners_that_hold_agents_are_copied_in_threads() -> None:
    code = """
        import idbandits as idb
        class Holder:
            def __init__(self, agent): self.agent = agent
            def act(self): return self.agent.act()
            def update(self, action, observation): self.agent.update(action, observation)
        d = idb.models.semi_bandit(4, 2)
        world = idb.World(d, {"mean": [0.1, 0.2, 0.3, 0.4]})
        holders = {str(k): Holder(idb.Thompson(d, "exact", seed=0)) for k in range(4)}
        frame = idb.simulate(world, holders, 20, runs=4, workers=4, progress=False).frame
        assert len(frame) == 20 * 4 * 4
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-300:]


def test_what_a_learner_raises_comes_out() -> None:
    class Broken(Greedy):
        def act(self) -> dict[str, Any]:
            if sum(self.times) == 10:
                raise ZeroDivisionError("after ten rounds")
            return super().act()

    with pytest.raises(ZeroDivisionError, match="after ten rounds"):
        simulate(coin_world(), {"it": Broken("coin", 3, "heads")}, 100, runs=4, progress=False)


def test_what_a_learner_does_wrong_is_said() -> None:
    class Wrong(Greedy):
        def act(self) -> dict[str, Any]:
            return {"coin": 7}

    with pytest.raises(IdbanditsError, match=r"'coin' cannot be 7.*0 to 2"):
        simulate(coin_world(), {"it": Wrong("coin", 3, "heads")}, 100, runs=1, progress=False)


# -- checkpoints ---------------------------------------------------------------------------------------------------


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
    same_totals(every[every["round"].isin(marks)], some)
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
        "ruled_out": {"b": 0, "a": 0},
    }  # fmt: skip
    assert result.summary()["learner"].tolist() == ["b", "a"]


def test_progress_is_shown_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(coin_world(), {"it": idb.Thompson(coins())}, 100, runs=2, progress=False)
    out, err = capsys.readouterr()
    assert (out, told(err)) == ("", "")
    simulate(coin_world(), {"it": idb.Thompson(coins()), "p": Greedy("coin", 3, "heads")}, 100, runs=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "400/400" in err


# -- mistakes ------------------------------------------------------------------------------------------------------


class NoUpdate:
    def act(self) -> dict[str, Any]:
        return {"coin": 0}


GOOD = {"it": Seeded()}


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
        *(({what: given}, (what, repr(given))) for what in ("rounds", "runs") for given in (0, -1, 1.5, 10.0, "10", None, True)),
        ({"rounds": 10**30}, ("rounds", "to 1000000000000", repr(10**30))),
        *(({"seed": given}, ("seed", repr(given))) for given in (-1, 0.5, None, "0", True)),
        *(({"workers": given}, ("workers", repr(given))) for given in (0, -2, 1.0, "2", True)),
        *(({"checkpoints": given}, ("checkpoints", repr(given))) for given in (0, -1, 2.5, "all", None, True)),
    ],
)  # fmt: skip
def test_mistakes(arguments: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(IdbanditsError) as raised:
        simulate(**({"world": coin_world(), "learners": GOOD, "rounds": 10, "runs": 1, "progress": False} | arguments))
    assert all(word in str(raised.value) for word in words), raised.value


# -- Ctrl-C --------------------------------------------------------------------------------------------------------


class Interrupting(Greedy):
    """Presses Ctrl-C in the run that it is told to, and then takes its time."""

    runs = 0  # begun, of all copies
    lock = threading.Lock()

    def __init__(self, at: int) -> None:
        super().__init__("coin", 3, "heads")
        self.at, self.run = at, -1

    def act(self) -> dict[str, Any]:
        if self.run < 0:
            with Interrupting.lock:
                self.run, Interrupting.runs = Interrupting.runs, Interrupting.runs + 1
            if self.run == self.at:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        if self.run >= self.at:
            time.sleep(0.01)
        return super().act()


def interrupted(learners: dict[str, Any], **settings: Any) -> idb.Result:
    """A simulation that ends early, but not by an exception: that would end pytest."""
    try:
        result = simulate(coin_world(), learners, **settings)
    except KeyboardInterrupt:
        pytest.fail("Ctrl-C came out of simulate")
    assert result.settings["interrupted"] is True
    return result


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("at", [0, 3])
def test_ctrl_c_keeps_the_runs_that_are_finished(workers: int, at: int) -> None:
    Interrupting.runs = 0
    settings = {"rounds": 1000, "runs": 8, "seed": 2, "progress": False}
    result = interrupted({"slow": Interrupting(at)}, workers=workers, **settings)
    assert "interrupted=True" in repr(result)
    whole = simulate(coin_world(), {"slow": Greedy("coin", 3, "heads")}, **settings).frame
    kept = sorted(set(result.frame["run"]))
    assert at - workers < len(kept) <= at  # no run that takes its time was waited for
    same_totals(whole[whole["run"].isin(kept)], result.frame)
    assert result.summary()["runs"].tolist() == [len(kept)]


def test_ctrl_c_keeps_finished_runs_of_compiled_learners() -> None:
    Interrupting.runs = 0
    d = coins()
    learners = {"fast": idb.Thompson(d, "exact"), "slow": Interrupting(2)}
    result = interrupted(learners, rounds=1000, runs=6, workers=1, progress=False)
    whole = simulate(coin_world(), {"fast": idb.Thompson(d, "exact")}, rounds=1000, runs=6, progress=False).frame
    fast = result.frame[result.frame["learner"] == "fast"]
    kept = sorted(set(fast["run"]))
    assert kept[:2] == [0, 1]
    assert result.frame.loc[result.frame["learner"] == "slow", "run"].nunique() <= 2
    same_totals(whole[whole["run"].isin(kept)].assign(learner="fast"), fast.assign(learner="fast"))


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


@pytest.mark.parametrize("inference", ["variational", "gibbs", "ep"])
def test_groups_are_bounded_by_what_can_be_seen(inference: str) -> None:
    d = models.position_based(4, 2)
    agent = idb.Thompson(d, inference, seed=0)
    rng = np.random.default_rng(0)
    first, step = rng.integers(4, size=100_000), rng.integers(1, 4, size=100_000)
    clicks = {name: rng.integers(2, size=100_000) for name in ("C1", "C2")}
    agent.update_many({"A1": first, "A2": (first + step) % 4}, clicks)
    assert agent.rounds == 100_000
    assert agent._state.ints[USED] <= 4 * 2 * 2  # an item, a position, a click
    assert agent._state.ints[CAPACITY] == 64
