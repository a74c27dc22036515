"""Inferences that learn from one round at a time, incremental and moments, against the oracle after every round."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
import reference
from diagrams import NAMED, same_table_twice
from idbandits.errors import IdbanditsError
from inferences import diagram_of
from played_rounds import alpha_of, assert_close, learn, play


@pytest.mark.parametrize("make", [*NAMED, *range(30)])
def test_literal_incremental_is_the_oracle(make: Callable[[], idb.Diagram] | int) -> None:
    d = diagram_of(make)
    agent = idb.Thompson(d, idb.Incremental(literal=True), seed=0)
    for p in play(d, np.random.default_rng(6), 5, unseen=0.25):
        wanted = reference.incremental_step(d, p.round, alpha_of(agent), 30)
        learn(agent, [p])
        assert_close(alpha_of(agent), wanted, rtol=1e-5, atol=1e-5)  # it stops when counts move by less than 1e-6


def test_incremental_takes_as_many_iterations_as_its_setting_says() -> None:
    d = same_table_twice()
    for iterations in (1, 2, 4):
        agent = idb.Thompson(d, idb.Incremental(iterations, literal=True), seed=0)
        alpha: reference.Alpha = reference.prior_of(d)
        for p in play(d, np.random.default_rng(7), 6):
            learn(agent, [p])
            alpha = reference.incremental_step(d, p.round, alpha, iterations)
            assert_close(alpha_of(agent), alpha)


@pytest.mark.parametrize("make", [same_table_twice, lambda: idb.models.position_based(3, 2, distinct=False)])
def test_a_random_start_of_one_round_is_a_start_only(make: Callable[[], idb.Diagram]) -> None:
    d = make()
    played = play(d, np.random.default_rng(7), 20)
    warm, anew = (idb.Thompson(d, idb.Incremental(30, start, literal=True), seed=0) for start in ("warm", "random"))
    once = [learn(idb.Thompson(d, idb.Incremental(1, "random"), seed=s), played) for s in (0, 0, 1)]
    for p in played:
        before = alpha_of(anew)
        learn(anew, [p])
        wanted = reference.incremental_step(d, p.round, before, 30)
        if p is played[0]:  # the same fixed point from elsewhere
            learn(warm, [p])
            assert_close(alpha_of(anew), alpha_of(warm), rtol=1e-4, atol=1e-4)
        for name, counts in alpha_of(anew).items():  # the round counts once, wherever it began
            assert counts.sum() == pytest.approx(wanted[name].sum(), rel=1e-9)
    first, same, other = map(alpha_of, once)
    assert_close(first, same, rtol=0)
    assert any(abs(first[name] - other[name]).max() > 1e-4 for name in first)


@pytest.mark.parametrize("start", ["prior", "", None, ["warm"]])
def test_other_starts_are_rejected(start: Any) -> None:
    with pytest.raises(IdbanditsError, match=re.escape(f"start must be one of 'warm', 'random', got {start!r}")):
        idb.Incremental(start=start)


@pytest.mark.parametrize("make", [*NAMED, *range(60)])
def test_moments_are_those_of_the_oracle_after_every_round(make: Callable[[], idb.Diagram] | int) -> None:
    d = diagram_of(make)
    agent = idb.Thompson(d, "moments", seed=0)
    alpha: reference.Alpha = alpha_of(agent)  # the prior, or a little off where it is symmetric
    for p in play(d, np.random.default_rng(8), 7, unseen=0.25):
        learn(agent, [p])
        alpha = reference.moments_step(d, p.round, alpha)
        assert_close(alpha_of(agent), alpha)


def test_moments_of_one_item_at_both_positions() -> None:
    d = idb.models.position_based(3, 2, distinct=False)
    agent = idb.Thompson(d, "moments", seed=0)
    alpha: reference.Alpha = reference.prior_of(d)
    for c1, c2 in ((0, 0), (1, 0), (0, 1), (1, 1), (0, None)):
        agent.update({"A1": 1, "A2": 1}, {"C1": c1, "C2": c2})
        seen = {name: c for name, c in (("C1", c1), ("C2", c2)) if c is not None}
        alpha = reference.moments_step(d, ({"A1": 1, "A2": 1}, seen), alpha)
        assert_close(alpha_of(agent), alpha)


def test_an_unexamined_position_leaves_its_item_untouched() -> None:
    d = idb.models.cascade(3, 2)
    agent = idb.Thompson(d, "moments", seed=0)
    agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
    np.testing.assert_array_equal(agent.posterior()["attraction"].alpha, [[1, 2], [1, 1], [1, 1]])
