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
    ceiling: Floats  # of a choice: with it or a later one of the stage, no number of the next frontier is above these
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
        np.zeros(total, np.int64), np.zeros(size, np.int64), np.empty(total * widest), np.empty(total * stride), stride,
    )  # fmt: skip
    if not find_steps(q, g, action, steps, widest) or not number_items(q, g, steps):
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
def find_steps(q: Search, g: int, action: Ints, steps: Steps, widest: int) -> bool:
    """The maps of all choices that fewer others cover than may be taken; False if there is a negative slope."""
    c, s, first, stride = q.run.c, q.s, q.s.group_start[g], steps.stride
    nodes = c.leaves + c.inner
    rows = np.zeros((stride, nodes))  # of all nodes, the constants, then the slopes by each number of the frontier
    rows[0] = 1.0
    weights = np.empty(c.start[c.inner])
    low, high, new_low, new_high = np.empty(stride), np.empty(stride), np.empty(stride), np.empty(stride)
    read_edges(q, s.constant_start[g], s.constant_start[g + 1], s.constant, action, weights)
    add_up(q, s.constant_start[g], s.constant_start[g + 1], s.constant, weights, rows[0])
    number = 0
    for t in range(q.size):
        x = first + t
        k, needed = s.stage_decision[x], s.needed[s.stage_decision[x]]
        to, next_wide = s.frontier_start[x], s.frontier_start[x + 1] - s.frontier_start[x]
        wide = to - s.frontier_start[x - 1] if t > 0 else 0  # the first stage reads nothing
        steps.start[t], steps.width[t] = number, wide
        from_, split, until = s.stage_start[2 * x], s.stage_start[2 * x + 1], s.stage_start[2 * x + 2]
        read_edges(q, from_, until, s.stage_node, action, weights)
        for j in range(wide + 1):
            for b in range(wide):
                rows[j, s.frontier[to - wide + b]] = 1.0 if b == j - 1 else 0.0
            add_up(q, from_, split, s.stage_node, weights, rows[j])
        before = action[k]
        for i in range(q.start[k], q.start[k + 1]):
            action[k] = q.candidates[i]
            read_edges(q, split, until, s.stage_node, action, weights)
            at = number * stride
            for j in range(wide + 1):
                add_up(q, split, until, s.stage_node, weights, rows[j])
                for b in range(next_wide):
                    value = rows[j, s.frontier[to + b]]
                    if j > 0 and value < 0.0:
                        action[k] = before
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
        number = leave_out(steps, t, number, needed, next_wide, low, high)
        for b in range(next_wide):
            new_low[b], new_high[b] = np.inf, -np.inf
            for i in range(steps.start[t], number):
                new_low[b] = min(new_low[b], mapped(steps, i, b, wide, low, 0))
                new_high[b] = max(new_high[b], mapped(steps, i, b, wide, high, 0))
        rank(steps, t, number, next_wide, widest, high)
        for b in range(next_wide):
            low[b], high[b] = new_low[b], new_high[b]
    steps.start[q.size], steps.width[q.size] = number, 1
    return True


@bare
def read_edges(q: Search, first: int, last: int, nodes: Ints, action: Ints, weights: Floats) -> None:
    """Read the weights of the edges of some nodes."""
    c = q.run.c
    for a in range(first, last):
        for e in range(c.start[nodes[a]], c.start[nodes[a] + 1]):
            weights[e] = 1.0 if c.slot[e] < 0 else weight(c, c.slot[e], q.p, action)


@bare
def add_up(q: Search, first: int, last: int, nodes: Ints, weights: Floats, values: Floats) -> None:
    """The values of some nodes, in order."""
    c = q.run.c
    for a in range(first, last):
        total = 0.0
        for e in range(c.start[nodes[a]], c.start[nodes[a] + 1]):
            total += weights[e] * values[c.child[e]]
        values[c.leaves + nodes[a]] = total


@merged
def mapped(steps: Steps, i: int, b: int, wide: int, frontier: Floats, first: int) -> float:
    """Number b of the next frontier after choice i; that of the present frontier begins at `first`."""
    at = i * steps.stride + b * (wide + 1)
    total = steps.maps[at]
    for a in range(wide):
        total += steps.maps[at + 1 + a] * frontier[first + a]
    return total


@part
def leave_out(steps: Steps, t: int, number: int, needed: int, next_wide: int, low: Floats, high: Floats) -> int:
    """Leave out the choices of a stage that enough others cover; where those end that are left."""
    kept, wide, stride = steps.start[t], steps.width[t], steps.stride
    for i in range(steps.start[t], number):
        covering = 0
        for other in range(steps.start[t], kept):
            covering += covers(steps, other, i, wide, next_wide, low, high)
        for other in range(i + 1, number):  # of equal ones, the first covers the others
            if covers(steps, other, i, wide, next_wide, low, high):
                covering += not covers(steps, i, other, wide, next_wide, low, high)
        if covering < needed:
            steps.choice[kept] = steps.choice[i]
            for a in range(stride):
                steps.maps[kept * stride + a] = steps.maps[i * stride + a]
            kept += 1
    return kept


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
def rank(steps: Steps, t: int, number: int, next_wide: int, widest: int, high: Floats) -> None:
    """Put the choices of a stage that promise most first, and find the ceilings."""
    first, wide, stride, ceiling = steps.start[t], steps.width[t], steps.stride, steps.ceiling
    promise, held = np.empty(number - first), np.empty(stride)
    for i in range(first, number):
        total = 0.0
        for b in range(next_wide):
            total += mapped(steps, i, b, wide, high, 0)
        choice, j = steps.choice[i], i
        for a in range(stride):
            held[a] = steps.maps[i * stride + a]
        while j > first and promise[j - 1 - first] < total:
            promise[j - first], steps.choice[j] = promise[j - 1 - first], steps.choice[j - 1]
            for a in range(stride):
                steps.maps[j * stride + a] = steps.maps[(j - 1) * stride + a]
            j -= 1
        promise[j - first], steps.choice[j] = total, choice
        for a in range(stride):
            steps.maps[j * stride + a] = held[a]
    for i in range(number - 1, first - 1, -1):
        for b in range(next_wide):
            ceiling[i * widest + b] = mapped(steps, i, b, wide, high, 0)
            if i < number - 1:
                ceiling[i * widest + b] = max(ceiling[i * widest + b], ceiling[(i + 1) * widest + b])


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
    spent, tail = 0.0, np.zeros(size)  # what it costs to bound a way
    for t in range(size - 2, -1, -1):
        tail[t] = tail[t + 1] + 3.0 * (steps.width[t + 1] + 1) * steps.width[t + 2]
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
                    ways.frontier[end * widest + b] = mapped(steps, i, b, wide, ways.frontier, way * widest)
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
        spent += (begun - start) * (steps.start[t + 1] - steps.start[t]) * (2.0 + (wide + 1) * next_wide)
        spent += (end - begun) * tail[t]
        end = kept
        if t + 1 < size and end - begun > NARROW:
            each = (steps.start[t + 2] - steps.start[t + 1]) * (2.0 + (next_wide + 1) * steps.width[t + 2] + 0.5 * tail[t + 1])
            affordable = min(float(width), max(float(NARROW), (q.budget - spent) / (size - t - 1) / each))
            if end - begun > affordable:
                end, missed = keep_highest(ways, begun, end, int(affordable), best, highest, missed, widest, counts)
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
                if steps.ceiling[i * widest + b] <= most:
                    break
                if not used & steps.bit[i]:
                    most = max(most, mapped(steps, i, b, wide, now, 0))
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
