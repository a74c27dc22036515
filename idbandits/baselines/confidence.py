"""Confidence bounds of means: indices of UCB1 and KL-UCB."""

import math
from typing import NamedTuple

from idbandits.kernel.array_types import Floats
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.structs import pointer

UNSEEN = 1e9  # index of untried arms
FARTHEST = 700.0  # exp(-x) is 0 not far above


class Arms(NamedTuple):
    """Trials, total reward and index of each arm."""

    times: Floats
    sums: Floats
    bound: Floats


@inlined
def arms_in(floats: Floats, number: int) -> Arms:
    """Return the arms at the start of an array."""
    return Arms(pointer(floats, 0), pointer(floats, number), pointer(floats, 2 * number))


@inlined
def level(t: int) -> float:
    """Return log t + 3 log log t, the confidence level of KL-UCB (Garivier and Cappé 2011), at least 0."""
    log = math.log(max(t, 1))
    return log + 3.0 * math.log(max(log, 1.0))


@unmanaged
def kl_above(mean: float, allowance: float, near: float = 0.0) -> float:
    """Return the largest q with d(mean, q) ≤ allowance, where d is the divergence of Bernoulli distributions."""
    if allowance <= 0.0:
        return mean
    return max(mean, -math.expm1(-kl_exponent(mean, allowance, near)))


@unmanaged
def kl_exponent(mean: float, allowance: float, near: float) -> float:
    """Return x = -log(1 - q) for the largest q with d(mean, q) ≤ allowance > 0; `near` is a starting point.

    Newton's method in x, in which d is convex and nearly linear: it steps over the root at most once, from below.
    """
    if mean >= 1.0:
        return math.inf
    if mean <= 0.0:
        return allowance
    lowest = -math.log1p(-mean)
    entropy = -mean * math.log(mean) + (1.0 - mean) * lowest
    x = near
    if not lowest < near < FARTHEST:
        x = (allowance + entropy) / (1.0 - mean)
        pinsker = mean + math.sqrt(allowance / 2.0)
        if pinsker < 1.0:
            x = min(x, -math.log1p(-pinsker))
    for _ in range(50):
        q = -math.expm1(-x)
        slope = (1.0 - mean) - mean * (1.0 - q) / q
        if q <= mean or slope <= 0.0:  # the interval is narrower than rounding
            break
        step = ((1.0 - mean) * x - mean * math.log(q) - entropy - allowance) / slope
        x -= step
        if abs(step) <= 1e-5 * (x - lowest):  # the relative error is about 1e-10 now
            break
    return max(x, lowest)


@inlined
def kl_below(mean: float, allowance: float) -> float:
    """Return the smallest q with d(mean, q) ≤ allowance."""
    return 1.0 - kl_above(1.0 - mean, allowance)


@inlined
def ucb1(mean: float, times: float, t: int) -> float:
    """Return mean + sqrt(1.5 log t / times), the index of CascadeUCB1 (Kveton et al. 2015)."""
    return mean + math.sqrt(1.5 * math.log(max(t, 1)) / times)
