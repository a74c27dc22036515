"""Steps of a chain that draw the parameters of regressions given counts, latent ones included.

Given the counts of all rows, with means summed out, the density of the parameters of a regression is known up to a
constant. A step proposes parameters from the normal distribution of a fit to these counts, then others near the
present ones, and accepts both by Metropolis and Hastings: the chain has the exact joint posterior of parameters, means
and latent counts. The common scale of all slopes has a conjugate prior and is drawn given them.
"""

import numpy as np

from idbandits.inference.gibbs.chain import Chain
from idbandits.inference.gibbs.table_moves import put_current_priors
from idbandits.inference.regression.density import (
    HIGH,
    LOW,
    NOTHING,
    SCALE,
    current_of,
    draw_parameters,
    row_prior,
    shape_of,
    strength_of,
)
from idbandits.inference.regression.fit import SCALE_KNOWN, SCALES, Work, find_mode
from idbandits.inference.rounds.workspace import Regressions, Workspace
from idbandits.kernel.array_types import Floats, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import gamma
from idbandits.kernel.special import change
from idbandits.kernel.structs import pointer

WIDER = 1.1  # a factor on the deviations of proposals: tails that are too light would hold a chain
NEAR = 2.38  # a factor on those of proposals near the present parameters, over the root of their number
NEAREST = 0.1  # the least factor on these in turn


@unmanaged
def update_regressions(w: Workspace, chain: Chain, work: Work, fits_again: bool, rng: Rng) -> None:
    """Draw the parameters of all regressions given counts, and put the priors that they give in place.

    All means are to be drawn again after it. If `fits_again`, proposals are by new fits.
    """
    r, counts = w.r, w.before
    for t in range(r.number):
        for k in range(r.start[t], r.start[t + 1]):
            for e in range(r.row[k], r.row[k] + r.states[t]):
                counts[e] = max(chain.alpha[e] - chain.prior[e], 0.0)
        if fits_again:
            fit_again(r, t, counts, chain.fits, work)
        if move_parameters(w, chain, t, counts, work, rng):
            put_current_priors(w, chain, t)
        draw_scale(r, t, chain.fits, rng)


@unmanaged
def fit_again(r: Regressions, t: int, counts: Floats, fits: Floats, work: Work) -> None:
    """Fit a regression to counts, for the present scale of slopes; one that cannot be fitted stays."""
    size = r.columns[t] * (r.states[t] - 1) + 1
    own, shape = pointer(fits, r.fit[t]), shape_of(r, t, fits)
    for i in range(size):
        work.here[i] = own[i]
    if not abs(find_mode(r, t, counts, shape[SCALE], work, shape)) < np.inf:
        return
    for i in range(size):
        own[i] = work.here[i]
        for j in range(size):
            own[size + i * size + j] = work.factor[i * size + j] if j <= i else 0.0


@unmanaged
def move_parameters(w: Workspace, chain: Chain, t: int, counts: Floats, work: Work, rng: Rng) -> bool:
    """Propose parameters twice, from the fit and near the present ones; whether they have changed."""
    r, fits = w.r, chain.fits
    size = r.columns[t] * (r.states[t] - 1) + 1
    present, proposed, moved = current_of(r, t, fits), work.there, False
    density = log_density(r, t, counts, fits, present, w.fresh)
    draw_parameters(r, t, fits, WIDER, rng, proposed)
    other = log_density(r, t, counts, fits, proposed, w.fresh)
    gain = other - density + log_proposal(r, t, fits, present) - log_proposal(r, t, fits, proposed)
    if np.log(1.0 - rng.random()) < gain:
        moved, density = True, other
        for i in range(size):
            present[i] = proposed[i]
    width = NEAR / np.sqrt(size) * NEAREST ** rng.random()
    factor = pointer(fits, r.fit[t] + size)
    for i in range(size):
        proposed[i] = width * rng.standard_normal()
    for i in range(size - 1, -1, -1):
        proposed[i] /= factor[i * size + i]
        for j in range(i):
            proposed[j] -= factor[i * size + j] * proposed[i]
    for i in range(size):
        proposed[i] += present[i]
    if np.log(1.0 - rng.random()) < log_density(r, t, counts, fits, proposed, w.fresh) - density:
        moved = True
        for i in range(size):
            present[i] = proposed[i]
    return moved


@unmanaged
def log_density(r: Regressions, t: int, counts: Floats, fits: Floats, parameters: Floats, prior: Floats) -> float:
    """Log-density of parameters given counts, with means summed out, up to a constant; `prior` is room for a row."""
    columns, states, scale = r.columns[t], r.states[t], shape_of(r, t, fits)[SCALE]
    last, value = columns * (states - 1), 0.0
    for i in range(last + 1):
        sd = r.spread[r.first[t] + i] * (1.0 if i == last or i % columns == 0 else scale)
        off = (parameters[i] - r.centre[r.first[t] + i]) / sd
        value -= 0.5 * off * off
    strength = strength_of(r, t, parameters)
    for k in range(r.start[t], r.start[t + 1]):
        n, total, size = pointer(counts, r.row[k]), 0.0, 0.0
        for j in range(states):
            total += n[j]
        if total <= NOTHING:
            continue
        row_prior(r, t, k, parameters, strength, prior)
        for j in range(states):
            value += change(prior[j], n[j]).value
            size += prior[j]
        value -= change(size, total).value
    return value


@inlined
def log_proposal(r: Regressions, t: int, fits: Floats, parameters: Floats) -> float:
    """Log-density of proposing parameters from the fit, up to a constant."""
    size = r.columns[t] * (r.states[t] - 1) + 1
    mode, shape = pointer(fits, r.fit[t]), shape_of(r, t, fits)
    factor, total = pointer(mode, size), 0.0
    for i in range(size):
        z = 0.0
        for j in range(i, size):
            z += factor[j * size + i] * (parameters[j] - mode[j])
        z /= WIDER
        if i == size - 1:
            z /= shape[LOW] if z < 0.0 else shape[HIGH]
        total -= 0.5 * z * z
    return total


@unmanaged
def draw_scale(r: Regressions, t: int, fits: Floats, rng: Rng) -> None:
    """Draw the scale of slopes given them: its square is an inverse chi-square number beforehand."""
    columns, number, squares = r.columns[t], 0, 0.0
    parameters, shape = current_of(r, t, fits), shape_of(r, t, fits)
    for i in range(columns * (r.states[t] - 1)):
        if i % columns > 0:
            number += 1
            squares += (parameters[i] / r.spread[r.first[t] + i]) ** 2
    if number == 0:
        return
    scale = np.sqrt((SCALE_KNOWN + squares) / (2.0 * gamma(0.5 * (SCALE_KNOWN + number), rng)))
    least, most = SCALES
    if least <= scale <= most:
        shape[SCALE] = scale
