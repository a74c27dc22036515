"""Random diagrams and means, drawn by a generator: any structure that the library allows, small enough to enumerate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from idbandits import Diagram, Learned

Rng = np.random.Generator


def random_diagram(rng: Rng, most_chance: int = 8, most_joint: int = 2_000) -> Diagram:
    """1-3 decisions, 0-2 contexts, up to 8 chance nodes of 2-4 states; known, learned and shared tables."""
    d = Diagram("random")
    labelled = rng.random() < 0.3
    same = int(rng.integers(2, 6))
    for k in range(int(rng.integers(1, 4))):
        choices = same if rng.random() < 0.7 else int(rng.integers(1, 5))
        d.decision(f"A{k}", [f"item {i}" for i in rng.permutation(choices + 1)[:choices]] if labelled else choices)
    for k in range(int(rng.choice([0, 0, 1, 2]))):
        d.context(f"S{k}", ["new", "loyal", "gone"][: int(rng.integers(1, 4))])
    shared: list[Learned] = []
    joint = 1
    for k in range(int(rng.integers(1, most_chance + 1))):
        states = int(rng.choice([2, 2, 2, 3, 4]))
        if joint * states > most_joint:
            break
        joint *= states
        names = list(d.nodes)
        parents = [str(p) for p in rng.choice(names, size=min(len(names), int(rng.integers(0, 4))), replace=False)]
        add = d.latent if rng.random() < 0.5 else d.observed
        add(f"N{k}", parents, _random_cpd(rng, d, parents, states, shared), states=states)
    names = list(d.nodes)
    for _ in range(int(rng.integers(1, 4))):
        over = [str(p) for p in rng.choice(names, size=min(len(names), int(rng.integers(1, 4))), replace=False)]
        values = rng.normal(size=[d.nodes[p].states for p in over]).round(2)
        places = [list(d.nodes[p].values) for p in over]
        d.reward(over, lambda *v, t=values, w=places: t[tuple(w[i].index(x) for i, x in enumerate(v))])
    if rng.random() < 0.4:
        decisions = [n.name for n in d.of_kind("decision")]
        group = decisions if rng.random() < 0.7 else decisions[:2]
        if _matchable(d, group):
            d.all_different(*group)
    return d


def _matchable(d: Diagram, group: list[str]) -> bool:
    if not group:
        return True
    first = min(group, key=lambda name: d.nodes[name].states)
    ordered = sorted(group, key=lambda name: d.nodes[name].states)
    return first in group and _pick(d, ordered, set())


def _pick(d: Diagram, group: list[str], taken: set[Any]) -> bool:
    if not group:
        return True
    return any(v not in taken and _pick(d, group[1:], taken | {v}) for v in d.nodes[group[0]].values)


def _random_cpd(rng: Rng, d: Diagram, parents: list[str], states: int, shared: list[Learned]) -> Any:
    shape = tuple(d.nodes[p].states for p in parents)
    kind = rng.choice(["dense", "deterministic", "mixed", "learned", "learned", "shared", "row", "select"])
    if kind in ("dense", "deterministic", "mixed"):
        table = rng.dirichlet(np.ones(states), size=shape)
        sharp = np.eye(states)[rng.integers(states, size=shape)]
        if kind == "deterministic":
            table = sharp
        if kind == "mixed":
            table = np.where(rng.random(size=(*shape, 1)) < 0.5, table, sharp)
        return table[..., 1] if states == 2 else table
    if kind == "shared":
        for table in shared:
            known = d.learned[table.name]
            if table.rows is None and (known.shape, known.states) == (shape, states):
                return table
    if kind in ("row", "select"):
        fitting = [t for t in shared if t.rows is not None and d.learned[t.name].states == states]
        table = fitting[0] if fitting and rng.random() < 0.7 else Learned(f"rows {len(shared)}", rows=3)
        shared.append(table)
        if kind == "row":
            return table[int(rng.integers(3))]
        picked = iter(rng.integers(3, size=math.prod(shape)).tolist())
        return table.select(lambda *_: next(picked))
    table = Learned(f"table {len(shared)}")
    shared.append(table)
    return table


def random_means(rng: Rng, d: Diagram) -> dict[str, np.ndarray]:
    """Means for all learned tables; some are exactly 0 or 1."""
    means = {}
    for t in d.learned.values():
        full = rng.dirichlet(np.ones(t.states), size=t.shape)
        sharp = np.eye(t.states)[rng.integers(t.states, size=t.shape)]
        full = np.where(rng.random(size=(*t.shape, 1)) < 0.1, sharp, full)
        means[t.name] = full[..., 1] if t.states == 2 else full
    return means


def random_given(rng: Rng, d: Diagram) -> tuple[dict[str, int], dict[str, int]]:
    """An action (without regard to constraints) and a context, as places among the values."""
    action = {n.name: int(rng.integers(n.states)) for n in d.of_kind("decision")}
    return action, {n.name: int(rng.integers(n.states)) for n in d.of_kind("context")}


def labels(d: Diagram, places: dict[str, int]) -> dict[str, Any]:
    """Places among the values, as the values themselves."""
    return {name: d.nodes[name].values[i] for name, i in places.items()}
