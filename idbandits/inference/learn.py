"""Learning in compiled code: the kernel `learn` of an inference, and loops over it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from idbandits.inference.ageing import age_of
from idbandits.inference.rounds.round import DONE, LATER, ROUND, Round
from idbandits.inference.rounds.workspace import Workspace, held, scratch, workspace
from idbandits.inference.state.state import PLAYED, ROUNDS, STATE, TICK, State, has_room
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import FLOATS, Kernel, function_at, generated, handle_type, kernel, unmanaged
from idbandits.kernel.rng import RNG
from idbandits.kernel.structs import PACKED, Packed

LEARN = types.int64(PACKED, STATE, RNG, ROUND)
learn_at = function_at(LEARN)


def work(w: Workspace, state: State, rng: Rng, round_: Round) -> int:
    """Stand for the function that `learner` puts into `_learn`."""
    return DONE


def _learn(evidence: Packed, state: State, rng: Rng, round_: Round) -> int:
    int_scratch, float_scratch = scratch(evidence, state)
    w = workspace(evidence, int_scratch, float_scratch)
    age = age_of(state.ints, round_.time, round_.times)
    now = Round(
        round_.action, round_.seen, round_.features, round_.time, round_.times, round_.effort, age.keep, age.weight
    )
    rounds = state.ints[ROUNDS] + round_.times
    status = work(w, state, rng, now)
    if status == DONE:
        state.ints[ROUNDS], state.ints[TICK] = rounds, age.tick
        state.ints[PLAYED] += max(0, round_.times)
    return int(held(status, int_scratch, float_scratch))


def learner(name: str) -> Callable[[Any], Any]:
    """Return a decorator that makes a function the kernel `learn` of an inference.

    The function `work(w, state, rng, round_)` gets a workspace `w` with the evidence, and returns `DONE` or the reason
    for which a round cannot be learned. The kernel finds the age of the round (`keep` and `weight`) before, and counts
    rounds after it was learned.

    Parameters
    ----------
    name : str
        Name of the class of the inference.

    Returns
    -------
    function
        Decorator that returns a `Kernel`.

    Examples
    --------
    >>> from idbandits.inference.rounds.round import DONE
    >>> @learner("Ignoring")
    ... def learn(w, state, rng, round_):
    ...     return DONE
    >>> type(learn).__name__
    'Kernel'
    """

    def make(function: Any) -> Kernel:
        work = function if hasattr(function, "py_func") else unmanaged(function)
        return generated(_learn, LEARN, f"{name}.learn", work)

    return make


@kernel(types.int64(handle_type(LEARN), PACKED, STATE, RNG, types.int64[:, ::1], types.int64, FLOATS))
def learn_all(learn: Any, evidence: Packed, state: State, rng: Rng, rounds: Ints, width: int, times: Floats) -> int:
    """Count rounds one by one, until one is rejected or the state is full; return the number that was counted.

    The first `width` numbers of a round are its action. `times` has when each was played; it is empty if that does not
    matter.
    """
    nothing = np.empty(0)
    for t in range(len(rounds)):
        if not has_room(state.ints):
            return t
        time = times[t] if len(times) > 0 else np.nan
        row = rounds[t]
        round_ = Round(row[:width], row[width:], nothing, time, 1, LATER, 1.0, 1.0)
        if learn_at(learn)(evidence, state, rng, round_) != DONE:
            return t
    return len(rounds)
