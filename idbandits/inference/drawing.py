"""Draws from Dirichlet rows, for pseudo-counts of any size."""

from __future__ import annotations

import numpy as np

from idbandits.evidence import Parts
from idbandits.inference.protocol import Rng
from idbandits.passes import compiled
from idbandits.tables import Floats

SMALL = 0.1  # pseudo-counts below this are drawn by logarithms, which do not vanish
EDGE = 1e-12  # draws of exactly 0 or 1 are moved inside by less than this, so that ties are broken at random


@compiled
def draw_rows(v: Parts, alpha: Floats, rng: Rng, p: Floats) -> None:
    """Draw every row of learned means."""
    e = 0
    while e < v.learned:
        size = v.data[v.size + e]
        if size == 2:
            p[e + 1] = draw_beta(alpha[e + 1], alpha[e], rng)
            p[e] = 1.0 - p[e + 1]
        else:
            draw_row(alpha, e, size, rng, p)
        e += size


@compiled
def draw_beta(a: float, b: float, rng: Rng) -> float:
    """A draw of a mean: never exactly 0 or 1."""
    if a == 1.0 and b == 1.0:
        x = rng.random()
    elif a < SMALL or b < SMALL:
        u, w = log_gamma(a, rng), log_gamma(b, rng)
        x = 1.0 / (1.0 + np.exp(w - u))
    else:
        u = rng.standard_gamma(a)
        x = u / (u + rng.standard_gamma(b))
    if x <= 0.0:
        return EDGE * rng.random()
    if x >= 1.0:
        return 1.0 - EDGE * rng.random()
    return x


@compiled
def log_gamma(a: float, rng: Rng) -> float:
    """The logarithm of a gamma draw, also where the draw is too small for a number."""
    if a >= SMALL:
        return np.log(rng.standard_gamma(a))
    return np.log(rng.standard_gamma(a + 1.0)) + np.log(1.0 - rng.random()) / a


@compiled
def draw_row(alpha: Floats, first: int, size: int, rng: Rng, p: Floats) -> None:
    """A draw of the means of a row."""
    high = -np.inf
    for i in range(first, first + size):
        p[i] = log_gamma(alpha[i], rng)
        high = max(high, p[i])
    total = 0.0
    for i in range(first, first + size):
        p[i] = np.exp(p[i] - high)
        if p[i] == 0.0:
            p[i] = EDGE * rng.random()
        total += p[i]
    for i in range(first, first + size):
        p[i] /= total
