"""Writes of an event loop that wait for the journal; those of one iteration share a transaction."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any, final

from idbandits.errors import IdbanditsError
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
        self._next = Group()
        self.waiting = 0
        self.batches: list[int] = []  # sizes of transactions since the latest look at the metrics

    async def written(self, write: Write) -> Any:
        """Return the answer to a write after it is durable; raise its error, or an error after the timeout."""
        if self.waiting >= MOST_WAITING:
            self._forget(write)
            raise RejectedError("busy", f"{self.waiting:,} writes wait for the journal")
        future = self._loop.create_future()
        if not self._next.writes:
            self._loop.call_soon(self._hand_over)
        self._next.writes.append(write)
        self._next.futures.append(future)
        self.waiting += 1
        self._futures.append((self._loop.time() + self._timeout, future))
        return await future

    def _forget(self, write: Write) -> None:
        if isinstance(write, NewDecision):
            self._live.forget_in_flight(write)

    def _hand_over(self) -> None:
        """Pass the writes of this iteration to the journal, which answers in its own thread."""
        group, self._next = self._next, Group()

        def answered(answers: Sequence[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._resolve, group, answers)

        try:
            self._live.submit(group.writes, answered)
        except IdbanditsError as error:
            self._resolve(group, [error] * len(group.writes))

    def _resolve(self, group: Group, answers: Sequence[Any]) -> None:
        """Resolve the futures of a group."""
        self.waiting -= len(group.writes)
        self.batches.append(len(group.writes))
        for write, future, answer in zip(group.writes, group.futures, answers, strict=True):
            self._forget(write)
            if not future.done():
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        futures = self._futures
        while futures and futures[0][1].done():
            futures.popleft()

    async def sweep(self) -> None:
        """Fail futures that wait too long, until cancelled; their writes may still be carried out."""
        while True:
            await asyncio.sleep(SWEEP)
            now, futures = self._loop.time(), self._futures
            while futures and (futures[0][0] < now or futures[0][1].done()):
                _, future = futures.popleft()
                if not future.done():
                    future.set_exception(
                        RejectedError("timeout", f"the journal did not answer within {self._timeout:g} s")
                    )


@final
class Group:
    """Writes of one iteration of the loop, and their futures."""

    def __init__(self) -> None:
        self.writes, self.futures = list[Write](), list[asyncio.Future[Any]]()
