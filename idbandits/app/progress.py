"""Shows the progress of many kinds of work at once: as bars on a terminal, elsewhere as a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, final

if TYPE_CHECKING:
    from tqdm import tqdm

PAUSE = 15.0  # seconds between lines


@final
class Progress:
    """How much is done of each part, and of all of them together, whose name is `title`."""

    def __init__(self, title: str, parts: Mapping[str, int], show: bool) -> None:
        self._title, self._totals = title, dict(parts)
        self._done = dict.fromkeys(parts, 0)
        self._lock = threading.Lock()
        terminal = sys.stderr.isatty()
        self._bars = self._make_bars() if show and terminal else {}
        self._prints_lines = show and not terminal
        self._last_line = self._started = time.monotonic()

    def _make_bars(self) -> dict[str, tqdm]:
        from tqdm import tqdm

        totals = {self._title: sum(self._totals.values())} | self._totals
        width = max(map(len, totals))
        return {
            name: tqdm(
                total=total, desc=name.ljust(width), unit=" rounds", unit_scale=True, position=position,
                smoothing=0.05, bar_format="{desc} {percentage:3.0f}% |{bar:30}| {n_fmt}/{total_fmt} {remaining}",
            )
            for position, (name, total) in enumerate(totals.items())
        }  # fmt: skip

    def add(self, part: str, amount: int) -> None:
        """Count so much more of a part as done; any thread may call it."""
        with self._lock:
            self._done[part] += amount
            for name in (part, self._title):
                if name in self._bars:
                    self._bars[name].update(amount)
            now = time.monotonic()
            finished = self._done[part] == self._totals[part]
            if self._prints_lines and (finished or now - self._last_line > PAUSE):
                self._last_line = now
                print(self._line(now - self._started), file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        parts = ", ".join(f"{name} {_percent(self._done[name], total)}" for name, total in self._totals.items())
        together = _percent(sum(self._done.values()), sum(self._totals.values()))
        return f"{seconds:5.0f} s: {self._title} {together} ({parts})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for bar in self._bars.values():
            bar.close()


def _percent(done: int, total: int) -> str:
    return f"{100 * done // max(total, 1)} %"
