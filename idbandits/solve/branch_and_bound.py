"""Branch and bound, for any reward and constraint.

The expected reward of a group is a circuit of mixtures and sums, so the maximum may be taken inside: if every mixture
is set to its best choice apart, the root is an upper bound (`relax`), and it is attained where all mixtures of one
decision agree. `branch` makes decisions one by one until that is so, within a budget; what is not proven by then is
returned with its upper bound.
"""

from typing import NamedTuple

import numpy as np

from idbandits.circuit.circuit import PRODUCT, Circuit
from idbandits.circuit.passes import down, weight
from idbandits.kernel.array_types import Bools, Floats, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged
from idbandits.solve.candidates import Search, clash, copy_action, exceeds, fits_with, improve, value_at


class Relaxed(NamedTuple):
    """Relaxation: decisions that are not free are as in `action`, every mixture of the others is at its best choice."""

    action: Ints
    free: Bools  # of a decision
    allowed: Bools  # of a candidate: whether it clashes with no decision that is made
    values: Floats  # of a node
    picks: Ints  # of an entry of `dep`: the choice of this decision at this node


@inlined
def mixture(q: Search, n: int, action: Ints, values: Floats) -> float:
    """Return the weighted sum at a node."""
    c = q.run.c
    total = 0.0
    for e in range(c.start[n], c.start[n + 1]):
        child = values[c.child[e]]
        total += child if c.slot[e] < 0 else weight(c, c.slot[e], q.p, action) * child
    return total


@linked
def relax(q: Search, r: Relaxed) -> float:
    """Return the upper bound with every mixture at its own best choice; `picks` holds these choices."""
    c, s, action, free, allowed, values, picks = q.run.c, q.s, r.action, r.free, r.allowed, r.values, r.picks
    for k in range(s.decisions):
        if free[k]:
            for i in range(q.start[k], q.start[k + 1]):
                allowed[i] = fits_with(s, k, q.candidates[i], action, free)
    for n in range(q.run.first, q.run.last):
        if c.kind[n] == PRODUCT:
            e = c.start[n]
            values[c.leaves + n] = values[c.child[e]] * values[c.child[e + 1]]
            continue
        free_deps, lone = 0, -1
        for t in range(s.dep_start[n], s.dep_start[n + 1]):
            picks[t] = action[s.dep[t]]
            if free[s.dep[t]]:
                free_deps += 1
                lone = t
        if free_deps == 0:
            values[c.leaves + n] = mixture(q, n, action, values)
        elif free_deps == 1:
            k = s.dep[lone]
            before = action[k]
            best = -np.inf
            for i in range(q.start[k], q.start[k + 1]):
                if allowed[i]:
                    action[k] = q.candidates[i]
                    total = mixture(q, n, action, values)
                    if total > best:
                        best, picks[lone] = total, q.candidates[i]
            action[k] = before
            values[c.leaves + n] = best
        else:
            values[c.leaves + n] = relax_jointly(q, n, r)
    return values[c.leaves + q.run.last - 1]


@linked
def relax_jointly(q: Search, n: int, r: Relaxed) -> float:
    """Return the best value of a mixture that depends on several free decisions."""
    s, action, free, allowed, values, picks = q.s, r.action, r.free, r.allowed, r.values, r.picks
    first, last = s.dep_start[n], s.dep_start[n + 1]
    at, before = np.zeros(last - first, np.int64), action.copy()
    best, running = -np.inf, True
    while running:
        fits = True
        for t in range(first, last):
            k = s.dep[t]
            if free[k]:
                i = q.start[k] + at[t - first]
                fits &= allowed[i]
                action[k] = q.candidates[i]
        for t in range(first, last):
            for u in range(first, t):
                fits &= not clash(s, s.dep[t], action[s.dep[t]], s.dep[u], action[s.dep[u]])
        if fits:
            total = mixture(q, n, action, values)
            if total > best:
                best = total
                for t in range(first, last):
                    picks[t] = action[s.dep[t]]
        t = last - 1  # the next combination, last decision fastest
        while t >= first:
            k = s.dep[t]
            if free[k] and at[t - first] + 1 < q.start[k + 1] - q.start[k]:
                at[t - first] += 1
                break
            at[t - first] = 0
            t -= 1
        running = t >= first
    copy_action(before, action)
    return best


class Picked(NamedTuple):
    """Source of the weights of edges in a relaxation."""

    q: Search
    r: Relaxed


@inlined
def of_picks(c: Circuit, e: int, source: Picked) -> float:
    """Return the weight of an edge, with the choices that its node made."""
    s, r = source.q.s, source.r
    n = s.edge_node[e]
    for t in range(s.dep_start[n], s.dep_start[n + 1]):
        if r.free[s.dep[t]]:
            r.action[s.dep[t]] = r.picks[t]
    return weight(c, c.slot[e], source.q.p, r.action)


@linked
def disagreement(q: Search, r: Relaxed, slopes: Floats, chosen: Ints) -> int:
    """Find the choice of each free decision in a relaxation; return the decision to branch on, -1 if all agree.

    A mixture counts by how much the root depends on it. The decision whose mixtures disagree most is branched on,
    or else one that clashes with another.
    """
    c, s, free, picks = q.run.c, q.s, r.free, r.picks
    slopes[c.leaves + q.run.last - 1] = 1.0
    down(q.run, of_picks, Picked(q, r), r.values, slopes, None, None, False)
    matter, against = np.zeros(s.decisions), np.zeros(s.decisions)
    for n in range(q.run.last - 1, q.run.first - 1, -1):
        slope = slopes[c.leaves + n]
        if slope <= 0.0 or c.kind[n] == PRODUCT:
            continue
        for t in range(s.dep_start[n], s.dep_start[n + 1]):
            k = s.dep[t]
            if free[k]:
                if matter[k] == 0.0:
                    chosen[k] = picks[t]
                elif chosen[k] != picks[t]:
                    against[k] += slope
                    if slope > matter[k]:
                        chosen[k] = picks[t]
                matter[k] = max(matter[k], slope)
    branch_on = -1
    for k in q.group:
        if free[k] and against[k] > 0.0 and (branch_on < 0 or against[k] > against[branch_on]):
            branch_on = k
    if branch_on >= 0:
        return branch_on
    for t in range(q.size):
        for u in range(t):
            j, k = q.group[u], q.group[t]
            both = free[j] and free[k] and matter[j] > 0 and matter[k] > 0
            if both and clash(s, j, chosen[j], k, chosen[k]):
                worse = k if matter[k] >= matter[j] else j
                if branch_on < 0 or matter[worse] > matter[branch_on]:
                    branch_on = worse
    if branch_on >= 0:
        return branch_on
    for k in q.group:  # decisions that nothing depends on take any choice; they may still stand in another's way
        if free[k] and matter[k] == 0.0:
            chosen[k] = -1
    return -1


@linked
def complete(q: Search, free: Bools, chosen: Ints, action: Ints) -> bool:
    """Turn choices into an action without clashes, changing as few as possible; return False if there is none."""
    left = free.copy()
    for k in q.group:
        if left[k] and chosen[k] >= 0 and fits_with(q.s, k, chosen[k], action, left):
            action[k], left[k] = chosen[k], False
    for k in q.group:
        for i in range(q.start[k], q.start[k + 1]):
            if left[k] and fits_with(q.s, k, q.candidates[i], action, left):
                action[k], left[k] = q.candidates[i], False
        if left[k]:
            return False
    return True


@unmanaged
def cost_of_relaxation(q: Search) -> float:
    """Return the cost of one relaxation, in edges."""
    c, s = q.run.c, q.s
    cost = 1.0
    for n in range(q.run.first, q.run.last):
        work = float(c.start[n + 1] - c.start[n])
        for t in range(s.dep_start[n], s.dep_start[n + 1]):
            work *= q.start[s.dep[t] + 1] - q.start[s.dep[t]]
        cost += work
    return cost


@linked
def branch(q: Search, action: Ints) -> tuple[float, float]:
    """Leave the best action found in `action`; return its value and an upper bound."""
    c, s = q.run.c, q.s
    nodes = c.leaves + c.inner
    slopes, room = np.empty(nodes), np.ones(nodes)
    free = np.zeros(s.decisions, np.bool_)
    allowed = np.zeros(q.start[s.decisions], np.bool_)
    r = Relaxed(action, free, allowed, np.ones(nodes), np.zeros(s.deps, np.int64))
    chosen, trial, best_action = np.zeros_like(action), np.zeros_like(action), action.copy()
    widest = 1
    for k in q.group:
        free[k] = True
        widest = max(widest, q.start[k + 1] - q.start[k])
    cost = cost_of_relaxation(q)
    # one level per decision that is made: the decision, and one upper bound per candidate (-inf: done or impossible)
    on = np.zeros(q.size + 1, np.int64)
    bounds = np.empty((q.size + 1, widest))
    depth, spent = -1, 0.0
    best = value_at(q.run, q.p, best_action, room)
    bound = relax(q, r)
    while True:
        # `r` is the relaxation of the present node of the search, its value is `bound`
        k = disagreement(q, r, slopes, chosen)
        copy_action(action, trial)
        if complete(q, free, chosen, trial):
            value = value_at(q.run, q.p, trial, room)
            if depth < 0 and k >= 0:
                value = improve(q, trial)
            if value > best:
                best = value
                copy_action(trial, best_action)
        elif k < 0:  # all agree, but leave no room for decisions that do not matter
            for j in q.group:
                if free[j]:
                    k = j
        if k >= 0:
            depth += 1
            on[depth] = k
            free[k] = False
            for i in range(q.start[k], q.start[k + 1]):
                bounds[depth, i - q.start[k]] = -np.inf
                if fits_with(s, k, q.candidates[i], action, free):
                    upper = bound
                    if spent <= q.budget:
                        action[k] = q.candidates[i]
                        upper = relax(q, r)
                        spent += cost
                    if upper > best:
                        bounds[depth, i - q.start[k]] = upper
        ahead = -1
        while depth >= 0:
            k = on[depth]
            ahead = q.start[k]
            for i in range(q.start[k], q.start[k + 1]):
                if bounds[depth, i - q.start[k]] > bounds[depth, ahead - q.start[k]]:
                    ahead = i
            if exceeds(s, bounds[depth, ahead - q.start[k]], best):
                break
            free[k] = True
            depth -= 1
        if depth < 0 or spent > q.budget:
            break
        k = on[depth]
        bound = bounds[depth, ahead - q.start[k]]
        bounds[depth, ahead - q.start[k]] = -np.inf
        action[k] = q.candidates[ahead]
        free[k] = False
        relax(q, r)
        spent += cost
    bound = best
    for level in range(depth + 1):
        for i in range(q.start[on[level] + 1] - q.start[on[level]]):
            bound = max(bound, bounds[level, i])
    copy_action(best_action, action)
    return best, bound
