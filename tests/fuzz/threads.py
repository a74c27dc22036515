"""One agent used by eight threads: no lost rounds, no hangs, and the belief of a single thread.

- `same_round`: all threads learn the same round and call all methods that consume no random numbers. The order of calls
  does not matter, so the agent, every copy and every file must be bit-identical to those of one thread.
- `mixed_rounds`: each thread acts, learns different rounds, removes some, and draws. The number of rounds and the counts
  of all groups must be those of one thread; the belief as well, up to rounding, for inferences and diagrams in which
  the order of rounds does not matter.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import idbandits as idb
from inferences import INFERENCES, agent_of
from internals import groups, kept
from played_rounds import Played, learn, play

THREADS = 8
HANG = 240  # timeout in seconds
NAMES = [name for name in INFERENCES if name != "own"]
FIXED_POINT = {"exact": 1e-12, "ep": 1e-6}  # inferences whose belief does not depend on the order of rounds
CONJUGATE = {*FIXED_POINT, "variational", "random", "incremental", "moments", "gibbs"}  # as above, in a cascade


def in_threads(work: Callable[[int], None]) -> list[str]:
    """Call a function in all threads at once with their numbers; return the exceptions."""
    raised: list[str] = []
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException:
            raised.append(traceback.format_exc(limit=-3))

    threads = [threading.Thread(target=run, args=[number], daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


class Until:
    """Counter that ends after a number of rounds or seconds."""

    def __init__(self, rounds: int, seconds: float | None) -> None:
        self.rounds, self.end = rounds, None if seconds is None else time.monotonic() + seconds

    def __iter__(self) -> Any:
        k = 0
        while k < self.rounds if self.end is None else time.monotonic() < self.end:
            yield k
            k += 1


# -- same round ------------------------------------------------------------------------------------------------------


def same_round(name: str, rounds: int, seconds: float | None, folder: Path) -> list[str]:
    """Return inconsistencies if all threads learn the same round."""
    agent = agent_of(name, idb.models.position_based(4, 2), seed=1)
    played = play(agent.diagram, np.random.default_rng(2), 1)[0]
    alone, snapshots, done = agent.copy(), [agent.copy()], [0] * THREADS

    def work(number: int) -> None:
        path = folder / f"{number}.idb"
        looks: list[Callable[[], Any]] = [
            agent.posterior, lambda: snapshots.append(agent.copy()), lambda: agent.propensity(played.action, draws=3),
            lambda: agent.save(path), lambda: snapshots.append(idb.Thompson.load(path)), lambda: repr(agent),
            lambda: agent.save(folder / "shared.idb"), lambda: agent.rounds,
        ]  # fmt: skip
        agent.save(path)
        for k in Until(rounds, seconds):
            agent.update(played.action, played.observation)
            done[number] += 1
            if k % 16 == 0 and len(snapshots) < 300:
                looks[(k // 16 + number) % len(looks)]()

    wrong = in_threads(work)
    if agent.rounds != sum(done):
        wrong.append(f"{sum(done)} rounds acknowledged, {agent.rounds} counted")
    wanted = {snapshot.rounds: kept(snapshot) for snapshot in [*snapshots, idb.Thompson.load(folder / "shared.idb")]}
    torn = {snapshot.rounds for snapshot in snapshots if kept(snapshot) != wanted[snapshot.rounds]}
    for count in range(sum(done)):
        if count in wanted and wanted.pop(count) != kept(alone):
            torn.add(count)
        alone.update(played.action, played.observation)
    if torn:
        wrong.append(f"{len(torn)} copies or files are not of any moment: after {sorted(torn)[:5]} rounds")
    if kept(agent) != kept(alone):
        wrong.append("the agent is not that of one thread")
    return wrong


# -- mixed rounds ----------------------------------------------------------------------------------------------------


def mixed_rounds(name: str, d: idb.Diagram, rounds: int, seconds: float | None, tolerance: float | None) -> list[str]:
    """Return inconsistencies if all threads act and learn different rounds."""
    agent = agent_of(name, d, seed=1)
    case, d = INFERENCES[name], agent.diagram
    pool = play(d, np.random.default_rng(3), 400)
    learned: list[list[Played]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        for k in Until(rounds, seconds):
            action = agent.act()
            assert all(len({action[name] for name in group}) == len(group) for group in d.different)
            played = pool[rng.integers(len(pool))]
            agent.update(played.action, played.observation)
            learned[number].append(played)
            if k % 5 == 0:
                two = [pool[i] for i in rng.integers(len(pool), size=2)]
                columns = [
                    {n.name: [getattr(p, what)[n.name] for p in two] for n in d.of_kind(kind)} for what, kind in COLUMNS
                ]
                agent.update_many(*columns)
                learned[number] += two
            if k % 7 == 0 and case.revisable:  # a round of this thread, which was learned
                old, new = learned[number].pop(), pool[rng.integers(len(pool))]
                agent.revise(old.action, old.observation, None)
                agent.update(new.action, new.observation)
                learned[number].append(new)
            if k % 9 == 0:
                agent.sample()
                agent.posterior()
                agent.copy(seed=0).act()

    wrong = in_threads(work)
    acknowledged = [played for own in learned for played in own]
    if agent.rounds != len(acknowledged):
        wrong.append(f"{len(acknowledged)} rounds acknowledged, {agent.rounds} counted")
    alone = learn(agent_of(name, d, seed=1), acknowledged)
    if groups(agent) != groups(alone):
        wrong.append("the groups are not those of one thread")
    nothing: list[dict[str, list[Any]]] = [{n.name: [] for n in d.of_kind(kind)} for _, kind in COLUMNS]
    for one in (agent, alone) * 5:
        one.update_many(*nothing)  # updates beliefs, closer to their fixed point each time
    beliefs = agent.posterior(), alone.posterior()
    for table in beliefs[0]:
        alpha, wanted = beliefs[0][table].alpha, beliefs[1][table].alpha
        if not (np.isfinite(alpha) & (alpha > 0)).all():
            wrong.append(f"pseudo-counts of {table!r} are broken")
        elif tolerance is not None and not np.allclose(alpha, wanted, rtol=tolerance, atol=0):
            wrong.append(
                f"the belief of {table!r} is not that of one thread: off by {np.abs(alpha / wanted - 1).max():.2g}"
            )
    return wrong


COLUMNS: Any = (("action", "decision"), ("observation", "observed"))


def attack(name: str, rounds: int, seconds: float | None) -> list[str]:
    """Run all checks for an inference."""
    wide, conjugate = idb.models.position_based(40, 2), idb.models.cascade(8, 3)  # the first diagram has many groups
    with tempfile.TemporaryDirectory() as folder:
        wrong = same_round(name, rounds, seconds, Path(folder))
    wrong += mixed_rounds(name, wide, rounds // 4, seconds, FIXED_POINT.get(name))
    return wrong + mixed_rounds(name, conjugate, rounds // 4, seconds, 1e-9 if name in CONJUGATE else None)


def in_a_fork(name: str, rounds: int, seconds: float | None) -> list[str]:
    """Run `attack` in a separate process and report its death or hang."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        faulthandler.dump_traceback_later(HANG, exit=True)
        sys.setswitchinterval(1e-5)
        try:
            text = "\n".join(attack(name, rounds, seconds))
        except BaseException:
            text = traceback.format_exc()
        os.write(writing, text.encode()[-4000:])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, errors="replace") as answer:
        text = answer.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    died = [] if status == 0 else [f"death by signal {-status}" if status < 0 else f"a hang of {HANG} s"]
    return [*text.splitlines(), *died]


def main(names: list[str], rounds: int, seconds: float | None) -> int:
    """Test every inference; return 0 if nothing was found."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    failed = False
    for name in names or NAMES:
        learn(
            agent := agent_of(name, idb.models.position_based(4, 2)), play(agent.diagram, np.random.default_rng(0), 1)
        )
        start = time.monotonic()
        wrong = in_a_fork(name, rounds, seconds)
        failed |= bool(wrong)
        print(f"{name}: {' '.join(wrong)[-1500:] or 'right'} ({time.monotonic() - start:.1f} s)", flush=True)
    return failed
