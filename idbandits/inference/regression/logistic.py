"""Logistic tables: rows whose logits are linear in features of the row and of the request.

The belief of the coefficients of a table is a normal distribution. Rows may have residuals, which are normal and
independent of the coefficients and of each other. In `fits` of a state, each table has the mean of its coefficients, a
factor U of their precision U'U (upper triangular, row by row), and the means and the variances of the residuals, those
of retired rows last; each context with features has the vector of the current request.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.circuit.circuit import Circuit
from idbandits.inference.regression.density import clamp_logit
from idbandits.inference.rounds.workspace import Parts, Regressions
from idbandits.inference.state.state import copy
from idbandits.kernel.array_types import Bools, Floats, Indices, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, linked, unmanaged
from idbandits.kernel.linalg import add_outer_product, dot, factorise, solve_upper, solve_upper_transposed
from idbandits.kernel.structs import pointer, unpacker

MOST_LOGIT = 30.0  # of means that are drawn
BRIDGED_LOGIT = 20.0  # of rows whose beliefs become pseudo-counts
LEAST_COUNT, MOST_COUNT = 1e-3, 1e12  # of these pseudo-counts


class Logistics(NamedTuple):
    """Logistic tables, as a structure for kernels."""

    number: int  # of tables that the diagram has
    every: int  # number including tables of earlier diagrams, whose rows are all retired
    most_coefficients: int  # of one table
    entry: Indices  # of a table: its first entry
    rows: Indices  # of a table: its number of rows in the diagram
    total: Indices  # of a table: its number of rows, including retired ones
    columns: Indices  # of a table: those of its design, the first of which is constant
    width: Indices  # of a table: the numbers of a request
    products: Indices  # of a table: 1 if there are products of both
    size: Indices  # of a table: its number of coefficients
    fit: Indices  # of a table: its place in `fits`
    request: Indices  # of a table: the place of the request in `fits`
    first: Indices  # of a table: its first coefficient in `centre` and `spread`
    line: Indices  # of a table: the place of its lines in `design`
    row_start: Indices  # of a table: its first row in `fixed`
    fixed: Indices  # of a row in the diagram: 1 if it is fixed
    retired_table: Indices  # of an entry of a retired row: its logistic table, or -1
    retired_row: Indices  # of an entry of a retired row: its row in that table
    others: int  # stretches of entries between logistic tables
    other_start: Indices
    other_end: Indices
    residual: Floats  # of a table: the prior variance of residuals, 0 if it has none
    design: Floats
    centre: Floats  # of a coefficient: its prior mean
    spread: Floats  # of a coefficient: its prior standard deviation


unpack = unpacker(Circuit, Parts, Regressions, Logistics)


class LogisticTable(NamedTuple):
    """A logistic table and its belief: pointers into a program and into `fits` of a state."""

    entry: int
    rows: int
    total: int
    columns: int
    width: int
    products: int
    size: int
    prior_variance: float  # of residuals
    fixed: Indices
    design: Floats
    centre: Floats
    spread: Floats
    request: Floats
    mean: Floats
    factor: Floats
    residual: Floats  # of a row: the mean of its residual
    variance: Floats  # of a row: the variance of its residual


@inlined
def logistic_at(q: Logistics, t: int, fits: Floats) -> LogisticTable:
    """Return the logistic table with number t."""
    size, at = q.size[t], q.fit[t]
    residual = at + size + size * size
    return LogisticTable(
        q.entry[t], q.rows[t], q.total[t], q.columns[t], q.width[t], q.products[t], size, q.residual[t],
        pointer(q.fixed, q.row_start[t]), pointer(q.design, q.line[t]), pointer(q.centre, q.first[t]),
        pointer(q.spread, q.first[t]), pointer(fits, q.request[t]), pointer(fits, at), pointer(fits, at + size),
        pointer(fits, residual), pointer(fits, residual + q.total[t]),
    )  # fmt: skip


@inlined
def design_line(b: LogisticTable, k: int) -> Floats:
    """Return the features of row k."""
    return pointer(b.design, k * b.columns)


@unmanaged
def write_line(b: LogisticTable, k: int, x: Floats) -> None:
    """Write the features of row k, of the current request, and their products: the factors of the coefficients."""
    own, at = design_line(b, k), b.columns + b.width
    copy(own, x, b.columns)
    copy(b.request, pointer(x, b.columns), b.width)
    for i in range(1, b.columns if b.products else 1):
        for j in range(b.width):
            x[at] = own[i] * b.request[j]
            at += 1


@unmanaged
def combine(b: LogisticTable, coefficients: Floats, combined: Floats) -> None:
    """Write the coefficients of the columns of the design, given the current request."""
    copy(coefficients, combined, b.columns)
    for i in range(b.columns if b.products else 1):
        combined[i] += dot(pointer(coefficients, b.columns + i * b.width), b.request, 0, b.width)


@linked
def draw_logistic_rows(q: Logistics, fits: Floats, readable: Bools, rng: Rng, means: Floats) -> None:
    """Draw the means of the rows of logistic tables for the current request; if some are `readable`, only these.

    All rows of a table share one draw of the coefficients; residuals are drawn by row.
    """
    scratch = np.empty(2 * q.most_coefficients)
    drawn, combined = pointer(scratch, 0), pointer(scratch, q.most_coefficients)
    for t in range(q.number):
        b = logistic_at(q, t, fits)
        for i in range(b.size):
            drawn[i] = rng.standard_normal()
        solve_upper(b.factor, b.size, drawn)
        for i in range(b.size):
            drawn[i] += b.mean[i]
        combine(b, drawn, combined)
        for k in range(b.rows):
            e = b.entry + 2 * k
            means[e], means[e + 1] = 1.0, 0.0
            if b.fixed[k] or (len(readable) > 0 and not (readable[e] or readable[e + 1])):
                continue
            logit = dot(combined, design_line(b, k), 0, b.columns)
            if b.prior_variance > 0.0:
                logit += b.residual[k] + np.sqrt(b.variance[k]) * rng.standard_normal()
            means[e + 1] = 1.0 / (1.0 + np.exp(-clamp_logit(logit, MOST_LOGIT)))
            means[e] = 1.0 - means[e + 1]
    scratch[0] = 0.0  # keeps it alive until here


class Logit(NamedTuple):
    """Normal belief of the logit of a row."""

    mean: float
    variance: float
    own: float  # the part of the variance that is due to the residual


@inlined
def with_residual(b: LogisticTable, k: int, mean: float, variance: float) -> Logit:
    """Return the belief of the logit of row k, given that of its linear part."""
    if b.prior_variance > 0.0:
        return Logit(mean + b.residual[k], variance + b.variance[k], b.variance[k])
    return Logit(mean, variance + 0.0, 0.0)


@unmanaged
def logit_of(b: LogisticTable, k: int, x: Floats) -> Logit:
    """Return the belief of the logit of row k for the current request; x becomes U'^-1 times its line."""
    write_line(b, k, x)
    mean = dot(b.mean, x, 0, b.size)
    solve_upper_transposed(b.factor, b.size, x)
    return with_residual(b, k, mean, dot(x, x, 0, b.size))


@inlined
def bridge(logit: Logit, alpha: Floats) -> None:
    """Write pseudo-counts that match a normal logit (the Laplace bridge): log(a / b) and ab / (a + b) stay."""
    odds = np.exp(clamp_logit(logit.mean, BRIDGED_LOGIT))
    alpha[1] = min(max((1.0 + odds) / logit.variance, LEAST_COUNT), MOST_COUNT)
    alpha[0] = min(max((1.0 + 1.0 / odds) / logit.variance, LEAST_COUNT), MOST_COUNT)


@kernel(types.void(INTS, FLOATS, FLOATS, FLOATS))
def bridge_rows(program: Ints, numbers: Floats, fits: Floats, alpha: Floats) -> None:
    """Write pseudo-counts of all rows of logistic tables, for the current request."""
    _, _, _, q = unpack(program, numbers)
    most = q.most_coefficients
    scratch = np.empty(most + 2 * most * most)
    combined, halves = pointer(scratch, 0), pointer(scratch, most)
    covariance = pointer(halves, most * most)
    for t in range(q.number):
        b = logistic_at(q, t, pointer(fits, 0))
        n = b.columns
        combine(b, b.mean, combined)
        for i in range(n):  # the covariance of the combined coefficients, once for all rows
            half = pointer(halves, i * b.size)
            for j in range(b.size):
                half[j] = 0.0
            half[i] = 1.0
            copy(b.request, pointer(half, n + i * b.width), b.width if i == 0 or b.products else 0)
            solve_upper_transposed(b.factor, b.size, half)
            for j in range(i + 1):
                covariance[i * n + j] = dot(half, pointer(halves, j * b.size), 0, b.size)
                covariance[j * n + i] = covariance[i * n + j]
        for k in range(b.rows):
            if b.fixed[k]:
                continue
            line, variance = design_line(b, k), 0.0
            for i in range(n):
                variance += line[i] * dot(pointer(covariance, i * n), line, 0, n)
            logit = with_residual(b, k, dot(combined, line, 0, n), variance)
            bridge(logit, pointer(alpha, b.entry + 2 * k))
    scratch[0] = 0.0  # keeps it alive until here


# -- learning ----------------------------------------------------------------------------------------------------------


class Site(NamedTuple):
    """Likelihood of the logit of a row by a round: a normal density, by its natural parameters."""

    precision: float
    shift: float  # the precision times the mean


@inlined
def site_of(before: Floats, after: Floats) -> Site:
    """Return the density of the logit by which pseudo-counts changed."""
    old, new = np.log(before[1] / before[0]), np.log(after[1] / after[0])
    old_precision = before[0] * before[1] / (before[0] + before[1])
    new_precision = after[0] * after[1] / (after[0] + after[1])
    if new_precision <= old_precision:  # a latent node made it less certain: only the mean moves
        return Site(0.0, (new - old) * old_precision)
    return Site(new_precision - old_precision, new * new_precision - old * old_precision)


@unmanaged
def multiply(b: LogisticTable, k: int, site: Site, x: Floats, y: Floats, added: Floats) -> None:
    """Multiply the belief of a table by a site of row k; x and y are scratch.

    `added` gets the changes of natural parameters: the precision of coefficients, along the line of the row, and their
    shift; the precision of the residual, and its shift.
    """
    for i in range(4):
        added[i] = 0.0
    if site.precision == 0.0 and site.shift == 0.0:
        return
    logit = logit_of(b, k, x)
    gain = (site.shift - site.precision * logit.mean) / (1.0 + site.precision * logit.variance)
    if not abs(gain) < np.inf:
        return
    solve_upper(b.factor, b.size, x)
    for i in range(b.size):
        b.mean[i] += gain * x[i]
    added[0] = site.precision / (1.0 + site.precision * logit.own)
    if site.precision > 0.0:
        root = np.sqrt(added[0])
        write_line(b, k, y)
        for i in range(b.size):
            y[i] *= root
        add_outer_product(b.factor, b.size, y)
    write_line(b, k, y)
    added[1] = gain + added[0] * dot(b.mean, y, 0, b.size)
    if logit.own > 0.0:
        before = b.residual[k]
        b.residual[k] += gain * logit.own
        b.variance[k] -= logit.own * logit.own * site.precision / (1.0 + site.precision * logit.variance)
        added[2] = 1.0 / b.variance[k] - 1.0 / logit.own
        added[3] = b.residual[k] / b.variance[k] - before / logit.own


@linked
def fade_logistic(q: Logistics, fits: Floats, keep: float) -> None:
    """Let the likelihood of all earlier rounds fade: raise it to the power `keep`.

    Natural parameters of coefficients and residuals move towards those of the prior.
    """
    scratch = np.empty(q.most_coefficients * (2 * q.most_coefficients + 1))
    for t in range(q.every):
        b = logistic_at(q, t, fits)
        n = b.size
        shift, precision, lower = pointer(scratch, 0), pointer(scratch, n), pointer(scratch, n + n * n)
        for i in range(n * (n + 1)):
            scratch[i] = 0.0
        for k in range(n):  # U'U, only its lower half, and U'U mean
            row = pointer(b.factor, k * n)
            along = dot(row, b.mean, k, n)
            for i in range(k, n):
                shift[i] += row[i] * along
                for j in range(i, n):
                    precision[j * n + i] += row[i] * row[j]
        for i in range(n):
            declared = 1.0 / (b.spread[i] * b.spread[i])
            shift[i] = keep * shift[i] + (1.0 - keep) * declared * b.centre[i]
            for j in range(i, n):
                precision[j * n + i] *= keep
            precision[i * n + i] += (1.0 - keep) * declared
        factorise(precision, n, n, 0.0, lower)
        for i in range(n):
            for j in range(i, n):
                b.factor[i * n + j] = lower[j * n + i]
        solve_upper_transposed(b.factor, n, shift)
        solve_upper(b.factor, n, shift)
        copy(shift, b.mean, n)
        for k in range(b.total if b.prior_variance > 0.0 else 0):
            before = 1.0 / b.variance[k]
            b.variance[k] = 1.0 / (keep * before + (1.0 - keep) / b.prior_variance)
            b.residual[k] *= keep * before * b.variance[k]
    scratch[0] = 0.0  # keeps it alive until here
