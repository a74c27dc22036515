"""Agents that learn while they are evaluated: replay of the rounds in which they act as the log did."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import numpy as np

from idbandits.circuit.model import Model
from idbandits.errors import ImpossibleObservationError
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.logs.evaluate.clusters import Estimate, clusters_of, interval
from idbandits.logs.evaluate.policy_answers import PolicyError
from idbandits.logs.evaluate.target import context_of, copy_of
from idbandits.logs.rounds import Rounds

RARE = 0.05  # share of the log, with the smallest propensities, that is weighted instead of thinned out


class Replayed(NamedTuple):
    """Mean reward of a learning agent, and the rounds that it accepted, in the order in which they were played."""

    estimate: Estimate
    accepted: Ints  # places in the log
    weights: Floats  # of the accepted rounds


def replayed(agent: Any, model: Model, rounds: Rounds, terms: Floats, propensity: Floats, rng: Rng) -> Replayed:
    """Let an agent learn from the rounds of a log in which it acts as the log did, and return its mean reward.

    The agent acts in each round, in the order of time. If its action is the logged one, the round is accepted with a
    probability inverse to the propensity, so that accepted rounds are as if the logging policy was uniform (Li et al.
    2011), and the agent learns from it. Very small propensities would leave hardly any round: those below a quantile
    are accepted always and weighted instead (Dudík et al. 2012). Rounds with a weight are played as often.
    """
    learner = copy_of(agent, int(rng.integers(2**31)))
    limit = float(np.quantile(propensity, RARE))
    accepted, weights = list[int](), list[float]()
    order = _order(rounds, rng)
    numbers = rng.random(len(order))
    for number, i in zip(numbers.tolist(), order.tolist(), strict=True):
        context = context_of(model, rounds, i)
        action = learner.act(context) if context else learner.act()
        if number * propensity[i] >= limit or action != model.action_of(rounds.choices[i]):
            continue
        observation = {
            node.name: node.values[state]
            for node, state in zip(model.observed, rounds.seen[i].tolist(), strict=True)
            if state >= 0
        }
        with contextlib.suppress(ImpossibleObservationError):  # counted among the rewards, but nothing to learn from
            learner.update(action, observation, context) if context else learner.update(action, observation)
        accepted.append(i)
        weights.append(max(1.0, limit / propensity[i]))
    if not accepted:
        raise PolicyError("learning must find rounds of the log with the agent's own action, got none: too few rounds")
    places, shares = np.array(accepted, np.int64), np.array(weights)
    return Replayed(_ratio(rounds.part(places), terms[places].sum(axis=1), shares, rng), places, shares)


def _order(rounds: Rounds, rng: Rng) -> Ints:
    """Return the places of rounds in the order of time; rounds with a weight several times."""
    order = np.argsort(rounds.times, kind="stable") if len(rounds.times) else np.arange(len(rounds))
    if len(rounds.weights):
        copies = np.floor(rounds.weights[order] + rng.random(len(order))).astype(np.int64)  # right on average
        order = np.repeat(order, copies)
    return np.asarray(order, np.int64)


def _ratio(rounds: Rounds, rewards: Floats, weights: Floats, rng: Rng) -> Estimate:
    """Return the weighted mean of rewards with a bootstrap interval by session."""
    clusters = clusters_of(Rounds(rounds.choices, rounds.seen, rounds.numbers, sessions=rounds.sessions))
    sums = clusters.replicates([weights * rewards, weights], rng)
    value, size = float(weights @ rewards / weights.sum()), float(weights.sum() ** 2 / (weights @ weights))
    return Estimate(value, *interval(sums[:, 0] / sums[:, 1]), size)
