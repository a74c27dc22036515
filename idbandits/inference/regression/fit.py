"""Fit of regressions: the mode of the posterior of their parameters, and its width."""

from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.inference.rounds.workspace import Regressions, unpack
from idbandits.inference.state.state import copy
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, unmanaged
from idbandits.kernel.rng import RNG
from idbandits.kernel.special import change
from idbandits.kernel.structs import pointer

from idbandits.inference.regression.density import (  # isort: skip
    HIGH, LOG_STRENGTHS, LOW, MIN_COUNT, SCALE, TableRegression, draw_parameters, prior_sd, regression_at, row_shares,
    strength_of, total_count,
)  # fmt: skip
from idbandits.kernel.linalg import (  # isort: skip
    MAX_DAMPING, factorise, factorise_damped, solve_lower, solve_lower_transposed,
)  # fmt: skip

NEWTON_STEPS = 30
MAX_STEP = 4.0  # of a parameter, in one step
CLOSE = 1e-7  # of the decrement of Newton's method: the mode is found
SCALES = 0.02, 5.0  # the range of the factor on the standard deviation of slopes
SCALE_KNOWN = 2.0  # weight of the prior of this factor, in coefficients
SCALE_STEPS = 4  # in one fit
STRENGTH_STEPS = 6  # of log M, for one scale
SKEW_AT = 1.5  # standard deviations from the mode, where the skewness of log M is measured
SKEWS = 0.3, 2.0  # the range of the factors on its standard deviation


class Point(NamedTuple):
    """Parameters, with the derivatives of the log-density there."""

    parameters: Floats
    gradient: Floats
    hessian: Floats  # negated; only the lower half


class Work(NamedTuple):
    """Scratch for a fit."""

    here: Point
    there: Point  # a candidate
    step: Floats
    factor: Floats  # of the Hessian at `here`
    spare: Floats  # of another Hessian
    weights: Floats  # three numbers per state


@inlined
def size_of_work(r: Regressions) -> int:
    """Return the size of the scratch for a fit: eight vectors and four matrices."""
    return (8 + 4 * r.most_parameters) * r.most_parameters


@inlined
def work_in(r: Regressions, scratch: Floats) -> Work:
    """Return the parts of the scratch for a fit."""
    n = r.most_parameters
    matrices = pointer(scratch, 8 * n)
    here = Point(pointer(scratch, 0), pointer(scratch, n), matrices)
    there = Point(pointer(scratch, 2 * n), pointer(scratch, 3 * n), pointer(matrices, n * n))
    factor, spare = pointer(matrices, 2 * n * n), pointer(matrices, 3 * n * n)
    return Work(here, there, pointer(scratch, 4 * n), factor, spare, pointer(scratch, 5 * n))


@unmanaged
def measure(g: TableRegression, counts: Floats, scale: float, at: Point, weights: Floats) -> float:
    """Return the log-density of parameters up to a constant; write its gradient and its negated Hessian.

    Rows without counts are ignored. `scale` is a factor on the prior deviation of slopes.
    """
    columns, states, size, last = g.columns, g.states, g.size, g.size - 1
    parameters, gradient, hessian, value = at.parameters, at.gradient, at.hessian, 0.0
    for i in range(size):
        sd = prior_sd(g, i, scale)
        off = (parameters[i] - g.centre[i]) / sd
        value -= 0.5 * off * off
        gradient[i] = -off / sd
        for j in range(size):
            hessian[i * size + j] = 0.0
        hessian[i * size + i] = 1.0 / (sd * sd)
    strength = strength_of(g, parameters)
    shares, slopes, bends = weights, pointer(weights, states), pointer(weights, 2 * states)
    for k in range(g.rows):
        n = pointer(counts, g.row[k])
        total = total_count(g, n)
        if total <= MIN_COUNT:
            continue
        line = pointer(g.design, k * columns)
        row_shares(g, k, parameters, strength, shares)
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
            first = (j - 1) * columns
            for i in range(columns):
                gradient[first + i] += slope * line[i]
                hessian[last * size + first + i] -= cross * line[i]
            for other in range(1, j + 1):
                curve = shares[j] * shares[other] * (sum_of_curves + 2.0 * sum_of_slopes)
                curve -= bends[j] * shares[other] + bends[other] * shares[j]
                if other == j:
                    curve += bends[j] - shares[j] * sum_of_slopes
                for i in range(columns):
                    weight = curve * line[i]
                    own_row = pointer(hessian, (first + i) * size + (other - 1) * columns)
                    for m in range(i + 1 if other == j else columns):
                        own_row[m] -= weight * line[m]
    return value


@unmanaged
def find_coefficients(g: TableRegression, counts: Floats, scale: float, w: Work) -> float:
    """Find the mode of all coefficients given log M, starting from `here`; return the log-density, or NaN without mode.

    The derivatives `here` and `factor` are those of all parameters.
    """
    here, there, size, last, damping = w.here, w.there, g.size, g.size - 1, 0.0
    value = measure(g, counts, scale, here, w.weights)
    for _ in range(NEWTON_STEPS):
        damping = factorise_damped(here.hessian, size, last, damping, w.spare)
        if not (abs(value) < np.inf and damping < MAX_DAMPING):
            return np.nan
        copy(here.gradient, w.step, last)
        solve_lower(w.spare, size, 0, last, w.step)
        solve_lower_transposed(w.spare, size, last, w.step)
        decrement, longest = 0.0, 0.0
        for i in range(last):
            decrement += here.gradient[i] * w.step[i]
            longest = max(longest, abs(w.step[i]))
        if decrement < CLOSE:
            break
        there.parameters[last] = here.parameters[last]
        for i in range(last):
            there.parameters[i] = here.parameters[i] + w.step[i] * min(1.0, MAX_STEP / longest)
        proposed = measure(g, counts, scale, there, w.weights)
        if proposed >= value:
            value = proposed
            damping = 0.1 * damping if damping > 1e-4 else 0.0
            copy(there.parameters, here.parameters, size)
            copy(there.gradient, here.gradient, size)
            copy(there.hessian, here.hessian, size * size)
        elif value - proposed < 1e-9 * (1.0 + abs(value)):
            break
        else:
            damping = max(10.0 * damping, 1e-2)
    return value if factorise_damped(here.hessian, size, size, 0.0, w.factor) < MAX_DAMPING else np.nan


@unmanaged
def scale_of_slopes(g: TableRegression, scale: float, w: Work) -> float:
    """Return a factor on the prior standard deviation of all slopes, by how large they are (MacKay, 1992).

    Uninformative features have small coefficients; the prior of all slopes becomes narrow then.
    """
    known, squares = 0.0, 0.0
    for i in range(g.size - 1):
        if i % g.columns == 0:
            continue
        for j in range(i, g.size):
            w.step[j] = 0.0
        w.step[i] = 1.0
        solve_lower(w.factor, g.size, i, g.size, w.step)  # a column of the inverse: its squares sum to a variance
        variance = 0.0
        for j in range(i, g.size):
            variance += w.step[j] * w.step[j]
        spread = g.spread[i]
        known += min(max(1.0 - variance / (scale * scale * spread * spread), 0.0), 1.0)
        squares += (w.here.parameters[i] / spread) ** 2
    least, most = SCALES
    return min(max(np.sqrt((SCALE_KNOWN + squares) / (SCALE_KNOWN + known)), least), most)


@unmanaged
def find_mode(g: TableRegression, counts: Floats, scale: float, w: Work) -> float:
    """Find the mode of log M with the coefficients integrated out, and that of the coefficients given it.

    At the mode of all parameters, coefficients have taken in a part of what rows deviate by, so M would be too large
    there, the more the more there are. And log M is skew: counts rule out that M is small, but seldom that it is large.
    So its density is evaluated on both sides, where coefficients are as expected given log M, and the two widths are
    written to `shape`. Returns the log-density, or NaN if there is no mode.
    """
    last, value = g.size - 1, 0.0
    least, most = LOG_STRENGTHS
    for k in range(STRENGTH_STEPS):
        value = find_coefficients(g, counts, scale, w)
        if not abs(value) < np.inf:
            return np.nan
        sd, slope, log_strength = 1.0 / w.factor[last * g.size + last], w.here.gradient[last], w.here.parameters[last]
        away = min(SKEW_AT * sd, 2.0)
        here = value - log_volume(w.factor, g.size)
        follow(w, g.size, -away)
        low = marginal(g, counts, scale, w)
        follow(w, g.size, away)
        high = marginal(g, counts, scale, w)
        slope += (low.volume - high.volume) / (2.0 * away)
        below, above = here - low.value + low.volume, here - high.value + high.volume  # by how much it falls
        curve = max((below + above) / (away * away), 0.1 / (sd * sd))
        shift = min(max(slope / curve, -away), away) if abs(slope) < np.inf else 0.0
        shift = min(max(log_strength + shift, least), most) - log_strength
        g.shape[LOW] = min(max(width(away + shift, below + 0.5 * slope * shift) / sd, SKEWS[0]), SKEWS[1])
        g.shape[HIGH] = min(max(width(away - shift, above + 0.5 * slope * shift) / sd, SKEWS[0]), SKEWS[1])
        if abs(shift) < 0.1 * sd or k == STRENGTH_STEPS - 1:
            break
        follow(w, g.size, shift)
        copy(w.there.parameters, w.here.parameters, g.size)
    return value


@inlined
def width(away: float, drop: float) -> float:
    """Return the standard deviation of a normal whose log-density falls by `drop` at a distance `away` of its mode."""
    return away / np.sqrt(2.0 * max(drop, 1e-9))


@unmanaged
def follow(w: Work, size: int, by: float) -> None:
    """Write parameters with another log M to `there`, coefficients as expected given log M."""
    w.step[size - 1] = by
    for i in range(size - 2, -1, -1):
        w.step[i] = 0.0
        for j in range(i + 1, size):
            w.step[i] -= w.factor[j * size + i] * w.step[j]
        w.step[i] /= w.factor[i * size + i]
    for i in range(size):
        w.there.parameters[i] = w.here.parameters[i] + w.step[i]


class Marginal(NamedTuple):
    """Log-density of log M: `value` minus `volume`."""

    value: float
    volume: float


@unmanaged
def marginal(g: TableRegression, counts: Floats, scale: float, w: Work) -> Marginal:
    """Return the log-density of log M at `there`, coefficients integrated out, up to a constant."""
    value = measure(g, counts, scale, w.there, w.weights)
    is_proper = factorise(w.there.hessian, g.size, g.size - 1, 0.0, w.spare)
    return Marginal(value, log_volume(w.spare if is_proper else w.factor, g.size))


@inlined
def log_volume(factor: Floats, size: int) -> float:
    """Return half the log-determinant of the precision of coefficients, given log M."""
    total = 0.0
    for i in range(size - 1):
        total += np.log(factor[i * size + i])
    return total


@unmanaged
def fit_table(g: TableRegression, counts: Floats, scale_steps: int, w: Work) -> None:
    """Fit a regression to counts, starting from its last fit; the last fit stays if there is no mode.

    The scale of slopes stays without `scale_steps`.
    """
    scale, value, size = g.shape[SCALE], 0.0, g.size
    copy(g.mode, w.here.parameters, size)
    for _ in range(max(1, scale_steps)):
        value = find_mode(g, counts, scale, w)
        better = scale_of_slopes(g, scale, w) if scale_steps > 0 and abs(value) < np.inf else scale
        if abs(better - scale) < 0.05 * scale:
            break
        scale = better
    if not abs(value) < np.inf:
        return
    g.shape[SCALE] = scale
    copy(w.here.parameters, g.mode, size)
    for i in range(size):
        for j in range(size):
            g.factor[i * size + j] = w.factor[i * size + j] if j <= i else 0.0


@kernel(types.int64(INTS, FLOATS, FLOATS, FLOATS, RNG, types.boolean))
def refit(program: Ints, numbers: Floats, counts: Floats, fits: Floats, rng: Rng, drawn: bool) -> int:
    """Fit all regressions to the counts of their rows; current parameters are drawn, or those at the mode."""
    _, _, r = unpack(program, numbers)
    scratch = np.empty(size_of_work(r))
    w = work_in(r, pointer(scratch, 0))
    for t in range(r.number):
        fit_table(regression_at(r, t, pointer(fits, 0)), pointer(counts, 0), SCALE_STEPS, w)
    for t in range(r.number):
        g = regression_at(r, t, pointer(fits, 0))
        if drawn:
            draw_parameters(g, 1.0, rng, g.current)
        else:
            copy(g.mode, g.current, g.size)
    return len(scratch)  # keeps it alive until here
