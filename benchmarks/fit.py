"""How often `fit_report` blames a right structure, and how soon it finds a wrong one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic
from idbandits.errors import ImpossibleObservationError

RUNS, BAR = 100, 0.95
LOOKS = (100, 300, 1000, 2000, 5000)
ITEMS, POSITIONS = 10, 5
COSTLY = 0.02  # regret per round, in the last 1,000 rounds, above which a wrong structure matters
LEARNERS = ("cascade", "position_based")
WORLDS = ("user_browsing", "dynamic_bayesian", "click_chain")
OWN = (
    "cascade", "cascade_inverted", "position_based", "semi_bandit", "rank1", "dependent_click", "dynamic_bayesian",
    "click_chain", "user_browsing",
)  # fmt: skip
KINDS = ("random", "peaked")

Rng: TypeAlias = np.random.Generator
Means: TypeAlias = dict[str, Any]


class Case(NamedTuple):
    """A run: a learner's model, the world's, its kind of means and a seed."""

    learner: str
    world: str
    kind: str
    seed: int


class Found(NamedTuple):
    """The p-values at all looks, and the regret of a round at the end."""

    p_values: list[float]
    regret: float


def peaked_means(model: str, shapes: dict[str, tuple[int, ...]], rng: Rng) -> Means:
    """Means as search engines have them: one or two items attract most, and people stop reading sooner or later."""
    shape = ([0.32, 0.32, 0.19, 0.13], 0.1) if rng.random() < 0.5 else ([0.87, 0.12, 0.06, 0.02], 0.05)
    means: Means = {name: rng.beta(2, 2, size) for name, size in shapes.items()}
    for name in {"attraction", "mean"} & set(shapes):
        few = np.concatenate([shape[0], rng.uniform(0.01, shape[1], ITEMS - 4)]) * rng.uniform(0.7, 1.05, ITEMS)
        means[name] = rng.permutation(few)
    if model == "position_based":
        means["examination"] = np.array([1.0, 0.96, 0.76, 0.59, 0.46]) * rng.uniform(0.9, 1.0, POSITIONS)
    if model == "user_browsing":  # after a click, people read on; without one, they soon stop
        usual = [0.92 * 0.8 ** (k - j - 1) if j else 0.62 ** (k - 1) for k in range(1, POSITIONS + 1) for j in range(k)]
        means["examination"] = np.minimum(usual * rng.uniform(0.85, 1.1, len(usual)), 0.99)
    if model == "dynamic_bayesian":
        means["continuation"] = np.array(rng.uniform(0.7, 0.99))
    if model == "click_chain":
        means["continuation"] = np.array([0.99, 0.94, rng.uniform(0.0, 0.2)])
    return means


def world_of(case: Case, rng: Rng) -> idb.World:
    """The world of a case."""
    d = diagram(case.world)
    shapes = {name: table.means_shape for name, table in d.learned.items()}
    means = {name: rng.random(size) for name, size in shapes.items()}
    return idb.World(d, peaked_means(case.world, shapes, rng) if case.kind == "peaked" else means, seed=rng)


def diagram(model: str) -> idb.Diagram:
    """A ready model of the usual size."""
    make: Callable[..., idb.Diagram] = getattr(idb.models, model)
    return make(ITEMS, POSITIONS)


def play(case: Case) -> Found:
    """Let an agent act, learn and judge its structure at all looks."""
    rng = np.random.default_rng([case.seed, *map(ord, case.world + case.kind)])
    world, agent = world_of(case, rng), idb.Thompson(diagram(case.learner), seed=case.seed)
    p_values, regret = [], 0.0
    for t in range(1, LOOKS[-1] + 1):
        action = agent.act()
        outcome = world.step(action)
        with contextlib.suppress(ImpossibleObservationError):  # the report says so
            agent.update(action, outcome.observation)
        if t in LOOKS:
            p_values.append(agent.fit_report().p_value)
        if t > LOOKS[-1] - 1000:
            regret += outcome.regret / 1000
    return Found(p_values, regret)


def _rows(quick: bool) -> Iterator[Row]:
    runs = 4 if quick else RUNS
    pairs = [(name, name) for name in OWN] + [(learner, world) for learner in LEARNERS for world in WORLDS]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for learner, world in pairs:
            for kind in KINDS:
                cases = [Case(learner, world, kind, seed) for seed in range(runs)]
                yield _row(learner, world, kind, list(pool.map(play, cases)))


def _row(learner: str, world: str, kind: str, found: Sequence[Found]) -> Row:
    least = np.minimum.accumulate([run.p_values for run in found], axis=1)
    said = (least < 0.05).sum(axis=0)
    costly = [run.p_values[-1] < 0.05 for run in found if run.regret > COSTLY]
    own, runs = learner == world, len(found)
    met = said[-1] <= (1 - BAR) * runs if own else sum(costly) >= BAR * len(costly)
    what = f"{said[-1]} of {runs} runs blame a right structure" if own else f"{sum(costly)} of {len(costly)} are found"
    cells = [f"{learner} in {world}, {kind}", str(runs), *map(str, said)]
    return Row(
        [*cells, "–" if own else f"{sum(costly)} of {len(costly)}", "yes" if met else "no"], [] if met else [what]
    )


TOPIC = Topic(
    "Wrong structures",
    f"Agents of one model in worlds of the same and of others, {ITEMS} items × {POSITIONS} positions, default "
    f"inference: in how many of {RUNS} runs `fit_report` ever said by then that the structure does not fit, looking "
    "after so many rounds. *Random* means are uniform; *peaked* ones are like those of search engines: one or two "
    f"items attract most. *Costly* runs are those that still lose more than {COSTLY:g} per round in the last 1,000: "
    "how many of them are found. Some worlds with another structure look the same, as where nobody reads on. *Bars*: a "
    f"right structure is blamed in at most {1 - BAR:.0%} of the runs; of costly runs in worlds of another structure, "
    f"{BAR:.0%} are found.",
    ["learner in world, means", "runs", *(f"{look:,}" for look in LOOKS), "costly", "bar met"],
    _rows,
)
