"""Assignment of different items to decisions, where the reward is a sum or a product of one term per decision."""

import math

import numpy as np

from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import linked, unmanaged
from idbandits.solve.candidates import ADDITIVE, MULTIPLICATIVE, Search, item, score, slopes_at

CLEAR = 1e-3  # of the largest rewards: a product that is so large shows its factors well
NOISE = 1e-15  # of them: a product that is not larger shows rounding only


@linked
def assign(q: Search, g: int, action: Ints) -> bool:
    """Leave the best action in `action`; return False if the reward is no sum or product of one term per decision."""
    c, s, start = q.run.c, q.s, q.start
    nodes = c.leaves + c.inner
    values, slopes = np.ones(nodes), np.empty(nodes)
    weights, scores = np.empty(c.slots), np.empty(start[s.decisions])
    zero, base, first_base, scale = s.zero[g], 0.0, 0.0, s.zero[s.groups]
    for turn in range(3):  # a base of first or of last candidates: a product near 0 shows nothing of its factors
        for k in q.group:
            action[k] = q.candidates[start[k + 1] - 1] if turn == 1 else q.candidates[start[k]]
        slopes_at(q, action, values, slopes, weights)
        for k in q.group:
            score(q, action, k, values, slopes, scores)
        if s.form[g] == ADDITIVE:
            break
        for k in q.group:  # far from the constant the factors lose no digits
            for i in range(start[k], start[k + 1]):
                if abs(scores[i] - zero) > abs(scores[start[k]] - zero):
                    scores[start[k]] = scores[i]
                    action[k] = q.candidates[i]
        base = slopes_at(q, action, values, slopes, weights) - zero
        if abs(base) > CLEAR * scale or (turn == 1 and abs(base) >= first_base):
            break
        first_base = abs(base)
    if s.form[g] == MULTIPLICATIVE:
        if abs(base) <= NOISE * scale:
            return False
        for k in q.group:
            score(q, action, k, values, slopes, scores)
        for k in q.group:
            for i in range(start[k], start[k + 1]):
                factor = (scores[i] - zero) / base
                if factor < -1e-9:
                    return False
                scores[i] = np.log(max(factor, 1e-300)) * (1.0 if base > 0 else -1.0)
    taken, clique = np.zeros(s.decisions, np.bool_), np.empty(q.size, np.int64)
    for k in q.group:
        if not taken[k]:
            size = 0
            for j in q.group:
                if j == k or s.conflict[j * s.decisions + k]:
                    clique[size] = j
                    taken[j] = True
                    size += 1
            if not match_items(q, clique[:size], scores, action):
                return False
    return True


@linked
def match_items(q: Search, clique: Ints, scores: Floats, action: Ints) -> bool:
    """Put different items with the highest sum of scores into `action`; return False if there are none."""
    s, start = q.s, q.start
    most = 0
    for k in clique:
        for i in range(start[k], start[k + 1]):
            most = max(most, item(s, k, q.candidates[i]))
    column_of = np.zeros(most + 1, np.int64)  # 0: no column yet
    columns = 0
    for k in clique:
        for i in range(start[k], start[k + 1]):
            if column_of[item(s, k, q.candidates[i])] == 0:
                columns += 1
                column_of[item(s, k, q.candidates[i])] = columns
    rows = len(clique)
    by_column, choice = np.full(rows * columns, -np.inf), np.zeros(rows * columns, np.int64)
    for r in range(rows):
        k = clique[r]
        for i in range(start[k], start[k + 1]):
            at = r * columns + column_of[item(s, k, q.candidates[i])] - 1
            if scores[i] > by_column[at]:
                by_column[at], choice[at] = scores[i], q.candidates[i]
    columns_chosen = np.zeros(rows, np.int64)
    int_scratch, float_scratch = np.empty(2 * columns + 2, np.int64), np.empty(rows + 2 * columns + 3)
    if not match(by_column, rows, columns, int_scratch, float_scratch, columns_chosen):
        return False
    for r in range(rows):
        action[clique[r]] = choice[r * columns + columns_chosen[r]]
    return True


@unmanaged
def match(scores: Floats, positions: int, items: int, int_scratch: Ints, float_scratch: Floats, action: Ints) -> bool:
    """Put different items with the highest sum of scores into `action`, by successive shortest paths.

    `scores` has the items of one position after the other, -inf for those that may not be there. The scratch arrays
    hold 2 (items + 1) and positions + 1 + 2 (items + 1) numbers. Return False if no path is left, as with NaN scores.
    """
    # potentials u of positions and v of items, numbered from 1; matched[item] is its position, 0 while it is free
    m = items + 1
    matched, way = int_scratch[:m], int_scratch[m : 2 * m]
    v, nearest, u = float_scratch[:m], float_scratch[m : 2 * m], float_scratch[2 * m :]
    matched[:], v[:], u[: positions + 1] = 0, 0.0, 0.0
    for k in range(1, positions + 1):
        nearest[:], way[:] = math.inf, 0
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
            if ahead == 0:
                return False
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
    return True
