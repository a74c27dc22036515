"""Means over rounds with standard errors and bootstrap intervals clustered by session."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.logs.rounds import Rounds

MOST_BLOCKS = 2000  # that are drawn in a bootstrap: of more sessions, several make a block
REPLICATES = 1000
LEVEL = 0.95


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
        drawn = rng.multinomial(number, np.full(number, 1 / number), REPLICATES)
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


class Estimate(NamedTuple):
    """Estimated value of a policy with a 95 % interval."""

    value: float
    low: float
    high: float
    effective: float  # effective sample size


def interval(replicates: Floats) -> tuple[float, float]:
    """Return the central 95 % of replicates."""
    low, high = np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def mean_estimate(clusters: Clusters, values: Floats, effective: float, rng: Rng) -> Estimate:
    """Return the mean of a column with its bootstrap interval."""
    sums = clusters.replicates([values], rng)
    return Estimate(clusters.mean(values), *interval(sums[:, 0] / sums[:, 1]), effective)
