"""What an agent knows: a learner and a state for each structure, how these stand, and a sample of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idbandits.agent.era import NO_REQUEST, Era, Round
from idbandits.agent.fit_report.sample import Sample
from idbandits.agent.learner import Learner
from idbandits.agent.ledger import ROOM, Added, Entry, Ledger
from idbandits.agent.transfer import Batch, hosting, in_order
from idbandits.errors import ImpossibleObservationError, ObservationError
from idbandits.inference import NOW
from idbandits.inference.forgetting import When
from idbandits.inference.state.state import PLAYED, ROUNDS, ZONE, State
from idbandits.inference.structures.predict import predict, predict_all
from idbandits.inference.structures.weights import Standing, settle, settle_all, weigh
from idbandits.kernel.array_types import Floats, Ints, Rng

NO_TIME = float("nan")  # where it does not matter when a round was played


class Known(NamedTuple):
    """Everything that an agent knows. One structure has the weight 1.

    Arrays may be changed in place by whoever holds the agent's lock; the tuple itself is replaced as a whole.
    """

    learners: tuple[Learner, ...]
    states: tuple[State, ...]
    standing: Standing
    sample: Sample
    ledger: Ledger | None = None  # where contexts have features

    def copy(self) -> Known:
        """Return a copy that can be changed independently."""
        states = tuple(
            learner.without_request(state.copy()) for learner, state in zip(self.learners, self.states, strict=True)
        )
        ledger = None if self.ledger is None else self.ledger.copy()
        return Known(self.learners, states, self.standing.copy(), self.sample.copy(), ledger)

    @property
    def reference(self) -> State:
        """The state of the first structure that is not out: it has learned from all rounds."""
        if len(self.states) == 1:
            return self.states[0]
        return next(state for state, out in zip(self.states, self.standing.is_out(), strict=True) if not out)

    @property
    def rounds(self) -> int:
        """How many rounds were learned from, without those taken back."""
        return int(self.reference.ints[ROUNDS])

    @property
    def played(self) -> int:
        """How many rounds were learned from, with those taken back."""
        return int(self.reference.ints[PLAYED])

    @property
    def zone(self) -> int:
        """The kind of time zone of all times so far; structures that are out no longer receive times."""
        return max(int(state.ints[ZONE]) for state in self.states)

    def weights(self) -> Floats:
        """Return the probability of each structure to be the one that is acted by."""
        acting = np.empty(len(self.learners))
        weigh(self.standing, acting)
        return acting

    def hosting(self, era: Era, rng: Rng) -> Known:
        """Return the same knowledge with all rows that rounds of an era may read."""
        pairs = [
            hosting(learner, state, rng, model)
            for learner, state, model in zip(self.learners, self.states, era.models, strict=True)
        ]
        return self._replace(learners=tuple(pair[0] for pair in pairs), states=tuple(pair[1] for pair in pairs))

    def settled(self, rng: Rng, effort: int) -> Known:
        """Bring all beliefs up to date, after rounds that were only counted."""
        members = zip(self.learners, self.states, self.standing.is_out(), strict=True)
        states = [state if out else learner.settled(state, rng, effort) for learner, state, out in members]
        return self._replace(states=tuple(states))


class Predicted(NamedTuple):
    """A round that all structures predicted."""

    rounds: list[Round]  # in the numbers of each structure
    joint: Floats  # of a structure: the logarithm of the probability of the round
    marginals: Floats  # of a structure and of a state of an observed node: its probability


def predicted(known: Known, era: Era, round_: Round, where: str = "") -> Predicted:
    """Predict a round by all structures; raise if it is impossible in all that are left."""
    rounds = [Round(*order.of_round(round_.action, round_.seen)) for order in era.orders]
    joint, marginals = np.empty(len(rounds)), np.empty((len(rounds), sum(era.predictors[0].states)))
    for i, (learner, state, own) in enumerate(zip(known.learners, known.states, rounds, strict=True)):
        belief = learner.predictive(state, era.models[i])
        joint[i] = predict.entry(*era.predictors[i].packed, belief, own.action, own.seen, marginals[i])
    joint[known.standing.weights == -np.inf] = -np.inf
    if not (joint > -np.inf).any():
        raise impossible(known, era, round_, where)
    return Predicted(rounds, joint, marginals)


def impossible(known: Known, era: Era, round_: Round, where: str) -> ImpossibleObservationError:
    """Return the error of a round that is impossible in all structures that are left."""
    model, shown = era.model, era.shown(round_)
    members = zip(era.names, known.standing.is_out(), strict=True)
    left = ", ".join(repr(name) for name, out in members if not out)
    return ImpossibleObservationError(
        f"{where}observation {shown}: every structure that is left ({left}) gives it probability zero for action "
        f"{model.action_of(round_.action)!r}, whatever the means"
    )


def learned(known: Known, era: Era, rng: Rng, round_: Round, when: When | None, where: str = "") -> Known:
    """Learn from a round, in states that are copies; several structures are weighed by it, if possible in them."""
    known = known.hosting(era, rng)
    if len(known.learners) == 1:
        return known._replace(states=(learned_alone(known, era, rng, round_, when, where),))
    prediction = predicted(known, era, round_, where)
    members = zip(known.learners, known.states, prediction.rounds, prediction.joint, era.models, strict=True)
    states = [
        learner.learned(state, rng, own, 1, NOW, model=model, when=when, where=where) if p > -np.inf else state
        for learner, state, own, p, model in members
    ]
    settle(*era.rewarded, known.standing, prediction.joint, prediction.marginals, round_.seen)
    return known._replace(states=tuple(states))


def learned_alone(known: Known, era: Era, rng: Rng, round_: Round, when: When | None, where: str = "") -> State:
    """Learn from a round by the only structure, which has all rows that it may read, in place."""
    learner, state, model = known.learners[0], known.states[0], era.model
    if known.ledger is None:
        return learner.learned(state, rng, round_, 1, NOW, model=model, when=when, where=where)
    added: list[Added] = []
    played = state.ints.item(PLAYED)
    state = learner.learned(state, rng, round_, 1, NOW, model=model, when=when, where=where, added=added)
    if added:
        known.ledger.add(Entry(era, round_, _time(when, played), added[0]))
    return state


def _time(when: When | None, played: int) -> float:
    """Return the time of a round in a ledger: by a clock of rounds, it may be now."""
    return NO_TIME if when is None else float(played if np.isnan(when.time) else when.time)


def _revised_by_ledger(
    known: Known, eras: Sequence[Era], era: Era, rng: Rng, old: Round, new: Round | None, when: When | None
) -> Known:
    """Put a round in place of another one, or take it back, by what the ledger says that it added.

    The rounds that came after a recent one are learned again, unless they may have faded.
    """
    assert known.ledger is not None
    learner, played = known.learners[0], known.states[0].ints[PLAYED]
    taken = known.ledger.take(era.key_of_round(old), old.request, np.nan if when is None else float(when.time))
    if taken is None:
        shown = f"observation {era.shown(old)} for action {era.model.action_of(old.action)!r}"
        raise ObservationError(f"{shown} was not learned before, or is not among the latest {ROOM:,} rounds")
    (entry, later), by_key = taken, {own.key: own for own in eras}
    rounds = [np.append(other.round_.action, other.round_.seen) for other in later]
    if learner.forget is not None or not all(
        other.home.key in by_key and by_key[other.home.key].can_have(own)
        for other, own in zip(later, rounds, strict=True)
    ):
        for other in later:
            known.ledger.add(other)
        later, rounds = [], []
    learner.taken_back(known.states[0], rng, [entry, *later])
    if new is not None:
        known = learned(known, era, rng, new, when)
    for other, numbers in zip(later, rounds, strict=True):
        home = by_key[other.home.key]
        known = learned(known, home, rng, home.round_of(numbers, other.round_.request), None)
    known.states[0].ints[PLAYED] = played
    return known


def revised(
    known: Known, eras: Sequence[Era], era: Era, rng: Rng, old: Round, new: Round | None, when: When | None
) -> Known:
    """Put a round in place of another one, or take it back, in states that are copies.

    A structure in which the new round is impossible is out.
    """
    if known.ledger is not None:
        return _revised_by_ledger(known, eras, era, rng, old, new, when)
    out = known.standing.is_out()
    if new is not None and len(out) > 1:
        known.standing.weights[predicted(known, era, new).joint == -np.inf] = -np.inf
    states = list(known.states)
    for i, (learner, model) in enumerate(zip(known.learners, era.models, strict=True)):
        if not out[i]:
            before, after = _renumbered(era, i, old), None if new is None else _renumbered(era, i, new)
            after = after if known.standing.weights[i] > -np.inf else None
            states[i] = learner.revised(states[i], rng, before, after, model=model, when=when)
    return known._replace(states=tuple(states))


def _renumbered(era: Era, structure: int, round_: Round) -> Round:
    """Return a round in the numbers of a structure."""
    return Round(*era.orders[structure].of_round(round_.action, round_.seen), round_.request) if structure else round_


def all_counted(
    known: Known, era: Era, rng: Rng, part: Batch, times: Floats, skips: bool
) -> tuple[Known, list[int]]:  # fmt: skip
    """Count the rounds of a log by the only structure; return the places of those that were skipped, too."""
    rounds, at, played = part.rounds, times[part.numbers] if len(times) else times, known.played
    added = None if known.ledger is None else list[Added]()
    state, skipped = known.learners[0].all_learned(
        known.states[0], rng, rounds, part.numbers, model=era.model, skips=skips, at=at, requests=part.requests,
        added=added,
    )  # fmt: skip
    if known.ledger is not None and added:
        places = np.delete(np.arange(len(rounds)), skipped).tolist()
        forgets = known.learners[0].forget is not None
        for i, (place, own) in list(enumerate(zip(places, added, strict=True)))[-ROOM:]:
            time = float(at[place]) if len(at) else float(played + i) if forgets else np.nan
            request = part.requests[place].copy() if len(part.requests) else NO_REQUEST
            round_ = era.round_of(np.ascontiguousarray(rounds[place]), request)
            known.ledger.add(Entry(era, round_, time, own))
    return known._replace(states=(state,)), skipped


def block_learned(
    known: Known, eras: Sequence[Era], rng: Rng, parts: Sequence[Batch], times: Floats, skips: bool
) -> tuple[Known, list[int]]:
    """Weigh structures by a block of rounds, all predicted by the present belief, and learn from it.

    Return what is known then, and the numbers of rounds that were skipped: impossible in all structures that are left.
    """
    for part in parts:
        known = known.hosting(eras[part.era], rng)
    predictions = {part.era: _predicted_all(known, eras[part.era], part) for part in parts}
    skipped, most = list[int](), sum(len(part.numbers) for part in parts)
    for run in in_order(parts, most, mixed=False):
        skipped += _weighed(known, eras[run.era], run, predictions[run.era], skips)
    out = known.standing.is_out()
    for part in in_order(parts, most, mixed=all(learner.in_any_order(times) for learner in known.learners)):
        era, left = eras[part.era], part.part(~np.isin(part.numbers, skipped)) if skipped else part
        at, rounds, states = times[left.numbers] if len(times) else times, left.rounds, list(known.states)
        for i, (learner, order) in enumerate(zip(known.learners, era.orders, strict=True)):
            if not out[i]:
                own = np.ascontiguousarray(order.of_rounds(rounds))
                states[i], _ = learner.all_learned(states[i], rng, own, left.numbers, model=era.models[i], at=at)
        known = known._replace(states=tuple(states))
    return known.settled(rng, NOW), skipped


class PredictedAll(NamedTuple):
    """Rounds of one era that all structures predicted."""

    numbers: Ints  # of the rounds in the log
    joint: Floats  # of a round and a structure: the logarithm of the probability of the round
    marginals: Floats  # of a round, a structure and a state of an observed node: its probability


def _predicted_all(known: Known, era: Era, part: Batch) -> PredictedAll:
    """Predict rounds by all structures."""
    structures, length, rounds = len(known.learners), len(part.numbers), part.rounds
    joint, marginals = np.empty((structures, length)), np.empty((structures, length, sum(era.predictors[0].states)))
    for i, (learner, state, order) in enumerate(zip(known.learners, known.states, era.orders, strict=True)):
        own, belief = np.ascontiguousarray(order.of_rounds(rounds)), learner.predictive(state, era.models[i])
        predict_all(*era.predictors[i].packed, belief, own, order.width, joint[i], marginals[i])
    return PredictedAll(part.numbers, np.ascontiguousarray(joint.T), np.ascontiguousarray(marginals.swapaxes(0, 1)))


def _weighed(known: Known, era: Era, run: Batch, prediction: PredictedAll, skips: bool) -> list[int]:
    """Weigh structures by consecutive rounds of one era; return the numbers of those impossible in all."""
    rounds, first, skipped = run.rounds, int(np.searchsorted(prediction.numbers, run.numbers[0])), list[int]()
    seen, done, length = np.ascontiguousarray(rounds[:, era.width :]), 0, len(run.numbers)
    joint, marginals = prediction.joint[first : first + length], prediction.marginals[first : first + length]
    while done < length:
        done += settle_all(*era.rewarded, known.standing, joint[done:], marginals[done:], seen[done:])
        if done < length:
            if not skips:
                raise impossible(known, era, era.round_of(rounds[done]), f"in round {run.numbers[done]}, ")
            skipped.append(int(run.numbers[done]))
            done += 1
    return skipped
