"""Diagnostics of importance weights: overlap, largest weights, tails, calibration, sensitivity to clipping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Ints
from idbandits.logs.evaluate.clusters import Clusters
from idbandits.logs.evaluate.importance import Weighted, clipped, effective_size
from idbandits.logs.evaluate.target import Target

HEAVY = 0.7  # shape of a tail from which means of weights are not to be trusted (Vehtari et al. 2024)
LIMITS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # of clipped weights
OFF = 4.0  # standard errors between the mean weight and 1 that speak against propensities


class WeightChecks(NamedTuple):
    """Diagnostics of the weights of one estimator."""

    effective: float  # smallest effective sample size of all terms
    overlap: float  # share of the policy's choices that the log contains; NaN if its actions are not known
    largest: Floats  # weights
    pareto_k: float  # largest shape of the upper tails; NaN with too few weights
    mean_weight: float  # of the term that is farthest from 1, in standard errors
    mean_error: float  # standard error of that mean
    by_clipping: Mapping[float, float]  # estimates by limit of the weights

    @property
    def calibrated(self) -> bool:
        """True unless the mean weight contradicts the propensities: it must be 1 on average."""
        return bool(abs(self.mean_weight - 1) <= OFF * self.mean_error + 1e-9)

    @property
    def heavy(self) -> bool:
        """True if weights have a tail too heavy for their mean."""
        return self.pareto_k > HEAVY


def check_weights(clusters: Clusters, rewards: Weighted, overlap: float) -> WeightChecks:
    """Return the diagnostics of weights."""
    distinct = np.unique(rewards.weights, axis=1)
    means, errors = [], []
    for column in distinct.T:
        means.append(clusters.mean(column))
        errors.append(clusters.standard_error(column))
    scores = np.abs(np.array(means) - 1) / np.maximum(errors, 1e-12)
    worst = int(np.argmax(scores)) if len(scores) else 0
    tails = [pareto_shape(column) for column in distinct.T]
    valid = [shape for shape in tails if np.isfinite(shape)]
    return WeightChecks(
        effective_size(clusters, rewards.weights), overlap, np.sort(rewards.weights.ravel())[::-1][:5],
        max(valid, default=np.nan), means[worst] if means else 1.0, errors[worst] if errors else 0.0,
        {limit: clusters.mean(clipped(rewards, limit).values) for limit in LIMITS},
    )  # fmt: skip


def pareto_shape(weights: Floats) -> float:
    """Estimate the shape of a generalised Pareto tail of positive weights (Zhang and Stephens 2009).

    The tail has the largest min(n / 5, 3 sqrt(n)) weights. A weakly informative prior shrinks the shape of short
    tails towards 0.5 (Vehtari et al. 2024). Weights with less than 5 in the tail, or with equal ones, give NaN.
    """
    positive = np.sort(weights[weights > 0])
    number = int(min(len(positive) / 5, 3 * np.sqrt(len(positive))))
    if number < 5 or positive[-number - 1] >= positive[-1]:
        return float("nan")
    excess = positive[-number:] - positive[-number - 1]
    excess = excess[excess > 0]
    number = len(excess)
    if number < 5:
        return float("nan")
    grid = 30 + int(np.sqrt(number))
    quarter = excess[max(0, int(number / 4 + 0.5) - 1)]
    steps = np.arange(1, grid + 1) - 0.5
    theta = 1 / excess[-1] + (1 - np.sqrt(grid / steps)) / (3 * quarter)
    shape = np.log1p(-theta[:, np.newaxis] * excess).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        profile = number * (np.log(-theta / shape) - shape - 1)
    profile = np.where(np.isfinite(profile), profile, -np.inf)
    weight = np.exp(profile - profile.max())
    middle = float((theta * weight).sum() / weight.sum())
    raw = float(np.log1p(-middle * excess).mean())
    return float((number * raw + 10 * 0.5) / (number + 10))


def overlap_of(target: Target, choices: Ints, sets: Sequence[tuple[int, ...]], clusters: Clusters) -> float:
    """Return the share of the policy's choices, for the worst set of decisions, that occur in the log."""
    groups = len(target.first) - 1
    share = np.bincount(target.group, clusters.weights, groups) / clusters.rounds
    rows = np.repeat(np.arange(groups), np.diff(target.first))
    mass = share[rows] * target.probability
    worst = 1.0
    for places in dict.fromkeys(sets):
        if not places:
            continue
        logged = np.unique(np.column_stack([target.group, choices[:, list(places)]]), axis=0)
        wanted = np.column_stack([rows, target.actions[:, list(places)]])
        both = np.concatenate([logged, wanted])
        _, numbers = np.unique(both, axis=0, return_inverse=True)
        number = numbers.ravel()
        found = np.isin(number[len(logged) :], number[: len(logged)])
        worst = min(worst, float(mass[found].sum()))
    return worst
