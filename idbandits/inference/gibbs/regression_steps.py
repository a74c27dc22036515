"""Steps of a chain that draw the parameters of regressions given counts, including latent ones.

Given the counts of all rows, the density of the parameters of a regression is known up to a constant, with means
integrated out. A step proposes parameters from the normal distribution of a fit to these counts, then others near the
current ones (Metropolis and Hastings): the chain has the exact joint posterior of parameters, means and latent counts.
The common scale of all slopes has a conjugate prior and is drawn given them.
"""

import numpy as np

from idbandits.inference.gibbs.chain import Chain
from idbandits.inference.gibbs.table_moves import put_current_priors
from idbandits.inference.regression.fit import SCALE_KNOWN, SCALES, Work, fit_table
from idbandits.inference.rounds.workspace import Workspace
from idbandits.inference.state.state import copy
from idbandits.kernel.array_types import Floats, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.linalg import solve_lower_transposed
from idbandits.kernel.sampling import gamma
from idbandits.kernel.special import change
from idbandits.kernel.structs import pointer

from idbandits.inference.regression.density import (  # isort: skip
    HIGH, LOW, MIN_COUNT, SCALE, TableRegression, draw_parameters, prior_sd, regression_at, row_prior, strength_of,
    total_count,
)  # fmt: skip

WIDER = 1.1  # factor on the deviations of proposals: with too light tails a chain gets stuck
NEAR = 2.38  # factor on deviations of proposals near the current parameters, over the root of their number
NEAREST = 0.1  # smallest factor on these


@unmanaged
def update_regressions(w: Workspace, chain: Chain, work: Work, fits_again: bool, rng: Rng) -> None:
    """Draw the parameters of all regressions given counts, and replace the priors by theirs.

    All means have to be drawn again afterwards. If `fits_again`, proposals are by new fits.
    """
    counts = w.before
    for t in range(w.r.number):
        g = regression_at(w.r, t, chain.fits)
        for k in range(g.rows):
            for e in range(g.row[k], g.row[k] + g.states):
                counts[e] = max(chain.alpha[e] - chain.prior[e], 0.0)
        if fits_again:
            fit_table(g, counts, 0, work)
        if move_parameters(g, counts, work.there.parameters, w.fresh, rng):
            put_current_priors(w, chain, g)
        draw_scale(g, rng)


@unmanaged
def move_parameters(g: TableRegression, counts: Floats, proposed: Floats, scratch: Floats, rng: Rng) -> bool:
    """Propose parameters twice, from the fit and near the current ones; return whether they have changed."""
    present, moved = g.current, False
    density = log_density(g, counts, present, scratch)
    draw_parameters(g, WIDER, rng, proposed)
    other = log_density(g, counts, proposed, scratch)
    gain = other - density + log_proposal(g, present) - log_proposal(g, proposed)
    if np.log(1.0 - rng.random()) < gain:
        moved, density = True, other
        copy(proposed, present, g.size)
    width = NEAR / np.sqrt(g.size) * NEAREST ** rng.random()
    for i in range(g.size):
        proposed[i] = width * rng.standard_normal()
    solve_lower_transposed(g.factor, g.size, g.size, proposed)
    for i in range(g.size):
        proposed[i] += present[i]
    if np.log(1.0 - rng.random()) < log_density(g, counts, proposed, scratch) - density:
        moved = True
        copy(proposed, present, g.size)
    return moved


@unmanaged
def log_density(g: TableRegression, counts: Floats, parameters: Floats, prior: Floats) -> float:
    """Return the log-density of parameters given counts, with means summed out, up to a constant.

    `prior` is scratch for a row.
    """
    value = 0.0
    for i in range(g.size):
        off = (parameters[i] - g.centre[i]) / prior_sd(g, i, g.shape[SCALE])
        value -= 0.5 * off * off
    strength = strength_of(g, parameters)
    for k in range(g.rows):
        n, size = pointer(counts, g.row[k]), 0.0
        total = total_count(g, n)
        if total <= MIN_COUNT:
            continue
        row_prior(g, k, parameters, strength, prior)
        for j in range(g.states):
            value += change(prior[j], n[j]).value
            size += prior[j]
        value -= change(size, total).value
    return value


@inlined
def log_proposal(g: TableRegression, parameters: Floats) -> float:
    """Return the log-density of proposing parameters from the fit, up to a constant."""
    total = 0.0
    for i in range(g.size):
        z = 0.0
        for j in range(i, g.size):
            z += g.factor[j * g.size + i] * (parameters[j] - g.mode[j])
        z /= WIDER
        if i == g.size - 1:
            z /= g.shape[LOW] if z < 0.0 else g.shape[HIGH]
        total -= 0.5 * z * z
    return total


@unmanaged
def draw_scale(g: TableRegression, rng: Rng) -> None:
    """Draw the scale of slopes given them; the prior of its square is an inverse chi-square distribution."""
    number, squares = 0, 0.0
    for i in range(g.size - 1):
        if i % g.columns > 0:
            number += 1
            squares += (g.current[i] / g.spread[i]) ** 2
    if number == 0:
        return
    scale = np.sqrt((SCALE_KNOWN + squares) / (2.0 * gamma(0.5 * (SCALE_KNOWN + number), rng)))
    least, most = SCALES
    if least <= scale <= most:
        g.shape[SCALE] = scale
