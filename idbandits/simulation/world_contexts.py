"""The requests of a world whose contexts have features: one per round, and the means that it leads to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from idbandits.circuit.model import Action, Means, Model
from idbandits.errors import ContextError, MeansError, brief


@final
class Requests:
    """What the contexts with features are in each round, drawn by functions of a generator; the same for each key."""

    def __init__(self, model: Model, means: Any, contexts: Any, key: int) -> None:
        self._model, self._means, self._key = model, means, key
        self._names = [node.name for node in model.contexts if node.features is not None]
        self._samplers = dict(contexts) if isinstance(contexts, Mapping) else {}
        for name in self._names:
            if not callable(self._samplers.get(name)):
                needed = "has features: contexts has a function of a generator for it, which draws a mapping of them"
                raise ContextError(f"contexts: {name!r} {needed}; given {brief(self._samplers.get(name))}")
        if not isinstance(means, Mapping):
            raise MeansError(f"means map learned tables to arrays or functions of a request; given {brief(means)}")
        self._last: tuple[int, dict[str, Any], Means] | None = None

    @property
    def rest(self) -> dict[str, Any]:
        """What was said of contexts without features."""
        return {name: chances for name, chances in self._samplers.items() if name not in self._names}

    def with_key(self, key: int) -> Requests:
        """The same with other requests."""
        return Requests(self._model, self._means, self._samplers, key)

    def at(self, t: int) -> dict[str, Any]:
        """The requests of a round, by context."""
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in self._round(t)[1].items()}

    def means(self, t: int) -> Means:
        """The means of a round: those of logistic tables are functions of its request, or do not depend on it."""
        return self._round(t)[2]

    def _round(self, t: int) -> tuple[int, dict[str, Any], Means]:
        """The requests and the means of a round: those of the last one that was asked for are kept."""
        last = self._last  # other threads may put another one in its place
        if last is None or last[0] != t:
            rng = np.random.default_rng([self._key, t])
            requests = {name: self._samplers[name](rng) for name in self._names}
            self._last = last = t, requests, self._means_for(requests)
        return last

    def _means_for(self, requests: Mapping[str, Any]) -> Means:
        means = dict(self._means)
        for name, table in self._model.learned.items():
            if callable(means.get(name)):
                if table.logistic is None:
                    raise MeansError(f"means: {name!r} does not depend on a context with features; it is an array")
                own = np.asarray(means[name](requests[table.logistic.context]), dtype=np.float64)
                fits = own.size == np.prod(table.means_shape)
                means[name] = own.reshape(table.means_shape) if fits else own
        return means

    def check(self, t: int, context: Action) -> None:
        """Raise unless the requests in a context are those of a round."""
        drawn = self.at(t)
        for name in self._names:
            if name in context and context[name] != drawn[name]:
                given = f"{name!r} is what context() returned, or left out; given {brief(context[name])}"
                raise ContextError(f"context: a world draws its requests, so {given}")
