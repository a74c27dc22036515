"""Context features of a world: drawn in every round, together with the means that depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from idbandits.circuit.model import Action, Means, Model
from idbandits.errors import ContextError, MeansError, brief


@final
class ContextFeatures:
    """Features of contexts by round, drawn by functions of a generator; equal keys lead to equal features."""

    def __init__(self, model: Model, means: Any, contexts: Any, key: int) -> None:
        self._model, self._means, self._key = model, means, key
        self._names = [node.name for node in model.contexts if node.features is not None]
        self._samplers = dict(contexts) if isinstance(contexts, Mapping) else {}
        for name in self._names:
            if not callable(sampler := self._samplers.get(name)):
                needed = "must be a function of a generator that returns a mapping of its features"
                raise ContextError(f"contexts: {name!r} {needed}, got {brief(sampler)}")
        if not isinstance(means, Mapping):
            raise MeansError(f"means must map learned tables to arrays or functions of features, got {brief(means)}")
        self._last: tuple[int, dict[str, Any], Means] | None = None

    @property
    def plain_contexts(self) -> dict[str, Any]:
        """Entries of `contexts` without features."""
        return {name: chances for name, chances in self._samplers.items() if name not in self._names}

    def with_key(self, key: int) -> ContextFeatures:
        """Return a copy that draws other features."""
        return ContextFeatures(self._model, self._means, self._samplers, key)

    def at(self, t: int) -> dict[str, Any]:
        """Return the features of a round by context."""
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in self._round(t)[1].items()}

    def means(self, t: int) -> Means:
        """Return the means of a round; functions of features are replaced by their values."""
        return self._round(t)[2]

    def _round(self, t: int) -> tuple[int, dict[str, Any], Means]:
        """Return a round with its features and means; those of the last one are cached."""
        last = self._last  # one read, because other threads may replace it
        if last is None or last[0] != t:
            rng = np.random.default_rng([self._key, t])
            features = {name: self._samplers[name](rng) for name in self._names}
            self._last = last = t, features, self._means_given(features)
        return last

    def _means_given(self, features: Mapping[str, Any]) -> Means:
        means = dict(self._means)
        for name, table in self._model.learned.items():
            if callable(means.get(name)):
                if table.logistic is None:
                    raise MeansError(f"means: {name!r} must be an array: it depends on no context with features")
                values = np.asarray(means[name](features[table.logistic.context]), dtype=np.float64)
                fits = values.size == np.prod(table.means_shape)
                means[name] = values.reshape(table.means_shape) if fits else values
        return means

    def check(self, t: int, context: Action) -> None:
        """Raise if a context has other features than those of the round."""
        drawn = self.at(t)
        for name in self._names:
            if name in context and context[name] != drawn[name]:
                needed = f"{name!r} must be left out or as returned by context()"
                raise ContextError(f"context: {needed}, because a world draws features; got {brief(context[name])}")
