"""Orders of items in stages, by sets of items: bounds of all sets, and a search that goes through few orders.

The first stages make of a set of items numbers between bounds that follow from those of its subsets. A search goes from
the last stage to the first. All that counts of the items in the later stages is a row of slopes: the reward is the
slopes times the numbers of the first stages, with the items that are left. So the bounds of these items bound the
reward, and of two rows with the same items left, one is dropped if it is below the other wherever the numbers are
within their bounds. Where frontiers are single numbers, the upper bounds are exact.
"""

from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged
from idbandits.solve.candidates import Decisions, margin
from idbandits.solve.lists.set_dp import Ways, keep_highest, move, new_ways
from idbandits.solve.lists.stage_choices import RESIDUES

HIGH, LOW = 1, 2  # classes of stages: they hold one of the highest items, or one of the lowest; or both
MOST_COMPARED = 8  # ways that a new one is compared with
NARROW = 4  # ways that are kept in a search without lower bounds, and when the budget is spent


class Chain(NamedTuple):
    """Stages whose maps are affine in the key of the item, and the items that may be worth a place."""

    size: int  # how many stages
    stride: int  # 1 more than the most numbers in a frontier
    pool: Ints  # the items, as choices, highest key first
    key: Floats  # of an item: its key, scaled to [0, 1]
    width: Ints  # of a stage: how many numbers it reads; last, 1
    row: Ints  # of a stage and a number of the next frontier: where its terms begin
    source: Ints  # of a term: the number that it is multiplied with, from 1, or 0 for none
    low: Floats  # of a term: its coefficient with the lowest item
    rise: Floats  # by how much it is higher with the highest


class Sets(NamedTuple):
    """Bounds of the numbers that the first stages make of a set of items, as bits."""

    chain: Chain
    classes: Ints  # of a stage
    stage: Ints  # of a set: how many items it has
    upper: Floats  # of a set: 1 (-inf if the classes do not allow it), then the bounds
    lower: Floats
    item: Ints  # of a bit, by its residue
    key: Floats  # of an item
    base: Floats  # scratch: numbers with a key of 0, and by how much they rise with the key
    rise: Floats


@inlined
def row_value(chain: Chain, t: int, b: int, key: float, numbers: Floats, first: int) -> float:
    """Return number b of what stage t makes of numbers, which begin at `first`, with an item of this key."""
    at, total = t * (chain.stride - 1) + b, 0.0
    for e in range(chain.row[at], chain.row[at + 1]):
        total += (chain.low[e] + key * chain.rise[e]) * numbers[first + chain.source[e]]
    return total


@unmanaged
def cost_of_sets(chain: Chain) -> float:
    """Return what it costs to fill in a bound of all sets, in edges."""
    return 2.0**chain.size * chain.size * (0.33 + 0.06 * chain.stride)


@linked
def new_sets(chain: Chain, classes: Ints, wanted: bool) -> Sets:
    """Allocate all sets, or none."""
    number = 1 << chain.size if wanted else 0
    stage, upper = np.zeros(number, np.int64), np.empty(number * chain.stride)
    for items in range(1, number):
        stage[items] = stage[items >> 1] + (items & 1)
    lower, item = np.empty(number * chain.stride), np.zeros(RESIDUES, np.int64)
    for i in range(chain.size if wanted else 0):
        item[(1 << i) % RESIDUES] = i
    key, base, rise = np.empty(chain.size), np.empty(chain.stride), np.empty(chain.stride)
    return Sets(chain, classes, stage, upper, lower, item, key, base, rise)


@inlined
def place(chain: Chain, i: int, highs: int) -> int:
    """Return the place in the pool of item i of a list with so many high items."""
    return i if i < highs else len(chain.pool) - chain.size + i


@inlined
def eligible(sets: Sets, t: int, items: int, highs: int) -> int:
    """Return those of a set of items that may be in stage t."""
    high = (1 << highs) - 1
    return items & ((high if sets.classes[t] & HIGH else 0) | (~high if sets.classes[t] & LOW else 0))


@unmanaged
def fill_sets(sets: Sets, highs: int, bounds: Floats, side: float) -> float:
    """Fill in upper (`side` 1) or lower (-1) bounds of all sets of the `highs` highest and the lowest items.

    Return that of the reward.
    """
    chain, stride, base, rise = sets.chain, sets.chain.stride, sets.base, sets.rise
    for i in range(chain.size):
        sets.key[i] = chain.key[place(chain, i, highs)]
    for items in range(len(sets.stage)):
        bounds[items * stride] = -np.inf
        for b in range(1, stride):
            bounds[items * stride + b] = -side * np.inf
    bounds[0] = 1.0
    for items in range(len(sets.stage) - 1):
        if bounds[items * stride] < 0.0:
            continue
        t = sets.stage[items]
        wide, row = chain.width[t + 1], t * (stride - 1)
        for b in range(wide):  # the results with an item: `base` and the key times `rise`
            low, more = 0.0, 0.0
            for e in range(chain.row[row + b], chain.row[row + b + 1]):
                number = bounds[items * stride + chain.source[e]]
                low, more = low + chain.low[e] * number, more + chain.rise[e] * number
            base[b], rise[b] = low, more
        rest = eligible(sets, t, len(sets.stage) - 1 ^ items, highs)
        while rest:
            bit = rest & -rest
            rest ^= bit
            key, at = sets.key[sets.item[bit % RESIDUES]], (items | bit) * stride
            bounds[at] = 1.0
            for b in range(wide):
                value = base[b] + key * rise[b]
                bounds[at + 1 + b] = max(bounds[at + 1 + b], value) if side > 0.0 else min(bounds[at + 1 + b], value)
    last = (len(sets.stage) - 1) * stride
    return bounds[last + 1] if bounds[last] > 0.0 else -np.inf


@linked
def search_orders(
    s: Decisions, sets: Sets, highs: int, width: int, budget: float, best: float, places: Ints
) -> tuple[float, float, float]:
    """Search the orders of the `highs` highest and the lowest items, with at most `width` ways in a stage.

    Return the highest value found (-inf if none exceeds `best`), a bound, and the cost in edges. The items of the list
    found are left in `places`.
    """
    chain, stride, size, full = sets.chain, sets.chain.stride, sets.chain.size, len(sets.stage) - 1
    level, room = best + margin(s, best), 4 * width
    ways = new_ways(stride, 1 + size * width + room, full + 1)
    ways.table[:] = -1
    ways.used[0], ways.frontier[0], ways.frontier[1] = full, 0.0, 1.0  # the items that are left, and the slopes
    start, end, missed, spent = 0, 1, -np.inf, 0.0
    for t in range(size - 1, -1, -1):
        begun = end
        for way in range(start, begun):
            rest, wide = eligible(sets, t, ways.used[way], highs), chain.width[t]
            find_slopes(sets, ways, way, t)
            while rest:
                bit = rest & -rest
                rest ^= bit
                i, left, bound = sets.item[bit % RESIDUES], ways.used[way] ^ bit, 0.0
                for j in range(wide + 1):
                    slope = sets.base[j] + sets.key[i] * sets.rise[j]
                    ways.frontier[end * stride + j] = slope
                    bound += slope * sets.upper[left * stride + j]
                if sets.upper[left * stride] < 0.0 or bound <= level:
                    continue
                if end - begun == room:
                    missed = max(missed, bound)
                elif width == NARROW or not is_covered(sets, ways, left, end, wide):
                    ways.used[end], ways.before[end], ways.step[end], ways.bound[end] = left, way, i, bound
                    ways.following[end] = ways.table[left]
                    ways.table[left] = end
                    end += 1
        kept, highest = begun, level
        for way in range(begun, end):
            if ways.bound[way] > level:
                move(ways, way, kept)
                if ways.bound[kept] > highest:  # the highest comes first: it is never dropped
                    highest = ways.bound[kept]
                    move(ways, begun, end)
                    move(ways, kept, begun)
                    move(ways, end, kept)
                kept += 1
        cost = 2.0 + chain.width[t]
        spent += cost * (begun - start) * (t + 1)
        affordable = max(float(NARROW), min(float(width), (budget - spent) / (cost * (t + 1))))
        start, end = begun, kept
        if end - start > affordable:
            end, dropped = keep_highest(ways, start, end, int(affordable), level, highest)
            missed = max(missed, dropped)
        if start == end:
            return -np.inf, missed, spent
    way = start
    for other in range(start, end):
        if ways.bound[other] > ways.bound[way]:
            way = other
    value = ways.bound[way]
    for t in range(size):
        places[t] = place(chain, ways.step[way], highs)
        way = ways.before[way]
    return value, max(value, missed), spent


@inlined
def find_slopes(sets: Sets, ways: Ways, way: int, t: int) -> None:
    """Find the slopes by the numbers that stage t reads: with a key of 0, and by how much they rise with the key."""
    chain, at = sets.chain, way * sets.chain.stride
    for j in range(chain.width[t] + 1):
        sets.base[j], sets.rise[j] = 0.0, 0.0
    sets.base[0] = ways.frontier[at]
    for b in range(chain.width[t + 1]):
        row = t * (chain.stride - 1) + b
        for e in range(chain.row[row], chain.row[row + 1]):
            sets.base[chain.source[e]] += ways.frontier[at + 1 + b] * chain.low[e]
            sets.rise[chain.source[e]] += ways.frontier[at + 1 + b] * chain.rise[e]


@inlined
def is_covered(sets: Sets, ways: Ways, left: int, new: int, wide: int) -> bool:
    """Return whether another way with these items left is never below a new one; drop those that are never above it."""
    stride, upper, lower = sets.chain.stride, sets.upper, sets.lower
    way, compared = ways.table[left], 0
    while way >= 0 and compared < MOST_COMPARED:
        most, least, compared = 0.0, 0.0, compared + 1  # of the new way less the other
        for j in range(wide + 1):
            more = ways.frontier[new * stride + j] - ways.frontier[way * stride + j]
            low, high = lower[left * stride + j], upper[left * stride + j]
            most += more * (high if more > 0.0 else low)
            least += more * (low if more > 0.0 else high)
        if most <= 0.0:
            return True
        if least >= 0.0:
            ways.bound[way] = -np.inf
        way = ways.following[way]
    return False
