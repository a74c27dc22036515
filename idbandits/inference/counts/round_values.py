"""Probabilities of rounds under fixed means, by plans of reduction."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import types

from idbandits.circuit.model import Model
from idbandits.inference.counts.count_rounds import LOGGED, Logged
from idbandits.inference.counts.factor_shapes import WORK, Work, log_value_of_shape, new_work
from idbandits.inference.rounds.evidence import folded
from idbandits.inference.rounds.workspace import held, scratch, workspace
from idbandits.inference.state.state import NO_STATE, STATE, State
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import FLOATS, kernel
from idbandits.kernel.structs import PACKED, Packed, pointer

from idbandits.inference.counts.reduction_plans import (  # isort: skip
    COUNTED, MISSING, PLANS, SCRATCH, Plans, Scratch, cache_in, entry_of_use, find_plan, has_room_for_plans, new_plans,
    new_scratch, readers_of, unpack_readers,
)  # fmt: skip

BATCH = 20_000  # rounds that a thread takes at once


@kernel(types.int64(PACKED, PACKED, STATE, SCRATCH, PLANS, FLOATS, LOGGED, types.int64, WORK))
def value_rounds(
    evidence: Packed, readers: Packed, state: State, s: Scratch, plans: Plans, parameters: Floats, rounds: Logged,
    first: int, work: Work,
) -> int:  # fmt: skip
    """Write the logarithms of the probabilities of rounds to `weights`, until there is no room for more plans.

    Return the number of the next round. The logarithm is NaN if it depends on a missing choice.
    """
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    r = unpack_readers(readers.ints, readers.floats)
    key = np.empty(w.v.most_numbers + 1, np.int32)
    done = first
    while done < len(rounds.choices) and has_room_for_plans(plans):
        cache = cache_in(plans)
        action, seen = rounds.choices[done], rounds.seen[done]
        total, product, status = 0.0, 1.0, COUNTED
        for j in range(w.v.parts):
            plan = find_plan(w, r, s, cache, j, action, seen)
            at = cache.keys.counts[plan]
            status = max(status, cache.bodies[at])
            total += cache.keys.weights[plan]
            end = at + 2 + cache.bodies[at + 1]
            for i in range(at + 2, end):
                product *= parameters[entry_of_use(w, cache.bodies[i], action)]
                if product < 1e-200:
                    total += np.log(product)
                    product = 1.0
            at = end + 1
            for _ in range(cache.bodies[end] if status == COUNTED else 0):
                shape, number = cache.bodies[at], cache.bodies[at + 1]
                for i in range(number):
                    key[i] = entry_of_use(w, cache.bodies[at + 2 + i], action)
                start = cache.shapes.start[shape]
                total += log_value_of_shape(pointer(cache.shapes.pool, start), key, 0, parameters, work)
                at += 2 + number
        rounds.weights[done] = np.nan if status == MISSING else total + np.log(product)
        done += 1
    return int(held(done, int_scratch, float_scratch))


def log_values(model: Model, parameters: Floats, choices: Ints, seen: Ints, threads: int = 2) -> Floats:
    """Return the logarithm of the probability of what was seen in each round, given the choices.

    `parameters` are the means of the learned entries, then the known entries (`model.parameter_vector`). Missing
    observations (-1) are summed over; if what was seen depends on a missing choice (-1), the result is NaN. It is minus
    infinity for impossible rounds.
    """
    values = np.empty(len(choices))
    choices, seen = np.ascontiguousarray(choices, np.int64), np.ascontiguousarray(seen, np.int64)
    evidence, readers = model.derived(folded), model.derived(readers_of)

    def work(first: int) -> None:
        plans, own = new_plans(model), slice(first, first + share)
        rounds = Logged(choices[own], seen[own], values[own], np.empty(0, np.int64))
        (ints, floats), own_scratch, shape_work = (
            evidence.new_scratch(),
            new_scratch(model),
            new_work(evidence.most_numbers),
        )
        state, done = NO_STATE._replace(int_scratch=ints, float_scratch=floats), 0
        while done < len(rounds.choices):
            plans = plans.grown()
            done = value_rounds(
                evidence.packed, readers, state, own_scratch, plans, parameters, rounds, done, shape_work
            )

    share = max(BATCH, -(-len(choices) // threads))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(0, len(choices), share)))
    return values
