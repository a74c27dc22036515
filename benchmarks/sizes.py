"""Time of agent calls with 100 to 100,000 items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic, duration
from benchmarks.searches import peaked, uniform
from benchmarks.timing import timed

POSITIONS = 5
SESSIONS = 100_000  # rounds of a log
BROWSING = 10  # positions of the user browsing model
LOG = 1_000_000  # rounds


def _rows(quick: bool) -> Iterator[Row]:
    yield from _posterior(1_000 if quick else 100_000, turns=1 if quick else 3)
    yield from _log(SESSIONS // 10 if quick else SESSIONS, turns=1 if quick else 3)
    yield _long_log(LOG // 10 if quick else LOG)
    yield from _eligible(20 if quick else 300)
    yield from _many_items(20 if quick else 300)
    yield from _user_browsing(5 if quick else 30)


def _lists(rng: np.random.Generator, items: int, positions: int, rounds: int) -> np.ndarray:
    """Return random lists without repetition, one per row; lists with repetition are drawn again."""
    lists = rng.integers(items, size=(rounds, positions))
    while (again := (np.diff(np.sort(lists, axis=1), axis=1) == 0).any(axis=1)).any():
        lists[again] = rng.integers(items, size=(int(again.sum()), positions))
    return lists


def _cascade_log(items: int, rounds: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return actions and clicks of a cascade with an attraction of 0.1."""
    rng = np.random.default_rng(0)
    lists, attracted = _lists(rng, items, POSITIONS, rounds), rng.random((rounds, POSITIONS)) < 0.1
    clicks = attracted & (np.cumsum(attracted, axis=1) == 1)
    return (
        {f"A{k + 1}": lists[:, k] for k in range(POSITIONS)},
        {f"C{k + 1}": clicks[:, k].astype(int) for k in range(POSITIONS)},
    )


def _compared(cases: dict[str, Callable[[], float]], turns: int, shown: Callable[[float], str] = duration) -> list[Row]:
    """Time all cases in turns; ratios are to the first case."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(turns):
        for name, measure in cases.items():
            times[name].append(measure())
    first = median(next(iter(times.values())))
    return [Row([name, shown(median(own)), f"{median(own) / first:.2f}×", "–"]) for name, own in times.items()]


def _seconds(call: Callable[[], object]) -> float:
    return timed(call)[1]


def _posterior(rounds: int, turns: int) -> Iterator[Row]:
    """`posterior()` of position-based models, small and large."""
    agents = {}
    for items, positions in ((20, 2), (1_000, 10)):
        rng = np.random.default_rng(0)
        lists = _lists(rng, items, positions, rounds)
        clicks = (rng.random((rounds, positions)) < 0.3).astype(int)
        agent = idb.Thompson(idb.models.position_based(items, positions), seed=0)
        agent.update_many(
            {f"A{k + 1}": lists[:, k] for k in range(positions)}, {f"C{k + 1}": clicks[:, k] for k in range(positions)}
        )
        agents[f"posterior, position-based, {items:,} × {positions}, after {rounds:,} rounds"] = agent
    yield from _compared({name: partial(_seconds, agent.posterior) for name, agent in agents.items()}, turns)


def _log(rounds: int, turns: int) -> Iterator[Row]:
    """`update_many` of a cascade, per session."""

    def session(items: int) -> Callable[[], float]:
        d, (actions, clicks) = idb.models.cascade(items, POSITIONS), _cascade_log(items, rounds)
        idb.Thompson(d, seed=0).update_many(actions, clicks)  # compiles and prepares
        return lambda: timed(idb.Thompson(d, seed=0).update_many, actions, clicks)[1] / rounds

    name = f"update_many, cascade × {POSITIONS}, per session of {rounds:,}"
    yield from _compared({f"{name}, {items:,} items": session(items) for items in (100, 100_000)}, turns)


def _long_log(rounds: int) -> Row:
    """`update_many` of the user browsing model, in which a latent or deterministic node joins all positions."""
    d, rng = idb.models.user_browsing(30, BROWSING), np.random.default_rng(1)
    lists, clicks = _lists(rng, 30, BROWSING, rounds), (rng.random((rounds, BROWSING)) < 0.2).astype(int)
    agent, numbers = idb.Thompson(d, seed=0), range(BROWSING)
    _, seconds = timed(
        agent.update_many, {f"A{k + 1}": lists[:, k] for k in numbers}, {f"C{k + 1}": clicks[:, k] for k in numbers}
    )
    return Row([f"update_many, user browsing, 30 × {BROWSING}, {rounds:,} rounds", duration(seconds), "–", "–"])


def _act(agent: idb.Thompson, allowed: Callable[[], Any], number: int) -> Callable[[], float]:
    """Return a function that measures the median time of `act`."""
    agent.act(allowed=allowed())
    return lambda: median(timed(agent.act, allowed=allowed())[1] for _ in range(number))


def _choice(rng: np.random.Generator, items: int, size: int) -> list[int]:
    chosen: list[int] = rng.permutation(items)[:size].tolist()
    return chosen


def _eligible(number: int) -> Iterator[Row]:
    """`act` with 10, 1,000 and all eligible of 10,000 items."""
    items, rng = 10_000, np.random.default_rng(0)
    agent = idb.Thompson(idb.models.cascade(items, POSITIONS), seed=0)
    agent.update_many(*_cascade_log(items, SESSIONS))
    cases: dict[str, Callable[[], Any]] = {"all": lambda: None}
    for size in (10, 1_000):
        cases[f"{size:,}"] = partial(_choice, rng, items, size)
    name = f"act, cascade, {items:,} items × {POSITIONS}"
    yield from _compared({f"{name}, {size} eligible": _act(agent, own, number) for size, own in cases.items()}, 3)


def _many_items(number: int) -> Iterator[Row]:
    """`act` with 100,000 items: new and after a log."""
    items = 100_000
    new, learned = (idb.Thompson(idb.models.cascade(items, POSITIONS), seed=0) for _ in range(2))
    learned.update_many(*_cascade_log(items, 10 * SESSIONS))
    cases = {"new": new, f"after {10 * SESSIONS:,} rounds": learned}
    name = f"act, cascade, {items:,} items × {POSITIONS}"
    yield from _compared({f"{name}, {state}": _act(a, lambda: None, number) for state, a in cases.items()}, 3)


def _user_browsing(number: int) -> Iterator[Row]:
    """`best_action` in the user browsing model, and how often it is proven to be the best."""
    for items in (20, 100, 300):
        d = idb.models.user_browsing(items, BROWSING)
        for draw in (uniform, peaked):
            rng = np.random.default_rng(0)
            idb.best_action(d, draw(d, rng))
            solved = [timed(idb.best_action, d, draw(d, rng)) for _ in range(number)]
            times = [seconds for _, seconds in solved]
            proven = sum(solution.exact for solution, _ in solved)
            name = f"best_action, user browsing, {items} × {BROWSING}, {draw.__name__} means"
            yield Row([name, duration(median(times)), f"slowest {duration(max(times))}", f"{proven} of {number}"])


TOPIC = Topic(
    "Time against number of items",
    "All calls from Python with the default inference; cases that belong together are timed in turns. *Ratio*: to the "
    "first row of the same call. Eligible items are drawn again for every request. Means of the user browsing model "
    "as in *Best action in click models*; *proven*: how many of the actions found are proven to be the best.",
    ["call", "time", "ratio", "proven"],
    _rows,
)
