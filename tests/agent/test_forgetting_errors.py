"""Errors of agents that forget; nothing changes when one is raised."""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import pytest

import idbandits as idb
from error_checks import assert_raises, assert_rejected_by
from idbandits import Forget
from idbandits.errors import IdbanditsError, ObservationError
from inferences import Counts

START = datetime.datetime(2026, 3, 1, 12)


def coins(forget: Forget | None = None, inference: Any = "exact") -> idb.Thompson:
    """An agent that has thrown one coin."""
    agent = idb.Thompson(idb.models.semi_bandit(3, 1), inference, seed=0, forget=forget)
    agent.update({"A1": 0}, {"X1": 1}, at=START if forget is not None and forget.by_time else None)
    return agent


@pytest.mark.parametrize(
    ("half_life", "words"),
    [
        (0, ("half_life", "> 0", "0")),
        (-3, ("half_life", "> 0", "-3")),
        (float("nan"), ("half_life", "nan")),
        (float("inf"), ("half_life", "inf")),
        (None, ("half_life", "None")),
        ([3], ("half_life", "[3]")),
        ("14", ("half_life", "'14d'", "'14'")),
        ("two weeks", ("half_life", "'14d'", "'two weeks'")),
        ("-2d", ("half_life", "'-2d'")),
        ("0d", ("half_life", "one second", "'0d'")),
        (datetime.timedelta(0), ("half_life", "one second")),
        (np.timedelta64("NaT"), ("half_life", "NaT")),
        (np.timedelta64(3, "M"), ("half_life", "3")),
        (pd.NaT, ("half_life",)),
        (10**400, ("half_life", "> 0", "1000")),
        (Fraction(10**400), ("half_life", "> 0", "Fraction(1000")),
        (datetime.timedelta.max, ("half_life", "999999999 days", "timedelta")),
        ("1000000000d", ("half_life", "999999999 days", "'1000000000d'")),
        ("9" * 400 + "d", ("half_life", "999999999 days", "'999")),
        ("1e400d", ("half_life", "'14d'", "'1e400d'")),
        (np.timedelta64(2**62, "W"), ("half_life", "999999999 days", "4611686018427387904")),
        (np.timedelta64(2**62, "D"), ("half_life", "999999999 days", "4611686018427387904")),
        (np.timedelta64(5), ("half_life", "duration")),
    ],
)
def test_half_lives_that_are_none(half_life: Any, words: tuple[str, ...]) -> None:
    assert_raises(IdbanditsError, words, lambda: Forget(half_life))


def test_forget_is_a_forget() -> None:
    d = idb.models.semi_bandit(3, 1)
    assert_raises(IdbanditsError, ("forget", "idb.Forget(half_life=", "50"), lambda: idb.Thompson(d, forget=50))  # type: ignore[arg-type]


@pytest.mark.parametrize(("inference", "name"), [("particles", "'particles'"), (Counts(), "'Counts'")])
def test_inferences_that_cannot_forget_say_which_can(inference: Any, name: str) -> None:
    d, can = idb.models.semi_bandit(3, 1), "exact, variational, incremental, moments, gibbs, ep can"
    assert_raises(IdbanditsError, (name, can), lambda: idb.Thompson(d, inference, forget=Forget(5)))
    assert_raises(IdbanditsError, (name, can), lambda: idb.Thompson([d], inference, forget=Forget(5)))


def test_times_for_agents_that_forget_nothing() -> None:
    agent, words = coins(), ("at", "forget=idb.Forget", "5")
    assert_rejected_by(agent, IdbanditsError, words, lambda: agent.update({"A1": 0}, {"X1": 1}, at=5))
    assert_rejected_by(agent, IdbanditsError, words, lambda: agent.update_many({"A1": [0]}, {"X1": [1]}, at=[5]))
    assert_rejected_by(agent, IdbanditsError, words, lambda: agent.revise({"A1": 0}, {"X1": 1}, None, at=5))


def test_times_that_are_missing() -> None:
    agent, words = coins(Forget("14d")), ("at", "14d", "say when", "datetime")
    assert_rejected_by(agent, IdbanditsError, words, lambda: agent.update({"A1": 0}, {"X1": 1}))
    assert_rejected_by(agent, IdbanditsError, words, lambda: agent.update_many({"A1": [0]}, {"X1": [1]}))
    assert_rejected_by(agent, IdbanditsError, words, lambda: agent.revise({"A1": 0}, {"X1": 1}, None))
    agent.update_many({"A1": []}, {"X1": []})
    world = idb.World(agent.diagram, {"mean": [0.1, 0.2, 0.3]})
    assert_raises(IdbanditsError, words, lambda: idb.simulate(world, {"it": agent}, 10, runs=1, progress=False))


@pytest.mark.parametrize("at", ["yesterday", None, float("nan"), np.datetime64("NaT"), pd.NaT, [START], 1e300, "12:00"])
def test_times_that_are_none(at: Any) -> None:
    agent = coins(Forget("14d"))
    assert_rejected_by(agent, IdbanditsError, ("at", "datetime"), lambda: agent.update({"A1": 0}, {"X1": 1}, at=at))
    words = ("round 1", "at", "datetime")
    if not isinstance(at, list):
        log = {"A1": [0, 0]}, {"X1": [1, 1]}
        assert_rejected_by(agent, IdbanditsError, words, lambda: agent.update_many(*log, at=[START, at]))


def test_the_longest_half_lives() -> None:
    for half_life in (datetime.timedelta(days=999_999_999), "999999999d", 10**15):
        agent = coins(Forget(half_life))
        agent.update({"A1": 1}, {"X1": 1}, at=START if agent.forget.by_time else None)  # type: ignore[union-attr]
        assert agent.posterior()["mean"].alpha.tolist() == [[1, 2], [1, 2], [1, 1]]


FAR = [
    np.datetime64(10**16, "s"), np.datetime64(2**62, "s"), np.datetime64(-(2**62), "m"), np.datetime64(2**62, "D"),
    np.datetime64(2**62, "W"), np.datetime64(2**62, "M"), np.datetime64(2**62, "Y"), np.datetime64(-(10**9), "Y"),
    np.datetime64(2**62, "25s"), np.timedelta64(5, "ns"), np.timedelta64(5), np.ma.masked, np.ma.array(5, mask=True),
]  # fmt: skip


@pytest.mark.parametrize("at", FAR, ids=repr)
def test_times_that_would_wrap_or_are_none(at: Any) -> None:
    agent, words = coins(Forget("14d")), ("must be", "datetime", "1e+15 seconds of 1970", "got")
    assert_rejected_by(agent, IdbanditsError, ("at", *words), lambda: agent.update({"A1": 0}, {"X1": 1}, at=at))
    log, zero = ({"A1": [0, 0]}, {"X1": [1, 1]}), at - at if isinstance(at, np.timedelta64) else np.datetime64(0, "s")
    columns = [[START, at]] if np.ma.isMaskedArray(at) else [[START, at], np.array([zero, at], at.dtype)]
    for column in columns:
        in_log = ("at in round", *words)
        assert_rejected_by(agent, IdbanditsError, in_log, lambda column=column: agent.update_many(*log, at=column))  # type: ignore[misc]


def test_masked_times_are_missing() -> None:
    log = {"A1": [0, 0]}, {"X1": [1, 1]}
    agent, times = coins(Forget("14d")), np.array([START, START + datetime.timedelta(days=1)])
    for kind in ("M8[us]", "M8[ns]", object):
        column = np.ma.array(times.astype(kind), mask=[False, True])
        assert_rejected_by(
            agent, IdbanditsError, ("at in round 1", "missing"), lambda c=column: agent.update_many(*log, at=c)
        )  # type: ignore[misc]
    seconds = np.ma.array([1.0, 2.0], mask=[True, False])
    assert_rejected_by(agent, IdbanditsError, ("at in round 0", "missing"), lambda: agent.update_many(*log, at=seconds))
    by_rounds, numbers = coins(Forget(5)), np.ma.array([1, 1], mask=[False, True])
    assert_rejected_by(
        by_rounds, IdbanditsError, ("at in round 1", "None"), lambda: by_rounds.update_many(*log, at=numbers)
    )
    dates = np.array([0, 1], "M8[ns]")  # which would be numbers of rounds as integers
    assert_rejected_by(
        by_rounds, IdbanditsError, ("at in round 0", "1970"), lambda: by_rounds.update_many(*log, at=dates)
    )


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])
def test_times_have_any_unit(unit: str) -> None:
    days = ["2026-01-01", "2026-03-05", "2031-02-01"]
    times = np.array(days, f"M8[{unit}]")
    agent, log = idb.Thompson(idb.models.semi_bandit(3, 1), "exact", seed=0, forget=Forget("100d")), {"A1": [0, 1, 0]}
    others = [agent.copy() for _ in range(2)]
    agent.update_many(log, {"X1": [1, 1, 0]}, at=times.astype("M8[s]").astype(np.int64))
    others[0].update_many(log, {"X1": [1, 1, 0]}, at=times)
    for t in range(3):
        others[1].update({"A1": log["A1"][t]}, {"X1": [1, 1, 0][t]}, at=times[t])
    for other in others:
        np.testing.assert_allclose(other.posterior()["mean"].alpha, agent.posterior()["mean"].alpha, rtol=1e-12)


@pytest.mark.parametrize("make", [pyarrow.array, lambda times: pyarrow.chunked_array([times]), pl.Series, pd.Series])
def test_columns_of_times_with_a_zone_have_one(make: Any) -> None:
    agent, words = coins(Forget("14d")), ("has a time zone", "had no time zone")
    aware = START.replace(tzinfo=datetime.UTC)
    log = {"A1": [0, 0]}, {"X1": [1, 1]}
    assert_rejected_by(agent, IdbanditsError, words, lambda: agent.update_many(*log, at=make([aware, aware])))
    first = idb.Thompson(agent.diagram, "exact", forget=Forget("14d"))
    first.update_many(*log, at=make([aware, aware]))
    words = ("has no time zone", "had a time zone")
    assert_rejected_by(first, IdbanditsError, words, lambda: first.update({"A1": 0}, {"X1": 1}, at=START))


@pytest.mark.parametrize("at", [-1, 2, 0.5, "now", START])
def test_rounds_that_are_none(at: Any) -> None:
    agent = coins(Forget(50))
    assert_rejected_by(
        agent, IdbanditsError, ("at", "must be an integer from 0 to 1"), lambda: agent.update({"A1": 0}, {}, at=at)
    )


def test_columns_of_times_that_do_not_fit() -> None:
    agent, log = coins(Forget("14d")), ({"A1": [0, 0]}, {"X1": [1, 1]})
    assert_rejected_by(agent, IdbanditsError, ("3 times", "2 rounds"), lambda: agent.update_many(*log, at=[START] * 3))
    assert_rejected_by(agent, IdbanditsError, ("at", "column"), lambda: agent.update_many(*log, at=START))
    by_rounds = coins(Forget(5))
    words = ("at in round 0", "must be an integer from 0 to 1", "2")
    assert_rejected_by(by_rounds, IdbanditsError, words, lambda: by_rounds.update_many(*log, at=[2, 2]))
    by_rounds.update_many(*log, at=[1, 2])


def test_times_with_and_without_a_zone_are_not_mixed() -> None:
    agent, words = coins(Forget("14d")), ("has a time zone", "had no time zone")
    aware = START.replace(tzinfo=datetime.UTC)
    assert_rejected_by(agent, IdbanditsError, words, lambda: agent.update({"A1": 0}, {"X1": 1}, at=aware))
    log = {"A1": [0, 0]}, {"X1": [1, 1]}
    assert_rejected_by(agent, IdbanditsError, ("round 1", *words), lambda: agent.update_many(*log, at=[START, aware]))
    agent.update({"A1": 0}, {"X1": 1}, at=1.8e9)  # a number says nothing of zones


def test_a_round_that_was_never_learned_is_rejected_where_that_can_be_seen() -> None:
    agent = coins(Forget(50))
    words = ("was not learned before", "at=")
    assert_rejected_by(agent, ObservationError, words, lambda: agent.revise({"A1": 1}, {"X1": 1}, None))
