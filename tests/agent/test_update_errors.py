"""Errors of `update`, which change nothing. Logs: test_logs.py; files: test_agent_files.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from error_checks import assert_raises, assert_rejected_by
from idbandits import models
from idbandits.errors import (
    ActionError,
    ContextError,
    DiagramError,
    IdbanditsError,
    ImpossibleObservationError,
    ObservationError,
)
from inferences import INFERENCES, agent_of, every, seen_without_clicks, taught
from labelled_log import ACTIONS, CONTEXTS, SEEN, tea_room

# -- rounds --------------------------------------------------------------------------------------------------------

GOOD = {"first": "tea", "second": "water"}
NEW = {"segment": "new"}


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (({"first": "tea"}, {}, NEW), ActionError, ("'second'", "first, second")),
        (({"first": "tea", "second": "tea"}, {}, NEW), ActionError, ("'tea'", "all_different")),
        (({"first": "wine", "second": "tea"}, {}, NEW), ActionError, ("'first'", "'wine'", "'coffee'")),
        ((GOOD | {"third": "tea"}, {}, NEW), ActionError, ("'third'", "first, second")),
        ((None, {}, NEW), ActionError, ("None",)),
        ((GOOD, {}), ContextError, ("'segment'",)),
        ((GOOD, {}, {"segment": "old"}), ContextError, ("'segment'", "'old'", "'loyal'")),
        ((GOOD, {}, NEW | {"hour": 1}), ContextError, ("'hour'", "segment")),
        ((GOOD, {"taste": 1}, NEW), ObservationError, ("'taste'", "latent", "sip")),
        ((GOOD, {"first": "tea"}, NEW), ObservationError, ("'first'", "decision", "sip")),
        ((GOOD, {"sound": 1}, NEW), ObservationError, ("'sound'", "sip")),
        ((GOOD, {"mood": "great"}, NEW), ObservationError, ("'mood'", "'great'", "'bad'")),
        ((GOOD, None, NEW), ObservationError, ("None",)),
    ],
)  # fmt: skip
def test_mistakes_in_a_round_are_rejected(
    arguments: tuple[Any, ...], error: type[Exception], words: tuple[str, ...]
) -> None:
    agent = idb.Thompson(tea_room(), "variational", seed=0)
    agent.update_many(ACTIONS, SEEN, CONTEXTS)
    assert_rejected_by(agent, error, words, lambda: agent.update(*arguments))


@every
def test_what_every_inference_rejects_changes_nothing(name: str) -> None:
    agent = taught(name, models.cascade(4, 2))
    action, seen = {"A1": 0, "A2": 1}, seen_without_clicks(agent)
    agent.update(action, seen)  # which is fine
    assert_rejected_by(agent, ActionError, ("'A2'",), lambda: agent.update({"A1": 0}, seen))
    assert_rejected_by(
        agent, ActionError, ("'A1'", "'A2'", "all_different"), lambda: agent.update({"A1": 0, "A2": 0}, seen)
    )
    assert_rejected_by(agent, ObservationError, ("'C1'", "2"), lambda: agent.update(action, seen | {"C1": 2}))
    assert_rejected_by(agent, ContextError, ("'who'",), lambda: agent.update(action, seen, {"who": 1}))
    assert_rejected_by(agent, ContextError, ("'who'",), lambda: agent.act({"who": 1}))
    assert_rejected_by(
        agent,
        ImpossibleObservationError,
        ("C1 = 1", "C2 = 1", "'A1': 0", repr(agent.diagram.name)),
        lambda: agent.update(action, seen | {"C1": 1, "C2": 1}),
    )


@pytest.mark.parametrize("context", [None, {}, {"hour": 1}, {"segment": "old"}, {"segment": "new", "hour": 1}, "new"])
def test_contexts_are_checked_before_acting(context: Any) -> None:
    agent = idb.Thompson(tea_room(), "variational", seed=0)
    word = "hour" if context == {"hour": 1} else "segment"
    assert_rejected_by(agent, ContextError, (word,), lambda: agent.act(context))
    assert_rejected_by(agent, ContextError, (word,), lambda: agent.propensity(GOOD, context))


def test_an_empty_context_is_none() -> None:
    agent = idb.Thompson(models.cascade(4, 2), seed=0)
    twin = agent.copy()
    assert agent.act({}) == twin.act()


# -- what an agent is made with ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inference", "words"),
    [
        ("magic", ("'magic'", "exact, variational")),
        ("", ("''", "exact, variational")),
        ("Variational", ("'Variational'", "variational")),
        (idb.Variational, ("Variational", "call the class")),
        (idb.Exact, ("Exact", "call the class")),
        (3, ("3", "Inference")),
        (object(), ("object", "Inference")),
        (["exact"], ("['exact']", "Inference")),
    ],
)
def test_what_is_not_an_inference_is_rejected(inference: Any, words: tuple[str, ...]) -> None:
    assert_raises(IdbanditsError, words, lambda: idb.Thompson(models.cascade(4, 2), inference))


ENDLESS: list[Any] = [0]
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "seed", [-1, 0.5, "0", "seed", [-1], [[0]], ENDLESS, np.array(0.5), np.zeros((1, 1)), object()]
)
def test_what_is_not_a_seed_is_rejected(seed: Any) -> None:
    assert_raises(IdbanditsError, ("seed",), lambda: idb.Thompson(models.cascade(4, 2), seed=seed))
    agent = idb.Thompson(models.cascade(4, 2), seed=1)
    assert_rejected_by(agent, IdbanditsError, ("seed",), lambda: agent.copy(seed=seed))


@pytest.mark.parametrize("d", [None, 3, "cascade", models.cascade])
def test_what_is_not_a_diagram_is_rejected(d: Any) -> None:
    assert_raises(DiagramError, ("Diagram",), lambda: idb.Thompson(d))


def test_a_diagram_without_reward_is_rejected() -> None:
    d = idb.Diagram("idle")
    d.observed("heads", [d.decision("coin", 3)])
    assert_raises(DiagramError, ("'idle'", "reward"), lambda: idb.Thompson(d))


# -- what only some inferences can do ------------------------------------------------------------------------------


@every
def test_only_variational_inference_has_an_elbo(name: str) -> None:
    agent = agent_of(name, models.position_based(5, 2))
    if isinstance(agent.inference, idb.Variational):
        assert agent.elbo() == 0.0
    else:
        own_name = type(agent.inference).__name__ if name == "own" else name
        assert_rejected_by(agent, IdbanditsError, (repr(own_name), "ELBO", "variational"), agent.elbo)


@pytest.mark.parametrize("draws", [0, -1, 1.5, "many", None, True])
def test_what_is_not_a_number_of_draws_is_rejected(draws: Any) -> None:
    agent = idb.Thompson(models.cascade(4, 2), seed=0)
    assert_rejected_by(
        agent, IdbanditsError, ("draws", repr(draws)), lambda: agent.propensity({"A1": 0, "A2": 1}, draws=draws)
    )


# -- rounds that cannot be taken back ------------------------------------------------------------------------------

REVISABLE = [name for name, case in INFERENCES.items() if case.revisable]
NOT_REVISABLE = [name for name, case in INFERENCES.items() if not case.revisable]


@pytest.mark.parametrize("name", NOT_REVISABLE)
def test_inferences_that_cannot_revise_say_which_can(name: str) -> None:
    agent = taught(name, models.cascade(4, 2))
    words = (repr(type(agent.inference).__name__ if name == "own" else name), "exact, variational, gibbs, ep can")
    seen = seen_without_clicks(agent)
    assert_rejected_by(agent, IdbanditsError, words, lambda: agent.revise({"A1": 0, "A2": 1}, seen, None))


@pytest.mark.parametrize("name", REVISABLE)
def test_only_what_was_learned_can_be_revised(name: str) -> None:
    agent = agent_of(name, models.position_based(3, 2))
    action = {"A1": 0, "A2": 1}
    zero, one = ({n.name: state for n in agent.diagram.of_kind("observed")} for state in (0, 1))
    words = ("not learned before",)
    assert_rejected_by(agent, ObservationError, words, lambda: agent.revise(action, zero, None))
    agent.update(action, zero)
    cases: list[tuple[Any, Any, Any]] = [(action, one, zero), (action, one, None), ({"A1": 2, "A2": 1}, zero, None)]
    for taken, old, new in cases:
        assert_rejected_by(
            agent, ObservationError, words, lambda taken=taken, old=old, new=new: agent.revise(taken, old, new)
        )
    assert_rejected_by(agent, ObservationError, ("'C9'",), lambda: agent.revise(action, zero, {"C9": 1}))
    assert_rejected_by(
        agent, ObservationError, ("C1 = 1", "'A1': 0", "not learned"), lambda: agent.revise(action, one, zero)
    )  # fmt: skip
    agent.revise(action, zero, None)
    assert agent.rounds == 0
    assert_rejected_by(
        agent, ObservationError, words, lambda: agent.revise(action, zero, None)
    )  # it was learned once only


@pytest.mark.parametrize("name", REVISABLE)
def test_a_round_that_used_an_entry_twice_is_not_taken_back_for_one_that_used_it_once(name: str) -> None:
    agent = idb.Thompson(models.semi_bandit(2, 2, distinct=False), INFERENCES[name].make(), seed=0)
    agent.update({"A1": 0, "A2": 1}, {"X1": 1, "X2": 0})
    attempt: Callable[[], None] = lambda: agent.revise({"A1": 0, "A2": 0}, {"X1": 1, "X2": 1}, None)  # noqa: E731
    assert_rejected_by(agent, ObservationError, ("not learned before",), attempt)
    np.testing.assert_array_equal(agent.posterior()["mean"].alpha, [[1, 2], [2, 1]])


@pytest.mark.parametrize("name", REVISABLE)
def test_a_revision_to_the_impossible_is_rejected(name: str) -> None:
    agent = agent_of(name, models.cascade(5, 2))
    action, seen = {"A1": 0, "A2": 1}, seen_without_clicks(agent)
    agent.update(action, seen)
    assert_rejected_by(
        agent,
        ImpossibleObservationError,
        ("C1 = 1", "C2 = 1"),
        lambda: agent.revise(action, seen, seen | {"C1": 1, "C2": 1}),
    )
