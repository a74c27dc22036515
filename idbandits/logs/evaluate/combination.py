"""Combination of doubly robust estimates with few and with many assumptions, by how well they agree.

Estimates share a value V: residuals weighted by all decisions (right for any diagram), by the decisions of each term
(right if its dependences are), by the nearest ones, and the model alone (right if the diagram is). All but the first
may be off by biases with unknown scales, which are zero if their assumptions hold. Weights whose mean is below 1 leave
a part of the model's bias uncorrected. The posterior of V averages over the scales: the model is followed where the log
agrees with it, and corrected as far as the log speaks against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats

SCALES = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)  # of a bias, relative to the value
RIGHT = 0.5  # prior probability that an assumption holds


class Evidence(NamedTuple):
    """Deviations of the log from an assumption that would be zero, up to noise, if it held."""

    means: Floats
    variances: Floats  # of their noise
    decisions: int  # whose choices the deviations belong to: a bias is a sum over these

    def log_likelihood(self, scale: float) -> float:
        """Return the log-likelihood of a bias with this standard deviation, relative to none."""
        if not len(self.means):
            return 0.0
        total = self.variances + scale**2 / self.decisions
        squares = self.means**2
        return float(0.5 * (squares / self.variances - squares / total - np.log(total / self.variances)).sum())


class Combined(NamedTuple):
    """Combined estimate: its value and standard error, the share of each estimate, and what holds with probability."""

    value: float
    standard_error: float
    shares: Floats
    right: float  # probability that the diagram is right


def combine(
    estimates: Sequence[float], covariance: Floats, uncorrected: Sequence[float], evidence: Sequence[Evidence]
) -> Combined:
    """Combine estimates in the order of their assumptions, fewest first; the last one is that of the model.

    `uncorrected` are the shares of the model's bias that estimates retain, 1 for the model itself. `evidence` is about
    the assumptions of all estimates but the first.
    """
    values = np.array(estimates)
    size = abs(float(values[-1])) or 1.0
    total_bias = np.array(uncorrected)
    jitter = 1e-12 * size**2 * np.eye(len(values))
    known = [{s: own.log_likelihood(s * size) for s in (0.0, *SCALES)} for own in evidence]
    logs, means, variances, shares, right = [], [], [], [], []
    for scales, log_prior in _settings(len(values)):
        biases = np.square(np.array([0.0, *scales]) * size)
        total = covariance + np.diag([*biases[:-1], 0.0]) + biases[-1] * np.outer(total_bias, total_bias) + jitter
        inverse = np.linalg.inv(total)
        ones = inverse.sum(axis=1)
        precision = float(ones.sum())
        own = ones / precision
        mean = float(own @ values)
        rest = values - mean
        fit = -0.5 * float(rest @ inverse @ rest) - 0.5 * float(np.linalg.slogdet(total)[1]) - 0.5 * np.log(precision)
        logs.append(log_prior + fit + sum(table[scale] for table, scale in zip(known, scales, strict=True)))
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
