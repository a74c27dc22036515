"""Learner: a diagram and an inference, ready to act and to learn in any state."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.agent.learning.ledger import Added, Entry, Ledger
from idbandits.agent.propensity import Tally
from idbandits.agent.reports.posterior import Posterior, means_of, posteriors
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, ImpossibleObservationError, ObservationError, brief, check_whole
from idbandits.inference import BY_NAME, REVISE, Evidence, Inference, able, beginning, check_capabilities, name_of
from idbandits.inference.act import BATCH, NOTHING, Counted, Player, Request, act, act_repeatedly, draw, no_action
from idbandits.inference.ageing import Age, age
from idbandits.inference.algorithms.exact import raise_ambiguous
from idbandits.inference.forgetting import NO_TIMES, Forget, tick_before, weight_left
from idbandits.inference.learn import learn_all
from idbandits.inference.protocol import CHAIN, MOVE
from idbandits.inference.regression.density import ACTING
from idbandits.inference.regression.logistic_setup import Contribution, bridged, take_back
from idbandits.inference.regression.logistic_update import learn_request
from idbandits.inference.regression.mixture import by_modes
from idbandits.inference.regression.prior import fit_regressions, put_priors, sections_of
from idbandits.inference.rounds.counting import FADED_ROW
from idbandits.inference.rounds.evidence import Longest
from idbandits.inference.rounds.round import AMBIGUOUS, DONE, IMPOSSIBLE, LATER, NO_FEATURES, NOW, UNKNOWN, Round
from idbandits.inference.state.state import CAPACITY, LONGEST, PER_ROUND, PLAYED, ROUNDS, TICK, State, grown
from idbandits.inference.transfer.row_index import Entries, RetiredRow, absent_tables
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import Kernel
from idbandits.solve.solver import BUDGET, Solution, Solver

INEXACT = " or ".join(", ".join(repr(name) for name in BY_NAME if name != "exact").rsplit(", ", 1))
ALTERNATIONS = 3  # of fits and of inference, after many rounds at once
MOST_EARLIER = 16  # diagrams that late rounds may be of


class Guest(NamedTuple):
    """The likelihood of an earlier diagram, for the states of a learner."""

    evidence: Evidence
    places: Ints  # of an entry of the earlier diagram: the one in the state


class Past(NamedTuple):
    """Knowledge of diagrams that an agent was in before."""

    retired: tuple[RetiredRow, ...] = ()
    constants: tuple[float, ...] = ()  # known values that only earlier rounds depend on
    longest: Longest = Longest(0, 0)  # factors of earlier rounds
    earlier: tuple[Diagram, ...] = ()  # the latest first


class Settings(NamedTuple):
    """Settings of an agent that do not depend on its diagram."""

    inference: Inference
    effort: float
    forget: Forget | None


NO_PAST = Past()


class Log(NamedTuple):
    """Rounds of a log, all of one diagram."""

    rounds: Ints  # one per row: decisions, contexts, observed nodes
    numbers: Ints  # of rounds in the log, for messages
    times: Floats = NO_TIMES  # when they were played; empty if that does not matter
    features: Floats = NO_FEATURES  # of contexts, one line per round; empty if there are none


@final
class Learner:
    """Diagram and inference: acts by states and learns in them, and has none itself.

    States are changed in place, or replaced by larger ones. Callers hold the lock.
    """

    def __init__(self, d: Diagram, model: Model, settings: Settings, past: Past = NO_PAST) -> None:
        self.diagram, self.model, self.settings, self.past = d, model, settings, past
        self.inference, effort, self.forget = settings
        self.evidence = evidence_of(self.inference, model)
        if past != NO_PAST:
            entries = Entries(model, past.retired, past.constants, absent_tables(model, past.earlier))
            self.evidence = self.evidence.about(entries, past.longest)
        check_capabilities(self.inference, self.evidence, self.forget)
        self.solver = model.derived(Solver)
        self.solve, self.program = self.solver.kernel_for(effort), self.solver.program_for(effort)
        self.learn: Any = self.inference.learn
        self.is_compiled = isinstance(self.learn, Kernel)
        self.is_chain = CHAIN in self.inference.capabilities
        self.blank = Round(
            self.solver.blank_action(None, check=False), np.full(len(model.observed), -1, dtype=np.int64)
        )
        self._shifted = NOTHING  # where pseudo-counts begin in states that are shifted with the prior
        if self.evidence.regressions.number:
            self._shifted = sections_of(self.inference.layout(self.evidence), self.evidence.learned)
        self._has_features = self.evidence.logistics.every > 0  # of contexts
        self._guests: dict[Model, Guest | None] = {}

    @property
    def name(self) -> str:
        """Return the name of the inference for messages."""
        return f"inference {name_of(self.inference)!r}"

    @property
    def player(self) -> Player | None:
        """Return how it acts and learns in compiled code; None if it does so in Python, or rounds have times."""
        by_time = self.forget is not None and self.forget.by_time
        if not self.is_compiled or by_time or self._has_features:
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

    def evidence_for(self, model: Model | None) -> Evidence:
        """Return the likelihood of the present diagram, or of an earlier one that is a guest."""
        if model is None or model is self.model:
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
        """Return the state before the first round."""
        return beginning(self.inference, self.model, self.evidence, rng, self.forget)

    # -- acting --------------------------------------------------------------------------------------------------------

    def choose(self, state: State, rng: Rng, action: Ints, eligible: Ints, features: Floats = NO_FEATURES) -> None:
        """Complete an action, whose contexts are given, by the choices that are best under means that are drawn."""
        packed = self.evidence.packed
        if not act.entry(self.solve.handle, self.program, packed, state, rng, action, eligible, features):
            raise no_action(self.name, self.diagram, state)

    def best(self, state: State, rng: Rng, request: Request) -> Solution:
        """Return the action that is best under the mean of the belief."""
        predictive = self.inference.predictive(self.evidence, state)
        belief = self.inference.belief(self.evidence, state, copy.deepcopy(rng)) if predictive is None else predictive
        if len(self._shifted) and belief.ndim == 1 and self.is_chain:
            belief = by_modes(self.evidence, state, belief)
        belief = bridged(self.evidence, state, belief, request.features)
        means = means_of(self.model.learned.values(), belief[..., : self.evidence.live])
        action = request.action
        value, bound, sound = self.solve.entry(*self.program, means, True, action, request.eligible, BUDGET)
        if not sound:
            raise no_action(self.name, self.diagram, state)
        return Solution(self.model.action_of(action), value, bound == value, bound)

    def count_acts(
        self, state: State, rng: Rng, request: Request, number: int, tally: Tally | None = None, wanted: Ints = NOTHING
    ) -> int:
        """Act `number` times and tally the choices; return how often this was the wanted action."""
        first, counts = (NOTHING, NOTHING) if tally is None else (tally.first, tally.counts)
        hits = 0
        for done in range(0, number, BATCH):  # signals are handled in between
            counted = Counted(wanted, first, counts, min(BATCH, number - done))
            found = act_repeatedly(
                self.solve.handle, self.program, self.evidence.packed, state, rng, request, counted
            )  # fmt: skip
            if found < 0:
                raise no_action(self.name, self.diagram, state)
            hits += found
        return hits

    # -- beliefs -------------------------------------------------------------------------------------------------------

    def sample(self, state: State, rng: Rng) -> dict[str, Floats]:
        """Draw the means of all learned tables once, as `choose` does."""
        means = np.empty(self.evidence.live)
        if not draw(self.evidence.packed, state, ACTING, rng, means):
            raise no_action(self.name, self.diagram, state)
        return self.model.tables_of_means(means)

    def draws(self, state: State, rng: Rng, number: int) -> dict[str, Floats]:
        """Draw all means jointly, `number` times."""
        means = self.inference.draws(self.evidence, state, rng, number)
        if means is None:
            raise no_action(self.name, self.diagram, state)
        return self.model.tables_of_means(means)

    def posterior(self, state: State, rng: Rng) -> dict[str, Posterior]:
        """Return the belief of every learned table; regressions are fitted again, in this state."""
        if len(self._shifted):
            fit_regressions(self.evidence, self._shifted, state, rng, drawn=self.is_chain)
        return posteriors(self.inference, self.evidence, state, rng)

    def predictive(self, state: State, model: Model) -> State:
        """Return a state to predict rounds of a model by: it begins with pseudo-counts, or means, of its entries."""
        predictive = self.inference.predictive(self.evidence, state)
        floats = state.floats if predictive is None else predictive
        if model is not self.model:
            guest = self.guest(model)
            assert guest is not None
            floats = floats[guest.places[: model.parameters.learned_size]]
        return State(state.ints, floats)

    # -- learning ------------------------------------------------------------------------------------------------------

    def learned(
        self, state: State, rng: Rng, round_: Round, *, model: Model | None = None, where: str = "",
        added: list[Added] | None = None,
    ) -> State:  # fmt: skip
        """Learn from a round, of an earlier diagram if its `model` is given; return the state, or a larger one.

        Where contexts have features, what the round added is appended to `added`, if that is given.
        """
        evidence = self.evidence
        if model is not None and model is not self.model:
            evidence = self.evidence_for(model)
            _widen(state, evidence)
        state = self.with_room(state)
        if self._has_features and round_.times:
            status = self._learn_features(evidence, state, rng, round_, added)
        elif self.is_compiled:
            status = self.learn.entry(evidence.packed, state, rng, round_)
        else:
            status = self._learn_in_python(evidence, state, rng, round_)
        if status != DONE:
            self._raise(status, evidence.model, round_, where)
        if round_.effort == NOW and state.wants_fit():
            self.fit_regressions(state, rng)
        return state

    def _learn_features(
        self, evidence: Evidence, state: State, rng: Rng, round_: Round, added: list[Added] | None
    ) -> int:
        """Learn from a round where contexts have features."""
        entries = np.empty(1 + evidence.uses * evidence.widest, np.int64)
        values = np.empty((len(entries), 4))
        status = learn_request(self.learn.handle, evidence.packed, state, rng, round_, entries, values)
        if status == DONE and added is not None:
            lines = entries.item(0)
            added.append(Added(entries[1 : 1 + lines], values[:lines], state.ints.item(TICK)))
        return int(status)

    def _learn_in_python(self, evidence: Evidence, state: State, rng: Rng, round_: Round) -> int:
        """Learn by a custom inference that is not compiled."""
        ints, times = state.ints, round_.times
        rounds = int(ints[ROUNDS]) + times
        own = Age(1.0, 1.0, ints[TICK]) if self.forget is None else age(ints, round_.time, times)
        given: Any = self.learn(evidence, state, rng, round_._replace(keep=own.keep, weight=own.weight))
        status = check_whole(f"{self.name}: the result of `learn`", given, DONE, UNKNOWN)
        if status == DONE:
            ints[[ROUNDS, TICK, PLAYED]] = rounds, own.tick, ints[PLAYED] + max(0, times)
        return status

    def with_scratch(self, state: State) -> State:
        """Return a state, which may be from a pickle, with scratch arrays."""
        if len(state.int_scratch):
            return state
        ints, floats = self.evidence.new_scratch()
        return state._replace(int_scratch=ints, float_scratch=floats)

    def with_room(self, state: State) -> State:
        """Return the state with room for another round."""
        return state if state.has_room() else grown(state)

    def fit_regressions(self, state: State, rng: Rng) -> None:
        """Fit the regressions of tables with features to what was learned, in place."""
        if len(self._shifted):
            fit_regressions(self.evidence, self._shifted, state, rng, drawn=self.is_chain)
            self.inference.refresh(self.evidence, state, rng)

    def _raise(self, status: int, model: Model, round_: Round, where: str) -> None:
        """Raise the error of a round that cannot be learned."""
        action = model.action_of(round_.action)
        states = zip(model.observed, round_.seen.tolist(), strict=True)
        shown = ", ".join(f"{n.name} = {n.values[s]!r}" for n, s in states if s >= 0)
        if status == IMPOSSIBLE:
            raise ImpossibleObservationError(
                f"{where}observation {shown}: diagram {model.name!r} gives it probability zero for action {action!r}, "
                "whatever the means"
            )
        if status == AMBIGUOUS:
            raise_ambiguous(model, round_.action, round_.seen, INEXACT, where)
        shown = shown or "(nothing seen)"
        hint = "" if self.forget is None else "; if it was, and has faded since, say when: at=…"
        raise ObservationError(f"{where}observation {shown} for action {action!r} was not learned before{hint}")

    def with_declared_priors(self, state: State) -> State:
        """Return the state, a copy, with the declared priors in the place of those by regressions."""
        if not len(self._shifted):
            return state
        state = state.copy()
        put_priors(self.evidence, self._shifted, state, self.evidence.prior)
        return state

    def settled(self, state: State, rng: Rng, effort: int) -> State:
        """Return the state with its belief brought up to date, after rounds that were only counted."""
        settle = self.blank._replace(times=0, effort=effort)
        for _ in range(ALTERNATIONS if len(self._shifted) else 0):  # latent counts by priors, and the other way round
            state = self.learned(state, rng, settle)
            self.fit_regressions(state, rng)
        return self.learned(state, rng, settle)

    def all_learned(
        self, state: State, rng: Rng, log: Log, *, model: Model | None = None, skips: bool = False,
        added: list[Added] | None = None,
    ) -> tuple[State, list[int]]:  # fmt: skip
        """Count the rounds of a log; return the state, and the places of rounds that were skipped.

        Rounds are of an earlier diagram if its `model` is given. `added` is that of `learned`.
        """
        evidence, rounds = self.evidence_for(model), log.rounds
        width = len(evidence.model.decisions) + len(evidence.model.contexts)
        done, skipped = 0, list[int]()
        while done < len(rounds):
            _widen(state, evidence)
            state = self.with_room(state)
            if self.is_compiled and not self._has_features:
                done += learn_all(
                    self.learn.handle, evidence.packed, state, rng, rounds[done:], width, log.times[done:]
                )  # fmt: skip
            if done < len(rounds) and state.has_room():  # rejected, or to be learned one by one
                row, time = np.ascontiguousarray(rounds[done]), log.times[done] if len(log.times) else np.nan
                features = log.features[done] if len(log.features) else NO_FEATURES
                round_ = Round(row[:width], row[width:], features, time, effort=LATER)
                try:
                    where = f"in round {log.numbers[done]}, "
                    state = self.learned(state, rng, round_, model=model, where=where, added=added)
                except ImpossibleObservationError:
                    if not skips:
                        raise
                    skipped.append(done)
                done += 1
        return state, skipped

    def revised(self, state: State, rng: Rng, old: Round, new: Round | None, *, model: Model) -> State:
        """Replace a round by another one, or remove it; return the state, which must be a copy.

        The new round was played when the old one was: the clock of rounds does not move.
        """
        played = state.ints[PLAYED]
        removed = old._replace(times=-1, effort=NOW if new is None else LATER)
        state = self.learned(state, rng, removed, model=model)
        if new is not None:
            state = self.learned(state, rng, new, model=model)
        state.ints[PLAYED] = played
        return state

    def taken_back(self, state: State, rng: Rng, rounds: Sequence[Entry]) -> None:
        """Subtract what rounds added, as far as it has not faded, from a state, which must be a copy."""
        contributions = list[Contribution]()
        for entry in rounds:
            weight = 1.0 if self.forget is None else weight_left(state, entry.added.tick)
            contributions.append(Contribution(entry.added.entries, weight * entry.added.values, entry.round_.features))
        take_back(self.evidence, state, contributions)
        state.ints[ROUNDS] -= len(rounds)
        if self.evidence.regressions.number:
            self.fit_regressions(state, rng)

    def unfaded(self, state: State, ledger: Ledger | None) -> Ledger | None:
        """Return a ledger without rounds of which almost nothing is left."""
        if ledger is None or self.forget is None:
            return ledger
        return ledger.since(tick_before(state, FADED_ROW))

    @property
    def keeps_ledger(self) -> bool:
        """Return whether rounds are removed by subtracting what they added: where contexts have features."""
        return self.evidence.request_size > 0

    @property
    def is_revisable(self) -> bool:
        """Return whether rounds can be removed exactly, so that their order does not matter either."""
        return REVISE in self.inference.capabilities and not self._has_features

    def in_any_order(self, times: Floats) -> bool:
        """Return whether the order of rounds does not matter; without times, it does where a clock counts rounds."""
        by_rounds = self.forget is not None and not self.forget.by_time and not len(times)
        return self.is_revisable and not by_rounds

    def check_movable(self) -> None:
        """Raise unless the agent can move to another diagram."""
        if MOVE not in self.inference.capabilities:
            raise IdbanditsError(f"{self.name} cannot move to another diagram: it does not declare MOVE")

    def check_revisable(self) -> None:
        """Raise unless rounds can be removed."""
        if not (self.is_revisable or self.keeps_ledger):
            raise IdbanditsError(f"{self.name} cannot remove a round exactly; {able(REVISE)} can")


def _widen(state: State, evidence: Evidence) -> None:
    """Note how much one round may add to a state, if one of this evidence may add more than others."""
    if state.ints[CAPACITY]:
        state.ints[PER_ROUND] = max(int(state.ints[PER_ROUND]), evidence.most_groups)
        state.ints[LONGEST] = max(int(state.ints[LONGEST]), evidence.most_numbers)


def evidence_of(inference: Inference, model: Model) -> Evidence:
    """Return the evidence that an inference learns from; raise if it is none."""
    evidence: Any = inference.evidence(model)
    if not isinstance(evidence, Evidence):
        raise IdbanditsError(f"inference {name_of(inference)!r}: `evidence` returns an Evidence, not {brief(evidence)}")
    return evidence
