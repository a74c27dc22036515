"""Moment matching: the Dirichlet rows nearest to what a round makes of them, a mixture over its latent states."""

from __future__ import annotations

import numpy as np

from idbandits.circuit.passes import Circuit, index
from idbandits.inference.evidence import MEANS, Parts, expect_there, fold, locate, rise, row_sum, take, weigh_slots
from idbandits.inference.groups import Room
from idbandits.kernel.compiling import bare, merged
from idbandits.kernel.types import Floats, Ints

MOST_TERMS = 4096  # of a part whose rows are used twice: beyond it, uses are matched one after the other
CERTAIN = 1e-12


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
        alpha[i] = fresh * (before + (masses[i] - mass * before) / (total + 1.0))


@merged
def has_clash(v: Parts, j: int, entries: Ints) -> bool:
    """Whether a row may be used twice, with these entries on the slots."""
    for t in range(v.data[v.clash_start + j], v.data[v.clash_start + j + 1]):
        a, b = entries[v.data[v.clash + 2 * t]], entries[v.data[v.clash + 2 * t + 1]]
        if v.data[v.row + a] == v.data[v.row + b]:
            return True
    return False


@bare
def match_part(
    c: Circuit, v: Parts, keys: Ints, at: int, numbers: Floats, alpha: Floats, room: Room, masses: Floats
) -> None:
    """Replace the rows that a part of a round touches by their matches; `masses` is zero before and after."""
    missing = take(v, keys, at, room.action, room.values)
    locate(c, v, keys[at], room.action, room.entries)
    match_there(c, v, keys[at], missing, numbers, alpha, room, masses)


@merged
def match_there(
    c: Circuit, v: Parts, j: int, missing: bool, numbers: Floats, alpha: Floats, room: Room, masses: Floats
) -> None:
    """`match_part` after `take` and `locate`."""
    expect_there(
        c, v, j, missing, MEANS, numbers, alpha, alpha, room.entries, room.weights, room.values, room.same,
        room.slopes, room.counts,
    )  # fmt: skip
    if has_clash(v, j, room.entries) and match_terms(c, v, j, numbers, alpha, room, masses):
        return
    first, last = v.data[v.use_start + j], v.data[v.use_start + j + 1]
    for t in range(first, last):
        slot = index(v.data, v.use + t)
        if room.entries[slot] < v.learned:
            masses[room.entries[slot]] += room.counts[slot]
    for t in range(first, last):
        e = room.entries[index(v.data, v.use + t)]
        if e < v.learned:
            match_uses(v, v.data[v.row + e], v.data[v.size + e], alpha, masses)


@merged
def match_uses(v: Parts, row: int, size: int, alpha: Floats, masses: Floats) -> None:
    """Match a row to the masses on its entries, which are then zero; more than one use is matched in equal steps."""
    mass = 0.0
    for i in range(row, row + size):
        mass += masses[i]
    if mass > 0.0:
        steps = max(1, int(np.ceil(mass - CERTAIN)))
        if steps > 1:
            for i in range(row, row + size):
                masses[i] /= steps
        for _ in range(steps):
            match(alpha, row, size, masses)
        for i in range(row, row + size):
            masses[i] = 0.0


@bare
def match_terms(c: Circuit, v: Parts, j: int, numbers: Floats, alpha: Floats, room: Room, extra: Floats) -> bool:
    """Match the rows of a part in which a row may be used twice, by going through all terms of its polynomial.

    The leaves and the entries are in room; `extra` is zero before and after. False, and nothing changed, if there
    are too many terms.
    """
    values, same = room.values, room.same
    first_node, last_node = v.data[v.node + j], v.data[v.node + j + 1]
    if not v.literal:
        fold(c, v, j, room.entries, numbers, values, same)
    weigh_slots(v, j, MEANS, numbers, alpha, alpha, room.entries, room.weights)
    rise(c, v, j, room.weights, values, same)
    number = count_terms(c, v, j, values, same, room.slopes)
    possible = 0.0 < number <= MOST_TERMS and values[c.leaves + last_node - 1] > 0.0
    if possible:
        weigh_terms(c, v, j, numbers, alpha, room, extra)
    for n in range(first_node, last_node):
        same[n] = 0
    return possible


@bare
def count_terms(c: Circuit, v: Parts, j: int, values: Floats, same: Ints, terms: Floats) -> float:
    """How many terms that are not zero the polynomial of a part has."""
    for i in range(c.leaves):
        terms[i] = 1.0
    last = v.data[v.node + j + 1]
    for n in range(v.data[v.node + j], last):
        e = c.data[c.start + n]
        if values[c.leaves + n] <= 0.0:
            terms[c.leaves + n] = 0.0
        elif c.data[c.product + n]:
            terms[c.leaves + n] = terms[c.data[c.child + e]] * terms[c.data[c.child + e + 1]]
        elif same[n]:
            terms[c.leaves + n] = terms[c.data[c.child + e]]
        else:
            terms[c.leaves + n] = 0.0
            for edge in range(e, c.data[c.start + n + 1]):
                child = c.data[c.child + edge]
                if values[child] > 0.0:
                    terms[c.leaves + n] += terms[child]
    return terms[c.leaves + last - 1]


@bare
def next_edge(c: Circuit, n: int, edge: int, weights: Floats, values: Floats) -> int:
    """The first edge of a sum from `edge` on whose term is not zero, or -1."""
    for e in range(edge, c.data[c.start + n + 1]):
        slot = c.data[c.slot + e]
        if values[c.data[c.child + e]] > 0.0 and (slot < 0 or weights[slot] > 0.0):
            return e
    return -1


@bare
def weigh_terms(c: Circuit, v: Parts, j: int, numbers: Floats, alpha: Floats, room: Room, extra: Floats) -> None:
    """Go through all terms, weighted by their probability under independent Dirichlet rows, and match every row."""
    first_node, last_node = v.data[v.node + j], v.data[v.node + j + 1]
    nodes = c.leaves + c.inner
    rows, shift, inside = room.marks[2 * c.slots :], room.fresh, room.other
    used, choice, live = room.visits[:nodes], room.visits[nodes : 2 * nodes], room.visits[2 * nodes :]
    number = touched_rows(v, j, room.entries, extra, rows)
    for r in range(number):
        for i in range(rows[r], rows[r] + v.data[v.size + rows[r]]):
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
            e = c.data[c.start + n]
            if c.data[c.product + n]:
                for child in (c.data[c.child + e], c.data[c.child + e + 1]):
                    if child >= c.leaves:
                        live[child - c.leaves] = 1
                continue
            if not room.same[n]:
                if choice[n] < 0:
                    choice[n] = next_edge(c, n, e, room.weights, room.values)
                e = choice[n]
                slot = c.data[c.slot + e]
                if slot >= 0 and room.entries[slot] >= v.learned:
                    weight *= room.weights[slot]
                elif slot >= 0:
                    entry = room.entries[slot]
                    weight *= (alpha[entry] + extra[entry]) / (row_sum(v, entry, alpha) + row_sum(v, entry, extra))
                    extra[entry] += 1.0
                    used[uses] = entry
                    uses += 1
            if c.data[c.child + e] >= c.leaves:
                live[c.data[c.child + e] - c.leaves] = 1
        sum_of_weights += weight
        for r in range(number):
            total, more = row_sum(v, rows[r], alpha), row_sum(v, rows[r], extra)
            for i in range(rows[r], rows[r] + v.data[v.size + rows[r]]):
                before = alpha[i] / total
                step = (extra[i] - more * before) / (total + more)
                shift[i] += weight * step
                inside[i] += weight * (step * step + (before + step) * (1.0 - before - step) / (total + more + 1.0))
        for i in range(uses):
            extra[used[i]] = 0.0
        n = first_node  # the next term: the lowest choice that can move on does, all below it begin again
        while n < last_node:
            if live[n] and not c.data[c.product + n] and not room.same[n]:
                choice[n] = next_edge(c, n, choice[n] + 1, room.weights, room.values)
                if choice[n] >= 0:
                    break
            choice[n] = -1
            n += 1
    for r in range(number):
        first, last = rows[r], rows[r] + v.data[v.size + rows[r]]
        total = row_sum(v, first, alpha)
        spread, variance = 0.0, 0.0
        for i in range(first, last):
            mean = alpha[i] / total + shift[i] / sum_of_weights
            spread += mean * (1.0 - mean)
            variance += inside[i] / sum_of_weights - (shift[i] / sum_of_weights) ** 2
        fresh = spread / variance - 1.0
        if fresh > 0.0 and fresh < np.inf:
            for i in range(first, last):
                alpha[i] = fresh * (alpha[i] / total + shift[i] / sum_of_weights)


@bare
def touched_rows(v: Parts, j: int, entries: Ints, marks: Floats, rows: Ints) -> int:
    """List the learned rows that a part's slots read, each once; `marks` is zero before and after. Their number."""
    number = 0
    for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
        e = entries[v.data[v.use + t]]
        if e < v.learned and marks[v.data[v.row + e]] == 0.0:
            rows[number] = v.data[v.row + e]
            marks[rows[number]] = 1.0
            number += 1
    for r in range(number):
        marks[rows[r]] = 0.0
    return number
