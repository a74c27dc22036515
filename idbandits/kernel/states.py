"""The state of a learner: two flat arrays that kernels change in place, with a growing table of counted groups.

ints    the header; then, where groups are kept: a hash table of their numbers, their keys and their counts
floats  pseudo-counts that actions are drawn from, FIGURES numbers, whatever else the learner needs, and what it
        needs for every group
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.kernel.compiling import INTS, bare, kernel, merged
from idbandits.kernel.fields import pointer
from idbandits.kernel.types import Floats, Ints

# The header of the ints. ACTS_ON_MEANS: whether the floats begin with means to act on, not with pseudo-counts; ROUNDS:
# how many were learned from; USED, CAPACITY: groups there are, and there is room for; PER_ROUND: groups that one round
# may add; WIDTH: of a key; EACH: floats per group; BEFORE: floats before those; SETTING: the first of the settings.
ACTS_ON_MEANS, ROUNDS, USED, CAPACITY, PER_ROUND, WIDTH, EACH, BEFORE, SETTING = range(9)
HEADER = 16
FIGURES = 4  # floats after the pseudo-counts: settings and results of the learner
LEAST, MOST = 1e-300, 1e300  # of pseudo-counts


class State(NamedTuple):
    """All that a learner has learned."""

    ints: Ints
    floats: Floats

    def copy(self) -> State:
        """The same, to be changed apart."""
        return State(self.ints.copy(), self.floats.copy())

    def has_room(self) -> bool:
        """Whether another round surely fits."""
        return bool(self.ints[USED] + self.ints[PER_ROUND] <= self.ints[CAPACITY])


def no_groups(floats: Floats, settings: tuple[int, ...] = ()) -> State:
    """The state of a learner that keeps no rounds."""
    ints = np.zeros(HEADER, np.int64)
    ints[SETTING : SETTING + len(settings)] = settings
    return State(ints, floats)


def with_groups(floats: Floats, per_round: int, width: int, each: int = 0, settings: tuple[int, ...] = ()) -> State:
    """The state of a learner that keeps groups with keys of `width` numbers, and `each` floats beside every group."""
    state = no_groups(floats, settings)
    state.ints[[PER_ROUND, WIDTH, EACH, BEFORE]] = per_round, width, each, len(floats)
    return grown(state)


def grown(state: State) -> State:
    """The same state with room for twice as many groups."""
    old, floats = state
    used = int(old[USED])
    capacity = max(64, 2 * int(old[CAPACITY]), 2 * int(old[PER_ROUND]))
    ints = np.zeros(HEADER + capacity * (3 + int(old[WIDTH])), np.int64)
    ints[:HEADER] = old[:HEADER]
    ints[CAPACITY] = capacity
    ints[HEADER : HEADER + 2 * capacity] = -1
    if used:
        for column, old_column in zip(group_columns(ints), group_columns(old), strict=True):
            column[:] = old_column
        rehash(ints)
    more = np.zeros(int(old[BEFORE]) + capacity * int(old[EACH]))
    more[: min(len(floats), len(more))] = floats[: len(more)]
    return State(ints, more)


def group_columns(ints: Ints) -> tuple[Ints, Ints]:
    """The keys of the groups, one per row, and how often each was counted: views."""
    capacity, width, used = int(ints[CAPACITY]), int(ints[WIDTH]), int(ints[USED])
    keys, counts = HEADER + 2 * capacity, HEADER + (2 + width) * capacity
    return ints[keys : keys + used * width].reshape(used, width), ints[counts : counts + used]


def counted_groups(state: State) -> dict[tuple[int, ...], int]:
    """The key of each group, and how often it was counted."""
    keys, counts = group_columns(state.ints)
    return dict(zip(map(tuple, keys.tolist()), counts.tolist(), strict=True))


class Groups(NamedTuple):
    """The groups of a state, as kernels see them."""

    header: Ints
    capacity: int
    width: int  # of a key
    table: Ints  # the hash table: numbers of groups, -1 where it is empty
    keys: Ints
    counts: Ints


@merged
def groups_in(ints: Ints) -> Groups:
    """The groups of a state."""
    capacity, width = ints[CAPACITY], ints[WIDTH]
    keys = HEADER + 2 * capacity
    return Groups(
        pointer(ints, 0), capacity, width, pointer(ints, HEADER), pointer(ints, keys),
        pointer(ints, keys + width * capacity),
    )  # fmt: skip


@merged
def place_of(groups: Groups, key: Ints) -> int:
    """Where a key stands in the hash table, or would: then the table is empty there."""
    mixed = np.uint64(14695981039346656037)
    for i in range(groups.width):
        mixed = (mixed ^ np.uint64(key[i] + 2)) * np.uint64(1099511628211)
        mixed ^= mixed >> np.uint64(29)
    size = 2 * groups.capacity
    place: int = np.int64(mixed % np.uint64(size))  # type: ignore[assignment]  # not unsigned, for Numba
    while groups.table[place] >= 0:
        first = groups.table[place] * groups.width
        for i in range(groups.width):
            if groups.keys[first + i] != key[i]:
                break
        else:
            break
        place += 1
        if place == size:
            place = 0
    return place


@bare
def insert(groups: Groups, place: int, key: Ints) -> int:
    """A new group with this key, at its place in the hash table."""
    group = groups.header[USED]
    groups.table[place] = group
    for i in range(groups.width):
        groups.keys[group * groups.width + i] = key[i]
    groups.header[USED] = group + 1
    return group


@kernel(types.int64(INTS))
def rehash(ints: Ints) -> int:
    """Fill the empty hash table from the keys; how many of them are different."""
    groups = groups_in(ints)
    different = 0
    for group in range(ints[USED]):
        place = place_of(groups, pointer(groups.keys, group * groups.width))
        different += groups.table[place] < 0
        groups.table[place] = group
    return different


@merged
def section(floats: Floats, number: int, learned: int) -> Floats:
    """Part of a state's floats, counted in blocks of the learned entries: 0 is what actions are drawn from."""
    return pointer(floats, number * learned + (FIGURES if number > 0 else 0))


@merged
def figures(floats: Floats, learned: int) -> Floats:
    """The figures of a state: settings and results of the learner."""
    return pointer(floats, learned)


@merged
def drawable(pseudo_count: float) -> float:
    """A pseudo-count that draws can be made from, also where rounding made it zero or less, or not a number."""
    return min(pseudo_count, MOST) if pseudo_count > LEAST else LEAST


@merged
def copy(source: Floats, target: Floats, size: int) -> None:
    """Copy numbers."""
    for i in range(size):
        target[i] = source[i]
