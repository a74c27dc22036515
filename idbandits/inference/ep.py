"""Expectation propagation over grouped counts: every group keeps what one of its rounds says, given all the others."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.circuit.passes import Circuit, index
from idbandits.errors import IdbanditsError, is_integer
from idbandits.inference.evidence import Evidence, Parts, evidence_of, locate, take, unpack
from idbandits.inference.gibbs import step
from idbandits.inference.groups import (
    BEFORE,
    CAPACITY,
    DONE,
    EACH,
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
from idbandits.inference.matching import match_there
from idbandits.kernel.compiling import bare, compiled, merged
from idbandits.kernel.types import Floats, Ints, Rng

DAMPING, SHARE = 0, 1  # figures: the settings
CLOSE = 1e-9  # sweeps end when no pseudo-count changes by a larger part of it
THOROUGH = 200  # sweeps after many rounds at once
STEPS = 2  # of Gibbs sampling before an action that uses it


@final
class EP:
    """Expectation propagation: each distinct choice and observation has one site, used as often as it occurred.

    Independent rows are surer of themselves than the exact posterior is, which now and then ends in the wrong action
    for good. So a `share` of the actions draws its means by Gibbs sampling, from the exact posterior.
    """

    revisable = False

    def __init__(self, sweeps: int = 1, damping: float = 0.5, share: float = 0.25) -> None:
        if not is_integer(sweeps) or sweeps < 1:
            raise IdbanditsError(f"sweeps is a whole number from 1, not {sweeps!r}")
        if not (isinstance(damping, (int, float)) and 0 < damping <= 1):
            raise IdbanditsError(f"damping is a number above 0 and at most 1, not {damping!r}")
        if not (isinstance(share, (int, float)) and 0 <= share <= 1):
            raise IdbanditsError(f"share is a number from 0 to 1, not {share!r}")
        self.settings: dict[str, Any] = {"sweeps": int(sweeps), "damping": float(damping), "share": float(share)}

    def evidence(self, model: Model) -> Evidence:
        """The folded likelihood."""
        return evidence_of(model)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior. Floats: the pseudo-counts to act by, figures, those of what is determined, scratch, those of
        the belief, those of the Gibbs chain, its means; then the sites.
        """
        figures = np.zeros(FIGURES)
        figures[[DAMPING, SHARE]] = self.settings["damping"], self.settings["share"]
        p = evidence.prior
        floats = np.concatenate([p, figures, p, np.zeros(evidence.learned), p, p, p])
        return with_groups(floats, evidence.parts, evidence.width, evidence.most_slots + 1, (self.settings["sweeps"],))

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """The pseudo-counts of the belief."""
        first = 3 * evidence.learned + FIGURES
        return state.floats[first : first + evidence.learned]

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
    """Sweeps over all sites; then the pseudo-counts to act by."""
    first = v.learned + FIGURES
    total_up(c, v, numbers, ints, floats, room)
    alpha = floats[first + 2 * v.learned : first + 3 * v.learned]
    put_in(floats[: v.learned], alpha)
    if ints[USED] == 0:
        return
    limit = max(ints[SETTING], THOROUGH) if thorough else ints[SETTING]
    for _ in range(limit):
        if sweep(c, v, numbers, ints, floats, limit > 1, room) < CLOSE:
            break
    put_in(floats[: v.learned], alpha)
    share = floats[v.learned + SHARE]
    if share > 0.0 and rng.random() < share:
        chain, means = floats[first + 3 * v.learned : first + 4 * v.learned], floats[first + 4 * v.learned :]
        for _ in range(STEPS):
            step(c, v, numbers, ints, chain, floats[first : first + v.learned], means[: v.learned], rng, room)
        put_in(floats[: v.learned], chain)


@merged
def own_slots(v: Parts, j: int, entries: Ints, seen: Floats, owner: Ints) -> None:
    """Say for every slot of a part whether it is the first to read its entry: that one carries the site."""
    first, last = v.data[v.use_start + j], v.data[v.use_start + j + 1]
    for t in range(first, last):
        e = entries[index(v.data, v.use + t)]
        owner[t - first] = e if e < v.learned else -1
    if not v.data[v.shared + j]:
        return
    for t in range(first, last):
        e = owner[t - first]
        owner[t - first] = -1
        if e >= 0 and seen[e] == 0.0:
            owner[t - first] = e
            seen[e] = 1.0
    for t in range(first, last):
        if owner[t - first] >= 0:
            seen[owner[t - first]] = 0.0


@bare
def total_up(c: Circuit, v: Parts, numbers: Floats, ints: Ints, floats: Floats, room: Room) -> None:
    """The pseudo-counts: of what is determined, and of all sites as often as they occurred.

    Where a group has grown, its site is made smaller, so that it says as much in all as before: proper pseudo-counts
    stay proper. The last number of a site is how often it had occurred.
    """
    base, alpha = (
        floats[v.learned + FIGURES : 2 * v.learned + FIGURES],
        floats[3 * v.learned + FIGURES : 4 * v.learned + FIGURES],
    )
    scratch = floats[2 * v.learned + FIGURES : 3 * v.learned + FIGURES]
    sites = floats[ints[BEFORE] :]
    keys, counts = ints[HEADER + 2 * ints[CAPACITY] :], HEADER + (2 + ints[WIDTH]) * ints[CAPACITY]
    owner = room.marks
    put_in(alpha, base)
    for g in range(ints[USED]):
        at = g * v.width
        j = keys[at]
        take(v, keys, at, room.action, room.values)
        locate(c, v, j, room.action, room.entries)
        own_slots(v, j, room.entries, scratch, owner)
        site = sites[g * ints[EACH] : (g + 1) * ints[EACH]]
        times, before = ints[counts + g], site[ints[EACH] - 1]
        site[ints[EACH] - 1] = times
        for t in range(v.data[v.use_start + j + 1] - v.data[v.use_start + j]):
            if owner[t] >= 0:
                if times != before:
                    site[t] *= before / times if times > 0 else 0.0
                alpha[np.uint64(owner[t])] += times * site[t]


@bare
def sweep(c: Circuit, v: Parts, numbers: Floats, ints: Ints, floats: Floats, asked: bool, room: Room) -> float:
    """Renew every site: take one copy of it out of the belief, match one round, and the difference is the new site.

    If asked, returns by how much a pseudo-count changed at most, as a part of it.
    """
    moved = 0.0
    alpha = floats[3 * v.learned + FIGURES : 4 * v.learned + FIGURES]
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
        missing = take(v, keys, at, room.action, room.values)
        locate(c, v, j, room.action, room.entries)
        own_slots(v, j, room.entries, scratch, owner)
        site = sites[g * ints[EACH] : (g + 1) * ints[EACH]]
        proper = True
        for t in range(slots):
            if owner[t] >= 0:
                kept[t] = alpha[np.uint64(owner[t])]
                alpha[np.uint64(owner[t])] -= site[t]
                proper &= alpha[np.uint64(owner[t])] > 0.0
        if proper:
            match_there(c, v, j, missing, numbers, alpha, room, scratch)
            for t in range(slots):
                if owner[t] >= 0:
                    fresh[t] = alpha[np.uint64(owner[t])] - (kept[t] - site[t])
        for t in range(slots):
            if owner[t] >= 0:
                alpha[np.uint64(owner[t])] = kept[t]
        if not proper:
            continue
        step_size = damping  # as much of it as changes no pseudo-count by more than half: counts may be in the millions
        for t in range(slots):
            if owner[t] >= 0:
                push = times * abs(fresh[t] - site[t])
                if step_size * push > 0.499 * kept[t]:  # seldom: no division otherwise
                    step_size = min(step_size, 0.5 * kept[t] / push)
        for t in range(slots):
            if owner[t] >= 0:
                change = step_size * (fresh[t] - site[t])
                if asked:
                    moved = max(moved, times * abs(change) / kept[t])
                site[t] += change
                alpha[np.uint64(owner[t])] = kept[t] + times * change
    return moved
