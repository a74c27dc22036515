"""Worlds with features of items, and agents with and without these features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

import idbandits as idb
from idbandits import Diagram
from idbandits.kernel.array_types import Floats, Rng

FEATURES, INTERCEPT, SPREAD = 10, -2.0, 1.0  # mean and standard deviation of logits
SIGNALS = {"high": 0.96, "middle": 0.5, "zero": 0.0}  # share of the variance of logits explained by features
PLAIN, POOLED, FEATURED = "plain", "pooled", "features"

Make: TypeAlias = Callable[..., Diagram]  # returns a model, given settings of its tables


class Items(NamedTuple):
    """Features, attraction, and the weights of features in the logit."""

    features: Floats
    attraction: Floats
    weights: Floats


def items(number: int, signal: float, rng: Rng, columns: int = FEATURES) -> Items:
    """Draw items with attraction logistic(intercept + weights · features + noise)."""
    x = rng.normal(size=(number, columns))
    weights = weights_of(signal, columns, rng)
    return Items(x, logistic(INTERCEPT + x @ weights + noise(number, signal, rng)), weights)


def weights_of(signal: float, columns: int, rng: Rng) -> Floats:
    """Draw weights of features that explain a given share of the variance."""
    direction = rng.normal(size=columns)
    return np.asarray(SPREAD * np.sqrt(signal) * direction / np.linalg.norm(direction))


def noise(number: int, signal: float, rng: Rng) -> Floats:
    """Draw the part of the logits that features do not explain."""
    return np.asarray(SPREAD * np.sqrt(1 - signal) * rng.normal(size=number))


def logistic(logits: Floats) -> Floats:
    """Return the probabilities of logits."""
    return np.asarray(1 / (1 + np.exp(-logits)))


def diagrams(make: Make, features: Mapping[str, Floats]) -> dict[str, Diagram]:
    """Return a model with independent rows, with pooled rows, and with features."""
    return {PLAIN: make(), POOLED: make(pooled=list(features)), FEATURED: make(features=dict(features))}


def agents(make: Make, features: Mapping[str, Floats]) -> dict[str, idb.Thompson]:
    """Return an agent with the default inference for each variant of a model."""
    return {name: idb.Thompson(d) for name, d in diagrams(make, features).items()}


class Played(NamedTuple):
    """Total regrets and seconds of runs by learner, and regrets by tenths of a run."""

    regrets: Mapping[str, Floats]
    seconds: Mapping[str, Floats]
    tenths: Mapping[str, Floats]  # one row per run
    length: int  # rounds of a run

    def rounds(self, learner: str) -> int:
        """Return the number of rounds in all runs of a learner."""
        return self.length * len(self.regrets[learner])

    def ratio(self, learner: str, to: str = PLAIN) -> tuple[float, float]:
        """Return the ratio of mean regrets of two learners, and its standard error (delta method)."""
        mine, other = self.regrets[learner], self.regrets[to]
        ratio = float(mine.mean() / other.mean())
        return ratio, standard_error(mine - ratio * other) / float(other.mean())

    def unlearned(self, learner: str = PLAIN) -> float:
        """Return the regret in the last tenth of a run relative to the first tenth."""
        mean = self.tenths[learner].mean(axis=0)
        return float(mean[-1] / mean[0])


def play(worlds: Sequence[tuple[idb.World, Mapping[str, idb.Thompson]]], rounds: int, runs: int = 1) -> Played:
    """Simulate the agents of each world."""
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
    """Return the standard error of the mean; NaN for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def mean_and_error(values: Floats) -> str:
    """Format a mean and its standard error."""
    return f"{values.mean():,.0f} ± {standard_error(values):,.0f}"
