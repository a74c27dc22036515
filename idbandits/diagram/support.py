"""Combinations of values that may occur, whatever the learned means: decided by the zeros of known tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from idbandits.diagram.known_tables import Known
from idbandits.kernel.array_types import Bools

if TYPE_CHECKING:  # `diagram` imports this module
    from idbandits.diagram.diagram import Node

MOST_CELLS = 5_000_000  # of one table of the elimination; beyond that, everything counts as possible


class Factor(NamedTuple):
    """Table over nodes that is True where their values may occur together."""

    scope: tuple[str, ...]
    table: Bools


def possible(nodes: Mapping[str, Node], names: Sequence[str], factors: Sequence[Factor] = ()) -> Bools:
    """Return True for every combination of values of these nodes that has a positive probability under some means.

    Decisions and contexts may have any values that `factors` allow. The answer is exact, by elimination of the nodes
    above; where that is too large, everything counts as possible.
    """
    shape = tuple(nodes[name].states for name in names)
    relevant = _above(nodes, names)
    left = [
        Factor((*node.parents, name), node.cpd.table > 0)
        for name, node in nodes.items()
        if name in relevant and isinstance(node.cpd, Known)
    ]
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
    """Return these nodes and their ancestors."""
    above = set(names)
    for node in reversed(list(nodes.values())):  # children before parents
        if node.name in above:
            above.update(node.parents)
    return above


def _joined(name: str, factors: Sequence[Factor]) -> set[str]:
    return {name}.union(*(factor.scope for factor in factors if name in factor.scope))


def _cells(nodes: Mapping[str, Node], names: set[str]) -> int:
    return math.prod(nodes[name].states for name in names)


def _product(nodes: Mapping[str, Node], scope: Sequence[str], factors: Sequence[Factor]) -> Bools:
    """Return where all factors are True, over a scope that includes theirs."""
    result = np.ones(tuple(nodes[name].states for name in scope), dtype=np.bool_)
    for factor in factors:
        places = [scope.index(name) for name in factor.scope]
        table = factor.table.transpose(np.argsort(places))
        result &= table.reshape([size if k in places else 1 for k, size in enumerate(result.shape)])
    return result
