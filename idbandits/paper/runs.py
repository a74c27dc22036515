"""Runs of the evaluation: made in threads or on a Dask cluster, kept in a file as soon as they are finished.

A run is known by all that its result depends on: the world, the learner, the numbers of rounds and checkpoints, the
seed, the sources of this library and the versions of NumPy, SciPy and Numba. So a second start goes on from what the
first has finished, and nothing that has changed is used again.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import logging
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numba
import numpy as np
import scipy

from idbandits.agent.thompson import Thompson
from idbandits.baselines.baseline import Baseline
from idbandits.errors import FormatError, IdbanditsError
from idbandits.kernel.compiling import compile_together
from idbandits.kernel.types import Ints
from idbandits.paper.problems import LEARNERS, PROBLEMS
from idbandits.simulation.loop import LOOP, loop
from idbandits.simulation.simulate import Plan, Run, begin, marks_of, plan
from idbandits.simulation.workers import run_all
from idbandits.simulation.world import World
from idbandits.solve.best import SOLVE, solver_of

CHECKPOINTS = 200
ABOVE = {
    "__main__.py",
    "cli.py",
    "command.py",
    "draw.py",
    "layout.py",
    "plot.py",
    "reading.py",
    "report.py",
    "runs.py",
    "evaluation.py",
    "progress.py",
}
FORMAT = 1


@final
@dataclass(frozen=True)
class Settings:
    """Of all runs."""

    rounds: int
    runs: int
    seed: int


class Cell(NamedTuple):
    """A learner on a problem, by name."""

    problem: str
    learner: str

    def rounds(self, settings: Settings) -> int:
        """How many rounds it plays."""
        return max(1, round(LEARNERS[self.learner].share * settings.rounds))

    def runs(self, settings: Settings) -> int:
        """How many runs it plays."""
        return max(1, round(LEARNERS[self.learner].share * settings.runs))


class Job(NamedTuple):
    """One run of a cell."""

    cell: Cell
    run: int


@functools.cache
def version() -> str:
    """A digest of all that results depend on besides the settings: these sources, and the libraries they rest on."""
    digest = hashlib.sha256(f"{FORMAT} {np.__version__} {scipy.__version__} {numba.__version__}".encode())
    folder = Path(__file__).parent.parent
    for source in sorted(folder.rglob("*.py")):
        if source.name not in ABOVE:
            digest.update(source.relative_to(folder).as_posix().encode() + source.read_bytes())
    return digest.hexdigest()


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
        """How runs are made; what it needs is compiled."""
        return plan(self.world, self.cell.learner, self.learner)

    def kernels(self) -> list[tuple[Any, Any]]:
        """The compiled functions that it needs, and their types."""
        if not isinstance(self.learner, (Thompson, Baseline)):
            return []
        return [(solver_of(self.world._model).uncompiled, SOLVE), (loop, LOOP), *self.learner.kernels]

    def run(self, number: int, stop: threading.Event, tell: Callable[[int], Any]) -> Run | None:
        """One run; None if it was stopped."""
        world, learner = begin(self.world, self.learner, self.cell.learner, self.settings.seed, number)
        return self.plan(world, learner, self.marks, stop, tell)

    @functools.cached_property
    def _told(self) -> str:
        """What the result depends on, the number of the run aside."""
        return json.dumps(
            {
                "version": version(), "world": self.world.diagram.to_dict(), "learner": describe(self.learner),
                "means": {name: table.tolist() for name, table in self.world.means.items()},
                "name": self.cell.learner, "marks": self.marks.tolist(), "seed": self.settings.seed,
            },
            sort_keys=True,
        )  # fmt: skip

    def key(self, run: int) -> str:
        """By what a run is found again."""
        return hashlib.sha256(f"{run} {self._told}".encode()).hexdigest()


def describe(learner: Any) -> dict[str, Any]:
    """A learner as plain data: equal for equal ones."""
    told: dict[str, Any] = {"class": type(learner).__name__, "diagram": learner.diagram.to_dict()}
    if isinstance(learner, Thompson):
        told |= {"inference": type(learner.inference).__name__, "settings": learner.inference.settings}
    elif isinstance(learner, Baseline):
        state = hashlib.sha256(b"".join(part.tobytes() for part in learner._state))  # some keep their settings there
        told |= {"settings": learner.settings, "state": state.hexdigest()}
    return told


# -- keeping -------------------------------------------------------------------------------------------------------


TABLES = {
    "runs": "CREATE TABLE runs (key TEXT PRIMARY KEY, skipped INTEGER, totals BLOB, sum INTEGER)",
    "notes": "CREATE TABLE notes (key TEXT PRIMARY KEY, text TEXT)",
}


@final
class Store:
    """Finished runs in a file. Each is written whole, or not at all if the power fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._told():
            self._database = sqlite3.connect(path, timeout=60)
        try:
            with self._told(), self._database:
                found = dict(self._database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
                if not found:
                    self._database.execute("BEGIN IMMEDIATE")
                    for made in TABLES.values():
                        self._database.execute(made.replace("TABLE", "TABLE IF NOT EXISTS"))
                elif found != TABLES:
                    raise self._foreign("it holds other tables")
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def get(self, key: str) -> Run | None:
        """A finished run."""
        with self._told():
            row = self._database.execute("SELECT skipped, totals, sum FROM runs WHERE key = ?", [key]).fetchone()
        if row is None:
            return None
        if not isinstance(row[1], bytes) or zlib.crc32(row[1]) != row[2]:
            raise self._foreign("a run in it is damaged")
        return Run(np.frombuffer(row[1]).reshape(-1, 3), row[0])

    def put(self, key: str, run: Run) -> None:
        """Keep a finished run."""
        totals = np.ascontiguousarray(run.totals, dtype=np.float64).tobytes()
        row = [key, run.skipped, totals, zlib.crc32(totals)]
        with self._told(), self._database:
            self._database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", row)

    def note(self, told: Any, make: Callable[[], str]) -> str:
        """A text that was made for what is told, or is made now and kept."""
        key = hashlib.sha256(json.dumps([version(), told], sort_keys=True).encode()).hexdigest()
        with self._told():
            row = self._database.execute("SELECT text FROM notes WHERE key = ?", [key]).fetchone()
        if row is not None:
            return str(row[0])
        text = make()
        with self._told(), self._database:
            self._database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", [key, text])
        return text

    def _foreign(self, why: object) -> FormatError:
        return FormatError(f"{self._path}: this is no file of finished runs ({why}); move it away to begin anew")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite cannot do is told with the path: it cannot read or write the file, or the file is not its own."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise IdbanditsError(f"{self._path}: {error}") from None
        except sqlite3.DatabaseError as error:
            raise self._foreign(error) from None


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """A store that is closed in the end."""
    with closing(Store(path)) as store:
        yield store


# -- making --------------------------------------------------------------------------------------------------------

Tell = Callable[[Cell, int], None]  # of progress: so many rounds of a cell


def make_runs(
    cells: Sequence[Cell], settings: Settings, store: Store, workers: int | None, cluster: str | None, tell: Tell
) -> dict[Job, Run] | None:
    """All runs of these cells, those that are missing made now; None if interrupted. What was finished is kept."""
    prepared = {cell: Prepared(cell, settings) for cell in cells}
    found: dict[Job, Run] = {}
    missing: list[Job] = []
    for cell in cells:
        for number in range(cell.runs(settings)):
            job = Job(cell, number)
            kept = store.get(prepared[cell].key(number))
            if kept is None:
                missing.append(job)
            else:
                found[job] = kept
                tell(cell, cell.rounds(settings))

    def keep(job: Job, run: Run) -> None:
        store.put(prepared[job.cell].key(job.run), run)
        found[job] = run

    try:
        if cluster is not None:
            run_on_cluster(cluster, missing, settings, keep, tell)
        elif not _run_here(missing, prepared, keep, workers, tell):
            return None
    except KeyboardInterrupt:
        return None
    return found


def _run_here(
    jobs: Sequence[Job], prepared: dict[Cell, Prepared], keep: Callable[[Job, Run], None], workers: int | None,
    tell: Tell,
) -> bool:  # fmt: skip
    wanted = list(dict.fromkeys(job.cell for job in jobs))
    compile_together([pair for cell in wanted for pair in prepared[cell].kernels()], workers)
    for cell in wanted:
        prepared[cell].plan  # noqa: B018  # made before threads ask for it

    def work(job: Job, stop: threading.Event) -> Run | None:
        return prepared[job.cell].run(job.run, stop, lambda rounds: tell(job.cell, rounds))

    return run_all(jobs, work, keep, workers)


def run_on_cluster(
    address: str, jobs: Iterable[Job], settings: Settings, keep: Callable[[Job, Run], None], tell: Tell
) -> None:
    """Make runs on the workers of a Dask scheduler. Those of a worker that dies are made by others."""
    try:
        import distributed
    except ImportError:
        raise IdbanditsError("--cluster needs Dask: pip install 'idbandits[cluster]'") from None
    if not address.strip():  # Dask would begin a cluster of its own
        raise IdbanditsError(f"--cluster {address!r} is no address of a Dask scheduler")
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is told below, in a line
    connect: Any = distributed.Client
    client, wrong = None, ""
    try:
        client = connect(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        wrong = str(error)
    if client is None:
        gc.collect()  # a client that failed is closed when it is collected, which locks up if another one is starting
        raise IdbanditsError(f"--cluster: no Dask scheduler answers at {address!r}: {wrong}")
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise IdbanditsError(f"--cluster: the Dask scheduler at {address!r} has no workers") from None
        futures = {client.submit(run_remotely, job.cell, job.run, settings, pure=False, retries=3): job for job in jobs}
        try:
            for job, (theirs, run) in _finished(client, futures, address):
                if theirs != version():
                    raise IdbanditsError(
                        f"a worker of {address!r} has another version of idbandits, NumPy, SciPy or Numba than we have"
                    )
                keep(job, run)
                tell(job.cell, job.cell.rounds(settings))
        except (distributed.KilledWorker, CancelledError, ImportError) as error:
            raise IdbanditsError(f"the workers of {address!r} failed: {' '.join(str(error).split())}") from None
        finally:
            client.cancel(list(futures))


def _finished(client: Any, futures: dict[Any, Job], address: str) -> Iterator[tuple[Job, tuple[str, Run]]]:
    """Runs as they are finished, until none is left; Dask would wait without end for workers if all have died."""
    import distributed

    arriving: Any = distributed.as_completed(futures, loop=client.loop)
    asked = alive = time.monotonic()
    while futures:
        if not arriving.has_ready():
            time.sleep(0.02)
        else:
            future = next(arriving)
            try:
                made = future.result(timeout=PATIENCE)
            except TimeoutError:  # its worker died with it, and it is made again, if there are others
                arriving.add(future)
            else:
                yield futures.pop(future), made
                future.release()
        if time.monotonic() - asked > 1.0:
            asked = time.monotonic()
            if client.nthreads():
                alive = asked
            elif asked - alive > PATIENCE:
                raise IdbanditsError(f"--cluster: the Dask scheduler at {address!r} has no workers any more")


PATIENCE = 20  # seconds that a cluster has to answer, and to replace workers that have died

_preparing = threading.Lock()


@functools.lru_cache(maxsize=256)
def _prepared(cell: Cell, settings: Settings) -> Prepared:
    return Prepared(cell, settings)


def run_remotely(cell: Cell, run: int, settings: Settings) -> tuple[str, Run]:
    """One run, on a worker; with its version."""
    with _preparing:
        prepared = _prepared(Cell(*cell), settings)
        prepared.plan  # noqa: B018  # compiles
    made = prepared.run(run, threading.Event(), lambda rounds: None)
    assert made is not None
    return version(), made
