"""Compiled passes over a circuit: values upwards, derivatives and expected counts downwards.

A pass goes through a run of nodes. It takes `values`, one number per node, and a weigher: a function that returns the
weight of an edge from its source (`of_slots`: one number per slot; others are defined where they are used). With
`logs`, weights and values are logarithms. A sum that is marked in `same` equals its first child, whatever its weights.
All passes are inlined into their callers, so unused options cost nothing.
"""

from typing import Any

import numpy as np
from numba import types

from idbandits.circuit.circuit import PRODUCT, Circuit, Run
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel
from idbandits.kernel.structs import unpacker

unpack = unpacker(Circuit)


@inlined
def entry(c: Circuit, slot: int, action: Ints) -> int:
    """Return the parameter that a slot stands for, without the slots that multiply it."""
    index = 0
    for t in range(c.slot_start[slot], c.slot_start[slot + 1]):
        index += c.slot_stride[t] * action[c.slot_axis[t]]
    if c.slot_lookup[slot] >= 0:
        index = c.lookup[c.slot_lookup[slot] + index]
    return c.slot_base[slot] + index


@inlined
def weight(c: Circuit, slot: int, p: Floats, action: Ints) -> float:
    """Return the weight of a slot under the parameters p."""
    value = 1.0
    while slot >= 0:
        value *= p[entry(c, slot, action)]
        slot = c.slot_also[slot]
    return value


@inlined
def of_slots(c: Circuit, e: int, weights: Floats) -> float:
    """Return the weight of an edge from the weights of all slots."""
    return weights[c.slot[e]]


@inlined
def add_logs(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b)), for values of any size."""
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@inlined
def up(run: Run, weigh: Any, source: Any, values: Floats, same: Ints | None, logs: bool) -> float:
    """Compute the values of a run's nodes from those of the leaves; return the value of the root."""
    c = run.c
    for n in range(run.first, run.last):
        e = c.start[n]
        if c.kind[n] == PRODUCT:
            left, right = values[c.child[e]], values[c.child[e + 1]]
            values[c.leaves + n] = left + right if logs else left * right
            continue
        if same is not None and same[n]:
            values[c.leaves + n] = values[c.child[e]]
            continue
        total = -np.inf if logs else 0.0
        for edge in range(e, c.start[n + 1]):
            child = values[c.child[edge]]
            if logs:
                total = add_logs(total, child if c.slot[edge] < 0 else weigh(c, edge, source) + child)
            else:
                total += child if c.slot[edge] < 0 else weigh(c, edge, source) * child
        values[c.leaves + n] = total
    return values[c.leaves + run.last - 1]


@inlined
def down(
    run: Run, weigh: Any, source: Any, values: Floats, slopes: Floats, counts: Floats | None, same: Ints | None,
    logs: bool,
) -> None:  # fmt: skip
    """Compute the derivatives of a run's root by its nodes and leaves, after `up`, times the slope of the root.

    The caller sets the slope of the root, and zeros for the leaves. For every slot, weight times derivative is added to
    `counts`, as plain numbers: the expected uses if the root's slope is one over its value.
    """
    c = run.c
    nothing = -np.inf if logs else 0.0
    for n in range(run.first, run.last - 1):
        slopes[c.leaves + n] = nothing
    for n in range(run.last - 1, run.first - 1, -1):
        slope = slopes[c.leaves + n]
        if slope == nothing:
            continue
        e = c.start[n]
        if c.kind[n] == PRODUCT:
            left, right = c.child[e], c.child[e + 1]
            if logs:
                slopes[left] = add_logs(slopes[left], slope + values[right])
                slopes[right] = add_logs(slopes[right], slope + values[left])
            else:
                slopes[left] += slope * values[right]
                slopes[right] += slope * values[left]
            continue
        if same is not None and same[n]:
            child = c.child[e]
            slopes[child] = add_logs(slopes[child], slope) if logs else slopes[child] + slope
            continue
        for edge in range(e, c.start[n + 1]):
            child, slot = c.child[edge], c.slot[edge]
            if logs:
                passed = slope if slot < 0 else slope + weigh(c, edge, source)
                slopes[child] = add_logs(slopes[child], passed)
            else:
                passed = slope if slot < 0 else slope * weigh(c, edge, source)
                slopes[child] += passed
            if counts is not None and slot >= 0:
                counts[slot] += np.exp(passed + values[child]) if logs else passed * values[child]


@kernel(types.void(INTS, INTS, FLOATS, FLOATS))
def bind(program: Ints, action: Ints, parameters: Floats, weights: Floats) -> None:
    """Compute the weights of all slots."""
    c = unpack(program, parameters)
    for slot in range(c.slots):
        weights[slot] = weight(c, slot, parameters, action)


@kernel(types.void(INTS, FLOATS, FLOATS, types.boolean))
def evaluate(program: Ints, weights: Floats, values: Floats, logs: bool) -> None:
    """Compute the values of all nodes from those of the leaves; with `logs`, all of them are logarithms."""
    c = unpack(program, weights)
    if logs:
        up(Run(c, 0, c.inner), of_slots, weights, values, None, True)
    else:
        up(Run(c, 0, c.inner), of_slots, weights, values, None, False)


@kernel(types.void(INTS, FLOATS, FLOATS, FLOATS))
def differentiate_logs(program: Ints, weights: Floats, values: Floats, slopes: Floats) -> None:
    """Compute the logarithms of the derivatives of the root by every node, after `evaluate` with logs."""
    c = unpack(program, weights)
    slopes[:] = -np.inf
    slopes[c.leaves + c.inner - 1] = 0.0
    down(Run(c, 0, c.inner), of_slots, weights, values, slopes, None, None, True)
