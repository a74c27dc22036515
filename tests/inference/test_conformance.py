"""One suite that every inference passes, the built-in ones and one that a user wrote in plain Python."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from scipy import stats

import idbandits as idb
import reference
from idbandits.errors import ActionError, ContextError, IdbanditsError, ImpossibleObservationError, ObservationError
from idbandits.inference.groups import grown
from inferences import (
    ALL,
    CONJUGATE,
    GROUPED,
    MAKE,
    SEES_ALL,
    Counts,
    agent_of,
    belief,
    determined,
    every,
    groups,
    position_based,
    taught,
    truth,
)
from playing import (
    alpha_of,
    assert_close,
    columns,
    in_context,
    learn,
    learn_at_once,
    play,
    random_learning_diagram,
    rounds_of,
    same_table_twice,
    three_states,
)

# -- learning ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONJUGATE)
@pytest.mark.parametrize("make", [same_table_twice, three_states, in_context, position_based, 0, 1, 2, 3, 4, 5])
def test_all_agree_where_everything_is_seen(make: Callable[[], idb.Diagram] | int, name: str) -> None:
    hidden = random_learning_diagram(make) if isinstance(make, int) else make()
    d = hidden.revealed()
    played = play(d, np.random.default_rng(1), 10, world=hidden)
    exact = reference.exact_step(d, rounds_of(played), reference.prior_of(d))
    one_by_one, at_once = (how(idb.Thompson(d, MAKE[name](), seed=0), played) for how in (learn, learn_at_once))
    assert_close(alpha_of(one_by_one), exact, rtol=1e-9)
    assert_close(alpha_of(at_once), exact, rtol=1e-9)
    assert one_by_one.rounds == at_once.rounds == 10


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
    agent = taught(name, position_based())
    before, counted, fresh = alpha_of(agent), groups(agent), agent_of(name, position_based())
    nothing = dict.fromkeys(n.name for n in agent.diagram.of_kind("observed"))
    agent.update({"A1": 0, "A2": 1}, nothing)
    fresh.update({"A1": 0, "A2": 1}, {})
    assert (agent.rounds, fresh.rounds) == (16, 1)
    if name == "literal":  # it counts latent nodes that nobody saw, as the paper's equations do
        assert sum(a.sum() for a in alpha_of(agent).values()) == pytest.approx(
            sum(a.sum() for a in before.values()) + 4
        )
        return
    assert groups(agent) == counted
    if name in ("incremental", "moments", "exact", "own"):
        assert_close(alpha_of(agent), before, rtol=1e-12)
    if name != "particles":
        assert_close(alpha_of(fresh), reference.prior_of(fresh.diagram), rtol=1e-12)


@every
def test_items_never_shown_keep_their_prior(name: str) -> None:
    if name == "particles":
        pytest.skip("particles move whatever is shown")
    d = position_based()
    agent = agent_of(name, d)
    played = play(agent.diagram, np.random.default_rng(2), 40, world=d)
    learn(agent, [p for p in played if 3 not in p.action.values()])
    posterior = agent.posterior()["attraction"]
    if name == "gibbs":  # a mean of 2000 independent uniform draws is off by 6 standard errors with probability 2e-9
        assert abs(posterior.mean[3] - 0.5) < 6 * np.sqrt(1 / 12 / 2000)
    else:
        np.testing.assert_allclose(posterior.alpha[3], [1, 1], rtol=1e-12)
    assert (abs(posterior.alpha[:3] - 1) > 1e-3).any(axis=-1).all()


@every
def test_many_rounds_at_once_are_the_same_rounds(name: str) -> None:
    d = in_context()
    agent = agent_of(name, d)
    unseen = 0.0 if name in SEES_ALL else 0.3
    played = play(agent.diagram, np.random.default_rng(3), 25, unseen, world=d)
    one_by_one, at_once = (how(agent.copy(), played) for how in (learn, learn_at_once))
    assert one_by_one.rounds == at_once.rounds == 25
    if name in ("exact", "incremental", "moments", "own", "particles"):
        assert_close(alpha_of(at_once), alpha_of(one_by_one), rtol=1e-12)
    if name in GROUPED:
        assert groups(at_once) == groups(one_by_one)
        np.testing.assert_allclose(determined(at_once), determined(one_by_one), rtol=1e-12)


@pytest.mark.parametrize("name", GROUPED)
def test_groups_are_counted_beyond_their_first_room(name: str) -> None:
    d = idb.models.position_based(150, 2)
    played = play_widely(d, 1500)
    agent = idb.Thompson(d, MAKE[name](), seed=0)
    roomy = agent.copy()
    for _ in range(4):
        roomy._state = grown(roomy._state)
    for p in played[:700]:
        agent.update(*p)
        roomy.update(*p)
    for a in (agent, roomy):
        many_at_once(a, played[700:])
    wanted = Counter((k, action[f"A{k + 1}"]) for action, seen in played for k in range(2) if seen[f"C{k + 1}"] == 0)
    assert len(wanted) > 256
    found: Counter[Any] = Counter()
    for (_, *key), n in groups(agent).items():
        if name != "literal" or 1 not in key[1:]:
            found[n] += 1
    assert found == Counter(wanted.values())
    assert_close(alpha_of(agent), alpha_of(roomy), rtol=1e-12)


def play_widely(d: idb.Diagram, rounds: int) -> list[tuple[dict[str, int], dict[str, int]]]:
    rng = np.random.default_rng(5)
    choices = [rng.permutation(150)[:2].tolist() for _ in range(rounds)]
    clicks = (rng.random((rounds, 2)) < 0.2).astype(int).tolist()
    return [
        (dict(zip(("A1", "A2"), a, strict=True)), dict(zip(("C1", "C2"), c, strict=True)))
        for a, c in zip(choices, clicks, strict=True)
    ]


def many_at_once(agent: idb.Thompson, rounds: list[tuple[dict[str, int], dict[str, int]]]) -> None:
    agent.update_many(*({k: [r[i][k] for r in rounds] for k in rounds[0][i]} for i in (0, 1)))


@every
def test_many_rounds_in_a_data_frame_and_in_blocks(name: str) -> None:
    d = position_based()
    agent = agent_of(name, d)
    played = play(agent.diagram, np.random.default_rng(4), 20, world=d)
    actions, seen, _ = columns(agent.diagram, played)
    by_arrays, by_frames = agent.copy(), agent.copy()
    by_arrays.update_many(actions, seen)
    by_frames.update_many(pandas.DataFrame(actions), pandas.DataFrame(seen))
    assert belief(by_arrays) == belief(by_frames)
    seen["C1"][3] = None
    with_none, with_nan = agent.copy(), agent.copy()
    if name not in SEES_ALL:
        with_none.update_many(actions, seen)
        with_nan.update_many(actions, seen | {"C1": np.array(seen["C1"], dtype=np.float64)})
        assert belief(with_none) == belief(with_nan)
    by_frames.update_many({"A1": [], "A2": []}, {n.name: [] for n in agent.diagram.of_kind("observed")})
    assert by_frames.rounds == 20


# -- what is refused changes nothing -------------------------------------------------------------------------------


def bad_rounds(agent: idb.Thompson) -> list[tuple[type[Exception], Callable[[], None]]]:
    d = agent.diagram
    zero = {n.name: 0 for n in d.of_kind("observed")}
    good = {"A1": 0, "A2": 1}
    return [
        (ActionError, lambda: agent.update({"A1": 0}, zero)),
        (ActionError, lambda: agent.update({"A1": 0, "A2": 0}, zero)),
        (ActionError, lambda: agent.update({"A1": 0, "A2": 9}, zero)),
        (ActionError, lambda: agent.update({"A1": 0, "A2": 1, "A3": 0}, zero)),
        (ObservationError, lambda: agent.update(good, zero | {"C9": 0})),
        (ObservationError, lambda: agent.update(good, zero | {"C1": 2})),
        (ObservationError, lambda: agent.update(good, zero | {"A1": 0})),
        (ContextError, lambda: agent.update(good, zero, {"who": 1})),
        (ContextError, lambda: agent.act({"who": 1})),
        (ImpossibleObservationError, lambda: agent.update(good, zero | {"C1": 1, "C2": 1})),
        (ImpossibleObservationError, lambda: many(agent, [zero, zero, zero | {"C1": 1, "C2": 1}])),
        (ObservationError, lambda: many(agent, [zero, zero, zero | {"C1": 7}])),
        (ActionError, lambda: agent.update_many({"A1": [0, 1], "A2": [1, 1]}, {"C1": [0, 0], "C2": [0, 0]})),
        (IdbanditsError, lambda: agent.update_many({"A1": [0, 1], "A2": [1]}, {"C1": [0, 0], "C2": [0, 0]})),
        (ObservationError, lambda: agent.update_many({"A1": [0], "A2": [1]}, {"C9": [0]})),
    ]


def many(agent: idb.Thompson, seen: list[dict[str, int]]) -> None:
    agent.update_many(
        {"A1": [0] * len(seen), "A2": [1] * len(seen)}, {name: [s[name] for s in seen] for name in seen[0]}
    )


@every
def test_what_is_refused_changes_nothing(name: str) -> None:
    agent = taught(name, idb.models.cascade(4, 2))
    before = belief(agent)
    for error, attempt in bad_rounds(agent):
        with pytest.raises(error) as refused:
            attempt()
        assert len(str(refused.value)) > 20
        assert belief(agent) == before, str(refused.value)


def test_the_default_learns_from_every_action_it_may_take() -> None:
    d = idb.Diagram("one noisy item in fifty")
    item = d.decision("A", 50)
    z = d.latent("Z", [item], idb.Learned("chance"))
    d.reward(d.observed("X", [z, item], lambda z, a: z if a != 37 else 0.2 + 0.6 * z))
    agent = idb.Thompson(d, seed=0)
    for a in range(50):
        agent.update({"A": a}, {"X": 1})
    assert agent.rounds == 50


def test_exact_is_not_refused_because_of_an_action_that_is_forbidden() -> None:
    d = idb.Diagram("never both")
    first, second = d.decision("A1", 3), d.decision("A2", 3)
    z = d.latent("Z", [first], idb.Learned("chance"))
    d.reward(d.observed("X", [z, first, second], lambda z, a, b: z if a != b else 0.2 + 0.6 * z))
    d.all_different()
    agent = idb.Thompson(d, "exact", seed=0)
    agent.update({"A1": 0, "A2": 1}, {"X": 1})
    np.testing.assert_array_equal(agent.posterior()["chance"].alpha, [[1, 2], [1, 1], [1, 1]])


# -- acting --------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("make", [in_context, position_based, three_states, *range(6)])
def test_actions_are_feasible_and_draws_are_means(make: Callable[[], idb.Diagram] | int, name: str) -> None:
    d = random_learning_diagram(make) if isinstance(make, int) else make()
    agent = taught(name, d)
    contexts = {n.name: n.values[-1] for n in d.of_kind("context")} or None
    for _ in range(5):
        action = agent.act(contexts)
        assert reference.feasible(d, {k: list(d.nodes[k].values).index(v) for k, v in action.items()})
        assert action.keys() == {n.name for n in d.of_kind("decision")}
        means = agent.sample()
        assert means.keys() == d.learned.keys()
        for t in d.learned.values():
            assert means[t.name].shape == t.means_shape
            assert ((means[t.name] > 0) & (means[t.name] < 1)).all()
            if t.states > 2:
                np.testing.assert_allclose(means[t.name].sum(axis=-1), 1, rtol=1e-12)
        idb.expected_reward(d, action, means, contexts)


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
                for found, wanted in zip((p.quantile(0.3), p.sd), full, strict=True):
                    np.testing.assert_allclose(found, wanted[..., 1] if t.states == 2 else wanted, rtol=1e-7)
        with pytest.raises(IdbanditsError, match="quantile"):
            p.quantile(1.5)


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("particles", "gibbs", "ep")])
def test_draws_have_the_moments_of_the_belief(name: str) -> None:
    agent = taught(name, three_states())
    draws = [agent.sample() for _ in range(4000)]
    for table, p in agent.posterior().items():
        found = np.array([x[table] for x in draws])
        # 15 means of 7 inferences, 5 standard errors each: 6e-5 in all; 0.12 is 10 standard errors of a standard deviation
        assert (abs(found.mean(axis=0) - p.mean) < 5 * p.sd / np.sqrt(4000)).all()
        np.testing.assert_allclose(found.std(axis=0), p.sd, rtol=0.12)


def test_the_action_is_the_best_one_of_its_draw() -> None:
    d = position_based()
    agent = taught("moments", d)
    for _ in range(20):
        twin = agent.copy()
        means = twin.sample()
        assert agent.act() == idb.best_action(d, means).action


# -- copies, seeds, files ------------------------------------------------------------------------------------------


def go_on(agent: idb.Thompson, world: idb.World, rounds: int) -> list[Any]:
    found = []
    for _ in range(rounds):
        action = agent.act()
        agent.update(action, world.step(action).seen_by(agent.diagram))
        found.append((action, {k: v.tolist() for k, v in agent.sample().items()}))
    return found


@every
def test_equal_seeds_act_alike_and_copies_are_apart(name: str) -> None:
    first, same, other = (agent_of(name, position_based(), seed) for seed in (3, 3, 4))
    assert go_on(first, truth(), 30) == go_on(same, truth(), 30)
    assert go_on(other, truth(), 30) != go_on(agent_of(name, position_based(), 3), truth(), 30)
    twin, reseeded = first.copy(), first.copy(seed=9)
    before = belief(first)
    assert belief(twin) == before
    assert alpha_of(reseeded).keys() == alpha_of(first).keys()
    ahead = go_on(twin, truth(), 20)
    assert go_on(reseeded, truth(), 20) != ahead
    assert belief(first) == before
    assert go_on(first, truth(), 20) == ahead


@every
def test_a_file_goes_on_as_if_nothing_had_happened(name: str, tmp_path: Path) -> None:
    agent = agent_of(name, position_based())
    go_on(agent, truth(), 25)
    agent.save(tmp_path / "agent.npz")
    own = Counts() if name == "own" else None
    loaded = idb.Thompson.load(tmp_path / "agent.npz", inference=own, diagram=agent.diagram)
    assert loaded.inference.settings == agent.inference.settings
    assert belief(loaded) == belief(agent)
    assert go_on(loaded, truth(), 100) == go_on(agent, truth(), 100)
    assert loaded.rounds == 125
    if name == "own":
        with pytest.raises(IdbanditsError, match=r"Counts.*inference="):
            idb.Thompson.load(tmp_path / "agent.npz")
    with pytest.raises(IdbanditsError, match="another diagram"):
        idb.Thompson.load(tmp_path / "agent.npz", inference=own, diagram=idb.models.rank1(2, 2))


def test_a_file_goes_on_in_another_process(tmp_path: Path) -> None:
    agent = agent_of("gibbs", position_based())
    go_on(agent, truth(), 25)
    agent.save(tmp_path / "agent.npz")
    script = (
        "import sys, json, idbandits as idb; a = idb.Thompson.load(sys.argv[1]); acts = []\n"
        "for _ in range(20):\n"
        "    acts.append(a.act()); a.update(acts[-1], {'C1': 0, 'C2': 1})\n"
        "print(json.dumps([acts, a.posterior()['attraction'].mean.tolist()]))"
    )
    out = subprocess.run([sys.executable, "-c", script, str(tmp_path / "agent.npz")], capture_output=True, check=True)
    acts = []
    for _ in range(20):
        acts.append(agent.act())
        agent.update(acts[-1], {"C1": 0, "C2": 1})
    assert json.loads(out.stdout) == [acts, agent.posterior()["attraction"].mean.tolist()]


# -- second thoughts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exact", "variational", "literal", "gibbs"])
def test_a_revised_round_is_as_if_learned_at_once(name: str) -> None:
    hidden = idb.models.position_based(3, 2)
    agent = agent_of(name, hidden)
    d = agent.diagram
    played = play(d, np.random.default_rng(7), 20, world=hidden)
    old, new = played[4], played[9]._replace(action=played[4].action)
    first = {n.name: None for n in d.of_kind("observed")} if name != "exact" else old.observation
    kept = [*played[:4], *played[5:]]
    revised, direct = agent.copy(), agent.copy()
    learn(revised, [*played[:4], old._replace(observation=first), *played[5:]])
    revised.revise(old.action, first, new.observation)
    learn(direct, [*kept, new])
    assert revised.rounds == direct.rounds == 20
    same_belief(name, revised, direct)
    revised.revise(old.action, new.observation, None)
    without = learn(agent.copy(), kept)
    assert revised.rounds == 19
    same_belief(name, revised, without)


def same_belief(name: str, found: idb.Thompson, wanted: idb.Thompson) -> None:
    if name == "exact":
        assert_close(alpha_of(found), alpha_of(wanted), rtol=1e-12)
    elif name == "gibbs":
        for table, p in found.posterior().items():
            q = wanted.posterior()[table]
            # chains of 2000 with an autocorrelation time below 40: 6 standard errors of their difference
            assert (abs(p.mean - q.mean) < 6 * q.sd * np.sqrt(2 * 40 / 2000)).all()
        np.testing.assert_allclose(determined(found), determined(wanted), rtol=1e-12)
        assert groups(found) == groups(wanted)
    else:
        assert groups(found) == groups(wanted)
        np.testing.assert_allclose(determined(found), determined(wanted), rtol=1e-12)
        for agent in (found, wanted):
            for _ in range(20):
                agent.update_many({"A1": [], "A2": []}, {"C1": [], "C2": []})
        assert found.elbo() == pytest.approx(wanted.elbo(), abs=1e-6)
        assert_close(alpha_of(found), alpha_of(wanted), rtol=1e-2)


@pytest.mark.parametrize("name", ["exact", "variational", "literal", "gibbs"])
def test_what_was_not_learned_cannot_be_taken_back(name: str) -> None:
    d = idb.models.position_based(3, 2)
    agent = agent_of(name, d)
    zero = {n.name: 0 for n in agent.diagram.of_kind("observed")}
    one = {n.name: 1 for n in agent.diagram.of_kind("observed")}
    agent.update({"A1": 0, "A2": 1}, zero)
    before = belief(agent)
    for action, old, new in (
        ({"A1": 0, "A2": 1}, one, zero),
        ({"A1": 0, "A2": 1}, one, None),
        ({"A1": 2, "A2": 1}, zero, None),
    ):
        with pytest.raises(ObservationError, match="not learned before"):
            agent.revise(action, old, new)
        assert belief(agent) == before
    with pytest.raises(ObservationError):
        agent.revise({"A1": 0, "A2": 1}, zero, {"C9": 1})
    agent.revise({"A1": 0, "A2": 1}, zero, None)  # now it was, but once only
    with pytest.raises(ObservationError, match="not learned before"):
        agent.revise({"A1": 0, "A2": 1}, zero, None)
    assert agent.rounds == 0


@pytest.mark.parametrize("name", ["exact", "variational", "gibbs"])
def test_a_round_that_used_an_entry_twice_is_not_taken_back_for_one(name: str) -> None:
    d = idb.models.semi_bandit(2, 2, distinct=False)
    agent = idb.Thompson(d, MAKE[name](), seed=0)
    agent.update({"A1": 0, "A2": 1}, {"X1": 1, "X2": 0})
    with pytest.raises(ObservationError, match="not learned before"):
        agent.revise({"A1": 0, "A2": 0}, {"X1": 1, "X2": 1}, None)
    np.testing.assert_array_equal(agent.posterior()["mean"].alpha, [[1, 2], [2, 1]])


@pytest.mark.parametrize("name", ["exact", "variational", "gibbs"])
def test_an_agent_that_learned_nothing_has_nothing_to_take_back(name: str) -> None:
    agent = idb.Thompson(idb.models.semi_bandit(2, 1), MAKE[name](), seed=0)
    with pytest.raises(ObservationError, match="not learned before"):
        agent.revise({"A1": 0}, {}, None)
    assert agent.rounds == 0


@pytest.mark.parametrize("name", ["incremental", "moments", "ep", "particles", "own"])
def test_those_that_keep_no_rounds_say_so(name: str) -> None:
    agent = taught(name, position_based())
    seen = {n.name: 0 for n in agent.diagram.of_kind("observed")}
    before = belief(agent)
    with pytest.raises(IdbanditsError, match="exact, variational and gibbs can"):
        agent.revise({"A1": 0, "A2": 1}, seen, None)
    assert belief(agent) == before


# -- propensities --------------------------------------------------------------------------------------------------


@every
def test_propensities_are_the_frequencies_of_actions(name: str) -> None:
    d = idb.models.position_based(3, 2)
    agent = taught(name, d, 10, seed=2)
    before = belief(agent)
    actions = [{"A1": a, "A2": b} for a in range(3) for b in range(3) if a != b]
    found = [agent.propensity(a, draws=2000) for a in actions]
    assert belief(agent) == before
    assert sum(p.probability for p in found) == pytest.approx(1)  # the same draws for every action
    taken = Counter(tuple(agent.act().values()) for _ in range(2000))
    for a, p in zip(actions, found, strict=True):
        assert p.standard_error > 0
        share = taken[tuple(a.values())] / 2000  # other draws: 6 actions, 10 inferences, 5 standard errors: below 4e-5
        assert abs(share - p.probability) <= 5 * np.sqrt(2) * p.standard_error
    other = agent.copy(seed=10)
    for a, p in zip(actions, found, strict=True):
        q = other.propensity(a, draws=2000)  # other draws: 6 actions, 10 inferences, 5 standard errors: below 4e-5
        assert abs(p.probability - q.probability) <= 5 * np.hypot(p.standard_error, q.standard_error)
    with pytest.raises(IdbanditsError, match="draws"):
        agent.propensity(actions[0], draws=0)
