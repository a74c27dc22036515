"""Background work of a process: rounds are closed, steps are learned, snapshots are stored.

Of the processes of one service, one does this work and leaves what it learned on a shelf; the others take it from there
and do the work themselves only if little is to be done, or if the one that should do it does not.
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

TICK, BUSY = 0.1, 0.02  # seconds between looks at the journal; after one that closed rounds
SNAPSHOT_STEPS, SNAPSHOT_SECONDS = 50_000, 600.0  # between snapshots
MOST_CLOSED = 64  # rounds of one transaction, which others wait for about 1 ms
FEW = 32  # steps that a process learns itself, as quickly as it could take them from a shelf
PATIENCE = 2.0  # seconds that processes wait for the one that should work
SHARE = 0.02  # of its time that a process may spend to fill the shelf, and others to take from it


@final
class Follower:
    """Replicas of all experiments, which follow the journal; with a shelf, those of a process that takes from it."""

    def __init__(
        self, journal: Journal, versions: Callable[[str, int], Version], clock: Callable[[], float],
        shelf: Shelf | None = None, *, fills: bool = False,
    ) -> None:  # fmt: skip
        self.replicas, self.statuses, self.seeds = dict[str, Replica](), dict[str, str](), dict[str, int]()
        self.failure: Exception | None = None  # of the background thread; None: it works
        self.learned = 0, 0.0  # steps, and seconds that they took
        self._journal, self._versions, self._clock = journal, versions, clock
        self._shelf, self._fills = shelf, fills
        self._closer = Closer(versions)
        self._saved: dict[str, float] = {}
        self._following = threading.Lock()  # of whoever learns
        self._caught_up = time.monotonic()  # when all steps of the journal were learned
        self._next_filling = 0.0  # earliest time (`time.monotonic`) to fill the shelf again
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # -- learning ------------------------------------------------------------------------------------------------------

    def tick(self) -> int:
        """Close rounds that are due and learn what was closed; return how many steps were new to this process."""
        self._close_all()
        return self._learn_all()

    @property
    def _takes(self) -> bool:
        """Return whether another process does the work."""
        return self._shelf is not None and not self._fills

    def _close_all(self) -> int:
        """Close rounds that are due; return how many there were."""
        patience, number = PATIENCE if self._takes else 0.0, 0
        while closed := self._journal.close_due(
            self._clock() - patience, MOST_CLOSED, lambda due: self._closer(due, self._clock())
        ):
            number += closed
        self._journal.store.maintain()
        return number

    def _learn_all(self) -> int:
        """Learn or take what was closed; return how many steps were new to this process."""
        number = self._take_all() if self._takes else self.follow_all()
        if self._fills:
            self._fill()
        return number

    def follow_all(self) -> int:
        """Learn all steps of the journal, in all experiments; return how many there were."""
        number = 0
        with self._following:
            began = time.perf_counter()
            for replica in self._known():
                number += self._followed(replica)
            self._caught_up = time.monotonic()
            if number:
                self.learned = self.learned[0] + number, self.learned[1] + time.perf_counter() - began
        return number

    def _known(self) -> list[Replica]:
        """Return the replicas of all experiments; those of new ones begin with a snapshot."""
        for name, (status, seed, _) in self._journal.experiments().items():
            self.statuses[name], self.seeds[name] = status, seed
            if name not in self.replicas:
                replica = Replica(self._journal, name, seed, self._versions)
                replica.load()
                self.replicas[name] = replica
        return list(self.replicas.values())

    def _followed(self, replica: Replica) -> int:
        number = replica.follow()
        if replica.view is not None:
            self._closer.prepare(replica.view.version)
        return number

    # -- sharing -------------------------------------------------------------------------------------------------------

    def _take_all(self) -> int:
        """Take replicas from the shelf; learn steps here if they are few, or if the shelf is old."""
        assert self._shelf is not None
        number, caught_up = 0, time.monotonic()
        with self._following:
            for replica in self._known():
                before = replica.position
                entry = self._shelf.take(replica.experiment)
                if entry is not None and entry.position > before:
                    replica.adopt(entry)
                if behind := self._journal.behind(replica.experiment, replica.position):
                    if behind <= FEW or time.monotonic() - self._caught_up > PATIENCE:
                        self._followed(replica)
                    else:
                        caught_up = min(caught_up, self._caught_up if entry is None else entry.caught_up)
                number += replica.position > before
            self._caught_up = max(self._caught_up, caught_up)
        return number

    def _fill(self) -> None:
        """Leave replicas on the shelf that have learned more than others learn themselves."""
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
        """Begin to work in a thread of its own, until `stop`."""
        self._thread = threading.Thread(target=self._run, args=(tick,), name="idbandits-live", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, tick: float) -> None:
        """Work until stopped; what fails is tried again."""
        for name in self.replicas:
            self._saved[f"{name} at"] = time.monotonic()
        pause, next_learning = tick, 0.0
        while not self._stop.wait(pause):
            try:  # rounds are closed a few at a time, as others wait meanwhile
                pause = min(BUSY, tick) if self._close_all() else tick
                if time.monotonic() >= next_learning:  # more at a time, as the agent is copied before
                    self._learn_all()
                    next_learning = time.monotonic() + tick
                self.save_snapshots(force=False)
                self.failure = None
            except Exception as error:
                self.failure = error
                self._stop.wait(1.0)

    # -- snapshots and questions ---------------------------------------------------------------------------------------

    def save_snapshots(self, *, force: bool = True) -> None:
        """Store snapshots of all experiments; without `force`, of those that learned much since the latest one."""
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
        """Return for how many seconds something is due that this process has not learned: rounds to close, or steps."""
        now, waits = self._clock(), 0.0
        if self._journal.behind(replica.experiment, replica.position):
            waits = time.monotonic() - self._caught_up
        first = self._journal.first_due(replica.experiment, now)
        return max(waits, 0.0 if first is None else now - first)
