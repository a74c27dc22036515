"""Baselines of comparisons, made from any diagram: a saturated table, and the popularity of items."""

from __future__ import annotations

import math

from idbandits.circuit.model import Model, compile
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.tables import Learned

SATURATED, POPULARITY = "saturated table", "popularity"
MOST_ROWS = 2_000_000  # of a table


def baselines_of(d: Diagram) -> dict[str, Diagram]:
    """Return the baselines of a diagram by name.

    The saturated table has a distribution of every observed node for each combination of the decisions and contexts
    that come with it. Popularity has one per item, whatever its position.
    """
    return {SATURATED: _baseline(d, SATURATED), POPULARITY: _baseline(d, POPULARITY)}


def _baseline(d: Diagram, name: str) -> Diagram:
    model, made, own = compile(d), Diagram(name), own_choices(compile(d))
    nodes = {node.name: made.decision(node.name, node.values) for node in model.decisions}
    nodes |= {node.name: made.context(node.name, n.values) for node, n in _plain_contexts(model)}
    tables = dict[tuple[object, ...], Learned]()
    for node in model.observed:
        parents = [n for n in own[node.name] if n.name in nodes]
        if name == POPULARITY:
            parents = [n for n in parents if n.kind == "decision"][:1]
        while math.prod(n.states for n in parents) > MOST_ROWS:
            parents.pop()
        key: tuple[object, ...] = (node.name,)
        if name == POPULARITY:
            key = (tuple(node.values), *(tuple(n.values) for n in parents))
        table = tables.setdefault(key, Learned(node.name if name == SATURATED else f"popularity {len(tables) + 1}"))
        values = node.states if isinstance(node.values, range) else node.values
        seen = made.observed(node.name, [nodes[n.name] for n in parents], table, states=values)
        made.reward(seen, [float(k) for k in range(node.states)])
    for group, labels in d.constraints:
        made.all_different(*group, except_=labels)
    return made


def _plain_contexts(model: Model) -> list[tuple[Node, Node]]:
    return [(node, node) for node in model.contexts if node.features is None]


def own_choices(model: Model) -> dict[str, list[Node]]:
    """Return the decisions that come with each observed node, and the contexts it depends on.

    These are the decisions that matter for no observed node before it; if there are none, those that it depends on
    otherwise than through other observed nodes.
    """
    earlier, result = set[str](), dict[str, list[Node]]()
    for node in model.observed:
        above = _above(model, node, through_observed=True)
        decisions = [n for n in model.decisions if n.name in above and n.name not in earlier]
        if not decisions:
            direct = _above(model, node, through_observed=False)
            decisions = [n for n in model.decisions if n.name in direct]
        result[node.name] = [*decisions, *(n for n in model.contexts if n.name in above)]
        earlier |= above
    return result


def _above(model: Model, node: Node, *, through_observed: bool) -> set[str]:
    """Return the ancestors of a node; those of other observed nodes only if `through_observed`."""
    found, left = set[str](), list(node.parents)
    while left:
        parent = model.nodes[left.pop()]
        if parent.name not in found:
            found.add(parent.name)
            if through_observed or parent.kind != "observed":
                left += parent.parents
    return found
