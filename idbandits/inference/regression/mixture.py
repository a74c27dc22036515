"""Beliefs of rows with features: pseudo-counts that allow for all that is not known of the regression.

Given the parameters of a regression, a row is Dirichlet(counts + prior). Over the parameters that are possible, it is a
mixture of these. `mixed` replaces it by the Dirichlet distribution with the same mean and the same total variance.
"""

from __future__ import annotations

import numpy as np
from numba import types

from idbandits.inference.regression.density import draw_parameters, row_prior, strength_of
from idbandits.inference.regression.prior import prior_in
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.workspace import unpack
from idbandits.inference.state.state import PRIOR, State, section
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, kernel
from idbandits.kernel.rng import RNG
from idbandits.kernel.structs import pointer

FEWEST_DRAWS, MOST_DRAWS = 50, 500  # of the parameters
AFFORDABLE = 1e9  # numbers of designs that are read for all draws
LEAST_SIZE, MOST_SIZE = 1e-9, 1e15  # of the pseudo-counts of a row


def mixed(evidence: Evidence, state: State, belief: Floats, rng: Rng) -> Floats:
    """Pseudo-counts like these, in which rows with features have the uncertainty of their regressions, too."""
    belief = belief.copy()
    draws = int(np.clip(AFFORDABLE / max(1, len(evidence.regressions.design)), FEWEST_DRAWS, MOST_DRAWS))
    counts = np.maximum(belief - prior_in(evidence, state), 0.0)
    mix(*evidence.packed, counts, state.fits, rng, draws, belief)
    return belief


def by_modes(evidence: Evidence, state: State, belief: Floats) -> Floats:
    """Pseudo-counts like these, in which the priors of rows with features are those at the modes of the fits.

    In the state of a chain, they are by parameters that were drawn.
    """
    belief = belief.copy()
    put_modes(*evidence.packed, state.floats, state.fits, belief)
    return belief


@kernel(types.void(INTS, FLOATS, FLOATS, FLOATS, RNG, types.int64, FLOATS))
def mix(program: Ints, numbers: Floats, counts: Floats, fits: Floats, rng: Rng, draws: int, belief: Floats) -> None:
    """Put pseudo-counts in place for all rows with features, by so many draws of the parameters."""
    _, v, r = unpack(program, numbers)
    parameters, prior = np.empty(r.most_parameters), np.empty(v.learned)
    means, variances = np.zeros(v.learned), np.zeros(v.learned)  # of a row's variances, the sum stands at its first
    for t in range(r.number):
        states = r.states[t]
        for n in range(1, draws + 1):
            draw_parameters(r, t, pointer(fits, 0), 1.0, rng, pointer(parameters, 0))
            strength = strength_of(r, t, pointer(parameters, 0))
            for k in range(r.start[t], r.start[t + 1]):
                row, total = r.row[k], 0.0
                row_prior(r, t, k, pointer(parameters, 0), strength, pointer(prior, 0))
                for j in range(states):
                    prior[j] += counts[row + j]
                    total += prior[j]
                for j in range(states):
                    mean = prior[j] / total
                    off = mean - means[row + j]
                    means[row + j] += off / n
                    variances[row] += mean * (1.0 - mean) / (total + 1.0) + off * (mean - means[row + j])
        for k in range(r.start[t], r.start[t + 1]):
            row, spread = r.row[k], 0.0
            for j in range(states):
                spread += means[row + j] * (1.0 - means[row + j])
            variance = variances[row] / draws
            size = spread / variance - 1.0 if variance > 0.0 else MOST_SIZE
            for j in range(states):
                belief[row + j] = means[row + j] * min(max(size, LEAST_SIZE), MOST_SIZE)


@kernel(types.int64(INTS, FLOATS, FLOATS, FLOATS, FLOATS))
def put_modes(program: Ints, numbers: Floats, floats: Floats, fits: Floats, belief: Floats) -> int:
    """Replace the priors in pseudo-counts by those at the modes of the fits; the number of entries."""
    _, v, r = unpack(program, numbers)
    scratch = np.empty(v.learned)
    fresh, prior = pointer(scratch, 0), section(floats, PRIOR, v.learned)
    for t in range(r.number):
        mode = pointer(fits, r.fit[t])
        strength = strength_of(r, t, mode)
        for k in range(r.start[t], r.start[t + 1]):
            row_prior(r, t, k, mode, strength, fresh)
            for j in range(r.states[t]):
                e = r.row[k] + j
                belief[e] = max(belief[e] - prior[e], 0.0) + fresh[j]
    return len(scratch)  # held until here: pointers do not hold it
