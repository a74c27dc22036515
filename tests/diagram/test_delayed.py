"""Outcomes that come late: what is seen by when, and that young rounds bias nothing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import idbandits as idb
import reference
from idbandits.errors import DiagramError, ImpossibleObservationError, PriorError

DAYS = [3, 7, 30]
CARDS = ["tea", "milk"]
BUYS, WINDOWS = [0.3, 0.6], [0.5, 0.3, 0.2]
MEANS = {"buys": BUYS, "delay": WINDOWS}


def shop(by: Any = DAYS, **settings: Any) -> idb.Diagram:
    """Cards that are bought late."""
    d = idb.Diagram("shop")
    bought = d.latent("bought", [d.decision("card", CARDS)], idb.Learned("buys"))
    d.reward(bought)
    idb.delayed(d, bought, by, **({"delay": idb.Learned("delay")} | settings))
    return d


def what_is_seen(age: float, bought_on: float) -> dict[str, int]:
    """Return the observation of a round of this age."""
    return {f"bought by {day}": int(bought_on <= day) for day in DAYS if day <= age}


@pytest.mark.parametrize("states", list(itertools.product([None, 0, 1], repeat=3)), ids=str)
@pytest.mark.parametrize("card", CARDS)
def test_every_observation_is_as_likely_as_by_enumeration(card: str, states: Any) -> None:
    d = shop()
    seen = {f"bought by {day}": state for day, state in zip(DAYS, states, strict=True) if state is not None}
    expected = reference.likelihood(d, {"card": CARDS.index(card)}, seen, MEANS)
    if expected:
        assert np.exp(idb.log_likelihood(d, {"card": card}, seen, MEANS)) == pytest.approx(expected)
    else:
        with pytest.raises(ImpossibleObservationError):
            idb.log_likelihood(d, {"card": card}, seen, MEANS)


def test_the_likelihood_is_that_of_a_round_of_its_age() -> None:
    """After a week without a purchase: none will come, or one between the seventh and the thirtieth day."""
    young = idb.log_likelihood(shop(), {"card": "tea"}, {"bought by 3": 0, "bought by 7": 0}, MEANS)
    assert np.exp(young) == pytest.approx(0.7 + 0.3 * 0.2)
    bought = idb.log_likelihood(shop(), {"card": "tea"}, {"bought by 3": 0, "bought by 7": 1}, MEANS)
    assert np.exp(bought) == pytest.approx(0.3 * 0.3)


def test_what_has_come_does_not_go_away() -> None:
    agent = idb.Thompson(shop(), seed=0)
    for early, late in itertools.combinations(DAYS, 2):
        with pytest.raises(ImpossibleObservationError):
            agent.update({"card": "tea"}, {f"bought by {early}": 1, f"bought by {late}": 0})
    assert agent.rounds == 0


def test_all_tables_can_be_learned() -> None:
    for d in (shop(), shop(parents=["card"]), shop(by=[1, 2]), shop(delay=None)):
        assert d.check().serious == ()
        assert not [f for f in d.check() if f.kind in ("factor", "combination", "unseen")]


def test_with_all_looks_taken_counting_is_exact() -> None:
    agent = idb.Thompson(shop(), "exact", seed=0)
    agent.update({"card": "tea"}, what_is_seen(30, 5))
    agent.update({"card": "tea"}, what_is_seen(30, np.inf))
    assert agent.posterior()["buys"].alpha.tolist() == [[2.0, 2.0], [1.0, 1.0]]
    assert agent.posterior()["delay"].alpha.tolist() == [1.0, 2.0, 1.0]


def test_looks_one_by_one_say_what_all_say_at_once() -> None:
    """A round that is revised at each age ends where a round that is told once ends, with exact counts."""
    step_by_step, at_once = (idb.Thompson(shop(), "variational", seed=0) for _ in range(2))
    for bought_on in (2, 5, 12, np.inf):
        looks = [what_is_seen(age, bought_on) for age in DAYS]
        step_by_step.update({"card": "milk"}, looks[0])
        for before, after in itertools.pairwise(looks):
            step_by_step.revise({"card": "milk"}, before, after)
        at_once.update({"card": "milk"}, looks[-1])
    for name in MEANS:
        np.testing.assert_allclose(
            step_by_step.posterior()[name].alpha, at_once.posterior()[name].alpha, rtol=0, atol=1e-9
        )


def logged(rounds: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A log of rounds of all ages from 0 to 40 days: three quarters of them are too young to know how they end."""
    rng = np.random.default_rng(seed)
    cards, ages = rng.integers(0, 2, rounds), rng.integers(0, 41, rounds)
    windows = np.array([1.5, 5.0, 20.0])[rng.choice(3, rounds, p=WINDOWS)]
    bought_on = np.where(rng.random(rounds) < np.array(BUYS)[cards], windows, np.inf)
    seen = {f"bought by {day}": np.where(ages >= day, bought_on <= day, np.nan) for day in DAYS}
    return {"card": np.array(CARDS)[cards]}, seen


def test_young_rounds_bias_nothing() -> None:
    """Over 20 logs, errors in units of the posterior's sd are standard normal: their mean is within 4.5 / sqrt(20).

    For five means, that fails for less than one seed in 10,000; a bias of one sd is found nearly always.
    """
    errors = []
    for seed in range(20):
        agent = idb.Thompson(shop(), seed=seed)
        agent.update_many(*logged(600, seed))
        belief = agent.posterior()
        errors.append(
            np.concatenate(
                [(belief[name].mean - np.array(mean)) / belief[name].sd for name, mean in MEANS.items()], axis=None
            )
        )
    z = np.array(errors)
    assert (np.abs(z.mean(axis=0)) < 4.5 / np.sqrt(20)).all()
    assert np.sqrt((z**2).mean()) < 1.5  # and they are no larger than the sd says


def test_the_delay_may_depend_on_the_item() -> None:
    d = shop(parents=["card"])
    assert d.learned["delay"].shape == (2,)
    means = {"buys": BUYS, "delay": [[0.9, 0.05, 0.05], [0.1, 0.1, 0.8]]}
    seen = idb.log_likelihood(d, {"card": "milk"}, {"bought by 3": 1}, means)
    assert np.exp(seen) == pytest.approx(0.6 * 0.1)


def test_outcomes_may_share_a_table_of_delays() -> None:
    d, delay = idb.Diagram("two"), idb.Learned("delay")
    for k in (1, 2):
        idb.delayed(d, d.latent(f"bought{k}", [d.decision(f"card{k}", CARDS)]), DAYS, delay=delay)
    assert list(d.learned) == ["bought1", "delay", "bought2"]
    assert "bought2 by 30" in d.nodes


def test_delays_may_be_known_and_times_and_states_may_be_labels() -> None:
    d = idb.Diagram("labels")
    d.latent("bought", [d.decision("card", CARDS)], idb.Learned("buys"), states=["no", "yes"])
    nodes = idb.delayed(d, "bought", ["a week", "a month"], delay=0.25)  # P(a month)
    assert [node.name for node in nodes] == ["bought by a week", "bought by a month"]
    assert np.exp(idb.log_likelihood(d, {"card": "tea"}, {"bought by a week": "yes"}, {"buys": BUYS})) == pytest.approx(
        0.3 * 0.75
    )


def test_it_is_a_part_of_the_diagram_like_any_other() -> None:
    d = shop(by=np.array([0.5, 1.0, 2.5]))
    assert list(d.nodes)[-3:] == ["bought by 0.5", "bought by 1.0", "bought by 2.5"]
    again = idb.Diagram.from_dict(d.to_dict())
    assert again.to_dict() == d.to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d": None}, "delayed: d must be a Diagram, got None"),
        ({"outcome": "gone"}, "delayed: 'gone' is not declared before it in diagram 'shop'"),
        ({"outcome": 3}, "delayed: 3 is not declared"),
        (
            {"outcome": "seen"},
            r"delayed: outcome must be latent, got 'seen' \(observed\); nodes that show it are declared here",
        ),
        (
            {"outcome": "card"},
            r"delayed: outcome must be latent, got 'card' \(decision\); nodes that show it are declared here",
        ),
        ({"outcome": "mood"}, "delayed: outcome 'mood' must have two states: it does not come, it comes; got 3"),
        ({"by": 7}, "delayed: by must be a list of growing numbers >= 0, or of labels in the order of time, got 7"),
        (
            {"by": "week"},
            "delayed: by must be a list of growing numbers >= 0, or of labels in the order of time, got 'week'",
        ),
        (
            {"by": np.array(3)},
            r"delayed: by must be a list of growing numbers >= 0, or of labels in the order of time, got array\(3\)",
        ),
        ({"by": [30]}, "by must have at least two times, got \\[30\\]"),
        ({"by": [3, 7, 7]}, "delayed: by must grow, got 7 after 7"),
        ({"by": [7, 3]}, "delayed: by must grow, got 3 after 7"),
        (
            {"by": [3, "week"]},
            r"delayed: by must be a list of growing numbers >= 0, or of labels in the order of time, got 'week' in \[3, 'week'\]",
        ),
        (
            {"by": [3, float("nan")]},
            r"delayed: by must be a list of growing numbers >= 0, or of labels in the order of time, got nan in \[3, nan\]",
        ),
        (
            {"by": [False, True]},
            r"delayed: by must be a list of growing numbers >= 0, or of labels in the order of time, got False in \[False, True\]",
        ),
        ({"by": [-1, 3]}, r"delayed: by must be a list of growing numbers >= 0, .* got -1"),
        ({"by": ["week", "week"]}, "node 'bought delay': labels must be different, got 'week' twice"),
        ({"by": range(11, 1012)}, "node 'bought delay' must have 2 to 1000 states, got 1001"),
        ({"by": [3, 5]}, "node 'bought by 5' is declared already"),
        (
            {"delay": [0.5, 0.5]},
            r"node 'bought delay': its table must have the shape \(3,\) \(3 states on the last axis\), got \(2,\)",
        ),
        ({"delay": idb.Learned("buys")}, "another learned table named 'buys'"),
        ({"parents": ["gone"]}, "'gone' is not declared before it"),
    ],
    ids=str,
)
def test_mistakes_are_named_and_change_nothing(change: dict[str, Any], message: str) -> None:
    d = idb.Diagram("shop")
    card = d.decision("card", CARDS)
    d.latent("bought", [card], idb.Learned("buys"))
    d.latent("mood", states=3)
    d.observed("seen", [card])
    d.observed("bought by 5", ["bought"], [0, 1])
    before = d.to_dict()
    arguments: dict[str, Any] = {"d": d, "outcome": "bought", "by": DAYS} | change
    with pytest.raises(DiagramError, match=message):
        idb.delayed(**arguments)
    assert d.to_dict() == before


def test_priors_of_delays_are_checked() -> None:
    with pytest.raises(PriorError, match="'delay'"):
        shop(delay=idb.Learned("delay", prior=[1, 1]))


@pytest.mark.parametrize("argument", ["d", "outcome", "by", "delay", "parents"])
def test_garbage_is_rejected_or_declared(argument: str) -> None:
    for value in (
        None,
        -1,
        0.5,
        True,
        "x",
        b"x",
        [],
        [[1], [2]],
        {"a": 1},
        object(),
        np.nan,
        np.array([2, 1]),
        [None, 1],
        [1, 10**400],
    ):
        d = idb.Diagram("shop")
        d.latent("bought", [d.decision("card", CARDS)])
        before = d.to_dict()
        arguments: dict[str, Any] = {"d": d, "outcome": "bought", "by": DAYS} | {argument: value}
        try:
            idb.delayed(**arguments)
        except DiagramError:
            assert d.to_dict() == before
