"""Statistics of an experiment: a function of its steps, stored with snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from idbandits.service.journal.records import DecisionRow

HOUR = 3600.0
PERIOD = 3 * HOUR  # in which shown items are counted


class Cell(msgspec.Struct, array_like=True):
    """Rounds of one hour, arm and version: number, and sums of observed rewards, squares and cubes."""

    rounds: float = 0.0
    rewarded: float = 0.0
    reward: float = 0.0
    square: float = 0.0
    cube: float = 0.0


class Statistics(msgspec.Struct):
    """Counts of rounds, rewards, choices and observations; keys are texts so that the whole is JSON."""

    rounds: int = 0  # that were closed
    corrected: int = 0  # steps that replaced an earlier one
    agreed: int = 0  # of rounds whose action the caller chose, and for which the policy's is known
    compared: int = 0
    cells: dict[str, Cell] = {}  # "hour|arm|version"
    shown: dict[str, dict[str, int]] = {}  # by decision and `key_of` its label
    periods: dict[str, dict[str, int]] = {}  # by period and `key_of` a label: over all decisions
    seen: dict[str, dict[str, int]] = {}  # by observed node and `key_of` its value

    def count_round(
        self, row: DecisionRow, action: Mapping[str, Any], before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None, earlier: float | None, reward: float | None,
    ) -> None:  # fmt: skip
        """Count a step of a round: `before` is what was counted of it, None if it is new."""
        sign = (after is not None) - (before is not None)
        cell = self.cells.setdefault(f"{int(row.at // HOUR)}|{row.arm}|{row.version}", Cell())
        self.rounds += sign
        self.corrected += before is not None
        cell.rounds += sign
        for value, own in ((earlier, -1.0), (reward, 1.0)):
            if value is not None:
                cell.rewarded += own
                cell.reward += own * value
                cell.square += own * value * value
                cell.cube += own * value**3
        if sign:
            period = self.periods.setdefault(str(int(row.at // PERIOD)), {})
            for name, label in action.items():
                key = label if type(label) is str else key_of(label)
                counts = self.shown.get(name)
                if counts is None:
                    counts = self.shown[name] = {}
                counts[key] = counts.get(key, 0) + sign
                period[key] = period.get(key, 0) + sign
            if row.proposed is not None and row.arm == "caller":
                self.compared += sign
                self.agreed += sign * (row.proposed == row.action)
        for seen, own_sign in ((before, -1), (after, 1)):
            for name, value in (seen or {}).items():
                counts = self.seen.setdefault(name, {})
                key = key_of(value)
                counts[key] = counts.get(key, 0) + own_sign

    def to_json(self) -> bytes:
        """Return the statistics as JSON."""
        return msgspec.json.encode(self)

    @staticmethod
    def from_json(text: bytes) -> Statistics:
        """Return statistics from JSON."""
        return msgspec.json.decode(text, type=Statistics)


def key_of(label: Any) -> str:
    """Return a label as a key: texts as they are, others after a mark."""
    return label if isinstance(label, str) else f"\x00{label!r}"
