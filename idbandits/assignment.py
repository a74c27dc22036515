"""Where the reward is a sum or a product of one term a decision, different items are an assignment problem."""

from __future__ import annotations

import numpy as np

from idbandits.machine import part
from idbandits.passes import Circuit
from idbandits.search import PRODUCT, SUM, Decisions, item, score, slopes_at
from idbandits.tables import Floats, Ints


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
            match(s, clique[:size], start, cands, scores, action)
    return True


@part
def match(s: Decisions, rows: Ints, start: Ints, cands: Ints, scores: Floats, action: Ints) -> None:
    """Different items for these decisions with the highest sum of scores: successive shortest paths."""
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
    cost = np.full((n + 1, m + 1), np.inf)
    choice = np.zeros((n + 1, m + 1), np.int64)
    for r in range(n):
        k = rows[r]
        for i in range(start[k], start[k + 1]):
            column = column_of[item(s, k, cands[i])]
            if -scores[i] < cost[r + 1, column]:
                cost[r + 1, column] = -scores[i]
                choice[r + 1, column] = cands[i]
    # potentials u of rows and v of columns; matched[column] is its row, 0 while it is free
    u, v = np.zeros(n + 1), np.zeros(m + 1)
    matched, way = np.zeros(m + 1, np.int64), np.zeros(m + 1, np.int64)
    for r in range(1, n + 1):
        matched[0] = r
        at = 0
        nearest = np.full(m + 1, np.inf)
        used = np.zeros(m + 1, np.bool_)
        while matched[at] != 0:
            used[at] = True
            row, delta, ahead = matched[at], np.inf, -1
            for column in range(1, m + 1):
                if used[column]:
                    continue
                reduced = cost[row, column] - u[row] - v[column]
                if reduced < nearest[column]:
                    nearest[column], way[column] = reduced, at
                if nearest[column] < delta:
                    delta, ahead = nearest[column], column
            for column in range(m + 1):
                if used[column]:
                    u[matched[column]] += delta
                    v[column] -= delta
                else:
                    nearest[column] -= delta
            at = ahead
        while at != 0:
            matched[at] = matched[way[at]]
            at = way[at]
    for column in range(1, m + 1):
        if matched[column] > 0:
            action[rows[matched[column] - 1]] = choice[matched[column], column]
