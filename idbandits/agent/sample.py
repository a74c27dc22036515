"""Rounds that an agent remembers: a uniform sample of bounded size, by which it checks whether its diagram fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np
import numpy.typing as npt
from numba import types

from idbandits.circuit.model import Model
from idbandits.errors import FormatError, brief, is_integer
from idbandits.kernel.compiling import INTS, bare, kernel
from idbandits.kernel.types import Ints

ROOM = 8192  # rounds that are kept: all of the first ones
LEAST_ROOM = 64  # that memory is taken for
MOST_COUNT = 2**62
FAR = 1_000_000  # rounds that are looked ahead for the next one to keep
ROWS = types.int32[:, ::1]
GONE = -2  # in place of a value that a model does not have


@bare
def place_for(count: int, kept: int) -> int:
    """Where the round after `count` others goes among those kept; -1 if it is not kept.

    Reservoir sampling: round number t is kept with probability ROOM / t, in place of any other. The random number is a
    hash of t, so that an agent's own random numbers are not touched, and no state is kept.
    """
    if count < ROOM:
        return min(count, kept)
    mixed = np.uint64(count) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    place: int = np.int64(np.float64(mixed >> np.uint64(11)) * 2.0**-53 * (count + 1))  # type: ignore[assignment]
    return (kept if kept < place else place) if place < ROOM else -1


@kernel(types.int64(types.int64))
def next_kept(count: int) -> int:
    """How many rounds come before the next one that is kept, of which `count` have come; or fewer, if that is far."""
    for _ in range(FAR):
        if place_for(count, ROOM) >= 0:
            break
        count += 1
    return count


@kernel(types.int64(ROWS, types.int64, types.int64, INTS, INTS))
def note(rows: Ints, kept: int, count: int, action: Ints, seen: Ints) -> int:
    """Keep a round, or not; how many are kept then."""
    place = place_for(count, kept)
    if place < 0:
        return kept
    for i in range(len(action)):
        rows[place, i] = action[i]
    for i in range(len(seen)):
        rows[place, len(action) + i] = seen[i]
    return max(kept, place + 1)


@kernel(types.int64(ROWS, types.int64, types.int64, types.int64[:, ::1]))
def note_all(rows: Ints, kept: int, count: int, rounds: Ints) -> int:
    """Keep some of many rounds; how many are kept then."""
    for t in range(len(rounds)):
        place = place_for(count + t, kept)
        if place >= 0:
            for i in range(rounds.shape[1]):
                rows[place, i] = rounds[t, i]
            kept = max(kept, place + 1)
    return kept


@final
class Sample:
    """A uniform sample of the rounds that were learned from: decisions, contexts, observed nodes (-1: not seen)."""

    def __init__(self, width: int) -> None:
        self.count = 0  # rounds that it was shown
        self.kept = 0
        self.impossible = 0  # rounds that were refused, because the diagram rules them out
        self._next = 0  # rounds until this many are not kept
        self._rows: npt.NDArray[np.int32] = np.empty((0, width), np.int32)

    @property
    def rounds(self) -> Ints:
        """The rounds that are kept, one per row."""
        return self._rows[: self.kept].astype(np.int64)

    def add(self, action: Ints, seen: Ints) -> None:
        """Take note of a round that was learned from."""
        if self.count >= self._next:  # after many rounds, that is rare
            self._keep(action, seen)
        self.count += 1

    def _keep(self, action: Ints, seen: Ints) -> None:
        if self.kept == len(self._rows) < ROOM:
            self._make_room(2 * self.kept)
        self.kept = note.entry(self._rows, self.kept, self.count, action, seen)
        if self.count >= ROOM:
            self._next = next_kept(self.count + 1)

    def add_many(self, rounds: Ints) -> None:
        """Take note of many rounds, one per row."""
        self._make_room(self.kept + len(rounds))
        self.kept = note_all(self._rows, self.kept, self.count, rounds)
        self.count += len(rounds)

    def replace(self, old: Ints, new: Ints | None) -> None:
        """Put one round in place of another, or take it back; nothing changes if it is not among those kept."""
        same = np.flatnonzero((self._rows[: self.kept] == old).all(axis=1))
        if not len(same):
            return
        if new is not None:
            self._rows[same[-1]] = new
        else:
            self._rows[same[-1]] = self._rows[self.kept - 1]
            self.kept -= 1
            if self.count <= ROOM:
                self.count = self.kept

    def _make_room(self, wanted: int) -> None:
        if len(self._rows) < min(max(wanted, 1), ROOM):
            rows = np.empty((min(max(wanted, LEAST_ROOM), ROOM), self._rows.shape[1]), np.int32)
            rows[: self.kept] = self._rows[: self.kept]
            self._rows = rows

    def copy(self) -> Sample:
        """The same, to be changed apart."""
        other = Sample(self._rows.shape[1])
        other.count, other.kept, other.impossible = self.count, self.kept, self.impossible
        other._rows = self._rows[: self.kept].copy()
        return other

    def moved(self, old: Model, new: Model) -> Sample:
        """Return a sample of the rounds that another model can have, too, by names and labels."""
        rows = Translation(old, new).of_rounds(self.rounds)
        other = Sample(rows.shape[1])
        other.kept, other.impossible = len(rows), self.impossible
        other.count = self.count if other.kept == self.kept else self.count * other.kept // self.kept
        other._rows = rows.astype(np.int32)
        return other

    def renumbered(self, of_rounds: Callable[[Ints], Ints]) -> Sample:
        """Return a sample of the same rounds in other numbers."""
        other = self.copy()
        other._rows = of_rounds(self.rounds).astype(np.int32)
        return other

    def to_arrays(self) -> tuple[Ints, npt.NDArray[np.int32]]:
        """What files keep: three numbers, and the rounds."""
        return np.array([self.count, self.kept, self.impossible], np.int64), self._rows[: self.kept].copy()

    @staticmethod
    def from_arrays(model: Model, numbers: Ints, rows: npt.NDArray[np.int32]) -> Sample:
        """A sample from what a file holds, of which every number is checked."""
        nodes = [*model.decisions, *model.contexts, *model.observed]
        if numbers.shape != (3,) or numbers.dtype != np.int64 or rows.dtype != np.int32:
            raise FormatError("the sample of rounds is not three numbers and a table of whole numbers")
        count, kept, impossible = numbers.tolist()
        in_range = all(is_integer(n) and 0 <= n <= MOST_COUNT for n in (count, kept, impossible))
        if not in_range or rows.shape != (kept, len(nodes)) or kept > min(count, ROOM):
            raise FormatError(
                f"the sample has {kept} of {count} rounds of shape {rows.shape}; at most {ROOM} are kept, "
                f"with {len(nodes)} numbers each"
            )
        for node, column in zip(nodes, rows.T, strict=True):
            least = -1 if node.kind == "observed" else 0
            if kept and not (least <= column.min() and column.max() < node.states):
                wrong = column[(column < least) | (column >= node.states)][0]
                raise FormatError(f"the sample of rounds: {node.name!r} cannot be number {brief(int(wrong))}")
        sample = Sample(len(nodes))
        sample.count, sample.kept, sample.impossible = count, kept, impossible
        sample._rows = rows.copy()
        return sample


@final
class Translation:
    """Rounds of one model in the numbers of another, by names and labels.

    A round of which the other model lacks a choice, a value of a context or an observed state is left out; so is any
    round if a decision or context of the other model is new.
    """

    def __init__(self, old: Model, new: Model) -> None:
        axes = [*old.decisions, *old.contexts, *old.observed]
        places = {node.name: i for i, node in enumerate(axes)}
        self._columns: list[tuple[int, Ints]] = []  # of a node of the new model: a column, and what its numbers become
        for node in (*new.decisions, *new.contexts, *new.observed):
            if node.name in places:
                own = axes[places[node.name]]
                numbers = [*(GONE if (at := node.index(v)) is None else at for v in own.values), -1]
                self._columns.append((places[node.name], np.array(numbers, np.int64)))
            else:
                self._columns.append((-1, np.array([-1 if node.kind == "observed" else GONE], np.int64)))

    def of_rounds(self, rounds: Ints) -> Ints:
        """Return the rounds that the other model can have, one per row."""
        nothing = np.zeros(len(rounds), np.int64)
        columns = [table[rounds[:, column] if column >= 0 else nothing] for column, table in self._columns]
        rows = np.stack(columns, axis=1) if columns else np.empty((len(rounds), 0), np.int64)
        return np.asarray(rows[(rows != GONE).all(axis=1)])
