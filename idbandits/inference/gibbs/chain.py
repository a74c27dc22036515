"""Chain of Gibbs sampling: groups with latent counts, and means that are drawn when they are needed."""

from typing import NamedTuple

from idbandits.inference.rounds.counting import factor_of
from idbandits.inference.rounds.factors import first_term, members, next_term, split, value_of_factor
from idbandits.inference.rounds.workspace import GIVEN, MEANS, Parts, Workspace
from idbandits.inference.state.state import Groups, drawable
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import LEAST, draw_beta, draw_row
from idbandits.kernel.structs import pointer


class Chain(NamedTuple):
    """Chain of Gibbs sampling: pointers into a state."""

    groups: Groups
    alpha: Floats  # pseudo-counts given latent counts: the sum of `base` and `counts`
    base: Floats  # pseudo-counts of the prior and of certain uses
    prior: Floats  # declared pseudo-counts, or those of regressions
    average: Floats  # of the pseudo-counts, over recent rounds
    counts: Floats  # latent uses of entries: integers
    means: Floats
    stamps: Floats  # of a row: the epoch in which its means were drawn
    epoch: Floats  # one number
    tuning: Floats  # of moves of tables: see `table_moves`
    fits: Floats  # regressions, if there are any: they move with their tables
    has_fits: bool
    latent: Floats  # of a number in the pool that is a learned entry: its latent uses
    current: Ints  # groups in which the rows of pair moves meet
    currents: int  # their number; 0: all groups


@inlined
def draw_row_once(v: Parts, chain: Chain, row: int, rng: Rng) -> None:
    """Draw the means of a row, unless they were drawn in this epoch."""
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
    """Link a new group to the groups that read the same rows.

    `heads` has the first link of each row, then the number of links of each row.
    """
    v, first, factor = w.v, groups.start[g], factor_of(groups, g)
    term = first_term(factor)
    while term.nodes > 0:
        for i in members(factor, term.at):
            if 0 <= factor[i] < v.learned:
                row = v.row[factor[i]]
                head = groups.heads[row]
                if head < first:  # the first of the row in this group
                    groups.after[first + i] = head
                    groups.owner[first + i] = g
                    groups.heads[row] = first + i
                    groups.heads[v.learned + row] = max(0, groups.heads[v.learned + row]) + 1
        term = next_term(factor, term)


@inlined
def prepare(v: Parts, chain: Chain, factor: Ints, row: int, rng: Rng) -> bool:
    """Draw the means that a factor needs; return whether it reads this row."""
    reads, term = False, first_term(factor)
    while term.nodes > 0:
        for i in members(factor, term.at):
            if 0 <= factor[i] < v.learned:
                reads |= v.row[factor[i]] == row
                draw_row_once(v, chain, v.row[factor[i]], rng)
        term = next_term(factor, term)
    return reads


@unmanaged
def visit(w: Workspace, chain: Chain, g: int, rng: Rng) -> None:
    """Draw the latent counts of a group again, given means."""
    v, groups, alpha = w.v, chain.groups, chain.alpha
    factor, latent = factor_of(groups, g), pointer(chain.latent, groups.start[g])
    prepare(v, chain, factor, -1, rng)
    if value_of_factor(w, factor, GIVEN, chain.means, chain.means) < 1e-290:  # close to underflow
        value_of_factor(w, factor, MEANS, alpha, alpha)
    split(w, factor, groups.counts[g], rng)
    for t in range(w.first_term[factor[0]]):
        for i in members(factor, w.term_at[t]):
            if 0 <= factor[i] < v.learned and latent[i] != w.term_counts[t]:
                count_latent(chain, factor[i], w.term_counts[t] - latent[i])
                latent[i] = w.term_counts[t]


@inlined
def count_latent(chain: Chain, e: int, times: float) -> None:
    """Add latent uses of an entry: sums of integers are exact."""
    chain.counts[e] += times
    chain.alpha[e] = drawable(chain.base[e] + chain.counts[e])
