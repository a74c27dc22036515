"""The age of rounds, for learners that forget: what fades, and by how much.

Time goes in steps, each a small part of the half-life. A round counts in full until the step in which it was played is
over; then, with each step, all that was learned fades a little. So it does not matter when a round is learned: a late
one begins with the weight that it would have by now.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import INTS, inlined, kernel, unmanaged
from idbandits.kernel.structs import as_floats, pointer

from idbandits.inference.state.state import (  # isort: skip
    BY_ROUNDS, CLOCK, HALF_LIFE, NEVER, PLAYED, STEP, TICK, Groups, add_weight,
)  # fmt: skip

LONG_AGO = -(2**62)  # the step before all others


class Age(NamedTuple):
    """Age of a round when it is learned."""

    keep: float  # the part of all that was learned before that is kept; 1 unless a step has ended
    weight: float  # of the round
    tick: int  # the step that it is now


@unmanaged
def age_of(ints: Ints, time: float, times: int) -> Age:
    """Return the age of a round that is about to be learned and was played at `time` (NaN: now)."""
    tick = ints[TICK]
    if ints[CLOCK] == NEVER or times == 0:
        return Age(1.0, 1.0, tick)
    step, half_life = as_floats(pointer(ints, STEP))[0], as_floats(pointer(ints, HALF_LIFE))[0]
    now = time
    if ints[CLOCK] == BY_ROUNDS:
        now = float(ints[PLAYED])
        time = now if np.isnan(time) else time
    keep, weight = 1.0, 1.0
    if np.isnan(now):
        return Age(keep, weight, tick)
    present, own = int(np.floor(now / step)), int(np.floor(time / step))
    if present > tick:
        keep = 0.5 ** ((present - tick) * step / half_life)
        tick = present
    if own < tick:
        weight = 0.5 ** ((tick - own) * step / half_life)
    return Age(keep, weight, tick)


AGE = types.NamedTuple([types.float64, types.float64, types.int64], Age)


@kernel(AGE(INTS, types.float64, types.int64))
def age(ints: Ints, time: float, times: int) -> Age:
    """Return the age of a round, for Python."""
    return age_of(ints, time, times)


@unmanaged
def fade(alpha: Floats, origin: Floats, learned: int, keep: float) -> None:
    """Keep a part of what was learned beyond the pseudo-counts at the start."""
    for e in range(learned):
        alpha[e] = origin[e] + keep * (alpha[e] - origin[e])


@inlined
def thinned(count: int, keep: float, rng: Rng) -> int:
    """Return how many of equal rounds are kept: a part of them, rounded up or down at random with the right mean.

    Each round is kept with the probability `keep`, but not apart from the others: that would add noise.
    """
    part = count * keep
    whole = int(part)
    return whole + (1 if rng.random() < part - whole else 0)


@inlined
def thin(groups: Groups, g: int, keep: float) -> bool:
    """Keep a part of the rounds of a group; return whether its count became smaller."""
    before = groups.counts[g]
    add_weight(groups, g, (keep - 1.0) * groups.weights[g])
    return bool(groups.counts[g] < before)
