"""The truth: a diagram with its true means, which answers actions with outcomes."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import numpy as np
from numba import types

from idbandits.circuit.build import starts, strides
from idbandits.circuit.model import Action, Means, Model, compile
from idbandits.circuit.queries import reward_at
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import TOLERANCE, Known, Label, Use
from idbandits.errors import ContextError, DiagramError, brief, check_whole
from idbandits.kernel.array_types import Floats, Indices, Ints, Rng, generator
from idbandits.kernel.compile import INTS, inlined, kernel, unmanaged
from idbandits.kernel.rng import RNG
from idbandits.kernel.structs import PACKED, Packed, pack, unpacker
from idbandits.simulation.schedule import Course, Moment
from idbandits.simulation.world_contexts import Requests
from idbandits.simulation.world_eligibility import Assortment, Eligible
from idbandits.solve.candidates import ROUNDING
from idbandits.solve.eligible import Allowed
from idbandits.solve.solver import Solution, best_action, check_effort

EFFORT = 100.0  # of the search for the best action of a context, which regret refers to


class Sampler(NamedTuple):
    """How to draw outcomes: one entry per context, then one per chance node in order, then one per reward term."""

    contexts: int
    nodes: int  # contexts and chance nodes
    entries: int
    place: Indices  # of an entry: the place of its node among the values of all nodes
    states: Indices  # of an entry
    first: Indices  # of an entry: where its table begins
    parent_start: Indices  # of an entry
    parent: Indices  # its place among the values of all nodes
    stride: Indices  # by which it moves the place in the table
    tables: Floats  # of cumulative probabilities; of rewards


unpack = unpacker(Sampler)


@inlined
def place_in_table(t: Sampler, entry: int, values: Ints) -> int:
    """Where the row of an entry begins, given the values of its parents."""
    place = t.first[entry]
    for k in range(t.parent_start[entry], t.parent_start[entry + 1]):
        place += t.stride[k] * values[t.parent[k]]
    return place


@unmanaged
def draw_entries(t: Sampler, first: int, last: int, rng: Rng, values: Ints) -> None:
    """Draw the nodes of some entries in order."""
    for entry in range(first, last):
        place, states = place_in_table(t, entry, values), t.states[entry]
        u = rng.random() * t.tables[place + states - 1]
        state = 0
        while state < states - 1 and u >= t.tables[place + state]:
            state += 1
        values[t.place[entry]] = state


@unmanaged
def draw_outcome(t: Sampler, rng: Rng, values: Ints) -> float:
    """Draw all chance nodes given decisions and contexts; the reward."""
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
    """Draw all chance nodes given decisions and contexts; the reward."""
    return draw_outcome(unpack(sampler.ints, sampler.floats), rng, values)


@final
class Outcome(NamedTuple):
    """What happened in a round."""

    observation: dict[str, Any]  # the states of the observed nodes
    latent: dict[str, Any]  # those of the latent nodes, which a learner does not see
    reward: float
    regret: float  # expected: the best action's reward less this action's, as `World.regret` has it
    context: dict[str, Any]

    def seen_by(self, d: Diagram) -> dict[str, Any]:
        """What a learner with this diagram is handed: the nodes that its diagram observes."""
        if not isinstance(d, Diagram):
            raise DiagramError(f"a Diagram is needed, not {brief(d)}")
        states, names = self.latent | self.observation, [n.name for n in d.of_kind("observed")]
        if missing := [name for name in names if name not in states]:
            raise DiagramError(f"diagram {d.name!r} observes {missing[0]!r}, which the world does not have")
        return {name: states[name] for name in names}


@final
class World:
    """A diagram with true means. `contexts` maps context nodes to the probabilities of their values (else equal).

    In a world that changes, `means` is a function of the round, 0, 1, 2, …, that returns them: the same object only if
    they are the same. `round` says which it is; `step` ends it. All questions are about the present round.

    Where not all choices are eligible, `allowed` says which are, as in `best_action`; or it is a function of the round
    and a NumPy generator that returns that. Regret then refers to the best eligible action.

    The best action of a context, which regret refers to, is searched for once, with an `effort` far above that of an
    agent. `best` says whether it is proven, and `gap` by how much it may fall short if not.

    A context with features is drawn by a function of a generator in `contexts`, which returns a mapping of them; the
    means of tables that depend on it are functions of that mapping.

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
        self, d: Diagram, means: Means | Callable[[int], Means], seed: Any = None, *,
        contexts: Mapping[str, Any] | None = None, allowed: Allowed | Callable[[int, Rng], Allowed] = None,
        effort: float = EFFORT,
    ) -> None:  # fmt: skip
        self.model, self.diagram, self.effort = compile(d), d.copy(), check_effort(effort)
        self._rewards = self.model.rewards  # refuses diagrams without
        self.rng = generator(seed)
        self.requests: Requests | None = None
        if any(node.features is not None for node in self.model.contexts):
            self.requests = Requests(self.model, means, contexts, int(self.rng.integers(2**63)))
            means, contexts = self.requests.means, self.requests.rest
        self._chances = _context_tables(self.model, {} if contexts is None else contexts)
        self.course = self._course(means)
        self._present: tuple[int, Moment | None] = 0, None
        self.values = np.zeros(len(self.model.nodes), dtype=np.int64)  # of all nodes in the present round
        places = {name: i for i, name in enumerate(self.model.nodes)}
        self._set = [places[node.name] for node in (*self.model.decisions, *self.model.contexts)]
        self._drawn: dict[str, Label] | None = None
        self.assortment = Assortment(self.model, allowed)
        self._listed: Eligible | None = None  # what is eligible in the present round, once it is drawn

    def _course(self, means: Means | Callable[[int], Means]) -> Course:
        number = math.prod(n.states for n in self.model.contexts)
        return Course(self.model, means, number, functools.partial(sampler_of, self.model, contexts=self._chances))

    @property
    def round(self) -> int:
        """The number of the present round: how many were played before it. It may be set."""
        return self._present[0]

    @round.setter
    def round(self, number: int) -> None:
        self._present, self._listed = (check_whole("round", number, 0), None), None

    @property
    def moment(self) -> Moment:
        """What is true in the present round."""
        t, moment = self._present
        if moment is None:  # not before it is asked for: there may be no next round
            moment = self.course.at(t)
            self._present = t, moment
        return moment

    @property
    def means(self) -> dict[str, Floats]:
        """The true means of the present round."""
        return self.moment.means

    def allowed(self) -> Allowed:
        """What is eligible in the present round, for `act(allowed=…)`; None if all choices are."""
        return self.eligible().allowed

    def eligible(self) -> Eligible:
        """The same, also as numbers: drawn before the context, and once per round."""
        with self.rng.bit_generator.lock:
            if self._listed is None:
                self._listed = self.assortment.at(self.round, self.rng)
            return self._listed

    def context(self) -> dict[str, Label]:
        """Draw the context of the next round, which `step` then uses."""
        self.eligible()
        with self.rng.bit_generator.lock:
            draw_contexts(self.moment.sampler, self.rng, self.values)
            self._drawn = self._labels("context") | self._requested()
            return dict(self._drawn)

    def step(self, action: Action, context: Action | None = None) -> Outcome:
        """Play the present round: in this context, or the one drawn last, or a new one. Then it is the next round."""
        eligible = self.eligible()
        with self.rng.bit_generator.lock:
            context = self._next_context(action) if context is None else context
            vector, moment, requests = self.model.action_vector(action, context), self.moment, self._requested()
            if self.requests is not None:
                self.requests.check(self.round, context)
            self.assortment.check(vector, eligible)
            self.values[self._set] = vector
            self._drawn = None
            reward = play(moment.sampler, self.rng, self.values)
            self._present = self.round + 1, moment if not self.course.drifts else None
            self._listed = eligible if not self.assortment.varies else None
            observed, latent, context = (self._labels(kind) for kind in ("observed", "latent", "context"))
            context |= requests
        regret = self._regret(moment, eligible, self.model.action_of(vector), context)
        return Outcome(observed, latent, reward, regret, context)

    def _next_context(self, action: Action) -> dict[str, Label]:
        """The context drawn last, or a new one, which an action that is refused leaves undrawn."""
        if self._drawn is not None:
            return self._drawn
        self.model.action_vector(action, self._labels("context") | self._requested())
        return self.context()

    def _requested(self) -> dict[str, Any]:
        """The contexts with features in the present round."""
        return {} if self.requests is None else self.requests.at(self.round)

    def _labels(self, kind: str) -> dict[str, Label]:
        return {n.name: n.values[self.values[i]] for i, n in enumerate(self.model.nodes.values()) if n.kind == kind}

    def best(self, context: Action | None = None) -> Solution:
        """The best eligible action, in a context."""
        return self._best(self.moment, self.eligible(), context)

    def _best(self, moment: Moment, eligible: Eligible, context: Action | None) -> Solution:
        places = *self.model.context_vector(context), eligible.numbers.tobytes()
        if places not in moment.best:
            effort = self.effort_for(len(moment.reference.best) > 0)
            found = best_action(self.diagram, moment.means, context, effort=effort, allowed=eligible.allowed)
            value = self._expected(moment, found.action, context)
            found = found._replace(value=value, bound=value if found.exact else max(found.bound, value))
            worst = self.course.worst
            worst[0] = max(worst[0], found.bound - value)
            if self.assortment.varies:
                return found
            moment.best[places] = found
        return moment.best[places]

    def effort_for(self, kept: bool) -> float:
        """The effort of a search for the best action of a context; it is less where that is not kept for later."""
        return self.effort if kept and not self.assortment.varies else min(self.effort, 1.0)

    @property
    def gap(self) -> float:
        """By how much a best action may fall short at most, in any round and context so far; 0 if all are proven."""
        return float(self.course.worst[0])

    def expected(self, action: Action, context: Action | None = None) -> float:
        """The expected reward of an action, in a context."""
        return self._expected(self.moment, action, context)

    def _expected(self, moment: Moment, action: Action, context: Action | None) -> float:
        return reward_at(self._rewards, self.model.action_vector(action, context), moment.parameters)

    def regret(self, action: Action, context: Action | None = None) -> float:
        """By how much an action's expected reward falls short of the best one's.

        It is negative, beyond rounding, where an action is better than a best one that is not proven to be that.
        """
        return self._regret(self.moment, self.eligible(), action, context)

    def _regret(self, moment: Moment, eligible: Eligible, action: Action, context: Action | None) -> float:
        best, value = self._best(moment, eligible, context).value, self._expected(moment, action, context)
        return best - value if not 0 < value - best <= ROUNDING * (self._rewards.scale + abs(best)) else 0.0

    def copy(self, seed: Any = None) -> World:
        """The same truth, in the same round; from round 0 on, with its own random numbers, if a seed is given."""
        other = copy.copy(self)
        if seed is not None:
            other.round = 0
        with self.rng.bit_generator.lock:
            other.rng = copy.deepcopy(self.rng) if seed is None else generator(seed)
            other.values = self.values.copy()
        if seed is not None and self.requests is not None:
            other.requests = self.requests.with_key(int(other.rng.integers(2**63)))
            other.course, other._drawn = other._course(other.requests.means), None
            other.round = 0
        return other

    def __repr__(self) -> str:
        return f"World({self.diagram.name!r}{f', round {self.round}' if self.course.drifts else ''})"


def _context_tables(model: Model, contexts: Any) -> dict[str, Floats]:
    names = [n.name for n in model.contexts]
    known = ", ".join(names) or "none"
    if not isinstance(contexts, Mapping):
        raise ContextError(f"contexts map context nodes ({known}) to probabilities; given {brief(contexts)}")
    for name in contexts:
        if not isinstance(name, str) or name not in names:
            raise ContextError(
                f"contexts: {brief(name)} is not a context node of diagram {model.name!r}; these are {known}"
            )
    return {n.name: _chances(n, contexts.get(n.name, np.full(n.states, 1 / n.states))) for n in model.contexts}


def _chances(node: Node, chances: Any) -> Floats:
    if isinstance(chances, Mapping):
        if set(chances) != set(node.values):
            given = f"has probabilities for {brief(list(chances))}"
            raise ContextError(f"contexts: {node.name!r} {given}; its values are {node.allowed()}")
        chances = [chances[v] for v in node.values]
    try:
        table = np.asarray(chances)
    except (TypeError, ValueError):
        table = np.array(None)
    if table.dtype.kind not in "biuf":
        raise ContextError(f"contexts: those of {node.name!r} are not numbers: {brief(chances)}")
    table = table.astype(np.float64)
    if table.shape != (node.states,) or not ((table >= 0) & (table <= 1)).all() or abs(table.sum() - 1) > TOLERANCE:
        needed = f"{node.states} probabilities that sum to 1"
        raise ContextError(f"contexts: {node.name!r} needs {needed}; given {brief(chances)}")
    return table


def sampler_of(model: Model, parameters: Floats, contexts: Mapping[str, Floats]) -> Packed:
    """The sampler of a model with these parameters and these probabilities of contexts."""
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
    """The table of a chance node: the shape of its parents, states on the last axis."""
    if isinstance(node.cpd, Known):
        return node.cpd.table
    assert isinstance(node.cpd, Use)
    learned = model.learned[node.cpd.name]
    first, shape = model.parameters.offsets[learned.name], [model.nodes[p].states for p in node.parents]
    rows = parameters[first : first + learned.size].reshape(-1, learned.states)
    if node.cpd.rows is None:
        return rows.reshape(*shape, learned.states)
    return np.ascontiguousarray(rows[np.broadcast_to(np.asarray(node.cpd.rows), shape)])
