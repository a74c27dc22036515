"""What agents that forget refuse, by name; nothing has changed then."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from idbandits import Forget
from idbandits.errors import IdbanditsError, ObservationError
from inferences import Counts
from refusals import refused, refused_by

START = datetime.datetime(2026, 3, 1, 12)


def coins(forget: Forget | None = None, inference: Any = "exact") -> idb.Thompson:
    """An agent that has thrown one coin."""
    agent = idb.Thompson(idb.models.semi_bandit(3, 1), inference, seed=0, forget=forget)
    agent.update({"A1": 0}, {"X1": 1}, at=START if forget is not None and forget.by_time else None)
    return agent


@pytest.mark.parametrize(
    ("half_life", "words"),
    [
        (0, ("half_life", "above 0", "0")),
        (-3, ("half_life", "above 0", "-3")),
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
    ],
)
def test_half_lives_that_are_none(half_life: Any, words: tuple[str, ...]) -> None:
    refused(IdbanditsError, words, lambda: Forget(half_life))


def test_forget_is_a_forget() -> None:
    d = idb.models.semi_bandit(3, 1)
    refused(IdbanditsError, ("forget", "idb.Forget(half_life=", "50"), lambda: idb.Thompson(d, forget=50))  # type: ignore[arg-type]


@pytest.mark.parametrize(("inference", "name"), [("particles", "'particles'"), (Counts(), "'Counts'")])
def test_inferences_that_cannot_forget_say_which_can(inference: Any, name: str) -> None:
    d, can = idb.models.semi_bandit(3, 1), "exact, variational, incremental, moments, gibbs, ep can"
    refused(IdbanditsError, (name, can), lambda: idb.Thompson(d, inference, forget=Forget(5)))
    refused(IdbanditsError, (name, can), lambda: idb.Thompson([d], inference, forget=Forget(5)))


def test_times_for_agents_that_forget_nothing() -> None:
    agent, words = coins(), ("at", "forget=idb.Forget", "5")
    refused_by(agent, IdbanditsError, words, lambda: agent.update({"A1": 0}, {"X1": 1}, at=5))
    refused_by(agent, IdbanditsError, words, lambda: agent.update_many({"A1": [0]}, {"X1": [1]}, at=[5]))
    refused_by(agent, IdbanditsError, words, lambda: agent.revise({"A1": 0}, {"X1": 1}, None, at=5))


def test_times_that_are_missing() -> None:
    agent, words = coins(Forget("14d")), ("at", "14d", "say when", "datetime")
    refused_by(agent, IdbanditsError, words, lambda: agent.update({"A1": 0}, {"X1": 1}))
    refused_by(agent, IdbanditsError, words, lambda: agent.update_many({"A1": [0]}, {"X1": [1]}))
    refused_by(agent, IdbanditsError, words, lambda: agent.revise({"A1": 0}, {"X1": 1}, None))
    agent.update_many({"A1": []}, {"X1": []})
    world = idb.World(agent.diagram, {"mean": [0.1, 0.2, 0.3]})
    refused(IdbanditsError, words, lambda: idb.simulate(world, {"it": agent}, 10, runs=1, progress=False))


@pytest.mark.parametrize("at", ["yesterday", None, float("nan"), np.datetime64("NaT"), pd.NaT, [START], 1e300, "12:00"])
def test_times_that_are_none(at: Any) -> None:
    agent = coins(Forget("14d"))
    refused_by(agent, IdbanditsError, ("at", "datetime"), lambda: agent.update({"A1": 0}, {"X1": 1}, at=at))
    words = ("round 1", "at", "datetime")
    if not isinstance(at, list):
        log = {"A1": [0, 0]}, {"X1": [1, 1]}
        refused_by(agent, IdbanditsError, words, lambda: agent.update_many(*log, at=[START, at]))


@pytest.mark.parametrize("at", [-1, 2, 0.5, "now", START])
def test_rounds_that_are_none(at: Any) -> None:
    agent = coins(Forget(50))
    refused_by(agent, IdbanditsError, ("at", "whole number from 0 to 1"), lambda: agent.update({"A1": 0}, {}, at=at))


def test_columns_of_times_that_do_not_fit() -> None:
    agent, log = coins(Forget("14d")), ({"A1": [0, 0]}, {"X1": [1, 1]})
    refused_by(agent, IdbanditsError, ("3 times", "2 rounds"), lambda: agent.update_many(*log, at=[START] * 3))
    refused_by(agent, IdbanditsError, ("at", "column"), lambda: agent.update_many(*log, at=START))
    by_rounds = coins(Forget(5))
    words = ("at in round 0", "whole number from 0 to 1", "2")
    refused_by(by_rounds, IdbanditsError, words, lambda: by_rounds.update_many(*log, at=[2, 2]))
    by_rounds.update_many(*log, at=[1, 2])


def test_times_with_and_without_a_zone_are_not_mixed() -> None:
    agent, words = coins(Forget("14d")), ("has a time zone", "had no time zone")
    aware = START.replace(tzinfo=datetime.UTC)
    refused_by(agent, IdbanditsError, words, lambda: agent.update({"A1": 0}, {"X1": 1}, at=aware))
    log = {"A1": [0, 0]}, {"X1": [1, 1]}
    refused_by(agent, IdbanditsError, ("round 1", *words), lambda: agent.update_many(*log, at=[START, aware]))
    agent.update({"A1": 0}, {"X1": 1}, at=1.8e9)  # a number says nothing of zones


def test_a_round_that_was_never_learned_is_refused_where_that_can_be_seen() -> None:
    agent = coins(Forget(50))
    words = ("was not learned before", "at=")
    refused_by(agent, ObservationError, words, lambda: agent.revise({"A1": 1}, {"X1": 1}, None))
