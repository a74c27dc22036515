"""Combination of doubly robust estimates with few and with many assumptions, by how well they agree.

Three estimates share a value V: residuals weighted by all decisions (right for any diagram), by the decisions of each
term (right if its dependences are), and the model alone (right if the diagram is). The latter two may be off by
biases with unknown scales, which are zero if the diagram is right. The posterior of V averages over the scales: the
model is followed where the weighted rewards agree with it, and corrected as far as they speak against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats

SCALES = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)  # of a bias, relative to the value
RIGHT = 0.5  # prior probability that an assumption holds


class Combined(NamedTuple):
    """Combined estimate: its value and standard error, the share of each estimate, and what holds with probability."""

    value: float
    standard_error: float
    shares: Floats
    right: float  # probability that the diagram is right


def combine(estimates: Sequence[float], covariance: Floats) -> Combined:
    """Combine estimates in the order of their assumptions, fewest first; the first one is taken to be unbiased."""
    values = np.array(estimates)
    number = len(values)
    size = float(np.abs(values).max(initial=0.0)) or 1.0
    jitter = 1e-12 * size**2 * np.eye(number)
    logs, means, variances, shares, right = [], [], [], [], []
    for scales, log_prior in _settings(number):
        total = covariance + np.diag([0.0, *(np.square(scales) * size**2)]) + jitter
        inverse = np.linalg.inv(total)
        ones = inverse.sum(axis=1)
        precision = float(ones.sum())
        own = ones / precision
        mean = float(own @ values)
        rest = values - mean
        fit = -0.5 * float(rest @ inverse @ rest) - 0.5 * float(np.linalg.slogdet(total)[1]) - 0.5 * np.log(precision)
        logs.append(log_prior + fit)
        means.append(mean)
        variances.append(1 / precision)
        shares.append(own)
        right.append(not any(scales))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    mean = float(weights @ means)
    own = np.asarray(weights @ np.array(shares))
    spread = float(weights @ (np.array(variances) + np.square(np.array(means) - mean)))
    return Combined(mean, float(np.sqrt(spread)), own, float(weights @ np.array(right, float)))


def _settings(number: int) -> list[tuple[tuple[float, ...], float]]:
    """Return scales of the biases of all estimates but the first, with log priors: one that fails fails the next."""
    settings: list[tuple[tuple[float, ...], float]] = [((), 0.0)]
    for _ in range(number - 1):
        grown = []
        for scales, log_prior in settings:
            failed = bool(scales) and scales[-1] > 0
            if not failed:
                grown.append(((*scales, 0.0), log_prior + np.log(RIGHT)))
            off = log_prior - np.log(len(SCALES)) + (0.0 if failed else np.log(1 - RIGHT))
            grown += [((*scales, scale), off) for scale in SCALES]
        settings = grown
    return settings
