"""Runs of the evaluation: what they are known by, how they are kept, and that nothing but settings changes them."""

from __future__ import annotations

import importlib
import io
import json
import logging
import os
import signal
import sqlite3
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
from idbandits import models
from idbandits.errors import FormatError, IdbanditsError
from idbandits.inference import Variational
from idbandits.paper import problems as paper
from idbandits.paper import runs
from idbandits.paper.problems import Contender, Problem
from idbandits.paper.runs import Cell, Job, Prepared, Settings, Store, make_runs, opened, run_on_cluster
from idbandits.simulation.simulate import Run

SETTINGS = Settings(rounds=300, runs=3, seed=4)
CELLS = [Cell("cascade 1", paper.VI), Cell("cascade 1", paper.KLUCB), Cell("semi-bandit", "CombUCB1")]
FEW = [*CELLS, Cell("cascade 1", paper.AS_WRITTEN)]


def one(scale: float = 1.0) -> Run:
    return Run(scale * np.arange(6.0).reshape(2, 3), 5)


def ignore(cell: Cell, rounds: int) -> None:
    pass


def same(a: dict[Job, Run], b: dict[Job, Run]) -> None:
    """All but the seconds."""
    assert a.keys() == b.keys()
    for job in a:
        assert a[job].skipped == b[job].skipped
        assert np.array_equal(a[job].totals[:, :2], b[job].totals[:, :2]), job


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "runs.sqlite") as opened_store:
        yield opened_store


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[Job, Run]:
    with opened(tmp_path_factory.mktemp("undisturbed") / "runs.sqlite") as store:
        made = make_runs(FEW, SETTINGS, store, 1, None, ignore)
    assert made is not None
    return made


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The runs that are begun from now on."""
    begun: list[Job] = []
    original = Prepared.run

    def run(self: Prepared, number: int, *rest: Any) -> Run | None:
        begun.append(Job(self.cell, number))
        return original(self, number, *rest)

    monkeypatch.setattr(Prepared, "run", run)
    return begun


# -- the file ------------------------------------------------------------------------------------------------------


def test_what_is_put_is_got_from_a_file_that_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with opened(path) as store:
        assert store.get("a") is None
        store.put("a", one())
        store.put("b", Run(one().totals[:, ::-1], 0))  # not contiguous
        store.put("a", one(2.0))
    with opened(path) as store:
        a, b = store.get("a"), store.get("b")
    assert a is not None
    assert b is not None
    assert a.totals.tolist() == one(2.0).totals.tolist()
    assert b.totals.tolist() == one().totals[:, ::-1].tolist()
    assert (a.skipped, b.skipped) == (5, 0)


def test_a_note_is_made_once_for_what_is_told_and_the_version(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.note(["a", 1], lambda: "first") == "first"
    assert store.note(["a", 1], lambda: pytest.fail("it was kept")) == "first"
    assert store.note(["a", 2], lambda: "other") == "other"
    monkeypatch.setattr(runs, "version", lambda: "newer")
    assert store.note(["a", 1], lambda: "anew") == "anew"


def test_a_note_that_fails_leaves_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        store.note("a", lambda: str(1 / 0))
    assert store.note("a", lambda: "later") == "later"


def test_what_is_put_is_seen_by_another_who_has_the_file_open(tmp_path: Path) -> None:
    with opened(tmp_path / "runs.sqlite") as writer, opened(tmp_path / "runs.sqlite") as reader:
        assert reader.get("a") is None
        writer.put("a", one())
        assert reader.get("a") is not None
        reader.put("b", one())
        assert writer.get("b") is not None


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE songs (title TEXT)")
        database.execute("INSERT INTO songs VALUES ('Ode')")
    database.close()


def other_columns(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs (name TEXT)")
    database.close()


def truncated(path: Path) -> None:
    with opened(path) as store:
        for i in range(50):
            store.put(str(i), Run(np.ones((200, 3)), 0))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def one_bit(path: Path) -> None:
    with opened(path) as store:
        store.put("0", Run(np.full((200, 3), 1.25), 0))
    content = bytearray(path.read_bytes())
    content[content.rindex(np.full(20, 1.25).tobytes()) + 6] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"Not a database at all, but a text of some length. " * 40),
        foreign_database, other_columns, truncated, one_bit,
    ],
    ids=["text", "foreign", "columns", "truncated", "bit"],
)  # fmt: skip
def test_a_damaged_or_foreign_file_is_refused_by_name_and_left_as_it_was(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "runs.sqlite"
    damage(path)
    before = path.read_bytes()

    def read() -> None:
        with opened(path) as store:
            for i in range(50):
                store.get(str(i))

    with pytest.raises(FormatError, match=r"runs\.sqlite.*move it away"):
        read()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["runs.sqlite"]


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(IdbanditsError, match=r"nowhere.runs\.sqlite"):
        Store(tmp_path / "nowhere" / "runs.sqlite")
    (tmp_path / "runs.sqlite").mkdir()
    with pytest.raises(IdbanditsError, match=r"runs\.sqlite"):
        Store(tmp_path / "runs.sqlite")


def test_a_file_that_another_holds_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with opened(path) as store:
        store._database.execute("PRAGMA busy_timeout = 10")
        other = sqlite3.connect(path)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(IdbanditsError, match=r"runs\.sqlite: database is locked"):
            store.put("a", one())
        other.close()
        store.put("a", one())
        assert store.get("a") is not None


# -- what a run is known by ----------------------------------------------------------------------------------------


def key(
    problem: Problem, make: Any, settings: Settings = SETTINGS, run: int = 0, name: str = "it", *,
    monkeypatch: pytest.MonkeyPatch,
) -> str:  # fmt: skip
    monkeypatch.setitem(paper.PROBLEMS, "test", problem)
    monkeypatch.setitem(paper.LEARNERS, name, Contender(make, paper.OURS, ""))
    return Prepared(Cell("test", name), settings).key(run)


def test_all_that_a_result_depends_on_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = np.arange(1, 6) / 10
    base = Problem("test", lambda: models.cascade(5, 2), {"attraction": steps})

    def thompson(inference: Any) -> Any:
        return lambda problem, _: idb.Thompson(problem.diagram, inference)

    def baseline(kind: str, **settings: Any) -> Any:
        return lambda problem, rounds: getattr(idb.baselines, kind)(problem.diagram, **settings)

    def prior(problem: Problem, _: int) -> Any:
        d = json.loads(json.dumps(problem.diagram.to_dict()))
        d["learned"][0]["prior"] = np.full((5, 2), 2.0).tolist()
        return idb.Thompson(idb.Diagram.from_dict(d), "variational")

    made = {
        "same": (base, thompson("variational")),
        "rounds": (base, thompson("variational"), Settings(301, 3, 4)),
        "seed": (base, thompson("variational"), Settings(300, 3, 5)),
        "run": (base, thompson("variational"), SETTINGS, 1),
        "name": (base, thompson("variational"), SETTINGS, 0, "other"),
        "means": (Problem("test", base.make, {"attraction": steps + 1e-15}), thompson("variational")),
        "diagram": (Problem("test", lambda: models.cascade(5, 3), {"attraction": steps}), thompson("variational")),
        "repeats": (
            Problem("test", lambda: models.cascade(5, 2, distinct=False), {"attraction": steps}),
            thompson("variational"),
        ),
        "inference": (base, thompson("exact")),
        "prior": (base, prior),
        "sweeps": (base, thompson(Variational(sweeps=2))),
        "literal": (base, thompson(Variational(literal=True))),
        "start": (base, thompson(Variational(start="random"))),
        "revealed": (base, lambda problem, _: idb.Thompson(problem.diagram.revealed(), "variational")),
        "KL": (base, baseline("CascadeKLUCB")),
        "UCB": (base, baseline("CascadeUCB1")),
        "reading": (base, baseline("CascadeKLUCB", reading="last")),
        "epsilon": (base, baseline("EpsilonGreedy")),
        "epsilon 0.2": (base, baseline("EpsilonGreedy", epsilon=0.2)),
        "horizon": (base, baseline("TopRank", horizon=300)),
        "horizon 301": (base, baseline("TopRank", horizon=301)),
        "numpy": (base, lambda problem, _: paper.Literal(problem.diagram)),
    }
    keys = {name: key(*given, monkeypatch=monkeypatch) for name, given in made.items()}
    equal = [(a, b) for a in keys for b in keys if a < b and keys[a] == keys[b]]
    assert not equal
    assert key(*made["same"], monkeypatch=monkeypatch) == keys["same"]
    assert key(base, thompson("variational"), Settings(300, 30, 4), monkeypatch=monkeypatch) == keys["same"]
    monkeypatch.setattr(runs, "version", lambda: "newer")
    assert key(*made["same"], monkeypatch=monkeypatch) != keys["same"]


def test_all_runs_of_the_evaluation_have_keys_of_their_own() -> None:
    panels = [panel for figure in paper.FIGURES for panel in figure.panels] + [paper.TABLE]
    cells = {Cell(panel.problem, name) for panel in panels for name in panel.learners}
    keys = [Prepared(cell, SETTINGS).key(run) for cell in cells for run in range(2)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("agent.py", True), ("inference/ep.py", True), ("baselines/grab.py", True), ("paper.py", True),
        ("bayes.py", True), ("pool.py", True), ("report.py", False), ("runs.py", False), ("evaluation.py", False),
        ("progress.py", False), ("cli.py", False), ("plot.py", False), ("report.html", False),
    ],
)  # fmt: skip
def test_the_version_changes_with_the_sources_of_results_only(
    monkeypatch: pytest.MonkeyPatch, file: str, changes: bool
) -> None:
    runs.version.cache_clear()
    before = runs.version()
    original = Path.read_bytes
    changed = Path(runs.__file__).parent / file
    assert changed.is_file()
    monkeypatch.setattr(Path, "read_bytes", lambda path: original(path) + b"#" * (path == changed))
    try:
        runs.version.cache_clear()
        assert (runs.version() != before) == changes
    finally:
        runs.version.cache_clear()


@pytest.mark.parametrize("module", [np, runs.numba, runs.scipy])
def test_the_version_changes_with_the_libraries(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    before = runs.version()
    monkeypatch.setattr(module, "__version__", "99")
    try:
        runs.version.cache_clear()
        assert runs.version() != before
    finally:
        runs.version.cache_clear()


# -- making --------------------------------------------------------------------------------------------------------


def test_how_many_runs_and_rounds_there_are() -> None:
    settings = Settings(20_000, 20, 0)
    assert (CELLS[0].rounds(settings), CELLS[0].runs(settings)) == (20_000, 20)
    assert (FEW[-1].rounds(settings), FEW[-1].runs(settings)) == (2_000, 2)
    assert (FEW[-1].rounds(Settings(1, 1, 0)), FEW[-1].runs(Settings(1, 1, 0))) == (1, 1)


def test_a_run_is_what_simulate_makes(undisturbed: dict[Job, Run]) -> None:
    problem = paper.PROBLEMS["cascade 1"]
    learner = idb.Thompson(problem.diagram, Variational(literal=True))
    result = idb.simulate(problem.world(), {paper.VI: learner}, 300, 3, seed=4, progress=False)
    for run, rows in result.frame.groupby("run"):
        made = undisturbed[Job(CELLS[0], int(run))].totals[:, :2]
        assert np.array_equal(rows[["reward", "regret"]].to_numpy(), made)


def test_the_number_of_workers_changes_nothing(store: Store, undisturbed: dict[Job, Run]) -> None:
    told: dict[Cell, int] = {}

    def tell(cell: Cell, rounds: int) -> None:
        told[cell] = told.get(cell, 0) + rounds

    made = make_runs(FEW, SETTINGS, store, 3, None, tell)
    assert made is not None
    same(made, undisturbed)
    assert told == {cell: cell.runs(SETTINGS) * cell.rounds(SETTINGS) for cell in FEW}


def test_a_second_start_makes_what_is_missing(store: Store, undisturbed: dict[Job, Run], counted: list[Job]) -> None:
    missing = [Job(CELLS[0], 1), Job(CELLS[2], 2)]
    for job, run in undisturbed.items():
        if job not in missing:
            store.put(Prepared(job.cell, SETTINGS).key(job.run), run)
    told: list[int] = []
    made = make_runs(FEW, SETTINGS, store, None, None, lambda _, rounds: told.append(rounds))
    assert made is not None
    assert sorted(counted) == sorted(missing)
    same(made, undisturbed)
    assert sum(told) == sum(cell.runs(SETTINGS) * cell.rounds(SETTINGS) for cell in FEW)
    for job in set(undisturbed) - set(missing):
        assert np.array_equal(made[job].totals, undisturbed[job].totals)  # seconds, too
    assert make_runs(FEW, SETTINGS, store, None, None, ignore) is not None
    assert len(counted) == len(missing)


def test_more_runs_go_on_from_fewer_and_another_seed_begins_anew(store: Store, counted: list[Job]) -> None:
    make_runs(CELLS[:1], Settings(50, 2, 0), store, 1, None, ignore)
    make_runs(CELLS[:1], Settings(50, 5, 0), store, 1, None, ignore)
    assert [job.run for job in counted] == [0, 1, 2, 3, 4]
    make_runs(CELLS[:1], Settings(50, 2, 1), store, 1, None, ignore)
    make_runs(CELLS[:1], Settings(51, 2, 0), store, 1, None, ignore)
    assert len(counted) == 9


class Trouble:
    """Raises something in one run, when so many others are finished."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: Job, others: int, what: Any) -> None:
        self.stopped: list[bool] = []
        finished = threading.Semaphore(0)
        original = Prepared.run

        def run(prepared: Prepared, number: int, stop: threading.Event, tell: Any) -> Run | None:
            if Job(prepared.cell, number) != at:
                made = original(prepared, number, stop, tell)
                finished.release()
                return made
            for _ in range(others):
                assert finished.acquire(timeout=30)
            what()
            self.stopped.append(stop.wait(30))
            return None

        monkeypatch.setattr(Prepared, "run", run)
        self.undo = lambda: monkeypatch.setattr(Prepared, "run", original)


def kept_in(store: Store, jobs: Any) -> list[Job]:
    return [job for job in jobs if store.get(Prepared(job.cell, SETTINGS).key(job.run)) is not None]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_a_run_raises_comes_out_and_what_was_finished_is_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch, workers: int, undisturbed: dict[Job, Run]
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("in a run")

    jobs = [Job(cell, number) for cell in CELLS for number in range(3)]
    before = 4 if workers == 1 else 6
    trouble = Trouble(monkeypatch, jobs[4], before, fail)
    with pytest.raises(ZeroDivisionError, match="in a run"):
        make_runs(CELLS, SETTINGS, store, workers, None, ignore)
    kept = kept_in(store, jobs)
    assert len(kept) >= before
    assert jobs[4] not in kept
    trouble.undo()
    made = make_runs(FEW, SETTINGS, store, workers, None, ignore)
    assert made is not None
    same(made, undisturbed)


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_what_was_finished(
    store: Store, monkeypatch: pytest.MonkeyPatch, workers: int, undisturbed: dict[Job, Run]
) -> None:
    jobs = [Job(cell, number) for cell in CELLS for number in range(3)]

    def press() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    trouble = Trouble(monkeypatch, jobs[4], 4, press)
    assert make_runs(CELLS, SETTINGS, store, workers, None, ignore) is None
    assert trouble.stopped == [True]
    assert len(kept_in(store, jobs)) >= 4
    trouble.undo()
    made = make_runs(FEW, SETTINGS, store, workers, None, ignore)
    assert made is not None
    same(made, undisturbed)


# -- a cluster -----------------------------------------------------------------------------------------------------

LONG = Settings(rounds=20_000, runs=8, seed=1)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The address of a scheduler in a process of its own, and its and its two workers' processes."""
    distributed = pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    environment = os.environ | {
        "PYTHONPATH": str(Path(idb.__file__).parents[1]),
        "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error",
    }
    dask = [sys.executable, "-m", "dask"]
    common: dict[str, Any] = {"env": environment, "cwd": folder, "stderr": subprocess.DEVNULL}
    words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    processes = [subprocess.Popen([*dask, "scheduler", *words], **common)]
    worker = [
        "worker",
        "--scheduler-file",
        str(file),
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
        "--host",
        "127.0.0.1",
    ]
    processes += [subprocess.Popen([*dask, *worker, "--name", name], **common) for name in ("one", "two")]
    try:
        until(lambda: file.exists() and file.stat().st_size > 0)
        address = json.loads(file.read_text())["address"]
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            client.run(importlib.import_module, "idbandits.paper.runs")
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture
def quiet() -> Iterator[None]:
    """Dask leaves sockets and event loops to the garbage collector."""
    pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.usefixtures("quiet")
def test_a_cluster_gives_the_same_results(
    store: Store, scheduler: Any, undisturbed: dict[Job, Run], counted: list[Job]
) -> None:
    told: list[int] = []
    made = make_runs(FEW, SETTINGS, store, None, scheduler[0], lambda _, rounds: told.append(rounds))
    assert made is not None
    same(made, undisturbed)
    assert not counted  # all were made elsewhere
    assert sum(told) == sum(cell.runs(SETTINGS) * cell.rounds(SETTINGS) for cell in FEW)
    same(make_runs(FEW, SETTINGS, store, None, None, ignore) or {}, undisturbed)
    assert not counted  # and are kept here


@pytest.mark.usefixtures("quiet")
def test_another_version_on_the_workers_is_refused(
    store: Store, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "version", lambda: "another")
    with pytest.raises(IdbanditsError, match="another version"):
        make_runs(CELLS[:1], SETTINGS, store, None, scheduler[0], ignore)
    assert make_runs([], SETTINGS, store, None, None, ignore) == {}
    assert kept_in(store, [Job(CELLS[0], number) for number in range(3)]) == []


def logged(monkeypatch: pytest.MonkeyPatch, file: Path) -> Callable[[], list[tuple[int, int]]]:
    """Have workers log the runs that they begin; a function that gives these, with the workers' processes."""
    log = str(file)

    def run_there(cell: Cell, run: int, settings: Settings) -> Any:
        from idbandits.paper.runs import run_remotely  # on the worker, where it is what it was

        with open(log, "a") as lines:
            lines.write(f"{run} {os.getpid()}\n")
        return run_remotely(cell, run, settings)

    monkeypatch.setattr(runs, "run_remotely", run_there)
    return lambda: [(int(run), int(pid)) for run, pid in map(str.split, Path(log).read_text().splitlines())]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.usefixtures("quiet")
def test_a_worker_that_dies_costs_its_unfinished_runs_only(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address, processes = scheduler
    jobs = [Job(CELLS[0], number) for number in range(LONG.runs)]
    kept: dict[Job, Run] = {}
    early: list[Job] = []
    begun = logged(monkeypatch, tmp_path / "log")

    def keep(job: Job, run: Run) -> None:
        assert job not in kept
        kept[job] = run
        if not early and len(kept) >= 2:
            until(lambda: {pid for _, pid in begun()} == {process.pid for process in processes[1:]})
            early.extend(kept)
            processes[1].send_signal(signal.SIGKILL)

    run_on_cluster(address, jobs, LONG, keep, ignore)
    assert processes[1].wait(timeout=10) == -signal.SIGKILL
    where = {job: [pid for run, pid in begun() if run == job.run] for job in jobs}
    assert {pid for pids in where.values() for pid in pids} == {process.pid for process in processes[1:]}
    assert all(len(where[job]) == 1 for job in early)
    assert all(len(pids) == 1 or pids == [processes[1].pid, processes[2].pid] for pids in where.values())
    prepared = Prepared(CELLS[0], LONG)
    runs_here = {job: prepared.run(job.run, threading.Event(), lambda _: None) for job in jobs}
    same({job: run for job, run in runs_here.items() if run is not None}, kept)


@pytest.mark.usefixtures("quiet")
def test_workers_that_have_all_died_are_not_waited_for_without_end(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address, processes = scheduler  # no later test needs the workers
    kept: list[Job] = []
    begun = logged(monkeypatch, tmp_path / "log")

    def keep(job: Job, _: Run) -> None:
        if not kept:
            until(lambda: len(begun()) > 6)  # then some are finished that have not been handed over
        kept.append(job)
        for process in processes[1:]:
            process.kill()
            process.wait()

    monkeypatch.setattr(runs, "PATIENCE", 5)
    jobs = [Job(CELLS[0], number) for number in range(100)]
    with pytest.raises(IdbanditsError, match="no workers any more"):
        run_on_cluster(address, jobs, LONG, keep, ignore)
    assert 1 <= len(kept) < len(jobs)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere", ""])
@pytest.mark.usefixtures("quiet")
def test_a_wrong_address_is_said_soon(store: Store, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(runs, "PATIENCE", 1)
    with pytest.raises(IdbanditsError, match=repr(address)):
        make_runs(CELLS[:1], SETTINGS, store, None, address, ignore)


@pytest.mark.usefixtures("quiet")
def test_a_scheduler_without_workers_is_said_soon(
    store: Store, monkeypatch: pytest.MonkeyPatch, scheduler: Any
) -> None:
    for process in scheduler[1][1:]:
        process.kill()
        process.wait()
    monkeypatch.setattr(runs, "PATIENCE", 5)
    with pytest.raises(IdbanditsError, match="no workers"):
        make_runs(CELLS[:1], SETTINGS, store, None, scheduler[0], ignore)


def test_without_dask_it_is_said_how_to_get_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(IdbanditsError, match=r"idbandits\[cluster\]"):
        make_runs(CELLS[:1], SETTINGS, store, None, "tcp://127.0.0.1:1", ignore)


@pytest.mark.usefixtures("quiet")
def test_a_scheduler_that_dies_is_said_in_the_error_only(scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address, processes = scheduler  # the last test that needs it; without workers, nothing is ever finished
    for process in processes[1:]:
        process.kill()
        process.wait()
    distributed = importlib.import_module("distributed")
    original = distributed.Client.submit

    def submit(client: Any, *arguments: Any, **options: Any) -> Any:
        future = original(client, *arguments, **options)
        processes[0].kill()
        return future

    monkeypatch.setattr(distributed.Client, "wait_for_workers", lambda *_, **__: None)
    monkeypatch.setattr(distributed.Client, "submit", submit)
    log = io.StringIO()
    monkeypatch.setattr(logging.getLogger("distributed.client"), "handlers", [logging.StreamHandler(log)])
    with pytest.raises(IdbanditsError, match="lost the connection"):
        run_on_cluster(address, [Job(CELLS[0], 0)], LONG, lambda job, run: pytest.fail("it was made"), ignore)
    assert log.getvalue() == ""
