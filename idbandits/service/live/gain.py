"""Gain of a policy over its holdout, and test of the holdout's share: both are valid at all times.

The gain is the mean of sequential pseudo-outcomes (augmented inverse probability weighting), because the probability
of the holdout is known: with the means mu of earlier hours, a round of the policy counts mu_1 - mu_0 + (y - mu_1) /
(1 - p), one of the holdout mu_1 - mu_0 - (y - mu_0) / p. Its expectation is the gain in this round, whatever mu is.
The interval is an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas: Time-uniform central
limit theory and asymptotic confidence sequences, 2024, Theorem 2.2). It begins when both arms have shown enough
variation for a central limit theorem, and is computed from sums by hour. If decisions have units, which stay in one
arm, rounds of a unit are correlated: the variance is larger by the design effect, which is computed from sums by unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idbandits.kernel.array_types import Floats
from idbandits.service.journal.records import HOLDOUT, POLICY
from idbandits.service.journal.store import Store, Transaction
from idbandits.service.live.statistics import HOUR, Cell, Statistics

LEVEL = 0.05  # error rate of intervals and tests, over all times
EVENTS = 25.0  # rounds of an arm, as a multiple of the squared skewness; of rare clicks, about the number of clicks
LEAST = 2.0  # the squared skewness counts as at least this
ROUNDING = 1e-12
TIGHTEST = 10.0  # information at which the interval is tightest, as a multiple of the information at its beginning
STRENGTH = 200.0  # pseudo-counts of the alternative shares in the test of the holdout's share


class Gain(NamedTuple):
    """Mean gain in reward of a round of the policy over the holdout, with a confidence sequence.

    The interval holds at all times together with a probability of 95 %, so that it may be looked at continuously.

    Attributes
    ----------
    estimate : float or None
        Gain, in units of the reward per decision; None before both arms have a round.
    low, high : float or None
        Ends of the interval; None before there are enough rounds.
    rounds : dict
        Rounds with a known reward, by arm.
    until : float or None
        End of the last complete hour, in seconds since 1970; rewards of later rounds may still change.

    Examples
    --------
    >>> import tempfile
    >>> import idbandits as idb
    >>> folder = tempfile.TemporaryDirectory()
    >>> live = idb.Live(f"sqlite:///{folder.name}/shop.db", background=False, clock=lambda: now, seed=0)
    >>> now = 0.0
    >>> live.put("shop", idb.models.cascade(["tea", "milk"], positions=1), holdout=0.5)
    1
    >>> for hour in range(4):
    ...     now = 3600.0 * hour
    ...     made = live.decide_many("shop", [{}] * 300)
    ...     outcomes = [{"id": decision.id, "values": {"C1": decision.action["A1"] == "tea"}} for decision in made]
    ...     _ = live.report_many("shop", [{**outcome, "complete": True} for outcome in outcomes])
    ...     _ = live.tick()
    >>> gain = live.gain("shop")
    >>> round(gain.estimate, 1), gain.is_decided
    (0.3, True)
    >>> live.close()
    >>> folder.cleanup()
    """

    estimate: float | None
    low: float | None
    high: float | None
    rounds: dict[str, int]
    until: float | None = None

    @property
    def is_decided(self) -> bool:
        """True if the interval excludes zero."""
        return self.low is not None and self.high is not None and not self.low <= 0.0 <= self.high


class SampleRatio(NamedTuple):
    """Test of the holdout's share: a small probability means that decisions are not assigned as declared.

    Attributes
    ----------
    p_value : float
        Probability of a deviation as large as this at any time, if assignment is correct.
    holdout, number : int
        Number of decisions in the holdout and in both arms; of units, if decisions have units.
    expected : float
        Expected number in the holdout.
    by_unit : bool
        Whether units are counted.

    Examples
    --------
    >>> import tempfile
    >>> import idbandits as idb
    >>> folder = tempfile.TemporaryDirectory()
    >>> live = idb.Live(f"sqlite:///{folder.name}/shop.db", background=False, clock=lambda: now, seed=0)
    >>> now = 0.0
    >>> live.put("shop", idb.models.cascade(["tea", "milk"], positions=1), holdout=0.1)
    1
    >>> made = live.decide_many("shop", [{}] * 100)
    >>> _ = live.report_many("shop", [{"id": decision.id, "complete": True} for decision in made])
    >>> now = 7200.0
    >>> _ = live.tick()
    >>> ratio = live.sample_ratio("shop")
    >>> ratio.number, ratio.expected, ratio.p_value
    (100, 10.0, 1.0)
    >>> live.close()
    >>> folder.cleanup()
    """

    p_value: float
    holdout: int
    number: int
    expected: float
    by_unit: bool = False


class Period(NamedTuple):
    """Rounds of one hour and version, with the share of the version's holdout."""

    hour: int
    version: int
    share: float
    policy: Cell
    holdout: Cell


class GainPath(NamedTuple):
    """Gain at the end of each hour; intervals are NaN before they begin."""

    hours: Floats
    estimate: Floats
    low: Floats
    high: Floats


def periods_of(
    statistics: Statistics, share: Callable[[int], float], is_complete: Callable[[int, float], bool]
) -> list[Period]:  # fmt: skip
    """Return the complete hours of versions with a holdout, in order of time.

    `share` maps a version to the share of its holdout; `is_complete` gets a version and the end of an hour.
    """
    cells: dict[tuple[int, int], dict[str, Cell]] = {}
    for key, cell in dict(statistics.cells).items():
        hour, arm, version = key.split("|")
        cells.setdefault((int(hour), int(version)), {})[arm] = cell
    return [
        Period(hour, version, share(version), arms.get(POLICY, Cell()), arms.get(HOLDOUT, Cell()))
        for (hour, version), arms in sorted(cells.items())
        if share(version) > 0.0 and is_complete(version, (hour + 1) * HOUR)
    ]


def gain_of(periods: Sequence[Period], effect: float = 1.0) -> Gain:
    """Return the gain after all periods; `effect` is the design effect of units."""
    path = gain_path(periods, effect)
    totals = {POLICY: sum(p.policy.rewarded for p in periods), HOLDOUT: sum(p.holdout.rewarded for p in periods)}
    rounds = {arm: int(total) for arm, total in totals.items()}
    if not len(path.hours) or min(rounds.values()) == 0:
        return Gain(None, None, None, rounds)
    low, high = (None if np.isnan(bound[-1]) else float(bound[-1]) for bound in (path.low, path.high))
    return Gain(float(path.estimate[-1]), low, high, rounds, float((path.hours[-1] + 1) * HOUR))


def gain_path(periods: Sequence[Period], effect: float = 1.0) -> GainPath:
    """Return the gain at the end of each hour; `effect` is the design effect of units."""
    periods = [period for period in periods if period.policy.rewarded + period.holdout.rewarded > 0]
    if not periods:
        return GainPath(*(np.empty(0) for _ in range(4)))
    hours, share = np.array([p.hour for p in periods], np.float64), np.array([p.share for p in periods])
    arms = [_sums(p.policy for p in periods), _sums(p.holdout for p in periods)]
    first = np.searchsorted(hours, hours, side="left")  # first period of each hour: means use earlier hours only
    means = _predicted(arms, first)
    weights = 1.0 / (1.0 - share), 1.0 / share
    number = np.cumsum(arms[0][0] + arms[1][0])
    total, difference = np.zeros(len(periods)), means[0] - means[1]
    total += (arms[0][0] + arms[1][0]) * difference
    squares = list[Floats]()
    for (count, reward, square, _), mean, weight, sign in zip(arms, means, weights, (1.0, -1.0), strict=True):
        total += sign * weight * (reward - count * mean)
        deviations = np.maximum(square - 2 * mean * reward + count * mean**2, 0.0)
        squares.append(np.cumsum(deviations * weight**2))
    estimate = np.cumsum(total) / number
    information, has_begun = _variance(arms, squares, weights, effect)
    low, high = np.full(len(periods), np.nan), np.full(len(periods), np.nan)
    if has_begun.any():
        start = int(np.argmax(has_begun))
        scale = _best_scale() / (TIGHTEST * information[start])
        spread = information * scale + 1.0
        half = np.sqrt(spread / scale * (np.log(spread) - 2 * np.log(LEVEL))) / number
        low[start:], high[start:] = (estimate - half)[start:], (estimate + half)[start:]
    last = np.append(hours[1:] != hours[:-1], True)
    return GainPath(hours[last], estimate[last], low[last], high[last])


def _sums(cells: Any) -> Floats:
    """Return an array of numbers of rewards and their sums, sums of squares and sums of cubes, by cell."""
    return np.array([[c.rewarded, c.reward, c.square, c.cube] for c in cells], np.float64).T


def _predicted(arms: Sequence[Floats], first: Any) -> list[Floats]:
    """Return the mean reward of each arm in earlier hours, shrunk towards the mean of both arms.

    In the first hour, return the mean of both arms in the first period.
    """
    together = arms[0] + arms[1]
    first_mean = together[1, 0] / together[0, 0]
    pooled = _before(together, first, 1.0, first_mean)
    return [_before(sums, first, EVENTS, pooled) for sums in arms]


def _before(sums: Floats, first: Any, strength: float, prior: Any) -> Floats:
    """Return the mean reward of earlier hours, with `strength` pseudo-counts of the mean `prior`."""
    counts, rewards = (np.concatenate([[0.0], np.cumsum(row)])[first] for row in sums[:2])
    return np.asarray((rewards + strength * prior) / (counts + strength))


def _variance(
    arms: Sequence[Floats], squares: Sequence[Floats], weights: Sequence[Floats], effect: float
) -> tuple[Floats, NDArray[np.bool_]]:  # fmt: skip
    """Return the variance of the sum of pseudo-outcomes at each hour, and whether an interval can begin.

    The variance of each arm is shrunk towards the variance of both arms, because the variance of a small holdout is
    underestimated before it has seen rare rewards.
    """
    pooled, skewness = _moments(arms[0] + arms[1])
    worth = EVENTS * np.maximum(skewness**2, LEAST)  # rounds with the information of EVENTS rare rewards
    total, has_begun = np.zeros(len(pooled)), pooled > 0.0
    for sums, square, weight in zip(arms, squares, weights, strict=True):
        count = np.cumsum(sums[0])
        variance, _ = _moments(sums)
        shrunk = (count * variance + worth * pooled) / (count + worth)
        total += np.maximum(square, np.cumsum(sums[0] * weight**2) * shrunk)
        has_begun &= count >= worth * effect
    return total * (effect if np.isfinite(effect) else 1.0), np.maximum.accumulate(has_begun)


def _moments(sums: Floats) -> tuple[Floats, Floats]:
    """Return the variance and the skewness of rewards until each hour."""
    count, reward, square, cube = np.cumsum(sums, axis=1)
    number = np.maximum(count, 1.0)
    mean, second = reward / number, square / number
    variance = second - mean**2
    variance = np.where(variance > ROUNDING * second, variance, 0.0)
    third = cube / number - 3 * mean * second + 2 * mean**3
    return variance, np.where(variance > 0, third, 0.0) / np.where(variance > 0, variance, 1.0) ** 1.5


def _best_scale() -> float:
    """Return rho squared times the variance at which the interval is tightest (equation 24 of the paper)."""
    doubled_log = -2.0 * float(np.log(LEVEL))
    return doubled_log + float(np.log(doubled_log)) + 1.0


def sample_ratio_of(counts: Sequence[tuple[float, float, float]], *, by_unit: bool = False) -> SampleRatio:
    """Test the shares of holdouts by a likelihood ratio against a beta mixture of shares.

    `counts` are (policy, holdout, share) of each version. The ratio is a martingale, so that the probability of ever
    exceeding 1 / p is at most p.
    """
    from scipy.special import betaln  # slow to import

    log_ratio = 0.0
    for policy, holdout, share in counts:
        a, b = STRENGTH * share, STRENGTH * (1.0 - share)
        log_ratio += float(betaln(a + holdout, b + policy) - betaln(a, b))
        log_ratio -= float(holdout * np.log(share) + policy * np.log1p(-share))
    in_holdout = sum(holdout for _, holdout, _ in counts)
    number = sum(policy + holdout for policy, holdout, _ in counts)
    expected = sum((policy + holdout) * share for policy, holdout, share in counts)
    p_value = min(1.0, float(np.exp(-max(log_ratio, 0.0))))
    return SampleRatio(p_value, round(in_holdout), round(number), expected, by_unit)


def units_of(store: Store, experiment: str, versions: Sequence[int]) -> list[tuple[int, str, int]]:
    """Return numbers of units as (version, arm, number).

    A unit counts once, in the version and arm of its first decision in `versions`. Without units, the list is empty.
    """
    marks = ", ".join("?" * len(versions))
    where = f"experiment = ? AND unit IS NOT NULL AND version IN ({marks}) AND arm IN ('{POLICY}', '{HOLDOUT}')"
    sql = (
        "SELECT d.version, d.arm, count(*) FROM decisions d JOIN "
        f"(SELECT min(n) AS n FROM decisions WHERE {where} GROUP BY unit) f ON f.n = d.n GROUP BY d.version, d.arm"
    )
    with store.transaction(write=False) as transaction:
        if not _has_units(transaction, experiment):
            return []
        rows = transaction.all(sql, (experiment, *versions))
    return [(int(version), arm, int(number)) for version, arm, number in rows]


def _has_units(transaction: Transaction, experiment: str) -> bool:
    sql = "SELECT 1 FROM decisions WHERE experiment = ? AND unit IS NOT NULL LIMIT 1"
    return bool(transaction.all(sql, (experiment,)))


def design_effect_of(store: Store, experiment: str) -> float:
    """Return the factor of the variance of sums of rewards that is due to correlated rounds of a unit.

    The factor is 1 without units, and infinite with fewer units than are needed for an estimate.
    """
    inner = (
        "SELECT arm, unit, count(*) AS c, sum(reward) AS s, sum(reward * reward) AS q FROM "
        "decisions_with_outcomes WHERE experiment = ? AND unit IS NOT NULL AND reward IS NOT NULL AND "
        f"arm IN ('{POLICY}', '{HOLDOUT}') GROUP BY arm, unit"
    )
    sql = f"SELECT count(*), sum(c), sum(s), sum(q), sum(c * c), sum(c * s), sum(s * s) FROM ({inner}) u GROUP BY arm"
    with store.transaction(write=False) as transaction:
        if not _has_units(transaction, experiment):
            return 1.0
        rows = transaction.all(sql, (experiment,))
    return max((design_effect(*map(float, row)) for row in rows), default=1.0)


def design_effect(
    units: float, count: float, reward: float, square: float, counts: float, products: float, rewards: float
) -> float:  # fmt: skip
    """Return the design effect from sums over units of n, S, Q, n^2, n S and S^2: rounds, and sums of their rewards."""
    if units < EVENTS:
        return float("inf")
    mean = reward / count
    alone = square - mean * reward
    together = rewards - 2 * mean * products + mean**2 * counts
    return max(1.0, together / alone) if alone > ROUNDING * square else 1.0


def counts_by_version(
    periods: Sequence[Period], units: Sequence[tuple[int, str, int]]
) -> list[tuple[float, float, float]]:
    """Return (policy, holdout, share) of each version: numbers of units, or of rounds if there are no units."""
    counts: dict[int, list[float]] = {period.version: [0.0, 0.0, period.share] for period in periods}
    if units:
        for version, arm, number in units:
            if version in counts:
                counts[version][arm == HOLDOUT] += number
    else:
        for period in periods:
            counts[period.version][0] += period.policy.rounds
            counts[period.version][1] += period.holdout.rounds
    return [(policy, holdout, share) for policy, holdout, share in counts.values()]
