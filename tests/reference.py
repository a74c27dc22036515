"""The oracle: the paper's equations by plain enumeration of all joint states, slow and obvious."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from idbandits import Diagram
from idbandits.diagram import Node
from idbandits.tables import Known, Use

Values = Mapping[str, Any]  # node name -> the place of its value among its values


def entry_of(d: Diagram, node: Node, values: Values) -> tuple[str, tuple[int, ...]]:
    """The learned table and the row that a node is drawn from."""
    assert isinstance(node.cpd, Use)
    at = tuple(values[p] for p in node.parents)
    if isinstance(node.cpd.rows, int):
        return node.cpd.name, (node.cpd.rows,)
    if node.cpd.rows is not None:
        return node.cpd.name, (int(node.cpd.rows[at]),)
    shape = d.learned[node.cpd.name].shape
    if len(shape) != len(at):  # declared with rows, read by all combinations in turn
        sizes = [d.nodes[p].states for p in node.parents]
        return node.cpd.name, (int(np.ravel_multi_index(at, sizes)),)
    return node.cpd.name, at


def probability(d: Diagram, node: Node, values: Values, means: Mapping[str, Any]) -> float:
    """P(node = its value | its parents' values)."""
    state = values[node.name]
    if isinstance(node.cpd, Known):
        return float(node.cpd.table[(*(values[p] for p in node.parents), state)])
    name, row = entry_of(d, node, values)
    mean = np.asarray(means[name])[row]
    if node.states > 2:
        return float(mean[state])
    return float(mean if state == 1 else 1 - mean)


def joint(d: Diagram, given: Values, means: Mapping[str, Any]) -> Iterator[tuple[dict[str, int], float]]:
    """Every joint state of all nodes, with its probability given decisions and contexts."""
    chance = [n for n in d.nodes.values() if n.is_chance]
    for states in itertools.product(*(range(n.states) for n in chance)):
        values = {**given, **{n.name: s for n, s in zip(chance, states, strict=True)}}
        yield values, math.prod(probability(d, n, values, means) for n in chance)


def reward(d: Diagram, values: Values) -> float:
    """r(x, z)."""
    return sum(float(term.table[tuple(values[p] for p in term.parents)]) for term in d.rewards)


def expected_reward(d: Diagram, given: Values, means: Mapping[str, Any]) -> float:
    """r(a, theta)."""
    return sum(p * reward(d, values) for values, p in joint(d, given, means))


def likelihood(d: Diagram, given: Values, seen: Values, means: Mapping[str, Any]) -> float:
    """P(x | a, theta)."""
    return sum(p for values, p in joint(d, given, means) if all(values[n] == s for n, s in seen.items()))


def posterior_of_latents(d: Diagram, given: Values, seen: Values, means: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """P(z_i | x, a, theta) for every latent node."""
    latent = [n for n in d.nodes.values() if n.kind == "latent"]
    sums = {n.name: np.zeros(n.states) for n in latent}
    for values, p in joint(d, given, means):
        if all(values[n] == s for n, s in seen.items()):
            for n in latent:
                sums[n.name][values[n.name]] += p
    return {name: total / total.sum() for name, total in sums.items()}


def entries_used(d: Diagram, values: Values) -> Counter[tuple[str, tuple[int, ...]]]:
    """How often each entry of a learned table is used in a joint state."""
    used: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for n in d.nodes.values():
        if isinstance(n.cpd, Use):
            name, row = entry_of(d, n, values)
            used[(name, (*row, values[n.name]))] += 1
    return used


def distribution_of_counts(
    d: Diagram, given: Values, seen: Values, means: Mapping[str, Any]
) -> dict[frozenset[tuple[tuple[str, tuple[int, ...]], int]], float]:
    """The posterior distribution of the counts of all entries in one round."""
    total: Counter[Any] = Counter()
    for values, p in joint(d, given, means):
        if p > 0 and all(values[n] == s for n, s in seen.items()):
            total[frozenset(entries_used(d, values).items())] += p  # type: ignore[assignment]
    whole = sum(total.values())
    return {counts: p / whole for counts, p in total.items()}


def feasible(d: Diagram, action: Values) -> bool:
    """Whether an action satisfies all_different."""
    return all(
        d.nodes[a].values[action[a]] != d.nodes[b].values[action[b]]
        for group in d.different
        for a, b in itertools.combinations(group, 2)
    )


def actions(d: Diagram) -> Iterator[dict[str, int]]:
    """All actions that satisfy the constraints."""
    decisions = [n for n in d.nodes.values() if n.kind == "decision"]
    for choice in itertools.product(*(range(n.states) for n in decisions)):
        action = {n.name: c for n, c in zip(decisions, choice, strict=True)}
        if feasible(d, action):
            yield action


def best_value(d: Diagram, context: Values, means: Mapping[str, Any]) -> float:
    """The highest expected reward of any action."""
    return max(expected_reward(d, {**action, **context}, means) for action in actions(d))
