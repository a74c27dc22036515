"""Choices of decisions in stages, as affine maps of frontiers: those worth a look, and the prices of items."""

from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged
from idbandits.solve.assignment import match
from idbandits.solve.candidates import Search, item
from idbandits.solve.lists.stage_maps import StageRows, coefficient, enter_stage, new_rows, read_choice

MOST_ITEMS = 62  # of decisions that exclude each other, as bits of an integer
RESIDUES = 67  # powers of two differ modulo this prime, which tells bits apart
RIVALS = 16  # of a stage, with which a choice is compared to find what it loses


class Steps(NamedTuple):
    """Choices of all stages that are worth a look, those that promise most first."""

    widest: int  # how many numbers a frontier has at most
    start: Ints  # of a stage: its choices
    width: Ints  # of a stage: the numbers in the frontier that it reads; last, 1
    choice: Ints
    bit: Ints  # of a choice: the item that it uses, 0 if no other decision may want it
    maps: Floats  # of a choice: for each number of the next frontier, a constant and the slopes; see `place`
    ceiling: Floats  # of a choice: with it or a later one of the stage, no number of the next frontier is above these
    live: Ints  # of a stage: the items that matter to later ones
    low: Floats  # of a stage: `widest` numbers, below which the frontier that it reads never is
    high: Floats
    penalty: Floats  # of a stage: what the later ones lose at least because they may not share items
    price: Floats  # of a stage and an item, by its residue: what they lose more if it is gone
    cost: Floats  # of a stage: of going on from one way and bounding what that leads to, in multiplications
    cost_of_bound: Floats  # of a stage: of bounding a way


@linked
def new_steps(q: Search, g: int) -> Steps:
    """Allocate the choices of a group."""
    s, size, first, widest, total = q.s, q.size, q.s.group_start[g], 1, 0
    for t in range(size):
        k = s.stage_decision[first + t]
        widest = max(widest, s.frontier_start[first + t + 1] - s.frontier_start[first + t])
        total += q.start[k + 1] - q.start[k]
    return Steps(
        widest, np.zeros(size + 1, np.int64), np.ones(size + 1, np.int64), np.empty(total, np.int64),
        np.zeros(total, np.int64), np.empty(total * widest * (widest + 1)), np.empty(total * widest),
        np.zeros(size, np.int64), np.empty(size * widest), np.empty(size * widest), np.zeros(size),
        np.zeros(size * RESIDUES), np.zeros(size + 1), np.zeros(size),
    )  # fmt: skip


@inlined
def place(steps: Steps, i: int, b: int, wide: int) -> int:
    """Return where the map of choice i to number b of the next frontier begins, if it reads `wide` numbers."""
    return i * steps.widest * (steps.widest + 1) + b * (wide + 1)


@inlined
def mapped(steps: Steps, i: int, b: int, wide: int, frontier: Floats, first: int) -> float:
    """Return number b of the next frontier after choice i; the present frontier begins at `first`."""
    at = place(steps, i, b, wide)
    total = steps.maps[at]
    for a in range(wide):
        total += steps.maps[at + 1 + a] * frontier[first + a]
    return total


@linked
def find_steps(q: Search, g: int, action: Ints, steps: Steps) -> bool:
    """Find the choices that fewer others cover than decisions may take; return False if there is a negative slope."""
    s, first, scratch = q.s, q.s.group_start[g], new_rows(q, g, steps.widest, action)
    low, high = np.empty(steps.widest), np.empty(steps.widest)
    for t in range(q.size):
        x = first + t
        to, next_wide = s.frontier_start[x], s.frontier_start[x + 1] - s.frontier_start[x]
        wide = to - s.frontier_start[x - 1] if t > 0 else 0  # the first stage reads nothing
        steps.width[t] = wide
        for b in range(wide):
            steps.low[t * steps.widest + b], steps.high[t * steps.widest + b] = low[b], high[b]
        if not read_maps(q, x, action, scratch, steps.start[t], steps, wide):
            return False
        k = s.stage_decision[x]
        steps.start[t + 1] = steps.start[t] + q.start[k + 1] - q.start[k]
        rank(steps, t, s.needed[k], next_wide)
        leave_out(steps, t, s.needed[k], next_wide)
        rank(steps, t, steps.start[t + 1] - steps.start[t], next_wide)
        for b in range(next_wide):
            low[b], high[b] = np.inf, -np.inf
            for i in range(steps.start[t + 1] - 1, steps.start[t] - 1, -1):
                low[b] = min(low[b], mapped(steps, i, b, wide, steps.low, t * steps.widest))
                high[b] = max(high[b], mapped(steps, i, b, wide, steps.high, t * steps.widest))
                steps.ceiling[i * steps.widest + b] = high[b]
    return True


@linked
def read_maps(q: Search, x: int, action: Ints, scratch: StageRows, number: int, steps: Steps, wide: int) -> bool:
    """Read the maps of all candidates of stage x, numbered from `number`; return False if there is a negative slope."""
    s, sound = q.s, True
    k, next_wide = s.stage_decision[x], s.frontier_start[x + 1] - s.frontier_start[x]
    enter_stage(q, x, wide, action, scratch)
    for i in range(q.start[k], q.start[k + 1]):
        steps.choice[number] = q.candidates[i]
        read_choice(q, x, wide, q.candidates[i], action, scratch)
        for j in range(wide + 1):
            for b in range(next_wide):
                value = coefficient(q, x, b, j, scratch)
                sound &= j == 0 or value >= 0.0
                steps.maps[place(steps, number, b, wide) + j] = value
        number += 1
    return sound


@linked
def rank(steps: Steps, t: int, number: int, next_wide: int) -> None:
    """Put the most promising choices of a stage first, in order."""
    first, last, wide = steps.start[t], steps.start[t + 1], steps.width[t]
    promise = np.empty(last - first)
    for i in range(first, last):
        promise[i - first] = 0.0
        for b in range(next_wide):
            promise[i - first] += mapped(steps, i, b, wide, steps.high, t * steps.widest)
    for i in range(first, min(last, first + number)):
        best = i
        for j in range(i + 1, last):
            if promise[j - first] > promise[best - first]:
                best = j
        if best != i:
            promise[best - first] = promise[i - first]
            steps.choice[i], steps.choice[best] = steps.choice[best], steps.choice[i]
            for a in range(next_wide * (wide + 1)):
                mine, other = place(steps, i, 0, wide) + a, place(steps, best, 0, wide) + a
                steps.maps[mine], steps.maps[other] = steps.maps[other], steps.maps[mine]


@linked
def leave_out(steps: Steps, t: int, needed: int, next_wide: int) -> None:
    """Leave out the choices of a stage that so many others cover: one of those is free, whatever else is chosen."""
    first, wide = steps.start[t], steps.width[t]
    for turn in range(2):  # in the first turn, choices are compared with those before them only
        kept, last = first, steps.start[t + 1]
        for i in range(first, last):
            covering = 0
            for other in range(first, kept):
                covering += covers(steps, t, other, i, next_wide)
                if covering == needed:
                    break
            if turn > 0:  # of equal ones, the first covers the others
                for other in range(i + 1, last):
                    if covers(steps, t, other, i, next_wide):
                        covering += not covers(steps, t, i, other, next_wide)
            if covering < needed:
                steps.choice[kept] = steps.choice[i]
                for a in range(next_wide * (wide + 1)):
                    steps.maps[place(steps, kept, 0, wide) + a] = steps.maps[place(steps, i, 0, wide) + a]
                kept += 1
        steps.start[t + 1] = kept


@inlined
def covers(steps: Steps, t: int, i: int, j: int, next_wide: int) -> bool:
    """Return whether choice i never leads to a frontier below that of choice j, whatever the present one is."""
    least = 0.0
    for b in range(next_wide):
        least = min(least, least_gain(steps, t, i, j, b))
    return least >= 0.0


@inlined
def least_gain(steps: Steps, t: int, i: int, j: int, b: int) -> float:
    """Return by how much choice i is above choice j at least, in number b of the next frontier."""
    wide, corner = steps.width[t], t * steps.widest
    mine, other = place(steps, i, b, wide), place(steps, j, b, wide)
    least = steps.maps[mine] - steps.maps[other]
    for a in range(wide):
        slope = steps.maps[mine + 1 + a] - steps.maps[other + 1 + a]
        least += slope * (steps.low[corner + a] if slope > 0.0 else steps.high[corner + a])
    return least


@linked
def number_items(q: Search, g: int, steps: Steps) -> bool:
    """Number the items of decisions that exclude each other, as bits; return False if there are too many."""
    s, first = q.s, q.s.group_start[g]
    items, owners, number = np.empty(MOST_ITEMS, np.int64), np.empty(MOST_ITEMS, np.int64), 0
    for t in range(q.size):
        k = s.stage_decision[first + t]
        if s.needed[k] == 1:
            continue
        owner = k  # the first of the decisions that exclude each other
        for j in q.group:
            if s.conflict[j * s.decisions + k]:
                owner = min(owner, j)
        for i in range(steps.start[t], steps.start[t + 1]):
            wanted = item(s, k, steps.choice[i])
            at = 0
            while at < number and (items[at] != wanted or owners[at] != owner):
                at += 1
            if at == MOST_ITEMS:
                return False
            if at == number:
                items[at], owners[at] = wanted, owner
                number += 1
            steps.bit[i] = 1 << at
    later = 0
    for t in range(q.size - 1, -1, -1):
        steps.live[t] = later
        for i in range(steps.start[t], steps.start[t + 1]):
            later |= steps.bit[i]
    return True


@unmanaged
def adds_only(steps: Steps, size: int) -> bool:
    """Return whether no map has a negative constant: then no digits are lost, however small the value is."""
    least = 0.0
    for t in range(size):
        for i in range(steps.start[t], steps.start[t + 1]):
            for b in range(steps.width[t + 1]):
                least = min(least, steps.maps[place(steps, i, b, steps.width[t])])
    return least == 0.0


@unmanaged
def find_costs(steps: Steps, size: int) -> float:
    """Find the cost of a way in each stage; return the sum."""
    total = 0.0
    for t in range(size - 1, -1, -1):
        each = (steps.width[t] + 1.0) * steps.width[t + 1]
        merged_ = t + 1.0  # ways that lead to the same items, about
        number = steps.start[t + 1] - steps.start[t]
        steps.cost[t] = number * (2.0 + each + steps.cost_of_bound[t] / merged_)
        total += steps.cost[t]
        if t > 0:
            steps.cost_of_bound[t - 1] = steps.cost_of_bound[t] + 3.0 * each
    return total


@linked
def find_prices(q: Search, g: int, steps: Steps) -> None:
    """Find what stages lose because no two may use one item: an assignment problem, and its prices of items.

    A choice that is not the best of its stage loses at least the least slope of the root times the least difference.
    The sum of such losses is lowest in an assignment. By duality, without some items it is higher by their prices at
    least.
    """
    s, size, first = q.s, q.size, q.s.group_start[g]
    bits = 0
    for i in range(steps.start[size]):
        while steps.bit[i] >> bits:
            bits += 1
    if bits == 0:
        return
    slopes, below = np.zeros(steps.widest), np.zeros(steps.widest)  # of the root, by the next frontier: the least
    slopes[0] = 1.0
    scores, rows = np.full(size * bits, -np.inf), 0
    ints, floats, chosen = np.empty(2 * bits + 2, np.int64), np.empty(size + 2 * bits + 3), np.zeros(size, np.int64)
    for t in range(size - 1, -1, -1):
        if rows > 0 and match(scores, rows, bits, ints, floats, chosen):
            for r in range(rows):
                steps.penalty[t] -= scores[r * bits + chosen[r]]
            for j in range(bits):
                steps.price[t * RESIDUES + (1 << j) % RESIDUES] = -floats[j + 1]
        if s.needed[s.stage_decision[first + t]] > 1:
            for i in range(steps.start[t], steps.start[t + 1]):
                at = rows * bits
                while steps.bit[i] >> (at - rows * bits) != 1:
                    at += 1
                scores[at] = max(scores[at], -least_loss(steps, t, i, slopes))
            rows += 1
        for a in range(steps.width[t]):
            below[a] = np.inf
            for i in range(steps.start[t], steps.start[t + 1]):
                total = 0.0
                for b in range(steps.width[t + 1]):
                    total += slopes[b] * steps.maps[place(steps, i, b, steps.width[t]) + 1 + a]
                below[a] = min(below[a], total)
        for a in range(steps.width[t]):
            slopes[a] = below[a]


@unmanaged
def least_loss(steps: Steps, t: int, i: int, slopes: Floats) -> float:
    """Return what a choice loses at least against a stage whose numbers are each at their best choice."""
    total, first, last = 0.0, steps.start[t], steps.start[t + 1]
    for b in range(steps.width[t + 1]):
        most = 0.0
        for j in range(first, min(last, first + RIVALS)):
            most = max(most, least_gain(steps, t, j, i, b))
        total += slopes[b] * most
    return total
