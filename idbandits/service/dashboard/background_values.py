"""Values that take long: computed in threads, and shown as they were last until new ones are there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, final

PAUSE = 10.0  # a value is computed again after this many times the time that it took
LEAST_PAUSE = 1.0  # seconds
MOST = 500  # values


class _Value(NamedTuple):
    token: Any
    value: Any
    at: float
    seconds: float


@final
class BackgroundValues:
    """Values by key, each valid for a token; an old value is returned while a new one is computed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="idbandits-dashboard")
        self._values, self._running = dict[Hashable, _Value](), dict[Hashable, Future[None]]()
        self._lock = threading.Lock()

    def get(self, key: Hashable, token: Any, compute: Callable[[], Any], until: float) -> Any:
        """Return the value for a token: a new one if it comes until a monotonic time, else an old one, else None."""
        with self._lock:
            known = self._values.get(key)
            if known is not None:
                rests = time.monotonic() - known.at < max(LEAST_PAUSE, PAUSE * known.seconds)
                if known.token == token or rests:
                    return known.value
            running = self._running.get(key)
            if running is None:
                running = self._running[key] = self._pool.submit(self._compute, key, token, compute)
        wait([running], max(0.0, until - time.monotonic()))
        if running.done():
            running.result()  # raises what failed
        known = self._values.get(key)
        return None if known is None else known.value

    def _compute(self, key: Hashable, token: Any, compute: Callable[[], Any]) -> None:
        start = time.monotonic()
        try:
            value = compute()
            with self._lock:
                now = time.monotonic()
                self._values.pop(key, None)  # the latest are last
                self._values[key] = _Value(token, value, now, now - start)
                while len(self._values) > MOST:
                    self._values.pop(next(iter(self._values)))
        finally:
            with self._lock:
                self._running.pop(key, None)
