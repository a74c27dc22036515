"""The compiled passes over a circuit: functions of flat arrays and a generator, all that is hot.

Nodes are numbered leaves first (node 0 is the constant 1, then one evidence indicator a state of every observed
node), children before parents. An inner node is the product of two nodes or a weighted sum of nodes, where the
weight of an edge is a slot (-1: the weight 1). A slot stands for one parameter, and which one depends on the
action by `entry`. `weights` holds a number a slot, `values` a number a node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from idbandits.kernel.compiling import compiled, inlined, merged
from idbandits.kernel.types import Floats, Ints


class Circuit(NamedTuple):
    """An arithmetic circuit for compiled functions: one array of integers, and where each part of it begins.

    One array and not one a part, because compiled functions count references to every array they are passed.
    """

    leaves: int  # how many
    inner: int  # how many nodes above the leaves
    slots: int  # how many
    product: int  # an inner node: 1 for a product, 0 for a weighted sum
    start: int  # an inner node n: its edges are start[n] to start[n + 1] - 1
    child: int  # an edge: the node it leads to
    slot: int  # an edge: its weight
    slot_base: int
    slot_start: int  # a slot s: the axes it depends on are slot_start[s] to slot_start[s + 1] - 1
    slot_axis: int
    slot_stride: int
    slot_lookup: int  # where the affine index goes through `lookup`: the place where its part begins, else -1
    slot_also: int  # a slot that it is multiplied with, or -1
    lookup: int
    data: Ints


def pack(**parts: npt.ArrayLike) -> dict[str, Any]:
    """Integer arrays as one, with the place where each begins: the last fields of `Circuit` and its like."""
    arrays = {name: np.asarray(part, dtype=np.int64).ravel() for name, part in parts.items()}
    ends = np.cumsum([0, *(a.size for a in arrays.values())])
    places = {name: int(end) for name, end in zip(arrays, ends, strict=False)}
    return {**places, "data": np.concatenate([*arrays.values()])}


@merged
def index(h: Ints, i: int) -> np.uint64:
    """An index that a program holds, unsigned: Numba asks of every signed one whether it counts from the end."""
    return np.uint64(h[np.uint64(i)])


@inlined
def entry(c: Circuit, slot: int, action: Ints) -> int:
    """The parameter that a slot stands for."""
    index = 0
    for t in range(c.data[c.slot_start + slot], c.data[c.slot_start + slot + 1]):
        index += c.data[c.slot_stride + t] * action[c.data[c.slot_axis + t]]
    if c.data[c.slot_lookup + slot] >= 0:
        index = c.data[c.lookup + c.data[c.slot_lookup + slot] + index]
    return int(c.data[c.slot_base + slot] + index)


@merged
def weight(c: Circuit, slot: int, p: Floats, action: Ints) -> float:
    """The parameter that a slot stands for, or the product of several, among the parameters p."""
    value = 1.0
    while slot >= 0:
        value *= p[entry(c, slot, action)]
        slot = c.data[c.slot_also + slot]
    return value


@compiled
def bind(c: Circuit, action: Ints, parameters: Floats, weights: Floats) -> None:
    """Put on every slot the parameter that it stands for."""
    for s in range(c.slots):
        weights[s] = weight(c, s, parameters, action)


@compiled
def up(c: Circuit, first: int, last: int, weights: Floats, values: Floats) -> None:
    """The values of the inner nodes first to last - 1, from those of the leaves."""
    for n in range(first, last):
        if c.data[c.product + n]:
            e = c.data[c.start + n]
            values[c.leaves + n] = values[c.data[c.child + e]] * values[c.data[c.child + e + 1]]
        else:
            total = 0.0
            for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
                total += (
                    values[c.data[c.child + e]]
                    if c.data[c.slot + e] < 0
                    else weights[c.data[c.slot + e]] * values[c.data[c.child + e]]
                )
            values[c.leaves + n] = total


@compiled
def down(c: Circuit, first: int, last: int, weights: Floats, values: Floats, slopes: Floats, counts: Floats) -> None:
    """Derivatives of the node last - 1: `slopes` by every node, `counts` by every slot (added to what is there)."""
    slopes[: c.leaves] = 0.0
    slopes[c.leaves + first : c.leaves + last] = 0.0
    slopes[c.leaves + last - 1] = 1.0
    for n in range(last - 1, first - 1, -1):
        slope = slopes[c.leaves + n]
        if slope == 0.0:
            continue
        if c.data[c.product + n]:
            left, right = c.data[c.child + c.data[c.start + n]], c.data[c.child + c.data[c.start + n] + 1]
            slopes[left] += slope * values[right]
            slopes[right] += slope * values[left]
        else:
            for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
                if c.data[c.slot + e] < 0:
                    slopes[c.data[c.child + e]] += slope
                else:
                    slopes[c.data[c.child + e]] += slope * weights[c.data[c.slot + e]]
                    counts[c.data[c.slot + e]] += slope * values[c.data[c.child + e]]


@merged
def split(
    c: Circuit, first: int, last: int, weights: Floats, values: Floats, same: Ints, times: int,
    rng: np.random.Generator, visits: Ints, counts: Ints,
) -> None:  # fmt: skip
    """Draw how often each slot is used in `times` independent draws of what is latent, given what was seen.

    A product hands its count to both sides, a sum splits it multinomially in proportion to its terms: exact, at a
    cost that does not grow with `times`. A sum that is marked in `same` is its first child, whatever its weights.
    `visits` is room for a count a node; `counts` are added to.
    """
    for n in range(first, last):
        visits[c.leaves + n] = 0
    visits[c.leaves + last - 1] = times
    for n in range(last - 1, first - 1, -1):
        left = visits[c.leaves + n]
        if left == 0:
            continue
        e = c.data[c.start + n]
        if c.data[c.product + n]:
            visits[index(c.data, c.child + e)] += left
            visits[index(c.data, c.child + e + 1)] += left
            continue
        if same[n]:
            visits[index(c.data, c.child + e)] += left
            continue
        rest = values[c.leaves + n]
        final = -1  # the last term takes all that is left, whatever rounding did to `rest`
        for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
            slot = c.data[c.slot + e]
            if values[index(c.data, c.child + e)] > 0.0 and (slot < 0 or weights[np.uint64(slot)] > 0.0):
                final = e
        for e in range(c.data[c.start + n], final + 1):
            slot, child = c.data[c.slot + e], index(c.data, c.child + e)
            part = values[child] if slot < 0 else weights[np.uint64(slot)] * values[child]
            if part <= 0.0:
                continue
            drawn = left if e == final or part >= rest else rng.binomial(left, part / rest)
            rest -= part
            left -= drawn
            visits[child] += drawn
            if slot >= 0:
                counts[np.uint64(slot)] += drawn
            if left == 0:
                break


@merged
def add_logs(a: float, b: float) -> float:
    """log(exp(a) + exp(b)), for values of any size."""
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@compiled
def up_logs(c: Circuit, weights: Floats, values: Floats) -> None:
    """The pass `up` with the logarithms of all weights and values: products of any number of small terms."""
    for n in range(c.inner):
        if c.data[c.product + n]:
            e = c.data[c.start + n]
            values[c.leaves + n] = values[c.data[c.child + e]] + values[c.data[c.child + e + 1]]
        else:
            total = -np.inf
            for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
                factor = 0.0 if c.data[c.slot + e] < 0 else weights[c.data[c.slot + e]]
                total = add_logs(total, factor + values[c.data[c.child + e]])
            values[c.leaves + n] = total


@compiled
def down_logs(c: Circuit, weights: Floats, values: Floats, slopes: Floats) -> None:
    """The logarithms of the derivatives of the last node by every node."""
    last = c.inner
    slopes[:] = -np.inf
    slopes[c.leaves + last - 1] = 0.0
    for n in range(last - 1, -1, -1):
        slope = slopes[c.leaves + n]
        if slope == -np.inf:
            continue
        if c.data[c.product + n]:
            left, right = c.data[c.child + c.data[c.start + n]], c.data[c.child + c.data[c.start + n] + 1]
            slopes[left] = add_logs(slopes[left], slope + values[right])
            slopes[right] = add_logs(slopes[right], slope + values[left])
        else:
            for e in range(c.data[c.start + n], c.data[c.start + n + 1]):
                factor = 0.0 if c.data[c.slot + e] < 0 else weights[c.data[c.slot + e]]
                slopes[c.data[c.child + e]] = add_logs(slopes[c.data[c.child + e]], slope + factor)
