"""Where the reward is a sum or a product of one term a decision, different items are an assignment problem."""

from __future__ import annotations

import math

import numpy as np

from idbandits.circuit.passes import Circuit
from idbandits.kernel.compiling import bare, part
from idbandits.kernel.types import Floats, Ints
from idbandits.solve.branch import PRODUCT, SUM, Decisions, item, score, slopes_at


@part
def assign(
    c: Circuit, s: Decisions, g: int, first: int, last: int, p: Floats, action: Ints, group: Ints, start: Ints,
    cands: Ints,
) -> bool:  # fmt: skip
    """The best action where the reward is a sum or a product of one term a decision; False where it does not hold."""
    nodes = c.leaves + c.inner
    values, slopes = np.ones(nodes), np.empty(nodes)
    weights, scores = np.empty(c.slots), np.empty(len(cands))
    zero, base = s.zero[g], 0.0
    for end in range(2):  # a base of first or of last candidates: a product that is 0 shows nothing of its factors
        for k in group:
            action[k] = cands[start[k + 1] - 1] if end else cands[start[k]]
        slopes_at(c, first, last, p, action, values, slopes, weights)
        for k in group:
            score(c, s, first, last, p, action, k, start, cands, values, slopes, scores)
        if s.data[s.form + g] == SUM:
            break
        for k in group:  # far from the constant the factors lose no digits
            for i in range(start[k], start[k + 1]):
                if abs(scores[i] - zero) > abs(scores[start[k]] - zero):
                    scores[start[k]] = scores[i]
                    action[k] = cands[i]
        base = slopes_at(c, first, last, p, action, values, slopes, weights) - zero
        if base != 0.0:
            break
    if s.data[s.form + g] == PRODUCT:
        if base == 0.0:
            return False
        for k in group:
            score(c, s, first, last, p, action, k, start, cands, values, slopes, scores)
        for k in group:
            for i in range(start[k], start[k + 1]):
                factor = (scores[i] - zero) / base
                if factor < -1e-9:
                    return False
                scores[i] = np.log(max(factor, 1e-300)) * (1.0 if base > 0 else -1.0)
    taken = np.zeros(s.decisions, np.bool_)
    for k in group:
        if not taken[k]:
            size = 0
            clique = np.empty(len(group), np.int64)
            for j in group:
                if j == k or s.data[s.conflict + j * s.decisions + k]:
                    clique[size] = j
                    taken[j] = True
                    size += 1
            match_items(s, clique[:size], start, cands, scores, action)
    return True


@part
def match_items(s: Decisions, rows: Ints, start: Ints, cands: Ints, scores: Floats, action: Ints) -> None:
    """Different items for these decisions with the highest sum of scores."""
    most = 0
    for k in rows:
        for i in range(start[k], start[k + 1]):
            most = max(most, item(s, k, cands[i]))
    column_of = np.zeros(most + 1, np.int64)  # 0: no column yet
    m = 0
    for k in rows:
        for i in range(start[k], start[k + 1]):
            if column_of[item(s, k, cands[i])] == 0:
                m += 1
                column_of[item(s, k, cands[i])] = m
    n = len(rows)
    by_column, choice = np.full(n * m, -np.inf), np.zeros(n * m, np.int64)
    for r in range(n):
        k = rows[r]
        for i in range(start[k], start[k + 1]):
            at = r * m + column_of[item(s, k, cands[i])] - 1
            if scores[i] > by_column[at]:
                by_column[at], choice[at] = scores[i], cands[i]
    chosen = np.zeros(n, np.int64)
    match(by_column, n, m, np.empty(2 * m + 2, np.int64), np.empty(n + 2 * m + 3), chosen)
    for r in range(n):
        action[rows[r]] = choice[r * m + chosen[r]]


@bare
def match(scores: Floats, positions: int, items: int, whole: Ints, real: Floats, action: Ints) -> None:
    """Put different items into `action`, with the highest sum of scores: successive shortest paths.

    `scores` has the items of one position after the other, -inf for those that may not be there; `whole` and `real`
    are room for 2 (items + 1) numbers and positions + 1 + 2 (items + 1).
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
