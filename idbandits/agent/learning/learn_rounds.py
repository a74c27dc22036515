"""Learning from single rounds, and revising them: in copies, or in place by one call of a kernel per structure."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from idbandits.agent.encoding.era import Era
from idbandits.agent.learning.ledger import ROOM, Added, Entry
from idbandits.agent.snapshot import Snapshot
from idbandits.errors import ImpossibleObservationError, ObservationError
from idbandits.inference.rounds.round import Round
from idbandits.inference.state.state import PLAYED, State
from idbandits.inference.structures.predict import predict
from idbandits.inference.structures.weights import settle
from idbandits.kernel.array_types import Floats, Rng


class Predicted(NamedTuple):
    """A round that all structures predicted."""

    rounds: list[Round]  # in the numbers of each structure
    joint: Floats  # of a structure: the logarithm of the probability of the round
    marginals: Floats  # of a structure and of a state of an observed node: its probability


def predicted(known: Snapshot, era: Era, round_: Round, where: str = "") -> Predicted:
    """Predict a round by all structures; raise if it is impossible in all that are left."""
    rounds = [_renumbered(era, i, round_) for i in range(len(known.learners))]
    joint, marginals = np.empty(len(rounds)), np.empty((len(rounds), sum(era.predictors[0].states)))
    for i, (learner, state, own) in enumerate(zip(known.learners, known.states, rounds, strict=True)):
        belief = learner.predictive(state, era.models[i])
        joint[i] = predict.entry(*era.predictors[i].packed, belief, own.action, own.seen, marginals[i])
    joint[known.standing.weights == -np.inf] = -np.inf
    if not (joint > -np.inf).any():
        raise impossible(known, era, round_, where)
    return Predicted(rounds, joint, marginals)


def impossible(known: Snapshot, era: Era, round_: Round, where: str) -> ImpossibleObservationError:
    """Return the error of a round that is impossible in all structures that are left."""
    model, shown = era.model, era.shown(round_)
    members = zip(era.names, known.standing.is_out(), strict=True)
    left = ", ".join(repr(name) for name, out in members if not out)
    return ImpossibleObservationError(
        f"{where}observation {shown}: every structure that is left ({left}) gives it probability zero for action "
        f"{model.action_of(round_.action)!r}, whatever the means"
    )


def _renumbered(era: Era, structure: int, round_: Round) -> Round:
    """Return a round in the numbers of a structure."""
    if not structure:
        return round_
    action, seen = era.orders[structure].of_round(round_.action, round_.seen)
    return round_._replace(action=action, seen=seen)


def learned(known: Snapshot, era: Era, rng: Rng, round_: Round, where: str = "") -> Snapshot:
    """Learn from a round, in states that are copies; several structures are weighed by it, if possible in them."""
    known = known.hosting(era, rng)
    if len(known.learners) == 1:
        return known._replace(states=(learned_alone(known, era, rng, round_, where),))
    prediction = predicted(known, era, round_, where)
    members = zip(known.learners, known.states, prediction.rounds, prediction.joint, era.models, strict=True)
    states = [
        learner.learned(state, rng, own, model=model, where=where) if p > -np.inf else state
        for learner, state, own, p, model in members
    ]
    settle(*era.rewarded, known.standing, prediction.joint, prediction.marginals, round_.seen)
    return known._replace(states=tuple(states))


def learned_alone(known: Snapshot, era: Era, rng: Rng, round_: Round, where: str = "") -> State:
    """Learn from a round by the only structure, which has all rows that the round may read, in place."""
    learner, state, model = known.learners[0], known.states[0], era.model
    if known.ledger is None:
        return learner.learned(state, rng, round_, model=model, where=where)
    added: list[Added] = []
    played = state.ints.item(PLAYED)
    state = learner.learned(state, rng, round_, model=model, where=where, added=added)
    if added:
        is_now = learner.forget is not None and np.isnan(round_.time)
        known.ledger.add(Entry(era, round_._replace(time=float(played)) if is_now else round_, added[0]))
    return state


def learn_in_place(known: Snapshot, era: Era, rng: Rng, round_: Round, where: str = "") -> Snapshot:
    """Learn from a round by several structures whose kernels reject none; states are changed in place."""
    prediction = predicted(known, era, round_, where)
    states = tuple(learner.with_room(state) for learner, state in zip(known.learners, known.states, strict=True))
    calls: list[tuple[Any, ...]] = []
    members = zip(known.learners, states, prediction.rounds, prediction.joint, era.models, strict=True)
    for learner, state, own, p, model in members:
        if p > -np.inf:
            calls.append((learner.learn.entry, learner.evidence_for(model).packed, state, rng, own))
    calls.append((settle.entry, *era.rewarded, known.standing, prediction.joint, prediction.marginals, round_.seen))
    # One call from Python's view: no signal handler runs when some structures have learned and others have not.
    list(starmap(operator.call, calls))
    return known._replace(states=states)


def revised(known: Snapshot, eras: Sequence[Era], era: Era, rng: Rng, old: Round, new: Round | None) -> Snapshot:
    """Replace a round by another one, or remove it, in states that are copies.

    A structure in which the new round is impossible is excluded.
    """
    if known.ledger is not None:
        return _revised_by_ledger(known, eras, era, rng, old, new)
    out = known.standing.is_out()
    if new is not None and len(out) > 1:
        known.standing.weights[predicted(known, era, new).joint == -np.inf] = -np.inf
    states = list(known.states)
    for i, (learner, model) in enumerate(zip(known.learners, era.models, strict=True)):
        if not out[i]:
            before, after = _renumbered(era, i, old), None if new is None else _renumbered(era, i, new)
            after = after if known.standing.weights[i] > -np.inf else None
            states[i] = learner.revised(states[i], rng, before, after, model=model)
    return known._replace(states=tuple(states))


def _revised_by_ledger(
    known: Snapshot, eras: Sequence[Era], era: Era, rng: Rng, old: Round, new: Round | None
) -> Snapshot:
    """Replace a round by another one, or remove it, by what the ledger says that it added.

    The rounds that came after a recent one are learned again, unless they may have faded.
    """
    assert known.ledger is not None
    learner, played = known.learners[0], known.states[0].ints[PLAYED]
    taken = known.ledger.take(era.key_of_round(old), old.features, old.time)
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
        known = learned(known, era, rng, new)
    for other, numbers in zip(later, rounds, strict=True):
        home = by_key[other.home.key]
        known = learned(known, home, rng, home.round_of(numbers, other.round_.features))
    known.states[0].ints[PLAYED] = played
    return known
