"""Thompson sampling: an agent that acts in a diagram and learns from what it observes."""

from __future__ import annotations

import contextlib
import copy
import io
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import numpy as np

from idbandits.agent.agreement import named_structures, places_in
from idbandits.agent.era import MISFITS, NO_REQUEST, Era, Round
from idbandits.agent.fit_report.fit_report import FitReport, fit_report
from idbandits.agent.fit_report.sample import Sample
from idbandits.agent.fork_safety import make_fork_safe
from idbandits.agent.learner import INEXACT, Learner, Settings
from idbandits.agent.ledger import Ledger
from idbandits.agent.log_report import LogReport, check_skipping, is_small, report_of
from idbandits.agent.propensity import MOST_DRAWS, NEVER, Marginals, Propensity, Tally, propensity_of
from idbandits.agent.snapshot import Known, all_counted, block_learned, learned, learned_alone, predicted, revised
from idbandits.agent.storage.agent_file import Saved, content_of, load_agent, read_agent, save_agent
from idbandits.agent.storage.bundle import Bundle, is_bundle, load_bundle, save_bundle
from idbandits.agent.storage.metadata import checked_metadata
from idbandits.agent.transfer import (
    Batch,
    Moved,
    compiled_copy,
    earlier_eras,
    encode_log,
    in_order,
    moved,
    moved_ledger,
)
from idbandits.agent.warmup import Warmth, kernels_behind, warm_up
from idbandits.circuit.model import Action, compile
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import DiagramError, FormatError, IdbanditsError, ImpossibleObservationError, brief, check_whole
from idbandits.files import path_of
from idbandits.identifiability import warn_of_scales, warn_once
from idbandits.inference import BY_NAME, NOW, Exact, Inference, default_inference, name_of, named
from idbandits.inference.algorithms.exact import check_exact
from idbandits.inference.forgetting import Forget, When, forgetting, when_all_played, when_played
from idbandits.inference.protocol import THOROUGHLY, Bounded, Player, Refreshed
from idbandits.inference.regression.logistic_setup import translated_requests
from idbandits.inference.state.state import AT, NEXT_FIT, ROUNDS, ZONE, State
from idbandits.inference.structures.weights import Standing, first_standing, settle
from idbandits.kernel.array_types import Floats, Ints, Rng, generator
from idbandits.kernel.compile import Kernel
from idbandits.solve.eligible import EVERY_CHOICE, Allowed, are_eligible
from idbandits.solve.solver import Solution, check_effort

CHUNK = 1_000_000  # rounds of a log that are learned at once
BLOCK = 4096  # rounds that several structures predict at once, at most
GROWTH = 0.1  # rounds of a log that are predicted by one belief, as a part of those learned from before
BOUNDED = " and ".join(name for name, kind in BY_NAME.items() if issubclass(kind, Bounded))


@final
class Thompson:
    """An agent that draws means from its belief and takes the action that is best under them.

    `inference` is a name or an object with settings (`idb.Variational(sweeps=5)`); docs/learning.md compares them.
    By default it is "gibbs", or "moments" where a context has features.
    `effort` is that of `best_action`: a factor on the search for the best action under the means that are drawn.
    With `forget`, what was learned fades: for worlds that change (docs/drift.md).
    Threads may share an agent: rounds are learned one after the other, and compiled code runs without the GIL.

    >>> d = Diagram("coins")
    >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
    >>> agent = Thompson(d, seed=1)
    >>> for _ in range(200):
    ...     action = agent.act()
    ...     agent.update(action, {"heads": int(action["coin"] == 2)})
    >>> agent.act()
    {'coin': 2}
    >>> agent.posterior()["heads"].mean.round(2)[2]
    np.float64(0.99)

    With several diagrams, in a list or by name, it keeps a belief in each, draws one by its weight, and acts by it.
    Weights follow how well each predicted what was observed; docs/learning.md has the rule. A structure in which a
    round was impossible is out. The diagrams share the names and values of decisions, contexts and observed nodes, and
    mean the same by reward. `posterior`, `sample`, `draws` and `fit_report` are then by the name of the structure.

    >>> from idbandits import models
    >>> agent = Thompson([models.cascade(5, 2), models.position_based(5, 2)], seed=1)
    >>> agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1})  # in a cascade there is one click at most
    >>> agent.weights()
    {'cascade': 0.0, 'position-based': 1.0}
    """

    carried: Any = None  # what it took along (`Carried`), if it moved; of several structures, by name

    def __init__(
        self, d: Diagram | Sequence[Diagram] | Mapping[str, Diagram], inference: str | Inference | None = None,
        seed: Any = None, *, effort: float = 1.0, forget: Forget | None = None,
    ) -> None:  # fmt: skip
        by_name = isinstance(d, (list, tuple, Mapping))
        diagrams = named_structures(d) if by_name else {_diagram(d).name: _diagram(d)}
        rng = generator(seed)
        learners, states = list[Learner](), list[State]()
        for own in diagrams.values():
            model, how = compile(own), named(default_inference(own) if inference is None else inference)
            settings = Settings(how, check_effort(effort), forgetting(forget))
            learner = Learner(compiled_copy(own), model, settings)
            if isinstance(how, Exact):
                check_exact(model, INEXACT)
            learners.append(learner)
            states.append(learner.beginning(rng))
            warn_once(model, stacklevel=2)
            if not isinstance(how, Refreshed):
                warn_of_scales(model, stacklevel=2)
        ledger = Ledger(learners[0].evidence.request_size) if learners[0].keeps_ledger else None
        known = Known(tuple(learners), tuple(states), first_standing(len(learners)), _no_rounds(learners[0]), ledger)
        self._begin(known, rng, tuple(diagrams) if by_name else None)

    def _begin(
        self, known: Known, rng: Rng, names: tuple[str, ...] | None, eras: Sequence[Era] = (), carried: Any = None,
        metadata: Mapping[str, Any] = MappingProxyType({}),
    ) -> Thompson:  # fmt: skip
        """Go on with what is known; `names` are those of structures, if there may be several.

        `eras` are those before the present one.
        """
        self._known, self.rng, self._names = known, rng, names
        self.metadata: dict[str, Any] = copy.deepcopy(dict(metadata))  # what the user stored with it (`save`)
        make_fork_safe(self)
        labels = names or (known.learners[0].diagram.name,)
        present = Era(dict(zip(labels, (learner.diagram for learner in known.learners), strict=True)))
        self._eras = (present, *eras)
        self._solver, self._several = known.learners[0].solver, len(known.learners) > 1
        self._last_round: tuple[Round | None, int] | None = None
        self.carried = carried
        kinds = [type(learner.inference) for learner in known.learners]
        never_refuses = all(kind in BY_NAME.values() and kind is not Exact for kind in kinds)
        self._can_learn_in_place = never_refuses if self._several else isinstance(known.learners[0].learn, Kernel)
        self._has_fits = any(state.ints[NEXT_FIT] for state in known.states)
        self._forgets = known.learners[0].forget is not None
        return self

    # -- properties ----------------------------------------------------------------------------------------------------

    @property
    def learner(self) -> Learner:
        """The diagram and the inference, ready to act and to learn; of several structures, the first one."""
        return self._known.learners[0]

    @property
    def state(self) -> State:
        """What was learned; of several structures, the first one."""
        return self._known.states[0]

    @property
    def diagram(self) -> Diagram:
        """The diagram that it acts in; of several structures, the first one."""
        return self.learner.diagram

    @property
    def diagrams(self) -> dict[str, Diagram]:
        """The structures by name."""
        return dict(zip(self._eras[0].names, self._eras[0].diagrams, strict=True))

    @property
    def inference(self) -> Inference:
        """How it learns."""
        return self.learner.inference

    @property
    def effort(self) -> float:
        """The factor on the search for the best action."""
        return self.learner.settings.effort

    @property
    def forget(self) -> Forget | None:
        """How fast what was learned fades, if it does."""
        return self.learner.forget

    @property
    def rounds(self) -> int:
        """The number of rounds learned from, without those taken back."""
        return self._known.rounds

    @property
    def player(self) -> Player | None:
        """How it acts and learns in compiled code; None if it does so in Python."""
        return None if self._several else self.learner.player

    def make_ready(self) -> None:
        """Make room for another round, and fit regressions if that is due."""
        known = self._known
        learner, state = known.learners[0], known.learners[0].with_room(known.states[0])
        self._known = known._replace(states=(state, *known.states[1:]))
        if state.wants_fit():
            learner.fit_regressions(state, self.rng)

    def eligible(self, allowed: Allowed) -> Ints:
        """Return the choices that may be made, as numbers for kernels; none if all may."""
        return self._solver.eligible(allowed)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def _remembered(self) -> Sample:
        """Return the sample with the last round of `update`: it is added late, as nothing may follow learning there."""
        known = self._known
        if self._last_round is not None:
            round_, rounds = self._last_round
            self._last_round = None
            if round_ is not None and known.rounds > rounds:
                known.sample.add(round_.action, round_.seen)
        return known.sample

    def _snapshot(self) -> tuple[Known, Rng]:
        """Return copies of all that is known and of the random numbers, which other threads do not change."""
        with self.rng.bit_generator.lock:
            self._remembered()
            return self._known.copy(), copy.deepcopy(self.rng)

    def _apart(self) -> tuple[Known, Rng]:
        """Return a copy of all that is known, and random numbers other than those of the next actions."""
        known, rng = self._snapshot()
        return known, np.random.default_rng(rng.integers(2**63))

    def _by_structure(self, answer: Callable[[Learner, State], Any], known: Known) -> dict[str, Any]:
        """Ask every structure for a dictionary: that of the only one, or those of several by name."""
        answers: list[Any] = [
            answer(learner, state) for learner, state in zip(known.learners, known.states, strict=True)
        ]
        first: dict[str, Any] = answers[0]
        return first if self._names is None else dict(zip(self._names, answers, strict=True))

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[Known]:
        """Yield a copy of all that is known to learn in, while other threads wait; random numbers go back on errors."""
        with self.rng.bit_generator.lock:
            before = self.rng.bit_generator.state
            self._remembered()
            known = self._known
            try:
                yield known.copy()
            except BaseException:
                if self._known is known:  # else a signal came when all was done
                    self.rng.bit_generator.state = before
                raise

    # -- acting --------------------------------------------------------------------------------------------------------

    def act(self, context: Action | None = None, *, allowed: Allowed = None) -> dict[str, Label]:
        """Return the action that is best under means drawn from the belief.

        Only choices in `allowed` are made: a list for all decisions, or lists by decision, as in `best_action`. Of
        several structures, one is drawn by its weight.
        """
        if self._several:
            return self._act_by_weight(context, allowed)
        present, solver, rng = self._eras[0], self._solver, self.rng
        features: list[float] = []
        action = solver.blank_action(context, request=features)
        eligible = EVERY_CHOICE if allowed is None else solver.eligible(allowed)
        request = np.array(features) if features else NO_REQUEST
        with rng.bit_generator.lock:
            known = self._known
            known.learners[0].choose(known.states[0], rng, action, eligible, request)
        chosen = present.model.action_of(action)
        present.remember(chosen, context, action)
        return chosen

    def _act_by_weight(self, context: Action | None, allowed: Allowed) -> dict[str, Label]:
        requests = self._requests(context, allowed)
        with self.rng.bit_generator.lock:
            known = self._known
            drawn = int(np.searchsorted(np.cumsum(known.weights()), self.rng.random(), side="right"))
            drawn = min(drawn, len(known.learners) - 1)
            learner, (action, eligible) = known.learners[drawn], requests[drawn]
            learner.choose(known.states[drawn], self.rng, action, eligible)
        chosen = learner.model.action_of(action)
        if self._eras[0].orders[drawn].same:
            self._eras[0].remember(chosen, context, action)
        return chosen

    def _requests(self, context: Action | None, allowed: Allowed) -> list[tuple[Ints, Ints]]:
        """Return, for each structure, an action with its contexts filled in, and the choices that may be made."""
        action, eligible = self._solver.blank_action(context), self._solver.eligible(allowed)
        if not self._several:
            return [(action, eligible)]
        solvers = [learner.solver for learner in self._known.learners]
        return [
            (action.copy(), eligible) if order.same else (solver.blank_action(context), solver.eligible(allowed))
            for solver, order in zip(solvers, self._eras[0].orders, strict=True)
        ]

    def best_action(self, context: Action | None = None, *, allowed: Allowed = None) -> Solution:
        """Return the action that is best under the mean of the belief, where nothing more is to be learned.

        Of several structures, it is that of the one that weighs most.
        """
        requests, request = self._requests(context, allowed), self._eras[0].request(context)
        with self.rng.bit_generator.lock:
            known = self._known
            heaviest = int(np.argmax(known.weights())) if self._several else 0
            learner, state = known.learners[heaviest], known.states[heaviest]
            with learner.requested(state, request):
                return learner.best(state, self.rng, *requests[heaviest])

    def propensity(
        self, action: Action, context: Action | None = None, *, allowed: Allowed = None, draws: int = 1000
    ) -> Propensity:
        """Estimate the probability that `act` would take this action now, by draws that the agent does not notice."""
        number = check_whole("draws", draws, 1, MOST_DRAWS)
        wanted = [model.action_vector(action, context) for model in self._eras[0].models]
        requests = self._requests(context, allowed)
        if not are_eligible(wanted[0], requests[0][1], len(self._eras[0].model.decisions)):
            return NEVER
        hits = 0
        for i, learner, state, rng, share in self._shares(number):
            with learner.requested(state, self._eras[0].request(context)):
                hits += learner.count_acts(state, rng, wanted[i].copy(), requests[i][1], share, wanted=wanted[i])
        return propensity_of(hits, number)

    def marginals(self, context: Action | None = None, *, allowed: Allowed = None, draws: int = 1000) -> Marginals:
        """Estimate the probability of each choice of each decision if `act` was called now, as `propensity` does.

        >>> from idbandits import models
        >>> Thompson(models.cascade(items=["tea", "coffee", "juice"], positions=2), seed=0).marginals()
        Marginals by 1,000 draws:
                   A1     A2
        choice
        tea     0.328  0.329
        coffee  0.329  0.350
        juice   0.343  0.321
        """
        number = check_whole("draws", draws, 1, MOST_DRAWS)
        requests, decisions = self._requests(context, allowed), self._eras[0].model.decisions
        counts = [np.zeros(node.states, dtype=np.int64) for node in decisions]
        for i, learner, state, rng, share in self._shares(number):
            tally = Tally(learner.model)
            with learner.requested(state, self._eras[0].request(context)):
                learner.count_acts(state, rng, *requests[i], share, tally)
            for node, total in zip(decisions, counts, strict=True):
                own = tally.by_name()[node.name]
                total += own if i == 0 else own[places_in(node, learner.model.nodes[node.name])]
        return Marginals(decisions, requests[0][1], counts, number)

    def _shares(self, draws: int) -> Iterator[tuple[int, Learner, State, Rng, int]]:
        """Divide draws among structures, with copies of their states and random numbers."""
        known, rng = self._apart()
        shares = [draws]
        if self._several:
            weights = known.weights()
            shares = rng.multinomial(draws, weights / weights.sum()).tolist()
        members = enumerate(zip(known.learners, known.states, shares, strict=True))
        return ((i, learner, state, rng, share) for i, (learner, state, share) in members if share)

    # -- learning ------------------------------------------------------------------------------------------------------

    def update(
        self, action: Action, observation: Mapping[str, Any], context: Action | None = None, *, at: Any = None
    ) -> None:
        """Learn from a round; observed nodes that are left out, None, NaN or NA were not seen.

        An agent that forgets needs to know when the round was played (`at`), unless it counts rounds and it was now: a
        number of rounds is that of all learned from before the action, including those taken back since.

        A structure in which the round is impossible is out from then on; if it is impossible in all that are left,
        nothing changes and an error is raised.
        """
        era = self._eras[0]
        try:
            round_ = era.round(action, observation, context)
        except MISFITS:
            era, (round_,) = self._encoded(action, (observation,), context)
        with self.rng.bit_generator.lock:
            try:
                self._learn_now(era, round_, at)
            except ImpossibleObservationError:
                self._known.sample.impossible += 1
                raise

    def check_round(
        self, action: Action, observation: Mapping[str, Any], context: Action | None = None, *, at: Any = None
    ) -> None:
        """Validate a round without learning: raise what `update` would raise, and change nothing.

        The round is learned by a copy of the agent, so this takes as long as `copy` and `update`.

        >>> from idbandits import models
        >>> agent = Thompson(models.cascade(["tea", "milk"], 2), seed=0)
        >>> agent.check_round({"A1": "tea", "A2": "milk"}, {"C1": 0, "C2": 1})
        >>> agent.check_round({"A1": "tea", "A2": "milk"}, {"C1": 2})
        Traceback (most recent call last):
        ...
        idbandits.errors.ObservationError: observation: node 'C1' cannot be 2; its states are 0 to 1
        """
        self.copy().update(action, observation, context, at=at)

    def _encoded(
        self, action: Action, observations: Sequence[Mapping[str, Any]], context: Action | None
    ) -> tuple[Era, list[Round]]:
        """Encode a round, with one observation or several, in the latest of all diagrams that can have them."""
        eras = self._eras
        try:
            return eras[0], eras[0].rounds(action, observations, context)
        except MISFITS:
            entries = self._known.learners[0].evidence.entries
            for era in eras[1:]:
                with contextlib.suppress(*MISFITS):
                    late = era.rounds(action, observations, context)
                    requests = translated_requests(late[0].request[np.newaxis], era.model, entries, 1)
                    return era, [round_._replace(request=requests[0]) for round_ in late]
            raise

    def _when(self, known: Known, at: Any) -> When | None:
        """Return when a round was played; None if that does not matter."""
        forget = known.learners[0].forget
        return when_played(forget, at, known.played, known.zone) if forget is not None or at is not None else None

    def _learn_now(self, era: Era, round_: Round, at: Any, where: str = "") -> None:
        """Learn from one round: in place, if no step of it can fail after another one was done."""
        if self._last_round is not None:
            self._remembered()
        known, shown = self._known, round_ if era is self._eras[0] else self._in_present(era, round_)
        when = None if at is None and not self._forgets else self._when(known, at)
        if not self._learns_in_place(known, era):
            with self._all_or_nothing() as known:
                known = learned(known, era, self.rng, round_, when, where)
                if shown is not None:
                    known.sample.add(shown.action, shown.seen)
                self._known = known
        elif self._several:
            self._learn_all_in_place(known, era, round_, shown, when, where)
        else:
            state = known.states[0]
            self._last_round = shown, state.ints.item(ROUNDS)
            after = learned_alone(known, era, self.rng, round_, when, where)
            if after is not state:
                self._known = known._replace(states=(after,))

    def _learns_in_place(self, known: Known, era: Era) -> bool:
        """Return whether states can be changed in place: regressions are fitted, and rows are added, in copies."""
        if not self._can_learn_in_place or (self._has_fits and any(s.wants_fit(more=1) for s in known.states)):
            return False
        return era is self._eras[0] or all(
            learner.guest(model) is not None for learner, model in zip(known.learners, era.models, strict=True)
        )

    def _in_present(self, era: Era, round_: Round) -> Round | None:
        """Return a round of an earlier diagram in the numbers of this one; None if this one cannot have it."""
        rows = era.translated(np.concatenate([round_.action, round_.seen])[None], self._eras[0])
        return self._eras[0].round_of(rows[0]) if len(rows) else None

    def _learn_all_in_place(
        self, known: Known, era: Era, round_: Round, shown: Round | None, when: When | None, where: str
    ) -> None:  # fmt: skip
        """Learn from a round by several structures."""
        prediction = predicted(known, era, round_, where)
        states = tuple(learner.with_room(state) for learner, state in zip(known.learners, known.states, strict=True))
        self._known = known = known._replace(states=states)
        calls: list[tuple[Any, ...]] = []
        members = zip(known.learners, states, prediction.rounds, prediction.joint, era.models, strict=True)
        for learner, state, own, p, model in members:
            if when is not None:
                state.floats[learner.evidence.learned + AT], state.ints[ZONE] = when
            packed = learner.evidence_for(model).packed
            if p > -np.inf:
                calls.append((learner.learn.entry, *packed, *state[:2], self.rng, own.action, own.seen, 1, NOW))
        calls.append((settle.entry, *era.rewarded, known.standing, prediction.joint, prediction.marginals, round_.seen))
        self._last_round = shown, known.rounds
        # One call from Python's view, so that no signal handler runs when some have learned and others have not.
        list(starmap(operator.call, calls))

    def update_many(
        self, actions: Any, observations: Any = None, contexts: Any = None, *,
        columns: Mapping[str, Any] | None = None, impossible: str = "error", at: Any = None,
    ) -> LogReport:  # fmt: skip
        """Learn from many rounds at once: arrays by node name, or one data frame of all of them.

        Missing values (None, NaN, NA, masked ones) were not seen. `columns` maps nodes to the names of their columns,
        where these differ; columns of no node are then ignored. A round that the diagram rules out is an error, and
        nothing is learned; with `impossible="skip"`, the others are. `at` is a column of the times of `update`.
        Features of a context are columns, too: `age` or `user.age`, or by `columns={"user": {"age": …}}`.

        Several structures predict rounds in blocks, each by what was known before it; a block is a tenth of what came
        before. A round is impossible if it is so in all structures that are left.

        >>> d = Diagram("coins")
        >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
        >>> agent = Thompson(d, inference="exact")
        >>> agent.update_many({"coin": [0, 0, 2]}, {"heads": [1, 0, 1]})
        LogReport(rounds=3, impossible=[])
        >>> agent.posterior()["heads"].alpha.tolist()
        [[2.0, 2.0], [1.0, 1.0], [1.0, 2.0]]
        """
        skips = check_skipping(impossible)
        entries = self._known.learners[0].evidence.entries
        batches = encode_log(self._eras, (actions, observations, contexts, columns), entries)
        length = sum(len(batch.numbers) for batch in batches)
        if length == 1 and at is None:
            return self._one_learned(batches[0], skips)
        with self._all_or_nothing() as known:
            times, zone = when_all_played(known.learners[0].forget, at, known.played, known.zone, length)
            for state in known.states:
                state.ints[ZONE] = zone
            if is_small(length, known.rounds):
                known, skipped = self._few_learned(known, batches, times, skips)
            elif self._several:
                known, skipped = self._many_learned(known, batches, times, skips)
            else:
                known, skipped = self._all_counted(known, batches, times, skips)
            for batch in batches:
                rounds = batch.part(~np.isin(batch.numbers, skipped)).rounds if skipped else batch.rounds
                known.sample.add_many(self._eras[batch.era].translated(rounds, self._eras[0]))
            known.sample.impossible += len(skipped)
            self._known = known
        return report_of(length, sorted(skipped))

    def _one_learned(self, batch: Batch, skips: bool) -> LogReport:
        """Learn from a log of one round, as `update` does."""
        era = self._eras[batch.era]
        round_ = era.round_of(batch.rounds[0], batch.requests[:1].ravel())
        with self.rng.bit_generator.lock:
            try:
                self._learn_now(era, round_, None, "in round 0, ")
            except ImpossibleObservationError:
                if not skips:
                    raise
                self._known.sample.impossible += 1
                return report_of(1, [0])
        return report_of(1, [])

    def _few_learned(
        self, known: Known, batches: Sequence[Batch], times: Floats, skips: bool
    ) -> tuple[Known, list[int]]:  # fmt: skip
        """Learn from a small log round by round; return the numbers of rounds that were skipped as well."""
        skipped = list[int]()
        for part in in_order(batches, 1, mixed=False):
            era, number = self._eras[part.era], int(part.numbers[0])
            when = When(times[number], known.zone) if len(times) else None
            round_ = era.round_of(part.rounds[0], part.requests[:1].ravel())
            try:
                known = learned(known, era, self.rng, round_, when, f"in round {number}, ")
            except ImpossibleObservationError:
                if not skips:
                    raise
                skipped.append(number)
        return known, skipped

    def _many_learned(
        self, known: Known, batches: Sequence[Batch], times: Floats, skips: bool
    ) -> tuple[Known, list[int]]:  # fmt: skip
        """Learn from a log by several structures, block by block."""
        length, done, skipped = sum(len(batch.numbers) for batch in batches), 0, list[int]()
        while done < length:
            last = done + max(1, min(BLOCK, int(GROWTH * known.standing.rounds[0])))
            parts = [b.part(slice(*np.searchsorted(b.numbers, [done, last]))) for b in batches]
            parts = [part for part in parts if len(part.numbers)]
            known, refused = block_learned(known, self._eras, self.rng, parts, times, skips)
            skipped += refused
            done = last
        return known.settled(self.rng, THOROUGHLY), skipped

    def _all_counted(
        self, known: Known, batches: Sequence[Batch], times: Floats, skips: bool
    ) -> tuple[Known, list[int]]:  # fmt: skip
        """Count the rounds of a log, then bring the belief up to date; in order, where rounds are not kept."""
        skipped = list[int]()
        for part in in_order(batches, CHUNK, mixed=known.learners[0].in_any_order(times)):
            era = self._eras[part.era]
            known, refused = all_counted(known.hosting(era, self.rng), era, self.rng, part, times, skips)
            skipped += part.numbers[refused].tolist()
        return known.settled(self.rng, THOROUGHLY), skipped

    def revise(
        self, action: Action, old_observation: Mapping[str, Any], new_observation: Mapping[str, Any] | None,
        context: Action | None = None, *, at: Any = None,
    ) -> None:  # fmt: skip
        """Complete or correct a round that was learned from; take it back if the new observation is None.

        `at` is when it was played, as in `update`: of a round that has faded, as much is taken back as is left.
        Weights of several structures are those of predictions that were made before, and remain.
        """
        for learner in self._known.learners:
            learner.check_revisable()
        observations = [old_observation, *([] if new_observation is None else [new_observation])]
        era, (old, *rest) = self._encoded(action, observations, context)
        new = rest[0] if rest else None
        with self._all_or_nothing() as known:
            when = self._when(known, at)
            known = revised(known.hosting(era, self.rng), self._eras, era, self.rng, old, new, when)
            is_late = era is not self._eras[0]
            before = self._in_present(era, old) if is_late else old
            after = self._in_present(era, new) if is_late and new is not None else new
            if before is not None:
                known.sample.replace(np.append(*before[:2]), None if after is None else np.append(*after[:2]))
            self._known = known

    def moved_to(self, d: Diagram | Sequence[Diagram] | Mapping[str, Diagram]) -> Thompson:
        """Return an agent in another diagram that knows all that this one knows about what both have, by labels.

        Rows that are new start from their prior. Rows that are gone still inform the rest, and rounds that were played
        before may still be learned from (`update`, `update_many`, `revise`). `carried` says what was taken along. An
        agent of several structures moves to as many with the same names.

        >>> from idbandits import models
        >>> agent = Thompson(models.cascade(["tea", "milk"], 1), seed=0)
        >>> agent.update({"A1": "tea"}, {"C1": 1})
        >>> agent = agent.moved_to(models.cascade(["tea", "rice"], 1))
        >>> agent.posterior()["attraction"].alpha.tolist()
        [[1.0, 2.0], [1.0, 1.0]]
        >>> agent.carried
        attraction: rows 1 kept, 1 new
        0 groups of rounds
        """
        diagrams = [_diagram(d, "an agent moves to")] if self._names is None else list(self._alike(d).values())
        known, rng = self._snapshot()
        present, *past = self._eras
        ledger = known.learners[0].unfaded(known.states[0], known.ledger)
        eras = earlier_eras(present, past, diagrams)
        moves = list[Moved]()
        for i, (learner, state, own) in enumerate(zip(known.learners, known.states, diagrams, strict=True)):
            moves.append(moved(learner, state, rng, own, tuple(era.diagrams[i] for era in eras), ledger))
        learners = tuple(move.learner for move in moves)
        sample = known.sample.moved(present.model, learners[0].model)
        ledger = moved_ledger(known.learners[0], ledger, learners[0])
        after = Known(learners, tuple(move.state for move in moves), known.standing, sample, ledger)
        for learner in learners:
            warn_once(learner.model, stacklevel=2)
        carried: Any = moves[0].carried
        if self._names is not None:
            carried = dict(zip(self._names, (move.carried for move in moves), strict=True))
        return _of(after, rng, self._names, eras, carried, self.metadata)

    def _alike(self, d: Any) -> dict[str, Diagram]:
        """Validate structures to move to."""
        diagrams = named_structures(d)
        if list(diagrams) != list(self._eras[0].names):
            these = f"{', '.join(map(repr, self._eras[0].names))}, in this order"
            raise IdbanditsError(f"an agent of several structures moves to as many with the same names: {these}")
        return diagrams

    # -- the belief ----------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, float]:
        """Return the probability of each structure to be the one that is acted by."""
        with self.rng.bit_generator.lock:
            return dict(zip(self._eras[0].names, self._known.weights().tolist(), strict=True))

    def sample(self) -> dict[str, Any]:
        """Draw the means of all learned tables once."""
        with self.rng.bit_generator.lock:
            known = self._known
            return self._by_structure(lambda own, state: own.sample(own.without_request(state), self.rng), known)

    def draws(self, number: int) -> dict[str, Any]:
        """Draw the means of all tables `number` times: all that stand at one place belong together.

        Products of means, and whatever else is computed of several tables, have honest intervals this way. They do not
        use up the agent's random numbers.

        >>> from idbandits import models
        >>> agent = Thompson(models.rank1(3, 2), seed=0)
        >>> for _ in range(200):
        ...     agent.update({"A1": 0, "A2": 1}, {"X": 1})
        >>> draws = agent.draws(1000)
        >>> product = draws["row"][:, 0] * draws["column"][:, 1]
        >>> product.shape, bool(0.97 < product.mean() < 1)
        ((1000,), True)
        """
        entries = max(learner.evidence.learned for learner in self._known.learners)
        count = check_whole("the number of draws", number, 1, MOST_DRAWS // max(1, entries))
        known, rng = self._apart()
        return self._by_structure(lambda learner, state: learner.draws(state, rng, count), known)

    def posterior(self) -> dict[str, Any]:
        """Return the belief of every learned table, as `Posterior` by name."""
        known, rng = self._snapshot()
        return self._by_structure(lambda learner, state: learner.posterior(state, rng), known)

    def fit_report(self) -> Any:
        """Report whether what was observed speaks against the structure of the diagram, and where.

        It examines a sample of the rounds (all of the first 65,536; fewer if a round has more than 32 numbers), and may
        be asked for at any time, as often as one likes: its p-values account for that.

        >>> d = Diagram("coins")
        >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
        >>> agent = Thompson(d, seed=1)
        >>> agent.update({"coin": 2}, {"heads": 1})
        >>> agent.fit_report()
        1 round: too few to judge the structure by; 100 are needed.
        """
        present = self._eras[0]
        for node in present.model.contexts:
            if node.features is not None:
                raise IdbanditsError(
                    f"context {node.name!r} has features: the rounds to judge the structure by lack them"
                )
        known, _ = self._snapshot()
        orders = iter(present.orders if self._several else [None])

        def report(learner: Learner, state: State) -> FitReport:
            order = next(orders)
            sample = known.sample if order is None or order.same else known.sample.renumbered(order.of_rounds)
            return fit_report(learner.model, state.floats[: learner.evidence.live], sample)

        return self._by_structure(report, known)

    def elbo(self) -> float:
        """Return the evidence lower bound L(q) of the paper, for variational inference."""
        if self._several:
            raise IdbanditsError(
                "several structures have no ELBO: it bounds the evidence of one; weights() compares them"
            )
        if not isinstance(self.inference, Bounded):
            raise IdbanditsError(f"inference {name_of(self.inference)!r} has no ELBO; {BOUNDED} has")
        known, _ = self._snapshot()
        return float(self.inference.elbo(known.learners[0].evidence, known.states[0]))

    # -- compilation, copies and files ---------------------------------------------------------------------------------

    @property
    def kernels(self) -> list[Kernel]:
        """All compiled functions that any of its methods may need."""
        found = list[Kernel]()
        for learner in self._known.learners:
            own = [learner.solve, *([learner.learn] if isinstance(learner.learn, Kernel) else [])]
            found += [*own, *kernels_behind(__name__, type(learner.inference).__module__)]
        return list(dict.fromkeys(found))

    def warm_up(self, *, processes: int | None = 1) -> Warmth:
        """Compile all that any method may need, so that no later call waits for it; what is on disk is only read.

        With `processes`, so many compile at once (None: one per core): as always with `multiprocessing`, each of them
        imports the main module, so a script needs `if __name__ == "__main__":`.
        """
        return warm_up(self.kernels, processes)

    def __repr__(self) -> str:
        settings = ""
        if self._names is None:
            settings = "".join(f", {name}={brief(value)}" for name, value in self.inference.settings.items())
        settings += f", effort={self.effort:g}" if self.effort != 1.0 else ""
        settings += f", forget={self.forget!r}" if self.forget is not None else ""
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        inferences = ", ".join(dict.fromkeys(name_of(learner.inference) for learner in self._known.learners))
        what = repr(self.diagram.name) if self._names is None else f"[{', '.join(map(repr, self._names))}]"
        return f"Thompson({what}, {inferences}{settings}; {rounds})"

    def copy(self, seed: Any = None) -> Thompson:
        """Return an agent that knows the same; with its own random numbers if a seed is given."""
        known, rng = self._snapshot()
        if seed is not None:
            rng = generator(seed)
            if not known.rounds:
                known = known._replace(states=tuple(learner.beginning(rng) for learner in known.learners))
        return _of(known, rng, self._names, self._eras[1:], self.carried, self.metadata)

    def __deepcopy__(self, memo: dict[int, Any]) -> Thompson:
        return self.copy()

    def __reduce__(self) -> Any:
        known, rng = self._snapshot()
        return _restored, (self._saved(known, rng, self.metadata), known.standing, self._names)

    def _saved(self, known: Known, rng: Rng, metadata: dict[str, Any]) -> list[Saved]:
        """Return what files hold of each structure; the sample and the ledger are those of all of them."""
        return [
            Saved(learner.diagram, learner.settings, learner.past, state, rng, known.sample, metadata, known.ledger)
            for learner, state in zip(known.learners, known.states, strict=True)
        ]

    def save(self, path: str | Path, *, metadata: Mapping[str, Any] | None = None) -> None:
        """Write all that the agent knows to a file atomically; `load` goes on as if nothing happened.

        `metadata` is a mapping of JSON data, up to 1 MB, that is stored with the agent: `agent.metadata` after `load`.
        Without it, the agent's own metadata is stored again.
        """
        own = checked_metadata(self.metadata if metadata is None else metadata)
        known, rng = self._snapshot()
        evidence = [learner.evidence for learner in known.learners]
        if self._names is None:
            save_agent(path_of(path), self._saved(known, rng, own)[0], evidence[0])
            return
        members = zip(self._saved(known, rng, {}), evidence, strict=True)
        contents = [partial(content_of, saved, about) for saved, about in members]
        save_bundle(path_of(path), Bundle(list(self._names), known.standing, rng, own), contents)

    @staticmethod
    def load(
        path: str | Path, *, diagram: Any = None, inference: Inference | None = None, seed: Any = None,
        structures: Any = None,
    ) -> Thompson:  # fmt: skip
        """Read an agent from a file.

        It goes on with the saved random numbers, so processes that load one file choose identical actions; pass a
        different `seed` in each of them. With `diagram`, an agent of another diagram is rejected; of several
        structures, `structures` are their diagrams, in a list or by name. Custom inferences are passed again.
        """
        where = path_of(path)
        if is_bundle(where):
            agent = _load_bundle(where, diagram if structures is None else structures, inference)
        else:
            agent = _restored([load_agent(where, diagram, inference)], first_standing(1), None)
        return agent if seed is None else agent.copy(seed)


def _diagram(d: Any, who: str = "d must be") -> Diagram:
    """Validate a diagram."""
    if not isinstance(d, Diagram):
        raise DiagramError(f"{who} a Diagram, got {brief(d)}")
    return d


def _no_rounds(learner: Learner) -> Sample:
    """Return a sample of no rounds."""
    return Sample(sum(map(len, learner.blank[:2])))


def _of(
    known: Known, rng: Rng, names: tuple[str, ...] | None, eras: Sequence[Era], carried: Any,
    metadata: Mapping[str, Any],
) -> Thompson:  # fmt: skip
    """Return an agent that goes on with what is known."""
    agent: Thompson = object.__new__(Thompson)
    return agent._begin(known, rng, names, eras, carried, metadata)


def _restored(members: Sequence[Saved], standing: Standing, names: tuple[str, ...] | None) -> Thompson:
    """Return an agent from what files hold of each structure."""
    first, labels = members[0], names or (members[0].diagram.name,)
    learners = tuple(Learner(own.diagram, compile(own.diagram), own.settings, own.past) for own in members)
    pasts = zip(*(own.past.earlier for own in members), strict=True)
    eras = [Era(dict(zip(labels, diagrams, strict=True))) for diagrams in pasts]
    known = Known(learners, tuple(own.state for own in members), standing, first.sample, first.ledger)
    return _of(known, first.rng, names, eras, None, first.metadata)


def _load_bundle(where: Path, structures: Any, inference: Inference | None) -> Thompson:
    """Read an agent of several structures."""
    wanted = None if structures is None else named_structures(structures)
    members: dict[str, Saved] = {}

    def load(name: str, content: bytes) -> None:
        if wanted is not None and name not in wanted:
            raise FormatError(f"it is not one of {', '.join(map(repr, wanted))}")
        diagram = None if wanted is None else wanted[name]
        members[name] = read_agent(io.BytesIO(content), len(content), diagram, inference)

    bundle = load_bundle(where, load)
    if missing := [name for name in wanted or {} if name not in members]:
        raise FormatError(f"{where}: the agent in it has no structure {missing[0]!r}")
    own = list(members.values())
    try:
        named_structures({name: saved.diagram for name, saved in members.items()})
        if len({len(saved.past.earlier) for saved in own}) > 1:
            raise FormatError("its structures have different numbers of earlier diagrams")
        for diagrams in zip(*(saved.past.earlier for saved in own), strict=True):
            named_structures(dict(zip(members, diagrams, strict=True)))
    except IdbanditsError as error:
        raise FormatError(f"{where}: {error}") from None
    own[0] = own[0]._replace(rng=bundle.rng, metadata=bundle.metadata)
    return _restored(own, bundle.standing, tuple(bundle.names))


Structures = Thompson  # the name of agents of several structures in earlier versions
