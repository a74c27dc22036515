"""One decision after the other, in stages: dynamic programming over the items used, with bounds.

A choice maps the frontier of its stage to the next one by an affine map without negative slopes (`stages`). So of all
ways to use the same items, only those count whose frontier is nowhere below that of another, and with one number in
the frontier a single one is left: 5 of 10 items are 637 sets, not 30,240 lists. Three more things keep them few. Choices
that enough others cover, whatever the frontier, are left out. What cannot exceed the best list known, even if every
later stage takes its best free item for each number of the frontier, is dropped. And where there are still too many,
those with the highest bounds are kept: then the highest of the others bounds what was missed.
"""

from typing import NamedTuple

import numpy as np

from idbandits.circuit.passes import weight
from idbandits.kernel.compiling import bare, merged, part
from idbandits.kernel.types import Floats, Ints
from idbandits.solve.search import Search, exceeds, improve, item, value_at

MOST_ITEMS = 62  # of a constraint, as bits of an integer
NARROW = 8  # ways that are kept in the first sweep, which looks for a good list
BINS = 64  # of bounds, to find those that are among the highest


class Steps(NamedTuple):
    """The choices of all stages that are worth a look, as affine maps."""

    start: Ints  # of a stage: its choices
    width: Ints  # of a stage: the numbers in the frontier that it reads; last, 1
    choice: Ints
    bit: Ints  # of a choice: the item that it uses, 0 if no other decision may want it
    live: Ints  # of a stage: the items that matter to later ones
    maps: Floats  # of a choice: `stride` numbers; for each number of the next frontier, a constant and the slopes
    stride: int


class Ways(NamedTuple):
    """Ways to make the decisions of the first stages."""

    used: Ints  # the items
    before: Ints  # the way that it goes on from
    step: Ints  # the choice that was made last
    bound: Floats  # no list that goes on from here has a higher value
    frontier: Floats  # `widest` numbers each
    following: Ints  # another way with the same items, in this stage
    table: Ints  # where ways are found by their items


@part
def sweep(q: Search, g: int, action: Ints) -> tuple[float, float]:
    """Leave the best action found in `action`; returns its value and an upper bound, infinite where this is no way."""
    c, s, size = q.run.c, q.s, q.size
    values = np.ones(c.leaves + c.inner)
    best = value_at(q.run, q.p, action, values)
    if s.staged[g] == 0:
        return best, np.inf
    first, widest, total = s.group_start[g], 1, 0
    for t in range(size):
        k = s.stage_decision[first + t]
        widest = max(widest, s.frontier_start[first + t + 1] - s.frontier_start[first + t])
        total += q.start[k + 1] - q.start[k]
    stride = widest * (widest + 1)
    steps = Steps(
        np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64), np.empty(total, np.int64),
        np.zeros(total, np.int64), np.zeros(size, np.int64), np.empty(total * stride), stride,
    )  # fmt: skip
    if not find_steps(q, g, action, values, steps) or not number_items(q, g, steps):
        return best, np.inf
    cost = 0.0
    for t in range(size):
        cost += (steps.start[t + 1] - steps.start[t]) * (steps.width[t] + 1) * steps.width[t + 1]
    most = int(max(float(NARROW), min(q.budget / cost, 1e5)))
    picks, bound = np.zeros(size, np.int64), np.inf
    for width in (NARROW, most):
        found, bound = walk(q, steps, widest, width, best, picks)
        if found > best:
            for t in range(size):
                action[s.stage_decision[first + t]] = steps.choice[picks[t]]
            best = value_at(q.run, q.p, action, values)
        if not exceeds(s, bound, best):
            return best, best
        if width < most:
            best = improve(q, action)
    return best, max(best, bound)


@part
def find_steps(q: Search, g: int, action: Ints, values: Floats, steps: Steps) -> bool:
    """The maps of all choices that fewer others cover than may be taken; False if there is a negative slope."""
    c, s, first, stride = q.run.c, q.s, q.s.group_start[g], steps.stride
    widest = c.leaves + c.inner
    slopes, weights = np.zeros(widest), np.empty(c.start[c.inner])
    low, high, new_low, new_high = np.empty(stride), np.empty(stride), np.empty(stride), np.empty(stride)
    for i in range(s.constant_start[g], s.constant_start[g + 1]):
        n = s.constant[i]
        values[c.leaves + n] = 0.0
        for e in range(c.start[n], c.start[n + 1]):
            factor = 1.0 if c.slot[e] < 0 else weight(c, c.slot[e], q.p, action)
            values[c.leaves + n] += factor * values[c.child[e]]
    number = 0
    for t in range(q.size):
        x = first + t
        k, needed = s.stage_decision[x], s.needed[s.stage_decision[x]]
        read, next_wide = s.frontier_start[x], s.frontier_start[x + 1] - s.frontier_start[x]
        wide = 0  # the first stage reads nothing
        if t > 0:
            wide, read = read - s.frontier_start[x - 1], s.frontier_start[x - 1]
        steps.start[t], steps.width[t] = number, wide
        before = action[k]
        for i in range(q.start[k], q.start[k + 1]):
            action[k] = q.candidates[i]
            for a in range(s.stage_start[x], s.stage_start[x + 1]):
                n = s.stage_node[a]
                for e in range(c.start[n], c.start[n + 1]):
                    weights[e] = 1.0 if c.slot[e] < 0 else weight(c, c.slot[e], q.p, action)
            at = number * stride
            for j in range(wide + 1):  # the constants, then the slopes by each number of the frontier
                row = values if j == 0 else slopes
                for b in range(wide):
                    row[s.frontier[read + b]] = 1.0 if b == j - 1 else 0.0
                for a in range(s.stage_start[x], s.stage_start[x + 1]):
                    n = s.stage_node[a]
                    sum_ = 0.0
                    for e in range(c.start[n], c.start[n + 1]):
                        sum_ += weights[e] * row[c.child[e]]
                    row[c.leaves + n] = sum_
                for b in range(next_wide):
                    value = row[s.frontier[s.frontier_start[x] + b]]
                    if j > 0 and value < 0.0:
                        return False
                    steps.maps[at + b * (wide + 1) + j] = value
            steps.choice[number] = q.candidates[i]
            covering = 0
            for other in range(steps.start[t], number):
                covering += covers(steps, other, number, wide, next_wide, low, high)
                if covering == needed:
                    break
            if covering < needed:
                number += 1
        action[k] = before
        kept = steps.start[t]  # those that came first have not been compared with all
        for i in range(steps.start[t], number):
            covering = 0
            for other in range(i + 1, number):
                if covers(steps, other, i, wide, next_wide, low, high):
                    covering += not covers(steps, i, other, wide, next_wide, low, high)
            for other in range(steps.start[t], kept):
                covering += covers(steps, other, i, wide, next_wide, low, high)
            if covering < needed:
                steps.choice[kept] = steps.choice[i]
                for a in range(stride):
                    steps.maps[kept * stride + a] = steps.maps[i * stride + a]
                kept += 1
        number = kept
        for b in range(next_wide):
            new_low[b], new_high[b] = np.inf, -np.inf
            for i in range(steps.start[t], number):
                at = i * stride + b * (wide + 1)
                least, most = steps.maps[at], steps.maps[at]
                for j in range(wide):
                    least += steps.maps[at + 1 + j] * low[j]
                    most += steps.maps[at + 1 + j] * high[j]
                new_low[b], new_high[b] = min(new_low[b], least), max(new_high[b], most)
        for b in range(next_wide):
            low[b], high[b] = new_low[b], new_high[b]
    steps.start[q.size], steps.width[q.size] = number, 1
    return True


@bare
def covers(steps: Steps, i: int, j: int, wide: int, next_wide: int, low: Floats, high: Floats) -> bool:
    """Whether choice i leads to a frontier that is nowhere below that of choice j, from any frontier in the box."""
    for b in range(next_wide):
        mine, other = i * steps.stride + b * (wide + 1), j * steps.stride + b * (wide + 1)
        least = steps.maps[mine] - steps.maps[other]
        for a in range(wide):
            slope = steps.maps[mine + 1 + a] - steps.maps[other + 1 + a]
            least += slope * (low[a] if slope > 0.0 else high[a])
        if least < 0.0:
            return False
    return True


@part
def number_items(q: Search, g: int, steps: Steps) -> bool:
    """Give every item of decisions that exclude each other a bit; False if there are too many."""
    s, first = q.s, q.s.group_start[g]
    items, owners, number = np.empty(MOST_ITEMS, np.int64), np.empty(MOST_ITEMS, np.int64), 0
    for t in range(q.size):
        k = s.stage_decision[first + t]
        owner = k  # the first of the decisions that exclude each other
        for j in q.group:
            if s.conflict[j * s.decisions + k]:
                owner = min(owner, j)
        if s.needed[k] == 1:
            continue
        for i in range(steps.start[t], steps.start[t + 1]):
            wanted = item(s, k, steps.choice[i])
            place = 0
            while place < number and (items[place] != wanted or owners[place] != owner):
                place += 1
            if place == MOST_ITEMS:
                return False
            if place == number:
                items[place], owners[place] = wanted, owner
                number += 1
            steps.bit[i] = 1 << place
    later = 0
    for t in range(q.size - 1, -1, -1):
        steps.live[t] = later
        for i in range(steps.start[t], steps.start[t + 1]):
            later |= steps.bit[i]
    return True


@part
def walk(q: Search, steps: Steps, widest: int, width: int, best: float, picks: Ints) -> tuple[float, float]:
    """Go through the stages with at most `width` ways; the best value found, whose steps are in `picks`, and a bound.

    Only lists that exceed `best` are looked for.
    """
    size, missed = q.size, -np.inf
    room = 4 * width
    length = 64
    while length < 2 * room:
        length *= 2
    total = 1 + size * width + room
    ways = Ways(
        np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total),
        np.empty((total + 1) * widest), np.empty(total, np.int64), np.empty(length, np.int64),
    )  # fmt: skip
    ahead, other, counts = np.empty(widest), np.empty(widest), np.empty(BINS, np.int64)
    ways.used[0], start, end = 0, 0, 1
    for t in range(size):
        ways.table[:] = -1
        begun, wide, next_wide = end, steps.width[t], steps.width[t + 1]
        for way in range(start, begun):
            for i in range(steps.start[t], steps.start[t + 1]):
                if ways.used[way] & steps.bit[i]:
                    continue
                for b in range(next_wide):
                    at = i * steps.stride + b * (wide + 1)
                    sum_ = steps.maps[at]
                    for a in range(wide):
                        sum_ += steps.maps[at + 1 + a] * ways.frontier[way * widest + a]
                    ways.frontier[end * widest + b] = sum_
                ways.used[end] = (ways.used[way] | steps.bit[i]) & steps.live[t]
                place = look_up(ways, end, next_wide, widest)
                if place < 0:
                    continue
                ways.before[place], ways.step[place] = way, i
                if place == end:
                    if end - begun < room:
                        end += 1
                    else:  # no room: it stays out of the table
                        forget(ways, end)
                        missed = max(missed, completed(steps, ways, end, t, size, widest, ahead, other))
        kept, highest = begun, best
        for way in range(begun, end):
            bound = completed(steps, ways, way, t, size, widest, ahead, other)
            if exceeds(q.s, bound, best):
                move(ways, way, kept, widest)
                ways.bound[kept] = bound
                highest = max(highest, bound)
                kept += 1
        end = kept
        if end - begun > width:
            end, missed = keep_highest(ways, begun, end, width, best, highest, missed, widest, counts)
        start = begun
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


@merged
def slot_of(ways: Ways, used: int) -> int:
    """Where ways that use these items are found in the table."""
    mixed = (used ^ (used >> 29)) * 0x9E3779B97F4A7C1
    return (mixed ^ (mixed >> 32)) & (len(ways.table) - 1)


@bare
def look_up(ways: Ways, new: int, wide: int, widest: int) -> int:
    """Where a new way belongs: its own place, that of one that it covers, or -1 if another covers it."""
    at = slot_of(ways, ways.used[new])
    while ways.table[at] >= 0 and ways.used[ways.table[at]] != ways.used[new]:
        at = (at + 1) & (len(ways.table) - 1)
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


@bare
def forget(ways: Ways, new: int) -> None:
    """Take the way that was put into the table last out of it."""
    at = slot_of(ways, ways.used[new])
    while ways.table[at] != new:
        at = (at + 1) & (len(ways.table) - 1)
    ways.table[at] = ways.following[new]


@bare
def completed(steps: Steps, ways: Ways, way: int, t: int, size: int, widest: int, now: Floats, then: Floats) -> float:
    """An upper bound of what a way can lead to: every number of every later frontier at its best free choice."""
    used = ways.used[way]
    for b in range(widest):
        now[b] = ways.frontier[way * widest + b]
    for x in range(t + 1, size):
        wide, next_wide = steps.width[x], steps.width[x + 1]
        for b in range(next_wide):
            most = -np.inf
            for i in range(steps.start[x], steps.start[x + 1]):
                if used & steps.bit[i]:
                    continue
                at = i * steps.stride + b * (wide + 1)
                sum_ = steps.maps[at]
                for a in range(wide):
                    sum_ += steps.maps[at + 1 + a] * now[a]
                most = max(most, sum_)
            then[b] = most
        for b in range(next_wide):
            now[b] = then[b]
    return now[0]


@merged
def move(ways: Ways, source: int, target: int, widest: int) -> None:
    """Put a way into another place."""
    ways.used[target], ways.before[target] = ways.used[source], ways.before[source]
    ways.step[target], ways.bound[target] = ways.step[source], ways.bound[source]
    for b in range(widest):
        ways.frontier[target * widest + b] = ways.frontier[source * widest + b]


@bare
def keep_highest(
    ways: Ways, begun: int, end: int, width: int, low: float, high: float, missed: float, widest: int, counts: Ints
) -> tuple[int, float]:
    """Keep `width` of the ways from `begun` to `end`: those with the highest bounds, up to bins of equal width."""
    counts[:] = 0
    scale = (BINS - 1) / max(high - low, 1e-300)
    for way in range(begun, end):
        counts[int((high - ways.bound[way]) * scale)] += 1
    last, number = 0, counts[0]
    while number < width:
        last += 1
        number += counts[last]
    left = width - (number - counts[last])  # how many of the last bin
    kept = begun
    for way in range(begun, end):
        place = int((high - ways.bound[way]) * scale)
        if place < last or (place == last and left > 0):
            left -= place == last
            move(ways, way, kept, widest)
            kept += 1
        else:
            missed = max(missed, ways.bound[way])
    return kept, missed
