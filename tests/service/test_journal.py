"""The journal: order of blocks, collisions, poisoned writes, databases that stop, backups in other servers."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from database_servers import missing
from idbandits.service.history.copying import back_up, restore_from
from idbandits.service.journal.committer import Committer
from idbandits.service.journal.journal import Journal, NewDecision, Report
from idbandits.service.journal.postgres import PostgresStore
from idbandits.service.journal.store import CollisionError
from idbandits.service.live.deciding import Request
from idbandits.service.live.live import Live, open_store
from idbandits.service.live.versions import Version
from idbandits.service.service_errors import ServiceError
from live_cases import DAY, HORIZON, HOUR, Clock, belief, live_of, shop

SETTINGS: dict[str, Any] = {"inference": "exact", "horizon": HORIZON}


def played(live: Live, clock: Clock, rounds: int = 20) -> None:
    """Decide, report and close some rounds."""
    for own in live.decide_many("shop", [Request() for _ in range(rounds)]):
        assert not isinstance(own, ServiceError)
        live.report(own.id, {"click": 1})
    clock.now += 2 * DAY
    live.tick()


def test_a_smaller_number_that_commits_late_is_not_missed(postgres: Callable[[], str]) -> None:
    """Readers stop before the oldest open transaction; nobody waits for it but them."""
    import psycopg

    url, clock = postgres(), Clock()
    with live_of(url, clock) as live, live_of(url, clock) as other, psycopg.connect(url) as held:
        live.put("shop", shop(), **SETTINGS)
        assert other.tick() == 1
        first = live.decide("shop", allowed=["a"])
        (number,) = held.execute("SELECT n FROM decisions").fetchone() or (0,)
        sql = "INSERT INTO steps (block, experiment, kind, version, decision, after) VALUES (%s, %s, %s, %s, %s, %s)"
        (block,) = held.execute("SELECT pg_current_xact_id()::text::bigint").fetchone() or (0,)
        held.execute(sql, (block, "shop", "round", 1, number, '{"click":1}'))
        live.decide("shop", allowed=["b"], id="x")
        clock.now += HOUR
        assert live.report(first.id, {"click": (1, clock.now - 3000)}) == "accepted"
        with live.store.transaction() as own:  # the round that `held` appends is not due any more
            own.all("UPDATE outcomes SET due = NULL, learned = ? WHERE n = ?", ('{"click":1}', number))
        assert live.tick() == other.tick() == 0
        assert live.store.lag() > 0
        assert live.journal.decision("shop", "x").learned == '{"click":0}'  # it was closed
        held.commit()
        assert live.tick() == other.tick() == 2
        assert live.store.lag() == 0
        for worker in (live, other):
            assert belief(worker.view("shop").agent)["click"] == [[1, 2], [2, 1], [1, 1]]


def test_outcomes_reach_other_workers_at_once(new_store: Callable[[], str]) -> None:
    url, ids = new_store(), list[str]()
    with Live(url, tick=0.01) as one, Live(url, tick=0.01) as other:
        one.put("shop", shop(), **SETTINGS)
        for _ in range(20):
            own = one.decide_many("shop", [Request() for _ in range(50)])
            ids = [decision.id for decision in own if not isinstance(decision, ServiceError)]
            assert other.report_many("shop", [{"id": id, "values": {"click": 1}} for id in ids]) == ["accepted"] * 50


def test_many_threads_and_two_workers(new_store: Callable[[], str]) -> None:
    """Nothing deadlocks, each id has one answer, and workers agree to the last bit."""
    url, clock, answers = new_store(), Clock(), list[tuple[str, Any]]()
    with live_of(url, clock) as one, live_of(url, clock) as other:
        one.put("shop", shop(), inference="gibbs", horizon=60)
        other.tick()

        def work(live: Live, step: int) -> None:
            for k in range(5):
                ids = [f"{k}-{i}" for i in range(20)][::step]
                for id, own in zip(ids, live.decide_many("shop", [Request(id=id) for id in ids]), strict=True):
                    if isinstance(own, ServiceError):
                        assert own.kind == "duplicate"
                    else:
                        answers.append((id, own.action["item"]))
                live.report_many("shop", [{"id": id, "values": {"buy": 1, "click": 1}} for id in ids])
                live.tick()

        threads = [threading.Thread(target=work, args=(live, step)) for live in (one, other) for step in (1, -1, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(answers)) == len({id for id, _ in answers}) == 100
        clock.now += 61
        one.tick()
        other.tick()
        assert one.view("shop").agent.rounds == 100
        assert belief(one.view("shop").agent) == belief(other.view("shop").agent)
        assert one.replica("shop").statistics == other.replica("shop").statistics


def test_poisoned_writes_do_not_affect_others(url: str) -> None:
    with live_of(url, Clock()) as live:
        live.put("shop", shop(), **SETTINGS)
        row = live.decision_write("shop", Request(id="x")).row
        texts = ["good", "b\x00d", "\ud800", "good too"]
        writes: list[Any] = [NewDecision(row._replace(id=f"{i}", unit=text)) for i, text in enumerate(texts)]

        def fails(*_: Any) -> Any:
            raise ZeroDivisionError

        writes.append(Report("shop", "0", fails))
        answers = live._committer.do_all(writes)
        good = [0, 3] if "postgres" in url else [0, 1, 3]
        for i, answer in enumerate(answers):
            assert isinstance(answer, ServiceError) is (i not in good)
        assert live.show("shop")["decisions"] == len(good)

        def gone(_: Any) -> None:
            raise RuntimeError

        live.submit([NewDecision(row._replace(id="y"))], gone)
        assert live.decide("shop", id="y").id == "y"  # the committer works on


def test_transactions_that_collide_are_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with live_of(url, Clock()) as live:
        live.put("shop", shop(), **SETTINGS)
        report, tries = Journal._report, list[int]()

        def collides(*arguments: Any) -> None:
            tries.append(len(tries))
            if len(tries) < 3:
                raise CollisionError(RuntimeError("deadlock"))
            report(*arguments)

        monkeypatch.setattr(Journal, "_report", collides)
        assert live.decide("shop", id="x").id == "x"
        assert len(tries) == 3
        assert live.show("shop")["decisions"] == 1
        monkeypatch.setattr(
            Journal, "_report", lambda *_: (_ for _ in ()).throw(CollisionError(RuntimeError("always")))
        )
        with pytest.raises(ServiceError) as caught:
            live.decide("shop", id="y")
        assert caught.value.kind == "unavailable"


def test_deadlocks_are_collisions(postgres: Callable[[], str]) -> None:
    """Two transactions that wait for each other: one of them is told to try again."""
    store, barrier, ended = PostgresStore(postgres()), threading.Barrier(2), list[str]()
    Journal(store)
    with store.transaction() as own:
        own.all("INSERT INTO experiments (name, status, seed, created) VALUES ('a', 's', 1, 0), ('b', 's', 1, 0)")

    def locks(first: str, second: str) -> None:
        try:
            with store.transaction() as own:
                own.all("SELECT 1 FROM experiments WHERE name = ? FOR UPDATE", (first,))
                barrier.wait()
                own.all("SELECT 1 FROM experiments WHERE name = ? FOR UPDATE", (second,))
            ended.append("done")
        except CollisionError as error:
            ended.append(error.kind)

    threads = [threading.Thread(target=locks, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    assert sorted(ended) == ["done", "unavailable"]


def test_a_round_that_cannot_be_closed_keeps_no_other_open(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    with live_of(url, clock) as live:
        live.put("shop", shop(), **SETTINGS)
        for id in ("x", "y", "z"):
            live.decide("shop", id=id)
        observation = Version.observation

        def fails(version: Version, row: Any, *others: Any) -> Any:
            if row.id == "y":
                raise ZeroDivisionError
            return observation(version, row, *others)

        monkeypatch.setattr(Version, "observation", fails)
        clock.now += HOUR
        assert live.tick() == 2
        assert [live.decision("shop", id)["state"] for id in "xyz"] == ["open", "impossible", "open"]
        assert live.journal.letters_by_reason("shop") == {"impossible": 1}


def test_a_committer_that_closes_answers_all(url: str) -> None:
    with live_of(url, Clock()) as live:
        live.put("shop", shop(), **SETTINGS)
        row, committer, answers = live.decision_write("shop", Request()).row, Committer(live.journal), list[Any]()
        submitted = 0
        ending = threading.Thread(target=committer.close)
        for i in range(500):
            if i == 250:
                ending.start()
            try:
                committer.submit([NewDecision(row._replace(id=f"{i}"))], answers.extend)
                submitted += 1
            except ServiceError as error:
                assert error.kind == "unavailable"
                break
        ending.join()
        assert len(answers) == submitted


def test_a_database_that_goes_away(postgres: Callable[[], str]) -> None:
    """Requests fail at once, and work again when the database does."""
    import psycopg

    url = postgres()
    with Live(url, tick=0.01) as live:
        live.put("shop", shop(), inference="exact", horizon=0)
        name = live.store._psycopg.conninfo.conninfo_to_dict(url)["options"].split("=")[1]  # type: ignore[attr-defined]
        live.decide("shop", id="x")
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(f"ALTER SCHEMA {name} RENAME TO gone")
            sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"
            other.execute(sql)
            for _ in range(3):
                with pytest.raises(ServiceError) as caught:
                    live.decide("shop", id="y")
                assert caught.value.kind == "unavailable"
            while live.failure is None:
                time.sleep(0.005)
            other.execute(f"ALTER SCHEMA gone RENAME TO {name}")
        while live.failure is not None:
            time.sleep(0.005)
        assert live.decide("shop", id="y").id == "y"
        while live.view("shop").agent.rounds < 2:
            time.sleep(0.005)


def test_backups(new_store: Callable[[], str], postgres: Callable[[], str], tmp_path: Path) -> None:
    """A backup is restored in either store; blocks go on in their order, whatever the numbers of transactions are."""
    url, clock = new_store(), Clock()
    with live_of(url, clock) as live:
        live.put("shop", shop(), **SETTINGS)
        played(live, clock)
        open_id = live.decide("shop", id="open", allowed=["a"]).id
        live.save_snapshots()
        back_up(url, tmp_path / "backup.db")
        played(live, clock)  # not in the backup
    with closing(sqlite3.connect(tmp_path / "backup.db")) as own, own:  # as if the server had been used for years
        own.execute("UPDATE steps SET block = block + 1000000000000")
        own.execute("UPDATE snapshots SET block = block + 1000000000000")
    targets = [f"sqlite:///{tmp_path}/restored.db", postgres()]
    for target in targets:
        restore_from(tmp_path / "backup.db", target)
        with live_of(target, clock) as live, live_of(target, clock) as other:
            assert live.view("shop").agent.rounds == 20
            before = live.view("shop").position
            assert live.report(open_id, {"buy": 1}, at=live.decision("shop", open_id)["at"] + 9) == "accepted"
            played(live, clock)
            assert live.view("shop").agent.rounds == 41
            assert live.view("shop").position > before > 10**12
            assert other.tick() > 0
            assert belief(other.view("shop").agent) == belief(live.view("shop").agent)
        with live_of(target, clock) as live:
            assert belief(live.view("shop").agent) == belief(other.view("shop").agent)
            assert Journal(live.store).snapshots("shop")


@pytest.mark.skipif(bool(missing("apsw")), reason="apsw not installed")
def test_backup_of_a_file_in_use(tmp_path: Path) -> None:
    """Changes in the WAL are in the backup."""
    url, clock = f"sqlite:///{tmp_path}/journal.db", Clock()
    with live_of(url, clock) as live:
        live.put("shop", shop(), **SETTINGS)
        played(live, clock)
        back_up(url, tmp_path / "backup.db")
        played(live, clock)
    assert [path.name for path in tmp_path.iterdir() if "backup" in path.name] == ["backup.db"]
    with closing(sqlite3.connect(tmp_path / "backup.db")) as own:
        assert own.execute("SELECT count(*) FROM decisions").fetchone() == (20,)


@pytest.mark.skipif(bool(missing("apsw")), reason="apsw not installed")
def test_files_that_are_no_journals(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database " * 1000)
    for name in ("text.db", "no folder/shop.db", "."):
        with pytest.raises(ServiceError) as caught:
            Live(f"sqlite:///{tmp_path}/{name}", background=False)
        assert caught.value.kind == "unavailable"


def test_migrations_of_two_processes_at_once(new_store: Callable[[], str]) -> None:
    url, failures = new_store(), list[Exception]()

    def opens() -> None:
        try:
            store = open_store(url)
            Journal(store)
            store.close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=opens) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
