"""Features of items in the position-based model, in which only products of tables are observed."""

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
ROUNDS, WORLDS, RUNS = 20_000, 10, 2  # RUNS in each world
LOCKED, TARGET = 2.0, 0.5  # ratios to the mean regret of plain
ANCHORS = {"first examination known": {"examination": {0: EXAMINATION[0]}}, "nothing known": None}


def world_of(anchor: str, seed: int) -> tuple[idb.World, dict[str, idb.Thompson]]:
    """Return a world, equal with and without anchor, and its agents."""
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
        missed.append(f"{locked} runs locked in, the worst with regret {regrets.max():,.0f}, target {limit:,.0f}")
    if name == FEATURED and ANCHORS[anchor] and ratio > TARGET:
        missed.append(f"{ratio:.2f} of the regret of plain, target {TARGET:g}")
    return Row(
        [
            anchor, name, mean_and_error(regrets), f"{regrets.max():,.0f}", f"{locked} of {len(regrets)}",
            f"{ratio:.2f} ± {error:.2f}", f"{played.seconds[name].sum() / played.rounds(name) * 1e6:.0f}",
            "–" if name == PLAIN else "no" if missed else "yes",
        ],
        missed,
    )  # fmt: skip


TOPIC = Topic(
    "Features of items with latent examination",
    f"Position-based model, {ITEMS} items × {POSITIONS} positions; attraction as above at high signal with 10 "
    f"features; {WORLDS} worlds × {RUNS} runs of {ROUNDS:,} rounds, default inference. The known first examination is "
    "an anchor; without it, attraction is known only up to a factor. *Locked in*: runs with a regret above "
    f"{LOCKED:g} times the mean of plain. Targets: a ratio of {TARGET:g} with the anchor; no run with features locked "
    "in.",
    ["anchor", "learner", "regret", "worst", "locked in", "to plain", "µs", "target met"],
    _rows,
)
