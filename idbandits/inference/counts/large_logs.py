"""Posteriors of logs whose factors do not fit into a state: means and variances of all rows, in bounded memory.

Latent nodes are summed out. The most probable means are found by Newton steps on all factors, with the curvature of a
sample of the rounds; they are the means of the posterior. Variances are those of a normal distribution with the
curvature of all factors (`curvature`). What is lost are dependencies between rows and the skewness of rows: a row has
pseudo-counts with its mean and variance. Where no factor depends on a row, its pseudo-counts are exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idbandits.inference.counts.curvature import Curvature
from idbandits.inference.counts.factors_of_counts import Factors
from idbandits.inference.counts.log_density import LEAST, Target
from idbandits.inference.rounds.evidence import Evidence
from idbandits.kernel.array_types import Bools, Floats, Rng

PASSES = 300  # of expectation maximisation on a sample, at most
CLOSE = 1e-2  # passes end when no mean changes by a larger part of its standard deviation
STEPS = 60  # Newton steps, at most
NEAR = 1e-3  # steps end when the squared distance to the mode is below, in standard deviations per coordinate
SMALLEST = 1e-3  # part of a step that is tried


class Log(NamedTuple):
    """Factors of a log, and pseudo-counts of prior and certain uses."""

    factors: Factors
    base: Floats


def pseudo_counts(evidence: Evidence, log: Log, sample: Log, times: float, rng: Rng) -> Floats:
    """Return pseudo-counts to add to the base of a log that stand for its factors.

    The `sample` is a part of the log, in which each round stands for as many `times`.
    """
    first, target, base = Target(evidence, *sample), Target(evidence, *log), log.base
    alpha = maximised(first)
    moving = _touched(target)
    means = np.where(moving, alpha / first.row_sums(alpha), base / target.row_sums(base))
    guess = Curvature(first, np.maximum(alpha / first.row_sums(alpha), LEAST), rng)
    means = _climbed(target, np.maximum(means, LEAST), guess, times)
    final = Curvature(target, means, rng)
    strength = final.strengths()
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


def _climbed(target: Target, means: Floats, curvature: Curvature, times: float) -> Floats:
    """Return the most probable means, by Newton steps with the curvature of a sample."""
    x = np.log(means)
    means = target.means(x)
    slope = target.slope(means)
    part = 1.0
    for _ in range(STEPS):
        gradient = target.gradient(slope, means)
        step = curvature.solved(gradient) / times
        if float(gradient @ step) < NEAR * len(x):
            break
        while part > SMALLEST:
            new = target.means(x + part * step)
            new_slope = target.slope(new)
            if new_slope.log_density > slope.log_density:
                break
            part *= 0.5
        else:
            break
        x, means, slope = x + part * step, new, new_slope
        part = min(1.0, 1.5 * part)
    return means


def most_probable(evidence: Evidence, factors: Factors, base: Floats) -> Floats:
    """Return pseudo-counts at the most probable means: base and the expected counts of all factors."""
    return maximised(Target(evidence, factors, base))


def maximised(target: Target) -> Floats:
    """Maximise the density by expectation maximisation; return the pseudo-counts."""
    alpha = target.base
    for _ in range(PASSES):
        before, sums = alpha / target.row_sums(alpha), target.row_sums(alpha)
        alpha = target.slope(np.maximum(before, LEAST)).alpha
        change = np.abs(alpha / target.row_sums(alpha) - before) / np.sqrt(before * (1.0 - before) / sums + LEAST)
        if float(change.max(initial=0.0)) < CLOSE:
            break
    return alpha
