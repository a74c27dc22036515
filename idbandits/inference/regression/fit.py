"""The fit of regressions: where the posterior of their parameters is highest, and how wide it is there."""

from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.inference.regression.density import (
    HIGH,
    LOG_STRENGTHS,
    LOW,
    NOTHING,
    SCALE,
    put_priors,
    row_shares,
    shape_of,
    shift,
    strength_of,
)
from idbandits.inference.rounds.workspace import Regressions, unpack
from idbandits.inference.state.state import PRIOR, section
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, linked, unmanaged
from idbandits.kernel.rng import RNG
from idbandits.kernel.special import change
from idbandits.kernel.structs import pointer

NEWTON_STEPS = 30
LONGEST_STEP = 4.0  # of a parameter, in one step
CLOSE = 1e-7  # of the decrement of Newton's method: the mode is found
MOST_DAMPING = 1e12  # on the diagonal of a Hessian: with more, there is no mode
SCALES = 0.02, 5.0  # the least and the largest factor on the standard deviation of coefficients
SCALE_KNOWN = 2.0  # coefficients that what is believed of this factor beforehand is worth
SCALE_STEPS = 4  # in one fit
STRENGTH_STEPS = 6  # of log M, for one scale
SKEW_AT = 1.5  # standard deviations from the mode, where the skewness of log M is measured
SKEWS = 0.3, 2.0  # the least and the largest factor on its standard deviation


@unmanaged
def measure(
    r: Regressions, t: int, counts: Floats, scale: float, parameters: Floats, gradient: Floats, hessian: Floats,
    weights: Floats,
) -> float:  # fmt: skip
    """The logarithm of the posterior density of parameters, up to a constant; its gradient and minus its Hessian.

    Only rows with counts are looked at. `scale` is a factor on the deviation of all coefficients beforehand but for
    the constants. `weights` has room for three numbers per state.
    """
    columns, states = r.columns[t], r.states[t]
    last = columns * (states - 1)
    size = last + 1
    value = 0.0
    for i in range(size):
        sd = r.spread[r.first[t] + i] * (1.0 if i == last or i % columns == 0 else scale)
        off = (parameters[i] - r.centre[r.first[t] + i]) / sd
        value -= 0.5 * off * off
        gradient[i] = -off / sd
        for j in range(size):
            hessian[i * size + j] = 0.0
        hessian[i * size + i] = 1.0 / (sd * sd)
    strength = strength_of(r, t, parameters)
    shares, slopes, bends = weights, pointer(weights, states), pointer(weights, 2 * states)
    for k in range(r.start[t], r.start[t + 1]):
        n, total = pointer(counts, r.row[k]), 0.0
        for j in range(states):
            total += n[j]
        if total <= NOTHING:
            continue
        line = pointer(r.design, r.line[k])
        row_shares(r, t, k, parameters, strength, shares)
        whole = change(strength, total)
        value -= whole.value
        sum_of_slopes, sum_of_curves = 0.0, 0.0
        for j in range(states):
            own = change(shares[j], n[j])
            value += own.value
            slopes[j] = shares[j] * (own.slope - whole.slope)
            curve = shares[j] * shares[j] * own.curve
            bends[j] = slopes[j] + curve
            sum_of_slopes += slopes[j]
            sum_of_curves += curve
            shares[j] /= strength
        gradient[last] += sum_of_slopes
        hessian[last * size + last] -= sum_of_curves - strength * strength * whole.curve + sum_of_slopes
        for j in range(1, states):
            slope = slopes[j] - shares[j] * sum_of_slopes
            cross = bends[j] - shares[j] * (sum_of_curves + sum_of_slopes)
            at = (j - 1) * columns
            for i in range(columns):
                gradient[at + i] += slope * line[i]
                hessian[last * size + at + i] -= cross * line[i]
            for other in range(1, j + 1):
                curve = shares[j] * shares[other] * (sum_of_curves + 2.0 * sum_of_slopes)
                curve -= bends[j] * shares[other] + bends[other] * shares[j]
                if other == j:
                    curve += bends[j] - shares[j] * sum_of_slopes
                beside = (other - 1) * columns
                for i in range(columns):
                    weight = curve * line[i]
                    own_row = pointer(hessian, (at + i) * size + beside)
                    for m in range(i + 1 if other == j else columns):
                        own_row[m] -= weight * line[m]
    return value


@unmanaged
def factorise(hessian: Floats, size: int, rows: int, damping: float, factor: Floats) -> bool:
    """The Cholesky factor of a matrix, by its lower half, with more on its diagonal; whether it has one.

    Only the first rows and columns are looked at.
    """
    for i in range(rows):
        for j in range(i + 1):
            total = hessian[i * size + j]
            if i == j:
                total += damping
            for m in range(j):
                total -= factor[i * size + m] * factor[j * size + m]
            if i > j:
                factor[i * size + j] = total / factor[j * size + j]
            else:
                if not 1e-12 < total < 1e300:
                    return False
                factor[i * size + i] = np.sqrt(total)
    return True


@unmanaged
def solve(factor: Floats, size: int, rows: int, vector: Floats) -> None:
    """Solve with the first rows of a Cholesky factor, in place."""
    for i in range(rows):
        for j in range(i):
            vector[i] -= factor[i * size + j] * vector[j]
        vector[i] /= factor[i * size + i]
    for i in range(rows - 1, -1, -1):
        vector[i] /= factor[i * size + i]
        for j in range(i):
            vector[j] -= factor[i * size + j] * vector[i]


class Work(NamedTuple):
    """Scratch for a fit."""

    here: Floats  # parameters
    there: Floats  # others, to be tried
    step: Floats
    gradient: Floats  # at `here`
    hessian: Floats  # at `here`
    other_gradient: Floats  # at `there`
    other_hessian: Floats
    factor: Floats  # of the Hessian at `here`
    spare: Floats  # of another one
    weights: Floats  # of states


@inlined
def size_of_work(r: Regressions) -> int:
    """How many numbers the scratch for a fit has."""
    most = r.most_parameters
    return 5 * most + 4 * most * most + 3 * (most + 1)


@inlined
def work_in(r: Regressions, scratch: Floats) -> Work:
    """The parts of the scratch for a fit."""
    most = r.most_parameters
    after = pointer(scratch, 5 * most)
    return Work(
        pointer(scratch, 0), pointer(scratch, most), pointer(scratch, 2 * most), pointer(scratch, 3 * most), after,
        pointer(scratch, 4 * most), pointer(after, most * most), pointer(after, 2 * most * most),
        pointer(after, 3 * most * most), pointer(after, 4 * most * most),
    )  # fmt: skip


@unmanaged
def find_coefficients(r: Regressions, t: int, counts: Floats, scale: float, w: Work) -> float:
    """Find the mode of all coefficients given log M, from `here` on; the logarithm of the density there.

    `gradient`, `hessian` and `factor` are those of all parameters. Not a number, if the density has none.
    """
    size, damping = r.columns[t] * (r.states[t] - 1) + 1, 0.0
    value = measure(r, t, counts, scale, w.here, w.gradient, w.hessian, w.weights)
    for _ in range(NEWTON_STEPS):
        while not factorise(w.hessian, size, size - 1, damping, w.spare) and damping < MOST_DAMPING:
            damping = max(10.0 * damping, 1e-3)
        if not (abs(value) < np.inf and damping < MOST_DAMPING):
            return np.nan
        for i in range(size - 1):
            w.step[i] = w.gradient[i]
        solve(w.spare, size, size - 1, w.step)
        decrement, longest = 0.0, 0.0
        for i in range(size - 1):
            decrement += w.gradient[i] * w.step[i]
            longest = max(longest, abs(w.step[i]))
        if decrement < CLOSE:
            break
        w.there[size - 1] = w.here[size - 1]
        for i in range(size - 1):
            w.there[i] = w.here[i] + w.step[i] * min(1.0, LONGEST_STEP / longest)
        proposed = measure(r, t, counts, scale, w.there, w.other_gradient, w.other_hessian, w.weights)
        if proposed >= value:
            value = proposed
            damping = 0.1 * damping if damping > 1e-4 else 0.0
            for i in range(size):
                w.here[i], w.gradient[i] = w.there[i], w.other_gradient[i]
            for i in range(size * size):
                w.hessian[i] = w.other_hessian[i]
        elif value - proposed < 1e-9 * (1.0 + abs(value)):
            break
        else:
            damping = max(10.0 * damping, 1e-2)
    return value if factorise_anyhow(w.hessian, size, 0.0, w.factor) < MOST_DAMPING else np.nan


@unmanaged
def factorise_anyhow(hessian: Floats, size: int, damping: float, factor: Floats) -> float:
    """Factorise a matrix with as much more on its diagonal as it takes; how much that is."""
    while not factorise(hessian, size, size, damping, factor) and damping < MOST_DAMPING:
        damping = max(10.0 * damping, 1e-3)
    return damping


@unmanaged
def scale_of_slopes(r: Regressions, t: int, scale: float, w: Work) -> float:
    """A factor on the standard deviation of all coefficients but the constants, by how large they are (MacKay, 1992).

    Features that say nothing have small coefficients: then all are believed to be small.
    """
    columns, states = r.columns[t], r.states[t]
    size, known, squares = columns * (states - 1) + 1, 0.0, 0.0
    for i in range(size - 1):
        if i % columns == 0:
            continue
        for j in range(size):
            w.step[j] = 0.0
        w.step[i] = 1.0
        for j in range(i, size):  # a column of the inverse of the factor: its squares sum to a variance
            for m in range(i, j):
                w.step[j] -= w.factor[j * size + m] * w.step[m]
            w.step[j] /= w.factor[j * size + j]
        variance = 0.0
        for j in range(i, size):
            variance += w.step[j] * w.step[j]
        spread = r.spread[r.first[t] + i]
        known += min(max(1.0 - variance / (scale * scale * spread * spread), 0.0), 1.0)
        squares += (w.here[i] / spread) ** 2
    least, most = SCALES
    return min(max(np.sqrt((SCALE_KNOWN + squares) / (SCALE_KNOWN + known)), least), most)


@unmanaged
def find_mode(r: Regressions, t: int, counts: Floats, scale: float, w: Work, shape: Floats) -> float:
    """Find the mode of log M with the coefficients integrated out, and that of the coefficients given it.

    At the mode of all parameters, coefficients have taken in a part of what rows deviate by, so M would be too large
    there, the more the more there are. And log M is skew: counts rule out that M is small, but seldom that it is large.
    So its density is looked at on both sides, where coefficients are as expected given log M; `shape` has its widths.
    Returns the logarithm of the density, or not a number if there is none.
    """
    size, value = r.columns[t] * (r.states[t] - 1) + 1, 0.0
    least, most = LOG_STRENGTHS
    for k in range(STRENGTH_STEPS):
        value = find_coefficients(r, t, counts, scale, w)
        if not abs(value) < np.inf:
            return np.nan
        sd, slope = 1.0 / w.factor[size * size - 1], w.gradient[size - 1]
        away = min(SKEW_AT * sd, 2.0)
        here = value - log_volume(w.factor, size)
        follow(w, size, -away)
        low = marginal(r, t, counts, scale, w)
        follow(w, size, away)
        high = marginal(r, t, counts, scale, w)
        slope += (low.volume - high.volume) / (2.0 * away)
        below, above = here - low.value + low.volume, here - high.value + high.volume  # by how much it falls
        curve = max((below + above) / (away * away), 0.1 / (sd * sd))
        shift = min(max(slope / curve, -away), away) if abs(slope) < np.inf else 0.0
        shift = min(max(w.here[size - 1] + shift, least), most) - w.here[size - 1]
        shape[LOW] = min(max(width(away + shift, below + 0.5 * slope * shift) / sd, SKEWS[0]), SKEWS[1])
        shape[HIGH] = min(max(width(away - shift, above + 0.5 * slope * shift) / sd, SKEWS[0]), SKEWS[1])
        if abs(shift) < 0.1 * sd or k == STRENGTH_STEPS - 1:
            break
        follow(w, size, shift)
        for i in range(size):
            w.here[i] = w.there[i]
    return value


@inlined
def width(away: float, drop: float) -> float:
    """The standard deviation of a normal distribution whose log-density falls by this much, so far from its mode."""
    return away / np.sqrt(2.0 * max(drop, 1e-9))


@unmanaged
def follow(w: Work, size: int, by: float) -> None:
    """Parameters with another log M, coefficients as expected given it."""
    w.step[size - 1] = by
    for i in range(size - 2, -1, -1):
        w.step[i] = 0.0
        for j in range(i + 1, size):
            w.step[i] -= w.factor[j * size + i] * w.step[j]
        w.step[i] /= w.factor[i * size + i]
    for i in range(size):
        w.there[i] = w.here[i] + w.step[i]


class Marginal(NamedTuple):
    """The logarithm of the density of log M: `value` less `volume`."""

    value: float
    volume: float


@unmanaged
def marginal(r: Regressions, t: int, counts: Floats, scale: float, w: Work) -> Marginal:
    """That at `there`, coefficients integrated out, up to a constant."""
    size = r.columns[t] * (r.states[t] - 1) + 1
    value = measure(r, t, counts, scale, w.there, w.other_gradient, w.other_hessian, w.weights)
    sound = factorise(w.other_hessian, size, size - 1, 0.0, w.spare)
    return Marginal(value, log_volume(w.spare if sound else w.factor, size))


@inlined
def log_volume(factor: Floats, size: int) -> float:
    """The logarithm of the root of the determinant of the precision of coefficients, given log M."""
    total = 0.0
    for i in range(size - 1):
        total += np.log(factor[i * size + i])
    return total


@linked
def fit(r: Regressions, counts: Floats, fits: Floats) -> int:
    """Fit all regressions to the counts of their rows, from the last fits on; one that cannot be fitted stays.

    It returns the size of its scratch, which pointers do not hold, and which has to be there until the end.
    """
    scratch = np.empty(size_of_work(r))
    w = work_in(r, pointer(scratch, 0))
    for t in range(r.number):
        size = r.columns[t] * (r.states[t] - 1) + 1
        own, shape = pointer(fits, r.fit[t]), shape_of(r, t, fits)
        scale, value = shape[SCALE], 0.0
        for i in range(size):
            w.here[i] = own[i]
        for _ in range(SCALE_STEPS):
            value = find_mode(r, t, counts, scale, w, shape)
            better = scale_of_slopes(r, t, scale, w) if abs(value) < np.inf else scale
            if abs(better - scale) < 0.05 * scale:
                break
            scale = better
        if not abs(value) < np.inf:
            continue
        shape[SCALE] = scale
        for i in range(size):
            own[i] = w.here[i]
            for j in range(size):
                own[size + i * size + j] = w.factor[i * size + j] if j <= i else 0.0
    return len(scratch)


@kernel(types.int64(INTS, FLOATS, FLOATS, FLOATS, FLOATS, RNG, types.boolean, INTS))
def refit(
    program: Ints, numbers: Floats, counts: Floats, floats: Floats, fits: Floats, rng: Rng, drawn: bool, sections: Ints
) -> int:  # fmt: skip
    """Fit all regressions to counts, and put the priors that they give in place; how many entries there are.

    Priors are by parameters that are drawn, or by those at the mode. `sections` are where pseudo-counts begin that are
    to be shifted.
    """
    _, v, r = unpack(program, numbers)
    scratch = np.empty(v.learned)
    fresh, prior = pointer(scratch, 0), section(floats, PRIOR, v.learned)
    fit(r, pointer(counts, 0), pointer(fits, 0))
    put_priors(r, pointer(fits, 0), rng, drawn, fresh)
    shift(r, pointer(floats, 0), pointer(sections, 0), len(sections), prior, fresh)
    return len(scratch)
