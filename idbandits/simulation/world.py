"""Simulated environment: a diagram with true means, which draws contexts and outcomes of actions."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import numpy as np
from numba import types

from idbandits.circuit.build import rows_of_use, starts, strides
from idbandits.circuit.model import Action, Means, Model, compile
from idbandits.circuit.queries import reward_at
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import TOLERANCE, Known, Label, Use
from idbandits.errors import ContextError, DiagramError, brief, check_whole
from idbandits.kernel.array_types import Floats, Indices, Ints, Rng, generator
from idbandits.kernel.compile import INTS, inlined, kernel, unmanaged
from idbandits.kernel.rng import RNG
from idbandits.kernel.structs import PACKED, Packed, pack, unpacker
from idbandits.simulation.schedule import Phase, Schedule
from idbandits.simulation.world_contexts import ContextFeatures
from idbandits.simulation.world_eligibility import Eligibility, Eligible
from idbandits.solve.candidates import ROUNDING
from idbandits.solve.eligible import Allowed
from idbandits.solve.solver import Solution, best_action, check_effort

EFFORT = 100.0  # default effort of the search for best actions, which regret refers to


class Sampler(NamedTuple):
    """Tables to draw outcomes from: one entry per context, then one per chance node in order and per reward term."""

    contexts: int
    nodes: int  # contexts and chance nodes
    entries: int
    place: Indices  # by entry: index of its node among the values of all nodes
    states: Indices  # by entry
    first: Indices  # by entry: start of its table in `tables`
    parent_start: Indices  # by entry: start in `parent` and `stride`
    parent: Indices  # index among the values of all nodes
    stride: Indices  # of the parent in the table
    tables: Floats  # cumulative probabilities; rewards


unpack = unpacker(Sampler)


@inlined
def place_in_table(t: Sampler, entry: int, values: Ints) -> int:
    """Return the start of an entry's row given the values of its parents."""
    place = t.first[entry]
    for k in range(t.parent_start[entry], t.parent_start[entry + 1]):
        place += t.stride[k] * values[t.parent[k]]
    return place


@unmanaged
def draw_entries(t: Sampler, first: int, last: int, rng: Rng, values: Ints) -> None:
    """Draw the nodes of a range of entries in order."""
    for entry in range(first, last):
        place, states = place_in_table(t, entry, values), t.states[entry]
        u = rng.random() * t.tables[place + states - 1]
        state = 0
        while state < states - 1 and u >= t.tables[place + state]:
            state += 1
        values[t.place[entry]] = state


@unmanaged
def draw_outcome(t: Sampler, rng: Rng, values: Ints) -> float:
    """Draw all chance nodes given decisions and contexts, and return the reward."""
    draw_entries(t, t.contexts, t.nodes, rng, values)
    reward = 0.0
    for entry in range(t.nodes, t.entries):
        reward += t.tables[place_in_table(t, entry, values)]
    return reward


@kernel(types.void(PACKED, RNG, INTS))
def draw_contexts(sampler: Packed, rng: Rng, values: Ints) -> None:
    """Draw all context nodes."""
    t = unpack(sampler.ints, sampler.floats)
    draw_entries(t, 0, t.contexts, rng, values)


@kernel(types.float64(PACKED, RNG, INTS))
def play(sampler: Packed, rng: Rng, values: Ints) -> float:
    """Draw all chance nodes given decisions and contexts, and return the reward."""
    return draw_outcome(unpack(sampler.ints, sampler.floats), rng, values)


@final
class Outcome(NamedTuple):
    """Outcome of a round, returned by `World.step`.

    Attributes
    ----------
    observation : dict of str to label
        States of the observed nodes.
    latent : dict of str to label
        States of the latent nodes, which learners do not see.
    reward : float
        Reward of the round.
    regret : float
        Expected reward of the best action minus that of the action played, as `World.regret`.
    context : dict of str to label
        Values of the contexts.

    Examples
    --------
    >>> from idbandits import models
    >>> world = World(models.cascade(2, 1), {"attraction": [0.0, 1.0]}, seed=0)
    >>> outcome = world.step({"A1": 0})
    >>> outcome.observation, outcome.latent, outcome.reward, outcome.regret
    ({'C1': 0}, {'E1': 1, 'W1': 0}, 0.0, 1.0)
    """

    observation: dict[str, Any]  # states of the observed nodes
    latent: dict[str, Any]  # states of the latent nodes, which learners do not see
    reward: float
    regret: float  # expected reward of the best action minus that of this action, see `World.regret`
    context: dict[str, Any]

    def seen_by(self, d: Diagram) -> dict[str, Any]:
        """Return the states of the nodes that a learner with this diagram observes.

        Parameters
        ----------
        d : Diagram
            Diagram of the learner, whose observed nodes may be latent in the world.

        Returns
        -------
        dict of str to label
            Observation for `update`.

        Raises
        ------
        DiagramError
            The diagram observes a node that the world does not have.
        """
        if not isinstance(d, Diagram):
            raise DiagramError(f"d must be a Diagram, got {brief(d)}")
        states, names = self.latent | self.observation, [n.name for n in d.of_kind("observed")]
        if missing := [name for name in names if name not in states]:
            raise DiagramError(f"diagram {d.name!r} observes {missing[0]!r}, which the world does not have")
        return {name: states[name] for name in names}


@final
class World:
    """Simulated environment: a diagram with true means, which draws contexts and outcomes of actions.

    The best action of a context, which regret refers to, is searched for once. `best` says whether it is proven; if
    not, `gap` bounds its distance from the optimum. All methods refer to the present round.

    Parameters
    ----------
    d : Diagram
        Diagram with a reward.
    means : mapping of str to array, or function
        Means by learned table: P(1) of every row, in the shape of the rows; for more than two states, the probabilities
        of all states on an additional last axis. In a world that changes, a function of the round 0, 1, 2, … that
        returns them; it may return the same object only if the means are the same. Means of tables that depend on a
        context with features are functions of the mapping of features.
    seed : int, SeedSequence or Generator, optional
        Seed of the random numbers.
    contexts : mapping, optional
        Probabilities of the values of contexts by name (default: equal). For a context with features, a function of a
        NumPy generator that returns a mapping of features.
    allowed : iterable of labels, mapping or function, optional
        Eligible choices, as for `best_action`; or a function of the round and a NumPy generator that returns them.
        Regret then refers to the best eligible action.
    effort : float
        Effort of the search for best actions, as for `best_action`; by default far above that of an agent.

    Raises
    ------
    DiagramError, MeansError, ContextError
        An argument does not fit the diagram.

    Examples
    --------
    >>> d = Diagram("coins")
    >>> d.reward(d.observed("heads", [d.decision("coin", 3)]))
    >>> world = World(d, {"heads": [0.0, 0.5, 1.0]}, seed=0)
    >>> outcome = world.step({"coin": 2})
    >>> outcome.observation, outcome.reward, outcome.regret
    ({'heads': 1}, 1.0, 0.0)
    >>> world.best().action, world.expected({"coin": 1}), world.regret({"coin": 1}), world.gap, world.round
    ({'coin': 2}, 0.5, 0.5, 0.0, 1)

    A world that changes after 100 rounds:

    >>> World(d, lambda t: {"heads": [0.1, 0.2, 0.3] if t < 100 else [0.3, 0.2, 0.1]}).copy(seed=1)
    World('coins', round 0)
    """

    def __init__(
        self, d: Diagram, means: Means | Callable[[int], Means], seed: Any = None, *,
        contexts: Mapping[str, Any] | None = None, allowed: Allowed | Callable[[int, Rng], Allowed] = None,
        effort: float = EFFORT,
    ) -> None:  # fmt: skip
        self.model, self.diagram, self.effort = compile(d), d.copy(), check_effort(effort)
        self._rewards = self.model.rewards  # raises if there are none
        self.rng = generator(seed)
        self._features: ContextFeatures | None = None
        if any(node.features is not None for node in self.model.contexts):
            self._features = ContextFeatures(self.model, means, contexts, int(self.rng.integers(2**63)))
            means, contexts = self._features.means, self._features.plain_contexts
        self._chances = _context_tables(self.model, {} if contexts is None else contexts)
        self.schedule = self._schedule(means)
        self._present: tuple[int, Phase | None] = 0, None
        self.values = np.zeros(len(self.model.nodes), dtype=np.int64)  # of all nodes in the present round
        places = {name: i for i, name in enumerate(self.model.nodes)}
        self._inputs = [places[node.name] for node in (*self.model.decisions, *self.model.contexts)]
        self._drawn: dict[str, Label] | None = None  # context of the present round
        self.eligibility = Eligibility(self.model, allowed)
        self._eligible: Eligible | None = None  # in the present round, once drawn

    def _schedule(self, means: Means | Callable[[int], Means]) -> Schedule:
        number = math.prod(n.states for n in self.model.contexts)
        return Schedule(self.model, means, number, functools.partial(sampler_of, self.model, contexts=self._chances))

    @property
    def round(self) -> int:
        """Number of rounds played before the present one; it may be set."""
        return self._present[0]

    @round.setter
    def round(self, number: int) -> None:
        self._present, self._eligible = (check_whole("round", number, 0), None), None

    @property
    def phase(self) -> Phase:
        """Means of the present round with derived quantities."""
        t, phase = self._present
        if phase is None:  # computed on demand, because there may be no next round
            phase = self.schedule.at(t)
            self._present = t, phase
        return phase

    @property
    def means(self) -> dict[str, Floats]:
        """True means of the present round, as arrays by learned table."""
        return self.phase.means

    def allowed(self) -> Allowed:
        """Return the eligible choices of the present round, for `act(allowed=…)`; None if all choices are eligible."""
        return self.eligible().allowed

    def eligible(self) -> Eligible:
        """Return the eligible choices of the present round, drawn before the context and once per round."""
        with self.rng.bit_generator.lock:
            if self._eligible is None:
                self._eligible = self.eligibility.at(self.round, self.rng)
            return self._eligible

    def context(self) -> dict[str, Label]:
        """Draw the context of the present round, which `step` then uses."""
        with self.rng.bit_generator.lock:
            self.eligible()
            draw_contexts(self.phase.sampler, self.rng, self.values)
            self._drawn = self._labels("context") | self._drawn_features()
            return dict(self._drawn)

    def step(self, action: Action, context: Action | None = None) -> Outcome:
        """Play the present round and go to the next one.

        Parameters
        ----------
        action : mapping of str to label
            Choice of every decision.
        context : mapping of str to label, optional
            Value of every context; by default those that `context` drew last, or new ones.

        Returns
        -------
        Outcome
            States of all nodes, reward and regret.

        Raises
        ------
        ActionError, ContextError
            The action or the context is invalid; the round is not played.
        """
        with self.rng.bit_generator.lock:
            eligible = self.eligible()
            if context is None and self._drawn is None:
                self.model.action_vector(action, self._labels("context") | self._drawn_features())  # may raise
                self.context()
            context = self._drawn if context is None else context
            vector, phase = self.model.action_vector(action, context), self.phase
            if self._features is not None:
                self._features.check(self.round, context or {})
            self.eligibility.check(vector, eligible)
            self.values[self._inputs] = vector
            context = self._labels("context") | self._drawn_features()
            regret = self.regret(self.model.action_of(vector), context)
            self._drawn = None
            reward = play(phase.sampler, self.rng, self.values)
            self._present = self.round + 1, None if self.schedule.varies else phase
            self._eligible = None if self.eligibility.varies else eligible
            return Outcome(self._labels("observed"), self._labels("latent"), reward, regret, context)

    def _drawn_features(self) -> dict[str, Any]:
        """Return the context features of the present round."""
        return {} if self._features is None else self._features.at(self.round)

    def _labels(self, kind: str) -> dict[str, Label]:
        return {n.name: n.values[self.values[i]] for i, n in enumerate(self.model.nodes.values()) if n.kind == kind}

    def best(self, context: Action | None = None) -> Solution:
        """Return the best eligible action in a context.

        Parameters
        ----------
        context : mapping of str to label, optional
            Value of every context.

        Returns
        -------
        Solution
            Action, expected reward, and proof or bound.
        """
        phase, eligible = self.phase, self.eligible()
        key = *self.model.context_vector(context), eligible.numbers.tobytes()
        if key in phase.solutions:
            return phase.solutions[key]
        effort = self.effort_for(len(phase.best_values) > 0)
        solution = best_action(self.diagram, phase.means, context, effort=effort, allowed=eligible.allowed)
        value = reward_at(self._rewards, self.model.action_vector(solution.action, context), phase.parameters)
        solution = solution._replace(value=value, bound=value if solution.exact else max(solution.bound, value))
        gap = self.schedule.gap
        gap[0] = max(gap[0], solution.bound - value)
        if not self.eligibility.varies:
            phase.solutions[key] = solution
        return solution

    def effort_for(self, cached: bool) -> float:
        """Return the effort of a search for the best action of a context.

        Parameters
        ----------
        cached : bool
            Whether the result is cached; the effort is lower if it is not.

        Returns
        -------
        float
            Effort, as for `best_action`.
        """
        return self.effort if cached and not self.eligibility.varies else min(self.effort, 1.0)

    @property
    def gap(self) -> float:
        """Upper bound on the suboptimality of best actions, in all rounds and contexts so far; 0 if all are proven."""
        return float(self.schedule.gap[0])

    def expected(self, action: Action, context: Action | None = None) -> float:
        """Return the expected reward of an action in a context.

        Parameters
        ----------
        action : mapping of str to label
            Choice of every decision.
        context : mapping of str to label, optional
            Value of every context.

        Returns
        -------
        float
            Expected reward under the true means.
        """
        return reward_at(self._rewards, self.model.action_vector(action, context), self.phase.parameters)

    def regret(self, action: Action, context: Action | None = None) -> float:
        """Return the expected reward of the best action minus that of an action.

        Parameters
        ----------
        action : mapping of str to label
            Choice of every decision.
        context : mapping of str to label, optional
            Value of every context.

        Returns
        -------
        float
            Regret of a round; negative if the action is better than a best action that is not proven.
        """
        with self.rng.bit_generator.lock:
            best, value = self.best(context).value, self.expected(action, context)
        return best - value if not 0 < value - best <= ROUNDING * (self._rewards.scale + abs(best)) else 0.0

    def copy(self, seed: Any = None) -> World:
        """Return a copy of the world.

        Parameters
        ----------
        seed : int, SeedSequence or Generator, optional
            Seed of a new random generator; the copy then starts in round 0. Without a seed, the copy is in the same
            round and continues with equal random numbers.

        Returns
        -------
        World
            Copy, which shares what was found about best actions.
        """
        other = copy.copy(self)
        with self.rng.bit_generator.lock:
            other.rng = copy.deepcopy(self.rng) if seed is None else generator(seed)
            other.values = self.values.copy()
        if seed is not None:
            if self._features is not None:
                other._features = self._features.with_key(int(other.rng.integers(2**63)))
                other.schedule, other._drawn = other._schedule(other._features.means), None
            other.round = 0
        return other

    def __repr__(self) -> str:
        return f"World({self.diagram.name!r}{f', round {self.round}' if self.schedule.varies else ''})"


def _context_tables(model: Model, contexts: Any) -> dict[str, Floats]:
    """Return the probabilities of all context nodes, by default equal ones."""
    nodes = {n.name: n for n in model.contexts}
    known = ", ".join(nodes) or "none"
    if not isinstance(contexts, Mapping):
        raise ContextError(f"contexts must map context nodes ({known}) to probabilities, got {brief(contexts)}")
    if unknown := [name for name in contexts if name not in nodes]:
        where = f"diagram {model.name!r}, whose context nodes are {known}"
        raise ContextError(f"contexts: {brief(unknown[0])} is not a context node of {where}")
    return {name: _chances(n, contexts.get(name, np.full(n.states, 1 / n.states))) for name, n in nodes.items()}


def _chances(node: Node, chances: Any) -> Floats:
    numbers, error = chances, f"contexts: {node.name!r} must have {node.states} probabilities that sum to 1"
    if isinstance(chances, Mapping):
        if set(chances) != set(node.values):
            raise ContextError(f"{error}, one for each of {node.allowed()}; got {brief(chances)}")
        numbers = [chances[v] for v in node.values]
    try:
        table = np.asarray(numbers)
    except (TypeError, ValueError):  # ragged lists
        table = np.array(None)
    is_valid = (
        table.dtype.kind in "biuf" and table.shape == (node.states,) and bool(((table >= 0) & (table <= 1)).all())
    )
    if not is_valid or abs(table.astype(np.float64).sum() - 1) > TOLERANCE:
        raise ContextError(f"{error}, got {brief(chances)}")
    return table.astype(np.float64)


def sampler_of(model: Model, parameters: Floats, contexts: Mapping[str, Floats]) -> Packed:
    """Return the packed sampler of a model with these parameters and probabilities of contexts."""
    places = {name: i for i, name in enumerate(model.nodes)}
    chance = [n for n in model.nodes.values() if n.is_chance]
    entries: list[tuple[int, int, tuple[str, ...], Floats]] = [
        *((places[n.name], n.states, (), np.cumsum(contexts[n.name])) for n in model.contexts),
        *((places[n.name], n.states, n.parents, np.cumsum(_table(model, n, parameters), axis=-1)) for n in chance),
        *((-1, 1, tuple(term.parents), term.table) for term in model.diagram.rewards),
    ]
    node, states, parents, tables = zip(*entries, strict=True)
    steps = [strides(own.shape[: len(above)], last) for last, above, own in zip(states, parents, tables, strict=True)]
    return pack(
        Sampler(
            contexts=len(model.contexts), nodes=len(model.contexts) + len(chance), entries=len(entries), place=node,
            states=states, first=starts([own.ravel() for own in tables]), parent_start=starts(parents),
            parent=[places[name] for above in parents for name in above],
            stride=[step for own in steps for step in own], tables=np.concatenate([own.ravel() for own in tables]),
        )
    )  # fmt: skip


def _table(model: Model, node: Node, parameters: Floats) -> Floats:
    """Return the table of a chance node: axes of its parents, then its states."""
    if isinstance(node.cpd, Known):
        return node.cpd.table
    assert isinstance(node.cpd, Use)
    learned = model.learned[node.cpd.name]
    first = model.parameters.offsets[learned.name]
    rows = parameters[first : first + learned.size].reshape(-1, learned.states)
    return np.ascontiguousarray(rows[rows_of_use(model.diagram, node)])
