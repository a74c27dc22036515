"""Compiled search for the best action of one group of decisions: branch and bound, for any reward and constraint.

The expected reward of a group is a circuit of mixtures and sums, so the maximum may be taken inside: if every
mixture is set to its best choice apart, the root is an upper bound (`relax`), and it is attained where all
mixtures of one decision agree. `branch` makes decisions one by one until that is so, within a budget; what is
not proven by then is returned with its upper bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idbandits.circuit.passes import Circuit, down, entry, up, weight
from idbandits.kernel.compiling import bare, inlined, merged, part
from idbandits.kernel.types import Bools, Floats, Ints


class Decisions(NamedTuple):
    """What the search needs to know of the decisions of a diagram, packed like a `Circuit`."""

    decisions: int  # how many
    deps: int  # how many entries in `dep`
    groups: int  # how many
    choices: int  # a decision: how many choices
    conflict: int  # a pair of decisions: 1 if they may not share an item
    item_start: int  # a decision: where its choices' items begin in `items`; -1 where the choice is the item
    items: int
    dep_start: int  # an inner node: the decisions that its own weights depend on
    dep: int
    use_start: int  # a decision: the edges whose weight depends on it
    use: int
    edge_node: int  # an edge: the inner node it belongs to
    linear: int  # a decision: 1 if no product of two of its weights occurs
    key: int  # a decision: the one slot that says all of its choices (its complement aside), or -1
    like: int  # a decision: the first decision with the same key and choices
    group_start: int  # a group: its decisions
    group: int
    group_end: int  # a group: its nodes, group_end[g] to group_end[g + 1]
    form: int  # a group: how its reward is composed, below
    feasible: int  # an action that satisfies the constraints
    data: Ints
    zero: Floats  # a group: the constant that is added to the product; last, how large rewards are


GENERAL, SUM, PRODUCT, SORTED, FREE = 0, 1, 2, 3, 4  # FREE: linear in one key a decision, and no constraint


@inlined
def item(s: Decisions, k: int, choice: int) -> int:
    """The item that a choice stands for: the same number for equal labels of different decisions."""
    return choice if s.data[s.item_start + k] < 0 else int(s.data[s.items + s.data[s.item_start + k] + choice])


@inlined
def clash(s: Decisions, j: int, a: int, k: int, b: int) -> bool:
    """Whether choices a of decision j and b of decision k exclude each other."""
    return bool(s.data[s.conflict + j * s.decisions + k]) and item(s, j, a) == item(s, k, b)


@merged
def exceeds(s: Decisions, bound: float, best: float) -> bool:
    """Whether a bound leaves room above the best value, rounding aside."""
    return bool(bound > best + 1e-12 * (s.zero[s.groups] + abs(best)))


@merged
def key_of(c: Circuit, s: Decisions, p: Floats, action: Ints, k: int, choice: int) -> float:
    """The parameter that says all of a choice."""
    kept = action[k]
    action[k] = choice
    value = weight(c, s.data[s.key + k], p, action)
    action[k] = kept
    return value


@part
def extremes(c: Circuit, s: Decisions, p: Floats, action: Ints, k: int, most: int, found: Ints, at: int) -> None:
    """The choices with the `most` highest and the `most` lowest keys, highest first: the others cannot be needed."""
    keys = np.empty(2 * most)
    end = at + 2 * most - 1
    slot = s.data[s.key + k]
    plain = c.data[c.slot_also + slot] < 0 and c.data[c.slot_lookup + slot] < 0
    kept = action[k]
    action[k] = 0
    base = entry(c, slot, action)
    action[k] = 1
    stride = entry(c, slot, action) - base
    action[k] = kept
    for i in range(most):
        keys[i], keys[2 * most - 1 - i] = -np.inf, np.inf
    for i in range(s.data[s.choices + k]):
        key = p[base + stride * i] if plain else key_of(c, s, p, action, k, i)
        if key > keys[most - 1]:
            j = most - 1
            while j > 0 and keys[j - 1] < key:
                keys[j], found[at + j] = keys[j - 1], found[at + j - 1]
                j -= 1
            keys[j], found[at + j] = key, i
        if key < keys[most]:
            j = 0
            while j < most - 1 and keys[2 * most - 1 - j] < key:
                j += 1
            for moved in range(most - 1, j, -1):
                keys[2 * most - 1 - moved], found[end - moved] = keys[2 * most - moved], found[end - moved + 1]
            keys[2 * most - 1 - j], found[end - j] = key, i


@part
def count_candidates(s: Decisions, group: Ints, start: Ints) -> Ints:
    """Fill in where each decision's candidates begin; how many of the best may be needed, 0 outside `group`."""
    most = np.zeros(s.decisions, np.int64)
    for k in group:
        most[k] = 1
        for j in group:
            most[k] += s.data[s.conflict + k * s.decisions + j]
    start[0] = 0
    for k in range(s.decisions):
        number = 0
        if most[k] > 0:
            number = s.data[s.choices + k]
            if (
                s.data[s.use_start + k] == s.data[s.use_start + k + 1]
            ):  # nothing depends on it: any that is free will do
                number = min(most[k], number)
            elif s.data[s.key + k] >= 0 and s.data[s.linear + k]:
                number = min(2 * most[k], number)
        start[k + 1] = start[k] + number
    return most


@part
def candidates(c: Circuit, s: Decisions, p: Floats, action: Ints, group: Ints, start: Ints) -> Ints:
    """The choices worth a look: all, or those with extreme keys where the reward is linear in one key.

    A decision's candidates begin at `start`, which is filled in.
    """
    most = count_candidates(s, group, start)
    found = np.empty(start[s.decisions], np.int64)
    for k in group:
        number = start[k + 1] - start[k]
        if s.data[s.like + k] < k and most[s.data[s.like + k]] > 0:
            for i in range(number):
                found[start[k] + i] = found[start[s.data[s.like + k]] + i]
        elif (
            number == 2 * most[k] and number < s.data[s.choices + k] and s.data[s.key + k] >= 0 and s.data[s.linear + k]
        ):
            extremes(c, s, p, action, k, most[k], found, start[k])
        else:
            for i in range(number):
                found[start[k] + i] = i
    return found


@bare
def value_at(c: Circuit, first: int, last: int, p: Floats, action: Ints, values: Floats) -> float:
    """The expected reward of a group of decisions."""
    for n in range(first, last):
        if c.data[c.product + n]:
            e = c.data[c.start + n]
            values[c.leaves + n] = values[c.data[c.child + e]] * values[c.data[c.child + e + 1]]
        else:
            values[c.leaves + n] = mixture(c, n, p, action, values)
    return float(values[c.leaves + last - 1])


@merged
def mixture(c: Circuit, n: int, p: Floats, action: Ints, values: Floats) -> float:
    """The weighted sum at a node."""
    total = 0.0
    for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
        child = values[c.data[c.child + e]]
        total += child if c.data[c.slot + e] < 0 else weight(c, c.data[c.slot + e], p, action) * child
    return total


@part
def relax(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, free: Bools, start: Ints, cands: Ints,
    allowed: Bools, values: Floats, picks: Ints,
) -> float:  # fmt: skip
    """The upper bound with every mixture at its best choice apart; `picks` holds these choices."""
    for k in range(s.decisions):
        if free[k]:
            for i in range(start[k], start[k + 1]):
                allowed[i] = True
                for j in range(s.decisions):
                    if s.data[s.conflict + k * s.decisions + j] and not free[j] and clash(s, k, cands[i], j, action[j]):
                        allowed[i] = False
    for n in range(first, last):
        if c.data[c.product + n]:
            e = c.data[c.start + n]
            values[c.leaves + n] = values[c.data[c.child + e]] * values[c.data[c.child + e + 1]]
            continue
        open_deps = 0
        lone = -1
        for t in range(s.data[s.dep_start + n], s.data[s.dep_start + n + 1]):
            picks[t] = action[s.data[s.dep + t]]
            if free[s.data[s.dep + t]]:
                open_deps += 1
                lone = t
        if open_deps == 0:
            values[c.leaves + n] = mixture(c, n, p, action, values)
        elif open_deps == 1:
            k = s.data[s.dep + lone]
            kept = action[k]
            best = -np.inf
            for i in range(start[k], start[k + 1]):
                if allowed[i]:
                    action[k] = cands[i]
                    total = mixture(c, n, p, action, values)
                    if total > best:
                        best, picks[lone] = total, cands[i]
            action[k] = kept
            values[c.leaves + n] = best
        else:
            values[c.leaves + n] = relax_jointly(c, s, n, p, action, free, start, cands, allowed, values, picks)
    return float(values[c.leaves + last - 1])


@part
def relax_jointly(
    c: Circuit, s: Decisions, n: int, p: Floats, action: Ints, free: Bools, start: Ints, cands: Ints,
    allowed: Bools, values: Floats, picks: Ints,
) -> float:  # fmt: skip
    """The best value of a mixture that depends on several open decisions."""
    first, last = s.data[s.dep_start + n], s.data[s.dep_start + n + 1]
    at = np.zeros(last - first, np.int64)
    kept = np.empty(last - first, np.int64)
    for t in range(first, last):
        kept[t - first] = action[s.data[s.dep + t]]
    best = -np.inf
    running = True
    while running:
        fits = True
        for t in range(first, last):
            k = s.data[s.dep + t]
            if free[k]:
                i = start[k] + at[t - first]
                fits &= allowed[i]
                action[k] = cands[i]
        for t in range(first, last):
            for u in range(first, t):
                fits &= not clash(
                    s, s.data[s.dep + t], action[s.data[s.dep + t]], s.data[s.dep + u], action[s.data[s.dep + u]]
                )
        if fits:
            total = mixture(c, n, p, action, values)
            if total > best:
                best = total
                for t in range(first, last):
                    picks[t] = action[s.data[s.dep + t]]
        t = last - 1  # the next combination, last decision fastest
        while t >= first:
            k = s.data[s.dep + t]
            if free[k] and at[t - first] + 1 < start[k + 1] - start[k]:
                at[t - first] += 1
                break
            at[t - first] = 0
            t -= 1
        running = t >= first
    for t in range(first, last):
        action[s.data[s.dep + t]] = kept[t - first]
    return best


@part
def read_off(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, free: Bools, group: Ints, picks: Ints,
    values: Floats, slopes: Floats, chosen: Ints,
) -> int:  # fmt: skip
    """The choice that each open decision makes in a relaxation; returns the decision to branch on, -1 if all agree.

    A mixture counts by how much the root depends on it. The decision whose mixtures disagree most is branched on,
    or else one that clashes with another.
    """
    for n in range(first, last):
        slopes[c.leaves + n] = 0.0
    slopes[c.leaves + last - 1] = 1.0
    matter = np.zeros(s.decisions)
    against = np.zeros(s.decisions)
    for n in range(last - 1, first - 1, -1):
        slope = slopes[c.leaves + n]
        if slope <= 0.0:
            continue
        if c.data[c.product + n]:
            left, right = c.data[c.child + c.data[c.start + n]], c.data[c.child + c.data[c.start + n] + 1]
            slopes[left] += slope * values[right]
            slopes[right] += slope * values[left]
            continue
        for t in range(s.data[s.dep_start + n], s.data[s.dep_start + n + 1]):
            k = s.data[s.dep + t]
            if free[k]:
                action[k] = picks[t]
                if matter[k] == 0.0:
                    chosen[k] = picks[t]
                elif chosen[k] != picks[t]:
                    against[k] += slope
                    if slope > matter[k]:
                        chosen[k] = picks[t]
                matter[k] = max(matter[k], slope)
        for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
            slopes[c.data[c.child + e]] += (
                slope if c.data[c.slot + e] < 0 else slope * weight(c, c.data[c.slot + e], p, action)
            )
    branch_on = -1
    for k in group:
        if free[k] and against[k] > 0.0 and (branch_on < 0 or against[k] > against[branch_on]):
            branch_on = k
    if branch_on >= 0:
        return branch_on
    for k in group:
        for j in group:
            both = j < k and free[j] and free[k] and matter[j] > 0 and matter[k] > 0
            if both and clash(s, j, chosen[j], k, chosen[k]):
                worse = k if matter[k] >= matter[j] else j
                if branch_on < 0 or matter[worse] > matter[branch_on]:
                    branch_on = worse
    if branch_on >= 0:
        return branch_on
    for k in group:  # decisions that nothing depends on take any choice; they may still stand in another's way
        if free[k] and matter[k] == 0.0:
            chosen[k] = -1
    return -1


@part
def fill(s: Decisions, group: Ints, free: Bools, start: Ints, cands: Ints, chosen: Ints, action: Ints) -> bool:
    """Turn choices into an action without clashes, changing as few as possible; says whether it could."""
    done = np.zeros(s.decisions, np.bool_)
    for k in group:
        done[k] = not free[k]
    for wanted in (True, False):
        for k in group:
            if done[k]:
                continue
            if wanted:
                if chosen[k] >= 0 and fits_with(s, k, chosen[k], action, done):
                    action[k] = chosen[k]
                    done[k] = True
                continue
            for i in range(start[k], start[k + 1]):
                if fits_with(s, k, cands[i], action, done):
                    action[k] = cands[i]
                    done[k] = True
                    break
            if not done[k]:
                return False
    return True


@bare
def fits_with(s: Decisions, k: int, choice: int, action: Ints, done: Bools) -> bool:
    """Whether a choice clashes with no decision that is made."""
    for j in range(s.decisions):
        if s.data[s.conflict + k * s.decisions + j] and done[j] and clash(s, k, choice, j, action[j]):
            return False
    return True


@bare
def score(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, k: int, start: Ints, cands: Ints,
    values: Floats, slopes: Floats, scores: Floats,
) -> None:  # fmt: skip
    """The reward for every candidate of one decision, the others as they are.

    `values` and `slopes` are those of the action: with a linear dependence one derivative pass serves all.
    """
    kept = action[k]
    base = values[c.leaves + last - 1]
    if s.data[s.linear + k]:
        for t in range(s.data[s.use_start + k], s.data[s.use_start + k + 1]):
            e = s.data[s.use + t]
            if first <= s.data[s.edge_node + e] < last:
                base -= (
                    slopes[c.leaves + s.data[s.edge_node + e]]
                    * values[c.data[c.child + e]]
                    * weight(c, c.data[c.slot + e], p, action)
                )
        for i in range(start[k], start[k + 1]):
            action[k] = cands[i]
            total = base
            for t in range(s.data[s.use_start + k], s.data[s.use_start + k + 1]):
                e = s.data[s.use + t]
                if first <= s.data[s.edge_node + e] < last:
                    total += (
                        slopes[c.leaves + s.data[s.edge_node + e]]
                        * values[c.data[c.child + e]]
                        * weight(c, c.data[c.slot + e], p, action)
                    )
            scores[i] = total
    else:
        for i in range(start[k], start[k + 1]):
            action[k] = cands[i]
            scores[i] = value_at(c, first, last, p, action, values)
        action[k] = kept
        value_at(c, first, last, p, action, values)
    action[k] = kept


@part
def slopes_at(
    c: Circuit, first: int, last: int, p: Floats, action: Ints, values: Floats, slopes: Floats, weights: Floats
) -> float:
    """Value and derivatives of a group's reward at an action."""
    for e in range(c.data[c.start + first], c.data[c.start + last]):
        if c.data[c.slot + e] >= 0:
            weights[c.data[c.slot + e]] = weight(c, c.data[c.slot + e], p, action)
    up(c, first, last, weights, values)
    down(c, first, last, weights, values, slopes, np.zeros(len(weights)))
    return float(values[c.leaves + last - 1])


@part
def improve(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, group: Ints, start: Ints, cands: Ints
) -> float:
    """Better one decision at a time, and by swapping two that conflict, until nothing helps; returns the value."""
    nodes = c.leaves + c.inner
    values, slopes, weights, scores = np.ones(nodes), np.empty(nodes), np.empty(c.slots), np.empty(len(cands))
    best = slopes_at(c, first, last, p, action, values, slopes, weights)
    everything = np.ones(s.decisions, np.bool_)
    for _ in range(20):
        before = best
        for k in group:
            score(c, s, first, last, p, action, k, start, cands, values, slopes, scores)
            everything[k] = False
            better = action[k]
            for i in range(start[k], start[k + 1]):
                if scores[i] > best + 1e-14 * abs(best) and fits_with(s, k, cands[i], action, everything):
                    best, better = scores[i], cands[i]
            everything[k] = True
            if better != action[k]:
                action[k] = better
                best = slopes_at(c, first, last, p, action, values, slopes, weights)
        for k in group:
            for j in group:
                if j < k and s.data[s.conflict + j * s.decisions + k] and s.data[s.like + j] == s.data[s.like + k]:
                    action[j], action[k] = action[k], action[j]
                    swapped = value_at(c, first, last, p, action, values)
                    if swapped > best + 1e-14 * abs(best) and all_fit(s, group, action):
                        best = swapped
                    else:
                        action[j], action[k] = action[k], action[j]
        best = slopes_at(c, first, last, p, action, values, slopes, weights)
        if best <= before + 1e-13 * abs(before):
            break
    return best


@bare
def all_fit(s: Decisions, group: Ints, action: Ints) -> bool:
    """Whether no two decisions clash."""
    for k in group:
        for j in group:
            if j < k and clash(s, j, action[j], k, action[k]):
                return False
    return True


@part
def try_all(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, group: Ints, start: Ints, cands: Ints
) -> float:
    """The best of all combinations of candidates, left in `action`."""
    values = np.ones(c.leaves + c.inner)
    at = np.zeros(len(group), np.int64)
    best_action = np.zeros_like(action)
    copy(action, best_action)
    best = value_at(c, first, last, p, action, values)
    i = 0
    while i >= 0:
        for j in range(len(group)):
            action[group[j]] = cands[start[group[j]] + at[j]]
        if all_fit(s, group, action):
            value = value_at(c, first, last, p, action, values)
            if value > best:
                best = value
                copy(action, best_action)
        i = len(group) - 1
        while i >= 0 and at[i] + 1 == start[group[i] + 1] - start[group[i]]:
            at[i] = 0
            i -= 1
        at[i] += 1
    copy(best_action, action)
    return best


@bare
def cost_of_all(s: Decisions, group: Ints, start: Ints, edges: int) -> float:
    """What `try_all` costs, in edges: it goes through all combinations and evaluates those without clashes."""
    steps, fitting = 1.0, 1.0
    for k in group:
        number = start[k + 1] - start[k]
        rivals = 0
        for j in group:
            rivals += j < k and s.data[s.conflict + k * s.decisions + j] != 0
        steps *= number
        fitting *= max(1, number - rivals)
    return steps * len(group) + fitting * edges


@part
def branch(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, group: Ints, start: Ints, cands: Ints,
    budget: float,
) -> tuple[float, float]:  # fmt: skip
    """Branch and bound; leaves the best action found in `action`, returns its value and an upper bound."""
    nodes = c.leaves + c.inner
    values, slopes, room = np.ones(nodes), np.empty(nodes), np.ones(nodes)
    allowed = np.zeros(len(cands), np.bool_)
    picks = np.zeros(s.deps, np.int64)
    free = np.zeros(s.decisions, np.bool_)
    chosen, trial, best_action = np.zeros_like(action), np.zeros_like(action), np.zeros_like(action)
    copy(action, best_action)
    widest = 1
    for k in group:
        free[k] = True
        widest = max(widest, start[k + 1] - start[k])
    cost = 1.0  # of one relaxation, in edges
    for n in range(first, last):
        work = float(c.data[c.start + n + 1] - c.data[c.start + n])
        for t in range(s.data[s.dep_start + n], s.data[s.dep_start + n + 1]):
            work *= start[s.data[s.dep + t] + 1] - start[s.data[s.dep + t]]
        cost += work
    # one level a decision that is made: the decision, and an upper bound a candidate (-inf: done or impossible)
    on = np.zeros(len(group) + 1, np.int64)
    bounds = np.empty((len(group) + 1, widest))
    depth = -1
    spent = 0.0
    best = value_at(c, first, last, p, best_action, room)
    bound = relax(c, s, first, last, p, action, free, start, cands, allowed, values, picks)
    while True:
        # `action` and `free` describe the present node, `picks` and `values` its relaxation with value `bound`
        k = read_off(c, s, first, last, p, action, free, group, picks, values, slopes, chosen)
        copy(action, trial)
        complete = fill(s, group, free, start, cands, chosen, trial)
        if complete:
            found = value_at(c, first, last, p, trial, room)
            if depth < 0 and k >= 0:
                found = improve(c, s, first, last, p, trial, group, start, cands)
            if found > best:
                best = found
                copy(trial, best_action)
        elif k < 0:  # all agree, but leave no room for decisions that do not matter
            for j in group:
                if free[j]:
                    k = j
        if k >= 0:
            depth += 1
            on[depth] = k
            free[k] = False
            for i in range(start[k], start[k + 1]):
                bounds[depth, i - start[k]] = -np.inf
                free[k] = True
                fits = True
                for j in group:
                    fits &= free[j] or not clash(s, k, cands[i], j, action[j])
                free[k] = False
                if fits:
                    upper = bound
                    if spent <= budget:
                        action[k] = cands[i]
                        upper = relax(c, s, first, last, p, action, free, start, cands, allowed, values, picks)
                        spent += cost
                    if upper > best:
                        bounds[depth, i - start[k]] = upper
        ahead = -1
        while depth >= 0:
            k = on[depth]
            ahead = start[k]
            for i in range(start[k], start[k + 1]):
                if bounds[depth, i - start[k]] > bounds[depth, ahead - start[k]]:
                    ahead = i
            if exceeds(s, bounds[depth, ahead - start[k]], best):
                break
            free[k] = True
            depth -= 1
        if depth < 0 or spent > budget:
            break
        k = on[depth]
        bound = bounds[depth, ahead - start[k]]
        bounds[depth, ahead - start[k]] = -np.inf
        action[k] = cands[ahead]
        free[k] = False
        relax(c, s, first, last, p, action, free, start, cands, allowed, values, picks)
        spent += cost
    bound = best
    for level in range(depth + 1):
        for i in range(start[on[level] + 1] - start[on[level]]):
            bound = max(bound, bounds[level, i])
    copy(best_action, action)
    return best, bound


@merged
def copy(source: Ints, target: Ints) -> None:
    """Copy a vector."""
    for i in range(len(source)):
        target[i] = source[i]
