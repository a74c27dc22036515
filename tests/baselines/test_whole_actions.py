"""Baselines with one arm per action, UCB1 and epsilon-greedy, and uniform choice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import idbandits as idb
from baseline_cases import actions_of, chain, costly, odd_choices
from idbandits import models
from idbandits.baselines import UCB1, EpsilonGreedy, Uniform
from played_rounds import world_of


def test_ucb1_shows_the_highest_index() -> None:
    d = costly()
    world, learner = world_of(d, 2), UCB1(d, 0)
    times, sums = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    low, high = -0.6 - 0.2, 1.4  # the sum of the lowest and of the highest values of the terms
    for t in range(200):
        action = learner.act()
        key = tuple(action.values())
        if t < 6:
            assert times[key] == 0
        else:
            index = {a: sums[a] / times[a] + math.sqrt(2 * math.log(t) / times[a]) for a in times}
            assert index[key] == pytest.approx(max(index.values()), rel=1e-9)
        outcome = world.step(action)
        learner.update(action, outcome.observation)
        times[key] += 1
        sums[key] += (outcome.reward - low) / (high - low)
    assert len(times) == 6


def test_epsilon_greedy_explores_with_its_probability() -> None:
    d = models.rank1(3, 4)
    for settings, wanted in (({"epsilon": 0.0}, 0.0), ({"epsilon": 0.3}, 0.3), ({"epsilon": 1.0}, 1.0)):
        learner = EpsilonGreedy(d, 0, **settings)
        for action in actions_of(d):
            learner.update(action, {"X": int(action == {"A1": 1, "A2": 2})})
        others = sum(learner.act() != {"A1": 1, "A2": 2} for _ in range(4000)) / 4000
        assert others == pytest.approx(wanted * 11 / 12, abs=0.03)
    learner = EpsilonGreedy(d, 0, epsilon=1, decay=12)
    for _ in range(10):
        for action in actions_of(d):
            learner.update(action, {"X": int(action == {"A1": 1, "A2": 2})})
    others = sum(learner.act() != {"A1": 1, "A2": 2} for _ in range(4000)) / 4000
    assert others == pytest.approx(12 / 121 * 11 / 12, abs=0.02)


@pytest.mark.parametrize("of", [odd_choices, lambda: models.cascade(4, 3), lambda: models.rank1(3, 4)])
def test_uniform_is_uniform(of: Callable[[], idb.Diagram]) -> None:
    d = of()
    learner = Uniform(d, 0)
    every = {tuple(a.values()) for a in actions_of(d)}
    counts = Counter(tuple(learner.act().values()) for _ in range(300 * len(every)))
    assert set(counts) == every
    assert sum((n - 300) ** 2 / 300 for n in counts.values()) < len(every) + 5 * math.sqrt(2 * len(every))


def test_uniform_needs_no_list_where_decisions_are_alike() -> None:
    action = Uniform(models.cascade(30, 30), 0).act()
    assert sorted(action.values()) == list(range(30))
    assert Uniform(chain(20, 10), 0).act().keys() == chain(20, 10).nodes.keys() - {f"X{k}" for k in range(20)}
