"""Rounds that are completed, corrected or taken back. What cannot be revised: test_update_errors.py."""

from __future__ import annotations

import numpy as np
import pytest

import idbandits as idb
from inferences import agent_of, those
from internals import determined, groups
from played_rounds import alpha_of, assert_close, learn, play


@those(revisable=True)
def test_a_revised_round_is_as_if_learned_at_once(name: str) -> None:
    hidden = idb.models.position_based(3, 2)
    agent = agent_of(name, hidden)
    d = agent.diagram
    played = play(d, np.random.default_rng(7), 20, world=hidden)
    old, new = played[4], played[9]._replace(action=played[4].action)
    first = {n.name: None for n in d.of_kind("observed")} if name != "exact" else old.observation
    others = [*played[:4], *played[5:]]
    revised, direct = agent.copy(), agent.copy()
    learn(revised, [*played[:4], old._replace(observation=first), *played[5:]])
    revised.revise(old.action, first, new.observation)
    learn(direct, [*others, new])
    assert revised.rounds == direct.rounds == 20
    same_belief(name, revised, direct)
    revised.revise(old.action, new.observation, None)
    without = learn(agent.copy(), others)
    assert revised.rounds == 19
    same_belief(name, revised, without)


def same_belief(name: str, revised: idb.Thompson, direct: idb.Thompson) -> None:
    """Equal counts, and beliefs that are as equal as the inference allows."""
    if name == "exact":
        assert_close(alpha_of(revised), alpha_of(direct), rtol=1e-12)
        return
    assert groups(revised) == groups(direct)
    np.testing.assert_allclose(determined(revised), determined(direct), rtol=1e-12)
    if name == "gibbs":
        for table, p in revised.posterior().items():
            q = direct.posterior()[table]
            # chains of 2000 with an autocorrelation time below 40: 6 standard errors of their difference
            assert (abs(p.mean - q.mean) < 6 * q.sd * np.sqrt(2 * 40 / 2000)).all()
    elif name != "random":  # whose belief depends on where it starts
        for agent in (revised, direct):
            for _ in range(20):
                agent.update_many({"A1": [], "A2": []}, {"C1": [], "C2": []})
        if name != "ep":
            assert revised.elbo() == pytest.approx(direct.elbo(), abs=1e-6)
        assert_close(alpha_of(revised), alpha_of(direct), rtol=1e-2)


@those(revisable=True)
def test_a_round_that_is_taken_back_leaves_the_prior(name: str) -> None:
    agent = agent_of(name, idb.models.position_based(3, 2))
    seen = {n.name: 0 for n in agent.diagram.of_kind("observed")}
    agent.update({"A1": 0, "A2": 1}, seen)
    agent.revise({"A1": 0, "A2": 1}, seen, None)
    assert agent.rounds == 0
    if name == "gibbs":  # uniform rows: a mean of 2000 draws is off by 6 standard errors with probability 2e-9
        for p in agent.posterior().values():
            assert (abs(p.mean - 0.5) < 6 * np.sqrt(1 / 12 / 2000)).all()
        assert not groups(agent)
        np.testing.assert_allclose(determined(agent), 1, atol=1e-12)
    else:
        for alpha in alpha_of(agent).values():
            np.testing.assert_allclose(alpha, 1, atol=1e-9)
