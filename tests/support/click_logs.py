"""Simulated click logs, sampled by NumPy alone: one function per model, an oracle independent of diagrams.

Each returns clicks (sessions × positions) for lists of items; below the end of a shorter list items and clicks are -1.
"""

from __future__ import annotations

import numpy as np

from idbandits import World
from idbandits.logs.rounds import Rounds


def lists(rng, sessions, items, positions):
    """Return random lists without repeats."""
    return np.argsort(rng.random((sessions, items)), axis=1)[:, :positions]


def means(rng, items, positions):
    """Return random parameters of all models."""
    return {
        "attraction": rng.uniform(0.1, 0.7, items),
        "examination": np.linspace(0.95, 0.3, positions) * rng.uniform(0.9, 1.0, positions),
        "browsing": {(k, j): rng.uniform(0.3, 0.95) for k in range(positions) for j in range(k + 1)},
        "leaves": rng.uniform(0.2, 0.7, positions),
        "satisfaction": rng.uniform(0.1, 0.9, items),
        "continuation": rng.uniform(0.7, 0.95),
        "chain": np.array([rng.uniform(0.7, 0.95), rng.uniform(0.6, 0.9), rng.uniform(0.1, 0.4)]),
    }


def position_based(rng, shown, p):
    examined = rng.random(shown.shape) < p["examination"][: shown.shape[1]]
    return (examined & (rng.random(shown.shape) < p["attraction"][shown])).astype(np.int64)


def user_browsing(rng, shown, p):
    last, clicks = np.zeros(len(shown), np.int64), np.zeros(shown.shape, np.int64)
    for k in range(shown.shape[1]):
        rows = np.array([p["browsing"][k, j] for j in range(k + 1)])
        clicks[:, k] = (rng.random(len(shown)) < rows[last]) & (rng.random(len(shown)) < p["attraction"][shown[:, k]])
        last = np.where(clicks[:, k] == 1, k + 1, last)
    return clicks


def _chain(rng, shown, p, goes_on):
    examined, clicks = np.ones(len(shown), bool), np.zeros(shown.shape, np.int64)
    for k in range(shown.shape[1]):
        clicks[:, k] = examined & (rng.random(len(shown)) < p["attraction"][shown[:, k]])
        examined = examined & (rng.random(len(shown)) < goes_on(k, shown[:, k], clicks[:, k]))
    return clicks


def cascade(rng, shown, p):
    return _chain(rng, shown, p, lambda k, item, click: 1.0 - click)


def dependent_click(rng, shown, p):
    return _chain(rng, shown, p, lambda k, item, click: np.where(click, 1 - p["leaves"][k], 1.0))


def dynamic_bayesian(rng, shown, p):
    return _chain(
        rng, shown, p, lambda k, item, click: p["continuation"] * np.where(click, 1 - p["satisfaction"][item], 1.0)
    )


def click_chain(rng, shown, p):
    def goes_on(k, item, click):
        a, (nothing, irrelevant, relevant) = p["attraction"][item], p["chain"]
        return np.where(click, a * relevant + (1 - a) * irrelevant, nothing)

    return _chain(rng, shown, p, goes_on)


SAMPLERS = {
    "cascade": cascade, "position_based": position_based, "user_browsing": user_browsing,
    "dependent_click": dependent_click, "dynamic_bayesian": dynamic_bayesian, "click_chain": click_chain,
}  # fmt: skip


def rounds_of(shown, clicks, **columns):
    """Return encoded rounds of a log, one session each unless `sessions` are given."""
    number = len(shown)
    return Rounds(
        np.ascontiguousarray(shown), np.ascontiguousarray(clicks), np.arange(number),
        **{"sessions": np.arange(number), **columns},
    )  # fmt: skip


def log_of(model, sessions, items, positions, seed, shorter=0.0):
    """Return a simulated log of a model, of which a share of lists is cut off at a random position."""
    rng = np.random.default_rng(seed)
    p, shown = means(rng, items, positions), lists(rng, sessions, items, positions)
    clicks = SAMPLERS[model](rng, shown, p)
    ends = np.where(rng.random(sessions) < shorter, rng.integers(1, positions + 1, sessions), positions)
    cut = np.arange(positions) >= ends[:, None]
    return rounds_of(np.where(cut, -1, shown), np.where(cut, -1, clicks)), p


def clicked(d, rounds, seed):
    """Return a frame of labelled rounds of any diagram without features, drawn from random means and actions."""
    import pandas as pd

    rng, means = np.random.default_rng(seed), {}
    for table in d.learned.values():
        means[table.name] = rng.uniform(0.1, 0.9, table.shape)
    world, rows = World(d, means, seed=seed), []
    nodes = [*d.of_kind("decision")]
    for _ in range(rounds):
        action = dict(zip((node.name for node in nodes), _distinct(rng, nodes), strict=True))
        rows.append(action | world.step(action).observation)
    return pd.DataFrame(rows)


def _distinct(rng, nodes):
    """Return different labels for decisions."""
    chosen = []
    for node in nodes:
        free = [label for label in node.values if label not in chosen]
        chosen.append(free[rng.integers(len(free))])
    return chosen
