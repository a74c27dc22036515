"""Choices that may be made in a request, and choices that may repeat: always the best of them, against trying all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import labels, random_diagram, random_given, random_means
from error_checks import assert_raises
from idbandits.errors import ActionError, DiagramError, InfeasibleError
from idbandits.solve.eligible import EVERY_CHOICE
from idbandits.solve.solver import Solver
from list_models import LISTS, check_all_searches

NOTHING = "(nothing)"
Rng = np.random.Generator


def with_exceptions(d: idb.Diagram, rng: Rng) -> idb.Diagram:
    """Return the diagram with all decisions different, except for some labels, if there is such an action."""
    data = d.to_dict()
    every = list(dict.fromkeys(label for n in d.of_kind("decision") for label in n.values))
    excepted = [every[i] for i in rng.permutation(len(every))[: int(rng.integers(1, 3))]]
    data["all_different"] = [{"decisions": "all", "except": excepted}]
    try:
        other = idb.Diagram.from_dict(data)
        idb.compile(other).feasibility.some_action()
    except DiagramError:
        return d
    return other


def repeatable(d: idb.Diagram, name: str) -> set[Any]:
    """The labels of a decision that may repeat."""
    return {label for names, excepted in d.constraints if name in names for label in excepted}


def random_allowed(d: idb.Diagram, rng: Rng) -> Any:
    """Labels for all decisions, or by decision."""
    decisions = d.of_kind("decision")
    if rng.random() < 0.5:
        every = list(dict.fromkeys(label for n in decisions for label in n.values))
        return [every[i] for i in rng.permutation(len(every))[: int(rng.integers(1, len(every) + 1))]]
    return {
        n.name: [n.values[i] for i in rng.permutation(n.states)[: int(rng.integers(1, n.states + 1))]]
        for n in decisions
        if rng.random() < 0.7
    }


def may(d: idb.Diagram, allowed: Any, name: str, label: Any) -> bool:
    """Return whether a choice is eligible."""
    own = allowed.get(name) if isinstance(allowed, Mapping) else allowed
    return own is None or label in own or label in repeatable(d, name)


def eligible_actions(d: idb.Diagram, allowed: Any) -> Iterator[dict[str, int]]:
    """All actions that constraints and lists allow, as places."""
    for action in reference.actions(d):
        if all(may(d, allowed, name, label) for name, label in labels(d, action).items()):
            yield action


def check(d: idb.Diagram, rng: Rng, allowed: Any) -> bool:
    """The best of the eligible actions is found, and proven where it is without lists; False if there is none."""
    means, (_, context) = random_means(rng, d), random_given(rng, d)
    given = labels(d, context)
    actions = list(eligible_actions(d, allowed))
    if not actions:
        with pytest.raises((InfeasibleError, ActionError), match=r"allowed|all_different"):
            idb.best_action(d, means, given, allowed=allowed)
        return False
    best = max(idb.expected_reward(d, labels(d, action), means, given) for action in actions)  # tested elsewhere
    solution = idb.best_action(d, means, given, allowed=allowed)
    assert {name: d.nodes[name].index(label) for name, label in solution.action.items()} in actions
    assert solution.value == pytest.approx(best, abs=1e-9)
    assert solution.bound >= best - 1e-9
    assert solution.exact >= idb.best_action(d, means, given).exact
    check_all_searches(d, means, context, allowed)
    return True


@pytest.mark.parametrize("excepting", [False, True])
def test_random_diagrams(excepting: bool) -> None:
    solved = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        d = random_diagram(rng, most_chance=5, most_joint=200)
        d = with_exceptions(d, rng) if excepting else d
        for _ in range(2):
            allowed = random_allowed(d, rng)
            if isinstance(allowed, list) and any(not set(n.values) & set(allowed) for n in d.of_kind("decision")):
                continue  # refused: see below
            solved += check(d, rng, allowed)
    assert solved > 24


def slots(name: str, items: int, positions: int) -> idb.Diagram:
    """A model of lists with one item that may repeat."""
    choices = [*(f"item {i}" for i in range(items)), NOTHING]
    data = LISTS[name](choices, positions, distinct=False).to_dict()
    data["all_different"] = [{"decisions": "all", "except": [NOTHING]}]
    return idb.Diagram.from_dict(data)


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_every_form(name: str) -> None:
    rng = np.random.default_rng(sum(map(ord, name)))
    for items, positions in [(7, 3), (5, 4)]:
        d = LISTS[name](items, positions)
        assert check(d, rng, rng.permutation(items)[:positions].tolist())
        assert check(d, rng, {"A1": [0, 1, 2], "A2": [1, 2], "A3": [2, 3, 4]})


@pytest.mark.parametrize("name", LISTS)
def test_what_may_repeat_is_eligible_and_fills_slots(name: str) -> None:
    """Test that an item that may repeat is placed well if it has a low key, a high one, or one between; also with fewer items than slots."""
    rng = np.random.default_rng(sum(map(ord, name)))
    for items, positions in [(4, 3), (2, 4)]:
        d = slots(name, items, positions)
        assert check(d, rng, None)
        assert check(d, rng, ["item 0"])
        assert check(d, rng, [])
        assert check(d, rng, {"A1": ["item 1"], "A3": []})


def test_large_lists_hold_only_eligible_items() -> None:
    """Nothing outside of the list is looked at: what is eligible, solved by itself, has the same value."""
    rng = np.random.default_rng(3)
    for name in ("cascade", "position_based", "cascade_inverted", "dependent_click"):
        d, small = LISTS[name](400, 10), LISTS[name](30, 10)
        means = random_means(rng, d)
        chosen = rng.permutation(400)[:30]
        own = {t: m[chosen] if len(m) == 400 else m for t, m in means.items()}
        solution = idb.best_action(d, means, allowed=chosen.tolist())
        assert set(solution.action.values()) <= set(chosen.tolist())
        assert solution.exact
        assert solution.value == pytest.approx(idb.best_action(small, own).value, abs=1e-12)


def test_lists_are_a_set() -> None:
    """Order and repetitions do not matter, nor what the list comes in."""
    d = idb.models.cascade(["a", "b", "c", "d"], 2)
    means = {"attraction": np.array([0.5, 0.5, 0.5, 0.5])}
    expected = idb.best_action(d, means, allowed=["d", "b", "c"])
    others = [("c", "b", "d"), {"b", "c", "d"}, np.array(["d", "c", "b", "b"]), iter("bcd"), {"A1": "bcd", "A2": "bcd"}]
    for allowed in others[:4]:
        assert idb.best_action(d, means, allowed=allowed) == expected
    assert idb.best_action(d, means, allowed={"A1": ["b", "c", "d"], "A2": ["d", "c", "b"]}) == expected


def test_what_restricts_nothing_is_nothing() -> None:
    d = idb.models.cascade(4, 2)
    solver = idb.compile(d).derived(Solver)
    for allowed in (None, range(4), [True, 0, 2.0, np.int8(3)], {}, {"A1": [3, 2, 1, 0]}):
        assert solver.eligible(allowed) is EVERY_CHOICE


def test_each_decision_gets_the_labels_that_it_has() -> None:
    d = idb.Diagram("drinks")
    hot, cold = d.decision("hot", ["tea", "coffee"]), d.decision("cold", ["water", "tea", "juice"])
    for node in (hot, cold):
        d.reward(d.observed(f"likes {node.name}", [node]))
    d.all_different()
    means = {"likes hot": [0.9, 0.1], "likes cold": [0.1, 0.8, 0.3]}
    allowed = ["coffee", "tea", "water"]
    assert idb.best_action(d, means, allowed=allowed).action == {"hot": "tea", "cold": "water"}
    assert idb.best_action(d, means, allowed={"hot": ["coffee"]}).action == {"hot": "coffee", "cold": "tea"}


D = idb.models.cascade(["a", "b", "c", "d"], 3)
MEANS = {"attraction": np.full(4, 0.5)}


@pytest.mark.parametrize(
    ("allowed", "error", "words"),
    [
        (["a", "b"], InfeasibleError, ("'A", "'a', 'b'")),
        ({"A1": ["a"], "A3": ["a"]}, InfeasibleError, ("'A", "'a'")),
        ({"A1": ["a", "b"], "A2": ["a", "b"], "A3": ["b", "a"]}, InfeasibleError, ("'A", "'a', 'b'")),
        (["a", "b", "tea"], ActionError, ("'tea'", "'a', 'b', 'c', 'd'")),
        ({"A1": ["tea"]}, ActionError, ("'A1'", "'tea'")),
        ({"B": ["a"]}, ActionError, ("'B'", "A1, A2, A3")),
        ({7: ["a"]}, ActionError, ("7", "A1, A2, A3")),
        ([], ActionError, ("empty",)),
        ({"A2": []}, ActionError, ("'A2'", "empty")),
        ("abc", ActionError, ("'abc'", "list")),
        ({"A2": "abc"}, ActionError, ("'A2'", "'abc'", "list")),
        (b"abc", ActionError, ("list",)),
        (3, ActionError, ("3", "list")),
        (np.array(3), ActionError, ("list",)),
        ([["a"], ["b"]], ActionError, ("['a']",)),
        ([None, "a", "b", "c"], ActionError, ("None",)),
        ({"A1": {"a": 1}}, ActionError, ("'A1'", "list")),
    ],
)
def test_refusals(allowed: Any, error: type[Exception], words: tuple[str, ...]) -> None:
    assert_raises(error, words, lambda: idb.best_action(D, MEANS, allowed=allowed))


def test_decisions_without_a_label_are_named() -> None:
    d = idb.Diagram("page")
    for name, values in (("item", ["a", "b"]), ("layout", ["wide", "narrow"])):
        d.reward(d.observed(f"likes {name}", [d.decision(name, values)]))
    means = {"likes item": [0.5, 0.5], "likes layout": [0.5, 0.5]}
    assert_raises(InfeasibleError, ("'layout'", "'wide', 'narrow'"), lambda: idb.best_action(d, means, allowed=["a"]))
    assert_raises(ActionError, ("'c'", "any decision"), lambda: idb.best_action(d, means, allowed=["a", "wide", "c"]))


def test_equal_places_of_different_labels_are_different_lists() -> None:
    d = idb.Diagram("crossed")
    for name, values in (("A", ["x", "y", "z"]), ("B", ["y", "x", "w"])):
        d.reward(d.observed(f"likes {name}", [d.decision(name, values)]))
    d.all_different()
    rng = np.random.default_rng(0)
    for allowed in ({"A": ["x", "y"], "B": ["x", "y"]}, {"A": ["x"], "B": ["y"]}, ["x", "y"], ["y", "w", "z"]):
        assert check(d, rng, allowed)
    feasible = idb.compile(d).derived(Solver).eligible({"A": ["x", "y"], "B": ["y", "x"]})[:2].tolist()
    assert ["x", "y", "z"][feasible[0]] != ["y", "x", "w"][feasible[1]]


def test_overlapping_groups() -> None:
    """A triangle of pairs that exclude each other, which is no single group."""
    d = idb.Diagram("triangle")
    nodes = [d.decision(f"A{k}", 4) for k in range(4)]
    for node in nodes:
        d.reward(d.observed(f"X{node.name}", [node]))
    for a, b in itertools.pairwise(nodes):
        d.all_different(a, b)
    rng = np.random.default_rng(0)
    for _ in range(10):
        check(d, rng, random_allowed(d, rng))
    means = random_means(rng, d)
    assert_raises(InfeasibleError, ("no choice is left", "'A"), lambda: idb.best_action(d, means, allowed=[2]))


@pytest.mark.parametrize("fixed", [{0: 0.02}, {3: 0.02}, {0: 0.01, 1: 0.02}])
def test_rows_of_tables_with_fixed_rows_are_drawn(fixed: dict[int, float]) -> None:
    d, table = idb.Diagram("fixed"), idb.Learned("attraction", fixed=fixed)
    for k in range(3):
        d.reward(d.observed(f"C{k}", [d.decision(f"A{k}", 6)], table))
    d.all_different()
    agent, eligible = idb.Thompson(d, "exact", seed=1), [0, 1, 3, 4]
    best = sorted(set(range(6)) - {*fixed, 2, 5}, reverse=True)
    for item in range(6):
        others = [other for other in range(6) if other != item][:2]
        action = {"A0": item, "A1": others[0], "A2": others[1]}
        for _ in range(300):  # items with high numbers are clicked more often
            agent.update(action, {"C0": int(agent.rng.random() < 0.1 + 0.15 * item)})
    for _ in range(20):
        assert {*agent.act(allowed=eligible).values()} >= {*best[:2]}
    assert {*agent.best_action(allowed=eligible).action.values()} >= {*best[:2]}
