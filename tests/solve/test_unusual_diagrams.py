"""The best action of odd but legal diagrams, against all actions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import labels
from idbandits import Diagram, Learned, models

Means = dict[str, np.ndarray]
Drawn = tuple[Diagram, Means]


def costs(rng: np.random.Generator) -> Drawn:
    """The lowest means are best."""
    d, cost = Diagram(), Learned("cost")
    for k in range(2):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", 9)], cost), lambda x: -x)
    d.all_different()
    return d, {"cost": rng.random(9)}


def known(rng: np.random.Generator) -> Drawn:
    """Nothing is learned, and the reward of two decisions has no structure."""
    d, table = Diagram(), rng.integers(3, size=(3, 3)).tolist()
    d.reward([d.decision("A", 3), d.decision("B", 3)], lambda a, b: table[a][b])
    d.all_different()
    return d, {}


def alike(rng: np.random.Generator) -> Drawn:
    """Two decisions read one table, one of them twice: the reward is linear in one and quadratic in the other."""
    d, table = Diagram(), Learned("t")
    a, b = d.decision("A", 6), d.decision("B", 6)
    nodes = [d.latent(name, [parent], table) for name, parent in (("x", a), ("y", b), ("z", a))]
    d.reward(nodes, lambda x, y, z: x * y * z - y * (1 - z))
    return d, {"t": rng.random(6)}


def signs(rng: np.random.Generator) -> Drawn:
    """A product whose factors have both signs."""
    d = Diagram()
    seen = [d.observed(f"X{k}", [d.decision(k, 3)]) for k in "AB"]
    d.reward(seen, lambda x, y: (2 * x - 1) * (2 * y - 1))
    d.all_different()
    return d, {f"X{k}": rng.random(3).round(1) for k in "AB"}


def zeros(rng: np.random.Generator) -> Drawn:
    """A product in which several factors may be 0 at once."""
    attraction = np.array([1, *rng.choice([0, 0.5], 3)])
    d = models.dependent_click(4, 3, reward="satisfaction")
    return d, {"attraction": attraction, "satisfaction": rng.permutation([0, 1, 1])}


def additive(rng: np.random.Generator) -> Drawn:
    """A sum, but not quite after rounding: 0.1 + 0.2 is not 0.3."""
    d, table = Diagram(), Learned("t")
    d.reward([d.observed(f"X{k}", [d.decision(k, 8)], table) for k in "AB"], lambda x, y: 0.1 * x + 0.2 * y)
    d.all_different()
    return d, {"t": rng.random(8)}


def bilinear(rng: np.random.Generator) -> Drawn:
    """A constant plus a product of two factors, but the constant is not a fraction of small numbers."""
    d = Diagram()
    x, y = (d.latent(f"X{k}", [d.decision(k, 4)]) for k in "AB")
    c = d.observed("C", [x, y], rng.random((2, 2)))
    e, table = d.observed("E", [c, x], rng.random((2, 2))), rng.normal(size=(2, 2)).tolist()
    d.reward([e, y], lambda e, y: table[e][y])
    d.all_different()
    return d, {"XA": rng.random(4), "XB": rng.random(4)}


def twice(rng: np.random.Generator) -> Drawn:
    """A decision with two children in one product, and a context that picks their rows."""
    d, rows = Diagram(), Learned("rows", rows=4)
    a, b, s = d.decision("A", 7), d.decision("B", 7), d.context("S", 2)
    first = d.latent("first", [a, s], rows.select(lambda a, s: (a + s) % 4))
    second = d.latent("second", [a])
    third = d.latent("third", [b, a], rng.random((7, 7)))
    d.reward([first, second, third], lambda x, y, z: x * y - 2 * z * (1 - y))
    return d, {"rows": rng.random(4), "second": rng.random(7)}


def lists(rng: np.random.Generator) -> Drawn:
    """Different lists of labels that overlap."""
    d = Diagram()
    for k in range(3):
        own = [int(i) for i in rng.permutation(6)[:4]]
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", own)]), lambda x, k=k: (k - 1.5) * x)
    d.all_different()
    return d, {f"X{k}": rng.random(4) for k in range(3)}


def large(rng: np.random.Generator) -> Drawn:
    """Rewards of very different sizes, some negative."""
    d = Diagram()
    a, b = d.decision("A", 4), d.decision("B", 1)
    x, y = d.observed("X", [a]), d.observed("Y", [a, b])
    d.reward([x, y], lambda x, y: 1e200 * (x - y))
    d.reward(a, lambda a: -(1e200) * a / 10)
    d.reward(b, lambda b: 1e-200)
    return d, {"X": rng.random(4), "Y": rng.random((4, 1))}


@pytest.mark.parametrize("draw", [costs, known, alike, signs, zeros, twice, lists, large, additive, bilinear])
def test_best_action_of_odd_diagrams(draw: Callable[[np.random.Generator], Drawn]) -> None:
    rng = np.random.default_rng(8)
    for _ in range(60):
        d, means = draw(rng)
        context = {n.name: int(rng.integers(n.states)) for n in d.of_kind("context")}
        solution = idb.best_action(d, means, context)
        chosen = {name: d.nodes[name].index(v) for name, v in solution.action.items()}
        assert reference.feasible(d, chosen)
        best = max(idb.expected_reward(d, labels(d, a), means, context) for a in reference.actions(d))
        assert solution.value == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert idb.expected_reward(d, solution.action, means, context) == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert solution.exact


@pytest.mark.parametrize(("items", "positions", "exact"), [(6, 4, True), (12, 8, True), (20, 15, False)])
def test_the_scale_of_rewards_does_not_matter(items: int, positions: int, exact: bool) -> None:
    d = models.cascade(items, positions, learn_conditionals=True)
    data = d.to_dict()
    tiny = Diagram.from_dict({**data, "rewards": [{**term, "table": [0.0, 1e-14]} for term in data["rewards"]]})
    for seed in range(10):
        rng = np.random.default_rng(seed)
        means = {name: rng.random(table.means_shape) for name, table in d.learned.items()}
        small, large = idb.best_action(tiny, means), idb.best_action(d, means)
        assert small.exact == large.exact == exact
        assert small.value * 1e14 == pytest.approx(large.value, rel=1e-9)
        assert small.bound * 1e14 == pytest.approx(large.bound, rel=1e-9)
