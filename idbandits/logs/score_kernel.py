"""Log-probabilities of observed nodes, of many rounds at once: given the nodes above, and alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np
from numba import types

from idbandits.circuit.build import starts
from idbandits.circuit.circuit import Run
from idbandits.circuit.likelihood import TINY, LikelihoodParts, bind_part, show, to_logs, unpack
from idbandits.circuit.model import Model
from idbandits.circuit.passes import down, of_slots, up
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import FLOATS, INTS, kernel
from idbandits.kernel.structs import pack

CHUNK = 8192  # rounds that a thread takes at once
ROWS, VALUES = types.int64[:, ::1], types.float64[:, ::1]


class NodeLogs(NamedTuple):
    """Log-probabilities of what was seen, one row per round, one column per observed node; NaN where nothing was."""

    conditional: Floats  # given the observed nodes above; -inf if that is impossible, then NaN below
    marginal: Floats  # of the node alone


@kernel(types.void(INTS, FLOATS, FLOATS, ROWS, ROWS, VALUES, VALUES))
def node_logs(
    program: Ints, numbers: Floats, parameters: Floats, choices: Ints, seen: Ints, conditional: Floats, marginal: Floats
) -> None:
    """Compute the log-probability of each observed node of each round, given the nodes above it and alone.

    A decision that is missing may have any value: no node that was seen depends on it.
    """
    c, v = unpack(program, numbers)
    weights = np.empty(c.slots)
    values, slopes = np.ones(c.leaves + c.inner), np.zeros(c.leaves + c.inner)
    action = np.empty(v.axes, np.int64)
    for r in range(len(choices)):
        for i in range(v.axes):
            action[i] = max(choices[r, i], 0)
        for j in range(v.parts):
            any_seen = False
            for t in range(v.seen_start[j], v.seen_start[j + 1]):
                any_seen = any_seen or seen[r, v.seen[t]] >= 0
            if not any_seen:
                continue
            run = Run(c, v.node[j], v.node[j + 1])
            bind_part(c, v, j, action, parameters, weights)
            values[0], slopes[0] = 1.0, 0.0
            for t in range(v.seen_start[j], v.seen_start[j + 1]):
                show(v, v.seen[t], -1, values, 1.0, 0.0)
                show(v, v.seen[t], -1, slopes, 0.0, 0.0)
            before = up(run, of_slots, weights, values, None, False)
            slopes[c.leaves + run.last - 1] = 1.0 / before
            down(run, of_slots, weights, values, slopes, None, None, False)
            before, logs = np.log(before), False
            for t in range(v.seen_start[j], v.seen_start[j + 1]):
                k = v.seen[t]
                state = seen[r, k]
                if state < 0:
                    continue
                marginal[r, k] = np.log(slopes[v.leaf[k] + state])
                show(v, k, state, values, 0.0 if logs else 1.0, -np.inf if logs else 0.0)
                after = 0.0
                if not logs:
                    after = up(run, of_slots, weights, values, None, False)
                    if after > TINY:
                        after = np.log(after)
                    else:
                        to_logs(c, v, j, weights, values)
                        logs = True
                if logs:
                    after = up(run, of_slots, weights, values, None, True)
                conditional[r, k] = after - before
                before = after
                if after == -np.inf:
                    break


@final
class NodePredictor:
    """Likelihood of a model, ready to score rounds; `order` names the observed nodes from the top."""

    def __init__(self, model: Model, order: Sequence[str] | None = None) -> None:
        likelihood = model.likelihood
        c, runs = likelihood.parts.circuit, list(pairwise(likelihood.parts.ends))
        names = [node.name for node in model.observed]
        ranks = {name: i for i, name in enumerate(names if order is None else order)}
        leaves = [likelihood.indicators[name] for name in names]
        spans = [set(range(leaf, leaf + node.states)) for leaf, node in zip(leaves, model.observed, strict=True)]
        children = [set(c.child[c.start[first] : c.start[last]]) for first, last in runs]
        found = [[k for k, span in enumerate(spans) if span & below] for below in children]
        seen = [sorted(numbers, key=lambda k: ranks[names[k]]) for numbers in found]
        uses = [c.slots_between(*run) for run in runs]
        self.packed = pack(
            c,
            LikelihoodParts(
                parts=len(runs), axes=len(model.decisions) + len(model.contexts),
                learned=model.parameters.learned_size, node=likelihood.parts.ends, use_start=starts(uses),
                use=[slot for own in uses for slot in own], seen_start=starts(seen),
                seen=[number for own in seen for number in own], leaf=leaves,
                column=starts([node.values for node in model.observed]),
            ),
        )  # fmt: skip

    def logs(self, parameters: Floats, choices: Ints, seen: Ints, threads: int | None = None) -> NodeLogs:
        """Return the log-probabilities of what was seen under parameters; `threads` is all cores by default."""
        choices, seen = (np.ascontiguousarray(own, np.int64) for own in (choices, seen))
        result = NodeLogs(np.full(seen.shape, np.nan), np.full(seen.shape, np.nan))
        parameters = np.ascontiguousarray(parameters)
        node_logs.compile()

        def work(first: int) -> None:
            own = slice(first, first + CHUNK)
            node_logs(*self.packed, parameters, choices[own], seen[own], result.conditional[own], result.marginal[own])

        firsts, number = range(0, len(seen), CHUNK), threads or os.cpu_count() or 1
        if number == 1 or len(firsts) < 2:
            for first in firsts:
                work(first)
        else:
            with ThreadPoolExecutor(number) as pool:
                list(pool.map(work, firsts))
        return result
