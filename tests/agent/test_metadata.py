"""Metadata of an agent; random numbers of several processes that load one file."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import idbandits as idb
from error_checks import assert_raises
from idbandits import Thompson, models
from idbandits.errors import IdbanditsError

METADATA: dict[str, Any] = {"learned up to": 12, "é": [1.5, None, True, {"of": "text"}], "empty": {}}


def some(kind: str, items: int = 4) -> Any:
    d = models.cascade([f"item {i}" for i in range(items)], 2)
    more = models.position_based([f"item {i}" for i in range(items)], 2)
    return d if kind == "one" else {"cascade": d, "position-based": more}


def agent_of(kind: str) -> Any:
    agent = Thompson(some(kind), seed=1)
    for _ in range(10):
        agent.update(agent.act(), {"C1": 0, "C2": 1})
    return agent


every_kind = pytest.mark.parametrize("kind", ["one", "several"])


@every_kind
def test_metadata_is_stored_with_an_agent_and_kept(kind: str, tmp_path: Path) -> None:
    agent, path = agent_of(kind), tmp_path / "agent"
    assert agent.metadata == {}
    agent.save(path)
    assert Thompson.load(path).metadata == {}
    agent.save(path, metadata=METADATA)
    assert agent.metadata == {}  # what is stored is not the agent's
    loaded = Thompson.load(path)
    assert loaded.metadata == METADATA
    others = [
        loaded.copy(), loaded.copy(seed=3), copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded)),
        loaded.moved_to(some(kind, 5)), Thompson.load(path, seed=3),
    ]  # fmt: skip
    for other in others:
        assert other.metadata == METADATA
        other.metadata["é"].append(1)  # each has its own
    assert loaded.metadata == METADATA
    loaded.save(path)
    assert Thompson.load(path).metadata == METADATA
    loaded.save(path, metadata={})
    assert Thompson.load(path).metadata == {}


@every_kind
def test_metadata_is_read_as_plain_data(kind: str, tmp_path: Path) -> None:
    agent_of(kind).save(tmp_path / "agent", metadata={"shards": (1, 2)})
    assert Thompson.load(tmp_path / "agent").metadata == {"shards": [1, 2]}


@every_kind
def test_what_is_no_json_is_rejected_and_the_file_stays(kind: str, tmp_path: Path) -> None:
    agent, path = agent_of(kind), tmp_path / "agent"
    agent.save(path)
    before = path.read_bytes()
    nested: Any = []
    for _ in range(200):
        nested = [nested]
    itself: dict[str, Any] = {}
    itself["itself"] = itself
    for wrong in (
        5, "text", [1], {1: 2}, {"a": {2: 3}}, {"a": [{None: 3}]}, {"a": float("nan")}, {"a": float("inf")},
        {"a": object()}, {"a": {1, 2}}, {"a": b"bytes"}, {"a": nested}, {"a": "x" * 2**21}, {"a": 10**5000}, itself,
    ):  # fmt: skip
        assert_raises(IdbanditsError, ("metadata must",), lambda wrong=wrong: agent.save(path, metadata=wrong))
    agent.metadata = {"a": object()}
    assert_raises(IdbanditsError, ("metadata must",), lambda: agent.save(path))
    assert path.read_bytes() == before


@every_kind
def test_a_seed_gives_processes_that_load_one_file_their_own_choices(kind: str, tmp_path: Path) -> None:
    path, agent = tmp_path / "agent", Thompson(some(kind), seed=1)
    for learned in (False, True):
        if learned:
            agent.update(agent.act(), {"C1": 0, "C2": 1})
        agent.save(path)

        def choices(**settings: Any) -> list[Any]:
            loaded = Thompson.load(path, **settings)
            assert loaded.rounds == agent.rounds
            assert loaded.weights() == agent.weights()
            return [loaded.act() for _ in range(50)]

        assert choices() == choices()
        assert choices(seed=11) == choices(seed=11)
        assert choices(seed=11) != choices(seed=12)
        assert choices(seed=11) != choices()
    with pytest.raises(IdbanditsError, match="seed"):
        Thompson.load(path, seed=-1)


@every_kind
def test_a_check_raises_what_an_update_would_raise_and_changes_nothing(kind: str, tmp_path: Path) -> None:
    if kind == "one":
        agent: Any = Thompson(models.cascade(["tea", "milk", "rice"], 2), seed=1)
    else:
        agent = Thompson(
            [models.cascade(["tea", "milk", "rice"], 2), models.cascade_inverted(["tea", "milk", "rice"], 2)]
        )
    agent.update({"A1": "tea", "A2": "milk"}, {"C1": 0, "C2": 0})
    agent.save(tmp_path / "before")
    good, seen = {"A1": "tea", "A2": "milk"}, {"C1": 0, "C2": 1}
    agent.check_round(good, seen)
    rounds: list[tuple[Any, ...]] = [
        (good, {"C1": 2}), (good, {"C3": 1}), (good, 5), ({"A1": "tea"}, seen), ({"A1": "tea", "A2": "tea"}, seen),
        ({"A1": "tea", "A2": "beer"}, seen), (good, seen, {"user": 1}), (None, seen),
    ]  # fmt: skip
    if kind == "one":
        rounds.append((good, {"C1": 1, "C2": 1}))  # impossible
    for wrong in rounds:
        with pytest.raises(IdbanditsError) as of_update:
            agent.copy().update(*wrong)
        with pytest.raises(type(of_update.value)) as of_check:
            agent.check_round(*wrong)
        assert (str(of_check.value), type(of_check.value)) == (str(of_update.value), type(of_update.value))
    agent.save(tmp_path / "after")
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()


def test_a_check_knows_of_times_contexts_and_earlier_diagrams() -> None:
    agent = Thompson(models.cascade(["tea", "milk"], 1), seed=1, forget=idb.Forget("5s"))
    with pytest.raises(IdbanditsError, match="half-life"):
        agent.check_round({"A1": "tea"}, {"C1": 1})
    agent.check_round({"A1": "tea"}, {"C1": 1}, at=3.0)
    moved = agent.moved_to(models.cascade(["milk", "rice"], 1))
    moved.check_round({"A1": "tea"}, {"C1": 1}, at=3.0)
    assert (agent.rounds, moved.rounds) == (0, 0)
    with pytest.raises(IdbanditsError, match="'beer'"):
        moved.check_round({"A1": "beer"}, {"C1": 1}, at=3.0)
