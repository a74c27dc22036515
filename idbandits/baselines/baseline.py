"""What all baselines share: they act and learn as kernels, and are built from a diagram that fits."""

import copy
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any, NamedTuple, Self

import numpy as np

from idbandits.circuit.model import Action, compile
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import Label
from idbandits.errors import DiagramError, IdbanditsError, ObservationError, brief
from idbandits.inference.protocol import ACT, DONE, LEARN, NOW, Player, Round
from idbandits.inference.state.state import HEADER, ROUNDS, State, grown
from idbandits.kernel.array_types import Floats, Ints, Rng, generator
from idbandits.kernel.compile import Kernel, generated
from idbandits.kernel.structs import Packed, pack, unpacker
from idbandits.solve.eligible import EVERY_CHOICE
from idbandits.solve.solver import Solver, solve_easily

MOST_ROUNDS = 10**18  # of horizons and such, which are whole numbers in kernels


class Baseline:
    """A learner that is not Thompson sampling: its layout stays, its state changes, its kernels act and learn."""

    ACT: Kernel
    LEARN: Kernel

    def __init__(self, d: Diagram, seed: Any, layout: NamedTuple, state: State, solver: Solver | None = None) -> None:
        self._model, self.diagram = compile(d), d.copy()
        self.rng, self.state = generator(seed), state
        solve, program = (solve_easily, pack()) if solver is None else (solver.kernel, solver.program)
        self.player = Player(self.ACT, self.LEARN, solve, program, pack(layout))

    @property
    def settings(self) -> dict[str, Any]:
        """What makes it differ from others of its class on the same diagram, besides its state, as plain data."""
        ints, floats = self.player.evidence
        return {"layout": ints.tolist(), "numbers": floats.tolist()}

    def act(self) -> dict[str, Label]:
        """The next action."""
        player, action = self.player, np.zeros(len(self._model.decisions), dtype=np.int64)
        with self.rng.bit_generator.lock:
            found = player.act(
                player.solve.handle, player.solver, player.evidence, self.state, self.rng, action, EVERY_CHOICE
            )
        if not found:
            raise IdbanditsError(f"{self!r} finds no action: its indices are not numbers")
        return self._model.action_of(action)

    def update(self, action: Action, observation: Mapping[str, Any]) -> None:
        """Learn from a round, in which all observed nodes were seen."""
        vector = self._model.action_vector(action, None)
        states = self._model.observation_states(observation)
        if unseen := [n.name for n in self._model.observed if n.name not in states]:
            raise ObservationError(f"{type(self).__name__} learns from whole rounds; {unseen[0]!r} was not seen")
        seen = np.array([states[n.name] for n in self._model.observed], dtype=np.int64)
        with self.rng.bit_generator.lock:
            self.make_ready()
            self.player.learn(*self.player.evidence, *self.state[:2], self.rng, vector, seen, 1, NOW)

    @property
    def rounds(self) -> int:
        """How many rounds were learned from."""
        return int(self.state.ints[ROUNDS])

    def make_ready(self) -> None:
        """Give the state room for another round."""
        if not self.state.has_room():
            self.state = grown(self.state)

    def eligible(self, allowed: Any) -> Ints:
        """No numbers: all choices may be made, and baselines cannot be told otherwise."""
        return np.empty(0, np.int64)

    def copy(self, seed: Any = None) -> Self:
        """A learner that knows the same; with its own random numbers if a seed is given."""
        other = copy.copy(self)
        with self.rng.bit_generator.lock:
            other.state, other.rng = self.state.copy(), copy.deepcopy(self.rng) if seed is None else generator(seed)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        return f"{type(self).__name__}({self.diagram.name!r}; {rounds})"


unpack: Any = None  # how the layout is read, and the part that does the work: `kernels` puts them into the templates
work: Any = None


def _act(solve: Any, solver: Packed, packed: Packed, state: State, rng: Rng, action: Ints, eligible: Ints) -> bool:
    work(unpack(packed.ints, packed.floats), state, rng, action)
    return True


def _act_by_solving(
    solve: Any, solver: Packed, packed: Packed, state: State, rng: Rng, action: Ints, eligible: Ints
) -> bool:
    return work(unpack(packed.ints, packed.floats), state, rng, action, solve, solver)


def _learn(
    program: Ints, numbers: Floats, ints: Ints, floats: Floats, rng: Rng, action: Ints, seen: Ints, times: int,
    effort: int,
) -> int:  # fmt: skip
    work(unpack(program, numbers), State(ints, floats, floats), rng, Round(action, seen, times, effort, 1.0, 1.0))
    ints[ROUNDS] += times
    return DONE


def kernels(name: str, layout: type[Any], act: Any, learn: Any, solves: bool = False) -> tuple[Kernel, Kernel]:
    """The kernels ACT and LEARN of the class with this name, made of parts; with solve and solver if it `solves`."""
    names = globals() | {"unpack": unpacker(layout)}
    acting = FunctionType((_act_by_solving if solves else _act).__code__, names)
    learning = FunctionType(_learn.__code__, names)
    return generated(acting, ACT, f"{name}.ACT", act), generated(learning, LEARN, f"{name}.LEARN", learn)


def state_of(floats: Floats, ints: Iterable[int] = ()) -> State:
    """A state with these floats, and these integers after the header, for learners that keep no groups."""
    return State(np.array([0] * HEADER + list(ints), dtype=np.int64), floats)


def check_diagram(who: str, d: Diagram) -> tuple[list[Node], list[Node]]:
    """The decisions and the observed nodes of a diagram, which must have decisions and no contexts."""
    if not isinstance(d, Diagram):
        raise DiagramError(f"{who} is built from a Diagram, not {brief(d)}")
    for node in d.of_kind("context"):
        raise DiagramError(f"{who} makes no use of contexts; diagram {d.name!r} has {node.name!r}")
    if not d.of_kind("decision"):
        raise DiagramError(f"{who} has nothing to choose: diagram {d.name!r} has no decisions")
    return d.of_kind("decision"), d.of_kind("observed")


def check_ranking(who: str, d: Diagram) -> tuple[int, int]:
    """The numbers of positions and items of a diagram, whose k-th observed node is the click on the k-th decision."""
    decisions, clicks = check_diagram(who, d)
    first, positions = decisions[0], len(decisions)
    for node in decisions:
        if node.values != first.values:
            choices = ", ".join(f"{n.name!r} has {n.allowed()}" for n in (first, node))
            raise DiagramError(f"{who} ranks items: all decisions choose among the same; {choices}")
    if positions > first.states:
        raise DiagramError(f"{who} shows different items: {positions} decisions need as many, not {first.states}")
    for _, excepted in d.constraints:
        if excepted:
            raise DiagramError(f"{who} shows different items; in diagram {d.name!r}, {excepted[0]!r} may repeat")
    if len(clicks) != positions:
        has = f"{positions} decisions and observes {', '.join(n.name for n in clicks) or 'nothing'}"
        raise DiagramError(f"{who} learns from one click per decision; diagram {d.name!r} has {has}")
    for k, click in enumerate(clicks):
        above = decisions_above(d, click.name)
        if click.states != 2:
            raise DiagramError(f"{who} learns from clicks, 0 or 1; {click.name!r} has {click.states} states")
        if [n.name for n in decisions[k:] if n.name in above] != [decisions[k].name]:
            expected = f"{click.name!r} must be the click on {decisions[k].name!r}"
            raise DiagramError(f"{who}: {expected}; it depends on {', '.join(sorted(above)) or 'no decision'}")
    return positions, first.states


def decisions_above(d: Diagram, name: str) -> set[str]:
    """The decisions that a node depends on."""
    above = [name]
    for at in above:  # grows on the way
        above += [parent for parent in d.nodes[at].parents if parent not in above]
    return {at for at in above if d.nodes[at].kind == "decision"}
