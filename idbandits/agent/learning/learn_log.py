"""Learning from logs: round by round, block by block where structures are weighed, or counted at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idbandits.agent.encoding.encode import Batch, in_order
from idbandits.agent.encoding.era import Era
from idbandits.agent.learner import Log
from idbandits.agent.learning.learn_rounds import impossible, learned
from idbandits.agent.learning.ledger import ROOM, Added, Entry
from idbandits.agent.learning.log_report import is_small
from idbandits.agent.snapshot import Snapshot
from idbandits.errors import ImpossibleObservationError
from idbandits.inference.rounds.round import NOW, THOROUGHLY
from idbandits.inference.structures.predict import predict_all
from idbandits.inference.structures.weights import settle_all
from idbandits.kernel.array_types import Floats, Ints, Rng

CHUNK = 1_000_000  # rounds of a log that are learned at once
BLOCK = 4096  # rounds that several structures predict at once, at most
GROWTH = 0.1  # rounds of a log that are predicted by one belief, as a part of those learned from before


def log_learned(
    known: Snapshot, eras: Sequence[Era], rng: Rng, batches: Sequence[Batch], times: Floats, skips: bool
) -> tuple[Snapshot, list[int]]:
    """Learn from a log, in states that are copies; return the numbers of rounds that were skipped, too."""
    length = sum(len(batch.numbers) for batch in batches)
    if is_small(length, known.rounds):
        known, skipped = _learned_one_by_one(known, eras, rng, batches, times, skips)
    else:
        learn = _counted if len(known.learners) == 1 else _learned_in_blocks
        known, skipped = learn(known, eras, rng, batches, times, skips)
        known = known.settled(rng, THOROUGHLY)
    for batch in batches:
        rounds = batch.part(~np.isin(batch.numbers, skipped)).rounds if skipped else batch.rounds
        known.sample.add_many(eras[batch.era].translated(rounds, eras[0]))
    known.sample.impossible += len(skipped)
    return known, skipped


def _learned_one_by_one(
    known: Snapshot, eras: Sequence[Era], rng: Rng, batches: Sequence[Batch], times: Floats, skips: bool
) -> tuple[Snapshot, list[int]]:
    """Learn from a small log round by round."""
    skipped = list[int]()
    for part in in_order(batches, 1, mixed=False):
        era, number = eras[part.era], int(part.numbers[0])
        round_ = era.round_of(part.rounds[0], part.requests[:1].ravel())
        round_ = round_._replace(time=times[number]) if len(times) else round_
        try:
            known = learned(known, era, rng, round_, f"in round {number}, ")
        except ImpossibleObservationError:
            if not skips:
                raise
            skipped.append(number)
    return known, skipped


def _counted(
    known: Snapshot, eras: Sequence[Era], rng: Rng, batches: Sequence[Batch], times: Floats, skips: bool
) -> tuple[Snapshot, list[int]]:
    """Count the rounds of a log by the only structure; in order, where rounds are not kept."""
    skipped, forgets = list[int](), known.learners[0].forget is not None
    for part in in_order(batches, CHUNK, mixed=known.learners[0].in_any_order(times)):
        era, played = eras[part.era], known.played
        known = known.hosting(era, rng)
        added = None if known.ledger is None else list[Added]()
        log = _log_of(part, times)
        state, places = known.learners[0].all_learned(
            known.states[0], rng, log, model=era.model, skips=skips, added=added
        )
        known = known._replace(states=(state,))
        if known.ledger is not None and added:
            learned_places = np.delete(np.arange(len(log.rounds)), places).tolist()
            for i, (place, own) in list(enumerate(zip(learned_places, added, strict=True)))[-ROOM:]:
                time = float(log.times[place]) if len(log.times) else float(played + i) if forgets else np.nan
                round_ = era.round_of(np.ascontiguousarray(log.rounds[place]), part.requests[place : place + 1].ravel())
                known.ledger.add(Entry(era, round_._replace(time=time), own))
        skipped += part.numbers[places].tolist()
    return known, skipped


def _log_of(part: Batch, times: Floats) -> Log:
    """Return the rounds of a batch as a log for learners."""
    return Log(part.rounds, part.numbers, times[part.numbers] if len(times) else times, part.requests)


def _learned_in_blocks(
    known: Snapshot, eras: Sequence[Era], rng: Rng, batches: Sequence[Batch], times: Floats, skips: bool
) -> tuple[Snapshot, list[int]]:
    """Learn from a log by several structures, block by block."""
    length, done, skipped = sum(len(batch.numbers) for batch in batches), 0, list[int]()
    while done < length:
        last = done + max(1, min(BLOCK, int(GROWTH * known.standing.rounds[0])))
        parts = [b.part(slice(*np.searchsorted(b.numbers, [done, last]))) for b in batches]
        parts = [part for part in parts if len(part.numbers)]
        known, rejected = _block_learned(known, eras, rng, parts, times, skips)
        skipped += rejected
        done = last
    return known, skipped


def _block_learned(
    known: Snapshot, eras: Sequence[Era], rng: Rng, parts: Sequence[Batch], times: Floats, skips: bool
) -> tuple[Snapshot, list[int]]:
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
        era, states = eras[part.era], list(known.states)
        log = _log_of(part.part(~np.isin(part.numbers, skipped)) if skipped else part, times)
        for i, (learner, order) in enumerate(zip(known.learners, era.orders, strict=True)):
            if not out[i]:
                own = log._replace(rounds=np.ascontiguousarray(order.of_rounds(log.rounds)))
                states[i], _ = learner.all_learned(states[i], rng, own, model=era.models[i])
        known = known._replace(states=tuple(states))
    return known.settled(rng, NOW), skipped


class PredictedLog(NamedTuple):
    """Rounds of one era that all structures predicted."""

    numbers: Ints  # of the rounds in the log
    joint: Floats  # of a round and a structure: the logarithm of the probability of the round
    marginals: Floats  # of a round, a structure and a state of an observed node: its probability


def _predicted_all(known: Snapshot, era: Era, part: Batch) -> PredictedLog:
    """Predict rounds by all structures."""
    structures, length, rounds = len(known.learners), len(part.numbers), part.rounds
    joint, marginals = np.empty((structures, length)), np.empty((structures, length, sum(era.predictors[0].states)))
    for i, (learner, state, order) in enumerate(zip(known.learners, known.states, era.orders, strict=True)):
        own, belief = np.ascontiguousarray(order.of_rounds(rounds)), learner.predictive(state, era.models[i])
        predict_all(*era.predictors[i].packed, belief, own, order.width, joint[i], marginals[i])
    return PredictedLog(part.numbers, np.ascontiguousarray(joint.T), np.ascontiguousarray(marginals.swapaxes(0, 1)))


def _weighed(known: Snapshot, era: Era, run: Batch, prediction: PredictedLog, skips: bool) -> list[int]:
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
