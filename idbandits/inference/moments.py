"""Moment matching, one round at a time: what a round says of a row is a mixture, and a Dirichlet takes its place."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.inference.evidence import Evidence, evidence_of, locate, put, take, unpack
from idbandits.inference.groups import (
    DONE,
    FIGURES,
    IMPOSSIBLE,
    ROUNDS,
    State,
    can_be_seen,
    no_groups,
    room_in,
    scratch,
)
from idbandits.inference.matching import has_clash, match_part, match_terms
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng


@final
class Moments:
    """Moment matching: an examination that nobody made leaves an item's belief untouched. Keeps no rounds."""

    revisable = False

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}

    def evidence(self, model: Model) -> Evidence:
        """The folded likelihood."""
        return evidence_of(model)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior."""
        return no_groups(np.concatenate([evidence.prior, np.zeros(FIGURES + evidence.learned)]))

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """The pseudo-counts."""
        return state.floats[: evidence.learned]

    @staticmethod
    @compiled
    def learn(
        program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
        effort: int,
    ) -> int:  # fmt: skip
        """Match part by part; jointly where a row is used in several parts."""
        whole, real = scratch(program)
        return learn(program, numbers, ints, floats, rng, action, seen, times, effort, whole, real)


@bare
def learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int, whole: Ints, real: Floats,
) -> int:  # fmt: skip
    """Match part by part; jointly where a row is used in several parts."""
    c, v = unpack(program)
    room = room_in(c, v, whole, real)
    alpha, scratch = floats[: v.learned], floats[v.learned + FIGURES :]
    if not can_be_seen(c, v, numbers, action, seen, room):
        return IMPOSSIBLE
    together = False
    if v.data[v.clash_start + v.parts] < v.data[v.clash_start + v.parts + 1]:
        locate(c, v, v.parts, action, room.entries)
        together = has_clash(v, v.parts, room.entries)
    for _ in range(times):
        if together:
            for j in range(v.parts):
                put(v, j, action, seen, room.key, 0)
                take(v, room.key, 0, room.action, room.values)
            if match_terms(c, v, v.parts, numbers, alpha, room, scratch):
                continue
        for j in range(v.parts):
            put(v, j, action, seen, room.key, 0)
            match_part(c, v, room.key, 0, numbers, alpha, room, scratch)
    ints[ROUNDS] += times
    return DONE
