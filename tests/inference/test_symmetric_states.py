"""Latent classes whose states are interchangeable before the first round: beliefs that leave the symmetric point."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from inferences import agent_of, those

ITEMS = 4
TRUTH = np.array([[0.95, 0.05], [0.9, 0.1], [0.05, 0.9], [0.1, 0.95]])  # of an item and a class: the chance of a click
ROUNDS = 2_000


def latent_class() -> idb.Diagram:
    """Both items of a pair are clicked by the taste of a latent class."""
    d = idb.Diagram("latent class")
    taste, click = d.latent("Z", cpd=idb.Learned("class")), idb.Learned("click")
    for k in range(2):
        d.reward(d.observed(f"X{k}", [d.decision(f"A{k}", ITEMS), taste], click))
    d.all_different()
    return d


@functools.cache
def log() -> tuple[np.ndarray, np.ndarray]:
    """Pairs of items, and which of them were clicked."""
    rng = np.random.default_rng(0)
    pairs = np.array([rng.permutation(ITEMS)[:2] for _ in range(ROUNDS)])
    classes = rng.integers(2, size=(ROUNDS, 1))
    return pairs, (rng.random((ROUNDS, 2)) < TRUTH[pairs, classes]).astype(int)


@functools.cache
def taught_class(name: str, seed: int, at_once: bool) -> Any:
    """An agent that learned from all pairs."""
    agent = agent_of(name, latent_class(), seed)
    pairs, clicks = log()
    if at_once:
        agent.update_many({"A0": pairs[:, 0], "A1": pairs[:, 1]}, {"X0": clicks[:, 0], "X1": clicks[:, 1]})
        return agent
    for (a, b), (x, y) in zip(pairs.tolist(), clicks.tolist(), strict=True):
        agent.update({"A0": a, "A1": b}, {"X0": x, "X1": y})
    return agent


def both_clicked(one: np.ndarray, click: np.ndarray) -> np.ndarray:
    """The chance that both items of each pair are clicked, by the chance of class 1 and the clicks of each class."""
    weights = np.stack([1 - one, one], axis=-1)
    pairs = itertools.combinations(range(ITEMS), 2)
    return np.stack([(weights * click[..., i, :] * click[..., k, :]).sum(axis=-1) for i, k in pairs], axis=-1)


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "log"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["gibbs", "ep", "moments", "variational"])
def test_pairs_are_predicted_well(name: str, seed: int, at_once: bool) -> None:
    draws = taught_class(name, seed, at_once).draws(500)
    predicted = both_clicked(draws["class"], draws["click"]).mean(axis=0)
    truth = both_clicked(np.array(0.5), TRUTH)
    symmetric = np.full(ITEMS, 0.5)[:, np.newaxis] * np.ones(2)
    assert abs(both_clicked(np.array(0.5), symmetric) - truth).min() > 0.1  # what a belief without classes says
    # 333 rounds of each pair, a standard error of at most 0.028, and less by what pairs have in common
    np.testing.assert_allclose(predicted, truth, atol=0.06)


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "log"])
@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_of_interchangeable_states_is_exchangeable(seed: int, at_once: bool) -> None:
    agent = taught_class("gibbs", seed, at_once)
    number = 4_000
    draws = agent.draws(number)
    apart = draws["click"][..., 0] - draws["click"][..., 1]
    for means, count in ((agent.posterior()["click"].mean, 2000), (draws["click"].mean(axis=0), number)):
        # which state is which is drawn anew each time: 6 standard errors of a difference below 1
        assert (abs(means[:, 0] - means[:, 1]) < 6 / np.sqrt(count)).all()
    assert (abs(apart) > 0.5).all()  # two modes, and nothing between them
    assert (abs((apart > 0).mean(axis=0) - 0.5) < 6 * 0.5 / np.sqrt(number)).all()
    together = np.sign(apart * [1, 1, -1, -1])  # all items are exchanged together
    assert (together == together[:, :1]).all()


@pytest.mark.parametrize("states", [2, 3, 4])
def test_several_interchangeable_states_are_exchangeable(states: int) -> None:
    d = idb.Diagram("several classes")
    d.decision("A", 1)
    taste = d.latent("Z", cpd=idb.Learned("class"), states=states)
    for k in range(3):
        d.reward(d.observed(f"X{k}", [taste], idb.Learned(f"answer {k}"), states=states))
    agent = idb.Thompson(d, seed=0)
    classes = np.arange(600) % states
    agent.update_many({"A": np.zeros(600, int)}, {f"X{k}": classes for k in range(3)})
    number = 20_000
    answers = agent.draws(number)["answer 0"]
    shares = answers.argmax(axis=-1) if states > 2 else (answers > 0.5).astype(int)  # what each state answers
    assert (np.sort(shares, axis=-1) == np.arange(states)).all()
    for answer in range(states):
        frequency = (shares == answer).mean(axis=0)
        # drawn anew each time: 5 standard errors, 29 comparisons in all: below 2e-5
        assert (abs(frequency - 1 / states) < 5 * np.sqrt(1 / states / number)).all()


@those(grouped=True)
def test_nothing_is_moved_where_states_can_be_told_apart(name: str) -> None:
    d = idb.Diagram("told apart")
    z = d.latent("Z", [d.decision("A", 2)], idb.Learned("class"))
    d.reward(d.observed("X", [z], idb.Learned("answer", prior=[[4.0, 1.0], [1.0, 4.0]])))
    posterior = idb.Thompson(d, agent_of(name, latent_class()).inference, seed=0).posterior()
    np.testing.assert_array_equal(posterior["answer"].alpha, [[4, 1], [1, 4]])
    np.testing.assert_array_equal(posterior["class"].alpha, 1)
