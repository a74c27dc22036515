"""Expectation propagation over grouped counts: every group keeps what one of its rounds says, given all the others."""

from typing import final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.errors import ComplexityError, check_number, check_whole
from idbandits.inference.ageing import fade, thin
from idbandits.inference.algorithms.moment_matching import match_factor
from idbandits.inference.protocol import DONE, LATER, MOST_STEPS, THOROUGHLY, BuiltIn, Round, asymmetric, learner
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
from idbandits.inference.rounds.workspace import GIVEN, Workspace
from idbandits.inference.rounds.workspace import MEANS as BY_MEANS
from idbandits.inference.state.drop_groups import drop_empty_groups
from idbandits.inference.state.state_file import DERIVED, NUMBERS, PSEUDO_COUNTS, SWITCHES, Layout
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import draw_rows
from idbandits.kernel.structs import pointer

from idbandits.inference.state.state import (  # isort: skip
    BEFORE, EACH, FIGURES, SETTING, USED, Groups, State, copy, drawable, figures, groups_in, section, with_groups,
)  # fmt: skip

SWEEPS, SHRUNK = range(SETTING, SETTING + 2)  # of the header; SHRUNK: whether a group lost rounds since the last sweep
DAMPING, SHARE = range(2)  # of the figures
# sections of the floats: pseudo-counts to act by, the prior, the pseudo-counts of what is certain, zeros, those of the
# belief, those of the Gibbs chain, and its means; then the sites
ACTING, PRIOR, BASE, SCRATCH, BELIEF, CHAIN, MEANS = range(7)
CLOSE = 1e-9  # sweeps end when no pseudo-count changes by a larger part of it
MANY_SWEEPS = 200  # after many rounds at once
FIRST_STEPS = 100  # of Gibbs sampling before these
STEPS, MOST_SITES = 2, 2**28  # of Gibbs sampling before an action that uses it; numbers for the sites of a round


@unmanaged
def learn(w: Workspace, ints: Ints, floats: Floats, rng: Rng, round_: Round) -> int:
    """Count the round, renew all sites, then find the pseudo-counts to act by."""
    learned, groups = w.v.learned, groups_in(ints)
    base, acting = section(floats, BASE, learned), section(floats, ACTING, learned)
    if round_.keep < 1.0:
        status = look_up(w, groups, round_, round_.keep)
        if status != DONE:
            return status
        forget(w, ints, floats, round_.keep)
    status = count_round(w, groups, base, section(floats, PRIOR, learned), round_, rng)
    for i in range(w.places[0] if status == DONE and round_.times < 0 else 0):
        keep_site(groups, floats, w.groups[i])
    if status != DONE or round_.effort == LATER:
        return status
    if round_.effort == THOROUGHLY and ints[USED] > 0:
        begin_by_chain(w, groups, floats, rng)
    if not total_up(w, groups, floats) and ints[SHRUNK]:
        for g in range(ints[USED]):
            site_of(groups, floats, g)[0] = 0.0
        begin_by_chain(w, groups, floats, rng)
        total_up(w, groups, floats)
    ints[SHRUNK] = 0
    belief = section(floats, BELIEF, learned)
    if ints[USED] > 0:
        limit = max(ints[SWEEPS], MANY_SWEEPS) if round_.effort == THOROUGHLY else ints[SWEEPS]
        for _ in range(limit):
            if sweep(w, groups, floats, limit > 1) < CLOSE:
                break
    copy(belief, acting, learned)
    share = figures(floats, learned)[SHARE]
    if ints[USED] > 0 and share > 0.0 and rng.random() < share:
        chain = section(floats, CHAIN, learned)
        for _ in range(STEPS):
            step(w, groups, chain, base, section(floats, MEANS, learned), rng)
        copy(chain, acting, learned)
    return DONE


@unmanaged
def forget(w: Workspace, ints: Ints, floats: Floats, keep: float) -> None:
    """Let all that was learned fade: what is certain, and the rounds of groups."""
    learned, groups = w.v.learned, groups_in(ints)
    fade(section(floats, BASE, learned), section(floats, PRIOR, learned), learned, keep)
    for g in range(ints[USED]):
        if thin(groups, g, keep):
            keep_site(groups, floats, g)
    drop_empty_groups(ints, floats)


@inlined
def keep_site(groups: Groups, floats: Floats, g: int) -> None:
    """Let the site of a group that lost rounds say the same of each that is left.

    Together, such sites may say less than nothing of a row, where others were negative: `total_up` then finds out.
    """
    site = site_of(groups, floats, g)
    site[0] = min(site[0], groups.counts[g])
    groups.header[SHRUNK] = 1


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
def begin_by_chain(w: Workspace, groups: Groups, floats: Floats, rng: Rng) -> None:
    """Begin new sites by the expected uses under a Gibbs chain: it leaves symmetries that sweeps would stay near."""
    v = w.v
    chain, means = section(floats, CHAIN, v.learned), section(floats, MEANS, v.learned)
    for _ in range(FIRST_STEPS):
        step(w, groups, chain, section(floats, BASE, v.learned), means, rng)
    for g in range(groups.header[USED]):
        factor, site = factor_of(groups, g), site_of(groups, floats, g)
        if site[0] > 0.0 or groups.counts[g] == 0:
            continue
        site[0] = groups.counts[g]
        number = find_sites(w, factor, groups.header[EACH])
        for i in range(number):
            w.other[w.sites[i]] = 0.0
        expect(w, factor, BY_MEANS, chain, chain)
        add_counts(w, factor, 1.0, w.other)
        for i in range(number):
            site[w.offsets[i]] = w.other[w.sites[i]]


@unmanaged
def total_up(w: Workspace, groups: Groups, floats: Floats) -> bool:
    """The pseudo-counts of the belief: of what is certain, and of all sites as often as they occurred.

    Says whether they are proper, which is to say positive.

    Where a group has grown, its site is made smaller, so that it says as much in all as before: proper pseudo-counts
    stay proper. The first number of a site is how often it had occurred.
    """
    v, alpha = w.v, section(floats, BELIEF, w.v.learned)
    copy(section(floats, BASE, v.learned), alpha, v.learned)
    for g in range(groups.header[USED]):
        factor, site = factor_of(groups, g), site_of(groups, floats, g)
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
def site_of(groups: Groups, floats: Floats, g: int) -> Floats:
    """The site of a group: for every number in its factor, as many as a row has entries at most."""
    return pointer(floats, groups.header[BEFORE] + groups.header[EACH] * groups.start[g])


@unmanaged
def sweep(w: Workspace, groups: Groups, floats: Floats, asked: bool) -> float:
    """Renew every site: take one copy of it out of the belief, match one round, and the difference is the new site.

    If asked, returns by how much a pseudo-count changed at most, as a part of it.
    """
    v = w.v
    alpha, zeros = section(floats, BELIEF, v.learned), section(floats, SCRATCH, v.learned)
    before, fresh = w.before, w.after
    damping = figures(floats, v.learned)[DAMPING]
    moved = 0.0
    for g in range(groups.header[USED]):
        times = groups.counts[g]
        if times == 0:
            continue
        factor, site = factor_of(groups, g), site_of(groups, floats, g)
        number = find_sites(w, factor, groups.header[EACH])
        proper = True
        for i in range(number):
            e = w.sites[i]
            before[i] = alpha[e]
            alpha[e] -= site[w.offsets[i]]
            proper &= alpha[e] > 0.0
        if proper:
            match_factor(w, factor, alpha, zeros)
            for i in range(number):
                fresh[i] = alpha[w.sites[i]] - (before[i] - site[w.offsets[i]])
        for i in range(number):
            alpha[w.sites[i]] = before[i]
        if not proper:
            continue
        step_size = damping  # as much of it as changes no pseudo-count by more than half: counts may be in the millions
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
def step(w: Workspace, groups: Groups, alpha: Floats, base: Floats, means: Floats, rng: Rng) -> None:
    """Gibbs sampling: draw all means, and with them all latent counts; the pseudo-counts are then those given these."""
    v = w.v
    draw_rows(v.size, 0, v.learned, alpha, rng, means)
    copy(base, w.fresh, v.learned)
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
class EP(BuiltIn):
    """Expectation propagation: each distinct choice and observation has one site, used as often as it occurred.

    Independent rows are surer of themselves than the exact posterior is, which now and then ends in the wrong action
    for good. So a `share` of the actions draws its means by Gibbs sampling, from the exact posterior.
    """

    revisable = True
    forgets = True
    regresses = True
    learn = learner("EP")(learn)

    def __init__(self, sweeps: int = 1, damping: float = 0.5, share: float = 0.25) -> None:
        check_whole("sweeps", sweeps, 1, MOST_STEPS)
        check_number("damping", damping, 0, 1, above=True)
        check_number("share", share, 0, 1)
        self.settings = {"sweeps": int(sweeps), "damping": float(damping), "share": float(share)}

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior, or nearly so where it is symmetric."""
        check_sites(model, evidence)
        settings = np.zeros(FIGURES)
        settings[[DAMPING, SHARE]] = self.settings["damping"], self.settings["share"]
        p = asymmetric(evidence, rng)
        floats = np.concatenate([p, settings, p, p, np.zeros(evidence.learned), p, p, p])
        counts = (self.settings["sweeps"],)
        return with_groups(floats, evidence.most_groups, evidence.most_numbers, evidence.widest, counts)

    def layout(self, evidence: Evidence) -> Layout:
        """The sections, and the sites."""
        n, counts = evidence.learned, PSEUDO_COUNTS
        floats = [(counts, n), (DERIVED, FIGURES), (counts, 2 * n), (DERIVED, n), (counts, 2 * n)]
        ints = [(DERIVED, SHRUNK - SETTING), (SWITCHES, 1)]
        return Layout(floats, [(NUMBERS, evidence.widest)], ints, evidence.check_factors, sites_by_row=True)

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """The pseudo-counts of the belief."""
        first = BELIEF * evidence.learned + FIGURES
        return state.floats[first : first + evidence.learned]
