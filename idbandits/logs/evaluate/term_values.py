"""Expected terms of the reward, given an action and a part of what was observed, for many rounds at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.circuit.circuit import Run
from idbandits.circuit.model import Means, Model, compile
from idbandits.circuit.passes import down, of_slots, unpack, up, weight
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import FLOATS, INTS, kernel

INT_ROWS, FLOAT_ROWS = types.int64[:, ::1], types.float64[:, ::1]


class TermCircuit(NamedTuple):
    """Likelihood with one more observed node per term, whose probability is the term on a scale from 0 to 1."""

    model: Model
    first_leaf: Ints  # of each node of `model.observed` that the log observes
    end_leaf: Ints
    term_leaf: Ints  # of each term: the indicator of "the term is 1"
    low: Floats  # of each term: its smallest value
    span: Floats

    def parameters(self, means: Means) -> Floats:
        """Return the parameters for `values` from the means of the learned tables."""
        return self.model.parameter_vector(means)

    def values(self, parameters: Floats, choices: Ints, seen: Ints) -> Floats:
        """Return E[term | choices, seen] by round and term; NaN where the parameters rule out what was seen.

        Nodes with -1 in `seen` are summed over; without any, all are.
        """
        rounds, terms = len(choices), len(self.term_leaf)
        out = np.empty((rounds, terms))
        observed = len(self.first_leaf)
        states = seen if seen.shape[1] == observed else np.full((rounds, observed), -1)
        expect(
            self.model.likelihood.program, parameters, np.ascontiguousarray(choices, np.int64),
            np.ascontiguousarray(states, np.int64), self.first_leaf, self.end_leaf, self.term_leaf, out,
        )  # fmt: skip
        return self.low + self.span * out


@kernel(types.void(INTS, FLOATS, INT_ROWS, INT_ROWS, INTS, INTS, INTS, FLOAT_ROWS))
def expect(
    program: Ints, parameters: Floats, choices: Ints, seen: Ints, first_leaf: Ints, end_leaf: Ints, term_leaf: Ints,
    out: Floats,
) -> None:  # fmt: skip
    """Compute P(term is 1 | choices, seen) of all terms by one pass upwards and one downwards per round."""
    c = unpack(program, parameters)
    weights, values = np.empty(c.slots), np.empty(c.leaves + c.inner)
    slopes = np.empty(c.leaves + c.inner)
    for i in range(len(choices)):
        for slot in range(c.slots):
            weights[slot] = weight(c, slot, parameters, choices[i])
        values[: c.leaves] = 1.0
        for node in range(seen.shape[1]):
            if seen[i, node] >= 0:
                for leaf in range(first_leaf[node], end_leaf[node]):
                    values[leaf] = 1.0 if leaf - first_leaf[node] == seen[i, node] else 0.0
        run = Run(c, 0, c.inner)
        total = up(run, of_slots, weights, values, None, False)
        slopes[: c.leaves] = 0.0
        slopes[c.leaves + c.inner - 1] = 1.0
        down(run, of_slots, weights, values, slopes, None, None, False)
        for term in range(len(term_leaf)):
            out[i, term] = slopes[term_leaf[term]] / total if total > 0 else np.nan


def term_circuit(model: Model) -> TermCircuit:
    """Return the circuit of the expected terms of a model's reward."""
    return model.derived(_term_circuit)


def _term_circuit(model: Model) -> TermCircuit:
    d = model.diagram.copy()
    names: list[str] = []
    low, span = [], []
    for reward in model.diagram.rewards:
        least, most = float(reward.table.min()), float(reward.table.max())
        name = f"term {len(names)}"
        while name in d.nodes:
            name += "'"
        shares = (reward.table - least) / (most - least if most > least else 1.0)
        d.observed(name, list(reward.parents), np.clip(shares, 0.0, 1.0))
        names.append(name)
        low.append(least)
        span.append(most - least)
    circuit_model = compile(d)
    likelihood = circuit_model.likelihood
    starts = likelihood.indicators
    first = [starts[node.name] for node in model.observed]
    ends = [start + node.states for start, node in zip(first, model.observed, strict=True)]
    leaves = [starts[name] + 1 for name in names]
    return TermCircuit(circuit_model, _ints(first), _ints(ends), _ints(leaves), np.array(low), np.array(span))


def _ints(numbers: Sequence[int]) -> Ints:
    return np.array(numbers, dtype=np.int64)


def observed_terms(model: Model, choices: Ints, seen: Ints) -> Floats:
    """Return the terms of the reward of rounds by term; NaN where a node that one depends on was not seen."""
    columns = {node.name: seen[:, k] for k, node in enumerate(model.observed)}
    known = [*model.decisions, *model.contexts]
    columns |= {node.name: choices[:, k] for k, node in enumerate(known)}
    values = np.full((len(choices), len(model.diagram.rewards)), np.nan)
    for k, reward in enumerate(model.diagram.rewards):
        if all(name in columns for name in reward.parents):
            at = [columns[name] for name in reward.parents]
            valid = np.all([column >= 0 for column in at], axis=0)
            values[valid, k] = reward.table[tuple(column[valid] for column in at)]
    return values
