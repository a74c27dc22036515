"""One suite that every inference passes, the built-in ones and one that a user wrote in plain Python.

A new inference is one line in tests/support/inferences.py. Files, logs, refusals and revisions of every inference are
tested in tests/agent, extreme numbers in test_extreme_values.py.
"""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import idbandits as idb
import reference
from diagrams import in_context, same_table_twice, three_states
from idbandits.errors import IdbanditsError
from idbandits.inference import BY_NAME
from inferences import INFERENCES, agent_of, diagram_of, every, position_based, position_based_world, taught, those
from internals import determined, groups, knowledge, room_for_groups, with_more_room
from played_rounds import alpha_of, assert_close, go_on, learn, learn_at_once, places, play, rounds_of


def test_all_inferences_are_in_the_suite() -> None:
    assert set(BY_NAME.values()) <= {type(case.make()) for case in INFERENCES.values()}


# -- learning ------------------------------------------------------------------------------------------------------


@those(conjugate=True)
@pytest.mark.parametrize("make", [same_table_twice, three_states, in_context, position_based, *range(6)])
def test_counts_are_conjugate_where_everything_is_seen(make: Callable[[], idb.Diagram] | int, name: str) -> None:
    hidden = diagram_of(make)
    d = hidden.revealed()
    played = play(d, np.random.default_rng(1), 10, world=hidden)
    exact = reference.exact_step(d, rounds_of(played), reference.prior_of(d))
    for how in (learn, learn_at_once):
        agent = how(idb.Thompson(d, INFERENCES[name].make(), seed=0), played)
        assert_close(alpha_of(agent), exact, rtol=1e-9)
        assert agent.rounds == 10


def test_particles_gather_where_the_truth_is() -> None:
    d = idb.models.semi_bandit(2, 1)
    far = []
    for seed in range(20):
        agent = idb.Thompson(d, idb.Particles(200, width=0.05), seed=seed)
        world = idb.World(d, {"mean": [0.1, 0.9]}, seed=seed)
        for t in range(100):
            action = {"A1": t % 2}
            agent.update(action, world.step(action).observation)
        far.append(agent.posterior()["mean"].mean - [0.1, 0.9])
    # each mean is that of about 1 / 0.05 recent rounds and drawn to the middle: off by 0.1 or less; the mean of 20, by 0.02 more
    assert (abs(np.mean(far, axis=0)) < 0.15).all()


@every
def test_nothing_seen_says_nothing(name: str) -> None:
    agent, fresh = taught(name, position_based()), agent_of(name, position_based())
    before, counted = alpha_of(agent), groups(agent) if INFERENCES[name].grouped else None
    agent.update({"A1": 0, "A2": 1}, dict.fromkeys(n.name for n in agent.diagram.of_kind("observed")))
    fresh.update({"A1": 0, "A2": 1}, {})
    assert (agent.rounds, fresh.rounds) == (16, 1)
    if name == "literal":  # it counts latent nodes that nobody saw, as the paper's equations do
        total = sum(a.sum() for a in before.values())
        assert sum(a.sum() for a in alpha_of(agent).values()) == pytest.approx(total + 4)
        return
    if INFERENCES[name].grouped:
        assert groups(agent) == counted
    elif name != "particles":
        assert_close(alpha_of(agent), before, rtol=1e-12)
    if name != "particles":
        assert_close(alpha_of(fresh), reference.prior_of(fresh.diagram), rtol=1e-12)


@those(conjugate=True)
def test_items_never_shown_keep_their_prior(name: str) -> None:
    d = position_based()
    agent = agent_of(name, d)
    played = play(agent.diagram, np.random.default_rng(2), 40, world=d)
    learn(agent, [p for p in played if 3 not in p.action.values()])
    posterior = agent.posterior()["attraction"]
    if INFERENCES[name].sampled:  # a mean of 2000 uniform draws is off by 6 standard errors with probability 2e-9
        assert abs(posterior.mean[3] - 0.5) < 6 * np.sqrt(1 / 12 / 2000)
    else:
        np.testing.assert_allclose(posterior.alpha[3], [1, 1], rtol=1e-12)
    assert (abs(posterior.alpha[:3] - 1) > 1e-3).any(axis=-1).all()


@every
def test_a_log_is_the_same_rounds(name: str) -> None:
    d, case = in_context(), INFERENCES[name]
    agent = agent_of(name, d)
    played = play(agent.diagram, np.random.default_rng(3), 25, unseen=0.0 if case.revealed else 0.3, world=d)
    one_by_one, at_once = (how(agent.copy(), played) for how in (learn, learn_at_once))
    assert one_by_one.rounds == at_once.rounds == 25
    if case.sequential:
        assert_close(alpha_of(at_once), alpha_of(one_by_one), rtol=1e-12)
    else:
        assert groups(at_once) == groups(one_by_one)
        np.testing.assert_allclose(determined(at_once), determined(one_by_one), rtol=1e-12)


# -- groups of equal rounds ----------------------------------------------------------------------------------------


@those(grouped=True)
def test_groups_are_counted_beyond_their_first_room(name: str) -> None:
    rng = np.random.default_rng(5)
    actions = np.array([rng.permutation(150)[:2] for _ in range(1500)])
    clicks = (rng.random((1500, 2)) < 0.2).astype(int)
    agent = agent_of(name, idb.models.position_based(150, 2))
    roomy = with_more_room(agent)
    for a in (agent, roomy):
        for (a1, a2), (c1, c2) in zip(actions[:700].tolist(), clicks[:700].tolist(), strict=True):
            a.update({"A1": a1, "A2": a2}, {"C1": c1, "C2": c2})
        log = (
            {f"{node}{k + 1}": column[700:, k] for k in range(2)} for node, column in (("A", actions), ("C", clicks))
        )
        a.update_many(*log)
    wanted = Counter((k, actions[t, k]) for t in range(1500) for k in range(2) if not clicks[t, k])
    assert len(wanted) > 256
    assert Counter(groups(agent).values()) == Counter(wanted.values())
    assert_close(alpha_of(agent), alpha_of(roomy), rtol=1e-12)


@those(grouped=True)
def test_groups_are_bounded_by_what_can_be_seen(name: str) -> None:
    agent = agent_of(name, position_based())
    rng = np.random.default_rng(0)
    first, step = rng.integers(4, size=100_000), rng.integers(1, 4, size=100_000)
    clicks = {node: rng.integers(2, size=100_000) for node in ("C1", "C2")}
    before = room_for_groups(agent)
    agent.update_many({"A1": first, "A2": (first + step) % 4}, clicks)
    assert agent.rounds == 100_000
    assert len(groups(agent)) <= 4 * 2 * 2  # an item, a position, a click
    assert room_for_groups(agent) == before


def test_the_default_learns_from_every_action_it_may_take() -> None:
    d = idb.Diagram("one noisy item in fifty")
    item = d.decision("A", 50)
    z = d.latent("Z", [item], idb.Learned("chance"))
    d.reward(d.observed("X", [z, item], lambda z, a: z if a != 37 else 0.2 + 0.6 * z))
    agent = idb.Thompson(d, seed=0)
    for a in range(50):
        agent.update({"A": a}, {"X": 1})
    assert agent.rounds == 50


# -- acting --------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("make", [in_context, position_based, three_states, *range(6)])
def test_actions_are_feasible_and_draws_are_means(make: Callable[[], idb.Diagram] | int, name: str) -> None:
    d = diagram_of(make)
    agent = taught(name, d)
    contexts = {n.name: n.values[-1] for n in d.of_kind("context")} or None
    for _ in range(5):
        action = agent.act(contexts)
        assert action.keys() == {n.name for n in d.of_kind("decision")}
        assert reference.feasible(d, places(d, action))
        means = agent.sample()
        assert means.keys() == d.learned.keys()
        for t in d.learned.values():
            assert means[t.name].shape == t.means_shape
            assert ((means[t.name] > 0) & (means[t.name] < 1)).all()
            if t.states > 2:
                np.testing.assert_allclose(means[t.name].sum(axis=-1), 1, rtol=1e-12)


@every
def test_the_belief_is_consistent(name: str) -> None:
    for d in (in_context(), three_states()):
        agent = taught(name, d, rounds=20)
        for t in d.learned.values():
            p = agent.posterior()[t.name]
            assert p.alpha.shape == (*t.shape, t.states)
            assert p.mean.shape == p.sd.shape == p.quantile(0.3).shape == t.means_shape
            assert p.quantile(np.array([0.1, 0.5, 0.9])).shape == (3, *t.means_shape)
            assert ((p.mean > 0) & (p.mean < 1) & (p.sd > 0) & (p.sd < 0.5)).all()
            low, middle, high = p.quantile(np.array([0.05, 0.5, 0.95]))
            assert ((low < middle) & (middle < high) & (low < p.mean) & (p.mean < high)).all()
            matched = p.alpha / p.alpha.sum(axis=-1, keepdims=True)
            np.testing.assert_allclose(matched[..., 1] if t.states == 2 else matched, p.mean, rtol=1e-9)
            if name not in ("gibbs", "particles"):
                rest = p.alpha.sum(axis=-1, keepdims=True) - p.alpha
                full = stats.beta.ppf(0.3, p.alpha, rest), stats.beta.std(p.alpha, rest)
                for of_belief, wanted in zip((p.quantile(0.3), p.sd), full, strict=True):
                    np.testing.assert_allclose(of_belief, wanted[..., 1] if t.states == 2 else wanted, rtol=1e-7)
        with pytest.raises(IdbanditsError, match="quantile"):
            p.quantile(1.5)


@pytest.mark.parametrize("name", [n for n, case in INFERENCES.items() if not case.sampled and n != "ep"])
def test_draws_have_the_moments_of_the_belief(name: str) -> None:
    agent = taught(name, three_states())
    draws = [agent.sample() for _ in range(4000)]
    for table, p in agent.posterior().items():
        drawn = np.array([x[table] for x in draws])
        # 15 means of 7 inferences, 5 standard errors each: 6e-5 in all; 0.12 is 10 standard errors of a standard deviation
        assert (abs(drawn.mean(axis=0) - p.mean) < 5 * p.sd / np.sqrt(4000)).all()
        np.testing.assert_allclose(drawn.std(axis=0), p.sd, rtol=0.12)


@every
def test_the_action_is_the_best_one_of_its_draw(name: str) -> None:
    d = position_based()
    agent = taught(name, d)
    for _ in range(20):
        means = agent.copy().sample()
        assert agent.act() == idb.best_action(d, means).action


@every
def test_propensities_are_the_frequencies_of_actions(name: str) -> None:
    d = idb.models.position_based(3, 2)
    agent = taught(name, d, 10, seed=2)
    before = knowledge(agent)
    actions = [{"A1": a, "A2": b} for a in range(3) for b in range(3) if a != b]
    estimates = [agent.propensity(a, draws=2000) for a in actions]
    assert knowledge(agent) == before
    assert sum(p.probability for p in estimates) == pytest.approx(1)  # the same draws for every action
    taken = Counter(tuple(agent.act().values()) for _ in range(2000))
    for a, p in zip(actions, estimates, strict=True):
        assert p.standard_error > 0
        share = taken[tuple(a.values())] / 2000  # other draws: 6 actions, 10 inferences, 5 standard errors: below 4e-5
        assert abs(share - p.probability) <= 5 * np.sqrt(2) * p.standard_error
    other = agent.copy(seed=10)
    for a, p in zip(actions, estimates, strict=True):
        q = other.propensity(a, draws=2000)  # other draws: 6 actions, 10 inferences, 5 standard errors: below 4e-5
        assert abs(p.probability - q.probability) <= 5 * np.hypot(p.standard_error, q.standard_error)


# -- seeds and copies ----------------------------------------------------------------------------------------------


@every
def test_equal_seeds_act_alike_and_copies_go_their_own_way(name: str) -> None:
    world = position_based_world()
    first, same, other = (agent_of(name, position_based(), seed) for seed in (3, 3, 4))
    history = go_on(world.copy(), first, 30)
    assert go_on(world.copy(), same, 30) == history
    assert go_on(world.copy(), other, 30) != history
    assert knowledge(first) == knowledge(same)
    twin, deep, reseeded = first.copy(), copy.deepcopy(first), first.copy(seed=9)
    pickled = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(first))))
    before = knowledge(first)
    ahead = go_on(world.copy(), twin, 30)
    assert knowledge(first) == before
    assert reseeded.rounds == 30
    assert go_on(world.copy(), reseeded, 30) != ahead
    for agent in (deep, pickled, first):
        assert go_on(pickle.loads(pickle.dumps(world)), agent, 30) == ahead
        assert knowledge(agent) == knowledge(twin)
