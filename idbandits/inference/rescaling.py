"""Moves of whole tables: all means of one are multiplied, all of another divided by the same number.

What `moving` does for two rows, for all rows of two tables at once. If only products of their means are known, no step
that leaves the others as they are gets far. Where a table has features, its prior was learned from its rows, and would
hold them back: so the constant of its regression moves with them.
"""

import numpy as np

from idbandits.inference.chain import Chain, count_latent
from idbandits.inference.counting import factor_of
from idbandits.inference.factors import value_of_factor
from idbandits.inference.moving import can_be_multiplied, choose_direction, log_density_ratio, multiply
from idbandits.inference.regression import current_of, draw_parameters, log_gamma, row_prior, strength_of
from idbandits.inference.workspace import GIVEN, Parts, Regressions, Workspace
from idbandits.kernel.compiling import bare, merged
from idbandits.kernel.draws import below
from idbandits.kernel.fields import pointer
from idbandits.kernel.states import USED, drawable
from idbandits.kernel.types import Floats, Rng

WIDTHS = -4.6, -0.7  # the least and the largest logarithm of that by which tables move


@bare
def move_tables(w: Workspace, chain: Chain, moves: int, rng: Rng) -> None:
    """So many moves of two tables. All means were drawn before, all groups are to be visited after."""
    v, groups, means = w.v, chain.groups, chain.means
    least, largest = WIDTHS
    present = log_likelihood(w, chain)
    for _ in range(moves):
        direction = choose_direction(w, factor_of(groups, below(rng, groups.header[USED])), rng)
        log_factor = np.exp(least + (largest - least) * rng.random()) * rng.standard_normal()
        up, down = direction.up, direction.down
        if up < 0 or v.table[up] == v.table[down]:
            continue
        gain = log_density_ratio_of_table(w, chain, up, log_factor)
        gain += log_density_ratio_of_table(w, chain, down, -log_factor)
        if gain == -np.inf:
            continue
        multiply_table(v, means, up, np.exp(log_factor))
        multiply_table(v, means, down, np.exp(-log_factor))
        proposed = log_likelihood(w, chain)
        if np.log(1.0 - rng.random()) < gain + proposed - present:
            present = proposed
            shift_constant(w, chain, up, log_factor)
            shift_constant(w, chain, down, -log_factor)
        else:
            multiply_table(v, means, up, np.exp(-log_factor))
            multiply_table(v, means, down, np.exp(log_factor))


@bare
def log_density_ratio_of_table(w: Workspace, chain: Chain, e: int, log_factor: float) -> float:
    """What multiplying the entry at one place in every row adds to the logarithm of the density of a table.

    With features, also that of the regression, whose constant moves along.
    """
    v, r, total, factor, table = w.v, w.r, 0.0, np.exp(log_factor), w.v.table[e]
    for k in range(v.table_start[table], v.table_start[table + 1]):
        i = v.table_row[k] + e - v.row[e]
        if not can_be_multiplied(chain.means[i], factor):
            return -np.inf
        total += log_density_ratio(v, chain, i, log_factor)
    t = r.of_table[table]
    if t < 0 or not chain.has_fits:
        return total
    parameters, states, place = current_of(r, t, chain.fits), r.states[t], e - v.row[e]
    total -= log_prior_of_constants(r, t, parameters)
    move_constants(r, t, place, log_factor, parameters)
    total += log_prior_of_constants(r, t, parameters)
    strength, fresh = strength_of(r, t, parameters), w.fresh
    for k in range(r.start[t], r.start[t + 1]):
        old, means = pointer(chain.prior, r.row[k]), pointer(chain.means, r.row[k])
        row_prior(r, t, k, parameters, strength, fresh)
        before, after = 0.0, 0.0
        rest = np.log((1.0 - means[place] * factor) / (1.0 - means[place]))
        for j in range(states):
            more = fresh[j] - old[j]
            total += more * (np.log(means[j]) + (log_factor if j == place else rest))
            total += log_gamma(old[j]).value - log_gamma(fresh[j]).value
            before += old[j]
            after += fresh[j]
        total += log_gamma(after).value - log_gamma(before).value
    move_constants(r, t, place, -log_factor, parameters)
    return total


@merged
def move_constants(r: Regressions, t: int, place: int, by: float, parameters: Floats) -> None:
    """Add to the logit of one state, which is a difference to the first."""
    columns = r.columns[t]
    for j in range(1, r.states[t]):
        if place == 0:
            parameters[(j - 1) * columns] -= by
        elif place == j:
            parameters[(j - 1) * columns] += by


@merged
def log_prior_of_constants(r: Regressions, t: int, parameters: Floats) -> float:
    """The logarithm of the density of a regression's constants beforehand, up to a term."""
    columns, total = r.columns[t], 0.0
    for j in range(r.states[t] - 1):
        i = r.first[t] + j * columns
        off = (parameters[j * columns] - r.centre[i]) / r.spread[i]
        total -= 0.5 * off * off
    return total


@bare
def shift_constant(w: Workspace, chain: Chain, e: int, log_factor: float) -> None:
    """Move the constant of a table's regression, if it has one, and all priors with it."""
    v, r, t = w.v, w.r, w.r.of_table[w.v.table[e]]
    if t < 0 or not chain.has_fits:
        return
    move_constants(r, t, e - v.row[e], log_factor, current_of(r, t, chain.fits))
    put_current_priors(w, chain, t)


@bare
def draw_priors(w: Workspace, chain: Chain, rng: Rng) -> None:
    """Priors by parameters of all regressions that are drawn anew."""
    for t in range(w.r.number):
        draw_parameters(w.r, t, chain.fits, rng, current_of(w.r, t, chain.fits))
        put_current_priors(w, chain, t)


@bare
def put_current_priors(w: Workspace, chain: Chain, t: int) -> None:
    """Priors by the present parameters of a regression; all pseudo-counts of a chain are shifted with them."""
    r, parameters, fresh = w.r, current_of(w.r, t, chain.fits), w.fresh
    strength = strength_of(r, t, parameters)
    for k in range(r.start[t], r.start[t + 1]):
        row_prior(r, t, k, parameters, strength, fresh)
        for j in range(r.states[t]):
            i = r.row[k] + j
            more = fresh[j] - chain.prior[i]
            chain.prior[i] = fresh[j]
            chain.base[i] = drawable(chain.base[i] + more)
            chain.average[i] = drawable(chain.average[i] + more)
            count_latent(chain, i, 0.0)


@bare
def multiply_table(v: Parts, means: Floats, e: int, factor: float) -> None:
    """Multiply the entry at the same place in every row of a table."""
    table = v.table[e]
    for r in range(v.table_start[table], v.table_start[table + 1]):
        multiply(v, means, v.table_row[r] + e - v.row[e], factor)


@bare
def log_likelihood(w: Workspace, chain: Chain) -> float:
    """The logarithm of the likelihood of all groups, latent nodes summed out."""
    groups, means, total = chain.groups, chain.means, 0.0
    for g in range(groups.header[USED]):
        if groups.counts[g] > 0:
            total += groups.counts[g] * np.log(value_of_factor(w, factor_of(groups, g), GIVEN, means, means))
    return total
