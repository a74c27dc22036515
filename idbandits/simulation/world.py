"""The truth: a diagram with its true means, which answers actions with outcomes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np

from idbandits.circuit.model import Action, Means, Model, compile
from idbandits.circuit.questions import reward_at
from idbandits.diagram.declare import Diagram, Node
from idbandits.diagram.tables import TOLERANCE, Known, Label, Use
from idbandits.errors import ContextError, DiagramError, brief
from idbandits.inference.acting import generator
from idbandits.kernel.types import Floats, Ints
from idbandits.simulation.loop import draw_contexts, play
from idbandits.solve.best import Solution, best_action


@final
class Outcome(NamedTuple):
    """What happened in a round."""

    observation: dict[str, Any]  # the states of the observed nodes
    latent: dict[str, Any]  # those of the latent nodes, which a learner does not see
    reward: float
    regret: float  # expected: the best action's reward less this action's
    context: dict[str, Any]

    def seen_by(self, d: Diagram) -> dict[str, Any]:
        """What a learner with this diagram is handed: the nodes that its diagram observes."""
        states = self.latent | self.observation
        missing = [n.name for n in d.of_kind("observed") if n.name not in states]
        if missing:
            raise DiagramError(f"diagram {d.name!r} observes {missing[0]!r}, which the world does not have")
        return {n.name: states[n.name] for n in d.of_kind("observed")}


@final
class World:
    """A diagram with true means. `contexts` maps context nodes to the probabilities of their values (else equal).

    >>> d = Diagram("coins")
    >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
    >>> world = World(d, {"heads": [0.0, 0.5, 1.0]}, seed=0)
    >>> outcome = world.step({"coin": 2})
    >>> outcome.observation, outcome.reward, outcome.regret
    ({'heads': 1}, 1.0, 0.0)
    >>> world.best().action, world.regret({"coin": 1})
    ({'coin': 2}, 0.5)
    """

    def __init__(
        self, d: Diagram, means: Means, seed: Any = None, *, contexts: Mapping[str, Any] | None = None
    ) -> None:
        self._model = compile(d)
        self.diagram = d.copy()
        self._parameters = self._model.parameter_vector(means)
        self.means = {name: np.array(means[name], dtype=np.float64) for name in self._model.learned}
        self._rewards = self._model.rewards
        self._parameters = self._model.parameter_vector(means)  # with the known entries that rewards brought
        chances = _context_tables(self._model, {} if contexts is None else contexts)
        self._program, self._numbers = program_of(self.diagram, self._model, self._parameters, chances)
        self._names = list(self._model.nodes)
        self._rng = generator(seed)
        self._values = np.zeros(len(self._names), dtype=np.int64)
        self._drawn: dict[str, Label] | None = None
        self._best: dict[tuple[Any, ...], Solution] = {}

    def context(self) -> dict[str, Label]:
        """Draw the context of the next round, which `step` then uses."""
        draw_contexts(self._program, self._numbers, self._rng, self._values)
        nodes = self._model.nodes
        self._drawn = {
            n.name: n.values[self._values[self._names.index(n.name)]] for n in nodes.values() if n.kind == "context"
        }
        return dict(self._drawn)

    def step(self, action: Action, context: Action | None = None) -> Outcome:
        """Play a round: in this context, or the one drawn last, or a new one."""
        if context is None:
            context = self._drawn if self._drawn is not None else self.context()
        vector = self._model.action_vector(action, context)
        for node, place in zip([*self._model.decisions, *self._model.contexts], vector.tolist(), strict=True):
            self._values[self._names.index(node.name)] = place
        self._drawn = None
        reward = play(self._program, self._numbers, self._rng, self._values)
        states = {
            kind: {
                n.name: n.values[self._values[i]] for i, n in enumerate(self._model.nodes.values()) if n.kind == kind
            }
            for kind in ("observed", "latent")
        }
        return Outcome(states["observed"], states["latent"], reward, self.regret(action, context), dict(context))

    def best(self, context: Action | None = None) -> Solution:
        """The best action, in a context."""
        places = tuple(self._model.context_vector(context))
        if places not in self._best:
            self._best[places] = best_action(self.diagram, self.means, context)
        return self._best[places]

    def expected(self, action: Action, context: Action | None = None) -> float:
        """The expected reward of an action, in a context."""
        vector = self._model.action_vector(action, context)
        return reward_at(self._model, self._rewards.circuit, self._rewards.ends, vector, self._parameters)

    def regret(self, action: Action, context: Action | None = None) -> float:
        """By how much an action's expected reward falls short of the best one's."""
        return max(0.0, self.best(context).value - self.expected(action, context))

    def copy(self, seed: Any = None) -> World:
        """The same truth; with its own random numbers if a seed is given."""
        other = copy.copy(self)
        other._rng = copy.deepcopy(self._rng) if seed is None else generator(seed)
        other._values = self._values.copy()
        return other

    def __repr__(self) -> str:
        return f"World({self.diagram.name!r})"


def _context_tables(model: Model, given: Any) -> dict[str, Floats]:
    names = ", ".join(n.name for n in model.contexts) or "none"
    if not isinstance(given, Mapping):
        raise ContextError(f"contexts map context nodes ({names}) to probabilities; given {brief(given)}")
    for name in given:
        if all(n.name != name for n in model.contexts):
            raise ContextError(f"contexts: {name!r} is no context node of diagram {model.name!r}; these are {names}")
    tables = {}
    for node in model.contexts:
        chances = given.get(node.name, np.full(node.states, 1 / node.states))
        if isinstance(chances, Mapping):
            if set(chances) != set(node.values):
                raise ContextError(
                    f"contexts: {node.name!r} has probabilities for {list(chances)!r}; its values are {node.allowed()}"
                )
            chances = [chances[v] for v in node.values]
        try:
            table = np.asarray(chances)
            if table.dtype.kind not in "biuf":
                raise TypeError
            table = table.astype(np.float64)
        except (TypeError, ValueError):
            raise ContextError(f"contexts: those of {node.name!r} are not numbers: {brief(chances)}") from None
        if table.shape != (node.states,) or not ((table >= 0) & (table <= 1)).all() or abs(table.sum() - 1) > TOLERANCE:
            raise ContextError(
                f"contexts: {node.name!r} needs {node.states} probabilities that sum to 1; given {brief(chances)}"
            )
        tables[node.name] = table
    return tables


def program_of(d: Diagram, model: Model, parameters: Floats, contexts: Mapping[str, Floats]) -> tuple[Ints, Floats]:
    """A world for compiled functions: how to draw contexts, then all chance nodes in order, and add up the reward.

    ints: for contexts, chance nodes and reward terms in turn, how many, and for each: the node (-1 for rewards), its
    number of states (1), where its table begins, how many parents, and for each parent its place and stride.
    """
    places = {name: i for i, name in enumerate(model.nodes)}
    program: list[int] = []
    tables: list[Floats] = []
    at = 0

    def section(parts: list[tuple[int, int, tuple[str, ...], Floats]]) -> None:
        nonlocal at
        program.append(len(parts))
        for place, states, parents, table in parts:
            program.extend([place, states, at, len(parents)])
            stride = states
            strides = []
            for size in reversed(table.shape[: len(parents)]):
                strides.append(stride)
                stride *= size
            for parent, step in zip(parents, reversed(strides), strict=True):
                program.extend([places[parent], step])
            tables.append(table.ravel())
            at += table.size

    chance = [n for n in model.nodes.values() if n.is_chance]
    section([(places[n.name], n.states, (), np.cumsum(contexts[n.name])) for n in model.contexts])
    section([(places[n.name], n.states, n.parents, np.cumsum(table_of(model, n, parameters), axis=-1)) for n in chance])
    section([(-1, 1, tuple(term.parents), np.asarray(term.table, dtype=np.float64)) for term in d.rewards])
    return np.array(program, dtype=np.int64), np.concatenate([np.empty(0), *tables])


def table_of(model: Model, node: Node, parameters: Floats) -> Floats:
    """The table of a chance node: the shape of its parents, states on the last axis."""
    if isinstance(node.cpd, Known):
        return node.cpd.table
    assert isinstance(node.cpd, Use)
    learned = model.learned[node.cpd.name]
    first = model.parameters.offsets[learned.name]
    rows = parameters[first : first + learned.size].reshape(-1, learned.states)
    shape = [model.nodes[p].states for p in node.parents]
    if node.cpd.rows is None:
        return rows.reshape(*shape, learned.states)
    picked = np.broadcast_to(np.asarray(node.cpd.rows), shape)
    return np.ascontiguousarray(rows[picked])
