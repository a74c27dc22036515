"""CascadeKL-UCB and CascadeUCB1: lists of the items with the highest upper confidence bounds, learned from a click."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import Baseline, learner, ranking
from idbandits.baselines.confidence import UNSEEN, Arms, arms_in, kl_above, level, ucb1
from idbandits.diagram.declare import Diagram
from idbandits.errors import IdbanditsError
from idbandits.inference.playing import ACT
from idbandits.inference.protocol import Round
from idbandits.kernel.compiling import bare, kernel
from idbandits.kernel.draws import below
from idbandits.kernel.fields import Packed, unpacker
from idbandits.kernel.states import ROUNDS, State, no_groups
from idbandits.kernel.types import Floats, Ints, Rng


class Layout(NamedTuple):
    """What does not change."""

    positions: int
    items: int
    to_last: int  # whether items were examined down to the last click, not down to the first
    kl: int  # whether the indices are those of KL-UCB


unpack = unpacker(Layout)


@kernel(ACT)
def act(solve: Any, solver: Packed, packed: Packed, state: State, rng: Rng, action: Ints) -> None:
    """Show the items with the highest indices, the highest first."""
    layout = unpack(packed.ints, packed.floats)
    arms = arms_in(state, layout.items)
    t = state.ints[ROUNDS] + 1
    for i in range(layout.items):
        times = arms.times[i]
        if times == 0.0:
            arms.bound[i] = UNSEEN
        elif layout.kl:
            arms.bound[i] = kl_above(arms.sums[i] / times, level(t) / times)
        else:
            arms.bound[i] = ucb1(arms.sums[i] / times, times, t - 1)
    show_highest(arms.bound, layout.items, rng, action)


@bare
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


@bare
def learn(packed: Packed, state: State, rng: Rng, round_: Round) -> None:
    """Count examinations and clicks down to the click that ends the examination."""
    layout = unpack(packed.ints, packed.floats)
    arms = arms_in(state, layout.items)
    end, clicked = layout.positions, False
    for k in range(layout.positions - 1, -1, -1):
        if round_.seen[k] and not (clicked and layout.to_last):
            end, clicked = k + 1, True
    for k in range(end):
        item = round_.action[k]
        arms.times[item] += round_.times
        arms.sums[item] += round_.times * round_.seen[k]


@final
class CascadeKLUCB(Baseline):
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

    ACT, LEARN = act, learner("CascadeKLUCB")(learn)

    def __init__(self, d: Diagram, seed: Any = None, *, reading: str = "first") -> None:
        super().__init__(d, seed, *_start("CascadeKLUCB", d, reading, kl=True))


@final
class CascadeUCB1(Baseline):
    """CascadeUCB1: as CascadeKL-UCB, with the index mean + sqrt(1.5 log t / times) after t rounds.

    It is (5) in the same paper.

    >>> from idbandits import models
    >>> CascadeUCB1(models.dependent_click(items=3, positions=2), reading="last")
    CascadeUCB1('dependent click'; 0 rounds)
    """

    ACT, LEARN = act, CascadeKLUCB.LEARN

    def __init__(self, d: Diagram, seed: Any = None, *, reading: str = "first") -> None:
        super().__init__(d, seed, *_start("CascadeUCB1", d, reading, kl=False))


def _start(who: str, d: Diagram, reading: str, kl: bool) -> tuple[Layout, State]:
    """The layout, and the state before the first round."""
    positions, items = ranking(who, d)
    if reading not in ("first", "last"):
        raise IdbanditsError(
            f"reading is 'first' or 'last', the click down to which items were examined; not {reading!r}"
        )
    return Layout(positions, items, reading == "last", kl), no_groups(np.zeros(len(Arms._fields) * items))
