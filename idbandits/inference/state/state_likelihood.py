"""Log-likelihood of the rounds of a state: of certain counts and groups, at given means."""

import numpy as np
from numba import types

from idbandits.errors import IdbanditsError
from idbandits.inference.rounds.counting import factor_of
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.factors import expect_in_logs, value_of_factor
from idbandits.inference.rounds.workspace import GIVEN, TINY, Workspace, held, scratch, workspace
from idbandits.inference.state.state import ACTS_ON_MEANS, BASE, STATE, USED, Groups, State, groups_in
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import FLOATS, kernel, unmanaged
from idbandits.kernel.structs import PACKED, Packed, pointer

SAME = 1e-9  # relative difference of log-likelihoods by rounding


@unmanaged
def log_likelihood_of_group(w: Workspace, groups: Groups, g: int, means: Floats) -> float:
    """Return the log-likelihood of all rounds of a group, with latent nodes summed out."""
    if groups.weights[g] <= 0.0:
        return 0.0
    factor = factor_of(groups, g)
    value = value_of_factor(w, factor, GIVEN, means, means)
    if value > TINY:
        return groups.weights[g] * np.log(value)
    return groups.weights[g] * expect_in_logs(w, factor, GIVEN, means, means)


@kernel(types.float64(PACKED, STATE, FLOATS, FLOATS))
def log_likelihood_held(evidence: Packed, state: State, counts: Floats, means: Floats) -> float:
    """Return the log-likelihood of certain counts and of all groups of a state."""
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    groups, total = groups_in(state.ints), 0.0
    for e in range(w.v.learned):
        if counts[e] != 0.0:
            total += counts[e] * np.log(means[e])
    for g in range(state.ints[USED]):
        total += log_likelihood_of_group(w, groups, g, pointer(means, 0))
    return held(total, int_scratch, float_scratch)


def certain_counts(evidence: Evidence, state: State) -> Floats:
    """Return the certain uses of each learned entry: pseudo-counts without the prior and without latent counts."""
    if state.ints[ACTS_ON_MEANS]:
        raise IdbanditsError("the state must hold pseudo-counts, got means: particles keep no counts of rounds")
    n, first = evidence.learned, int(state.ints[BASE])
    return np.asarray(state.floats[first : first + n] - state.floats[n : 2 * n])


def log_likelihood_of_state(evidence: Evidence, state: State, means: Floats) -> float:
    """Return the log-likelihood of all rounds in a state, at means of all learned entries, including retired ones.

    It is exact for inferences that keep all evidence: exact, gibbs, ep and variational. If no rounds were forgotten or
    revised, it is the sum of the log-likelihoods of the rounds.
    """
    return float(log_likelihood_held(evidence.packed, state, certain_counts(evidence, state), means))


def keeps_evidence(evidence: Evidence, state: State, order: Ints) -> bool:
    """Return whether an order of the learned entries leaves prior, certain counts and likelihood of a state unchanged.

    The likelihood is compared at generic means. Rounds of earlier diagrams may tell latent states apart that are
    interchangeable in the current one.
    """
    prior = evidence.prior
    counts = certain_counts(evidence, state)
    if (prior[order] != prior).any() or (abs(counts[order] - counts) > SAME * (1 + abs(counts))).any():
        return False
    if not state.ints[USED]:
        return True
    means = evidence.generic
    here, there = (log_likelihood_of_state(evidence, state, at) for at in (means, np.ascontiguousarray(means[order])))
    return abs(here - there) <= SAME * (1 + abs(here))
