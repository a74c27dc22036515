"""Eligible choices in the rounds of a world."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

from idbandits.circuit.model import Model
from idbandits.errors import ODD, ActionError, IdbanditsError
from idbandits.kernel.array_types import Ints, Rng
from idbandits.solve.eligible import Allowed, are_eligible
from idbandits.solve.solver import Solver


class Eligible(NamedTuple):
    """Eligible choices as passed by users, and as numbers."""

    allowed: Allowed
    numbers: Ints


@final
class Eligibility:
    """Eligible choices by round: constant, or returned by a function of the round and a generator."""

    def __init__(self, model: Model, allowed: Allowed | Callable[[int, Rng], Allowed]) -> None:
        self._model = model
        self._function = allowed if callable(allowed) else None
        self._constant = None if callable(allowed) else self._read(allowed)
        self.varies = self._constant is None
        self.limits = self._constant is None or self._constant.allowed is not None  # some choices may be ineligible

    def at(self, t: int, rng: Rng) -> Eligible:
        """Return the eligible choices of a round."""
        if self._constant is not None:
            return self._constant
        assert self._function is not None
        try:
            allowed = self._function(t, rng)
        except ODD as error:
            raise ActionError(f"allowed of round {t}: the function raised {type(error).__name__}: {error}") from error
        try:
            return self._read(allowed)
        except IdbanditsError as error:
            raise type(error)(f"round {t}: {error}") from None

    def _read(self, allowed: Allowed) -> Eligible:
        return Eligible(allowed, self._model.derived(Solver).eligible(allowed))

    def check(self, action: Ints, eligible: Eligible) -> None:
        """Raise unless all choices of an action are eligible."""
        if not are_eligible(action, eligible.numbers, len(self._model.decisions)):
            raise ActionError(
                f"action {self._model.action_of(action)!r} has a choice that is not allowed in this round"
            )
