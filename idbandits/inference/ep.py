"""Expectation propagation over grouped counts: every group keeps what one of its rounds says, given all the others."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from idbandits.compiled import Model
from idbandits.errors import IdbanditsError
from idbandits.evidence import MEANS, Evidence, Parts, bind, take, unpack
from idbandits.inference.groups import (
    CAPACITY, DONE, FIGURES, HEADER, SETTING, USED, WIDTH, BEFORE, EACH, Room, State, file, put_in, refusal, room_in, scratch, with_groups,
)  # fmt: skip
from idbandits.inference.matching import match_part
from idbandits.inference.protocol import Rng
from idbandits.passes import Circuit, bare, compiled
from idbandits.tables import Floats, Ints, is_integer

DAMPING = 0  # a figure
THOROUGH = 50  # sweeps after many rounds at once


@final
class EP:
    """Expectation propagation: each distinct choice and observation has one site, used as often as it occurred."""

    revisable = False

    def __init__(self, sweeps: int = 1, damping: float = 0.5) -> None:
        if not is_integer(sweeps) or sweeps < 1:
            raise IdbanditsError(f"sweeps is a whole number from 1, not {sweeps!r}")
        if not (isinstance(damping, (int, float)) and 0 < damping <= 1):
            raise IdbanditsError(f"damping is a number above 0 and at most 1, not {damping!r}")
        self.settings: dict[str, Any] = {"sweeps": int(sweeps), "damping": float(damping)}

    def evidence(self, model: Model) -> Evidence:
        """The folded likelihood."""
        return model.once("evidence", lambda: Evidence(model))

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior; floats: pseudo-counts, figures, those of what is determined, scratch; then the sites."""
        figures = np.zeros(FIGURES)
        figures[DAMPING] = self.settings["damping"]
        floats = np.concatenate([evidence.prior, figures, evidence.prior, np.zeros(evidence.learned)])
        return with_groups(floats, evidence.parts, evidence.width, evidence.most_slots, (self.settings["sweeps"],))

    def draws(self, evidence: Evidence, state: State, rng: Rng) -> None:
        """The belief is what the pseudo-counts say."""

    @staticmethod
    @compiled
    def learn(
        program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
        effort: int,
    ) -> int:  # fmt: skip
        """Count the round, then renew all sites."""
        whole, real = scratch(program)
        return learn(program, numbers, ints, floats, rng, action, seen, times, effort, whole, real)


@bare
def learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int, whole: Ints, real: Floats,
) -> int:  # fmt: skip
    """Count the round, then renew all sites."""
    c, v = unpack(program)
    room = room_in(c, v, whole, real)
    base = floats[v.learned + FIGURES : 2 * v.learned + FIGURES]
    if times != 0:
        status = refusal(c, v, numbers, ints, base, action, seen, times, room)
        if status != DONE:
            return status
        file(c, v, numbers, ints, base, action, seen, times, room)
    if effort > 0:
        settle(c, v, numbers, ints, floats, effort > 1, room)
    return DONE



@bare
def settle(c: Circuit, v: Parts, numbers: Floats, ints: Ints, floats: Floats, thorough: bool, room: Room) -> None:
    """Sweeps over all sites."""
    total_up(c, v, numbers, ints, floats, room)
    if ints[USED] > 0:
        for _ in range(max(ints[SETTING], THOROUGH) if thorough else ints[SETTING]):
            sweep(c, v, numbers, ints, floats, room)


@bare
def own_slots(v: Parts, j: int, entries: Ints, seen: Floats, owner: Ints) -> None:
    """Say for every slot of a part whether it is the first to read its entry: that one carries the site."""
    first, last = v.data[v.use_start + j], v.data[v.use_start + j + 1]
    for t in range(first, last):
        e = entries[v.data[v.use + t]]
        owner[t - first] = -1
        if e < v.learned and seen[e] == 0.0:
            owner[t - first] = e
            seen[e] = 1.0
    for t in range(first, last):
        if owner[t - first] >= 0:
            seen[owner[t - first]] = 0.0


@bare
def total_up(c: Circuit, v: Parts, numbers: Floats, ints: Ints, floats: Floats, room: Room) -> None:
    """The pseudo-counts: of what is determined, and of all sites as often as they occurred."""
    alpha, base = floats[: v.learned], floats[v.learned + FIGURES : 2 * v.learned + FIGURES]
    scratch = floats[2 * v.learned + FIGURES : 3 * v.learned + FIGURES]
    sites = floats[ints[BEFORE] :]
    keys, counts = ints[HEADER + 2 * ints[CAPACITY] :], HEADER + (2 + ints[WIDTH]) * ints[CAPACITY]
    owner = room.marks
    put_in(alpha, base)
    for g in range(ints[USED]):
        at = g * v.width
        j = keys[at]
        take(v, keys, at, room.action, room.values)
        bind(c, v, j, MEANS, room.action, numbers, base, base, room.entries, room.weights)
        own_slots(v, j, room.entries, scratch, owner)
        for t in range(v.data[v.use_start + j + 1] - v.data[v.use_start + j]):
            if owner[t] >= 0:
                alpha[owner[t]] += ints[counts + g] * sites[g * ints[EACH] + t]


@bare
def sweep(c: Circuit, v: Parts, numbers: Floats, ints: Ints, floats: Floats, room: Room) -> None:
    """Renew every site: take one copy of it out of the belief, match one round, and the difference is the new site."""
    alpha = floats[: v.learned]
    scratch = floats[2 * v.learned + FIGURES : 3 * v.learned + FIGURES]
    damping = floats[v.learned + DAMPING]
    sites = floats[ints[BEFORE] :]
    keys, counts = ints[HEADER + 2 * ints[CAPACITY] :], HEADER + (2 + ints[WIDTH]) * ints[CAPACITY]
    owner, kept, fresh = room.marks, room.more[: c.slots], room.more[c.slots :]
    for g in range(ints[USED]):
        times = ints[counts + g]
        if times == 0:
            continue
        at = g * v.width
        j = keys[at]
        slots = v.data[v.use_start + j + 1] - v.data[v.use_start + j]
        take(v, keys, at, room.action, room.values)
        bind(c, v, j, MEANS, room.action, numbers, alpha, alpha, room.entries, room.weights)
        own_slots(v, j, room.entries, scratch, owner)
        site = sites[g * ints[EACH] : (g + 1) * ints[EACH]]
        proper = True
        for t in range(slots):
            if owner[t] >= 0:
                kept[t] = alpha[owner[t]]
                alpha[owner[t]] -= site[t]
                proper &= alpha[owner[t]] > 0.0
        if proper:
            match_part(c, v, keys, at, numbers, alpha, room, scratch)
            for t in range(slots):
                if owner[t] >= 0:
                    fresh[t] = alpha[owner[t]] - (kept[t] - site[t])
        for t in range(slots):
            if owner[t] >= 0:
                alpha[owner[t]] = kept[t]
        if proper:
            for t in range(slots):
                if owner[t] >= 0:
                    proper &= kept[t] + times * damping * (fresh[t] - site[t]) > 0.0
        if proper:
            for t in range(slots):
                if owner[t] >= 0:
                    change = damping * (fresh[t] - site[t])
                    site[t] += change
                    alpha[owner[t]] = kept[t] + times * change
