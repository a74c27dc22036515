"""Random draws in kernels: Dirichlet rows for pseudo-counts of any size, gamma draws, and integers."""

import numpy as np

from idbandits.kernel.array_types import Bools, Floats, Indices, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged

SMALL = 0.1  # pseudo-counts below are drawn as logarithms, which do not underflow
EDGE = 1e-6  # means of exactly 0 or 1 are moved inside by less than this, so that ties are broken at random
LEAST, MOST = 1e-300, 1.0 - 1e-12  # draws of chains beyond these stand for 0 and 1


@inlined
def below(rng: Rng, number: int) -> int:
    """Draw an integer from 0 to `number` - 1 uniformly, without the array that `rng.integers` creates."""
    return int(rng.random() * number)


@unmanaged
def draw_rows(sizes: Indices, first: int, last: int, alpha: Floats, rng: Rng, p: Floats) -> None:
    """Draw the means of entries `first` to `last` - 1; `sizes` has the size of the row of each entry."""
    e = first
    while e < last:
        draw_row_or_beta(alpha, e, sizes[e], EDGE, rng, p)
        e += sizes[e]


@unmanaged
def draw_some_rows(sizes: Indices, first: int, last: int, wanted: Bools, alpha: Floats, rng: Rng, p: Floats) -> None:
    """Draw the means of rows with a wanted entry; in other rows, the first state is certain."""
    e = first
    while e < last:
        size, any_wanted = sizes[e], False
        for i in range(e, e + size):
            any_wanted |= wanted[i]
            p[i] = 0.0
        p[e] = 1.0
        if any_wanted:
            draw_row_or_beta(alpha, e, size, EDGE, rng, p)
        e += size


@unmanaged
def draw_listed_rows(sizes: Indices, rows: Ints, alpha: Floats, rng: Rng, p: Floats) -> bool:
    """Draw the means of the rows that begin at `rows`; return False, and draw nothing, if these have no pseudo-counts.

    Other rows are not written.
    """
    sound = True
    for e in rows:
        for i in range(e, e + sizes[e]):
            sound &= 0.0 <= alpha[i] < np.inf
    for e in rows if sound else rows[:0]:
        if sizes[e] == 2:
            p[e + 1] = draw_beta(alpha[e + 1], alpha[e], EDGE, rng)
            p[e] = 1.0 - p[e + 1]
        else:
            draw_row(alpha, e, sizes[e], EDGE, rng, p)
    return sound


@inlined
def draw_row_or_beta(alpha: Floats, first: int, size: int, edge: float, rng: Rng, p: Floats) -> None:
    """Draw the means of a row, of which those of two states are faster to draw."""
    if size == 2:
        p[first + 1] = draw_beta(alpha[first + 1], alpha[first], edge, rng)
        p[first] = 1.0 - p[first + 1]
    else:
        draw_row(alpha, first, size, edge, rng, p)


@inlined
def draw_beta(a: float, b: float, edge: float, rng: Rng) -> float:
    """Draw a mean: never exactly 0 or 1, but within `edge` of them."""
    if a == 1.0 and b == 1.0:
        x = rng.random()
    elif a < SMALL or b < SMALL:
        u, w = draw_log_gamma(a, rng), draw_log_gamma(b, rng)
        x = 1.0 / (1.0 + np.exp(w - u))
    else:
        u = gamma(a, rng)
        x = u / (u + gamma(b, rng))
    if x <= 0.0:
        return edge * rng.random()
    if x >= 1.0:
        return 1.0 - max(edge, 1.0 - MOST) * rng.random()
    return x


@inlined
def gamma(a: float, rng: Rng) -> float:
    """Draw from the gamma distribution by Marsaglia and Tsang (2000), in two thirds of the time of Numba's draw."""
    x = _gamma_from_one(a + 1.0 if a < 1.0 else a, rng)
    return x * (1.0 - rng.random()) ** (1.0 / a) if a < 1.0 else x


@unmanaged
def draw_log_gamma(a: float, rng: Rng) -> float:
    """Draw the logarithm of a gamma variable, which does not underflow."""
    x = np.log(_gamma_from_one(a + 1.0 if a < 1.0 else a, rng))
    return x + np.log(1.0 - rng.random()) / a if a < 1.0 else x


@inlined
def _gamma_from_one(a: float, rng: Rng) -> float:
    """Draw from the gamma distribution with shape a >= 1."""
    d = a - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    while True:
        x = rng.standard_normal()
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = rng.random()
        if u < 1.0 - 0.0331 * (x * x) * (x * x) or np.log(u) < 0.5 * x * x + d * (1.0 - v + np.log(v)):
            return d * v


@unmanaged
def draw_row(alpha: Floats, first: int, size: int, edge: float, rng: Rng, p: Floats) -> None:
    """Draw the means of a row: none is exactly 0, but within `edge` of it."""
    high = -np.inf
    for i in range(first, first + size):
        p[i] = draw_log_gamma(alpha[i], rng)
        high = max(high, p[i])
    total = 0.0
    for i in range(first, first + size):
        p[i] = np.exp(p[i] - high)
        if p[i] == 0.0:
            p[i] = edge * rng.random()
        total += p[i]
    for i in range(first, first + size):
        p[i] /= total
