"""Counting a round: what is certain is added to pseudo-counts once and for all, factors are counted in groups."""

from idbandits.inference.rounds.reduction import ROUNDING, is_certain, reduce
from idbandits.inference.rounds.round import DONE, IMPOSSIBLE, UNKNOWN, Round
from idbandits.inference.rounds.workspace import Workspace
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.structs import pointer

from idbandits.inference.state.state import (  # isort: skip
    CLOCK, FADED, LEAST, NEVER, ROUNDS, Groups, add_weight, insert, place_of,
)  # fmt: skip

FADED_ROW = 1e-3  # rounds: a row that nothing else is known of is not worth keeping when an agent moves


@inlined
def factor_of(groups: Groups, group: int) -> Ints:
    """Return the factor of a group."""
    return pointer(groups.pool, groups.start[group])


@unmanaged
def drop_certain(w: Workspace) -> None:
    """Count the factors of a round that are single products after all among its certain uses."""
    left = 0
    for i in range(w.places[0]):
        first, end = w.places[1 + i], w.places[2 + i]
        if not is_certain(w, pointer(w.factors, first)):
            target = w.places[1 + left]
            for at in range(end - first):
                w.factors[target + at] = w.factors[first + at]
            left += 1
            w.places[1 + left] = target + end - first
    w.places[0] = left


@unmanaged
def look_up(w: Workspace, groups: Groups, round_: Round, keep: float) -> int:
    """Reduce a round, and find the group of every factor: -1 where there is none yet. DONE, or why it cannot be.

    A round that is taken back must have been counted, as far as it has not faded; groups will fade by `keep` first.
    """
    times = round_.times
    if groups.header[ROUNDS] + times < 0:
        return UNKNOWN
    if not reduce(w, round_.action, round_.seen):
        return IMPOSSIBLE
    new = find_groups(w, groups)
    if new:
        drop_certain(w)
        find_groups(w, groups)
    taken = -times * round_.weight
    for i in range(w.places[0] if taken > FADED else 0):
        if w.groups[i] < 0 or groups.weights[w.groups[i]] * keep < taken * (1.0 - ROUNDING):
            return UNKNOWN
    return DONE


@unmanaged
def find_groups(w: Workspace, groups: Groups) -> bool:
    """Find the group of every factor of a round; return whether one is new."""
    new = False
    for i in range(w.places[0]):
        first = w.places[1 + i]
        w.groups[i] = groups.table[place_of(groups, pointer(w.factors, first), w.places[2 + i] - first)]
        new |= w.groups[i] < 0
    return new


@inlined
def add_uses(w: Workspace, alpha: Floats, times: float) -> None:
    """Add the certain uses of a round to pseudo-counts."""
    for i in range(1, w.uses[0] + 1):
        alpha[w.uses[i]] += times


@unmanaged
def lift(w: Workspace, alpha: Floats, prior: Floats) -> None:
    """Raise the pseudo-counts of a round's certain uses to the prior: what rounding, and faded rows, may lack."""
    for i in range(1, w.uses[0] + 1):
        alpha[w.uses[i]] = max(alpha[w.uses[i]], prior[w.uses[i]])


@unmanaged
def add_round(w: Workspace, groups: Groups, base: Floats, times: float, rng: Rng) -> None:
    """Count a round that was looked up; `times` is its weight, negative if it is taken back."""
    add_uses(w, base, times)
    for i in range(w.places[0]):
        if w.groups[i] < 0:  # a factor may occur twice in a round
            first = w.places[1 + i]
            key, size = pointer(w.factors, first), w.places[2 + i] - first
            place = place_of(groups, key, size)
            w.groups[i] = groups.table[place]
            if w.groups[i] < 0:
                w.groups[i] = insert(groups, place, key, size)
                groups.phases[w.groups[i]] = 0.0 if groups.header[CLOCK] == NEVER else rng.random()
        add_weight(groups, w.groups[i], times)


@unmanaged
def count_round(w: Workspace, groups: Groups, base: Floats, prior: Floats, round_: Round, rng: Rng) -> int:
    """Count a round if it can be: DONE, or why not, and then nothing has changed.

    `groups` of the workspace has the groups that it belongs to. Of a round that has faded since, what is left of it is
    taken back.
    """
    w.places[0] = 0
    if round_.times == 0:
        return DONE
    status = look_up(w, groups, round_, 1.0)
    if status != DONE:
        return status
    if round_.times < 0 and is_too_often(w, groups, -round_.times * round_.weight):
        return UNKNOWN
    add_round(w, groups, base, round_.times * round_.weight, rng)
    if round_.times < 0 and is_below_prior(w, base, prior, round_.weight):
        add_round(w, groups, base, -round_.times * round_.weight, rng)
        return UNKNOWN
    if round_.weight < 1.0:
        lift(w, base, prior)
    groups.header[ROUNDS] += round_.times
    return DONE


@unmanaged
def is_too_often(w: Workspace, groups: Groups, taken: float) -> bool:
    """Return whether a factor that occurs several times in a round was not counted as often."""
    for i in range(w.places[0] if taken > FADED else 0):
        total = 0.0
        for k in range(w.places[0]):
            total += taken if w.groups[k] == w.groups[i] else 0.0
        if groups.weights[w.groups[i]] < total * (1.0 - ROUNDING):
            return True
    return False


@unmanaged
def is_below_prior(w: Workspace, alpha: Floats, prior: Floats, weight: float) -> bool:
    """Return whether pseudo-counts of a round's certain uses are below the prior: more was taken back than learned.

    A row of which less than FADED_ROW is left may be gone since, so a faded round may lack as much.
    """
    below, slack = False, ROUNDING if weight == 1.0 else FADED_ROW
    for i in range(1, w.uses[0] + 1):
        e = w.uses[i]
        below |= not alpha[e] >= max(LEAST, prior[e] * (1 - ROUNDING) - slack)
    return below
