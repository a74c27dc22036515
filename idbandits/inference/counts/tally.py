"""Tally: keys of 32-bit integers with weights, in a hash table that grows.

The key of a factor is the number of its shape and its arguments. Most rounds of large logs have a factor that no other
round has, so a tally needs few bytes for each: about 30 beside the key.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import FLOATS, INTS, kernel, unmanaged

ShortInts = npt.NDArray[np.int32]
SHORT_INTS = types.int32[::1]
USED, FILLED = range(2)  # in the header: keys, numbers of all keys
FIRST_ROOM = 1024  # keys


class Tally(NamedTuple):
    """Keys with weights."""

    header: Ints
    table: ShortInts  # the hash table: numbers of keys, -1 where it is empty; its length is a power of two
    starts: Ints  # of a key: where it begins in the pool; of the last one, also where it ends
    weights: Floats  # of a key
    pool: ShortInts

    @property
    def used(self) -> int:
        """Return the number of keys."""
        return int(self.header[USED])

    def columns(self) -> tuple[Ints, Floats, ShortInts]:
        """Return starts, weights and pool of the keys: views."""
        used = self.used
        return self.starts[: used + 1], self.weights[:used], self.pool[: int(self.header[FILLED])]


TALLY = types.NamedTuple([INTS, SHORT_INTS, INTS, FLOATS, SHORT_INTS], Tally)


def new_tally(keys: int = FIRST_ROOM, numbers: int = 8 * FIRST_ROOM) -> Tally:
    """Return an empty tally with room for keys, and for all their numbers."""
    places = 1 << max(4, (2 * keys - 1).bit_length())
    return Tally(
        np.zeros(2, np.int64), np.full(places, -1, np.int32), np.zeros(keys + 1, np.int64), np.empty(keys),
        np.empty(numbers, np.int32),
    )  # fmt: skip


def grown(tally: Tally, keys: int, numbers: int) -> Tally:
    """Return the tally with room for as many further keys and numbers; arrays grow by half at least."""
    used, filled = tally.header.tolist()
    starts, weights, table, pool = tally.starts, tally.weights, tally.table, tally.pool
    if used + keys > len(weights):
        room = max(used + keys, len(weights) * 3 // 2)
        starts, weights = _lengthened(starts, room + 1, used + 1), _lengthened(weights, room, used)
    if filled + numbers > len(pool):
        pool = _lengthened(pool, max(filled + numbers, len(pool) * 3 // 2), filled)
    if 3 * (used + keys) > 2 * len(table):
        table = np.full(1 << (2 * (used + keys) - 1).bit_length(), -1, np.int32)
    larger = Tally(tally.header, table, starts, weights, pool)
    if table is not tally.table:
        fill_table(larger)
    return larger


def _lengthened(column: Any, length: int, used: int) -> Any:
    longer = np.empty(length, column.dtype)
    longer[:used] = column[:used]
    return longer


@unmanaged
def place_of(tally: Tally, key: ShortInts, first: int, size: int) -> int:
    """Return the place of the key `key[first : first + size]` in the hash table; if that is empty, the key is new."""
    mixed = np.uint64(14695981039346656037)
    for i in range(first, first + size):
        mixed = (mixed ^ np.uint64(key[i] + 2)) * np.uint64(1099511628211)
        mixed ^= mixed >> np.uint64(29)
    last = np.uint64(len(tally.table) - 1)
    place = np.int64(mixed & last)
    while tally.table[place] >= 0:
        own = tally.table[place]
        start = tally.starts[own]
        if tally.starts[own + 1] - start == size:
            i = 0
            while i < size and tally.pool[start + i] == key[first + i]:
                i += 1
            if i == size:
                break
        place = np.int64(np.uint64(place + 1) & last)
    return int(place)


@unmanaged
def add_key(tally: Tally, key: ShortInts, first: int, size: int, weight: float) -> None:
    """Add weight to a key, which is inserted if it is new; the tally has room for it."""
    place = place_of(tally, key, first, size)
    own = tally.table[place]
    if own >= 0:
        tally.weights[own] += weight
        return
    number, start = tally.header[USED], tally.header[FILLED]
    tally.table[place] = number
    for i in range(size):
        tally.pool[start + i] = key[first + i]
    tally.starts[number + 1] = start + size
    tally.weights[number] = weight
    tally.header[USED] = number + 1
    tally.header[FILLED] = start + size


@kernel(types.void(TALLY))
def fill_table(tally: Tally) -> None:
    """Fill the empty hash table of a tally, whose keys are different."""
    for number in range(tally.header[USED]):
        start = tally.starts[number]
        tally.table[place_of(tally, tally.pool, start, tally.starts[number + 1] - start)] = number


@kernel(types.void(TALLY, INTS, FLOATS, SHORT_INTS, INTS, types.float64))
def add_keys(tally: Tally, starts: Ints, weights: Floats, pool: ShortInts, numbers: Ints, factor: float) -> None:
    """Add keys with weights times `factor`; `numbers` replaces the first number of each key, unless it is empty."""
    size = 0
    for g in range(len(weights)):
        size = max(size, starts[g + 1] - starts[g])
    key = np.empty(size, np.int32)
    for g in range(len(weights)):
        start, length = starts[g], starts[g + 1] - starts[g]
        for i in range(length):
            key[i] = pool[start + i]
        if len(numbers) > 0:
            key[0] = numbers[key[0]]
        add_key(tally, key, 0, length, factor * weights[g])


def added(tally: Tally, other: Tally, numbers: Ints, factor: float = 1.0) -> Tally:
    """Return a tally, changed in place or larger, with the keys of another one, whose shapes get other numbers."""
    starts, weights, pool = other.columns()
    tally = grown(tally, len(weights), len(pool))
    add_keys(tally, starts, weights, pool, numbers, factor)
    return tally


def copied(tally: Tally) -> Tally:
    """Return a copy that can be changed independently."""
    return Tally(**{name: column.copy() for name, column in tally._asdict().items()})
