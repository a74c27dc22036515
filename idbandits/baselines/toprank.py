"""TopRank: a ranking that is refined by sorting items that are known to be better before those they beat."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from idbandits.baselines.baseline import Baseline, checked_horizon, ranking
from idbandits.baselines.chance import below
from idbandits.diagram.declare import Diagram
from idbandits.errors import IdbanditsError
from idbandits.inference.groups import DONE, HEADER, ROUNDS
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng

POSITIONS, ITEMS = range(2)  # of a layout
C = 4.0 * math.sqrt(2.0 / math.pi) / math.erf(math.sqrt(2.0))  # 3.34…, which the paper rounds to 3.43


@final
class TopRank(Baseline):
    """TopRank: shows blocks of items one after the other, each in random order; a block splits once an item beats one.

    Lattimore, Kveton, Li and Szepesvári, TopRank: A Practical Algorithm for Online Stochastic Ranking, NeurIPS 2018,
    Algorithm 1. Items i and j of a block are compared by their clicks: S is the sum and N the number of the rounds
    with a click on only one of them, counted +1 for i and -1 for j; items that were not shown were not clicked. Item
    i beats j once S ≥ sqrt(2 N log(c sqrt(N) / δ)), with c = 4 sqrt(2 / π) / erf(sqrt(2)) and δ = 1 / `horizon`, as
    the paper sets it, or `delta`. Positions are to be declared from the one that is seen most: no order is learned.
    The relation has a cycle with probability at most δ L²; the paper leaves open what then happens, and here the
    items that are left make up one block.

    >>> from idbandits import models
    >>> learner = TopRank(models.position_based(items=3, positions=2), seed=0)
    >>> for _ in range(200):
    ...     action = learner.act()
    ...     learner.update(action, {"C1": int(action["A1"] == 2), "C2": int(action["A2"] == 2)})
    >>> learner.act()["A1"], learner.blocks
    (2, [[2], [0, 1]])
    """

    def __init__(
        self, d: Diagram, seed: Any = None, *, horizon: int = 20_000, delta: float | None = None
    ) -> None:  # fmt: skip
        positions, items = ranking("TopRank", d)
        rounds = checked_horizon("TopRank", horizon)
        if delta is not None and not (isinstance(delta, (int, float)) and 0 < delta <= 1):
            raise IdbanditsError(f"TopRank: delta is a probability above 0, not {delta!r}")
        ints = np.zeros(4 * items + 3 * items**2, dtype=np.int64)
        ints[:items], ints[2 * items : 3 * items] = np.arange(items), items
        level = math.log(C / (1.0 / rounds if delta is None else delta))
        super().__init__(d, seed, act, learn, [positions, items], ints, np.array([level]))

    @property
    def blocks(self) -> list[list[Any]]:
        """The items of every block, the best block first."""
        first = self.diagram.of_kind("decision")[0].values
        state, items = self._state.ints[HEADER:], len(first)
        made: dict[int, list[Any]] = {}
        for i in range(items):
            made.setdefault(int(state[items + i]), []).append(first[i])
        return [made[b] for b in sorted(made)]


# The state: all items, block after block; the block of an item; where the block at a place ends; marks of items; and
# for pairs of items whether the first beats the second, S and N.


@compiled
def act(
    solve: Any, program: Ints, known: Floats, layout: Ints, ints: Ints, floats: Floats, rng: Rng, action: Ints
) -> None:
    """Show the first items, each block in random order."""
    items = layout[ITEMS]
    for k in range(layout[POSITIONS]):
        other = k + below(rng, ints[HEADER + 2 * items + k] - k)
        action[k] = ints[HEADER + other]
        ints[HEADER + other] = ints[HEADER + k]
        ints[HEADER + k] = action[k]


@compiled
def learn(
    layout: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    """Compare the clicked items with the others of their blocks, and sort anew where one beats another."""
    positions, items = layout[POSITIONS], layout[ITEMS]
    state = ints[HEADER:]
    marks, beats = 3 * items, 4 * items
    sums, counts = beats + items**2, beats + 2 * items**2
    changed = False
    for k in range(positions):
        if seen[k]:
            state[marks + action[k]] = 1
    for i in range(items):
        if state[marks + i]:
            for j in range(items):
                if state[marks + j] or state[items + i] != state[items + j]:
                    continue
                ij, ji = i * items + j, j * items + i
                state[sums + ij] += times
                state[sums + ji] -= times
                state[counts + ij] += times
                state[counts + ji] += times
                n, s = float(state[counts + ij]), float(state[sums + ij])
                if s > 0.0 and s * s >= 2.0 * n * (floats[0] + 0.5 * math.log(n)):
                    state[beats + ij] = 1
                    changed = True
    for k in range(positions):
        state[marks + action[k]] = 0
    if changed:
        sort(state, items)
    ints[ROUNDS] += times
    return DONE


@bare
def sort(state: Ints, items: int) -> None:
    """Partition the items: a block holds those that none of the items left beats."""
    beats = 4 * items
    for i in range(items):
        state[items + i] = items  # no block yet
    placed, block = 0, 0
    while placed < items:
        begin = placed
        for everyone in range(2):  # in a cycle, nobody is unbeaten
            for i in range(items):
                if state[items + i] < items:
                    continue
                beaten = False
                for j in range(items):
                    beaten |= state[items + j] == items and state[beats + j * items + i] == 1
                if everyone or not beaten:
                    state[placed] = i
                    placed += 1
            if placed > begin:
                break
        for place in range(begin, placed):
            state[items + state[place]] = block
            state[2 * items + place] = placed
        block += 1
