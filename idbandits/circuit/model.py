"""A compiled diagram: its circuits, and the checked way in for actions, contexts, observations and means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast, final

import numpy as np

from idbandits.circuit import eliminate as elimination
from idbandits.circuit.build import Builder, Parameters
from idbandits.circuit.circuit import PRODUCT, Circuit
from idbandits.circuit.eliminate import RewardPlan
from idbandits.diagram.constraints import Feasibility
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import MOST_REWARD, TOLERANCE, Label, LearnedTable
from idbandits.diagram.values import is_missing
from idbandits.errors import ODD, ActionError, ContextError, DiagramError, MeansError, ObservationError, brief
from idbandits.kernel.array_types import Floats, Ints
from idbandits.kernel.structs import pack

Action: TypeAlias = Mapping[str, Any]  # labels by node; of a context with features, a mapping of these
Means: TypeAlias = Mapping[str, Any]
Derived = TypeVar("Derived")
DOUBLE = np.dtype(np.float64)


@final
class Likelihood:
    """The circuit of P(what was seen | action), and where its evidence indicators are."""

    def __init__(self, d: Diagram, parameters: Parameters, fold: bool) -> None:
        builder = Builder(d, parameters)
        root = elimination.likelihood(builder, fold)
        self.circuit = builder.finish([root]).circuit
        self.indicators = builder.indicators
        self.parts = builder.finish(builder.factors(root))  # one run per factor

    @cached_property
    def program(self) -> Ints:
        """The circuit for kernels."""
        return pack(self.circuit).ints

    def leaves(self, observation: Mapping[str, int]) -> Floats:
        """The leaves' values: 1, or 0 for a state that was not the one seen; unseen nodes are summed over."""
        leaves = np.ones(self.circuit.leaves)
        ends = [*self.indicators.values(), self.circuit.leaves][1:]
        for (name, first), end in zip(self.indicators.items(), ends, strict=True):
            if name in observation:
                leaves[first:end] = 0.0
                leaves[first + observation[name]] = 1.0
        return leaves


@final
class Rewards:
    """The circuit of the expected reward, in runs of nodes: one per group of decisions that must be made together.

    The expected reward is the sum of the runs' roots. Groups share no decision, in a reward or in a constraint.
    """

    def __init__(self, d: Diagram, parameters: Parameters, plan: RewardPlan) -> None:
        if not d.rewards:
            raise DiagramError(f"diagram {d.name!r} has no reward: add terms by reward(...)")
        self.scale = sum(float(np.abs(term.table).max()) for term in d.rewards)
        if not self.scale <= MOST_REWARD:
            large = ", ".join(max(d.rewards, key=lambda term: float(np.abs(term.table).max())).parents)
            most = f"at most {MOST_REWARD:g} is allowed, so that floats hold sums over rounds"
            raise DiagramError(f"diagram {d.name!r}: its rewards add up to {self.scale:g} (that of {large}); {most}")
        builder = Builder(d, parameters)
        roots = elimination.rewards(builder, plan)
        reach = _decisions_below(builder)
        parts = _merge([(reach.get(root, frozenset()), [root]) for root in roots])
        self.separable_parts = [decided for decided, _ in parts]
        links = [frozenset(parameters.axes[name] for name in group) for group in d.different]
        groups = _merge([*parts, *((link, []) for link in links)])
        self.groups = [decided for decided, _ in groups]
        finished = builder.finish([builder.add(roots) for _, roots in groups])
        self.circuit, self.ends, self.complement = finished.circuit, finished.ends, finished.complement

    @cached_property
    def program(self) -> Ints:
        """The circuit for kernels."""
        return pack(self.circuit).ints


def _decisions_below(b: Builder) -> dict[int, frozenset[int]]:
    reach: dict[int, frozenset[int]] = {}
    for i, edges in enumerate(b.edges):
        parts = (b.decided.get(slot, frozenset()) | reach.get(child, frozenset()) for slot, child in edges)
        reach[b.leaves + i] = frozenset().union(*parts)
    return reach


def _merge(parts: list[tuple[frozenset[int], list[int]]]) -> list[tuple[frozenset[int], list[int]]]:
    """Join parts that share a decision, until none do; parts without decisions join each other."""
    merged: list[tuple[frozenset[int], list[int]]] = []
    for decided, roots in parts:
        touching = [m for m in merged if m[0] & decided or not (m[0] or decided)]
        merged = [m for m in merged if m not in touching]
        merged.append((decided.union(*(m[0] for m in touching)), [r for m in touching for r in m[1]] + roots))
    return merged


@final
class Model:
    """A diagram, compiled: what `idb.compile(d)` returns and prints."""

    def __init__(self, d: Diagram) -> None:
        self.name = d.name
        self.nodes: Mapping[str, Node] = dict(d.nodes)
        self.learned = dict(d.learned)
        self.decisions = d.of_kind("decision")
        self._choices = [(k, n.name, n.values) for k, n in enumerate(self.decisions)]
        self.contexts = d.of_kind("context")
        self.latents = d.of_kind("latent")
        self.observed = d.of_kind("observed")
        self._means_shapes = [(t.name, t.means_shape) for t in self.learned.values()]
        self.diagram = d.copy()  # later changes of the diagram are not this model's
        self._reward_plan = elimination.plan_rewards(d)
        self.parameters = Parameters.of(d, elimination.known_tables(d, self._reward_plan))
        self.likelihood = Likelihood(d, self.parameters, fold=True)
        self._derived: dict[Any, Any] = {}

    @cached_property
    def feasibility(self) -> Feasibility:
        """Which actions the constraints allow."""
        return Feasibility(self.diagram)

    @cached_property
    def literal(self) -> Likelihood:
        """The likelihood with every latent node kept: no row of a learned table is folded away."""
        return Likelihood(self.diagram, self.parameters, fold=False)

    @cached_property
    def revealed(self) -> Likelihood:
        """The likelihood with an indicator for the latent nodes too: its derivatives are their joint probabilities."""
        return Likelihood(self.diagram.revealed(), self.parameters, fold=True)

    @cached_property
    def rewards(self) -> Rewards:
        """The expected reward."""
        return Rewards(self.diagram, self.parameters, self._reward_plan)

    def derived(self, make: Callable[[Model], Derived]) -> Derived:
        """What a function makes of this model, made at the first call: where all other rooms keep what is derived."""
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
        """Encode decisions, then contexts; features of contexts are appended to `request`, if that is given."""
        chosen = _indices("action", "decision", self.decisions, action, ActionError)
        self.feasibility.check({n.name: n.values[i] for n, i in zip(self.decisions, chosen, strict=True)})
        return np.array([*chosen, *self.context_vector(context, request)], dtype=np.int64)

    def context_vector(self, context: Action | None, request: list[float] | None = None) -> list[int]:
        """Encode contexts; features are appended to `request`, if that is given."""
        values = {} if context is None else context
        return _indices("context", "context node", self.contexts, values, ContextError, request)

    def request_vector(self, context: Action | None) -> Floats:
        """The features of all contexts that have some, as one vector."""
        values: Any = context
        numbers: list[float] = []
        for node in self.contexts:
            if node.features is not None:
                numbers += node.features.encoded(f"context: context node {node.name!r}", values[node.name])
        return np.array(numbers)

    def action_of(self, vector: Ints) -> dict[str, Label]:
        """The decisions of an action vector by name, as labels where there are any."""
        chosen = vector.tolist()
        return {name: values[chosen[k]] for k, name, values in self._choices}

    def observation_states(self, observation: Mapping[str, Any]) -> dict[str, int]:
        """What was seen, as numbers; nodes that are left out, or whose value is missing (`is_missing`), were not."""
        if not isinstance(observation, Mapping):
            raise ObservationError(f"an observation maps names of nodes to states; given {brief(observation)}")
        seen: dict[str, int] = {}
        for name, value in _read("observation", observation, ObservationError).items():
            node = self.nodes.get(name) if isinstance(name, str) else None
            if node is None or node.kind != "observed":
                what = "not a node of the diagram" if node is None else f"a {node.kind} node"
                allowed = ", ".join(n.name for n in self.observed) or "none"
                raise ObservationError(f"observation: {brief(name)} is {what}; the observed nodes are {allowed}")
            if (state := node.index(value)) is not None:
                seen[name] = state
            elif not is_missing(value):
                given = f"cannot be {brief(value)}; its states are {node.allowed()}"
                raise ObservationError(f"observation: node {name!r} {given}")
        return seen

    def tables_of_means(self, parameters: Floats) -> dict[str, Floats]:
        """The means of all learned tables, as users see them, from a vector of parameters, or from rows of them."""
        tables = {}
        for name, table in self.learned.items():
            first = self.parameters.offsets[name]
            own = parameters[..., first : first + table.size]
            if table.fixed:
                own = table.with_fixed(own.copy())
            rows = own.reshape(*own.shape[:-1], *table.shape, table.states)
            tables[name] = rows[..., 1] if table.states == 2 else rows
        return tables

    def flat_means(self, means: Means) -> Floats:
        """The means as given, one after the other, their shapes checked; whether they are means is not."""
        complete = type(means) is dict and len(means) == len(self._means_shapes)
        parts = []
        for name, shape in self._means_shapes:
            table = means.get(name) if complete else None
            if type(table) is not np.ndarray or table.dtype is not DOUBLE or table.shape != shape:
                means = _read("means", means, MeansError) if isinstance(means, Mapping) else means
                self.parameter_vector(means)
                table = np.asarray(means[name], dtype=np.float64)
            parts.append(table if table.ndim == 1 else table.ravel())
            if self.learned[name].fixed:
                _check_fixed(self.learned[name], parts[-1])
        if len(parts) == 1 and parts[0].flags.carray:  # what kernels are compiled for
            return parts[0]
        return np.concatenate(parts or [np.empty(0)])

    def parameter_vector(self, means: Means) -> Floats:
        """All parameters, states on the last axis of each table, from the means of the learned ones."""
        if not isinstance(means, Mapping):
            raise MeansError(f"means map names of learned tables to arrays; given {brief(means)}")
        means = _read("means", means, MeansError)
        for name in means:
            if name not in self.learned:
                these = f"diagram {self.name!r}; these are {', '.join(self.learned) or 'none'}"
                several = f": those of one of several structures are meant, […][{brief(name)}]"
                hint = several if isinstance(means[name], Mapping) else ""
                raise MeansError(f"means: {brief(name)} is not a learned table of {these}{hint}")
        parts = []
        for name, table in self.learned.items():
            if name not in means:
                raise MeansError(f"means: learned table {name!r} is missing; it has shape {table.means_shape}")
            parts.append(_full_means(name, means[name], table.means_shape, table.states))
            _check_fixed(table, parts[-1].reshape(-1, table.states)[:, 1:] if table.states == 2 else parts[-1])
        return np.concatenate([*parts, self.parameters.known])


def compile(d: Diagram) -> Model:
    """Compile a diagram into its circuits, once; the result prints its size.

    >>> d = Diagram("coins")
    >>> coin = d.decision("coin", 3)
    >>> d.reward(d.observed("heads", [coin]))
    >>> compile(d)
    Model of diagram 'coins': 6 learned parameters
      likelihood: 1 node (1 sum, 0 products), 2 edges, 2 slots, 2 indicators
      reward:     1 node (1 sum, 0 products), 1 edge, 1 slot, 0 indicators
    """
    if not isinstance(d, Diagram):
        raise DiagramError(f"a Diagram is needed, not {brief(d)}")
    model: Model | None = d.cache.get("model")
    if model is None:
        model = d.cache["model"] = Model(d)
    return model


def _size(c: Circuit) -> str:
    products = sum(kind == PRODUCT for kind in c.kind)

    def count(number: int, what: str) -> str:
        return f"{number} {what}{'' if number == 1 else 's'}"

    nodes = f"{count(c.inner, 'node')} ({count(c.inner - products, 'sum')}, {count(products, 'product')})"
    others = (len(c.child), "edge"), (c.slots, "slot"), (c.leaves - 1, "indicator")
    return ", ".join([nodes, *(count(*other) for other in others)])


def _read(what: str, values: Mapping[str, Any], error: type[Exception]) -> Mapping[str, Any]:
    """A mapping as a dictionary, read once: those of other types may answer differently every time."""
    try:
        return values if type(values) is dict else dict(values)
    except ODD:
        raise error(f"{what}: {brief(values)} cannot be read") from None


def _indices(
    what: str, kind: str, nodes: list[Node], values: Action, error: type[Exception], request: list[float] | None = None
) -> list[int]:
    names = ", ".join(n.name for n in nodes) or "none"
    if not isinstance(values, Mapping):
        raise error(f"{what}: a mapping of names to values is needed, not {brief(values)}; the {kind}s are {names}")
    values = _read(what, values, error)
    if len(values) != len(nodes) or any(n.name not in values for n in nodes):
        for name in values:
            if not isinstance(name, str) or all(n.name != name for n in nodes):
                raise error(f"{what}: {brief(name)} is not a {kind}; the {kind}s are {names}")
        missing = next(n.name for n in nodes if n.name not in values)
        raise error(f"{what}: {kind} {missing!r} is missing; the {kind}s are {names}")
    indices = []
    for node in nodes:
        if node.features is not None:
            numbers = node.features.encoded(f"{what}: {kind} {node.name!r}", values[node.name])
            if request is not None:
                request += numbers
            indices.append(0)
            continue
        index = node.index(values[node.name])
        if index is None:
            raise error(f"{what}: {kind} {node.name!r} cannot be {brief(values[node.name])}; allowed: {node.allowed()}")
        indices.append(index)
    return indices


def _check_fixed(table: LearnedTable, means: Floats) -> None:
    """Raise unless means are those of the rows that are fixed."""
    for row, values in table.fixed.items():
        given = means.reshape(math.prod(table.shape), -1)[row]
        if not np.abs(given - (values[1:] if table.states == 2 else values)).max() <= TOLERANCE:
            at = [int(i) for i in np.unravel_index(row, table.shape)] if table.shape else []
            shown, fixed = (a[-1] if table.states == 2 else a.tolist() for a in (given, values))
            raise MeansError(f"means: {table.name!r} at {at} is {shown}, but the diagram fixes it at {fixed}")


def _full_means(name: str, table: Any, shape: tuple[int, ...], states: int) -> Floats:
    try:
        means = np.asarray(table)
        if np.ma.is_masked(table) or means.dtype.kind not in "biuf":
            raise TypeError
        means = means.astype(np.float64, copy=False)
    except ODD:
        raise MeansError(f"means: those of {name!r} are not numbers: {brief(table)}") from None
    if means.shape != shape:
        raise MeansError(f"means: those of {name!r} have shape {means.shape}; the learned table has {shape}")
    if not (means.min() >= 0 and means.max() <= 1):  # NaN fails both
        at = np.argwhere(~((means >= 0) & (means <= 1)))[0].tolist()
        raise MeansError(f"means: {name!r} at {at} is {means[tuple(at)]}; probabilities lie in [0, 1]")
    if states == 2:
        full = np.empty((means.size, 2))
        full[:, 1] = means.ravel()
        np.subtract(1.0, full[:, 1], out=full[:, 0])
        return full.ravel()
    sums = means.sum(axis=-1)
    if np.abs(sums - 1).max() > TOLERANCE:
        at = np.argwhere(np.abs(sums - 1) > TOLERANCE)[0].tolist()
        row, total = means[tuple(at)].tolist(), sums[tuple(at)]
        raise MeansError(f"means: {name!r} at {at} is {row}, which sums to {total}, not 1")
    return means.ravel()
