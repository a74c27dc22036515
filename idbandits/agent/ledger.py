"""What the latest rounds added to a belief that keeps no rounds, so that they can be taken back.

Where contexts have features, every round is different: what it says is added to natural parameters (pseudo-counts,
precisions and shifts) and is not kept. These are sums over rounds, and all of a round fades alike. So a round is taken
back by subtracting what it added, as far as that has not faded.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from idbandits.errors import FormatError
from idbandits.kernel.types import Floats, Ints

ROOM = 65_536  # rounds that can be taken back: the latest ones
FEW = 256  # rounds that memory is taken for at first
KEY = 16  # bytes
MOST_ADDED = 1e12  # either way
MOST_TICK = 2**62

Keys = npt.NDArray[np.uint8]


class Added(NamedTuple):
    """What a round added: entries of a state, and for each the numbers of `sites.learn_request`."""

    entries: Ints
    values: Floats
    tick: int  # of the learner's clock when the round was learned


class Columns(NamedTuple):
    """All rounds of a ledger, as files hold them."""

    keys: Keys  # one row per round
    requests: Floats  # one row per round
    times: Floats  # when rounds were played, NaN where that does not matter
    ticks: Ints
    sizes: Ints  # of a round: how many entries it is about
    entries: Ints
    values: Floats  # four per entry


@final
class Ledger:
    """The latest rounds, by keys that say what was done and seen, and features of contexts."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._rounds: dict[int, tuple[bytes, Floats, float, Added]] = {}  # by their numbers, in order
        self._places: dict[bytes, list[int]] = {}  # the numbers of rounds with a key
        self._next = 0
        self._shared = False

    def __len__(self) -> int:
        return len(self._rounds)

    def copy(self) -> Ledger:
        """Return a copy that can be changed independently; what both have is copied when one of them changes."""
        other = Ledger(self.width)
        other._rounds, other._places, other._next = self._rounds, self._places, self._next
        self._shared = other._shared = True
        return other

    def _own(self) -> None:
        if self._shared:
            self._rounds = dict(self._rounds)
            self._places = {key: list(numbers) for key, numbers in self._places.items()}
            self._shared = False

    def add(self, key: bytes, request: Floats, time: float, added: Added) -> None:
        """Note what a round added."""
        self._own()
        self._rounds[self._next] = key, self._padded(request), time, added
        self._places.setdefault(key, []).append(self._next)
        self._next += 1
        if len(self._rounds) > ROOM:
            self._remove(next(iter(self._rounds)))

    def _padded(self, request: Floats) -> Floats:
        """Return a request with zeros for contexts that only tables of earlier diagrams depend on."""
        return request if len(request) == self.width else np.pad(request, (0, self.width - len(request)))

    def _remove(self, number: int) -> Added:
        key, _, _, added = self._rounds.pop(number)
        places = self._places[key]
        places.remove(number)
        if not places:
            del self._places[key]
        return added

    def take(self, key: bytes, request: Floats, time: float) -> Added | None:
        """Remove the latest round with this key and request, and time if that is a number; None if there is none."""
        request = self._padded(request)
        for number in reversed(self._places.get(key, ())):
            _, other, own_time, _ = self._rounds[number]
            if np.array_equal(other, request) and (np.isnan(time) or own_time == time):
                self._own()
                return self._remove(number)
        return None

    def since(self, tick: int) -> Ledger:
        """Return a ledger of the rounds that were learned since a step of the clock."""
        other = Ledger(self.width)
        for key, request, time, added in self._rounds.values():
            if added.tick >= tick:
                other.add(key, request, time, added)
        return other

    def entries(self) -> Ints:
        """Return all entries that rounds are about."""
        own = (added.entries for _, _, _, added in self._rounds.values())
        return np.unique(np.concatenate([np.empty(0, np.int64), *own]))

    def moved(self, places: Ints, columns: Ints) -> Ledger:
        """Return a ledger for other entries and features: -1 where there is no place, or no column."""
        other = Ledger(len(columns))
        for key, request, time, (entries, values, tick) in self._rounds.values():
            at = places[entries]
            vector = np.where(columns >= 0, request[columns], 0.0) if len(request) else np.zeros(len(columns))
            other.add(key, vector, time, Added(at[at >= 0], values[at >= 0], tick))
        return other

    def to_columns(self) -> Columns:
        """Return all rounds as columns."""
        rounds, number = list(self._rounds.values()), len(self._rounds)
        added = [own for _, _, _, own in rounds]
        keys = np.frombuffer(b"".join(key for key, _, _, _ in rounds), np.uint8).reshape(number, KEY)
        requests = np.array([request for _, request, _, _ in rounds]).reshape(number, self.width)
        return Columns(
            keys.copy(), requests, np.array([time for _, _, time, _ in rounds], np.float64),
            np.array([own.tick for own in added], np.int64), np.array([len(own.entries) for own in added], np.int64),
            np.concatenate([np.empty(0, np.int64), *(own.entries for own in added)]),
            np.concatenate([np.empty((0, 4)), *(own.values for own in added)]),
        )  # fmt: skip

    @staticmethod
    def from_columns(columns: Columns, width: int, learned: int) -> Ledger:
        """Return a ledger from columns of a file, of which every number is validated."""
        number, total = len(columns.keys), int(columns.sizes.sum())
        shapes = [column.shape for column in columns]
        wanted = [(number, KEY), (number, width), (number,), (number,), (number,), (total,), (total, 4)]
        if shapes != wanted or number > ROOM:
            raise FormatError(f"the rounds that can be taken back have the shapes {shapes}, not {wanted}")
        if (columns.sizes < 0).any() or not ((columns.entries >= 0) & (columns.entries < learned)).all():
            raise FormatError("the rounds that can be taken back are about entries that the diagram does not have")
        if not ((np.abs(columns.values) <= MOST_ADDED).all() and (np.abs(columns.requests) <= MOST_ADDED).all()):
            raise FormatError(f"what rounds added must be numbers from {-MOST_ADDED:g} to {MOST_ADDED:g}")
        if np.isinf(columns.times).any() or (columns.values[:, [0, 2]] < -MOST_ADDED).any():
            raise FormatError("the times of rounds that can be taken back are not finite")
        ledger, ends = Ledger(width), np.cumsum(columns.sizes).tolist()
        for i, (key, end) in enumerate(zip(columns.keys, ends, strict=True)):
            own = slice(end - int(columns.sizes[i]), end)
            added = Added(columns.entries[own].copy(), columns.values[own].copy(), int(columns.ticks[i]))
            ledger.add(key.tobytes(), columns.requests[i].copy(), float(columns.times[i]), added)
        return ledger
