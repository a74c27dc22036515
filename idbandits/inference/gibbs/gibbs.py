"""Gibbs sampling: latent counts given means, means given latent counts; converges to the exact posterior.

Every group keeps the latent counts that were last drawn for it, so a round costs the same however many groups there
are: those that the round belongs to are drawn again, and some others in turn. Where only a product of two means is
known, these steps are tiny; `moves` adds steps that change both and keep their product.
"""

from typing import NamedTuple, final

import numpy as np
from numba import types

from idbandits.errors import check_whole
from idbandits.inference.ageing import fade, thin
from idbandits.inference.gibbs.chain import Chain, count_latent, draw_row_once, link, visit
from idbandits.inference.gibbs.pair_moves import move_pairs
from idbandits.inference.gibbs.plan import Plan, Planned, planned, unpack_plan
from idbandits.inference.gibbs.regression_steps import update_regressions
from idbandits.inference.gibbs.summary import Summary, summary_of
from idbandits.inference.gibbs.table_moves import FIRST_WIDTH, LOG_WIDTH, TRIED, move_tables, moves_with_table
from idbandits.inference.learn import learner
from idbandits.inference.protocol import CHAIN, FEATURES, FORGET, MOST_STEPS, MOVE, REVISE, Inference
from idbandits.inference.regression import prior as priors
from idbandits.inference.regression.density import regression_at
from idbandits.inference.regression.fit import size_of_work, work_in
from idbandits.inference.rounds.counting import count_round, factor_of, look_up
from idbandits.inference.rounds.evidence import Evidence
from idbandits.inference.rounds.factors import members, value_of_factor
from idbandits.inference.rounds.round import DONE, LATER, NOW, Round
from idbandits.inference.rounds.workspace import MEANS as BY_MEANS
from idbandits.inference.rounds.workspace import Workspace, held, scratch, workspace
from idbandits.inference.state.drop_groups import drop_empty_groups
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import inlined, kernel, unmanaged
from idbandits.kernel.rng import RNG
from idbandits.kernel.sampling import below
from idbandits.kernel.structs import PACKED, Packed, pointer

from idbandits.inference.state.sections import (  # isort: skip
    COUNTS, DERIVED, PSEUDO_COUNTS, Declaration, numbers, per_entry, per_number, setting,
)  # fmt: skip
from idbandits.inference.state.state import (  # isort: skip
    NEXT_FIT, ROUNDS, STATE, USED, State, copy, drawable, groups_in,
)  # fmt: skip

MANY_STEPS = 200  # after many rounds at once
TABLE_MOVES = 6  # in a step of all groups
VISIT = 600.0  # about how many nanoseconds a step takes per group


class Sections(NamedTuple):
    """Sections of the state."""

    steps: int = setting()
    moves: int = setting()
    visits: int = setting()
    next: Ints = numbers(COUNTS)  # the group to visit next
    alpha: Floats = per_entry(DERIVED)  # pseudo-counts given latent counts
    prior: Floats = per_entry(PSEUDO_COUNTS)
    base: Floats = per_entry(PSEUDO_COUNTS)  # without latent counts
    average: Floats = per_entry(PSEUDO_COUNTS)  # of `alpha` over recent rounds
    counts: Floats = per_entry(DERIVED, 0.0)  # sums of latent counts
    means: Floats = per_entry(DERIVED)
    stamps: Floats = per_entry(DERIVED, -1.0)  # of a row: the epoch in which its means were drawn
    epoch: Floats = numbers(DERIVED)
    tuning: Floats = numbers(DERIVED, size=2)  # of moves of tables
    latent: Floats = per_number(COUNTS)  # of a learned entry in a key: how often it was used


DECLARED = Declaration(Sections, grouped=True, linked=True)
view = DECLARED.view


@unmanaged
def learn(w: Workspace, state: State, rng: Rng, round_: Round) -> int:
    """Count the round, then draw latent counts."""
    ints, own, chain = state.ints, view(state, w.v.learned), chain_in(w, state, False, pointer(state.ints, 0), 0)
    average, prior = chain.average, chain.prior
    if round_.keep < 1.0:
        status = look_up(w, chain.groups, round_, round_.keep)
        if status != DONE:
            return status
        forget(w, chain, state, rng, round_.keep)
        fade(average, prior, w.v.learned, round_.keep)
    used = ints[USED]
    status = count_round(w, chain.groups, chain.base, prior, round_, rng)
    if status != DONE:
        return status
    for i in range(1, w.uses[0] + 1 if round_.times != 0 else 1):
        count_latent(chain, w.uses[i], 0.0)
        average[w.uses[i]] = drawable(average[w.uses[i]] + round_.times * round_.weight)
    for g in range(used, ints[USED]):
        link(w, chain.groups, g)
    if ints[USED] == 0 or (round_.effort == LATER and round_.times >= 0):
        return DONE
    if round_.effort in (LATER, NOW):
        for _ in range(own.steps):
            begin_epoch(chain)
            if round_.effort == NOW:
                move_pairs(w, chain, own.moves, rng)
            for i in range(w.places[0]):
                visit(w, chain, w.groups[i], rng)
            for _ in range(min(own.visits, ints[USED]) if round_.effort == NOW else 0):
                visit(w, chain, turn(own, ints[USED]), rng)
            blend(w, chain, average, 1.0 / (1.0 + 0.5 * np.sqrt(max(0, ints[ROUNDS]))))
    else:
        copy(chain.alpha, average, w.v.learned)
        begin_tuning(chain)
        for _ in range(max(own.steps, MANY_STEPS)):
            step(w, chain, state, rng)
            blend(w, chain, average, 0.05)
    return DONE


@unmanaged
def forget(w: Workspace, chain: Chain, state: State, rng: Rng, keep: float) -> None:
    """Let all that was learned fade: what is certain, and the rounds of groups, whose latent counts are drawn again."""
    fade(chain.base, chain.prior, w.v.learned, keep)
    for e in range(w.v.learned):
        count_latent(chain, e, 0.0)
    begin_epoch(chain)
    for g in range(state.ints[USED]):
        if thin(chain.groups, g, keep):
            visit(w, chain, g, rng)
    drop_empty_groups(state.ints, state.floats)


@unmanaged
def blend(w: Workspace, chain: Chain, average: Floats, rate: float) -> None:
    """Move averages towards the present pseudo-counts."""
    for e in range(w.v.learned):
        average[e] += rate * (chain.alpha[e] - average[e])


@unmanaged
def chain_in(w: Workspace, state: State, has_fits: bool, current: Ints, currents: int) -> Chain:
    """Return the chain of a state; regressions move with their tables if it `has_fits`."""
    own = view(state, w.v.learned)
    return Chain(
        groups_in(state.ints), own.alpha, own.base, own.prior, own.average, own.counts, own.means, own.stamps,
        own.epoch, own.tuning, pointer(state.fits, 0), has_fits, own.latent, current, currents,
    )  # fmt: skip


@inlined
def turn(own: Sections, number: int) -> int:
    """Return the group to visit next, of a number of groups in turn."""
    own.next[0] = own.next[0] + 1 if own.next[0] + 1 < number else 0
    return own.next[0]


@unmanaged
def begin_tuning(chain: Chain) -> None:
    """Forget how moves of tables were tuned: what follows depends on nothing that files do not keep."""
    chain.tuning[LOG_WIDTH], chain.tuning[TRIED] = FIRST_WIDTH, 0.0


@unmanaged
def begin_epoch(chain: Chain) -> None:
    """From now on, means are drawn again when they are needed."""
    chain.epoch[0] += 1.0


@unmanaged
def step(w: Workspace, chain: Chain, state: State, rng: Rng) -> None:
    """Draw all means that groups depend on, move them, and draw the latent counts of all groups."""
    v, e = w.v, 0
    begin_epoch(chain)
    used = state.ints[USED]
    if used == 0:
        return
    while e < v.learned:
        if moves_with_table(w, chain, e):
            draw_row_once(v, chain, e, rng)
        e += v.size[e]
    move_tables(w, chain, TABLE_MOVES, rng)
    move_pairs(w, chain, view(state, v.learned).moves, rng)
    for g in range(used):
        visit(w, chain, g, rng)


@unmanaged
def short_step(w: Workspace, chain: Chain, state: State, rng: Rng, visits: int) -> None:
    """Draw means when they are needed, move some, and draw the latent counts of some current groups in turn."""
    own = view(state, w.v.learned)
    begin_epoch(chain)
    move_pairs(w, chain, own.moves, rng)
    for _ in range(visits):
        visit(w, chain, chain.current[turn(own, chain.currents)], rng)


@unmanaged
def exchange_states(w: Workspace, plan: Plan, rng: Rng) -> None:
    """Put interchangeable latent states into any order, all equally likely, by exchanges of neighbours: in `before`."""
    means, fresh = w.before, w.after
    for s in range(plan.symmetries):
        first = plan.symmetry[s]
        for last in range(plan.symmetry[s + 1] - first):  # the next state goes to any place among those before it
            place = below(rng, last + 2)
            for k in range(last, place - 1, -1):
                begin, end = plan.exchange[first + k], plan.exchange[first + k + 1]
                for i in range(begin, end):
                    fresh[i - begin] = means[plan.source[i]]
                for i in range(begin, end):
                    means[plan.target[i]] = fresh[i - begin]


MATRIX = types.float64[:, ::1]


@kernel(types.int64(PACKED, STATE, PACKED, RNG, types.int64, MATRIX, MATRIX))
def run_chain(
    evidence: Packed, state: State, plan: Packed, rng: Rng, first: int, draws: Floats, parameters: Floats
) -> int:
    """Record means along a chain that goes on from a state, after `first` steps of a plan: one line per step.

    `parameters` has those of all regressions, one line per step as well. Without columns, nothing is recorded.
    """
    p = unpack_plan(plan.ints, plan.floats)
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    fit_scratch = np.empty(size_of_work(w.r))
    work = work_in(w.r, pointer(fit_scratch, 0))
    chain = chain_in(w, state, True, p.current, p.currents)
    w.places[0] = 0  # there is no round to start from
    if first == 0:
        begin_tuning(chain)
    for i in range(len(draws)):
        if w.r.number > 0 and (first + i) % p.update_every == 0:
            update_regressions(w, chain, work, (first + i) % p.fit_every == 0, rng)
        if (first + i) % p.sweep_every == 0:
            step(w, chain, state, rng)
        else:
            short_step(w, chain, state, rng, p.visits)
        for k in range(p.rows):
            draw_row_once(w.v, chain, p.row[k], rng)
        if draws.shape[1] < p.columns or p.columns == 0:
            continue
        recorded = chain.means
        if p.symmetries > 0:  # a chain may take ages to exchange interchangeable states
            recorded = w.before
            copy(chain.means, recorded, w.v.live)
            exchange_states(w, p, rng)
        for k in range(p.columns):
            draws[i, k] = recorded[p.column[k]]
        for t in range(w.r.number):
            g = regression_at(w.r, t, chain.fits)
            for k in range(g.size):
                parameters[i, w.r.first[t] + k] = g.current[k]
    return int(held(len(draws) + 0 * len(fit_scratch), int_scratch, float_scratch))


@kernel(types.int64(PACKED, STATE, RNG))
def go_on(evidence: Packed, state: State, rng: Rng) -> int:
    """Make one step of all groups, in which regressions move with their tables."""
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    chain = chain_in(w, state, True, pointer(state.ints, 0), 0)
    w.places[0] = 0
    begin_tuning(chain)
    step(w, chain, state, rng)
    return int(held(state.ints[USED], int_scratch, float_scratch))


@kernel(types.int64(PACKED, STATE))
def restore(evidence: Packed, state: State) -> int:
    """Derive the links and the pseudo-counts of a state from its groups and their latent counts."""
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    chain, used = chain_in(w, state, False, pointer(state.ints, 0), 0), state.ints[USED]
    for e in range(w.v.learned):
        chain.counts[e] = 0.0
        count_latent(chain, e, 0.0)
    for g in range(used):
        link(w, chain.groups, g)
        factor, latent = factor_of(chain.groups, g), pointer(chain.latent, chain.groups.start[g])
        value_of_factor(w, factor, BY_MEANS, chain.base, chain.base)
        for t in range(w.first_term[factor[0]]):
            for i in members(factor, w.term_at[t]):
                if 0 <= factor[i] < w.v.learned:
                    count_latent(chain, factor[i], latent[i])
    return int(held(used, int_scratch, float_scratch))


@final
class Gibbs(Inference):
    """Gibbs sampling, the default: draws latent counts and means in turn.

    Actions are draws from the exact posterior, as far as the chain has converged, at a cost that grows neither with the
    counts nor with the number of groups.

    Parameters
    ----------
    steps : int
        Steps of the chain per round.
    moves : int
        Joint moves of two means per step.
    visits : int
        Groups of earlier rounds whose latent counts are drawn again, per step, at most.

    Examples
    --------
    >>> import idbandits as idb
    >>> idb.Thompson(idb.models.position_based(3, 2), inference=Gibbs(steps=2), seed=0)
    Thompson('position-based', gibbs, steps=2, moves=5, visits=64; 0 rounds)
    """

    declared = DECLARED
    capabilities = frozenset({REVISE, FORGET, FEATURES, CHAIN, MOVE})
    learn = learner("Gibbs")(learn)

    def __init__(self, steps: int = 1, moves: int = 5, visits: int = 64) -> None:
        self.settings = {
            "steps": check_whole("steps", steps, 1, MOST_STEPS),
            "moves": check_whole("moves", moves, 0, MOST_STEPS),
            "visits": check_whole("visits", visits, 0, MOST_STEPS),
        }

    def refresh(self, evidence: Evidence, state: State, rng: Rng) -> None:
        """Make a step of all groups after a fit, if it does not take too long for the time until the next fit."""
        rounds, groups = int(state.ints[ROUNDS]), int(state.ints[USED])
        affordable = priors.SCHEDULE.allowance(rounds) * (int(state.ints[NEXT_FIT]) - rounds)
        if groups and rng.random() * VISIT * groups < affordable:
            go_on(evidence.packed, state, rng)

    def restored(self, evidence: Evidence, state: State) -> State:
        """Return the state with links and pseudo-counts derived from its groups."""
        restore(evidence.packed, state)
        return state

    def predictive(self, evidence: Evidence, state: State) -> Floats:
        """Return pseudo-counts whose means predict well: averages over recent draws of latent counts."""
        return DECLARED.section(state, evidence.learned, "average")

    def summary(self, evidence: Evidence, state: State, rng: Rng) -> Summary | None:
        """Summarise a chain that continues in the state; None if pseudo-counts describe the belief."""
        if state.ints[USED] == 0:
            return None
        plan = planned(evidence, state, whole=False)
        plan.announce(plan.warm_up + plan.steps)
        running = _Running(evidence, state, plan, rng)
        running.skip(plan.warm_up)
        return summary_of(plan.columns, plan.steps, running.record)

    def draws(self, evidence: Evidence, state: State, rng: Rng, number: int) -> Floats:
        """Return `number` joint draws of all means along a chain that goes on from a copy of the state, one per row."""
        plan = planned(evidence, state, whole=True)
        plan.announce(plan.warm_up + number)
        running = _Running(evidence, state.copy(), plan, rng)
        if evidence.regressions.number:
            running.skip(plan.warm_up)
        return running.record(number)[0]


@final
class _Running:
    """A chain that goes on in a state, by a plan."""

    def __init__(self, evidence: Evidence, state: State, plan: Planned, rng: Rng) -> None:
        self._evidence, self._state, self._plan, self._rng, self._done = evidence, state, plan, rng, 0

    def skip(self, steps: int) -> None:
        """Make steps and record nothing."""
        self._go_on(np.empty((steps, 0)), np.empty((steps, 0)))

    def record(self, steps: int) -> tuple[Floats, Floats]:
        """Make steps; return draws of means and of the parameters of regressions, one line per step."""
        means = np.empty((steps, len(self._plan.columns)))
        parameters = np.empty((steps, len(self._evidence.regressions.centre)))
        self._go_on(means, parameters)
        return means, parameters

    def _go_on(self, means: Floats, parameters: Floats) -> None:
        run_chain(self._evidence.packed, self._state, self._plan.packed, self._rng, self._done, means, parameters)
        self._done += len(means)
