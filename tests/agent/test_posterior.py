"""Beliefs as frames with labels, and in place of means."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from error_checks import assert_raises
from idbandits import models
from idbandits.errors import MeansError
from idbandits.inference.gibbs.plan import planned
from inferences import agent_of, every, seen_without_clicks
from labelled_log import ACTIONS, CONTEXTS, SEEN, tea_room

STATISTICS = ["mean", "sd", "5 %", "95 %", "rounds"]


def test_a_frame_has_the_labels_of_all_parents_and_states() -> None:
    agent = idb.Thompson(tea_room(), "variational", seed=0)
    agent.update_many(ACTIONS, SEEN, CONTEXTS)
    for name, posterior in agent.posterior().items():
        frame = posterior.to_frame()
        labels = frame.columns[: -len(STATISTICS)].tolist()
        assert frame.columns.tolist() == [*labels, *STATISTICS]
        assert not frame[labels].duplicated().any()
        assert frame["mean"].tolist() == posterior.mean.ravel().tolist()
        assert frame["95 %"].tolist() == posterior.quantile(0.95).ravel().tolist(), name


def test_every_line_of_a_frame_belongs_to_its_labels() -> None:
    d = idb.Diagram("shop")
    user, item = d.context("user", ["new", "old"]), d.decision("item", ["tea", "milk", "rice"])
    d.observed("mood", [user, item], states=["bad", "fair", "good"])
    d.reward(d.observed("click", [item]))
    agent = idb.Thompson(d, "exact", seed=0)
    for _ in range(3):
        agent.update({"item": "milk"}, {"mood": "good", "click": 1}, {"user": "old"})
    mood, click = (agent.posterior()[name].to_frame() for name in ("mood", "click"))
    assert mood.columns.tolist() == ["user", "item", "state", *STATISTICS]
    line = mood.set_index(["user", "item", "state"]).loc[("old", "milk", "good")]
    assert (line["mean"], line["rounds"]) == (4 / 6, 3)
    assert mood["rounds"].sum() == 9  # once for each of three states
    assert click.set_index("item").loc["milk", "mean"] == 4 / 5


def test_a_node_may_have_the_name_of_a_statistic() -> None:
    d = idb.Diagram("odd")
    d.reward(d.observed("X", [d.decision("mean", 2), d.decision("state", 2)], states=3), lambda x: x)
    frame = idb.Thompson(d, "exact").posterior()["X"].to_frame()
    assert frame.columns.tolist() == ["row 1", "row 2", "state", *STATISTICS]


def test_a_table_without_parents_has_one_line() -> None:
    d = idb.Diagram("one")
    d.reward(d.observed("X", []))
    assert idb.Thompson(d, "exact").posterior()["X"].to_frame().columns.tolist() == STATISTICS


@every
def test_rounds_are_those_that_read_a_row(name: str) -> None:
    agent = agent_of(name, models.semi_bandit(4, 2))
    for _ in range(5):
        agent.update({"A1": 0, "A2": 2}, {**seen_without_clicks(agent), "X1": 1, "X2": 0})
    frame = agent.posterior()["mean"].to_frame()
    assert frame["row"].tolist() == [0, 1, 2, 3]
    if name == "particles":
        assert frame["rounds"].isna().all()
    else:
        np.testing.assert_allclose(frame["rounds"], [5, 0, 5, 0], atol=1e-9)


def test_rounds_of_the_default_are_expected_ones_where_something_is_latent() -> None:
    agent = idb.Thompson(models.position_based(3, 2), seed=0)
    for _ in range(200):
        agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
    examination, attraction = (agent.posterior()[name].rounds for name in ("examination", "attraction"))
    np.testing.assert_allclose(attraction, [200, 200, 0], atol=1e-6)
    assert examination[0] == 200
    assert 0 < examination[1] < 200  # clicks do not say whether unattractive items are examined


# -- beliefs in place of means ---------------------------------------------------------------------------------------

ACTION, CONTEXT = {"first": "tea", "second": "juice"}, {"segment": "new"}
QUESTIONS: dict[str, Callable[[idb.Diagram, Any], Any]] = {
    "best_action": lambda d, means: idb.best_action(d, means, CONTEXT),
    "expected_reward": lambda d, means: idb.expected_reward(d, ACTION, means, CONTEXT),
    "log_likelihood": lambda d, means: idb.log_likelihood(d, ACTION, {"sip": 1}, means, CONTEXT),
    "posterior_of_latents": lambda d, means: idb.posterior_of_latents(d, ACTION, {"sip": 0}, means, CONTEXT),
    "World": lambda d, means: idb.World(d, means, seed=0).step(ACTION, CONTEXT),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("inference", ["gibbs", "moments", "particles"])
def test_beliefs_are_accepted_where_means_are(question: str, inference: str) -> None:
    agent, ask = idb.Thompson(tea_room(), inference, seed=0), QUESTIONS[question]
    agent.update_many(ACTIONS, SEEN, CONTEXTS)
    belief = agent.posterior()
    means = {name: posterior.mean for name, posterior in belief.items()}
    assert repr(ask(agent.diagram, belief)) == repr(ask(agent.diagram, means))


def test_beliefs_of_several_structures_or_of_another_diagram_are_rejected() -> None:
    d = models.cascade(4, 2)
    nested: Any = idb.Thompson([d, models.position_based(4, 2)], seed=0).posterior()
    assert_raises(MeansError, ("'cascade'", "attraction", "several structures"), lambda: idb.best_action(d, nested))
    assert idb.best_action(d, nested["cascade"]).exact
    other = idb.Thompson(models.cascade(5, 2), seed=0).posterior()
    assert_raises(MeansError, ("'attraction'", "(5,)", "(4,)"), lambda: idb.best_action(d, other))


# -- large tables ------------------------------------------------------------------------------------------------------


def test_rows_in_no_group_have_their_exact_belief_beside_rows_that_are_drawn() -> None:
    agent = idb.Thompson(models.position_based(5, 2), "gibbs", seed=0)
    for click in (0, 1, 1):
        agent.update({"A1": 0, "A2": 1}, {"C1": click, "C2": 0})
    belief = agent.posterior()["attraction"]
    np.testing.assert_array_equal(belief.alpha[2:], 1)
    np.testing.assert_allclose(belief.mean[2:], 0.5)
    np.testing.assert_allclose(belief.sd[2:], np.sqrt(1 / 12))
    np.testing.assert_allclose(belief.quantile(np.array([0.05, 0.5]))[:, 2:], np.array([[0.05] * 3, [0.5] * 3]))
    assert (belief.alpha[:2].sum(axis=-1) > 2).all()
    low, high = belief.quantile(np.array([0.05, 0.95]))[:, :2]
    assert ((low < belief.mean[:2]) & (belief.mean[:2] < high)).all()


def test_memory_is_bounded_for_a_large_table() -> None:
    """All draws of 20,000 rows would take 640 MB."""
    items = 20_000
    agent = idb.Thompson(models.position_based(items, 2), "gibbs", seed=0)
    shown = np.arange(items)
    agent.update_many({"A1": shown, "A2": (shown + 1) % items}, {"C1": shown % 3 == 0, "C2": shown % 5 == 0})
    tracemalloc.start()
    belief = agent.posterior()["attraction"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6
    clicked = (shown % 3 == 0) & ((shown - 1) % 5 == 0)
    assert belief.mean[clicked].mean() > 0.7 > 0.55 > belief.mean[(shown % 3 > 0) & ((shown - 1) % 5 > 0)].mean()
    low, high = belief.quantile(np.array([0.05, 0.95]))
    assert ((low > 0) & (low < belief.mean) & (belief.mean < high) & (high < 1)).all()


def test_long_chains_are_announced(capsys: pytest.CaptureFixture[str]) -> None:
    agent = idb.Thompson(idb.models.position_based(5, 2), seed=0)
    agent.update({"A1": 0, "A2": 1}, {"C1": 0, "C2": 0})
    agent.warm_up()
    capsys.readouterr()
    agent.posterior()
    plan = planned(agent.learner.evidence, agent.state, whole=True)
    plan.announce(1000)
    assert capsys.readouterr().err == ""
    plan.announce(10_000_000)
    assert "drawing 14 means along a chain of 10,000,000 steps; this takes a while" in capsys.readouterr().err
