"""Stages: an order of a group's decisions in which the circuit of the reward can be evaluated one by one.

The nodes of a stage depend on its decision, and on nodes of earlier stages: those are the frontier, all that the later
stages see of the choices made so far. Where there are no products, a stage maps its frontier to the next one by an
affine map, whose coefficients depend on its choice only. In click models the frontier is one number per state of the
user; the first stage is the last position.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from idbandits.circuit.circuit import PRODUCT, Circuit
from idbandits.kernel.array_types import Bools

Described: TypeAlias = list[tuple[tuple[object, ...], str]]  # edges of a node: what their slots read, their children


class Stages(NamedTuple):
    """Stages of a group of decisions."""

    constant: list[int]  # nodes that depend on no decision
    decision: list[int]  # of a stage
    ahead: list[list[int]]  # of a stage: nodes to evaluate first, which do not depend on its decision
    nodes: list[list[int]]  # of a stage: then these, in this order
    frontier: list[list[int]]  # of a stage: the nodes that later stages read, as children


def stages_of(
    c: Circuit, nodes: range, deps: Sequence[Sequence[int]], members: Sequence[int], conflict: Bools
) -> Stages | None:
    """Return the stages of a group; None if decisions meet in one node, in a product, or depend on each other.

    To exclude each other has to be transitive, too: then the items that were used say which are left.
    """
    if not nodes:
        return None
    reach = conflict.copy()
    for k in range(len(members)):
        reach[k, k] = True
    if (reach @ reach != reach).any() or any(len(deps[n]) > 1 for n in nodes):
        return None
    below = _decisions_below(c, nodes, deps)
    if any(c.kind[n] == PRODUCT and below[c.leaves + n] for n in nodes) or not below[c.leaves + nodes[-1]]:
        return None
    order = _order(c, nodes, deps, members, below)
    if order is None:
        return None
    choices = [_placed(c, nodes, deps, below, order, lazy) for lazy in (True, False)]
    return min(choices, key=lambda stages: sum(map(len, stages.frontier)))


def _decisions_below(c: Circuit, nodes: range, deps: Sequence[Sequence[int]]) -> dict[int, frozenset[int]]:
    """Return the decisions that each node depends on, by the number that it has as a child."""
    below: dict[int, frozenset[int]] = {leaf: frozenset() for leaf in range(c.leaves)}
    for n in nodes:
        below[c.leaves + n] = frozenset(deps[n]).union(*(below[c.child[e]] for e in c.edges(n)))
    return below


def _order(
    c: Circuit, nodes: range, deps: Sequence[Sequence[int]], members: Sequence[int], below: dict[int, frozenset[int]]
) -> list[int] | None:
    """Return the decisions of a group, each after those that its nodes build on; None if there is no such order."""
    earlier: dict[int, set[int]] = {k: set() for k in members}
    for n in nodes:
        for k in deps[n]:
            earlier[k] |= below[c.leaves + n] - {k}
    first = {k: n for n in reversed(nodes) for k in deps[n]}  # decisions that no node depends on come last
    order: list[int] = []
    while len(order) < len(members):
        ready = [k for k in members if k not in order and earlier[k] <= set(order)]
        if not ready:
            return None
        order.append(min(ready, key=lambda k: first.get(k, c.inner)))
    return order


def _placed(
    c: Circuit, nodes: range, deps: Sequence[Sequence[int]], below: dict[int, frozenset[int]], order: Sequence[int],
    lazy: bool,
) -> Stages:  # fmt: skip
    """Put nodes into stages; those that read no decision themselves as late as possible if lazy, else as early."""
    place = {k: t for t, k in enumerate(order)}
    stage: dict[int, int] = {}
    for n in nodes:
        if below[c.leaves + n]:
            stage[n] = max(place[k] for k in below[c.leaves + n])
    root = nodes[-1]
    parents: dict[int, list[int]] = {}
    for n in nodes:
        for e in c.edges(n):
            parents.setdefault(c.child[e], []).append(n)
    if lazy:
        for n in reversed(nodes):
            if n in stage and not deps[n] and n != root and (above := parents.get(c.leaves + n)):
                stage[n] = min(stage[parent] for parent in above)
    frontier = [
        [
            c.leaves + n
            for n in nodes
            if n in stage
            and stage[n] <= t
            and (n == root or any(stage[parent] > t for parent in parents.get(c.leaves + n, ())))
        ]
        for t in range(len(order))
    ]
    by_stage = [[n for n in nodes if stage.get(n) == t] for t in range(len(order))]
    return Stages(
        constant=[n for n in nodes if n not in stage],
        decision=list(order),
        ahead=[[n for n in own if k not in below[c.leaves + n]] for k, own in zip(order, by_stage, strict=True)],
        nodes=[[n for n in own if k in below[c.leaves + n]] for k, own in zip(order, by_stage, strict=True)],
        frontier=frontier,
    )


def are_alike(c: Circuit, stages: Stages) -> bool:
    """Return whether stages, each of which hands on one number, all map it in the same way, the first one 0.

    The nodes of every stage are compared one by one: then equal choices lead to equal maps, whatever the means.
    """
    later = [_described(c, stages, t) for t in range(1, len(stages.decision))]
    if any(own is None or own != later[0] for own in later):
        return False
    return _described(c, stages, 0) == _described(c, stages, 1, zero=True)


def _described(c: Circuit, stages: Stages, t: int, *, zero: bool = False) -> list[Described] | None:
    """Describe the nodes of a stage without naming its decision; None if they read more than the previous stage.

    With `zero`, the number that it reads is 0: edges that lead to nothing else are left out.
    """
    names = {node: str(node) for node in (*range(c.leaves), *(c.leaves + n for n in stages.constant))}
    if t > 0 and not zero:
        names[stages.frontier[t - 1][0]] = "the number"
    nodes: list[Described] = []
    for n in (*stages.ahead[t], *stages.nodes[t]):
        edges = [e for e in c.edges(n) if c.child[e] in names]
        if len(edges) < len(c.edges(n)) and not zero:
            return None
        if edges:
            names[c.leaves + n] = f"node {len(nodes)}"
            nodes.append([(column(c, c.slot[e], stages.decision[t]), names[c.child[e]]) for e in edges])
    return nodes


def column(c: Circuit, slot: int, k: int) -> tuple[object, ...]:
    """Describe what a slot reads, without naming the decision k."""
    if slot < 0:
        return ()
    base, strides, place = c.atom(slot)
    unnamed = sorted((-1 if axis == k else axis, stride) for axis, stride in strides)
    return (base, *unnamed, place, column(c, c.slot_also[slot], k))
