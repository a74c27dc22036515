"""What a loop in compiled code needs of a learner, and how Thompson sampling acts in one."""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numba import types

from idbandits.diagram.declare import Diagram
from idbandits.inference.protocol import PACKED, STATE
from idbandits.inference.workspace import unpack as unpack_parts
from idbandits.kernel.compiling import INTS, RNG, Kernel, bare, function_at, handle_type, kernel
from idbandits.kernel.draws import draw_rows
from idbandits.kernel.fields import Packed
from idbandits.kernel.states import ACTS_ON_MEANS, State
from idbandits.kernel.types import Floats, Ints, Rng
from idbandits.solve.best import BUDGET, SOLVE, shuffle_idle
from idbandits.solve.best import unpack as unpack_solver

ACT = types.void(handle_type(SOLVE), PACKED, PACKED, STATE, RNG, INTS)
solve_at = function_at(SOLVE)


class Player(NamedTuple):
    """How a learner acts and learns, besides its state and its random numbers."""

    act: Kernel  # of the signature ACT
    learn: Kernel  # of the signature LEARN
    solve: Kernel  # of the signature SOLVE, handed to `act`
    solver: Packed  # what it works on
    evidence: Packed  # what `act` and `learn` work on

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels to compile."""
        return [self.act, self.solve, self.learn]


class Playing(Protocol):
    """A learner that a loop in compiled code can play: agents and baselines are."""

    diagram: Diagram
    state: State
    rng: Rng

    @property
    def player(self) -> Player | None:
        """How it acts and learns; None if it does so in Python."""

    def copy(self, seed: Any = None) -> Self:
        """A learner that knows the same; with its own random numbers if a seed is given."""


@bare
def draw_means(evidence: Packed, alpha: Floats, rng: Rng, means: Floats) -> None:
    """Draw every row of learned means."""
    _, v = unpack_parts(evidence.ints, evidence.floats)
    draw_rows(v.size, v.learned, alpha, rng, means)


@bare
def number_learned(evidence: Packed) -> int:
    """The number of learned entries."""
    _, v = unpack_parts(evidence.ints, evidence.floats)
    return v.learned


@kernel(ACT)
def act(solve: Any, solver: Packed, evidence: Packed, state: State, rng: Rng, action: Ints) -> None:
    """Draw means and put the best action under them into `action`, whose contexts are given."""
    if state.ints[ACTS_ON_MEANS]:
        solve_at(solve)(solver.ints, solver.floats, state.floats, True, action, BUDGET)
    else:
        means = np.empty(number_learned(evidence))
        draw_means(evidence, state.floats, rng, means)
        solve_at(solve)(solver.ints, solver.floats, means, True, action, BUDGET)
    _, s = unpack_solver(solver.ints, solver.floats)
    shuffle_idle(s, rng, action)


@kernel(types.void(PACKED, STATE, RNG, types.float64[::1]))
def draw(evidence: Packed, state: State, rng: Rng, means: Floats) -> None:
    """The means that an action would be based on."""
    if state.ints[ACTS_ON_MEANS]:
        for e in range(len(means)):
            means[e] = state.floats[e]
    else:
        draw_means(evidence, state.floats, rng, means)
