"""CombUCB1 and KLCombUCB1: the best action under their indices, by trying all actions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import idbandits as idb
from baseline_cases import actions_of, kl_index, odd_choices
from idbandits import models
from idbandits.baselines import CombUCB1, KLCombUCB1
from internals import level
from played_rounds import go_on, world_of


def weighted() -> idb.Diagram:
    """Return a semi-bandit in which the first position earns less."""
    d, mean = idb.Diagram("weighted"), idb.Learned("mean")
    for k, weight in ((1, 0.4), (2, 1.0)):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", 5)], mean), lambda v, weight=weight: weight * v)
    d.all_different()
    return d


def arms_of(where: str, action: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    if where in ("semi-bandit", "weighted"):
        return [(action["A1"],), (action["A2"],)]
    if where == "odd choices":
        return [("tone", action["A"]), ("sound", action["A"], action["B"])]
    return [(1, action["A1"]), (2, action["A2"])]


@pytest.mark.parametrize("where", ["semi-bandit", "weighted", "position-based", "free", "odd choices"])
@pytest.mark.parametrize(
    "make",
    [CombUCB1, KLCombUCB1, lambda d, seed: KLCombUCB1(d, seed, horizon=None)],
    ids=["CombUCB1", "KLCombUCB1", "anytime"],
)
def test_combucb1_shows_the_best_action_under_its_indices(where: str, make: Callable[..., Any]) -> None:
    d = {
        "semi-bandit": lambda: models.semi_bandit(5, 2),
        "weighted": weighted,
        "position-based": lambda: models.position_based(4, 2),
        "free": lambda: models.position_based(4, 2, distinct=False),
        "odd choices": odd_choices,
    }[where]()
    world, learner = world_of(d, 3), make(d, 0)
    actions = actions_of(d)
    earned = (
        [{"bad": 0.0, "fair": 2.5 / 3, "good": 1.0}, {0: 0.0, 1: 1.0}]
        if where == "odd choices"
        else [{0: 0.0, 1: 1.0}] * 2
    )
    weights = {"odd choices": [3.0, 2.0], "weighted": [0.4, 1.0]}.get(where, [1.0, 1.0])
    times, sums = Counter[Any](), Counter[Any]()
    shown = 0
    for t in range(1, 150):
        action = learner.act()
        untried = [len({a for a in arms_of(where, x) if times[a] == 0}) for x in actions]
        here = len({a for a in arms_of(where, action) if times[a] == 0})
        if max(untried) > 0:
            assert here == max(untried)
        else:
            shown += 1
            index = {}
            for a in times:
                mean = sums[a] / times[a]
                if make is CombUCB1:
                    index[a] = mean + math.sqrt(1.5 * math.log(t - 1) / times[a])
                else:
                    index[a] = kl_index(mean, (math.log(20_000) if make is KLCombUCB1 else level(t)) / times[a])
            best, shown_value = (
                max(sum(w * index[a] for w, a in zip(weights, arms_of(where, x), strict=True)) for x in among)
                for among in (actions, [action])
            )
            assert shown_value == pytest.approx(best, rel=1e-7)
        seen = world.step(action).seen_by(d)
        learner.update(action, seen)
        values = [seen[n] for n in (("tone", "sound") if where == "odd choices" else seen)]
        for a, value, table in zip(arms_of(where, action), values, earned, strict=True):
            times[a] += 1
            sums[a] += table[value]
    assert shown > 50


@pytest.mark.parametrize("distinct", [True, False])
def test_arms_that_earn_little_are_tried_before_anything_is_repeated(distinct: bool) -> None:
    d = models.position_based(4, 2, distinct=distinct)
    d.reward(d.observed("pair", ["A1", "A2"]), lambda v: 0.001 * v)
    world, learner = world_of(d), CombUCB1(d, 0)
    number = len(actions_of(d))
    assert len({tuple(action.items()) for action, *_ in go_on(world, learner, number)}) == number


@pytest.mark.parametrize("seed", range(5))
def test_a_table_is_shared_by_nodes_that_read_it_by_one_decision_and_by_two(seed: int) -> None:
    d, table = idb.Diagram("shapes"), idb.Learned("mean", rows=6)
    a, b, c = d.decision("A", 6), d.decision("B", 2), d.decision("C", 3)
    d.reward(d.observed("X", [a], table))
    d.reward(d.observed("Y", [b, c], table))
    learner = CombUCB1(d, seed)
    for t in range(300):  # X shows all rows, Y only the first
        learner.update({"A": t % 6, "B": 0, "C": 0}, {"X": int(t % 6 == 4), "Y": 0})
    assert learner.act() == {"A": 4, "B": 1, "C": 1}  # row 4, which (1, 1) was never seen to read


def test_untried_arms_take_turns_at_random() -> None:
    d = models.position_based(6, 2)
    assert len({tuple(CombUCB1(d, seed).act().values()) for seed in range(200)}) == 30
    counts = Counter(CombUCB1(odd_choices(), seed).act()["idle"] for seed in range(200))
    assert set(counts) == {"u", "v"}
