"""Acting and learning as compiled functions of an agent's state, and the types by which loops are handed them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import typeof, types

from idbandits.evidence import unpack as unpack_parts
from idbandits.inference.drawing import draw_rows
from idbandits.inference.groups import CAPACITY, DONE, MEANS_GIVEN, PER_ROUND, USED
from idbandits.inference.protocol import Rng
from idbandits.passes import bare, compiled, merged
from idbandits.search import Decisions, clash
from idbandits.solve import BUDGET, solve, unpack
from idbandits.tables import Floats, Ints

INTS, FLOATS, RNG = types.int64[::1], types.float64[::1], typeof(np.random.default_rng(0))  # type: ignore[no-untyped-call]
ACT = types.void(INTS, FLOATS, INTS, INTS, FLOATS, RNG, INTS)
LEARN = types.int64(INTS, FLOATS, INTS, FLOATS, RNG, INTS, INTS, types.int64, types.int64)
LEARN_ALL = types.int64(types.FunctionType(LEARN), INTS, FLOATS, INTS, FLOATS, RNG, types.int64[:, ::1], types.int64)
LATER, NOW, THOROUGHLY = 0, 1, 2  # efforts of `learn`


@compiled
def act(program: Ints, known: Floats, parts: Ints, ints: Ints, floats: Floats, rng: Rng, action: Ints) -> None:
    """Draw means and put the best action under them into `action`, whose contexts are given."""
    c, s = unpack(program, known)
    learned = learned_in(parts)
    constants = len(known) - len(s.zero)
    p = np.empty(learned + constants)
    if ints[MEANS_GIVEN]:
        p[:learned] = floats[:learned]
    else:
        draw_means(parts, floats, rng, p)
    for i in range(constants):
        p[learned + i] = known[len(s.zero) + i]
    solve(c, s, p, action, BUDGET)
    shuffle_idle(s, rng, action)


@compiled
def shuffle_idle(s: Decisions, rng: Rng, action: Ints) -> None:
    """Make decisions that nothing depends on at random, where that is in no other's way."""
    for k in range(s.decisions):
        if s.data[s.use_start + k] == s.data[s.use_start + k + 1] and s.data[s.choices + k] > 1:
            choice = rng.integers(0, s.data[s.choices + k])
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
