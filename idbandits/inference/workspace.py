"""One part of a round in kernels: its key, the weights of its slots, and how often each is expected to be used."""

from typing import NamedTuple

import numpy as np

from idbandits.circuit.circuit import Circuit, Run
from idbandits.circuit.passes import down, entry, of_slots, up
from idbandits.kernel.compiling import bare, merged, part
from idbandits.kernel.fields import pointer, unpacker
from idbandits.kernel.types import Floats, Indices, Ints

MEANS, GEOMETRIC, GIVEN, GENERIC, REMEMBERED = range(5)  # what weighs a learned entry: see `weigh`
TINY = 1e-200  # a part's value below which logarithms are used


class Parts(NamedTuple):
    """The parts of a likelihood, as a structure for kernels; the last part is the whole likelihood again."""

    parts: int  # how many, the whole aside
    width: int  # of a group's key: the part's number, then its choices and observations, then padding
    learned: int  # entries of learned tables: how many
    axes: int  # decisions and contexts: how many
    literal: int  # 1: rows whose states do not matter are kept
    node: Indices  # the inner nodes of part j are node[j] to node[j + 1] - 1
    bends: Indices  # of a part: 1 if known entries in it depend on the action, so that rows may not matter for some
    use_start: Indices  # of a part: its slots
    use: Indices
    base: Indices  # of a use: its entry is a base and a stride times the choice on an axis
    stride: Indices
    axis: Indices  # -1 if there is none (stride 0), or more than one (stride 1)
    shared: Indices  # of a part: 1 if two of its slots may read the same learned entry
    source_start: Indices  # of a part: what its key is made of
    source: Indices  # an axis, or an observed node
    source_leaf: Indices  # the first leaf of an observed node; -1 for an axis
    source_states: Indices  # of an observed node
    row: Indices  # of a learned entry: the first entry of its row
    size: Indices  # of a learned entry: the number of entries of its row
    whole_row: Indices  # of an inner node: 1 if it is a sum over all states of one learned row
    clash_start: Indices  # of a part: pairs of slots that may be used together and may read the same row
    clash: Indices
    clash_with: Indices
    parameters: Floats  # the prior of the learned entries, then the known entries
    generic: Floats  # of a learned entry: a mean, with no pattern in these means


class Workspace(NamedTuple):
    """The parts of a likelihood, and scratch arrays for one pass over one of them."""

    c: Circuit
    v: Parts
    key: Ints  # of a group
    action: Ints
    places: Ints  # of a part: which group it belongs to, as `counting` has it
    entries: Ints  # of a slot
    same: Ints  # of an inner node: 1 if all terms of this sum are equal; zero between passes
    marks: Ints  # three per slot
    visits: Ints  # three per node
    weights: Floats  # of a slot
    counts: Floats  # of a slot: how often it is used
    more: Floats  # three per slot
    values: Floats  # of a node
    slopes: Floats  # of a node
    fresh: Floats  # of a learned entry
    other: Floats  # of a learned entry


unpack = unpacker(Circuit, Parts)


@part
def scratch(program: Ints, numbers: Floats) -> tuple[Ints, Floats]:
    """Two arrays for a workspace, which has pointers into them: hold them until the work is done (`held`)."""
    c, v = unpack(program, numbers)
    nodes = c.leaves + c.inner
    ints = v.width + v.axes + v.parts + 4 * c.slots + 4 * nodes
    return np.zeros(ints, np.int64), np.empty(5 * c.slots + 2 * nodes + 2 * v.learned)


@merged
def workspace(program: Ints, numbers: Floats, ints: Ints, floats: Floats) -> Workspace:
    """A workspace in scratch arrays."""
    c, v = unpack(program, numbers)
    nodes = c.leaves + c.inner
    key = pointer(ints, 0)
    action = pointer(key, v.width)
    places = pointer(action, v.axes)
    entries = pointer(places, v.parts)
    same = pointer(entries, c.slots)
    marks = pointer(same, nodes)
    visits = pointer(marks, 3 * c.slots)
    weights = pointer(floats, 0)
    counts = pointer(weights, c.slots)
    more = pointer(counts, c.slots)
    values = pointer(more, 3 * c.slots)
    slopes = pointer(values, nodes)
    fresh = pointer(slopes, nodes)
    other = pointer(fresh, v.learned)
    return Workspace(
        c, v, key, action, places, entries, same, marks, visits, weights, counts, more, values, slopes, fresh, other
    )


@merged
def held(result: float, ints: Ints, floats: Floats) -> float:
    """What work in a workspace gave: Numba keeps the scratch arrays until here."""
    return result


@merged
def nodes_of(w: Workspace, j: int) -> Run:
    """The nodes of a part."""
    return Run(w.c, w.v.node[j], w.v.node[j + 1])


@merged
def write_key(v: Parts, j: int, action: Ints, seen: Ints, key: Ints) -> None:
    """Write the key of a part of a round."""
    key[0] = j
    first, last = v.source_start[j], v.source_start[j + 1]
    for t in range(first, last):
        key[1 + t - first] = action[v.source[t]] if v.source_leaf[t] < 0 else seen[v.source[t]]
    for i in range(1 + last - first, v.width):
        key[i] = 0


@merged
def read_key(w: Workspace, key: Ints) -> bool:
    """Its choices into `action` and the entries of the slots, its observations into the leaves.

    Says whether rows may not matter, because of what was not seen or of what was chosen.
    """
    v, values = w.v, w.values
    j = key[0]
    values[0] = 1.0
    missing = v.bends[j] != 0
    first = v.source_start[j]
    for t in range(first, v.source_start[j + 1]):
        value, leaf = key[1 + t - first], v.source_leaf[t]
        if leaf < 0:
            w.action[v.source[t]] = value
        else:
            missing |= value < 0
            for i in range(v.source_states[t]):
                values[leaf + i] = 1.0 if value < 0 or value == i else 0.0
    locate(w, j, w.action)
    return missing


@merged
def locate(w: Workspace, j: int, action: Ints) -> None:
    """The entry of every slot of a part."""
    v = w.v
    for t in range(v.use_start[j], v.use_start[j + 1]):
        if v.axis[t] >= 0:
            w.entries[v.use[t]] = v.base[t] + v.stride[t] * action[v.axis[t]]
        elif v.stride[t] == 0:
            w.entries[v.use[t]] = v.base[t]
        else:
            w.entries[v.use[t]] = entry(w.c, v.use[t], action)


@bare
def tail(x: float) -> float:
    """The digamma function less the logarithm, of a positive number: small and without loss for a large one."""
    shift, y = 0.0, x
    while 0.0 < y < 10.0:
        shift += 1.0 / y
        y += 1.0
    f = 1.0 / (y * y)
    series = f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f * (1 / 132 - f * (691 / 32760))))))
    return np.log(y / x) - shift - 0.5 / y - series


@merged
def row_sum(v: Parts, e: int, alpha: Floats) -> float:
    """The sum of the row that a learned entry is in."""
    first, size = v.row[e], v.size[e]
    if size == 2:
        return alpha[np.uint64(first)] + alpha[np.uint64(first + 1)]
    total = 0.0
    for i in range(first, first + size):
        total += alpha[i]
    return total


@merged
def weigh(v: Parts, kind: int, e: int, alpha: Floats, memo: Floats) -> float:
    """The weight of an entry: its mean or geometric mean under pseudo-counts, as given, or a generic mean.

    `memo` has three numbers per entry, the geometric mean and what it was computed from; REMEMBERED takes it as it is.
    """
    if e >= v.learned:
        return v.parameters[e]
    if kind == GIVEN:
        return alpha[e]
    if kind == GENERIC:
        return v.generic[e]
    if kind == REMEMBERED:
        return memo[3 * e + 2]
    total = row_sum(v, e, alpha)
    if kind == MEANS:
        return alpha[e] / total
    if memo[3 * e] != alpha[e] or memo[3 * e + 1] != total:
        memo[3 * e], memo[3 * e + 1] = alpha[e], total
        memo[3 * e + 2] = alpha[e] / total * np.exp(tail(alpha[e]) - tail(total))
    return memo[3 * e + 2]


@bare
def remember(v: Parts, alpha: Floats, memo: Floats) -> None:
    """The geometric means of all entries into `memo`."""
    e = 0
    while e < v.learned:
        size = v.size[e]
        total = row_sum(v, e, alpha)
        if size == 2 and memo[3 * e] == alpha[e] and memo[3 * e + 3] == alpha[e + 1]:
            e += size
            continue
        tail_of_total = tail(total)
        for i in range(e, e + size):
            memo[3 * i], memo[3 * i + 1] = alpha[i], total
            memo[3 * i + 2] = alpha[i] / total * np.exp(tail(alpha[i]) - tail_of_total)
        e += size


@bare
def log_weigh(v: Parts, kind: int, e: int, alpha: Floats, memo: Floats) -> float:
    """The logarithm of a weight, also where the weight is too small for a number."""
    if kind in (GEOMETRIC, REMEMBERED) and e < v.learned:
        total = row_sum(v, e, alpha)
        return np.log(alpha[e] / total) + tail(alpha[e]) - tail(total)
    return np.log(weigh(v, kind, e, alpha, memo))


@merged
def weigh_slots(w: Workspace, j: int, kind: int, alpha: Floats, memo: Floats) -> None:
    """The weight of every slot of a part."""
    v = w.v
    for t in range(v.use_start[j], v.use_start[j + 1]):
        w.weights[v.use[t]] = weigh(v, kind, w.entries[v.use[t]], alpha, memo)


@merged
def value_of_part(w: Workspace, j: int, kind: int, alpha: Floats) -> float:
    """The value of a part; the weights of its slots and the values of its nodes are left in the workspace."""
    weigh_slots(w, j, kind, alpha, alpha)
    return up(nodes_of(w, j), of_slots, w.weights, w.values, w.same, False)


@merged
def of_generic(c: Circuit, e: int, w: Workspace) -> float:
    """The weight of an edge at generic means."""
    return weigh(w.v, GENERIC, w.entries[c.slot[e]], w.v.generic, w.v.generic)


@bare
def mark_same(w: Workspace, j: int) -> None:
    """Find the sums over rows that do not matter, because of what is missing: all their terms are equal.

    Terms are compared as functions of the learned means, by their values at generic ones.
    """
    c, v, values = w.c, w.v, w.values
    up(nodes_of(w, j), of_generic, w, values, None, False)
    for n in range(v.node[j], v.node[j + 1]):
        if v.whole_row[n]:
            low, high = np.inf, 0.0
            for e in range(c.start[n], c.start[n + 1]):
                child = values[c.child[e]]
                low, high = min(low, child), max(high, child)
            w.same[n] = high - low <= 1e-13 * high


@merged
def unmark_same(w: Workspace, j: int) -> None:
    """Take the marks away again."""
    for n in range(w.v.node[j], w.v.node[j + 1]):
        w.same[n] = 0


@merged
def expect(w: Workspace, j: int, missing: bool, kind: int, alpha: Floats, memo: Floats) -> float:
    """The E-step of a part whose key was read: the expected uses of its slots; the logarithm of its value."""
    v, run = w.v, nodes_of(w, j)
    if missing and not v.literal:
        mark_same(w, j)
    weigh_slots(w, j, kind, alpha, memo)
    value = up(run, of_slots, w.weights, w.values, w.same, False)
    if value > TINY:
        for t in range(v.use_start[j], v.use_start[j + 1]):
            w.counts[v.use[t]] = 0.0
        w.slopes[w.c.leaves + run.last - 1] = 1.0 / value
        down(run, of_slots, w.weights, w.values, w.slopes, w.counts, w.same, False)
        log_value = np.log(value)
    else:
        log_value = expect_in_logs(w, j, kind, alpha, memo)
    if missing and not v.literal:
        unmark_same(w, j)
    return log_value


@bare
def expect_in_logs(w: Workspace, j: int, kind: int, alpha: Floats, memo: Floats) -> float:
    """The same by logarithms, for values that are too small for numbers; the weights become logarithms."""
    c, v, run = w.c, w.v, nodes_of(w, j)
    for t in range(v.use_start[j], v.use_start[j + 1]):
        w.counts[v.use[t]] = 0.0
        w.weights[v.use[t]] = log_weigh(v, kind, w.entries[v.use[t]], alpha, memo)
    for i in range(c.leaves):
        w.values[i] = 0.0 if w.values[i] > 0.0 else -np.inf
        w.slopes[i] = -np.inf
    log_value = up(run, of_slots, w.weights, w.values, w.same, True)
    if log_value > -np.inf:
        w.slopes[c.leaves + run.last - 1] = -log_value
        down(run, of_slots, w.weights, w.values, w.slopes, w.counts, w.same, True)
    for i in range(c.leaves):
        w.values[i] = np.exp(w.values[i])
    return log_value
