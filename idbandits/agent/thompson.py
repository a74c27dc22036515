"""Thompson sampling: an agent that acts in a diagram and learns from what it observes."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from idbandits.agent import restore
from idbandits.agent.counts.counts import Counts, check_counts
from idbandits.agent.counts.learn_counts import are_learnable, check_learnable, counts_learned
from idbandits.agent.encoding.agreement import named_alike, named_structures
from idbandits.agent.encoding.encode import Batch, encode_log
from idbandits.agent.encoding.era import MISFITS, Era, key_of
from idbandits.agent.fork_safety import make_fork_safe
from idbandits.agent.knowledge import Knowledge
from idbandits.agent.learning.learn_log import log_learned
from idbandits.agent.learning.learn_rounds import learn_in_place, learned, learned_alone, revised
from idbandits.agent.learning.log_report import LogReport, check_skipping, report_of
from idbandits.agent.snapshot import Snapshot, first_snapshot
from idbandits.agent.storage.metadata import checked_metadata
from idbandits.agent.transfer import Moved, earlier_eras, moved, moved_ledger
from idbandits.agent.warmup import WarmUpReport, kernels_of, warm_up
from idbandits.circuit.model import Action
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import DiagramError, IdbanditsError, ImpossibleObservationError, brief
from idbandits.identifiability import warn_of_scales, warn_once
from idbandits.inference import BY_NAME, Exact, Inference, name_of
from idbandits.inference.forgetting import Forget, forgetting, when_all_played, when_played
from idbandits.inference.regression.logistic_setup import translated_requests
from idbandits.inference.rounds.round import NO_FEATURES, Round
from idbandits.inference.state.state import NEXT_FIT
from idbandits.kernel.array_types import Ints, Rng, generator
from idbandits.kernel.compile import Kernel
from idbandits.solve.eligible import EVERY_CHOICE, Allowed
from idbandits.solve.solver import check_effort


@final
class Thompson(Knowledge):
    """An agent that draws means from its belief and takes the action that is best under them.

    Threads may share an agent: rounds are learned one after the other, and compiled code runs without the GIL.

    With several diagrams, called structures, the agent keeps a belief in each, draws one by its weight, and acts by it.
    Weights follow how well each predicted what was observed (docs/explanation/structure-weights.md). A structure in
    which a round was impossible is excluded. The diagrams share the names and values of decisions, contexts and
    observed nodes, and mean the same by reward. `posterior`, `sample`, `draws` and `fit_report` then return a
    dictionary by structure.

    Parameters
    ----------
    d : Diagram, or list or mapping of Diagram
        Decision problem; a list, or a mapping by name, has the structures to weigh.
    inference : str or Inference, optional
        Name, or an object with settings such as `idb.Variational(sweeps=5)`, compared in
        docs/explanation/inferences.md. By default "gibbs", or "moments" where a context has features.
    seed : int, sequence of int, SeedSequence or Generator, optional
        Seed of the random numbers; equal seeds and calls give equal actions.
    effort : float
        Factor on the search for the best action, as in `idb.best_action`.
    forget : Forget, optional
        Half-life of what was learned, for worlds that change (docs/how-to/drift.md).

    Attributes
    ----------
    metadata : dict
        JSON data that `save` stores with the agent.
    carried : Carried, dict of Carried by structure, or None
        Summary of the move that created this agent (`moved_to`).

    Examples
    --------
    >>> import idbandits as idb
    >>> d = idb.Diagram("coins")
    >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
    >>> agent = idb.Thompson(d, seed=1)
    >>> for _ in range(200):
    ...     action = agent.act()
    ...     agent.update(action, {"heads": int(action["coin"] == 2)})
    >>> agent.act()
    {'coin': 2}
    >>> agent.posterior()["heads"].mean.round(2)[2]
    np.float64(0.99)

    Several structures: two clicks rule out a cascade, in which there is one at most.

    >>> agent = idb.Thompson([idb.models.cascade(5, 2), idb.models.position_based(5, 2)], seed=1)
    >>> agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1})
    >>> agent.weights()
    {'cascade': 0.0, 'position-based': 1.0}
    """

    carried: Any = None  # what a move carried over (`Carried`); of several structures, by name

    def __init__(
        self, d: Diagram | Sequence[Diagram] | Mapping[str, Diagram], inference: str | Inference | None = None,
        seed: Any = None, *, effort: float = 1.0, forget: Forget | None = None,
    ) -> None:  # fmt: skip
        by_name = isinstance(d, (list, tuple, Mapping))
        diagrams = named_structures(d) if by_name else {_diagram(d).name: _diagram(d)}
        rng, how = generator(seed), (inference, check_effort(effort), forgetting(forget))
        self._begin(restore.Parts(first_snapshot(diagrams, how, rng), rng, tuple(diagrams) if by_name else None))
        for learner in self._known.learners:
            warn_once(learner.model, stacklevel=2)
            if not learner.is_chain:
                warn_of_scales(learner.model, stacklevel=2)

    def _begin(self, parts: restore.Parts) -> Thompson:
        """Set all attributes."""
        self._known, self.rng, self._names, eras, self.carried, metadata = parts
        self.metadata: dict[str, Any] = copy.deepcopy(dict(metadata or {}))  # what the user stored with it (`save`)
        make_fork_safe(self)
        learners = self._known.learners
        labels = self._names or (learners[0].diagram.name,)
        present = Era(dict(zip(labels, (learner.diagram for learner in learners), strict=True)))
        self._eras = (present, *eras)
        self._visited: dict[int, tuple[Diagram, Era]] = {}  # by id of diagrams that rounds are passed with
        self._solver, self._several = learners[0].solver, len(learners) > 1
        kinds = [type(learner.inference) for learner in learners]
        rejects_none = all(kind in BY_NAME.values() and kind is not Exact for kind in kinds)
        self._can_learn_in_place = rejects_none if self._several else learners[0].is_compiled
        self._has_fits = any(state.ints[NEXT_FIT] for state in self._known.states)
        return self

    # -- compiled loops ------------------------------------------------------------------------------------------------

    def make_ready(self) -> None:
        """Make room for another round, and fit regressions if that is due: for compiled loops."""
        known = self._known
        learner, state = known.learners[0], known.learners[0].with_room(known.states[0])
        self._known = known._replace(states=(state, *known.states[1:]))
        if state.wants_fit():
            learner.fit_regressions(state, self.rng)

    def eligible(self, allowed: Allowed) -> Ints:
        """Return the choices that may be made, as numbers for kernels.

        Parameters
        ----------
        allowed : iterable or mapping of iterables, optional
            Choices, as in `act`.

        Returns
        -------
        ndarray of int64
            Packed lists of choices; empty if all choices may be made.
        """
        return self._solver.eligible(allowed)

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[Snapshot]:
        """Yield a copy of everything that is known, under the lock; reset the random generator on errors."""
        with self.rng.bit_generator.lock:
            before, known = self.rng.bit_generator.state, self._known
            try:
                yield known.copy()
            except BaseException:
                if self._known is known:  # else a signal came when all was done
                    self.rng.bit_generator.state = before
                raise

    # -- acting --------------------------------------------------------------------------------------------------------

    def act(
        self, context: Action | None = None, *, allowed: Allowed = None, seed: int | None = None
    ) -> dict[str, Label]:
        """Return the action that is best under means drawn from the belief.

        Parameters
        ----------
        context : mapping, optional
            Value of each context node, or its features, by name.
        allowed : iterable, or mapping of iterables by decision, optional
            Eligible choices; decisions that are not listed may make any choice.
        seed : int, optional
            Seed of this action alone, which then depends on belief and seed; the agent's random numbers are not used.

        Returns
        -------
        dict
            Choice of each decision, by name.

        Raises
        ------
        ContextError
            If the context does not fit the diagram.
        ActionError
            If no valid action remains under `allowed`.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk", "rice"], positions=2), seed=0)
        >>> sorted(agent.act(allowed=["tea", "rice"]).values())
        ['rice', 'tea']
        >>> agent.act(seed=7) == agent.act(seed=7)
        True
        """
        rng = self.rng if seed is None else generator(seed)
        if self._several:
            return self._act_by_weight(context, allowed, rng)
        present, solver = self._eras[0], self._solver
        numbers: list[float] = []
        action = solver.blank_action(context, request=numbers)
        eligible = EVERY_CHOICE if allowed is None else solver.eligible(allowed)
        features = np.array(numbers) if numbers else NO_FEATURES
        with self.rng.bit_generator.lock:
            known = self._known
            known.learners[0].choose(known.states[0], rng, action, eligible, features)
        chosen = present.model.action_of(action)
        present.remember(chosen, context, action)
        return chosen

    def _act_by_weight(self, context: Action | None, allowed: Allowed, rng: Rng) -> dict[str, Label]:
        requests = self._requests(context, allowed)
        with self.rng.bit_generator.lock:
            known = self._known
            drawn = int(np.searchsorted(np.cumsum(known.weights()), rng.random(), side="right"))
            drawn = min(drawn, len(known.learners) - 1)
            learner, request = known.learners[drawn], requests[drawn]
            learner.choose(known.states[drawn], rng, *request)
        chosen = learner.model.action_of(request.action)
        if self._eras[0].orders[drawn].same:
            self._eras[0].remember(chosen, context, request.action)
        return chosen

    # -- learning ------------------------------------------------------------------------------------------------------

    def update(
        self, action: Action, observation: Mapping[str, Any], context: Action | None = None, *, at: Any = None,
        diagram: Diagram | None = None,
    ) -> None:  # fmt: skip
        """Learn from a round.

        A structure in which the round is impossible is excluded from then on; if it is impossible in all that are left,
        nothing changes and an error is raised.

        Parameters
        ----------
        action : mapping
            Choice of each decision, by name; it may have been chosen by someone else.
        observation : mapping
            Value of observed nodes, by name. Nodes that are left out, None, NaN or NA were not observed.
        context : mapping, optional
            Value of each context node, or its features, by name.
        at : int, datetime or str, optional
            Time at which the action was chosen, for agents that forget: a time if the half-life is one, else the number
            of rounds learned before the action, including those removed since (by default, all so far).
        diagram : Diagram, optional
            Diagram in which the round was played, if the agent moved; by default, the latest that has these nodes and
            values.

        Raises
        ------
        ActionError, ObservationError, ContextError
            If a part of the round does not fit the diagram.
        ImpossibleObservationError
            If the diagram gives the round probability zero.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk"], positions=2), seed=0)
        >>> agent.update({"A1": "tea", "A2": "milk"}, {"C1": 0, "C2": 1})
        >>> agent.posterior()["attraction"].alpha.tolist()  # by item: no click, click
        [[2.0, 1.0], [1.0, 2.0]]
        """
        era = self._eras[0]
        if diagram is None:
            try:
                round_ = era.round(action, observation, context)
            except MISFITS:
                era, (round_,) = self._encoded(action, (observation,), context, None)
        else:
            era, (round_,) = self._encoded(action, (observation,), context, diagram)
        self._learn(era, round_, at)

    def check_round(
        self, action: Action, observation: Mapping[str, Any], context: Action | None = None, *, at: Any = None
    ) -> None:
        """Validate a round without learning: raise what `update` would raise, and change nothing.

        The round is learned by a copy of the agent, so this takes as long as `copy` and `update`.

        Parameters
        ----------
        action, observation, context, at
            Round, as in `update`.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk"], 2), seed=0)
        >>> agent.check_round({"A1": "tea", "A2": "milk"}, {"C1": 0, "C2": 1})
        >>> agent.check_round({"A1": "tea", "A2": "milk"}, {"C1": 2})
        Traceback (most recent call last):
        ...
        idbandits.errors.ObservationError: observation: node 'C1' must be one of 0 to 1, got 2
        """
        self.copy().update(action, observation, context, at=at)

    def _encoded(
        self, action: Action, observations: Sequence[Mapping[str, Any]], context: Action | None,
        diagram: Diagram | None,
    ) -> tuple[Era, list[Round]]:  # fmt: skip
        """Encode a round, with one observation or several, in a diagram, or in the latest that can have them."""
        eras = self._eras if diagram is None else (self._era_of(_diagram(diagram)),)
        misfit: Exception | None = None
        for era in eras:
            try:
                rounds = era.rounds(action, observations, context)
            except MISFITS as error:
                misfit = misfit or error
                continue
            if era is self._eras[0]:
                return era, rounds
            entries = self.learner.evidence.entries
            features = translated_requests(rounds[0].features[np.newaxis], era.model, entries, 1)[0]
            return era, [round_._replace(features=features) for round_ in rounds]
        assert misfit is not None
        raise misfit

    def _era_of(self, d: Diagram) -> Era:
        """Return the era of a diagram that the agent is in or was in; others are remembered until the agent moves."""
        visited = self._visited.get(id(d))
        if visited is None or visited[0] is not d:
            key = key_of([d])
            era = next((own for own in self._eras if own.key == key), None)
            if era is None and self._several:
                raise DiagramError(f"diagram must be one that the agent was in, got {d.name!r}")
            if era is None:
                own = self.learner.diagram, *self.learner.past.earlier
                era = Era({d.name: d.with_encodings_of(*own)})
            visited = self._visited[id(d)] = d, era
        return visited[1]

    def _learn(self, era: Era, round_: Round, at: Any, where: str = "", counts: bool = True) -> None:
        """Learn from one round, under the lock; count it if it is impossible, unless nothing may change then."""
        with self.rng.bit_generator.lock:
            try:
                self._learn_locked(era, round_, at, where)
            except ImpossibleObservationError:
                self._known.sample.impossible += counts
                raise

    def _learn_locked(self, era: Era, round_: Round, at: Any, where: str) -> None:
        """Learn from one round: in place, if no step of it can fail after another one was done."""
        known, present, rng = self._known, self._eras[0], self.rng
        zone = None
        if at is not None or known.learners[0].forget is not None:
            time, zone = when_played(known.learners[0].forget, at, known.played, known.zone)
            round_ = round_._replace(time=time)
        if not self._learns_in_place(known, era):
            with self._all_or_nothing() as known:
                self._known = learned(known, era, rng, round_, where)
        elif self._several:
            self._known = learn_in_place(known, era, rng, round_, where)
        else:
            state = learned_alone(known, era, rng, round_, where)
            if state is not known.states[0]:
                self._known = known._replace(states=(state,))
        if zone is not None:
            self._known.set_zone(zone)
        shown = round_ if era is present else era.in_other(round_, present)
        if shown is not None:
            self._known.sample.add(shown.action, shown.seen)

    def _learns_in_place(self, known: Snapshot, era: Era) -> bool:
        """Return whether states can be changed in place: regressions are fitted, and rows are added, in copies."""
        if not self._can_learn_in_place or (self._has_fits and any(s.wants_fit(more=1) for s in known.states)):
            return False
        return era is self._eras[0] or all(
            learner.guest(model) is not None for learner, model in zip(known.learners, era.models, strict=True)
        )

    def update_many(
        self, actions: Any, observations: Any = None, contexts: Any = None, *,
        columns: Mapping[str, Any] | None = None, impossible: str = "error", at: Any = None,
    ) -> LogReport:  # fmt: skip
        """Learn from many rounds: arrays by node name, or one data frame of all of them.

        Several structures predict rounds in blocks, each by what was known before it; a block is a tenth of what came
        before. A round is impossible if it is impossible in all structures that are left.

        Parameters
        ----------
        actions : data frame or mapping
            Choices, with a column of n values per decision; or a data frame of all nodes.
        observations : data frame or mapping, optional
            Values of observed nodes, n per column; missing ones (None, NaN, NA, masked) were not observed.
        contexts : data frame or mapping, optional
            Values of context nodes, n per column. Features of a context are columns `age` or `user.age`.
        columns : mapping, optional
            Names of columns by node where these differ, or by feature: `{"user": {"age": …}}`. Columns of no node are
            then ignored.
        impossible : {"error", "skip"}
            Reject the whole log if a round has probability zero, or learn from the other rounds.
        at : sequence or str, optional
            Time of each round, as in `update`.

        Returns
        -------
        LogReport
            Number of rounds learned from, and the impossible ones.

        Examples
        --------
        >>> import idbandits as idb
        >>> d = idb.Diagram("coins")
        >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
        >>> agent = idb.Thompson(d, inference="exact")
        >>> agent.update_many({"coin": [0, 0, 2]}, {"heads": [1, 0, 1]})
        LogReport(rounds=3, impossible=[])
        >>> agent.posterior()["heads"].alpha.tolist()
        [[2.0, 2.0], [1.0, 1.0], [1.0, 2.0]]
        """
        skips = check_skipping(impossible)
        batches = encode_log(self._eras, (actions, observations, contexts, columns), self.learner.evidence.entries)
        return self.update_encoded(batches, at, skips)

    def update_encoded(self, batches: Sequence[Batch], at: Any, skips: bool) -> LogReport:
        """Learn from encoded rounds of a log.

        Parameters
        ----------
        batches : sequence of Batch
            Rounds as numbers, by the diagram in which they were played.
        at : sequence, optional
            Time of each round, as in `update`.
        skips : bool
            Skip impossible rounds instead of raising an error.

        Returns
        -------
        LogReport
            Number of rounds learned from, and the impossible ones.
        """
        length = sum(len(batch.numbers) for batch in batches)
        if length == 1 and at is None:
            return self._one_learned(batches[0], skips)
        with self._all_or_nothing() as known:
            times, zone = when_all_played(known.learners[0].forget, at, known.played, known.zone, length)
            known.set_zone(zone)
            known, skipped = log_learned(known, self._eras, self.rng, batches, times, skips)
            self._known = known
        return report_of(length, sorted(skipped))

    @property
    def learns_counts(self) -> bool:
        """True if `learn` takes counts of logs; else rounds are learned one by one, in their order."""
        return not self._several and are_learnable(self.learner)

    def learn(self, counts: Counts) -> None:
        """Learn from counts of a log, of the present diagram or of an earlier one.

        The belief is that after `update` with each round. Factors of very large logs become pseudo-counts with the
        means and variances of the posterior (docs/reference/logs.md).

        Parameters
        ----------
        counts : Counts
            Result of `idb.count`, or a sum of them.

        Raises
        ------
        DiagramError
            If the counts are those of another diagram.

        Examples
        --------
        >>> import idbandits as idb
        >>> d = idb.models.cascade(["tea", "milk"], positions=1)
        >>> agent = idb.Thompson(d, seed=0)
        >>> agent.learn(idb.count(d, {"A1": ["tea", "tea", "milk"], "C1": [1, 1, 0]}))
        >>> agent.rounds
        3
        """
        counts = check_counts(counts)
        if self._several:
            raise IdbanditsError(
                "learn needs an agent of one structure; several are weighed by rounds: use update_many"
            )
        key = bytes.fromhex(counts.fingerprint)
        era = next((era for era in self._eras if era.key == key), None)
        if era is None:
            raise DiagramError(f"counts must be of diagram {self.diagram.name!r} or an earlier one, got {counts!r}")
        with self._all_or_nothing() as known:
            check_learnable(known.learners[0], counts)
            known = counts_learned(known, era, self.rng, counts)
            known.sample.impossible += counts.impossible
            if counts.sample is not None:
                known.sample.add_many(era.translated(counts.sample.rounds, self._eras[0]))
            self._known = known

    def _one_learned(self, batch: Batch, skips: bool) -> LogReport:
        """Learn from a log of one round, as `update` does."""
        era = self._eras[batch.era]
        try:
            self._learn(era, era.round_of(batch.rounds[0], batch.requests[:1].ravel()), None, "in round 0, ", skips)
        except ImpossibleObservationError:
            if not skips:
                raise
            return report_of(1, [0])
        return report_of(1, [])

    def revise(
        self, action: Action, old_observation: Mapping[str, Any], new_observation: Mapping[str, Any] | None,
        context: Action | None = None, *, at: Any = None, diagram: Diagram | None = None,
    ) -> None:  # fmt: skip
        """Complete or correct a round that was learned from, or remove it.

        The belief is that of an agent that learned the new observation in the first place. Weights of several
        structures are those of predictions that were made before, and remain.

        Parameters
        ----------
        action : mapping
            Action of the round, as in `update`.
        old_observation : mapping
            Observation that was learned.
        new_observation : mapping or None
            Observation to learn instead; None removes the round.
        context, at, diagram
            Those of `update`. Of a round that has faded, as much is removed as is left.

        Raises
        ------
        ObservationError
            If the old observation was not learned before.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk"], positions=2), seed=0)
        >>> shown = {"A1": "tea", "A2": "milk"}
        >>> agent.update(shown, {"C1": 0})
        >>> agent.revise(shown, {"C1": 0}, {"C1": 0, "C2": 1})
        >>> agent.rounds, agent.posterior()["attraction"].alpha.tolist()
        (1, [[2.0, 1.0], [1.0, 2.0]])
        """
        for learner in self._known.learners:
            learner.check_revisable()
        observations = [old_observation, *([] if new_observation is None else [new_observation])]
        era, rounds = self._encoded(action, observations, context, diagram)
        with self._all_or_nothing() as known:
            forget, zone = known.learners[0].forget, known.zone
            if at is not None or forget is not None:
                time, zone = when_played(forget, at, known.played, zone)
                rounds = [round_._replace(time=time) for round_ in rounds]
            old, new = rounds[0], rounds[1] if len(rounds) > 1 else None
            known = revised(known.hosting(era, self.rng), self._eras, era, self.rng, old, new)
            known.set_zone(zone)
            before, after = (None if own is None else era.in_other(own, self._eras[0]) for own in (old, new))
            if before is not None:
                known.sample.replace(np.append(*before[:2]), None if after is None else np.append(*after[:2]))
            self._known = known

    def moved_to(self, d: Diagram | Sequence[Diagram] | Mapping[str, Diagram]) -> Thompson:
        """Return an agent in another diagram that keeps everything known about rows of both, matched by labels.

        New rows start from their prior. Rows that the new diagram lacks still inform the others, and rounds that were
        played before may still be learned from (`update`, `update_many`, `revise`).

        Parameters
        ----------
        d : Diagram, or list or mapping of Diagram
            New diagram; of several structures, a diagram for each name.

        Returns
        -------
        Thompson
            New agent, whose `carried` summarises the move.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(["tea", "milk"], 1), seed=0)
        >>> agent.update({"A1": "tea"}, {"C1": 1})
        >>> agent = agent.moved_to(idb.models.cascade(["tea", "rice"], 1))
        >>> agent.posterior()["attraction"].alpha.tolist()
        [[1.0, 2.0], [1.0, 1.0]]
        >>> agent.carried
        attraction: rows 1 kept, 1 new
        0 groups of rounds
        """
        for learner in self._known.learners:
            learner.check_movable()
        diagrams = [_diagram(d)] if self._names is None else list(named_alike(d, self._eras[0].names).values())
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
        after = Snapshot(learners, tuple(move.state for move in moves), known.standing, sample, ledger)
        for learner in learners:
            warn_once(learner.model, stacklevel=2)
        reports = [move.carried for move in moves]
        carried: Any = reports[0] if self._names is None else dict(zip(self._names, reports, strict=True))
        return _of(restore.Parts(after, rng, self._names, eras, carried, self.metadata))

    # -- compilation, copies and files ---------------------------------------------------------------------------------

    @property
    def kernels(self) -> list[Kernel]:
        """Return all compiled functions that any method may need."""
        return kernels_of(self._known.learners)

    def warm_up(self, *, processes: int | None = 1) -> WarmUpReport:
        """Compile all machine code that any method may need, or read it from the disk, so that no later call waits.

        Parameters
        ----------
        processes : int or None
            Number of processes that compile (None: one per core). With more than one, a script needs
            `if __name__ == "__main__":`.

        Returns
        -------
        WarmUpReport
            Numbers of kernels, and seconds.

        Examples
        --------
        >>> import idbandits as idb
        >>> report = idb.Thompson(idb.models.cascade(3, 2), "exact").warm_up()
        >>> report.new <= report.kernels
        True
        """
        return warm_up(self.kernels, processes)

    def __repr__(self) -> str:
        own = self.inference.settings if self._names is None else {}
        settings = "".join(f", {name}={brief(value)}" for name, value in own.items())
        settings += f", effort={self.effort:g}" if self.effort != 1.0 else ""
        settings += f", forget={self.forget!r}" if self.forget is not None else ""
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        inferences = ", ".join(dict.fromkeys(name_of(learner.inference) for learner in self._known.learners))
        what = repr(self.diagram.name) if self._names is None else f"[{', '.join(map(repr, self._names))}]"
        return f"Thompson({what}, {inferences}{settings}; {rounds})"

    def copy(self, seed: Any = None) -> Thompson:
        """Return an independent agent with equal knowledge.

        Parameters
        ----------
        seed : int, sequence of int, SeedSequence or Generator, optional
            Seed of the copy; by default, it continues with equal random numbers.

        Returns
        -------
        Thompson
            Copy.

        Examples
        --------
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(3, 2), seed=0)
        >>> other = agent.copy()
        >>> other.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
        >>> agent.rounds, other.rounds
        (0, 1)
        """
        known, rng = self._snapshot()
        if seed is not None:
            rng = generator(seed)
            if not known.rounds:
                known = known._replace(states=tuple(learner.beginning(rng) for learner in known.learners))
        return _of(restore.Parts(known, rng, self._names, self._eras[1:], self.carried, self.metadata))

    def __deepcopy__(self, memo: dict[int, Any]) -> Thompson:
        return self.copy()

    def __reduce__(self) -> Any:
        known, rng = self._snapshot()
        return _restored, (restore.saved_members(known, rng, self.metadata), known.standing, self._names)

    def save(self, path: str | Path, *, metadata: Mapping[str, Any] | None = None) -> None:
        """Write the agent to a file atomically: diagram, belief, random numbers and metadata.

        Parameters
        ----------
        path : str or Path
            File to write (docs/reference/files.md).
        metadata : mapping, optional
            JSON data, up to 1 MB, that `load` returns as `agent.metadata`; by default, the agent's own metadata.

        Examples
        --------
        >>> import tempfile
        >>> import idbandits as idb
        >>> agent = idb.Thompson(idb.models.cascade(3, 2), seed=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     agent.save(f"{folder}/agent.idb", metadata={"learned up to": "2026-11-17"})
        ...     loaded = idb.Thompson.load(f"{folder}/agent.idb", seed=1)
        >>> loaded.metadata
        {'learned up to': '2026-11-17'}
        """
        own = checked_metadata(self.metadata if metadata is None else metadata)
        known, rng = self._snapshot()
        restore.save(path, known, rng, self._names, own)

    @staticmethod
    def load(
        path: str | Path, *, diagram: Any = None, inference: Inference | None = None, seed: Any = None,
        structures: Any = None,
    ) -> Thompson:  # fmt: skip
        """Read an agent from a file.

        Parameters
        ----------
        path : str or Path
            File that `save` wrote.
        diagram : Diagram, optional
            Diagram that the agent must have.
        inference : Inference, optional
            Object of a custom inference, which files do not contain.
        seed : int, sequence of int, SeedSequence or Generator, optional
            Seed of this process. By default, the agent continues with the saved random numbers: processes that load one
            file then choose identical actions.
        structures : list or mapping of Diagram, optional
            Diagrams that an agent of several structures must have.

        Returns
        -------
        Thompson
            Agent that continues where the saved one stopped.

        Raises
        ------
        FormatError
            If the file is damaged, or has an agent of another diagram.

        Examples
        --------
        >>> import tempfile
        >>> import idbandits as idb
        >>> d = idb.models.cascade(3, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     idb.Thompson(d, seed=0).save(f"{folder}/agent.idb")
        ...     agent = idb.Thompson.load(f"{folder}/agent.idb", diagram=d, seed=1)
        >>> agent.diagram.name
        'cascade'
        """
        agent = _of(restore.load(path, diagram if structures is None else structures, inference))
        return agent if seed is None else agent.copy(seed)


def _diagram(d: Any) -> Diagram:
    """Validate a diagram."""
    if not isinstance(d, Diagram):
        raise DiagramError(f"d must be a Diagram, got {brief(d)}")
    return d


def _of(parts: restore.Parts) -> Thompson:
    """Return an agent that is made of these parts."""
    agent: Thompson = object.__new__(Thompson)
    return agent._begin(parts)


def _restored(*saved: Any) -> Thompson:
    """Return an agent from a pickle."""
    return _of(restore.restored(*saved))


Structures = Thompson  # the name of agents of several structures in earlier versions
