"""Decisions without constraints, each with one key: every key is at its lowest or highest, so try all patterns."""

from typing import NamedTuple

import numpy as np

from idbandits.circuit.circuit import Circuit
from idbandits.circuit.passes import up, weight
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged
from idbandits.solve.candidates import Decisions, Search, choice_at, key_of, number_of_choices

MOST_PATTERNS = 10  # decisions for which all patterns are tried


class Pattern(NamedTuple):
    """Weights of edges by whether the decision of their node is at its highest key."""

    s: Decisions
    is_high: Ints  # of a decision: 0 or 1
    weights: Floats  # of 0 or 1, and an edge


@inlined
def of_pattern(c: Circuit, e: int, source: Pattern) -> float:
    """Return the weight of an edge under a pattern."""
    s = source.s
    n = s.edge_node[e]
    place = source.is_high[s.dep[s.dep_start[n]]] if s.dep_start[n] < s.dep_start[n + 1] else 0
    return source.weights[place, e]


@linked
def try_patterns(q: Search, action: Ints) -> float:
    """Leave the best action in `action` and return its value."""
    c, number = q.run.c, len(action)
    edges = c.start[c.inner]
    floats, ints = np.empty(2 * edges + c.leaves + c.inner), np.zeros(3 * number, np.int64)  # two, for speed
    weights, values = floats[: 2 * edges].reshape(2, edges), floats[2 * edges :]
    low, high, is_high = ints[:number], ints[number : 2 * number], ints[2 * number :]
    values[: c.leaves] = 1.0
    for k in q.group:
        low[k], high[k] = lowest_and_highest(q, action, k)
    read_weights(q, action, low, weights[0])
    read_weights(q, action, high, weights[1])
    best, best_pattern = -np.inf, 0
    for pattern in range(1 << q.size):
        for t in range(q.size):
            is_high[q.group[t]] = pattern >> t & 1
        value = up(q.run, of_pattern, Pattern(q.s, is_high, weights), values, None, False)
        if value > best:
            best, best_pattern = value, pattern
    for t in range(q.size):
        k = q.group[t]
        action[k] = high[k] if best_pattern >> t & 1 else low[k]
    return best


@unmanaged
def lowest_and_highest(q: Search, action: Ints, k: int) -> tuple[int, int]:
    """Return the choices of a decision with the lowest and the highest key."""
    low, high, lowest, highest = 0, 0, np.inf, -np.inf
    for i in range(number_of_choices(q.s, q.eligible, k)):
        choice = choice_at(q.s, q.eligible, k, i)
        key = key_of(q, action, k, choice)
        if key > highest:
            high, highest = choice, key
        if key < lowest:
            low, lowest = choice, key
    return low, high


@unmanaged
def read_weights(q: Search, action: Ints, choices: Ints, weights: Floats) -> None:
    """Read the weights of all edges with these choices."""
    c, s = q.run.c, q.s
    for n in range(q.run.first, q.run.last):
        if s.dep_start[n] < s.dep_start[n + 1]:
            k = s.dep[s.dep_start[n]]
            action[k] = choices[k]
        for e in range(c.start[n], c.start[n + 1]):
            weights[e] = weight(c, c.slot[e], q.p, action)
