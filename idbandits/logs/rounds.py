"""Batches of encoded rounds: what all functions of logs work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from idbandits.kernel.array_types import Floats, Ints

NO_NUMBERS: Floats = np.empty(0)
NO_SESSIONS: Ints = np.empty(0, np.int64)


class Rounds(NamedTuple):
    """Rounds of a log in the numbers of a compiled diagram: places among the values of nodes.

    Optional columns are empty if the log does not have them.
    """

    choices: Ints  # (rounds, decisions + contexts): `model.decisions`, then `model.contexts`; -1: decision is missing
    seen: Ints  # (rounds, observed nodes), in the order of `model.observed`; -1: not seen
    numbers: Ints  # (rounds,): place of the round in the log, from 0
    weights: Floats = NO_NUMBERS  # (rounds,): how many equal rounds each one stands for
    times: Floats = NO_NUMBERS  # (rounds,): when they were played, in units of the agent's clock
    features: Floats = NO_NUMBERS  # (rounds, numbers of a request): encoded features of contexts
    sessions: Ints = NO_SESSIONS  # (rounds,): number of the cluster (session, user) that a round belongs to
    extra: Mapping[str, Any] = {}  # further columns that were asked for, as NumPy arrays of length `rounds`

    def __len__(self) -> int:
        """Return the number of rounds (not of fields)."""
        return len(self.choices)

    def part(self, own: Any) -> Rounds:
        """Return some of the rounds: a slice, a mask, or their places."""
        columns = {name: column[own] if len(column) else column for name, column in _columns(self).items()}
        return Rounds(**columns, extra={name: column[own] for name, column in self.extra.items()})


def joined(batches: Sequence[Rounds]) -> Rounds:
    """Return the rounds of several batches, which have the same columns, as one."""
    parts = [_columns(batch) for batch in batches]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    names = batches[0].extra
    return Rounds(**columns, extra={name: np.concatenate([batch.extra[name] for batch in batches]) for name in names})


def _columns(rounds: Rounds) -> dict[str, Any]:
    """Return all columns but further ones, by name."""
    return {name: own for name, own in rounds._asdict().items() if name != "extra"}
