"""Simulation of learners in a world: compiled learners in a fused loop, others round by round in Python."""

from __future__ import annotations

import copy
import functools
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from idbandits.agent.thompson import Thompson
from idbandits.baselines.baseline import Baseline
from idbandits.diagram.diagram import Diagram
from idbandits.errors import IdbanditsError, ImpossibleObservationError, brief, check_flag, check_whole
from idbandits.kernel.array_types import Ints
from idbandits.kernel.compile import Kernel
from idbandits.simulation.loop import SLICE, Run, joint_of, loop, play_fused
from idbandits.simulation.results import Result
from idbandits.simulation.workers import MOST_ROUNDS, MOST_ROWS, MOST_RUNS, MOST_WORKERS, run_all
from idbandits.simulation.world import World
from idbandits.solve.solver import Solver

if TYPE_CHECKING:  # imported where it is used, because that takes long
    import pandas

CHECKPOINTS = 200  # default number of checkpoints of a run


def simulate(
    world: World, learners: Mapping[str, Any], rounds: int = 20_000, runs: int = 20, seed: int = 0,
    workers: int | None = None, progress: bool = True, *, checkpoints: int | str = CHECKPOINTS,
) -> Result:  # fmt: skip
    """Let learners play in a world, and measure reward, regret and time.

    Every run starts from a fresh copy of the learner passed. In a run, the world has the same random numbers for all
    learners. Results do not depend on the number of workers. Ctrl-C keeps the finished runs.

    Parameters
    ----------
    world : World
        Environment.
    learners : mapping of str to learner
        Objects with methods `act()` and `update(action, observation)`: agents, baselines, or your own. Both methods
        also get `context=` in worlds with contexts, and `act` gets `allowed=` if not all choices are eligible.
    rounds : int
        Rounds per run.
    runs : int
        Runs per learner.
    seed : int
        Seed of all random numbers.
    workers : int, optional
        Number of threads; all cores by default.
    progress : bool
        Whether a progress bar is shown.
    checkpoints : int or "every"
        Number of evenly spaced rounds after which totals are recorded, or all rounds.

    Returns
    -------
    Result
        Totals of every learner in every run, with summary, differences and plot.

    Raises
    ------
    IdbanditsError
        A learner lacks a method or does not fit the world, or a number is out of range.

    Examples
    --------
    >>> from idbandits import models
    >>> d = models.semi_bandit(items=5, positions=2)
    >>> world = World(d, {"mean": [0.1, 0.2, 0.3, 0.8, 0.9]})
    >>> result = simulate(world, {"idTS": Thompson(d)}, rounds=1000, runs=4, progress=False)
    >>> bool(result.summary()["reward_mean"][0] > 1.6)
    True
    """
    from tqdm import tqdm

    if not isinstance(world, World):
        raise IdbanditsError(f"world must be a World, got {brief(world)}")
    if not isinstance(learners, Mapping) or not learners or not all(isinstance(name, str) for name in learners):
        raise IdbanditsError(f"learners must map names to learners, got {brief(learners)}")
    learners = dict(learners)
    for name, learner in learners.items():
        check_learner(f"learner {name!r}", learner)
    rounds = check_whole("rounds", rounds, 1, MOST_ROUNDS)
    progress = check_flag("progress", progress)
    runs, seed, workers = check_runs(runs, seed, workers)
    marks = marks_of(rounds, checkpoints, runs * len(learners))
    jobs = [(name, run) for run in range(runs) for name in learners]
    done: dict[tuple[str, int], Run] = {}
    plans = {name: plan(world, name, learner) for name, learner in learners.items()}
    with tqdm(total=len(jobs) * rounds, unit=" rounds", unit_scale=True, disable=not progress, smoothing=0.1) as bar:

        def work(job: tuple[str, int], stop: threading.Event) -> Run | None:
            name, run = job
            return plans[name](*begin(world, learners[name], name, seed, run), marks, stop, bar.update)

        finished = run_all(jobs, work, done.__setitem__, workers)
    skipped = {name: sum(run.skipped for job, run in done.items() if job[0] == name) for name in learners}
    for name, number in skipped.items():
        if number:
            message = f"gives {number:,} of the observed rounds probability zero; it did not learn from them"
            warnings.warn(f"learner {name!r}: its diagram {message}", stacklevel=2)
    settings = {
        "world": world.diagram.name, "learners": list(learners), "rounds": rounds, "runs": runs, "seed": seed,
        "interrupted": not finished, "ruled_out": skipped, "reference_gap": world.gap,
    }  # fmt: skip
    return Result(frame_of(done, marks, list(learners)), settings)


def begin(world: World, learner: Any, name: str, seed: int, run: int) -> tuple[World, Any]:
    """Return copies of the world and the learner for a run, with new random generators.

    In a run, the world has the same random numbers for all learners. Those of a learner depend on its name, and replace
    NumPy generators among its attributes.
    """
    of_world, of_learner = random_numbers(seed, run, "world"), random_numbers(seed, run, f"learner {name}")
    if isinstance(learner, (Thompson, Baseline)):
        return world.copy(of_world), learner.copy(of_learner)
    fresh = copy.deepcopy(learner)
    generators = [k for k, v in getattr(fresh, "__dict__", {}).items() if isinstance(v, np.random.Generator)]
    for attribute, its_seed in zip(generators, of_learner.spawn(len(generators)), strict=True):
        setattr(fresh, attribute, np.random.default_rng(its_seed))
    return world.copy(of_world), fresh


def random_numbers(seed: int, run: int, purpose: str) -> np.random.SeedSequence:
    """Return the seed of a purpose in a run; it differs from all seeds that NumPy derives from the same number."""
    return np.random.SeedSequence(seed, spawn_key=(run, zlib.crc32(purpose.encode(errors="surrogatepass"))))


def check_runs(runs: Any, seed: Any, workers: Any) -> tuple[int, int, int | None]:
    """Validate the number of runs, the seed, and the number of threads, which may be None."""
    runs, seed = check_whole("runs", runs, 1, MOST_RUNS), check_whole("seed", seed, 0)
    return runs, seed, None if workers is None else check_whole("workers", workers, 1, MOST_WORKERS)


def check_size(runs: int, checkpoints: int) -> None:
    """Raise if a result would not fit in memory."""
    if runs * checkpoints > MOST_ROWS:
        total = f"{runs:,} runs of all learners with {checkpoints:,} checkpoints each"
        raise IdbanditsError(f"a result must have at most {MOST_ROWS:,} rows, got {total}")


def check_learner(who: str, learner: Any) -> None:
    """Raise if a learner lacks the method `act` or `update`."""
    for method in ("act", "update"):
        if not callable(getattr(learner, method, None)) or isinstance(learner, type):
            raise IdbanditsError(f"{who} must have a method {method}(), got {brief(learner)}")


def marks_of(rounds: int, checkpoints: int | str, runs: int = 1) -> Ints:
    """Return the rounds after which totals are recorded."""
    every = isinstance(checkpoints, str) and checkpoints == "every"
    number = rounds if every else min(check_whole("checkpoints (if not 'every')", checkpoints, 1), rounds)
    check_size(runs, number)
    return np.unique(np.linspace(0, rounds, number + 1).round().astype(np.int64)[1:])


def frame_of(done: Mapping[tuple[str, int], Run], marks: Ints, names: list[str]) -> pandas.DataFrame:
    """Return finished runs as one table with a row per checkpoint."""
    import pandas

    jobs = sorted(done, key=lambda job: (names.index(job[0]), job[1]))
    reward, regret, seconds = np.concatenate([np.empty((0, 3)), *(done[job].totals for job in jobs)]).T
    learner = pandas.Categorical(np.repeat([name for name, _ in jobs], len(marks)), categories=names)
    run = np.repeat(np.array([run for _, run in jobs], dtype=np.int64), len(marks))
    columns = {"learner": learner, "run": run, "round": np.tile(marks, len(jobs))}
    return pandas.DataFrame(columns | {"reward": reward, "regret": regret, "seconds": seconds})


Plan: TypeAlias = Callable[[World, Any, Ints, threading.Event, Callable[[int], Any]], Run | None]


def plan(world: World, name: str, learner: Any) -> Plan:
    """Return the function that plays runs of a learner; raise if the learner does not fit the world."""
    diagram = getattr(learner, "diagram", None)
    if world.eligibility.limits and isinstance(learner, Baseline):
        kind = type(learner).__name__
        raise IdbanditsError(f"learner {name!r}: {kind} does not support `allowed`, which this world needs")
    if isinstance(diagram, Diagram):
        joint, kernels = joint_of(world, diagram, name), kernels_of(world, learner)
        for each in kernels:  # compiled here, because Ctrl-C ends the compiler in the main thread only
            each.compile()
        if kernels:
            return functools.partial(play_fused, joint)
    return play_in_python


def kernels_of(world: World, learner: Any) -> list[Kernel]:
    """Return the kernels of the fused loop; empty if the loop does not support the learner."""
    if not isinstance(learner, (Thompson, Baseline)) or learner.player is None:
        return []
    return [world.model.derived(Solver).kernel_for(world.effort), loop, *learner.player.kernels]


def play_in_python(
    world: World, learner: Any, marks: Ints, stop: threading.Event, advance: Callable[[int], Any]
) -> Run | None:
    """Play a run round by round, reporting numbers of finished rounds to `advance`; return None if stopped."""
    diagram, contextual = getattr(learner, "diagram", None), bool(world.diagram.of_kind("context"))
    known = (diagram if isinstance(diagram, Diagram) else world.diagram).of_kind("context")
    totals, reward, regret, seconds = np.zeros((len(marks), 3)), 0.0, 0.0, 0.0
    mark, reported, skipped, looked = 0, 0, 0, time.perf_counter()
    for t in range(1, int(marks[-1]) + 1):
        context = world.context() if contextual else None
        extra: dict[str, Any] = {"context": {n.name: context[n.name] for n in known}} if context and known else {}
        allowed = {"allowed": world.allowed()} if world.eligibility.limits else {}
        before = time.thread_time()
        action = learner.act(**extra, **allowed)
        seconds += time.thread_time() - before
        outcome = world.step(action, context)
        seen = outcome.seen_by(diagram) if isinstance(diagram, Diagram) else outcome.observation
        before = time.thread_time()
        try:
            learner.update(action, seen, **extra)
        except ImpossibleObservationError:
            skipped += 1
        seconds += time.thread_time() - before
        reward, regret = reward + outcome.reward, regret + outcome.regret
        if t == marks[mark]:
            totals[mark] = reward, regret, seconds
            mark += 1
        if time.perf_counter() - looked > SLICE or t == marks[-1]:
            advance(t - reported)
            reported, looked = t, time.perf_counter()
            if stop.is_set():
                return None
    return Run(totals, skipped)
