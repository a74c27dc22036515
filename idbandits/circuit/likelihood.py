"""Likelihood of many rounds under one vector of means: predictive probabilities, and the means that fit best."""

import math
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np
from numba import types

from idbandits.circuit.build import starts
from idbandits.circuit.circuit import Circuit, Run
from idbandits.circuit.model import Model
from idbandits.circuit.passes import down, entry, of_slots, up, weight
from idbandits.kernel.array_types import Floats, Indices, Ints
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, unmanaged
from idbandits.kernel.structs import pack, unpacker

TINY = 1e-250  # values below are computed again, as logarithms
CLOSE = 0.01  # gain of the log-likelihood of up to MANY rounds that is not worth another step
MANY = 8192
MOST_CYCLES = 40
MOST_CODES = 2**62  # combinations of values that can be numbered
ROUNDS, PROBABILITIES = types.int64[:, ::1], types.float64[:, ::1]


class LikelihoodParts(NamedTuple):
    """Independent parts of a likelihood: their slots and observed nodes."""

    parts: int  # number of parts
    axes: int  # number of decisions and contexts, with which a round begins
    learned: int  # number of learned parameters
    node: Indices  # by part: its first node
    use_start: Indices
    use: Indices  # the slots of a part
    seen_start: Indices
    seen: Indices  # the observed nodes of a part, in the order of declaration
    leaf: Indices  # by observed node: its first indicator
    column: Indices  # by observed node: its first state among those of all observed nodes


unpack = unpacker(Circuit, LikelihoodParts)


@inlined
def bind_part(c: Circuit, v: LikelihoodParts, j: int, action: Ints, parameters: Floats, weights: Floats) -> None:
    """Compute the weights of the slots of a part."""
    for t in range(v.use_start[j], v.use_start[j + 1]):
        weights[v.use[t]] = weight(c, v.use[t], parameters, action)


@inlined
def show(v: LikelihoodParts, number: int, state: int, values: Floats, certain: float, impossible: float) -> None:
    """Set the indicators of an observed node; all of them to `certain` if the state is negative."""
    states = v.column[number + 1] - v.column[number]
    for i in range(states):
        values[v.leaf[number] + i] = certain if state < 0 or state == i else impossible


@unmanaged
def to_logs(c: Circuit, v: LikelihoodParts, j: int, weights: Floats, values: Floats) -> None:
    """Replace the weights and the indicators of a part by their logarithms."""
    for t in range(v.use_start[j], v.use_start[j + 1]):
        weights[v.use[t]] = np.log(weights[v.use[t]])
    values[0] = 0.0
    for t in range(v.seen_start[j], v.seen_start[j + 1]):
        number = v.seen[t]
        for i in range(v.leaf[number], v.leaf[number] + v.column[number + 1] - v.column[number]):
            values[i] = 0.0 if values[i] > 0.0 else -np.inf


@kernel(types.float64(INTS, FLOATS, FLOATS, types.int64, ROUNDS, FLOATS, FLOATS))
def expect(
    program: Ints, numbers: Floats, parameters: Floats, j: int, rounds: Ints, times: Floats, counts: Floats
) -> float:
    """Add the expected uses of learned parameters in part j to `counts`; return its log-likelihood of all rounds."""
    c, v = unpack(program, numbers)
    weights, uses = np.empty(c.slots), np.empty(c.slots)
    values, slopes = np.ones(c.leaves + c.inner), np.zeros(c.leaves + c.inner)
    total = 0.0
    for r in range(len(rounds)):
        action, seen = rounds[r, : v.axes], rounds[r, v.axes :]
        bind_part(c, v, j, action, parameters, weights)
        values[0], slopes[0] = 1.0, 0.0
        for t in range(v.seen_start[j], v.seen_start[j + 1]):
            show(v, v.seen[t], seen[v.seen[t]], values, 1.0, 0.0)
            show(v, v.seen[t], -1, slopes, 0.0, 0.0)
        for t in range(v.use_start[j], v.use_start[j + 1]):
            uses[v.use[t]] = 0.0
        run = Run(c, v.node[j], v.node[j + 1])
        value = up(run, of_slots, weights, values, None, False)
        if value > TINY:
            slopes[c.leaves + run.last - 1] = 1.0 / value
            down(run, of_slots, weights, values, slopes, uses, None, False)
            total += times[r] * np.log(value)
        else:
            to_logs(c, v, j, weights, values)
            slopes[0] = -np.inf
            for t in range(v.seen_start[j], v.seen_start[j + 1]):
                show(v, v.seen[t], -1, slopes, -np.inf, -np.inf)
            value = up(run, of_slots, weights, values, None, True)
            total += times[r] * value
            if value > -np.inf:
                slopes[c.leaves + run.last - 1] = -value
                down(run, of_slots, weights, values, slopes, uses, None, True)
        for t in range(v.use_start[j], v.use_start[j + 1]):
            slot = v.use[t]
            while slot >= 0:
                e = entry(c, slot, action)
                if e < v.learned:
                    counts[e] += times[r] * uses[v.use[t]]
                slot = c.slot_also[slot]
    return total


@inlined
def joint_of_states(
    run: Run, v: LikelihoodParts, number: int, weights: Floats, values: Floats, logs: bool, p: Floats
) -> float:
    """Compute the joint probability of each state of a node and the indicators, up to a factor; return the sum."""
    first, states, high, total = v.column[number], v.column[number + 1] - v.column[number], -np.inf, 0.0
    for s in range(states):
        show(v, number, s, values, 0.0 if logs else 1.0, -np.inf if logs else 0.0)
        p[first + s] = up(run, of_slots, weights, values, None, logs)
        high = max(high, p[first + s])
    for s in range(states):
        if logs:
            p[first + s] = np.exp(p[first + s] - high)
        total += p[first + s]
    return total


@kernel(types.void(INTS, FLOATS, FLOATS, ROUNDS, PROBABILITIES))
def predict(program: Ints, numbers: Floats, parameters: Floats, rounds: Ints, probabilities: Floats) -> None:
    """Compute the probability of every state of every observed node, given the action and the nodes declared before it.

    Probabilities of nodes that were not seen stay as they are.
    """
    c, v = unpack(program, numbers)
    weights, values = np.empty(c.slots), np.ones(c.leaves + c.inner)
    for r in range(len(rounds)):
        action, seen = rounds[r, : v.axes], rounds[r, v.axes :]
        for j in range(v.parts):
            run = Run(c, v.node[j], v.node[j + 1])
            bind_part(c, v, j, action, parameters, weights)
            logs, values[0] = False, 1.0
            for t in range(v.seen_start[j], v.seen_start[j + 1]):
                show(v, v.seen[t], -1, values, 1.0, 0.0)
            for t in range(v.seen_start[j], v.seen_start[j + 1]):
                number = v.seen[t]
                if seen[number] < 0:
                    continue
                total = 0.0 if logs else joint_of_states(run, v, number, weights, values, False, probabilities[r])
                if total <= TINY:
                    if not logs:
                        to_logs(c, v, j, weights, values)
                    logs = True
                    total = joint_of_states(run, v, number, weights, values, True, probabilities[r])
                for i in range(v.column[number], v.column[number + 1]):
                    probabilities[r, i] /= total
                show(v, number, seen[number], values, 0.0 if logs else 1.0, -np.inf if logs else 0.0)


@final
class Fitting:
    """Likelihood of a model for many rounds, one per row: decisions, contexts, then observed nodes, -1 if not seen."""

    def __init__(self, model: Model) -> None:
        likelihood, tables = model.likelihood, model.learned.values()
        c, runs = likelihood.parts.circuit, list(pairwise(likelihood.parts.ends))
        nodes = [*model.decisions, *model.contexts, *model.observed]
        axes = len(nodes) - len(model.observed)
        uses = [c.slots_between(*run) for run in runs]
        leaves = [likelihood.indicators[node.name] for node in model.observed]
        spans = [set(range(leaf, leaf + node.states)) for leaf, node in zip(leaves, model.observed, strict=True)]
        children = [set(c.child[c.start[first] : c.start[last]]) for first, last in runs]
        seen = [[number for number, span in enumerate(spans) if span & below] for below in children]
        self.columns = starts([node.values for node in model.observed])  # by observed node: its first state
        self.prior = np.concatenate([np.empty(0), *(np.ravel(t.prior) for t in tables)])
        self._known = model.parameters.known
        self._row_sizes = np.array([t.states for t in tables for _ in range(t.size // t.states)], dtype=np.int64)
        self._read = []  # by part: the columns of a round that it depends on, and their states
        for slots, numbers in zip(uses, seen, strict=True):
            columns = {axis for use in slots for slot in c.chain(use) for axis in c.axes(slot)}
            self._read.append([(k, nodes[k].states) for k in sorted({*columns, *(axes + n for n in numbers)})])
        self._packed = pack(
            c,
            LikelihoodParts(
                parts=len(runs), axes=axes, learned=len(self.prior), node=likelihood.parts.ends,
                use_start=starts(uses), use=[slot for slots in uses for slot in slots], seen_start=starts(seen),
                seen=[number for numbers in seen for number in numbers], leaf=leaves, column=self.columns,
            ),
        )  # fmt: skip

    def probabilities(self, means: Floats, rounds: Ints) -> Floats:
        """Return the results of `predict`: one row per round, one column per state of each observed node."""
        probabilities = np.full((len(rounds), self.columns[-1]), np.nan)
        predict(*self._packed, np.concatenate([means, self._known]), rounds, probabilities)
        return probabilities

    def best_means(self, start: Floats, rounds: Ints, times: Floats, base: Floats) -> tuple[Floats, float]:
        """Return the means of highest likelihood near `start`, and its logarithm; `base` are additional known counts.

        Expectation maximisation; every two steps are extrapolated to a third (SQUAREM, Varadhan and Roland 2008), which
        is replaced by a plain step if it does not help. Rows that no round uses stay as they are.
        """
        means, best, parts = start, -np.inf, self._by_part(rounds, times)
        close = CLOSE * max(1.0, float(times.sum()) / MANY)
        for _ in range(MOST_CYCLES):
            one, before = self._step(means, parts, base)
            two, middle = self._step(one, parts, base)
            along, bend = one - means, two - 2 * one + means
            length = max(1.0, float(np.linalg.norm(along)) / max(float(np.linalg.norm(bend)), 1e-150))
            far = np.maximum(means + 2 * length * along + length**2 * bend, 1e-3 * two)
            three, best = self._step(self.normalised(far, two), parts, base)
            if not best >= middle:
                three, best = self._step(two, parts, base)
            means = three
            if not best - before >= close:
                break
        return means, best

    def _by_part(self, rounds: Ints, times: Floats) -> list[tuple[int, Ints, Floats]]:
        """Return the distinct rounds of every part and how often each was seen: parts depend on few columns."""
        parts: list[tuple[int, Ints, Floats]] = []
        for j, columns in enumerate(self._read):
            if math.prod(states + 1 for _, states in columns) >= MOST_CODES:  # then rounds hardly repeat
                parts.append((j, rounds, times))
                continue
            code = np.zeros(len(rounds), np.int64)
            for column, states in columns:
                code = code * (states + 1) + rounds[:, column] + 1
            _, first, places = np.unique(code, return_index=True, return_inverse=True)
            parts.append((j, np.ascontiguousarray(rounds[first]), np.bincount(places, times).astype(np.float64)))
        return parts

    def _step(self, means: Floats, parts: list[tuple[int, Ints, Floats]], base: Floats) -> tuple[Floats, float]:
        """Return the means after one step of EM, and the log-likelihood before it."""
        counts, parameters = base.copy(), np.concatenate([means, self._known])
        value = sum(expect(*self._packed, parameters, j, rounds, times, counts) for j, rounds, times in parts)
        known = base > 0
        return self.normalised(counts, means), value + float(base[known] @ np.log(np.maximum(means[known], 1e-300)))

    def normalised(self, counts: Floats, otherwise: Floats) -> Floats:
        """Return rows of counts as means; rows without counts are taken from `otherwise`."""
        totals = self.row_totals(counts)
        return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), otherwise)

    def row_totals(self, numbers: Floats) -> Floats:
        """Return for each entry the sum of its row."""
        if not len(numbers):
            return numbers
        first = np.concatenate([[0], np.cumsum(self._row_sizes)[:-1]])
        return np.repeat(np.add.reduceat(numbers, first), self._row_sizes)
