"""Runs of the evaluation: their keys, and results that depend on settings only."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import idbandits as idb
from idbandits import models
from idbandits.inference import Variational
from idbandits.reproduction import problems as paper
from idbandits.reproduction import runs
from idbandits.reproduction.problems import Contender, Problem
from idbandits.reproduction.run_store import Store
from idbandits.reproduction.runs import Cell, Job, Prepared, Settings, make_runs
from idbandits.simulation.loop import Run

SETTINGS = Settings(rounds=300, runs=3, seed=4)

# -- keys ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Function that returns the key of a run of a learner, made by `make`, on a problem."""

    def compute(problem: Problem, make: Any, settings: Settings = SETTINGS, run: int = 0, name: str = "A") -> str:
        monkeypatch.setitem(paper.PROBLEMS, "test", problem)
        monkeypatch.setitem(paper.LEARNERS, name, Contender(make, paper.PAPER, ""))
        return Prepared(Cell("test", name), settings).key(run)

    return compute


def test_all_that_a_result_depends_on_changes_the_key(key: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    steps = np.arange(1, 6) / 10
    base = Problem("test", lambda: models.cascade(5, 2), {"attraction": steps})

    def thompson(inference: Any) -> Any:
        return lambda problem, _: idb.Thompson(problem.diagram, inference)

    def baseline(kind: str, **settings: Any) -> Any:
        return lambda problem, rounds: getattr(idb.baselines, kind)(problem.diagram, **settings)

    def other_prior(problem: Problem, _: int) -> Any:
        saved = json.loads(json.dumps(problem.diagram.to_dict()))
        saved["learned"][0]["prior"] = np.full((5, 2), 2.0).tolist()
        return idb.Thompson(idb.Diagram.from_dict(saved), "variational")

    variational = thompson("variational")
    cases: dict[str, tuple[Any, ...]] = {
        "base": (base, variational),
        "rounds": (base, variational, Settings(301, 3, 4)),
        "seed": (base, variational, Settings(300, 3, 5)),
        "run": (base, variational, SETTINGS, 1),
        "name": (base, variational, SETTINGS, 0, "other"),
        "means": (Problem("test", base.make, {"attraction": steps + 1e-15}), variational),
        "diagram": (Problem("test", lambda: models.cascade(5, 3), base.means), variational),
        "repeats": (Problem("test", lambda: models.cascade(5, 2, distinct=False), base.means), variational),
        "inference": (base, thompson("exact")),
        "prior": (base, other_prior),
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
    keys = {name: key(*case) for name, case in cases.items()}
    assert [(a, b) for a in keys for b in keys if a < b and keys[a] == keys[b]] == []
    assert key(*cases["base"]) == keys["base"]
    assert key(base, variational, Settings(300, 30, 4)) == keys["base"]  # a run is the same among more runs
    monkeypatch.setattr(runs, "version", lambda: "newer")
    assert key(*cases["base"]) != keys["base"]


def test_all_runs_of_the_evaluation_have_different_keys() -> None:
    panels = [panel for figure in paper.FIGURES for panel in figure.panels] + [paper.TABLE]
    cells = {Cell(panel.problem, name) for panel in panels for name in panel.learners}
    keys = [Prepared(cell, SETTINGS).key(run) for cell in cells for run in range(2)]
    assert len(set(keys)) == len(keys)


# -- making runs ---------------------------------------------------------------------------------------------------


def test_numbers_of_runs_and_rounds() -> None:
    settings = Settings(20_000, 20, 0)
    all_rounds, few_rounds = Cell("cascade 1", paper.VI), Cell("cascade 1", paper.AS_WRITTEN)
    assert (all_rounds.rounds(settings), all_rounds.runs(settings)) == (20_000, 20)
    assert (few_rounds.rounds(settings), few_rounds.runs(settings)) == (2_000, 2)
    assert (few_rounds.rounds(Settings(1, 1, 0)), few_rounds.runs(Settings(1, 1, 0))) == (1, 1)


def test_a_run_is_that_of_simulate(evaluation: Any) -> None:
    problem, settings = paper.PROBLEMS["cascade 1"], evaluation.settings
    learner = idb.Thompson(problem.diagram, Variational(literal=True))
    result = idb.simulate(
        problem.world(), {paper.VI: learner}, settings.rounds, settings.runs, seed=settings.seed, progress=False
    )
    assert result.frame["run"].nunique() == settings.runs
    for run, rows in result.frame.groupby("run"):
        totals = evaluation.runs[Job(Cell("cascade 1", paper.VI), int(run))].totals
        assert np.array_equal(rows[["reward", "regret"]].to_numpy(), totals[:, :2])


def test_the_number_of_workers_changes_nothing(store: Store, evaluation: Any) -> None:
    progress: dict[Cell, int] = {}

    def advance(cell: Cell, rounds: int) -> None:
        progress[cell] = progress.get(cell, 0) + rounds

    evaluation.check(evaluation.make(store, workers=3, advance=advance))
    settings = evaluation.settings
    assert progress == {cell: cell.runs(settings) * cell.rounds(settings) for cell in evaluation.cells}


def test_a_second_start_makes_what_is_missing(store: Store, evaluation: Any, begun: list[Job]) -> None:
    missing = [Job(evaluation.cells[0], 1), Job(evaluation.cells[2], 2)]
    for job, run in evaluation.runs.items():
        if job not in missing:
            store.put(Prepared(job.cell, evaluation.settings).key(job.run), run)
    progress: list[int] = []
    made = evaluation.make(store, workers=None, advance=lambda _, rounds: progress.append(rounds))
    evaluation.check(made)
    assert sorted(begun) == sorted(missing)
    assert sum(progress) == evaluation.rounds
    for job in set(evaluation.runs) - set(missing):
        assert np.array_equal(made[job].totals, evaluation.runs[job].totals)  # the seconds, too
    evaluation.check(evaluation.make(store))
    assert len(begun) == len(missing)


def test_more_runs_add_to_fewer_and_other_settings_start_again(store: Store, begun: list[Job]) -> None:
    def make(settings: Settings) -> list[int]:
        begun.clear()
        make_runs([Cell("cascade 1", paper.VI)], settings, store, 1, None, lambda *_: None)
        return [job.run for job in begun]

    assert make(Settings(50, 2, 0)) == [0, 1]
    assert make(Settings(50, 5, 0)) == [2, 3, 4]
    assert make(Settings(50, 2, 1)) == [0, 1]
    assert make(Settings(51, 2, 0)) == [0, 1]


# -- errors and interruptions --------------------------------------------------------------------------------------


class Trouble:
    """Call a function in one run once a number of others are finished, then wait until that run is stopped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: Job, others: int, call: Callable[[], None]) -> None:
        self.stopped: list[bool] = []
        finished = threading.Semaphore(0)
        original = Prepared.run

        def run(prepared: Prepared, number: int, stop: threading.Event, advance: Any) -> Run | None:
            if Job(prepared.cell, number) != at:
                made = original(prepared, number, stop, advance)
                finished.release()
                return made
            for _ in range(others):
                assert finished.acquire(timeout=30)
            call()
            self.stopped.append(stop.wait(30))
            return None

        monkeypatch.setattr(Prepared, "run", run)
        self.undo = lambda: monkeypatch.setattr(Prepared, "run", original)


@pytest.mark.parametrize("workers", [1, 3])
def test_what_was_finished_before_an_error_is_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch, workers: int, evaluation: Any
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("in a run")

    failing, others = list(evaluation.runs)[4], 4 if workers == 1 else 6
    trouble = Trouble(monkeypatch, failing, others, fail)
    with pytest.raises(ZeroDivisionError, match="in a run"):
        evaluation.make(store, workers)
    stored = evaluation.stored_in(store)
    assert len(stored) >= others
    assert failing not in stored
    trouble.undo()
    evaluation.check(evaluation.make(store, workers))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_finished_before_ctrl_c_is_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch, workers: int, evaluation: Any
) -> None:
    def press() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    trouble = Trouble(monkeypatch, list(evaluation.runs)[4], 4, press)
    assert evaluation.make(store, workers) is None
    assert trouble.stopped == [True]
    assert len(evaluation.stored_in(store)) >= 4
    trouble.undo()
    evaluation.check(evaluation.make(store, workers))
