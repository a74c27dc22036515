"""Base class of the baselines, the kernels they are built from, and checks of the diagrams they accept."""

import copy
import math
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any, NamedTuple, Self

import numpy as np

from idbandits.circuit.model import Action, compile
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import Label
from idbandits.errors import DiagramError, IdbanditsError, ObservationError, brief, check_whole
from idbandits.inference.act import ACT, Player
from idbandits.inference.learn import LEARN
from idbandits.inference.rounds.round import DONE, NO_FEATURES, Round
from idbandits.inference.state.state import HEADER, ROUNDS, State, grown
from idbandits.kernel.array_types import Floats, Ints, Rng, generator
from idbandits.kernel.compile import Kernel, generated
from idbandits.kernel.structs import Packed, pack, unpacker
from idbandits.solve.eligible import EVERY_CHOICE
from idbandits.solve.solver import Solver, solve_easily

MOST_ROUNDS = 10**18  # limit of integer settings, which kernels read as int64


class Baseline:
    """Learner with a constant configuration, a state, and the kernels ACT and LEARN, which read and change them.

    `diagram` is a copy of its diagram, `rng` its random generator.

    Parameters
    ----------
    d : Diagram
        Diagram.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    config : named tuple
        Configuration for kernels.
    state : State
        State before the first round.
    solver : Solver, optional
        Search for the best action, for kernels that solve.
    """

    ACT: Kernel
    LEARN: Kernel

    def __init__(self, d: Diagram, seed: Any, config: NamedTuple, state: State, solver: Solver | None = None) -> None:
        self._model, self.diagram = compile(d), d.copy()
        self.rng, self.state = generator(seed), state
        solve, program = (solve_easily, pack()) if solver is None else (solver.kernel, solver.program)
        self.player = Player(self.ACT, self.LEARN, solve, program, pack(config))

    @property
    def settings(self) -> dict[str, Any]:
        """Configuration as plain data, with integers and floats as kernels get them."""
        ints, floats = self.player.evidence
        return {"config": ints.tolist(), "numbers": floats.tolist()}

    def act(self) -> dict[str, Label]:
        """Return the next action: the choice of every decision.

        Returns
        -------
        dict of str to label
            Action for `update`.
        """
        player, action = self.player, np.zeros(len(self._model.decisions), dtype=np.int64)
        with self.rng.bit_generator.lock:
            found = player.act(
                player.solve.handle, player.solver, player.evidence, self.state, self.rng, action, EVERY_CHOICE,
                NO_FEATURES,
            )  # fmt: skip
        if not found:
            raise IdbanditsError(f"{self!r} found no action: its indices are NaN")
        return self._model.action_of(action)

    def update(self, action: Action, observation: Mapping[str, Any]) -> None:
        """Learn from a round.

        Parameters
        ----------
        action : mapping of str to label
            Choice of every decision.
        observation : mapping of str to label
            State of every observed node.

        Raises
        ------
        ObservationError
            A node was not observed; baselines need all.
        """
        vector = self._model.action_vector(action, None)
        states = self._model.observation_states(observation)
        if unseen := [n.name for n in self._model.observed if n.name not in states]:
            raise ObservationError(f"{type(self).__name__} needs all observed nodes; {unseen[0]!r} was not seen")
        seen = np.array([states[n.name] for n in self._model.observed], dtype=np.int64)
        with self.rng.bit_generator.lock:
            self.make_ready()
            self.player.learn(self.player.evidence, self.state, self.rng, Round(vector, seen))

    @property
    def rounds(self) -> int:
        """Number of rounds learned from."""
        return int(self.state.ints[ROUNDS])

    def make_ready(self) -> None:
        """Grow the state if it has no space for another round."""
        if not self.state.has_room():
            self.state = grown(self.state)

    def eligible(self, allowed: Any) -> Ints:
        """Return an empty array, whatever is `allowed`: baselines always choose from all items."""
        return EVERY_CHOICE

    def copy(self, seed: Any = None) -> Self:
        """Return a copy, with a new random generator if a `seed` is given."""
        other = copy.copy(self)
        with self.rng.bit_generator.lock:
            other.state, other.rng = self.state.copy(), copy.deepcopy(self.rng) if seed is None else generator(seed)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        return f"{type(self).__name__}({self.diagram.name!r}; {rounds})"


unpack: Any = None  # `kernels` replaces these globals of the templates below
work: Any = None


def _act(
    solve: Any, solver: Packed, packed: Packed, state: State, rng: Rng, action: Ints, eligible: Ints, features: Floats
) -> bool:
    work(unpack(packed.ints, packed.floats), state, rng, action)
    return True


def _act_by_solving(
    solve: Any, solver: Packed, packed: Packed, state: State, rng: Rng, action: Ints, eligible: Ints, features: Floats
) -> bool:
    return work(unpack(packed.ints, packed.floats), state, rng, action, solve, solver)


def _learn(packed: Packed, state: State, rng: Rng, round_: Round) -> int:
    work(unpack(packed.ints, packed.floats), state, rng, round_)
    state.ints[ROUNDS] += round_.times
    return DONE


def kernels(name: str, config: type[Any], act: Any, learn: Any, solves: bool = False) -> tuple[Kernel, Kernel]:
    """Return the kernels ACT and LEARN of a class; `act` also gets `solve` and its program if it `solves`."""
    names = globals() | {"unpack": unpacker(config)}
    acting = FunctionType((_act_by_solving if solves else _act).__code__, names)
    learning = FunctionType(_learn.__code__, names)
    return generated(acting, ACT, f"{name}.ACT", act), generated(learning, LEARN, f"{name}.LEARN", learn)


def state_of(floats: Floats, ints: Iterable[int] = ()) -> State:
    """Return a state without groups: these floats, and these integers after the header."""
    return State(np.array([0] * HEADER + list(ints), dtype=np.int64), floats)


def check_horizon(who: str, horizon: Any) -> int:
    """Validate the number of rounds that a baseline is tuned for."""
    return check_whole(f"{who}: horizon", horizon, 2, MOST_ROUNDS)


def log_horizon(who: str, horizon: Any) -> float:
    """Return log `horizon` as a confidence level; 0 if it is None, for a level that grows with the rounds."""
    return 0.0 if horizon is None else math.log(check_horizon(who, horizon))


def check_diagram(who: str, d: Diagram) -> tuple[list[Node], list[Node]]:
    """Return the decisions and observed nodes of a diagram; raise if it has contexts, or no decisions."""
    if not isinstance(d, Diagram):
        raise DiagramError(f"{who}: d must be a Diagram, got {brief(d)}")
    for node in d.of_kind("context"):
        raise DiagramError(f"{who} does not support contexts; diagram {d.name!r} has {node.name!r}")
    if not d.of_kind("decision"):
        raise DiagramError(f"{who} needs a decision; diagram {d.name!r} has no decisions")
    return d.of_kind("decision"), d.of_kind("observed")


def check_ranking(who: str, d: Diagram) -> tuple[int, int]:
    """Return the numbers of positions and items; the k-th observed node must be the click on the k-th decision."""
    decisions, clicks = check_diagram(who, d)
    first, positions, has = decisions[0], len(decisions), f"diagram {d.name!r} has"
    for node in decisions:
        if node.values != first.values:
            choices = ", ".join(f"{n.name!r} has {n.allowed()}" for n in (first, node))
            raise DiagramError(f"{who}: all decisions must have the same items; {choices}")
    if positions > first.states:
        raise DiagramError(f"{who} needs at least as many items as positions; {has} {first.states} and {positions}")
    for _, excepted in d.constraints:
        if excepted:
            raise DiagramError(f"{who} shows distinct items; in diagram {d.name!r}, {excepted[0]!r} may repeat")
    if len(clicks) != positions:
        observed = ", ".join(n.name for n in clicks) or "nothing"
        raise DiagramError(f"{who} needs one click per decision; {has} {positions} decisions and observes {observed}")
    for k, click in enumerate(clicks):
        above = decisions_above(d, click.name)
        if click.states != 2:
            raise DiagramError(f"{who}: clicks must have 2 states; {click.name!r} has {click.states}")
        if [n.name for n in decisions[k:] if n.name in above] != [decisions[k].name]:
            expected = f"{click.name!r} must be the click on {decisions[k].name!r}"
            raise DiagramError(f"{who}: {expected}; it depends on {', '.join(sorted(above)) or 'no decision'}")
    return positions, first.states


def decisions_above(d: Diagram, name: str) -> set[str]:
    """Return the decisions that a node depends on."""
    above = [name]
    for at in above:  # grows in the loop
        above += [parent for parent in d.nodes[at].parents if parent not in above]
    return {at for at in above if d.nodes[at].kind == "decision"}
