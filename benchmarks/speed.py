"""Time per round, from Python and in the compiled loop of `simulate`, and growth of memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

import idbandits as idb
from benchmarks.problems import CASCADE_1, FULL, POSITION_BASED_1, Problem, learners, problem
from benchmarks.report import DisagreementError, Row, Topic, duration
from benchmarks.timing import timed

ROUNDS, LONGER = 20_000, 10
SWEEP, LINEAR = 2.0, 11.0  # targets: ratio of variational to idTSfull; ratio of ten times the rounds
BLOCK = 200  # consecutive rounds of one agent
CALLS = {CASCADE_1: 9e-6, POSITION_BASED_1: 15e-6}  # targets: seconds of act and update
LOG = 3_000_000  # rounds
GROWTH = 50.0  # target: MB
CALLED = {CASCADE_1: ("exact", "variational", "moments", "gibbs", "ep"), POSITION_BASED_1: ("moments", "gibbs")}


def _rows(quick: bool) -> Iterator[Row]:
    for name, targets in ((CASCADE_1, {"variational": SWEEP}), (POSITION_BASED_1, {})):
        yield from _inferences(problem(name), targets, turns=2 if quick else 5)
        yield _longer(problem(name), turns=1 if quick else 3)
    for name, inferences in CALLED.items():
        yield from _calls(problem(name), inferences, blocks=3 if quick else 50)
    for items, positions, target in ((1_000, 20, 1e-3), (100_000, 5, 10e-3)):
        yield from _large(items, positions, target, rounds=200 if quick else 2_000, turns=1 if quick else 3)
    yield _log(problem(CASCADE_1), LOG // 10 if quick else LOG, turns=1 if quick else 2)
    if Path("/proc/self/clear_refs").exists():
        for name in (CASCADE_1, POSITION_BASED_1):
            yield _memory(name, 100_000 if quick else 1_000_000)


# -- compiled loop -------------------------------------------------------------------------------------------------


def _inferences(p: Problem, targets: Mapping[str, float], turns: int) -> Iterator[Row]:
    """Time all inferences in turns, so that other load affects all of them equally."""
    chosen = learners(p.diagram)
    idb.simulate(p.world(), chosen, rounds=10, runs=1, progress=False)  # compile kernels before timing
    times: dict[str, list[float]] = {name: [] for name in chosen}
    for turn in range(turns):
        for name, learner in chosen.items():
            times[name].append(_seconds(p, learner, ROUNDS, turn) / ROUNDS)
    full = median(times[FULL])
    for name, taken in times.items():
        factor = median(taken) / full
        line = f"{p.name}, {name}, a round"
        yield _row(line, duration(median(taken)), _times(factor), targets.get(name), factor, _times)


def _longer(p: Problem, turns: int) -> Row:
    """Compare the time of a long run with that of a short one."""
    learner = idb.Thompson(p.diagram, "variational")
    short, long = [], []
    for turn in range(turns):
        for _ in range(2):  # one short run before the long run, one after it
            short.append(_seconds(p, learner, ROUNDS, turn))
            if len(short) % 2:
                long.append(_seconds(p, learner, LONGER * ROUNDS, turn))
    factor = median(long) / median(short)
    line = f"{p.name}, variational, {LONGER * ROUNDS:,} rounds (ratio: to {ROUNDS:,})"
    return _row(line, duration(median(long)), _times(factor), LINEAR, factor, _times)


def _seconds(p: Problem, learner: idb.Thompson, rounds: int, seed: int) -> float:
    """Return the seconds of a run on one thread."""
    result = idb.simulate(p.world(), {"it": learner}, rounds=rounds, runs=1, seed=seed, workers=1, progress=False)
    return float(result.summary()["seconds_mean"].iloc[0])


def _large(items: int, positions: int, target: float, rounds: int, turns: int) -> Iterator[Row]:
    """Time the second half of runs with many items."""
    attraction = {"attraction": np.random.default_rng(0).permutation(np.arange(1, items + 1)) / (items + 1)}
    examined = {**attraction, "examination": 0.9 ** np.arange(positions)}
    cascade, position_based = idb.models.cascade(items, positions), idb.models.position_based(items, positions)
    for d, means in ((position_based, examined), (cascade, attraction)):
        world, agent = idb.World(d, means), idb.Thompson(d, "moments")
        simulate = partial(
            idb.simulate, world, {"it": agent}, rounds, runs=1, workers=1, progress=False, checkpoints=20
        )
        taken = [float(s) for turn in range(turns) for s in np.diff(simulate(seed=turn).frame["seconds"])[9:]]
        each = median(taken) / (rounds / 20)
        line = f"{d.name}, {items:,} items × {positions} positions, moments, a round"
        yield _row(line, duration(each), "", target, each, duration)


# -- called from Python --------------------------------------------------------------------------------------------


def _calls(p: Problem, inferences: Sequence[str], blocks: int) -> Iterator[Row]:
    """Time `act` and `update` of all inferences in turns; the world is not timed."""
    agents = {name: idb.Thompson(p.diagram, name, seed=0) for name in inferences}
    world = p.world()
    times: dict[str, list[float]] = {name: [] for name in agents}
    for _ in range(blocks):
        for name, agent in agents.items():
            for _ in range(BLOCK):
                action, acting = timed(agent.act)
                observation = world.step(action).observation
                _, learning = timed(agent.update, action, observation)
                times[name].append(acting + learning)
    for name, taken in times.items():
        each = median(taken)
        yield _row(f"{p.name}, {name}, act and update from Python", duration(each), "", CALLS[p.name], each, duration)


def _log(p: Problem, rounds: int, turns: int) -> Row:
    """Time `update_many` of a log of random lists."""
    rng = np.random.default_rng(0)
    first = rng.integers(20, size=rounds)
    second = (first + rng.integers(1, 20, size=rounds)) % 20
    attracted = [rng.random(rounds) < p.means["attraction"][shown] for shown in (first, second)]
    clicks = {"C1": attracted[0].astype(int), "C2": (attracted[1] & ~attracted[0]).astype(int)}
    taken = []
    for _ in range(turns):
        agent = idb.Thompson(p.diagram, "variational", seed=0)
        taken.append(timed(agent.update_many, {"A1": first, "A2": second}, clicks)[1])
    belief = agent.posterior()["attraction"]
    off = np.abs(belief.mean - p.means["attraction"]) / belief.sd
    if agent.rounds != rounds or off[:-1].max() > 5:
        raise DisagreementError(f"a log of {rounds:,} rounds: the posterior is {off.max():.1f} sd from the truth")
    return _row(f"{p.name}, variational, update_many of {rounds:,} rounds", duration(median(taken)))


# -- memory --------------------------------------------------------------------------------------------------------


def _memory(name: str, rounds: int) -> Row:
    """Measure the growth of peak memory in a separate process, compared with a short run."""
    code = f"from benchmarks.speed import growth; print(growth({name!r}, {rounds}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    grown = float(done.stdout)
    line = f"{name}, variational, {rounds:,} rounds, growth of resident memory"
    return _row(line, f"{grown:.1f} MB", "", GROWTH, grown, lambda target: f"{target:g} MB")


def growth(name: str, rounds: int) -> float:
    """Return the growth of the peak memory of this process in MB."""
    p = problem(name)
    learner = idb.Thompson(p.diagram, "variational")
    _seconds(p, learner, 1_000, 0)
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak to the current size
    before = _peak()
    _seconds(p, learner, rounds, 0)
    return _peak() - before


def _peak() -> float:
    line = next(s for s in Path("/proc/self/status").read_text().splitlines() if s.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _times(factor: float) -> str:
    return f"{factor:.2f}×"


def _row(
    line: str,
    measured: str,
    factor: str = "",
    target: float | None = None,
    value: float = 0.0,
    shown: Callable[[float], str] = str,
) -> Row:
    if target is None:
        return Row([line, measured, factor or "–", "–", "–"])
    missed = [f"{shown(value)}, target {shown(target)}"] if value > target else []
    return Row([line, measured, factor or "–", shown(target), "no" if missed else "yes"], missed)


TOPIC = Topic(
    "Time per round",
    f"On one thread. *A round*: in the compiled loop of `simulate`, including the world; over {ROUNDS:,} rounds or, "
    "at large sizes, in the second half of 2,000. Inferences run in turns. *Ratio*: to idTSfull, which observes the "
    "latent nodes, unless stated otherwise. *Act and update from Python*: both calls together, median over 10,000 "
    "rounds. *Growth of resident memory*: peak in a separate process, compared with the peak after 1,000 rounds. In "
    "a cascade with known tables nothing is ambiguous, so all inferences but literal ones only count; in "
    "position-based models attraction and examination are ambiguous.",
    ["what", "measured", "ratio", "target", "target met"],
    _rows,
)
