"""Fixtures for tests of the evaluation: a store, and a small evaluation that was made without disturbance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from idbandits.reproduction.problems import AS_WRITTEN, KLUCB, VI
from idbandits.reproduction.run_store import Store
from idbandits.reproduction.runs import Advance, Cell, Job, Prepared, Settings, make_runs
from idbandits.simulation.loop import Run


class Evaluation(NamedTuple):
    """Cells, settings, and the runs of an undisturbed evaluation."""

    cells: list[Cell]
    settings: Settings
    runs: dict[Job, Run]

    def make(
        self, store: Store, workers: int | None = 1, cluster: str | None = None, advance: Advance = lambda *_: None
    ) -> dict[Job, Run] | None:
        """Make the runs again, with this store."""
        return make_runs(self.cells, self.settings, store, workers, cluster, advance)

    def check(self, runs: dict[Job, Run] | None) -> None:
        """Assert that runs have the results of the undisturbed ones, except seconds."""
        assert runs is not None
        assert list(runs) == list(self.runs)  # in the order of the cells, whichever finished first
        for job, run in runs.items():
            assert run.skipped == self.runs[job].skipped
            assert np.array_equal(run.totals[:, :2], self.runs[job].totals[:, :2]), job

    def stored_in(self, store: Store) -> list[Job]:
        """Return the jobs whose runs are in a store."""
        return [job for job in self.runs if store.get(Prepared(job.cell, self.settings).key(job.run)) is not None]

    @property
    def rounds(self) -> int:
        """Total number of rounds of all runs."""
        return sum(job.cell.rounds(self.settings) for job in self.runs)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "runs.sqlite") as opened:
        yield opened


@pytest.fixture(scope="session")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    learners = [("cascade 1", VI), ("cascade 1", KLUCB), ("semi-bandit", "CombUCB1"), ("cascade 1", AS_WRITTEN)]
    undisturbed = Evaluation([Cell(*names) for names in learners], Settings(rounds=300, runs=3, seed=4), {})
    with Store(tmp_path_factory.mktemp("undisturbed") / "runs.sqlite") as store:
        runs = undisturbed.make(store)
    assert runs is not None
    return undisturbed._replace(runs=runs)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """List of the runs that begin from now on in this process."""
    jobs: list[Job] = []
    original = Prepared.run

    def run(self: Prepared, number: int, *rest: Any) -> Run | None:
        jobs.append(Job(self.cell, number))
        return original(self, number, *rest)

    monkeypatch.setattr(Prepared, "run", run)
    return jobs
