"""Predictions of an agent for rounds of a log: at the mean of its belief, or averaged over draws from it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.agent.encoding.agreement import Translation
from idbandits.agent.reports.posterior import means_of
from idbandits.agent.thompson import Thompson
from idbandits.circuit.model import Model, compile
from idbandits.errors import IdbanditsError
from idbandits.inference.regression.logistic_setup import bridged, request_in
from idbandits.kernel.array_types import Floats, Ints
from idbandits.logs.rounds import Rounds
from idbandits.logs.score_kernel import NodeLogs, NodePredictor

BLOCK = 65_536  # rounds that are averaged over draws at once


class _Member(NamedTuple):
    """A structure: how likely it is, how rounds are in its numbers, and parameters to predict by."""

    weight: float
    model: Model
    predictor: NodePredictor
    translation: Translation
    columns: Ints  # of an observed node of the first structure: the place in this one
    parameters: Floats  # one vector per row, all equally likely


@final
class Prediction:
    """Predictions of an agent; `draws` is None for those at the mean of its belief."""

    def __init__(self, agent: Thompson, draws: int | None) -> None:
        self.model = compile(agent.diagram)
        self._agent, self._draws = agent, draws
        self._has_features = any(node.features is not None for node in self.model.contexts)
        self._order = [node.name for node in self.model.observed]
        self._predictor = self.model.derived(NodePredictor)
        self.members = [] if self._has_features else self._members()

    def _members(self) -> list[_Member]:
        """Return all structures that have a weight."""
        diagrams, weights = self._agent.diagrams, self._agent.weights()
        beliefs = self._agent.posterior() if self._draws is None else self._agent.draws(self._draws)
        named = all(isinstance(own, Mapping) for own in beliefs.values()) and beliefs.keys() == diagrams.keys()
        members = []
        for name, d in diagrams.items():
            if weights[name] <= 0:
                continue
            model, own = compile(d), beliefs[name] if named else beliefs
            if self._draws is None:
                parameters = model.parameter_vector({table: belief.mean for table, belief in own.items()})[None]
            else:
                parameters = parameter_vectors(model, own, self._draws)
            names = [node.name for node in model.observed]
            columns = np.array([names.index(node) for node in self._order], np.int64)
            predictor = self._predictor if model is self.model else NodePredictor(model, self._order)
            members.append(
                _Member(weights[name], model, predictor, Translation(self.model, model), columns, parameters)
            )
        return members

    def logs(self, rounds: Rounds) -> NodeLogs:
        """Return the log-probabilities of what was seen in rounds."""
        if not self._has_features:
            return self._mixed(self.members, rounds)
        logs = NodeLogs(np.full(rounds.seen.shape, np.nan), np.full(rounds.seen.shape, np.nan))
        same = Translation(self.model, self.model)
        for own, parameters in self._by_features(rounds):
            member = _Member(1.0, self.model, self._predictor, same, NO_ORDER, parameters)
            part = self._mixed([member], rounds.part(own))
            logs.conditional[own], logs.marginal[own] = part
        return logs

    def _by_features(self, rounds: Rounds) -> Iterator[tuple[Ints, Floats]]:
        """Yield rounds with equal features of contexts, and the parameters that these have."""
        if len(rounds.features) != len(rounds):
            raise IdbanditsError("the log must have the features of all contexts, got none")
        distinct, places = np.unique(rounds.features, axis=0, return_inverse=True)
        order = np.argsort(places.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(places.ravel(), minlength=len(distinct)))
        parameters = _with_features(self._agent, self._draws)
        for k, features in enumerate(distinct):
            yield order[ends[k - 1] if k else 0 : ends[k]], parameters(features)

    def _mixed(self, members: list[_Member], rounds: Rounds) -> NodeLogs:
        """Return the logarithms of the mean probability over all structures and their parameters."""
        if len(members) == 1 and len(members[0].parameters) == 1 and members[0].translation.same:
            return members[0].predictor.logs(members[0].parameters[0], rounds.choices, rounds.seen)
        parts = [self._averaged(members, rounds.part(slice(k, k + BLOCK))) for k in range(0, len(rounds), BLOCK)]
        if not parts:
            return NodeLogs(np.empty(rounds.seen.shape), np.empty(rounds.seen.shape))
        return NodeLogs(*(np.concatenate(own) for own in zip(*parts, strict=True)))

    def _averaged(self, members: list[_Member], rounds: Rounds) -> NodeLogs:
        prefix, marginal = np.full(rounds.seen.shape, -np.inf), np.full(rounds.seen.shape, -np.inf)
        total = sum(member.weight for member in members)
        with np.errstate(invalid="ignore"):
            for member in members:
                choices, seen = _translated(member.translation, rounds)
                share = np.log(member.weight / total / len(member.parameters))
                for parameters in member.parameters:
                    logs = member.predictor.logs(parameters, choices, seen)
                    own = NodeLogs(*(column[:, member.columns] for column in logs)) if len(member.columns) else logs
                    so_far = np.cumsum(np.nan_to_num(own.conditional, nan=0.0, neginf=-np.inf), axis=1)
                    prefix = np.logaddexp(prefix, so_far + share)
                    marginal = np.logaddexp(marginal, own.marginal + share)
            before = np.concatenate([np.zeros((len(prefix), 1)), prefix[:, :-1]], axis=1)
            conditional = np.where(rounds.seen >= 0, prefix - before, np.nan)
        return NodeLogs(conditional, np.where(rounds.seen >= 0, marginal, np.nan))


NO_ORDER: Ints = np.empty(0, np.int64)  # columns of observed nodes that need no reordering


def _translated(translation: Translation, rounds: Rounds) -> tuple[Ints, Ints]:
    """Return choices and observations in the numbers of another structure."""
    if translation.same:
        return rounds.choices, rounds.seen
    rows = translation.of_rounds(np.concatenate([rounds.choices, rounds.seen], axis=1))
    return rows[:, : translation.width], rows[:, translation.width :]


def parameter_vectors(model: Model, draws: Mapping[str, Floats], number: int) -> Floats:
    """Return draws of means in their public shapes as vectors of all parameters, one per row."""
    parts = []
    for name, table in model.learned.items():
        means = np.asarray(draws[name], np.float64)
        rows = np.stack([1.0 - means, means], axis=-1) if table.states == 2 else means
        parts.append(rows.reshape(number, -1))
    return np.concatenate([*parts, np.tile(model.parameters.known, (number, 1))], axis=1)


def _with_features(agent: Thompson, draws: int | None) -> Callable[[Floats], Floats]:
    """Return the function from features of contexts to vectors of parameters, one per row."""
    learner, state, model = agent.learner, agent.state.copy(), agent.learner.model
    rng = np.random.default_rng(copy.deepcopy(agent.rng).integers(2**63))
    evidence = learner.evidence
    if draws is None:
        predictive = learner.inference.predictive(evidence, state)
        belief = learner.inference.belief(evidence, state, rng) if predictive is None else predictive

    def parameters(features: Floats) -> Floats:
        if draws is None:
            means = means_of(model.learned.values(), bridged(evidence, state, belief, features)[..., : evidence.live])
            return model.parameter_vector(model.tables_of_means(means))[None]
        request_in(evidence, state)[: len(features)] = features
        drawn: Any = learner.draws(state, rng, draws)
        return parameter_vectors(model, drawn, draws)

    return parameters


def in_numbers_of(rounds: Rounds, old: Model, new: Model) -> Rounds:
    """Return rounds of one model in the numbers of another with the same decisions, contexts and observed nodes."""
    choices, seen = _translated(Translation(old, new), rounds)
    return Rounds(np.ascontiguousarray(choices), np.ascontiguousarray(seen), *rounds[2:])
