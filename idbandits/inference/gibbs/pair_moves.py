"""Moves of pairs of means along directions in which the likelihood hardly changes.

If only the product of two means is known, each is uncertain, but nearly fixed given the other: a chain that draws one
after the other takes tiny steps. A move multiplies one mean and divides the other by the same factor, and is accepted
by the ratio of the posterior densities, with latent nodes summed out (Metropolis and Hastings).
"""

from typing import NamedTuple

import numpy as np

from idbandits.inference.gibbs.chain import Chain, draw_row_once, prepare, visit
from idbandits.inference.rounds.counting import factor_of
from idbandits.inference.rounds.factors import add_counts, expect, list_entries, unmark, value_of_factor
from idbandits.inference.rounds.workspace import GENERIC, GIVEN, Parts, Workspace
from idbandits.inference.state.state import USED
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import below

WIDTH = 0.3  # standard deviation of the logarithm by which a pair moves
MAX_LINKS = 256  # groups that the rows of a pair may be in
LINKS_OF_MOVES = 400  # groups that consecutive moves may read, with up to MANY_GROUPS in all; else fewer
FEWEST_LINKS, MANY_GROUPS = 32, 500
EDGE = 1e-12  # distance of means from 1, at least


class Direction(NamedTuple):
    """Two entries: one is multiplied and the other divided by the same factor; -1 if there are none."""

    up: int
    down: int


@unmanaged
def choose_direction(w: Workspace, factor: Ints, rng: Rng) -> Direction:
    """Choose two rows that meet in a factor, and the entries of them whose product the factor depends on, if any.

    The choice depends on generic means, not on those of the chain, so it is equally likely before and after a move.
    """
    v = w.v
    number = list_entries(w, factor, 0, True)
    unmark(w, number)
    if number < 2:
        return Direction(-1, -1)
    for r in range(number):
        for e in range(w.rows[r], w.rows[r] + v.size[w.rows[r]]):
            w.other[e] = 0.0
    expect(w, factor, GENERIC, v.generic, v.generic)
    add_counts(w, factor, 1.0, w.other)
    a = below(rng, number)
    b = below(rng, number - 1)
    b += b >= a
    one, two = w.rows[a], w.rows[b]
    best, least = Direction(-1, -1), np.inf
    uses_of_one, uses_of_two = uses_of_row(w, one), uses_of_row(w, two)
    for i in range(one, one + v.size[one]):
        rise = slope(w, i, uses_of_one)
        for k in range(two, two + v.size[two]):
            fall = slope(w, k, uses_of_two)
            size = abs(rise) + abs(fall)
            if size > 1e-12 and abs(rise - fall) / size < least:
                best, least = Direction(i, k), abs(rise - fall) / size
    return best


@inlined
def uses_of_row(w: Workspace, row: int) -> float:
    """Return the expected uses of all entries of a row, which are in `other`."""
    uses = 0.0
    for i in range(row, row + w.v.size[row]):
        uses += w.other[i]
    return uses


@inlined
def slope(w: Workspace, e: int, uses: float) -> float:
    """Return the derivative of the log of a factor by the log of an entry, by `other`; its row stays normalised."""
    p = w.v.generic[e]
    return w.other[e] - p / (1.0 - p) * (uses - w.other[e])


@inlined
def log_density_ratio(v: Parts, chain: Chain, e: int, log_factor: float) -> float:
    """Return the change of the log-density of a row under certain counts by multiplying an entry, with volumes."""
    p = chain.means[e]
    others = 0.0
    for i in range(v.row[e], v.row[e] + v.size[e]):
        if i != e:
            others += chain.base[i]
    return chain.base[e] * log_factor + (others - 1.0) * np.log((1.0 - p * np.exp(log_factor)) / (1.0 - p))


@inlined
def can_be_multiplied(mean: float, factor: float) -> bool:
    """Return whether a mean stays below 1 if it is multiplied."""
    return bool(mean <= 1.0 - EDGE and mean * factor <= 1.0 - EDGE)


@inlined
def multiply(v: Parts, means: Floats, e: int, factor: float) -> None:
    """Multiply a mean; scale the others of its row."""
    rest = (1.0 - means[e] * factor) / (1.0 - means[e])
    for i in range(v.row[e], v.row[e] + v.size[e]):
        means[i] *= factor if i == e else rest


@unmanaged
def log_likelihood_of_row(w: Workspace, chain: Chain, row: int, but: int, rng: Rng) -> float:
    """Return the log-likelihood of all groups that read a row, except those that read the row `but`."""
    groups = chain.groups
    total = 0.0
    at = groups.heads[row]
    while at >= 0:
        g = groups.owner[at]
        factor = factor_of(groups, g)
        if groups.counts[g] > 0 and not prepare(w.v, chain, factor, but, rng):
            total += groups.counts[g] * np.log(value_of_factor(w, factor, GIVEN, chain.means, chain.means))
        at = groups.after[at]
    return total


@unmanaged
def move_pairs(w: Workspace, chain: Chain, moves: int, rng: Rng) -> None:
    """Move up to `moves` pairs of means; fewer if they are in many groups, so that the work is bounded.

    The more groups there are, the less a pair matters and the longer it takes to read its groups: then the last move
    is made with the probability by which its expected work is what is left of the budget.
    """
    groups = chain.groups.header[USED]
    is_small = groups <= MANY_GROUPS
    budget = LINKS_OF_MOVES if is_small else max(FEWEST_LINKS, LINKS_OF_MOVES * MANY_GROUPS // groups)
    for _ in range(moves):
        budget -= move_pair(w, chain, MAX_LINKS if is_small else budget, rng)
        if budget < 0:
            return


@unmanaged
def move_pair(w: Workspace, chain: Chain, budget: int, rng: Rng) -> int:
    """Propose to multiply a mean and to divide another by the same number; if accepted, draw what depends on them.

    The two meet in any current group or, half of the time, in one of the round that was just counted. A move that
    reads more groups than `budget` is made with a probability of `budget` divided by their number, which does not
    depend on the means. Returns the number of groups.
    """
    v, groups, means = w.v, chain.groups, chain.means
    g = chain.current[below(rng, chain.currents)] if chain.currents > 0 else below(rng, groups.header[USED])
    if w.places[0] > 0 and rng.random() < 0.5:
        g = w.groups[below(rng, w.places[0])]  # one of the round that was just counted
    direction = choose_direction(w, factor_of(groups, g), rng)
    log_factor = WIDTH * rng.standard_normal()
    if direction.up < 0:
        return 0
    up, down = direction.up, direction.down
    one, two = v.row[up], v.row[down]
    links = groups.heads[v.learned + one] + groups.heads[v.learned + two]
    if links > MAX_LINKS:
        return 0
    if links > budget and rng.random() * links >= budget:
        return links
    draw_row_once(v, chain, one, rng)
    draw_row_once(v, chain, two, rng)
    factor = np.exp(log_factor)
    if not (can_be_multiplied(means[up], factor) and can_be_multiplied(means[down], 1.0 / factor)):
        return links
    gain = log_density_ratio(v, chain, up, log_factor) + log_density_ratio(v, chain, down, -log_factor)
    gain -= log_likelihood_of_row(w, chain, one, -1, rng) + log_likelihood_of_row(w, chain, two, one, rng)
    multiply(v, means, up, factor)
    multiply(v, means, down, 1.0 / factor)
    gain += log_likelihood_of_row(w, chain, one, -1, rng) + log_likelihood_of_row(w, chain, two, one, rng)
    if np.log(1.0 - rng.random()) < gain:
        for row in (one, two):
            at = groups.heads[row]
            while at >= 0:
                visit(w, chain, groups.owner[at], rng)
                at = groups.after[at]
    else:
        multiply(v, means, up, 1.0 / factor)
        multiply(v, means, down, factor)
    return links
