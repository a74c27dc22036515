"""A round as one value, as kernels and inferences get it, and what `learn` says of it."""

from typing import NamedTuple

import numpy as np
from numba import types

from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.compile import FLOATS, INTS

DONE, IMPOSSIBLE, AMBIGUOUS, UNKNOWN = range(4)  # what `learn` returns; unless it is DONE, nothing has changed
# how far `learn` brings the belief up to date: not yet, as after every round, as after many rounds at once
LATER, NOW, THOROUGHLY = range(3)
NO_FEATURES: Floats = np.empty(0)  # where no context has features


class Round(NamedTuple):
    """Round to learn from, in the numbers of a diagram.

    Attributes
    ----------
    action : array of int64
        Indices of choices and values: decisions, then contexts, in the order of declaration.
    seen : array of int64
        Indices of states of the observed nodes, in the order of declaration; -1 if not observed.
    features : array of float64
        Encoded features of contexts.
    time : float
        When the round was played, by the clock of a learner that forgets; NaN: now.
    times : int
        Number of equal rounds; negative for rounds to remove; 0 only brings the belief up to date.
    effort : int
        `LATER` (only count, more rounds follow), `NOW` (after every round) or `THOROUGHLY` (after many rounds).
    keep : float
        Part of everything learned before that is kept.
    weight : float
        Weight of this round, below 1 if it has faded since.

    Examples
    --------
    >>> round_ = Round(np.array([2]), np.array([1]))
    >>> round_.times, round_.keep, round_.weight
    (1, 1.0, 1.0)
    """

    action: Ints  # decisions, then contexts
    seen: Ints  # observed nodes; -1: not seen
    features: Floats = NO_FEATURES  # of contexts
    time: float = np.nan  # when it was played, by the clock of a learner that forgets; NaN: now
    times: int = 1  # number of equal rounds; negative: rounds to remove; 0: only bring the belief up to date
    effort: int = NOW
    keep: float = 1.0  # part of everything learned before that is kept; `learn` gets it from the clock
    weight: float = 1.0  # of this round; below 1 if it has faded since


ROUND = types.NamedTuple(
    [INTS, INTS, FLOATS, types.float64, types.int64, types.int64, types.float64, types.float64], Round
)
