"""Statistics of an experiment: a function of its steps, stored with snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from idbandits.service.journal.records import CALLER, StepRow

HOUR = 3600.0
PERIOD = 3 * HOUR  # of counts of shown items


class Cell(msgspec.Struct, array_like=True):
    """Rounds of one hour, arm and version: their number, and sums of observed rewards, squares and cubes."""

    rounds: float = 0.0
    rewarded: float = 0.0
    reward: float = 0.0
    square: float = 0.0
    cube: float = 0.0

    def add(self, reward: float | None, sign: float) -> None:
        """Add an observed reward (sign 1), or subtract it (sign -1)."""
        if reward is not None:
            self.rewarded += sign
            self.reward += sign * reward
            self.square += sign * reward * reward
            self.cube += sign * reward**3


class LearnedRound(NamedTuple):
    """Step of a round with its decoded action and observations; `before` is None if the round is new."""

    step: StepRow
    action: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


class Statistics(msgspec.Struct):
    """Counts of rounds, rewards, choices and observations; keys are texts, as in JSON."""

    rounds: int = 0  # closed rounds
    corrected: int = 0  # steps that corrected or removed a round
    agreed: int = 0  # rounds in which the caller and the policy chose equal actions
    compared: int = 0  # rounds with an action of the caller and a known action of the policy
    cells: dict[str, Cell] = {}  # "hour|arm|version"
    shown: dict[str, dict[str, int]] = {}  # by decision and `key_of` its label
    periods: dict[str, dict[str, int]] = {}  # by period and `key_of` the label, over all decisions
    seen: dict[str, dict[str, int]] = {}  # by observed node and `key_of` its value

    def count_rounds(self, rounds: Sequence[LearnedRound]) -> None:
        """Count the steps of rounds."""
        new = [round_ for round_ in rounds if round_.before is None and round_.after is not None]
        removed = [round_ for round_ in rounds if round_.before is not None and round_.after is None]
        for group, sign in ((new, 1), (removed, -1)):
            self.rounds += sign * len(group)
            self._count_choices(group, sign)
        self.corrected += sum(round_.before is not None for round_ in rounds)
        for step, _, before, after in rounds:
            cell = self.cells.setdefault(f"{int(step.at // HOUR)}|{step.arm}|{step.version}", Cell())
            cell.rounds += (after is not None) - (before is not None)
            cell.add(step.earlier, -1.0)
            cell.add(step.reward, 1.0)
        self._count_observations([round_.before for round_ in rounds if round_.before], -1)
        self._count_observations([round_.after for round_ in rounds if round_.after], 1)

    def _count_choices(self, rounds: Sequence[LearnedRound], sign: int) -> None:
        """Count shown labels, and agreement of the caller with the policy."""
        for period, group in groupby(rounds, lambda round_: int(round_.step.at // PERIOD)):
            shown = self.periods.setdefault(str(period), {})
            for name, numbers in counted([round_.action for round_ in group]).items():
                add_all(self.shown.setdefault(name, {}), numbers, sign)
                add_all(shown, numbers, sign)
        steps = [round_.step for round_ in rounds]
        compared = [step for step in steps if step.arm == CALLER and step.proposed is not None]
        self.compared += sign * len(compared)
        self.agreed += sign * sum(step.proposed == step.action for step in compared)

    def _count_observations(self, seen: Sequence[Mapping[str, Any]], sign: int) -> None:
        """Count the values of observed nodes."""
        for name, numbers in counted(seen).items():
            add_all(self.seen.setdefault(name, {}), numbers, sign)

    def to_json(self) -> bytes:
        """Encode statistics as JSON text."""
        return msgspec.json.encode(self)

    @staticmethod
    def from_json(text: bytes) -> Statistics:
        """Decode statistics from JSON text."""
        return msgspec.json.decode(text, type=Statistics)


def counted(rounds: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return counts of the values of each node, by `key_of` the value."""
    columns: dict[str, list[Any]] = {}
    for values in rounds:
        for name, value in values.items():
            columns.setdefault(name, []).append(value)
    return {name: _counted(column) for name, column in columns.items()}


def _counted(values: Sequence[Any]) -> dict[str, int]:
    if len({*map(type, values)}) == 1:  # values of several types can be equal and have different keys: 1, 1.0 and True
        return {key_of(value): number for value, number in Counter(values).items()}
    return Counter(map(key_of, values))


def add_all(counts: dict[str, int], numbers: Mapping[str, int], sign: int) -> None:
    """Add numbers to counts in place."""
    for key, number in numbers.items():
        counts[key] = counts.get(key, 0) + sign * number


def key_of(label: Any) -> str:
    """Return the key of a label: texts are unchanged, the repr of other labels follows a NUL character."""
    return label if isinstance(label, str) else f"\x00{label!r}"
