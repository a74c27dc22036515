"""Uniform: any action, each as likely as another."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_diagram, clashes, feasible_actions
from idbandits.baselines.chance import below
from idbandits.diagram.declare import Diagram
from idbandits.inference.groups import DONE, ROUNDS
from idbandits.kernel.compiling import compiled
from idbandits.kernel.types import Floats, Ints, Rng

DECISIONS, ACTIONS, TABLES = range(3)  # of a layout; then actions one after the other, or choices and clashes
MOST_ACTIONS = 100_000


@final
class Uniform(Baseline):
    """Acts uniformly at random among all actions that the constraints allow, and learns nothing.

    Where decisions that may not share a choice all have the same choices, and any two that may not share one with a
    third may not share one with each other, each decision is drawn among the choices that are left: then all actions
    are equally likely. Elsewhere all actions are listed once, which only works for up to 100,000.

    >>> from idbandits import models
    >>> learner = Uniform(models.cascade(items=5, positions=5), seed=0)
    >>> sorted(learner.act().values())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, d: Diagram, seed: Any = None) -> None:
        check_diagram("Uniform", d)
        decisions, forbidden = d.of_kind("decision"), clashes(d)
        number = len(decisions)
        plain = all(
            decisions[j].values == decisions[k].values
            and all((j, i) in forbidden for i in range(number) if (i, k) in forbidden and i != j)
            for j, k in forbidden
        ) and all(sum((j, k) in forbidden for j in range(number)) < decisions[k].states for k in range(number))
        if plain:
            table = [int((j, k) in forbidden) for j in range(number) for k in range(number)]
            layout = [number, 0, *(n.states for n in decisions), *table]
        else:
            listed = feasible_actions("Uniform", d, MOST_ACTIONS)
            layout = [number, len(listed), *(choice for action in listed for choice in action)]
        super().__init__(d, seed, act, learn, layout, np.empty(0, dtype=np.int64), np.empty(0))


@compiled
def act(
    solve: Any, program: Ints, known: Floats, layout: Ints, ints: Ints, floats: Floats, rng: Rng, action: Ints
) -> None:
    """One of the listed actions, or choices that do not clash with those before."""
    decisions, actions = layout[DECISIONS], layout[ACTIONS]
    drawn = below(rng, actions) if actions > 0 else 0
    for k in range(decisions):
        if actions > 0:
            action[k] = layout[TABLES + drawn * decisions + k]
            continue
        free = False
        while not free:
            action[k] = below(rng, layout[TABLES + k])
            free = True
            for j in range(k):
                free &= layout[TABLES + decisions + j * decisions + k] == 0 or action[j] != action[k]


@compiled
def learn(
    layout: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    """Count the round."""
    ints[ROUNDS] += times
    return DONE
