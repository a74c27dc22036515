"""Features of items whose clicks do not tell attraction from examination: what they gain, and whether runs lock in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import idbandits as idb
from benchmarks.feature_worlds import FEATURED, PLAIN, SIGNALS, Played, agents, items, mean_and_error, play
from benchmarks.report import Row, Topic
from idbandits import models

ITEMS, POSITIONS = 500, 5
EXAMINATION = 0.95, 0.8, 0.65, 0.5, 0.35
ROUNDS, WORLDS, RUNS = 20_000, 10, 3  # runs in each world
LOCKED, BAR = 2.0, 0.5  # times the mean regret of plain: of a run that locked in; at most, with an anchor
ANCHORS = {"first examination known": {"examination": {0: EXAMINATION[0]}}, "nothing known": None}


def world_of(anchor: str, seed: int) -> tuple[idb.World, dict[str, idb.Thompson]]:
    """A world with its agents; the same one with an anchor and without."""
    own = items(ITEMS, SIGNALS["high"], np.random.default_rng(seed))
    make = partial(models.position_based, ITEMS, POSITIONS, fixed=ANCHORS[anchor])
    world = idb.World(make(), {"attraction": own.attraction, "examination": np.array(EXAMINATION)})
    learners = agents(make, {"attraction": own.features})
    return world, {name: learners[name] for name in (PLAIN, FEATURED)}


def _rows(quick: bool) -> Iterator[Row]:
    rounds, worlds, runs = (5_000, 2, 1) if quick else (ROUNDS, WORLDS, RUNS)
    for anchor in ANCHORS:
        played = play([world_of(anchor, seed) for seed in range(worlds)], rounds, runs)
        for name in (PLAIN, FEATURED):
            yield _row(anchor, name, played)


def _row(anchor: str, name: str, played: Played) -> Row:
    regrets, limit = played.regrets[name], LOCKED * played.regrets[PLAIN].mean()
    locked, (ratio, error) = int((regrets > limit).sum()), played.ratio(name)
    missed = []
    if name == FEATURED and locked:
        missed.append(f"{locked} runs locked in, the worst with regret {regrets.max():,.0f}, bar {limit:,.0f}")
    if name == FEATURED and ANCHORS[anchor] and ratio > BAR:
        missed.append(f"{ratio:.2f} of the regret of plain, bar {BAR:g}")
    return Row(
        [
            anchor, name, mean_and_error(regrets), f"{regrets.max():,.0f}", f"{locked} of {len(regrets)}",
            f"{ratio:.2f} ± {error:.2f}", f"{played.seconds[name].sum() / played.rounds(name) * 1e6:.0f}",
            "–" if name == PLAIN else "no" if missed else "yes",
        ],
        missed,
    )  # fmt: skip


TOPIC = Topic(
    "Items with features, where examination is latent",
    f"The position-based model, {ITEMS} items × {POSITIONS} positions; attraction as above at high signal, with 10 "
    f"features; {WORLDS} worlds × {RUNS} runs of {ROUNDS:,} rounds, the default inference. With the first examination "
    "known attraction has an anchor; without, it is known only up to a factor. *Locked in*: runs whose regret is above "
    f"{LOCKED:g} times the mean of plain. *Bars*: with the anchor at most {BAR:g} of the regret of plain; no run with "
    "features is locked in, with the anchor or without.",
    ["anchor", "learner", "regret", "worst", "locked in", "to plain", "µs", "met"],
    _rows,
)
