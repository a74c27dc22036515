"""The paper's idTSvi: mean-field inference over all rounds, by grouped counts."""

import math
from typing import final

import numpy as np
from numba import types

from idbandits.circuit.model import Model
from idbandits.errors import check_flag, check_number, check_whole
from idbandits.inference.ageing import fade, thin
from idbandits.inference.protocol import DONE, LATER, MOST_STEPS, THOROUGHLY, BuiltIn, Round, coded, learner
from idbandits.inference.rounds.counting import count_round, factor_of, look_up
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.factors import add_counts, expect, members
from idbandits.inference.rounds.reduction import log_constant
from idbandits.inference.state.drop_groups import drop_empty_groups
from idbandits.inference.state.state_file import DERIVED, NUMBERS, PSEUDO_COUNTS, SWITCHES, Layout
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, kernel, unmanaged

from idbandits.inference.rounds.workspace import (  # isort: skip
    REMEMBERED, Parts, Workspace, held, log_weigh, remember, scratch, workspace,
)  # fmt: skip
from idbandits.inference.state.state import (  # isort: skip
    FIGURES, ROUNDS, SETTING, USED, Groups, State, copy, figures, groups_in, section, with_groups,
)  # fmt: skip

SWEEPS, START, STARTED = range(SETTING, SETTING + 3)  # of the header; STARTED: whether the first belief was drawn
TOLERANCE, CONSTANTS = range(2)  # of the figures; CONSTANTS: the logarithm of those of what is certain
# sections of the floats: the pseudo-counts, the prior, the pseudo-counts of what is certain, those before the last
# sweep, and three numbers per entry of `remember`
ALPHA, PRIOR, BASE, BEFORE, MEMO = range(5)
WARM, RANDOM, AT_PRIOR = range(3)
STARTS = {"warm": WARM, "random": RANDOM, "prior": AT_PRIOR}
MANY_SWEEPS = 200  # after many rounds at once


@unmanaged
def learn(w: Workspace, ints: Ints, floats: Floats, rng: Rng, round_: Round) -> int:
    """Count the round, then sweep over all groups: q(z) of each by q(theta), then q(theta) by all of them."""
    v, groups = w.v, groups_in(ints)
    alpha, base = section(floats, ALPHA, v.learned), section(floats, BASE, v.learned)
    prior = section(floats, PRIOR, v.learned)
    if round_.keep < 1.0:
        status = look_up(w, groups, round_, round_.keep)
        if status != DONE:
            return status
        forget(w, ints, floats, round_.keep)
    status = count_round(w, groups, base, prior, round_, rng)
    if status != DONE:
        return status
    if round_.times != 0:
        figures(floats, v.learned)[CONSTANTS] += round_.times * round_.weight * log_constant(w)
    if round_.effort == LATER:
        return DONE
    if ints[USED] > 0 and (ints[START] == RANDOM or (ints[START] == WARM and ints[STARTED] == 0)):
        for e in range(v.learned):
            alpha[e] = prior[e] + rng.random()
        ints[STARTED] = 1
    limit, tolerance = ints[SWEEPS], figures(floats, v.learned)[TOLERANCE]
    if round_.effort == THOROUGHLY:
        limit, tolerance = max(limit, MANY_SWEEPS), max(tolerance, 1e-9 * ints[ROUNDS])
    if ints[USED] == 0:
        limit = 1
    asked = limit > 1 and tolerance > 0.0
    last = -np.inf
    for i in range(limit):
        copy(alpha, section(floats, BEFORE, v.learned), v.learned)
        elbo = sweep(w, groups, alpha, base, section(floats, MEMO, v.learned), asked)
        if asked:
            elbo += bound(v, alpha, prior)
            if i > 0 and elbo - last < tolerance:
                break
            last = elbo
    return DONE


@unmanaged
def forget(w: Workspace, ints: Ints, floats: Floats, keep: float) -> None:
    """Let all that was learned fade: what is certain, and the rounds of groups."""
    learned, groups = w.v.learned, groups_in(ints)
    fade(section(floats, BASE, learned), section(floats, PRIOR, learned), learned, keep)
    figures(floats, learned)[CONSTANTS] *= keep
    for g in range(ints[USED]):
        thin(groups, g, keep)
    drop_empty_groups(ints, floats)


@unmanaged
def sweep(w: Workspace, groups: Groups, alpha: Floats, base: Floats, memo: Floats, asked: bool) -> float:
    """One E-step and one M-step; if asked, the entropy of all q(z) and the known entries' logarithms, summed."""
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
    """What q(theta) adds to the ELBO after an M-step: the change of the Dirichlets' normalising constants."""
    total = 0.0
    e = 0
    while e < v.learned:
        size = v.size[e]
        total += log_beta(alpha, e, size) - log_beta(prior, e, size)
        e += size
    return total


@unmanaged
def log_beta(alpha: Floats, first: int, size: int) -> float:
    """The logarithm of the normalising constant of a Dirichlet distribution."""
    total, result = 0.0, 0.0
    for i in range(first, first + size):
        total += alpha[i]
        result += math.lgamma(alpha[i])
    return result - math.lgamma(total)


@kernel(types.float64(INTS, FLOATS, INTS, FLOATS))
def elbo(program: Ints, numbers: Floats, ints: Ints, floats: Floats) -> float:
    """L(q) of the last belief, with q(z) by the E-step before it; that sweep is made again, so `floats` is a copy."""
    int_scratch, float_scratch = scratch(program, numbers)
    w = workspace(program, numbers, int_scratch, float_scratch)
    learned = w.v.learned
    before, base = section(floats, BEFORE, learned), section(floats, BASE, learned)
    free = sweep(w, groups_in(ints), before, base, section(floats, MEMO, learned), True)
    prior = section(floats, PRIOR, learned)
    value = free + figures(floats, learned)[CONSTANTS] + bound(w.v, section(floats, ALPHA, learned), prior)
    return held(value, int_scratch, float_scratch)


@final
class Variational(BuiltIn):
    """Mean-field inference: up to `sweeps` E- and M-steps per round, until the ELBO rises by less than `tolerance`.

    `start="warm"` goes on from the last belief, the first one being random (a symmetric one may never leave its
    symmetry); `"prior"` has the prior as the first one; `"random"` begins at random in every round, as the paper's
    pseudocode does. `literal` keeps every latent node, as the paper's equations do; otherwise those that cannot
    matter are summed out.
    """

    revisable = True
    forgets = True
    regresses = True
    learn = learner("Variational")(learn)

    def __init__(self, sweeps: int = 1, tolerance: float = 0.0, start: str = "warm", *, literal: bool = False) -> None:
        coded("start", start, STARTS)
        check_whole("sweeps", sweeps, 1, MOST_STEPS)
        check_number("tolerance", tolerance, 0)
        exactly = check_flag("literal", literal)
        self.settings = {"sweeps": int(sweeps), "tolerance": float(tolerance), "start": start, "literal": exactly}

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior."""
        results = np.zeros(FIGURES)
        results[TOLERANCE] = self.settings["tolerance"]
        prior = evidence.prior
        floats = np.concatenate([prior, results, prior, prior, prior, np.full(3 * evidence.learned, np.nan)])
        settings = (self.settings["sweeps"], coded("start", self.settings["start"], STARTS))
        return with_groups(floats, evidence.most_groups, evidence.most_numbers, 0, settings)

    def layout(self, evidence: Evidence) -> Layout:
        """Four sections, one of the figures, and whether the first belief was drawn."""
        n, figures = evidence.learned, [(DERIVED, CONSTANTS), (NUMBERS, 1), (DERIVED, FIGURES - CONSTANTS - 1)]
        floats = [(PSEUDO_COUNTS, n), *figures, (PSEUDO_COUNTS, 3 * n)]
        return Layout(floats, (), [(DERIVED, STARTED - SETTING), (SWITCHES, 1)], evidence.check_factors)

    def elbo(self, evidence: Evidence, state: State) -> float:
        """L(q) of the paper: the logarithm of the probability of all that was seen is at least this."""
        return float(elbo(*evidence.packed, state.ints, state.floats.copy()))
