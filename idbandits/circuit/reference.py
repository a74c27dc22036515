"""Circuits evaluated in plain Python, for code that analyses them; the compiled versions are in `passes`.

Values and weights are anything that can be added and multiplied: arrays of numbers with one column per case, arrays
of bools (True where the number would be positive), or integers, kept below a prime by `reduce`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from idbandits.circuit.circuit import PRODUCT, Circuit
from idbandits.kernel.array_types import Ints

Numbers: TypeAlias = Sequence[Any] | npt.NDArray[Any]


def entry(c: Circuit, slot: int, action: Numbers) -> int:
    """Return the parameter that a slot stands for, without the slots that multiply it."""
    base, strides, place = c.atom(slot)
    index = sum(stride * int(action[axis]) for axis, stride in strides)
    return base + (index if place < 0 else c.lookup[place + index])


def entries_after(c: Circuit, slot: int, actions: Ints) -> Ints:
    """Return the `entry` of a slot for each action."""
    base, strides, place = c.atom(slot)
    index = np.zeros(len(actions), np.int64) + sum(stride * actions[:, axis] for axis, stride in strides)
    return base + (index if place < 0 else np.asarray(c.lookup)[place + index])


def entries_read(c: Circuit, slot: int, sizes: Sequence[int]) -> Ints:
    """Return the `entry` of a slot for all choices, one axis per decision or context; `sizes` are their states."""
    base, strides, place = c.atom(slot)
    index = np.zeros((), np.int64)
    for axis, stride in strides:
        index = np.add.outer(index, stride * np.arange(sizes[axis]))
    return base + (index if place < 0 else np.asarray(c.lookup)[place + index])


def slot_weights(c: Circuit, parameters: Numbers, action: Numbers) -> list[Any]:
    """Return the weight of each slot after an action."""
    return chained(c, [parameters[entry(c, slot, action)] for slot in range(c.slots)])


def chained(c: Circuit, factors: Sequence[Any], reduce: Callable[[Any], Any] = lambda value: value) -> list[Any]:
    """Return the weight of each slot: its factor times those of the slots that multiply it."""
    products = []
    for factor, also in zip(factors, c.slot_also, strict=True):
        while also >= 0:
            factor, also = reduce(factor * factors[also]), c.slot_also[also]
        products.append(factor)
    return products


def up(
    c: Circuit, leaves: Sequence[Any], weights: Sequence[Any], nodes: range | None = None,
    reduce: Callable[[Any], Any] = lambda value: value,
) -> list[Any]:  # fmt: skip
    """Return the values of all leaves and nodes; the last is the root.

    Only `nodes` are evaluated: their children are leaves or among them, and the nodes before them are 0.
    """
    nodes = range(c.inner) if nodes is None else nodes
    zero = leaves[0] * False  # of the type of the values
    values = [*leaves, *[zero] * nodes.stop]
    for n in nodes:
        edges = c.edges(n)
        if c.kind[n] == PRODUCT:
            total = values[c.child[edges[0]]] * values[c.child[edges[1]]]
        else:
            total = zero
            for e in edges:
                slot, value = c.slot[e], values[c.child[e]]
                total = total + (value if slot < 0 else weights[slot] * value)
        values[len(leaves) + n] = reduce(total)
    return values


def down(c: Circuit, values: Sequence[Any], weights: Sequence[Any], nodes: range | None = None) -> list[Any]:
    """Return the derivatives of the root by all leaves and nodes, from the values that `up` returned for `nodes`."""
    nodes = range(c.inner) if nodes is None else nodes
    leaves = len(values) - nodes.stop
    slopes = [values[0] * False] * len(values)
    slopes[-1] = values[0]  # the constant leaf: 1 of the type of the values
    for n in reversed(nodes):
        slope, edges = slopes[leaves + n], c.edges(n)
        if c.kind[n] == PRODUCT:
            left, right = c.child[edges[0]], c.child[edges[1]]
            slopes[left] = slopes[left] + slope * values[right]
            slopes[right] = slopes[right] + slope * values[left]
            continue
        for e in edges:
            slot, child = c.slot[e], c.child[e]
            slopes[child] = slopes[child] + (slope if slot < 0 else weights[slot] * slope)
    return slopes
