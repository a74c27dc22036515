"""Posteriors of logs whose factors do not fit into a state: means and variances of all rows, in bounded memory.

Latent nodes are summed out. The most probable means are found by expectation maximisation, whose steps are corrected
by earlier ones (a quasi-Newton method), first on a sample of the factors, then on all; they are the means of the
posterior. Variances are those of a normal distribution with the curvature at these means (`curvature`). What is lost
are dependencies between rows and the skewness of rows: a row has pseudo-counts with its mean and variance. Where no
factor depends on a row, its pseudo-counts are exact.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from idbandits.inference.counts.curvature import Curvature
from idbandits.inference.counts.factors_of_counts import Factors, sampled_factors
from idbandits.inference.counts.log_density import LEAST, Target
from idbandits.inference.rounds.evidence import Evidence
from idbandits.kernel.array_types import Bools, Floats, Rng

PASSES = 300  # of plain expectation maximisation, at most
CLOSE = 1e-2  # passes end when no mean changes by a larger part of its standard deviation
FIRST_PASSES = 5  # of a sample, before steps are corrected: plain ones leave means near 0 at once
SAMPLED = 500_000  # factors of the first steps
STEPS = 100  # at most
NEAR = 0.02  # steps end when the squared distance to the mode is below, in standard deviations
LONGEST = 2.0  # change of a coordinate in a step
SMALLEST = 1e-4  # part of a step that is tried
REMEMBERED = 20  # steps that correct the next one


class Log(NamedTuple):
    """Factors of a log, and pseudo-counts of prior and certain uses."""

    factors: Factors
    base: Floats


def pseudo_counts(evidence: Evidence, log: Log, rng: Rng) -> Floats:
    """Return pseudo-counts to add to the base of a log that stand for its factors."""
    target, base = Target(evidence, *log), log.base
    moving = _touched(target)
    sample = Target(evidence, sampled_factors(log.factors, SAMPLED, rng), base)
    alpha = maximised(sample, FIRST_PASSES)
    means = climbed(target, climbed(sample, np.maximum(alpha / target.row_sums(alpha), LEAST)))
    strength = Curvature(target, means, rng).strengths()
    most = target.row_sums(target.slope(means).alpha)
    strength = np.clip(strength, np.minimum(target.row_sums(evidence.prior), most), most)
    return np.where(moving, np.maximum(strength * means, np.minimum(evidence.prior, base)) - base, 0.0)


def _touched(target: Target) -> Bools:
    """Return the entries of rows on which factors depend."""
    factors, used = target.factors, np.zeros(len(target.base))
    is_argument = np.ones(len(factors.pool), np.bool_)
    is_argument[factors.starts[:-1]] = False
    used[factors.pool[is_argument]] = 1.0
    return np.asarray(target.row_sums(used) > 0.0)


def climbed(target: Target, means: Floats) -> Floats:
    """Return the most probable means, by steps from given ones (L-BFGS)."""
    x = np.log(means)
    means = target.means(x)
    slope = target.slope(means)
    gradient = target.gradient(slope, means)
    pairs = deque[tuple[Floats, Floats]](maxlen=REMEMBERED)  # changes of coordinates, and of the negative gradient
    for _ in range(STEPS):
        step = _corrected(gradient, means * target.row_sums(slope.alpha), pairs)
        if float(gradient @ step) < NEAR:
            break
        step *= min(1.0, LONGEST / float(np.abs(step).max()))
        part = 1.0
        while part > SMALLEST:
            new = target.means(x + part * step)
            new_slope = target.slope(new)
            if new_slope.log_density > slope.log_density:
                break
            part *= 0.3
        else:
            break
        before, x, means, slope = gradient, x + part * step, new, new_slope
        gradient = target.gradient(slope, means)
        change = before - gradient
        if float(step @ change) > 0.0:
            pairs.append((part * step, change))
    return means


def _corrected(gradient: Floats, complete: Floats, pairs: deque[tuple[Floats, Floats]]) -> Floats:
    """Return the step of a gradient: without earlier steps that of expectation maximisation, gradient / complete."""
    left, shares = gradient.copy(), list[float]()
    for moved, change in reversed(pairs):
        shares.append(float(moved @ left) / float(moved @ change))
        left -= shares[-1] * change
    step: Floats = left / complete
    for moved, change in pairs:
        step += moved * (shares.pop() - float(change @ step) / float(moved @ change))
    return step


def most_probable(evidence: Evidence, factors: Factors, base: Floats) -> Floats:
    """Return pseudo-counts at the most probable means: base and the expected counts of all factors."""
    return maximised(Target(evidence, factors, base), PASSES)


def maximised(target: Target, passes: int) -> Floats:
    """Maximise the density by expectation maximisation; return the pseudo-counts."""
    alpha = target.base
    for _ in range(passes):
        before, sums = alpha / target.row_sums(alpha), target.row_sums(alpha)
        alpha = target.slope(np.maximum(before, LEAST)).alpha
        change = np.abs(alpha / target.row_sums(alpha) - before) / np.sqrt(before * (1.0 - before) / sums + LEAST)
        if float(change.max(initial=0.0)) < CLOSE:
            break
    return alpha
