"""Thompson agents: logs at once, files, random numbers, ties, and what is refused."""

from __future__ import annotations

import copy
import io
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import idbandits as idb
import reference
from diagrams import random_diagram, random_means
from idbandits import models
from idbandits.errors import (
    ActionError,
    ContextError,
    DiagramError,
    FormatError,
    IdbanditsError,
    ImpossibleObservationError,
    ObservationError,
)
from idbandits.inference import BY_NAME
from idbandits.inference.groups import USED, State


def shop() -> idb.Diagram:
    """Labelled decisions and states, a context, a latent node, a node of three states."""
    d = idb.Diagram("shop")
    segment = d.context("segment", ["new", "loyal"])
    first = d.decision("first", ["tea", "coffee", "juice"])
    second = d.decision("second", ["juice", "tea", "water"])
    taste = d.latent("taste", [first, segment])
    d.reward(d.observed("sip", [taste], [0.1, 0.9]))
    mood = d.observed("mood", [second], states=["bad", "fair", "good"])
    d.reward(mood, lambda m: {"bad": 0.0, "fair": 0.5, "good": 1.0}[m])
    d.observed("size", [first], states=[10, 20])
    d.all_different()
    return d


def agent_of(d: idb.Diagram, inference: Any, seed: Any = 3) -> idb.Thompson:
    """An agent with this inference; for exact, in the revealed diagram where the diagram itself is not exact."""
    try:
        return idb.Thompson(d, inference, seed)
    except DiagramError:
        assert inference == "exact"
        return idb.Thompson(d.revealed(), inference, seed)


def taught(d: idb.Diagram, inference: Any, rounds: int = 60, seed: int = 3) -> tuple[idb.World, idb.Thompson]:
    """An agent after some rounds in a world."""
    world = idb.World(d, random_means(np.random.default_rng(1), d), seed=7)
    agent = agent_of(d, inference, seed)
    play(world, agent, rounds)
    return world, agent


def play(world: idb.World, agent: idb.Thompson, rounds: int) -> list[dict[str, Any]]:
    actions = []
    for _ in range(rounds):
        given = {"context": world.context()} if world.diagram.of_kind("context") else {}
        action = agent.act(**given)
        agent.update(action, world.step(action, **given).seen_by(agent.diagram), **given)
        actions.append(action)
    return actions


def knowledge(agent: idb.Thompson) -> Any:
    """All that decides what an agent does next."""
    return (agent._state.ints.tolist(), agent._state.floats.tolist(), agent._rng.bit_generator.state, agent.rounds)


def same(one: Any, other: Any) -> bool:
    return bool(
        np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1], equal_nan=True) and one[2:] == other[2:]
    )


def refused(agent: idb.Thompson, error: type[Exception], words: tuple[str, ...], do: Callable[[], Any]) -> None:
    """A mistake is reported with these words, and has changed nothing."""
    before = copy.deepcopy(knowledge(agent))
    with pytest.raises(IdbanditsError) as raised:
        do()
    assert raised.type is error, raised.value
    missing = [word for word in words if word not in str(raised.value)]
    assert not missing, (missing, str(raised.value))
    assert len(str(raised.value)) < 600
    assert same(knowledge(agent), before)


# -- a log at once -------------------------------------------------------------------------------------------------

ACTIONS = {"first": ["tea", "coffee", "tea", "juice"], "second": ["juice", "water", "water", "tea"]}
SEEN = {"sip": [1, 0, None, 1], "mood": ["bad", None, "good", "fair"], "size": [10, 20, 20, None]}
CONTEXTS = {"segment": ["new", "new", "loyal", "new"]}


def one_by_one(agent: idb.Thompson, actions: Any, seen: Any, contexts: Any) -> None:
    for t in range(4):
        agent.update(*({name: column[t] for name, column in part.items()} for part in (actions, seen, contexts)))


def forms() -> dict[str, Callable[[dict[str, list[Any]]], Any]]:
    def whole(part: dict[str, list[Any]]) -> Any:
        numbers = {n: c for n, c in part.items() if all(x is None or isinstance(x, int) for x in c)}
        return {
            n: np.array([np.nan if x is None else x for x in c], float) if n in numbers else c for n, c in part.items()
        }

    return {
        "lists": lambda part: part,
        "tuples": lambda part: {n: tuple(c) for n, c in part.items()},
        "objects": lambda part: {n: np.array(c, dtype=object) for n, c in part.items()},
        "floats with NaN": whole,
        "frame": pd.DataFrame,
        "frame of objects": lambda part: pd.DataFrame(part, dtype=object),
        "frame of nullable types": lambda part: pd.DataFrame(part).convert_dtypes(),
        "frame with another index": lambda part: pd.DataFrame(part, index=[7, 7, 3, 0]),
        "frame of categories": lambda part: pd.DataFrame(part).astype("category"),
        "series": lambda part: {n: pd.Series(c) for n, c in part.items()},
        "NaN for labels": lambda part: {
            n: np.array([float("nan") if x is None else x for x in c], dtype=object) for n, c in part.items()
        },
        "NaN in lists": lambda part: {n: [float("nan") if x is None else x for x in c] for n, c in part.items()},
    }  # fmt: skip


@pytest.mark.parametrize("form", forms())
def test_logs_in_many_forms(form: str) -> None:
    shape = forms()[form]
    one, many = (idb.Thompson(shop(), idb.Variational(start="prior"), seed=0) for _ in range(2))
    many.update_many(shape(ACTIONS), shape(SEEN), shape(CONTEXTS))
    plain = idb.Thompson(shop(), idb.Variational(start="prior"), seed=0)
    plain.update_many(ACTIONS, SEEN, CONTEXTS)
    one_by_one(one, ACTIONS, SEEN, CONTEXTS)
    assert many.rounds == one.rounds == 4
    for name, belief in many.posterior().items():
        np.testing.assert_array_equal(belief.alpha, plain.posterior()[name].alpha)
        if name != "taste":  # which is latent: sweeps differ in number
            np.testing.assert_allclose(belief.alpha, one.posterior()[name].alpha, rtol=1e-12)


@pytest.mark.parametrize("inference", ["exact", "incremental", "moments"])
def test_a_log_is_learned_from_like_its_rounds(inference: str) -> None:
    one, many = (idb.Thompson(shop().revealed(), inference, seed=0) for _ in range(2))
    seen = {**SEEN, "taste": [1, 0, 0, 1]}
    many.update_many(ACTIONS, seen, CONTEXTS)
    one_by_one(one, ACTIONS, seen, CONTEXTS)
    for name, belief in many.posterior().items():
        np.testing.assert_allclose(belief.alpha, one.posterior()[name].alpha, rtol=1e-9)


def test_columns_that_are_missing_were_not_seen() -> None:
    some, none = (idb.Thompson(shop(), "moments", seed=0) for _ in range(2))
    some.update_many(ACTIONS, {"size": [10, 20, 20, 10]}, CONTEXTS)
    none.update_many(ACTIONS, {"size": [10, 20, 20, 10], "sip": [None] * 4, "mood": [np.nan] * 4}, CONTEXTS)
    for name, belief in some.posterior().items():
        np.testing.assert_array_equal(belief.alpha, none.posterior()[name].alpha)
    np.testing.assert_array_equal(some.posterior()["mood"].alpha, np.ones((3, 3)))
    nothing = idb.Thompson(shop(), "moments", seed=0)
    nothing.update_many(ACTIONS, {}, CONTEXTS)
    assert nothing.rounds == 4
    assert all((belief.alpha == 1).all() for belief in nothing.posterior().values())


@pytest.mark.parametrize("inference", BY_NAME)
def test_an_empty_log(inference: str) -> None:
    agent = agent_of(models.position_based(4, 2), inference)
    before = {name: belief.mean for name, belief in agent.posterior().items()}
    agent.update_many({"A1": [], "A2": []}, {"C1": []})
    assert agent.rounds == 0
    if inference != "particles":
        for name, mean in before.items():
            np.testing.assert_array_equal(agent.posterior()[name].mean, mean)


@pytest.mark.parametrize(
    ("dtype", "shift"), [("int8", 0), ("uint8", 0), ("int64", 0), ("float32", 0), ("float64", 0), ("Int64", 0)]
)
def test_numbers_of_any_type(dtype: str, shift: int) -> None:
    agent = idb.Thompson(models.semi_bandit(4, 2), "exact")
    column = pd.Series([0, 3, 1], dtype=dtype)
    agent.update_many({"A1": column, "A2": pd.Series([1, 2, 0], dtype=dtype)}, {"X1": pd.Series([1, 0, 1], dtype=dtype), "X2": [True, False, True]})  # fmt: skip
    assert agent.posterior()["mean"].alpha.tolist() == [[1, 3], [1, 3], [2, 1], [2, 1]]


@pytest.mark.parametrize(
    ("inference", "rounds"), [("variational", 2_000_000), ("gibbs", 500_000), ("ep", 500_000), ("moments", 500_000)]
)
def test_millions_of_rounds(inference: str, rounds: int) -> None:
    rng = np.random.default_rng(0)
    d = models.position_based(10, 2)
    first = rng.integers(10, size=rounds)
    log = {"A1": first, "A2": (first + rng.integers(1, 10, size=rounds)) % 10}
    attraction, examination = np.linspace(0.05, 0.95, 10), np.array([0.9, 0.4])
    seen = {f"C{k + 1}": (rng.random(rounds) < examination[k] * attraction[log[f"A{k + 1}"]]) for k in range(2)}
    agent = idb.Thompson(d, inference, seed=1)
    agent.update_many(log, seen)
    assert agent.rounds == rounds
    assert agent._state.ints[USED] <= 2 * 10 * 2
    belief = agent.posterior()
    found = belief["examination"].mean[:, None] * belief["attraction"].mean
    np.testing.assert_allclose(found, examination[:, None] * attraction, atol=0.02)


# name -> what to learn from, the error, words of its message
BAD_LOGS: dict[str, tuple[tuple[Any, Any, Any], type[Exception], tuple[str, ...]]] = {
    "a decision that does not exist": (({**ACTIONS, "third": [0] * 4}, SEEN, CONTEXTS), ActionError, ("actions", "'third'", "first, second")),
    "a decision that is missing": (({"first": ACTIONS["first"]}, SEEN, CONTEXTS), ActionError, ("actions", "'second'", "missing")),
    "no actions": ((None, SEEN, CONTEXTS), ActionError, ("actions", "'first'")),
    "actions as a list": (([1, 2], SEEN, CONTEXTS), ActionError, ("actions", "[1, 2]")),
    "actions as a number": ((3, SEEN, CONTEXTS), ActionError, ("actions", "3")),
    "a choice that does not exist": (({**ACTIONS, "second": ["juice", "wine", "water", "tea"]}, SEEN, CONTEXTS), ActionError, ("'second'", "round 1", "'wine'", "'juice', 'tea', 'water'")),
    "a choice that is missing": (({**ACTIONS, "second": ["juice", "water", None, "tea"]}, SEEN, CONTEXTS), ActionError, ("'second'", "round 2", "None")),
    "a choice that is NaN": (({**ACTIONS, "second": np.array(["juice", "water", np.nan, "tea"], object)}, SEEN, CONTEXTS), ActionError, ("'second'", "round 2", "nan")),
    "an item twice": (({**ACTIONS, "second": ["juice", "water", "tea", "tea"]}, SEEN, CONTEXTS), ActionError, ("'first'", "'second'", "round 2", "'tea'", "all_different")),
    "decisions of other lengths": (({**ACTIONS, "second": ["juice", "water"]}, SEEN, CONTEXTS), ActionError, ("'second'", "2", "4")),
    "decisions in two dimensions": (({**ACTIONS, "second": [["juice", "water"]] * 4}, SEEN, CONTEXTS), ActionError, ("'second'", "(4, 2)")),
    "one decision for all": (({**ACTIONS, "second": "water"}, SEEN, CONTEXTS), ActionError, ("'second'", "()")),
    "no contexts": ((ACTIONS, SEEN, None), ContextError, ("contexts", "'segment'", "missing")),
    "a context that does not exist": ((ACTIONS, SEEN, {**CONTEXTS, "hour": [1] * 4}), ContextError, ("'hour'", "segment")),
    "a context's value": ((ACTIONS, SEEN, {"segment": ["new", "new", "new", "gone"]}), ContextError, ("'segment'", "round 3", "'gone'", "'new', 'loyal'")),
    "a context's missing value": ((ACTIONS, SEEN, {"segment": ["new", None, "new", "new"]}), ContextError, ("'segment'", "round 1", "None")),
    "contexts of another length": ((ACTIONS, SEEN, {"segment": ["new"]}), ContextError, ("'segment'", "1", "4")),
    "a latent node": ((ACTIONS, {**SEEN, "taste": [1] * 4}, CONTEXTS), ObservationError, ("'taste'", "sip, mood, size")),
    "a state that does not exist": ((ACTIONS, {**SEEN, "size": [10, 20, 30, 20]}, CONTEXTS), ObservationError, ("'size'", "round 2", "30", "10, 20")),
    "a number for a label": ((ACTIONS, {**SEEN, "mood": [0, 1, 2, 0]}, CONTEXTS), ObservationError, ("'mood'", "round 0", "'bad', 'fair', 'good'")),
    "a number that is too high": ((ACTIONS, {**SEEN, "sip": [0, 1, 1, 2]}, CONTEXTS), ObservationError, ("'sip'", "round 3", "2", "0 to 1")),
    "a number below 0": ((ACTIONS, {**SEEN, "sip": [0, -1, 1, 1]}, CONTEXTS), ObservationError, ("'sip'", "round 1", "-1", "0 to 1")),
    "a fraction": ((ACTIONS, {**SEEN, "sip": [0, 1, 0.5, 1]}, CONTEXTS), ObservationError, ("'sip'", "round 2", "0.5", "0 to 1")),
    "infinity": ((ACTIONS, {**SEEN, "sip": [0, 1, np.inf, 1]}, CONTEXTS), ObservationError, ("'sip'", "round 2", "inf")),
    "a string for a number": ((ACTIONS, {**SEEN, "sip": ["0", "1", "1", "0"]}, CONTEXTS), ObservationError, ("'sip'", "round 0", "'0'", "0 to 1")),
    "states of another length": ((ACTIONS, {**SEEN, "sip": [0, 1, 1]}, CONTEXTS), ObservationError, ("'sip'", "3", "4")),
    "observations as a list": ((ACTIONS, [1, 2, 3, 4], CONTEXTS), ObservationError, ("observations", "[1, 2, 3, 4]")),
    "lists of lists": ((ACTIONS, {**SEEN, "sip": [[0], 1, [1, 0], 0]}, CONTEXTS), ObservationError, ("'sip'",)),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LOGS)
@pytest.mark.parametrize("inference", ["variational", "particles"])
def test_mistakes_in_logs(case: str, inference: str) -> None:
    log, error, words = BAD_LOGS[case]
    agent = idb.Thompson(shop(), inference, seed=0)
    agent.update_many(ACTIONS, SEEN, CONTEXTS)
    refused(agent, error, words, lambda: agent.update_many(*log))


@pytest.mark.parametrize("inference", BY_NAME)
def test_an_impossible_round_in_the_middle_of_a_log(inference: str) -> None:
    _, agent = taught(models.cascade(5, 2), inference)
    twin = agent.copy()
    log = {"A1": [0, 1, 2, 3, 4], "A2": [1, 2, 3, 4, 0]}
    seen = {"C1": [0, 1, 0, 1, 0], "C2": [1, 0, 0, 1, 1]}
    refused(
        agent, ImpossibleObservationError, ("C1 = 1", "C2 = 1", "'A1': 3", "round 3"), lambda: agent.update_many(log, seen)
    )  # fmt: skip
    assert [agent.act() for _ in range(3)] == [twin.act() for _ in range(3)]


def test_a_round_in_the_middle_of_a_log_that_exact_cannot_take() -> None:
    _, agent = taught(models.position_based(5, 2).revealed(), "exact")
    seen = {"C1": [1, 0], "C2": [1, 0], "W1": [1, None], "W2": [1, None], "E1": [1, None], "E2": [1, None]}
    refused(
        agent,
        DiagramError,
        ("exact", "C1 = 0", "attraction"),
        lambda: agent.update_many({"A1": [0, 1], "A2": [1, 2]}, seen),
    )


@pytest.mark.parametrize("inference", BY_NAME)
def test_impossible_rounds_change_nothing(inference: str) -> None:
    _, agent = taught(models.cascade(5, 2), inference)
    refused(
        agent, ImpossibleObservationError, ("C1 = 1", "C2 = 1", "'A1': 0", "'cascade'"),
        lambda: agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 1}),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (({"first": "tea"}, {}, {"segment": "new"}), ActionError, ("'second'", "first, second")),
        (({"first": "tea", "second": "tea"}, {}, {"segment": "new"}), ActionError, ("'tea'", "all_different")),
        (({"first": "wine", "second": "tea"}, {}, {"segment": "new"}), ActionError, ("'first'", "'wine'", "'coffee'")),
        ((None, {}, {"segment": "new"}), ActionError, ("None",)),
        (({"first": "tea", "second": "water"}, {}), ContextError, ("'segment'",)),
        (({"first": "tea", "second": "water"}, {}, {"segment": "old"}), ContextError, ("'segment'", "'old'", "'loyal'")),
        (({"first": "tea", "second": "water"}, {"taste": 1}, {"segment": "new"}), ObservationError, ("'taste'", "latent", "sip")),
        (({"first": "tea", "second": "water"}, {"mood": "great"}, {"segment": "new"}), ObservationError, ("'mood'", "'great'", "'bad'")),
        (({"first": "tea", "second": "water"}, None, {"segment": "new"}), ObservationError, ("None",)),
    ],
)  # fmt: skip
def test_mistakes_in_a_round(arguments: tuple[Any, ...], error: type[Exception], words: tuple[str, ...]) -> None:
    agent = idb.Thompson(shop(), "variational", seed=0)
    agent.update_many(ACTIONS, SEEN, CONTEXTS)
    refused(agent, error, words, lambda: agent.update(*arguments))


@pytest.mark.parametrize("context", [None, {}, {"hour": 1}, {"segment": "old"}, {"segment": "new", "hour": 1}, "new"])
def test_contexts_are_checked_before_acting(context: Any) -> None:
    agent = idb.Thompson(shop(), "variational", seed=0)
    refused(agent, ContextError, ("segment" if context != {"hour": 1} else "hour",), lambda: agent.act(context))
    refused(agent, ContextError, (), lambda: agent.propensity({"first": "tea", "second": "water"}, context))


def test_a_context_where_there_is_none() -> None:
    agent = idb.Thompson(models.cascade(4, 2), seed=0)
    refused(agent, ContextError, ("'segment'",), lambda: agent.act({"segment": "new"}))
    twin = agent.copy()
    assert agent.act({}) == twin.act()


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", BY_NAME)
@pytest.mark.parametrize("d", [models.position_based(6, 2), shop()], ids=["position-based", "shop"])
def test_an_agent_from_a_file_goes_on(inference: str, d: idb.Diagram, tmp_path: Path) -> None:
    world, agent = taught(d, inference)
    agent.save(tmp_path / "agent.npz")
    loaded = idb.Thompson.load(str(tmp_path / "agent.npz"))
    assert same(knowledge(loaded), knowledge(agent))
    assert repr(loaded) == repr(agent)
    assert loaded.inference.settings == agent.inference.settings
    assert loaded.diagram.to_dict() == agent.diagram.to_dict()
    assert play(world.copy(), loaded, 100) == play(world.copy(), agent, 100)
    assert same(knowledge(loaded), knowledge(agent))
    for name, belief in agent.posterior().items():
        np.testing.assert_array_equal(belief.alpha, loaded.posterior()[name].alpha)
    assert os.listdir(tmp_path) == ["agent.npz"]


def test_another_process_goes_on(tmp_path: Path) -> None:
    d = models.position_based(6, 2)
    wanted = {}
    for name in BY_NAME:
        _, agent = taught(d, name)
        agent.save(tmp_path / f"{name}.npz")
        seen = [{"C1": t % 2, "C2": int(t % 3 == 0)} | ({"W1": 1, "E1": t % 2, "W2": 1, "E2": int(t % 3 == 0)} if name == "exact" else {}) for t in range(100)]  # fmt: skip
        wanted[name] = []
        for t in range(100):
            action = agent.act()
            agent.update(action, seen[t])
            wanted[name].append([int(action["A1"]), int(action["A2"])])
    code = """
        import json, sys, pathlib
        import idbandits as idb
        found = {}
        for file in sorted(pathlib.Path(sys.argv[1]).glob("*.npz")):
            agent, found[file.stem] = idb.Thompson.load(file), []
            for t in range(100):
                action = agent.act()
                seen = {"C1": t % 2, "C2": int(t % 3 == 0)}
                if file.stem == "exact":
                    seen |= {"W1": 1, "E1": t % 2, "W2": 1, "E2": int(t % 3 == 0)}
                agent.update(action, seen)
                found[file.stem].append([int(action["A1"]), int(action["A2"])])
        print(json.dumps(found))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == wanted


@pytest.mark.parametrize(
    "inference",
    [
        idb.Variational(sweeps=3, tolerance=0.01, start="random", literal=True),
        idb.Incremental(4, literal=True),
        idb.Gibbs(2),
        idb.EP(3, damping=0.8),
        idb.Particles(9, width=0.2),
    ],
    ids=lambda inference: type(inference).__name__,
)
def test_settings_are_kept(inference: Any, tmp_path: Path) -> None:
    world, agent = taught(models.position_based(6, 2), inference)
    agent.save(tmp_path / "it")
    loaded = idb.Thompson.load(tmp_path / "it")
    assert type(loaded.inference) is type(inference)
    assert loaded.inference.settings == inference.settings
    assert play(world.copy(), loaded, 50) == play(world.copy(), agent, 50)


@pytest.mark.parametrize(
    "kind", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]
)
def test_any_generator_is_kept(kind: Any, tmp_path: Path) -> None:
    d = models.semi_bandit(6, 2)
    agent = idb.Thompson(d, "exact", seed=np.random.Generator(kind(5)))
    agent.act()
    agent.save(tmp_path / "it")
    loaded = idb.Thompson.load(tmp_path / "it")
    assert [loaded.act() for _ in range(20)] == [agent.act() for _ in range(20)]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, agent = taught(models.position_based(6, 2), "variational")
    path = tmp_path / "agent.npz"
    agent.save(path)
    before = path.read_bytes()
    agent.update({"A1": 0, "A2": 1}, {"C1": 1})
    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:

            def full(*_: Any) -> None:
                raise OSError("no space left on device")

            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="no space"):
                agent.save(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["agent.npz"]
    agent.save(path)
    assert idb.Thompson.load(path).rounds == 61


def test_no_folder_and_no_file(tmp_path: Path) -> None:
    _, agent = taught(models.cascade(4, 2), "exact")
    with pytest.raises(FileNotFoundError):
        agent.save(tmp_path / "nowhere" / "agent.npz")
    with pytest.raises(FileNotFoundError):
        idb.Thompson.load(tmp_path / "agent.npz")


def test_the_diagram_of_a_file_can_be_asked_for(tmp_path: Path) -> None:
    d = models.position_based(6, 2)
    _, agent = taught(d, "variational")
    agent.save(tmp_path / "it")
    assert idb.Thompson.load(tmp_path / "it", diagram=models.position_based(6, 2)).rounds == 60
    for other in (models.position_based(7, 2), models.position_based(6, 2, distinct=False), d.revealed(), models.cascade(6, 2)):  # fmt: skip
        with pytest.raises(FormatError) as raised:
            idb.Thompson.load(tmp_path / "it", diagram=other)
        assert "'position-based'" in str(raised.value)
        assert repr(other.name) in str(raised.value)


def parts_of(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def head_of(parts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    head = json.loads(str(parts["head"])) | changes
    return parts | {"head": np.array(json.dumps({k: v for k, v in head.items() if v is not ...}))}


CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "foreign": lambda p: {"weights": np.arange(3.0)},
    "no arrays": lambda p: {"head": p["head"]},
    "no floats": lambda p: {"head": p["head"], "ints": p["ints"]},
    "another format": lambda p: head_of(p, format="idbandits agent 99"),
    "no format": lambda p: head_of(p, format=...),
    "head is a list": lambda p: p | {"head": np.array("[1, 2]")},
    "head is no JSON": lambda p: p | {"head": np.array("{")},
    "head is numbers": lambda p: p | {"head": np.arange(4)},
    "swapped": lambda p: p | {"ints": p["floats"], "floats": p["ints"]},
    "ints as int32": lambda p: p | {"ints": p["ints"].astype(np.int32)},
    "floats as float32": lambda p: p | {"floats": p["floats"].astype(np.float32)},
    "floats in two dimensions": lambda p: p | {"floats": p["floats"].reshape(1, -1)},
    "ints in no dimension": lambda p: p | {"ints": np.array(3)},
    "ints too short": lambda p: p | {"ints": p["ints"][:-1]},
    "ints too long": lambda p: p | {"ints": np.append(p["ints"], 0)},
    "ints shorter than a header": lambda p: p | {"ints": p["ints"][:5]},
    "no ints": lambda p: p | {"ints": p["ints"][:0]},
    "floats too short": lambda p: p | {"floats": p["floats"][:-1]},
    "floats too long": lambda p: p | {"floats": np.append(p["floats"], 0)},
    "no floats left": lambda p: p | {"floats": p["floats"][:0]},
    "another diagram's": lambda p: head_of(p, diagram=models.position_based(7, 3).to_dict()),
    "no diagram": lambda p: head_of(p, diagram=...),
    "a diagram that is none": lambda p: head_of(p, diagram={"name": "x"}),
    "no inference": lambda p: head_of(p, inference=...),
    "an inference that does not exist": lambda p: head_of(p, inference="magic"),
    "settings that do not exist": lambda p: head_of(p, settings={"magic": 1}),
    "settings that are wrong": lambda p: head_of(p, settings={"sweeps": -1}),
    "no settings": lambda p: head_of(p, settings=...),
    "no random numbers": lambda p: head_of(p, rng=...),
    "random numbers of no kind": lambda p: head_of(p, rng={"bit_generator": "Dice"}),
    "random numbers that are broken": lambda p: head_of(p, rng={"bit_generator": "PCG64"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_are_not_an_agents(change: str, tmp_path: Path) -> None:
    _, agent = taught(models.position_based(6, 2), "variational")
    path = tmp_path / "it.npz"
    agent.save(path)
    np.savez_compressed(path, **CHANGES[change](parts_of(path)))
    with pytest.raises(FormatError, match=r"it\.npz"):
        idb.Thompson.load(path)


@pytest.mark.parametrize("inference", ["exact", "moments", "ep", "particles"])
@pytest.mark.parametrize("which", ["ints", "floats"])
def test_arrays_of_another_length(inference: str, which: str, tmp_path: Path) -> None:
    _, agent = taught(models.position_based(6, 2), inference)
    path = tmp_path / "it.npz"
    agent.save(path)
    parts = parts_of(path)
    for wrong in (parts[which][:-1], np.append(parts[which], 0).astype(parts[which].dtype)):
        np.savez_compressed(path, **(parts | {which: wrong}))
        with pytest.raises(FormatError, match=r"it\.npz"):
            idb.Thompson.load(path)


def test_files_that_are_cut_or_damaged(tmp_path: Path) -> None:
    _, agent = taught(models.position_based(6, 2), "variational")
    path = tmp_path / "it.npz"
    agent.save(path)
    whole = path.read_bytes()
    for length in [0, 1, 3, 4, 10, 100, *range(200, len(whole), 150), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError, match=r"it\.npz"):
            idb.Thompson.load(path)
    rng = np.random.default_rng(0)
    outcomes = set()
    for at in rng.integers(len(whole), size=80):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        path.write_bytes(bytes(damaged))
        try:
            loaded = idb.Thompson.load(path)
        except FormatError:
            outcomes.add("refused")
        else:  # a byte that says nothing, like the time of writing
            outcomes.add("same")
            assert same(knowledge(loaded), knowledge(agent))
    assert "refused" in outcomes


@pytest.mark.parametrize("content", [b"hello\n", b"", b"{}", b"\x93NUMPY", b"PK\x03\x04", bytes(1000)])
def test_other_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "it.npz"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"it\.npz"):
        idb.Thompson.load(path)


def test_an_array_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "it.npz"
    buffer = io.BytesIO()
    np.save(buffer, np.arange(4.0))
    path.write_bytes(buffer.getvalue())
    with pytest.raises(FormatError, match=r"it\.npz"):
        idb.Thompson.load(path)


class Own:
    """An inference of one's own: exact, at Python's speed."""

    def __init__(self) -> None:
        self.inner = idb.Exact()
        self.settings: dict[str, Any] = {}

    def evidence(self, model: Any) -> Any:
        return self.inner.evidence(model)

    def start(self, model: Any, evidence: Any, rng: Any) -> Any:
        return self.inner.start(model, evidence, rng)

    def belief(self, evidence: Any, state: Any, rng: Any) -> Any:
        return state.floats[: evidence.learned]

    def learn(self, *arguments: Any) -> int:
        return int(self.inner.learn(*arguments))


def test_own_inferences_are_passed_again(tmp_path: Path) -> None:
    d = models.semi_bandit(5, 2)
    world, agent = taught(d, Own())
    _, exact = taught(d, "exact")
    assert same(knowledge(agent), knowledge(exact))
    agent.save(tmp_path / "it.npz")
    with pytest.raises(FormatError, match=r"it\.npz.*'Own'.*inference="):
        idb.Thompson.load(tmp_path / "it.npz")
    loaded = idb.Thompson.load(tmp_path / "it.npz", inference=Own())
    assert play(world.copy(), loaded, 50) == play(world.copy(), agent, 50) == play(world.copy(), exact, 50)


def test_own_inferences_learn_from_logs_and_in_simulations() -> None:
    d = models.semi_bandit(5, 2)
    own, exact = idb.Thompson(d, Own(), seed=1), idb.Thompson(d, "exact", seed=1)
    for agent in (own, exact):
        agent.update_many({"A1": [0, 1, 2], "A2": [3, 4, 0]}, {"X1": [1, None, 0], "X2": [0, 1, 1]})
    assert same(knowledge(own), knowledge(exact))
    world = idb.World(d, {"mean": [0.1, 0.3, 0.5, 0.7, 0.9]})
    frames = [
        idb.simulate(world, {"it": agent}, 100, runs=2, progress=False).frame.drop(columns="seconds")
        for agent in (own, exact)
    ]
    pd.testing.assert_frame_equal(*frames)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ints, floats: (ints, floats.astype(np.float32)), "floats.*at least 10 float64, not float32 of shape"),
        (lambda ints, floats: (ints, floats[:9]), r"floats.*at least 10 float64, not float64 of shape \(9,\)"),
        (lambda ints, floats: (ints, np.repeat(floats, 2)[::2]), "floats.* a writable array of at least 10"),
        (lambda ints, floats: (ints, np.broadcast_to(1.0, len(floats))), "floats.* a writable array of at least 10"),
        (lambda ints, floats: (ints, floats.tolist()), r"floats.*float64, not \[1.0"),
        (lambda ints, floats: (ints.astype(np.int32), floats), "ints.*int64, not int32"),
        (lambda ints, floats: (ints[:1], floats), r"ints.*int64, not int64 of shape \(1,\)"),
    ],
)
def test_states_of_own_inferences_are_what_compiled_functions_take(change: Any, words: str) -> None:
    class Odd(Own):
        def start(self, model: Any, evidence: Any, rng: Any) -> Any:
            return State(*change(*super().start(model, evidence, rng)))

    with pytest.raises(IdbanditsError, match=f"inference 'Odd'.*{words}"):
        idb.Thompson(models.semi_bandit(5, 2), Odd())


@pytest.mark.parametrize("saved", BY_NAME)
@pytest.mark.parametrize("asked", BY_NAME)
def test_another_inference_is_refused_or_its_own(saved: str, asked: str, tmp_path: Path) -> None:
    _, agent = taught(models.position_based(6, 2), saved, rounds=20)
    agent.save(tmp_path / "it.npz")
    if saved == asked:
        assert idb.Thompson.load(tmp_path / "it.npz", inference=BY_NAME[asked]()).rounds == 20
        return
    with pytest.raises(FormatError, match=r"it\.npz"):
        idb.Thompson.load(tmp_path / "it.npz", inference=BY_NAME[asked]())


@pytest.mark.parametrize(
    ("saved", "asked"),
    [
        (idb.Variational(), idb.Variational(sweeps=5)),
        (idb.Variational(), idb.Variational(literal=True)),
        (idb.Gibbs(), idb.Gibbs(3)),
        (idb.EP(), idb.EP(damping=1.0)),
        (idb.Particles(), idb.Particles(5)),
        (idb.Particles(), idb.Particles(width=0.3)),
        (idb.Incremental(), idb.Incremental(1)),
    ],
    ids=lambda inference: f"{type(inference).__name__} {inference.settings}",
)
def test_other_settings_are_refused_or_used(saved: Any, asked: Any, tmp_path: Path) -> None:
    d = models.position_based(6, 2)
    _, agent = taught(d, saved, rounds=20)
    agent.save(tmp_path / "it.npz")
    try:
        loaded = idb.Thompson.load(tmp_path / "it.npz", inference=asked)
    except FormatError:
        return
    fresh = idb.Thompson(d, asked)
    header = slice(8, 10)  # settings in the state
    np.testing.assert_array_equal(loaded._state.ints[header], fresh._state.ints[header])
    learned = loaded._evidence.learned
    assert loaded._state.floats[learned] == fresh._state.floats[learned]


# -- what it is made with ------------------------------------------------------------------------------------------


class Half:
    """An inference without most of its methods."""

    def learn(self, *_: Any) -> int:
        return 0


@pytest.mark.parametrize(
    ("inference", "words"),
    [
        ("magic", ("'magic'", "exact, variational")),
        ("", ("''", "exact, variational")),
        ("Variational", ("'Variational'", "variational")),
        (idb.Variational, ("Variational", "class")),
        (idb.Exact, ("Exact", "class")),
        (3, ("3", "learn")),
        (object(), ("object", "learn", "start")),
        (Half(), ("Half", "settings", "evidence", "start", "belief")),
        (["exact"], ("['exact']", "learn")),
    ],
)
def test_inferences_that_are_none(inference: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(IdbanditsError) as raised:
        idb.Thompson(models.cascade(4, 2), inference)
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize("seed", [-1, 0.5, "0", "seed", [-1], object()])
def test_seeds_that_are_none(seed: Any) -> None:
    with pytest.raises(IdbanditsError, match="seed"):
        idb.Thompson(models.cascade(4, 2), seed=seed)
    agent = idb.Thompson(models.cascade(4, 2), seed=1)
    with pytest.raises(IdbanditsError, match="seed"):
        agent.copy(seed=seed)


@pytest.mark.parametrize("seed", [0, 2**70, np.int64(3), [1, 2], np.random.SeedSequence(4)])
def test_seeds(seed: Any) -> None:
    one, other = (idb.Thompson(models.cascade(9, 2), seed=copy.deepcopy(seed)) for _ in range(2))
    assert [one.act() for _ in range(20)] == [other.act() for _ in range(20)]
    different = idb.Thompson(models.cascade(9, 2), seed=5)
    assert [one.act() for _ in range(20)] != [different.act() for _ in range(20)]


@pytest.mark.parametrize("d", [None, 3, "cascade", models.cascade])
def test_diagrams_that_are_none(d: Any) -> None:
    with pytest.raises(IdbanditsError, match="Diagram"):
        idb.Thompson(d)


def test_a_diagram_without_reward() -> None:
    d = idb.Diagram("idle")
    d.observed("heads", [d.decision("coin", 3)])
    with pytest.raises(IdbanditsError, match=r"'idle'.*reward"):
        idb.Thompson(d)


def test_exact_is_refused_where_it_is_not() -> None:
    with pytest.raises(DiagramError, match=r"'exact'.*C1 = .*'position-based'.*latent.*revealed"):
        idb.Thompson(models.position_based(5, 2), "exact")
    assert type(idb.Thompson(models.position_based(5, 2)).inference) is idb.EP
    assert type(idb.Thompson(models.cascade(5, 2)).inference) is idb.EP


@pytest.mark.parametrize("inference", [n for n in BY_NAME if n != "variational"])
def test_only_variational_has_an_elbo(inference: str) -> None:
    agent = agent_of(models.position_based(5, 2), inference)
    refused(agent, IdbanditsError, (repr(inference), "ELBO", "variational"), agent.elbo)


@pytest.mark.parametrize("inference", ["incremental", "moments", "ep", "particles"])
def test_inferences_that_cannot_revise(inference: str) -> None:
    agent = agent_of(models.position_based(5, 2), inference)
    refused(
        agent, IdbanditsError, (repr(inference), "exact, variational and gibbs"),
        lambda: agent.revise({"A1": 0, "A2": 1}, {"C1": 1}, None),
    )  # fmt: skip


@pytest.mark.parametrize("inference", ["variational", "gibbs"])
def test_only_what_was_learned_is_revised(inference: str) -> None:
    _, agent = taught(models.position_based(5, 2), inference, rounds=0)
    agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
    refused(
        agent, ObservationError, ("C1 = 0", "'A1': 0", "not learned"),
        lambda: agent.revise({"A1": 0, "A2": 1}, {"C1": 0, "C2": 1}, {"C1": 1, "C2": 0}),
    )  # fmt: skip
    agent.revise({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0}, None)
    assert agent.rounds == 0
    learned = agent._state.floats[: agent._evidence.learned]
    np.testing.assert_allclose(learned, 1, atol=1e-12)


@pytest.mark.parametrize("inference", ["exact", "variational", "gibbs"])
def test_a_revision_to_the_impossible_changes_nothing(inference: str) -> None:
    _, agent = taught(models.cascade(5, 2), inference, rounds=0)
    agent.update({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0})
    refused(
        agent, ImpossibleObservationError, ("C1 = 1", "C2 = 1"),
        lambda: agent.revise({"A1": 0, "A2": 1}, {"C1": 1, "C2": 0}, {"C1": 1, "C2": 1}),
    )  # fmt: skip


@pytest.mark.parametrize("draws", [0, -1, 1.5, "many", None, True])
def test_draws_of_a_propensity(draws: Any) -> None:
    agent = idb.Thompson(models.cascade(4, 2), seed=0)
    refused(agent, IdbanditsError, ("draws", repr(draws)), lambda: agent.propensity({"A1": 0, "A2": 1}, draws=draws))


@pytest.mark.parametrize("inference", BY_NAME)
def test_looking_changes_nothing(inference: str) -> None:
    _, agent = taught(models.position_based(5, 2), inference)
    before = copy.deepcopy(knowledge(agent))
    for belief in agent.posterior().values():
        assert belief.mean.shape == belief.sd.shape == belief.quantile(0.5).shape
        belief.alpha[:] = 0
    chance = agent.propensity({"A1": 0, "A2": 1}, draws=50)
    assert 0 <= chance.probability <= 1
    assert chance.standard_error > 0
    repr(agent)
    assert same(knowledge(agent), before)
    drawn = agent.sample()
    assert {name: mean.shape for name, mean in drawn.items()} == {
        name: table.means_shape for name, table in agent.diagram.learned.items()
    }
    for mean in drawn.values():
        assert ((mean > 0) & (mean < 1)).all()
        mean[:] = 7
    assert np.array_equal(agent._state.floats, before[1], equal_nan=True)


def test_propensities_add_up() -> None:
    _, agent = taught(models.cascade(3, 2), "exact", rounds=5)
    actions = list(reference.actions(agent.diagram))
    total = sum(agent.propensity(action, draws=400).probability for action in actions)
    assert total == pytest.approx(1, abs=1e-12)  # of the same draws


def test_copies_go_their_own_way() -> None:
    for name in BY_NAME:
        world, agent = taught(models.position_based(6, 2), name)
        twin, other, deep = agent.copy(), agent.copy(seed=9), copy.deepcopy(agent)
        actions = play(world.copy(), agent, 30)
        assert play(world.copy(), twin, 30) == actions
        assert play(world.copy(), deep, 30) == actions
        assert other.rounds == 60
        assert same(knowledge(twin), knowledge(agent))


def test_later_changes_of_the_diagram_are_not_the_agents(tmp_path: Path) -> None:
    d = idb.Diagram("coins")
    coin = d.decision("coin", 3)
    d.reward(d.observed("heads", [coin]))
    agent = idb.Thompson(d, "exact", seed=0)
    twin = agent.copy()
    d.decision("other", 2)
    d.reward(d.observed("tails", [coin]), lambda v: -100.0 * v)
    assert list(agent.diagram.nodes) == ["coin", "heads"]
    assert len(agent.diagram.rewards) == 1
    for k in range(30):
        action = agent.act()
        assert set(action) == {"coin"}
        assert action == twin.act()
        for one in (agent, twin):
            one.update(action, {"heads": k % 2})
    agent.save(tmp_path / "it")
    assert idb.Thompson.load(tmp_path / "it").act() == agent.act()
    assert set(idb.Thompson(d, "exact").act()) == {"coin", "other"}


def test_repr() -> None:
    agent = idb.Thompson(models.cascade(4, 2), idb.Variational(sweeps=2), seed=0)
    assert repr(agent) == (
        "Thompson('cascade', variational, sweeps=2, tolerance=0.0, start='warm', literal=False; 0 rounds)"
    )
    agent.update_many({"A1": [0] * 1234, "A2": [1] * 1234}, {"C1": [0] * 1234})
    assert repr(agent).endswith("; 1,234 rounds)")
    assert repr(idb.Thompson(models.semi_bandit(4, 2), Own())) == "Thompson('semi-bandit', Own; 0 rounds)"


# -- ties ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", BY_NAME)
def test_decisions_that_nothing_depends_on_are_made_at_random(inference: str) -> None:
    d = idb.Diagram("idle decision")
    d.decision("idle", ["a", "b", "c"])
    d.reward(d.observed("heads", [d.decision("coin", 2)]))
    agent = idb.Thompson(d, inference, seed=0)
    chosen = [agent.act()["idle"] for _ in range(600)]
    for label in "abc":
        assert 140 < chosen.count(label) < 260  # 200 expected, standard deviation 11.5


def test_decisions_that_nothing_depends_on_stay_out_of_the_way() -> None:
    d = idb.Diagram("idle decision")
    d.decision("idle", 4)
    d.reward(d.observed("heads", [d.decision("coin", 4)]))
    d.all_different()
    agent = idb.Thompson(d, seed=0)
    seen = {tuple(agent.act().values()) for _ in range(600)}
    assert seen == {(i, c) for i in range(4) for c in range(4) if i != c}


@pytest.mark.parametrize("prior", [[1e-9, 1e9], [1e9, 1e-9], [1e-9, 1e-9], [1e-300, 1e300], [1e12, 1e12]], ids=str)
@pytest.mark.parametrize("inference", BY_NAME)
def test_items_that_are_drawn_alike_all_get_their_turn(prior: list[float], inference: str) -> None:
    d = idb.Diagram("certain")
    d.reward(d.observed("heads", [d.decision("coin", 4)], idb.Learned("heads", prior=prior)))
    chosen = []
    for seed in range(20):
        agent = idb.Thompson(d, inference, seed=seed)
        chosen += [agent.act()["coin"] for _ in range(20)]
    for item in range(4):
        assert 50 <= chosen.count(item) <= 160 or inference == "particles"
        assert item in chosen


@pytest.mark.parametrize("make", [models.cascade, models.position_based, models.semi_bandit])
def test_items_in_a_list_that_are_drawn_alike_all_get_their_turn(make: Callable[..., idb.Diagram]) -> None:
    data = make(5, 2).to_dict()
    for table in data["learned"]:
        table["prior"] = [1e-9, 1e9]
    agent = idb.Thompson(idb.Diagram.from_dict(data), seed=0)
    seen = {tuple(agent.act().values()) for _ in range(800)}
    assert len(seen) == 20


@pytest.mark.parametrize("inference", BY_NAME)
@pytest.mark.parametrize(("items", "positions"), [(1, 1), (5, 1), (3, 3)])
@pytest.mark.parametrize("make", [models.cascade, models.position_based, models.semi_bandit])
def test_small_lists(make: Callable[..., idb.Diagram], items: int, positions: int, inference: str) -> None:
    _, agent = taught(make(items, positions), inference, rounds=30)
    assert agent.rounds == 30
    action = agent.act()
    assert len(set(action.values())) == positions


@pytest.mark.parametrize("inference", BY_NAME)
def test_one_choice_only(inference: str) -> None:
    d = idb.Diagram("one coin")
    d.reward(d.observed("heads", [d.decision("coin", ["it"])]))
    agent = idb.Thompson(d, inference, seed=0)
    for _ in range(10):
        assert agent.act() == {"coin": "it"}
        agent.update({"coin": "it"}, {"heads": 1})
    assert agent.posterior()["heads"].mean[0] > 0.7


@pytest.mark.parametrize("inference", BY_NAME)
def test_nothing_to_learn(inference: str) -> None:
    d = idb.Diagram("known")
    d.reward(d.observed("heads", [d.decision("coin", 3)], [0.1, 0.9, 0.5]))
    agent = idb.Thompson(d, inference, seed=0)
    for _ in range(10):
        assert agent.act() == {"coin": 1}
        agent.update({"coin": 1}, {"heads": 1})
    agent.update_many({"coin": [0, 1]}, {"heads": [1, None]})
    assert agent.rounds == 12
    assert agent.posterior() == {}
    assert agent.sample() == {}


# -- any diagram ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**9), st.lists(st.sampled_from(["step", "miss", "many", "copy"]), min_size=1, max_size=25))
def test_any_sequence_in_any_diagram(seed: int, steps: list[str]) -> None:
    rng = np.random.default_rng(seed)
    d = random_diagram(rng, most_chance=6)
    world = idb.World(d, random_means(rng, d), seed=seed)
    contextual = bool(d.of_kind("context"))
    for name in BY_NAME:
        if name == "particles" and not d.learned:  # see test_nothing_to_learn
            continue
        agent = agent_of(d, name, seed)
        rounds = 0
        for step in steps:
            if step == "copy":
                agent = agent.copy()
                continue
            given = {"context": world.context()} if contextual else {}
            action = agent.act(**given)
            places = {n: d.nodes[n].index(v) for n, v in action.items()}
            assert None not in places.values()
            assert list(places) == [n.name for n in d.of_kind("decision")]
            assert reference.feasible(d, places)
            outcome = world.step(action, **given)
            assert outcome.regret >= 0
            seen = outcome.seen_by(agent.diagram)
            if step == "miss" and name != "exact":
                seen = {n: v for n, v in seen.items() if rng.random() < 0.5}
            if step == "many":
                parts = [{n: [v, v] for n, v in part.items()} for part in (action, seen, outcome.context)]
                agent.update_many(*parts)
            else:
                agent.update(action, seen, **given)
            rounds += 1 + (step == "many")
            assert agent.rounds == rounds
        for belief in agent.posterior().values():
            assert np.isfinite(belief.alpha).all()
            assert (belief.alpha > 0).all()
            assert ((belief.mean >= 0) & (belief.mean <= 1)).all()
