"""Compiled search for the best action of one group of decisions, and the proofs that nothing is better.

The expected reward of a group is a circuit of mixtures and sums, so the maximum may be taken inside: if every
mixture is set to its best choice apart, the root is an upper bound (`relax`), and it is attained where all
mixtures of one decision agree. On that stand three ways to a proof:

- `assign`: where the reward is a sum or a product of one term a decision, constraints make it an assignment problem.
- `exchange`: where all decisions read one column of a table, bounds on what a swap can gain fix signs and order.
- `branch`: branch and bound for the rest, within a budget; what is not proven is returned with its upper bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from idbandits.passes import Circuit, compiled, down, entry, up
from idbandits.tables import Floats, Ints

Bools = npt.NDArray[np.bool_]


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
    zero: Floats  # a group: the constant that is added to the product


GENERAL, SUM, PRODUCT, SORTED = 0, 1, 2, 3


@compiled
def item(s: Decisions, k: int, choice: int) -> int:
    """The item that a choice stands for: the same number for equal labels of different decisions."""
    return choice if s.data[s.item_start + k] < 0 else int(s.data[s.items + s.data[s.item_start + k] + choice])


@compiled
def clash(s: Decisions, j: int, a: int, k: int, b: int) -> bool:
    """Whether choices a of decision j and b of decision k exclude each other."""
    return bool(s.data[s.conflict + j * s.decisions + k]) and item(s, j, a) == item(s, k, b)


@compiled
def key_of(c: Circuit, s: Decisions, p: Floats, action: Ints, k: int, choice: int) -> float:
    """The parameter that says all of a choice."""
    kept = action[k]
    action[k] = choice
    value = p[entry(c, s.data[s.key + k], action)]
    action[k] = kept
    return float(value)


@compiled
def extremes(c: Circuit, s: Decisions, p: Floats, action: Ints, k: int, most: int, found: Ints, at: int) -> None:
    """The choices with the `most` highest and the `most` lowest keys, highest first: the others cannot be needed."""
    keys = np.empty(2 * most)
    end = at + 2 * most - 1
    for i in range(most):
        keys[i], keys[2 * most - 1 - i] = -np.inf, np.inf
    for i in range(s.data[s.choices + k]):
        key = key_of(c, s, p, action, k, i)
        if key > keys[most - 1]:
            j = most - 1
            while j > 0 and keys[j - 1] < key:
                keys[j], found[at + j] = keys[j - 1], found[at + j - 1]
                j -= 1
            keys[j], found[at + j] = key, i
        if key < keys[most]:
            j = 0
            while j < most - 1 and keys[2 * most - 2 - j] < key:
                j += 1
            for moved in range(most - 1, j, -1):
                keys[2 * most - 1 - moved], found[end - moved] = keys[2 * most - moved], found[end - moved + 1]
            keys[2 * most - 1 - j], found[end - j] = key, i


@compiled
def candidates(c: Circuit, s: Decisions, p: Floats, action: Ints, group: Ints, start: Ints) -> Ints:
    """The choices worth a look: all, or those with extreme keys where the reward is linear in one key.

    A decision's candidates begin at `start`, which is filled in.
    """
    most = np.ones(s.decisions, np.int64)
    for k in group:
        for j in group:
            most[k] += s.data[s.conflict + k * s.decisions + j]
    inside = np.zeros(s.decisions, np.bool_)
    for k in group:
        inside[k] = True
    start[0] = 0
    for k in range(s.decisions):
        number = 0
        if inside[k]:
            number = s.data[s.choices + k]
            if s.data[s.use_start + k] == s.data[s.use_start + k + 1]:  # nothing depends on it: any that is free will do
                number = min(most[k], number)
            elif s.data[s.key + k] >= 0 and s.data[s.linear + k]:
                number = min(2 * most[k], number)
        start[k + 1] = start[k] + number
    found = np.empty(start[s.decisions], np.int64)
    for k in group:
        number = start[k + 1] - start[k]
        if s.data[s.like + k] < k and inside[s.data[s.like + k]]:
            for i in range(number):
                found[start[k] + i] = found[start[s.data[s.like + k]] + i]
        elif number == 2 * most[k] and number < s.data[s.choices + k] and s.data[s.key + k] >= 0 and s.data[s.linear + k]:
            extremes(c, s, p, action, k, most[k], found, start[k])
        else:
            for i in range(number):
                found[start[k] + i] = i
    return found


@compiled
def value_at(c: Circuit, first: int, last: int, p: Floats, action: Ints, values: Floats) -> float:
    """The expected reward of a group of decisions."""
    for n in range(first, last):
        if c.data[c.product + n]:
            e = c.data[c.start + n]
            values[c.leaves + n] = values[c.data[c.child + e]] * values[c.data[c.child + e + 1]]
        else:
            values[c.leaves + n] = mixture(c, n, p, action, values)
    return float(values[c.leaves + last - 1])


@compiled
def mixture(c: Circuit, n: int, p: Floats, action: Ints, values: Floats) -> float:
    """The weighted sum at a node."""
    total = 0.0
    for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
        child = values[c.data[c.child + e]]
        total += child if c.data[c.slot + e] < 0 else p[entry(c, c.data[c.slot + e], action)] * child
    return total


@compiled
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


@compiled
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
                fits &= not clash(s, s.data[s.dep + t], action[s.data[s.dep + t]], s.data[s.dep + u], action[s.data[s.dep + u]])
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


@compiled
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
    weight = np.zeros(s.decisions)
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
                if weight[k] == 0.0:
                    chosen[k] = picks[t]
                elif chosen[k] != picks[t]:
                    against[k] += slope
                    if slope > weight[k]:
                        chosen[k] = picks[t]
                weight[k] = max(weight[k], slope)
        for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
            slopes[c.data[c.child + e]] += slope if c.data[c.slot + e] < 0 else slope * p[entry(c, c.data[c.slot + e], action)]
    branch_on = -1
    for k in group:
        if free[k] and against[k] > 0.0 and (branch_on < 0 or against[k] > against[branch_on]):
            branch_on = k
    if branch_on >= 0:
        return branch_on
    for k in group:
        for j in group:
            if j < k and free[j] and free[k] and weight[j] > 0 and weight[k] > 0:
                if clash(s, j, chosen[j], k, chosen[k]):
                    worse = k if weight[k] >= weight[j] else j
                    if branch_on < 0 or weight[worse] > weight[branch_on]:
                        branch_on = worse
    if branch_on >= 0:
        return branch_on
    for k in group:  # decisions that nothing depends on take any choice; they may still stand in another's way
        if free[k] and weight[k] == 0.0:
            chosen[k] = -1
    return -1


@compiled
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


@compiled
def fits_with(s: Decisions, k: int, choice: int, action: Ints, done: Bools) -> bool:
    """Whether a choice clashes with no decision that is made."""
    for j in range(s.decisions):
        if s.data[s.conflict + k * s.decisions + j] and done[j] and clash(s, k, choice, j, action[j]):
            return False
    return True


@compiled
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
                base -= slopes[c.leaves + s.data[s.edge_node + e]] * values[c.data[c.child + e]] * p[entry(c, c.data[c.slot + e], action)]
        for i in range(start[k], start[k + 1]):
            action[k] = cands[i]
            total = base
            for t in range(s.data[s.use_start + k], s.data[s.use_start + k + 1]):
                e = s.data[s.use + t]
                if first <= s.data[s.edge_node + e] < last:
                    total += slopes[c.leaves + s.data[s.edge_node + e]] * values[c.data[c.child + e]] * p[entry(c, c.data[c.slot + e], action)]
            scores[i] = total
    else:
        for i in range(start[k], start[k + 1]):
            action[k] = cands[i]
            scores[i] = value_at(c, first, last, p, action, values)
        action[k] = kept
        value_at(c, first, last, p, action, values)
    action[k] = kept


@compiled
def slopes_at(
    c: Circuit, first: int, last: int, p: Floats, action: Ints, values: Floats, slopes: Floats, weights: Floats
) -> float:
    """Value and derivatives of a group's reward at an action."""
    for e in range(c.data[c.start + first], c.data[c.start + last]):
        if c.data[c.slot + e] >= 0:
            weights[c.data[c.slot + e]] = p[entry(c, c.data[c.slot + e], action)]
    up(c, first, last, weights, values)
    down(c, first, last, weights, values, slopes, np.zeros(len(weights)))
    return float(values[c.leaves + last - 1])


@compiled
def improve(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, group: Ints, start: Ints, cands: Ints,
    values: Floats, slopes: Floats, weights: Floats, scores: Floats,
) -> float:  # fmt: skip
    """Better one decision at a time, and by swapping two that conflict, until nothing helps."""
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


@compiled
def all_fit(s: Decisions, group: Ints, action: Ints) -> bool:
    """Whether no two decisions clash."""
    for k in group:
        for j in group:
            if j < k and clash(s, j, action[j], k, action[k]):
                return False
    return True


@compiled
def branch(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, group: Ints, start: Ints, cands: Ints,
    budget: float,
) -> tuple[float, float]:  # fmt: skip
    """Branch and bound; leaves the best action found in `action`, returns its value and an upper bound."""
    nodes = c.leaves + c.inner
    values, slopes, room = np.ones(nodes), np.empty(nodes), np.ones(nodes)
    weights, scores = np.empty(c.slots), np.empty(len(cands))
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
                found = improve(c, s, first, last, p, trial, group, start, cands, room, slopes, weights, scores)
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
        enough = best + 1e-12 * (1.0 + abs(best))
        ahead = -1
        while depth >= 0:
            k = on[depth]
            ahead = start[k]
            for i in range(start[k], start[k + 1]):
                if bounds[depth, i - start[k]] > bounds[depth, ahead - start[k]]:
                    ahead = i
            if bounds[depth, ahead - start[k]] > enough:
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


@compiled
def copy(source: Ints, target: Ints) -> None:
    """Copy a vector."""
    for i in range(len(source)):
        target[i] = source[i]


@compiled
def assign(
    c: Circuit, s: Decisions, g: int, first: int, last: int, p: Floats, action: Ints, group: Ints, start: Ints,
    cands: Ints,
) -> bool:  # fmt: skip
    """The best action where the reward is a sum or a product of one term a decision; False where it does not hold."""
    nodes = c.leaves + c.inner
    values, slopes = np.ones(nodes), np.empty(nodes)
    weights, scores = np.empty(c.slots), np.empty(len(cands))
    for k in group:
        action[k] = cands[start[k]]
    base = slopes_at(c, first, last, p, action, values, slopes, weights)
    for k in group:
        score(c, s, first, last, p, action, k, start, cands, values, slopes, scores)
    if s.data[s.form + g] == PRODUCT:
        zero = s.zero[g]
        for k in group:  # a base far from the constant: there the factors lose no digits
            for i in range(start[k], start[k + 1]):
                if abs(scores[i] - zero) > abs(scores[start[k]] - zero):
                    scores[start[k]] = scores[i]
                    action[k] = cands[i]
        base = slopes_at(c, first, last, p, action, values, slopes, weights) - zero
        for k in group:
            score(c, s, first, last, p, action, k, start, cands, values, slopes, scores)
        for k in group:
            for i in range(start[k], start[k + 1]):
                factor = (scores[i] - zero) / base if base != 0.0 else 1.0
                if factor < -1e-9:
                    return False
                scores[i] = np.log(max(factor, 1e-300)) * (1.0 if base > 0 else -1.0)
    taken = np.zeros(s.decisions, np.bool_)
    for k in group:
        if not taken[k]:
            size = 0
            clique = np.empty(len(group), np.int64)
            for j in group:
                if j == k or s.data[s.conflict + j * s.decisions + k]:
                    clique[size] = j
                    taken[j] = True
                    size += 1
            match(s, clique[:size], start, cands, scores, action)
    return True


@compiled
def match(s: Decisions, rows: Ints, start: Ints, cands: Ints, scores: Floats, action: Ints) -> None:
    """Different items for these decisions with the highest sum of scores: successive shortest paths."""
    most = 0
    for k in rows:
        for i in range(start[k], start[k + 1]):
            most = max(most, item(s, k, cands[i]))
    column_of = np.zeros(most + 1, np.int64)  # 0: no column yet
    m = 0
    for k in rows:
        for i in range(start[k], start[k + 1]):
            if column_of[item(s, k, cands[i])] == 0:
                m += 1
                column_of[item(s, k, cands[i])] = m
    n = len(rows)
    cost = np.full((n + 1, m + 1), np.inf)
    choice = np.zeros((n + 1, m + 1), np.int64)
    for r in range(n):
        k = rows[r]
        for i in range(start[k], start[k + 1]):
            column = column_of[item(s, k, cands[i])]
            if -scores[i] < cost[r + 1, column]:
                cost[r + 1, column] = -scores[i]
                choice[r + 1, column] = cands[i]
    # potentials u of rows and v of columns; matched[column] is its row, 0 while it is free
    u, v = np.zeros(n + 1), np.zeros(m + 1)
    matched, way = np.zeros(m + 1, np.int64), np.zeros(m + 1, np.int64)
    for r in range(1, n + 1):
        matched[0] = r
        at = 0
        nearest = np.full(m + 1, np.inf)
        used = np.zeros(m + 1, np.bool_)
        while matched[at] != 0:
            used[at] = True
            row, delta, ahead = matched[at], np.inf, -1
            for column in range(1, m + 1):
                if used[column]:
                    continue
                reduced = cost[row, column] - u[row] - v[column]
                if reduced < nearest[column]:
                    nearest[column], way[column] = reduced, at
                if nearest[column] < delta:
                    delta, ahead = nearest[column], column
            for column in range(m + 1):
                if used[column]:
                    u[matched[column]] += delta
                    v[column] -= delta
                else:
                    nearest[column] -= delta
            at = ahead
        while at != 0:
            matched[at] = matched[way[at]]
            at = way[at]
    for column in range(1, m + 1):
        if matched[column] > 0:
            action[rows[matched[column] - 1]] = choice[matched[column], column]


@compiled
def span(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, low: Ints, high: Ints, forced: Floats,
    lower: Floats, upper: Floats,
) -> None:  # fmt: skip
    """Bounds of all nodes while every key moves between those of two choices, or is forced to a value (NaN: not)."""
    for n in range(first, last):
        t = s.data[s.dep_start + n]
        if t == s.data[s.dep_start + n + 1]:
            lower[c.leaves + n] = mixture(c, n, p, action, lower)
            upper[c.leaves + n] = mixture(c, n, p, action, upper)
            continue
        k = s.data[s.dep + t]
        a, b = weighed(c, s, n, k, p, action, low[k], forced[k], lower), np.nan
        x, y = weighed(c, s, n, k, p, action, low[k], forced[k], upper), np.nan
        if np.isnan(forced[k]):
            b = weighed(c, s, n, k, p, action, high[k], forced[k], lower)
            y = weighed(c, s, n, k, p, action, high[k], forced[k], upper)
        lower[c.leaves + n] = a if np.isnan(b) else min(a, b)
        upper[c.leaves + n] = x if np.isnan(y) else max(x, y)


@compiled
def weighed(
    c: Circuit, s: Decisions, n: int, k: int, p: Floats, action: Ints, choice: int, forced: float, values: Floats
) -> float:
    """The mixture at a node that depends on decision k, at a choice or with its key forced to a value."""
    kept = action[k]
    action[k] = choice
    total = 0.0
    if np.isnan(forced):
        total = mixture(c, n, p, action, values)
    else:
        for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
            slot = c.data[c.slot + e]
            weight = 1.0
            if slot >= 0:
                moves = False
                for t in range(c.data[c.slot_start + slot], c.data[c.slot_start + slot + 1]):
                    moves |= c.data[c.slot_axis + t] == k
                if not moves:
                    weight = p[entry(c, slot, action)]
                else:
                    weight = forced if slot == s.data[s.key + k] else 1.0 - forced
            total += weight * values[c.data[c.child + e]]
    action[k] = kept
    return total


@compiled
def least_gain(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, low: Ints, high: Ints, here: Floats,
    there: Floats, room: Floats,
) -> float:  # fmt: skip
    """A lower bound on reward(keys forced as in `here`) - reward(as in `there`), all other keys moving alike.

    Where neither forces anything the difference is passed up with the same weights on both sides, so what the
    two have in common cancels.
    """
    lower_here, upper_here, lower_there, upper_there, gain = room[0], room[1], room[2], room[3], room[4]
    span(c, s, first, last, p, action, low, high, here, lower_here, upper_here)
    span(c, s, first, last, p, action, low, high, there, lower_there, upper_there)
    for n in range(c.leaves):
        gain[n] = 0.0
    for n in range(first, last):
        apart = lower_here[c.leaves + n] - upper_there[c.leaves + n]
        t = s.data[s.dep_start + n]
        if t == s.data[s.dep_start + n + 1]:
            gain[c.leaves + n] = max(apart, mixture(c, n, p, action, gain))
        elif np.isnan(here[s.data[s.dep + t]]):
            k = s.data[s.dep + t]
            a = weighed(c, s, n, k, p, action, low[k], np.nan, gain)
            b = weighed(c, s, n, k, p, action, high[k], np.nan, gain)
            gain[c.leaves + n] = max(apart, min(a, b))
        else:
            gain[c.leaves + n] = apart
    return float(gain[c.leaves + last - 1])


@compiled
def follows(group: Ints, rises: Bools, steep: Floats, scale: float, i: int, j: int) -> bool:
    """Whether position i comes after position j: rising ones first, steepest first."""
    if rises[group[i]] != rises[group[j]]:
        return bool(rises[group[j]])
    return bool(steep[i] < steep[j] - scale)


@compiled
def exchange(
    c: Circuit, s: Decisions, first: int, last: int, p: Floats, action: Ints, group: Ints, start: Ints, cands: Ints
) -> bool:
    """Sort items into positions and prove it: all decisions exclude each other and read one column of a table.

    If the reward rises in a key, whatever the others are, only the highest items can be best there, and if it
    falls, the lowest. Within either class the order is proven by swaps of positions that follow each other in it:
    from any other order such swaps lead to this one, and none loses.
    """
    nodes = c.leaves + c.inner
    values, slopes, weights = np.ones(nodes), np.empty(nodes), np.empty(c.slots)
    room = np.ones((5, nodes))
    size = len(group)
    k0 = group[0]
    number = start[k0 + 1] - start[k0]
    pool, keys = np.empty(number, np.int64), np.empty(number)
    for i in range(number):  # highest key first
        key = key_of(c, s, p, action, k0, cands[start[k0] + i])
        j = i
        while j > 0 and keys[j - 1] < key:
            pool[j], keys[j] = pool[j - 1], keys[j - 1]
            j -= 1
        pool[j], keys[j] = cands[start[k0] + i], key
    low, high = np.zeros(s.decisions, np.int64), np.zeros(s.decisions, np.int64)
    for k in group:
        low[k], high[k] = pool[number - 1], pool[0]
    here, there = np.full(s.decisions, np.nan), np.full(s.decisions, np.nan)
    rises = np.zeros(s.decisions, np.bool_)
    settled = np.zeros(s.decisions, np.bool_)
    rising = 0
    for _ in range(size):  # a settled sign narrows the box, which may settle others
        progress = False
        for k in group:
            if settled[k]:
                continue
            here[k], there[k] = 1.0, 0.0
            if least_gain(c, s, first, last, p, action, low, high, here, there, room) >= 0.0:
                settled[k], rises[k], low[k] = True, True, pool[size - 1]
                rising += 1
            elif least_gain(c, s, first, last, p, action, low, high, there, here, room) >= 0.0:
                settled[k], high[k] = True, pool[number - size]
            here[k], there[k] = np.nan, np.nan
            progress |= settled[k]
        if not progress:
            break
    for k in group:
        if not settled[k]:
            return False
        if rises[k]:
            low[k] = pool[rising - 1]
        else:
            high[k] = pool[number - (size - rising)]
        action[k] = low[k]
    slopes_at(c, first, last, p, action, values, slopes, weights)  # inside the box
    steep = np.zeros(size)
    for i in range(size):
        k = group[i]
        for t in range(s.data[s.use_start + k], s.data[s.use_start + k + 1]):
            e = s.data[s.use + t]
            part = slopes[c.leaves + s.data[s.edge_node + e]] * values[c.data[c.child + e]]
            steep[i] += part if c.data[c.slot + e] == s.data[s.key + k] else -part
    scale = 0.0
    for i in range(size):
        scale = max(scale, 1e-12 * abs(steep[i]))
    order = np.arange(size)  # equal ones stay in the order of declaration
    for i in range(1, size):
        j = i
        while j > 0 and follows(group, rises, steep, scale, order[j - 1], order[j]):
            order[j - 1], order[j] = order[j], order[j - 1]
            j -= 1
    for i in range(size - 1):
        j, k = group[order[i]], group[order[i + 1]]
        if rises[j] == rises[k]:
            here[j], here[k], there[j], there[k] = 1.0, 0.0, 0.0, 1.0
            ordered = least_gain(c, s, first, last, p, action, low, high, here, there, room) >= 0.0
            here[j], here[k], there[j], there[k] = np.nan, np.nan, np.nan, np.nan
            if not ordered:
                return False
    for i in range(size):
        k = group[order[i]]
        action[k] = pool[i] if i < rising else pool[number - size + i]
    return True


@compiled
def solve(c: Circuit, s: Decisions, p: Floats, action: Ints, budget: float) -> tuple[float, float]:
    """Put the best action found into `action` (its contexts are given); returns its value and an upper bound."""
    room = np.ones(c.leaves + c.inner)
    total, most = 0.0, 0.0
    for k in range(s.decisions):
        action[k] = s.data[s.feasible + k]
    start = np.zeros(s.decisions + 1, np.int64)
    for g in range(s.groups):
        group = s.data[s.group + s.data[s.group_start + g] : s.group + s.data[s.group_start + g + 1]]
        first, last = s.data[s.group_end + g], s.data[s.group_end + g + 1]
        if len(group) == 0:
            value = value_at(c, first, last, p, action, room)
            total, most = total + value, most + value
            continue
        cands = candidates(c, s, p, action, group, start)
        proven = False
        if s.data[s.form + g] == SUM or s.data[s.form + g] == PRODUCT:
            proven = assign(c, s, g, first, last, p, action, group, start, cands)
        elif s.data[s.form + g] == SORTED:
            proven = exchange(c, s, first, last, p, action, group, start, cands)
        if proven:
            value = value_at(c, first, last, p, action, room)
            bound = value
        else:
            for k in group:
                action[k] = s.data[s.feasible + k]
            value, bound = branch(c, s, first, last, p, action, group, start, cands, budget)
        total, most = total + value, most + bound
    return total, most
