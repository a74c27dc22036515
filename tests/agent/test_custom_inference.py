"""Inferences that a user wrote in plain Python. They also pass all tests of `every` inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import idbandits as idb
from idbandits import models
from idbandits.errors import IdbanditsError
from idbandits.inference import State
from inferences import Counts
from internals import knowledge
from played_rounds import alpha_of, assert_close, go_on, world_of


def test_an_own_inference_acts_and_learns_like_the_built_in_one_that_it_equals() -> None:
    d = models.semi_bandit(5, 2)
    world = world_of(d)
    own, exact = idb.Thompson(d, Counts(), seed=1), idb.Thompson(d, "exact", seed=1)
    assert go_on(world.copy(7), own, 50) == go_on(world.copy(7), exact, 50)
    for agent in (own, exact):
        agent.update_many({"A1": [0, 1, 2], "A2": [3, 4, 0]}, {"X1": [1, 1, 0], "X2": [0, 1, 1]})
    assert_close(alpha_of(own), alpha_of(exact), rtol=0)
    assert own.rounds == exact.rounds == 53
    frames = [
        idb.simulate(world, {"it": agent}, 100, runs=2, progress=False).frame.drop(columns="seconds")
        for agent in (own, exact)
    ]
    pd.testing.assert_frame_equal(*frames)


def test_settings_of_an_own_inference_are_shown() -> None:
    agent = idb.Thompson(models.semi_bandit(4, 2), Counts(weight=0.5))
    assert repr(agent) == "Thompson('semi-bandit', Counts, weight=0.5; 0 rounds)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ints, floats: (ints, floats.astype(np.float32)), "floats.*at least 20 float64, got float32 of shape"),
        (lambda ints, floats: (ints, floats[:9]), r"floats.*at least 20 float64, got float64 of shape \(9,\)"),
        (lambda ints, floats: (ints, np.repeat(floats, 2)[::2]), "floats.* a writable array of at least 20"),
        (lambda ints, floats: (ints, np.broadcast_to(1.0, len(floats))), "floats.* a writable array of at least 20"),
        (lambda ints, floats: (ints, floats.tolist()), r"floats.*float64, got \[1.0"),
        (lambda ints, floats: (ints.astype(np.int32), floats), "ints.*int64, got int32"),
        (lambda ints, floats: (ints[:1], floats), r"ints.*int64, got int64 of shape \(1,\)"),
    ],
)
def test_a_state_that_compiled_code_cannot_take_is_rejected(change: Any, words: str) -> None:
    class Odd(Counts):
        def start(self, model: Any, evidence: Any, rng: Any) -> Any:
            return State(*change(*super().start(model, evidence, rng)[:2]))

    with pytest.raises(IdbanditsError, match=f"inference 'Odd'.*{words}"):
        idb.Thompson(models.semi_bandit(5, 2), Odd())


@pytest.mark.parametrize("kind", [list, tuple, lambda state: None])
def test_what_is_not_a_state_is_rejected(kind: Any) -> None:
    class Odd(Counts):
        def start(self, model: Any, evidence: Any, rng: Any) -> Any:
            return kind(super().start(model, evidence, rng))

    with pytest.raises(IdbanditsError, match="inference 'Odd': `start` must return a State, got"):
        idb.Thompson(models.semi_bandit(5, 2), Odd())


@pytest.mark.parametrize("status", [None, -1, 4, 0.0, "done", np.zeros(2), np.broadcast_to(0, (2**20, 2**20))])
def test_what_learn_says_is_a_status(status: Any) -> None:
    class Odd(Counts):
        def learn(self, *arguments: Any) -> Any:
            super().learn(*arguments)
            return status

    agent = idb.Thompson(models.semi_bandit(5, 2), Odd(), seed=1)
    before = knowledge(agent)
    with pytest.raises(IdbanditsError, match=r"inference 'Odd': the result of `learn` must be an integer from 0 to 3"):
        agent.update({"A1": 0, "A2": 1}, {"X1": 1, "X2": 0})
    assert knowledge(agent) == before


def test_an_error_in_an_own_inference_changes_nothing() -> None:
    class Broken(Counts):
        def learn(self, *arguments: Any) -> int:
            super().learn(*arguments)
            raise ZeroDivisionError

    agent = idb.Thompson(models.semi_bandit(5, 2), Broken(), seed=1)
    before = knowledge(agent)
    with pytest.raises(ZeroDivisionError):
        agent.update({"A1": 0, "A2": 1}, {"X1": 1, "X2": 0})
    with pytest.raises(ZeroDivisionError):
        agent.update_many({"A1": [0], "A2": [1]}, {"X1": [1], "X2": [0]})
    assert knowledge(agent) == before
