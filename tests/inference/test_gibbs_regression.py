"""Regressions along chains: intervals of rows hold what they say, and draws are those of the exact posterior."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import idbandits as idb
from idbandits import models
from idbandits.diagram.features.design import INTERCEPT_SD, LOG_STRENGTH_SD, SLOPES_SD, STRENGTH
from idbandits.diagram.tables import prior_means
from idbandits.inference.regression.density import LOG_STRENGTHS
from idbandits.inference.regression.fit import SCALES


def covered(seed: int, items: int, positions: int, columns: int, rounds: int) -> tuple[float, float]:
    """The part of rows whose means are in their intervals of 90 %, in a world that is drawn from the prior."""
    rng = np.random.default_rng(seed)
    d = models.position_based(items, positions, features={"attraction": rng.normal(size=(items, columns))})
    means = prior_means(d.learned, rng)
    lists = np.array([rng.permutation(items)[:positions] for _ in range(rounds)])
    clicks = rng.random(lists.shape) < means["attraction"][lists] * means["examination"]
    agent = idb.Thompson(d, "gibbs", seed=seed)
    places = range(positions)
    agent.update_many(
        {f"A{k + 1}": lists[:, k] for k in places}, {f"C{k + 1}": clicks[:, k].astype(int) for k in places}
    )
    parts = []
    for name, belief in agent.posterior().items():
        low, high = belief.quantile(np.array([0.05, 0.95]))
        parts.append(((low <= means[name]) & (means[name] <= high)).mean())
    return parts[0], parts[1]


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Coverage was .915 and .895 in 200 worlds, and .54 and .64 with a regression that is fitted once.

    Parts of worlds have a standard deviation of .09 (rows) and .17 (positions): 4 standard errors, below 1e-4.
    """
    worlds = 60
    rows, places = np.mean([covered(seed, 20, 3, 4, 300) for seed in range(worlds)], axis=0)
    assert abs(rows - 0.915) < 4 * 0.09 / np.sqrt(worlds)
    assert abs(places - 0.90) < 4 * 0.17 / np.sqrt(worlds)


X = np.array([-1.2, -0.4, 0.5, 1.1])
CLICKS, SHOWN = np.array([1, 0, 4, 3]), np.array([6, 3, 7, 3])


@functools.cache
def drawn() -> np.ndarray:
    """Draws of a chain for a table where all is seen."""
    d = idb.Diagram("seen")
    d.reward(d.observed("C", [d.decision("A", 4)], idb.Learned("click", features=X)))
    agent = idb.Thompson(d, "gibbs", seed=0)
    agent.update_many(
        {"A": np.repeat(np.arange(4), SHOWN)},
        {"C": np.concatenate([np.arange(n) < c for c, n in zip(CLICKS, SHOWN, strict=True)]).astype(int)},
    )
    return np.asarray(agent.draws(20_000)["click"])


def test_draws_are_those_of_the_exact_posterior() -> None:
    """By importance: parameters are drawn from their prior, and weighted with the probability of the counts."""
    from scipy.special import betaln

    rng, number = np.random.default_rng(1), 1_000_000
    squares = 2.0 / rng.chisquare(2.0, number)
    scale = np.sqrt(squares)
    inside = (scale >= SCALES[0]) & (scale <= SCALES[1])
    design = (X - X.mean()) / X.std()
    logits = rng.normal(0, INTERCEPT_SD, (number, 1)) + (SLOPES_SD * scale * rng.normal(size=number))[:, None] * design
    logits = np.clip(logits, -30, 30)
    strength = np.exp(np.clip(rng.normal(np.log(STRENGTH * 2), LOG_STRENGTH_SD, number), *LOG_STRENGTHS))[:, None]
    one = np.maximum(strength / (1 + np.exp(-logits)), 1e-3)
    other = np.maximum(strength / (1 + np.exp(logits)), 1e-3)
    logs = (betaln(one + CLICKS, other + SHOWN - CLICKS) - betaln(one, other)).sum(axis=1)
    weights = np.where(inside, np.exp(logs - logs.max()), 0.0)
    weights /= weights.sum()
    total = one + other + SHOWN
    first = (one + CLICKS) / total
    second = first * (one + CLICKS + 1) / (total + 1)
    mean = weights @ first
    sd = np.sqrt(weights @ second - mean**2)
    draws = drawn()
    # 20,000 draws with an autocorrelation time below 10, and more than 10,000 effective draws by importance: 4 means and
    # 4 deviations, each within 5 standard errors of sd / sqrt(1,500): below 1e-5
    assert 1 / (weights**2).sum() > 10_000
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * sd.max() / np.sqrt(1_500))
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=5 / np.sqrt(2 * 1_500))


@pytest.mark.parametrize("seed", range(2))
def test_coefficients_have_the_uncertainty_of_latent_counts(seed: int) -> None:
    """If nothing identifies the scale, the constant of a regression is as uncertain as the scale."""
    rng, items = np.random.default_rng(seed), 30
    d = models.position_based(items, 2, features={"attraction": rng.normal(size=items)})
    agent = idb.Thompson(d, "gibbs", seed=seed)
    lists = np.array([rng.permutation(items)[:2] for _ in range(1000)])
    clicks = rng.random(lists.shape) < 0.3 * 0.5
    agent.update_many({"A1": lists[:, 0], "A2": lists[:, 1]}, {f"C{k + 1}": clicks[:, k].astype(int) for k in range(2)})
    belief = agent.posterior()
    regression, examination = belief["attraction"].regression, belief["examination"]
    low, high = regression.quantile(np.array([0.05, 0.95]))
    # attraction is .15 / examination: so the logit of attraction is as uncertain as the logarithm of examination
    near, far = examination.quantile(np.array([0.05, 0.95]))
    assert high[0] - low[0] > 0.8 * np.log(far / near).min() > 0.3
