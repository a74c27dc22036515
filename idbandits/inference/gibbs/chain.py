"""A chain of Gibbs sampling: its groups with their latent counts, and means that are drawn when they are needed."""

from typing import NamedTuple

from idbandits.inference.rounds.counting import factor_of
from idbandits.inference.rounds.factors import split, value_of_factor
from idbandits.inference.rounds.workspace import GIVEN, MEANS, Parts, Workspace
from idbandits.inference.state.state import Groups, drawable
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import LEAST, draw_beta, draw_row
from idbandits.kernel.structs import pointer


class Chain(NamedTuple):
    """A chain of Gibbs sampling."""

    groups: Groups
    alpha: Floats  # pseudo-counts given latent counts: the sum of the next two
    base: Floats  # those of what is certain
    prior: Floats  # what they were before the first round, or as regressions have it by now
    average: Floats  # of the pseudo-counts, over recent rounds
    counts: Floats  # whole numbers: how often entries were used, as far as that is latent
    means: Floats
    stamps: Floats  # of a row: the epoch in which its means were drawn
    epoch: Floats  # one number
    tuning: Floats  # of moves of tables: see `rescaling`
    fits: Floats  # regressions, if they are at hand: then they move with their tables
    has_fits: bool
    latent: Floats  # of a number in the pool that is a learned entry: how often it was used
    current: Ints  # groups that matter most: the rows of pairs that move meet in these
    currents: int  # how many; 0: all groups do


@inlined
def draw_row_once(v: Parts, chain: Chain, row: int, rng: Rng) -> None:
    """Draw the means of a row, if that was not done in this epoch."""
    if chain.stamps[row] == chain.epoch[0]:
        return
    chain.stamps[row] = chain.epoch[0]
    if v.size[row] == 2:
        chain.means[row + 1] = draw_beta(chain.alpha[row + 1], chain.alpha[row], LEAST, rng)
        chain.means[row] = 1.0 - chain.means[row + 1]
    else:
        draw_row(chain.alpha, row, v.size[row], LEAST, rng, chain.means)


@unmanaged
def link(w: Workspace, groups: Groups, g: int) -> None:
    """Link a new group to the others that read the same rows: `heads` has the first of a row, then their numbers."""
    v, first = w.v, groups.start[g]
    factor = factor_of(groups, g)
    at = 1
    for _ in range(factor[0]):
        terms = factor[at]
        at += 1
        for _ in range(terms):
            for i in range(at + 1, at + 1 + factor[at]):
                if 0 <= factor[i] < v.learned:
                    row = v.row[factor[i]]
                    head = groups.heads[row]
                    if head < first:  # the first of the row in this group
                        groups.after[first + i] = head
                        groups.owner[first + i] = g
                        groups.heads[row] = first + i
                        groups.heads[v.learned + row] = max(0, groups.heads[v.learned + row]) + 1
            at += 1 + factor[at]


@inlined
def prepare(v: Parts, chain: Chain, factor: Ints, row: int, rng: Rng) -> bool:
    """Draw the means that a factor needs; whether it reads this row."""
    reads, at = False, 1
    for _ in range(factor[0]):
        terms = factor[at]
        at += 1
        for _ in range(terms):
            for i in range(at + 1, at + 1 + factor[at]):
                if 0 <= factor[i] < v.learned:
                    reads |= v.row[factor[i]] == row
                    draw_row_once(v, chain, v.row[factor[i]], rng)
            at += 1 + factor[at]
    return reads


@unmanaged
def visit(w: Workspace, chain: Chain, g: int, rng: Rng) -> None:
    """Draw the latent counts of a group anew, given means."""
    v, groups, alpha = w.v, chain.groups, chain.alpha
    factor, latent = factor_of(groups, g), pointer(chain.latent, groups.start[g])
    prepare(v, chain, factor, -1, rng)
    if value_of_factor(w, factor, GIVEN, chain.means, chain.means) < 1e-290:  # at the edge of what numbers can hold
        value_of_factor(w, factor, MEANS, alpha, alpha)
    split(w, factor, groups.counts[g], rng)
    for t in range(w.first_term[factor[0]]):
        at = w.term_at[t]
        for i in range(at + 1, at + 1 + factor[at]):
            if 0 <= factor[i] < v.learned and latent[i] != w.term_counts[t]:
                count_latent(chain, factor[i], w.term_counts[t] - latent[i])
                latent[i] = w.term_counts[t]


@inlined
def count_latent(chain: Chain, e: int, times: float) -> None:
    """Count uses of an entry: whole numbers are added, so that nothing is lost by rounding."""
    chain.counts[e] += times
    chain.alpha[e] = drawable(chain.base[e] + chain.counts[e])
