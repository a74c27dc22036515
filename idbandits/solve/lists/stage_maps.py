"""Stages of a group as affine maps: for each choice, how the numbers of one frontier become those of the next."""

from typing import NamedTuple

import numpy as np

from idbandits.circuit.passes import weight
from idbandits.kernel.array_types import Floats, Indices, Ints
from idbandits.kernel.compile import inlined, linked, unmanaged
from idbandits.solve.candidates import Search


class StageRows(NamedTuple):
    """Scratch to read the maps of stages: after `read_choice`, `rows` has them at the nodes of the frontier."""

    weights: Floats  # of an edge
    rows: Floats  # of a node: the constant, then the slopes by the numbers that the stage reads


@linked
def new_rows(q: Search, g: int, widest: int, action: Ints) -> StageRows:
    """Allocate scratch for frontiers of up to `widest` numbers; evaluate the nodes that depend on no decision."""
    c, s = q.run.c, q.s
    scratch = StageRows(np.empty(c.start[c.inner]), np.zeros((widest + 1, c.leaves + c.inner)))
    scratch.rows[0] = 1.0
    read_edges(q, s.constant_start[g], s.constant_start[g + 1], s.constant, action, scratch.weights)
    add_up(q, s.constant_start[g], s.constant_start[g + 1], s.constant, scratch.weights, scratch.rows[0])
    return scratch


@unmanaged
def read_edges(q: Search, first: int, last: int, nodes: Indices, action: Ints, weights: Floats) -> None:
    """Read the weights of the edges of some nodes."""
    c = q.run.c
    for a in range(first, last):
        for e in range(c.start[nodes[a]], c.start[nodes[a] + 1]):
            weights[e] = 1.0 if c.slot[e] < 0 else weight(c, c.slot[e], q.p, action)


@unmanaged
def add_up(q: Search, first: int, last: int, nodes: Indices, weights: Floats, values: Floats) -> None:
    """Evaluate some nodes, in order."""
    c = q.run.c
    for a in range(first, last):
        total = 0.0
        for e in range(c.start[nodes[a]], c.start[nodes[a] + 1]):
            total += weights[e] * values[c.child[e]]
        values[c.leaves + nodes[a]] = total


@inlined
def enter_stage(q: Search, x: int, reads: int, action: Ints, scratch: StageRows) -> None:
    """Evaluate the nodes of stage x, which reads `reads` numbers, that do not depend on its decision."""
    s = q.s
    begin, split = s.stage_start[2 * x], s.stage_start[2 * x + 1]
    read_edges(q, begin, split, s.stage_node, action, scratch.weights)
    for j in range(reads + 1):
        for b in range(reads):
            scratch.rows[j, s.frontier[s.frontier_start[x] - reads + b]] = 1.0 if b == j - 1 else 0.0
        add_up(q, begin, split, s.stage_node, scratch.weights, scratch.rows[j])


@inlined
def read_choice(q: Search, x: int, reads: int, choice: int, action: Ints, scratch: StageRows) -> None:
    """Evaluate the other nodes of stage x with a choice, after `enter_stage`."""
    s = q.s
    k, split, end = s.stage_decision[x], s.stage_start[2 * x + 1], s.stage_start[2 * x + 2]
    before = action[k]
    action[k] = choice
    read_edges(q, split, end, s.stage_node, action, scratch.weights)
    for j in range(reads + 1):
        add_up(q, split, end, s.stage_node, scratch.weights, scratch.rows[j])
    action[k] = before


@inlined
def read_key(q: Search, x: int, reads: int, key: float, action: Ints, scratch: StageRows) -> None:
    """Evaluate the other nodes of stage x with a choice that has this key, after `enter_stage`."""
    c, s = q.run.c, q.s
    k, split, end = s.stage_decision[x], s.stage_start[2 * x + 1], s.stage_start[2 * x + 2]
    read_edges(q, split, end, s.stage_node, action, scratch.weights)
    for t in range(s.use_start[k], s.use_start[k + 1]):
        scratch.weights[s.use[t]] = key if c.slot[s.use[t]] == s.key[k] else 1.0 - key
    for j in range(reads + 1):
        add_up(q, split, end, s.stage_node, scratch.weights, scratch.rows[j])


@inlined
def coefficient(q: Search, x: int, b: int, j: int, scratch: StageRows) -> float:
    """Return the constant (j = 0) or a slope of number b of the frontier after stage x, after `read_choice`."""
    return scratch.rows[j, q.s.frontier[q.s.frontier_start[x] + b]]
