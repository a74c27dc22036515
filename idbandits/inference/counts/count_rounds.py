"""Counting rounds: certain uses of entries, and factors by shape and arguments."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, final

import numpy as np
from numba import types

from idbandits.circuit.model import Model
from idbandits.inference.counts.tally import (
    FILLED,
    SHORT_INTS,
    TALLY,
    USED,
    ShortInts,
    Tally,
    add_key,
    grown,
    new_tally,
)
from idbandits.inference.rounds.evidence import folded
from idbandits.inference.rounds.workspace import held, scratch, workspace
from idbandits.inference.state.state import NO_STATE, STATE, State, group_columns
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import FLOATS, INTS, kernel
from idbandits.kernel.structs import PACKED, Packed

from idbandits.inference.counts.reduction_plans import (  # isort: skip
    COUNTED, PLANS, SCRATCH, Plans, Scratch, cache_in, entry_of_use, find_plan, has_room_for_plans, new_plans,
    new_scratch, readers_of, unpack_readers,
)  # fmt: skip

MATRIX = types.int64[:, ::1]
MOST_PLANS = 2_000_000  # numbers in the bodies of plans: of more, all are made again


class Logged(NamedTuple):
    """Rounds to count, and what became of them."""

    choices: Ints
    seen: Ints
    weights: Floats  # empty: 1 for each
    status: Ints


LOGGED = types.NamedTuple([MATRIX, MATRIX, FLOATS, INTS], Logged)


@kernel(types.int64(PACKED, PACKED, STATE, SCRATCH, PLANS, TALLY, FLOATS, LOGGED, types.int64, SHORT_INTS))
def count_rounds(
    evidence: Packed, readers: Packed, state: State, s: Scratch, plans: Plans, tally: Tally, uses: Floats,
    rounds: Logged, first: int, key: ShortInts,
) -> int:  # fmt: skip
    """Count rounds from `first` on, until there is no room for another one; return the number of the next round.

    `uses` has one number per learned entry, and the sum of the logarithms of all constants. The status of a round says
    if it was not counted: it is impossible, or a choice that matters is missing.
    """
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    r = unpack_readers(readers.ints, readers.floats)
    chosen = np.empty(w.v.parts + 1, np.int64)
    done = first
    while done < len(rounds.choices):
        fits = tally.header[USED] + w.v.most_groups <= len(tally.weights)
        fits &= tally.header[FILLED] + w.v.most_numbers <= len(tally.pool)
        fits &= 3 * (tally.header[USED] + w.v.most_groups) <= 2 * len(tally.table)
        if not fits or not has_room_for_plans(plans):
            break
        cache = cache_in(plans)
        action, seen = rounds.choices[done], rounds.seen[done]
        weight = rounds.weights[done] if len(rounds.weights) > 0 else 1.0
        status, constant = COUNTED, 0.0
        for j in range(w.v.parts):
            plan = find_plan(w, r, s, cache, j, action, seen)
            chosen[j] = cache.keys.counts[plan]
            constant += cache.keys.weights[plan]
            if status == COUNTED:
                status = cache.bodies[chosen[j]]
        rounds.status[done] = status
        is_added = status == COUNTED and weight > 0.0
        if is_added:
            uses[w.v.learned] += weight * constant
        for j in range(w.v.parts if is_added else 0):
            at = chosen[j] + 2
            end = at + cache.bodies[at - 1]
            for i in range(at, end):
                uses[entry_of_use(w, cache.bodies[i], action)] += weight
            at = end + 1
            for _ in range(cache.bodies[end]):
                key[0], number = cache.bodies[at], cache.bodies[at + 1]
                for i in range(number):
                    key[1 + i] = entry_of_use(w, cache.bodies[at + 2 + i], action)
                add_key(tally, key, 0, 1 + number, weight)
                at += 2 + number
        done += 1
    return int(held(done, int_scratch, float_scratch))


@final
class Counter:
    """Counts rounds of one model in one thread."""

    def __init__(self, model: Model) -> None:
        self.model, self._evidence = model, model.derived(folded)
        self.plans, self._scratch = new_plans(model), new_scratch(model)
        self.tally, self.uses = new_tally(), np.zeros(self._evidence.learned + 1)
        self._key = np.empty(self._evidence.most_numbers + 1, np.int32)
        ints, floats = self._evidence.new_scratch()
        self._state = NO_STATE._replace(int_scratch=ints, float_scratch=floats)
        self.rounds = 0

    def count(self, choices: Ints, seen: Ints, weights: Floats) -> Ints:
        """Count rounds; return the status of each."""
        rounds = Logged(choices, seen, weights, np.empty(len(choices), np.int64))
        done, readers = 0, self.model.derived(readers_of)
        while done < len(choices):
            self._make_room(len(choices) - done)
            done = count_rounds(
                self._evidence.packed, readers, self._state, self._scratch, self.plans, self.tally, self.uses, rounds,
                done, self._key,
            )  # fmt: skip
        self.rounds += int((rounds.status == COUNTED).sum())
        return rounds.status

    def _make_room(self, rounds: int) -> None:
        most = min(rounds, 64)
        self.tally = grown(self.tally, most * self._evidence.most_groups, self._evidence.most_numbers)
        if len(self.plans.bodies) > MOST_PLANS:
            shapes, fresh = self.plans.shapes, new_plans(self.model)
            self.plans = fresh._replace(shapes=shapes)
        self.plans = self.plans.grown()


def shapes_in(plans: Plans) -> list[Ints]:
    """Return the shapes of plans, in the order of their numbers."""
    groups = group_columns(plans.shapes)
    return [groups.keys[first:last].copy() for first, last in pairwise(groups.starts.tolist())]
