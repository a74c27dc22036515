"""Rank1Elim and Rank1ElimKL: rows and columns are explored by turns, and those that are surely not best eliminated."""

import math
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import MOST_ROUNDS, Baseline, check_diagram, decisions_above, kernels, state_of
from idbandits.baselines.confidence import kl_above, kl_below
from idbandits.baselines.confidence import level as kl_level
from idbandits.diagram.diagram import Diagram
from idbandits.errors import DiagramError, check_number, check_whole
from idbandits.inference.protocol import Round
from idbandits.inference.state.state import HEADER, State
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import in_python, inlined, unmanaged
from idbandits.kernel.sampling import below
from idbandits.kernel.structs import pointer

# Of the integers of a state: the stage, the side whose turn it is (0: rows, 1: columns), which of its arms comes next,
# how often all are still to be tried in this stage, and the arm drawn on the other side; then h of all rows and columns
STAGE, SIDE, NEXT, LEFT, DRAWN, H = range(HEADER, HEADER + 6)
NOT_DRAWN = -1


class Layout(NamedTuple):
    """What does not change."""

    rows: int
    columns: int
    kl: int  # whether bounds are by the Kullback-Leibler divergence
    factor: int  # of the numbers of trials
    log_horizon: float
    level: float  # the confidence level of the bounds


class Side(NamedTuple):
    """The rows, or the columns."""

    number: int
    h: Ints  # what stands for each: itself until it is eliminated
    sums: Floats  # of what was seen


@inlined
def side_of(layout: Layout, state: State, side: int) -> Side:
    """The rows or the columns of a state."""
    first, number = (0, layout.rows) if side == 0 else (layout.rows, layout.columns)
    return Side(number, pointer(state.ints, H + first), pointer(state.floats, first))


@unmanaged
def act(layout: Layout, state: State, rng: Rng, action: Ints) -> None:
    """The next of the rows in a column drawn at random, or of the columns in a row."""
    ints, side = state.ints, state.ints[SIDE]
    if ints[DRAWN] == NOT_DRAWN:
        other = side_of(layout, state, 1 - side)
        ints[DRAWN] = other.h[below(rng, other.number)]
    action[side], action[1 - side] = ints[NEXT], ints[DRAWN]


@unmanaged
def learn(layout: Layout, state: State, rng: Rng, round_: Round) -> None:
    """Count what was seen in the row or column whose turn it was; go on to the next, and eliminate in time."""
    ints, number = state.ints, state.ints[SIDE]
    side, other = side_of(layout, state, number), side_of(layout, state, 1 - number)
    if round_.action[number] != ints[NEXT] or round_.action[1 - number] != ints[DRAWN]:
        return
    side.sums[ints[NEXT]] += round_.seen[0]
    ints[NEXT] = first_left(side, ints[NEXT] + 1)
    if ints[NEXT] < side.number:
        return
    if number == 1:
        ints[LEFT] -= 1
        if ints[LEFT] == 0:
            tried = trials(layout, ints[STAGE])
            eliminate(layout, tried, other)
            eliminate(layout, tried, side)
            ints[STAGE] += 1
            ints[LEFT] = trials(layout, ints[STAGE]) - tried
    ints[SIDE], ints[DRAWN], ints[NEXT] = 1 - number, NOT_DRAWN, first_left(other, 0)


@inlined
def first_left(side: Side, start: int) -> int:
    """The first row or column from `start` that was not eliminated; their number if there is none."""
    at = start
    while at < side.number and side.h[at] != at:
        at += 1
    return at


@inlined
def trials(layout: Layout, stage: int) -> int:
    """How often every row and every column that is left was tried by the end of a stage."""
    number: int = math.ceil(layout.factor * 4.0**stage * layout.log_horizon)
    return number


@unmanaged
def eliminate(layout: Layout, tried: int, side: Side) -> None:
    """Replace what is surely worse than the one with the highest lower bound by that one."""
    h, sums, allowance = side.h, side.sums, layout.level / tried
    best, highest = 0, -math.inf
    for i in range(side.number):
        if h[i] == i:
            mean = sums[i] / tried
            low = kl_below(mean, allowance) if layout.kl else mean - math.sqrt(allowance)
            if low > highest:
                best, highest = i, low
    for i in range(side.number):
        mean = sums[h[i]] / tried
        high = kl_above(mean, allowance) if layout.kl else mean + math.sqrt(allowance)
        if h[i] != best and high <= highest:
            h[i] = best


@final
class Rank1Elim(Baseline):
    """Rank1Elim: finds the best row and the best column of a rank-1 matrix by elimination in stages.

    Katariya, Kveton, Szepesvári, Vernade and Wen, Stochastic Rank-1 Bandits, AISTATS 2017, Algorithm 1. By stage ℓ
    every row that is left was tried n_ℓ = ceil(4 · 4^ℓ log n) times in columns drawn at random, one for all rows, and
    every column in such rows; n is the `horizon`. Then rows whose mean + sqrt(log n / n_ℓ) is at most the highest mean
    - sqrt(log n / n_ℓ) are replaced by the row with that one, and columns too. What was eliminated is still drawn, as
    what replaced it. Rounds with other choices than `act` made are counted and nothing is learned from them. The
    authors' code (github.com/sumeetsk/rank1bandits) has a first stage half as long, and draws anew for every round.

    >>> from idbandits import models
    >>> learner = Rank1Elim(models.rank1(rows=2, columns=2), seed=0, horizon=1000)
    >>> for _ in range(1000):
    ...     action = learner.act()
    ...     learner.update(action, {"X": int(action == {"A1": 1, "A2": 0})})
    >>> learner.act()
    {'A1': 1, 'A2': 0}
    """

    ACT, LEARN = kernels("Rank1Elim", Layout, act, learn)

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int = 20_000) -> None:
        rounds = check_whole("Rank1Elim: horizon", horizon, 2, MOST_ROUNDS)
        super().__init__(d, seed, *_start("Rank1Elim", d, rounds, math.log(rounds), kl=False))


@final
class Rank1ElimKL(Baseline):
    """Rank1ElimKL: as Rank1Elim, with bounds by the Kullback-Leibler divergence.

    Katariya, Kveton, Szepesvári, Vernade and Wen, Bernoulli Rank-1 Bandits for Click Feedback, IJCAI 2017, Algorithm
    1: n_ℓ = ceil(16 · 4^ℓ log n), and the bounds are the q with n_ℓ d(mean, q) = log n + 3 log log n, or `level` in
    its place. The authors' code (github.com/sumeetsk/rank1bandits) has log t + log log t, t being the round: it
    eliminates more.

    >>> from idbandits import models
    >>> Rank1ElimKL(models.rank1(rows=2, columns=2), horizon=1000)
    Rank1ElimKL('rank-1'; 0 rounds)
    """

    ACT, LEARN = Rank1Elim.ACT, Rank1Elim.LEARN

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int = 20_000, level: float | None = None) -> None:
        rounds = check_whole("Rank1ElimKL: horizon", horizon, 2, MOST_ROUNDS)
        given = None if level is None else check_number("Rank1ElimKL: level", level, 0, above=True)
        super().__init__(d, seed, *_start("Rank1ElimKL", d, rounds, given or in_python(kl_level)(rounds), kl=True))


def _start(who: str, d: Diagram, rounds: int, confidence: float, kl: bool) -> tuple[Layout, State]:
    """The layout, and the state before the first round, if the diagram fits."""
    decisions, observed = check_diagram(who, d)
    names = [n.name for n in decisions]
    if len(decisions) != 2 or any(len(group) > 1 for group in d.different):
        has = f"diagram {d.name!r} has {', '.join(names)}{', all different' if d.different else ''}"
        raise DiagramError(f"{who} chooses a row and a column: two decisions without constraints; {has}")
    if len(observed) != 1 or observed[0].states != 2 or decisions_above(d, observed[0].name) != set(names):
        seen = ", ".join(f"{n.name!r} with {n.states} states" for n in observed) or "nothing"
        needed = f"one node with two states that depends on {names[0]!r} and {names[1]!r}"
        raise DiagramError(f"{who} sees {needed}; diagram {d.name!r} observes {seen}")
    name, values = observed[0].name, observed[0].values
    for parents in (term.parents for term in d.rewards if term.parents != (name,)):
        raise DiagramError(f"{who} is rewarded by {name!r} alone; a reward term depends on {', '.join(parents)}")
    low, high = sum((term.table for term in d.rewards), np.zeros(2))
    if high <= low:
        raise DiagramError(f"{who}: {name!r} = {values[1]!r} must be worth more than the other state")
    rows, columns = (n.states for n in decisions)
    factor, log = 16 if kl else 4, math.log(rounds)
    progress = [0, 0, 0, math.ceil(factor * log), NOT_DRAWN]  # STAGE to DRAWN
    state = state_of(np.zeros(rows + columns), [*progress, *range(rows), *range(columns)])
    return Layout(rows, columns, kl, factor, log, confidence), state
