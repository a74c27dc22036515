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

import numpy as np
from numba import types

from idbandits.inference.rounds.workspace import Regressions, unpack
from idbandits.inference.state.state import PRIOR, drawable, section
from idbandits.kernel.array_types import Bools, Floats, Indices, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, linked, unmanaged
from idbandits.kernel.structs import pointer

LEAST_COUNT = 1e-3  # of a prior: a row that can only be 0 or 1 would be stuck there
LOG_STRENGTHS = math.log(0.5), math.log(1e6)  # the least and the largest log M
MOST_LOGIT = 30.0
ACTING = 0.7  # a factor on deviations of parameters that actions are drawn by: rows deviate from their priors, too
LOW, HIGH, SCALE = range(3)  # the shape of a fit
NOTHING = 1e-9  # rows with fewer counts than this say nothing


@inlined
def strength_of(r: Regressions, t: int, parameters: Floats) -> float:
    """M, also by numbers that are none."""
    (least, most), log_strength = LOG_STRENGTHS, parameters[r.columns[t] * (r.states[t] - 1)]
    return np.exp(min(log_strength, most) if log_strength > least else least)


@inlined
def current_of(r: Regressions, t: int, fits: Floats) -> Floats:
    """The parameters that the priors in a state are by."""
    size = r.columns[t] * (r.states[t] - 1) + 1
    return pointer(fits, r.fit[t] + size + size * size)


@inlined
def shape_of(r: Regressions, t: int, fits: Floats) -> Floats:
    """LOW and HIGH, factors on the deviation of log M on both sides of its mode; SCALE, one on coefficients."""
    size = r.columns[t] * (r.states[t] - 1) + 1
    return pointer(fits, r.fit[t] + size * (size + 2))


@inlined
def logit(r: Regressions, t: int, k: int, j: int, parameters: Floats) -> float:
    """The linear predictor of a row for the state after the j-th."""
    columns, total = r.columns[t], 0.0
    line, own = pointer(r.design, r.line[k]), pointer(parameters, j * columns)
    for i in range(columns):
        total += line[i] * own[i]
    return min(total, MOST_LOGIT) if total > -MOST_LOGIT else -MOST_LOGIT  # also where it is not a number


@unmanaged
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


@unmanaged
def row_prior(r: Regressions, t: int, k: int, parameters: Floats, strength: float, prior: Floats) -> None:
    """The prior of a row: the same, bounded away from zero."""
    row_shares(r, t, k, parameters, strength, prior)
    for j in range(r.states[t]):
        prior[j] = max(prior[j], LEAST_COUNT)


# -- draws -------------------------------------------------------------------------------------------------------------


@unmanaged
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


@linked
def draw_acting_counts(
    r: Regressions, alpha: Floats, prior: Floats, fits: Floats, live: int, readable: Bools, spread: float, rng: Rng,
    acting: Floats,
) -> None:  # fmt: skip
    """Pseudo-counts to act by: what was counted beyond the prior, and a prior by parameters that are drawn.

    If some rows are `readable`, only these are made.
    """
    parameters = np.empty(r.most_parameters)
    for e in range(live):
        acting[e] = alpha[e]
    for t in range(r.number):
        draw_parameters(r, t, pointer(fits, 0), spread, rng, pointer(parameters, 0))
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


# -- priors in states ------------------------------------------------------------------------------------------------


@unmanaged
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


@unmanaged
def shift(r: Regressions, floats: Floats, sections: Indices, number: int, old: Floats, new: Floats) -> None:
    """Shift pseudo-counts in several sections of a state, which begin at these places, with the prior."""
    for t in range(r.number):
        for k in range(r.start[t], r.start[t + 1]):
            for e in range(r.row[k], r.row[k] + r.states[t]):
                for i in range(number):
                    at = sections[i] + e
                    floats[at] = drawable(floats[at] + (new[e] - old[e]))
                old[e] = new[e]


@kernel(types.void(INTS, FLOATS, FLOATS, FLOATS, INTS))
def put_back(program: Ints, numbers: Floats, floats: Floats, declared: Floats, sections: Ints) -> None:
    """Put the declared priors back in place."""
    _, v, r = unpack(program, numbers)
    prior = section(floats, PRIOR, v.learned)
    shift(r, pointer(floats, 0), pointer(sections, 0), len(sections), prior, pointer(declared, 0))
