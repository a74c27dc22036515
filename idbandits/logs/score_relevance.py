"""Rankings of items by what an agent believes of them, judged by relevance labels: DCG and nDCG."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from idbandits.circuit.model import Likelihood, Model
from idbandits.circuit.passes import bind, evaluate
from idbandits.diagram.diagram import Node, Reward
from idbandits.diagram.tables import Label, Use
from idbandits.errors import IdbanditsError, brief, check_number
from idbandits.kernel.array_types import Floats, Ints

MOST_GRADE = 60.0  # gains are 2**grade - 1


class Ranking(NamedTuple):
    """Quality of the rankings of all groups of labelled items (one group, or one per context), as means over groups."""

    dcg: float
    ndcg: float
    groups: int
    depth: int  # places that count


class _Labelled(NamedTuple):
    """An item with its grade, and the group in which it is ranked."""

    group: tuple[Label, ...]
    item: Label
    grade: float


def ranking_of(model: Model, parameters: Floats, labels: Any) -> Ranking:
    """Rank labelled items by their expected value at the first decision, and compare with their grades.

    `labels` maps items to grades, or pairs (group, item); or is a data frame with the columns `item` and `grade`, in
    which other columns form groups. Groups are contexts if they are values of the diagram's contexts.
    """
    if not model.decisions:
        raise IdbanditsError(f"labels must be None for a diagram without decisions, got {brief(labels)}")
    depth, by_group = len(model.decisions), dict[tuple[Label, ...], list[_Labelled]]()
    for own in _read(labels):
        by_group.setdefault(own.group, []).append(own)
    if not by_group:
        raise IdbanditsError("labels must have at least one item, got none")
    node, gains, shares = model.decisions[0], list[float](), list[float]()
    for group, members in by_group.items():
        places = [node.index(own.item) for own in members]
        if None in places:
            missing = members[places.index(None)].item
            raise IdbanditsError(f"labels: items must be choices of {node.name!r} ({node.allowed()}), got {missing!r}")
        values = values_of_items(model, parameters, np.array(places, np.int64), _context(model, group))
        grades = np.array([own.grade for own in members])
        gain, most = _dcg(grades[np.argsort(-values, kind="stable")], depth), _dcg(np.sort(grades)[::-1], depth)
        gains.append(gain)
        if most > 0:  # else all orders are equally good
            shares.append(gain / most)
    return Ranking(float(np.mean(gains)), float(np.mean(shares)) if shares else np.nan, len(gains), depth)


def _dcg(grades: Floats, depth: int) -> float:
    top = grades[:depth]
    return float(((2.0**top - 1) / np.log2(np.arange(2, len(top) + 2))).sum())


def _read(labels: Any) -> list[_Labelled]:
    """Return all labels."""
    columns = getattr(labels, "columns", None)
    if isinstance(labels, Mapping):
        pairs = labels.items()
        rows = [(k if isinstance(k, tuple) else (k,), v) for k, v in pairs]
    elif columns is not None and {"item", "grade"} <= set(columns):
        groups = [name for name in columns if name not in ("item", "grade")]
        lists = [list(labels[name]) for name in [*groups, "item", "grade"]]
        rows = [(line[:-1], line[-1]) for line in zip(*lists, strict=True)]
    else:
        needed = "must map items, or pairs (group, item), to grades, or be a data frame with columns 'item' and 'grade'"
        raise IdbanditsError(f"labels {needed}, got {brief(labels)}")
    return [
        _Labelled(tuple(key[:-1]), key[-1], check_number("labels: grades", grade, 0.0, MOST_GRADE))
        for key, grade in rows
    ]


def _context(model: Model, group: tuple[Label, ...]) -> list[int]:
    """Return the values of contexts that a group stands for; the first ones if it is no context."""
    if any(node.features is not None for node in model.contexts):
        raise IdbanditsError(
            "labels must be None where contexts have features: rankings differ from request to request"
        )
    places = [node.index(value) for node, value in zip(model.contexts, group, strict=False)]
    if len(group) == len(model.contexts) and None not in places:
        return [place for place in places if place is not None]
    if model.contexts:
        names = ", ".join(node.name for node in model.contexts)
        raise IdbanditsError(f"labels: groups must be values of the contexts ({names}), got {brief(group)}")
    return []


def values_of_items(model: Model, parameters: Floats, items: Ints, context: list[int]) -> Floats:
    """Return the expected reward that the first decision alone determines, for each choice.

    It is that of all reward terms that depend on no other decision. Without any, it is the mean of the first learned
    row that depends on the decision.
    """
    first = model.decisions[0].name
    terms = [term for term in model.diagram.rewards if _decisions_above(model, term.parents) == {first}]
    if not terms:
        return _first_rows(model, parameters, items)
    likelihood = model.revealed
    blank = np.array([0] * len(model.decisions) + context, np.int64)
    weights, values = np.empty(likelihood.circuit.slots), np.ones(likelihood.circuit.leaves + likelihood.circuit.inner)
    leaves = [list(_leaves(model, likelihood, term, first)) for term in terms]
    result = np.zeros(len(items))
    for i, item in enumerate(items.tolist()):
        blank[0] = item
        bind(likelihood.program, blank, parameters, weights)
        for own in leaves:
            for choice, reward, indicators in own:
                if reward and choice in (-1, item):
                    values[: likelihood.circuit.leaves] = indicators
                    evaluate(likelihood.program, weights, values, False)
                    result[i] += reward * values[-1]
    return result


def _leaves(model: Model, likelihood: Likelihood, term: Reward, first: str) -> Any:
    """Yield the states of a reward term's nodes: the choice of the decision (-1: any), the reward, the indicators."""
    nodes = [model.nodes[name] for name in term.parents]
    for states in product(*(range(node.states) for node in nodes)):
        seen = {node.name: s for node, s in zip(nodes, states, strict=True) if node.kind in ("latent", "observed")}
        choice = next((s for node, s in zip(nodes, states, strict=True) if node.name == first), -1)
        yield choice, float(term.table[states]), likelihood.leaves(seen)


def _decisions_above(model: Model, names: Any) -> set[str]:
    """Return the decisions among nodes and their ancestors."""
    found, left = set[str](), list(names)
    while left:
        node = model.nodes[left.pop()]
        if node.name not in found:
            found.add(node.name)
            left += _parents(node)
    return {name for name in found if model.nodes[name].kind == "decision"}


def _parents(node: Node) -> list[str]:
    return list(node.parents)


def _first_rows(model: Model, parameters: Floats, items: Ints) -> Floats:
    """Return the mean state, from 0 to 1, of the first learned node whose row is chosen by the first decision."""
    first = model.decisions[0]
    for node, use in model.learned_nodes:
        if first.name in node.parents and isinstance(use, Use):
            table = model.learned[use.name]
            rows = parameters[model.parameters.offsets[use.name] :][: table.size].reshape(-1, table.states)
            by_item = rows @ np.linspace(0.0, 1.0, table.states)
            axis = node.parents.index(first.name)
            if len(by_item) % first.states == 0 and table.shape and axis < len(table.shape):
                grid = by_item.reshape(table.shape)
                if grid.shape[axis] == first.states:
                    others = tuple(k for k in range(grid.ndim) if k != axis)
                    return np.asarray(grid.mean(axis=others)[items])
    raise IdbanditsError(f"labels must be None: no reward or learned table depends on {first.name!r} alone")
