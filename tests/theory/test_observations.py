"""De facto observations and their probabilities against enumeration of all joint states, and the paper's cases."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from diagrams import labels, random_given, random_means
from idbandits import Diagram, models, theory
from idbandits.diagram.tables import Use
from idbandits.errors import ActionError, ComplexityError, DiagramError, ImpossibleObservationError
from idbandits.theory.observations import quadrature
from reference import actions, consistent, entry_of, feasible, joint
from theory_cases import DIAGRAMS, contextual, gates, of_three_states, without_contexts

Rows = set[tuple[str, tuple[int, ...]]]


# -- the oracle: the paper's event E(i), by enumeration of all joint states --------------------------------------------


def worlds_by_observation(d: Diagram, action: dict[str, int]) -> dict[tuple[int, ...], list[dict[str, int]]]:
    """Return all possible joint states by observation."""
    seen = [n.name for n in d.of_kind("observed")]
    worlds: dict[tuple[int, ...], list[dict[str, int]]] = defaultdict(list)
    for values in consistent(d, (action, {})):
        worlds[tuple(values[n] for n in seen)].append(values)
    return worlds


def shows(d: Diagram, worlds: list[dict[str, int]], node: str) -> tuple[Any, int] | None:
    """Return the row and the state of a node if all joint states agree on them, else None."""
    drawn = {(entry_of(d, d.nodes[node], values), values[node]) for values in worlds}
    return drawn.pop() if len(drawn) == 1 else None


def below(d: Diagram, node: str) -> set[str]:
    names = {node}
    for n in d.nodes.values():
        if names & set(n.parents):
            names.add(n.name)
    return names


def feasible_action(rng: np.random.Generator, d: Diagram) -> dict[str, int]:
    return next(action for action in (random_given(rng, d)[0] for _ in itertools.count()) if feasible(d, action))


def oracle(d: Diagram, action: dict[str, int], *, biased: bool) -> dict[tuple[int, ...], Rows]:
    """Return for every observation the rows that it shows."""
    seen = [n.name for n in d.of_kind("observed")]
    worlds = worlds_by_observation(d, action)
    rng = np.random.default_rng(5)
    means = {
        t.name: (full[..., 1] if t.states == 2 else full)
        for t in d.learned.values()
        for full in [rng.dirichlet(np.full(t.states, 5.0), t.shape)]
    }
    chance: dict[tuple[int, ...], float] = defaultdict(float)
    for values, p in joint(d, action, means):
        chance[tuple(values[n] for n in seen)] += p
    result: dict[tuple[int, ...], Rows] = {x: set() for x in worlds}
    for node in [n for n in d.nodes.values() if isinstance(n.cpd, Use)]:
        shown = {x: s for x, w in worlds.items() if (s := shows(d, w, node.name)) is not None}
        others = [k for k, name in enumerate(seen) if name not in below(d, node.name)]
        for x, (row, _) in shown.items():
            fair = True
            if not biased:  # P(shown, state = s | the row, all that is not below) / P(state = s) is the same for all s
                mean = np.asarray(means[row[0]])[row[1]]
                full = mean if node.states > 2 else np.array([1 - mean, mean])
                free = np.zeros(node.states)
                for y, (other_row, state) in shown.items():
                    if other_row == row and all(x[k] == y[k] for k in others):
                        free[state] += chance[y] / full[state]
                fair = np.ptp(free) <= 1e-9 * free.max()
            if fair:
                result[x].add(row)
    return result


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("make", "seed"), DIAGRAMS)
def test_observed_rows_are_those_of_the_enumeration(make: Any, seed: int, biased: bool) -> None:
    d = make(seed)
    action = feasible_action(np.random.default_rng(seed), d)
    seen = [n.name for n in d.of_kind("observed")]
    for x, rows in oracle(d, action, biased=biased).items():
        observation = labels(d, dict(zip(seen, x, strict=True)))
        assert set(theory.observed_parameters(d, labels(d, action), observation, biased=biased)) == rows


def test_random_diagrams_show_rows_fairly_unfairly_and_not_at_all() -> None:
    kinds = set()
    for make, seed in DIAGRAMS:
        d = make(seed)
        fair, known = (oracle(d, next(actions(d)), biased=biased) for biased in (False, True))
        kinds |= {(bool(fair[x]), fair[x] != known[x]) for x in fair}
    assert len(kinds) == 4


@pytest.mark.parametrize(("make", "seed"), DIAGRAMS)
def test_probabilities_are_those_of_the_enumeration(make: Any, seed: int) -> None:
    d = make(seed)
    rng = np.random.default_rng(seed)
    action = feasible_action(rng, d)
    means = random_means(rng, d)
    seen = [n.name for n in d.of_kind("observed")]
    rows = oracle(d, action, biased=False)
    wanted = {name: np.zeros(t.shape) for name, t in d.learned.items()}
    for values, p in joint(d, action, means):
        for name, row in rows.get(tuple(values[n] for n in seen), set()) if p > 0 else ():
            wanted[name][row] += p
    answer = theory.observation_probabilities(d, labels(d, action), means)
    for name, chances in wanted.items():
        np.testing.assert_allclose(answer.rows[name], chances, atol=1e-12)
    assert answer.exact
    assert math.isclose(answer.total, sum(c.sum() for c in wanted.values()), abs_tol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_prior_expectation_is_the_average_over_draws(seed: int) -> None:
    d = without_contexts(seed)
    action = labels(d, next(actions(d)))
    expected = theory.observation_probabilities(d, action)
    rng = np.random.default_rng(0)
    draws = [theory.observation_probabilities(d, action, theory.prior_means(d, rng)).total for _ in range(300)]
    assert abs(expected.total - np.mean(draws)) <= 5 * np.std(draws) / math.sqrt(300) + 1e-9


def test_quadrature_is_exact_for_dirichlet_moments() -> None:
    prior = np.array([0.5, 2.0, 1.5])
    rows, weights = quadrature(prior, 3)
    for powers in ([3, 0, 0], [1, 1, 1], [0, 2, 1], [0, 0, 0]):
        wanted = (
            math.prod(math.gamma(a + k) / math.gamma(a) for a, k in zip(prior, powers, strict=True))
            * math.gamma(4.0)
            / math.gamma(4.0 + sum(powers))
        )
        assert math.isclose(float(weights @ (rows ** np.array(powers)).prod(axis=1)), wanted, rel_tol=1e-12)


# -- special cases -----------------------------------------------------------------------------------------------------


def test_cascade_shows_what_is_above_the_click() -> None:
    d = models.cascade(9, 4)
    action = {"A1": 3, "A2": 8, "A3": 0, "A4": 5}
    clicks = [{f"C{k}": int(k == at) for k in range(1, 5)} for at in (1, 2, 3, 4, 0)]
    shown = [{row for _, (row,) in theory.observed_parameters(d, action, x)} for x in clicks]
    assert shown == [{3}, {3, 8}, {3, 8, 0}, {3, 8, 0, 5}, {3, 8, 0, 5}]


def test_cascade_probability_of_observation_is_the_papers() -> None:
    d = models.cascade(4, 3)
    means = np.array([0.2, 0.5, 0.9, 0.1])
    answer = theory.observation_probabilities(d, {"A1": 2, "A2": 0, "A3": 3}, {"attraction": means})
    np.testing.assert_allclose(answer.rows["attraction"], [0.1, 0.0, 1.0, 0.1 * 0.8])


def test_a_prior_that_is_not_uniform_moves_the_maximum() -> None:
    d = Diagram("cascade of two")
    attraction = idb.Learned("attraction", prior=[[1, 1], [1, 9], [9, 1]])  # item 2 attracts least
    first = d.latent("W1", [d.decision("A1", 3)], attraction)
    second = d.latent("W2", [d.decision("A2", 3)], attraction)
    d.reward(d.observed("C1", [first], lambda w: w))
    d.reward(d.observed("C2", [first, second], lambda v, w: (1 - v) * w))
    d.all_different()
    most = theory.max_observations(d)
    assert (most.value, most.action["A1"], most.proved) == (pytest.approx(1.9), 2, True)


def test_a_click_in_the_position_based_model_shows_nothing_fair() -> None:
    d = models.position_based(4, 2)
    action, click = {"A1": 0, "A2": 3}, {"C1": 1, "C2": 0}
    assert theory.observed_parameters(d, action, click) == []
    assert theory.observed_parameters(d, action, click, biased=True) == [("attraction", (0,)), ("examination", (0,))]


def test_fully_observed_diagrams_show_as_many_rows_as_they_have_nodes() -> None:
    d = models.cascade(4, 2, learn_conditionals=True).revealed()  # the paper: O_max = |X| in the fully observable case
    most = theory.max_observations(d)
    learned = [n for n in d.nodes.values() if isinstance(n.cpd, Use)]
    shown = theory.observed_parameters(d, {"A1": 0, "A2": 1}, {"E1": 1, "W1": 0, "C1": 0, "E2": 1, "W2": 1, "C2": 1})
    assert len(shown) == len(learned) == 5
    assert most.value < 5  # positions may be drawn from the same row, which counts once


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("make", [without_contexts, gates])
def test_the_maximum_is_that_of_all_actions(make: Any, seed: int) -> None:
    d = make(seed)
    totals = [theory.observation_probabilities(d, labels(d, a)).total for a in itertools.islice(actions(d), 200)]
    most = theory.max_observations(d)
    assert most.proved
    assert most.value == pytest.approx(max(totals), abs=1e-9)
    assert theory.observation_probabilities(d, most.action).total == pytest.approx(most.value)


def test_a_row_may_be_known_although_no_parent_is() -> None:
    d = Diagram("parity")
    d.decision("A", 2)
    first, second = (d.latent(f"Z{k}", cpd=0.5) for k in range(2))
    d.observed("parity", [first, second], lambda a, b: a ^ b)
    d.reward(d.observed("X", [first, second], idb.Learned("by parity", rows=2).select(lambda a, b: a ^ b)))
    assert theory.observed_parameters(d, {"A": 0}, {"parity": 1, "X": 0}) == [("by parity", (1,))]


def test_a_row_is_missed_if_all_independent_parts_miss_it() -> None:
    d = Diagram("two peepholes")
    arm, table = d.decision("A", 3), idb.Learned("arm")
    for k in range(2):
        seen = d.observed(f"S{k}", cpd=0.25)
        drawn = d.latent(f"W{k}", [arm], table)
        d.reward(d.observed(f"X{k}", [seen, drawn], lambda s, w: s * w))
    answer = theory.observation_probabilities(d, {"A": 1})
    assert answer.rows["arm"].tolist() == [0.0, pytest.approx(1 - 0.75**2), 0.0]


def test_three_states_count_as_one_sample_of_a_row() -> None:
    assert theory.max_observations(of_three_states()) == (1.0, {"A": 0}, True)
    assert theory.observed_parameters(of_three_states(), {"A": 1}, {"X": 2}) == [("rating", (1,))]


def test_unseen_nodes_show_nothing() -> None:
    d = models.semi_bandit(4, 2)
    assert theory.observed_parameters(d, {"A1": 2, "A2": 0}, {"X2": 1}) == [("mean", (0,))]
    assert theory.observed_parameters(d, {"A1": 2, "A2": 0}, {"X2": None}) == []


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: theory.max_observations(contextual()), DiagramError, "'segment'"),
        (lambda: theory.observed_parameters(models.cascade(3, 2), {"A1": 0, "A2": 0}, {}), ActionError, "all_different"),
        (
            lambda: theory.observed_parameters(models.cascade(3, 2), {"A1": 0, "A2": 1}, {"C1": 1, "C2": 1}),
            ImpossibleObservationError,
            "C1 = 1, C2 = 1.*probability zero",
        ),
        (lambda: theory.max_observations(models.user_browsing(20, 15)), ComplexityError, "more than 16,384 ways"),
    ],
)  # fmt: skip
def test_errors_name_the_cause(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
