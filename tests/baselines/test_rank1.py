"""Rank1Elim and Rank1ElimKL against their algorithm, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from baseline_cases import kl_index
from idbandits import models
from idbandits.baselines import Rank1Elim, Rank1ElimKL
from played_rounds import go_on


@pytest.mark.parametrize(("make", "factor"), [(Rank1Elim, 4), (Rank1ElimKL, 16)])
@pytest.mark.parametrize("seed", range(6))
def test_rank1_eliminates_as_the_paper_says(make: Callable[..., Any], factor: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    horizon, rows, columns = 8, 5, 6
    means = {
        "row": np.append(rng.uniform(0.2, 1.0, rows - 1), 1.0),
        "column": np.append(rng.uniform(0.2, 1.0, columns - 1), 1.0),
    }
    world = idb.World(models.rank1(rows, columns), means, seed=seed)
    learner = make(world.diagram, seed, horizon=horizon)
    log = math.log(horizon)
    sums = [np.zeros(rows), np.zeros(columns)]
    h = [list(range(rows)), list(range(columns))]
    done = 0
    left = []
    for stage in range(3 if factor == 4 else 2):
        n = math.ceil(factor * 4**stage * log)
        for _ in range(n - done):
            for side in (0, 1):
                drawn = None
                for i in sorted(set(h[side])):
                    first, again = learner.act(), learner.act()
                    assert first == again  # until it is answered
                    drawn = first[f"A{2 - side}"] if drawn is None else drawn
                    assert drawn in h[1 - side]
                    assert first == {f"A{1 + side}": i, f"A{2 - side}": drawn}
                    seen = world.step(first).observation
                    sums[side][i] += seen["X"]
                    learner.update(first, seen)
        done = n
        for side in (0, 1):
            means = sums[side] / n
            if make is Rank1Elim:
                low, high = means - math.sqrt(log / n), means + math.sqrt(log / n)
            else:
                allowed = (log + 3 * math.log(log)) / n
                low = np.array([1 - kl_index(1 - m, allowed) for m in means])
                high = np.array([kl_index(m, allowed) for m in means])
            best = max(sorted(set(h[side])), key=lambda i: low[i])
            h[side] = [best if high[i] <= low[best] else i for i in h[side]]
        left.append([len(set(side)) for side in h])
    assert sum(left[-1]) < rows + columns


@pytest.mark.parametrize("make", [Rank1Elim, Rank1ElimKL])
def test_rounds_with_other_actions_are_ignored(make: Callable[..., Any]) -> None:
    world = idb.World(models.rank1(3, 3), {"row": [0.1, 0.5, 0.9], "column": [0.9, 0.5, 0.1]}, seed=1)
    learner = make(world.diagram, 0, horizon=8)
    learner.act()
    twin = learner.copy()
    for _ in range(50):
        action = learner.act()
        learner.update({"A1": (action["A1"] + 1) % 3, "A2": action["A2"]}, {"X": 1})
        assert learner.act() == action
    assert learner.rounds == 50
    assert go_on(world.copy(2), learner, 500) == go_on(world.copy(2), twin, 500)
