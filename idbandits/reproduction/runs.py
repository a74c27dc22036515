"""Runs of the evaluation, made in threads or on a Dask cluster, and stored as soon as they are finished.

Keys stand for everything that results depend on, so a second start makes only the missing runs.
"""

import contextlib
import functools
import gc
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from idbandits.agent.thompson import Thompson
from idbandits.baselines.baseline import Baseline
from idbandits.errors import IdbanditsError
from idbandits.kernel.array_types import Ints
from idbandits.kernel.compile import compile_together
from idbandits.reproduction.problems import LEARNERS, PROBLEMS
from idbandits.reproduction.run_store import Store, version
from idbandits.simulation.loop import Run
from idbandits.simulation.simulate import CHECKPOINTS, Plan, begin, kernels_of, marks_of, plan
from idbandits.simulation.workers import deferring, run_all
from idbandits.simulation.world import World

PATIENCE = 20  # seconds that a cluster has to answer, and to replace dead workers


@final
@dataclass(frozen=True)
class Settings:
    """Settings of all runs; some learners play only a share of the rounds and runs."""

    rounds: int
    runs: int
    seed: int


class Cell(NamedTuple):
    """Learner on a problem, by name."""

    problem: str
    learner: str

    def rounds(self, settings: Settings) -> int:
        """Return the number of rounds of each run."""
        return max(1, round(LEARNERS[self.learner].share * settings.rounds))

    def runs(self, settings: Settings) -> int:
        """Return the number of runs."""
        return max(1, round(LEARNERS[self.learner].share * settings.runs))


class Job(NamedTuple):
    """One run of a cell."""

    cell: Cell
    run: int


@final
class Prepared:
    """World, learner and plan shared by the runs of a cell."""

    def __init__(self, cell: Cell, settings: Settings) -> None:
        problem = PROBLEMS[cell.problem]
        self.cell, self.settings = cell, settings
        self.world: World = problem.world()
        self.learner: Any = LEARNERS[cell.learner].make(problem, cell.rounds(settings))
        self.marks: Ints = marks_of(cell.rounds(settings), CHECKPOINTS)

    @functools.cached_property
    def plan(self) -> Plan:
        """Function that makes a run; the first access compiles its kernels."""
        return plan(self.world, self.cell.learner, self.learner)

    def run(self, number: int, stop: threading.Event, advance: Callable[[int], Any]) -> Run | None:
        """Make one run, reporting finished rounds to `advance`; return None if stopped."""
        world, learner = begin(self.world, self.learner, self.cell.learner, self.settings.seed, number)
        return self.plan(world, learner, self.marks, stop, advance)

    @functools.cached_property
    def _description(self) -> str:
        """Everything that results depend on, except the number of the run."""
        return json.dumps(
            {
                "version": version(), "world": self.world.diagram.to_dict(), "learner": describe(self.learner),
                "means": {name: table.tolist() for name, table in self.world.means.items()},
                "name": self.cell.learner, "marks": self.marks.tolist(), "seed": self.settings.seed,
            },
            sort_keys=True,
        )  # fmt: skip

    def key(self, run: int) -> str:
        """Return the key under which a run is stored."""
        return hashlib.sha256(f"{run} {self._description}".encode()).hexdigest()


def describe(learner: Any) -> dict[str, Any]:
    """Return a learner as plain data, equal for learners that play alike."""
    description: dict[str, Any] = {"class": type(learner).__name__, "diagram": learner.diagram.to_dict()}
    if isinstance(learner, Thompson):
        description |= {"inference": type(learner.inference).__name__, "settings": learner.inference.settings}
    elif isinstance(learner, Baseline):
        state = hashlib.sha256(b"".join(part.tobytes() for part in learner.state))  # it may have learned already
        description |= {"settings": learner.settings, "state": state.hexdigest()}
    return description


Keep = Callable[[Job, Run], None]
Advance = Callable[[Cell, int], None]  # called with a cell and a number of rounds that were finished


def make_runs(
    cells: Sequence[Cell], settings: Settings, store: Store, workers: int | None, cluster: str | None, advance: Advance
) -> dict[Job, Run] | None:
    """Return all runs of these cells; missing ones are made and stored. Return None if interrupted."""
    prepared = {cell: Prepared(cell, settings) for cell in cells}
    jobs = [Job(cell, number) for cell in cells for number in range(cell.runs(settings))]
    stored = {job: store.get(prepared[job.cell].key(job.run)) for job in jobs}
    runs = {job: run for job, run in stored.items() if run is not None}
    missing = [job for job in jobs if job not in runs]
    for job in runs:
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
    return {job: runs[job] for job in jobs}


def _run_here(
    jobs: Sequence[Job], prepared: dict[Cell, Prepared], keep: Keep, workers: int | None, advance: Advance
) -> bool:
    """Make runs in threads; return whether all were made."""
    needed = [prepared[cell] for cell in dict.fromkeys(job.cell for job in jobs)]
    compile_together([kernel for p in needed for kernel in kernels_of(p.world, p.learner)], workers)
    for p in needed:
        _ = p.plan  # cached before several threads access it

    def work(job: Job, stop: threading.Event) -> Run | None:
        return prepared[job.cell].run(job.run, stop, lambda rounds: advance(job.cell, rounds))

    return run_all(jobs, work, keep, workers)


def _run_on_cluster(address: str, jobs: Sequence[Job], settings: Settings, keep: Keep, advance: Advance) -> None:
    """Make runs on the workers of a Dask scheduler with the same version; jobs of dead workers go to other workers."""
    try:
        import distributed
    except ImportError:
        raise IdbanditsError("--cluster needs Dask: pip install 'idbandits[cluster]'") from None
    with _connected(address) as client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise IdbanditsError(f"--cluster: the Dask scheduler at {address!r} has no workers") from None
        with deferring() as deliver:
            futures = {client.submit(run_remotely, settings, *job, pure=False, retries=3): job for job in jobs}
            try:
                for job, (their_version, run) in _finished(client, futures, address, deliver):
                    if their_version != version():
                        libraries = "idbandits, NumPy, SciPy or Numba"
                        raise IdbanditsError(f"a worker of {address!r} has another version of {libraries}")
                    keep(job, run)
                    advance(job.cell, job.cell.rounds(settings))
            except (distributed.KilledWorker, CancelledError, ImportError) as error:
                raise IdbanditsError(f"the workers of {address!r} failed: {' '.join(str(error).split())}") from None
            finally:
                client.cancel(list(futures))


def _connected(address: str) -> Any:
    """Return a client of the scheduler at an address."""
    import distributed

    port = address.rpartition(":")[2].strip()
    if not address.strip() or (port.lstrip("-").isdigit() and not 0 < int(port[:9]) < 65536):
        raise IdbanditsError(f"--cluster must be the address of a Dask scheduler like tcp://host:8786, got {address!r}")
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are reported in one line instead
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # many kinds, depending on the address
        message = " ".join(str(error).split()) or type(error).__name__
    gc.collect()  # closes the failed client now; later it could deadlock with the start of another one
    raise IdbanditsError(f"--cluster: no Dask scheduler answers at {address!r}: {message}")


def _finished(
    client: Any, futures: dict[Any, Job], address: str, deliver: Callable[[], None]
) -> Iterator[tuple[Job, tuple[str, Run]]]:
    """Yield jobs and their results as they are finished; `deliver` handles signals that arrived in the meantime.

    Raise if all workers have died, because Dask would wait for new ones forever.
    """
    asked = alive = time.monotonic()
    while futures:
        deliver()
        for future in [future for future in futures if future.done()]:
            with contextlib.suppress(TimeoutError):  # the result died with its worker; another worker makes it again
                result = future.result(timeout=PATIENCE)
                yield futures.pop(future), result
                future.release()
        time.sleep(0.02)
        if time.monotonic() - asked > 1.0:
            asked = time.monotonic()
            if client.nthreads():
                alive = asked
            elif asked - alive > PATIENCE:
                raise IdbanditsError(f"--cluster: the Dask scheduler at {address!r} has no workers left")


_preparing = threading.Lock()
_prepared = functools.lru_cache(maxsize=256)(Prepared)


def run_remotely(settings: Settings, cell: Cell, run: int) -> tuple[str, Run]:
    """Make one run on a worker; return it with the worker's version."""
    with _preparing:
        prepared = _prepared(Cell(*cell), settings)  # Dask may pass a plain tuple
        _ = prepared.plan
    made = prepared.run(run, threading.Event(), lambda rounds: None)
    assert made is not None
    return version(), made
