"""Acting: seeds, ties, propensities, small diagrams, and any sequence of steps in any diagram."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import idbandits as idb
import reference
from diagrams import random_diagram, random_means
from idbandits import models
from inferences import INFERENCES, agent_of, every, taught
from internals import knowledge

# -- seeds and copies (see also the conformance suite) -------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 2**70, np.int64(3), [1, 2], np.random.SeedSequence(4)])
def test_seeds_of_any_kind_decide(seed: Any) -> None:
    one, other = (idb.Thompson(models.cascade(9, 2), seed=copy.deepcopy(seed)) for _ in range(2))
    assert [one.act() for _ in range(20)] == [other.act() for _ in range(20)]
    different = idb.Thompson(models.cascade(9, 2), seed=5)
    assert [one.act() for _ in range(20)] != [different.act() for _ in range(20)]


def test_later_changes_of_the_diagram_do_not_reach_an_agent(tmp_path: Path) -> None:
    d = idb.Diagram("coins")
    coin = d.decision("coin", 3)
    d.reward(d.observed("heads", [coin]))
    agent = idb.Thompson(d, "exact", seed=0)
    twin = agent.copy()
    d.decision("other", 2)
    d.reward(d.observed("tails", [coin]), lambda v: -100.0 * v)
    assert list(agent.diagram.nodes) == ["coin", "heads"]
    assert len(agent.diagram.rewards) == 1
    for k in range(30):
        action = agent.act()
        assert set(action) == {"coin"}
        assert action == twin.act()
        for one in (agent, twin):
            one.update(action, {"heads": k % 2})
    agent.save(tmp_path / "it")
    assert idb.Thompson.load(tmp_path / "it").act() == agent.act()
    assert set(idb.Thompson(d, "exact").act()) == {"coin", "other"}


def test_repr() -> None:
    agent = idb.Thompson(models.cascade(4, 2), idb.Variational(sweeps=2), seed=0)
    assert repr(agent) == (
        "Thompson('cascade', variational, sweeps=2, tolerance=0.0, start='warm', literal=False; 0 rounds)"
    )
    agent.update({"A1": 0, "A2": 1}, {"C1": 0})
    assert repr(agent).endswith("; 1 round)")
    agent.update_many({"A1": [0] * 1233, "A2": [1] * 1233}, {"C1": [0] * 1233})
    assert repr(agent).endswith("; 1,234 rounds)")


@every
def test_looking_changes_nothing(name: str) -> None:
    agent = taught(name, models.position_based(5, 2))
    before = knowledge(agent)
    for posterior in agent.posterior().values():
        posterior.alpha[:] = 0
    agent.propensity({"A1": 0, "A2": 1}, draws=50)
    agent.marginals(allowed=[0, 1, 3], draws=50)
    agent.best_action(allowed=[0, 1, 3])
    repr(agent)
    assert knowledge(agent) == before
    for means in agent.sample().values():
        means[:] = 7
    assert knowledge(agent)[:-1] == before[:-1]  # all but the random numbers


# -- ties ----------------------------------------------------------------------------------------------------------


@every
def test_decisions_that_nothing_depends_on_are_made_at_random(name: str) -> None:
    d = idb.Diagram("idle decision")
    d.decision("idle", ["a", "b", "c"])
    d.reward(d.observed("heads", [d.decision("coin", 2)]))
    agent = agent_of(name, d)
    chosen = [agent.act()["idle"] for _ in range(600)]
    for label in "abc":
        assert 140 < chosen.count(label) < 260  # 200 expected, standard deviation 11.5; 30 counts: 5e-6 in all


def test_decisions_that_nothing_depends_on_stay_out_of_the_way() -> None:
    d = idb.Diagram("idle decision")
    d.decision("idle", 4)
    d.reward(d.observed("heads", [d.decision("coin", 4)]))
    d.all_different()
    agent = idb.Thompson(d, seed=0)
    actions = {tuple(agent.act().values()) for _ in range(600)}
    assert actions == {(i, c) for i in range(4) for c in range(4) if i != c}


@every
@pytest.mark.parametrize("prior", [[1e-9, 1e9], [1e9, 1e-9], [1e-9, 1e-9], [1e-9, 1e15], [1e12, 1e12]], ids=str)
def test_items_that_are_drawn_alike_all_get_their_turn(prior: list[float], name: str) -> None:
    d = idb.Diagram("certain")
    d.reward(d.observed("heads", [d.decision("coin", 4)], idb.Learned("heads", prior=prior)))
    chosen = []
    for seed in range(20):
        agent = agent_of(name, d, seed)
        chosen += [agent.act()["coin"] for _ in range(20)]
    for item in range(4):
        # 100 expected, standard deviation 8.7; particles stay where they are, so an agent repeats itself
        assert 50 <= chosen.count(item) <= 160 if name != "particles" else item in chosen


@pytest.mark.parametrize("make", [models.cascade, models.position_based, models.semi_bandit])
def test_lists_that_are_drawn_alike_all_get_their_turn(make: Callable[..., idb.Diagram]) -> None:
    data = make(5, 2).to_dict()
    for table in data["learned"]:
        table["prior"] = [1e-9, 1e9]
    agent = idb.Thompson(idb.Diagram.from_dict(data), seed=0)
    assert len({tuple(agent.act().values()) for _ in range(800)}) == 20


# -- little to decide or to learn ----------------------------------------------------------------------------------


@every
def test_one_choice_only(name: str) -> None:
    d = idb.Diagram("one coin")
    d.reward(d.observed("heads", [d.decision("coin", ["it"])]))
    agent = agent_of(name, d)
    for _ in range(10):
        assert agent.act() == {"coin": "it"}
        agent.update({"coin": "it"}, {"heads": 1})
    assert agent.posterior()["heads"].mean[0] > 0.7


@every
def test_nothing_to_learn(name: str) -> None:
    d = idb.Diagram("known")
    d.reward(d.observed("heads", [d.decision("coin", 3)], [0.1, 0.9, 0.5]))
    agent = agent_of(name, d)
    for _ in range(10):
        assert agent.act() == {"coin": 1}
        agent.update({"coin": 1}, {"heads": 1})
    agent.update_many({"coin": [0, 1]}, {"heads": [1, None]})
    assert agent.rounds == 12
    assert agent.posterior() == {}
    assert agent.sample() == {}


# -- any diagram ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**9), st.lists(st.sampled_from(["step", "miss", "log", "copy"]), min_size=1, max_size=25))
def test_any_sequence_in_any_diagram(seed: int, steps: list[str]) -> None:
    rng = np.random.default_rng(seed)
    d = random_diagram(rng, most_chance=6)
    world = idb.World(d, random_means(rng, d), seed=seed)
    contextual = bool(d.of_kind("context"))
    for name, case in INFERENCES.items():
        agent = agent_of(name, d, seed)
        rounds = 0
        for step in steps:
            if step == "copy":
                agent = agent.copy()
                continue
            context = {"context": world.context()} if contextual else {}
            action = agent.act(**context)
            assert list(action) == [n.name for n in d.of_kind("decision")]
            assert reference.feasible(d, {n: list(d.nodes[n].values).index(v) for n, v in action.items()})
            outcome = world.step(action, **context)
            assert outcome.regret >= 0
            seen = outcome.seen_by(agent.diagram)
            if step == "miss" and not case.revealed:
                seen = {n: v for n, v in seen.items() if rng.random() < 0.5}
            if step == "log":
                agent.update_many(*({n: [v, v] for n, v in part.items()} for part in (action, seen, outcome.context)))
            else:
                agent.update(action, seen, **context)
            rounds += 1 + (step == "log")
            assert agent.rounds == rounds
        for posterior in agent.posterior().values():
            assert np.isfinite(posterior.alpha).all()
            assert (posterior.alpha > 0).all()
            assert ((posterior.mean >= 0) & (posterior.mean <= 1)).all()
