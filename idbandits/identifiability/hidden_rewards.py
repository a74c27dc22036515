"""Rewards that depend on unrevealed means: two worlds with equal likelihoods can have different best actions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from idbandits.circuit.build import rows_of_use
from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram
from idbandits.diagram.tables import Use
from idbandits.identifiability.exchangeable_states import Exchange, exchanged
from idbandits.identifiability.information import CLEAR, Information, Point
from idbandits.identifiability.sample_rounds import Row
from idbandits.kernel.array_types import Bools, Floats, Ints
from idbandits.solve.eligible import EVERY_CHOICE
from idbandits.solve.solver import BUDGET, Solver

MOST_ACTIONS = 120  # whose rewards are compared
MOST_TERMS = 25  # of a reward that are examined one by one
STARTS = 4  # means from which other worlds are searched
GOALS = 2  # actions that are made better, one after the other, from each start
STEPS = 24  # along which likelihoods stay the same
STRIDE = 0.1  # length of a step
EDGE = 0.01  # lowest mean of a search
LOSS = 1e-3  # share of the differences between rewards that an action must lose not to count as best
ALIKE = 1e-6  # differences of log-likelihoods below count as 0


class Unrevealed(NamedTuple):
    """Rows that a reward depends on although nothing observed reveals them."""

    rows: list[Row]
    terms: list[int]  # of the reward that depend on them
    loss: float  # per round, of the best action in a world that looks alike; 0 if no best action was seen to change


def unrevealed(info: Information) -> Unrevealed | None:
    """Return what differences between expected rewards depend on that is not revealed; None if nothing."""
    model = info.model
    if not (model.diagram.rewards and model.decisions and len(info.row_of)):
        return None
    if not _depends(info, info.point.means, _pairs(info, [])).any():
        return None
    info.settle()
    pairs = _pairs(info, list(compress(info.rows, info.shares(info.point.free) > CLEAR)))
    rows = list(compress(info.rows, _depends(info, info.point.means, pairs)))
    return Unrevealed(rows, _terms(info, rows, pairs), info.scale * _loss(info, pairs)) if rows else None


def terms_below(d: Diagram, rows: Sequence[Row]) -> list[int]:
    """Return the terms of the reward that lie below readers of some rows."""
    below = set[str]()
    for node in d.nodes.values():
        numbers = [row.number for row in rows if isinstance(node.cpd, Use) and row.table == node.cpd.name]
        if below.intersection(node.parents) or (numbers and np.isin(rows_of_use(d, node), numbers).any()):
            below.add(node.name)
    return [i for i, term in enumerate(d.rewards) if below.intersection(term.parents)]


def _terms(info: Information, rows: Sequence[Row], pairs: tuple[Ints, Ints]) -> list[int]:
    """Return the terms of the reward that depend on unrevealed means of some rows."""
    terms = terms_below(info.model.diagram, rows)
    if not 1 < len(terms) <= MOST_TERMS:
        return terms
    data, dependent = info.model.diagram.to_dict(), []
    for i in terms:
        alone = compile(Diagram.from_dict({**data, "rewards": [data["rewards"][i]]}))
        means = np.concatenate([info.point.means[: alone.parameters.learned_size], alone.parameters.known])
        if _depends(info, means, pairs, alone).any():
            dependent.append(i)
    return dependent


def _pairs(info: Information, rows: list[Row]) -> tuple[Ints, Ints]:
    """Return random actions, some of which may read these rows, and another action in the context of each."""
    decisions = len(info.model.decisions)
    first = info.actions(min(MOST_ACTIONS, 8 + 2 * sum(n.states for n in info.model.decisions)), rows[:MOST_ACTIONS])
    second = np.roll(first, 1, axis=0)  # choices take turns, so the previous action differs
    second[:, decisions:] = first[:, decisions:]
    return first, second


def _depends(info: Information, means: Floats, pairs: tuple[Ints, Ints], model: Model | None = None) -> Bools:
    """Return the rows whose free directions change differences of expected rewards, perhaps of a like model."""
    _, slopes = info.expected_rewards(np.concatenate(pairs), means, model)
    change, free = slopes[: len(pairs[0])] - slopes[len(pairs[0]) :], info.point.free
    hidden = np.abs((change @ free.T) @ free).max(axis=0, initial=0.0)
    by_row = np.zeros(len(info.rows))
    np.maximum.at(by_row, info.row_of, hidden)
    return np.asarray(by_row > CLEAR * max(np.abs(slopes).max(initial=0.0), 1e-300))


def best_value(info: Information, means: Floats, context: Ints) -> tuple[float, Ints]:
    """Return the value of the best action in the context of an action vector, in units of rewards, and the action."""
    solver, action = info.model.derived(Solver), context.copy()
    learned = means[: info.model.parameters.learned_size]
    value, _, _ = solver.kernel.entry(*solver.program, learned, True, action, EVERY_CHOICE, BUDGET)
    return value / info.scale, action


def _loss(info: Information, pairs: tuple[Ints, Ints]) -> float:
    """Return the loss per round of the best action of a world in one that looks alike; 0 if none was found."""
    actions = np.concatenate(pairs)
    for start in range(STARTS):
        point = info.at(info.random_means()) if start else info.point
        _, slopes = info.expected_rewards(actions, point.means)
        changes = np.linalg.norm((slopes[: len(pairs[0])] - slopes[len(pairs[0]) :]) @ point.free.T, axis=1)
        context = pairs[0][int(changes.argmax())]
        value, best = best_value(info, point.means, context)
        rivals = actions.copy()
        rivals[:, len(info.model.decisions) :] = context[len(info.model.decisions) :]
        values, slopes = info.expected_rewards(np.concatenate([best[np.newaxis], rivals]), point.means)
        rates = np.linalg.norm((slopes[1:] - slopes[0]) @ point.free.T, axis=1)
        moving = rates > CLEAR * np.abs(slopes).max()
        order = np.argsort(np.where(moving, (value - values[1:]) / np.maximum(rates, 1e-300), np.inf))
        for goal in [rivals[i] for i in order if moving[i]][:GOALS]:
            loss = _walk(info, point, best, goal)
            if loss > LOSS * np.ptp(values):
                return loss
    return 0.0


def _walk(info: Information, start: Point, best: Ints, goal: Ints) -> float:
    """Walk through worlds that look alike, in which `goal` becomes better; return the highest loss of `best`."""
    point, learned, loss = start, info.model.parameters.learned_size, 0.0
    for _ in range(STEPS):
        _, slopes = info.expected_rewards(np.stack([best, goal]), point.means)
        direction = ((slopes[1] - slopes[0]) @ point.free.T) @ point.free
        length = float(np.linalg.norm(direction))
        if length <= CLEAR * np.abs(slopes).max():
            break
        change = info.entries(direction / length)[:learned]
        room = np.where(change < 0, (point.means[:learned] - EDGE) / np.maximum(-change, 1e-300), np.inf).min()
        if room < STRIDE / 100:
            break
        step = np.concatenate([change * min(STRIDE, room), np.zeros(len(point.means) - learned)])
        moved = _corrected(info, point.means + step, start.logs)
        if moved is None:
            break
        point = moved
        value, _ = best_value(info, point.means, best)
        loss = max(loss, value - float(info.expected_rewards(best[np.newaxis], point.means)[0][0]))
    return loss


def _corrected(info: Information, means: Floats, logs: Floats) -> Point | None:
    """Return the nearest point with these log-likelihoods, by Newton's method; None if that fails."""
    for _ in range(6):
        if not means[: info.model.parameters.learned_size].min(initial=1.0) > 0:
            return None
        point = info.at(means)
        if np.abs(point.logs - logs).max(initial=0.0) < ALIKE:
            return point
        correction = np.linalg.lstsq(point.scores, np.subtract(logs, point.logs), rcond=1e-9)[0]
        means = np.add(means, info.entries(correction.astype(np.float64)))
    return None


def loss_by_exchange(info: Information, exchange: Exchange) -> float:
    """Return the loss per round of the best action if two exchangeable states are exchanged."""
    model = info.model
    if not (model.diagram.rewards and model.decisions):
        return 0.0
    first, second = _pairs(info, [])
    means, actions = info.point.means, np.concatenate([first, second])
    values = info.expected_rewards(actions, means)[0].reshape(2, -1)
    others = info.expected_rewards(actions, exchanged(means, exchange.order))[0].reshape(2, -1)
    spread = float(np.ptp(values))
    if np.abs((values[0] - values[1]) - (others[0] - others[1])).max() <= CLEAR * spread:
        return 0.0
    losses = [0.0]
    for context in first[:STARTS]:
        means = info.random_means()
        _, best = best_value(info, means, context)
        other = exchanged(means, exchange.order)
        value, _ = best_value(info, other, context)
        losses.append(value - float(info.expected_rewards(best[np.newaxis], other)[0][0]))
    return info.scale * max(losses) if max(losses) > LOSS * spread else 0.0
