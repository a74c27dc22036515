"""GRAB: the best list so far and its neighbours, in the position-based model with unknown examination."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import Baseline, learner, ranking
from idbandits.baselines.confidence import kl_exponent, level
from idbandits.diagram.declare import Diagram
from idbandits.errors import check_whole
from idbandits.inference.playing import ACT
from idbandits.inference.protocol import Round
from idbandits.kernel.compiling import bare, kernel, merged, part
from idbandits.kernel.draws import below
from idbandits.kernel.fields import Packed, pointer, unpacker
from idbandits.kernel.states import State, groups_in, insert, place_of, with_groups
from idbandits.kernel.types import Floats, Ints, Rng
from idbandits.solve.assignment import match

STARTED, LEADER = range(2)  # of the floats of a state: whether there is a leader, and its items; then what Arms has
TIES = 1e-9


class Layout(NamedTuple):
    """What does not change."""

    positions: int
    items: int
    period: int  # the leader is shown every so many times that it leads
    level: Floats  # one number: the confidence level, or 0 for that of KL-UCB


class Arms(NamedTuple):
    """What is kept of each item at each position: the items of one position after the other."""

    times: Floats
    clicks: Floats
    exponent: Floats  # where the index was found last, from where it is sought next time
    tie: Floats  # a small random number, by which ties between leaders are broken


unpack = unpacker(Layout)


@merged
def arms_in(layout: Layout, state: State) -> Arms:
    """The arms of a state."""
    size, first = layout.positions * layout.items, pointer(state.floats, LEADER + layout.positions)
    return Arms(first, pointer(first, size), pointer(first, 2 * size), pointer(first, 3 * size))


@kernel(ACT)
def act(solve: Any, solver: Packed, packed: Packed, state: State, rng: Rng, action: Ints) -> None:
    """Find the leader, and show it or one of its neighbours."""
    layout, floats = unpack(packed.ints, packed.floats), state.floats
    arms, positions, items = arms_in(layout, state), layout.positions, layout.items
    size = positions * items
    if floats[STARTED] == 0.0:
        for a in range(size):
            arms.tie[a] = TIES * rng.random()
    means = np.empty(size)
    for a in range(size):
        mean = arms.clicks[a] / arms.times[a] if arms.times[a] > 0.0 else 0.0
        means[a] = mean + arms.tie[a]
    int_scratch, float_scratch = np.empty(2 * items + 2, np.int64), np.empty(2 * items + positions + 3)
    match(means, positions, items, int_scratch, float_scratch, action)
    for k in range(positions):
        floats[LEADER + k] = action[k]
    floats[STARTED] = 1.0
    groups = groups_in(state.ints)
    group = groups.table[place_of(groups, action)]
    led = groups.counts[group] if group >= 0 else 0
    if led % layout.period > 0:
        allowed = layout.level[0] if layout.level[0] > 0.0 else level(led)
        sort_positions(layout, means, action, int_scratch)
        find_gains(layout, arms, allowed, int_scratch, action, float_scratch)
        move(layout, int_scratch, float_scratch, rng, action)


@bare
def sort_positions(layout: Layout, means: Floats, leader: Ints, order: Ints) -> None:
    """Order the positions by the mean clicks of the leader there, the highest first."""
    for k in range(layout.positions):
        mean = means[k * layout.items + leader[k]]
        at = k
        while at > 0 and mean > means[order[at - 1] * layout.items + leader[order[at - 1]]]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = k


@bare
def find_gains(layout: Layout, arms: Arms, allowed: float, order: Ints, leader: Ints, gains: Floats) -> None:
    """By how much the sum of indices of each neighbour exceeds that of the leader.

    First come those that swap positions that follow one another in `order`; then, for each item, those that show it at
    the last of them: -inf for items that the leader shows.
    """
    items, swaps = layout.items, layout.positions - 1
    for i in range(swaps):
        k, other = order[i], order[i + 1]
        gains[i] = (
            bound(arms, allowed, k * items + leader[other])
            + bound(arms, allowed, other * items + leader[k])
            - bound(arms, allowed, k * items + leader[k])
            - bound(arms, allowed, other * items + leader[other])
        )
    last = order[swaps]
    base = bound(arms, allowed, last * items + leader[last])
    for i in range(items):
        shown = False
        for k in range(layout.positions):
            shown |= leader[k] == i
        gains[swaps + i] = -math.inf if shown else bound(arms, allowed, last * items + i) - base


@bare
def move(layout: Layout, order: Ints, gains: Floats, rng: Rng, action: Ints) -> None:
    """Change the leader in `action` into the neighbour with the highest gain, if that is above 0."""
    swaps = layout.positions - 1
    most, ties, best = 0.0, 1, -1
    for i in range(swaps + layout.items):
        if gains[i] > most:
            most, ties, best = gains[i], 1, i
        elif gains[i] == most and best >= 0:
            ties += 1
            if below(rng, ties) == 0:
                best = i
    if best >= swaps:
        action[order[swaps]] = best - swaps
    elif best >= 0:
        k, other = order[best], order[best + 1]
        item = action[k]
        action[k] = action[other]
        action[other] = item


@bare
def bound(arms: Arms, allowed: float, a: int) -> float:
    """The index of an item at a position; it is sought from where it was last."""
    if arms.times[a] == 0.0:
        return 1.0
    mean: float = arms.clicks[a] / arms.times[a]
    if allowed <= 0.0:
        return mean
    x = kl_exponent(mean, allowed / arms.times[a], arms.exponent[a])
    arms.exponent[a] = x
    return max(mean, -math.expm1(-x))


@part
def learn(packed: Packed, state: State, rng: Rng, round_: Round) -> None:
    """Count clicks on items at positions, and that the leader has led."""
    layout, floats = unpack(packed.ints, packed.floats), state.floats
    if floats[STARTED] > 0.0:
        leader = np.empty(layout.positions, np.int64)
        for k in range(layout.positions):
            leader[k] = int(floats[LEADER + k])
        groups = groups_in(state.ints)
        place = place_of(groups, leader)
        group = groups.table[place]
        if group < 0:
            group = insert(groups, place, leader)
        groups.counts[group] += round_.times
    arms = arms_in(layout, state)
    for k in range(layout.positions):
        a = k * layout.items + round_.action[k]
        arms.times[a] += round_.times
        arms.clicks[a] += round_.times * round_.seen[k]


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

    ACT, LEARN = act, learner("GRAB")(learn)

    def __init__(
        self, d: Diagram, seed: Any = None, *, horizon: int | None = None, gamma: int | None = None
    ) -> None:  # fmt: skip
        positions, items = ranking("GRAB", d)
        neighbours = items - 1 if gamma is None else check_whole("GRAB: gamma", gamma, 0)
        fixed = 0.0 if horizon is None else math.log(check_whole("GRAB: horizon", horizon, 2))
        floats = np.zeros(LEADER + positions + len(Arms._fields) * positions * items)
        layout = Layout(positions, items, neighbours + 1, np.array([fixed]))
        super().__init__(d, seed, layout, with_groups(floats, per_round=1, width=positions))
