"""Variational inference against the oracle: the same pseudo-counts and the same bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import NAMED, random_learning_diagram, same_table_twice, three_states
from inferences import diagram_of
from internals import learn_without_settling, settle
from played_rounds import Played, alpha_of, assert_close, learn, play, rounds_of

LITERAL = {"start": "prior", "literal": True}


def steps(d: idb.Diagram, rounds: list[reference.Round], alpha: reference.Alpha, number: int) -> reference.Alpha:
    for _ in range(number):
        alpha, _ = reference.variational_step(d, rounds, alpha, reference.prior_of(d))
    return alpha


@pytest.mark.parametrize("sweeps", [1, 3])
@pytest.mark.parametrize("make", [*NAMED, *range(30)])
def test_literal_variational_is_the_oracle_after_every_round(
    make: Callable[[], idb.Diagram] | int, sweeps: int
) -> None:
    d = diagram_of(make)
    rng = np.random.default_rng(1)
    agent = idb.Thompson(d, idb.Variational(sweeps, **LITERAL), seed=0)
    played = play(d, rng, 7, unseen=0.25)
    alpha: reference.Alpha = reference.prior_of(d)
    for t, p in enumerate(played, start=1):
        learn(agent, [p])
        alpha = steps(d, rounds_of(played[:t]), alpha, sweeps)
        assert_close(alpha_of(agent), alpha)
        assert agent.rounds == t


@pytest.mark.parametrize("make", [*NAMED, *range(12)])
def test_elbo_is_that_of_the_oracle(make: Callable[[], idb.Diagram] | int) -> None:
    d = diagram_of(make)
    played = play(d, np.random.default_rng(2), 6, unseen=0.25)
    prior = reference.prior_of(d)
    agent = idb.Thompson(d, idb.Variational(**LITERAL), seed=0)
    assert agent.elbo() == 0.0
    alpha: reference.Alpha = prior
    for t, p in enumerate(played, start=1):
        learn(agent, [p])
        alpha, q = reference.variational_step(d, rounds_of(played[:t]), alpha, prior)
        wanted = reference.elbo(d, rounds_of(played[:t]), alpha, q, prior)
        assert agent.elbo() == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.parametrize("make", [*NAMED, *range(12)])
def test_elbo_never_falls_and_stays_below_the_evidence(make: Callable[[], idb.Diagram] | int, literal: bool) -> None:
    d = diagram_of(make)
    played = play(d, np.random.default_rng(3), 8, unseen=0.25)
    agent = idb.Thompson(d, idb.Variational(start="prior", literal=literal), seed=0)
    learn_and_settle_once(agent, played[:2])
    assert agent.elbo() <= reference.log_evidence(d, rounds_of(played[:2]), reference.prior_of(d)) + 1e-9
    learn_and_settle_once(agent, played[2:])
    bounds = [agent.elbo()]
    for _ in range(30):
        settle(agent)
        bounds.append(agent.elbo())
    assert (np.diff(bounds) >= -1e-9).all()


def learn_and_settle_once(agent: idb.Thompson, played: list[Played]) -> None:
    for p in played:
        learn_without_settling(agent, p.action, p.observation, p.context)
    settle(agent)


@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_elbo_is_the_evidence_where_everything_was_seen(seed: int, literal: bool) -> None:
    hidden = random_learning_diagram(seed)
    d = hidden.revealed()
    played = play(d, np.random.default_rng(seed), 6, world=hidden)
    agent = learn(idb.Thompson(d, idb.Variational(literal=literal), seed=0), played)
    wanted = reference.log_evidence(d, rounds_of(played), reference.prior_of(d))
    assert agent.elbo() == pytest.approx(wanted, rel=1e-10, abs=1e-9)


@pytest.mark.parametrize("make", [same_table_twice, three_states])
def test_folding_changes_nothing_where_there_is_nothing_to_fold(make: Callable[[], idb.Diagram]) -> None:
    d = make()
    played = play(d, np.random.default_rng(0), 30)
    folded, literal = (
        learn(idb.Thompson(d, idb.Variational(2, start="prior", literal=x), seed=0), played) for x in (False, True)
    )
    assert_close(alpha_of(folded), alpha_of(literal), rtol=1e-11)
    assert folded.elbo() == pytest.approx(literal.elbo(), rel=1e-11)


@pytest.mark.parametrize("model", [idb.models.cascade, idb.models.cascade_inverted])
def test_folding_makes_the_cascade_exact(model: Callable[..., idb.Diagram]) -> None:
    d = model(4, 3)
    played = play(d, np.random.default_rng(0), 40)
    exact, folded, literal = (
        learn(idb.Thompson(d, x, seed=0), played)
        for x in ("exact", idb.Variational(), idb.Variational(start="prior", literal=True))
    )
    assert_close(alpha_of(folded), alpha_of(exact), rtol=1e-12)
    assert alpha_of(folded)["attraction"].sum() < 8 + 3 * 40  # some positions were not examined
    assert alpha_of(literal)["attraction"].sum() == pytest.approx(8 + 3 * 40)  # each has a made-up count


def test_a_symmetric_start_is_left_by_default() -> None:
    d = idb.models.cascade(2, 2, learn_conditionals=True)
    played = play(d, np.random.default_rng(0), 10)
    by_prior, by_chance = (
        alpha_of(learn(idb.Thompson(d, idb.Variational(start=s, literal=True), seed=0), played))["click"]
        for s in ("prior", "warm")
    )
    np.testing.assert_allclose(by_prior[0, 1], by_prior[1, 1])  # whether an item attracted makes no difference
    assert abs(by_chance[0, 1] - by_chance[1, 1]).max() > 1e-3


def test_a_random_start_forgets_the_last_belief() -> None:
    d = idb.models.rank1(2, 2)
    played = play(d, np.random.default_rng(4), 12)
    agents = [learn(idb.Thompson(d, idb.Variational(start="random", literal=True), seed=s), played) for s in (0, 0, 1)]
    first, same, other = (alpha_of(a) for a in agents)
    assert_close(first, same, rtol=0)
    assert abs(first["row"] - other["row"]).max() > 1e-4
    assert sum(a.sum() for a in first.values()) == pytest.approx(8 + 2 * 12)


def test_sweeps_end_where_the_bound_rises_no_more() -> None:
    d = idb.models.rank1(2, 2)
    played = play(d, np.random.default_rng(5), 30)
    soon, later, never = (
        idb.Thompson(d, idb.Variational(50, tolerance, **LITERAL), seed=0) for tolerance in (10.0, 1e-12, 0.0)
    )
    for agent in (soon, later, never):
        learn_and_settle_once(agent, played)
    assert_close(alpha_of(soon), steps(d, rounds_of(played), reference.prior_of(d), 2))
    assert_close(alpha_of(later), alpha_of(never), rtol=1e-3)
    assert abs(alpha_of(soon)["row"] - alpha_of(never)["row"]).max() > 1e-2
