"""Regressions: the prior of a row that has features, learned from the counts of all rows of its table.

Row r of a table with features x_r has the prior Dirichlet(M softmax(x_r G)). Its coefficients G are normal, its
strength M is log-normal. Given counts, each row adds the probability of its counts with its means summed out (a
Dirichlet-multinomial), so the posterior of (G, log M) never needs the likelihood of rounds. Its mode is found by
Newton's method with exact derivatives, and a normal distribution with the curvature there takes its place (Laplace).

The parameters of a regression are the coefficients of all columns for the second state, those for the third and so on,
then log M. In `fits` of a state, each regression has its parameters at the mode, the Cholesky factor of the precision
there, row by row, the parameters that the priors in the state are by, and its shape (`shape_of`).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.inference.workspace import Regressions, unpack
from idbandits.kernel.compiling import FLOATS, INTS, bare, kernel, merged, part
from idbandits.kernel.fields import pointer
from idbandits.kernel.random import RNG
from idbandits.kernel.states import PRIOR, drawable, section
from idbandits.kernel.types import Bools, Floats, Indices, Ints, Rng

LEAST_COUNT = 1e-3  # of a prior: a row that can only be 0 or 1 would be stuck there
LOG_STRENGTHS = math.log(0.5), math.log(1e6)  # the least and the largest log M
MOST_LOGIT = 30.0
ACTING = 0.7  # a factor on deviations of parameters that actions are drawn by: rows deviate from their priors, too
NEWTON_STEPS = 30
LONGEST_STEP = 4.0  # of a parameter, in one step
CLOSE = 1e-7  # of the decrement of Newton's method: the mode is found
MOST_DAMPING = 1e12  # on the diagonal of a Hessian: with more, there is no mode
SCALES = 0.02, 5.0  # the least and the largest factor on the standard deviation of coefficients
SCALE_KNOWN = 2.0  # coefficients that what is believed of this factor beforehand is worth
SCALE_STEPS = 4  # in one fit
LOW, HIGH, SCALE = range(3)  # the shape of a fit
SKEW_AT = 1.5  # standard deviations from the mode, where the skewness of log M is measured
SKEWS = 0.3, 2.0  # the least and the largest factor on its standard deviation
NOTHING = 1e-9  # rows with fewer counts than this say nothing


class Change(NamedTuple):
    """By how much a logarithm of the gamma function and its first two derivatives change."""

    value: float
    slope: float
    curve: float


@merged
def log_gamma(x: float) -> Change:
    """The logarithm of the gamma function and its derivatives: of a larger number by series, then back."""
    product, slope, curve = 1.0, 0.0, 0.0
    while x < 8.0:
        product *= x
        slope += 1.0 / x
        curve += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / x
    z, log_x = y * y, np.log(x)
    value = (x - 0.5) * log_x - x + 0.9189385332046727
    value += y * (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z / 1680)))
    first = log_x - 0.5 * y - z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z / 240)))
    second = y + 0.5 * z + y * z * (1 / 6 - z * (1 / 30 - z * (1 / 42 - z / 30)))
    return Change(value - np.log(product), first - slope, second + curve)


@merged
def change(a: float, n: float) -> Change:
    """What n more does to the logarithm of the gamma function at a; small whole n without loss."""
    if n <= 0.0:
        return Change(0.0, 0.0, 0.0)
    if n <= 12.0 and n == np.floor(n):
        product, slope, curve = 1.0, 0.0, 0.0
        while n > 0.5:
            y = 1.0 / a
            product *= a
            slope += y
            curve -= y * y
            a += 1.0
            n -= 1.0
        return Change(np.log(product), slope, curve)
    more, less = log_gamma(a + n), log_gamma(a)
    return Change(more.value - less.value, more.slope - less.slope, more.curve - less.curve)


@merged
def strength_of(r: Regressions, t: int, parameters: Floats) -> float:
    """M, also by numbers that are none."""
    (least, most), log_strength = LOG_STRENGTHS, parameters[r.columns[t] * (r.states[t] - 1)]
    return np.exp(min(log_strength, most) if log_strength > least else least)


@merged
def current_of(r: Regressions, t: int, fits: Floats) -> Floats:
    """The parameters that the priors in a state are by."""
    size = r.columns[t] * (r.states[t] - 1) + 1
    return pointer(fits, r.fit[t] + size + size * size)


@merged
def shape_of(r: Regressions, t: int, fits: Floats) -> Floats:
    """LOW and HIGH, factors on the deviation of log M on both sides of its mode; SCALE, one on coefficients."""
    size = r.columns[t] * (r.states[t] - 1) + 1
    return pointer(fits, r.fit[t] + size * (size + 2))


@merged
def logit(r: Regressions, t: int, k: int, j: int, parameters: Floats) -> float:
    """The linear predictor of a row for the state after the j-th."""
    columns, total = r.columns[t], 0.0
    line, own = pointer(r.design, r.line[k]), pointer(parameters, j * columns)
    for i in range(columns):
        total += line[i] * own[i]
    return min(total, MOST_LOGIT) if total > -MOST_LOGIT else -MOST_LOGIT  # also where it is not a number


@bare
def row_shares(r: Regressions, t: int, k: int, parameters: Floats, strength: float, prior: Floats) -> None:
    """M softmax(x G) of a row."""
    states = r.states[t]
    if states == 2:
        odds = np.exp(logit(r, t, k, 0, parameters))
        prior[1] = strength * (odds / (1.0 + odds))
        prior[0] = strength / (1.0 + odds)
    else:
        prior[0], total = 1.0, 1.0
        for j in range(states - 1):
            prior[j + 1] = np.exp(logit(r, t, k, j, parameters))
            total += prior[j + 1]
        for j in range(states):
            prior[j] *= strength / total


@bare
def row_prior(r: Regressions, t: int, k: int, parameters: Floats, strength: float, prior: Floats) -> None:
    """The prior of a row: the same, bounded away from zero."""
    row_shares(r, t, k, parameters, strength, prior)
    for j in range(r.states[t]):
        prior[j] = max(prior[j], LEAST_COUNT)


# -- draws -------------------------------------------------------------------------------------------------------------


@bare
def draw_parameters(r: Regressions, t: int, fits: Floats, spread: float, rng: Rng, parameters: Floats) -> None:
    """Parameters from the distribution of a fit: normal but for log M, whose density has two widths.

    By the Cholesky factor, log M comes first, and all others given log M. `spread` is a factor on all deviations.
    """
    size = r.columns[t] * (r.states[t] - 1) + 1
    mode = pointer(fits, r.fit[t])
    factor = pointer(mode, size)
    for i in range(size):
        parameters[i] = spread * rng.standard_normal()
    low, high = shape_of(r, t, fits)[LOW], shape_of(r, t, fits)[HIGH]
    parameters[size - 1] = abs(parameters[size - 1]) * (-low if rng.random() * (low + high) < low else high)
    for i in range(size - 1, -1, -1):
        parameters[i] /= factor[i * size + i]
        for j in range(i):
            parameters[j] -= factor[i * size + j] * parameters[i]
    for i in range(size):
        parameters[i] += mode[i]


@part
def draw_acting_counts(
    r: Regressions, alpha: Floats, prior: Floats, fits: Floats, live: int, readable: Bools, rng: Rng, acting: Floats
) -> None:
    """Pseudo-counts to act by: what was counted beyond the prior, and a prior by parameters that are drawn.

    If some rows are `readable`, only these are made.
    """
    parameters = np.empty(r.most_parameters)
    for e in range(live):
        acting[e] = alpha[e]
    for t in range(r.number):
        draw_parameters(r, t, pointer(fits, 0), ACTING, rng, pointer(parameters, 0))
        strength = strength_of(r, t, pointer(parameters, 0))
        for k in range(r.start[t], r.start[t + 1]):
            row, states = r.row[k], r.states[t]
            if row >= live:
                continue
            if len(readable) > 0:
                wanted = False
                for e in range(row, row + states):
                    wanted |= readable[e]
                if not wanted:
                    continue
            own = pointer(acting, row)
            row_prior(r, t, k, pointer(parameters, 0), strength, own)
            for j in range(states):
                own[j] += max(alpha[row + j] - prior[row + j], 0.0)


# -- the fit -----------------------------------------------------------------------------------------------------------


@bare
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


@bare
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


@bare
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


@bare
def find_mode(r: Regressions, t: int, counts: Floats, scale: float, w: Work) -> float:
    """Find the mode of the posterior from `here` on, and its Cholesky factor there; the logarithm of its density.

    Not a number, if the density has none.
    """
    size, damping = r.columns[t] * (r.states[t] - 1) + 1, 0.0
    least, most = LOG_STRENGTHS
    value = measure(r, t, counts, scale, w.here, w.gradient, w.hessian, w.weights)
    for _ in range(NEWTON_STEPS):
        hold_strength(w.here[size - 1], size, w.gradient, w.hessian)
        damping = factorise_anyhow(w.hessian, size, damping, w.factor)
        if not (abs(value) < np.inf and damping < MOST_DAMPING):
            return np.nan
        for i in range(size):
            w.step[i] = w.gradient[i]
        solve(w.factor, size, size, w.step)
        decrement, longest = 0.0, 0.0
        for i in range(size):
            decrement += w.gradient[i] * w.step[i]
            longest = max(longest, abs(w.step[i]))
        if decrement < CLOSE:
            break
        for i in range(size):
            w.there[i] = w.here[i] + w.step[i] * min(1.0, LONGEST_STEP / longest)
        w.there[size - 1] = min(max(w.there[size - 1], least), most)
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


@bare
def hold_strength(log_strength: float, size: int, gradient: Floats, hessian: Floats) -> None:
    """Leave log M where it is if it is at a bound and would go beyond; all others are then found by themselves.

    Off the bound, its density falls by this slope. An exponential distribution would have this standard deviation.
    """
    least, most = LOG_STRENGTHS
    slope, last = gradient[size - 1], (size - 1) * size
    if (log_strength <= least and slope < 0.0) or (log_strength >= most and slope > 0.0):
        gradient[size - 1] = 0.0
        for i in range(size - 1):
            hessian[last + i] = 0.0
        hessian[last + size - 1] = max(hessian[last + size - 1], 0.0) + slope * slope


@bare
def factorise_anyhow(hessian: Floats, size: int, damping: float, factor: Floats) -> float:
    """Factorise a matrix with as much more on its diagonal as it takes; how much that is."""
    while not factorise(hessian, size, size, damping, factor) and damping < MOST_DAMPING:
        damping = max(10.0 * damping, 1e-3)
    return damping


@bare
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


@bare
def find_strength(r: Regressions, t: int, counts: Floats, scale: float, value: float, w: Work, shape: Floats) -> None:
    """Move from the mode to that of log M alone, coefficients integrated out, and find how wide it is on both sides.

    At the mode of all parameters, coefficients have taken in a part of what rows deviate by, so M is too large there,
    the more the more there are. And log M is skew: counts rule out that M is small, but seldom that it is large. So its
    density is looked at on both sides, where coefficients are as expected given log M.
    """
    size = r.columns[t] * (r.states[t] - 1) + 1
    sd = 1.0 / w.factor[size * size - 1]
    away = SKEW_AT * sd
    here = Marginal(value, log_volume(w.factor, size))
    follow(w, size, -away)
    low = marginal(r, t, counts, scale, w)
    follow(w, size, away)
    high = marginal(r, t, counts, scale, w)
    shift = sd * sd * (low.volume - high.volume) / (2.0 * away)
    shift = min(max(shift, -0.8 * away), 0.8 * away) if abs(shift) < np.inf else 0.0
    shift = min(max(shift, LOG_STRENGTHS[0] - w.here[size - 1]), LOG_STRENGTHS[1] - w.here[size - 1])
    follow(w, size, shift)
    top = measure(r, t, counts, scale, w.there, w.gradient, w.hessian, w.weights)
    if factorise(w.hessian, size, size, 0.0, w.spare):
        top -= log_volume(w.spare, size)
        solve(w.spare, size, size - 1, w.gradient)  # one more step of coefficients, given log M
        w.gradient[size - 1] = 0.0
        for i in range(size):
            w.here[i] = w.there[i] + w.gradient[i]
        for i in range(size * size):
            w.factor[i] = w.spare[i]
    else:
        shift, top = 0.0, here.value - here.volume
    sd = 1.0 / w.factor[size * size - 1]
    shape[LOW] = width(away + shift, top - low.value + low.volume) / sd
    shape[HIGH] = width(away - shift, top - high.value + high.volume) / sd
    for side in (LOW, HIGH):
        shape[side] = min(max(shape[side], SKEWS[0]), SKEWS[1])


@merged
def width(away: float, drop: float) -> float:
    """The standard deviation of a normal distribution whose log-density falls by this much, so far from its mode."""
    return away / np.sqrt(2.0 * max(drop, 1e-9))


@bare
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


@bare
def marginal(r: Regressions, t: int, counts: Floats, scale: float, w: Work) -> Marginal:
    """That at `there`, coefficients integrated out, up to a constant."""
    size = r.columns[t] * (r.states[t] - 1) + 1
    value = measure(r, t, counts, scale, w.there, w.other_gradient, w.other_hessian, w.weights)
    sound = factorise(w.other_hessian, size, size - 1, 0.0, w.spare)
    return Marginal(value, log_volume(w.spare if sound else w.factor, size))


@merged
def log_volume(factor: Floats, size: int) -> float:
    """The logarithm of the root of the determinant of the precision of coefficients, given log M."""
    total = 0.0
    for i in range(size - 1):
        total += np.log(factor[i * size + i])
    return total


@part
def fit(r: Regressions, counts: Floats, fits: Floats) -> int:
    """Fit all regressions to the counts of their rows, from the last fits on; one that cannot be fitted stays.

    It returns the size of its scratch, which pointers do not hold, and which has to be there until the end.
    """
    most = r.most_parameters
    scratch = np.empty(5 * most + 4 * most * most + 3 * (most + 1))
    after = pointer(scratch, 5 * most)
    w = Work(
        pointer(scratch, 0), pointer(scratch, most), pointer(scratch, 2 * most), pointer(scratch, 3 * most), after,
        pointer(scratch, 4 * most), pointer(after, most * most), pointer(after, 2 * most * most),
        pointer(after, 3 * most * most), pointer(after, 4 * most * most),
    )  # fmt: skip
    for t in range(r.number):
        size = r.columns[t] * (r.states[t] - 1) + 1
        own, shape = pointer(fits, r.fit[t]), shape_of(r, t, fits)
        scale, value = shape[SCALE], 0.0
        for i in range(size):
            w.here[i] = own[i]
        for _ in range(SCALE_STEPS):
            value = find_mode(r, t, counts, scale, w)
            better = scale_of_slopes(r, t, scale, w) if abs(value) < np.inf else scale
            if abs(better - scale) < 0.05 * scale:
                break
            scale = better
        if not abs(value) < np.inf:
            continue
        shape[SCALE] = scale
        find_strength(r, t, counts, scale, value, w, shape)
        for i in range(size):
            own[i] = w.here[i]
            for j in range(size):
                own[size + i * size + j] = w.factor[i * size + j] if j <= i else 0.0
    return len(scratch)


# -- priors in states ------------------------------------------------------------------------------------------------


@bare
def put_priors(r: Regressions, fits: Floats, rng: Rng, drawn: bool, prior: Floats) -> None:
    """Put the priors of all rows with features in place: by parameters that are drawn, or by those at the mode."""
    for t in range(r.number):
        own, mode = current_of(r, t, fits), pointer(fits, r.fit[t])
        if drawn:
            draw_parameters(r, t, fits, 1.0, rng, own)
        else:
            for i in range(r.columns[t] * (r.states[t] - 1) + 1):
                own[i] = mode[i]
        strength = strength_of(r, t, own)
        for k in range(r.start[t], r.start[t + 1]):
            row_prior(r, t, k, own, strength, pointer(prior, r.row[k]))


@bare
def shift(r: Regressions, floats: Floats, sections: Indices, number: int, old: Floats, new: Floats) -> None:
    """Shift pseudo-counts in several sections of a state, which begin at these places, with the prior."""
    for t in range(r.number):
        for k in range(r.start[t], r.start[t + 1]):
            for e in range(r.row[k], r.row[k] + r.states[t]):
                for i in range(number):
                    at = sections[i] + e
                    floats[at] = drawable(floats[at] + (new[e] - old[e]))
                old[e] = new[e]


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


@kernel(types.void(INTS, FLOATS, FLOATS, FLOATS, INTS))
def put_back(program: Ints, numbers: Floats, floats: Floats, declared: Floats, sections: Ints) -> None:
    """Put the declared priors back in place."""
    _, v, r = unpack(program, numbers)
    prior = section(floats, PRIOR, v.learned)
    shift(r, pointer(floats, 0), pointer(sections, 0), len(sections), prior, pointer(declared, 0))
