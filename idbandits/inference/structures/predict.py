"""Predictive probability of a round, by which structures are compared."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from numba import types

from idbandits.circuit.circuit import Circuit, Run
from idbandits.circuit.model import Model
from idbandits.circuit.passes import down, entry, of_slots, up
from idbandits.inference.state.state import ACTS_ON_MEANS, STATE, State
from idbandits.kernel.array_types import Floats, Indices, Ints
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, linked
from idbandits.kernel.structs import pack, unpacker

TINY = 1e-250  # a probability below which logarithms are used


class Nodes(NamedTuple):
    """Entries and observed nodes of a likelihood, as a structure for kernels."""

    learned: int  # number of learned entries
    row: Indices  # of a learned entry: the first entry of its row
    size: Indices  # of a learned entry: the number of entries of its row
    observed: int  # number of observed nodes
    leaf: Indices  # of an observed node: its first leaf
    states: Indices  # of an observed node
    known: Floats  # the known entries


unpack = unpacker(Circuit, Nodes)


@final
class Predictor:
    """Likelihood of a model, packed for `predict`."""

    def __init__(self, model: Model) -> None:
        likelihood, observed, offsets = model.likelihood, model.observed, model.parameters.offsets
        tables = model.learned.values()
        self.states = [n.states for n in observed]
        self.packed = pack(
            likelihood.circuit,
            Nodes(
                learned=model.parameters.learned_size,
                row=[offsets[t.name] + i // t.states * t.states for t in tables for i in range(t.size)],
                size=[t.states for t in tables for _ in range(t.size)],
                observed=len(observed), leaf=[likelihood.indicators[n.name] for n in observed], states=self.states,
                known=model.parameters.known,
            ),
        )  # fmt: skip


@inlined
def mean(v: Nodes, state: State, place: int) -> float:
    """Return the mean of a learned entry under pseudo-counts, or a known entry."""
    if place >= v.learned:
        return v.known[place - v.learned]
    if state.ints[ACTS_ON_MEANS]:
        return state.floats[place]
    total = 0.0
    for i in range(v.row[place], v.row[place] + v.size[place]):
        total += state.floats[i]
    return state.floats[place] / total


@linked
def predicted(program: Ints, numbers: Floats, state: State, action: Ints, seen: Ints, marginals: Floats) -> float:
    """Return the log-probability of an observation; write the probabilities of all states of observed nodes.

    Both are at the mean of the belief, which is exact if no row is used twice in a round.
    """
    c, v = unpack(program, numbers)
    run = Run(c, 0, c.inner)
    weights, values, slopes = np.empty(c.slots), np.ones(c.leaves + c.inner), np.zeros(c.leaves + c.inner)
    for s in range(c.slots):
        value, slot = 1.0, s
        while slot >= 0:
            value *= mean(v, state, entry(c, slot, action))
            slot = c.slot_also[slot]
        weights[s] = value
    root = up(run, of_slots, weights, values, None, False)
    slopes[c.leaves + c.inner - 1] = 1.0 / root
    down(run, of_slots, weights, values, slopes, None, None, False)
    at = 0
    for k in range(v.observed):
        for i in range(v.states[k]):
            marginals[at] = slopes[v.leaf[k] + i]
            at += 1
            if seen[k] >= 0 and seen[k] != i:
                values[v.leaf[k] + i] = 0.0
    probability = up(run, of_slots, weights, values, None, False)
    if probability > TINY:
        return np.log(probability)
    for s in range(c.slots):
        weights[s] = np.log(weights[s])
    for i in range(c.leaves):
        values[i] = np.log(values[i])
    return up(run, of_slots, weights, values, None, True)


@kernel(types.float64(INTS, FLOATS, STATE, INTS, INTS, FLOATS))
def predict(program: Ints, numbers: Floats, state: State, action: Ints, seen: Ints, marginals: Floats) -> float:
    """Kernel of `predicted`."""
    return predicted(program, numbers, state, action, seen, marginals)


ROUNDS = types.int64[:, ::1]
MANY = types.int64(INTS, FLOATS, STATE, ROUNDS, types.int64, FLOATS, types.float64[:, ::1])


@kernel(MANY)
def predict_all(
    program: Ints, numbers: Floats, state: State, rounds: Ints, width: int, joint: Floats, marginals: Floats
) -> int:
    """Predict many rounds by one belief; each is an action of this width, then an observation."""
    for t in range(len(rounds)):
        joint[t] = predicted(program, numbers, state, rounds[t, :width], rounds[t, width:], marginals[t])
    return len(rounds)
