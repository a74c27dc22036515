"""Many draws of an action at once: how often each choice is made, and how often one action is taken."""

from typing import Any

import numpy as np
from numba import types

from idbandits.inference.protocol import PACKED, STATE, act_once
from idbandits.inference.state.state import State
from idbandits.kernel.array_types import Ints, Rng
from idbandits.kernel.compile import INTS, Kernel, handle_type, kernel
from idbandits.kernel.rng import RNG
from idbandits.kernel.structs import Packed
from idbandits.solve.solver import SOLVE

BATCH = 100  # draws between looks at interruptions
NOTHING = np.empty(0, dtype=np.int64)  # where choices are not counted, or no action is wanted


@kernel(types.int64(handle_type(SOLVE), PACKED, PACKED, STATE, RNG, INTS, INTS, INTS, INTS, INTS, types.int64))
def act_often(
    solve: Any, solver: Packed, evidence: Packed, state: State, rng: Rng, action: Ints, eligible: Ints, wanted: Ints,
    first: Ints, counts: Ints, draws: int,
) -> int:  # fmt: skip
    """Act so many times, and count choices; how often the wanted action was taken, -1 if none can be found.

    `first` has the place in `counts` where the choices of each decision begin.
    """
    hits = 0
    for _ in range(draws):
        if not act_once(solve, solver, evidence, state, rng, action, eligible):
            return -1
        for k in range(len(first)):
            counts[first[k] + action[k]] += 1
        same = len(wanted) > 0
        for k in range(len(wanted)):
            same &= action[k] == wanted[k]
        hits += same
    return hits


def count_acts(
    solve: Kernel, solver: Packed, evidence: Packed, state: State, rng: Rng, action: Ints, eligible: Ints,
    wanted: Ints, first: Ints, counts: Ints, draws: int,
) -> int:  # fmt: skip
    """The same from Python, which handles signals now and then."""
    hits = 0
    for done in range(0, draws, BATCH):
        number = min(BATCH, draws - done)
        own = act_often(
            solve.handle, solver, evidence, state, rng, action, eligible, wanted, first, counts, number
        )  # fmt: skip
        if own < 0:
            return -1
        hits += own
    return hits
