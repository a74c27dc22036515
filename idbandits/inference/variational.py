"""The paper's idTSvi: mean-field inference over all rounds, by grouped counts."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.circuit.passes import Circuit, index
from idbandits.errors import IdbanditsError, is_integer
from idbandits.inference.evidence import (
    KEPT,
    Evidence,
    Parts,
    evidence_of,
    expect_there,
    locate,
    log_weigh,
    remember,
    take,
    unpack,
)
from idbandits.inference.groups import (
    CAPACITY,
    DONE,
    FIGURES,
    HEADER,
    ROUNDS,
    SETTING,
    USED,
    WIDTH,
    Room,
    State,
    absorb,
    coded,
    put_in,
    room_in,
    scratch,
    with_groups,
)
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng

WARM, RANDOM, PRIOR = 0, 1, 2
STARTS = {"warm": WARM, "random": RANDOM, "prior": PRIOR}
TOLERANCE, CONSTANTS = 0, 1  # figures: the setting; the logarithm of the constant factors of what is determined
THOROUGH = 200  # sweeps after many rounds at once


@final
class Variational:
    """Mean-field inference: up to `sweeps` E- and M-steps a round, until the ELBO rises by less than `tolerance`.

    `start="warm"` goes on from the last belief, the first one being random (a symmetric one may never leave its
    symmetry); `"prior"` has the prior as the first one; `"random"` begins at random in every round, as the paper's
    pseudocode does. `literal` keeps every latent node, as the paper's equations do; otherwise those that cannot
    matter are summed out.
    """

    revisable = True

    def __init__(self, sweeps: int = 1, tolerance: float = 0.0, start: str = "warm", *, literal: bool = False) -> None:
        if not is_integer(sweeps) or sweeps < 1:
            raise IdbanditsError(f"sweeps is a whole number from 1, not {sweeps!r}")
        if not (isinstance(tolerance, (int, float)) and 0 <= tolerance < math.inf):
            raise IdbanditsError(f"tolerance is a number from 0, not {tolerance!r}")
        coded("start", start, STARTS)
        self.settings: dict[str, Any] = {
            "sweeps": int(sweeps), "tolerance": float(tolerance), "start": start, "literal": bool(literal)
        }  # fmt: skip

    def evidence(self, model: Model) -> Evidence:
        """The likelihood, with every latent node or folded."""
        return evidence_of(model, literal=self.settings["literal"])

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior; floats: pseudo-counts, figures, those of what is determined, those of the last E-step, memo."""
        figures = np.zeros(FIGURES)
        figures[TOLERANCE] = self.settings["tolerance"]
        prior = evidence.prior
        floats = np.concatenate([prior, figures, prior, prior, np.full(3 * evidence.learned, np.nan)])
        settings = (self.settings["sweeps"], coded("start", self.settings["start"], STARTS))
        return with_groups(floats, evidence.parts, evidence.width, 0, settings)

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """The pseudo-counts."""
        return state.floats[: evidence.learned]

    def elbo(self, evidence: Evidence, state: State) -> float:
        """L(q) of the paper: the logarithm of the probability of all that was seen is at least this."""
        return float(elbo(evidence.program, evidence.numbers, state.ints, state.floats))

    @staticmethod
    @compiled
    def learn(
        program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
        effort: int,
    ) -> int:  # fmt: skip
        """Count the round, then sweep over all groups."""
        whole, real = scratch(program)
        return learn(program, numbers, ints, floats, rng, action, seen, times, effort, whole, real)


@bare
def learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int, whole: Ints, real: Floats,
) -> int:  # fmt: skip
    """Count the round, then sweep over all groups."""
    c, v = unpack(program)
    room = room_in(c, v, whole, real)
    base = floats[v.learned + FIGURES : 2 * v.learned + FIGURES]
    status, constants = absorb(c, v, numbers, ints, base, action, seen, times, room)
    if status != DONE:
        return status
    floats[v.learned + CONSTANTS] += constants
    if effort > 0:
        settle(c, v, numbers, ints, floats, rng, effort > 1, room)
    return DONE


@bare
def settle(
    c: Circuit, v: Parts, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, thorough: bool, room: Room
) -> None:
    """Sweeps over all groups: q(z) of each by the current q(theta), then q(theta) by all of them."""
    alpha, base = floats[: v.learned], floats[v.learned + FIGURES : 2 * v.learned + FIGURES]
    before = floats[2 * v.learned + FIGURES : 3 * v.learned + FIGURES]
    memo = floats[3 * v.learned + FIGURES : 6 * v.learned + FIGURES]
    start = ints[SETTING + 1]
    if ints[USED] > 0 and (start == RANDOM or (start == WARM and ints[SETTING + 2] == 0)):
        for e in range(v.learned):
            alpha[e] = numbers[e] + rng.random()
        ints[SETTING + 2] = 1
    limit = max(ints[SETTING], THOROUGH) if thorough else ints[SETTING]
    tolerance = floats[v.learned + TOLERANCE]
    if thorough:
        tolerance = max(tolerance, 1e-9 * ints[ROUNDS])
    if ints[USED] == 0:
        limit = 1
    last = -np.inf
    for i in range(limit):
        put_in(before, alpha)
        asked = limit > 1 and tolerance > 0.0
        elbo = sweep(c, v, numbers, ints, alpha, base, memo, asked, room)
        if asked:
            elbo += bound(v, numbers, floats)
            if i > 0 and elbo - last < tolerance:
                break
            last = elbo


@bare
def sweep(
    c: Circuit,
    v: Parts,
    numbers: Floats,
    ints: Ints,
    alpha: Floats,
    base: Floats,
    memo: Floats,
    asked: bool,
    room: Room,
) -> float:
    """One E-step and one M-step; if asked, the entropy of all q(z) and the known entries' logarithms, summed."""
    if ints[USED] == 0:
        put_in(alpha, base)
        return 0.0
    fresh = room.fresh
    put_in(fresh, base)
    remember(v, alpha, memo)
    keys, counts = ints[HEADER + 2 * ints[CAPACITY] :], HEADER + (2 + ints[WIDTH]) * ints[CAPACITY]
    total = 0.0
    for g in range(ints[USED]):
        times = ints[counts + g]
        if times == 0:
            continue
        at = g * v.width
        j = keys[at]
        missing = take(v, keys, at, room.action, room.values)
        locate(c, v, j, room.action, room.entries)
        root = expect_there(
            c, v, j, missing, KEPT, numbers, alpha, memo, room.entries, room.weights, room.values, room.same,
            room.slopes, room.counts,
        )  # fmt: skip
        term = (np.log(root) if root > 0.0 else root) if asked else 0.0
        for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
            slot = index(v.data, v.use + t)
            e = room.entries[slot]
            if e < v.learned:
                fresh[e] += times * room.counts[slot]
                if asked and room.counts[slot] > 0.0:
                    term -= room.counts[slot] * log_weigh(v, KEPT, e, numbers, alpha, memo)
        total += times * term
    put_in(alpha, fresh)
    return total


@bare
def bound(v: Parts, numbers: Floats, floats: Floats) -> float:
    """What q(theta) adds to the ELBO after an M-step: the change of the Dirichlets' normalising constants."""
    total = 0.0
    e = 0
    while e < v.learned:
        size = v.data[v.size + e]
        total += log_beta(floats, e, size) - log_beta(numbers, e, size)
        e += size
    return total


@bare
def log_beta(alpha: Floats, first: int, size: int) -> float:
    """The logarithm of the normalising constant of a Dirichlet distribution."""
    total, result = 0.0, 0.0
    for i in range(first, first + size):
        total += alpha[i]
        result += math.lgamma(alpha[i])
    return result - math.lgamma(total)


@compiled
def elbo(program: Ints, numbers: Floats, ints: Ints, floats: Floats) -> float:
    """L(q) of the last belief: with q(z) by the E-step before it."""
    whole, real = scratch(program)
    return lower_bound(program, numbers, ints, floats, floats.copy(), whole, real)


@bare
def lower_bound(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, again: Floats, whole: Ints, real: Floats
) -> float:
    """The work of `elbo`, on a copy of what a sweep changes."""
    c, v = unpack(program)
    first = v.learned + FIGURES
    base, alpha = again[first : first + v.learned], again[first + v.learned : first + 2 * v.learned]
    free = sweep(
        c, v, numbers, ints, alpha, base, again[first + 2 * v.learned :], True, room_in(c, v, whole, real)
    )  # fmt: skip
    return free + floats[v.learned + CONSTANTS] + bound(v, numbers, floats)
