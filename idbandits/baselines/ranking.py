"""CascadeKL-UCB, CascadeUCB1 and TopRank: rankings of items, learned from clicks."""

import math
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_horizon, check_ranking, kernels, state_of
from idbandits.baselines.confidence import UNSEEN, Arms, arms_in, kl_above, level, ucb1
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, brief, check_number
from idbandits.inference.rounds.round import Round
from idbandits.inference.state.state import HEADER, ROUNDS, State
from idbandits.kernel.array_types import Floats, Ints, Rng
from idbandits.kernel.compile import inlined, unmanaged
from idbandits.kernel.sampling import below
from idbandits.kernel.structs import pointer


class CascadeConfig(NamedTuple):
    """Settings of CascadeKL-UCB and CascadeUCB1."""

    positions: int
    items: int
    to_last: int  # 1 if the last click ends the examination, 0 if the first one does
    kl: int  # 1 for KL-UCB indices


@unmanaged
def act_by_bounds(config: CascadeConfig, state: State, rng: Rng, action: Ints) -> None:
    """Show the items with the highest indices."""
    arms, t = arms_in(state.floats, config.items), state.ints[ROUNDS] + 1
    for i in range(config.items):
        times = arms.times[i]
        if times == 0.0:
            arms.bound[i] = UNSEEN
        elif config.kl:
            arms.bound[i] = kl_above(arms.sums[i] / times, level(t) / times)
        else:
            arms.bound[i] = ucb1(arms.sums[i] / times, times, t - 1)
    show_highest(arms.bound, config.items, rng, action)


@unmanaged
def show_highest(index: Floats, items: int, rng: Rng, action: Ints) -> None:
    """Write the items with the highest indices into the action, in descending order; ties are in random order."""
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
def count_clicks(config: CascadeConfig, state: State, rng: Rng, round_: Round) -> None:
    """Count examinations and clicks down to the click that ends the examination."""
    arms = arms_in(state.floats, config.items)
    end, clicked = config.positions, False
    for k in range(config.positions - 1, -1, -1):
        if round_.seen[k] and not (clicked and config.to_last):
            end, clicked = k + 1, True
    for k in range(end):
        item = round_.action[k]
        arms.times[item] += round_.times
        arms.sums[item] += round_.times * round_.seen[k]


class Cascade(Baseline):
    """Base class of CascadeKLUCB and CascadeUCB1."""

    ACT, LEARN = kernels("Cascade", CascadeConfig, act_by_bounds, count_clicks)
    KL: bool

    def __init__(self, d: Diagram, seed: Any = None, *, reading: str = "first") -> None:
        positions, items = check_ranking(type(self).__name__, d)
        if not isinstance(reading, str) or reading not in ("first", "last"):
            raise IdbanditsError(f"reading must be 'first' or 'last', got {brief(reading)}")
        config = CascadeConfig(positions, items, reading == "last", self.KL)
        super().__init__(d, seed, config, state_of(np.zeros(len(Arms._fields) * items)))


@final
class CascadeKLUCB(Cascade):
    """CascadeKL-UCB: ranks items by KL-UCB indices of their attraction; items down to the click were examined.

    Kveton, Szepesvári, Wen and Ashkan, Cascading Bandits: Learning to Rank in the Cascade Model, ICML 2015, Algorithm 1
    with the index (6). Without a click, all positions were examined. Unexamined items come first; ties are broken at
    random.

    Parameters
    ----------
    d : Diagram
        Diagram of a list of items, with a click on each.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    reading : str
        Click that ends the examination if several can occur: "first" as in the paper, or "last" as in the dependent
        click model.

    Examples
    --------
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
    """CascadeUCB1: CascadeKL-UCB with the index (5) of that paper, mean + sqrt(1.5 log t / times) after t rounds.

    Parameters
    ----------
    d : Diagram
        Diagram of a list of items, with a click on each.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    reading : str
        Click that ends the examination, "first" or "last", as for `CascadeKLUCB`.

    Examples
    --------
    >>> from idbandits import models
    >>> CascadeUCB1(models.dependent_click(items=3, positions=2), reading="last")
    CascadeUCB1('dependent click'; 0 rounds)
    """

    KL = False


C = 4.0 * math.sqrt(2.0 / math.pi) / math.erf(math.sqrt(2.0))  # 3.34…, which the paper rounds to 3.43


class TopRankConfig(NamedTuple):
    """Settings of TopRank."""

    positions: int
    items: int
    level: float  # log(c / δ)


class Blocks(NamedTuple):
    """State of TopRank."""

    order: Ints  # all items, block by block
    block: Ints  # by item
    end: Ints  # by place in `order`: end of its block
    clicked: Ints  # by item: 1 if clicked in this round
    beats: Ints  # by pair of items: 1 if the first beats the second
    sums: Ints  # by pair of items: S
    counts: Ints  # by pair of items: N


@inlined
def blocks_in(state: State, items: int) -> Blocks:
    """Return the blocks in a state."""
    ints, pairs = pointer(state.ints, HEADER), 4 * items
    return Blocks(
        ints, pointer(ints, items), pointer(ints, 2 * items), pointer(ints, 3 * items), pointer(ints, pairs),
        pointer(ints, pairs + items**2), pointer(ints, pairs + 2 * items**2),
    )  # fmt: skip


@unmanaged
def shuffle_blocks(config: TopRankConfig, state: State, rng: Rng, action: Ints) -> None:
    """Show the first items, each block in random order."""
    blocks = blocks_in(state, config.items)
    for k in range(config.positions):
        other = k + below(rng, blocks.end[k] - k)
        action[k] = blocks.order[other]
        blocks.order[k], blocks.order[other] = blocks.order[other], blocks.order[k]


@unmanaged
def compare_clicked(config: TopRankConfig, state: State, rng: Rng, round_: Round) -> None:
    """Compare the clicked items with the others of their blocks, and sort again if one beats another."""
    items, times, changed = config.items, round_.times, False
    blocks = blocks_in(state, items)
    for k in range(config.positions):
        if round_.seen[k]:
            blocks.clicked[round_.action[k]] = 1
    for i in range(items):
        if blocks.clicked[i]:
            for j in range(items):
                if blocks.clicked[j] or blocks.block[i] != blocks.block[j]:
                    continue
                ij, ji = i * items + j, j * items + i
                blocks.sums[ij] += times
                blocks.sums[ji] -= times
                blocks.counts[ij] += times
                blocks.counts[ji] += times
                n, s = float(blocks.counts[ij]), float(blocks.sums[ij])
                if s > 0.0 and s * s >= 2.0 * n * (config.level + 0.5 * math.log(n)):
                    blocks.beats[ij], changed = 1, True
    for k in range(config.positions):
        blocks.clicked[round_.action[k]] = 0
    if changed:
        sort(blocks, items)


@unmanaged
def sort(blocks: Blocks, items: int) -> None:
    """Partition the items: each block has the items that no remaining item beats."""
    for i in range(items):
        blocks.block[i] = items  # none yet
    placed, block = 0, 0
    while placed < items:
        begin = placed
        for everyone in range(2):  # in a cycle, no item is unbeaten
            for i in range(items):
                if blocks.block[i] < items:
                    continue
                beaten = False
                for j in range(items):
                    beaten |= blocks.block[j] == items and blocks.beats[j * items + i] == 1
                if everyone or not beaten:
                    blocks.order[placed] = i
                    placed += 1
            if placed > begin:
                break
        for place in range(begin, placed):
            blocks.block[blocks.order[place]] = block
            blocks.end[place] = placed
        block += 1


@final
class TopRank(Baseline):
    """TopRank: shows blocks of items in order, each block shuffled; blocks split when an item beats another.

    Lattimore, Kveton, Li and Szepesvári, TopRank: A Practical Algorithm for Online Stochastic Ranking, NeurIPS 2018,
    Algorithm 1. Item i beats item j of its block once S ≥ sqrt(2 N log(c sqrt(N) / δ)): N is the number of rounds with
    a click on only one of them, S their sum, +1 for i and -1 for j, and c = 4 sqrt(2 / π) / erf(sqrt(2)). Declare the
    position that is examined most first: TopRank learns no order of positions. If the relation has a cycle (with
    probability at most δ L²), the remaining items form one block.

    Parameters
    ----------
    d : Diagram
        Diagram of a list of items, with a click on each.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    horizon : int
        Number of rounds.
    delta : float, optional
        Probability of error δ; 1 / `horizon` by default.

    Examples
    --------
    >>> from idbandits import models
    >>> learner = TopRank(models.position_based(items=3, positions=2), seed=0)
    >>> for _ in range(200):
    ...     action = learner.act()
    ...     learner.update(action, {"C1": int(action["A1"] == 2), "C2": int(action["A2"] == 2)})
    >>> learner.act()["A1"], learner.blocks
    (2, [[2], [0, 1]])
    """

    ACT, LEARN = kernels("TopRank", TopRankConfig, shuffle_blocks, compare_clicked)

    def __init__(self, d: Diagram, seed: Any = None, *, horizon: int = 20_000, delta: float | None = None) -> None:
        positions, items = check_ranking("TopRank", d)
        rounds = check_horizon("TopRank", horizon)
        error = 1.0 / rounds if delta is None else check_number("TopRank: delta", delta, 0, 1, above=True)
        blocks = [*range(items), *[0] * items, *[items] * items, *[0] * (items + 3 * items**2)]  # see Blocks
        super().__init__(d, seed, TopRankConfig(positions, items, math.log(C / error)), state_of(np.empty(0), blocks))

    @property
    def blocks(self) -> list[list[Any]]:
        """Items of every block, the best block first."""
        labels = self.diagram.of_kind("decision")[0].values
        block = self.state.ints[HEADER + len(labels) : HEADER + 2 * len(labels)].tolist()
        return [[labels[i] for i, own in enumerate(block) if own == b] for b in sorted(set(block))]
