"""Means drawn from priors have the shapes of means and the priors' moments."""

from __future__ import annotations

import numpy as np

from idbandits import Diagram, Learned
from idbandits.diagram.tables import prior_means


def test_means_have_the_moments_of_the_prior() -> None:
    d = Diagram("coins and ratings")
    arm = d.decision("arm", 2)
    d.observed("coin", [arm], Learned("coin", prior=[[1, 3], [5, 1]]))
    d.observed("rating", [arm], Learned("rating", prior=[2, 1, 5]), states=3)
    d.observed("weather", cpd=Learned("weather", prior=[1, 2]))
    rng = np.random.default_rng(0)
    draws = [prior_means(d.learned, rng) for _ in range(4000)]
    assert [(name, m.shape) for name, m in draws[0].items()] == [("coin", (2,)), ("rating", (2, 3)), ("weather", ())]
    for name, table in d.learned.items():
        drawn = np.array([means[name] for means in draws])
        total = table.prior.sum(axis=-1, keepdims=True)
        mean = table.prior / total
        variance = mean * (1 - mean) / (total + 1)
        if table.states == 2:
            mean, variance = mean[..., 1], variance[..., 1]
        else:
            np.testing.assert_allclose(drawn.sum(axis=-1), 1)
        assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(variance / len(draws))).all()
        np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.15)
