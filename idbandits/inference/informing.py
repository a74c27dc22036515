"""How much latent counts say: as much as could be told from what was seen, not as much as if they had been seen.

A row that was used n times with means p has n p (1 - p) of information about the logit of each of its states, if all
uses were seen. Where they are latent, what is lost is the variance, given what was seen, of the derivative of their
likelihood (Louis, 1982). So counts are scaled by what is left: of certain uses all, of uses about which a round said
nothing, nothing.
"""

from idbandits.inference.chain import Chain
from idbandits.inference.counting import factor_of
from idbandits.inference.factors import add_counts, expect
from idbandits.inference.workspace import MEANS, Workspace, row_sum
from idbandits.kernel.compiling import bare
from idbandits.kernel.states import USED
from idbandits.kernel.types import Floats


@bare
def scale_by_information(w: Workspace, chain: Chain, counts: Floats) -> None:
    """Scale the counts of all rows by the part of their information that latent nodes leave."""
    v, groups, alpha, uses, lost = w.v, chain.groups, chain.alpha, w.other, w.before
    for e in range(v.learned):
        uses[e] = 0.0
        lost[e] = 0.0
    for g in range(groups.header[USED]):
        if groups.counts[g] == 0:
            continue
        factor = factor_of(groups, g)
        expect(w, factor, MEANS, alpha, alpha)
        add_counts(w, factor, 1.0, uses)
        for t in range(w.first_term[factor[0]]):
            at = w.term_at[t]
            for i in range(at + 1, at + 1 + factor[at]):
                if 0 <= factor[i] < v.learned:
                    row = v.row[factor[i]]
                    lost[row] += groups.counts[g] * variance_of_row(w, alpha, uses, row)
    e = 0
    while e < v.learned:
        if lost[e] > 0.0:
            total, spread, number = row_sum(v, e, alpha), 0.0, 0.0
            for i in range(e, e + v.size[e]):
                spread += alpha[i] / total * (1.0 - alpha[i] / total)
                number += counts[i]
            left = 1.0 - lost[e] / (number * spread) if number * spread > lost[e] else 0.0
            for i in range(e, e + v.size[e]):
                counts[i] *= left
        e += v.size[e]


@bare
def variance_of_row(w: Workspace, alpha: Floats, uses: Floats, row: int) -> float:
    """The variance of (uses of a state, less its mean for each use of the row), summed over states; uses are cleared.

    `uses` has their expectations in one round, in which the row is used once at most.
    """
    size, used, variance = w.v.size[row], 0.0, 0.0
    for i in range(row, row + size):
        used += uses[i]
    if used == 0.0:
        return 0.0
    total = row_sum(w.v, row, alpha)
    for i in range(row, row + size):
        p, q = alpha[i] / total, uses[i]
        off = q - p * used
        variance += q * (1.0 - p) ** 2 + (used - q) * p * p - off * off
        uses[i] = 0.0
    return max(variance, 0.0)
