"""GRAB against its algorithm: the leader, or the neighbour with the highest index."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import idbandits as idb
from baseline_cases import kl_index
from idbandits import models
from idbandits.baselines import GRAB
from internals import leader_of, level


@pytest.mark.parametrize("horizon", [None, 1000])
@pytest.mark.parametrize(("items", "positions"), [(4, 2), (4, 3), (3, 3)])
def test_grab_shows_the_leader_or_a_neighbour(horizon: int | None, items: int, positions: int) -> None:
    rng = np.random.default_rng(2)
    means = {"attraction": rng.random(items), "examination": rng.random(positions)}
    world = idb.World(models.position_based(items, positions), means, seed=6)
    learner = GRAB(world.diagram, 1, horizon=horizon)
    times, sums = np.zeros((positions, items)), np.zeros((positions, items))
    led = Counter[tuple[int, ...]]()
    explored = 0
    for _ in range(400):
        chosen = learner.act()
        action = tuple(chosen.values())
        leader = leader_of(learner)
        mean = sums / np.maximum(times, 1)
        total = mean[np.arange(positions), list(leader)].sum()
        assert total == pytest.approx(mean[linear_sum_assignment(-mean)].sum(), abs=1e-7)
        if led[leader] % items == 0:  # gamma + 1
            assert action == leader
        else:
            allowed = level(led[leader]) if horizon is None else math.log(horizon)
            index = np.ones((positions, items))
            for k, i in zip(*np.nonzero(times), strict=True):
                index[k, i] = kl_index(mean[k, i], allowed / times[k, i])
            clicks = mean[np.arange(positions), list(leader)]
            order = np.argsort(-clicks, kind="stable")
            if len(set(clicks)) == positions:  # else the order of positions is open
                near = [leader]
                for i in range(positions - 1):
                    swapped = list(leader)
                    swapped[order[i]], swapped[order[i + 1]] = swapped[order[i + 1]], swapped[order[i]]
                    near.append(tuple(swapped))
                for item in set(range(items)) - set(leader):
                    near.append(tuple(item if k == order[-1] else i for k, i in enumerate(leader)))
                assert len(near) == items
                assert action in near
                value = {x: index[np.arange(positions), list(x)].sum() for x in near}
                assert value[action] == pytest.approx(max(value.values()), abs=1e-7)
                explored += 1
        seen = world.step(chosen).observation
        learner.update(chosen, seen)
        led[leader] += 1
        for k, i in enumerate(action):
            times[k, i] += 1
            sums[k, i] += seen[f"C{k + 1}"]
    assert explored > 100


def test_rounds_of_many_leaders_are_counted() -> None:
    """Assert that the leader is shown every third time that it leads, else the untried item, whose index is highest."""
    items = 100
    learner = GRAB(models.position_based(items + 1, 1), 0, gamma=2)
    led, leader = Counter[int](), None
    for item in [*range(items)] * 3:
        for click in (1, 0):  # it leads with more clicks than non-clicks, and then no more
            learner.update({"A1": item}, {"C1": click})
            if leader is not None:
                led[leader] += 1
            if click:
                leader = item
                assert learner.act() == {"A1": item if led[item] % 3 == 0 else items}
    assert {led[item] for item in range(items - 1)} == {6}  # from its own second update to the next one's first
