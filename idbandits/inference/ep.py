"""Expectation propagation over grouped counts: every group keeps what one of its rounds says, given all the others."""

from typing import final

import numpy as np

from idbandits.circuit.model import Model
from idbandits.errors import check_number, check_whole
from idbandits.inference.counting import count_round
from idbandits.inference.evidence import Evidence
from idbandits.inference.gibbs import step
from idbandits.inference.matching import match_part
from idbandits.inference.protocol import DONE, LATER, MOST_STEPS, THOROUGHLY, BuiltIn, Round, learner
from idbandits.inference.workspace import Workspace, read_key
from idbandits.kernel.columns import COUNTS, DERIVED, NUMBERS, PSEUDO_COUNTS, Layout
from idbandits.kernel.compiling import bare, merged
from idbandits.kernel.fields import pointer
from idbandits.kernel.types import Floats, Ints, Rng

from idbandits.kernel.states import (  # isort: skip
    BEFORE, EACH, FIGURES, SETTING, USED, Groups, State, copy, drawable, figures, groups_in, section, with_groups,
)  # fmt: skip

SWEEPS = SETTING  # of the header
DAMPING, SHARE = range(2)  # of the figures
ACTING, BASE, SCRATCH, BELIEF, CHAIN, MEANS = range(6)  # sections of the floats: pseudo-counts to act by, those of what
# is determined, zeros, those of the belief, those of the Gibbs chain, its means; then the sites
CLOSE = 1e-9  # sweeps end when no pseudo-count changes by a larger part of it
MANY_SWEEPS = 200  # after many rounds at once
STEPS = 2  # of Gibbs sampling before an action that uses it


@bare
def learn(w: Workspace, ints: Ints, floats: Floats, rng: Rng, round_: Round) -> int:
    """Count the round, renew all sites, then find the pseudo-counts to act by."""
    learned, groups = w.v.learned, groups_in(ints)
    base, acting = section(floats, BASE, learned), section(floats, ACTING, learned)
    status, _ = count_round(w, groups, base, round_)
    if status != DONE or round_.effort == LATER:
        return status
    total_up(w, groups, floats)
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


@merged
def find_owners(w: Workspace, j: int, seen: Floats, owner: Ints) -> None:
    """For every slot of a part its learned entry, if it is the first to read it: that one carries the site. Else -1."""
    v = w.v
    first, last = v.use_start[j], v.use_start[j + 1]
    for t in range(first, last):
        e = w.entries[v.use[t]]
        owner[t - first] = e if e < v.learned else -1
    if not v.shared[j]:
        return
    for t in range(first, last):
        e = owner[t - first]
        owner[t - first] = -1
        if e >= 0 and seen[e] == 0.0:
            owner[t - first] = e
            seen[e] = 1.0
    for t in range(first, last):
        if owner[t - first] >= 0:
            seen[owner[t - first]] = 0.0


@bare
def total_up(w: Workspace, groups: Groups, floats: Floats) -> None:
    """The pseudo-counts of the belief: of what is determined, and of all sites as often as they occurred.

    Where a group has grown, its site is made smaller, so that it says as much in all as before: proper pseudo-counts
    stay proper. The last number of a site is how often it had occurred.
    """
    v, each, owner = w.v, groups.header[EACH], w.marks
    alpha, zeros = section(floats, BELIEF, v.learned), section(floats, SCRATCH, v.learned)
    sites = pointer(floats, groups.header[BEFORE])
    copy(section(floats, BASE, v.learned), alpha, v.learned)
    for g in range(groups.header[USED]):
        key, site = pointer(groups.keys, g * v.width), pointer(sites, g * each)
        j = key[0]
        read_key(w, key)
        find_owners(w, j, zeros, owner)
        times, before = groups.counts[g], site[each - 1]
        site[each - 1] = times
        for t in range(v.use_start[j + 1] - v.use_start[j]):
            if owner[t] >= 0:
                if times != before:
                    site[t] *= before / times if times > 0 else 0.0
                alpha[owner[t]] += times * site[t]
    for e in range(v.learned):  # rounding
        alpha[e] = drawable(alpha[e])


@bare
def sweep(w: Workspace, groups: Groups, floats: Floats, asked: bool) -> float:
    """Renew every site: take one copy of it out of the belief, match one round, and the difference is the new site.

    If asked, returns by how much a pseudo-count changed at most, as a part of it.
    """
    v, each, owner = w.v, groups.header[EACH], w.marks
    alpha, zeros = section(floats, BELIEF, v.learned), section(floats, SCRATCH, v.learned)
    before, fresh = w.more, pointer(w.more, w.c.slots)
    damping = figures(floats, v.learned)[DAMPING]
    sites = pointer(floats, groups.header[BEFORE])
    moved = 0.0
    for g in range(groups.header[USED]):
        times = groups.counts[g]
        if times == 0:
            continue
        key, site = pointer(groups.keys, g * v.width), pointer(sites, g * each)
        j = key[0]
        slots = v.use_start[j + 1] - v.use_start[j]
        missing = read_key(w, key)
        find_owners(w, j, zeros, owner)
        proper = True
        for t in range(slots):
            if owner[t] >= 0:
                before[t] = alpha[owner[t]]
                alpha[owner[t]] -= site[t]
                proper &= alpha[owner[t]] > 0.0
        if proper:
            match_part(w, j, missing, alpha, zeros)
            for t in range(slots):
                if owner[t] >= 0:
                    fresh[t] = alpha[owner[t]] - (before[t] - site[t])
        for t in range(slots):
            if owner[t] >= 0:
                alpha[owner[t]] = before[t]
        if not proper:
            continue
        step_size = damping  # as much of it as changes no pseudo-count by more than half: counts may be in the millions
        for t in range(slots):
            if owner[t] >= 0:
                push = times * abs(fresh[t] - site[t])
                if step_size * push > 0.499 * before[t]:  # seldom: no division otherwise
                    step_size = min(step_size, 0.5 * before[t] / push)
        for t in range(slots):
            if owner[t] >= 0:
                change = step_size * (fresh[t] - site[t])
                if asked:
                    moved = max(moved, times * abs(change) / before[t])
                site[t] += change
                alpha[owner[t]] = before[t] + times * change
    return moved


@final
class EP(BuiltIn):
    """Expectation propagation: each distinct choice and observation has one site, used as often as it occurred.

    Independent rows are surer of themselves than the exact posterior is, which now and then ends in the wrong action
    for good. So a `share` of the actions draws its means by Gibbs sampling, from the exact posterior.
    """

    revisable = False
    learn = learner("EP")(learn)

    def __init__(self, sweeps: int = 1, damping: float = 0.5, share: float = 0.25) -> None:
        check_whole("sweeps", sweeps, 1, MOST_STEPS)
        check_number("damping", damping, 0, 1, above=True)
        check_number("share", share, 0, 1)
        self.settings = {"sweeps": int(sweeps), "damping": float(damping), "share": float(share)}

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior."""
        settings = np.zeros(FIGURES)
        settings[[DAMPING, SHARE]] = self.settings["damping"], self.settings["share"]
        p = evidence.prior
        floats = np.concatenate([p, settings, p, np.zeros(evidence.learned), p, p, p])
        return with_groups(floats, evidence.parts, evidence.width, evidence.most_slots + 1, (self.settings["sweeps"],))

    def layout(self, evidence: Evidence) -> Layout:
        """The sections, and of a site what its slots say and how often it had occurred."""
        n, counts = evidence.learned, PSEUDO_COUNTS
        floats = [(counts, n), (DERIVED, FIGURES), (counts, n), (DERIVED, n), (counts, 2 * n)]
        return Layout(floats, [(NUMBERS, evidence.most_slots), (COUNTS, 1)], keys=evidence.key_ranges)

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """The pseudo-counts of the belief."""
        first = BELIEF * evidence.learned + FIGURES
        return state.floats[first : first + evidence.learned]
