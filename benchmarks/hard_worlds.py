"""Latent classes and dominating items: problems in which approximate inference can settle on a wrong action."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import idbandits as idb
from benchmarks.problems import FULL, Problem
from benchmarks.report import Row, Topic

ROUNDS = 10_000
CLASS_RUNS, DOMINATED_RUNS = 12, 30
DEFAULT = "default"
STUCK = 15.0  # regret in the last 1,000 rounds of a stuck run
MOST_STUCK = 1  # of all runs in worlds with a dominating item


def latent_class(cards: int, slots: int, classes: int, contexts: int = 0) -> idb.Diagram:
    """Return a diagram of cards whose appeal depends on a latent mood; the reward is whether any card was clicked."""
    d = idb.Diagram("latent class")
    segment = [d.context("segment", contexts)] if contexts else []
    mood = d.latent("mood", segment, idb.Learned("mood"), states=classes)
    appeal = idb.Learned("appeal")
    clicks = [d.observed(f"C{k}", [d.decision(f"A{k}", cards), mood], appeal) for k in range(1, slots + 1)]
    d.reward(clicks, lambda *clicked: float(any(clicked)))
    d.all_different()
    return d


def _specialised(cards: int, classes: int, low: float, seed: int) -> Any:
    """Return means in which every card appeals to one class."""
    appeal = np.full((cards, classes), low)
    appeal[np.arange(cards), np.arange(cards) % classes] = np.random.default_rng(seed).uniform(0.5, 0.9, cards)
    return appeal


def latent_classes() -> Iterator[Problem]:
    """Yield problems with two to four classes, with and without a context."""
    two = [[0.05, 0.9], [0.05, 0.9], [0.05, 0.85], [0.8, 0.05], [0.75, 0.05], [0.8, 0.05]]
    yield Problem("2 classes, 2 of 6 cards", latent_class(6, 2, 2), {"mood": 0.5, "appeal": two})
    three = {"mood": [0.4, 0.35, 0.25], "appeal": _specialised(9, 3, 0.05, 1)}
    yield Problem("3 classes, 3 of 9 cards", latent_class(9, 3, 3), three)
    four = {"mood": [0.3, 0.3, 0.2, 0.2], "appeal": _specialised(8, 4, 0.05, 2)}
    yield Problem("4 classes, 2 of 8 cards", latent_class(8, 2, 4), four)
    segments = {"mood": [0.85, 0.2], "appeal": _specialised(8, 2, 0.1, 3)}
    yield Problem("2 classes, 2 of 8 cards, 2 segments", latent_class(8, 2, 2, 2), segments)
    moods = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]]
    both = {"mood": moods, "appeal": _specialised(10, 3, 0.1, 4)}
    yield Problem("3 classes, 2 of 10 cards, 3 segments", latent_class(10, 2, 3, 3), both)


def dominated() -> Iterator[Problem]:
    """Yield position-based problems with one item far better than the others and similar first positions."""
    d = idb.models.position_based(10, 5)
    for number, (attraction, examination) in enumerate(
        [
            ([0.87, 0.12, 0.06, 0.02, 0.02, 0.015, 0.01, 0.01, 0.005, 0.005], [1.0, 0.96, 0.76, 0.59, 0.46]),
            ([0.8, 0.2, 0.1, 0.05, 0.04, 0.03, 0.02, 0.02, 0.01, 0.01], [0.99, 0.95, 0.8, 0.6, 0.5]),
            ([0.9, 0.3, 0.08, 0.05, 0.03, 0.02, 0.01, 0.01, 0.01, 0.005], [0.98, 0.97, 0.85, 0.55, 0.4]),
        ],
        start=1,
    ):
        yield Problem(f"dominating item {number}", d, {"attraction": attraction, "examination": examination})


def _rows(quick: bool) -> Iterator[Row]:
    runs = 3 if quick else CLASS_RUNS
    for p in latent_classes():
        agents = {FULL: idb.Thompson(p.diagram.revealed(), "exact"), DEFAULT: idb.Thompson(p.diagram)}
        agents |= {name: idb.Thompson(p.diagram, name) for name in ("ep", "moments", "variational")}
        result = idb.simulate(p.world(), agents, rounds=ROUNDS, runs=runs, seed=11, progress=False)
        full = float(result.summary().set_index("learner").loc[FULL, "regret_mean"])
        for name in agents:
            yield _row(p.name, name, result, 2 * full + 20, 5 * full)
    runs, stuck = 3 if quick else DOMINATED_RUNS, 0
    for p in dominated():
        agents = {name: idb.Thompson(p.diagram, name) for name in ("ep", "moments", "variational")}
        agents = {DEFAULT: idb.Thompson(p.diagram), **agents}
        result = idb.simulate(p.world(), agents, rounds=ROUNDS, runs=runs, seed=12, progress=False, checkpoints=10)
        for name in agents:
            row = _row(p.name, name, result, np.inf, np.inf)
            stuck += _stuck(result, name) if name == DEFAULT else 0
            missed = [f"{stuck} runs are stuck, target {MOST_STUCK}"] if stuck > MOST_STUCK and name == DEFAULT else []
            yield Row(row.cells, missed)


def _stuck(result: idb.Result, name: str) -> int:
    by_round = result.frame[result.frame["learner"] == name].pivot(index="run", columns="round", values="regret")
    return int((by_round.iloc[:, -1] - by_round[ROUNDS - 1000] > STUCK).sum())


def _row(where: str, who: str, result: idb.Result, mean_target: float, worst_target: float) -> Row:
    s: Any = result.summary().set_index("learner").loc[who]
    missed = []
    if who == DEFAULT and s["regret_mean"] > mean_target:
        missed.append(f"mean regret {s['regret_mean']:.0f}, target {mean_target:.0f}")
    if who == DEFAULT and s["worst_regret"] > worst_target:
        missed.append(f"worst regret {s['worst_regret']:.0f}, target {worst_target:.0f}")
    return Row(
        [
            where,
            who,
            f"{s['runs']}",
            f"{s['regret_mean']:.0f} ± {s['regret_se']:.0f}",
            f"{s['worst_regret']:.0f}",
            f"{_stuck(result, who)}",
            f"{s['seconds_mean'] / ROUNDS * 1e6:.0f}",
        ],
        missed,
    )


TOPIC = Topic(
    "Latent classes and dominating items",
    f"Runs of {ROUNDS:,} rounds. In the first worlds, the appeal of cards depends on the latent mood of the user, "
    "which is never observed; the reward is whether any card was clicked. In the last, a position-based model with "
    "10 items and 5 positions, one item is far better than the others. *idTSfull* observes the latent nodes. "
    f"*Stuck*: runs that lose more than {STUCK:g} in the last 1,000 rounds. *µs*: per round, including the world. "
    "Targets for the default: with latent classes, a mean regret of at most 2 × idTSfull + 20 and no run above 5 × "
    f"idTSfull; with a dominating item, at most {MOST_STUCK} stuck run in all.",
    ["world", "learner", "runs", "regret", "worst", "stuck", "µs"],
    _rows,
)
