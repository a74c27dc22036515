"""Runs on a Dask cluster: the same results, workers that die, and errors."""

from __future__ import annotations

import importlib
import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits.errors import IdbanditsError
from idbandits.reproduction import runs
from idbandits.reproduction.problems import VI
from idbandits.reproduction.run_store import Store
from idbandits.reproduction.runs import Cell, Job, Prepared, Settings, make_runs
from idbandits.simulation.loop import Run

CELL = Cell("cascade 1", VI)
LONG = Settings(rounds=20_000, runs=8, seed=1)

pytestmark = pytest.mark.usefixtures("without_warnings")


@pytest.fixture
def without_warnings() -> Iterator[None]:
    """Dask leaves sockets and event loops to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Scheduler:
    """Dask scheduler and workers in separate processes."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.process = self._start("scheduler", "--port", "0")
        until(lambda: self._file.exists() and self._file.stat().st_size > 0)
        self.address: str = json.loads(self._file.read_text())["address"]

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        common = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(self._file)]
        environment = {
            "PYTHONPATH": str(Path(idb.__file__).parents[1]), "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error",
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words, *common],
            env=os.environ | environment, cwd=self._folder, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def start_workers(self) -> None:
        """Start two workers, and wait until they have imported what runs need."""
        distributed = importlib.import_module("distributed")
        self.workers = [self._start("worker", "--nthreads", "1", "--no-nanny") for _ in range(2)]
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            client.run(importlib.import_module, "idbandits.reproduction.runs")

    def kill(self, *processes: subprocess.Popen[bytes]) -> None:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    """Scheduler without workers."""
    pytest.importorskip("distributed")
    started = Scheduler(tmp_path)
    yield started
    started.kill(started.process, *started.workers)


@pytest.fixture
def with_workers(scheduler: Scheduler) -> Scheduler:
    """Scheduler with two workers."""
    scheduler.start_workers()
    return scheduler


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def begun_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[tuple[int, int]]]:
    """Return the runs that workers have begun, with process ids; each worker logs them to a file."""
    log = str(tmp_path / "log")

    def run_and_log(settings: Settings, cell: Cell, run: int) -> Any:
        from idbandits.reproduction.runs import run_remotely  # on the worker, where it is not patched

        with open(log, "a") as lines:
            lines.write(f"{run} {os.getpid()}\n")
        return run_remotely(settings, cell, run)

    monkeypatch.setattr(runs, "run_remotely", run_and_log)
    return lambda: [(int(run), int(pid)) for run, pid in map(str.split, Path(log).read_text().splitlines())]


class ObservedStore:
    """Empty store that calls a function when a run is stored."""

    def __init__(self, on_put: Callable[[int], None]) -> None:
        self.keys: list[str] = []
        self._on_put = on_put

    def get(self, key: str) -> None:
        return None

    def put(self, key: str, run: Run) -> None:
        self.keys.append(key)
        self._on_put(len(self.keys))


def ignore(cell: Cell, rounds: int) -> None:
    pass


# -- results -------------------------------------------------------------------------------------------------------


def test_a_cluster_gives_the_same_results_if_it_has_the_same_version(
    store: Store, tmp_path: Path, with_workers: Scheduler, evaluation: Any, begun: list[Job],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    progress: list[int] = []
    address = with_workers.address
    evaluation.check(evaluation.make(store, cluster=address, advance=lambda _, rounds: progress.append(rounds)))
    assert begun == []  # all were made elsewhere
    assert sum(progress) == evaluation.rounds
    evaluation.check(evaluation.make(store))
    assert begun == []  # and are stored here
    monkeypatch.setattr(runs, "version", lambda: "another")
    with Store(tmp_path / "other.sqlite") as other:
        with pytest.raises(IdbanditsError, match="another version"):
            evaluation.make(other, cluster=address)
        assert evaluation.stored_in(other) == []


def test_a_worker_that_dies_costs_only_its_unfinished_runs(
    with_workers: Scheduler, begun_there: Callable[[], list[tuple[int, int]]]
) -> None:
    dying, living = with_workers.workers

    def kill_one(stored: int) -> None:
        if stored == 2:
            until(lambda: {pid for _, pid in begun_there()} == {dying.pid, living.pid})
            dying.send_signal(signal.SIGKILL)

    observed: Any = ObservedStore(kill_one)
    prepared = Prepared(CELL, LONG)
    keys = {prepared.key(number): number for number in range(LONG.runs)}
    made = make_runs([CELL], LONG, observed, None, with_workers.address, ignore)
    assert dying.wait(timeout=10) == -signal.SIGKILL
    assert made is not None
    assert sorted(observed.keys) == sorted(keys)  # each exactly once
    early = {keys[key] for key in observed.keys[:2]}
    where = {run: [pid for other, pid in begun_there() if other == run] for run in range(LONG.runs)}
    assert {pid for pids in where.values() for pid in pids} == {dying.pid, living.pid}
    assert all(len(where[run]) == 1 for run in early)
    assert all(len(pids) == 1 or pids == [dying.pid, living.pid] for pids in where.values())
    for job, run in made.items():
        here = prepared.run(job.run, threading.Event(), lambda _: None)
        assert here is not None
        assert np.array_equal(run.totals[:, :2], here.totals[:, :2])


# -- errors --------------------------------------------------------------------------------------------------------


def test_workers_that_have_all_died_are_not_waited_for_forever(
    with_workers: Scheduler, begun_there: Callable[[], list[tuple[int, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill_all(stored: int) -> None:
        if stored == 1:
            until(lambda: len(begun_there()) > 6)  # then some are finished that have not been handed over
        with_workers.kill(*with_workers.workers)

    observed: Any = ObservedStore(kill_all)
    monkeypatch.setattr(runs, "PATIENCE", 5)
    settings = Settings(LONG.rounds, 100, LONG.seed)
    with pytest.raises(IdbanditsError, match="no workers left"):
        make_runs([CELL], settings, observed, None, with_workers.address, ignore)
    assert 1 <= len(observed.keys) < settings.runs


ADDRESSES = [
    "tcp://127.0.0.1:1", "nowhere", "", " ", "ucx://1.2.3.4:5", "tls://127.0.0.1:1", "foo://x", "tcp://", "inproc://x",
    "tcp://127.0.0.1:99999", "tcp://127.0.0.1:-5", "tcp://127.0.0.1:0", "127.0.0.1:1:2", "tcp://127.0.0.1:x",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_wrong_address(store: Store, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(runs, "PATIENCE", 1)
    with pytest.raises(IdbanditsError, match=f"--cluster.*{address!r}") as raised:
        make_runs([CELL], LONG, store, None, address, ignore)
    assert "\n" not in str(raised.value)


def test_a_scheduler_without_workers(store: Store, monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler) -> None:
    monkeypatch.setattr(runs, "PATIENCE", 1)
    with pytest.raises(IdbanditsError, match=r"has no workers$"):
        make_runs([CELL], LONG, store, None, scheduler.address, ignore)


def test_without_dask_the_error_says_how_to_install_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(IdbanditsError, match=r"idbandits\[cluster\]"):
        make_runs([CELL], LONG, store, None, "tcp://127.0.0.1:1", ignore)


def test_a_scheduler_that_dies_is_an_error_and_nothing_is_logged(
    store: Store, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = importlib.import_module("distributed")
    submit = distributed.Client.submit

    def submit_and_kill(client: Any, *arguments: Any, **options: Any) -> Any:
        future = submit(client, *arguments, **options)
        scheduler.process.kill()
        return future

    monkeypatch.setattr(distributed.Client, "wait_for_workers", lambda *_, **__: None)
    monkeypatch.setattr(distributed.Client, "submit", submit_and_kill)
    log = io.StringIO()
    monkeypatch.setattr(logging.getLogger("distributed.client"), "handlers", [logging.StreamHandler(log)])
    with pytest.raises(IdbanditsError, match="lost the connection"):
        make_runs([CELL], Settings(LONG.rounds, 1, LONG.seed), store, None, scheduler.address, ignore)
    assert log.getvalue() == ""
