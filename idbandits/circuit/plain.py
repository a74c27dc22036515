"""Circuits evaluated in plain Python, for code that studies them; the compiled versions are in `passes`.

Values and weights are anything that can be added and multiplied: arrays of numbers with one column per case, arrays
of bools (True where the number would be positive), or integers, kept below a prime by `reduce`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

from idbandits.circuit.build import Arrays

Numbers: TypeAlias = Sequence[Any] | npt.NDArray[Any]


def entry(arrays: Arrays, slot: int, action: Numbers) -> int:
    """The parameter that a slot stands for by itself."""
    base, strides, place = arrays.atom(slot)
    index = sum(stride * int(action[axis]) for axis, stride in strides)
    return base + (index if place < 0 else arrays.lookup[place + index])


def unchanged(value: Any) -> Any:
    """The value itself: the default of `reduce`."""
    return value


def slot_weights(arrays: Arrays, parameters: Numbers, action: Numbers) -> list[Any]:
    """The weight of each slot after an action."""
    return chained(arrays, [parameters[entry(arrays, slot, action)] for slot in range(len(arrays.slot_base))])


def chained(arrays: Arrays, factors: Sequence[Any], reduce: Callable[[Any], Any] = unchanged) -> list[Any]:
    """The weight of each slot: its own factor times those of the slots that `slot_also` chains to it."""
    products = []
    for factor, also in zip(factors, arrays.slot_also, strict=True):
        while also >= 0:
            factor, also = reduce(factor * factors[also]), arrays.slot_also[also]
        products.append(factor)
    return products


def up(
    arrays: Arrays,
    leaves: Sequence[Any],
    weights: Sequence[Any],
    nodes: range | None = None,
    reduce: Callable[[Any], Any] = unchanged,
) -> list[Any]:
    """The values of all leaves and nodes; the last one is the root.

    With `nodes`, only these are evaluated: their children are leaves or among them, and the nodes before them are 0.
    """
    nodes = range(len(arrays.product)) if nodes is None else nodes
    zero = leaves[0] * False  # of the type of the values
    values = [*leaves, *[zero] * nodes.stop]
    for n in nodes:
        edges = range(arrays.start[n], arrays.start[n + 1])
        if arrays.product[n]:
            total = values[arrays.child[edges[0]]] * values[arrays.child[edges[1]]]
        else:
            total = zero
            for e in edges:
                slot, value = arrays.slot[e], values[arrays.child[e]]
                total = total + (value if slot < 0 else weights[slot] * value)
        values[len(leaves) + n] = reduce(total)
    return values


def down(
    arrays: Arrays,
    values: Sequence[Any],
    weights: Sequence[Any],
    nodes: range | None = None,
    reduce: Callable[[Any], Any] = unchanged,
) -> list[Any]:
    """The derivatives of the root by all leaves and nodes, given what `up` found for the same nodes."""
    nodes = range(len(arrays.product)) if nodes is None else nodes
    leaves = len(values) - nodes.stop
    slopes = [values[0] * False] * len(values)
    slopes[-1] = values[0]  # the leaf that is constantly 1
    for n in reversed(nodes):
        slope = slopes[leaves + n]
        edges = range(arrays.start[n], arrays.start[n + 1])
        if arrays.product[n]:
            left, right = arrays.child[edges[0]], arrays.child[edges[1]]
            slopes[left] = reduce(slopes[left] + slope * values[right])
            slopes[right] = reduce(slopes[right] + slope * values[left])
            continue
        for e in edges:
            slot, child = arrays.slot[e], arrays.child[e]
            slopes[child] = reduce(slopes[child] + (slope if slot < 0 else weights[slot] * slope))
    return slopes
