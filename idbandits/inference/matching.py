"""Moment matching: the Dirichlet rows nearest to what a round makes of them, a mixture over its latent states."""

import numpy as np

from idbandits.circuit.circuit import PRODUCT, Circuit
from idbandits.circuit.passes import up
from idbandits.kernel.compiling import bare, merged
from idbandits.kernel.fields import pointer
from idbandits.kernel.states import drawable
from idbandits.kernel.types import Floats, Ints

from idbandits.inference.workspace import (  # isort: skip
    MEANS, Workspace, expect, mark_same, nodes_of, row_sum, unmark_same, value_of_part,
)  # fmt: skip

MOST_TERMS = 4096  # of a part whose rows are used twice: beyond it, uses are matched one after the other
CERTAIN = 1e-12
MOST_USES = 1e6  # of a row in a round; more than it has is a sign of pseudo-counts that are not positive


@merged
def match(alpha: Floats, first: int, size: int, masses: Floats) -> None:
    """Replace a row by its match: `match_row`, compiled for two entries and for any number."""
    if size == 2:
        match_row(alpha, first, 2, masses)
    else:
        match_row(alpha, first, size, masses)


@merged
def match_row(alpha: Floats, first: int, size: int, masses: Floats) -> None:
    """Replace a row by the Dirichlet with the mean and the total variance of a mixture.

    With probability masses[i] the entry i is used once, else none is. Written without differences of large numbers,
    so it holds for any pseudo-counts.
    """
    total, mass = 0.0, 0.0
    for i in range(first, first + size):
        total += alpha[i]
        mass += masses[i]
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
        for k in range(first, first + size):
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


@merged
def has_clash(w: Workspace, j: int) -> bool:
    """Whether a row may be used twice, with these entries on the slots."""
    v = w.v
    for t in range(v.clash_start[j], v.clash_start[j + 1]):
        if v.row[w.entries[v.clash[t]]] == v.row[w.entries[v.clash_with[t]]]:
            return True
    return False


@merged
def match_part(w: Workspace, j: int, missing: bool, alpha: Floats, masses: Floats) -> None:
    """Replace the rows that a part of a round touches by their matches; `masses` is zero before and after."""
    v = w.v
    expect(w, j, missing, MEANS, alpha, alpha)
    if has_clash(w, j) and match_terms(w, j, alpha, masses):
        return
    first, last = v.use_start[j], v.use_start[j + 1]
    for t in range(first, last):
        slot = v.use[t]
        if w.entries[slot] < v.learned:
            masses[w.entries[slot]] += w.counts[slot]
    for t in range(first, last):
        e = w.entries[v.use[t]]
        if e < v.learned:
            match_uses(v.row[e], v.size[e], alpha, masses)


@merged
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


@bare
def match_terms(w: Workspace, j: int, alpha: Floats, extra: Floats) -> bool:
    """Match the rows of a part in which a row may be used twice, by going through all terms of its polynomial.

    The leaves and the entries are in the workspace; `extra` is zero before and after. False, and nothing changed, if
    there are too many terms.
    """
    if not w.v.literal:
        mark_same(w, j)
    value = value_of_part(w, j, MEANS, alpha)
    possible = 0.0 < count_terms(w, j) <= MOST_TERMS and value > 0.0
    if possible:
        weigh_terms(w, j, alpha, extra)
    unmark_same(w, j)
    return possible


@merged
def is_term(c: Circuit, e: int, w: Workspace) -> float:
    """Whether an edge leads to a term that is not zero, as 1 or 0."""
    return 1.0 if w.values[c.child[e]] > 0.0 and w.weights[c.slot[e]] > 0.0 else 0.0


@bare
def count_terms(w: Workspace, j: int) -> float:
    """How many terms that are not zero the polynomial of a part has."""
    for i in range(w.c.leaves):
        w.slopes[i] = 1.0 if w.values[i] > 0.0 else 0.0
    return up(nodes_of(w, j), is_term, w, w.slopes, w.same, False)


@bare
def next_edge(w: Workspace, n: int, edge: int) -> int:
    """The first edge of a sum from `edge` on whose term is not zero, or -1."""
    c = w.c
    for e in range(edge, c.start[n + 1]):
        if w.values[c.child[e]] > 0.0 and (c.slot[e] < 0 or w.weights[c.slot[e]] > 0.0):
            return e
    return -1


@bare
def weigh_terms(w: Workspace, j: int, alpha: Floats, extra: Floats) -> None:
    """Go through all terms, weighted by their probability under independent Dirichlet rows, and match every row."""
    c, v = w.c, w.v
    first_node, last_node = v.node[j], v.node[j + 1]
    nodes = c.leaves + c.inner
    rows, shift, inside = pointer(w.marks, 2 * c.slots), w.fresh, w.other
    used, choice, live = w.visits, pointer(w.visits, nodes), pointer(w.visits, 2 * nodes)
    number = touched_rows(w, j, extra, rows)
    for r in range(number):
        for i in range(rows[r], rows[r] + v.size[rows[r]]):
            shift[i], inside[i] = 0.0, 0.0
    for n in range(first_node, last_node):
        choice[n] = -1
    sum_of_weights = 0.0
    n = first_node
    while n < last_node:
        weight = 1.0
        uses = 0
        for n in range(first_node, last_node):
            live[n] = 0
        live[last_node - 1] = 1
        for n in range(last_node - 1, first_node - 1, -1):
            if not live[n]:
                continue
            e = c.start[n]
            if c.kind[n] == PRODUCT:
                for child in (c.child[e], c.child[e + 1]):
                    if child >= c.leaves:
                        live[child - c.leaves] = 1
                continue
            if not w.same[n]:
                if choice[n] < 0:
                    choice[n] = next_edge(w, n, e)
                e = choice[n]
                slot = c.slot[e]
                if slot >= 0 and w.entries[slot] >= v.learned:
                    weight *= w.weights[slot]
                elif slot >= 0:
                    entry = w.entries[slot]
                    weight *= (alpha[entry] + extra[entry]) / (row_sum(v, entry, alpha) + row_sum(v, entry, extra))
                    extra[entry] += 1.0
                    used[uses] = entry
                    uses += 1
            if c.child[e] >= c.leaves:
                live[c.child[e] - c.leaves] = 1
        sum_of_weights += weight
        for r in range(number):
            total, more = row_sum(v, rows[r], alpha), row_sum(v, rows[r], extra)
            for i in range(rows[r], rows[r] + v.size[rows[r]]):
                before = alpha[i] / total
                step = (extra[i] - more * before) / (total + more)
                shift[i] += weight * step
                inside[i] += weight * (step * step + (before + step) * (1.0 - before - step) / (total + more + 1.0))
        for i in range(uses):
            extra[used[i]] = 0.0
        n = first_node  # the next term: the lowest choice that can move on does, all below it begin again
        while n < last_node:
            if live[n] and c.kind[n] != PRODUCT and not w.same[n]:
                choice[n] = next_edge(w, n, choice[n] + 1)
                if choice[n] >= 0:
                    break
            choice[n] = -1
            n += 1
    for r in range(number):
        first, last = rows[r], rows[r] + v.size[rows[r]]
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


@bare
def touched_rows(w: Workspace, j: int, marks: Floats, rows: Ints) -> int:
    """List the learned rows that a part's slots read, each once; `marks` is zero before and after. Their number."""
    v = w.v
    number = 0
    for t in range(v.use_start[j], v.use_start[j + 1]):
        e = w.entries[v.use[t]]
        if e < v.learned and marks[v.row[e]] == 0.0:
            rows[number] = v.row[e]
            marks[rows[number]] = 1.0
            number += 1
    for r in range(number):
        marks[rows[r]] = 0.0
    return number
