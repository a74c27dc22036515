"""The paper's idTSvi: mean-field inference over all rounds, by grouped counts."""

import math
from typing import NamedTuple, final

import numpy as np
from numba import types

from idbandits.circuit.model import Model
from idbandits.errors import check_flag, check_number, check_whole
from idbandits.inference.ageing import fade, thin
from idbandits.inference.learn import learner
from idbandits.inference.protocol import ELBO, FEATURES, FORGET, MOST_STEPS, MOVE, REVISE, Inference, check_word
from idbandits.inference.rounds.counting import count_round, factor_of, look_up
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.factors import add_counts, expect, members
from idbandits.inference.rounds.reduction import log_constant
from idbandits.inference.rounds.round import DONE, LATER, THOROUGHLY, Round
from idbandits.inference.state.drop_groups import drop_empty_groups
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import kernel, unmanaged
from idbandits.kernel.structs import PACKED, Packed

from idbandits.inference.rounds.workspace import (  # isort: skip
    REMEMBERED, Parts, Workspace, held, log_weigh, remember, scratch, workspace,
)  # fmt: skip
from idbandits.inference.state.sections import (  # isort: skip
    DERIVED, NUMBERS, PSEUDO_COUNTS, SWITCHES, Declaration, numbers, per_entry, setting,
)  # fmt: skip
from idbandits.inference.state.state import ROUNDS, STATE, USED, Groups, State, copy, groups_in  # isort: skip

WARM, RANDOM, AT_PRIOR = range(3)
STARTS = {"warm": WARM, "random": RANDOM, "prior": AT_PRIOR}
MANY_SWEEPS = 200  # after many rounds at once


class Sections(NamedTuple):
    """Sections of the state."""

    sweeps: int = setting()
    start: int = setting()
    started: Ints = numbers(SWITCHES)  # 1 if the first belief was drawn
    alpha: Floats = per_entry(PSEUDO_COUNTS)
    prior: Floats = per_entry(PSEUDO_COUNTS)
    constants: Floats = numbers(NUMBERS)  # logarithm of the known entries that were certainly used
    base: Floats = per_entry(PSEUDO_COUNTS)  # without latent counts
    before: Floats = per_entry(PSEUDO_COUNTS)  # the last sweep
    memo: Floats = per_entry(DERIVED, np.nan, 3)  # of `remember`
    tolerance: float = setting()


DECLARED = Declaration(Sections, grouped=True)
view = DECLARED.view


@unmanaged
def learn(w: Workspace, state: State, rng: Rng, round_: Round) -> int:
    """Count the round, then sweep over all groups: q(z) of each by q(theta), then q(theta) by all of them."""
    v, groups, own = w.v, groups_in(state.ints), view(state, w.v.learned)
    alpha, base, prior = own.alpha, own.base, own.prior
    if round_.keep < 1.0:
        status = look_up(w, groups, round_, round_.keep)
        if status != DONE:
            return status
        forget(w, state, round_.keep)
    status = count_round(w, groups, base, prior, round_, rng)
    if status != DONE:
        return status
    if round_.times != 0:
        own.constants[0] += round_.times * round_.weight * log_constant(w)
    if round_.effort == LATER:
        return DONE
    used = state.ints[USED]
    if used > 0 and (own.start == RANDOM or (own.start == WARM and own.started[0] == 0)):
        for e in range(v.learned):
            alpha[e] = prior[e] + rng.random()
        own.started[0] = 1
    limit, tolerance = own.sweeps, own.tolerance
    if round_.effort == THOROUGHLY:
        limit, tolerance = max(limit, MANY_SWEEPS), max(tolerance, 1e-9 * state.ints[ROUNDS])
    if used == 0:
        limit = 1
    asked = limit > 1 and tolerance > 0.0
    last = -np.inf
    for i in range(limit):
        copy(alpha, own.before, v.learned)
        elbo = sweep(w, groups, alpha, base, own.memo, asked)
        if asked:
            elbo += bound(v, alpha, prior)
            if i > 0 and elbo - last < tolerance:
                break
            last = elbo
    return DONE


@unmanaged
def forget(w: Workspace, state: State, keep: float) -> None:
    """Let everything learned fade: certain counts, and the rounds of groups."""
    groups, own = groups_in(state.ints), view(state, w.v.learned)
    fade(own.base, own.prior, w.v.learned, keep)
    own.constants[0] *= keep
    for g in range(state.ints[USED]):
        thin(groups, g, keep)
    drop_empty_groups(state.ints, state.floats)


@unmanaged
def sweep(w: Workspace, groups: Groups, alpha: Floats, base: Floats, memo: Floats, asked: bool) -> float:
    """Make one E-step and one M-step; if asked, return the entropy of all q(z) plus the logarithms of known entries."""
    v = w.v
    if groups.header[USED] == 0:
        copy(base, alpha, v.learned)
        return 0.0
    copy(base, w.fresh, v.learned)
    remember(v, alpha, memo)
    total = 0.0
    for g in range(groups.header[USED]):
        times = groups.counts[g]
        if times == 0:
            continue
        factor = factor_of(groups, g)
        log_value = expect(w, factor, REMEMBERED, alpha, memo)
        term = log_value if asked else 0.0
        add_counts(w, factor, times, w.fresh)
        for t in range(w.first_term[factor[0]] if asked else 0):
            for i in members(factor, w.term_at[t]):
                if w.term_counts[t] > 0.0 and 0 <= factor[i] < v.learned:
                    term -= w.term_counts[t] * log_weigh(v, REMEMBERED, factor[i], alpha, memo)
        total += times * term
    copy(w.fresh, alpha, v.learned)
    return total


@unmanaged
def bound(v: Parts, alpha: Floats, prior: Floats) -> float:
    """Return the contribution of q(theta) to the ELBO after an M-step: changes of normalising constants."""
    total = 0.0
    e = 0
    while e < v.learned:
        size = v.size[e]
        total += log_beta(alpha, e, size) - log_beta(prior, e, size)
        e += size
    return total


@unmanaged
def log_beta(alpha: Floats, first: int, size: int) -> float:
    """Return the logarithm of the normalising constant of a Dirichlet distribution."""
    total, result = 0.0, 0.0
    for i in range(first, first + size):
        total += alpha[i]
        result += math.lgamma(alpha[i])
    return result - math.lgamma(total)


@kernel(types.float64(PACKED, STATE))
def elbo(evidence: Packed, state: State) -> float:
    """Return L(q) of the last belief, with q(z) by the E-step before it: a sweep, for which the state is a copy."""
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    own = view(state, w.v.learned)
    free = sweep(w, groups_in(state.ints), own.before, own.base, own.memo, True)
    value = free + own.constants[0] + bound(w.v, own.alpha, own.prior)
    return held(value, int_scratch, float_scratch)


@final
class Variational(Inference):
    """Mean-field inference over all rounds, the paper's idTSvi.

    Parameters
    ----------
    sweeps : int
        Highest number of E- and M-steps per round.
    tolerance : float
        Increase of the ELBO, in nats, below which steps end early.
    start : str
        First belief of a round: "warm" goes on from the last one, which at first is random (a symmetric one may never
        leave its symmetry); "prior" begins with the prior; "random" begins at random, as the paper's pseudocode does.
    literal : bool
        Whether every latent node is kept, as in the paper's equations; otherwise those that cannot matter are summed
        out.

    Examples
    --------
    >>> import idbandits as idb
    >>> idb.Thompson(idb.models.cascade(3, 2), inference=Variational(sweeps=5), seed=0)
    Thompson('cascade', variational, sweeps=5, ...; 0 rounds)
    """

    declared = DECLARED
    capabilities = frozenset({REVISE, FORGET, FEATURES, ELBO, MOVE})
    learn = learner("Variational")(learn)

    def __init__(self, sweeps: int = 1, tolerance: float = 0.0, start: str = "warm", *, literal: bool = False) -> None:
        check_word("start", start, STARTS)
        check_whole("sweeps", sweeps, 1, MOST_STEPS)
        check_number("tolerance", tolerance, 0)
        exactly = check_flag("literal", literal)
        self.settings = {"sweeps": int(sweeps), "tolerance": float(tolerance), "start": start, "literal": exactly}

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """Return the prior."""
        return DECLARED.start(evidence, self.settings | {"start": STARTS[self.settings["start"]]})

    def elbo(self, evidence: Evidence, state: State) -> float:
        """Return L(q) of the paper, a lower bound of the log-probability of everything observed, in nats."""
        return float(elbo(evidence.packed, state.copy()))
