"""A diagram becomes a circuit, once, by symbolic variable elimination.

What is eliminated are tables whose entries are nodes of the circuit under construction. Entries that are known to be 0
or 1 fold away, equal nodes are shared, and where all states of one table row meet under equal cofactors the row sums to
1 and vanishes (`fold`).
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from idbandits.circuit.build import NOTHING, ONE, UNIT, Builder
from idbandits.diagram.diagram import Diagram, Node, Reward
from idbandits.diagram.tables import Known
from idbandits.errors import ComplexityError
from idbandits.kernel.array_types import Floats
from idbandits.kernel.messages import say

MOST_CELLS = 2_000_000  # of all tables of one elimination
LARGE = 100_000  # cells: seconds
FOLDING_IS_WORTH = 4  # how much larger an elimination that keeps all rows whole may be, so that more of them fold
SMALL = 50_000  # cells: below that, always so


class Plan(NamedTuple):
    """An order of elimination, the cells of all its tables, and the largest of these tables."""

    order: list[str]
    cells: int
    widest: set[str]


def plan(
    scopes: Iterable[Iterable[str]], cards: Mapping[str, int], ready: Callable[[str, set[str]], bool] | None = None,
    above: Mapping[str, Sequence[str]] | None = None,
) -> Plan:  # fmt: skip
    """A greedy order: least fill first, or, where only nodes that are `ready` may go, smallest table first.

    `above` names the nodes that join a table only when a node is eliminated: the parents in its own table.
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
    return Plan(order, cells, widest)


def children_first(d: Diagram, names: set[str]) -> Callable[[str, set[str]], bool]:
    """Whether a node has no children left: then its own table is still intact, and its rows can fold."""
    parents = {name: set(d.nodes[name].parents) for name in names}
    children = {name: {child for child in names if name in parents[child]} for name in names}
    return lambda name, left: not (children[name] & left)


def check_size(d: Diagram, chosen: Plan) -> None:
    """Reject an elimination that would not fit in memory; announce one that takes seconds."""
    if chosen.cells > MOST_CELLS:
        raise ComplexityError(
            f"diagram {d.name!r} is too entangled to compile: it needs tables of {chosen.cells:,} cells, "
            f"{MOST_CELLS:,} are allowed; the largest joins {_sizes(d, chosen)}"
        )
    if chosen.cells > LARGE:
        say(
            f"building a circuit of diagram {d.name!r}: its tables have {chosen.cells:,} cells, the largest joins "
            f"{_sizes(d, chosen)}; this takes a while …"
        )


def _sizes(d: Diagram, chosen: Plan) -> str:
    """The nodes of the largest table with their numbers of states, for messages."""
    return ", ".join(f"{name} ({d.nodes[name].states})" for name in sorted(chosen.widest))


class Factor(NamedTuple):
    """A table over chance nodes whose entries are nodes of the circuit."""

    scope: tuple[str, ...]
    entries: dict[tuple[int, ...], int]


def _picker(scope: Sequence[str], names: Sequence[str]) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """A function that turns values of `names` into those of `scope`, which are among them."""
    places = [names.index(name) for name in scope]
    if len(places) > 1:
        return operator.itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _assignments(d: Diagram, scope: Sequence[str]) -> Iterable[dict[str, int]]:
    for values in itertools.product(*(range(d.nodes[name].states) for name in scope)):
        yield dict(zip(scope, values, strict=True))


def chance_parents(d: Diagram, node: Node) -> list[str]:
    """The parents of a node that are random."""
    return [p for p in node.parents if d.nodes[p].is_chance]


def eliminate(
    b: Builder, node: Node, own: bool, factors: Sequence[Factor], join: Callable[[Iterable[int]], int], fold: bool
) -> Factor:
    """Sum a node out of the factors that mention it; `own` says that its own table is still intact, and among them.

    `join` combines the entries of the factors: their product for a likelihood, their sum for rewards.
    """
    above = set(chance_parents(b.diagram, node)) if own else set()
    scope = tuple(sorted(above.union(*(f.scope for f in factors)) - {node.name}))
    entries: dict[tuple[int, ...], int] = {}
    foldable = own and (fold or isinstance(node.cpd, Known))
    pickers = [(_picker(f.scope, (*scope, node.name)), f.entries) for f in factors]
    parents = [(p, scope.index(p)) for p in above]
    for values in itertools.product(*(range(b.diagram.nodes[name].states) for name in scope)):
        places = [(*values, s) for s in range(node.states)]
        joined = [join([entries_of[pick(at)] for pick, entries_of in pickers]) for at in places]
        weights = b.row(node, {p: values[k] for p, k in parents}) if own else [UNIT] * node.states
        terms = list(zip(weights, joined, strict=True))
        met = {child for weight, child in terms if weight != NOTHING}
        folds = foldable and len(met) == 1
        result = met.pop() if folds else b.weigh(terms if join == b.multiply else b.flatten(terms))
        entries[values] = result
    return Factor(scope, entries)


def plan_likelihood(d: Diagram, fold: bool) -> tuple[Plan, list[Node]]:
    """How the likelihood of a diagram is compiled, and the nodes that it depends on."""
    kept = d.of_kind("observed") if fold else d.nodes.values()
    names = _relevant(d, [n.name for n in kept])
    chance = [n for n in d.nodes.values() if n.name in names]
    cards, scopes = {n.name: n.states for n in chance}, [(n.name, *chance_parents(d, n)) for n in chance]
    foldable, loose = plan(scopes, cards, children_first(d, names)), plan(scopes, cards)
    return foldable if foldable.cells <= max(FOLDING_IS_WORTH * loose.cells, SMALL) else loose, chance


def likelihood(b: Builder, fold: bool) -> int:
    """The root whose value is P(what was seen | action), with one indicator per state of every observed node."""
    d = b.diagram
    best, chance = plan_likelihood(d, fold)
    check_size(d, best)
    names, factors = {n.name for n in chance}, []
    for n in chance:
        if n.kind == "observed":
            first = b.indicators[n.name] = b.leaves
            b.leaves += n.states
            factors.append(Factor((n.name,), {(s,): first + s for s in range(n.states)}))
    return _sum_out(b, best.order, names, factors, fold)


def _sum_out(b: Builder, order: Sequence[str], names: set[str], factors: list[Factor], fold: bool) -> int:
    d = b.diagram
    intact = set(names)  # whose own table is not among the factors yet
    for name in order:
        for other in sorted(intact - {name}):  # tables of children that are joined before their own turn
            if name in d.nodes[other].parents:
                factors.append(_table_factor(b, d.nodes[other]))
                intact.discard(other)
        touched = [f for f in factors if name in f.scope]
        factors = [f for f in factors if name not in f.scope]
        factors.append(eliminate(b, d.nodes[name], name in intact, touched, b.multiply, fold))
        intact.discard(name)
    return b.multiply(f.entries[()] for f in factors)


def _table_factor(b: Builder, node: Node) -> Factor:
    scope = (*chance_parents(b.diagram, node), node.name)
    entries = {
        (*values.values(), state): b.weigh([(weight, ONE)])
        for values in _assignments(b.diagram, scope[:-1])
        for state, weight in enumerate(b.row(node, values))
    }
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


class RewardPlan(NamedTuple):
    """How rewards are eliminated: all together in one order, or, where that would be too large, term by term.

    Together, rewards are passed from children to parents: the entry of a table is the reward still to come, every node
    is a mixture or a sum, and no two messages are multiplied. Apart, messages are, and products bound each other only
    where nothing is negative: so the lowest reward of every term is taken off and added again.
    """

    together: Plan
    apart: bool
    lowest: list[float]  # per term: what is taken off
    tables: list[Floats]  # per term: what is left


def plan_rewards(d: Diagram) -> RewardPlan:
    """How the rewards of a diagram are eliminated."""
    names = _relevant(d, (p for term in d.rewards for p in term.parents))
    cards = {n.name: n.states for n in d.nodes.values() if n.name in names}
    scopes = [[p for p in term.parents if p in names] for term in d.rewards]
    above = {name: chance_parents(d, d.nodes[name]) for name in names}
    together = plan(scopes, cards, children_first(d, names), above)
    apart = together.cells > MOST_CELLS
    lowest = [float(term.table.min()) if apart else 0.0 for term in d.rewards]
    tables = [term.table - least if least else term.table for term, least in zip(d.rewards, lowest, strict=True)]
    return RewardPlan(together, apart, lowest, tables)


def known_tables(d: Diagram, rewards: RewardPlan) -> Iterator[Floats]:
    """The known tables that circuits of a diagram read: those that do not fold away as zeros and ones."""
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
    """Whether, for all states of chance nodes, an entry is 0 for all choices or 1 for all choices."""
    chosen = tuple(i for i, name in enumerate(parents) if not d.nodes[name].is_chance)
    low, high = table.min(axis=chosen), table.max(axis=chosen)
    return bool(((low == high) & ((low == 0) | (low == 1))).all())


def rewards(b: Builder, plans: RewardPlan) -> list[int]:
    """Roots whose values add up to the expected reward."""
    if plans.apart:
        return _rewards_apart(b, plans)
    check_size(b.diagram, plans.together)
    terms = zip(b.diagram.rewards, plans.tables, strict=True)
    factors = [_reward_factor(b, term, table) for term, table in terms]
    for name in plans.together.order:
        touched = [f for f in factors if name in f.scope]
        if touched:
            factors = [f for f in factors if name not in f.scope]
            factors.append(eliminate(b, b.diagram.nodes[name], True, touched, b.add, True))
    return [f.entries[()] for f in factors]


def _reward_factor(b: Builder, term: Reward, table: Floats) -> Factor:
    scope = tuple(p for p in term.parents if b.diagram.nodes[p].is_chance)
    entries = {
        tuple(values.values()): b.weigh([(b.read(term.parents, table, 1, values)[0], ONE)])
        for values in _assignments(b.diagram, scope)
    }
    return Factor(scope, entries)


def _rewards_apart(b: Builder, plans: RewardPlan) -> list[int]:
    d, roots = b.diagram, []
    for term, lowest, table in zip(d.rewards, plans.lowest, plans.tables, strict=True):
        names = _relevant(d, term.parents)
        chance = [d.nodes[name] for name in d.nodes if name in names]
        scopes = [(n.name, *chance_parents(d, n)) for n in chance]
        scopes.append(tuple(p for p in term.parents if p in names))
        order = plan(scopes, {n.name: n.states for n in chance})
        check_size(d, order if order.cells < plans.together.cells else plans.together)
        roots.append(_sum_out(b, order.order, names, [_reward_factor(b, term, table)], True))
        if lowest:
            roots.append(b.weigh([(b.slot(b.parameters.place_of(np.array([lowest]))), ONE)]))
    return roots
