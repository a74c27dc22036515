"""Many runs of many learners in a world: compiled learners in one fused loop, others round by round in Python."""

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
from idbandits.errors import ODD, IdbanditsError, ImpossibleObservationError, brief, check_flag, check_whole, is_integer
from idbandits.kernel.array_types import Ints
from idbandits.kernel.compile import Kernel
from idbandits.simulation.loop import SLICE, Run, joint_of, loop, play_fused
from idbandits.simulation.results import Result
from idbandits.simulation.workers import MOST_ROUNDS, MOST_ROWS, MOST_RUNS, MOST_WORKERS, run_all
from idbandits.simulation.world import World
from idbandits.solve.solver import Solver

if TYPE_CHECKING:  # else imported where it is used, because importing it takes long
    import pandas

CHECKPOINTS = 200  # of a run, if the setting does not say otherwise


def simulate(
    world: World, learners: Mapping[str, Any], rounds: int = 20_000, runs: int = 20, seed: int = 0,
    workers: int | None = None, progress: bool = True, *, checkpoints: int | str = CHECKPOINTS,
) -> Result:  # fmt: skip
    """Let every learner play `runs` runs of `rounds` rounds, each from a fresh copy of what was passed.

    Learners have methods `act()` and `update(action, observation)`, which get `context=` too in worlds with contexts;
    `act` gets `allowed=` where not all choices are eligible.
    Runs are shared out to `workers` threads (all cores if None); results do not depend on how many. They are kept at
    evenly spaced `checkpoints`, or after `"every"` round. Ctrl-C keeps the finished runs.

    >>> from idbandits import models
    >>> d = models.semi_bandit(items=5, positions=2)
    >>> world = World(d, {"mean": [0.1, 0.2, 0.3, 0.8, 0.9]})
    >>> result = simulate(world, {"idTS": Thompson(d)}, rounds=1000, runs=4, progress=False)
    >>> bool(result.summary()["reward_mean"][0] > 1.6)
    True
    """
    from tqdm import tqdm

    learners = _checked(world, learners)
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
    skipped: dict[str, int] = {}
    for (name, _), run_done in done.items():
        skipped[name] = skipped.get(name, 0) + run_done.skipped
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
    """The world and the learner that a run starts from: copies, with random numbers of their own.

    All learners of a run meet the same ones of the world; those of a learner depend on its name, and replace NumPy
    generators among its attributes.
    """
    of_world, of_learner = random_numbers(seed, run, "world"), random_numbers(seed, run, f"learner {name}")
    if isinstance(learner, (Thompson, Baseline)):
        return world.copy(of_world), learner.copy(of_learner)
    fresh = copy.deepcopy(learner)
    held = [k for k, v in getattr(fresh, "__dict__", {}).items() if isinstance(v, np.random.Generator)]
    for attribute, its_seed in zip(held, of_learner.spawn(len(held)), strict=True):
        setattr(fresh, attribute, np.random.default_rng(its_seed))
    return world.copy(of_world), fresh


def random_numbers(seed: int, run: int, purpose: str) -> np.random.SeedSequence:
    """The seed of one purpose in one run: none that NumPy makes of the same number by itself, or for its children."""
    return np.random.SeedSequence(seed, spawn_key=(run, zlib.crc32(purpose.encode(errors="surrogatepass"))))


def _checked(world: Any, learners: Any) -> dict[str, Any]:
    """The learners as a dictionary of our own, if all is well with it and the world."""
    if not isinstance(world, World):
        raise IdbanditsError(f"world is a World, not {brief(world)}")
    try:
        own = dict(learners) if isinstance(learners, Mapping) else {}
    except ODD:
        own = {}
    if not own:
        raise IdbanditsError(f"learners map names to learners; given {brief(learners)}")
    for name, learner in own.items():
        if not isinstance(name, str):
            raise IdbanditsError(f"learners are named by strings, not {brief(name)}")
        check_learner(f"learner {name!r}", learner)
    return own


def check_runs(runs: Any, seed: Any, workers: Any) -> tuple[int, int, int | None]:
    """The same, if they are a number of runs, a seed, and a number of threads or None."""
    runs, seed = check_whole("runs", runs, 1, MOST_RUNS), check_whole("seed", seed, 0)
    return runs, seed, None if workers is None else check_whole("workers", workers, 1, MOST_WORKERS)


def check_size(runs: int, checkpoints: int) -> None:
    """Refuse results that would not fit in memory: of so many runs with so many checkpoints."""
    if runs * checkpoints > MOST_ROWS:
        asked = f"{runs:,} runs of all learners together with {checkpoints:,} checkpoints each"
        raise IdbanditsError(f"{asked} are more than the {MOST_ROWS:,} rows that a result has at most")


def check_learner(who: str, learner: Any) -> None:
    """Raise unless this can act and update."""
    for method in ("act", "update"):
        if not callable(getattr(learner, method, None)) or isinstance(learner, type):
            raise IdbanditsError(f"{who} has no method {method}(): {brief(learner)}")


def marks_of(rounds: int, checkpoints: int | str, runs: int = 1) -> Ints:
    """The rounds after which totals are kept, in each of so many runs."""
    if isinstance(checkpoints, str) and checkpoints == "every":
        check_size(runs, rounds)
        return np.arange(1, rounds + 1)
    if not is_integer(checkpoints) or int(checkpoints) < 1:
        raise IdbanditsError(f"checkpoints is a whole number from 1, or 'every'; not {brief(checkpoints)}")
    number = min(int(checkpoints), rounds)
    check_size(runs, number)
    return np.unique(np.linspace(0, rounds, number + 1).round().astype(np.int64)[1:])


def frame_of(done: Mapping[tuple[str, int], Run], marks: Ints, names: list[str]) -> pandas.DataFrame:
    """Finished runs as one table, one row per checkpoint."""
    import pandas

    jobs = sorted(done, key=lambda job: (names.index(job[0]), job[1]))
    reward, regret, seconds = np.concatenate([np.empty((0, 3)), *(done[job].totals for job in jobs)]).T
    learner = pandas.Categorical(np.repeat([name for name, _ in jobs], len(marks)), categories=names)
    run = np.repeat(np.array([run for _, run in jobs], dtype=np.int64), len(marks))
    columns = {"learner": learner, "run": run, "round": np.tile(marks, len(jobs))}
    return pandas.DataFrame(columns | {"reward": reward, "regret": regret, "seconds": seconds})


Plan: TypeAlias = Callable[[World, Any, Ints, threading.Event, Callable[[int], Any]], Run | None]


def plan(world: World, name: str, learner: Any) -> Plan:
    """The way to run a learner, once it is known to fit the world."""
    diagram = getattr(learner, "diagram", None)
    if world.assortment.limits and isinstance(learner, Baseline):
        kind = type(learner).__name__
        raise IdbanditsError(f"learner {name!r}: {kind} cannot be told which choices are allowed, as this world needs")
    if isinstance(diagram, Diagram):
        joint, kernels = joint_of(world, diagram, name), kernels_of(world, learner)
        for each in kernels:  # here, because Ctrl-C ends the compiler in the main thread only
            each.compile()
        if kernels:
            return functools.partial(play_fused, joint)
    return in_python


def kernels_of(world: World, learner: Any) -> list[Kernel]:
    """The kernels that runs of a learner need: none if it cannot be played by the fused loop."""
    if not isinstance(learner, (Thompson, Baseline)) or learner.player is None:
        return []
    return [world.model.derived(Solver).kernel_for(world.effort), loop, *learner.player.kernels]


def in_python(world: World, learner: Any, marks: Ints, stop: threading.Event, tell: Callable[[int], Any]) -> Run | None:
    """A run, round by round."""
    diagram, contextual = getattr(learner, "diagram", None), bool(world.diagram.of_kind("context"))
    known = (diagram if isinstance(diagram, Diagram) else world.diagram).of_kind("context")
    totals, reward, regret, seconds = np.zeros((len(marks), 3)), 0.0, 0.0, 0.0
    at, told, skipped, looked = 0, 0, 0, time.perf_counter()
    for t in range(1, int(marks[-1]) + 1):
        context = world.context() if contextual else None
        extra: dict[str, Any] = {"context": {n.name: context[n.name] for n in known}} if context and known else {}
        allowed = {"allowed": world.allowed()} if world.assortment.limits else {}
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
        if t == marks[at]:
            totals[at] = reward, regret, seconds
            at += 1
        if time.perf_counter() - looked > SLICE or t == marks[-1]:
            tell(t - told)
            told, looked = t, time.perf_counter()
            if stop.is_set():
                return None
    return Run(totals, skipped)
