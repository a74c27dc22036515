"""Features of items at three levels of signal: regret with features, with pooled rows, and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

import idbandits as idb
from benchmarks.feature_worlds import (
    FEATURED,
    FEATURES,
    PLAIN,
    POOLED,
    SIGNALS,
    Items,
    Make,
    Played,
    agents,
    items,
    logistic,
    mean_and_error,
    noise,
    play,
    weights_of,
)  # fmt: skip
from benchmarks.report import Row, Topic
from idbandits import models
from idbandits.kernel.array_types import Floats, Rng

ITEMS, POSITIONS = 1_000, 5
ROUNDS, WORLDS = 20_000, 3
FEW, USELESS = 200, 50  # items, and columns of noise
TARGETS = {"high": 1 / 3, "zero": 1.1}  # ratio to the regret of plain
SATISFACTION = 0.6, 0.5, 0.4, 0.4, 0.3  # by position, in the dependent click model


class Kind(NamedTuple):
    """Model, its tables with one row per item, and a function that returns all means."""

    model: Make
    tables: Sequence[str]
    means: Callable[[Items, float, Rng], Mapping[str, Floats]]


def _of_dynamic_bayesian(own: Items, signal: float, rng: Rng) -> Mapping[str, Floats]:
    """Return means in which satisfaction depends on the features as well, by separate weights."""
    logits = own.features @ weights_of(signal, own.features.shape[1], rng) + noise(len(own.features), signal, rng)
    return {"attraction": own.attraction, "satisfaction": logistic(logits), "continuation": np.array(0.8)}


KINDS = {
    "semi-bandit": Kind(models.semi_bandit, ["mean"], lambda own, signal, rng: {"mean": own.attraction}),
    "dependent click": Kind(
        models.dependent_click,
        ["attraction"],
        lambda own, signal, rng: {"attraction": own.attraction, "satisfaction": np.array(SATISFACTION)},
    ),
    "dynamic Bayesian": Kind(models.dynamic_bayesian, ["attraction", "satisfaction"], _of_dynamic_bayesian),
}


def world_of(
    kind: Kind, number: int, signal: float, columns: int, seed: int
) -> tuple[idb.World, dict[str, idb.Thompson]]:
    """Return a world and its agents."""
    rng = np.random.default_rng([seed, columns])
    own, make = items(number, signal, rng, columns), partial(kind.model, number, POSITIONS)
    world = idb.World(make(), kind.means(own, signal, rng))
    return world, agents(make, dict.fromkeys(kind.tables, own.features))


def _rows(quick: bool) -> Iterator[Row]:
    rounds, number = (4_000, 2) if quick else (ROUNDS, WORLDS)
    for name, kind in KINDS.items():
        for level, signal in SIGNALS.items():
            if name == "dynamic Bayesian" and level != "high":
                continue  # rounds of this model take longest
            worlds = [world_of(kind, ITEMS, signal, FEATURES, seed) for seed in range(number)]
            yield _row(f"{name}, {ITEMS:,} items", level, play(worlds, rounds), TARGETS.get(level))
    few = [world_of(KINDS["semi-bandit"], FEW, 0.0, USELESS, seed) for seed in range(2 * number)]
    yield _row(f"semi-bandit, {FEW} items, {USELESS} columns", "zero", play(few, rounds), TARGETS["zero"])


def _row(name: str, level: str, played: Played, target: float | None) -> Row:
    (ratio, error), (to_pooled, its_error) = played.ratio(FEATURED), played.ratio(FEATURED, POOLED)
    missed = (
        [f"{level} signal: {ratio:.2f} of the regret of plain, target {target:.2f}"]
        if target and ratio > target
        else []
    )
    return Row(
        [
            name, level, *(mean_and_error(played.regrets[who]) for who in (PLAIN, POOLED, FEATURED)),
            f"{ratio:.2f} ± {error:.2f}", f"{to_pooled:.2f} ± {its_error:.2f}", f"{played.unlearned():.2f}",
            *(f"{played.seconds[who].sum() / played.rounds(who) * 1e6:.0f}" for who in (PLAIN, FEATURED)),
            "–" if target is None else f"{target:.2f}", "–" if target is None else "no" if missed else "yes",
        ],
        missed,
    )  # fmt: skip


TOPIC = Topic(
    "Features of items at three levels of signal",
    f"{POSITIONS} positions; attraction is logistic(−2 + weights · features + noise) with {FEATURES} features. Logits "
    "have standard deviation 1; features explain "
    + ", ".join(f"{share:.0%} ({level})" for level, share in SIGNALS.items())
    + " of their variance. In the dynamic Bayesian network, satisfaction depends on the features as well. Total regret "
    f"in {ROUNDS:,} rounds, mean and standard error of {WORLDS} worlds ({2 * WORLDS} with {USELESS} columns of "
    "noise), one run in each, default inference: *plain* (independent rows), *pooled* (a common learned prior) and "
    "with features. *Left*: regret of plain in the last tenth of the rounds relative to the first. *µs*: per round. "
    f"Targets: a ratio to plain of at most {TARGETS['high']:.2f} at high signal and {TARGETS['zero']:g} at zero "
    "signal.",
    ["model", "signal", "plain", "pooled", "features", "to plain", "to pooled", "left", "µs, plain", "µs, features",
     "target", "target met"],
    _rows,
)  # fmt: skip
