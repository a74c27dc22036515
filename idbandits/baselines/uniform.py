"""Uniform: any action, each as likely as another."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from idbandits.baselines.baseline import Baseline, check_diagram, feasible_actions, learner
from idbandits.diagram.declare import Diagram
from idbandits.diagram.feasibility import Feasibility
from idbandits.inference.playing import ACT
from idbandits.inference.protocol import Round
from idbandits.kernel.compiling import bare, kernel
from idbandits.kernel.draws import below
from idbandits.kernel.fields import Packed, unpacker
from idbandits.kernel.states import State, no_groups
from idbandits.kernel.types import Bools, Indices, Ints, Rng

MOST_ACTIONS = 100_000


class Layout(NamedTuple):
    """The decisions, and all actions where these are listed."""

    decisions: int
    choices: Indices  # how many each decision has
    conflicts: Indices  # for pairs of decisions, whether they may not share a choice
    actions: int  # how many are listed; 0 if choices are drawn one after the other
    listed: Indices  # the choices of one action after the other


unpack = unpacker(Layout)


@kernel(ACT)
def act(solve: Any, solver: Packed, packed: Packed, state: State, rng: Rng, action: Ints) -> None:
    """One of the listed actions, or choices that do not conflict with those before."""
    layout = unpack(packed.ints, packed.floats)
    if layout.actions > 0:
        first = below(rng, layout.actions) * layout.decisions
        for k in range(layout.decisions):
            action[k] = layout.listed[first + k]
        return
    for k in range(layout.decisions):
        free = False
        while not free:
            action[k] = below(rng, layout.choices[k])
            free = True
            for j in range(k):
                free &= layout.conflicts[j * layout.decisions + k] == 0 or action[j] != action[k]


@bare
def learn(packed: Packed, state: State, rng: Rng, round_: Round) -> None:
    """Nothing is learned."""


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

    ACT, LEARN = act, learner("Uniform")(learn)

    def __init__(self, d: Diagram, seed: Any = None) -> None:
        check_diagram("Uniform", d)
        choices, conflicts = [n.states for n in d.of_kind("decision")], Feasibility(d).conflicts
        listed = [] if _can_be_drawn_in_turn(d, conflicts) else feasible_actions("Uniform", d, MOST_ACTIONS)
        layout = Layout(
            len(choices), choices, conflicts.ravel().tolist(), len(listed), [choice for a in listed for choice in a]
        )
        super().__init__(d, seed, layout, no_groups(np.empty(0)))


def _can_be_drawn_in_turn(d: Diagram, conflicts: Bools) -> bool:
    """Whether all actions are equally likely if each decision is drawn among the choices that are left."""
    decisions = d.of_kind("decision")
    related = conflicts | np.eye(len(decisions), dtype=np.bool_)
    return (
        all(decisions[j].values == decisions[k].values for j, k in np.argwhere(conflicts).tolist())
        and bool((related @ related == related).all())
        and all(rivals < n.states for rivals, n in zip(conflicts.sum(axis=0).tolist(), decisions, strict=True))
    )
