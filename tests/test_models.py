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
from idbandits import Diagram, models
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
    """A hidden Markov model whose state is examination."""
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
    """A user who reaches position k clicks with probability a[k], then goes on with probability stay(k, click)."""

    def from_position(k: int) -> float:
        if k == POSITIONS:
            return 1.0
        goes_on, no_more_clicks = stay(k, clicks[k]), not any(clicks[k + 1 :])
        return bernoulli(a[k], clicks[k]) * (goes_on * from_position(k + 1) + (1 - goes_on) * no_more_clicks)

    return from_position(0)


def dependent_clicks(m: Means, items: list[int], clicks: Clicks) -> float:
    return chain_clicks(m["attraction"][items], lambda k, c: 1 - c * m["satisfaction"][k], clicks)


def dependent_reward(m: Means, items: list[int]) -> float:
    return 1 - math.prod(1 - m["attraction"][items] * m["satisfaction"])


def dependent_click_count(m: Means, items: list[int]) -> float:
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


def dbn_click_count(m: Means, items: list[int]) -> float:
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
    last = {0: 1.0}  # the probability of each position of the last click
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
    tables: dict[str, tuple[int, ...]]  # the shapes of the learned means
    nodes: str  # the letters of the nodes that each position has
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def seen(self) -> str:
        """The letter of the observed nodes."""
        return "X" if "X" in self.nodes else "C"

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
        models.dependent_click, dependent_clicks, dependent_click_count, {"attraction": ITEM, "satisfaction": PLACE}, "AWECRS"
    ),
    "dependent click, satisfaction": Case(
        models.dependent_click, dependent_clicks, dependent_reward, {"attraction": ITEM, "satisfaction": PLACE}, "AWECRS",
        (("reward", "satisfaction"),),
    ),
    "dbn": Case(
        models.dynamic_bayesian, dbn_clicks, dbn_reward,
        {"attraction": ITEM, "satisfaction": ITEM, "continuation": ()}, "AWECRS",
    ),
    "dbn, clicks": Case(
        models.dynamic_bayesian, dbn_clicks, dbn_click_count,
        {"attraction": ITEM, "satisfaction": ITEM, "continuation": ()}, "AWECRS", (("reward", "clicks"),),
    ),
    "dbn, simplified": Case(
        models.dynamic_bayesian, dbn_clicks, dbn_reward, {"attraction": ITEM, "satisfaction": ITEM}, "AWECRS",
        (("simplified", True),),
    ),
    "dbn, simplified, clicks": Case(
        models.dynamic_bayesian, dbn_clicks, dbn_click_count, {"attraction": ITEM, "satisfaction": ITEM}, "AWECRS",
        (("simplified", True), ("reward", "clicks")),
    ),
    "click chain": Case(
        models.click_chain, click_chain_clicks, click_chain_reward, {"attraction": ITEM, "continuation": (3,)}, "AWEC"
    ),
    "user browsing": Case(
        models.user_browsing, browsing_clicks, browsing_reward, {"attraction": ITEM, "examination": (6,)}, "AWEC"
    ),
    "saturated": Case(
        models.saturated, lambda m, i, x: independent(m["attraction"][i, range(POSITIONS)], x),
        lambda m, i: m["attraction"][i, range(POSITIONS)].sum(), {"attraction": (ITEMS, POSITIONS)}, "APC"
    ),
}  # fmt: skip

every_model = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def draw(rng: np.random.Generator, tables: dict[str, tuple[int, ...]], kind: str = "plain") -> Means:
    means = {name: rng.random(shape) for name, shape in tables.items()}
    if kind == "plain":
        return means
    if kind == "ties":
        return {name: np.round(3 * m) / 4 + 0.125 for name, m in means.items()}
    assert kind == "sharp"  # some are exactly 0 or 1
    return {name: np.where(rng.random(m.shape) < 0.5, np.round(m), m) for name, m in means.items()}


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
    means = draw(rng, case.tables)
    for items in ([0, 1, 2], [3, 3, 4], [2, 1, 2]):
        total = 0.0
        for clicks in itertools.product((0, 1), repeat=POSITIONS):
            expected = case.clicks(means, items, clicks)
            observation = {f"{case.seen}{k}": c for k, c in enumerate(clicks, 1)}
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
    assert observed == [f"{case.seen}{k}" for k in range(1, POSITIONS + 1)]
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
    p = math.exp(idb.log_likelihood(d, {"A1": 0}, {f"{case.seen}1": 1}, means))
    if d.rewards[0].parents == ("S1",):
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
