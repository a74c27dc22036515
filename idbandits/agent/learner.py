"""What an agent is besides its state: a diagram and an inference, ready to act and to learn in any state."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.agent.marginals import Tally
from idbandits.agent.posterior import Posterior, means_of, posteriors
from idbandits.circuit.model import Action, Model, compile
from idbandits.diagram.declare import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import ODD, IdbanditsError, ImpossibleObservationError, ObservationError, brief, check_whole
from idbandits.inference import BY_NAME, DONE, LATER, NOW, Evidence, Inference, Layout, beginning, check_forgetful

from idbandits.inference import check_bridging, check_regressing, name_of  # isort: skip
from idbandits.inference.entries import Entries, RetiredRow
from idbandits.inference.evidence import Longest
from idbandits.inference.exact import refuse_ambiguous
from idbandits.inference.forgetting import NO_TIMES, Forget, When, when_all_played, when_played
from idbandits.inference.mixing import by_modes
from idbandits.inference.priors import fit_regressions, sections_of
from idbandits.inference.regression import ACTING, put_back
from idbandits.inference.repeating import NOTHING, count_acts
from idbandits.inference.requests import bridged, request_in
from idbandits.inference.sites import learn_request
from idbandits.kernel.compiling import Kernel
from idbandits.kernel.types import Floats, Ints, Rng
from idbandits.solve.best import BUDGET, Solution, Solver

from idbandits.inference.protocol import (  # isort: skip
    AMBIGUOUS, IMPOSSIBLE, UNKNOWN, Described, Player, Predictive, Refreshed, Revisable, act, draw,
    joint_draws, learn_all, no_action,
)  # fmt: skip
from idbandits.kernel.states import AT, ROUNDS, ZONE, State, grown  # isort: skip

INEXACT = " or ".join(", ".join(repr(name) for name in BY_NAME if name != "exact").rsplit(", ", 1))
REVISABLE = " and ".join(", ".join(name for name, kind in BY_NAME.items() if kind.revisable).rsplit(", ", 1))


ALTERNATIONS = 3  # of fits and of inference, after many rounds at once


NO_REQUEST: Floats = np.empty(0)  # where no context has features


class Round(NamedTuple):
    """A round as numbers: decisions and contexts, the observed nodes, -1 where nothing was seen, and its request."""

    action: Ints
    seen: Ints
    request: Floats = NO_REQUEST  # the features of contexts that have some


class Past(NamedTuple):
    """What is known of diagrams that an agent was in before."""

    retired: tuple[RetiredRow, ...] = ()
    constants: tuple[float, ...] = ()  # known values that only earlier rounds depend on
    longest: Longest = Longest(0, 0)  # factors of earlier rounds
    earlier: tuple[Diagram, ...] = ()  # the latest first


class Settings(NamedTuple):
    """How an agent learns and acts, whatever its diagram."""

    inference: Inference
    effort: float
    forget: Forget | None


NO_PAST = Past()


@final
class Learner:
    """A diagram and an inference: it acts by states and learns in them, and has none of its own.

    States are changed in place, or larger ones take their place. Locks are the callers' business.
    """

    def __init__(self, d: Diagram, model: Model, settings: Settings, past: Past = NO_PAST) -> None:
        self.diagram, self.model, self.settings, self.past = d, model, settings, past
        self.inference, effort, self.forget = settings
        check_forgetful(self.inference, self.forget)
        self.evidence = evidence_of(self.inference, model)
        if past != NO_PAST:
            self.evidence = self.evidence.about(Entries(model, past.retired, past.constants), past.longest)
        self.solver = model.derived(Solver)
        self.solve, self.program = self.solver.kernel_for(effort), self.solver.program_for(effort)
        self.learn: Any = self.inference.learn
        self.blank = Round(
            self.solver.blank_action(None, check=False), np.full(len(model.observed), -1, dtype=np.int64)
        )
        self._latest: tuple[Any, Any, Ints] = (None, None, self.blank.action)
        self._sections = self._sections_to_shift()
        check_bridging(self.inference, model)
        self._has_requests = self.evidence.logistics.number > 0
        self._states = [(n.name, {(type(v), v): i for i, v in enumerate(n.values)}) for n in model.observed]

    def _sections_to_shift(self) -> Ints:
        """Where pseudo-counts begin in states that change with the prior; none if no table has features."""
        check_regressing(self.inference, self.evidence)
        if not self.evidence.regressions.number:
            return NOTHING
        layout: Any = self.inference.layout(self.evidence) if isinstance(self.inference, Described) else Layout(())
        if not isinstance(layout, Layout):
            raise IdbanditsError(f"{self.name}: `layout` returns a Layout, not {brief(layout)}")
        return sections_of(layout, self.evidence.learned)

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"inference {name_of(self.inference)!r}"

    @property
    def player(self) -> Player | None:
        """How it acts and learns in compiled code; None if its inference is not a kernel, or rounds need more."""
        by_time = self.forget is not None and self.forget.by_time
        if not isinstance(self.learn, Kernel) or by_time or self._has_requests:
            return None
        return Player(act, self.learn, self.solve, self.program, self.evidence.packed)

    def guest(self, d: Diagram) -> Learner:
        """A learner of another diagram for the states of this one."""
        other = Learner(d, compile(d), self.settings)
        other.evidence = other.evidence.about(self.evidence.entries, self.evidence.longest)
        return other

    def beginning(self, rng: Rng) -> State:
        """The state before the first round."""
        return beginning(self.inference, self.model, self.evidence, rng, self.forget)

    # -- rounds as numbers ---------------------------------------------------------------------------------------------

    def remember(self, action: dict[str, Label], context: Action | None, vector: Ints) -> None:
        """Remember the numbers of an action that was just chosen: it is likely to be the next that is asked for."""
        self._latest = dict(action), None if context is None else dict(context), vector

    def action_vector(self, action: Action, context: Action | None) -> Ints:
        """An action and its context as numbers."""
        last_action, last_context, vector = self._latest
        try:  # faster than checking again what `act` chose
            if _are_same(action, last_action) and (context is last_context or _are_same(context, last_context)):
                return vector
        except ODD:  # an array, or whatever else, where a value is expected
            pass
        return self.model.action_vector(action, context)

    def round_of(self, row: Ints, request: Floats = NO_REQUEST) -> Round:
        """A round that stands in one row."""
        width = len(self.blank.action)
        return Round(row[:width], row[width:], request)

    def seen(self, observation: Mapping[str, Any]) -> Ints:
        """An observation as numbers."""
        if type(observation) is dict and len(observation) == len(self._states):
            try:
                return np.array([place[type(v := observation[name]), v] for name, place in self._states], np.int64)
            except ODD:
                pass  # something is missing, of another type, or to be refused
        states = self.model.observation_states(observation)
        return np.array([states.get(n.name, -1) for n in self.model.observed], dtype=np.int64)

    def request(self, context: Action | None) -> Floats:
        """The features of contexts that have some, as one vector: the context was checked before."""
        return self.model.request_vector(context) if self._has_requests else NO_REQUEST

    @contextlib.contextmanager
    def requested(self, state: State, request: Floats = NO_REQUEST) -> Iterator[None]:
        """Make a request the present one of a state for a while; else, that is one whose features are all zero."""
        if not self._has_requests:
            yield
            return
        place = request_in(self.evidence, state)
        place[:] = request if len(request) else 0.0
        try:
            yield
        finally:
            place[:] = 0.0

    def without_request(self, state: State) -> State:
        """The state, changed in place: a request that an interrupted call left there is not the present one."""
        if self._has_requests:
            request_in(self.evidence, state)[:] = 0.0
        return state

    # -- acting --------------------------------------------------------------------------------------------------------

    def choose(self, state: State, rng: Rng, action: Ints, eligible: Ints, request: Floats = NO_REQUEST) -> None:
        """Complete an action, whose contexts are given, by the choices that are best under means that are drawn."""
        if len(request):
            with self.requested(state, request):
                found = act.entry(self.solve.handle, self.program, self.evidence.packed, state, rng, action, eligible)
        else:
            found = act.entry(self.solve.handle, self.program, self.evidence.packed, state, rng, action, eligible)
        if not found:
            raise no_action(self.name, self.diagram, state)

    def best(self, state: State, rng: Rng, action: Ints, eligible: Ints) -> Solution:
        """The action that is best under the mean of the belief."""
        if isinstance(self.inference, Predictive):
            belief = self.inference.predictive(self.evidence, state)
        else:
            belief = self.inference.belief(self.evidence, state, copy.deepcopy(rng))
        if len(self._sections) and belief.ndim == 1 and isinstance(self.inference, Refreshed):
            belief = by_modes(self.evidence, state, belief)
        belief = bridged(self.evidence, state, belief)
        means = means_of(self.model.learned.values(), belief[..., : self.evidence.live])
        value, bound, sound = self.solve.entry(*self.program, means, True, action, eligible, BUDGET)
        if not sound:
            raise no_action(self.name, self.diagram, state)
        return Solution(self.model.action_of(action), value, bound == value, bound)

    def count_acts(
        self, state: State, rng: Rng, action: Ints, eligible: Ints, number: int, tally: Tally | None = None,
        wanted: Ints = NOTHING,
    ) -> int:  # fmt: skip
        """Act so many times and tally the choices; how often this was the wanted action."""
        first, counts = (NOTHING, NOTHING) if tally is None else (tally.first, tally.counts)
        hits = count_acts(
            self.solve, self.program, self.evidence.packed, state, rng, action, eligible, wanted, first, counts, number
        )
        if hits < 0:
            raise no_action(self.name, self.diagram, state)
        return hits

    # -- beliefs -------------------------------------------------------------------------------------------------------

    def sample(self, state: State, rng: Rng) -> dict[str, Floats]:
        """One draw of the means of all learned tables, as `choose` makes it."""
        means = np.empty(self.evidence.live)
        if not draw(self.evidence.packed, state, ACTING, rng, means):
            raise no_action(self.name, self.diagram, state)
        return self.model.tables_of_means(means)

    def draws(self, state: State, rng: Rng, number: int) -> dict[str, Floats]:
        """So many joint draws of all means."""
        means = joint_draws(self.inference, self.evidence, state, rng, number)
        if means is None:
            raise no_action(self.name, self.diagram, state)
        return self.model.tables_of_means(means)

    def posterior(self, state: State, rng: Rng) -> dict[str, Posterior]:
        """The belief of every learned table; regressions are fitted anew, in this state."""
        if len(self._sections):
            chain = isinstance(self.inference, Refreshed)
            fit_regressions(self.evidence, self._sections, state, rng, drawn=chain)
        return posteriors(self.inference, self.evidence, state, rng)

    def predictive(self, state: State) -> State:
        """A state as predictions are made from it: it begins with the pseudo-counts, or means, to predict by."""
        if isinstance(self.inference, Predictive):
            return State(state.ints, self.inference.predictive(self.evidence, state))
        return state

    # -- learning ------------------------------------------------------------------------------------------------------

    def learned(
        self, state: State, rng: Rng, round_: Round, times: int, effort: int, *, when: When | None = None,
        where: str = "",
    ) -> State:  # fmt: skip
        """The state after a round: the same arrays, or larger ones."""
        state = self.with_room(state)
        if when is not None:
            state.floats[self.evidence.learned + AT] = when.time
        if self._has_requests and times:
            learn, evidence = self.learn.handle, self.evidence.packed
            with self.requested(state, round_.request):
                status = learn_request(learn, evidence, state, rng, round_.action, round_.seen, times, effort)
        else:
            status = self.learn(*self.evidence.packed, *state[:2], rng, round_.action, round_.seen, times, effort)
        if type(status) is not int or not DONE <= status <= UNKNOWN:  # of an inference of the user's
            status = check_whole(f"what `learn` of {self.name} says", status, DONE, UNKNOWN)
        if status != DONE:
            self._refuse(status, round_, where)
        if when is not None:
            state.ints[ZONE] = when.zone
        if effort == NOW and state.wants_fit():
            self.fit_regressions(state, rng)
        return state

    def with_room(self, state: State) -> State:
        """The state with room for another round."""
        return state if state.has_room() else grown(state)

    def fit_regressions(self, state: State, rng: Rng) -> None:
        """Fit the regressions of tables with features to what was learned, in place."""
        if not len(self._sections):
            return
        inference = self.inference
        fit_regressions(self.evidence, self._sections, state, rng, drawn=isinstance(inference, Refreshed))
        if isinstance(inference, Refreshed):
            inference.refresh(self.evidence, state, rng)

    def _refuse(self, status: int, round_: Round, where: str) -> None:
        model, action = self.model, self.model.action_of(round_.action)
        states = zip(model.observed, round_.seen.tolist(), strict=True)
        shown = ", ".join(f"{n.name} = {n.values[s]!r}" for n, s in states if s >= 0)
        if status == IMPOSSIBLE:
            raise ImpossibleObservationError(
                f"{where}observation {shown}: diagram {model.name!r} gives it probability zero for action {action!r}, "
                "whatever the means"
            )
        if status == AMBIGUOUS:
            refuse_ambiguous(model, round_.action, round_.seen, INEXACT, where)
        shown = shown or "(nothing seen)"
        hint = "" if self.forget is None else "; if it was, and has faded since, say when: at=…"
        raise ObservationError(f"{where}observation {shown} for action {action!r} was not learned before{hint}")

    def with_declared_priors(self, state: State) -> State:
        """The state, a copy, with the declared priors in the place of those by regressions."""
        if not len(self._sections):
            return state
        state = state.copy()
        put_back(*self.evidence.packed, state.floats, self.evidence.prior, self._sections)
        return state

    def settled(self, state: State, rng: Rng, effort: int) -> State:
        """The state with its belief brought up to date, after rounds that were only counted."""
        for _ in range(ALTERNATIONS if len(self._sections) else 0):  # latent counts by priors, and the other way round
            state = self.learned(state, rng, self.blank, 0, effort)
            self.fit_regressions(state, rng)
        return self.learned(state, rng, self.blank, 0, effort)

    def all_learned(
        self, state: State, rng: Rng, rounds: Ints, numbers: Ints, *, effort: int = LATER, skips: bool = False,
        at: Floats = NO_TIMES, requests: Floats = NO_REQUEST,
    ) -> tuple[State, list[int]]:  # fmt: skip
        """The state after rounds, which messages call by these numbers; and which of them were skipped.

        `requests` has the features of contexts, one line per round.
        """
        width, done, skipped = len(self.blank.action), 0, list[int]()
        place = self.evidence.learned + AT
        while done < len(rounds):
            state = self.with_room(state)
            if effort == LATER and isinstance(self.learn, Kernel) and not self._has_requests:
                learn, evidence = self.learn.handle, self.evidence.packed
                done += learn_all(learn, evidence, state, rng, rounds[done:], width, at[done:], place)
            if done < len(rounds) and state.has_room():  # refused, or to be learned one by one
                row, where = np.ascontiguousarray(rounds[done]), f"in round {numbers[done]}, "
                when = When(at[done], int(state.ints[ZONE])) if len(at) else None
                round_ = self.round_of(row, requests[done] if len(requests) else NO_REQUEST)
                try:
                    state = self.learned(state, rng, round_, 1, effort, when=when, where=where)
                except ImpossibleObservationError:
                    if not skips:
                        raise
                    skipped.append(done)
                done += 1
        return state, skipped

    def revised(self, state: State, rng: Rng, old: Round, new: Round | None, when: When | None) -> State:
        """The state, a copy, after a round took the place of another, or was taken back."""
        state = self.learned(state, rng, old, -1, NOW if new is None else LATER, when=when)
        return state if new is None else self.learned(state, rng, new, 1, NOW, when=when)

    def check_revisable(self) -> None:
        """Raise unless rounds can be taken back."""
        if self._has_requests:
            names = ", ".join(repr(node.name) for node in self.model.contexts if node.features is not None)
            raise IdbanditsError(f"rounds cannot be taken back where a context has features: {names}")
        if not (isinstance(self.inference, Revisable) and self.inference.revisable):
            raise IdbanditsError(f"{self.name} cannot take a round back exactly; {REVISABLE} can")

    def when(self, state: State, rounds: int, at: Any) -> When | None:
        """When a round was played, after so many others that a state knows; None if that does not matter."""
        return when_played(self.forget, at, rounds, int(state.ints[ZONE]))

    def when_all(self, state: State, rounds: int, at: Any, length: int) -> When:
        """The same for a column of times, one per round."""
        return when_all_played(self.forget, at, rounds, int(state.ints[ZONE]), length)


def evidence_of(inference: Inference, model: Model) -> Evidence:
    """The evidence that an inference learns from, if it says one."""
    evidence: Any = inference.evidence(model)
    if not isinstance(evidence, Evidence):
        raise IdbanditsError(f"inference {name_of(inference)!r}: `evidence` returns an Evidence, not {brief(evidence)}")
    return evidence


def rounds_in(state: State) -> int:
    """How many rounds were learned from in a state."""
    return int(state.ints[ROUNDS])


def _are_same(values: Any, last: Any) -> bool:
    """Whether these are the same labels: equal values with equal hashes, which those of arrays do not have."""
    return type(values) is dict and values == last and hash((*values.values(),)) == hash((*last.values(),))
