"""The log-likelihood of all that a state holds: the sum over the rounds that were learned, in whatever diagram."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits import models
from idbandits.errors import IdbanditsError
from idbandits.inference.state.state_likelihood import keeps_evidence, log_likelihood_of_state

Means = dict[str, np.ndarray]


def segments(*, marked: bool) -> idb.Diagram:
    """A latent class, which a mark tells apart, and the appeal of two items to it."""
    d = idb.Diagram("segments")
    z = d.latent("Z", cpd=idb.Learned("class"))
    if marked:
        d.observed("M", [z], [0.05, 0.95])
    d.reward(d.observed("X", [d.decision("A", 2), z], idb.Learned("appeal")))
    return d


def entries_of(agent: idb.Thompson, d: idb.Diagram, means: Means) -> np.ndarray:
    """Means of another diagram as those of all entries of an agent, retired ones included; 0.5 where it has others."""
    entries, numbers = agent.learner.evidence.entries, np.full(agent.learner.evidence.learned, 0.5)
    for (table, _, labels), row in entries.rows.items():
        shape = d.learned[table].shape
        names = next(n for n in d.nodes.values() if getattr(n.cpd, "name", None) == table).parents
        places = tuple(list(d.nodes[p].values).index(v) for p, v in zip(names, labels, strict=True)) if shape else ()
        if len(places) == len(shape):
            one = means[table][places]
            numbers[row.first : row.first + 2] = 1 - one, one
    return numbers


def total(d: idb.Diagram, rounds: list[tuple[Any, Any]], means: Means) -> float:
    return sum(idb.log_likelihood(d, action, observation, means) for action, observation in rounds)


def some_rounds(d: idb.Diagram, seed: int, number: int = 40) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    world = idb.World(d, {t.name: rng.uniform(0.2, 0.8, t.means_shape) for t in d.learned.values()}, seed=seed)
    found = []
    for _ in range(number):
        action = {n.name: n.values[rng.integers(n.states)] for n in d.of_kind("decision")}
        seen = world.step(action).observation
        found.append((action, {k: v for k, v in seen.items() if rng.random() < 0.9}))
    return found


@pytest.mark.parametrize("name", ["gibbs", "ep", "variational"])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_sum_over_all_rounds(name: str, seed: int) -> None:
    for d in (models.position_based(4, 2, distinct=False), models.dynamic_bayesian(3, 3, distinct=False)):
        agent, played = idb.Thompson(d, name, seed=seed), some_rounds(d, seed)
        for action, observation in played:
            agent.update(action, observation)
        rng = np.random.default_rng(seed)
        means = {t.name: rng.uniform(0.1, 0.9, t.means_shape) for t in d.learned.values()}
        flat = np.concatenate([np.stack([1 - m, m], axis=-1).ravel() for m in means.values()])
        held = log_likelihood_of_state(agent.learner.evidence, agent.state, flat)
        assert held == pytest.approx(total(d, played, means), rel=1e-9)


@pytest.mark.parametrize("name", ["gibbs", "ep", "variational"])
def test_it_includes_rounds_of_earlier_diagrams(name: str) -> None:
    before, after = segments(marked=True), segments(marked=False)
    old, new = some_rounds(before, 1), some_rounds(after, 2)
    agent = idb.Thompson(before, name, seed=0)
    for action, observation in old:
        agent.update(action, observation)
    agent = agent.moved_to(after)
    for action, observation in new:
        agent.update(action, observation)
    means = {"class": np.array(0.3), "appeal": np.array([[0.2, 0.7], [0.6, 0.1]])}
    held = log_likelihood_of_state(agent.learner.evidence, agent.state, entries_of(agent, after, means))
    assert held == pytest.approx(total(before, old, means) + total(after, new, means), rel=1e-9)


def test_a_symmetry_of_the_diagram_is_none_of_a_state_with_other_evidence() -> None:
    before, after = segments(marked=True), segments(marked=False)
    agent = idb.Thompson(after, seed=0)
    ((order,),) = agent.learner.evidence.relabellings
    agent.update({"A": 0}, {"X": 1})
    assert keeps_evidence(agent.learner.evidence, agent.state, order)
    moved = idb.Thompson(before, seed=0)
    moved.update({"A": 0}, {"M": 1, "X": 1})
    moved = moved.moved_to(after)
    ((order,),) = moved.learner.evidence.relabellings
    assert not keeps_evidence(moved.learner.evidence, moved.state, order)


def test_particles_hold_no_rounds() -> None:
    agent = idb.Thompson(models.position_based(3, 2), "particles", seed=0)
    with pytest.raises(IdbanditsError, match="the state must hold pseudo-counts"):
        log_likelihood_of_state(agent.learner.evidence, agent.state, np.full(10, 0.5))
