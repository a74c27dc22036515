"""Gibbs sampling: latent counts given means, means given latent counts; converges to the exact posterior."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.circuit.passes import Circuit, index, split
from idbandits.errors import IdbanditsError, is_integer
from idbandits.inference.drawing import draw_rows
from idbandits.inference.evidence import (
    GIVEN,
    MEANS,
    Evidence,
    Parts,
    evidence_of,
    fold,
    locate,
    rise,
    take,
    unpack,
    weigh_slots,
)
from idbandits.inference.groups import (
    CAPACITY,
    DONE,
    FIGURES,
    HEADER,
    SETTING,
    USED,
    WIDTH,
    Room,
    State,
    absorb,
    put_in,
    room_in,
    scratch,
    with_groups,
)
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng

THOROUGH = 200  # steps after many rounds at once
CHAIN = 2000  # steps that describe the posterior


@final
class Gibbs:
    """Gibbs sampling with `steps` draws of all latent counts a round, at a cost that does not grow with the counts."""

    revisable = True

    def __init__(self, steps: int = 1) -> None:
        if not is_integer(steps) or steps < 1:
            raise IdbanditsError(f"steps is a whole number from 1, not {steps!r}")
        self.settings: dict[str, Any] = {"steps": int(steps)}

    def evidence(self, model: Model) -> Evidence:
        """The folded likelihood."""
        return evidence_of(model)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior; floats: pseudo-counts given latent counts, figures, those of what is determined, drawn means."""
        floats = np.concatenate([evidence.prior, np.zeros(FIGURES), evidence.prior, evidence.prior])
        return with_groups(floats, evidence.parts, evidence.width, 0, (self.settings["steps"],))

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """Draws along a chain that goes on from the state; where nothing is latent, the pseudo-counts say all."""
        if state.ints[USED] == 0:
            return state.floats[: evidence.learned]
        found = np.empty((CHAIN, evidence.learned))
        chain(evidence.program, evidence.numbers, state.ints, state.floats.copy(), rng, found)
        return found

    @staticmethod
    @compiled
    def learn(
        program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
        effort: int,
    ) -> int:  # fmt: skip
        """Count the round, then draw latent counts anew."""
        whole, real = scratch(program)
        return learn(program, numbers, ints, floats, rng, action, seen, times, effort, whole, real)


@bare
def learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int, whole: Ints, real: Floats,
) -> int:  # fmt: skip
    """Count the round, then draw latent counts anew."""
    c, v = unpack(program)
    room = room_in(c, v, whole, real)
    base = floats[v.learned + FIGURES : 2 * v.learned + FIGURES]
    status, _ = absorb(c, v, numbers, ints, base, action, seen, times, room)
    if status != DONE:
        return status
    if effort > 0:
        settle(c, v, numbers, ints, floats, rng, effort > 1, room)
    return DONE


@bare
def settle(
    c: Circuit, v: Parts, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, thorough: bool, room: Room
) -> None:
    """Draw means, then latent counts."""
    steps = max(ints[SETTING], THOROUGH) if thorough and ints[USED] > 0 else ints[SETTING]
    alpha, base = floats[: v.learned], floats[v.learned + FIGURES : 2 * v.learned + FIGURES]
    for _ in range(steps):
        step(c, v, numbers, ints, alpha, base, floats[2 * v.learned + FIGURES :], rng, room)


@bare
def step(
    c: Circuit, v: Parts, numbers: Floats, ints: Ints, alpha: Floats, base: Floats, means: Floats, rng: Rng, room: Room
) -> None:
    """Draw all means, and with them all latent counts; the pseudo-counts are then those given these counts."""
    if ints[USED] == 0:
        put_in(alpha, base)
        return
    draw_rows(v, alpha, rng, means)
    fresh, visits, drawn = room.fresh, room.visits, room.marks
    put_in(fresh, base)
    keys, counts = ints[HEADER + 2 * ints[CAPACITY] :], HEADER + (2 + ints[WIDTH]) * ints[CAPACITY]
    for g in range(ints[USED]):
        times = ints[counts + g]
        if times == 0:
            continue
        at = g * v.width
        j = keys[at]
        missing = take(v, keys, at, room.action, room.values)
        locate(c, v, j, room.action, room.entries)
        if missing:
            fold(c, v, j, room.entries, numbers, room.values, room.same)
        weigh_slots(v, j, GIVEN, numbers, means, means, room.entries, room.weights)
        if rise(c, v, j, room.weights, room.values, room.same) < 1e-290:  # means at the edge of what numbers can hold
            weigh_slots(v, j, MEANS, numbers, alpha, alpha, room.entries, room.weights)
            rise(c, v, j, room.weights, room.values, room.same)
        first, last = v.data[v.node + j], v.data[v.node + j + 1]
        for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
            drawn[index(v.data, v.use + t)] = 0
        split(c, first, last, room.weights, room.values, room.same, times, rng, visits, drawn)
        for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
            slot = index(v.data, v.use + t)
            if room.entries[slot] < v.learned:
                fresh[room.entries[slot]] += drawn[slot]
        if missing:
            for n in range(first, last):
                room.same[n] = 0
    put_in(alpha, fresh)


@compiled
def chain(program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, found: Floats) -> None:
    """Draws of the means along a chain."""
    whole, real = scratch(program)
    walk(program, numbers, ints, floats, rng, found, whole, real)


@bare
def walk(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, found: Floats, whole: Ints, real: Floats
) -> None:
    """The work of `chain`."""
    c, v = unpack(program)
    room = room_in(c, v, whole, real)
    base, means = floats[v.learned + FIGURES : 2 * v.learned + FIGURES], floats[2 * v.learned + FIGURES :]
    for i in range(len(found)):
        step(c, v, numbers, ints, floats[: v.learned], base, means, rng, room)
        draw_rows(v, floats, rng, found[i])
