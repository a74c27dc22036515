"""Conjugate counts: exact where what is seen is always a single product of table entries."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.circuit.passes import Circuit
from idbandits.inference.evidence import Evidence, Parts, evidence_of, put, unpack
from idbandits.inference.groups import (
    AMBIGUOUS,
    DONE,
    FIGURES,
    IMPOSSIBLE,
    ROUNDS,
    UNKNOWN,
    Room,
    State,
    add_uses,
    is_below,
    no_groups,
    room_in,
    scratch,
    uses,
)
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng


@final
class Exact:
    """Exact posterior: the semi-bandit, the cascade models, and every diagram whose latent nodes are revealed."""

    revisable = True

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}

    def evidence(self, model: Model) -> Evidence:
        """The folded likelihood."""
        return evidence_of(model)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior."""
        return no_groups(np.concatenate([evidence.prior, np.zeros(FIGURES)]))

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """The pseudo-counts."""
        return state.floats[: evidence.learned]

    @staticmethod
    @compiled
    def learn(
        program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
        effort: int,
    ) -> int:  # fmt: skip
        """Add the uses of table entries."""
        whole, real = scratch(program)
        return learn(program, numbers, ints, floats, rng, action, seen, times, effort, whole, real)


@bare
def learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int, whole: Ints, real: Floats,
) -> int:  # fmt: skip
    """Add the uses of table entries."""
    c, v = unpack(program)
    room = room_in(c, v, whole, real)
    if times != 0:
        for j in range(v.parts):
            put(v, j, action, seen, room.key, 0)
            single, constant = uses(c, v, numbers, room.key, room)
            if constant == -np.inf:
                return IMPOSSIBLE
            if not single:
                return AMBIGUOUS
        if ints[ROUNDS] + times < 0:
            return UNKNOWN
        add_all(c, v, numbers, floats, action, seen, times, room)
        if times < 0 and is_below(v, numbers, floats):
            add_all(c, v, numbers, floats, action, seen, -times, room)
            return UNKNOWN
        ints[ROUNDS] += times
    return DONE


@bare
def add_all(
    c: Circuit, v: Parts, numbers: Floats, floats: Floats, action: Ints, seen: Ints, times: int, room: Room
) -> None:
    """Add the uses of all parts."""
    for j in range(v.parts):
        if v.parts > 1:
            put(v, j, action, seen, room.key, 0)
            uses(c, v, numbers, room.key, room)
        add_uses(v, j, times, room, floats)
