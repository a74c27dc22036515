"""Closing of due rounds: compute the observation by now, check that it is possible, and compute its reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from idbandits.agent.encoding.era import Era
from idbandits.circuit.model import Model
from idbandits.errors import IdbanditsError
from idbandits.kernel.array_types import Floats
from idbandits.logs.evaluate.term_values import observed_terms, term_circuit
from idbandits.service.journal.records import CLOSED, IMPOSSIBLE, OPEN, Closing, DueRow, events_of_all
from idbandits.service.json_text import decoded_all, encoded
from idbandits.service.live.versions import Version

SAME = 1e-9  # relative difference of equal rewards
MOST_JUDGES = 1000  # in memory


@final
class Closer:
    """Function that computes the closings of due rounds."""

    def __init__(self, version: Callable[[str, int], Version]) -> None:
        self._version = version
        self._judges = dict[int, tuple[Model, _Judge]]()

    def __call__(self, due: Sequence[DueRow], now: float) -> list[Closing]:
        """Return the closing of each decision."""
        closings: list[Any] = [None] * len(due)
        groups: dict[tuple[str, int], list[int]] = {}
        for i, row in enumerate(due):
            groups.setdefault((row.experiment, row.version), []).append(i)
        for key, places in groups.items():
            version = self._version(*key)
            for i, closing in zip(places, self._closings(version, [due[i] for i in places], now), strict=True):
                closings[i] = closing
        return closings

    def _closings(self, version: Version, due: Sequence[DueRow], now: float) -> list[Closing]:
        """Return the closings of decisions of one version; if a round fails, only this round is impossible."""
        try:
            lists = zip(due, events_of_all(due), strict=True)
            observations = [version.observation(row, events, now) for row, events in lists]
            judged = self._judge(version)(due, observations)
        except Exception as error:
            if len(due) == 1:
                return [Closing(None, None, None, IMPOSSIBLE, f"{type(error).__name__}: {error}")]
            return [closing for row in due for closing in self._closings(version, [row], now)]
        closings = list[Closing]()
        for row, observation, (reward, problem) in zip(due, observations, judged, strict=True):
            if problem is not None:
                closings.append(Closing(None, None, None, IMPOSSIBLE, problem))
                continue
            following = version.next_due(row, now)
            after = encoded(observation) if observation or row.learned is not None else None
            closings.append(Closing(after, reward, following, OPEN if following is not None else CLOSED))
        return closings

    def prepare(self, version: Version) -> None:
        """Compile the judge of a version in advance, so that no transaction waits for the compiler."""
        self._judge(version)

    def _judge(self, version: Version) -> _Judge:
        entry = self._judges.get(id(version.model))
        if entry is None or entry[0] is not version.model:  # ids of deleted models are used again
            entry = version.model, _Judge(version.model)
            self._judges[id(version.model)] = entry
            while len(self._judges) > MOST_JUDGES:
                del self._judges[next(iter(self._judges))]
        return entry[1]


@final
class _Judge:
    """Function that checks that observations are possible, and computes the rewards that they determine."""

    def __init__(self, model: Model) -> None:
        self._model, self._era = model, Era({model.name: model.diagram})
        self._has_features = any(node.features is not None for node in model.contexts)
        if not self._has_features:
            self._circuit = term_circuit(model)
            self._parameters = [self._circuit.parameters(means) for means in _two_means(model)]
            width = len(model.decisions) + len(model.contexts)
            blank = np.zeros((1, width), np.int64), np.full((1, len(model.observed)), -1, np.int64)
            self._circuit.values(self._parameters[0], *blank)  # compiles

    def __call__(
        self, rows: Sequence[DueRow], observations: Sequence[dict[str, Any]]
    ) -> list[tuple[float | None, str | None]]:  # fmt: skip
        """Return (reward, problem) of each round: a hidden reward is None, the problem of a possible round is None."""
        if not rows:
            return []
        model = self._model
        choices = np.empty((len(rows), len(model.decisions) + len(model.contexts)), np.int64)
        states = np.full((len(rows), len(model.observed)), -1, np.int64)
        problems: list[str | None] = [None] * len(rows)
        actions, contexts = decoded_all([row.action for row in rows]), decoded_all([row.context for row in rows])
        for i, (action, context, observation) in enumerate(zip(actions, contexts, observations, strict=True)):
            try:
                choices[i] = self._era.action_vector(action, context)
                states[i] = self._era.seen(observation)
            except IdbanditsError as error:
                problems[i] = str(error)
                choices[i] = 0
        if self._has_features:  # no circuit of all rounds: a reward is known if all its nodes were observed
            rewards = observed_terms(model, choices, states).sum(axis=1).tolist()
            return [
                (None if problem or np.isnan(reward) else reward, problem)
                for reward, problem in zip(rewards, problems, strict=True)
            ]
        values = [self._circuit.values(vector, choices, states).sum(axis=1).tolist() for vector in self._parameters]
        answers, has_rewards = list[tuple[float | None, str | None]](), len(model.diagram.rewards) > 0
        for first, second, observation, problem in zip(*values, observations, problems, strict=True):
            if problem is None and math.isnan(first) and has_rewards:
                problem = f"what was observed has probability zero: {encoded(observation)}"
            is_known = abs(first - second) <= SAME * max(1.0, abs(first))
            answers.append((first if is_known and problem is None else None, problem))
        return answers


def _two_means(model: Model) -> list[dict[str, Floats]]:
    """Return two different means of all tables, positive except in fixed rows.

    A reward that is equal under both is determined by the observation.
    """
    both = []
    for seed in (0, 1):
        rng, means = np.random.default_rng(seed), dict[str, Floats]()
        for name, table in model.learned.items():
            rows = rng.uniform(0.2, 0.8, (table.size // table.states, table.states))
            rows = table.with_fixed(np.ravel(rows / rows.sum(axis=-1, keepdims=True))).reshape(-1, table.states)
            means[name] = (rows if table.states > 2 else rows[:, 1]).reshape(table.means_shape)
        both.append(means)
    return both
