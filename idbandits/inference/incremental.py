"""The paper's idTSinc: the latent nodes of a round are estimated in that round only."""

from typing import final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.circuit.passes import entry
from idbandits.errors import check_flag, check_whole
from idbandits.inference.counting import is_possible
from idbandits.inference.evidence import Evidence
from idbandits.inference.protocol import DONE, IMPOSSIBLE, MOST_STEPS, BuiltIn, Round, coded, learner
from idbandits.inference.workspace import GEOMETRIC, Workspace, expect, read_key, write_key
from idbandits.kernel.compiling import bare
from idbandits.kernel.fields import pointer
from idbandits.kernel.states import FIGURES, ROUNDS, SETTING, State, drawable, no_groups, section
from idbandits.kernel.types import Floats, Ints, Rng

ITERATIONS, START = range(SETTING, SETTING + 2)  # of the header
ALPHA, MEMO = range(2)  # sections of the floats: the pseudo-counts, and three numbers per entry of `weigh`
WARM, RANDOM = range(2)
STARTS = {"warm": WARM, "random": RANDOM}
CLOSE = 1e-6  # pseudo-counts that change by less than this have converged


@bare
def learn(w: Workspace, ints: Ints, floats: Floats, rng: Rng, round_: Round) -> int:
    """Alternate between q(z) of this round and q(theta), which is the last one and the counts of this round."""
    c, v, action = w.c, w.v, round_.action
    alpha, memo = section(floats, ALPHA, v.learned), section(floats, MEMO, v.learned)
    if not is_possible(w, action, round_.seen):
        return IMPOSSIBLE
    uses, fresh = w.more, pointer(w.more, c.slots)  # of the round: so far, and better
    for _ in range(round_.times):
        for slot in range(c.slots):
            uses[slot], fresh[slot] = 0.0, 0.0
        if ints[START] == RANDOM:
            for slot in range(c.slots):
                e = entry(c, slot, action)
                if e < v.learned:
                    uses[slot] = v.parameters[e] + rng.random() - alpha[e]
                    alpha[e] = drawable(alpha[e] + uses[slot])
        for _ in range(ints[ITERATIONS]):
            moved = 0.0
            for j in range(v.parts):
                write_key(v, j, action, round_.seen, w.key)
                expect(w, j, read_key(w, w.key), GEOMETRIC, alpha, memo)
                for t in range(v.use_start[j], v.use_start[j + 1]):
                    slot = v.use[t]
                    if w.entries[slot] < v.learned:
                        fresh[slot] += w.counts[slot]
            for slot in range(c.slots):
                e = entry(c, slot, action)
                if e < v.learned:
                    alpha[e] += fresh[slot] - uses[slot]
                    moved = max(moved, abs(fresh[slot] - uses[slot]))
                    uses[slot], fresh[slot] = fresh[slot], 0.0
            for slot in range(c.slots):  # rounding
                e = entry(c, slot, action)
                if e < v.learned:
                    alpha[e] = drawable(alpha[e])
            if moved < CLOSE:
                break
    ints[ROUNDS] += round_.times
    return DONE


@final
class Incremental(BuiltIn):
    """Mean-field inference of one round at a time: at most `iterations` E- and M-steps, then the round is forgotten.

    The first E-step is by the belief before the round (`start="warm"`) or by a random one, as in the paper's
    pseudocode (`"random"`). `literal` keeps every latent node, as the paper's equations do.
    """

    revisable = False
    learn = learner("Incremental")(learn)

    def __init__(self, iterations: int = 30, start: str = "warm", *, literal: bool = False) -> None:
        check_whole("iterations", iterations, 1, MOST_STEPS)
        coded("start", start, STARTS)
        self.settings = {"iterations": int(iterations), "start": start}
        self.settings["literal"] = check_flag("literal", literal)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior."""
        floats = np.concatenate([evidence.prior, np.zeros(FIGURES), np.full(3 * evidence.learned, np.nan)])
        return no_groups(floats, (self.settings["iterations"], coded("start", self.settings["start"], STARTS)))
