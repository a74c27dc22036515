"""Cascade of 3,000 restaurants: data of a published method, which is not part of this repository."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import idbandits as idb
from benchmarks.feature_worlds import FEATURED, Played, agents, mean_and_error, play
from benchmarks.report import Row, Topic
from idbandits import models

FILE = "yelp-cascade.npz"
POSITIONS, ROUNDS, RUNS = 5, 50_000, 6
MEAN, WORST, MICROSECONDS = 825, 2_500, 400  # targets


def _rows(data: Path, quick: bool) -> Iterator[Row]:
    if not (data / FILE).is_file():
        yield Row(["not measured", *["–"] * 5], [f"{FILE} not found; pass its folder as --data"])
        return
    with np.load(data / FILE) as file:
        features, attraction = file["features"][:, 1:], file["attraction"]  # drop the constant
    rounds, runs = (2_000, 2) if quick else (ROUNDS, RUNS)
    make = partial(models.cascade, len(attraction), POSITIONS)
    world = idb.World(make(), {"attraction": attraction})
    learners = agents(make, {"attraction": features})
    played = play([(world, learners)], rounds, runs)
    for name in learners:
        yield _row(name, played)


def _row(name: str, played: Played) -> Row:
    regrets, cost = played.regrets[name], played.seconds[name].sum() / played.rounds(name) * 1e6
    figures = ("mean regret", regrets.mean(), MEAN), ("worst regret", regrets.max(), WORST), ("µs", cost, MICROSECONDS)
    targets = figures if name == FEATURED else ()
    missed = [f"{what} {figure:,.0f}, target {target:,}" for what, figure, target in targets if figure > target]
    return Row(
        [
            name,
            mean_and_error(regrets),
            f"{regrets.max():,.0f}",
            f"{played.unlearned(name):.2f}",
            f"{cost:.0f}",
            "–" if not targets else "no" if missed else "yes",
        ],
        missed,
    )


def topic(data: Path) -> Topic:
    """Return the topic for data in a folder."""
    return Topic(
        "Yelp restaurants with features",
        f"3,000 restaurants of Yelp with 10 features each, attraction from 0.00 to 0.05; a cascade of {POSITIONS} "
        f"positions, {ROUNDS:,} rounds, {RUNS} runs, default inference. Data of Wan, Ge, Song (AISTATS 2023). Total "
        "regret of their methods, read off their plot: Thompson sampling without features about 6,500; a logistic "
        "model of features only about 2,400; their hierarchical method, with NUTS every 500 rounds, about 1,650. "
        "*Left*: regret in the last tenth of the rounds relative to the first. *µs*: per round. Targets with features: "
        f"mean {MEAN}, worst run {WORST:,}, {MICROSECONDS} µs.",
        ["learner", "regret", "worst", "left", "µs", "targets met"],
        partial(_rows, data),
    )
