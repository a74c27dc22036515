"""Progress of several tasks: bars on a terminal, otherwise a line from time to time."""

import sys
import threading
import time
from collections.abc import Mapping
from typing import Self, final

PAUSE = 15.0  # seconds between lines


@final
class Progress:
    """Progress of each task and of all together, named `title`."""

    def __init__(self, title: str, parts: Mapping[str, int], show: bool) -> None:
        from tqdm import tqdm

        self._title, self._totals = title, {title: sum(parts.values()), **parts}
        self._done, self._lock = dict.fromkeys(self._totals, 0), threading.Lock()
        terminal, width = sys.stderr is not None and sys.stderr.isatty(), max(map(len, self._totals))
        self._prints_lines = show and sys.stderr is not None and not terminal
        self._last_line = self._started = time.monotonic()
        self._bars = {
            name: tqdm(
                total=total, desc=name.ljust(width), unit=" rounds", unit_scale=True, position=position,
                smoothing=0.05, bar_format="{desc} {percentage:3.0f}% |{bar:30}| {n_fmt}/{total_fmt} {remaining}",
                disable=not show or not terminal,
            )
            for position, (name, total) in enumerate(self._totals.items())
        }  # fmt: skip

    def add(self, part: str, amount: int) -> None:
        """Add finished work to a task; any thread may call it."""
        with self._lock:
            for name in (part, self._title):
                self._done[name] += amount
                self._bars[name].update(amount)
            now, finished = time.monotonic(), self._done[part] == self._totals[part]
            if self._prints_lines and (finished or now - self._last_line > PAUSE):
                self._last_line = now
                shares = [f"{name} {100 * self._done[name] // max(n, 1)} %" for name, n in self._totals.items()]
                line = f"{now - self._started:5.0f} s: {shares[0]} ({', '.join(shares[1:])})"
                print(line, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for bar in self._bars.values():
            bar.close()
