"""Which choices are eligible in the rounds of a world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

from idbandits.circuit.model import Model
from idbandits.errors import ODD, ActionError, IdbanditsError
from idbandits.kernel.array_types import Ints, Rng
from idbandits.solve.eligible import Allowed, are_eligible
from idbandits.solve.solver import Solver


class Eligible(NamedTuple):
    """The choices that are eligible, as users list them and as numbers."""

    allowed: Allowed
    numbers: Ints


@final
class Assortment:
    """The same list in all rounds, or those that a function of the round and of random numbers returns."""

    def __init__(self, model: Model, allowed: Allowed | Callable[[int, Rng], Allowed]) -> None:
        self._model = model
        self._function = allowed if callable(allowed) else None
        self._constant = None if callable(allowed) else self._read(allowed)

    @property
    def varies(self) -> bool:
        """Whether rounds may differ."""
        return self._constant is None

    @property
    def limits(self) -> bool:
        """Whether some choices may not be eligible."""
        return self._constant is None or self._constant.allowed is not None

    def at(self, t: int, rng: Rng) -> Eligible:
        """What is eligible in a round."""
        if self._constant is not None:
            return self._constant
        assert self._function is not None
        try:
            allowed = self._function(t, rng)
        except ODD as error:  # of the user's code
            raise ActionError(f"allowed of round {t}: the function raised {type(error).__name__}: {error}") from error
        try:
            return self._read(allowed)
        except IdbanditsError as error:
            raise type(error)(f"round {t}: {error}") from None

    def _read(self, allowed: Any) -> Eligible:
        return Eligible(allowed, self._model.derived(Solver).eligible(allowed))

    def check(self, action: Ints, eligible: Eligible) -> None:
        """Raise unless an action is made of eligible choices."""
        if not are_eligible(action, eligible.numbers, len(self._model.decisions)):
            chosen = self._model.action_of(action)
            raise ActionError(f"action {chosen!r} is not made of choices that are allowed in this round")
