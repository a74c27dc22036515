"""The theorem's assumptions, constants and bound: the paper's special cases, and random diagrams at random means."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from diagrams import labels, random_means
from idbandits import Diagram, models, theory
from idbandits.errors import DiagramError, IdbanditsError
from idbandits.theory.action_symmetry import MOST_ACTIONS, Symmetry
from idbandits.theory.bounds import Survey
from idbandits.theory.round_outcomes import RoundOutcomes
from reference import actions, expected_reward
from theory_cases import contextual, gates, of_three_states, without_contexts

# -- the paper's special cases -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", [1, 2, 4])
def test_semi_bandit(positions: int) -> None:
    d = models.semi_bandit(8, positions)
    assert theory.check_monotone(d)[:2] == (True, True)
    assert theory.check_decomposition(d)[:3] == (1.0, True, 1.0)
    answer = theory.bound(d, 1000)
    assert answer[1:8] == (True, 0, 8, float(positions), 1.0, float(positions), 1000.0 * positions)
    assert answer.value == theory.regret_bound(1000, 8, positions, 1, positions)


@pytest.mark.parametrize("positions", [1, 2, 5, 12])
def test_cascade(positions: int) -> None:
    d = models.cascade(12, positions)
    assert theory.check_monotone(d)[:2] == (True, True)
    assert theory.check_decomposition(d)[:3] == (1.0, True, 1.0)
    examined = sum(0.5**k for k in range(positions))  # under the uniform prior
    answer = theory.bound(d, 1000)
    assert answer[1:4] == (True, 0, 12)
    assert answer.omax == pytest.approx(examined)
    assert answer.omax <= positions
    assert (answer.C, answer.B) == (1.0, 1.0)


def test_revealed_cascade_shows_every_position() -> None:
    d = models.cascade(6, 3).revealed()
    answer = theory.bound(d, 1000)
    assert (answer.d, answer.L, answer.omax, answer.C, answer.proved) == (0, 6, 3.0, 1.0, True)


@pytest.mark.parametrize("d", [models.position_based(4, 2), models.rank1(3, 4)], ids=["position-based", "rank-1"])
def test_assumption_2_fails_where_products_are_seen(d: Diagram) -> None:
    assert theory.check_monotone(d)[:2] == (True, True)
    answer = theory.check_decomposition(d)
    assert (answer.constant, answer.proved) == (math.inf, True)
    assert theory.max_observations(d).value == 0.0
    assert answer.example is not None
    action, first, second = answer.example
    assert idb.expected_reward(d, action, first) != idb.expected_reward(d, action, second)
    chances = theory.observation_probabilities(d, action, second).rows
    assert sum(float(np.sum(chances[t] * np.abs(first[t] - second[t]))) for t in first) == 0.0
    assert theory.bound(d, 100).value == math.inf


def test_repeated_items_count_once_and_cost_a_factor() -> None:
    d = models.semi_bandit(3, 2, distinct=False)
    assert theory.max_observations(d)[::2] == (2.0, True)
    answer = theory.check_decomposition(d)  # after the action (0, 0), r is twice the mean, which is shown once
    assert answer[:3] == (2.0, True, 2.0)
    assert theory.observation_probabilities(d, {"A1": 1, "A2": 1}).total == 1.0


def test_inverted_cascade_falls_in_attraction() -> None:
    answer = theory.check_monotone(models.cascade_inverted(3, 2))
    assert (answer.holds, answer.signs["attraction"].tolist()) == (True, [-1.0, -1.0, -1.0])


def test_a_reward_that_is_not_monotone_has_examples() -> None:
    d = models.dependent_click(5, 3, reward="clicks")
    answer = theory.check_monotone(d)
    assert (answer.holds, answer.proved) == (False, True)
    assert answer.rises is not None
    assert answer.falls is not None
    for sign, (action, low, high) in ((1, answer.rises), (-1, answer.falls)):
        assert sign * (idb.expected_reward(d, action, high) - idb.expected_reward(d, action, low)) > 1e-6
    assert np.isnan(answer.signs["attraction"]).all()


@pytest.mark.parametrize(
    "constants", [(10, 1.75, 1, 1), (8, 2, 1, 2), (1, 0.001, 1, 50), (1, 0, 0, 1), (0, 0, 0, 1), (1, 0.0, 1.9, 4)]
)
def test_useful_from_is_the_first_useful_number_of_rounds(constants: tuple[int, float, float, float]) -> None:
    rounds = range(1, 20_000)
    trivial = [n for n in rounds if theory.regret_bound(n, *constants) >= n * constants[-1]]
    assert theory.useful_from(*constants) == 1 + max(trivial, default=0)


def test_bounds_that_are_never_useful() -> None:
    assert theory.useful_from(3, 1, math.inf, 1) == math.inf
    assert theory.useful_from(3, 1, 1, 0) == math.inf
    assert theory.bound(models.position_based(4, 2), 100)[-2:] == (200.0, math.inf)


def test_the_papers_bound_exceeds_the_trivial_one() -> None:
    d = models.cascade(10, 3)
    answer = theory.bound(d, 10_000)
    assert round(answer.value) == 10_013
    assert answer.trivial == 10_000
    n = int(answer.useful_from)
    assert theory.bound(d, n).value < n * answer.B
    assert theory.bound(d, n - 1).value >= (n - 1) * answer.B


def test_regret_bound_is_the_last_line_of_the_proof() -> None:
    n, number, omax, constant, reward = 500, 7, 2.5, 1.5, 3.0
    wanted = constant * math.sqrt(6 * number * omax * n * math.log(n) * (1 + math.log(n)))
    wanted += (constant + 2 * math.pi**2 / 3 * reward) * number
    assert theory.regret_bound(n, number, omax, constant, reward) == pytest.approx(wanted)
    assert theory.regret_bound(1, 4, 1, 1, 1) == pytest.approx(4 * (1 + 2 * math.pi**2 / 3))


# -- any diagram -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("make", [lambda seed: without_contexts(seed, two_states=True), gates], ids=["any", "gates"])
def test_proved_results_hold_at_random_means(make: Any, seed: int) -> None:
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
                better = np.where(signs < 0, np.minimum(first[t], second[t]), np.maximum(first[t], second[t]))
                moved = second | {t: np.where(np.isnan(signs), second[t], better)}
                if monotone.proved:
                    rise = expected_reward(d, action, moved) - expected_reward(d, action, second)
                    assert rise >= -1e-9


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("make", [lambda seed: without_contexts(seed, two_states=True), gates], ids=["any", "gates"])
def test_proved_constants_are_never_below_observed_ratios(make: Any, seed: int) -> None:
    model = idb.compile(make(seed))
    for vector in Symmetry(model).actions[:5]:
        survey = Survey(RoundOutcomes(model, vector))
        assert survey.telescope(1e-9) >= survey.ratio(1e-9)[0] - 1e-9


def test_chances_that_depend_on_their_own_mean_count_at_their_lowest() -> None:
    d = Diagram("gate")
    arm, table = d.decision("A", 1), idb.Learned("arm")
    opens = d.latent("Z", [arm], table)
    gate = d.observed("G", [opens], lambda z: 0.5 + 0.25 * z)
    drawn = d.latent("W", [arm], table)
    d.observed("X", [gate, drawn], lambda g, w: g * w)
    d.reward(drawn)
    survey = Survey(RoundOutcomes(idb.compile(d), np.array([0])))
    assert survey.telescope(1e-9) == pytest.approx(2.0)
    assert theory.check_decomposition(d)[:3] == (2.0, True, pytest.approx(2.0))


def test_too_many_kinds_of_actions_are_drawn_and_not_proved() -> None:
    d = Diagram("all differ")
    table = idb.Learned("mean", prior=np.arange(1.0, 25.0).reshape(12, 2))
    product = [d.latent(f"W{k}", [d.decision(f"A{k}", 12)], table) for k in range(4)]
    d.reward(d.observed("X", product, lambda *w: math.prod(w)))
    assert MOST_ACTIONS < 12**4
    assert not theory.max_observations(d).proved
    assert not theory.check_monotone(d).proved
    assert theory.bound(d, 10).omax == 4.0  # as many as there are learned nodes


def test_results_with_many_means_are_not_proved() -> None:
    d = models.cascade(20, 14)
    answer = theory.check_decomposition(d)
    assert not answer.proved
    assert answer.least == pytest.approx(1.0)
    assert theory.check_monotone(d)[:2] == (True, False)


def test_a_reward_that_changes_at_few_means_is_found() -> None:
    d = models.cascade(50, 40)  # after 40 items that attract or not, one more changes next to nothing
    assert set(theory.check_monotone(d).signs["attraction"].tolist()) == {1.0}
    assert theory.check_decomposition(d).constant == pytest.approx(1.0)


def test_diagrams_without_learned_tables_or_decisions() -> None:
    d = Diagram("coin")
    d.reward(d.observed("X", cpd=0.5))
    assert theory.max_observations(d) == (0.0, {}, True)
    assert theory.bound(d, 10) == (0.0, True, 0, 0, 0.0, 0.0, 0.0, 0.0, math.inf)
    d.reward(d.latent("Z"))
    assert theory.check_monotone(d)[:2] == (True, True)
    assert theory.check_decomposition(d)[:2] == (math.inf, True)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: theory.bound(contextual(), 10), DiagramError, "'segment'"),
        (lambda: theory.check_monotone(of_three_states()), DiagramError, "'rating'.* 3 states"),
        (lambda: theory.check_decomposition(of_three_states()), DiagramError, "'rating'.* 3 states"),
        (lambda: theory.regret_bound(0, 1, 1, 1, 1), IdbanditsError, "n .* 0$"),
        (lambda: theory.regret_bound(10, 1, -1, 1, 1), IdbanditsError, "omax .* -1$"),
    ],
)
def test_errors_name_the_argument(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
