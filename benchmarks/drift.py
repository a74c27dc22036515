"""Forgetting: regret with and without it, in changing and in constant worlds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic
from idbandits import Diagram, Forget, models
from idbandits.kernel.array_types import Floats, Rng

ITEMS, POSITIONS, PHASES = 20, 4, 5
ROUNDS, WORLDS, RUNS = 100_000, 3, 2  # RUNS in each world
STAYS = ROUNDS // PHASES  # average rounds between changes
SHARE, BEYOND = 4, 4  # recommended half-life: STAYS / SHARE; BEYOND * ROUNDS if nothing changes
CHANGING, CONSTANT = 0.5, 1.2  # targets: ratio to the regret without forgetting

Means: TypeAlias = Mapping[str, Floats]


def attraction(rng: Rng) -> Floats:
    """Draw the attraction of all items: about evenly spaced from 0.05 to 0.5, in random order."""
    return rng.permutation(np.clip(np.linspace(0.05, 0.5, ITEMS) + rng.normal(0, 0.02, ITEMS), 0.01, 0.6))


class Kind(NamedTuple):
    """Model, and a function that draws its means."""

    diagram: Diagram
    draw: Callable[[Rng], Means]


def kinds() -> dict[str, Kind]:
    """Return the models by name."""
    shape = ITEMS, POSITIONS
    return {
        "semi-bandit": Kind(models.semi_bandit(*shape), lambda rng: {"mean": attraction(rng)}),
        "cascade": Kind(models.cascade(*shape), lambda rng: {"attraction": attraction(rng)}),
        "position-based": Kind(
            models.position_based(*shape),
            lambda rng: {"attraction": attraction(rng), "examination": np.array([0.9, 0.7, 0.5, 0.3])},
        ),
        "dependent click": Kind(
            models.dependent_click(*shape),
            lambda rng: {"attraction": attraction(rng), "satisfaction": rng.uniform(0.2, 0.6, POSITIONS)},
        ),
    }


def in_phases(kind: Kind, rounds: int, seed: int) -> idb.World:
    """Return a world whose attraction changes abruptly in four random rounds."""
    rng = np.random.default_rng(seed)
    phases = [kind.draw(rng) for _ in range(PHASES)]
    edges = np.sort(rng.uniform(0, 1 - 0.1, PHASES - 1)) + 0.1 * np.arange(1, PHASES) / PHASES
    changes = (edges * rounds).astype(int)
    return idb.World(kind.diagram, lambda t: phases[int(np.searchsorted(changes, t, side="right"))])


def constant(kind: Kind, seed: int) -> idb.World:
    """Return a world that never changes."""
    return idb.World(kind.diagram, kind.draw(np.random.default_rng(seed)))


class Played(NamedTuple):
    """Total regrets of runs by learner."""

    regrets: Mapping[str, Floats]

    def ratio(self, learner: str) -> tuple[float, float]:
        """Return the ratio of mean regrets to those without forgetting, and its standard error (delta method)."""
        mine, other = self.regrets[learner], self.regrets["never"]
        ratio = float(mine.mean() / other.mean())
        return ratio, float((mine - ratio * other).std(ddof=1) / np.sqrt(len(mine)) / other.mean())


def play(worlds: list[idb.World], half_lives: Mapping[str, int], rounds: int, runs: int, **settings: Any) -> Played:
    """Simulate agents with and without forgetting in all worlds."""
    d = worlds[0].diagram
    learners = {"never": idb.Thompson(d, **settings)}
    learners |= {name: idb.Thompson(d, forget=Forget(h), **settings) for name, h in half_lives.items()}
    regrets_of: dict[str, list[Floats]] = {name: [] for name in learners}
    for seed, world in enumerate(worlds):
        frame = idb.simulate(world, learners, rounds, runs, seed, progress=False, checkpoints=1).frame
        for name, regrets in regrets_of.items():
            regrets.append(frame[frame["learner"] == name]["regret"].to_numpy())
    return Played({name: np.concatenate(regrets) for name, regrets in regrets_of.items()})


def _rows(quick: bool) -> Iterator[Row]:
    rounds, number, runs = (10_000, 1, 2) if quick else (ROUNDS, WORLDS, RUNS)
    stays = rounds // PHASES
    for name, kind in kinds().items():
        seeds = range(100, 100 + number)
        changing = play([in_phases(kind, rounds, seed) for seed in seeds], {"advice": stays // SHARE}, rounds, runs)
        yield _row(name, f"{PHASES} phases", changing, "advice", stays // SHARE, CHANGING)
        half_lives = {"advice": BEYOND * rounds, "too short": stays // SHARE}
        still = play([constant(kind, seed) for seed in seeds], half_lives, rounds, runs)
        yield _row(name, "constant", still, "advice", half_lives["advice"], CONSTANT)
        yield _row(name, "constant", still, "too short", half_lives["too short"], None)


def _row(name: str, world: str, played: Played, learner: str, half_life: int, target: float | None) -> Row:
    ratio, error = played.ratio(learner)
    missed = (
        [f"{ratio:.2f} times the regret in a world of {world}, target {target:g}"] if target and ratio > target else []
    )
    both = [played.regrets["never"], played.regrets[learner]]
    return Row(
        [
            name, world, f"{half_life:,}", *(f"{r.mean():.0f} ± {r.std(ddof=1) / np.sqrt(len(r)):.0f}" for r in both),
            f"{ratio:.2f} ± {error:.2f}", "–" if target is None else f"{target:g}",
            "–" if target is None else "no" if missed else "yes",
        ],
        missed,
    )  # fmt: skip


TOPIC = Topic(
    "Forgetting in changing and constant worlds",
    f"Regret of `Thompson` with `forget=idb.Forget(half_life)` relative to no forgetting, default inference, {ITEMS} "
    f"items × {POSITIONS} positions, {WORLDS * RUNS} runs of {ROUNDS:,} rounds in {WORLDS} worlds. With {PHASES} "
    "phases, all attraction changes four times, in random rounds. Half-lives are those that docs/how-to/drift.md "
    "recommends: a quarter of the average time between changes, and four times the length of the run in constant "
    "worlds. The last row of each model has the short half-life in constant worlds: the cost of expecting changes "
    "that never happen.",
    ["model", "world", "half-life", "regret without", "regret", "ratio", "target", "target met"],
    _rows,
)
