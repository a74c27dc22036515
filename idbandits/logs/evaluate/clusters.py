"""Means over rounds with standard errors and bootstrap intervals clustered by session."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.logs.rounds import NO_NUMBERS, Rounds

MOST_BLOCKS = 2000  # that are drawn in a bootstrap: of more sessions, several make a block
REPLICATES = 1000
LEVEL, NORMAL = 0.95, 1.959964  # of intervals, and the standard errors on each side


class Clusters(NamedTuple):
    """Rounds with their weights, grouped by session."""

    weights: Floats  # of rounds
    session: Ints  # of rounds, from 0
    size: Floats  # total weight of each session

    @property
    def rounds(self) -> float:
        """Total weight of all rounds."""
        return float(self.size.sum())

    def mean(self, values: Floats) -> float:
        """Return the mean of a column of numbers, one per round."""
        return float(self.weights @ values) / self.rounds

    def totals(self, values: Floats) -> Floats:
        """Return the weighted sum of each session."""
        return np.asarray(np.bincount(self.session, self.weights * values, len(self.size)), np.float64)

    def covariance(self, columns: list[Floats]) -> Floats:
        """Return the covariance of the means of several columns; robust to dependence within sessions."""
        centred = np.array([self.totals(column - self.mean(column)) for column in columns])
        number = len(self.size)
        return np.asarray(centred @ centred.T * (number / max(1, number - 1)) / self.rounds**2)

    def standard_error(self, values: Floats) -> float:
        """Return the standard error of the mean of a column."""
        return float(np.sqrt(self.covariance([values])[0, 0]))

    def replicates(self, columns: list[Floats], rng: Rng) -> Floats:
        """Return bootstrap replicates of the sums of several columns, and of the rounds, by session.

        The last column of the result is the total weight of the rounds. Of many sessions, blocks are drawn.
        """
        sums = np.array([*(self.totals(column) for column in columns), self.size])
        if sums.shape[1] > MOST_BLOCKS:
            block = rng.permutation(sums.shape[1]) % MOST_BLOCKS
            sums = np.array([np.bincount(block, row, MOST_BLOCKS) for row in sums])
        number = sums.shape[1]
        chosen = rng.integers(number, size=(REPLICATES, number)) + number * np.arange(REPLICATES)[:, np.newaxis]
        drawn = np.bincount(chosen.ravel(), minlength=REPLICATES * number).reshape(REPLICATES, number)
        return np.asarray(drawn @ sums.T)


def clusters_of(rounds: Rounds) -> Clusters:
    """Return the sessions of a log; without a column of sessions, every round is one."""
    weights = rounds.weights if len(rounds.weights) else np.ones(len(rounds))
    if len(rounds.sessions):
        _, session = np.unique(rounds.sessions, return_inverse=True)
        session = session.ravel().astype(np.int64)
    else:
        session = np.arange(len(rounds), dtype=np.int64)
    size = np.asarray(np.bincount(session, weights, int(session.max(initial=-1)) + 1), np.float64)
    return Clusters(weights, session, size)


def repeated(rounds: Rounds) -> Rounds:
    """Return a log in which rows that stand for several rounds are repeated, unless sessions group them.

    Rounds without sessions are independent, whether or not equal ones are in one row. Weights with fractions are left.
    """
    weights = rounds.weights
    if not len(weights) or len(rounds.sessions) or (weights != np.floor(weights)).any():
        return rounds
    copies = rounds.part(np.repeat(np.arange(len(rounds)), weights.astype(np.int64)))
    return Rounds(**(copies._asdict() | {"weights": NO_NUMBERS}))


class Estimate(NamedTuple):
    """Estimated value of a policy with a 95 % interval."""

    value: float
    low: float
    high: float
    effective: float  # effective sample size

    def wider(self, error: float) -> Estimate:
        """Return the estimate with an independent standard error added to its interval."""
        below, above = self.value - self.low, self.high - self.value
        extra = NORMAL * error
        low, high = self.value - np.hypot(below, extra), self.value + np.hypot(above, extra)
        return Estimate(self.value, float(low), float(high), self.effective)


def interval(replicates: Floats) -> tuple[float, float]:
    """Return the central 95 % of replicates."""
    low, high = np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def mean_estimate(clusters: Clusters, values: Floats, effective: float, rng: Rng) -> Estimate:
    """Return the mean of a column with its bootstrap interval."""
    sums = clusters.replicates([values], rng)
    return Estimate(clusters.mean(values), *interval(sums[:, 0] / sums[:, 1]), effective)
