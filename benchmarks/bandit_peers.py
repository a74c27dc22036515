"""Rounds per second of a Bernoulli bandit, compared with other bandit libraries."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import mean, stdev, variance
from typing import Any, final

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from pybandits.model import Beta
from pybandits.smab import SmabBernoulli
from river import bandit, proba

import idbandits as idb
from benchmarks.report import Row, Topic, ratio
from benchmarks.timing import timed

ARMS, ROUNDS, RUNS = 20, 20_000, 3
OURS = 10  # runs of idbandits per run of another library
MAX_SECONDS = 30.0  # for all runs of a library; slow libraries make fewer runs
FASTER, NOISE = 10.0, 3.5  # targets: speed ratio; standard errors between average rewards
FUSED, CALLED = "idbandits, `simulate`", "idbandits, `act` and `update`"
MEANS = np.random.default_rng(0).permutation(np.arange(1, ARMS + 1) / (ARMS + 1))

Act = Callable[[], int]
Update = Callable[[int, int], object]  # (arm, reward)
Learner = Callable[[int], tuple[Act, Update]]  # seed -> learner
Run = Callable[[int, int], tuple[float, float]]  # (rounds, seed) -> average reward, seconds


def mabwiser(seed: int) -> tuple[Act, Update]:
    """MABWiser, fitted to no data first because `predict` requires a fit; arrays are faster than lists."""
    mab = MAB(list(range(ARMS)), LearningPolicy.ThompsonSampling(), seed=seed)
    arms, rewards = np.arange(ARMS).reshape(-1, 1), np.arange(2).reshape(-1, 1)
    mab.fit(arms[:0, 0], rewards[:0, 0])
    return mab.predict, lambda arm, reward: mab.partial_fit(arms[arm], rewards[reward])


def pybandits(seed: int) -> tuple[Act, Update]:
    """PyBandits, whose actions are strings."""
    names = [f"arm {k}" for k in range(ARMS)]
    arms = {name: k for k, name in enumerate(names)}
    smab = SmabBernoulli(actions={name: Beta() for name in names}, random_seed=seed)
    return (
        lambda: arms[smab.predict(n_samples=1)[0][0]],
        lambda arm, reward: smab.update(actions=[names[arm]], rewards=[reward]),
    )


def river(seed: int) -> tuple[Act, Update]:
    """River."""
    policy: Any = bandit.ThompsonSampling(reward_obj=proba.Beta(1, 1), seed=seed)
    return partial(policy.pull, range(ARMS)), policy.update


def obp(seed: int) -> tuple[Act, Update]:
    """Open Bandit Pipeline; optional, because it depends on PyTorch."""
    policy = importlib.import_module("obp.policy").BernoulliTS(n_actions=ARMS, random_state=seed)
    return lambda: policy.select_action()[0], policy.update_params


def ours(seed: int) -> tuple[Act, Update]:
    """An idbandits agent, called from Python like the other libraries."""
    agent = idb.Thompson(_diagram(), inference="exact", seed=seed)
    return lambda: int(agent.act()["arm"]), lambda arm, reward: agent.update({"arm": arm}, {"win": reward})


def fused(rounds: int, seed: int) -> tuple[float, float]:
    """Run an idbandits agent in the compiled loop of `simulate`; the time includes drawing the rewards."""
    d = _diagram()
    agent = idb.Thompson(d, inference="exact", seed=seed)
    world = idb.World(d, {"mean": MEANS}, seed=seed)
    result, seconds = timed(
        idb.simulate, world, {"idbandits": agent}, rounds=rounds, runs=1, seed=seed, workers=1, progress=False
    )
    return float(result.summary()["reward_mean"].iloc[0]), seconds


def called(learner: Learner, rounds: int, seed: int) -> tuple[float, float]:
    """Run a learner in a Python loop; the rewards of all arms are drawn in advance."""
    wins = (np.random.default_rng(seed).random((rounds, ARMS)) < MEANS).astype(int).tolist()
    act, update = learner(seed)

    def play() -> int:
        total = 0
        for win in wins:
            arm = act()
            reward = win[arm]
            update(arm, reward)
            total += reward
        return total

    total, seconds = timed(play)
    return total / rounds, seconds


@final
@dataclass(frozen=True)
class Runs:
    """Average reward and seconds of each run of a library."""

    rounds: int
    rewards: list[float]
    times: list[float]

    @property
    def speed(self) -> float:
        """Rounds per second over all runs; a median would favour short runs on a busy machine."""
        return self.rounds / mean(self.times)

    def error(self) -> float:
        """Return the standard error of the average reward."""
        return stdev(self.rewards) / math.sqrt(len(self.rewards))

    def apart(self, other: Runs) -> float:
        """Return the difference of average rewards in standard errors, with pooled variance."""
        m, n = len(self.rewards), len(other.rewards)
        pooled = ((m - 1) * variance(self.rewards) + (n - 1) * variance(other.rewards)) / (m + n - 2)
        return abs(mean(self.rewards) - mean(other.rewards)) / math.sqrt(pooled * (1 / m + 1 / n))


def in_turns(libraries: Mapping[str, Run], rounds: int, turns: int) -> dict[str, Runs]:
    """Run all libraries in turns, so that other load affects all of them equally."""
    done = {name: Runs(rounds, [], []) for name in libraries}
    for run in libraries.values():
        run(100, 0)  # first calls may compile and are not timed
    for turn in range(turns):
        for k, (name, run) in enumerate(libraries.items()):
            runs = done[name]
            if turn >= 2 and sum(runs.times) * (turn + 1) / turn > MAX_SECONDS:
                continue
            for _ in range(OURS if name in (FUSED, CALLED) else 1):
                reward, seconds = run(rounds, 1_000 * k + len(runs.times))
                runs.rewards.append(reward)
                runs.times.append(seconds)
    return done


def _rows(quick: bool) -> Iterator[Row]:
    missing = {name for name, module in OPTIONAL.items() if importlib.util.find_spec(module) is None}
    peers: dict[str, Run] = {name: partial(called, peer) for name, peer in PEERS.items() if name not in missing}
    libraries: dict[str, Run] = {FUSED: fused, CALLED: partial(called, ours), **peers}
    done = in_turns(libraries, *((2_000, 2) if quick else (ROUNDS, RUNS)))
    for name in (FUSED, CALLED, *PEERS):
        if name in missing:
            yield Row([name, *["–"] * 5, "not measured"], [f"not measured: pip install {OPTIONAL[name]}"])
        else:
            yield _row(name, done)


def _row(name: str, done: Mapping[str, Runs]) -> Row:
    runs, best = done[name], done[FUSED]
    faster = best.speed / runs.speed
    missed = []
    if name in PEERS and faster < FASTER:
        missed.append(f"`simulate` is {ratio(faster)} as fast, target {ratio(FASTER)}")
    if (apart := best.apart(runs)) >= NOISE:
        missed.append(f"average rewards are {apart:.1f} standard errors apart, target {NOISE}")
    return Row(
        [
            name,
            f"{float(f'{runs.speed:.3g}'):,.0f}",
            ratio(faster),
            ratio(done[CALLED].speed / runs.speed),
            f"{mean(runs.rewards):.4f} ± {runs.error():.4f}",
            f"{len(runs.rewards)} × {runs.rounds:,}",
            "no" if missed else "yes",
        ],
        missed,
    )


def _diagram() -> idb.Diagram:
    d = idb.Diagram("bandit")
    arm = d.decision("arm", ARMS)
    d.reward(d.observed("win", [arm], idb.Learned("mean")))
    return d


PEERS: dict[str, Learner] = {"Open Bandit Pipeline": obp, "river": river, "MABWiser": mabwiser, "PyBandits": pybandits}
OPTIONAL = {"Open Bandit Pipeline": "obp"}

TOPIC = Topic(
    "Bernoulli bandit compared with bandit libraries",
    f"{ARMS} arms with means 1/{ARMS + 1}, …, {ARMS}/{ARMS + 1}, Thompson sampling with Beta(1, 1) priors, one round "
    "at a time. All libraries, and idbandits in the row `act` and `update`, are called from the same Python loop with "
    "rewards drawn in advance; `simulate` is the compiled loop of idbandits, which also draws the rewards. Libraries "
    "run in turns. *simulate*, *act and update*: speed of that row relative to the library. *Average reward*: per "
    f"round, ± its standard error. A library makes fewer runs if {RUNS} take longer than {MAX_SECONDS:.0f} s. Targets: "
    f"`simulate` is at least {ratio(FASTER)} as fast as each library, and average rewards differ by less than {NOISE} "
    "standard errors.",
    ["library", "rounds per second", "simulate", "act and update", "average reward", "runs × rounds", "targets met"],
    _rows,
)
