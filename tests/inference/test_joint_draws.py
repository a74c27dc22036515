"""Joint draws of all means from the belief, for every inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import idbandits as idb
from diagrams import in_context, three_states
from idbandits.errors import IdbanditsError
from inferences import INFERENCES, agent_of, every, position_based, taught
from internals import knowledge
from played_rounds import learn_at_once, play


@every
def test_draws_have_the_shapes_of_their_tables(name: str) -> None:
    for d in (in_context(), three_states(), position_based()):
        agent = taught(name, d)
        for number in (1, 7):
            draws = agent.draws(number)
            assert draws.keys() == agent.diagram.learned.keys()
            for t in agent.diagram.learned.values():
                assert draws[t.name].shape == (number, *t.means_shape)
                assert ((draws[t.name] > 0) & (draws[t.name] < 1)).all()
                if t.states > 2:
                    np.testing.assert_allclose(draws[t.name].sum(axis=-1), 1, rtol=1e-9)


@every
def test_draws_do_not_disturb_the_agent(name: str) -> None:
    agent = taught(name, position_based())
    twin, before = agent.copy(), knowledge(agent)
    first = agent.draws(50)
    assert knowledge(agent) == before
    again = agent.draws(50)
    assert all((first[table] == again[table]).all() for table in first)
    for _ in range(5):
        assert agent.act() == twin.act()
        agent.draws(3)
    agent.update({"A1": 0, "A2": 1}, {n.name: 1 for n in agent.diagram.of_kind("observed")})
    other = agent.draws(50)
    assert any((first[table] != other[table]).any() for table in first)


@every
def test_draws_are_of_the_belief(name: str) -> None:
    number = 4000
    agent = taught(name, three_states(), 20)
    draws, time = agent.draws(number), 40 if INFERENCES[name].sampled else 1
    for table, p in agent.posterior().items():
        # 15 means of 10 inferences, 6 standard errors each, both sides chains with an autocorrelation time of at most
        # 40 where they are samples: below 1e-6
        error = p.sd * np.sqrt(time * (2 if time > 1 else 1) / number)
        assert (abs(draws[table].mean(axis=0) - p.mean) < 6 * error).all()
        np.testing.assert_allclose(draws[table].std(axis=0), p.sd, rtol=0.12 if time == 1 else 0.3)


@pytest.mark.parametrize("name", ["gibbs"])
def test_draws_at_one_place_belong_together(name: str) -> None:
    d = idb.models.rank1(1, 1)
    agent = agent_of(name, d)
    clicks = np.arange(400) % 4 == 0
    agent.update_many({"A1": np.zeros(400, int), "A2": np.zeros(400, int)}, {"X": clicks.astype(int)})
    draws = agent.draws(4000)
    row, column = draws["row"][:, 0], draws["column"][:, 0]
    product, apart = row * column, row * np.random.default_rng(0).permutation(column)
    assert product.var() < apart.var() / 10
    assert product.mean() == pytest.approx(0.25, abs=0.02)
    # of a beta distribution, as if the product was the mean of a single node: the prior of a product is nearly flat
    assert product.std() == pytest.approx(np.sqrt(0.25 * 0.75 / 400), rel=0.2)
    assert np.corrcoef(row, column)[0, 1] < -0.7


def test_a_chain_of_draws_has_the_marginals_of_independent_chains() -> None:
    d = idb.models.rank1(2, 2)
    played = play(d, np.random.default_rng(8), 30)
    chains = [learn_at_once(idb.Thompson(d, "gibbs", seed=s), played).draws(400) for s in range(40)]
    ends = {table: np.array([c[table][-1] for c in chains]) for table in d.learned}
    for table in d.learned:
        whole = np.concatenate([c[table] for c in chains])
        # 40 independent draws: 5 standard errors, with t of 39 degrees of freedom: 4 comparisons, below 6e-5
        error = ends[table].std(axis=0, ddof=1) / np.sqrt(len(chains))
        assert (abs(ends[table].mean(axis=0) - whole.mean(axis=0)) < 5 * error).all()


@every
@pytest.mark.parametrize("number", [0, -1, 1.5, 10**12, None, "3", float("nan"), float("inf"), [1]], ids=str)
def test_what_is_not_a_number_of_draws_is_rejected(name: str, number: Any) -> None:
    agent = taught(name, position_based())
    before = knowledge(agent)
    with pytest.raises(IdbanditsError, match="the number of draws"):
        agent.draws(number)
    assert knowledge(agent) == before
