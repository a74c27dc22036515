"""Worlds whose items have features that say more or less about them, and the agents that are told of these or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

import idbandits as idb
from idbandits import Diagram
from idbandits.kernel.array_types import Floats, Rng

FEATURES, INTERCEPT, SPREAD = 10, -2.0, 1.0  # the logit of an item has this mean and standard deviation, at any signal
SIGNALS = {"high": 0.96, "middle": 0.5, "zero": 0.0}  # the share of the logits' variance that features explain
PLAIN, POOLED, FEATURED = "plain", "pooled", "features"

Make: TypeAlias = Callable[..., Diagram]  # a model of all items, with the settings of its tables


class Items(NamedTuple):
    """The features of items, one line each, and how attractive they are; `weights` are those of the logit."""

    features: Floats
    attraction: Floats
    weights: Floats


def items(number: int, signal: float, rng: Rng, columns: int = FEATURES) -> Items:
    """Items with attraction logistic(intercept + weights · features + noise)."""
    x = rng.normal(size=(number, columns))
    weights = weights_of(signal, columns, rng)
    return Items(x, logistic(INTERCEPT + x @ weights + noise(number, signal, rng)), weights)


def weights_of(signal: float, columns: int, rng: Rng) -> Floats:
    """Weights of features, in any direction; together they explain this share of the variance."""
    direction = rng.normal(size=columns)
    return np.asarray(SPREAD * np.sqrt(signal) * direction / np.linalg.norm(direction))


def noise(number: int, signal: float, rng: Rng) -> Floats:
    """What features do not explain of the logits of so many items."""
    return np.asarray(SPREAD * np.sqrt(1 - signal) * rng.normal(size=number))


def logistic(logits: Floats) -> Floats:
    """The probabilities that have these logits."""
    return np.asarray(1 / (1 + np.exp(-logits)))


def diagrams(make: Make, features: Mapping[str, Floats]) -> dict[str, Diagram]:
    """A model three times: rows of tables have nothing to do with each other, share a prior, or have these features."""
    return {PLAIN: make(), POOLED: make(pooled=list(features)), FEATURED: make(features=dict(features))}


def agents(make: Make, features: Mapping[str, Floats]) -> dict[str, idb.Thompson]:
    """One agent for each of these diagrams, with the default inference."""
    return {name: idb.Thompson(d) for name, d in diagrams(make, features).items()}


class Played(NamedTuple):
    """Total regrets and seconds of runs by learner, the same runs for each; regrets by tenths of a run, too."""

    regrets: Mapping[str, Floats]
    seconds: Mapping[str, Floats]
    tenths: Mapping[str, Floats]  # one line per run
    length: int  # of a run, in rounds

    def rounds(self, learner: str) -> int:
        """Of all runs of a learner together."""
        return self.length * len(self.regrets[learner])

    def ratio(self, learner: str, to: str = PLAIN) -> tuple[float, float]:
        """Of mean regrets, to that of another learner; and its standard error (by the delta method)."""
        mine, other = self.regrets[learner], self.regrets[to]
        ratio = float(mine.mean() / other.mean())
        return ratio, standard_error(mine - ratio * other) / float(other.mean())

    def unlearned(self, learner: str = PLAIN) -> float:
        """The regret in the last tenth of a run, as a share of that in the first."""
        mean = self.tenths[learner].mean(axis=0)
        return float(mean[-1] / mean[0])


def play(worlds: Sequence[tuple[idb.World, Mapping[str, idb.Thompson]]], rounds: int, runs: int = 1) -> Played:
    """Let the agents of each world play in it."""
    tenths: dict[str, list[Floats]] = {}
    seconds: dict[str, list[Floats]] = {}
    for seed, (world, learners) in enumerate(worlds):
        frame = idb.simulate(world, learners, rounds, runs, seed, progress=False, checkpoints=10).frame
        for name in learners:
            own = frame[frame["learner"] == name]
            totals = own["regret"].to_numpy().reshape(runs, -1)
            tenths.setdefault(name, []).append(np.diff(totals, axis=1, prepend=0.0))
            seconds.setdefault(name, []).append(own["seconds"].to_numpy().reshape(runs, -1)[:, -1])
    by_tenth = {name: np.concatenate(each) for name, each in tenths.items()}
    regrets = {name: each.sum(axis=1) for name, each in by_tenth.items()}
    return Played(regrets, {name: np.concatenate(each) for name, each in seconds.items()}, by_tenth, rounds)


def standard_error(values: Floats) -> float:
    """Of the mean of some values; not a number if there is only one."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def mean_and_error(values: Floats) -> str:
    """The mean of some values, ± its standard error."""
    return f"{values.mean():,.0f} ± {standard_error(values):,.0f}"
