"""Moves of whole tables: all means of one become larger, all of another smaller, so that their products hardly change.

What `moving` does for two rows, for all rows of two tables at once: if only products of their means are known, no step
that leaves the others as they are gets far. Means are multiplied, or tilted (their odds are multiplied, so that they
stay below 1). Where a table has features, its prior was learned from its rows, and would hold them back: so the
constant of its regression moves with them, as a row does whose other features are average.
"""

from typing import NamedTuple

import numpy as np

from idbandits.inference.chain import Chain, count_latent
from idbandits.inference.counting import factor_of
from idbandits.inference.factors import value_of_factor
from idbandits.inference.moving import can_be_multiplied, choose_direction
from idbandits.inference.regression import MOST_LOGIT, current_of, draw_parameters, log_gamma, row_prior, strength_of
from idbandits.inference.workspace import GIVEN, Parts, Regressions, Workspace
from idbandits.kernel.compiling import bare, merged
from idbandits.kernel.draws import below
from idbandits.kernel.fields import pointer
from idbandits.kernel.states import USED, drawable
from idbandits.kernel.types import Floats, Rng

WIDTHS = -4.6, -0.7  # the least and the largest logarithm of that by which tables move


class Rescaling(NamedTuple):
    """A move of a table: of the entry at the same place in every row."""

    table: int
    place: int  # of the entry in its row
    log_factor: float  # by which it is multiplied, or its odds
    tilts: bool  # whether it is the odds


class Steps(NamedTuple):
    """By how much the logarithms of the means of a row change."""

    own: float  # at the place that moves
    others: float
    volume: float  # the logarithm of the change in volume, less the sum of all these


@merged
def steps_of(move: Rescaling, mean: float) -> Steps:
    """What a move does to a row in which the entry that moves has this mean."""
    factor = np.exp(move.log_factor)
    if move.tilts:
        total = -np.log1p(mean * (factor - 1.0))
        return Steps(move.log_factor + total, total, 0.0)
    rest = np.log((1.0 - mean * factor) / (1.0 - mean))
    return Steps(move.log_factor, rest, -rest)


@bare
def move_tables(w: Workspace, chain: Chain, moves: int, rng: Rng) -> None:
    """So many moves of two tables. All means were drawn before, all groups are to be visited after."""
    v, groups = w.v, chain.groups
    least, largest = WIDTHS
    present = log_likelihood(w, chain)
    for _ in range(moves):
        direction = choose_direction(w, factor_of(groups, below(rng, groups.header[USED])), rng)
        log_factor = np.exp(least + (largest - least) * rng.random()) * rng.standard_normal()
        tilts = rng.random() < 0.5
        up, down = direction.up, direction.down
        if up < 0 or v.table[up] == v.table[down]:
            continue
        one = Rescaling(v.table[up], up - v.row[up], log_factor, False)
        t = regression_of(w, chain, v.table[up])
        if tilts and t >= 0:
            one = Rescaling(one.table, one.place, log_factor, True)
            share = share_of_constants(w.r, t, one.place, current_of(w.r, t, chain.fits))
            log_factor = steps_of(one, share).own
        two = Rescaling(v.table[down], down - v.row[down], -log_factor, False)
        gain = log_density_ratio(w, chain, one) + log_density_ratio(w, chain, two)
        if gain == -np.inf:
            continue
        rescale(v, chain.means, one)
        rescale(v, chain.means, two)
        proposed = log_likelihood(w, chain)
        if np.log(1.0 - rng.random()) < gain + proposed - present:
            present = proposed
            move_constants(w, chain, one)
            move_constants(w, chain, two)
        else:
            rescale(v, chain.means, Rescaling(one.table, one.place, -one.log_factor, one.tilts))
            rescale(v, chain.means, Rescaling(two.table, two.place, -two.log_factor, two.tilts))


@merged
def regression_of(w: Workspace, chain: Chain, table: int) -> int:
    """The regression of a table, if it is at hand; -1 if there is none."""
    return w.r.of_table[table] if chain.has_fits else -1


@bare
def log_density_ratio(w: Workspace, chain: Chain, move: Rescaling) -> float:
    """What a move adds to the logarithm of the density of a table, volumes included.

    With features, also to that of the regression, whose constant moves along.
    """
    v, r, total = w.v, w.r, 0.0
    factor, t = np.exp(move.log_factor), regression_of(w, chain, move.table)
    for k in range(v.table_start[move.table], v.table_start[move.table + 1]):
        row = v.table_row[k]
        if not move.tilts and not can_be_multiplied(chain.means[row + move.place], factor):
            return -np.inf
        steps = steps_of(move, chain.means[row + move.place])
        total += steps.volume
        for j in range(v.size[row]):
            total += chain.base[row + j] * (steps.own if j == move.place else steps.others)
    if t < 0:
        return total
    parameters, fresh = current_of(r, t, chain.fits), w.fresh
    share = share_of_constants(r, t, move.place, parameters)
    if not move.tilts and not can_be_multiplied(share, factor):
        return -np.inf
    average = steps_of(move, share)
    total += average.volume - log_prior_of_constants(r, t, parameters)
    shift_constants(r, t, move.place, average.own - average.others, parameters)
    total += log_prior_of_constants(r, t, parameters)
    strength = strength_of(r, t, parameters)
    for k in range(r.start[t], r.start[t + 1]):
        old, means = pointer(chain.prior, r.row[k]), pointer(chain.means, r.row[k])
        row_prior(r, t, k, parameters, strength, fresh)
        before, after, steps = 0.0, 0.0, steps_of(move, means[move.place])
        for j in range(r.states[t]):
            step = steps.own if j == move.place else steps.others
            total += (fresh[j] - old[j]) * (np.log(means[j]) + step)
            total += log_gamma(old[j]).value - log_gamma(fresh[j]).value
            before += old[j]
            after += fresh[j]
        total += log_gamma(after).value - log_gamma(before).value
    shift_constants(r, t, move.place, average.others - average.own, parameters)
    return total


@merged
def share_of_constants(r: Regressions, t: int, place: int, parameters: Floats) -> float:
    """The mean of one state in a row whose other features are average."""
    columns, total, own = r.columns[t], 1.0, 1.0
    for j in range(1, r.states[t]):
        weight = np.exp(min(parameters[(j - 1) * columns], MOST_LOGIT))
        total += weight
        if j == place:
            own = weight
    return own / total


@merged
def shift_constants(r: Regressions, t: int, place: int, by: float, parameters: Floats) -> None:
    """Add to the logit of one state against all others: logits are differences to the first."""
    for j in range(1, r.states[t]):
        if place == 0:
            parameters[(j - 1) * r.columns[t]] -= by
        elif place == j:
            parameters[(j - 1) * r.columns[t]] += by


@merged
def log_prior_of_constants(r: Regressions, t: int, parameters: Floats) -> float:
    """The logarithm of the density of a regression's constants beforehand, up to a term."""
    total = 0.0
    for j in range(r.states[t] - 1):
        i = j * r.columns[t]
        off = (parameters[i] - r.centre[r.first[t] + i]) / r.spread[r.first[t] + i]
        total -= 0.5 * off * off
    return total


@bare
def move_constants(w: Workspace, chain: Chain, move: Rescaling) -> None:
    """Move the constant of a table's regression, if it has one, and all priors with it."""
    t = regression_of(w, chain, move.table)
    if t >= 0:
        parameters = current_of(w.r, t, chain.fits)
        average = steps_of(move, share_of_constants(w.r, t, move.place, parameters))
        shift_constants(w.r, t, move.place, average.own - average.others, parameters)
        put_current_priors(w, chain, t)


@bare
def draw_priors(w: Workspace, chain: Chain, rng: Rng) -> None:
    """Priors by parameters of all regressions that are drawn anew."""
    for t in range(w.r.number):
        draw_parameters(w.r, t, chain.fits, 1.0, rng, current_of(w.r, t, chain.fits))
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
def rescale(v: Parts, means: Floats, move: Rescaling) -> None:
    """Move all rows of a table."""
    for k in range(v.table_start[move.table], v.table_start[move.table + 1]):
        row = v.table_row[k]
        steps = steps_of(move, means[row + move.place])
        own, others = np.exp(steps.own), np.exp(steps.others)
        for j in range(v.size[row]):
            means[row + j] *= own if j == move.place else others


@bare
def log_likelihood(w: Workspace, chain: Chain) -> float:
    """The logarithm of the likelihood of all groups, latent nodes summed out."""
    groups, means, total = chain.groups, chain.means, 0.0
    for g in range(groups.header[USED]):
        if groups.counts[g] > 0:
            total += groups.counts[g] * np.log(value_of_factor(w, factor_of(groups, g), GIVEN, means, means))
    return total
