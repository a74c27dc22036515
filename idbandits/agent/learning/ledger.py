"""Contributions of the latest rounds to a belief that keeps no rounds, so that they can be removed.

Where contexts have features, every round is different: what it says is added to natural parameters (pseudo-counts,
precisions and shifts) and is not kept. These are sums over rounds, and all of a round fades alike. So a round is taken
back by subtracting what it added, as far as that has not faded.

What a round adds depends on what was known before it. So the rounds that came after a recent one are taken back as
well, and learned again: then the belief is exactly that of an agent that never learned it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, final

import numpy as np
import numpy.typing as npt

from idbandits.errors import FormatError
from idbandits.inference.rounds.round import Round
from idbandits.kernel.array_types import Floats, Ints

ROOM = 16_384  # rounds that can be taken back, the latest ones: about 20 MB with ten positions
RECENT = 256  # rounds after one that is taken back that are learned again; after older ones, all that came stays
KEY = 16  # bytes
MOST_ADDED = 1e12  # either way

Keys = npt.NDArray[np.uint8]


class Added(NamedTuple):
    """Contribution of a round: entries of a state, and for each the numbers of `learn_request`."""

    entries: Ints
    values: Floats
    tick: int  # of the learner's clock when the round was learned


class Home(Protocol):
    """Diagrams in whose numbers a round is, as `agent.encoding.era.Era` is one."""

    @property
    def key(self) -> bytes:
        """The key of the diagrams."""

    def key_of_round(self, round_: Any) -> bytes:
        """Return a key of what was done and seen in a round, by names and labels."""


class Entry(NamedTuple):
    """A round that was learned."""

    home: Home
    round_: Round  # its time is NaN where that does not matter
    added: Added


class _Filed(NamedTuple):
    """The keys of diagrams and of a round, from a file."""

    key: bytes
    round_key: bytes

    def key_of_round(self, round_: Any) -> bytes:
        """Return the key of the round."""
        return self.round_key


class Columns(NamedTuple):
    """All rounds of a ledger, as files hold them."""

    keys: Keys  # one row per round
    eras: Keys  # one row per round
    lengths: Ints  # of a round: how many numbers it has
    numbers: Ints
    requests: Floats  # one row per round
    times: Floats
    ticks: Ints
    sizes: Ints  # of a round: how many entries it is about
    entries: Ints
    values: Floats  # four per entry


@final
class Ledger:
    """The latest rounds, in the order in which they were learned. They are indexed when the first one is taken."""

    def __init__(self, width: int) -> None:
        self.width = width  # of requests
        self._rounds: dict[int, Entry] = {}  # by their numbers, in order
        self._next = 0  # number
        self._places: dict[bytes, list[int]] = {}  # the numbers of rounds with a key
        self._keys: dict[int, bytes] = {}  # of rounds that are indexed
        self._shared = False

    def __len__(self) -> int:
        return len(self._rounds)

    def copy(self) -> Ledger:
        """Return a copy that can be changed independently; what both have is copied when one of them changes."""
        other = Ledger(self.width)
        other._rounds, other._next, other._places, other._keys = self._rounds, self._next, self._places, self._keys
        self._shared = other._shared = True
        return other

    def _own(self) -> None:
        if self._shared:
            self._rounds, self._keys = dict(self._rounds), dict(self._keys)
            self._places = {key: list(numbers) for key, numbers in self._places.items()}
            self._shared = False

    def __reduce__(self) -> Any:
        return Ledger._of_columns, (self.to_columns(), self.width)

    def add(self, entry: Entry) -> None:
        """Note a round that was learned."""
        if self._shared:
            self._own()
        self._rounds[self._next] = entry
        self._next += 1
        if len(self._rounds) > ROOM:
            self._remove(next(iter(self._rounds)))

    def _remove(self, number: int) -> Entry:
        if (key := self._keys.pop(number, None)) is not None:
            places = self._places[key]
            places.remove(number)
            if not places:
                del self._places[key]
        return self._rounds.pop(number)

    def _index(self) -> None:
        """Index the rounds that are new."""
        for number in reversed(self._rounds):
            if number in self._keys:
                break
            entry = self._rounds[number]
            key = self._keys[number] = entry.home.key_of_round(entry.round_)
            self._places.setdefault(key, []).append(number)
        for places in self._places.values():
            places.sort()

    def _padded(self, request: Floats) -> Floats:
        """Return a request with zeros for contexts that only tables of earlier diagrams depend on."""
        return request if len(request) == self.width else np.pad(request, (0, self.width - len(request)))

    def take(self, key: bytes, features: Floats, time: float) -> tuple[Entry, list[Entry]] | None:
        """Remove the latest round with this key and these features, and time if that is a number.

        Return it, and the rounds that were learned after it if these are few, which are removed as well; None if there
        is no such round.
        """
        self._own()
        self._index()
        features = self._padded(features)
        for number in reversed(self._places.get(key, ())):
            entry = self._rounds[number]
            is_same = np.array_equal(self._padded(entry.round_.features), features)
            if is_same and (np.isnan(time) or entry.round_.time == time):
                later = list[int]()
                for other in reversed(self._rounds):
                    if other == number:
                        return self._remove(number), [self._remove(k) for k in reversed(later)]
                    if len(later) == RECENT:
                        break
                    later.append(other)
                return self._remove(number), []
        return None

    def since(self, tick: int) -> Ledger:
        """Return a ledger of the rounds that were learned since a step of the clock."""
        other = Ledger(self.width)
        for entry in self._rounds.values():
            if entry.added.tick >= tick:
                other.add(entry)
        return other

    def entries(self) -> Ints:
        """Return all entries that rounds are about."""
        own = (entry.added.entries for entry in self._rounds.values())
        return np.unique(np.concatenate([np.empty(0, np.int64), *own]))

    def moved(self, places: Ints, columns: Ints) -> Ledger:
        """Return a ledger for other entries and features: -1 where there is no place, or no column."""
        other, is_same = Ledger(len(columns)), np.array_equal(columns, np.arange(self.width))
        for entry in self._rounds.values():
            at, round_ = places[entry.added.entries], entry.round_
            if not is_same:
                request = self._padded(round_.features)
                vector = np.where(columns >= 0, request[columns], 0.0) if len(request) else np.zeros(len(columns))
                round_ = round_._replace(features=vector)
            added = Added(at[at >= 0], entry.added.values[at >= 0], entry.added.tick)
            other.add(entry._replace(round_=round_, added=added))
        return other

    def to_columns(self) -> Columns:
        """Return all rounds as columns."""
        rounds = list(self._rounds.values())
        numbers = [np.append(entry.round_.action, entry.round_.seen) for entry in rounds]
        keys, eras = (
            np.frombuffer(b"".join(texts), np.uint8).reshape(len(rounds), KEY).copy()
            for texts in (
                [entry.home.key_of_round(entry.round_) for entry in rounds], [entry.home.key for entry in rounds]
            )
        )  # fmt: skip
        return Columns(
            keys, eras, _integers([len(own) for own in numbers]), np.concatenate([np.empty(0, np.int64), *numbers]),
            np.array([self._padded(entry.round_.features) for entry in rounds]).reshape(len(rounds), self.width),
            np.array([entry.round_.time for entry in rounds], np.float64),
            _integers([entry.added.tick for entry in rounds]),
            _integers([len(entry.added.entries) for entry in rounds]),
            np.concatenate([np.empty(0, np.int64), *(entry.added.entries for entry in rounds)]),
            np.concatenate([np.empty((0, 4)), *(entry.added.values for entry in rounds)]),
        )  # fmt: skip

    @staticmethod
    def from_columns(columns: Columns, width: int, learned: int) -> Ledger:
        """Return a ledger from columns of a file, of which every number is validated.

        Whether rounds are those of a diagram is checked when they are learned again.
        """
        number = len(columns.keys)
        if number > ROOM or (columns.sizes < 0).any() or (columns.lengths < 0).any():
            raise FormatError(f"at most {ROOM} rounds can be taken back, of sizes from 0; there are {number}")
        total, numbers = int(columns.sizes.sum()), int(columns.lengths.sum())
        wanted = [
            (number, KEY), (number, KEY), (number,), (numbers,), (number, width), (number,), (number,), (number,),
            (total,), (total, 4),
        ]  # fmt: skip
        shapes = [column.shape for column in columns]
        if shapes != wanted:
            raise FormatError(f"the rounds that can be taken back have the shapes {shapes}, not {wanted}")
        if not ((columns.entries >= 0) & (columns.entries < learned)).all():
            raise FormatError("the rounds that can be taken back are about entries that the diagram does not have")
        if not ((np.abs(columns.values) <= MOST_ADDED).all() and (np.abs(columns.requests) <= MOST_ADDED).all()):
            raise FormatError(f"what rounds added must be numbers from {-MOST_ADDED:g} to {MOST_ADDED:g}")
        if np.isinf(columns.times).any():
            raise FormatError("the times of rounds that can be taken back must be finite")
        return Ledger._of_columns(columns, width)

    @staticmethod
    def _of_columns(columns: Columns, width: int) -> Ledger:
        ledger, first, start = Ledger(width), 0, 0
        for i in range(len(columns.keys)):
            own, lines = slice(first, first + int(columns.lengths[i])), slice(start, start + int(columns.sizes[i]))
            first, start = own.stop, lines.stop
            added = Added(columns.entries[lines].copy(), columns.values[lines].copy(), int(columns.ticks[i]))
            home = _Filed(columns.eras[i].tobytes(), columns.keys[i].tobytes())
            numbers, features = columns.numbers[own].copy(), columns.requests[i].copy()
            round_ = Round(numbers, np.empty(0, np.int64), features, float(columns.times[i]))
            ledger.add(Entry(home, round_, added))
        return ledger


def _integers(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)
