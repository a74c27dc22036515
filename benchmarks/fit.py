"""Goodness of fit: how often `fit_report` rejects a correct structure, and how soon it rejects a wrong one."""

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

RUNS, TARGET = 20, 0.95
LOOKS = (100, 300, 1000, 2000)
ITEMS, POSITIONS = 10, 5
COSTLY = 0.02  # regret per round in the last 1,000 rounds, above which a wrong structure matters
LEARNERS = ("cascade", "position_based")
WORLDS = ("user_browsing", "dynamic_bayesian", "click_chain")
OWN = ("cascade", "position_based", "dependent_click", "dynamic_bayesian", "user_browsing")
KINDS = ("random", "peaked")

Rng: TypeAlias = np.random.Generator
Means: TypeAlias = dict[str, Any]


class Case(NamedTuple):
    """Run of a learner in a world, with a kind of means and a seed."""

    learner: str
    world: str
    kind: str
    seed: int


class Outcome(NamedTuple):
    """P-values at all looks, and regret per round at the end."""

    p_values: list[float]
    regret: float


def peaked_means(model: str, shapes: dict[str, tuple[int, ...]], rng: Rng) -> Means:
    """Draw means like those of search engines: one or two items attract most, and users stop reading."""
    shape = ([0.32, 0.32, 0.19, 0.13], 0.1) if rng.random() < 0.5 else ([0.87, 0.12, 0.06, 0.02], 0.05)
    means: Means = {name: rng.beta(2, 2, size) for name, size in shapes.items()}
    for name in {"attraction", "mean"} & set(shapes):
        few = np.concatenate([shape[0], rng.uniform(0.01, shape[1], ITEMS - 4)]) * rng.uniform(0.7, 1.05, ITEMS)
        means[name] = rng.permutation(few)
    if model == "position_based":
        means["examination"] = np.array([1.0, 0.96, 0.76, 0.59, 0.46]) * rng.uniform(0.9, 1.0, POSITIONS)
    if model == "user_browsing":  # after a click, users continue; without one, they soon stop
        usual = [0.92 * 0.8 ** (k - j - 1) if j else 0.62 ** (k - 1) for k in range(1, POSITIONS + 1) for j in range(k)]
        means["examination"] = np.minimum(usual * rng.uniform(0.85, 1.1, len(usual)), 0.99)
    if model == "dynamic_bayesian":
        means["continuation"] = np.array(rng.uniform(0.7, 0.99))
    if model == "click_chain":
        means["continuation"] = np.array([0.99, 0.94, rng.uniform(0.0, 0.2)])
    return means


def world_of(case: Case, rng: Rng) -> idb.World:
    """Return the world of a case."""
    d = diagram(case.world)
    shapes = {name: table.means_shape for name, table in d.learned.items()}
    means = {name: rng.random(size) for name, size in shapes.items()}
    return idb.World(d, peaked_means(case.world, shapes, rng) if case.kind == "peaked" else means, seed=rng)


def diagram(model: str) -> idb.Diagram:
    """Return a model by name."""
    make: Callable[..., idb.Diagram] = getattr(idb.models, model)
    return make(ITEMS, POSITIONS)


def play(case: Case) -> Outcome:
    """Play a run and compute fit reports at all looks."""
    rng = np.random.default_rng([case.seed, *map(ord, case.world + case.kind)])
    world, agent = world_of(case, rng), idb.Thompson(diagram(case.learner), seed=case.seed)
    p_values, regret = [], 0.0
    for t in range(1, LOOKS[-1] + 1):
        action = agent.act()
        outcome = world.step(action)
        with contextlib.suppress(ImpossibleObservationError):  # counted by the report
            agent.update(action, outcome.observation)
        if t in LOOKS:
            p_values.append(agent.fit_report().p_value)
        if t > LOOKS[-1] - 1000:
            regret += outcome.regret / 1000
    return Outcome(p_values, regret)


def _rows(quick: bool) -> Iterator[Row]:
    runs = 4 if quick else RUNS
    pairs = [(name, name) for name in OWN] + [(learner, world) for learner in LEARNERS for world in WORLDS]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for learner, world in pairs:
            for kind in KINDS:
                cases = [Case(learner, world, kind, seed) for seed in range(runs)]
                yield _row(learner, world, kind, list(pool.map(play, cases)))


def _row(learner: str, world: str, kind: str, runs: Sequence[Outcome]) -> Row:
    least = np.minimum.accumulate([run.p_values for run in runs], axis=1)
    rejected = (least < 0.05).sum(axis=0)
    costly = [run.p_values[-1] < 0.05 for run in runs if run.regret > COSTLY]
    own, number = learner == world, len(runs)
    met = rejected[-1] <= (1 - TARGET) * number if own else sum(costly) >= TARGET * len(costly)
    what = (
        f"{rejected[-1]} of {number} runs reject a correct structure"
        if own
        else f"{sum(costly)} of {len(costly)} rejected"
    )
    cells = [f"{learner} in {world}, {kind}", str(number), *map(str, rejected)]
    return Row(
        [*cells, "–" if own else f"{sum(costly)} of {len(costly)}", "yes" if met else "no"], [] if met else [what]
    )


TOPIC = Topic(
    "Goodness of fit",
    f"Agents of one model in worlds of the same and of other models, {ITEMS} items × {POSITIONS} positions, default "
    f"inference: number of runs, of {RUNS}, in which `fit_report` rejected the structure (p < 0.05) at any look up to "
    "a number of rounds. *Random* means are uniform; *peaked* means resemble those of search engines. *Costly*: "
    f"rejected runs among those that still lose more than {COSTLY:g} per round in the last 1,000 rounds. Targets: a "
    f"correct structure is rejected in at most {1 - TARGET:.0%} of the runs; of costly runs, {TARGET:.0%} are "
    "rejected.",
    ["learner in world, means", "runs", *(f"{look:,}" for look in LOOKS), "costly", "target met"],
    _rows,
)
