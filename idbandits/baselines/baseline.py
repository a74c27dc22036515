"""What all baselines share: they act and learn as compiled functions, and are built from a diagram that fits."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from idbandits.circuit.model import Action, compile
from idbandits.diagram.declare import Diagram
from idbandits.diagram.tables import Label
from idbandits.errors import DiagramError, IdbanditsError, InfeasibleError, ObservationError, is_integer
from idbandits.inference.acting import ACT, LEARN, NOW, Player, generator
from idbandits.inference.groups import HEADER, ROUNDS, State, grown, is_full, with_groups
from idbandits.kernel.compiling import direct, ready
from idbandits.kernel.types import Floats, Ints
from idbandits.solve.best import SOLVE, Solver, solve_easily


class Baseline:
    """A learner that is not Thompson sampling. Subclasses say how it acts and learns, and what it keeps.

    `layout` is what stays: integers for the compiled functions. `ints` (after a header) and `floats` are what changes.
    `solver` finds best actions for those that need it, in a diagram with the same decisions. A learner that counts
    lists of `lists` numbers, one a round, has a growing table of them in place of `ints`.
    """

    def __init__(
        self, d: Diagram, seed: Any, act: Any, learn: Any, layout: Sequence[int] | Ints, ints: Ints, floats: Floats,
        solver: Solver | None = None, numbers: Floats | None = None, lists: int = 0,
    ) -> None:  # fmt: skip
        self._model = compile(d)
        self.diagram = d.copy()
        self._layout = np.array(layout, dtype=np.int64)
        self._numbers = np.empty(0) if numbers is None else np.array(numbers, dtype=np.float64)
        self._solver = solver
        self.kernels = [(act, ACT), (solve_easily if solver is None else solver.uncompiled, SOLVE), (learn, LEARN)]
        self._rng = generator(seed)
        floats = np.array(floats, dtype=np.float64)
        self._state = (
            with_groups(floats, 1, lists, 0)
            if lists
            else State(np.concatenate([np.zeros(HEADER, dtype=np.int64), ints.astype(np.int64)]), floats)
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What makes it differ from others of its class on the same diagram, besides its state, as plain data."""
        return {"layout": self._layout.tolist(), "numbers": self._numbers.tolist()}

    @functools.cached_property
    def _player(self) -> Player:
        act, solve, learn = (ready(*kernel) for kernel in self.kernels)
        return Player(
            act,
            solve,
            learn,
            np.empty(0, dtype=np.int64) if self._solver is None else self._solver.program,
            np.empty(0) if self._solver is None else self._solver.known,
            self._layout,
            self._numbers,
        )

    def act(self) -> dict[str, Label]:
        """The next action."""
        action = np.zeros(len(self._model.decisions), dtype=np.int64)
        player = self._player
        choose = direct(*self.kernels[0])
        choose(player.solve, player.program, player.known, player.parts, *self._state, self._rng, action)
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
        if is_full(self._state.ints):
            self._state = grown(self._state)
        learn = direct(*self.kernels[2])
        learn(player.parts, player.numbers, *self._state, self._rng, vector, seen, 1, NOW)

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


def check_diagram(who: str, d: Diagram) -> None:
    """What is no diagram, decides nothing or has contexts is refused: baselines know none."""
    if not isinstance(d, Diagram):
        raise DiagramError(f"{who} is built from a Diagram, not {d!r}")
    for node in d.of_kind("context"):
        raise DiagramError(f"{who} makes no use of contexts; diagram {d.name!r} has {node.name!r}")
    if not d.of_kind("decision"):
        raise DiagramError(f"{who} has nothing to choose: diagram {d.name!r} has no decisions")


def checked_horizon(who: str, horizon: Any) -> int:
    """The number of rounds that a learner is made for."""
    if not is_integer(horizon) or horizon < 2:
        raise IdbanditsError(
            f"{who}: horizon is the number of rounds it is made for, a whole number from 2; not {horizon!r}"
        )
    return int(horizon)


def ranking(who: str, d: Diagram) -> tuple[int, int]:
    """The numbers of positions and items of a diagram that ranks items, where what is seen are clicks on positions.

    The k-th observed node is the click on the k-th decision: it depends on that one and on none further down.
    """
    check_diagram(who, d)
    decisions, clicks = d.of_kind("decision"), d.of_kind("observed")
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
    above, ahead = set[str](), [name]
    while ahead:
        at = ahead.pop()
        if at not in above:
            above.add(at)
            ahead += d.nodes[at].parents
    return {at for at in above if d.nodes[at].kind == "decision"}


def clashes(d: Diagram) -> set[tuple[int, int]]:
    """The pairs of decisions, by their places, that may not share a choice."""
    places = {n.name: k for k, n in enumerate(d.of_kind("decision"))}
    return {(places[a], places[b]) for group in d.different for a in group for b in group if a != b}


def feasible_actions(who: str, d: Diagram, most: int) -> list[tuple[int, ...]]:
    """All actions that the constraints allow, as places among the choices, in order."""
    decisions, forbidden = d.of_kind("decision"), clashes(d)
    found: list[tuple[int, ...]] = []
    before: list[list[int]] = [[j for j in range(k) if (j, k) in forbidden] for k in range(len(decisions))]
    stack: list[tuple[int, ...]] = [()]
    looked = 0
    while stack:
        action = stack.pop()
        k, looked = len(action), looked + 1
        if k == len(decisions):
            found.append(action)
        if len(found) > most:
            raise DiagramError(
                f"{who} keeps a number for every action; diagram {d.name!r} has more than {most:,} of them, "
                f"with {len(decisions)} decisions ({', '.join(n.name for n in decisions[:5])}"
                f"{', …' if len(decisions) > 5 else ''})"
            )
        if looked > 20 * most:
            raise DiagramError(
                f"{who} lists all actions; {looked:,} steps found {len(found):,} that the constraints of diagram "
                f"{d.name!r} allow, and more are not taken"
            )
        if k < len(decisions):
            taken = {decisions[j].values[action[j]] for j in before[k]}
            values = decisions[k].values
            stack.extend((*action, i) for i in range(len(values) - 1, -1, -1) if values[i] not in taken)
    if not found:
        raise InfeasibleError(f"{who} has nothing to choose: no action of diagram {d.name!r} satisfies all_different")
    return found
