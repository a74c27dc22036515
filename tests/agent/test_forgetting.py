"""Agents that forget: what fades and by how much, late rounds, room, files. Errors: test_forgetting_errors.py."""

from __future__ import annotations

import copy
import datetime
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from error_checks import assert_rejected_by
from idbandits import Forget
from idbandits.errors import ImpossibleObservationError
from idbandits.inference import FORGET
from inferences import INFERENCES, Counts, those
from internals import (
    determined,
    groups,
    kept,
    knowledge,
    number_of_groups,
    pseudo_counts,
    room_for_groups,
    with_all_derived_again,
)
from played_rounds import alpha_of, assert_close, go_on, play, world_of

DAY = datetime.timedelta(days=1)
START = datetime.datetime(2026, 3, 1, 12)
grouped = pytest.mark.parametrize("name", ["gibbs", "variational", "ep"])  # that keep groups


def forgetful(name: str, d: idb.Diagram, half_life: Any, seed: int = 0) -> idb.Thompson:
    """An agent that forgets, in the revealed diagram if its inference needs that."""
    case = INFERENCES[name]
    return idb.Thompson(d.revealed() if case.revealed else d, case.make(), seed, forget=Forget(half_life))


# -- what fades ----------------------------------------------------------------------------------------------------


def faded(d: idb.Diagram, played: list[Any], weights: np.ndarray) -> dict[str, np.ndarray]:
    """Pseudo-counts of a semi-bandit: the prior, and what was seen by its weight."""
    alpha = np.ones((d.nodes["A1"].states, 2))
    for p, weight in zip(played, weights, strict=True):
        for k in (1, 2):
            alpha[p.action[f"A{k}"], p.observation[f"X{k}"]] += weight
    return {"mean": alpha}


@pytest.mark.parametrize(("half_life", "step"), [(3, 1), (2.5, 1), (64, 1), (256, 4), (1000, 15.625), (0.01, 1)])
def test_exact_pseudo_counts_fade_step_by_step(half_life: float, step: float) -> None:
    d = idb.models.semi_bandit(4, 2)
    played = play(d, np.random.default_rng(0), 150)
    steps = np.arange(150) // step
    wanted = faded(d, played, 0.5 ** ((steps[-1] - steps) * step / half_life))
    one_by_one, at_once = (idb.Thompson(d, "exact", forget=Forget(half_life)) for _ in range(2))
    for p in played:
        one_by_one.update(p.action, p.observation)
    at_once.update_many(*({n: [getattr(p, f)[n] for p in played] for n in names} for f, names in COLUMNS.items()))
    for agent in (one_by_one, at_once):
        assert_close(alpha_of(agent), wanted, rtol=1e-9)
        assert agent.rounds == 150


COLUMNS = {"action": ("A1", "A2"), "observation": ("X1", "X2")}


@pytest.mark.parametrize("name", ["gibbs", "variational", "ep", "moments", "incremental"])
def test_where_nothing_is_latent_all_forget_alike(name: str) -> None:
    d = idb.models.semi_bandit(4, 2)
    exact, other = (idb.Thompson(d, inference, forget=Forget(20)) for inference in ("exact", name))
    for p in play(d, np.random.default_rng(1), 100):
        for agent in (exact, other):
            agent.update(p.action, p.observation)
    assert_close(alpha_of(other), alpha_of(exact), rtol=1e-9)


@grouped
def test_groups_are_thinned_at_random(name: str) -> None:
    agent = forgetful(name, idb.models.position_based(40, 2), "2d")
    number = 40 * 51
    actions = {"A1": np.repeat(np.arange(40), 51), "A2": np.repeat((np.arange(40) + 1) % 40, 51)}
    clicks = {"C1": np.zeros(number, int), "C2": np.zeros(number, int)}
    agent.update_many(actions, clicks, at=np.full(number, np.datetime64("2026-03-01")))
    assert sum(groups(agent).values()) == 2 * number
    agent.update({"A1": 0, "A2": 1}, {}, at=np.datetime64("2026-03-03"))
    counts = np.array(list(groups(agent).values()))
    assert len(counts) == 80
    assert set(counts.tolist()) == {25, 26}
    assert abs(counts.sum() - number) < 5 * np.sqrt(80 / 4)  # but for 6e-7


@grouped
def test_the_belief_of_what_has_faded_is_that_of_what_is_left(name: str) -> None:
    d = idb.models.position_based(3, 2)
    agent = forgetful(name, d, 200)
    rng = np.random.default_rng(3)
    first = rng.integers(3, size=2000)
    clicks = {n: (rng.random(2000) < p).astype(int) for n, p in (("C1", 0.5), ("C2", 0.2))}
    agent.update_many({"A1": first, "A2": (first + 1) % 3}, clicks)
    # the memory of 2000 rounds: 200 / ln 2 in all, of which two factors each; 5 standard errors of a Poisson number
    unclicked = sum((1 - c[t]) * 0.5 ** ((1999 - t) / 200) for c in clicks.values() for t in range(2000))
    assert abs(sum(groups(agent).values()) - unclicked) < 5 * np.sqrt(unclicked)
    certain = sum(c[t] * 0.5 ** ((1999 - t) / 200) for c in clicks.values() for t in range(2000))
    assert determined(agent).sum() == pytest.approx(10 + 2 * certain, rel=0.02)  # a click used two entries
    for p in agent.posterior().values():
        assert ((p.mean > 0.05) & (p.mean < 0.95)).all()


@pytest.mark.parametrize("name", [n for n in INFERENCES if n not in ("particles", "own")])
def test_the_belief_returns_to_the_prior_when_nothing_is_seen_for_long(name: str) -> None:
    agent = forgetful(name, idb.models.position_based(4, 2), "14d")
    fresh = agent.copy()
    nothing = dict.fromkeys(n.name for n in agent.diagram.of_kind("observed"))
    for p in play(agent.diagram, np.random.default_rng(0), 60, world=idb.models.position_based(4, 2)):
        agent.update(p.action, p.observation, at=START)
    far = max(abs(a - 1).max() for a in alpha_of(agent).values())
    assert far > 1
    for learner in (agent, fresh):
        learner.update({"A1": 0, "A2": 1}, nothing if name == "exact" else {"C1": None}, at=START + 10_000 * DAY)
    if name == "literal":  # it counts latent nodes that nobody saw, as the paper's equations do
        return
    if name == "gibbs":
        assert not groups(agent)
        np.testing.assert_allclose(pseudo_counts(agent), 1, rtol=1e-9)
    else:
        for alpha in alpha_of(agent).values():
            np.testing.assert_allclose(alpha, 1, rtol=1e-9, atol=1e-9)


def test_the_start_that_breaks_a_symmetry_is_returned_to() -> None:
    d = idb.Diagram("two classes")
    z = d.latent("Z", cpd=idb.Learned("class"))
    d.reward(d.observed("X", [z, d.decision("A", 2)], idb.Learned("answer")))
    for name in ("ep", "moments"):
        agent = idb.Thompson(d, name, seed=0, forget=Forget("1d"))
        start = pseudo_counts(agent)
        assert abs(start - 1).max() > 0.01
        for t in range(50):
            agent.update({"A": t % 2}, {"X": t % 2}, at=START)
        agent.update({"A": 0}, {}, at=START + 10_000 * DAY)
        np.testing.assert_allclose(pseudo_counts(agent), start, rtol=1e-9)


# -- times ---------------------------------------------------------------------------------------------------------


def test_a_late_round_counts_with_its_own_age() -> None:
    d = idb.models.semi_bandit(4, 2)
    rng = np.random.default_rng(2)
    played, hours = play(d, rng, 80), np.sort(rng.uniform(0, 200, 80))
    times = [START + datetime.timedelta(hours=h) for h in hours.tolist()]
    in_time, late = (idb.Thompson(d, "exact", forget=Forget("30h")) for _ in range(2))
    order = [*rng.permutation(79), 79]  # the last one first or last: then both know how late it is
    for i in range(80):
        in_time.update(played[i].action, played[i].observation, at=times[i])
    for i in order:
        late.update(played[i].action, played[i].observation, at=times[i])
    assert_close(alpha_of(late), alpha_of(in_time), rtol=1e-9)
    at_once = idb.Thompson(d, "exact", forget=Forget("30h"))
    log = [{n: [getattr(played[i], f)[n] for i in order] for n in names} for f, names in COLUMNS.items()]
    at_once.update_many(*log, at=[times[i] for i in order])
    assert_close(alpha_of(at_once), alpha_of(in_time), rtol=1e-9)


def test_the_age_in_rounds_of_a_late_round() -> None:
    d = idb.models.semi_bandit(3, 1)
    agent = idb.Thompson(d, "exact", forget=Forget(10))
    for _ in range(30):
        agent.update({"A1": 0}, {"X1": 1})
    agent.update({"A1": 2}, {"X1": 1}, at=10)
    agent.update({"A1": 1}, {"X1": 1})
    wanted = {"mean": np.array([[1, 1 + sum(0.5 ** (k / 10) for k in range(2, 32))], [1, 2], [1, 1 + 0.5**2.1]])}
    wanted["mean"][0, 1] = 1 + sum(0.5 ** (k / 10) for k in range(2, 32))
    assert_close(alpha_of(agent), wanted, rtol=1e-9)


@grouped
def test_late_rounds_are_counted_by_their_weight_on_average(name: str) -> None:
    agent = forgetful(name, idb.models.position_based(3, 2), "1d")
    agent.update({"A1": 0, "A2": 1}, {}, at=START)
    number = 4000
    log = {"A1": np.zeros(number, int), "A2": np.ones(number, int)}, {"C1": np.zeros(number, int)}
    agent.update_many(*log, at=[START - 2 * DAY] * number)
    (count,) = groups(agent).values()
    assert abs(count - number / 4) < 5 * np.sqrt(number * 3 / 16)  # binomial: but for 6e-7


@pytest.mark.parametrize(
    "times",
    [
        [START + k * DAY for k in range(4)],
        [(START + k * DAY).replace(tzinfo=datetime.UTC) for k in range(4)],
        [(START + k * DAY).astimezone(datetime.timezone(datetime.timedelta(hours=5))) for k in range(4)],
        [np.datetime64(START + k * DAY) for k in range(4)],
        [np.datetime64(START + k * DAY, "ns") for k in range(4)],
        [pd.Timestamp(START + k * DAY) for k in range(4)],
        [pd.Timestamp(START + k * DAY, tz="Asia/Kolkata") for k in range(4)],
        [(START + k * DAY).isoformat() for k in range(4)],
        [(START + k * DAY).isoformat() + "Z" for k in range(4)],
        [1e9 + 86_400 * k for k in range(4)],
        [np.int64(86_400 * k) for k in range(4)],
        pd.Series(pd.date_range(START, periods=4, freq="D")),
        pd.Series(pd.date_range(START, periods=4, freq="D", tz="Europe/Berlin")),
        np.arange("2026-03-01", "2026-03-05", dtype="datetime64[D]"),
        np.arange(4) * 86_400.0,
    ],
    ids=lambda times: f"{type(times).__name__} {times[0]!r}",
)
def test_times_of_many_kinds(times: Any) -> None:
    d = idb.models.semi_bandit(3, 1)
    one_by_one, at_once = (idb.Thompson(d, "exact", forget=Forget("1d")) for _ in range(2))
    for at in times:
        one_by_one.update({"A1": 0}, {"X1": 1}, at=at)
    at_once.update_many({"A1": [0] * 4}, {"X1": [1] * 4}, at=times)
    for agent in (one_by_one, at_once):  # steps of 1/64 day: a day is 64 of them
        np.testing.assert_allclose(agent.posterior()["mean"].alpha[0], [1, 1 + 1 + 1 / 2 + 1 / 4 + 1 / 8], rtol=1e-12)


def test_half_lives_of_many_kinds() -> None:
    fortnight = Forget("14d")
    days = np.timedelta64(14, "D"), datetime.timedelta(days=14), pd.Timedelta("14D"), " 2 w ", "336h", "1209600s"
    assert all(Forget(half_life) == fortnight for half_life in days)
    assert fortnight.half_life == datetime.timedelta(days=14)
    assert repr(Forget(np.int64(7))) == "Forget(half_life=7)"
    assert [repr(Forget(h)) for h in ("90s", "90m", "1.5h", "2w", 2.5)] == [
        "Forget(half_life='90s')", "Forget(half_life='90m')", "Forget(half_life='90m')", "Forget(half_life='14d')",
        "Forget(half_life=2.5)",
    ]  # fmt: skip
    assert eval(repr(fortnight)) == fortnight


# -- room ----------------------------------------------------------------------------------------------------------


@grouped
def test_groups_that_faded_away_do_not_pile_up(name: str) -> None:
    d = idb.models.dependent_click(30, 4)
    agent = forgetful(name, d, 200)
    rng = np.random.default_rng(0)
    rooms, numbers = [], []
    for _ in range(12):
        actions = np.array([rng.permutation(30)[:4] for _ in range(500)]).T
        log = {f"A{k + 1}": actions[k] for k in range(4)}, {f"C{k + 1}": rng.integers(2, size=500) for k in range(4)}
        agent.update_many(*log)
        rooms.append(room_for_groups(agent))
        numbers.append(number_of_groups(agent))
    assert rooms[-1] == rooms[2]
    assert 50 < len(groups(agent)) < 200 / np.log(2)  # which is the memory in rounds: not all have a group
    assert max(numbers) < 2.5 * 200 / np.log(2)
    before = groups(agent)
    shown = {f"A{k + 1}": int(a) for k, a in enumerate(actions[:, -1])}
    for _ in range(2):  # what is found again is counted where it stands
        agent.update(shown, {n: int(column[-1]) for n, column in log[1].items()})
    assert len(set(groups(agent)) - set(before)) <= 4
    if name == "gibbs":
        other = with_all_derived_again(agent)
        assert kept(other) == kept(agent)
        np.testing.assert_allclose(pseudo_counts(other), pseudo_counts(agent), rtol=1e-12)
        world = world_of(d)
        assert go_on(copy.deepcopy(world), agent, 50) == go_on(world, other, 50)


# -- files, copies, and errors of learners -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in INFERENCES if n not in ("particles", "own")])
def test_files_and_copies_go_on_as_if_nothing_happened(name: str, tmp_path: Path) -> None:
    d = idb.models.dependent_click(12, 3)
    agent = forgetful(name, d, 12, seed=4)
    world = world_of(d, seed=3)
    go_on(world, agent, 200)
    agent.save(tmp_path / "agent.npz")
    loaded = idb.Thompson.load(tmp_path / "agent.npz")
    others = [loaded, agent.copy(), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))]
    assert all(repr(other) == repr(agent) and other.forget == Forget(12) for other in others)
    worlds = [copy.deepcopy(world) for _ in others]
    history = go_on(world, agent, 300)
    for other, its_world in zip(others, worlds, strict=True):
        assert go_on(its_world, other, 300) == history
        assert kept(other) == kept(agent)


def test_a_clock_goes_on_after_a_file(tmp_path: Path) -> None:
    d = idb.models.semi_bandit(3, 1)
    agent = idb.Thompson(d, "exact", forget=Forget("1d"))
    agent.update({"A1": 0}, {"X1": 1}, at=START)
    agent.save(tmp_path / "agent.npz")
    loaded = idb.Thompson.load(tmp_path / "agent.npz")
    for it in (agent, loaded):
        it.update({"A1": 1}, {"X1": 1}, at=START + DAY)
    np.testing.assert_allclose(loaded.posterior()["mean"].alpha, [[1, 1.5], [1, 2], [1, 1]], rtol=1e-12)
    assert knowledge(loaded) == knowledge(agent)
    words = "has a time zone", "had no time zone"
    when = (START + DAY).replace(tzinfo=datetime.UTC)
    assert_rejected_by(loaded, idb.errors.IdbanditsError, words, lambda: loaded.update({"A1": 1}, {"X1": 1}, at=when))


@pytest.mark.parametrize("name", [n for n in INFERENCES if n not in ("particles", "own")])
def test_a_round_that_is_rejected_moves_no_clock(name: str) -> None:
    agent = forgetful(name, idb.models.cascade(4, 2), "1d")
    latent = {n.name: 1 for n in agent.diagram.of_kind("observed")}
    agent.update({"A1": 0, "A2": 1}, {**latent, "C1": 0, "C2": 1, "W1": 0} if name == "exact" else {"C1": 0}, at=START)
    words = "probability zero", "C2"
    later = START + 100 * DAY
    clicked = {**latent, "C1": 1, "C2": 1}
    assert_rejected_by(
        agent, ImpossibleObservationError, words, lambda: agent.update({"A1": 0, "A2": 1}, clicked, at=later)
    )
    log = [0], [1]
    assert_rejected_by(
        agent, ImpossibleObservationError, words,
        lambda: agent.update_many({"A1": log[0], "A2": log[1]}, {n: [v] for n, v in clicked.items()}, at=[later]),
    )  # fmt: skip


# -- several structures, custom inferences -------------------------------------------------------------------


def test_several_structures_forget_as_each_would_alone(tmp_path: Path) -> None:
    diagrams = [idb.models.position_based(5, 2), idb.models.saturated(5, 2)]
    alone = [idb.Thompson(d, idb.Variational(start="prior"), forget=Forget("1d")) for d in diagrams]
    agent = idb.Thompson(diagrams, idb.Variational(start="prior"), seed=0, forget=Forget("1d"))
    assert "forget=Forget(half_life='1d')" in repr(agent)
    for k in range(40):
        action, seen, at = (
            {"A1": k % 5, "A2": (k + 1) % 5},
            {"C1": 1, "C2": 1},
            START + k * DAY / 8,
        )  # clicks: all is certain
        for it in (agent, *alone):
            it.update(action, seen, at=at)
    log = {"A1": [0, 1], "A2": [1, 2]}, {"C1": [1, 1], "C2": [1, 1]}
    for it in (agent, *alone):
        it.update_many(*log, at=[START, START + 9 * DAY])
        it.revise({"A1": 1, "A2": 2}, {"C1": 1, "C2": 1}, {"C1": 1, "C2": 1}, at=START + 9 * DAY)
    agent.save(tmp_path / "agent.npz")
    for it in (agent, idb.Thompson.load(tmp_path / "agent.npz")):
        for d, own in zip(diagrams, alone, strict=True):
            assert_close({n: p.alpha for n, p in it.posterior()[d.name].items()}, alpha_of(own), rtol=1e-9)


class FadingCounts(Counts):
    """Custom inference that forgets."""

    capabilities = frozenset({FORGET})

    def learn(self, evidence: Any, state: Any, rng: Any, round_: Any) -> int:
        counts = state.floats[: evidence.learned]
        counts[:] = 1 + round_.keep * (counts - 1)
        self.settings["weight"] = round_.weight
        return super().learn(evidence, state, rng, round_)


def test_an_own_inference_may_forget() -> None:
    d = idb.models.semi_bandit(4, 2)
    own, exact = (idb.Thompson(d, inference, forget=Forget("6h")) for inference in (FadingCounts(), "exact"))
    rng = np.random.default_rng(0)
    hours = rng.integers(48, size=60).tolist()
    played = play(d, rng, 60)
    for agent in (own, exact):
        for p, h in zip(played[:40], hours, strict=False):
            agent.update(p.action, p.observation, at=START + datetime.timedelta(hours=h))
        log = [{n: [getattr(p, f)[n] for p in played[40:]] for n in names} for f, names in COLUMNS.items()]
        agent.update_many(*log, at=[START + datetime.timedelta(hours=h) for h in hours[40:]])
    assert_close(alpha_of(own), alpha_of(exact), rtol=1e-9)


# -- revising ------------------------------------------------------------------------------------------------------


@those(revisable=True)
def test_a_round_is_taken_back_with_the_weight_that_is_left(name: str) -> None:
    hidden = idb.models.position_based(3, 2)
    agent = forgetful(name, hidden, "10d")
    seen = {n.name: 1 for n in agent.diagram.of_kind("observed")}  # clicks: nothing is latent
    without = agent.copy()
    for k in range(20):
        agent.update({"A1": 0, "A2": 1}, seen, at=START + k * DAY)
        if k != 5:
            without.update({"A1": 0, "A2": 1}, seen, at=START + k * DAY)
    agent.revise({"A1": 0, "A2": 1}, seen, None, at=START + 5 * DAY)
    assert agent.rounds == without.rounds == 19
    place = pseudo_counts if name == "exact" else determined
    np.testing.assert_allclose(place(agent), place(without), rtol=1e-9)


@grouped
def test_what_has_faded_away_is_taken_back_without_harm(name: str) -> None:
    agent = forgetful(name, idb.models.position_based(3, 2), "1d")
    agent.update({"A1": 0, "A2": 1}, {"C1": 0, "C2": 1}, at=START)
    agent.update({"A1": 1, "A2": 2}, {}, at=START + 60 * DAY)
    assert not groups(agent)
    agent.revise({"A1": 0, "A2": 1}, {"C1": 0, "C2": 1}, {"C1": 1, "C2": 0}, at=START)
    agent.revise({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0}, None, at=START)
    assert agent.rounds == 1
    assert not groups(agent)
    assert (determined(agent) >= 1 - 1e-12).all()
    np.testing.assert_allclose(determined(agent), 1, atol=1e-9)


@those(revisable=True)
def test_faded_rounds_that_are_taken_back_leave_the_others(name: str) -> None:
    shown = {"A1": 0, "A2": 1}
    agent, direct = (forgetful(name, idb.models.position_based(3, 2), "1d") for _ in range(2))
    seen = {n.name: 1 for n in agent.diagram.of_kind("observed")}
    for k in range(10):
        agent.update(shown, seen, at=START + k * DAY)
    for k in range(1, 10):
        agent.revise(shown, seen, None, at=START + k * DAY)
    for k in (0, 9):
        direct.update(shown, seen, at=START + k * DAY)
    direct.revise(shown, seen, None, at=START + 9 * DAY)
    place = pseudo_counts if name == "exact" else determined
    np.testing.assert_allclose(place(agent), place(direct), rtol=1e-12)
    assert (place(agent) >= 1).all()
    assert agent.rounds == 1


@those(revisable=True)
def test_a_faded_round_cannot_be_taken_back_twice(name: str) -> None:
    shown = {"A1": 0, "A2": 1}
    agent = forgetful(name, idb.models.position_based(3, 2), "1d")
    seen = {n.name: 0 for n in agent.diagram.of_kind("observed")}
    for k in (0, 2):
        agent.update(shown, seen, at=START + k * DAY)
    agent.revise(shown, seen, None, at=START + 2 * DAY)
    before = knowledge(agent)
    with pytest.raises(idb.errors.ObservationError, match="was not learned before"):
        agent.revise(shown, seen, None, at=START + 2 * DAY)
    assert knowledge(agent) == before


@pytest.mark.parametrize("name", ["gibbs", "ep", "variational"])
@pytest.mark.parametrize("seed", range(5))
def test_revised_rounds_weigh_as_much_as_those_reported_once(name: str, seed: int) -> None:
    """Clicks that come one half-life late: nothing is left of 40 rounds without a click, half of 40 with one."""
    agent, once = (idb.Thompson(idb.models.position_based(41, 1), name, seed=seed, forget=Forget("1d")) for _ in "12")
    for item in range(40):
        agent.update({"A1": item}, {"C1": 0}, at=START)
        once.update({"A1": item}, {"C1": 1}, at=START)
    for own in (agent, once):
        own.update({"A1": 40}, {"C1": 1}, at=START + DAY)
    assert 4 <= sum(groups(agent).values()) <= 36  # each with probability 1/2; others have one of 1e-7
    for item in range(40):
        agent.revise({"A1": item}, {"C1": 0}, {"C1": 1}, at=START)
    assert not groups(agent)
    np.testing.assert_allclose(determined(agent), determined(once), rtol=1e-12)
