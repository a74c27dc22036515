"""Rounds that an agent remembers: a uniform sample of bounded size, by which the fit of its diagram is checked.

All of the first rounds are kept, then a reservoir sample: a new round is kept in place of any other, with a probability
that leaves all rounds equally likely to be there. Where rounds were taken back there are fewer than the room is for;
then a new round is added with the share of rounds that are kept. Random numbers are hashes of a counter, so that an
agent's own random numbers are not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np
import numpy.typing as npt
from numba import types

from idbandits.agent.encoding.agreement import Translation, nodes_of_round
from idbandits.circuit.model import Model
from idbandits.errors import FormatError
from idbandits.kernel.array_types import Ints
from idbandits.kernel.compile import INTS, inlined, kernel, unmanaged

ROOM = 65_536  # rounds that are kept at most: all of the first ones
LEAST_ROOM = 8192  # rounds, however many numbers each has
NUMBERS = 2**21  # that are kept at most where LEAST_ROOM rounds have fewer: 8 MB
FIRST_ROOM = 64  # rounds that memory is taken for
MOST_COUNT = 2**62
FAR = 1_000_000  # rounds that are looked ahead for the next one to keep
ROWS = types.int32[:, ::1]


def room_for(width: int) -> int:
    """Return how many rounds of `width` numbers are kept at most: a power of two.

    >>> [room_for(width) for width in (2, 20, 50, 10_000)]
    [65536, 65536, 32768, 8192]
    """
    room = ROOM
    while room > LEAST_ROOM and room * width > NUMBERS:
        room //= 2
    return room


@inlined
def hashed(number: np.uint64) -> np.uint64:
    """Mix the bits of a number (splitmix64)."""
    mixed = number * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@inlined
def uniform(draw: int) -> float:
    """Return the random number between 0 and 1 with this number."""
    return np.float64(hashed(np.uint64(draw)) >> np.uint64(11)) * 2.0**-53


@unmanaged
def place_for(draw: int, count: int, kept: int, room: int) -> int:
    """Return where a round that follows `count` others goes among the `kept` ones; -1 if it is not kept."""
    chance = uniform(draw)
    if kept < room:
        return kept if chance * (count + 1) < kept + 1 else -1
    place: int = np.int64(chance * (count + 1))  # type: ignore[assignment]
    return place if place < room else -1


@kernel(types.float64(types.int64))
def chance_of(draw: int) -> float:
    """Return the random number between 0 and 1 with this number, for Python."""
    return uniform(draw)


@kernel(types.int64(types.int64, types.int64, types.int64))
def next_kept(draw: int, count: int, room: int) -> int:
    """Return how many rounds come before the next one that is kept, after `count` rounds; or fewer, if that is far."""
    for ahead in range(FAR):
        if place_for(draw + ahead, count + ahead, room, room) >= 0:
            return count + ahead
    return count + FAR


@kernel(types.int64(ROWS, types.int64, types.int64, types.int64, types.int64, INTS, INTS))
def note(rows: Ints, kept: int, count: int, draw: int, room: int, action: Ints, seen: Ints) -> int:
    """Keep a round or not; return its place or -1."""
    place = place_for(draw, count, kept, room)
    if place >= 0:
        for i in range(len(action)):
            rows[place, i] = action[i]
        for i in range(len(seen)):
            rows[place, len(action) + i] = seen[i]
    return place


@kernel(types.int64(ROWS, types.int64, types.int64, types.int64, types.int64, types.int64[:, ::1]))
def note_all(rows: Ints, kept: int, count: int, draw: int, room: int, rounds: Ints) -> int:
    """Keep some of many rounds; return how many are kept then."""
    for t in range(len(rounds)):
        place = place_for(draw + t, count + t, kept, room)
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
        self.impossible = 0  # rounds that were rejected, because the diagram rules them out
        self.room = room_for(width)
        self._next = 0  # rounds until this many are not kept
        self._draws = 0  # random numbers that were used, besides one for each of these rounds
        self._shared = False  # with a copy: its arrays are copied before they are changed
        self._rows: npt.NDArray[np.int32] = np.empty((0, width), np.int32)

    @property
    def rounds(self) -> Ints:
        """The rounds that are kept, one per row."""
        return self._rows[: self.kept].astype(np.int64)

    def add(self, action: Ints, seen: Ints) -> None:
        """Note a round that was learned from."""
        if self.count >= self._next:  # after many rounds, that is rare
            self._keep(action, seen)
        self.count += 1

    def _keep(self, action: Ints, seen: Ints) -> None:
        if self._shared or self.kept == len(self._rows) < self.room:
            self._make_room(2 * self.kept)
        draw = self.count + self._draws
        place = note.entry(self._rows, self.kept, self.count, draw, self.room, action, seen)
        self.kept = max(self.kept, place + 1)
        if self.kept == self.room:
            self._next = next_kept(draw + 1, self.count + 1, self.room)

    def add_many(self, rounds: Ints) -> None:
        """Note many rounds, one per row."""
        self._make_room(self.kept + len(rounds))
        draw = self.count + self._draws
        self.kept = note_all(self._rows, self.kept, self.count, draw, self.room, rounds)
        self.count += len(rounds)
        self._next = 0

    def replace(self, old: Ints, new: Ints | None) -> None:
        """Put one round in place of another, or take it back.

        As long as all rounds are kept, it is replaced there; nothing changes if it is none of them. Of a sample, one of
        the rounds like it is taken out with the probability that it was the one, by an estimate of how many there are
        in all. The new one is kept or not like any other round: outcomes that are reported late are as likely to be
        there as those that are reported early.
        """
        like, every = self._places_of(old), self.kept == self.count
        if every and not len(like):
            return
        self._make_room(self.kept)
        self._next = 0
        if every and new is not None:
            self._rows[like[-1]] = new
            return
        share, chance = self.kept / self.count, chance_of(self.count + self._draws)
        if len(like) and chance * (1 + (len(like) - 1) / share) < len(like):
            self.kept -= 1
            self._rows[like[-1]] = self._rows[self.kept]
        self.count, self._draws = self.count - 1, self._draws + 2  # one random number was used, for one round less
        if new is not None:
            self.add(np.asarray(new, np.int64), np.empty(0, np.int64))

    def _places_of(self, round_: Ints) -> Ints:
        """Return where a round is kept."""
        places = np.arange(self.kept)
        for column, number in zip(self._rows.T, round_.tolist(), strict=True):
            places = places[column[places] == number]
        return places

    def _make_room(self, wanted: int) -> None:
        """Make room for this many rounds, and copy what is shared."""
        room = min(max(wanted, FIRST_ROOM), self.room)
        if self._shared or len(self._rows) < room:
            rows = np.empty((room, self._rows.shape[1]), np.int32)
            rows[: self.kept] = self._rows[: self.kept]
            self._rows, self._shared = rows, False

    def copy(self) -> Sample:
        """Return an independent copy; the rounds are copied when one of both is changed."""
        other = Sample(self._rows.shape[1])
        self._shared = True
        vars(other).update(vars(self))
        return other

    def moved(self, old: Model, new: Model) -> Sample:
        """Return a sample of the rounds that another model can have as well, by names and labels."""
        return self.renumbered(Translation(old, new).of_rounds)

    def renumbered(self, of_rounds: Callable[[Ints], Ints]) -> Sample:
        """Return a sample of translated rounds, which may be fewer."""
        rows = of_rounds(self.rounds)
        other = Sample(rows.shape[1])
        other.impossible = self.impossible
        other.count = self.count if len(rows) == self.kept else self.count * len(rows) // self.kept
        other._take(rows.astype(np.int32))
        return other

    def _take(self, rows: npt.NDArray[np.int32]) -> None:
        """Replace the rounds by these, or the first of them that there is room for."""
        self._rows = np.ascontiguousarray(rows[: self.room])
        self.kept = len(self._rows)

    def to_arrays(self) -> tuple[Ints, npt.NDArray[np.int32]]:
        """Return what files hold: three numbers, and the rounds."""
        return np.array([self.count, self.kept, self.impossible], np.int64), self._rows[: self.kept].copy()

    @staticmethod
    def from_arrays(model: Model, numbers: Ints, rows: npt.NDArray[np.int32]) -> Sample:
        """Return a sample from what a file holds; raise unless its rounds are those of a model."""
        nodes = nodes_of_round(model)
        sample = Sample(len(nodes))
        count, kept, impossible = numbers.tolist()
        if not (0 <= kept <= min(count, sample.room) and impossible >= 0 and max(count, impossible) <= MOST_COUNT):
            raise FormatError(f"the sample must have at most {sample.room} of all rounds, got {kept} of {count}")
        if rows.shape != (kept, len(nodes)):
            raise FormatError(f"the sample of rounds must have the shape {(kept, len(nodes))}, got {rows.shape}")
        least = np.where([node.kind == "observed" for node in nodes], -1, 0)
        wrong = np.argwhere((rows < least) | (rows >= [node.states for node in nodes]))
        if len(wrong):
            round_, k = wrong[0].tolist()
            raise FormatError(f"the sample of rounds: {nodes[k].name!r} cannot be number {rows[round_, k]}")
        sample.count, sample.impossible = count, impossible
        sample._take(rows.copy())
        return sample
