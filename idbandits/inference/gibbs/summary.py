"""Summaries of chains in bounded memory: moments over all steps, and some of the draws for quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np

from idbandits.kernel.array_types import Floats, Ints

CHUNK = 2_000_000  # numbers that are drawn at once
EXACT = 4_000_000  # numbers that are stored in double precision
KEPT = 20_000_000  # numbers that are stored in single precision, at most
FEWEST_KEPT = 100  # draws that are stored in any case


class Moments:
    """Running mean and variance of columns."""

    def __init__(self, columns: int) -> None:
        self._lines, self.mean, self._squares = 0, np.zeros(columns), np.zeros(columns)

    def add(self, lines: Floats) -> None:
        """Add several lines."""
        mean, number = lines.mean(axis=0), len(lines)
        off, self._lines = mean - self.mean, self._lines + number
        self._squares += ((lines - mean) ** 2).sum(axis=0) + off**2 * number * (self._lines - number) / self._lines
        self.mean = self.mean + off * number / self._lines

    @property
    def sd(self) -> Floats:
        """Standard deviation of each column."""
        return np.asarray(np.sqrt(self._squares / self._lines))


@final
class Summary(NamedTuple):
    """Summary of a chain: mean and standard deviation of entries over all steps, and evenly spaced draws.

    Quantiles are those of the stored draws. With k nearly independent draws, the probability below the quantile at q
    has a standard error of sqrt(q (1 - q) / k): 0.005 at 5 % for 2,000, and 0.02 for 100.
    """

    entries: Ints
    mean: Floats
    sd: Floats
    kept: Floats  # draws, one per line; one column per entry
    parameters: Floats  # of regressions: draws, one per line


def summary_of(entries: Ints, steps: int, draw: Callable[[int], tuple[Floats, Floats]]) -> Summary:
    """Summarise steps of a chain; `draw` advances it by some steps, and returns their means and parameters."""
    width = max(1, len(entries))
    every = -(-steps // max(FEWEST_KEPT, min(steps, KEPT // width)))
    kept = np.empty((-(-steps // every), len(entries)), np.float64 if steps * width <= EXACT else np.float32)
    moments, parameters = Moments(len(entries)), list[Floats]()
    for done in range(0, steps, chunk := max(1, CHUNK // width)):
        means, own = draw(min(chunk, steps - done))
        moments.add(means)
        first = -(-done // every)
        lines = means[first * every - done :: every]
        kept[first : first + len(lines)] = lines
        parameters.append(own)
    return Summary(entries, moments.mean, moments.sd, kept, np.concatenate(parameters))
