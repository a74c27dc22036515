"""One item is chosen, one click is seen, items have features: beside the linear models of bandit libraries."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import bayesianbandits as bb
import numpy as np
from river import bandit, linear_model, optim

import idbandits as idb
from benchmarks.feature_worlds import SIGNALS, Items, items, mean_and_error, standard_error
from benchmarks.report import Row, Topic, ratio
from benchmarks.timing import timed
from idbandits.kernel.array_types import Floats

ITEMS, ROUNDS, WORLDS = 200, 5_000, 10
PATIENCE, FEWEST = 30.0, 3  # seconds for all worlds of a learner: a slow one plays in fewer, but in so many at least
FASTER = 5.0  # the bar: times as many rounds per second
OURS, WITHOUT = "idbandits, features", "idbandits, plain"
CLICK_VARIANCE = 0.125  # about that of a click: what a linear model takes for noise

Act: TypeAlias = Callable[[], int]
Update: TypeAlias = Callable[[int, int], object]  # with the item and whether it was clicked
Learner: TypeAlias = Callable[[Floats, int], tuple[Act, Update]]  # made from features and a seed


def ours(settings: str, features: Floats, seed: int) -> tuple[Act, Update]:
    """Our agent, called from Python like the peers."""
    d = idb.Diagram("one item")
    table = idb.Learned("mean", features=features) if settings == OURS else idb.Learned("mean")
    d.reward(d.observed("click", [d.decision("item", len(features))], table))
    agent = idb.Thompson(d, "exact", seed=seed)
    return lambda: int(agent.act()["item"]), lambda item, click: agent.update({"item": item}, {"click": click})


def lines(features: Floats, own: bool) -> Floats:
    """A constant and the features; `own` adds an indicator of each item, which lets it differ from those like it."""
    constant = np.ones((len(features), 1))
    return np.hstack([constant, features, np.eye(len(features))] if own else [constant, features])


def of_bayesianbandits(
    estimator: Callable[[], Any], own: bool, features: Floats, seed: int, policy: Any = bb.ThompsonSampling
) -> tuple[Act, Update]:
    """One model for all arms, whose lines are looked up: nothing is computed anew."""
    columns, context = np.ascontiguousarray(lines(features, own).T)[None], np.zeros((1, 1))
    arms: Any = [bb.Arm(item) for item in range(len(features))]
    featurizer: Any = bb.FunctionArmFeaturizer(lambda _, chosen: columns[:, :, chosen])
    agent: Any = bb.LipschitzContextualAgent(arms, policy(), featurizer, estimator(), random_seed=seed)
    rewards = np.array([[0.0], [1.0]])
    return lambda: int(agent.pull(context)[0]), lambda item, click: agent.update(context, rewards[click])


def named(features: Floats, own: bool) -> list[dict[Any, float]]:
    """The lines as river wants them."""
    numbers = [dict(enumerate(line)) for line in lines(features, False).tolist()]
    return [{**line, f"item {k}": 1.0} for k, line in enumerate(numbers)] if own else numbers


def of_river_bayesian(beta: float, bound: bool, own: bool, features: Floats, seed: int) -> tuple[Act, Update]:
    """One Bayesian linear regression of all items: draws from its posterior, or upper bounds as in river's LinUCB."""
    model: Any = linear_model.BayesianLinearRegression(beta=beta)
    rows, rng = named(features, own), random.Random(seed)

    def value(row: dict[Any, float]) -> float:
        predicted = model.predict_one(row, with_dist=True)
        deviation = math.sqrt(max(0.0, predicted.sigma**2 - 1 / beta))  # without the noise of one observation
        return float(predicted.mu + deviation if bound else rng.gauss(predicted.mu, deviation))

    def act() -> int:
        values = [value(row) for row in rows]
        return values.index(max(values))

    return act, lambda item, click: model.learn_one(rows[item], click)


def of_river_logistic(optimizer: Callable[[], Any], own: bool, features: Floats, seed: int) -> tuple[Act, Update]:
    """One logistic regression for all items; every tenth choice is random."""
    model: Any = linear_model.LogisticRegression(optimizer=optimizer())
    rows, rng = named(features, own), random.Random(seed)

    def act() -> int:
        if rng.random() < 0.1:
            return rng.randrange(len(rows))
        values = [model.predict_proba_one(row)[True] for row in rows]
        return values.index(max(values))

    return act, lambda item, click: model.learn_one(rows[item], bool(click))


def of_river_disjoint(features: Floats, seed: int) -> tuple[Act, Update]:
    """River's contextual policy: one model per item, so that features of items cannot be given; a constant is."""
    policy: Any = bandit.LinUCBDisjoint(seed=seed)
    arms, context = list(range(len(features))), {"one": 1.0}
    return lambda: int(policy.pull(arms, context=context)), lambda item, click: policy.update(item, context, click)


LEARNERS: dict[str, Learner] = {
    OURS: partial(ours, OURS),
    WITHOUT: partial(ours, WITHOUT),
    "bayesianbandits, BayesianGLM": partial(of_bayesianbandits, bb.BayesianGLM, False),
    "bayesianbandits, BayesianGLM, items": partial(of_bayesianbandits, bb.BayesianGLM, True),
    "bayesianbandits, EmpiricalBayesGLM": partial(of_bayesianbandits, bb.EmpiricalBayesGLM, False),
    "bayesianbandits, EmpiricalBayesGLM, items": partial(of_bayesianbandits, bb.EmpiricalBayesGLM, True),
    "bayesianbandits, NormalInverseGamma": partial(of_bayesianbandits, bb.NormalInverseGammaRegressor, False),
    "bayesianbandits, EmpiricalBayesNormal": partial(of_bayesianbandits, bb.EmpiricalBayesNormalRegressor, False),
    "bayesianbandits, EmpiricalBayesNormal, items": partial(of_bayesianbandits, bb.EmpiricalBayesNormalRegressor, True),
    "bayesianbandits, BayesianGLM, UCB": partial(
        of_bayesianbandits, bb.BayesianGLM, False, policy=bb.UpperConfidenceBound
    ),
    "river, Bayesian regression": partial(of_river_bayesian, 1 / CLICK_VARIANCE, False, False),
    "river, Bayesian regression, β = 1, UCB": partial(of_river_bayesian, 1.0, True, False),
    "river, logistic, ε-greedy": partial(of_river_logistic, partial(optim.Adam, 0.01), False),
    "river, logistic, ε-greedy, items": partial(of_river_logistic, partial(optim.SGD, 0.01), True),
    "river, LinUCBDisjoint": of_river_disjoint,
}


class Runs(NamedTuple):
    """The regret of each run of a learner, the first run in the first world, and the rounds per second of all."""

    regrets: Floats
    speed: float


def run(learner: Learner, own: Items, rounds: int, seed: int) -> tuple[float, float]:
    """Regret and seconds of a run; what decides about clicks is drawn before the clock starts."""
    luck, means = np.random.default_rng([seed, 1]).random(rounds).tolist(), own.attraction.tolist()
    act, update = learner(own.features, seed)
    chosen = []

    def play() -> None:
        for u in luck:
            item = act()
            update(item, int(u < means[item]))
            chosen.append(item)

    _, seconds = timed(play)
    return float((own.attraction.max() - own.attraction[chosen]).sum()), seconds


def runs_of(learner: Learner, worlds: list[Items], rounds: int) -> Runs:
    """Runs in as many of the worlds as patience allows."""
    run(learner, worlds[0], 20, 0)  # first calls, which may compile, are not timed
    done: list[tuple[float, float]] = []
    for seed, own in enumerate(worlds):
        spent = sum(seconds for _, seconds in done)
        if seed >= FEWEST and spent * (seed + 1) / seed > PATIENCE:
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
    same, faster = mine.regrets[: len(runs.regrets)], mine.speed / runs.speed  # in the worlds that both played in
    less, missed = same - runs.regrets[: len(same)], []
    if name not in (OURS, WITHOUT):
        if less.mean() > 0:
            figures = f"{same.mean():.0f}, theirs {runs.regrets.mean():.0f}"
            missed.append(f"{level} signal: our regret is {figures} (± {standard_error(less):.0f} between them)")
        if faster < FASTER:
            missed.append(f"{level} signal: ours is {ratio(faster)} as fast, bar {ratio(FASTER)}")
    return Row(
        [
            name, level, mean_and_error(runs.regrets), f"{runs.regrets.max():,.0f}", mean_and_error(same),
            f"{len(runs.regrets)}", f"{float(f'{runs.speed:.3g}'):,.0f}", ratio(faster),
            "–" if name in (OURS, WITHOUT) else "no" if missed else "yes",
        ],
        missed,
    )  # fmt: skip


TOPIC = Topic(
    "Items with features, beside linear models of bandit libraries",
    f"One of {ITEMS} items with 10 features is chosen, and its click is seen; attraction as above. {ROUNDS:,} rounds "
    "of act and update from Python, one at a time. Peers have the features as their documentation says: one model of "
    "all items with a constant, and, where the line says *items*, an indicator of each item as well (bayesianbandits "
    "calls that hybrid). Settings are the defaults but for "
    "river: its Bayesian regression is told the variance of a click unless the line says β = 1, with which "
    "Thompson sampling did far worse, and draws each item's mean from the posterior; ε is 0.1. LinUCBDisjoint has one "
    "model per item, and cannot use their features. Total regret, mean and standard "
    f"error, worst, and *ours* in the same worlds: a learner plays in fewer than {WORLDS} if these take longer than "
    f"{PATIENCE:.0f} s. *Bars*: our regret is no higher than that of any peer, and we play at least {FASTER:g} times "
    "as many rounds per second.",
    ["learner", "signal", "regret", "worst", "ours", "worlds", "rounds a second", "ours is faster", "met"],
    _rows,
)
