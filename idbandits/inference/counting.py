"""Counting a round: what is certain is added to pseudo-counts once and for all, factors are counted in groups."""

from idbandits.inference.ageing import thinned
from idbandits.inference.protocol import DONE, IMPOSSIBLE, UNKNOWN, Round
from idbandits.inference.reduction import ROUNDING, is_certain, reduce
from idbandits.inference.workspace import Parts, Workspace
from idbandits.kernel.compiling import bare, merged
from idbandits.kernel.fields import pointer
from idbandits.kernel.states import LEAST, ROUNDS, Groups, insert, place_of
from idbandits.kernel.types import Floats, Ints, Rng


@merged
def factor_of(groups: Groups, group: int) -> Ints:
    """The factor that a group is about."""
    return pointer(groups.pool, groups.start[group])


@bare
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


@bare
def look_up(w: Workspace, groups: Groups, round_: Round) -> int:
    """Reduce a round, and find the group of every factor: -1 where there is none yet. DONE, or why it cannot be."""
    times = round_.times
    if groups.header[ROUNDS] + times < 0:
        return UNKNOWN
    if not reduce(w, round_.action, round_.seen):
        return IMPOSSIBLE
    new = find_groups(w, groups)
    if new:
        drop_certain(w)
        find_groups(w, groups)
    for i in range(w.places[0] if times < 0 and round_.weight == 1.0 else 0):
        if w.groups[i] < 0 or groups.counts[w.groups[i]] + times < 0:
            return UNKNOWN
    return DONE


@bare
def find_groups(w: Workspace, groups: Groups) -> bool:
    """The group of every factor of a round; whether one is new."""
    new = False
    for i in range(w.places[0]):
        first = w.places[1 + i]
        w.groups[i] = groups.table[place_of(groups, pointer(w.factors, first), w.places[2 + i] - first)]
        new |= w.groups[i] < 0
    return new


@merged
def add_uses(w: Workspace, alpha: Floats, times: float) -> None:
    """Add the certain uses of a round to pseudo-counts."""
    for i in range(1, w.uses[0] + 1):
        alpha[w.uses[i]] += times


@bare
def lift(w: Workspace, alpha: Floats, prior: Floats) -> None:
    """Raise the pseudo-counts of a round's certain uses to the prior, after more was taken back than was left."""
    for i in range(1, w.uses[0] + 1):
        alpha[w.uses[i]] = max(alpha[w.uses[i]], prior[w.uses[i]])


@bare
def add_round(w: Workspace, groups: Groups, base: Floats, times: int, weight: float, rng: Rng) -> None:
    """Count a round that was looked up; one that has faded, in the groups only with a probability of its weight."""
    add_uses(w, base, times * weight)
    for i in range(w.places[0]):
        if w.groups[i] < 0:  # a factor may occur twice in a round
            first = w.places[1 + i]
            key, size = pointer(w.factors, first), w.places[2 + i] - first
            place = place_of(groups, key, size)
            w.groups[i] = groups.table[place] if groups.table[place] >= 0 else insert(groups, place, key, size)
        if weight == 1.0:
            groups.counts[w.groups[i]] += times
        else:
            drawn = thinned(abs(times), weight, rng)
            groups.counts[w.groups[i]] = max(0, groups.counts[w.groups[i]] + (drawn if times > 0 else -drawn))
    groups.header[ROUNDS] += times


@bare
def count_round(w: Workspace, groups: Groups, base: Floats, prior: Floats, round_: Round, rng: Rng) -> int:
    """Count a round if it can be: DONE, or why not, and then nothing has changed.

    `groups` of the workspace has the groups that it belongs to. Of a round that has faded since, what is still there
    is taken back.
    """
    w.places[0] = 0
    if round_.times == 0:
        return DONE
    status = look_up(w, groups, round_)
    if status != DONE:
        return status
    add_round(w, groups, base, round_.times, round_.weight, rng)
    if round_.weight < 1.0:
        lift(w, base, prior)
    elif round_.times < 0 and (is_below_prior(w.v, base, prior) or is_below_zero(w, groups)):
        add_round(w, groups, base, -round_.times, 1.0, rng)
        return UNKNOWN
    return DONE


@bare
def is_below_zero(w: Workspace, groups: Groups) -> bool:
    """Whether a group of a round was taken back more often than it was counted."""
    below = False
    for i in range(w.places[0]):
        below |= groups.counts[w.groups[i]] < 0
    return below


@bare
def is_below_prior(v: Parts, alpha: Floats, prior: Floats) -> bool:
    """Whether pseudo-counts are below the prior: more was taken back than was learned."""
    below = False
    for e in range(v.learned):
        below |= not alpha[e] >= max(LEAST, prior[e] * (1 - ROUNDING) - ROUNDING)
    return below
