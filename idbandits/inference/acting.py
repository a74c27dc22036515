"""Acting and learning as compiled functions of an agent's state, and the types by which loops are handed them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types

from idbandits.errors import IdbanditsError
from idbandits.inference.drawing import draw_rows
from idbandits.inference.evidence import unpack as unpack_parts
from idbandits.inference.groups import CAPACITY, DONE, MEANS_GIVEN, PER_ROUND, USED
from idbandits.kernel.compiling import FLOATS, INTS, bare, compiled, merged
from idbandits.kernel.types import Floats, Ints, Rng
from idbandits.solve.best import BUDGET, SOLVE, unpack
from idbandits.solve.branch import Decisions, clash

RNG = typeof(np.random.default_rng(0))
ACT = types.void(types.FunctionType(SOLVE), INTS, FLOATS, INTS, INTS, FLOATS, RNG, INTS)
LEARN = types.int64(INTS, FLOATS, INTS, FLOATS, RNG, INTS, INTS, types.int64, types.int64)
LEARN_ALL = types.int64(types.FunctionType(LEARN), INTS, FLOATS, INTS, FLOATS, RNG, types.int64[:, ::1], types.int64)
DRAW = types.void(INTS, FLOATS, RNG, FLOATS)
SHUFFLE = types.void(INTS, FLOATS, RNG, INTS)
LATER, NOW, THOROUGHLY = 0, 1, 2  # efforts of `learn`


class Player(NamedTuple):
    """What a loop needs of a learner, besides its state and its random numbers."""

    act: Any  # compiled, of the type ACT
    solve: Any  # of the type SOLVE, handed to `act`
    learn: Any  # of the type LEARN
    program: Ints
    known: Floats
    parts: Ints
    numbers: Floats


def generator(seed: Any) -> Rng:
    """A generator of random numbers, of the kind that compiled functions accept."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise IdbanditsError(
            f"seed is a whole number from 0, a SeedSequence, a Generator or None, not {seed!r}"
        ) from None


@compiled
def act(
    solve: Any, program: Ints, known: Floats, parts: Ints, ints: Ints, floats: Floats, rng: Rng, action: Ints
) -> None:
    """Draw means and put the best action under them into `action`, whose contexts are given."""
    if ints[MEANS_GIVEN]:
        solve(program, known, floats, True, action, BUDGET)
    else:
        p = np.empty(learned_in(parts))
        draw_means(parts, floats, rng, p)
        solve(program, known, p, True, action, BUDGET)
    shuffle_idle(unpack(program, known)[1], rng, action)


@bare
def shuffle_idle(s: Decisions, rng: Rng, action: Ints) -> None:
    """Make decisions that nothing depends on at random, where that is in no other's way."""
    for k in range(s.decisions):
        if s.data[s.use_start + k] == s.data[s.use_start + k + 1] and s.data[s.choices + k] > 1:
            choice = int(rng.random() * s.data[s.choices + k])
            free = True
            for other in range(s.decisions):
                if other != k and clash(s, k, choice, other, action[other]):
                    free = False
            if free:
                action[k] = choice


@merged
def learned_in(parts: Ints) -> int:
    """The number of learned entries."""
    return unpack_parts(parts)[1].learned


@bare
def draw_means(parts: Ints, alpha: Floats, rng: Rng, p: Floats) -> None:
    """Draw every row of learned means."""
    draw_rows(unpack_parts(parts)[1], alpha, rng, p)


@compiled
def shuffle_once(program: Ints, known: Floats, rng: Rng, action: Ints) -> None:
    """Make idle decisions at random, for Python."""
    shuffle_idle(unpack(program, known)[1], rng, action)


@compiled
def draw_once(parts: Ints, alpha: Floats, rng: Rng, p: Floats) -> None:
    """Draw every row of learned means, for Python."""
    draw_means(parts, alpha, rng, p)


@compiled
def learn_all(
    learn: Any, program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, rounds: Ints, width: int
) -> int:
    """Take in rounds one by one, until one is refused or the state is full; how many were taken in."""
    for t in range(len(rounds)):
        if ints[USED] + ints[PER_ROUND] > ints[CAPACITY]:
            return t
        row = rounds[t]
        if learn(program, numbers, ints, floats, rng, row[:width], row[width:], 1, LATER) != DONE:
            return t
    return len(rounds)
