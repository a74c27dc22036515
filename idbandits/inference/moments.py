"""Moment matching, one round at a time: what a round says of a row is a mixture, and a Dirichlet takes its place."""

from typing import final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.inference.counting import is_possible
from idbandits.inference.evidence import Evidence
from idbandits.inference.matching import has_clash, match_part, match_terms
from idbandits.inference.protocol import DONE, IMPOSSIBLE, BuiltIn, Round, learner
from idbandits.inference.workspace import Workspace, locate, read_key, write_key
from idbandits.kernel.compiling import bare
from idbandits.kernel.states import FIGURES, ROUNDS, State, no_groups, section
from idbandits.kernel.types import Floats, Ints, Rng

ALPHA, MASSES = range(2)  # sections of the floats


@bare
def learn(w: Workspace, ints: Ints, floats: Floats, rng: Rng, round_: Round) -> int:
    """Match part by part; jointly where a row is used in several parts."""
    v, action, seen = w.v, round_.action, round_.seen
    alpha, masses = section(floats, ALPHA, v.learned), section(floats, MASSES, v.learned)
    if not is_possible(w, action, seen):
        return IMPOSSIBLE
    together = False
    if v.clash_start[v.parts] < v.clash_start[v.parts + 1]:
        locate(w, v.parts, action)
        together = has_clash(w, v.parts)
    for _ in range(round_.times):
        if together:
            for j in range(v.parts):
                write_key(v, j, action, seen, w.key)
                read_key(w, w.key)
            if match_terms(w, v.parts, alpha, masses):
                continue
        for j in range(v.parts):
            write_key(v, j, action, seen, w.key)
            match_part(w, j, read_key(w, w.key), alpha, masses)
    ints[ROUNDS] += round_.times
    return DONE


@final
class Moments(BuiltIn):
    """Moment matching: an examination that nobody made leaves an item's belief untouched. Keeps no rounds."""

    revisable = False
    learn = learner("Moments")(learn)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior."""
        return no_groups(np.concatenate([evidence.prior, np.zeros(FIGURES + evidence.learned)]))
