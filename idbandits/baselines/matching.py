"""The assignment of different items to positions with the highest sum of scores, for the solver's simplest case."""

from __future__ import annotations

import math

from idbandits.machine import bare
from idbandits.tables import Floats, Ints


@bare
def match(scores: Floats, positions: int, items: int, whole: Ints, real: Floats, action: Ints) -> None:
    """Put different items into `action`, with the highest sum of scores: successive shortest paths.

    `scores` has the items of one position after the other; `whole` and `real` are room for 2 (items + 1) numbers and
    positions + 1 + 2 (items + 1).
    """
    # potentials u of positions and v of items, numbered from 1; matched[item] is its position, 0 while it is free
    m = items + 1
    matched, way = whole[:m], whole[m : 2 * m]
    v, nearest, u = real[:m], real[m : 2 * m], real[2 * m :]
    for j in range(m):
        matched[j], v[j] = 0, 0.0
    for k in range(positions + 1):
        u[k] = 0.0
    for k in range(1, positions + 1):
        for j in range(m):
            nearest[j], way[j] = math.inf, 0
        matched[0], at = k, 0
        while matched[at] != 0:
            row, delta, ahead = matched[at], math.inf, 0
            nearest[at] = -math.inf  # reached
            for j in range(1, m):
                if nearest[j] == -math.inf:
                    continue
                reduced = -scores[(row - 1) * items + j - 1] - u[row] - v[j]
                if reduced < nearest[j]:
                    nearest[j], way[j] = reduced, at
                if nearest[j] < delta:
                    delta, ahead = nearest[j], j
            for j in range(m):
                if nearest[j] == -math.inf:
                    u[matched[j]] += delta
                    v[j] -= delta
                else:
                    nearest[j] -= delta
            at = ahead
        while at != 0:
            matched[at] = matched[way[at]]
            at = way[at]
    for j in range(1, m):
        if matched[j] > 0:
            action[matched[j] - 1] = j - 1
