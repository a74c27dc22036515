"""Logistic tables: rows whose logits are linear in features of the row and of the request.

What is believed of the coefficients of a table is a normal distribution. A row may have a residual besides, which is
normal and independent of the coefficients and of other rows. In `fits` of a state, each table has the mean of its
coefficients, a factor U of their precision U'U (upper triangular, row by row), and the means and the variances of the
residuals, those of retired rows after those of the diagram's own; each context with features has the vector of the
present request.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.circuit.circuit import Circuit
from idbandits.inference.rounds.workspace import Parts, Regressions
from idbandits.kernel.array_types import Bools, Floats, Indices, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, linked, unmanaged
from idbandits.kernel.structs import pointer, unpacker

MOST_LOGIT = 30.0  # of means that are drawn
BRIDGED_LOGIT = 20.0  # of rows whose beliefs become pseudo-counts
LEAST_COUNT, MOST_COUNT = 1e-3, 1e12  # of these pseudo-counts


class Logistics(NamedTuple):
    """The logistic tables, as a structure for kernels."""

    number: int  # of those that the diagram has
    every: int  # with those that only earlier diagrams have, whose rows are all retired
    most_coefficients: int  # of one table
    entry: Indices  # of a table: its first entry
    rows: Indices  # of a table: how many the diagram has
    total: Indices  # of a table: its rows, retired ones included
    columns: Indices  # of a table: those of its design, the first of which is constant
    width: Indices  # of a table: the numbers of a request
    products: Indices  # of a table: 1 if there are products of both
    size: Indices  # of a table: its number of coefficients
    fit: Indices  # of a table: where it stands in `fits`
    request: Indices  # of a table: where the request stands in `fits`
    first: Indices  # of a table: its first coefficient in `centre` and `spread`
    line: Indices  # of a table: where its lines begin in `design`
    row_start: Indices  # of a table: its first row in `fixed`
    fixed: Indices  # of a row that the diagram has: 1 if it is fixed
    retired_table: Indices  # of an entry of a retired row: its logistic table, or -1
    retired_row: Indices  # of an entry of a retired row: its row in that table
    others: int  # stretches of entries between logistic tables: how many
    other_start: Indices
    other_end: Indices
    residual: Floats  # of a table: the variance of residuals beforehand, 0 if it has none
    design: Floats
    centre: Floats  # of a coefficient: its mean beforehand
    spread: Floats  # of a coefficient: its standard deviation beforehand


unpack = unpacker(Circuit, Parts, Regressions, Logistics)


class Belief(NamedTuple):
    """What is believed of a logistic table: pointers into `fits`."""

    size: int
    mean: Floats
    factor: Floats
    residual: Floats  # means of the residuals of rows
    variance: Floats  # of the residuals of rows


@inlined
def belief_of(q: Logistics, t: int, fits: Floats) -> Belief:
    """The belief of a table."""
    size, at = q.size[t], q.fit[t]
    residual = at + size + size * size
    return Belief(
        size, pointer(fits, at), pointer(fits, at + size), pointer(fits, residual), pointer(fits, residual + q.total[t])
    )


@inlined
def dot(a: Floats, b: Floats, first: int, last: int) -> float:
    """An inner product, by four sums at once."""
    s, t, u, v, i = 0.0, 0.0, 0.0, 0.0, first
    while i + 4 <= last:
        s += a[i] * b[i]
        t += a[i + 1] * b[i + 1]
        u += a[i + 2] * b[i + 2]
        v += a[i + 3] * b[i + 3]
        i += 4
    while i < last:
        s += a[i] * b[i]
        i += 1
    return (s + t) + (u + v)


@inlined
def bounded(logit: float, most: float) -> float:
    """A logit that is not too far out, also where it is not a number."""
    return min(logit, most) if logit > -most else -most


@unmanaged
def solve_upper(b: Belief, x: Floats) -> None:
    """U^-1 x, in place."""
    for k in range(b.size - 1, -1, -1):
        row = pointer(b.factor, k * b.size)
        x[k] = (x[k] - dot(row, x, k + 1, b.size)) / row[k]


@unmanaged
def solve_lower(b: Belief, x: Floats) -> None:
    """U'^-1 x, in place."""
    for k in range(b.size):
        row = pointer(b.factor, k * b.size)
        x[k] /= row[k]
        own = x[k]
        if own != 0.0:
            for i in range(k + 1, b.size):
                x[i] -= row[i] * own


@unmanaged
def add_square(b: Belief, x: Floats) -> None:
    """Add x x' to the precision; x is overwritten."""
    for k in range(b.size):
        if x[k] == 0.0:
            continue
        row = pointer(b.factor, k * b.size)
        length = np.sqrt(row[k] * row[k] + x[k] * x[k])
        c, s = row[k] / length, x[k] / length
        row[k] = length
        for i in range(k + 1, b.size):
            old = row[i]
            row[i] = c * old + s * x[i]
            x[i] = c * x[i] - s * old


@unmanaged
def write_line(q: Logistics, t: int, k: int, fits: Floats, x: Floats) -> None:
    """What the coefficients are multiplied with, for row k and the present request."""
    columns, width = q.columns[t], q.width[t]
    own, request = pointer(q.design, q.line[t] + k * columns), pointer(fits, q.request[t])
    for i in range(columns):
        x[i] = own[i]
    for j in range(width):
        x[columns + j] = request[j]
    if q.products[t]:
        at = columns + width
        for i in range(1, columns):
            for j in range(width):
                x[at] = own[i] * request[j]
                at += 1


@unmanaged
def combine(q: Logistics, t: int, coefficients: Floats, fits: Floats, combined: Floats) -> None:
    """The coefficients of the columns of the design, with those that the present request brings in added."""
    columns, width, request = q.columns[t], q.width[t], pointer(fits, q.request[t])
    for i in range(columns):
        combined[i] = coefficients[i]
    combined[0] += dot(pointer(coefficients, columns), request, 0, width)
    if q.products[t]:
        at = columns + width
        for i in range(1, columns):
            combined[i] += dot(pointer(coefficients, at), request, 0, width)
            at += width


@linked
def draw_logistic_rows(q: Logistics, fits: Floats, readable: Bools, rng: Rng, means: Floats) -> None:
    """Draw the means of the rows of logistic tables for the present request; if some are `readable`, only these.

    One draw of the coefficients makes all rows of a table; each row has a draw of its own residual, if there are some.
    """
    scratch = np.empty(2 * q.most_coefficients)
    drawn, combined = pointer(scratch, 0), pointer(scratch, q.most_coefficients)
    for t in range(q.number):
        b, columns, has_residuals = belief_of(q, t, fits), q.columns[t], q.residual[t] > 0.0
        for i in range(b.size):
            drawn[i] = rng.standard_normal()
        solve_upper(b, drawn)
        for i in range(b.size):
            drawn[i] += b.mean[i]
        combine(q, t, drawn, fits, combined)
        for k in range(q.rows[t]):
            e = q.entry[t] + 2 * k
            means[e], means[e + 1] = 1.0, 0.0
            if q.fixed[q.row_start[t] + k] or (len(readable) > 0 and not (readable[e] or readable[e + 1])):
                continue
            logit = dot(combined, pointer(q.design, q.line[t] + k * columns), 0, columns)
            if has_residuals:
                logit += b.residual[k] + np.sqrt(b.variance[k]) * rng.standard_normal()
            means[e + 1] = 1.0 / (1.0 + np.exp(-bounded(logit, MOST_LOGIT)))
            means[e] = 1.0 - means[e + 1]
    scratch[0] = 0.0  # holds it until here


class Logit(NamedTuple):
    """What is believed of the logit of a row: normal."""

    mean: float
    variance: float
    own: float  # the part of the variance that is that of the residual


@unmanaged
def logit_of(q: Logistics, t: int, k: int, fits: Floats, x: Floats) -> Logit:
    """The logit of a row for the present request; x becomes U'^-1 times its line."""
    b = belief_of(q, t, fits)
    write_line(q, t, k, fits, x)
    mean = dot(b.mean, x, 0, b.size)
    solve_lower(b, x)
    own = 0.0
    if q.residual[t] > 0.0:
        mean += b.residual[k]
        own = b.variance[k]
    return Logit(mean, dot(x, x, 0, b.size) + own, own)


@inlined
def bridge(logit: Logit, alpha: Floats) -> None:
    """Pseudo-counts in the place of a normal logit (the Laplace bridge): log(a / b) and ab / (a + b) are kept."""
    mean = bounded(logit.mean, BRIDGED_LOGIT)
    odds = np.exp(mean)
    alpha[1] = min(max((1.0 + odds) / logit.variance, LEAST_COUNT), MOST_COUNT)
    alpha[0] = min(max((1.0 + 1.0 / odds) / logit.variance, LEAST_COUNT), MOST_COUNT)


@kernel(types.void(INTS, FLOATS, FLOATS, FLOATS))
def bridge_rows(program: Ints, numbers: Floats, fits: Floats, alpha: Floats) -> None:
    """Put the pseudo-counts of all rows of logistic tables in place, for the present request."""
    _, _, _, q = unpack(program, numbers)
    most = q.most_coefficients
    scratch = np.empty(most + 2 * most * most)
    combined, halves = pointer(scratch, 0), pointer(scratch, most)
    covariance = pointer(halves, most * most)
    for t in range(q.number):
        b, columns, width = belief_of(q, t, pointer(fits, 0)), q.columns[t], q.width[t]
        request = pointer(fits, q.request[t])
        combine(q, t, b.mean, pointer(fits, 0), combined)
        for i in range(columns):  # what is combined, once for all rows
            half = pointer(halves, i * b.size)
            for j in range(b.size):
                half[j] = 0.0
            half[i] = 1.0
            for j in range(width):
                if i == 0:
                    half[columns + j] = request[j]
                elif q.products[t]:
                    half[columns + i * width + j] = request[j]
            solve_lower(b, half)
            for j in range(i + 1):
                covariance[i * columns + j] = dot(half, pointer(halves, j * b.size), 0, b.size)
                covariance[j * columns + i] = covariance[i * columns + j]
        for k in range(q.rows[t]):
            if q.fixed[q.row_start[t] + k]:
                continue
            line = pointer(q.design, q.line[t] + k * columns)
            mean, variance, own = dot(combined, line, 0, columns), 0.0, 0.0
            for i in range(columns):
                variance += line[i] * dot(pointer(covariance, i * columns), line, 0, columns)
            if q.residual[t] > 0.0:
                mean += b.residual[k]
                own = b.variance[k]
            bridge(Logit(mean, variance + own, own), pointer(alpha, q.entry[t] + 2 * k))
    scratch[0] = 0.0  # holds it until here


# -- learning ----------------------------------------------------------------------------------------------------------


class Site(NamedTuple):
    """What a round says of the logit of a row: a normal density, by its natural parameters."""

    precision: float
    shift: float  # the precision times the mean


@inlined
def site_of(before: Floats, after: Floats) -> Site:
    """What turned pseudo-counts into others, as a density of the logit."""
    old, new = np.log(before[1] / before[0]), np.log(after[1] / after[0])
    old_precision = before[0] * before[1] / (before[0] + before[1])
    new_precision = after[0] * after[1] / (after[0] + after[1])
    if new_precision <= old_precision:  # a latent node made it less certain: only the mean moves
        return Site(0.0, (new - old) * old_precision)
    return Site(new_precision - old_precision, new * new_precision - old * old_precision)


@unmanaged
def multiply(
    q: Logistics, t: int, k: int, site: Site, fits: Floats, x: Floats, y: Floats, added: Floats
) -> None:  # fmt: skip
    """Multiply the belief of a table with what a round said of one row; x and y are scratch.

    `added` gets what natural parameters became larger by: the precision of coefficients, along the line of the row,
    and their shift; the precision of the residual, and its shift.
    """
    for i in range(4):
        added[i] = 0.0
    if site.precision == 0.0 and site.shift == 0.0:
        return
    b, logit = belief_of(q, t, fits), logit_of(q, t, k, fits, x)
    gain = (site.shift - site.precision * logit.mean) / (1.0 + site.precision * logit.variance)
    if not abs(gain) < np.inf:
        return
    solve_upper(b, x)
    for i in range(b.size):
        b.mean[i] += gain * x[i]
    if site.precision > 0.0:
        root = np.sqrt(site.precision / (1.0 + site.precision * logit.own))
        write_line(q, t, k, fits, y)
        for i in range(b.size):
            y[i] *= root
        add_square(b, y)
    write_line(q, t, k, fits, y)
    added[0] = site.precision / (1.0 + site.precision * logit.own)
    added[1] = gain + added[0] * dot(b.mean, y, 0, b.size)
    if logit.own > 0.0:
        before = b.residual[k]
        b.residual[k] += gain * logit.own
        b.variance[k] -= logit.own * logit.own * site.precision / (1.0 + site.precision * logit.variance)
        added[2] = 1.0 / b.variance[k] - 1.0 / logit.own
        added[3] = b.residual[k] / b.variance[k] - before / logit.own


@linked
def fade_logistic(q: Logistics, fits: Floats, keep: float) -> None:
    """Keep a part of what was learned of coefficients and residuals, as that of pseudo-counts is kept.

    The likelihood of all rounds before is raised to the power `keep`: natural parameters move towards the prior's.
    """
    scratch = np.empty(2 * q.most_coefficients * (q.most_coefficients + 1))
    for t in range(q.every):
        b, first = belief_of(q, t, fits), q.first[t]
        n = b.size
        precision, shift = pointer(scratch, 0), pointer(scratch, n * n)
        for i in range(n):
            shift[i] = 0.0
            for j in range(n):
                precision[i * n + j] = 0.0
        for k in range(n):  # U'U, and U'U mean
            row = pointer(b.factor, k * n)
            along = dot(row, b.mean, k, n)
            for i in range(k, n):
                shift[i] += row[i] * along
                for j in range(i, n):
                    precision[i * n + j] += row[i] * row[j]
        for i in range(n):
            beforehand = 1.0 / (q.spread[first + i] * q.spread[first + i])
            shift[i] = keep * shift[i] + (1.0 - keep) * beforehand * q.centre[first + i]
            for j in range(i, n):
                precision[i * n + j] *= keep
            precision[i * n + i] += (1.0 - keep) * beforehand
        for i in range(n):  # the factor of the sum, row by row
            row = pointer(b.factor, i * n)
            for j in range(i, n):
                row[j] = precision[i * n + j]
            for m in range(i):
                other = pointer(b.factor, m * n)
                for j in range(i, n):
                    row[j] -= other[i] * other[j]
            root = np.sqrt(max(row[i], 1e-300))
            for j in range(i, n):
                row[j] /= root
        solve_lower(b, shift)
        solve_upper(b, shift)
        for i in range(n):
            b.mean[i] = shift[i]
        if q.residual[t] > 0.0:
            for k in range(q.total[t]):
                before = 1.0 / b.variance[k]
                b.variance[k] = 1.0 / (keep * before + (1.0 - keep) / q.residual[t])
                b.residual[k] *= keep * before * b.variance[k]
    scratch[0] = 0.0  # holds it until here
