"""What an agent is besides its state: a diagram and an inference, ready to act and to learn in any state."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.agent.era import NO_REQUEST, Round
from idbandits.agent.ledger import Added, Entry, Ledger
from idbandits.agent.propensity import Tally
from idbandits.agent.reports.posterior import Posterior, means_of, posteriors
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, ImpossibleObservationError, ObservationError, brief, check_whole
from idbandits.inference import BY_NAME, DONE, LATER, NOW, Evidence, Inference, Layout, beginning, check_forgetful

from idbandits.inference import check_bridging, check_regressing, name_of  # isort: skip
from idbandits.inference.algorithms.exact import refuse_ambiguous
from idbandits.inference.forgetting import NO_TIMES, Forget, When
from idbandits.inference.regression.density import ACTING
from idbandits.inference.regression.logistic_setup import Contribution, bridged, request_in, take_back
from idbandits.inference.regression.logistic_update import learn_request
from idbandits.inference.regression.mixture import by_modes
from idbandits.inference.regression.prior import fit_regressions, put_priors, sections_of
from idbandits.inference.repeat_act import NOTHING, count_acts
from idbandits.inference.rounds.counting import FADED_ROW
from idbandits.inference.rounds.evidence import Longest
from idbandits.inference.transfer.row_index import Entries, RetiredRow, absent_tables
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import Kernel
from idbandits.solve.solver import BUDGET, Solution, Solver

from idbandits.inference.protocol import (  # isort: skip
    AMBIGUOUS, IMPOSSIBLE, UNKNOWN, Described, Player, Predictive, Refreshed, Revisable, act, draw,
    joint_draws, learn_all, no_action,
)  # fmt: skip
from idbandits.inference.state.state import (  # isort: skip
    AT, CAPACITY, HALF_LIFE, LONGEST, PER_ROUND, PLAYED, ROUNDS, STEP, TICK, ZONE, State, grown,
)  # fmt: skip

INEXACT = " or ".join(", ".join(repr(name) for name in BY_NAME if name != "exact").rsplit(", ", 1))
REVISABLE = " and ".join(", ".join(name for name, kind in BY_NAME.items() if kind.revisable).rsplit(", ", 1))


ALTERNATIONS = 3  # of fits and of inference, after many rounds at once
MOST_EARLIER = 16  # diagrams that late rounds may be of


class Guest(NamedTuple):
    """The likelihood of an earlier diagram, for the states of a learner."""

    evidence: Evidence
    places: Ints  # of an entry of the earlier diagram: the one in the state


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
            entries = Entries(model, past.retired, past.constants, absent_tables(model, past.earlier))
            self.evidence = self.evidence.about(entries, past.longest)
        self.solver = model.derived(Solver)
        self.solve, self.program = self.solver.kernel_for(effort), self.solver.program_for(effort)
        self.learn: Any = self.inference.learn
        self.blank = Round(
            self.solver.blank_action(None, check=False), np.full(len(model.observed), -1, dtype=np.int64)
        )
        self._sections = self._sections_to_shift()
        check_bridging(self.inference, model)
        self._has_requests = self.evidence.logistics.every > 0
        self._guests: dict[Model, Guest | None] = {}

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

    def guest(self, model: Model) -> Guest | None:
        """Return the likelihood of an earlier diagram for the states of this learner; None if these lack a row of it.

        `with_guest` makes a learner that has all rows.
        """
        if model not in self._guests:
            entries, longest = self.evidence.entries, self.evidence.longest
            places = entries.places_of_entries(model.derived(Entries))
            own = evidence_of(self.inference, model)
            fits = (places >= 0).all() and own.longest.nodes <= longest.nodes and own.longest.terms <= longest.terms
            self._guests[model] = Guest(own.about(entries, longest), places) if fits else None
        return self._guests[model]

    def evidence_for(self, model: Model) -> Evidence:
        """Return the likelihood of the present diagram, or of an earlier one that is a guest."""
        if model is self.model:
            return self.evidence
        guest = self.guest(model)
        assert guest is not None
        return guest.evidence

    def with_guest(self, model: Model) -> Learner:
        """Return a learner of this diagram whose states have all rows of an earlier one, and room for its factors."""
        evidence, own = self.evidence, model.derived(Entries)
        entries = evidence.entries.including(own, evidence.entries.places_of_entries(own) < 0)
        longest = Longest(*map(max, evidence.longest, evidence_of(self.inference, model).longest))
        past = self.past._replace(retired=entries.retired, constants=entries.constants, longest=longest)
        return Learner(self.diagram, self.model, self.settings, past)

    def beginning(self, rng: Rng) -> State:
        """The state before the first round."""
        return beginning(self.inference, self.model, self.evidence, rng, self.forget)

    @contextlib.contextmanager
    def requested(self, state: State, request: Floats = NO_REQUEST) -> Iterator[None]:
        """Make a request the present one of a state for a while; else, that is one whose features are all zero."""
        if not self._has_requests:
            yield
            return
        place = request_in(self.evidence, state)
        place[:] = 0.0
        place[: len(request)] = request
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

    def predictive(self, state: State, model: Model) -> State:
        """Return a state to predict rounds of a model by: it begins with pseudo-counts, or means, of its entries."""
        floats = state.floats
        if isinstance(self.inference, Predictive):
            floats = self.inference.predictive(self.evidence, state)
        if model is not self.model:
            guest = self.guest(model)
            assert guest is not None
            floats = floats[guest.places[: model.parameters.learned_size]]
        return State(state.ints, floats)

    # -- learning ------------------------------------------------------------------------------------------------------

    def learned(
        self, state: State, rng: Rng, round_: Round, times: int, effort: int, *, model: Model | None = None,
        when: When | None = None, where: str = "", added: list[Added] | None = None,
    ) -> State:  # fmt: skip
        """Learn from a round, of an earlier diagram if its `model` is given; return the state, or a larger one.

        Where contexts have features, what the round added is appended to `added`, if that is given.
        """
        evidence = self.evidence
        if model is not None and model is not self.model:
            evidence = self.evidence_for(model)
            _widen(state, evidence)
        state = self.with_room(state)
        if when is not None:
            state.floats[self.evidence.learned + AT] = when.time
        if self._has_requests and times:
            entries = np.empty(1 + evidence.uses * evidence.widest, np.int64)
            values = np.empty((len(entries), 4))
            with self.requested(state, round_.request):
                status = learn_request(
                    self.learn.handle, evidence.packed, state, rng, round_.action, round_.seen, times, effort, entries,
                    values,
                )  # fmt: skip
            if status == DONE and added is not None:
                lines = entries.item(0)
                added.append(Added(entries[1 : 1 + lines], values[:lines], state.ints.item(TICK)))
        else:
            status = self.learn(*evidence.packed, *state[:2], rng, round_.action, round_.seen, times, effort)
        if type(status) is not int or not DONE <= status <= UNKNOWN:  # of a custom inference
            status = check_whole(f"what `learn` of {self.name} says", status, DONE, UNKNOWN)
        if status != DONE:
            self._refuse(status, evidence.model, round_, where)
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

    def _refuse(self, status: int, model: Model, round_: Round, where: str) -> None:
        action = model.action_of(round_.action)
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
        put_priors(self.evidence, self._sections, state, self.evidence.prior)
        return state

    def settled(self, state: State, rng: Rng, effort: int) -> State:
        """The state with its belief brought up to date, after rounds that were only counted."""
        for _ in range(ALTERNATIONS if len(self._sections) else 0):  # latent counts by priors, and the other way round
            state = self.learned(state, rng, self.blank, 0, effort)
            self.fit_regressions(state, rng)
        return self.learned(state, rng, self.blank, 0, effort)

    def all_learned(
        self, state: State, rng: Rng, rounds: Ints, numbers: Ints, *, model: Model | None = None, effort: int = LATER,
        skips: bool = False, at: Floats = NO_TIMES, requests: Floats = NO_REQUEST, added: list[Added] | None = None,
    ) -> tuple[State, list[int]]:  # fmt: skip
        """Learn from rounds, which messages call by these numbers; return the state, and which rounds were skipped.

        Rounds are of an earlier diagram if its `model` is given; `requests` has the features of contexts, one line per
        round. `added` is that of `learned`.
        """
        model = self.model if model is None else model
        evidence = self.evidence_for(model)
        width, done, skipped = len(model.decisions) + len(model.contexts), 0, list[int]()
        place = self.evidence.learned + AT
        while done < len(rounds):
            _widen(state, evidence)
            state = self.with_room(state)
            if effort == LATER and isinstance(self.learn, Kernel) and not self._has_requests:
                learn, packed = self.learn.handle, evidence.packed
                done += learn_all(learn, packed, state, rng, rounds[done:], width, at[done:], place)
            if done < len(rounds) and state.has_room():  # rejected, or to be learned one by one
                row, where = np.ascontiguousarray(rounds[done]), f"in round {numbers[done]}, "
                when = When(at[done], int(state.ints[ZONE])) if len(at) else None
                round_ = Round(row[:width], row[width:], requests[done] if len(requests) else NO_REQUEST)
                try:
                    state = self.learned(
                        state, rng, round_, 1, effort, model=model, when=when, where=where, added=added
                    )
                except ImpossibleObservationError:
                    if not skips:
                        raise
                    skipped.append(done)
                done += 1
        return state, skipped

    def revised(
        self, state: State, rng: Rng, old: Round, new: Round | None, *, model: Model, when: When | None
    ) -> State:
        """Put a round in place of another one, or take it back; return the state, which is to be a copy.

        A round that is replaced was played when the other one was: the clock of rounds does not move.
        """
        played = state.ints[PLAYED]
        state = self.learned(state, rng, old, -1, NOW if new is None else LATER, model=model, when=when)
        if new is not None:
            state = self.learned(state, rng, new, 1, NOW, model=model, when=when)
        state.ints[PLAYED] = played
        return state

    def taken_back(self, state: State, rng: Rng, rounds: Sequence[Entry]) -> None:
        """Subtract what rounds added, as far as it has not faded, from a state that is to be a copy."""
        step, half_life = state.floats[[self.evidence.learned + STEP, self.evidence.learned + HALF_LIFE]]
        contributions = list[Contribution]()
        for entry in rounds:
            steps = int(state.ints[TICK]) - entry.added.tick if self.forget is not None else 0
            weight = 0.5 ** (steps * step / half_life) if steps else 1.0
            contributions.append(Contribution(entry.added.entries, weight * entry.added.values, entry.round_.request))
        take_back(self.evidence, state, contributions)
        state.ints[ROUNDS] -= len(rounds)
        if self.evidence.regressions.number:
            self.fit_regressions(state, rng)

    def unfaded(self, state: State, ledger: Ledger | None) -> Ledger | None:
        """Return a ledger without rounds of which almost nothing is left."""
        if ledger is None or self.forget is None:
            return ledger
        step, half_life = state.floats[[self.evidence.learned + STEP, self.evidence.learned + HALF_LIFE]]
        return ledger.since(int(state.ints[TICK]) - int(np.ceil(-np.log2(FADED_ROW) * half_life / step)))

    @property
    def keeps_ledger(self) -> bool:
        """Whether rounds are taken back by what they added: where contexts have features."""
        return self.evidence.request_size > 0

    @property
    def is_revisable(self) -> bool:
        """Whether rounds can be taken back exactly, so that their order does not matter either."""
        return isinstance(self.inference, Revisable) and self.inference.revisable and not self._has_requests

    def in_any_order(self, times: Floats) -> bool:
        """Return whether the order of rounds does not matter; without times, it does where a clock counts rounds."""
        by_rounds = self.forget is not None and not self.forget.by_time and not len(times)
        return self.is_revisable and not by_rounds

    def check_revisable(self) -> None:
        """Raise unless rounds can be taken back."""
        if not (self.is_revisable or self.keeps_ledger):
            raise IdbanditsError(f"{self.name} cannot take a round back exactly; {REVISABLE} can")


def _widen(state: State, evidence: Evidence) -> None:
    """Note how much one round may add to a state, if one of this evidence may add more than others."""
    if state.ints[CAPACITY]:
        state.ints[PER_ROUND] = max(int(state.ints[PER_ROUND]), evidence.most_groups)
        state.ints[LONGEST] = max(int(state.ints[LONGEST]), evidence.most_numbers)


def evidence_of(inference: Inference, model: Model) -> Evidence:
    """The evidence that an inference learns from, if it says one."""
    evidence: Any = inference.evidence(model)
    if not isinstance(evidence, Evidence):
        raise IdbanditsError(f"inference {name_of(inference)!r}: `evidence` returns an Evidence, not {brief(evidence)}")
    return evidence


def rounds_in(state: State) -> int:
    """How many rounds were learned from in a state."""
    return int(state.ints[ROUNDS])
