"""Structures that all searches for the best action share, candidates, values and slopes."""

from typing import NamedTuple

import numpy as np

from idbandits.circuit.circuit import Circuit, Run
from idbandits.circuit.passes import down, entry, of_slots, up, weight
from idbandits.kernel.array_types import Bools, Floats, Indices, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged

ROUNDING = 1e-12  # of values, relative to them and to the largest rewards
DIFFERENT, SIMILAR, ALIKE = range(3)  # stages: SIMILAR ones hand on one number, ALIKE ones differ in their items only
GENERAL, ADDITIVE, MULTIPLICATIVE, SORTED, FREE = range(5)  # forms of a group's reward: see `problem`


class Decisions(NamedTuple):
    """Decisions of a diagram as searches need them, as a structure for kernels."""

    decisions: int  # how many
    groups: int  # of decisions: how many
    deps: int  # how many entries in `dep`
    tables: int  # learned: how many
    learned: int  # parameters that are learned: how many
    parameters: int  # in all
    choices: Indices  # of a decision: how many
    conflict: Indices  # of a pair of decisions: 1 if they may not share an item
    item_start: Indices  # of a decision: where the items of its choices begin; -1 where the choice is the item
    items: Indices
    shared_items: int  # items from this number on are those of choices that may repeat
    dep_start: Indices  # of an inner node: the decisions that its own weights depend on
    dep: Indices
    use_start: Indices  # of a decision: the edges whose weight depends on it
    use: Indices
    edge_node: Indices  # of an edge: the inner node that it belongs to
    linear: Indices  # of a decision: 1 if no product of two of its weights occurs
    key: Indices  # of a decision: the one slot that says all of its choices (its complement aside), or -1
    needed: Indices  # of a decision: how many of its best choices, since others of its group may take them
    like: Indices  # of a decision: the first decision with the same key and choices
    group_start: Indices  # of a group: its decisions
    group: Indices
    group_end: Indices  # the nodes of group g are group_end[g] to group_end[g + 1] - 1
    form: Indices  # of a group: how its reward is composed
    staged: Indices  # of a group: 1 if its decisions fall into stages (see `stages`), one per decision
    alike: Indices  # of a group: whether its stages, which hold different items, are ALIKE, SIMILAR or DIFFERENT
    constant_start: Indices  # of a group: the nodes that depend on no decision
    constant: Indices
    stage_decision: Indices  # of a stage; those of group g are numbered from group_start[g]
    stage_start: Indices  # two per stage: the nodes evaluated there, first those that do not depend on its decision
    stage_node: Indices
    frontier_start: Indices  # of a stage: the nodes that later stages read, numbered as children
    frontier: Indices
    feasible: Indices  # an action that satisfies the constraints
    table_states: Indices  # of a learned table
    table_rows: Indices
    effort: float  # a factor on the budgets of searches
    zero: Floats  # of a group: the constant that is added to the product; last, how large rewards are
    known: Floats  # the known parameters


class Search(NamedTuple):
    """Search for the best choices of one group of decisions, under the parameters p."""

    run: Run  # the circuit, and the nodes of the group's reward
    s: Decisions
    p: Floats
    size: int  # how many decisions
    group: Ints  # the decisions
    start: Ints  # of a decision: its candidates are start[k] to start[k + 1] - 1
    eligible: Ints  # the choices that may be made, packed as in `eligible`; empty if all may
    candidates: Ints  # choices that are worth a look
    budget: float  # edges that may be looked at


class Means(NamedTuple):
    """Source of the weights of edges under an action."""

    p: Floats
    action: Ints


@inlined
def of_means(c: Circuit, e: int, source: Means) -> float:
    """Return the weight of an edge under an action."""
    return weight(c, c.slot[e], source.p, source.action)


@inlined
def item(s: Decisions, k: int, choice: int) -> int:
    """Return the item that a choice stands for: one number for equal labels of different decisions."""
    return choice if s.item_start[k] < 0 else s.items[s.item_start[k] + choice]


@inlined
def may_repeat(s: Decisions, k: int, choice: int) -> bool:
    """Return whether decisions that exclude each other may still all make this choice."""
    return s.item_start[k] >= 0 and s.items[s.item_start[k] + choice] >= s.shared_items


@inlined
def is_listed(s: Decisions, eligible: Ints, k: int) -> bool:
    """Return whether only some choices of a decision may be made."""
    return len(eligible) > 0 and eligible[s.decisions + k] >= 0


@inlined
def number_of_choices(s: Decisions, eligible: Ints, k: int) -> int:
    """Return how many choices of a decision may be made."""
    listed = is_listed(s, eligible, k)
    return eligible[2 * s.decisions + k] - eligible[s.decisions + k] if listed else s.choices[k]


@inlined
def choice_at(s: Decisions, eligible: Ints, k: int, i: int) -> int:
    """Return the i-th choice of a decision that may be made."""
    return eligible[eligible[s.decisions + k] + i] if is_listed(s, eligible, k) else i


@inlined
def feasible_choice(s: Decisions, eligible: Ints, k: int) -> int:
    """Return the choice of a decision in an action that satisfies the constraints."""
    return eligible[k] if len(eligible) > 0 else s.feasible[k]


@inlined
def have_same_choices(s: Decisions, eligible: Ints, j: int, k: int) -> bool:
    """Return whether two decisions with equal values may make the same choices."""
    return len(eligible) == 0 or eligible[s.decisions + j] == eligible[s.decisions + k]


@unmanaged
def form_of(q: Search, g: int) -> int:
    """Return the form of a group's reward: to be sorted, its decisions must have the same choices."""
    if q.s.form[g] == SORTED:
        for k in q.group:
            if not have_same_choices(q.s, q.eligible, q.group[0], k):
                return GENERAL
    return q.s.form[g]


@inlined
def clash(s: Decisions, j: int, a: int, k: int, b: int) -> bool:
    """Return whether choices a of decision j and b of decision k exclude each other."""
    return s.conflict[j * s.decisions + k] != 0 and item(s, j, a) == item(s, k, b)


@unmanaged
def fits_with(s: Decisions, k: int, choice: int, action: Ints, free: Bools) -> bool:
    """Return whether a choice clashes with no decision that is made, not free."""
    for j in range(s.decisions):
        if s.conflict[k * s.decisions + j] and not free[j] and clash(s, k, choice, j, action[j]):
            return False
    return True


@unmanaged
def all_fit(q: Search, action: Ints) -> bool:
    """Return whether no two decisions of the group clash."""
    for t in range(q.size):
        for u in range(t):
            j, k = q.group[u], q.group[t]
            if clash(q.s, j, action[j], k, action[k]):
                return False
    return True


@inlined
def margin(s: Decisions, best: float) -> float:
    """Return by how much rounding may move a value."""
    return ROUNDING * (s.zero[s.groups] + abs(best))


@inlined
def exceeds(s: Decisions, bound: float, best: float) -> bool:
    """Return whether a bound leaves room above the best value, rounding aside."""
    return bound > best + margin(s, best)


@inlined
def copy_action(source: Ints, target: Ints) -> None:
    """Copy an action."""
    for i in range(len(target)):
        target[i] = source[i]


@inlined
def key_of(q: Search, action: Ints, k: int, choice: int) -> float:
    """Return the key of a choice."""
    before = action[k]
    action[k] = choice
    value = weight(q.run.c, q.s.key[k], q.p, action)
    action[k] = before
    return value


@unmanaged
def count_candidates(s: Decisions, g: int, eligible: Ints, start: Ints) -> int:
    """Write where the candidates of each decision begin (none outside of the group); return how many there are."""
    start[:] = 0
    for t in range(s.group_start[g], s.group_start[g + 1]):
        k = s.group[t]
        number, most = s.choices[k], s.needed[k]
        if len(eligible) > 0 and eligible[s.decisions + k] >= 0:  # not `number_of_choices`: Python calls this too
            number = eligible[2 * s.decisions + k] - eligible[s.decisions + k]
        if s.use_start[k] == s.use_start[k + 1]:  # nothing depends on it: any that is free will do
            number = min(most, number)
        elif s.key[k] >= 0 and s.linear[k]:
            number = min(2 * most, number)
        start[k + 1] = number
    for k in range(s.decisions):
        start[k + 1] += start[k]
    return start[s.decisions]


@linked
def find_candidates(q: Search, action: Ints) -> None:
    """Write the candidates: all choices, or those with extreme keys where the reward is linear in one key."""
    s = q.s
    for k in q.group:
        first, number, most = q.start[k], q.start[k + 1] - q.start[k], s.needed[k]
        like = s.like[k]
        if like < k and q.start[like] < q.start[like + 1] and have_same_choices(s, q.eligible, like, k):
            for i in range(number):
                q.candidates[first + i] = q.candidates[q.start[like] + i]
        elif number == 2 * most < number_of_choices(s, q.eligible, k) and s.key[k] >= 0 and s.linear[k]:
            extremes(q, action, k, most)
        else:
            for i in range(number):
                q.candidates[first + i] = choice_at(s, q.eligible, k, i)


@linked
def extremes(q: Search, action: Ints, k: int, most: int) -> None:
    """Write the choices with the `most` highest and lowest keys, highest first: the others cannot be needed."""
    c, found, first = q.run.c, q.candidates, q.start[k]
    keys = np.empty(2 * most)
    last = 2 * most - 1
    slot = q.s.key[k]
    plain = c.slot_also[slot] < 0 and c.slot_lookup[slot] < 0
    before = action[k]
    action[k] = 0
    base = entry(c, slot, action)
    action[k] = 1
    stride = entry(c, slot, action) - base
    action[k] = before
    for i in range(most):
        keys[i], keys[last - i] = -np.inf, np.inf
    for i in range(number_of_choices(q.s, q.eligible, k)):
        choice = choice_at(q.s, q.eligible, k, i)
        key = q.p[base + stride * choice] if plain else key_of(q, action, k, choice)
        if key > keys[most - 1]:
            j = most - 1
            while j > 0 and keys[j - 1] < key:
                keys[j], found[first + j] = keys[j - 1], found[first + j - 1]
                j -= 1
            keys[j], found[first + j] = key, choice
        if key < keys[most]:
            j = 0
            while j < most - 1 and keys[last - j] < key:
                j += 1
            for moved in range(most - 1, j, -1):
                keys[last - moved] = keys[last - moved + 1]
                found[first + last - moved] = found[first + last - moved + 1]
            keys[last - j], found[first + last - j] = key, choice


@unmanaged
def value_at(run: Run, p: Floats, action: Ints, values: Floats) -> float:
    """Return the expected reward of a group of decisions."""
    return up(run, of_means, Means(p, action), values, None, False)


@linked
def slopes_at(q: Search, action: Ints, values: Floats, slopes: Floats, weights: Floats) -> float:
    """Find the values and derivatives of a group's reward at an action; return its value."""
    c = q.run.c
    for e in range(c.start[q.run.first], c.start[q.run.last]):
        if c.slot[e] >= 0:
            weights[c.slot[e]] = of_means(c, e, Means(q.p, action))
    slopes[: c.leaves] = 0.0
    slopes[c.leaves + q.run.last - 1] = 1.0
    up(q.run, of_slots, weights, values, None, False)
    down(q.run, of_slots, weights, values, slopes, None, None, False)
    return values[c.leaves + q.run.last - 1]


@inlined
def add_uses(q: Search, k: int, action: Ints, values: Floats, slopes: Floats, total: float, sign: float) -> float:
    """Return a total plus `sign` times the contributions of the edges that a decision sets to the reward."""
    c, s = q.run.c, q.s
    for t in range(s.use_start[k], s.use_start[k + 1]):
        e = s.use[t]
        if q.run.first <= s.edge_node[e] < q.run.last:
            total += sign * slopes[c.leaves + s.edge_node[e]] * values[c.child[e]] * of_means(c, e, Means(q.p, action))
    return total


@unmanaged
def score(q: Search, action: Ints, k: int, values: Floats, slopes: Floats, scores: Floats) -> None:
    """Write the reward for every candidate of one decision, with the other decisions as they are.

    `values` and `slopes` are those of the action: with a linear dependence one derivative pass serves all.
    """
    before = action[k]
    if q.s.linear[k]:
        base = add_uses(q, k, action, values, slopes, values[q.run.c.leaves + q.run.last - 1], -1.0)
        for i in range(q.start[k], q.start[k + 1]):
            action[k] = q.candidates[i]
            scores[i] = add_uses(q, k, action, values, slopes, base, 1.0)
    else:
        for i in range(q.start[k], q.start[k + 1]):
            action[k] = q.candidates[i]
            scores[i] = value_at(q.run, q.p, action, values)
        action[k] = before
        value_at(q.run, q.p, action, values)
    action[k] = before


@linked
def improve(q: Search, action: Ints) -> float:
    """Improve one decision at a time, and by swapping two that conflict, until nothing helps; return the value."""
    c, s = q.run.c, q.s
    nodes = c.leaves + c.inner
    values, slopes, weights = np.ones(nodes), np.empty(nodes), np.empty(c.slots)
    scores = np.empty(q.start[s.decisions])
    best = slopes_at(q, action, values, slopes, weights)
    free = np.zeros(s.decisions, np.bool_)
    for _ in range(20):
        before = best
        for k in q.group:
            score(q, action, k, values, slopes, scores)
            free[k] = True
            better = action[k]
            for i in range(q.start[k], q.start[k + 1]):
                if scores[i] > best + 1e-14 * abs(best) and fits_with(s, k, q.candidates[i], action, free):
                    best, better = scores[i], q.candidates[i]
            free[k] = False
            if better != action[k]:
                action[k] = better
                best = slopes_at(q, action, values, slopes, weights)
        for t in range(q.size):
            for u in range(t):
                j, k = q.group[u], q.group[t]
                alike = s.like[j] == s.like[k] and have_same_choices(s, q.eligible, j, k)
                if s.conflict[j * s.decisions + k] and alike:
                    action[j], action[k] = action[k], action[j]
                    swapped = value_at(q.run, q.p, action, values)
                    if swapped > best + 1e-14 * abs(best) and all_fit(q, action):
                        best = swapped
                    else:
                        action[j], action[k] = action[k], action[j]
        best = slopes_at(q, action, values, slopes, weights)
        if best <= before + 1e-13 * abs(before):
            break
    return best


@linked
def try_all(q: Search, action: Ints) -> float:
    """Leave the best of all combinations of candidates in `action`; return its value."""
    values = np.ones(q.run.c.leaves + q.run.c.inner)
    at = np.zeros(q.size, np.int64)
    best_action = action.copy()
    best = value_at(q.run, q.p, action, values)
    i = 0
    while i >= 0:
        for t, k in enumerate(q.group):
            action[k] = q.candidates[q.start[k] + at[t]]
        if all_fit(q, action):
            value = value_at(q.run, q.p, action, values)
            if value > best:
                best = value
                copy_action(action, best_action)
        i = q.size - 1
        while i >= 0 and at[i] + 1 == q.start[q.group[i] + 1] - q.start[q.group[i]]:
            at[i] = 0
            i -= 1
        at[i] += 1
    copy_action(best_action, action)
    return best


@unmanaged
def cost_of_all(s: Decisions, g: int, start: Ints, edges: int) -> float:
    """Return the cost of `try_all`, in edges: it goes through all combinations and evaluates those without clashes."""
    steps, fitting = 1.0, 1.0
    first, last = s.group_start[g], s.group_start[g + 1]
    for t in range(first, last):
        k = s.group[t]
        number = start[k + 1] - start[k]
        rivals = 0
        for u in range(first, t):
            rivals += s.conflict[k * s.decisions + s.group[u]]
        steps *= number
        fitting *= max(1, number - rivals)
    return steps * (last - first) + fitting * edges
