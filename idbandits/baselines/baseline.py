"""What all baselines share: they act and learn as kernels, and are built from a diagram that fits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from idbandits.circuit.model import Action, compile
from idbandits.diagram.declare import Diagram
from idbandits.diagram.feasibility import Feasibility
from idbandits.diagram.tables import Label
from idbandits.errors import DiagramError, InfeasibleError, ObservationError
from idbandits.inference.playing import Player
from idbandits.inference.protocol import DONE, LEARN, NOW, Round
from idbandits.kernel.compiling import Kernel, generated
from idbandits.kernel.fields import Packed, pack
from idbandits.kernel.states import HEADER, ROUNDS, State, grown
from idbandits.kernel.types import Floats, Ints, Rng, generator
from idbandits.solve.best import Solver, solve_easily


class Baseline:
    """A learner that is not Thompson sampling. Subclasses say how it acts and learns (kernels), and what it keeps.

    `layout` is what stays: a structure for kernels (see `kernel.fields`). `state` is what changes. `solver` finds best
    actions for those that need it, in a diagram with the same decisions.
    """

    ACT: Kernel
    LEARN: Kernel

    def __init__(self, d: Diagram, seed: Any, layout: NamedTuple, state: State, solver: Solver | None = None) -> None:
        self._model = compile(d)
        self.diagram = d.copy()
        self.rng = generator(seed)
        self.state = state
        solve, program = (solve_easily, pack()) if solver is None else (solver.kernel, solver.program)
        self.player = Player(self.ACT, self.LEARN, solve, program, pack(layout))

    @property
    def settings(self) -> dict[str, Any]:
        """What makes it differ from others of its class on the same diagram, besides its state, as plain data."""
        layout = self.player.evidence
        return {"layout": layout.ints.tolist(), "numbers": layout.floats.tolist()}

    def act(self) -> dict[str, Label]:
        """The next action."""
        action = np.zeros(len(self._model.decisions), dtype=np.int64)
        player = self.player
        player.act(player.solve.handle, player.solver, player.evidence, self.state, self.rng, action)
        return self._model.action_of(action)

    def update(self, action: Action, observation: Mapping[str, Any]) -> None:
        """Learn from a round, in which all observed nodes were seen."""
        vector = self._model.action_vector(action, None)
        states = self._model.observation_states(observation)
        unseen = [n.name for n in self._model.observed if n.name not in states]
        if unseen:
            raise ObservationError(f"{type(self).__name__} learns from whole rounds; {unseen[0]!r} was not seen")
        seen = np.array([states[n.name] for n in self._model.observed], dtype=np.int64)
        if not self.state.has_room():
            self.state = grown(self.state)
        self.player.learn(*self.player.evidence, *self.state, self.rng, vector, seen, 1, NOW)

    @property
    def rounds(self) -> int:
        """How many rounds were learned from."""
        return int(self.state.ints[ROUNDS])

    def copy(self, seed: Any = None) -> Self:
        """A learner that knows the same; with its own random numbers if a seed is given."""
        other = copy.copy(self)
        other.rng = copy.deepcopy(self.rng) if seed is None else generator(seed)
        other.state = self.state.copy()
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        return f"{type(self).__name__}({self.diagram.name!r}; {rounds})"


# -- kernels that learn --------------------------------------------------------------------------------------------


def _work(layout: Packed, state: State, rng: Rng, round_: Round) -> None:
    """What `learner` puts into `_learn`."""


work = _work


def _learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    work(Packed(program, numbers), State(ints, floats), rng, Round(action, seen, times, effort))
    ints[ROUNDS] += times
    return DONE


def learner(name: str) -> Callable[[Any], Kernel]:
    """Make a part, `work(layout, state, rng, round_)`, the kernel LEARN of the baseline with this class name.

    The round is counted in the state's header afterwards.
    """
    return lambda part: generated(_learn, LEARN, f"{name}.LEARN", part)


def state_of(ints: Ints, floats: Floats) -> State:
    """A state with these integers after the header, for learners that keep no groups."""
    return State(np.concatenate([np.zeros(HEADER, dtype=np.int64), ints]), floats)


# -- what diagrams fit ---------------------------------------------------------------------------------------------


def check_diagram(who: str, d: Diagram) -> None:
    """Raise unless this is a diagram with decisions and without contexts."""
    if not isinstance(d, Diagram):
        raise DiagramError(f"{who} is built from a Diagram, not {d!r}")
    for node in d.of_kind("context"):
        raise DiagramError(f"{who} makes no use of contexts; diagram {d.name!r} has {node.name!r}")
    if not d.of_kind("decision"):
        raise DiagramError(f"{who} has nothing to choose: diagram {d.name!r} has no decisions")


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
            f"{who} learns from one click per decision; diagram {d.name!r} has {positions} decisions and observes "
            f"{', '.join(n.name for n in clicks) or 'nothing'}"
        )
    for k, node in enumerate(clicks):
        above = decisions_above(d, node.name)
        if node.states != 2:
            raise DiagramError(f"{who} learns from clicks, 0 or 1; {node.name!r} has {node.states} states")
        if decisions[k].name not in above or any(later.name in above for later in decisions[k + 1 :]):
            raise DiagramError(
                f"{who}: {node.name!r} must be the click on {decisions[k].name!r}; it depends on "
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


def feasible_actions(who: str, d: Diagram, most: int) -> list[tuple[int, ...]]:
    """All actions that the constraints allow, as places among the choices, in order."""
    decisions = d.of_kind("decision")
    actions: list[tuple[int, ...]] = []
    for looked, action in enumerate(Feasibility(d).all_actions()):
        if action is not None:
            actions.append(action)
        if len(actions) > most:
            raise DiagramError(
                f"{who} keeps a number for every action; diagram {d.name!r} has more than {most:,} of them, "
                f"with {len(decisions)} decisions ({', '.join(n.name for n in decisions[:5])}"
                f"{', …' if len(decisions) > 5 else ''})"
            )
        if looked > 20 * most:
            raise DiagramError(
                f"{who} lists all actions; {looked:,} steps found {len(actions):,} that the constraints of diagram "
                f"{d.name!r} allow, and more are not taken"
            )
    if not actions:
        raise InfeasibleError(f"{who} has nothing to choose: no action of diagram {d.name!r} satisfies all_different")
    return actions
