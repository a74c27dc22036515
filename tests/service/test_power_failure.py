"""Acknowledged writes survive a power failure, and a disk that is full."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from database_servers import missing
from idbandits.service.journal.records import events_of
from idbandits.service.live.deciding import Request
from idbandits.service.live.live import Live
from idbandits.service.service_errors import ServiceError
from live_cases import HOUR, Clock, belief, live_of, shop

if reason := missing("apsw"):
    pytest.skip(reason, allow_module_level=True)

import apsw

from failing_disk import Disk, FailingVfs
from idbandits.service.journal.sqlite import SqliteStore

SETTINGS: dict[str, Any] = {"inference": "exact", "horizon": {"click": "30m", "buy": "1d"}}


def lost_after_power_failure(folder: Path, seed: int, synchronous: str = "FULL") -> list[str]:
    """Play until the power fails at a random operation of the file system; return what is lost of what was answered."""
    disk, clock, own = Disk(seed), Clock(), random.Random(seed)
    before, after = folder / "before", folder / "after"
    before.mkdir(parents=True)
    after.mkdir()
    name = f"failing {seed} {synchronous}"
    vfs = FailingVfs(name, disk)
    decided, reported = dict[str, Any](), set[str]()
    store = SqliteStore(f"sqlite:///{before}/shop.db", vfs=name, synchronous=synchronous)
    live = Live("", clock=clock, background=False, store=store)
    try:
        live.put("shop", shop(), **SETTINGS)
        disk.fails_at = disk.operations + own.randint(1, 400)
        for k in range(1000):
            for answer in live.decide_many("shop", [Request(id=f"{k} {i}") for i in range(own.randint(1, 20))]):
                if isinstance(answer, ServiceError):
                    raise answer
                decided[answer.id] = answer.action
            ids = own.sample(sorted(decided), min(10, len(decided)))
            reports = [{"id": id, "values": {"buy": 1}} for id in ids]
            for id, told in zip(ids, live.report_many("shop", reports), strict=True):
                if isinstance(told, ServiceError) and told.kind == "unavailable":
                    raise told
                reported |= {id} if told == "accepted" else set()
            if own.random() < 0.2:
                clock.now += HOUR
                live.tick()
            if own.random() < 0.1:
                live.save_snapshots()
    except ServiceError as error:
        assert error.kind == "unavailable", error
    assert 0 <= disk.fails_at <= disk.operations
    disk.power_failure(after)
    live.close()
    vfs.unregister()

    with apsw.Connection(str(after / "shop.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with live_of(f"sqlite:///{after}/shop.db", clock) as live:
        stored = {row.id: (row, events_of(row)) for row in live.journal.decisions("shop", 0, 10**6)}
        lost = [id for id, action in decided.items() if id not in stored or action != live_action(live, id)]
        lost += [id for id in reported if id in stored and [e.node for e in stored[id][1]] != ["buy"]]
        clock.now += 48 * HOUR
        live.tick()
        if not lost:
            bought = sum(e.node == "buy" for _, events in stored.values() for e in events)
            agent = live.view("shop").agent
            assert agent.rounds == len(stored)
            assert sum(row[1] - 1 for row in belief(agent)["buy"]) == bought >= len(reported)
    return lost


def live_action(live: Live, id: str) -> Any:
    """Return the action of a stored decision, by repeating its request."""
    return live.decide("shop", id=id).action


@pytest.fixture(autouse=True)
def many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy pages from the WAL to the database often."""
    monkeypatch.setattr(apsw, "connection_hooks", [lambda own: own.execute("PRAGMA wal_autocheckpoint=40")])


def test_acknowledged_is_durable(tmp_path: Path) -> None:
    for seed in range(50):
        assert lost_after_power_failure(tmp_path / str(seed), seed) == []


def test_the_test_can_fail(tmp_path: Path) -> None:
    """Without a sync at every commit, something is lost."""
    assert any(lost_after_power_failure(tmp_path / str(seed), seed, "NORMAL") for seed in range(10))


@pytest.fixture
def disk() -> Iterator[Disk]:
    own = Disk(0)
    vfs = FailingVfs("filling", own)
    yield own
    vfs.unregister()


def test_a_full_disk(disk: Disk, tmp_path: Path) -> None:
    clock = Clock()
    store = SqliteStore(f"sqlite:///{tmp_path}/shop.db", vfs="filling")
    with Live("", clock=clock, store=store, tick=0.01) as live:
        live.put("shop", shop(), **SETTINGS)
        first = live.decide("shop", id="x")
        live.report("x", {"click": 1})
        disk.is_full = True
        for call in (lambda: live.decide("shop", id="y"), lambda: live.report("x", {"buy": 1})):
            with pytest.raises(ServiceError) as caught:
                call()
            assert caught.value.kind == "unavailable"
            assert caught.value.status == 503
        clock.now += HOUR
        while live.failure is None:
            time.sleep(0.005)
        disk.is_full = False
        while live.failure is not None:
            time.sleep(0.005)
        assert live.decide("shop", id="x") == first
        assert live.decide("shop", id="y").id == "y"
        assert live.report("x", {"buy": 1}) == "accepted"
        while live.view("shop").agent.rounds < 1:
            time.sleep(0.005)
        assert live.decision("shop", "x")["learned"] == {"click": 1}
