"""Weighted means of several columns over rounds, with covariances clustered by session."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from idbandits.kernel.array_types import Floats, Ints
from idbandits.logs.rounds import Rounds


class Means(NamedTuple):
    """Means of columns over the rounds that have them, and their covariance."""

    mean: Floats  # NaN where no round has the column
    covariance: Floats
    total: Floats  # weight of the rounds that have each column
    clusters: int

    @property
    def se(self) -> Floats:
        """Standard errors of the means."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


@final
class Moments:
    """Sums over batches of rounds, from which means and covariances follow.

    Rounds of one session are one cluster. Without sessions, a round of weight w stands for w independent rounds.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._products = np.zeros((2 * columns, 2 * columns))  # of rounds without sessions
        self._totals = np.zeros(2 * columns)
        self._number = 0.0
        self._keys: list[Ints] = []
        self._sums: list[Floats] = []

    def add(self, rounds: Rounds, values: Floats) -> None:
        """Add the values of a batch: one row per round, NaN where a round lacks a column."""
        has = ~np.isnan(values)
        weights = rounds.weights if len(rounds.weights) else np.ones(len(values))
        lines = np.concatenate([np.where(has, values, 0.0), has.astype(np.float64)], axis=1)
        weighted = lines * weights[:, None]
        if not len(rounds.sessions):
            self._products += weighted.T @ lines
            self._totals += weighted.sum(axis=0)
            self._number += float(weights.sum())
        elif len(values):
            keys, sums = _summed(rounds.sessions, weighted)
            self._keys.append(keys)
            self._sums.append(sums)

    def means(self) -> Means:
        """Return the means of all columns."""
        products, totals, number = self._products, self._totals, self._number
        if self._keys:
            _, sums = _summed(np.concatenate(self._keys), np.concatenate(self._sums))
            products, totals = products + sums.T @ sums, totals + sums.sum(axis=0)
            number += float((sums[:, self._columns :].sum(axis=1) > 0).sum())
        k = self._columns
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(totals[k:] > 0, totals[:k] / totals[k:], np.nan)
            both, mixed, counts = products[:k, :k], products[:k, k:], products[k:, k:]
            cross = both - mixed * mean - (mixed * mean).T + counts * np.outer(mean, mean)
            correction = number / (number - 1) if number > 1 else np.nan
            covariance = correction * cross / np.outer(totals[k:], totals[k:])
        return Means(mean, covariance, totals[k:], round(number))


def _summed(keys: Ints, lines: Floats) -> tuple[Ints, Floats]:
    """Return the distinct keys, and the sums of the lines of each."""
    distinct, places = np.unique(keys, return_inverse=True)
    if len(distinct) == len(keys):
        return keys, lines
    sums = [np.bincount(places, column, minlength=len(distinct)) for column in lines.T]
    return distinct, np.stack(sums, axis=1) if sums else np.empty((len(distinct), 0))
