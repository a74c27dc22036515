"""Counting a round: what is determined is added to pseudo-counts once and for all, the rest is counted in groups."""

import numpy as np

from idbandits.inference.protocol import DONE, IMPOSSIBLE, UNKNOWN, Round
from idbandits.kernel.compiling import bare
from idbandits.kernel.states import LEAST, ROUNDS, Groups, insert, place_of
from idbandits.kernel.types import Floats, Ints

from idbandits.inference.workspace import (  # isort: skip
    GENERIC, TINY, Parts, Workspace, expect, expect_in_logs, log_weigh, read_key, value_of_part, write_key,
)  # fmt: skip

ROUNDING = 1e-9


@bare
def is_possible(w: Workspace, action: Ints, seen: Ints) -> bool:
    """Whether the diagram gives a round a positive probability, for some means."""
    for j in range(w.v.parts):
        write_key(w.v, j, action, seen, w.key)
        read_key(w, w.key)
        generic = w.v.generic
        if value_of_part(w, j, GENERIC, generic) <= TINY and expect_in_logs(w, j, GENERIC, generic, generic) == -np.inf:
            return False
    return True


@bare
def find_uses(w: Workspace) -> tuple[bool, float]:
    """Whether the part whose key is in the workspace is a single product of table entries; its `counts` say of which.

    Also the logarithm of the constant that the product has: minus infinity if this cannot be seen.
    """
    v, j = w.v, w.key[0]
    constant = expect(w, j, read_key(w, w.key), GENERIC, v.generic, v.generic)
    if constant == -np.inf:
        return True, constant
    single = True
    for t in range(v.use_start[j], v.use_start[j + 1]):
        slot = v.use[t]
        if w.entries[slot] < v.learned:
            uses = np.floor(w.counts[slot] + 0.5)
            single &= abs(w.counts[slot] - uses) <= ROUNDING
            w.counts[slot] = uses
            if uses > 0.0:
                constant -= uses * log_weigh(v, GENERIC, w.entries[slot], v.generic, v.generic)
    return single, constant


@bare
def add_uses(w: Workspace, j: int, times: float, alpha: Floats) -> None:
    """Add the uses of a part's slots to pseudo-counts."""
    v = w.v
    for t in range(v.use_start[j], v.use_start[j + 1]):
        slot = v.use[t]
        if w.entries[slot] < v.learned:
            alpha[w.entries[slot]] += times * w.counts[slot]


@bare
def is_below_prior(v: Parts, alpha: Floats) -> bool:
    """Whether pseudo-counts are below the prior: more was taken back than was learned."""
    below = False
    for e in range(v.learned):
        below |= not alpha[e] >= max(LEAST, v.parameters[e] * (1 - ROUNDING) - ROUNDING)
    return below


@bare
def look_up(w: Workspace, groups: Groups, round_: Round) -> tuple[int, bool, float]:
    """Find the group of every part, once: `places` has -1 - its number, or 0 where there is none.

    Says DONE, or why the round cannot be counted; and, of the last part without a group, what `find_uses` found.
    """
    times = round_.times
    single, constant = False, 0.0
    if groups.header[ROUNDS] + times < 0:
        return UNKNOWN, single, constant
    for j in range(w.v.parts):
        write_key(w.v, j, round_.action, round_.seen, w.key)
        group = groups.table[place_of(groups, w.key)]
        w.places[j] = min(0, -1 - group)
        if group >= 0:
            if groups.counts[group] + times < 0:
                return UNKNOWN, single, constant
            continue
        single, constant = find_uses(w)
        if constant == -np.inf:
            return IMPOSSIBLE, single, constant
        if times < 0 and not single:
            return UNKNOWN, single, constant
    return DONE, single, constant


@bare
def add_round(
    w: Workspace, groups: Groups, base: Floats, round_: Round, times: int, single: bool, constant: float
) -> float:
    """Count a round that was looked up; the logarithm of the constants of what is determined."""
    constants = 0.0
    for j in range(w.v.parts):
        group = -1 - w.places[j]
        if group < 0:
            if w.v.parts > 1:  # else all is in the workspace still
                write_key(w.v, j, round_.action, round_.seen, w.key)
                single, constant = find_uses(w)
            if single:
                add_uses(w, j, times, base)
                constants += times * constant
                continue
            group = insert(groups, place_of(groups, w.key), w.key)
        groups.counts[group] += times
    groups.header[ROUNDS] += times
    return constants


@bare
def count_round(w: Workspace, groups: Groups, base: Floats, round_: Round) -> tuple[int, float]:
    """Count a round if it can be: DONE or why not, and the logarithm of the constants of what is determined."""
    if round_.times == 0:
        return DONE, 0.0
    status, single, constant = look_up(w, groups, round_)
    if status != DONE:
        return status, 0.0
    constants = add_round(w, groups, base, round_, round_.times, single, constant)
    if round_.times < 0 and is_below_prior(w.v, base):
        add_round(w, groups, base, round_, -round_.times, single, constant)
        return UNKNOWN, 0.0
    return DONE, constants
