"""Comparison of models: how often `compare` names the model that a log was drawn from."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic
from benchmarks.sampled_logs import random_lists, sampled
from idbandits.circuit.model import compile
from idbandits.kernel.array_types import Rng
from idbandits.logs.compare import Comparison, compare
from idbandits.logs.rounds import Rounds

LOGS, SESSIONS, POSITIONS = 24, 100_000, 5
ITEMS = (20, 50)
MODELS = ("cascade", "position_based", "user_browsing", "dependent_click", "dynamic_bayesian", "click_chain")
KINDS = ("plain", "rare", "nearly simpler")
UNDECIDED = "undecided"
NAMED, WRONG = 0.95, 0.01  # shares of logs: right or undecided, and wrong


class Case(NamedTuple):
    """Log of a model with a kind of means; the seed also draws the number of items."""

    world: str
    kind: str
    seed: int
    sessions: int = SESSIONS


def cases(number: int, sessions: int = SESSIONS) -> list[Case]:
    """Return cases that go through all models, and all kinds of means of each."""
    settings = [(world, kind) for kind in KINDS for world in MODELS]
    return [Case(*settings[seed % len(settings)], seed, sessions) for seed in range(number)]


def diagram(model: str, items: int) -> idb.Diagram:
    """Return a model by name."""
    make: Callable[..., idb.Diagram] = getattr(idb.models, model)
    return make(items, POSITIONS)


def means_of(d: idb.Diagram, case: Case, rng: Rng) -> dict[str, Any]:
    """Draw means: clicks are frequent, rare as in most logs, or the model is nearly a simpler one."""
    shapes = {name: table.means_shape for name, table in d.learned.items()}
    means: dict[str, Any] = {name: rng.uniform(0.1, 0.9, size) for name, size in shapes.items()}
    means["attraction"] = rng.uniform(0.05, 0.6, shapes["attraction"])
    if case.kind == "rare":
        means["attraction"] = rng.beta(1, 15, shapes["attraction"])
    elif case.kind == "nearly simpler":
        means |= _nearly_simpler(case.world, shapes, rng)
    return means


def _nearly_simpler(world: str, shapes: dict[str, tuple[int, ...]], rng: Rng) -> dict[str, Any]:
    """Draw means with which a model nearly is a simpler one."""
    if world == "position_based":  # examination hardly differs between positions
        return {"examination": rng.uniform(0.9, 1.0, shapes["examination"])}
    if world == "user_browsing":  # examination hardly depends on clicks above
        by_position = rng.uniform(0.3, 0.9, POSITIONS)
        rows = [by_position[k] for k in range(POSITIONS) for _ in range(k + 1)]
        return {"examination": np.array(rows) + rng.normal(0, 0.03, len(rows))}
    if world == "dependent_click":  # nearly all users go on, or nearly all leave
        leaving = rng.uniform(0.0, 0.05, shapes["satisfaction"])
        return {"satisfaction": leaving if rng.random() < 0.5 else 1 - leaving}
    if world == "dynamic_bayesian":  # all items satisfy nearly alike
        common = rng.uniform(0.2, 0.8)
        satisfaction = common + rng.uniform(-0.1, 0.1, shapes["satisfaction"])
        return {"satisfaction": satisfaction, "continuation": np.array(rng.uniform(0.9, 1.0))}
    if world == "click_chain":  # relevance hardly matters after a click
        common = rng.uniform(0.3, 0.8)
        return {"continuation": np.array([rng.uniform(0.9, 1.0), common, common + rng.uniform(-0.1, 0.1)])}
    return {"attraction": rng.uniform(0.0, 0.1, shapes["attraction"])}


def drawn(case: Case) -> tuple[Rounds, int]:
    """Return a log of random lists, and the number of items."""
    rng = np.random.default_rng([case.seed, *map(ord, case.world + case.kind)])
    items = int(rng.integers(ITEMS[0], ITEMS[1] + 1))
    d, lists = diagram(case.world, items), random_lists(case.sessions, items, POSITIONS, rng)
    states = sampled(d, means_of(d, case, rng), {f"A{k + 1}": lists[:, k] for k in range(POSITIONS)}, rng)
    seen = np.stack([states[node.name] for node in compile(d).observed], axis=1).astype(np.int64)
    return Rounds(lists, seen, np.arange(case.sessions)), items


def compared(case: Case) -> Comparison:
    """Compare all models on a log: fitted to its first half, they predict the other."""
    rounds, items = drawn(case)
    return compare({name: diagram(name, items) for name in MODELS}, rounds, folds=1, by="time", seed=case.seed)


def answer(case: Case) -> str:
    """Return the model that is named, or "undecided"."""
    return compared(case).best or UNDECIDED


def _rows(quick: bool) -> Iterator[Row]:
    number, sessions = (6, 10_000) if quick else (LOGS, SESSIONS)
    every = cases(number, sessions)
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        answers = dict(zip(every, pool.map(answer, every), strict=True))
    for world in MODELS:
        yield row_of(world, [own for case, own in answers.items() if case.world == world])
    yield _total([(case.world, own) for case, own in answers.items()])


def row_of(world: str, answers: Sequence[str]) -> Row:
    """Return how often a model was named, and what was named instead."""
    wrong = Counter(own for own in answers if own not in (world, UNDECIDED))
    cells = [world.replace("_", " "), len(answers), answers.count(world), answers.count(UNDECIDED), wrong.total()]
    named = ", ".join(name.replace("_", " ") for name in wrong) or "–"
    return Row([*map(str, cells), named])


def _total(answers: Sequence[tuple[str, str]]) -> Row:
    """Return the sums of all models, and targets that are missed."""
    number, right = len(answers), sum(world == own for world, own in answers)
    undecided = sum(own == UNDECIDED for _, own in answers)
    wrong = number - right - undecided
    missed = [] if wrong <= max(1, round(WRONG * number)) else [f"{wrong} wrong answers"]
    if right + undecided < NAMED * number:
        missed.append(f"right or undecided in {(right + undecided) / number:.0%} of logs, target {NAMED:.0%}")
    return Row(["all", str(number), str(right), str(undecided), str(wrong), "–"], missed)


TOPIC = Topic(
    "Comparison of models",
    f"Answers of `compare` about {LOGS} logs of {SESSIONS:,} sessions ({ITEMS[0]} to {ITEMS[1]} items, {POSITIONS} "
    "positions, random lists), each drawn from one of six models and compared with all of them and the baselines; "
    "models are fitted to the first half and predict the other. Means are drawn in three ways: uniformly; with rare "
    "clicks; and such that the model is nearly a simpler one. Right or undecided in at least 95 % of logs, and a "
    "wrong model is named at most once.",
    ("drawn from", "logs", "right", "undecided", "wrong", "named instead"),
    _rows,
)
