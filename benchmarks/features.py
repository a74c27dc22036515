"""What features of items gain at three levels of signal, and cost where they are noise."""

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
from idbandits.inference.regression import prior as priors
from idbandits.inference.regression.prior import Schedule
from idbandits.kernel.array_types import Floats, Rng

ITEMS, POSITIONS = 1_000, 5
ROUNDS, WORLDS = 20_000, 5
FEW, USELESS = 200, 50  # items, and columns that say nothing about them
BARS = {"high": 1 / 3, "zero": 1.1}  # times the regret of plain
SATISFACTION = 0.6, 0.5, 0.4, 0.4, 0.3  # by position, in the dependent click model

# When regressions are fitted anew, beside the default.
SCHEDULES = {
    "a fit per round": Schedule(growth=0.0, fitting=np.inf),
    "a fit per 500 rounds": Schedule(growth=np.inf, most_between=500),
}


class Kind(NamedTuple):
    """A model, its tables that have one row per item, and all its means, given the items."""

    model: Make
    tables: Sequence[str]
    means: Callable[[Items, float, Rng], Mapping[str, Floats]]


def _of_dynamic_bayesian(own: Items, signal: float, rng: Rng) -> Mapping[str, Floats]:
    """Satisfaction depends on the features, too, by weights of its own: else most of what is learned has none."""
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
    """A world with its agents."""
    rng = np.random.default_rng([seed, columns])
    own, make = items(number, signal, rng, columns), partial(kind.model, number, POSITIONS)
    world = idb.World(make(), kind.means(own, signal, rng))
    return world, agents(make, dict.fromkeys(kind.tables, own.features))


def _rows(quick: bool) -> Iterator[Row]:
    rounds, number = (4_000, 2) if quick else (ROUNDS, WORLDS)
    for name, kind in KINDS.items():
        for level, signal in SIGNALS.items():
            worlds = [world_of(kind, ITEMS, signal, FEATURES, seed) for seed in range(number)]
            yield _row(f"{name}, {ITEMS:,} items", level, play(worlds, rounds), BARS.get(level))
    few = [world_of(KINDS["semi-bandit"], FEW, 0.0, USELESS, seed) for seed in range(2 * number)]
    yield _row(f"semi-bandit, {FEW} items, {USELESS} columns", "zero", play(few, rounds), BARS["zero"])
    yield from _of_schedules(rounds, number)


def _of_schedules(rounds: int, number: int) -> Iterator[Row]:
    """To be read beside the semi-bandit at middle signal, where the same worlds have the default schedule."""
    usual = priors.SCHEDULE
    for label, schedule in SCHEDULES.items():
        worlds = [world_of(KINDS["semi-bandit"], ITEMS, SIGNALS["middle"], FEATURES, seed) for seed in range(number)]
        priors.SCHEDULE = schedule
        try:
            played = play(worlds, rounds)
        finally:
            priors.SCHEDULE = usual
        yield _row(f"semi-bandit, {ITEMS:,} items, {label}", "middle", played, None)


def _row(name: str, level: str, played: Played, bar: float | None) -> Row:
    (ratio, error), (to_pooled, its_error) = played.ratio(FEATURED), played.ratio(FEATURED, POOLED)
    missed = [f"{level} signal: {ratio:.2f} of the regret of plain, bar {bar:.2f}"] if bar and ratio > bar else []
    return Row(
        [
            name, level, *(mean_and_error(played.regrets[who]) for who in (PLAIN, POOLED, FEATURED)),
            f"{ratio:.2f} ± {error:.2f}", f"{to_pooled:.2f} ± {its_error:.2f}", f"{played.unlearned():.2f}",
            *(f"{played.seconds[who].sum() / played.rounds(who) * 1e6:.0f}" for who in (PLAIN, FEATURED)),
            "–" if bar is None else f"{bar:.2f}", "–" if bar is None else "no" if missed else "yes",
        ],
        missed,
    )  # fmt: skip


TOPIC = Topic(
    "Items with features, at three levels of signal",
    f"{POSITIONS} positions; attraction is logistic(−2 + weights · features + noise), with {FEATURES} features; the "
    "logits have standard deviation 1 at every level, of whose variance features explain "
    + ", ".join(f"{share:.0%} ({level})" for level, share in SIGNALS.items())
    + ". In the dynamic Bayesian network, satisfaction depends on the same features in the same way, by weights of its "
    f"own, and both tables have features. Total regret in {ROUNDS:,} rounds, mean and standard error of {WORLDS} "
    f"worlds ({2 * WORLDS} in the world of {USELESS} columns of noise), one run in each, with the default inference: "
    "plain, with a common prior that is learned (`pooled`), and with features. *Left*: the regret of plain in the last "
    "tenth of the rounds, as a share of that in the first: how much it has not learned yet. *µs*: a round. *Bars*: at "
    f"high signal at most {BARS['high']:.2f} of the regret of plain, at zero signal at most {BARS['zero']:g}.",
    ["model", "signal", "plain", "pooled", "features", "to plain", "to pooled", "left", "µs, plain", "µs, features",
     "bar", "met"],
    _rows,
)  # fmt: skip
