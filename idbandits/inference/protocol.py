"""What an inference is, how kernels are handed it, and how a learner plays in compiled code."""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numba import types

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief
from idbandits.inference.ageing import age_of
from idbandits.inference.gibbs.summary import Summary
from idbandits.inference.regression.density import ACTING, draw_acting_counts
from idbandits.inference.regression.logistic import draw_logistic_rows
from idbandits.inference.regression.logistic import unpack as unpack_all
from idbandits.inference.rounds.evidence import Evidence, folded, literal
from idbandits.inference.rounds.workspace import Workspace, held, scratch, workspace
from idbandits.inference.rounds.workspace import unpack as unpack_parts
from idbandits.inference.state.state import ACTS_ON_MEANS, FIGURES, PLAYED, PRIOR, TICK, State, has_room, section
from idbandits.inference.state.state_file import DERIVED, PSEUDO_COUNTS, Layout
from idbandits.kernel.array_types import Bools, Floats, Ints, Rng
from idbandits.kernel.compile import (
    FLOATS,
    INTS,
    Kernel,
    function_at,
    generated,
    handle_type,
    kernel,
    linked,
    unmanaged,
)
from idbandits.kernel.rng import RNG
from idbandits.kernel.sampling import draw_rows, draw_some_rows
from idbandits.kernel.structs import Packed, pointer
from idbandits.solve.eligible import mark_readable
from idbandits.solve.solver import BUDGET, SOLVE, shuffle_idle
from idbandits.solve.solver import unpack as unpack_solver

DONE, IMPOSSIBLE, AMBIGUOUS, UNKNOWN = range(4)  # what `learn` says
LATER, NOW, THOROUGHLY = range(3)  # efforts of `learn`
MOST_STEPS = 10_000  # that a setting may ask for per round: sweeps, iterations, steps

Learn: TypeAlias = Callable[[Ints, Floats, Ints, Floats, Rng, Ints, Ints, int, int], int]


class Inference(Protocol):
    """How an agent learns. Settings are its attributes; what it learns is in a `State` that it is handed.

    `learn(program, numbers, ints, floats, rng, action, seen, times, effort)` takes in a round (`times` equal ones;
    taken back if negative) and brings the belief up to date: not yet with effort LATER, as after every round with NOW,
    as after many rounds at once with THOROUGHLY. It says DONE, or why it could not, and then nothing has changed.
    `program` and `numbers` are those of the `Evidence` that it asked for. A kernel with the signature LEARN runs inside
    the loop of `simulate`; a plain Python function works everywhere, at Python's speed.
    """

    @property
    def learn(self) -> Learn:
        """Takes in a round, as said above."""

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that make an equal inference."""

    def evidence(self, model: Model) -> Evidence:
        """The likelihood in the form that it learns from."""

    def start(self, model: Model, evidence: Evidence, rng: Rng) -> State:
        """The state before the first round; floats[:evidence.learned] are the pseudo-counts that actions use."""

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """Pseudo-counts of all learned entries; or draws of them, one per row, where pseudo-counts do not say all."""


@runtime_checkable
class Revisable(Protocol):
    """What an inference may have besides: whether `learn` can take rounds back exactly."""

    revisable: bool


@runtime_checkable
class Forgetful(Protocol):
    """What an inference may have besides: whether `learn` lets what was learned before fade, as `age_of` says."""

    forgets: bool


@runtime_checkable
class Regressing(Protocol):
    """What an inference may have besides: whether tables may have features.

    The second section of its states is then the prior. All pseudo-counts in its layout, and the first section, are
    shifted when the prior changes.
    """

    regresses: bool


@runtime_checkable
class Bridging(Protocol):
    """What an inference may have besides: whether tables may depend on contexts with features.

    It keeps nothing of a round but the pseudo-counts, and reads and changes only those of rows that the round is about;
    the second section of its states is the prior.
    """

    bridges: bool


@runtime_checkable
class Refreshed(Protocol):
    """What an inference may have besides: it is a chain, whose priors by features are drawn, and which goes on then."""

    def refresh(self, evidence: Evidence, state: State, rng: Rng) -> None:
        """Bring a state up to date with its prior, in one step that cannot be interrupted."""


@runtime_checkable
class Bounded(Protocol):
    """What an inference may have besides: a lower bound of the evidence."""

    def elbo(self, evidence: Evidence, state: State) -> float:
        """L(q) of the paper: the logarithm of the probability of all that was seen is at least this."""


@runtime_checkable
class Sampled(Protocol):
    """What an inference may have besides: joint draws of all means, where pseudo-counts do not say all."""

    def draws(self, evidence: Evidence, state: State, rng: Rng, number: int) -> Floats:
        """So many draws, one per row."""


@runtime_checkable
class Summarised(Protocol):
    """Optional capability: a summary of the belief where neither pseudo-counts nor few draws say all."""

    def summary(self, evidence: Evidence, state: State, rng: Rng) -> Summary | None:
        """Moments and draws of the live entries that pseudo-counts do not describe; None if there are none.

        The state may be changed: callers pass a copy.
        """


@runtime_checkable
class Predictive(Protocol):
    """What an inference may have besides: better predictions than by the pseudo-counts that actions are drawn from."""

    def predictive(self, evidence: Evidence, state: State) -> Floats:
        """Pseudo-counts to predict by: a part of the state's floats."""


@runtime_checkable
class Derived(Protocol):
    """What an inference may have besides: numbers of its state that are derived from the others."""

    def restored(self, evidence: Evidence, state: State) -> State:
        """A state from a file, with all that is derived."""


@runtime_checkable
class Described(Protocol):
    """What an inference may have besides: what the numbers of its state are, so that those from files are checked."""

    def layout(self, evidence: Evidence) -> Layout:
        """What is kept in files, and its range."""


NUDGE = 0.5  # of a pseudo-count: by how much interchangeable states differ at the start


def asymmetric(evidence: Evidence, rng: Rng) -> Floats:
    """The prior; a little off it where it cannot tell latent states apart: a symmetric belief may stay symmetric."""
    prior = evidence.prior.copy()
    moved = np.zeros(len(prior), np.bool_)
    for order in chain.from_iterable(evidence.relabellings):
        moved |= order != np.arange(len(prior))
    prior[moved] += NUDGE * rng.random(int(moved.sum()))
    return prior


class BuiltIn:
    """What the built-in inferences share: settings, and pseudo-counts that come first in the state and say all."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}

    def evidence(self, model: Model) -> Evidence:
        """The folded likelihood, or that with every latent node if the setting `literal` says so."""
        return model.derived(literal if self.settings.get("literal") else folded)

    def layout(self, evidence: Evidence) -> Layout:
        """Pseudo-counts and the prior; all else is derived."""
        n = evidence.learned
        return Layout([(PSEUDO_COUNTS, n), (DERIVED, FIGURES), (PSEUDO_COUNTS, n)])

    def belief(self, evidence: Evidence, state: State, rng: Rng) -> Floats:
        """The pseudo-counts."""
        return state.floats[: evidence.learned]


REQUIRED = ("learn", "settings", "evidence", "start", "belief")  # members of `Inference`


def coded(setting: str, word: Any, codes: Mapping[str, int]) -> int:
    """The number that stands for a word in the state."""
    if not isinstance(word, str) or word not in codes:
        raise IdbanditsError(f"{setting} is one of {', '.join(map(repr, codes))}, not {brief(word)}")
    return codes[word]


LEARN = types.int64(INTS, FLOATS, INTS, FLOATS, RNG, INTS, INTS, types.int64, types.int64)
PACKED = types.NamedTuple([INTS, FLOATS], Packed)
STATE = types.NamedTuple([INTS, FLOATS, FLOATS], State)
ACT = types.boolean(handle_type(SOLVE), PACKED, PACKED, STATE, RNG, INTS, INTS)
learn_at, solve_at = function_at(LEARN), function_at(SOLVE)


class Round(NamedTuple):
    """A round to learn from."""

    action: Ints
    seen: Ints
    times: int
    effort: int
    keep: float  # the part of all that was learned before that is kept, now that this round comes
    weight: float  # of this round; both are 1 unless the learner forgets


def work(w: Workspace, ints: Ints, floats: Floats, rng: Rng, round_: Round) -> int:
    """What `learner` puts into `_learn`."""
    return DONE


def _learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    int_scratch, float_scratch = scratch(program, numbers)
    w = workspace(program, numbers, int_scratch, float_scratch)
    age = age_of(ints, floats, w.v.learned, times)
    status = work(w, ints, floats, rng, Round(action, seen, times, effort, age.keep, age.weight))
    if status == DONE:
        ints[TICK], ints[PLAYED] = age.tick, ints[PLAYED] + max(0, times)
    return int(held(status, int_scratch, float_scratch))


def learner(name: str) -> Callable[[Any], Kernel]:
    """Make a part, `work(w, ints, floats, rng, round_)`, the kernel `learn` of the inference with this class name."""
    return lambda part: generated(_learn, LEARN, f"{name}.learn", part)


@kernel(types.int64(handle_type(LEARN), PACKED, STATE, RNG, types.int64[:, ::1], types.int64, FLOATS, types.int64))
def learn_all(
    learn: Any, evidence: Packed, state: State, rng: Rng, rounds: Ints, width: int, at: Floats, place: int
) -> int:
    """Take in rounds one by one, until one is refused or the state is full; how many were taken in.

    `at` has when they were played, to be put in this place of the state; it is empty if that does not matter.
    """
    ints, floats = state.ints, state.floats
    for t in range(len(rounds)):
        if not has_room(ints):
            return t
        if len(at) > 0:
            floats[place] = at[t]
        row = rounds[t]
        status = learn_at(learn)(evidence.ints, evidence.floats, ints, floats, rng, row[:width], row[width:], 1, LATER)
        if status != DONE:
            return t
    return len(rounds)


class Player(NamedTuple):
    """How a learner acts and learns, besides its state and its random numbers."""

    act: Kernel  # of the signature ACT
    learn: Kernel  # of the signature LEARN
    solve: Kernel  # of the signature SOLVE, handed to `act`
    solver: Packed  # what it works on
    evidence: Packed  # what `act` and `learn` work on

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels to compile."""
        return [self.act, self.solve, self.learn]


class Playing(Protocol):
    """A learner that a loop in compiled code can play: agents and baselines are."""

    diagram: Diagram
    state: State
    rng: Rng

    @property
    def player(self) -> Player | None:
        """How it acts and learns; None if it does so in Python."""

    def make_ready(self) -> None:
        """Give the state all that it needs for another round."""

    def eligible(self, allowed: Any) -> Ints:
        """The choices that may be made, as numbers; none if all may."""

    def copy(self, seed: Any = None) -> Self:
        """A learner that knows the same; with its own random numbers if a seed is given."""


@linked
def draw_means(evidence: Packed, state: State, readable: Bools, spread: float, rng: Rng, means: Floats) -> None:
    """Draw every row of learned means that actions read; if some are `readable`, only these."""
    _, v, r, q = unpack_all(evidence.ints, evidence.floats)
    alpha = state.floats
    if r.number > 0:
        acting = np.empty(v.live)
        prior = section(alpha, PRIOR, v.learned)
        draw_acting_counts(r, alpha, prior, state.fits, readable, spread, rng, acting)
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
    """Whether a state begins with means, or with pseudo-counts that means can be drawn from."""
    sound, numbers = True, state.floats
    if state.ints[ACTS_ON_MEANS]:
        for i in range(learned):
            sound &= 0.0 <= numbers[i] <= 1.0
    else:
        for i in range(learned):
            sound &= 0.0 <= numbers[i] < np.inf
    return sound


@linked
def act_once(
    solve: Any, solver: Packed, evidence: Packed, state: State, rng: Rng, action: Ints, eligible: Ints
) -> bool:
    """Draw means and put the best action under them into `action`, whose contexts are given.

    Only `eligible` choices are made, and only the means that these may read are drawn. False, and nothing is drawn, if
    the state does not hold numbers to act on: `no_action` says which.
    """
    _, v, _ = unpack_parts(evidence.ints, evidence.floats)
    c, s = unpack_solver(solver.ints, solver.floats)
    if not is_sound(state, v.live):
        return False
    if state.ints[ACTS_ON_MEANS]:
        _, _, sound = solve_at(solve)(solver.ints, solver.floats, state.floats, True, action, eligible, BUDGET)
    else:
        means = np.empty(v.live)
        if len(eligible) > 0:
            readable = np.zeros(v.live, np.bool_)
            mark_readable(c, s, eligible, action, readable)
            draw_means(evidence, state, readable, ACTING, rng, means)
        else:
            draw_means(evidence, state, np.empty(0, np.bool_), ACTING, rng, means)
        _, _, sound = solve_at(solve)(solver.ints, solver.floats, means, True, action, eligible, BUDGET)
    if sound:
        shuffle_idle(s, rng, action, eligible)
    return bool(sound)


@kernel(ACT)
def act(solve: Any, solver: Packed, evidence: Packed, state: State, rng: Rng, action: Ints, eligible: Ints) -> bool:
    """How a learner that draws means acts: see `act_once`."""
    return act_once(solve, solver, evidence, state, rng, action, eligible)


def no_action(who: str, d: Diagram, state: State) -> IdbanditsError:
    """The error of a learner that found no action in this state: it names the table whose numbers are to blame."""
    first, by_means = 0, bool(state.ints[ACTS_ON_MEANS])
    what, needed = ("means", "lie in [0, 1]") if by_means else ("pseudo-counts", "are positive and finite")
    for table in d.learned.values():
        numbers = state.floats[first : first + table.size]
        first += table.size
        for wrong in numbers[~((numbers >= 0) & (numbers <= 1) if by_means else (numbers > 0) & (numbers < np.inf))]:
            return IdbanditsError(f"{who}: the {what} of learned table {table.name!r} {needed}; one is {wrong}")
    return IdbanditsError(f"{who}: no action can be found by {what} that are not those of probabilities")


@kernel(types.boolean(PACKED, STATE, types.float64, RNG, types.float64[::1]))
def draw(evidence: Packed, state: State, spread: float, rng: Rng, means: Floats) -> bool:
    """A draw of all means that actions read; False, and nothing is drawn, if the state does not hold numbers.

    `spread` is a factor on the deviations of regressions; ACTING is that of actions.
    """
    if not is_sound(state, len(means)):
        return False
    if state.ints[ACTS_ON_MEANS]:
        means[:] = state.floats[: len(means)]
    else:
        draw_means(evidence, state, np.empty(0, np.bool_), spread, rng, means)
    return True


def joint_draws(inference: Inference, evidence: Evidence, state: State, rng: Rng, number: int) -> Floats | None:
    """So many draws of all means from a belief, one per row; None if the state does not hold numbers to draw from."""
    if isinstance(inference, Sampled):
        return inference.draws(evidence, state, rng, number)
    belief = inference.belief(evidence, state, rng)
    if belief.ndim == 2:  # draws already: particles
        return belief[rng.integers(len(belief), size=number)]
    means = np.empty((number, evidence.live))
    floats = state.floats.copy()
    floats[: evidence.learned] = belief
    acting = State(state.ints, floats, state.fits)
    for row in means:
        if not draw(evidence.packed, acting, 1.0, rng, row):
            return None
    return means
