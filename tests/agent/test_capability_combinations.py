"""Capabilities that are right alone and were wrong together: each case is one that was found in use.

Whole lifetimes are in test_lifetime.py, pairs of capabilities in test_capability_pairs.py, threads in
test_lifetime_threads.py.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from idbandits import models
from internals import groups

pytestmark = pytest.mark.filterwarnings("ignore::idbandits.errors.DiagramWarning")
COUNTING = pytest.mark.parametrize("inference", ["gibbs", "ep", "variational"])
START, DAY = datetime.datetime(2026, 1, 1), datetime.timedelta(days=1)


# -- late rounds with features -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
@COUNTING
def test_late_rounds_of_items_with_features_are_learned_as_in_time(inference: str, seed: int) -> None:
    """250 rounds, a move to 35 items of which 15 are shared, then 349 late rounds: no item is believed otherwise."""
    rng = np.random.default_rng(seed)
    catalogue = pd.DataFrame(rng.normal(size=(40, 4)), index=[f"item {i}" for i in range(40)], columns=list("pqrs"))
    truth = 1 / (1 + np.exp(-catalogue.to_numpy() @ rng.normal(size=4)))
    names = list(catalogue.index)
    old, new = (model_with_features(items, catalogue) for items in (names[:20], names[5:]))
    rounds = played_rounds(rng, names[:20], truth, 599)
    in_time, late = (idb.Thompson(old, inference, seed=0) for _ in range(2))
    for action, seen in rounds:
        in_time.update(action, seen)
    in_time = in_time.moved_to(new)
    for number, (action, seen) in enumerate(rounds):
        late = late.moved_to(new) if number == 250 else late
        late.update(action, seen)
    found, wanted = (agent.posterior()["attraction"] for agent in (late, in_time))
    agreement = [np.corrcoef(belief.mean[:15], truth[5:20])[0, 1] for belief in (found, wanted)]
    assert agreement[0] > agreement[1] - 0.03
    assert (abs(found.mean - wanted.mean) / wanted.sd).max() < 3  # fits and chains that began elsewhere differ by 1
    assert late.rounds == in_time.rounds == 599


def model_with_features(items: list[str], catalogue: pd.DataFrame) -> idb.Diagram:
    """A position-based model of items with features."""
    features, fixed = {"attraction": catalogue.loc[items]}, {"examination": {0: 1.0}}
    return models.position_based(items, 3, features=features, fixed=fixed)


def played_rounds(rng: np.random.Generator, items: list[str], truth: Any, number: int) -> list[tuple[Any, Any]]:
    """Rounds of random lists in a position-based world."""
    examination, rounds = [1.0, 0.7, 0.4], []
    for _ in range(number):
        shown = rng.permutation(len(items))[:3]
        clicks = rng.random(3) < truth[shown] * examination
        rounds.append(
            (
                {f"A{k + 1}": items[i] for k, i in enumerate(shown)},
                {f"C{k + 1}": int(clicked) for k, clicked in enumerate(clicks)},
            )
        )
    return rounds


# -- features keep their meaning ---------------------------------------------------------------------------------------


def page(items: dict[str, Any], column: str) -> idb.Diagram:
    """Items with a feature, clicked by users with features."""
    d = idb.Diagram("page")
    user = d.context("user", features={"age": (40, 15)})
    table = idb.Learned("click", features=pd.DataFrame({column: items}), residuals=0.5)
    d.reward(d.observed("C", [d.decision("A", list(items)), user], table))
    return d


def shown_rates(d: idb.Diagram, rates: dict[str, float], rounds: int = 120) -> idb.Thompson:
    """An agent after each item was shown, and clicked at its rate."""
    agent = idb.Thompson(d, seed=0)
    for t in range(rounds):
        for item, rate in rates.items():
            clicked = int((t * rate) % 1 + rate >= 1)
            agent.update({"A": item}, {"C": clicked}, {"user": {"age": 30 + t % 20}})
    return agent


def means_by_item(agent: idb.Thompson) -> dict[str, float]:
    """The mean of every item, for a user of whom nothing is known."""
    return dict(zip(agent.diagram.nodes["A"].values, agent.posterior()["click"].mean.ravel().tolist(), strict=True))


@pytest.mark.parametrize(
    ("column", "before", "after", "rates"),
    [
        (
            "section",
            {"p1": "pol", "p2": "pol", "p3": "pol", "s1": "sport", "s2": "sport"},
            {"p1": "pol", "p2": "pol", "s1": "sport", "s2": "sport", "s3": "sport"},
            {"p1": 0.6, "p2": 0.6, "p3": 0.6, "s1": 0.1, "s2": 0.1},
        ),
        (
            "price",
            {"soup": 5.0, "rice": 8.0, "curry": 11.0, "lobster": 60.0},
            {"soup": 5.0, "rice": 8.0, "curry": 11.0},
            {"soup": 0.9, "rice": 0.7, "curry": 0.5, "lobster": 0.05},
        ),
    ],
    ids=["categories", "numbers"],
)
def test_items_that_stay_are_believed_as_before_a_move(column: str, before: Any, after: Any, rates: Any) -> None:
    """The base category and the scale of a column do not change with the items that there are."""
    agent = shown_rates(page(before, column), rates)
    kept, moved = means_by_item(agent), means_by_item(agent.moved_to(page(after, column)))
    for item in before.keys() & after.keys():
        assert moved[item] == pytest.approx(kept[item], abs=1e-9)
    back = means_by_item(agent.moved_to(page(after, column)).moved_to(page(before, column)))
    assert back == pytest.approx(kept, abs=1e-9)  # also of items that left and returned


# -- few current rounds and many late ones -----------------------------------------------------------------------------


@COUNTING
def test_a_log_of_late_rounds_and_one_current_round_is_learned(inference: str) -> None:
    """2,000 late rounds say that nobody looks at the second position."""
    rng = np.random.default_rng(0)
    old, new = (models.position_based(list(items), 2, fixed={"examination": {0: 1.0}}) for items in ("abcd", "cdef"))
    agent = idb.Thompson(old, inference, seed=0).moved_to(new)
    pairs = [rng.permutation(list("abcd"))[:2].tolist() for _ in range(2000)]
    pairs = [("a", second if second != "a" else "b") for _, second in pairs] + [("c", "d")]
    log = {"A1": [first for first, _ in pairs], "A2": [second for _, second in pairs]}
    first, second = (rng.random(2001) < 0.8).astype(int), (rng.random(2001) < 0.02).astype(int)
    agent.update_many({**log, "A1": [pair[0] for pair in pairs]}, {"C1": first, "C2": second})
    alone = idb.Thompson(models.position_based(list("abcdef"), 2, fixed={"examination": {0: 1.0}}), inference, seed=0)
    alone.update_many(log, {"C1": first, "C2": second})
    belief, wanted = agent.posterior()["examination"], alone.posterior()["examination"]
    assert agent.rounds == 2001
    assert abs(belief.mean[1] - wanted.mean[1]) < 0.3 * wanted.sd[1] + 0.01


# -- latent states that a removed node distinguished ----------------------------------------------------------------------


def survey(hinted: bool) -> idb.Diagram:
    """Visitors of two types that cannot be distinguished, except by a hint."""
    d = idb.Diagram("survey")
    kind = d.latent("type", cpd=idb.Learned("types"))
    d.reward(d.observed("liked", [kind, d.decision("A", 1)], idb.Learned("appeal")))
    if hinted:
        d.observed("hint", [kind], [0.02, 0.98])
    return d


def test_latent_states_stay_apart_after_the_node_that_distinguished_them_is_gone() -> None:
    rng = np.random.default_rng(0)
    agent = idb.Thompson(survey(hinted=True), "gibbs", seed=0)
    kinds = rng.integers(2, size=1500)
    hints = (rng.random(1500) < np.array([0.02, 0.98])[kinds]).astype(int)
    liked = (rng.random(1500) < np.array([0.1, 0.8])[kinds]).astype(int)
    agent.update_many({"A": [0] * 1500}, {"liked": liked, "hint": hints})
    before = agent.posterior()["appeal"]
    moved = agent.moved_to(survey(hinted=False))
    after = moved.posterior()["appeal"]
    np.testing.assert_allclose(before.mean.ravel(), [0.1, 0.8], atol=0.06)
    np.testing.assert_allclose(after.mean.ravel(), before.mean.ravel(), atol=0.03)
    np.testing.assert_allclose(after.sd.ravel(), before.sd.ravel(), rtol=0.5)
    draws = moved.draws(400)["appeal"].reshape(400, 2)
    assert (draws[:, 0] < draws[:, 1]).all()  # the states of every draw are those that the hints named


# -- rounds that faded are revised -------------------------------------------------------------------------------------


def faded_agent(inference: str, seed: int, times: int) -> idb.Thompson:
    """An agent with incomplete rounds of 60 items, that count half by now."""
    agent = idb.Thompson(models.position_based(60, 1), inference, seed=seed, forget=idb.Forget("10d"))
    for item in range(60):
        for _ in range(times):
            agent.update({"A1": item}, {"C1": 0}, at=START)
    agent.update({"A1": 0}, {}, at=START + 10 * DAY)
    return agent


def incomplete(agent: idb.Thompson) -> float:
    """Return the number of rounds of which it is not known why there was no click."""
    return float(sum(groups(agent).values()))


@COUNTING
def test_all_of_faded_rounds_can_be_taken_back(inference: str) -> None:
    agent = faded_agent(inference, 0, times=1)
    for item in range(60):
        agent.revise({"A1": item}, {"C1": 0}, None, at=START)
    assert incomplete(agent) == 0
    assert agent.rounds == 1


@COUNTING
def test_as_much_of_a_faded_round_is_taken_back_as_is_left_of_it(inference: str) -> None:
    """Of three rounds that count half, one is taken back: two that count half are left, on average over 60 x 20.

    An agent's count of an item is off by at most 1, so the mean of 1,200 by 0.03: 5 standard errors are 0.15.
    """
    left = []
    for seed in range(20):
        agent = faded_agent(inference, seed, times=3)
        for item in range(60):
            agent.revise({"A1": item}, {"C1": 0}, None, at=START)
        left.append(incomplete(agent) / 60)
    assert np.mean(left) == pytest.approx(1.0, abs=0.15)


@COUNTING
def test_a_completed_round_weighs_as_much_as_one_that_was_reported_once(inference: str) -> None:
    """Of 60 x 2 rounds that count half, all are completed by clicks: none is incomplete, and clicks count 60 in all."""
    agent, once = faded_agent(inference, 0, times=2), idb.Thompson(
        models.position_based(60, 1), inference, seed=0, forget=idb.Forget("10d")
    )  # fmt: skip
    for item in range(60):
        for _ in range(2):
            agent.revise({"A1": item}, {"C1": 0}, {"C1": 1}, at=START)
            once.update({"A1": item}, {"C1": 1}, at=START)
    once.update({"A1": 0}, {}, at=START + 10 * DAY)
    assert incomplete(agent) == incomplete(once) == 0
    found, wanted = (one.posterior()["attraction"] for one in (agent, once))
    np.testing.assert_allclose(found.rounds, wanted.rounds, rtol=1e-9)
    assert found.rounds.sum() == pytest.approx(60)


# -- smaller ones ------------------------------------------------------------------------------------------------------


def test_an_agent_moves_to_a_diagram_without_learned_tables_and_back() -> None:
    known, d = idb.Diagram("known"), models.semi_bandit(3, 1)
    known.reward(known.observed("X1", [known.decision("A1", 3)], [0.1, 0.2, 0.3]))
    for inference in ("gibbs", "exact", "ep", "variational", "incremental", "moments", "particles"):
        agent = idb.Thompson(d, inference, seed=0)
        agent.update({"A1": 1}, {"X1": 1})
        moved = agent.moved_to(known)
        assert moved.act()["A1"] == 2
        assert moved.posterior() == {}
        back = moved.moved_to(d).posterior()["mean"]
        np.testing.assert_allclose(
            back.mean, agent.posterior()["mean"].mean, atol=0.15 if inference in ("gibbs", "particles") else 1e-9
        )


def test_several_structures_count_the_rounds_that_are_left() -> None:
    agent = idb.Thompson([models.cascade(3, 2), models.position_based(3, 2)], seed=0)
    action, seen = {"A1": 0, "A2": 1}, {"C1": 0, "C2": 1}
    for _ in range(3):
        agent.update(action, seen)
    agent.revise(action, seen, None)
    assert agent.rounds == 2
    agent.revise(action, seen, {"C1": 0, "C2": 0})
    assert agent.rounds == 2


@pytest.mark.parametrize("inference", ["exact", "gibbs", "ep", "variational"])
def test_ages_in_rounds_do_not_go_back_when_a_round_is_removed(inference: str) -> None:
    """A round that is played now counts in full, and one that could be named before a removal can be named after it."""
    agent = idb.Thompson(models.semi_bandit(3, 1), inference, seed=0, forget=idb.Forget(4))
    for item in (0, 1, 0):
        agent.update({"A1": item}, {"X1": 1})
    agent.revise({"A1": 1}, {"X1": 1}, None, at=1)
    agent.update({"A1": 2}, {"X1": 1})
    found = agent.posterior()["mean"].rounds
    np.testing.assert_allclose(found, [0.5 ** (3 / 4) + 0.5 ** (1 / 4), 0, 1], rtol=1e-9)
    agent.revise({"A1": 2}, {"X1": 1}, {"X1": 0}, at=3)
    assert agent.posterior()["mean"].rounds[2] == pytest.approx(0.5 ** (1 / 4))


def test_the_fit_report_is_about_the_surviving_rounds() -> None:
    """A late round is among those that are examined, if the diagram can have it; one that was taken back is not."""
    agent = idb.Thompson(models.semi_bandit(list("abc"), 2), seed=0)
    both, seen = {"A1": "b", "A2": "c"}, {"X1": 1, "X2": 0}
    for _ in range(10):
        agent.update(both, seen)
    agent = agent.moved_to(models.semi_bandit(list("bcd"), 1))
    assert agent.fit_report().rounds == 10
    agent.update(both, seen)
    assert agent.fit_report().rounds == 11
    agent.update({"A1": "a", "A2": "c"}, seen)  # which the diagram cannot have
    assert agent.fit_report().rounds == 11
    agent.revise(both, seen, None)
    assert agent.fit_report().rounds == 10


def test_a_round_is_completed_by_a_node_that_the_diagram_lacks_by_now() -> None:
    """The report fits the present diagram as well; its completion only fits the diagram it was played in."""
    old, new = models.semi_bandit(list("abc"), 2), models.semi_bandit(list("abc"), 2)
    old.observed("R", [old.nodes["A1"]], idb.Learned("rating"))
    agent = idb.Thompson(old, "exact", seed=0)
    shown = {"A1": "a", "A2": "b"}
    agent.update(shown, {"X1": 1, "X2": 0})
    agent = agent.moved_to(new)
    agent.revise(shown, {"X1": 1, "X2": 0}, {"X1": 1, "X2": 0, "R": 1})
    belief = agent.moved_to(old).posterior()
    assert belief["rating"].alpha.tolist() == [[1, 2], [1, 1], [1, 1]]
    assert belief["mean"].alpha.tolist() == [[1, 2], [2, 1], [1, 1]]
    assert agent.rounds == 1
