"""Conjugate counts: exact where what is seen is always a single product of table entries."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.inference.counting import add_uses, find_uses, is_below_prior
from idbandits.inference.evidence import Evidence, folded
from idbandits.inference.protocol import AMBIGUOUS, DONE, IMPOSSIBLE, UNKNOWN, Round, learner
from idbandits.inference.workspace import Workspace, write_key
from idbandits.kernel.compiling import bare
from idbandits.kernel.states import FIGURES, ROUNDS, State, no_groups
from idbandits.kernel.types import Floats, Ints, Rng


@bare
def learn(w: Workspace, ints: Ints, floats: Floats, rng: Rng, round_: Round) -> int:
    """Add the uses of table entries."""
    if round_.times != 0:
        for j in range(w.v.parts):
            write_key(w.v, j, round_.action, round_.seen, w.key)
            single, constant = find_uses(w)
            if constant == -np.inf:
                return IMPOSSIBLE
            if not single:
                return AMBIGUOUS
        if ints[ROUNDS] + round_.times < 0:
            return UNKNOWN
        add_parts(w, floats, round_, round_.times)
        if round_.times < 0 and is_below_prior(w.v, floats):
            add_parts(w, floats, round_, -round_.times)
            return UNKNOWN
        ints[ROUNDS] += round_.times
    return DONE


@bare
def add_parts(w: Workspace, alpha: Floats, round_: Round, times: int) -> None:
    """Add the uses of all parts."""
    for j in range(w.v.parts):
        if w.v.parts > 1:  # else they are in the workspace still
            write_key(w.v, j, round_.action, round_.seen, w.key)
            find_uses(w)
        add_uses(w, j, times, alpha)


@final
class Exact:
    """Exact posterior: the semi-bandit, the cascade models, and every diagram whose latent nodes are revealed."""

    revisable = True
    learn = learner("Exact")(learn)

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}

    def evidence(self, model: Model) -> Evidence:
        """The folded likelihood."""
        return model.derived(folded)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior."""
        return no_groups(np.concatenate([evidence.prior, np.zeros(FIGURES)]))

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """The pseudo-counts."""
        return state.floats[: evidence.learned]
