"""How fast large diagrams compile, how small their circuits are, and how fast the best action is found."""

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
COMPILE, NODES = 1.0, 1_000  # the bars: seconds, and nodes of each of the two circuits


def uniform(d: idb.Diagram, rng: np.random.Generator) -> Means:
    """All means, drawn from the uniform prior."""
    return {name: rng.random(table.means_shape) for name, table in d.learned.items()}


def near_the_cascade(d: idb.Diagram, rng: np.random.Generator) -> Means:
    """Attractions from the prior; conditional tables as a learner draws them after 100 rounds in each row."""
    truth = {"click": np.array([[0, 0], [0, 1]]), "examination": np.array([[0, 1], [0, 0]])}
    drawn = {name: rng.beta(1 + 100 * p, 1 + 100 * (1 - p)) for name, p in truth.items()}
    return uniform(d, rng) | drawn


@final
@dataclass(frozen=True)
class Case:
    """A diagram to compile and solve."""

    name: str
    make: Callable[[], idb.Diagram]
    draw: Draw = uniform
    bar: float = 1e-3  # seconds for the best action


def cases() -> Iterator[Case]:
    """All cases: 20 positions × 1,000 items, 1,000 rows × 1,000 columns; 10 positions if all tables are learned."""
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
        yield Case(f"{name}, {tables}", learned, draw, bar=5e-3)
        yield Case(f"{name}, {tables}, repeats", partial(learned, distinct=False), draw, bar=5e-3)


def _rows(quick: bool) -> Iterator[Row]:
    for case in cases():
        yield _row(case, compiles=2 if quick else 7, actions=10 if quick else 50)


def _row(case: Case, compiles: int, actions: int) -> Row:
    rng = np.random.default_rng(0)
    idb.best_action(d := case.make(), case.draw(d, rng))  # Numba compiles before anything is timed
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
        missed.append(f"compiles in {duration(median(compiled))}, bar {duration(COMPILE)}")
    if max(nodes) >= NODES:
        missed.append(f"{max(nodes):,} nodes, bar {NODES:,}")
    if median(times) > case.bar:
        missed.append(f"best action in {duration(median(times))}, bar {duration(case.bar)}")
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
            duration(case.bar),
            f"{exact} of {actions}",
            "no" if missed else "yes",
        ],
        missed,
    )


def _compile(d: idb.Diagram) -> tuple[int, int]:
    """Compile both circuits of a diagram, and count their nodes."""
    model = idb.compile(d)
    return model.likelihood.circuit.inner, model.rewards.circuit.inner


TOPIC = Topic(
    "Circuits of large diagrams",
    "Positions × items, each item at most once unless the line says *repeats*. *Compile*: both circuits, from a "
    "diagram to arrays (bar: 1 s). *Nodes*: of the circuit of the likelihood + of that of the reward (bar: 1,000 "
    "each). *Best action*: under fresh random means each time; the bar is on the median, and each must be proven "
    "exact. *Slowest*: of them all; where others use the machine, a call may wait milliseconds for a core. *First*: "
    "the first one of a diagram, which also prepares the search. Means are uniform; where conditional tables are "
    "learned, *near the cascade* draws them as a learner does after 100 rounds in each row, *any tables* uniformly.",
    ["diagram", "compile", "nodes", "first", "best action", "slowest", "bar", "proven exact", "all bars met"],
    _rows,
)
