"""Statistics of an experiment: a function of its steps, stored with snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from idbandits.service.journal.records import CALLER, StepRow

HOUR = 3600.0
PERIOD = 3 * HOUR  # in which shown items are counted


class Cell(msgspec.Struct, array_like=True):
    """Rounds of one hour, arm and version: number, and sums of observed rewards, squares and cubes."""

    rounds: float = 0.0
    rewarded: float = 0.0
    reward: float = 0.0
    square: float = 0.0
    cube: float = 0.0

    def add(self, reward: float | None, sign: float) -> None:
        """Add an observed reward, or take it back."""
        if reward is not None:
            self.rewarded += sign
            self.reward += sign * reward
            self.square += sign * reward * reward
            self.cube += sign * reward**3


class LearnedRound(NamedTuple):
    """Step of a round with its decoded parts; `before` is what was counted of it, None if it is new."""

    step: StepRow
    action: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


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

    def count_rounds(self, rounds: Sequence[LearnedRound]) -> None:
        """Count the steps of rounds."""
        new = [own for own in rounds if own.before is None and own.after is not None]
        gone = [own for own in rounds if own.before is not None and own.after is None]
        for own, sign in ((new, 1), (gone, -1)):
            self.rounds += sign * len(own)
            self._count_choices(own, sign)
        self.corrected += sum(own.before is not None for own in rounds)
        for step, _, before, after in rounds:
            cell = self.cells.setdefault(f"{int(step.at // HOUR)}|{step.arm}|{step.version}", Cell())
            cell.rounds += (after is not None) - (before is not None)
            cell.add(step.earlier, -1.0)
            cell.add(step.reward, 1.0)
        self._count_observations([own.before for own in rounds if own.before], -1)
        self._count_observations([own.after for own in rounds if own.after], 1)

    def _count_choices(self, rounds: Sequence[LearnedRound], sign: int) -> None:
        """Count what was shown, and agreement where the caller chose."""
        for at, own in groupby(rounds, lambda round_: int(round_.step.at // PERIOD)):
            period = self.periods.setdefault(str(at), {})
            for name, numbers in counted([round_.action for round_ in own]).items():
                add_all(self.shown.setdefault(name, {}), numbers, sign)
                add_all(period, numbers, sign)
        compared = [own.step for own in rounds if own.step.arm == CALLER and own.step.proposed is not None]
        self.compared += sign * len(compared)
        self.agreed += sign * sum(step.proposed == step.action for step in compared)

    def _count_observations(self, seen: Sequence[Mapping[str, Any]], sign: int) -> None:
        """Count the values of observed nodes."""
        for name, numbers in counted(seen).items():
            add_all(self.seen.setdefault(name, {}), numbers, sign)

    def to_json(self) -> bytes:
        """Return the statistics as JSON."""
        return msgspec.json.encode(self)

    @staticmethod
    def from_json(text: bytes) -> Statistics:
        """Return statistics from JSON."""
        return msgspec.json.decode(text, type=Statistics)


def counted(rounds: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return how often each node has each value, by `key_of` the value."""
    columns: dict[str, list[Any]] = {}
    for own in rounds:
        for name, value in own.items():
            columns.setdefault(name, []).append(value)
    return {name: _counted(values) for name, values in columns.items()}


def _counted(values: Sequence[Any]) -> dict[str, int]:
    if len({*map(type, values)}) == 1:  # else equal values have different keys: 1, 1.0 and True
        return {key_of(value): number for value, number in Counter(values).items()}
    return Counter(map(key_of, values))


def add_all(counts: dict[str, int], numbers: Mapping[str, int], sign: int) -> None:
    """Add numbers to counts."""
    for key, number in numbers.items():
        counts[key] = counts.get(key, 0) + sign * number


def key_of(label: Any) -> str:
    """Return a label as a key: texts as they are, others after a mark."""
    return label if isinstance(label, str) else f"\x00{label!r}"
