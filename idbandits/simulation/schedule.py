"""Means of a world by round, grouped into phases with constant means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Means, Model
from idbandits.errors import ODD, IdbanditsError, MeansError
from idbandits.kernel.array_types import Floats
from idbandits.kernel.structs import Packed
from idbandits.solve.solver import Solution

MOST_CONTEXTS = 100_000  # best values are stored for at most as many contexts
MOST_PHASES = 1024  # that are stored
MOST_OBJECTS = 64  # returned by the function of the round, and recognised by identity


@final
class Phase(NamedTuple):
    """Constant means of some rounds, with derived quantities that all copies of a world share."""

    means: dict[str, Floats]
    parameters: Floats
    sampler: Packed
    best_values: Floats  # by context: best expected reward, NaN until known; empty if there are too many contexts
    solutions: dict[tuple[Any, ...], Solution]  # by context and eligible choices


@final
class Schedule:
    """Phases of a world: a single one, or those of a function of the round. Copies of a world share them."""

    def __init__(
        self, model: Model, means: Means | Callable[[int], Means], contexts: int, sampler: Callable[[Floats], Packed]
    ) -> None:
        self._model, self._sampler = model, sampler
        self._contexts = contexts if contexts <= MOST_CONTEXTS else 0
        self.gap = np.zeros(1)  # largest difference between an upper bound and a best value, in all phases
        self._by_means: dict[bytes, Phase] = {}
        self._by_object: dict[int, tuple[Any, Phase]] = {}  # has the object, too, so that its id is not used again
        self._function = means if callable(means) else None
        self._constant = None if callable(means) else self._phase(means)
        self.at(0)  # raises if the means are invalid

    @property
    def varies(self) -> bool:
        """True if there may be several phases."""
        return self._function is not None

    def at(self, t: int) -> Phase:
        """Return the phase of a round."""
        if self._constant is not None:
            return self._constant
        assert self._function is not None
        try:
            means = self._function(t)
        except ODD as error:
            raise MeansError(f"means of round {t}: the function raised {type(error).__name__}: {error}") from error
        if (known := self._by_object.get(id(means))) is not None:
            return known[1]
        try:
            phase = self._phase(means)
        except IdbanditsError as error:
            raise type(error)(f"means of round {t}: {error}") from None
        _add(self._by_object, id(means), (means, phase), MOST_OBJECTS)
        return phase

    def end_of_phase(self, t: int, last: int) -> int:
        """Return the first round after `t`, at most `last`, with another phase."""
        if self._constant is not None:
            return last
        phase, end = self.at(t), t + 1
        while end < last and self.at(end) is phase:
            end += 1
        return end

    def _phase(self, means: Any) -> Phase:
        parameters = self._model.parameter_vector(means)
        phase = self._by_means.get(key := parameters.tobytes())
        if phase is None:
            copies = {name: np.array(means[name], dtype=np.float64) for name in self._model.learned}
            phase = Phase(copies, parameters, self._sampler(parameters), np.full(self._contexts, np.nan), {})
            _add(self._by_means, key, phase, MOST_PHASES)
        return phase


def _add(cache: dict[Any, Any], key: Any, value: Any, limit: int) -> None:
    """Add an entry after dropping the oldest ones beyond the limit; threads may do this at the same time."""
    for old in list(cache)[: max(0, len(cache) + 1 - limit)]:
        cache.pop(old, None)
    cache[key] = value
