"""Logs that are drawn from a diagram: all rounds at once, node by node."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from idbandits import Diagram
from idbandits.diagram.diagram import Node
from idbandits.diagram.tables import Known, Use
from idbandits.kernel.array_types import Ints, Rng


def sampled(d: Diagram, means: Mapping[str, Any], values: dict[str, Ints], rng: Rng) -> dict[str, Ints]:
    """Draw all chance nodes of rounds, given the choices of decisions and contexts; return the states of all nodes."""
    values = dict(values)
    length = len(next(iter(values.values())))
    for node in d.nodes.values():
        if node.is_chance:
            chances = np.broadcast_to(_distribution(d, node, values, means), (length, node.states))
            if node.states == 2:
                values[node.name] = (rng.random(length, np.float32) < chances[:, 1]).astype(np.int8)
            else:
                sums = np.cumsum(chances, axis=1)
                values[node.name] = (rng.random((length, 1)) * sums[:, -1:] >= sums[:, :-1]).sum(axis=1).astype(np.int8)
    return values


def _distribution(d: Diagram, node: Node, values: Mapping[str, Ints], means: Mapping[str, Any]) -> Any:
    """Return the distribution of a node in every round, or one for all."""
    at = tuple(values[parent] for parent in node.parents)
    if isinstance(node.cpd, Known):
        return np.asarray(node.cpd.table)[at]
    assert isinstance(node.cpd, Use)
    table = np.asarray(means[node.cpd.name])
    if isinstance(node.cpd.rows, int):
        at = (np.array(node.cpd.rows),)
    elif node.cpd.rows is not None:
        at = (np.asarray(node.cpd.rows)[at],)
    elif len(d.learned[node.cpd.name].shape) != len(at):
        at = (np.ravel_multi_index(at, [d.nodes[parent].states for parent in node.parents]),)
    chosen = table[at]
    return np.stack([1.0 - chosen, chosen], axis=-1) if node.states == 2 else chosen


def random_lists(rounds: int, items: int, positions: int, rng: Rng) -> Ints:
    """Draw lists of different items."""
    lists = rng.integers(items, size=(rounds, positions), dtype=np.int64)
    while True:
        ordered = np.sort(lists, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not len(again):
            return lists
        lists[again] = rng.integers(items, size=(len(again), positions))
