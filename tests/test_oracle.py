"""The oracle of learning against itself: bounds, conjugate cases, integrals; and the literal algorithm against it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import roots_legendre
from scipy.stats import beta

import reference
from diagrams import labels, random_diagram, random_given, random_means
from idbandits import Diagram, Learned, models
from idbandits.diagram.tables import Use
from idbandits.reproduction.literal import Literal
from played_rounds import assert_close
from reference import Round


def random_rounds(rng: np.random.Generator, d: Diagram, count: int, unseen: float = 0.0) -> list[Round]:
    """Rounds drawn from a random truth; a share of the observed nodes is not seen."""
    means = random_means(rng, d)
    rounds = []
    for _ in range(count):
        action, context = random_given(rng, d)
        states, p = zip(*reference.joint(d, {**action, **context}, means), strict=True)
        values = states[rng.choice(len(p), p=np.array(p) / sum(p))]
        seen = {n.name: values[n.name] for n in d.of_kind("observed") if rng.random() >= unseen}
        rounds.append(({**action, **context}, seen))
    return rounds


def learning_diagram(seed: int, contexts: bool | None = None) -> Diagram:
    """A random diagram in which a latent node picks the row of a learned table; if wanted, with contexts or without."""
    rng = np.random.default_rng(seed)
    while True:
        d = random_diagram(rng, most_chance=5, most_joint=100)
        latent = {n.name for n in d.of_kind("latent")}
        picks = any(isinstance(n.cpd, Use) and n.cpd.rows is None and latent & {*n.parents} for n in d.nodes.values())
        if picks and (contexts is None or contexts == bool(d.of_kind("context"))):
            return d


def random_alpha(rng: np.random.Generator, d: Diagram) -> dict[str, np.ndarray]:
    return {name: rng.uniform(0.3, 4, size=a.shape) for name, a in reference.prior_of(d).items()}


def rank1(prior: Any = 1.0) -> Diagram:
    d = Diagram("rank-1")
    row = d.latent("Z1", [d.decision("A1", 2)], Learned("row", prior=prior))
    column = d.latent("Z2", [d.decision("A2", 2)], Learned("column", prior=prior))
    d.observed("X", [row, column], lambda r, c: r * c)
    return d


def twice(prior: Any = 1.0) -> Diagram:
    """One table is used twice in a round, by the same row where both decisions are equal."""
    d, table = Diagram("twice"), Learned("table", prior=prior)
    first, second = (d.latent(f"Z{k}", [d.decision(f"A{k}", 2)], table) for k in (1, 2))
    d.observed("X", [first, second], lambda a, b: 0.1 + 0.3 * a + 0.5 * b)
    return d


@pytest.mark.parametrize("seed", range(6))
def test_elbo_never_falls_and_bounds_the_evidence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = learning_diagram(seed)
    rounds = random_rounds(rng, d, 5, unseen=0.3)
    prior, alpha = reference.prior_of(d), random_alpha(rng, d)
    last = -math.inf
    for _ in range(8):
        before = alpha
        alpha, q = reference.variational_step(d, rounds, alpha, prior)
        after_e, after_m = (reference.elbo(d, rounds, a, q, prior) for a in (before, alpha))
        assert last - 1e-9 <= after_e <= after_m + 1e-9
        last = after_m
    two = rounds[:2]
    alpha, q = reference.variational_step(d, two, prior, prior)
    assert reference.elbo(d, two, alpha, q, prior) <= reference.log_evidence(d, two, prior) + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_both_steps_are_maxima_of_the_elbo(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = learning_diagram(seed)
    rounds = random_rounds(rng, d, 3, unseen=0.3)
    prior, start = random_alpha(rng, d), random_alpha(rng, d)
    new, q = reference.variational_step(d, rounds, start, prior)
    best_q, best_alpha = reference.elbo(d, rounds, start, q, prior), reference.elbo(d, rounds, new, q, prior)
    for _ in range(5):
        shaken = [reference.normalised([(z, math.log(p) + rng.normal(scale=0.1)) for z, p in one]) for one in q]
        assert reference.elbo(d, rounds, start, shaken, prior) <= best_q + 1e-9
        other = {name: a * rng.uniform(0.9, 1.1, size=a.shape) for name, a in new.items()}
        assert reference.elbo(d, rounds, other, q, prior) < best_alpha


@pytest.mark.parametrize("seed", range(6))
def test_with_everything_seen_all_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = learning_diagram(seed).revealed()
    rounds = random_rounds(rng, d, 4)
    prior = random_alpha(rng, d)
    exact = reference.exact_step(d, rounds, prior)
    alpha, q = reference.variational_step(d, rounds, random_alpha(rng, d), prior)
    assert_close(alpha, exact, rtol=1e-9)
    assert reference.elbo(d, rounds, alpha, q, prior) == pytest.approx(
        reference.log_evidence(d, rounds, prior), abs=1e-9
    )
    incremental = moments = prior
    for r in rounds:
        incremental = reference.incremental_step(d, r, incremental, iterations=2)
        moments = reference.moments_step(d, r, moments)
    assert_close(incremental, exact, rtol=1e-9)
    assert_close(moments, exact, rtol=1e-9)


def test_elbo_is_the_integral_that_defines_it() -> None:
    d = Diagram("product")
    z1, z2 = d.latent("Z1", cpd=Learned("one", prior=[2.0, 1.5])), d.latent("Z2", cpd=Learned("two"))
    d.observed("X", [z1, z2], lambda a, b: 0.2 + 0.6 * a * b)
    rounds: list[Round] = [({}, {"X": 1}), ({}, {"X": 0})]
    prior = reference.prior_of(d)
    alpha = {"one": np.array([2.5, 3.5]), "two": np.array([2.2, 4.0])}
    _, q = reference.variational_step(d, rounds, prior, prior)
    x, w = roots_legendre(300)
    x, w = (x + 1) / 2, w / 2
    grid = dict(zip(("one", "two"), np.meshgrid(x, x, indexing="ij"), strict=True))
    density = math.prod(beta.pdf(theta, *alpha[t][::-1]) for t, theta in grid.items())
    integrand = sum(beta.logpdf(theta, *prior[t][::-1]) for t, theta in grid.items()) - np.log(density)
    for posterior in q:
        for values, p in posterior:
            log = math.log(reference.known_part(d, values)) - math.log(p)
            for z, t in (("Z1", "one"), ("Z2", "two")):
                log = log + np.log(grid[t] if values[z] else 1 - grid[t])
            integrand = integrand + p * log
    integral = w @ (density * integrand) @ w
    assert reference.elbo(d, rounds, alpha, q, prior) == pytest.approx(integral, abs=1e-6)


def test_incremental_is_variational_inference_of_one_round() -> None:
    rng = np.random.default_rng(0)
    d = models.rank1(2, 3)
    (r,) = random_rounds(rng, d, 1)
    start = random_alpha(rng, d)
    bound = -math.inf
    for iterations in range(1, 6):
        alpha = reference.incremental_step(d, r, start, iterations)
        before = reference.incremental_step(d, r, start, iterations - 1)
        new, q = reference.variational_step(d, [r], before, start)
        assert_close(alpha, new, rtol=1e-9)
        value = reference.elbo(d, [r], alpha, q, start)
        assert bound <= value + 1e-12
        bound = value
    assert sum(a.sum() for a in alpha.values()) == pytest.approx(sum(a.sum() for a in start.values()) + 2)


@pytest.mark.parametrize("make", [rank1, twice])
@pytest.mark.parametrize("prior", [1.0, [2.5, 0.7]])
@pytest.mark.parametrize("a1", [0, 1])
@pytest.mark.parametrize("seen", [{"X": 0}, {"X": 1}, {}])
def test_moments_are_those_of_the_exact_posterior(make: Any, prior: Any, a1: int, seen: dict[str, int]) -> None:
    d = make(prior)
    r = ({"A1": a1, "A2": 1}, seen)
    mean, variance = reference.posterior_moments_by_quadrature(d, [r], points=8)
    for name, a in reference.moments_step(d, r, reference.prior_of(d)).items():
        np.testing.assert_allclose(beta.mean(a[..., 1], a[..., 0]), mean[name], rtol=1e-9)
        np.testing.assert_allclose(beta.var(a[..., 1], a[..., 0]), variance[name], rtol=1e-9)


def test_moments_of_rows_with_three_states() -> None:
    d = Diagram("three states")
    z = d.latent("Z", [d.decision("A", 2)], Learned("table"), states=3)
    d.observed("X", [z], lambda s: [0.1, 0.5, 0.8][s])
    alpha = {"table": np.array([[1.0, 2.0, 3.0], [0.5, 4.0, 2.0]])}
    new = reference.moments_step(d, ({"A": 1}, {"X": 1}), alpha)["table"]
    np.testing.assert_array_equal(new[0], alpha["table"][0])
    a = alpha["table"][1]
    theta = np.random.default_rng(0).dirichlet(a, size=400_000)
    weight = theta @ [0.1, 0.5, 0.8]
    mean = np.average(theta, axis=0, weights=weight)
    trace = np.average((theta - mean) ** 2, axis=0, weights=weight).sum()
    m, s = new[1] / new[1].sum(), new[1].sum()
    np.testing.assert_allclose(m, mean, atol=2e-3)
    assert (m * (1 - m)).sum() / (s + 1) == pytest.approx(trace, rel=1e-2)


def test_quadrature_of_several_rounds_is_the_mixture_over_all_histories() -> None:
    d = rank1(prior=[1.5, 2.0])
    prior = reference.prior_of(d)
    rounds: list[Round] = [({"A1": a, "A2": b}, {"X": x}) for a, b, x in ((0, 0, 0), (0, 1, 1), (1, 1, 0), (0, 0, 0))]
    whole, mean, square = 0.0, dict.fromkeys(prior, 0.0), dict.fromkeys(prior, 0.0)
    for history in itertools.product(*(list(reference.consistent(d, r)) for r in rounds)):
        after = reference.exact_step(d.revealed(), [(z, z) for z in history], prior)
        rows = reference.rows_of(prior)
        p = math.exp(sum(reference.log_beta(after[t][row]) - reference.log_beta(prior[t][row]) for t, row in rows))
        whole += p
        for t, a in after.items():
            s = a.sum(axis=-1)
            mean[t] += p * a[..., 1] / s
            square[t] += p * a[..., 1] * (a[..., 1] + 1) / (s * (s + 1))
    found, variance = reference.posterior_moments_by_quadrature(d, rounds, points=12)
    for t in prior:
        np.testing.assert_allclose(found[t], mean[t] / whole, rtol=1e-9)
        np.testing.assert_allclose(variance[t], square[t] / whole - (mean[t] / whole) ** 2, rtol=1e-9)


@pytest.mark.parametrize(("seed", "contexts"), [(0, False), (1, True), (2, False), (3, True), (4, False), (5, True)])
def test_the_literal_algorithm_is_the_oracle_after_every_round(seed: int, contexts: bool) -> None:
    d = learning_diagram(seed, contexts)
    rounds = random_rounds(np.random.default_rng(seed), d, 20)
    literal = Literal(d)
    alpha = prior = reference.prior_of(d)
    for t, (given, seen) in enumerate(rounds, start=1):
        places = labels(d, dict(given))
        context = {n.name: places.pop(n.name) for n in d.of_kind("context")}
        literal.update(places, labels(d, dict(seen)), context)
        alpha, _ = reference.variational_step(d, rounds[:t], alpha, prior)
        assert_close(literal.alpha, alpha, rtol=1e-9)


def test_the_literal_algorithm_sweeps_and_appends_apart() -> None:
    d = models.cascade(3, 2)
    rounds = random_rounds(np.random.default_rng(0), d, 20)
    literal = Literal(d)
    for given, seen in rounds:
        literal.append(given, seen)
    alpha = prior = reference.prior_of(d)
    assert_close(literal.alpha, prior, rtol=1e-9)
    for _ in range(3):
        literal.sweep()
        alpha, _ = reference.variational_step(d, rounds, alpha, prior)
        assert_close(literal.alpha, alpha, rtol=1e-9)
    with pytest.raises(ValueError, match="probability zero"):
        literal.append({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1})
