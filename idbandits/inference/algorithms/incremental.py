"""The paper's idTSinc: the latent nodes of a round are estimated in that round only."""

from typing import NamedTuple, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.errors import check_flag, check_whole
from idbandits.inference.ageing import fade
from idbandits.inference.learn import learner
from idbandits.inference.protocol import CONTEXT_FEATURES, FEATURES, FORGET, MOST_STEPS, MOVE, Inference, check_word
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.factors import add_counts, expect, list_entries, list_marked, unmark
from idbandits.inference.rounds.reduction import reduce
from idbandits.inference.rounds.round import DONE, IMPOSSIBLE, Round
from idbandits.inference.rounds.workspace import GEOMETRIC, Workspace
from idbandits.inference.state.sections import DERIVED, PSEUDO_COUNTS, Declaration, per_entry, setting
from idbandits.inference.state.state import ROUNDS, State, drawable
from idbandits.kernel.array_types import Floats, Rng
from idbandits.kernel.compile import unmanaged
from idbandits.kernel.structs import pointer

WARM, RANDOM = range(2)
STARTS = {"warm": WARM, "random": RANDOM}
CLOSE = 1e-6  # pseudo-counts that change by less than this have converged


class Sections(NamedTuple):
    """Sections of the state."""

    iterations: int = setting()
    start: int = setting()
    alpha: Floats = per_entry(PSEUDO_COUNTS)
    prior: Floats = per_entry(PSEUDO_COUNTS)
    memo: Floats = per_entry(DERIVED, np.nan, 3)  # of `weigh`


DECLARED = Declaration(Sections)
view = DECLARED.view


@unmanaged
def learn(w: Workspace, state: State, rng: Rng, round_: Round) -> int:
    """Alternate between q(z) of this round and q(theta), which is the last one and the counts of this round."""
    v, own = w.v, view(state, w.v.learned)
    alpha, prior = own.alpha, own.prior
    if not reduce(w, round_.action, round_.seen):
        return IMPOSSIBLE
    if round_.keep < 1.0:
        fade(alpha, prior, v.learned, round_.keep)
    uses, fresh = w.other, w.fresh  # of the round: so far, and better
    number = touched_entries(w)
    for _ in range(round_.times):
        for i in range(number):
            e = w.rows[i]
            uses[e], fresh[e] = 0.0, 0.0
            if own.start == RANDOM:
                uses[e] = prior[e] + rng.random() - alpha[e]
                alpha[e] = drawable(alpha[e] + uses[e])
        for _ in range(own.iterations):
            moved = 0.0
            for i in range(1, w.uses[0] + 1):
                fresh[w.uses[i]] += round_.weight
            for i in range(w.places[0]):
                factor = pointer(w.factors, w.places[1 + i])
                expect(w, factor, GEOMETRIC, alpha, own.memo)
                add_counts(w, factor, round_.weight, fresh)
            for i in range(number):
                e = w.rows[i]
                alpha[e] = drawable(alpha[e] + fresh[e] - uses[e])
                moved = max(moved, abs(fresh[e] - uses[e]))
                uses[e], fresh[e] = fresh[e], 0.0
            if moved < CLOSE:
                break
    state.ints[ROUNDS] += round_.times
    return DONE


@unmanaged
def touched_entries(w: Workspace) -> int:
    """List the learned entries that a round reads, each once, in `rows`; their number."""
    number = 0
    for i in range(1, w.uses[0] + 1):
        number = list_marked(w, number, w.uses[i])
    for k in range(w.places[0]):
        number = list_entries(w, pointer(w.factors, w.places[1 + k]), number, False)
    unmark(w, number)
    return number


@final
class Incremental(Inference):
    """Mean-field inference of one round at a time, the paper's idTSinc; rounds are forgotten once they are learned.

    Parameters
    ----------
    iterations : int
        Highest number of E- and M-steps per round.
    start : str
        First E-step of a round: "warm" by the belief before the round, or "random", as in the paper's pseudocode.
    literal : bool
        Whether every latent node is kept, as in the paper's equations; otherwise those that cannot matter are summed
        out.

    Examples
    --------
    >>> import idbandits as idb
    >>> idb.Thompson(idb.models.cascade(3, 2), inference=Incremental(), seed=0)
    Thompson('cascade', incremental, iterations=30, ...; 0 rounds)
    """

    declared = DECLARED
    capabilities = frozenset({FORGET, FEATURES, CONTEXT_FEATURES, MOVE})
    learn = learner("Incremental")(learn)

    def __init__(self, iterations: int = 30, start: str = "warm", *, literal: bool = False) -> None:
        check_whole("iterations", iterations, 1, MOST_STEPS)
        self.settings = {"iterations": int(iterations), "start": check_word("start", start, STARTS)}
        self.settings["literal"] = check_flag("literal", literal)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """Return the prior."""
        return DECLARED.start(evidence, self.settings | {"start": STARTS[self.settings["start"]]})
