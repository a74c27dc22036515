"""What all baselines share: they act and learn as compiled functions, and are built from a diagram that fits."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from idbandits.acting import ACT, LEARN, NOW, Player, generator
from idbandits.compiled import Action, compile
from idbandits.diagram import Diagram
from idbandits.errors import DiagramError, ObservationError
from idbandits.inference.groups import HEADER, ROUNDS, State
from idbandits.passes import ready
from idbandits.solve import SOLVE, Solver, solve_easily
from idbandits.tables import Floats, Ints, Label


class Baseline:
    """A learner that is not Thompson sampling. Subclasses say how it acts and learns, and what it keeps.

    `layout` is what stays: integers for the compiled functions. `ints` (after a header) and `floats` are what changes.
    `solver` finds best actions for those that need it, in a diagram with the same decisions.
    """

    def __init__(
        self, d: Diagram, seed: Any, act: Any, learn: Any, layout: Sequence[int] | Ints, ints: Ints, floats: Floats,
        solver: Solver | None = None, numbers: Floats | None = None,
    ) -> None:  # fmt: skip
        self._model = compile(d)
        self.diagram = d.copy()
        none = np.empty(0, dtype=np.int64), np.empty(0)
        self._player = Player(
            ready(act, ACT),
            ready(solve_easily, SOLVE) if solver is None else solver.kernel,
            ready(learn, LEARN),
            none[0] if solver is None else solver.program,
            none[1] if solver is None else solver.known,
            np.array(layout, dtype=np.int64),
            np.empty(0) if numbers is None else numbers,
        )
        self._rng = generator(seed)
        self._state = State(
            np.concatenate([np.zeros(HEADER, dtype=np.int64), ints.astype(np.int64)]),
            np.array(floats, dtype=np.float64),
        )

    def act(self) -> dict[str, Label]:
        """The next action."""
        action = np.zeros(len(self._model.decisions), dtype=np.int64)
        player = self._player
        player.act(player.solve, player.program, player.known, player.parts, *self._state, self._rng, action)
        return self._model.action_of(action)

    def update(self, action: Action, observation: Mapping[str, Any]) -> None:
        """Learn from a round, in which all observed nodes were seen."""
        vector = self._model.action_vector(action, None)
        states = self._model.observation_states(observation)
        unseen = [n.name for n in self._model.observed if n.name not in states]
        if unseen:
            raise ObservationError(f"{type(self).__name__} learns from whole rounds; {unseen[0]!r} was not seen")
        seen = np.array([states[n.name] for n in self._model.observed], dtype=np.int64)
        player = self._player
        player.learn(player.parts, player.numbers, *self._state, self._rng, vector, seen, 1, NOW)

    @property
    def rounds(self) -> int:
        """How many rounds were learned from."""
        return int(self._state.ints[ROUNDS])

    def copy(self, seed: Any = None) -> Self:
        """A learner that knows the same; with its own random numbers if a seed is given."""
        other = copy.copy(self)
        other._rng = copy.deepcopy(self._rng) if seed is None else generator(seed)
        other._state = State(self._state.ints.copy(), self._state.floats.copy())
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        return f"{type(self).__name__}({self.diagram.name!r}; {rounds})"


def refuse_contexts(who: str, d: Diagram) -> None:
    """Baselines know no contexts."""
    for node in d.of_kind("context"):
        raise DiagramError(f"{who} makes no use of contexts; diagram {d.name!r} has {node.name!r}")


def ranking(who: str, d: Diagram) -> tuple[int, int]:
    """The numbers of positions and items of a diagram that ranks items, where what is seen are clicks on positions.

    The k-th observed node is the click on the k-th decision: it depends on that one and on none further down.
    """
    refuse_contexts(who, d)
    decisions, clicks = d.of_kind("decision"), d.of_kind("observed")
    if not decisions:
        raise DiagramError(f"{who} ranks items; diagram {d.name!r} has no decisions")
    for node in decisions:
        if node.values != decisions[0].values:
            raise DiagramError(
                f"{who} ranks items: all decisions choose among the same; {decisions[0].name!r} has "
                f"{decisions[0].allowed()}, {node.name!r} has {node.allowed()}"
            )
    items, positions = len(decisions[0].values), len(decisions)
    if positions > items:
        raise DiagramError(f"{who} shows different items: {positions} decisions need as many, not {items}")
    if len(clicks) != positions:
        raise DiagramError(
            f"{who} learns from one click a decision; diagram {d.name!r} has {positions} decisions and observes "
            f"{', '.join(n.name for n in clicks) or 'nothing'}"
        )
    for k, node in enumerate(clicks):
        above = decisions_above(d, node.name)
        if node.states != 2:
            raise DiagramError(f"{who} learns from clicks, 0 or 1; {node.name!r} has {node.states} states")
        if decisions[k].name not in above or any(later.name in above for later in decisions[k + 1 :]):
            raise DiagramError(
                f"{who}: {node.name!r} is to be the click on {decisions[k].name!r}; it depends on "
                f"{', '.join(sorted(above)) or 'no decision'}"
            )
    return positions, items


def decisions_above(d: Diagram, name: str) -> set[str]:
    """The decisions that a node depends on."""
    node = d.nodes[name]
    return {name} if node.kind == "decision" else set().union(*(decisions_above(d, p) for p in node.parents))
