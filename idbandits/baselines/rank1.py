"""Rank1Elim and Rank1ElimKL: explore rows and columns in turn, and eliminate those that are suboptimal."""

import math
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_diagram, check_horizon, decisions_above, kernels, state_of
from idbandits.baselines.confidence import kl_above, kl_below
from idbandits.baselines.confidence import level as kl_level
from idbandits.diagram.diagram import Diagram
from idbandits.errors import DiagramError, check_number
from idbandits.inference.rounds.round import Round
from idbandits.inference.state.state import HEADER, State
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import in_python, inlined, unmanaged
from idbandits.kernel.sampling import below
from idbandits.kernel.structs import pointer

# Integers of the state: the stage, the side being explored (0: rows, 1: columns), its next arm, the passes left in this
# stage, and the arm drawn on the other side; then h of all rows and columns
STAGE, SIDE, NEXT, LEFT, DRAWN, H = range(HEADER, HEADER + 6)
NOT_DRAWN = -1


class Rank1Config(NamedTuple):
    """Settings of Rank1Elim and Rank1ElimKL."""

    rows: int
    columns: int
    kl: int  # 1 for bounds by the Kullback-Leibler divergence
    factor: int  # of the numbers of trials
    log_horizon: float
    level: float  # confidence level of the bounds


class Side(NamedTuple):
    """Rows or columns."""

    number: int
    h: Ints  # the row itself, or the row that replaced it after its elimination
    sums: Floats  # of rewards


@inlined
def side_of(config: Rank1Config, state: State, side: int) -> Side:
    """Return the rows (0) or the columns (1) of a state."""
    first, number = (0, config.rows) if side == 0 else (config.rows, config.columns)
    return Side(number, pointer(state.ints, H + first), pointer(state.floats, first))


@unmanaged
def act(config: Rank1Config, state: State, rng: Rng, action: Ints) -> None:
    """Choose the next row in a random column, or the next column in a random row."""
    ints, side = state.ints, state.ints[SIDE]
    if ints[DRAWN] == NOT_DRAWN:
        other = side_of(config, state, 1 - side)
        ints[DRAWN] = other.h[below(rng, other.number)]
    action[side], action[1 - side] = ints[NEXT], ints[DRAWN]


@unmanaged
def learn(config: Rank1Config, state: State, rng: Rng, round_: Round) -> None:
    """Add the reward to the explored row or column, and go to the next one; eliminate at the end of a stage."""
    ints, number = state.ints, state.ints[SIDE]
    side, other = side_of(config, state, number), side_of(config, state, 1 - number)
    if round_.action[number] != ints[NEXT] or round_.action[1 - number] != ints[DRAWN]:
        return
    side.sums[ints[NEXT]] += round_.seen[0]
    ints[NEXT] = first_left(side, ints[NEXT] + 1)
    if ints[NEXT] < side.number:
        return
    if number == 1:
        ints[LEFT] -= 1
        if ints[LEFT] == 0:
            tried = trials(config, ints[STAGE])
            eliminate(config, tried, other)
            eliminate(config, tried, side)
            ints[STAGE] += 1
            ints[LEFT] = trials(config, ints[STAGE]) - tried
    ints[SIDE], ints[DRAWN], ints[NEXT] = 1 - number, NOT_DRAWN, first_left(other, 0)


@inlined
def first_left(side: Side, start: int) -> int:
    """Return the first row or column from `start` that is not eliminated; their number if there is none."""
    at = start
    while at < side.number and side.h[at] != at:
        at += 1
    return at


@inlined
def trials(config: Rank1Config, stage: int) -> int:
    """Return the number of trials of every remaining row and column by the end of a stage."""
    number: int = math.ceil(config.factor * 4.0**stage * config.log_horizon)
    return number


@unmanaged
def eliminate(config: Rank1Config, tried: int, side: Side) -> None:
    """Replace rows whose upper bound is at most the highest lower bound by the row with that lower bound."""
    h, sums, allowance = side.h, side.sums, config.level / tried
    best, highest = 0, -math.inf
    for i in range(side.number):
        if h[i] == i:
            mean = sums[i] / tried
            low = kl_below(mean, allowance) if config.kl else mean - math.sqrt(allowance)
            if low > highest:
                best, highest = i, low
    for i in range(side.number):
        mean = sums[h[i]] / tried
        high = kl_above(mean, allowance) if config.kl else mean + math.sqrt(allowance)
        if h[i] != best and high <= highest:
            h[i] = best


@final
class Rank1Elim(Baseline):
    """Rank1Elim: finds the best row and the best column of a rank-1 matrix by elimination in stages.

    Katariya, Kveton, Szepesvári, Vernade and Wen, Stochastic Rank-1 Bandits, AISTATS 2017, Algorithm 1. By stage ℓ,
    every remaining row was tried n_ℓ = ceil(4 · 4^ℓ log n) times in random columns, the same for all rows, and every
    column in random rows; n is the `horizon`. Then rows whose mean + sqrt(log n / n_ℓ) is at most the highest mean -
    sqrt(log n / n_ℓ) are replaced by the row with that mean, and columns likewise. An eliminated row is still drawn, as
    its replacement. Rounds whose action is not that of `act` are counted and otherwise ignored. In the authors' code
    (github.com/sumeetsk/rank1bandits) the first stage is half as long, and every round has a new random column.

    Parameters
    ----------
    d : Diagram
        Diagram with two decisions and one observed node, as `models.rank1`.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    horizon : int
        Number of rounds.

    Examples
    --------
    >>> from idbandits import models
    >>> learner = Rank1Elim(models.rank1(rows=2, columns=2), seed=0, horizon=1000)
    >>> for _ in range(1000):
    ...     action = learner.act()
    ...     learner.update(action, {"X": int(action == {"A1": 1, "A2": 0})})
    >>> learner.act()
    {'A1': 1, 'A2': 0}
    """

    ACT, LEARN = kernels("Rank1Elim", Rank1Config, act, learn)

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int = 20_000) -> None:
        rounds = check_horizon("Rank1Elim", horizon)
        super().__init__(d, seed, *_start("Rank1Elim", d, rounds, math.log(rounds), kl=False))


@final
class Rank1ElimKL(Baseline):
    """Rank1ElimKL: Rank1Elim with bounds by the Kullback-Leibler divergence.

    Katariya, Kveton, Szepesvári, Vernade and Wen, Bernoulli Rank-1 Bandits for Click Feedback, IJCAI 2017, Algorithm 1:
    n_ℓ = ceil(16 · 4^ℓ log n), and the bounds are the q with n_ℓ d(mean, q) = `level`. The authors' code
    (github.com/sumeetsk/rank1bandits) has log t + log log t in round t, which eliminates more.

    Parameters
    ----------
    d : Diagram
        Diagram with two decisions and one observed node, as `models.rank1`.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    horizon : int
        Number of rounds n.
    level : float, optional
        Confidence level; log n + 3 log log n by default.

    Examples
    --------
    >>> from idbandits import models
    >>> Rank1ElimKL(models.rank1(rows=2, columns=2), horizon=1000)
    Rank1ElimKL('rank-1'; 0 rounds)
    """

    ACT, LEARN = Rank1Elim.ACT, Rank1Elim.LEARN

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int = 20_000, level: float | None = None) -> None:
        rounds = check_horizon("Rank1ElimKL", horizon)
        if level is None:
            level = in_python(kl_level)(rounds)
        confidence = check_number("Rank1ElimKL: level", level, 0, above=True)
        super().__init__(d, seed, *_start("Rank1ElimKL", d, rounds, confidence, kl=True))


def _start(who: str, d: Diagram, rounds: int, confidence: float, kl: bool) -> tuple[Rank1Config, State]:
    """Return the configuration and the initial state; raise if the diagram is not a rank-1 bandit."""
    decisions, observed = check_diagram(who, d)
    names = [n.name for n in decisions]
    if len(decisions) != 2 or any(len(group) > 1 for group in d.different):
        has = f"diagram {d.name!r} has {', '.join(names)}{', all different' if d.different else ''}"
        raise DiagramError(f"{who} needs two decisions without constraints; {has}")
    if len(observed) != 1 or observed[0].states != 2 or decisions_above(d, observed[0].name) != set(names):
        seen = ", ".join(f"{n.name!r} with {n.states} states" for n in observed) or "nothing"
        needed = f"one node with two states that depends on {names[0]!r} and {names[1]!r}"
        raise DiagramError(f"{who} must observe {needed}; diagram {d.name!r} observes {seen}")
    name, values = observed[0].name, observed[0].values
    for parents in (term.parents for term in d.rewards if term.parents != (name,)):
        raise DiagramError(f"{who}: the reward must depend on {name!r} alone; a term depends on {', '.join(parents)}")
    low, high = sum((term.table for term in d.rewards), np.zeros(2))
    if high <= low:
        raise DiagramError(f"{who}: {name!r} = {values[1]!r} must have a higher reward than the other state")
    rows, columns = (n.states for n in decisions)
    factor, log = 16 if kl else 4, math.log(rounds)
    progress = [0, 0, 0, math.ceil(factor * log), NOT_DRAWN]  # STAGE to DRAWN
    state = state_of(np.zeros(rows + columns), [*progress, *range(rows), *range(columns)])
    return Rank1Config(rows, columns, kl, factor, log, confidence), state
