"""Symbolic variable elimination, which turns a diagram into circuits.

Nodes are eliminated from tables whose entries are nodes of the circuit under construction. Entries that are known to be
0 or 1 fold away, equal nodes are shared, and where all states of one table row have equal cofactors the row sums to 1
and vanishes (`fold`).
"""

import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from idbandits.circuit.build import NOTHING, ONE, UNIT, Builder
from idbandits.diagram.diagram import Diagram, Node, Reward
from idbandits.diagram.tables import Known
from idbandits.errors import ComplexityError
from idbandits.kernel.array_types import Floats
from idbandits.kernel.messages import say

MOST_CELLS = 2_000_000  # of all tables of one elimination
LARGE = 100_000  # cells: the elimination takes seconds, and is announced
FOLDING_IS_WORTH = 4  # how much larger an elimination may be in which more rows fold
SMALL = 50_000  # cells: below, folding is always worth it


class EliminationPlan(NamedTuple):
    """Order of elimination, the number of cells of all tables, and the nodes of the largest table."""

    order: list[str]
    cells: int
    widest: set[str]


def plan(
    scopes: Iterable[Iterable[str]], cards: Mapping[str, int], ready: Callable[[str, set[str]], bool] | None = None,
    above: Mapping[str, Sequence[str]] | None = None,
) -> EliminationPlan:  # fmt: skip
    """Return a greedy order: least fill first or, if only `ready` nodes may be eliminated, smallest table first.

    `above` has, for each node, those that join a table only when it is eliminated: the parents in its own table.
    """
    near: dict[str, set[str]] = {}
    for scope in scopes:
        for name in scope:
            near.setdefault(name, set()).update(scope)
    left, rank = set(cards), {name: i for i, name in enumerate(cards)}

    def joined(name: str) -> set[str]:
        return near[name].union((above or {}).get(name, ())) if name in near else {name}

    def price(name: str) -> tuple[int, int, int]:
        around = joined(name)
        fill = 0 if ready else sum(b not in near[a] for a, b in itertools.combinations(around - {name}, 2))
        return fill, math.prod(cards[v] for v in around), -rank[name]

    order, cells, widest = list[str](), 0, set[str]()
    while left:
        name = min((n for n in left if ready is None or ready(n, left)), key=price)
        around = joined(name)
        size = math.prod(cards[v] for v in around)
        if size > math.prod(cards[v] for v in widest):
            widest = around
        cells += size
        if name in near:
            for other in around - {name}:
                near.setdefault(other, set()).update(around)
                near[other].discard(name)
            del near[name]
        left.discard(name)
        order.append(name)
    return EliminationPlan(order, cells, widest)


def children_first(d: Diagram, names: set[str]) -> Callable[[str, set[str]], bool]:
    """Return whether a node has no children left: then its own table is still intact, and its rows can fold."""
    children = {name: {child for child in names if name in d.nodes[child].parents} for name in names}
    return lambda name, left: not (children[name] & left)


def check_size(d: Diagram, chosen: EliminationPlan) -> None:
    """Reject an elimination that would not fit in memory; announce one that takes seconds."""
    sizes = ", ".join(f"{name} ({d.nodes[name].states})" for name in sorted(chosen.widest))
    if chosen.cells > MOST_CELLS:
        cells = f"it needs tables of {chosen.cells:,} cells, {MOST_CELLS:,} are allowed; the largest joins {sizes}"
        raise ComplexityError(f"diagram {d.name!r} is too entangled to compile: {cells}")
    if chosen.cells > LARGE:
        cells = f"its tables have {chosen.cells:,} cells, the largest joins {sizes}"
        say(f"building a circuit of diagram {d.name!r}: {cells}; this takes a while …")


class NodeTable(NamedTuple):
    """Table over chance nodes whose entries are nodes of the circuit."""

    scope: tuple[str, ...]
    entries: dict[tuple[int, ...], int]


def _picker(scope: Sequence[str], names: Sequence[str]) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """Return a function that selects the values of `scope` from those of `names`."""
    places = [names.index(name) for name in scope]
    if len(places) > 1:
        return operator.itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _combinations(d: Diagram, scope: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Iterate over all values of some nodes."""
    return itertools.product(*(range(d.nodes[name].states) for name in scope))


def chance_parents(d: Diagram, node: Node) -> list[str]:
    """Return the parents of a node that are chance nodes."""
    return [p for p in node.parents if d.nodes[p].is_chance]


def eliminate(
    b: Builder, node: Node, own: bool, tables: Sequence[NodeTable], join: Callable[[Iterable[int]], int], fold: bool
) -> NodeTable:
    """Sum a node out of the tables that mention it, and out of its own table if that is still intact (`own`).

    `join` combines the entries of the tables: their product for a likelihood, their sum for rewards.
    """
    above = set(chance_parents(b.diagram, node)) if own else set()
    scope = tuple(sorted(above.union(*(t.scope for t in tables)) - {node.name}))
    entries: dict[tuple[int, ...], int] = {}
    foldable = own and (fold or isinstance(node.cpd, Known))
    pickers = [(_picker(t.scope, (*scope, node.name)), t.entries) for t in tables]
    parents = [(p, scope.index(p)) for p in above]
    for values in _combinations(b.diagram, scope):
        places = [(*values, s) for s in range(node.states)]
        joined = [join([entries_of[pick(at)] for pick, entries_of in pickers]) for at in places]
        weights = b.row(node, {p: values[k] for p, k in parents}) if own else [UNIT] * node.states
        terms = list(zip(weights, joined, strict=True))
        children = {child for weight, child in terms if weight != NOTHING}
        if foldable and len(children) == 1:
            entries[values] = children.pop()
        else:
            entries[values] = b.weigh(terms if join == b.multiply else b.flatten(terms))
    return NodeTable(scope, entries)


def plan_likelihood(d: Diagram, fold: bool) -> tuple[EliminationPlan, list[Node]]:
    """Return the elimination for the likelihood of a diagram, and the nodes that it depends on."""
    names = _with_ancestors(d, [n.name for n in (d.of_kind("observed") if fold else d.nodes.values())])
    chance, scopes = [n for n in d.nodes.values() if n.name in names], _scopes(d, names)
    cards = {n.name: n.states for n in chance}
    foldable, loose = plan(scopes, cards, children_first(d, names)), plan(scopes, cards)
    return foldable if foldable.cells <= max(FOLDING_IS_WORTH * loose.cells, SMALL) else loose, chance


def likelihood(b: Builder, fold: bool) -> int:
    """Return the root of P(observation | action), with one indicator per state of every observed node."""
    best, chance = plan_likelihood(b.diagram, fold)
    check_size(b.diagram, best)
    tables = []
    for n in chance:
        if n.kind == "observed":
            first = b.indicators[n.name] = b.leaves
            b.leaves += n.states
            tables.append(NodeTable((n.name,), {(s,): first + s for s in range(n.states)}))
    return _sum_out(b, best.order, tables, fold)


def _sum_out(b: Builder, order: Sequence[str], tables: list[NodeTable], fold: bool) -> int:
    """Return the root of the sum over nodes, in this order, of the product of these tables and their own."""
    d = b.diagram
    intact = set(order)  # nodes whose own table was not joined yet
    for name in order:
        for other in sorted(intact - {name}):  # children that are eliminated later
            if name in d.nodes[other].parents:
                tables.append(_own_table(b, d.nodes[other]))
                intact.discard(other)
        touched = [t for t in tables if name in t.scope]
        tables = [t for t in tables if name not in t.scope]
        tables.append(eliminate(b, d.nodes[name], name in intact, touched, b.multiply, fold))
        intact.discard(name)
    return b.multiply(t.entries[()] for t in tables)


def _own_table(b: Builder, node: Node) -> NodeTable:
    parents = chance_parents(b.diagram, node)
    entries = {
        (*values, state): b.weigh([(weight, ONE)])
        for values in _combinations(b.diagram, parents)
        for state, weight in enumerate(b.row(node, dict(zip(parents, values, strict=True))))
    }
    return NodeTable((*parents, node.name), entries)


def _reward_table(b: Builder, term: Reward, table: Floats) -> NodeTable:
    scope = tuple(p for p in term.parents if b.diagram.nodes[p].is_chance)
    chance = ((values, dict(zip(scope, values, strict=True))) for values in _combinations(b.diagram, scope))
    return NodeTable(scope, {at: b.weigh([(b.read(term.parents, table, 1, named)[0], ONE)]) for at, named in chance})


def _with_ancestors(d: Diagram, names: Iterable[str]) -> set[str]:
    """Return the chance nodes among some nodes and their ancestors."""
    reached: set[str] = set()
    stack = [name for name in names if d.nodes[name].is_chance]
    while stack:
        name = stack.pop()
        if name not in reached:
            reached.add(name)
            stack.extend(chance_parents(d, d.nodes[name]))
    return reached


def _scopes(d: Diagram, names: Collection[str]) -> list[tuple[str, ...]]:
    """Return the scopes of the tables of some chance nodes."""
    return [(n.name, *chance_parents(d, n)) for n in d.nodes.values() if n.name in names]


class RewardPlan(NamedTuple):
    """Elimination of rewards: all together in one order or, if that is too large, term by term (`apart`).

    Together, rewards are passed from children to parents: the entry of a table is the reward still to come, every node
    is a mixture or a sum, and no two messages are multiplied. Apart, messages are multiplied, and products bound each
    other only if nothing is negative: so the lowest reward of every term is subtracted, and added again at the end.
    """

    together: EliminationPlan
    apart: bool
    lowest: list[float]  # by term: the reward that is subtracted
    tables: list[Floats]  # by term: the remaining rewards


def plan_rewards(d: Diagram) -> RewardPlan:
    """Return the elimination for the rewards of a diagram."""
    names = _with_ancestors(d, (p for term in d.rewards for p in term.parents))
    cards = {n.name: n.states for n in d.nodes.values() if n.name in names}
    scopes = [[p for p in term.parents if p in names] for term in d.rewards]
    above = {name: chance_parents(d, d.nodes[name]) for name in names}
    together = plan(scopes, cards, children_first(d, names), above)
    apart = together.cells > MOST_CELLS
    lowest = [float(term.table.min()) if apart else 0.0 for term in d.rewards]
    tables = [term.table - least if least else term.table for term, least in zip(d.rewards, lowest, strict=True)]
    return RewardPlan(together, apart, lowest, tables)


def known_tables(d: Diagram, rewards: RewardPlan) -> Iterator[Floats]:
    """Iterate over the known tables that circuits of a diagram read: those that do not fold away as zeros and ones."""
    for node in d.nodes.values():
        if isinstance(node.cpd, Known) and not _folds_away(d, node.parents, node.cpd.table):
            yield node.cpd.table
    for learned in d.learned.values():
        yield from learned.fixed.values()
    for term, lowest, table in zip(d.rewards, rewards.lowest, rewards.tables, strict=True):
        if not _folds_away(d, term.parents, table[..., np.newaxis]):
            yield table
        if lowest:
            yield np.array([lowest])


def _folds_away(d: Diagram, parents: Sequence[str], table: Floats) -> bool:
    """Return whether, for all states of chance nodes, an entry is 0 for all choices or 1 for all choices."""
    chosen = tuple(i for i, name in enumerate(parents) if not d.nodes[name].is_chance)
    low, high = table.min(axis=chosen), table.max(axis=chosen)
    return bool(((low == high) & ((low == 0) | (low == 1))).all())


def rewards(b: Builder, plans: RewardPlan) -> list[int]:
    """Return roots whose values add up to the expected reward."""
    if plans.apart:
        return _rewards_apart(b, plans)
    check_size(b.diagram, plans.together)
    terms = zip(b.diagram.rewards, plans.tables, strict=True)
    tables = [_reward_table(b, term, table) for term, table in terms]
    for name in plans.together.order:
        touched = [t for t in tables if name in t.scope]
        if touched:
            tables = [t for t in tables if name not in t.scope]
            tables.append(eliminate(b, b.diagram.nodes[name], True, touched, b.add, True))
    return [t.entries[()] for t in tables]


def _rewards_apart(b: Builder, plans: RewardPlan) -> list[int]:
    d, roots = b.diagram, []
    for term, lowest, table in zip(d.rewards, plans.lowest, plans.tables, strict=True):
        names = _with_ancestors(d, term.parents)
        cards = {n.name: n.states for n in d.nodes.values() if n.name in names}
        order = plan([*_scopes(d, names), [p for p in term.parents if p in names]], cards)
        check_size(d, order if order.cells < plans.together.cells else plans.together)
        roots.append(_sum_out(b, order.order, [_reward_table(b, term, table)], True))
        if lowest:
            roots.append(b.weigh([(b.slot(b.parameters.place_of(np.array([lowest]))), ONE)]))
    return roots
