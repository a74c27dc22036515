"""The paper's idTSinc: the latent nodes of a round are estimated in that round only."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.circuit.passes import entry
from idbandits.errors import IdbanditsError, is_integer
from idbandits.inference.evidence import GEOMETRIC, Evidence, evidence_of, expect, put, unpack
from idbandits.inference.groups import (
    DONE,
    FIGURES,
    IMPOSSIBLE,
    ROUNDS,
    SETTING,
    State,
    can_be_seen,
    coded,
    no_groups,
    room_in,
    scratch,
)
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng

WARM, RANDOM = 0, 1
STARTS = {"warm": WARM, "random": RANDOM}
CLOSE = 1e-6  # pseudo-counts that change by less than this have converged


@final
class Incremental:
    """Mean-field inference of one round at a time: at most `iterations` E- and M-steps, then the round is forgotten.

    The first E-step is by the belief before the round (`start="warm"`) or by a random one, as in the paper's
    pseudocode (`"random"`). `literal` keeps every latent node, as the paper's equations do.
    """

    revisable = False

    def __init__(self, iterations: int = 30, start: str = "warm", *, literal: bool = False) -> None:
        if not is_integer(iterations) or iterations < 1:
            raise IdbanditsError(f"iterations is a whole number from 1, not {iterations!r}")
        coded("start", start, STARTS)
        self.settings: dict[str, Any] = {"iterations": int(iterations), "start": start, "literal": bool(literal)}

    def evidence(self, model: Model) -> Evidence:
        """The likelihood, with every latent node or folded."""
        return evidence_of(model, literal=self.settings["literal"])

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior; floats: pseudo-counts, figures, memo of weights."""
        floats = np.concatenate([evidence.prior, np.zeros(FIGURES), np.full(3 * evidence.learned, np.nan)])
        return no_groups(floats, (self.settings["iterations"], coded("start", self.settings["start"], STARTS)))

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """The pseudo-counts."""
        return state.floats[: evidence.learned]

    @staticmethod
    @compiled
    def learn(
        program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
        effort: int,
    ) -> int:  # fmt: skip
        """Alternate between q(z) of this round and q(theta), which is the last one and the counts of this round."""
        whole, real = scratch(program)
        return learn(program, numbers, ints, floats, rng, action, seen, times, effort, whole, real)


@bare
def learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int, whole: Ints, real: Floats,
) -> int:  # fmt: skip
    """Alternate between q(z) of this round and q(theta), which is the last one and the counts of this round."""
    c, v = unpack(program)
    room = room_in(c, v, whole, real)
    alpha, memo = floats[: v.learned], floats[v.learned + FIGURES :]
    if not can_be_seen(c, v, numbers, action, seen, room):
        return IMPOSSIBLE
    uses, fresh = room.more[: c.slots], room.more[c.slots : 2 * c.slots]  # of the round: so far, and better
    for _ in range(times):
        uses[:] = 0.0
        fresh[:] = 0.0
        if ints[SETTING + 1] == RANDOM:
            for slot in range(c.slots):
                e = entry(c, slot, action)
                if e < v.learned:
                    uses[slot] = numbers[e] + rng.random() - alpha[e]
                    alpha[e] += uses[slot]
        for _ in range(ints[SETTING]):
            moved = 0.0
            for j in range(v.parts):
                put(v, j, action, seen, room.key, 0)
                expect(
                    c, v, GEOMETRIC, room.key, 0, numbers, alpha, memo, room.action, room.entries, room.weights,
                    room.values, room.same, room.slopes, room.counts,
                )  # fmt: skip
                for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
                    slot = v.data[v.use + t]
                    if room.entries[slot] < v.learned:
                        fresh[slot] += room.counts[slot]
            for slot in range(c.slots):
                e = entry(c, slot, action)
                if e < v.learned:
                    alpha[e] += fresh[slot] - uses[slot]
                    moved = max(moved, abs(fresh[slot] - uses[slot]))
                    uses[slot], fresh[slot] = fresh[slot], 0.0
            if moved < CLOSE:
                break
    ints[ROUNDS] += times
    return DONE
