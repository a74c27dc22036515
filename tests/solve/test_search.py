"""Every way of searching for the best action, each on its own, against trying all actions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import idbandits as idb
import reference
from diagrams import random_diagram, random_given, random_means
from internals import best_assignment, forms_of
from list_models import LISTS, check_all_searches, hard_means, impatient


def best_by_trying(d: idb.Diagram, means: dict[str, np.ndarray]) -> float:
    """The best value of all actions, by the library's own expected reward (which other tests check)."""
    decisions = d.of_kind("decision")
    return max(
        idb.expected_reward(d, {n.name: c for n, c in zip(decisions, choice, strict=True)}, means)
        for choice in itertools.product(*(range(n.states) for n in decisions))
        if reference.feasible(d, {n.name: c for n, c in zip(decisions, choice, strict=True)})
    )


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("distinct", [True, False])
def test_lists(name: str, distinct: bool) -> None:
    rng = np.random.default_rng(sum(map(ord, name)))
    for items, positions in [(5, 3), (4, 4), (7, 2), (1, 1), (6, 1), (5, 5)][: 6 if distinct else 5]:
        d = LISTS[name](items, positions, distinct=distinct)
        for _ in range(3):
            means = random_means(rng, d)
            solution = idb.best_action(d, means)
            assert solution.exact
            assert solution.value == pytest.approx(best_by_trying(d, means), abs=1e-9)
            check_all_searches(d, means, {})


def test_random_diagrams() -> None:
    tried = set()
    for seed in range(150):
        rng = np.random.default_rng(seed)
        d = random_diagram(rng)
        means = random_means(rng, d)
        _, context = random_given(rng, d)
        tried |= check_all_searches(d, means, context)
    assert tried >= {"branch", "assign", "try patterns", "sweep"}


def test_stages_that_differ_are_searched_in_every_way() -> None:
    rng, d = np.random.default_rng(2), impatient(5, 4)
    for _ in range(5):
        means = random_means(rng, d)
        assert check_all_searches(d, means, {}) >= {"branch", "sweep"}
        assert idb.best_action(d, means).value == pytest.approx(best_by_trying(d, means), abs=1e-12)


FORMS = {
    "cascade": "product",
    "cascade_inverted": "sorted",
    "position_based": "sum",
    "semi_bandit": "sum",
    "dependent_click": "product",
    "dependent_click, clicks": "sorted",
    "dynamic_bayesian, simplified": "product",
    "dynamic_bayesian": "general",
}


@pytest.mark.parametrize("name", FORMS)
def test_what_a_reward_is_composed_of_is_found(name: str) -> None:
    assert forms_of(LISTS[name](6, 4)) == [FORMS[name]]


def test_lists_of_every_form_are_searched_in_the_way_made_for_it() -> None:
    rng = np.random.default_rng(0)
    wanted = {"cascade": "assign", "position_based": "assign", "cascade_inverted": "sort"}
    wanted |= {"dynamic_bayesian": "choose and sort", "click_chain": "choose and sort"}
    for name, search in wanted.items():
        d = LISTS[name](5, 3)
        assert search in check_all_searches(d, random_means(rng, d), {})


@pytest.mark.parametrize("name", ["cascade", "cascade_inverted", "position_based", "semi_bandit", "dependent_click"])
@pytest.mark.parametrize("distinct", [True, False])
def test_long_lists_of_many_items_are_proven(name: str, distinct: bool) -> None:
    """Local search from the answer finds nothing better, and the library says that nothing is."""
    rng = np.random.default_rng(5)
    d = LISTS[name](300, 15, distinct=distinct)
    for spread in (1.0, 0.1):
        means = {key: spread * value for key, value in random_means(rng, d).items()}
        solution = idb.best_action(d, means)
        assert solution.exact
        chosen = dict(solution.action)
        for _ in range(200):
            j, k = rng.choice(15, size=2, replace=False)
            other = dict(chosen)
            if distinct:
                other[f"A{j + 1}"], other[f"A{k + 1}"] = chosen[f"A{k + 1}"], chosen[f"A{j + 1}"]
            unused = [i for i in range(300) if not distinct or i not in chosen.values()]
            if rng.random() < 0.5:
                other = {**chosen, f"A{j + 1}": int(rng.choice(unused))}
            assert idb.expected_reward(d, other, means) <= solution.value + 1e-12


def test_an_upper_bound_is_given_where_there_is_no_proof() -> None:
    d = impatient(20, 10)
    means = hard_means(d, 0)
    solution = idb.best_action(d, means)
    assert not solution.exact
    assert solution.bound > solution.value
    assert idb.best_action(d, means, effort=5).bound <= solution.bound
    free = idb.best_action(impatient(20, 10, distinct=False), means)
    assert free.exact
    assert solution.value <= free.value + 1e-12


@pytest.mark.parametrize("extreme", [0.0, 1.0, 1e-300, 1 - 1e-16])
def test_extreme_means_and_ties(extreme: float) -> None:
    for name, make in LISTS.items():
        d = make(6, 3)
        means = {t.name: np.full(t.means_shape, extreme) for t in d.learned.values()}
        assert idb.best_action(d, means).value == pytest.approx(best_by_trying(d, means), abs=1e-12), name


def test_the_best_assignment_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        positions = int(rng.integers(1, 6))
        shape = positions, int(rng.integers(positions, 9))
        scores = rng.integers(0, 5, shape) / 4 if rng.random() < 0.5 else rng.normal(size=shape)  # with ties or without
        chosen = best_assignment(scores)
        assert len(set(chosen)) == positions
        assert scores[np.arange(positions), chosen].sum() == pytest.approx(scores[linear_sum_assignment(-scores)].sum())


@pytest.mark.parametrize("top", [0.9, 0.95, 0.97, 0.975, 0.98, 0.985, 0.99, 0.999, 1.0])
def test_products_next_to_zero_are_no_base_to_compare_factors_by(top: float) -> None:
    """With the best item everywhere, rounding is all that is left of a cascade's product."""
    for seed in range(20):
        attraction = top * np.random.default_rng(seed).uniform(0.5, 1.0, 20)
        attraction[3] = top
        solution = idb.best_action(idb.models.cascade(20, 10), {"attraction": attraction})
        assert solution.exact
        assert solution.value == pytest.approx(1 - np.prod(1 - np.sort(attraction)[-10:]), abs=1e-12)
