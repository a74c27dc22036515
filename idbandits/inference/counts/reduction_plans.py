"""Plans of reduction: a round is reduced once for all rounds with the same pattern.

The entries that a part of a round certainly used, and its factors, depend on the action only by which entries are read:
the pattern of a part is what was observed, the known values that its slots read, which of its slots read equal entries,
and which choices are missing. For every pattern a plan lists the slots of the certain uses, and the factors: a *shape*,
which is a factor with arguments in the place of learned entries, and the slots that its arguments are read from. So
counting a round costs a look-up and some additions per part, instead of a walk through the circuit.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numba import types

from idbandits.circuit.build import starts
from idbandits.circuit.circuit import Circuit
from idbandits.circuit.model import Model
from idbandits.circuit.passes import entry
from idbandits.circuit.reference import entries_read
from idbandits.inference.rounds.counting import drop_certain
from idbandits.inference.rounds.evidence import folded
from idbandits.inference.rounds.factors import first_term, members, next_term
from idbandits.inference.rounds.workspace import Parts, Workspace, read_round, walk
from idbandits.kernel.array_types import Indices, Ints
from idbandits.kernel.compile import INTS, inlined, unmanaged
from idbandits.kernel.structs import Packed, pack, pointer, unpacker

from idbandits.inference.rounds.reduction import (  # isort: skip
    divide,
    forget_same,
    log_constant,
    size_below,
    write_nodes,
)
from idbandits.inference.state.state import (  # isort: skip
    NO_FITS,
    NO_INTS,
    Groups,
    State,
    groups_in,
    grown,
    has_room,
    insert,
    place_of,
    with_groups,
)

COUNTED, IMPOSSIBLE, MISSING = range(3)  # status of a round: MISSING if what was seen depends on a missing choice
KNOWN = 1 << 40  # in shapes: this number and above stand for known entries, smaller ones for arguments
BODY, LONGEST_BODIES = range(2)  # in front of all bodies: where the next one begins, and what a round may add


class Readers(NamedTuple):
    """Slots whose entries decide the pattern of a part, as a structure for kernels; numbers of uses of `Parts`."""

    longest_key: int
    start: Indices  # of a part: its readers
    use: Indices
    is_known: Indices  # of a reader: 1 if it may read known entries
    pair_start: Indices  # of a part: pairs of readers that may read the same entry
    left: Indices
    right: Indices
    value: Indices  # of a known entry: the number of its value


unpack_readers = unpacker(Readers)


def readers_of(model: Model) -> Packed:
    """Return the readers of a model's parts, packed; `model.derived(readers_of)` finds them once."""
    evidence = model.derived(folded)
    c, v = evidence.structures
    sizes = [node.states for node in (*model.decisions, *model.contexts)]
    table_of_row, learned = np.asarray(v.table), evidence.learned
    use, is_known, pairs = list[list[int]](), list[list[int]](), list[list[tuple[int, int]]]()
    for j in range(v.parts):
        own, tables, seen = list[int](), list[set[int]](), set[Any]()
        known = list[int]()
        for t in range(v.use_start[j], v.use_start[j + 1]):
            rows, entries = _rows_read(c, v.use[t], sizes, np.asarray(v.row), learned)
            if rows in seen:
                continue
            seen.add(rows)
            own.append(t)
            known.append(int((entries >= learned).any() and len(c.axes(v.use[t])) > 0))
            tables.append({int(table_of_row[e]) for e in entries if e < learned})
        moving = [len(c.axes(v.use[t])) > 0 for t in own]
        first = sum(map(len, use))
        pairs.append(
            [
                (first + a, first + b)
                for a, b in combinations(range(len(own)), 2)
                if (moving[a] or moving[b]) and tables[a] & tables[b]
            ]
        )
        use.append(own)
        is_known.append(known)
    sources = max((v.source_start[j + 1] - v.source_start[j] for j in range(v.parts)), default=0)
    widest = max(map(len, use), default=0) + max(map(len, pairs), default=0)
    flat = [pair for own_pairs in pairs for pair in own_pairs]
    _, values = np.unique(np.asarray(evidence.entries.known), return_inverse=True)
    return pack(
        Readers(
            longest_key=3 + sources + 2 * widest, start=starts(use), use=[t for own in use for t in own],
            is_known=[k for own in is_known for k in own],
            pair_start=starts(pairs), left=[pair[0] for pair in flat], right=[pair[1] for pair in flat], value=values,
        )
    )  # fmt: skip


def _rows_read(c: Circuit, slot: int, sizes: list[int], row: Ints, learned: int) -> tuple[Any, Ints]:
    """Return a key of the rows that a slot reads, equal for slots that always read one row, and some entries.

    Without a lookup, the first entry tells the rest.
    """
    base, strides, lookup = c.atom(slot)
    if lookup >= 0:
        entries = entries_read(c, slot, sizes).ravel()
        rows = np.where(entries < learned, row[np.minimum(entries, len(row) - 1)] if len(row) else -1, entries)
        return (strides, rows.tobytes()), np.unique(entries)
    return (strides, int(row[base]) if base < learned else base), np.array([base])


class Plans(NamedTuple):
    """Plans and shapes of one thread: arrays that kernels fill."""

    keys: Ints  # ints of a state whose groups are patterns
    shapes: Ints  # ints of a state whose groups are shapes
    bodies: Ints

    def grown(self) -> Plans:
        """Return the plans with room for those of another round."""
        keys, shapes = (_with_room(State(own, NO_FITS)).ints for own in self[:2])
        is_full = self.bodies[BODY] + self.bodies[LONGEST_BODIES] > len(self.bodies)
        bodies = np.concatenate([self.bodies, np.zeros(len(self.bodies), np.int64)]) if is_full else self.bodies
        return Plans(keys, shapes, bodies)


def _with_room(state: State) -> State:
    return state if state.has_room() else grown(state)


PLANS = types.NamedTuple([INTS, INTS, INTS], Plans)


def new_plans(model: Model) -> Plans:
    """Return an empty cache of plans."""
    evidence, readers = model.derived(folded), model.derived(readers_of)
    longest_key, parts = int(readers.ints[0]), max(1, evidence.parts)
    keys = with_groups(NO_FITS, NO_INTS, parts, parts * longest_key).ints
    shapes = with_groups(NO_FITS, NO_INTS, evidence.most_groups, evidence.most_numbers).ints
    longest = 3 * parts + 2 * evidence.uses + 2 * evidence.most_groups + evidence.most_numbers
    bodies = np.zeros(max(1024, 4 * longest), np.int64)
    bodies[[BODY, LONGEST_BODIES]] = 2, longest
    return Plans(keys, shapes, bodies)


class Cache(NamedTuple):
    """Plans and shapes, as kernels see them."""

    keys: Groups
    shapes: Groups
    bodies: Ints


@inlined
def cache_in(plans: Plans) -> Cache:
    """Return the plans, for kernels."""
    return Cache(groups_in(plans.keys), groups_in(plans.shapes), pointer(plans.bodies, 0))


@inlined
def has_room_for_plans(plans: Plans) -> bool:
    """Return whether the plans of another round fit."""
    bodies = plans.bodies
    return bool(
        bodies[BODY] + bodies[LONGEST_BODIES] <= len(bodies) and has_room(plans.keys) and has_room(plans.shapes)
    )


@inlined
def entry_of_use(w: Workspace, t: int, action: Ints) -> int:
    """Return the entry that a use reads after an action."""
    v: Parts = w.v
    if v.axis[t] >= 0:
        return int(v.base[t] + v.stride[t] * action[v.axis[t]])
    if v.stride[t] == 0:
        return int(v.base[t])
    return int(entry(w.c, v.use[t], action))


@inlined
def is_missing(w: Workspace, t: int, action: Ints) -> bool:
    """Return whether the choice that a use depends on is missing."""
    c, slot, missing = w.c, w.v.use[t], False
    for k in range(c.slot_start[slot], c.slot_start[slot + 1]):
        missing |= action[c.slot_axis[k]] < 0
    return missing


@unmanaged
def write_key(w: Workspace, r: Readers, j: int, action: Ints, seen: Ints, key: Ints, read: Ints) -> int:
    """Write the pattern of a part of a round to `key`; return its length. `read` gets the entries of all readers."""
    v: Parts = w.v
    key[0], n = j, 1
    for t in range(v.source_start[j], v.source_start[j + 1]):
        key[n] = seen[v.source[t]]
        n += 1
    for k in range(r.start[j], r.start[j + 1]):
        e = -1 if is_missing(w, r.use[k], action) else entry_of_use(w, r.use[k], action)
        read[k] = e
        if e < 0:
            key[n], key[n + 1] = -2, k
            n += 2
        elif r.is_known[k] and e >= v.learned:
            key[n], key[n + 1] = k, r.value[e - v.learned]
            n += 2
    for p in range(r.pair_start[j], r.pair_start[j + 1]):
        if read[r.left[p]] >= 0 and read[r.left[p]] == read[r.right[p]]:
            key[n] = -3 - p
            n += 1
    return n


@unmanaged
def reduce_part(w: Workspace, j: int, action: Ints, seen: Ints) -> bool:
    """Find the certain uses and the factors of one part of a round; return False if it is impossible."""
    c, v = w.c, w.v
    w.uses[0], w.places[0], w.places[1] = 0, 0, 0
    missing = read_round(w, j, action, seen)
    w.log_value[0] = walk(w, j, missing)
    possible = w.log_value[0] > -np.inf
    if possible and not divide(w, j):
        w.uses[0], w.places[0], w.places[1] = 0, 1, 0
        for n in range(v.node[j], v.node[j + 1]):
            w.certain[c.leaves + n] = 0
        size_below(w, v.node[j], v.node[j + 1] - 1)
        w.factors[0] = 0
        w.places[2] = write_nodes(w, v.node[j], v.node[j + 1] - 1, w.factors, 1)
    forget_same(w, j, missing)
    if possible:
        drop_certain(w)
    return possible


@unmanaged
def substitute(action: Ints, sizes: Ints, filled: Ints) -> None:
    """Write an action to `filled`, with choices that no other decision makes in the place of missing ones."""
    width = len(sizes)
    for i in range(width):
        filled[i] = action[i]
    for i in range(width):
        choice = 0
        while filled[i] < 0:
            taken = False
            for k in range(width):
                taken |= filled[k] == choice
            if not taken or choice + 1 >= sizes[i]:
                filled[i] = choice
            choice += 1


@unmanaged
def make_plan(w: Workspace, cache: Cache, plan: int, scratch: Ints) -> None:
    """Write the body of a plan from a part that was reduced; `w.sites` has the use of each entry that it reads.

    A body has a status, the number of certain uses, their uses of `Parts`, and the number of factors; then of each its
    shape, the number of its arguments, and their uses. Its logarithmic constant is the weight of its key.
    """
    bodies, shapes = cache.bodies, cache.shapes
    at = bodies[BODY]
    cache.keys.counts[plan] = at
    bodies[at], bodies[at + 1] = COUNTED, w.uses[0]
    at += 2
    for i in range(1, w.uses[0] + 1):
        bodies[at] = w.sites[w.uses[i]]
        at += 1
    bodies[at] = w.places[0]
    at += 1
    for i in range(w.places[0]):
        first = w.places[1 + i]
        number = write_shape(w, pointer(w.factors, first), w.places[2 + i] - first, scratch, pointer(bodies, at + 2))
        size = w.places[2 + i] - first
        place = place_of(shapes, scratch, size)
        shape = shapes.table[place]
        if shape < 0:
            shape = insert(shapes, place, scratch, size)
            shapes.counts[shape] = number
        bodies[at], bodies[at + 1] = shape, number
        at += 2 + number
    bodies[BODY] = at


@unmanaged
def write_shape(w: Workspace, factor: Ints, size: int, shape: Ints, arguments: Ints) -> int:
    """Write the shape of a factor, and the uses of its arguments; return the number of arguments."""
    for i in range(size):
        shape[i] = factor[i]
    number = 0
    term = first_term(factor)
    while term.nodes > 0:
        for i in members(factor, term.at):
            if factor[i] >= w.v.learned:
                shape[i] = KNOWN + factor[i]
            elif factor[i] >= 0:
                use, k = w.sites[factor[i]], 0
                while k < number and arguments[k] != use:
                    k += 1
                arguments[k] = use
                shape[i] = k
                number = max(number, k + 1)
        term = next_term(factor, term)
    return number


@unmanaged
def uses_missing(w: Workspace, bodies: Ints, at: int, action: Ints) -> bool:
    """Return whether a plan reads a choice that is missing."""
    missing, end = False, at + 2 + bodies[at + 1]
    for i in range(at + 2, end):
        missing |= is_missing(w, bodies[i], action)
    factors, i = bodies[end], end + 1
    for _ in range(factors):
        for k in range(i + 2, i + 2 + bodies[i + 1]):
            missing |= is_missing(w, bodies[k], action)
        i += 2 + bodies[i + 1]
    return missing


class Scratch(NamedTuple):
    """Arrays for one round; in kernels."""

    key: Ints
    read: Ints
    filled: Ints
    sizes: Ints  # of a choice: how many values it has
    shape: Ints


SCRATCH = types.NamedTuple([INTS, INTS, INTS, INTS, INTS], Scratch)


def new_scratch(model: Model) -> Scratch:
    """Return arrays for one round."""
    evidence, readers = model.derived(folded), model.derived(readers_of)
    sizes = np.array([node.states for node in (*model.decisions, *model.contexts)], np.int64)
    numbers = int(readers.ints[0]), evidence.uses + 1, len(sizes), evidence.most_numbers + 1
    key, read, filled, shape = (np.empty(number, np.int64) for number in numbers)
    return Scratch(key, read, filled, sizes, shape)


@unmanaged
def find_plan(w: Workspace, r: Readers, s: Scratch, cache: Cache, j: int, action: Ints, seen: Ints) -> int:
    """Return the number of the plan of a part of a round, which is made if it is new; there must be room for it."""
    keys, bodies = cache.keys, cache.bodies
    size = write_key(w, r, j, action, seen, s.key, s.read)
    place = place_of(keys, s.key, size)
    plan = keys.table[place]
    if plan >= 0:
        return plan
    plan = insert(keys, place, s.key, size)
    substitute(action, s.sizes, s.filled)
    if not reduce_part(w, j, s.filled, seen):
        at = bodies[BODY]
        keys.counts[plan], keys.weights[plan] = at, -np.inf
        bodies[at], bodies[at + 1], bodies[at + 2] = IMPOSSIBLE, 0, 0
        bodies[BODY] = at + 3
        return plan
    for missing in (True, False):  # entries that are read by a choice that is there are those of that choice
        for t in range(w.v.use_start[j], w.v.use_start[j + 1]):
            e = entry_of_use(w, t, s.filled)
            if e < w.v.learned and is_missing(w, t, action) == missing:
                w.sites[e] = t
    make_plan(w, cache, plan, s.shape)
    keys.weights[plan] = log_constant(w)
    if uses_missing(w, bodies, keys.counts[plan], action):
        bodies[keys.counts[plan]] = MISSING
    return plan
