"""Learning from counts: factors become groups of a state or, if they are too many, pseudo-counts."""

from __future__ import annotations

import numpy as np

from idbandits.agent.counts.counts import Counts
from idbandits.agent.encoding.era import Era
from idbandits.agent.learner import Learner
from idbandits.agent.snapshot import Snapshot
from idbandits.errors import IdbanditsError
from idbandits.inference import EP, Exact, Gibbs, Incremental, Moments, Variational
from idbandits.inference.counts.factors_of_counts import Factors, factors_of, inserted
from idbandits.inference.counts.large_logs import Log, most_probable, pseudo_counts
from idbandits.inference.gibbs.gibbs import DECLARED as CHAIN
from idbandits.inference.gibbs.gibbs import go_on
from idbandits.inference.rounds.round import THOROUGHLY
from idbandits.inference.transfer.row_index import Entries
from idbandits.kernel.array_types import Floats, Rng

from idbandits.inference.state.state import (  # isort: skip
    BASE, CAPACITY, EACH, LINKED, PLAYED, ROUNDS, TICK, USED, State, group_columns,
)  # fmt: skip

MOST_GROUPS = 300_000  # of a log that a state holds: more become pseudo-counts
MOST_BYTES = 600e6  # of the keys of these groups
LEAST_STEPS, MOST_STEPS = 40, 1000  # of a chain that begins at the most probable means
DRAWS = 10_000_000  # of factors in all steps: few factors with many rounds are slow to mix and fast to draw
WARM_UP = 0.25  # part of the steps


def counts_learned(known: Snapshot, era: Era, rng: Rng, counts: Counts) -> Snapshot:
    """Learn from counts of rounds of an era, by the only structure, in states that are copies."""
    known = known.hosting(era, rng)
    learner, state, content = known.learners[0], known.states[0], counts.content
    places = learner.evidence.entries.places_of_entries(era.model.derived(Entries))
    scale = _advance(learner, state, counts)
    factors = factors_of(content.tally, content.shapes, places, scale)
    uses = np.zeros(learner.evidence.learned)
    np.add.at(uses, places[: len(content.uses)], scale * content.uses)
    is_new = not state.ints[USED]
    if factors.number and (not state.ints[CAPACITY] or is_large(state, factors)):
        log = Log(factors, base_of(learner, state) + uses)
        uses += pseudo_counts(learner.evidence, log, rng)
        factors, is_new = factors.none(), False
    state = inserted(state, factors, rng)
    base_of(learner, state)[:] += uses
    if isinstance(learner.inference, Gibbs):
        CHAIN.section(state, learner.evidence.learned, "average")[:] += uses
    if isinstance(learner.inference, Variational):
        learner.inference.declared.section(state, learner.evidence.learned, "constants")[0] += scale * content.constant
    state = learner.inference.restored(learner.evidence, state)
    rounds = round(content.rounds)
    state.ints[[ROUNDS, PLAYED]] += rounds
    state = _settled(learner, state, rng, factors if is_new else factors.none())
    return known._replace(states=(state,))


def check_learnable(learner: Learner, counts: Counts) -> None:
    """Raise unless an agent can learn from counts."""
    if not are_learnable(learner):
        raise IdbanditsError(
            f"counts cannot be learned by this agent ({learner.name}), which learns rounds in their order; use "
            "idb.fit or update_many"
        )
    forget = learner.forget
    half_life = None if forget is None else forget.half_life.total_seconds()
    if half_life != (None if counts.clock is None else counts.clock.half_life):
        raise IdbanditsError(f"counts must be made with forget={forget!r}, as the agent has it, got {counts.clock}")


def are_learnable(learner: Learner) -> bool:
    """Return whether a learner can learn from counts of any log."""
    forget, inference = learner.forget, learner.inference
    if learner.keeps_ledger or (forget is not None and (not forget.by_time or isinstance(inference, EP))):
        return False
    if isinstance(inference, Exact):
        return not learner.model.latents
    return isinstance(inference, (EP, Gibbs, Incremental, Moments, Variational))


def is_large(state: State, factors: Factors) -> bool:
    """Return whether factors take too much memory as groups of a state."""
    each = 8 * ((3 if state.ints[LINKED] else 1) + int(state.ints[EACH]))
    return factors.number > MOST_GROUPS or each * factors.numbers() > MOST_BYTES


def base_of(learner: Learner, state: State) -> Floats:
    """Return the pseudo-counts of prior and certain uses, to which counts are added: a view."""
    first = int(state.ints[BASE]) if state.ints[CAPACITY] else 0
    return state.floats[first : first + learner.evidence.learned]


def _advance(learner: Learner, state: State, counts: Counts) -> float:
    """Let a state fade up to the clock of counts; return what is left of the weights of counts at the state's clock."""
    clock, tick = counts.clock, int(state.ints[TICK])
    if clock is None or not counts.content.rounds:
        return 1.0
    if clock.tick <= tick:
        return float(clock._replace(tick=tick).left(clock.tick))
    state.ints[TICK] = clock.tick
    if state.ints[ROUNDS]:
        keep, n = float(clock.left(tick)), learner.evidence.learned
        base, prior = base_of(learner, state), state.floats[n : 2 * n]
        base[:] = prior + keep * (base - prior)
        if state.ints[CAPACITY]:
            groups = group_columns(state.ints)
            groups.weights[:] *= keep
            groups.counts[:] = np.floor(groups.weights + groups.phases).astype(np.int64)
    return 1.0


def _settled(learner: Learner, state: State, rng: Rng, factors: Factors) -> State:
    """Bring the belief up to date.

    The chain of a state whose groups are these factors begins at the most probable means: from there it takes fewer
    steps than from the prior.
    """
    evidence = learner.evidence
    if not isinstance(learner.inference, Gibbs) or not factors.number or evidence.regressions.number:
        return learner.settled(state, rng, THOROUGHLY)
    n = evidence.learned
    alpha, average = CHAIN.section(state, n, "alpha"), np.zeros(n)
    alpha[:] = most_probable(evidence, factors, base_of(learner, state))
    steps = int(np.clip(DRAWS // factors.number, LEAST_STEPS, MOST_STEPS))
    first = int(WARM_UP * steps)
    for step in range(steps):
        go_on(evidence.packed, state, rng)
        average += alpha if step >= first else 0.0
    CHAIN.section(state, n, "average")[:] = average / (steps - first)
    return state
