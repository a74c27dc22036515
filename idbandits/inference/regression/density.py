"""Regressions: priors of rows with features, learned from the counts of all rows of a table.

Row r of a table with features x_r has the prior Dirichlet(M softmax(x_r G)). The coefficients G are normal, the
strength M is log-normal. Given counts, each row adds the probability of its counts with its means integrated out (a
Dirichlet-multinomial), so the posterior of (G, log M) never needs the likelihood of rounds. It is approximated by a
normal distribution at its mode (Laplace), which Newton's method finds with exact derivatives.

The parameters of a regression are the coefficients of all columns for the second state, those for the third and so on,
then log M.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.inference.rounds.workspace import Regressions, unpack
from idbandits.inference.state.state import drawable
from idbandits.kernel.array_types import Bools, Floats, Indices, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, linked, unmanaged
from idbandits.kernel.linalg import solve_lower_transposed
from idbandits.kernel.structs import pointer

MIN_PRIOR = 1e-3  # of an entry: a row that can only be 0 or 1 would be stuck there
LOG_STRENGTHS = math.log(0.5), math.log(1e6)  # the range of log M
MAX_LOGIT = 30.0
ACTING = 0.7  # factor on deviations of parameters that actions are drawn by: rows deviate from their priors, too
LOW, HIGH, SCALE = range(3)  # of `shape`
MIN_COUNT = 1e-9  # rows with fewer counts are ignored


class TableRegression(NamedTuple):
    """Regression of one table: pointers into a program and into `fits` of a state."""

    states: int
    columns: int
    size: int  # number of parameters
    rows: int
    row: Indices  # of a row: its first entry
    design: Floats  # of a row: its line of `columns` numbers
    centre: Floats  # of a parameter: its prior mean
    spread: Floats  # of a parameter: its prior standard deviation
    mode: Floats  # of a parameter: its value at the mode
    factor: Floats  # the lower Cholesky factor of the precision at the mode
    current: Floats  # of a parameter: its value in the priors of the state
    shape: Floats  # LOW, HIGH: factors on the deviation of log M on both sides of its mode; SCALE: one on slopes


@inlined
def regression_at(r: Regressions, t: int, fits: Floats) -> TableRegression:
    """Return the regression with number t."""
    columns, start = r.columns[t], r.start[t]
    size, mode = columns * (r.states[t] - 1) + 1, pointer(fits, r.fit[t])
    factor = pointer(mode, size)
    current = pointer(factor, size * size)
    return TableRegression(
        r.states[t], columns, size, r.start[t + 1] - start, pointer(r.row, start), pointer(r.design, r.line[t]),
        pointer(r.centre, r.first[t]), pointer(r.spread, r.first[t]), mode, factor, current, pointer(current, size),
    )  # fmt: skip


@inlined
def strength_of(g: TableRegression, parameters: Floats) -> float:
    """Return M, clamped; NaN maps to the minimum."""
    (least, most), log_strength = LOG_STRENGTHS, parameters[g.size - 1]
    return np.exp(min(log_strength, most) if log_strength > least else least)


@inlined
def clamp_logit(logit: float, most: float) -> float:
    """Clamp a logit; NaN maps to the minimum."""
    return min(logit, most) if logit > -most else -most


@inlined
def logit(g: TableRegression, k: int, j: int, parameters: Floats) -> float:
    """Return the linear predictor of row k for the state after the j-th, clamped."""
    line, coefficients, total = pointer(g.design, k * g.columns), pointer(parameters, j * g.columns), 0.0
    for i in range(g.columns):
        total += line[i] * coefficients[i]
    return clamp_logit(total, MAX_LOGIT)


@unmanaged
def row_shares(g: TableRegression, k: int, parameters: Floats, strength: float, prior: Floats) -> None:
    """Write M softmax(x G) of row k."""
    if g.states == 2:
        odds = np.exp(logit(g, k, 0, parameters))
        prior[1] = strength * (odds / (1.0 + odds))
        prior[0] = strength / (1.0 + odds)
    else:
        prior[0], total = 1.0, 1.0
        for j in range(g.states - 1):
            prior[j + 1] = np.exp(logit(g, k, j, parameters))
            total += prior[j + 1]
        for j in range(g.states):
            prior[j] *= strength / total


@unmanaged
def row_prior(g: TableRegression, k: int, parameters: Floats, strength: float, prior: Floats) -> None:
    """Write the prior of row k: its shares of M, bounded away from zero."""
    row_shares(g, k, parameters, strength, prior)
    for j in range(g.states):
        prior[j] = max(prior[j], MIN_PRIOR)


@inlined
def prior_sd(g: TableRegression, i: int, scale: float) -> float:
    """Return the prior standard deviation of a parameter; `scale` is a factor on that of slopes."""
    return g.spread[i] * (1.0 if i == g.size - 1 or i % g.columns == 0 else scale)


@inlined
def total_count(g: TableRegression, n: Floats) -> float:
    """Return the sum of the counts of a row."""
    total = 0.0
    for j in range(g.states):
        total += n[j]
    return total


# -- draws -------------------------------------------------------------------------------------------------------------


@unmanaged
def draw_parameters(g: TableRegression, spread: float, rng: Rng, parameters: Floats) -> None:
    """Draw parameters from the distribution of a fit: normal but for log M, whose density has two widths.

    By the Cholesky factor, log M comes first, and all others given log M. `spread` is a factor on all deviations.
    """
    for i in range(g.size):
        parameters[i] = spread * rng.standard_normal()
    low, high, last = g.shape[LOW], g.shape[HIGH], g.size - 1
    parameters[last] = abs(parameters[last]) * (-low if rng.random() * (low + high) < low else high)
    solve_lower_transposed(g.factor, g.size, g.size, parameters)
    for i in range(g.size):
        parameters[i] += g.mode[i]


@inlined
def is_any(flags: Bools, first: int, last: int) -> bool:
    """Return whether one of some flags is set."""
    found = False
    for i in range(first, last):
        found |= flags[i]
    return found


@linked
def draw_acting_counts(
    r: Regressions, alpha: Floats, prior: Floats, fits: Floats, readable: Bools, spread: float, rng: Rng, acting: Floats
) -> None:
    """Write pseudo-counts to act by: the counts in addition to a prior by parameters that are drawn.

    If some rows are `readable`, only these are written.
    """
    parameters, live = np.empty(r.most_parameters), len(acting)
    acting[:] = alpha[:live]
    for t in range(r.number):
        g = regression_at(r, t, pointer(fits, 0))
        draw_parameters(g, spread, rng, pointer(parameters, 0))
        strength = strength_of(g, pointer(parameters, 0))
        for k in range(g.rows):
            row = g.row[k]
            if row >= live or (len(readable) > 0 and not is_any(readable, row, row + g.states)):
                continue
            row_prior(g, k, pointer(parameters, 0), strength, pointer(acting, row))
            for e in range(row, row + g.states):
                acting[e] += max(alpha[e] - prior[e], 0.0)


# -- priors in states ------------------------------------------------------------------------------------------------


@kernel(types.int64(INTS, FLOATS, FLOATS, types.boolean, FLOATS))
def write_priors(program: Ints, numbers: Floats, fits: Floats, at_modes: bool, prior: Floats) -> int:
    """Write the priors of all rows with features, by parameters at the modes or by current ones."""
    _, _, r = unpack(program, numbers)
    for t in range(r.number):
        g = regression_at(r, t, pointer(fits, 0))
        parameters = g.mode if at_modes else g.current
        strength = strength_of(g, parameters)
        for k in range(g.rows):
            row_prior(g, k, parameters, strength, pointer(prior, g.row[k]))
    return r.number


@kernel(types.int64(INTS, FLOATS, FLOATS, INTS, FLOATS, FLOATS))
def shift_priors(program: Ints, numbers: Floats, floats: Floats, sections: Ints, old: Floats, new: Floats) -> int:
    """Replace old priors of rows with features by new ones, and shift pseudo-counts in sections of the floats."""
    _, _, r = unpack(program, numbers)
    for t in range(r.number):
        for k in range(r.start[t], r.start[t + 1]):
            for e in range(r.row[k], r.row[k] + r.states[t]):
                for i in range(len(sections)):
                    at = sections[i] + e
                    floats[at] = drawable(floats[at] + (new[e] - old[e]))
                old[e] = new[e]
    return r.number
