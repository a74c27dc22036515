"""Stages that are all alike and hand on one number: exact, by sorting items and choosing a subset of them.

With item i, every stage maps the number V to c_i + g_i V, where 0 <= g_i <= 1: the dynamic Bayesian network and the
click chain are such models. Item i belongs above its neighbour j if c_i + g_i (c_j + g_j V) is above
c_j + g_j (c_i + g_i V), that is, if c_i / (1 - g_i) > c_j / (1 - g_j), whatever V is. So the order of any set of items
is that of these fixed points. Which items to choose follows by dynamic programming over the sorted items: the best
value of m items from the i-th on either leaves out item i, or puts it above the best m - 1 items that follow. That
takes items times positions steps, where a search would look at sets of items.

Where stages differ, the mean of their maps is used: a good list for a search to begin with.
"""

import numpy as np

from idbandits.kernel.array_types import Bools, Floats, Ints
from idbandits.kernel.compile import linked, unmanaged
from idbandits.solve.candidates import ALIKE, DIFFERENT, ROUNDING, Search, have_same_choices, may_repeat, value_at
from idbandits.solve.lists.stage_maps import coefficient, enter_stage, new_rows, read_choice


@unmanaged
def can_choose_and_sort(q: Search, g: int) -> bool:
    """Return whether the stages of a group hand on one number, and all of its decisions may make the same choices."""
    fits = q.s.alike[g] != DIFFERENT
    for k in q.group:
        fits = fits and have_same_choices(q.s, q.eligible, q.group[0], k)
    return fits


@linked
def choose_and_sort(q: Search, g: int, action: Ints) -> tuple[float, float]:
    """Leave the best list in `action`; return its value and a bound, infinite if stages or slopes allow no proof."""
    c, s, first, size = q.run.c, q.s, q.s.group_start[g], q.size
    scratch, values = new_rows(q, g, 1, action), np.ones(c.leaves + c.inner)
    k = s.stage_decision[first + 1]  # the first stage reads no number
    number, stages = q.start[k + 1] - q.start[k], 2 if s.alike[g] == ALIKE else size
    choices, repeats = np.empty(number, np.int64), np.zeros(number, np.bool_)
    total, points = np.zeros((number, 2)), np.empty(number)
    for i in range(number):
        choices[i] = q.candidates[q.start[k] + i]
        repeats[i] = may_repeat(s, k, choices[i])
    for t in range(1, stages):
        enter_stage(q, first + t, 1, action, scratch)
        for i in range(number):
            read_choice(q, first + t, 1, choices[i], action, scratch)
            for j in range(2):
                total[i, j] += coefficient(q, first + t, 0, j, scratch) / (stages - 1)
    for i in range(number):
        constant, slope = total[i, 0], total[i, 1]
        if not 0.0 <= slope <= 1.0 + ROUNDING:
            return value_at(q.run, q.p, action, values), np.inf
        # an identity map may be anywhere; among maps of slope 1, all that add something come first
        points[i] = constant / (1.0 - slope) if slope < 1.0 else (np.inf if constant > 0.0 else -np.inf)
    chosen = np.empty(size, np.int64)
    if not best_subset(total, descending(points), repeats, chosen):
        return value_at(q.run, q.p, action, values), np.inf
    for t in range(size):  # the last stage is the outermost map
        action[s.stage_decision[first + size - 1 - t]] = choices[chosen[t]]
    value = value_at(q.run, q.p, action, values)
    return value, value if s.alike[g] == ALIKE else np.inf


@linked
def descending(keys: Floats) -> Ints:
    """Return the places of keys, highest key first (Shell sort; equal keys may change places)."""
    order, gap = np.arange(len(keys)), 1
    while gap < len(keys) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, len(keys)):
            own, j = order[i], i
            while j >= gap and keys[order[j - gap]] < keys[own]:
                order[j] = order[j - gap]
                j -= gap
            order[j] = own
        gap //= 3
    return order


@linked
def best_subset(maps: Floats, order: Ints, repeats: Bools, chosen: Ints) -> bool:
    """Choose the items whose maps, outermost first in `order`, lead from 0 to the most; return False if too few."""
    size, number = len(chosen), len(order)
    best, takes = np.full(size + 1, -np.inf), np.zeros((number, size + 1), np.bool_)
    best[0] = 0.0
    for place in range(number - 1, -1, -1):
        i = order[place]
        for turn in range(size):
            m = turn + 1 if repeats[i] else size - turn  # an item that may repeat can follow itself
            if best[m - 1] > -np.inf:
                value = maps[i, 0] + maps[i, 1] * best[m - 1]
                if value > best[m]:
                    best[m], takes[place, m] = value, True
    place, m = 0, size
    while m > 0 and place < number:
        if takes[place, m]:
            chosen[size - m] = order[place]
            m -= 1
            place += not repeats[order[place]]
        else:
            place += 1
    return m == 0
