"""Time of requests with eligible items: `act`, `best_action` and `propensity`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic, duration
from benchmarks.searches import Draw, peaked, uniform
from benchmarks.timing import timed

ITEMS, POSITIONS, ELIGIBLE = 1_000, 10, 50
TARGET = 60e-6  # seconds
LEARNED = 2_000  # rounds before agents are timed
DRAWS = 1_000


def models() -> dict[str, Callable[[int, int], idb.Diagram]]:
    """Return the models by name."""
    models = idb.models
    return {
        "cascade": models.cascade,
        "position-based": models.position_based,
        "dependent click": models.dependent_click,
    }


def _rows(quick: bool) -> Iterator[Row]:
    number = 50 if quick else 500
    for name, make in models().items():
        d = make(ITEMS, POSITIONS)
        for draw in (uniform, peaked):
            for size in (ELIGIBLE, None):
                yield _best(f"{name}, {draw.__name__} means", d, draw, size, number)
        agent = _learned(d)
        for size in (ELIGIBLE, None):
            yield _act(name, agent, size, number)
    yield _probabilities(quick)


def _best(name: str, d: idb.Diagram, draw: Draw, size: int | None, number: int) -> Row:
    rng, times, proven = np.random.default_rng(0), [], 0
    for turn in range(number + 1):  # the first one may compile and is not timed
        means, allowed = draw(d, rng), _eligible(rng, size)
        solution, seconds = timed(idb.best_action, d, means, allowed=allowed)
        if turn:
            times.append(seconds)
            proven += solution.exact
    missed = []
    if size is not None and median(times) > TARGET:
        missed.append(f"{name}: {duration(median(times))}, target {duration(TARGET)}")
    if size is not None and proven < number:
        missed.append(f"{name}: {proven} of {number} proven")
    return _row(f"{name}, best action", size, times, f"{proven} of {number}", missed)


def _act(name: str, agent: idb.Thompson, size: int | None, number: int) -> Row:
    rng = np.random.default_rng(0)
    times = [timed(agent.act, allowed=_eligible(rng, size))[1] for _ in range(number + 1)][1:]
    return _row(f"{name}, after {LEARNED:,} rounds, act", size, times, "", [])


def _learned(d: idb.Diagram) -> idb.Thompson:
    """Return an agent after rounds of random lists with random clicks."""
    agent, rng = idb.Thompson(d, "moments", seed=0), np.random.default_rng(0)
    clicks = d.of_kind("observed")
    for _ in range(LEARNED):
        shown = {f"A{k}": int(item) for k, item in enumerate(rng.permutation(ITEMS)[:POSITIONS], 1)}
        clicked = int(rng.integers(2 * POSITIONS))
        agent.update(shown, {node.name: int(k == clicked) for k, node in enumerate(clicks)})
    return agent


def _probabilities(quick: bool) -> Row:
    agent = idb.Thompson(idb.models.position_based(50, 5), seed=0)
    action: dict[str, Any] = {f"A{k}": k for k in range(1, 6)}
    agent.propensity(action, draws=1)
    times = [timed(agent.propensity, action, draws=DRAWS)[1] for _ in range(3 if quick else 30)]
    return _row(f"position-based, 50 × 5, propensity by {DRAWS:,} draws", None, times, "", [])


def _eligible(rng: np.random.Generator, size: int | None) -> list[int] | None:
    return None if size is None else rng.permutation(ITEMS)[:size].tolist()


def _row(name: str, size: int | None, times: list[float], proven: str, missed: list[str]) -> Row:
    shown = "all" if size is None else str(size)
    return Row([name, shown, proven, duration(median(times)), duration(max(times))], missed)


TOPIC = Topic(
    "Eligible items",
    f"{ITEMS:,} items × {POSITIONS} positions unless stated otherwise; {ELIGIBLE} items, drawn again for every "
    "request, or all items are eligible. Calls from Python. Means as in *Best action in click models*. Target with "
    f"{ELIGIBLE} eligible items: proven, with a median of {duration(TARGET)}.",
    ["call", "eligible", "proven", "median", "slowest"],
    _rows,
)
