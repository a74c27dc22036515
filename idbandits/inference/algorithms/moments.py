"""Moment matching, one round at a time: what a round says of a row is a mixture, and a Dirichlet takes its place."""

from typing import NamedTuple, final

from idbandits.circuit.model import Model
from idbandits.inference.ageing import fade, thinned
from idbandits.inference.algorithms.moment_matching import match_factor, match_terms
from idbandits.inference.learn import learner
from idbandits.inference.protocol import CONTEXT_FEATURES, FEATURES, FORGET, MOVE, Inference, asymmetric
from idbandits.inference.rounds.counting import add_uses, drop_certain
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.factors import expect, first_term, members, next_term
from idbandits.inference.rounds.reduction import reduce, reduce_whole
from idbandits.inference.rounds.round import DONE, IMPOSSIBLE, Round
from idbandits.inference.rounds.workspace import MEANS, Workspace
from idbandits.inference.state.sections import DERIVED, PSEUDO_COUNTS, Declaration, per_entry
from idbandits.inference.state.state import ROUNDS, State
from idbandits.kernel.array_types import Floats, Rng
from idbandits.kernel.compile import unmanaged
from idbandits.kernel.structs import pointer


class Sections(NamedTuple):
    """Sections of the state."""

    alpha: Floats = per_entry(PSEUDO_COUNTS)
    prior: Floats = per_entry(PSEUDO_COUNTS)
    masses: Floats = per_entry(DERIVED, 0.0)  # scratch of `match_factor`


DECLARED = Declaration(Sections)
view = DECLARED.view


@unmanaged
def learn(w: Workspace, state: State, rng: Rng, round_: Round) -> int:
    """Match factor by factor; all at once where a row occurs in several."""
    alpha, prior, masses = view(state, w.v.learned)
    if not reduce(w, round_.action, round_.seen):
        return IMPOSSIBLE
    drop_certain(w)
    if round_.keep < 1.0:
        fade(alpha, prior, w.v.learned, round_.keep)
    if w.places[0] > 0 and shares_rows(w):
        reduce_whole(w, round_.action, round_.seen)
        factor = w.factors
        for _ in range(thinned(round_.times, round_.weight, rng) if round_.weight < 1.0 else round_.times):
            expect(w, factor, MEANS, alpha, alpha)
            if not match_terms(w, factor, alpha, masses):
                reduce(w, round_.action, round_.seen)
                match_one_by_one(w, alpha, masses, 1.0, rng)
                reduce_whole(w, round_.action, round_.seen)
    else:
        for _ in range(round_.times):
            match_one_by_one(w, alpha, masses, round_.weight, rng)
    state.ints[ROUNDS] += round_.times
    return DONE


@unmanaged
def match_one_by_one(w: Workspace, alpha: Floats, masses: Floats, weight: float, rng: Rng) -> None:
    """Match a round that was reduced: first what is certain; each factor with a probability of the round's weight."""
    add_uses(w, alpha, weight)
    for i in range(w.places[0]):
        if weight < 1.0 and rng.random() >= weight:
            continue
        match_factor(w, pointer(w.factors, w.places[1 + i]), alpha, masses)


@unmanaged
def shares_rows(w: Workspace) -> bool:
    """Return whether a row occurs in several factors of a round, or in one and among certain uses."""
    v, shared = w.v, False
    for i in range(1, w.uses[0] + 1):
        w.marks[v.row[w.uses[i]]] = -1
    for forget in (False, True):
        for k in range(w.places[0]):
            factor = pointer(w.factors, w.places[1 + k])
            term = first_term(factor)
            while term.nodes > 0:
                for i in members(factor, term.at):
                    if 0 <= factor[i] < v.learned:
                        row = v.row[factor[i]]
                        shared |= not forget and w.marks[row] not in (0, k + 1)
                        w.marks[row] = 0 if forget else k + 1
                term = next_term(factor, term)
    for i in range(1, w.uses[0] + 1):
        w.marks[v.row[w.uses[i]]] = 0
    return shared


@final
class Moments(Inference):
    """Moment matching: the belief of a row after a round is a Dirichlet with the mean and variance of the exact
    mixture.

    It keeps no rounds, so memory is constant. An examination that may not have happened leaves an item's belief nearly
    untouched.

    Examples
    --------
    >>> import idbandits as idb
    >>> idb.Thompson(idb.models.position_based(3, 2), inference=Moments(), seed=0)
    Thompson('position-based', moments; 0 rounds)
    """

    declared = DECLARED
    capabilities = frozenset({FORGET, FEATURES, CONTEXT_FEATURES, MOVE})
    learn = learner("Moments")(learn)

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """Return the prior, or nearly so where it is symmetric."""
        return DECLARED.start(evidence, {}, asymmetric(evidence, rng))
