"""Models fitted to one part of the sessions and applied to the other, and the direct method by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from idbandits.agent.thompson import Thompson
from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram
from idbandits.kernel.array_types import Bools, Floats, Ints, Rng
from idbandits.logs.evaluate.clusters import Clusters, Estimate, interval
from idbandits.logs.evaluate.target import Target
from idbandits.logs.evaluate.term_values import TermCircuit, term_circuit
from idbandits.logs.rounds import Rounds

DRAWS = 200  # of the posterior
MOST_EVALUATIONS = 20_000_000  # of actions under drawn means; fewer draws are made instead


class Fold(NamedTuple):
    """Rounds to evaluate, with a model that was fitted to the others."""

    rounds: Ints  # places
    parameters: Floats  # posterior means
    draws: Floats  # (draws, parameters)


class Fitted(NamedTuple):
    """Models of all folds; every round is in one fold."""

    circuit: TermCircuit
    folds: tuple[Fold, ...]
    of_round: Ints  # fold of each round
    impossible: int  # rounds that the diagram rules out

    def values(self, choices: Ints, seen: Ints, rounds: Ints) -> Floats:
        """Return E[term | choices, seen] of some rounds by term, each under the model of its fold."""
        out = np.empty((len(rounds), len(self.circuit.term_leaf)))
        for number, fold in enumerate(self.folds):
            own = np.flatnonzero(self.of_round[rounds] == number)
            part = seen[own] if len(seen) else np.empty((len(own), 0), np.int64)
            out[own] = self.circuit.values(fold.parameters, choices[own], part)
        return out


def fit_folds(model: Model, rounds: Rounds, clusters: Clusters, folds: int, rng: Rng) -> Fitted:
    """Fit the diagram to the complement of each fold of the sessions."""
    of_session = rng.permutation(len(clusters.size)) % folds
    of_round = of_session[clusters.session]
    circuit = term_circuit(model)
    fitted, impossible = [], 0
    for fold in range(folds):
        own = of_round == fold
        agent, ruled_out = fit_part(model.diagram, model, rounds, ~own, rng)
        impossible += ruled_out
        draws = agent.draws(DRAWS)
        vectors = [circuit.parameters({name: own[k] for name, own in draws.items()}) for k in range(DRAWS)]
        matrix = np.array(vectors).reshape(DRAWS, -1)
        fitted.append(Fold(np.flatnonzero(own), matrix.mean(axis=0), matrix))
    return Fitted(circuit, tuple(fitted), of_round, impossible // max(1, folds - 1))


def fit_part(d: Diagram, model: Model, rounds: Rounds, own: Bools, rng: Rng) -> tuple[Thompson, int]:
    """Return an agent that has learned from some rounds, and how many of these the diagram ruled out."""
    part = rounds.part(own)
    if len(part.weights) and (part.weights != 1).any():
        copies = np.floor(part.weights + rng.random(len(part))).astype(np.int64)  # right on average
        part = part.part(np.repeat(np.arange(len(part)), copies))
    agent = Thompson(d, seed=int(rng.integers(2**31)))
    if not len(part):
        return agent, 0
    known = [*model.decisions, *model.contexts]
    columns = {node.name: _labels(node.values, part.choices[:, k]) for k, node in enumerate(known)}
    seen = {node.name: _labels(node.values, part.seen[:, k]) for k, node in enumerate(model.observed)}
    actions = {node.name: columns[node.name] for node in model.decisions}
    contexts = {node.name: columns[node.name] for node in model.contexts}
    report = agent.update_many(actions, seen, contexts or None, impossible="skip")
    return agent, len(report.impossible)


def _labels(values: Sequence[Any], places: Ints) -> Any:
    """Return the labels at places; None at -1."""
    if isinstance(values, range) and (places >= 0).all():
        return places
    table = np.empty(len(values) + 1, dtype=object)
    table[:-1] = list(values)
    table[-1] = None
    return table[places]


class Direct(NamedTuple):
    """Direct method: values of the policy in each round under the fitted models, and what is unknown about them."""

    values: Floats  # by round
    estimate: Estimate
    posterior_variance: float  # of the mean over rounds, without that of contexts


def direct_method(fitted: Fitted, target: Target, choices: Ints, clusters: Clusters, rng: Rng) -> Direct:
    """Estimate the value of a policy by the models alone, with an interval from their posteriors."""
    decisions = target.actions.shape[1]
    rows = np.repeat(np.arange(len(target.first) - 1), np.diff(target.first))
    contexts = _context_of_groups(target, choices, decisions)
    actions = np.column_stack([target.actions, contexts[rows]])
    values, total = np.empty(len(choices)), clusters.rounds
    number = int(np.clip(MOST_EVALUATIONS // max(1, len(actions)), 20, DRAWS))
    drawn = np.zeros(number)
    for fold in fitted.folds:
        own = fold.rounds
        group, weights = target.group[own], clusters.weights[own]
        share = np.bincount(group, weights, len(target.first) - 1) / total
        by_group = _group_values(fitted, fold.parameters, actions, target, rows)
        values[own] = by_group[group]
        for k in range(number):
            drawn[k] += share @ _group_values(fitted, fold.draws[k], actions, target, rows)
    noise = clusters.standard_error(values)
    point, spread = float(drawn.mean()), float(drawn.var(ddof=1))
    replicates = np.repeat(drawn, 20) + noise * rng.standard_normal(20 * number)
    return Direct(values, Estimate(point, *interval(replicates), total), spread)


def _context_of_groups(target: Target, choices: Ints, decisions: int) -> Ints:
    """Return the contexts of each group of a policy."""
    table = np.zeros((len(target.first) - 1, choices.shape[1] - decisions), np.int64)
    table[target.group] = choices[:, decisions:]
    return table


def _group_values(fitted: Fitted, parameters: Floats, actions: Ints, target: Target, rows: Ints) -> Floats:
    """Return the expected reward of a policy in each group under one vector of parameters."""
    terms = fitted.circuit.values(parameters, actions, np.empty((len(actions), 0), np.int64))
    by_group = np.bincount(rows, target.probability * terms.sum(axis=1), len(target.first) - 1)
    return np.asarray(by_group, np.float64)
