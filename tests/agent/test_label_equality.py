"""One rule for labels: whatever equals one is one, wherever it is given."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import idbandits as idb
from error_checks import assert_raises, assert_rejected_by
from idbandits.errors import ActionError, ContextError, DiagramError, ObservationError
from internals import knowledge


def shop(labels: Any) -> idb.Diagram:
    """A decision, a context and an observed node with these labels."""
    d = idb.Diagram("shop")
    a, s = d.decision("A", labels), d.context("S", labels)
    d.decision("B", 3)
    d.all_different("A", "B")
    d.observed("X", [a, s], states=labels)
    d.reward("X", lambda x: x == 1)
    return d


class EqualsAll:
    """Equal to everything, as mock.ANY is."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class EqualsNothing:
    """Not even equal to itself, and still not what is missing."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


class Broken:
    """Cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise TypeError

    def __hash__(self) -> int:
        raise TypeError


ONES = [
    1, True, 1.0, np.int64(1), np.uint8(1), np.float32(1), np.float16(1), np.bool_(True), np.array(1), np.array(True),
    np.array(1.0, ">f8"), np.ma.array(1), Fraction(1), Decimal(1), np.longdouble(1),
]  # fmt: skip
WRONG = [
    "1", b"1", np.array([1]), np.array([[1]]), [1], (1,), {1}, {1: 1}, 1.5, -1, 2**70, float("inf"),
    np.datetime64(1, "ns"), np.timedelta64(1, "s"), pd.Timestamp(1), 1j, object(), EqualsAll(), EqualsNothing(), Broken(),
    int, np.str_("1"), Decimal("sNaN"), np.array("1"), np.array([np.nan]),
]  # fmt: skip
MISSING = [
    float("nan"), np.float32("nan"), np.array(np.nan), pd.NA, pd.NaT, np.ma.masked, np.ma.array(1, mask=True),
    np.datetime64("NaT"), np.timedelta64("NaT"), Decimal("NaN"), np.nan + 1j,
]  # fmt: skip
OTHERS = [*WRONG, *MISSING]
LABELS = [2, [0, 1], [False, True], [0.0, 1.0], [1, "1.0"], ["one", True]]

# how a value is handed over, as a decision, as a context or as what was seen
WAYS: dict[str, tuple[Callable[[idb.Thompson, Any], Any], type[Exception], str]] = {
    "act": (lambda agent, v: agent.act({"S": v}), ContextError, "'S'"),
    "update, action": (lambda agent, v: agent.update({"A": v, "B": 2}, {}, {"S": 1}), ActionError, "'A'"),
    "update, context": (lambda agent, v: agent.update({"A": 1, "B": 2}, {}, {"S": v}), ContextError, "'S'"),
    "update, seen": (lambda agent, v: agent.update({"A": 1, "B": 2}, {"X": v}, {"S": 1}), ObservationError, "'X'"),
    "propensity": (lambda agent, v: agent.propensity({"A": v, "B": 2}, {"S": 1}, draws=1), ActionError, "'A'"),
    "update_many": (
        lambda agent, v: agent.update_many({"A": [v], "B": [2]}, {"X": [1]}, {"S": [1]}),
        ActionError,
        "'A'",
    ),
    "update_many, context": (
        lambda agent, v: agent.update_many({"A": [1], "B": [2]}, {}, {"S": [v]}),
        ContextError,
        "'S'",
    ),
    "log_likelihood": (
        lambda agent, v: idb.log_likelihood(agent.diagram, {"A": 1, "B": 2}, {"X": v}, agent.sample(), {"S": 1}),
        ObservationError,
        "'X'",
    ),
    "expected_reward": (
        lambda agent, v: idb.expected_reward(agent.diagram, {"A": v, "B": 2}, agent.copy(0).sample(), {"S": 1}),
        ActionError,
        "'A'",
    ),
    "best_action": (
        lambda agent, v: idb.best_action(agent.diagram, agent.copy(0).sample(), {"S": v}),
        ContextError,
        "'S'",
    ),
    "World.step": (
        lambda agent, v: idb.World(agent.diagram, agent.copy(0).sample(), 0).step({"A": v, "B": 2}, {"S": 1}).reward,
        ActionError,
        "'A'",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_equals_a_label_is_accepted_everywhere(way: str) -> None:
    do, _, _ = WAYS[way]
    for labels in LABELS:
        d = shop(labels)
        expected, after = None, None
        for one in ONES:
            agent = idb.Thompson(d, "exact", seed=0)
            answer = do(agent, one)
            if expected is None:
                expected, after = answer, knowledge(agent)
            assert repr(answer) == repr(expected)
            assert knowledge(agent) == after


@pytest.mark.parametrize("way", WAYS)
def test_what_equals_no_label_is_rejected_everywhere(way: str) -> None:
    do, error, name = WAYS[way]
    for other in WRONG if error is ObservationError else OTHERS:
        agent = idb.Thompson(shop(2), "exact", seed=0)
        if way == "log_likelihood":
            assert_raises(error, (name,), lambda agent=agent, other=other: do(agent, other))
        else:
            assert_rejected_by(agent, error, (name,), lambda agent=agent, other=other: do(agent, other))


@pytest.mark.parametrize("one", ONES)
def test_it_is_the_same_after_acting(one: Any) -> None:
    agents = [idb.Thompson(shop(2), "exact", seed=3) for _ in range(2)]
    for agent, context in zip(agents, ({"S": 1}, {"S": one}), strict=True):
        while agent.act(context)["A"] != 1:
            pass
    action = agents[0]._eras[0]._latest[0]
    agents[0].update(action, {"X": 1}, {"S": 1})
    agents[1].update(action | {"A": one}, {"X": one}, {"S": one})
    assert knowledge(agents[0]) == knowledge(agents[1])


@pytest.mark.parametrize("other", OTHERS)
def test_nothing_else_is_accepted_after_acting(other: Any) -> None:
    agent = idb.Thompson(shop(2), "exact", seed=3)
    while (action := agent.act({"S": 1}))["A"] != 1:
        pass
    assert_rejected_by(agent, ActionError, ("'A'",), lambda: agent.update(action | {"A": other}, {}, {"S": 1}))
    assert_rejected_by(agent, ContextError, ("'S'",), lambda: agent.update(action, {}, {"S": other}))


@pytest.mark.parametrize("missing", [None, *MISSING])
@pytest.mark.parametrize("rounds", [1, 200])
def test_what_is_missing_was_not_seen_wherever_it_is_given(missing: Any, rounds: int) -> None:
    action, context = {"A": 1, "B": 2}, {"S": 1}
    nothing, one_by_one, at_once = (idb.Thompson(shop(2), "exact", seed=3) for _ in range(3))
    for _ in range(rounds):
        nothing.update(action, {}, context)
        one_by_one.update(action, {"X": missing}, context)
    at_once.update_many({"A": [1] * rounds, "B": [2] * rounds}, {"X": [missing] * rounds}, {"S": [1] * rounds})
    assert knowledge(nothing) == knowledge(one_by_one) == knowledge(at_once)
    d, means = nothing.diagram, nothing.sample()
    assert abs(idb.log_likelihood(d, action, {"X": missing}, means, context)) < 1e-12


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_neither_a_state_nor_missing_is_rejected_in_logs_of_any_length(wrong: Any) -> None:
    agent = idb.Thompson(shop(2), "exact", seed=3)
    assert_rejected_by(
        agent, ObservationError, ("'X'",), lambda: agent.update({"A": 1, "B": 2}, {"X": wrong}, {"S": 1})
    )
    for rounds in (1, 200):
        log = {"A": [1] * rounds, "B": [2] * rounds}, {"X": [1] * (rounds - 1) + [wrong]}, {"S": [1] * rounds}
        assert_rejected_by(agent, ObservationError, ("'X'",), lambda log=log: agent.update_many(*log))


@pytest.mark.parametrize("mapping", [[], None, 3, "AB", np.eye(2), pd.Series({"A": 1}), [("A", 1)], EqualsAll()])
def test_what_is_not_a_mapping_is_rejected(mapping: Any) -> None:
    agent = idb.Thompson(shop(2), "exact", seed=3)
    action = agent.act({"S": 1})
    assert_rejected_by(agent, ActionError, ("action",), lambda: agent.update(mapping, {}, {"S": 1}))
    assert_rejected_by(agent, ObservationError, ("observation",), lambda: agent.update(action, mapping, {"S": 1}))
    assert_rejected_by(agent, ContextError, ("context",), lambda: agent.update(action, {}, mapping))


@pytest.mark.parametrize("key", [1, None, ("X",), 1.5, b"X", frozenset("X")], ids=repr)
def test_names_that_are_not_strings_are_rejected(key: Any) -> None:
    agent = idb.Thompson(shop(2), "exact", seed=3)
    action = agent.act({"S": 1})
    assert_rejected_by(agent, ActionError, (repr(key),), lambda: agent.update({**action, key: 1}, {}, {"S": 1}))
    assert_rejected_by(agent, ObservationError, (repr(key),), lambda: agent.update(action, {key: 1}, {"S": 1}))
    assert_rejected_by(agent, ContextError, (repr(key),), lambda: agent.update(action, {}, {"S": 1, key: 1}))


def test_labels_of_pyarrow_are_plain_ones() -> None:
    d = idb.Diagram("arrow")
    letters, numbers = pa.array(["a", "b"]), pa.array([3, 5]).dictionary_encode()
    d.reward(d.observed("seen", [d.decision("letter", letters), d.context("number", numbers)]))
    assert d.nodes["letter"].values == ("a", "b")
    assert d.nodes["number"].values == (3, 5)
    agent, other = (idb.Thompson(d, "exact", seed=0) for _ in range(2))
    assert agent.act({"number": numbers[1]}, allowed=letters[1:]) == other.act({"number": 5}, allowed=["b"])
    for state in (1, None):
        agent.update({"letter": letters[0]}, {"seen": pa.scalar(state)}, {"number": numbers[1]})
        other.update({"letter": "a"}, {"seen": state}, {"number": 5})
    assert knowledge(agent) == knowledge(other)
    null = pa.scalar(None, pa.string())
    assert_rejected_by(agent, ActionError, ("'letter'",), lambda: agent.update({"letter": null}, {}, {"number": 3}))
    for labels in (np.array([0, 1], "M8[ns]"), pa.array([1, None])):  # dates would become integers
        assert_raises(DiagramError, ("'node'", "label"), lambda labels=labels: d.decision("node", labels))  # type: ignore[misc]
