"""Reduction of rounds to certain uses, factors and a constant, against enumeration."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import NAMED, partly_known, random_given, random_means, with_fixed_means, with_fixed_rows
from inferences import diagram_of
from internals import Key, Reduced, all_entries, groups, place_of, reduced, row_of
from played_rounds import learn, play

MODELS: dict[str, Callable[[], idb.Diagram]] = {
    "user browsing": lambda: idb.models.user_browsing(3, 3),
    "dependent click": lambda: idb.models.dependent_click(3, 2),
    "click chain": lambda: idb.models.click_chain(3, 2),
    "dynamic Bayesian": lambda: idb.models.dynamic_bayesian(3, 2),
}


def nodes_of(key: Key) -> list[list[list[int]]]:
    """The nodes of a factor: each a sum of products of entries and, as negative numbers, of earlier nodes."""
    numbers = iter(key)
    nodes = [
        [[next(numbers) for _ in range(next(numbers))] for _ in range(next(numbers))] for _ in range(next(numbers))
    ]
    assert next(numbers, None) is None
    return nodes


def value(key: Key, entries: np.ndarray) -> float:
    """The value of a factor, by its definition."""
    values: list[float] = []
    for terms in nodes_of(key):
        products = (math.prod(entries[m] if m >= 0 else values[-1 - m] for m in term) for term in terms)
        values.append(float(sum(products)))
    return values[-1]


def entries_in(key: Key) -> set[int]:
    """The entries that a factor reads."""
    return {m for terms in nodes_of(key) for term in terms for m in term if m >= 0}


def rows_in(d: idb.Diagram, key: Key) -> set[tuple[str, int]]:
    """The learned rows that a factor reads."""
    return {row for entry in entries_in(key) if (row := row_of(d, entry)) is not None}


def inner_means(rng: np.random.Generator, d: idb.Diagram) -> dict[str, np.ndarray]:
    """Means that are never 0 or 1."""
    full = {t.name: rng.dirichlet(np.full(t.states, 2.0), size=t.shape) for t in d.learned.values()}
    means = {name: m[..., 1] if d.learned[name].states == 2 else m for name, m in full.items()}
    return with_fixed_means(d, means)


def random_round(rng: np.random.Generator, d: idb.Diagram) -> tuple[dict[str, int], dict[str, int]]:
    """Any action and context, and any states of some of the observed nodes, possible or not."""
    action, context = random_given(rng, d)
    seen = {n.name: int(rng.integers(n.states)) for n in d.of_kind("observed") if rng.random() < 0.7}
    return action | context, seen


def product(said: Reduced, entries: np.ndarray) -> float:
    """Return the likelihood of a reduced round."""
    return float(said.constant * entries[said.uses].prod() * math.prod(value(key, entries) for key in said.factors))


def is_single_product(d: idb.Diagram, key: Key, free: bool) -> bool:
    """Return whether the logarithm of a factor is a sum of multiples of logarithms of entries, and of a constant.

    That is asked for all means, or, if they are free, for all numbers in place of the learned entries: what latent nodes
    were does not matter to the likelihood of a round, but literal evidence counts them.
    """
    rng = np.random.default_rng(0)
    learned = sorted(e for e in entries_in(key) if row_of(d, e) is not None)
    points = [all_entries(d, inner_means(rng, d)) for _ in range(2 * len(learned) + 20)]
    for point in points if free else []:
        point[learned] = rng.uniform(0.1, 1.0, size=len(learned))
    columns = np.array([[1.0, *np.log(point[learned])] for point in points])
    wanted = np.log([value(key, point) for point in points])
    fitted = columns @ np.linalg.lstsq(columns, wanted, rcond=None)[0]
    return bool(abs(fitted - wanted).max() < 1e-7)


def fixed_in_part(seed: int) -> Callable[[], idb.Diagram]:
    """A random diagram, some rows of which are known."""
    return lambda: with_fixed_rows(np.random.default_rng(seed), diagram_of(seed))


DIAGRAMS = [partly_known, *NAMED, *MODELS.values(), *range(40), *map(fixed_in_part, range(40, 70))]


@pytest.mark.parametrize("literal", [False, True], ids=["folded", "literal"])
@pytest.mark.parametrize("make", DIAGRAMS)
def test_uses_times_factors_times_a_constant_are_the_likelihood(
    make: Callable[[], idb.Diagram] | int, literal: bool
) -> None:
    d, rng = diagram_of(make), np.random.default_rng(1)
    points = [inner_means(rng, d) for _ in range(3)] + [random_means(rng, d)]
    entries = [all_entries(d, means) for means in points]
    for _ in range(12):
        given, seen = random_round(rng, d)
        wanted = [reference.likelihood(d, given, seen, means) for means in points]
        for whole in (False, True):
            said = reduced(d, given, seen, literal=literal, whole=whole)
            assert said.possible == (wanted[0] > 0)
            if said.possible:
                assert [product(said, e) for e in entries] == pytest.approx(wanted, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("literal", [False, True], ids=["folded", "literal"])
@pytest.mark.parametrize("make", DIAGRAMS)
def test_no_factor_is_a_single_product(make: Callable[[], idb.Diagram] | int, literal: bool) -> None:
    d, rng = diagram_of(make), np.random.default_rng(2)
    keys: set[Key] = set()
    for _ in range(20):
        said = reduced(d, *random_round(rng, d), literal=literal)
        keys |= set(said.factors) if said.possible else set()
    assert not [key for key in keys if is_single_product(d, key, free=literal)]


@pytest.mark.parametrize("make", DIAGRAMS)
def test_agents_keep_the_factors_of_their_rounds(make: Callable[[], idb.Diagram] | int) -> None:
    d = diagram_of(make)
    played = play(d, np.random.default_rng(3), 15, unseen=0.25)
    counted: Counter[Key] = Counter()
    for p in played:
        counted.update(reduced(d, *p.round).factors)
    for inference in (idb.Gibbs(), idb.EP(), idb.Variational()):
        assert groups(learn(idb.Thompson(d, inference, seed=0), played)) == counted


# -- known structures ----------------------------------------------------------------------------------------------


def test_user_browsing_has_factors_of_one_item_and_one_position() -> None:
    d = idb.models.user_browsing(6, 4)
    for clicks in itertools.product(range(2), repeat=4):
        seen = {n.name: clicks[int(n.name[1:]) - 1] for n in d.of_kind("observed") if n.name.startswith("C")}
        said = reduced(d, {f"A{k}": 5 - k for k in range(1, 5)}, seen)
        assert said.possible
        assert len(said.uses) == 2 * sum(clicks)  # attracted and examined
        wanted = set()
        for k, clicked in enumerate(clicks, start=1):
            if not clicked:
                last = max((j for j in range(1, k) if clicks[j - 1]), default=0)
                wanted.add(frozenset({("attraction", 5 - k), ("examination", k * (k - 1) // 2 + last)}))
        assert {frozenset(rows_in(d, key)) for key in said.factors} == wanted
        assert len(said.factors) == 4 - sum(clicks)


def test_dependent_click_has_factors_of_what_comes_after_the_last_click() -> None:
    d = idb.models.dependent_click(6, 4)
    for clicks in itertools.product(range(2), repeat=4):
        said = reduced(d, {f"A{k}": 5 - k for k in range(1, 5)}, {f"C{k}": c for k, c in enumerate(clicks, start=1)})
        assert said.possible
        last = max((k for k, clicked in enumerate(clicks, start=1) if clicked), default=0)
        read = set().union(*(rows_in(d, key) for key in said.factors))
        after = {("attraction", 5 - k) for k in range(last + 1, 5)}
        # whether the last click satisfied is open; without a click, all was examined and nothing is
        assert read == (after | {("satisfaction", last - 1)} if 0 < last < 4 else set())
        certain = Counter(said.uses)
        assert sum(certain.values()) == len(said.uses)
        for k, clicked in enumerate(clicks[:last], start=1):
            assert certain[place_of(d, "attraction", (5 - k, clicked))] == 1
            if clicked and k < last:
                assert certain[place_of(d, "satisfaction", (k - 1, 0))] == 1


def carousel(positions: int = 3) -> idb.Diagram:
    """Items of a list are clicked by the taste of a latent class."""
    d = idb.Diagram("latent class")
    taste, click = d.latent("Z", cpd=idb.Learned("class")), idb.Learned("click")
    for k in range(positions):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", 5), taste], click))
    d.all_different()
    return d


def test_lists_in_another_order_have_the_same_factor_under_a_latent_class() -> None:
    d = carousel()
    answers: dict[Any, set[Key]] = {}
    for items in itertools.permutations((0, 2, 3)):
        for clicked in itertools.product(range(2), repeat=3):
            said = reduced(d, {f"A{k}": i for k, i in enumerate(items)}, {f"X{k}": c for k, c in enumerate(clicked)})
            assert not said.uses
            assert len(said.factors) == 1
            answers.setdefault(frozenset(zip(items, clicked, strict=True)), set()).add(said.factors[0])
    assert [len(keys) for keys in answers.values()] == [1] * 8
    assert len(set().union(*answers.values())) == 8
