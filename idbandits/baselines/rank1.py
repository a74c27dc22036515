"""Rank1Elim and Rank1ElimKL: rows and columns are explored by turns, and those that are surely not best eliminated."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_diagram, checked_horizon, decisions_above
from idbandits.baselines.chance import below
from idbandits.baselines.confidence import kl_above, kl_below, level
from idbandits.diagram.declare import Diagram
from idbandits.errors import DiagramError, IdbanditsError
from idbandits.inference.groups import DONE, HEADER, ROUNDS
from idbandits.kernel.compiling import bare, compiled, in_python
from idbandits.kernel.types import Floats, Ints, Rng

ROWS, COLUMNS, KL, FACTOR = range(4)  # of a layout
STAGE, SIDE, AT, LEFT, OTHER, ARMS = range(HEADER, HEADER + 6)  # of the integers; then, for rows and columns, h
NOT_DRAWN = -1


@final
class Rank1Elim(Baseline):
    """Rank1Elim: finds the best row and the best column of a rank-1 matrix by elimination in stages.

    Katariya, Kveton, Szepesvári, Vernade and Wen, Stochastic Rank-1 Bandits, AISTATS 2017, Algorithm 1. By stage ℓ
    every row that is left was tried n_ℓ = ceil(4 · 4^ℓ log n) times in columns drawn at random, one for all rows, and
    every column in such rows; n is the `horizon`. Then rows whose mean + sqrt(log n / n_ℓ) is at most the highest mean
    - sqrt(log n / n_ℓ) are replaced by the row with that one, and columns too. What was eliminated is still drawn, as
    what replaced it. Rounds with other choices than `act` made are counted and nothing is learned from them.

    The authors' code (github.com/sumeetsk/rank1bandits) differs: its first stage is half as long, and it draws anew
    for every round.

    >>> from idbandits import models
    >>> learner = Rank1Elim(models.rank1(rows=2, columns=2), seed=0, horizon=1000)
    >>> for _ in range(1000):
    ...     action = learner.act()
    ...     learner.update(action, {"X": int(action == {"A1": 1, "A2": 0})})
    >>> learner.act()
    {'A1': 1, 'A2': 0}
    """

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int = 20_000) -> None:
        super().__init__(d, seed, act, learn, *_beginning("Rank1Elim", d, horizon, 0))


@final
class Rank1ElimKL(Baseline):
    """Rank1ElimKL: as Rank1Elim, with bounds by the Kullback-Leibler divergence.

    Katariya, Kveton, Szepesvári, Vernade and Wen, Bernoulli Rank-1 Bandits for Click Feedback, IJCAI 2017, Algorithm
    1: n_ℓ = ceil(16 · 4^ℓ log n), and the bounds are the q with n_ℓ d(mean, q) = log n + 3 log log n, or `level` in
    its place. The authors' code (github.com/sumeetsk/rank1bandits) has log t + log log t, t being the round: it
    eliminates more.

    >>> from idbandits import models
    >>> learner = Rank1ElimKL(models.rank1(rows=2, columns=2), seed=0, horizon=1000)
    >>> for _ in range(1000):
    ...     action = learner.act()
    ...     learner.update(action, {"X": int(action == {"A1": 1, "A2": 0})})
    >>> learner.act()
    {'A1': 1, 'A2': 0}
    """

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int = 20_000, level: float | None = None) -> None:
        if level is not None and not (isinstance(level, (int, float)) and 0 < level < math.inf):
            raise IdbanditsError(f"Rank1ElimKL: level is a positive number or None, not {level!r}")
        super().__init__(d, seed, act, learn, *_beginning("Rank1ElimKL", d, horizon, 1, level))


def _beginning(
    who: str, d: Diagram, horizon: Any, kl: int, given: float | None = None
) -> tuple[list[int], Ints, Floats]:
    """The layout and the state: h, sums of what was seen by row and by column, log n and the level of the bounds."""
    rows, columns = _factors(who, d)
    n = checked_horizon(who, horizon)
    layout = [rows, columns, kl, 16 if kl else 4]
    ints = np.array([0, 0, 0, 0, NOT_DRAWN, *range(rows), *range(columns)], dtype=np.int64)
    ints[LEFT - HEADER] = math.ceil(layout[FACTOR] * math.log(n))
    log = math.log(n)
    confidence = given if given is not None else in_python(level)(n) if kl else log
    return layout, ints, np.array([log, confidence, *np.zeros(rows + columns)])


def _factors(who: str, d: Diagram) -> tuple[int, int]:
    check_diagram(who, d)
    decisions, seen = d.of_kind("decision"), d.of_kind("observed")
    if len(decisions) != 2 or any(len(group) > 1 for group in d.different):
        raise DiagramError(
            f"{who} chooses a row and a column: two decisions without constraints; diagram {d.name!r} has "
            f"{', '.join(n.name for n in decisions)}{', all different' if d.different else ''}"
        )
    if len(seen) != 1 or seen[0].states != 2 or decisions_above(d, seen[0].name) != {n.name for n in decisions}:
        raise DiagramError(
            f"{who} sees one node with two states that depends on {decisions[0].name!r} and {decisions[1].name!r}; "
            f"diagram {d.name!r} observes "
            + (", ".join(f"{n.name!r} with {n.states} states" for n in seen) or "nothing")
        )
    total = np.zeros(2)
    for term in d.rewards:
        if term.parents != (seen[0].name,):
            raise DiagramError(
                f"{who} is rewarded by {seen[0].name!r} alone; a reward term depends on {', '.join(term.parents)}"
            )
        total += term.table
    if total[1] <= total[0]:
        raise DiagramError(f"{who}: {seen[0].name!r} = {seen[0].values[1]!r} is to be worth more than the other state")
    return decisions[0].states, decisions[1].states


@compiled
def act(
    solve: Any, program: Ints, known: Floats, layout: Ints, ints: Ints, floats: Floats, rng: Rng, action: Ints
) -> None:
    """The next of the rows in a column drawn at random, or of the columns in a row."""
    rows, columns = layout[ROWS], layout[COLUMNS]
    if ints[OTHER] == NOT_DRAWN:
        drawn = ints[ARMS + rows + below(rng, columns)] if ints[SIDE] == 0 else ints[ARMS + below(rng, rows)]
        ints[OTHER] = drawn
    action[ints[SIDE]] = ints[AT]
    action[1 - ints[SIDE]] = ints[OTHER]


@compiled
def learn(
    layout: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    """Count what was seen in the row or column that it was the turn of; go on to the next, and eliminate in time."""
    ints[ROUNDS] += times
    side = ints[SIDE]
    if action[side] != ints[AT] or action[1 - side] != ints[OTHER]:
        return DONE
    rows = layout[ROWS]
    first, number = (ARMS, rows) if side == 0 else (ARMS + rows, layout[COLUMNS])
    floats[2 + first - ARMS + ints[AT]] += seen[0]
    at = ints[AT] + 1
    while at < number and ints[first + at] != at:  # eliminated
        at += 1
    if at < number:
        ints[AT] = at
        return DONE
    if side == 1:
        ints[LEFT] -= 1
        if ints[LEFT] == 0:
            stage = ints[STAGE]
            tried = math.ceil(layout[FACTOR] * 4.0**stage * floats[0])
            eliminate(layout[KL], tried, floats[1], ints[ARMS : ARMS + rows], floats[2 : 2 + rows])
            eliminate(layout[KL], tried, floats[1], ints[ARMS + rows :], floats[2 + rows :])
            ints[STAGE] = stage + 1
            ints[LEFT] = math.ceil(layout[FACTOR] * 4.0 ** (stage + 1) * floats[0]) - tried
    ints[SIDE] = 1 - side
    ints[OTHER] = NOT_DRAWN
    first = ARMS if side == 1 else ARMS + rows
    at = 0
    while ints[first + at] != at:
        at += 1
    ints[AT] = at
    return DONE


@bare
def eliminate(kl: int, tried: int, confidence: float, h: Ints, sums: Floats) -> None:
    """Replace what is surely worse than the one with the highest lower bound by that one."""
    best, highest = 0, -math.inf
    for i in range(len(h)):
        if h[i] == i:
            mean = sums[i] / tried
            low = kl_below(mean, confidence / tried) if kl else mean - math.sqrt(confidence / tried)
            if low > highest:
                best, highest = i, low
    for i in range(len(h)):
        mean = sums[h[i]] / tried
        high = kl_above(mean, confidence / tried) if kl else mean + math.sqrt(confidence / tried)
        if h[i] != best and high <= highest:
            h[i] = best
