"""Writes of one event loop that wait for the journal: whole transactions are answered at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, final

from idbandits.service.http.answers import RejectedError
from idbandits.service.journal.journal import NewDecision, Write
from idbandits.service.live.live import Live

SWEEP = 0.5  # seconds between looks for writes that wait too long
MOST_WAITING = 20_000


@final
class PendingWrites:
    """Futures of an event loop by write."""

    def __init__(self, live: Live, loop: asyncio.AbstractEventLoop, timeout: float) -> None:
        self._live, self._loop, self._timeout = live, loop, timeout
        self._futures = deque[tuple[float, asyncio.Future[Any]]]()
        self._answered = self._from_committer  # one object, so that a transaction calls it once
        self.waiting = 0
        self.batches: list[int] = []  # sizes of transactions since the latest look at the metrics

    async def written(self, write: Write) -> Any:
        """Return the answer to a write when it is durable; raise errors, and when it takes too long."""
        if self.waiting >= MOST_WAITING:
            self._forget(write)
            raise RejectedError("busy", f"{self.waiting:,} writes wait for the journal")
        future = self._loop.create_future()
        try:
            self._live.submit(write, self._answered, (future, write))
        except BaseException:
            self._forget(write)
            raise
        self.waiting += 1
        self._futures.append((self._loop.time() + self._timeout, future))
        return await future

    def _forget(self, write: Write) -> None:
        if isinstance(write, NewDecision):
            self._live.forget_in_flight(write)

    def _from_committer(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Pass the answers of a transaction to the event loop; called in another thread."""
        for (_, write), _ in pairs:
            self._forget(write)
        try:
            self._loop.call_soon_threadsafe(self._resolve, pairs)
        except RuntimeError:  # the loop has ended
            return

    def _resolve(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        self.waiting -= len(pairs)
        self.batches.append(len(pairs))
        for (future, _), answer in pairs:
            if not future.done():
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        futures = self._futures
        while futures and futures[0][1].done():
            futures.popleft()

    async def sweep(self) -> None:
        """End waits that take too long, until cancelled; their writes may still be carried out."""
        while True:
            await asyncio.sleep(SWEEP)
            now, futures = self._loop.time(), self._futures
            while futures and (futures[0][0] < now or futures[0][1].done()):
                _, future = futures.popleft()
                if not future.done():
                    future.set_exception(
                        RejectedError("timeout", f"the journal did not answer within {self._timeout:g} s")
                    )
