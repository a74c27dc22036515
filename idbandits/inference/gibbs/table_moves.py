"""Moves of whole tables: all means of one become larger, all of another smaller, so that their products hardly change.

What `moving` does for two rows, for all rows of two tables at once: if only products of their means are known, no step
that leaves the others as they are gets far. Means are multiplied, or tilted (their odds are multiplied, so that they
stay below 1: in a table of many rows, one is so close to 1 that hardly any number can multiply all). Where a table has
features, its prior was learned from its rows, and would hold them back: so the constant of its regression moves with
them, as a row does whose other features are average. Rows that are in no group do not move, unless they have features.
"""

from typing import NamedTuple

import numpy as np

from idbandits.inference.gibbs.chain import Chain, count_latent
from idbandits.inference.gibbs.pair_moves import can_be_multiplied, choose_direction
from idbandits.inference.regression.density import MOST_LOGIT, current_of, row_prior, strength_of
from idbandits.inference.rounds.counting import factor_of
from idbandits.inference.rounds.factors import value_of_factor
from idbandits.inference.rounds.workspace import GIVEN, Parts, Regressions, Workspace
from idbandits.inference.state.state import USED, drawable
from idbandits.kernel.array_types import Floats, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import below
from idbandits.kernel.special import log_gamma
from idbandits.kernel.structs import pointer

WIDTHS = -4.6, -0.7  # the least and the largest logarithm of that by which tables move
LOG_WIDTH, TRIED = range(2)  # of the tuning of a chain
FIRST_WIDTH = -3.0  # the logarithm
ACCEPTED = 0.35  # the part of moves that are accepted, by tuning
JITTER = 1.0  # on the logarithm of the width
LEAST_RESPONSE = 0.4  # of a table to the tilt of another: how far it is divided where small means are multiplied by 1


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


@inlined
def steps_of(move: Rescaling, mean: float) -> Steps:
    """What a move does to a row in which the entry that moves has this mean."""
    factor = np.exp(move.log_factor)
    if move.tilts:
        total = -np.log1p(mean * (factor - 1.0))
        return Steps(move.log_factor + total, total, 0.0)
    rest = np.log((1.0 - mean * factor) / (1.0 - mean))
    return Steps(move.log_factor, rest, -rest)


@unmanaged
def move_tables(w: Workspace, chain: Chain, moves: int, rng: Rng) -> None:
    """So many moves of two tables. All means were drawn before, all groups are to be visited after."""
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
                answer = steps_of(one, share_of_constants(w.r, t, one.place, current_of(w.r, t, chain.fits))).own
            else:  # whatever the means are: so it is alike in a move and in its reverse
                answer *= LEAST_RESPONSE + (1.0 - LEAST_RESPONSE) * response
            two = Rescaling(two.table, two.place, -answer, False)
        gain = log_density_ratio(w, chain, one) + log_density_ratio(w, chain, two)
        if gain == -np.inf:
            adapt(chain, adapts, False)
            continue
        copy_table(w, one.table, chain.means, w.before)
        copy_table(w, two.table, chain.means, w.before)
        rescale(w, chain, one)
        rescale(w, chain, two)
        proposed = log_likelihood(w, chain)
        accepted = np.log(1.0 - rng.random()) < gain + proposed - present
        adapt(chain, adapts, accepted)
        if accepted:
            present = proposed
            move_constants(w, chain, one)
            move_constants(w, chain, two)
        else:
            copy_table(w, one.table, w.before, chain.means)
            copy_table(w, two.table, w.before, chain.means)


@inlined
def rows_of(v: Parts, table: int) -> int:
    """How many rows of a table can move."""
    return v.table_start[table + 1] - v.table_start[table]


@inlined
def width_of(chain: Chain, adapts: bool, jitter: float) -> float:
    """The standard deviation of the logarithm by which tables move: the adapted one, or any."""
    least, largest = WIDTHS
    if adapts:
        return np.exp(chain.tuning[LOG_WIDTH] + JITTER * (2.0 * jitter - 1.0))
    return np.exp(least + (largest - least) * jitter)


@inlined
def adapt(chain: Chain, adapts: bool, accepted: bool) -> None:
    """Adapt the width of moves, less and less, so that a part of them are accepted (Robbins and Monro, 1951)."""
    if adapts:
        chain.tuning[TRIED] += 1.0
        gain = 3.0 / (10.0 + chain.tuning[TRIED]) ** 0.7
        chain.tuning[LOG_WIDTH] += gain * ((1.0 if accepted else 0.0) - ACCEPTED)


@inlined
def moves_with_table(w: Workspace, chain: Chain, row: int) -> bool:
    """Whether a row moves with its table: it is in a group, or has a regression that moves as well."""
    return bool(chain.groups.heads[w.v.learned + row] > 0 or regression_of(w, chain, w.v.table[row]) >= 0)


@inlined
def regression_of(w: Workspace, chain: Chain, table: int) -> int:
    """The regression of a table, if it is at hand; -1 if there is none."""
    return w.r.of_table[table] if chain.has_fits else -1


@inlined
def log_density_ratio_of_row(w: Workspace, chain: Chain, row: int, move: Rescaling) -> float:
    """What a move adds to the logarithm of the density of a row under certain counts, volumes included."""
    steps = steps_of(move, chain.means[row + move.place])
    total = steps.volume
    for j in range(w.v.size[row]):
        total += chain.base[row + j] * (steps.own if j == move.place else steps.others)
    return total


@inlined
def multiply_row(v: Parts, means: Floats, row: int, place: int, steps: Steps) -> None:
    """Change the means of a row."""
    own, others = np.exp(steps.own), np.exp(steps.others)
    for j in range(v.size[row]):
        means[row + j] *= own if j == place else others


@unmanaged
def log_density_ratio(w: Workspace, chain: Chain, move: Rescaling) -> float:
    """What a move adds to the logarithm of the density of a table, volumes included.

    With features, also to that of the regression, whose constant moves along.
    """
    v, r, total = w.v, w.r, 0.0
    factor, t = np.exp(move.log_factor), regression_of(w, chain, move.table)
    for k in range(v.table_start[move.table], v.table_start[move.table + 1]):
        row = v.table_row[k]
        if not moves_with_table(w, chain, row):
            continue
        if not move.tilts and not can_be_multiplied(chain.means[row + move.place], factor):
            return -np.inf
        total += log_density_ratio_of_row(w, chain, row, move)
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


@inlined
def share_of_constants(r: Regressions, t: int, place: int, parameters: Floats) -> float:
    """The mean of one state in a row whose other features are average."""
    columns, total, own = r.columns[t], 1.0, 1.0
    for j in range(1, r.states[t]):
        weight = np.exp(min(parameters[(j - 1) * columns], MOST_LOGIT))
        total += weight
        if j == place:
            own = weight
    return own / total


@inlined
def shift_constants(r: Regressions, t: int, place: int, by: float, parameters: Floats) -> None:
    """Add to the logit of one state against all others: logits are differences to the first."""
    for j in range(1, r.states[t]):
        if place == 0:
            parameters[(j - 1) * r.columns[t]] -= by
        elif place == j:
            parameters[(j - 1) * r.columns[t]] += by


@inlined
def log_prior_of_constants(r: Regressions, t: int, parameters: Floats) -> float:
    """The logarithm of the density of a regression's constants beforehand, up to a term."""
    total = 0.0
    for j in range(r.states[t] - 1):
        i = j * r.columns[t]
        off = (parameters[i] - r.centre[r.first[t] + i]) / r.spread[r.first[t] + i]
        total -= 0.5 * off * off
    return total


@unmanaged
def move_constants(w: Workspace, chain: Chain, move: Rescaling) -> None:
    """Move the constant of a table's regression, if it has one, and all priors with it."""
    t = regression_of(w, chain, move.table)
    if t >= 0:
        parameters = current_of(w.r, t, chain.fits)
        average = steps_of(move, share_of_constants(w.r, t, move.place, parameters))
        shift_constants(w.r, t, move.place, average.own - average.others, parameters)
        put_current_priors(w, chain, t)


@unmanaged
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


@unmanaged
def copy_table(w: Workspace, table: int, source: Floats, target: Floats) -> None:
    """Copy the means of a table."""
    v = w.v
    for k in range(v.table_start[table], v.table_start[table + 1]):
        for e in range(v.table_row[k], v.table_row[k] + v.size[v.table_row[k]]):
            target[e] = source[e]


@unmanaged
def rescale(w: Workspace, chain: Chain, move: Rescaling) -> None:
    """Move the rows of a table."""
    v, means = w.v, chain.means
    for k in range(v.table_start[move.table], v.table_start[move.table + 1]):
        row = v.table_row[k]
        if not moves_with_table(w, chain, row):
            continue
        multiply_row(v, means, row, move.place, steps_of(move, means[row + move.place]))


@unmanaged
def log_likelihood(w: Workspace, chain: Chain) -> float:
    """The logarithm of the likelihood of all groups, latent nodes summed out."""
    groups, means, total = chain.groups, chain.means, 0.0
    for g in range(groups.header[USED]):
        if groups.counts[g] > 0:
            total += groups.counts[g] * np.log(value_of_factor(w, factor_of(groups, g), GIVEN, means, means))
    return total
