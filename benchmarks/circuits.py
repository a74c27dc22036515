"""Size and compile time of circuits of large diagrams, and time to find the best action."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import final

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic, duration
from benchmarks.timing import timed

Means = dict[str, np.ndarray]
Draw = Callable[[idb.Diagram, np.random.Generator], Means]
COMPILE, NODES = 1.0, 1_000  # targets: seconds, and nodes of each of the two circuits


def uniform(d: idb.Diagram, rng: np.random.Generator) -> Means:
    """Draw all means from the uniform prior."""
    return {name: rng.random(table.means_shape) for name, table in d.learned.items()}


def near_the_cascade(d: idb.Diagram, rng: np.random.Generator) -> Means:
    """Draw attractions from the prior and conditional tables from the belief after 100 rounds in each row."""
    truth = {"click": np.array([[0, 0], [0, 1]]), "examination": np.array([[0, 1], [0, 0]])}
    drawn = {name: rng.beta(1 + 100 * p, 1 + 100 * (1 - p)) for name, p in truth.items()}
    return uniform(d, rng) | drawn


@final
@dataclass(frozen=True)
class Case:
    """Diagram to compile and solve."""

    name: str
    make: Callable[[], idb.Diagram]
    draw: Draw = uniform
    target: float = 1e-3  # seconds for the best action


def cases() -> Iterator[Case]:
    """Yield all cases: 20 positions × 1,000 items, rank-1 1,000 × 1,000, and 10 positions if all tables are learned."""
    models = idb.models
    for name, model in (
        ("cascade", models.cascade),
        ("position-based", models.position_based),
        ("semi-bandit", models.semi_bandit),
        ("dependent click, satisfaction", partial(models.dependent_click, reward="satisfaction")),
    ):
        yield Case(f"{name}, 20 × 1,000", partial(model, 1000, 20))
        yield Case(f"{name}, 20 × 1,000, repeats", partial(model, 1000, 20, distinct=False))
    yield Case("rank-1, 1,000 × 1,000", partial(models.rank1, 1000, 1000))
    learned = partial(models.cascade, 1000, 10, learn_conditionals=True)
    name = "cascade, learned conditionals, 10 × 1,000"
    for tables, draw in (("near the cascade", near_the_cascade), ("any tables", uniform)):
        yield Case(f"{name}, {tables}", learned, draw, target=5e-3)
        yield Case(f"{name}, {tables}, repeats", partial(learned, distinct=False), draw, target=5e-3)


def _rows(quick: bool) -> Iterator[Row]:
    for case in cases():
        yield _row(case, compiles=2 if quick else 7, actions=10 if quick else 50)


def _row(case: Case, compiles: int, actions: int) -> Row:
    rng = np.random.default_rng(0)
    idb.best_action(d := case.make(), case.draw(d, rng))  # compile kernels before timing
    compiled, first = [], []
    for _ in range(compiles):
        d = case.make()
        nodes, seconds = timed(_compile, d)
        compiled.append(seconds)
        first.append(timed(idb.best_action, d, case.draw(d, rng))[1])
    times, exact, gap = [], 0, 0.0
    for _ in range(actions):
        solution, seconds = timed(idb.best_action, d, case.draw(d, rng))
        times.append(seconds)
        exact += solution.exact
        gap = max(gap, solution.bound / solution.value - 1)
    missed = []
    if median(compiled) >= COMPILE:
        missed.append(f"compiles in {duration(median(compiled))}, target {duration(COMPILE)}")
    if max(nodes) >= NODES:
        missed.append(f"{max(nodes):,} nodes, target {NODES:,}")
    if median(times) > case.target:
        missed.append(f"best action in {duration(median(times))}, target {duration(case.target)}")
    if exact < actions:
        missed.append(f"proven exact {exact} times of {actions}; the bound is at most {gap:.1%} above the value found")
    return Row(
        [
            case.name,
            duration(median(compiled)),
            f"{nodes[0]} + {nodes[1]}",
            duration(median(first)),
            duration(median(times)),
            duration(max(times)),
            duration(case.target),
            f"{exact} of {actions}",
            "no" if missed else "yes",
        ],
        missed,
    )


def _compile(d: idb.Diagram) -> tuple[int, int]:
    """Compile both circuits of a diagram and return their numbers of nodes."""
    model = idb.compile(d)
    return model.likelihood.circuit.inner, model.rewards.circuit.inner


TOPIC = Topic(
    "Circuits of large diagrams",
    "Positions × items, each item at most once unless a row says *repeats*. *Compile*: both circuits (target: 1 s). "
    "*Nodes*: circuit of the likelihood + circuit of the reward (target: 1,000 each). *Best action*: under new random "
    "means each time; the target is for the median, and each action must be proven to be the best. *First*: the first "
    "call for a diagram, which also prepares the search. Means are uniform; with learned conditional tables, *near the "
    "cascade* draws them from the belief after 100 rounds in each row, *any tables* draws them uniformly.",
    ["diagram", "compile", "nodes", "first", "best action", "slowest", "target", "proven", "targets met"],
    _rows,
)
