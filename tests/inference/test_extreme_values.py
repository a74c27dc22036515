"""Extreme priors, counts, worlds and numbers, for every inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import idbandits as idb
import reference
from diagrams import random_learning_diagram
from idbandits import models
from inferences import INFERENCES, agent_of, every, position_based, position_based_world, taught, those
from internals import EDGE, digamma_less_log, learn_repeatedly
from played_rounds import alpha_of, assert_close, learn, play

# -- priors --------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("prior", [1e-9, 1e-6, 1e6, 1e15, [1e-9, 1e15], [1e15, 1e-9], [1e12, 1e-3]], ids=str)
def test_extreme_priors_are_survived(name: str, prior: Any) -> None:
    d = idb.Diagram("extreme")
    row = d.latent("Z1", [d.decision("A1", 3)], idb.Learned("row", prior=prior))
    column = d.latent("Z2", [d.decision("A2", 2)], idb.Learned("column", prior=prior))
    third = d.latent("Z3", [row], idb.Learned("third", prior=prior if np.ndim(prior) == 0 else [*prior, 1.0]), states=3)
    d.reward(d.observed("X", [row, column], lambda r, c: r * c))
    d.observed("Y", [third, column], lambda t, c: 0.2 + 0.3 * t * c if c else 0.5)
    seen_all = INFERENCES[name].revealed
    agent = agent_of(name, d)
    rng = np.random.default_rng(0)
    for t in range(40):
        action = agent.act()
        z1, z2, z3 = int(rng.integers(2)), int(rng.integers(2)), int(rng.integers(3))
        seen = {"X": z1 * z2, "Y": t % 2}
        agent.update(action, seen | ({"Z1": z1, "Z2": z2, "Z3": z3} if seen_all else {}))
        means = agent.sample()
        assert all(np.isfinite(m).all() and ((m >= 0) & (m <= 1)).all() for m in means.values())
    for p in agent.posterior().values():
        assert np.isfinite(p.alpha).all()
        assert (p.alpha > 0).all()
        assert np.isfinite(p.mean).all()
        assert np.isfinite(p.sd).all()
        quantiles = p.quantile(np.array([0, 0.05, 0.5, 0.95, 1]))
        assert np.isfinite(quantiles).all()
        assert (np.diff(quantiles, axis=0) >= 0).all()
    if isinstance(agent.inference, idb.Variational):
        assert np.isfinite(agent.elbo())
    idb.World(d, idb.theory.prior_means(d, rng))  # which checks them


@pytest.mark.parametrize("prior", [1e-6, 1e-3, 1e6, 1e12])
@pytest.mark.parametrize("seed", range(8))
def test_extreme_priors_are_what_they_are_to_the_oracle(seed: int, prior: float) -> None:
    saved = random_learning_diagram(seed).to_dict()
    for table in saved["learned"]:
        table["prior"] = prior
    d = idb.Diagram.from_dict(saved)
    variational = idb.Thompson(d, idb.Variational(start="prior", literal=True), seed=0)
    incremental = idb.Thompson(d, idb.Incremental(3, literal=True), seed=0)
    first = after = reference.prior_of(d)
    one: reference.Alpha = first
    played = play(d, np.random.default_rng(seed), 5, unseen=0.25)
    for t, p in enumerate(played, start=1):
        learn(variational, [p])
        learn(incremental, [p])
        after, _ = reference.variational_step(d, [x.round for x in played[:t]], after, first)
        one = reference.incremental_step(d, p.round, one, 3)
        assert_close(alpha_of(variational), after, rtol=1e-6)  # expected logarithms of -1e6 are good to 1e-10
        assert_close(alpha_of(incremental), one, rtol=1e-6)


@pytest.mark.parametrize(("seed", "prior"), [(10, 0.02), (18, 0.02), (21, 0.02), (10, 0.1), (3, 0.3), (4, 0.1)])
def test_ep_stays_proper_with_small_priors(seed: int, prior: float) -> None:
    saved = random_learning_diagram(seed).to_dict()
    for table in saved["learned"]:
        table["prior"] = prior
    d = idb.Diagram.from_dict(saved)
    agent = idb.Thompson(d, "ep", seed=0)
    for p in play(d, np.random.default_rng(seed), 150, unseen=0.2):
        learn(agent, [p])
        assert all((a > 0).all() and np.isfinite(a).all() for a in alpha_of(agent).values())


# -- numbers of rounds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exact", "own", "variational", "literal", "gibbs", "ep"])
def test_a_billion_rounds_are_counted(name: str) -> None:
    d = idb.models.rank1(2, 2)
    agent = agent_of(name, d)
    hidden = {"Z1": 1, "Z2": 1} if INFERENCES[name].revealed else {}
    for _ in range(3):
        learn_repeatedly(agent, {"A1": 0, "A2": 1}, {"X": 1} | hidden, 10**9)
    learn_repeatedly(agent, {"A1": 1, "A2": 1}, {"X": 0} | (hidden | {"Z1": 0} if hidden else {}), 10**9)
    for _ in range(20):
        agent.update({"A1": 1, "A2": 1}, {"X": 0} | (hidden | {"Z1": 0} if hidden else {}))
    assert agent.rounds == 4 * 10**9 + 20
    means = {table: p.mean for table, p in agent.posterior().items()}
    assert means["row"][0] == pytest.approx(1, abs=1e-6)
    assert means["column"][1] == pytest.approx(1, abs=0.01 if not hidden else 1e-6)
    assert means["row"][1] == pytest.approx(0, abs=0.01 if not hidden else 1e-6)
    assert all(np.isfinite(m).all() for m in agent.sample().values())


@those(conjugate=True)
def test_thousands_of_rounds_at_once_find_the_truth(name: str) -> None:
    agent = agent_of(name, position_based())
    rng = np.random.default_rng(6)
    world = position_based_world(7)
    actions = [dict(zip(("A1", "A2"), rng.permutation(4)[:2].tolist(), strict=True)) for _ in range(4000)]
    seen = [world.step(a).seen_by(agent.diagram) for a in actions]
    agent.update_many({k: [a[k] for a in actions] for k in ("A1", "A2")}, {k: [s[k] for s in seen] for k in seen[0]})
    attraction, examination = (agent.posterior()[t].mean for t in ("attraction", "examination"))
    # clicks are sure: 1000 rounds per item and position, standard errors of at most 0.016; 6 of them, 8 comparisons
    np.testing.assert_allclose(
        np.outer(attraction, examination), np.outer(world.means["attraction"], [0.9, 0.4]), atol=0.1
    )


# -- small and certain worlds --------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize(("items", "positions"), [(1, 1), (5, 1), (3, 3)])
@pytest.mark.parametrize("make", [models.cascade, models.position_based, models.semi_bandit])
def test_one_item_one_position_or_as_many_items_as_positions(make: Any, items: int, positions: int, name: str) -> None:
    agent = taught(name, make(items, positions), 30)
    assert agent.rounds == 30
    assert len(set(agent.act().values())) == positions
    assert all(np.isfinite(p.alpha).all() for p in agent.posterior().values())


@every
def test_a_world_of_certainties(name: str) -> None:
    d = position_based()
    agent = agent_of(name, d, seed=1)
    world = idb.World(d, {"attraction": [0.0, 1.0, 0.0, 1.0], "examination": [1.0, 0.0]}, seed=0)
    last = []
    for t in range(300):
        action = agent.act()
        outcome = world.step(action)
        agent.update(action, outcome.seen_by(agent.diagram))
        if t >= 200:
            last.append(outcome.reward)
    assert np.mean(last) > 0.8  # one good item in front; a third of all actions do that, so chance would give 0.5
    assert all(np.isfinite(p.alpha).all() for p in agent.posterior().values())


# -- numbers -------------------------------------------------------------------------------------------------------


def test_digamma_less_the_logarithm() -> None:
    x = np.geomspace(1e-8, 1e15, 500)
    values = np.array([digamma_less_log(v) for v in x])
    small = x < 1e4
    wanted = special.digamma(x[small]) - np.log(x[small])
    error = 1e-13 * (1 + abs(wanted) + abs(np.log(x[small])))  # of the difference that scipy can give
    assert (abs(values[small] - wanted) < error).all()
    large = x[~small]
    np.testing.assert_allclose(values[~small], -1 / (2 * large) - 1 / (12 * large**2), rtol=1e-13)
    np.testing.assert_allclose(values[x < 1e-6], -1 / x[x < 1e-6], rtol=2e-5)


@pytest.mark.parametrize("x", [-1e308, -1e6, -0.5, 0.0, -np.inf, np.inf, np.nan])
def test_what_has_no_digamma_ends(x: float) -> None:
    with np.errstate(all="ignore"):
        assert not digamma_less_log(np.float64(x)) < 0 or x > 0


def test_small_pseudo_counts_beside_large_ones_have_a_spread() -> None:
    d = idb.Diagram("uneven")
    d.reward(d.observed("X", [d.decision("A", 1)], idb.Learned("X", prior=[1e-9, 1e9, 2e-9]), states=3))
    posterior = idb.Thompson(d, "exact").posterior()["X"]
    assert (posterior.sd > 0).all()
    np.testing.assert_allclose(posterior.sd[0, 1], np.sqrt(3e-18) / np.sqrt(1e9), rtol=1e-6)
    assert np.isfinite(posterior.quantile(0.5)).all()


@pytest.mark.parametrize("q", [-0.1, 1.1, np.nan, None, "0.5", 0.5j, [0.5, [0.5]], np.ma.masked, {0.5}])
def test_what_is_not_a_probability_has_no_quantile(q: Any) -> None:
    with pytest.raises(idb.errors.IdbanditsError, match="quantiles must be at probabilities"):
        idb.Thompson(models.semi_bandit(3, 1), "exact").posterior()["mean"].quantile(q)


SHAPES = [1e-3, 0.05, 0.5, 1.0, 1.5, 30.0, 1e6]


def drawn(prior: list[float], number: int = 20_000) -> np.ndarray:
    """Draws of one Dirichlet row: those of a table with many equal ones."""
    d = idb.Diagram("draws")
    states = len(prior)
    d.reward(d.observed("X", [d.decision("A", number)], idb.Learned("means", prior=prior), states=states))
    return idb.Thompson(d, "exact", seed=8).sample()["means"]


@pytest.mark.parametrize("b", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("a", SHAPES)
def test_draws_of_two_states_are_beta_distributed(a: float, b: float) -> None:
    x = np.sort(drawn([b, a]))
    assert ((x > 0) & (x < 1)).all()
    p = stats.beta.cdf(x, a, b)
    steps = np.arange(len(x) + 1) / len(x)
    distance = np.maximum(abs(p - steps[1:]), abs(p - steps[:-1]))
    # sqrt(log(2 / 1e-6) / 2n) = 0.019 is passed with probability 1e-6; nearer to 0 and 1, draws are moved inside
    assert distance[(x > 4 * EDGE) & (x < 1 - 4 * EDGE)].max(initial=0.0) < 0.019
    sd = stats.beta.std(a, b)
    assert abs(x.mean() - a / (a + b)) < 5 * sd / np.sqrt(len(x)) + EDGE  # 5 standard errors: 21 times 6e-7


@pytest.mark.parametrize("prior", [[1e-3, 1e-3, 1.0], [0.05, 0.5, 1.5], [1.0, 1.0, 1.0, 1.0], [30.0, 1e6, 0.5]])
def test_draws_of_more_states_are_dirichlet_distributed(prior: list[float]) -> None:
    x = drawn(prior)
    np.testing.assert_allclose(x.sum(axis=-1), 1, rtol=1e-12)
    assert ((x > 0) & (x <= 1)).all()
    for i, a in enumerate(prior):
        ordered = np.sort(x[:, i])
        p = stats.beta.cdf(ordered, a, sum(prior) - a)
        steps = np.arange(len(p) + 1) / len(p)
        distance = np.maximum(abs(p - steps[1:]), abs(p - steps[:-1]))
        inside = (ordered > 4 * EDGE) & (ordered < 1 - 4 * EDGE)
        assert distance[inside].max(initial=0.0) < 0.019  # as above
