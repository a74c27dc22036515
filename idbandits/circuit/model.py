"""Compiled diagrams: their circuits, and the validation of actions, contexts, observations and means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast, final

import numpy as np

from idbandits.circuit import eliminate as elimination
from idbandits.circuit.build import Builder, Parameters
from idbandits.circuit.circuit import PRODUCT, Circuit
from idbandits.circuit.eliminate import RewardPlan
from idbandits.diagram.constraints import Feasibility
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import MOST_REWARD, TOLERANCE, Label, LearnedTable, Use
from idbandits.diagram.values import is_missing
from idbandits.errors import ActionError, ContextError, DiagramError, MeansError, ObservationError, brief
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.structs import pack

Action: TypeAlias = Mapping[str, Any]  # labels by node; for a context with features, a mapping of these
Means: TypeAlias = Mapping[str, Any]
Derived = TypeVar("Derived")
DOUBLE = np.dtype(np.float64)


@final
class Likelihood:
    """Circuit of P(observation | action), and the places of its evidence indicators."""

    def __init__(self, d: Diagram, parameters: Parameters, fold: bool) -> None:
        builder = Builder(d, parameters)
        root = elimination.likelihood(builder, fold)
        self.circuit = builder.finish([root]).circuit
        self.program = pack(self.circuit).ints  # for kernels
        self.indicators = builder.indicators
        self.parts = builder.finish(builder.factors(root))  # one run per factor

    def leaves(self, seen: Mapping[str, Any], columns: tuple[int, ...] = ()) -> Floats:
        """Return the values of the leaves: 0 for states that differ from an observed one, else 1.

        With arrays of states, there is one column per observation; states that are -1 were not seen.
        """
        leaves = np.ones((self.circuit.leaves, *columns))
        ends = [*self.indicators.values(), self.circuit.leaves][1:]
        for (name, first), end in zip(self.indicators.items(), ends, strict=True):
            if name in seen:
                states = np.asarray(seen[name])
                leaves[first:end] = [(states == state) | (states < 0) for state in range(end - first)]
        return leaves


@final
class Rewards:
    """Circuit of the expected reward, one run of nodes per group of decisions that must be made together.

    The expected reward is the sum of the runs' roots. Groups share no decision, in a reward or in a constraint.
    """

    def __init__(self, d: Diagram, parameters: Parameters, plan: RewardPlan) -> None:
        if not d.rewards:
            raise DiagramError(f"diagram {d.name!r} has no reward: add terms by reward(...)")
        sizes = [float(np.abs(term.table).max()) for term in d.rewards]
        self.scale = sum(sizes)
        if not self.scale <= MOST_REWARD:
            largest = ", ".join(d.rewards[int(np.argmax(sizes))].parents)
            most = f"must add up to at most {MOST_REWARD:g}, so that floats can hold sums over rounds"
            raise DiagramError(f"diagram {d.name!r}: rewards {most}, got {self.scale:g} (that of {largest})")
        builder = Builder(d, parameters)
        roots = elimination.rewards(builder, plan)
        reach = _decisions_below(builder)
        parts = _merge([(reach.get(root, frozenset()), [root]) for root in roots])
        self.separable_parts = [decisions for decisions, _ in parts]
        links = [frozenset(parameters.axes[name] for name in group) for group in d.different]
        groups = _merge([*parts, *((link, []) for link in links)])
        self.groups = [decisions for decisions, _ in groups]
        finished = builder.finish([builder.add(roots) for _, roots in groups])
        self.circuit, self.ends, self.complement = finished.circuit, finished.ends, finished.complement
        self.program = pack(self.circuit).ints  # for kernels


def _decisions_below(b: Builder) -> dict[int, frozenset[int]]:
    """Return the decisions that each inner node of a circuit depends on."""
    reach: dict[int, frozenset[int]] = {}
    for i, edges in enumerate(b.edges):
        parts = (b.decided.get(slot, frozenset()) | reach.get(child, frozenset()) for slot, child in edges)
        reach[b.leaves + i] = frozenset().union(*parts)
    return reach


def _merge(parts: Sequence[tuple[frozenset[int], list[int]]]) -> list[tuple[frozenset[int], list[int]]]:
    """Join parts (decisions, roots) that share a decision, until none do; parts without decisions join each other."""
    merged: list[tuple[frozenset[int], list[int]]] = []
    for decisions, roots in parts:
        touching = [m for m in merged if m[0] & decisions or not (m[0] or decisions)]
        merged = [m for m in merged if m not in touching]
        merged.append((decisions.union(*(m[0] for m in touching)), [r for m in touching for r in m[1]] + roots))
    return merged


@final
class Model:
    """Compiled diagram, as `idb.compile(d)` returns it."""

    def __init__(self, d: Diagram) -> None:
        self.name = d.name
        self.diagram = d.copy()  # later changes of the diagram do not change this model
        self.nodes: Mapping[str, Node] = dict(d.nodes)
        self.learned = dict(d.learned)
        self.decisions, self.contexts = d.of_kind("decision"), d.of_kind("context")
        self.latents, self.observed = d.of_kind("latent"), d.of_kind("observed")
        self._decision_names, self._context_names = ({n.name for n in own} for own in (self.decisions, self.contexts))
        self._choices = [(k, n.name, n.values) for k, n in enumerate(self.decisions)]
        self._means_shapes = [(t.name, t.means_shape) for t in self.learned.values()]
        self._reward_plan = elimination.plan_rewards(d)
        self.parameters = Parameters.of(d, elimination.known_tables(d, self._reward_plan))
        self.likelihood = Likelihood(d, self.parameters, fold=True)
        self._derived: dict[Any, Any] = {}

    @cached_property
    def feasibility(self) -> Feasibility:
        """The actions that the constraints allow."""
        return Feasibility(self.diagram)

    @cached_property
    def literal(self) -> Likelihood:
        """The likelihood with all latent nodes: no row of a learned table is folded away."""
        return Likelihood(self.diagram, self.parameters, fold=False)

    @cached_property
    def revealed(self) -> Likelihood:
        """The likelihood with indicators for latent nodes too: its derivatives are their joint probabilities."""
        return Likelihood(self.diagram.revealed(), self.parameters, fold=True)

    @cached_property
    def rewards(self) -> Rewards:
        """The expected reward."""
        return Rewards(self.diagram, self.parameters, self._reward_plan)

    @cached_property
    def learned_nodes(self) -> list[tuple[Node, Use]]:
        """The nodes with learned tables, and how they use these."""
        return [(node, node.cpd) for node in self.nodes.values() if isinstance(node.cpd, Use)]

    def readers(self, table: str) -> list[tuple[Node, Use]]:
        """Return the nodes that read a learned table, and how they use it."""
        return [(node, use) for node, use in self.learned_nodes if use.name == table]

    def derived(self, make: Callable[[Model], Derived]) -> Derived:
        """Return `make(self)`, computed once: the cache of all packages above for what they derive from a model."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast(Derived, self._derived[make])

    def __repr__(self) -> str:
        head = f"Model of diagram {self.name!r}: {self.parameters.learned_size} learned parameters"
        reward = f"\n  reward:     {_size(self.rewards.circuit)}" if self.diagram.rewards else ""
        return f"{head}\n  likelihood: {_size(self.likelihood.circuit)}{reward}"

    def action_vector(
        self, action: Action, context: Action | None = None, request: list[float] | None = None
    ) -> Ints:  # fmt: skip
        """Encode decisions, then contexts; append the features of contexts to `request`, if there is one."""
        chosen = _indices("action", "decision", self.decisions, self._decision_names, action, ActionError)
        if not self.feasibility.is_surely_feasible(chosen):
            self.feasibility.check({name: values[chosen[k]] for k, name, values in self._choices})
        if self.contexts or context:
            chosen += self.context_vector(context, request)
        return np.array(chosen, dtype=np.int64)

    def context_vector(self, context: Action | None, request: list[float] | None = None) -> list[int]:
        """Encode contexts; append their features to `request`, if there is one."""
        context = {} if context is None else context
        return _indices("context", "context node", self.contexts, self._context_names, context, ContextError, request)

    def request_vector(self, context: Action | None) -> Floats:
        """Encode the features of all contexts that have some, of a context that was validated before."""
        values: Any = context
        nodes = [(node.name, node.features) for node in self.contexts if node.features is not None]
        encoded = (features.encoded(f"context: context node {name!r}", values[name]) for name, features in nodes)
        return np.array([number for numbers in encoded for number in numbers])

    def action_of(self, vector: Ints) -> dict[str, Label]:
        """Return the decisions of an action vector as labels by name."""
        chosen = vector.tolist()
        return {name: values[chosen[k]] for k, name, values in self._choices}

    def observation_states(self, observation: Mapping[str, Any]) -> dict[str, int]:
        """Encode the observed nodes; nodes that are absent, or whose value is missing (`is_missing`), are left out."""
        if not isinstance(observation, Mapping):
            raise ObservationError(f"observation must map names of nodes to states, got {brief(observation)}")
        seen: dict[str, int] = {}
        for name, value in observation.items():
            node = self.nodes.get(name)
            if node is None or node.kind != "observed":
                what = "not a node of the diagram" if node is None else f"a {node.kind} node"
                allowed = ", ".join(n.name for n in self.observed) or "none"
                raise ObservationError(f"observation: {brief(name)} is {what}; the observed nodes are {allowed}")
            if (state := node.index(value)) is not None:
                seen[name] = state
            elif not is_missing(value):
                wrong = f"must be one of {node.allowed()}, got {brief(value)}"
                raise ObservationError(f"observation: node {name!r} {wrong}")
        return seen

    def tables_of_means(self, parameters: Floats) -> dict[str, Floats]:
        """Return the means of all learned tables, in their public shapes, from vectors of parameters."""
        tables = {}
        for name, table in self.learned.items():
            first = self.parameters.offsets[name]
            entries = parameters[..., first : first + table.size]
            if table.fixed:
                entries = table.with_fixed(entries.copy())
            rows = entries.reshape(*entries.shape[:-1], *table.shape, table.states)
            tables[name] = rows[..., 1] if table.states == 2 else rows
        return tables

    def flat_means(self, means: Means) -> Floats:
        """Return the means of all tables as one vector; shapes are validated, probabilities are not."""
        means = dict(means) if isinstance(means, Mapping) and type(means) is not dict else means
        complete = type(means) is dict and len(means) == len(self._means_shapes)
        parts = []
        for name, shape in self._means_shapes:
            table = means.get(name) if complete else None
            if type(table) is not np.ndarray or table.dtype is not DOUBLE or table.shape != shape:
                self.parameter_vector(means)
                table = np.asarray(means[name], dtype=np.float64)
            parts.append(table if table.ndim == 1 else table.ravel())
            if self.learned[name].fixed:
                _check_fixed(self.learned[name], parts[-1])
        if len(parts) == 1 and parts[0].flags.carray:  # as kernels need it
            return parts[0]
        return np.concatenate(parts or [np.empty(0)])

    def parameter_vector(self, means: Means) -> Floats:
        """Return all parameters, with all states of each row, from the means of the learned tables."""
        if not isinstance(means, Mapping):
            raise MeansError(f"means must map names of learned tables to arrays, got {brief(means)}")
        for name in means:
            if name not in self.learned:
                names = f"diagram {self.name!r}; these are {', '.join(self.learned) or 'none'}"
                nested = isinstance(means[name], Mapping)
                hint = f"; of several structures, pass the means of one: means[{brief(name)}]" if nested else ""
                raise MeansError(f"means: {brief(name)} is not a learned table of {names}{hint}")
        parts = []
        for name, table in self.learned.items():
            if name not in means:
                raise MeansError(f"means: learned table {name!r} is missing; it has shape {table.means_shape}")
            parts.append(_full_means(name, means[name], table.means_shape, table.states))
            _check_fixed(table, parts[-1].reshape(-1, table.states)[:, 1:] if table.states == 2 else parts[-1])
        return np.concatenate([*parts, self.parameters.known])


def compile(d: Diagram) -> Model:
    """Compile a diagram into its circuits, once; the result prints its size.

    Parameters
    ----------
    d : Diagram
        Diagram, which caches the model until it is changed.

    Returns
    -------
    Model
        Circuits of the likelihood and of the expected reward. All other functions compile diagrams themselves.

    Raises
    ------
    ComplexityError
        A circuit would not fit in memory.

    Examples
    --------
    >>> d = Diagram("coins")
    >>> coin = d.decision("coin", 3)
    >>> d.reward(d.observed("heads", [coin]))
    >>> compile(d)
    Model of diagram 'coins': 6 learned parameters
      likelihood: 1 node (1 sum, 0 products), 2 edges, 2 slots, 2 indicators
      reward:     1 node (1 sum, 0 products), 1 edge, 1 slot, 0 indicators
    """
    if not isinstance(d, Diagram):
        raise DiagramError(f"diagram must be a Diagram, got {brief(d)}")
    model: Model | None = d.cache.get("model")
    if model is None:
        model = d.cache["model"] = Model(d)
    return model


def _size(c: Circuit) -> str:
    def count(number: int, what: str) -> str:
        return f"{number} {what}{'' if number == 1 else 's'}"

    products = sum(kind == PRODUCT for kind in c.kind)
    nodes = f"{count(c.inner, 'node')} ({count(c.inner - products, 'sum')}, {count(products, 'product')})"
    others = (len(c.child), "edge"), (c.slots, "slot"), (c.leaves - 1, "indicator")
    return ", ".join([nodes, *(count(*other) for other in others)])


def _indices(
    what: str, kind: str, nodes: list[Node], expected: AbstractSet[str], values: Action, error: type[Exception],
    request: list[float] | None = None,
) -> list[int]:  # fmt: skip
    """Return the place of the value of each node, all of which are `expected`; append features to `request`."""
    if (type(values) is not dict and not isinstance(values, Mapping)) or values.keys() != expected:
        names = [n.name for n in nodes]
        wrong = f"{what} must map names to values, got {brief(values)}"
        if isinstance(values, Mapping):
            wrong = next((f"{what}: {kind} {name!r} is missing" for name in names if name not in values), "")
            wrong = next((f"{what}: {brief(name)} is not a {kind}" for name in values if name not in names), wrong)
        raise error(f"{wrong}; the {kind}s are {', '.join(names) or 'none'}")
    indices = []
    for node in nodes:
        value = values[node.name]
        if node.features is not None:
            numbers = node.features.encoded(f"{what}: {kind} {node.name!r}", value)
            if request is not None:
                request += numbers
        index = 0 if node.features is not None else node.index(value)
        if index is None:
            raise error(f"{what}: {kind} {node.name!r} must be one of {node.allowed()}, got {brief(value)}")
        indices.append(index)
    return indices


def _check_fixed(table: LearnedTable, means: Floats) -> None:
    """Raise unless means agree with the rows that the diagram fixes."""
    for row, values in table.fixed.items():
        own = means.reshape(math.prod(table.shape), -1)[row]
        if not np.abs(own - (values[1:] if table.states == 2 else values)).max() <= TOLERANCE:
            at = [int(i) for i in np.unravel_index(row, table.shape)] if table.shape else []
            shown, fixed = (a[-1] if table.states == 2 else a.tolist() for a in (own, values))
            raise MeansError(f"means: {table.name!r} at {at} must be {fixed}, as the diagram fixes it, got {shown}")


def _full_means(name: str, table: Any, shape: tuple[int, ...], states: int) -> Floats:
    """Validate the means of a table, and return all states of each row."""
    try:
        means = np.asarray(table)
        if np.ma.is_masked(table) or means.dtype.kind not in "biuf":
            raise TypeError
        means = means.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise MeansError(f"means: {name!r} must be an array of numbers, got {brief(table)}") from None
    if means.shape != shape:
        raise MeansError(f"means: {name!r} must have shape {shape}, got {means.shape}")
    if not (means.min() >= 0 and means.max() <= 1):  # NaN fails both
        at = np.argwhere(~((means >= 0) & (means <= 1)))[0].tolist()
        raise MeansError(f"means: {name!r} at {at} must lie in [0, 1], got {means[tuple(at)]}")
    if states == 2:
        full = np.empty((means.size, 2))
        full[:, 1] = means.ravel()
        np.subtract(1.0, full[:, 1], out=full[:, 0])
        return full.ravel()
    sums = means.sum(axis=-1)
    if np.abs(sums - 1).max() > TOLERANCE:
        at = np.argwhere(np.abs(sums - 1) > TOLERANCE)[0].tolist()
        row, total = means[tuple(at)].tolist(), sums[tuple(at)]
        raise MeansError(f"means: {name!r} at {at} must sum to 1, got {row}, which sums to {total}")
    return means.ravel()
