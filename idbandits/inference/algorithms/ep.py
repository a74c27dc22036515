"""Expectation propagation over grouped counts: every group keeps what one of its rounds says, given all the others."""

from typing import NamedTuple, final

from idbandits.circuit.model import Model
from idbandits.errors import ComplexityError, check_number, check_whole
from idbandits.inference.ageing import fade, thin
from idbandits.inference.algorithms.moment_matching import match_factor
from idbandits.inference.learn import learner
from idbandits.inference.protocol import FEATURES, FORGET, MOST_STEPS, MOVE, REVISE, Inference, asymmetric
from idbandits.inference.rounds.counting import count_round, factor_of, look_up
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.factors import (
    add_counts,
    expect,
    first_term,
    members,
    next_term,
    split,
    value_of_factor,
)
from idbandits.inference.rounds.round import DONE, LATER, THOROUGHLY, Round
from idbandits.inference.rounds.workspace import GIVEN, Workspace
from idbandits.inference.rounds.workspace import MEANS as BY_MEANS
from idbandits.inference.state.drop_groups import drop_empty_groups
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import draw_rows
from idbandits.kernel.structs import pointer

from idbandits.inference.state.sections import (  # isort: skip
    DERIVED, NUMBERS, PSEUDO_COUNTS, SWITCHES, Declaration, numbers, per_entry, per_number, setting,
)  # fmt: skip
from idbandits.inference.state.state import EACH, USED, Groups, State, copy, drawable, groups_in  # isort: skip

CLOSE = 1e-9  # sweeps end when no pseudo-count changes by a larger part of it
MANY_SWEEPS = 200  # after many rounds at once
FIRST_STEPS = 100  # of Gibbs sampling before these
STEPS, MOST_SITES = 2, 2**28  # of Gibbs sampling before an action that uses it; numbers for the sites of a round


class Sections(NamedTuple):
    """Sections of the state: pseudo-counts, and a site per group."""

    sweeps: int = setting()
    shrunk: Ints = numbers(SWITCHES)  # 1 if a group lost rounds since the last sweep
    acting: Floats = per_entry(PSEUDO_COUNTS)  # those that actions are drawn from
    prior: Floats = per_entry(PSEUDO_COUNTS)
    base: Floats = per_entry(PSEUDO_COUNTS)  # without latent counts
    zeros: Floats = per_entry(DERIVED, 0.0)  # scratch of `match_factor`
    belief: Floats = per_entry(PSEUDO_COUNTS)
    chain: Floats = per_entry(PSEUDO_COUNTS)  # of Gibbs sampling
    means: Floats = per_entry(DERIVED)  # of Gibbs sampling
    damping: float = setting()
    share: float = setting()
    sites: Floats = per_number(NUMBERS, by_row=True)


DECLARED = Declaration(Sections, grouped=True)
view = DECLARED.view


@unmanaged
def learn(w: Workspace, state: State, rng: Rng, round_: Round) -> int:
    """Count the round, renew all sites, then find the pseudo-counts to act by."""
    learned, groups, own = w.v.learned, groups_in(state.ints), view(state, w.v.learned)
    if round_.keep < 1.0:
        status = look_up(w, groups, round_, round_.keep)
        if status != DONE:
            return status
        forget(w, state, round_.keep)
    status = count_round(w, groups, own.base, own.prior, round_, rng)
    for i in range(w.places[0] if status == DONE and round_.times < 0 else 0):
        keep_site(groups, own, w.groups[i])
    if status != DONE or round_.effort == LATER:
        return status
    used = state.ints[USED]
    if round_.effort == THOROUGHLY and used > 0:
        begin_by_chain(w, groups, own, rng)
    if not total_up(w, groups, own) and own.shrunk[0]:
        for g in range(used):
            site_of(groups, own, g)[0] = 0.0
        begin_by_chain(w, groups, own, rng)
        total_up(w, groups, own)
    own.shrunk[0] = 0
    if used > 0:
        limit = max(own.sweeps, MANY_SWEEPS) if round_.effort == THOROUGHLY else own.sweeps
        for _ in range(limit):
            if sweep(w, groups, own, limit > 1) < CLOSE:
                break
    copy(own.belief, own.acting, learned)
    if used > 0 and own.share > 0.0 and rng.random() < own.share:
        for _ in range(STEPS):
            step(w, groups, own, rng)
        copy(own.chain, own.acting, learned)
    return DONE


@unmanaged
def forget(w: Workspace, state: State, keep: float) -> None:
    """Let everything learned fade: certain counts, and the rounds of groups."""
    groups, own = groups_in(state.ints), view(state, w.v.learned)
    fade(own.base, own.prior, w.v.learned, keep)
    for g in range(state.ints[USED]):
        if thin(groups, g, keep):
            keep_site(groups, own, g)
    drop_empty_groups(state.ints, state.floats)


@inlined
def keep_site(groups: Groups, own: Sections, g: int) -> None:
    """Let the site of a group that lost rounds say the same of each that is left.

    Together, such sites may say less than nothing of a row, where others were negative: `total_up` then finds out.
    """
    site = site_of(groups, own, g)
    site[0] = min(site[0], groups.counts[g])
    own.shrunk[0] = 1


@inlined
def find_sites(w: Workspace, factor: Ints, each: int) -> int:
    """List the entries of all rows that a factor reads, in `sites`, and their places in its site, in `offsets`."""
    v, number, term = w.v, 0, first_term(factor)
    while term.nodes > 0:
        for i in members(factor, term.at):
            if 0 <= factor[i] < v.learned and w.marks[v.row[factor[i]]] == 0:
                row = v.row[factor[i]]
                w.marks[row] = 1
                for k in range(v.size[row]):
                    w.sites[number], w.offsets[number] = row + k, i * each + k
                    number += 1
        term = next_term(factor, term)
    for i in range(number):
        w.marks[w.sites[i]] = 0
    return number


@unmanaged
def begin_by_chain(w: Workspace, groups: Groups, own: Sections, rng: Rng) -> None:
    """Begin new sites by the expected uses under a Gibbs chain: it leaves symmetries that sweeps would stay near."""
    for _ in range(FIRST_STEPS):
        step(w, groups, own, rng)
    for g in range(groups.header[USED]):
        factor, site = factor_of(groups, g), site_of(groups, own, g)
        if site[0] > 0.0 or groups.counts[g] == 0:
            continue
        site[0] = groups.counts[g]
        number = find_sites(w, factor, groups.header[EACH])
        for i in range(number):
            w.other[w.sites[i]] = 0.0
        expect(w, factor, BY_MEANS, own.chain, own.chain)
        add_counts(w, factor, 1.0, w.other)
        for i in range(number):
            site[w.offsets[i]] = w.other[w.sites[i]]


@unmanaged
def total_up(w: Workspace, groups: Groups, own: Sections) -> bool:
    """Sum the pseudo-counts of the belief: certain counts, and all sites as often as they occurred.

    Says whether they are proper, which is to say positive.

    Where a group has grown, its site is made smaller, so that it says as much in all as before: proper pseudo-counts
    stay proper. The first number of a site is how often it had occurred.
    """
    v, alpha = w.v, own.belief
    copy(own.base, alpha, v.learned)
    for g in range(groups.header[USED]):
        factor, site = factor_of(groups, g), site_of(groups, own, g)
        times, before = groups.counts[g], site[0]
        site[0] = times
        for i in range(find_sites(w, factor, groups.header[EACH])):
            if times != before:
                site[w.offsets[i]] *= before / times if times > 0 else 0.0
            alpha[w.sites[i]] += times * site[w.offsets[i]]
    proper = True
    for e in range(v.learned):  # rounding
        proper &= alpha[e] > 0.0
        alpha[e] = drawable(alpha[e])
    return proper


@inlined
def site_of(groups: Groups, own: Sections, g: int) -> Floats:
    """Return the site of a group: as many floats for every number in its factor as the widest row has entries."""
    return pointer(own.sites, groups.header[EACH] * groups.start[g])


@unmanaged
def sweep(w: Workspace, groups: Groups, own: Sections, asked: bool) -> float:
    """Renew every site: take one copy of it out of the belief, match one round, and the difference is the new site.

    If asked, returns by how much a pseudo-count changed at most, as a part of it.
    """
    alpha, before, fresh = own.belief, w.before, w.after
    moved = 0.0
    for g in range(groups.header[USED]):
        times = groups.counts[g]
        if times == 0:
            continue
        factor, site = factor_of(groups, g), site_of(groups, own, g)
        number = find_sites(w, factor, groups.header[EACH])
        proper = True
        for i in range(number):
            e = w.sites[i]
            before[i] = alpha[e]
            alpha[e] -= site[w.offsets[i]]
            proper &= alpha[e] > 0.0
        if proper:
            match_factor(w, factor, alpha, own.zeros)
            for i in range(number):
                fresh[i] = alpha[w.sites[i]] - (before[i] - site[w.offsets[i]])
        for i in range(number):
            alpha[w.sites[i]] = before[i]
        if not proper:
            continue
        step_size = (
            own.damping
        )  # as much of it as changes no pseudo-count by more than half: counts may be in the millions
        for i in range(number):
            push = times * abs(fresh[i] - site[w.offsets[i]])
            if step_size * push > 0.499 * before[i]:  # seldom: no division otherwise
                step_size = min(step_size, 0.5 * before[i] / push)
        for i in range(number):
            change = step_size * (fresh[i] - site[w.offsets[i]])
            if asked:
                moved = max(moved, times * abs(change) / before[i])
            site[w.offsets[i]] += change
            alpha[w.sites[i]] = before[i] + times * change
    return moved


@unmanaged
def step(w: Workspace, groups: Groups, own: Sections, rng: Rng) -> None:
    """Gibbs sampling: draw all means, and with them all latent counts; the pseudo-counts are then those given these."""
    v, alpha, means = w.v, own.chain, own.means
    draw_rows(v.size, 0, v.learned, alpha, rng, means)
    copy(own.base, w.fresh, v.learned)
    for g in range(groups.header[USED]):
        factor = factor_of(groups, g)
        if value_of_factor(w, factor, GIVEN, means, means) < 1e-290:  # means at the edge of what numbers can hold
            value_of_factor(w, factor, BY_MEANS, alpha, alpha)
        split(w, factor, groups.counts[g], rng)
        add_counts(w, factor, 1.0, w.fresh)
    copy(w.fresh, alpha, v.learned)


def check_sites(model: Model, evidence: Evidence) -> None:
    """Raise if the sites of a single round might not fit in memory."""
    numbers = evidence.most_numbers * evidence.widest
    if numbers > MOST_SITES:
        table = max(model.learned.values(), key=lambda table: table.states)
        raise ComplexityError(
            f"inference 'ep' may need {numbers:,} numbers for a round of diagram {model.name!r}, at most "
            f"{MOST_SITES:,} are allowed: its circuit has {evidence.longest.terms:,} terms, and table {table.name!r} "
            f"has {table.states} states; use inference 'gibbs'"
        )


@final
class EP(Inference):
    """Expectation propagation: each distinct choice and observation has one site, used as often as it occurred.

    Independent rows are surer of themselves than the exact posterior is, which now and then ends in the wrong action
    for good. So a share of the actions draws its means by Gibbs sampling, from the exact posterior.

    Parameters
    ----------
    sweeps : int
        Passes over all sites per round.
    damping : float
        Part of a site that an update replaces, from 0 to 1.
    share : float
        Share of the actions drawn by Gibbs sampling, from 0 to 1.

    Examples
    --------
    >>> import idbandits as idb
    >>> idb.Thompson(idb.models.cascade(3, 2), inference=EP(sweeps=2), seed=0)
    Thompson('cascade', ep, sweeps=2, damping=0.5, share=0.25; 0 rounds)
    """

    declared = DECLARED
    capabilities = frozenset({REVISE, FORGET, FEATURES, MOVE})
    learn = learner("EP")(learn)

    def __init__(self, sweeps: int = 1, damping: float = 0.5, share: float = 0.25) -> None:
        check_whole("sweeps", sweeps, 1, MOST_STEPS)
        check_number("damping", damping, 0, 1, above=True)
        check_number("share", share, 0, 1)
        self.settings = {"sweeps": int(sweeps), "damping": float(damping), "share": float(share)}

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """Return the prior, or nearly so where it is symmetric."""
        check_sites(model, evidence)
        return DECLARED.start(evidence, self.settings, asymmetric(evidence, rng))

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """Return the pseudo-counts of the belief, shape (learned,)."""
        return DECLARED.section(state, evidence.learned, "belief")
