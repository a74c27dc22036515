"""Where positions that read one column are stages with a single number between them: exact, by sets of items.

With the key x of its item, a stage maps the number V to p + q V, where p and q are linear in x and q is never negative.
So the reward rises with x wherever p' + q' V is positive, whatever later stages do: each stage holds one of the highest
items or one of the lowest, and if so many hold high ones, all items are known. Of all ways to use the same ones in the
first stages, only the highest V counts: ten positions have 1,024 such sets. Bounds of V say of most stages which of
both they hold, and which V is too low to lead to a better list than the best one known.
"""

from typing import NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged
from idbandits.solve.candidates import ROUNDING, Search, exceeds, key_of, value_at
from idbandits.solve.sorting import ranked
from idbandits.solve.stage_choices import add_up, read_edges

LONGEST = 14  # positions: there are 2 ** 14 sets of their items
HIGH, LOW = 1, 2  # what a stage may hold: one of the highest items, one of the lowest; or both


class Relay(NamedTuple):
    """The stages of a group, and the items that may be worth a place, highest first."""

    pool: Ints  # the items, as choices
    key: Floats  # of an item: its key, scaled to [0, 1]
    constant: Floats  # of a stage: with the lowest item
    constant_rise: Floats  # how much more it is with the highest
    slope: Floats
    slope_rise: Floats


class Sets(NamedTuple):
    """Sets of items, as bits, that the first stages hold."""

    highest: Floats  # of a set: the highest number that it leads to
    last: Ints  # the item that was added last on the way there
    stage: Ints  # how many items there are


@unmanaged
def is_relay(q: Search, g: int) -> bool:
    """Whether the stages of a group hand on one number each, and are few enough."""
    s, first = q.s, q.s.group_start[g]
    fits = s.staged[g] != 0 and q.size <= LONGEST
    for t in range(first, first + q.size if fits else first):
        fits &= s.frontier_start[t + 1] - s.frontier_start[t] == 1
    return fits


@inlined
def mapped(relay: Relay, t: int, key: float, value: float) -> float:
    """What stage t makes of a number, with an item of this key."""
    constant = relay.constant[t] + key * relay.constant_rise[t]
    return constant + (relay.slope[t] + key * relay.slope_rise[t]) * value


@linked
def sort_relay(q: Search, g: int, action: Ints) -> tuple[float, float]:
    """Leave the best list found in `action`; its value and a bound, infinite if this is no relay after all."""
    s, size, first = q.s, q.size, q.s.group_start[g]
    values = np.ones(q.run.c.leaves + q.run.c.inner)
    best = value_at(q.run, q.p, action, values)
    pool = ranked(q, action, q.group[0])
    relay = Relay(pool, np.zeros(len(pool)), np.empty(size), np.empty(size), np.empty(size), np.empty(size))
    if not read_relay(q, g, action, relay):
        return best, np.inf
    sets = Sets(np.empty(1 << size), np.empty(1 << size, np.int64), np.empty(1 << size, np.int64))
    classes, items, floors = np.zeros(size, np.int64), np.empty(size, np.int64), np.empty(size + 1)
    guess, missed, spent = likely_highs(relay), -np.inf, 0.0
    for turn in range(-2, size + 1):  # a simple list first, then the most likely number, so that they rule out others
        highs = guess if turn < 0 else turn
        if turn == -2:
            value = first_come(relay, items)
        else:
            bound = settle(relay, highs, classes) if turn != guess else -np.inf
            if not exceeds(s, bound, best):
                continue
            if spent > q.budget:
                missed = max(missed, bound)
                continue
            find_floors(relay, highs, classes, best, floors)
            value = best_order(relay, highs, classes, floors, items, sets)
            spent += size * len(sets.highest)
        if value > best:
            best = value
            for t in range(size):
                action[s.stage_decision[first + t]] = pool[items[t]]
    value = value_at(q.run, q.p, action, values)
    return value, max(value, missed)


@linked
def read_relay(q: Search, g: int, action: Ints, relay: Relay) -> bool:
    """Read the maps of all stages, and scale the keys; False if there is a negative slope."""
    c, s, first = q.run.c, q.s, q.s.group_start[g]
    number = len(relay.pool)
    top, bottom = key_of(q, action, q.group[0], relay.pool[0]), key_of(q, action, q.group[0], relay.pool[number - 1])
    for i in range(number):
        if top > bottom:
            relay.key[i] = (key_of(q, action, q.group[0], relay.pool[i]) - bottom) / (top - bottom)
    weights = np.empty(c.start[c.inner])
    rows = np.zeros((2, c.leaves + c.inner))  # of nodes: the constant, and the slope by the number that is read
    rows[0] = 1.0
    read_edges(q, s.constant_start[g], s.constant_start[g + 1], s.constant, action, weights)
    add_up(q, s.constant_start[g], s.constant_start[g + 1], s.constant, weights, rows[0])
    maps, sound = np.zeros((2, 2)), True  # of the lowest and the highest item: the constant and the slope
    for t in range(q.size):
        reads = 1 if t > 0 else 0
        enter_stage(q, first + t, reads, action, weights, rows)
        for i in range(2):
            choice = relay.pool[0] if i else relay.pool[number - 1]
            read_choice(q, first + t, reads, choice, action, weights, rows, maps, i)
            sound &= maps[i, 1] >= 0.0
        relay.constant[t], relay.constant_rise[t] = maps[0, 0], maps[1, 0] - maps[0, 0]
        relay.slope[t], relay.slope_rise[t] = maps[0, 1], maps[1, 1] - maps[0, 1]
    return sound


@inlined
def enter_stage(q: Search, x: int, reads: int, action: Ints, weights: Floats, rows: Floats) -> None:
    """Evaluate what does not depend on the decision of stage x, which reads one number or none.

    `weights` (of edges) and `rows` (of nodes: the constant, and the slope by the number that is read) are scratch;
    nodes that depend on no decision are filled in.
    """
    s = q.s
    begin, split = s.stage_start[2 * x], s.stage_start[2 * x + 1]
    read_edges(q, begin, split, s.stage_node, action, weights)
    for j in range(reads + 1):
        if reads:
            rows[j, s.frontier[s.frontier_start[x - 1]]] = float(j)
        add_up(q, begin, split, s.stage_node, weights, rows[j])


@inlined
def read_choice(
    q: Search, x: int, reads: int, choice: int, action: Ints, weights: Floats, rows: Floats, maps: Floats, i: int
) -> None:
    """Write the constant and the slope of stage x with a choice to line i of `maps`, after `enter_stage`."""
    s = q.s
    k, split, end = s.stage_decision[x], s.stage_start[2 * x + 1], s.stage_start[2 * x + 2]
    before = action[k]
    action[k] = choice
    read_edges(q, split, end, s.stage_node, action, weights)
    for j in range(reads + 1):
        add_up(q, split, end, s.stage_node, weights, rows[j])
        maps[i, j] = rows[j, s.frontier[s.frontier_start[x]]]
    action[k] = before


@unmanaged
def likely_highs(relay: Relay) -> int:
    """How many stages hold high items, if each takes the best one."""
    highs, value = 0, 0.0
    for t in range(len(relay.constant)):
        low, high = mapped(relay, t, 0.0, value), mapped(relay, t, 1.0, value)
        highs += high >= low
        value = max(low, high)
    return highs


@unmanaged
def first_come(relay: Relay, items: Ints) -> float:
    """A list in which each stage takes the best item that is left; `items` gets their places in the pool."""
    high, low, value = 0, len(relay.pool) - 1, 0.0
    for t in range(len(relay.constant)):
        rises = relay.constant_rise[t] + relay.slope_rise[t] * value >= 0.0
        items[t] = high if rises else low
        high, low = high + rises, low - (not rises)
        value = mapped(relay, t, relay.key[items[t]], value)
    return value


@unmanaged
def find_floors(relay: Relay, highs: int, classes: Ints, best: float, floors: Floats) -> None:
    """Of a stage: the number below which nothing leads to more than `best`, even if all that follow are at theirs."""
    size, number = len(relay.constant), len(relay.pool)
    floors[size] = best
    for t in range(size - 1, -1, -1):
        floors[t] = np.inf
        for end in range(4):  # the ends of both classes: in between, what a stage makes of a number is linear
            if classes[t] & (HIGH if end < 2 else LOW) == 0 or highs == (0 if end < 2 else size):
                continue
            place = (0, highs - 1, number - size + highs, number - 1)[end]
            constant = relay.constant[t] + relay.key[place] * relay.constant_rise[t]
            slope = relay.slope[t] + relay.key[place] * relay.slope_rise[t]
            if slope > 0.0:
                floors[t] = min(floors[t], (floors[t + 1] - constant) / slope)
            elif constant > floors[t + 1]:
                floors[t] = -np.inf
        floors[t] -= ROUNDING * (1.0 + abs(floors[t])) if abs(floors[t]) < np.inf else 0.0


@unmanaged
def settle(relay: Relay, highs: int, classes: Ints) -> float:
    """The classes that a stage may be of if so many hold high items; an upper bound, -inf if that cannot be best."""
    size, number = len(relay.constant), len(relay.pool)
    low, high, at_least, at_most = 0.0, 0.0, 0, size
    for t in range(size):
        rise_at_low = relay.constant_rise[t] + relay.slope_rise[t] * low
        rise_at_high = relay.constant_rise[t] + relay.slope_rise[t] * high
        classes[t] = HIGH | LOW
        if min(rise_at_low, rise_at_high) >= 0.0:
            classes[t] = HIGH
            at_least += 1
        elif max(rise_at_low, rise_at_high) <= 0.0:
            classes[t] = LOW
            at_most -= 1
        least, most = np.inf, -np.inf
        if classes[t] & HIGH and highs > 0:
            a, b = relay.key[highs - 1], relay.key[0]
            least = min(mapped(relay, t, a, low), mapped(relay, t, b, low))
            most = max(mapped(relay, t, a, high), mapped(relay, t, b, high))
        if classes[t] & LOW and highs < size:
            a, b = relay.key[number - 1], relay.key[number - size + highs]
            least = min(least, mapped(relay, t, a, low), mapped(relay, t, b, low))
            most = max(most, mapped(relay, t, a, high), mapped(relay, t, b, high))
        low, high = least, most
        if not at_least <= highs <= at_most or low > high:
            return -np.inf
    return high


@unmanaged
def best_order(relay: Relay, highs: int, classes: Ints, floors: Floats, items: Ints, sets: Sets) -> float:
    """The best list of the `highs` highest and the lowest items: dynamic programming over sets of them.

    `items` gets their places in the pool. -inf if the classes allow none, or none that is above the floors.
    """
    highest, last, stage = sets
    size, number = len(relay.constant), len(relay.pool)
    highest[:] = -np.inf
    highest[0], stage[0] = 0.0, 0
    for used in range(len(highest) - 1):
        if highest[used] == -np.inf:
            continue
        t = stage[used]
        if highest[used] < floors[t]:
            continue
        base, top = mapped(relay, t, 0.0, highest[used]), mapped(relay, t, 1.0, highest[used])
        begin, end = 0 if classes[t] & HIGH else highs, size if classes[t] & LOW else highs
        for i in range(begin, end):
            more = used | 1 << i
            value = base + relay.key[i if i < highs else number - size + i] * (top - base)
            if more != used and value > highest[more]:
                highest[more], last[more], stage[more] = value, i, t + 1
    used = len(highest) - 1
    value = highest[used]
    for t in range(size - 1 if value > -np.inf else -1, -1, -1):
        i = last[used]
        items[t] = i if i < highs else number - size + i
        used ^= 1 << i
    return value
