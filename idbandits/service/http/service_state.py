"""State shared by the routes of a worker: experiments, tokens, pending writes, dead letters and threads."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar, final

from idbandits.errors import IdbanditsError
from idbandits.service.http.access_tokens import TokenCache
from idbandits.service.http.answers import RejectedError
from idbandits.service.http.letter_box import LetterBox
from idbandits.service.http.pending_writes import PendingWrites
from idbandits.service.live.live import Live
from idbandits.service.live.versions import Version

T = TypeVar("T")
THREADS, SLOW_THREADS = 4, 2
LOOK = 0.5  # seconds between checks for new experiments
MOST_SLOW = 8  # requests that wait for a slow thread


class Options(NamedTuple):
    """Options of the service."""

    require_tokens: bool = False
    cors: str | None = None  # origin of pages that may call the service
    write_timeout: float = 10.0  # seconds
    timeout: float = 30.0  # of other requests
    slow_timeout: float = 300.0  # of new experiments and probabilities


@final
class ServiceState:
    """State of a worker."""

    def __init__(self, live: Live, options: Options) -> None:
        self.live, self.options = live, options
        self.tokens = TokenCache(live.journal, required=options.require_tokens)
        self.letters = LetterBox(live.journal)
        self.warm = WarmExperiments(live)
        self.writes: PendingWrites
        self.closing = False
        self._pool = ThreadPoolExecutor(THREADS, "idbandits-http")
        self._slow, self._in_slow = ThreadPoolExecutor(SLOW_THREADS, "idbandits-slow"), 0
        self._tasks, self._warming = list[asyncio.Task[Any]](), dict[str, asyncio.Future[None]]()

    async def start(self) -> None:
        """Start background work in the running event loop."""
        self.writes = PendingWrites(self.live, asyncio.get_running_loop(), self.options.write_timeout)
        self._tasks = [asyncio.create_task(work) for work in (self.writes.sweep(), self.letters.run(), self.warm_up())]

    async def warm_up(self) -> None:
        """Compile the kernels of all experiments, including those that other workers create, until cancelled."""
        while True:
            with contextlib.suppress(IdbanditsError):
                if not self.warm.ready:
                    await asyncio.get_running_loop().run_in_executor(self._slow, self.warm.warm_all)
                for name in self.live.known():
                    if not self.warm.has(name):
                        await self.warmed(name)
            await asyncio.sleep(LOOK)

    async def warmed(self, name: str) -> None:
        """Wait until the kernels of an experiment are compiled; concurrent callers share one compilation."""
        if self.live.present(name) is None:
            await self.in_thread(self.live.replica, name)  # another worker may have created it
        compilation = self._warming.get(name)
        if compilation is None:
            compilation = asyncio.get_running_loop().run_in_executor(self._slow, self.warm.warm, name)
            self._warming[name] = compilation
            compilation.add_done_callback(lambda _: self._warming.pop(name, None))
        await self._within(self.options.slow_timeout, asyncio.shield(compilation))

    async def stop(self) -> None:
        """Stop background work; store dead letters and snapshots, and close the journal."""
        self.closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(IdbanditsError):  # the journal is not available: another start learns it again
            await asyncio.to_thread(self.letters.flush)
            await asyncio.to_thread(self.live.save_snapshots)
        await asyncio.to_thread(self.live.close)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._slow.shutdown(wait=False, cancel_futures=True)

    async def in_thread(self, work: Callable[..., T], *values: Any) -> T:
        """Call a function in a thread, because it may wait for the journal."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, *values)
        return await self._within(self.options.timeout, future)

    async def in_slow_thread(self, work: Callable[..., T], *values: Any) -> T:
        """Call a function that computes for a long time, in one of a few threads."""
        if self._in_slow >= MOST_SLOW:
            raise RejectedError("busy", f"{self._in_slow} long computations are waiting")
        self._in_slow += 1
        loop, future = asyncio.get_running_loop(), self._slow.submit(work, *values)

        def done(_: Any) -> None:  # after a timeout, when the thread has ended
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._slow_done)

        future.add_done_callback(done)
        return await self._within(self.options.slow_timeout, asyncio.wrap_future(future))

    def _slow_done(self) -> None:
        self._in_slow -= 1

    async def _within(self, seconds: float, future: asyncio.Future[T]) -> T:
        try:
            return await asyncio.wait_for(future, seconds)
        except TimeoutError:
            raise RejectedError("timeout", f"the answer took more than {seconds:g} s") from None


@final
class WarmExperiments:
    """Experiments whose kernels this process has compiled: their decisions do not wait for a compiler."""

    def __init__(self, live: Live) -> None:
        self._live, self._versions, self._lock = live, dict[str, Version](), threading.Lock()
        self.ready = False  # True after all experiments that existed at the start are compiled

    def has(self, name: str) -> bool:
        """Return whether the kernels of the current version of an experiment are compiled."""
        view = self._live.present(name)
        return view is not None and self._versions.get(name) is view.version

    def warm(self, name: str) -> None:
        """Compile the kernels of an experiment; raise if it does not exist."""
        view = self._live.view(name)
        if self._versions.get(name) is not view.version:
            with self._lock:
                view.agent.warm_up()
                self._versions[name] = view.version
                gc.collect()
                gc.freeze()  # later collections do not visit modules and kernels, which takes 80 ms

    def warm_all(self) -> None:
        """Compile the kernels of all experiments."""
        for name in self._live.experiments():
            self.warm(name)
        self.ready = True
