"""Part of an agent that learns: from rounds, logs and counts, completely or not at all."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from idbandits.agent.counts.counts import Counts, check_counts
from idbandits.agent.counts.learn_counts import are_learnable, check_learnable, counts_learned
from idbandits.agent.encoding.encode import Batch, encode_log
from idbandits.agent.encoding.era import MISFITS, Era, key_of
from idbandits.agent.knowledge import Knowledge
from idbandits.agent.learning.learn_log import log_learned
from idbandits.agent.learning.learn_rounds import learn_in_place, learned, learned_alone, revised
from idbandits.agent.learning.log_report import LogReport, check_skipping, report_of
from idbandits.agent.snapshot import Snapshot
from idbandits.circuit.model import Action
from idbandits.diagram.diagram import Diagram
from idbandits.errors import DiagramError, IdbanditsError, ImpossibleObservationError, brief
from idbandits.inference.forgetting import when_all_played, when_played
from idbandits.inference.regression.logistic_setup import translated_requests
from idbandits.inference.rounds.round import Round


class LearningAgent(Knowledge):
    """Agent that learns, without acting."""

    _visited: dict[int, tuple[Diagram, Era]]  # by id of diagrams that rounds are passed with
    _can_learn_in_place: bool
    _has_fits: bool

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
            As in `update`.

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
        copy.deepcopy(self).update(action, observation, context, at=at)

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
            As in `update`; of a round that has faded, as much is removed as is left.

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

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _encoded(
        self, action: Action, observations: Sequence[Mapping[str, Any]], context: Action | None,
        diagram: Diagram | None,
    ) -> tuple[Era, list[Round]]:  # fmt: skip
        """Encode a round, with one observation or several, in a diagram, or in the latest that can have them."""
        eras = self._eras if diagram is None else (self._era_of(checked_diagram(diagram)),)
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


def checked_diagram(d: Any) -> Diagram:
    """Validate a diagram."""
    if not isinstance(d, Diagram):
        raise DiagramError(f"d must be a Diagram, got {brief(d)}")
    return d
