"""Every way of searching for the best action, each on its own, against trying all actions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import random_diagram, random_given, random_means
from idbandits.solve import assignment
from idbandits.solve import branch as search
from idbandits.solve import order as sorting
from idbandits.solve import structure as decisions
from idbandits.solve.branch import FREE, GENERAL, PRODUCT, SORTED, SUM
from parts import alone

assign, branch, candidates = alone(assignment.assign), alone(search.branch), alone(search.candidates)
sort, sort_by_patterns, try_patterns = map(alone, (sorting.sort, sorting.sort_by_patterns, sorting.try_patterns))
try_all, value_at = alone(search.try_all), alone(search.value_at)

LISTS: dict[str, Callable[..., idb.Diagram]] = {
    "cascade": idb.models.cascade,
    "cascade_inverted": idb.models.cascade_inverted,
    "cascade, learned": lambda *a, **k: idb.models.cascade(*a, learn_conditionals=True, **k),
    "position_based": idb.models.position_based,
    "semi_bandit": idb.models.semi_bandit,
    "dependent_click": idb.models.dependent_click,
    "dependent_click, clicks": lambda *a, **k: idb.models.dependent_click(*a, reward="clicks", **k),
    "dynamic_bayesian": idb.models.dynamic_bayesian,
    "dynamic_bayesian, simplified": lambda *a, **k: idb.models.dynamic_bayesian(*a, simplified=True, **k),
    "click_chain": idb.models.click_chain,
    "user_browsing": idb.models.user_browsing,
}


def best_by_trying(d: idb.Diagram, means: dict[str, np.ndarray]) -> float:
    """The best value of all actions, by the library's own expected reward (which other tests check)."""
    decisions = d.of_kind("decision")
    return max(
        idb.expected_reward(d, {n.name: c for n, c in zip(decisions, choice, strict=True)}, means)
        for choice in itertools.product(*(range(n.states) for n in decisions))
        if reference.feasible(d, {n.name: c for n, c in zip(decisions, choice, strict=True)})
    )


def groups(d: idb.Diagram, means: dict[str, np.ndarray], context: list[int]) -> list[tuple]:
    """What the searches are called with, for each group of decisions, and the form of the group."""
    model = idb.compile(d)
    s = decisions.decisions_of(model)
    c = model.rewards.circuit
    p = model.parameter_vector(means)
    ready = []
    for g in range(s.groups):
        members = s.data[s.group + s.data[s.group_start + g] : s.group + s.data[s.group_start + g + 1]]
        if len(members):
            action = np.array([*s.data[s.feasible : s.feasible + s.decisions], *context])
            start = np.zeros(s.decisions + 1, dtype=np.int64)
            cands = candidates(c, s, p, action, members, start)
            first, last = s.data[s.group_end + g], s.data[s.group_end + g + 1]
            ready.append((g, s.data[s.form + g], (c, s, first, last, p, action, members, start, cands)))
    return ready


def value_of(d: idb.Diagram, arguments: tuple) -> float:
    c, _, first, last, p, action, *_ = arguments
    return value_at(c, first, last, p, action, np.ones(c.leaves + c.inner))


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("distinct", [True, False])
def test_lists(name: str, distinct: bool) -> None:
    rng = np.random.default_rng(sum(map(ord, name)))
    for items, positions in [(5, 3), (4, 4), (7, 2), (1, 1), (6, 1), (5, 5)][: 6 if distinct else 5]:
        d = LISTS[name](items, positions, distinct=distinct)
        for _ in range(3):
            means = random_means(rng, d)
            best = best_by_trying(d, means)
            solution = idb.best_action(d, means)
            assert solution.exact
            assert solution.value == pytest.approx(best, abs=1e-9)
            for g, form, arguments in groups(d, means, []):
                wanted = try_all(*copied(arguments))
                check_all_searches(d, g, form, arguments, wanted)


def test_random_diagrams() -> None:
    for seed in range(150):
        rng = np.random.default_rng(seed)
        d = random_diagram(rng)
        means = random_means(rng, d)
        _, context = random_given(rng, d)
        for g, form, arguments in groups(d, means, list(context.values())):
            check_all_searches(d, g, form, arguments, try_all(*copied(arguments)))


def check_all_searches(d: idb.Diagram, g: int, form: int, arguments: tuple, wanted: float) -> None:
    for budget in (1e9, 0.0):
        given = copied(arguments)
        value, bound = branch(*given, budget)
        assert value == pytest.approx(value_of(d, given), abs=1e-9)
        assert value <= wanted + 1e-9 <= bound + 2e-9
        if budget:
            assert value == pytest.approx(wanted, abs=1e-9)
            assert bound == pytest.approx(wanted, abs=1e-9)
        assert reference_fits(given)
    if form in (SUM, PRODUCT):
        given = copied(arguments)
        c, s, first, last, p, action, members, start, cands = given
        if assign(c, s, g, first, last, p, action, members, start, cands):
            assert value_of(d, given) == pytest.approx(wanted, abs=1e-9)
            assert reference_fits(given)
    if form == SORTED:
        for method, budget in itertools.product((sort, sort_by_patterns), (1e9, 0.0)):
            given = copied(arguments)
            value, bound = method(*given, budget)
            assert value == pytest.approx(value_of(d, given), abs=1e-9)
            assert value <= wanted + 1e-9 <= bound + 2e-9
            assert reference_fits(given)
    if form == FREE:
        given = copied(arguments)
        assert try_patterns(*given[:7]) == pytest.approx(wanted, abs=1e-9)
        assert value_of(d, given) == pytest.approx(wanted, abs=1e-9)


def copied(arguments: tuple) -> tuple:
    return (*arguments[:5], arguments[5].copy(), *arguments[6:])


def reference_fits(arguments: tuple) -> bool:
    _, s, _, _, _, action, members, *_ = arguments
    return all(not search.clash(s, j, action[j], k, action[k]) for j, k in itertools.combinations(members, 2))


FORMS = {
    "cascade": PRODUCT,
    "cascade_inverted": SORTED,
    "position_based": SUM,
    "semi_bandit": SUM,
    "dependent_click": PRODUCT,
    "dependent_click, clicks": SORTED,
    "dynamic_bayesian, simplified": PRODUCT,
    "dynamic_bayesian": GENERAL,
}


@pytest.mark.parametrize("name", FORMS)
def test_what_a_reward_is_composed_of_is_found(name: str) -> None:
    s = decisions.decisions_of(idb.compile(LISTS[name](6, 4)))
    assert s.data[s.form : s.form + s.groups].tolist() == [FORMS[name]]


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
    rng = np.random.default_rng(0)
    d = idb.models.dynamic_bayesian(200, 8)
    means = {t.name: rng.random(t.means_shape) for t in d.learned.values()}
    solution = idb.best_action(d, means)
    assert not solution.exact
    assert solution.bound > solution.value
    assert idb.best_action(d, means, effort=5).bound <= solution.bound
    free = idb.best_action(idb.models.dynamic_bayesian(200, 8, distinct=False), means)
    assert free.exact
    assert solution.value <= free.value + 1e-12


@pytest.mark.parametrize("extreme", [0.0, 1.0, 1e-300, 1 - 1e-16])
def test_extreme_means_and_ties(extreme: float) -> None:
    for name, make in LISTS.items():
        d = make(6, 3)
        means = {t.name: np.full(t.means_shape, extreme) for t in d.learned.values()}
        assert idb.best_action(d, means).value == pytest.approx(best_by_trying(d, means), abs=1e-12), name
