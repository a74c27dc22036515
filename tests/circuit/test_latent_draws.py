"""Draws of latent counts: they have the distribution that plain enumeration says.

Error rates: with other seeds, a statistical test would fail for a correct library with a probability of about 1e-6, all
of its seeds together. The seeds are fixed, so it always passes or never does.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import reference
from idbandits.diagram.tables import Use
from internals import place_of
from random_rounds import Round, random_round

ALPHA = 1e-6  # the error rate of a test
SEEDS = [1003, 1005, 1006, 1008, 1010, 1017, 1018, 1022, 1026, 1028, 1031, 1032]  # rounds with 4 to 40 possible counts


def small_round(seed: int) -> Round:
    return random_round(seed, most_chance=5, most_joint=100)


def distribution(r: Round) -> dict[bytes, float]:
    """The probability of each vector of counts, as bytes."""
    probabilities: Counter[bytes] = Counter()
    for counts, p in reference.distribution_of_counts(r.d, r.given, r.seen, r.means).items():
        probabilities[r.as_vector(counts).astype(np.int64).tobytes()] += p
    return dict(probabilities)


def chi_square_tail(x: float, degrees: int) -> float:
    """P(chi-square ≥ x), an odd number of degrees of freedom rounded up: then it is a sum, and no smaller."""
    term, total = math.exp(-x / 2), 0.0
    for i in range((degrees + 1) // 2):
        total += term
        term *= x / 2 / (i + 1)
    return total


@pytest.mark.parametrize("seed", SEEDS)
def test_draws_of_one_round_have_the_joint_distribution(seed: int) -> None:
    """Chi-square over all joint counts, those expected less than 10 times together; 1e-6 over all seeds."""
    number = 20_000
    r = small_round(seed)
    wanted = distribution(r)
    assert 4 <= len(wanted) <= 40
    drawn = Counter(row.tobytes() for row in r.evaluated("literal").draws(1, number, seed))
    assert drawn.keys() <= wanted.keys()  # what is impossible is never drawn
    cells = [(drawn[key], number * p) for key, p in wanted.items() if number * p >= 10]
    seldom = [(drawn[key], number * p) for key, p in wanted.items() if number * p < 10]
    if seldom:
        cells.append((sum(o for o, _ in seldom), max(sum(e for _, e in seldom), 1e-9)))
    statistic = sum((o - e) ** 2 / e for o, e in cells if e >= 1)
    assert chi_square_tail(statistic, len(cells) - 1) > ALPHA / len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_draws_of_many_rounds_have_mean_and_covariance(seed: int) -> None:
    """6 standard errors for means, 8 for covariances, which are less normal: 1e-6 over the some 150 entries of all seeds."""
    number, times = 4_000, 1_000
    r = small_round(seed)
    probabilities = distribution(r)
    vectors = np.array([np.frombuffer(key, dtype=np.int64) for key in probabilities])
    p = np.array([*probabilities.values()])
    mean = p @ vectors
    covariance = (vectors - mean).T @ ((vectors - mean) * p[:, None])
    drawn = r.evaluated("literal").draws(times, number, seed)
    sd = np.sqrt(times * np.diag(covariance))
    assert (np.abs(drawn.mean(axis=0) - times * mean) <= 6 * sd / math.sqrt(number) + 1e-9).all()
    centred = drawn - drawn.mean(axis=0)
    scatter = centred.T @ centred / number
    slack = 8 * np.sqrt(2 / number) * np.outer(sd, sd) + 1e-9
    assert (np.abs(scatter - times * covariance) <= slack).all()
    assert (np.abs(covariance) > 0).any()


@pytest.mark.parametrize("times", [0, 1, 7, 10**12])
@pytest.mark.parametrize("seed", range(20))
def test_draws_conserve_counts_and_are_never_impossible(seed: int, times: int) -> None:
    r = random_round(seed)
    literal = r.evaluated("literal")
    counts = literal.draws(times, 3, seed)
    uses = Counter(n.cpd.name for n in r.d.nodes.values() if isinstance(n.cpd, Use))
    for name, table in r.d.learned.items():
        start = place_of(r.d, name, (0,) * (len(table.shape) + 1))
        assert (counts[:, start : start + table.size].sum(axis=1) == times * uses[name]).all()
    expected = literal.weighted_counts() / literal.root
    assert (counts[:, expected == 0] == 0).all()
    assert (counts >= 0).all()
    np.testing.assert_array_equal(counts, literal.draws(times, 3, seed))  # the same seed, the same draws
    if times == 10**12:  # an entry's count has a standard deviation below 8 / 2 * 1e6
        np.testing.assert_allclose(counts, np.broadcast_to(times * expected, counts.shape), atol=6.5 * 4e6)


def test_another_seed_gives_other_draws() -> None:
    literal = small_round(SEEDS[0]).evaluated("literal")
    assert (literal.draws(10**6, 1, 0) != literal.draws(10**6, 1, 1)).any()
