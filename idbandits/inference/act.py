"""Acting in compiled code: means are drawn from a state, and the best action under them is found."""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numba import types

from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError
from idbandits.inference.regression.density import ACTING, draw_acting_counts
from idbandits.inference.regression.logistic import draw_logistic_rows
from idbandits.inference.regression.logistic import unpack as unpack_all
from idbandits.inference.rounds.workspace import Parts
from idbandits.inference.state.state import ACTS_ON_MEANS, STATE, State, prior_section
from idbandits.kernel.array_types import Bools, Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, INTS, Kernel, function_at, handle_type, inlined, kernel, linked, unmanaged
from idbandits.kernel.rng import RNG
from idbandits.kernel.sampling import draw_listed_rows, draw_rows, draw_some_rows
from idbandits.kernel.structs import PACKED, Packed, pointer
from idbandits.solve.eligible import mark_readable, readable_rows
from idbandits.solve.solver import BUDGET, SOLVE, shuffle_idle
from idbandits.solve.solver import unpack as unpack_solver

ACT = types.boolean(handle_type(SOLVE), PACKED, PACKED, STATE, RNG, INTS, INTS, FLOATS)
BATCH = 100  # draws between checks for interruptions
NOTHING = np.empty(0, dtype=np.int64)
MOST_DRAWN = float(np.finfo(np.float64).max)  # of pseudo-counts: all that are finite
solve_at = function_at(SOLVE)


class Player(NamedTuple):
    """Kernels by which a learner acts and learns, with their constant arguments."""

    act: Kernel  # of the signature ACT
    learn: Kernel  # of the signature LEARN
    solve: Kernel  # of the signature SOLVE, passed to `act`
    solver: Packed  # argument of `solve`
    evidence: Packed  # argument of `act` and `learn`

    @property
    def kernels(self) -> list[Kernel]:
        """Return the kernels to compile."""
        return [self.act, self.solve, self.learn]


class Playing(Protocol):
    """Learner that a loop in compiled code can play: agents and baselines are."""

    diagram: Diagram
    state: State
    rng: Rng

    @property
    def player(self) -> Player | None:
        """Return how it acts and learns; None if it does so in Python."""

    def make_ready(self) -> None:
        """Give the state all that it needs for another round."""

    def eligible(self, allowed: Any) -> Ints:
        """Return the choices that may be made, as numbers; none if all may."""

    def copy(self, seed: Any = None) -> Self:
        """Return a learner that knows the same; with its own random numbers if a seed is given."""


@linked
def draw_means(evidence: Packed, state: State, readable: Bools, spread: float, rng: Rng, means: Floats) -> None:
    """Draw every row of learned means that actions read; if some are `readable`, only these."""
    _, v, r, q = unpack_all(evidence.ints, evidence.floats)
    alpha = state.floats
    if r.number > 0:
        acting = np.empty(v.live)
        draw_acting_counts(r, alpha, prior_section(alpha, v.learned), state.fits, readable, spread, rng, acting)
        alpha = acting
    for i in range(q.others):
        if len(readable) > 0:
            draw_some_rows(v.size, q.other_start[i], q.other_end[i], readable, alpha, rng, means)
        else:
            draw_rows(v.size, q.other_start[i], q.other_end[i], alpha, rng, means)
    if q.number > 0:
        draw_logistic_rows(q, pointer(state.fits, 0), readable, rng, means)


@unmanaged
def is_sound(state: State, learned: int) -> bool:
    """Return whether a state begins with means, or with pseudo-counts that means can be drawn from."""
    sound, numbers = True, state.floats
    most = 1.0 if state.ints[ACTS_ON_MEANS] else MOST_DRAWN
    for i in range(learned):
        sound &= 0.0 <= numbers[i] <= most
    return sound


@inlined
def put_features(v: Parts, state: State, features: Floats) -> None:
    """Put the features of a request where logistic tables read them; between calls, they are zero."""
    for i in range(len(features)):
        state.fits[v.first_feature + i] = features[i]


@inlined
def remove_features(v: Parts, state: State, features: Floats) -> None:
    """Undo `put_features`."""
    for i in range(len(features)):
        state.fits[v.first_feature + i] = 0.0


@linked
def act_once(
    solve: Any, solver: Packed, evidence: Packed, state: State, rng: Rng, action: Ints, eligible: Ints, features: Floats
) -> bool:
    """Draw means and put the best action under them into `action`, whose contexts are given.

    Only `eligible` choices are made, and only the means that these may read are drawn. Return False, and draw nothing,
    if the state does not hold numbers to act on: `no_action` finds out which.
    """
    _, v, r, q = unpack_all(evidence.ints, evidence.floats)
    c, s = unpack_solver(solver.ints, solver.floats)
    is_listed = len(eligible) > 0 and r.number == 0 and q.number == 0 and not state.ints[ACTS_ON_MEANS]
    if not is_listed and not is_sound(state, v.live):
        return False
    means = state.floats if state.ints[ACTS_ON_MEANS] else np.empty(v.live)
    if is_listed:
        if not draw_listed_rows(v.size, readable_rows(c, s, eligible, action), state.floats, rng, means):
            return False
    elif not state.ints[ACTS_ON_MEANS]:
        readable = np.zeros(v.live if len(eligible) > 0 else 0, np.bool_)
        if len(eligible) > 0:
            mark_readable(c, s, eligible, action, readable)
        put_features(v, state, features)
        draw_means(evidence, state, readable, ACTING, rng, means)
        remove_features(v, state, features)
    _, _, sound = solve_at(solve)(solver.ints, solver.floats, means, True, action, eligible, BUDGET)
    if sound:
        shuffle_idle(s, rng, action, eligible)
    return bool(sound)


@kernel(ACT)
def act(
    solve: Any, solver: Packed, evidence: Packed, state: State, rng: Rng, action: Ints, eligible: Ints, features: Floats
) -> bool:
    """Act by a state that means are drawn from: see `act_once`."""
    return act_once(solve, solver, evidence, state, rng, action, eligible, features)


class Counted(NamedTuple):
    """Tally of repeated actions."""

    wanted: Ints  # the action whose draws are counted; empty: none
    first: Ints  # of a decision: where its choices begin in `counts`
    counts: Ints  # of a choice: how often it was made
    draws: int


COUNTED = types.NamedTuple([INTS, INTS, INTS, types.int64], Counted)


class Request(NamedTuple):
    """Request to act on."""

    action: Ints  # contexts are given, decisions are to be made
    eligible: Ints  # choices that may be made, as numbers; none if all may
    features: Floats  # of contexts


REQUEST = types.NamedTuple([INTS, INTS, FLOATS], Request)


@kernel(types.int64(handle_type(SOLVE), PACKED, PACKED, STATE, RNG, REQUEST, COUNTED))
def act_repeatedly(
    solve: Any, solver: Packed, evidence: Packed, state: State, rng: Rng, request: Request, tally: Counted
) -> int:
    """Act many times and count choices; return how often the wanted action was taken, -1 if none can be found."""
    hits, action = 0, request.action
    for _ in range(tally.draws):
        if not act_once(solve, solver, evidence, state, rng, action, request.eligible, request.features):
            return -1
        for k in range(len(tally.first)):
            tally.counts[tally.first[k] + action[k]] += 1
        same = len(tally.wanted) > 0
        for k in range(len(tally.wanted)):
            same &= action[k] == tally.wanted[k]
        hits += same
    return hits


@kernel(types.boolean(PACKED, STATE, types.float64, RNG, FLOATS))
def draw(evidence: Packed, state: State, spread: float, rng: Rng, means: Floats) -> bool:
    """Draw all means that actions read; return False, and draw nothing, if the state does not hold numbers.

    `spread` is a factor on the deviations of regressions; ACTING is that of actions.
    """
    if not is_sound(state, len(means)):
        return False
    if state.ints[ACTS_ON_MEANS]:
        means[:] = state.floats[: len(means)]
    else:
        draw_means(evidence, state, np.empty(0, np.bool_), spread, rng, means)
    return True


def no_action(who: str, d: Diagram, state: State) -> IdbanditsError:
    """Return the error of a learner that found no action in this state; it names the table with invalid numbers."""
    first, by_means = 0, bool(state.ints[ACTS_ON_MEANS])
    what, needed = ("means", "lie in [0, 1]") if by_means else ("pseudo-counts", "be positive and finite")
    for table in d.learned.values():
        numbers = state.floats[first : first + table.size]
        first += table.size
        for wrong in numbers[~((numbers >= 0) & (numbers <= 1) if by_means else (numbers > 0) & (numbers < np.inf))]:
            return IdbanditsError(f"{who}: the {what} of learned table {table.name!r} must {needed}, got {wrong}")
    return IdbanditsError(f"{who}: no action can be found by {what} that are not those of probabilities")
