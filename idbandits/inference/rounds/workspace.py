"""The likelihood of a round in kernels: its parts, the weights of table entries, and scratch for one round."""

from typing import NamedTuple

import numpy as np

from idbandits.circuit.circuit import Circuit, Run
from idbandits.circuit.passes import down, entry, of_slots, up
from idbandits.inference.state.state import State
from idbandits.kernel.array_types import Floats, Indices, Ints
from idbandits.kernel.compile import in_python, inlined, linked, unmanaged
from idbandits.kernel.structs import Packed, split, unpacker

MEANS, GEOMETRIC, GIVEN, GENERIC, REMEMBERED = range(5)  # what weighs a learned entry: see `weigh`
CERTAIN = 1e-9  # how far from 1 the expected visits of a node may be by rounding
TINY = 1e-200  # a value below which logarithms are used


class Parts(NamedTuple):
    """The parts of a likelihood, as a structure for kernels: they share no chance node."""

    number: int  # of the evidence, unique in a process
    parts: int  # how many
    learned: int  # entries of learned tables: how many
    live: int  # of those that actions read: how many; they come first
    parameter_count: int  # entries of learned and known tables: how many
    literal: int  # 1: rows whose states do not matter are kept
    most_groups: int  # factors that a round may have
    most_numbers: int  # of all factors of a round together
    most_nodes: int  # of one factor
    most_terms: int  # of one factor
    first_feature: int  # where the features of a request stand in the fits of a state
    node: Indices  # the inner nodes of part j are node[j] to node[j + 1] - 1
    bends: Indices  # of a part: 1 if known entries in it depend on the action, so that rows may not matter for some
    use_start: Indices  # of a part: its slots
    use: Indices
    base: Indices  # of a use: its entry is a base and a stride times the choice on an axis
    stride: Indices
    axis: Indices  # -1 if there is none (stride 0), or more than one (stride 1)
    source_start: Indices  # of a part: the observed nodes that it depends on
    source: Indices
    source_leaf: Indices  # the first leaf of an observed node
    source_states: Indices  # of an observed node
    renumbered: int  # 1: the entries of states are numbered in another way than those of the circuit
    place: Indices  # of an entry of the circuit: that of states, if they are renumbered
    table_start: Indices  # of a learned table: its rows
    table_row: Indices  # the first entries of the rows of a table that are not fixed
    table: Indices  # of a learned entry: the number of its table
    row: Indices  # of a learned entry: the first entry of its row
    size: Indices  # of a learned entry: the number of entries of its row
    whole_row: Indices  # of an inner node: 1 if it is a sum over all states of one learned row
    parameters: Floats  # the prior of the learned entries, then the known entries
    generic: Floats  # of a learned entry: a mean, with no pattern in these means


class Regressions(NamedTuple):
    """The tables with features, as a structure for kernels."""

    number: int
    most_parameters: int  # of one regression
    states: Indices  # of a regression
    columns: Indices  # of a regression
    first: Indices  # of a regression: its first parameter in `centre` and `spread`
    fit: Indices  # of a regression: where it stands in `fits`
    start: Indices  # of a regression: its rows; last, the end
    of_table: Indices  # of a learned table: its regression, -1 if it has none
    row: Indices  # of a row: its first entry
    line: Indices  # of a regression: where the lines of its rows begin in `design`
    design: Floats
    centre: Floats  # of a parameter: its mean in advance
    spread: Floats  # of a parameter: its standard deviation in advance


class Workspace(NamedTuple):
    """The parts of a likelihood, and scratch arrays for one round."""

    c: Circuit
    v: Parts
    r: Regressions
    # for the circuit
    entries: Ints  # of a slot
    same: Ints  # of an inner node: 1 if all terms of this sum are equal; zero between passes
    certain: Ints  # of a node: 1 if every term of the part goes through it
    alive: Ints  # of a node: 1 if it is not zero, given what was seen
    reached: Ints  # of a node
    number: Ints  # of a node: its number in a factor
    stack: Ints  # of nodes
    pending: Ints  # of nodes
    weights: Floats  # of a slot
    values: Floats  # of a node
    slopes: Floats  # of a node
    # for what a round says: `reduction`
    log_value: Floats  # of the round, at generic means
    uses: Ints  # the entries that were used for certain; their number first
    places: Ints  # where the factors start in `factors`, and where the last ends; their number first
    factors: Ints  # see `factors`
    groups: Ints  # of a factor: the group it belongs to
    # for one factor
    first_term: Ints  # of a node
    term_at: Ints  # of a term: where it stands in the factor
    visits: Ints  # of a node
    node_values: Floats
    node_slopes: Floats
    term_values: Floats
    term_counts: Floats
    # for learned entries
    marks: Ints  # zero between uses
    rows: Ints
    sites: Ints
    offsets: Ints
    fresh: Floats
    other: Floats
    before: Floats
    after: Floats


unpack = unpacker(Circuit, Parts, Regressions)


@inlined
def int_sizes(c: Circuit, v: Parts) -> tuple[int, ...]:
    """Return the sizes of the integer arrays of a workspace, and that of the number of its evidence, first."""
    nodes, most = c.leaves + c.inner, v.most_nodes + 1
    return (
        1, nodes, v.learned, c.slots, nodes, nodes, nodes, nodes, 2 * nodes, 3 * nodes,
        1 + c.start[c.inner] + v.most_numbers, v.most_groups + 2, v.most_groups, v.most_numbers, most, most,
        v.most_terms, v.learned, v.learned, v.learned,
    )  # fmt: skip


@inlined
def float_sizes(c: Circuit, v: Parts) -> tuple[int, ...]:
    """Return the sizes of the float arrays of a workspace."""
    nodes, n = c.leaves + c.inner, v.learned
    return c.slots, nodes, nodes, 1, v.most_nodes, v.most_nodes, v.most_terms, v.most_terms, n, n, n, n


@linked
def scratch(evidence: Packed, state: State) -> tuple[Ints, Floats]:
    """Return arrays for a workspace: those of a state if they are of this evidence, else new ones.

    A workspace has pointers into them: hold them until the work is done (`held`).
    """
    c, v, _ = unpack(evidence.ints, evidence.floats)
    if len(state.int_scratch) > 0 and state.int_scratch[0] == v.number:
        return state.int_scratch, state.float_scratch
    ints, floats = 0, 0
    for size in int_sizes(c, v):
        ints += size
    for size in float_sizes(c, v):
        floats += size
    int_scratch = np.empty(ints, np.int64)
    int_scratch[: 1 + c.leaves + c.inner + v.learned] = 0  # `same` and `marks`
    return int_scratch, np.empty(floats)


def new_scratch(c: Circuit, v: Parts) -> tuple[Ints, Floats]:
    """Return arrays for a workspace that a state keeps for all rounds of an evidence."""
    ints = np.zeros(sum(in_python(int_sizes)(c, v)), np.int64)
    ints[0] = v.number
    return ints, np.empty(sum(in_python(float_sizes)(c, v)))


@inlined
def workspace(evidence: Packed, ints: Ints, floats: Floats) -> Workspace:
    """Return a workspace in scratch arrays."""
    c, v, r = unpack(evidence.ints, evidence.floats)
    (
        _, same, marks, entries, certain, alive, reached, number, stack, pending, uses, places, groups, factors,
        first_term, visits, term_at, rows, sites, offsets,
    ) = split(ints, int_sizes(c, v))  # fmt: skip
    (
        weights, values, slopes, log_value, node_values, node_slopes, term_values, term_counts, fresh, other, before,
        after,
    ) = split(floats, float_sizes(c, v))  # fmt: skip
    return Workspace(
        c, v, r, entries, same, certain, alive, reached, number, stack, pending, weights, values, slopes, log_value,
        uses, places, factors, groups, first_term, term_at, visits, node_values, node_slopes, term_values, term_counts,
        marks, rows, sites, offsets, fresh, other, before, after,
    )  # fmt: skip


@inlined
def held(result: float, ints: Ints, floats: Floats) -> float:
    """Return a result of work in a workspace: Numba keeps the scratch arrays alive until here."""
    return result


@inlined
def nodes_of(w: Workspace, j: int) -> Run:
    """Return the nodes of a part."""
    return Run(w.c, w.v.node[j], w.v.node[j + 1])


@inlined
def read_round(w: Workspace, j: int, action: Ints, seen: Ints) -> bool:
    """Write the choices of a round into the entries of a part's slots, and its observations into the leaves.

    Says whether rows may not matter, because of what was not seen or of what was chosen.
    """
    v, values = w.v, w.values
    values[0] = 1.0
    missing = v.bends[j] != 0
    for t in range(v.source_start[j], v.source_start[j + 1]):
        value, leaf = seen[v.source[t]], v.source_leaf[t]
        missing |= value < 0
        for i in range(v.source_states[t]):
            values[leaf + i] = 1.0 if value < 0 or value == i else 0.0
    for t in range(v.use_start[j], v.use_start[j + 1]):
        if v.axis[t] >= 0:
            w.entries[v.use[t]] = v.base[t] + v.stride[t] * action[v.axis[t]]
        elif v.stride[t] == 0:
            w.entries[v.use[t]] = v.base[t]
        else:
            w.entries[v.use[t]] = entry(w.c, v.use[t], action)
        if v.renumbered:
            w.entries[v.use[t]] = v.place[w.entries[v.use[t]]]
    return missing


@unmanaged
def tail(x: float) -> float:
    """Return digamma(x) - log(x) of a positive number: small, and accurate for a large one."""
    shift, y = 0.0, x
    while 0.0 < y < 10.0:
        shift += 1.0 / y
        y += 1.0
    f = 1.0 / (y * y)
    series = f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f * (1 / 132 - f * (691 / 32760))))))
    return np.log(y / x) - shift - 0.5 / y - series


@inlined
def row_sum(v: Parts, e: int, alpha: Floats) -> float:
    """Return the sum of the row of a learned entry."""
    first, size = v.row[e], v.size[e]
    if size == 2:
        return alpha[np.uint64(first)] + alpha[np.uint64(first + 1)]
    total = 0.0
    for i in range(first, first + size):
        total += alpha[i]
    return total


@inlined
def weigh(v: Parts, kind: int, e: int, alpha: Floats, memo: Floats) -> float:
    """Return the weight of an entry: its mean or geometric mean under pseudo-counts, as given, or a generic mean.

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


@unmanaged
def remember(v: Parts, alpha: Floats, memo: Floats) -> None:
    """Write the geometric means of all entries into `memo`."""
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


@unmanaged
def log_weigh(v: Parts, kind: int, e: int, alpha: Floats, memo: Floats) -> float:
    """Return the logarithm of a weight, also where the weight underflows."""
    if kind in (GEOMETRIC, REMEMBERED) and e < v.learned:
        total = row_sum(v, e, alpha)
        return np.log(alpha[e] / total) + tail(alpha[e]) - tail(total)
    return np.log(weigh(v, kind, e, alpha, memo))


@inlined
def of_generic(c: Circuit, e: int, w: Workspace) -> float:
    """Return the weight of an edge at generic means."""
    return weigh(w.v, GENERIC, w.entries[c.slot[e]], w.v.generic, w.v.generic)


@unmanaged
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


@unmanaged
def walk(w: Workspace, j: int, missing: bool) -> float:
    """Find out, of a part of a round that was read, which nodes are not zero and which every term goes through.

    Both are so whatever the means: they are seen at generic ones. Returns the logarithm of the part's value there.
    """
    c, v, run = w.c, w.v, nodes_of(w, j)
    if missing and not v.literal:
        mark_same(w, j)
    for t in range(v.use_start[j], v.use_start[j + 1]):
        w.weights[v.use[t]] = weigh(v, GENERIC, w.entries[v.use[t]], v.generic, v.generic)
    value = up(run, of_slots, w.weights, w.values, w.same, False)
    if value > TINY:
        w.slopes[c.leaves + run.last - 1] = 1.0 / value
        down(run, of_slots, w.weights, w.values, w.slopes, None, w.same, False)
        for i in range(c.leaves):
            w.alive[i] = w.values[i] > 0.0
        for i in range(c.leaves + run.first, c.leaves + run.last):
            w.alive[i] = w.values[i] > 0.0
            w.certain[i] = abs(w.slopes[i] * w.values[i] - 1.0) <= CERTAIN
        return np.log(value)
    return walk_in_logs(w, j)


@unmanaged
def walk_in_logs(w: Workspace, j: int) -> float:
    """Do the work of `walk` by logarithms, for values that underflow; the weights stay numbers."""
    c, v, run = w.c, w.v, nodes_of(w, j)
    for t in range(v.use_start[j], v.use_start[j + 1]):
        w.weights[v.use[t]] = np.log(w.weights[v.use[t]])
    for i in range(c.leaves):
        w.alive[i] = w.values[i] > 0.0
        w.values[i] = 0.0 if w.values[i] > 0.0 else -np.inf
        w.slopes[i] = -np.inf
    log_value = up(run, of_slots, w.weights, w.values, w.same, True)
    if log_value > -np.inf:
        w.slopes[c.leaves + run.last - 1] = -log_value
        down(run, of_slots, w.weights, w.values, w.slopes, None, w.same, True)
        for i in range(c.leaves + run.first, c.leaves + run.last):
            w.alive[i] = w.values[i] > -np.inf
            w.certain[i] = abs(w.slopes[i] + w.values[i]) <= CERTAIN
    for t in range(v.use_start[j], v.use_start[j + 1]):
        w.weights[v.use[t]] = np.exp(w.weights[v.use[t]])
    return log_value
