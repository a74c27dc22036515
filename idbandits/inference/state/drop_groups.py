"""Removal of faded groups, which bounds the state of a learner that forgets."""

from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import unmanaged
from idbandits.kernel.structs import pointer

from idbandits.inference.state.state import (  # isort: skip
    BEFORE, EACH, FILLED, LINKED, USED, Groups, fill_table, groups_in, is_faded,
)  # fmt: skip

FEW = 64  # groups that are not worth the effort


@unmanaged
def drop_empty_groups(ints: Ints, floats: Floats) -> None:
    """Drop faded groups once they are half of all; the others move up, in order.

    This depends on the groups alone, not on capacities, so a learner from a file behaves like the one that was saved.
    """
    groups, empty = groups_in(ints), 0
    for g in range(ints[USED]):
        empty += is_faded(groups, g)
    if ints[USED] < FEW or 2 * empty < ints[USED]:
        return
    number, shift = groups.table, pointer(groups.table, groups.capacity)  # the hash table, which is filled again later
    left, filled = 0, 0
    for g in range(ints[USED]):
        number[g], shift[g] = -1, groups.start[g] - filled
        if not is_faded(groups, g):
            number[g] = left
            left += 1
            filled += groups.start[g + 1] - groups.start[g]
    for row in range(ints[LINKED] // 2):
        relink(groups, row, ints[LINKED] // 2, number, shift)
    move_up(groups, pointer(floats, ints[BEFORE]), ints[EACH], ints[LINKED] > 0)
    ints[USED], ints[FILLED] = left, filled
    for place in range(2 * groups.capacity):
        groups.table[place] = -1
    fill_table(groups)


@unmanaged
def relink(groups: Groups, row: int, rows: int, number: Ints, shift: Ints) -> None:
    """Remove dropped groups from the links of a row, and point the links to the new places of the others."""
    at, last, length = groups.heads[row], -1, 0
    groups.heads[row] = -1
    while at >= 0:
        after, group = groups.after[at], groups.owner[at]
        if number[group] >= 0:
            place = at - shift[group]
            if last < 0:
                groups.heads[row] = place
            else:
                groups.after[last] = place
            groups.owner[at], groups.after[at] = number[group], -1
            last = at
            length += 1
        at = after
    groups.heads[rows + row] = length


@unmanaged
def move_up(groups: Groups, beside: Floats, each: int, linked: bool) -> None:
    """Move up the keys of groups that have not faded, with their counts, links and floats; zero the rest."""
    used, filled, left = groups.header[USED], groups.header[FILLED], 0
    target, first = 0, 0
    for g in range(used):
        end = groups.start[g + 1]
        if not is_faded(groups, g):
            for at in range(first, end):
                groups.pool[target] = groups.pool[at]
                if linked:
                    groups.owner[target], groups.after[target] = groups.owner[at], groups.after[at]
                for k in range(each):
                    beside[target * each + k] = beside[at * each + k]
                target += 1
            groups.counts[left], groups.weights[left] = groups.counts[g], groups.weights[g]
            groups.phases[left] = groups.phases[g]
            left += 1
            groups.start[left] = target
        first = end
    for k in range(target * each, filled * each):
        beside[k] = 0.0
