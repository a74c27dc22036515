"""Beliefs of rows with features: pseudo-counts that include the uncertainty of the regression.

Given the parameters of a regression, a row is Dirichlet(counts + prior). Over the posterior of the parameters, it is a
mixture. `mixed` replaces the mixture by the Dirichlet distribution with its mean and its total variance.
"""

from __future__ import annotations

import numpy as np
from numba import types

from idbandits.inference.regression.density import draw_parameters, regression_at, row_prior, strength_of
from idbandits.inference.regression.prior import prior_in, priors_by_fits
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.workspace import unpack
from idbandits.inference.state.state import State
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, kernel
from idbandits.kernel.rng import RNG
from idbandits.kernel.structs import pointer

MIN_DRAWS, MAX_DRAWS = 50, 500  # of the parameters
AFFORDABLE = 1e9  # numbers of designs that are read for all draws
MIN_SIZE, MAX_SIZE = 1e-9, 1e15  # of the pseudo-counts of a row


def mixed(evidence: Evidence, state: State, belief: Floats, rng: Rng) -> Floats:
    """Return pseudo-counts in which rows with features include the uncertainty of their regressions."""
    belief = belief.copy()
    draws = int(np.clip(AFFORDABLE / max(1, len(evidence.regressions.design)), MIN_DRAWS, MAX_DRAWS))
    counts = np.maximum(belief - prior_in(evidence, state), 0.0)
    mix(*evidence.packed, counts, state.fits, rng, draws, belief)
    return belief


def by_modes(evidence: Evidence, state: State, belief: Floats) -> Floats:
    """Return pseudo-counts in which the priors of rows with features are those at the modes of the fits.

    In the state of a chain, priors are by parameters that were drawn.
    """
    counts, prior = np.maximum(belief - prior_in(evidence, state), 0.0), priors_by_fits(evidence, state, at_modes=True)
    return np.where(prior > 0.0, counts + prior, belief)


@kernel(types.void(INTS, FLOATS, FLOATS, FLOATS, RNG, types.int64, FLOATS))
def mix(program: Ints, numbers: Floats, counts: Floats, fits: Floats, rng: Rng, draws: int, belief: Floats) -> None:
    """Write pseudo-counts of all rows with features, by several draws of the parameters."""
    _, v, r = unpack(program, numbers)
    parameters, prior = np.empty(r.most_parameters), np.empty(v.learned)
    means, variances = np.zeros(v.learned), np.zeros(v.learned)  # the sum of a row's variances is at its first entry
    for t in range(r.number):
        g = regression_at(r, t, pointer(fits, 0))
        for n in range(1, draws + 1):
            draw_parameters(g, 1.0, rng, pointer(parameters, 0))
            strength = strength_of(g, pointer(parameters, 0))
            for k in range(g.rows):
                row, total = g.row[k], 0.0
                row_prior(g, k, pointer(parameters, 0), strength, pointer(prior, 0))
                for j in range(g.states):
                    prior[j] += counts[row + j]
                    total += prior[j]
                for j in range(g.states):
                    mean = prior[j] / total
                    off = mean - means[row + j]
                    means[row + j] += off / n
                    variances[row] += mean * (1.0 - mean) / (total + 1.0) + off * (mean - means[row + j])
        for k in range(g.rows):
            row, spread = g.row[k], 0.0
            for e in range(row, row + g.states):
                spread += means[e] * (1.0 - means[e])
            variance = variances[row] / draws
            size = spread / variance - 1.0 if variance > 0.0 else MAX_SIZE
            for e in range(row, row + g.states):
                belief[e] = means[e] * min(max(size, MIN_SIZE), MAX_SIZE)
