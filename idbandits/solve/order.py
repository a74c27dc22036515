"""Where decisions that exclude each other all read one column of a table: sort items into positions, with proof.

The reward is linear in the key of each position, so the best position of a list holds one of the highest or one
of the lowest items: `sort` branches on these two classes. Bounds on what a change can gain, whatever the other
positions hold (`least_gain`), settle most classes without branching, and then the order within each class.
"""

from __future__ import annotations

import numpy as np

from idbandits.circuit.passes import Circuit, weight
from idbandits.kernel.compiling import bare, part
from idbandits.kernel.types import Bools, Floats, Ints
from idbandits.solve.branch import Decisions, exceeds, key_of, slopes_at, value_at

HIGH, LOW, OPEN = 1, -1, 0
MOST_PATTERNS = 10  # decisions for which all patterns of classes are looked at


@bare
def read_weights(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, choices: Ints, weights: Floats
) -> None:
    """The weights of all edges with these choices."""
    for n in range(first, last):
        k = -1
        if s.data[s.dep_start + n] < s.data[s.dep_start + n + 1]:
            k = s.data[s.dep + s.data[s.dep_start + n]]
            action[k] = choices[k]
        for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
            weights[e] = weight(c, c.data[c.slot + e], p, action)


@bare
def span(
    c: Circuit, s: Decisions, first: int, last: int, at_low: Floats, at_high: Floats, lower: Floats, upper: Floats
) -> None:
    """Bounds of all nodes while every key moves between its low and its high choice."""
    for n in range(first, last):
        a, b, x, y = 0.0, 0.0, 0.0, 0.0
        for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
            child = c.data[c.child + e]
            a += at_low[e] * lower[child]
            b += at_high[e] * lower[child]
            x += at_low[e] * upper[child]
            y += at_high[e] * upper[child]
        lower[c.leaves + n], upper[c.leaves + n] = min(a, b), max(x, y)


@bare
def least_gain(
    c: Circuit, s: Decisions, first: int, last: int, at_low: Floats, at_high: Floats, lower: Floats, upper: Floats,
    here: Floats, there: Floats, room: Floats,
) -> float:  # fmt: skip
    """A lower bound on reward(keys as in `here`) - reward(as in `there`), all keys that are NaN moving alike.

    Where neither sets anything the difference is passed up with the same weights on both sides, so what the two
    have in common cancels.
    """
    low_here, high_there, gain = room[0], room[1], room[2]  # of nodes that the set keys reach, others as in the span
    reached = room[3]
    for n in range(first, last):
        node = c.leaves + n
        k = -1
        if s.data[s.dep_start + n] < s.data[s.dep_start + n + 1]:
            k = s.data[s.dep + s.data[s.dep_start + n]]
        is_set = k >= 0 and not np.isnan(here[k])
        touched = is_set
        begin, end = c.data[c.start + n], c.data[c.start + n + 1]
        for e in range(begin, end):
            touched |= reached[c.data[c.child + e]] > 0.0
        if not touched:
            low_here[node], high_there[node], gain[node], reached[node] = lower[node], upper[node], 0.0, 0.0
            continue
        reached[node] = 1.0
        if is_set:
            a, x = 0.0, 0.0
            for e in range(begin, end):
                child, slot = c.data[c.child + e], c.data[c.slot + e]
                if slot < 0 or not moves(s, e, k):
                    a += at_low[e] * low_here[child]
                    x += at_low[e] * high_there[child]
                elif slot == s.data[s.key + k]:
                    a += here[k] * low_here[child]
                    x += there[k] * high_there[child]
                else:
                    a += (1.0 - here[k]) * low_here[child]
                    x += (1.0 - there[k]) * high_there[child]
            low_here[node], high_there[node], gain[node] = a, x, a - x
        else:
            a, b, x, y, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for e in range(begin, end):
                child = c.data[c.child + e]
                a += at_low[e] * low_here[child]
                b += at_high[e] * low_here[child]
                x += at_low[e] * high_there[child]
                y += at_high[e] * high_there[child]
                g += at_low[e] * gain[child]
                h += at_high[e] * gain[child]
            low_here[node], high_there[node] = min(a, b), max(x, y)
            gain[node] = max(min(g, h), low_here[node] - high_there[node])
    return float(gain[c.leaves + last - 1])


@bare
def moves(s: Decisions, edge: int, k: int) -> bool:
    """Whether the weight of an edge depends on a decision."""
    found = False
    for t in range(s.data[s.use_start + k], s.data[s.use_start + k + 1]):
        found |= s.data[s.use + t] == edge
    return found


@bare
def set_box(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, group: Ints, pool: Ints, classes: Ints,
    choices: Ints, at_low: Floats, at_high: Floats, lower: Floats, upper: Floats,
) -> None:  # fmt: skip
    """Let every key move within its class: so many of the highest, or of the lowest items, as may be needed."""
    number = len(pool)
    not_low, not_high = 0, 0
    for k in group:
        not_low += classes[k] != LOW
        not_high += classes[k] != HIGH
    for k in group:
        choices[k] = pool[not_low - 1] if classes[k] == HIGH else pool[number - 1]
    read_weights(c, s, first, last, p, action, choices, at_low)
    for k in group:
        choices[k] = pool[number - not_high] if classes[k] == LOW else pool[0]
    read_weights(c, s, first, last, p, action, choices, at_high)
    span(c, s, first, last, at_low, at_high, lower, upper)


@part
def rooms(c: Circuit) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Room for what `set_box` and `least_gain` write: weights an edge, bounds a node, and the gain's own."""
    nodes, edges = c.leaves + c.inner, c.data[c.start + c.inner]
    room = np.ones((4, nodes))
    for leaf in range(c.leaves):
        room[2, leaf], room[3, leaf] = 0.0, 0.0
    return np.empty(edges), np.empty(edges), np.ones(nodes), np.ones(nodes), room


@part
def sort(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, group: Ints, start: Ints, cands: Ints,
    budget: float,
) -> tuple[float, float]:  # fmt: skip
    """Branch on the classes of positions; leaves the best list found in `action`, returns its value and a bound."""
    nodes, edges, size = c.leaves + c.inner, c.data[c.start + c.inner], len(group)
    at_low, at_high, lower, upper, room = rooms(c)
    pool = ranked(c, s, p, action, group[0], start, cands)
    classes = np.zeros((size + 1, s.decisions), np.int64)  # a level of the search, a decision
    choices, trial, best_action = np.zeros_like(action), np.zeros_like(action), np.zeros_like(action)
    for k in range(len(action)):
        trial[k] = action[k]
        choices[k] = action[k]
        best_action[k] = action[k]
    on, second, bounds = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64), np.zeros(size + 1)
    here, there = np.full(s.decisions, np.nan), np.full(s.decisions, np.nan)
    best, open_bound = value_at(c, first, last, p, action, np.ones(nodes)), -np.inf
    level, spent = 0, 0.0
    while level >= 0:
        now = classes[level]
        set_box(c, s, first, last, p, trial, group, pool, now, choices, at_low, at_high, lower, upper)
        branch_on, widest, rather = -1, -1.0, HIGH
        settling = True
        while settling:  # a class that is settled narrows the box, which may settle others
            settling = False
            branch_on, widest = -1, -1.0
            for k in group:
                if now[k] != OPEN:
                    continue
                here[k], there[k] = 1.0, 0.0
                rise = least_gain(c, s, first, last, at_low, at_high, lower, upper, here, there, room)
                fall = least_gain(c, s, first, last, at_low, at_high, lower, upper, there, here, room)
                here[k], there[k] = np.nan, np.nan
                spent += 2.0 * edges
                if rise >= 0.0 or fall >= 0.0:
                    now[k] = HIGH if rise >= 0.0 else LOW
                    settling = True
                elif -rise - fall > widest:
                    branch_on, widest, rather = k, -rise - fall, HIGH if rise > fall else LOW
            if settling:
                set_box(c, s, first, last, p, trial, group, pool, now, choices, at_low, at_high, lower, upper)
        bound = upper[c.leaves + last - 1]
        if exceeds(s, bound, best):
            if branch_on >= 0 and spent <= budget:
                on[level], second[level], bounds[level] = branch_on, -rather, bound
                for k in range(s.decisions):
                    classes[level + 1, k] = now[k]
                level += 1
                classes[level, branch_on] = rather
                continue
            if branch_on >= 0:
                open_bound = max(open_bound, bound)
                for k in group:  # as good a guess as any: the class that the bounds lean to
                    if now[k] == OPEN:
                        now[k] = rather
                set_box(c, s, first, last, p, trial, group, pool, now, choices, at_low, at_high, lower, upper)
            value, bound = order_classes(
                c, s, first, last, p, trial, group, pool, now, at_low, at_high, lower, upper, here, there, room,
                budget,
            )  # fmt: skip
            spent += 4.0 * edges * size
            if value > best:
                best = value
                for k in group:
                    best_action[k] = trial[k]
            open_bound = max(open_bound, bound)
        while level > 0:  # back to a level whose second class is still to be tried
            level -= 1
            if second[level] != OPEN:
                for k in range(s.decisions):
                    classes[level + 1, k] = classes[level, k]
                classes[level + 1, on[level]] = second[level]
                second[level] = OPEN
                if exceeds(s, bounds[level], best):
                    level += 1
                    break
        else:
            level = -1
    for k in group:
        action[k] = best_action[k]
    return best, max(best, open_bound)


@part
def try_patterns(c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, group: Ints) -> float:
    """The best action without constraints: every key at its highest or its lowest, all patterns tried."""
    edges, number = c.data[c.start + c.inner], len(action)
    floats, ints = np.empty(2 * edges + c.leaves + c.inner), np.zeros(3 * number, np.int64)  # two, for speed
    at, values = floats[: 2 * edges].reshape(2, edges), floats[2 * edges :]
    low, high, places = ints[:number], ints[number : 2 * number], ints[2 * number :]
    for leaf in range(c.leaves):
        values[leaf] = 1.0
    for k in group:
        low[k], high[k] = lowest_and_highest(c, s, p, action, k)
    read_weights(c, s, first, last, p, action, low, at[0])
    read_weights(c, s, first, last, p, action, high, at[1])
    best, best_pattern = -np.inf, 0
    for pattern in range(1 << len(group)):
        for i in range(len(group)):
            places[group[i]] = pattern >> i & 1
        value = value_of_places(c, s, first, last, places, at, values)
        if value > best:
            best, best_pattern = value, pattern
    for i in range(len(group)):
        action[group[i]] = high[group[i]] if best_pattern >> i & 1 else low[group[i]]
    return best


@bare
def lowest_and_highest(c: Circuit, s: Decisions, p: Floats, action: Ints, k: int) -> tuple[int, int]:
    """The choices of a decision with the lowest and the highest key."""
    low, high, lowest, highest = 0, 0, np.inf, -np.inf
    for i in range(s.data[s.choices + k]):
        key = key_of(c, s, p, action, k, i)
        if key > highest:
            high, highest = i, key
        if key < lowest:
            low, lowest = i, key
    return low, high


@part
def sort_by_patterns(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, group: Ints, start: Ints, cands: Ints,
    budget: float,
) -> tuple[float, float]:  # fmt: skip
    """Like `sort`, for so few positions that all patterns of classes can be looked at.

    A pattern with the highest item on all of its high positions and the lowest on all others has a value that no
    list of this pattern exceeds by more than the keys' room to move times the slope against it. Where that is
    above the best, the pattern is ordered.
    """
    nodes, edges, size = c.leaves + c.inner, c.data[c.start + c.inner], len(group)
    at_low, at_high, lower, upper, room = rooms(c)
    pool = ranked(c, s, p, action, group[0], start, cands)
    number = len(pool)
    here, there = np.full(s.decisions, np.nan), np.full(s.decisions, np.nan)
    classes, choices = np.zeros(s.decisions, np.int64), np.zeros_like(action)
    trial, best_action = np.zeros_like(action), np.zeros_like(action)
    for k in range(len(action)):
        trial[k], choices[k], best_action[k] = action[k], action[k], action[k]
    set_box(c, s, first, last, p, trial, group, pool, classes, choices, at_low, at_high, lower, upper)
    keys = np.empty(4)
    for i, place in enumerate((0, size - 1, number - size, number - 1)):
        keys[i] = key_of(c, s, p, action, group[0], pool[place])
    against = np.zeros((size, 2))  # what a key that moves away from the highest, or from the lowest, can gain at most
    for i in range(size):
        k = group[i]
        here[k], there[k] = 1.0, 0.0
        rise = least_gain(c, s, first, last, at_low, at_high, lower, upper, here, there, room)
        fall = least_gain(c, s, first, last, at_low, at_high, lower, upper, there, here, room)
        here[k], there[k] = np.nan, np.nan
        against[i, 0] = max(0.0, -rise) * (keys[0] - keys[1])
        against[i, 1] = max(0.0, -fall) * (keys[2] - keys[3])
    at = np.empty((2, edges))
    for i in range(2):
        for k in group:
            choices[k] = pool[0] if i else pool[number - 1]
        read_weights(c, s, first, last, p, trial, choices, at[i])
    values, places = np.ones(nodes), np.zeros(s.decisions, np.int64)
    limits = np.empty(1 << size)
    ahead, ahead_value = 0, -np.inf
    for pattern in range(1 << size):
        slack = 0.0
        for i in range(size):
            high = pattern >> i & 1
            places[group[i]] = high
            slack += against[i, 0] if high else against[i, 1]
        value = value_of_places(c, s, first, last, places, at, values)
        limits[pattern] = value + slack
        if value > ahead_value:
            ahead, ahead_value = pattern, value
    best, open_bound = value_at(c, first, last, p, action, values), -np.inf
    for turn in range(-1, 1 << size):  # the most promising pattern first, so that it rules out others
        pattern = ahead if turn < 0 else turn
        if not exceeds(s, limits[pattern], best):
            continue
        for i in range(size):
            classes[group[i]] = HIGH if pattern >> i & 1 else LOW
        set_box(c, s, first, last, p, trial, group, pool, classes, choices, at_low, at_high, lower, upper)
        bound = min(limits[pattern], upper[c.leaves + last - 1])
        limits[pattern] = -np.inf
        if not exceeds(s, bound, best):
            continue
        value, bound = order_classes(
            c, s, first, last, p, trial, group, pool, classes, at_low, at_high, lower, upper, here, there, room,
            budget,
        )  # fmt: skip
        if value > best:
            best = value
            for k in group:
                best_action[k] = trial[k]
        open_bound = max(open_bound, bound)
    for k in group:
        action[k] = best_action[k]
    return best, max(best, open_bound)


@part
def ranked(c: Circuit, s: Decisions, p: Floats, action: Ints, k: int, start: Ints, cands: Ints) -> Ints:
    """The candidates of a decision, highest key first."""
    number = start[k + 1] - start[k]
    pool, keys = np.empty(number, np.int64), np.empty(number)
    for i in range(number):
        key = key_of(c, s, p, action, k, cands[start[k] + i])
        j = i
        while j > 0 and keys[j - 1] < key:
            pool[j], keys[j] = pool[j - 1], keys[j - 1]
            j -= 1
        pool[j], keys[j] = cands[start[k] + i], key
    return pool


@part
def order_classes(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, trial: Ints, group: Ints, pool: Ints, classes: Ints,
    at_low: Floats, at_high: Floats, lower: Floats, upper: Floats, here: Floats, there: Floats, room: Floats,
    budget: float,
) -> tuple[float, float]:  # fmt: skip
    """The best order within settled classes, left in `trial`; its value, and a bound on all lists of these classes.

    The steepest position gets the highest item. Swaps of two positions that follow each other in this order lead
    to it from any other order: if none can lose, it is the best, and what they lose at most bounds the rest. If
    some can, all orders are tried that agree with the swaps that are proven, if these are not too many.
    """
    size, number = len(group), len(pool)
    for k in group:  # in the class it is in, a key must not gain by leaving it
        up_key, down_key = (1.0, 0.0) if classes[k] == HIGH else (0.0, 1.0)
        here[k], there[k] = up_key, down_key
        stays = least_gain(c, s, first, last, at_low, at_high, lower, upper, here, there, room)
        if stays < 0.0:
            leaves = least_gain(c, s, first, last, at_low, at_high, lower, upper, there, here, room)
            here[k], there[k] = np.nan, np.nan
            if leaves > 0.0:  # something at least as good is in another class
                return -np.inf, -np.inf
            return arrange(c, s, first, last, p, trial, group, pool, classes), upper[c.leaves + last - 1]
        here[k], there[k] = np.nan, np.nan
    value = arrange(c, s, first, last, p, trial, group, pool, classes)
    order = np.empty(size, np.int64)  # decisions by the item they got, highest first
    rank = np.zeros(s.decisions, np.int64)
    filled = 0
    for i in range(number):
        for k in group:
            if trial[k] == pool[i]:
                order[filled], rank[k] = k, filled
                filled += 1
    loss = np.zeros(2)  # a class: what a swap can lose at most, a unit of difference
    for i in range(size - 1):
        j, k = order[i], order[i + 1]
        if classes[j] == classes[k]:
            gain = swap_gain(c, s, first, last, at_low, at_high, lower, upper, here, there, room, j, k)
            loss[int(classes[j] == HIGH)] = max(loss[int(classes[j] == HIGH)], -gain)
    bound = value
    for i in range(size):
        for j in range(i):
            if classes[order[i]] == classes[order[j]]:
                apart = key_of(c, s, p, trial, order[j], trial[order[j]]) - key_of(
                    c, s, p, trial, order[i], trial[order[i]]
                )
                bound += loss[int(classes[order[i]] == HIGH)] * apart
    bound = min(bound, upper[c.leaves + last - 1])
    if not exceeds(s, bound, value):
        return value, value
    before = np.zeros((size, size), np.bool_)  # ranks: must the one hold a higher item than the other
    for i in range(size):
        for j in range(i):
            if classes[order[i]] != classes[order[j]]:
                before[j, i] = True
                continue
            if swap_gain(c, s, first, last, at_low, at_high, lower, upper, here, there, room, order[j], order[i]) >= 0:
                before[j, i] = True
            elif (
                swap_gain(c, s, first, last, at_low, at_high, lower, upper, here, there, room, order[i], order[j]) >= 0
            ):
                before[i, j] = True
    held = np.empty(size, np.int64)  # the items in play, highest first
    for i in range(size):
        held[i] = trial[order[i]]
    best, all_tried = try_orders(c, s, first, last, p, trial, order, held, before, budget, value)
    return best, best if all_tried else max(best, bound)


@bare
def swap_gain(
    c: Circuit, s: Decisions, first: int, last: int, at_low: Floats, at_high: Floats, lower: Floats, upper: Floats,
    here: Floats, there: Floats, room: Floats, j: int, k: int,
) -> float:  # fmt: skip
    """What at least is gained, a unit of difference, if the higher of two items is at j and not at k."""
    here[j], here[k], there[j], there[k] = 1.0, 0.0, 0.0, 1.0
    gain = least_gain(c, s, first, last, at_low, at_high, lower, upper, here, there, room)
    here[j], here[k], there[j], there[k] = np.nan, np.nan, np.nan, np.nan
    return gain


@part
def arrange(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, trial: Ints, group: Ints, pool: Ints, classes: Ints
) -> float:
    """Put the highest items on the positions of the high class, the lowest on the others, the steepest first."""
    size, number = len(group), len(pool)
    values, slopes, weights = np.ones(c.leaves + c.inner), np.empty(c.leaves + c.inner), np.empty(c.slots)
    high = 0
    for k in group:
        high += classes[k] == HIGH
    for k in group:  # the middle of the box, where positions differ only by their steepness
        trial[k] = pool[high // 2] if classes[k] == HIGH else pool[number - 1 - (size - high) // 2]
    slopes_at(c, first, last, p, trial, values, slopes, weights)
    order, steep = np.empty(size, np.int64), np.empty(size)
    most = 0.0
    for i in range(size):
        k = group[i]
        steepness = 0.0
        for t in range(s.data[s.use_start + k], s.data[s.use_start + k + 1]):
            e = s.data[s.use + t]
            part = slopes[c.leaves + s.data[s.edge_node + e]] * values[c.data[c.child + e]]
            steepness += part if c.data[c.slot + e] == s.data[s.key + k] else -part
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
    return value_at(c, first, last, p, trial, values)


@part
def try_orders(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, trial: Ints, order: Ints, held: Ints, before: Bools,
    budget: float, value: float,
) -> tuple[float, bool]:  # fmt: skip
    """Try all orders of positions that respect `before`, each getting the next highest item in turn."""
    size = len(order)
    values = np.ones(c.leaves + c.inner)
    most = budget / (c.data[c.start + last] - c.data[c.start + first])
    at = np.empty((size, c.data[c.start + c.inner]))  # an item in play, an edge: its weight
    places = np.zeros(s.decisions, np.int64)
    for i in range(size):
        for k in order:
            trial[k] = held[i]
        read_weights(c, s, first, last, p, trial, trial, at[i])
    taken = np.zeros(size, np.bool_)
    sequence = np.full(size + 1, -1, np.int64)
    best = np.empty(size, np.int64)
    for i in range(size):
        best[i] = held[i]
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
        found = value_of_places(c, s, first, last, places, at, values)
        if found > value:
            value = found
            for j in range(size):
                best[j] = held[places[order[j]]]
    for i in range(size):
        trial[order[i]] = best[i]
    return value, 0 < tried <= most


@bare
def value_of_places(c: Circuit, s: Decisions, first: int, last: int, places: Ints, at: Floats, values: Floats) -> float:
    """The reward with each decision at the item in its place."""
    for n in range(first, last):
        place = 0
        if s.data[s.dep_start + n] < s.data[s.dep_start + n + 1]:
            place = places[s.data[s.dep + s.data[s.dep_start + n]]]
        total = 0.0
        for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
            total += at[place, e] * values[c.data[c.child + e]]
        values[c.leaves + n] = total
    return float(values[c.leaves + last - 1])


@bare
def may_follow(before: Bools, taken: Bools, i: int) -> bool:
    """Whether all that must come before i has come, and i has not."""
    follows = not taken[i]
    for j in range(len(taken)):
        follows &= taken[j] or not before[j, i]
    return follows
