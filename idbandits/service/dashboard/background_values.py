"""Cache of slow values: computed in threads; the previous value is returned until the new one is ready."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, final

PAUSE = 10.0  # between computations of a value, as a multiple of the time that the last one took
LEAST_PAUSE = 1.0  # seconds
MOST = 500  # values


class _Value(NamedTuple):
    token: Any
    value: Any
    at: float
    seconds: float


@final
class BackgroundValues:
    """Values by key, each valid for a token; the previous value is returned while a new one is computed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="idbandits-dashboard")
        self._values, self._running = dict[Hashable, _Value](), dict[Hashable, Future[None]]()
        self._lock = threading.Lock()

    def get(self, key: Hashable, token: Any, compute: Callable[[], Any], until: float) -> Any:
        """Return the value for a token if it is ready by a monotonic time, else the previous value or None."""
        with self._lock:
            latest = self._values.get(key)
            if latest is not None:
                pauses = time.monotonic() - latest.at < max(LEAST_PAUSE, PAUSE * latest.seconds)
                if latest.token == token or pauses:
                    return latest.value
            running = self._running.get(key)
            if running is None:
                running = self._running[key] = self._pool.submit(self._compute, key, token, compute)
        wait([running], max(0.0, until - time.monotonic()))
        if running.done():
            running.result()  # raises the error of the computation
        latest = self._values.get(key)
        return None if latest is None else latest.value

    def _compute(self, key: Hashable, token: Any, compute: Callable[[], Any]) -> None:
        start = time.monotonic()
        try:
            value = compute()
            with self._lock:
                now = time.monotonic()
                self._values.pop(key, None)  # dictionaries are in the order of insertion: the oldest value is first
                self._values[key] = _Value(token, value, now, now - start)
                while len(self._values) > MOST:
                    self._values.pop(next(iter(self._values)))
        finally:
            with self._lock:
                self._running.pop(key, None)
