"""What a change of keys can gain at least, whatever the other positions hold."""

from typing import NamedTuple

import numpy as np

from idbandits.circuit.circuit import Circuit, Run
from idbandits.circuit.passes import weight
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import linked, unmanaged
from idbandits.solve.candidates import Decisions, Search

HIGH, LOW, OPEN = 1, -1, 0  # classes of positions: they hold one of the highest items, of the lowest, or that is open


class Box(NamedTuple):
    """Keys that move between a low and a high choice each, and what that leaves open."""

    at_low: Floats  # of an edge: its weight with the low choices
    at_high: Floats
    lower: Floats  # of a node: bounds of its value
    upper: Floats
    here: Floats  # of a decision: its key on one side of a comparison, NaN if it moves alike on both
    there: Floats
    low_here: Floats  # of a node that the compared keys reach: bounds on both sides, and of the gain
    high_there: Floats
    gain: Floats
    reached: Floats  # of a node: 1 where they do
    spent: Floats  # edges that comparisons have looked at, in one number


@linked
def new_box(c: Circuit, s: Decisions) -> Box:
    """A box to be filled in."""
    nodes, edges = c.leaves + c.inner, c.start[c.inner]
    gain, reached = np.ones(nodes), np.ones(nodes)
    gain[: c.leaves], reached[: c.leaves] = 0.0, 0.0
    return Box(
        np.empty(edges), np.empty(edges), np.ones(nodes), np.ones(nodes), np.full(s.decisions, np.nan),
        np.full(s.decisions, np.nan), np.ones(nodes), np.ones(nodes), gain, reached, np.zeros(1),
    )  # fmt: skip


@unmanaged
def read_weights(q: Search, action: Ints, choices: Ints, weights: Floats) -> None:
    """The weights of all edges with these choices."""
    c, s = q.run.c, q.s
    for n in range(q.run.first, q.run.last):
        if s.dep_start[n] < s.dep_start[n + 1]:
            k = s.dep[s.dep_start[n]]
            action[k] = choices[k]
        for e in range(c.start[n], c.start[n + 1]):
            weights[e] = weight(c, c.slot[e], q.p, action)


@unmanaged
def span(run: Run, box: Box) -> None:
    """Bounds of all nodes while every key moves between its low and its high choice."""
    c, at_low, at_high, lower, upper = run.c, box.at_low, box.at_high, box.lower, box.upper
    for n in range(run.first, run.last):
        a, b, x, y = 0.0, 0.0, 0.0, 0.0
        for e in range(c.start[n], c.start[n + 1]):
            child = c.child[e]
            a += at_low[e] * lower[child]
            b += at_high[e] * lower[child]
            x += at_low[e] * upper[child]
            y += at_high[e] * upper[child]
        lower[c.leaves + n], upper[c.leaves + n] = min(a, b), max(x, y)


@unmanaged
def least_gain(q: Search, box: Box) -> float:
    """A lower bound on reward(keys as in `here`) - reward(as in `there`), all keys that are NaN moving alike.

    Where neither sets anything the difference is passed up with the same weights on both sides, so what the two
    have in common cancels.
    """
    c, s, at_low, at_high, lower, upper = q.run.c, q.s, box.at_low, box.at_high, box.lower, box.upper
    here, there, low_here, high_there = box.here, box.there, box.low_here, box.high_there
    gain, reached = box.gain, box.reached
    box.spent[0] += c.start[q.run.last] - c.start[q.run.first]
    for n in range(q.run.first, q.run.last):
        node = c.leaves + n
        k = -1
        if s.dep_start[n] < s.dep_start[n + 1]:
            k = s.dep[s.dep_start[n]]
        is_set = k >= 0 and not np.isnan(here[k])
        touched = is_set
        begin, end = c.start[n], c.start[n + 1]
        for e in range(begin, end):
            touched |= reached[c.child[e]] > 0.0
        if not touched:
            low_here[node], high_there[node], gain[node], reached[node] = lower[node], upper[node], 0.0, 0.0
            continue
        reached[node] = 1.0
        if is_set:
            a, x = 0.0, 0.0
            for e in range(begin, end):
                child, slot = c.child[e], c.slot[e]
                if slot < 0 or not moves(s, e, k):
                    a += at_low[e] * low_here[child]
                    x += at_low[e] * high_there[child]
                elif slot == s.key[k]:
                    a += here[k] * low_here[child]
                    x += there[k] * high_there[child]
                else:
                    a += (1.0 - here[k]) * low_here[child]
                    x += (1.0 - there[k]) * high_there[child]
            low_here[node], high_there[node], gain[node] = a, x, a - x
        else:
            a, b, x, y, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for e in range(begin, end):
                child = c.child[e]
                a += at_low[e] * low_here[child]
                b += at_high[e] * low_here[child]
                x += at_low[e] * high_there[child]
                y += at_high[e] * high_there[child]
                g += at_low[e] * gain[child]
                h += at_high[e] * gain[child]
            low_here[node], high_there[node] = min(a, b), max(x, y)
            gain[node] = max(min(g, h), low_here[node] - high_there[node])
    return gain[c.leaves + q.run.last - 1]


@unmanaged
def gain_of_key(q: Search, box: Box, k: int, here: float, there: float) -> float:
    """What at least is gained, per unit of difference, if the key of a decision is the one and not the other."""
    box.here[k], box.there[k] = here, there
    gain = least_gain(q, box)
    box.here[k], box.there[k] = np.nan, np.nan
    return gain


@unmanaged
def gain_of_swap(q: Search, box: Box, j: int, k: int) -> float:
    """What at least is gained, per unit of difference, if the higher of two items is at j and not at k."""
    box.here[j], box.here[k], box.there[j], box.there[k] = 1.0, 0.0, 0.0, 1.0
    gain = least_gain(q, box)
    box.here[j], box.here[k], box.there[j], box.there[k] = np.nan, np.nan, np.nan, np.nan
    return gain


@unmanaged
def moves(s: Decisions, edge: int, k: int) -> bool:
    """Whether the weight of an edge depends on a decision."""
    depends = False
    for t in range(s.use_start[k], s.use_start[k + 1]):
        depends |= s.use[t] == edge
    return depends


@unmanaged
def set_box(q: Search, box: Box, action: Ints, pool: Ints, classes: Ints, choices: Ints) -> None:
    """Let every key move within its class: so many of the highest, or of the lowest items, as may be needed."""
    number = len(pool)
    not_low, not_high = 0, 0
    for k in q.group:
        not_low += classes[k] != LOW
        not_high += classes[k] != HIGH
    for k in q.group:
        choices[k] = pool[not_low - 1] if classes[k] == HIGH else pool[number - 1]
    read_weights(q, action, choices, box.at_low)
    for k in q.group:
        choices[k] = pool[number - not_high] if classes[k] == LOW else pool[0]
    read_weights(q, action, choices, box.at_high)
    span(q.run, box)
