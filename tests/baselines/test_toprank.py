"""TopRank against its algorithm with sets."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

import idbandits as idb
from idbandits import models
from idbandits.baselines import TopRank


class SlowTopRank:
    """Algorithm 1 of the paper with sets."""

    def __init__(self, items: int, delta: float) -> None:
        self.items, self.delta = items, delta
        self.beaten: set[tuple[int, int]] = set()  # (j, i): i is better
        self.s, self.n = Counter[tuple[int, int]](), Counter[tuple[int, int]]()

    def blocks(self) -> list[list[int]]:
        left, blocks = set(range(self.items)), []
        while left:
            block = {i for i in left if not any((i, j) in self.beaten for j in left)} or left
            blocks.append(sorted(block))
            left -= block
        return blocks

    def update(self, clicked: set[int]) -> None:
        c = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))
        for block in self.blocks():
            for i, j in itertools.permutations(block, 2):
                u = (i in clicked) - (j in clicked)
                self.s[i, j] += u
                self.n[i, j] += abs(u)
        for (i, j), n in list(self.n.items()):
            if n > 0 and self.s[i, j] >= math.sqrt(2 * n * math.log(c * math.sqrt(n) / self.delta)):
                self.beaten.add((j, i))


@pytest.mark.parametrize("delta", [None, 0.9])
def test_toprank_splits_blocks_as_the_paper_says(delta: float | None) -> None:
    attraction = np.array([0.05, 0.9, 0.3, 0.5, 0.1, 0.7])
    world = idb.World(models.position_based(6, 3), {"attraction": attraction, "examination": [0.9, 0.8, 0.7]}, seed=4)
    learner = TopRank(world.diagram, 2, horizon=500, delta=delta)
    slow = SlowTopRank(6, 1 / 500 if delta is None else delta)
    sizes = set()
    for _ in range(1500):
        action = learner.act()
        shown = list(action.values())
        blocks = slow.blocks()
        flat = [i for block in blocks for i in block]
        for block in blocks:  # filled one after the other
            here = shown[: len(block)]
            assert set(here) <= set(block)
            shown = shown[len(block) :]
        assert sorted(flat) == list(range(6))
        seen = world.step(action).observation
        learner.update(action, seen)
        slow.update({action[f"A{k}"] for k in (1, 2, 3) if seen[f"C{k}"]})
        assert learner.blocks == slow.blocks()
        sizes.add(len(blocks))
    assert len(sizes) > 3


def test_a_block_is_shown_in_any_order() -> None:
    learner = TopRank(models.position_based(4, 2), 0)
    counts = Counter(tuple(learner.act().values()) for _ in range(6000))
    assert len(counts) == 12
    assert max(abs(n - 500) for n in counts.values()) < 5 * math.sqrt(500)  # 12 counts, 5 standard deviations: 7e-6
