"""Grouped counts: how often each distinct choice and observation of a part occurred, in a growing hash table.

The state of an agent is two flat arrays. Both begin the same way for every inference:

    ints    HEADER numbers, then (where rounds are kept) a hash table, keys and counts of the groups
    floats  the pseudo-counts that actions are drawn from, FIGURES numbers, what the inference needs, and what it
            needs for every group
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from idbandits.circuit.passes import Circuit
from idbandits.errors import IdbanditsError
from idbandits.inference.evidence import (
    GENERIC,
    ROUNDING,
    TINY,
    Parts,
    expect,
    locate,
    log_weigh,
    put,
    rise,
    rise_and_fall_in_logs,
    take,
    weigh_slots,
)  # fmt: skip
from idbandits.kernel.compiling import bare, compiled, inlined, merged, part
from idbandits.kernel.types import Floats, Ints

# ints
MEANS_GIVEN, ROUNDS, USED, CAPACITY, PER_ROUND, WIDTH, EACH, BEFORE, SETTING = 0, 1, 2, 3, 4, 5, 6, 7, 8
HEADER = 16
FIGURES = 4  # floats after the pseudo-counts: settings and results of the inference

DONE, IMPOSSIBLE, AMBIGUOUS, UNKNOWN = 0, 1, 2, 3  # what `absorb` says


class State(NamedTuple):
    """All that an agent has learned."""

    ints: Ints
    floats: Floats


def coded(setting: str, given: Any, codes: Mapping[str, int]) -> int:
    """The number that stands for a word in the state."""
    if not isinstance(given, str) or given not in codes:
        raise IdbanditsError(f"{setting} is one of {', '.join(map(repr, codes))}, not {given!r}")
    return codes[given]


def no_groups(floats: Floats, settings: tuple[int, ...] = ()) -> State:
    """The state of an inference that keeps no rounds."""
    ints = np.zeros(HEADER, np.int64)
    ints[SETTING : SETTING + len(settings)] = settings
    return State(ints, floats)


def with_groups(floats: Floats, parts: int, width: int, each: int, settings: tuple[int, ...] = ()) -> State:
    """The state of an inference that keeps groups, `each` floats beside every group."""
    ints = np.zeros(HEADER, np.int64)
    ints[[PER_ROUND, WIDTH, EACH, BEFORE]] = parts, width, each, len(floats)
    ints[SETTING : SETTING + len(settings)] = settings
    return grown(State(ints, floats))


def is_full(ints: Ints) -> bool:
    """Whether another round might not fit."""
    return bool(ints[USED] + ints[PER_ROUND] > ints[CAPACITY])


def grown(state: State) -> State:
    """The same state with room for twice as many groups."""
    old, floats = state
    used, width = int(old[USED]), int(old[WIDTH])
    capacity = max(64, 2 * int(old[CAPACITY]), 2 * int(old[PER_ROUND]))
    ints = np.zeros(HEADER + capacity * (3 + width), np.int64)
    ints[:HEADER] = old[:HEADER]
    ints[CAPACITY] = capacity
    ints[HEADER : HEADER + 2 * capacity] = -1
    if used:
        keys, counts = keys_at(old), counts_at(old)
        ints[keys_at(ints) : keys_at(ints) + used * width] = old[keys : keys + used * width]
        ints[counts_at(ints) : counts_at(ints) + used] = old[counts : counts + used]
        rehash(ints)
    before = int(old[BEFORE])
    more = np.zeros(before + capacity * int(old[EACH]))
    more[: min(len(floats), len(more))] = floats[: len(more)]
    return State(ints, more)


@inlined
def keys_at(ints: Ints) -> int:
    """Where the keys begin."""
    return HEADER + 2 * ints[CAPACITY]


@inlined
def counts_at(ints: Ints) -> int:
    """Where the counts begin."""
    return HEADER + (2 + ints[WIDTH]) * ints[CAPACITY]


@merged
def find(ints: Ints, key: Ints) -> int:
    """The group with a key, or where in the hash table it would be: -1 - place."""
    size, width, keys = 2 * ints[CAPACITY], ints[WIDTH], HEADER + 2 * ints[CAPACITY]
    mixed = np.uint64(14695981039346656037)
    for i in range(width):
        mixed = (mixed ^ np.uint64(key[i] + 2)) * np.uint64(1099511628211)
        mixed ^= mixed >> np.uint64(29)
    place: int = np.int64(mixed % np.uint64(size))  # type: ignore[assignment]  # not unsigned, for Numba
    while True:
        group = ints[HEADER + place]
        if group < 0:
            return -1 - place
        equal = True
        for i in range(width):
            if ints[keys + group * width + i] != key[i]:
                equal = False
                break
        if equal:
            return group
        place += 1
        if place == size:
            place = 0


@compiled
def rehash(ints: Ints) -> None:
    """Fill the hash table from the keys."""
    width, keys = ints[WIDTH], HEADER + 2 * ints[CAPACITY]
    for group in range(ints[USED]):
        place = -1 - find(ints, ints[keys + group * width : keys + (group + 1) * width])
        ints[HEADER + place] = group


@bare
def insert(ints: Ints, key: Ints) -> int:
    """The group with a key, made if it is new."""
    group = find(ints, key)
    if group >= 0:
        return group
    place = -1 - group
    group = ints[USED]
    ints[HEADER + place] = group
    at = HEADER + 2 * ints[CAPACITY] + group * ints[WIDTH]
    for i in range(ints[WIDTH]):
        ints[at + i] = key[i]
    ints[USED] += 1
    return group


class Room(NamedTuple):
    """Scratch arrays of a pass."""

    key: Ints
    action: Ints
    entries: Ints  # a slot
    same: Ints  # a node; zero between passes
    marks: Ints  # three numbers a slot
    visits: Ints  # three numbers a node
    weights: Floats  # a slot
    counts: Floats  # a slot
    values: Floats  # a node
    slopes: Floats  # a node
    more: Floats  # three numbers a slot
    fresh: Floats  # a learned entry
    other: Floats  # a learned entry


@part
def scratch(h: Ints) -> tuple[Ints, Floats]:
    """Two arrays that hold a `Room`; made where references are counted, used where they are not.

    So every inference has a compiled `learn` that makes them and a bare one that does the work. They are written out
    each time because Numba keeps no closures over compiled functions on disk.
    """
    nodes, slots, width, learned, axes = h[0] + h[1], h[2], h[15], h[16], h[17]
    return np.zeros(width + axes + 4 * slots + 4 * nodes, np.int64), np.empty(5 * slots + 2 * nodes + 2 * learned)


@merged
def room_in(c: Circuit, v: Parts, whole: Ints, real: Floats) -> Room:
    """The parts of scratch arrays."""
    nodes, slots = c.leaves + c.inner, c.slots
    a = v.width + v.axes
    b = a + 4 * slots
    d = 5 * slots + 2 * nodes
    return Room(
        whole[: v.width],
        whole[v.width : a],
        whole[a : a + slots],
        whole[b : b + nodes],
        whole[a + slots : b],
        whole[b + nodes :],
        real[:slots],
        real[slots : 2 * slots],
        real[2 * slots : 2 * slots + nodes],
        real[2 * slots + nodes : 2 * slots + 2 * nodes],
        real[2 * slots + 2 * nodes : d],
        real[d : d + v.learned],
        real[d + v.learned :],
    )


@merged
def put_in(target: Floats, source: Floats) -> None:
    """Copy numbers into an array of the same size."""
    for i in range(len(target)):
        target[i] = source[i]


@bare
def is_possible(c: Circuit, v: Parts, numbers: Floats, j: int, room: Room) -> bool:
    """Whether the diagram gives a part of a round a positive probability, for some means; the part's key is in room."""
    take(v, room.key, 0, room.action, room.values)
    locate(c, v, j, room.action, room.entries)
    weigh_slots(v, j, GENERIC, numbers, numbers, numbers, room.entries, room.weights)
    if rise(c, v, j, room.weights, room.values, room.same) > TINY:
        return True
    root = rise_and_fall_in_logs(
        c, v, j, GENERIC, numbers, numbers, numbers, room.entries, room.weights, room.values,
        room.same, room.slopes, room.counts,
    )  # fmt: skip
    return root > -np.inf


@bare
def can_be_seen(c: Circuit, v: Parts, numbers: Floats, action: Ints, seen: Ints, room: Room) -> bool:
    """Whether the diagram gives a whole round a positive probability, for some means."""
    for j in range(v.parts):
        put(v, j, action, seen, room.key, 0)
        if not is_possible(c, v, numbers, j, room):
            return False
    return True


@bare
def uses(c: Circuit, v: Parts, numbers: Floats, key: Ints, room: Room) -> tuple[bool, float]:
    """Whether what a part of a round says is a single product of table entries; room has its uses of them.

    Also the logarithm of the constant that it is multiplied with: minus infinity if this cannot be seen.
    """
    j = key[0]
    constant = expect(
        c, v, GENERIC, key, 0, numbers, numbers, numbers, room.action, room.entries, room.weights, room.values,
        room.same, room.slopes, room.counts,
    )  # fmt: skip
    single = True
    if constant == -np.inf:
        return True, constant
    for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
        slot = v.data[v.use + t]
        if room.entries[slot] < v.learned:
            whole = np.floor(room.counts[slot] + 0.5)
            single &= abs(room.counts[slot] - whole) <= ROUNDING
            room.counts[slot] = whole
            if whole > 0.0:
                constant -= whole * log_weigh(v, GENERIC, room.entries[slot], numbers, numbers, numbers)
    return single, constant


@bare
def add_uses(v: Parts, j: int, times: float, room: Room, alpha: Floats) -> None:
    """Add the uses of a part's slots to pseudo-counts."""
    for t in range(v.data[v.use_start + j], v.data[v.use_start + j + 1]):
        slot = v.data[v.use + t]
        if room.entries[slot] < v.learned:
            alpha[room.entries[slot]] += times * room.counts[slot]


@bare
def is_below(v: Parts, prior: Floats, base: Floats) -> bool:
    """Whether pseudo-counts are below the prior: more was taken back than was learned."""
    below = False
    for e in range(v.learned):
        below |= base[e] < prior[e] * (1 - ROUNDING) - ROUNDING
    return below


@bare
def refusal(c: Circuit, v: Parts, numbers: Floats, ints: Ints, action: Ints, seen: Ints, times: int, room: Room) -> int:
    """Why a round cannot be filed, or DONE if it can, as far as can be said before."""
    if ints[ROUNDS] + times < 0:
        return UNKNOWN
    for j in range(v.parts):
        put(v, j, action, seen, room.key, 0)
        group = find(ints, room.key)
        if group >= 0:
            if ints[HEADER + (2 + ints[WIDTH]) * ints[CAPACITY] + group] + times < 0:
                return UNKNOWN
        elif not is_possible(c, v, numbers, j, room):
            return IMPOSSIBLE
        elif times < 0:
            single, _ = uses(c, v, numbers, room.key, room)
            if not single:
                return UNKNOWN
    return DONE


@bare
def file(
    c: Circuit, v: Parts, numbers: Floats, ints: Ints, base: Floats, action: Ints, seen: Ints, times: int, room: Room
) -> float:
    """Count a round: what is determined is added to `base`, the rest to its group.

    Returns the logarithm of the constant factors of what is determined.
    """
    constants = 0.0
    for j in range(v.parts):
        put(v, j, action, seen, room.key, 0)
        group = find(ints, room.key)
        if group < 0:
            single, constant = uses(c, v, numbers, room.key, room)
            if single:
                add_uses(v, j, times, room, base)
                constants += times * constant
                continue
            group = insert(ints, room.key)
        ints[HEADER + (2 + ints[WIDTH]) * ints[CAPACITY] + group] += times
    ints[ROUNDS] += times
    return constants


@bare
def absorb(
    c: Circuit, v: Parts, numbers: Floats, ints: Ints, base: Floats, action: Ints, seen: Ints, times: int, room: Room
) -> tuple[int, float]:
    """Count a round if it can be; says DONE or why not, and the logarithm of constant factors of what is determined."""
    if times == 0:
        return DONE, 0.0
    status = refusal(c, v, numbers, ints, action, seen, times, room)
    if status != DONE:
        return status, 0.0
    constants = file(c, v, numbers, ints, base, action, seen, times, room)
    if times < 0 and is_below(v, numbers, base):
        file(c, v, numbers, ints, base, action, seen, -times, room)
        return UNKNOWN, 0.0
    return DONE, constants
