"""Moment matching: the Dirichlet rows nearest to what a round makes of them, a mixture over its latent states."""

import numpy as np

from idbandits.inference.rounds.factors import expect, list_entries, members, unmark
from idbandits.inference.rounds.workspace import MEANS, Workspace, row_sum
from idbandits.inference.state.state import drawable
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import inlined, unmanaged

MOST_TERMS = 4096  # of a part whose rows are used twice: beyond it, uses are matched one after the other
CERTAIN = 1e-12
MOST_USES = 1e6  # of a row in a round; more than it has is a sign of pseudo-counts that are not positive


@inlined
def match(alpha: Floats, first: int, size: int, masses: Floats) -> None:
    """Replace a row by its match: `match_row`, compiled for two entries and for any number."""
    if size == 2:
        match_row(alpha, first, 2, masses)
    else:
        match_row(alpha, first, size, masses)


@inlined
def match_row(alpha: Floats, first: int, size: int, masses: Floats) -> None:
    """Replace a row by the Dirichlet with the mean and the total variance of a mixture.

    With probability masses[i] the entry i is used once, else none is. Written without differences of large numbers,
    so it holds for any pseudo-counts.
    """
    total, mass = 0.0, 0.0
    begin, end = first + size, first  # the entries that have any mass: of a long row, often one
    for i in range(first, first + size):
        total += alpha[i]
        mass += masses[i]
        if masses[i] != 0.0:
            begin, end = min(begin, i), i + 1
    if size == 2:  # as constants
        begin, end = first, first + 2
    for i in range(first, first + size):
        if masses[i] > 1.0 - CERTAIN:
            alpha[i] += 1.0
            return
    rest = max(0.0, 1.0 - mass)
    spread, variance = 0.0, 0.0
    for i in range(first, first + size):
        before = alpha[i] / total
        shift, square = 0.0, 0.0
        inside = rest * before * (1.0 - before) / (total + 1.0)
        for k in range(begin, end):
            step = ((1.0 if k == i else 0.0) - before) / (total + 1.0)
            shift += masses[k] * step
            square += masses[k] * step * step
            inside += masses[k] * (before + step) * (1.0 - before - step) / (total + 2.0)
        spread += (before + shift) * (1.0 - before - shift)
        variance += inside + square - shift * shift
    fresh = spread / variance - 1.0
    if not (fresh > 0.0 and fresh < np.inf):
        return
    for i in range(first, first + size):
        before = alpha[i] / total
        alpha[i] = drawable(fresh * (before + (masses[i] - mass * before) / (total + 1.0)))


@unmanaged
def may_clash(w: Workspace, factor: Ints) -> bool:
    """Return whether a term of a factor may use a row twice; `marks` is zero before and after."""
    v, several = w.v, factor[0] > 1
    clash = False
    for n in range(factor[0]):
        for t in range(w.first_term[n], w.first_term[n + 1]):
            last = -1
            for i in members(factor, w.term_at[t]):
                if 0 <= factor[i] < v.learned:
                    row = v.row[factor[i]]
                    clash |= row == last  # members are sorted
                    if several:
                        clash |= w.marks[row] not in (0, n + 1)
                        w.marks[row] = n + 1
                    last = row
    if several:
        for t in range(w.first_term[factor[0]]):
            for i in members(factor, w.term_at[t]):
                if 0 <= factor[i] < v.learned:
                    w.marks[v.row[factor[i]]] = 0
    return clash


@inlined
def match_factor(w: Workspace, factor: Ints, alpha: Floats, masses: Floats) -> None:
    """Replace the rows that a factor touches by their matches; `masses` is zero before and after."""
    v = w.v
    expect(w, factor, MEANS, alpha, alpha)
    if may_clash(w, factor) and match_terms(w, factor, alpha, masses):
        return
    terms = w.first_term[factor[0]]
    for t in range(terms):
        for i in members(factor, w.term_at[t]):
            if 0 <= factor[i] < v.learned:
                masses[factor[i]] += w.term_counts[t]
    for t in range(terms):
        for i in members(factor, w.term_at[t]):
            if 0 <= factor[i] < v.learned:
                match_uses(v.row[factor[i]], v.size[factor[i]], alpha, masses)


@inlined
def match_uses(row: int, size: int, alpha: Floats, masses: Floats) -> None:
    """Match a row to the masses on its entries, which are then zero; more than one use is matched in equal steps."""
    mass = 0.0
    for i in range(row, row + size):
        mass += masses[i]
    if mass > 0.0:
        steps = max(1, int(np.ceil(min(mass, MOST_USES) - CERTAIN)))
        if steps > 1:
            for i in range(row, row + size):
                masses[i] /= steps
        for _ in range(steps):
            match(alpha, row, size, masses)
        for i in range(row, row + size):
            masses[i] = 0.0


@unmanaged
def number_of_terms(w: Workspace, factor: Ints) -> float:
    """Return how many products of entries a factor is the sum of, without those that are zero."""
    for n in range(factor[0]):
        total = 0.0
        for t in range(w.first_term[n], w.first_term[n + 1]):
            product = 1.0 if is_possible(w, t) else 0.0
            for i in members(factor, w.term_at[t]):
                if factor[i] >= 0:
                    break
                product *= w.node_slopes[-1 - factor[i]]
            total += product
        w.node_slopes[n] = total
    return w.node_slopes[factor[0] - 1]


@inlined
def is_possible(w: Workspace, t: int) -> bool:
    """Return whether a term is not zero after `expect`, which left numbers, or logarithms where these are tiny."""
    return bool(w.term_counts[t] > 0.0)


@unmanaged
def next_possible(w: Workspace, n: int, t: int) -> int:
    """Return the first term of a node from `t` on that is not zero, or -1."""
    for term in range(t, w.first_term[n + 1]):
        if is_possible(w, term):
            return term
    return -1


@unmanaged
def match_terms(w: Workspace, factor: Ints, alpha: Floats, extra: Floats) -> bool:
    """Match every row, going through all terms, weighted by their probability under independent Dirichlet rows.

    After `expect`. `extra` is zero before and after. False, and nothing changes, if the terms are too many.
    """
    v, nodes = w.v, factor[0]
    if number_of_terms(w, factor) > MOST_TERMS:
        return False
    shift, inside, live, choice = w.fresh, w.other, w.visits, w.stack
    number = list_entries(w, factor, 0, True)
    unmark(w, number)
    for r in range(number):
        for i in range(w.rows[r], w.rows[r] + v.size[w.rows[r]]):
            shift[i], inside[i] = 0.0, 0.0
    for n in range(nodes):
        choice[n] = -1
    sum_of_weights, n = 0.0, 0
    while n < nodes:
        weight = 1.0
        for n in range(nodes):
            live[n] = 0
        live[nodes - 1] = 1
        for n in range(nodes - 1, -1, -1):
            if live[n]:
                if choice[n] < 0:
                    choice[n] = next_possible(w, n, w.first_term[n])
                if choice[n] < 0:  # numbers were too extreme: a node is zero that is used
                    for r in range(number):
                        for i in range(w.rows[r], w.rows[r] + v.size[w.rows[r]]):
                            extra[i] = 0.0
                    return False
                for i in members(factor, w.term_at[choice[n]]):
                    e = factor[i]
                    if e < 0:
                        live[-1 - e] = 1
                    elif e >= v.learned:
                        weight *= v.parameters[e]
                    else:
                        weight *= (alpha[e] + extra[e]) / (row_sum(v, e, alpha) + row_sum(v, e, extra))
                        extra[e] += 1.0
        sum_of_weights += weight
        for r in range(number):
            total, more = row_sum(v, w.rows[r], alpha), row_sum(v, w.rows[r], extra)
            for i in range(w.rows[r], w.rows[r] + v.size[w.rows[r]]):
                before = alpha[i] / total
                step = (extra[i] - more * before) / (total + more)
                shift[i] += weight * step
                inside[i] += weight * (step * step + (before + step) * (1.0 - before - step) / (total + more + 1.0))
        for r in range(number):
            for i in range(w.rows[r], w.rows[r] + v.size[w.rows[r]]):
                extra[i] = 0.0
        n = 0  # the next term: the lowest choice that can move on does, all below it begin again
        while n < nodes:
            if live[n]:
                choice[n] = next_possible(w, n, choice[n] + 1)
                if choice[n] >= 0:
                    break
            choice[n] = -1
            n += 1
    for r in range(number):
        first, last = w.rows[r], w.rows[r] + v.size[w.rows[r]]
        total = row_sum(v, first, alpha)
        spread, variance = 0.0, 0.0
        for i in range(first, last):
            mean = alpha[i] / total + shift[i] / sum_of_weights
            spread += mean * (1.0 - mean)
            variance += inside[i] / sum_of_weights - (shift[i] / sum_of_weights) ** 2
        fresh = spread / variance - 1.0
        if fresh > 0.0 and fresh < np.inf:
            for i in range(first, last):
                alpha[i] = drawable(fresh * (alpha[i] / total + shift[i] / sum_of_weights))
    return True
