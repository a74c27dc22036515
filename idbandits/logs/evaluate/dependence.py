"""Decisions that each term of the reward, and each observed node, depends on: read off the diagram.

A term is weighted by the decisions it depends on and by no others. With a position-based model these are the decision
at its own position (IIPS), in a cascade those down to its position (RIPS), and without structure all (SIPS).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from idbandits.circuit.model import Model
from idbandits.diagram.diagram import Diagram, Node
from idbandits.diagram.support import possible
from idbandits.diagram.tables import Known, Use
from idbandits.kernel.array_types import Bools, Floats, Ints

Places = tuple[int, ...]  # of decisions in `model.decisions`, in increasing order


class Term(NamedTuple):
    """Term of the reward: its table, and the decisions behind it."""

    parents: tuple[str, ...]
    table: Floats
    decisions: Places  # that it depends on
    nearest: Places  # of these, the ones with the fewest arrows between: the item at its own position
    kind: object  # terms of one kind are the same function of their nearest decisions, seen at different places


class Dependence(NamedTuple):
    """Terms of the reward, and the decisions that each observed node depends on."""

    terms: tuple[Term, ...]
    observed: tuple[frozenset[int], ...]  # in the order of `model.observed`
    contexts: Places  # places in `model.contexts` of those that a term depends on


def dependence_of(model: Model) -> Dependence:
    """Return the decisions behind all terms of the reward and all observed nodes.

    >>> from idbandits import models
    >>> from idbandits.circuit.model import compile
    >>> [term.decisions for term in dependence_of(compile(models.position_based(5, 3))).terms]
    [(0,), (1,), (2,)]
    >>> [term.decisions for term in dependence_of(compile(models.cascade(5, 3))).terms]
    [(0,), (0, 1), (0, 1, 2)]
    """
    return model.derived(_dependence)


def _dependence(model: Model) -> Dependence:
    d = model.diagram
    effective = {name: _effective_parents(d, node) for name, node in d.nodes.items()}
    places = {node.name: k for k, node in enumerate(model.decisions)}

    def behind(names: Iterable[str]) -> frozenset[int]:
        return frozenset(places[name] for name in _distances(effective, names) if name in places)

    terms = []
    reached: set[str] = set()
    for reward in d.rewards:
        used = _varying(reward.table, np.asarray(possible(d.nodes, reward.parents)))
        names = [name for name, varies in zip(reward.parents, used, strict=True) if varies]
        distances = _distances(effective, names)
        reached |= distances.keys()
        steps = {places[name]: at for name, at in distances.items() if name in places}
        nearest = tuple(sorted(k for k, at in steps.items() if at == min(steps.values())))
        reading = sorted(
            cpd.name
            for name in distances
            if isinstance(cpd := d.nodes[name].cpd, Use) and places.keys() & set(effective[name])
        )
        kind = reward.table.shape, reward.table.tobytes(), tuple(dict.fromkeys(reading)), len(nearest)
        terms.append(Term(reward.parents, reward.table, tuple(sorted(steps)), nearest, kind))
    contexts = tuple(k for k, node in enumerate(model.contexts) if node.name in reached)
    return Dependence(tuple(terms), tuple(behind([node.name]) for node in model.observed), contexts)


def _distances(effective: Mapping[str, tuple[str, ...]], names: Iterable[str]) -> dict[str, int]:
    """Return nodes and their ancestors along parents that matter, with the number of arrows in between."""
    distances = dict.fromkeys(names, 0)
    queue = list(distances)
    for name in queue:  # grows
        for parent in effective[name]:
            if parent not in distances:
                distances[parent] = distances[name] + 1
                queue.append(parent)
    return distances


def _effective_parents(d: Diagram, node: Node) -> tuple[str, ...]:
    """Return the parents that the distribution of a node depends on, given the values that can occur together."""
    if isinstance(node.cpd, Known):
        occurring = np.asarray(possible(d.nodes, node.parents))
        used = _varying(node.cpd.table, occurring)
    elif isinstance(node.cpd, Use) and node.cpd.rows is not None:
        if isinstance(node.cpd.rows, int):
            return ()
        used = _varying(node.cpd.rows, np.asarray(possible(d.nodes, node.parents)))
    else:
        return node.parents
    return tuple(name for name, varies in zip(node.parents, used, strict=True) if varies)


def _varying(table: Floats | Ints, occurring: Bools) -> list[bool]:
    """Return, for each axis of `occurring`, whether the table changes along it among cells that can occur."""
    cells = table.reshape(*occurring.shape, -1)
    varies = []
    for axis in range(occurring.ndim):
        along, where = np.moveaxis(cells, axis, 0), np.moveaxis(occurring, axis, 0)[..., np.newaxis]
        highest = np.where(where, along, -np.inf).max(axis=0, initial=-np.inf)
        lowest = np.where(where, along, np.inf).min(axis=0, initial=np.inf)
        varies.append(bool((highest > lowest).any()))
    return varies
