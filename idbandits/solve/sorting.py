"""Where decisions that exclude each other all read one column of a table: sort items into positions, with proof.

The reward is linear in the key of each position, so the best position of a list holds one of the highest or one
of the lowest items: `sort` branches on these two classes. Bounds on what a change can gain, whatever the other
positions hold (`gains`), settle most classes without branching, and then the order within each class.
"""

from typing import NamedTuple

import numpy as np

from idbandits.circuit.circuit import Circuit
from idbandits.circuit.passes import up
from idbandits.kernel.array_types import Bools, Floats, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged
from idbandits.solve.candidates import (
    Decisions,
    Search,
    choice_at,
    copy_action,
    exceeds,
    improve,
    key_of,
    may_repeat,
    number_of_choices,
    slopes_at,
    value_at,
)
from idbandits.solve.sorting_bounds import (
    HIGH,
    LOW,
    OPEN,
    Box,
    gain_of_key,
    gain_of_swap,
    new_box,
    read_weights,
    set_box,
)

COST_OF_ORDER = 0.25  # of evaluating an edge, where a comparison of gains costs 1
GUESSING = 0.5  # of the budget, to look for better lists once a proof is out of reach
MOST_COUNTED = 14  # positions whose orders are counted before they are tried: there are 2 ** 14 sets of them
MOST_PATTERNS = 10  # decisions without constraints for which all patterns of classes are looked at


@linked
def sort(q: Search, action: Ints) -> tuple[float, float]:
    """Branch on the classes of positions; leaves the best list found in `action`, returns its value and a bound.

    Where the orders of settled classes are too many to be tried, a proof is out of reach: then only a few more lists
    are looked at.
    """
    c, s, size, root = q.run.c, q.s, q.size, q.run.c.leaves + q.run.last - 1
    box = new_box(c, s)
    upper = box.upper
    pool = ranked(q, action, q.group[0])
    classes = np.zeros((size + 1, s.decisions), np.int64)  # of a level of the search, and a decision
    choices, trial, best_action = action.copy(), action.copy(), action.copy()
    on, second, bounds = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64), np.zeros(size + 1)
    best, open_bound = value_at(q.run, q.p, action, np.ones(c.leaves + c.inner)), -np.inf
    level, proving, order = 0, True, np.empty(size, np.int64)
    while level >= 0:
        now = classes[level]
        set_box(q, box, trial, pool, now, choices)
        branch_on, widest, rather = -1, -1.0, HIGH
        settling = True
        while settling:  # a class that is settled narrows the box, which may settle others
            settling = False
            branch_on, widest = -1, -1.0
            for k in q.group:
                if now[k] != OPEN:
                    continue
                rise, fall = gain_of_key(q, box, k, 1.0, 0.0), gain_of_key(q, box, k, 0.0, 1.0)
                if rise >= 0.0 or fall >= 0.0:
                    now[k] = HIGH if rise >= 0.0 else LOW
                    settling = True
                elif -rise - fall > widest:
                    branch_on, widest, rather = k, -rise - fall, HIGH if rise > fall else LOW
            if settling:
                set_box(q, box, trial, pool, now, choices)
        bound = upper[root]
        if exceeds(s, bound, best):
            if branch_on >= 0 and box.spent[0] <= q.budget:
                on[level], second[level], bounds[level] = branch_on, -rather, bound
                classes[level + 1] = now
                level += 1
                classes[level, branch_on] = rather
                continue
            if branch_on >= 0:
                open_bound = max(open_bound, bound)
                for k in q.group:  # as good a guess as any: the class that the bounds lean to
                    if now[k] == OPEN:
                        now[k] = rather
                set_box(q, box, trial, pool, now, choices)
            if proving:
                value, bound = order_classes(q, box, trial, pool, now)
            else:
                arrange(q, trial, pool, now, order)
                value = improve(q, trial)
                box.spent[0] += COST_OF_ORDER * size * size * c.start[c.inner]
            if value > best:
                best = value
                copy_action(trial, best_action)
            open_bound = max(open_bound, bound)
            proving = not exceeds(s, open_bound, best)
            if not proving and box.spent[0] > GUESSING * q.budget:
                break
        while level > 0:  # back to a level whose second class is still to be tried
            level -= 1
            if second[level] != OPEN:
                classes[level + 1] = classes[level]
                classes[level + 1, on[level]] = second[level]
                second[level] = OPEN
                if exceeds(s, bounds[level], best):
                    level += 1
                    break
        else:
            level = -1
    for above in range(level):
        if second[above] != OPEN:
            open_bound = max(open_bound, bounds[above])
    copy_action(best_action, action)
    return best, max(best, open_bound)


class Places(NamedTuple):
    """Weights of edges by the item that the decision of their node has."""

    s: Decisions
    places: Ints  # of a decision: the number of its item
    weights: Floats  # of an item and an edge


@inlined
def of_places(c: Circuit, e: int, source: Places) -> float:
    """The weight of an edge, with every decision at the item in its place."""
    s = source.s
    n = s.edge_node[e]
    place = source.places[s.dep[s.dep_start[n]]] if s.dep_start[n] < s.dep_start[n + 1] else 0
    return source.weights[place, e]


@unmanaged
def value_of_places(q: Search, places: Ints, weights: Floats, values: Floats) -> float:
    """The reward with each decision at the item in its place."""
    return up(q.run, of_places, Places(q.s, places, weights), values, None, False)


@linked
def try_patterns(q: Search, action: Ints) -> float:
    """The best action without constraints: every key at its highest or its lowest, all patterns tried."""
    c, number = q.run.c, len(action)
    edges = c.start[c.inner]
    floats, ints = np.empty(2 * edges + c.leaves + c.inner), np.zeros(3 * number, np.int64)  # two, for speed
    weights, values = floats[: 2 * edges].reshape(2, edges), floats[2 * edges :]
    low, high, places = ints[:number], ints[number : 2 * number], ints[2 * number :]
    values[: c.leaves] = 1.0
    for k in q.group:
        low[k], high[k] = lowest_and_highest(q, action, k)
    read_weights(q, action, low, weights[0])
    read_weights(q, action, high, weights[1])
    best, best_pattern = -np.inf, 0
    for pattern in range(1 << q.size):
        for t in range(q.size):
            places[q.group[t]] = pattern >> t & 1
        value = value_of_places(q, places, weights, values)
        if value > best:
            best, best_pattern = value, pattern
    for t in range(q.size):
        k = q.group[t]
        action[k] = high[k] if best_pattern >> t & 1 else low[k]
    return best


@unmanaged
def lowest_and_highest(q: Search, action: Ints, k: int) -> tuple[int, int]:
    """The choices of a decision with the lowest and the highest key."""
    low, high, lowest, highest = 0, 0, np.inf, -np.inf
    for i in range(number_of_choices(q.s, q.eligible, k)):
        choice = choice_at(q.s, q.eligible, k, i)
        key = key_of(q, action, k, choice)
        if key > highest:
            high, highest = choice, key
        if key < lowest:
            low, lowest = choice, key
    return low, high


@linked
def ranked(q: Search, action: Ints, k: int) -> Ints:
    """The candidates of a decision, highest key first; those that may repeat are there once for every decision."""
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
def order_classes(q: Search, box: Box, trial: Ints, pool: Ints, classes: Ints) -> tuple[float, float]:
    """The best order within settled classes, left in `trial`; its value, and a bound on all lists of these classes.

    The steepest position gets the highest item. Swaps of two positions that follow each other in this order lead
    to it from any other order: if none can lose, it is the best, and what they lose at most bounds the rest. If
    some can, all orders are tried that agree with the swaps that are proven, if these are not too many.
    """
    s, size = q.s, q.size
    order = np.empty(size, np.int64)  # decisions by the item they get, highest first
    most = box.upper[q.run.c.leaves + q.run.last - 1]
    for k in q.group:
        own, other = (1.0, 0.0) if classes[k] == HIGH else (0.0, 1.0)
        if gain_of_key(q, box, k, other, own) > 0.0:  # something at least as good is in another class
            return -np.inf, -np.inf
    value = arrange(q, trial, pool, classes, order)
    loss = np.zeros(2)  # of a class: what a swap can lose at most, per unit of difference
    for i in range(size - 1):
        j, k = order[i], order[i + 1]
        if classes[j] == classes[k]:
            high = int(classes[j] == HIGH)
            loss[high] = max(loss[high], -gain_of_swap(q, box, j, k))
    bound = value
    for i in range(size):
        for j in range(i):
            if classes[order[i]] == classes[order[j]]:
                apart = key_of(q, trial, order[j], trial[order[j]]) - key_of(q, trial, order[i], trial[order[i]])
                bound += loss[int(classes[order[i]] == HIGH)] * apart
    bound = min(bound, most)
    if not exceeds(s, bound, value):
        return value, value
    before = np.zeros((size, size), np.bool_)  # of ranks: must the one hold a higher item than the other
    for i in range(size):
        for j in range(i):
            if classes[order[i]] != classes[order[j]] or gain_of_swap(q, box, order[j], order[i]) >= 0:
                before[j, i] = True
            elif gain_of_swap(q, box, order[i], order[j]) >= 0:
                before[i, j] = True
    best, all_tried = try_orders(q, box, trial, order, before, value)
    return best, best if all_tried else max(best, bound)


@linked
def arrange(q: Search, trial: Ints, pool: Ints, classes: Ints, order: Ints) -> float:
    """Put the highest items on the positions of the high class, the lowest on the others, the steepest first.

    `order` gets the decisions in the order of their items.
    """
    c, s, size, number = q.run.c, q.s, q.size, len(pool)
    values, slopes, weights = np.ones(c.leaves + c.inner), np.empty(c.leaves + c.inner), np.empty(c.slots)
    high = 0
    for k in q.group:
        high += classes[k] == HIGH
    for k in q.group:  # the middle of the box, where positions differ only by their steepness
        trial[k] = pool[high // 2] if classes[k] == HIGH else pool[number - 1 - (size - high) // 2]
    slopes_at(q, trial, values, slopes, weights)
    steep, most = np.empty(size), 0.0
    for i, k in enumerate(q.group):
        steepness = 0.0
        for t in range(s.use_start[k], s.use_start[k + 1]):
            e = s.use[t]
            change = slopes[c.leaves + s.edge_node[e]] * values[c.child[e]]
            steepness += change if c.slot[e] == s.key[k] else -change
        most = max(most, abs(steepness))
        j = i  # equal ones stay in the order of declaration
        while j > 0 and (
            classes[k] > classes[order[j - 1]]
            or (classes[k] == classes[order[j - 1]] and steepness > steep[j - 1] + 1e-12 * most)
        ):
            order[j], steep[j] = order[j - 1], steep[j - 1]
            j -= 1
        order[j], steep[j] = k, steepness
    for i in range(size):
        trial[order[i]] = pool[i] if i < high else pool[number - size + i]
    return value_at(q.run, q.p, trial, values)


@linked
def try_orders(q: Search, box: Box, trial: Ints, order: Ints, before: Bools, value: float) -> tuple[float, bool]:
    """Try all orders of positions that respect `before`, each getting the next highest item of `trial` in turn.

    The best is left in `trial`; returns its value, and whether all were tried. None are if there are more than the
    budget is for.
    """
    c, size, edges = q.run.c, q.size, float(q.run.c.start[q.run.last] - q.run.c.start[q.run.first])
    most = max(0.0, q.budget - box.spent[0]) / (COST_OF_ORDER * edges)
    if size <= MOST_COUNTED and number_of_orders(before) > most:
        return value, False
    values = np.ones(c.leaves + c.inner)
    weights = np.empty((size, c.start[c.inner]))  # of an item and an edge
    places = np.zeros(q.s.decisions, np.int64)
    items, best = np.empty(size, np.int64), np.empty(size, np.int64)  # the items in play, highest first
    for i in range(size):
        items[i] = best[i] = trial[order[i]]
    for i in range(size):
        for k in order:
            trial[k] = items[i]
        read_weights(q, trial, trial, weights[i])
    taken = np.zeros(size, np.bool_)
    sequence = np.full(size + 1, -1, np.int64)
    tried, depth = 0, 0
    while depth >= 0:
        i = sequence[depth]
        if i >= 0:
            taken[i] = False
        i += 1
        while i < size and not may_follow(before, taken, i):
            i += 1
        if i == size:
            sequence[depth] = -1
            depth -= 1
            continue
        sequence[depth], taken[i] = i, True
        places[order[i]] = depth
        if depth + 1 < size:
            depth += 1
            sequence[depth] = -1
            continue
        tried += 1
        if tried > most:
            break
        found = value_of_places(q, places, weights, values)
        if found > value:
            value = found
            for j in range(size):
                best[j] = items[places[order[j]]]
    for i in range(size):
        trial[order[i]] = best[i]
    box.spent[0] += tried * COST_OF_ORDER * edges
    return value, 0 < tried <= most


@unmanaged
def may_follow(before: Bools, taken: Bools, i: int) -> bool:
    """Whether all that must come before i has come, and i has not."""
    follows = not taken[i]
    for j in range(len(taken)):
        follows &= taken[j] or not before[j, i]
    return follows


@linked
def number_of_orders(before: Bools) -> float:
    """Return how many orders respect `before`, by adding up over the sets of positions that may come first."""
    size = len(before)
    needs, orders = np.zeros(size, np.int64), np.zeros(1 << size)
    orders[0] = 1.0
    for i in range(size):
        for j in range(size):
            needs[i] |= int(before[j, i]) << j
    for first in range((1 << size) - 1):
        if orders[first] > 0.0:
            for i in range(size):
                if first >> i & 1 == 0 and needs[i] & ~first == 0:
                    orders[first | 1 << i] += orders[first]
    return orders[len(orders) - 1]
