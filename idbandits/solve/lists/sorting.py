"""Sort items into positions that exclude each other and read one column, with proof (`SORTED` groups).

The decisions of the group are stages, each of which maps numbers by a map that is affine in the numbers and in the key
of its item, without negative slopes. As the reward is linear in the key of each position, the best list holds some of
the highest items and some of the lowest. Bounds on the numbers settle for most positions which of both they hold, and
whether swapping two of them can gain anything. What they leave open is searched by sets of items (`item_sets`).
"""

from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged
from idbandits.solve.candidates import Search, copy_action, exceeds, improve, key_of, may_repeat, slopes_at, value_at
from idbandits.solve.lists.item_sets import (
    HIGH,
    LOW,
    NARROW,
    Chain,
    cost_of_sets,
    fill_sets,
    new_sets,
    row_value,
    search_orders,
)
from idbandits.solve.lists.stage_maps import coefficient, enter_stage, new_rows, read_key

OPEN = HIGH | LOW
PATIENCE = 1.3  # times the budget, to fill in all sets of items
MOST = 100_000  # ways that are kept in a stage
NEAR = 0.01  # of the value: a bound within it leaves little to improve before the second search
COST_OF_WAY = 40.0  # of going on from a way, in edges, about


class Ranges(NamedTuple):
    """Ranges of numbers over all lists."""

    lower: Floats  # of a stage: the numbers that it reads, after the constant 1
    upper: Floats
    least_rise: Floats  # of a stage: by how much its results rise with the key, after an unused number
    most_rise: Floats
    apart: Floats  # of two numbers that a stage reads: by how much the one is above the other at least; two, in turn
    source: Ints  # terms of a sum of numbers
    value: Floats


@linked
def sort(q: Search, g: int, action: Ints) -> tuple[float, float]:
    """Leave the best list found in `action`; return its value and a bound, infinite if a slope is negative."""
    s, size = q.s, q.size
    best = value_at(q.run, q.p, action, np.ones(q.run.c.leaves + q.run.c.inner))
    chain = new_chain(q, g, action)
    if not read_chain(q, g, action, chain):
        return best, np.inf
    room = (size + 1) * chain.stride
    ranges = Ranges(
        np.ones(room), np.ones(room), np.zeros(room), np.zeros(room), np.zeros((2, chain.stride, chain.stride)),
        np.empty(2 * chain.stride, np.int64), np.empty(2 * chain.stride),
    )  # fmt: skip
    classes, trial = np.full(size, OPEN), action.copy()
    settle(chain, classes, size, size, ranges)
    value, bound = arrange(q, g, chain, classes, ranges, trial)
    if value > best:
        best = value
        copy_action(trial, action)
    if not exceeds(s, bound, best):
        return best, best
    if len(chain.pool) == size and (classes == OPEN).any():  # all items are used, whatever their classes
        classes[:] = HIGH
    most, settled = bound_by_counts(chain, classes), classes.copy()  # of a number of stages that hold low items
    affordable, spent, filled = cost_of_sets(chain) <= PATIENCE * q.budget, 0.0, -1
    sets, places = new_sets(chain, classes, affordable), np.empty(size, np.int64)
    for width in (NARROW, max(NARROW, int(min(float(MOST), q.budget / COST_OF_WAY)))):  # few find a good list
        first = size - first_unused(q, chain, action)
        for turn in range(size + 1):  # first as many low items as in the best list
            lows = (first + turn) % (size + 1)
            most[lows] = min(bound, most[lows])
            if not affordable or spent > q.budget or not exceeds(s, most[lows], best):
                continue
            if lows != filled:
                classes[:], filled = settled, -1
                if lows in (0, size):
                    classes[:] = HIGH if lows == 0 else LOW
                elif (classes == OPEN).any():
                    most[lows] = min(most[lows], settle(chain, classes, size - lows, lows, ranges))
                if exceeds(s, most[lows], best):
                    most[lows] = min(most[lows], fill_sets(sets, size - lows, sets.upper, 1.0))
                    spent += cost_of_sets(chain)
                    filled = lows
            if exceeds(s, most[lows], best):
                if width > NARROW:
                    fill_sets(sets, size - lows, sets.lower, -1.0)
                value, most[lows], cost = search_orders(s, sets, size - lows, width, q.budget - spent, best, places)
                spent += cost
                if value > best:
                    for t in range(size):
                        action[s.stage_decision[s.group_start[g] + t]] = chain.pool[places[t]]
                    best = value_at(q.run, q.p, action, np.ones(q.run.c.leaves + q.run.c.inner))
        if width == NARROW and most.max() > best + NEAR * abs(best):
            best = improve(q, action)
    return best, max(best, most.max())


@unmanaged
def first_unused(q: Search, chain: Chain, action: Ints) -> int:
    """Return how many of the highest items are all in an action."""
    for i in range(len(chain.pool)):
        used = False
        for k in q.group:
            used |= action[k] == chain.pool[i]
        if not used:
            return i
    return q.size


@linked
def new_chain(q: Search, g: int, action: Ints) -> Chain:
    """Allocate a chain, with its items and their keys."""
    s, size, first, widest, terms = q.s, q.size, q.s.group_start[g], 1, 0
    width = np.zeros(size + 1, np.int64)  # the first stage reads nothing
    for t in range(size):
        width[t + 1] = s.frontier_start[first + t + 1] - s.frontier_start[first + t]
        widest = max(widest, width[t + 1])
        terms += width[t + 1] * (width[t] + 1)
    pool = ranked(q, action, q.group[0])
    key = np.empty(len(pool))
    for i in range(len(pool)):
        key[i] = key_of(q, action, q.group[0], pool[i])
    row, source = np.zeros(size * widest + 1, np.int64), np.empty(terms, np.int64)
    return Chain(size, widest + 1, pool, key, width, row, source, np.empty(terms), np.empty(terms))


@linked
def ranked(q: Search, action: Ints, k: int) -> Ints:
    """Return the candidates of a decision, highest key first; those that may repeat occur once for every decision."""
    number = 0
    for i in range(q.start[k], q.start[k + 1]):
        number += q.size if may_repeat(q.s, k, q.candidates[i]) else 1
    pool, keys, filled = np.empty(number, np.int64), np.empty(number), 0
    for i in range(q.start[k], q.start[k + 1]):
        candidate = q.candidates[i]
        key = key_of(q, action, k, candidate)
        for _ in range(q.size if may_repeat(q.s, k, candidate) else 1):
            j = filled
            while j > 0 and keys[j - 1] < key:
                pool[j], keys[j] = pool[j - 1], keys[j - 1]
                j -= 1
            pool[j], keys[j] = candidate, key
            filled += 1
    return pool


@linked
def read_chain(q: Search, g: int, action: Ints, chain: Chain) -> bool:
    """Read the maps of all stages with keys of 0 and 1; return False if a slope may be negative."""
    first, stride, number, sound = q.s.group_start[g], chain.stride, 0, True
    least, most = min(0.0, chain.key[len(chain.key) - 1]), max(1.0, chain.key[0])
    scratch, at_zero = new_rows(q, g, stride - 1, action), np.empty((stride, stride))
    for t in range(q.size):
        x, reads = first + t, chain.width[t]
        enter_stage(q, x, reads, action, scratch)
        read_key(q, x, reads, 0.0, action, scratch)
        for b in range(chain.width[t + 1]):
            for j in range(reads + 1):
                at_zero[b, j] = coefficient(q, x, b, j, scratch)
        read_key(q, x, reads, 1.0, action, scratch)
        for b in range(stride - 1):
            for j in range(reads + 1 if b < chain.width[t + 1] else 0):
                low, high = at_zero[b, j], coefficient(q, x, b, j, scratch)
                sound &= j == 0 or min(low + least * (high - low), low + most * (high - low)) >= 0.0
                if low != 0.0 or high != 0.0:
                    chain.source[number], chain.low[number], chain.rise[number] = j, low, high - low
                    number += 1
            chain.row[t * (stride - 1) + b + 1] = number
    return sound


@inlined
def key_range(chain: Chain, classes: Ints, t: int, highs: int, lows: int) -> tuple[float, float]:
    """Return the range of keys of a stage, if at most `highs` stages hold high items and `lows` low ones."""
    number = len(chain.pool)
    low = chain.key[highs - 1] if classes[t] == HIGH else chain.key[number - 1]
    return low, chain.key[number - lows] if classes[t] == LOW else chain.key[0]


@unmanaged
def count(classes: Ints, kind: int) -> int:
    """Return how many stages may be of a class."""
    number = 0
    for t in range(len(classes)):
        number += classes[t] & kind != 0
    return number


@inlined
def add_row(chain: Chain, t: int, b: int, share: float, key: float, number: int, ranges: Ranges) -> int:
    """Add `share` of a row with the lowest key and `key` of its rise to a sum of terms; return their number."""
    at = t * (chain.stride - 1) + b
    for e in range(chain.row[at], chain.row[at + 1]):
        i = 0
        while i < number and ranges.source[i] != chain.source[e]:
            i += 1
        if i == number:
            ranges.source[i], ranges.value[i] = chain.source[e], 0.0
            number += 1
        ranges.value[i] += share * chain.low[e] + key * chain.rise[e]
    return number


@inlined
def least_sum(ranges: Ranges, number: int, apart: Floats, here: int) -> float:
    """Return a lower bound of a sum of terms: what is added and what is subtracted are compared in pairs."""
    source, value, total = ranges.source, ranges.value, 0.0
    for i in range(number):
        if source[i] == 0:
            total += value[i]
        elif value[i] > 0.0:
            for j in range(number):
                if value[j] < 0.0 and source[j] > 0:
                    share = min(value[i], -value[j])
                    total += share * apart[source[i], source[j]]
                    value[i], value[j] = value[i] - share, value[j] + share
            total += value[i] * ranges.lower[here + source[i]]
    for j in range(number):
        if value[j] < 0.0 and source[j] > 0:
            total += value[j] * ranges.upper[here + source[j]]
    return total


@unmanaged
def settle(chain: Chain, classes: Ints, highs: int, lows: int, ranges: Ranges) -> float:
    """Find the ranges of all numbers, and the classes of stages whose results only rise, or only fall, with the key.

    At most `highs` stages hold high items, and `lows` low ones. Return a bound of the reward.
    """
    stride, settling = chain.stride, True
    while settling:  # a class that is settled narrows the ranges, which may settle others
        settling = False
        highs, lows = min(highs, count(classes, HIGH)), min(lows, count(classes, LOW))
        if highs + lows < chain.size:
            return -np.inf
        for t in range(chain.size):
            here, after = t * stride, (t + 1) * stride
            low, high = key_range(chain, classes, t, highs, lows)
            rises, falls, reads = True, True, ranges.apart[t % 2]
            for b in range(chain.width[t + 1]):
                least = least_sum(ranges, add_row(chain, t, b, 0.0, 1.0, 0, ranges), reads, here)
                most = -least_sum(ranges, add_row(chain, t, b, 0.0, -1.0, 0, ranges), reads, here)
                ranges.least_rise[here + 1 + b], ranges.most_rise[here + 1 + b] = least, most
                rises, falls = rises and least >= 0.0, falls and most <= 0.0
                ranges.lower[after + 1 + b] = min(
                    row_value(chain, t, b, low, ranges.lower, here), row_value(chain, t, b, high, ranges.lower, here)
                )
                ranges.upper[after + 1 + b] = max(
                    row_value(chain, t, b, low, ranges.upper, here), row_value(chain, t, b, high, ranges.upper, here)
                )
            for a in range(chain.width[t + 1]):
                for b in range(chain.width[t + 1]):
                    least = np.inf if a != b else 0.0
                    for end in range(2 if a != b else 0):
                        key = high if end else low
                        number = add_row(chain, t, a, 1.0, key, 0, ranges)
                        number = add_row(chain, t, b, -1.0, -key, number, ranges)
                        least = min(least, least_sum(ranges, number, reads, here))
                    least = max(least, ranges.lower[after + 1 + a] - ranges.upper[after + 1 + b])
                    ranges.apart[1 - t % 2, 1 + a, 1 + b] = least
            if classes[t] == OPEN and (rises or falls):
                classes[t] = HIGH if rises else LOW
                settling = True
    return ranges.upper[chain.size * stride + 1]


@linked
def arrange(q: Search, g: int, chain: Chain, classes: Ints, ranges: Ranges, trial: Ints) -> tuple[float, float]:
    """Put high items on stages of this class and low ones on the others into `trial`; return its value and a bound.

    The steepest position gets the highest item. Swaps of two positions that follow each other in this order lead to it
    from any other order: if none can lose, it is the best, and what they lose at most bounds the rest.
    """
    c, s, size, number = q.run.c, q.s, q.size, len(chain.pool)
    values, slopes, weights = np.ones(c.leaves + c.inner), np.empty(c.leaves + c.inner), np.empty(c.slots)
    high, stage_of = np.zeros(size, np.int64), np.empty(s.decisions, np.int64)
    for t in range(size):  # open classes are guessed by what the bounds lean to
        rise = 0.0
        for b in range(1, chain.width[t + 1] + 1):
            rise += ranges.least_rise[t * chain.stride + b] + ranges.most_rise[t * chain.stride + b]
        high[t] = classes[t] == HIGH or (classes[t] == OPEN and rise >= 0.0)
    highs = high.sum()
    for t in range(size):  # the middle of the ranges, where positions differ only by their steepness
        k = s.stage_decision[s.group_start[g] + t]
        stage_of[k] = t
        trial[k] = chain.pool[highs // 2 if high[t] else number - 1 - (size - highs) // 2]
    slopes_at(q, trial, values, slopes, weights)
    order, steep, most = np.empty(size, np.int64), np.empty(size), 0.0  # stages, by the item that they get
    for i, k in enumerate(q.group):
        steepness, own = 0.0, stage_of[k]
        for t in range(s.use_start[k], s.use_start[k + 1]):
            e = s.use[t]
            change = slopes[c.leaves + s.edge_node[e]] * values[c.child[e]]
            steepness += change if c.slot[e] == s.key[k] else -change
        most = max(most, abs(steepness))
        j = i  # equal ones stay in the order of declaration
        while j > 0:
            ahead = high[own] - high[order[j - 1]]
            if ahead < 0 or (ahead == 0 and steepness <= steep[j - 1] + 1e-12 * most):
                break
            order[j], steep[j] = order[j - 1], steep[j - 1]
            j -= 1
        order[j], steep[j] = own, steepness
    for i in range(size):
        trial[s.stage_decision[s.group_start[g] + order[i]]] = chain.pool[i if i < highs else number - size + i]
    value, bound = value_at(q.run, q.p, trial, values), ranges.upper[size * chain.stride + 1]
    if (classes == OPEN).any():
        return value, bound
    scratch, losses, apart = np.empty(6 * chain.stride), np.zeros(2), np.zeros(2)  # of classes: low, then high
    for i in range(size):
        own = high[order[i]]
        if i + 1 < size and own == high[order[i + 1]]:
            losses[own] = max(losses[own], -gain_of_swap(chain, classes, ranges, order[i], order[i + 1], scratch))
        for j in range(i):
            if high[order[j]] == own:
                apart[own] += chain.key[j if j < highs else number - size + j]
                apart[own] -= chain.key[i if i < highs else number - size + i]
    return value, min(bound, value + losses[0] * apart[0] + losses[1] * apart[1])


@unmanaged
def gain_of_swap(chain: Chain, classes: Ints, ranges: Ranges, j: int, k: int, scratch: Floats) -> float:
    """Return how much is gained at least, per unit of difference, if the higher of two items is at j and not at k.

    It is bounded in two ways: by how steep stages are within the ranges, and by the numbers with keys of 0 and 1.
    """
    stride, highs, lows = chain.stride, count(classes, HIGH), count(classes, LOW)
    first, second = min(j, k), max(j, k)
    gain, here, there = scratch[: 2 * stride], scratch[2 * stride : 4 * stride], scratch[4 * stride :]
    for i in range(stride):
        gain[i], here[i], there[i] = 0.0, ranges.lower[first * stride + i], ranges.upper[first * stride + i]
    gain[stride], here[stride], there[stride] = 0.0, 1.0, 1.0
    now, then = 0, stride  # the numbers that a stage reads, and its results
    for t in range(first, chain.size):
        low, high = key_range(chain, classes, t, highs, lows)
        for b in range(chain.width[t + 1]):
            at_low, at_high = row_value(chain, t, b, low, gain, now), row_value(chain, t, b, high, gain, now)
            more = max(at_low, at_high) if t == second else min(at_low, at_high)
            if t in (j, k):
                key = 1.0 if t == j else 0.0
                more += ranges.least_rise[t * stride + 1 + b] if t == j else -ranges.most_rise[t * stride + 1 + b]
                lower = row_value(chain, t, b, key, here, now)
                upper = row_value(chain, t, b, 1.0 - key, there, now)
            else:
                lower = min(row_value(chain, t, b, low, here, now), row_value(chain, t, b, high, here, now))
                upper = max(row_value(chain, t, b, low, there, now), row_value(chain, t, b, high, there, now))
            here[then + 1 + b], there[then + 1 + b] = lower, upper
            gain[then + 1 + b] = max(more, lower - upper) if t >= second else more
        now, then = then, now
    return gain[now + 1]


@linked
def bound_by_counts(chain: Chain, classes: Ints) -> Floats:
    """Bound the reward by the number of stages that hold low items, letting stages share items."""
    size, stride, number = chain.size, chain.stride, len(chain.pool)
    highs, lows = count(classes, HIGH), count(classes, LOW)
    most = np.full((size + 1, size + 1, stride), -np.inf)  # of a stage, the low items so far, and a number
    most[0, 0, 0] = 1.0
    for t in range(size):
        for used in range(t + 2):
            for kind in (HIGH, LOW):
                before = used - (kind == LOW)
                if classes[t] & kind == 0 or before < 0 or most[t, before, 0] == -np.inf:
                    continue
                low, high = chain.key[number - 1], chain.key[number - lows]
                if kind == HIGH:
                    low, high = chain.key[highs - 1], chain.key[0]
                most[t + 1, used, 0] = 1.0
                for b in range(chain.width[t + 1]):
                    for key in (low, high):
                        value = row_value(chain, t, b, key, most[t, before], 0)
                        most[t + 1, used, 1 + b] = max(most[t + 1, used, 1 + b], value)
    return most[size, :, 1].copy()
