"""State of a learner: flat arrays that kernels change in place, with a growing table of counted groups.

ints    the header; the integers that an inference declares; then, where groups are kept: heads of links, a hash table
        of group numbers, where their keys start, their counts, weights and phases (floats, by their bits), and the pool
        that holds the keys, which are of any length; and two more numbers for every number in the pool where keys are
        linked
floats  pseudo-counts that actions are drawn from, the prior, the other sections that an inference declares, and the
        floats beside every number in the pool
fits    regressions of tables with features, where there are such tables: `inference.regression` knows what they are
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import FLOATS, INTS, inlined, kernel, unmanaged
from idbandits.kernel.structs import as_floats, pointer

# The header of the ints. ACTS_ON_MEANS: 1 if the floats begin with means to act on, not with pseudo-counts; ROUNDS: the
# number learned from; USED, CAPACITY: groups there are, and there is room for; FILLED, POOL: the same of numbers in
# keys; PER_ROUND, LONGEST: groups and numbers that one round may add; GROUPS: where the arrays of groups begin; LINKED:
# the number of heads of links, 0 if keys are not linked; EACH: floats per number in the pool; BEFORE: floats before
# those; BASE: where pseudo-counts without latent counts begin; CLOCK: what a learner that forgets tells ages by; STEP,
# HALF_LIFE: of that clock (floats, by their bits); TICK: the step up to which everything learned has faded; ZONE: the
# kind of time zone of all times; NEXT_FIT: the number of rounds at which regressions are fitted next, 0 if there are
# none; PLAYED: the number of rounds ever learned from, including those removed since: the time of a clock by rounds.
(
    ACTS_ON_MEANS, ROUNDS, USED, CAPACITY, FILLED, POOL, PER_ROUND, LONGEST, GROUPS, LINKED, EACH, BEFORE, BASE, CLOCK,
    STEP, HALF_LIFE, TICK, ZONE, NEXT_FIT, PLAYED,
) = range(20)  # fmt: skip
HEADER = 20
NEVER, BY_ROUNDS, BY_TIME = range(3)  # clocks; NEVER: nothing is forgotten
LEAST, MOST = 1e-300, 1e300  # of pseudo-counts
NO_WEIGHT = 1e-9  # of a group: what rounding leaves when all of its rounds are removed
FADED = 1 / 16  # rounds: a group with a smaller weight, rounded to none, is dropped
NO_FITS: Floats = np.empty(0)
NO_INTS: Ints = np.empty(0, np.int64)


class State(NamedTuple):
    """All that a learner has learned, in flat arrays that kernels change in place.

    Attributes
    ----------
    ints : array of int64
        Header, declared integers, and groups.
    floats : array of float64
        Pseudo-counts that actions are drawn from, shape (learned,), the prior, shape (learned,), and other sections.
    fits : array of float64
        Regressions of tables with features.
    int_scratch, float_scratch : array
        Scratch memory of kernels, which files do not contain.

    Examples
    --------
    >>> from idbandits import compile, models
    >>> from idbandits.inference import Exact, beginning, folded
    >>> model = compile(models.semi_bandit(2, 1))
    >>> state = beginning(Exact(), model, model.derived(folded), np.random.default_rng(0))
    >>> state.copy().floats.tolist(), state.has_room(), state.wants_fit()
    ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], True, False)
    """

    ints: Ints
    floats: Floats
    fits: Floats = NO_FITS
    int_scratch: Ints = NO_INTS  # arrays for a workspace, for rounds of one evidence; files do not hold them
    float_scratch: Floats = NO_FITS

    def copy(self) -> State:
        """Return a copy that can be changed independently."""
        arrays = self.ints.copy(), self.floats.copy(), self.fits.copy(), self.int_scratch.copy()
        return State(*arrays, np.empty_like(self.float_scratch))

    def __reduce__(self) -> Any:
        return State, self[:3]  # scratch is not part of what was learned

    def has_room(self) -> bool:
        """Return whether another round surely fits."""
        used, capacity, filled, pool, per_round, longest = self.ints[USED : LONGEST + 1].tolist()
        return bool(used + per_round <= capacity and filled + longest <= pool)

    def wants_fit(self, more: int = 0) -> bool:
        """Return whether regressions are to be fitted, now or after `more` rounds."""
        return bool(0 < self.ints[NEXT_FIT] <= self.ints[ROUNDS] + more)


@inlined
def has_room(ints: Ints) -> bool:
    """Return whether another round surely fits into a state."""
    return bool(ints[USED] + ints[PER_ROUND] <= ints[CAPACITY] and ints[FILLED] + ints[LONGEST] <= ints[POOL])


@inlined
def wants_fit(ints: Ints) -> bool:
    """Return whether regressions are to be fitted."""
    return bool(0 < ints[NEXT_FIT] <= ints[ROUNDS])


def without_groups(floats: Floats, own: Ints) -> State:
    """Return the state of a learner that keeps no rounds; `own` are the integers after the header."""
    return State(np.concatenate([np.zeros(HEADER, np.int64), own]), floats)


def with_groups(floats: Floats, own: Ints, per_round: int, longest: int, each: int = 0, linked: int = 0) -> State:
    """Return the state of a learner that keeps groups: a round adds at most `per_round`, with `longest` numbers.

    There are `each` floats beside every number of their keys.
    """
    state = without_groups(floats, own)
    sizes = per_round, longest, len(state.ints), linked, each, len(floats)
    state.ints[[PER_ROUND, LONGEST, GROUPS, LINKED, EACH, BEFORE]] = sizes
    return grown(state)


def grown(state: State) -> State:
    """Return the state with twice the room: for groups or for their keys if only these lack it, else for both."""
    ints = state.ints
    capacity, pool = int(ints[CAPACITY]), int(ints[POOL])
    groups_fit, keys_fit = ints[USED] + ints[PER_ROUND] <= capacity, ints[FILLED] + ints[LONGEST] <= pool
    if keys_fit or not groups_fit:
        capacity = max(64, 2 * capacity, 2 * int(ints[PER_ROUND]))
    if groups_fit or not keys_fit:
        pool = max(256, 2 * pool, 2 * int(ints[LONGEST]))
    return _resized(state, capacity, pool)


def with_room_for(state: State, groups: int, numbers: int) -> State:
    """Return the state with room for a number of groups, and for the numbers of their keys."""
    old = state.ints
    return _resized(state, max(int(old[CAPACITY]), groups), max(int(old[POOL]), numbers))


def _resized(state: State, capacity: int, pool: int) -> State:
    old, floats = state[:2]
    linked, filled = int(old[LINKED]), int(old[FILLED])
    table = int(old[GROUPS]) + linked
    ints = np.full(table + 6 * capacity + 1 + pool * (3 if linked else 1), -1)
    kept = len(old) if not old[CAPACITY] else table
    ints[:kept] = old[:kept]
    ints[[CAPACITY, POOL]] = capacity, pool
    ints[table + 2 * capacity] = 0  # where the first key starts
    if old[CAPACITY]:
        for column, old_column in zip(group_columns(ints), group_columns(old), strict=True):
            column[:] = old_column
        for back in (2, 1) if linked else ():  # the two columns of links come last
            first, old_first = len(ints) - back * pool, len(old) - back * int(old[POOL])
            ints[first : first + filled] = old[old_first : old_first + filled]
        rehash(ints)
    more = np.zeros(int(old[BEFORE]) + pool * int(old[EACH]))
    more[: min(len(floats), len(more))] = floats[: len(more)]
    return state._replace(ints=ints, floats=more)


STATE = types.NamedTuple([INTS, FLOATS, FLOATS, INTS, FLOATS], State)
NO_STATE = State(NO_INTS, NO_FITS)  # for kernels that need a workspace only


class GroupColumns(NamedTuple):
    """Return the groups of a state: views."""

    starts: Ints  # of the keys in `keys`, then where the last one ends
    counts: Ints  # whole rounds: floor(weight + phase)
    weights: Floats  # rounds that each was counted in, faded ones in part
    phases: Floats  # in [0, 1): by which weights are rounded to counts
    keys: Ints  # one after the other


def group_columns(ints: Ints) -> GroupColumns:
    """Return the groups of a state: views."""
    capacity, used, filled = int(ints[CAPACITY]), int(ints[USED]), int(ints[FILLED])
    starts = int(ints[GROUPS] + ints[LINKED]) + 2 * capacity
    counts = starts + capacity + 1
    weights, phases, keys = (counts + k * capacity for k in (1, 2, 3))
    return GroupColumns(
        ints[starts : starts + used + 1], ints[counts : counts + used],
        ints[weights : weights + used].view(np.float64), ints[phases : phases + used].view(np.float64),
        ints[keys : keys + filled],
    )  # fmt: skip


def counted_groups(state: State) -> dict[tuple[int, ...], int]:
    """Return the count of each group by its key."""
    groups = group_columns(state.ints)
    numbers, ends = groups.keys.tolist(), groups.starts.tolist()
    return {tuple(numbers[ends[g] : ends[g + 1]]): count for g, count in enumerate(groups.counts.tolist())}


class Groups(NamedTuple):
    """The groups of a state, as kernels see them."""

    header: Ints
    heads: Ints  # of links: numbers in the pool, -1 where there are none
    capacity: int
    table: Ints  # the hash table: numbers of groups, -1 where it is empty
    start: Ints  # of a group: where its key starts in the pool
    counts: Ints  # of a group: whole rounds
    weights: Floats  # of a group: rounds, faded ones in part
    phases: Floats  # of a group: floor(weight + phase) is its count
    pool: Ints
    owner: Ints  # of a number in the pool: its group, where keys are linked
    after: Ints  # of a number in the pool: what it is linked to


@inlined
def groups_in(ints: Ints) -> Groups:
    """Return the groups of a state, for kernels."""
    capacity, pool = ints[CAPACITY], ints[POOL]
    table = ints[GROUPS] + ints[LINKED]
    starts = table + 2 * capacity
    counts = starts + capacity + 1
    keys = counts + 3 * capacity
    return Groups(
        pointer(ints, 0), pointer(ints, ints[GROUPS]), capacity, pointer(ints, table), pointer(ints, starts),
        pointer(ints, counts), as_floats(pointer(ints, counts + capacity)),
        as_floats(pointer(ints, counts + 2 * capacity)), pointer(ints, keys), pointer(ints, keys + pool),
        pointer(ints, keys + 2 * pool),
    )  # fmt: skip


@inlined
def place_of(groups: Groups, key: Ints, size: int) -> int:
    """Return the place of a key in the hash table; if the table is empty there, the key is new."""
    mixed = np.uint64(14695981039346656037)
    for i in range(size):
        mixed = (mixed ^ np.uint64(key[i] + 2)) * np.uint64(1099511628211)
        mixed ^= mixed >> np.uint64(29)
    places = 2 * groups.capacity
    place: int = np.int64(mixed % np.uint64(places))  # type: ignore[assignment]  # not unsigned, for Numba
    while groups.table[place] >= 0:
        group = groups.table[place]
        first = groups.start[group]
        if groups.start[group + 1] - first == size:
            for i in range(size):
                if groups.pool[first + i] != key[i]:
                    break
            else:
                break
        place += 1
        if place == places:
            place = 0
    return place


@unmanaged
def insert(groups: Groups, place: int, key: Ints, size: int) -> int:
    """Insert a new group with this key, at its place in the hash table."""
    group = groups.header[USED]
    groups.table[place] = group
    first = groups.start[group]
    for i in range(size):
        groups.pool[first + i] = key[i]
    groups.start[group + 1] = first + size
    groups.counts[group], groups.weights[group], groups.phases[group] = 0, 0.0, 0.0
    groups.header[USED] = group + 1
    groups.header[FILLED] = first + size
    return group


@inlined
def add_weight(groups: Groups, group: int, weight: float) -> None:
    """Add rounds to a group, or take them back: its count follows its weight.

    A count is the weight, rounded by a phase that is drawn once for each group. So its mean is the weight at any time,
    and a round that has faded can be taken back exactly: what was rounded away with it is not taken back again.
    """
    total = groups.weights[group] + weight
    groups.weights[group] = total if total > NO_WEIGHT else 0.0
    groups.counts[group] = int(np.floor(groups.weights[group] + groups.phases[group]))


@inlined
def is_faded(groups: Groups, group: int) -> bool:
    """Return whether a group may be dropped: nothing is left of it, or so little that it does not matter."""
    return bool(groups.counts[group] == 0 and groups.weights[group] < FADED)


@unmanaged
def fill_table(groups: Groups) -> int:
    """Fill the empty hash table from the keys; how many of them are different."""
    different = 0
    for group in range(groups.header[USED]):
        first = groups.start[group]
        place = place_of(groups, pointer(groups.pool, first), groups.start[group + 1] - first)
        different += groups.table[place] < 0
        groups.table[place] = group
    return different


@kernel(types.int64(INTS))
def rehash(ints: Ints) -> int:
    """Fill the empty hash table of a state; return how many keys are different."""
    return fill_table(groups_in(ints))


@inlined
def prior_section(floats: Floats, learned: int) -> Floats:
    """Return the prior in a state: the second section of its floats."""
    return pointer(floats, learned)


@inlined
def drawable(pseudo_count: float) -> float:
    """Clamp a pseudo-count to the range that draws can be made from; NaN maps to the minimum."""
    return min(pseudo_count, MOST) if pseudo_count > LEAST else LEAST


@inlined
def copy(source: Floats, target: Floats, size: int) -> None:
    """Copy numbers."""
    for i in range(size):
        target[i] = source[i]
