"""Construction of circuits: nodes and slots, each created once, and finally the arrays of those in use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np

from idbandits.circuit.circuit import PRODUCT, SUM, Atom, Circuit
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import Known, LearnedTable, Use
from idbandits.kernel.array_types import Floats, Ints

ONE = 0  # the leaf that is constantly 1
ZERO = -1  # stands for the value 0: terms with it are dropped
UNIT = -1  # the weight of an edge without a slot
NOTHING = -2  # the weight of an edge that is left out: a known zero
MOST_INLINED = 8  # edges of a mixture that is merged into the mixture above it

Edge: TypeAlias = tuple[int, int]  # slot, child
Strides: TypeAlias = tuple[tuple[int, int], ...]  # axes of an action and their strides, in order
Slot: TypeAlias = tuple[int, Strides, int, int]  # an atom, and a slot that multiplies it or -1
Key: TypeAlias = tuple[tuple[int, ...], bytes]  # shape and content of a known table


@final
@dataclass(frozen=True)
class Parameters:
    """Places of tables in the vector of parameters: learned tables, then the known tables that circuits read."""

    axes: Mapping[str, int]  # place of decisions, then contexts, in an action vector
    decisions: int  # number of decisions
    offsets: Mapping[str, int]  # first parameter of each learned table
    learned_size: int
    known: Floats
    known_places: Mapping[Key, int]
    _by_identity: dict[int, tuple[Floats, int]] = field(default_factory=dict)  # known tables and their places

    @staticmethod
    def of(d: Diagram, known: Iterable[Floats]) -> Parameters:
        """Return the places for a diagram whose circuits read these known tables; equal ones are stored once."""
        decisions = d.of_kind("decision")
        *offsets, learned_size = itertools.accumulate((t.size for t in d.learned.values()), initial=0)
        tables = {(values.shape, values.tobytes()): values.ravel() for values in known}
        places = itertools.accumulate((t.size for t in tables.values()), initial=learned_size)
        return Parameters(
            axes={n.name: i for i, n in enumerate((*decisions, *d.of_kind("context")))}, decisions=len(decisions),
            offsets=dict(zip(d.learned, offsets, strict=True)), learned_size=learned_size,
            known=np.concatenate([np.empty(0), *tables.values()]), known_places=dict(zip(tables, places, strict=False)),
        )  # fmt: skip

    def place_of(self, table: Floats) -> int:
        """Return the first parameter of a known table; contents are compared once, since large ones take long."""
        if id(table) not in self._by_identity:
            self._by_identity[id(table)] = table, self.known_places[table.shape, table.tobytes()]
        return self._by_identity[id(table)][1]


@final
@dataclass(frozen=True)
class FinishedCircuit:
    """Circuit in consecutive runs of nodes, and the pairs of atoms that are P(0) and P(1) of one row."""

    circuit: Circuit
    ends: list[int]  # run i is the inner nodes ends[i] to ends[i + 1] - 1
    complement: Mapping[Atom, Atom]


@dataclass
class Builder:
    """Nodes and slots of a circuit under construction."""

    diagram: Diagram
    parameters: Parameters
    leaves: int = 1
    indicators: dict[str, int] = field(default_factory=dict)
    products: list[bool] = field(default_factory=list)
    edges: list[list[Edge]] = field(default_factory=list)
    slots: dict[Slot, int] = field(default_factory=dict)
    slot_keys: list[Slot] = field(default_factory=list)
    lookup: list[Ints] = field(default_factory=list)  # its parts
    lookup_size: int = 0
    decided: dict[int, frozenset[int]] = field(default_factory=dict)  # by slot: the decisions it depends on
    complement: dict[int, int] = field(default_factory=dict)  # slots of state 0: those of state 1 in two-state rows
    _memo: dict[tuple[Edge, ...] | tuple[int, ...], int] = field(default_factory=dict)
    _factors: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _looked_up: dict[bytes, int] = field(default_factory=dict)
    _fixed: dict[str, Ints] = field(default_factory=dict)  # by learned table: the places of fixed rows, or -1
    _steps: dict[tuple[tuple[str, ...], int], tuple[dict[str, int], Strides]] = field(default_factory=dict)
    _rows: dict[str, Ints] = field(default_factory=dict)  # by node: the rows of a learned table that it reads

    def weigh(self, terms: Iterable[Edge]) -> int:
        """Return the node of a weighted sum."""
        edges = sorted(t for t in terms if t[0] != NOTHING and t[1] != ZERO)
        if len(edges) == 1 and edges[0][0] == UNIT:
            return edges[0][1]
        return self._node(tuple(edges), False, edges) if edges else ZERO

    def add(self, nodes: Iterable[int]) -> int:
        """Return the node of a sum."""
        return self.weigh((UNIT, node) for node in nodes)

    def flatten(self, terms: Sequence[Edge]) -> Sequence[Edge]:
        """Merge nested mixtures that depend on one decision, so that one choice sets all their weights."""
        return [edge for slot, child in terms for edge in self._expand(slot, child, self._decided(slot))]

    def _decided(self, slot: int) -> frozenset[int]:
        return self.decided.get(slot, frozenset())

    def _expand(self, slot: int, child: int, own: frozenset[int]) -> list[Edge]:
        below = self._sum_below(child)
        deeper = [self._decided(s) for s, _ in below]
        if len(own) != 1 or len(below) > MOST_INLINED or not all(d <= own for d in deeper):
            return [(slot, child)]
        if own in deeper or any(own == self._decided(s) for _, c in below for s, _ in self._sum_below(c)):
            return [edge for s, c in below for edge in self._expand(self.times(slot, s), c, own)]
        return [(slot, child)]

    def _sum_below(self, node: int) -> list[Edge]:
        """Return the edges of a weighted sum; none for other nodes."""
        inner = node - self.leaves
        return self.edges[inner] if inner >= 0 and not self.products[inner] else []

    def multiply(self, nodes: Iterable[int]) -> int:
        """Return the node of a product; equal factors in any order give the same node."""
        result = ONE
        for node in nodes:
            if node == ZERO or result == ZERO:
                return ZERO
            if result == ONE or node == ONE:
                result = max(result, node)
                continue
            factors = tuple(sorted(self.factors(result) + self.factors(node)))
            result = self._node(factors, True, [(UNIT, result), (UNIT, node)])
            self._factors[result] = factors
        return result

    def factors(self, node: int) -> tuple[int, ...]:
        """Return the nodes that a node is the product of."""
        return self._factors.get(node, (node,))

    def _node(self, key: tuple[Edge, ...] | tuple[int, ...], product: bool, edges: list[Edge]) -> int:
        if key not in self._memo:
            self._memo[key] = self.leaves + len(self.edges)
            self.products.append(product)
            self.edges.append(edges)
        return self._memo[key]

    def slot(self, base: int, strides: Strides = (), place: int = -1, also: int = -1) -> int:
        """Return the slot for one entry of a table, times another slot."""
        key = (base, strides, place, also)
        number = self.slots.get(key)
        if number is None:
            number = self.slots[key] = len(self.slots)
            self.slot_keys.append(key)
            decisions = frozenset(axis for axis, _ in strides if axis < self.parameters.decisions)
            self.decided[number] = decisions | self._decided(also)
        return number

    def times(self, slot: int, other: int) -> int:
        """Return the product of two slots."""
        if other == UNIT:
            return slot
        for part in self._chain(slot):
            other = self.slot(*self.slot_keys[part][:3], other)
        return other

    def _chain(self, slot: int) -> Iterable[int]:
        while slot >= 0:
            yield slot
            slot = self.slot_keys[slot][3]

    def look_up(self, rows: Ints) -> int:
        """Return the first place of the part of the lookup that holds these rows."""
        key = rows.tobytes()
        if key not in self._looked_up:
            self._looked_up[key] = self.lookup_size
            self.lookup.append(rows)
            self.lookup_size += len(rows)
        return self._looked_up[key]

    def read(self, parents: Sequence[str], table: Floats, tail: int, chance: Mapping[str, int]) -> list[int]:
        """Return the weights of the last `tail` entries of a known table, at these values of its chance parents."""
        at = tuple(chance.get(p, slice(None)) for p in parents)
        part = table.reshape(*table.shape[: len(parents)], tail)[at].reshape(-1, tail)
        base, strides = self._begin(parents, tail, chance)
        zero, one = (part == 0).all(axis=0).tolist(), (part == 1).all(axis=0).tolist()
        known = [NOTHING if zero[state] else UNIT if one[state] else None for state in range(tail)]
        if None in known:
            base += self.parameters.place_of(table)
        return [self.slot(base + state, strides) if weight is None else weight for state, weight in enumerate(known)]

    def _begin(self, parents: Sequence[str], last: int, chance: Mapping[str, int]) -> tuple[int, Strides]:
        """Return the first entry of a row at these values of its chance parents, and the strides of the action."""
        key = tuple(parents), last
        if key not in self._steps:
            steps = dict(zip(parents, strides([self.diagram.nodes[p].states for p in parents], last), strict=True))
            of_action = sorted((self.parameters.axes[p], steps.pop(p)) for p in parents if p not in chance)
            self._steps[key] = steps, tuple(of_action)
        steps, action_strides = self._steps[key]
        return sum([chance[p] * step for p, step in steps.items()]), action_strides

    def row(self, node: Node, chance: Mapping[str, int]) -> list[int]:
        """Return the weights of all states of a chance node, at these values of its chance parents."""
        weights = self._row(node, chance)
        if node.states == 2 and weights[0] >= 0 and weights[1] >= 0:
            self.complement[weights[0]] = weights[1]
        return weights

    def _row(self, node: Node, chance: Mapping[str, int]) -> list[int]:
        if isinstance(node.cpd, Known):
            return self.read(node.parents, node.cpd.table, node.states, chance)
        assert isinstance(node.cpd, Use)
        table, states = self.diagram.learned[node.cpd.name], range(node.states)
        offset = self.parameters.offsets[table.name]
        if node.cpd.rows is None and not table.fixed:
            base, action_strides = self._begin(node.parents, node.states, chance)
            return [self.slot(offset + base + state, action_strides) for state in states]
        at = tuple(chance.get(p, slice(None)) for p in node.parents)
        if node.name not in self._rows:
            self._rows[node.name] = rows_of_use(self.diagram, node)
        picked = np.ravel(self._rows[node.name][at])
        places = self._fixed_places(table)[picked]
        if (places >= 0).all():
            values = np.array([table.fixed[row] for row in np.unique(picked).tolist()])
            if ((values == 0) | (values == 1)).all() and (values == values[0]).all():
                return [UNIT if certain else NOTHING for certain in values[0]]
        rows = np.where(places >= 0, places, offset + node.states * picked)  # fixed rows are known entries
        if (rows == rows[0]).all():
            return [self.slot(int(rows[0]) + state) for state in states]
        _, action_strides = self._begin([p for p in node.parents if p not in chance], 1, chance)
        first = self.look_up(rows)
        return [self.slot(state, action_strides, first) for state in states]

    def _fixed_places(self, table: LearnedTable) -> Ints:
        """Return for each row of a learned table its first known parameter if it is fixed, else -1."""
        if table.name not in self._fixed:
            places = self._fixed[table.name] = np.full(table.size // table.states, -1)
            for row, values in table.fixed.items():
                places[row] = self.parameters.place_of(values)
        return self._fixed[table.name]

    def finish(self, roots: Sequence[int]) -> FinishedCircuit:
        """Return the circuit of all nodes below these roots: one run of nodes per root, which is its last node."""
        kinds: list[int] = []
        edges: list[list[Edge]] = []
        ends = [0]
        for root in roots:
            if root < self.leaves:
                kinds.append(SUM)
                edges.append([(UNIT, root)] if root != ZERO else [])
            else:
                below = _below(root, self.edges, self.leaves)
                numbers = {node: self.leaves + len(edges) + i for i, node in enumerate(below)}
                for node in below:
                    kinds.append(PRODUCT if self.products[node - self.leaves] else SUM)
                    edges.append([(s, numbers.get(child, child)) for s, child in self.edges[node - self.leaves]])
            ends.append(len(edges))
        used = dict.fromkeys(factor for own in edges for slot, _ in own for factor in self._chain(slot))
        numbers = {slot: i for i, slot in enumerate(used)}
        keys = [self.slot_keys[slot] for slot in used]
        circuit = Circuit(
            leaves=self.leaves, inner=len(edges), slots=len(keys), kind=kinds, start=starts(edges),
            child=[child for own in edges for _, child in own],
            slot=[numbers.get(slot, UNIT) for own in edges for slot, _ in own],
            slot_base=[key[0] for key in keys], slot_start=starts([key[1] for key in keys]),
            slot_axis=[axis for key in keys for axis, _ in key[1]],
            slot_stride=[stride for key in keys for _, stride in key[1]],
            slot_lookup=[key[2] for key in keys], slot_also=[numbers.get(key[3], -1) for key in keys],
            lookup=np.concatenate([np.empty(0, np.int64), *self.lookup]),
        )  # fmt: skip
        complement = {self.slot_keys[a][:3]: self.slot_keys[b][:3] for a, b in self.complement.items()}
        return FinishedCircuit(circuit, ends, complement)


def starts(parts: Sequence[Sized]) -> list[int]:
    """Return the first place of each part when they are concatenated, and the end of the last."""
    return list(itertools.accumulate((len(p) for p in parts), initial=0))


def rows_of_use(d: Diagram, node: Node) -> Ints:
    """Return the row of a learned table that a node reads, for every combination of its parents' values."""
    assert isinstance(node.cpd, Use)
    shape = tuple(d.nodes[p].states for p in node.parents)
    if node.cpd.rows is None:
        return np.arange(math.prod(shape)).reshape(shape)
    return np.full(shape, node.cpd.rows) if isinstance(node.cpd.rows, int) else node.cpd.rows


def strides(sizes: Sequence[int], last: int) -> list[int]:
    """Return the stride of each axis of a table; that of the last axis is `last`."""
    return [last * math.prod(sizes[i + 1 :]) for i in range(len(sizes))]


def _below(root: int, edges: Sequence[Sequence[Edge]], leaves: int) -> list[int]:
    """Return the inner nodes that a root depends on, children first."""
    seen, stack = {root}, [root]
    while stack:
        new = {child for _, child in edges[stack.pop() - leaves] if child >= leaves} - seen
        seen |= new
        stack.extend(new)
    return sorted(seen)
