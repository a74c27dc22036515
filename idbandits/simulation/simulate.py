"""Many runs of many learners in a world: compiled learners in one fused loop, others round by round in Python."""

from __future__ import annotations

import copy
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas
from tqdm import tqdm

from idbandits.agent.thompson import Thompson
from idbandits.baselines.baseline import Baseline
from idbandits.circuit.model import Model
from idbandits.diagram.declare import Diagram
from idbandits.errors import IdbanditsError, ImpossibleObservationError, is_integer
from idbandits.inference.groups import grown, is_full
from idbandits.kernel.compiling import ready
from idbandits.kernel.types import Floats, Ints
from idbandits.simulation.loop import LOOP, loop
from idbandits.simulation.results import Result
from idbandits.simulation.workers import MOST_ROUNDS, run_all
from idbandits.simulation.world import World
from idbandits.solve.best import solver_of

CHECKPOINTS = 200  # of a run, if the setting does not say otherwise
SLICE = 0.2  # seconds of work between looks at the clock and at interruptions
MOST_CONTEXTS = 100_000  # whose best values are kept


class Learner(Protocol):
    """What takes part in a simulation."""

    def act(self) -> Mapping[str, Any]:
        """An action; in a world with contexts it is called with `context=`."""

    def update(self, action: Mapping[str, Any], observation: Mapping[str, Any]) -> None:
        """Learn from a round; in a world with contexts it is called with `context=` too."""


def simulate(
    world: World,
    learners: Mapping[str, Any],
    rounds: int = 20_000,
    runs: int = 20,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
    *,
    checkpoints: int | str = CHECKPOINTS,
) -> Result:
    """Let every learner play `runs` runs of `rounds` rounds, each from a fresh copy of what was passed.

    Runs are shared out to `workers` threads (all cores if None); results do not depend on how many. They are kept at
    evenly spaced `checkpoints`, or after `"every"` round. Ctrl-C keeps the finished runs.

    >>> from idbandits import models
    >>> d = models.semi_bandit(items=5, positions=2)
    >>> world = World(d, {"mean": [0.1, 0.2, 0.3, 0.8, 0.9]})
    >>> result = simulate(world, {"idTS": Thompson(d)}, rounds=1000, runs=4, progress=False)
    >>> bool(result.summary()["reward_mean"][0] > 1.6)
    True
    """
    _check(world, learners, rounds, runs, seed, workers)
    marks = marks_of(int(rounds), checkpoints)
    jobs = [(name, run) for run in range(int(runs)) for name in learners]
    done: dict[tuple[str, int], Run] = {}
    skipped: dict[str, int] = {}
    plans = {name: plan(world, name, learner) for name, learner in learners.items()}
    with tqdm(
        total=len(jobs) * int(rounds), unit=" rounds", unit_scale=True, disable=not progress, smoothing=0.1
    ) as bar:

        def job(one: tuple[str, int], stop: threading.Event) -> Run | None:
            name, run = one
            fresh_world, learner = begin(world, learners[name], name, int(seed), run)
            return plans[name](fresh_world, learner, marks, stop, bar.update)

        finished = run_all(jobs, job, done.__setitem__, None if workers is None else int(workers))
    for (name, _), run_done in done.items():
        skipped[name] = skipped.get(name, 0) + run_done.skipped
    for name, number in skipped.items():
        if number:
            warnings.warn(
                f"learner {name!r}: its diagram gives {number:,} of the observed rounds probability zero; "
                "it did not learn from them",
                stacklevel=2,
            )
    settings = {
        "world": world.diagram.name, "learners": list(learners), "rounds": int(rounds), "runs": int(runs),
        "seed": int(seed), "interrupted": not finished, "ruled_out": skipped,
    }  # fmt: skip
    return Result(frame_of(done, marks, list(learners)), settings)


def begin(world: World, learner: Any, name: str, seed: int, run: int) -> tuple[World, Any]:
    """The world and the learner that a run starts from: copies, with random numbers of their own.

    All learners of a run meet the same random numbers of the world; those of a learner depend on its name, so that
    more learners do not change the others' results. Learners that are not agents are copied deeply, and NumPy
    generators among their attributes are replaced by such of the run.
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
    return np.random.SeedSequence(seed, spawn_key=(run, zlib.crc32(purpose.encode())))


class Run(NamedTuple):
    """Total reward, regret and processor seconds at each checkpoint; and how many rounds the diagram ruled out."""

    totals: Floats
    skipped: int


def _check(world: Any, learners: Any, rounds: Any, runs: Any, seed: Any, workers: Any) -> None:
    if not isinstance(world, World):
        raise IdbanditsError(f"world is a World, not {world!r}")
    if not isinstance(learners, Mapping) or not learners:
        raise IdbanditsError(f"learners map names to learners; given {learners!r}")
    for name, learner in learners.items():
        if not isinstance(name, str):
            raise IdbanditsError(f"learners are named by strings, not {name!r}")
        for method in ("act", "update"):
            if not callable(getattr(learner, method, None)) or isinstance(learner, type):
                raise IdbanditsError(f"learner {name!r} has no method {method}(): {learner!r}")
    if is_integer(rounds) and rounds > MOST_ROUNDS:
        raise IdbanditsError(f"rounds is a whole number from 1 to {MOST_ROUNDS}, not {rounds!r}")
    for what, given, least in (("rounds", rounds, 1), ("runs", runs, 1), ("seed", seed, 0)):
        if not is_integer(given) or given < least:
            raise IdbanditsError(f"{what} is a whole number from {least}, not {given!r}")
    if workers is not None and (not is_integer(workers) or workers < 1):
        raise IdbanditsError(f"workers is a whole number from 1, or None for all cores; not {workers!r}")


def marks_of(rounds: int, checkpoints: int | str) -> Ints:
    """The rounds after which totals are kept."""
    if checkpoints == "every":
        return np.arange(1, rounds + 1)
    if not is_integer(checkpoints) or int(checkpoints) < 1:
        raise IdbanditsError(f"checkpoints is a whole number from 1, or 'every'; not {checkpoints!r}")
    return np.unique(np.linspace(0, rounds, min(int(checkpoints), rounds) + 1).round().astype(np.int64)[1:])


def frame_of(done: Mapping[tuple[str, int], Run], marks: Ints, names: list[str]) -> pandas.DataFrame:
    """Finished runs as one table, a row a checkpoint."""
    kept = sorted(done, key=lambda job: (names.index(job[0]), job[1]))
    values = np.concatenate([np.empty((0, 3)), *(done[job].totals for job in kept)])
    return pandas.DataFrame(
        {
            "learner": pandas.Categorical(np.repeat([name for name, _ in kept], len(marks)), categories=names),
            "run": np.repeat(np.array([run for _, run in kept], dtype=np.int64), len(marks)),
            "round": np.tile(marks, len(kept)),
            "reward": values[:, 0],
            "regret": values[:, 1],
            "seconds": values[:, 2],
        }
    )


# -- how a learner is run ------------------------------------------------------------------------------------------

Plan = Callable[[World, Any, Ints, threading.Event, Callable[[int], Any]], Run | None]


def plan(world: World, name: str, learner: Any) -> Plan:
    """The way to run a learner, once it is known to fit the world."""
    diagram = getattr(learner, "diagram", None)
    if isinstance(diagram, Diagram):
        joint = Joint(world, diagram, name)
        if isinstance(learner, (Thompson, Baseline)) and learner._player is not None:
            return Fused(world, joint).run
    return in_python


class Joint:
    """How the nodes of a learner's diagram correspond to those of a world, by name."""

    def __init__(self, world: World, d: Diagram, name: str) -> None:
        truth = world.diagram.nodes
        who = f"learner {name!r} with diagram {d.name!r}"
        ours, theirs = ([n.name for n in x.of_kind("decision")] for x in (d, world.diagram))
        if set(ours) != set(theirs):
            odd = sorted(set(ours) ^ set(theirs))[0]
            raise IdbanditsError(f"{who}: decision {odd!r} is not in both its diagram and the world's")
        for group in world.diagram.different:
            if not any(set(group) <= set(own) for own in d.different):
                raise IdbanditsError(
                    f"{who}: in the world, {', '.join(group)} must be all different; in its diagram they need not be"
                )
        places = {n: i for i, n in enumerate(truth)}
        entries: list[int] = []
        tables: list[int] = []
        inner = [*d.of_kind("decision"), *d.of_kind("context"), *d.of_kind("observed")]
        size = 3 * len(inner)
        for node in inner:
            other = truth.get(node.name)
            if other is None or (other.kind != node.kind if node.kind != "observed" else not other.is_chance):
                what, kind = ("observes", "chance node") if node.kind == "observed" else (f"has {node.kind}", node.kind)
                raise IdbanditsError(f"{who} {what} {node.name!r}, which is no {kind} of the world")
            source, target = (node, other) if node.kind == "decision" else (other, node)
            if any(v not in target.values for v in source.values):
                alone = next(v for v in source.values if v not in target.values)
                raise IdbanditsError(
                    f"{who}: {node.name!r} = {alone!r} exists on one side only; allowed: {target.allowed()}"
                )
            entries.extend([places[node.name], size + len(tables), len(source.values)])
            tables.extend(target.values.index(v) for v in source.values)
        self.array = np.array([*entries, *tables], dtype=np.int64)
        self.decisions, self.contexts = len(d.of_kind("decision")), len(d.of_kind("context"))
        self.observed = len(d.of_kind("observed"))


def in_python(world: World, learner: Any, marks: Ints, stop: threading.Event, tell: Callable[[int], Any]) -> Run | None:
    """A run, round by round."""
    diagram = getattr(learner, "diagram", None)
    known = (diagram if isinstance(diagram, Diagram) else world.diagram).of_kind("context")
    contextual = bool(world.diagram.of_kind("context"))
    totals = np.zeros((len(marks), 3))
    reward = regret = seconds = 0.0
    at = told = skipped = 0
    looked = time.perf_counter()
    for t in range(1, int(marks[-1]) + 1):
        context = world.context() if contextual else None
        extra = {"context": {n.name: context[n.name] for n in known}} if context is not None and known else {}
        before = time.thread_time()
        action = learner.act(**extra)
        seconds += time.thread_time() - before
        outcome = world.step(action, context)
        seen = outcome.seen_by(diagram) if isinstance(diagram, Diagram) else outcome.observation
        before = time.thread_time()
        try:
            learner.update(action, seen, **extra)
        except ImpossibleObservationError:
            skipped += 1
        seconds += time.thread_time() - before
        reward += outcome.reward
        regret += outcome.regret
        if t == marks[at]:
            totals[at] = reward, regret, seconds
            at += 1
        if time.perf_counter() - looked > SLICE or t == marks[-1]:
            tell(t - told)
            told, looked = t, time.perf_counter()
            if stop.is_set():
                return None
    return Run(totals, skipped)


class Fused:
    """Runs of a compiled learner: the loop stays in compiled code, and comes up for air a few times a second."""

    def __init__(self, world: World, joint: Joint) -> None:
        model: Model = world._model
        self._joint = joint
        self._solver = solver_of(model)
        self._truth = world._parameters
        places = {n: i for i, n in enumerate(model.nodes)}
        axes = [places[n.name] for n in (*model.decisions, *model.contexts)]
        sizes = [n.states for n in model.contexts]
        number = int(np.prod(sizes, dtype=np.float64)) if np.prod(sizes, dtype=np.float64) <= MOST_CONTEXTS else 0
        self._axes = np.array([*axes, *sizes], dtype=np.int64)
        self._best = np.full(max(number, 1), np.nan)
        self._cached, self._contexts = number, len(sizes)
        self._loop = ready(loop, LOOP)

    def run(
        self, world: World, agent: Thompson | Baseline, marks: Ints, stop: threading.Event, tell: Callable[[int], Any]
    ) -> Run | None:
        """A run of a compiled learner."""
        player = agent._player
        assert player is not None
        totals = np.zeros((len(marks), 3))
        sums = np.zeros(2)
        places = np.zeros(4, dtype=np.int64)  # rounds done, checkpoints done, rounds ruled out, best values kept
        places[3] = self._cached
        rounds, step, seconds = int(marks[-1]), 64, 0.0
        joint = self._joint
        best = self._best.copy()
        while places[0] < rounds:
            if stop.is_set():
                return None
            ints, floats = agent._state
            if is_full(ints):
                agent._state = grown(agent._state)
                ints, floats = agent._state
            begun, started, marked = int(places[0]), time.thread_time(), int(places[1])
            self._loop(
                player.act, player.solve, player.learn, self._solver.kernel,
                world._program, world._numbers, world._values, world._rng,
                self._solver.program, self._solver.known, self._truth, self._axes, best,
                player.program, player.known, player.parts, player.numbers,
                ints, floats, agent._rng, joint.array, joint.decisions, joint.contexts, joint.observed, self._contexts,
                min(rounds, begun + step), marks, places, sums, totals,
            )  # fmt: skip
            took = time.thread_time() - started
            now = int(places[0])
            if now > begun:
                passed = marks[marked : places[1]]
                totals[marked : places[1], 2] = seconds + took * (passed - begun) / (now - begun)
                seconds += took
                tell(now - begun)
                step = max(64, min(rounds, int(step * min(4.0, SLICE / max(took, 1e-9)))))
        return Run(totals, int(places[2]))
