"""TopRank: a ranking that is refined by sorting items that are known to be better before those they beat."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import Baseline, learner, ranking, state_of
from idbandits.diagram.declare import Diagram
from idbandits.errors import check_number, check_whole
from idbandits.inference.playing import ACT
from idbandits.inference.protocol import Round
from idbandits.kernel.compiling import bare, kernel, merged
from idbandits.kernel.draws import below
from idbandits.kernel.fields import Packed, pointer, unpacker
from idbandits.kernel.states import HEADER, State
from idbandits.kernel.types import Floats, Ints, Rng

C = 4.0 * math.sqrt(2.0 / math.pi) / math.erf(math.sqrt(2.0))  # 3.34…, which the paper rounds to 3.43


class Layout(NamedTuple):
    """What does not change."""

    positions: int
    items: int
    level: Floats  # one number: log(c / δ)


class Blocks(NamedTuple):
    """What is kept: all numbers are integers."""

    order: Ints  # all items, block after block
    block: Ints  # of each item
    end: Ints  # for each place in `order`, where its block ends
    clicked: Ints  # for each item, whether it was clicked in this round
    beats: Ints  # for pairs of items, whether the first beats the second; the next two are for pairs, too
    sums: Ints  # S
    counts: Ints  # N


unpack = unpacker(Layout)


@merged
def blocks_in(state: State, items: int) -> Blocks:
    """The blocks of a state."""
    ints, pairs = pointer(state.ints, HEADER), 4 * items
    return Blocks(
        ints, pointer(ints, items), pointer(ints, 2 * items), pointer(ints, 3 * items), pointer(ints, pairs),
        pointer(ints, pairs + items**2), pointer(ints, pairs + 2 * items**2),
    )  # fmt: skip


@kernel(ACT)
def act(solve: Any, solver: Packed, packed: Packed, state: State, rng: Rng, action: Ints) -> None:
    """Show the first items, each block in random order."""
    layout = unpack(packed.ints, packed.floats)
    kept = blocks_in(state, layout.items)
    for k in range(layout.positions):
        other = k + below(rng, kept.end[k] - k)
        action[k] = kept.order[other]
        kept.order[other] = kept.order[k]
        kept.order[k] = action[k]


@bare
def learn(packed: Packed, state: State, rng: Rng, round_: Round) -> None:
    """Compare the clicked items with the others of their blocks, and sort anew where one beats another."""
    layout, times = unpack(packed.ints, packed.floats), round_.times
    items = layout.items
    kept = blocks_in(state, items)
    changed = False
    for k in range(layout.positions):
        if round_.seen[k]:
            kept.clicked[round_.action[k]] = 1
    for i in range(items):
        if kept.clicked[i]:
            for j in range(items):
                if kept.clicked[j] or kept.block[i] != kept.block[j]:
                    continue
                ij, ji = i * items + j, j * items + i
                kept.sums[ij] += times
                kept.sums[ji] -= times
                kept.counts[ij] += times
                kept.counts[ji] += times
                n, s = float(kept.counts[ij]), float(kept.sums[ij])
                if s > 0.0 and s * s >= 2.0 * n * (layout.level[0] + 0.5 * math.log(n)):
                    kept.beats[ij] = 1
                    changed = True
    for k in range(layout.positions):
        kept.clicked[round_.action[k]] = 0
    if changed:
        sort(kept, items)


@bare
def sort(kept: Blocks, items: int) -> None:
    """Partition the items: a block holds those that none of the items left beats."""
    for i in range(items):
        kept.block[i] = items  # none yet
    placed, block = 0, 0
    while placed < items:
        begin = placed
        for everyone in range(2):  # in a cycle, nobody is unbeaten
            for i in range(items):
                if kept.block[i] < items:
                    continue
                beaten = False
                for j in range(items):
                    beaten |= kept.block[j] == items and kept.beats[j * items + i] == 1
                if everyone or not beaten:
                    kept.order[placed] = i
                    placed += 1
            if placed > begin:
                break
        for place in range(begin, placed):
            kept.block[kept.order[place]] = block
            kept.end[place] = placed
        block += 1


@final
class TopRank(Baseline):
    """TopRank: shows blocks of items one after the other, each in random order; a block splits once an item beats one.

    Lattimore, Kveton, Li and Szepesvári, TopRank: A Practical Algorithm for Online Stochastic Ranking, NeurIPS 2018,
    Algorithm 1. Items i and j of a block are compared by their clicks: S is the sum and N the number of the rounds
    with a click on only one of them, counted +1 for i and -1 for j; items that were not shown were not clicked. Item
    i beats j once S ≥ sqrt(2 N log(c sqrt(N) / δ)), with c = 4 sqrt(2 / π) / erf(sqrt(2)) and δ = 1 / `horizon`, as
    the paper sets it, or `delta`. Declare the position first that is seen most, and so on: no order is learned.
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

    ACT, LEARN = act, learner("TopRank")(learn)

    def __init__(
        self, d: Diagram, seed: Any = None, *, horizon: int = 20_000, delta: float | None = None
    ) -> None:  # fmt: skip
        positions, items = ranking("TopRank", d)
        rounds = check_whole("TopRank: horizon", horizon, 2)
        error = 1.0 / rounds if delta is None else check_number("TopRank: delta", delta, 0, 1, above=True)
        none = np.zeros(items, dtype=np.int64)
        ints = [np.arange(items), none, none + items, none, np.zeros(3 * items**2, dtype=np.int64)]  # see Blocks
        layout = Layout(positions, items, np.array([math.log(C / error)]))
        super().__init__(d, seed, layout, state_of(np.concatenate(ints), np.empty(0)))

    @property
    def blocks(self) -> list[list[Any]]:
        """The items of every block, the best block first."""
        labels = self.diagram.of_kind("decision")[0].values
        block = self.state.ints[HEADER + len(labels) :]
        items: dict[int, list[Any]] = {}
        for i, label in enumerate(labels):
            items.setdefault(int(block[i]), []).append(label)
        return [items[b] for b in sorted(items)]
