"""Every ready model against its textbook closed form, and the best action against all actions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import idbandits as idb
import reference
from idbandits import Diagram, Learned, models
from idbandits.errors import ImpossibleObservationError

ITEMS, POSITIONS = 5, 3
Means = dict[str, np.ndarray]
Clicks = tuple[int, ...]


# -- closed forms: the probability of a click vector and the expected reward of a list of items ----------------------


def bernoulli(p: float, x: int) -> float:
    return p if x else 1 - p


def independent(p: list[float], clicks: Clicks) -> float:
    return math.prod(bernoulli(q, c) for q, c in zip(p, clicks, strict=True))


def cascade_clicks(m: Means, items: list[int], clicks: Clicks) -> float:
    a = m["attraction"][items]
    if sum(clicks) > 1:
        return 0.0
    k = clicks.index(1) if any(clicks) else POSITIONS
    return math.prod(1 - a[:k]) * (a[k] if k < POSITIONS else 1.0)


def cascade_reward(m: Means, items: list[int]) -> float:
    return 1 - math.prod(1 - m["attraction"][items])


def inverted_clicks(m: Means, items: list[int], clicks: Clicks) -> float:
    a = m["attraction"][items]
    k = sum(clicks)
    if clicks != (1,) * k + (0,) * (POSITIONS - k):
        return 0.0
    return math.prod(1 - a[:k]) * (a[k] if k < POSITIONS else 1.0)


def inverted_reward(m: Means, items: list[int]) -> float:
    return sum(math.prod(1 - m["attraction"][items[:k]]) for k in range(1, POSITIONS + 1))


def learned_clicks(m: Means, items: list[int], clicks: Clicks) -> float:
    """A hidden Markov model whose state is examination: rows and columns are E before and after."""
    belief = np.array([0.0, 1.0])
    for k, c in enumerate(clicks):
        click = (1 - m["attraction"][items[k]]) * m["click"][0] + m["attraction"][items[k]] * m["click"][1]
        belief = belief * (click if c else 1 - click)
        if k + 1 < POSITIONS:
            go_on = m["examination"][c]
            belief = np.array([belief @ (1 - go_on), belief @ go_on])
    return belief.sum()


def position_clicks(m: Means, items: list[int], clicks: Clicks) -> float:
    return independent(list(m["examination"] * m["attraction"][items]), clicks)


def position_reward(m: Means, items: list[int]) -> float:
    return m["examination"] @ m["attraction"][items]


def chain_clicks(a: np.ndarray, stay: Callable[[int, int], float], clicks: Clicks) -> float:
    """One who is at position k clicks with probability a[k], then goes on with probability stay(k, click)."""

    def after(k: int, there: bool) -> float:
        if k == POSITIONS:
            return 1.0
        if not there:
            return float(not any(clicks[k:]))
        here = bernoulli(a[k], clicks[k])
        on = stay(k, clicks[k])
        return here * (on * after(k + 1, True) + (1 - on) * after(k + 1, False))

    return after(0, True)


def dependent_clicks(m: Means, items: list[int], clicks: Clicks) -> float:
    return chain_clicks(m["attraction"][items], lambda k, c: 1 - c * m["satisfaction"][k], clicks)


def dependent_reward(m: Means, items: list[int]) -> float:
    return 1 - math.prod(1 - m["attraction"][items] * m["satisfaction"])


def dependent_number(m: Means, items: list[int]) -> float:
    a, s = m["attraction"][items], m["satisfaction"]
    return sum(a[k] * math.prod(1 - a[:k] * s[:k]) for k in range(POSITIONS))


def dbn(m: Means, items: list[int]) -> tuple[np.ndarray, np.ndarray, float]:
    return m["attraction"][items], m["satisfaction"][items], float(m.get("continuation", np.float64(1.0)))


def dbn_clicks(m: Means, items: list[int], clicks: Clicks) -> float:
    a, s, g = dbn(m, items)
    return chain_clicks(a, lambda k, c: g * (1 - c * s[k]), clicks)


def dbn_reward(m: Means, items: list[int]) -> float:
    a, s, g = dbn(m, items)
    return sum(a[k] * s[k] * g**k * math.prod(1 - a[:k] * s[:k]) for k in range(POSITIONS))


def dbn_number(m: Means, items: list[int]) -> float:
    a, s, g = dbn(m, items)
    return sum(a[k] * g**k * math.prod(1 - a[:k] * s[:k]) for k in range(POSITIONS))


def click_chain_clicks(m: Means, items: list[int], clicks: Clicks) -> float:
    r, (none, irrelevant, relevant) = m["attraction"][items], m["continuation"]
    return chain_clicks(r, lambda k, c: irrelevant * (1 - r[k]) + relevant * r[k] if c else none, clicks)


def click_chain_reward(m: Means, items: list[int]) -> float:
    r, (none, irrelevant, relevant) = m["attraction"][items], m["continuation"]
    on = r * (irrelevant * (1 - r) + relevant * r) + (1 - r) * none
    return sum(r[k] * math.prod(on[:k]) for k in range(POSITIONS))


def browsing_clicks(m: Means, items: list[int], clicks: Clicks) -> float:
    rows = iter(m["examination"])
    gamma = {(k, last): next(rows) for k in range(1, POSITIONS + 1) for last in range(k)}
    p, last = 1.0, 0
    for k, c in enumerate(clicks, 1):
        p *= bernoulli(gamma[k, last] * m["attraction"][items[k - 1]], c)
        last = k if c else last
    return p


def browsing_reward(m: Means, items: list[int]) -> float:
    rows = iter(m["examination"])
    last = {0: 1.0}  # how likely the last click was at a position
    total = 0.0
    for k in range(1, POSITIONS + 1):
        clicked = {j: p * next(rows) * m["attraction"][items[k - 1]] for j, p in last.items()}
        last = {j: p - clicked[j] for j, p in last.items()} | {k: sum(clicked.values())}
        total += last[k]
    return total


def by_clicks(clicks: Callable[[Means, list[int], Clicks], float]) -> Callable[[Means, list[int]], float]:
    vectors = list(itertools.product((0, 1), repeat=POSITIONS))
    return lambda m, items: sum(sum(v) * clicks(m, items, v) for v in vectors)


@dataclass(frozen=True)
class Case:
    build: Callable[..., Diagram]
    clicks: Callable[[Means, list[int], Clicks], float]
    reward: Callable[[Means, list[int]], float]
    tables: dict[str, tuple[int, ...]]  # of learned means: name and shape
    nodes: str  # the letters of the nodes that a position has
    options: tuple[tuple[str, Any], ...] = ()

    def diagram(self, **more: Any) -> Diagram:
        return self.build(ITEMS, POSITIONS, **dict(self.options), **more)


ITEM, PLACE = (ITEMS,), (POSITIONS,)
CASES = {
    "cascade": Case(models.cascade, cascade_clicks, cascade_reward, {"attraction": ITEM}, "AWEC"),
    "cascade, inverted": Case(models.cascade_inverted, inverted_clicks, inverted_reward, {"attraction": ITEM}, "AWEC"),
    "cascade, all learned": Case(
        models.cascade, learned_clicks, by_clicks(learned_clicks),
        {"attraction": ITEM, "click": (2, 2), "examination": (2, 2)}, "AWEC", (("learn_conditionals", True),),
    ),
    "position-based": Case(
        models.position_based, position_clicks, position_reward, {"attraction": ITEM, "examination": PLACE}, "AWEC"
    ),
    "semi-bandit": Case(
        models.semi_bandit, lambda m, i, x: independent(m["mean"][i], x), lambda m, i: m["mean"][i].sum(),
        {"mean": ITEM}, "AX",
    ),
    "dependent click": Case(
        models.dependent_click, dependent_clicks, dependent_reward, {"attraction": ITEM, "satisfaction": PLACE}, "AWECRS"
    ),
    "dependent click, clicks": Case(
        models.dependent_click, dependent_clicks, dependent_number, {"attraction": ITEM, "satisfaction": PLACE}, "AWECRS",
        (("reward", "clicks"),),
    ),
    "dbn": Case(
        models.dynamic_bayesian, dbn_clicks, dbn_reward,
        {"attraction": ITEM, "satisfaction": ITEM, "continuation": ()}, "AWECRS",
    ),
    "dbn, clicks": Case(
        models.dynamic_bayesian, dbn_clicks, dbn_number,
        {"attraction": ITEM, "satisfaction": ITEM, "continuation": ()}, "AWECRS", (("reward", "clicks"),),
    ),
    "dbn, simplified": Case(
        models.dynamic_bayesian, dbn_clicks, dbn_reward, {"attraction": ITEM, "satisfaction": ITEM}, "AWECRS",
        (("simplified", True),),
    ),
    "dbn, simplified, clicks": Case(
        models.dynamic_bayesian, dbn_clicks, dbn_number, {"attraction": ITEM, "satisfaction": ITEM}, "AWECRS",
        (("simplified", True), ("reward", "clicks")),
    ),
    "click chain": Case(
        models.click_chain, click_chain_clicks, click_chain_reward, {"attraction": ITEM, "continuation": (3,)}, "AWEC"
    ),
    "user browsing": Case(
        models.user_browsing, browsing_clicks, browsing_reward, {"attraction": ITEM, "examination": (6,)}, "AWEC"
    ),
}  # fmt: skip

every_model = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def draw(rng: np.random.Generator, tables: dict[str, tuple[int, ...]], kind: str = "plain") -> Means:
    means = {name: rng.random(shape) for name, shape in tables.items()}
    if kind == "plain":
        return means
    if kind == "ties":
        return {name: np.round(3 * m) / 4 + 0.125 for name, m in means.items()}
    return {name: np.where(rng.random(m.shape) < 0.5, np.round(m), m) for name, m in means.items()}  # some 0, some 1


def action_of(items: list[int] | tuple[int, ...]) -> dict[str, Any]:
    return {f"A{k}": item for k, item in enumerate(items, 1)}


@every_model
def test_expected_reward(case: Case) -> None:
    rng = np.random.default_rng(1)
    d = case.diagram(distinct=False)
    for kind in ("plain", "plain", "sharp"):
        means = draw(rng, case.tables, kind)
        for items in (rng.integers(ITEMS, size=POSITIONS).tolist() for _ in range(20)):
            expected = case.reward(means, items)
            assert idb.expected_reward(d, action_of(items), means) == pytest.approx(expected, abs=1e-12)


@every_model
def test_probabilities_of_all_click_vectors(case: Case) -> None:
    rng = np.random.default_rng(2)
    d = case.diagram(distinct=False)
    seen = case.nodes[-1] if case.nodes == "AX" else "C"
    means = draw(rng, case.tables)
    for items in ([0, 1, 2], [3, 3, 4], [2, 1, 2]):
        total = 0.0
        for clicks in itertools.product((0, 1), repeat=POSITIONS):
            expected = case.clicks(means, items, clicks)
            observation = {f"{seen}{k}": c for k, c in enumerate(clicks, 1)}
            try:
                p = math.exp(idb.log_likelihood(d, action_of(items), observation, means))
            except ImpossibleObservationError:
                p = 0.0
                assert expected == 0
            assert p == pytest.approx(expected, abs=1e-12)
            assert (p > 0) == (expected > 0)
            total += p
        assert total == pytest.approx(1)


@every_model
@pytest.mark.parametrize("distinct", [True, False])
def test_best_action_is_the_best_of_all(case: Case, distinct: bool) -> None:
    rng = np.random.default_rng(3)
    d = case.diagram(distinct=distinct)
    lists = [i for i in itertools.product(range(ITEMS), repeat=POSITIONS) if not distinct or len(set(i)) == POSITIONS]
    for kind in 4 * ["plain", "ties", "sharp"]:
        means = draw(rng, case.tables, kind)
        solution = idb.best_action(d, means)
        best = max(case.reward(means, list(items)) for items in lists)
        chosen = tuple(solution.action.values())
        assert list(solution.action) == [f"A{k}" for k in range(1, POSITIONS + 1)]
        assert chosen in lists
        assert case.reward(means, list(chosen)) == pytest.approx(best, abs=1e-12)
        assert solution.value == pytest.approx(best, abs=1e-12)
        assert solution.bound == pytest.approx(best, abs=1e-11)
        assert solution.exact


@every_model
def test_names_and_shapes(case: Case) -> None:
    d = case.diagram()
    assert {name: t.means_shape for name, t in d.learned.items()} == case.tables
    assert all((t.prior == 1).all() for t in d.learned.values())
    for letter in case.nodes:
        names = [n for n in d.nodes if n[0] == letter]
        assert names == [f"{letter}{k}" for k in range(1, POSITIONS + 1)]
    observed = [n.name for n in d.of_kind("observed")]
    assert observed == [f"{case.nodes[-1] if case.nodes == 'AX' else 'C'}{k}" for k in range(1, POSITIONS + 1)]
    assert list(d.different) == [("A1", "A2", "A3")]
    assert not case.diagram(distinct=False).different


@every_model
def test_labels_of_items(case: Case) -> None:
    titles = ["ant", "bee", "cow", "dog", "eel"]
    named, plain = case.build(iter(titles), POSITIONS, **dict(case.options)), case.diagram()
    means = draw(np.random.default_rng(4), case.tables)
    solution, same = idb.best_action(named, means), idb.best_action(plain, means)
    assert solution.action == {name: titles[i] for name, i in same.action.items()}
    assert (solution.value, solution.exact) == (same.value, same.exact)
    assert idb.expected_reward(named, solution.action, means) == idb.expected_reward(plain, same.action, means)


@every_model
def test_one_item_and_one_position(case: Case) -> None:
    d = case.build(1, 1, **dict(case.options))
    means = {name: np.full(t.means_shape, 0.25) for name, t in d.learned.items()}
    solution = idb.best_action(d, means)
    assert solution.action == {"A1": 0}
    assert solution.exact
    seen = d.of_kind("observed")[0].name
    p = math.exp(idb.log_likelihood(d, {"A1": 0}, {seen: 1}, means))
    if not dict(case.options).get("reward") and "satisfaction" in d.learned:
        p *= 0.25  # clicked, and satisfied
    assert solution.value == pytest.approx(p, abs=1e-15)


@pytest.mark.parametrize("kind", ["plain", "ties", "sharp"])
def test_rank1(kind: str) -> None:
    d = models.rank1(rows=4, columns=["red", "green", "blue"])
    assert list(d.nodes) == ["A1", "Z1", "A2", "Z2", "X"]
    tables = {"row": (4,), "column": (3,)}
    assert {name: t.means_shape for name, t in d.learned.items()} == tables
    means = draw(np.random.default_rng(5), tables, kind)
    for i, (j, colour) in itertools.product(range(4), enumerate(["red", "green", "blue"])):
        action, p = {"A1": i, "A2": colour}, means["row"][i] * means["column"][j]
        assert idb.expected_reward(d, action, means) == pytest.approx(p, abs=1e-15)
        assert math.exp(idb.log_likelihood(d, action, {"X": 1}, means)) == pytest.approx(p, abs=1e-15)
        assert math.exp(idb.log_likelihood(d, action, {"X": 0}, means)) == pytest.approx(1 - p, abs=1e-15)
    solution = idb.best_action(d, means)
    assert solution.value == pytest.approx(means["row"].max() * means["column"].max(), abs=1e-15)
    assert idb.expected_reward(d, solution.action, means) == pytest.approx(solution.value, abs=1e-15)
    assert solution.exact


def test_known_conditionals_of_the_learned_cascade_give_the_cascade() -> None:
    learned, known = models.cascade(ITEMS, POSITIONS, learn_conditionals=True), models.cascade(ITEMS, POSITIONS)
    inverted = models.cascade_inverted(ITEMS, POSITIONS)
    attraction = np.random.default_rng(6).random(ITEMS)
    tables = {"click": [[0, 0], [0, 1]], "examination": [[0, 1], [0, 0]]}
    backwards = {"click": [[0, 1], [0, 0]], "examination": [[0, 0], [0, 1]]}
    for items in itertools.permutations(range(ITEMS), POSITIONS):
        a, action = {"attraction": attraction}, action_of(items)
        assert idb.expected_reward(learned, action, a | tables) == pytest.approx(idb.expected_reward(known, action, a))
        answer = idb.expected_reward(learned, action, a | backwards)
        assert answer == pytest.approx(idb.expected_reward(inverted, action, a))


def test_the_search_does_not_grow_with_the_items() -> None:
    """A million items: the answer is known, and it is proven."""
    attraction = np.random.default_rng(7).random(10**6)
    best = np.argsort(-attraction)[:3]
    for build, table in ((models.cascade, "attraction"), (models.semi_bandit, "mean")):
        solution = idb.best_action(build(10**6, 3), {table: attraction})
        assert set(solution.action.values()) == set(best.tolist())
        assert solution.exact


# -- odd but legal ---------------------------------------------------------------------------------------------------

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
    return models.dependent_click(4, 3), {"attraction": attraction, "satisfaction": rng.permutation([0, 1, 1])}


def additive(rng: np.random.Generator) -> Drawn:
    """A sum that rounding makes not quite one: 0.1 + 0.2 is not 0.3."""
    d, table = Diagram(), Learned("t")
    d.reward([d.observed(f"X{k}", [d.decision(k, 8)], table) for k in "AB"], lambda x, y: 0.1 * x + 0.2 * y)
    d.all_different()
    return d, {"t": rng.random(8)}


def bilinear(rng: np.random.Generator) -> Drawn:
    """A constant plus a product of two factors, but the constant is no fraction of small numbers."""
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


@pytest.mark.parametrize(
    "draw_one",
    [
        costs, known, alike, signs, zeros, twice, lists, large,
        additive,
        bilinear,
    ],
)  # fmt: skip
def test_best_action_of_odd_diagrams(draw_one: Callable[[np.random.Generator], Drawn]) -> None:
    rng = np.random.default_rng(8)
    for _ in range(60):
        d, means = draw_one(rng)
        context = {n.name: int(rng.integers(n.states)) for n in d.of_kind("context")}
        solution = idb.best_action(d, means, context)
        chosen = {name: d.nodes[name].index(v) for name, v in solution.action.items()}
        assert reference.feasible(d, chosen)
        actions = ({name: d.nodes[name].values[i] for name, i in a.items()} for a in reference.actions(d))
        best = max(idb.expected_reward(d, action, means, context) for action in actions)
        assert solution.value == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert idb.expected_reward(d, solution.action, means, context) == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert solution.exact


def test_a_proof_holds_for_tiny_rewards() -> None:
    """What is called exact is no worse than what is found where the same rewards are large."""
    d = models.cascade(7, 5, learn_conditionals=True)
    data = d.to_dict()
    tiny = Diagram.from_dict({**data, "rewards": [{**term, "table": [0.0, 1e-14]} for term in data["rewards"]]})
    for seed in range(10):
        means = draw(np.random.default_rng(seed), {name: t.means_shape for name, t in d.learned.items()})
        found = idb.best_action(tiny, means)
        if found.exact:
            assert found.value * 1e14 >= idb.best_action(d, means).value * (1 - 1e-9)
