"""The moments of a world: what is true of it in a round, as long as that stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Means, Model
from idbandits.errors import ODD, IdbanditsError, MeansError
from idbandits.kernel.array_types import Floats
from idbandits.kernel.structs import Packed
from idbandits.solve.solver import Solution

MOST_CONTEXTS = 100_000  # whose best values are kept
MOST_MOMENTS = 1024  # that are kept
MOST_OBJECTS = 64  # that a function returned, and are known by sight


@final
class Reference(NamedTuple):
    """The best expected reward of each context, as the loop finds it: the same for all copies of a world."""

    best: Floats  # NaN while it is not known; empty where there are too many contexts
    worst: Floats  # one number: by how much a bound exceeds a best value at most, at any moment

    @staticmethod
    def of(contexts: int, worst: Floats) -> Reference:
        """The reference of so many contexts, before anything is known."""
        return Reference(np.full(contexts if contexts <= MOST_CONTEXTS else 0, np.nan), worst)


@final
class Moment(NamedTuple):
    """What is true of a world, and what follows from it."""

    means: dict[str, Floats]
    parameters: Floats
    sampler: Packed
    reference: Reference
    best: dict[tuple[Any, ...], Solution]  # by context


@final
class Course:
    """The moments of a world: one, or those that a function of the round leads to. Copies of a world share them."""

    def __init__(
        self, model: Model, means: Means | Callable[[int], Means], contexts: int, sampler: Callable[[Floats], Packed]
    ) -> None:
        self._model, self._contexts, self._sampler = model, contexts, sampler
        self.worst = np.zeros(1)
        self._kept: dict[bytes, Moment] = {}  # by the means
        self._seen: dict[int, tuple[Any, Moment]] = {}  # by the identity of what the function returned
        self._function = means if callable(means) else None
        self._constant = None if callable(means) else self._moment(means)
        self.at(0)  # refuses wrong means

    @property
    def drifts(self) -> bool:
        """Whether there may be several moments."""
        return self._function is not None

    def at(self, t: int) -> Moment:
        """The moment of a round."""
        if self._constant is not None:
            return self._constant
        assert self._function is not None
        try:
            means = self._function(t)
        except ODD as error:  # of the user's code
            raise MeansError(f"means of round {t}: the function raised {type(error).__name__}: {error}") from error
        known = self._seen.get(id(means))
        if known is not None:
            return known[1]
        try:
            moment = self._moment(means)
        except IdbanditsError as error:
            raise type(error)(f"means of round {t}: {error}") from None
        _make_room(self._seen, MOST_OBJECTS)
        self._seen[id(means)] = means, moment  # which keeps it, so that nothing else gets its identity
        return moment

    def same_until(self, t: int, last: int) -> int:
        """Up to which round, `last` at most, all is as in this one."""
        if self._constant is not None:
            return last
        moment, end = self.at(t), t + 1
        while end < last and self.at(end) is moment:
            end += 1
        return end

    def _moment(self, means: Any) -> Moment:
        parameters = self._model.parameter_vector(means)
        key = parameters.tobytes()
        if key not in self._kept:
            own = {name: np.array(means[name], dtype=np.float64) for name in self._model.learned}
            reference = Reference.of(self._contexts, self.worst)
            _make_room(self._kept, MOST_MOMENTS)
            self._kept[key] = moment = Moment(own, parameters, self._sampler(parameters), reference, {})
            return moment
        return self._kept[key]


def _make_room(kept: dict[Any, Any], most: int) -> None:
    """Drop what was kept first, if there is no more room; other threads may do the same."""
    for key in list(kept)[: max(0, len(kept) + 1 - most)]:
        kept.pop(key, None)
