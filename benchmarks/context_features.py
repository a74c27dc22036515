"""Time of `act` and `update` where a context has features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic, duration
from benchmarks.timing import timed

USER = [f"u{k}" for k in range(5)]
CASES = (  # items, features of items, positions, residuals
    (100, 10, 1, None),
    (1_000, 10, 1, None),
    (1_000, 10, 1, 1.0),
    (1_000, 10, 5, None),
    (10_000, 10, 1, None),
    (1_000, 40, 1, None),
)
WARM, ROUNDS = 50, 1_000


def _row(rounds: int, items: int, features: int, positions: int, residuals: float | None) -> Row:
    """Return the number of coefficients and median times per call."""
    rng, d = np.random.default_rng(0), idb.Diagram("context features")
    user = d.context("user", features=USER)
    item_features = rng.normal(size=(items, features))
    table = idb.Learned("click", features=[item_features, None], products=True, residuals=residuals)
    for k in range(positions):
        d.reward(d.observed(f"C{k}", [d.decision(f"A{k}", items), user], table))
    if positions > 1:
        d.all_different()
    agent, acting, learning = idb.Thompson(d, seed=0), list[float](), list[float]()
    for _ in range(WARM + rounds):
        context = {"user": dict(zip(USER, rng.normal(size=len(USER)).tolist(), strict=True))}
        observation = {f"C{k}": int(rng.random() < 0.3) for k in range(positions)}
        action, seconds = timed(agent.act, context)
        acting.append(seconds)
        learning.append(timed(agent.update, action, observation, context)[1])
    logistic = d.learned["click"].logistic
    assert logistic is not None
    name = f"{items:,}{', residuals' if residuals else ''}{f', {positions} positions' if positions > 1 else ''}"
    medians = (duration(float(np.median(times[WARM:]))) for times in (acting, learning))
    return Row([name, str(features), str(len(logistic.names)), *medians])


def _rows(quick: bool) -> Iterator[Row]:
    for case in CASES:
        yield _row(100 if quick else ROUNDS, *case)


TOPIC = Topic(
    "Contexts with features",
    f"{len(USER)} features of users, features of items, and all products of both; calls from Python, medians of "
    f"{ROUNDS:,} rounds.",
    ["items", "features of items", "coefficients", "act", "update"],
    _rows,
)
