"""Random draws in kernels: Dirichlet rows for pseudo-counts of any size, and whole numbers."""

import numpy as np

from idbandits.kernel.array_types import Bools, Floats, Indices, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged

SMALL = 0.1  # pseudo-counts below this are drawn by logarithms, which do not vanish
EDGE = 1e-6  # means to act by of exactly 0 or 1 are moved inside by less than this, so that ties are broken at random
LEAST, MOST = (
    1e-300,
    1.0 - 1e-12,
)  # of chains, draws that are too small for a number, or too near to 1, are beyond these


@inlined
def below(rng: Rng, number: int) -> int:
    """A whole number from 0 to `number` - 1, all equally likely: as `rng.integers`, which makes an array each time."""
    return int(rng.random() * number)


@unmanaged
def draw_rows(sizes: Indices, first: int, last: int, alpha: Floats, rng: Rng, p: Floats) -> None:
    """Draw the means of the rows of entries `first` to `last` - 1; `sizes` has the size of the row of each entry."""
    e = first
    while e < last:
        size = sizes[e]
        if size == 2:
            p[e + 1] = draw_beta(alpha[e + 1], alpha[e], EDGE, rng)
            p[e] = 1.0 - p[e + 1]
        else:
            draw_row(alpha, e, size, EDGE, rng, p)
        e += size


@unmanaged
def draw_some_rows(sizes: Indices, first: int, last: int, wanted: Bools, alpha: Floats, rng: Rng, p: Floats) -> None:
    """The same for the rows of which an entry is wanted; in other rows, the first state is certain."""
    e = first
    while e < last:
        size, any_wanted = sizes[e], False
        for i in range(e, e + size):
            any_wanted |= wanted[i]
            p[i] = 0.0
        p[e] = 1.0
        if any_wanted and size == 2:
            p[e + 1] = draw_beta(alpha[e + 1], alpha[e], EDGE, rng)
            p[e] = 1.0 - p[e + 1]
        elif any_wanted:
            draw_row(alpha, e, size, EDGE, rng, p)
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
def draw_beta(a: float, b: float, edge: float, rng: Rng) -> float:
    """A draw of a mean: never exactly 0 or 1, but within `edge` of them."""
    if a == 1.0 and b == 1.0:
        x = rng.random()
    elif a < SMALL or b < SMALL:
        u, w = log_gamma(a, rng), log_gamma(b, rng)
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
    """A gamma draw, by Marsaglia and Tsang (2000): Numba's own takes half as long again."""
    x = gamma_from_one(a + 1.0 if a < 1.0 else a, rng)
    return x * (1.0 - rng.random()) ** (1.0 / a) if a < 1.0 else x


@inlined
def gamma_from_one(a: float, rng: Rng) -> float:
    """A gamma draw whose shape is at least 1."""
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
def log_gamma(a: float, rng: Rng) -> float:
    """The logarithm of a gamma draw, also where the draw is too small for a number."""
    x = np.log(gamma_from_one(a + 1.0 if a < 1.0 else a, rng))
    return x + np.log(1.0 - rng.random()) / a if a < 1.0 else x


@unmanaged
def draw_row(alpha: Floats, first: int, size: int, edge: float, rng: Rng, p: Floats) -> None:
    """A draw of the means of a row: none is exactly 0, but within `edge` of it."""
    high = -np.inf
    for i in range(first, first + size):
        p[i] = log_gamma(alpha[i], rng)
        high = max(high, p[i])
    total = 0.0
    for i in range(first, first + size):
        p[i] = np.exp(p[i] - high)
        if p[i] == 0.0:
            p[i] = edge * rng.random()
        total += p[i]
    for i in range(first, first + size):
        p[i] /= total
