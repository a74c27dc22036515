"""CascadeKL-UCB, CascadeUCB1 and TopRank: lists of items, learned from clicks on them."""

import math
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import MOST_ROUNDS, Baseline, check_ranking, kernels, state_of
from idbandits.baselines.confidence import UNSEEN, Arms, arms_in, kl_above, level, ucb1
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief, check_number, check_whole
from idbandits.inference.protocol import Round
from idbandits.inference.state.state import HEADER, ROUNDS, State
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import below
from idbandits.kernel.structs import pointer


class CascadeLayout(NamedTuple):
    """What does not change."""

    positions: int
    items: int
    to_last: int  # whether items were examined down to the last click, not down to the first
    kl: int  # whether the indices are those of KL-UCB


@unmanaged
def act_by_bounds(layout: CascadeLayout, state: State, rng: Rng, action: Ints) -> None:
    """Show the items with the highest indices, the highest first."""
    arms, t = arms_in(state.floats, layout.items), state.ints[ROUNDS] + 1
    for i in range(layout.items):
        times = arms.times[i]
        if times == 0.0:
            arms.bound[i] = UNSEEN
        elif layout.kl:
            arms.bound[i] = kl_above(arms.sums[i] / times, level(t) / times)
        else:
            arms.bound[i] = ucb1(arms.sums[i] / times, times, t - 1)
    show_highest(arms.bound, layout.items, rng, action)


@unmanaged
def show_highest(index: Floats, items: int, rng: Rng, action: Ints) -> None:
    """Put the items with the highest indices into the action, the highest first, ties in random order."""
    for k in range(len(action)):
        best, ties = -1, 0
        for i in range(items):
            if best < 0 or index[i] > index[best]:
                best, ties = i, 1
            elif index[i] == index[best]:
                ties += 1
                if below(rng, ties) == 0:
                    best = i
        action[k] = best
        index[best] = -np.inf


@unmanaged
def count_clicks(layout: CascadeLayout, state: State, rng: Rng, round_: Round) -> None:
    """Count examinations and clicks down to the click that ends the examination."""
    arms = arms_in(state.floats, layout.items)
    end, clicked = layout.positions, False
    for k in range(layout.positions - 1, -1, -1):
        if round_.seen[k] and not (clicked and layout.to_last):
            end, clicked = k + 1, True
    for k in range(end):
        item = round_.action[k]
        arms.times[item] += round_.times
        arms.sums[item] += round_.times * round_.seen[k]


class Cascade(Baseline):
    """What CascadeKLUCB and CascadeUCB1 have in common."""

    ACT, LEARN = kernels("Cascade", CascadeLayout, act_by_bounds, count_clicks)
    KL: bool

    def __init__(self, d: Diagram, seed: Any = None, *, reading: str = "first") -> None:
        positions, items = check_ranking(type(self).__name__, d)
        if not isinstance(reading, str) or reading not in ("first", "last"):
            meaning = "the click that ends the examination"
            raise IdbanditsError(f"reading is 'first' or 'last', {meaning}; not {brief(reading)}")
        layout = CascadeLayout(positions, items, reading == "last", self.KL)
        super().__init__(d, seed, layout, state_of(np.zeros(len(Arms._fields) * items)))


@final
class CascadeKLUCB(Cascade):
    """CascadeKL-UCB: ranks items by KL-UCB indices of their attraction; items down to the click were examined.

    Kveton, Szepesvári, Wen and Ashkan, Cascading Bandits: Learning to Rank in the Cascade Model, ICML 2015,
    Algorithm 1 with the index (6). Where several clicks can occur, `reading` says which one ends the examination:
    the `"first"`, as in the paper, or the `"last"`, as in the dependent click model. Without a click, all positions
    were examined. Items that were never examined come first; ties are broken at random.

    >>> from idbandits import models
    >>> learner = CascadeKLUCB(models.cascade(items=3, positions=2), seed=0)
    >>> for _ in range(100):
    ...     action = learner.act()
    ...     learner.update(action, {"C1": int(action["A1"] == 2), "C2": int(action["A1"] != 2 == action["A2"])})
    >>> learner.act()["A1"]
    2
    """

    KL = True


@final
class CascadeUCB1(Cascade):
    """CascadeUCB1: as CascadeKL-UCB, with the index (5) of that paper, mean + sqrt(1.5 log t / times) after t rounds.

    >>> from idbandits import models
    >>> CascadeUCB1(models.dependent_click(items=3, positions=2), reading="last")
    CascadeUCB1('dependent click'; 0 rounds)
    """

    KL = False


C = 4.0 * math.sqrt(2.0 / math.pi) / math.erf(math.sqrt(2.0))  # 3.34…, which the paper rounds to 3.43


class BlockLayout(NamedTuple):
    """What does not change."""

    positions: int
    items: int
    level: float  # log(c / δ)


class Blocks(NamedTuple):
    """What is kept, all of it integers."""

    order: Ints  # all items, block after block
    block: Ints  # of each item
    end: Ints  # for each place in `order`, where its block ends
    clicked: Ints  # for each item, whether it was clicked in this round
    beats: Ints  # for pairs of items, whether the first beats the second; the next two are for pairs, too
    sums: Ints  # S
    counts: Ints  # N


@inlined
def blocks_in(state: State, items: int) -> Blocks:
    """The blocks of a state."""
    ints, pairs = pointer(state.ints, HEADER), 4 * items
    return Blocks(
        ints, pointer(ints, items), pointer(ints, 2 * items), pointer(ints, 3 * items), pointer(ints, pairs),
        pointer(ints, pairs + items**2), pointer(ints, pairs + 2 * items**2),
    )  # fmt: skip


@unmanaged
def shuffle_blocks(layout: BlockLayout, state: State, rng: Rng, action: Ints) -> None:
    """Show the first items, each block in random order."""
    kept = blocks_in(state, layout.items)
    for k in range(layout.positions):
        other = k + below(rng, kept.end[k] - k)
        action[k] = kept.order[other]
        kept.order[k], kept.order[other] = kept.order[other], kept.order[k]


@unmanaged
def compare_clicked(layout: BlockLayout, state: State, rng: Rng, round_: Round) -> None:
    """Compare the clicked items with the others of their blocks, and sort anew where one beats another."""
    items, times, changed = layout.items, round_.times, False
    kept = blocks_in(state, items)
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
                if s > 0.0 and s * s >= 2.0 * n * (layout.level + 0.5 * math.log(n)):
                    kept.beats[ij], changed = 1, True
    for k in range(layout.positions):
        kept.clicked[round_.action[k]] = 0
    if changed:
        sort(kept, items)


@unmanaged
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
    Algorithm 1. Of two items in a block, i beats j once S ≥ sqrt(2 N log(c sqrt(N) / δ)): N is the number of rounds
    with a click on only one of them, S their sum, +1 for i and -1 for j, c = 4 sqrt(2 / π) / erf(sqrt(2)), and δ is
    1 / `horizon`, as in the paper, or `delta`. Declare the position first that is seen most: no order is learned.
    Where the relation has a cycle (with probability at most δ L²), the items that are left make up one block.

    >>> from idbandits import models
    >>> learner = TopRank(models.position_based(items=3, positions=2), seed=0)
    >>> for _ in range(200):
    ...     action = learner.act()
    ...     learner.update(action, {"C1": int(action["A1"] == 2), "C2": int(action["A2"] == 2)})
    >>> learner.act()["A1"], learner.blocks
    (2, [[2], [0, 1]])
    """

    ACT, LEARN = kernels("TopRank", BlockLayout, shuffle_blocks, compare_clicked)

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int = 20_000, delta: float | None = None) -> None:
        positions, items = check_ranking("TopRank", d)
        rounds = check_whole("TopRank: horizon", horizon, 2, MOST_ROUNDS)
        error = 1.0 / rounds if delta is None else check_number("TopRank: delta", delta, 0, 1, above=True)
        blocks = [*range(items), *[0] * items, *[items] * items, *[0] * (items + 3 * items**2)]  # see Blocks
        super().__init__(d, seed, BlockLayout(positions, items, math.log(C / error)), state_of(np.empty(0), blocks))

    @property
    def blocks(self) -> list[list[Any]]:
        """The items of every block, the best block first."""
        labels = self.diagram.of_kind("decision")[0].values
        block = self.state.ints[HEADER + len(labels) : HEADER + 2 * len(labels)].tolist()
        return [[labels[i] for i, own in enumerate(block) if own == b] for b in sorted(set(block))]
