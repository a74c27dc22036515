"""The theorem's assumptions and constants: against the paper's special cases, and against plain enumeration."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from diagrams import labels, random_diagram, random_given, random_means
from idbandits import Diagram, models, theory
from idbandits.diagram.tables import Use
from idbandits.errors import (
    ActionError,
    ComplexityError,
    DiagramError,
    IdbanditsError,
    ImpossibleObservationError,
    InfeasibleError,
)
from idbandits.simulation.simulate import random_numbers
from idbandits.theory.bounds import Survey
from idbandits.theory.observing import Round, quadrature
from idbandits.theory.symmetry import MOST_ACTIONS, Patterns
from reference import actions, consistent, entry_of, expected_reward, feasible, joint

Rows = set[tuple[str, tuple[int, ...]]]


def without_contexts(seed: int, *, two_states: bool = False) -> Diagram:
    """A random diagram that the theory covers."""
    for attempt in itertools.count():
        d = random_diagram(np.random.default_rng([seed, attempt]), most_chance=6, most_joint=200)
        if d.of_kind("context") or not d.learned:
            continue
        if not two_states or all(t.states == 2 for t in d.learned.values()):
            return d
    raise AssertionError


def gates(seed: int) -> Diagram:
    """A random circuit of latent coins and gates, some of them seen: much can be inferred, not all of it fairly."""
    rng = np.random.default_rng(seed)
    d = Diagram("gates")
    arms = [d.decision(f"A{k}", 3) for k in range(2)]
    table, coin = idb.Learned("arm", prior=[[1, 2]]), idb.Learned("coin", rows=2)
    drawn = [d.latent(f"W{k}", [arm], table) for k, arm in enumerate(arms)]
    drawn += [d.latent(f"Z{k}", cpd=coin[int(rng.integers(2))]) for k in range(int(rng.integers(1, 3)))]
    for k in range(3):
        add = d.latent if rng.random() < 0.3 else d.observed
        over = [drawn[i] for i in rng.permutation(len(drawn))[: int(rng.integers(1, 4))]]
        sharp = rng.integers(2, size=[2] * len(over)).astype(float)
        if rng.random() < 0.2:
            sharp.flat[0] = 0.5
        drawn.append(add(f"G{k}", over, sharp))
    if rng.random() < 0.5:  # a learned table below latent nodes
        drawn.append(d.observed("X", [drawn[int(i)] for i in rng.permutation(len(drawn))[:2]], idb.Learned("last")))
    d.reward(drawn[-1])
    return d


DIAGRAMS = [(without_contexts, seed) for seed in range(15)] + [(gates, seed) for seed in range(40)]


# -- the oracle: the paper's event E(i), by enumeration of all joint states --------------------------------------------


def worlds_by_observation(d: Diagram, action: dict[str, int]) -> dict[tuple[int, ...], list[dict[str, int]]]:
    """All joint states that are possible, by what is seen of them."""
    seen = [n.name for n in d.of_kind("observed")]
    found: dict[tuple[int, ...], list[dict[str, int]]] = defaultdict(list)
    for values in consistent(d, (action, {})):
        found[tuple(values[n] for n in seen)].append(values)
    return found


def shows(d: Diagram, worlds: list[dict[str, int]], node: str) -> tuple[Any, int] | None:
    """The row and the state of a node, if both are the same in all joint states that agree with what was seen."""
    drawn = {(entry_of(d, d.nodes[node], values), values[node]) for values in worlds}
    return drawn.pop() if len(drawn) == 1 else None


def below(d: Diagram, node: str) -> set[str]:
    found = {node}
    for n in d.nodes.values():
        if found & set(n.parents):
            found.add(n.name)
    return found


def oracle(d: Diagram, action: dict[str, int], *, biased: bool) -> dict[tuple[int, ...], Rows]:
    """For every observation, the rows that it shows."""
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
    rng = np.random.default_rng(seed)
    action = next(a for a in (random_given(rng, d)[0] for _ in itertools.count()) if feasible(d, a))
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
    action = next(a for a in (random_given(rng, d)[0] for _ in itertools.count()) if feasible(d, a))
    means = random_means(rng, d)
    seen = [n.name for n in d.of_kind("observed")]
    rows = oracle(d, action, biased=False)
    wanted = {name: np.zeros(t.shape) for name, t in d.learned.items()}
    for values, p in joint(d, action, means):
        for name, row in rows.get(tuple(values[n] for n in seen), set()) if p > 0 else ():
            wanted[name][row] += p
    found = theory.observation_probabilities(d, labels(d, action), means)
    for name, chances in wanted.items():
        np.testing.assert_allclose(found.rows[name], chances, atol=1e-12)
    assert found.exact
    assert math.isclose(found.total, sum(c.sum() for c in wanted.values()), abs_tol=1e-9)


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


# -- the paper's special cases -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", [1, 2, 4])
def test_semi_bandit(positions: int) -> None:
    d = models.semi_bandit(8, positions)
    assert theory.check_monotone(d)[:2] == (True, True)
    assert theory.check_decomposition(d)[:3] == (1.0, True, 1.0)
    found = theory.bound(d, 1000)
    assert found[1:] == (True, 0, 8, float(positions), 1.0, float(positions))
    assert found.value == theory.regret_bound(1000, 8, positions, 1, positions)


@pytest.mark.parametrize("positions", [1, 2, 5, 12])
def test_cascade(positions: int) -> None:
    d = models.cascade(12, positions)
    assert theory.check_monotone(d)[:2] == (True, True)
    assert theory.check_decomposition(d)[:3] == (1.0, True, 1.0)
    examined = sum(0.5**k for k in range(positions))  # under the uniform prior
    found = theory.bound(d, 1000)
    assert found[1:4] == (True, 0, 12)
    assert found.omax == pytest.approx(examined)
    assert found.omax <= positions
    assert (found.C, found.B) == (1.0, 1.0)


def test_cascade_shows_what_is_above_the_click() -> None:
    d = models.cascade(9, 4)
    action = {"A1": 3, "A2": 8, "A3": 0, "A4": 5}
    clicks = [{f"C{k}": int(k == at) for k in range(1, 5)} for at in (1, 2, 3, 4, 0)]
    shown = [{row for _, (row,) in theory.observed_parameters(d, action, x)} for x in clicks]
    assert shown == [{3}, {3, 8}, {3, 8, 0}, {3, 8, 0, 5}, {3, 8, 0, 5}]


def test_cascade_probability_of_observation_is_the_papers() -> None:
    d = models.cascade(4, 3)
    means = np.array([0.2, 0.5, 0.9, 0.1])
    found = theory.observation_probabilities(d, {"A1": 2, "A2": 0, "A3": 3}, {"attraction": means})
    np.testing.assert_allclose(found.rows["attraction"], [0.1, 0.0, 1.0, 0.1 * 0.8])


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


@pytest.mark.parametrize("d", [models.position_based(4, 2), models.rank1(3, 4)], ids=["position-based", "rank-1"])
def test_assumption_2_fails_where_products_are_seen(d: Diagram) -> None:
    assert theory.check_monotone(d)[:2] == (True, True)
    found = theory.check_decomposition(d)
    assert (found.constant, found.proved) == (math.inf, True)
    assert theory.max_observations(d).value == 0.0
    assert found.example is not None
    action, first, second = found.example
    assert idb.expected_reward(d, action, first) != idb.expected_reward(d, action, second)
    chances = theory.observation_probabilities(d, action, second).rows
    assert sum(float(np.sum(chances[t] * np.abs(first[t] - second[t]))) for t in first) == 0.0
    assert theory.bound(d, 100).value == math.inf


def test_a_click_in_the_position_based_model_shows_nothing_fair() -> None:
    d = models.position_based(4, 2)
    action, click = {"A1": 0, "A2": 3}, {"C1": 1, "C2": 0}
    assert theory.observed_parameters(d, action, click) == []
    assert theory.observed_parameters(d, action, click, biased=True) == [("attraction", (0,)), ("examination", (0,))]


def test_revealed_cascade_shows_every_position() -> None:
    d = models.cascade(6, 3).revealed()
    found = theory.bound(d, 1000)
    assert (found.d, found.L, found.omax, found.C, found.proved) == (0, 6, 3.0, 1.0, True)


def test_fully_observed_diagrams_show_as_many_rows_as_they_have_nodes() -> None:
    d = models.cascade(4, 2, learn_conditionals=True).revealed()  # the paper: O_max = |X| in the fully observable case
    most = theory.max_observations(d)
    learned = [n for n in d.nodes.values() if isinstance(n.cpd, Use)]
    shown = theory.observed_parameters(d, {"A1": 0, "A2": 1}, {"E1": 1, "W1": 0, "C1": 0, "E2": 1, "W2": 1, "C2": 1})
    assert len(shown) == len(learned) == 5
    assert most.value < 5  # positions may be drawn from the same row, which counts once


def test_repeated_items_count_once_and_cost_a_factor() -> None:
    d = models.semi_bandit(3, 2, distinct=False)
    assert theory.max_observations(d)[::2] == (2.0, True)
    found = theory.check_decomposition(d)  # after the action (0, 0), r is twice the mean, which is shown once
    assert found[:3] == (2.0, True, 2.0)
    assert theory.observation_probabilities(d, {"A1": 1, "A2": 1}).total == 1.0


def test_inverted_cascade_falls_in_attraction() -> None:
    found = theory.check_monotone(models.cascade_inverted(3, 2))
    assert (found.holds, found.signs["attraction"].tolist()) == (True, [-1.0, -1.0, -1.0])


def test_a_reward_that_is_not_monotone_is_shown() -> None:
    d = models.dependent_click(5, 3, reward="clicks")
    found = theory.check_monotone(d)
    assert (found.holds, found.proved) == (False, True)
    assert found.rises is not None
    assert found.falls is not None
    for sign, (action, low, high) in ((1, found.rises), (-1, found.falls)):
        assert sign * (idb.expected_reward(d, action, high) - idb.expected_reward(d, action, low)) > 1e-6
    assert np.isnan(found.signs["attraction"]).all()


# -- random diagrams ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("make", [lambda seed: without_contexts(seed, two_states=True), gates], ids=["any", "gates"])
def test_what_is_proved_holds_at_random_means(make: Any, seed: int) -> None:
    d = make(seed)
    monotone, decomposition = theory.check_monotone(d), theory.check_decomposition(d)
    rng = np.random.default_rng(seed)
    span = theory.bound(d, 10).B
    for action in itertools.islice(actions(d), 6):
        for _ in range(5):
            first, second = random_means(rng, d), random_means(rng, d)
            change = abs(expected_reward(d, action, first) - expected_reward(d, action, second))
            chances = theory.observation_probabilities(d, labels(d, action), second).rows
            share = sum(float(np.sum(chances[t] * np.abs(first[t] - second[t]))) for t in first)
            if decomposition.proved and share > 0:
                assert change <= decomposition.constant * share + 1e-9
            assert change <= span + 1e-9
            for t, signs in monotone.signs.items():
                higher = {name: m.copy() for name, m in second.items()}
                higher[t] = np.where(np.isnan(signs), second[t], np.maximum(first[t], second[t]) * 1.0)
                if monotone.proved and (np.isnan(signs) | (signs >= 0)).all():
                    rise = expected_reward(d, action, higher) - expected_reward(d, action, second)
                    assert rise >= -1e-9


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("make", [without_contexts, gates])
def test_the_maximum_is_that_of_all_actions(make: Any, seed: int) -> None:
    d = make(seed)
    totals = [theory.observation_probabilities(d, labels(d, a)).total for a in itertools.islice(actions(d), 200)]
    most = theory.max_observations(d)
    assert most.proved
    assert most.value == pytest.approx(max(totals), abs=1e-9)
    assert theory.observation_probabilities(d, most.action).total == pytest.approx(most.value)


def test_a_row_may_be_known_where_no_parent_is() -> None:
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
    found = theory.observation_probabilities(d, {"A": 1})
    assert found.rows["arm"].tolist() == [0.0, pytest.approx(1 - 0.75**2), 0.0]


def test_choices_that_read_shared_rows_in_another_order_are_not_alike() -> None:
    d = Diagram("shifted")
    table = idb.Learned("mean")
    for k, names in enumerate(["abc", "acb"]):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", list(names))], table))
    d.all_different()
    assert len(Patterns(idb.compile(d)).actions) == 3  # b and c are alike, a is not
    assert theory.check_decomposition(d)[:2] == (2.0, True)  # after (b, c), which read the same row


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("make", [lambda seed: without_contexts(seed, two_states=True), gates], ids=["any", "gates"])
def test_what_is_proved_is_never_below_what_is_met(make: Any, seed: int) -> None:
    model = idb.compile(make(seed))
    for vector in Patterns(model).actions[:5]:
        survey = Survey(Round(model, vector))
        assert survey.telescope(1e-9) >= survey.ratio(1e-9)[0] - 1e-9


def test_chances_that_depend_on_their_own_mean_count_at_their_lowest() -> None:
    d = Diagram("gate")
    arm, table = d.decision("A", 1), idb.Learned("arm")
    opens = d.latent("Z", [arm], table)
    gate = d.observed("G", [opens], lambda z: 0.5 + 0.25 * z)
    drawn = d.latent("W", [arm], table)
    d.observed("X", [gate, drawn], lambda g, w: g * w)
    d.reward(drawn)
    survey = Survey(Round(idb.compile(d), np.array([0])))
    assert survey.telescope(1e-9) == pytest.approx(2.0)
    assert theory.check_decomposition(d)[:3] == (2.0, True, pytest.approx(2.0))


def test_patterns_are_the_ways_to_repeat_choices() -> None:
    bell = {1: 1, 2: 2, 3: 5, 4: 15}
    for positions, number in bell.items():
        assert len(Patterns(idb.compile(models.cascade(9, positions, distinct=False))).actions) == number
        assert len(Patterns(idb.compile(models.cascade(9, positions))).actions) == 1


def test_too_many_kinds_of_actions_are_drawn_and_not_proved() -> None:
    d = Diagram("all differ")
    table = idb.Learned("mean", prior=np.arange(1.0, 25.0).reshape(12, 2))
    product = [d.latent(f"W{k}", [d.decision(f"A{k}", 12)], table) for k in range(4)]
    d.reward(d.observed("X", product, lambda *w: math.prod(w)))
    assert MOST_ACTIONS < 12**4
    assert not theory.max_observations(d).proved
    assert not theory.check_monotone(d).proved
    assert theory.bound(d, 10).omax == 4.0  # as many as there are learned nodes


def test_many_means_are_searched_and_said_not_to_be_proved() -> None:
    d = models.cascade(20, 14)
    found = theory.check_decomposition(d)
    assert not found.proved
    assert found.least == pytest.approx(1.0)
    assert theory.check_monotone(d)[:2] == (True, False)


def test_a_reward_that_hardly_changes_at_most_means_is_still_found_to() -> None:
    d = models.cascade(50, 40)  # after 40 items that attract or not, one more changes next to nothing
    assert set(theory.check_monotone(d).signs["attraction"].tolist()) == {1.0}
    assert theory.check_decomposition(d).constant == pytest.approx(1.0)


# -- the bound and what is measured ------------------------------------------------------------------------------------


def test_regret_bound_is_the_last_line_of_the_proof() -> None:
    n, number, omax, constant, reward = 500, 7, 2.5, 1.5, 3.0
    wanted = constant * math.sqrt(6 * number * omax * n * math.log(n) * (1 + math.log(n)))
    wanted += (constant + 2 * math.pi**2 / 3 * reward) * number
    assert theory.regret_bound(n, number, omax, constant, reward) == pytest.approx(wanted)
    assert theory.regret_bound(1, 4, 1, 1, 1) == pytest.approx(4 * (1 + 2 * math.pi**2 / 3))


@pytest.mark.parametrize("d", [models.semi_bandit(6, 2), models.cascade(6, 2)], ids=["semi-bandit", "cascade"])
def test_bayes_regret_is_below_the_bound_and_below_linear(d: Diagram) -> None:
    found = theory.bayes_regret(d, 4000, 40)
    limits = [theory.bound(d, int(n)).value for n in found.rounds]
    assert (found.mean + 3 * found.se < limits).all()
    at = {int(n): m for n, m in zip(found.rounds, found.mean, strict=True)}
    quarter = min(at, key=lambda n: abs(n - 1000))
    assert found.mean[-1] < 2.5 * at[quarter]  # linear would be 4 times, a square root 2 times
    assert (np.diff(found.mean) >= 0).all()


def test_bayes_regret_is_reproducible_whatever_the_workers_and_like_a_plain_loop() -> None:
    d = models.semi_bandit(4, 2)
    one, two = (theory.bayes_regret(d, 200, 5, seed=3, workers=w) for w in (1, 2))
    np.testing.assert_array_equal(one.mean, two.mean)
    assert not np.array_equal(one.mean, theory.bayes_regret(d, 200, 5, seed=4).mean)

    class First:
        def act(self) -> dict[str, int]:
            return {"A1": 0, "A2": 1}

        def update(self, action: Any, observation: Any) -> None:
            pass

    found = theory.bayes_regret(d, 30, 4, First(), seed=3)
    gaps = []
    for run in range(4):
        means = theory.prior_means(d, np.random.default_rng(random_numbers(3, run, "truth")))["mean"]
        gaps.append(30 * (np.sort(means)[-2:].sum() - means[:2].sum()))
    assert found.mean[-1] == pytest.approx(np.mean(gaps))
    assert found.se[-1] == pytest.approx(np.std(gaps, ddof=1) / 2)


def test_study_and_its_picture() -> None:
    frame = theory.study([20, 40], [3, 4], [1, 2], usual=(40, 4, 2), runs=4)
    assert len(frame) == 12
    assert (frame["regret_mean"] < frame["bound"]).all()
    figure = theory.plot(frame)
    assert [ax.get_xlabel() for ax in figure.axes] == ["rounds n", "items L", "positions K"]
    assert all(len(ax.lines) >= 5 for ax in figure.axes)


# -- what is refused ---------------------------------------------------------------------------------------------------


def contextual() -> Diagram:
    d = Diagram("with context")
    d.reward(d.observed("X", [d.decision("A", 2), d.context("segment", 2)]))
    return d


def of_three_states() -> Diagram:
    d = Diagram("three")
    d.reward(d.observed("X", [d.decision("A", 2)], idb.Learned("rating"), states=3))
    return d


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: theory.max_observations(contextual()), DiagramError, "'segment'"),
        (lambda: theory.bound(contextual(), 10), DiagramError, "'segment'"),
        (lambda: theory.check_monotone(of_three_states()), DiagramError, "'rating'.* 3 states"),
        (lambda: theory.check_decomposition(of_three_states()), DiagramError, "'rating'.* 3 states"),
        (lambda: theory.observed_parameters(models.cascade(3, 2), {"A1": 0, "A2": 0}, {}), ActionError, "all_different"),
        (
            lambda: theory.observed_parameters(models.cascade(3, 2), {"A1": 0, "A2": 1}, {"C1": 1, "C2": 1}),
            ImpossibleObservationError,
            "C1 = 1, C2 = 1.*probability zero",
        ),
        (lambda: theory.regret_bound(0, 1, 1, 1, 1), IdbanditsError, "n is .* not 0"),
        (lambda: theory.regret_bound(10, 1, -1, 1, 1), IdbanditsError, "omax is .* not -1"),
        (lambda: theory.bayes_regret(models.semi_bandit(3, 1), 0, 1), IdbanditsError, "rounds .* not 0"),
        (lambda: theory.bayes_regret(models.semi_bandit(3, 1), 5, 1, learner=3), IdbanditsError, r"no method act\(\): 3"),
        (lambda: theory.max_observations(models.user_browsing(20, 15)), ComplexityError, "more than 16,384 ways"),
    ],
)  # fmt: skip
def test_refusals_name_what_is_wrong(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_three_states_count_as_one_sample_of_a_row() -> None:
    assert theory.max_observations(of_three_states()) == (1.0, {"A": 0}, True)
    assert theory.observed_parameters(of_three_states(), {"A": 1}, {"X": 2}) == [("rating", (1,))]


def test_diagrams_without_learned_tables_or_decisions() -> None:
    d = Diagram("coin")
    d.reward(d.observed("X", cpd=0.5))
    assert theory.max_observations(d) == (0.0, {}, True)
    assert theory.bound(d, 10) == (0.0, True, 0, 0, 0.0, 0.0, 0.0)
    d.reward(d.latent("Z"))
    assert theory.check_monotone(d)[:2] == (True, True)
    assert theory.check_decomposition(d)[:2] == (math.inf, True)


def test_diagrams_that_no_action_satisfies() -> None:
    d = Diagram("too few")
    a, b, c = d.decision("A", [1, 2]), d.decision("B", [1, 2]), d.decision("C", [1, 2])
    d.reward(d.observed("X", [a, b, c]))
    for pair in ((a, b), (b, c), (a, c)):
        d.all_different(*pair)
    with pytest.raises(InfeasibleError, match="no action"):
        theory.max_observations(d)


def test_unseen_nodes_show_nothing() -> None:
    d = models.semi_bandit(4, 2)
    assert theory.observed_parameters(d, {"A1": 2, "A2": 0}, {"X2": 1}) == [("mean", (0,))]
    assert Round(idb.compile(d), np.array([2, 0]), []).expected().total == 0.0
