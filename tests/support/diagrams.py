"""Random diagrams, small enough to enumerate, and named diagrams."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from idbandits import Diagram, Learned, models

Rng = np.random.Generator


def random_diagram(rng: Rng, most_chance: int = 8, most_joint: int = 2_000) -> Diagram:
    """Return a diagram with 1-3 decisions, 0-2 contexts and up to 8 chance nodes of 2-4 states."""
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
        if _can_differ(d, group):
            d.all_different(*group)
    return d


def _can_differ(d: Diagram, group: list[str], taken: frozenset[Any] = frozenset()) -> bool:
    """Return True if all decisions of a group can be different."""
    if not group:
        return True
    return any(v not in taken and _can_differ(d, group[1:], taken | {v}) for v in d.nodes[group[0]].values)


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
    """Draw means for all learned tables; some are exactly 0 or 1."""
    means = {}
    for t in d.learned.values():
        full = rng.dirichlet(np.ones(t.states), size=t.shape)
        sharp = np.eye(t.states)[rng.integers(t.states, size=t.shape)]
        full = np.where(rng.random(size=(*t.shape, 1)) < 0.1, sharp, full)
        means[t.name] = full[..., 1] if t.states == 2 else full
    return with_fixed_means(d, means)


def with_fixed_means(d: Diagram, means: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return means with the values of fixed rows."""
    for t in d.learned.values():
        rows = means[t.name].reshape(math.prod(t.shape), -1)
        for row, values in t.fixed.items():
            rows[row] = values[1] if t.states == 2 else values
    return means


def with_fixed_rows(rng: Rng, d: Diagram) -> Diagram:
    """Return the diagram with some rows of its learned tables fixed, some of them to 0 or 1.

    Tables that nodes read by different labels are unchanged.
    """
    saved = d.to_dict()
    for entry in saved["learned"]:
        table = d.learned[entry["name"]]
        reader = next(n for n in d.nodes.values() if getattr(n.cpd, "name", None) == table.name)
        parents = [d.nodes[p] for p in reader.parents]
        if "rows" not in entry and not _is_read_alike(d, reader):
            continue
        entry["fixed"] = []
        for number in np.flatnonzero(rng.random(math.prod(table.shape)) < 0.4).tolist():
            row: Any = number
            if "rows" not in entry:
                labels = [p.values[i] for p, i in zip(parents, np.unravel_index(number, table.shape), strict=True)]
                row = labels[0] if len(labels) == 1 else labels
            values = rng.dirichlet(np.ones(table.states))
            if rng.random() < 0.5:
                values = np.eye(table.states)[rng.integers(table.states)]
            entry["fixed"].append({"row": row, "value": values[1] if table.states == 2 else values.tolist()})
    return Diagram.from_dict(saved)


def _is_read_alike(d: Diagram, reader: Any) -> bool:
    """Return True if all nodes that read the table of a node have parents with equal values."""
    others = [n for n in d.nodes.values() if getattr(n.cpd, "name", None) == reader.cpd.name]
    values = [[tuple(d.nodes[p].values) for p in n.parents] for n in others]
    return all(own == values[0] for own in values)


def random_given(rng: Rng, d: Diagram) -> tuple[dict[str, int], dict[str, int]]:
    """Draw an action (ignoring constraints) and a context, as indices."""
    action = {n.name: int(rng.integers(n.states)) for n in d.of_kind("decision")}
    return action, {n.name: int(rng.integers(n.states)) for n in d.of_kind("context")}


def labels(d: Diagram, places: dict[str, int]) -> dict[str, Any]:
    """Convert indices to values."""
    return {name: d.nodes[name].values[i] for name, i in places.items()}


def random_learning_diagram(seed: int) -> Diagram:
    """Return a random diagram with a learned table, an observed node and random priors."""
    rng = np.random.default_rng(seed)
    while True:
        d = random_diagram(rng, most_chance=5, most_joint=100)
        if d.learned and d.of_kind("observed"):
            saved = d.to_dict()
            for table in saved["learned"]:
                table["prior"] = rng.uniform(0.3, 3.0, size=d.learned[table["name"]].states).round(2).tolist()
            return Diagram.from_dict(saved)


def same_table_twice() -> Diagram:
    """Return a diagram whose latent nodes read the same row if the decisions are equal."""
    d, table = Diagram("twice"), Learned("table", prior=[1.5, 0.7])
    first, second = (d.latent(f"Z{k}", [d.decision(f"A{k}", 2)], table) for k in (1, 2))
    d.reward(d.observed("X", [first, second], lambda a, b: 0.1 + 0.3 * a + 0.5 * b))
    return d


def three_states() -> Diagram:
    """Return a diagram whose latent node of three states selects the row of a learned table."""
    d = Diagram("three states")
    mood = d.latent("Z", [d.decision("A", 2)], Learned("mood", prior=[1.0, 2.0, 0.5]), states=3)
    d.reward(
        d.observed("X", [mood], Learned("answer", prior=[[2.0, 1.0, 1.0], [1.0, 3.0, 1.0], [0.5, 1.0, 4.0]]), states=3)
    )
    return d


def in_context() -> Diagram:
    """Return a diagram with labels, a context, a selected row and a shared table."""
    d = Diagram("in context")
    who = d.context("who", ["new", "loyal"])
    item = d.decision("item", ["red", "green", "blue"])
    rows = Learned("rows", rows=3)
    liked = d.latent("liked", [who, item], Learned("liked"))
    bought = d.observed("bought", [liked, who], rows.select(lambda z, w: z + (w == "loyal")))
    d.observed("kept", [bought, liked], rows.select(lambda b, z: 2 if b and z else 0))
    d.observed("noise", cpd=rows[1])
    d.reward(bought)
    return d


def shop() -> Diagram:
    """Return a diagram with two contexts, overlapping choices, a latent node, labels and three states."""
    d = Diagram("shop")
    segment = d.context("segment", ["new", "loyal"])
    first = d.decision("first", ["tea", "coffee", "juice"])
    hour = d.context("hour", 3)
    second = d.decision("second", ["juice", "tea", "water"])
    taste = d.latent("taste", [first, segment])
    d.reward(d.observed("sip", [taste, hour], lambda t, h: (0.2, 0.5, 1.0)[h] * t))
    mood = d.observed("mood", [second, segment], states=["bad", "fair", "good"])
    d.reward([mood, hour], lambda m, h: {"bad": -1.0, "fair": 0.5, "good": 2.0}[m] * h)
    d.all_different()
    return d


SHOP_MEANS = {
    "taste": np.array([[0.9, 0.1], [0.2, 0.7], [0.4, 0.5]]),
    "mood": np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 2)),
}
SHOP_CONTEXTS: dict[str, Any] = {"segment": {"loyal": 0.2, "new": 0.8}, "hour": [0.1, 0.6, 0.3]}


def learned_conditionals() -> Diagram:
    """Return a cascade with learned clicks and examination."""
    return models.cascade(3, 2, learn_conditionals=True)


def same_item_twice() -> Diagram:
    """Return a model in which both positions may show the same item."""
    return models.position_based(2, 2, distinct=False)


def partly_known() -> Diagram:
    """Return a position-based model with a fixed first examination and an item that is never clicked."""
    return models.position_based(3, 2, distinct=False, fixed={"examination": {0: 1.0}, "attraction": {2: 0.0}})


NAMED = [same_table_twice, three_states, in_context, learned_conditionals, same_item_twice]
