"""Gibbs sampling: latent counts given means, means given latent counts; converges to the exact posterior.

Every group keeps the latent counts that were last drawn for it, so a round costs the same however many groups there
are: those that the round belongs to are drawn anew, and some others in turn. Where only a product of two means is
known, these steps are tiny; `moves` adds steps that change both and keep their product.
"""

from typing import final

import numpy as np
from numba import types

from idbandits.circuit.model import Model
from idbandits.errors import check_whole
from idbandits.inference import priors
from idbandits.inference.ageing import fade, thin
from idbandits.inference.chain import Chain, count_latent, draw_row_once, link, visit
from idbandits.inference.counting import count_round, factor_of, look_up
from idbandits.inference.evidence import Evidence
from idbandits.inference.factors import value_of_factor
from idbandits.inference.moving import move_pairs
from idbandits.inference.protocol import DONE, LATER, MOST_STEPS, NOW, BuiltIn, Round, learner
from idbandits.inference.rescaling import draw_priors, move_tables
from idbandits.inference.workspace import MEANS as BY_MEANS
from idbandits.inference.workspace import Workspace, held, scratch, workspace
from idbandits.kernel.columns import COUNTS, DERIVED, PSEUDO_COUNTS, Layout
from idbandits.kernel.compiling import FLOATS, INTS, bare, kernel
from idbandits.kernel.dropping import drop_empty_groups
from idbandits.kernel.fields import pointer
from idbandits.kernel.random import RNG
from idbandits.kernel.types import Floats, Ints, Rng

from idbandits.kernel.states import (  # isort: skip
    BEFORE, FIGURES, NEXT_FIT, ROUNDS, SETTING, USED, State, copy, drawable, figures, groups_in, section, with_groups,
)  # fmt: skip

STEPS, MOVES, VISITS, NEXT = range(SETTING, SETTING + 4)  # of the header; NEXT: the group whose turn it is
EPOCH = 0  # of the figures: how often means were drawn anew
# sections of the floats: pseudo-counts given latent counts, the prior, pseudo-counts of what is certain, averages of
# the first over recent rounds, sums of latent counts, drawn means, and the epoch in which each row of them was drawn
ALPHA, PRIOR, BASE, AVERAGE, COUNTED, MEANS, STAMPS = range(7)
MANY_STEPS = 200  # after many rounds at once
TABLE_MOVES = 6  # in a step of all groups
CHAIN = 2000  # steps that describe the posterior
MOST_VISITS = 10_000  # of groups, in one of these steps
VISIT = 600.0  # about how many nanoseconds a step takes per group


@bare
def learn(w: Workspace, ints: Ints, floats: Floats, rng: Rng, round_: Round) -> int:
    """Count the round, then draw latent counts anew."""
    chain = chain_in(w, ints, floats, pointer(floats, 0), False)
    average, prior = chain.average, chain.prior
    if round_.keep < 1.0:
        status = look_up(w, chain.groups, round_)
        if status != DONE:
            return status
        forget(w, chain, ints, floats, rng, round_.keep)
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
        for _ in range(ints[STEPS]):
            begin_epoch(chain)
            if round_.effort == NOW:
                move_pairs(w, chain, ints[MOVES], rng)
            for i in range(w.places[0]):
                visit(w, chain, w.groups[i], rng)
            for _ in range(min(ints[VISITS], ints[USED]) if round_.effort == NOW else 0):
                ints[NEXT] = ints[NEXT] + 1 if ints[NEXT] + 1 < ints[USED] else 0
                visit(w, chain, ints[NEXT], rng)
            blend(w, chain, average, 1.0 / (1.0 + 0.5 * np.sqrt(max(0, ints[ROUNDS]))))
    else:
        copy(chain.alpha, average, w.v.learned)
        for _ in range(max(ints[STEPS], MANY_STEPS)):
            step(w, chain, ints, rng, ints[USED])
            blend(w, chain, average, 0.05)
    return DONE


@bare
def forget(w: Workspace, chain: Chain, ints: Ints, floats: Floats, rng: Rng, keep: float) -> None:
    """Let all that was learned fade: what is certain, and the rounds of groups, whose latent counts are drawn anew."""
    fade(chain.base, chain.prior, w.v.learned, keep)
    for e in range(w.v.learned):
        count_latent(chain, e, 0.0)
    begin_epoch(chain)
    for g in range(ints[USED]):
        if thin(chain.groups, g, keep):
            visit(w, chain, g, rng)
    drop_empty_groups(ints, floats)


@bare
def blend(w: Workspace, chain: Chain, average: Floats, rate: float) -> None:
    """Move averages towards the present pseudo-counts."""
    for e in range(w.v.learned):
        average[e] += rate * (chain.alpha[e] - average[e])


@bare
def chain_in(w: Workspace, ints: Ints, floats: Floats, fits: Floats, has_fits: bool) -> Chain:
    """The chain of a state."""
    learned = w.v.learned
    return Chain(
        groups_in(ints), section(floats, ALPHA, learned), section(floats, BASE, learned),
        section(floats, PRIOR, learned), section(floats, AVERAGE, learned),
        section(floats, COUNTED, learned), section(floats, MEANS, learned), section(floats, STAMPS, learned),
        pointer(figures(floats, learned), EPOCH), fits, has_fits, pointer(floats, ints[BEFORE]),
    )  # fmt: skip


@bare
def begin_epoch(chain: Chain) -> None:
    """From now on, means are drawn anew when they are needed."""
    chain.epoch[0] += 1.0


@bare
def step(w: Workspace, chain: Chain, ints: Ints, rng: Rng, visits: int) -> None:
    """Draw all means, move them, and draw the latent counts of so many groups."""
    v = w.v
    begin_epoch(chain)
    e = 0
    while e < v.learned:
        draw_row_once(v, chain, e, rng)
        e += v.size[e]
    if visits == ints[USED]:
        move_tables(w, chain, TABLE_MOVES, rng)
    move_pairs(w, chain, ints[MOVES], rng)
    for _ in range(visits):
        ints[NEXT] = ints[NEXT] + 1 if ints[NEXT] + 1 < ints[USED] else 0
        visit(w, chain, ints[NEXT], rng)


@kernel(types.int64(INTS, FLOATS, INTS, FLOATS, FLOATS, RNG, types.float64[:, ::1]))
def run_chain(program: Ints, numbers: Floats, ints: Ints, floats: Floats, fits: Floats, rng: Rng, draws: Floats) -> int:
    """Draws of the means along a chain that goes on from a state, one per row; how many."""
    int_scratch, float_scratch = scratch(program, numbers)
    w = workspace(program, numbers, int_scratch, float_scratch)
    chain = chain_in(w, ints, floats, pointer(fits, 0), True)
    w.places[0] = 0  # there is no round to start from
    for i in range(len(draws)):
        if w.r.number > 0:
            draw_priors(w, chain, rng)
        step(w, chain, ints, rng, min(ints[USED], MOST_VISITS))
        copy(chain.means, pointer(draws, i * w.v.learned), w.v.learned)
    return int(held(len(draws), int_scratch, float_scratch))


@kernel(types.int64(INTS, FLOATS, INTS, FLOATS, FLOATS, RNG))
def go_on(program: Ints, numbers: Floats, ints: Ints, floats: Floats, fits: Floats, rng: Rng) -> int:
    """One step of all groups, in which regressions move with their tables."""
    int_scratch, float_scratch = scratch(program, numbers)
    w = workspace(program, numbers, int_scratch, float_scratch)
    chain = chain_in(w, ints, floats, pointer(fits, 0), True)
    w.places[0] = 0
    step(w, chain, ints, rng, ints[USED])
    return int(held(ints[USED], int_scratch, float_scratch))


@kernel(types.int64(INTS, FLOATS, INTS, FLOATS))
def restore(program: Ints, numbers: Floats, ints: Ints, floats: Floats) -> int:
    """Derive the links and the pseudo-counts of a state from its groups and their latent counts."""
    int_scratch, float_scratch = scratch(program, numbers)
    w = workspace(program, numbers, int_scratch, float_scratch)
    chain = chain_in(w, ints, floats, pointer(floats, 0), False)
    for e in range(w.v.learned):
        chain.counts[e] = 0.0
        count_latent(chain, e, 0.0)
    for g in range(ints[USED]):
        link(w, chain.groups, g)
        factor, latent = factor_of(chain.groups, g), pointer(chain.latent, chain.groups.start[g])
        value_of_factor(w, factor, BY_MEANS, chain.base, chain.base)
        for t in range(w.first_term[factor[0]]):
            at = w.term_at[t]
            for i in range(at + 1, at + 1 + factor[at]):
                if 0 <= factor[i] < w.v.learned:
                    count_latent(chain, factor[i], latent[i])
    return int(held(ints[USED], int_scratch, float_scratch))


@final
class Gibbs(BuiltIn):
    """Gibbs sampling: `steps` per round, each with `moves` of two means at once and visits to `visits` groups at most.

    Its actions are draws from the exact posterior, as far as the chain has converged, at a cost that grows neither with
    the counts nor with the number of groups.
    """

    revisable = True
    forgets = True
    regresses = True
    learn = learner("Gibbs")(learn)

    def __init__(self, steps: int = 1, moves: int = 5, visits: int = 64) -> None:
        self.settings = {
            "steps": check_whole("steps", steps, 1, MOST_STEPS),
            "moves": check_whole("moves", moves, 0, MOST_STEPS),
            "visits": check_whole("visits", visits, 0, MOST_STEPS),
        }

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The prior."""
        n, p = evidence.learned, evidence.prior
        floats = np.concatenate([p, np.zeros(FIGURES), p, p, p, np.zeros(n), p, np.full(n, -1.0)])
        settings = (*self.settings.values(), 0)
        return with_groups(floats, evidence.most_groups, evidence.most_numbers, 1, settings, 2 * n)

    def refresh(self, evidence: Evidence, state: State, rng: Rng) -> None:
        """After a fit: a step of all groups, if it does not take too long for the time until the next fit."""
        rounds, groups = int(state.ints[ROUNDS]), int(state.ints[USED])
        affordable = priors.SCHEDULE.allowance(rounds) * (int(state.ints[NEXT_FIT]) - rounds)
        if groups and rng.random() * VISIT * groups < affordable:
            go_on(*evidence.packed, *state, rng)

    def layout(self, evidence: Evidence) -> Layout:
        """The prior, the pseudo-counts of what is certain, averages, and latent counts; all else is derived."""
        n = evidence.learned
        floats = [(DERIVED, n + FIGURES), (PSEUDO_COUNTS, 3 * n)]
        return Layout(floats, [(COUNTS, 1)], [(DERIVED, 3), (COUNTS, 1)], evidence.check_factors)

    def restored(self, evidence: Evidence, state: State) -> State:
        """The same state with all that is derived."""
        restore(*evidence.packed, *state[:2])
        return state

    def predictive(self, evidence: Evidence, state: State) -> Floats:
        """Pseudo-counts whose means predict well: averages over recent draws of latent counts."""
        first = AVERAGE * evidence.learned + FIGURES
        return state.floats[first : first + evidence.learned]

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """Draws along a chain that goes on from the state; where nothing is latent, the pseudo-counts say all."""
        if state.ints[USED] == 0:
            return state.floats[: evidence.learned]
        return self.draws(evidence, state, rng, CHAIN)

    def draws(self, evidence: Evidence, state: State, rng: Rng, number: int) -> Floats:
        """Joint draws of all means along a chain that goes on from a copy of the state, one per row."""
        draws = np.empty((number, evidence.learned))
        run_chain(*evidence.packed, *state.copy(), rng, draws)
        for exchanges in evidence.relabellings:  # what cannot be told apart, a chain may take ages to exchange
            exchange_states(draws, exchanges, rng)
        return draws


def exchange_states(draws: Floats, exchanges: list[Ints], rng: Rng) -> None:
    """Put interchangeable states of each draw into any order, all equally likely, by exchanges of neighbours."""
    for last in range(len(exchanges)):  # the next state goes to any place among those before it
        place = rng.integers(last + 2, size=len(draws))
        for k in range(last, -1, -1):
            moved = place <= k
            draws[moved] = draws[moved][:, exchanges[k]]
