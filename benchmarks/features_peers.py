"""One of 200 items with features: regret and speed, compared with linear models of bandit libraries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import bayesianbandits as bb
import numpy as np
from river import linear_model, optim

import idbandits as idb
from benchmarks.feature_worlds import SIGNALS, Items, items, mean_and_error, standard_error
from benchmarks.report import Row, Topic, ratio
from benchmarks.timing import timed
from idbandits.kernel.array_types import Floats

ITEMS, ROUNDS, WORLDS = 200, 5_000, 6
MAX_SECONDS, MIN_WORLDS = 15.0, 2  # per learner and level; slow learners play in fewer worlds
FASTER = 5.0  # target: speed ratio
OURS, WITHOUT = "idbandits, features", "idbandits, plain"

Act: TypeAlias = Callable[[], int]
Update: TypeAlias = Callable[[int, int], object]  # (item, click)
Learner: TypeAlias = Callable[[Floats, int], tuple[Act, Update]]  # (features, seed) -> learner


def ours(settings: str, features: Floats, seed: int) -> tuple[Act, Update]:
    """An idbandits agent, called from Python like the other libraries."""
    d = idb.Diagram("one item")
    table = idb.Learned("mean", features=features) if settings == OURS else idb.Learned("mean")
    d.reward(d.observed("click", [d.decision("item", len(features))], table))
    agent = idb.Thompson(d, "exact", seed=seed)
    return lambda: int(agent.act()["item"]), lambda item, click: agent.update({"item": item}, {"click": click})


def lines(features: Floats, own: bool) -> Floats:
    """Return a constant and the features; `own` adds an indicator of each item."""
    constant = np.ones((len(features), 1))
    return np.hstack([constant, features, np.eye(len(features))] if own else [constant, features])


def of_bayesianbandits(
    estimator: Callable[[], Any], own: bool, features: Floats, seed: int, policy: Any = bb.ThompsonSampling
) -> tuple[Act, Update]:
    """One model of all arms with features looked up in a table."""
    columns, context = np.ascontiguousarray(lines(features, own).T)[None], np.zeros((1, 1))
    arms: Any = [bb.Arm(item) for item in range(len(features))]
    featurizer: Any = bb.FunctionArmFeaturizer(lambda _, chosen: columns[:, :, chosen])
    agent: Any = bb.LipschitzContextualAgent(arms, policy(), featurizer, estimator(), random_seed=seed)
    rewards = np.array([[0.0], [1.0]])
    return lambda: int(agent.pull(context)[0]), lambda item, click: agent.update(context, rewards[click])


def named(features: Floats, own: bool) -> list[dict[Any, float]]:
    """Return the rows as dictionaries."""
    numbers = [dict(enumerate(line)) for line in lines(features, False).tolist()]
    return [{**line, f"item {k}": 1.0} for k, line in enumerate(numbers)] if own else numbers


def of_river_logistic(optimizer: Callable[[], Any], own: bool, features: Floats, seed: int) -> tuple[Act, Update]:
    """One logistic regression for all items; one of ten choices is random."""
    model: Any = linear_model.LogisticRegression(optimizer=optimizer())
    rows, rng = named(features, own), random.Random(seed)

    def act() -> int:
        if rng.random() < 0.1:
            return rng.randrange(len(rows))
        values = [model.predict_proba_one(row)[True] for row in rows]
        return values.index(max(values))

    return act, lambda item, click: model.learn_one(rows[item], bool(click))


LEARNERS: dict[str, Learner] = {
    OURS: partial(ours, OURS),
    WITHOUT: partial(ours, WITHOUT),
    "bayesianbandits, BayesianGLM": partial(of_bayesianbandits, bb.BayesianGLM, False),
    "bayesianbandits, BayesianGLM, items": partial(of_bayesianbandits, bb.BayesianGLM, True),
    "bayesianbandits, EmpiricalBayesGLM": partial(of_bayesianbandits, bb.EmpiricalBayesGLM, False),
    "bayesianbandits, NormalInverseGamma": partial(of_bayesianbandits, bb.NormalInverseGammaRegressor, False),
    "river, logistic, ε-greedy": partial(of_river_logistic, partial(optim.Adam, 0.01), False),
}


class Runs(NamedTuple):
    """Regret of each run of a learner, one per world, and rounds per second over all runs."""

    regrets: Floats
    speed: float


def run(learner: Learner, own: Items, rounds: int, seed: int) -> tuple[float, float]:
    """Return regret and seconds of a run; random numbers of clicks are drawn in advance."""
    uniforms, means = np.random.default_rng([seed, 1]).random(rounds).tolist(), own.attraction.tolist()
    act, update = learner(own.features, seed)
    chosen = []

    def play() -> None:
        for u in uniforms:
            item = act()
            update(item, int(u < means[item]))
            chosen.append(item)

    _, seconds = timed(play)
    return float((own.attraction.max() - own.attraction[chosen]).sum()), seconds


def runs_of(learner: Learner, worlds: list[Items], rounds: int) -> Runs:
    """Run a learner in all worlds, or in fewer if it is slow."""
    run(learner, worlds[0], 20, 0)  # first calls may compile and are not timed
    done: list[tuple[float, float]] = []
    for seed, own in enumerate(worlds):
        spent = sum(seconds for _, seconds in done)
        if seed >= MIN_WORLDS and spent * (seed + 1) / seed > MAX_SECONDS:
            break
        done.append(run(learner, own, rounds, seed))
    regrets, seconds = np.array(done).T
    return Runs(regrets, float(rounds * len(done) / seconds.sum()))


def _rows(quick: bool) -> Iterator[Row]:
    rounds, number = (500, 2) if quick else (ROUNDS, WORLDS)
    for level in ("high", "middle"):
        worlds = [items(ITEMS, SIGNALS[level], np.random.default_rng(seed)) for seed in range(number)]
        mine = runs_of(LEARNERS[OURS], worlds, rounds)
        for name, learner in LEARNERS.items():
            yield _row(level, name, mine if name == OURS else runs_of(learner, worlds, rounds), mine)


def _row(level: str, name: str, runs: Runs, mine: Runs) -> Row:
    same, faster = mine.regrets[: len(runs.regrets)], mine.speed / runs.speed  # in common worlds
    less, missed = same - runs.regrets[: len(same)], []
    if name not in (OURS, WITHOUT):
        if less.mean() > 0:
            figures = f"{same.mean():.0f}, of the library {runs.regrets.mean():.0f}"
            missed.append(
                f"{level} signal: the regret of idbandits is {figures} (± {standard_error(less):.0f} between them)"
            )
        if faster < FASTER:
            missed.append(f"{level} signal: idbandits is {ratio(faster)} as fast, target {ratio(FASTER)}")
    return Row(
        [
            name, level, mean_and_error(runs.regrets), f"{runs.regrets.max():,.0f}", mean_and_error(same),
            f"{len(runs.regrets)}", f"{float(f'{runs.speed:.3g}'):,.0f}", ratio(faster),
            "–" if name in (OURS, WITHOUT) else "no" if missed else "yes",
        ],
        missed,
    )  # fmt: skip


TOPIC = Topic(
    "Features of items compared with bandit libraries",
    f"One of {ITEMS} items with 10 features is chosen and its click is observed; attraction as above. {ROUNDS:,} "
    "rounds of act and update from Python. Other libraries get the features as their documentation recommends: one "
    "model of all items with a constant and, in rows with *items*, an indicator of each item. Settings are defaults; "
    "ε is 0.1. Total regret, mean and standard error, worst run, and the regret of idbandits in the same worlds: a "
    f"learner plays in fewer than {WORLDS} worlds if they take longer than {MAX_SECONDS:.0f} s. Targets: the regret "
    f"of idbandits is not higher, and it plays at least {FASTER:g} times as many rounds per second.",
    ["learner", "signal", "regret", "worst", "idbandits", "worlds", "rounds per second", "speed ratio", "targets met"],
    _rows,
)
