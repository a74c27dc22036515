"""GRAB: the best list so far and its neighbours, in the position-based model with unknown examination."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from idbandits.baselines.baseline import Baseline, checked_horizon, ranking
from idbandits.baselines.chance import below
from idbandits.baselines.confidence import kl_exponent, level
from idbandits.diagram.declare import Diagram
from idbandits.errors import IdbanditsError, is_integer
from idbandits.inference.groups import CAPACITY, DONE, HEADER, ROUNDS, WIDTH, find, insert
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng
from idbandits.solve.assignment import match

POSITIONS, ITEMS, PERIOD = range(3)  # of a layout
FIXED, STARTED, FIRST = range(3)  # of the floats; then the leader, and four numbers for every item at a position
TIES = 1e-9


@final
class GRAB(Baseline):
    """GRAB: shows the list that looks best, or the one of its neighbours with the highest upper confidence bound.

    Gauthier, Gaudel, Fromont and Lompo, Parametric Graph for Unimodal Ranking Bandit, ICML 2021, Algorithm 1. The
    leader is the assignment of items to positions with the highest sum of mean clicks. Its neighbours swap the items
    of two positions that follow one another when positions are ordered by the mean clicks of the leader there, or
    replace the item at the last of these positions by one that is not shown. The leader is shown every (`gamma` +
    1)-th time that it leads, else the list with the highest sum of indices among it and its neighbours; `gamma` is
    the number of neighbours, items - 1, if not given. The index is the highest q with times · d(mean, q) ≤ log n + 3
    log log n, n being how often the leader has led, or log `horizon` as in the authors' code
    (github.com/gaudel/ranking_bandits), which also shows the leader every (items - positions)-th time; 1 for what was
    never tried. The mean of what was never tried is 0; ties between leaders are broken by a random order that stays,
    those between neighbours anew each time.

    >>> from idbandits import models
    >>> learner = GRAB(models.position_based(items=4, positions=2), seed=0)
    >>> for _ in range(300):
    ...     action = learner.act()
    ...     learner.update(action, {"C1": int(action["A1"] == 3), "C2": int(action["A2"] == 1)})
    >>> learner.act()
    {'A1': 3, 'A2': 1}
    """

    def __init__(
        self, d: Diagram, seed: Any = None, *, horizon: int | None = None, gamma: int | None = None
    ) -> None:  # fmt: skip
        positions, items = ranking("GRAB", d)
        if gamma is not None and (not is_integer(gamma) or gamma < 0):
            raise IdbanditsError(f"GRAB: gamma is a whole number from 0, not {gamma!r}")
        fixed = 0.0 if horizon is None else math.log(checked_horizon("GRAB", horizon))
        layout = [positions, items, 1 + (items - 1 if gamma is None else int(gamma))]
        floats = np.array([fixed, 0.0, *np.zeros(positions + 4 * positions * items)])
        none = np.empty(0, dtype=np.int64)
        super().__init__(d, seed, act, learn, layout, none, floats, lists=positions)


@compiled
def act(
    solve: Any, program: Ints, known: Floats, layout: Ints, ints: Ints, floats: Floats, rng: Rng, action: Ints
) -> None:
    """Find the leader, and show it or one of its neighbours."""
    positions, items = layout[POSITIONS], layout[ITEMS]
    size = positions * items
    kept = floats[FIRST + positions :]
    if floats[STARTED] == 0.0:
        for a in range(size):
            kept[3 * size + a] = TIES * rng.random()
    room, whole = np.empty(size + 2 * items + positions + 3), np.empty(2 * items + 2, np.int64)
    for a in range(size):
        mean = kept[size + a] / kept[a] if kept[a] > 0.0 else 0.0
        room[a] = mean + kept[3 * size + a]
    match(room, positions, items, whole, room[size:], action)
    for k in range(positions):
        floats[FIRST + k] = action[k]
    floats[STARTED] = 1.0
    group = find(ints, action)
    led = ints[HEADER + (2 + ints[WIDTH]) * ints[CAPACITY] + group] if group >= 0 else 0
    if led % layout[PERIOD] > 0:
        allowed = floats[FIXED] if floats[FIXED] > 0.0 else level(led)
        explore(positions, items, allowed, room, kept, rng, whole, action)


@bare
def explore(
    positions: int, items: int, allowed: float, means: Floats, kept: Floats, rng: Rng, order: Ints, action: Ints
) -> None:
    """Change the leader in `action` into the neighbour with the highest sum of indices, if that is higher."""
    for k in range(positions):  # by the mean clicks of the leader
        at = k
        while at > 0 and leads(items, means, action, k, order[at - 1]):
            order[at] = order[at - 1]
            at -= 1
        order[at] = k
    gain, ties, first, second, item = 0.0, 1, -1, -1, -1
    for i in range(positions - 1):
        k, other = order[i], order[i + 1]
        more = (
            bound(positions, items, allowed, kept, k, action[other])
            + bound(positions, items, allowed, kept, other, action[k])
            - bound(positions, items, allowed, kept, k, action[k])
            - bound(positions, items, allowed, kept, other, action[other])
        )
        if more > gain:
            gain, ties, first, second = more, 1, k, other
        elif more == gain and first >= 0:
            ties += 1
            if below(rng, ties) == 0:
                first, second = k, other
    last = order[positions - 1]
    base = bound(positions, items, allowed, kept, last, action[last])
    for i in range(items):
        shown = False
        for k in range(positions):
            shown |= action[k] == i
        if shown:
            continue
        more = bound(positions, items, allowed, kept, last, i) - base
        if more > gain:
            gain, ties, first, item = more, 1, last, i
        elif more == gain and first >= 0:
            ties += 1
            if below(rng, ties) == 0:
                first, item = last, i
    if item >= 0:
        action[last] = item
    elif first >= 0:
        item = action[first]
        action[first] = action[second]
        action[second] = item


@bare
def leads(items: int, means: Floats, action: Ints, k: int, other: int) -> bool:
    """Whether the leader has more clicks at one position than at another."""
    return bool(means[k * items + action[k]] > means[other * items + action[other]])


@bare
def bound(positions: int, items: int, allowed: float, kept: Floats, k: int, item: int) -> float:
    """The index of an item at a position; it is sought from where it was last."""
    size, a = positions * items, k * items + item
    if kept[a] == 0.0:
        return 1.0
    mean: float = kept[size + a] / kept[a]
    if allowed <= 0.0:
        return mean
    x = kl_exponent(mean, allowed / kept[a], kept[2 * size + a])
    kept[2 * size + a] = x
    return max(mean, -math.expm1(-x))


@compiled
def learn(
    layout: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    """Count clicks on items at positions, and that the leader has led."""
    positions, items = layout[POSITIONS], layout[ITEMS]
    if floats[STARTED] > 0.0:
        leader = np.empty(positions, np.int64)
        for k in range(positions):
            leader[k] = int(floats[FIRST + k])
        group = insert(ints, leader)
        ints[HEADER + (2 + ints[WIDTH]) * ints[CAPACITY] + group] += times
    for k in range(positions):
        a = FIRST + positions + k * items + action[k]
        floats[a] += times
        floats[a + positions * items] += times * seen[k]
    ints[ROUNDS] += times
    return DONE
