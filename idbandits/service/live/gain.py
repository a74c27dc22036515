"""Gain of a policy over its holdout, and the test of the holdout's share: both may be looked at after every round.

The gain is the mean of sequential pseudo-outcomes (augmented inverse probability weighting), because the probability
of the holdout is known: with the means mu of earlier hours, a round of the policy counts mu_1 - mu_0 + (y - mu_1) /
(1 - p), one of the holdout mu_1 - mu_0 - (y - mu_0) / p. Its expectation is the gain in this round, whatever mu is.
The interval is an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas: Time-uniform central
limit theory and asymptotic confidence sequences, 2024, Theorem 2.2). It begins when both arms have shown enough
variation for a central limit theorem, and needs no more than sums by hour. Where decisions have units, which stay in
one arm, rounds of a unit are alike: the variance is larger by the design effect, measured by the sums of units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idbandits.kernel.array_types import Floats
from idbandits.service.journal.records import HOLDOUT, POLICY
from idbandits.service.journal.store import Store
from idbandits.service.live.statistics import HOUR, Cell, Statistics

LEVEL = 0.05  # of intervals and tests, over all looks
EVENTS = 25.0  # rounds of an arm by the square of the skewness: where rewards are rare clicks, about their number
LEAST = 2.0  # of the square of the skewness
ROUNDING = 1e-12
TIGHTEST = 10.0  # the interval is tightest at this many times the information at its beginning
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
        End of the last hour that is counted, in seconds since 1970; rewards of later rounds may still change.

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
    ...     outcomes = [{"id": own.id, "values": {"C1": own.action["A1"] == "tea"}} for own in made]
    ...     _ = live.report_many("shop", [{**own, "complete": True} for own in outcomes])
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
        Decisions in the holdout, and of both arms; units, if decisions have them.
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
    >>> _ = live.report_many("shop", [{"id": own.id, "complete": True} for own in made])
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
    """Rounds of one hour and version, and the share of its holdout."""

    hour: int
    version: int
    share: float
    policy: Cell
    holdout: Cell


class GainPath(NamedTuple):
    """Gain by the end of each hour; intervals are NaN before they begin."""

    hours: Floats
    estimate: Floats
    low: Floats
    high: Floats


def periods_of(
    statistics: Statistics, share: Callable[[int], float], is_complete: Callable[[int, float], bool]
) -> list[Period]:  # fmt: skip
    """Return the hours of versions that have a holdout, in the order of time, if all of their rounds are known.

    `is_complete` gets a version and the end of an hour.
    """
    cells: dict[tuple[int, int], dict[str, Cell]] = {}
    for key, cell in dict(statistics.cells).items():
        hour, arm, version = key.split("|")
        cells.setdefault((int(hour), int(version)), {})[arm] = cell
    return [
        Period(hour, version, share(version), own.get(POLICY, Cell()), own.get(HOLDOUT, Cell()))
        for (hour, version), own in sorted(cells.items())
        if share(version) > 0.0 and is_complete(version, (hour + 1) * HOUR)
    ]


def gain_of(periods: Sequence[Period], effect: float = 1.0) -> Gain:
    """Return the gain by now; `effect` is the design effect of units."""
    path = gain_path(periods, effect)
    number = {POLICY: sum(p.policy.rewarded for p in periods), HOLDOUT: sum(p.holdout.rewarded for p in periods)}
    rounds = {arm: int(own) for arm, own in number.items()}
    if not len(path.hours) or min(rounds.values()) == 0:
        return Gain(None, None, None, rounds)
    ends = [None if np.isnan(own[-1]) else float(own[-1]) for own in (path.low, path.high)]
    return Gain(float(path.estimate[-1]), ends[0], ends[1], rounds, float((path.hours[-1] + 1) * HOUR))


def gain_path(periods: Sequence[Period], effect: float = 1.0) -> GainPath:
    """Return the gain by the end of each hour; `effect` is the design effect of units."""
    periods = [own for own in periods if own.policy.rewarded + own.holdout.rewarded > 0]
    if not periods:
        return GainPath(*(np.empty(0) for _ in range(4)))
    hours, share = np.array([p.hour for p in periods], np.float64), np.array([p.share for p in periods])
    arms = [_sums(p.policy for p in periods), _sums(p.holdout for p in periods)]
    first = np.searchsorted(hours, hours, side="left")  # of an hour: what came before is known
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
    """Return numbers of cells, and their sums of rewards, squares and cubes."""
    return np.array([[c.rewarded, c.reward, c.square, c.cube] for c in cells], np.float64).T


def _predicted(arms: Sequence[Floats], first: Any) -> list[Floats]:
    """Return the mean of each arm in earlier hours; in the first hour, that of both arms together."""
    together = arms[0] + arms[1]
    usual = together[1, 0] / together[0, 0]
    pooled = _before(together, first, 1.0, usual)
    return [_before(own, first, EVENTS, pooled) for own in arms]


def _before(sums: Floats, first: Any, strength: float, prior: Any) -> Floats:
    counts, rewards = (np.concatenate([[0.0], np.cumsum(own)])[first] for own in sums[:2])
    return np.asarray((rewards + strength * prior) / (counts + strength))


def _variance(
    arms: Sequence[Floats], squares: Sequence[Floats], weights: Sequence[Floats], effect: float
) -> tuple[Floats, NDArray[np.bool_]]:  # fmt: skip
    """Return the variance of the sum of pseudo-outcomes by each hour, and whether there is enough to trust it.

    The variance of each arm is shrunk towards that of both, because rare rewards that have not come yet make that of
    a small holdout too small.
    """
    pooled, skewness = _moments(arms[0] + arms[1])
    worth = EVENTS * np.maximum(skewness**2, LEAST)  # rounds with as much information as EVENTS rewards that are rare
    total, has_begun = np.zeros(len(pooled)), pooled > 0.0
    for own, square, weight in zip(arms, squares, weights, strict=True):
        count = np.cumsum(own[0])
        variance, _ = _moments(own)
        shrunk = (count * variance + worth * pooled) / (count + worth)
        total += np.maximum(square, np.cumsum(own[0] * weight**2) * shrunk)
        has_begun &= count >= worth * effect
    return total * (effect if np.isfinite(effect) else 1.0), np.maximum.accumulate(has_begun)


def _moments(sums: Floats) -> tuple[Floats, Floats]:
    """Return variance and skewness of rewards by each hour."""
    count, reward, square, cube = np.cumsum(sums, axis=1)
    number = np.maximum(count, 1.0)
    mean, second = reward / number, square / number
    variance = second - mean**2
    variance = np.where(variance > ROUNDING * second, variance, 0.0)
    third = cube / number - 3 * mean * second + 2 * mean**3
    return variance, np.where(variance > 0, third, 0.0) / np.where(variance > 0, variance, 1.0) ** 1.5


def _best_scale() -> float:
    """Return rho squared times the variance at which the interval is tightest (equation 24 of the paper)."""
    own = -2.0 * float(np.log(LEVEL))
    return own + float(np.log(own)) + 1.0


def sample_ratio_of(counts: Sequence[tuple[float, float, float]], *, by_unit: bool = False) -> SampleRatio:
    """Test (policy, holdout, share) of each version, by a likelihood ratio against a beta mixture of shares.

    The ratio is a martingale, so that the chance of ever exceeding 1 / p is at most p.
    """
    from scipy.special import betaln  # slow to import

    log_ratio = 0.0
    for policy, holdout, share in counts:
        a, b = STRENGTH * share, STRENGTH * (1.0 - share)
        log_ratio += float(betaln(a + holdout, b + policy) - betaln(a, b))
        log_ratio -= float(holdout * np.log(share) + policy * np.log1p(-share))
    held = sum(own for _, own, _ in counts)
    number = sum(policy + holdout for policy, holdout, _ in counts)
    expected = sum((policy + holdout) * share for policy, holdout, share in counts)
    p_value = min(1.0, float(np.exp(-max(log_ratio, 0.0))))
    return SampleRatio(p_value, round(held), round(number), expected, by_unit)


def units_of(store: Store, experiment: str, versions: Sequence[int]) -> list[tuple[int, str, int]]:
    """Return numbers of units by version and arm of their first decision in versions; none without units."""
    marks = ", ".join("?" * len(versions))
    where = f"experiment = ? AND unit IS NOT NULL AND version IN ({marks}) AND arm IN ('{POLICY}', '{HOLDOUT}')"
    sql = (
        "SELECT d.version, d.arm, count(*) FROM decisions d JOIN "
        f"(SELECT min(n) AS n FROM decisions WHERE {where} GROUP BY unit) f ON f.n = d.n GROUP BY d.version, d.arm"
    )
    with store.transaction(write=False) as own:
        if not own.all("SELECT 1 FROM decisions WHERE experiment = ? AND unit IS NOT NULL LIMIT 1", (experiment,)):
            return []
        return [(int(version), arm, int(number)) for version, arm, number in own.all(sql, (experiment, *versions))]


def design_effect_of(store: Store, experiment: str) -> float:
    """Return by how much the variance of sums of rewards is larger because rounds of a unit are alike.

    It is 1 without units, and infinite with too few of them to tell.
    """
    inner = (
        "SELECT arm, unit, count(*) AS c, sum(reward) AS s, sum(reward * reward) AS q FROM "
        "decisions_with_outcomes WHERE experiment = ? AND unit IS NOT NULL AND reward IS NOT NULL AND "
        f"arm IN ('{POLICY}', '{HOLDOUT}') GROUP BY arm, unit"
    )
    sql = f"SELECT count(*), sum(c), sum(s), sum(q), sum(c * c), sum(c * s), sum(s * s) FROM ({inner}) u GROUP BY arm"
    with store.transaction(write=False) as own:
        if not own.all("SELECT 1 FROM decisions WHERE experiment = ? AND unit IS NOT NULL LIMIT 1", (experiment,)):
            return 1.0
        rows = own.all(sql, (experiment,))
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
    """Return (policy, holdout, share) of each version: of units, or of rounds where there are none."""
    counts: dict[int, list[float]] = {own.version: [0.0, 0.0, own.share] for own in periods}
    if units:
        for version, arm, number in units:
            if version in counts:
                counts[version][arm == HOLDOUT] += number
    else:
        for own in periods:
            counts[own.version][0] += own.policy.rounds
            counts[own.version][1] += own.holdout.rounds
    return [(policy, holdout, share) for policy, holdout, share in counts.values()]
