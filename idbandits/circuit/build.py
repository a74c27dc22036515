"""A circuit under construction: nodes and slots, each made once, and then the arrays of what is needed of them."""

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
ZERO = -1  # no node: terms with it are dropped
UNIT = -1  # the weight of an edge without a slot
NOTHING = -2  # the weight of an edge that is not there: a known zero
MOST_INLINED = 8  # edges of a mixture that is made one with the mixture above it

Edge: TypeAlias = tuple[int, int]  # slot, child
Moves: TypeAlias = tuple[tuple[int, int], ...]  # axes of an action and their strides, in order
Slot: TypeAlias = tuple[int, tuple[tuple[int, int], ...], int, int]  # an atom, and a slot that multiplies it or -1
Key: TypeAlias = tuple[tuple[int, ...], bytes]  # of a known table: its shape and content


@final
@dataclass(frozen=True)
class Parameters:
    """Where every table stands in the vector of parameters: learned ones first, then the known ones that are read."""

    axes: Mapping[str, int]  # decisions, then contexts: their place in an action vector
    decisions: int
    offsets: Mapping[str, int]  # of learned tables
    learned_size: int
    known: Floats
    known_places: Mapping[Key, int]

    @staticmethod
    def of(d: Diagram, known: Iterable[Floats]) -> Parameters:
        """The layout for a diagram whose circuits read these known tables; equal ones stand there once."""
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
        """Where a known table begins."""
        return self.known_places[table.shape, table.tobytes()]


@final
@dataclass(frozen=True)
class Finished:
    """A circuit in runs of nodes, one after the other; and the pairs of atoms that are P(0) and P(1) of one row."""

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
    lookup: list[Ints] = field(default_factory=list)  # parts of it
    lookup_size: int = 0
    decided: dict[int, frozenset[int]] = field(default_factory=dict)  # a slot: the decisions it depends on
    complement: dict[int, int] = field(default_factory=dict)  # slots of state 0 and of state 1 in two-state rows
    _memo: dict[tuple[Edge, ...] | tuple[int, ...], int] = field(default_factory=dict)
    _factors: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _looked_up: dict[bytes, int] = field(default_factory=dict)
    _fixed: dict[str, Ints] = field(default_factory=dict)  # of a learned table's rows: their places if fixed, or -1
    _begun: dict[tuple[tuple[str, ...], int], tuple[dict[str, int], Moves]] = field(default_factory=dict)
    _moving: dict[Moves, frozenset[int]] = field(default_factory=dict)
    _places: dict[int, tuple[Floats, int]] = field(default_factory=dict)  # of known tables, by identity
    _rows: dict[str, Ints] = field(default_factory=dict)  # that a node reads from a learned table

    def weigh(self, terms: Iterable[Edge]) -> int:
        """The node that is the weighted sum of others."""
        edges = sorted(t for t in terms if t[0] != NOTHING and t[1] != ZERO)
        if len(edges) == 1 and edges[0][0] == UNIT:
            return edges[0][1]
        return self._node(tuple(edges), False, edges) if edges else ZERO

    def add(self, nodes: Iterable[int]) -> int:
        """The node that is the sum of others."""
        return self.weigh((UNIT, node) for node in nodes)

    def flatten(self, terms: Sequence[Edge]) -> Sequence[Edge]:
        """The same sum with mixtures by one decision below each other made one: then one choice sets them all."""
        none = frozenset[int]()
        return [edge for slot, child in terms for edge in self._expand(slot, child, self.decided.get(slot, none))]

    def _expand(self, slot: int, child: int, own: frozenset[int]) -> list[Edge]:
        below = self._sum_below(child)
        deeper = [self.decided.get(s, frozenset()) for s, _ in below]
        alone = len(own) == 1 and len(below) <= MOST_INLINED and all(d <= own for d in deeper)
        if alone and (
            own in deeper or any(own == self.decided.get(s) for _, c in below for s, _ in self._sum_below(c))
        ):
            return [edge for s, c in below for edge in self._expand(self.times(slot, s), c, own)]
        return [(slot, child)]

    def _sum_below(self, node: int) -> list[Edge]:
        """The edges of a weighted sum, none of other nodes."""
        inner = node - self.leaves
        return self.edges[inner] if inner >= 0 and not self.products[inner] else []

    def multiply(self, nodes: Iterable[int]) -> int:
        """The node that is the product of others; equal factors in any order give the same node."""
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
        """The nodes that a node is the product of."""
        return self._factors.get(node, (node,))

    def _node(self, key: tuple[Edge, ...] | tuple[int, ...], product: bool, edges: list[Edge]) -> int:
        if key not in self._memo:
            self._memo[key] = self.leaves + len(self.edges)
            self.products.append(product)
            self.edges.append(edges)
        return self._memo[key]

    def slot(self, base: int, moves: Moves = (), place: int = -1, also: int = -1) -> int:
        """The slot for one entry of a table, times that of another slot."""
        key = (base, moves, place, also)
        number = self.slots.get(key)
        if number is None:
            number = self.slots[key] = len(self.slots)
            self.slot_keys.append(key)
            if moves not in self._moving:
                self._moving[moves] = frozenset(axis for axis, _ in moves if axis < self.parameters.decisions)
            self.decided[number] = self._moving[moves] | self.decided[also] if also >= 0 else self._moving[moves]
        return number

    def times(self, slot: int, other: int) -> int:
        """The slot that is the product of two."""
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
        """Where a part of the lookup begins that holds these rows."""
        key = rows.tobytes()
        if key not in self._looked_up:
            self._looked_up[key] = self.lookup_size
            self.lookup.append(rows)
            self.lookup_size += len(rows)
        return self._looked_up[key]

    def read(self, parents: Sequence[str], table: Floats, tail: int, chance: Mapping[str, int]) -> list[int]:
        """The weights of the `tail` last entries of a known table, at these values of its chance parents."""
        at = tuple(chance.get(p, slice(None)) for p in parents)
        part = table.reshape(*table.shape[: len(parents)], tail)[at].reshape(-1, tail)
        base, moving = self._begin(parents, tail, chance)
        nothing, unit = (part == 0).all(axis=0).tolist(), (part == 1).all(axis=0).tolist()
        if any(not (nothing[state] or unit[state]) for state in range(tail)):
            base += self._place_of(table)
        return [
            NOTHING if nothing[state] else UNIT if unit[state] else self.slot(base + state, moving)
            for state in range(tail)
        ]

    def _place_of(self, table: Floats) -> int:
        """Where a known table begins; its content is compared once, as that of a large table takes long."""
        if id(table) not in self._places:
            self._places[id(table)] = table, self.parameters.place_of(table)
        return self._places[id(table)][1]

    def _begin(self, parents: Sequence[str], last: int, chance: Mapping[str, int]) -> tuple[int, Moves]:
        """Where a row of a table begins at these values of its chance parents, and how the action moves that."""
        key = tuple(parents), last
        if key not in self._begun:
            steps = dict(zip(parents, strides([self.diagram.nodes[p].states for p in parents], last), strict=True))
            moving = sorted((self.parameters.axes[p], steps.pop(p)) for p in parents if p not in chance)
            self._begun[key] = steps, tuple(moving)
        steps, moves = self._begun[key]
        return sum([chance[p] * step for p, step in steps.items()]), moves

    def row(self, node: Node, chance: Mapping[str, int]) -> list[int]:
        """The weights of all states of a chance node, at these values of its chance parents."""
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
            base, moving = self._begin(node.parents, node.states, chance)
            return [self.slot(offset + base + state, moving) for state in states]
        at = tuple(chance.get(p, slice(None)) for p in node.parents)
        if node.name not in self._rows:
            self._rows[node.name] = rows_of_use(self.diagram, node)
        picked = np.ravel(self._rows[node.name][at])
        places = self._fixed_places(table)[picked]
        if (places >= 0).all():
            values = np.array([table.fixed[row] for row in np.unique(picked).tolist()])
            if ((values == 0) | (values == 1)).all() and (values == values[0]).all():
                return [UNIT if certain else NOTHING for certain in values[0]]
        rows = np.where(places >= 0, places, offset + node.states * picked)  # a fixed row is among the known entries
        if (rows == rows[0]).all():
            return [self.slot(int(rows[0]) + state) for state in states]
        _, moving = self._begin([p for p in node.parents if p not in chance], 1, chance)
        first = self.look_up(rows)
        return [self.slot(state, moving, first) for state in states]

    def _fixed_places(self, table: LearnedTable) -> Ints:
        """Of each row of a learned table: where it stands among the known entries if it is fixed, else -1."""
        if table.name not in self._fixed:
            places = self._fixed[table.name] = np.full(table.size // table.states, -1)
            for row, values in table.fixed.items():
                places[row] = self.parameters.place_of(values)
        return self._fixed[table.name]

    def finish(self, roots: Sequence[int]) -> Finished:
        """The circuit of what lies below these roots: one run of nodes per root, each ending in its root."""
        kinds: list[int] = []
        edges: list[list[Edge]] = []
        ends = [0]
        for root in roots:
            if root < self.leaves:
                kinds.append(SUM)
                edges.append([(UNIT, root)] if root != ZERO else [])
            else:
                reached = _below(root, self.edges, self.leaves)
                numbers = {node: self.leaves + len(edges) + i for i, node in enumerate(reached)}
                for node in reached:
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
            slot_base=[base for base, _, _, _ in keys],
            slot_start=starts([moves for _, moves, _, _ in keys]),
            slot_axis=[axis for _, moves, _, _ in keys for axis, _ in moves],
            slot_stride=[stride for _, moves, _, _ in keys for _, stride in moves],
            slot_lookup=[place for _, _, place, _ in keys],
            slot_also=[numbers.get(also, -1) for _, _, _, also in keys],
            lookup=np.concatenate([np.empty(0, np.int64), *self.lookup]),
        )  # fmt: skip
        complement = {self.slot_keys[a][:3]: self.slot_keys[b][:3] for a, b in self.complement.items()}
        return Finished(circuit, ends, complement)


def starts(parts: Sequence[Sized]) -> list[int]:
    """Where each of several parts begins when they stand one after the other, and where the last ends."""
    return list(itertools.accumulate((len(p) for p in parts), initial=0))


def rows_of_use(d: Diagram, node: Node) -> Ints:
    """The number of the row that a node reads from a learned table, for every combination of its parents' values."""
    assert isinstance(node.cpd, Use)
    shape = tuple(d.nodes[p].states for p in node.parents)
    if node.cpd.rows is None:
        return np.arange(math.prod(shape)).reshape(shape)
    return np.full(shape, node.cpd.rows) if isinstance(node.cpd.rows, int) else node.cpd.rows


def strides(sizes: Sequence[int], last: int) -> list[int]:
    """By how much each axis of a table moves the place of an entry; the last one by `last`."""
    steps = [last] * len(sizes)
    for i in range(len(sizes) - 2, -1, -1):
        steps[i] = steps[i + 1] * sizes[i + 1]
    return steps


def _below(root: int, edges: Sequence[Sequence[Edge]], leaves: int) -> list[int]:
    """The inner nodes that a root depends on, children first: their numbers grow upwards."""
    seen, stack = {root}, [root]
    while stack:
        new = {child for _, child in edges[stack.pop() - leaves] if child >= leaves} - seen
        seen |= new
        stack.extend(new)
    return sorted(seen)
