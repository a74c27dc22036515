"""CascadeKL-UCB and CascadeUCB1: lists of the items with the highest upper confidence bounds, learned from a click."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from idbandits.baselines.baseline import Baseline, ranking
from idbandits.baselines.chance import below
from idbandits.baselines.confidence import UNSEEN, kl_above, level, ucb1
from idbandits.diagram.declare import Diagram
from idbandits.errors import IdbanditsError
from idbandits.inference.groups import DONE, ROUNDS
from idbandits.kernel.compiling import bare, compiled
from idbandits.kernel.types import Floats, Ints, Rng

POSITIONS, ITEMS, READING, KL = range(4)  # of a layout
READINGS = ("first", "last")
FIRST = 0


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

    def __init__(self, d: Diagram, seed: Any = None, *, reading: str = "first") -> None:
        super().__init__(d, seed, act, learn, _layout("CascadeKLUCB", d, reading, 1), *_nothing(d))


@final
class CascadeUCB1(Baseline):
    """CascadeUCB1: as CascadeKL-UCB, with the index mean + sqrt(1.5 log t / times) after t rounds.

    It is (5) in the same paper.

    >>> from idbandits import models
    >>> learner = CascadeUCB1(models.cascade(items=3, positions=1), seed=0)
    >>> for _ in range(300):
    ...     action = learner.act()
    ...     learner.update(action, {"C1": int(action["A1"] == 2)})
    >>> learner.act()
    {'A1': 2}
    """

    def __init__(self, d: Diagram, seed: Any = None, *, reading: str = "first") -> None:
        super().__init__(d, seed, act, learn, _layout("CascadeUCB1", d, reading, 0), *_nothing(d))


def _layout(who: str, d: Diagram, reading: str, kl: int) -> list[int]:
    if reading not in READINGS:
        raise IdbanditsError(
            f"reading is 'first' or 'last', the click down to which items were examined; not {reading!r}"
        )
    return [*ranking(who, d), READINGS.index(reading), kl]


def _nothing(d: Diagram) -> tuple[Ints, Floats]:
    """What is kept of an item: how often it was examined, how often clicked, and room for its index."""
    return np.empty(0, dtype=np.int64), np.zeros(3 * len(d.of_kind("decision")[0].values))


@compiled
def act(
    solve: Any, program: Ints, known: Floats, layout: Ints, ints: Ints, floats: Floats, rng: Rng, action: Ints
) -> None:
    """Show the items with the highest indices, the highest first."""
    items = layout[ITEMS]
    t = ints[ROUNDS] + 1
    index = floats[2 * items :]
    for i in range(items):
        times = floats[i]
        if times == 0.0:
            index[i] = UNSEEN
        elif layout[KL]:
            index[i] = kl_above(floats[items + i] / times, level(t) / times)
        else:
            index[i] = ucb1(floats[items + i] / times, times, t - 1)
    show_highest(index, items, rng, action)


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


@compiled
def learn(
    layout: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    """Count examinations and clicks down to the click that ends the examination."""
    positions, items = layout[POSITIONS], layout[ITEMS]
    end, clicked = positions, False
    for k in range(positions - 1, -1, -1):
        if seen[k] and (layout[READING] == FIRST or not clicked):
            end, clicked = k + 1, True
    for k in range(end):
        floats[action[k]] += times
        floats[items + action[k]] += times * seen[k]
    ints[ROUNDS] += times
    return DONE
