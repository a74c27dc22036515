"""Several structures at once: weights, shared evidence, rejected input, and atomic updates."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits import Diagram, Learned, Structures, Thompson, models
from idbandits.errors import DiagramError, FormatError, IdbanditsError, ImpossibleObservationError, ObservationError

Round = tuple[dict[str, Any], dict[str, Any]]


def some(items: int = 4, positions: int = 2) -> dict[str, Diagram]:
    return {
        "one": models.cascade(items, positions),
        "two": models.position_based(items, positions),
        "table": models.saturated(items, positions),
    }


def played(agent: Any, rounds: int, seed: int = 0, most: int = 2) -> list[Round]:
    """Let an agent play rounds whose clicks are drawn by a fair coin, up to a maximum number."""
    rng, log = np.random.default_rng(seed), []
    for _ in range(rounds):
        action = agent.act()
        clicks = rng.integers(0, 2, len(action))
        while clicks.sum() > most:
            clicks = rng.integers(0, 2, len(action))
        log.append((action, {f"C{k + 1}": int(c) for k, c in enumerate(clicks)}))
        agent.update(*log[-1])
    return log


def known(agent: Any) -> list[Any]:
    """All that an agent knows, as bytes."""
    states = [array.tobytes() for state in agent._known.states for array in state[:3]]
    return [*states, *(array.tobytes() for array in agent._known.standing), repr(agent.rng.bit_generator.state)]


# -- weights -----------------------------------------------------------------------------------------------------------


def weights_by_hand(diagrams: dict[str, Diagram], log: list[Round]) -> dict[str, float]:
    """The rule, by agents of each structure and sums over all that could have been seen."""
    agents = {name: Thompson(d, "exact") for name, d in diagrams.items()}
    weight = dict.fromkeys(agents, 1 / len(agents))
    wealth = {(a, b): 0.0 for a in agents for b in agents}
    rich = {name: sum(t.size // 2 for t in d.learned.values()) for name, d in diagrams.items()}
    for t, (action, seen) in enumerate(log, 1):
        joint = {name: chances(agent, action) for name, agent in agents.items()}
        doublings = math.log2(t) + 1
        new = 1 / (doublings * (doublings + 1)) if doublings.is_integer() else 0.0
        key = tuple(seen.values())
        for name in agents:
            weight[name] *= joint[name].get(key, 0.0)
        for a, b in wealth:
            if rich[a] == max(rich.values()) > rich[b] and weight[b]:  # the richest is never impossible here
                ratios = [[share(joint[a], k, c) / share(joint[b], k, c) for c in range(2)] for k in range(len(key))]
                stake = sum(1 - min(row) for row in ratios)
                won = sum(row[key[k]] - 1 for k, row in enumerate(ratios))
                wealth[a, b] = (wealth[a, b] + new) * (1 + won * min(1, 0.5 / stake) if stake else 1)
            if not weight[b]:
                wealth[a, b] = 0.0
        total, left = sum(weight.values()), sum(w > 0 for w in weight.values())
        for name, w in weight.items():
            weight[name] = ((1 - new) * w / total + new / left) if w else 0.0
        for name, agent in agents.items():
            if weight[name]:
                agent.update(action, seen)
    acting = {name: w if max(wealth[a, name] for a in agents) <= 20 else 0.0 for name, w in weight.items()}
    return {name: w / sum(acting.values()) for name, w in acting.items()}


def chances(agent: Thompson, action: dict[str, Any]) -> dict[tuple[int, ...], float]:
    """The probability of everything that could be seen, at the mean of the belief."""
    means, found = {name: p.mean for name, p in agent.posterior().items()}, {}
    for clicks in itertools.product((0, 1), repeat=len(action)):
        seen = {f"C{k + 1}": c for k, c in enumerate(clicks)}
        try:
            found[clicks] = math.exp(idb.log_likelihood(agent.diagram, action, seen, means))
        except ImpossibleObservationError:
            continue
    return found


def share(joint: dict[tuple[int, ...], float], k: int, click: int) -> float:
    return sum(p for clicks, p in joint.items() if clicks[k] == click)


@pytest.mark.parametrize("rounds", [0, 1, 3, 40])
@pytest.mark.parametrize("most", [1, 3])
def test_weights_are_those_of_the_rule(rounds: int, most: int) -> None:
    d = {"one": models.cascade(4, 3), "semi": models.saturated(4, 3), "by item": by_item(4, 3)}
    agent = Structures(d, "exact", seed=1)
    log = played(agent, rounds, most=most)
    expected = weights_by_hand(d, log)
    assert list(agent.weights()) == list(expected)
    np.testing.assert_allclose(list(agent.weights().values()), list(expected.values()), rtol=1e-9, atol=1e-12)
    assert (expected["one"] > 0) == (not rounds or most == 1)


def by_item(items: int, positions: int) -> Diagram:
    """Clicks that depend on the item only."""
    d, attraction = Diagram("by item"), Learned("attraction")
    for k in range(1, positions + 1):
        d.reward(d.observed(f"C{k}", [d.decision(f"A{k}", items)], attraction))
    d.all_different()
    return d


def test_a_simple_structure_that_is_wrong_about_the_reward_is_set_aside() -> None:
    """Items are clicked at the first position only: with one number per item, that cannot be said."""
    agent = Structures({"by item": by_item(3, 2), "table": models.saturated(3, 2)}, "exact", seed=3)
    rng = np.random.default_rng(3)
    for _ in range(300):
        agent.update(agent.act(), {"C1": int(rng.random() < 0.8), "C2": 0})
    assert agent.weights() == {"by item": 0.0, "table": 1.0}


def test_the_right_structure_gets_the_weight() -> None:
    d = some(5, 3)
    world = idb.World(d["two"], {"attraction": [0.9, 0.6, 0.4, 0.2, 0.1], "examination": [0.9, 0.7, 0.1]}, seed=1)
    agent = Thompson(d, "gibbs", seed=1)
    for _ in range(1500):
        action = agent.act()
        agent.update(action, world.step(action).observation)
    assert agent.weights()["two"] > 0.5
    assert agent.weights()["one"] == 0.0


def test_actions_are_those_of_the_structures_by_their_weights() -> None:
    """Two structures that want opposite things: the share of actions is the weight (5 standard errors: 6e-7)."""
    likes = {name: Diagram(name) for name in ("low", "high")}
    for name, d in likes.items():
        d.observed("C", [d.decision("A", 2)], 0.5)
        d.reward("A", lambda a, name=name: float(a == (name == "high")))
    agent = Structures(likes, seed=2)
    taken = np.mean([agent.act()["A"] for _ in range(4000)])
    assert abs(taken - 0.5) < 5 * 0.5 / math.sqrt(4000)
    chance, error, _ = agent.propensity({"A": 1}, draws=2000)
    assert abs(chance - 0.5) < 5 * error


# -- what they share ---------------------------------------------------------------------------------------------------


def variant(change: Callable[[Diagram], None] | None = None, name: str = "b", labels: Any = ("x", "y")) -> Diagram:
    d = Diagram(name)
    d.reward(d.observed("C", [d.context("S", 2), d.decision("A", list(labels)), d.decision("B", ["x", "y"])]))
    if change is not None:
        change(d)
    return d


@pytest.mark.parametrize(
    ("structures", "said"),
    [
        ([variant(name="a"), variant(lambda d: d.decision("E", 2))], "structures 'a' and 'b' differ: 'E' is a node of kind 'decision' in 'b' only"),
        ([variant(lambda d: d.context("E", 2), "a"), variant()], "'E' is a node of kind 'context' in 'a' only"),
        ([variant(lambda d: d.observed("E", cpd=0.5), "a"), variant(lambda d: d.latent("E", cpd=0.5))], "'E' is a node of kind 'observed' in 'a' only"),
        ([variant(name="a"), variant(labels=["x", "z"])], "the values of decision 'A' are 'x', 'y' in 'a', 'x', 'z' in 'b'"),
        ([variant(name="a"), variant(labels=["x", "y", "z"])], "the values of decision 'A' are"),
        ([variant(lambda d: d.all_different(), "a"), variant()], "'A' and 'B' must be different in 'a' only"),
        ([variant(), variant()], "two have the name 'b'"),
        ([], "must be 1 to 100 diagrams, got 0"),
        ({}, "must be 1 to 100 diagrams, got 0"),
        ([variant(), 3], "1 must be a Diagram, got 3"),
        ({"a": None}, "'a' must be a Diagram, got None"),
        ({1: variant()}, "named by strings, got 1"),
    ],
)  # fmt: skip
def test_structures_that_do_not_fit_are_rejected(structures: Any, said: str) -> None:
    with pytest.raises(DiagramError, match=re.escape(said)):
        Thompson(structures)


def test_nodes_and_values_may_come_in_another_order() -> None:
    """A structure declared in another order learns the same; marginals are compared state by state."""
    plain, turned = Diagram("plain"), Diagram("turned")
    plain.reward(plain.observed("C", [plain.context("S", ["s", "t"]), plain.decision("A", ["x", "y", "z"])], states=3))
    plain.observed("D", [plain.decision("B", ["l", "r"])])
    item, side = turned.decision("B", ["r", "l"]), turned.decision("A", ["z", "x", "y"])
    turned.observed("D", [item])
    turned.reward(turned.observed("C", [turned.context("S", ["t", "s"]), side], states=3))
    agent = Structures([plain, turned], "exact", seed=1)
    rng = np.random.default_rng(1)
    for _ in range(60):
        context = {"S": str(rng.choice(["s", "t"]))}
        seen = {"C": int(rng.integers(3)), "D": None if rng.random() < 0.2 else int(rng.integers(2))}
        agent.update(agent.act(context), seen, context)
    assert agent.weights() == pytest.approx({"plain": 0.5, "turned": 0.5})
    columns = {"A": ["x", "z"] * 20, "B": ["l", "r"] * 20}
    agent.update_many(columns, {"C": [0, 1, 2, 2] * 10, "D": [0, 1] * 20}, {"S": ["s", "t"] * 20})
    assert agent.weights() == pytest.approx({"plain": 0.5, "turned": 0.5})
    a, b = (belief["C"].alpha for belief in agent.posterior().values())
    np.testing.assert_allclose(a, b[::-1][:, [1, 2, 0]])


# -- impossible rounds -------------------------------------------------------------------------------------------------


def test_a_structure_is_out_after_an_impossible_round() -> None:
    agent = Structures(some(), "gibbs", seed=1)
    played(agent, 5, most=1)
    assert agent.weights()["one"] > 0
    agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1})
    assert agent.weights()["one"] == 0.0
    before = agent.posterior()["one"]["attraction"].alpha
    played(agent, 20, most=1)
    assert agent.weights()["one"] == 0.0
    np.testing.assert_array_equal(agent.posterior()["one"]["attraction"].alpha, before)
    assert agent.rounds == 26


@pytest.mark.parametrize("inference", ["exact", "gibbs", "ep"])
def test_a_round_that_is_impossible_in_all_changes_nothing(inference: str) -> None:
    same = models.cascade(4, 2)
    agent = Structures({"a": same, "b": same}, inference, seed=1)
    played(agent, 5, most=1)
    before = known(agent)
    said = "C1 = 1, C2 = 1: every structure that is left ('a', 'b') gives it probability zero for action {'A1': 0, 'A2': 1}"
    with pytest.raises(ImpossibleObservationError, match=re.escape(said)):
        agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1})
    with pytest.raises(ImpossibleObservationError, match="in round 30, observation"):
        agent.update_many({"A1": [0] * 40, "A2": [1] * 40}, {"C1": [0] * 30 + [1] * 10, "C2": [1] * 40})
    assert known(agent) == before


# -- all or nothing ----------------------------------------------------------------------------------------------------


def test_a_round_that_one_structure_rejects_is_learned_by_none() -> None:
    """Exact counting learns what was seen of items; in the cascade, what is missing leaves open which rows were used."""
    agent = Structures({"by item": by_item(4, 2), "one": models.cascade(4, 2)}, "exact", seed=1)
    before = known(agent)
    with pytest.raises(DiagramError, match="cannot learn from the observation C2 = 0"):
        agent.update({"A1": 0, "A2": 1}, {"C1": None, "C2": 0})
    assert known(agent) == before


@pytest.mark.parametrize("call", [lambda a: a.update({"A1": 0, "A2": 1}, {"C1": 2}), lambda a: a.update_many({"A1": [0], "A2": [1]}, {"C3": [1]})])  # fmt: skip
def test_rejected_observations_change_nothing(call: Callable[[Any], None]) -> None:
    agent = Structures(some(), seed=1)
    before = known(agent)
    with pytest.raises(ObservationError):
        call(agent)
    assert known(agent) == before


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_an_interrupted_round_is_learned_by_all_or_none() -> None:
    """Handlers that raise at any moment: afterwards all structures know equally many rounds."""
    agent = Structures(some(), "gibbs", seed=1)
    played(agent, 50)

    class StopError(Exception):
        pass

    def stop(*_: Any) -> None:
        raise StopError

    rng, old, hits = np.random.default_rng(5), signal.signal(signal.SIGALRM, stop), 0
    try:
        for _ in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 1e-3))
                for _ in range(20):
                    agent.update({"A1": 0, "A2": 1}, {"C1": 0, "C2": 1})
                signal.setitimer(signal.ITIMER_REAL, 0)
            except StopError:
                hits += 1
            rounds = {int(state.ints[idb.inference.ROUNDS]) for state in agent._known.states[1:]}
            assert rounds == {agent.rounds}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert hits > 10


# -- other capabilities ------------------------------------------------------------------------------------------------


def test_update_many_learns_what_updates_learn() -> None:
    """Beliefs are the same; weights are nearly so, as blocks of rounds are predicted at once."""
    one = Structures({"by item": by_item(4, 3), "table": models.saturated(4, 3)}, "exact", seed=1)
    many = one.copy()
    log = played(one, 400)
    many.update_many(
        {k: [a[k] for a, _ in log] for k in ("A1", "A2", "A3")}, {k: [o[k] for _, o in log] for k in ("C1", "C2", "C3")}
    )
    assert many.rounds == 400
    for name, tables in one.posterior().items():
        for table, belief in tables.items():
            np.testing.assert_allclose(belief.alpha, many.posterior()[name][table].alpha)
    assert many.weights() == pytest.approx(one.weights(), abs=0.1)


@pytest.mark.parametrize(
    "again", [lambda a: a.copy(), copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))]
)
def test_copies_go_on_alike_and_apart(again: Callable[[Any], Any]) -> None:
    agent = Structures(some(), "gibbs", seed=1)
    played(agent, 30)
    other = again(agent)
    assert known(other) == known(agent)
    assert played(other, 20) == played(agent, 20)
    assert known(other) == known(agent)
    played(other, 1)
    assert known(other) != known(agent)


def test_a_seed_decides_all() -> None:
    first, second, third = (Structures(some(), "gibbs", seed=s) for s in (1, 1, 2))
    assert played(first, 30) == played(second, 30) != played(third, 30)
    assert first.copy(seed=7).act() == second.copy(seed=7).act()


def test_files(tmp_path: Path) -> None:
    path, d = tmp_path / "agent", some()
    agent = Structures(d, "gibbs", seed=1)
    played(agent, 30)
    agent.save(path)
    for load in (Thompson.load, Structures.load):
        other = load(path)
        assert known(other)[-4:] == known(agent)[-4:]
        assert other.weights() == agent.weights()
        assert repr(other) == repr(agent)
        assert other.act() == agent.copy().act()
    assert Structures.load(path, structures=d).rounds == 30
    with pytest.raises(FormatError, match="'table': it is not one of 'one', 'two'"):
        Structures.load(path, structures={"one": d["one"], "two": d["two"]})
    with pytest.raises(FormatError, match="'one': the agent in it learned in another diagram"):
        Structures.load(path, structures=some(4, 2) | {"one": models.cascade_inverted(4, 2)})
    with pytest.raises(FormatError, match="has no structure 'more'"):
        Structures.load(path, structures=d | {"more": d["one"]})
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], content.replace(b'"rounds": 30', b'"rounds": -3'), content[:-10]):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=re.escape(str(path))):
            Structures.load(path)


def test_revising() -> None:
    agent = Structures({"by item": by_item(4, 2), "table": models.saturated(4, 2)}, "exact", seed=1)
    played(agent, 10)
    before, weights = agent.posterior(), agent.weights()
    agent.update({"A1": 0, "A2": 1}, {"C1": 0, "C2": 1})
    agent.revise({"A1": 0, "A2": 1}, {"C1": 0, "C2": 1}, {"C1": 1, "C2": 1})
    agent.revise({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1}, None)
    assert weights != agent.weights()  # those of predictions, which were made
    for name, tables in before.items():
        np.testing.assert_allclose(tables["attraction"].alpha, agent.posterior()[name]["attraction"].alpha)
    with pytest.raises(IdbanditsError, match="cannot remove a round exactly"):
        Structures(some(), "moments").revise({"A1": 0, "A2": 1}, {"C1": 0}, None)
    out = Structures(some(), "gibbs", seed=1)
    out.update({"A1": 0, "A2": 1}, {"C1": 0, "C2": 1})
    out.revise({"A1": 0, "A2": 1}, {"C1": 0, "C2": 1}, {"C1": 1, "C2": 1})
    assert out.weights()["one"] == 0.0


def test_questions() -> None:
    d = some()
    agent = Thompson(d, "gibbs", seed=1)
    assert isinstance(agent, Structures)
    assert repr(agent) == "Thompson(['one', 'two', 'table'], gibbs; 0 rounds)"
    assert list(agent.diagrams) == list(agent.posterior()) == list(agent.sample()) == ["one", "two", "table"]
    assert agent.sample()["two"]["examination"].shape == (2,)
    with pytest.raises(IdbanditsError, match="several structures have no ELBO"):
        agent.elbo()
    assert Thompson(d["one"]).weights() == {"cascade": 1.0}


def test_threads_share_an_agent() -> None:
    agent = Structures(some(), "gibbs", seed=1)

    def play() -> None:
        for t in range(50):
            agent.update(agent.act(), {"C1": t % 2, "C2": 0})

    threads = [threading.Thread(target=play) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {int(state.ints[idb.inference.ROUNDS]) for state in agent._known.states} == {agent.rounds} == {200}


def test_simulate_plays_several_structures() -> None:
    d = some(5, 2)
    world = idb.World(d["two"], {"attraction": [0.9, 0.6, 0.4, 0.2, 0.1], "examination": [0.9, 0.4]})
    learners = {"several": Thompson(d, "gibbs"), "one": Thompson(d["two"], "gibbs")}
    first, second = (idb.simulate(world, learners, rounds=200, runs=2, progress=False, workers=w) for w in (1, 2))
    columns = ["learner", "run", "round", "reward", "regret"]
    assert first.frame[columns].equals(second.frame[columns])
    assert learners["several"].rounds == 0
