"""GRAB: the leading list and its neighbours, in the position-based model with unknown examination."""

import math
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import MOST_ROUNDS, Baseline, check_ranking, kernels, log_horizon
from idbandits.baselines.confidence import Arms, arms_in, kl_exponent, level
from idbandits.diagram.diagram import Diagram
from idbandits.errors import check_whole
from idbandits.inference.rounds.round import Round
from idbandits.inference.state.state import State, groups_in, insert, place_of, with_groups
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import linked, unmanaged
from idbandits.kernel.sampling import below
from idbandits.kernel.structs import pointer
from idbandits.solve.assignment import match

# Floats of the state: 1 if there is a leader; the leader's items; the arms (items at positions, position by position);
# and for each arm a small random number that breaks ties between leaders.
STARTED, LEADER = range(2)
TIES = 1e-9


class GrabConfig(NamedTuple):
    """Settings of GRAB."""

    positions: int
    items: int
    period: int  # gamma + 1
    level: float  # confidence level, or 0 for that of KL-UCB


@linked
def act(config: GrabConfig, state: State, rng: Rng, action: Ints) -> None:
    """Find the leader, and show it or one of its neighbours."""
    floats, positions, items = state.floats, config.positions, config.items
    size, first = positions * items, pointer(floats, LEADER + positions)
    arms, tie = arms_in(first, size), pointer(first, 3 * size)
    if floats[STARTED] == 0.0:
        for a in range(size):
            tie[a] = TIES * rng.random()
    means = np.empty(size)
    for a in range(size):
        means[a] = (arms.sums[a] / arms.times[a] if arms.times[a] > 0.0 else 0.0) + tie[a]
    order, float_scratch = np.empty(2 * items + 2, np.int64), np.empty(2 * items + positions + 3)
    match(means, positions, items, order, float_scratch, action)
    for k in range(positions):
        floats[LEADER + k] = action[k]
    floats[STARTED] = 1.0
    groups = groups_in(state.ints)
    group = groups.table[place_of(groups, pointer(action, 0), config.positions)]
    led = groups.counts[group] if group >= 0 else 0
    if led % config.period > 0:
        sort_positions(config, means, action, order)
        move(config, arms, config.level if config.level > 0.0 else level(led), order, rng, action)


@unmanaged
def sort_positions(config: GrabConfig, means: Floats, leader: Ints, order: Ints) -> None:
    """Order the positions by the mean clicks of the leader there, the highest first."""
    for k in range(config.positions):
        mean = means[k * config.items + leader[k]]
        at = k
        while at > 0 and mean > means[order[at - 1] * config.items + leader[order[at - 1]]]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = k


@unmanaged
def move(config: GrabConfig, arms: Arms, allowed: float, order: Ints, rng: Rng, action: Ints) -> None:
    """Change the leader in `action` into the neighbour with the highest sum of indices, if higher than its own."""
    items, swaps = config.items, config.positions - 1
    last = order[swaps]
    most, ties, best, base = 0.0, 1, -1, 0.0
    for i in range(swaps + items):  # swap positions that follow in `order`, then show another item at the last
        if i < swaps:
            k, other = order[i], order[i + 1]
            gain = bound(arms, allowed, k * items + action[other]) + bound(arms, allowed, other * items + action[k])
            gain -= bound(arms, allowed, k * items + action[k])
            gain -= bound(arms, allowed, other * items + action[other])
        else:
            if i == swaps:
                base = bound(arms, allowed, last * items + action[last])
            shown = False
            for k in range(config.positions):
                shown |= action[k] == i - swaps
            gain = -math.inf if shown else bound(arms, allowed, last * items + i - swaps) - base
        if gain > most:
            most, ties, best = gain, 1, i
        elif gain == most and best >= 0:
            ties += 1
            if below(rng, ties) == 0:
                best = i
    if best >= swaps:
        action[last] = best - swaps
    elif best >= 0:
        k, other = order[best], order[best + 1]
        action[k], action[other] = action[other], action[k]


@unmanaged
def bound(arms: Arms, allowed: float, a: int) -> float:
    """Return the index of an item at a position; the search starts at its last value, in `arms.bound`."""
    if arms.times[a] == 0.0:
        return 1.0
    mean: float = arms.sums[a] / arms.times[a]
    if allowed <= 0.0:
        return mean
    x = kl_exponent(mean, allowed / arms.times[a], arms.bound[a])
    arms.bound[a] = x
    return max(mean, -math.expm1(-x))


@linked
def learn(config: GrabConfig, state: State, rng: Rng, round_: Round) -> None:
    """Count clicks on items at positions, and the rounds of the leader."""
    if state.floats[STARTED] > 0.0:
        leader = np.empty(config.positions, np.int64)
        for k in range(config.positions):
            leader[k] = int(state.floats[LEADER + k])
        groups = groups_in(state.ints)
        place = place_of(groups, pointer(leader, 0), config.positions)
        group = groups.table[place]
        if group < 0:
            group = insert(groups, place, pointer(leader, 0), config.positions)
        groups.counts[group] += round_.times
    arms = arms_in(pointer(state.floats, LEADER + config.positions), config.positions * config.items)
    for k in range(config.positions):
        a = k * config.items + round_.action[k]
        arms.times[a] += round_.times
        arms.sums[a] += round_.times * round_.seen[k]


@final
class GRAB(Baseline):
    """GRAB: shows the leading list, or its neighbour with the highest upper confidence bound.

    Gauthier, Gaudel, Fromont and Lompo, Parametric Graph for Unimodal Ranking Bandit, ICML 2021, Algorithm 1. The
    leader is the assignment of items to positions with the highest sum of mean clicks. Its neighbours swap the items of
    two consecutive positions, ordered by the leader's mean clicks, or replace the item at the last of these by one that
    is not shown. The leader is shown in every (`gamma` + 1)-th round that it leads, else the list with the highest sum
    of indices. The index is the highest q with times · d(mean, q) ≤ log n + 3 log log n after n rounds of the leader.
    Untried items have mean 0 and index 1. Ties between leaders are broken by a constant random order.

    Parameters
    ----------
    d : Diagram
        Diagram of a list of items, with a click on each.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    horizon : int, optional
        Number of rounds n of the level log n, as in the authors' code (github.com/gaudel/ranking_bandits), which also
        shows the leader every (items - positions)-th time.
    gamma : int, optional
        Rounds between two of the leader; items - 1 by default.

    Examples
    --------
    >>> from idbandits import models
    >>> learner = GRAB(models.position_based(items=4, positions=2), seed=0)
    >>> for _ in range(300):
    ...     action = learner.act()
    ...     learner.update(action, {"C1": int(action["A1"] == 3), "C2": int(action["A2"] == 1)})
    >>> learner.act()
    {'A1': 3, 'A2': 1}
    """

    ACT, LEARN = kernels("GRAB", GrabConfig, act, learn)

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int | None = None, gamma: int | None = None) -> None:
        positions, items = check_ranking("GRAB", d)
        neighbours = items - 1 if gamma is None else check_whole("GRAB: gamma", gamma, 0, MOST_ROUNDS)
        floats = np.zeros(LEADER + positions + (len(Arms._fields) + 1) * positions * items)
        config = GrabConfig(positions, items, neighbours + 1, log_horizon("GRAB", horizon))
        super().__init__(d, seed, config, with_groups(floats, np.empty(0, np.int64), per_round=1, longest=positions))
