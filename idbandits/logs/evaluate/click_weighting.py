"""Click-based weighting for deterministic logs: users are random even where the logging policy is not.

A term such as a click at a position is an event about the item there. Over all positions, the policy and the log make
the event happen with certain probabilities, and their ratio weights each observed event (CIPS, arXiv 2603.21485). The
ratio comes from the model; in a position-based model attraction cancels and only examination is left, so errors of the
model about items do no harm. It needs no propensities, only that the log shows the item somewhere. The doubly robust
version (CDR) adds the model's value of items that the log never shows in that context.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idbandits.circuit.model import Model
from idbandits.kernel.array_types import Floats, Ints
from idbandits.logs.evaluate.clusters import NORMAL, Clusters, Estimate
from idbandits.logs.evaluate.cross_fit import Direct, Fitted
from idbandits.logs.evaluate.dependence import Dependence
from idbandits.logs.evaluate.target import Target

REDRAWN = 20  # posterior draws that weights are computed with, for the interval
LARGEST = 100.0  # weight of an event: larger ones are clipped


class Events(NamedTuple):
    """Number of the event of each round and term, and of each action of the policy and term."""

    logged: Ints
    policy: Ints
    number: int
    group_rows: Ints  # group of each action of the policy


class ClickWeighted(NamedTuple):
    """Click-based estimates, and the share of the policy's events that the log can show."""

    weighted: Estimate
    doubly_robust: Estimate
    supported: float


def events_of(model: Model, dependence: Dependence, target: Target, choices: Ints) -> Events:
    """Number the events: a kind of term, the labels of its nearest decisions, and the contexts that matter."""
    decisions = len(model.decisions)
    item: dict[object, int] = {}
    items = [np.array([item.setdefault(v, len(item)) for v in node.values]) for node in model.decisions]
    kinds = {kind: k for k, kind in enumerate(dict.fromkeys(term.kind for term in dependence.terms))}
    width = max((len(term.nearest) for term in dependence.terms), default=0)
    relevant = [decisions + k for k in dependence.contexts]
    rows = np.repeat(np.arange(len(target.first) - 1), np.diff(target.first))
    contexts = np.zeros((len(target.first) - 1, choices.shape[1] - decisions), np.int64)
    contexts[target.group] = choices[:, decisions:]
    actions = np.column_stack([target.actions, contexts[rows]])
    keys = []
    for table in (choices, actions):
        for term in dependence.terms:
            labels = [items[k][table[:, k]] for k in term.nearest]
            padding = [np.full(len(table), -1)] * (width - len(labels))
            kind = np.full(len(table), kinds[term.kind])
            keys.append(np.column_stack([kind, *labels, *padding, table[:, relevant]]))
    _, numbers = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    flat, terms, split = numbers.ravel(), len(dependence.terms), len(choices) * len(dependence.terms)
    logged, policy = flat[:split].reshape(terms, -1).T, flat[split:].reshape(terms, -1).T
    return Events(np.ascontiguousarray(logged), np.ascontiguousarray(policy), int(flat.max(initial=-1)) + 1, rows)


def click_weighted(
    fitted: Fitted, events: Events, target: Target, direct: Direct, data: tuple[Ints, Floats], clusters: Clusters
) -> ClickWeighted:
    """Return click-based estimates; `data` has choices and observed terms."""
    choices, terms = data
    decisions = target.actions.shape[1]
    contexts = np.zeros((len(target.first) - 1, choices.shape[1] - decisions), np.int64)
    contexts[target.group] = choices[:, decisions:]
    actions = np.column_stack([target.actions, contexts[events.group_rows]])
    distinct, inverse = np.unique(choices, axis=0, return_inverse=True)
    own = inverse.ravel()
    values, robust = np.zeros(len(choices)), direct.values.copy()
    drawn = np.zeros((2, REDRAWN))
    lost, mass, effective = 0.0, 0.0, 0.0
    for fold in fitted.folds:
        at, weight = fold.rounds, clusters.weights[fold.rounds]
        per_row = np.bincount(target.group[at], weight, len(target.first) - 1)[events.group_rows] * target.probability
        vectors = [fold.parameters, *fold.draws[:REDRAWN]]
        for k, parameters in enumerate(vectors):
            expected = fitted.circuit.values(parameters, distinct, np.empty((len(distinct), 0), np.int64))[own[at]]
            wanted = fitted.circuit.values(parameters, actions, np.empty((len(actions), 0), np.int64))
            below = np.bincount(events.logged[at].ravel(), (weight[:, None] * expected).ravel(), events.number)
            above = np.bincount(events.policy.ravel(), (per_row[:, None] * wanted).ravel(), events.number)
            ratio = np.minimum(np.divide(above, below, out=np.zeros_like(above), where=below > 0), LARGEST)
            weights = ratio[events.logged[at]]
            by_click = (weights * terms[at]).sum(axis=1)
            corrected = (weights * (terms[at] - expected)).sum(axis=1)
            if k:
                model_value = above.sum() / clusters.rounds
                drawn[:, k - 1] += (
                    weight @ by_click / clusters.rounds,
                    weight @ corrected / clusters.rounds + model_value,
                )
                continue
            values[at], robust[at] = by_click, robust[at] + corrected
            lost += float(above[below <= 0].sum())
            mass += float(above.sum())
            squares = float((weight[:, None] * weights**2).sum())
            effective += float((weight[:, None] * weights).sum()) ** 2 / squares / terms.shape[1] if squares else 0.0
    estimates = []
    for column, spread in ((values, drawn[0]), (robust, drawn[1])):
        middle = clusters.mean(column)
        width = NORMAL * float(np.hypot(clusters.standard_error(column), spread.std(ddof=1)))
        estimates.append(Estimate(middle, middle - width, middle + width, effective))
    return ClickWeighted(estimates[0], estimates[1], 1 - lost / mass if mass else 0.0)
