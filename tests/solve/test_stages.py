"""Lists of click models, whose decisions fall into stages: against the formulas of the models and all 30,240 lists."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pytest

import idbandits as idb
from idbandits import models
from internals import frontiers_of
from list_models import hard_means, impatient

Means = Mapping[str, np.ndarray]
ITEMS, POSITIONS = 10, 5
LISTS = np.array(list(itertools.permutations(range(ITEMS), POSITIONS))).T  # one row per position


def network(means: Means, *, clicks: bool) -> np.ndarray:
    """The values of all lists in the dynamic Bayesian network model."""
    a, s, go_on = means["attraction"], means["satisfaction"], float(np.ravel(means["continuation"])[0])
    value = np.zeros(LISTS.shape[1])
    for item in LISTS[::-1]:
        satisfied = a[item] * s[item]
        value = (a[item] if clicks else satisfied) + (1 - satisfied) * go_on * value
    return value


def chain(means: Means) -> np.ndarray:
    """Click chain model with these means."""
    (after_none, after_irrelevant, after_relevant), value = means["continuation"], np.zeros(LISTS.shape[1])
    for item in LISTS[::-1]:
        a = means["attraction"][item]
        value = a + ((1 - a) * after_none + a * ((1 - a) * after_irrelevant + a * after_relevant)) * value
    return value


def browsing(means: Means) -> np.ndarray:
    """User browsing model with these means."""
    last, value = (
        [np.ones(LISTS.shape[1])],
        np.zeros(LISTS.shape[1]),
    )  # of a position: the chance of the last click there
    for k, item in enumerate(LISTS):
        clicks = [chance * means["examination"][k * (k + 1) // 2 + j] * means["attraction"][item]
                  for j, chance in enumerate(last)]  # fmt: skip
        last = [*(chance - click for chance, click in zip(last, clicks, strict=True)), sum(clicks)]
        value = value + last[-1]
    return value


CLICK_MODELS: dict[str, tuple[Callable[[], idb.Diagram], Callable[[Means], np.ndarray]]] = {
    "network": (lambda: models.dynamic_bayesian(ITEMS, POSITIONS), lambda means: network(means, clicks=False)),
    "network, clicks": (
        lambda: models.dynamic_bayesian(ITEMS, POSITIONS, reward="clicks"),
        lambda means: network(means, clicks=True),
    ),
    "chain": (lambda: models.click_chain(ITEMS, POSITIONS), chain),
    "browsing": (lambda: models.user_browsing(ITEMS, POSITIONS), browsing),
}


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.random(shape)


def peaked(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A few high ones, most near 0, as in logs; in others high ones, as of users who go on."""
    return rng.beta(0.3, 3, shape) if shape == (ITEMS,) else rng.beta(4, 1, shape)


def tied(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros, ones, and ties that are broken by less than rounding shows."""
    return np.clip(np.round(peaked(rng, shape), 1) + rng.choice([0, 0, 1e-15, 1e-9], shape), 0, 1)


@pytest.mark.parametrize("draw", [uniform, peaked, tied])
@pytest.mark.parametrize("name", CLICK_MODELS)
def test_click_models_with_ten_items(name: str, draw: Callable[..., np.ndarray]) -> None:
    make, values = CLICK_MODELS[name]
    d, rng = make(), np.random.default_rng(sum(map(ord, name)))
    for _ in range(12):
        means = {t.name: draw(rng, t.means_shape) for t in d.learned.values()}
        best = values(means).max()
        solution = idb.best_action(d, means)
        assert solution.exact
        assert solution.value == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert idb.expected_reward(d, solution.action, means) == pytest.approx(best, rel=1e-9, abs=1e-12)
        hurried = idb.best_action(d, means, effort=0.001)
        assert hurried.value <= best + 1e-9 <= hurried.bound + 2e-9
        assert len(set(hurried.action.values())) == POSITIONS


def test_a_chain_with_equal_items_is_proven() -> None:
    d = models.click_chain(10, 5)
    means = {"attraction": [0.32, 0.19, 0.05, 0.13, 0.32, 0.08, 0.06, 0.09, 0.03, 0.02], "continuation": [1, 0.94, 0]}
    solution = idb.best_action(d, means)
    assert solution.exact
    assert solution.value == pytest.approx(chain({k: np.array(v) for k, v in means.items()}).max(), rel=1e-12)


def test_all_that_later_stages_see_is_one_number_per_state_of_the_user() -> None:
    assert frontiers_of(models.dynamic_bayesian(10, 5)) == [[1, 1, 1, 1, 1]]
    assert frontiers_of(models.click_chain(10, 5)) == [[1, 1, 1, 1, 1]]
    assert frontiers_of(models.user_browsing(10, 5)) == [[1, 4, 3, 2, 1]]


def test_decisions_that_meet_have_no_stages() -> None:
    d = idb.Diagram("meeting")
    d.reward(d.observed("X", [d.decision("A", 3), d.decision("B", 3)]))
    d.all_different()
    assert frontiers_of(d) == [None]
    means = {"X": np.random.default_rng(0).random((3, 3))}
    allowed = means["X"][~np.eye(3, dtype=bool)]
    assert idb.best_action(d, means).value == allowed.max()


def groups_of_lists(first: int, second: int) -> idb.Diagram:
    """Two lists in one reward: no item twice in each, but one may be in both."""
    d = idb.Diagram("two lists")
    attraction, patience = idb.Learned("attraction"), idb.Learned("patience")
    goes_on = d.latent("G0", cpd=1.0)
    names = [[f"A{k}" for k in range(first)], [f"B{k}" for k in range(second)]]
    for name in [*names[0], *names[1]]:
        item = d.decision(name, 5)
        clicked = d.observed(f"C {name}", [d.latent(f"W {name}", [item], attraction), goes_on], lambda w, g: w * g)
        d.reward(clicked)
        stays = d.latent(f"P {name}", [item, clicked], patience)
        goes_on = d.latent(f"G {name}", [goes_on, stays], lambda g, s: g * s)
    for group in names:
        d.all_different(*group)
    return d


def test_items_that_only_some_decisions_may_not_share() -> None:
    d = groups_of_lists(3, 2)
    assert frontiers_of(d) == [[1, 1, 1, 1, 1]]
    rng, decisions = np.random.default_rng(1), [n.name for n in d.of_kind("decision")]
    for _ in range(3):
        means = {t.name: rng.random(t.means_shape) for t in d.learned.values()}
        best = max(
            idb.expected_reward(d, dict(zip(decisions, (*a, *b), strict=True)), means)
            for a in itertools.permutations(range(5), 3)
            for b in itertools.permutations(range(5), 2)
        )
        solution = idb.best_action(d, means)
        assert solution.exact
        assert solution.value == pytest.approx(best, rel=1e-9)


def test_more_effort_finds_more() -> None:
    d = impatient(20, 10)
    means = hard_means(d, 0)
    solutions = [idb.best_action(d, means, effort=effort) for effort in (0, 1, 300)]
    assert [s.exact for s in solutions] == [False, False, True]
    assert solutions[0].bound >= solutions[1].bound >= solutions[2].value >= solutions[1].value >= solutions[0].value


# -- stages that are alike -----------------------------------------------------------------------------------------

ALIKE: dict[str, Callable[..., idb.Diagram]] = {
    "network": models.dynamic_bayesian,
    "network, clicks": lambda *sizes, **rest: models.dynamic_bayesian(*sizes, reward="clicks", **rest),
    "simplified, clicks": lambda *sizes, **rest: models.dynamic_bayesian(
        *sizes, reward="clicks", simplified=True, **rest
    ),
    "chain": models.click_chain,
}


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize(("items", "positions"), [(20, 10), (300, 10), (10, 10)])
def test_alike_stages_are_always_proven(name: str, items: int, positions: int) -> None:
    """An independent bound: no exchange of two positions, or with an item that is not shown, gains anything."""
    d, rng = ALIKE[name](items, positions), np.random.default_rng(items)
    for draw in (uniform, peaked):
        means = {t.name: draw(rng, t.means_shape) for t in d.learned.values()}
        solution = idb.best_action(d, means)
        assert solution.exact
        shown = list(solution.action.values())
        assert len(set(shown)) == positions
        assert idb.expected_reward(d, solution.action, means) == pytest.approx(solution.value, rel=1e-12)
        for _ in range(100):
            other = [*shown, *(i for i in range(items) if i not in shown)]
            j, k = rng.choice(positions), rng.choice(items)
            other[j], other[k] = other[k], other[j]
            action = dict(zip(solution.action, other, strict=False))
            assert idb.expected_reward(d, action, means) <= solution.value + 1e-12


@pytest.mark.parametrize("name", ALIKE)
def test_alike_stages_with_lists_of_eligible_items(name: str) -> None:
    d, rng = ALIKE[name](7, 3), np.random.default_rng(1)
    for trial in range(10):
        means = {t.name: rng.random(t.means_shape) for t in d.learned.values()}
        common = sorted(rng.choice(7, 4, replace=False).tolist())
        allowed = common if trial % 2 else {"A1": common, "A2": [0, 1, 2], "A3": [2, 3, 4, 5]}
        lists = [allowed[f"A{k}"] if isinstance(allowed, dict) else allowed for k in (1, 2, 3)]
        best = max(
            idb.expected_reward(d, dict(zip(("A1", "A2", "A3"), choice, strict=True)), means)
            for choice in itertools.product(*lists)
            if len(set(choice)) == 3
        )
        solution = idb.best_action(d, means, allowed=allowed)
        assert solution.exact
        assert solution.value == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("name", ALIKE)
def test_alike_stages_with_empty_slots(name: str) -> None:
    """If satisfied users leave, an empty slot may be better than an item, and more than one slot may be empty."""
    d, rng = ALIKE[name](3, 3, empty=True), np.random.default_rng(4)
    values = d.of_kind("decision")[0].values
    for _ in range(10):
        means = {t.name: t.prior[..., 1] / t.prior.sum(axis=-1) for t in d.learned.values()}
        means = {key: rng.random(np.shape(mean)) for key, mean in means.items()}
        for key, table in d.learned.items():
            for row, fixed in table.fixed.items():
                means[key].reshape(-1)[row] = np.ravel(fixed)[-1]
        best = max(
            idb.expected_reward(d, dict(zip(("A1", "A2", "A3"), choice, strict=True)), means)
            for choice in itertools.product(values, repeat=3)
            if len(shown := [c for c in choice if c != values[-1]]) == len(set(shown))
        )
        solution = idb.best_action(d, means)
        assert solution.exact
        assert solution.value == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_alike_stages_at_the_edges(level: float) -> None:
    """Slopes of 1 have no fixed point; maps that change nothing may be anywhere."""
    for name in ALIKE:
        d, rng = ALIKE[name](5, 3), np.random.default_rng(3)
        for _ in range(10):
            means = {
                t.name: np.where(rng.random(t.means_shape) < 0.5, level, rng.random(t.means_shape))
                for t in d.learned.values()
            }
            best = max(
                idb.expected_reward(d, dict(zip(("A1", "A2", "A3"), choice, strict=True)), means)
                for choice in itertools.permutations(range(5), 3)
            )
            assert idb.best_action(d, means).value == pytest.approx(best, rel=1e-12, abs=1e-15)


def test_negative_rewards_do_not_mislead() -> None:
    """Clicks that cost something: shown late, or not at all, where a slot may be empty."""
    d = idb.Diagram("costs")
    attraction, profit = idb.Learned("attraction"), [-1.0, 2.0, 0.5, -0.3, 1.0, 0.1]
    goes_on = d.latent("G0", cpd=1.0)
    for k in range(3):
        item = d.decision(f"A{k}", 6)
        clicked = d.observed(f"C{k}", [d.latent(f"W{k}", [item], attraction), goes_on], lambda w, g: w * g)
        d.reward([clicked, item], lambda c, i: c * profit[i])
        goes_on = d.latent(f"G{k + 1}", [clicked, goes_on], lambda c, g: (1 - c) * g * 0.9)
    d.all_different()
    rng = np.random.default_rng(0)
    for _ in range(10):
        means = {"attraction": rng.random(6)}
        best = max(
            idb.expected_reward(d, dict(zip(("A0", "A1", "A2"), choice, strict=True)), means)
            for choice in itertools.permutations(range(6), 3)
        )
        solution = idb.best_action(d, means)
        assert solution.exact
        assert solution.value == pytest.approx(best, rel=1e-12)
