"""Background work of a process: close rounds, learn steps, store snapshots.

One process of a service does this work and leaves its replicas on a shelf, from which the other processes take them.
The other processes learn steps themselves only if there are few steps, or if the shelf is not filled in time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import final

from idbandits.service.journal.journal import Journal
from idbandits.service.live.closing import Closer
from idbandits.service.live.replica import Replica
from idbandits.service.live.shelf import Shelf
from idbandits.service.live.versions import Version

TICK, BUSY = 0.1, 0.02  # seconds between queries of the journal: usually, and after closing rounds
SNAPSHOT_STEPS, SNAPSHOT_SECONDS = 50_000, 600.0  # a snapshot is due after either of them
MOST_CLOSED = 64  # rounds per transaction, for which other writers wait about 1 ms
FEW = 32  # steps that a process learns itself: as fast as taking a replica from the shelf
PATIENCE = 2.0  # seconds that processes wait for the process that fills the shelf
SHARE = 0.02  # largest share of time for filling the shelf, and thereby for taking from it


@final
class Follower:
    """Replicas of all experiments, which follow the journal or are taken from a shelf.

    With `fills`, the process follows the journal and fills the shelf.
    """

    def __init__(
        self, journal: Journal, versions: Callable[[str, int], Version], clock: Callable[[], float],
        shelf: Shelf | None = None, *, fills: bool = False,
    ) -> None:  # fmt: skip
        self.replicas, self.statuses, self.seeds = dict[str, Replica](), dict[str, str](), dict[str, int]()
        self.failure: Exception | None = None  # of the background thread; None: no failure
        self.learned = 0, 0.0  # number of steps, and seconds of computation
        self._journal, self._versions, self._clock = journal, versions, clock
        self._shelf, self._fills = shelf, fills
        self._closer = Closer(versions)
        self._saved: dict[str, float] = {}
        self._following = threading.Lock()  # held while replicas change
        self._caught_up = time.monotonic()  # time (`time.monotonic`) when all steps of the journal were learned
        self._next_filling = 0.0  # earliest time (`time.monotonic`) to fill the shelf again
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # -- learning ------------------------------------------------------------------------------------------------------

    def tick(self) -> int:
        """Close due rounds and learn new steps; return their number.

        A process that takes from a shelf returns the number of replicas that changed.
        """
        self._close_all()
        return self._learn_all()

    @property
    def _takes(self) -> bool:
        """True if this process takes replicas from a shelf that another process fills."""
        return self._shelf is not None and not self._fills

    def _close_all(self) -> int:
        """Close due rounds; return their number."""
        patience, number = PATIENCE if self._takes else 0.0, 0
        while closed := self._journal.close_due(
            self._clock() - patience, MOST_CLOSED, lambda due: self._closer(due, self._clock())
        ):
            number += closed
        self._journal.store.maintain()
        return number

    def _learn_all(self) -> int:
        """Follow the journal, or take replicas from the shelf; return the number of new steps or changed replicas."""
        number = self._take_all() if self._takes else self.follow_all()
        if self._fills:
            self._fill()
        return number

    def follow_all(self) -> int:
        """Learn all new steps of all experiments; return their number."""
        number = 0
        with self._following:
            began = time.perf_counter()
            for replica in self._all_replicas():
                number += self._follow(replica)
            self._caught_up = time.monotonic()
            if number:
                self.learned = self.learned[0] + number, self.learned[1] + time.perf_counter() - began
        return number

    def _all_replicas(self) -> list[Replica]:
        """Return the replicas of all experiments; the replica of a new experiment begins with a snapshot."""
        for name, (status, seed, _) in self._journal.experiments().items():
            self.statuses[name], self.seeds[name] = status, seed
            if name not in self.replicas:
                replica = Replica(self._journal, name, seed, self._versions)
                replica.load()
                self.replicas[name] = replica
        return list(self.replicas.values())

    def _follow(self, replica: Replica) -> int:
        """Learn new steps of an experiment; return their number."""
        number = replica.follow()
        if replica.view is not None:
            self._closer.prepare(replica.view.version)
        return number

    # -- sharing -------------------------------------------------------------------------------------------------------

    def _take_all(self) -> int:
        """Take replicas from the shelf; learn new steps here if they are few or the shelf is old.

        Return the number of replicas that changed.
        """
        assert self._shelf is not None
        number, caught_up = 0, time.monotonic()
        with self._following:
            for replica in self._all_replicas():
                before = replica.position
                entry = self._shelf.take(replica.experiment)
                if entry is not None and entry.position > before:
                    replica.adopt(entry)
                if behind := self._journal.behind(replica.experiment, replica.position):
                    if behind <= FEW or time.monotonic() - self._caught_up > PATIENCE:
                        self._follow(replica)
                    else:
                        caught_up = min(caught_up, self._caught_up if entry is None else entry.caught_up)
                number += replica.position > before
            self._caught_up = max(self._caught_up, caught_up)
        return number

    def _fill(self) -> None:
        """Put replicas on the shelf that have more new steps than other processes learn themselves."""
        assert self._shelf is not None
        began = time.monotonic()
        if began < self._next_filling:
            return
        for name, replica in self.replicas.items():
            if replica.unshared > FEW and replica.view is not None:
                self._shelf.put(name, replica.entry(self._caught_up))
        self._next_filling = time.monotonic() + (time.monotonic() - began) / SHARE

    # -- thread --------------------------------------------------------------------------------------------------------

    def start(self, tick: float) -> None:
        """Start the background thread."""
        self._thread = threading.Thread(target=self._run, args=(tick,), name="idbandits-live", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the background thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, tick: float) -> None:
        """Work until stopped; after a failure, continue after a second."""
        for name in self.replicas:
            self._saved[f"{name} at"] = time.monotonic()
        pause, next_learning = tick, 0.0
        while not self._stop.wait(pause):
            try:  # closes few rounds at a time, because other writers wait
                pause = min(BUSY, tick) if self._close_all() else tick
                if time.monotonic() >= next_learning:  # learns many steps at a time, because the agent is copied first
                    self._learn_all()
                    next_learning = time.monotonic() + tick
                self.save_snapshots(force=False)
                self.failure = None
            except Exception as error:
                self.failure = error
                self._stop.wait(1.0)

    # -- snapshots and questions ---------------------------------------------------------------------------------------

    def save_snapshots(self, *, force: bool = True) -> None:
        """Store snapshots of all experiments; without `force`, only where a snapshot is due."""
        if self._takes:
            return
        with self._following:
            for name, replica in self.replicas.items():
                learned = replica.statistics.rounds + replica.statistics.corrected
                grown = learned - self._saved.get(name, 0.0)
                old = time.monotonic() - self._saved.get(f"{name} at", 0.0) > SNAPSHOT_SECONDS and grown > 0
                if force or grown >= SNAPSHOT_STEPS or old:
                    replica.save()
                    self._saved[name], self._saved[f"{name} at"] = learned, time.monotonic()

    def lag(self, replica: Replica) -> float:
        """Return for how many seconds rounds to close or steps to learn have been waiting."""
        now, waiting = self._clock(), 0.0
        if self._journal.behind(replica.experiment, replica.position):
            waiting = time.monotonic() - self._caught_up
        first_due = self._journal.first_due(replica.experiment, now)
        return max(waiting, 0.0 if first_due is None else now - first_due)
