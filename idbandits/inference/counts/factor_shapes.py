"""Shapes: factors with arguments in the place of learned entries, evaluated for any arguments.

A shape is a row of integers like a factor (`rounds.factors`), but a member is a node (-1 - n), the number of an
argument, or a known entry (`KNOWN` and above). The arguments of a factor are learned entries.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.inference.counts.reduction_plans import KNOWN
from idbandits.inference.counts.tally import ShortInts
from idbandits.inference.rounds.factors import members
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import FLOATS, INTS, inlined, unmanaged


class Work(NamedTuple):
    """Arrays for one factor."""

    values: Floats  # of nodes
    slopes: Floats  # of nodes
    terms: Floats  # values of terms
    first: Ints  # of a node: its first term
    at: Ints  # of a term: its place in the shape


WORK = types.NamedTuple([FLOATS, FLOATS, FLOATS, INTS, INTS], Work)


def new_work(numbers: int) -> Work:
    """Return arrays for factors whose shapes have at most this many numbers."""
    values, slopes, terms = (np.empty(numbers + 1) for _ in range(3))
    return Work(values, slopes, terms, np.empty(numbers + 1, np.int64), np.empty(numbers + 1, np.int64))


@inlined
def weight_of(member: int, key: ShortInts, first: int, parameters: Floats, values: Floats) -> float:
    """Return the value of a member of a term; arguments begin at `first` in `key`."""
    if member < 0:
        return values[-1 - member]
    if member >= KNOWN:
        return parameters[member - KNOWN]
    return parameters[key[first + member]]


@inlined
def value_of_shape(shape: Ints, key: ShortInts, first: int, parameters: Floats, work: Work) -> float:
    """Return the value of a shape for arguments; write the values of its nodes and terms."""
    at, t = 1, 0
    for n in range(shape[0]):
        work.first[n] = t
        terms = shape[at]
        at += 1
        total = 0.0
        for _ in range(terms):
            product = 1.0
            for i in members(shape, at):
                product *= weight_of(shape[i], key, first, parameters, work.values)
            work.at[t], work.terms[t] = at, product
            total += product
            at += 1 + shape[at]
            t += 1
        work.values[n] = total
    work.first[shape[0]] = t
    return work.values[shape[0] - 1]


@inlined
def add_expected(shape: Ints, key: ShortInts, first: int, times: float, work: Work, counts: Floats) -> None:
    """Add the expected uses of a factor's arguments, after `value_of_shape`, multiplied by `times`."""
    last = shape[0] - 1
    for n in range(last):
        work.slopes[n] = 0.0
    work.slopes[last] = times / work.values[last]
    for n in range(last, -1, -1):
        slope = work.slopes[n]
        if slope > 0.0:
            for t in range(work.first[n], work.first[n + 1]):
                uses = slope * work.terms[t]
                if uses > 0.0:
                    for i in members(shape, work.at[t]):
                        if shape[i] < 0:
                            work.slopes[-1 - shape[i]] += uses / work.values[-1 - shape[i]]
                        elif shape[i] < KNOWN:
                            counts[key[first + shape[i]]] += uses


@unmanaged
def log_value_of_shape(shape: Ints, key: ShortInts, first: int, parameters: Floats, work: Work) -> float:
    """Return the logarithm of the value of a shape, also where the value underflows."""
    value = value_of_shape(shape, key, first, parameters, work)
    if value > 1e-290:
        return np.log(value)
    for n in range(shape[0]):
        high = -np.inf
        for t in range(work.first[n], work.first[n + 1]):
            total = 0.0
            for i in members(shape, work.at[t]):
                member = shape[i]
                total += (
                    work.values[-1 - member]
                    if member < 0
                    else np.log(weight_of(member, key, first, parameters, work.values))
                )
            work.terms[t] = total
            high = max(high, total)
        rest = 0.0
        for t in range(work.first[n], work.first[n + 1]):
            rest += np.exp(work.terms[t] - high) if high > -np.inf else 0.0
        work.values[n] = high + np.log(rest) if high > -np.inf else high
    return work.values[shape[0] - 1]
