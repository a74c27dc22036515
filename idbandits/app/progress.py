"""Progress of many kinds of work at once: bars on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self, final

from tqdm import tqdm

PAUSE = 15.0  # seconds between lines


@final
class Progress:
    """How much is done of each of several parts, and of the whole."""

    def __init__(self, whole: str, parts: Mapping[str, int], show: bool) -> None:
        self._whole, self._parts = whole, dict(parts)
        self._done = dict.fromkeys(parts, 0)
        self._lock = threading.Lock()
        self._bars: dict[str, tqdm] = {}
        self._lines = show and not sys.stderr.isatty()
        self._told = self._started = time.monotonic()
        if show and not self._lines:
            width = max(map(len, [whole, *parts]))
            for name, total in [(whole, sum(parts.values())), *parts.items()]:
                self._bars[name] = tqdm(
                    total=total, desc=name.ljust(width), unit=" rounds", unit_scale=True, position=len(self._bars),
                    smoothing=0.05, bar_format="{desc} {percentage:3.0f}% |{bar:30}| {n_fmt}/{total_fmt} {remaining}",
                )  # fmt: skip

    def tell(self, part: str, amount: int) -> None:
        """So much more of a part is done."""
        with self._lock:
            self._done[part] += amount
            for name in (part, self._whole):
                if name in self._bars:
                    self._bars[name].update(amount)
            if self._lines:
                now = time.monotonic()
                if self._done[part] == self._parts[part] or now - self._told > PAUSE:
                    self._told = now
                    done = ", ".join(
                        f"{name} {100 * self._done[name] // max(total, 1)} %" for name, total in self._parts.items()
                    )
                    whole = 100 * sum(self._done.values()) // max(sum(self._parts.values()), 1)
                    print(
                        f"{now - self._started:5.0f} s: {self._whole} {whole} % ({done})", file=sys.stderr, flush=True
                    )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for bar in self._bars.values():
            bar.close()
