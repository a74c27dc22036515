"""Runs of the evaluation, made in threads or on a Dask cluster, and stored as soon as they are finished.

The key of a run stands for all that its result depends on: the world, the learner, the checkpoints, the seed, the
sources of this library and the versions of NumPy, SciPy and Numba. So a second start makes only what is missing, and
nothing that has changed is used again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from idbandits.agent.thompson import Thompson
from idbandits.baselines.baseline import Baseline
from idbandits.errors import IdbanditsError
from idbandits.kernel.compiling import compile_together
from idbandits.kernel.types import Ints
from idbandits.paper.cluster import run_on_cluster
from idbandits.paper.problems import LEARNERS, PROBLEMS
from idbandits.paper.store import Store, version
from idbandits.simulation.loop import Run
from idbandits.simulation.simulate import Plan, begin, kernels_of, marks_of, plan
from idbandits.simulation.workers import run_all
from idbandits.simulation.world import World

CHECKPOINTS = 200


@final
@dataclass(frozen=True)
class Settings:
    """The settings of all runs; some learners play only a share of the rounds and runs."""

    rounds: int
    runs: int
    seed: int


class Cell(NamedTuple):
    """A learner on a problem, by name."""

    problem: str
    learner: str

    def rounds(self, settings: Settings) -> int:
        """How many rounds each run has."""
        return max(1, round(LEARNERS[self.learner].share * settings.rounds))

    def runs(self, settings: Settings) -> int:
        """How many runs there are."""
        return max(1, round(LEARNERS[self.learner].share * settings.runs))


class Job(NamedTuple):
    """One run of a cell."""

    cell: Cell
    run: int


@final
class Prepared:
    """All that the runs of a cell share."""

    def __init__(self, cell: Cell, settings: Settings) -> None:
        problem = PROBLEMS[cell.problem]
        self.cell, self.settings = cell, settings
        self.world: World = problem.world()
        self.learner: Any = LEARNERS[cell.learner].make(problem, cell.rounds(settings))
        self.marks: Ints = marks_of(cell.rounds(settings), CHECKPOINTS)

    @functools.cached_property
    def plan(self) -> Plan:
        """The function that makes a run; asking for it compiles all that it needs."""
        return plan(self.world, self.cell.learner, self.learner)

    def run(self, number: int, stop: threading.Event, advance: Callable[[int], Any]) -> Run | None:
        """Make one run, reporting finished rounds to `advance`; None if it was stopped."""
        world, learner = begin(self.world, self.learner, self.cell.learner, self.settings.seed, number)
        return self.plan(world, learner, self.marks, stop, advance)

    @functools.cached_property
    def _description(self) -> str:
        """What the results depend on, apart from the number of the run."""
        return json.dumps(
            {
                "version": version(), "world": self.world.diagram.to_dict(), "learner": describe(self.learner),
                "means": {name: table.tolist() for name, table in self.world.means.items()},
                "name": self.cell.learner, "marks": self.marks.tolist(), "seed": self.settings.seed,
            },
            sort_keys=True,
        )  # fmt: skip

    def key(self, run: int) -> str:
        """The key under which a run is stored."""
        return hashlib.sha256(f"{run} {self._description}".encode()).hexdigest()


def describe(learner: Any) -> dict[str, Any]:
    """A learner as plain data: the same for learners that play the same."""
    description: dict[str, Any] = {"class": type(learner).__name__, "diagram": learner.diagram.to_dict()}
    if isinstance(learner, Thompson):
        description |= {"inference": type(learner.inference).__name__, "settings": learner.inference.settings}
    elif isinstance(learner, Baseline):
        state = hashlib.sha256(b"".join(part.tobytes() for part in learner.state))  # some have settings there
        description |= {"settings": learner.settings, "state": state.hexdigest()}
    return description


# -- making runs ---------------------------------------------------------------------------------------------------

Keep = Callable[[Job, Run], None]
Advance = Callable[[Cell, int], None]  # told about progress: so many more rounds of a cell are finished


def make_runs(
    cells: Sequence[Cell], settings: Settings, store: Store, workers: int | None, cluster: str | None, advance: Advance
) -> dict[Job, Run] | None:
    """All runs of these cells; those that are not in the store are made and put there. None if interrupted."""
    prepared = {cell: Prepared(cell, settings) for cell in cells}
    runs: dict[Job, Run] = {}
    missing: list[Job] = []
    for job in [Job(cell, number) for cell in cells for number in range(cell.runs(settings))]:
        stored = store.get(prepared[job.cell].key(job.run))
        if stored is None:
            missing.append(job)
        else:
            runs[job] = stored
            advance(job.cell, job.cell.rounds(settings))

    def keep(job: Job, run: Run) -> None:
        store.put(prepared[job.cell].key(job.run), run)
        runs[job] = run

    try:
        if cluster is not None:
            _run_on_cluster(cluster, missing, settings, keep, advance)
        elif not _run_here(missing, prepared, keep, workers, advance):
            return None
    except KeyboardInterrupt:
        return None
    return runs


def _run_here(
    jobs: Sequence[Job], prepared: dict[Cell, Prepared], keep: Keep, workers: int | None, advance: Advance
) -> bool:
    """Make runs in threads; whether all were made."""
    needed = [prepared[cell] for cell in dict.fromkeys(job.cell for job in jobs)]
    compile_together([kernel for p in needed for kernel in kernels_of(p.world, p.learner)], workers)
    for p in needed:
        _ = p.plan  # made here, before several threads ask for it

    def work(job: Job, stop: threading.Event) -> Run | None:
        return prepared[job.cell].run(job.run, stop, lambda rounds: advance(job.cell, rounds))

    return run_all(jobs, work, keep, workers)


def _run_on_cluster(address: str, jobs: Sequence[Job], settings: Settings, keep: Keep, advance: Advance) -> None:
    """Make runs on the workers of a Dask scheduler, which must have the same version as we have."""

    def keep_checked(job: Job, answer: tuple[str, Run]) -> None:
        their_version, run = answer
        if their_version != version():
            raise IdbanditsError(
                f"a worker of {address!r} has another version of idbandits, NumPy, SciPy or Numba than we have"
            )
        keep(job, run)
        advance(job.cell, job.cell.rounds(settings))

    run_on_cluster(address, jobs, functools.partial(run_remotely, settings), keep_checked)


_preparing = threading.Lock()


@functools.lru_cache(maxsize=256)
def _prepared(cell: Cell, settings: Settings) -> Prepared:
    return Prepared(cell, settings)


def run_remotely(settings: Settings, cell: Cell, run: int) -> tuple[str, Run]:
    """Make one run on a worker; with the worker's version."""
    with _preparing:
        prepared = _prepared(Cell(*cell), settings)  # in case Dask passes it as a plain tuple
        _ = prepared.plan
    made = prepared.run(run, threading.Event(), lambda rounds: None)
    assert made is not None
    return version(), made
