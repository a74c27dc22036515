"""Best actions of click models: time, proofs, and distance from the best of all lists."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic, duration
from benchmarks.timing import timed
from idbandits.circuit.circuit import PRODUCT, Circuit

Means = dict[str, np.ndarray]
Draw = Callable[[idb.Diagram, np.random.Generator], Means]
ITEMS, POSITIONS = 10, 5  # of the problems that are also solved by brute force
TARGET, MISSED, PROVEN = 300e-6, 1e-3, 0.95  # seconds, relative loss, share of proofs


def models() -> dict[str, Callable[[int, int], idb.Diagram]]:
    """Return the click models by name."""
    models = idb.models
    return {
        "dynamic Bayesian network": models.dynamic_bayesian,
        "dynamic Bayesian network, clicks": lambda n, k: models.dynamic_bayesian(n, k, reward="clicks"),
        "click chain": models.click_chain,
        "user browsing": models.user_browsing,
        "dependent click": models.dependent_click,
    }


def uniform(d: idb.Diagram, rng: np.random.Generator) -> Means:
    """Draw all means from the uniform prior."""
    return {name: rng.random(table.means_shape) for name, table in d.learned.items()}


def peaked(d: idb.Diagram, rng: np.random.Generator) -> Means:
    """Draw means as estimated from logs: few items attract, most users continue; sometimes rounded, to create ties."""
    means = {}
    for name, table in d.learned.items():
        of_items = name in ("attraction", "satisfaction") and table.means_shape == (d.of_kind("decision")[0].states,)
        drawn = rng.beta(0.3, 3, table.means_shape) if of_items else rng.beta(4, 1, table.means_shape)
        if rng.random() < 0.3:
            drawn = np.round(drawn, 1) + rng.choice([0, 1e-9], table.means_shape)
        means[name] = np.clip(drawn, 0, 1)
    return means


def best_of_all(d: idb.Diagram, means: Means, lists: np.ndarray) -> float:
    """Return the value of the best of all lists by evaluating the reward circuit for all of them at once."""
    model = idb.compile(d)
    c, p = model.rewards.circuit, model.parameter_vector(means)
    values: list[np.ndarray] = [np.ones(lists.shape[1])] * c.leaves
    for n in range(c.inner):
        terms = np.stack([values[c.child[e]] * _weight(c, c.slot[e], p, lists) for e in c.edges(n)])
        values.append(terms.prod(axis=0) if c.kind[n] == PRODUCT else terms.sum(axis=0))
    return float(np.sum([values[c.leaves + last - 1] for last in model.rewards.ends[1:]], axis=0).max())


def _weight(c: Circuit, slot: int, p: np.ndarray, lists: np.ndarray) -> np.ndarray | float:
    weight: np.ndarray | float = 1.0
    while slot >= 0:
        base, strides, place = c.atom(slot)
        index = sum((stride * lists[axis] for axis, stride in strides), np.zeros(lists.shape[1], dtype=np.int64))
        weight = weight * p[base + (np.asarray(c.lookup)[place + index] if place >= 0 else index)]
        slot = c.slot_also[slot]
    return weight


def _rows(quick: bool) -> Iterator[Row]:
    lists = np.array(list(itertools.permutations(range(ITEMS), POSITIONS))).T
    for items, positions in ((ITEMS, POSITIONS), (30, 5), (20, 10), (1000, 10)):
        for name, make in models().items():
            for draw in (uniform, peaked):
                number = (20 if quick else 100) if items <= 30 and positions == 5 else (5 if quick else 20)
                d = make(items, positions)
                yield _row(f"{name}, {items:,} × {positions}", d, draw, number, lists if items == ITEMS else None)


def _row(name: str, d: idb.Diagram, draw: Draw, number: int, lists: np.ndarray | None) -> Row:
    rng = np.random.default_rng(0)
    idb.best_action(d, draw(d, rng))  # compile kernels before timing
    times, proven, gap, missed, wrong = [], 0, 0.0, 0.0, 0
    for _ in range(number):
        means = draw(d, rng)
        solution, seconds = timed(idb.best_action, d, means)
        times.append(seconds)
        proven += solution.exact
        gap = max(gap, (solution.bound - solution.value) / max(solution.value, 1e-300))
        if lists is not None:
            best = best_of_all(d, means, lists)
            missed = max(missed, (best - solution.value) / max(best, 1e-300))
            wrong += solution.bound < best - 1e-9 or (solution.exact and abs(best - solution.value) > 1e-9)
    failures = []
    if lists is not None:
        if median(times) > TARGET:
            failures.append(f"{draw.__name__} means: {duration(median(times))}, target {duration(TARGET)}")
        if proven < PROVEN * number:
            failures.append(f"{draw.__name__} means: {proven} of {number} proven")
        if missed > MISSED or wrong:
            failures.append(f"{draw.__name__} means: a loss of {missed:.2%}, {wrong} wrong proofs or bounds")
    shown = "" if lists is None else f"{missed:.4%}"
    return Row(
        [
            name,
            draw.__name__,
            f"{proven} of {number}",
            f"{gap:.2%}",
            shown,
            duration(median(times)),
            duration(max(times)),
        ],
        failures,
    )


TOPIC = Topic(
    "Best action in click models",
    "Items × positions, no repeated items, default effort. *Uniform* means are drawn from the prior; *peaked* means "
    "resemble estimates from logs: few items attract, most users continue, some means are tied. *Bound*: largest "
    "relative difference between upper bound and value. *Loss*: largest relative difference from the best of all "
    f"30,240 lists. Targets at 10 × 5: {PROVEN:.0%} proven, a loss of at most {MISSED:.1%}, a median of "
    f"{duration(TARGET)}.",
    ["diagram", "means", "proven", "bound", "loss", "best action", "slowest"],
    _rows,
)
