"""Which values of nodes may occur together, whatever the learned means: decided by the zeros of known tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from idbandits.diagram.tables import Known
from idbandits.kernel.array_types import Bools

if TYPE_CHECKING:  # `declare` imports this module
    from idbandits.diagram.diagram import Node

MOST_CELLS = 5_000_000  # of one table of the elimination; what would need more counts as possible


class Factor(NamedTuple):
    """A table over nodes that is True where their values may occur together."""

    scope: tuple[str, ...]
    table: Bools


def possible(nodes: Mapping[str, Node], names: Sequence[str], factors: Sequence[Factor] = ()) -> Bools:
    """For every combination of values of these nodes, whether it has a positive probability under some means.

    Decisions and contexts may have any values, unless `factors` says otherwise. The answer is exact, by elimination of
    the nodes above; where that is too large, everything counts as possible.
    """
    shape = tuple(nodes[name].states for name in names)
    relevant = _above(nodes, names)
    left = [_factor(nodes[name]) for name in relevant if isinstance(nodes[name].cpd, Known)]
    left += [factor for factor in factors if relevant.issuperset(factor.scope)]
    hidden = relevant.difference(names)
    while hidden:
        name = min(sorted(hidden), key=lambda n: _cells(nodes, _joined(n, left)))
        touched = [factor for factor in left if name in factor.scope]
        left = [factor for factor in left if name not in factor.scope]
        scope = tuple(sorted(_joined(name, touched) - {name}))
        hidden.discard(name)
        if touched:
            if _cells(nodes, {*scope, name}) > MOST_CELLS:
                return np.ones(shape, dtype=np.bool_)
            left.append(Factor(scope, np.asarray(_product(nodes, (*scope, name), touched).any(axis=-1))))
    return _product(nodes, names, left)


def _above(nodes: Mapping[str, Node], names: Sequence[str]) -> set[str]:
    """These nodes and all above them."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(nodes[name].parents)
    return found


def _factor(node: Node) -> Factor:
    assert isinstance(node.cpd, Known)
    return Factor((*node.parents, node.name), node.cpd.table > 0)


def _joined(name: str, factors: Sequence[Factor]) -> set[str]:
    return {name}.union(*(factor.scope for factor in factors if name in factor.scope))


def _cells(nodes: Mapping[str, Node], names: set[str]) -> int:
    return math.prod(nodes[name].states for name in names)


def _product(nodes: Mapping[str, Node], scope: Sequence[str], factors: Sequence[Factor]) -> Bools:
    """Where all factors are True, over a scope that has all of theirs."""
    result = np.ones(tuple(nodes[name].states for name in scope), dtype=np.bool_)
    for factor in factors:
        places = [scope.index(name) for name in factor.scope]
        table = factor.table.transpose(np.argsort(places))
        result &= table.reshape([size if k in places else 1 for k, size in enumerate(result.shape)])
    return result
