"""A diagram becomes an arithmetic circuit, once: symbolic variable elimination, then flat arrays.

What is eliminated are tables whose entries are nodes of the circuit under construction. Entries that are known
to be 0 or 1 fold away, equal nodes are shared, and where all states of one table row meet under equal cofactors
the row sums to 1 and vanishes (`fold`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np

from idbandits.circuit.passes import Circuit, pack
from idbandits.diagram.declare import Diagram, Node
from idbandits.diagram.tables import Known, Use
from idbandits.errors import ComplexityError
from idbandits.kernel.types import Floats

ONE = 0  # the leaf that is constantly 1
ZERO = -1  # no node: terms with it are dropped
UNIT = -1  # the weight of an edge without a slot
NOTHING = -2  # the weight of an edge that is not there: a known zero
MOST_CELLS = 2_000_000  # of all tables of one elimination
FOLDING_IS_WORTH = 4  # how much larger an elimination that keeps all rows whole may be, so that more of them fold
MOST_INLINED = 8  # edges of a mixture that is made one with the mixture above it
SMALL = 50_000  # cells: below that, always so

Edge: TypeAlias = tuple[int, int]  # slot, child
Atom: TypeAlias = tuple[int, tuple[tuple[int, int], ...], int]  # base, (axis, stride) …, place in the lookup or -1
Slot: TypeAlias = tuple[int, tuple[tuple[int, int], ...], int, int]  # an atom, and a slot that multiplies it or -1


@final
@dataclass
class Parameters:
    """Where every table stands in the vector of parameters: learned ones first, then known ones as they are met."""

    axes: Mapping[str, int]  # decisions, then contexts: their place in an action vector
    decisions: int
    offsets: Mapping[str, int]  # of learned tables
    learned_size: int
    known: Floats = field(default_factory=lambda: np.empty(0))
    _known_at: dict[tuple[tuple[int, ...], bytes], int] = field(default_factory=dict)

    @staticmethod
    def of(d: Diagram) -> Parameters:
        """The layout of the learned tables of a diagram."""
        names = [n.name for n in (*d.of_kind("decision"), *d.of_kind("context"))]
        offsets: dict[str, int] = {}
        size = 0
        for table in d.learned.values():
            offsets[table.name] = size
            size += table.size
        return Parameters({name: i for i, name in enumerate(names)}, len(d.of_kind("decision")), offsets, size)

    def constant(self, table: Floats) -> int:
        """Where a known table begins; equal tables stand there once."""
        key = (table.shape, table.tobytes())
        if key not in self._known_at:
            self._known_at[key] = self.learned_size + self.known.size
            self.known = np.concatenate([self.known, table.ravel()])
        return self._known_at[key]


@final
@dataclass(frozen=True)
class Arrays:
    """The parts of a circuit as lists, for code that studies it; `Circuit` says what each holds."""

    product: Sequence[bool]
    start: Sequence[int]
    child: Sequence[int]
    slot: Sequence[int]
    slot_base: Sequence[int]
    slot_start: Sequence[int]
    slot_axis: Sequence[int]
    slot_stride: Sequence[int]
    slot_lookup: Sequence[int]
    slot_also: Sequence[int]
    lookup: Sequence[int]

    def atom(self, slot: int) -> Atom:
        """What a slot reads by itself, whatever it is multiplied with."""
        terms = range(self.slot_start[slot], self.slot_start[slot + 1])
        strides = tuple((self.slot_axis[t], self.slot_stride[t]) for t in terms)
        return self.slot_base[slot], strides, self.slot_lookup[slot]


@final
@dataclass(frozen=True)
class Finished:
    """A circuit, the ends of its runs of nodes, and the pairs of atoms that are P(0) and P(1) of one row."""

    circuit: Circuit
    arrays: Arrays
    ends: list[int]
    complement: Mapping[Atom, Atom]


@dataclass
class Builder:
    """Nodes, slots and known parameters of a circuit under construction."""

    diagram: Diagram
    parameters: Parameters
    leaves: int = 1
    indicators: dict[str, int] = field(default_factory=dict)
    products: list[bool] = field(default_factory=list)
    edges: list[list[Edge]] = field(default_factory=list)
    slots: dict[Slot, int] = field(default_factory=dict)
    slot_keys: list[Slot] = field(default_factory=list)
    lookup: list[int] = field(default_factory=list)
    decided: dict[int, frozenset[int]] = field(default_factory=dict)  # a slot: the decisions it depends on
    complement: dict[int, int] = field(default_factory=dict)  # slots of state 0 and of state 1 in two-state rows
    _memo: dict[tuple[Edge, ...] | tuple[int, ...], int] = field(default_factory=dict)
    _factors: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _looked_up: dict[tuple[int, ...], int] = field(default_factory=dict)

    def indicate(self, node: Node) -> None:
        """Reserve a leaf a state of an observed node."""
        self.indicators[node.name] = self.leaves
        self.leaves += node.states

    def weigh(self, terms: Iterable[Edge]) -> int:
        """The node that is the weighted sum of others."""
        kept = sorted(t for t in terms if t[0] != NOTHING and t[1] != ZERO)
        if not kept:
            return ZERO
        if len(kept) == 1 and kept[0][0] == UNIT:
            return kept[0][1]
        return self._node(tuple(kept), False, kept)

    def add(self, nodes: Iterable[int]) -> int:
        """The node that is the sum of others."""
        return self.weigh((UNIT, node) for node in nodes)

    def flatten(self, terms: Sequence[Edge]) -> Sequence[Edge]:
        """The same sum with mixtures by one decision below each other made one: then one choice sets them all."""
        return [
            edge for slot, child in terms for edge in self._expand(slot, child, self.decided.get(slot, frozenset()))
        ]

    def _expand(self, slot: int, child: int, own: frozenset[int]) -> list[Edge]:
        below = self._sum_below(child)
        deeper = [self.decided.get(s, frozenset()) for s, _ in below]
        if len(own) != 1 or len(below) > MOST_INLINED or not all(d <= own for d in deeper):
            return [(slot, child)]
        mixes_own = own in deeper or any(own == self.decided.get(s) for _, c in below for s, _ in self._sum_below(c))
        if not mixes_own:
            return [(slot, child)]
        return [edge for s, c in below for edge in self._expand(self.times(slot, s), c, own)]

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
            factors = tuple(sorted(self._factors.get(result, (result,)) + self._factors.get(node, (node,))))
            result = self._node(factors, True, [(UNIT, result), (UNIT, node)])
            self._factors[result] = factors
        return result

    def factors(self, node: int) -> tuple[int, ...]:
        """The nodes that a node is the product of."""
        return self._factors.get(node, (node,))

    def _node(self, key: tuple[Edge, ...] | tuple[int, ...], product: bool, edges: list[Edge]) -> int:
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self.leaves + len(self.edges)
            self.products.append(product)
            self.edges.append(edges)
        return found

    def slot(self, base: int, strides: Iterable[tuple[int, int]] = (), place: int = -1) -> int:
        """The slot for one entry of a table."""
        return self._slot((base, tuple(sorted(strides)), place, -1))

    def _slot(self, key: Slot) -> int:
        if key not in self.slots:
            number = self.slots[key] = len(self.slots)
            self.slot_keys.append(key)
            moving = frozenset(axis for axis, _ in key[1] if axis < self.parameters.decisions)
            self.decided[number] = moving | (self.decided[key[3]] if key[3] >= 0 else frozenset())
        return self.slots[key]

    def times(self, slot: int, other: int) -> int:
        """The slot that is the product of two."""
        if other == UNIT:
            return slot
        for part in self._chain(slot):
            other = self._slot((*self.slot_keys[part][:3], other))
        return other

    def _chain(self, slot: int) -> Iterable[int]:
        while slot >= 0:
            yield slot
            slot = self.slot_keys[slot][3]

    def look_up(self, rows: Sequence[int]) -> int:
        """Where a part of the lookup begins that holds these rows."""
        key = tuple(rows)
        if key not in self._looked_up:
            self._looked_up[key] = len(self.lookup)
            self.lookup.extend(rows)
        return self._looked_up[key]

    def read(self, parents: Sequence[str], table: Floats, tail: int, chance: Mapping[str, int]) -> list[int]:
        """The weights of the `tail` last entries of a known table, at these values of its chance parents."""
        at = tuple(chance.get(p, slice(None)) for p in parents)
        part = table.reshape(*table.shape[: len(parents)], tail)[at].reshape(-1, tail)
        steps = _strides([self.diagram.nodes[p].states for p in parents], tail)
        moving = [(self.parameters.axes[p], step) for p, step in zip(parents, steps, strict=True) if p not in chance]
        base = sum(chance[p] * step for p, step in zip(parents, steps, strict=True) if p in chance)
        weights = []
        for state in range(tail):
            column = part[:, state]
            if (column == 0).all():
                weights.append(NOTHING)
            elif (column == 1).all():
                weights.append(UNIT)
            else:
                weights.append(self.slot(self.parameters.constant(table) + base + state, moving))
        return weights

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
        offset = self.parameters.offsets[node.cpd.name]
        moving = [p for p in node.parents if p not in chance]
        if node.cpd.rows is None:
            steps = dict(
                zip(node.parents, _strides([self.diagram.nodes[p].states for p in node.parents], 1), strict=True)
            )
            base = offset + node.states * sum(chance[p] * steps[p] for p in node.parents if p in chance)
            strides = [(self.parameters.axes[p], node.states * steps[p]) for p in moving]
            return [self.slot(base + state, strides) for state in range(node.states)]
        if isinstance(node.cpd.rows, int):
            return [self.slot(offset + node.states * node.cpd.rows + state) for state in range(node.states)]
        picked = node.cpd.rows[tuple(chance.get(p, slice(None)) for p in node.parents)]
        rows = [offset + node.states * int(r) for r in picked.ravel()]
        if len(set(rows)) == 1:
            return [self.slot(rows[0] + state) for state in range(node.states)]
        steps_of_moving = _strides([self.diagram.nodes[p].states for p in moving], 1)
        strides = [(self.parameters.axes[p], step) for p, step in zip(moving, steps_of_moving, strict=True)]
        return [self.slot(state, strides, self.look_up(rows)) for state in range(node.states)]

    def finish(self, roots: Sequence[int]) -> Finished:
        """The arrays of the nodes below the given roots: a run of nodes a root, each ending in its root."""
        renamed_slots: dict[int, int] = {}
        products: list[bool] = []
        edges: list[list[Edge]] = []
        ends = [0]
        for root in roots:
            if root < self.leaves:
                products.append(False)
                edges.append([(UNIT, root)] if root != ZERO else [])
            else:
                reached = _below(root, self.edges, self.leaves)
                new = {node: self.leaves + len(edges) + i for i, node in enumerate(reached)}
                for node in reached:
                    products.append(self.products[node - self.leaves])
                    edges.append([(s, new.get(child, child)) for s, child in self.edges[node - self.leaves]])
            ends.append(len(edges))
        for used in edges:
            for s, _ in used:
                for part in self._chain(s):
                    renamed_slots.setdefault(part, len(renamed_slots))
        kept = [self.slot_keys[s] for s in renamed_slots]
        flat = [(renamed_slots.get(s, UNIT), child) for used in edges for s, child in used]
        arrays = Arrays(
            product=products,
            start=starts(edges),
            child=[child for _, child in flat],
            slot=[s for s, _ in flat],
            slot_base=[base for base, _, _, _ in kept],
            slot_start=starts([strides for _, strides, _, _ in kept]),
            slot_axis=[axis for _, strides, _, _ in kept for axis, _ in strides],
            slot_stride=[stride for _, strides, _, _ in kept for _, stride in strides],
            slot_lookup=[place for _, _, place, _ in kept],
            slot_also=[renamed_slots[also] if also >= 0 else -1 for _, _, _, also in kept],
            lookup=self.lookup,
        )
        circuit = Circuit(self.leaves, len(products), len(kept), **pack(**vars(arrays)))
        complement = {self.slot_keys[a][:3]: self.slot_keys[b][:3] for a, b in self.complement.items()}
        return Finished(circuit, arrays, ends, complement)


def starts(parts: Sequence[Sequence[object]]) -> list[int]:
    """Where each of several parts begins when they stand one after the other, and where the last ends."""
    return list(itertools.accumulate((len(p) for p in parts), initial=0))


def _strides(sizes: Sequence[int], last: int) -> list[int]:
    strides = [last] * len(sizes)
    for i in range(len(sizes) - 2, -1, -1):
        strides[i] = strides[i + 1] * sizes[i + 1]
    return strides


def _below(root: int, edges: Sequence[Sequence[Edge]], leaves: int) -> list[int]:
    """The inner nodes that a root depends on, children first: their numbers grow upwards."""
    seen = {root}
    stack = [root]
    while stack:
        for _, child in edges[stack.pop() - leaves]:
            if child >= leaves and child not in seen:
                seen.add(child)
                stack.append(child)
    return sorted(seen)


# -- the order of elimination --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """An order of elimination, the cells of all its tables, and the largest of these tables."""

    order: list[str]
    cells: int
    widest: frozenset[str]


def plan(
    scopes: Iterable[Iterable[str]],
    cards: Mapping[str, int],
    ready: Callable[[str, set[str]], bool] | None = None,
    above: Mapping[str, Sequence[str]] | None = None,
) -> Plan:
    """A greedy order: least fill first, or, where only nodes that are `ready` may go, smallest table first.

    `above` names the nodes that join a table only when a node is eliminated: the parents in its own table.
    """
    near: dict[str, set[str]] = {}
    for scope in scopes:
        for name in scope:
            near.setdefault(name, set()).update(scope)
    left = set(cards)
    rank = {name: i for i, name in enumerate(cards)}

    def joined(name: str) -> set[str]:
        return near[name].union((above or {}).get(name, ())) if name in near else {name}

    def price(name: str) -> tuple[int, int, int]:
        around = joined(name)
        fill = 0 if ready else sum(b not in near[a] for a, b in itertools.combinations(around - {name}, 2))
        return fill, math.prod(cards[v] for v in around), -rank[name]

    order: list[str] = []
    cells, widest = 0, frozenset[str]()
    while left:
        name = min((n for n in left if ready is None or ready(n, left)), key=price)
        around = joined(name)
        size = math.prod(cards[v] for v in around)
        if size > math.prod(cards[v] for v in widest):
            widest = frozenset(around)
        cells += size
        if name in near:
            for other in around - {name}:
                near.setdefault(other, set()).update(around)
                near[other].discard(name)
            del near[name]
        left.discard(name)
        order.append(name)
    return Plan(order, cells, widest)


def children_first(d: Diagram, names: set[str]) -> Callable[[str, set[str]], bool]:
    """Whether a node has no children left: then its own table is still whole, and its rows can fold."""
    children: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        for parent in d.nodes[name].parents:
            if parent in children:
                children[parent].add(name)
    return lambda name, left: not (children[name] & left)


def check_size(d: Diagram, chosen: Plan) -> None:
    """Refuse what would not fit."""
    if chosen.cells > MOST_CELLS:
        raise ComplexityError(
            f"diagram {d.name!r} is too entangled to compile: it needs tables of {chosen.cells:,} cells, "
            f"{MOST_CELLS:,} are allowed; the largest joins {', '.join(sorted(chosen.widest))}"
        )


# -- elimination ---------------------------------------------------------------------------------------------------


@dataclass
class Factor:
    """A table over chance nodes whose entries are nodes of the circuit."""

    scope: tuple[str, ...]
    entries: dict[tuple[int, ...], int]

    def at(self, values: Mapping[str, int]) -> int:
        """The entry at these values."""
        return self.entries[tuple(values[name] for name in self.scope)]


def _assignments(d: Diagram, scope: Sequence[str]) -> Iterable[dict[str, int]]:
    for values in itertools.product(*(range(d.nodes[name].states) for name in scope)):
        yield dict(zip(scope, values, strict=True))


def chance_parents(d: Diagram, node: Node) -> list[str]:
    """The parents of a node that are random."""
    return [p for p in node.parents if d.nodes[p].is_chance]


def eliminate(
    b: Builder, node: Node, own: bool, factors: Sequence[Factor], join: Callable[[Iterable[int]], int], fold: bool
) -> Factor:
    """Sum a node out of the factors that mention it; `own` says that its own table is still whole, and among them.

    `join` combines the entries of the factors: their product for a likelihood, their sum for rewards.
    """
    d = b.diagram
    above = set(chance_parents(d, node)) if own else set()
    scope = tuple(sorted(above.union(*(f.scope for f in factors)) - {node.name}))
    entries: dict[tuple[int, ...], int] = {}
    foldable = own and (fold or isinstance(node.cpd, Known))
    for values in _assignments(d, scope):
        joined = [join([f.at(values | {node.name: s}) for f in factors]) for s in range(node.states)]
        weights = b.row(node, {p: values[p] for p in above}) if own else [UNIT] * node.states
        met = {child for weight, child in zip(weights, joined, strict=True) if weight != NOTHING}
        if foldable and len(met) == 1:
            result = met.pop()
        else:
            terms = list(zip(weights, joined, strict=True))
            result = b.weigh(terms if join == b.multiply else b.flatten(terms))
        entries[tuple(values.values())] = result
    return Factor(scope, entries)


def likelihood(b: Builder, fold: bool) -> int:
    """The root whose value is P(what was seen | action), with an indicator a state of every observed node."""
    d = b.diagram
    names = (
        _relevant(d, [n.name for n in d.of_kind("observed")])
        if fold
        else {n.name for n in d.nodes.values() if n.is_chance}
    )
    chance = [n for n in d.nodes.values() if n.name in names]
    cards = {n.name: n.states for n in chance}
    scopes = [(n.name, *chance_parents(d, n)) for n in chance]
    whole = plan(scopes, cards, children_first(d, names))
    loose = plan(scopes, cards)
    best = whole if whole.cells <= max(FOLDING_IS_WORTH * loose.cells, SMALL) else loose
    check_size(d, best)
    factors = []
    for n in chance:
        if n.kind == "observed":
            b.indicate(n)
    for n in chance:
        if n.kind == "observed":
            first = b.indicators[n.name]
            factors.append(Factor((n.name,), {(s,): first + s for s in range(n.states)}))
    return _sum_out(b, best.order, names, factors, fold)


def _sum_out(b: Builder, order: Sequence[str], names: set[str], factors: list[Factor], fold: bool) -> int:
    d = b.diagram
    whole = {name for name in names if d.nodes[name].is_chance}
    for name in order:
        for other in sorted(whole - {name}):  # tables of children that are joined before their own turn
            node = d.nodes[other]
            if name in node.parents:
                factors.append(_table_factor(b, node))
                whole.discard(other)
        touched = [f for f in factors if name in f.scope]
        factors = [f for f in factors if name not in f.scope]
        factors.append(eliminate(b, d.nodes[name], name in whole, touched, b.multiply, fold))
        whole.discard(name)
    return b.multiply(f.entries[()] for f in factors)


def _table_factor(b: Builder, node: Node) -> Factor:
    scope = (*chance_parents(b.diagram, node), node.name)
    entries: dict[tuple[int, ...], int] = {}
    for values in _assignments(b.diagram, scope[:-1]):
        for state, weight in enumerate(b.row(node, values)):
            entries[(*values.values(), state)] = b.weigh([(weight, ONE)])
    return Factor(scope, entries)


def _relevant(d: Diagram, names: Iterable[str]) -> set[str]:
    """These nodes and the chance nodes above them."""
    found: set[str] = set()
    stack = [name for name in names if d.nodes[name].is_chance]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack.extend(chance_parents(d, d.nodes[name]))
    return found


def rewards(b: Builder) -> list[int]:
    """Roots whose values add up to the expected reward.

    Rewards are passed from children to parents: the entry of a table is the reward still to come, every node is
    a mixture or a sum, and no two messages are multiplied. Where that would be too large, each term is computed
    apart by an elimination with the least fill.
    """
    d = b.diagram
    names = _relevant(d, (p for term in d.rewards for p in term.parents))
    cards = {n.name: n.states for n in d.nodes.values() if n.name in names}
    scopes = [[p for p in term.parents if p in names] for term in d.rewards]
    above = {name: chance_parents(d, d.nodes[name]) for name in names}
    backward = plan(scopes, cards, children_first(d, names), above)
    if backward.cells > MOST_CELLS:
        return _rewards_apart(b, backward)
    values = [_reward_factor(b, i) for i in range(len(d.rewards))]
    for name in backward.order:
        touched = [f for f in values if name in f.scope]
        if touched:
            values = [f for f in values if name not in f.scope]
            values.append(eliminate(b, d.nodes[name], True, touched, b.add, True))
    return [f.entries[()] for f in values]


def _reward_factor(b: Builder, index: int, lift: float = 0.0) -> Factor:
    term = b.diagram.rewards[index]
    scope = tuple(p for p in term.parents if b.diagram.nodes[p].is_chance)
    table = term.table - lift if lift else term.table
    entries = {
        tuple(values.values()): b.weigh([(b.read(term.parents, table, 1, values)[0], ONE)])
        for values in _assignments(b.diagram, scope)
    }
    return Factor(scope, entries)


def _rewards_apart(b: Builder, backward: Plan) -> list[int]:
    d = b.diagram
    roots = []
    for i, term in enumerate(d.rewards):
        names = _relevant(d, term.parents)
        chance = [d.nodes[name] for name in d.nodes if name in names]
        scopes = [(n.name, *chance_parents(d, n)) for n in chance]
        scopes.append(tuple(p for p in term.parents if p in names))
        order = plan(scopes, {n.name: n.states for n in chance})
        check_size(d, order if order.cells < backward.cells else backward)
        lowest = float(term.table.min())  # products of messages bound each other only where nothing is negative
        roots.append(_sum_out(b, order.order, names, [_reward_factor(b, i, lowest)], True))
        if lowest:
            roots.append(b.weigh([(b.slot(b.parameters.constant(np.array([lowest]))), ONE)]))
    return roots
