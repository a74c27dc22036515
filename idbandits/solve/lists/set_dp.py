"""Dynamic programming over sets of items: one decision after the other, in stages, with bounds.

A choice maps the frontier of its stage to the next one by an affine map without negative slopes (`stages`). So of all
ways to use the same items, only those count whose frontier is nowhere below that of another, and with one number in
the frontier a single one is left: 5 of 10 items are 637 sets, not 30,240 lists. Three more things keep them few.
Choices that enough others cover, whatever the frontier, are left out (`steps`). What cannot exceed the best list known,
even if every later stage takes the best choice for each number of the frontier, is dropped. And where there are still
too many, those with the highest bounds are kept: then the highest of the others bounds what was missed.
"""

from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged
from idbandits.solve.candidates import ROUNDING, Search, improve, value_at
from idbandits.solve.lists.stage_choices import (
    RESIDUES,
    Steps,
    adds_only,
    find_costs,
    find_prices,
    find_steps,
    mapped,
    new_steps,
    number_items,
)

NARROW, WIDE = 4, 128  # ways that are kept in a first walk, which finds a good list, and in a second
LEAST, MOST = 16, 100_000  # ways: with fewer it is not worth the trouble, and more take too much memory
SHARE = 0.5  # of the budget
BINS = 64  # of bounds, to find those that are among the highest


class Ways(NamedTuple):
    """Ways to make the decisions of the first stages."""

    widest: int  # how many numbers a frontier has at most
    used: Ints  # the items
    before: Ints  # the way that it goes on from
    step: Ints  # the choice that was made last
    bound: Floats  # no list that goes on from here has a higher value
    frontier: Floats  # `widest` numbers each
    following: Ints  # another way with the same items, in this stage
    table: Ints  # where ways are found by their items


@linked
def new_ways(widest: int, number: int, places: int) -> Ways:
    """Allocate ways, and a table with so many places."""
    return Ways(
        widest, np.empty(number, np.int64), np.empty(number, np.int64), np.empty(number, np.int64), np.empty(number),
        np.empty(number * widest), np.empty(number, np.int64), np.empty(places, np.int64),
    )  # fmt: skip


@linked
def sweep(q: Search, g: int, action: Ints, budget: float) -> tuple[float, float]:
    """Leave the best action found in `action`; return its value and an upper bound, infinite if this found none.

    It spends a share of `budget`, which need not be that of the whole search.
    """
    s, size, first = q.s, q.size, q.s.group_start[g]
    values = np.ones(q.run.c.leaves + q.run.c.inner)
    best = value_at(q.run, q.p, action, values)
    if s.staged[g] == 0:
        return best, np.inf
    steps = new_steps(q, g)
    if not find_steps(q, g, action, steps) or not number_items(q, g, steps):
        return best, np.inf
    affordable = SHARE * budget / find_costs(steps, size)
    if affordable < LEAST:
        return best, np.inf
    find_prices(q, g, steps)
    scale = 0.0 if adds_only(steps, size) else s.zero[s.groups]  # of what rounding errors are relative to
    picks, bound, rounding = np.zeros(size, np.int64), np.inf, 0.0
    most = int(min(affordable * size, float(MOST)))  # some stages need fewer than others
    for width in (NARROW, WIDE if most > 4 * WIDE else most, most):
        rounding = ROUNDING * (abs(best) + scale)
        found, bound = walk(steps, size, width, SHARE * budget, best, best + rounding, picks)
        if found > best:
            for t in range(size):
                action[s.stage_decision[first + t]] = steps.choice[picks[t]]
            best = value_at(q.run, q.p, action, values)
        if width == most or bound <= best + rounding:
            break
        if width == NARROW:
            best = improve(q, action)
    return best, best if bound <= best + rounding else bound


@linked
def walk(
    steps: Steps, size: int, width: int, budget: float, best: float, level: float, picks: Ints
) -> tuple[float, float]:
    """Go through the stages with at most `width` ways; return the best value found and a bound.

    Its steps are left in `picks`. Only lists above `level` are looked for, which is `best` and what rounding may add
    to it. Once ways were missed there is no proof: then few are kept.
    """
    widest, missed, spent = steps.widest, -np.inf, 0.0
    room = 4 * width
    ways = new_ways(widest, 1 + size * width + room, 4 * room + 16)
    now, then = np.empty(widest), np.empty(widest)
    ways.used[0], start, end = 0, 0, 1
    for t in range(size):
        begun, wide, next_wide = end, steps.width[t], steps.width[t + 1]
        pairs = (begun - start) * (steps.start[t + 1] - steps.start[t])
        places = 16  # a power of two, at least twice the ways that there can be
        while places < 2 * min(room, pairs):
            places *= 2
        ways.table[:places] = -1
        for way in range(start, begun):
            for i in range(steps.start[t], steps.start[t + 1]):
                if ways.used[way] & steps.bit[i]:
                    continue
                for b in range(next_wide):
                    ways.frontier[end * widest + b] = mapped(steps, i, b, wide, ways.frontier, way * widest)
                ways.used[end] = (ways.used[way] | steps.bit[i]) & steps.live[t]
                place = look_up(ways, places, end, next_wide)
                if place < 0:
                    continue
                ways.before[place], ways.step[place] = way, i
                if place == end and end + 1 - begun < room:
                    end += 1
                elif place == end:  # no room: it stays out of the table
                    forget(ways, places, end)
                    missed = max(missed, limit(steps, ways, end, t, size, level, now, then))
        spent += pairs * (2.0 + (wide + 1) * next_wide) + (end - begun) * steps.cost_of_bound[t]
        kept, highest = begun, best
        for way in range(begun, end):
            bound = limit(steps, ways, way, t, size, level, now, then)
            if bound > level:
                ways.bound[way] = bound
                move(ways, way, kept)
                highest = max(highest, bound)
                kept += 1
        start, end = begun, kept
        affordable = 2.0 * (budget - spent) / (size - t) / max(steps.cost[t + 1], 1.0)
        if missed > level:
            affordable = min(affordable, WIDE / 4)
        affordable = min(float(width), max(float(NARROW), affordable))
        if end - start > affordable:
            end, dropped = keep_highest(ways, start, end, int(affordable), best, highest)
            missed = max(missed, dropped)
        if start == end:
            return best, max(best, missed)
    found = start
    for way in range(start, end):
        if ways.frontier[way * widest] > ways.frontier[found * widest]:
            found = way
    value, way = ways.frontier[found * widest], found
    for t in range(size - 1, -1, -1):
        picks[t] = ways.step[way]
        way = ways.before[way]
    return value, max(value, missed)


@inlined
def first_place(places: int, used: int) -> int:
    """Return the place of a table to look at first for ways that use these items."""
    mixed = (used ^ (used >> 29)) * 0x9E3779B97F4A7C1
    return (mixed ^ (mixed >> 32)) & (places - 1)


@inlined
def look_up(ways: Ways, places: int, new: int, wide: int) -> int:
    """Return the place of a new way: its own, that of one that it covers, or -1 if another covers it."""
    at, widest = first_place(places, ways.used[new]), ways.widest
    while ways.table[at] >= 0 and ways.used[ways.table[at]] != ways.used[new]:
        at = (at + 1) & (places - 1)
    way = ways.table[at]
    while way >= 0:
        above, below = True, True
        for b in range(wide):
            difference = ways.frontier[new * widest + b] - ways.frontier[way * widest + b]
            above &= difference >= 0.0
            below &= difference <= 0.0
        if below:
            return -1
        if above:
            for b in range(wide):
                ways.frontier[way * widest + b] = ways.frontier[new * widest + b]
            return way
        way = ways.following[way]
    ways.following[new] = ways.table[at]
    ways.table[at] = new
    return new


@unmanaged
def forget(ways: Ways, places: int, new: int) -> None:
    """Remove the way that was put into the table last."""
    at = first_place(places, ways.used[new])
    while ways.table[at] != new:
        at = (at + 1) & (places - 1)
    ways.table[at] = ways.following[new]


@unmanaged
def limit(steps: Steps, ways: Ways, way: int, t: int, size: int, level: float, now: Floats, then: Floats) -> float:
    """Return an upper bound of what a way can lead to; up to `level` it need not be tight.

    First every number of every later frontier is at its best choice, less what is lost because items may not be
    shared; then at its best choice among the items that are left.
    """
    used, bound, widest = ways.used[way], np.inf, steps.widest
    if t + 1 == size:
        return ways.frontier[way * widest]
    for turn in range(2):
        for b in range(steps.width[t + 1]):
            now[b] = ways.frontier[way * widest + b]
        for x in range(t + 1, size):
            for b in range(steps.width[x + 1]):
                then[b] = -np.inf
                for i in range(steps.start[x], steps.start[x + 1]):
                    if steps.ceiling[i * widest + b] <= then[b]:
                        break
                    if turn == 0 or not used & steps.bit[i]:
                        then[b] = max(then[b], mapped(steps, i, b, steps.width[x], now, 0))
            for b in range(steps.width[x + 1]):
                now[b] = then[b]
        bound = min(bound, now[0])
        if turn == 0:
            bound -= steps.penalty[t]
            rest = used
            while rest:
                lowest = rest & -rest
                bound -= steps.price[t * RESIDUES + lowest % RESIDUES]
                rest ^= lowest
            if bound <= level:
                break
    return bound


@inlined
def move(ways: Ways, source: int, target: int) -> None:
    """Put a way into another place."""
    ways.used[target], ways.before[target] = ways.used[source], ways.before[source]
    ways.step[target], ways.bound[target] = ways.step[source], ways.bound[source]
    for b in range(ways.widest):
        ways.frontier[target * ways.widest + b] = ways.frontier[source * ways.widest + b]


@linked
def keep_highest(ways: Ways, start: int, end: int, width: int, low: float, high: float) -> tuple[int, float]:
    """Keep `width` ways, those with the highest bounds up to bins; return where they end, and the bound of the others.

    All bounds are between `low` and `high`.
    """
    counts, scale, dropped = np.zeros(BINS, np.int64), (BINS - 1) / (high - low), -np.inf
    for way in range(start, end):
        counts[int((high - ways.bound[way]) * scale)] += 1
    last, number = 0, counts[0]
    while number < width:
        last += 1
        number += counts[last]
    left = width - (number - counts[last])  # how many of the last bin
    kept = start
    for way in range(start, end):
        bin_ = int((high - ways.bound[way]) * scale)
        if bin_ < last or (bin_ == last and left > 0):
            left -= bin_ == last
            move(ways, way, kept)
            kept += 1
        else:
            dropped = max(dropped, ways.bound[way])
    return kept, dropped
