"""Logarithm of the posterior density of means given factors, and its slope, summed by threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, final

import numpy as np
from numba import types

from idbandits.inference.counts.factor_shapes import WORK, Work, add_expected, new_work, value_of_shape
from idbandits.inference.counts.factors_of_counts import FACTORS, Factors
from idbandits.inference.rounds.evidence import Evidence
from idbandits.kernel.array_types import Floats
from idbandits.kernel.compile import FLOATS, kernel
from idbandits.kernel.structs import pointer

BLOCKS = 16  # of factors, which threads sum separately: results do not depend on the number of threads
FEW = 20_000  # factors, which take less time than threads do to start
LEAST = 1e-300


class Slope(NamedTuple):
    """Logarithm of the posterior density of means, up to a constant, and pseudo-counts: base and expected counts."""

    log_density: float
    alpha: Floats


@final
class Target:
    """Posterior of means given factors and pseudo-counts `base`."""

    def __init__(self, evidence: Evidence, factors: Factors, base: Floats) -> None:
        self.entries, self.rows, self.base = evidence.entries, evidence.entries.row, base
        self.factors, self._known = factors, evidence.entries.known
        self._room = int(np.diff(factors.shape_starts).max(initial=1))

    def row_sums(self, numbers: Floats) -> Floats:
        """Return the sum of its row for each entry."""
        sums: Floats = np.bincount(self.rows, numbers, minlength=len(numbers)).astype(np.float64)
        return sums[self.rows]

    def means(self, x: Floats) -> Floats:
        """Return the means of coordinates: logarithms of ratios in each row."""
        highest = np.full(len(x), -np.inf)
        np.maximum.at(highest, self.rows, x)
        weights = np.exp(x - highest[self.rows])
        return np.maximum(weights / self.row_sums(weights), LEAST)

    def slope(self, means: Floats) -> Slope:
        """Return density and pseudo-counts at means."""
        parameters, factors = np.append(means, self._known), self.factors
        ends = np.linspace(0, factors.number, BLOCKS + 1).astype(np.int64).tolist()

        def work(k: int) -> tuple[float, Floats]:
            first, last, counts = ends[k], ends[k + 1], np.zeros(len(means))
            own = factors._replace(starts=factors.starts[first : last + 1], weights=factors.weights[first:last])
            return expect_factors(own, new_work(self._room), parameters, counts), counts

        if factors.number < FEW:
            results = list(map(work, range(BLOCKS)))
        else:
            with ThreadPoolExecutor(cores()) as pool:
                results = list(pool.map(work, range(BLOCKS)))
        expected = sum((counts for _, counts in results), np.zeros(len(means)))
        log_density = sum(value for value, _ in results) + float(self.base @ np.log(means))
        return Slope(log_density, self.base + expected)

    def gradient(self, slope: Slope, means: Floats) -> Floats:
        """Return the derivatives of the density by coordinates."""
        return slope.alpha - means * self.row_sums(slope.alpha)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@kernel(types.float64(FACTORS, WORK, FLOATS, FLOATS))
def expect_factors(factors: Factors, work: Work, parameters: Floats, counts: Floats) -> float:
    """Add the expected uses of entries in all factors; return the logarithm of the product of their values."""
    total = 0.0
    for g in range(len(factors.weights)):
        first = factors.starts[g]
        shape = pointer(factors.shapes, factors.shape_starts[factors.pool[first]])
        value = value_of_shape(shape, factors.pool, first + 1, parameters, work)
        if value > 0.0:
            add_expected(shape, factors.pool, first + 1, factors.weights[g], work, counts)
        total += factors.weights[g] * np.log(value)
    return total
