"""Reduction of a round to the entries that were certainly used, and factors for the rest.

Given an observation, much of a circuit is zero. A node in every remaining term divides the likelihood into the parts
above and below it, so the likelihood is a product of entries, which are just counted, and of factors, which are small
and occur in many rounds (`factors`).
"""

import numpy as np

from idbandits.circuit.build import UNIT
from idbandits.circuit.circuit import PRODUCT
from idbandits.inference.rounds.factors import add_counts, expect, list_entries, unmark
from idbandits.inference.rounds.workspace import GENERIC, Workspace, log_weigh, read_round, walk
from idbandits.kernel.array_types import Ints
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.structs import pointer

ROUNDING = 1e-9


@unmanaged
def reduce(w: Workspace, action: Ints, seen: Ints) -> bool:
    """Find the certain uses and the factors of a round; return False if its probability is zero for all means."""
    w.uses[0], w.places[0], w.places[1], w.log_value[0] = 0, 0, 0, 0.0
    for j in range(w.v.parts):
        missing = read_round(w, j, action, seen)
        log_value = walk(w, j, missing)
        divided = log_value == -np.inf or divide(w, j)
        forget_same(w, j, missing)
        if not divided:
            return reduce_whole(w, action, seen)
        if log_value == -np.inf:
            return False
        w.log_value[0] += log_value
    return True


@unmanaged
def reduce_whole(w: Workspace, action: Ints, seen: Ints) -> bool:
    """Reduce a round to a single factor, without certain uses."""
    c, v, factor = w.c, w.v, w.factors
    w.uses[0], w.places[0], w.places[1], w.log_value[0] = 0, 0, 0, 0.0
    factor[0], end = 0, 1
    for j in range(v.parts):
        missing = read_round(w, j, action, seen)
        log_value = walk(w, j, missing)
        if log_value > -np.inf:
            for n in range(v.node[j], v.node[j + 1]):
                w.certain[c.leaves + n] = 0
            size_below(w, v.node[j], v.node[j + 1] - 1)
            end = write_nodes(w, v.node[j], v.node[j + 1] - 1, factor, end)
            w.pending[j] = factor[0] - 1
        forget_same(w, j, missing)
        if log_value == -np.inf:
            return False
        w.log_value[0] += log_value
    if v.parts > 1:  # the product of all parts
        factor[end], factor[end + 1] = 1, 0
        for j in range(v.parts):
            add_member(factor, end + 1, -1 - w.pending[j])
        factor[0] += 1
        end += 2 + v.parts
    w.places[0], w.places[2] = 1, end
    return True


@inlined
def forget_same(w: Workspace, j: int, missing: bool) -> None:
    """Clear the marks of `mark_same`."""
    if missing:
        for n in range(w.v.node[j], w.v.node[j + 1]):
            w.same[n] = 0


@unmanaged
def divide(w: Workspace, j: int) -> bool:
    """Divide a part into certain uses and factors; return False if they do not fit, since many nodes are shared."""
    c, v = w.c, w.v
    first, pending = v.node[j], 1
    w.pending[0] = v.node[j + 1] - 1
    while pending > 0:
        pending -= 1
        n = w.pending[pending]
        if c.kind[n] == PRODUCT:
            for e in (c.start[n], c.start[n] + 1):
                if c.child[e] >= c.leaves:
                    w.pending[pending] = c.child[e] - c.leaves
                    pending += 1
            continue
        edge, terms = c.start[n], 1
        if not w.same[n]:
            edge, terms = live_edge(w, n)
        if terms > 1:
            at = w.places[1 + w.places[0]]
            if w.places[0] == v.most_groups or at + size_below(w, first, n) > v.most_numbers:
                return False
            factor = pointer(w.factors, at)
            factor[0] = 0
            w.places[0] += 1
            w.places[1 + w.places[0]] = at + write_nodes(w, first, n, factor, 1)
            for m in range(first, n):
                if w.reached[m] and w.certain[c.leaves + m]:
                    w.pending[pending] = m
                    pending += 1
            continue
        if not w.same[n] and c.slot[edge] >= 0 and w.entries[c.slot[edge]] < v.learned:
            if w.uses[0] == c.start[c.inner]:
                return False
            w.uses[0] += 1
            w.uses[w.uses[0]] = w.entries[c.slot[edge]]
        if c.child[edge] >= c.leaves:
            w.pending[pending] = c.child[edge] - c.leaves
            pending += 1
    return True


@inlined
def is_live(w: Workspace, e: int) -> bool:
    """Return whether an edge is not zero."""
    return bool(w.alive[w.c.child[e]] and (w.c.slot[e] < 0 or w.weights[w.c.slot[e]] > 0.0))


@inlined
def live_edge(w: Workspace, n: int) -> tuple[int, int]:
    """Return the first edge of a sum that is not zero, and the number of these edges."""
    first, number = w.c.start[n], 0
    for e in range(w.c.start[n], w.c.start[n + 1]):
        if is_live(w, e):
            if number == 0:
                first = e
            number += 1
    return first, number


@unmanaged
def size_below(w: Workspace, first: int, root: int) -> int:
    """Mark the nodes between a node and the next ones in every term; return the maximum length of their factor."""
    c = w.c
    for n in range(first, root):
        w.reached[n] = 0
    w.reached[root] = 1
    size = 1
    for n in range(root, first - 1, -1):
        if w.reached[n] == 0 or (n < root and w.certain[c.leaves + n]):
            continue
        one = c.kind[n] != PRODUCT and w.same[n]
        size += 2
        for e in range(c.start[n], c.start[n] + 1 if one else c.start[n + 1]):
            size += 3
            if c.child[e] >= c.leaves and (c.kind[n] == PRODUCT or one or is_live(w, e)):
                w.reached[c.child[e] - c.leaves] += 1
    return size


@unmanaged
def write_nodes(w: Workspace, first: int, root: int, factor: Ints, end: int) -> int:
    """Write the nodes that `size_below` marked to a factor; return the end of the factor."""
    c = w.c
    for n in range(first, root + 1):
        if w.reached[n] == 0 or (n < root and w.certain[c.leaves + n]):
            continue
        terms = 1
        if c.kind[n] != PRODUCT and not w.same[n]:
            _, terms = live_edge(w, n)
        w.number[n] = -1  # a product that is in one term only becomes part of it
        if terms == 1 and w.reached[n] == 1 and n < root:
            continue
        factor[end] = terms
        end += 1
        if terms == 1:
            end = write_term(w, factor, end, UNIT, c.leaves + n)
        else:
            for e in range(c.start[n], c.start[n + 1]):
                if is_live(w, e):
                    end = write_term(w, factor, end, c.slot[e], c.child[e])
        w.number[n] = factor[0]
        factor[0] += 1
    return end


@unmanaged
def write_term(w: Workspace, factor: Ints, end: int, slot: int, node: int) -> int:
    """Write the product of a slot and a node as a term; return its end."""
    c = w.c
    factor[end] = 0
    if slot >= 0:
        add_member(factor, end, w.entries[slot])
    depth = 1
    w.stack[0] = node
    while depth > 0:
        depth -= 1
        n = w.stack[depth] - c.leaves
        if n < 0 or w.certain[c.leaves + n]:
            continue
        if w.number[n] >= 0:
            add_member(factor, end, -1 - w.number[n])
            continue
        edge = c.start[n]
        w.stack[depth] = c.child[edge]
        if c.kind[n] == PRODUCT:
            w.stack[depth + 1] = c.child[edge + 1]
            depth += 1
        elif not w.same[n]:
            edge, _ = live_edge(w, n)
            w.stack[depth] = c.child[edge]
            if c.slot[edge] >= 0:
                add_member(factor, end, w.entries[c.slot[edge]])
        depth += 1
    return end + 1 + factor[end]


@inlined
def add_member(factor: Ints, term: int, member: int) -> None:
    """Insert a member into a term, in ascending order."""
    factor[term] += 1
    i = term + factor[term]
    while i > term + 1 and factor[i - 1] > member:
        factor[i] = factor[i - 1]
        i -= 1
    factor[i] = member


@unmanaged
def is_certain(w: Workspace, factor: Ints) -> bool:
    """Return whether a factor is a single product for all means: the expected uses of all entries are integers.

    If so, add them to the certain uses of the round. A constant factor has none.
    """
    expect(w, factor, GENERIC, w.v.generic, w.v.generic)
    number = list_entries(w, factor, 0, False)
    unmark(w, number)
    for r in range(number):
        w.other[w.rows[r]] = 0.0
    add_counts(w, factor, 1.0, w.other)
    for r in range(number):
        if abs(w.other[w.rows[r]] - np.floor(w.other[w.rows[r]] + 0.5)) > ROUNDING:
            return False
    for r in range(number):
        for _ in range(int(np.floor(w.other[w.rows[r]] + 0.5))):
            w.uses[0] += 1
            w.uses[w.uses[0]] = w.rows[r]
    return True


@unmanaged
def log_constant(w: Workspace) -> float:
    """Return the log of the ratio of the likelihood of a round to the product of its certain uses and factors."""
    v = w.v
    constant = w.log_value[0]
    for i in range(1, w.uses[0] + 1):
        constant -= log_weigh(v, GENERIC, w.uses[i], v.generic, v.generic)
    for i in range(w.places[0]):
        constant -= expect(w, pointer(w.factors, w.places[1 + i]), GENERIC, v.generic, v.generic)
    return constant
