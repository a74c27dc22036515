"""Gain over the holdout and test of its share: both are looked at after every hour."""

from __future__ import annotations

import numpy as np
import pytest

import idbandits as idb
from idbandits.service.live.gain import Cell, Gain, Period, design_effect, gain_of, gain_path, sample_ratio_of
from idbandits.service.live.live import Live

RUNS = 200


def clicks(rate):
    return lambda rng, number, hour: (rng.random(number) < rate * (1 + 0.3 * np.sin(hour / 24 * 2 * np.pi))).astype(
        float
    )


def purchases(rng, number, hour):
    return (rng.random(number) < 0.03) * rng.lognormal(2.0, 0.7, number)


def clicks_on_lists(rng, number, hour):
    return rng.binomial(10, 0.2, number).astype(float)


def almost_always(rng, number, hour):
    return (rng.random(number) < 0.99).astype(float)


def cell(rewards):
    number = float(len(rewards))
    return Cell(number, number, *(float((rewards**power).sum()) for power in (1, 2, 3)))


def played(rng, policy, holdout, share, hours, rounds):
    periods = []
    for hour in range(hours):
        number = rng.poisson(rounds * (1 + 0.5 * np.sin(hour / 24 * 2 * np.pi)))
        held = rng.binomial(number, share)
        periods.append(Period(hour, 1, share, cell(policy(rng, number - held, hour)), cell(holdout(rng, held, hour))))
    return periods


CASES = [
    (clicks(0.01), 0.05, 500),
    (clicks(0.01), 0.5, 200),
    (clicks(0.2), 0.05, 50),
    (clicks(0.2), 0.1, 300),
    (purchases, 0.1, 1000),
    (clicks_on_lists, 0.05, 20),
    (almost_always, 0.05, 500),
]


@pytest.mark.parametrize(("rewards", "share", "rounds"), CASES)
def test_interval_of_equal_arms_excludes_zero_in_at_most_5_percent_of_runs(rewards, share, rounds):
    """Seeds are fixed. With 5 % true errors, more than 20 of 200 runs would be wrong in 0.1 % of all seeds."""
    wrong = begun = 0
    for seed in range(RUNS):
        path = gain_path(played(np.random.default_rng(seed), rewards, rewards, share, 24 * 7, rounds))
        wrong += bool(((path.low > 0) | (path.high < 0)).any())
        begun += bool(np.isfinite(path.low).any())
    assert wrong <= 0.05 * RUNS
    assert begun >= 0.9 * RUNS  # an interval that never comes would be right, too


@pytest.mark.parametrize(
    ("rate", "better", "share", "rounds", "hours"),
    [(0.2, 0.26, 0.1, 300, 36), (0.01, 0.015, 0.1, 2000, 48), (0.05, 0.1, 0.05, 200, 72)],
)
def test_real_gain_is_found_soon(rate, better, share, rounds, hours):
    found = 0
    for seed in range(20):
        path = gain_path(played(np.random.default_rng(seed), clicks(better), clicks(rate), share, hours, rounds))
        found += bool(path.low[-1] > 0)
        assert path.low[-1] <= path.estimate[-1] <= path.high[-1]
    assert found >= 16


def test_intervals_contain_the_gain():
    """The policy improves: the gain is the average so far."""
    outside = 0
    for seed in range(100):
        rng, periods, truth = np.random.default_rng(seed), [], []
        for hour in range(120):
            number, lift = 400, min(hour / 60, 1.0) * 0.1
            held = rng.binomial(number, 0.1)
            shown = [(rng.random(n) < p).astype(float) for n, p in ((number - held, 0.1 + lift), (held, 0.1))]
            periods.append(Period(hour, 1, 0.1, *map(cell, shown)))
            truth.append(lift)
        path = gain_path(periods)
        mean = np.cumsum(truth) / np.arange(1, 121)
        outside += bool(((mean < path.low) | (mean > path.high)).any())
    assert outside <= 5


def test_versions_with_other_shares_count_by_their_own():
    """A larger holdout while rewards are low does not look like a gain."""
    estimates = []
    for seed in range(30):
        rng, periods = np.random.default_rng(seed), []
        for hour in range(100):
            share, rate = (0.05, 0.3) if hour < 50 else (0.5, 0.1)
            held = rng.binomial(500, share)
            periods.append(
                Period(hour, 1 + (hour >= 50), share, *(cell((rng.random(n) < rate) * 1.0) for n in (500 - held, held)))
            )
        estimates.append(gain_of(periods).estimate)
    assert abs(np.mean(estimates)) < 4 * np.std(estimates) / np.sqrt(30)
    assert np.std(estimates) < 0.02


def visits(seed, share, hours, units, rounds, lift=0.0):
    """Return hours of visits by units with different rates, which come back, and the sums of each arm's units."""
    rng = np.random.default_rng(seed)
    rates, held = rng.beta(0.8, 3.2, units), rng.random(units) < share
    totals, periods = np.zeros((units, 3)), []
    for hour in range(hours):
        known = max(20, int(units * min(1.0, (hour + 1) / hours * 2)))  # the later half of the hours has all units
        who = rng.integers(known, size=rounds)
        rewards = (rng.random(rounds) < rates[who] * np.where(held[who], 1.0, 1.0 + lift)).astype(float)
        np.add.at(totals, who, np.stack([np.ones(rounds), rewards, rewards], axis=1))
        periods.append(Period(hour, 1, share, cell(rewards[~held[who]]), cell(rewards[held[who]])))
    effects = []
    for own in (totals[held], totals[~held]):
        n, s, q = own[own[:, 0] > 0].T
        effects.append(design_effect(len(n), n.sum(), s.sum(), q.sum(), n @ n, n @ s, s @ s))
    return periods, max(effects)


@pytest.mark.parametrize(("share", "units", "rounds"), [(0.2, 500, 50), (0.1, 1000, 200)])
def test_interval_of_equal_arms_holds_where_units_come_back(share, units, rounds):
    wrong = alone = found = 0
    for seed in range(100):
        periods, effect = visits(seed, share, 24 * 7, units, rounds)
        path, naive = gain_path(periods, effect), gain_path(periods)
        wrong += bool(((path.low > 0) | (path.high < 0)).any())
        alone += bool(((naive.low > 0) | (naive.high < 0)).any())
    for seed in range(10):
        found += gain_of(*visits(seed, share, 24 * 7, units, rounds, lift=1.0)).is_decided
    assert wrong <= 5
    assert alone > 20  # rounds are not independent
    assert found >= 8


@pytest.mark.parametrize("rewards", [np.empty(0), np.ones(5), np.zeros(500)])
def test_too_little_gives_no_interval(rewards):
    gain = gain_of([Period(0, 1, 0.5, cell(rewards), cell(rewards))])
    assert gain.low is None
    assert gain.high is None
    assert not gain.is_decided
    assert gain.rounds == {"policy": len(rewards), "holdout": len(rewards)}
    assert gain_of([]) == Gain(None, None, None, {"policy": 0, "holdout": 0})


def test_share_of_holdout_is_tested_at_every_hour():
    alarms = 0
    for seed in range(RUNS):
        held = np.cumsum(np.random.default_rng(seed).binomial(200, 0.05, 24 * 7))
        number = 200 * np.arange(1, len(held) + 1)
        alarms += min(sample_ratio_of([(n - h, h, 0.05)]).p_value for n, h in zip(number, held, strict=True)) < 0.05
    assert alarms <= 0.05 * RUNS
    found = sample_ratio_of([(19_300, 700, 0.05)])
    assert found.p_value < 1e-6
    assert found[1:] == (700, 20_000, 1000.0, False)
    assert sample_ratio_of([]).p_value == 1.0


def test_live_counts_hours_that_are_complete(tmp_path):
    d = idb.Diagram("coins")
    d.reward(d.observed("heads", [d.decision("coin", 3)]))
    now, rng = [0.0], np.random.default_rng(0)
    with Live(f"sqlite:///{tmp_path}/a.db", clock=lambda: now[0], background=False) as live:
        live.put("coins", d, horizon="1h", holdout=0.5)
        for k in range(400):
            now[0] = 18.0 * k  # two hours
            decision = live.decide("coins")
            if rng.random() < 0.2 + 0.3 * decision.action["coin"]:
                live.report(decision.id, {"heads": 1})
        now[0] = 7200.0
        live.tick()
        assert sum(live.gain("coins").rounds.values()) == 200
        assert live.gain("coins").until == 3600.0
        now[0] = 10_801.0
        live.tick()
        gain, ratio = live.gain("coins"), live.sample_ratio("coins")
        assert sum(gain.rounds.values()) == 400
        assert ratio.number == 400
        assert ratio.expected == 200.0
        assert ratio.p_value > 0.05
        assert not ratio.by_unit


def test_ratio_is_of_units_where_there_are_units(tmp_path):
    """Rounds of a unit are all in one arm, so that a few busy units would look like a wrong share."""
    d = idb.Diagram("coins")
    d.reward(d.observed("heads", [d.decision("coin", 2)]))
    now = [0.0]
    with Live(f"sqlite:///{tmp_path}/a.db", clock=lambda: now[0], background=False) as live:
        live.put("coins", d, horizon="1m", holdout=0.2)
        for k in range(60):
            for _ in range(10 if k == 0 else 1):
                live.decide("coins", unit=f"user {k}")
        now[0] = 7200.0
        live.tick()
        ratio = live.sample_ratio("coins")
        assert ratio.by_unit
        assert ratio.number == 60
        assert ratio.expected == 12.0
        assert live.gain("coins").low is None  # the holdout has too few units
