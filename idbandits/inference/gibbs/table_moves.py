"""Moves of tables: all means of one table grow and all of another shrink, so that their products hardly change.

`pair_moves` moves two rows; if only products of means of two tables are known, moves of single rows do not get far.
Means are multiplied, or tilted: their odds are multiplied, so that they stay below 1, since some mean of a large table
is close to 1. A table with features has a prior learned from its rows, which would hold them back: the constant of its
regression moves with them, like a row with average features. Rows in no group move only if they have features.
"""

from typing import NamedTuple

import numpy as np

from idbandits.inference.gibbs.chain import Chain, count_latent
from idbandits.inference.gibbs.pair_moves import can_be_multiplied, choose_direction
from idbandits.inference.regression.density import MAX_LOGIT, TableRegression, regression_at, row_prior, strength_of
from idbandits.inference.rounds.counting import factor_of
from idbandits.inference.rounds.factors import value_of_factor
from idbandits.inference.rounds.workspace import GIVEN, Parts, Workspace
from idbandits.inference.state.state import USED, drawable
from idbandits.kernel.array_types import Floats, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import below
from idbandits.kernel.special import log_gamma
from idbandits.kernel.structs import pointer

LOG_WIDTHS = -4.6, -0.7  # range of the log of the width of moves that do not adapt
LOG_WIDTH, TRIED = range(2)  # of the tuning of a chain
FIRST_WIDTH = -3.0  # the logarithm
ACCEPTED = 0.35  # target of tuning: part of moves that are accepted
JITTER = 1.0  # on the logarithm of the width
MIN_RESPONSE = 0.4  # of a table to the tilt of another, relative to small means


class Rescaling(NamedTuple):
    """A move of a table: of the entry at one place in every row."""

    table: int
    place: int  # of the entry in its row
    log_factor: float  # on the mean, or on its odds
    tilts: bool  # whether odds are multiplied


class Steps(NamedTuple):
    """Changes of the logarithms of the means of a row."""

    own: float  # at the place that moves
    others: float
    volume: float  # the logarithm of the change in volume, minus the sum of all changes


@inlined
def steps_of(move: Rescaling, mean: float) -> Steps:
    """Return the changes in a row in which the entry that moves has this mean."""
    factor = np.exp(move.log_factor)
    if move.tilts:
        total = -np.log1p(mean * (factor - 1.0))
        return Steps(move.log_factor + total, total, 0.0)
    rest = np.log((1.0 - mean * factor) / (1.0 - mean))
    return Steps(move.log_factor, rest, -rest)


@unmanaged
def move_tables(w: Workspace, chain: Chain, moves: int, rng: Rng) -> None:
    """Move two tables, several times. All means were drawn before; all groups have to be visited afterwards."""
    v, groups = w.v, chain.groups
    present = log_likelihood(w, chain)
    for _ in range(moves):
        direction = choose_direction(w, factor_of(groups, below(rng, groups.header[USED])), rng)
        up, down = direction.up, direction.down
        kind, deviate, jitter, response = below(rng, 4), rng.standard_normal(), rng.random(), rng.random()
        if up < 0 or v.table[up] == v.table[down]:
            continue
        adapts = kind >= 2
        log_factor = deviate * width_of(chain, adapts, jitter)
        one = Rescaling(v.table[up], up - v.row[up], log_factor, False)
        two = Rescaling(v.table[down], down - v.row[down], -log_factor, False)
        if kind > 0:
            if (rows_of(v, two.table) > rows_of(v, one.table)) == adapts:
                one, two = two, one
            one = Rescaling(one.table, one.place, one.log_factor, True)
            t, answer = regression_of(w, chain, one.table), one.log_factor
            if t >= 0:
                g = regression_at(w.r, t, chain.fits)
                answer = steps_of(one, share_of_constants(g, one.place)).own
            else:  # independent of the means: equal in a move and in its reverse
                answer *= MIN_RESPONSE + (1.0 - MIN_RESPONSE) * response
            two = Rescaling(two.table, two.place, -answer, False)
        gain, accepted = log_density_ratio(w, chain, one) + log_density_ratio(w, chain, two), False
        if gain > -np.inf:
            for move in (one, two):
                copy_table(v, move.table, chain.means, w.before)
            for move in (one, two):
                rescale(w, chain, move)
            proposed = log_likelihood(w, chain)
            accepted = np.log(1.0 - rng.random()) < gain + proposed - present
            for move in (one, two):
                if accepted:
                    move_constants(w, chain, move)
                else:
                    copy_table(v, move.table, w.before, chain.means)
            if accepted:
                present = proposed
        if adapts:  # less and less (Robbins and Monro, 1951)
            chain.tuning[TRIED] += 1.0
            rate = 3.0 / (10.0 + chain.tuning[TRIED]) ** 0.7
            chain.tuning[LOG_WIDTH] += rate * ((1.0 if accepted else 0.0) - ACCEPTED)


@inlined
def rows_of(v: Parts, table: int) -> int:
    """Return how many rows of a table can move."""
    return v.table_start[table + 1] - v.table_start[table]


@inlined
def width_of(chain: Chain, adapts: bool, jitter: float) -> float:
    """Return the standard deviation of the logarithm by which tables move: the adapted one, or any."""
    least, largest = LOG_WIDTHS
    if adapts:
        return np.exp(chain.tuning[LOG_WIDTH] + JITTER * (2.0 * jitter - 1.0))
    return np.exp(least + (largest - least) * jitter)


@inlined
def moves_with_table(w: Workspace, chain: Chain, row: int) -> bool:
    """Return whether a row moves with its table: it is in a group, or has a regression that moves as well."""
    return bool(chain.groups.heads[w.v.learned + row] > 0 or regression_of(w, chain, w.v.table[row]) >= 0)


@inlined
def regression_of(w: Workspace, chain: Chain, table: int) -> int:
    """Return the number of the regression of a table; -1 if there is none, or if the chain has no fits."""
    return w.r.of_table[table] if chain.has_fits else -1


@unmanaged
def log_density_ratio(w: Workspace, chain: Chain, move: Rescaling) -> float:
    """Return the change of the log-density of a table by a move, volumes included; that of its regression, too.

    It is minus infinity if a mean would reach 1.
    """
    v, total = w.v, 0.0
    factor, t = np.exp(move.log_factor), regression_of(w, chain, move.table)
    for k in range(v.table_start[move.table], v.table_start[move.table + 1]):
        row = v.table_row[k]
        if not moves_with_table(w, chain, row):
            continue
        if not move.tilts and not can_be_multiplied(chain.means[row + move.place], factor):
            return -np.inf
        steps = steps_of(move, chain.means[row + move.place])
        of_row = steps.volume
        for j in range(v.size[row]):
            of_row += chain.base[row + j] * (steps.own if j == move.place else steps.others)
        total += of_row
    if t < 0:
        return total
    g, fresh = regression_at(w.r, t, chain.fits), w.fresh
    share = share_of_constants(g, move.place)
    if not move.tilts and not can_be_multiplied(share, factor):
        return -np.inf
    average = steps_of(move, share)
    total += average.volume - log_prior_of_constants(g)
    shift_constants(g, move.place, average.own - average.others)
    total += log_prior_of_constants(g)
    strength = strength_of(g, g.current)
    for k in range(g.rows):
        old, means = pointer(chain.prior, g.row[k]), pointer(chain.means, g.row[k])
        row_prior(g, k, g.current, strength, fresh)
        before, after, steps = 0.0, 0.0, steps_of(move, means[move.place])
        for j in range(g.states):
            step = steps.own if j == move.place else steps.others
            total += (fresh[j] - old[j]) * (np.log(means[j]) + step)
            total += log_gamma(old[j]).value - log_gamma(fresh[j]).value
            before += old[j]
            after += fresh[j]
        total += log_gamma(after).value - log_gamma(before).value
    shift_constants(g, move.place, average.others - average.own)
    return total


@inlined
def share_of_constants(g: TableRegression, place: int) -> float:
    """Return the mean of one state in a row whose other features are average."""
    total, own = 1.0, 1.0
    for j in range(1, g.states):
        weight = np.exp(min(g.current[(j - 1) * g.columns], MAX_LOGIT))
        total += weight
        if j == place:
            own = weight
    return own / total


@inlined
def shift_constants(g: TableRegression, place: int, by: float) -> None:
    """Add to the logit of one state against all others: logits are differences to the first."""
    for j in range(1, g.states):
        if place == 0:
            g.current[(j - 1) * g.columns] -= by
        elif place == j:
            g.current[(j - 1) * g.columns] += by


@inlined
def log_prior_of_constants(g: TableRegression) -> float:
    """Return the prior log-density of the constants of a regression, up to a constant."""
    total = 0.0
    for i in range(0, g.size - 1, g.columns):
        off = (g.current[i] - g.centre[i]) / g.spread[i]
        total -= 0.5 * off * off
    return total


@unmanaged
def move_constants(w: Workspace, chain: Chain, move: Rescaling) -> None:
    """Move the constant of a table's regression, if it has one, and all priors with it."""
    t = regression_of(w, chain, move.table)
    if t >= 0:
        g = regression_at(w.r, t, chain.fits)
        average = steps_of(move, share_of_constants(g, move.place))
        shift_constants(g, move.place, average.own - average.others)
        put_current_priors(w, chain, g)


@unmanaged
def put_current_priors(w: Workspace, chain: Chain, g: TableRegression) -> None:
    """Replace priors by those of the current parameters of a regression, and shift the pseudo-counts of the chain."""
    strength = strength_of(g, g.current)
    for k in range(g.rows):
        row_prior(g, k, g.current, strength, w.fresh)
        for j in range(g.states):
            i = g.row[k] + j
            more = w.fresh[j] - chain.prior[i]
            chain.prior[i] = w.fresh[j]
            chain.base[i] = drawable(chain.base[i] + more)
            chain.average[i] = drawable(chain.average[i] + more)
            count_latent(chain, i, 0.0)


@unmanaged
def copy_table(v: Parts, table: int, source: Floats, target: Floats) -> None:
    """Copy the means of a table."""
    for k in range(v.table_start[table], v.table_start[table + 1]):
        for e in range(v.table_row[k], v.table_row[k] + v.size[v.table_row[k]]):
            target[e] = source[e]


@unmanaged
def rescale(w: Workspace, chain: Chain, move: Rescaling) -> None:
    """Move the rows of a table."""
    v, means = w.v, chain.means
    for k in range(v.table_start[move.table], v.table_start[move.table + 1]):
        row = v.table_row[k]
        if moves_with_table(w, chain, row):
            steps = steps_of(move, means[row + move.place])
            own, others = np.exp(steps.own), np.exp(steps.others)
            for j in range(v.size[row]):
                means[row + j] *= own if j == move.place else others


@unmanaged
def log_likelihood(w: Workspace, chain: Chain) -> float:
    """Return the log-likelihood of all groups, latent nodes summed out."""
    groups, means, total = chain.groups, chain.means, 0.0
    for g in range(groups.header[USED]):
        if groups.counts[g] > 0:
            total += groups.counts[g] * np.log(value_of_factor(w, factor_of(groups, g), GIVEN, means, means))
    return total
